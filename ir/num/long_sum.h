/* SPDX-License-Identifier: BSD-3-Clause
 * Exact sums of doubles: 32-bit digits in 64-bit words, so that carries need only be propagated
 * after 2^30 additions.  Source: the small superaccumulator of Neal, arXiv 1505.05571. */
#ifndef LIMBER_LONG_SUM_H
#define LIMBER_LONG_SUM_H

#include "ir/num/functions.h"

/* Digit i has weight 2^(32 i + LONG_BASE).  LONG_WAIT: additions after which carries are
 * propagated. */
enum { LONG_DIGITS = 69, LONG_BASE = -1088, LONG_WAIT = 1 << 30 };

/* A sum of doubles without error.  added: terms since carries were last propagated. */
struct long_sum {
    int64_t digit[LONG_DIGITS];
    uint32_t added;
    double special; /* the sum of infinite and NaN terms; 0 if there are none */
};

/* Propagates carries.  After that, all digits below the top one are in 0 to 2^32 - 1. */
static inline void limber_long_carry(struct long_sum *s)
{
    int64_t carry = 0;

    for (int i = 0; i < LONG_DIGITS - 1; i++) {
        int64_t d = s->digit[i] + carry;

        s->digit[i] = d & 0xffffffff;
        carry = (d - s->digit[i]) / ((int64_t)1 << 32);
    }
    s->digit[LONG_DIGITS - 1] += carry;
    s->added = 0;
}

/* Adds x to three digits, and propagates no carries. */
static inline void limber_long_add(struct long_sum *s, double x)
{
    uint64_t b = fn_bits(x), m = b & 0xfffffffffffffull;
    int e = (int)(b >> 52 & 2047), at, shift;
    limber_u128 wide;
    int64_t part[3];

    if (e == 2047) {
        s->special += x;
        return;
    }
    m |= (uint64_t)(e > 0) << 52;
    e = (e > 0 ? e : 1) - 1075 - LONG_BASE; /* x = m 2^(e + LONG_BASE) */
    at = e / 32;
    shift = e % 32;
    wide = (limber_u128)m << shift;
    part[0] = (int64_t)(wide & 0xffffffff);
    part[1] = (int64_t)(wide >> 32 & 0xffffffff);
    part[2] = (int64_t)(wide >> 64);
    for (int i = 0; i < 3; i++)
        s->digit[at + i] += b >> 63 ? -part[i] : part[i];
    if (++s->added == LONG_WAIT)
        limber_long_carry(s);
}

/* Stores the sum divided by a positive integer, rounded once to f. */
static inline void limber_long_store(struct long_sum *s, uint64_t by, limber_format f,
                                     limber_rounding mode, void *to)
{
    struct limber_num x = { .kind = NUM_zero };
    limber_u128 rest = 0, value = 0;
    int sticky = 0, filled = 0, i;

    if (s->special != 0 || s->special != s->special) {
        x.kind = s->special != s->special ? NUM_nan : NUM_inf;
        x.sign = s->special < 0;
        limber_num_encode(to, f, &x, 0, mode);
        return;
    }
    limber_long_carry(s);
    x.sign = s->digit[LONG_DIGITS - 1] < 0;
    for (i = 0; x.sign && i < LONG_DIGITS; i++)
        s->digit[i] = -s->digit[i];
    limber_long_carry(s);
    /* Computes four digits of the quotient, from its first nonzero digit on. */
    for (i = LONG_DIGITS - 1; i >= 0 && filled < 4; i--) {
        rest = rest << 32 | (uint32_t)s->digit[i];
        if (i == LONG_DIGITS - 1)
            rest = (limber_u128)s->digit[i];
        value = value << 32 | rest / by;
        rest %= by;
        filled += filled || value;
    }
    for (int j = i; j >= 0; j--)
        sticky |= s->digit[j] != 0;
    sticky |= rest != 0;
    /* If the integer part of the quotient has fewer digits, computes digits of the fraction from
     * the remainder. */
    for (; filled < 4 && rest; filled += filled || value, i--) {
        rest <<= 32;
        value = value << 32 | rest / by;
        rest %= by;
        sticky = rest != 0;
    }
    if (value) {
        x.kind = NUM_finite;
        x.hi = (uint64_t)(value >> 64);
        x.lo = (uint64_t)value;
        x.exp = LONG_BASE + 32 * (i + 1);
    }
    limber_num_encode(to, f, &x, sticky, mode);
}

#endif
