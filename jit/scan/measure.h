/* SPDX-License-Identifier: BSD-3-Clause
 * Exponents and significant bits of elements, eight at once.  measure.c is compiled once for each
 * instruction set: a compiler lowers vectors before it inlines. */
#ifndef LIMBER_SCAN_MEASURE_H
#define LIMBER_SCAN_MEASURE_H

#include <stdint.h>

enum { NONE_LOW = 1 << 20, NONE_HIGH = -(1 << 20) };    /* no finite nonzero was seen */

/* Measures of eight lanes, each over n elements.  Exponents are biased.  odd: subnormals were seen,
 * which the exact path handles. */
struct eight {
    int64_t emin[8], emax[8], lsb[8], sig[8], special[8], negative[8], odd[8];
};

/* Formats that are measured in vectors. */
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

/* Measures that are being accumulated: `known` is final, `raw` has wide accumulators (AVX2,
 * AVX-512) that measure_end resolves into `known`. */
struct accumulator {
    struct eight known;
    uint64_t raw[4][8];
};

/* Initialises n accumulators. */
typedef void measure_start(struct accumulator *s, enum kind k, int64_t n);
/* Resolves n accumulators.  groups 0: lines or tiles, whose eight lanes are then joined; else
 * groups of eight neighbours, whose lanes stay apart. */
typedef void measure_end(struct accumulator *s, enum kind k, int64_t n, int groups);
/* Measures len contiguous elements: all of them into `line`, every MEASURE_RUN of them into one of
 * `tile`.  Prefetches `ahead` bytes further on. */
enum { MEASURE_RUN = 64, MEASURE_TILES = 8, MEASURE_GROUPS = MEASURE_TILES * MEASURE_RUN / 8 };
typedef void measure_along(struct accumulator *line, struct accumulator *tile, enum kind k,
                           const char *at, int64_t len, int64_t ahead);
/* Measures n rows, `step` bytes apart, of eight times `groups` contiguous elements: each column
 * into its group's lanes, and every MEASURE_RUN columns, with lanes joined, into `tile`.  Groups
 * with odd[] set are in neither. */
typedef void measure_across(struct accumulator *s, struct eight *tile, uint8_t *odd, enum kind k,
                            const char *at, int groups, int64_t n, int64_t step);

/* A float of 8 or 16 bits: masks of its code, and the conversion to binary32.  Codes from `special`
 * on are infinite or NaN. */
struct small_float {
    uint32_t sign, magnitude, special;
    int32_t shift; /* of a fraction to that of binary32 */
    float scale;
    int32_t size;
};
/* Converts n contiguous elements to binary32. */
typedef void measure_widen(const struct small_float *f, const char *at, int64_t n, float *to);

measure_start limber_measure_start, limber_measure_start_avx2, limber_measure_start_avx512;
measure_end limber_measure_end, limber_measure_end_avx2, limber_measure_end_avx512;
measure_along limber_measure_along, limber_measure_along_avx2, limber_measure_along_avx512;
measure_across limber_measure_across, limber_measure_across_avx2, limber_measure_across_avx512;
measure_widen limber_measure_widen, limber_measure_widen_avx2, limber_measure_widen_avx512;

#endif
