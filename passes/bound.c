/* SPDX-License-Identifier: BSD-3-Clause
 * The pass `bound`: computes an a-priori error bound from the remaining rows of the product table,
 * and refuses a plan that misses its contract.
 *
 *   needs   limbs, a product table and a combine; masks of the operands whose limbs are inexact
 *   leaves  plan.spent: the bound at the largest k.  The bound is compared with the budget for
 *           every k of the plan's class.  What the table leaves out is computed from its rows
 *           (passes/table.c), since a plan from a text may state less in `dropped`
 *   proof   docs/accuracy.md, by scheme in sections 3 to 9 and 12 */
#include "passes/contract.h"
#include "passes/limbs.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <stdio.h>

/* Returns by how many powers of two the stored exponent of an element may exceed the exponent of
 * its value.  Only subnormals have such a difference, in limbs that are the operand's own elements
 * (OP_whole); for other limbs returns 0. */
static int subnormal_binades(const struct plan *p, int limbs)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);
    int normal = 1 - n->type.format.bias;
    int64_t least = limber_format_emin(mask->type.format);

    if (limber_node_has(mask, ATTR_emin) && limber_attr_number(mask, ATTR_emin) > least)
        /* scanned exponents are rounded down to a class, which may be below the format's
         * smallest exponent */
        least = limber_attr_number(mask, ATTR_emin);
    return n->op == OP_whole && least < normal ? (int)(normal - least) : 0;
}

/* Returns the error of sums on tensor cores, relative to |A||B|.  Each instruction aligns its
 * products and the running sum to the largest exponent, truncates them to u->frac bits below that
 * exponent, and truncates the sum to the accumulator's format.  Accumulator 0 is added to an FP32
 * total after every chunk.  The sums of the other accumulators are smaller by the bits of one limb;
 * they run through all of k or, with `joins`, through a chunk.  Returns infinity unless accumulator
 * 0 sums the products of the highest limbs, and nothing else.  length: k with its padding. */
static double tensor_sum_error(const struct plan *p, const struct node *products,
                               const limber_unit *u, double k, double length)
{
    int below_a = subnormal_binades(p, products->in[0]),
        below_b = subnormal_binades(p, products->in[1]);
    enum unit unit = (enum unit)limber_attr_number(products, ATTR_unit);
    double chunk = fmin(length, (double)limber_attr_number(products, ATTR_chunk)), others = 0, cut,
           n;
    double smaller = unit == UNIT_bf16 ? 0x1p-6 : 0x1p-9;
    const bool joins = limber_node_has(products, ATTR_joins);

    cut = ldexp(fmin(k, u->block) + 1, (below_a > below_b ? below_a : below_b) - u->frac) +
          ldexp(1, -u->acc.format.frac_bits);
    n = ceil(chunk / u->block) * cut +
        ceil(length / chunk) * (joins ? products->type.count : 1) * 0x1p-24;
    for (size_t i = 0; i < products->rows; i++) {
        bool high = products->row[i].a + products->row[i].b == 0;

        others += products->row[i].acc > 0;
        /* otherwise sums of the other accumulators may be as large as that of accumulator 0 */
        if (high != (products->row[i].acc == 0))
            return INFINITY;
    }
    n += others * ceil((joins ? chunk : length) / u->block) * cut * others * smaller;
    if (n >= 0.5)
        return INFINITY;
    return n / (1 - n) * (1 + 0x1p-6) + products->type.count * 0x1p-52;
}

/* Returns the error of sums that underflow in an accumulator whose operands are not scaled,
 * relative to the smallest products.  Each addition to a subnormal sum errs by half of the smallest
 * subnormal.  Infinity if a sum may overflow. */
static double range_error(const struct plan *p, const struct node *products, double k)
{
    const struct unit_info *unit = &limber_units[limber_attr_number(products, ATTR_unit)];
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
        if (known && limber_attr_number(mask, ATTR_width) == 0)
            return 0;
        low += known ? limber_attr_number(mask, ATTR_emin) : limber_format_emin(mask->type.format);
        high += known ? limber_attr_number(mask, ATTR_emax) : limber_format_emax(mask->type.format);
    }
    if ((double)high + 2 + log2(k) > limber_format_emax(acc) + 1)
        return INFINITY;
    return integers ? 0 : ldexp(k, (int)(limber_format_emin(acc) - 1 - low));
}

