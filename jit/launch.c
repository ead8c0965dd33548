/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a kernel over the groups of a call. */
#include "jit/call.h"

#include <stdlib.h>
#include <string.h>

/* No sum of products can leave the result's format: |a b| < 2^(emax_a + emax_b + 2). */
static bool fits(const struct problem *p, const struct finding *f)
{
    const struct mask *a = &f->all_a, *b = &f->all_b;
    bool wide = p->fc.kind == LIMBER_KIND_UINT;
    int bits = 8 * p->fc.size - !wide, k = 0;

    if (p->alpha || p->beta || !a->scanned || !b->scanned || a->special || b->special)
        return false;
    if (a->zero || b->zero)
        return true;
    while (k < 63 && p->k > (int64_t)1 << k)
        k++;
    return !(wide && (a->negative || b->negative)) && a->emax + b->emax + 2 + k <= bits;
}

/* Where C is computed when it might have to stay as it was: dense, group after group. */
static bool spare(const limber_context *ctx, struct place *c, const struct problem *p, struct diag *d)
{
    size_t bytes;

    *c = (struct place){ .row = p->n, .col = 1, .inner = p->n };
    if (!__builtin_mul_overflow((size_t)p->m * (size_t)p->n, (size_t)p->groups, &bytes) &&
        !__builtin_mul_overflow(bytes, (size_t)p->fc.size, &bytes))
        c->data = limber_room_take(ctx, bytes);
    return c->data || limber_fail(d, LIMBER_NO_MEMORY, "no memory for a second copy of c");
}

/* The caller's own, of a call in host memory. */
static bool has_workspace(const limber_context *ctx, const struct problem *p)
{
    return !ctx->machine.backend->remote && p->queue && p->queue->workspace;
}

static size_t workspace(const limber_context *ctx, const struct problem *p)
{
    double bytes;

    if (has_workspace(ctx, p))
        return p->queue->bytes;
    if (ctx->workspace)
        return ctx->workspace;
    bytes = (double)p->m * (double)p->k * p->fa.size + (double)p->k * (double)p->n * p->fb.size +
            (double)p->m * (double)p->n * p->fc.size;
    if (ctx->machine.backend->remote)   /* all limbs of most products; the largest go in parts */
        return (size_t)(bytes * 1.25) + ((size_t)256 << 20);
    return (size_t)(bytes / 4) + ((size_t)64 << 20);
}

