/* SPDX-License-Identifier: BSD-3-Clause
 * Small native products without packing or compiling.  This file is built once for each instruction
 * set, by the compiler that makes prebuilt kernels.
 *
 *   source  Heinecke, Henry, Hutchinson, Pabst: LIBXSMM, SC 2016, section III */
#include "backends/llvm/kernel/kernel.h"
#include "ir/num/prim.h"

#if !defined(__aarch64__)
#include <immintrin.h>
#endif

#define FLAT static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#define FOUR _Pragma("clang loop unroll_count(4)")

/* B is copied to contiguous rows if more than PACK groups of rows of A read it, and B's rows are at
 * least FAR bytes apart, so that each row is on a page of its own. */
enum { PACK = 3, FAR = 4096 };

/* If k is at most SHORT, computing a tile takes less time than fetching a cache line of C.  Then
 * the cache lines of C that are AHEAD vectors further on are prefetched. */
enum { SHORT = 64, AHEAD = 8 };

/* At most TOGETHER_MOST strips of columns of C are computed together, TALL rows of each in turn.
 * 48 rows are so few that the translations of their pages stay in the CPU's first-level TLB (64
 * entries on most CPUs). */
enum { TOGETHER_MOST = 16, TALL = 48 };

/* Which lanes of a tile's last vector are columns of C: all, some, or at most half.  HALF is used
 * where the CPU computes a vector in two halves, as Zen 4 does. */
enum last { ALL, SOME, HALF };

/* The product as the tiles compute it. */
struct operands {
    struct fixed f;     /* transposed if that makes rows of C contiguous */
    const struct scaling *scaling; /* alpha and beta; NULL if only f.add applies */
    const void *a, *b;
    void *c;
};

#if defined(__AVX512F__)
enum { ROWS = 8, VECTORS = 3, HALVES = 1 };
#define ROW_OF(T, rows) T(rows, 1) T(rows, 2) T(rows, 3)
#define TILES(T) \
    ROW_OF(T, 1) ROW_OF(T, 2) ROW_OF(T, 3) ROW_OF(T, 4) ROW_OF(T, 5) ROW_OF(T, 6) ROW_OF(T, 7) \
    ROW_OF(T, 8)

#define NAME(x) f64_##x
#define REAL double
#define VEC __m512d
#define MASK __mmask8
#define LANES 8
#define ZERO() _mm512_setzero_pd()
#define LOAD(p) _mm512_loadu_pd(p)
#define STORE(p, v) _mm512_storeu_pd(p, v)
#define MASKED_LOAD(p, m) _mm512_maskz_loadu_pd(m, p)
#define MASKED_STORE(p, m, v) _mm512_mask_storeu_pd(p, m, v)
#define BROADCAST(p) _mm512_set1_pd(*(p))
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define LOW(v) _mm512_castpd512_pd256(v)
#define LOW_MASKED_LOAD(p, m) \
    _mm512_zextpd256_pd512(_mm256_maskz_loadu_pd((__mmask8)(m), p))
#define LOW_FMA(a, b, c) _mm512_zextpd256_pd512(_mm256_fmadd_pd(LOW(a), LOW(b), LOW(c)))
#define ADD(a, b) _mm512_add_pd(a, b)
#define SUB(a, b) _mm512_sub_pd(a, b)
#define LANES_OF(n) ((__mmask8)((1u << (n)) - 1))
#include "backends/llvm/kernel/direct.h"

#define NAME(x) f32_##x
#define REAL float
#define VEC __m512
#define MASK __mmask16
#define LANES 16
#define ZERO() _mm512_setzero_ps()
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define MASKED_LOAD(p, m) _mm512_maskz_loadu_ps(m, p)
#define MASKED_STORE(p, m, v) _mm512_mask_storeu_ps(p, m, v)
#define BROADCAST(p) _mm512_set1_ps(*(p))
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define LOW(v) _mm512_castps512_ps256(v)
#define LOW_MASKED_LOAD(p, m) \
    _mm512_zextps256_ps512(_mm256_maskz_loadu_ps((__mmask8)(m), p))
