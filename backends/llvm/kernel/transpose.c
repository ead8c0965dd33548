/* SPDX-License-Identifier: BSD-3-Clause
 * Transposition in registers: step s exchanges lane j + s of row i with lane j of row i + s.  With
 * 64-byte registers, sixteen lines are transposed at once.  With shorter registers, as many lines
 * at once as a register has elements, and at last a pair of lines.  The code for a block has no
 * loops, since GCC would not unroll them and would keep the block in memory. */
#include "backends/llvm/kernel/kernel.h"

#include <string.h>

#define FLAT static inline __attribute__((always_inline))

/* Distance in bytes of prefetches from each line's block.  Hardware prefetchers cannot follow so
 * many lines, which often lie on different pages. */
enum { AHEAD = 512 };

#ifdef __AVX512F__
typedef int64_t v8l __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));

/* UPPERn_s and LOWERn_s: what SWAP leaves in the first and in the second of two vectors of n
 * lanes, if lanes are exchanged at distance s. */
#define UPPER8_1(a, b)                                                                          \
    __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define LOWER8_1(a, b)                                                                          \
    __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define UPPER8_2(a, b)                                                                          \
    __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define LOWER8_2(a, b)                                                                          \
    __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define UPPER8_4(a, b)                                                                          \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define LOWER8_4(a, b)                                                                          \
    __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define UPPER16_1(a, b)                                                                         \
    __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
#define LOWER16_1(a, b)                                                                         \
    __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
#define UPPER16_2(a, b)                                                                         \
    __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define LOWER16_2(a, b)                                                                         \
    __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define UPPER16_4(a, b)                                                                         \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define LOWER16_4(a, b)                                                                         \
    __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define UPPER16_8(a, b)                                                                         \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define LOWER16_8(a, b)                                                                         \
    __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)

/* Exchanges, at distance s, lanes of the vectors v[i] and v[i + s] of n lanes. */              \
#define SWAP(v, i, s, n) do {                                                                   \
    __typeof__(v[0]) a_ = v[i], b_ = v[(i) + (s)];                                              \
    v[i] = UPPER##n##_##s(a_, b_);                                                              \
    v[(i) + (s)] = LOWER##n##_##s(a_, b_);                                                      \
} while (0)

/* Transposes 8 x 8 elements of 64 bits. */
FLAT void transpose8(v8l v[8])
{
    SWAP(v, 0, 1, 8); SWAP(v, 2, 1, 8); SWAP(v, 4, 1, 8); SWAP(v, 6, 1, 8);
    SWAP(v, 0, 2, 8); SWAP(v, 1, 2, 8); SWAP(v, 4, 2, 8); SWAP(v, 5, 2, 8);
    SWAP(v, 0, 4, 8); SWAP(v, 1, 4, 8); SWAP(v, 2, 4, 8); SWAP(v, 3, 4, 8);
}

/* Transposes 16 x 16 elements of 32 bits. */
FLAT void transpose16(v16i v[16])
{
    SWAP(v, 0, 1, 16); SWAP(v, 2, 1, 16); SWAP(v, 4, 1, 16); SWAP(v, 6, 1, 16);
    SWAP(v, 8, 1, 16); SWAP(v, 10, 1, 16); SWAP(v, 12, 1, 16); SWAP(v, 14, 1, 16);
    SWAP(v, 0, 2, 16); SWAP(v, 1, 2, 16); SWAP(v, 4, 2, 16); SWAP(v, 5, 2, 16);
    SWAP(v, 8, 2, 16); SWAP(v, 9, 2, 16); SWAP(v, 12, 2, 16); SWAP(v, 13, 2, 16);
    SWAP(v, 0, 4, 16); SWAP(v, 1, 4, 16); SWAP(v, 2, 4, 16); SWAP(v, 3, 4, 16);
    SWAP(v, 8, 4, 16); SWAP(v, 9, 4, 16); SWAP(v, 10, 4, 16); SWAP(v, 11, 4, 16);
    SWAP(v, 0, 8, 16); SWAP(v, 1, 8, 16); SWAP(v, 2, 8, 16); SWAP(v, 3, 8, 16);
    SWAP(v, 4, 8, 16); SWAP(v, 5, 8, 16); SWAP(v, 6, 8, 16); SWAP(v, 7, 8, 16);
}

/* Stores the first `lanes` of 16 elements of `size` bytes. */
FLAT void store_lanes(char *to, const void *v, int lanes, int size)
{
    /* constant lengths for the common cases, so that the compiler inlines memcpy */
    if (lanes == 16)
        memcpy(to, v, (size_t)(16 * size));
    else if (lanes == 12)
        memcpy(to, v, (size_t)(12 * size));
    else
        memcpy(to, v, (size_t)(lanes * size));
}

/* Transposes four lines of eight 64-bit elements: vector i becomes elements i and i + 4 of all four
 * lines. */
FLAT void transpose4(v8l v[4])
{
    SWAP(v, 0, 1, 8); SWAP(v, 2, 1, 8);
    SWAP(v, 0, 2, 8); SWAP(v, 1, 2, 8);
}

