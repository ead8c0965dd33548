/* SPDX-License-Identifier: BSD-3-Clause
 * The last code path: one kernel computes the product.  A kernel computes every call with the same
 * kernel key: formats, contract, class of k, classes of the masks, geometry of a convolution.
 * Sizes and strides are arguments.  The plan before the passes follows from the key alone, so equal
 * keys have equal plans. */
#include "jit/ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A form (sizes, strides, formats, contract of a call) keeps its kernels only while fewer
 * kernels than this are in memory, since a kept kernel is not evicted. */
enum { MOST_KEPT = 768 };

/* Number of workers that share a call's predicted seconds: the threads of a CPU; 1 for a device. */
double limber_price_workers(const limber_context *ctx)
{
    return limber_is_device(&ctx->machine.target) ? 1 : limber_pool_runner(ctx->pool).workers;
}

/* Fills the report from the facts of a plan. */
void limber_report_facts(struct report *r, const limber_context *ctx, const struct backend *b,
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

/* Scans the operands of a call, and stores what was found in x.  Returns false on an error. */
static bool scan_attempt(struct attempt *x)
{
    struct scan_wants wants;

    if (x->accepted)
        return limber_scan_operands(x->ctx, &x->f, x->p, &x->accepted->wants, x->d);
    wants = limber_scan_wants(x->ctx, x->p);
    return limber_scan_operands(x->ctx, &x->f, x->p, &wants, x->d);
}

/* True if a scan has found nothing that is part of a kernel's key. */
static bool adds_nothing_to_key(const struct scan_result *f, const struct problem *p)
{
    return !f->all_a.scanned && !f->all_b.scanned && !f->fractional &&
           f->slices == p->contract.slices && f->first_pass.bits == 0 &&
           f->first_pass.decided == 0 && f->first_pass.paired == 0;
}

/* Scans the operands and makes the key of the kernel, unless that has been done.  False on
 * failure. */
bool limber_attempt_scan(struct attempt *x)
{
    const double start = x->r ? limber_now() : 0;

    if (x->scanned)
        return true;
    if (!scan_attempt(x))
        return false;
    x->found = x->accepted && adds_nothing_to_key(&x->f, x->p) ?
                   limber_accepted_kernel(x->accepted, NULL) :
                   NULL;
    x->key = x->found ? &x->found->key : &x->own;
    if (!x->found && !limber_kernel_key_make(x->ctx, &x->own, x->p, &x->f, x->d))
        return false;
    if (!x->found && x->accepted)
        x->found = limber_accepted_kernel(x->accepted, x->key);
    x->scanned = true;
    if (x->r)
        x->r->seconds_scan = limber_now() - start;
    return true;
}

/* ---- prices that partitions ask for ---------------------------------------------------------- */

/* A plan whose predicted cost (price) is known. */
struct priced {
    struct priced *next;
    struct price price;
    struct kernel_key key;
};

/* when this many costs have been added, the list is cleared */
enum { MOST_PRICES = 1024 };

/* Frees a list of predicted costs. */
void limber_priced_free(struct priced *list)
{
    while (list) {
        struct priced *next = list->next;

        free(list);
        list = next;
    }
}

/* Finds the predicted cost of a plan that was computed before.  False if it is unknown. */
static bool find_known_price(limber_context *ctx, const struct kernel_key *key, struct price *price)
{
    size_t size = limber_kernel_key_size(key);
    const struct priced *at;

    pthread_mutex_lock(&ctx->lock);
    for (at = ctx->pricing.priced;
         at && (limber_kernel_key_size(&at->key) != size || memcmp(&at->key, key, size));)
        at = at->next;
    if (at)
        *price = at->price;
    pthread_mutex_unlock(&ctx->lock);
    return at != NULL;
}

/* Keeps the predicted cost of a plan for later calls. */
static void keep_price(limber_context *ctx, const struct kernel_key *key, const struct price *price)
{
    struct priced *new = malloc(sizeof *new);

    if (!new) /* without memory the cost is computed again when it is needed */
        return;
    *new = (struct priced){ .price = *price, .key = *key };
    pthread_mutex_lock(&ctx->lock);
    if (++ctx->pricing.prices % MOST_PRICES == 0) {
        limber_priced_free(ctx->pricing.priced);
        ctx->pricing.priced = NULL;
    }
    new->next = ctx->pricing.priced;
    ctx->pricing.priced = new;
    pthread_mutex_unlock(&ctx->lock);
}

/* Predicts the cost of a key's plan by running the passes that choose its scheme.  If no scheme can
 * compute it, the cost is infinite and the result is true.  False after other errors. */
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
        limber_fail_again(d, &why);
    limber_plan_clear(&plan);
    return ok;
}

