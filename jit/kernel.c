/* SPDX-License-Identifier: BSD-3-Clause
 * The last way: one kernel for the product, from memory or newly made.  A kernel serves every call
 * of one kernel key: formats, contract, class of k, classes of the masks, geometry of a
 * convolution.  Sizes and strides are arguments.  The plan is stated from the key alone, so that
 * equal keys mean equal plans. */
#include "jit/ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double limber_price_workers(const limber_context *ctx)
{
    return limber_is_device(&ctx->machine.target) ? 1 : limber_pool_runner(ctx->pool).workers;
}

/* Fills the report from the facts of a plan. */
static void report_facts(struct report *r, const limber_context *ctx, const struct backend *b,
                         const struct problem *p, const struct facts *f)
{
    double work = (double)p->m * (double)p->n * (double)p->k * (double)p->groups / 0x1p30;

    snprintf(r->scheme, sizeof r->scheme, "%s", f->scheme);
    snprintf(r->backend, sizeof r->backend, "%s", b->name);
    limber_key_hex(f->key, (sizeof r->kernel - 1) / 2, r->kernel);
    r->rows = f->rows;
    r->pruned = f->pruned;
    r->bound = f->bound;
    r->cost = f->cost * work / limber_price_workers(ctx);
}

/* ---- an attempt's scan and key --------------------------------------------------------------- */

bool limber_attempt_scan(struct attempt *x)
{
    const double start = x->r ? limber_now() : 0;

    if (x->scanned)
        return true;
    if (!limber_scan_operands(x->ctx, &x->f, x->p, x->d) ||
        !limber_kernel_key_make(x->ctx, &x->key, x->p, &x->f, x->d))
        return false;
    x->scanned = true;
    if (x->r)
        x->r->seconds_scan = limber_now() - start;
    return true;
}

/* ---- prices that partitions ask for ---------------------------------------------------------- */

/* A plan whose price is known. */
struct priced {
    struct priced *next;
    struct price price;
    struct kernel_key key;
};

enum { MOST_PRICES = 1024 };

void limber_priced_free(struct priced *list)
{
    while (list) {
        struct priced *next = list->next;

        free(list);
        list = next;
    }
}

/* Finds the price of a plan that was computed before. */
static bool find_known_price(limber_context *ctx, const struct kernel_key *key, struct price *price)
{
    size_t size = limber_kernel_key_size(key);
    const struct priced *at;

    pthread_mutex_lock(&ctx->lock);
    for (at = ctx->priced; at && memcmp(&at->key, key, size);)
        at = at->next;
    if (at)
        *price = at->price;
    pthread_mutex_unlock(&ctx->lock);
    return at != NULL;
}

/* Keeps the price of a plan for later questions. */
static void keep_price(limber_context *ctx, const struct kernel_key *key, const struct price *price)
{
    struct priced *new = malloc(sizeof *new);

    if (!new) /* not cached: the price is computed again when it is needed */
        return;
    *new = (struct priced){ .price = *price, .key = *key };
    pthread_mutex_lock(&ctx->lock);
    if (++ctx->prices % MOST_PRICES == 0) {
        limber_priced_free(ctx->priced);
        ctx->priced = NULL;
    }
    new->next = ctx->priced;
    ctx->priced = new;
    pthread_mutex_unlock(&ctx->lock);
}

/* Computes the price of a key's plan by running the passes on it. */
static bool compute_price(limber_context *ctx, const struct kernel_key *key, struct price *price,
                          struct diag *d)
{
    struct pass_watch nobody = { NULL, NULL };
    struct plan plan = { 0 };
    struct diag why = { 0 };
    bool ok = limber_plan_state(&plan, key, NULL, &why) &&
              limber_passes_run(&plan, &ctx->machine.target, "conv_to_gemm,choose", nobody, &why);

    *price = ok ? plan.price : (struct price){ .product = INFINITY };
    if (!ok && why.status == LIMBER_STATUS_NO_SCHEME)
        ok = true;
    else if (!ok)
        limber_fail(d, why.status, "%s", why.text);
    limber_plan_clear(&plan);
    return ok;
}

bool limber_engine_price(limber_context *ctx, const struct problem *p, const struct mask *a,
                         const struct mask *b, struct price *price, struct diag *d)
{
    const struct scan_result f = {
        .all_a = *a, .all_b = *b, .slices = p->contract.slices, .first_pass = p->first_pass
    };
    struct kernel_key key;

    if (!limber_kernel_key_make(ctx, &key, p, &f, d))
        return false;
    if (find_known_price(ctx, &key, price))
        return true;
    if (!compute_price(ctx, &key, price, d))
        return false;
    keep_price(ctx, &key, price);
    return true;
}

