/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels of simulated arithmetic units.  Register tiles compute what the unit's description says:
 * in FP32 lanes if the operands' value ranges allow it, else in FP64 lanes. */
#ifndef LIMBER_KERNEL_UNIT_H
#define LIMBER_KERNEL_UNIT_H

#include "backends/llvm/kernel/unit_load.h"
#ifdef KERNEL_LIMB_KIND_unit
#include "backends/llvm/kernel/unit_tally.h"
#include "backends/llvm/kernel/unit_wide.h"
#include "backends/llvm/kernel/unit_f32.h"
#else
#include "backends/llvm/kernel/unit_half.h"
#ifdef __ARM_FEATURE_BF16
#include "backends/llvm/kernel/unit_bf16.h"
#endif
#endif

/* ---- register tiles of a simulated unit ------------------------------------------------------ */

/* A register tile: its panels of values (a, b) and of exponents (ea, eb), and its first row and
 * column in this part of C. */
struct unit_tile {
    const struct kernel_call *c;
    const char *a, *b, *ea, *eb;
    int64_t i, j;
    char *to;                   /* results as FP32 elements, with `row` bytes from row to row */
    int64_t row;
};

/* Returns the seeds of the random numbers of sixteen neighbouring elements: vector v of row r. */
FLAT v16u elements_of(const struct unit_tile *u, int r, int v)
{
    v16u lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    uint32_t row;

    if (!MODEL.seeded)
        return lane;
    row = limber_unit_row_hash(u->c->seed, u->c->i0 + u->i + r);
    return LIMBER_ELEMENT(row, lane + (uint32_t)(u->c->j0 + u->j + 16 * v));
}

/* Returns the random bits of the lower (high = 0) or the upper eight lanes. */
FLAT v8w half_of(v16u x, int high)
{
    return high ? (v8w)HIGH(x) : (v8w)LOW(x);
}

/* Stores sixteen results: vector v of row r.  Every NaN becomes the canonical NaN. */
FLAT void store_values(const struct unit_tile *u, int r, int v, v16f x)
{
    x = (v16f)PICK((v16i)(x != x), (v16i)all_f(__builtin_nanf("")), (v16i)x);
    STORE(u->to + r * u->row + v * 64, x);
}

#ifdef KERNEL_LIMB_KIND_unit
/* Returns x rounded to the unit's output format, if it has one.  element: seeds of the random
 * numbers. */
FLAT v8d wide_out(v8d x, v8w element)
{
    v8l beyond;

    if (!MODEL.out.format.kind)
        return x;
    return wide_round(MODEL.out, x, wide_bits(LIMBER_NUMBER(element, 3u, 0u)), &beyond);
}

/* Computes four rows of a tile in FP32 lanes.  bounded: overflow is excluded, or sums are tracked.
 * Returns 0 if a tracked sum left the range of the unit's formats. */
FLAT int compute_rows_in_f32(const struct unit_tile *u, int bounded)
{
    struct f32_tile t = { .c = u->c, .a = u->a, .b = u->b, .ea = u->ea, .eb = u->eb,
                             .bounded = bounded };
    v16f sum[4][2];

    f32_clear(sum);
    UNROLL for (int r = 0; r < 4; r++)
        UNROLL for (int v = 0; v < 2; v++)
            t.element[r][v] = elements_of(u, r, v);
    f32_whole(&t, sum);
    if (CONSTANT.tracks && bounded && ANY(t.most > (float)CONSTANT.largest))
        return 0;
    UNROLL for (int r = 0; r < 4; r++)
        UNROLL for (int v = 0; v < 2; v++) {
            v16f x = sum[r][v];

            if (MODEL.out.format.kind)
                x = JOIN(TO(v8f, wide_out(TO(v8d, LOW(x)), half_of(t.element[r][v], 0))),
                         TO(v8f, wide_out(TO(v8d, HIGH(x)), half_of(t.element[r][v], 1))));
            store_values(u, r, v, x);
        }
    if (CONSTANT.counts)
        add_f32_tally(u->c, &t.tally);
    return 1;
}

