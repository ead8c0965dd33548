/* SPDX-License-Identifier: BSD-3-Clause
 * Compares the product table of a finished plan with the square of all pairs of limbs: which pairs
 * are missing, and whether each row counts what its limbs count.
 *
 *   proof   docs/accuracy.md, "What pruning costs" */
#include "ir/num/prim_num.h"
#include "passes/limbs.h"
#include "passes/scheme.h"

#include <math.h>
#include <stdlib.h>

/* The nodes of a plan, after the passes, on which its product table depends. */
struct table_nodes {
    const struct plan *p;
    const struct node *products, *combine, *limbs[2], *mask[2];
    int64_t reconstruct;
};

/* True if what a scan found of the operand shows that this limb of all its elements is zero. */
static bool is_zero_limb(const struct plan *p, int limbs, int limb)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);

    if (!limber_node_has(mask, ATTR_sig))
        return false;
    return limber_is_zero_operand(mask) ||
           (n->op == OP_hilo && limber_attr_number(mask, ATTR_sig) <=
                                    (int64_t)limber_format_sig(n->type.format) * limb);
}

/* Returns true if the product of limbs a and b changes no result: scans show that one of them is
 * zero, or all bits of the product are above those of an integer that wraps. */
bool limber_row_is_free(const struct plan *p, const struct node *table, int a, int b, int weight)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);

    return is_zero_limb(p, table->in[0], a) || is_zero_limb(p, table->in[1], b) ||
           (limber_attr_number(limber_plan_find(p, OP_combine), ATTR_reconstruct) ==
                RECONSTRUCT_shift &&
            limber_num_is_int(out->type.format) && limber_attr_number(out, ATTR_wrap) == 1 &&
            limber_attr_number(out, ATTR_alpha) == ALPHA_one &&
            weight > limber_format_sig(out->type.format));
}

/* Returns true if cutting this operand (side 0: A, 1: B) to fewer bits changes no result, because
 * the combine node's attribute `uncertain` covers the cut: elements whose rounding it leaves
 * uncertain are recomputed exactly. */
bool limber_covers_cut(const struct plan *p, int side)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    bool pairs = false;

    if (!limber_node_has(combine, ATTR_uncertain) ||
        limber_attr_number(combine, ATTR_reconstruct) != RECONSTRUCT_crt ||
        limber_limb_width(p, products->in[side]) == INT64_MAX)
        return false;
    for (int i = 0; i < 2; i++)
        pairs |= limber_source(p, products->in[i])->type.format.kind == LIMBER_KIND_DD;
    /* cutting one operand to fewer bits changes a sum by less than k 2^bits, where bits is that
     * of the other operand */
    return limber_attr_number(&p->node[products->in[!side]], ATTR_bits) + p->kbits + 2 + pairs <=
           limber_attr_number(combine, ATTR_uncertain);
}

/* ---- rows that are missing ------------------------------------------------------------------- */

/* Returns the error, relative to |A||B|, if the table lacks the product of limbs a and b; infinity
 * if it must not lack it. */
static double loss_of(const struct table_nodes *f, int a, int b)
{
    int64_t reach;

    if (limber_row_is_free(f->p, f->products, a, b,
                           limber_limb_weight(f->limbs[0], a) + limber_limb_weight(f->limbs[1], b)))
        return 0;
    /* only products of residues modulo one and the same modulus are needed */
    if (f->reconstruct == RECONSTRUCT_crt)
        return a == b ? INFINITY : 0;
    if (a + b == 0)
        return INFINITY;
    reach = limber_limb_reach(f->p, f->products->in[0], a) +
            limber_limb_reach(f->p, f->products->in[1], b);
    return ldexp(1, reach > 2000 ? 2000 : reach < -2000 ? -2000 : (int)reach);
}

/* Checks that the products of limbs that are not in the table lose no more than plan.dropped.
 * Otherwise the error names the product whose loss is largest. */
