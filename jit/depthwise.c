/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions: as products of matrices each group would be one row by a window, packed
 * for a single use.  Code of the library sums them as they lie.  Bits are those of the scheme
 * `native`, or of exact integers. */
#include "jit/engine.h"
#include "jit/scan/scan.h"

#include <string.h>

/* The scalar is absent, or 1; integers have none. */
static bool is_one(const void *scalar, limber_format f)
{
    return !scalar || limber_scalar_is(scalar, f.size, 1);
}

static bool are_floats(const struct problem *p)
{
    return limber_format_is_binary(p->fc) && limber_format_equal(p->fa, p->fc) &&
           limber_format_equal(p->fb, p->fc) && is_one(p->alpha, p->fc) && is_one(p->beta, p->fc);
}

/* Filters are signed: no sum of so few products leaves i32. */
static bool are_bytes(const struct problem *p)
{
    return limber_is_integer(p->fa) && p->fa.size == 1 && p->fa.kind == LIMBER_KIND_INT &&
           limber_is_integer(p->fb) && p->fb.size == 1 && limber_format_equal(p->fc, LIMBER_I32) &&
           !p->alpha && !p->beta;
}

/* Gradients: where a channel has one filter, and of images phase by phase. */
static bool has_direction(const struct problem *p)
{
    const struct conv_geometry *g = &p->conv.geometry;
    const struct conv_sizes *s = &p->conv.sizes;

    return g->direction == DIRECTION_forward ||
           (s->o == s->c && (g->direction == DIRECTION_filter || s->phase[0] ||
                             (g->stride[0] == 1 && g->stride[1] == 1)));
}

static bool has_ops(const limber_context *ctx, const struct problem *p)
{
    const struct conv_sizes *s = &p->conv.sizes;

    return p->shape && !p->conv.geometry.deep && has_direction(p) && p->groups == s->c &&
           ctx->small && ctx->machine.backend->depthwise && p->m > 0 && p->n > 0 && p->k > 0 &&
           s->r <= LIMBER_SMALL_K && s->r * s->s <= LIMBER_SMALL_K && !p->contract.scheme &&
           !limber_simulates(&p->contract);
}

bool limber_is_depthwise(const limber_context *ctx, const struct problem *p)
{
    const bool forward = p->shape && p->conv.geometry.direction == DIRECTION_forward;

    return has_ops(ctx, p) &&
           ((forward && are_bytes(p)) || (are_floats(p) && limber_is_plain(&p->contract)));
}

/* One direction of dx: dy is its image, met backwards. */
static void describe_back(const struct problem *p, struct depthwise *d, int of)
{
    const struct lattice x = limber_conv_lattice(&p->conv, of);

    *(of ? &d->w : &d->h) = of ? p->conv.sizes.ow : p->conv.sizes.oh;
    *(of ? &d->ow : &d->oh) = x.pixels;
    *(of ? &d->s : &d->r) = x.taps;
    d->stride[of] = 1;
    d->dilate[of] = x.dilate;
    d->pad[of] = (x.taps - 1) * x.dilate - x.at;
    d->filters = (const char *)d->filters + x.first * d->filter[1 + of] * d->size;
    d->filter[1 + of] *= x.step;
    d->result = (char *)d->result + x.begin * d->to[2 + of] * d->size;
    d->to[2 + of] *= x.stride;
}

/* The result has high x wide pixels of each image and channel. */
static void describe_result(struct depthwise *d, int64_t channels, int64_t high, int64_t wide)
{
    const int64_t pixel = d->nhwc ? channels : 1;

    d->to[0] = channels * high * wide;
    d->to[1] = d->nhwc ? 1 : high * wide;
    d->to[2] = wide * pixel;
    d->to[3] = pixel;
}

static void describe(const struct problem *p, struct depthwise *d)
{
    const struct conv_geometry *g = &p->conv.geometry;
    const struct conv_sizes *s = &p->conv.sizes;

    *d = (struct depthwise){ .images = s->n,
                             .channels = s->c,
                             .multiplier = s->o / s->c,
                             .h = s->h,
                             .w = s->w,
                             .r = s->r,
                             .s = s->s,
                             .oh = s->oh,
                             .ow = s->ow,
                             .stride = { g->stride[0], g->stride[1] },
                             .pad = { g->pad[0], g->pad[2] },
                             .dilate = { g->dilate[0], g->dilate[1] },
                             .filter = { s->r * s->s, s->s, 1 },
                             .backward = g->direction == DIRECTION_data,
                             .gradient = g->direction == DIRECTION_filter,
                             .size = p->fa.size,
                             .nhwc = g->layout == LAYOUT_nhwc,
                             .is_unsigned = p->fb.kind == LIMBER_KIND_UINT,
                             .add = p->beta != NULL,
                             .image = p->b.data,
                             .filters = p->a.data,
                             .result = p->c.data };
    if (!d->backward) {
        describe_result(d, s->o, s->oh, s->ow);
        return;
    }
    describe_result(d, s->c, s->h, s->w);
    describe_back(p, d, 0);
    describe_back(p, d, 1);
}

struct running {
    const struct depthwise_ops *ops;
    const struct target *target;
    struct depthwise d;
    struct depthwise_plan plan;
    char *rooms, *own; /* one for each worker; own: to be freed */
    size_t bytes; /* together */
};

static bool make_plan(const limber_context *ctx, const struct problem *p, const struct runner *all,
                      struct running *x)
{
    *x = (struct running){ .ops = ctx->machine.backend->depthwise, .target = &ctx->machine.target };
    describe(p, &x->d);
    if (!x->ops->plan(&x->d, x->target, limber_runner_busy(all), &x->plan))
        return false;
    x->bytes = x->plan.room * (size_t)all->workers;
    return true;
}

