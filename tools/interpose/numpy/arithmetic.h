/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of kernels.h for one instruction set.  The including file defines KERNELS, the name
 * of the table.  Compiled with -fwrapv: integers wrap.  Signed and unsigned integers have the same
 * low bits, so all are read as signed. */
#include "kernels.h"

#include <fenv.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX2__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef float floats __attribute__((vector_size(WIDTH)));
typedef int32_t words __attribute__((vector_size(WIDTH)));
typedef int64_t longs __attribute__((vector_size(WIDTH)));

/* ---- register tiles ------------------------------------------------------------------------ */

/* Defines NAME, which adds the product of `rows` rows of A and a strip of ACROSS vectors to c.
 * MULTIPLY_ADD(sum, x, y) has x, an element of A in all lanes, and y, lanes of B. */
#define TILE(NAME, TYPE, VECTOR, ROWS, ACROSS, MULTIPLY_ADD) \
    enum { NAME##_rows = ROWS, NAME##_columns = ACROSS * WIDTH / sizeof(TYPE) }; \
    INLINE void NAME##_of(const int rows, const TYPE *a, const TYPE *b, int64_t k, TYPE *c, \
                          int64_t stride) \
    { \
        const int lanes = WIDTH / sizeof(TYPE); \
        VECTOR sum[ROWS][ACROSS]; \
\
        UNROLL \
        for (int i = 0; i < rows; i++) \
            UNROLL \
        for (int j = 0; j < ACROSS; j++) \
            memcpy(&sum[i][j], c + i * stride + j * lanes, WIDTH); \
        for (int64_t p = 0; p < k; p++, a++, b += ACROSS * lanes) { \
            VECTOR y[ACROSS]; \
\
            UNROLL \
            for (int j = 0; j < ACROSS; j++) \
                memcpy(&y[j], b + j * lanes, WIDTH); \
            UNROLL \
            for (int i = 0; i < rows; i++) { \
                const VECTOR x = a[i * STRIDE] - (VECTOR){ 0 }; \
\
                UNROLL \
                for (int j = 0; j < ACROSS; j++) \
                    MULTIPLY_ADD(sum[i][j], x, y[j]); \
            } \
        } \
        UNROLL \
        for (int i = 0; i < rows; i++) \
            UNROLL \
        for (int j = 0; j < ACROSS; j++) \
            memcpy(c + i * stride + j * lanes, &sum[i][j], WIDTH); \
    } \
    static void NAME(int rows, const void *a, const void *b, int64_t k, void *c, int64_t stride) \
    { \
        if (rows == ROWS) \
            NAME##_of(ROWS, a, b, k, c, stride); \
        else if (rows == 1) \
            NAME##_of(1, a, b, k, c, stride); \
        else \
            for (int i = 0; i < rows; i += 2) \
                NAME##_of(2, (const TYPE *)a + i * STRIDE, b, k, (TYPE *)c + i * stride, stride); \
    }
/* The multiply-adds.  PLAINLY: in whole lanes.  BOTH: for each 32-bit lane, adds the product of the
 * lower halves of x and y and that of the upper halves.  SHORTLY: for 64-bit lanes whose elements
 * fit in 32 bits.  MANY: rows of a tile, as many as the registers hold. */
#define PLAINLY(sum, x, y) sum += x * y

#if WIDTH == 64
#define MANY 12
#define BOTH(sum, x, y) \
    sum = (words)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16((__m512i)(x), (__m512i)(y)))
#define SHORTLY(sum, x, y) \
    sum = (longs)_mm512_add_epi64((__m512i)sum, _mm512_mul_epi32((__m512i)(x), (__m512i)(y)))
#elif WIDTH == 32
#define MANY 6
#define BOTH(sum, x, y) \
    sum = (words)_mm256_add_epi32((__m256i)sum, _mm256_madd_epi16((__m256i)(x), (__m256i)(y)))
