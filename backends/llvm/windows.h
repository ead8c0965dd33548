/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions and products of 8-bit integers that read windows directly from the image, not from
 * packed panels (bytes.c). */
#ifndef LIMBER_LLVM_WINDOWS_H
#define LIMBER_LLVM_WINDOWS_H

#include "backends/llvm/unpacked.h"

/* An accepted launch.  The structure must not be copied, since it contains pointers into itself and
 * to the call. */
struct windows {
    const struct call *call; /* the caller's call, or `turned` */
    /* transposed product: its rows of A are filters, its columns of B are pixels */
    struct call turned;
    struct bytes_code code;
    /* from: the caller's image; window: the image of 8-bit integers that windows read */
    struct patch from, window;
    /* row, column and plane of the caller's image at which the copy begins, negative in padding */
    int64_t first[3];
    int64_t deep; /* number of planes of the image that windows read; 1 if it is two-dimensional */
    /* images: number of planes of the result, over all images; groups: number of words in a pixel,
     * with `group` channels each; taps: number of taps of a window */
    int64_t images, channels, groups, taps;
    int64_t words; /* number of 32-bit words in a window */
    int64_t units; /* number of units of sixteen filters; the last unit is padded */
    int group; /* number of channels in a word: four bytes, or two elements of 16 bits */
    bool sign; /* true if the image's bytes are signed */
    /* number that is XORed to each byte to make signed bytes unsigned: 128 if a word has four bytes
     * of a signed image, else 0 */
    int flip;
    /* true if the elements of a filter lie in the order of a window's words, channels innermost */
    bool in_order;
    /* true: the micro-kernel flips signs while it reads the image; false: the copy has flipped
     * signs */
    bool flips;
    bool copies; /* true if windows read a copy of the image */
    /* true: a row of C in memory is a pixel, with one column per filter; false: a row is a
     * filter */
    bool across;
    /* true if the image keeps its NCHW order, and blocks of its pixels are packed as panels */
    bool planes;
    int64_t bytes; /* bytes of workspace */
};
/* Fills *x and returns NULL if the way (code path) `windows` can compute the launch; else returns
 * the reason. */
const char *limber_windows_refuses(const struct kernel *k, const struct call *c, struct windows *x);
void limber_windows_run(const struct windows *x, char *memory);

#endif
