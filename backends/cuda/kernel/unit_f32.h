/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units in FP32, for tiles whose rows of A and columns of B hold only values within the
 * bounds of FP32 lanes.  Lane l has rows (l >> 3) + 4 i and columns (l & 7) + 8 j of its warp's
 * tile. */
#ifndef LIMBER_CUDA_UNIT_F32_H
#define LIMBER_CUDA_UNIT_F32_H

typedef float lanes[TI][TJ];

/* The state of one lane: for each of its elements the accumulator, the sum of groups and the sum of
 * sections of k, all in FP32. */
struct f32_chains {
    struct progress at;
    lanes acc, outer, total;
    uint32_t element[TI][TJ];   /* hash of each element, for stochastic rounding */
    int row, column;            /* the lane's first row and column in the tile */
    struct tally tally;
};

/* Sets all elements to 0. */
DEVICE void clear(lanes &x)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            x[i][j] = 0;
}

/* ---- products added one by one --------------------------------------------------------------- */

/* Returns a b, rounded to the unit's product format.  h: random number. */
DEVICE float f32_multiply(struct f32_chains &n, float a, float b, uint32_t h)
{
    float x = mul32(a, b), y;
    bool beyond;

    y = f32_round(MODEL.mul, x, random_of(h << 16), CLAMPS ? CLAMP_signed : CLAMP_low, false,
                  beyond);
    if (COUNTS == COUNT_all) {
        n.tally.n[TALLY_mul_overflow] += beyond;
        n.tally.n[TALLY_mul_inexact] += y != x;
        n.tally.n[TALLY_mul_underflow] += y == 0 && x != 0;
    }
    return y;
}

/* Counts what was lost when acc + x was rounded to y: all of x (counter `first`), some bits of x
 * (first + 1), or overflow (`beyond`).  sum: the value that was rounded to y.
 *
 * If `safe` (rounding to nearest, few bits), sum is exact or equals one term.  Otherwise one of the
 * differences y - acc and y - x is exact, so both agree with the terms only if y is exact. */
DEVICE void f32_lost(struct tally &t, int first, bool safe, float acc, float x, float sum,
                     float y, bool beyond)
{
    bool same = y == acc, inexact;

    if (!COUNTS || x == 0 || (ENDS && !(finite(x) && finite(acc))))
        return;
    t.n[first] += same;
    if (COUNTS == COUNT_swamped || same)
        return;
    if (safe)
        inexact = sum != y || (y == x && acc != 0);
    else
        inexact = add32(y, -acc) != x || add32(y, -x) != acc;
    t.n[first + 1] += inexact && !beyond;
    if (first == TALLY_swamped)
        t.n[TALLY_sum_overflow] += beyond;
}

/* Returns acc + x, rounded to the accumulator's format.  Counts what was lost.  h: random
 * number. */
DEVICE float f32_add(struct f32_chains &n, float acc, float x, uint32_t h)
{
    constexpr limber_step s = MODEL.acc;
    float sum = f32_sum(s, acc, x, SAFE), y;
    bool beyond;

    y = f32_round(s, sum, random_of(h), CLAMPS ? CLAMP_signed : CLAMP_none, ENDS, beyond);
    f32_lost(n.tally, TALLY_swamped, SAFE, acc, x, sum, y, beyond);
    return y;
}

/* Returns acc + a b, rounded once to the accumulator's format.  Counts what was lost.  h: random
 * number. */
DEVICE float f32_add_product(struct f32_chains &n, float acc, float a, float b, uint32_t h)
{
    constexpr limber_step s = MODEL.acc;
    float y = f32_fma(s, a, b, acc);
    bool beyond;

    y = f32_round(s, y, random_of(h), CLAMP_signed, ENDS, beyond);
    f32_lost(n.tally, TALLY_swamped, false, acc, mul32(a, b), y, y, beyond);
    return y;
}

/* Returns acc + a b as the unit computes it, with or without a rounding of the product.  h: random
 * number. */