#define SHORTLY(sum, x, y) \
    sum = (longs)_mm256_add_epi64((__m256i)sum, _mm256_mul_epi32((__m256i)(x), (__m256i)(y)))
#else
#define MANY 4
#define BOTH(sum, x, y) sum += ((x) << 16 >> 16) * ((y) << 16 >> 16) + ((x) >> 16) * ((y) >> 16)
#define SHORTLY PLAINLY
#endif

TILE(multiply_floats, float, floats, MANY, 2, PLAINLY)
TILE(multiply_pairs, int32_t, words, MANY, 2, BOTH)
TILE(multiply_words, int32_t, words, MANY, 2, PLAINLY)
TILE(multiply_short_longs, int64_t, longs, MANY, 2, SHORTLY)

#if WIDTH == 32
/* AVX2 has no product of 64-bit integers.  With x = xh 2^32 + xl and y likewise, the product is
 * xl yl + (xl yh + xh yl) 2^32 modulo 2^64.  The sums xl yh + xh yl have an accumulator of their
 * own, modulo 2^32. */
enum { multiply_longs_rows = 6, multiply_longs_columns = 4 };
/* Adds products of int64 for `rows` rows of A, a constant at each call, and one strip of B. */
INLINE void multiply_longs_of(const int rows, const int64_t *a, const int64_t *b, int64_t k,
                              int64_t *c, int64_t stride)
{
    __m256i low[6], crossed[6];

    UNROLL
    for (int i = 0; i < rows; i++) {
        low[i] = _mm256_loadu_si256((const void *)(c + i * stride));
        crossed[i] = _mm256_setzero_si256();
    }
    for (int64_t p = 0; p < k; p++, a++, b += 4) {
        const __m256i y = _mm256_loadu_si256((const void *)b),
                      swapped = _mm256_shuffle_epi32(y, 0xb1);

        UNROLL
        for (int i = 0; i < rows; i++) {
            const __m256i x = _mm256_set1_epi64x(a[i * STRIDE]);

            low[i] = _mm256_add_epi64(low[i], _mm256_mul_epu32(x, y));
            crossed[i] = _mm256_add_epi32(crossed[i], _mm256_mullo_epi32(x, swapped));
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        const __m256i both = _mm256_add_epi32(crossed[i], _mm256_srli_epi64(crossed[i], 32));

        _mm256_storeu_si256((void *)(c + i * stride),
                            _mm256_add_epi64(low[i], _mm256_slli_epi64(both, 32)));
    }
}
/* Calls multiply_longs_of with a constant number of rows, so that sums stay in registers. */
static void multiply_longs(int rows, const void *a, const void *b, int64_t k, void *c,
                           int64_t stride)
{
    if (rows == 6)
        multiply_longs_of(6, a, b, k, c, stride);
    else if (rows == 1)
        multiply_longs_of(1, a, b, k, c, stride);
    else
        for (int i = 0; i < rows; i += 2)
            multiply_longs_of(2, (const int64_t *)a + i * STRIDE, b, k, (int64_t *)c + i * stride,
                              stride);
}
#else
TILE(multiply_longs, int64_t, longs, MANY, 2, PLAINLY)
#endif

/* ---- binary16 ------------------------------------------------------------------------------ */

/* Converts a binary16 to a binary32, without exceptions. */
INLINE uint32_t widen(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, f = h & 1023;

    if (e == 0 && f) { /* subnormal */
        const int shift = __builtin_clz(f) - 21;

        return sign | (uint32_t)(113 - shift) << 23 | (f << shift & 1023) << 13;
    }
    return e == 0 ? sign : sign | (e == 31 ? 255 : e + 112) << 23 | f << 13;
}

#if WIDTH == 16 && !defined(__ARM_FP16_FORMAT_IEEE)
/* Rounds a binary32 to binary16, to nearest even. */
INLINE uint16_t narrow(uint32_t x)
{
    const uint32_t sign = x >> 16 & 0x8000, u = x & 0x7fffffff;
    uint32_t half, rest, shift = 13;

    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x1ff));
    if (u >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x33000000)
        return (uint16_t)sign;
    half = u - 0x38000000;
    if (u < 0x38800000) {
        shift = 126 - (u >> 23);
        half = 0x800000 | (u & 0x7fffff);
    }
    rest = half & ((1u << shift) - 1);
    half >>= shift;
    return (uint16_t)(sign | (half + (rest > 1u << (shift - 1) ||
                                      (rest == 1u << (shift - 1) && half & 1))));
}
#endif

