/* SPDX-License-Identifier: BSD-3-Clause
 * LAPACK routines, recursive on Limber's level 3 products.  Blocks of up to LAPACK_BLOCK columns
 * are computed by the LAPACK to which calls are forwarded.  All matrices are column-major. */
#ifndef LIMBER_BLAS_LAPACK_H
#define LIMBER_BLAS_LAPACK_H

#include "../product.h"

enum { LAPACK_BLOCK = 32 };

/* Looks up a routine, such as "getrf", of the request's type in the other LAPACK or BLAS.  Returns
 * NULL and sets the request's reason if it is not found. */
void *limber_lapack_behind(struct active_request *j, const char *routine);

/* Arguments of trsm: solves op(A) X = alpha B (side L) or X op(A) = alpha B (side R).  X replaces
 * B, which is m x n. */
struct triangle_solve {
    char side, uplo, op, diag;
    int64_t m, n;
    double alpha;
    struct view a, b;
};
bool limber_lapack_solve(struct active_request *j, const struct triangle_solve *s);

/* Computes c += alpha a b, where c is m x n. */
bool limber_lapack_update(struct active_request *j, int64_t m, int64_t n, int64_t k, double alpha,
                          struct view a, struct view b, struct view c);

/* Returns the conjugate transpose of a view; for real matrices, which ignore `conj`, the
 * transpose. */
struct view limber_lapack_adjoint(struct view v);
/* Returns the letter of op for a conjugate transpose, or for real matrices a transpose. */
static inline char limber_lapack_adjoint_letter(const struct active_request *j)
{
    return j->is_complex ? 'C' : 'T';
}

/* Stores info, and the length of the program's work array in the array's first element. */
void limber_lapack_set_results(const struct active_request *j, int64_t info);

bool limber_lapack_lu(struct active_request *j); /* getrf, getrs, gesv and getri */
bool limber_lapack_cholesky(struct active_request *j); /* potrf, potrs and posv */
bool limber_lapack_invert(struct active_request *j); /* routine trtri */
bool limber_lapack_qr(struct active_request *j); /* geqrf, ormqr and orgqr */

/* Inverts a triangle in place.  Its diagonal must have no zero. */
bool limber_lapack_invert_triangle(struct active_request *j, char uplo, char diag, int64_t n,
                                   struct view a);
/* Position of the first zero on a diagonal, counted from 1; 0 if there is none. */
int64_t limber_lapack_find_zero(const struct active_request *j, int64_t n, struct view a);

#endif
