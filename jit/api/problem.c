/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls that take a problem: they copy the caller's structures, refuse features that do
 * not combine, and call the operation. */
#include "jit/accepted.h"
#include "jit/api/api.h"
#include "jit/operators/operators.h"
#include "jit/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reports what a problem has that is not possible, and why.  Returns false. */
static bool refuse(const char *what, const char *why, struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "problem.%s: %s", what, why);
}

/* ---- copies of the caller's structures ------------------------------------------------------- */

/* Copies the caller's contract, its unit and its statistics to structures of this version. */
static bool read_contract(struct arguments *c, struct diag *d)
{
    limber_contract *k = &c->contract;
    const limber_contract *from = c->problem.contract;

    if (!limber_contract_in(k, &c->unit, from, d))
        return false;
    c->statistics_to = k->statistics;
    if (k->statistics) {
        if (!limber_copy_sized_in(&c->statistics, sizeof c->statistics, k->statistics,
                                  LEAST_statistics, "contract.statistics", d))
            return false;
        k->statistics = &c->statistics;
    }
    c->problem.contract = k;
    return true;
}

/* Copies the structures that the problem points to, and makes it point to the copies. */
static bool read_structures(struct arguments *c, struct diag *d)
{
    limber_problem *p = &c->problem;

    if (p->conv) {
        if (!limber_copy_sized_in(&c->conv, sizeof c->conv, p->conv, LEAST_conv, "conv", d))
            return false;
        p->conv = &c->conv;
    }
    if (p->batch) {
        if (!limber_copy_sized_in(&c->batch, sizeof c->batch, p->batch, LEAST_batch, "batch", d))
            return false;
        p->batch = &c->batch;
    }
    if (p->queue) {
        if (!limber_copy_sized_in(&c->queue, sizeof c->queue, p->queue, LEAST_queue, "queue", d))
            return false;
        p->queue = &c->queue;
    }
    return true;
}

/* Copies the caller's problem, and all structures that it points to, to *c. */
static bool read_problem(struct arguments *c, const limber_problem *problem, struct diag *d)
{
    if (!problem)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "problem is NULL");
    return limber_copy_sized_in(&c->problem, sizeof c->problem, problem, LEAST_problem, "problem",
                                d) &&
           read_contract(c, d) && read_structures(c, d);
}

/* ---- which combinations are allowed ---------------------------------------------------------- */

/* Refuses fields that a GEMM does not have. */
static bool check_gemm(const limber_problem *p, struct diag *d)
{
    if (p->conv)
        return refuse("conv", "a GEMM has none", d);
    if (p->domain == LIMBER_DOMAIN_REAL && p->conjugate != LIMBER_CONJUGATE_NONE)
        return refuse("conjugate", "real matrices have no conjugate", d);
    if (p->domain == LIMBER_DOMAIN_REAL && p->complex_method != LIMBER_COMPLEX_AUTO)
        return refuse("complex_method", "the matrices are real", d);
    if (p->domain == LIMBER_DOMAIN_COMPLEX && (p->prepared_a || p->prepared_b))
        return refuse(p->prepared_a ? "prepared_a" : "prepared_b",
                      "complex matrices are not prepared", d);
    return true;
}

/* Refuses fields that a convolution does not have. */
static bool check_conv(const limber_problem *p, struct diag *d)
{
    if (!p->conv)
        return refuse("conv", "NULL, but a convolution needs its geometry", d);
    if (p->m || p->n || p->k)
        return refuse("m, n, k", "sizes of a convolution are in conv", d);
    if (p->a.row_stride || p->a.col_stride || p->b.row_stride || p->b.col_stride ||
        p->c.row_stride || p->c.col_stride)
        return refuse("a, b, c", "tensors of a convolution are dense, their strides stay 0", d);
    if (p->domain != LIMBER_DOMAIN_REAL || p->conjugate != LIMBER_CONJUGATE_NONE ||
        p->complex_method != LIMBER_COMPLEX_AUTO)
        return refuse("domain", "convolutions are real", d);
    if (p->prepared_a)
        return refuse("prepared_a", "of a convolution only filters are prepared", d);
    if (p->prepared_b && p->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER)
        return refuse("prepared_b", "a gradient of filters reads no filters", d);
    return !p->batch || refuse("batch", "conv.n is the number of images", d);
}