/* Converts n numbers from binary16 to binary32. */
static void widen_halves(const uint16_t *from, int64_t n, float *to)
{
    int64_t i = 0;

#if WIDTH == 64
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
#endif
#if WIDTH >= 32
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
#endif
    for (; i < n; i++) {
        const uint32_t x = widen(from[i]);

        memcpy(to + i, &x, 4);
    }
}

/* Rounds n numbers from binary32 to binary16. */
static void narrow_floats(const float *from, int64_t n, uint16_t *to)
{
#if WIDTH >= 32
    for (int64_t i = 0; i < n; i += 8) {
        const int64_t live = n - i < 8 ? n - i : 8;
        __m128i half;

        if (live == 8) {
            half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0);
            _mm_storeu_si128((void *)(to + i), half);
        } else {
            float rest[8] = { 0 };

            memcpy(rest, from + i, (size_t)live * 4);
            half = _mm256_cvtps_ph(_mm256_loadu_ps(rest), 0);
            memcpy(to + i, &half, (size_t)live * 2);
        }
    }
#elif defined(__ARM_FP16_FORMAT_IEEE)
    for (int64_t i = 0; i < n; i++) {
        const __fp16 half = (__fp16)from[i];

        memcpy(to + i, &half, 2);
    }
#else
    for (int64_t i = 0; i < n; i++) {
        uint32_t x;

        memcpy(&x, from + i, 4);
        to[i] = narrow(x);
    }
#endif
}

/* ---- packing ------------------------------------------------------------------------------- */

/* Defines NAME, which reads n elements, `step` bytes apart, as numbers of another type. */
#define ROW(NAME, FROM, TO) \
    INLINE void NAME(const char *from, int64_t step, int64_t n, TO *to) \
    { \
        FROM x; \
\
        if (step == sizeof x) \
            for (int64_t i = 0; i < n; i++) { \
                memcpy(&x, from + i * (int64_t)sizeof x, sizeof x); \
                to[i] = (TO)x; \
            } \
        else \
            for (int64_t i = 0; i < n; i++) { \
                memcpy(&x, from + i * step, sizeof x); \
                to[i] = (TO)x; \
            } \
    }
ROW(row_i8, int8_t, int16_t)
ROW(row_u8, uint8_t, int16_t)
ROW(row_i16, int16_t, int16_t)
ROW(row_i32_short, int32_t, int16_t)
ROW(row_i64_short, int64_t, int16_t)
ROW(row_i32, int32_t, int32_t)
ROW(row_i64, int64_t, int64_t)
ROW(copy_halves, uint16_t, uint16_t)

