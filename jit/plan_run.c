/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a plan that the caller gives as text, after checking that the call's operands are those that
 * the plan is for: formats, sizes, the geometry of a convolution, and the data's masks. */
#include "jit/engine.h"
#include "passes/contract.h"
#include "passes/limbs.h"
#include "passes/passes.h"

#include <math.h>
#include <string.h>

/* A call and the plan that is to compute it. */
struct planned_call {
    limber_context *ctx;
    const struct plan *plan;
    const struct problem *p;
    struct report *r;
};

/* Reports why the caller's plan cannot run, and returns false. */
static bool refuse(const char *what, const char *why, struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %s", what, why);
}

/* Returns the plan's node `arg` of the left (side 0) or right factor.  A convolution's left
 * factor is its operand 1, the filters. */
static const struct node *arg_of(const struct planned_call *x, int side)
{
    int index = x->p->shape ? !side : side;

    for (size_t i = 0; i < x->plan->nodes; i++)
        if (x->plan->node[i].op == OP_arg &&
            limber_attr_number(&x->plan->node[i], ATTR_index) == index)
            return &x->plan->node[i];
    return NULL;
}

/* Returns the name of a factor in the caller's problem. */
static const char *name_of(const struct planned_call *x, int side)
{
    return (side == 0) == (x->p->shape == NULL) ? "a" : "b";
}

/* Checks that an operand has the format that the plan's node states. */
static bool check_format(const char *what, limber_format have, const struct node *n, struct diag *d)
{
    char mine[48], plans[48];

    return limber_format_equal(have, n->type.format) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: is %s, the plan's %%%.48s is %s", what,
                       limber_format_name(have, mine, sizeof mine), n->name,
                       limber_format_name(n->type.format, plans, sizeof plans));
}

/* Checks one dimension of a plan's value: a number must be the call's size, and equal letters must
 * be equal sizes. */
static bool check_dim(const struct node *n, int i, int64_t size, int64_t letters[128],
                      struct diag *d)
{
    int64_t dim = n->type.dim[i], want = dim < 0 ? letters[-dim] : dim;

    if (dim < 0 && want < 0)
        want = letters[-dim] = size;
    return want == size || limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                                       "the plan's %%%.48s has %lld in dimension %d, the call %lld",
                                       n->name, (long long)want, i, (long long)size);
}

/* Checks that the sizes of a product are the plan's dimensions, and that its k is not above the
 * plan's. */
static bool check_sizes(const struct planned_call *x, const struct node *out, struct diag *d)
{
    const struct node *a = arg_of(x, 0), *b = arg_of(x, 1);
    int64_t letters[128];

    if (x->p->k > (int64_t)1 << x->plan->kbits)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "k = %lld: kbits=%d, so the plan serves k up to %lld",
                           (long long)x->p->k, x->plan->kbits, 1LL << x->plan->kbits);
    if (x->p->k > 0 && log2((double)x->p->k) + limber_total_bits(x->plan) > 63)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "k = %lld: totals of the plan's slices need more than 64 bits",
                           (long long)x->p->k);
    for (size_t i = 0; i < COUNT(letters); i++)
        letters[i] = -1;
    if (!x->p->shape)
        return check_dim(a, 0, x->p->m, letters, d) && check_dim(a, 1, x->p->k, letters, d) &&
               check_dim(b, 0, x->p->k, letters, d) && check_dim(b, 1, x->p->n, letters, d) &&
               check_dim(out, 0, x->p->m, letters, d) && check_dim(out, 1, x->p->n, letters, d);
    for (int i = 0; i < a->type.rank; i++)
        if (a->type.dim[i] >= 0 || b->type.dim[i] >= 0)
            return refuse("plan", "sizes of a convolution are letters", d);
    return true;
}

/* Checks that a convolution's geometry is the plan's; a GEMM's plan has none. */
static bool check_geometry(const struct planned_call *x, struct diag *d)
{
    const struct node *n = limber_conv_node(x->plan);
    struct conv_geometry plans, calls = x->p->conv.geometry;

    if ((n != NULL) != (x->p->shape != NULL))
        return refuse("operation", n ? "the plan is of a convolution" : "the plan is of a GEMM", d);
    if (!n)
        return true;
    limber_conv_read(n, &plans);
    plans.order = calls.order;
    return memcmp(&plans, &calls, sizeof plans) == 0 ||
           refuse("conv", "stride, pad, dilate, groups, layout or direction are not the plan's", d);
}

/* Checks that alpha and beta are given only if the plan has them. */
static bool check_scalars(const struct planned_call *x, const struct node *out, struct diag *d)
{
    if (x->p->alpha && !limber_attr_number(out, ATTR_alpha))
        return refuse("alpha", "the plan has alpha=one", d);
    return !x->p->beta || limber_attr_number(out, ATTR_beta) ||
           refuse("beta", "the plan has beta=zero", d);
}

/* Checks everything but the data. */
static bool check_call(const struct planned_call *x, struct diag *d)
{
    const struct node *out = limber_plan_find(x->plan, OP_epilogue);

    if (!out || !arg_of(x, 0) || !arg_of(x, 1))
        return refuse("plan", "it multiplies no two operands", d);
    return check_geometry(x, d) && check_format(name_of(x, 0), x->p->fa, arg_of(x, 0), d) &&
           check_format(name_of(x, 1), x->p->fb, arg_of(x, 1), d) &&
           check_format("c", x->p->fc, out, d) && check_sizes(x, out, d) &&
           check_scalars(x, out, d);
}

