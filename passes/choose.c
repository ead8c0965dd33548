/* SPDX-License-Identifier: BSD-3-Clause
 * The pass `choose`: tries every scheme on a copy of the plan (split, prune, bound), and takes the
 * cheapest one that keeps the contract.
 *
 *   needs   a gemm that is not split yet
 *   leaves  plan.scheme, plan.cost, and in plan.refused a line for every scheme */
#include "ir/num/prim_num.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <string.h>

/* Cost of adding one product to a double-double sum, in FMAs.  Two of the four operations are
 * additions, which run in parallel on CPUs with separate adders, such as AMD's.  Measured: 2.9 on
 * Zen 3. */
static const double fmas_of_pair = 3;

/* Returns the number of doubles that hold an element.  The scheme `accumulator` multiplies each of
 * A's doubles by each of B's. */
static int doubles_per_element(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == 16 && !f.carried              ? 3 :
           f.kind == LIMBER_KIND_DD || (f.kind == LIMBER_KIND_INT && f.size == 8) ? 2 :
                                                                                    1;
}

/* True if the products are summed exactly, in a long accumulator. */
static bool is_exact(const struct node *products)
{
    return limber_attr_number(products, ATTR_unit) == UNIT_exact;
}

/* True if a CPU computes the scheme `accumulator` in double-double arithmetic first: every value
 * of A and B is a value of binary64, and the result is binary64 or binary32. */
static bool sums_in_pairs_first(const struct plan *p, const struct node *products,
                                const struct target *t)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);

    return is_exact(products) && t->vector_bits && !limber_is_device(t) &&
           limber_format_is_binary(out->type.format) &&
           limber_format_embeds(limber_source(p, products->in[0])->type.format, LIMBER_F64) &&
           limber_format_embeds(limber_source(p, products->in[1])->type.format, LIMBER_F64);
}

/* Returns the nanoseconds per element that making the limbs of an operand takes (side 0: A, 1: B),
 * on one core with 512-bit vectors.  Measured with `limber bench`, see docs/performance.md. */
static double prepare_ns(const struct plan *p, const struct node *products, const struct target *t,
                         int side)
{
    int limbs = products->in[side];
    const struct node *n = &p->node[limbs];
    limber_format f = limber_source(p, limbs)->type.format;
    bool pair = f.kind == LIMBER_KIND_DD || (f.kind == LIMBER_KIND_FLOAT && f.size == 16);

    switch (n->op) {
    case OP_whole:
        return !is_exact(products)                 ? 0.6 :
               sums_in_pairs_first(p, products, t) ? 1.5 :
                                                     6 * doubles_per_element(f);
    case OP_quantize: return 2;
    case OP_hilo: return 0.5 + 0.7 * n->type.count;
    case OP_residues: return (pair ? 3 : 1) + 0.4 * n->type.count;
    default:
        return limber_attr_number(n, ATTR_bits) <= 30 && !pair ?
                   0.5 + 0.1 * n->type.count :
                   (pair ? 3 : 1) + 0.2 * n->type.count;
    }
}

/* Returns the expected nanoseconds per element of C for recomputing uncertain elements exactly.
 * With residues, one element in 2^10 is expected to be uncertain; with chains of binary64, the
 * share that a sample found. */
static double recompute_ns(const struct plan *p, const struct node *combine)
{
    enum { UNKNOWN = 8 };
    int decided = limber_attr_number(combine, ATTR_reconstruct) == RECONSTRUCT_crt ? 10 :
                  p->first_pass.decided ? p->first_pass.decided :
                                          UNKNOWN;
    /* log2 of k: for a small C its size is a better estimate than the class of k */
    int k = p->size ? p->size : p->kbits;

    /* measured nanoseconds per term */
    double each = limber_attr_number(combine, ATTR_reconstruct) == RECONSTRUCT_crt ? 5 : 1;

    return limber_node_has(combine, ATTR_uncertain) ? ldexp(each, k - decided) : 0;
}

/* Returns the expected nanoseconds per element for recomputing uncertain elements, plus those for
 * testing results one by one.  Only floats of at most 8 bytes are tested in vectors. */
static double uncertain_ns(const struct plan *p, const struct node *combine, limber_format f)
{
    bool one_by_one = limber_num_base(f).kind != LIMBER_KIND_FLOAT || limber_num_base(f).size > 8;

    return recompute_ns(p, combine) +
           (limber_node_has(combine, ATTR_uncertain) && one_by_one ? 300 : 0);
}

/* True if vector code rounds results of format f: binary64, binary32, floats of 8 and 16 bits if
 * beta is 0, and sided binary64 without alpha and beta. */
