/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions: check the arguments, state the problem as an implicit GEMM whose
 * left operand are the filters (o x k) and whose right operand is the image seen through the
 * window (k x pixels), k = (c/groups) r s. */
#include "jit/api/api.h"

static bool least(int64_t v, int64_t bound, const char *what, struct diag *d)
{
    return v >= bound ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.%s = %lld is less than %lld", what,
                       (long long)v, (long long)bound);
}

/* No size, pad or step is so large that sums and products of a few of them overflow. */
static bool check_ranges(const limber_conv *s, struct diag *d)
{
    static const char *const size[] = { "n", "c", "h", "w", "o", "r", "s" };
    static const char *const pad[] = { "pad[0]", "pad[1]", "pad[2]", "pad[3]" };
    const int64_t v[] = { s->n, s->c, s->h, s->w, s->o, s->r, s->s };
    const int64_t most = (int64_t)1 << 31;

    for (size_t i = 0; i < COUNT(v); i++)
        if (!least(v[i], i >= 5, size[i], d))
            return false;
    for (size_t i = 0; i < COUNT(pad); i++)
        if (!least(s->pad[i], 0, pad[i], d))
            return false;
    if (!least(s->stride[0], 1, "stride[0]", d) || !least(s->stride[1], 1, "stride[1]", d) ||
        !least(s->dilate[0], 1, "dilate[0]", d) || !least(s->dilate[1], 1, "dilate[1]", d) ||
        !least(s->groups, 1, "groups", d))
        return false;
    for (size_t i = 0; i < COUNT(v); i++)
        if (v[i] >= most)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.%s = %lld is too large",
                               size[i], (long long)v[i]);
    for (size_t i = 0; i < 2; i++)
        if (s->stride[i] >= most || s->dilate[i] >= most || s->pad[i] >= most ||
            s->pad[i + 2] >= most)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "conv.stride, pad or dilate is too large");
    return true;
}

static bool check_shape(const limber_conv *s, int64_t out[2], struct diag *d)
{
    static const char *const name[] = { "h", "w" }, *const window[] = { "r", "s" };

    if (!s)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv is NULL");
    if (!check_ranges(s, d))
        return false;
    if (s->c % s->groups != 0 || s->o % s->groups != 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "conv.groups = %lld does not divide c = %lld and o = %lld",
                           (long long)s->groups, (long long)s->c, (long long)s->o);
    if (s->layout != LIMBER_LAYOUT_NCHW && s->layout != LIMBER_LAYOUT_NHWC)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "conv.layout = %d is unknown",
                           (int)s->layout);
    for (int i = 0; i < 2; i++) {
        int64_t size = i ? s->w : s->h, width = i ? s->s : s->r;
        int64_t last = size + s->pad[2 * i] + s->pad[2 * i + 1] - s->dilate[i] * (width - 1) - 1;

        if (last < 0)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "conv.%s = %lld with its dilation does not fit into %s = %lld with "
                               "its padding",
                               window[i], (long long)width, name[i], (long long)size);
        out[i] = last / s->stride[i] + 1;
    }
    return true;
}

limber_status limber_conv_output(const limber_conv *conv, int64_t *oh, int64_t *ow)
{
    struct diag d = { 0 };
    int64_t out[2] = { 0, 0 };
    limber_conv full;

    if (!conv)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "conv_output: conv is NULL");
    else if (!oh || !ow)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "conv_output: %s is NULL", oh ? "ow" : "oh");
    else if (!limber_sized_in(&full, sizeof full, conv, LEAST_conv, "conv", &d) ||
             !check_shape(&full, out, &d))
        limber_fail_in(&d, "conv_output");
    if (oh)
        *oh = out[0];
    if (ow)
        *ow = out[1];
    return limber_error_set(&d);
}