DEVICE float f32_step(struct f32_chains &n, float acc, float a, float b, uint32_t h)
{
    if constexpr (MODEL.mul.format.kind != 0)
        return f32_add(n, acc, f32_multiply(n, a, b, h), h);
    else
        return f32_add_product(n, acc, a, b, h);
}

/* Adds to each accumulator of this thread the products at four successive slots (positions of k),
 * in their order, as the simulated unit rounds them.  piece: which four slots of the stage. */
DEVICE void f32_piece(struct f32_chains &n, uint32_t stage, int piece)
{
    bytes16 a[TI], b[TJ];

    UNROLL for (int i = 0; i < TI; i++)
        a[i] = values_a(stage, n.row + 4 * i, piece);
    UNROLL for (int j = 0; j < TJ; j++)
        b[j] = values_b(stage, n.column + 8 * j, piece);
    UNROLL for (int q = 0; q < 4; q++)
        UNROLL for (int i = 0; i < TI; i++)
            UNROLL for (int j = 0; j < TJ; j++)
                n.acc[i][j] = f32_step(n, n.acc[i][j], bits_float(a[i].w[q]),
                                       bits_float(b[j].w[q]),
                                       number_of(n.element[i][j], 0, n.at.p + (uint32_t)q));
}

/* ---- trees of sums --------------------------------------------------------------------------- */

/* Returns the sum of `width` products of one element of C from position `slot` along k on, added as
 * a balanced tree.  left: number of these products that exist; all others are 0. */
template <int width>
DEVICE float f32_branch(struct f32_chains &n, uint32_t stage, int row, int column, int slot,
                        int left)
{
    if constexpr (width == 1) {
        uint32_t at = (uint32_t)(4 * (slot % 4));
        float a = load_shared<float>(stage + piece_at(row, slot / 4) + at);
        float b = load_shared<float>(stage + HELD * TILE_A + piece_at(column, slot / 4) + at);

        return left > 0 ? f32_multiply(n, a, b, 0) : 0;
    } else {
        float x = f32_branch<width / 2>(n, stage, row, column, slot, left);
        float y = f32_branch<width / 2>(n, stage, row, column, slot + width / 2,
                                        left - width / 2);

        return f32_add(n, x, y, 0);
    }
}

/* ---- fused blocks: terms are truncated to one unit, then added exactly ----------------------- */

/* State of fused blocks, per element of C.  First `most` is set to E, the largest exponent of the
 * block's terms.  Then products are multiplied by up = 2^(frac - E), truncated and added to `sum`.
 * The sum of the block is 256 high + low + sum; high and low are used if 32 bits might overflow
 * (SPLITS). */
enum { SPLITS = CHUNK < PIECE };
struct fused { int32_t most[TI][TJ], sum[TI][TJ], high[TI][TJ], low[TI][TJ]; float up[TI][TJ]; };

/* Returns the exponent of a sum, as it counts for the alignment of a block. */
DEVICE int32_t f32_exponent(float x)
{
    int32_t e = (int32_t)(float_bits(x) >> 23 & 255) - 127;

    e = e > -126 ? e : -126;
    return x == 0 && !MODEL.zeros ? NO_EXPONENT : e;
}

/* Raises f.most to the largest exponent of the products of four slots (positions along k). */
DEVICE void raise_exponents(const struct f32_chains &n, struct fused &f, uint32_t stage,
                            int piece)
{
    bytes16 a[TI];

    UNROLL for (int i = 0; i < TI; i++)
        a[i] = exponents_a(stage, n.row + 4 * i, piece);
    UNROLL for (int j = 0; j < TJ; j++) {
        bytes16 b = exponents_b(stage, n.column + 8 * j, piece);

        UNROLL for (int i = 0; i < TI; i++)
            UNROLL for (int q = 0; q < 4; q++) {
                int32_t e = (int32_t)a[i].w[q] + (int32_t)b.w[q];

                f.most[i][j] = e > f.most[i][j] ? e : f.most[i][j];
            }
    }
}

