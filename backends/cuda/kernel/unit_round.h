/* SPDX-License-Identifier: BSD-3-Clause
 * Rounding to the formats of a simulated unit.
 *
 *   wide    in FP64: any description, any data.  Inexact values are rounded to odd, which keeps
 *           every later rounding to 24 bits or fewer correct.
 *   f32     in FP32: for operands whose range was checked, by instructions that round as needed.
 *
 * Source: Boldo and Melquiond, IEEE TC 57 (2008), for rounding to odd; docs/simulation.md. */
#ifndef LIMBER_CUDA_UNIT_ROUND_H
#define LIMBER_CUDA_UNIT_ROUND_H

/* Returns what an overflow becomes: 0 for the largest value, 1 for infinity, 2 for NaN. */
DEVICE int overflow_of(limber_step s, int negative)
{
    int infinite = s.overflow || s.rounding == LIMBER_ROUND_NEAREST ||
                   s.rounding == LIMBER_ROUND_AWAY || s.rounding == LIMBER_ROUND_STOCHASTIC ||
                   (s.rounding == LIMBER_ROUND_UP && !negative) ||
                   (s.rounding == LIMBER_ROUND_DOWN && negative);

    if (!infinite || s.format.flags & (LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_FINITE))
        return 0;
    return s.format.flags & LIMBER_FORMAT_NO_INF ? 2 : 1;
}

/* Returns the magnitude of what an overflow becomes: the largest value, infinity or NaN. */
DEVICE double overflow_value(limber_step s, int negative)
{
    int kind = overflow_of(s, negative);

    return kind == 0 ? limber_unit_largest(s.format) : kind == 1 ? __builtin_inf() :
           __builtin_nan("");
}

/* Returns the random bits of a stochastic rounding: the upper bits of the random number h. */
DEVICE uint32_t random_of(uint32_t h)
{
    return h >> (32 - MODEL.random_bits);
}

DEVICE bool finite(double x) { return x - x == 0; }
DEVICE bool finite(float x) { return x - x == 0; }

/* ---- in FP64 --------------------------------------------------------------------------------- */

constexpr uint64_t SIGN64 = (uint64_t)1 << 63, EXPONENT64 = (uint64_t)0x7ff << 52;

/* Returns an infinite or NaN x as the format represents it.  Returns v if x is finite. */
DEVICE double wide_special(limber_step s, double x, double v)
{
    int flags = s.format.flags;
    uint64_t sign = double_bits(x) & SIGN64;

    if (finite(x))
        return v;
    if (x != x)
        return flags & LIMBER_FORMAT_FINITE ? 0 : __builtin_nan("");
    if (!(flags & (LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_FINITE)))
        return x;
    return flags & (LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_FINITE) ?
           bits_double(double_bits(limber_unit_largest(s.format)) | sign) : __builtin_nan("");
}

/* Returns y >= 0 rounded to an integer in the rounding mode of s. negative: sign of the number.
 * random: bits for stochastic rounding. */
DEVICE double wide_units(limber_step s, double y, bool negative, uint32_t random)
{
    double t = cut64(y), d = add64(y, -t);
    bool up = false;

    switch (s.rounding) {
    case LIMBER_ROUND_NEAREST:
        return add64(add64(y, 0x1p52), -0x1p52);
    case LIMBER_ROUND_AWAY:
        up = d >= 0.5;
        break;
    case LIMBER_ROUND_UP:
        up = d > 0 && !negative;
        break;
    case LIMBER_ROUND_DOWN:
        up = d > 0 && negative;
        break;
    case LIMBER_ROUND_ODD:
        up = d > 0 && !((uint32_t)t & 1);
        break;
    case LIMBER_ROUND_STOCHASTIC:
        up = (uint32_t)mul64(d, (double)(1 << MODEL.random_bits)) + random >=
             (uint32_t)1 << MODEL.random_bits;
        break;
    }
    return up ? add64(t, 1) : t;
}

/* Returns x in the format and rounding mode of s. random: bits for stochastic rounding. beyond:
 * set if x overflowed the format. */
