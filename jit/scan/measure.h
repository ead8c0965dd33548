/* SPDX-License-Identifier: BSD-3-Clause
 * Exponents and significant bits of elements, eight at once.  measure.c is compiled once for each
 * instruction set: a compiler lowers vectors before it inlines. */
#ifndef LIMBER_SCAN_MEASURE_H
#define LIMBER_SCAN_MEASURE_H

#include <stdint.h>

enum { NONE_LOW = 1 << 20, NONE_HIGH = -(1 << 20) };    /* no finite nonzero was seen */

/* Lane by lane, after n times eight elements; exponents are biased.  odd: subnormals, which are
 * left to the exact path. */
struct eight {
    int64_t emin[8], emax[8], lsb[8], sig[8], special[8], negative[8], odd[8];
};

/* Formats that are measured so. */
enum kind {
    KIND_none,
    KIND_f64,
    KIND_f32,
    KIND_i32,
    KIND_i16,
    KIND_i8,
    KIND_u8,
    KIND_i64,
    KIND_dd,
    KIND_f128
};

static inline int size_of(enum kind k)
{
    return k == KIND_f64 || k == KIND_i64 ? 8 :
           k == KIND_f32 || k == KIND_i32 ? 4 :
           k == KIND_i16                  ? 2 :
           k == KIND_i8 || k == KIND_u8   ? 1 :
                                            16;
}

/* What becomes known bit by bit: what is known, and what is not yet. */
struct growing {
    struct eight known;
    uint64_t raw[4][8];
};

/* Nothing seen yet. */
typedef void measure_start(struct growing *s, enum kind k, int64_t n);
/* Tells all: of lines and tiles, whose lanes then are alike, or of groups of eight neighbours. */
typedef void measure_end(struct growing *s, enum kind k, int64_t n, int groups);
/* len neighbours: added to what is known of all, and of every MEASURE_RUN of them.  What is `ahead`
 * bytes behind is fetched. */
enum { MEASURE_RUN = 64, MEASURE_TILES = 8, MEASURE_GROUPS = MEASURE_TILES * MEASURE_RUN / 8 };
typedef void measure_along(struct growing *line, struct growing *tile, enum kind k, const char *at,
                           int64_t len, int64_t ahead);
/* n rows of eight times `groups` neighbours, `step` bytes apart: added to what is known of each
 * group, and in all, with lanes alike, of every MEASURE_RUN neighbours.  A group with odd[] is in
 * neither. */
typedef void measure_across(struct growing *s, struct eight *tile, uint8_t *odd, enum kind k,
                            const char *at, int groups, int64_t n, int64_t step);

/* A float of 8 or 16 bits: its codes' parts, and what makes binary32 of them.  Codes from `special`
 * on are infinite or NaN. */
struct small_float {
    uint32_t sign, magnitude, special;
    int32_t shift; /* of a fraction */
    float scale;
    int32_t size;
};
/* n neighbours, which become `to`. */
typedef void measure_widen(const struct small_float *f, const char *at, int64_t n, float *to);

measure_start limber_measure_start, limber_measure_start_avx2, limber_measure_start_avx512;
measure_end limber_measure_end, limber_measure_end_avx2, limber_measure_end_avx512;
measure_along limber_measure_along, limber_measure_along_avx2, limber_measure_along_avx512;
measure_across limber_measure_across, limber_measure_across_avx2, limber_measure_across_avx512;
measure_widen limber_measure_widen, limber_measure_widen_avx2, limber_measure_widen_avx512;

#endif
