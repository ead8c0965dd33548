/* SPDX-License-Identifier: BSD-3-Clause
 * The shape of a convolution as the caller gives it: conv_shape.c. */
#ifndef LIMBER_JIT_CONV_SHAPE_H
#define LIMBER_JIT_CONV_SHAPE_H

#include "jit/api/api.h"

/* The sizes of one dimension: down, across, or depth. */
struct side {
    const char *image, *window, *pads, *step, *spread; /* names of the fields */
    int64_t size, width, pad[2], stride, dilate;
};
int limber_conv_sides(const limber_conv *s, struct side side[3]); /* returns two or three */

static inline bool limber_conv_is_deep(const limber_conv *s)
{
    return s->t != 0;
}

/* Checks the shape.  out: sizes of the result down, across, and depth. */
bool limber_conv_check_shape(const limber_conv *s, int64_t out[3], struct diag *d);
struct conv limber_conv_geometry(const limber_conv *s, limber_operation operation,
                                 const int64_t out[3], const int64_t phase[3]);

#endif
