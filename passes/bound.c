/* SPDX-License-Identifier: BSD-3-Clause
 * The a-priori error bound of the rows that are left; a plan that misses its contract is refused.
 *
 *   needs   limbs, a product table and a combine, operands with masks where limbs are inexact
 *   leaves  plan.spent at the largest k, compared with the budget for every k of the class
 *   proof   docs/accuracy.md, by scheme in sections 3 to 9 and 12 */
#include "passes/contract.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>

/* Error of one element's limbs relative to the element; infinity if it is not known. */
static double representation_error(const struct plan *p, int limbs)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);
    bool dd = mask->type.format.kind == LIMBER_KIND_DD;
    bool all = limber_node_has(n, ATTR_axis) && limber_num(n, ATTR_axis) == AXIS_all;
    int64_t spread = all ? limber_num(mask, ATTR_emax) - limber_num(mask, ATTR_emin) :
                           limber_num(mask, ATTR_spread);
    int64_t width = all ? limber_width_of_all(mask) : limber_num(mask, ATTR_width);

    switch (n->op) {
    case OP_hilo:
        if (n->type.count > 2 || limber_num(mask, ATTR_sig) <= 22)
            return 0;
        return 0x1p-23;
    case OP_slices:
    case OP_residues:
        if (limber_num(n, ATTR_axis) == AXIS_none ||
            (limber_node_has(mask, ATTR_width) && limber_num(n, ATTR_bits) >= width))
            return 0;
        if (!limber_node_has(mask, ATTR_spread))
            return INFINITY;
        return ldexp(1 + dd, (int)(spread + 1 - limber_num(n, ATTR_bits)));
    default: return 0;
    }
}

/* Binades by which an element's stored exponent may exceed that of its value: subnormals, in limbs
 * that are the operand's own elements. */
static int subnormal_binades(const struct plan *p, int limbs)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);
    int normal = 1 - n->type.format.bias;
    int64_t least = limber_format_emin(mask->type.format);

    if (limber_node_has(mask, ATTR_emin) && limber_num(mask, ATTR_emin) > least)
        least = limber_num(mask, ATTR_emin);   /* rounded to a class: may be below the format */
    return n->op == OP_whole && least < normal ? (int)(normal - least) : 0;
}

/* Error of sums on tensor cores.  Every instruction aligns its products and the sum so far to the
 * largest exponent, cuts them to frac bits below it, and cuts the sum to its format.  The first
 * accumulator is promoted after every chunk.  The others' sums are smaller by a limb's bits.
 * length: k with its padding. */
static double tensor_sum_error(const struct plan *p, const struct node *products,
                               const limber_unit *u, double k, double length)
{
    int below_a = subnormal_binades(p, products->in[0]),
        below_b = subnormal_binades(p, products->in[1]);
    enum unit unit = (enum unit)limber_num(products, ATTR_unit);
    double chunk = fmin(length, (double)limber_num(products, ATTR_chunk)), others = 0, cut, n;
    double smaller = unit == UNIT_bf16 ? 0x1p-6 : 0x1p-9;

    cut = ldexp(fmin(k, u->block) + 1, (below_a > below_b ? below_a : below_b) - u->frac) +
          ldexp(1, -u->acc.format.frac_bits);
    n = ceil(chunk / u->block) * cut + ceil(length / chunk) * 0x1p-24;
    for (size_t i = 0; i < products->rows; i++)
        others += products->row[i].acc > 0;
    n += others * ceil(length / u->block) * cut * others * smaller;
    if (n >= 0.5)
        return INFINITY;
    return n / (1 - n) * (1 + 0x1p-6) + products->type.count * 0x1p-52;
}

/* Error of unscaled operands out of the accumulator's range, relative to the smallest products.
 * Infinity if a sum may overflow.  Each addition to a subnormal sum errs by half of the smallest
 * subnormal. */
static double range_error(const struct plan *p, const struct node *products, double k)
{
    const struct unit_info *unit = &limber_units[limber_num(products, ATTR_unit)];
    int64_t low = 0, high = 0;
    bool integers = true; /* integers have no subnormal sums */
    limber_format acc;

    limber_format_named(unit->acc, &acc);
    for (int i = 0; i < 2; i++) {
        const struct node *limbs = &p->node[products->in[i]],
                          *mask = limber_source(p, products->in[i]);
        bool known = limber_node_has(mask, ATTR_emin);

        if (limbs->op != OP_whole)
            return 0;
        integers = integers && limber_is_integer(mask->type.format);
        if (known && limber_num(mask, ATTR_width) == 0)
            return 0;
        low += known ? limber_num(mask, ATTR_emin) : limber_format_emin(mask->type.format);
        high += known ? limber_num(mask, ATTR_emax) : limber_format_emax(mask->type.format);
    }
    if ((double)high + 2 + log2(k) > limber_format_emax(acc) + 1)
        return INFINITY;
    return integers ? 0 : ldexp(k, (int)(limber_format_emin(acc) - 1 - low));
}

/* Error of a chain of n products, to which `others` further sums are added.  If u times the number
 * of additions is too large for the bound all / (1 - all), the chain alone has a denominator:
 * docs/accuracy.md, "Native chains". */
static double chain_error(double n, double others, double u)
{
    double all = (n + others) * u, chain = n * u / (1 - n * u);

    if (all < 0.5)
        return all / (1 - all);
    return n * u < 0.5 ? chain + others * u * (1 + chain) : INFINITY;
}