/* Checks that the data is no wider (exponents, bits, signs, special values) than the plan's
 * operand states. m: what a scan found in the data. */
static bool check_mask(const struct planned_call *x, int side, const struct mask *m, struct diag *d)
{
    const struct node *n = arg_of(x, side);
    const struct {
        enum attr attr;
        int64_t is;
    } least[] = { { ATTR_emax, m->emax },
                  { ATTR_spread, m->spread },
                  { ATTR_width, m->width },
                  { ATTR_sig, m->sig },
                  { ATTR_reach, (int64_t)m->emax - limber_mask_low(m) + 1 } };

    if (!limber_node_has(n, ATTR_emin))
        return true;
    if (m->special && !limber_attr_number(n, ATTR_special))
        return refuse(name_of(x, side), "has NaN or infinities, the plan has special=0", d);
    if (m->zero)
        return true;
    if (m->negative && limber_attr_number(n, ATTR_sign) == SIGN_unsigned)
        return refuse(name_of(x, side), "has negative numbers, the plan has sign=unsigned", d);
    if (m->emin < limber_attr_number(n, ATTR_emin))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: has emin=%d, the plan emin=%lld",
                           name_of(x, side), m->emin, (long long)limber_attr_number(n, ATTR_emin));
    for (size_t i = 0; i < COUNT(least); i++)
        if (limber_node_has(n, least[i].attr) && least[i].is > limber_attr_number(n, least[i].attr))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: has %s=%lld, the plan %s=%lld",
                               name_of(x, side), limber_attrs[least[i].attr].name,
                               (long long)least[i].is, limber_attrs[least[i].attr].name,
                               (long long)limber_attr_number(n, least[i].attr));
    return true;
}

/* Checks that the plan keeps its contract for a k below its class, for which `native` allows less
 * error than the plan's text. */
static bool check_small_k(const struct planned_call *x, struct diag *d)
{
    struct plan p = { 0 };
    bool ok;

    if (!limber_errs_natively(x->plan->promise) || x->p->k == 0 ||
        (double)x->p->k >= limber_smallest_k(x->plan))
        return true;
    ok = limber_plan_copy(&p, x->plan) ||
         limber_fail(d, LIMBER_STATUS_NO_MEMORY, "plan: out of memory");
    ok = ok &&
         limber_passes_run(&p, &x->ctx->machine.target, limber_passes_of(&p),
                           (struct pass_watch){ NULL, NULL }, d) &&
         limber_check_bound(&p, (double)x->p->k, d);
    limber_plan_clear(&p);
    if (!ok)
        limber_fail_in(d, "plan");
    return ok;
}

/* Makes the plan's kernel, on the context's machine or, if its backend does not support the
 * plan, on the spare one. */
static bool make_kernel(const struct planned_call *x, struct entry *e, struct diag *d)
{
    struct compile_inputs m = { .ctx = x->ctx,
                                .machine = &x->ctx->machine,
                                .stated = x->p->given->text };
    struct diag why = { 0 };

    if (limber_make_kernel(&m, e, &why))
        return true;
    if (why.status == LIMBER_STATUS_INTERNAL && x->ctx->spare.backend) {
        m.machine = &x->ctx->spare;
        why = (struct diag){ 0 };
        *e = (struct entry){ .kernel = NULL };
        if (limber_make_kernel(&m, e, &why))
            return true;
    }
    return limber_fail(d,
                       why.status == LIMBER_STATUS_INTERNAL ? LIMBER_STATUS_NO_SCHEME : why.status,
                       "plan: %s", why.text);
}

/* Computes the call, on a large enough stack. */
static bool run_here(void *arg, struct diag *d)
{
    const struct planned_call *x = arg;
    struct scan_result f = { 0 };
    struct entry e = { .kernel = NULL };
    struct step step = { .p = x->p, .f = &f, .e = &e, .report = x->r, .finish = x->p->finish };
    double start = limber_now();
    bool ok;

    if (!check_call(x, d) ||
        (limber_simulates(&x->p->contract) && !limber_simulate_check(x->p, d)) ||
        !check_small_k(x, d) || !make_kernel(x, &e, d))
        return false;
    if (x->p->m == 0 || x->p->n == 0 || x->p->groups == 0) {
        limber_entry_clear(&e);
        return true;
    }
    ok = limber_scan_masks(x->ctx, &f, x->p, d) && check_mask(x, 0, &f.all_a, d) &&
         check_mask(x, 1, &f.all_b, d);
    if (ok && x->r) {
        limber_report_facts(x->r, x->ctx, e.backend, x->p, &e.facts);
        x->r->from = e.from;
        x->r->seconds_compile = e.seconds;
        x->r->seconds_scan = limber_now() - start - e.seconds;
        x->r->order = limber_order(&x->p->contract);
        start = limber_now();
    }
    ok = ok && limber_launch(x->ctx, &step, 1, x->p, d);
    if (ok && x->r)
        x->r->seconds_run = limber_now() - start;
    limber_scan_result_clear(&f, x->p->groups);
    limber_entry_clear(&e);
    return ok;
}

/* Computes a call by the caller's plan, and logs it. */
bool limber_engine_run_plan(limber_context *ctx, const struct problem *p, struct report *r,
                            struct diag *d)
{
    const bool logs = ctx->tells.verbose > 0;
    struct report own;
    struct planned_call x = { ctx, p->given->plan, p, r ? r : logs ? &own : NULL };

    if (x.r)
        limber_report_clear(x.r);
    if (!limber_with_stack(STACK_run, run_here, &x, d))
        return false;
    if (logs)
        limber_call_log(ctx, p, x.r);
    return true;
}