/* Transposes eight 64-bit elements, from byte `at` on, of each of twelve lines. */
FLAT void transpose_twelve(const char *const line[16], int64_t at, char *to, int64_t stride)
{
    v8l v[8], w[4];

    for (int i = 0; i < 8; i++) {
        memcpy(&v[i], line[i] + at, sizeof v[i]);
        __builtin_prefetch(line[i] + at + AHEAD);
    }
    for (int i = 0; i < 4; i++) {
        memcpy(&w[i], line[8 + i] + at, sizeof w[i]);
        __builtin_prefetch(line[8 + i] + at + AHEAD);
    }
    transpose8(v);
    transpose4(w);
    for (int i = 0; i < 8; i++) {
        memcpy(to + i * stride, &v[i], 64);
        memcpy(to + i * stride + 64, (char *)&w[i % 4] + i / 4 * 32, 32);
    }
}

/* Transposes eight 64-bit elements, from byte `at` on, of each of sixteen lines.  Stores the first
 * `lanes` lines. */
FLAT void transpose_sixteen(const char *const line[16], int64_t at, int lanes, char *to,
                            int64_t stride)
{
    v8l w[2][8];

    for (int l = 0; l < 2; l++) {
        for (int i = 0; i < 8; i++) {
            memcpy(&w[l][i], line[8 * l + i] + at, sizeof w[l][i]);
            __builtin_prefetch(line[8 * l + i] + at + AHEAD);
        }
        transpose8(w[l]);
    }
    for (int i = 0; i < 8; i++) {
        v8l row[2] = { w[0][i], w[1][i] };

        store_lanes(to + i * stride, row, lanes, 8);
    }
}

/* Transposes sixteen 32-bit elements, from byte `at` on, of each of sixteen lines.  Stores the
 * first `lanes` lines. */
FLAT void turn_words(const char *const line[16], int64_t at, int lanes, char *to, int64_t stride)
{
    v16i v[16] = { { 0 } };

    for (int i = 0; i < (lanes == 12 ? 12 : 16); i++) {
        memcpy(&v[i], line[i] + at, sizeof v[i]);
        __builtin_prefetch(line[i] + at + AHEAD);
    }
    transpose16(v);
    for (int i = 0; i < 16; i++)
        store_lanes(to + i * stride, &v[i], lanes, 4);
}

/* Transposes 64 bytes, from byte `at` on, of each of sixteen lines. */
FLAT void transpose_block(const char *const line[16], int size, int lanes, int64_t at, char *to,
                          int64_t stride)
{
    if (size == 4 && lanes == 12)
        turn_words(line, at, 12, to, stride);
    else if (size == 4)
        turn_words(line, at, lanes, to, stride);
    else if (lanes == 12)
        transpose_twelve(line, at, to, stride);
    else
        transpose_sixteen(line, at, lanes, to, stride);
}

#else
typedef int64_t v2l __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

/* Loads four words of 32 bits. */
FLAT v4i words(const char *at)
{
    v4i v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* Loads two words of 64 bits. */
FLAT v2l longs(const char *at)
{
    v2l v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* Transposes two 64-bit elements of each of two lines. */
FLAT void turn_pairs(const char *a, const char *b, char *to, int64_t stride)
{
    v2l x = longs(a), y = longs(b), low, high;

    low = __builtin_shufflevector(x, y, 0, 2);
    high = __builtin_shufflevector(x, y, 1, 3);
    memcpy(to, &low, sizeof low);
    memcpy(to + stride, &high, sizeof high);
}

/* Transposes four 64-bit elements of each of two lines. */
FLAT void turn_two(const char *const line[], int64_t at, char *to, int64_t stride)
{
    turn_pairs(line[0] + at, line[1] + at, to, stride);
    turn_pairs(line[0] + at + 16, line[1] + at + 16, to + 2 * stride, stride);
}

/* Transposes four 32-bit elements of each of four lines. */
FLAT void transpose_four_quads(const char *const line[], int64_t at, char *to, int64_t stride)
{
    v4i a = words(line[0] + at), b = words(line[1] + at), c = words(line[2] + at),
        d = words(line[3] + at), row;
    v4i ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    v4i cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    v4i more = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4i last = __builtin_shufflevector(c, d, 2, 6, 3, 7);

    row = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    memcpy(to, &row, sizeof row);
    row = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    memcpy(to + stride, &row, sizeof row);
    row = __builtin_shufflevector(more, last, 0, 1, 4, 5);
    memcpy(to + 2 * stride, &row, sizeof row);
    row = __builtin_shufflevector(more, last, 2, 3, 6, 7);
    memcpy(to + 3 * stride, &row, sizeof row);
}

/* Transposes eight 32-bit elements of each of four lines. */
FLAT void turn_four_words(const char *const line[], int64_t at, char *to, int64_t stride)
{
    transpose_four_quads(line, at, to, stride);
    transpose_four_quads(line, at + 16, to + 4 * stride, stride);
}

/* Transposes eight 32-bit elements of each of two lines. */
FLAT void turn_two_words(const char *const line[], int64_t at, char *to, int64_t stride)
{
    for (int half = 0; half < 2; half++, at += 16, to += 4 * stride) {
        v4i a = words(line[0] + at), b = words(line[1] + at);
        v4i low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        v4i high = __builtin_shufflevector(a, b, 2, 6, 3, 7);

        memcpy(to, &low, 8);
        memcpy(to + stride, (char *)&low + 8, 8);
        memcpy(to + 2 * stride, &high, 8);
        memcpy(to + 3 * stride, (char *)&high + 8, 8);
    }
}

#ifdef __AVX2__
typedef int64_t v4l __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));

