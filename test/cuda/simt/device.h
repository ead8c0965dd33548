/* SPDX-License-Identifier: BSD-3-Clause
 * The counterpart of backends/cuda/kernel/device.h for the CPU: the same names, each access and
 * each meeting of threads told to the engine (api.h), which checks it and may let others run. */
#ifndef LIMBER_DEVICE_H
#define LIMBER_DEVICE_H

#define __device__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __restrict__

#define DEVICE static inline
#define TABLE static const
#define UNROLL
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

/* What the library's own files take for granted. */
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
/* Made for one architecture alone: "sm_90a". */
#if defined __CUDA_ARCH_FEAT_SM90_ALL || defined __CUDA_ARCH_FEAT_SM100_ALL
SIMT_EXPORT extern const int simt_alone = 1;
#else
SIMT_EXPORT extern const int simt_alone = 0;
#endif
}

/* Beside the kernel: the bytes of its arguments and the most threads that a block may have. */
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

/* ---- who ---------------------------------------------------------------------------------- */

DEVICE int thread()
{
    return simt->now->thread;
}
DEVICE int lane()
{
    return simt->now->thread & 31;
}
template <class T> DEVICE T here(T v)
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

/* ---- memory ------------------------------------------------------------------------------- */

struct alignas(16) bytes16 {
    uint32_t w[4];
};
struct alignas(8) bytes8 {
    uint32_t w[2];
};

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
template <int id, int threads> DEVICE void sync_some()
{
    static_assert(id >= 1 && id <= 15 && threads > 0 && threads % 32 == 0, "");
    simt->sync(id, threads);
}
DEVICE void sync_warp()
{
    simt->sync_warp();
}
DEVICE uint32_t shuffle_xor(uint32_t v, int mask)
{
    return simt->shuffle_xor(v, mask);
}

/* ---- numbers --------------------------------------------------------------------------------- */

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
/* a + b rounded to binary32 up, down or toward zero; both are sums or products of binary32. */
enum { SIMT_CUT, SIMT_UP, SIMT_DOWN };
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
    off = off != 0 ? off : -rest; /* f - (a + b), its sign */
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
template <int SA, int SB> DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    uint32_t d = (uint32_t)c;

    for (int i = 0; i < 32; i += 8) {
        int x = SA ? (int8_t)(a >> i) : (uint8_t)(a >> i);
        int y = SB ? (int8_t)(b >> i) : (uint8_t)(b >> i);

        d += (uint32_t)(x * y);
    }
    return (int32_t)d;
}

/* The 16-bit float nearest to x, which is finite and fits. */
DEVICE uint32_t simt_narrow(float x, int frac_bits, int bias)
{
    uint32_t sign = float_bits(x) >> 31;
    double v = __builtin_fabs((double)x), code;
    int e = v == 0 ? 1 - bias : __builtin_ilogb(v);

    e = e < 1 - bias ? 1 - bias : e;
    code = __builtin_rint(__builtin_ldexp(v, frac_bits - e));
    return sign << 15 | (uint32_t)(code + (double)(uint32_t)(e - 1 + bias) * (1 << frac_bits));
}
#if __CUDA_ARCH__ >= 800
DEVICE uint32_t pack_f16(float low, float high)
{
    return simt_narrow(low, 10, 15) | simt_narrow(high, 10, 15) << 16;
}
DEVICE uint32_t pack_bf16(float low, float high)
{
    return simt_narrow(low, 7, 127) | simt_narrow(high, 7, 127) << 16;
}
DEVICE float simt_f16(uint32_t v)
{
    int e = (int)(v >> 10 & 31), frac = (int)(v & 1023);
    double x = __builtin_ldexp(e ? 1024 + frac : frac, (e ? e : 1) - 25);

    return (float)(v >> 15 & 1 ? -x : x);
}
DEVICE void unpack_f16(uint32_t v, float &low, float &high)
{
    low = simt_f16(v & 0xffff);
    high = simt_f16(v >> 16);
}
#endif

/* ---- asynchronous copies --------------------------------------------------------------------- */

DEVICE uint32_t shared_address(uint32_t at)
{
    return at;
}

#if __CUDA_ARCH__ >= 800
DEVICE void copy16(uint32_t at, const void *p, int bytes)
{
    simt->copy(at, p, bytes, 16);
}
DEVICE void copy4(uint32_t at, const void *p, int bytes)
{
    simt->copy(at, p, bytes, 4);
}
DEVICE void copy_group()
{
    simt->copy_group();
}
template <int n> DEVICE void copy_wait()
{
    simt->copy_wait(n);
}
#else
DEVICE void copy16(uint32_t at, const void *p, int bytes)
{
    bytes16 v = {};

    if (bytes)
        memcpy(&v, simt->global_read(p, (uint32_t)bytes, 16, 0), (unsigned)bytes);
    store_shared(at, v);
}
DEVICE void copy_group()
{
}
template <int n> DEVICE void copy_wait()
{
}
#endif

/* ---- warps multiply -------------------------------------------------------------------------- */

