/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers in any format, written once: decode to sign, significand and exponent; encode with one
 * rounding.  Read by the C compiler for the library, and as bitcode by the LLVM backend; hence C
 * without libc and without 128-bit division.  With a constant format all of it folds.
 *
 *   source  IEEE 754-2019, sections 3.4 and 4.3; OCP 8-bit floating point specification 1.0 */
#ifndef LIMBER_PRIM_NUM_H
#define LIMBER_PRIM_NUM_H

#include "limber/format.h"

#define PRIM static inline __attribute__((always_inline, unused))

typedef unsigned __int128 limber_u128;

enum limber_num_kind { NUM_zero, NUM_finite, NUM_inf, NUM_nan };
enum limber_num_flags { NUM_inexact = 1, NUM_overflow = 2, NUM_underflow = 4 };

/* (-1)^sign * (hi * 2^64 + lo) * 2^exp; finite: hi and lo are not both zero, nothing is
 * normalised.  Zeros carry their sign. */
struct limber_num {
    uint64_t hi, lo;
    int32_t exp;
    uint8_t sign, kind;
};

PRIM limber_u128 limber_num_sig(const struct limber_num *x)
{
    return (limber_u128)x->hi << 64 | x->lo;
}

PRIM void limber_num_set(struct limber_num *x, int sign, limber_u128 sig, int exp)
{
    x->hi = (uint64_t)(sig >> 64);
    x->lo = (uint64_t)sig;
    x->exp = exp;
    x->sign = (uint8_t)sign;
    x->kind = sig ? NUM_finite : NUM_zero;
}

/* The format that a carried format is stored in. */
PRIM limber_format limber_carrier(limber_format f)
{
    if (f.size == 8)
        return (limber_format){ LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };
    return (limber_format){ LIMBER_KIND_FLOAT, 8, 23, 0, 127, 4, 0 };
}

PRIM void limber_decode_float(struct limber_num *x, limber_format f, limber_u128 code)
{
    int frac = f.frac_bits, field, top = (1 << f.exp_bits) - 1;
    limber_u128 one = 1, fraction = code & ((one << frac) - 1);

    field = (int)(code >> frac) & top;
    x->sign = (uint8_t)(code >> (frac + f.exp_bits) & 1);
    x->hi = x->lo = 0;
    x->exp = 0;
    if (f.flags & LIMBER_FORMAT_NO_INF ? field == top && fraction == (one << frac) - 1 :
                                         field == top) {
        x->kind = fraction ? NUM_nan : NUM_inf;
        return;
    }
    if (field)
        fraction |= one << frac;
    limber_num_set(x, x->sign, fraction, (field ? field : 1) - f.bias - frac);
}

/* The element at p of any format but dd and exact. */
PRIM void limber_num_decode(struct limber_num *x, limber_format f, const void *p)
{
    limber_u128 code = 0;

    __builtin_memcpy(&code, p, f.size);
    if (f.kind == LIMBER_KIND_INT) {
        int64_t v = (int64_t)((uint64_t)code << (64 - 8 * f.size)) >> (64 - 8 * f.size);

        limber_num_set(x, v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 0);
    } else if (f.kind == LIMBER_KIND_UINT) {
        limber_num_set(x, 0, (uint64_t)code, 0);
    } else {
        limber_decode_float(x, f.carried ? limber_carrier(f) : f, code);
    }
}

/* sig / 2^drop rounded; below: a positive amount less than one unit is missing from sig. */
PRIM limber_u128 limber_round_off(limber_u128 sig, int drop, int below, int sign,
                                  limber_rounding mode, int *inexact)
{
    limber_u128 one = 1, kept, half = 0, rest = 0;

    if (drop <= 0) {
        kept = sig << -drop;
        rest = below != 0;
    } else if (drop > 128) {
        kept = 0;
        rest = sig != 0 || below;
    } else {
        kept = drop == 128 ? 0 : sig >> drop;
        half = sig >> (drop - 1) & 1;
        rest = (sig & ((one << (drop - 1)) - 1)) != 0 || below;
    }
    *inexact = half || rest;
    if (!*inexact)
        return kept;
    switch (mode) {
    case LIMBER_RN: return kept + (half && (rest || (kept & 1)));
    case LIMBER_RA: return kept + half;
    case LIMBER_RU: return kept + !sign;
    case LIMBER_RD: return kept + !!sign;
    case LIMBER_RO: return kept | 1;
    default: return kept;
    }
}

