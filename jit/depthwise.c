/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions, in which each filter reads one channel.  As a GEMM, each group would be a
 * single row of A times a packed im2col matrix, which would be used only once.  Library code
 * computes the sums without packing.  The bits are those of the scheme `native`, or of exact
 * integers. */
#include "jit/scan/scan.h"
#include "jit/ways.h"

#include <stdatomic.h>
#include <string.h>

/* True if the scalar is absent or 1.  The scalar's format f is a float: integer convolutions have
 * no scalars on these code paths. */
static bool is_one(const void *scalar, limber_format f)
{
    return !scalar || limber_scalar_is(scalar, f.size, 1);
}

/* True if both operands and the result have one format, binary64 or binary32. */
static bool have_one_binary_format(const struct problem *p)
{
    return limber_format_is_binary(p->fc) && limber_format_equal(p->fa, p->fc) &&
           limber_format_equal(p->fb, p->fc);
}

/* True if operands and result have one format, binary64 or binary32, and alpha and beta are absent
 * or 1. */
static bool are_unscaled_floats(const struct problem *p)
{
    return have_one_binary_format(p) && is_one(p->alpha, p->fc) && is_one(p->beta, p->fc);
}

/* True for products of 8-bit integers with i32 results.  Filters must be signed, so that sums of at
 * most LIMBER_SMALL_K products fit i32. */
static bool are_bytes(const struct problem *p)
{
    return limber_is_integer(p->fa) && p->fa.size == 1 && p->fa.kind == LIMBER_KIND_INT &&
           limber_is_integer(p->fb) && p->fb.size == 1 && limber_format_equal(p->fc, LIMBER_I32) &&
           !p->alpha && !p->beta;
}

/* False for the whole gradient of an image with strides, which is computed in several stride phases
 * (pixels with the same remainders modulo the strides); true for one phase, and for other
 * convolutions. */
static bool is_served_direction(const struct problem *p)
{
    const struct conv_geometry *g = &p->conv.geometry;

    return g->direction != DIRECTION_data || p->conv.sizes.phase[0] ||
           (g->stride[0] == 1 && g->stride[1] == 1 && g->stride[2] == 1);
}

/* True if each sum has at most LIMBER_SMALL_K products, so that it is one chain.  The sums of a
 * filter gradient are longer; for it only the window is limited. */
static bool is_short(const struct problem *p)
{
    const struct conv_sizes *s = &p->conv.sizes;
    const int64_t t = limber_conv_depths(&p->conv).window;

    if (p->conv.geometry.direction != DIRECTION_filter)
        return p->k <= LIMBER_SMALL_K;
    return t <= LIMBER_SMALL_K && t * s->r <= LIMBER_SMALL_K && t * s->r * s->s <= LIMBER_SMALL_K;
}

/* True if the library has code for this convolution: one input channel per group, short sums, and a
 * scheme that the library chooses. */
static bool can_compute(const limber_context *ctx, const struct problem *p)
{
    return p->groups == p->conv.sizes.c && ctx->machine.cpu && p->m > 0 && p->n > 0 && p->k > 0 &&
           is_short(p) && !p->contract.scheme && !limber_simulates(&p->contract);
}

/* Returns the reason why no depthwise code can compute this call, as text; NULL if some may. */
static const char *common_refusal(const limber_context *ctx, const struct problem *p)
{
    return p->shape && is_served_direction(p) && can_compute(ctx, p) ?
               NULL :
               "it serves depthwise convolutions with short windows on CPUs";
}

/* Returns the reason why the way `depthwise` (a code path) cannot compute the call, as text; NULL
 * if it can. */
static const char *why_not_depthwise(const limber_context *ctx, const struct problem *p)
{
    const char *why = common_refusal(ctx, p);
    const bool forward = p->shape && p->conv.geometry.direction == DIRECTION_forward;

    if (why)
        return why;
    return (forward && are_bytes(p)) ||
                   (are_unscaled_floats(p) && limber_needs_native_sums(&p->contract)) ?
               NULL :
               "it serves native results of one float format, and bytes";
}

/* True if the library has code for this depthwise convolution. */
bool limber_is_depthwise(const limber_context *ctx, const struct problem *p)
{
    return limber_has_way(ctx, WAY_depthwise) && !why_not_depthwise(ctx, p);
}