/* Predicts the time of a product from its masks (what scans found in A and B), or returns a
 * prediction that was stored before. */
bool limber_predict_cost(limber_context *ctx, const struct problem *p, const struct mask *a,
                         const struct mask *b, struct price *price, struct diag *d)
{
    const struct scan_result f = {
        .all_a = *a, .all_b = *b, .slices = p->contract.slices, .first_pass = p->part.first_pass
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

/* The two keys of a call that was made ready for stream capture: `plain` says nothing of the
 * data, `full` has what a scan of the operands found then. */
struct recordable {
    struct recordable *next;
    struct kernel_key plain, full;
};

/* Frees the list of calls that were made ready for stream capture. */
void limber_recordable_free(struct recordable *list)
{
    while (list) {
        struct recordable *next = list->next;

        free(list);
        list = next;
    }
}

/* Gets the entry of a key, and makes it if needed.  *found (may be NULL) becomes true if the entry
 * existed before. */
bool limber_get_entry(limber_context *ctx, const struct kernel_key *key, struct entry **e,
                      bool *found, struct diag *d)
{
    const struct kernel_maker kernel_maker = {
        limber_make_kernel,
        &(struct compile_inputs){ .ctx = ctx, .key = key, .machine = &ctx->machine }
    };

    return limber_kernels_get(ctx->memory, key, limber_kernel_key_size(key), kernel_maker, e,
                              found ? found : &(bool){ false }, d);
}

/* True if the key depends on a scan of the data. */
static bool is_scanned(const struct kernel_key *key)
{
    return key->data[0].has || key->data[1].has;
}

/* Returns the key of a plan for any data under the same contract: without results of scans and
 * without a named scheme. */
static struct kernel_key key_for_any_data(const struct kernel_key *plain)
{
    struct kernel_key key = *plain;

    memset(key.wanted, 0, sizeof key.wanted);
    key.slices = 0;
    return key;
}

/* Loads the kernels that guard a captured call: a scan of each operand, and a fallback for data
 * that the plan is not for.  They stay loaded for the context's life, because a graph may need them
 * that long. */
static bool load_guard(limber_context *ctx, const struct recordable *w, struct capture_check *g,
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
    if (!limber_get_entry(ctx, &other, &e, NULL, d) || !device_ops->ready(e->kernel, device, d))
        return false;
    g->fallback = e->kernel;
    for (int i = 0; i < 2; i++) {
        const struct data_class *m = &w->full.data[i];

        if (!limber_device_scanner(ctx, f[i], &e, d) || !device_ops->ready(e->kernel, device, d))
            return false;
        g->scan[i] = e->kernel;
        g->bounds[i] = (struct bounds){
            (int32_t)limber_class_get(m, ATTR_emin),   (int32_t)limber_class_get(m, ATTR_emax),
            (int32_t)limber_class_get(m, ATTR_spread), (int32_t)limber_class_get(m, ATTR_width),
            (int32_t)limber_class_get(m, ATTR_sig),    (int32_t)limber_class_get(m, ATTR_sign),
            (int32_t)limber_class_get(m, ATTR_special)
        };
    }
    return true;
}

/* Keeps the two keys of a call for captures, and loads the kernels of its guard. full: the key
 * after the scan of the operands. */
static bool add_recordable(limber_context *ctx, const struct problem *p,
                           const struct kernel_key *full, struct diag *d)
{
    const struct scan_result unscanned = { .slices = p->contract.slices };
    struct recordable *w = calloc(1, sizeof *w), *same;
    struct capture_check ignored;

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

/* Finds the keys of a call that was made ready before, because operands cannot be scanned during a
 * capture.  False, with an error, if there are none. */
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

/* Adds the call to a stream capture, with a guard that checks at each replay that the data still
 * fits the plan. */
static bool run_recorded(limber_context *ctx, const struct problem *p, struct report *r,
                         struct diag *d)
{
    const struct scan_result unscanned = { 0 };
    struct capture_check guard;
    struct entry *e;
    struct recordable w;

    if (!find_recordable(ctx, p, &w, d) || !load_guard(ctx, &w, &guard, d) ||
        !limber_get_entry(ctx, &w.full, &e, NULL, d))
        return false;
    if (r) {
        r->from = LIMBER_FROM_MEMORY;
        limber_report_facts(r, ctx, e->backend, p, &e->facts);
    }
    return limber_launch_recorded(
        ctx, &(struct step){ .p = p, .f = &unscanned, .e = e, .report = r }, &guard, d);
}

/* True if the call waits for a missing kernel and is not computed by another one. */
static bool waits_for_kernel(const struct problem *p)
{
    return p->contract.on_miss == LIMBER_ON_MISS_WAIT ||
           p->contract.on_miss == LIMBER_ON_MISS_COMPILE;
}

/* Returns false, with the reason, if the interpreter would replace a missing compiler although the
 * caller has another way to compute (on_miss REFUSE or COMPILE), which is faster. */
static bool may_interpret(limber_context *ctx, const struct problem *p, const struct entry *e,
                          struct diag *d)
{
    bool other = p->contract.on_miss == LIMBER_ON_MISS_REFUSE ||
                 p->contract.on_miss == LIMBER_ON_MISS_COMPILE;
    const char *why =
        other && e->backend == &limber_backend_interp ? limber_fallback_reason(ctx) : "";

    return !*why || limber_fail(d, LIMBER_STATUS_DEVICE, "%s", why);
}

/* Adds the call's own k, and the spreads of exponents that a scan has found (f, or NULL), to an
 * error that names their classes.  Always returns false. */
static bool name_own(const struct problem *p, const struct scan_result *f, struct diag *d)
{
    char own[120];

    if (f && d->by_class & CLASS_OF_spread) {
        snprintf(own, sizeof own, "%%a spreads over %d, %%b over %d binades", f->all_a.spread,
                 f->all_b.spread);
        limber_fail_in(d, own);
    }
    if (d->by_class & CLASS_OF_k) {
        snprintf(own, sizeof own, "k = %lld", (long long)p->k);
        limber_fail_in(d, own);
    }
    return false;
}

/* Gets the kernel of a key, and makes it if needed.  Fails if may_interpret refuses the
 * interpreter. r: NULL, or gets the facts of the kernel's plan. */
static bool find_entry(limber_context *ctx, const struct problem *p, const struct kernel_key *key,
                       struct entry **e, struct report *r, struct diag *d)
{
    bool found;

    if (!limber_get_entry(ctx, key, e, &found, d))
        return false;
    if (!may_interpret(ctx, p, *e, d)) {
        limber_kernels_put(ctx->memory, *e);
        return false;
    }
    if (r) {
        r->from = found ? LIMBER_FROM_MEMORY : (*e)->from;
        r->seconds_compile = found ? 0 : (*e)->seconds;
        limber_report_facts(r, ctx, (*e)->backend, p, &(*e)->facts);
    }
    return true;
}

/* Launches a kernel and, if it is a prebuilt one, counts its time. */
static bool launch_kernel(limber_context *ctx, struct step *step, const struct kernel_key *key,
                          struct diag *d)
{
    struct report *r = step->report;
    const double start = r || step->e->prebuilt ? limber_now() : 0;
    const bool ok = limber_launch(ctx, step, 1, step->p, d);

    if (r)
        r->seconds_run = limber_now() - start;
    if (step->e->prebuilt && step->way == WAY_packed)
        limber_specialise_later(ctx, key, step->e, limber_now() - start);
    return ok;
}

/* Gets the kernel, which is made first if needed, and runs it. */
static bool run_kernel(limber_context *ctx, const struct problem *p, const struct scan_result *f,
                       const struct kernel_key *key, struct report *r, struct diag *d)
{
    bool stays = p->queue && p->queue->capture, ok;
    struct step step = { .p = p, .f = f, .report = r, .finish = p->finish };

    if (!find_entry(ctx, p, key, &step.e, r, d))
        return name_own(p, f, d);
    stays = stays && step.e->backend->device_ops;
    ok = (!stays || add_recordable(ctx, p, key, d)) && launch_kernel(ctx, &step, key, d);
    if (!stays)
        limber_kernels_put(ctx->memory, step.e);
    return ok;
}

/* Launches the kernel that an earlier call of the same form (sizes, strides, formats, contract)
 * kept.  Returns false on an error. */
static bool run_found(struct attempt *x)
{
    struct step step = { .p = x->p,
                         .f = &x->f,
                         .e = x->found->e,
                         .report = x->r,
                         .finish = x->p->finish,
                         .layout = &x->found->layout };

    if (x->r) {
        x->r->from = LIMBER_FROM_MEMORY;
        limber_report_facts(x->r, x->ctx, step.e->backend, x->p, &step.e->facts);
    }
    return launch_kernel(x->ctx, &step, x->key, x->d);
}

/* True if the kernel is in memory, or can be loaded at once from the disk or the library.  If only
 * specialised kernels are allowed, the disk is not tried. */
static bool is_ready(limber_context *ctx, const struct kernel_key *key)
{
    const struct kernel_maker kernel_maker = { limber_make_kernel,
                                               &(struct compile_inputs){ .ctx = ctx,
                                                                         .key = key,
                                                                         .machine = &ctx->machine,
                                                                         .code = CODE_READY } };
    size_t size = limber_kernel_key_size(key);

    return ctx->kernels == LIMBER_KERNELS_SPECIALISED ?
               limber_kernels_has(ctx->memory, key, size) :
               limber_kernels_offer(ctx->memory, key, size, kernel_maker);
}

/* True if the kernel is ready, or if the background thread cannot make it. */
static bool is_ready_or_unmakeable(limber_context *ctx, const struct background_job *job)
{
    return is_ready(ctx, &job->key) || !limber_background_ask(ctx->background, job, sizeof *job);
}

/* Runs a call by one kernel, without trying other code paths.  The interpreter's context uses this
 * function. */
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

/* Runs a call while its kernel is being compiled: interprets rows until the kernel is ready, which
 * then computes the remaining rows. */
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
        /* The caller's steps were not applied to the interpreter's rows, so they are applied to all
         * of C at the end. */
        w.rest.finish = NULL;
        ok = run_kernel(ctx, &w.rest, f, key, r, &why);
    }
    if (!limber_on_miss_finish(ctx, p, &w, ok))
        return limber_fail_again(d, &why);
    if (r && w.report.rows) {
        if (!ok || w.rest.m == 0)
            *r = w.report;
        r->bound = w.report.bound > r->bound ? w.report.bound : r->bound;
        r->from = LIMBER_FROM_INTERPRETER;
        r->seconds_run = limber_now() - start;
    }
    return true;
}

/* Runs a call as its contract says while the kernel is not ready: waits for it, refuses, or lets
 * the interpreter begin. */
static bool run_or_await(limber_context *ctx, const struct problem *p, const struct scan_result *f,
                         const struct kernel_key *key, struct report *r, struct diag *d)
{
    const double from_disk = 2e-3; /* seconds that reading an entry from disk may take */
    const struct background_job job = { .key = *key };

    if (waits_for_kernel(p) || is_ready_or_unmakeable(ctx, &job))
        return run_kernel(ctx, p, f, key, r, d);
    if (!limber_background_busy(ctx->background, &job, sizeof job, from_disk))
        return run_kernel(ctx, p, f, key, r, d);
    if (p->contract.on_miss == LIMBER_ON_MISS_REFUSE)
        return limber_fail(d, LIMBER_STATUS_NOT_READY, "the kernel is being made");
    return run_while_compiling(ctx, p, f, key, r, d);
}

/* Makes the key of a step whose problem and scan results are set, and gets its kernel. */
bool limber_engine_step(limber_context *ctx, struct step *s, struct kernel_key *key, bool *ready,
                        struct diag *d)
{
    struct background_job job = { .specialise = false };

    if (!limber_kernel_key_make(ctx, key, s->p, s->f, d))
        return false;
    job.key = *key;
    *ready = waits_for_kernel(s->p) || is_ready_or_unmakeable(ctx, &job);
    return !*ready || find_entry(ctx, s->p, key, &s->e, s->report, d) || name_own(s->p, s->f, d);
}

/* Computes the workspace, in bytes, that a key's kernel needs. several: the launch is one of
 * several that share memory. */
static bool workspace_of(limber_context *ctx, const struct problem *p, const struct kernel_key *key,
                         bool several, size_t *least, size_t *best, struct diag *d)
{
    const struct runner runner = limber_pool_runner(ctx->pool);
    struct call call = limber_call_plain(ctx, p, &runner);
    struct keeping of[2];
    struct maps maps;
    struct entry *e;

    if (!limber_get_entry(ctx, key, &e, NULL, d))
        return name_own(p, NULL, d);
    for (int i = 0; i < 2; i++)
        call.keep[i] =
            limber_operand_keeper(p->kept[i], &e->facts, i, limber_kept_place(p, 0), &of[i]);
    if (p->groups > 1 && e->backend->device_ops) {
        struct call all = call;

        all.groups = p->groups;
        all.device = ctx->machine.target.device;
        all.each_a = limber_groups_a(p);
        all.each_b = limber_groups_b(p);
        all.each_c = limber_groups_c(p);
        if (e->backend->device_ops->takes_groups(e->kernel, &all))
            call = all;
    }
    limber_maps_bind(&maps, &e->geometry, p);
    limber_maps_apply(&maps, p, &call);
    if (several && e->backend->launch_memory) {
        *least = limber_launch_bytes(e, &call);
        call.workspace_limit = SIZE_MAX / 4;
        *best = limber_launch_bytes(e, &call);
    } else if (e->backend->code) {
        e->backend->code->workspace(e->kernel, &call, least, best);
    }
    limber_kernels_put(ctx->memory, e);
    return true;
}

/* Computes the workspace of a product whose masks (results of scans) are known. */
bool limber_engine_workspace_masked(limber_context *ctx, const struct problem *p, struct mask *a,
                                    struct mask *b, size_t *least, size_t *best, struct diag *d)
{
    const struct scan_result f = { .all_a = *a, .all_b = *b, .slices = p->contract.slices };
    struct kernel_key key;

    return limber_kernel_key_make(ctx, &key, p, &f, d) &&
           workspace_of(ctx, p, &key, true, least, best, d);
}

/* Runs the passes on the plan of a key, which was made from the scan f.  Writes each stage to
 * `out`, and fills the report's facts. */
static bool trace_plan(limber_context *ctx, const struct problem *p, const struct scan_result *f,
                       const struct kernel_key *key, struct text *out, struct report *r,
                       struct diag *d)
{
    struct trace trace = { .out = out };
    struct facts facts = { .rows = 0 };
    struct plan plan = { 0 };
    bool ok;

    ok = limber_plan_state(&plan, key, NULL, d) &&
         limber_plan_key(ctx, &ctx->machine, &plan, NULL, facts.key, NULL, d) &&
         limber_passes_traced(&plan, &ctx->machine.target, NULL, &trace, d);
    if (ok) {
        limber_fill_facts(&facts, &plan, NULL);
        limber_report_facts(r, ctx, ctx->machine.backend, p, &facts);
        r->way = limber_describe_way(ctx, &ctx->machine, p, &plan, out);
    }
    limber_trace_clear(&trace);
    limber_plan_clear(&plan);
    return ok || name_own(p, f, d);
}

/* Plans a product of a single group whose masks (what scans found in A and B) are known. */
bool limber_engine_plan_masked(limber_context *ctx, const struct problem *p, const struct mask *a,
                               const struct mask *b, struct text *out, struct report *report,
                               struct diag *d)
{
    const struct scan_result f = {
        .all_a = *a, .all_b = *b, .slices = p->contract.slices, .first_pass = p->part.first_pass
    };
    struct kernel_key key;

    return limber_kernel_key_make(ctx, &key, p, &f, d) &&
           trace_plan(ctx, p, &f, &key, out, report, d);
}

/* Makes the function for products of one shape, without a scan of operands.  *address: its entry
 * point. */
bool limber_engine_function(limber_context *ctx, const limber_contract *contract,
                            const struct fixed *fixed, limber_format f, void **address,
                            struct diag *d)
{
    struct {
        struct kernel_key key;
        struct fixed fixed;
    } what;
    const struct kernel_maker kernel_maker = {
        limber_make_kernel,
        &(struct compile_inputs){
            .ctx = ctx, .key = &what.key, .fixed = &what.fixed, .machine = &ctx->machine }
    };
    static const double one = 1;
    const struct scan_result unscanned = { 0 };
    const struct problem p = { .contract = *contract,
                               .k = fixed->k,
                               .fa = f,
                               .fb = f,
                               .fc = f,
                               /* the kernel depends only on whether there is a beta */
                               .beta = fixed->add ? &one : NULL };
    struct entry *e;
    bool found;

    if (!ctx->machine.cpu)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "backend %s makes no functions for one shape",
                           ctx->machine.backend->name);
    if (!limber_kernel_key_make(ctx, &what.key, &p, &unscanned, d))
        return false;
    what.fixed = *fixed;
    if (!limber_kernels_get(ctx->functions, &what, sizeof what, kernel_maker, &e, &found, d))
        return false;
    *address = e->address; /* the entry is never released, so the code stays loaded */
    return true;
}