/* Returns 16 bytes of each of two lines in one vector. */
FLAT v8i both_words(const char *a, const char *b)
{
    return __builtin_shufflevector(words(a), words(b), 0, 1, 2, 3, 4, 5, 6, 7);
}

/* Returns 16 bytes of each of two lines in one vector of 64-bit words. */
FLAT v4l both_longs(const char *a, const char *b)
{
    return __builtin_shufflevector(longs(a), longs(b), 0, 1, 2, 3);
}

/* Transposes four 32-bit elements of each of eight lines. */
FLAT void transpose_eight_quads(const char *const line[], int64_t at, char *to, int64_t stride)
{
    v8i a = both_words(line[0] + at, line[4] + at), b = both_words(line[1] + at, line[5] + at);
    v8i c = both_words(line[2] + at, line[6] + at), d = both_words(line[3] + at, line[7] + at), row;
    v8i ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
    v8i cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
    v8i more = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    v8i last = __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);

    row = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13);
    memcpy(to, &row, sizeof row);
    row = __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    memcpy(to + stride, &row, sizeof row);
    row = __builtin_shufflevector(more, last, 0, 1, 8, 9, 4, 5, 12, 13);
    memcpy(to + 2 * stride, &row, sizeof row);
    row = __builtin_shufflevector(more, last, 2, 3, 10, 11, 6, 7, 14, 15);
    memcpy(to + 3 * stride, &row, sizeof row);
}

/* Transposes two 64-bit elements of each of four lines. */
FLAT void turn_four_pairs(const char *const line[], int64_t at, char *to, int64_t stride)
{
    v4l a = both_longs(line[0] + at, line[2] + at), b = both_longs(line[1] + at, line[3] + at), row;

    row = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    memcpy(to, &row, sizeof row);
    row = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    memcpy(to + stride, &row, sizeof row);
}
#endif

/* Transposes 64 bytes, from byte `at` on, of each of `lanes` lines. */
FLAT void transpose_block(const char *const line[16], int size, int lanes, int64_t at, char *to,
                          int64_t stride)
{
    int count = 64 / size, step = 32 / size, l;

    for (int half = 0; half < 2; half++, at += 32, to += step * stride) {
        l = 0;
#ifdef __AVX2__
        for (; size == 4 && l + 8 <= lanes; l += 8) {
            transpose_eight_quads(line + l, at, to + l * 4, stride);
            transpose_eight_quads(line + l, at + 16, to + l * 4 + 4 * stride, stride);
        }
        for (; size == 8 && l + 4 <= lanes; l += 4) {
            turn_four_pairs(line + l, at, to + l * 8, stride);
            turn_four_pairs(line + l, at + 16, to + l * 8 + 2 * stride, stride);
        }
#endif
        for (; size == 4 && l + 4 <= lanes; l += 4)
            turn_four_words(line + l, at, to + l * 4, stride);
        for (; l + 2 <= lanes; l += 2)
            size == 8 ? turn_two(line + l, at, to + l * 8, stride) :
                        turn_two_words(line + l, at, to + l * 4, stride);
        for (int i = 0; l < lanes && i < count / 2; i++)
            memcpy(to + i * stride + l * size, line[l] + at + i * size, (size_t)size);
    }
}
#endif

/* Transposes all elements, 64 bytes of each line at a time.  Used with constants for the element
 * size and for the numbers of lanes that panels have. */
#define ROWS(size, lanes)                                                                        \
    for (int64_t p = 0; p < count; p += 64 / (size))                                             \
        transpose_block(line, size, lanes, p * (size), to + p * stride, stride)

/* Transposes `count` elements of the first `lanes` of 16 lines (kernel_transpose). */
void FOR_ISA(limber_transpose)(const char *const line[16], int size, int lanes, char *to,
                               int64_t stride, int64_t count)
{
    if (size == 4 && lanes == 6)
        ROWS(4, 6);
    else if (size == 4 && lanes == 12)
        ROWS(4, 12);
    else if (size == 4 && lanes == 16)
        ROWS(4, 16);
    else if (size == 4)
        ROWS(4, lanes);
    else if (lanes == 6)
        ROWS(8, 6);
    else if (lanes == 8)
        ROWS(8, 8);
    else if (lanes == 12)
        ROWS(8, 12);
    else if (lanes == 16)
        ROWS(8, 16);
    else
        ROWS(8, lanes);
}
