/* SPDX-License-Identifier: BSD-3-Clause
 * trsm.  One product subtracts all that is already solved from a block of the right side.  Then the
 * BLAS behind solves the block's small triangle. */
#include "product.h"
#include "triangular.h"

#include <stdlib.h>

enum { BLOCK = 32 };

typedef void trsm(const char *, const char *, const char *, const char *, const void *,
                  const void *, const void *, const void *, const void *, void *, const void *,
                  size_t, size_t, size_t, size_t);

/* Rows [i, i + p) as Fortran's columns; a 32-bit integer is the first half of a
 * 64-bit one (little-endian). */
static void solve_block(const struct job *j, const struct triangular *t, trsm *solve, int64_t i,
                        int64_t p, const union scalar *alpha)
{
    const struct request *r = j->r;
    bool by_rows = r->order == BLAS_ROWS, left = (r->side == 'L') != by_rows;
    char side = left ? 'L' : 'R', uplo = (r->uplo == 'U') != by_rows ? 'U' : 'L';
    int64_t m = left ? p : t->wide, n = left ? t->wide : p;

    solve(&side, &uplo, &r->a.op, &r->diag, &m, &n, alpha, limber_blas_at(j, t->a, i, i).data,
          &r->a.lead, limber_blas_at(j, t->b, i, 0).data, &r->b.lead, 1, 1, 1, 1);
}

static bool compute(struct job *j, const struct triangular *t, trsm *solve)
{
    const union scalar one = limber_blas_scalar(j, 1, 0), minus = limber_blas_scalar(j, -1, 0);
    int64_t blocks = (t->n + BLOCK - 1) / BLOCK;

    for (int64_t s = 0; s < blocks; s++) {
        int64_t i = BLOCK * (t->upper ? blocks - 1 - s : s),
                p = BLOCK < t->n - i ? BLOCK : t->n - i;
        int64_t from = t->upper ? i + p : 0, solved = t->upper ? t->n - from : i;

        if (s > 0 &&
            !limber_blas_multiply(j, p, t->wide, solved, &minus, limber_blas_at(j, t->a, i, from),
                                  limber_blas_at(j, t->b, from, 0), &j->alpha,
                                  limber_blas_at(j, t->b, i, 0)))
            return false;
        solve_block(j, t, solve, i, p, s > 0 ? &one : &j->alpha);
    }
    return true;
}

bool limber_blas_trsm(struct job *j)
{
    const struct triangular t = limber_blas_triangular(j->r);
    const char routine[] = { j->r->type, 't', 'r', 's', 'm', 0 };
    struct view before;
    trsm *solve;
    bool done;

    if (j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE)
        return limber_blas_fail(j, "its blocks are solved by the BLAS, in an order of its own");
    if (t.n <= BLOCK)
        return limber_blas_fail(j, "the triangle is one small block");
    *(void **)&solve = limber_blas_sibling(j->r, routine);
    if (!solve)
        return limber_blas_fail(j, "no BLAS solves its blocks");
    /* a BLAS may skip what a zero of the solution meets; it divides by the diagonal itself */
    if (!limber_blas_is_finite(j, t.upper ? UPPER : LOWER, t.n - 1, t.n - 1,
                               limber_blas_at(j, t.a, !t.upper, t.upper)))
        return limber_blas_fail(j, "a is not finite");
    before = limber_blas_fresh(j, t.n, t.wide);
    if (!before.data)
        return false;
    limber_blas_copy(j, WHOLE, t.n, t.wide, before, t.b);
    done = compute(j, &t, solve);
    if (!done)
        limber_blas_copy(j, WHOLE, t.n, t.wide, t.b, before);
    free(before.data);
    return done;
}
