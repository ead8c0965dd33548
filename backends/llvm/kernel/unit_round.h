/* SPDX-License-Identifier: BSD-3-Clause
 * Rounding to the formats of a simulated unit, in two kinds of lanes.
 *
 *   wide    FP64 lanes: any description, any data.  Results that are not exact in FP64 are rounded
 *           to odd, which keeps every later rounding to 24 bits or fewer correct.
 *   f32     FP32 lanes: for data whose range was checked, and for roundings that the instructions
 *           themselves can do.
 *
 * Source: Boldo and Melquiond, IEEE TC 57 (2008), for rounding to odd; docs/simulation.md. */
#ifndef LIMBER_KERNEL_UNIT_ROUND_H
#define LIMBER_KERNEL_UNIT_ROUND_H

#define MODEL CONSTANT.model

typedef uint32_t v8w __attribute__((vector_size(32)));

/* In each lane, a if the mask is set, else b. */
#define PICK(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

/* Returns 2^e, if that is a normal FP32 number. */
FLAT float power_of_two_f(int e)
{
    uint32_t bits = (uint32_t)(e + 127) << 23;
    float f;

    __builtin_memcpy(&f, &bits, 4);
    return f;
}

/* Returns the largest finite value of a format. */
FLAT double largest_of(limber_format f)
{
    int top = (1 << f.exp_bits) - 1 - f.bias;

    if (f.flags & LIMBER_FORMAT_NO_INF && !(f.flags & LIMBER_FORMAT_NO_MINUS_ZERO))
        return power_of_two(top) * (2 - 2 * power_of_two(-f.frac_bits));
    if (!(f.flags & (LIMBER_FORMAT_FINITE | LIMBER_FORMAT_NO_MINUS_ZERO)))
        top--;
    return power_of_two(top) * (2 - power_of_two(-f.frac_bits));
}

/* Returns what an overflow with this sign becomes: 0 for the largest value, 1 for infinity, 2 for
 * NaN. */
FLAT int overflow_of(limber_step s, int negative)
{
    int infinite = s.overflow || s.rounding == LIMBER_ROUND_NEAREST ||
                   s.rounding == LIMBER_ROUND_AWAY || s.rounding == LIMBER_ROUND_STOCHASTIC ||
                   (s.rounding == LIMBER_ROUND_UP && !negative) ||
                   (s.rounding == LIMBER_ROUND_DOWN && negative);

    if (!infinite || s.format.flags & (LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_FINITE))
        return 0;
    return s.format.flags & LIMBER_FORMAT_NO_INF ? 2 : 1;
}

/* Returns the value that an overflow becomes under s: the largest value, infinity or NaN. */
FLAT double overflow_value(limber_step s, int negative)
{
    int kind = overflow_of(s, negative);

    return kind == 0 ? largest_of(s.format) : kind == 1 ? __builtin_inf() : __builtin_nan("");
}

/* ---- FP64 lanes ------------------------------------------------------------------------------ */

/* Returns v in the lanes where x is finite.  Where x is infinite or NaN, returns the value by which
 * the format of s replaces it. */
FLAT v8d wide_special(limber_step s, v8d x, v8d v)
{
    v8l sign = (v8l)x & all_l(INT64_MIN), nan = (v8l)(x != x), inf;
    v8l full = (v8l)all_d(largest_of(s.format));

    inf = (v8l)((v8d)((v8l)x ^ sign) == all_d(__builtin_inf()));
    if (s.format.flags & (LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_FINITE)) {
        v8l it = s.format.flags & (LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_FINITE) ? full | sign :
                 (v8l)all_d(__builtin_nan(""));

        v = (v8d)PICK(inf, it, (v8l)v);
    } else {
        v = (v8d)PICK(inf, (v8l)x, (v8l)v);
    }
    return (v8d)PICK(nan, s.format.flags & LIMBER_FORMAT_FINITE ? all_l(0) :
                     (v8l)all_d(__builtin_nan("")), (v8l)v);
}

