/* SPDX-License-Identifier: BSD-3-Clause
 * Hi/Lo: an FP32 operand is hi + lo 2^-shift (+ ...), each limb the rounded remainder of the limbs
 * before it.
 *
 *   needs   operands that embed in binary32 and a float result of at most 24 bits; a mask whose
 *           exponents fit the limbs, after scaling by lines where the scheme scales
 *   leaves  all products of limbs, those that the scheme's paper drops with their share
 *   proof   docs/accuracy.md, "Hi/Lo limbs"
 *   source  Ma et al., ICS 2022, sections 4.1 - 4.3; Markidis et al., IPDPSW 2018 */
#include "passes/scheme/scheme_split.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 64, LIMBS = 3 };

/* Bits that one limb takes from its operand: the fraction and the hidden bit, plus the sign of
 * the next limb. */
static int limb_bits(enum unit u)
{
    return u == UNIT_bf16 ? 9 : 12;
}

/* The exponents [*low, top) at which limbs of an operand's line are exact enough. */
static void exact_range(const struct scheme *s, int *low, int *top)
{
    if (s->unit == UNIT_f16) {
        *top = 15;                      /* from 2^15 on lo 2^12 may overflow */
        *low = s->shift ? -14 : -2;     /* an unscaled lo must stay at or above 2^-14, too */
    } else {
        *top = 40;
        *low = -60;                     /* products of two lows stay normal in binary32 */
    }
}

/* True if the operand's exponents fit, unscaled or (*scale) after scaling its lines below 2^top. */
static bool fits_range(const struct scheme *s, const struct node *m, bool *scale, struct diag *d)
{
    int low, top;

    exact_range(s, &low, &top);
    if (!limber_node_has(m, ATTR_spread))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "needs a scan of %%%s", m->name);
    *scale = false;
    if (limber_num(m, ATTR_width) == 0 ||
        (limber_num(m, ATTR_emin) >= low && limber_num(m, ATTR_emax) < top))
        return true;
    if (!s->scaled)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s leaves [2^%d, 2^%d)", m->name, low,
                           top);
    *scale = true;
    if (limber_num(m, ATTR_spread) > top - 1 - low)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "exponents of one line of %%%s spread over %d, at most %d fit", m->name,
                           (int)limber_num(m, ATTR_spread), top - 1 - low);
    return true;
}

/* Adds the node that makes an operand's limbs. scale: its lines are scaled below 2^top first. */
static int add_limbs(struct plan *p, const struct scheme *s, int operand, int axis, bool scale)
{
    struct type t = p->node[operand].type;
    int low, top, n;

    exact_range(s, &low, &top);
    limber_format_named(limber_units[s->unit].in, &t.format);
    t.count = s->limbs;
    n = limber_plan_add(p, OP_hilo, NULL, operand, -1, t);
    if (n >= 0) {
        limber_node_set(&p->node[n], ATTR_axis, scale ? axis : AXIS_none);
        limber_node_set(&p->node[n], ATTR_top, top);
        limber_node_set(&p->node[n], ATTR_shift, s->shift);
    }
    return n;
}

/* Fills rows by falling share.  The products of limbs i and j with i+j = w share accumulator w.
 * published: leaves out the rows that the paper's scheme drops; *dropped is their share.  joins:
 * two accumulators for all, as tensor cores have registers for two; limbs must not be shifted. */
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

bool limber_split_hilo(struct plan *p, const struct scheme *scheme, const struct target *t,
                       struct diag *d)
{
    struct row table[LIMBS * LIMBS];
    struct stated s;
    struct node mb;
    bool scale_a, scale_b, tensor = t->sums[0] != 0;
    struct diag shared = { 0 };
    size_t n;
    int a, b, accumulators = 1, axis;

    if (!limber_stated(p, &s, d))
        return false;
    if (!limber_format_embeds(s.fa, LIMBER_F32) || !limber_format_embeds(s.fb, LIMBER_F32))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "an operand does not embed in f32");
    if (s.result.kind != LIMBER_KIND_FLOAT || limber_format_sig(s.result) > 24)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result is no float of at most 24 bits");
    axis = limber_axis_b(p, &s, &mb);
    if (axis == AXIS_all && !fits_range(scheme, &mb, &scale_b, &shared)) {
        axis = AXIS_col; /* windows of different ranges share no scale */
        mb = *s.mb;
    }
    if (!fits_range(scheme, s.ma, &scale_a, d) || !fits_range(scheme, &mb, &scale_b, d))
        return false;
    a = add_limbs(p, scheme, s.a, AXIS_row, scale_a);
    b = add_limbs(p, scheme, s.b, axis, scale_b);
    n = fill_rows(scheme, p->promise == LIMBER_CONTRACT_FAST, tensor && !scheme->shift, table,
                  &p->dropped);
    for (size_t i = 0; i < n; i++)
        accumulators = table[i].acc >= accumulators ? table[i].acc + 1 : accumulators;
    return limber_split_finish(p, &s,
                               &(const struct product_table){ .a = a,
                                                              .b = b,
                                                              .unit = scheme->unit,
                                                              .chunk = CHUNK,
                                                              .row = table,
                                                              .rows = n,
                                                              .accumulators = accumulators,
                                                              .reconstruct = RECONSTRUCT_sum },
                               d) &&
           (!tensor || limber_split_sums(p, t, d));
}
