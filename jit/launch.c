/* SPDX-License-Identifier: BSD-3-Clause
 * Launches kernels for the groups of a call. */
#include "jit/engine.h"

/* bytes of a cache line; shared memory is divided into whole lines */
enum { LINE = 64 };
/* bytes of operands that keep a device busy */
static const double ENOUGH = 0x1p30;

/* True if no sum of products can overflow the result's integer format.  A product is less than
 * 2^(emax_a + emax_b + 2), and k is rounded up to a power of two. */
static bool cannot_overflow(const struct problem *p, const struct scan_result *f)
{
    const struct mask *a = &f->all_a, *b = &f->all_b;
    bool is_unsigned = p->fc.kind == LIMBER_KIND_UINT;
    int bits = limber_format_sig(p->fc), k = 0;

    if (f->fractional || p->alpha || p->beta || !a->scanned || !b->scanned || a->special ||
        b->special)
        return false;
    if (a->zero || b->zero)
        return true;
    while (k < 63 && p->k > (int64_t)1 << k)
        k++;
    return !(is_unsigned && (a->negative || b->negative)) && a->emax + b->emax + 2 + k <= bits;
}

/* True if the caller gives a workspace in host memory. */
static bool has_workspace(const limber_context *ctx, const struct problem *p)
{
    return !ctx->machine.backend->device_ops && p->queue && p->queue->workspace;
}

/* Returns the limit of the workspace in bytes.  It grows with the number of threads, because each
 * thread has scratch memory and should have a block of C. together: one launch computes all
 * groups. */
static size_t workspace_limit(const limber_context *ctx, const struct problem *p, bool together)
{
    struct runner all;
    double bytes;

    if (has_workspace(ctx, p))
        return p->queue->bytes;
    if (ctx->workspace)
        return ctx->workspace;
    bytes = (double)p->m * (double)p->k * p->fa.size + (double)p->k * (double)p->n * p->fb.size +
            (double)p->m * (double)p->n * p->fc.size;
    /* the limit grows with the number of groups only until the groups fill the device */
    if (together)
        bytes *=
            (double)p->groups < ENOUGH / (bytes + 1) ? (double)p->groups : 1 + ENOUGH / (bytes + 1);
    if (ctx->machine.backend->device_ops) /* with this limit all limbs of most products fit */
        return (size_t)(bytes * 1.25) + ((size_t)256 << 20);
    all = limber_pool_runner(ctx->pool);
    return (size_t)(bytes / 4 + 16 * (double)p->k) + ((size_t)56 << 20) +
           ((size_t)(limber_runner_busy(&all) + all.workers) << 23);
}