#if __CUDA_ARCH__ >= 750
DEVICE void load_fragments(uint32_t r[4], uint32_t at)
{
    simt->load_fragments(r, at);
}
#endif

#if __CUDA_ARCH__ >= 800
template <int SA, int SB> DEVICE void mma_i8(int32_t d[4], const uint32_t a[4], const uint32_t b[2])
{
    simt->mma(SIMT_I8 + (SA ? 1 : 0) + (SB ? 2 : 0), d, a, b);
}
DEVICE void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    simt->mma(SIMT_F16, d, a, b);
}
DEVICE void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    simt->mma(SIMT_BF16, d, a, b);
}
DEVICE void mma_tf32(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    simt->mma(SIMT_TF32, d, a, b);
}
#if __CUDA_ARCH__ >= 890
DEVICE void mma_e4m3(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    simt->mma(SIMT_E4M3, d, a, b);
}
DEVICE void mma_e5m2(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    simt->mma(SIMT_E5M2, d, a, b);
}
#endif
DEVICE void mma_f64(double d[2], double a, double b)
{
    simt->mma_f64(d, a, b);
}
#endif

#if __CUDA_ARCH__ >= 700
DEVICE void wmma_load_a(uint32_t r[8], uint32_t at, int ld)
{
    simt->wmma_load(r, at, ld);
}
DEVICE void wmma_load_b(uint32_t r[8], uint32_t at, int ld)
{
    simt->wmma_load(r, at, ld);
}
DEVICE void wmma_f16(float d[8], const uint32_t a[8], const uint32_t b[8])
{
    simt->wmma(d, a, b);
}
DEVICE void wmma_store(uint32_t at, const float d[8], int ld)
{
    simt->wmma_store(at, d, ld);
}
#endif

/* ---- Hopper ---------------------------------------------------------------------------------- */

struct alignas(64) tensor_map {
    uint64_t opaque[16];
};

#if __CUDA_ARCH__ >= 900
DEVICE void barrier_init(uint32_t at, int count)
{
    simt->barrier_init(at, count);
}
DEVICE void barrier_init_done()
{
    simt->barrier_init_done();
}
DEVICE void barrier_arrive(uint32_t at)
{
    simt->barrier_arrive(at, 0);
}
DEVICE void barrier_expect(uint32_t at, uint32_t bytes)
{
    simt->barrier_arrive(at, bytes);
}
DEVICE void barrier_wait(uint32_t at, uint32_t parity)
{
    simt->barrier_wait(at, parity);
}
DEVICE void sync_cluster()
{
    simt->sync_cluster();
}
DEVICE void barrier_arrive_in(uint32_t at, int rank)
{
    simt->barrier_arrive_in(at, rank);
}
DEVICE void tensor_load(uint32_t at, const tensor_map *map, int x, int y, int z, uint32_t barrier)
{
    simt->tensor_load(at, map, x, y, z, barrier, 0);
}
DEVICE void tensor_load_all(uint32_t at, const tensor_map *map, int x, int y, int z,
                            uint32_t barrier, uint32_t blocks)
{
    simt->tensor_load(at, map, x, y, z, barrier, blocks);
}
DEVICE void tensor_prefetch(const tensor_map *map)
{
    simt->tensor_prefetch(map);
}
DEVICE void fence_async()
{
    simt->fence_async();
}
#endif

#if defined __CUDA_ARCH_FEAT_SM90_ALL
template <int n> DEVICE void registers_more()
{
    simt->registers(n);
}
template <int n> DEVICE void registers_less()
{
    simt->registers(n);
}

DEVICE uint64_t tile_descriptor(uint32_t at, int byte)
{
    return (uint64_t)1 << 62 | (uint64_t)(uint32_t)byte << 32 | at;
}
DEVICE void group_fence()
{
    simt->group_fence();
}
DEVICE void group_commit()
{
    simt->group_commit();
}
template <int n> DEVICE void group_wait()
{
    simt->group_wait(n);
}
template <class T, int n> DEVICE void group_keep(T (&)[n])
{
}

template <int n, int SA, int SB>
DEVICE void group_i8(int32_t (&d)[n / 2], uint64_t da, uint64_t db, int keep)
{
    static_assert(n == 64 || n == 128 || n == 192 || n == 256, "");
    simt->group(SIMT_I8 + (SA ? 1 : 0) + (SB ? 2 : 0), n, d, da, db, keep);
}
#define SIMT_GROUP(name, kind) \
    template <int n> DEVICE void name(float(&d)[n / 2], uint64_t da, uint64_t db, int keep) \
    { \
        static_assert(n == 64 || n == 128 || n == 192 || n == 256, ""); \
        simt->group(kind, n, d, da, db, keep); \
    }
SIMT_GROUP(group_f16, SIMT_F16)
SIMT_GROUP(group_bf16, SIMT_BF16)
SIMT_GROUP(group_tf32, SIMT_TF32)
SIMT_GROUP(group_e4m3, SIMT_E4M3)
SIMT_GROUP(group_e5m2, SIMT_E5M2)
#endif

#endif
