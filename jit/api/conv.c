/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions: checks the arguments and converts the problem to an implicit GEMM (ir/conv.h). */
#include "jit/accepted.h"
#include "jit/api/conv_shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Computes the height, width and depth of the result; zeros after an error. null: name of an
 * argument of the public call that is NULL; NULL if no argument is. */
static limber_status compute_sizes(const char *caller, const limber_conv *conv, int64_t out[3],
                                   const char *null)
{
    struct diag d = { 0 };
    limber_conv full;

    if (!conv)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s: conv is NULL", caller);
    else if (null)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %s is NULL", caller, null);
    else if (!limber_copy_sized_in(&full, sizeof full, conv, LEAST_conv, "conv", &d) ||
             !limber_conv_check_shape(&full, out, &d))
        limber_fail_in(&d, caller);
    if (d.status != LIMBER_STATUS_OK)
        memset(out, 0, 3 * sizeof *out);
    return limber_error_set(&d);
}

/* Computes the height and width of the result.  BAD_ARGUMENT for an impossible geometry. */
limber_status limber_conv_output(const limber_conv *conv, int64_t *oh, int64_t *ow)
{
    int64_t out[3] = { 0 };
    limber_status s = compute_sizes("conv_output", conv, out, !oh ? "oh" : !ow ? "ow" : NULL);

    if (oh)
        *oh = out[0];
    if (ow)
        *ow = out[1];
    return s;
}

/* Computes the depth of the result; 1 for two dimensions. */
limber_status limber_conv_output_depth(const limber_conv *conv, int64_t *od)
{
    int64_t out[3] = { 0 };
    limber_status s = compute_sizes("conv_output_depth", conv, out, od ? NULL : "od");

    if (od)
        *od = out[2];
    return s;
}

/* Checks a dense tensor as a matrix with one row.  Dimensions of 0 are counted as 1, so that they
 * do not hide an overflow of the product of the others. */
static bool check_dense_tensor(limber_matrix *m, const char *what, const void *data,
                               limber_format f, const int64_t dim[5], struct diag *d)
{
    int64_t elements = 1;
    bool empty = false;

    for (int i = 0; i < 5; i++) {
        empty = empty || dim[i] == 0;
        if (__builtin_mul_overflow(elements, dim[i] ? dim[i] : 1, &elements))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "%s: %lld x %lld x %lld x %lld x %lld elements exceed the address "
                               "space",
                               what, (long long)dim[0], (long long)dim[1], (long long)dim[2],
                               (long long)dim[3], (long long)dim[4]);
    }
    if (empty)
        elements = 0;
    *m = (limber_matrix){ data, f, elements, 1 };
    return limber_check_matrix(m, what, 1, elements, d);
}

/* The tensors of a convolution as the caller passes them.  [0] becomes the right operand of the
 * products, [1] the left operand, [2] the result. */
struct tensors {
    const char *name[3];
    const void *data[3];
    limber_format format[3];
};

/* Returns the addresses, formats and names of a convolution's two operands and its result. */
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

/* Checks tensor i of a convolution: x, w, y or a gradient dx, dw, dy.  The name tells which of the
 * shapes it has. */
static bool check_tensor(limber_matrix *m, const struct tensors *t, int i, const limber_conv *s,
                         const int64_t out[3], struct diag *d)
{
    bool deep = limber_conv_is_deep(s);
    const int64_t dim[3][5] = { { s->n, s->c, deep ? s->d : 1, s->h, s->w },
                                { s->o, s->c / s->groups, deep ? s->t : 1, s->r, s->s },
                                { s->n, s->o, out[2], out[0], out[1] } };
    int of = t->name[i][0] == 'd' ? t->name[i][1] : t->name[i][0];

    return check_dense_tensor(m, t->name[i], t->data[i], t->format[i],
                              dim[of == 'x' ? 0 :
                                  of == 'w' ? 1 :
                                              2],
                              d);
}

/* Checks the arguments of a convolution. stores: the result will be written, so its address is
 * checked, too. out: height, width and depth of the result. */
static bool check_arguments(const limber_context *ctx, const limber_problem *p,
                            const struct tensors *t, bool stores, int64_t out[3], struct diag *d)
{
    struct extent at[3];
    limber_matrix m[3];

    if (!limber_conv_check_shape(p->conv, out, d))
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
    return (!stores ||
            (limber_check_apart(at[2], at[0], d) && limber_check_apart(at[2], at[1], d))) &&
           limber_prepared_filters_fit(ctx, p, d);
}

/* Converts the convolution to a product.  Fills *to in place, because its views point into it.
 * phase: zeros, or the stride phase of an image gradient in each dimension, counted from 1. */
