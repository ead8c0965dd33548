/* SPDX-License-Identifier: BSD-3-Clause
 * Shuffles, masks, and partial loads and stores for depthwise.c, for each instruction set and
 * element size.  A suffix _2, _4, _8 or _16 is a number of lanes or, in names such as
 * MASKED_STORE_4, the bytes of an element. */

/* Interleave lanes of a and b, from lane i on.  i = 0 interleaves their lower halves. */
#define ZIP_4(a, b, i) __builtin_shufflevector(a, b, (i), 4 + (i), 1 + (i), 5 + (i))
#define ZIP_8(a, b, i) \
    __builtin_shufflevector(a, b, (i), 8 + (i), 1 + (i), 9 + (i), 2 + (i), 10 + (i), 3 + (i), \
                            11 + (i))
#define ZIP_16(a, b, i) \
    __builtin_shufflevector(a, b, (i), 16 + (i), 1 + (i), 17 + (i), 2 + (i), 18 + (i), 3 + (i), \
                            19 + (i), 4 + (i), 20 + (i), 5 + (i), 21 + (i), 6 + (i), 22 + (i), \
                            7 + (i), 23 + (i))
#define ZIP_2(a, b, i) __builtin_shufflevector(a, b, (i), 2 + (i))
/* Initialisers of a vector with x in all lanes. */
#define SAME_2(x) { x, x }
#define SAME_4(x) { x, x, x, x }
#define SAME_8(x) { x, x, x, x, x, x, x, x }
#define SAME_16(x) { x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }
/* The odd lanes of a, then those of b.  (EVEN_2 and so on: the even lanes.) */
#define ODD_2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define ODD_4(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ODD_8(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define ODD_16(a, b) \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
/* Shift by one lane: the lanes of a from the second on, then the first lane of b. */
#define NEXT_2(a, b) __builtin_shufflevector(a, b, 1, 2)
#define NEXT_4(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4)
#define NEXT_8(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8)
#define NEXT_16(a, b) \
    __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#define EVEN_2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define EVEN_4(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define EVEN_8(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define EVEN_16(a, b) \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)

/* Stores the first `lanes` of the lanes 0, step, 2 * step, and so on, contiguously. */
#define STORE_LANES(c, v, lanes, most, step) \
    do { \
        UNROLL for (int lane = 0; lane < (most); lane++) \
            if (lane < (lanes)) \
                (c)[(step) * lane] = (v)[(step) * lane]; \
    } while (0)

#if defined(__AVX512F__)
enum { VECTOR = 64, HALVED = 64 };
#define LANES_OF_4 16
#define LANES_OF_8 8
typedef int32_t lane_4;
typedef int64_t lane_8;
#define SIGNS_4(v) _mm512_movepi32_mask((__m512i)(v))
#define SIGNS_8(v) _mm512_movepi64_mask((__m512i)(v))
/* Transposes the 128-bit quarters of four registers: register q of `to` becomes quarter q of
 * each. */
#define TURN_QUARTERS(lanes, type, f, to, apart) \
    do { \
        const type low[] = { HALF_##lanes((f)[0], (f)[1], 0), HALF_##lanes((f)[2], (f)[3], 0) }; \
        const type high[] = { HALF_##lanes((f)[0], (f)[1], lanes / 2), \
                              HALF_##lanes((f)[2], (f)[3], lanes / 2) }; \
\
        (to)[0] = QUARTER_##lanes(low[0], low[1], 0); \
        (to)[apart] = QUARTER_##lanes(low[0], low[1], lanes / 4); \
        (to)[2 * (apart)] = QUARTER_##lanes(high[0], high[1], 0); \
        (to)[3 * (apart)] = QUARTER_##lanes(high[0], high[1], lanes / 4); \
    } while (0)
/* HALF joins one half of each of two registers.  QUARTER joins every other quarter of two
 * registers. */
#define HALF_8(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 2, (n) + 3, (n) + 8, (n) + 9, (n) + 10, \
                            (n) + 11)
#define HALF_16(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 2, (n) + 3, (n) + 4, (n) + 5, (n) + 6, \
                            (n) + 7, (n) + 16, (n) + 17, (n) + 18, (n) + 19, (n) + 20, (n) + 21, \
                            (n) + 22, (n) + 23)