static bool check_missing(const struct table_nodes *f, struct diag *d)
{
    int na = f->limbs[0]->type.count, nb = f->limbs[1]->type.count, at[2] = { 0 };
    unsigned char *has = calloc((size_t)na * (size_t)nb, 1);
    double lost = 0, most = 0;

    if (!has)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "bound: out of memory");
    for (size_t i = 0; i < f->products->rows; i++)
        has[f->products->row[i].a * nb + f->products->row[i].b] = 1;
    for (int a = 0; a < na; a++)
        for (int b = 0; b < nb; b++) {
            double loss = has[a * nb + b] ? 0 : loss_of(f, a, b);

            lost += loss;
            if (loss > most) {
                most = loss;
                at[0] = a;
                at[1] = b;
            }
        }
    free(has);
    /* `dropped` was summed in another order, and rounded up at each step */
    return lost <= f->p->dropped * (1 + 0x1p-30) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "%%%s: without the row %%%s.%d %%%s.%d an element moves by up to "
                       "%.3g |A||B|; dropped=%.3g allows for less",
                       f->products->name, f->limbs[0]->name, at[0], f->limbs[1]->name, at[1], most,
                       f->p->dropped);
}

/* ---- what rows and accumulators count -------------------------------------------------------- */

/* Checks that the weight of each row is the product of the weights of its limbs. */
static bool check_weights(const struct table_nodes *f, struct diag *d)
{
    for (size_t i = 0; i < f->products->rows; i++) {
        const struct row *r = &f->products->row[i];
        int weight = limber_limb_weight(f->limbs[0], r->a) + limber_limb_weight(f->limbs[1], r->b);

        if (r->weight != weight)
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                               "%%%s: row %%%s.%d %%%s.%d counts 2^%d, its limbs count 2^%d",
                               f->products->name, f->limbs[0]->name, r->a, f->limbs[1]->name, r->b,
                               r->weight, weight);
    }
    return true;
}

/* Checks that both operands have limbs that this way of reconstruction combines, and that floats
 * are combined in the format in which they are summed. */
static bool check_kinds(const struct table_nodes *f, struct diag *d)
{
    enum op want = f->reconstruct == RECONSTRUCT_crt   ? OP_residues :
                   f->reconstruct == RECONSTRUCT_shift ? OP_slices :
                                                         OP_count;
    limber_format sum;

    for (int i = 0; i < 2; i++)
        if (want == OP_count ? f->limbs[i]->op == OP_slices || f->limbs[i]->op == OP_residues :
                               f->limbs[i]->op != want)
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s does not combine %s (%%%s)",
                               f->combine->name, limber_ops[f->limbs[i]->op].name,
                               f->limbs[i]->name);
    limber_format_named(limber_units[limber_attr_number(f->products, ATTR_unit)].acc, &sum);
    return f->reconstruct != RECONSTRUCT_sum || f->p->model ||
           f->combine->type.format.kind == LIMBER_KIND_EXACT ||
           limber_format_equal(f->combine->type.format, LIMBER_F64) ||
           (f->products->type.count == 1 && limber_format_equal(f->combine->type.format, sum)) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s: its sums are not of this format",
                       f->combine->name);
}

/* Returns the largest magnitude of a slice.  The top slice has the bits of the scaled integer
 * that are left above the other slices; it can be larger by one if the integer is rounded or
 * negative. */
static double largest_slice(const struct node *n, int i)
{
    int64_t step = limber_attr_number(n, ATTR_step),
            top = limber_attr_number(n, ATTR_bits) - step * (n->type.count - 1);
    int64_t bits = step - (limber_attr_number(n, ATTR_sign) == SIGN_balanced);

    return i == 0 && top < bits ? ldexp(1, (int)top) + 1 : ldexp(1, (int)bits);
}

/* Returns log2 of the largest sum that one element along k adds to an accumulator of slices, which
 * has 64 bits; 0 for other limbs. */
double limber_total_bits(const struct plan *p)
{
    const struct node *n = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    double most = 1;

    if (!n || !combine || limber_attr_number(combine, ATTR_reconstruct) != RECONSTRUCT_shift)
        return 0;
    for (int acc = 0; acc < n->type.count; acc++) {
        double sum = 0;

        for (size_t i = 0; i < n->rows; i++)
            if (n->row[i].acc == acc)
                sum += largest_slice(&p->node[n->in[0]], n->row[i].a) *
                       largest_slice(&p->node[n->in[1]], n->row[i].b);
        most = sum > most ? sum : most;
    }
    return log2(most);
}

