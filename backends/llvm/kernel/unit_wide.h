/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units in FP64 lanes, for any description and any data.  The functions are those that
 * unit_loop.h declares. */
#ifndef LIMBER_KERNEL_UNIT_WIDE_H
#define LIMBER_KERNEL_UNIT_WIDE_H

#define F(name) wide_##name
#define V v8d
#define RAND v8w
#define MASK v8l
#define ROWS 1
#define VECS 4
#include "backends/llvm/kernel/unit_loop.h"
#undef F
#undef V
#undef RAND
#undef MASK
#undef ROWS
#undef VECS

/* Returns element p of A's row, in all lanes.  A tile has only one row, and t->a already points to
 * it. */
FLAT v8d wide_load_a(const struct wide_tile *t, int64_t p, int r)
{
    (void)r;
    return all_d(*(const float *)(const void *)(t->a + p * CONSTANT.mr * 4));
}

/* Returns vector v of row p of B's panel. */
FLAT v8d wide_load_b(const struct wide_tile *t, int64_t p, int v)
{
    return TO(v8d, LOAD(v8f, t->b + (p * CONSTANT.nr + 8 * v) * 4));
}

/* Returns the random bits of an addition: the upper MODEL.random_bits bits of `random`.  Products
 * use its lower half. */
FLAT v8l wide_bits(v8w random)
{
    return TO(v8l, random >> (uint32_t)(32 - MODEL.random_bits));
}

/* Returns a mask of the lanes in which x is finite. */
FLAT v8l wide_finite(v8d x)
{
    return (v8l)(x - x == 0);
}

/* Returns a * b, rounded to the unit's product format if it has one.  random: bits for stochastic
 * rounding. */
FLAT v8d wide_multiply(struct wide_tile *t, v8d a, v8d b, v8w random)
{
    v8d x = a * b, y = x;
    v8l some, beyond;

    if (MODEL.mul.format.kind)
        y = wide_round(MODEL.mul, x, wide_bits(random << 16), &beyond);
    if (CONSTANT.counts != COUNT_all)
        return y;
    some = (v8l)(x != 0) & wide_finite(x);
    if (MODEL.mul.format.kind) {
        t->tally.mul_inexact += some & (v8l)(y != x);
        t->tally.mul_underflow += some & (v8l)(y == 0);
        t->tally.mul_overflow += some & beyond;
    }
    return y;
}

/* Returns sum + x in the format and rounding of s.  Sets masks of the lanes in which this lost
 * all of x (swamped), lost some bits (partly) or overflowed (over). */
FLAT v8d wide_rounded_sum(limber_step s, v8d sum, v8d x, v8w random, v8l *swamped, v8l *partly,
                          v8l *over)
{
    v8d exact = wide_sum(sum, x), y;
    v8l some, beyond;

    y = wide_round(s, exact, wide_bits(random), &beyond);
    some = (v8l)(x != 0) & wide_finite(x) & wide_finite(sum);
    *swamped = some & (v8l)(y != exact) & (v8l)(y == sum);
    *over = some & beyond & ~*swamped;
    *partly = some & (v8l)(y != exact) & ~*swamped & ~*over;
    if (CONSTANT.counts == COUNT_swamped)
        *partly = *over = all_l(0);
    return y;
}

/* Returns acc + x in the format and rounding of s.  Counts terms that lose bits. random: bits
 * for stochastic rounding. */
FLAT v8d wide_add(struct wide_tile *t, limber_step s, v8d acc, v8d x, v8w random)
{
    v8l swamped, partly, over;
    v8d y = wide_rounded_sum(s, acc, x, random, &swamped, &partly, &over);

    if (CONSTANT.counts) {
        t->tally.swamped += swamped;
        t->tally.partly_swamped += partly;
        t->tally.sum_overflow += over;
    }
    return y;
}

/* Returns acc + a * b, with the unit's roundings. */
FLAT v8d wide_add_product(struct wide_tile *t, v8d acc, v8d a, v8d b, v8w random)
{
    return wide_add(t, MODEL.acc, acc, wide_multiply(t, a, b, random), random);
}

/* Returns an outer sum plus x, the sum of a group, in the format and rounding of s. random: bits
 * for stochastic rounding.  Overflow of outer sums is not counted. */
