/* SPDX-License-Identifier: BSD-3-Clause
 * limber_interval_gemm: the public call for products of intervals, with its argument checks. */
#include "jit/operators/interval.h"

#include "jit/api/api.h"
#include "jit/device.h"

/* Checks the format of operands, of which f64 must hold every value. */
static bool check_operand_format(const limber_matrix *m, const char *what, struct diag *d)
{
    char name[32];

    return limber_format_embeds(m->format, LIMBER_F64) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: f64 does not hold all values of %s",
                       what, limber_format_name(m->format, name, sizeof name));
}

/* Checks the upper bounds of an operand, if it has any. */
static bool check_upper(const limber_matrix *high, const char *what, int64_t rows, int64_t cols,
                        struct diag *d)
{
    return !high->data ||
           (limber_check_matrix(high, what, rows, cols, d) && check_operand_format(high, what, d));
}

/* Checks the format of C, and that its upper bounds overlap no other matrix.  limber_gemm_state
 * checks the lower bounds against A's and B's. */
static bool check_result(const limber_interval_call *x, struct diag *d)
{
    const limber_matrix low = limber_as_matrix(x->c_low), high = limber_as_matrix(x->c_high);
    const struct extent c[] = { { &low, "c_low", x->m, x->n }, { &high, "c_high", x->m, x->n } };
    const struct extent read[] = { { &x->a_low, "a_low", x->m, x->k },
                                   { &x->b_low, "b_low", x->k, x->n },
                                   { &x->a_high, "a_high", x->m, x->k },
                                   { &x->b_high, "b_high", x->k, x->n } };

    if (!limber_format_is_binary(low.format) || !limber_format_equal(low.format, high.format))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "c_low, c_high: bounds are both in f64, or both in f32");
    for (int i = 0; i < 2; i++) {
        if (!limber_check_matrix(c[i].m, c[i].what, x->m, x->n, d) ||
            !limber_check_data(c[i].m, c[i].what, x->m, x->n, d) ||
            !limber_check_distinct(c[i].m, c[i].what, x->m, x->n, d))
            return false;
        for (size_t j = 0; j < COUNT(read); j++)
            if (read[j].m->data && !limber_check_apart(c[i], read[j], d))
                return false;
    }
    return limber_check_apart(c[1], c[0], d);
}

static bool check_call(limber_context *ctx, const limber_interval_call *x, struct diag *d)
{
    const void *const all[] = { x->a_low.data,  x->a_high.data, x->b_low.data,
                                x->b_high.data, x->c_low.data,  x->c_high.data };

    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    if (!limber_check_sizes(x->m, x->n, x->k, d) ||
        !limber_check_matrix(&x->a_low, "a_low", x->m, x->k, d) ||
        !limber_check_matrix(&x->b_low, "b_low", x->k, x->n, d) ||
        !check_operand_format(&x->a_low, "a_low", d) ||
        !check_operand_format(&x->b_low, "b_low", d) ||
        !limber_check_data(&x->a_low, "a_low", x->m, x->k, d) ||
        !limber_check_data(&x->b_low, "b_low", x->k, x->n, d) ||
        !check_upper(&x->a_high, "a_high", x->m, x->k, d) ||
        !check_upper(&x->b_high, "b_high", x->k, x->n, d) || !check_result(x, d))
        return false;
    for (size_t i = 0; i < COUNT(all); i++)
        if (limber_device_holds(ctx, all[i]))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "matrices lie in host memory");
    return limber_interval_check(&x->a_low, &x->a_high, "a", x->m, x->k, d) &&
           limber_interval_check(&x->b_low, &x->b_high, "b", x->k, x->n, d);
}

/* Computes a checked call. */
static bool run(limber_context *ctx, const limber_interval_call *x, struct report *r,
                struct diag *d)
{
    limber_contract correct = { .size = sizeof correct, .promise = LIMBER_CONTRACT_CORRECT };
    limber_problem p = LIMBER_PROBLEM_INIT;
    struct problem points;

    p.contract = &correct;
    p.m = x->m;
    p.n = x->n;
    p.k = x->k;
    p.a = x->a_low;
    p.b = x->b_low;
    p.c = x->c_low;
    return limber_gemm_state(ctx, &p, true, &points, d) &&
           limber_interval_run(ctx, x, &points, r, d);
}

limber_status limber_interval_gemm(limber_context *ctx, const limber_interval_call *call,
                                   limber_report *report)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    limber_interval_call x;
    struct report r;

    if (!call)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "call is NULL");
    else if (limber_copy_sized_in(&x, sizeof x, call, sizeof x, "call", &d) &&
             limber_report_check(report, &d) && check_call(ctx, &x, &d) &&
             run(ctx, &x, report ? &r : NULL, &d) && report) {
        r.recomputed_share = 0;
        r.order = 0;
        limber_report_out(report, &r);
    }
    if (d.status)
        limber_fail_in(&d, "interval_gemm");
    return limber_error_set(&d);
}
