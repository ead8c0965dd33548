/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units in FP32 lanes, for tiles whose value ranges allow it.  The functions are those
 * that unit_loop.h declares. */
#ifndef LIMBER_KERNEL_UNIT_F32_H
#define LIMBER_KERNEL_UNIT_F32_H

#define F(name) f32_##name
#define V v16f
#define RAND v16u
#define MASK v16i
#define ROWS 4
#define VECS 2
#include "backends/llvm/kernel/unit_loop.h"
#undef F
#undef V
#undef RAND
#undef MASK
#undef ROWS
#undef VECS

/* Returns element (r, p) of A's panel, in all lanes. */
FLAT v16f f32_load_a(const struct f32_tile *t, int64_t p, int r)
{
    return all_f(*(const float *)(const void *)(t->a + (p * CONSTANT.mr + r) * 4));
}

/* Returns vector v of row p of B's panel. */
FLAT v16f f32_load_b(const struct f32_tile *t, int64_t p, int v)
{
    return LOAD(v16f, t->b + (p * CONSTANT.nr + 16 * v) * 4);
}

/* Returns the random bits of an addition: the upper MODEL.random_bits bits of `random`.  Products
 * use its lower half. */
FLAT v16i f32_bits(v16u random)
{
    return (v16i)(random >> (uint32_t)(32 - MODEL.random_bits));
}

/* Returns a mask of the lanes in which x is finite. */
FLAT v16i f32_finite(v16f x)
{
    return (v16i)(x - x == 0);
}

/* Returns a * b, rounded to the unit's product format if it has one.  random: bits for stochastic
 * rounding. */
FLAT v16f f32_multiply(struct f32_tile *t, v16f a, v16f b, v16u random)
{
    v16f x = a * b, y;
    v16i beyond, lost;

    y = f32_round(MODEL.mul, x, f32_bits(random << 16),
                  CONSTANT.clamps ? CLAMP_signed : CLAMP_low, t->bounded, &beyond);
    if (CONSTANT.counts == COUNT_all) {
        lost = (v16i)(y != x);
        if (!t->bounded) {
            v16i some = f32_finite(x);

            lost &= some;
            t->tally.mul_overflow += some & beyond;
        }
        t->tally.mul_inexact += lost;
        t->tally.mul_underflow += lost & (v16i)(y == 0);
    }
    return y;
}

/* Sets masks of the lanes in which rounding acc + x to y lost all of x (swamped), lost some bits
 * (partly) or overflowed (over).  sum: the value that was rounded to y.
 *
 * With `safe` (rounding to nearest, few bits), sum is exact or equals one of the terms.  Otherwise
 * one of the differences y - acc and y - x is exact, so both agree with x and acc only if y is the
 * exact sum. */
FLAT void f32_lost(const struct f32_tile *t, int safe, v16f acc, v16f x, v16f sum, v16f y,
                   v16i beyond, v16i *swamped, v16i *partly, v16i *over)
{
    v16i same = (v16i)(y == acc), some = (v16i)(x != 0), inexact;

    if (!t->bounded)
        some &= f32_finite(x) & f32_finite(acc);
    *swamped = some & same;
    if (CONSTANT.counts == COUNT_swamped) {
        *partly = *over = all_i(0);
        return;
    }
    if (safe)
        inexact = (v16i)(sum != y) | ((v16i)(y == x) & (v16i)(acc != 0));
    else
        inexact = (v16i)(y - acc != x) | (v16i)(y - x != acc);
    *partly = inexact & ~same;
    *over = all_i(0);
    if (!t->bounded) {
        *over = some & beyond & ~same;
        *partly &= some & ~*over;
    } else if (!safe) {
        *partly &= some;
    }
}

/* Counts what the addition acc + x lost when it was rounded to y, and returns y.  sum: the value
 * that was rounded. */
FLAT v16f f32_counted(struct f32_tile *t, int safe, v16f acc, v16f x, v16f sum, v16f y,
                      v16i beyond)
{
    v16i swamped, partly, over;

    if (CONSTANT.counts) {
        f32_lost(t, safe, acc, x, sum, y, beyond, &swamped, &partly, &over);
        t->tally.swamped += swamped;
        t->tally.partly_swamped += partly;
        t->tally.sum_overflow += over;
    }
    return y;
}

/* Updates the largest magnitude of tracked sums: max(|most|, |y|). */
FLAT void f32_track(struct f32_tile *t, v16f y)
{
#ifdef __AVX512F__      /* only AVX-512 code tracks sums */
    if (CONSTANT.tracks && t->bounded)
        t->most = (v16f)__builtin_ia32_rangeps512_mask(t->most, y, 11, t->most, (uint16_t)-1, 4);
#else
    (void)t, (void)y;
#endif
}

/* Returns acc + x in the format and rounding of s.  Counts terms that lose bits. random: bits
 * for stochastic rounding. */