/* True if limber_depthwise_run computes all stride phases of an image's gradient in one call. */
bool limber_can_run_depthwise_phases_at_once(const limber_context *ctx, const struct problem *p)
{
    const struct conv_geometry *g = &p->conv.geometry;

    return p->shape && limber_has_way(ctx, WAY_depthwise) && g->direction == DIRECTION_data &&
           !g->deep && g->stride[0] == 2 && g->stride[1] == 2 && !p->beta && can_compute(ctx, p) &&
           are_unscaled_floats(p) && limber_needs_native_sums(&p->contract);
}

/* Describes dimension `of` (0: height, 1: width, 2: depth) of an image gradient dx as a forward
 * convolution: dy takes the place of the image, and the window is read back to front. */
static void describe_gradient_dimension(const struct problem *p, struct depthwise *d, int of)
{
    const struct lattice x = limber_conv_lattice(&p->conv, of);

    const int place[] = { 3, 4, 2 }; /* index of this dimension's stride in d->filter and d->to */

    *(int64_t *[]){ &d->h, &d->w, &d->depth }[of] =
        (int64_t[]){ p->conv.sizes.oh, p->conv.sizes.ow, limber_conv_depths(&p->conv).result }[of];
    *(int64_t *[]){ &d->oh, &d->ow, &d->od }[of] = x.pixels;
    *(int64_t *[]){ &d->r, &d->s, &d->t }[of] = x.taps;
    d->stride[of] = 1;
    d->dilate[of] = x.dilate;
    d->pad[of] = (x.taps - 1) * x.dilate - x.at;
    d->filters = (const char *)d->filters + x.first * d->filter[place[of]] * d->size;
    d->filter[place[of]] *= x.step;
    d->result = (char *)d->result + x.begin * d->to[place[of]] * d->size;
    d->to[place[of]] *= x.stride;
}

/* Sets the strides of a result that has deep x high x wide pixels per image and channel. */
static void describe_result(struct depthwise *d, int64_t channels, int64_t deep, int64_t high,
                            int64_t wide)
{
    const int64_t pixel = d->nhwc ? channels : 1;

    d->to[0] = channels * deep * high * wide;
    d->to[1] = d->nhwc ? 1 : deep * high * wide;
    d->to[2] = high * wide * pixel;
    d->to[3] = wide * pixel;
    d->to[4] = pixel;
}

/* Describes a convolution by the sizes and strides that the backend's depthwise code needs. */
static void describe_conv(const struct problem *p, struct depthwise *d)
{
    const struct conv_geometry *g = &p->conv.geometry;
    const struct conv_sizes *s = &p->conv.sizes;
    const struct depths planes = limber_conv_depths(&p->conv);
    const int64_t plane = s->r * s->s, window = planes.window * plane;

    *d = (struct depthwise){ .images = s->n,
                             .channels = s->c,
                             .multiplier = s->o / s->c,
                             .inputs = 1,
                             .depth = planes.image,
                             .h = s->h,
                             .w = s->w,
                             .t = planes.window,
                             .r = s->r,
                             .s = s->s,
                             .od = planes.result,
                             .oh = s->oh,
                             .ow = s->ow,
                             .stride = { g->stride[0], g->stride[1], g->stride[2] },
                             .pad = { g->pad[0], g->pad[2], g->pad[4] },
                             .dilate = { g->dilate[0], g->dilate[1], g->dilate[2] },
                             .filter = { window, window, plane, s->s, 1 },
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
        describe_result(d, s->o, planes.result, s->oh, s->ow);
        return;
    }
    d->inputs = d->multiplier;
    d->multiplier = 1;
    d->filter[0] *= d->inputs;
    describe_result(d, s->c, planes.image, s->h, s->w);
    /* the whole gradient of an image with strides: the code computes all phases in one call */
    if (!is_served_direction(p)) {
        d->h = s->oh;
        d->w = s->ow;
        d->oh = s->h;
        d->ow = s->w;
        return;
    }
    for (int of = 0; of < (g->deep ? 3 : 2); of++)
        describe_gradient_dimension(p, d, of);
}

/* State of a depthwise convolution while its tasks run. */
struct running {
    const struct problem *p;
    const struct cpu_ops *cpu;
    const char *backend; /* name of the backend */
    const struct target *target;
    struct depthwise d;
    struct depthwise_plan plan;
    /* allowed error before the final rounding, relative to |A||B|; 0 if none is allowed */
    double allowed;
    atomic_llong slow; /* number of elements whose rounding double-double sums left uncertain */
    /* memory of the workers, plan.room bytes each; `own` is the same memory if it must be freed,
     * else NULL */
    char *rooms, *own;
    size_t bytes; /* bytes of all workers' memory */
};

