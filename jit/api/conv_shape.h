/* SPDX-License-Identifier: BSD-3-Clause
 * The shape of a convolution as the caller passes it; functions of conv_shape.c. */
#ifndef LIMBER_JIT_CONV_SHAPE_H
#define LIMBER_JIT_CONV_SHAPE_H

#include "jit/api/api.h"

/* The fields of a convolution for one dimension: height, width or depth. */
struct conv_dimension {
    const char *image, *window, *pads, *step, *spread; /* names of the fields, for error texts */
    /* sizes of image and window; pads before and after the image */
    int64_t size, width, pad[2], stride, dilate;
};
/* Describes each dimension in side[].  Returns their number, two or three. */
int limber_conv_sides(const limber_conv *s, struct conv_dimension side[3]);

/* True if the convolution has three spatial dimensions. */
static inline bool limber_conv_is_deep(const limber_conv *s)
{
    return s->t != 0;
}

/* Checks the shape. out: receives height, width and depth of the result. */
bool limber_conv_check_shape(const limber_conv *s, int64_t out[3], struct diag *d);
/* Returns the engine's description of the convolution. out: height, width and depth of the result.
 * phase: stride phase in each dimension, counted from 1; 0 if all are computed at once. */
struct conv limber_conv_geometry(const limber_conv *s, limber_operation operation,
                                 const int64_t out[3], const int64_t phase[3]);

#endif