/* Sets f.up, the scale of a block's terms, from f.most, and clears the sums. */
DEVICE void fix_units(struct fused &f)
{
    constexpr int32_t least = MODEL.floor > MODEL.frac - 126 ? MODEL.floor : MODEL.frac - 126;

    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++) {
            int32_t most = f.most[i][j] > least ? f.most[i][j] : least;

            f.up[i][j] = power_of_two_f(MODEL.frac - most);
            f.sum[i][j] = f.high[i][j] = f.low[i][j] = 0;
        }
}

/* Adds the products of four slots (positions along k), truncated to the block's unit in the last
 * place, to each block's sum. */
DEVICE void add_truncated_products(struct f32_chains &n, struct fused &f, uint32_t stage,
                                   int piece)
{
    bytes16 a[TI];

    UNROLL for (int i = 0; i < TI; i++)
        a[i] = values_a(stage, n.row + 4 * i, piece);
    UNROLL for (int j = 0; j < TJ; j++) {
        bytes16 b = values_b(stage, n.column + 8 * j, piece);

        UNROLL for (int i = 0; i < TI; i++) {
            UNROLL for (int q = 0; q < 4; q++) {
                float ab = mul32(bits_float(a[i].w[q]), bits_float(b.w[q])),
                      x = mul32(ab, f.up[i][j]);
                int32_t v = cut32(x);

                f.sum[i][j] += v;
                if (COUNTS && (!ENDS || finite(n.acc[i][j]))) {
                    n.tally.n[TALLY_swamped] += ab != 0 && v == 0;
                    if (COUNTS == COUNT_all)
                        n.tally.n[TALLY_partly_swamped] += v != 0 && (float)v != x;
                }
            }
        }
    }
}

/* Moves sums to high and low before they can overflow 32 bits. */
DEVICE void split_sums(struct fused &f)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++) {
            f.high[i][j] += f.sum[i][j] >> 8;
            f.low[i][j] += f.sum[i][j] & 255;
            f.sum[i][j] = 0;
        }
}

/* Adds acc, truncated like the products, to the block's sum, and rounds the exact result into acc.
 * An acc that is NaN or infinite does not change. */
DEVICE void round_sums(struct f32_chains &n, const struct fused &f)
{
    constexpr limber_step s = MODEL.acc;

    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++) {
            float up = f.up[i][j], unit = bits_float(((uint32_t)254 << 23) - float_bits(up)), x;
            int32_t own = cut32(mul32(n.acc[i][j], up));    /* not used if acc is not finite */
            int32_t sum = f.sum[i][j] + (ONE_SUM ? own : 0);
            int32_t high = (sum >> 8) + (ONE_SUM ? 0 : own >> 8) + f.high[i][j];
            int32_t low = (sum & 255) + (ONE_SUM ? 0 : own & 255) + f.low[i][j];
            bool beyond, usable = !ENDS || finite(n.acc[i][j]);

            x = mul32(f32_fma(s, (float)high, 256, (float)low), unit);
            x = f32_round(s, x, random_of(number_of(n.element[i][j], 0, n.at.p)), CLAMP_signed,
                          false, beyond);
            n.acc[i][j] = usable ? x : n.acc[i][j];
            if (COUNTS == COUNT_all)
                n.tally.n[TALLY_sum_overflow] += usable && beyond;
        }
}

/* Adds a fused block to each accumulator: products are aligned, truncated and summed as
 * integers. */
DEVICE void f32_fused(struct f32_chains &n, uint32_t stage, int piece)
{
    struct fused f;

    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            f.most[i][j] = f32_exponent(n.acc[i][j]);
    ROLL for (int c = 0; c < PIECE / 4; c++)
        raise_exponents(n, f, stage, piece + c);
    fix_units(f);
    ROLL for (int c = 0; c < PIECE / 4; c++) {
        add_truncated_products(n, f, stage, piece + c);
        if (SPLITS && (c + 1) * 4 % CHUNK == 0)
            split_sums(f);
    }
    round_sums(n, f);
}