FLAT v8d wide_outer(struct wide_tile *t, limber_step s, v8d sum, v8d x, v8w random)
{
    v8l swamped, partly, over;
    v8d y = wide_rounded_sum(s, sum, x, random, &swamped, &partly, &over);

    if (CONSTANT.counts) {
        t->tally.outer_swamped += swamped;
        t->tally.outer_partly += partly;
    }
    return y;
}

/* Returns a term of a fused block truncated to units of 2^(E - frac), where E is the block's
 * largest exponent.  up: 2^(frac - E).  counted: mask of the lanes whose losses are counted. */
FLAT v8d wide_term(struct wide_tile *t, v8d x, v8d up, v8l counted)
{
    v8d whole = x * up, cut = TRUNC(whole);

    if (CONSTANT.counts) {
        v8l swamped = (v8l)(x != 0) & (v8l)(cut == 0);

        t->tally.swamped += swamped & counted;
        if (CONSTANT.counts == COUNT_all)
            t->tally.partly_swamped += (v8l)(cut != whole) & ~swamped & counted;
    }
    return cut;
}

/* Returns the exponents of accumulators for the alignment of a fused block, at least FP32's lowest.
 * Zeros have this lowest exponent, or none, as the unit's description says. */
FLAT v8l wide_exponents(v8d x)
{
    v8l e = exponent_of(x);

    e = PICK(e > -126, e, all_l(-126));
    return MODEL.zeros ? e : PICK((v8l)(x == 0), all_l(NO_EXPONENT), e);
}

/* Returns one term: the exact sum of MODEL.sub neighbouring products from q on.  *e: set to its
 * exponent.  Products that are NaN or infinite are added to *rest instead. */
FLAT v8d wide_products(const struct wide_tile *t, int64_t p, int64_t n, int64_t q, int v, v8d *rest,
                       v8l *e)
{
    v8d sum = all_d(0);

    *e = all_l(2 * NO_EXPONENT);
    ROLL for (int64_t s = q; s < min64(n, q + MODEL.sub); s++) {
        v8d x = wide_load_a(t, p + s, 0) * wide_load_b(t, p + s, v);
        v8l finite = wide_finite(x), ea, eb;

        ea = all_l(*(const int32_t *)(const void *)(t->ea + (p + s) * CONSTANT.mr * 4));
        eb = TO(v8l, LOAD(v8i, t->eb + ((p + s) * CONSTANT.nr + 8 * v) * 4));
        *rest += (v8d)((v8l)x & ~finite);
        sum += x;
        ea += eb;
        *e = PICK(ea > *e, ea, *e);
    }
    if (MODEL.sub > 1 && !MODEL.zeros)
        *e = PICK((v8l)(sum == 0), all_l(2 * NO_EXPONENT), *e);
    return sum;
}

/* Adds the block of n products from p on to the accumulators, with all terms aligned to the largest
 * exponent. */
FLAT void wide_fused(struct wide_tile *t, v8d acc[1][4], int64_t p, int64_t n)
{
    ROLL for (int v = 0; v < 4; v++) {
        v8d c = acc[0][v], rest = (v8d)((v8l)c & ~wide_finite(c)), sum, up, ignored;
        v8l most = wide_exponents(c), e, unit, beyond, finite;

        ROLL for (int64_t q = 0; q < n; q += MODEL.sub) {
            wide_products(t, p, n, q, v, &rest, &e);
            most = PICK(e > most, e, most);
        }
        most = PICK(most > MODEL.floor, most, all_l(MODEL.floor));
        /* any small exponent will do if all terms are zero */
        most = PICK(most > -400, most, all_l(-400));
        unit = most - MODEL.frac;
        up = powers_of_two(-unit);
        finite = wide_finite(rest);
        sum = wide_term(t, c, up, all_l(0));
        ROLL for (int64_t q = 0; q < n; q += MODEL.sub)
            sum += wide_term(t, wide_products(t, p, n, q, v, &ignored, &e), up, finite);
        sum = sum * powers_of_two(unit) + 0.0;
        sum = (v8d)PICK(finite, (v8l)sum, (v8l)rest);
        acc[0][v] = wide_round(MODEL.acc, sum,
                               wide_bits(wide_number(t, 0, v, 0, (uint32_t)p)), &beyond);
        if (CONSTANT.counts == COUNT_all)
            t->tally.sum_overflow += beyond & finite;
    }
}

/* ---- blocks to which the accumulator is added last ------------------------------------------- */

/* Returns product p.  *e: set to its exponent.  Products of at least LIMBER_UNIT_TOO_LARGE become
 * infinite. */
