/* SPDX-License-Identifier: BSD-3-Clause
 * Recursive Cholesky factorisation, and recursive inversion of a triangular matrix. */
#include "lapack.h"

#include <stdlib.h>

/* ---- Cholesky -------------------------------------------------------------------------------- */

typedef void potrf(const char *, const void *, void *, const void *, void *, size_t);

/* The state of a Cholesky factorisation.  info: 0, or the position of a pivot that is not
 * positive. */
struct cholesky {
    struct view a;
    bool upper;
    int64_t info;
    potrf *behind;
};

/* Factors a diagonal block by the other LAPACK's potrf. */
static void factor_block(struct active_request *j, struct cholesky *f, int64_t first, int64_t n)
{
    const char uplo = f->upper ? 'U' : 'L';
    int64_t info = 0;

    f->behind(&uplo, &n, limber_blas_at(j, f->a, first, first).data, &f->a.col, &info, 1);
    info = limber_blas_integer(&info, 0, j->r->wide);
    if (info > 0)
        f->info = first + info;
}

/* Subtracts a a' from the triangle of c, where a is the block beside c, or subtracts a' a if
 * `upper`, where a is the block above c. */
static bool subtract_square(struct active_request *j, struct cholesky *f, int64_t n, int64_t k,
                            struct view a, struct view c)
{
    const struct request *whole = j->r;
    const union scalar alpha = j->alpha, beta = j->beta;
    const char op = limber_lapack_adjoint_letter(j);
    struct request part = *whole;
    bool done;

    part.routine = j->is_complex ? BLAS_HERK : BLAS_SYRK;
    part.uplo = f->upper ? 'U' : 'L';
    part.m = part.n = n;
    part.k = k;
    part.a = (struct argument){ a.data, f->upper ? op : 'N', a.col };
    part.c = (struct argument){ c.data, 'N', c.col };
    j->r = &part;
    j->alpha = limber_blas_scalar(j, -1, 0);
    j->beta = limber_blas_scalar(j, 1, 0);
    done = limber_blas_triangle(j);
    j->r = whole;
    j->alpha = alpha;
    j->beta = beta;
    return done;
}

/* Factors the block of n rows and columns from `first` on, recursively.  Returns false if a product
 * failed. */
static bool factor(struct active_request *j, struct cholesky *f, int64_t first, int64_t n)
{
    const int64_t left = (n / 2 + LAPACK_BLOCK - 1) / LAPACK_BLOCK * LAPACK_BLOCK;
    const int64_t middle = first + left, right = n - left;
    const char op = limber_lapack_adjoint_letter(j);
    struct view corner = limber_blas_at(j, f->a, first, first),
                beside = f->upper ? limber_blas_at(j, f->a, first, middle) :
                                    limber_blas_at(j, f->a, middle, first);
    const struct triangle_solve solve = { f->upper ? 'L' : 'R',
                                          f->upper ? 'U' : 'L',
                                          op,
                                          'N',
                                          f->upper ? left : right,
                                          f->upper ? right : left,
                                          1,
                                          corner,
                                          beside };

    if (n <= LAPACK_BLOCK) {
        factor_block(j, f, first, n);
        return true;
    }
    if (!factor(j, f, first, left))
        return false;
    if (f->info)
        return true;
    return limber_lapack_solve(j, &solve) &&
           subtract_square(j, f, right, left, beside, limber_blas_at(j, f->a, middle, middle)) &&
           factor(j, f, middle, right);
}

/* Factors A.  If a pivot is not positive, *info is its position. */
static bool factor_matrix(struct active_request *j, struct view a, int64_t *info)
{
    struct cholesky f = { a, j->r->uplo == 'U', 0, NULL };
    bool done;

    *(void **)&f.behind = limber_lapack_behind(j, "potrf");
    done = f.behind && factor(j, &f, 0, j->r->m);
    *info = f.info;
    return done;
}

/* Solves with both triangles of the factorisation.  Returns false if that failed. */
static bool solve_all(struct active_request *j, struct view a, struct view b)
{
    const struct request *r = j->r;
    const bool upper = r->uplo == 'U';
    const char op = limber_lapack_adjoint_letter(j);
    const struct triangle_solve
        first = { 'L', r->uplo, upper ? op : 'N', 'N', r->m, r->n, 1, a, b },
        last = { 'L', r->uplo, upper ? 'N' : op, 'N', r->m, r->n, 1, a, b };

    return limber_lapack_solve(j, &first) && limber_lapack_solve(j, &last);
}