/* ---- calls captured into graphs -------------------------------------------------------------- */

/* The keys of a call that was made ready for capture: without and with a scan of its operands. */
struct recordable {
    struct recordable *next;
    struct kernel_key plain, full;
};

void limber_recordable_free(struct recordable *list)
{
    while (list) {
        struct recordable *next = list->next;

        free(list);
        list = next;
    }
}

/* Gets the entry of a key, and makes it if needed. found: NULL, or out: whether it existed. */
bool limber_entry_of(limber_context *ctx, const struct kernel_key *key, struct entry **e,
                     bool *found, struct diag *d)
{
    const struct kernel_maker kernel_maker = {
        limber_make_kernel,
        &(struct compile_job){ .ctx = ctx, .key = key, .machine = &ctx->machine }
    };

    return limber_kernels_get(ctx->memory, key, limber_kernel_key_size(key), kernel_maker, e,
                              found ? found : &(bool){ false }, d);
}

static bool is_scanned(const struct kernel_key *key)
{
    return key->has[0] || key->has[1];
}

/* The key with the same contract and a scheme that suits any data. */
static struct kernel_key key_for_any_data(const struct kernel_key *plain)
{
    struct kernel_key key = *plain;

    memset(key.wanted, 0, sizeof key.wanted);
    key.slices = 0;
    return key;
}

/* Loads the guard's kernels.  They stay in use for the context's life, since a graph may need them
 * as long. */
static bool load_guard(limber_context *ctx, const struct recordable *w, struct guard *g,
                       struct diag *d)
{
    const struct device_ops *device_ops = ctx->machine.backend->device_ops;
    struct kernel_key other = key_for_any_data(&w->plain);
    const limber_format f[2] = { w->full.fa, w->full.fb };
    int device = ctx->machine.target.device;
    struct entry *e;

    memset(g, 0, sizeof *g);
    if (!is_scanned(&w->full))
        return true;
    if (!limber_entry_of(ctx, &other, &e, NULL, d) || !device_ops->ready(e->kernel, device, d))
        return false;
    g->fallback = e->kernel;
    for (int i = 0; i < 2; i++) {
        const int64_t *m = w->full.mask[i];

        if (!limber_device_scanner(ctx, f[i], &e, d) || !device_ops->ready(e->kernel, device, d))
            return false;
        g->scan[i] = e->kernel;
        g->bounds[i] = (struct bounds){
            (int32_t)m[ATTR_emin - MASK_FIRST],   (int32_t)m[ATTR_emax - MASK_FIRST],
            (int32_t)m[ATTR_spread - MASK_FIRST], (int32_t)m[ATTR_width - MASK_FIRST],
            (int32_t)m[ATTR_sig - MASK_FIRST],    (int32_t)m[ATTR_sign - MASK_FIRST],
            (int32_t)m[ATTR_special - MASK_FIRST]
        };
    }
    return true;
}

/* Keeps a call's keys for captures, and loads its kernels. full: the key after a scan of the
 * operands. */
static bool add_recordable(limber_context *ctx, const struct problem *p,
                           const struct kernel_key *full, struct diag *d)
{
    const struct scan_result unscanned = { .slices = p->contract.slices };
    struct recordable *w = calloc(1, sizeof *w), *same;
    struct guard ignored;

    if (!w)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a call to record");
    w->full = *full;
    if (!limber_kernel_key_make(ctx, &w->plain, p, &unscanned, d) ||
        !load_guard(ctx, w, &ignored, d)) {
        free(w);
        return false;
    }
    pthread_mutex_lock(&ctx->lock);
    for (same = ctx->recordable; same && memcmp(&same->plain, &w->plain, sizeof w->plain);)
        same = same->next;
    if (same) { /* the newest scan replaces the old one */
        same->full = w->full;
        free(w);
    } else {
        w->next = ctx->recordable;
        ctx->recordable = w;
    }
    pthread_mutex_unlock(&ctx->lock);
    return true;
}

/* Finds the call that was made ready before, since a capture cannot scan. */
static bool find_recordable(limber_context *ctx, const struct problem *p, struct recordable *w,
                            struct diag *d)
{
    const struct scan_result unscanned = { .slices = p->contract.slices };
    const struct recordable *same;

