/* SPDX-License-Identifier: BSD-3-Clause
 * The engine's entry points: they run calls, plan them, compute their workspace, run the stride
 * phases of convolutions, and perform the jobs of the background thread. */
#include "jit/operators/directed.h"
#include "jit/ways.h"

#include <stdio.h>
#include <string.h>

/* Arguments of functions that run on a large enough stack. */
struct engine_arguments {
    limber_context *ctx;
    const struct problem *p;
    struct accepted *accepted;
    struct report *report;
    struct text *out; /* where the plan is written, or NULL */
    struct cut *cut;
    struct phases *phases;
};

/* Runs a call, on a large enough stack.  If a unit is simulated, also fills the statistics that the
 * contract asks for. */
static bool run_here(void *arg, struct diag *d)
{
    const struct engine_arguments *r = arg;

    return limber_simulates(&r->p->contract) ?
               limber_simulate_run(r->ctx, r->p, r->report, d) :
               limber_engine_run_accepted(r->ctx, r->p, r->accepted, r->report, d);
}

/* Computes a problem that was checked.  accepted: the entry of an equal earlier call, or NULL. */
bool limber_engine_run(limber_context *ctx, const struct problem *p, struct accepted *accepted,
                       struct report *report, struct diag *d)
{
    const struct directed_result to = { p->contract.rounding, p->c, p->at.step_c, p->at.each_c };
    struct engine_arguments r;

    if (p->given)
        return limber_engine_run_plan(ctx, p, report, d);
    if (p->contract.rounding)
        return limber_directed_run(ctx, p, &to, 1, report, d);
    if (limber_has_stack(STACK_run) && !limber_simulates(&p->contract))
        return limber_engine_run_accepted(ctx, p, accepted, report, d);
    r = (struct engine_arguments){ .ctx = ctx, .p = p, .accepted = accepted, .report = report };
    return limber_with_stack(STACK_run, run_here, &r, d);
}

/* ---- workspace and plans --------------------------------------------------------------------- */

/* Returns the problem that computes p: its sided form if it is rounded in a direction. */
static const struct problem *stated_problem(const struct problem *p, struct sided_problem *sided)
{
    if (!p->contract.rounding)
        return p;
    limber_sided_problem(sided, p);
    return &sided->p;
}

/* Computes the workspace of a call, in bytes. batch: *p is the first product of a batch. */
bool limber_engine_workspace(limber_context *ctx, const struct problem *p, bool batch,
                             size_t *least, size_t *best, struct diag *d)
{
    struct sided_problem sided;
    struct attempt x = { .ctx = ctx, .p = stated_problem(p, &sided), .d = d };

    *least = *best = 0;
    return !ctx->machine.backend->code || p->m == 0 || p->n == 0 || p->groups == 0 ||
           limber_ways_workspace(&x, batch, least, best);
}

/* Plans a call without running it. */
static bool plan_here(void *arg, struct diag *d)
{
    const struct engine_arguments *x = arg;
    struct report r = { 0 };
    struct attempt at = { .ctx = x->ctx, .p = x->p, .r = &r, .d = d };
    bool ok = limber_check_small(x->ctx, x->p, d) &&
              (!limber_simulates(&x->p->contract) || limber_simulate_check(x->p, d)) &&
              limber_ways_plan(&at, x->out, x->cut);

    if (ok && x->out && x->out->failed)
        ok = limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the plan's text");
    if (ok && x->report)
        *x->report = r;
    return ok;
}

/* Plans a call without running it. out (may be NULL) gets the plan's text. cut is NULL for
 * convolutions; else it gets the partition, and the caller must clear it. */
bool limber_engine_plan(limber_context *ctx, const struct problem *p, struct text *out,
                        struct cut *cut, struct report *report, struct diag *d)
{
    struct sided_problem sided;

    p = stated_problem(p, &sided);
    return limber_with_stack(STACK_run, plan_here,
                             &(struct engine_arguments){ ctx, p, NULL, report, out, cut, NULL }, d);
}

/* Makes the kernel of a plan in text form, keeps it on disk unless it is there already, and
 * fills in the report r. */
bool limber_engine_make_stated(limber_context *ctx, const char *plan, struct report *r,
                               struct diag *d)
{
    struct compile_inputs m = { .ctx = ctx, .machine = &ctx->machine, .stated = plan };
    struct entry e = { .kernel = NULL };

