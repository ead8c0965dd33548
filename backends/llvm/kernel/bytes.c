/* SPDX-License-Identifier: BSD-3-Clause
 * Windows of bytes by signed bytes, for one instruction set.  Lanes are filters.  A word of four
 * channels of a pixel goes to all lanes, so that windows are read where they lie.  Sums of a tile
 * of pixels and filters stay in registers along all of k.
 *
 *   source  vpdpbusd: Intel 64 and IA-32 Architectures SDM, volume 2, VPDPBUSD;
 *           lanes of output channels: Georganas et al., SC 2018, section II */
#include "backends/llvm/kernel/bytes.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#ifndef limber_bytes
#define limber_bytes limber_bytes_avxvnni
#endif
#define FLAT static inline __attribute__((always_inline))

#if defined(__AVX512VNNI__)
typedef int32_t vec __attribute__((vector_size(64)));
FLAT vec multiply_add(vec sum, vec x, vec w)
{
    return (vec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
}
#define ALL_OF(word) ((vec)_mm512_set1_epi32(word))
/* The first `count` lanes; none where it is not positive. */
FLAT void store_some(int32_t *to, vec v, int64_t count)
{
    const unsigned all = 0xffff;

    _mm512_mask_storeu_epi32(to, (__mmask16)(count >= 16 ? all : count > 0 ? ~(all << count) : 0),
                             (__m512i)v);
}
#else
typedef int32_t vec __attribute__((vector_size(32)));
FLAT vec multiply_add(vec sum, vec x, vec w)
{
    return (vec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
}
#define ALL_OF(word) ((vec)_mm256_set1_epi32(word))
FLAT void store_some(int32_t *to, vec v, int64_t count)
{
    const vec lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const int32_t least = count < 8 ? (int32_t)count : 8;

    _mm256_maskstore_epi32(to, (__m256i)(lane < least), (__m256i)v);
}
#endif
enum { LANES = sizeof(vec) / 4 };

FLAT vec word_of(const uint8_t *at)
{
    int32_t word;

    memcpy(&word, at, 4);
    return ALL_OF(word);
}

FLAT vec load(const void *at)
{
    vec v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* `rows` pixels by `vectors` vectors of filters, from `unit` on. */
FLAT void sum_tile(const struct byte_strip *s, int64_t pixel, int unit, int rows, int vectors,
                   bool flips)
{
    const uint8_t *line[8];
    const char *filters = (const char *)s->filters + (size_t)unit * 4 * BYTES_UNIT;
    const int64_t count = s->count - unit * BYTES_UNIT;
    int32_t *to = s->to + pixel * s->row + unit * BYTES_UNIT;
    vec sum[8][4], w[4];

    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
    {
        line[r] = s->line[pixel + r];
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
            sum[r][v] = load(s->start + unit * BYTES_UNIT + v * LANES);
    }
    for (int64_t p = 0; p < s->words; p++, filters += s->step) {
        const int64_t at = s->at[p];

        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
            w[v] = load(filters + (size_t)v * sizeof(vec));
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
        {
            const vec word = word_of(line[r] + at), x = flips ? word ^ s->flip : word;

            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
                sum[r][v] = multiply_add(sum[r][v], x, w[v]);
        }
    }
    if (count >= vectors * LANES) {
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++, to += s->row)
            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
                memcpy(to + v * LANES, &sum[r][v], sizeof(vec));
        return;
    }
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++, to += s->row)
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
            store_some(to + v * LANES, sum[r][v], count - v * LANES);
}

/* Tiles of at most `most` pixels, as even as may be. */
FLAT void sum_all(const struct byte_strip *s, int unit, int most, int vectors, bool flips)
{
    int64_t tiles = (s->pixels + most - 1) / most, pixel = 0;

    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = (s->pixels - pixel) / (tiles - t);

        switch (rows) { /* constants */
        case 1: sum_tile(s, pixel, unit, 1, vectors, flips); break;
        case 2: sum_tile(s, pixel, unit, 2, vectors, flips); break;
        case 3: sum_tile(s, pixel, unit, 3, vectors, flips); break;
        case 4: sum_tile(s, pixel, unit, 4, vectors, flips); break;
        case 5: sum_tile(s, pixel, unit, 5, vectors, flips); break;
        case 6: sum_tile(s, pixel, unit, 6, vectors, flips); break;
        case 7: sum_tile(s, pixel, unit, most < 7 ? 6 : 7, vectors, flips); break;
        default: sum_tile(s, pixel, unit, most < 8 ? 6 : 8, vectors, flips); break;
        }
        pixel += rows;
    }
}

#define SUM_ALL(vectors, most)                                                                 \
    static void sum_##vectors(const struct byte_strip *s, int unit)                            \
    {                                                                                          \
        if (s->flip)                                                                           \
            sum_all(s, unit, most, vectors, true);                                             \
        else                                                                                   \
            sum_all(s, unit, most, vectors, false);                                            \
    }

#if defined(__AVX512VNNI__)
SUM_ALL(1, 8)
SUM_ALL(2, 8)
SUM_ALL(3, 8)
SUM_ALL(4, 6)

void limber_bytes(const struct byte_strip *s)
{
    switch (s->units) {
    case 1: sum_1(s, 0); break;
    case 2: sum_2(s, 0); break;
    case 3: sum_3(s, 0); break;
    default: sum_4(s, 0); break;
    }
}
#else
SUM_ALL(2, 6)

void limber_bytes(const struct byte_strip *s)
{
    for (int unit = 0; unit < s->units; unit++)
        sum_2(s, unit);
}
#endif
