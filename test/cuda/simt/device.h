/* SPDX-License-Identifier: BSD-3-Clause
 * For the CPU, replaces the part of backends/cuda/kernel/device.h before its assembly.  It has the
 * same functions, but tells each memory access and each meeting of threads to the engine (api.h),
 * which checks it and may let other threads run.  The real file's assembly follows, turned into
 * calls of simt_asm (nvrtc.c). */
#ifndef LIMBER_DEVICE_H
#define LIMBER_DEVICE_H

#define __device__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __restrict__

#define DEVICE static inline
#define TABLE static const
#define OPERANDS static const
#define LOOKUP static const
#define UNROLL
#define UNROLL_SOME
#define ROLL

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;

/* Definitions that replace standard headers, for the library's own headers. */
#define LIMBER_API
#define NULL 0
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 9223372036854775807L
#define UINT64_MAX 18446744073709551615UL
#define memcpy __builtin_memcpy

#include "api.h"

#define SIMT_EXPORT __attribute__((visibility("default")))

static const simt_api *simt;
extern "C" SIMT_EXPORT void simt_connect(const simt_api *api)
{
    simt = api;
}
extern "C" {
SIMT_EXPORT extern const int simt_version = SIMT_VERSION;
SIMT_EXPORT extern const int simt_arch = __CUDA_ARCH__;
/* simt_alone: 1 if the code is compiled for exactly one architecture, such as sm_90a. */
#if defined __CUDA_ARCH_FEAT_SM90_ALL || defined __CUDA_ARCH_FEAT_SM100_ALL || \
    defined __CUDA_ARCH_FEAT_SM103_ALL
SIMT_EXPORT extern const int simt_alone = 1;
#else
SIMT_EXPORT extern const int simt_alone = 0;
#endif
}

/* Defines, beside the kernel, the size of its arguments in bytes and the maximum number of threads
 * of a block. */
#define SIMT_KERNEL(name, type, threads) \
    static void name##_body(const type &); \
    extern "C" { \
    SIMT_EXPORT extern const unsigned name##_args = sizeof(type); \
    SIMT_EXPORT extern const unsigned name##_threads = threads; \
    SIMT_EXPORT void name(const void *simt_args) \
    { \
        name##_body(*(const type *)simt_args); \
    } \
    } \
    static void name##_body(const type &args)
#define KERNEL(name, type, threads, blocks) SIMT_KERNEL(name, type, threads)

/* ---- numbers of a thread, its warp and its block ------------------------------------------ */

DEVICE int thread()
{
    return simt->now->thread;
}
DEVICE int lane()
{
    return simt->now->thread & 31;
}
/* In a real kernel this hides v from the compiler. */
template <class T> DEVICE T compute_here(T v)
{
    return v;
}
DEVICE int warp()
{
    return simt->warp();
}
DEVICE int block()
{
    return simt->now->block;
}
DEVICE int blocks()
{
    return simt->now->blocks;
}

/* ---- loads, stores and atomic operations -------------------------------------------------- */

struct alignas(16) bytes16 {
    uint32_t w[4];
};
struct alignas(8) bytes8 {
    uint32_t w[2];
};

