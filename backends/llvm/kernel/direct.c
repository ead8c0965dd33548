/* SPDX-License-Identifier: BSD-3-Clause
 * Small native products that are neither packed nor compiled.  Built once for each instruction set,
 * by the compiler that makes prebuilt kernels.
 *
 *   source  Heinecke, Henry, Hutchinson, Pabst: LIBXSMM, SC 2016, section III */
#include "backends/llvm/kernel/kernel.h"
#include "ir/num/prim.h"

#include <immintrin.h>

#define FLAT static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

/* Groups of rows beyond which a panel of B is read so often that dense rows pay, where its own lie
 * at least so many bytes apart: each is on a page of its own. */
enum { PACK = 3, FAR = 4096 };

struct operands {
    struct fixed f;     /* rows of C are dense */
    const struct scaling *scaling; /* or NULL */
    const void *a, *b;
    void *c;
};

#if defined(__AVX512F__)
enum { ROWS = 8, VECTORS = 3 };
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
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define LANES_OF(n) ((__mmask16)((1u << (n)) - 1))
#include "backends/llvm/kernel/direct.h"
#else
enum { ROWS = 6, VECTORS = 2 };
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
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define LANES_OF(n) \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#include "backends/llvm/kernel/direct.h"
#endif

/* Where C's columns are dense, C^T = B^T A^T. */
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

void limber_direct_strip(const struct direct_strip *s)
{
    if (s->size == 8)
        f64_strip(s);
    else
        f32_strip(s);
}

void limber_direct_run(const struct fixed *f, const struct scaling *x, int size, const void *a,
                       const void *b, void *c)
{
    struct operands o = with_dense_rows(f, x, a, b, c);

    if (size == 8)
        f64_product(&o);
    else
        f32_product(&o);
}
