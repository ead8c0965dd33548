/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIMBER_STAGE_H
#define LIMBER_STAGE_H

#include "backends/llvm/kernel/kernel.h"

/* A block of C, from (i0, j0) on, and the buffer in which it is computed; `row` is the buffer's
 * leading dimension in elements. */
struct staged {
    const struct output_view *c;
    int64_t i0, j0, rows, cols;
    int size;
    char *buffer;
    int64_t row;
};
void limber_stage_load(const struct staged *s);
void limber_stage_store(const struct staged *s);

#endif
