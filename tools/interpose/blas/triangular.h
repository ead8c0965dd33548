/* SPDX-License-Identifier: BSD-3-Clause
 * trmm and trsm with the triangle on the right are reduced to the left: B op(A) is the transpose of
 * op(A)^T B^T. */
#ifndef LIMBER_BLAS_TRIANGULAR_H
#define LIMBER_BLAS_TRIANGULAR_H

#include "product.h"

/* The operands of trmm or trsm. */
struct triangular {
    struct view a, b;       /* a: n x n, triangular; b: n x wide, the right sides */
    bool upper;
    int64_t n, wide;
};

/* The triangle and the right-hand sides of trsm or trmm, transposed if the triangle is on the
 * right. */
static inline struct triangular limber_blas_triangular(const struct request *r)
{
    bool left = r->side == 'L';
    struct view a = limber_blas_view(r, &r->a), b = limber_blas_view(r, &r->b);

    return (struct triangular){ left ? a : limber_blas_transposed(a),
                                left ? b : limber_blas_transposed(b),
                                (r->uplo == 'U') ^ (r->a.op != 'N') ^ !left, r->k,
                                left ? r->n : r->m };
}

/* substitute.c: solves rows [i, i + p) of the triangle by substitution, with sums in a fixed order.
 * p is at most LIMBER_BLAS_SUBSTITUTE.  The right-hand sides are multiplied by alpha first. */
enum { LIMBER_BLAS_SUBSTITUTE = 32 };
void limber_blas_solve_small(const struct active_request *j, const struct triangular *t, int64_t i,
                             int64_t p, const union scalar *alpha);

#endif
