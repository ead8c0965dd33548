/* SPDX-License-Identifier: BSD-3-Clause
 * Schemes `simulate` and `tensor-mx`: one product on the unit that the plan's model describes.
 *
 *   needs   operands whose values are values of binary64, and a float result
 *   leaves  operands as the unit loads them, and one row on unit `model`.  A model that is a chain
 *           of binary64 FMAs runs on the CPU's own unit, unless rounding errors are counted.  For
 *           `tensor-mx` the products get the attribute `sums` of the instructions that the model
 *           describes
 *   source  docs/simulation.md */
#include "passes/scheme/scheme_split.h"

/* Adds the node that loads an operand as the unit does: OP_whole if the unit is a chain of FMAs
 * (chain) that loads FP64 numbers unchanged, else OP_quantize, which rounds and applies block
 * scales along `axis`.  Returns the node's index, negative if memory runs out. */
static int add_loaded_operand(struct plan *p, bool chain, int operand, int axis)
{
    struct type t = p->node[operand].type;
    const limber_step *s = axis == AXIS_row ? &p->model->a : &p->model->b;
    const enum op op = chain && limber_format_equal(s->format, LIMBER_F64) ? OP_whole : OP_quantize;
    int n;

    t.format = limber_format_equal(p->model->acc.format, LIMBER_F64) ? LIMBER_F64 : LIMBER_F32;
    n = limber_plan_add(p, op, NULL, operand, -1, t);
    if (n >= 0 && op == OP_quantize)
        limber_node_set(&p->node[n], ATTR_axis, axis);
    return n;
}

/* Scheme simulate: computes as the unit of the plan's model does. */
bool limber_split_simulate(struct plan *p, const struct scheme *scheme, const struct target *t,
                           struct diag *d)
{
    struct row row = { .share = __builtin_inf() };
    struct stated_gemm s;
    bool chain;
    int a, b;

    (void)t;
    if (!p->model)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "no unit is described");
    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    if (!limber_format_embeds(s.fa, LIMBER_F64) || !limber_format_embeds(s.fb, LIMBER_F64))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "an operand does not embed in f64");
    if (s.result.kind != LIMBER_KIND_FLOAT && s.result.kind != LIMBER_KIND_DD &&
        s.result.kind != LIMBER_KIND_POSIT)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result is no float");
    chain = limber_unit_is_chain(p->model) && !p->counts;
    a = add_loaded_operand(p, chain, s.a, AXIS_row);
    b = a < 0 ? -1 : add_loaded_operand(p, chain, s.b, AXIS_col);
    return limber_split_finish(p, &s,
                               &(const struct product_table){
                                   .a = a,
                                   .b = b,
                                   .unit = chain ? UNIT_f64 : scheme->unit,
                                   .chunk = chain && p->model->group ? p->model->group : WHOLE_K,
                                   .row = &row,
                                   .rows = 1,
                                   .accumulators = 1,
                                   .reconstruct = RECONSTRUCT_sum },
                               d);
}

/* Computes a simulated block-scaled unit by the GPU's own instructions. */
bool limber_split_block_scaled(struct plan *p, const struct scheme *scheme, const struct target *t,
                               struct diag *d)
{
    if (!limber_target_has(t, "mx"))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%s has no block-scaled instructions on %s",
                           t->backend, t->isa);
    if (!p->model || !limber_unit_block_scaled(p->model))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "the unit is none of b200-mx..., b200-mxfp4 and b200-nvfp4");
    if (p->counts)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "instructions count nothing: statistics are of the scheme simulate");
    if (!limber_split_simulate(p, scheme, t, d))
        return false;
    limber_node_set(limber_plan_find(p, OP_products), ATTR_sums, SUMS_b200);
    return true;
}