/* Reads float16 numbers, `step` bytes apart, as binary32. */
INLINE void row_halves(const char *from, int64_t step, int64_t n, float *to)
{
    uint16_t copy[DEPTH];

    if (step == 2 && ((uintptr_t)from & 1) == 0) {
        widen_halves((const uint16_t *)(const void *)from, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i += DEPTH) {
        const int64_t part = n - i < DEPTH ? n - i : DEPTH;

        copy_halves(from + i * step, step, part, copy);
        widen_halves(copy, part, to + i);
    }
}

/* Defines NAME_a and NAME_b, which pack A and B into lanes of one element each. */
#define PACK(NAME, TYPE, SIZE, READ) \
    static void NAME##_a(const struct place *a, int rows, int filled, int64_t k, TYPE *out) \
    { \
        for (int i = 0; i < rows; i++) \
            READ(a->data + i * a->line, a->k, k, out + i * STRIDE); \
        for (int i = rows; i < filled; i++) \
            memset(out + i * STRIDE, 0, (size_t)k * sizeof(TYPE)); \
    } \
    static void NAME##_b(const struct place *b, int live, int columns, int64_t k, TYPE *out) \
    { \
        TYPE column[DEPTH]; \
\
        if (live < columns) \
            memset(out, 0, (size_t)k *(size_t)columns * sizeof(TYPE)); \
        if (b->k == SIZE && b->line != SIZE) \
            for (int j = 0; j < live; j++) { \
                READ(b->data + j * b->line, SIZE, k, column); \
                for (int64_t p = 0; p < k; p++) \
                    out[p * columns + j] = column[p]; \
            } \
        else \
            for (int64_t p = 0; p < k; p++) \
                READ(b->data + p * b->k, b->line, live, out + p * columns); \
    }
PACK(floats, float, 2, row_halves)
PACK(words, int32_t, 4, row_i32)
PACK(longs, int64_t, 8, row_i64)

/* Defines NAME_a and NAME_b, which pack A and B into lanes of two int16 each, successive along
 * k. */
#define PACK_PAIRS(NAME, SIZE, READ) \
    static void NAME##_a(const struct place *a, int rows, int filled, int64_t k, int16_t *out) \
    { \
        for (int i = 0; i < rows; i++, out += 2 * STRIDE) { \
            READ(a->data + i * a->line, a->k, k, out); \
            out[k] = 0; \
        } \
        for (int i = rows; i < filled; i++, out += 2 * STRIDE) \
            memset(out, 0, (size_t)(k + 1) * sizeof *out); \
    } \
    static void NAME##_b(const struct place *b, int live, int columns, int64_t k, int16_t *out) \
    { \
        int16_t first[STRIP], second[STRIP], column[2 * DEPTH + 2]; \
\
        if (b->k == SIZE && b->line != SIZE) { \
            if (live < columns) \
                memset(out, 0, (size_t)(k + 1) / 2 * (size_t)columns * 4); \
            for (int j = 0; j < live; j++) { \
                READ(b->data + j * b->line, SIZE, k, column); \
                column[k] = 0; \
                for (int64_t p = 0; p < k; p += 2) \
                    memcpy(out + p * columns + 2 * j, column + p, 4); \
            } \
            return; \
        } \
        memset(first, 0, sizeof first); \
        memset(second, 0, sizeof second); \
        for (int64_t p = 0; p < k; p += 2, out += 2 * columns) { \
            READ(b->data + p * b->k, b->line, live, first); \
            if (p + 1 < k) \
                READ(b->data + (p + 1) * b->k, b->line, live, second); \
            else \
                memset(second, 0, sizeof second); \
            for (int j = 0; j < columns; j++) { \
                out[2 * j] = first[j]; \
                out[2 * j + 1] = second[j]; \
            } \
        } \
    }
PACK_PAIRS(pairs_i8, 1, row_i8)
PACK_PAIRS(pairs_u8, 1, row_u8)
PACK_PAIRS(pairs_i16, 2, row_i16)
PACK_PAIRS(pairs_i32, 4, row_i32_short)
PACK_PAIRS(pairs_i64, 8, row_i64_short)

/* Packs rows of A by the function for these types of elements and lanes. */
static void pack_a(enum lanes to, enum element from, const struct place *a, int rows, int filled,
                   int64_t k, void *out)
{
    if (to == FLOATS)
        floats_a(a, rows, filled, k, out);
    else if (to == WORDS)
        words_a(a, rows, filled, k, out);
    else if (to != PAIRS)
        longs_a(a, rows, filled, k, out);
    else if (from == I8)
        pairs_i8_a(a, rows, filled, k, out);
    else if (from == U8)
        pairs_u8_a(a, rows, filled, k, out);
    else if (from == I16)
        pairs_i16_a(a, rows, filled, k, out);
    else if (from == I32)
        pairs_i32_a(a, rows, filled, k, out);
    else
        pairs_i64_a(a, rows, filled, k, out);
}

/* Packs columns of B by the function for these types of elements and lanes. */
static void pack_b(enum lanes to, enum element from, const struct place *b, int live, int columns,
                   int64_t k, void *out)
{
    if (to == FLOATS)
        floats_b(b, live, columns, k, out);
    else if (to == WORDS)
        words_b(b, live, columns, k, out);
    else if (to != PAIRS)
        longs_b(b, live, columns, k, out);
    else if (from == I8)
        pairs_i8_b(b, live, columns, k, out);
    else if (from == U8)
        pairs_u8_b(b, live, columns, k, out);
    else if (from == I16)
        pairs_i16_b(b, live, columns, k, out);
    else if (from == I32)
        pairs_i32_b(b, live, columns, k, out);
    else
        pairs_i64_b(b, live, columns, k, out);
}

/* Returns the OR of n elements, each XORed with its sign. */
static uint64_t scan(enum element from, const char *data, int64_t n)
{
    uint64_t all = 0;
    uint32_t all32 = 0;
    uint16_t all16 = 0;

    if (from == I16)
        for (int64_t i = 0; i < n; i++) {
            int16_t x;

            memcpy(&x, data + i * 2, 2);
            all16 |= (uint16_t)(x ^ x >> 15);
        }
    else if (from == I32)
        for (int64_t i = 0; i < n; i++) {
            int32_t x;

            memcpy(&x, data + i * 4, 4);
            all32 |= (uint32_t)(x ^ x >> 31);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            int64_t x;

            memcpy(&x, data + i * 8, 8);
            all |= (uint64_t)(x ^ x >> 63);
        }
    return all | all32 | all16;
}

/* ---- storing ------------------------------------------------------------------------------- */

#define STORE(FROM, TO) \
    do { \
        const FROM *sum = sums; \
\
        if (step == sizeof(TO)) \
            for (int64_t i = 0; i < n; i++) { \
                const TO x = (TO)sum[i]; \
\
                memcpy(to + i * (int64_t)sizeof x, &x, sizeof x); \
            } \
        else \
            for (int64_t i = 0; i < n; i++) { \
                const TO x = (TO)sum[i]; \
\
                memcpy(to + i * step, &x, sizeof x); \
            } \
    } while (0)

/* Stores at most DEPTH sums as binary16.  Returns the exceptions of the conversion; sets *nan if
 * a result is NaN. */
static int store_halves(const float *sums, int64_t n, char *to, int64_t step, bool *nan)
{
    uint16_t half[DEPTH] = { 0 };
    float back[DEPTH];
    int over = 0, under = 0, nans = 0;

    narrow_floats(sums, n, half);
    widen_halves(half, n, back);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u, v;

        memcpy(&u, sums + i, 4);
        memcpy(&v, back + i, 4);
        u &= 0x7fffffff;
        v &= 0x7fffffff;
        over |= (u < 0x7f800000) & (v == 0x7f800000);
        under |= (u < 0x38800000) & (u != v);
        nans |= u > 0x7f800000;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * step, half + i, 2);
    *nan = *nan || nans;
    return (over ? FE_OVERFLOW : 0) | (under ? FE_UNDERFLOW : 0);
}

