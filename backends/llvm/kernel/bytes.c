/* SPDX-License-Identifier: BSD-3-Clause
 * Micro-kernels that multiply windows of 8-bit integers by filters of signed 8-bit integers, built
 * once for each instruction set.  Lanes are filters.  A word of four channels of a pixel is
 * broadcast, so windows are read from the image, not from packed panels.  Without VNNI a word has
 * two channels of 16 bits.  The sums of a tile of pixels and filters stay in registers over all of
 * k.  For NCHW images under 1 x 1 windows, lanes are pixels instead.
 *
 *   source  vpdpbusd, vpmaddwd: Intel 64 and IA-32 Architectures SDM, volume 2;
 *           lanes of output channels: Georganas et al., SC 2018, section II */
#include "backends/llvm/kernel/bytes.h"
#include "backends/llvm/kernel/join.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define FLAT static inline __attribute__((always_inline))

#if defined(__AVX512VNNI__)
typedef int32_t vec __attribute__((vector_size(64)));
/* Returns sum + x * w in each lane: products of groups of four bytes. */
FLAT vec multiply_add(vec sum, vec x, vec w)
{
    return (vec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
}
#define ALL_OF(word) ((vec)_mm512_set1_epi32(word))
/* Stores the first `count` lanes, or nothing if count <= 0. */
FLAT void store_some(int32_t *to, vec v, int64_t count)
{
    const unsigned all = 0xffff;

    _mm512_mask_storeu_epi32(to, (__mmask16)(count >= 16 ? all : count > 0 ? ~(all << count) : 0),
                             (__m512i)v);
}
#else
typedef int32_t vec __attribute__((vector_size(32)));
/* Returns sum + x * w in each lane: products of groups of four bytes, or of two 16-bit elements. */
FLAT vec multiply_add(vec sum, vec x, vec w)
{
#if defined(__AVXVNNI__)
    return (vec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
#else
    return sum + (vec)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#endif
}
#define ALL_OF(word) ((vec)_mm256_set1_epi32(word))
/* Stores the first `count` lanes, or nothing if count <= 0. */
FLAT void store_some(int32_t *to, vec v, int64_t count)
{
    const vec lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const int32_t least = count < 8 ? (int32_t)count : 8;

    _mm256_maskstore_epi32(to, (__m256i)(lane < least), (__m256i)v);
}
#endif
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define FLIPS true /* the signs of a signed image can be flipped while the image is read */
enum { GROUP = 4 }; /* number of channels in a word */
#else
#define FLIPS false
enum { GROUP = 2 };
#endif
enum { LANES = sizeof(vec) / 4 };

/* Returns the word at `at`, broadcast to all lanes. */
FLAT vec word_of(const uint8_t *at)
{
    int32_t word;

    memcpy(&word, at, 4);
    return ALL_OF(word);
}

/* Loads a vector from any address. */
FLAT vec load(const void *at)
{
    vec v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* Computes a tile of `rows` pixels, from `pixel` on, by `vectors` vectors of filters, from number
 * `unit` of the units of sixteen filters on.  flips: flips the signs of the image's bytes. */
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

/* Computes all pixels, in tiles of at most `most` pixels that are as equal as possible, for
 * `vectors` vectors of filters. */
FLAT void sum_all(const struct byte_strip *s, int unit, int most, int vectors, bool flips)
{
    int64_t tiles = (s->pixels + most - 1) / most, pixel = 0;

    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = (s->pixels - pixel) / (tiles - t);

        /* sum_tile is specialised for each number of pixels, which must be a constant */
        switch (rows) {
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
        if (FLIPS && s->flip)                                                                  \
            sum_all(s, unit, most, vectors, true);                                             \
        else                                                                                   \
            sum_all(s, unit, most, vectors, false);                                            \
    }

#if defined(__AVX512VNNI__)
SUM_ALL(1, 8)
SUM_ALL(2, 8)
SUM_ALL(3, 8)
SUM_ALL(4, 6)

/* Multiplies a block of pixels by a strip of filters, for this instruction set. */
void FOR_ISA(limber_bytes)(const struct byte_strip *s)
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
#if !defined(__AVXVNNI__)
SUM_ALL(1, 6) /* a variant for at most eight filters */
#endif

/* Multiplies a block of pixels by a strip of filters, for this instruction set. */
void FOR_ISA(limber_bytes)(const struct byte_strip *s)
{
    for (int unit = 0; unit < s->units; unit++)
#if !defined(__AVXVNNI__)
        if (s->count - unit * BYTES_UNIT <= LANES)
            sum_1(s, unit);
        else
#endif
            sum_2(s, unit);
}
#endif

/* ---- NCHW images: lanes are pixels ----------------------------------------------------------- */

#if defined(__AVX512VNNI__)
/* Loads up to 64 pixels of a channel, and XORs each byte with `flip`. */
FLAT __m512i row_of(const uint8_t *at, int64_t pixels, __m512i flip)
{
    const __mmask64 some = pixels < BYTES_PANEL ? ((__mmask64)1 << pixels) - 1 : ~(__mmask64)0;

    return _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, at), flip);
}

/* Interleaves four channels of up to 64 pixels into words, in the order of the pixels. */
FLAT void join_rows(const uint8_t *const row[GROUP], int64_t pixels, const struct byte_panel *p,
                    uint8_t *to)
{
    const __m512i all = _mm512_set1_epi8((char)p->flip);
    const __m512i a = row_of(row[0], pixels, all), b = row_of(row[1], pixels, all);
    const __m512i c = row_of(row[2], pixels, all), d = row_of(row[3], pixels, all);
    const __m512i ab[2] = { _mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b) };
    const __m512i cd[2] = { _mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d) };
    /* quarter q (128 bits) of x[i] has the words of pixels [16 q + 4 i, 16 q + 4 i + 4) */
    const __m512i x[4] = { _mm512_unpacklo_epi16(ab[0], cd[0]), _mm512_unpackhi_epi16(ab[0], cd[0]),
                           _mm512_unpacklo_epi16(ab[1], cd[1]),
                           _mm512_unpackhi_epi16(ab[1], cd[1]) };
    const __m512i low[2] = { _mm512_shuffle_i32x4(x[0], x[1], 0x44),
                             _mm512_shuffle_i32x4(x[2], x[3], 0x44) };
    const __m512i high[2] = { _mm512_shuffle_i32x4(x[0], x[1], 0xee),
                              _mm512_shuffle_i32x4(x[2], x[3], 0xee) };

    _mm512_storeu_si512(to, _mm512_shuffle_i32x4(low[0], low[1], 0x88));
    _mm512_storeu_si512(to + 64, _mm512_shuffle_i32x4(low[0], low[1], 0xdd));
    _mm512_storeu_si512(to + 128, _mm512_shuffle_i32x4(high[0], high[1], 0x88));
    _mm512_storeu_si512(to + 192, _mm512_shuffle_i32x4(high[0], high[1], 0xdd));
}
/* number of filters, and of vectors of pixels, in a register tile */
enum { FILTERS = 6, VECTORS = 4 };
#else
#if defined(__AVXVNNI__)
/* Interleaves four channels of 32 pixels into words. */
FLAT void join_half(const uint8_t *const row[GROUP], const struct byte_panel *p, uint8_t *to)
{
    const __m256i all = _mm256_set1_epi8((char)p->flip);
    __m256i r[4], ab[2], cd[2], x[4];

    for (int i = 0; i < 4; i++)
        r[i] = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)row[i]), all);
    ab[0] = _mm256_unpacklo_epi8(r[0], r[1]), ab[1] = _mm256_unpackhi_epi8(r[0], r[1]);
    cd[0] = _mm256_unpacklo_epi8(r[2], r[3]), cd[1] = _mm256_unpackhi_epi8(r[2], r[3]);
    for (int i = 0; i < 2; i++) {
        x[2 * i] = _mm256_unpacklo_epi16(ab[i], cd[i]);
        x[2 * i + 1] = _mm256_unpackhi_epi16(ab[i], cd[i]);
    }
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute2x128_si256(x[0], x[1], 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(to + 32), _mm256_permute2x128_si256(x[2], x[3], 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(to + 64), _mm256_permute2x128_si256(x[0], x[1], 0x31));
    _mm256_storeu_si256((__m256i *)(void *)(to + 96), _mm256_permute2x128_si256(x[2], x[3], 0x31));
}
#else
/* Interleaves two channels of 32 pixels, extended to 16 bits. */
FLAT void join_half(const uint8_t *const row[GROUP], const struct byte_panel *p, uint8_t *to)
{
    for (int i = 0; i < 32; i += 16)
        join_two_widened((const char *[]){ (const char *)row[0] + i, (const char *)row[1] + i },
                         p->sign, (char *)to + 4 * i);
}
#endif