static void state_conv(struct problem *to, const limber_problem *p, const struct tensors *t,
                       const int64_t out[3], const int64_t phase[3])
{
    struct index_map result;

    *to = (struct problem){
        .contract = *p->contract,
        .shape = p->conv,
        .conv = limber_conv_geometry(p->conv, p->operation, out, phase),
        .groups = p->conv->groups,
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
    to->at.step_a = to->map_a.group;
    to->at.step_b = to->map_b.group;
    to->at.step_c = result.group;
    to->queue = p->queue;
    if (to->k > 0) { /* with k = 0 the filters are not read */
        to->kept[0] = p->prepared_b;
        to->kept_part = limber_conv_part(&to->conv);
    }
}

/* Fills *to with the problem of a convolution, and checks it. */
bool limber_conv_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d)
{
    const struct tensors t = tensors_of(p);
    int64_t out[3];

    if (!check_arguments(ctx, p, &t, stores, out, d))
        return false;
    state_conv(to, p, &t, out, (int64_t[]){ 0, 0, 0 });
    return true;
}

/* ---- backward data with strides -------------------------------------------------------------- */

/* True if an image gradient is computed in stride phases.  Pixels of dx whose coordinates have the
 * same remainders modulo the strides are sums over the same elements of the window, so they are a
 * convolution of their own (a phase), in which no zeros are multiplied.  Simulated units compute
 * all pixels at once, with zeros. */
static bool has_phases(const limber_problem *p)
{
    struct conv_dimension side[3];
    int sides = limber_conv_sides(p->conv, side);
    int64_t largest = 1;

    for (int i = 0; i < sides; i++)
        largest = side[i].stride > largest ? side[i].stride : largest;
    return p->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA && largest > 1 &&
           !limber_simulates(p->contract);
}

/* The numbers of stride phases of an image gradient. */
struct phase_counts {
    int64_t count[3], all; /* number of phases in height, width and depth; their product */
};

/* Counts the stride phases of an image gradient. */
static struct phase_counts count_phases(const limber_conv *s)
{
    struct phase_counts x = { { 1, 1, 1 }, 1 };
    struct conv_dimension side[3];

    for (int i = 0, sides = limber_conv_sides(s, side); i < sides; i++) {
        x.count[i] = side[i].stride < side[i].size ? side[i].stride : side[i].size;
        x.all *= x.count[i];
    }
    return x;
}

/* Sets *to to the problem of stride phase i.  In each dimension phases are counted from 1. */
static void state_phase(struct problem *to, const limber_problem *p, const struct tensors *t,
                        const int64_t out[3], const struct phase_counts *x, int64_t i)
{
    const int64_t rest = i / x->count[0];

    state_conv(to, p, t, out,
               (int64_t[]){ i % x->count[0] + 1, rest % x->count[1] + 1, rest / x->count[1] + 1 });
}

/* True if memset can clear the pixels of dx that no window reaches: C is in host memory, and these
 * empty sums are zero bytes, because alpha times +0 is +0 and nothing is added.  Otherwise a
 * product with k = 0 stores them. */
static bool can_clear_unreached(const limber_context *ctx, const struct problem *whole)
{
    const double alpha = whole->alpha && !limber_is_integer(whole->fc) ?
                             limber_format_value(whole->fc, whole->alpha) :
                             1;

    return !whole->beta && !ctx->machine.backend->device_ops && isfinite(alpha) && !signbit(alpha);
}

/* Adds the report of a stride phase to the report of all phases. main: the plan of this phase is
 * reported. */
static void join_report(struct report *all, const struct report *r, bool main)
{
    struct report x = main ? *r : *all;
    const struct report *other = main ? all : r;

    x.seconds_scan += other->seconds_scan;
    x.seconds_compile += other->seconds_compile;
    x.seconds_run += other->seconds_run;
    x.cost += other->cost;
    x.recomputed += other->recomputed;
    x.recomputed_seconds += other->recomputed_seconds;
    x.bound = other->bound > x.bound ? other->bound : x.bound;
    x.workspace = other->workspace > x.workspace ? other->workspace : x.workspace;
    *all = x;
}

/* Returns the number of elements of the image. */
static int64_t tensor_elements(const limber_conv *s)
{
    return s->n * s->c * (limber_conv_is_deep(s) ? s->d : 1) * s->h * s->w;
}

/* Memory that keeps C unchanged if a stride phase fails: a workspace large enough for every phase,
 * if no phase can fail with it; else a copy of C. */
