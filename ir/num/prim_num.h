/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers in any format: decoding to sign, significand and exponent, and encoding with one
 * rounding. Written once for the library's C compiler and, as bitcode, for the LLVM backend; so it
 * uses neither libc nor 128-bit division.  If the format is constant, compilers reduce it to code
 * without branches.
 *
 * Source: IEEE 754-2019, sections 3.4, 4.3, 7; OCP 8-bit floating point specification 1.0. */
#ifndef LIMBER_PRIM_NUM_H
#define LIMBER_PRIM_NUM_H

#include "limber/format.h"

#ifndef PRIM
#define PRIM static inline __attribute__((always_inline, unused))
#endif

enum limber_num_kind { NUM_zero, NUM_finite, NUM_inf, NUM_nan };

/* Flags of what an encoding lost.  NUM_overflow: a float's magnitude or an integer's value did not
 * fit. NUM_underflow: the result is inexact, and the number was smaller than the smallest normal
 * number. */
enum limber_num_loss { NUM_inexact = 1, NUM_overflow = 2, NUM_underflow = 4 };

/* A number (-1)^sign * (hi * 2^64 + lo) * 2^exp of kind NUM_finite, whose hi and lo are not both 0;
 * it need not be normalised.  For other kinds only the sign counts. */
struct limber_num {
    uint64_t hi, lo;
    int32_t exp;
    uint8_t sign, kind;
};

__extension__ typedef unsigned __int128 limber_u128;

/* The kind of sided formats, which exist inside plans only.  An element is a float of half the
 * size, which has the other fields of the format and is the value rounded to nearest, and then an
 * integer: 0 if the float is the value, 1 or -1 if the value is larger or smaller, and 2 or -2 if
 * it is the midpoint between the float and its neighbour on that side.  The element tells how the
 * value is rounded in every mode, to the float's format and to smaller ones. */
enum { LIMBER_KIND_SIDED = LIMBER_KIND_POWER + 1 };

/* Returns the float of a sided format, or another format unchanged. */
PRIM limber_format limber_num_base(limber_format f)
{
    if (f.kind == LIMBER_KIND_SIDED) {
        f.kind = LIMBER_KIND_FLOAT;
        f.size /= 2;
    }
    return f;
}

/* Returns the significand hi * 2^64 + lo. */
PRIM limber_u128 limber_num_sig(const struct limber_num *x)
{
    return (limber_u128)x->hi << 64 | x->lo;
}

/* Returns the number of bits of a significand from its highest set bit on; 1 for 0. */
PRIM int limber_sig_bits(limber_u128 v)
{
    uint64_t hi = (uint64_t)(v >> 64);

    return hi ? 128 - __builtin_clzll(hi) : 64 - __builtin_clzll((uint64_t)v | 1);
}

/* Loads an unsigned integer of 1, 2, 4 or 8 bytes. */
PRIM uint64_t limber_num_get(const void *p, int size)
{
    uint8_t v8;
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;

    switch (size) {
    case 1: __builtin_memcpy(&v8, p, 1); return v8;
    case 2: __builtin_memcpy(&v16, p, 2); return v16;
    case 4: __builtin_memcpy(&v32, p, 4); return v32;
    default: __builtin_memcpy(&v64, p, 8); return v64;
    }
}

/* Stores the low 1, 2, 4 or 8 bytes of v. */
PRIM void limber_num_put(void *p, int size, uint64_t v)
{
    uint8_t v8 = (uint8_t)v;
    uint16_t v16 = (uint16_t)v;
    uint32_t v32 = (uint32_t)v;

    switch (size) {
    case 1: __builtin_memcpy(p, &v8, 1); break;
    case 2: __builtin_memcpy(p, &v16, 2); break;
    case 4: __builtin_memcpy(p, &v32, 4); break;
    default: __builtin_memcpy(p, &v, 8); break;
    }
}

/* Loads 16 bytes as one integer in native byte order. */
PRIM limber_u128 limber_num_get16(const void *p)
{
    limber_u128 v;

    __builtin_memcpy(&v, p, 16);
    return v;
}