/* Interleaves the channels of a word, for up to 64 pixels, in two halves.  Shorter rows are copied
 * first, so that nothing past their end is read. */
FLAT void join_rows(const uint8_t *const row[GROUP], int64_t pixels, const struct byte_panel *p,
                    uint8_t *to)
{
    uint8_t ends[GROUP][BYTES_PANEL] = { { 0 } };
    const uint8_t *at[GROUP], *next[GROUP];

    for (int i = 0; i < GROUP; i++) {
        at[i] = pixels < BYTES_PANEL ? ends[i] : row[i];
        if (pixels < BYTES_PANEL)
            memcpy(ends[i], row[i], (size_t)pixels);
        next[i] = at[i] + 32;
    }
    join_half(at, p, to);
    join_half(next, p, to + 128);
}
enum { FILTERS = 6, VECTORS = 2 };
#endif

/* Packs a panel of pixels.  If the last word has fewer channels than fit, the last channel is
 * repeated, since filters have zeros there. */
void FOR_ISA(limber_bytes_join)(const struct byte_panel *p)
{
    const int64_t last = p->channels - 1;
    uint8_t *to = p->panel;

    for (int64_t c = 0; c <= last; c += GROUP, to += 4 * BYTES_PANEL) {
        const uint8_t *row[GROUP];

        for (int64_t i = 0; i < GROUP; i++)
            row[i] = p->image + (c + i < last ? c + i : last) * p->channel;
        join_rows(row, p->pixels, p, to);
    }
}

