/* SPDX-License-Identifier: BSD-3-Clause
 * Functions whose results are rounded to nearest in FP32.  A double with a relative error of at
 * most 2^-40 rounds to the same FP32 number as the exact value, unless it is close to a midpoint of
 * two FP32 numbers.  So a block of elements is computed in plain doubles.  If some element is too
 * close to a midpoint, the block is computed again in the double-double arithmetic of
 * ir/num/functions.h (Ziv's test). */
#ifndef LIMBER_KERNEL_QUICK_H
#define LIMBER_KERNEL_QUICK_H

#include "backends/llvm/kernel/quick_tables.h"
#include "ir/num/functions.h"

enum { QUICK_BLOCK = 64 };

/* True if the rounding of y to FP32 is uncertain: the dropped bits are close to a midpoint, or y is
 * NaN or subnormal in FP32.  A y of 0 is never uncertain, since functions return 0 only if their
 * value rounds to 0. */
PRIM int quick_doubt(double y)
{
    const uint64_t rest = fn_bits(y) & 0x1fffffff, middle = 1u << 28, near = 1u << 13;

    return (rest - (middle - near) <= 2 * near) | !((FN_ABS(y) >= 0x1p-126) | (y == 0));
}

/* True if y, which may be subnormal in FP32, is close to a midpoint.  Subnormal FP32 numbers are
 * 2^-149 apart, and so are doubles near 1.5 * 2^-97. */
PRIM int quick_doubt_small(double y)
{
    const double v = FN_ABS(y), off = FN_ABS(v - ((v + 0x1.8p-97) - 0x1.8p-97));

    return v < 0x1p-126 ? off > 0x1.ffp-151 : quick_doubt(y);
}

/* Computes e^x as s + s p, for |x| < 700. */
PRIM void quick_power(double x, double *s, double *p)
{
    double at = FN_FMA(x, FN_LOG2E_0, FN_MAGIC), k = at - FN_MAGIC, q;
    double r = FN_FMA(-k, FN_LN2_1, FN_FMA(-k, FN_LN2_0, x));

    FN_POLY(q, r, FN_QUICK_EXP);
    *p = FN_FMA(r * r, q, r);
    *s = fn_double((fn_bits(at) + 1023) << 52);
}

/* Returns e^x with enough precision for an FP32 result. */
PRIM double quick_e(double x)
{
    double s, p;

    quick_power(x, &s, &p);
    return FN_FMA(s, p, s);
}

/* Returns e^x.  For x outside of the bounds here and in the functions below, results round to 0, to
 * infinity or to the operand. */
PRIM double quick_exp(double x)
{
    double y = quick_e(fn_cut(x, -110, 90));

    y = x < -104 ? 0 : y;
    return x > 89 ? FN_INF : y;
}

/* Returns 1 / (1 + e^-x). */
PRIM double quick_sigmoid(double x)
{
    double y = 1 / (1 + quick_e(fn_cut(-x, -110, 110)));

    return x < -104 ? 0 : y;
}

/* Returns x / (1 + e^-x). */
PRIM double quick_silu(double x)
{
    double y = x / (1 + quick_e(fn_cut(-x, -110, 110)));

    return x < -109 ? -0.0 : y;
}

/* Returns GELU with a hyperbolic tangent, x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
PRIM double quick_gelu_tanh(double x)
{
    double u = x * FN_FMA(FN_GELU_CUBE_0, x * x, FN_GELU_LINE_0);
    double y = x / (1 + quick_e(fn_cut(-u, -110, 110)));

    return u < -108 ? -0.0 : y;
}

/* Returns tanh x. */
PRIM double quick_tanh(double x)
{
    double s, p, m;

    quick_power(2 * fn_cut(FN_ABS(x), 0, 20), &s, &p);
    m = FN_FMA(s, p, s - 1); /* e^(2v) - 1 */
    m = m / (m + 2);
    return fn_double(fn_bits(m) | (fn_bits(x) & 1ull << 63));
}

/* Returns x Phi(x), where Phi is the normal distribution function: by a polynomial in x^2 for |x| <
 * 1, else by the tail of the distribution. */
PRIM double quick_gelu(double x)
{
    double v = fn_cut(FN_ABS(x), 0, 14.5), z = v * v, part = 1 / ((v + 1) * (v + 4));
    double t = (v - 4) * (v + 1) * part, p, q, tail;

    FN_POLY(p, z, FN_QUICK_NORMAL);
    FN_POLY(q, t, FN_QUICK_TAIL);
    tail = q * (v + 4) * part * quick_e(-0.5 * z); /* z is exact, since x has 24 bits */
    tail = x * (x < 0 ? tail : 1 - tail);
    tail = x < -14.45 ? -0.0 : tail;
    return v < 1 ? x * FN_FMA(x, p, 0.5) : tail;
}

#define QUICK_FUNCTIONS(X) \
    X(EXP, exp) \
    X(SIGMOID, sigmoid) X(SILU, silu) X(GELU_TANH, gelu_tanh) X(TANH, tanh) X(GELU, gelu)

#endif