static bool rounds_in_vectors(limber_format f, const struct node *out)
{
    bool plain = !limber_attr_number(out, ATTR_alpha) && !limber_attr_number(out, ATTR_beta);
    bool small = limber_num_is_small(f) && !limber_attr_number(out, ATTR_beta);

    if (f.kind == LIMBER_KIND_SIDED)
        return plain && f.size == 16;
    return f.kind == LIMBER_KIND_FLOAT && !f.carried && (f.size == 8 || f.size == 4 || small);
}

/* Returns the nanoseconds per result that the scheme `accumulator` takes to recompute elements
 * exactly, if double-double sums are not accurate enough to round them.  The exact sum is computed
 * for a vector of results even if only one of its elements needs it. */
static double undecided_ns(const struct plan *p, const struct target *t)
{
    /* measured with AVX2: 4 ns per vector and term */
    const double vectors = 256.0 / t->vector_bits;
    const int paired = p->first_pass.paired, k = p->size ? p->size : p->kbits;

    return paired ? ldexp(4 * vectors, k - paired) : 0;
}

/* Returns the predicted nanoseconds to combine and round one element of C. */
static double combine_ns(const struct plan *p, const struct node *products,
                         const struct node *combine)
{
    const struct node *a = &p->node[products->in[0]], *b = &p->node[products->in[1]];
    const struct node *out = limber_plan_find(p, OP_epilogue);
    limber_format f = out->type.format;
    bool plain = !limber_attr_number(out, ATTR_alpha) && !limber_attr_number(out, ATTR_beta);
    bool many = rounds_in_vectors(f, out);
    bool quick = plain || (many && f.size > 2); /* vector code also applies alpha and beta */
    bool integer = limber_num_is_int(f);
    int64_t bits = limber_attr_number(a, ATTR_bits) + limber_attr_number(b, ATTR_bits) + p->kbits;
    bool fits_61_bits = bits <= 61;

    /* 1 or 20 ns: rounded in vectors; 150 or 300 ns: rounded one by one */
    switch (limber_attr_number(combine, ATTR_reconstruct)) {
    case RECONSTRUCT_crt:
        return uncertain_ns(p, combine, f) + (quick && (bits <= 105 || !integer) ? 1 : 150) +
               0.6 * products->type.count;
    case RECONSTRUCT_shift:
        return (quick && (fits_61_bits || many) ? 1 : 150) + 0.5 * (double)products->rows;
    default:
        return is_exact(products) ? (plain && many && f.size > 2 ? 20 : 300) :
                                    1 + recompute_ns(p, combine) + (many ? 0 : 50);
    }
}

/* Returns the predicted costs per element and per multiply-add of a plan that was split into limbs.
 * Infinite if the target has no such unit. */
static struct price price_of(const struct plan *p, const struct target *t)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    bool pairs = sums_in_pairs_first(p, products, t);
    double rate = pairs ? t->rate[UNIT_f64] / fmas_of_pair :
                          t->rate[limber_rated_unit(limber_attr_number(products, ATTR_unit))];
    /* cost relative to the 512-bit vectors of the measurements */
    double width = t->vector_bits == 256 && !is_exact(products) ? 2 : 1;
    limber_format fa = limber_source(p, products->in[0])->type.format;
    limber_format fb = limber_source(p, products->in[1])->type.format;
    double times = is_exact(products) ? doubles_per_element(fa) * doubles_per_element(fb) :
                                        (double)products->rows;

    if (!(rate > 0))
        return (struct price){ .product = INFINITY };
    if (t->blocks && t->bandwidth > 0)
        return t->blocks->price(p, t);
    return (struct price){
        .product = times / rate,
        .a = 1e-9 * width * prepare_ns(p, products, t, 0),
        .b = 1e-9 * width * prepare_ns(p, products, t, 1),
        .result =
            1e-9 * (pairs ? 5 + undecided_ns(p, t) : width * combine_ns(p, products, combine)),
        .skips = limber_rated_unit(limber_attr_number(products, ATTR_unit)) != UNIT_i8 ||
                 limber_attr_number(combine, ATTR_reconstruct) != RECONSTRUCT_shift,
    };
}

/* Returns the predicted seconds for 2^30 multiply-adds at the plan's size.  On CPUs: for one core,
 * and m = n = k. */
static double predict_seconds(const struct plan *p, const struct price *price, bool device)
{
    double n = p->size ? ldexp(1, p->size) : 1024;
    double k = device && p->size ? ldexp(1, p->kbits > 16 ? 16 : p->kbits) : n;

    return limber_price(price, n, n, k, 1) * (0x1p30 / (n * n * k));
}