    if (!limber_kernel_key_make(ctx, &w->plain, p, &unscanned, d))
        return false;
    pthread_mutex_lock(&ctx->lock);
    for (same = ctx->recordable; same && memcmp(&same->plain, &w->plain, sizeof w->plain);)
        same = same->next;
    if (same)
        w->full = same->full;
    pthread_mutex_unlock(&ctx->lock);
    return same || limber_fail(d, LIMBER_STATUS_DEVICE,
                               "queue.stream is being captured: make this call "
                               "once before, with LIMBER_CAPTURE_READY");
}

/* Records a call into a stream's capture, with a guard that checks at replay that the data still
 * suits. */
static bool run_recorded(limber_context *ctx, const struct problem *p, struct report *r,
                         struct diag *d)
{
    const struct scan_result unscanned = { 0 };
    struct guard guard;
    struct entry *e;
    struct recordable w;

    if (!find_recordable(ctx, p, &w, d) || !load_guard(ctx, &w, &guard, d) ||
        !limber_entry_of(ctx, &w.full, &e, NULL, d))
        return false;
    if (r) {
        r->from = LIMBER_FROM_MEMORY;
        report_facts(r, ctx, e->backend, p, &e->facts);
    }
    return limber_launch_recorded(
        ctx, &(struct step){ .p = p, .f = &unscanned, .e = e, .report = r }, &guard, d);
}

static bool waits_for_kernel(const struct problem *p)
{
    return p->contract.on_miss == LIMBER_ON_MISS_WAIT ||
           p->contract.on_miss == LIMBER_ON_MISS_COMPILE;
}

/* Callers with another way to compute do not want the slow interpreter. */
static bool may_interpret(limber_context *ctx, const struct problem *p, const struct entry *e,
                          struct diag *d)
{
    bool other = p->contract.on_miss == LIMBER_ON_MISS_REFUSE ||
                 p->contract.on_miss == LIMBER_ON_MISS_COMPILE;
    const char *why =
        other && e->backend == &limber_backend_interp ? limber_fallback_reason(ctx) : "";

    return !*why || limber_fail(d, LIMBER_STATUS_DEVICE, "%s", why);
}

/* Gets the kernel of a key, unless the caller does not want what would compute. r: NULL, or gets
 * its facts. */
static bool find_entry(limber_context *ctx, const struct problem *p, const struct kernel_key *key,
                       struct entry **e, struct report *r, struct diag *d)
{
    bool found;

    if (!limber_entry_of(ctx, key, e, &found, d))
        return false;
    if (!may_interpret(ctx, p, *e, d)) {
        limber_kernels_put(ctx->memory, *e);
        return false;
    }
    if (r) {
        r->from = found ? LIMBER_FROM_MEMORY : (*e)->from;
        r->seconds_compile = found ? 0 : (*e)->seconds;
        report_facts(r, ctx, (*e)->backend, p, &(*e)->facts);
    }
    return true;
}

/* Finds or makes the kernel, waiting for it, and runs it. */
static bool run_kernel(limber_context *ctx, const struct problem *p, const struct scan_result *f,
                       const struct kernel_key *key, struct report *r, struct diag *d)
{
    bool stays = p->queue && p->queue->capture, ok;
    struct step step = { .p = p, .f = f, .report = r, .finish = p->finish };
    struct entry *e;
    double start;

    if (!find_entry(ctx, p, key, &e, r, d))
        return false;
    step.e = e;
    start = r || e->prebuilt ? limber_now() : 0;
    stays = stays && e->backend->device_ops;
    ok = (!stays || add_recordable(ctx, p, key, d)) && limber_launch(ctx, &step, 1, p, d);
    if (r)
        r->seconds_run = limber_now() - start;
    if (e->prebuilt && step.way == WAY_packed)
        limber_specialise_later(ctx, key, e, limber_now() - start);
    if (!stays)
        limber_kernels_put(ctx->memory, e);
    return ok;
}

/* True if the kernel exists, or can be loaded at once from the disk or the library. */
static bool is_ready(limber_context *ctx, const struct kernel_key *key)
{
    const struct kernel_maker kernel_maker = { limber_make_kernel,
                                               &(struct compile_job){ .ctx = ctx,
                                                                      .key = key,
                                                                      .machine = &ctx->machine,
                                                                      .code = CODE_READY } };
    size_t size = limber_kernel_key_size(key);

    return ctx->kernels == LIMBER_KERNELS_SPECIALISED ?
               limber_kernels_has(ctx->memory, key, size) :
               limber_kernels_offer(ctx->memory, key, size, kernel_maker);
}

/* True if the kernel exists, or no background thread can make it. */
static bool is_ready_or_unmakeable(limber_context *ctx, const struct background_job *job)
{
    return is_ready(ctx, &job->key) || !limber_background_ask(ctx->background, job, sizeof *job);
}