/* The `run` of a runner without threads: runs all tasks on the calling thread. */
static void run_serially(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

/* Seconds.  A product that is predicted to take less on one core runs in the caller's thread,
 * because waking another thread takes some ten microseconds. */
static const double brief = 60e-6;

/* Seconds.  Measured on 64 threads: if all threads share a product that takes less, up to a quarter
 * of the time is lost by waiting at its start and end. */
static const double uneven = 250e-6;

/* Returns the predicted seconds of one group on one core. */
static double predicted_seconds(const struct problem *p, const struct facts *f)
{
    return f->cost * ((double)p->m * (double)p->n * (double)p->k / 0x1p30);
}

/* Points the index maps of a convolution to the problem's tensors. */
void limber_maps_bind(struct maps *x, const struct conv_geometry *g, const struct problem *p)
{
    static const enum op ops[] = { OP_filters, OP_patches, OP_image };

    x->conv = (struct conv){ *g, p->conv.sizes };
    for (size_t i = 0; i < COUNT(ops) && p->shape; i++)
        limber_conv_map(&x->map[i], ops[i], &x->conv, 0);
}

/* Sets the views of a call to the convolution's index maps. */
void limber_maps_apply(const struct maps *x, const struct problem *p, struct call *c)
{
    if (!p->shape)
        return;
    c->conv = &x->conv;
    c->a = limber_map_view(&x->map[0], c->a.data);
    c->b = limber_map_view(&x->map[1], c->b.data);
    c->c = limber_map_output(&x->map[2], c->c.data);
    c->a.tile_subset = p->a.tile_subset;
    c->b.tile_subset = p->b.tile_subset;
    c->c.rows = p->c.rows;
    c->c.cols = p->c.cols;
    /* Kernels store neighbouring columns together unless a plane of C ends between them.  They
     * compare that end with indices of columns before blocks are reordered, which would be wrong
     * here.  A grid of one column has no neighbours, so kernels store columns one by one. */
    if (c->c.cols && c->c.col == 1 && !c->c.wide) {
        c->c.wide = c->c.jump = 1;
        c->c.col = 0;
    }
}

/* Returns the arguments for running a kernel on one product without groups or prepared operands. */
struct call limber_call_plain(const limber_context *ctx, const struct problem *p,
                              const struct runner *r)
{
    return (struct call){ .m = p->m,
                          .n = p->n,
                          .k = p->k,
                          .a = p->a,
                          .b = p->b,
                          .c = p->c,
                          .alpha = p->alpha,
                          .beta = p->beta,
                          .runner = r,
                          .ways = ctx->ways,
                          .device = ctx->machine.target.device,
                          .workspace_limit = SIZE_MAX };
}

/* ---- which way a launch takes --------------------------------------------------------------- */

/* Returns the code path (way) that a launch of this plan's kernel would take.  Unless out is NULL,
 * writes it there with the backend's explanation. */
enum way_id limber_describe_way(limber_context *ctx, const struct machine *m,
                                const struct problem *p, const struct plan *plan, struct text *out)
{
    const struct runner runner = limber_pool_runner(ctx->pool);
    struct text about = { 0 };
    struct maps maps;
    struct call call = limber_call_plain(ctx, p, &runner);
    enum way_id way;

    limber_maps_bind(&maps, &p->conv.geometry, p);
    limber_maps_apply(&maps, p, &call);
    way = m->backend->predict_way(plan, &m->target, &call, out ? &about : NULL);
    if (out)
        limber_text_add(out, "; way=%s%s\n", limber_way_name(way), about.s ? about.s : "");
    limber_text_clear(&about);
    return way;
}

/* Writes to the kernel's dump which code path (way) a launch takes. */
static void dump_way(limber_context *ctx, const struct step *s)
{
    const struct entry *e = s->e;
    const struct machine *m = e->backend == ctx->machine.backend ? &ctx->machine : &ctx->spare;
    struct trace trace = { .folder = limber_dump_folder(ctx, e->facts.key) };
    struct diag ignored = { 0 };
    struct plan plan = { 0 };
    struct text out = { 0 };

    if (trace.folder && e->stated && limber_plan_parse(&plan, e->stated, &ignored) &&
        limber_passes_run(&plan, &m->target, limber_passes_of(&plan),
                          (struct pass_watch){ NULL, NULL }, &ignored)) {
        limber_describe_way(ctx, m, s->p, &plan, &out);
        if (out.s && !out.failed)
            limber_trace_file(&trace, "way.txt", out.s, out.n);
    }
    limber_text_clear(&out);
    limber_plan_clear(&plan);
    limber_trace_clear(&trace);
}

/* ---- launches of one call -------------------------------------------------------------------- */

/* State of a step while the groups of its problem are launched. */
struct launching {
    limber_context *ctx;
    const struct problem *p; /* the problem that this step launches */
    const struct scan_result *f;
    struct entry *e;
    struct maps maps;
    struct runner runner; /* threads of one group's launch */
    struct runner across; /* threads that share the groups */
    int64_t at_once; /* number of groups that run at the same time and share the workspace limit */
    bool together; /* true if one launch computes all groups */
    bool several; /* several launches share memory, of which each gets whole cache lines */
    pthread_mutex_t lock; /* guards the fields below if several groups run at the same time */
    /* true: a dry run, which only counts results that do not fit */
    bool dry;
    const struct capture_check *guard;
    const struct finisher *finish;
    void **layout; /* where the backend keeps its work layout (struct call) */
    int64_t overflow, recomputed, recomputed_ns;
    enum way_id way;
    size_t workspace; /* bytes of workspace that one group needs */
    /* memory that is divided into `share` bytes for each worker; NULL: launches allocate their
     * own */
    const struct launch_memory *memory;
    size_t share;
};

/* Adds the counts of one launch to a sum. */
static void add_counts(struct unit_counts *sum, const struct unit_counts *c)
{
    int64_t *to = (int64_t *)sum;
    const int64_t *from = (const int64_t *)c;

    for (size_t i = 0; i < sizeof *c / sizeof *from; i++)
        to[i] += from[i];
}

/* Adds the counts of one launch to the sums of all groups. */
static void add_call(struct launching *l, const struct call *call)
{
    if (l->at_once > 1)
        pthread_mutex_lock(&l->lock);
    l->overflow += call->out.overflow;
    l->recomputed += call->out.recomputed;
    l->recomputed_ns += call->out.recomputed_ns;
    if (call->out.workspace > l->workspace)
        l->workspace = call->out.workspace;
    l->way = call->out.way;
    if (call->out.finished)
        *l->p->finished = true;
    if (l->p->counts)
        add_counts(l->p->counts, &call->out.counts);
    if (l->at_once > 1)
        pthread_mutex_unlock(&l->lock);
}

/* Returns the backend's call for group g, with the results of scans, the index maps and, for
 * prepared operands, their stored limbs.  of: memory for the objects through which the kernel gets
 * these limbs. */
static struct call call_of(const struct launching *l, int64_t g, struct keeping of[2])
{
    const struct problem *p = l->p;
    const struct scan_result *f = l->f;
    bool scanned = f->all_a.scanned && f->all_b.scanned;
    const int64_t place = limber_kept_place(p, g);

    struct call call = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = limber_group_a(p, g),
        .b = limber_group_b(p, g),
        .c = limber_group_c(p, g),
        .alpha = p->alpha,
        .beta = p->beta,
        .mask_a = scanned ? limber_mask_of(p, f->a, true, g) : NULL,
        .mask_b = scanned ? limber_mask_of(p, f->b, false, g) : NULL,
        .runner = &l->runner,
        .allocator = l->ctx->allocator.alloc ? &l->ctx->allocator : NULL,
        .queue = p->queue,
        .device = l->ctx->machine.target.device,
        .workspace_limit = workspace_limit(l->ctx, p, l->together) / (size_t)l->at_once,
        .dry = l->dry,
        .ways = l->ctx->ways,
        .guard = l->guard,
        .finish = l->finish,
        .layout = l->layout,
        .keep = { limber_operand_keeper(p->kept[0], &l->e->facts, 0, place, &of[0]),
                  limber_operand_keeper(p->kept[1], &l->e->facts, 1, place, &of[1]) },
        .seed = limber_simulates(&p->contract) ? p->contract.unit->seed : 0,
    };

    if (l->several && has_workspace(l->ctx, p))
        call.workspace_limit = call.workspace_limit / LINE * LINE;
    if (l->together) {
        call.groups = p->groups;
        call.each_a = limber_groups_a(p);
        call.each_b = limber_groups_b(p);
        call.each_c = limber_groups_c(p);
    }
    if (p->shape)
        limber_maps_apply(&l->maps, p, &call);
    return call;
}

