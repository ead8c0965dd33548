/* SPDX-License-Identifier: BSD-3-Clause
 * What limbs represent of their operand: weights, largest values and errors, from the attributes of
 * their node and the operand's mask. */
#include "passes/limbs.h"
#include "passes/scheme.h"

#include <math.h>

/* True if the operand was scanned. */
static bool has_mask(const struct node *mask)
{
    return limber_node_has(mask, ATTR_emin);
}

/* Returns which elements share a scale. */
static int64_t axis_of(const struct node *limbs)
{
    return limber_node_has(limbs, ATTR_axis) ? limber_attr_number(limbs, ATTR_axis) : AXIS_none;
}

/* Returns true if lines or all elements are multiplied by powers of two before they are split. */
bool limber_limbs_are_scaled(const struct node *limbs)
{
    return axis_of(limbs) != AXIS_none;
}

/* Returns true if all elements are zero, as the attributes of the operand's node say. mask: that
 * node. */
bool limber_is_zero_operand(const struct node *mask)
{
    return has_mask(mask) && limber_attr_number(mask, ATTR_width) == 0;
}

/* Returns by how much the exponents of elements that share a scale may differ; 0 if the operand was
 * not scanned. */
static int64_t spread_of(const struct plan *p, int limbs)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);
    int64_t spread, width;

    if (axis_of(n) == AXIS_none && n->op != OP_hilo) /* the smallest nonzero integer is 1 */
        return limber_attr_number(n, ATTR_bits) - 1;
    if (axis_of(n) == AXIS_row || axis_of(n) == AXIS_col || !has_mask(mask))
        return limber_attr_number(mask, ATTR_spread);
    spread = limber_attr_number(mask, ATTR_emax) - limber_attr_number(mask, ATTR_emin);
    width = limber_width_of_all(mask);
    return spread < width ? spread : width - 1;
}

/* True if the limbs are slices with signed digits. */
static bool is_balanced(const struct node *limbs)
{
    return limbs->op == OP_slices && limber_attr_number(limbs, ATTR_sign) == SIGN_balanced;
}

/* Returns log2 of the weight of limb i: the value that a 1 in this limb stands for, relative to a 1
 * of the scaled element. */
int limber_limb_weight(const struct node *limbs, int i)
{
    switch (limbs->op) {
    case OP_slices: return (int)limber_attr_number(limbs, ATTR_step) * (limbs->type.count - 1 - i);
    case OP_hilo: return -(int)limber_attr_number(limbs, ATTR_shift) * i;
    default: return 0;
    }
}

/* Returns log2 of the largest value of limb i, times its weight, relative to a nonzero element. */
int64_t limber_limb_reach(const struct plan *p, int limbs, int i)
{
    const struct node *n = &p->node[limbs];

    switch (n->op) {
    case OP_slices: /* the smallest element is at least 2^(bits-1-spread) */
        return limber_limb_weight(n, i) + limber_attr_number(n, ATTR_step) - is_balanced(n) -
               (limber_attr_number(n, ATTR_bits) - 1 - spread_of(p, limbs));
    case OP_hilo: return -(int64_t)i * limber_format_sig(n->type.format);
    default: return 0;
    }
}

/* Finds the exponents of scaled elements: 2^low <= |x| < 2^top for each that is not zero. */
void limber_limb_range(const struct plan *p, int limbs, int64_t *low, int64_t *top)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);

    if (n->op == OP_hilo && axis_of(n) != AXIS_none) {
        *top = limber_attr_number(n, ATTR_top);
        *low = *top - 1 - spread_of(p, limbs);
    } else if (has_mask(mask)) {
        *low = limber_attr_number(mask, ATTR_emin);
        *top = limber_attr_number(mask, ATTR_emax) + 1;
    } else {
        *low = limber_format_emin(mask->type.format);
        *top = limber_format_emax(mask->type.format) + 1;
    }
}

/* Returns the bits that scaled integers need to hold every element exactly; INT64_MAX if the
 * operand was not scanned. */
int64_t limber_limb_width(const struct plan *p, int limbs)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);

    if (axis_of(n) == AXIS_none)
        return 0; /* integers that are not scaled */
    if (!has_mask(mask))
        return INT64_MAX;
    return axis_of(n) == AXIS_all ? limber_width_of_all(mask) :
                                    limber_attr_number(mask, ATTR_width);
}

/* Returns the error of an element that is the sum of several floats, relative to the element.
 * Limb i is the rounding, to p significant bits, of what limbs 0 to i - 1 leave, times 2^(i
 * shift).  Limb 0 leaves at most 2^-p of the element; each later limb leaves 2^-(p+1) of what it
 * rounds, or half of the smallest subnormal number times 2^(-i shift).  Infinity if a limb may
 * overflow, or if limb 0 may be subnormal. */