FLAT v8d wide_late_product(const struct wide_tile *t, int64_t p, int v, v8l *e)
{
    v8d x = wide_load_a(t, p, 0) * wide_load_b(t, p, v);
    v8l size = (v8l)x & INT64_MAX;
    v8l over = (size >= (v8l)all_d(LIMBER_UNIT_TOO_LARGE)) & (size < (v8l)all_d(__builtin_inf()));

    *e = all_l(*(const int32_t *)(const void *)(t->ea + p * CONSTANT.mr * 4)) +
         TO(v8l, LOAD(v8i, t->eb + (p * CONSTANT.nr + 8 * v) * 4));
    return (v8d)PICK(over, (v8l)all_d(__builtin_inf()) | ((v8l)x & INT64_MIN), (v8l)x);
}

/* Returns the sum of the products first, first + step and so on of a block, truncated to units of
 * 2^(*most - frac).  *most: set to their largest exponent. */
FLAT v8d wide_late_sum(struct wide_tile *t, int64_t p, int64_t n, int v, int first, int step,
                       v8l finite, v8l *most)
{
    v8d sum = all_d(0);
    v8l e;

    *most = all_l(-400);            /* any small exponent will do if all products are zero */
    ROLL for (int64_t q = first; q < n; q += step) {
        wide_late_product(t, p + q, v, &e);
        *most = PICK(e > *most, e, *most);
    }
    ROLL for (int64_t q = first; q < n; q += step) {
        v8d x = wide_late_product(t, p + q, v, &e);

        sum += wide_term(t, (v8d)((v8l)x & finite), powers_of_two(MODEL.frac - *most), finite);
    }
    return sum;
}

/* Emulates how a matrix unit adds a block of n products to the accumulator c in two steps.  First
 * the products are aligned to their largest exponent and summed in units of 2^(exponent - frac).
 * Then this sum and c are aligned to the larger of their exponents, e, cut to `late` and to `frac`
 * bits, added and rounded to MODEL.acc.  With MODEL.reach, c is dropped if its exponent is more
 * than `reach` below e.  The result is `specials`, the sum of all NaN and infinities, if there is
 * one. */
FLAT void wide_late(struct wide_tile *t, v8d acc[1][4], int64_t p, int64_t n)
{
    ROLL for (int v = 0; v < 4; v++) {
        v8d c = acc[0][v], specials = (v8d)((v8l)c & ~wide_finite(c)), sum, odd_sum, whole;
        v8l ec = exponent_of(c), finite, most, odd_exponent, beyond, e;

        ROLL for (int64_t q = 0; q < n; q++) {
            v8d x = wide_late_product(t, p + q, v, &e);

            specials += (v8d)((v8l)x & ~wide_finite(x));
        }
        finite = wide_finite(specials);
        ec = PICK(ec > -126, ec, all_l(-126));
        /* with MODEL.halves, even and odd products are summed separately, and the two sums are then
         * aligned */
        sum = wide_late_sum(t, p, n, v, 0, MODEL.halves ? 2 : 1, finite, &most);
        if (MODEL.halves) {
            v8l even_exponent = most;

            odd_sum = wide_late_sum(t, p, n, v, 1, 2, finite, &odd_exponent);
            most = PICK(odd_exponent > most, odd_exponent, most);
            sum = FLOOR(sum * powers_of_two(even_exponent - most)) +
                  FLOOR(odd_sum * powers_of_two(odd_exponent - most));
        }
        e = PICK(ec > most, ec, most);
        sum = FLOOR(sum * powers_of_two(most - MODEL.frac - e + MODEL.late));
        c = (v8d)((v8l)c & finite);
        if (MODEL.reach)
            c = (v8d)((v8l)c & (ec >= e - MODEL.reach));
        whole = FLOOR(c * powers_of_two(MODEL.frac - e));
        sum += whole * power_of_two(MODEL.late - MODEL.frac);
        sum = sum * powers_of_two(e - MODEL.late) + 0.0;
        sum = (v8d)PICK(finite, (v8l)sum, (v8l)specials);
        acc[0][v] = wide_round(MODEL.acc, sum,
                               wide_bits(wide_number(t, 0, v, 0, (uint32_t)p)), &beyond);
        if (CONSTANT.counts == COUNT_all)
            t->tally.sum_overflow += beyond & finite;
    }
}

#endif
