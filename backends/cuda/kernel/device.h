/* SPDX-License-Identifier: BSD-3-Clause
 * Device primitives for kernels, as PTX.  Kernels use nothing of CUDA but what this file declares,
 * so their source also runs on the CPU in the tests' simulator (test/cuda/simt), which replaces
 * this file by its own.
 *
 * Shared memory is one dynamic array, aligned to 1024 bytes, and is addressed by byte offsets from
 * its start.
 *
 * Source: PTX ISA 9.0: 9.7.9 (copies), 9.7.13 (mbarrier, clusters), 9.7.14 (mma), 9.7.15 (wgmma),
 * 9.7.16 (tcgen05), 5.5 (swizzles). */
#ifndef LIMBER_DEVICE_H
#define LIMBER_DEVICE_H

#define DEVICE static __device__ __forceinline__
#define TABLE static __constant__ const
#define OPERANDS static __constant__   /* constants that instructions can take as operands */
#define LOOKUP static __device__ const  /* a table from which lanes read different entries */
#define UNROLL _Pragma("unroll")
#define UNROLL_SOME _Pragma("unroll 4")
#define ROLL _Pragma("unroll 1")
/* KERNEL(name, struct, threads, blocks) { ... } defines a kernel, whose body uses `args` of that
 * struct type.  threads: number of threads of a block.  blocks: number of blocks that must fit on a
 * multiprocessor. */
#define KERNEL(name, type, threads, blocks)                                                        \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                                 \
        name(const __grid_constant__ type args)

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

/* Macros that must be defined for headers that kernels share with the host. */
#define PRIM DEVICE
#define PRIM_BODY DEVICE
#define LIMBER_API
#define NULL 0
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 9223372036854775807L
#define UINT64_MAX 18446744073709551615UL
#define __extension__
#define __builtin_memcpy memcpy
#define __builtin_clzll __clzll
#define __builtin_ctzll(v) (__ffsll((long long)(v)) - 1)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)
#define __builtin_signbit(v) (__double_as_longlong(v) < 0)
#define __builtin_fma __fma_rn
#define __builtin_sqrt __dsqrt_rn
#define __builtin_fabs fabs
#define __builtin_floor floor
#define __builtin_ceil ceil
#define __builtin_rint rint
#define __builtin_trunc trunc

/* ---- indices of a thread, its warp and its block --------------------------------------------- */

DEVICE int thread() { return (int)threadIdx.x; }
DEVICE int lane() { return (int)(threadIdx.x & 31); }
/* Returns the index of the warp in the block.  The shuffle tells the compiler that all lanes have
 * the same value. */
DEVICE int warp() { return __shfl_sync(0xffffffff, (int)(threadIdx.x >> 5), 0); }
DEVICE int block() { return (int)blockIdx.x; }
DEVICE int blocks() { return (int)gridDim.x; }

/* Returns v, in a way that the compiler cannot see through.  So values that depend on the result
 * are computed where they are used, and occupy no register before. */
DEVICE int compute_here(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}
DEVICE float compute_here(float v)
{
    asm volatile("" : "+f"(v));
    return v;
}
DEVICE double compute_here(double v)
{
    asm volatile("" : "+d"(v));
    return v;
}

/* ---- loads, stores and atomic operations -------------------------------------------------- */

extern __shared__ __align__(1024) char limber_shared[];

struct alignas(16) bytes16 { uint32_t w[4]; };
struct alignas(8) bytes8 { uint32_t w[2]; };

/* Tells the compiler that p points to global memory. */
DEVICE void of_memory(const void *p) { __builtin_assume(__isGlobal(p)); }
/* From capability 10.0 on the compiler does not infer that p is global, and would add code for
 * shared memory.  On older devices this hint would make addresses longer. */
#if __CUDA_ARCH__ >= 1000
#define OF_MEMORY(p) __builtin_assume(__isGlobal(p))
#else
#define OF_MEMORY(p) (void)0
#endif

/* Loads from global memory.  p is aligned to the size of T. */
template <class T> DEVICE T load(const void *p)
{
    OF_MEMORY(p);
    return *(const T *)p;
}
/* Loads memory that nobody writes while the kernel runs.  If the kernel may begin before the
 * previous launch ends, this excludes memory that the previous launch writes. */
template <class T> DEVICE T load_constant(const void *p) { return __ldg((const T *)p); }
template <> __device__ __forceinline__ bytes16 load_constant<bytes16>(const void *p)
{
    uint4 v = __ldg((const uint4 *)p);
    return { { v.x, v.y, v.z, v.w } };
}
template <> __device__ __forceinline__ bytes8 load_constant<bytes8>(const void *p)
{
    uint2 v = __ldg((const uint2 *)p);
    return { { v.x, v.y } };
}
template <class T> DEVICE void store(void *p, T v)
{
    OF_MEMORY(p);
    *(T *)p = v;
}
template <class T> DEVICE T load_shared(uint32_t at) { return *(const T *)(limber_shared + at); }
template <class T> DEVICE void store_shared(uint32_t at, T v) { *(T *)(limber_shared + at) = v; }

