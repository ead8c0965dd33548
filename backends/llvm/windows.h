/* SPDX-License-Identifier: BSD-3-Clause
 * Byte convolutions and products that read windows where the image lies (bytes.c). */
#ifndef LIMBER_LLVM_WINDOWS_H
#define LIMBER_LLVM_WINDOWS_H

#include "backends/llvm/unpacked.h"

/* An accepted launch.  It must not be copied: it points into itself and to the call. */
struct windows {
    const struct call *call; /* the caller's call, or `turned` */
    struct call turned; /* transposed product: A's rows are pixels, B's columns are filters */
    struct bytes_code code;
    struct patch from, window; /* the caller's image; the image of bytes that windows read */
    int64_t first[3]; /* first row, column and plane of the copied image */
    int64_t deep; /* planes of the copied image; 1 if it has two dimensions */
    int64_t images, channels, groups,
        taps; /* images: planes of the result; groups: of `group` channels, one word each */
    int64_t words; /* words in a window */
    int64_t units; /* units of sixteen filters */
    int group; /* channels in a word: four bytes, or two elements of 16 bits */
    bool sign; /* the image's bytes are signed */
    /* XOR that makes signed bytes unsigned: 128 if a word has four bytes of a signed image, else
     * 0 */
    int flip;
    bool in_order; /* filters lie in the order of windows, channels innermost */
    bool flips; /* the micro-kernel flips signs as it reads; else copying does */
    bool copies; /* the image is copied first */
    bool across; /* in memory, C's rows are pixels; else filters */
    bool planes; /* the image keeps its NCHW order */
    int64_t bytes; /* bytes of workspace */
};
/* NULL if this way serves a launch; else the reason why not. */
const char *limber_windows_refuses(const struct kernel *k, const struct call *c, struct windows *x);
void limber_windows_run(const struct windows *x, char *memory);

#endif
