/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a matrix and a vector, and of two vectors, with sums in order 1 of limber.h.  The
 * code is part of the library, is compiled once for each instruction set, and needs no compiler at
 * run time. */
#include "backends/llvm/kernel/kernel.h"

#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define FLAT static inline __attribute__((always_inline))
/* unrolls a short loop, so that its arrays are registers */
#if defined(__x86_64__) && !defined(__AVX2__)
#define UNROLL /* on these CPUs multiply-adds are function calls */
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* CHAIN: number of products in a chain; AHEAD: distance of prefetches, in cache lines. */
enum { CHAIN = 256, AHEAD = 4 };

#define T double
#define SUMS FOR_ISA(limber_vectors_sums64)
#define NAME(x) x##64
#define FMA fma
#if VECTOR_BYTES == 64
#define WIDE __m512d
#define SUFFIX(x) x##pd
#define LOW(a, b) _mm512_unpacklo_pd((__m512d)(a), (__m512d)(b))
#define HIGH(a, b) _mm512_unpackhi_pd((__m512d)(a), (__m512d)(b))
#elif VECTOR_BYTES == 32
#define WIDE __m256d
#define SUFFIX(x) x##pd
#define LOW(a, b) _mm256_unpacklo_pd((__m256d)(a), (__m256d)(b))
#define HIGH(a, b) _mm256_unpackhi_pd((__m256d)(a), (__m256d)(b))
#else
#define LOW(a, b) ((v64){ (a)[0], (b)[0] })
#define HIGH(a, b) ((v64){ (a)[1], (b)[1] })
#endif
/* EVEN and ODD: copy each lane with an even (odd) number to the odd (even) lane beside it. */
#define EVEN(a) (v64) LOW(a, a)
#define ODD(a) (v64) HIGH(a, a)
#define TRANSPOSE(x, to) ((to)[0] = (v64)LOW((x)[0], (x)[1]), (to)[1] = (v64)HIGH((x)[0], (x)[1]))
#include "backends/llvm/kernel/vectors_of.h"
#undef T
#undef SUMS
#undef NAME
#undef FMA
#undef WIDE
#undef SUFFIX
#undef EVEN
#undef ODD
#undef TRANSPOSE

#define T float
#define SUMS FOR_ISA(limber_vectors_sums32)
#define NAME(x) x##32
#define FMA fmaf
#if VECTOR_BYTES == 64
#define WIDE __m512
#define SUFFIX(x) x##ps
#define LOW_OF_4(a, b) _mm512_unpacklo_ps((__m512)(a), (__m512)(b))
#define HIGH_OF_4(a, b) _mm512_unpackhi_ps((__m512)(a), (__m512)(b))
#define EVEN(a) (v32) _mm512_moveldup_ps((__m512)(a))
#define ODD(a) (v32) _mm512_movehdup_ps((__m512)(a))
#elif VECTOR_BYTES == 32
#define WIDE __m256
#define SUFFIX(x) x##ps
#define LOW_OF_4(a, b) _mm256_unpacklo_ps((__m256)(a), (__m256)(b))
#define HIGH_OF_4(a, b) _mm256_unpackhi_ps((__m256)(a), (__m256)(b))
#define EVEN(a) (v32) _mm256_moveldup_ps((__m256)(a))
#define ODD(a) (v32) _mm256_movehdup_ps((__m256)(a))
#else
#define LOW_OF_4(a, b) ((v32){ (a)[0], (b)[0], (a)[1], (b)[1] })
#define HIGH_OF_4(a, b) ((v32){ (a)[2], (b)[2], (a)[3], (b)[3] })
#define EVEN(a) ((v32){ (a)[0], (a)[0], (a)[2], (a)[2] })
#define ODD(a) ((v32){ (a)[1], (a)[1], (a)[3], (a)[3] })
#endif
#define TRANSPOSE(x, to) \
    do { \
        const v64 low_ = (v64)LOW_OF_4((x)[0], (x)[1]), beside_ = (v64)LOW_OF_4((x)[2], (x)[3]); \
        const v64 high_ = (v64)HIGH_OF_4((x)[0], (x)[1]), next_ = (v64)HIGH_OF_4((x)[2], (x)[3]); \
\
        (to)[0] = (v32)LOW(low_, beside_); \
        (to)[1] = (v32)HIGH(low_, beside_); \
        (to)[2] = (v32)LOW(high_, next_); \
        (to)[3] = (v32)HIGH(high_, next_); \
    } while (0)
#include "backends/llvm/kernel/vectors_of.h"