/* Task: launches the kernel for group g, or for all groups if they are computed together. */
static bool launch_group(void *arg, int64_t g, int worker, struct diag *d)
{
    struct launching *l = arg;
    struct keeping of[2];
    struct call call = call_of(l, g, of);
    struct launch_memory share;

    if (l->memory) {
        share =
            (struct launch_memory){ l->memory->memory + (size_t)worker * l->share, l->share, NULL };
        call.launch_memory = &share;
    }
    if (!l->e->backend->launch(l->e->kernel, &call, d))
        return false;
    add_call(l, &call);
    return true;
}

/* True if the backend computes all groups in one launch. */
static bool are_together(struct launching *l)
{
    struct keeping of[2];
    struct call call;

    l->together = true;
    call = call_of(l, 0, of);
    return l->e->backend->device_ops->takes_groups(l->e->kernel, &call);
}

/* Plans how the groups of a step are launched.  Groups are computed at the same time, on one thread
 * each, if they are short, or if all threads would lose time by sharing each of them.  Other groups
 * run one after another, each on all threads or in the order of the device's stream. */
static struct launching plan_launches(limber_context *ctx, const struct step *s,
                                      const struct capture_check *guard)
{
    const struct product_request r = limber_request(s->p);
    const struct runner alone = { 1, run_serially, NULL }, all = limber_pool_runner(ctx->pool);
    const struct problem *p = s->p;
    double one = predicted_seconds(p, &s->e->facts);
    int busy = limber_runner_busy(&all);
    bool small = limber_is_tiny(&r) || one < brief;
    bool even = p->groups % busy == 0 || p->groups >= 4 * busy;
    bool at_same_time = (small || (one < uneven * busy && even)) && !s->e->backend->device_ops &&
                        !has_workspace(ctx, p) && one * (double)p->groups >= brief;

    struct launching l = {
        .ctx = ctx, .p = p, .f = s->f, .e = s->e, .runner = small || at_same_time ? alone : all
    };

    l.guard = guard;
    l.at_once = at_same_time && all.workers < p->groups ? all.workers :
                at_same_time                            ? p->groups :
                                                          1;
    l.across = l.at_once > 1 ? all : alone;
    if (p->shape)
        limber_maps_bind(&l.maps, &s->e->geometry, p);
    l.together = p->groups > 1 && s->e->backend->device_ops && are_together(&l);
    return l;
}