static double hilo_error(const struct plan *p, int limbs)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);
    limber_format f = n->type.format;
    int64_t shift = limber_attr_number(n, ATTR_shift), sig = limber_format_sig(f), low, top,
            error = 0;
    int count = n->type.count, smallest = limber_format_quantum(f) - 1;

    limber_limb_range(p, limbs, &low, &top);
    if (!has_mask(mask) || sig < 8 || shift > sig + 1 || low < 1 - f.bias ||
        top > limber_format_emax(f))
        return INFINITY;
    for (int i = 1; i < count; i++) {
        /* largest exponent of limb i, with its scale 2^(i shift), relative to the element's */
        int64_t reach = i * (shift - sig) - (i - 1);

        if (top - 1 + reach > limber_format_emax(f) || low + reach < smallest + 1)
            return INFINITY;
    }
    if (limber_attr_number(mask, ATTR_sig) <= count * sig &&
        low - limber_attr_number(mask, ATTR_sig) + 1 + (count - 1) * shift > smallest)
        return 0;
    error = -(count * sig + count - 1);
    for (int i = 0; i < count; i++) {
        int64_t cut = smallest - i * shift - (sig + 1) * (count - 1 - i) - low;

        error = cut > error ? cut : error;
    }
    return ldexp(1, (int)error);
}

/* Returns the error that limbs make in one element, relative to the element; infinity if it is
 * unknown. */
double limber_limb_error(const struct plan *p, int limbs)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);
    bool dd = mask->type.format.kind == LIMBER_KIND_DD, nearest = is_balanced(n);
    int64_t spread = axis_of(n) == AXIS_all ?
                         limber_attr_number(mask, ATTR_emax) - limber_attr_number(mask, ATTR_emin) :
                         limber_attr_number(mask, ATTR_spread);

    if (limber_is_zero_operand(mask))
        return 0;
    if (n->op == OP_hilo)
        return hilo_error(p, limbs);
    if ((n->op != OP_slices && n->op != OP_residues) ||
        limber_attr_number(n, ATTR_bits) >= limber_limb_width(p, limbs))
        return 0;
    if (!has_mask(mask))
        return INFINITY;
    /* integers are off by less than 1, or by 1/2 if they are rounded to nearest */
    return ldexp(1 + dd, (int)(spread + !nearest - limber_attr_number(n, ATTR_bits)));
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Returns the bits of the magnitude of integers that are not scaled. */
static int64_t integer_bits(const struct node *mask)
{
    limber_format f = mask->type.format;
    int64_t bits = 8 * f.size - (f.kind == LIMBER_KIND_INT);

    if (has_mask(mask) && limber_attr_number(mask, ATTR_emax) + 1 < bits)
        bits = limber_attr_number(mask, ATTR_emax) + 1;
    return bits;
}

/* Checks that the limbs hold every value.  If the operand may be negative, its slices must be
 * signed.  If it is not scaled, it must hold integers of at most `bits` bits. */
static bool check_integers(const struct node *n, const struct node *mask, struct diag *d)
{
    int64_t bits = limber_attr_number(n, ATTR_bits);

    if (n->op == OP_slices && limber_attr_number(n, ATTR_sign) == SIGN_unsigned &&
        mask->type.format.kind != LIMBER_KIND_UINT &&
        !(has_mask(mask) && limber_attr_number(mask, ATTR_sign) == SIGN_unsigned))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "%%%s: sign=unsigned, but %%%s may be negative", n->name, mask->name);
    if (axis_of(n) != AXIS_none)
        return true;
    if (!limber_is_integer(mask->type.format))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s: axis=none, but %%%s is no integer",
                           n->name, mask->name);
    return bits >= integer_bits(mask) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s: bits=%lld, but %%%s has %lld", n->name,
                       (long long)bits, mask->name, (long long)integer_bits(mask));
}

/* Checks that axis, format and sign of the limbs of A (side 0) or B (side 1) suit the operand.
 * Returns false, with an error, if they do not. */
bool limber_limbs_check(const struct plan *p, int side, struct diag *d)
{
    const struct node *products = limber_plan_find(p, OP_products);
    const struct node *n = &p->node[products->in[side]],
                      *mask = limber_source(p, products->in[side]);
    limber_format from = mask->type.format, to = n->type.format;

    if (axis_of(n) == (side ? AXIS_row : AXIS_col))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s: axis=%s is of the other operand",
                           n->name, side ? "row" : "col");
    switch (n->op) {
    case OP_whole:
        return limber_format_embeds(from, to) ||
               limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s: its format does not hold %%%s",
                           n->name, mask->name);
    case OP_hilo:
        return limber_format_embeds(from, LIMBER_F32) ||
               limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s: %%%s does not embed in f32", n->name,
                           mask->name);
    case OP_slices:
    case OP_residues: return check_integers(n, mask, d);
    default: return true;
    }
}
