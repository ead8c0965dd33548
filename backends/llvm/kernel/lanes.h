/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of doubles for the library's own code, with the length that the instruction set has for
 * which a file is compiled.  Kernels that are made at run time use vector.h, which needs clang. */
#ifndef LIMBER_KERNEL_LANES_H
#define LIMBER_KERNEL_LANES_H

#include <math.h>
#include <stdbool.h>
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

/* UNROLL unrolls loops over arrays that stay in registers. */
#if defined(__x86_64__) && !defined(__AVX2__)
/* On these CPUs multiply-adds are function calls, so loops are neither unrolled nor specialised. */
#define UNROLL
enum { QUICK = 0 };
#else
#define UNROLL _Pragma("GCC unroll 16")
enum { QUICK = 1 };
#endif

#define LOAD(type, from) ({ type loaded_; memcpy(&loaded_, (from), sizeof loaded_); loaded_; })
#define FLAT static inline __attribute__((always_inline))

/* Returns a * b + c, rounded once. */
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

/* Returns each lane rounded to the nearest integer. */
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

/* Returns the larger number in each lane. */
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

/* Nonzero if a comparison is true in some lane. */
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

/* Returns the larger number in each lane. */
FLAT vl larger(vl a, vl b)
{
    vl more = a > b;

    return (a & more) | (b & ~more);
}

/* True if a comparison is true in all lanes.  Written as intrinsics, since GCC would go through
 * memory. */
FLAT int all(vl mask)
{
#if defined(__AVX512F__)
    return _mm512_movepi64_mask((__m512i)mask) == 0xff;
#elif defined(__AVX2__)
    return _mm256_movemask_pd((__m256d)mask) == 0xf;
#else
    int64_t r = -1;

    for (int i = 0; i < LANES; i++)
        r &= mask[i];
    return r != 0;
#endif
}

/* Returns a vector with x in all lanes. */
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

/* Returns the magnitude of each lane. */
FLAT vd size_of(vd x)
{
    return (vd)((vl)x & INT64_MAX);
}

/* Loads an FP64 or FP32 number as a double.  size: bytes of the number. */
FLAT double double_at(const void *at, int size)
{
    float narrow;
    double x;

    if (size == 8) {
        memcpy(&x, at, 8);
        return x;
    }
    memcpy(&narrow, at, 4);
    return (double)narrow;
}

/* Returns the larger of |a| and b, where b >= 0.  NaN counts as larger than all numbers. */
FLAT double larger_of(double a, double b)
{
    int64_t x, y;

    memcpy(&x, &a, 8);
    memcpy(&y, &b, 8);
    x &= INT64_MAX;
    x = x > y ? x : y;
    memcpy(&a, &x, 8);
    return a;
}

/* Adds a * b to a sum that starts far from zero.  The sum starts at 3 * 2^(E-1), and the magnitudes
 * of its products sum to at most 2^(E-1).  So all values of the sum are multiples of 2^(E-52), and
 * their differences are exact.  Another FMA computes the part of the product that the sum lost, and
 * adds it to `rest`. */
FLAT void add_far(vd *far, vd *rest, vd a, vd b)
{
    vd sum = fma_of(a, b, *far);

    *rest += fma_of(a, b, *far - sum);
    *far = sum;
}

/* Returns the start value of a sum for add_far.  `most`, a normal number, bounds the sum of the
 * products' magnitudes. */
FLAT vd far_of(vd most)
{
    vl exponent = ((vl)most & (int64_t)0x7ff << 52) + ((int64_t)2 << 52);

    return (vd)(exponent | (int64_t)1 << 51);
}

/* Adds two numbers exactly: a + b equals the returned sum plus *rest. */
FLAT vd two_sum(vd a, vd b, vd *rest)
{
    vd sum = a + b, back = sum - a;

    *rest = (a - (sum - back)) + (b - back);
    return sum;
}

/* Replaces high + low by alpha (high + low) + beta * old; beta may be NULL for 0.  *uncertain is
 * the error bound, before and after. */
FLAT void scale_pair(vd *high, vd *low, vd *uncertain, double alpha, const double *beta, vd old)
{
    vd product = alpha * *high, other, rest;

    *low = fma_of(all_of(alpha), *low, fma_of(all_of(alpha), *high, -product));
    *uncertain = *uncertain * fabs(alpha) + size_of(*low) * 0x1p-52 + 0x1p-1071;
    if (beta) {
        other = *beta * old;
        *low += fma_of(all_of(*beta), old, -other);
        *uncertain += size_of(*low) * 0x1p-51 + 0x1p-1071;
        product = two_sum(product, other, &rest);
        *low += rest;
        *uncertain += size_of(rest) * 0x1p-51;
    }
    *high = product;
}

/* Stores the result of products that are all zero: alpha times +0, plus beta times C's old value
 * (beta may be NULL).  Returns false if the general code must compute the result, for example
 * because beta c underflows. */
FLAT bool store_zero(void *to, int size, double alpha, const double *beta)
{
    double old = beta ? double_at(to, size) : 0, r = alpha * 0.0;
    float narrow;

    if (beta) {
        double term = *beta * old;

        /* only one rounding is allowed, so FP32 is left to the caller */
        if (size == 4 || (term == 0 && *beta != 0 && old != 0) || term - term != 0)
            return false;
        r += term;
    }
    narrow = (float)r;
    memcpy(to, size == 8 ? (void *)&r : (void *)&narrow, (size_t)size);
    return true;
}

/* Returns sum + rest rounded to FP32 once: the double is rounded to odd first. */
FLAT float round_to_f32(double sum, double rest)
{
    int64_t bits;

    memcpy(&bits, &sum, 8);
    if (rest != 0 && !(bits & 1))
        bits += (rest > 0) == (sum > 0) ? 1 : -1;
    memcpy(&sum, &bits, 8);
    return (float)sum;
}

/* Stores `wide` if size is 8, else `narrow`. */
FLAT void put_number(int size, char *to, double wide, float narrow)
{
    if (size == 8)
        memcpy(to, &wide, 8);
    else
        memcpy(to, &narrow, 4);
}

/* Computes the ends (*up, *down) and the middle of the interval high + low +- *uncertain, rounded
 * to doubles.  *uncertain is enlarged by the errors of these roundings and, if `single`, of a later
 * rounding to FP32. */
FLAT void ends_of(vd high, vd low, bool single, vd *uncertain, vd *middle, vd *up, vd *down)
{
    vd rest;

    *middle = two_sum(high, low, &rest);
    *uncertain += size_of(rest) * 0x1p-51;
    if (single)
        *uncertain += size_of(*middle) * 0x1p-51;
    *up = *middle + (rest + *uncertain);
    *down = *middle + (rest - *uncertain);
}

/* If both ends of an interval round to the same nonzero number of `size` bytes, stores that number.
 * If they differ, stores the middle if `tolerated` is set.  Returns false if nothing was stored. */
FLAT bool store_sure(char *to, int size, double up, double down, double middle, bool tolerated)
{
    const float narrow[2] = { (float)up, (float)down };

    if (up - up != 0)
        return false;
    if (size == 8 ? up == down && up != 0 : narrow[0] == narrow[1] && narrow[0] != 0)
        put_number(size, to, up, narrow[0]);
    else if (tolerated)
        put_number(size, to, middle, (float)middle);
    else
        return false;
    return true;
}

#endif