/* Runs all groups of a step. dry: only counts results that do not fit. memory: memory that was
 * allocated for several steps, or NULL. */
static bool run_step(limber_context *ctx, struct step *s, bool dry,
                     const struct capture_check *guard, const struct launch_memory *memory,
                     struct diag *d)
{
    const struct problem *p = s->p;
    struct launching l = plan_launches(ctx, s, guard);
    char name[32];
    bool ok;

    l.dry = dry;
    l.finish = p->groups == 1 ? s->finish : NULL;
    l.layout = s->layout;
    l.memory = memory;
    l.several = memory != NULL;
    l.share = memory ? memory->bytes / (size_t)l.at_once / LINE * LINE : 0;
    if (l.at_once > 1)
        pthread_mutex_init(&l.lock, NULL);
    limber_pool_enter(ctx->pool);
    ok = limber_groups_run(&l.across, l.together ? 1 : p->groups, launch_group, &l, d);
    limber_pool_leave(ctx->pool);
    if (l.at_once > 1)
        pthread_mutex_destroy(&l.lock);
    s->way = l.way;
    if (ok && !dry && ctx->tells.dump_dir &&
        atomic_exchange(&s->e->dumped, (int)l.way) != (int)l.way)
        dump_way(ctx, s);
    if (s->report) {
        s->report->way = l.way;
        s->report->workspace = l.workspace * (size_t)l.at_once;
        s->report->recomputed = l.recomputed;
        s->report->recomputed_seconds = 1e-9 * (double)l.recomputed_ns;
    }
    if (ok && l.overflow > 0)
        return limber_fail(d, LIMBER_STATUS_RANGE, "%lld of the result's elements do not fit %s",
                           (long long)l.overflow, limber_format_name(p->fc, name, sizeof name));
    return ok;
}