/* ---- kernels as a way to compute a call ------------------------------------------------------ */

/* Implements way.refuses: a kernel can be made for every call. */
static const char *why_not_plan_kernel(const limber_context *ctx, const struct problem *p)
{
    (void)ctx, (void)p;
    return NULL;
}

/* Keeps the kernel that has computed a call for the next calls of the same form (sizes, strides,
 * formats, contract), if it is ready and is of the context's own backend. */
static void keep_kernel(struct attempt *x)
{
    const size_t size = limber_kernel_key_size(x->key);
    struct diag ignored = { 0 };
    struct entry *e;

    if (!atomic_load(&x->accepted->found[MOST_FOUND - 1]) &&
        limber_kernels_count(x->ctx->memory) < MOST_KEPT &&
        limber_kernels_has(x->ctx->memory, x->key, size) &&
        limber_get_entry(x->ctx, x->key, &e, NULL, &ignored) &&
        (e->backend != x->ctx->machine.backend ||
         !limber_accepted_keep(x->accepted, x->key, adds_nothing_to_key(&x->f, x->p), e)))
        limber_kernels_put(x->ctx->memory, e);
}

/* Implements way.run: makes a kernel for the call's plan and launches it. */
static enum ran run_plan_kernel(struct attempt *x)
{
    bool ok;