#define QUARTER_8(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 4, (n) + 5, (n) + 8, (n) + 9, (n) + 12, \
                            (n) + 13)
#define QUARTER_16(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 2, (n) + 3, (n) + 8, (n) + 9, (n) + 10, \
                            (n) + 11, (n) + 16, (n) + 17, (n) + 18, (n) + 19, (n) + 24, (n) + 25, \
                            (n) + 26, (n) + 27)
/* Interleave lanes of two registers within each 128-bit quarter, from lane n of the quarter on:
 * single lanes (MIX_8, MIX_16), or pairs of lanes (MIX_TWO). */
#define MIX_8(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 8, (n) + 2, (n) + 10, (n) + 4, (n) + 12, (n) + 6, \
                            (n) + 14)
#define MIX_16(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 16, (n) + 1, (n) + 17, (n) + 4, (n) + 20, (n) + 5, \
                            (n) + 21, (n) + 8, (n) + 24, (n) + 9, (n) + 25, (n) + 12, (n) + 28, \
                            (n) + 13, (n) + 29)
#define MIX_TWO(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 16, (n) + 17, (n) + 4, (n) + 5, (n) + 20, \
                            (n) + 21, (n) + 8, (n) + 9, (n) + 24, (n) + 25, (n) + 12, (n) + 13, \
                            (n) + 28, (n) + 29)
/* Transposes 16 x 16 lanes: first 4 x 4 lanes within the quarters (128 bits), then the quarters. */
#define TURN_HALVES_4(type, v) \
    do { \
        type four[4][4]; \
\
        UNROLL for (int i = 0; i < 4; i++) { \
            const type one[] = { MIX_16((v)[4 * i], (v)[4 * i + 1], 0), \
                                 MIX_16((v)[4 * i], (v)[4 * i + 1], 2) }; \
            const type two[] = { MIX_16((v)[4 * i + 2], (v)[4 * i + 3], 0), \
                                 MIX_16((v)[4 * i + 2], (v)[4 * i + 3], 2) }; \
\
            UNROLL for (int n = 0; n < 2; n++) { \
                four[2 * n][i] = MIX_TWO(one[n], two[n], 0); \
                four[2 * n + 1][i] = MIX_TWO(one[n], two[n], 2); \
            } \
        } \
        UNROLL for (int j = 0; j < 4; j++) \
            TURN_QUARTERS(16, type, four[j], &(v)[j], 4); \
    } while (0)
/* Transposes 8 x 8 lanes. */
#define TURN_HALVES_8(type, v) \
    do { \
        type two[2][4]; \
\
        UNROLL for (int i = 0; i < 4; i++) { \
            two[0][i] = MIX_8((v)[2 * i], (v)[2 * i + 1], 0); \
            two[1][i] = MIX_8((v)[2 * i], (v)[2 * i + 1], 1); \
        } \
        UNROLL for (int j = 0; j < 2; j++) \
            TURN_QUARTERS(8, type, two[j], &(v)[j], 2); \
    } while (0)
#define REGISTER "+v"
/* Mask of the lanes [from, end). */
#define BETWEEN(from, end) ((1u << (end)) - (1u << (from)))
/* Load the lanes [from, end), and zeros into all other lanes. */
#define PICKED_LOAD_1(p, from, end) _mm_maskz_loadu_epi8((__mmask16)BETWEEN(from, end), p)
#define PICKED_LOAD_4(p, from, end) _mm512_maskz_loadu_epi32((__mmask16)BETWEEN(from, end), p)
#define PICKED_LOAD_8(p, from, end) _mm512_maskz_loadu_epi64((__mmask8)BETWEEN(from, end), p)
/* VALIGN in assembly, since compilers would choose permutations of two registers, which overwrite
 * an operand. */