/* ---- fused blocks whose terms are sums of neighbouring products, exact in FP32 --------------- */

enum { TERMS = SUB > 1 ? BLOCK / SUB : 1 };

/* Returns acc plus a block's terms as a fused unit adds them: acc and terms are aligned to the
 * largest exponent, truncated, added exactly and rounded once, all in FP64.  e: exponents of the
 * terms.  h: random number.  Counts terms that lose bits. */
DEVICE float f32_add_aligned(struct tally &t, float acc, const float (&term)[TERMS],
                            const int32_t (&e)[TERMS], uint32_t h)
{
    int32_t most = f32_exponent(acc);
    double up, unit, sum;
    bool beyond;

    if (ENDS && !finite(acc))
        return acc;
    UNROLL for (int q = 0; q < TERMS; q++)
        if ((MODEL.zeros || term[q] != 0) && e[q] > most)
            most = e[q];
    most = most > MODEL.floor ? most : MODEL.floor;
    most = most > -400 ? most : -400;       /* any small exponent will do if all terms are zero */
    up = power_of_two(MODEL.frac - most);
    unit = power_of_two(most - MODEL.frac);
    sum = cut64(mul64((double)acc, up));
    UNROLL for (int q = 0; q < TERMS; q++) {
        double x = mul64((double)term[q], up), cut = cut64(x);

        sum = add64(sum, cut);
        if (COUNTS) {
            t.n[TALLY_swamped] += term[q] != 0 && cut == 0;
            if (COUNTS == COUNT_all)
                t.n[TALLY_partly_swamped] += cut != 0 && cut != x;
        }
    }
    acc = (float)wide_round(MODEL.acc, add64(mul64(sum, unit), 0), random_of(h), beyond);
    if (COUNTS == COUNT_all)
        t.n[TALLY_sum_overflow] += beyond;
    return acc;
}

/* Sets e to the exponents of a block's terms in one row of A or column of B: those of each term's
 * first slot (position along k). */
DEVICE void term_exponents(int32_t (&e)[TERMS], uint32_t tile, int line, int piece)
{
    UNROLL for (int q = 0; q < TERMS; q++)
        e[q] = load_shared<int32_t>(tile + piece_at(line, piece + q * (SUB / 4)));
}

/* Adds a block whose terms are sums of SUB neighbouring products, for all elements of this
 * thread. */
DEVICE void f32_terms(struct f32_chains &n, uint32_t stage, int piece)
{
    float term[TI][TJ][TERMS] = {};

    UNROLL for (int q = 0; q < TERMS; q++)
        ROLL for (int c = q * (SUB / 4); c < (q + 1) * (SUB / 4); c++) {
            bytes16 a[TI];

            UNROLL for (int i = 0; i < TI; i++)
                a[i] = values_a(stage, n.row + 4 * i, piece + c);
            UNROLL for (int j = 0; j < TJ; j++) {
                bytes16 b = values_b(stage, n.column + 8 * j, piece + c);

                UNROLL for (int i = 0; i < TI; i++)
                    UNROLL for (int s = 0; s < 4; s++)
                        term[i][j][q] = fma32(bits_float(a[i].w[s]), bits_float(b.w[s]),
                                              term[i][j][q]);
            }
        }
    UNROLL for (int i = 0; i < TI; i++) {
        int32_t ea[TERMS], e[TERMS];

        term_exponents(ea, stage + TILE_A, n.row + 4 * i, piece);
        UNROLL for (int j = 0; j < TJ; j++) {
            term_exponents(e, stage + HELD * TILE_A + TILE_B, n.column + 8 * j, piece);
            UNROLL for (int q = 0; q < TERMS; q++)
                e[q] += ea[q];
            n.acc[i][j] = f32_add_aligned(n.tally, n.acc[i][j], term[i][j], e,
                                         number_of(n.element[i][j], 0, n.at.p));
        }
    }
}