    if (limber_device_records(x->ctx, x->p->queue))
        return run_recorded(x->ctx, x->p, x->r, x->d) ? RAN_done : RAN_failed;
    ok = x->scanned || limber_attempt_scan(x);
    if (ok && x->found)
        return run_found(x) ? RAN_done : RAN_failed;
    ok = ok && run_or_await(x->ctx, x->p, &x->f, x->key, x->r, x->d);
    if (ok && x->accepted)
        keep_kernel(x);
    return ok ? RAN_done : RAN_failed;
}

/* Implements way.workspace of planned kernels. */
static enum ran plan_kernel_workspace(struct attempt *x, bool batch, size_t *least, size_t *best)
{
    return limber_attempt_scan(x) && workspace_of(x->ctx, x->p, x->key, batch || x->p->groups > 1,
                                                  least, best, x->d) ?
               RAN_done :
               RAN_failed;
}

/* Implements way.plan: prints the plan. */
static enum ran plan_plan_kernel(struct attempt *x, struct text *out, struct cut *cut)
{
    (void)cut;
    return limber_attempt_scan(x) && trace_plan(x->ctx, x->p, &x->f, x->key, out, x->r, x->d) ?
               RAN_done :
               RAN_failed;
}

const struct way limber_way_kernel = { .plans = true,
                                       .refuses = why_not_plan_kernel,
                                       .run = run_plan_kernel,
                                       .workspace = plan_kernel_workspace,
                                       .plan = plan_plan_kernel };