PRIM void limber_num_put16(void *p, limber_u128 v)
{
    __builtin_memcpy(p, &v, 16);
}

/* True for formats of signed integers. */
PRIM int limber_num_is_int(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_SHORT;
}

/* True for formats that equal binary64 (binary32, binary128, bfloat16) in every field.  The number
 * of fraction bits alone would not tell. */
PRIM int limber_num_is_f64(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == 8 && f.exp_bits == 11 && f.frac_bits == 52 &&
           f.bias == 1023 && !f.flags && !f.carried;
}

PRIM int limber_num_is_f32(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == 4 && f.exp_bits == 8 && f.frac_bits == 23 &&
           f.bias == 127 && !f.flags && !f.carried;
}

PRIM int limber_num_is_f128(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == 16 && f.exp_bits == 15 && f.frac_bits == 112 &&
           f.bias == 16383 && !f.flags && !f.carried;
}

PRIM int limber_num_is_bf16(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == 2 && f.exp_bits == 8 && f.frac_bits == 7 &&
           f.bias == 127 && !f.flags && !f.carried;
}

/* True for floats of 8 or 16 bits that vector code converts: those that have -0 and subnormals and
 * are stored as themselves (not carried in a larger format). */
PRIM int limber_num_is_small(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size <= 2 && !f.carried &&
           !(f.flags & (LIMBER_FORMAT_NO_SUBNORMAL | LIMBER_FORMAT_NO_MINUS_ZERO));
}

/* Decodes a float with e exponent and m fraction bits from its bit pattern. */
PRIM void limber_num_unpack(struct limber_num *x, int e, int m, int bias, int flags,
                            limber_u128 code)
{
    limber_u128 ones = ((limber_u128)1 << m) - 1, frac = code & ones;
    int top = (1 << e) - 1, field = (int)(code >> m) & top,
        uz = flags & LIMBER_FORMAT_NO_MINUS_ZERO;

    x->sign = (uint8_t)(code >> (m + e) & 1);
    x->exp = (field ? field : 1) - bias - m;
    x->kind = NUM_finite;
    if (uz && x->sign && !field && !frac)
        x->kind = NUM_nan;
    else if (!field && (!frac || flags & LIMBER_FORMAT_NO_SUBNORMAL))
        x->kind = NUM_zero;
    else if (field == top && flags & LIMBER_FORMAT_NO_INF)
        x->kind = frac == ones && !uz ? NUM_nan : NUM_finite;
    else if (field == top && !(flags & LIMBER_FORMAT_FINITE))
        x->kind = frac ? NUM_nan : NUM_inf;
    frac |= (limber_u128)(field != 0) << m;
    x->hi = (uint64_t)(frac >> 64);
    x->lo = (uint64_t)frac;
}

/* Returns the format in which elements of f are stored: f itself or its carrier, binary32 or
 * binary64. */
PRIM limber_format limber_num_carrier(limber_format f)
{
    if (f.kind == LIMBER_KIND_FLOAT && f.carried) {
        f.exp_bits = f.size == 4 ? 8 : 11;
        f.frac_bits = f.size == 4 ? 23 : 52;
        f.bias = f.size == 4 ? 127 : 1023;
        f.flags = 0;
        f.carried = 0;
    }
    return f;
}

/* ---- decoding posits, powers of two and integers --------------------------------------------- */

/* Decodes a posit from its bit pattern.  After the sign come a run of equal bits, the bit that ends
 * the run, exp_bits bits of the exponent, and the fraction.  The last bit of x is never below the
 * smallest posit; fixed-point sums of products rely on this. */
