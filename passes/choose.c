/* SPDX-License-Identifier: BSD-3-Clause
 * Contract, mask and target give a scheme: every scheme is tried on a copy of the plan (split,
 * prune, bound), the cheapest that keeps the contract is named.
 *
 *   needs   a stated gemm
 *   leaves  plan.scheme, plan.cost, and in plan.refused a line for every scheme */
#include "ir/num/prim_num.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <string.h>

/* Cost of adding a product to a pair of doubles, in FMAs.  Of its four operations two are sums,
 * which run in parallel on CPUs with separate adders (AMD's; measured 2.9 on Zen 3). */
static const double fmas_of_pair = 3;

/* Number of doubles that hold an element; `accumulator` multiplies each of A's by each of B's. */
static int pieces(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == 16 && !f.carried              ? 3 :
           f.kind == LIMBER_KIND_DD || (f.kind == LIMBER_KIND_INT && f.size == 8) ? 2 :
                                                                                    1;
}

static bool is_exact(const struct node *products)
{
    return limber_num(products, ATTR_unit) == UNIT_exact;
}

/* True if CPUs compute `accumulator` first as pairs of doubles: the operands embed in binary64, and
 * the result is binary64 or binary32. */
static bool sums_pairs(const struct plan *p, const struct node *products, const struct target *t)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);

    return is_exact(products) && t->vector_bits && !limber_is_device(t) &&
           limber_format_is_binary(out->type.format) &&
           limber_format_embeds(limber_source(p, products->in[0])->type.format, LIMBER_F64) &&
           limber_format_embeds(limber_source(p, products->in[1])->type.format, LIMBER_F64);
}

/* Nanoseconds per element for making its limbs, on one core with 512-bit vectors: measured with
 * `limber bench`, see docs/performance.md. */
static double prepare_ns(const struct plan *p, const struct node *products, const struct target *t,
                         int side)
{
    int limbs = products->in[side];
    const struct node *n = &p->node[limbs];
    limber_format f = limber_source(p, limbs)->type.format;
    bool pair = f.kind == LIMBER_KIND_DD || (f.kind == LIMBER_KIND_FLOAT && f.size == 16);

    switch (n->op) {
    case OP_whole:
        return !is_exact(products) ? 0.6 : sums_pairs(p, products, t) ? 1.5 : 6 * pieces(f);
    case OP_quantize: return 2;
    case OP_hilo: return 0.5 + 0.7 * n->type.count;
    case OP_residues: return (pair ? 3 : 1) + 0.4 * n->type.count;
    default:
        return limber_num(n, ATTR_bits) <= 30 && !pair ? 0.5 + 0.1 * n->type.count :
                                                         (pair ? 3 : 1) + 0.2 * n->type.count;
    }
}

/* Nanoseconds per result for summing uncertain elements again, exactly.  One in a thousand scaled
 * integers is expected to be uncertain, and of chains the share that a sample found. */
static double again_ns(const struct plan *p, const struct node *combine)
{
    enum { UNKNOWN = 8 };
    int decided = limber_num(combine, ATTR_reconstruct) == RECONSTRUCT_crt ? 10 :
                  p->first_pass.decided                                    ? p->first_pass.decided :
                                                                             UNKNOWN;
    int k = p->size ? p->size : p->kbits; /* small products use less than their class of k */

    /* measured nanoseconds per term */
    double each = limber_num(combine, ATTR_reconstruct) == RECONSTRUCT_crt ? 5 : 1;

    return limber_node_has(combine, ATTR_uncertain) ? ldexp(each, k - decided) : 0;
}

/* again_ns plus the cost of testing results one by one, if they are no floats of up to 8 bytes. */
static double uncertain_ns(const struct plan *p, const struct node *combine, limber_format f)
{
    bool one_by_one = f.kind != LIMBER_KIND_FLOAT || f.size > 8;

    return again_ns(p, combine) +
           (limber_node_has(combine, ATTR_uncertain) && one_by_one ? 300 : 0);
}

/* True if results are rounded in vectors: binary64, binary32, and floats of 8 and 16 bits without
 * beta. */
static bool rounds_many(limber_format f, const struct node *out)
{
    bool small = f.size <= 2 && !limber_num(out, ATTR_beta) &&
                 !(f.flags & (LIMBER_FORMAT_NO_SUBNORMAL | LIMBER_FORMAT_NO_MINUS_ZERO));

    return f.kind == LIMBER_KIND_FLOAT && !f.carried && (f.size == 8 || f.size == 4 || small);
}

/* Nanoseconds per result of `accumulator` for summing in bins the elements that pairs leave open.
 * An open element costs as much as the whole vector of results that it is part of. */
static double open_ns(const struct plan *p, const struct target *t)
{
    const double vectors = 256.0 / t->vector_bits; /* measured with AVX2: 4 ns a vector and term */
    const int paired = p->first_pass.paired, k = p->size ? p->size : p->kbits;

    return paired ? ldexp(4 * vectors, k - paired) : 0;
}

/* Predicted nanoseconds to combine and round one element of C. */
static double combine_ns(const struct plan *p, const struct node *products,
                         const struct node *combine)
{
    const struct node *a = &p->node[products->in[0]], *b = &p->node[products->in[1]];
    const struct node *out = limber_plan_find(p, OP_epilogue);
    limber_format f = out->type.format;
    bool plain = !limber_num(out, ATTR_alpha) && !limber_num(out, ATTR_beta);
    bool many = rounds_many(f, out);
    bool quick = plain || (many && f.size > 2); /* vector code also applies scalars */
    bool integer = limber_num_is_int(f);
    int64_t bits = limber_num(a, ATTR_bits) + limber_num(b, ATTR_bits) + p->kbits;
    bool narrow = bits <= 61;

    switch (limber_num(combine, ATTR_reconstruct)) {
    case RECONSTRUCT_crt:
        return uncertain_ns(p, combine, f) + (quick && (bits <= 105 || !integer) ? 1 : 150) +
               0.6 * products->type.count;
    case RECONSTRUCT_shift:
        return (quick && (narrow || many) ? 1 : 150) + 0.5 * (double)products->rows;
    default:
        return is_exact(products) ? (plain && many && f.size > 2 ? 20 : 300) :
                                    1 + again_ns(p, combine) + (many ? 0 : 50);
    }
}

