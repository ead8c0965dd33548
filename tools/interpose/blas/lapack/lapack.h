/* SPDX-License-Identifier: BSD-3-Clause
 * LAPACK routines that use Limber's level 3 products.  The LAPACK behind computes small blocks.
 * All matrices are column-major. */
#ifndef LIMBER_BLAS_LAPACK_H
#define LIMBER_BLAS_LAPACK_H

#include "../product.h"

enum { LAPACK_BLOCK = 32 };

/* Looks up a routine without its type's letter ("getrf") in the LAPACK or BLAS behind.  NULL: not
 * found; the job has the reason. */
void *limber_lapack_behind(struct job *j, const char *routine);

/* Arguments of trsm: op(A) X = alpha B on the left, X op(A) = alpha B on the right.  B is m x n and
 * becomes X. */
struct triangle_solve {
    char side, uplo, op, diag;
    int64_t m, n;
    double alpha;
    struct view a, b;
};
bool limber_lapack_solve(struct job *j, const struct triangle_solve *s);

/* c += alpha a b for the matrices that the views describe. */
bool limber_lapack_update(struct job *j, int64_t m, int64_t n, int64_t k, double alpha,
                          struct view a, struct view b, struct view c);

/* The conjugate transpose, for real matrices the transpose: of a view, and as a letter of op. */
struct view limber_lapack_adjoint(struct view v);
static inline char limber_lapack_adjoint_letter(const struct job *j)
{
    return j->is_complex ? 'C' : 'T';
}

/* Sets info, and stores the length of the work array in its first element. */
void limber_lapack_set_results(const struct job *j, int64_t info);

bool limber_lapack_lu(struct job *j); /* getrf, getrs, gesv, getri */
bool limber_lapack_cholesky(struct job *j); /* potrf, potrs, posv */
bool limber_lapack_invert(struct job *j); /* trtri */
bool limber_lapack_qr(struct job *j); /* geqrf, ormqr, orgqr */

/* Inverts a triangle in place; its diagonal has no zero. */
bool limber_lapack_invert_triangle(struct job *j, char uplo, char diag, int64_t n, struct view a);
/* Position, counted from 1, of the first zero on a diagonal; 0: none. */
int64_t limber_lapack_zero(const struct job *j, int64_t n, struct view a);

#endif
