/* SPDX-License-Identifier: BSD-3-Clause
 * Interface between backends/llvm/bytes.c and the micro-kernels that multiply windows of 8-bit
 * integers by filters of signed 8-bit integers, with 32-bit sums. */
#ifndef LIMBER_KERNEL_BYTES_H
#define LIMBER_KERNEL_BYTES_H

#include "ir/isa.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    /* number of filters in a unit: their words are interleaved, and their 32-bit sums fill a cache
     * line */
    BYTES_UNIT = 16,
    BYTES_UNITS = 4 /* largest number of filter units in a strip */
};

/* A block of pixels and the strip (group of filters) by which they are multiplied.  A word of 32
 * bits has four channels of 8 bits or, on CPUs without VNNI, two of 16 bits. */
struct byte_strip {
    const uint8_t *const *line; /* [pixel]: address of the pixel's window */
    int64_t pixels;
    const int64_t *at; /* [word]: the word's byte offset in a window */
    int64_t words; /* number of words in a window */
    /* number that is XORed to each word of four channels to make signed bytes unsigned; 0 if not
     * needed */
    int32_t flip;
    int units; /* number of filter units, at most BYTES_UNITS */
    const int8_t *filters; /* the filters' words: [word of a window][units][BYTES_UNIT] */
    /* bytes from one word of the filters to the next: `units` units of BYTES_UNIT words */
    int64_t step;
    const int32_t *start; /* [filter]: initial value of its accumulators */
    int32_t *to; /* results [pixel][filter]; rows of successive pixels are `row` elements apart */
    int64_t row, count; /* count: number of filters whose results are stored */
};
typedef void kernel_bytes(const struct byte_strip *s);
LIMBER_BYTES(LIMBER_DECLARE, kernel_bytes, limber_bytes)

/* A panel of an NCHW image: one word per pixel and group of four (or two) channels. */
enum { BYTES_PANEL = 64 }; /* largest number of pixels in a panel */
struct byte_panel {
    const uint8_t *image; /* first pixel of the first channel */
    int64_t channel, channels; /* channel: bytes from one channel to the next */
    int64_t pixels;
    int flip; /* number that is XORed to each byte, if words have four channels */
    bool sign; /* true if the image's bytes are signed; used if words have two channels */
    uint8_t *panel; /* [group of channels][BYTES_PANEL] words; all are written */
};
typedef void kernel_bytes_join(const struct byte_panel *p);
LIMBER_BYTES(LIMBER_DECLARE, kernel_bytes_join, limber_bytes_join)

/* Multiplies a panel by a strip of filters and stores the results [filter][pixel].  Rows of
 * successive filters are `row` elements apart.  Ignores `line` and `at` of the strip. */
typedef void kernel_bytes_planes(const struct byte_strip *s, const uint8_t *panel);
LIMBER_BYTES(LIMBER_DECLARE, kernel_bytes_planes, limber_bytes_planes)

#endif
