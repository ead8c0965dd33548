/* SPDX-License-Identifier: BSD-3-Clause
 * Functions whose results are rounded to binary32 next, to nearest.  A double that is at most 2^-39
 * off, relative, rounds as the exact value does, unless it lies that near to the middle of two
 * numbers of binary32.  So a block of elements is computed in single doubles; where one of them is
 * in doubt, all of the block in the pairs of ir/num/functions.h (Ziv's test). */
#ifndef LIMBER_KERNEL_QUICK_H
#define LIMBER_KERNEL_QUICK_H

#include "backends/llvm/kernel/quick_tables.h"
#include "ir/num/functions.h"

enum { QUICK_BLOCK = 64 };

/* The bits that binary32 drops lie around their middle; or y is subnormal there, 0 of a number that
 * is none, or NaN. */
PRIM int quick_doubt(double y, double x)
{
    const uint64_t rest = fn_bits(y) & 0x1fffffff, middle = 1u << 28, near = 1u << 13;

    return (rest - (middle - near) <= 2 * near) |
           !((FN_ABS(y) >= 0x1p-126) | ((x == 0) & (y == 0)));
}

/* e^x = s + s p for |x| < 700 */
PRIM void quick_power(double x, double *s, double *p)
{
    double at = FN_FMA(x, FN_LOG2E_0, FN_MAGIC), k = at - FN_MAGIC, q;
    double r = FN_FMA(-k, FN_LN2_1, FN_FMA(-k, FN_LN2_0, x));

    FN_POLY(q, r, FN_QUICK_EXP);
    *p = FN_FMA(r * r, q, r);
    *s = fn_double((fn_bits(at) + 1023) << 52);
}

PRIM double quick_e(double x)
{
    double s, p;

    quick_power(x, &s, &p);
    return FN_FMA(s, p, s);
}

/* Every function of x gives NaN where |x| is too large for it, so that x is in doubt. */
PRIM double quick_within(double y, double x, double bound)
{
    return FN_ABS(x) < bound ? y : FN_NAN;
}

PRIM double quick_exp(double x)
{
    return quick_within(quick_e(x), x, 150);
}

PRIM double quick_sigmoid(double x)
{
    return quick_within(1 / (1 + quick_e(-x)), x, 150);
}

PRIM double quick_silu(double x)
{
    return quick_within(x / (1 + quick_e(-x)), x, 150);
}

PRIM double quick_gelu_tanh(double x)
{
    double u = x * FN_FMA(FN_GELU_CUBE_0, x * x, FN_GELU_LINE_0);

    return quick_within(x / (1 + quick_e(-u)), u, 150);
}

PRIM double quick_tanh(double x)
{
    double v = FN_ABS(x), s, p, m;

    quick_power(2 * (v < 20 ? v : 20), &s, &p);
    m = FN_FMA(s, p, s - 1); /* e^2v - 1 */
    m = m / (m + 2);
    return quick_within(fn_double(fn_bits(m) | (fn_bits(x) & 1ull << 63)), x, FN_INF);
}

PRIM double quick_gelu(double x)
{
    double v = FN_ABS(x), z = v * v, part = 1 / ((v + 1) * (v + 4)), t = (v - 4) * (v + 1) * part;
    double p, q, tail;

    FN_POLY(p, z, FN_QUICK_NORMAL);
    FN_POLY(q, t, FN_QUICK_TAIL);
    tail = q * (v + 4) * part * quick_e(-0.5 * z); /* z is exact: x has 24 bits */
    tail = x < 0 ? x * tail : FN_FMA(-x, tail, x);
    return quick_within(v < 1 ? x * FN_FMA(x, p, 0.5) : tail, x, 14);
}

#define QUICK_FUNCTIONS(X) \
    X(EXP, exp) \
    X(SIGMOID, sigmoid) X(SILU, silu) X(GELU_TANH, gelu_tanh) X(TANH, tanh) X(GELU, gelu)

#endif
