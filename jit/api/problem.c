/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls on a problem: they read the caller's structures, refuse what does not combine,
 * and call the operation. */
#include "jit/api/api.h"
#include "jit/operators/operators.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(const char *what, const char *why, struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "problem.%s: %s", what, why);
}

/* ---- copies of the caller's structures ------------------------------------------------------- */

/* Copies the contract, and the statistics that it asks for, in the caller's version of the
 * structures. */
static bool read_contract(struct arguments *c, struct diag *d)
{
    limber_contract *k = &c->contract;
    const limber_contract *from = c->problem.contract;

    if (!limber_contract_in(k, &c->unit, from, d))
        return false;
    c->statistics_to = k->statistics;
    if (k->statistics) {
        if (!limber_sized_in(&c->statistics, sizeof c->statistics, k->statistics, LEAST_statistics,
                             "contract.statistics", d))
            return false;
        k->statistics = &c->statistics;
    }
    c->problem.contract = k;
    return true;
}

/* Copies the structures that a problem points to, in the caller's version, and points to the
 * copies. */
static bool read_structures(struct arguments *c, struct diag *d)
{
    limber_problem *p = &c->problem;

    if (p->conv) {
        if (!limber_sized_in(&c->conv, sizeof c->conv, p->conv, LEAST_conv, "conv", d))
            return false;
        p->conv = &c->conv;
    }
    if (p->batch) {
        if (!limber_sized_in(&c->batch, sizeof c->batch, p->batch, LEAST_batch, "batch", d))
            return false;
        p->batch = &c->batch;
    }
    if (p->queue) {
        if (!limber_sized_in(&c->queue, sizeof c->queue, p->queue, LEAST_queue, "queue", d))
            return false;
        p->queue = &c->queue;
    }
    return true;
}

static bool read_problem(struct arguments *c, const limber_problem *problem, struct diag *d)
{
    if (!problem)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "problem is NULL");
    return limber_sized_in(&c->problem, sizeof c->problem, problem, LEAST_problem, "problem", d) &&
           read_contract(c, d) && read_structures(c, d);
}

/* ---- which combinations are allowed ---------------------------------------------------------- */

/* Refuses fields that a matrix product does not have. */
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

/* Checks which features of a problem combine. */
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
    return p->operation == LIMBER_OPERATION_GEMM ? check_gemm(p, d) : check_conv(p, d);
}

/* Plans, workspaces and cuts exist for real problems only. */
static bool check_real(const limber_problem *p, const char *verb, struct diag *d)
{
    return p->domain == LIMBER_DOMAIN_REAL ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "problem.domain: %s serves real matrices",
                       verb);
}

static bool check_single(const limber_problem *p, const char *verb, struct diag *d)
{
    return !p->batch ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "problem.batch: %s serves one product", verb);
}

/* ---- what can be done with a problem --------------------------------------------------------- */

/* Copies a call's report to the caller's, if that is wanted. */
static void report_out(const limber_context *ctx, limber_report *to, struct report *r,
                       const limber_problem *p)
{
    if (!to)
        return;
    r->recomputed_share = 0;
    if (r->recomputed_seconds > 0)
        r->recomputed_share = fmin(
            r->recomputed_seconds / (r->seconds_run * limber_pool_runner(ctx->pool).workers), 1);
    r->order = limber_order(p->contract);
    limber_report_out(to, r);
}

/* Runs a product without epilogue: a convolution, a complex or a real one. */
static bool run_product(limber_context *ctx, const limber_problem *p, struct report *r,
                        struct diag *d)
{
    struct problem x;

    if (p->operation != LIMBER_OPERATION_GEMM)
        return limber_conv_run(ctx, p, r, d);
    if (p->domain == LIMBER_DOMAIN_COMPLEX)
        return limber_complex_run(ctx, p, r, d);
    return limber_gemm_state(ctx, p, true, &x, d) && limber_engine_run(ctx, &x, r, d);
}

/* Runs a problem, with its epilogue if it has one. */
static bool run_problem(limber_context *ctx, const limber_problem *p, struct report *r,
                        struct diag *d)
{
    struct epilogue_call e;

    if (!p->epilogue)
        return run_product(ctx, p, r, d);
    return limber_epilogue_read(ctx, &e, p, true, d) &&
           limber_epilogue_run(ctx, &e, r, run_product, d);
}

static bool state_problem(limber_context *ctx, const limber_problem *p, struct problem *x,
                          struct diag *d)
{
    return p->operation == LIMBER_OPERATION_GEMM ? limber_gemm_state(ctx, p, false, x, d) :
                                                   limber_conv_state_main(ctx, p, x, d);
}

/* Replaces p by the product before its epilogue, which is read into *e; for calls that compute
 * nothing. */
static bool strip_epilogue(limber_context *ctx, limber_problem *p, struct epilogue_call *e,
                           struct diag *d)
{
    e->c.format.size = 0;
    if (!p->epilogue)
        return true;
    if (!limber_epilogue_read(ctx, e, p, false, d))
        return false;
    *p = e->product;
    return true;
}

limber_status limber_run_as(const char *name, limber_context *ctx, const limber_problem *problem,
                            limber_report *report)
{
    struct arguments c;
    struct diag d = { 0 };
    struct report r;
    void *widened[2] = { NULL };

    if (limber_report_check(report, &d) && read_problem(&c, problem, &d) &&
        check_problem(ctx, &c.problem, &d) && limber_widen(ctx, &c.problem, widened, &d) &&
        run_problem(ctx, &c.problem, report ? &r : NULL, &d)) {
        report_out(ctx, report, &r, &c.problem);
        if (c.statistics_to)
            limber_sized_out(c.statistics_to, &c.statistics, sizeof c.statistics);
    }
    limber_widen_end(ctx, widened);
    if (d.status)
        limber_fail_in(&d, name);
    return limber_error_set(&d);
}