/* Reads a value from host memory. */
template <class T> DEVICE T simt_get(const void *p)
{
    T v;

    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
template <class T> DEVICE T load(const void *p)
{
    return simt_get<T>(simt->global_read(p, sizeof(T), alignof(T), 0));
}
template <class T> DEVICE T load_constant(const void *p)
{
    return simt_get<T>(simt->global_read(p, sizeof(T), alignof(T), 1));
}
DEVICE void of_memory(const void *)
{
}
template <class T> DEVICE void store(void *p, T v)
{
    __builtin_memcpy(simt->global_write(p, sizeof v, alignof(T)), &v, sizeof v);
}
template <class T> DEVICE T load_shared(uint32_t at)
{
    return simt_get<T>(simt->shared_read(at, sizeof(T), alignof(T)));
}
template <class T> DEVICE void store_shared(uint32_t at, T v)
{
    __builtin_memcpy(simt->shared_write(at, sizeof v, alignof(T)), &v, sizeof v);
}

/* Checks an atomic access and returns the value's host address. */
template <class T> DEVICE T *simt_atomic(T *p)
{
    return (T *)simt->global_atomic(p, sizeof(T), alignof(T));
}
DEVICE void atomic_max(int32_t *p, int32_t v)
{
    int32_t *q = simt_atomic(p);

    *q = *q < v ? v : *q;
}
DEVICE void atomic_max(uint64_t *p, uint64_t v)
{
    uint64_t *q = simt_atomic(p);

    *q = *q < v ? v : *q;
}
DEVICE void atomic_min(int32_t *p, int32_t v)
{
    int32_t *q = simt_atomic(p);

    *q = *q > v ? v : *q;
}
DEVICE void atomic_or(uint32_t *p, uint32_t v)
{
    *simt_atomic(p) |= v;
}
DEVICE void atomic_add(uint64_t *p, uint64_t v)
{
    *simt_atomic(p) += v;
}
DEVICE int32_t atomic_next(int32_t *p)
{
    uint32_t *q = (uint32_t *)simt_atomic(p);

    return (int32_t)(*q)++;
}

/* ---- threads with each other ----------------------------------------------------------------- */

DEVICE void sync_block()
{
    simt->sync(0, 0);
}
DEVICE void sync_warp()
{
    simt->sync_warp();
}
DEVICE uint32_t shuffle_xor(uint32_t v, int mask)
{
    return simt->shuffle_xor(v, mask);
}

/* ---- floating-point operations with a given rounding ----------------------------------------- */

DEVICE float fma32(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
DEVICE double fma64(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}
DEVICE float add32(float a, float b)
{
    return a + b;
}
DEVICE double add64(double a, double b)
{
    return a + b;
}
DEVICE float mul32(float a, float b)
{
    return a * b;
}
DEVICE double mul64(double a, double b)
{
    return a * b;
}
/* Directions of rounding: toward zero, up and down. */
enum { SIMT_CUT, SIMT_UP, SIMT_DOWN };
/* Returns a + b rounded once to binary32, up, down or towards zero.  The double sum and its error
 * decide the direction. */
DEVICE float simt_rounded(double a, double b, int rounding)
{
    double s = a + b, t = s - a, rest = (a - (s - t)) + (b - t), off;
    float f = (float)s;
    uint32_t bits;

    if (s - s != 0)
        return f;
    if (s == 0 && rest == 0) {
        bool minus = __builtin_signbit(a) && __builtin_signbit(b);

        return minus || (rounding == SIMT_DOWN && (__builtin_signbit(a) || __builtin_signbit(b))) ?
                   -0.0f :
                   0.0f;
    }
    rounding = rounding == SIMT_CUT ? (s > 0 ? SIMT_DOWN : SIMT_UP) : rounding;
    off = f - f != 0 ? (f > 0 ? 1 : -1) : (double)f - s;
    off = off != 0 ? off : -rest; /* now off has the sign of f - (a + b) */
    if (off == 0 || (rounding == SIMT_UP) == (off > 0))
        return f;
    if (f == 0)
        return rounding == SIMT_UP ? 0x1p-149f : -0x1p-149f;
    __builtin_memcpy(&bits, &f, 4);
    bits += (rounding == SIMT_UP) == (f > 0) ? 1 : -1;
    __builtin_memcpy(&f, &bits, 4);
    return f;
}
DEVICE float fma32_rz(float a, float b, float c)
{
    return simt_rounded((double)a * b, c, SIMT_CUT);
}
DEVICE float fma32_ru(float a, float b, float c)
{
    return simt_rounded((double)a * b, c, SIMT_UP);
}
DEVICE float fma32_rd(float a, float b, float c)
{
    return simt_rounded((double)a * b, c, SIMT_DOWN);
}
DEVICE float add32_rz(float a, float b)
{
    return simt_rounded(a, b, SIMT_CUT);
}
DEVICE float add32_ru(float a, float b)
{
    return simt_rounded(a, b, SIMT_UP);
}
DEVICE float add32_rd(float a, float b)
{
    return simt_rounded(a, b, SIMT_DOWN);
}
/* Returns a + b rounded toward zero.  The error of the rounded sum tells whether it must move by
 * one unit in the last place. */
DEVICE double add64_rz(double a, double b)
{
    double s = a + b, t = s - a, rest = (a - (s - t)) + (b - t);
    uint64_t bits;

    if (s - s != 0 || rest == 0 || (rest > 0) == (s > 0))
        return s;
    __builtin_memcpy(&bits, &s, 8);
    bits--;
    __builtin_memcpy(&s, &bits, 8);
    return s;
}
DEVICE int32_t cut32(float x)
{
    return (int32_t)x;
}
DEVICE double cut64(double x)
{
    return __builtin_trunc(x);
}
DEVICE int leading_zeros(uint64_t v)
{
    return v ? __builtin_clzl(v) : 64;
}
DEVICE int trailing_zeros(uint64_t v)
{
    return __builtin_ctzl(v);
}
DEVICE int trailing_zeros(uint32_t v)
{
    return __builtin_ctz(v);
}
DEVICE uint64_t multiply_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}
DEVICE uint32_t float_bits(float x)
{
    return simt_get<uint32_t>(&x);
}
DEVICE float bits_float(uint32_t x)
{
    return simt_get<float>(&x);
}
DEVICE uint64_t double_bits(double x)
{
    return simt_get<uint64_t>(&x);
}
DEVICE double bits_double(uint64_t x)
{
    return simt_get<double>(&x);
}
/* Selects four bytes of (y, x) by the hexadecimal digits, as PRMT does.  A digit plus 8 repeats the
 * byte's sign bit. */
DEVICE uint32_t permute(uint32_t x, uint32_t y, uint32_t digits)
{
    uint64_t both = (uint64_t)y << 32 | x;
    uint32_t out = 0;

    for (int i = 0; i < 4; i++) {
        uint32_t pick = digits >> 4 * i & 15, v = (uint32_t)(both >> 8 * (pick & 7)) & 255;

        out |= (pick & 8 ? (v & 128 ? 255 : 0) : v) << 8 * i;
    }
    return out;
}

/* ---- functions that inline assembly uses ----------------------------------------------------- */

/* "=r"(x) in an asm statement becomes "=r"_c(x): an operand with its constraint. */
struct simt_constraint {
    const char *text;
    template <class T> simt_operand operator()(T &&x) const
    {
        return { text, (void *)&x, sizeof x };
    }
};
constexpr simt_constraint operator""_c(const char *text, size_t)
{
    return { text };
}

/* Lets the engine interpret the text of an asm statement.  o: its operands with their
 * constraints. */
template <class... O> DEVICE void simt_asm(const char *text, O... o)
{
    simt_operand all[] = { o..., { "", NULL, 0 } };

    if (*text)
        simt->ptx(text, all, (int)sizeof...(o));
}

static char limber_shared[1];
DEVICE unsigned long __cvta_generic_to_shared(const void *)
{
    return SIMT_SHARED;
}

#endif