DEVICE void atomic_max(int32_t *p, int32_t v) { OF_MEMORY(p); atomicMax(p, v); }
DEVICE void atomic_max(uint64_t *p, uint64_t v)
{
    OF_MEMORY(p);
    atomicMax((unsigned long long *)p, v);
}
DEVICE void atomic_min(int32_t *p, int32_t v) { OF_MEMORY(p); atomicMin(p, v); }
DEVICE void atomic_or(uint32_t *p, uint32_t v) { OF_MEMORY(p); atomicOr(p, v); }
DEVICE void atomic_add(uint64_t *p, uint64_t v)
{
    OF_MEMORY(p);
    atomicAdd((unsigned long long *)p, v);
}
/* Adds 1 atomically and returns the old value. */
DEVICE int32_t atomic_next(int32_t *p) { OF_MEMORY(p); return atomicAdd(p, 1); }

/* ---- synchronisation and shuffles ------------------------------------------------------------ */

DEVICE void sync_block() { __syncthreads(); }
DEVICE void sync_warp() { __syncwarp(); }
/* Returns v of the lane whose index differs from this lane's in the bits of `mask`.  All lanes of
 * the warp call this. */
DEVICE uint32_t shuffle_xor(uint32_t v, int mask) { return __shfl_xor_sync(0xffffffff, v, mask); }

/* ---- floating-point operations with a given rounding ----------------------------------------- */

DEVICE float fma32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double fma64(double a, double b, double c) { return __fma_rn(a, b, c); }
DEVICE float add32(float a, float b) { return __fadd_rn(a, b); }
DEVICE double add64(double a, double b) { return __dadd_rn(a, b); }
DEVICE float mul32(float a, float b) { return __fmul_rn(a, b); }
DEVICE double mul64(double a, double b) { return __dmul_rn(a, b); }
/* Operations rounded toward zero (rz), up (ru) or down (rd).  cut32 and cut64 truncate to an
 * integer. */
DEVICE float fma32_rz(float a, float b, float c) { return __fmaf_rz(a, b, c); }
DEVICE float fma32_ru(float a, float b, float c) { return __fmaf_ru(a, b, c); }
DEVICE float fma32_rd(float a, float b, float c) { return __fmaf_rd(a, b, c); }
DEVICE float add32_rz(float a, float b) { return __fadd_rz(a, b); }
DEVICE float add32_ru(float a, float b) { return __fadd_ru(a, b); }
DEVICE float add32_rd(float a, float b) { return __fadd_rd(a, b); }
DEVICE double add64_rz(double a, double b) { return __dadd_rz(a, b); }
DEVICE int32_t cut32(float x) { return __float2int_rz(x); }     /* |x| < 2^31 */
DEVICE double cut64(double x) { return trunc(x); }
DEVICE int leading_zeros(uint64_t v) { return __clzll((int64_t)v); }    /* 64 for v = 0 */
DEVICE int trailing_zeros(uint64_t v) { return __ffsll((int64_t)v) - 1; }   /* v is not 0 */
DEVICE uint64_t multiply_high(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
DEVICE uint32_t float_bits(float x) { return __float_as_uint(x); }
DEVICE float bits_float(uint32_t x) { return __uint_as_float(x); }
DEVICE uint64_t double_bits(double x) { return (uint64_t)__double_as_longlong(x); }
DEVICE double bits_double(uint64_t x) { return __longlong_as_double((int64_t)x); }
/* Returns four of the eight bytes of y (upper) and x (lower): byte i is the one that hexadecimal
 * digit i of `digits` selects. */
DEVICE uint32_t permute(uint32_t x, uint32_t y, uint32_t digits)
{
    return __byte_perm(x, y, digits);
}

/* ---- assembly, which the tests interpret from the next line on ------------------------------- */
#define LIMBER_ASSEMBLY 1

/* ---- order of launches; words of two halves -------------------------------------------------- */

/* Synchronises `threads` threads (a multiple of 32) at the named barrier `id`, 1 to 15. */
template <int id, int threads> DEVICE void sync_some()
{
    asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

/* Adds 1 atomically and returns the old value, with acquire and release semantics: threads that add
 * later see what this thread, and threads that it synchronised with, wrote before. */
DEVICE int32_t atomic_pass(int32_t *counter)
{
    uint32_t before;

    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before) : "l"(counter), "r"(1) : "memory");
    return (int32_t)before;
}

/* Waits until the previous launch has ended (programmatic dependent launch).  All threads of a
 * kernel call this before they access global memory. */
