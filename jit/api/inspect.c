/* SPDX-License-Identifier: BSD-3-Clause
 * limber_inspect: scans a matrix and returns what the scan found. */
#include "jit/api/api.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)LIMBER_INSPECT_TILE == (int)LIMBER_TILE, "tiles are the scan's");
_Static_assert((int)LIMBER_TILE_FLAG_ZERO == (int)TILE_zero &&
                   (int)LIMBER_TILE_FLAG_SPECIAL == (int)TILE_special &&
                   (int)LIMBER_TILE_FLAG_NEGATIVE == (int)TILE_negative,
               "flags are the scan's");

/* Copies what a scan found in each tile to the caller's structure.  False if memory runs out. */
static bool copy_tile_results(limber_inspection *out, const struct mask *m, struct diag *d)
{
    int64_t tiles = m->tile_rows * m->tile_cols;

    out->tile_rows = m->tile_rows;
    out->tile_cols = m->tile_cols;
    out->tile = calloc((size_t)tiles + 1, sizeof *out->tile);
    for (int64_t i = 0; i < tiles && out->tile; i++) {
        const struct tile_mask *t = &m->tile[i];

        out->tile[i] = (limber_tile){ t->emin, t->emax, t->low, t->sig, t->flags };
    }
    return out->tile || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the tiles of x");
}

/* Copies what a scan found to the caller's structure.  False if memory runs out. */
static bool fill_inspection(limber_inspection *out, const struct mask *m, struct diag *d)
{
    *out = (limber_inspection){ .lines = m->lines,
                                .length = m->length,
                                .zero = m->zero,
                                .special = m->special,
                                .negative = m->negative,
                                .emin = m->emin,
                                .emax = m->emax,
                                .spread = m->spread,
                                .width = m->width,
                                .bits = m->sig };
    return !m->tile || copy_tile_results(out, m, d);
}

/* Scans a matrix and fills *out. left: the matrix is treated as an operand A, whose lines are rows;
 * else as B, whose lines are columns. */
static bool inspect_operand(limber_context *ctx, const limber_matrix *x, int64_t lines,
                            int64_t length, bool left, limber_inspection *out, struct diag *d)
{
    const struct view v = { x->data, left ? x->row_stride : x->col_stride,
                            left ? x->col_stride : x->row_stride, NULL, NULL };
    const struct runner r = limber_pool_runner(ctx->pool);
    struct mask m = { 0 };
    bool ok;

    limber_pool_enter(ctx->pool);
    ok = limber_device_holds(ctx, x->data) ?
             limber_device_scan(ctx, &m, &v, x->format, lines, length, NULL, d) :
             limber_scan(&m, &v, x->format, lines, length, SCAN_full, &r, d);
    limber_pool_leave(ctx->pool);
    ok = ok && fill_inspection(out, &m, d);
    limber_mask_clear(&m);
    return ok;
}

/* Scans an operand, and stores what is found (exponents, widths, special values, tiles) in
 * *out. */
limber_status limber_inspect(limber_context *ctx, limber_matrix x, int64_t rows, int64_t cols,
                             limber_side side, limber_inspection *out)
{
    CALL_SCOPE;
    const bool left = side == LIMBER_SIDE_A;
    limber_inspection full = LIMBER_INSPECTION_INIT;
    struct diag d = { 0 };

    if (!ctx || !out)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", ctx ? "out" : "ctx");
    else if (limber_sized_check(out, LEAST_inspection, "out", &d)) {
        if (side != LIMBER_SIDE_A && side != LIMBER_SIDE_B)
            limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "side = %d is neither A nor B", (int)side);
        else if (rows < 0 || cols < 0)
            limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is negative",
                        rows < 0 ? "rows" : "cols", (long long)(rows < 0 ? rows : cols));
        else if (limber_check_matrix(&x, "x", rows, cols, &d) &&
                 limber_check_data(&x, "x", rows, cols, &d))
            inspect_operand(ctx, &x, left ? rows : cols, left ? cols : rows, left, &full, &d);
        limber_copy_sized_out(out, &full, sizeof full);
    }
    if (d.status)
        limber_fail_in(&d, "inspect");
    return limber_error_set(&d);
}

/* Frees the arrays of an inspection. */
void limber_inspection_free(limber_inspection *inspection)
{
    const limber_inspection none = LIMBER_INSPECTION_INIT;

    if (!inspection)
        return;
    free(inspection->tile);
    limber_copy_sized_out(inspection, &none, sizeof none);
}
