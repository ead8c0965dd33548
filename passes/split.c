/* SPDX-License-Identifier: BSD-3-Clause
 * The pass `split`: replaces operands by limbs and a product table, by the scheme that `choose`
 * named.
 *
 *   needs   a gemm that is not split yet, and plan.scheme
 *   leaves  no gemm, but limbs, products and a combine */
#include "passes/passes.h"
#include "passes/scheme.h"

/* The pass `split`: replaces the plan's gemm by limbs, products and their combination, as the
 * scheme that the plan names does.  Does nothing if there is no gemm. */
bool limber_pass_split(struct plan *p, const struct target *t, struct diag *d)
{
    const struct scheme *s = p->scheme ? limber_scheme_find(p->scheme) : NULL;

    if (!limber_plan_find(p, OP_gemm))
        return true;
    if (!s)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "split: no scheme is called \"%s\"",
                           p->scheme ? p->scheme : "");
    return s->split(p, s, t, d);
}