#define ALIGN(size, n, a, b) ({ \
    VEC aligned; \
    __asm__("valign" size " $" #n ", %1, %2, %0" : "=v"(aligned) : "v"(a), "v"(b)); \
    aligned; \
})
#define NEXT_ONE_4(a, b) ALIGN("d", 1, a, b)
#define NEXT_ONE_8(a, b) ALIGN("q", 1, a, b)
#define NEXT_BUT_ONE_4(a, b) ALIGN("d", 2, a, b)
#define NEXT_BUT_ONE_8(a, b) ALIGN("q", 2, a, b)
/* Loads two floats of a row of w elements, from `first` on, into the first two lanes.  Elements
 * outside of the row are zero. */
FLAT __m512 look_beyond_4(const float *row, int64_t first, int64_t w)
{
    const int64_t from = least(first < 0 ? -first : 0, 2);
    const int64_t end = least(first < w ? w - first : 0, 2);

    return _mm512_zextps128_ps512(_mm_maskz_loadu_ps((__mmask8)BETWEEN(from, end), row + first));
}

/* Loads two doubles of a row of w elements, from `first` on, into the first two lanes.  Elements
 * outside of the row are zero. */
FLAT __m512d look_beyond_8(const double *row, int64_t first, int64_t w)
{
    const int64_t from = least(first < 0 ? -first : 0, 2);
    const int64_t end = least(first < w ? w - first : 0, 2);

    return _mm512_zextpd128_pd512(_mm_maskz_loadu_pd((__mmask8)BETWEEN(from, end), row + first));
}

/* Permutes lanes: lane i of the result is lane lane[i] of a.  Lanes that are not in the mask become
 * zero.  Written as assembly, since compilers emit two instructions. */
#define PICK(size, some, lane, a) ({ \
    VEC picked; \
    __asm__("vperm" size " %1, %2, %0%{%3%}%{z%}" \
            : "=v"(picked) \
            : "v"(a), "v"(lane), "Yk"((__mmask16)(some))); \
    picked; \
})
#define PICK_4(some, lane, a) PICK("d", some, lane, a)
#define PICK_8(some, lane, a) PICK("q", some, lane, a)
/* Permutes the lanes of two registers.  Lanes of b are numbered after those of a. */
#define PICK_OF_TWO(size, some, lane, a, b) ({ \
    VEC picked = (a); \
    __asm__("vpermt2" size " %1, %2, %0%{%3%}%{z%}" \
            : "+v"(picked) \
            : "v"(b), "v"(lane), "Yk"((__mmask16)(some))); \
    picked; \
})
#define PICK_OF_TWO_4(some, lane, a, b) PICK_OF_TWO("d", some, lane, a, b)
#define PICK_OF_TWO_8(some, lane, a, b) PICK_OF_TWO("q", some, lane, a, b)
#define MASKED_STORE_4(c, v, lanes) \
    _mm512_mask_storeu_epi32(c, (__mmask16)((1u << (lanes)) - 1), (__m512i)(v))
#define MASKED_STORE_8(c, v, lanes) \
    _mm512_mask_storeu_epi64(c, (__mmask8)((1u << (lanes)) - 1), (__m512i)(v))
