/* SPDX-License-Identifier: BSD-3-Clause
 * Elementary functions of ir/num/functions.h for arrays, compiled once for each instruction set.
 * Functions of formats with few bit patterns are looked up in tables. */
#include "backends/llvm/kernel/kernel.h"
#include "backends/llvm/kernel/quick.h"
#include "ir/num/functions.h"
#include "ir/num/small.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

enum { BLOCK = 64 };    /* number of angles that are tested together before they are computed */


/* Computes a function of angles in blocks.  Blocks without angles of at least FN_FAR are
 * vectorised.  Both loops give the same bits, since fn_NAME of one element does not depend on other
 * elements. */
#define ANGLES(name) \
    static void name##s(const struct fn_args *args, double *x, int64_t n) \
    { \
        const struct fn_args a = *args; \
        for (int64_t end; n > 0; x += end, n -= end) { \
            int far = 0; \
            end = n < BLOCK ? n : BLOCK; \
            for (int64_t i = 0; i < end; i++) \
                far |= FN_ABS(x[i]) >= FN_FAR; \
            if (far) \
                for (int64_t i = 0; i < end; i++) \
                    x[i] = fn_value(FN_ABS(x[i]) >= FN_FAR ? fn_##name##_far(x[i]) : \
                                                             fn_##name(x[i], &a), x[i], a.odd); \
            else \
                for (int64_t i = 0; i < end; i++) \
                    x[i] = fn_value(fn_##name(x[i], &a), x[i], a.odd); \
        } \
    }
ANGLES(sin)
ANGLES(cos)
ANGLES(tan)

/* Computes a function in a loop.  A separate loop rounds to nearest, without the code that rounding
 * to odd needs. */
#define PLAIN(NAME, name) \
    case LIMBER_FUNCTION_##NAME: \
        if (a.odd) \
            for (int64_t i = 0; i < n; i++) \
                x[i] = fn_value(fn_##name(x[i], &a), x[i], 1); \
        else \
            for (int64_t i = 0; i < n; i++) \
                x[i] = fn_value(fn_##name(x[i], &nearest), x[i], 0); \
        break;

/* True if the fast approximation is too inexact to round some element of the block to FP32 with
 * certainty. */
static int is_uncertain(const double y[QUICK_BLOCK])
{
    int doubt = 0;

    for (int i = 0; i < QUICK_BLOCK; i++)
        doubt |= quick_doubt_small(y[i]);
    return doubt;
}

/* Uses the fast approximation for full blocks that it can round to FP32 with certainty; other
 * blocks are computed by the general function.  Returns the number of elements computed. */
#define QUICK(NAME, name) \
    static int64_t quick_##name##s(const struct fn_args *args, double *x, int64_t n) \
    { \
        int64_t at = 0; \
        for (; at + QUICK_BLOCK <= n; at += QUICK_BLOCK) { \
            double y[QUICK_BLOCK]; \
            int doubt = 0; \
            for (int64_t i = 0; i < QUICK_BLOCK; i++) { \
                y[i] = quick_##name(x[at + i]); \
                doubt |= quick_doubt(y[i]); \
            } \
            if (doubt && is_uncertain(y)) \
                FOR_ISA(limber_functions_run)(LIMBER_FUNCTION_##NAME, args, x + at, \
                                              QUICK_BLOCK, 0); \
            else \
                __builtin_memcpy(x + at, y, sizeof y); \
        } \
        return at; \
    }
QUICK_FUNCTIONS(QUICK)

#define QUICK_CASE(NAME, name) \
    case LIMBER_FUNCTION_##NAME: return quick_##name##s(args, x, n);

/* Computes results for FP32 by a fast approximation, in full blocks.  Returns the number of
 * elements computed. */
static int64_t run_quick(int function, const struct fn_args *args, double *x, int64_t n)
{
    switch (function) {
        QUICK_FUNCTIONS(QUICK_CASE)
    default: return 0;
    }
}

/* Computes a function of n doubles in place.  single: results only need to round to the correct
 * binary32 number. */
void FOR_ISA(limber_functions_run)(int function, const struct fn_args *args, double *x, int64_t n,
                                   int single)
{
    const struct fn_args a = *args,
                         nearest = { .p = a.p, .q = a.q, .bound = a.bound, .odd = 0 };
    const int64_t done = single ? run_quick(function, args, x, n) : 0;

    x += done;
    n -= done;
    switch (function) {
    case LIMBER_FUNCTION_SIN: sins(args, x, n); break;
    case LIMBER_FUNCTION_COS: coss(args, x, n); break;
    case LIMBER_FUNCTION_TAN: tans(args, x, n); break;
    FN_PLAIN(PLAIN)
    case LIMBER_FUNCTION_ISNAN:
        for (int64_t i = 0; i < n; i++)
            x[i] = fn_isnan(x[i]);
        break;
    case LIMBER_FUNCTION_ISINF:
        for (int64_t i = 0; i < n; i++)
            x[i] = fn_isinf(x[i]);
        break;
    }
}

/* ---- conversions of formats, by vectors ------------------------------------------------------ */

#define WIDEN_AS(type) \
    for (int64_t i = 0; i < n; i++) \
        x[i] = small_value(&s, ((const type *)src)[i], no_inf)
#define NARROW_AS(type) \
    for (int64_t i = 0; i < n; i++) \
        ((type *)dst)[i] = (type)small_code(&s, x[i])

/* Integers of at most 32 bits are exact as doubles; 64-bit integers are rounded to nearest even. */
#define WIDEN_INTEGERS(type) \
    for (int64_t i = 0; i < n; i++) \
        x[i] = (double)((const type *)src)[i]

/* Converts integers of format f to doubles. */
static void widen_integers(limber_format f, const void *src, double *x, int64_t n)
{
    switch (f.kind == LIMBER_KIND_UINT ? 0 : f.size) {
    case 0: WIDEN_INTEGERS(uint8_t); break;
    case 1: WIDEN_INTEGERS(int8_t); break;
    case 2: WIDEN_INTEGERS(int16_t); break;
    case 4: WIDEN_INTEGERS(int32_t); break;
    default: WIDEN_INTEGERS(int64_t); break;
    }
}

/* Rounds to nearest even and saturates; NaN becomes 0. */
#define NARROW_INTEGERS(type, low, high) \
    for (int64_t i = 0; i < n; i++) { \
        double v = x[i] != x[i] ? 0 : x[i]; \
        v = v < low ? low : v > high ? high : v; \
        ((type *)dst)[i] = (type)(int32_t)__builtin_rint(v); \
    }

/* Rounds doubles to integers of format f, to nearest even.  Numbers that are too large saturate;
 * NaN becomes 0. */
static void narrow_integers(limber_format f, const double *x, void *dst, int64_t n)
{
    switch (f.kind == LIMBER_KIND_UINT ? 0 : f.size) {
    case 0: NARROW_INTEGERS(uint8_t, 0, 255); break;
    case 1: NARROW_INTEGERS(int8_t, -128, 127); break;
    case 2: NARROW_INTEGERS(int16_t, -32768, 32767); break;
    case 4: NARROW_INTEGERS(int32_t, -2147483648., 2147483647.); break;
    default:
        for (int64_t i = 0; i < n; i++) {
            double v = x[i] != x[i] ? 0 : __builtin_rint(x[i]);
            int64_t within = (int64_t)(v >= -0x1p63 && v < 0x1p63 ? v : 0);

            ((int64_t *)dst)[i] = v < -0x1p63 ? INT64_MIN : v >= 0x1p63 ? INT64_MAX : within;
        }
    }
}

/* True for formats of integers, with or without sign. */
static int is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}

/* Converts n elements of format f to doubles. */
void FOR_ISA(limber_functions_widen)(limber_format f, const void *src, double *x, int64_t n)
{
    const struct small s = small_of(f);
    const int no_inf = f.flags & LIMBER_FORMAT_NO_INF;

    if (is_integer(f))
        widen_integers(f, src, x, n);
    else if (f.size == 8)
        __builtin_memcpy(x, src, (size_t)n * 8);
    else if (f.size == 4)
        for (int64_t i = 0; i < n; i++)
            x[i] = ((const float *)src)[i];
    else if (f.size == 2)
        WIDEN_AS(uint16_t);
    else
        WIDEN_AS(uint8_t);
}

/* Converts n doubles to format f, rounded once. */
void FOR_ISA(limber_functions_narrow)(limber_format f, const double *x, void *dst, int64_t n)
{
    const struct small s = small_of(f);

    if (is_integer(f))
        narrow_integers(f, x, dst, n);
    else if (f.size == 8)
        for (int64_t i = 0; i < n; i++)
            ((double *)dst)[i] = fn_one_nan(x[i]);
    else if (f.size == 4)
        for (int64_t i = 0; i < n; i++)
            ((float *)dst)[i] = (float)fn_one_nan(x[i]);
    else if (f.size == 2)
        NARROW_AS(uint16_t);
    else
        NARROW_AS(uint8_t);
}

/* ---- tables of function values, by vectors --------------------------------------------------- */

/* SOME: number of elements that look_up16 looks up.  With AVX-512, its 32-bit gathers may read two
 * bytes past the end of a table of 16-bit values. */
#ifdef __AVX512F__
#define SOME 16
/* Looks up SOME elements of two bytes. */
static void look_up16(const uint16_t *table, const uint16_t *src, uint16_t *dst)
{
    __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)src));

    _mm256_storeu_si256((void *)dst, _mm512_cvtepi32_epi16(_mm512_i32gather_epi32(at, table, 2)));
}