DEVICE void await_launch()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* Allows the next launch to begin, once all blocks of this launch have called this or have
 * ended. */
DEVICE void let_next_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Returns c plus the four products of 8-bit integers, modulo 2^32.  SA, SB: 1 if the bytes of a, or
 * of b, are signed. */
template <int SA, int SB> DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    int32_t d;

    if (SA && SB)
        asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else if (SA)
        asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else if (SB)
        asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else
        asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* Rounds two numbers to nearest even and packs them in a word. */
#if __CUDA_ARCH__ >= 800
DEVICE uint32_t pack_f16(float low, float high)
{
    uint32_t v;

    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
}
DEVICE uint32_t pack_bf16(float low, float high)
{
    uint32_t v;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
}
/* Converts the two FP16 numbers in a word to FP32, which is exact. */
DEVICE void unpack_f16(uint32_t v, float &low, float &high)
{
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
        : "=f"(low), "=f"(high) : "r"(v));
}
#endif

/* ---- asynchronous copies (from capability 8.0 on) -------------------------------------------- */

/* Returns the address, as instructions take it, of an offset in shared memory. */
DEVICE uint32_t shared_address(uint32_t at)
{
    return (uint32_t)__cvta_generic_to_shared(limber_shared) + at;
}

#if __CUDA_ARCH__ >= 800
/* Copies `bytes` (0 to 16) bytes from p to shared memory, and zeroes the remaining bytes of 16.
 * Both addresses are aligned to 16. */
DEVICE void copy16(uint32_t at, const void *p, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(at)),
                 "l"(p), "r"(bytes) : "memory");
}
/* Copies `bytes` (0 to 4) bytes from p to shared memory, and zeroes the remaining bytes of 4.  Both
 * addresses are aligned to 4. */
DEVICE void copy4(uint32_t at, const void *p, int bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(at)),
                 "l"(p), "r"(bytes) : "memory");
}
/* Ends a group of this thread's asynchronous copies. */
DEVICE void copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits until all but the newest n groups of this thread's copies are complete.  Only this thread
 * is then sure to see the copied bytes. */
template <int n> DEVICE void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}
#else
/* Devices below capability 8.0 copy synchronously. */
DEVICE void copy16(uint32_t at, const void *p, int bytes)
{
    bytes16 v = {};

    if (bytes == 16)
        v = load<bytes16>(p);
    else
        memcpy(&v, p, (unsigned)bytes);
    store_shared(at, v);
}
DEVICE void copy_group() {}
template <int n> DEVICE void copy_wait() {}
#endif

/* ---- products of a warp ---------------------------------------------------------------------- */

#if __CUDA_ARCH__ >= 750
/* Loads four matrices of 8 rows of 16 bytes each.  Lane l passes the address of row l & 7 of matrix
 * l >> 3.  Its r[i] becomes bytes 4 (l & 3) to 4 (l & 3) + 3 of row l >> 2 of matrix i. */
DEVICE void load_fragments(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(at)));
}
#endif

/* Operands of the products d += a b of a warp.  In lane l, with g = l >> 2 and t = l & 3: a[0] and
 * a[1] are bytes 4t to 4t + 3 of rows g and g + 8 of A; a[2] and a[3] lie 16 bytes further in these
 * rows.  b[0] is bytes 4t to 4t + 3 of column g of B, b[1] lies 16 bytes further.  d[0] and d[1]
 * are row g, columns 2t and 2t + 1; d[2] and d[3] are row g + 8. */
#if __CUDA_ARCH__ >= 800
#define MMA_I8(sa, sb)                                                                             \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." sa "." sb ".s32 "                                \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                   \
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                          \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_FLOAT(shape, in)                                                                       \
    asm("mma.sync.aligned." shape ".row.col.f32." in "." in ".f32 "                               \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                   \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                          \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

/* Computes d += a b for 16 x 8 sums and 32 bytes along k.  SA, SB: 1 if the bytes of A, or of B,
 * are signed. */
template <int SA, int SB> DEVICE void mma_i8(int32_t d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (SA && SB)
        MMA_I8("s8", "s8");
    else if (SA)
        MMA_I8("s8", "u8");
    else if (SB)
        MMA_I8("u8", "s8");
    else
        MMA_I8("u8", "u8");
}
/* Computes d += a b for 16 x 8 sums and 32 bytes along k, as the following functions do for other
 * floats. */
DEVICE void mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    MMA_FLOAT("m16n8k16", "f16");
}
DEVICE void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    MMA_FLOAT("m16n8k16", "bf16");
}
DEVICE void mma_tf32(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    MMA_FLOAT("m16n8k8", "tf32");
}
#if __CUDA_ARCH__ >= 890
DEVICE void mma_e4m3(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    MMA_FLOAT("m16n8k32", "e4m3");
}
DEVICE void mma_e5m2(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    MMA_FLOAT("m16n8k32", "e5m2");
}
#endif
/* Block-scaled products of a warp, from capability 12.0 on.
 *
 * Kind 1: elements are bytes in E4M3 (format 0), E5M2 (1), E2M3 (3), E3M2 (4) or E2M1 (5), with one
 * scale per 32 elements.  Kinds 2 and 3: 64 elements of E2M1, two per byte, the first in the lower
 * half, with one scale per 32 or per 16 elements.
 *
 * A row of A or column of B has one, two or four scales, which begin at byte `byte` of a word in
 * one lane of quad g (four lanes): lanes 2 quad_a and 2 quad_a + 1 hold those of rows g and g + 8,
 * lane quad_b those of column g. */