/* Error of rounding chains and totals in float accumulators, and of adding them up.  Padded
 * channels of a convolution add exact zeros, but may double the number of chains. */
static double sum_error(const struct plan *p, const struct node *products,
                        const struct node *combine, double k)
{
    const struct unit_info *unit = &limber_units[limber_num(products, ATTR_unit)];
    double chunk = (double)limber_num(products, ATTR_chunk), n, u, length;
    limber_unit model;
    limber_format acc;

    if (limber_num(combine, ATTR_reconstruct) != RECONSTRUCT_sum || unit->exact_bits == 0 ||
        k == 0 || limber_node_has(combine, ATTR_uncertain))
        return 0;
    length = limber_plan_order(p, products->in[1]) == ORDER_rsc ? 2 * k : k;
    if (limber_unit_of_sums(products, &model))
        return tensor_sum_error(p, products, &model, k, length);
    limber_format_named(unit->acc, &acc);
    u = limber_format_roundoff(acc);
    n = chain_error(fmin(k, chunk), ceil(length / chunk) * limber_most_rows(products) - 1, u);
    if (p->promise == LIMBER_CONTRACT_BITS) /* native grants the errors of its format's range */
        n += range_error(p, products, k);
    return products->rows > 1 ? n * (1 + 0x1p-6) + products->type.count * 0x1p-52 : n;
}

double limber_spent(const struct plan *p, double k)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    const struct node *out = limber_plan_find(p, OP_epilogue);
    double a, b, sum;

    if (!products || !combine || !out)
        return INFINITY;
    a = representation_error(p, products->in[0]);
    b = representation_error(p, products->in[1]);
    if (limber_node_has(combine, ATTR_uncertain)) /* uncertain elements are summed again, exactly */
        a = b = 0;
    /* an exact operand's error of 0 times infinity counts as 0 */
    sum = a + b + (a > 0 && b > 0 ? a * b : 0) + p->dropped + sum_error(p, products, combine, k);
    /* Native's bound includes the final rounding, except that of posits, whose precision varies.
     * The other promises grant it in addition. */
    if (limber_errs_natively(p->promise) && out->type.format.kind != LIMBER_KIND_POSIT &&
        !limber_format_equal(combine->type.format, out->type.format))
        sum += limber_format_roundoff(out->type.format) * (1 + 0x1p-6);
    return sum;
}

static double result_roundoff(const struct plan *p)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);

    return out ? limber_format_roundoff(out->type.format) : 0;
}

double limber_budget(const struct plan *p, double k)
{
    double u = result_roundoff(p);

    if (limber_errs_natively(p->promise) && u > 0)
        return (k + 2 - p->roundings) * u;
    return p->budget;
}

enum { POINTS = 6 };

/* Values of k from least to most between which budget - spent has no minimum: both are linear
 * there, or grow by equal steps (blocks in a chunk) of which the first and the last are listed.
 * Padding may double k. */
static void critical_ks(const struct plan *p, double least, double most, double at[POINTS])
{
    const struct node *products = limber_plan_find(p, OP_products);
    double chunk = products ? (double)limber_num(products, ATTR_chunk) : 1, block = 1, each = 1;
    limber_unit model;

    if (products && limber_unit_of_sums(products, &model))
        block = model.block;
    if (products && limber_plan_order(p, products->in[1]) == ORDER_rsc)
        each = 2;
    at[0] = least;
    at[1] = ceil((ceil(each * least / block) * block + 1) / each);
    at[2] = ceil((chunk - block + 1) / each);
    at[3] = ceil(chunk / each);
    at[4] = ceil((chunk + 1) / each);
    at[5] = most;
    for (int i = 0; i < POINTS; i++)
        at[i] = fmin(fmax(at[i], least), most);
}

/* The smallest budget - spent over all k of the plan's class; *k is where. */
static double smallest_slack(const struct plan *p, double *k)
{
    double u = result_roundoff(p), most = ldexp(1, p->kbits), least = most, at[POINTS],
           slack = INFINITY;

    *k = most;
    if (limber_errs_natively(p->promise) && u > 0)
        least = fmax(p->budget / u - 2 + p->roundings, 1);
    critical_ks(p, least, most, at);
    for (int i = 0; i < POINTS; i++) {
        double s = limber_budget(p, at[i]) - limber_spent(p, at[i]);

        if (!(s >= slack)) {
            slack = s;
            *k = at[i];
        }
    }
    return slack;
}

double limber_slack(const struct plan *p)
{
    double k;

    return smallest_slack(p, &k);
}

bool limber_pass_bound(struct plan *p, const struct target *t, struct diag *d)
{
    double k = 1, slack;

    (void)t;
    if (p->model) { /* a simulated unit defines the result, whatever its error */
        p->spent = INFINITY;
        return true;
    }
    slack = smallest_slack(p, &k);
    p->spent = limber_spent(p, ldexp(1, p->kbits));
    if (p->promise == LIMBER_CONTRACT_FAST || slack >= 0)
        return true;
    return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "its bound %.9g |A||B| exceeds the contract's %.9g at k = %.0f; a plan "
                       "serves every k up to %.0f",
                       limber_spent(p, k), limber_budget(p, k), k, ldexp(1, p->kbits));
}
