/* SPDX-License-Identifier: BSD-3-Clause
 * Measures exponents and significant bits of elements, eight at once.  measure.c is compiled once
 * for each instruction set, because a compiler lowers vector types before it inlines functions. */
#ifndef LIMBER_SCAN_MEASURE_H
#define LIMBER_SCAN_MEASURE_H

#include "ir/isa.h"

#include <stdint.h>

/* values of emin, lsb and emax if there is no finite nonzero element */
enum { NONE_LOW = 1 << 20, NONE_HIGH = -(1 << 20) };

/* Extremes (of exponents and bits) in eight accumulators (lanes), each over n elements.  Exponents
 * are biased. odd: an element was subnormal; the scan then measures the elements one by one. */
struct eight {
    int64_t emin[8], emax[8], lsb[8], sig[8], special[8], negative[8], odd[8];
};

/* Kinds of elements that are measured in vectors. */
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

/* Returns the bytes of an element. */
static inline int size_of(enum kind k)
{
    return k == KIND_f64 || k == KIND_i64 ? 8 :
           k == KIND_f32 || k == KIND_i32 ? 4 :
           k == KIND_i16                  ? 2 :
           k == KIND_i8 || k == KIND_u8   ? 1 :
                                            16;
}

/* Extremes (of exponents and bits) while elements are added.  `known` has final extremes; `raw` has
 * accumulators of the code for AVX2 and AVX-512, which measure_end decodes into `known`. */
struct accumulator {
    struct eight known;
    uint64_t raw[4][8];
};

/* Initialises n accumulators. */
typedef void measure_start(struct accumulator *s, enum kind k, int64_t n);
/* Decodes n accumulators.  If groups is 0, each belongs to a line or tile, and its eight lanes
 * are merged.  Otherwise each belongs to a group of eight lines (rows of A or columns of B), and
 * its lanes stay separate. */
typedef void measure_end(struct accumulator *s, enum kind k, int64_t n, int groups);
enum { MEASURE_RUN = 64, MEASURE_TILES = 8, MEASURE_GROUPS = MEASURE_TILES * MEASURE_RUN / 8 };
/* Measures len contiguous elements of a line: all of them into `line`, and each MEASURE_RUN of them
 * into the next element of `tile`. ahead: distance of prefetches in bytes. */
typedef void measure_along(struct accumulator *line, struct accumulator *tile, enum kind k,
                           const char *at, int64_t len, int64_t ahead);
/* Measures n rows, which begin `step` bytes apart, of 8 * groups contiguous elements, each of which
 * belongs to another line.  The measures (extremes of exponents and bits) of a line are stored in a
 * lane of its group, those of every MEASURE_RUN lines, merged, in one element of `tile`.  A group
 * with a subnormal sets odd[] and is stored in neither. */
typedef void measure_across(struct accumulator *s, struct eight *tile, uint8_t *odd, enum kind k,
                            const char *at, int groups, int64_t n, int64_t step);

/* How a float of 8 or 16 bits is converted to binary32: masks of its bit pattern, a shift, and a
 * factor.  Magnitudes from `special` on are infinite or NaN. */
struct small_float {
    uint32_t sign, magnitude, special;
    /* distance from the fraction's position in the bit pattern to that in binary32 */
    int32_t shift;
    float scale;
    int32_t size;
};
/* Converts n contiguous elements to binary32. */
typedef void measure_widen(const struct small_float *f, const char *at, int64_t n, float *to);

#define DECLARE(name) \
    measure_##name limber_measure_##name; \
    LIMBER_FALLBACK(LIMBER_DECLARE, measure_##name, limber_measure_##name)
DECLARE(start)
DECLARE(end)
DECLARE(along)
DECLARE(across)
DECLARE(widen)
#undef DECLARE

#endif
