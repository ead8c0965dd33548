/* SPDX-License-Identifier: BSD-3-Clause
 * The BLAS routine trsm.  For each block of LARGE rows, and then for each block of BLOCK rows in
 * it, a product subtracts the contribution of all solved rows.  The other BLAS solves these
 * small triangles; under `reproducible`, substitute.c does, and under `correct`, a product for each
 * row. */
#include "product.h"
#include "triangular.h"

#include <stdlib.h>

enum { BLOCK = LIMBER_BLAS_SUBSTITUTE, LARGE = 256 }; /* number of rows */

typedef void trsm(const char *, const char *, const char *, const char *, const void *,
                  const void *, const void *, const void *, const void *, void *, const void *,
                  size_t, size_t, size_t, size_t);

/* Solves rows [i, i + p) by a Fortran BLAS's trsm, or by substitution if `solve` is NULL.  To a
 * Fortran BLAS a row-major matrix is its transpose, so side and triangle are exchanged.  Sizes are
 * 64-bit integers; a BLAS with 32-bit integers reads their lower halves, which come first in
 * little-endian memory. */
static void solve_block(const struct active_request *j, const struct triangular *t, trsm *solve,
                        int64_t i, int64_t p, const union scalar *alpha)
{
    const struct request *r = j->r;
    bool by_rows = r->order == BLAS_ROWS, left = (r->side == 'L') != by_rows;
    char side = left ? 'L' : 'R', uplo = (r->uplo == 'U') != by_rows ? 'U' : 'L';
    int64_t m = left ? p : t->wide, n = left ? t->wide : p;

    if (!solve) {
        limber_blas_solve_small(j, t, i, p, alpha);
        return;
    }
    solve(&side, &uplo, &r->a.op, &r->diag, &m, &n, alpha, limber_blas_at(j, t->a, i, i).data,
          &r->a.lead, limber_blas_at(j, t->b, i, 0).data, &r->b.lead, 1, 1, 1, 1);
}

/* Solves rows [first, first + n) one by one: x_r = (b_r - sum of a_rq x_q) / a_rr, where the sum
 * and its subtraction are one product, whose elements are rounded once. */
static bool solve_by_row(struct active_request *j, const struct triangular *t, int64_t first,
                         int64_t n, const union scalar *alpha)
{
    const union scalar one = limber_blas_scalar(j, 1, 0), minus = limber_blas_scalar(j, -1, 0);

    for (int64_t s = 0; s < n; s++) {
        const int64_t row = first + (t->upper ? n - 1 - s : s), from = t->upper ? row + 1 : first;

        if (s > 0 && !limber_blas_multiply(
                         j, 1, t->wide, s, &minus, limber_blas_at(j, t->a, row, from),
                         limber_blas_at(j, t->b, from, 0), alpha, limber_blas_at(j, t->b, row, 0)))
            return false;
        limber_blas_solve_small(j, t, row, 1, s > 0 ? &one : alpha);
    }
    return true;
}

/* Solves rows [first, first + n), recursively.  The contribution of earlier rows is already
 * subtracted from their right-hand sides. */
static bool solve_rows(struct active_request *j, const struct triangular *t, trsm *solve,
                       int64_t first, int64_t n, const union scalar *alpha)
{
    const union scalar one = limber_blas_scalar(j, 1, 0), minus = limber_blas_scalar(j, -1, 0);
    const int64_t block = n > LARGE ? LARGE : BLOCK, blocks = (n + block - 1) / block;

    if (limber_blas_rounds_once(j) && (n <= BLOCK || t->wide == 1))
        return solve_by_row(j, t, first, n, alpha);
    if (n <= BLOCK) {
        solve_block(j, t, solve, first, n, alpha);
        return true;
    }
    for (int64_t s = 0; s < blocks; s++) {
        const int64_t at = block * (t->upper ? blocks - 1 - s : s), i = first + at;
        const int64_t p = block < n - at ? block : n - at;
        const int64_t from = t->upper ? i + p : first, solved = t->upper ? n - at - p : at;

        if (s > 0 && !limber_blas_multiply(
                         j, p, t->wide, solved, &minus, limber_blas_at(j, t->a, i, from),
                         limber_blas_at(j, t->b, from, 0), alpha, limber_blas_at(j, t->b, i, 0)))
            return false;
        if (!solve_rows(j, t, solve, i, p, s > 0 ? &one : alpha))
            return false;
    }
    return true;
}

/* Computes trsm: solves by blocks, whose products Limber computes.  Small blocks are solved by
 * substitution under `reproducible` and `correct`, else by the other BLAS.  If that fails, restores
 * b and returns false. */
bool limber_blas_trsm(struct active_request *j)
{
    const struct triangular t = limber_blas_triangular(j->r);
    const char routine[] = { j->r->type, 't', 'r', 's', 'm', 0 };
    const bool reproducible = j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE,
               own = reproducible || limber_blas_rounds_once(j);
    struct view before;
    trsm *solve = NULL;
    bool done;

    if (!own && t.n <= BLOCK)
        return limber_blas_fail(j, "the triangle is one small block");
    if (!own)
        *(void **)&solve = limber_blas_look_up_routine(j->r, routine);
    if (!own && !solve)
        return limber_blas_fail(j, "no BLAS solves its blocks");
    /* A BLAS may skip zeros of the solution, so that infinities outside the diagonal have no
     * effect.  It always divides by the diagonal. */
    if (!reproducible && !limber_blas_is_finite(j, t.upper ? UPPER : LOWER, t.n - 1, t.n - 1,
                                                limber_blas_at(j, t.a, !t.upper, t.upper)))
        return limber_blas_fail(j, "a is not finite");
    if (reproducible && t.n <= BLOCK) { /* no product can fail */
        solve_block(j, &t, NULL, 0, t.n, &j->alpha);
        return true;
    }
    before = limber_blas_fresh(j, t.n, t.wide);
    if (!before.data)
        return false;
    limber_blas_copy(j, WHOLE, t.n, t.wide, before, t.b);
    done = solve_rows(j, &t, solve, 0, t.n, &j->alpha);
    if (!done)
        limber_blas_copy(j, WHOLE, t.n, t.wide, t.b, before);
    free(before.data);
    return done;
}