/* Checks that the product of the moduli exceeds every sum. */
static bool check_moduli(const struct table_nodes *f, struct diag *d)
{
    const struct dims_list *moduli = limber_attr_list(f->combine, ATTR_moduli);
    double need = f->p->kbits, have = 0;

    if (f->reconstruct != RECONSTRUCT_crt)
        return true;
    for (int i = 0; i < 2; i++)
        need += (double)limber_attr_number(f->limbs[i], ATTR_bits);
    for (size_t i = 0; i < moduli->n; i++)
        have += log2((double)moduli->v[i]);
    /* 1 for the sign; the margin is explained in passes/scheme/ozaki2.c, where logarithms are
     * summed in another order */
    return have >= need + 1 + 0x1p-16 - 0x1p-36 ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s: moduli hold %.1f bits, sums need %.1f",
                       f->combine->name, have, need + 1);
}

/* Checks that the attribute `uncertain` covers the error of a sum in binary64. */
static bool check_uncertain(const struct table_nodes *f, struct diag *d)
{
    if (!limber_node_has(f->combine, ATTR_uncertain) || f->reconstruct != RECONSTRUCT_sum)
        return true;
    return (limber_attr_number(f->products, ATTR_chunk) == NATIVE_CHAIN &&
            limber_plan_order(f->p, f->products->in[1]) == ORDER_crs &&
            limber_attr_number(f->combine, ATTR_uncertain) >= limber_chain_error(f->p->kbits)) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "%%%s: uncertain=%d does not cover chains of k up to 2^%d", f->combine->name,
                       (int)limber_attr_number(f->combine, ATTR_uncertain), f->p->kbits);
}

/* Checks that the plan's head has no budget above the promise's, and that results wrap only if
 * they are sums of integers without scales. */
static bool check_promise(const struct table_nodes *f, struct diag *d)
{
    const struct plan *p = f->p;
    const struct node *out = limber_plan_find(p, OP_epilogue);
    double most = p->promise == LIMBER_CONTRACT_BITS ? ldexp(1, -p->bits) : 0;
    bool wraps = p->promise == LIMBER_CONTRACT_NATIVE || p->promise == LIMBER_CONTRACT_FAST;

    for (int i = 0; i < 2; i++)
        wraps = wraps &&
                (limber_is_integer(f->mask[i]->type.format) ||
                 limber_num_is_int(f->mask[i]->type.format)) &&
                limber_attr_number(f->limbs[i], ATTR_axis) == AXIS_none;
    if ((p->promise == LIMBER_CONTRACT_BITS || p->promise == LIMBER_CONTRACT_CORRECT ||
         p->promise == LIMBER_CONTRACT_EXACT) &&
        p->budget > most)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "budget=%.3g, the promise allows %.3g",
                           p->budget, most);
    return wraps || !limber_attr_number(out, ATTR_wrap) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "%%%s: wrap=1 is for native sums of integers that are not scaled",
                       out->name);
}

/* Checks that the plan's product table and combine node give the product of the operands that its
 * limbs represent, up to the error of missing rows.  Returns false with an error if not. */
bool limber_table_check(const struct plan *p, struct diag *d)
{
    struct table_nodes f = { .p = p,
                             .products = limber_plan_find(p, OP_products),
                             .combine = limber_plan_find(p, OP_combine) };

    if (!f.products || !f.combine || !limber_plan_find(p, OP_epilogue))
        return true;
    f.reconstruct = limber_attr_number(f.combine, ATTR_reconstruct);
    for (int i = 0; i < 2; i++) {
        f.limbs[i] = &p->node[f.products->in[i]];
        f.mask[i] = limber_source(p, f.products->in[i]);
    }
    if (!(p->dropped >= 0))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "dropped: not a number from 0 on");
    if (!check_promise(&f, d) || !check_kinds(&f, d))
        return false;
    if (limber_is_zero_operand(f.mask[0]) || limber_is_zero_operand(f.mask[1]))
        return true; /* nothing can be lost */
    return limber_limbs_check(p, 0, d) && limber_limbs_check(p, 1, d) && check_weights(&f, d) &&
           check_missing(&f, d) && check_moduli(&f, d) && check_uncertain(&f, d);
}
