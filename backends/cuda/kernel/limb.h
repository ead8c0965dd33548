/* SPDX-License-Identifier: BSD-3-Clause
 * Splits FP32 elements into Hi/Lo limbs by conversion instructions.  All arithmetic is in FP32, and
 * exact except for the roundings to limbs. */
#ifndef LIMBER_CUDA_LIMB_H
#define LIMBER_CUDA_LIMB_H

/* A power-of-two scale as two factors, since FP32 may not be able to hold it as one.  Neither
 * multiplication rounds. */
struct factors { float one, two; };

/* Returns 2^e as a product of two powers of two that FP32 can hold. */
DEVICE struct factors factors_by(int e)
{
    return { bits_float((uint32_t)(127 + e / 2) << 23),
             bits_float((uint32_t)(127 + e - e / 2) << 23) };
}

/* Returns x times its scale.  Returns 0 for NaN and infinities, which another kernel handles. */
template <int S> DEVICE float scaled(float x, struct factors f)
{
    if (SPECIAL)
        x = add32(x, -x) == 0 ? x : 0;
    return SIDES[S].scaled ? mul32(mul32(x, f.one), f.two) : x;
}

/* Returns what remains of x after subtracting `limb`, times 2^shift.  It is exact in FP32, since
 * its last bit is at most 24 binades below the first bit of x. */
template <int S> DEVICE float scaled_remainder(float x, float limb)
{
    constexpr float by = (float)((uint64_t)1 << (SIDES[S].shift & 63));

    return SIDES[S].shift ? mul32(add32(x, -limb), by) : add32(x, -limb);
}

/* Returns x rounded to TF32, to nearest even. */
DEVICE float nearest_tf32(float x)
{
    uint32_t v = float_bits(x);

    return bits_float((v + 0xfff + (v >> 13 & 1)) & ~(uint32_t)0x1fff);
}

#if __CUDA_ARCH__ >= 800
/* Returns a 32-bit word of a limb, made from the one or two numbers at x that it holds, and
 * replaces these numbers by their remainders. */
template <int S> DEVICE uint32_t take_word(float *x)
{
    if constexpr (BYTES == 2) {
        uint32_t v = UNIT == UNIT_f16 ? pack_f16(x[0], x[1]) : pack_bf16(x[0], x[1]);
        float low = bits_float(v << 16), high = bits_float(v & 0xffff0000);

        if constexpr (UNIT == UNIT_f16)
            unpack_f16(v, low, high);
        x[0] = scaled_remainder<S>(x[0], low);
        x[1] = scaled_remainder<S>(x[1], high);
        return v;
    } else {
        float limb = nearest_tf32(x[0]);

        x[0] = scaled_remainder<S>(x[0], limb);
        return float_bits(limb);
    }
}
#endif

#endif