    if (!limber_make_kernel(&m, &e, d))
        return false;
    snprintf(r->scheme, sizeof r->scheme, "%s", e.facts.scheme);
    snprintf(r->backend, sizeof r->backend, "%s", e.backend->name);
    limber_key_hex(e.facts.key, (sizeof r->kernel - 1) / 2, r->kernel);
    r->rows = e.facts.rows;
    r->pruned = e.facts.pruned;
    r->bound = e.facts.bound;
    r->from = e.from;
    r->order = limber_order(&(limber_contract){ .promise = e.promise });
    r->seconds_compile = e.seconds;
    limber_entry_clear(&e);
    return true;
}

/* ---- kernels made in the background ---------------------------------------------------------- */

/* Does a job of the background thread: makes the function of a shape, or a specialised or
 * ordinary kernel. */
void limber_run_background_job(void *context, const void *what)
{
    const struct background_job *job = what;
    limber_context *ctx = context;
    struct diag ignored = { 0 }; /* the next call fails in the same way and reports the error */
    struct entry *e;

    if (job->shape.size)
        limber_shape_make(ctx, &job->shape);
    else if (job->specialise)
        limber_specialise(ctx, &job->key);
    else if (limber_get_entry(ctx, &job->key, &e, NULL, &ignored))
        limber_kernels_put(ctx->memory, e);
}

/* Returns the address range of the compiler's code that the background thread runs. */
struct code_range limber_engine_compiler(void *context)
{
    const struct code_ops *code = ((limber_context *)context)->machine.backend->code;

    return code ? code->compiler() : (struct code_range){ 0, 0 };
}

/* ---- phases of a convolution with strides ---------------------------------------------------- */

/* Scans the operands of a stride phase and gets its kernel.  *ready is false while the kernel is
 * being made. */
static bool find_phase(limber_context *ctx, struct phase *x, struct step *s, bool *ready,
                       struct diag *d)
{
    const double start = limber_now();
    const struct scan_wants wants = limber_scan_wants(ctx, &x->part);

    if (!limber_scan_operands(ctx, &x->f, &x->part, &wants, d))
        return false;
    x->report.seconds_scan = limber_now() - start;
    *s = (struct step){ .p = &x->part, .f = &x->f, .report = &x->report };
    return limber_engine_step(ctx, s, &x->key, ready, d);
}

/* After a stride phase has run, logs it, and counts its time if a prebuilt kernel computed it. */
static void end_phase(limber_context *ctx, const struct phase *x, const struct step *s)
{
    if (ctx->tells.verbose > 0)
        limber_call_log(ctx, &x->part, &x->report);
    if (s->e->prebuilt && s->way == WAY_packed)
        limber_specialise_later(ctx, &x->key, s->e, x->report.seconds_run);
}

/* Gets the kernels of all stride phases, then launches the phases together. x->done stays false if
 * a kernel is not ready. */
static bool run_phases(void *arg, struct diag *d)
{
    const struct engine_arguments *r = arg;
    struct phases *x = r->phases;
    struct step step[MOST_PHASES] = { { .p = NULL } };
    bool ok = true, ready = true;
    int made = 0;

    for (; ok && ready && made < x->count; made++)
        ok = find_phase(r->ctx, &x->phase[made], &step[made], &ready, d);
    step[0].zeroed = x->zeroed;
    step[0].zeroed_bytes = x->zeroed_bytes;
    x->done = ok && ready && (ok = limber_launch(r->ctx, step, made, r->p, d));
    for (int i = 0; i < made; i++) {
        if (x->done)
            end_phase(r->ctx, &x->phase[i], &step[i]);
        if (step[i].e)
            limber_kernels_put(r->ctx->memory, step[i].e);
        limber_scan_result_clear(&x->phase[i].f, x->phase[i].part.groups);
    }
    return ok;
}

/* Runs all stride phases.  C, the result of `whole`, is unchanged after a failure. */
bool limber_engine_run_phases(limber_context *ctx, const struct problem *whole, struct phases *x,
                              struct diag *d)
{
    return limber_with_stack(STACK_run, run_phases,
                             &(struct engine_arguments){ .ctx = ctx, .p = whole, .phases = x }, d);
}
