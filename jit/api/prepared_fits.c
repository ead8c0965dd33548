/* SPDX-License-Identifier: BSD-3-Clause
 * Checks that a prepared operand is the one that a call reads. */
#include "jit/prepared_operand.h"

#include "jit/api/api.h"

#include <string.h>

/* Names an operation in error messages. */
static const char *operation_name(limber_operation o)
{
    return o == LIMBER_OPERATION_GEMM         ? "products of matrices" :
           o == LIMBER_OPERATION_CONV_FORWARD ? "forward convolutions" :
                                                "backward data";
}

/* Checks that the prepared operand o (NULL if there is none) was made from the matrix x, for
 * this operation, side and context. */
bool limber_prepared_fits(const limber_context *ctx, const limber_prepared *o, struct extent x,
                          limber_operation operation, limber_side side, struct diag *d)
{
    const bool left = side == LIMBER_SIDE_A;

    if (!o)
        return true;
    if (o->ctx != ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared with another context",
                           x.what);
    if (o->operation != operation)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared for %s, not for %s",
                           x.what, operation_name(o->operation), operation_name(operation));
    if (o->left != left)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared for the other side",
                           x.what);
    if (o->rows != x.rows || o->cols != x.cols)
        return limber_fail(
            d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared as %lld x %lld, not %lld x %lld",
            x.what, (long long)o->rows, (long long)o->cols, (long long)x.rows, (long long)x.cols);
    if (o->x.data != x.m->data || o->x.row_stride != x.m->row_stride ||
        o->x.col_stride != x.m->col_stride || !limber_format_equal(o->x.format, x.m->format))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s was prepared of another matrix",
                           x.what);
    return !o->checks || limber_prepared_is_same(o, x.what, d);
}

/* Returns the name of the first field of dimension `side` in which two convolutions differ, so that
 * they read different elements of a filter.  NULL if there is none. */
static const char *find_difference(const struct conv_geometry *a, const struct conv_geometry *b,
                                   int side)
{
    static const char *const name[3][3] = {
        { "stride[0]", "dilate[0]", "pad[0]" },
        { "stride[1]", "dilate[1]", "pad[2]" },
        { "depth_stride", "depth_dilate", "depth_pad[0]" },
    };

    return a->stride[side] != b->stride[side]   ? name[side][0] :
           a->dilate[side] != b->dilate[side]   ? name[side][1] :
           a->pad[2 * side] != b->pad[2 * side] ? name[side][2] :
                                                  NULL;
}

/* Checks that the call's convolution reads filters in the same way as the convolution for which
 * they were prepared. */
static bool check_alike(const struct conv *a, const struct conv *b, struct diag *d)
{
    const char *other = a->geometry.layout != b->geometry.layout ? "layout" :
                        a->sizes.r != b->sizes.r                 ? "r" :
                        a->sizes.s != b->sizes.s                 ? "s" :
                        a->sizes.t != b->sizes.t                 ? "t" :
                                                                   NULL;

    for (int i = 0; i < 3 && !other && limber_conv_parts(a) + limber_conv_parts(b) > 2; i++)
        other = find_difference(&a->geometry, &b->geometry, i);
    return !other || limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                                 "prepared_b was prepared with another conv.%s", other);
}

/* Checks that the prepared filters, if there are any, were made for this convolution. */
bool limber_prepared_filters_fit(const limber_context *ctx, const limber_problem *p, struct diag *d)
{
    const limber_prepared *o = p->prepared_b;
    limber_matrix x = { p->b.data, p->b.format, 0, 1 };
    struct conv c;

    if (!o)
        return true;
    if (!limber_conv_filters(p->conv, p->operation, &c, &x.row_stride, d) ||
        !limber_prepared_fits(ctx, o, (struct extent){ &x, "prepared_b", p->conv->o, x.row_stride },
                              p->operation, LIMBER_SIDE_A, d))
        return false;
    if (o->groups != p->conv->groups)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "prepared_b was prepared in %lld groups, not %lld", (long long)o->groups,
                           (long long)p->conv->groups);
    return check_alike(&o->conv, &c, d);
}