/* Stores sums as elements of a type; returns the floating-point exceptions of the conversion. */
static int store(enum lanes from, enum element type, const void *sums, int64_t n, char *to,
                 int64_t step, bool *nan)
{
    int raised = 0;

    if (type == HALF)
        for (int64_t i = 0; i < n; i += DEPTH)
            raised |= store_halves((const float *)sums + i, n - i < DEPTH ? n - i : DEPTH,
                                   to + i * step, step, nan);
    else if (from >= SHORT_LONGS)
        STORE(int64_t, int64_t);
    else if (type == I32)
        STORE(int32_t, int32_t);
    else if (type == I16)
        STORE(int32_t, int16_t);
    else
        STORE(int32_t, int8_t);
    return raised;
}

/* ---- vectors ------------------------------------------------------------------------------- */

/* Elements are loaded by memcpy: NumPy aligns arrays before it calls a loop, but a program may
 * call a loop itself. */
#define DOT(TYPE, SUM) \
    do { \
        const char *x = a, *y = b; \
        SUM sum = 0; \
\
        for (int64_t i = 0; i < n; i++) { \
            TYPE u, v; \
\
            memcpy(&u, x + i * (int64_t)sizeof u, sizeof u); \
            memcpy(&v, y + i * (int64_t)sizeof v, sizeof v); \
            sum += (SUM)u * (SUM)v; \
        } \
        return (uint64_t)sum; \
    } while (0)

