/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIMBER_STAGE_H
#define LIMBER_STAGE_H

#include "backends/llvm/kernel/kernel.h"

/* A block of C whose first element is (i0, j0), and the buffer in which the block is computed.
 * `row` is the buffer's leading dimension in elements, `size` the bytes of an element. */
struct staged {
    const struct output_view *c;
    int64_t i0, j0, rows, cols;
    int size;
    char *buffer;
    int64_t row;
};
/* Copies the block from C to the buffer. */
void limber_stage_load(const struct staged *s);
/* Copies the block from the buffer to C. */
void limber_stage_store(const struct staged *s);

#endif
