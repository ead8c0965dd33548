/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units in FP32, for tiles whose lines hold only values of moderate size.  Lane l holds
 * rows (l >> 3) + 4 i and columns (l & 7) + 8 j of its warp's part. */
#ifndef LIMBER_CUDA_UNIT_NARROW_H
#define LIMBER_CUDA_UNIT_NARROW_H

typedef float lanes[TI][TJ];

/* The sums of one lane's elements in FP32: accumulators, sums of groups, and of parts. */
struct narrow_chains {
    struct progress at;
    lanes acc, outer, total;
    uint32_t element[TI][TJ];   /* seeds of random numbers */
    int row, column;            /* position of the lane's first element in the tile */
    struct tally tally;
};

DEVICE void clear(lanes &x)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            x[i][j] = 0;
}

/* ---- products added one by one --------------------------------------------------------------- */

/* a b, rounded to the unit's product format. h: random bits. */
DEVICE float narrow_multiply(struct narrow_chains &n, float a, float b, uint32_t h)
{
    float x = mul32(a, b), y;
    bool beyond;

    y = narrow_round(MODEL.mul, x, random_of(h << 16), CLAMPS ? CLAMP_signed : CLAMP_low, false,
                     beyond);
    if (COUNTS == COUNT_all) {
        n.tally.n[TALLY_mul_overflow] += beyond;
        n.tally.n[TALLY_mul_inexact] += y != x;
        n.tally.n[TALLY_mul_underflow] += y == 0 && x != 0;
    }
    return y;
}

/* Counts what rounding acc + x to y lost, from counter `first` on. sum: the value that was rounded.
 * With `safe` (rounding to nearest, few bits) it is exact or equals one term.  Otherwise one of the
 * two differences is exact, so both agree exactly if the sum is. */
DEVICE void narrow_lost(struct tally &t, int first, bool safe, float acc, float x, float sum,
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

/* acc + x, rounded to the accumulator's format; counts lost terms. */
DEVICE float narrow_add(struct narrow_chains &n, float acc, float x, uint32_t h)
{
    constexpr limber_step s = MODEL.acc;
    float sum = narrow_sum(s, acc, x, SAFE), y;
    bool beyond;

    y = narrow_round(s, sum, random_of(h), CLAMPS ? CLAMP_signed : CLAMP_none, ENDS, beyond);
    narrow_lost(n.tally, TALLY_swamped, SAFE, acc, x, sum, y, beyond);
    return y;
}

/* acc + a b, rounded once to the accumulator's format. */
DEVICE float narrow_add_product(struct narrow_chains &n, float acc, float a, float b, uint32_t h)
{
    constexpr limber_step s = MODEL.acc;
    float y = narrow_fma(s, a, b, acc);
    bool beyond;

    y = narrow_round(s, y, random_of(h), CLAMP_signed, ENDS, beyond);
    narrow_lost(n.tally, TALLY_swamped, false, acc, mul32(a, b), y, y, beyond);
    return y;
}

/* acc plus a product, with the roundings of the unit. */
DEVICE float narrow_step(struct narrow_chains &n, float acc, float a, float b, uint32_t h)
{
    if constexpr (MODEL.mul.format.kind != 0)
        return narrow_add(n, acc, narrow_multiply(n, a, b, h), h);
    else
        return narrow_add_product(n, acc, a, b, h);
}

/* Adds the products of four slots to the accumulators, one by one. */
DEVICE void narrow_piece(struct narrow_chains &n, uint32_t stage, int piece)
{
    bytes16 a[TI], b[TJ];

    UNROLL for (int i = 0; i < TI; i++)
        a[i] = values_a(stage, n.row + 4 * i, piece);
    UNROLL for (int j = 0; j < TJ; j++)
        b[j] = values_b(stage, n.column + 8 * j, piece);
    UNROLL for (int q = 0; q < 4; q++)
        UNROLL for (int i = 0; i < TI; i++)
            UNROLL for (int j = 0; j < TJ; j++)
                n.acc[i][j] = narrow_step(n, n.acc[i][j], bits_float(a[i].w[q]),
                                          bits_float(b[j].w[q]),
                                          number_of(n.element[i][j], 0, n.at.p + (uint32_t)q));
}

/* ---- trees of sums --------------------------------------------------------------------------- */

/* Adds products [q, q + width) of one element as a balanced tree. */
template <int width>
DEVICE float narrow_branch(struct narrow_chains &n, uint32_t stage, int row, int column, int slot,
                           int left)
{
    if constexpr (width == 1) {
        uint32_t at = (uint32_t)(4 * (slot % 4));
        float a = load_shared<float>(stage + piece_at(row, slot / 4) + at);
        float b = load_shared<float>(stage + HELD * TILE_A + piece_at(column, slot / 4) + at);

        return left > 0 ? narrow_multiply(n, a, b, 0) : 0;
    } else {
        float x = narrow_branch<width / 2>(n, stage, row, column, slot, left);
        float y = narrow_branch<width / 2>(n, stage, row, column, slot + width / 2,
                                           left - width / 2);

        return narrow_add(n, x, y, 0);
    }
}

/* ---- fused blocks: terms cut to one unit and added ------------------------------------------- */

/* Sums of products in units of 2^(E - frac).  First E, the largest exponent of the terms, is found;
 * then products are multiplied by 2^(frac - E).  The sum is 256 high + low if a block does not fit
 * 32 bits. */
enum { SPLITS = CHUNK < PIECE };
struct fused { int32_t most[TI][TJ], sum[TI][TJ], high[TI][TJ], low[TI][TJ]; float up[TI][TJ]; };

/* The exponent that a sum has in the alignment of a block. */
DEVICE int32_t narrow_exponent(float x)
{
    int32_t e = (int32_t)(float_bits(x) >> 23 & 255) - 127;

    e = e > -126 ? e : -126;
    return x == 0 && !MODEL.zeros ? NO_EXPONENT : e;
}

/* Finds the exponents that the products of four slots have in the alignment of a block. */
DEVICE void see_exponents(const struct narrow_chains &n, struct fused &f, uint32_t stage, int piece)
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

/* Adds a piece's products to each block's sum, cut to the block's unit. */
DEVICE void see_products(struct narrow_chains &n, struct fused &f, uint32_t stage, int piece)
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

/* Moves sums out of their 32 bits before they may overflow. */
DEVICE void split_sums(struct fused &f)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++) {
            f.high[i][j] += f.sum[i][j] >> 8;
            f.low[i][j] += f.sum[i][j] & 255;
            f.sum[i][j] = 0;
        }
}

