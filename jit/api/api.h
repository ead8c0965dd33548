/* SPDX-License-Identifier: BSD-3-Clause
 * What the public calls share: errors, checks of arguments, and the way to a problem. */
#ifndef LIMBER_JIT_API_H
#define LIMBER_JIT_API_H

#include "jit/engine.h"

/* check.c: what gemm and conv ask of their arguments.  `what` names the argument. */
bool limber_check_contract(const limber_contract *k, limber_format c, struct diag *d);
bool limber_check_format(limber_format f, const char *what, struct diag *d);
/* rows x cols elements in this matrix: format, strides, index arithmetic. */
bool limber_check_matrix(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                         struct diag *d);
bool limber_check_data(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                       struct diag *d);
/* No two of the matrix' elements share memory. */
bool limber_check_distinct(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                           struct diag *d);
/* The two matrices share no memory. */
struct extent {
    const limber_matrix *m;
    const char *what;
    int64_t rows, cols;
};
bool limber_check_apart(struct extent c, struct extent x, struct diag *d);
/* gemm.c: C = alpha A B + beta C as the public calls state it. */
struct product {
    int64_t m, n, k;
    const void *alpha, *beta;
    limber_matrix a, b, c;
};
/* All but where the matrices lie. */
bool limber_check_product(const limber_context *ctx, const limber_contract *contract,
                          const struct product *x, struct diag *d);
/* Where the matrices of one product lie. */
bool limber_check_addresses(const struct product *x, struct diag *d);
struct problem limber_problem_of(const limber_contract *contract, const struct product *x);

#endif