#if __CUDA_ARCH__ >= 1200 && (defined __CUDA_ARCH_FAMILY_SPECIFIC__ || \
                              defined __CUDA_ARCH_FEAT_SM120_ALL)
#define MMA_SCALED(kind, shape, in_a, in_b, scale) \
    asm("mma.sync.aligned.kind::" kind "." shape ".row.col.f32." in_a "." in_b ".f32." scale " " \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {%12,%13}, %11, {%12,%14};" \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales_a), \
          "r"(scales_b), "h"((uint16_t)byte), "h"((uint16_t)quad_a), "h"((uint16_t)quad_b))
#define MMA_BYTES(in_a, in_b) \
    MMA_SCALED("mxf8f6f4.block_scale.scale_vec::1X", "m16n8k32", in_a, in_b, "ue8m0")
#define MMA_BYTES_OF(in_a) \
    do { \
        if constexpr (format_b == 0) \
            MMA_BYTES(in_a, "e4m3"); \
        else if constexpr (format_b == 1) \
            MMA_BYTES(in_a, "e5m2"); \
        else if constexpr (format_b == 3) \
            MMA_BYTES(in_a, "e2m3"); \
        else if constexpr (format_b == 4) \
            MMA_BYTES(in_a, "e3m2"); \
        else \
            MMA_BYTES(in_a, "e2m1"); \
    } while (0)
template <int kind, int format_a, int format_b>
DEVICE void mma_scaled(float d[4], const uint32_t a[4], const uint32_t b[2], uint32_t scales_a,
                       uint32_t scales_b, int byte, int quad_a, int quad_b)
{
    if constexpr (kind == 2)
        MMA_SCALED("mxf4.block_scale.scale_vec::2X", "m16n8k64", "e2m1", "e2m1", "ue8m0");
    else if constexpr (kind == 3)
        MMA_SCALED("mxf4nvf4.block_scale.scale_vec::4X", "m16n8k64", "e2m1", "e2m1", "ue4m3");
    else if constexpr (format_a == 0)
        MMA_BYTES_OF("e4m3");
    else if constexpr (format_a == 1)
        MMA_BYTES_OF("e5m2");
    else if constexpr (format_a == 3)
        MMA_BYTES_OF("e2m3");
    else if constexpr (format_a == 4)
        MMA_BYTES_OF("e3m2");
    else
        MMA_BYTES_OF("e2m1");
}
#endif
/* Computes d += a b in FP64, with A 8 x 4 and B 4 x 8.  With g = l >> 2 and t = l & 3, lane l has
 * element (g, t) of A, element (t, g) of B, and the sums (g, 2t) and (g, 2t + 1). */
DEVICE void mma_f64(double d[2], double a, double b)
{
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
}
#if __CUDA_ARCH__ == 900                /* on later devices ptxas makes two mma_f64 of this */
/* Computes d += a b in FP64, with A 16 x 4 and B 4 x 8.  With g = l >> 2 and t = l & 3, lane l has
 * elements (g, t) and (g + 8, t) of A in a.  d[0] and d[1] are sums (g, 2t) and (g, 2t + 1); d[2]
 * and d[3] are those of row g + 8. */
DEVICE void mma_f64_rows(double d[4], const double a[2], double b)
{
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 "
        "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]) : "d"(a[0]), "d"(a[1]), "d"(b));
}
#endif
#endif

/* WMMA: 16 x 16 x 16 products.  Their layout in registers is not specified.  In shared memory A is
 * row-major, B column-major and D row-major.  Leading dimensions are in elements and multiples of
 * 8.  Addresses are aligned to 32. */
#if __CUDA_ARCH__ >= 700
/* Loads a 16 x 16 tile of A in FP16. */
DEVICE void wmma_load_a(uint32_t r[8], uint32_t at, int ld)
{
    asm volatile("wmma.load.a.sync.aligned.m16n16k16.row.shared.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]),
                   "=r"(r[6]), "=r"(r[7]) : "r"(shared_address(at)), "r"(ld) : "memory");
}
/* Loads a 16 x 16 tile of B in FP16. */
DEVICE void wmma_load_b(uint32_t r[8], uint32_t at, int ld)
{
    asm volatile("wmma.load.b.sync.aligned.m16n16k16.col.shared.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]),
                   "=r"(r[6]), "=r"(r[7]) : "r"(shared_address(at)), "r"(ld) : "memory");
}
/* Computes d += a b.  Registers that are zero represent a zero matrix. */
DEVICE void wmma_f16(float d[8], const uint32_t a[8], const uint32_t b[8])
{
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, "
                 "{%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19,%20,%21,%22,%23}, "
                 "{%0,%1,%2,%3,%4,%5,%6,%7};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]),
                   "r"(a[7]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]),
                   "r"(b[6]), "r"(b[7]));
}
/* Stores a 16 x 16 tile of sums in FP32. */
DEVICE void wmma_store(uint32_t at, const float d[8], int ld)
{
    asm volatile("wmma.store.d.sync.aligned.m16n16k16.row.shared.f32 [%0], "
                 "{%1,%2,%3,%4,%5,%6,%7,%8}, %9;" ::"r"(shared_address(at)), "f"(d[0]), "f"(d[1]),
                 "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]), "r"(ld)
                 : "memory");
}
#endif