/* Returns y >= 0 rounded to an integer in the rounding mode of s. negative: lanes whose number
 * is negative. random: random bits, `bits` of them. */
FLAT v8d wide_units(limber_step s, v8d y, v8l negative, v8l random, int bits)
{
    v8d t = TRUNC(y), d = y - t;
    v8l up;

    switch (s.rounding) {
    case LIMBER_ROUND_NEAREST:
        return ROUND(y);
    case LIMBER_ROUND_AWAY:
        up = (v8l)(d >= 0.5);
        break;
    case LIMBER_ROUND_UP:
        up = (v8l)(d > 0) & ~negative;
        break;
    case LIMBER_ROUND_DOWN:
        up = (v8l)(d > 0) & negative;
        break;
    case LIMBER_ROUND_ODD:
        up = (v8l)(d > 0) & (v8l)(TRUNC(t * 0.5) * 2 == t);
        break;
    case LIMBER_ROUND_STOCHASTIC:
        up = TO(v8l, d * power_of_two(bits)) + random >= all_l((int64_t)1 << bits);
        break;
    default:
        return t;
    }
    return t + (v8d)(up & (v8l)all_d(1));
}

/* Returns x in the format and rounding mode of s. random: MODEL.random_bits bits.  *beyond: set
 * to the mask of lanes that overflow. */
FLAT v8d wide_round(limber_step s, v8d x, v8l random, v8l *beyond)
{
    limber_format f = s.format;
    v8l sign = (v8l)x & all_l(INT64_MIN), size = (v8l)x ^ sign, negative = (v8l)x < 0;
    v8l field = size & all_l((int64_t)0x7ff << 52), over;
    v8l least = all_l((int64_t)(1 - f.bias + 1023) << 52);
    v8d v, down, up;

    field = PICK(field > least, field, least);
    down = (v8d)(all_l((int64_t)(2046 + f.frac_bits) << 52) - field);
    up = (v8d)(field - all_l((int64_t)f.frac_bits << 52));
    v = wide_units(s, (v8d)size * down, negative, random, MODEL.random_bits) * up;
    if (f.flags & LIMBER_FORMAT_NO_SUBNORMAL)
        v = (v8d)((v8l)v & (v8l)(v >= (v8d)least));
    *beyond = over = (v8l)(v > all_d(largest_of(f)));
    v = (v8d)PICK(over, PICK(negative, (v8l)all_d(overflow_value(s, 1)),
                             (v8l)all_d(overflow_value(s, 0))), (v8l)v);
    v = (v8d)((v8l)v | sign);
    if (f.flags & LIMBER_FORMAT_NO_MINUS_ZERO)
        v += 0.0;
    return wide_special(s, x, v);
}

/* Returns a + b rounded to odd.  Sums that are zero or infinite are returned unchanged. */
FLAT v8d wide_sum(v8d a, v8d b)
{
    v8d s = a + b, t = s - a, e = (a - (s - t)) + (b - t);
    v8l some = (v8l)(e > 0) | (v8l)(e < 0), even = ((v8l)s & 1) - 1;
    /* lanes in which the error has the sum's sign, so that the exact magnitude is larger */
    v8l away = ~(((v8l)e ^ (v8l)s) >> 63);

    return (v8d)((v8l)s + ((away & 2) - 1 & some & even));
}

/* ---- FP32 lanes ------------------------------------------------------------------------------ */

/* AVX-512 instructions with a rounding mode of their own: 8 to nearest, 9 down, 10 up, 11 toward
 * zero.  They are compiled only if the configuration needs them. */