static struct price price_of(const struct plan *p, const struct target *t)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    bool pairs = sums_pairs(p, products, t);
    double rate = pairs ? t->rate[UNIT_f64] / fmas_of_pair :
                          t->rate[limber_rated_unit(limber_num(products, ATTR_unit))];
    double width = t->vector_bits == 256 && !is_exact(products) ? 2 : 1;
    limber_format fa = limber_source(p, products->in[0])->type.format;
    limber_format fb = limber_source(p, products->in[1])->type.format;
    double times = is_exact(products) ? pieces(fa) * pieces(fb) : (double)products->rows;

    if (!(rate > 0))
        return (struct price){ .product = INFINITY };
    if (t->blocks && t->bandwidth > 0)
        return t->blocks->price(p, t);
    return (struct price){
        .product = times / rate,
        .a = 1e-9 * width * prepare_ns(p, products, t, 0),
        .b = 1e-9 * width * prepare_ns(p, products, t, 1),
        .result = 1e-9 * (pairs ? 5 + open_ns(p, t) : width * combine_ns(p, products, combine)),
        .skips = limber_rated_unit(limber_num(products, ATTR_unit)) != UNIT_i8 ||
                 limber_num(combine, ATTR_reconstruct) != RECONSTRUCT_shift,
    };
}

/* Predicted seconds for 2^30 multiply-adds at the plan's size; on CPUs for one core and m = n =
 * k. */
static double seconds(const struct plan *p, const struct price *price, bool device)
{
    double n = p->size ? ldexp(1, p->size) : 1024;
    double k = device && p->size ? ldexp(1, p->kbits > 16 ? 16 : p->kbits) : n;

    return limber_price(price, n, n, k, 1) * (0x1p30 / (n * n * k));
}

/* Whether the multiply kernel itself can make the limbs of this plan. */
static bool can_split_in_kernel(const struct plan *p, const struct target *t, struct diag *why)
{
    return t->blocks ? t->blocks->splits_inside(p, t, why) :
                       limber_fail(why, LIMBER_STATUS_NO_SCHEME,
                                   "split=inside: %s has no kernel for that", t->backend);
}

/* Tries a scheme on a copy of the plan; *cost: predicted seconds for 2^30 multiply-adds. */
static bool try_one(const struct plan *p, const struct scheme *s, const struct target *t,
                    struct price *price, double *cost, struct diag *why)
{
    struct plan copy = { 0 };
    bool ok = limber_plan_copy(&copy, p) ||
              limber_fail(why, LIMBER_STATUS_NO_MEMORY, "choose: out of memory");

    if (ok && t->rate[s->unit] <= 0)
        ok = limber_fail(why, LIMBER_STATUS_NO_SCHEME, "%s has no %s unit", t->backend,
                         limber_units[s->unit].name);
    copy.scheme = s->name;
    ok = ok && limber_pass_split(&copy, t, why) && limber_pass_prune(&copy, t, why) &&
         limber_pass_bound(&copy, t, why) &&
         (p->split != LIMBER_SPLIT_INSIDE || can_split_in_kernel(&copy, t, why));
    if (ok) {
        *price = price_of(&copy, t);
        *cost = seconds(&copy, price, limber_is_device(t));
    }
    limber_plan_clear(&copy);
    return ok;
}

/* Reports that no scheme serves. only: the reason of the scheme that was asked for. */
static bool none(struct plan *p, const struct diag *only, struct diag *d)
{
    if (p->wanted)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "scheme %s: %s", p->wanted, only->text);
    return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "no scheme keeps the contract:\n%s",
                       p->refused.s ? p->refused.s : "");
}

bool limber_pass_choose(struct plan *p, const struct target *t, struct diag *d)
{
    struct diag last = { 0 };
    const struct scheme *best = NULL;
    double least = INFINITY;

    if (!limber_plan_find(p, OP_gemm) || p->scheme)
        return true;
    if (p->wanted && !limber_scheme_find(p->wanted))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "no scheme is called \"%s\"", p->wanted);
    for (size_t i = 0; i < limber_scheme_count; i++) {
        const struct scheme *s = &limber_schemes[i];
        struct diag why = { 0 };
        struct price price;
        double cost = INFINITY;

        if (p->wanted && limber_scheme_find(p->wanted) != s)
            continue;
        if (s->asked && !p->wanted)
            continue;
        if (p->model ? s->unit != UNIT_model : s->unit == UNIT_model && !p->wanted)
            continue; /* plans with a model, and only they, use unit model */
        if (try_one(p, s, t, &price, &cost, &why)) {
            limber_text_add(&p->refused, "%s: keeps the contract, %.3g s\n", s->name, cost);
            if (!best || cost < least) {
                best = s;
                least = cost;
                p->price = price;
            }
        } else {
            if (why.status == LIMBER_STATUS_NO_MEMORY)
                return limber_fail(d, why.status, "%s", why.text);
            limber_text_add(&p->refused, "%s: refused: %s\n", s->name, why.text);
            last = why;
        }
    }
    if (!best)
        return none(p, &last, d);
    p->scheme = best->name;
    p->cost = least;
    return true;
}