/* Checks the enumerators of a problem, and that its features combine. */
static bool check_problem(const limber_context *ctx, const limber_problem *p, struct diag *d)
{
    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    if ((int)p->operation < LIMBER_OPERATION_GEMM ||
        p->operation > LIMBER_OPERATION_CONV_BACKWARD_FILTER)
        return refuse("operation", "none of its values", d);
    if ((int)p->domain < LIMBER_DOMAIN_REAL || p->domain > LIMBER_DOMAIN_COMPLEX)
        return refuse("domain", "none of its values", d);
    if ((int)p->conjugate < LIMBER_CONJUGATE_NONE || p->conjugate > LIMBER_CONJUGATE_BOTH)
        return refuse("conjugate", "none of its values", d);
    if ((int)p->complex_method < LIMBER_COMPLEX_AUTO ||
        p->complex_method > LIMBER_COMPLEX_FOUR_PRODUCTS)
        return refuse("complex_method", "none of its values", d);
    if (p->queue &&
        ((int)p->queue->capture < LIMBER_CAPTURE_NONE || p->queue->capture > LIMBER_CAPTURE_READY))
        return refuse("queue.capture", "none of its values", d);
    if (p->contract->rounding && (p->operation != LIMBER_OPERATION_GEMM || p->epilogue || p->queue))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.rounding: %s are rounded to nearest only",
                           p->epilogue                           ? "results with an epilogue" :
                           p->operation != LIMBER_OPERATION_GEMM ? "convolutions" :
                                                                   "results of a queue");
    return p->operation == LIMBER_OPERATION_GEMM ? check_gemm(p, d) : check_conv(p, d);
}

/* ---- what all calls on a problem begin and end with ------------------------------------------ */

/* A public call on a problem: its name without "limber_", the caller's structures, and copies. */
struct public_call {
    const char *name;
    limber_context *ctx;
    limber_report *report; /* the caller's, or NULL */
    struct arguments c;
    void *widened[2];
    struct diag d;
    struct report r;
};

/* Sets the fields of *o that every call needs.  The large structures are not cleared, since they
 * are set before they are read. */
static void begin_call(struct public_call *o, const char *name, limber_context *ctx,
                       limber_report *report)
{
    o->name = name;
    o->ctx = ctx;
    o->report = report;
    o->widened[0] = o->widened[1] = NULL;
    o->d.status = LIMBER_STATUS_OK;
}

/* Checks and copies the caller's structures. */
static bool open_call(struct public_call *o, const limber_problem *problem)
{
    return limber_report_check(o->report, &o->d) && read_problem(&o->c, problem, &o->d) &&
           check_problem(o->ctx, &o->c.problem, &o->d) &&
           limber_widen(o->ctx, &o->c.problem, o->widened, &o->d);
}

/* Opens a call that accepts real matrices only.  single: it accepts no batches.  False, with an
 * error in o->d, if it does not accept the problem. */
static bool open_real(struct public_call *o, const limber_problem *problem, bool single)
{
    if (!open_call(o, problem))
        return false;
    if (o->c.problem.domain != LIMBER_DOMAIN_REAL)
        return limber_fail(&o->d, LIMBER_STATUS_BAD_ARGUMENT,
                           "problem.domain: limber_%s serves real matrices", o->name);
    return !single || !o->c.problem.batch ||
           limber_fail(&o->d, LIMBER_STATUS_BAD_ARGUMENT,
                       "problem.batch: limber_%s serves one product", o->name);
}

/* Opens a call that only makes a plan.  Its matrices must be real.  Its epilogue is read into *e,
 * and is left out of the problem.  single: batches are refused.  Returns false on an error. */
static bool open_to_plan(struct public_call *o, const limber_problem *problem, bool single,
                         struct epilogue_call *e)
{
    limber_problem *p = &o->c.problem;

    e->c.format.size = 0;
    if (!open_real(o, problem, single))
        return false;
    if (!p->epilogue)
        return true;
    if (!limber_epilogue_read(o->ctx, e, p, false, &o->d))
        return false;
    *p = e->product;
    return true;
}

/* Copies a report to the caller's, unless that is NULL.  First computes the share of time that was
 * spent on recomputing elements. */
