/* SPDX-License-Identifier: BSD-3-Clause
 * Products of complex matrices as real ones.  Elements are pairs (re, im); strides count pairs. */
#ifndef LIMBER_JIT_COMPLEX_H
#define LIMBER_JIT_COMPLEX_H

#include "jit/api/api.h"

/* A complex matrix; conj: its conjugate is meant. */
struct pairs {
    limber_matrix m;
    bool conj;
};

/* A call whose arguments are checked.  If the columns of C were contiguous it is transposed, so
 * that its rows are. */
struct complex_product {
    limber_context *ctx;
    limber_contract contract;
    const limber_queue *queue;
    int64_t m, n, k;
    struct pairs a, b;
    limber_output c;
    const char *alpha, *beta;   /* pairs; NULL: 1, 0 */
    struct report *report;
    limber_batch batch;         /* products in device memory, all at once; count 0: no batch */
};

static inline int64_t limber_complex_products(const struct complex_product *x)
{
    return x->batch.count ? x->batch.count : 1;
}

/* The terms of C = alpha A B + beta C: for every element the pair of A B and, with beta, of C. */
struct terms {
    char *data;
    limber_format f;            /* format of the terms: C's, or i64 for integers */
    int64_t width;              /* numbers per element: 2 or 4 */
    char *factors;              /* alpha and beta on the device; NULL: in host memory */
};
bool limber_terms_new(struct terms *t, const struct complex_product *x, struct diag *d);
/* Computes C = alpha A B + beta C from the terms, and frees them. */
bool limber_terms_finish(struct terms *t, const struct complex_product *x, struct diag *d);
void limber_terms_drop(struct terms *t, const struct complex_product *x);

/* Runs fn for every task, on several threads if there are enough elements. */
void limber_complex_share(limber_context *ctx, int64_t tasks, int64_t elements,
                          void (*fn)(void *arg, int64_t task, int worker), void *arg);
/* Memory for rows x cols elements; NULL with a text about `what`. */
void *limber_complex_memory(const limber_context *ctx, int64_t rows, int64_t cols, limber_format f,
                            const char *what, struct diag *d);

/* Negates the number at `at`.  False for an integer whose negative does not fit. */
void limber_negate_float(char *at, limber_format f);
bool limber_negate_integer(char *at, int size);

/* complex3.c: computes it with three real products. */
bool limber_complex_three(const struct complex_product *x, struct diag *d);

#endif