static bool compute_routine(struct active_request *j, struct view a, struct view b, int64_t *info)
{
    return (j->r->routine == LAPACK_POTRS || factor_matrix(j, a, info)) &&
           (j->r->routine == LAPACK_POTRF || *info > 0 || solve_all(j, a, b));
}

/* Computes potrf, potrs or posv: factors a matrix, solves, or both.  If a part fails, restores
 * the program's matrices and returns false. */
bool limber_lapack_cholesky(struct active_request *j)
{
    const struct request *r = j->r;
    const enum part part = r->uplo == 'U' ? UPPER : LOWER;
    const bool factors = r->routine != LAPACK_POTRS;
    struct view a = { (void *)(uintptr_t)r->a.data, 1, r->a.lead, false };
    struct view b = { (void *)(uintptr_t)r->b.data, 1, r->b.lead, false };
    struct view old_a = { NULL }, old_b = { NULL };
    int64_t info = 0;
    bool done;

    if (factors && (old_a = limber_blas_fresh(j, r->m, r->m)).data)
        limber_blas_copy(j, part, r->m, r->m, old_a, a);
    if (b.data && (old_b = limber_blas_fresh(j, r->m, r->n)).data)
        limber_blas_copy(j, WHOLE, r->m, r->n, old_b, b);
    done = (!factors || old_a.data) && (!b.data || old_b.data);
    if (done && !(done = compute_routine(j, a, b, &info))) {
        if (factors)
            limber_blas_copy(j, part, r->m, r->m, a, old_a);
        if (b.data)
            limber_blas_copy(j, WHOLE, r->m, r->n, b, old_b);
    }
    if (done)
        limber_lapack_set_results(j, info);
    free(old_a.data);
    free(old_b.data);
    return done;
}

/* ---- the inverse of a triangle --------------------------------------------------------------- */

typedef void trtri(const char *, const char *, const void *, void *, const void *, void *, size_t,
                   size_t);

/* Inverts a triangle recursively.  With diagonal blocks P and Q, the block R beside them becomes
 * -P^-1 R Q^-1 (for a lower triangle -Q^-1 R P^-1); then P and Q are inverted. */
bool limber_lapack_invert_triangle(struct active_request *j, char uplo, char diag, int64_t n,
                                   struct view a)
{
    const bool upper = uplo == 'U';
    const int64_t left = (n / 2 + LAPACK_BLOCK - 1) / LAPACK_BLOCK * LAPACK_BLOCK, right = n - left;
    struct view corner = limber_blas_at(j, a, left, left),
                beside = limber_blas_at(j, a, upper ? 0 : left, upper ? left : 0);
    const int64_t m = upper ? left : right, wide = upper ? right : left;
    const struct triangle_solve first = { 'L',   uplo, 'N', diag, m, wide, -1, upper ? a : corner,
                                          beside },
                                last = { 'R',   uplo, 'N', diag, m, wide, 1, upper ? corner : a,
                                         beside };
    int64_t info = 0;
    trtri *behind;

    if (n <= LAPACK_BLOCK) {
        *(void **)&behind = limber_lapack_behind(j, "trtri");
        if (behind)
            behind(&uplo, &diag, &n, a.data, &a.col, &info, 1, 1);
        return behind;
    }
    return limber_lapack_solve(j, &first) && limber_lapack_solve(j, &last) &&
           limber_lapack_invert_triangle(j, uplo, diag, left, a) &&
           limber_lapack_invert_triangle(j, uplo, diag, right, corner);
}

/* Computes trtri: inverts a triangle in place.  If that fails, restores the triangle and returns
 * false. */
bool limber_lapack_invert(struct active_request *j)
{
    const struct request *r = j->r;
    const enum part part = r->uplo == 'U' ? UPPER : LOWER;
    struct view a = { (void *)(uintptr_t)r->a.data, 1, r->a.lead, false }, before;
    const int64_t info = r->diag == 'N' ? limber_lapack_find_zero(j, r->m, a) : 0;
    bool done;

    if (info == 0) {
        before = limber_blas_fresh(j, r->m, r->m);
        if (!before.data)
            return false;
        limber_blas_copy(j, part, r->m, r->m, before, a);
        done = limber_lapack_invert_triangle(j, r->uplo, r->diag, r->m, a);
        if (!done)
            limber_blas_copy(j, part, r->m, r->m, a, before);
        free(before.data);
        if (!done)
            return false;
    }
    limber_lapack_set_results(j, info);
    return true;
}