#ifdef __AVX512F__
#define ADD_AS(a, b, as) ((v16f)__builtin_ia32_addps512((a), (b), as))
#define FMA_AS(a, b, c, as) ((v16f)__builtin_ia32_vfmaddps512_mask(a, b, c, (uint16_t)-1, as))
#elif defined(__aarch64__)      /* never executed, since config.c requires AVX-512 */
#define ADD_AS(a, b, as) ((void)(as), __builtin_trap(), (a) + (b))
#define FMA_AS(a, b, c, as) ((void)(as), __builtin_trap(), FMA(a, b, c))
#else
#error "for x86-64 the kernel's source is compiled with AVX-512; what a target lacks is folded away"
#endif

/* Returns a sum rounded to odd, made from the truncated sum and the sums rounded up and down. */
FLAT v16f odd_of(v16f cut, v16f up, v16f down)
{
    return (v16f)((v16i)cut | ((v16i)(up != down) & 1));
}

/* True if s has FP32's precision, so that instructions round to it directly. */
FLAT int is_binary32(limber_step s)
{
    return s.format.frac_bits == 23;
}

/* Corrects exact zeros, which rounding down makes negative: they are -0 only if both terms are
 * negative.  signs: AND of the terms' bit patterns. */
FLAT v16f zero_of(v16f sum, v16i signs)
{
    return (v16f)PICK((v16i)(sum == 0), signs & INT32_MIN, (v16i)sum);
}

/* Returns a + b with 24 bits, rounded so that the later rounding to the format of s gives the
 * correct result. safe: rounding to nearest twice is innocuous. */
FLAT v16f f32_sum(limber_step s, v16f a, v16f b, int safe)
{
    switch (s.rounding) {
    case LIMBER_ROUND_UP:
        return ADD_AS(a, b, 10);
    case LIMBER_ROUND_DOWN:
        return zero_of(ADD_AS(a, b, 9), (v16i)a & (v16i)b);
    case LIMBER_ROUND_ZERO:
    case LIMBER_ROUND_AWAY:
    case LIMBER_ROUND_STOCHASTIC:
        return ADD_AS(a, b, 11);
    default:
        if (safe || (s.rounding == LIMBER_ROUND_NEAREST && is_binary32(s)))
            return a + b;
        return odd_of(ADD_AS(a, b, 11), ADD_AS(a, b, 10), ADD_AS(a, b, 9));
    }
}

/* Returns a * b + c with 24 bits, rounded so that the later rounding to the format of s gives
 * the correct result. */
FLAT v16f f32_fma(limber_step s, v16f a, v16f b, v16f c)
{
    switch (s.rounding) {
    case LIMBER_ROUND_UP:
        return FMA_AS(a, b, c, 10);
    case LIMBER_ROUND_DOWN:
        return zero_of(FMA_AS(a, b, c, 9), ((v16i)a ^ (v16i)b) & (v16i)c);
    case LIMBER_ROUND_ZERO:
    case LIMBER_ROUND_AWAY:
    case LIMBER_ROUND_STOCHASTIC:
        return FMA_AS(a, b, c, 11);
    default:
        if (s.rounding == LIMBER_ROUND_NEAREST && is_binary32(s))
            return FMA(a, b, c);
        return odd_of(FMA_AS(a, b, c, 11), FMA_AS(a, b, c, 10), FMA_AS(a, b, c, 9));
    }
}

/* Replaces results that are too large, or that are subnormal if the format has no subnormals.
 * *beyond: set to the mask of lanes that overflow. */