/* ---- a task: all of k ------------------------------------------------------------------------ */

/* Returns sum + x in the format and rounding of s. x: the sum of a group or of a section of k.
 * h: random number. */
DEVICE float f32_outer(struct f32_chains &n, limber_step s, float sum, float x, uint32_t h)
{
    float y = f32_sum(s, sum, x, SAFE_OUTER);
    bool beyond;

    y = f32_round(s, y, random_of(h), CLAMP_signed, ENDS, beyond);
    f32_lost(n.tally, TALLY_outer_swamped, false, sum, x, y, y, beyond);
    return y;
}

/* Adds the sums `part` to `sum`, in the format and rounding of s, and sets `part` to zero. */
DEVICE void f32_add_part(struct f32_chains &n, limber_step s, lanes &sum, lanes &part,
                         uint32_t stream, uint32_t index)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            sum[i][j] = f32_outer(n, s, sum[i][j], part[i][j],
                                  number_of(n.element[i][j], stream, index));
    clear(part);
}

/* Adds accumulators to outer sums where a group ends, and outer sums to totals where a section of k
 * ends. */
DEVICE void f32_ends(struct f32_chains &n, int what)
{
    if (MODEL.group && what & ENDS_group)
        f32_add_part(n, MODEL.outer, n.outer, n.acc, 1, n.at.group);
    if constexpr (MODEL.split > 1)
        if (what & ENDS_part)
            f32_add_part(n, MODEL.total, n.total, MODEL.group ? n.outer : n.acc, 2, n.at.part);
    begin_next(n.at, what);
}

/* Adds one block, summed as a tree, to each accumulator. */
DEVICE void f32_tree(struct f32_chains &n, uint32_t stage, int slot, int left)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            n.acc[i][j] = f32_add(n, n.acc[i][j], f32_branch<BLOCK>(
                                  n, stage, n.row + 4 * i, n.column + 8 * j, slot, left), 0);
}

/* Adds the products of a pipeline stage to the accumulators. */
DEVICE void f32_stage(const struct slots &s, struct f32_chains &n, uint32_t stage)
{
    ROLL for (int slot = 0; slot < STAGE_SLOTS && n.at.slot < s.count; slot += PIECE) {
        if constexpr (BLOCK == 1) {
            f32_piece(n, stage, slot / 4);
        } else if constexpr (MODEL.tree != 0) {
            int64_t left = s.k - n.at.p;

            f32_tree(n, stage, slot, left < BLOCK ? (int)left : BLOCK);
        } else if constexpr (SUB == 1) {
            f32_fused(n, stage, slot / 4);
        } else {
            f32_terms(n, stage, slot / 4);
        }
        f32_ends(n, advance(n.at, s));
    }
}

/* Computes a tile of C in FP32: simulates the unit for TI x TJ elements of each thread at once. */
DEVICE void f32_task(const multiply_args &a, struct task t)
{
    int row = warp() / WARPS_N * WARP_M + (lane() >> 3);
    int column = warp() % WARPS_N * WARP_N + (lane() & 7);
    int64_t i0 = (int64_t)t.i * BM + row, j0 = (int64_t)t.j * BN + column;
    struct f32_chains n;

    n.at = begin(a.slots);
    n.row = row;
    n.column = column;
    n.tally = {};
    clear(n.acc);
    clear(n.outer);
    clear(n.total);
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            n.element[i][j] = element_of(a, i0 + 4 * i, j0 + 8 * j);
    pipeline(a, t, [&](uint32_t stage, int) { f32_stage(a.slots, n, stage); });
    const result_args r = result_of(a.r, t.product);

    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++) {
            lanes &sum = MODEL.split > 1 ? n.total : MODEL.group ? n.outer : n.acc;

            put_value(r, i0 + 4 * i, j0 + 8 * j, n.element[i][j], (double)sum[i][j]);
        }
    add_counts(a.counts, n.tally);
}

#endif
