/* SPDX-License-Identifier: BSD-3-Clause
 * Schemes `tensor-*`: one product on tensor cores whose format holds both operands.
 *
 *   needs   operands whose values are values of the unit's format, and a float result of at most 24
 *           bits
 *   leaves  one row; its chains have 64 products (128 if elements are bytes), and each chain's sum
 *           is added to a total in binary32
 *   proof   docs/accuracy.md, "Tensor cores" */
#include "passes/scheme/scheme_split.h"

/* Schemes of one product on tensor cores, whose formats hold the operands exactly. */
bool limber_split_tensor(struct plan *p, const struct scheme *scheme, const struct target *t,
                         struct diag *d)
{
    struct row row = { .share = __builtin_inf() };
    struct type ta, tb;
    struct stated_gemm s;
    int a, b;

    if (!t->sums[0])
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%s has no tensor cores", t->backend);
    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    ta = p->node[s.a].type;
    tb = p->node[s.b].type;
    limber_format_named(limber_units[scheme->unit].in, &ta.format);
    tb.format = ta.format;
    if (!limber_format_embeds(s.fa, ta.format) || !limber_format_embeds(s.fb, tb.format))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "an operand does not embed in %s",
                           limber_units[scheme->unit].in);
    if (s.result.kind != LIMBER_KIND_FLOAT || limber_format_sig(s.result) > 24)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result is no float of at most 24 bits");
    a = limber_plan_add(p, OP_whole, NULL, s.a, -1, ta);
    b = limber_plan_add(p, OP_whole, NULL, s.b, -1, tb);
    return limber_split_finish(
               p, &s,
               &(const struct product_table){ .a = a,
                                              .b = b,
                                              .unit = scheme->unit,
                                              .chunk = ta.format.size == 1 ? 128 : 64,
                                              .row = &row,
                                              .rows = 1,
                                              .accumulators = 1,
                                              .reconstruct = RECONSTRUCT_sum },
               d) &&
           limber_split_sums(p, t, d);
}