static void report_out(const limber_context *ctx, limber_report *to, struct report *r,
                       const limber_contract *contract)
{
    if (!to)
        return;
    r->recomputed_share = 0;
    if (r->recomputed_seconds > 0)
        r->recomputed_share = fmin(
            r->recomputed_seconds / (r->seconds_run * limber_pool_runner(ctx->pool).workers), 1);
    r->order = limber_order(contract);
    limber_report_out(to, r);
}

/* Copies the call's report to the caller's. */
static void report_call(struct public_call *o)
{
    report_out(o->ctx, o->report, &o->r, o->c.problem.contract);
}

/* Ends a call, and makes its error the thread's. */
static limber_status close_call(struct public_call *o)
{
    limber_widen_end(o->ctx, o->widened);
    if (o->d.status)
        limber_fail_in(&o->d, o->name);
    return limber_error_set(&o->d);
}

/* ---- what can be done with a problem --------------------------------------------------------- */

/* Runs a real problem without an epilogue by the caller's plan. */
static bool run_given(limber_context *ctx, const limber_problem *p, const struct given_plan *given,
                      struct report *r, struct diag *d)
{
    struct problem x;

    if (!(p->conv ? limber_conv_state(ctx, p, true, &x, d) :
                    limber_gemm_state(ctx, p, true, &x, d)))
        return false;
    x.given = given;
    return limber_engine_run(ctx, &x, NULL, r, d);
}

/* Runs a problem without its epilogue: a convolution, a complex product or a real product.  given:
 * the caller's plan, or NULL. */
static bool run_product(limber_context *ctx, const limber_problem *p,
                        const struct given_plan *given, struct report *r, struct diag *d)
{
    struct accepted *accepted;
    struct problem x;
    bool ok;

    if (p->contract->modulus)
        return limber_modular_run(ctx, p, r, d);
    if (p->domain == LIMBER_DOMAIN_COMPLEX)
        return limber_complex_run(ctx, p, given, r, d);
    if (given)
        return run_given(ctx, p, given, r, d);
    if (p->operation != LIMBER_OPERATION_GEMM)
        return limber_conv_run(ctx, p, r, d);
    if (!limber_gemm_state(ctx, p, true, &x, d))
        return false;
    accepted = limber_keep_form(ctx, p, &x);
    ok = limber_engine_run(ctx, &x, accepted, r, d);
    limber_accepted_release(accepted);
    return ok;
}

/* Runs a problem, including its epilogue if there is one.  given: the caller's plan, or NULL. */
static bool run_problem(limber_context *ctx, const limber_problem *p,
                        const struct given_plan *given, struct report *r, struct diag *d)
{
    struct epilogue_call e;

    if (!p->epilogue)
        return run_product(ctx, p, given, r, d);
    if (!limber_epilogue_read(ctx, &e, p, true, d))
        return false;
    e.given = given;
    return limber_epilogue_run(ctx, &e, r, run_product, d);
}

/* Converts the caller's problem to the engine's structure *x, for a call that computes nothing. */
static bool state_problem(limber_context *ctx, const limber_problem *p, struct problem *x,
                          struct diag *d)
{
    return p->operation == LIMBER_OPERATION_GEMM ? limber_gemm_state(ctx, p, false, x, d) :
                                                   limber_conv_state_main(ctx, p, x, d);
}

/* Checks, computes and reports a problem. name: the API function, for error messages. */
limber_status limber_run_as(const char *name, limber_context *ctx, const limber_problem *problem,
                            limber_report *report)
{
    struct public_call o;

    begin_call(&o, name, ctx, report);
    if (open_call(&o, problem) &&
        run_problem(ctx, &o.c.problem, NULL, report ? &o.r : NULL, &o.d)) {
        report_call(&o);
        if (o.c.statistics_to)
            limber_copy_sized_out(o.c.statistics_to, &o.c.statistics, sizeof o.c.statistics);
    }
    return close_call(&o);
}

/* Computes a product whose form (sizes, strides, formats, contract) was accepted before.  False,
 * with nothing changed, if there is no such form, or only the general path can tell whether the
 * addresses are valid. */