/* Returns a dot product of integers, modulo 2^64. */
static uint64_t dot(enum element from, const void *a, const void *b, int64_t n)
{
    switch (from) {
    case I8:
    case U8: DOT(int8_t, int32_t);
    case I16: DOT(int16_t, int32_t);
    case I32: DOT(int32_t, int32_t);
    default: DOT(int64_t, int64_t);
    }
}

/* Returns a dot product in binary32 of n numbers in binary16, in the order of the elements. */
static float dot_of_halves(const uint16_t *a, const uint16_t *b, int64_t n)
{
    float x[DEPTH], y[DEPTH], sum = 0;

    for (int64_t i = 0; i < n; i += DEPTH) {
        const int64_t part = n - i < DEPTH ? n - i : DEPTH;

        widen_halves(a + i, part, x);
        widen_halves(b + i, part, y);
        for (int64_t j = 0; j < part; j++)
            x[j] *= y[j];
        for (int64_t j = 0; j < part; j++)
            sum += x[j];
    }
    return sum;
}

#define MULTIPLE(TYPE) \
    do { \
        TYPE *to = sum, v; \
\
        memcpy(&v, x, sizeof v); \
        for (int64_t i = 0; i < n; i++) { \
            TYPE u; \
\
            memcpy(&u, (const char *)row + i * (int64_t)sizeof u, sizeof u); \
            to[i] = (TYPE)(to[i] + u * v); \
        } \
    } while (0)

/* Adds a row times *x to the sums. */
static void add_multiple(enum element from, const void *row, const void *x, int64_t n, void *sum)
{
    switch (from) {
    case I8:
    case U8: MULTIPLE(int8_t); break;
    case I16: MULTIPLE(int16_t); break;
    case I32: MULTIPLE(int32_t); break;
    default: MULTIPLE(int64_t); break;
    }
}

/* ---- truth values -------------------------------------------------------------------------- */

/* True if a[i] and b[i] are both nonzero for some i. */
static bool have_common_true(const uint8_t *a, const uint8_t *b, int64_t n)
{
    int64_t i = 0;

    for (; i < 16 && i < n; i++) /* dense data usually has a match among the first 16 elements */
        if (a[i] && b[i])
            return true;
    for (; i < n; i += DEPTH) {
        const int64_t end = n - i < DEPTH ? n : i + DEPTH;
        uint8_t met = 0;

        for (int64_t j = i; j < end; j++)
            met |= (uint8_t)((a[j] != 0) & (b[j] != 0));
        if (met)
            return true;
    }
    return false;
}

