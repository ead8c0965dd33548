/* SPDX-License-Identifier: BSD-3-Clause
 * Windows of bytes times signed bytes to 32-bit sums: the interface between bytes.c of the backend
 * and the micro-kernels. */
#ifndef LIMBER_KERNEL_BYTES_H
#define LIMBER_KERNEL_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* filters in a unit: their words are interleaved, and their sums fill a cache line */
    BYTES_UNIT = 16,
    BYTES_UNITS = 4 /* most units in a strip */
};

/* A strip of filters and the pixels to multiply.  A word of 32 bits has four channels, or two of 16
 * bits, depending on the instruction set. */
struct byte_strip {
    const uint8_t *const *line; /* first byte of each pixel's window */
    int64_t pixels;
    const int64_t *at; /* byte offset of each word in a window */
    int64_t words;
    int32_t flip; /* XOR for each word of four channels, to make signed bytes unsigned; or 0 */
    int units; /* units of filters, at most BYTES_UNITS */
    const int8_t *filters; /* [word of a window][units][BYTES_UNIT] words */
    int64_t step; /* bytes from one word of a window to the next */
    const int32_t *start; /* start value of each filter's sums */
    int32_t *to; /* [pixels][filters]; `row` elements from pixel to pixel */
    int64_t row, count; /* count: number of filters that are stored */
};
typedef void kernel_bytes(const struct byte_strip *s);
kernel_bytes limber_bytes_avx2, limber_bytes_avxvnni, limber_bytes_avx512vnni;

/* Packs a panel of an NCHW image: one word for each pixel and each four (or two) channels. */
enum { BYTES_PANEL = 64 }; /* most pixels of a panel */
struct byte_panel {
    const uint8_t *image; /* first pixel of the first channel */
    int64_t channel, channels; /* channel: distance in bytes */
    int64_t pixels;
    int flip; /* XOR for each byte, if words have four channels */
    bool sign; /* the image's bytes are signed; used if words have two channels */
    uint8_t *panel; /* [channels / channels of a word][BYTES_PANEL] words; all are written */
};
typedef void kernel_bytes_join(const struct byte_panel *p);
kernel_bytes_join limber_bytes_join_avx2, limber_bytes_join_avxvnni, limber_bytes_join_avx512vnni;

/* Multiplies a panel by a strip of filters: `to` is [filters][pixels], with `row` elements from
 * filter to filter.  Ignores `line` and `at`. */
typedef void kernel_bytes_planes(const struct byte_strip *s, const uint8_t *panel);
kernel_bytes_planes limber_bytes_planes_avx2, limber_bytes_planes_avxvnni,
    limber_bytes_planes_avx512vnni;

#endif
