/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units in FP16 lanes, with AVX-512 FP16.  The instructions compute the format (1,5,10).
 * For (1,5,2), their results are rounded again, by adding half a unit in the last place to the bit
 * pattern.  Subnormal numbers, infinities and NaN need no special code, so value ranges are not
 * checked.  The functions are those that unit_loop.h declares.
 *
 * proof: sums and products of (1,5,2) in binary16: 11 >= 2 * 3 + 2 significant bits, and a product
 * near a tie of (1,5,2)'s subnormal numbers has no bit below 2^-24 (docs/simulation.md) */
#ifndef LIMBER_KERNEL_UNIT_HALF_H
#define LIMBER_KERNEL_UNIT_HALF_H

typedef _Float16 v32h __attribute__((vector_size(64)));
typedef uint16_t v32s __attribute__((vector_size(64)));

typedef struct { int none; } half_tally;

#define F(name) half_##name
#define V v32h
#define RAND v16u
#define MASK v32s
#define ROWS 12
#define VECS 1
#include "backends/llvm/kernel/unit_loop.h"
#undef F
#undef V
#undef RAND
#undef MASK
#undef ROWS
#undef VECS

/* Returns element (r, p) of A's panel, in all lanes. */
FLAT v32h half_load_a(const struct half_tile *t, int64_t p, int r)
{
    _Float16 x = *(const _Float16 *)(const void *)(t->a + (p * CONSTANT.mr + r) * 2);

    return (v32h){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x,
                   x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x };
}

/* Returns row p of B's panel. */
FLAT v32h half_load_b(const struct half_tile *t, int64_t p, int v)
{
    (void)v;
    return LOAD(v32h, t->b + p * CONSTANT.nr * 2);
}

/* Returns x rounded to two fraction bits.  If the format has ten, x is already rounded. */
FLAT v32h half_round(v32h x)
{
    v32s u = (v32s)x;

    if (MODEL.acc.format.frac_bits == 10)
        return x;
    return (v32h)((u + 0x7f + (u >> 8 & 1)) & 0xff00);
}

/* Returns a * b in the unit's format. */
FLAT v32h half_multiply(struct half_tile *t, v32h a, v32h b, v16u random)
{
    (void)t, (void)random;
    return half_round(a * b);
}

/* Returns acc + x in the unit's format. */
FLAT v32h half_add(struct half_tile *t, limber_step s, v32h acc, v32h x, v16u random)
{
    (void)t, (void)s, (void)random;
    return half_round(acc + x);
}

/* Returns sum + x, an outer sum plus a group's sum, in the format and rounding of s. */
FLAT v32h half_outer(struct half_tile *t, limber_step s, v32h sum, v32h x, v16u random)
{
    return half_add(t, s, sum, x, random);
}

/* Placeholders, which are never called: units with these features do not use FP16 lanes. */
FLAT v32h half_add_product(struct half_tile *t, v32h acc, v32h a, v32h b, v16u random)
{
    (void)t, (void)a, (void)b, (void)random;
    return acc;
}

FLAT void half_fused(struct half_tile *t, v32h acc[12][1], int64_t p, int64_t n)
{
    (void)t, (void)acc, (void)p, (void)n;
}

FLAT void half_late(struct half_tile *t, v32h acc[12][1], int64_t p, int64_t n)
{
    (void)t, (void)acc, (void)p, (void)n;
}

/* Converts sixteen FP16 numbers to FP32, which is exact. */
FLAT v16f half_to_float(v16h x)
{
#ifdef __AVX512F__
    return (v16f)__builtin_ia32_vcvtph2ps512_mask(x, all_f(0), (uint16_t)-1, 4);
#else
    typedef _Float16 v16e __attribute__((vector_size(32)));

    return TO(v16f, (v16e)x);
#endif
}

#endif