PRIM void limber_num_unpack_posit(struct limber_num *x, limber_format f, uint64_t code)
{
    int bits = 8 * f.size, run, k, fraction;
    uint64_t body;

    x->sign = (uint8_t)(code >> (bits - 1) & 1);
    x->hi = 0;
    if (!(code << (65 - bits))) { /* 0, or NaR (not a real) */
        x->kind = x->sign ? NUM_nan : NUM_zero;
        x->sign = 0;
        x->lo = 0;
        x->exp = 0;
        return;
    }
    body = (x->sign ? 0 - code : code) << (65 - bits);
    run = __builtin_clzll(body >> 63 ? ~body : body);
    k = body >> 63 ? run - 1 : -run;
    body = body << run << 1;
    fraction = bits - 2 - run - f.exp_bits;
    fraction = fraction > 0 ? fraction : 0;
    x->exp = k * (1 << f.exp_bits) + (int)(body >> (64 - f.exp_bits)) - fraction;
    x->lo = (uint64_t)1 << fraction | body << f.exp_bits >> 1 >> (63 - fraction);
    x->kind = NUM_finite;
}

/* Returns the value of a short integer (i4, i2) from its bit pattern. */
PRIM int64_t limber_num_short(limber_format f, uint64_t code)
{
    return (int64_t)(code << (63 - f.frac_bits)) >> (63 - f.frac_bits);
}

/* Decodes the element at p, of any format except dd and exact. */
PRIM void limber_num_decode(struct limber_num *x, limber_format f, const void *p)
{
    limber_format c = limber_num_carrier(f);
    uint64_t v;

    if (c.kind == LIMBER_KIND_FLOAT) {
        limber_num_unpack(x, c.exp_bits, c.frac_bits, c.bias, c.flags,
                          c.size == 16 ? limber_num_get16(p) : limber_num_get(p, c.size));
        return;
    }
    v = limber_num_get(p, c.size);
    if (c.kind == LIMBER_KIND_POSIT) {
        limber_num_unpack_posit(x, c, v);
        return;
    }
    x->hi = 0;
    if (c.kind == LIMBER_KIND_POWER) {
        x->sign = 0;
        x->lo = 1;
        x->exp = (int)v - c.bias;
        x->kind = v == ((uint64_t)1 << c.exp_bits) - 1 ? NUM_nan : NUM_finite;
        return;
    }
    if (c.kind == LIMBER_KIND_SHORT)
        v = (uint64_t)limber_num_short(c, v);
    x->sign =
        c.kind != LIMBER_KIND_UINT && v >> (c.kind == LIMBER_KIND_SHORT ? 63 : 8 * c.size - 1) & 1;
    if (x->sign)
        v = (0 - v) & (UINT64_MAX >> (64 - 8 * c.size));
    x->lo = v;
    x->exp = 0;
    x->kind = v ? NUM_finite : NUM_zero;
}

/* Sets x to the double v, which is exact.  Returns x->kind. */
PRIM int limber_num_from_f64(struct limber_num *x, double v)
{
    uint64_t code;

    __builtin_memcpy(&code, &v, 8);
    limber_num_unpack(x, 11, 52, 1023, 0, code);
    return x->kind;
}

/* Rounds v * 2^-shift to an integer.  sticky: a positive amount below one unit of v is added
 * before.  If shift <= 0, so that the result has units of v or smaller ones, this amount counts as
 * less than half of the result's unit. */
PRIM limber_u128 limber_num_shift(limber_u128 v, int64_t shift, int sticky, int sign,
                                  limber_rounding mode, int *inexact)
{
    limber_u128 kept, below;
    int half, rest = sticky != 0, up;

    if (shift <= 0) {
        kept = v << (int)-shift;
        half = 0;
    } else if (shift > 128) {
        kept = 0;
        half = 0;
        rest |= v != 0;
    } else {
        below = v & (((limber_u128)1 << (int)(shift - 1)) - 1);
        half = (int)(v >> (int)(shift - 1)) & 1;
        rest |= below != 0;
        kept = v >> (int)(shift - 1) >> 1;
    }
    *inexact = half | rest;
    switch (mode) {
    case LIMBER_ROUND_NEAREST: up = half & (rest | (int)(kept & 1)); break;
    case LIMBER_ROUND_AWAY: up = half; break;
    case LIMBER_ROUND_UP: up = *inexact & !sign; break;
    case LIMBER_ROUND_DOWN: up = *inexact & sign; break;
    case LIMBER_ROUND_ODD: up = *inexact & !(int)(kept & 1); break;
    default: up = 0; break;
    }
    return kept + (unsigned)up;
}

