/* SPDX-License-Identifier: BSD-3-Clause
 * LAPACK's routines on the products of level 3.  The LAPACK behind computes small blocks.  All
 * matrices lie by columns. */
#ifndef LIMBER_BLAS_LAPACK_H
#define LIMBER_BLAS_LAPACK_H

#include "../product.h"

enum { LAPACK_BLOCK = 32 };

/* A function of LAPACK or of the BLAS behind, by its name without the letter of its type ("getrf").
 * NULL: there is none; the job has the reason. */
void *limber_lapack_behind(struct job *j, const char *routine);

/* op(A) X = alpha B on the left, X op(A) = alpha B on the right; B is m x n and becomes X. */
struct triangle_solve {
    char side, uplo, op, diag;
    int64_t m, n;
    double alpha;
    struct view a, b;
};
bool limber_lapack_solve(struct job *j, const struct triangle_solve *s);

/* c += alpha a b, without transposition of what the views say. */
bool limber_lapack_update(struct job *j, int64_t m, int64_t n, int64_t k, double alpha,
                          struct view a, struct view b, struct view c);

/* Conjugate transpose, of real matrices transpose: views, and letters for routines. */
struct view limber_lapack_adjoint(struct view v);
static inline char limber_lapack_adjoint_letter(const struct job *j)
{
    return j->is_complex ? 'C' : 'T';
}

/* Sets info, and the first element of a work array to its length. */
void limber_lapack_set_results(const struct job *j, int64_t info);

bool limber_lapack_lu(struct job *j); /* getrf, getrs, gesv, getri */
bool limber_lapack_cholesky(struct job *j); /* potrf, potrs, posv */
bool limber_lapack_invert(struct job *j); /* trtri */
bool limber_lapack_qr(struct job *j); /* geqrf, ormqr, orgqr */

/* A := the inverse of the triangle; it has no zero on its diagonal. */
bool limber_lapack_invert_triangle(struct job *j, char uplo, char diag, int64_t n, struct view a);
/* The position, from 1, of the first zero of a diagonal; 0: there is none. */
int64_t limber_lapack_zero(const struct job *j, int64_t n, struct view a);

#endif
