/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions and products of bytes whose windows are read where an image lies (bytes.c). */
#ifndef LIMBER_LLVM_WINDOWS_H
#define LIMBER_LLVM_WINDOWS_H

#include "backends/llvm/unpacked.h"

/* A launch that is accepted, as it was: it points into itself and to the call. */
struct windows {
    const struct call *call; /* the caller's, or this: */
    struct call turned; /* of matrices: A's rows are an image's pixels, B's columns are filters */
    struct bytes_code code;
    struct patch from, window; /* the image as it lies; and as it is read, of bytes */
    int64_t first[3]; /* the frame's first row, column and plane */
    int64_t deep; /* planes of the frame; 1 of two dimensions */
    int64_t images, channels, groups,
        taps; /* images: a result's planes; groups: of `group` channels, a word */
    int64_t words; /* of a window */
    int64_t units; /* of filters */
    int group; /* four bytes, or two channels of 16 bits */
    bool sign; /* of the image's bytes */
    int flip; /* 128 of signed images whose words have four bytes, else 0 */
    bool in_order; /* filters lie as windows do, channel by channel of each tap */
    bool flips; /* the code does so; else the copy of the image */
    bool copies; /* the image is not read as it lies */
    bool across; /* C's rows are pixels, else filters */
    bool planes; /* pixels of a channel stay side by side */
    int64_t bytes; /* of memory */
};
/* NULL where this way serves a launch; else why not. */
const char *limber_windows_refuses(const struct kernel *k, const struct call *c, struct windows *x);
void limber_windows_run(const struct windows *x, char *memory);

#endif