/* True if an overflow is rounded to infinity, not to the largest finite magnitude. */
PRIM int limber_num_beyond(int sign, limber_rounding mode)
{
    return mode == LIMBER_ROUND_NEAREST || mode == LIMBER_ROUND_AWAY ||
           (mode == LIMBER_ROUND_UP && !sign) || (mode == LIMBER_ROUND_DOWN && sign);
}

/* Rounds x to a float with e exponent and m fraction bits.  *code: its bit pattern, with the sign.
 * sticky: as in limber_num_encode.  With NO_SUBNORMAL, a result below the smallest normal number
 * becomes 0 in every mode.  Returns flags of enum limber_num_loss. */
PRIM int limber_num_pack(limber_u128 *code, int e, int m, int bias, int flags,
                         const struct limber_num *x, int sticky, limber_rounding mode)
{
    limber_u128 ones = ((limber_u128)1 << m) - 1, top = (limber_u128)((1 << e) - 1) << m;
    int uz = flags & LIMBER_FORMAT_NO_MINUS_ZERO;
    limber_u128 nan = uz                           ? (limber_u128)1 << (m + e) :
                      flags & LIMBER_FORMAT_NO_INF ? top | ones :
                                                     top | (ones / 2 + 1);
    limber_u128 inf = flags & LIMBER_FORMAT_NO_INF ? nan : top;
    limber_u128 largest = flags & LIMBER_FORMAT_FINITE || uz ?
                              top | ones :
                              (flags & LIMBER_FORMAT_NO_INF ? top | ones : top) - 1;
    limber_u128 sign = (limber_u128)x->sign << (m + e), c = 0, v = limber_num_sig(x);
    int64_t tiny = (int64_t)1 - bias - m, lead, quantum;
    int inexact = 0, loss = 0;

    if (flags & LIMBER_FORMAT_FINITE) {
        nan = 0;
        inf = largest;
    }
    if (x->kind == NUM_nan) {
        *code = nan;
        return 0;
    }
    if (x->kind == NUM_inf) {
        loss =
            flags & (LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_FINITE) ? NUM_inexact | NUM_overflow : 0;
        *code = sign | (loss && flags & LIMBER_FORMAT_SATURATE ? largest : inf);
        return loss;
    }
    if (x->kind == NUM_zero || !v) {
        *code = uz ? 0 : sign;
        return 0;
    }
    lead = (int64_t)x->exp + limber_sig_bits(v) - 1;
    if (lead - m - tiny < (1 << e)) {
        quantum = lead - m > tiny ? lead - m : tiny;
        c = limber_num_shift(v, quantum - x->exp, sticky, x->sign, mode, &inexact);
        /* the hidden bit adds 1 to the exponent field, and so does a carry out of the fraction */
        c += (limber_u128)(uint64_t)(quantum - tiny) << m;
    } else {
        c = largest + 1;
    }
    loss = inexact ? NUM_inexact | (lead < tiny + m ? NUM_underflow : 0) : 0;
    if (flags & LIMBER_FORMAT_NO_SUBNORMAL && !(c >> m)) {
        c = 0;
        loss = NUM_inexact | NUM_underflow;
    }
    if (c > largest) {
        loss = NUM_inexact | NUM_overflow;
        c = limber_num_beyond(x->sign, mode) && !(flags & LIMBER_FORMAT_SATURATE) ? inf : largest;
    }
    *code = uz && !c ? 0 : sign | c;
    return loss;
}

/* Rounds x to a posit: its infinitely long bit string is rounded to nearest even, but never to 0
 * and never beyond the largest posit.  *code: the bit pattern.  Returns flags of enum
 * limber_num_loss. */