/* ---- Hopper: barriers, tensor copies, warpgroup products ------------------------------------- */

/* A tensor map, encoded by the driver, as a kernel argument.  The alignment is that of CUDA 13;
 * CUDA 12 needs only 64 bytes. */
struct alignas(128) tensor_map { uint64_t opaque[16]; };

#if __CUDA_ARCH__ >= 900
/* Initialises a barrier (mbarrier): 8 bytes in shared memory, aligned to 8.  A barrier has phases
 * of parity 0, 1, 0, and so on.  A phase ends when `count` threads have arrived and all expected
 * bytes have been copied. */
DEVICE void barrier_init(uint32_t at, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(count)
                 : "memory");
}
/* Makes barriers that this thread initialised visible to tensor copies and to other blocks. */
DEVICE void barrier_init_done()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* Arrives at the barrier once. */
DEVICE void barrier_arrive(uint32_t at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(at)) : "memory");
}
/* Arrives at the barrier, and makes its current phase wait for the copying of `bytes` more
 * bytes. */
DEVICE void barrier_expect(uint32_t at, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(at)), "r"(bytes) : "memory");
}
/* Waits until the phase with this parity has ended.  Before the first phase, a phase of parity 1
 * counts as ended. */
DEVICE void barrier_wait(uint32_t at, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra finished;\nbra again;\nfinished:\n}"
                 ::"r"(shared_address(at)), "r"(parity) : "memory");
}

/* Synchronises all threads of a cluster.  The blocks of a cluster have consecutive indices, and may
 * access each other's shared memory between the first and the last call.  A block that is launched
 * without clusters is a cluster of one. */
DEVICE void sync_cluster()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/* Arrives at the barrier that has the offset `at` in block `rank` of the cluster.  The arrival
 * needs to order only asynchronous products and copies for which this thread has already waited.
 * So it needs no fence of the cluster, which would wait for all memory accesses in each step. */
DEVICE void barrier_arrive_in(uint32_t at, int rank)
{
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 ::"r"(shared_address(at)), "r"(rank) : "memory");
}

/* Starts the copy of a tensor map's box to shared memory at `at`, aligned to 1024.  The box begins
 * at element (x, y, z), x contiguous.  Rows have 128 bytes; piece c of 16 bytes of row r is stored
 * at position c ^ (r & 7).  Elements outside of the tensor become zero and count as copied.  One
 * thread calls this; copied bytes are counted at `barrier`. */
DEVICE void tensor_load(uint32_t at, const tensor_map *map, int x, int y, int z, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(shared_address(at)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y),
                 "r"(z) : "memory");
}
/* Starts the copy of a box to the same offset in each block of the cluster whose bit is set in
 * `blocks`.  Copied bytes are counted at the barrier with the offset `barrier` in each of these
 * blocks. */
DEVICE void tensor_load_all(uint32_t at, const tensor_map *map, int x, int y, int z,
                            uint32_t barrier, uint32_t blocks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;"
                 ::"r"(shared_address(at)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y),
                 "r"(z), "h"((uint16_t)blocks) : "memory");
}
/* Starts a copy of bytes from global to shared memory.  `bytes` and both addresses are multiples of
 * 16.  Copied bytes are counted at `barrier`. */
