/* SPDX-License-Identifier: BSD-3-Clause
 * The table of operations that all backends support, and the check of a plan against it. */
#include "backends/served.h"

#define R LIMBER_READS
#define W LIMBER_WORD
static const struct served common = {
    .op = {
        LIMBER_SERVES(arg, R(index) | R(emin) | R(emax) | R(spread) | R(width) | R(sig) | R(sign) |
                               R(special) | R(reach)),
        LIMBER_SERVES(patches,
                      R(stride) | R(pad) | R(dilate) | R(groups) | R(layout) | R(direction)),
        LIMBER_SERVES(filters, R(groups) | R(layout) | R(direction)),
        LIMBER_SERVES(image, R(groups) | R(layout) | R(direction)),
        LIMBER_SERVES(whole, 0),
        LIMBER_SERVES(hilo, R(axis) | R(top) | R(shift)),
        LIMBER_SERVES(slices, R(axis) | R(bits) | R(step) | R(sign)),
        LIMBER_SERVES(residues, R(axis) | R(bits) | R(moduli) | R(sign)),
        LIMBER_SERVES(quantize, R(axis)),
        LIMBER_SERVES(products, R(unit) | R(chunk) | R(tile)),
        LIMBER_SERVES(combine, R(reconstruct) | R(moduli)),
        LIMBER_SERVES(epilogue, R(alpha) | R(beta) | R(wrap) | R(integral)),
    },
    .words = {
        [ATTR_layout] = W(LAYOUT_nchw) | W(LAYOUT_nhwc),
        [ATTR_direction] = W(DIRECTION_forward) | W(DIRECTION_data) | W(DIRECTION_filter),
        [ATTR_order] = W(ORDER_crs),
        [ATTR_axis] = W(AXIS_none) | W(AXIS_row) | W(AXIS_col),
        [ATTR_reconstruct] = W(RECONSTRUCT_sum) | W(RECONSTRUCT_shift) | W(RECONSTRUCT_crt),
        [ATTR_sign] = W(SIGN_signed) | W(SIGN_unsigned) | W(SIGN_balanced),
        [ATTR_unit] = W(UNIT_f64) | W(UNIT_f32) | W(UNIT_f16) | W(UNIT_bf16) | W(UNIT_tf32) |
                      W(UNIT_e4m3) | W(UNIT_e5m2) | W(UNIT_i8) | W(UNIT_exact) | W(UNIT_model),
        [ATTR_sums] = W(SUMS_fma),
        [ATTR_alpha] = W(ALPHA_one) | W(ALPHA_arg),
        [ATTR_beta] = W(BETA_zero) | W(BETA_arg),
    },
};
#undef R
#undef W

/* Checks that the backend supports a node's operation, formats, attributes and attribute words.
 * Returns false with an error if not. */
static bool check_node(const struct served *more, const struct node *n, struct diag *d)
{
    if (!common.op[n->op].served && !more->op[n->op].served)
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "%s: %%%s: operation %s is not served",
                           more->backend, n->name, limber_ops[n->op].name);
    if (!more->float_limbs &&
        ((n->op == OP_residues && n->type.format.kind == LIMBER_KIND_FLOAT) ||
         (n->op == OP_slices && limber_format_equal(n->type.format, LIMBER_E4M3))))
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "%s: %%%s: %s in %s are not served",
                           more->backend, n->name, limber_ops[n->op].name,
                           limber_format_name(n->type.format, (char[48]){ 0 }, 48));
    for (int a = 0; a < ATTR_count; a++) {
        const struct attr_info *info = &limber_attrs[a];
        const char *word;
        int length;

        if (!limber_node_has(n, (enum attr)a))
            continue;
        if (!((common.op[n->op].attrs | more->op[n->op].attrs) >> a & 1))
            return limber_fail(d, LIMBER_STATUS_INTERNAL, "%s: %%%s: attribute %s is not served",
                               more->backend, n->name, info->name);
        if (info->kind != ATTR_WORD ||
            (common.words[a] | more->words[a]) >> limber_attr_number(n, (enum attr)a) & 1)
            continue;
        word = limber_word_at(info->words, limber_attr_number(n, (enum attr)a), &length);
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "%s: %%%s: %s=%.*s is not served",
                           more->backend, n->name, info->name, length, word ? word : "");
    }
    return true;
}

/* Checks that a backend supports all of a plan. */
bool limber_plan_served(const struct plan *p, const struct served *more, struct diag *d)
{
    const struct node *products = limber_plan_find(p, OP_products);

    if (p->model && !more->all_doubles && limber_format_equal(p->model->acc.format, LIMBER_F64) &&
        products && limber_attr_number(products, ATTR_unit) == UNIT_model)
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "%s: of units in f64 only chains of FMAs are served", more->backend);
    for (size_t i = 0; i < p->nodes; i++)
        if (!check_node(more, &p->node[i], d))
            return false;
    return true;
}
