/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions: check the arguments, state the problem as an implicit GEMM (ir/conv.h). */
#include "jit/api/api.h"

#include <string.h>

enum { MOST_STRIDE = 8 }; /* each phase is a product */

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

/* The three tensors of a direction, as the caller gives them: two are read, the right and the left
 * operand of the products, and one is written. */
struct tensors {
    const char *name[3];
    const void *data[3];
    limber_format format[3];
};

static struct tensors tensors_of(const limber_problem *p)
{
    struct tensors t = { .data = { p->a.data, p->b.data, p->c.data },
                         .format = { p->a.format, p->b.format, p->c.format } };
    static const char *const names[][3] = { { "x", "w", "y" },
                                            { "dy", "w", "dx" },
                                            { "x", "dy", "dw" } };

    memcpy(t.name, names[p->operation - LIMBER_OPERATION_CONV_FORWARD], sizeof t.name);
    return t;
}

static int64_t direction_of(limber_operation o)
{
    return o == LIMBER_OPERATION_CONV_BACKWARD_DATA   ? DIRECTION_data :
           o == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? DIRECTION_filter :
                                                        DIRECTION_forward;
}

static bool check_tensor(limber_matrix *m, const struct tensors *t, int i, const limber_conv *s,
                         const int64_t out[2], struct diag *d)
{
    const int64_t dim[3][4] = { { s->n, s->c, s->h, s->w },
                                { s->o, s->c / s->groups, s->r, s->s },
                                { s->n, s->o, out[0], out[1] } };
    int of = t->name[i][0] == 'd' ? t->name[i][1] : t->name[i][0];

    return tensor(m, t->name[i], t->data[i], t->format[i],
                  dim[of == 'x' ? 0 :
                      of == 'w' ? 1 :
                                  2],
                  d);
}

/* A plan (result not wanted) has no result to check. */
static bool check(const limber_problem *p, const struct tensors *t, bool stores, int64_t out[2],
                  struct diag *d)
{
    struct extent at[3];
    limber_matrix m[3];

    if (!check_shape(p->conv, out, d))
        return false;
    for (int i = 0; i < 3; i++) {
        if (!check_tensor(&m[i], t, i, p->conv, out, d))
            return false;
        at[i] = (struct extent){ &m[i], t->name[i], 1, m[i].row_stride };
    }
    if (!limber_contract_check(p->contract, t->format[0], t->format[1], t->format[2], d))
        return false;
    for (int i = 0; i < (stores ? 3 : 2); i++)
        if (!limber_check_data(&m[i], t->name[i], 1, m[i].row_stride, d))
            return false;
    return !stores || (limber_check_apart(at[2], at[0], d) && limber_check_apart(at[2], at[1], d));
}

/* Fills what is there: the views point into it. */
static void state(struct problem *to, const limber_problem *p, const struct tensors *t,
                  const int64_t out[2], const int64_t phase[2])
{
    const limber_conv *s = p->conv;
    struct index_map result;

    *to = (struct problem){
        .contract = *p->contract,
        .shape = s,
        .conv = { .geometry = { .stride = { s->stride[0], s->stride[1] },
                                .pad = { s->pad[0], s->pad[1], s->pad[2], s->pad[3] },
                                .dilate = { s->dilate[0], s->dilate[1] },
                                .groups = s->groups,
                                .layout =
                                    s->layout == LIMBER_LAYOUT_NHWC ? LAYOUT_nhwc : LAYOUT_nchw,
                                .direction = direction_of(p->operation) },
                  .sizes = { s->n,
                             s->c,
                             s->h,
                             s->w,
                             s->o,
                             s->r,
                             s->s,
                             out[0],
                             out[1],
                             { phase[0], phase[1] } } },
        .groups = s->groups,
        .fa = t->format[1],
        .fb = t->format[0],
        .fc = t->format[2],
        .alpha = limber_scalar(p->alpha, t->format[2], 1),
        .beta = limber_scalar(p->beta, t->format[2], 0),
    };
    limber_conv_product(&to->conv, &to->m, &to->n, &to->k);
    limber_conv_map(&to->map_a, OP_filters, &to->conv, 0);
    limber_conv_map(&to->map_b, OP_patches, &to->conv, 0);
    limber_conv_map(&result, OP_image, &to->conv, 0);
    to->a = limber_map_view(&to->map_a, t->data[1]);
    to->b = limber_map_view(&to->map_b, t->data[0]);
    to->c = limber_map_output(&result, p->c.data);
    to->step_a = to->map_a.group;
    to->step_b = to->map_b.group;
    to->step_c = result.group;
}

bool limber_conv_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d)
{
    const struct tensors t = tensors_of(p);
    int64_t out[2];

    (void)ctx;
    if (!check(p, &t, stores, out, d))
        return false;
    state(to, p, &t, out, (int64_t[]){ 0, 0 });
    to->queue = p->queue;
    return true;
}

/* ---- backward data of strides ---------------------------------------------------------------- */

/* Pixels of dx that leave the same rest modulo the stride are sums over the same elements of the
 * window: a convolution of their own, without zeros.  Simulated units, and steps of more than that,
 * compute all of them at once, with zeros. */
static bool has_phases(const limber_problem *p)
{
    return p->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA &&
           (p->conv->stride[0] > 1 || p->conv->stride[1] > 1) &&
           p->conv->stride[0] <= MOST_STRIDE && p->conv->stride[1] <= MOST_STRIDE &&
           !limber_simulates(p->contract);
}

static void join_report(struct report *all, const struct report *r, bool first)
{
    if (first) {
        *all = *r;
        return;
    }
    all->seconds_scan += r->seconds_scan;
    all->seconds_compile += r->seconds_compile;
    all->seconds_run += r->seconds_run;
    all->cost += r->cost;
    all->recomputed += r->recomputed;
    all->bound = r->bound > all->bound ? r->bound : all->bound;
    all->workspace = r->workspace > all->workspace ? r->workspace : all->workspace;
}

static bool run_phases(limber_context *ctx, const limber_problem *p, struct report *report,
                       struct diag *d)
{
    const struct tensors t = tensors_of(p);
    struct problem whole, part;
    struct backup keep;
    struct report r;
    int64_t out[2];
    bool ok = true, first = true;

    if (!check(p, &t, true, out, d))
        return false;
    state(&whole, p, &t, out, (int64_t[]){ 0, 0 });
    if (!limber_backup(ctx, &whole, &keep, d))
        return false;
    for (int64_t y = 0; ok && y < p->conv->stride[0]; y++)
        for (int64_t x = 0; ok && x < p->conv->stride[1]; x++, first = false) {
            state(&part, p, &t, out, (int64_t[]){ y + 1, x + 1 });
            part.queue = p->queue;
            ok = limber_engine_run(ctx, &part, report ? &r : NULL, d);
            if (ok && report)
                join_report(report, &r, first);
        }
    limber_backup_end(&keep, ok);
    return ok;
}

bool limber_conv_run(limber_context *ctx, const limber_problem *p, struct report *report,
                     struct diag *d)
{
    struct problem x;

    if (p->conv && has_phases(p))
        return run_phases(ctx, p, report, d);
    return limber_conv_state(ctx, p, true, &x, d) && limber_engine_run(ctx, &x, report, d);
}