/* Clears *x and describes the convolution p in it. */
static void describe_running(struct running *x, const limber_context *ctx, const struct problem *p)
{
    memset(x, 0, sizeof *x);
    x->p = p;
    x->cpu = ctx->machine.cpu;
    x->backend = ctx->machine.backend->name;
    x->target = &ctx->machine.target;
    describe_conv(p, &x->d);
}

/* Divides the convolution into tasks.  False if the library has no code for it. */
static bool make_plan(const limber_context *ctx, const struct problem *p, const struct runner *all,
                      struct running *x)
{
    describe_running(x, ctx, p);
    if (!x->cpu->depthwise->plan(&x->d, x->target, limber_runner_busy(all), &x->plan))
        return false;
    x->bytes = x->plan.room * (size_t)all->workers;
    return true;
}

/* Alignment of the workers' memory.  SLACK more bytes are needed to align the caller's workspace,
 * whose address may be any. */
enum { ALIGNED = 64, SLACK = ALIGNED - 1 };

/* Gets memory for all workers, from the caller's workspace if the queue has one.  False if memory
 * runs out or the workspace is too small. */
static bool alloc_rooms(limber_context *ctx, const struct problem *p, struct running *x)
{
    if (!p->queue || !p->queue->workspace)
        x->rooms = x->own = limber_memory_alloc(&ctx->allocator, x->bytes);
    else if (p->queue->bytes >= x->bytes + SLACK)
        x->rooms = (char *)(((uintptr_t)p->queue->workspace + SLACK) & ~(uintptr_t)SLACK);
    return x->rooms != NULL;
}

/* Runs all tasks of a plan, each worker in memory of its own.  False if there is no memory. */
static bool run_tasks(limber_context *ctx, struct running *x,
                      void (*task)(void *arg, int64_t task, int worker))
{
    struct runner all = limber_pool_runner(ctx->pool);

    if (!alloc_rooms(ctx, x->p, x))
        return false;
    if (all.workers > 1 && x->plan.tasks > 1) {
        limber_pool_enter(ctx->pool);
        all.run(all.self, x->plan.tasks, task, x);
        limber_pool_leave(ctx->pool);
    } else {
        for (int64_t i = 0; i < x->plan.tasks; i++)
            task(x, i, 0);
    }
    limber_memory_free(&ctx->allocator, x->own);
    return true;
}

/* Task: runs one task of the plan in the worker's memory. */
static void run_task(void *arg, int64_t task, int worker)
{
    const struct running *x = arg;

    x->cpu->depthwise->run(&x->d, x->target, &x->plan, task,
                           x->rooms + (size_t)worker * x->plan.room);
}

/* Fills the report of a finished call, except for times. */
static void fill_report(const struct running *x, const char *scheme, double bound, struct report *r)
{
    limber_report_library(r, x->backend, scheme, bound);
    r->recomputed = x->slow;
    r->way = WAY_depthwise;
    r->workspace = x->bytes;
}

/* Computes a depthwise convolution.  r: report with its error bound, or NULL.  False, with nothing
 * computed, if there is no code for the convolution or memory runs out. */
bool limber_depthwise_run(limber_context *ctx, const struct problem *p, struct report *r)
{
    const struct runner all = limber_pool_runner(ctx->pool);
    /* k times the unit roundoff u, from which the error bound of a sum of k fused multiply-adds
     * follows */
    const double n = (double)p->k * (p->fc.size == 8 ? 0x1p-53 : 0x1p-24);
    const bool rounds = limber_needs_native_sums(&p->contract) && !are_bytes(p);
    const double begin = r ? limber_now() : 0;
    struct running x;

    if (!make_plan(ctx, p, &all, &x) || !run_tasks(ctx, &x, run_task))
        return false;
    if (!r)
        return true;
    fill_report(&x, are_bytes(p) ? "integer" : "native", rounds ? n / (1 - n) : 0, r);
    r->seconds_run = limber_now() - begin;
    return true;
}

/* Scans dense elements into *m by a probe, which stops if a line needs many bits.  False if the
 * probe stopped, or if there are NaN or infinities, or only zeros. */
