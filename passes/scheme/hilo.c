/* SPDX-License-Identifier: BSD-3-Clause
 * Hi/Lo schemes: an FP32 operand is hi + lo 2^-shift (+ ...).  Each limb is the remainder of the
 * limbs before it, rounded to the unit's format.
 *
 *   needs   operands whose values are values of binary32, and a float result of at most 24 bits; a
 *           mask whose exponents fit the limbs, if need be after each line (row of A, column of
 *           B) is scaled.  Limbs of BF16 and TF32 hold wider lines without a scale, where
 *           products may underflow as those of binary32 do
 *   leaves  rows for all products of limbs.  Under the contract `fast` the rows that the published
 *           scheme drops are absent, and plan.dropped has their share
 *   proof   docs/accuracy.md, "Hi/Lo limbs"
 *   source  Ma et al., ICS 2022, sections 4.1 - 4.3; Markidis et al., IPDPSW 2018 */
#include "passes/scheme/scheme_split.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 64, LIMBS = 3 };

/* True if limbs are numbers of FP16. */
static bool is_f16(enum unit u)
{
    return u == UNIT_f16 || u == UNIT_f16d;
}

/* Returns the number of bits of its operand that one limb represents: the fraction, the hidden bit,
 * and one bit that the sign of the next limb saves. */
static int limb_bits(enum unit u)
{
    return u == UNIT_bf16 ? 9 : 12;
}

/* Finds the exponents [*low, *top) of a line's elements at which the limbs are accurate enough. */
static void exact_range(const struct scheme *s, int *low, int *top)
{
    if (is_f16(s->unit)) {
        *top = 15; /* from 2^15 on, the scaled low limb may overflow */
        /* if limbs have no scale of their own, the low limb must be a normal number, too */
        *low = s->shift ? -14 : -2;
    } else {
        *top = 40;
        *low = -60; /* products of two low limbs are normal numbers of binary32 */
    }
}

/* Finds the exponents [*low, *top) of elements whose limbs are accurate without a scale.  In BF16
 * and TF32, from 2^*low on the last limb is a multiple of the smallest subnormal; below 2^*top the
 * first one cannot overflow. */
static void unscaled_range(const struct scheme *s, int *low, int *top)
{
    exact_range(s, low, top);
    if (is_f16(s->unit))
        return;
    *low = s->unit == UNIT_bf16 ? -110 : -114;
    *top = 127;
}

/* Sets *r to the range of exponents that the scheme's limbs can hold.  Returns false if these are
 * no Hi/Lo limbs. */
bool limber_scheme_range(const struct scheme *s, struct scheme_range *r)
{
    int low, top;

    if (s->split != limber_split_hilo)
        return false;
    unscaled_range(s, &low, &top);
    *r = (struct scheme_range){ top - low, top - 1, !is_f16(s->unit) || !s->scaled };
    return true;
}

/* True if an operand's limbs need no scale, although its exponents are not in exact_range.  Sums
 * may then underflow where those of binary32 do, which a contract in bits does not allow. */
static bool fits_unscaled(const struct plan *p, const struct scheme *s, const struct node *m)
{
    int low, top;

    unscaled_range(s, &low, &top);
    return p->promise != LIMBER_CONTRACT_BITS && limber_node_has(m, ATTR_spread) &&
           (limber_attr_number(m, ATTR_width) == 0 ||
            (limber_attr_number(m, ATTR_emin) >= low && limber_attr_number(m, ATTR_emax) < top));
}

/* Returns whether the operand's exponents fit the limbs; if not, *d says why.  Sets *scale to
 * whether lines (rows of A, columns of B) must first be scaled. */
static bool fits_range(const struct scheme *s, const struct node *m, bool *scale, struct diag *d)
{
    int low, top;

    exact_range(s, &low, &top);
    if (!limber_node_has(m, ATTR_spread))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "needs a scan of %%%s", m->name);
    *scale = false;
    if (limber_attr_number(m, ATTR_width) == 0 ||
        (limber_attr_number(m, ATTR_emin) >= low && limber_attr_number(m, ATTR_emax) < top))
        return true;
    if (!s->scaled)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s leaves [2^%d, 2^%d)", m->name, low,
                           top);
    *scale = true;
    if (limber_attr_number(m, ATTR_spread) <= top - 1 - low)
        return true;
    d->by_class = CLASS_OF_spread;
    return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "exponents of one line of %%%s spread over up to %d, at most %d fit",
                       m->name, (int)limber_attr_number(m, ATTR_spread), top - 1 - low);
}

/* Adds the node that makes an operand's limbs.  axis: whose lines are first scaled to below 2^top;
 * AXIS_none leaves elements as they are.  Returns the node's index, negative if memory runs out. */