static bool run_accepted(const char *name, limber_context *ctx, const struct gemm_arguments *x,
                         limber_report *report, limber_status *status)
{
    struct problem to;
    struct diag d = { 0 };
    struct report r;
    struct accepted *w;

    if ((report && !limber_report_check(report, &d)) || !(w = limber_gemm_find_form(ctx, x, &to)))
        return false;
    if (limber_engine_run(ctx, &to, w, report ? &r : NULL, &d))
        report_out(ctx, report, &r, &to.contract);
    limber_accepted_release(w);
    if (d.status)
        limber_fail_in(&d, name);
    *status = limber_error_set(&d);
    return true;
}

/* Computes a plain product and fills its report, before its arguments are checked.  False if it
 * needs the general path, and was not computed.  Not inlined, since a report needs much stack. */
static __attribute__((noinline)) bool
report_at_once(limber_context *ctx, const struct gemm_arguments *x, limber_report *report)
{
    struct report r;

    if (report->size != sizeof *report || report->part_size != sizeof(limber_part) ||
        report->part_room < 0 || (!report->part && report->part_room) ||
        !limber_ways_at_once(ctx, x, &r))
        return false;
    r.order = x->contract ? limber_order(x->contract) : 0;
    limber_report_out(report, &r);
    return true;
}

/* Computes a product by library code, before anything else is tried.  Returns false if it cannot.
 */
static inline bool run_at_once(limber_context *ctx, const struct gemm_arguments *x,
                               limber_report *report)
{
    return ctx && (report ? report_at_once(ctx, x, report) : limber_ways_at_once(ctx, x, NULL));
}

/* True if a problem has nothing but what limber_gemm takes. */
static bool is_plain_gemm(const limber_problem *p)
{
    return p && p->size == sizeof *p && p->operation == LIMBER_OPERATION_GEMM &&
           p->domain == LIMBER_DOMAIN_REAL && p->conjugate == LIMBER_CONJUGATE_NONE &&
           p->complex_method == LIMBER_COMPLEX_AUTO && !p->conv && !p->epilogue && !p->prepared_a &&
           !p->prepared_b && !p->batch && !p->queue;
}

/* Computes the problem.  Fills the report on success, if it is not NULL. */
limber_status limber_run(limber_context *ctx, const limber_problem *p, limber_report *report)
{
    const bool plain = is_plain_gemm(p);
    struct gemm_arguments x;
    limber_status status;

    if (plain) {
        x = (struct gemm_arguments){ p->contract, p->m,  p->n,     p->k,   &p->a,
                                     &p->b,       &p->c, p->alpha, p->beta };
        if (run_at_once(ctx, &x, report))
            return LIMBER_STATUS_OK;
    }
    CALL_SCOPE;
    return plain && run_accepted("run", ctx, &x, report, &status) ?
               status :
               limber_run_as("run", ctx, p, report);
}

/* ---- a problem and the plan that computes it ------------------------------------------------- */

/* Refuses features that a call with the caller's own plan cannot have. */
static bool check_planned(const limber_problem *p, bool contract, struct diag *d)
{
    bool strided = p->conv && (p->conv->stride[0] > 1 || p->conv->stride[1] > 1 ||
                               (p->conv->t && p->conv->depth_stride > 1));

    if (contract)
        return refuse("contract", "the plan states it", d);
    if (p->complex_method == LIMBER_COMPLEX_THREE_PRODUCTS)
        return refuse("complex_method", "a plan is of one real product", d);
    if (p->prepared_a || p->prepared_b)
        return refuse(p->prepared_a ? "prepared_a" : "prepared_b",
                      "limber_run_plan takes no prepared operands", d);
    if (p->queue && p->queue->capture)
        return refuse("queue.capture", "limber_run_plan captures nothing", d);
    if (p->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA && strided)
        return refuse("conv.stride", "a gradient with strides takes several plans", d);
    return true;
}

/* Reads the plan, and makes its contract the problem's. */
static bool read_plan(struct arguments *c, const char *text, struct plan *plan, struct diag *d)
{
    if (!limber_plan_read(plan, text, d)) {
        limber_fail_in(d, "plan");
        return false;
    }
    c->contract.promise = plan->promise;
    c->contract.bits = plan->bits;
    c->contract.scheme = plan->scheme ? plan->scheme : plan->wanted;
    if (plan->promise == LIMBER_CONTRACT_FAST && !c->contract.scheme)
        c->contract.scheme = "native"; /* a name that the checks accept; the rows are the plan's */
    c->contract.unit = plan->model;
    return true;
}