/* Rounds acc from the exact sum, of which it is a term; NaN and infinities stay. */
DEVICE void round_sums(struct narrow_chains &n, const struct fused &f)
{
    constexpr limber_step s = MODEL.acc;

    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++) {
            float up = f.up[i][j], unit = bits_float(((uint32_t)254 << 23) - float_bits(up)), x;
            int32_t own = cut32(mul32(n.acc[i][j], up));    /* any value if acc is not finite */
            int32_t sum = f.sum[i][j] + (ONE_SUM ? own : 0);
            int32_t high = (sum >> 8) + (ONE_SUM ? 0 : own >> 8) + f.high[i][j];
            int32_t low = (sum & 255) + (ONE_SUM ? 0 : own & 255) + f.low[i][j];
            bool beyond, usable = !ENDS || finite(n.acc[i][j]);

            x = mul32(narrow_fma(s, (float)high, 256, (float)low), unit);
            x = narrow_round(s, x, random_of(number_of(n.element[i][j], 0, n.at.p)), CLAMP_signed,
                             false, beyond);
            n.acc[i][j] = usable ? x : n.acc[i][j];
            if (COUNTS == COUNT_all)
                n.tally.n[TALLY_sum_overflow] += usable && beyond;
        }
}

/* Adds a block of products to the accumulators: aligned, truncated and summed as integers. */
DEVICE void narrow_fused(struct narrow_chains &n, uint32_t stage, int piece)
{
    struct fused f;

    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            f.most[i][j] = narrow_exponent(n.acc[i][j]);
    ROLL for (int c = 0; c < PIECE / 4; c++)
        see_exponents(n, f, stage, piece + c);
    fix_units(f);
    ROLL for (int c = 0; c < PIECE / 4; c++) {
        see_products(n, f, stage, piece + c);
        if (SPLITS && (c + 1) * 4 % CHUNK == 0)
            split_sums(f);
    }
    round_sums(n, f);
}

/* ---- blocks whose terms are sums of neighbours, exact in FP32 -------------------------------- */

enum { TERMS = SUB > 1 ? BLOCK / SUB : 1 };