static bool probe_elements(const void *data, limber_format f, int64_t lines, int64_t length,
                           const struct runner *all, struct mask *m)
{
    const struct view v = { .data = data, .line = length, .p = 1 };
    struct diag ignored = { 0 };

    return limber_scan(m, &v, f, lines, length, SCAN_probe, all, &ignored) && m->scanned &&
           !m->special && !m->zero;
}

/* True if all partial sums are multiples of one power of two and have at most as many bits as C's
 * format, so that no addition rounds. */
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

/* Returns the reason why the way `depthwise_exact` (a code path) cannot compute the call, as text;
 * NULL if it may. */
static const char *why_not_depthwise_exact(const limber_context *ctx, const struct problem *p)
{
    const char *why = common_refusal(ctx, p);

    if (why)
        return why;
    return are_unscaled_floats(p) && p->contract.promise == LIMBER_CONTRACT_CORRECT ?
               NULL :
               "it serves correct results of one float format";
}

/* Scans both operands.  True if the sums of a correct result are exact without rounding. */
static bool sums_are_exact(struct attempt *at)
{
    limber_context *ctx = at->ctx;
    const struct problem *p = at->p;
    const struct conv_sizes *s = &p->conv.sizes;
    const struct runner all = limber_pool_runner(ctx->pool);
    const int64_t direction = p->conv.geometry.direction;
    const struct depths planes = limber_conv_depths(&p->conv);
    const int64_t x = planes.image * s->h * s->w, y = planes.result * s->oh * s->ow;
    const int64_t w = planes.window * s->r * s->s;
    struct mask a = { 0 }, b = { 0 };
    bool exact;

    exact = (direction == DIRECTION_filter ?
                 probe_elements(p->a.data, p->fa, s->n * s->o, y, &all, &a) :
                 probe_elements(p->a.data, p->fa, 1, s->o * w, NULL, &a)) &&
            probe_elements(p->b.data, p->fb, s->n * (direction == DIRECTION_data ? s->o : s->c),
                           direction == DIRECTION_data ? y : x, &all, &b) &&
            is_exact(p, &a, &b);
    limber_mask_clear(&a);
    limber_mask_clear(&b);
    return exact;
}

/* Computes the convolution with native sums if a scan shows that they are exact.  RAN_not if it
 * does not. */
static enum ran run_exact(struct attempt *at)
{
    double start = at->r ? limber_now() : 0, end;

    if (!sums_are_exact(at))
        return RAN_not;
    end = at->r ? limber_now() : 0;
    if (!limber_depthwise_run(at->ctx, at->p, at->r))
        return RAN_not;
    if (at->r)
        at->r->seconds_scan = end - start;
    return RAN_done;
}

/* Implements way.run: computes a depthwise convolution. */
static enum ran run_depthwise(struct attempt *at)
{
    return limber_ran(limber_depthwise_run(at->ctx, at->p, at->r));
}

/* Computes the bytes of workspace that limber_depthwise_run needs.  Returns false if it cannot
 * compute the convolution. */
bool limber_depthwise_workspace(limber_context *ctx, const struct problem *p, size_t *bytes)
{
    const struct runner all = limber_pool_runner(ctx->pool);
    struct running x;
    bool ok = make_plan(ctx, p, &all, &x);

    *bytes = ok ? x.bytes + SLACK : 0;
    return ok;
}

/* Implements way.workspace of depthwise convolutions. */
static enum ran depthwise_workspace(struct attempt *at, bool batch, size_t *least, size_t *best)
{
    (void)batch;
    if (!limber_depthwise_workspace(at->ctx, at->p, least))
        return RAN_not; /* the library has no code for this convolution */
    *best = *least;
    return RAN_done;
}

const struct way limber_way_depthwise = { .id = WAY_depthwise,
                                          .refuses = why_not_depthwise,
                                          .run = run_depthwise,
                                          .workspace = depthwise_workspace };
const struct way limber_way_depthwise_exact = { .id = WAY_depthwise_exact,
                                                .plans = true,
                                                .refuses = why_not_depthwise_exact,
                                                .run = run_exact,
                                                .suits = sums_are_exact,
                                                .workspace = depthwise_workspace };

/* ---- sums in scaled pairs -------------------------------------------------------------------- */

/* Returns the reason why the way `depthwise_pairs` (a code path) cannot compute the call, as
 * text; NULL if it can.  Each row of the result is a product of the channel's filters and the
 * pixels in their windows.  The code for small products sums it in double-double arithmetic, and
 * exactly if a rounding is uncertain after that. */
