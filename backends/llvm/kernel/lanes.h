/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of doubles in the library itself, as wide as the instruction set that a file is compiled
 * for.  (Kernels made at run time use vector.h, which needs clang.) */
#ifndef LIMBER_KERNEL_LANES_H
#define LIMBER_KERNEL_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef double vd __attribute__((vector_size(8 * LANES)));
typedef int64_t vl __attribute__((vector_size(8 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float vf __attribute__((vector_size(4 * LANES)));

#define LOAD(type, from) ({ type loaded_; memcpy(&loaded_, (from), sizeof loaded_); loaded_; })
#define FLAT static inline __attribute__((always_inline))

FLAT vd fma_of(vd a, vd b, vd c)
{
#if defined(__AVX512F__)
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    for (int i = 0; i < LANES; i++)
        c[i] = fma(a[i], b[i], c[i]);
    return c;
#endif
}

FLAT vd whole_of(vd x)
{
#if defined(__AVX512F__)
    return (vd)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return (vd)_mm256_round_pd((__m256d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    for (int i = 0; i < LANES; i++)
        x[i] = rint(x[i]);
    return x;
#endif
}

FLAT vi max_of(vi a, vi b)
{
#if defined(__AVX512F__)
    return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#elif defined(__AVX2__)
    return (vi)_mm_max_epi32((__m128i)a, (__m128i)b);
#else
    vi more = a > b;

    return (a & more) | (b & ~more);
#endif
}

FLAT int any(vi mask)
{
#if defined(__AVX512F__)
    return _mm256_movemask_ps((__m256)mask);
#elif defined(__AVX2__)
    return _mm_movemask_ps((__m128)mask);
#else
    int32_t r = 0;

    for (int i = 0; i < LANES; i++)
        r |= mask[i];
    return r;
#endif
}

FLAT vd all_of(double x)
{
#if defined(__AVX512F__)
    return (vd)_mm512_set1_pd(x);
#elif defined(__AVX2__)
    return (vd)_mm256_set1_pd(x);
#else
    return (vd){ 0 } + x;
#endif
}

FLAT vd size_of(vd x)
{
    return (vd)((vl)x & INT64_MAX);
}

/* Adds b to a exactly: a + b = sum + rest. */
FLAT vd two_sum(vd a, vd b, vd *rest)
{
    vd sum = a + b, back = sum - a;

    *rest = (a - (sum - back)) + (b - back);
    return sum;
}

#endif
