/* SPDX-License-Identifier: BSD-3-Clause
 * Checks of a convolution's shape, and its conversion to the geometry of ir/conv.h. */
#include "jit/api/conv_shape.h"

#include <string.h>

/* Checks that v is at least `bound`.  what: the argument's name in the error. */
static bool check_at_least(int64_t v, int64_t bound, const char *what, struct diag *d)
{
    return v >= bound ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.%s = %lld is less than %lld", what,
                       (long long)v, (long long)bound);
}

/* Describes the dimensions of a convolution (height, width and, if it is three-dimensional,
 * depth), with the names of their fields for messages.  Returns their number. */
int limber_conv_sides(const limber_conv *s, struct conv_dimension side[3])
{
    side[0] =
        (struct conv_dimension){ "h",  "r",  "pad[0], pad[1]",         "stride[0]",  "dilate[0]",
                                 s->h, s->r, { s->pad[0], s->pad[1] }, s->stride[0], s->dilate[0] };
    side[1] =
        (struct conv_dimension){ "w",  "s",  "pad[2], pad[3]",         "stride[1]",  "dilate[1]",
                                 s->w, s->s, { s->pad[2], s->pad[3] }, s->stride[1], s->dilate[1] };
    side[2] = (struct conv_dimension){ "d",
                                       "t",
                                       "depth_pad",
                                       "depth_stride",
                                       "depth_dilate",
                                       s->d,
                                       s->t,
                                       { s->depth_pad[0], s->depth_pad[1] },
                                       s->depth_stride ? s->depth_stride : 1,
                                       s->depth_dilate ? s->depth_dilate : 1 };
    return limber_conv_is_deep(s) ? 3 : 2;
}

/* Checks the sizes, pads, stride and dilation of one dimension. */
static bool check_side(const struct conv_dimension *x, struct diag *d)
{
    const int64_t most = (int64_t)1 << 31;

    if (!check_at_least(x->size, 0, x->image, d) || !check_at_least(x->width, 1, x->window, d) ||
        !check_at_least(x->pad[0], 0, x->pads, d) || !check_at_least(x->pad[1], 0, x->pads, d) ||
        !check_at_least(x->stride, 1, x->step, d) || !check_at_least(x->dilate, 1, x->spread, d))
        return false;
    if (x->size >= most || x->width >= most)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.%s or %s is too large", x->image,
                           x->window);
    if (x->pad[0] >= most || x->pad[1] >= most || x->stride >= most || x->dilate >= most)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.%s, %s or %s is too large", x->pads,
                           x->step, x->spread);
    return true;
}

/* Checks the ranges of all sizes, pads, strides and dilations, and that the depth fields are 0 in
 * two dimensions.  All numbers are below 2^31, so that the product of two of them fits 64 bits. */
static bool check_ranges(const limber_conv *s, struct diag *d)
{
    static const char *const name[] = { "n", "c", "o" };
    const int64_t v[] = { s->n, s->c, s->o };
    struct conv_dimension side[3];
    int sides = limber_conv_sides(s, side);

    for (size_t i = 0; i < COUNT(v); i++) {
        if (!check_at_least(v[i], 0, name[i], d))
            return false;
        if (v[i] >= (int64_t)1 << 31)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.%s = %lld is too large",
                               name[i], (long long)v[i]);
    }
    for (int i = 0; i < sides; i++)
        if (!check_side(&side[i], d))
            return false;
    if (!limber_conv_is_deep(s) &&
        (s->d || s->depth_stride || s->depth_dilate || s->depth_pad[0] || s->depth_pad[1]))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "conv.t = 0 says two dimensions, but conv.d or depth_... is set");
    return true;
}

/* Checks that the number of groups divides the channels of image and result. */
static bool check_groups(const limber_conv *s, struct diag *d)
{
    return check_at_least(s->groups, 1, "groups", d) &&
           ((s->c % s->groups == 0 && s->o % s->groups == 0) ||
            limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                        "conv.groups = %lld does not divide c = %lld and o = %lld",
                        (long long)s->groups, (long long)s->c, (long long)s->o));
}

