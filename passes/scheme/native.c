/* SPDX-License-Identifier: BSD-3-Clause
 * Schemes `native` and `cublas`: one product on a unit whose format holds both operands.
 *
 *   needs   operands whose values are values of binary32 or binary64, and a float result that has
 *           no more bits
 *   leaves  one row.  Its chains have 256 products, so that the error of a sum of k terms grows
 *           like k/256 + 256; or 128 products if parts of the product need some of the
 *           contract's roundings
 *   proof   docs/accuracy.md, "Native chains" */
#include "passes/scheme/scheme_split.h"

/* Picks the smallest unit that holds both operands and has the result's precision.  False if the
 * machine has no such unit.  For reproducible sums it must be the smallest of all units, even if
 * the machine has only a larger one. */
static bool pick_unit(const struct plan *p, const struct stated_gemm *s, const struct target *t,
                      enum unit *unit)
{
    static const enum unit order[] = { UNIT_f32, UNIT_f64 };

    for (size_t i = 0; i < COUNT(order); i++) {
        limber_format f;

        limber_format_named(limber_units[order[i]].in, &f);
        if ((t->rate[order[i]] > 0 || p->promise == LIMBER_CONTRACT_REPRODUCIBLE) &&
            limber_format_embeds(s->fa, f) && limber_format_embeds(s->fb, f) &&
            limber_format_sig(s->result) <= limber_format_sig(f)) {
            *unit = order[i];
            return t->rate[order[i]] > 0;
        }
    }
    return false;
}

/* Scheme native: one product in a format of the hardware that holds operands and result. */
bool limber_split_native(struct plan *p, const struct scheme *scheme, const struct target *t,
                         struct diag *d)
{
    struct row row = { .share = __builtin_inf() };
    struct stated_gemm s;
    enum unit unit;
    struct type ta, tb;
    int a, b;

    (void)scheme;
    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    if (s.result.kind != LIMBER_KIND_FLOAT && s.result.kind != LIMBER_KIND_POSIT)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result is no float");
    if (!pick_unit(p, &s, t, &unit))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "no unit of %s holds operands and result",
                           t->backend);
    ta = p->node[s.a].type;
    tb = p->node[s.b].type;
    limber_format_named(limber_units[unit].in, &ta.format);
    tb.format = ta.format;
    a = limber_plan_add(p, OP_whole, NULL, s.a, -1, ta);
    b = limber_plan_add(p, OP_whole, NULL, s.b, -1, tb);
    return limber_split_finish(
        p, &s,
        &(const struct product_table){ .a = a,
                                       .b = b,
                                       .unit = unit,
                                       .chunk = p->roundings ? NATIVE_CHAIN / 2 : NATIVE_CHAIN,
                                       .row = &row,
                                       .rows = 1,
                                       .accumulators = 1,
                                       .reconstruct = RECONSTRUCT_sum },
        d);
}

/* Scheme of products that cuBLAS computes: native, with sums in any order. */
bool limber_split_cublas(struct plan *p, const struct scheme *scheme, const struct target *t,
                         struct diag *d)
{
    struct node *products;
    struct stated_gemm s;
    int bits;

    if (!limber_target_has(t, "cublas"))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%s has no cuBLAS at hand", t->backend);
    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    if (!limber_format_equal(s.fa, s.fb) || !limber_format_equal(s.fa, s.result) ||
        !limber_format_is_binary(s.fa))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "operands and result are not all f32, or all f64");
    if (!limber_split_native(p, scheme, t, d))
        return false;
    products = limber_plan_find(p, OP_products);
    /* a multiple of the steps of any kernel */
    bits = p->kbits < 8 ? 8 : p->kbits > 40 ? 40 : p->kbits;
    limber_node_set(products, ATTR_chunk, (int64_t)1 << bits);
    limber_node_set(products, ATTR_sums, SUMS_any);
    return true;
}