/* A dense tensor as one row.  Sizes of zero do not hide that the others are too large together. */
static bool tensor(limber_matrix *m, const char *what, const void *data, limber_format f,
                   const int64_t dim[4], struct diag *d)
{
    int64_t elements = 1;
    bool empty = false;

    for (int i = 0; i < 4; i++) {
        empty = empty || dim[i] == 0;
        if (__builtin_mul_overflow(elements, dim[i] ? dim[i] : 1, &elements))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "%s: %lld x %lld x %lld x %lld elements exceed the address space",
                               what, (long long)dim[0], (long long)dim[1], (long long)dim[2],
                               (long long)dim[3]);
    }
    if (empty)
        elements = 0;
    *m = (limber_matrix){ data, f, elements, 1 };
    return limber_check_matrix(m, what, 1, elements, d);
}

struct operands {
    const void *x, *w;
    void *y;
    limber_format xf, wf, yf;
};

/* A plan (no y) has no result to check. */
static bool check(const limber_contract *contract, const limber_conv *s, const struct operands *o,
                  bool want_y, int64_t out[2], struct diag *d)
{
    struct extent x, w, y;
    limber_matrix mx, mw, my;

    if (!check_shape(s, out, d) ||
        !tensor(&mx, "x", o->x, o->xf, (int64_t[]){ s->n, s->c, s->h, s->w }, d) ||
        !tensor(&mw, "w", o->w, o->wf, (int64_t[]){ s->o, s->c / s->groups, s->r, s->s }, d) ||
        !tensor(&my, "y", o->y, o->yf, (int64_t[]){ s->n, s->o, out[0], out[1] }, d) ||
        !limber_contract_check(contract, o->xf, o->wf, o->yf, d) ||
        !limber_check_data(&mx, "x", 1, mx.row_stride, d) ||
        !limber_check_data(&mw, "w", 1, mw.row_stride, d))
        return false;
    x = (struct extent){ &mx, "x", 1, mx.row_stride };
    w = (struct extent){ &mw, "w", 1, mw.row_stride };
    y = (struct extent){ &my, "y", 1, my.row_stride };
    return !want_y || (limber_check_data(&my, "y", 1, my.row_stride, d) &&
                       limber_check_apart(y, x, d) && limber_check_apart(y, w, d));
}

/* Fills what is there: the views point into it. */
static void state(struct problem *p, const limber_contract *contract, const limber_conv *s,
                  const void *alpha, const struct operands *o, const void *beta,
                  const int64_t out[2])
{
    struct index_map result;

    *p = (struct problem){
        .contract = *contract,
        .shape = s,
        .conv = { .geometry = { .stride = { s->stride[0], s->stride[1] },
                                .pad = { s->pad[0], s->pad[1], s->pad[2], s->pad[3] },
                                .dilate = { s->dilate[0], s->dilate[1] },
                                .groups = s->groups,
                                .layout =
                                    s->layout == LIMBER_LAYOUT_NHWC ? LAYOUT_nhwc : LAYOUT_nchw },
                  .sizes = { s->n, s->c, s->h, s->w, s->o, s->r, s->s, out[0], out[1] } },
        .m = s->o / s->groups,
        .n = s->n * out[0] * out[1],
        .k = s->c / s->groups * s->r * s->s,
        .groups = s->groups,
        .fa = o->wf,
        .fb = o->xf,
        .fc = o->yf,
        .alpha = limber_scalar(alpha, o->yf, 1),
        .beta = limber_scalar(beta, o->yf, 0),
    };
    limber_conv_map(&p->map_a, OP_filters, &p->conv, 0);
    limber_conv_map(&p->map_b, OP_patches, &p->conv, 0);
    limber_conv_map(&result, OP_image, &p->conv, 0);
    p->a = limber_map_view(&p->map_a, o->w);
    p->b = limber_map_view(&p->map_b, o->x);
    p->c = limber_map_output(&result, o->y);
    p->step_a = p->map_a.group;
    p->step_b = p->map_b.group;
    p->step_c = result.group;
}

bool limber_conv_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d)
{
    const struct operands o = { p->a.data,   p->b.data,   p->c.data,
                                p->a.format, p->b.format, p->c.format };
    int64_t out[2];

    (void)ctx;
    if (!check(p->contract, p->conv, &o, stores, out, d))
        return false;
    state(to, p->contract, p->conv, p->alpha, &o, p->beta, out);
    to->queue = p->queue;
    return true;
}