PRIM int limber_num_pack_posit(uint64_t *code, limber_format f, const struct limber_num *x,
                               int sticky)
{
    int bits = 8 * f.size, most = (bits - 2) << f.exp_bits, length, k, inexact = 0;
    uint64_t ones = UINT64_MAX >> (64 - bits), largest = ones >> 1, c;
    limber_u128 v = limber_num_sig(x), s, frac;
    int64_t lead;

    *code = 0;
    if (x->kind >= NUM_inf)
        *code = largest + 1;
    if (x->kind == NUM_inf)
        return NUM_inexact | NUM_overflow;
    if (x->kind != NUM_finite || !v)
        return 0;
    lead = (int64_t)x->exp + limber_sig_bits(v) - 1;
    if (lead >= most || lead < -most) {
        c = lead < 0 ? 1 : largest;
        inexact = lead != most || (v & (v - 1)) || sticky;
    } else {
        k = (int)(lead >> f.exp_bits);
        length = k >= 0 ? k + 2 : 1 - k;
        s = k >= 0 ? (((limber_u128)1 << (k + 1)) - 1) << 1 : 1;
        s = s << f.exp_bits | (unsigned)(lead & ((1 << f.exp_bits) - 1));
        length += f.exp_bits;
        frac = v << (128 - limber_sig_bits(v)) << 1;
        sticky |= (frac & (((limber_u128)1 << length) - 1)) != 0;
        s = s << (128 - length) | frac >> length;
        c = (uint64_t)limber_num_shift(s, 129 - bits, sticky, 0, LIMBER_ROUND_NEAREST, &inexact);
    }
    *code = (x->sign ? 0 - c : c) & ones;
    return inexact ? NUM_inexact : 0;
}

/* Rounds x to a power of two.  *code: the bit pattern.  Returns flags of enum limber_num_loss. */
PRIM int limber_num_pack_power(uint64_t *code, limber_format f, const struct limber_num *x,
                               int sticky, limber_rounding mode)
{
    const uint64_t nan = ((uint64_t)1 << f.exp_bits) - 1;
    limber_u128 v = limber_num_sig(x);
    int64_t lead;
    int inexact;

    *code = nan;
    if (x->kind == NUM_nan)
        return 0;
    if (x->kind != NUM_finite || !v || x->sign)
        return NUM_inexact | NUM_overflow;
    lead = (int64_t)x->exp + limber_sig_bits(v) - 1;
    /* the significand is one bit, which is odd, so ties are rounded up */
    if (limber_num_shift(v, limber_sig_bits(v) - 1, sticky, 0, mode, &inexact) > 1)
        lead++;
    if (lead < -f.bias) {
        *code = 0;
        return NUM_inexact | NUM_underflow;
    }
    if (lead + f.bias < (int64_t)nan) {
        *code = (uint64_t)(lead + f.bias);
        return inexact ? NUM_inexact : 0;
    }
    if (!limber_num_beyond(0, mode))
        *code = nan - 1;
    return NUM_inexact | NUM_overflow;
}

/* Rounds x to an integer format and stores it.  Integers saturate; NaN becomes 0.  Returns flags of
 * enum limber_num_loss. */
PRIM int limber_num_encode_int(void *p, limber_format f, const struct limber_num *x, int sticky,
                               limber_rounding mode)
{
    int is_signed = f.kind != LIMBER_KIND_UINT, inexact = 0, loss = 0;
    int bits = f.kind == LIMBER_KIND_SHORT ? f.frac_bits + 1 : 8 * f.size;
    uint64_t largest = UINT64_MAX >> (64 - bits + is_signed);
    uint64_t limit = !x->sign ? largest : is_signed ? largest + 1 : 0;
    limber_u128 v = limber_num_sig(x), mag = 0;

    if (x->kind == NUM_finite && v) {
        if ((int64_t)x->exp + limber_sig_bits(v) > 65)
            mag = (limber_u128)1 << 65;
        else
            mag = limber_num_shift(v, -(int64_t)x->exp, sticky, x->sign, mode, &inexact);
        loss = inexact ? NUM_inexact : 0;
    } else if (x->kind == NUM_inf) {
        mag = (limber_u128)1 << 65;
    } else if (x->kind == NUM_nan) {
        loss = NUM_inexact | NUM_overflow;
    }
    if (mag > limit) {
        mag = limit;
        loss = NUM_inexact | NUM_overflow;
    }
    limber_num_put(p, f.size,
                   (x->sign ? 0 - (uint64_t)mag : (uint64_t)mag) & UINT64_MAX >> (64 - bits));
    return loss;
}