FLAT v16f f32_add(struct f32_tile *t, limber_step s, v16f acc, v16f x, v16u random)
{
    v16i beyond;
    v16f sum = f32_sum(s, acc, x, CONSTANT.safe), y;

    y = f32_round(s, sum, f32_bits(random), CONSTANT.clamps ? CLAMP_signed : CLAMP_none,
                  t->bounded, &beyond);
    f32_track(t, y);
    return f32_counted(t, CONSTANT.safe, acc, x, sum, y, beyond);
}

/* Returns acc + a * b, rounded once to the accumulator's format.  random: bits for stochastic
 * rounding. */
FLAT v16f f32_add_product(struct f32_tile *t, v16f acc, v16f a, v16f b, v16u random)
{
    limber_step s = MODEL.acc;
    v16f x = a * b, y = f32_fma(s, a, b, acc);
    v16i beyond;

    y = f32_round(s, y, f32_bits(random), CLAMP_signed, t->bounded, &beyond);
    f32_track(t, y);
    return f32_counted(t, 0, acc, x, y, y, beyond);
}

/* Returns an outer sum plus x, the sum of a group, in the format and rounding of s. random: bits
 * for stochastic rounding. */
FLAT v16f f32_outer(struct f32_tile *t, limber_step s, v16f sum, v16f x, v16u random)
{
    v16i swamped, partly, over, beyond;
    v16f y = f32_sum(s, sum, x, CONSTANT.safe_outer);

    y = f32_round(s, y, f32_bits(random), CLAMP_signed, t->bounded, &beyond);
    f32_track(t, y);
    if (CONSTANT.counts) {
        f32_lost(t, 0, sum, x, y, y, beyond, &swamped, &partly, &over);
        t->tally.outer_swamped += swamped;
        t->tally.outer_partly += partly;
    }
    return y;
}

/* Returns the exponents of accumulators for the alignment of a fused block, at least FP32's
 * lowest. */
FLAT v16i f32_exponents(v16f x)
{
    v16i e = ((v16i)x >> 23 & 255) - 127;

    e = PICK(e > -126, e, all_i(-126));
    return MODEL.zeros ? e : PICK((v16i)(x == 0), all_i(NO_EXPONENT), e);
}

/* Returns x times `up`, truncated toward zero to an integer.  Counts products that lose bits, if
 * is_product. */
FLAT v16i f32_term(struct f32_tile *t, v16f x, v16f up, int is_product)
{
    v16f whole = x * up;
    v16i cut = TO(v16i, whole);

    if (CONSTANT.counts && is_product) {
        v16i some = (v16i)(x != 0), swamped = some & (v16i)(cut == 0);

        t->tally.swamped += swamped;
        if (CONSTANT.counts == COUNT_all)
            t->tally.partly_swamped += some & (v16i)(TO(v16f, cut) != whole) & ~swamped;
    }
    return cut;
}

/* Returns (256 high + low) * 2^e, rounded to the accumulator's format.  random: bits for stochastic
 * rounding. */
FLAT v16f f32_fused_sum(v16i high, v16i low, v16i e, v16u random)
{
    v16i beyond;
    v16f x = f32_fma(MODEL.acc, TO(v16f, high), all_f(256), TO(v16f, low));

    x *= (v16f)((e + 127) << 23);
    return f32_round(MODEL.acc, x, f32_bits(random), CLAMP_signed, 1, &beyond);
}

/* largest number of terms of a block, if each term is a sum of neighbouring products */
enum { TERMS = 16 };

/* Returns acc plus a block's terms as a fused unit adds them: acc and terms are aligned to the
 * largest exponent, truncated, added exactly and rounded once, all in FP64.  A term is a sum of
 * neighbouring products.  e: exponents of the terms.  random: bits for stochastic rounding.  Counts
 * terms that lose bits. */
FLAT v16f f32_add_aligned(struct f32_tile *t, v16f acc, const v16f *term, const v16i *e,
                         int terms, v16u random)
{
    v16i most = f32_exponents(acc);
    v8d half[2];

    ROLL for (int q = 0; q < terms; q++) {
        v16i there = MODEL.zeros ? e[q] : PICK((v16i)(term[q] == 0), all_i(2 * NO_EXPONENT), e[q]);

        most = PICK(there > most, there, most);
    }
    most = PICK(most > MODEL.floor, most, all_i(MODEL.floor));
    /* any small exponent will do if all terms are zero */
    most = PICK(most > -400, most, all_i(-400));
    UNROLL for (int i = 0; i < 2; i++) {
        v8l unit = TO(v8l, i ? HIGH(most) : LOW(most)) - MODEL.frac, beyond;
        v8d up = powers_of_two(-unit), sum = TRUNC(TO(v8d, i ? HIGH(acc) : LOW(acc)) * up);

        ROLL for (int q = 0; q < terms; q++) {
            v8d x = TO(v8d, i ? HIGH(term[q]) : LOW(term[q])), cut = TRUNC(x * up);

            if (CONSTANT.counts) {
                v8l swamped = (v8l)(x != 0) & (v8l)(cut == 0);
                v8l partly = (v8l)(cut != x * up) & ~swamped;
                v8i lost = TO(v8i, swamped), some = TO(v8i, partly), none = lost & 0;

                t->tally.swamped += i ? JOIN(none, lost) : JOIN(lost, none);
                if (CONSTANT.counts == COUNT_all)
                    t->tally.partly_swamped += i ? JOIN(none, some) : JOIN(some, none);
            }
            sum += cut;
        }
        half[i] = wide_round(MODEL.acc, sum * powers_of_two(unit) + 0.0,
                             wide_bits(i ? (v8w)HIGH(random) : (v8w)LOW(random)), &beyond);
    }
    return JOIN(TO(v8f, half[0]), TO(v8f, half[1]));
}

