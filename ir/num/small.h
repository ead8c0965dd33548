/* SPDX-License-Identifier: BSD-3-Clause
 * Converts floats of 8 and 16 bits to doubles and back, rounded to nearest even, by arithmetic
 * without branches, which compilers vectorise. */
#ifndef LIMBER_NUM_SMALL_H
#define LIMBER_NUM_SMALL_H

#include "ir/num/functions.h"

/* Constants for converting one float format of 8 or 16 bits to double and back. */
struct small {
    /* bit patterns: the sign, all bits but the sign, the first pattern that is no finite number,
     * NaN, the largest number */
    uint64_t sign, magnitude, top, nan, largest;
    uint64_t past, infinity; /* bit patterns for a number that overflows, and for an infinity */
    int shift; /* fraction bits of a double minus those of the format */
    double quantum; /* the smallest positive number */
};

/* Returns the constants of format f, for which limber_num_is_small holds. */
PRIM struct small small_of(limber_format f)
{
    uint64_t one = 1, fraction = (one << f.frac_bits) - 1;
    uint64_t top = ((one << f.exp_bits) - 1) << f.frac_bits;
    int no_inf = f.flags & LIMBER_FORMAT_NO_INF, finite = f.flags & LIMBER_FORMAT_FINITE;
    struct small s;

    s.sign = one << (f.frac_bits + f.exp_bits);
    s.magnitude = top | fraction;
    s.top = finite || no_inf ? top + fraction + (uint64_t)!!finite : top;
    s.nan = finite ? 0 : no_inf ? top | fraction : top | (fraction / 2 + 1);
    s.largest = finite ? top | fraction : (no_inf ? top | fraction : top) - 1;
    s.shift = 52 - f.frac_bits;
    s.quantum = fn_double((uint64_t)(1024 - f.bias - f.frac_bits) << 52);
    s.past = finite || f.flags & LIMBER_FORMAT_SATURATE ? s.largest : no_inf ? s.nan : top;
    s.infinity = finite || no_inf ? s.past : top;
    return s;
}

/* Returns the number with bit pattern `bits`. no_inf: patterns with the largest exponent are
 * numbers, too. */
PRIM double small_value(const struct small *s, uint64_t bits, int no_inf)
{
    uint64_t m = bits & s->magnitude, low = fn_bits(0x1p52), least = fn_bits(s->quantum);
    uint64_t bias = least + ((uint64_t)(51 - s->shift) << 52);
    double few = (fn_double(low | m) - 0x1p52) * s->quantum; /* the value if it is 0 or subnormal */
    double x = m >> (52 - s->shift) ? fn_double((m << s->shift) + bias) : few;
    double past = m == s->top && !no_inf ? FN_INF : FN_NAN;

    x = m >= s->top ? past : x;
    return bits & s->sign ? -x : x;
}

/* Rounds a double to a small format (to nearest, ties to even).  Returns the bit pattern. */
PRIM uint64_t small_code(const struct small *s, double x)
{
    uint64_t bits = fn_bits(x), sign = bits >> 63 ? s->sign : 0, e, code, least, bias, past;
    double v = FN_ABS(x), c, r;

    /* the smallest normal number */
    least = fn_bits(s->quantum) + ((uint64_t)(52 - s->shift) << 52);
    bias = least - ((uint64_t)1 << 52);
    v = v > 0x1p600 ? 0x1p600 : v;
    e = fn_bits(v) & 2047ull << 52;
    e = e < least ? least : e;
    c = 1.5 * fn_double(e + ((uint64_t)s->shift << 52));
    r = (v + c) - c; /* rounded to nearest, ties to even */
    code = fn_bits(r) >= least ? (fn_bits(r) - bias) >> s->shift :
                                 fn_bits(r / s->quantum + 0x1p52) - fn_bits(0x1p52);
    past = FN_ABS(x) < FN_INF ? s->past : s->infinity;
    code = code > s->largest ? past : code;
    return x != x ? s->nan : sign | code;
}

#endif