/* Rounds x once to f, stores it, and returns flags of enum limber_num_loss.  sticky: a positive
 * amount below one unit of lo is added to x's magnitude; then x needs at least two bits more than f
 * has.  NaN becomes the quiet NaN, in integers 0.  Integers saturate.  Posits are rounded to
 * nearest in any mode.  In a format without infinities, an infinity or an overflow becomes NaN or,
 * if the format saturates, the largest value. */
PRIM int limber_num_encode(void *p, limber_format f, const struct limber_num *x, int sticky,
                           limber_rounding mode)
{
    limber_format c = limber_num_carrier(f);
    struct limber_num y;
    limber_u128 code;
    uint64_t short_code;
    int loss;

    if (f.kind == LIMBER_KIND_POSIT || f.kind == LIMBER_KIND_POWER) {
        loss = f.kind == LIMBER_KIND_POSIT ? limber_num_pack_posit(&short_code, f, x, sticky) :
                                             limber_num_pack_power(&short_code, f, x, sticky, mode);
        limber_num_put(p, f.size, short_code);
        return loss;
    }
    if (f.kind != LIMBER_KIND_FLOAT)
        return limber_num_encode_int(p, f, x, sticky, mode);
    loss = limber_num_pack(&code, f.exp_bits, f.frac_bits, f.bias, f.flags, x, sticky, mode);
    if (f.carried) {
        limber_num_unpack(&y, f.exp_bits, f.frac_bits, f.bias, f.flags, code);
        limber_num_pack(&code, c.exp_bits, c.frac_bits, c.bias, c.flags, &y, 0,
                        LIMBER_ROUND_NEAREST);
    }
    if (c.size == 16)
        limber_num_put16(p, code);
    else
        limber_num_put(p, c.size, (uint64_t)code);
    return loss;
}

/* Sets *rest to x, with its sticky amount, minus the double with this bit pattern.  The sign of
 * *rest may differ from x's.  Returns the sticky bit of *rest. */
PRIM int limber_num_rest(struct limber_num *rest, const struct limber_num *x, int sticky,
                         limber_u128 code)
{
    limber_u128 v = limber_num_sig(x), kept;
    struct limber_num h;
    int64_t shift;

    *rest = *x;
    limber_num_unpack(&h, 11, 52, 1023, 0, code);
    shift = (int64_t)h.exp - x->exp;
    /* so far below the last bit of the smallest double that the remainder is rounded to 0 */
    if (shift > 127) {
        rest->kind = NUM_zero;
        return 0;
    }
    kept = shift >= 0 ? (limber_u128)h.lo << (int)shift : (limber_u128)h.lo >> (int)-shift;
    if (h.kind == NUM_zero)
        kept = 0;
    /* if x was rounded up beyond its own bits, kept is 2^128, which wraps to 0 */
    if (kept ? v >= kept : h.kind == NUM_zero) {
        v -= kept;
    } else {
        v = kept - v - (unsigned)sticky;
        rest->sign = !x->sign;
    }
    rest->hi = (uint64_t)(v >> 64);
    rest->lo = (uint64_t)v;
    if (!v)
        rest->kind = NUM_zero;
    return sticky;
}

/* Stores x as a double-double: high is the double nearest to x, low is x - high rounded by `mode`,
 * and 0 if high is not finite.  sticky: as in limber_num_encode.  Returns the flags of the sum.
 * The remainder that is rounded to low has only 128 bits of x: if there is a sticky amount and high
 * ends in more than 20 zeros, low may be one unit off. */