/* Runs a plan, given as text, on a problem's operands. */
limber_status limber_run_plan(limber_context *ctx, const char *plan, const limber_problem *problem,
                              limber_report *report)
{
    CALL_SCOPE;
    struct public_call o;
    struct plan parsed = { 0 };
    const struct given_plan given = { plan, &parsed };

    begin_call(&o, "run_plan", ctx, report);
    if (!plan)
        limber_fail(&o.d, LIMBER_STATUS_BAD_ARGUMENT, "plan is NULL");
    else if (open_call(&o, problem) &&
             check_planned(&o.c.problem, problem->contract != NULL, &o.d) &&
             read_plan(&o.c, plan, &parsed, &o.d) &&
             run_problem(ctx, &o.c.problem, &given, report ? &o.r : NULL, &o.d))
        report_call(&o);
    limber_plan_clear(&parsed);
    return close_call(&o);
}

/* ---- plans, parts and workspace of a problem ------------------------------------------------- */

/* Sets *text to the plan for a problem, without computing the problem.  If report is not NULL,
 * fills *report with what is known before a run. */
limber_status limber_plan(limber_context *ctx, const limber_problem *problem, char **text,
                          limber_report *report)
{
    CALL_SCOPE;
    struct public_call o;
    struct text out = { 0 };
    struct cut cut = { 0 };
    struct epilogue_call e;
    struct problem x;

    begin_call(&o, "plan", ctx, report);
    memset(&o.r, 0, sizeof o.r);
    if (!text)
        limber_fail(&o.d, LIMBER_STATUS_BAD_ARGUMENT, "text is NULL");
    else if (open_to_plan(&o, problem, true, &e) && state_problem(ctx, &o.c.problem, &x, &o.d)) {
        if (limber_engine_plan(ctx, &x, &out, x.shape ? NULL : &cut, report ? &o.r : NULL, &o.d))
            report_call(&o);
        else
            limber_text_clear(&out);
        if (out.s && e.c.format.size)
            limber_epilogue_text(&e, &out);
        limber_cut_clear(&cut);
    }
    if (text)
        *text = out.s;
    return close_call(&o);
}

/* Describes how a GEMM would be cut into parts, without computing it. */
limber_status limber_explain(limber_context *ctx, const limber_problem *problem, limber_cut *cut,
                             limber_report *report)
{
    CALL_SCOPE;
    struct public_call o;
    struct cut found = { 0 }, none = { 0 };
    struct epilogue_call e;
    struct problem x;

    begin_call(&o, "explain", ctx, report);
    memset(&o.r, 0, sizeof o.r);
    if (!cut)
        limber_fail(&o.d, LIMBER_STATUS_BAD_ARGUMENT, "cut is NULL");
    else if (limber_cut_check(cut, &o.d))
        limber_cut_out(cut, &none, &o.d);
    if (!o.d.status && open_to_plan(&o, problem, true, &e)) {
        if (o.c.problem.operation != LIMBER_OPERATION_GEMM)
            refuse("operation", "limber_explain serves GEMMs", &o.d);
        else if (state_problem(ctx, &o.c.problem, &x, &o.d) &&
                 limber_engine_plan(ctx, &x, NULL, &found, report ? &o.r : NULL, &o.d) &&
                 limber_cut_out(cut, &found, &o.d))
            report_call(&o);
    }
    limber_cut_clear(&found);
    return close_call(&o);
}