DEVICE double wide_round(limber_step s, double x, uint32_t random, bool &beyond)
{
    limber_format f = s.format;
    uint64_t sign = double_bits(x) & SIGN64, size = double_bits(x) ^ sign;
    uint64_t field = size & EXPONENT64, least = (uint64_t)(1 - f.bias + 1023) << 52;
    double v;

    field = field > least ? field : least;
    v = mul64(bits_double(size), bits_double(((uint64_t)(2046 + f.frac_bits) << 52) - field));
    v = mul64(wide_units(s, finite(x) ? v : 0, sign != 0, random),
              bits_double(field - ((uint64_t)f.frac_bits << 52)));
    if (f.flags & LIMBER_FORMAT_NO_SUBNORMAL && v < bits_double(least))
        v = 0;
    beyond = finite(x) && v > limber_unit_largest(f);
    if (beyond)
        v = overflow_value(s, sign != 0);
    v = bits_double(double_bits(v) | sign);
    return wide_special(s, x, f.flags & LIMBER_FORMAT_NO_MINUS_ZERO ? add64(v, 0) : v);
}

/* Returns a + b rounded to odd.  Sums that are zero or infinite are returned unchanged. */
DEVICE double wide_sum(double a, double b)
{
    double s = add64(a, b), t = add64(s, -a), e = add64(add64(a, -add64(s, -t)), add64(b, -t));
    uint64_t bits = double_bits(s);

    if ((e > 0 || e < 0) && !(bits & 1))
        /* if the error has the sum's sign, the exact magnitude is larger than the sum's */
        bits += (double_bits(e) ^ bits) >> 63 ? -1 : 1;
    return bits_double(bits);
}

/* ---- in FP32 --------------------------------------------------------------------------------- */

constexpr uint32_t SIGN32 = 0x80000000, EXPONENT32 = 0x7f800000;

/* Returns 2^e, if that is a normal FP32 number. */
DEVICE float power_of_two_f(int e)
{
    return bits_float((uint32_t)(e + 127) << 23);
}

/* Returns a result rounded to odd, made from the results that are truncated, rounded up and rounded
 * down. */
DEVICE float odd_of(float cut, float up, float down)
{
    return bits_float(float_bits(cut) | (up != down));
}

/* True if s has FP32's 23 fraction bits, so that instructions round to them directly. */
DEVICE constexpr bool is_binary32(limber_step s)
{
    return s.format.frac_bits == 23;
}

/* True if the format's exponents are so small that overflow must be checked.  For other formats the
 * range of the operands excludes overflow. */
DEVICE constexpr bool ends_early(limber_step s)
{
    return (1 << s.format.exp_bits) - 1 - s.format.bias <= 60;
}

/* Corrects the sign of a sum that is exactly zero: rounding down gives -0, but the sum is -0 only
 * if both terms are negative.  signs: AND of the terms' bit patterns. */
DEVICE float zero_of(float sum, uint32_t signs)
{
    return sum == 0 ? bits_float(signs & SIGN32) : sum;
}

/* Returns a + b in FP32, rounded so that a later rounding to the format of s gives the correct
 * result. safe: rounding to nearest twice is innocuous. */
DEVICE float f32_sum(limber_step s, float a, float b, int safe)
{
    switch (s.rounding) {
    case LIMBER_ROUND_UP:
        return add32_ru(a, b);
    case LIMBER_ROUND_DOWN:
        return zero_of(add32_rd(a, b), float_bits(a) & float_bits(b));
    case LIMBER_ROUND_ZERO:
    case LIMBER_ROUND_AWAY:
    case LIMBER_ROUND_STOCHASTIC:
        return add32_rz(a, b);
    default:
        if (safe || (s.rounding == LIMBER_ROUND_NEAREST && is_binary32(s)))
            return add32(a, b);
        return odd_of(add32_rz(a, b), add32_ru(a, b), add32_rd(a, b));
    }
}

/* Returns a b + c in FP32, rounded so that a later rounding to the format of s gives the correct
 * result. */
DEVICE float f32_fma(limber_step s, float a, float b, float c)
{
    switch (s.rounding) {
    case LIMBER_ROUND_UP:
        return fma32_ru(a, b, c);
    case LIMBER_ROUND_DOWN:
        return zero_of(fma32_rd(a, b, c), (float_bits(a) ^ float_bits(b)) & float_bits(c));
    case LIMBER_ROUND_ZERO:
    case LIMBER_ROUND_AWAY:
    case LIMBER_ROUND_STOCHASTIC:
        return fma32_rz(a, b, c);
    default:
        if (s.rounding == LIMBER_ROUND_NEAREST && is_binary32(s))
            return fma32(a, b, c);
        return odd_of(fma32_rz(a, b, c), fma32_ru(a, b, c), fma32_rd(a, b, c));
    }
}