PRIM int limber_sig_bits(limber_u128 sig)
{
    uint64_t hi = (uint64_t)(sig >> 64);

    return hi ? 128 - __builtin_clzll(hi) : 64 - __builtin_clzll((uint64_t)sig | 1);
}

PRIM void limber_put_code(void *p, limber_format f, int sign, limber_u128 code)
{
    code |= (limber_u128)sign << (f.exp_bits + f.frac_bits);
    __builtin_memcpy(p, &code, f.size);
}

/* Does a result beyond the range stay at the largest finite value? */
PRIM int limber_stays_finite(limber_format f, int sign, limber_rounding mode)
{
    return f.flags & LIMBER_FORMAT_SATURATE || mode == LIMBER_RZ || mode == LIMBER_RO ||
           (mode == LIMBER_RU && sign) || (mode == LIMBER_RD && !sign);
}

/* The code (without sign) of a finite number, rounded; *flags as limber_num_encode. */
PRIM limber_u128 limber_float_code(limber_format f, const struct limber_num *x, int below,
                                   limber_rounding mode, int *flags)
{
    limber_u128 one = 1, sig = limber_num_sig(x), code;
    limber_u128 beyond = (((one << f.exp_bits) - 1) << f.frac_bits);    /* infinity's code */
    int e = x->exp + limber_sig_bits(sig) - 1, least = 1 - f.bias, inexact;
    int normal = e >= least, drop = (normal ? e : least) - f.frac_bits - x->exp;

    if (f.flags & LIMBER_FORMAT_NO_INF)
        beyond |= (one << f.frac_bits) - 1;
    *flags = 0;
    if (e > (1 << f.exp_bits) - f.bias) {
        code = beyond;
        inexact = 1;
    } else {
        code = limber_round_off(sig, drop, below, x->sign, mode, &inexact);
        if (normal)
            code += ((limber_u128)(e + f.bias) << f.frac_bits) - (one << f.frac_bits);
        if (f.flags & LIMBER_FORMAT_NO_SUBNORMAL && code < one << f.frac_bits) {
            inexact |= code != 0;
            code = 0;
        }
        if (!normal && inexact)
            *flags |= NUM_underflow;
    }
    if (code >= beyond) {
        *flags |= NUM_overflow;
        inexact = 1;
        code = limber_stays_finite(f, x->sign, mode) ? beyond - 1 : beyond;
    }
    if (inexact)
        *flags |= NUM_inexact;
    return code;
}

PRIM limber_u128 limber_nan_code(limber_format f)
{
    limber_u128 one = 1;

    if (f.flags & LIMBER_FORMAT_NO_INF)
        return (one << (f.exp_bits + f.frac_bits)) - 1;
    return (((one << f.exp_bits) - 1) << f.frac_bits) | one << (f.frac_bits - 1);
}

PRIM limber_u128 limber_inf_code(limber_format f)
{
    limber_u128 one = 1, all = (one << (f.exp_bits + f.frac_bits)) - 1;

    if (f.flags & LIMBER_FORMAT_NO_INF)
        return f.flags & LIMBER_FORMAT_SATURATE ? all - 1 : all;
    return ((one << f.exp_bits) - 1) << f.frac_bits;
}

PRIM int limber_encode_float(void *p, limber_format f, const struct limber_num *x, int below,
                             limber_rounding mode)
{
    limber_u128 code = 0;
    int flags = 0;

    if (x->kind == NUM_nan)
        code = limber_nan_code(f);
    else if (x->kind == NUM_inf)
        code = limber_inf_code(f);
    else if (x->kind == NUM_finite)
        code = limber_float_code(f, x, below, mode, &flags);
    limber_put_code(p, f, x->sign, code);
    return flags;
}