DEVICE void bulk_load(uint32_t at, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 ::"r"(shared_address(at)), "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
/* Fetches a tensor map to the cache, ahead of the first copy that uses it. */
DEVICE void tensor_prefetch(const tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/* Makes this thread's stores to shared memory visible to asynchronous copies and products. */
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif

#if defined __CUDA_ARCH_FEAT_SM90_ALL || defined __CUDA_ARCH_FEAT_SM100_ALL || \
    defined __CUDA_ARCH_FEAT_SM103_ALL
/* Raises the number of registers of each thread of a warpgroup to n, or lowers it. */
template <int n> DEVICE void registers_more()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n> DEVICE void registers_less()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

/* Returns the descriptor, for wgmma and tcgen05, of a tile of 128-byte rows that tensor_load has
 * stored.  byte: offset in each row at which the product begins, a multiple of 32. */
DEVICE uint64_t tile_descriptor(uint32_t at, int byte)
{
    uint64_t address = shared_address(at) + (uint32_t)byte;
#if __CUDA_ARCH__ >= 1000
    uint64_t rows = (uint64_t)1 << 46 | (uint64_t)2 << 61;
#else
    uint64_t rows = (uint64_t)1 << 62;
#endif

    return (address >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | rows;
}
/* Prevents the compiler from moving uses of d above a preceding wait.  Until that wait asynchronous
 * instructions may still write these registers. */
template <class T, int n> DEVICE void keep_behind(T (&d)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        if constexpr ((T)0.5f != (T)0)
            asm volatile("" : "+f"(d[i])::"memory");
        else
            asm volatile("" : "+r"(d[i])::"memory");
}

/* Lists for assembly.  D32(c) is c(d[0]), c(d[1]), ..., c(d[31]), and L32 names the operands %0 to
 * %31. */
#define D4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define D16(c, i) D4(c, i), D4(c, i + 4), D4(c, i + 8), D4(c, i + 12)
#define D32(c) D16(c, 0), D16(c, 16)
#define R8(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,"
#define R10(t) R8(t) "%" #t "8,%" #t "9,"
#define R30 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," R10(1) R10(2)
#define L32 R30 "%30,%31"
#endif

#if defined __CUDA_ARCH_FEAT_SM90_ALL
/* Must be called before the first wgmma, and before a wgmma that reads registers that other
 * instructions wrote. */
DEVICE void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/* Ends a group of products, for which group_wait can wait. */
DEVICE void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Waits until all but the newest n groups of products are complete.  Then their registers hold the
 * sums, and their tiles in shared memory may be overwritten. */
template <int n> DEVICE void group_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}

/* A warpgroup's products d (64 x n) = a b or, if keep is 1, d += a b.  a has 64 rows and b has n
 * rows of 32 bytes, given by descriptors.  Warp w of the group has rows 16 w to 16 w + 15.  In lane
 * l, with g = l >> 2 and t = l & 3: d[4 j] and d[4 j + 1] are row g, columns 8 j + 2 t and 8 j + 2
 * t + 1; d[4 j + 2] and d[4 j + 3] are row g + 8. */
#define D64(c) D32(c), D16(c, 32), D16(c, 48)
#define D96(c) D64(c), D16(c, 64), D16(c, 80)
#define D128(c) D96(c), D16(c, 96), D16(c, 112)
#define L64 R30 R10(3) R10(4) R10(5) "%60,%61,%62,%63"
#define L96 R30 R10(3) R10(4) R10(5) R10(6) R10(7) R10(8) "%90,%91,%92,%93,%94,%95"
#define L128 \
    R30 R10(3) R10(4) R10(5) R10(6) R10(7) R10(8) R10(9) R10(10) \
        R10(11) "%120,%121,%122,%123,%124,%125,%126,%127"
#define IN_R(x) "+r"(x)
#define IN_F(x) "+f"(x)
#define WGMMA(kind, shape, tail, list, registers, a, b, k) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " k ", 0;\n" \
                 "wgmma.mma_async.sync.aligned." shape "." kind " {" list "}, " a ", " b \
                 ", p" tail ";\n}" \
                 : registers \
                 : "l"(da), "l"(db), "r"(keep))
#define WGMMA_N(kind, ks, tail, in) \
    do { \
        if constexpr (n == 64) \
            WGMMA(kind, "m64n64" ks, tail, L32, D32(in), "%32", "%33", "%34"); \
        else if constexpr (n == 128) \
            WGMMA(kind, "m64n128" ks, tail, L64, D64(in), "%64", "%65", "%66"); \
        else if constexpr (n == 192) \
            WGMMA(kind, "m64n192" ks, tail, L96, D96(in), "%96", "%97", "%98"); \
        else \
            WGMMA(kind, "m64n256" ks, tail, L128, D128(in), "%128", "%129", "%130"); \
    } while (0)

/* Adds the product of a tile of A and a tile of B to a warpgroup's sums.  da, db: descriptors of
 * the tiles.  keep: 0 replaces the sums instead. */
template <int n, int SA, int SB>
DEVICE void group_i8(int32_t (&d)[n / 2], uint64_t da, uint64_t db, int keep)
{
    if constexpr (SA && SB)
        WGMMA_N("s32.s8.s8", "k32", "", IN_R);
    else if constexpr (SA)
        WGMMA_N("s32.s8.u8", "k32", "", IN_R);
    else if constexpr (SB)
        WGMMA_N("s32.u8.s8", "k32", "", IN_R);
    else
        WGMMA_N("s32.u8.u8", "k32", "", IN_R);
}
template <int n> DEVICE void group_f16(float (&d)[n / 2], uint64_t da, uint64_t db, int keep)
{
    WGMMA_N("f32.f16.f16", "k16", ", 1, 1, 0, 0", IN_F);
}
template <int n> DEVICE void group_bf16(float (&d)[n / 2], uint64_t da, uint64_t db, int keep)
{
    WGMMA_N("f32.bf16.bf16", "k16", ", 1, 1, 0, 0", IN_F);
}
template <int n> DEVICE void group_tf32(float (&d)[n / 2], uint64_t da, uint64_t db, int keep)
{
    WGMMA_N("f32.tf32.tf32", "k8", ", 1, 1", IN_F);
}
template <int n> DEVICE void group_e4m3(float (&d)[n / 2], uint64_t da, uint64_t db, int keep)
{
    WGMMA_N("f32.e4m3.e4m3", "k32", ", 1, 1", IN_F);
}
template <int n> DEVICE void group_e5m2(float (&d)[n / 2], uint64_t da, uint64_t db, int keep)
{
    WGMMA_N("f32.e5m2.e5m2", "k32", ", 1, 1", IN_F);
}
#endif

/* ---- Blackwell's tensor memory: 512 columns of 128 lanes of 32 bits -------------------------- */

#if defined __CUDA_ARCH_FEAT_SM100_ALL || defined __CUDA_ARCH_FEAT_SM103_ALL
/* Allocates columns of tensor memory (a power of two, at least 32), waiting until they are free,
 * and stores their address in shared memory at `at`.  All lanes of a warp call this.  The block
 * cannot allocate columns a second time. */
template <int columns> DEVICE void columns_allocate(uint32_t at)
{
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
                 "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
                 ::"r"(shared_address(at)), "n"(columns) : "memory");
}
/* Frees columns of tensor memory.  The warp that allocated them must call this before the block
 * ends. */