static const char *why_not_depthwise_pairs(const limber_context *ctx, const struct problem *p)
{
    const char *why = common_refusal(ctx, p);
    double allowed;

    if (why)
        return why;
    return have_one_binary_format(p) && p->conv.geometry.direction != DIRECTION_filter &&
                   limber_pairs_serve(&p->contract, &allowed) ?
               NULL :
               "it serves correct results and those in bits of one float format, but no gradients "
               "of filters";
}

enum { COLUMNS = 64 }; /* columns of the result that are computed as one product */

/* True if sums in binary64 are accurate enough to round most results correctly, so that
 * double-double sums are needed only for the others. */
static bool can_sum_in_binary64(const struct running *x)
{
    return is_one(x->p->alpha, x->p->fc) && !x->p->beta && x->allowed == 0 &&
           x->cpu->depthwise->wide(&x->d, x->target, 0, NULL, NULL);
}

/* Divides the sums into tasks: one row of a channel each or, if sums in binary64 come first, one
 * channel of an image each. */
static void plan_pairs(const limber_context *ctx, const struct problem *p, struct running *x)
{
    const struct runner all = limber_pool_runner(ctx->pool);

    describe_running(x, ctx, p);
    (void)limber_pairs_serve(&p->contract, &x->allowed);
    x->plan.room = (size_t)((COLUMNS + x->d.multiplier) * p->k) * p->fc.size;
    x->plan.tasks = x->d.images * x->d.channels;
    if (can_sum_in_binary64(x))
        x->plan.room += (size_t)(x->d.w + x->d.oh) * sizeof(float);
    else
        x->plan.tasks *= x->d.od * x->d.oh;
    x->plan.room = (x->plan.room + SLACK) / ALIGNED * ALIGNED;
    x->bytes = x->plan.room * (size_t)all.workers;
}

/* Copies the filters of a channel to dense rows of k elements. */
static void copy_filters(const struct depthwise *d, int64_t channel, char *to)
{
    const size_t size = (size_t)d->size;

    for (int64_t j = 0; j < d->multiplier; j++)
        for (int64_t row = 0; row < d->inputs * d->t * d->r; row++) {
            const int64_t plane = row / d->r;
            const int64_t at = (channel * d->multiplier + j) * d->filter[0] +
                               plane / d->t * d->filter[1] + plane % d->t * d->filter[2] +
                               row % d->r * d->filter[3];

            for (int64_t s = 0; s < d->s; s++, to += size)
                memcpy(to, (const char *)d->filters + (at + s * d->filter[4]) * (int64_t)size,
                       size);
        }
}

/* Copies `count` elements of a row of the image, from column `first`, one stride apart.  Elements
 * outside the image become 0. row: address of the row; NULL if all of it is padding. */
static void copy_columns(const struct depthwise *d, const char *row, int64_t first, int64_t count,
                         char *to)
{
    const int64_t step = d->nhwc ? d->channels * d->inputs : 1, stride = d->stride[1];

    if (!row) {
        memset(to, 0, (size_t)(count * d->size));
        return;
    }
    for (int64_t i = 0, x = first; i < count; i++, x += stride) {
        const bool inside = x >= 0 && x < d->w;

        if (d->size == 8)
            ((double *)to)[i] = inside ? ((const double *)row)[x * step] : 0;
        else
            ((float *)to)[i] = inside ? ((const float *)row)[x * step] : 0;
    }
}

/* The image, channel, depth and row index of one row of the result. */
struct result_row {
    int64_t image, channel, z, y;
};

/* Returns the index in the image, along dimension `of`, of the pixel that element `tap` of the
 * window reads for the result's index `at`. */
static int64_t image_index(const struct depthwise *d, int of, int64_t at, int64_t tap)
{
    const int64_t taps = (const int64_t[]){ d->r, d->s, d->t }[of];

    return at * d->stride[of] + (d->backward ? taps - 1 - tap : tap) * d->dilate[of] - d->pad[of];
}

/* Returns the row of the image that row r of plane `plane` of the window reads; NULL if that row is
 * padding. */
static const char *image_row(const struct depthwise *d, const struct result_row *to, int64_t plane,
                             int64_t r)
{
    const int64_t z = image_index(d, 2, to->z, plane % d->t), y = image_index(d, 0, to->y, r);
    const int64_t all = d->channels * d->inputs, channel = to->channel * d->inputs + plane / d->t;

    if (z < 0 || z >= d->depth || y < 0 || y >= d->h)
        return NULL;
    return (const char *)d->image +
           (d->nhwc ? ((to->image * d->depth + z) * d->h + y) * d->w * all + channel :
                      (((to->image * all + channel) * d->depth + z) * d->h + y) * d->w) *
               d->size;
}

