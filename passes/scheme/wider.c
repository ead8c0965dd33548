/* SPDX-License-Identifier: BSD-3-Clause
 * Scheme `wider`: sums of operands of at most binary32, in chains of binary64.  The error of these
 * sums leaves the rounding of few elements uncertain; these elements are recomputed exactly. */
#include "passes/scheme/scheme_split.h"

#include <math.h>

/* Returns log2 of the error of a sum of k <= 2^kbits products in chains of c = 256 that are added
 * in order, relative to the product of the norms of the row and the column: (c + ceil(k/c) - 1) u
 * (docs/accuracy.md, "Native chains"), plus an eighth because the norms are rounded. */
int limber_chain_error(int kbits)
{
    double k = ldexp(1, kbits), n = fmin(k, NATIVE_CHAIN) + ceil(k / NATIVE_CHAIN) - 1;

    return (int)ceil(log2(n * 1.125)) - 53;
}

/* True if the operands fit into binary32 and the result is a float of at most 24 bits. */
static bool has_suitable_formats(const struct stated_gemm *s)
{
    return limber_format_embeds(s->fa, LIMBER_F32) && limber_format_embeds(s->fb, LIMBER_F32) &&
           s->result.kind == LIMBER_KIND_FLOAT && limber_format_sig(s->result) <= 24;
}

/* Adds a node that converts the operand to binary64, unchanged in value, as the only limb. */
static int add_whole(struct plan *p, int operand)
{
    struct type t = p->node[operand].type;

    t.format = LIMBER_F64;
    return limber_plan_add(p, OP_whole, NULL, operand, -1, t);
}

/* Scheme `wider`: sums operands of at most binary32 in binary64.  Elements that the error of
 * these sums does not allow to round with certainty, which are few, are recomputed exactly. */
bool limber_split_wider(struct plan *p, const struct scheme *scheme, const struct target *t,
                        struct diag *d)
{
    struct row row = { .share = INFINITY };
    struct stated_gemm s;
    int uncertain = limber_chain_error(p->kbits), a, b;

    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    if (p->promise != LIMBER_CONTRACT_CORRECT && p->promise != LIMBER_CONTRACT_BITS)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "it serves correct and bits only");
    if (limber_is_device(t))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "it is for CPUs");
    if (!has_suitable_formats(&s))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "operands do not embed in f32, or the result is no float of at most "
                           "24 bits");
    if (uncertain > MOST_CHAIN_ERROR) {
        d->by_class = CLASS_OF_k;
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "k up to 2^%d is too long", p->kbits);
    }
    a = add_whole(p, s.a);
    b = add_whole(p, s.b);
    if (!limber_split_finish(p, &s,
                             &(const struct product_table){ .a = a,
                                                            .b = b,
                                                            .unit = scheme->unit,
                                                            .chunk = NATIVE_CHAIN,
                                                            .row = &row,
                                                            .rows = 1,
                                                            .accumulators = 1,
                                                            .reconstruct = RECONSTRUCT_sum },
                             d))
        return false;
    if (p->promise == LIMBER_CONTRACT_CORRECT || ldexp(1, uncertain) > p->budget)
        limber_node_set(limber_plan_find(p, OP_combine), ATTR_uncertain, uncertain);
    return true;
}