/* Checks a convolution's sizes. out: the size of the result in each dimension. */
bool limber_conv_check_shape(const limber_conv *s, int64_t out[3], struct diag *d)
{
    struct conv_dimension side[3];
    int sides;

    if (!s)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv is NULL");
    if (!check_ranges(s, d))
        return false;
    if (!check_groups(s, d))
        return false;
    if (s->layout != LIMBER_LAYOUT_NCHW && s->layout != LIMBER_LAYOUT_NHWC)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.layout = %d is unknown",
                           (int)s->layout);
    sides = limber_conv_sides(s, side);
    out[2] = 1;
    for (int i = 0; i < sides; i++) {
        const struct conv_dimension *x = &side[i];
        int64_t last = x->size + x->pad[0] + x->pad[1] - x->dilate * (x->width - 1) - 1;

        if (last < 0)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "conv.%s = %lld with its dilation does not fit into %s = %lld with "
                               "its padding",
                               x->window, (long long)x->width, x->image, (long long)x->size);
        out[i] = last / x->stride + 1;
    }
    return true;
}

/* Returns the direction of an operation: forward, backward data or backward filters. */
static int64_t direction_of(limber_operation o)
{
    return o == LIMBER_OPERATION_CONV_BACKWARD_DATA   ? DIRECTION_data :
           o == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? DIRECTION_filter :
                                                        DIRECTION_forward;
}

/* Converts the caller's convolution to geometry and sizes. out: sizes of the result. phase: the
 * stride phase in each dimension. */
struct conv limber_conv_geometry(const limber_conv *s, limber_operation operation,
                                 const int64_t out[3], const int64_t phase[3])
{
    struct conv_dimension side[3];
    int sides = limber_conv_sides(s, side);
    struct conv c = { .geometry = { .stride = { 1, 1, 1 },
                                    .dilate = { 1, 1, 1 },
                                    .groups = s->groups,
                                    .layout =
                                        s->layout == LIMBER_LAYOUT_NHWC ? LAYOUT_nhwc : LAYOUT_nchw,
                                    .direction = direction_of(operation),
                                    .deep = limber_conv_is_deep(s) },
                      .sizes = { s->n,
                                 s->c,
                                 s->h,
                                 s->w,
                                 s->o,
                                 s->r,
                                 s->s,
                                 out[0],
                                 out[1],
                                 limber_conv_is_deep(s) ? s->d : 1,
                                 limber_conv_is_deep(s) ? s->t : 1,
                                 out[2],
                                 { phase[0], phase[1], phase[2] } } };

    for (int i = 0; i < sides; i++) {
        c.geometry.stride[i] = side[i].stride;
        c.geometry.dilate[i] = side[i].dilate;
        c.geometry.pad[2 * i] = side[i].pad[0];
        c.geometry.pad[2 * i + 1] = side[i].pad[1];
    }
    return c;
}

/* Describes a convolution's filters, of which only the shape is known, in *c.  *length: elements
 * of one filter.  False if a size is wrong. */
bool limber_conv_filters(const limber_conv *s, limber_operation operation, struct conv *c,
                         int64_t *length, struct diag *d)
{
    struct conv_dimension side[3];
    int sides = limber_conv_sides(s, side);
    int64_t window = 1, parts;

    if (!check_at_least(s->o, 0, "o", d) || !check_at_least(s->c, 0, "c", d) || !check_groups(s, d))
        return false;
    for (int i = 0; i < sides; i++) {
        if (operation == LIMBER_OPERATION_CONV_BACKWARD_DATA && !check_side(&side[i], d))
            return false;
        if (!check_at_least(side[i].width, 1, side[i].window, d))
            return false;
        if (__builtin_mul_overflow(window, side[i].width, &window))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.%s is too large",
                               side[i].window);
    }
    if (__builtin_mul_overflow(s->c / s->groups, window, length) || window == INT64_MAX)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "conv.c and the window are too large together");
    /* what a scan finds is kept for each group and each part of the window, in memory allocated
     * here */
    if (operation == LIMBER_OPERATION_CONV_BACKWARD_DATA &&
        (__builtin_mul_overflow(s->groups, window + 1, &parts) || parts >= (int64_t)1 << 48))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "conv.groups and the window are too large together");
    *c = limber_conv_geometry(s, operation, (int64_t[]){ 0, 0, 0 }, (int64_t[]){ 0, 0, 0 });
    return s->layout == LIMBER_LAYOUT_NCHW || s->layout == LIMBER_LAYOUT_NHWC ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.layout = %d is unknown",
                       (int)s->layout);
}