template <int columns> DEVICE void columns_free(uint32_t address)
{
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;"
                 ::"r"(address), "n"(columns) : "memory");
}
/* Fences for tensor memory around a synchronisation of threads.  Before it, columns_before orders
 * what this thread has waited for.  After it, columns_after orders what this thread does next. */
DEVICE void columns_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEVICE void columns_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

/* Loads 16 lanes by 64 columns of tensor memory into a warp's registers.  In lane l of the warp,
 * d[4 j] and d[4 j + 1] are lane l >> 2 of tensor memory, columns 8 j + 2 (l & 3) and the next one;
 * d[4 j + 2] and d[4 j + 3] are lane 8 + (l >> 2).  d is valid after columns_wait.  Warp w of four
 * can access lanes 32 w to 32 w + 31.  One lane counts 2^16 in an address. */
DEVICE void columns_load(uint32_t (&d)[32], uint32_t address)
{
#define OUT_R(x) "=r"(x)
    asm volatile("tcgen05.ld.sync.aligned.16x256b.x8.b32 {" L32 "}, [%32];"
                 : D32(OUT_R) : "r"(address));
}
/* Waits until this warp's loads from tensor memory are complete, so that d is valid. */
DEVICE void columns_wait(uint32_t (&d)[32])
{
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    keep_behind(d);
}

/* True in exactly one lane of a warp, always the same; all lanes call this.  It tells the compiler
 * that only one thread runs the code that follows, as products and arrivals require.  Otherwise the
 * compiler would add a loop over threads. */
DEVICE bool is_chosen()
{
    uint32_t v;

    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}"
                 : "=r"(v));
    return v != 0;
}

/* Formats in instruction descriptors.  Each kind of product has its own numbers for them; for INT8,
 * 0 is unsigned and 1 is signed. */
enum { PRODUCT_f32 = 1, PRODUCT_i32 = 2, PRODUCT_f16 = 0, PRODUCT_bf16 = 1, PRODUCT_tf32 = 2 };
enum { PRODUCT_e4m3 = 0, PRODUCT_e5m2 = 1 };
/* Makes the instruction descriptor of m x n products, with the formats of a, b and the sums. */
DEVICE uint32_t product_descriptor(int m, int n, uint32_t a, uint32_t b, uint32_t sum)
{
    return sum << 4 | a << 7 | b << 10 | (uint32_t)(n >> 3) << 17 | (uint32_t)(m >> 4) << 24;
}
/* Issues a product; one thread calls this.  The sums are in n columns of tensor memory from `to`
 * on, row i in lane i.  They become a b or, if keep is 1, += a b.  a has 128 rows and b has n rows
 * of 32 bytes, given by tile_descriptor.  what: an instruction descriptor.  Products are executed
 * in order. */