/* Runs a call by one kernel, without the list of ways: for the interpreter's context. */
static bool run_one_kernel(limber_context *ctx, const struct problem *p, struct report *report,
                           struct diag *d)
{
    struct report r;
    struct attempt x = { .ctx = ctx, .p = p, .r = &r, .d = d, .plans = true };
    bool ok;

    limber_report_clear(&r);
    ok = limber_way_kernel.run(&x) == RAN_done;
    limber_scan_result_clear(&x.f, p->groups);
    if (ok && report)
        limber_report_copy(report, &r);
    return ok;
}

/* Runs a call while its kernel is being compiled: refuses it, or interprets rows until the kernel
 * is there. */
static bool run_while_compiling(limber_context *ctx, const struct problem *p,
                                const struct scan_result *f, const struct kernel_key *key,
                                struct report *r, struct diag *d)
{
    const struct background_job job = { .key = *key };
    const struct awaited kernel = { &job, sizeof job };
    struct diag why = { 0 };
    struct on_miss w;
    double start = limber_now();
    bool ok = true;

    w.run = run_one_kernel;
    if (limber_on_miss_run(ctx, p, &kernel, &w)) {
        w.rest.finish = NULL; /* the interpreter's rows have not been finished */
        ok = run_kernel(ctx, &w.rest, f, key, r, &why);
    }
    if (!limber_on_miss_finish(ctx, p, &w, ok))
        return limber_fail(d, why.status, "%s", why.text);
    if (r && w.report.rows) {
        if (!ok || w.rest.m == 0)
            *r = w.report;
        r->bound = w.report.bound > r->bound ? w.report.bound : r->bound;
        r->from = LIMBER_FROM_INTERPRETER;
        r->seconds_run = limber_now() - start;
    }
    return true;
}

/* Runs a call as its contract wishes while the kernel is not ready: waits, refuses, or begins in
 * the interpreter. */
static bool run_or_await(limber_context *ctx, const struct problem *p, const struct scan_result *f,
                         const struct kernel_key *key, struct report *r, struct diag *d)
{
    const double from_disk = 2e-3; /* seconds that reading an entry may take */
    const struct background_job job = { .key = *key };

    if (waits_for_kernel(p) || is_ready_or_unmakeable(ctx, &job))
        return run_kernel(ctx, p, f, key, r, d);
    if (!limber_background_busy(ctx->background, &job, sizeof job, from_disk))
        return run_kernel(ctx, p, f, key, r, d);
    if (p->contract.on_miss == LIMBER_ON_MISS_REFUSE)
        return limber_fail(d, LIMBER_STATUS_NOT_READY, "the kernel is being made");
    return run_while_compiling(ctx, p, f, key, r, d);
}

bool limber_engine_step(limber_context *ctx, struct step *s, struct kernel_key *key, bool *ready,
                        struct diag *d)
{
    struct background_job job = { .specialise = false };

    if (!limber_kernel_key_make(ctx, key, s->p, s->f, d))
        return false;
    job.key = *key;
    *ready = waits_for_kernel(s->p) || is_ready_or_unmakeable(ctx, &job);
    return !*ready || find_entry(ctx, s->p, key, &s->e, s->report, d);
}

/* Bytes of workspace with this kernel. several: it is one of several launches, which share
 * memory. */
static bool workspace_of(limber_context *ctx, const struct problem *p, const struct kernel_key *key,
                         bool several, size_t *least, size_t *best, struct diag *d)
{
    const struct runner runner = limber_pool_runner(ctx->pool);
    struct call call = limber_call_plain(ctx, p, &runner);
    struct keeping of[2];
    struct maps maps;
    struct entry *e;

    if (!limber_entry_of(ctx, key, &e, NULL, d))
        return false;
    for (int i = 0; i < 2; i++)
        call.keep[i] =
            limber_operand_keeper(p->kept[i], &e->facts, i, limber_kept_place(p, 0), &of[i]);
    if (p->groups > 1 && e->backend->takes_groups) {
        struct call all = call;

        all.groups = p->groups;
        all.device = ctx->machine.target.device;
        all.each_a = limber_groups_a(p);
        all.each_b = limber_groups_b(p);
        all.each_c = limber_groups_c(p);
        if (e->backend->takes_groups(e->kernel, &all))
            call = all;
    }
    limber_maps_bind(&maps, &e->geometry, p);
    limber_maps_apply(&maps, p, &call);
    if (several && e->backend->launch_memory) {
        *least = limber_launch_bytes(e, &call);
        call.workspace_limit = SIZE_MAX / 4;
        *best = limber_launch_bytes(e, &call);
    } else if (e->backend->workspace) {
        e->backend->workspace(e->kernel, &call, least, best);
    }
    limber_kernels_put(ctx->memory, e);
    return true;
}

