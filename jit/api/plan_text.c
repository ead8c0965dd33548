/* SPDX-License-Identifier: BSD-3-Clause
 * Texts of plans: the plan after each pass, and the source of its kernel, for any target. */
#include "jit/api/api.h"
#include "passes/passes.h"

#include <string.h>

/* Sets *t to the target that a text describes or names; NULL: this machine. */
static bool read_target(const limber_context *ctx, const char *text, struct target *t,
                        struct diag *d)
{
    *t = ctx->machine.target;
    for (int i = 0; text && limber_backends[i]; i++) {
        const struct code_ops *code = limber_backends[i]->code;

        if (code && code->named(t, text))
            return true;
    }
    if (text && !limber_target_parse(t, text, d)) {
        limber_fail_in(d, "target");
        return false;
    }
    limber_target_complete(t);
    return true;
}

/* Reads the caller's plan.  If that fails, the error's place is "plan". */
static bool read_plan(struct plan *p, const char *text, struct diag *d)
{
    if (limber_plan_read(p, text, d))
        return true;
    limber_fail_in(d, "plan");
    return false;
}

/* Runs passes on a plan's text and prints the plan after each. names: comma-separated passes, or
 * NULL for all.  False on failure. */
static bool run_passes_on_text(limber_context *ctx, const char *text, const char *names,
                               const char *target, struct text *out, struct diag *d)
{
    struct trace trace = { .out = out };
    struct plan plan = { 0 };
    struct target t;
    bool ok = read_target(ctx, target, &t, d) && read_plan(&plan, text, d) &&
              limber_passes_traced(&plan, &t, names, &trace, d);

    limber_trace_clear(&trace);
    limber_plan_clear(&plan);
    if (ok && out->failed)
        ok = limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the plan's text");
    return ok;
}

/* Prints the source of a plan's kernel for a target. */
static bool print_source(limber_context *ctx, const char *text, const char *target,
                         struct text *out, struct diag *d)
{
    const struct backend *b;
    struct plan plan = { 0 };
    struct target t;
    bool ok = read_target(ctx, target, &t, d) && read_plan(&plan, text, d) &&
              limber_passes_run(&plan, &t, limber_passes_of(&plan), (struct pass_watch){ 0 }, d);

    b = ok ? limber_backend_named(t.backend) : NULL;
    ok = ok &&
         ((b && b->code) ||
          limber_fail(d, LIMBER_STATUS_NO_SCHEME, "target: backend %s makes no code", t.backend)) &&
         b->code->source(&plan, &t, out, d);
    limber_plan_clear(&plan);
    return ok &&
           (!out->failed || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the source"));
}

/* Runs the passes in `names`, or all if it is NULL, on a plan in text form.  *text: the plan
 * after each pass that changed it; NULL on failure. */
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
    else if (!run_passes_on_text(ctx, plan, names, target, &out, &d))
        limber_text_clear(&out);
    if (text)
        *text = out.s;
    if (d.status)
        limber_fail_in(&d, "plan_text");
    return limber_error_set(&d);
}

/* Runs the passes on a plan for a target and prints the source of its kernel: C with the kernel's
 * constants, or CUDA C. */
limber_status limber_plan_source(limber_context *ctx, const char *plan, const char *target,
                                 char **source)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    struct text out = { 0 };

    if (!ctx || !plan || !source)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL",
                    !ctx  ? "ctx" :
                    !plan ? "plan" :
                            "source");
    else if (!print_source(ctx, plan, target, &out, &d))
        limber_text_clear(&out);
    if (source)
        *source = out.s;
    if (d.status)
        limber_fail_in(&d, "plan_source");
    return limber_error_set(&d);
}