PRIM int limber_num_encode_dd(void *p, const struct limber_num *x, int sticky, limber_rounding mode)
{
    limber_u128 high, low = 0;
    struct limber_num rest;
    int loss, low_loss, below;

    sticky = sticky != 0;
    loss = limber_num_pack(&high, 11, 52, 1023, 0, x, sticky, LIMBER_ROUND_NEAREST);
    if (loss & NUM_inexact && !(loss & NUM_overflow)) {
        below = limber_num_rest(&rest, x, sticky, high);
        low_loss = limber_num_pack(&low, 11, 52, 1023, 0, &rest, below, mode);
        if (rest.kind == NUM_zero)
            low = 0;
        else
            loss = low_loss;
    }
    limber_num_put(p, 8, (uint64_t)high);
    limber_num_put((char *)p + 8, 8, (uint64_t)low);
    return loss;
}

/* Stores x in a sided format.  sticky: as in limber_num_encode.  Returns the flags of the float. */
PRIM int limber_num_encode_sided(void *p, limber_format f, const struct limber_num *x, int sticky)
{
    const limber_rounding modes[] = { LIMBER_ROUND_NEAREST, LIMBER_ROUND_AWAY, LIMBER_ROUND_DOWN,
                                      LIMBER_ROUND_UP };
    limber_u128 code[4];
    int loss[4], side = 0;

    for (int i = 0; i < 4; i++)
        loss[i] = limber_num_pack(&code[i], f.exp_bits, f.frac_bits, f.bias, f.flags, x, sticky,
                                  modes[i]);
    if (code[2] != code[3])
        side = (code[0] == code[2] ? 1 : -1) * (code[0] == code[1] ? 1 : 2);
    if (f.size == 32) {
        limber_num_put16(p, code[0]);
        limber_num_put16((char *)p + 16, (limber_u128)side);
    } else {
        limber_num_put(p, f.size / 2, (uint64_t)code[0]);
        limber_num_put((char *)p + f.size / 2, f.size / 2, (uint64_t)side);
    }
    return loss[0];
}

/* Sets *x to the sum of the two doubles at p, which need not be normalised.  Returns a sticky bit:
 * if it is 1, the sum is larger in magnitude than *x, by less than one unit of lo. */
PRIM int limber_num_decode_dd(struct limber_num *x, const void *p)
{
    struct limber_num a, b, t;
    limber_u128 u, v;
    int64_t gap;
    int sticky;

    limber_num_unpack(&a, 11, 52, 1023, 0, limber_num_get(p, 8));
    limber_num_unpack(&b, 11, 52, 1023, 0, limber_num_get((const char *)p + 8, 8));
    *x = a;
    if (b.kind == NUM_zero || a.kind >= NUM_inf) {
        if (a.kind == NUM_inf && (b.kind == NUM_nan || (b.kind == NUM_inf && a.sign != b.sign)))
            x->kind = NUM_nan;
        return 0;
    }
    *x = b;
    if (a.kind == NUM_zero || b.kind >= NUM_inf)
        return 0;
    if (a.exp < b.exp)
        t = a, a = b, b = t;
    /* both significands are below 2^53; a shift by 74 leaves one bit for the carry */
    gap = (int64_t)a.exp - b.exp;
    u = (limber_u128)a.lo << 74;
    v = (limber_u128)b.lo << 74;
    if (gap > 127) {
        sticky = 1;
        v = 0;
    } else {
        sticky = (v & (((limber_u128)1 << (int)gap) - 1)) != 0;
        v >>= (int)gap;
    }
    x->exp = a.exp - 74;
    x->sign = a.sign;
    x->kind = NUM_finite;
    if (a.sign == b.sign) {
        u += v;
    } else if (u >= v + (unsigned)sticky) {
        u -= v + (unsigned)sticky;
    } else {
        u = v - u;
        x->sign = b.sign;
    }
    x->hi = (uint64_t)(u >> 64);
    x->lo = (uint64_t)u;
    if (!u && !sticky) {
        x->kind = NUM_zero;
        x->sign = 0;
    }
    return sticky;
}

#endif