#define PRODUCT(kind)                                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                      \
                 "tcgen05.mma.cta_group::1.kind::" kind " [%0], %1, %2, %3, p;\n}"                 \
                 ::"r"(to), "l"(a), "l"(b), "r"(what), "r"(keep) : "memory")
#if defined __CUDA_ARCH_FEAT_SM100_ALL
/* Issues a product of 8-bit integers. */
DEVICE void issue_i8(uint32_t to, uint64_t a, uint64_t b, uint32_t what, int keep)
{
    PRODUCT("i8");
}
#endif
/* Issues a product of FP16 or BF16. */
DEVICE void issue_f16(uint32_t to, uint64_t a, uint64_t b, uint32_t what, int keep)
{
    PRODUCT("f16");
}
/* Issues a product of TF32. */
DEVICE void issue_tf32(uint32_t to, uint64_t a, uint64_t b, uint32_t what, int keep)
{
    PRODUCT("tf32");
}
/* Issues a product of FP8. */
DEVICE void issue_f8(uint32_t to, uint64_t a, uint64_t b, uint32_t what, int keep)
{
    PRODUCT("f8f6f4");
}

/* Block scales are in tensor memory: those of row or column l of the operand are in lanes l % 32 +
 * 0, 32, 64 and 96 of column l / 32, four bytes for four blocks along k.  issue_scales copies the
 * scales of 128 rows or columns from 512 bytes of shared memory, 16 bytes per lane.  Products that
 * this thread issues later use these scales, but the copy does not wait for earlier products. */
DEVICE uint64_t scales_descriptor(uint32_t at)
{
    return (shared_address(at) >> 4 & 0x3fff) | 1 << 16 | (uint64_t)8 << 32 | (uint64_t)1 << 46;
}
/* Copies the block scales of 128 rows or columns to tensor memory.  from: a scales_descriptor. */
DEVICE void issue_scales(uint32_t to, uint64_t from)
{
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from)
                 : "memory");
}
/* Makes the instruction descriptor of block-scaled products.  a, b: formats as in mma_scaled.
 * e8m0: 1 if scales are E8M0, 0 if UE4M3.  Scales begin at byte `byte` of their words.  For b this
 * byte is encoded where other descriptors have the format of the sums. */
DEVICE uint32_t scaled_descriptor(int m, int n, uint32_t a, uint32_t b, uint32_t e8m0, int byte)
{
    return product_descriptor(m, n, a, b, (uint32_t)byte) | e8m0 << 23 | (uint32_t)byte << 29;
}
/* Issues a block-scaled product, with scales in columns from scales_a and scales_b on.  kind: as in
 * mma_scaled.  In kind 1, 16 elements are packed in the low bytes of each 16 bytes.  In kinds 2 and
 * 3, E2M1 is format 1. */
#define PRODUCT_SCALED(kind)                                                                       \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                      \
                 "tcgen05.mma.cta_group::1.kind::" kind " [%0], %3, %4, %5, [%1], [%2], p;\n}"     \
                 ::"r"(to), "r"(scales_a), "r"(scales_b), "l"(a), "l"(b), "r"(what), "r"(keep)     \
                 : "memory")
template <int kind>
DEVICE void issue_scaled(uint32_t to, uint64_t a, uint64_t b, uint32_t what, uint32_t scales_a,
                         uint32_t scales_b, int keep)
{
    if constexpr (kind == 1)
        PRODUCT_SCALED("mxf8f6f4.block_scale");
    else if constexpr (kind == 2)
        PRODUCT_SCALED("mxf4.block_scale.scale_vec::2X");
    else
        PRODUCT_SCALED("mxf4nvf4.block_scale.scale_vec::4X");
}

/* Makes one arrival happen at the barrier when all products and copies of scales that this thread
 * has issued are complete.  Then the memory that they read may be overwritten, and their sums are
 * valid after columns_after. */
DEVICE void products_arrive(uint32_t barrier)
{
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 ::"r"(shared_address(barrier)) : "memory");
}
/* Makes one arrival happen, when all products and copies of scales that this thread has issued are
 * complete, at the barriers with this offset in those blocks of the cluster whose bits are set in
 * `mask`. */
DEVICE void products_arrive_all(uint32_t barrier, uint32_t mask)
{
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
                 ".multicast::cluster.b64 [%0], %1;"
                 ::"r"(shared_address(barrier)), "h"((uint16_t)mask) : "memory");
}
#endif

#endif