struct reserve {
    bool sure; /* true if no phase can fail */
    limber_queue queue; /* if `sure`: the queue whose workspace suffices for each phase */
    char *memory; /* owned; workspace of the phases, or the copy of C */
    size_t bytes; /* bytes of the copy of C */
};

/* Finds the largest workspace of a stride phase, in bytes.  False if a phase needs a plan, and so
 * may fail. */
static bool find_largest_workspace(limber_context *ctx, const limber_problem *p,
                                   const struct tensors *t, const int64_t out[3],
                                   const struct phase_counts *x, bool cleared, size_t *largest)
{
    struct problem part;
    size_t bytes;

    *largest = 0;
    for (int64_t i = 0; i < x->all; i++) {
        state_phase(&part, p, t, out, x, i);
        if (cleared && part.k == 0)
            continue;
        if (!limber_is_depthwise(ctx, &part) || !limber_depthwise_workspace(ctx, &part, &bytes))
            return false;
        *largest = bytes > *largest ? bytes : *largest;
    }
    return *largest > 0;
}

/* Allocates the workspace of the stride phases or, if phases may fail, a copy of C. cleared: memset
 * clears pixels that no window reaches. */
static bool reserve_memory(limber_context *ctx, const limber_problem *p, const struct tensors *t,
                           const int64_t out[3], const struct phase_counts *x, bool cleared,
                           struct reserve *r, struct diag *d)
{
    size_t largest;

    *r = (struct reserve){ .queue = { .size = sizeof r->queue },
                           .bytes = (size_t)tensor_elements(p->conv) * p->c.format.size };
    if (limber_device_holds(ctx, p->c.data))
        return true; /* device errors are reported only after the call has returned */
    if (find_largest_workspace(ctx, p, t, out, x, cleared, &largest)) {
        if (p->queue)
            r->queue = *p->queue;
        if (!r->queue.workspace) {
            r->queue.workspace = r->memory = limber_memory_alloc(&ctx->allocator, largest);
            r->queue.bytes = largest;
        }
        r->sure = r->queue.workspace && r->queue.bytes >= largest;
        if (r->sure)
            return true;
    }
    r->memory = limber_memory_alloc(&ctx->allocator, r->bytes);
    if (!r->memory)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a second copy of c");
    memcpy(r->memory, p->c.data, r->bytes);
    return true;
}

/* True if the kernels and the memory of all stride phases can be acquired before the first phase
 * stores anything, so that no copy of C is needed. */
static bool may_run_together(const limber_context *ctx, const limber_problem *p,
                             const struct phase_counts *x)
{
    return x->all <= MOST_PHASES && !ctx->machine.backend->device_ops &&
           ctx->machine.backend->launch_memory && !(p->queue && p->queue->capture) &&
           p->c.format.kind == LIMBER_KIND_FLOAT && p->conv->groups != p->conv->c;
}

/* Runs all stride phases in memory that is allocated before the first one.  Returns false if
 * nothing was done, true if all phases ran or *d has an error. */
static bool run_together(limber_context *ctx, const limber_problem *p, const struct tensors *t,
                         const int64_t out[3], const struct problem *whole,
                         const struct phase_counts *x, struct report *report, struct diag *d)
{
    struct phases *all = calloc(1, sizeof *all);
    int64_t longest = -1;
    bool ok, done;

    if (!all) {
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the phases of a gradient");
        return true;
    }
    for (int64_t i = 0; i < x->all; i++) {
        struct problem *part = &all->phase[all->count].part;

        state_phase(part, p, t, out, x, i);
        all->count += part->k > 0 || !can_clear_unreached(ctx, whole);
    }
    if (all->count < x->all) {
        all->zeroed = p->c.data;
        all->zeroed_bytes = (size_t)tensor_elements(p->conv) * p->c.format.size;
    }
    ok = all->count == 0 || limber_engine_run_phases(ctx, whole, all, d);
    done = all->done;
    for (int i = 0; done && report && i < all->count; i++) {
        join_report(report, &all->phase[i].report, all->phase[i].part.k > longest);
        longest = all->phase[i].part.k > longest ? all->phase[i].part.k : longest;
    }
    free(all);
    return done || !ok;
}

/* Computes an image gradient with strides, one stride phase after another. */
static bool run_phases(limber_context *ctx, const limber_problem *p, struct report *report,
                       struct diag *d)
{
    const struct tensors t = tensors_of(p);
    struct problem whole, part;
    struct reserve keep;
    struct report r;
    struct phase_counts phase_counts;
    int64_t out[3], longest = -1;
    bool ok = true, first = true, cleared, skips = false;