static int add_limbs(struct plan *p, const struct scheme *s, int operand, int axis, bool wide)
{
    struct type t = p->node[operand].type;
    int low, top, n;

    if (wide)
        unscaled_range(s, &low, &top);
    else
        exact_range(s, &low, &top);
    limber_format_named(limber_units[s->unit].in, &t.format);
    t.count = s->limbs;
    n = limber_plan_add(p, OP_hilo, NULL, operand, -1, t);
    if (n >= 0) {
        limber_node_set(&p->node[n], ATTR_axis, axis);
        limber_node_set(&p->node[n], ATTR_top, top);
        limber_node_set(&p->node[n], ATTR_shift, s->shift);
    }
    return n;
}

/* Fills rows by falling share, and returns their number.  Products of limbs i and j are summed in
 * accumulator w = i + j. published: leaves out the rows that the published scheme drops, and adds
 * their share to *dropped. joins: all w > 0 share one accumulator, because tensor cores have
 * registers for only two; this requires limbs without a shift. */
static size_t fill_rows(const struct scheme *s, bool published, bool joins, struct row *out,
                        double *dropped)
{
    size_t n = 0;

    for (int w = 0; w <= 2 * (s->limbs - 1); w++)
        for (int i = 0; i < s->limbs; i++) {
            int j = w - i;
            double share = w == 0 ? INFINITY : ldexp(1, -w * (limb_bits(s->unit) - 1));

            if (j < 0 || j >= s->limbs)
                continue;
            if (published && w >= s->kept)
                *dropped += share;
            else
                out[n++] = (struct row){ .a = i,
                                         .b = j,
                                         .acc = joins && w > 1 ? 1 : w,
                                         .weight = -w * s->shift,
                                         .share = share };
        }
    return n;
}

/* If tensor cores truncate after 8 products, sets the attribute `joins`: all accumulators are added
 * to the total after each chunk of k.  Sums over all of k of the small products of three limbs
 * would lose more than `native` allows at some k.  Always returns true. */
static bool join_sums(struct plan *p, const struct scheme *s, const struct target *t)
{
    if (s->limbs > 2 && p->promise == LIMBER_CONTRACT_NATIVE &&
        (strcmp(t->sums, "a100") == 0 || strcmp(t->sums, "ada") == 0))
        limber_node_set(limber_plan_find(p, OP_products), ATTR_joins, 1);
    return true;
}

/* Schemes that split each operand into a few limbs of a lower precision.  Fails if the operands'
 * exponents do not fit the limbs' format. */
bool limber_split_hilo(struct plan *p, const struct scheme *scheme, const struct target *t,
                       struct diag *d)
{
    struct row table[LIMBS * LIMBS];
    struct stated_gemm s;
    struct node mb;
    bool scale_a, scale_b, wide = false, tensor = t->sums[0] != 0;
    struct diag shared = { 0 }, why = { 0 };
    size_t n;
    int a, b, accumulators = 1, axis;

    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    if (!limber_format_embeds(s.fa, LIMBER_F32) || !limber_format_embeds(s.fb, LIMBER_F32))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "an operand does not embed in f32");
    if (s.result.kind != LIMBER_KIND_FLOAT || limber_format_sig(s.result) > 24)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result is no float of at most 24 bits");
    axis = limber_axis_b(p, &s, &mb);
    if (axis == AXIS_all && !fits_range(scheme, &mb, &scale_b, &shared)) {
        axis = AXIS_col; /* windows with different ranges of exponents cannot share a scale */
        mb = *s.mb;
    }
    if (!fits_range(scheme, s.ma, &scale_a, &why) || !fits_range(scheme, &mb, &scale_b, &why)) {
        /* the product of a scaled operand and an unscaled one could overflow */
        if (!fits_unscaled(p, scheme, s.ma) || !fits_unscaled(p, scheme, s.mb))
            return limber_fail_again(d, &why);
        wide = true;
        scale_a = scale_b = false;
    }
    a = add_limbs(p, scheme, s.a, scale_a ? AXIS_row : AXIS_none, wide);
    b = add_limbs(p, scheme, s.b, scale_b ? axis : AXIS_none, wide);
    n = fill_rows(scheme, p->promise == LIMBER_CONTRACT_FAST, tensor && !scheme->shift, table,
                  &p->dropped);
    for (size_t i = 0; i < n; i++)
        accumulators = table[i].acc >= accumulators ? table[i].acc + 1 : accumulators;
    return limber_split_finish(
               p, &s,
               &(const struct product_table){ .a = a,
                                              .b = b,
                                              .unit = scheme->unit,
                                              .chunk = scheme->unit == UNIT_f16d ? WHOLE_K : CHUNK,
                                              .row = table,
                                              .rows = n,
                                              .accumulators = accumulators,
                                              .reconstruct = RECONSTRUCT_sum },
               d) &&
           (!tensor || (limber_split_sums(p, t, d) && join_sums(p, scheme, t)));
}