/* Looks up bytes in a table that is divided into sixteen parts: in each part a shuffle selects by
 * the lower half of the byte, and masks select the part by the upper half.  Returns the number of
 * elements looked up. */
static int64_t look_up8(const uint8_t *table, const uint8_t *src, uint8_t *dst, int64_t n)
{
    const __m512i four = _mm512_set1_epi8(15);
    __m512i part[16];
    int64_t i = 0;

    for (int p = 0; p < 16; p++)
        part[p] = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(table + 16 * p)));
    for (; i + 64 <= n; i += 64) {
        __m512i v = _mm512_loadu_si512(src + i), low = _mm512_and_si512(v, four), to = v;
        __m512i high = _mm512_and_si512(_mm512_srli_epi16(v, 4), four);

#pragma clang loop unroll(full)
        for (int p = 0; p < 16; p++)
            to = _mm512_mask_shuffle_epi8(
                to, _mm512_cmpeq_epi8_mask(high, _mm512_set1_epi8((char)p)), part[p], low);
        _mm512_storeu_si512(dst + i, to);
    }
    return i;
}

/* Looks up bytes with VBMI, whose permutation instruction selects from 128 bytes. */
__attribute__((target("avx512vbmi")))
void limber_functions_look_up_bytes(const struct lookup *t, const void *src, void *dst, int64_t n)
{
    const uint8_t *table = t->table;
    __m512i part[4];

    for (int p = 0; p < 4; p++)
        part[p] = _mm512_loadu_si512(table + 64 * p);
    for (int64_t i = 0; i < n; i += 64) {
        __mmask64 some = n - i < 64 ? (1ull << (n - i)) - 1 : ~0ull;
        __m512i at = _mm512_maskz_loadu_epi8(some, (const uint8_t *)src + i);
        __m512i low = _mm512_permutex2var_epi8(part[0], at, part[1]);
        __m512i high = _mm512_permutex2var_epi8(part[2], at, part[3]);

        _mm512_mask_storeu_epi8((uint8_t *)dst + i, some,
                                _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
    }
}
#elif defined(__aarch64__)
#define SOME 8
/* Looks up sixteen bytes at a time: TBL selects from 64 bytes, and TBX leaves lanes unchanged whose
 * index is out of range.  Returns the number of elements looked up. */
static int64_t look_up8(const uint8_t *table, const uint8_t *src, uint8_t *dst, int64_t n)
{
    const uint8x16_t part = vdupq_n_u8(64);
    uint8x16x4_t of[4];
    int64_t i = 0;

    for (int p = 0; p < 4; p++)
        of[p] = vld1q_u8_x4(table + 64 * p);
    for (; i + 16 <= n; i += 16) {
        uint8x16_t at = vld1q_u8(src + i), to = vqtbl4q_u8(of[0], at);

        for (int p = 1; p < 4; p++) {
            at = vsubq_u8(at, part);
            to = vqtbx4q_u8(to, of[p], at);
        }
        vst1q_u8(dst + i, to);
    }
    return i;
}

/* Looks up SOME elements of two bytes. */
static void look_up16(const uint16_t *table, const uint16_t *src, uint16_t *dst)
{
    uint16_t v[SOME];

    for (int i = 0; i < SOME; i++)
        v[i] = table[src[i]];
    __builtin_memcpy(dst, v, sizeof v);
}
#else
#define SOME 8
/* Looks up nothing, since these CPUs have no shuffle that is fast enough.  Returns 0. */
static int64_t look_up8(const uint8_t *table, const uint8_t *src, uint8_t *dst, int64_t n)
{
    (void)table, (void)src, (void)dst, (void)n;
    return 0;
}

/* Looks up eight elements by eight loads. */
static void look_up16(const uint16_t *table, const uint16_t *src, uint16_t *dst)
{
    __m128i v = _mm_cvtsi32_si128(table[src[0]]);

    v = _mm_insert_epi16(v, table[src[1]], 1);
    v = _mm_insert_epi16(v, table[src[2]], 2);
    v = _mm_insert_epi16(v, table[src[3]], 3);
    v = _mm_insert_epi16(v, table[src[4]], 4);
    v = _mm_insert_epi16(v, table[src[5]], 5);
    v = _mm_insert_epi16(v, table[src[6]], 6);
    v = _mm_insert_epi16(v, table[src[7]], 7);
    _mm_storeu_si128((void *)dst, v);
}
#endif

#define EACH(from, to) \
    for (; i < n; i++) \
        ((to *)dst)[i] = ((const to *)t->table)[((const from *)src)[i]]

/* Maps n elements of 1 or 2 bytes by a table with an entry for each bit pattern. */
void FOR_ISA(limber_functions_look_up)(const struct lookup *t, const void *src, void *dst,
                                       int64_t n)
{
    int64_t i = 0;

    if (t->from == 2 && t->to == 2) {
        for (; i + SOME <= n; i += SOME)
            look_up16(t->table, (const uint16_t *)src + i, (uint16_t *)dst + i);
        EACH(uint16_t, uint16_t);
    } else if (t->from == 2 && t->to == 1) {
        EACH(uint16_t, uint8_t);
    } else if (t->from == 2) {
        EACH(uint16_t, uint32_t);
    } else if (t->to == 2) {
        EACH(uint8_t, uint16_t);
    } else if (t->to == 1) {
        i = look_up8(t->table, src, dst, n);
        EACH(uint8_t, uint8_t);
    } else {
        EACH(uint8_t, uint32_t);
    }
}