    if (!check_arguments(ctx, p, &t, true, out, d))
        return false;
    phase_counts = count_phases(p->conv);
    state_conv(&whole, p, &t, out, (int64_t[]){ 0, 0, 0 });
    cleared = can_clear_unreached(ctx, &whole);
    if (report)
        *report = (struct report){ 0 };
    if (tensor_elements(p->conv) == 0)
        return true;
    if (limber_can_run_depthwise_phases_at_once(ctx, &whole) &&
        limber_depthwise_run(ctx, &whole, report))
        return true;
    if (may_run_together(ctx, p, &phase_counts) &&
        run_together(ctx, p, &t, out, &whole, &phase_counts, report, d))
        return !d->status;
    if (!reserve_memory(ctx, p, &t, out, &phase_counts, cleared, &keep, d))
        return false;
    for (int64_t i = 0; i < phase_counts.all && !skips; i++) {
        state_phase(&part, p, &t, out, &phase_counts, i);
        skips = cleared && part.k == 0;
    }
    if (skips)
        memset(p->c.data, 0, keep.bytes);
    for (int64_t i = 0; ok && i < phase_counts.all; i++) {
        state_phase(&part, p, &t, out, &phase_counts, i);
        if (cleared && part.k == 0 && (!first || i < phase_counts.all - 1))
            continue;
        if (keep.sure)
            part.queue = &keep.queue;
        ok = limber_engine_run(ctx, &part, NULL, report ? &r : NULL, d);
        if (ok && report)
            join_report(report, &r, part.k > longest);
        longest = part.k > longest ? part.k : longest;
        first = false;
    }
    if (!ok && !keep.sure && keep.memory)
        memcpy(p->c.data, keep.memory, keep.bytes);
    limber_memory_free(&ctx->allocator, keep.memory);
    return ok;
}

/* Describes a convolution as a product.  Of a pass that is computed in stride phases, describes
 * the phase with the largest k. */
bool limber_conv_state_main(limber_context *ctx, const limber_problem *p, struct problem *to,
                            struct diag *d)
{
    const struct tensors t = tensors_of(p);
    struct phase_counts phase_counts;
    int64_t out[3], longest = 0, k = -1;

    if (!p->conv || !has_phases(p))
        return limber_conv_state(ctx, p, false, to, d);
    if (!check_arguments(ctx, p, &t, false, out, d))
        return false;
    phase_counts = count_phases(p->conv);
    if (phase_counts.all == 0) /* no pixels, so no phases */
        return limber_conv_state(ctx, p, false, to, d);
    for (int64_t i = 0; i < phase_counts.all; i++) {
        state_phase(to, p, &t, out, &phase_counts, i);
        if (to->k > k) {
            k = to->k;
            longest = i;
        }
    }
    state_phase(to, p, &t, out, &phase_counts, longest);
    return true;
}

/* Computes the smallest and the best size of workspace: for a pass in stride phases, the largest
 * of the phases' sizes. */
bool limber_conv_workspace(limber_context *ctx, const limber_problem *p, size_t *least,
                           size_t *best, struct diag *d)
{
    const struct tensors t = tensors_of(p);
    struct phase_counts phase_counts;
    struct problem x;
    int64_t out[3];
    size_t some, more;

    if (!p->conv || !has_phases(p))
        return limber_conv_state(ctx, p, false, &x, d) &&
               limber_engine_workspace(ctx, &x, false, least, best, d);
    if (!check_arguments(ctx, p, &t, false, out, d))
        return false;
    phase_counts = count_phases(p->conv);
    *least = *best = 0;
    for (int64_t i = 0; i < phase_counts.all; i++) {
        state_phase(&x, p, &t, out, &phase_counts, i);
        if (can_clear_unreached(ctx, &x) && x.k == 0 && (*best > 0 || i < phase_counts.all - 1))
            continue;
        if (!limber_engine_workspace(ctx, &x, true, &some, &more, d))
            return false;
        *least = some > *least ? some : *least;
        *best = more > *best ? more : *best;
    }
    return true;
}

/* Computes a convolution.  `report` may be NULL. */
bool limber_conv_run(limber_context *ctx, const limber_problem *p, struct report *report,
                     struct diag *d)
{
    struct accepted *accepted;
    struct problem x;
    bool ok;

    if (p->conv && has_phases(p))
        return run_phases(ctx, p, report, d);
    if (!limber_conv_state(ctx, p, true, &x, d))
        return false;
    accepted = limber_keep_form(ctx, p, &x);
    ok = limber_engine_run(ctx, &x, accepted, report, d);
    limber_accepted_release(accepted);
    return ok;
}