/* Computes a tile of `filters` filters, from `filter` on, by `vectors` vectors of pixels, from
 * `pixel` on. */
FLAT void sum_planes(const struct byte_strip *s, const uint8_t *panel, int64_t filter, int filters,
                     int64_t pixel, int vectors)
{
    const char *words = (const char *)s->filters + 4 * filter;
    const int64_t count = s->pixels - pixel;
    vec sum[FILTERS][VECTORS], x[VECTORS];

    _Pragma("GCC unroll 6") for (int f = 0; f < filters; f++)
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
            sum[f][v] = ALL_OF(s->start[filter + f]);
    panel += 4 * pixel;
    for (int64_t p = 0; p < s->words; p++, words += s->step, panel += 4 * BYTES_PANEL) {
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
            x[v] = load(panel + (size_t)v * sizeof(vec));
        _Pragma("GCC unroll 6") for (int f = 0; f < filters; f++)
        {
            const vec w = word_of((const uint8_t *)words + 4 * f);

            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
                sum[f][v] = multiply_add(sum[f][v], x[v], w);
        }
    }
    _Pragma("GCC unroll 6") for (int f = 0; f < filters; f++)
    {
        int32_t *to = s->to + (filter + f) * s->row + pixel;

        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
            if (count >= (v + 1) * LANES)
                memcpy(to + v * LANES, &sum[f][v], sizeof(vec));
            else
                store_some(to + v * LANES, sum[f][v], count - v * LANES);
    }
}

/* Computes all filters, in tiles that are as equal as possible, for `vectors` vectors of pixels. */
FLAT void sum_panel(const struct byte_strip *s, const uint8_t *panel, int64_t pixel, int vectors)
{
    const int64_t tiles = (s->count + FILTERS - 1) / FILTERS;
    int64_t filter = 0;

    for (int64_t t = 0; t < tiles; t++) {
        const int64_t filters = (s->count - filter) / (tiles - t);

        /* sum_planes is specialised for each number of filters, which must be a constant */
        switch (filters) {
        case 1: sum_planes(s, panel, filter, 1, pixel, vectors); break;
        case 2: sum_planes(s, panel, filter, 2, pixel, vectors); break;
        case 3: sum_planes(s, panel, filter, 3, pixel, vectors); break;
        case 4: sum_planes(s, panel, filter, 4, pixel, vectors); break;
        case 5: sum_planes(s, panel, filter, 5, pixel, vectors); break;
        default: sum_planes(s, panel, filter, 6, pixel, vectors); break;
        }
        filter += filters;
    }
}

/* Multiplies a panel of pixels by a strip of filters, some vectors of pixels at a time. */
void FOR_ISA(limber_bytes_planes)(const struct byte_strip *s, const uint8_t *panel)
{
    for (int64_t pixel = 0; pixel < s->pixels; pixel += VECTORS * LANES)
        switch ((s->pixels - pixel + LANES - 1) / LANES) {
        case 1: sum_panel(s, panel, pixel, 1); break;
#if defined(__AVX512VNNI__)
        case 2: sum_panel(s, panel, pixel, 2); break;
        case 3: sum_panel(s, panel, pixel, 3); break;
#endif
        default: sum_panel(s, panel, pixel, VECTORS); break;
        }
}