/* True if the multiply kernel itself can make the limbs of this plan; else *why has the reason. */
static bool can_split_in_kernel(const struct plan *p, const struct target *t, struct diag *why)
{
    return t->blocks ? t->blocks->splits_inside(p, t, why) :
                       limber_fail(why, LIMBER_STATUS_NO_SCHEME,
                                   "split=inside: %s has no kernel for that", t->backend);
}

/* Tries a scheme on a copy of the plan.  *cost: predicted seconds for 2^30 multiply-adds.  False,
 * with the reason in *why, if the scheme does not keep the contract. */
static bool try_scheme(const struct plan *p, const struct scheme *s, const struct target *t,
                       struct price *price, double *cost, struct diag *why)
{
    struct plan copy = { 0 };
    bool ok = limber_plan_copy(&copy, p) ||
              limber_fail(why, LIMBER_STATUS_NO_MEMORY, "choose: out of memory");

    if (ok && t->rate[limber_rated_unit(s->unit)] <= 0)
        ok = limber_fail(why, LIMBER_STATUS_NO_SCHEME, "%s has no %s unit", t->backend,
                         limber_units[s->unit].name);
    copy.scheme = s->name;
    ok = ok && limber_pass_split(&copy, t, why) && limber_pass_prune(&copy, t, why) &&
         limber_pass_bound(&copy, t, why) &&
         (p->split != LIMBER_SPLIT_INSIDE || can_split_in_kernel(&copy, t, why));
    if (ok) {
        *price = price_of(&copy, t);
        *cost = predict_seconds(&copy, price, limber_is_device(t));
    }
    limber_plan_clear(&copy);
    return ok;
}

/* Returns the i-th scheme that may be tried: of those that the caller names, or of all.  NULL past
 * the end. */
static const struct scheme *candidate_scheme(const struct plan *p, const struct scheme_list *named,
                                             size_t i)
{
    if (p->wanted)
        return i < (size_t)named->count ? named->scheme[i] : NULL;
    return i < limber_scheme_count ? &limber_schemes[i] : NULL;
}

/* True if an operand may have NaN or infinities. */
static bool may_be_special(const struct plan *p)
{
    for (size_t i = 0; i < p->nodes; i++)
        if (p->node[i].op == OP_arg && limber_node_has(&p->node[i], ATTR_special) &&
            limber_attr_number(&p->node[i], ATTR_special))
            return true;
    return false;
}

/* Fails because no scheme keeps the contract.  only: the reason of the scheme that the caller
 * named, if it named one. */
static bool fail_no_scheme(struct plan *p, const struct diag *only, struct diag *d)
{
    if (p->wanted)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "scheme %s: %s", p->wanted, only->text);
    return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "no scheme keeps the contract:\n%s",
                       p->refused.s ? p->refused.s : "");
}

/* Chooses the scheme with the lowest predicted cost among those that keep the contract.  If the
 * caller names schemes, chooses the first of them that keeps it; only the last one is used for
 * data with NaN or infinities.  Lists in p->refused what each scheme costs or why it is refused. */
bool limber_pass_choose(struct plan *p, const struct target *t, struct diag *d)
{
    struct diag last = { 0 };
    unsigned by_class = 0;
    struct scheme_list named = { 0 };
    const struct scheme *best = NULL, *s;
    double least = INFINITY;
    size_t i = 0;

    if (!limber_plan_find(p, OP_gemm) || p->scheme)
        return true;
    if (p->wanted && !limber_scheme_list_read(p->wanted, &named))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "no scheme is called \"%s\"", p->wanted);
    if (named.count > 1 && may_be_special(p))
        i = (size_t)named.count - 1;
    for (; (s = candidate_scheme(p, &named, i)) && !(named.count && best); i++) {
        struct diag why = { 0 };
        struct price price;
        double cost = INFINITY;

        if (s->asked && !p->wanted)
            continue;
        if (p->model ? s->unit != UNIT_model : s->unit == UNIT_model && !p->wanted)
            continue; /* a plan with a model needs unit `model`; no other plan may use it */
        if (try_scheme(p, s, t, &price, &cost, &why)) {
            limber_text_add(&p->refused, "%s: keeps the contract, %.3g s\n", s->name, cost);
            if (!best || cost < least) {
                best = s;
                least = cost;
                p->price = price;
            }
        } else {
            if (why.status == LIMBER_STATUS_NO_MEMORY)
                return limber_fail_again(d, &why);
            limber_text_add(&p->refused, "%s: refused: %s\n", s->name, why.text);
            by_class |= why.by_class;
            last = why;
        }
    }
    if (!best) {
        d->by_class = p->wanted ? last.by_class : by_class;
        return fail_no_scheme(p, &last, d);
    }
    p->scheme = best->name;
    p->cost = least;
    return true;
}