/* Adds the block of n products from p on to the accumulators.  Each term is the sum of MODEL.sub
 * neighbouring products, which is exact in FP32. */
FLAT void f32_sums(struct f32_tile *t, v16f acc[4][2], int64_t p, int64_t n)
{
    int terms = (int)((n + MODEL.sub - 1) / MODEL.sub);

    ROLL for (int v = 0; v < 2; v++) {
        v16f term[4][TERMS];
        v16i e[4][TERMS];

        ROLL for (int q = 0; q < terms; q++) {
            int64_t from = p + q * MODEL.sub, to = min64(from + MODEL.sub, p + n);
            v16i eb = LOAD(v16i, t->eb + (from * CONSTANT.nr + 16 * v) * 4);
            v16f sum[4];

            UNROLL for (int r = 0; r < 4; r++)
                sum[r] = all_f(0);
            ROLL for (int64_t s = from; s < to; s++) {
                v16f b = f32_load_b(t, s, v);

                UNROLL for (int r = 0; r < 4; r++)
                    sum[r] = FMA(f32_load_a(t, s, r), b, sum[r]);
            }
            UNROLL for (int r = 0; r < 4; r++) {
                term[r][q] = sum[r];
                e[r][q] =
                    eb + *(const int32_t *)(const void *)(t->ea + (from * CONSTANT.mr + r) * 4);
            }
        }
        ROLL for (int r = 0; r < 4; r++)
            acc[r][v] = f32_add_aligned(t, acc[r][v], term[r], e[r], terms,
                                       f32_number(t, r, v, 0, (uint32_t)p));
    }
}

/* Adds the block of n products from p on to the accumulators.  First computes the largest exponent
 * E of the terms; then truncates the terms to units of 2^(E - frac) and adds them as 32-bit
 * integers. */
FLAT void f32_fused(struct f32_tile *t, v16f acc[4][2], int64_t p, int64_t n)
{
    if (MODEL.sub > 1) {
        f32_sums(t, acc, p, n);
        return;
    }
    ROLL for (int v = 0; v < 2; v++) {
        const char *ea = t->ea + p * CONSTANT.mr * 4, *eb = t->eb + (p * CONSTANT.nr + 16 * v) * 4;
        v16i most[4], sum[4], high[4], low[4];
        v16f up[4];

        UNROLL for (int r = 0; r < 4; r++)
            most[r] = f32_exponents(acc[r][v]);
        ROLL for (int64_t q = 0; q < n; q++) {
            v16i e = LOAD(v16i, eb + q * CONSTANT.nr * 4);

            UNROLL for (int r = 0; r < 4; r++) {
                v16i s = e + *(const int32_t *)(const void *)(ea + (q * CONSTANT.mr + r) * 4);

                most[r] = PICK(s > most[r], s, most[r]);
            }
        }
        UNROLL for (int r = 0; r < 4; r++) {
            int least = MODEL.floor > MODEL.frac - 126 ? MODEL.floor : MODEL.frac - 126;

            most[r] = PICK(most[r] > least, most[r], all_i(least));
            up[r] = (v16f)((127 + MODEL.frac - most[r]) << 23);
            sum[r] = f32_term(t, acc[r][v], up[r], 0);
            high[r] = sum[r] >> 8;
            low[r] = sum[r] & 255;
        }
        ROLL for (int64_t from = 0; from < n; from += CONSTANT.terms) {
            UNROLL for (int r = 0; r < 4; r++)
                sum[r] = all_i(0);
            ROLL for (int64_t q = from; q < min64(from + CONSTANT.terms, n); q++) {
                v16f b = f32_load_b(t, p + q, v);

                UNROLL for (int r = 0; r < 4; r++)
                    sum[r] += f32_term(t, f32_load_a(t, p + q, r) * b, up[r], 1);
            }
            UNROLL for (int r = 0; r < 4; r++) {
                high[r] += sum[r] >> 8;
                low[r] += sum[r] & 255;
            }
        }
        UNROLL for (int r = 0; r < 4; r++)
            acc[r][v] = f32_fused_sum(high[r], low[r], most[r] - MODEL.frac,
                                      f32_number(t, r, v, 0, (uint32_t)p));
    }
}

/* Placeholder, which is never called: units that add acc last use FP64 lanes. */
FLAT void f32_late(struct f32_tile *t, v16f acc[4][2], int64_t p, int64_t n)
{
    (void)t, (void)acc, (void)p, (void)n;
}

#endif
