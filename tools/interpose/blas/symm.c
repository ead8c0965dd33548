/* SPDX-License-Identifier: BSD-3-Clause
 * The BLAS routines symm and hemm.  Panels of rows of the symmetric matrix are expanded one
 * after the other, so that each element of the result is a single sum. */
#include "product.h"

#include <stdlib.h>

/* A panel has about PANEL_BYTES, but at least LEAST_ROWS rows. */
enum { PANEL_BYTES = 16 << 20, LEAST_ROWS = 128 };

/* Expands rows [i, i + p) of a symmetric n x n matrix, of which s stores one triangle. */
static void expand_rows(const struct active_request *j, struct view s, bool upper, int64_t n,
                        int64_t i, int64_t p, struct view to)
{
    struct view mirror = limber_blas_transposed(s), diagonal = limber_blas_at(j, to, 0, i);
    int64_t mirrored = upper ? 0 : i, end = upper ? i + p : n, right = i + p;
    bool hermitian = j->r->routine == BLAS_HEMM;

    limber_blas_copy(j, WHOLE, p, i, to, limber_blas_at(j, upper ? mirror : s, i, 0));
    limber_blas_copy(j, WHOLE, p, n - right, limber_blas_at(j, to, 0, right),
                     limber_blas_at(j, upper ? s : mirror, i, right));
    limber_blas_copy(j, upper ? LOWER : UPPER, p, p, diagonal, limber_blas_at(j, mirror, i, i));
    if (hermitian)
        limber_blas_conjugate(j, p, end - mirrored, limber_blas_at(j, to, 0, mirrored));
    limber_blas_copy(j, upper ? UPPER : LOWER, p, p, diagonal, limber_blas_at(j, s, i, i));
    if (hermitian)
        limber_blas_make_real(j, p, diagonal);
}

/* Returns how many rows of an n x n matrix are expanded at once. */
static int64_t panel_rows(const struct active_request *j, int64_t n)
{
    int64_t rows = PANEL_BYTES / ((int64_t)j->size * n);

    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows;
    return rows < n ? rows : n;
}

/* Computes c = alpha S b + beta c, where S is n x n and b has `wide` columns; `panel` has room for
 * `rows` rows of S. */
static bool multiply_panels(struct active_request *j, struct view s, bool upper, int64_t n,
                            int64_t wide, struct view b, struct view c, struct view panel,
                            int64_t rows)
{
    for (int64_t i = 0; i < n; i += rows) {
        int64_t p = rows < n - i ? rows : n - i;

        expand_rows(j, s, upper, n, i, p, panel);
        if (!limber_blas_multiply(j, p, wide, n, &j->alpha, panel, b, &j->beta,
                                  limber_blas_at(j, c, i, 0)))
            return false;
    }
    return true;
}

/* Computes symm or hemm: expands the stored triangle by panels of rows, and multiplies each
 * panel.  If a product fails, restores C and returns false. */
bool limber_blas_symm(struct active_request *j)
{
    const struct request *r = j->r;
    struct view s = limber_blas_view(r, &r->a), b = limber_blas_view(r, &r->b),
                c = limber_blas_view(r, &r->c);
    struct view panel, before = { NULL };
    int64_t n = r->k, wide = r->side == 'L' ? r->n : r->m, rows = panel_rows(j, n);
    bool done;

    /* the reference BLAS multiplies by the diagonal as by real numbers, which makes a difference
     * with infinities */
    if (r->routine == BLAS_HEMM &&
        !(limber_blas_is_finite(j, WHOLE, r->m, r->n, b) &&
          limber_blas_is_finite(j, r->uplo == 'U' ? UPPER : LOWER, n, n, s)))
        return limber_blas_fail(j, "a or b is not finite");
    panel = limber_blas_fresh(j, rows, n);
    if (!panel.data)
        return false;
    if (r->side == 'R') { /* C^T = S^T B^T, where S^T is S or, if Hermitian, its conjugate */
        b = limber_blas_transposed(b);
        c = limber_blas_transposed(c);
        panel.conj = r->routine == BLAS_HEMM;
    }
    done = (rows == n || limber_blas_keep(j, WHOLE, n, wide, c, &before)) &&
           multiply_panels(j, s, r->uplo == 'U', n, wide, b, c, panel, rows);
    if (!done)
        limber_blas_restore(j, WHOLE, n, wide, c, before);
    free(before.data);
    free(panel.data);
    return done;
}
