/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a call by trying the code paths (ways) in their order, and logs it. */
#include "ir/num/prim_num.h"
#include "jit/ways.h"

#include <string.h>

/* Logs one line about a call.  The line begins with a command that repeats the call.  A product
 * with sided results, which may be rounded in several directions, is repeated by one that rounds
 * up. */
void limber_call_log(const limber_context *ctx, const struct problem *p, const struct report *r)
{
    static const char *const from[] = { "compiled", "disk", "hit", "interpreter", "library" };
    struct text t = { 0 };
    char a[16], b[16], c[16], promise[16];
    const limber_format base = limber_num_base(p->fc);
    const limber_conv *s = p->shape;

    if (s)
        limber_text_add(&t, "limber conv n=%lld c=%lld h=%lld w=%lld o=%lld r=%lld s=%lld",
                        (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w,
                        (long long)s->o, (long long)s->r, (long long)s->s);
    if (s && s->t)
        limber_text_add(&t, " d=%lld t=%lld", (long long)s->d, (long long)s->t);
    if (!s)
        limber_text_add(&t, "limber gemm m=%lld n=%lld k=%lld", (long long)p->m, (long long)p->n,
                        (long long)p->k);
    limber_text_add(&t, " a=%s b=%s c=%s contract=%s%s", limber_format_name(p->fa, a, sizeof a),
                    limber_format_name(p->fb, b, sizeof b), limber_format_name(base, c, sizeof c),
                    limber_promise_name(&p->contract, promise, sizeof promise),
                    p->fc.kind == LIMBER_KIND_SIDED ? ",round=up" : "");
    if (!s && p->groups != 1)
        limber_text_add(&t, "  # %lld products:", (long long)p->groups);
    else
        limber_text_add(&t, "  #");
    limber_text_add(&t, " %s", r->scheme);
    if (r->parts > 1) {
        limber_text_add(&t, ":");
        limber_parts_shares(&t, r);
        limber_text_add(&t, "; %d parts", r->parts);
    }
    limber_text_add(&t, " %s:%s %d limb product%s %s %s %.3g ms", r->backend,
                    strcmp(r->backend, ctx->machine.backend->name) ? ctx->spare.target.isa :
                                                                     ctx->machine.target.isa,
                    r->rows, r->rows == 1 ? "" : "s", limber_way_name(r->way), from[r->from],
                    1e3 * (r->seconds_scan + r->seconds_compile + r->seconds_run));
    if (r->recomputed > 0)
        limber_text_add(&t, ", %lld elements recomputed in %.3g ms", (long long)r->recomputed,
                        1e3 * r->recomputed_seconds);
    if (!t.failed)
        ctx->tells.log(ctx->tells.log_user, t.s);
    limber_text_clear(&t);
}

/* Tries the code paths (ways) in their order until one computes the problem. */
static inline bool run_ways(limber_context *ctx, const struct problem *p, struct accepted *accepted,
                            struct report *r, struct diag *d)
{
    struct attempt x; /* the code paths that use the other fields set them */

    x.ctx = ctx;
    x.p = p;
    x.accepted = accepted;
    x.r = r;
    x.d = d;
    return limber_ways_run(&x);
}

/* Runs a call with a report.  Not inlined, so that only calls with a report pay for clearing
 * one. */
static __attribute__((noinline)) bool run_reported(limber_context *ctx, const struct problem *p,
                                                   struct accepted *accepted, struct report *report,
                                                   struct diag *d)
{
    struct report r;

    limber_report_clear(&r);
    if (p->m > 0 && p->n > 0 && p->groups > 0) {
        if (!run_ways(ctx, p, accepted, &r, d))
            return false;
        if (ctx->tells.verbose > 0)
            limber_call_log(ctx, p, &r);
    }
    if (report)
        limber_report_copy(report, &r);
    return true;
}

/* Runs a call without filling a simulated unit's statistics. */
bool limber_engine_run_accepted(limber_context *ctx, const struct problem *p,
                                struct accepted *accepted, struct report *report, struct diag *d)
{
    if (p->contract.scheme && !limber_check_small(ctx, p, d))
        return false;
    if (report || ctx->tells.verbose > 0)
        return run_reported(ctx, p, accepted, report, d);
    return p->m == 0 || p->n == 0 || p->groups == 0 || run_ways(ctx, p, accepted, NULL, d);
}

/* Computes a problem without looking for an equal earlier call. */
bool limber_engine_run_plain(limber_context *ctx, const struct problem *p, struct report *report,
                             struct diag *d)
{
    return limber_engine_run_accepted(ctx, p, NULL, report, d);
}