#define LOW_FMA(a, b, c) _mm512_zextps256_ps512(_mm256_fmadd_ps(LOW(a), LOW(b), LOW(c)))
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define LANES_OF(n) ((__mmask16)((1u << (n)) - 1))
#include "backends/llvm/kernel/direct.h"
#elif defined(__aarch64__)
/* A vector (VEC) is two registers.  Partial loads and stores take the number of leading lanes.  A
 * PART is one register with several elements of a row of A; tiles of five rows leave registers free
 * for it.  TOGETHER: number of elements along k in one round of the loop. */
enum { ROWS = 5, VECTORS = 2, TOGETHER = 4, HALVES = 0 };
#define ROW_OF(T, rows) T(rows, 1) T(rows, 2)
#define TILES(T) ROW_OF(T, 1) ROW_OF(T, 2) ROW_OF(T, 3) ROW_OF(T, 4) ROW_OF(T, 5)
typedef double v2d __attribute__((vector_size(16), aligned(8)));
typedef float v4f __attribute__((vector_size(16), aligned(4)));
typedef double v4d __attribute__((vector_size(32)));
typedef float v8f __attribute__((vector_size(32)));

#define FIRST_LANES(name, type, vector, lanes) \
    FLAT vector name##_load(const type *p, int64_t n) \
    { \
        vector v = { 0 }; \
        UNROLL for (int i = 0; i < (lanes); i++) \
            if (i < n) \
                v[i] = p[i]; \
        return v; \
    } \
    FLAT void name##_store(type *p, int64_t n, vector v) \
    { \
        UNROLL for (int i = 0; i < (lanes); i++) \
            if (i < n) \
                p[i] = v[i]; \
    } \
    FLAT vector name##_whole(const type *p) \
    { \
        vector v; \
        __builtin_memcpy(&v, p, sizeof v); \
        return v; \
    }
FIRST_LANES(lanes4, double, v4d, 4)
FIRST_LANES(lanes8, float, v8f, 8)

/* Transposes 2 x 2 elements in place. */
FLAT void transpose2(v2d x[2])
{
    const v2d first = __builtin_shufflevector(x[0], x[1], 0, 2);

    x[1] = __builtin_shufflevector(x[0], x[1], 1, 3);
    x[0] = first;
}