/* Computes four rows in FP32 lanes whose sums are expected to stay in range.  Returns 0 if one did
 * not. */
SLOW int compute_bounded_rows(const struct unit_tile *u)
{
    return compute_rows_in_f32(u, 1);
}

/* Computes four rows in FP32 lanes whose sums may overflow. */
SLOW void compute_unbounded_rows(const struct unit_tile *u)
{
    compute_rows_in_f32(u, 0);
}

/* Computes row r of a tile of the simulated unit in FP64 lanes, eight elements per vector, and
 * stores its 32 results. */
SLOW void compute_row_in_f64(const struct unit_tile *u, int r)
{
    struct wide_tile t = { .c = u->c, .a = u->a + 4 * r, .b = u->b, .ea = u->ea + 4 * r,
                           .eb = u->eb };
    v8d sum[1][4];

    UNROLL for (int v = 0; v < 4; v++)
        t.element[0][v] = half_of(elements_of(u, r, v / 2), v % 2);
    wide_clear(sum);
    if (MODEL.start_c)
        UNROLL for (int v = 0; v < 4; v++)
            sum[0][v] = TO(v8d, LOAD(v8f, u->to + r * u->row + v * 32));
    wide_whole(&t, sum);
    UNROLL for (int v = 0; v < 4; v++)
        sum[0][v] = wide_out(sum[0][v], t.element[0][v]);
    UNROLL for (int v = 0; v < 2; v++)
        store_values(u, r, v, JOIN(TO(v8f, sum[0][2 * v]), TO(v8f, sum[0][2 * v + 1])));
    if (CONSTANT.counts)
        add_wide(u->c, &t.tally);
}

/* ---- choosing lanes for a tile --------------------------------------------------------------- */

/* Value range of some lines: largest magnitude, smallest nonzero magnitude, and largest squared
 * Euclidean norm. */
struct extremes { float most, least, norm; };

/* Returns the combined value range of `lines` packed lines, from `line` on. */
FLAT struct extremes extremes_of(const struct packed *o, int64_t line, int lines)
{
    int32_t bits = 0, below = 0;
    struct extremes x = { 0, 0, 0 };

    ROLL for (int i = 0; i < lines; i++) {
        int32_t b = range_of(o, RANGE_bits, line + i)[0], l = range_of(o, RANGE_below, line + i)[0];
        float s = *(const float *)(const void *)range_of(o, RANGE_squares, line + i);

        bits = b > bits ? b : bits;
        below = l > below ? l : below;
        x.norm = s > x.norm || s != s ? s : x.norm;
    }
    below = 0x7f800000 - below;
    __builtin_memcpy(&x.most, &bits, 4);
    __builtin_memcpy(&x.least, &below, 4);
    return x;
}

/* kinds of SIMD lanes: FP64; FP32 in which sums may overflow; FP32 in which they do not */
enum lanes { LANES_wide, LANES_free, LANES_bounded };

/* Chooses the kind of SIMD lanes for tile (i, j).  In FP32 lanes, products and sums must be
 * exact before the unit's roundings.  In LANES_bounded, they also must not overflow the unit's
 * formats.  A product p is at most 2 |a b| + quantum.  With rounding to nearest or truncation,
 * |acc| is at most 2 times the sum of the |p|, since the rounded sum differs from acc + p by at
 * most |p| (acc itself differs by that).  With other roundings, each rounding may add one unit
 * in the last place. */
FLAT enum lanes lanes_for(const struct kernel_call *c, int64_t i, int64_t j)
{
    struct extremes a = extremes_of(&c->op[0], i, CONSTANT.mr);
    struct extremes b = extremes_of(&c->op[1], j, CONSTANT.nr);
    double most = (double)a.most * b.most, least = (double)a.least * b.least, sum, growth;

    if (!CONSTANT.f32_lanes || (CONSTANT.counts && c->k > 1 << 27) || !(most <= 0x1p80) ||
        (most > 0 && least < 0x1p-100))
        return LANES_wide;
    sum = 2 * __builtin_sqrt((double)a.norm) * __builtin_sqrt((double)b.norm) * 1.001 +
          (double)c->k * CONSTANT.quantum;
    growth = (double)c->k * CONSTANT.growth;
    if (growth < 200 && most <= CONSTANT.most_product &&
        sum * power_of_two((int)growth + (growth > 0)) <=
            (CONSTANT.tracks ? 0x1p80 : CONSTANT.most_sum))
        return LANES_bounded;
    return CONSTANT.frees ? LANES_free : LANES_wide;
}

