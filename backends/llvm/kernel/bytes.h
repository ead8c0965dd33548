/* SPDX-License-Identifier: BSD-3-Clause
 * Windows of bytes by signed bytes to sums of 32 bits: what bytes.c (of the backend) and the code
 * for an instruction set share. */
#ifndef LIMBER_KERNEL_BYTES_H
#define LIMBER_KERNEL_BYTES_H

#include <stdint.h>

enum {
    BYTES_UNIT = 16, /* filters whose words lie side by side, and sums of a line of cache */
    BYTES_UNITS = 4 /* of a strip, at most */
};

/* Some pixels' sums with a strip of filters. */
struct byte_strip {
    const uint8_t *const *line; /* where each pixel's window begins */
    int64_t pixels;
    const int64_t *at; /* bytes from there to each word of four channels */
    int64_t words;
    int32_t flip; /* of each word of the image: signed bytes become unsigned ones; or 0 */
    int units; /* of filters, at most BYTES_UNITS */
    const int8_t *filters; /* [units][BYTES_UNIT][4 channels] of each word, */
    int64_t step; /* bytes from word to word */
    const int32_t *start; /* of each filter's sums */
    int32_t *to; /* [pixels][filters], `row` sums from pixel to pixel */
    int64_t row, count; /* count: of filters that are stored */
};
typedef void kernel_bytes(const struct byte_strip *s);
kernel_bytes limber_bytes_avxvnni, limber_bytes_avx512vnni;

#endif