/* Returns infinity if sums of products of Hi/Lo limbs may overflow, or if products may be so
 * small that the bound's factor of 1+2^-6 does not cover their roundings as subnormal numbers;
 * else 0.  The bounds of `native` and `fast` assume that unscaled operands cause neither, since
 * FP32's own sums overflow and underflow in the same cases. */
static double limb_range_error(const struct plan *p, const struct node *products, limber_format acc)
{
    int64_t low[2], top[2];
    bool hilo = false, scaled = false;

    for (int i = 0; i < 2; i++) {
        const struct node *n = &p->node[products->in[i]];

        hilo = hilo || n->op == OP_hilo;
        scaled = scaled || limber_limbs_are_scaled(n);
        limber_limb_range(p, products->in[i], &low[i], &top[i]);
    }
    if (!hilo || (!scaled && p->promise != LIMBER_CONTRACT_BITS) ||
        (low[0] + low[1] >= limber_format_emin(acc) + 29 &&
         top[0] + top[1] + p->kbits + 2 <= limber_format_emax(acc)))
        return 0;
    return INFINITY;
}

/* Returns the relative error of a chain of n products, to which `others` further sums are added:
 * all / (1 - all), where `all` is u times the number of all roundings.  If `all` is 0.5 or more,
 * this bounds nothing useful, so only the chain's own error gets a denominator.  Returns infinity
 * if n u is 0.5 or more. */
double limber_chain_bound(double n, double others, double u)
{
    double all = (n + others) * u, chain = n * u / (1 - n * u);

    if (all < 0.5)
        return all / (1 - all);
    return n * u < 0.5 ? chain + others * u * (1 + chain) : INFINITY;
}

/* Returns the rounding error of chains and totals in float accumulators, relative to |A||B|.
 * Padded channels of a convolution add exact zeros, but may double the number of chains. */
static double sum_error(const struct plan *p, const struct node *products,
                        const struct node *combine, double k)
{
    const struct unit_info *unit = &limber_units[limber_attr_number(products, ATTR_unit)];
    /* a library's order of sums may be one chain */
    double chunk = limber_attr_number(products, ATTR_sums) == SUMS_any ?
                       INFINITY :
                       (double)limber_attr_number(products, ATTR_chunk),
           n, u, length;
    limber_unit model;
    limber_format acc;

    if (limber_attr_number(combine, ATTR_reconstruct) != RECONSTRUCT_sum || unit->exact_bits == 0 ||
        k == 0 || limber_node_has(combine, ATTR_uncertain))
        return 0;
    length = limber_plan_order(p, products->in[1]) == ORDER_rsc ? 2 * k : k;
    limber_format_named(unit->acc, &acc);
    if (limber_unit_of_sums(products, &model))
        return tensor_sum_error(p, products, &model, k, length) +
               limb_range_error(p, products, acc);
    u = limber_format_roundoff(acc);
    n = limber_chain_bound(fmin(k, chunk),
                           fmax(ceil(length / chunk), 1) * limber_most_rows(products) - 1, u) +
        limb_range_error(p, products, acc);
    /* the bound of `native` sums does not include overflow and underflow */
    if (p->promise == LIMBER_CONTRACT_BITS)
        n += range_error(p, products, k);
    return products->rows > 1 ? n * (1 + 0x1p-6) + products->type.count * 0x1p-52 : n;
}

/* Returns the plan's error bound relative to |A||B| at length k, from the errors of
 * representation, deleted products, sums and the final rounding; infinity if the plan has no
 * products yet. */
double limber_error_bound(const struct plan *p, double k)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    const struct node *out = limber_plan_find(p, OP_epilogue);
    double a, b, sum;

    if (!products || !combine || !out)
        return INFINITY;
    /* an operand that is cut has no error here if the results that the cut makes uncertain are
     * recomputed exactly */
    a = limber_covers_cut(p, 0) ? 0 : limber_limb_error(p, products->in[0]);
    b = limber_covers_cut(p, 1) ? 0 : limber_limb_error(p, products->in[1]);
    /* an exact operand has error 0; 0 times an infinite error must count as 0, not as NaN */
    sum = a + b + (a > 0 && b > 0 ? a * b : 0) + p->dropped + sum_error(p, products, combine, k);
    /* Native's bound includes the final rounding, except that of posits, whose precision varies.
     * Other promises allow the final rounding in addition to their bound. */
    if (limber_errs_natively(p->promise) && out->type.format.kind != LIMBER_KIND_POSIT &&
        !limber_format_equal(combine->type.format, out->type.format))
        sum += limber_format_roundoff(out->type.format) * (1 + 0x1p-6);
    return sum;
}