/* Transposes 4 x 4 elements in place. */
FLAT void transpose4(v4f x[4])
{
    const v4f a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    const v4f b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    const v4f c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    const v4f d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);

    x[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

#define NAME(x) f64_##x
#define REAL double
#define VEC v4d
#define MASK int64_t
#define LANES 4
#define ZERO() ((v4d){ 0 })
#define LOAD(p) lanes4_whole(p)
#define STORE(p, v) ({ v4d stored_ = (v); __builtin_memcpy(p, &stored_, sizeof stored_); })
#define MASKED_LOAD(p, m) lanes4_load(p, m)
#define MASKED_STORE(p, m, v) lanes4_store(p, m, v)
#define BROADCAST(p) ({ double x_ = *(p); (v4d){ x_, x_, x_, x_ }; })
#define FMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#define LOW_MASKED_LOAD(p, m) MASKED_LOAD(p, m)
#define LOW_FMA(a, b, c) FMA(a, b, c)
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define LANES_OF(n) (n)
#define PART v2d
#define PART_LANES 2
#define TRANSPOSE(x) transpose2(x)
#include "backends/llvm/kernel/direct.h"

#define NAME(x) f32_##x
#define REAL float
#define VEC v8f
#define MASK int64_t
#define LANES 8
#define ZERO() ((v8f){ 0 })
#define LOAD(p) lanes8_whole(p)
#define STORE(p, v) ({ v8f stored_ = (v); __builtin_memcpy(p, &stored_, sizeof stored_); })
#define MASKED_LOAD(p, m) lanes8_load(p, m)
#define MASKED_STORE(p, m, v) lanes8_store(p, m, v)
#define BROADCAST(p) ({ float x_ = *(p); (v8f){ x_, x_, x_, x_, x_, x_, x_, x_ }; })
#define FMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#define LOW_MASKED_LOAD(p, m) MASKED_LOAD(p, m)
#define LOW_FMA(a, b, c) FMA(a, b, c)
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define LANES_OF(n) (n)
#define PART v4f
#define PART_LANES 4
#define TRANSPOSE(x) transpose4(x)
#include "backends/llvm/kernel/direct.h"
#else
enum { ROWS = 6, VECTORS = 2, HALVES = 0 };
#define ROW_OF(T, rows) T(rows, 1) T(rows, 2)
#define TILES(T) ROW_OF(T, 1) ROW_OF(T, 2) ROW_OF(T, 3) ROW_OF(T, 4) ROW_OF(T, 5) ROW_OF(T, 6)

#define NAME(x) f64_##x
#define REAL double
#define VEC __m256d
#define MASK __m256i
#define LANES 4
#define ZERO() _mm256_setzero_pd()
#define LOAD(p) _mm256_loadu_pd(p)
#define STORE(p, v) _mm256_storeu_pd(p, v)
#define MASKED_LOAD(p, m) _mm256_maskload_pd(p, m)
#define MASKED_STORE(p, m, v) _mm256_maskstore_pd(p, m, v)
#define BROADCAST(p) _mm256_broadcast_sd(p)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define LOW_MASKED_LOAD(p, m) MASKED_LOAD(p, m)
#define LOW_FMA(a, b, c) FMA(a, b, c)
#define ADD(a, b) _mm256_add_pd(a, b)
#define SUB(a, b) _mm256_sub_pd(a, b)
#define LANES_OF(n) _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3))
#include "backends/llvm/kernel/direct.h"

#define NAME(x) f32_##x
#define REAL float
#define VEC __m256
#define MASK __m256i
#define LANES 8
#define ZERO() _mm256_setzero_ps()
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define MASKED_LOAD(p, m) _mm256_maskload_ps(p, m)
#define MASKED_STORE(p, m, v) _mm256_maskstore_ps(p, m, v)
#define BROADCAST(p) _mm256_broadcast_ss(p)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define LOW_MASKED_LOAD(p, m) MASKED_LOAD(p, m)
#define LOW_FMA(a, b, c) FMA(a, b, c)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define LANES_OF(n) \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#include "backends/llvm/kernel/direct.h"
#endif

/* Returns the operands and the shape, transposed (C^T = B^T A^T) if rows of C are not
 * contiguous. */
static struct operands with_dense_rows(const struct fixed *f, const struct scaling *x,
                                       const void *a, const void *b, void *c)
{
    if (f->c.col == 1)
        return (struct operands){ *f, x, a, b, c };
    return (struct operands){ { .m = f->n,
                                .n = f->m,
                                .k = f->k,
                                .a = { f->b.col, f->b.row },
                                .b = { f->a.col, f->a.row },
                                .c = { f->c.col, f->c.row },
                                .add = f->add },
                              x,
                              b,
                              a,
                              c };
}

/* Computes all rows of a strip of columns of C, by the code for the elements' size. */
void FOR_ISA(limber_direct_strip)(const struct direct_strip *s)
{
    if (s->size == 8)
        f64_strip(s);
    else
        f32_strip(s);
}

/* Implements cpu_ops.direct: computes a product of unpacked operands. */
void FOR_ISA(limber_direct_run)(const struct fixed *f, const struct scaling *x, int size,
                                const void *a, const void *b, void *c)
{
    struct operands o = with_dense_rows(f, x, a, b, c);

    if (size == 8)
        f64_product(&o);
    else
        f32_product(&o);
}