/* A set of lanes, as a mask for masked loads and stores. */
typedef uint32_t some_lanes;
/* Returns the set of lanes [from, end). */
FLAT some_lanes lanes_between(int64_t from, int64_t end)
{
    return BETWEEN(from, end);
}
#define LANES_LOAD_1(p, some) _mm_maskz_loadu_epi8((__mmask16)(some), p)
#define LANES_LOAD_4(p, some) _mm512_maskz_loadu_epi32((__mmask16)(some), p)
#define LANES_LOAD_8(p, some) _mm512_maskz_loadu_epi64((__mmask8)(some), p)
#define LANES_STORE_4(p, v, some) _mm512_mask_storeu_epi32(p, (__mmask16)(some), (__m512i)(v))
#define LANES_STORE_8(p, v, some) _mm512_mask_storeu_epi64(p, (__mmask8)(some), (__m512i)(v))
/* Store the first `lanes` of the lanes 0, 2, 4, and so on. */
#define EVEN_STORE_4(c, v, lanes) \
    _mm512_mask_storeu_epi32(c, (__mmask16)(0x5555 & ((1u << 2 * (lanes)) - 1)), (__m512i)(v))
#define EVEN_STORE_8(c, v, lanes) \
    _mm512_mask_storeu_epi64(c, (__mmask8)(0x55 & ((1u << 2 * (lanes)) - 1)), (__m512i)(v))
#elif defined(__aarch64__)
enum { VECTOR = 16, HALVED = 0 };
#define LANES_OF_4 4
#define LANES_OF_8 2
#define TURN_HALVES_4(type, v)
#define TURN_HALVES_8(type, v)
#define REGISTER "+w"
typedef float lanes4 __attribute__((vector_size(16)));
typedef double lanes2 __attribute__((vector_size(16)));
#define PICK_LANES(type, p, from, end, most) ({ \
    type picked = { 0 }; \
    UNROLL for (int lane = 0; lane < (most); lane++) \
        if (lane >= (from) && lane < (end)) \
            picked[lane] = (p)[lane]; \
    picked; \
})
#define PICKED_LOAD_4(p, from, end) PICK_LANES(lanes4, p, from, end, 4)
#define PICKED_LOAD_8(p, from, end) PICK_LANES(lanes2, p, from, end, 2)
#define MASKED_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 4, 1)
#define MASKED_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 2, 1)
#define EVEN_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 2, 2)
#define EVEN_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 1, 2)
#else
enum { VECTOR = 32, HALVED = 32 };
#define LANES_OF_4 8
#define LANES_OF_8 4
/* Transposes 8 x 8 lanes: pairs of rows, groups of four rows, then halves. */
#define TURN_HALVES_4(type, v) \
    do { \
        type pair[8], four[8]; \
\
        UNROLL for (int i = 0; i < 8; i += 2) { \
            pair[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13); \
            pair[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15); \
        } \
        UNROLL for (int i = 0; i < 8; i += 4) \
            UNROLL for (int n = 0; n < 2; n++) { \
                four[i + 2 * n] = __builtin_shufflevector(pair[i + n], pair[i + n + 2], 0, 1, 8, \
                                                          9, 4, 5, 12, 13); \
                four[i + 2 * n + 1] = __builtin_shufflevector(pair[i + n], pair[i + n + 2], 2, 3, \
                                                              10, 11, 6, 7, 14, 15); \
            } \
        UNROLL for (int i = 0; i < 4; i++) { \
            v[i] = __builtin_shufflevector(four[i], four[i + 4], 0, 1, 2, 3, 8, 9, 10, 11); \
            v[i + 4] = __builtin_shufflevector(four[i], four[i + 4], 4, 5, 6, 7, 12, 13, 14, 15); \
        } \
    } while (0)
/* Transposes 4 x 4 lanes. */
#define TURN_HALVES_8(type, v) \
    do { \
        type pair[4]; \
\
        UNROLL for (int i = 0; i < 4; i += 2) { \
            pair[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 4, 2, 6); \
            pair[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 1, 5, 3, 7); \
        } \
        UNROLL for (int i = 0; i < 2; i++) { \
            v[i] = __builtin_shufflevector(pair[i], pair[i + 2], 0, 1, 4, 5); \
            v[i + 2] = __builtin_shufflevector(pair[i], pair[i + 2], 2, 3, 6, 7); \
        } \
    } while (0)