/* Computes the sizes of workspace that a problem needs at least, and that it runs fastest with. */
limber_status limber_workspace(limber_context *ctx, const limber_problem *problem, size_t *least,
                               size_t *best)
{
    CALL_SCOPE;
    struct public_call o;
    struct epilogue_call e;
    struct problem x;

    begin_call(&o, "workspace", ctx, NULL);
    if (!least || !best)
        limber_fail(&o.d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", least ? "best" : "least");
    else if (open_to_plan(&o, problem, false, &e)) {
        limber_problem *p = &o.c.problem;
        const bool batch = p->batch && p->batch->count > 1;

        if (!ctx->machine.backend->device_ops)
            p->batch = NULL;
        if (p->operation != LIMBER_OPERATION_GEMM)
            limber_conv_workspace(ctx, p, least, best, &o.d);
        else if (limber_gemm_state(ctx, p, false, &x, &o.d))
            limber_engine_workspace(ctx, &x, batch, least, best, &o.d);
    }
    return close_call(&o);
}

/* ---- calls for one operation ----------------------------------------------------------------- */

/* Computes C = alpha A B + beta C: directly if the call is simple, else as a problem. */
limber_status limber_gemm(limber_context *ctx, const limber_contract *contract, int64_t m,
                          int64_t n, int64_t k, const void *alpha, limber_matrix a, limber_matrix b,
                          const void *beta, limber_output c, limber_report *report)
{
    const struct gemm_arguments x = { contract, m, n, k, &a, &b, &c, alpha, beta };
    limber_status status;
    limber_problem p;

    if (run_at_once(ctx, &x, report))
        return LIMBER_STATUS_OK;
    CALL_SCOPE;
    if (run_accepted("gemm", ctx, &x, report, &status))
        return status;
    p = (limber_problem)LIMBER_PROBLEM_INIT;
    p.m = m;
    p.n = n;
    p.k = k;
    p.a = a;
    p.b = b;
    p.c = c;
    p.alpha = alpha;
    p.beta = beta;
    p.contract = contract;
    return limber_run_as("gemm", ctx, &p, report);
}

/* Fills a problem for a convolution: forward, or the gradient of image or filters. */
static limber_problem conv_problem(limber_operation operation, const limber_contract *contract,
                                   const limber_conv *conv, const void *alpha, limber_matrix a,
                                   limber_matrix b, const void *beta, limber_output c)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.operation = operation;
    p.conv = conv;
    p.a = a;
    p.b = b;
    p.c = c;
    p.alpha = alpha;
    p.beta = beta;
    p.contract = contract;
    return p;
}

/* Does limber_run for a forward convolution, y = alpha conv(x, w) + beta y. */
limber_status limber_conv2d(limber_context *ctx, const limber_contract *contract,
                            const limber_conv *conv, const void *alpha, const void *x,
                            limber_format xf, const void *w, limber_format wf, const void *beta,
                            void *y, limber_format yf, limber_report *report)
{
    CALL_SCOPE;
    const limber_problem p = conv_problem(
        LIMBER_OPERATION_CONV_FORWARD, contract, conv, alpha, (limber_matrix){ x, xf, 0, 0 },
        (limber_matrix){ w, wf, 0, 0 }, beta, (limber_output){ y, yf, 0, 0 });

    return limber_run_as("conv2d", ctx, &p, report);
}

/* Computes the gradient dx of a convolution's image from that of its result and the filters. */
limber_status limber_conv2d_backward_data(limber_context *ctx, const limber_contract *contract,
                                          const limber_conv *conv, const void *alpha,
                                          const void *dy, limber_format dyf, const void *w,
                                          limber_format wf, const void *beta, void *dx,
                                          limber_format dxf, limber_report *report)
{
    CALL_SCOPE;
    const limber_problem p =
        conv_problem(LIMBER_OPERATION_CONV_BACKWARD_DATA, contract, conv, alpha,
                     (limber_matrix){ dy, dyf, 0, 0 }, (limber_matrix){ w, wf, 0, 0 }, beta,
                     (limber_output){ dx, dxf, 0, 0 });

    return limber_run_as("conv2d_backward_data", ctx, &p, report);
}

/* Computes the gradient dw of a convolution's filters from the image and the gradient of its
 * result. */
limber_status limber_conv2d_backward_filter(limber_context *ctx, const limber_contract *contract,
                                            const limber_conv *conv, const void *alpha,
                                            const void *x, limber_format xf, const void *dy,
                                            limber_format dyf, const void *beta, void *dw,
                                            limber_format dwf, limber_report *report)
{
    CALL_SCOPE;
    const limber_problem p =
        conv_problem(LIMBER_OPERATION_CONV_BACKWARD_FILTER, contract, conv, alpha,
                     (limber_matrix){ x, xf, 0, 0 }, (limber_matrix){ dy, dyf, 0, 0 }, beta,
                     (limber_output){ dw, dwf, 0, 0 });

    return limber_run_as("conv2d_backward_filter", ctx, &p, report);
}