bool limber_engine_workspace_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                                    struct mask *b, size_t *least, size_t *best, struct diag *d)
{
    const struct scan_result f = { .all_a = *a, .all_b = *b, .slices = p->contract.slices };
    struct kernel_key key;

    return limber_kernel_key_make(ctx, &key, p, &f, d) &&
           workspace_of(ctx, p, &key, true, least, best, d);
}

/* Runs the passes over a key's plan and writes each stage to `out`; fills the report's facts. */
static bool trace_plan(limber_context *ctx, const struct problem *p, const struct kernel_key *key,
                       struct text *out, struct report *r, struct diag *d)
{
    struct trace trace = { .out = out };
    struct facts facts = { .rows = 0 };
    struct plan plan = { 0 };
    bool ok;

    ok = limber_plan_state(&plan, key, NULL, d) &&
         limber_plan_key(ctx, &ctx->machine, &plan, NULL, facts.key, NULL, d) &&
         limber_passes_traced(&plan, &ctx->machine.target, NULL, &trace, d);
    if (ok) {
        limber_gather(&facts, &plan, NULL);
        report_facts(r, ctx, ctx->machine.backend, p, &facts);
        r->way = limber_way_say(ctx, &ctx->machine, p, &plan, out);
    }
    limber_trace_clear(&trace);
    limber_plan_clear(&plan);
    return ok;
}

bool limber_engine_plan_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                               const struct mask *b, struct text *out, struct report *report,
                               struct diag *d)
{
    const struct scan_result f = {
        .all_a = *a, .all_b = *b, .slices = p->contract.slices, .first_pass = p->first_pass
    };
    struct kernel_key key;

    return limber_kernel_key_make(ctx, &key, p, &f, d) && trace_plan(ctx, p, &key, out, report, d);
}

bool limber_engine_function(limber_context *ctx, const limber_contract *contract,
                            const struct fixed *fixed, limber_format f, void **address,
                            struct diag *d)
{
    struct {
        struct kernel_key key;
        struct fixed fixed;
    } what;
    const struct kernel_maker kernel_maker = { limber_make_kernel,
                                               &(struct compile_job){ .ctx = ctx,
                                                                      .key = &what.key,
                                                                      .fixed = &what.fixed,
                                                                      .machine = &ctx->machine } };
    static const double one = 1;
    const struct scan_result unscanned = { 0 };
    const struct problem p = { .contract = *contract,
                               .k = fixed->k,
                               .fa = f,
                               .fb = f,
                               .fc = f,
                               .beta = fixed->add ? &one : NULL }; /* keys record only presence */
    struct entry *e;
    bool found;

    if (!ctx->machine.backend->fixed)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "backend %s makes no functions for one shape",
                           ctx->machine.backend->name);
    if (!limber_kernel_key_make(ctx, &what.key, &p, &unscanned, d))
        return false;
    what.fixed = *fixed;
    if (!limber_kernels_get(ctx->functions, &what, sizeof what, kernel_maker, &e, &found, d))
        return false;
    *address = e->address; /* the entry is never put, so the code stays loaded */
    return true;
}

/* ---- kernels as a way to compute a call ------------------------------------------------------ */

static const char *refuses(const limber_context *ctx, const struct problem *p)
{
    (void)ctx, (void)p;
    return NULL;
}

static enum ran run(struct attempt *x)
{
    const bool ok =
        limber_device_records(x->ctx, x->p->queue) ?
            run_recorded(x->ctx, x->p, x->r, x->d) :
            limber_attempt_scan(x) && run_or_await(x->ctx, x->p, &x->f, &x->key, x->r, x->d);

    return ok ? RAN_done : RAN_failed;
}

static enum ran workspace(struct attempt *x, bool batch, size_t *least, size_t *best)
{
    return limber_attempt_scan(x) && workspace_of(x->ctx, x->p, &x->key, batch || x->p->groups > 1,
                                                  least, best, x->d) ?
               RAN_done :
               RAN_failed;
}

static enum ran plan(struct attempt *x, struct text *out, struct cut *cut)
{
    (void)cut;
    return limber_attempt_scan(x) && trace_plan(x->ctx, x->p, &x->key, out, x->r, x->d) ?
               RAN_done :
               RAN_failed;
}

const struct way limber_way_kernel = {
    .plans = true, .refuses = refuses, .run = run, .workspace = workspace, .plan = plan
};