#define REGISTER "+x"
/* Mask of the lanes [from, end); `which` holds the numbers of the lanes. */
#define BETWEEN(bits, which, from, end) \
    _mm256_andnot_si256(_mm256_cmpgt_epi##bits(SPREAD_##bits(from), which), \
                        _mm256_cmpgt_epi##bits(SPREAD_##bits(end), which))
#define SPREAD_32(i) _mm256_set1_epi32((int)(i))
#define SPREAD_64(i) _mm256_set1_epi64x(i)
#define PICKED_LOAD_4(p, from, end) \
    _mm256_maskload_epi32((const int *)(p), \
                          BETWEEN(32, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), from, end))
#define PICKED_LOAD_8(p, from, end) \
    _mm256_maskload_epi64((const long long *)(p), \
                          BETWEEN(64, _mm256_setr_epi64x(0, 1, 2, 3), from, end))
/* Stores the first `lanes` lanes, of four bytes each, by stores of 16, 8 and 4 bytes.  On AMD CPUs
 * a masked store is as slow as a dozen such stores. */
FLAT void store_some(void *c, __m256i v, int64_t lanes)
{
    char *to = c;
    __m128i part = _mm256_castsi256_si128(v);

    if (lanes >= 8) {
        _mm256_storeu_si256((__m256i *)c, v);
        return;
    }
    if (lanes & 4) {
        _mm_storeu_si128((__m128i *)to, part);
        part = _mm256_extracti128_si256(v, 1);
        to += 16;
    }
    if (lanes & 2) {
        _mm_storel_epi64((__m128i *)to, part);
        part = _mm_unpackhi_epi64(part, part);
        to += 8;
    }
    if (lanes & 1)
        _mm_storeu_si32(to, part);
}

#define MASKED_STORE_4(c, v, lanes) store_some(c, (__m256i)(v), lanes)
#define MASKED_STORE_8(c, v, lanes) store_some(c, (__m256i)(v), 2 * (lanes))
#define EVEN_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 4, 2)
#define EVEN_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 2, 2)
#endif

#if !defined(LANES_LOAD_4)
/* A set of lanes, stored as a count: lanes 0 to count - 1.  These CPUs need no aligned vectors, so
 * the first lane is always used. */
typedef int64_t some_lanes;
/* Returns the set of lanes [from, end), as a count; `from` is at most 0. */
FLAT some_lanes lanes_between(int64_t from, int64_t end)
{
    (void)from;
    return end;
}
#define LANES_LOAD_1(p, some) some_bytes(p, 0, some)
#define LANES_LOAD_4(p, some) PICKED_LOAD_4(p, 0, some)
#define LANES_LOAD_8(p, some) PICKED_LOAD_8(p, 0, some)
#define LANES_STORE_4(p, v, some) MASKED_STORE_4(p, v, some)
#define LANES_STORE_8(p, v, some) MASKED_STORE_8(p, v, some)
#endif

#if !defined(__AVX512F__)
#if defined(__aarch64__)
typedef uint32_t word_of_bytes;
typedef uint16_t half_of_bytes;
#else
typedef uint64_t word_of_bytes;
typedef uint32_t half_of_bytes;
#endif
/* Loads as many bytes as an integer holds, from index `first` of a row of w bytes.  Bytes outside
 * of the row become zero, and nothing outside of it is read.  The loaded range must include an end
 * of the row. */