/* A carried format: its own code, read back and stored in the carrier, which holds it. */
PRIM int limber_encode_carried(void *p, limber_format f, const struct limber_num *x, int below,
                               limber_rounding mode)
{
    struct limber_num member = *x;
    int flags = 0;

    if (x->kind == NUM_finite) {
        limber_u128 code = limber_float_code(f, x, below, mode, &flags);

        limber_decode_float(&member, f, code);
        member.sign = x->sign;
    } else if (x->kind == NUM_inf && f.flags & LIMBER_FORMAT_NO_INF) {
        limber_decode_float(&member, f, limber_inf_code(f));
        member.sign = x->sign;
    }
    limber_encode_float(p, limber_carrier(f), &member, 0, LIMBER_RN);
    return flags;
}

PRIM int limber_encode_int(void *p, limber_format f, const struct limber_num *x, int below,
                           limber_rounding mode)
{
    int bits = 8 * f.size, is_signed = f.kind == LIMBER_KIND_INT, inexact = 0, flags = 0;
    limber_u128 most = ((limber_u128)1 << (bits - is_signed)) - 1 + (is_signed && x->sign), v = 0;
    uint64_t out;

    if (!is_signed && x->sign)
        most = 0;
    if (x->kind == NUM_finite) {
        if (x->exp + limber_sig_bits(limber_num_sig(x)) > 66)
            v = most + 1;
        else
            v = limber_round_off(limber_num_sig(x), -x->exp, below, x->sign, mode, &inexact);
    } else if (x->kind == NUM_inf) {
        v = most + 1;
    }
    if (v > most) {
        v = most;
        flags = NUM_overflow;
        inexact = 1;
    }
    out = x->sign ? 0 - (uint64_t)v : (uint64_t)v;
    __builtin_memcpy(p, &out, f.size);
    return flags | (inexact ? NUM_inexact : 0) | (x->kind == NUM_nan ? NUM_overflow : 0);
}

/* Stores x, plus a positive amount below one unit of lo when `below` is set, rounded once to f
 * (not dd).  Below asks for a significand of 128 bits.  Answers flags. */
PRIM int limber_num_encode(void *p, limber_format f, const struct limber_num *x, int below,
                           limber_rounding mode)
{
    if (f.kind != LIMBER_KIND_FLOAT)
        return limber_encode_int(p, f, x, below, mode);
    if (f.carried)
        return limber_encode_carried(p, f, x, below, mode);
    return limber_encode_float(p, f, x, below, mode);
}

PRIM void limber_num_from_f64(struct limber_num *x, double d)
{
    limber_num_decode(x, (limber_format){ LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 }, &d);
}

/* dd: high is x rounded (by mode), low is what is left, rounded by mode. */
PRIM int limber_num_encode_dd(void *p, const struct limber_num *x, int below, limber_rounding mode)
{
    limber_format f64 = { LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };
    struct limber_num high, low = { .sign = x->sign };
    limber_u128 sig = limber_num_sig(x), h;
    int flags = limber_encode_float(p, f64, x, below, mode == LIMBER_RN ? mode : LIMBER_RN);
    int shift;

    limber_num_decode(&high, f64, p);
    if (x->kind == NUM_finite && (high.kind == NUM_finite || high.kind == NUM_zero)) {
        shift = high.kind == NUM_zero ? 0 : high.exp - x->exp;
        h = high.kind == NUM_zero ? 0 : shift >= 0 ? limber_num_sig(&high) << shift :
            limber_num_sig(&high) >> -shift;
        /* high may be 2^128 units: then h wrapped to 0 and the difference is still right */
        if (high.kind == NUM_finite && (h > sig || (h == 0 && shift > 0)))
            limber_num_set(&low, !x->sign, h - sig - !!below, x->exp);
        else
            limber_num_set(&low, x->sign, sig - h, x->exp);
        if (low.kind == NUM_zero && below)
            low = (struct limber_num){ .lo = 1, .exp = x->exp - 1, .sign = low.sign,
                                       .kind = NUM_finite };
        flags = limber_encode_float((char *)p + 8, f64, &low, below, mode) |
                (flags & (NUM_overflow | NUM_underflow));
    } else {
        low.kind = NUM_zero;
        limber_encode_float((char *)p + 8, f64, &low, 0, mode);
    }
    return flags;
}

#endif