/* Launches into a stream that is being captured.  guard: checks at each replay that the data still
 * fits. */
bool limber_launch_recorded(limber_context *ctx, struct step *s, const struct capture_check *guard,
                            struct diag *d)
{
    return run_step(ctx, s, false, guard, NULL, d);
}

/* ---- either all launches of a call, or none -------------------------------------------------- */

/* Runs the steps one after another.  All launches use `memory`; if that is NULL, each allocates its
 * own. */
static bool run_steps(limber_context *ctx, struct step *s, int count,
                      const struct launch_memory *memory, struct diag *d)
{
    bool ok = true;

    for (int i = 0; ok && i < count; i++) {
        double start = s[i].report ? limber_now() : 0;

        if (s[i].zeroed)
            memset(s[i].zeroed, 0, s[i].zeroed_bytes);
        ok = run_step(ctx, &s[i], false, NULL, memory, d);
        if (s[i].report)
            s[i].report->seconds_run = limber_now() - start;
    }
    return ok;
}

/* True if the backends of all steps can use memory that was allocated before. */
static bool all_take_memory(const struct step *s, int count)
{
    for (int i = 0; i < count; i++)
        if (!s[i].e->backend->launch_memory)
            return false;
    return true;
}

/* Returns the bytes that one of several launches needs, rounded up to whole cache lines. */
size_t limber_launch_bytes(const struct entry *e, const struct call *c)
{
    return (e->backend->launch_memory->bytes(e->kernel, c) + LINE - 1) / LINE * LINE;
}

/* Allocates as much memory as the largest step needs, and runs all steps with it.  False, with C
 * unchanged, if memory runs out. */
static bool run_with_memory(limber_context *ctx, struct step *s, int count, struct diag *d)
{
    const struct launch_memory_ops *ops = s->e->backend->launch_memory;
    struct launching l; /* must outlive `call`, which points to it */
    struct keeping of[2];
    struct call call;
    struct launch_memory taken;
    size_t largest = 0;
    bool ok;

    for (int i = 0; i < count; i++) {
        size_t share;

        l = plan_launches(ctx, &s[i], NULL);
        l.several = true;
        call = call_of(&l, 0, of);
        share = limber_launch_bytes(s[i].e, &call) * (size_t)l.at_once;
        largest = share > largest ? share : largest;
    }
    if (!ops->alloc(&call, largest, &taken, d))
        return false;
    ok = run_steps(ctx, s, count, &taken, d);
    ops->free(&call, &taken);
    return ok;
}

/* Runs the steps so that C is unchanged if the call fails.  A single launch either fails or changes
 * C. Of several launches a later one might run out of memory, so memory for all is allocated first.
 * If a backend cannot do that, or a result may not fit its format, a copy of C is kept. */
bool limber_launch(limber_context *ctx, struct step *s, int count, const struct problem *whole,
                   struct diag *d)
{
    bool sure = limber_is_real(s->p->fc) ||
                !limber_refuses_overflow(&s->p->contract, s->p->fa, s->p->fb, s->p->fc) ||
                cannot_overflow(s->p, s->f),
         ok;
    struct backup keep;

    if (!sure && s->e->backend->device_ops) { /* a dry run first counts results that do not fit */
        if (!run_step(ctx, s, true, NULL, NULL, d))
            return false;
        sure = true;
    }
    if (sure && count == 1 && !s->zeroed &&
        (s->p->groups == 1 || plan_launches(ctx, s, NULL).together))
        return run_steps(ctx, s, count, NULL, d);
    if (sure && all_take_memory(s, count))
        return run_with_memory(ctx, s, count, d);
    if (!limber_backup(ctx, whole, &keep, d))
        return false;
    ok = run_steps(ctx, s, count, NULL, d);
    limber_backup_end(&keep, ok);
    return ok;
}
