/* SPDX-License-Identifier: BSD-3-Clause
 * The BLAS routine trmm.  Blocks of rows of the triangle are expanded with explicit zeros, and
 * multiplied by the other matrix.  The result is computed in separate memory, and copied when it
 * is complete. */
#include "product.h"
#include "triangular.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 128 };

/* refused, because zeros outside the triangle, multiplied by an infinity, would give NaN */
static const char not_finite[] = "a or b is not finite";

/* Expands rows [i, i + p) of the triangle, and columns [from, to).  The diagonal of these rows
 * begins at column i. */
static void expand_block(const struct active_request *j, const struct triangular *t, int64_t i,
                         int64_t p, int64_t from, int64_t to, struct view panel)
{
    union scalar one = limber_blas_scalar(j, 1, 0);
    struct view block = limber_blas_at(j, panel, 0, i - from);

    memset(panel.data, 0, (size_t)(p * (to - from)) * j->size);
    limber_blas_copy(j, WHOLE, p, i - from, panel, limber_blas_at(j, t->a, i, from));
    limber_blas_copy(j, WHOLE, p, to - i - p, limber_blas_at(j, panel, 0, i - from + p),
                     limber_blas_at(j, t->a, i, i + p));
    limber_blas_copy(j, t->upper ? UPPER : LOWER, p, p, block, limber_blas_at(j, t->a, i, i));
    for (int64_t d = 0; d < p && j->r->diag == 'U'; d++)
        memcpy(limber_blas_at(j, block, d, d).data, &one, j->size);
}

/* Computes the product of the triangle and b in `result`, block of rows by block, each with its
 * expanded columns.  Returns false if that fails. */
static bool multiply_block_row(struct active_request *j, const struct triangular *t,
                               struct view panel, struct view result)
{
    union scalar zero = limber_blas_scalar(j, 0, 0);

    for (int64_t i = 0; i < t->n; i += BLOCK) {
        int64_t p = BLOCK < t->n - i ? BLOCK : t->n - i;
        int64_t from = t->upper ? i : 0, to = t->upper ? t->n : i + p;

        panel.col = p;
        expand_block(j, t, i, p, from, to, panel);
        if (!limber_blas_is_finite(j, WHOLE, p, to - from, panel))
            return limber_blas_fail(j, not_finite);
        if (!limber_blas_multiply(j, p, t->wide, to - from, &j->alpha, panel,
                                  limber_blas_at(j, t->b, from, 0), &zero,
                                  limber_blas_at(j, result, i, 0)))
            return false;
    }
    return true;
}

/* Computes trmm: the product in memory of its own, which is then copied to b.  Refuses operands
 * that are not finite. */
bool limber_blas_trmm(struct active_request *j)
{
    const struct triangular t = limber_blas_triangular(j->r);
    struct view panel = { NULL }, result = { NULL };
    bool done;

    if (!limber_blas_is_finite(j, WHOLE, t.n, t.wide, t.b))
        return limber_blas_fail(j, not_finite);
    panel = limber_blas_fresh(j, BLOCK < t.n ? BLOCK : t.n, t.n);
    if (panel.data)
        result = limber_blas_fresh(j, t.n, t.wide);
    panel.conj = t.a.conj;
    done = result.data && multiply_block_row(j, &t, panel, result);
    if (done)
        limber_blas_copy(j, WHOLE, t.n, t.wide, t.b, result);
    free(result.data);
    free(panel.data);
    return done;
}
