/* SPDX-License-Identifier: BSD-3-Clause
 * Windows of bytes by signed bytes to sums of 32 bits: what bytes.c (of the backend) and the code
 * for an instruction set share. */
#ifndef LIMBER_KERNEL_BYTES_H
#define LIMBER_KERNEL_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BYTES_UNIT = 16, /* filters whose words lie side by side, and sums of a line of cache */
    BYTES_UNITS = 4 /* of a strip, at most */
};

/* A word of 32 bits has four channels, or two of 16 bits, as the instruction set has it.  Some
 * pixels' sums with a strip of filters: */
struct byte_strip {
    const uint8_t *const *line; /* where each pixel's window begins */
    int64_t pixels;
    const int64_t *at; /* bytes from there to each word */
    int64_t words;
    int32_t flip; /* of each word of four channels: signed bytes become unsigned ones; or 0 */
    int units; /* of filters, at most BYTES_UNITS */
    const int8_t *filters; /* [units][BYTES_UNIT] words of each word of a window, */
    int64_t step; /* bytes from word to word */
    const int32_t *start; /* of each filter's sums */
    int32_t *to; /* [pixels][filters], `row` sums from pixel to pixel */
    int64_t row, count; /* count: of filters that are stored */
};
typedef void kernel_bytes(const struct byte_strip *s);
kernel_bytes limber_bytes_avx2, limber_bytes_avxvnni, limber_bytes_avx512vnni;

/* Pixels that lie side by side, channel by channel, as a panel: of each four or two channels a word
 * for each pixel. */
enum { BYTES_PANEL = 64 }; /* pixels */
struct byte_panel {
    const uint8_t *image; /* the first pixel of the first channel */
    int64_t channel, channels; /* channel: bytes to the next */
    int64_t pixels;
    int flip; /* of each byte of the image, where words have four */
    bool sign; /* of its bytes, where words have two of 16 bits */
    uint8_t *panel; /* [channels of a word][BYTES_PANEL] words, all of it is written */
};
typedef void kernel_bytes_join(const struct byte_panel *p);
kernel_bytes_join limber_bytes_join_avx2, limber_bytes_join_avxvnni, limber_bytes_join_avx512vnni;

/* Their sums with a strip of filters: `to` is [filters][pixels], `row` sums from filter to filter.
 * `line` and `at` are not read. */
typedef void kernel_bytes_planes(const struct byte_strip *s, const uint8_t *panel);
kernel_bytes_planes limber_bytes_planes_avx2, limber_bytes_planes_avxvnni,
    limber_bytes_planes_avx512vnni;

#endif