/* Packs n truth values into bits. */
static void to_bits(const uint8_t *row, int64_t n, uint64_t *bits)
{
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t live = n - i < 64 ? n - i : 64;
        uint8_t part[64] = { 0 };
        uint64_t word = 0;

        if (live == 64)
            memcpy(part, row + i, 64);
        else
            memcpy(part, row + i, (size_t)live);
#if WIDTH == 64
        word = _mm512_test_epi8_mask(_mm512_loadu_si512(part), _mm512_loadu_si512(part));
#else
        for (int j = 0; j < 64; j += 8) {
            uint64_t eight;

            memcpy(&eight, part + j, 8);
            /* sets the lowest bit of each byte that is not zero; the product then collects the
             * eight bits */
            eight = (eight | ((eight & 0x7f7f7f7f7f7f7f7f) + 0x7f7f7f7f7f7f7f7f)) >> 7 &
                    0x0101010101010101;
            word |= (eight * 0x0102040810204080 >> 56) << j;
        }
#endif
        bits[i / 64] = word;
    }
}

/* Unpacks n bits into bytes that are 0 or 1. */
static void from_bits(const uint64_t *bits, int64_t n, uint8_t *row)
{
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t live = n - i < 64 ? n - i : 64;
        uint8_t part[64];

#if WIDTH == 64
        _mm512_storeu_si512(part, _mm512_maskz_set1_epi8(bits[i / 64], 1));
#else
        for (int j = 0; j < 64; j += 8) {
            /* byte b of the product has bit b of the eight bits */
            uint64_t eight = (bits[i / 64] >> j & 255) * 0x0101010101010101 & 0x8040201008040201;

            eight = (((eight & 0x7f7f7f7f7f7f7f7f) + 0x7f7f7f7f7f7f7f7f) | eight) >> 7 &
                    0x0101010101010101;
            memcpy(part + j, &eight, 8);
        }
#endif
        if (live == 64)
            memcpy(row + i, part, 64);
        else
            memcpy(row + i, part, (size_t)live);
    }
}

/* Does what join() does for rows of `count` words, a constant at each call. */
INLINE void join_of(const uint8_t *take, const uint64_t *bits, int64_t k, const int count,
                    const uint64_t *full, uint64_t *sum)
{
    uint64_t made[WORDS_OF_BITS];

    memcpy(made, sum, (size_t)count * 8);
    for (int64_t p = 0; p < k; p += 16) {
        const int64_t end = k - p < 16 ? k : p + 16;
        uint64_t lacks = 0;

        for (int64_t q = p; q < end; q++) {
            const uint64_t mask = 0 - (uint64_t)(take[q] != 0);

            for (int i = 0; i < count; i++)
                made[i] |= bits[q * count + i] & mask;
        }
        for (int i = 0; i < count; i++)
            lacks |= full[i] & ~made[i];
        if (!lacks)
            break;
    }
    memcpy(sum, made, (size_t)count * 8);
}

/* ORs the selected rows of bits to `sum`, until all bits of `full` are set. */
static void join(const uint8_t *take, const uint64_t *bits, int64_t k, int count,
                 const uint64_t *full, uint64_t *sum)
{
    if (count == 1)
        join_of(take, bits, k, 1, full, sum);
    else if (count == 8)
        join_of(take, bits, k, 8, full, sum);
    else
        join_of(take, bits, k, WORDS_OF_BITS, full, sum);
}

#define MULTIPLIER(name) { name##_rows, name##_columns, name }
const struct kernels KERNELS = {
    .name = WIDTH == 64 ? "avx512" :
            WIDTH == 32 ? "avx2" :
                          "plain",
    .multiply = { [FLOATS] = MULTIPLIER(multiply_floats),
                  [PAIRS] = MULTIPLIER(multiply_pairs),
                  [WORDS] = MULTIPLIER(multiply_words),
                  [SHORT_LONGS] = MULTIPLIER(multiply_short_longs),
                  [LONGS] = MULTIPLIER(multiply_longs) },
    .pack_a = pack_a,
    .pack_b = pack_b,
    .scan = scan,
    .store = store,
    .dot = dot,
    .dot_of_halves = dot_of_halves,
    .add_multiple = add_multiple,
    .have_common_true = have_common_true,
    .to_bits = to_bits,
    .from_bits = from_bits,
    .join = join,
};