/* The caller's workspace may begin anywhere. */
enum { ALIGNED = 64, SLACK = ALIGNED - 1 };

static bool take_rooms(limber_context *ctx, const struct problem *p, struct running *x)
{
    if (!p->queue || !p->queue->workspace)
        x->rooms = x->own = limber_memory_alloc(&ctx->allocator, x->bytes);
    else if (p->queue->bytes >= x->bytes + SLACK)
        x->rooms = (char *)(((uintptr_t)p->queue->workspace + SLACK) & ~(uintptr_t)SLACK);
    return x->rooms != NULL;
}

static void run_task(void *arg, int64_t task, int worker)
{
    const struct running *x = arg;

    x->ops->run(&x->d, x->target, &x->plan, task, x->rooms + (size_t)worker * x->plan.room);
}

static void report(const limber_context *ctx, const struct problem *p, const struct running *x,
                   struct report *r)
{
    double n = (double)p->k * (p->fc.size == 8 ? 0x1p-53 : 0x1p-24); /* as of direct products */
    bool rounds = limber_is_plain(&p->contract) && !are_bytes(p);

    limber_report_clear(r);
    r->rows = 1;
    r->from = LIMBER_FROM_LIBRARY;
    r->bound = rounds ? n / (1 - n) : 0;
    strcpy(r->scheme, are_bytes(p) ? "integer" : "native");
    memccpy(r->backend, ctx->machine.backend->name, '\0', sizeof r->backend - 1);
    r->workspace = x->bytes;
}

bool limber_depthwise_run(limber_context *ctx, const struct problem *p, struct report *r)
{
    struct runner all = limber_pool_runner(ctx->pool);
    double start = r ? limber_now() : 0;
    struct running x;

    if (!make_plan(ctx, p, &all, &x) || !take_rooms(ctx, p, &x))
        return false;
    if (all.workers > 1 && x.plan.tasks > 1) {
        limber_pool_enter(ctx->pool);
        all.run(all.self, x.plan.tasks, run_task, &x);
        limber_pool_leave(ctx->pool);
    } else {
        for (int64_t i = 0; i < x.plan.tasks; i++)
            run_task(&x, i, 0);
    }
    limber_memory_free(&ctx->allocator, x.own);
    if (!r)
        return true;
    report(ctx, p, &x, r);
    r->seconds_run = limber_now() - start;
    return true;
}

/* What a look at dense elements says; false: they are not known to be narrow. */
static bool look_at(const void *data, limber_format f, int64_t lines, int64_t length,
                    const struct runner *all, struct mask *m)
{
    const struct view v = { .data = data, .line = length, .p = 1 };
    struct diag ignored = { 0 };

    return limber_scan(m, &v, f, lines, length, SCAN_probe, all, &ignored) && m->scanned &&
           !m->special && !m->zero;
}

/* Every partial sum is a multiple of one power of two, and has so few bits that none is rounded. */
static bool is_exact(const struct problem *p, const struct mask *a, const struct mask *b)
{
    const int low[] = { limber_mask_low(a), limber_mask_low(b) };
    const int range = 1 << (p->fc.exp_bits - 1);
    int high = a->emax + b->emax + 2;

    while (p->k > (int64_t)1 << (high - a->emax - b->emax - 2))
        high++;
    return low[0] > -range && low[1] > -range && high < range && low[0] + low[1] > -range &&
           high - low[0] - low[1] <= p->fc.frac_bits + 1;
}

/* A look at the data of a correct result. */
static bool sums_are_exact(limber_context *ctx, const struct problem *p)
{
    const struct conv_sizes *s = &p->conv.sizes;
    const struct runner all = limber_pool_runner(ctx->pool);
    const int64_t direction = p->conv.geometry.direction;
    const int64_t x = s->h * s->w, y = s->oh * s->ow, w = s->r * s->s;
    struct mask a = { 0 }, b = { 0 };
    bool exact;

    if (!has_ops(ctx, p) || !are_floats(p) || p->contract.promise != LIMBER_CONTRACT_CORRECT)
        return false;
    exact = (direction == DIRECTION_filter ? look_at(p->a.data, p->fa, s->n * s->o, y, &all, &a) :
                                             look_at(p->a.data, p->fa, 1, s->o * w, NULL, &a)) &&
            look_at(p->b.data, p->fb, s->n * (direction == DIRECTION_data ? s->o : s->c),
                    direction == DIRECTION_data ? y : x, &all, &b) &&
            is_exact(p, &a, &b);
    limber_mask_clear(&a);
    limber_mask_clear(&b);
    return exact;
}

bool limber_depthwise_run_exact(limber_context *ctx, const struct problem *p, struct report *r)
{
    double start = r ? limber_now() : 0, end;

    if (!sums_are_exact(ctx, p))
        return false;
    end = r ? limber_now() : 0;
    if (!limber_depthwise_run(ctx, p, r))
        return false;
    if (r)
        r->seconds_scan = end - start;
    return true;
}

bool limber_depthwise_workspace(limber_context *ctx, const struct problem *p, size_t *bytes)
{
    const struct runner all = limber_pool_runner(ctx->pool);
    struct running x;

    if (!(limber_is_depthwise(ctx, p) || sums_are_exact(ctx, p)) || !make_plan(ctx, p, &all, &x))
        return false;
    *bytes = x.bytes + SLACK;
    return true;
}