FLAT word_of_bytes some_bytes(const uint8_t *row, int64_t first, int64_t w)
{
    enum { LENGTH = sizeof(word_of_bytes) };
    const int64_t beyond = first + LENGTH - w;
    word_of_bytes word = 0;
    half_of_bytes end;

    if (first >= w || first <= -LENGTH)
        return 0;
    if (w >= LENGTH) {          /* the range extends past the row at one end only */
        memcpy(&word, first < 0 ? row : row + w - LENGTH, LENGTH);
        return first < 0 ? word << 8 * -first : word >> 8 * beyond;
    }
    if (2 * w >= LENGTH) { /* load two halves of the row, which overlap */
        memcpy(&word, row, LENGTH / 2);
        memcpy(&end, row + w - LENGTH / 2, LENGTH / 2);
        word |= (word_of_bytes)end << 8 * (w - LENGTH / 2);
    } else {
        for (int64_t i = 0; i < w; i++)
            word |= (word_of_bytes)row[i] << 8 * i;
    }
    return first < 0 ? word << 8 * -first : word >> 8 * first;
}
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
/* Loads bytes [first, first + 16) of a row of w bytes.  Bytes outside of the row become zero, and
 * nothing outside of it is read. */
FLAT __m128i sixteen_bytes(const uint8_t *row, int64_t first, int64_t w)
{
    const __m128i lane = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int64_t from = first < 0 ? least(-first, 16) : 0; /* [from, end): lanes within the row */
    const int64_t end = first < w ? least(w - first, 16) : 0;
    const __m128i outside = _mm_or_si128(_mm_cmpgt_epi8(_mm_set1_epi8((char)from), lane),
                                         _mm_cmpgt_epi8(lane, _mm_set1_epi8((char)(end - 1))));
    const int64_t begin = from > 0 ? 0 : least(first, w < 16 ? 0 : w - 16);
    /* load a short row as two overlapping pieces of this many bytes */
    const int64_t half = w >= 8 ? 8 : 4;
    __m128i place = _mm_add_epi8(lane, _mm_set1_epi8((char)(first - begin))), second;
    uint64_t low = 0, high = 0;

    if (from >= end)
        return _mm_setzero_si128();
    if (w >= 16)
        return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(row + begin)),
                                _mm_or_si128(place, outside));
    if (w >= 8) {
        memcpy(&low, row, 8);
        memcpy(&high, row + w - 8, 8);
    } else if (w >= 4) {
        memcpy(&low, row, 4);
        memcpy(&high, row + w - 4, 4);
        low |= high << 32;
    } else {
        low = some_bytes(row, 0, w);
    }
    second = _mm_cmpgt_epi8(place, _mm_set1_epi8((char)(half - 1)));
    place = _mm_add_epi8(place, _mm_and_si128(second, _mm_set1_epi8((char)(2 * half - w))));
    return _mm_shuffle_epi8(_mm_set_epi64x((int64_t)high, (int64_t)low),
                            _mm_or_si128(place, outside));
}
#endif

#if defined(SEES_BYTES)
/* Returns a vector whose lane i holds four neighbouring bytes: those of a row of w bytes from index
 * `first` + i * stride on.  Bytes outside of the row are zero before signs are flipped. */
FLAT __m512i load_four_bytes(const uint8_t *row, int64_t first, int64_t w, int stride, int offset)
{
    const __m512i offsets = _mm512_set1_epi8((char)offset);
    const int64_t from = least(first < 0 ? -first : 0, 64);
    const int64_t end = least(first < w ? w - first : 0, 64);
    const __mmask64 inside = _bzhi_u64(-1, (unsigned)end) & ~_bzhi_u64(-1, (unsigned)from);

    if (stride == 1) {
        const __m256i low = _mm256_maskz_loadu_epi8((__mmask32)inside, row + first);
        const __m512i spread = _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4),
            _mm512_castsi256_si512(_mm256_xor_si256(low, _mm512_castsi512_si256(offsets))));

        return _mm512_shuffle_epi8(spread, _mm512_set4_epi32(0x06050403, 0x05040302, 0x04030201,
                                                             0x03020100));
    }
    return _mm512_permutexvar_epi16(
        _mm512_set_epi16(16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8, 7, 7, 6,
                         6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0),
        _mm512_xor_si512(offsets, _mm512_maskz_loadu_epi8(inside, row + first)));
}
#endif