/* Replaces results that are too large, or that are subnormal if the format has no subnormals.
 * beyond: set if v overflowed. */
DEVICE float f32_range(limber_step s, float v, bool &beyond)
{
    uint32_t sign = float_bits(v) & SIGN32;
    float size = bits_float(float_bits(v) ^ sign), largest = (float)limber_unit_largest(s.format);

    beyond = false;
    if (s.format.flags & LIMBER_FORMAT_NO_SUBNORMAL && size < power_of_two_f(1 - s.format.bias))
        v = bits_float(sign);
    if (!ends_early(s))
        return v;
    beyond = size > largest && size != (float)__builtin_inf();
    if (overflow_of(s, 0) == 1 && overflow_of(s, 1) == 1) {
        float up = power_of_two_f(127 - limber_unit_top(s.format));

        /* multiplying by `up` and by 1 / up makes FP32 overflow where this format does */
        return mul32(mul32(v, up), 1 / up);
    }
    if (size > largest && (beyond || s.format.flags & LIMBER_FORMAT_NO_INF)) {
        double to = sign ? overflow_value(s, 1) : overflow_value(s, 0);

        if (!beyond)        /* v was infinite before this rounding, so it is no overflow */
            to = s.format.flags & LIMBER_FORMAT_SATURATE ? largest : __builtin_nan("");
        return bits_float(float_bits((float)to) | sign);
    }
    return v;
}

/* Whether the x that f32_round gets may become subnormal. */
enum clamp {
    CLAMP_none,             /* x is a multiple of the format's smallest number */
    CLAMP_low,              /* x may become subnormal; the sign of a zero does not matter */
    /* x may become subnormal; the sign of a zero matters, since another zero may be added */
    CLAMP_signed
};

/* Rounds x to the format of s, which has m <= 21 fraction bits, or 23. x is exact, or comes from
 * f32_sum or f32_fma.  Adding 2^(23 - m) times the power of two of x drops the lower bits.
 * ends: x may be infinite. beyond: set if x overflowed. */
DEVICE float f32_round(limber_step s, float x, uint32_t random, enum clamp clamp, bool ends,
                       bool &beyond)
{
    int m = s.format.frac_bits;
    float whole = power_of_two_f(23 - m), e, t, v, size;
    uint32_t field = float_bits(x) & EXPONENT32, sign = float_bits(x) & SIGN32;

    if (is_binary32(s))
        return f32_range(s, x, beyond);
    if (clamp) {
        uint32_t least = (uint32_t)(1 - s.format.bias + 127) << 23;

        field = field > least ? field : least;
    }
    if (ends) {             /* limit the exponent, since infinity minus infinity would be NaN */
        uint32_t most = (uint32_t)(127 - (23 - m) - 2 + 127) << 23;

        field = field < most ? field : most;
    }
    e = bits_float(field);
    if (s.rounding == LIMBER_ROUND_NEAREST || s.rounding == LIMBER_ROUND_UP ||
        s.rounding == LIMBER_ROUND_DOWN) {
        float c = 1.5f * whole;

        t = s.rounding == LIMBER_ROUND_NEAREST ? fma32(e, c, x) : s.rounding == LIMBER_ROUND_UP ?
            fma32_ru(e, c, x) : fma32_rd(e, c, x);
        v = fma32(e, -c, t);
        if (clamp == CLAMP_signed)
            v = bits_float(float_bits(v) | sign);
        return f32_range(s, v, beyond);
    }
    size = bits_float(float_bits(x) ^ sign);
    if (s.rounding == LIMBER_ROUND_AWAY)
        size = fma32_rz(e, power_of_two_f(-m - 1), size);
    if (s.rounding == LIMBER_ROUND_STOCHASTIC)
        size = fma32_rz((float)random, mul32(e, power_of_two_f(-m - MODEL.random_bits)), size);
    t = fma32_rz(e, whole, size);
    v = fma32(e, -whole, t);
    if (s.rounding == LIMBER_ROUND_ODD) {
        t = bits_float(float_bits(t) | (v != size));
        v = fma32(e, -whole, t);
    }
    return f32_range(s, bits_float(float_bits(v) | sign), beyond);
}

#endif