/* Copies the pixels that the windows of `count` columns of the result read, from column x, to k
 * rows of COLUMNS elements. */
static void copy_windows(const struct depthwise *d, const struct result_row *of, int64_t x,
                         int64_t count, char *to)
{
    for (int64_t i = 0; i < d->inputs * d->t * d->r; i++) {
        const char *row = image_row(d, of, i / d->r, i % d->r);

        for (int64_t s = 0; s < d->s; s++, to += COLUMNS * d->size)
            copy_columns(d, row, image_index(d, 1, x, s), count, to);
    }
}

/* Task: computes one row of the result by double-double sums. */
static void run_row(void *arg, int64_t task, int worker)
{
    struct running *x = arg;
    const struct problem *p = x->p;
    const struct depthwise *d = &x->d;
    const int64_t plane = task / d->oh, line = plane / d->od;
    const struct result_row row = { line / d->channels, line % d->channels, plane % d->od,
                                    task % d->oh };
    char *windows = x->rooms + (size_t)worker * x->plan.room;
    char *filters = windows + COLUMNS * p->k * d->size;
    char *to = (char *)d->result + (row.image * d->to[0] + row.channel * d->multiplier * d->to[1] +
                                    row.z * d->to[2] + row.y * d->to[3]) *
                                       d->size;

    copy_filters(d, row.channel, filters);
    for (int64_t i = 0; i < d->ow; i += COLUMNS) {
        struct call call = { .m = d->multiplier,
                             .n = d->ow - i < COLUMNS ? d->ow - i : COLUMNS,
                             .k = p->k,
                             .a = { .data = filters, .line = p->k, .p = 1 },
                             .b = { .data = windows, .line = 1, .p = COLUMNS },
                             .alpha = p->alpha,
                             .beta = p->beta };
        int64_t slow;

        call.c = (struct output_view){ to + i * d->to[4] * d->size, d->to[1], d->to[4], call.n, 0 };
        copy_windows(d, &row, i, call.n, windows);
        slow = x->cpu->small(&call, x->target, p->fa, p->fb, p->fc, x->allowed);
        if (slow)
            atomic_fetch_add(&x->slow, slow);
    }
}

/* Task: computes one channel of an image by sums in binary64.  Rows in which these leave a rounding
 * uncertain are computed again by double-double sums. */
static void run_channel(void *arg, int64_t task, int worker)
{
    struct running *x = arg;
    const int64_t rows = x->d.oh;
    char *room = x->rooms + (size_t)worker * x->plan.room;
    float *zeros = (float *)(room + (COLUMNS + x->d.multiplier) * x->p->k * x->d.size);
    uint8_t *unsure = (uint8_t *)(zeros + x->d.w);

    x->cpu->depthwise->wide(&x->d, x->target, task, zeros, unsure);
    for (int64_t y = 0; y < rows; y++)
        if (unsure[y])
            run_row(x, task * rows + y, worker);
}

/* Runs the way `depthwise_pairs` (a code path): computes the convolution by sums in binary64 or
 * double-double.  RAN_not if there is no memory. */
static enum ran run_pairs(struct attempt *at)
{
    const double begin = at->r ? limber_now() : 0;
    struct running x;

    plan_pairs(at->ctx, at->p, &x);
    if (!run_tasks(at->ctx, &x, can_sum_in_binary64(&x) ? run_channel : run_row))
        return RAN_not;
    if (at->r) {
        fill_report(&x, "pairs", 0, at->r);
        at->r->seconds_run = limber_now() - begin;
    }
    return RAN_done;
}

/* Implements way.workspace of depthwise convolutions by double-double sums. */
static enum ran pairs_workspace(struct attempt *at, bool batch, size_t *least, size_t *best)
{
    struct running x;

    (void)batch;
    plan_pairs(at->ctx, at->p, &x);
    *least = *best = x.bytes + SLACK;
    return RAN_done;
}

const struct way limber_way_depthwise_pairs = { .id = WAY_depthwise_pairs,
                                                .plans = true,
                                                .refuses = why_not_depthwise_pairs,
                                                .run = run_pairs,
                                                .workspace = pairs_workspace,
                                                .report = limber_pairs_report };
