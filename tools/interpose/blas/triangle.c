/* SPDX-License-Identifier: BSD-3-Clause
 * The BLAS routines gemmt, syrk, herk, syr2k and her2k, which compute one triangle of a product.
 * Off-diagonal blocks are computed in place.  Diagonal blocks are computed in separate memory, so
 * that C's other triangle is neither read nor written. */
#include "product.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 128 };

/* An update c = alpha a b + beta c of one triangle of an n x n matrix c. */
struct task {
    bool upper, hermitian;
    int64_t n, k;
    union scalar alpha, beta;
    struct view a, b, c, block;
};

/* Computes the diagonal block of columns [i, i + w). */
static bool update_diagonal(struct active_request *j, const struct task *t, int64_t i, int64_t w)
{
    enum part part = t->upper ? UPPER : LOWER;
    struct view c = limber_blas_at(j, t->c, i, i), block = t->block;

    block.col = w;
    memset(block.data, 0, (size_t)(w * w) * j->size);
    if (!limber_blas_is(j, &t->beta, 0))
        limber_blas_copy(j, part, w, w, block, c);
    if (t->hermitian)
        limber_blas_make_real(j, w, block);
    if (!limber_blas_multiply(j, w, w, t->k, &t->alpha, limber_blas_at(j, t->a, i, 0),
                              limber_blas_at(j, t->b, 0, i), &t->beta, block))
        return false;
    if (t->hermitian)
        limber_blas_make_real(j, w, block);
    limber_blas_copy(j, part, w, w, c, block);
    return true;
}

/* Computes the triangle by blocks of columns. */
static bool update_blocks(struct active_request *j, const struct task *t)
{
    for (int64_t i = 0; i < t->n; i += BLOCK) {
        int64_t w = BLOCK < t->n - i ? BLOCK : t->n - i;
        int64_t from = t->upper ? 0 : i + w, rows = t->upper ? i : t->n - from;

        if (!update_diagonal(j, t, i, w) ||
            (rows &&
             !limber_blas_multiply(j, rows, w, t->k, &t->alpha, limber_blas_at(j, t->a, from, 0),
                                   limber_blas_at(j, t->b, 0, i), &t->beta,
                                   limber_blas_at(j, t->c, from, i))))
            return false;
    }
    return true;
}

/* Computes several updates, one after the other.  If one fails, restores c and returns false. */
static bool compute_all(struct active_request *j, struct task *t, int tasks)
{
    const struct request *r = j->r;
    enum part part = t->upper ? UPPER : LOWER;
    struct view before = { NULL }, block = limber_blas_fresh(j, BLOCK, BLOCK);
    bool done = block.data && ((tasks == 1 && r->n <= BLOCK) ||
                               limber_blas_keep(j, part, r->n, r->n, t->c, &before));

    for (int i = 0; i < tasks && done; i++) {
        t[i].block = block;
        done = update_blocks(j, &t[i]);
    }
    if (!done)
        limber_blas_restore(j, part, r->n, r->n, t->c, before);
    free(before.data);
    free(block.data);
    return done;
}

/* Returns the transpose of a view, or its conjugate transpose. */
static struct view adjoint(struct view v, bool hermitian)
{
    v = limber_blas_transposed(v);
    v.conj ^= hermitian;
    return v;
}

/* Computes c += alpha a b' + alpha b a' as a single product of [a b] and [b a]'. */
static bool update_joined(struct active_request *j, struct task *t, struct view a, struct view b)
{
    struct view both = limber_blas_fresh(j, t->n, 3 * t->k);
    bool done;

    if (!both.data)
        return false;
    limber_blas_copy(j, WHOLE, t->n, t->k, both, a);
    limber_blas_copy(j, WHOLE, t->n, t->k, limber_blas_at(j, both, 0, t->k), b);
    limber_blas_copy(j, WHOLE, t->n, t->k, limber_blas_at(j, both, 0, 2 * t->k), a);
    both.conj = a.conj;
    t->a = both;
    t->b = adjoint(limber_blas_at(j, both, 0, t->k), t->hermitian);
    t->k *= 2;
    done = compute_all(j, t, 1);
    free(both.data);
    return done;
}

/* Computes c += alpha a b' + conj(alpha) b a' as two updates, for her2k with complex alpha. */
static bool update_twice(struct active_request *j, const struct task *t, struct view a,
                         struct view b)
{
    struct task two[2] = { *t, *t };

    two[0].a = a;
    two[0].b = adjoint(b, true);
    two[1].a = b;
    two[1].b = adjoint(a, true);
    two[1].alpha = j->is_single ? limber_blas_scalar(j, t->alpha.f[0], -t->alpha.f[1]) :
                                  limber_blas_scalar(j, t->alpha.d[0], -t->alpha.d[1]);
    two[1].beta = limber_blas_scalar(j, 1, 0);
    return compute_all(j, two, 2);
}

/* Computes syrk, herk, syr2k, her2k or gemmt. op(A) is n x k, and so is op(B) of syr2k and
 * her2k. */
bool limber_blas_triangle(struct active_request *j)
{
    const struct request *r = j->r;
    struct view a = limber_blas_view(r, &r->a), b = limber_blas_view(r, &r->b);
    struct task t = { r->uplo == 'U',
                      r->routine == BLAS_HERK || r->routine == BLAS_HER2K,
                      r->n,
                      r->k,
                      j->alpha,
                      j->beta,
                      a,
                      b,
                      limber_blas_view(r, &r->c) };

    if (limber_blas_is(j, &j->beta, 1) && (r->k == 0 || limber_blas_is(j, &j->alpha, 0)))
        return true;
    if (r->routine == BLAS_HER2K && !limber_blas_is_real(j, &j->alpha))
        return update_twice(j, &t, a, b);
    if (r->routine == BLAS_SYR2K || r->routine == BLAS_HER2K)
        return update_joined(j, &t, a, b);
    if (r->routine != BLAS_GEMMT)
        t.b = adjoint(a, t.hermitian);
    return compute_all(j, &t, 1);
}
