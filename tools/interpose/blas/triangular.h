/* SPDX-License-Identifier: BSD-3-Clause
 * trmm and trsm with the triangle on the right are reduced to the left: B op(A) is the transpose of
 * op(A)^T B^T. */
#ifndef LIMBER_BLAS_TRIANGULAR_H
#define LIMBER_BLAS_TRIANGULAR_H

#include "product.h"

struct triangular {
    struct view a, b;       /* n x n, n x wide */
    bool upper;
    int64_t n, wide;
};

static inline struct triangular limber_blas_triangular(const struct request *r)
{
    bool left = r->side == 'L';
    struct view a = limber_blas_view(r, &r->a), b = limber_blas_view(r, &r->b);

    return (struct triangular){ left ? a : limber_blas_transposed(a),
                                left ? b : limber_blas_transposed(b),
                                (r->uplo == 'U') ^ (r->a.op != 'N') ^ !left, r->k,
                                left ? r->n : r->m };
}

/* substitute.c: solves rows [i, i + p) of the triangle by substitution in a stated order of sums,
 * for p up to LIMBER_BLAS_SUBSTITUTE.  The right side is multiplied by alpha first. */
enum { LIMBER_BLAS_SUBSTITUTE = 32 };
void limber_blas_solve_small(const struct job *j, const struct triangular *t, int64_t i, int64_t p,
                             const union scalar *alpha);

#endif