/* Adds a block to one element: aligned and rounded in FP64. */
DEVICE float narrow_aligned(struct tally &t, float acc, const float (&term)[TERMS],
                            const int32_t (&e)[TERMS], uint32_t h)
{
    int32_t most = narrow_exponent(acc);
    double up, unit, sum;
    bool beyond;

    if (ENDS && !finite(acc))
        return acc;
    UNROLL for (int q = 0; q < TERMS; q++)
        if ((MODEL.zeros || term[q] != 0) && e[q] > most)
            most = e[q];
    most = most > MODEL.floor ? most : MODEL.floor;
    most = most > -400 ? most : -400;       /* if all terms are zero */
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

/* Exponents of a block's terms in one line: those of their first slots. */
DEVICE void term_exponents(int32_t (&e)[TERMS], uint32_t tile, int line, int piece)
{
    UNROLL for (int q = 0; q < TERMS; q++)
        e[q] = load_shared<int32_t>(tile + piece_at(line, piece + q * (SUB / 4)));
}

/* Adds a block whose terms are sums of neighbours, to all elements of this thread. */
DEVICE void narrow_terms(struct narrow_chains &n, uint32_t stage, int piece)
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
            n.acc[i][j] = narrow_aligned(n.tally, n.acc[i][j], term[i][j], e,
                                         number_of(n.element[i][j], 0, n.at.p));
        }
    }
}

/* ---- a task: all of k ------------------------------------------------------------------------ */

/* Adds a group's sum x to the outer sum, rounded to step s with the random bits h. */
DEVICE float narrow_outer(struct narrow_chains &n, limber_step s, float sum, float x, uint32_t h)
{
    float y = narrow_sum(s, sum, x, SAFE_OUTER);
    bool beyond;

    y = narrow_round(s, y, random_of(h), CLAMP_signed, ENDS, beyond);
    narrow_lost(n.tally, TALLY_outer_swamped, false, sum, x, y, y, beyond);
    return y;
}

/* sum = round(sum + part); the part restarts at zero. */
DEVICE void narrow_add_part(struct narrow_chains &n, limber_step s, lanes &sum, lanes &part,
                            uint32_t stream, uint32_t index)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            sum[i][j] = narrow_outer(n, s, sum[i][j], part[i][j],
                                     number_of(n.element[i][j], stream, index));
    clear(part);
}

/* Adds outer sums where groups and parts end. */
DEVICE void narrow_ends(struct narrow_chains &n, int what)
{
    if (MODEL.group && what & ENDS_group)
        narrow_add_part(n, MODEL.outer, n.outer, n.acc, 1, n.at.group);
    if constexpr (MODEL.split > 1)
        if (what & ENDS_part)
            narrow_add_part(n, MODEL.total, n.total, MODEL.group ? n.outer : n.acc, 2, n.at.part);
    ended(n.at, what);
}

/* Adds one block, as a tree, to each accumulator. */
DEVICE void narrow_tree(struct narrow_chains &n, uint32_t stage, int slot, int left)
{
    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++)
            n.acc[i][j] = narrow_add(n, n.acc[i][j], narrow_branch<BLOCK>(
                                     n, stage, n.row + 4 * i, n.column + 8 * j, slot, left), 0);
}

/* Adds the products of a stage to the accumulators. */
DEVICE void narrow_stage(const struct slots &s, struct narrow_chains &n, uint32_t stage)
{
    ROLL for (int slot = 0; slot < STAGE_SLOTS && n.at.slot < s.count; slot += PIECE) {
        if constexpr (BLOCK == 1) {
            narrow_piece(n, stage, slot / 4);
        } else if constexpr (MODEL.tree != 0) {
            int64_t left = s.k - n.at.p;

            narrow_tree(n, stage, slot, left < BLOCK ? (int)left : BLOCK);
        } else if constexpr (SUB == 1) {
            narrow_fused(n, stage, slot / 4);
        } else {
            narrow_terms(n, stage, slot / 4);
        }
        narrow_ends(n, advance(n.at, s));
    }
}

/* Computes a tile of C in FP32; a thread has TI x TJ elements. */
DEVICE void narrow_task(const multiply_args &a, struct task t)
{
    int row = warp() / WARPS_N * WARP_M + (lane() >> 3);
    int column = warp() % WARPS_N * WARP_N + (lane() & 7);
    int64_t i0 = (int64_t)t.i * BM + row, j0 = (int64_t)t.j * BN + column;
    struct narrow_chains n;

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
    pipeline(a, t, [&](uint32_t stage, int) { narrow_stage(a.slots, n, stage); });
    const result_args r = result_of(a.r, t.product);

    UNROLL for (int i = 0; i < TI; i++)
        UNROLL for (int j = 0; j < TJ; j++) {
            lanes &sum = MODEL.split > 1 ? n.total : MODEL.group ? n.outer : n.acc;

            put_value(r, i0 + 4 * i, j0 + 8 * j, n.element[i][j], (double)sum[i][j]);
        }
    add_counts(a.counts, n.tally);
}

#endif