FLAT v16f f32_range(limber_step s, v16f v, int bounded, v16i *beyond)
{
    v16i sign = (v16i)v & INT32_MIN;
    v16f size = (v16f)((v16i)v ^ sign);

    *beyond = all_i(0);
    if (CONSTANT.counts && !bounded)
        *beyond = (v16i)(size > (float)largest_of(s.format));

    if (s.format.flags & LIMBER_FORMAT_NO_SUBNORMAL)
        v = (v16f)((v16i)v & (~(v16i)(size < power_of_two_f(1 - s.format.bias)) | sign));
    if (bounded)
        return v;
    if (overflow_of(s, 0) == 1 && overflow_of(s, 1) == 1) {
        float up = power_of_two_f(127 - ((1 << s.format.exp_bits) - 2 - s.format.bias));

        /* numbers beyond the format's largest exponent now also overflow FP32 */
        return v * up * (1 / up);
    }
    {
        v16i over = (v16i)(size > (float)largest_of(s.format)), negative = sign >> 31;
        v16i to = PICK(negative, (v16i)all_f((float)overflow_value(s, 1)),
                       (v16i)all_f((float)overflow_value(s, 0))) | sign;

        if (!(s.format.flags & LIMBER_FORMAT_NO_INF))
            over &= (v16i)(size != __builtin_inff());   /* infinity is not an overflow */
        else if (!(s.format.flags & LIMBER_FORMAT_SATURATE))
            to = PICK((v16i)(size == __builtin_inff()), (v16i)all_f(__builtin_nanf("")), to);
        return (v16f)PICK(over, to, (v16i)v);
    }
}

/* Whether x may be below the normal numbers of the format to which it is rounded. */
enum clamp {
    CLAMP_none,             /* x is a multiple of the format's smallest positive number */
    CLAMP_low,              /* x may be subnormal; the sign of a zero result does not matter */
    /* x may be subnormal; the sign of a zero result matters, since the result may be added to
     * another zero */
    CLAMP_signed
};

/* Returns x, which is exact or comes from f32_sum, rounded to a format of at most 21 fraction
 * bits, or of 23.  Adding 2^(23-m) times x's power of two drops the bits beyond m fraction bits.
 * bounded: there is no overflow and no infinity. */
FLAT v16f f32_round(limber_step s, v16f x, v16i random, enum clamp clamp, int bounded,
                    v16i *beyond)
{
    int m = s.format.frac_bits;
    float whole = power_of_two_f(23 - m);
    v16i field = (v16i)x & 0x7f800000, sign;
    v16f e, v, t, size;

    if (is_binary32(s))
        return f32_range(s, x, bounded, beyond);
    if (clamp) {
        v16i least = all_i((1 - s.format.bias + 127) << 23);

        field = PICK(field > least, field, least);
    }
    if (!bounded) { /* limit e, since infinity minus infinity would be NaN */
        v16i most = all_i((127 - (23 - m) - 2 + 127) << 23);

        field = PICK(field < most, field, most);
    }
    e = (v16f)field;
    if (s.rounding == LIMBER_ROUND_NEAREST || s.rounding == LIMBER_ROUND_UP ||
        s.rounding == LIMBER_ROUND_DOWN) {
        v16f c = all_f(1.5f * whole);

        if (s.rounding == LIMBER_ROUND_NEAREST)
            t = FMA(e, c, x);
        else if (s.rounding == LIMBER_ROUND_UP)
            t = FMA_AS(e, c, x, 10);
        else
            t = FMA_AS(e, c, x, 9);
        v = FMA(e, -c, t);
        if (clamp == CLAMP_signed)
            v = (v16f)((v16i)v | ((v16i)x & INT32_MIN));
        return f32_range(s, v, bounded, beyond);
    }
    sign = (v16i)x & INT32_MIN;
    size = (v16f)((v16i)x ^ sign);
    if (s.rounding == LIMBER_ROUND_AWAY)
        size = FMA_AS(e, all_f(power_of_two_f(-m - 1)), size, 11);
    if (s.rounding == LIMBER_ROUND_STOCHASTIC)
        size = FMA_AS(TO(v16f, random), e * power_of_two_f(-m - MODEL.random_bits), size, 11);
    t = FMA_AS(e, all_f(whole), size, 11);
    v = FMA(e, all_f(-whole), t);
    if (s.rounding == LIMBER_ROUND_ODD) {
        t = (v16f)((v16i)t | ((v16i)(v != size) & 1));
        v = FMA(e, all_f(-whole), t);
    }
    return f32_range(s, (v16f)((v16i)v | sign), bounded, beyond);
}

#endif
