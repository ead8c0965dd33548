/* SPDX-License-Identifier: BSD-3-Clause
 * limber_plan_text: runs passes on the text of a plan and prints what they change. */
#include "jit/api/api.h"

/* Runs passes over a plan's text and prints each stage. names: the passes, or NULL for all. */
static bool replay(limber_context *ctx, const char *text, const char *names, const char *target,
                   struct text *out, struct diag *d)
{
    struct trace trace = { .out = out };
    struct target t = ctx->machine.target;
    struct plan plan = { 0 };
    bool ok;

    if (target && !limber_target_parse(&t, target, d)) {
        limber_fail_in(d, "target");
        return false;
    }
    limber_target_complete(&t);
    ok = limber_plan_parse(&plan, text, d) && limber_plan_verify(&plan, d);
    if (!ok)
        limber_fail_in(d, "plan");
    ok = ok && limber_passes_traced(&plan, &t, names, &trace, d);
    limber_trace_clear(&trace);
    limber_plan_clear(&plan);
    if (ok && out->failed)
        ok = limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the plan's text");
    return ok;
}

limber_status limber_plan_text(limber_context *ctx, const char *plan, const char *names,
                               const char *target, char **text)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    struct text out = { 0 };

    if (!ctx || !plan || !text)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL",
                    !ctx  ? "ctx" :
                    !plan ? "plan" :
                            "text");
    else if (!replay(ctx, plan, names, target, &out, &d))
        limber_text_clear(&out);
    if (text)
        *text = out.s;
    if (d.status)
        limber_fail_in(&d, "plan_text");
    return limber_error_set(&d);
}