limber_status limber_run(limber_context *ctx, const limber_problem *problem, limber_report *report)
{
    if (limber_run_at_once(ctx, problem, report))
        return LIMBER_STATUS_OK;
    CALL_SCOPE;
    return limber_run_as("run", ctx, problem, report);
}

limber_status limber_plan(limber_context *ctx, const limber_problem *problem, char **text,
                          limber_report *report)
{
    CALL_SCOPE;
    struct arguments c;
    struct diag d = { 0 };
    struct text out = { 0 };
    struct cut cut = { 0 };
    void *widened[2] = { NULL };
    struct report r = { 0 };
    struct epilogue_call e;
    struct problem x;

    if (!text)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "text is NULL");
    else if (limber_report_check(report, &d) && read_problem(&c, problem, &d) &&
             check_problem(ctx, &c.problem, &d) && check_real(&c.problem, "limber_plan", &d) &&
             check_single(&c.problem, "limber_plan", &d) &&
             limber_widen(ctx, &c.problem, widened, &d) &&
             strip_epilogue(ctx, &c.problem, &e, &d) && state_problem(ctx, &c.problem, &x, &d)) {
        if (!limber_engine_plan(ctx, &x, &out, x.shape ? NULL : &cut, report ? &r : NULL, &d))
            limber_text_clear(&out);
        else
            report_out(ctx, report, &r, &c.problem);
        if (out.s && e.c.format.size)
            limber_epilogue_text(&e, &out);
        limber_cut_clear(&cut);
    }
    limber_widen_end(ctx, widened);
    if (text)
        *text = out.s;
    if (d.status)
        limber_fail_in(&d, "plan");
    return limber_error_set(&d);
}

limber_status limber_explain(limber_context *ctx, const limber_problem *problem, limber_cut *cut,
                             limber_report *report)
{
    CALL_SCOPE;
    struct arguments c;
    struct diag d = { 0 };
    struct cut found = { 0 }, none = { 0 };
    void *widened[2] = { NULL };
    struct report r = { 0 };
    struct epilogue_call e;
    struct problem x;

    if (!cut)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "cut is NULL");
    else if (limber_cut_check(cut, &d))
        limber_cut_out(cut, &none, &d);
    if (!d.status && limber_report_check(report, &d) && read_problem(&c, problem, &d) &&
        check_problem(ctx, &c.problem, &d) && check_real(&c.problem, "limber_explain", &d) &&
        check_single(&c.problem, "limber_explain", &d) &&
        limber_widen(ctx, &c.problem, widened, &d) && strip_epilogue(ctx, &c.problem, &e, &d)) {
        if (c.problem.operation != LIMBER_OPERATION_GEMM)
            refuse("operation", "limber_explain serves GEMMs", &d);
        else if (state_problem(ctx, &c.problem, &x, &d) &&
                 limber_engine_plan(ctx, &x, NULL, &found, report ? &r : NULL, &d) &&
                 limber_cut_out(cut, &found, &d))
            report_out(ctx, report, &r, &c.problem);
    }
    limber_cut_clear(&found);
    limber_widen_end(ctx, widened);
    if (d.status)
        limber_fail_in(&d, "explain");
    return limber_error_set(&d);
}

limber_status limber_workspace(limber_context *ctx, const limber_problem *problem, size_t *least,
                               size_t *best)
{
    CALL_SCOPE;
    struct arguments c;
    struct diag d = { 0 };
    struct epilogue_call e;
    struct problem x;
    void *widened[2] = { NULL };

    if (!least || !best)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", least ? "best" : "least");
    else if (read_problem(&c, problem, &d) && check_problem(ctx, &c.problem, &d) &&
             check_real(&c.problem, "limber_workspace", &d) &&
             limber_widen(ctx, &c.problem, widened, &d) &&
             strip_epilogue(ctx, &c.problem, &e, &d)) {
        bool batch = c.problem.batch && c.problem.batch->count > 1;

        if (!ctx->machine.backend->takes_groups)
            c.problem.batch = NULL;
        if (c.problem.operation != LIMBER_OPERATION_GEMM)
            limber_conv_workspace(ctx, &c.problem, least, best, &d);
        else if (limber_gemm_state(ctx, &c.problem, false, &x, &d))
            limber_engine_workspace(ctx, &x, batch, least, best, &d);
    }
    limber_widen_end(ctx, widened);
    if (d.status)
        limber_fail_in(&d, "workspace");
    return limber_error_set(&d);
}

/* ---- calls for one operation ----------------------------------------------------------------- */

limber_status limber_gemm(limber_context *ctx, const limber_contract *contract, int64_t m,
                          int64_t n, int64_t k, const void *alpha, limber_matrix a, limber_matrix b,
                          const void *beta, limber_output c, limber_report *report)
{
    limber_problem p;

    if (limber_gemm_at_once(
            ctx, &(struct gemm_arguments){ contract, m, n, k, &a, &b, &c, alpha, beta }, report))
        return LIMBER_STATUS_OK;
    CALL_SCOPE;
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

/* The problem of one of the three convolution calls. */
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