/* Returns the unit round-off of the result's format. */
static double result_roundoff(const struct plan *p)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);

    return out ? limber_format_roundoff(out->type.format) : 0;
}

/* Returns the error that the contract allows for inner dimension k, relative to |A||B|. */
double limber_allowed_error(const struct plan *p, double k)
{
    double u = result_roundoff(p);

    if (limber_errs_natively(p->promise) && u > 0)
        return (k + 2 - p->roundings) * u;
    return p->budget;
}

/* number of values of k that critical_ks lists */
enum { POINTS = 6 };

/* Lists values of k from `least` to `most` in at[], such that budget - spent has its minimum
 * over the range at one of them: between two neighbours in the list both are linear, or grow by
 * equal steps (one for each block of a chunk), of which the first and the last are listed.
 * Padding may double k. */
static void critical_ks(const struct plan *p, double least, double most, double at[POINTS])
{
    const struct node *products = limber_plan_find(p, OP_products);
    double chunk = products ? (double)limber_attr_number(products, ATTR_chunk) : 1, block = 1,
           each = 1;
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

/* Returns the smallest k of the plan's class, for which it must keep the contract. */
double limber_smallest_k(const struct plan *p)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);
    double u = result_roundoff(p), most = ldexp(1, p->kbits);

    /* the plan's text states the budget, which may claim more than the class's smallest k has */
    if (!limber_errs_natively(p->promise) || u == 0)
        return most;
    return fmin(
        fmax(fmin(p->budget, limber_stated_budget(p, out->type.format)) / u - 2 + p->roundings, 1),
        most);
}

/* Returns the smallest difference of budget and spent error over all k that the plan must compute
 * (its class); *k is the k with this minimum. */
static double smallest_slack(const struct plan *p, double *k)
{
    double most = ldexp(1, p->kbits), at[POINTS], slack = INFINITY;

    *k = most;
    critical_ks(p, limber_smallest_k(p), most, at);
    for (int i = 0; i < POINTS; i++) {
        double s = limber_allowed_error(p, at[i]) - limber_error_bound(p, at[i]);

        if (!(s >= slack)) {
            slack = s;
            *k = at[i];
        }
    }
    return slack;
}

/* Returns the smallest difference between the allowed error and the error bound, over all inner
 * dimensions k that the plan must compute (its class). */
double limber_smallest_slack(const struct plan *p)
{
    double k;

    return smallest_slack(p, &k);
}

/* Fails because the plan's error bound exceeds the contract's at this k.  Two digits tell the
 * bounds, nine where they differ by less than a tenth. */
static bool fail_by_bound(const struct plan *p, double k, struct diag *d)
{
    const double bound = limber_error_bound(p, k), allowed = limber_allowed_error(p, k);
    const int digits = bound < 1.1 * allowed ? 9 : 2;
    char at[80] = ""; /* a contract without any error is broken for every k */

    if (allowed > 0)
        snprintf(at, sizeof at, " at k = %.0f, and one plan serves all k up to %.0f", k,
                 ldexp(1, p->kbits));
    d->by_class = allowed > 0 ? CLASS_OF_k : 0;
    return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "its bound %.*g |A||B| exceeds what the contract allows (%.*g)%s", digits,
                       bound, digits, allowed, at);
}

/* Fails if the error bound of a plan after the passes exceeds the contract's at this k, which may
 * be below the plan's class. */
bool limber_check_bound(const struct plan *p, double k, struct diag *d)
{
    return limber_error_bound(p, k) <= limber_allowed_error(p, k) || fail_by_bound(p, k, d);
}

/* Computes the plan's error bound in p->spent.  Fails if more rows are missing in the product
 * table than the plan's `dropped` allows, or if the bound exceeds the contract's at some k. */
bool limber_pass_bound(struct plan *p, const struct target *t, struct diag *d)
{
    double k = 1, slack;

    (void)t;
    if (!limber_table_check(p, d))
        return false;
    if (p->model) { /* the simulated unit defines the result, so any error is accepted */
        p->spent = INFINITY;
        return true;
    }
    slack = smallest_slack(p, &k);
    p->spent = limber_error_bound(p, ldexp(1, p->kbits));
    if (p->promise == LIMBER_CONTRACT_FAST || slack >= 0)
        return true;
    return fail_by_bound(p, k, d);
}