static void run_alone(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

/* Another thread costs some ten microseconds: predicted to take less than this on one core, a
 * product is done by its caller. */
static const double brief = 60e-6;

static double seconds(const struct problem *p, const struct facts *f)
{
    return f->cost * ((double)p->m * (double)p->n * (double)p->k / 0x1p30);
}

struct launching {
    limber_context *ctx;
    const struct problem *p;    /* with the result where it is computed */
    const struct finding *f;
    struct entry *e;
    struct runner runner;       /* of one group */
    pthread_mutex_t lock;       /* of what follows */
    bool dry;
    const struct guard *guard;
    int64_t overflow, repaired;
    size_t workspace;           /* of one group */
};

static void add_counts(struct unit_counts *sum, const struct unit_counts *c)
{
    int64_t *to = (int64_t *)sum;
    const int64_t *from = (const int64_t *)c;

    for (size_t i = 0; i < sizeof *c / sizeof *from; i++)
        to[i] += from[i];
}

static void add_call(struct launching *l, const struct call *call)
{
    pthread_mutex_lock(&l->lock);
    l->overflow += call->overflow;
    l->repaired += call->repaired;
    if (call->workspace > l->workspace)
        l->workspace = call->workspace;
    if (l->p->counts)
        add_counts(l->p->counts, &call->counts);
    pthread_mutex_unlock(&l->lock);
}

static bool launch_group(void *arg, int64_t g, struct diag *d)
{
    struct launching *l = arg;
    const struct problem *p = l->p;
    const struct finding *f = l->f;
    bool scanned = f->all_a.scanned && f->all_b.scanned;
    struct keeping of[2];
    struct call call = {
        .m = p->m, .n = p->n, .k = p->k, .a = limber_group_a(p, g), .b = limber_group_b(p, g),
        .c = limber_group_c(p, g), .alpha = p->alpha, .beta = p->beta,
        .mask_a = scanned ? limber_mask_of(p, f->a, true, g) : NULL,
        .mask_b = scanned ? limber_mask_of(p, f->b, false, g) : NULL,
        .runner = &l->runner, .allocator = l->ctx->allocator.take ? &l->ctx->allocator : NULL,
        .queue = p->queue, .device = l->ctx->machine.target.device,
        .workspace_limit = workspace(l->ctx, p), .dry = l->dry,
        .guard = l->guard,
        .keep = { limber_operand_keeper(p->kept[0], &l->e->facts, 0, &of[0]),
                  limber_operand_keeper(p->kept[1], &l->e->facts, 1, &of[1]) },
        .seed = p->contract.promise == LIMBER_SIMULATE ? p->contract.unit->seed : 0,
    };

    if (!l->e->backend->launch(l->e->kernel, &call, d))
        return false;
    add_call(l, &call);
    return true;
}

/* Brief products are tasks, side by side; others are done in turn, each by all threads, or by a device,
 * on which they follow each other. */
bool limber_launch_all(limber_context *ctx, const struct problem *p, const struct finding *f,
                       struct entry *e, bool dry, const struct guard *guard,
                       limber_report *report, struct diag *d)
{
    const struct runner alone = { 1, run_alone, NULL }, all = limber_pool_runner(ctx->pool);
    bool small = limber_is_tiny(p) || seconds(p, &e->facts) < brief;
    bool beside = small && !e->backend->remote && !has_workspace(ctx, p) &&
                  seconds(p, &e->facts) * (double)p->groups >= brief;
    struct launching l = { .ctx = ctx, .p = p, .f = f, .e = e, .runner = small ? alone : all,
                           .dry = dry, .guard = guard };
    int64_t at_once = beside && all.workers < p->groups ? all.workers : beside ? p->groups : 1;
    char name[32];
    bool ok;

    pthread_mutex_init(&l.lock, NULL);
    limber_pool_enter(ctx->pool);
    ok = limber_groups_run(beside ? &all : &alone, p->groups, launch_group, &l, d);
    limber_pool_leave(ctx->pool);
    pthread_mutex_destroy(&l.lock);
    if (report) {
        report->workspace = l.workspace * (size_t)at_once;
        report->repaired = l.repaired;
    }
    if (ok && l.overflow > 0)
        return limber_fail(d, LIMBER_RANGE, "%lld of the result's elements do not fit %s",
                           (long long)l.overflow, limber_format_name(p->fc, name, sizeof name));
    return ok;
}

static void copy_groups(const struct problem *to, const struct problem *from)
{
    for (int64_t g = 0; g < to->groups; g++) {
        struct place t = limber_group_c(to, g), f = limber_group_c(from, g);

        limber_place_copy(&t, &f, to->m, to->n, to->fc.size);
    }
}

bool limber_launch(limber_context *ctx, const struct problem *p, const struct finding *f,
                   struct entry *e, limber_report *report, struct diag *d)
{
    struct problem elsewhere = *p;
    bool ok;

    if (!limber_is_integer(p->fc) || p->contract.promise == LIMBER_NATIVE || fits(p, f))
        return limber_launch_all(ctx, p, f, e, false, NULL, report, d);
    if (e->backend->remote)     /* nothing is stored before all is known to fit */
        return limber_launch_all(ctx, p, f, e, true, NULL, report, d) &&
               limber_launch_all(ctx, p, f, e, false, NULL, report, d);
    elsewhere.each_c = NULL;
    elsewhere.step_c = p->m * p->n;
    if (!spare(ctx, &elsewhere.c, p, d))
        return false;
    if (p->beta)
        copy_groups(&elsewhere, p);
    ok = limber_launch_all(ctx, &elsewhere, f, e, false, NULL, report, d);
    if (ok)
        copy_groups(p, &elsewhere);
    limber_room_give(ctx, elsewhere.c.data);
    return ok;
}