enum { ROWS = 4 };          /* number of rows of a tile that are computed together */

/* Computes all rows of a tile in the given kind of SIMD lanes.  Rows whose tracked sums left the
 * range are computed again in lanes that allow overflow. */
FLAT void unit_rows(struct unit_tile *u, enum lanes lanes)
{
    ROLL for (int row = 0; row < CONSTANT.mr; row += ROWS) {
        if (lanes == LANES_wide)
            ROLL for (int r = 0; r < ROWS; r++)
                compute_row_in_f64(u, r);
        else if (lanes == LANES_free || !compute_bounded_rows(u))
            compute_unbounded_rows(u);
        u->a += 4 * ROWS;
        u->ea += 4 * ROWS;
        u->i += ROWS;
        u->to += ROWS * u->row;
    }
}
#else
/* Computes the 12 rows of a tile of the simulated unit in FP16 lanes or, with config.pairs, by the
 * instruction BFDOT, and stores the results as FP32. */
SLOW void compute_rows_in_f16(const struct unit_tile *u)
{
    struct half_tile t = { .c = u->c, .a = u->a, .b = u->b };
    v32h sum[12][1];

#ifdef __ARM_FEATURE_BF16
    if (CONSTANT.pairs) {
        float all[12 * 32];

        sum_pairs(u->c->k, (const uint16_t *)(const void *)u->a,
                  (const uint16_t *)(const void *)u->b, all);
        ROLL for (int i = 0; i < 24; i++)
            store_values(u, i / 2, i % 2, LOAD(v16f, all + 16 * i));
        return;
    }
#endif
    half_clear(sum);
    half_whole(&t, sum);
    UNROLL for (int r = 0; r < 12; r++) {
        v16h part[2];

        STORE(part, sum[r][0]);
        store_values(u, r, 0, half_to_float(part[0]));
        store_values(u, r, 1, half_to_float(part[1]));
    }
}
#endif

/* ---- a block of C ---------------------------------------------------------------------------- */

/* Computes a block of C as the simulated matrix unit does, one register tile after another. */
FLAT void unit_block(const struct kernel_call *c, const struct block *b, char *scratch)
{
    const struct packed *oa = &c->op[0], *ob = &c->op[1];

    if (MODEL.start_c)
        ROLL for (int64_t i = 0; i < b->panels_a * CONSTANT.mr; i++)
            ROLL for (int64_t j = 0; j < b->panels_b * CONSTANT.nr; j++)
                *(float *)(void *)(scratch + i * total_row(c) + j * 4) =
                    i >= b->rows || j >= b->cols ? 0 :
                    (float)limber_unit_start(&MODEL, c->cold->value(CONSTANT.c, place(c, b->i0 + i,
                                                                                     b->j0 + j)));
    for (int64_t j = 0; j < b->panels_b; j++)
        for (int64_t i = 0; i < b->panels_a; i++) {
            struct unit_tile u = {
                .c = c, .a = oa->data + (b->panel_a + i) * oa->panel_bytes,
                .b = ob->data + (b->panel_b + j) * ob->panel_bytes,
                .i = b->i0 + i * CONSTANT.mr, .j = b->j0 + j * CONSTANT.nr, .row = total_row(c),
                .to = scratch + i * CONSTANT.mr * total_row(c) + j * CONSTANT.nr * 4,
            };

            u.ea = u.a + oa->limb_bytes;
            u.eb = u.b + ob->limb_bytes;
#ifdef KERNEL_LIMB_KIND_unit
            unit_rows(&u, lanes_for(c, (b->panel_a + i) * CONSTANT.mr,
                                    (b->panel_b + j) * CONSTANT.nr));
#else
            compute_rows_in_f16(&u);
#endif
        }
}

#endif
