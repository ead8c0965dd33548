/* SPDX-License-Identifier: BSD-3-Clause
 * Checks that a plan is well-formed: operands, types, shapes, attributes and their ranges, product
 * tables.  Every message begins with the name of the value that breaks a rule.
 *
 *   proof   that chains are exact: docs/accuracy.md, "Slices (Ozaki I) and bytes" and "Residues
 *           (Ozaki II)" */
#include "ir/verify.h"

#include "ir/num/digits.h"
#include "ir/num/prim_num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number of an attribute. */
static int64_t num(const struct node *n, enum attr a)
{
    return limber_attr_number(n, (enum attr)a);
}

/* Writes a format's name to `text`, and returns `text`. */
static const char *format_name(limber_format f, char text[48])
{
    return limber_format_name(f, text, 48);
}

/* True if f is the format with this name. */
static bool is_format(limber_format f, const char *name)
{
    limber_format g;

    return limber_format_named(name, &g) == LIMBER_STATUS_OK && limber_format_equal(f, g);
}

/* Prints a dimension: a number, or the letter of an open one. */
static const char *dim_text(int64_t v, char text[24])
{
    if (v < 0)
        snprintf(text, 24, "%c", (int)-v);
    else
        snprintf(text, 24, "%lld", (long long)v);
    return text;
}

/* ---- checks that operations share ------------------------------------------------------------ */

/* Checks that an attribute of the value is in [least, most]. */
static bool check_range(const struct check *c, enum attr a, int64_t least, int64_t most)
{
    if (num(c->n, a) >= least && num(c->n, a) <= most)
        return true;
    return bad(c, "%s=%lld is not in %lld..%lld", limber_attrs[a].name, (long long)num(c->n, a),
               (long long)least, (long long)most);
}

/* Checks that an attribute is a list of `count` numbers in [least, most]. */
static bool check_list(const struct check *c, enum attr a, size_t count, int64_t least,
                       int64_t most)
{
    const struct dims_list *l = limber_attr_list(c->n, a);

    if (l->n != count)
        return bad(c, "%s takes %zu numbers, not %zu", limber_attrs[a].name, count, l->n);
    for (size_t i = 0; i < count; i++)
        if (l->v[i] < least || l->v[i] > most)
            return bad(c, "%s: %lld is not in %lld..%lld", limber_attrs[a].name, (long long)l->v[i],
                       (long long)least, (long long)most);
    return true;
}

/* Checks the number of a node's dimensions. */
static bool check_rank(const struct check *c, const struct node *n, int rank)
{
    return n->type.rank == rank ||
           bad(c, "%%%s has %d dimensions, not %d", n->name, n->type.rank, rank);
}

/* Checks that the node's format is one that operands can have. */
static bool check_stored(const struct check *c, const struct node *n)
{
    return n->type.format.kind != LIMBER_KIND_EXACT ||
           bad(c, "%%%s is exact, which is no format of operands", n->name);
}

static bool check_operand(const struct check *c, const struct node *n)
{
    return check_stored(c, n) &&
           (n->type.format.kind != LIMBER_KIND_SIDED ||
            bad(c, "%%%s is sided, which is a format of results only", n->name));
}

/* Checks that the value's dimension i equals the operand's dimension j. */
static bool check_same_dim(const struct check *c, int i, const struct node *o, int j)
{
    char mine[24], theirs[24];

    if (c->n->type.dim[i] == o->type.dim[j])
        return true;
    return bad(c, "dimension %d is %s, but %%%s has %s", i, dim_text(c->n->type.dim[i], mine),
               o->name, dim_text(o->type.dim[j], theirs));
}

/* Checks that the value has the dimensions of operand o. */
static bool check_same_shape(const struct check *c, const struct node *o)
{
    if (!check_rank(c, o, c->n->type.rank))
        return false;
    for (int i = 0; i < c->n->type.rank; i++)
        if (!check_same_dim(c, i, o, i))
            return false;
    return true;
}

/* Checks that the value has the format of operand o. */
static bool check_same_format(const struct check *c, const struct node *o)
{
    char mine[48], theirs[48];

    return limber_format_equal(c->n->type.format, o->type.format) ||
           bad(c, "is %s, but %%%s is %s", format_name(c->n->type.format, mine), o->name,
               format_name(o->type.format, theirs));
}

/* Returns the number of groups of the convolution to which operand i belongs; 1 for a plain
 * matrix. */
static int64_t group_count(const struct check *c, int i)
{
    const struct node *map = limber_plan_map(c->p, c->n->in[i]);

    return map && limber_node_has(map, ATTR_groups) ? num(map, ATTR_groups) : 1;
}

/* Checks that the value's operand i comes from the call's operand number `index`. */
static bool check_factor(const struct check *c, int i, int64_t index)
{
    int64_t is = num(limber_source(c->p, c->n->in[i]), ATTR_index);

    return is == index || bad(c, "factor %d is operand %lld of the call, not %lld", i,
                              (long long)is, (long long)index);
}

/* Checks that both factors are matrices of the call, or that they are filters and patches.  The
 * call's operand 0 is then the image. */
static bool check_factors(const struct check *c)
{
    const struct node *a = limber_plan_map(c->p, c->n->in[0]),
                      *b = limber_plan_map(c->p, c->n->in[1]);

    if ((a || b) && !(a && b && a->op == OP_filters && b->op == OP_patches))
        return bad(c, "its factors are neither two matrices nor filters and patches");
    return check_factor(c, 0, a != NULL) && check_factor(c, 1, a == NULL);
}

/* Checks that the value is [m,n], from operands [m,k] and [k,n]. */
static bool check_product_shape(const struct check *c)
{
    const struct node *a = in(c, 0), *b = in(c, 1);
    char ka[24], kb[24];

    if (!check_rank(c, c->n, 2) || !check_rank(c, a, 2) || !check_rank(c, b, 2))
        return false;
    if (a->type.dim[1] != b->type.dim[0])
        return bad(c, "inner dimensions differ: %%%s has %s, %%%s has %s", a->name,
                   dim_text(a->type.dim[1], ka), b->name, dim_text(b->type.dim[0], kb));
    if (limber_plan_order(c->p, c->n->in[0]) != limber_plan_order(c->p, c->n->in[1]))
        return bad(c, "%%%s and %%%s run along k in different orders", a->name, b->name);
    if (group_count(c, 0) != group_count(c, 1))
        return bad(c, "%%%s is of %lld groups, %%%s of %lld", a->name, (long long)group_count(c, 0),
                   b->name, (long long)group_count(c, 1));
    return check_same_dim(c, 0, a, 0) && check_same_dim(c, 1, b, 1) && check_factors(c);
}

/* ---- operations that state a problem --------------------------------------------------------- */

/* Checks an operand: its index is used once, and its exponents, bits and signs (the results of a
 * scan) are possible. */
static bool check_arg(const struct check *c)
{
    const struct node *n = c->n;

    for (const struct node *o = c->p->node; o < n; o++)
        if (o->op == OP_arg &&
            limber_attr_number(o, ATTR_index) == limber_attr_number(n, ATTR_index))
            return bad(c, "index=%lld is %%%s's already", (long long)num(n, ATTR_index), o->name);
    if (!check_stored(c, n) || !check_range(c, ATTR_index, 0, 15))
        return false;
    if (!limber_node_has(n, ATTR_emin))
        return true;
    if (!check_range(c, ATTR_emin, -40000, 40000) || !check_range(c, ATTR_emax, -40000, 40000) ||
        !check_range(c, ATTR_spread, 0, 80000) || !check_range(c, ATTR_width, 0, 80000) ||
        !check_range(c, ATTR_sig, 0, 80000) || !check_range(c, ATTR_special, 0, 1) ||
        (limber_node_has(n, ATTR_reach) && !check_range(c, ATTR_reach, 1, 80000)))
        return false;
    if (num(n, ATTR_emin) > num(n, ATTR_emax))
        return bad(c, "emin=%lld is above emax=%lld", (long long)num(n, ATTR_emin),
                   (long long)num(n, ATTR_emax));
    if (!num(n, ATTR_width) && (num(n, ATTR_spread) || num(n, ATTR_sig)))
        return bad(c, "width=0 says zeros, spread and sig say numbers");
    return true;
}

/* Checks a matrix product. */
static bool check_gemm(const struct check *c)
{
    return check_operand(c, in(c, 0)) && check_operand(c, in(c, 1)) && check_product_shape(c);
}

/* Indices of a tensor's dimensions, which are n c h w (o c h w) or n c d h w, whatever the layout
 * in memory: the channels, and the first dimension of pixels. */
enum { CHANNELS = 1, SIDES = 2 };

/* Checks that the node is an image: a tensor of four dimensions or, with depth, of five. */
static bool check_image_rank(const struct check *c, const struct node *n)
{
    return n->type.rank == SIDES + 3 || check_rank(c, n, SIDES + 2);
}

/* Checks stride, padding and dilation of a convolution. */
static bool check_window(const struct check *c)
{
    size_t sides = (size_t)(in(c, 0)->type.rank - SIDES);

    return check_list(c, ATTR_stride, sides, 1, INT32_MAX) &&
           check_list(c, ATTR_pad, 2 * sides, 0, INT32_MAX) &&
           check_list(c, ATTR_dilate, sides, 1, INT32_MAX);
}

/* Checks dimension i of a convolution's result: it must be (x + pads - dilate (w - 1) - 1) / stride
 * + 1, rounded down, where the image has x pixels and the window w. */
static bool check_side(const struct check *c, int i)
{
    const struct node *n = c->n;
    int at = SIDES + i;
    int64_t x = in(c, 0)->type.dim[at], w = in(c, 1)->type.dim[at], y = n->type.dim[at];
    int64_t dilate = limber_attr_list(n, ATTR_dilate)->v[i],
            stride = limber_attr_list(n, ATTR_stride)->v[i], reach, last;

    if (x < 0 || w < 0 || y < 0)
        return true;
    if (w < 1 || w - 1 > ((int64_t)1 << 48) / dilate)
        return bad(c, "a window of %lld spread by %lld", (long long)w, (long long)dilate);
    reach = dilate * (w - 1);
    last = x + limber_attr_list(n, ATTR_pad)->v[2 * i] +
           limber_attr_list(n, ATTR_pad)->v[2 * i + 1] - reach - 1;
    if (last < 0)
        return bad(c, "the window reaches over %lld, the padded image has %lld",
                   (long long)reach + 1, (long long)(last + reach + 1));
    return y == last / stride + 1 || bad(c, "dimension %d is %lld, the window gives %lld", at,
                                         (long long)y, (long long)(last / stride + 1));
}

/* Checks that channels and filters agree with the number of groups. */
static bool check_conv_channels(const struct check *c)
{
    const struct node *n = c->n, *x = in(c, 0), *w = in(c, 1);
    int64_t groups = num(n, ATTR_groups);
    int64_t cx = x->type.dim[CHANNELS], cw = w->type.dim[CHANNELS], o = w->type.dim[0];

    if (cx >= 0 && cw >= 0 && (cx % groups || cx / groups != cw))
        return bad(c, "%%%s has %lld channels, %%%s %lld in each of %lld groups", x->name,
                   (long long)cx, w->name, (long long)cw, (long long)groups);
    if (o >= 0 && o % groups)
        return bad(c, "%lld groups do not divide the %lld filters of %%%s", (long long)groups,
                   (long long)o, w->name);
    return true;
}

/* True if the convolution computes the result, not a gradient. */
static bool is_forward(const struct node *n)
{
    return limber_attr_number(n, ATTR_direction) == DIRECTION_forward;
}

/* Checks a convolution.  Sizes are checked for the forward direction only. */
static bool check_conv(const struct check *c)
{
    const struct node *n = c->n, *x = in(c, 0), *w = in(c, 1);

    if (!check_operand(c, x) || !check_operand(c, w) || !check_image_rank(c, x) ||
        !check_rank(c, n, x->type.rank) || !check_rank(c, w, x->type.rank) || !check_window(c) ||
        !check_factor(c, 0, 0) || !check_factor(c, 1, 1) ||
        !check_range(c, ATTR_groups, 1, INT32_MAX))
        return false;
    if (!is_forward(n))
        return true;
    for (int i = 0; i < x->type.rank - SIDES; i++)
        if (!check_side(c, i))
            return false;
    return check_conv_channels(c) && check_same_dim(c, 0, x, 0) &&
           check_same_dim(c, CHANNELS, w, 0);
}

/* ---- maps from images to matrices ------------------------------------------------------------ */

/* Checks the operation `patches`, which views an image as a matrix. */
static bool check_patches(const struct check *c)
{
    return check_operand(c, in(c, 0)) && check_image_rank(c, in(c, 0)) && check_rank(c, c->n, 2) &&
           check_window(c) && check_range(c, ATTR_groups, 1, INT32_MAX) &&
           check_same_format(c, in(c, 0));
}

/* Returns the product of dimensions [from, to) without `skip`; -1 if one of them is a letter or the
 * product is too large. */
static int64_t count_elements(const struct node *n, int from, int to, int skip)
{
    int64_t all = 1;

    for (int i = from; i < to; i++) {
        if (i == skip)
            continue;
        if (n->type.dim[i] < 0 || (n->type.dim[i] && all > ((int64_t)1 << 60) / n->type.dim[i]))
            return -1;
        all *= n->type.dim[i];
    }
    return all;
}

/* Checks that dimension i of a matrix is `want`, which was computed from the tensor's dimensions.
 * If `want` is negative, it is not known, and there is no check. */
static bool check_folded(const struct check *c, const struct node *matrix, int i, int64_t want)
{
    int64_t have = matrix->type.dim[i];

    return have < 0 || want < 0 || have == want ||
           bad(c, "dimension %d of %%%s is %lld, the tensor's make %lld", i, matrix->name,
               (long long)have, (long long)want);
}

/* Returns dimension i of a tensor divided by the number of groups; -1 for a letter. */
static int64_t group_dim(const struct check *c, const struct node *tensor, int i)
{
    return tensor->type.dim[i] < 0 ? -1 : tensor->type.dim[i] / num(c->n, ATTR_groups);
}

/* Checks the operation `filters`, which views filters as a matrix: one row per filter in the
 * forward convolution. */
static bool check_filters(const struct check *c)
{
    const struct node *w = in(c, 0);

    return check_operand(c, w) && check_image_rank(c, w) && check_rank(c, c->n, 2) &&
           check_same_format(c, w) && check_range(c, ATTR_groups, 1, INT32_MAX) &&
           (!is_forward(c->n) ||
            (check_folded(c, c->n, 0, group_dim(c, w, 0)) &&
             check_folded(c, c->n, 1, count_elements(w, 1, w->type.rank, -1))));
}

/* Checks the operation `image`, which views a matrix as an image: one row per channel in the
 * forward convolution. */
static bool check_image(const struct check *c)
{
    const struct node *n = c->n, *flat = in(c, 0);

    return check_rank(c, flat, 2) && check_image_rank(c, n) && check_same_format(c, flat) &&
           check_range(c, ATTR_groups, 1, INT32_MAX) &&
           (!is_forward(n) ||
            (check_folded(c, flat, 0, group_dim(c, n, CHANNELS)) &&
             check_folded(c, flat, 1, count_elements(n, 0, n->type.rank, CHANNELS))));
}

/* ---- operations that make limbs -------------------------------------------------------------- */

/* Checks what holds for all operations that make limbs: the limbs have the shape of the operand. */
static bool check_limbs(const struct check *c)
{
    return check_rank(c, c->n, 2) && check_same_shape(c, in(c, 0)) && check_operand(c, in(c, 0)) &&
           check_operand(c, c->n);
}

/* Checks `whole`, which gives one limb. */
static bool check_whole(const struct check *c)
{
    if (!check_limbs(c))
        return false;
    return c->n->type.count == 1 || bad(c, "whole gives one limb, not %d", c->n->type.count);
}

/* Checks `quantize`, which gives one limb for a simulated unit. */
static bool check_quantize(const struct check *c)
{
    if (!check_limbs(c))
        return false;
    if (c->n->type.count != 1)
        return bad(c, "quantize gives one limb, not %d", c->n->type.count);
    return c->p->model || bad(c, "the plan has no model to load for");
}

/* Checks `hilo`: there are at least two limbs, and they are floats. */
static bool check_hilo(const struct check *c)
{
    if (!check_limbs(c) || !check_range(c, ATTR_top, -20000, 20000) ||
        !check_range(c, ATTR_shift, 0, 64))
        return false;
    if (c->n->type.count < 2)
        return bad(c, "hilo gives two limbs or more");
    return c->n->type.format.kind == LIMBER_KIND_FLOAT || bad(c, "the limbs are no floats");
}

/* largest number of bits of scaled integers, which kernels hold in 192 bits */
enum { MOST_BITS = 165 };

/* True if the format is i8 or u8. */
static bool is_byte(limber_format f)
{
    return is_format(f, "i8") || is_format(f, "u8");
}

/* True if the limbs are slices with signed digits. */
static bool is_balanced(const struct node *n)
{
    return n->op == OP_slices && num(n, ATTR_sign) == SIGN_balanced;
}

/* Checks slices.  They are digits of an integer whose sign takes one bit.  A byte holds eight bits
 * of a slice, with or without sign.  Signed digits in a float may be as large as 2^(its significant
 * bits), so they may have one bit more.  Signed digits in bytes end at 127, so the top one needs a
 * further bit. */
static bool check_slices(const struct check *c)
{
    const struct node *n = c->n;
    int64_t bits, step, slices;
    bool balanced = is_balanced(n);
    int most = is_byte(n->type.format) ? 8 : limber_format_sig(n->type.format) + balanced;
    char name[48];

    if (!check_limbs(c) || !check_range(c, ATTR_bits, 1, MOST_BITS) ||
        !check_range(c, ATTR_step, 1, 31))
        return false;
    bits = num(n, ATTR_bits) + (num(n, ATTR_sign) != SIGN_unsigned) +
           (balanced && is_byte(n->type.format));
    step = num(n, ATTR_step);
    slices = (bits + step - 1) / step;
    if (!balanced && is_format(n->type.format, "e4m3"))
        return bad(c, "slices in e4m3 are balanced");
    if (balanced && is_format(n->type.format, "u8"))
        return bad(c, "slices in u8 are not balanced");
    if (step > most)
        return bad(c, "step=%lld, but %s holds %d bits", (long long)step,
                   format_name(n->type.format, name), most);
    if (n->type.count != slices)
        return bad(c, "%lld bits make %lld slices of %lld, not %d", (long long)bits,
                   (long long)slices, (long long)step, n->type.count);
    return n->type.format.kind == LIMBER_KIND_FLOAT || is_byte(n->type.format) ||
           bad(c, "slices are floats, i8 or u8");
}

/* Returns the greatest common divisor of a and b. */
static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* Checks that moduli are in 2..most and pairwise coprime. digits: true if neighbouring limbs may be
 * digits of one residue, and then have the same modulus. */
static bool check_moduli(const struct check *c, int64_t most, bool digits)
{
    const struct dims_list *l = limber_attr_list(c->n, ATTR_moduli);
    size_t limit = digits ? 64 * LIMBER_DIGITS : 64;

    if (l->n > limit)
        return bad(c, "moduli: %zu, at most %zu", l->n, limit);
    if (!check_list(c, ATTR_moduli, l->n, 2, most))
        return false;
    for (size_t i = 0; i < l->n; i++)
        for (size_t j = 0; j < i; j++)
            if (gcd(l->v[i], l->v[j]) != 1 &&
                !(digits && l->v[i] == l->v[j] && l->v[i] == l->v[i - 1]))
                return bad(c, "moduli: %lld and %lld have a common divisor", (long long)l->v[j],
                           (long long)l->v[i]);
    return true;
}

/* Returns the number of limbs from limb i on that are digits of one residue. */
static int digits_at(const struct dims_list *moduli, size_t i)
{
    int count = 1;

    while (i + (size_t)count < moduli->n && moduli->v[i + (size_t)count] == moduli->v[i])
        count++;
    return count;
}

/* Checks that each residue in e4m3 has a known number of digits. */
static bool check_digits(const struct check *c)
{
    const struct dims_list *moduli = limber_attr_list(c->n, ATTR_moduli);

    for (size_t i = 0; i < moduli->n; i += (size_t)digits_at(moduli, i))
        if (!limber_digits_of(moduli->v[i], digits_at(moduli, i)))
            return bad(c, "moduli: there are no %d digits in e4m3 of residues modulo %lld",
                       digits_at(moduli, i), (long long)moduli->v[i]);
    return true;
}

/* Checks residues: their format, signs and moduli. */
static bool check_residues(const struct check *c)
{
    const struct node *n = c->n;
    bool is_signed = num(n, ATTR_sign) == SIGN_signed;
    bool words = is_signed && is_format(n->type.format, "i16");
    bool digits = is_signed && is_format(n->type.format, "e4m3");

    if (!check_limbs(c) || !check_range(c, ATTR_bits, 1, MOST_BITS) ||
        !check_moduli(c, words ? 4096 : 256, digits) || (digits && !check_digits(c)))
        return false;
    if ((size_t)n->type.count != limber_attr_list(n, ATTR_moduli)->n)
        return bad(c, "%zu moduli make as many limbs, not %d", limber_attr_list(n, ATTR_moduli)->n,
                   n->type.count);
    return words || digits || is_format(n->type.format, is_signed ? "i8" : "u8") ||
           (is_signed && is_format(n->type.format, "f16")) ||
           bad(c,
               is_signed ? "signed residues are i8, i16, f16 or e4m3" : "unsigned residues are u8");
}

/* ---- products of limbs, and limits of their sums --------------------------------------------- */

/* Returns the largest magnitude of an integer limb.  Backends may store residues in 16-bit words
 * that are up to one modulus off the symmetric range, with a magnitude up to half the modulus
 * plus one. */
static int64_t largest_limb(const struct node *n)
{
    int64_t most = 0;

    switch (n->op) {
    case OP_slices:
        return is_balanced(n) ? (int64_t)1 << (num(n, ATTR_step) - 1) :
                                ((int64_t)1 << num(n, ATTR_step)) - 1;
    case OP_residues:
        for (size_t i = 0; i < limber_attr_list(n, ATTR_moduli)->n; i++)
            most = limber_attr_list(n, ATTR_moduli)->v[i] > most ?
                       limber_attr_list(n, ATTR_moduli)->v[i] :
                       most;
        return n->type.format.kind == LIMBER_KIND_UINT ?
                   /* for an even modulus p below 256, GPUs may also store p itself */
                   most - (most % 2 == 1 || most == 256) :
                   most / 2 + is_format(n->type.format, "i16");
    default: return n->type.format.kind == LIMBER_KIND_INT ? 128 : 255;
    }
}

/* Checks that a sum of `chunk` products of bytes or 16-bit words fits an i32, or a u32 if no limb
 * is negative.  With 16-bit words a sum begins with a remainder below 4096 of earlier chunks. */
static bool check_integer_chain(const struct check *c)
{
    const struct node *a = in(c, 0), *b = in(c, 1);
    bool positive =
        a->type.format.kind == LIMBER_KIND_UINT && b->type.format.kind == LIMBER_KIND_UINT;
    int64_t most = largest_limb(a) * largest_limb(b), limit = positive ? UINT32_MAX : INT32_MAX;

    limit -= num(c->n, ATTR_unit) == UNIT_i16 ? 4096 : 0;
    return num(c->n, ATTR_chunk) <= limit / (most ? most : 1) ||
           bad(c, "chunk=%lld overflows 32 bits: limbs reach %lld and %lld",
               (long long)num(c->n, ATTR_chunk), (long long)largest_limb(a),
               (long long)largest_limb(b));
}

/* Returns the largest product of a digit of A and a digit of B, if residues are written as digits.
 * Sets reach to the largest digits of A and of B that have this product. */
static int64_t largest_product(const struct node *n, int64_t reach[2])
{
    const struct dims_list *moduli = limber_attr_list(n, ATTR_moduli);

    reach[0] = reach[1] = 0;
    for (size_t i = 0; i < moduli->n; i += (size_t)digits_at(moduli, i)) {
        const struct limber_digits *d = limber_digits_of(moduli->v[i], digits_at(moduli, i));

        if (d && d->reach[0] * d->reach[1] > reach[0] * reach[1]) {
            reach[0] = d->reach[0];
            reach[1] = d->reach[1];
        }
    }
    return reach[0] * reach[1];
}

/* Checks that a unit's float accumulator holds sums of products of residues exactly, and that
 * totals are i64. */
static bool check_residue_chain(const struct check *c, const struct unit_info *unit)
{
    int64_t reach[2] = { largest_limb(in(c, 0)), largest_limb(in(c, 1)) };
    int64_t most =
        num(c->n, ATTR_unit) == UNIT_e4m3 ? largest_product(in(c, 0), reach) : reach[0] * reach[1];

    if (num(c->n, ATTR_chunk) > ((int64_t)1 << limber_exact_bits(c->n)) / most)
        return bad(c, "chains of %lld are not exact: residues reach %lld and %lld, unit %s has %d",
                   (long long)num(c->n, ATTR_chunk), (long long)reach[0], (long long)reach[1],
                   unit->name, limber_exact_bits(c->n));
    return is_format(c->n->type.format, "i64") ||
           bad(c, "totals of residues are i64, not %s",
               format_name(c->n->type.format, (char[48]){ 0 }));
}

/* Checks that a unit's float accumulator sums `chunk` products of slices without rounding.  The sum
 * needs stepA + stepB + log2(chunk) bits (step: bits of a slice), one less for each operand with
 * signed digits.  The format of the total must be i64.  Products of residues have a check of their
 * own. */
static bool check_slice_chain(const struct check *c, const struct unit_info *unit)
{
    const struct node *a = in(c, 0), *b = in(c, 1);
    int64_t bits = num(a, ATTR_step) + num(b, ATTR_step), chunk = num(c->n, ATTR_chunk);
    int exact = limber_exact_bits(c->n);
    char name[48];

    if (a->op == OP_residues && b->op == OP_residues)
        return check_residue_chain(c, unit);
    if (a->op != OP_slices || b->op != OP_slices)
        return !is_format(c->n->type.format, "i64") ||
               bad(c, "only slices and residues have exact totals on unit %s", unit->name);
    for (int64_t reach = 1; reach < chunk; reach *= 2)
        bits++;
    bits -= is_balanced(a) + is_balanced(b);
    if (bits > exact)
        return bad(c,
                   "chains of %lld are not exact: steps %lld and %lld need %lld bits, unit %s "
                   "has %d",
                   (long long)chunk, (long long)num(a, ATTR_step), (long long)num(b, ATTR_step),
                   (long long)bits, unit->name, exact);
    return is_format(c->n->type.format, "i64") ||
           bad(c, "totals of slices are i64, not %s", format_name(c->n->type.format, name));
}

/* Checks that the unit can multiply limbs of this operation and format. */
static bool check_unit_takes(const struct check *c, const struct node *limb,
                             const struct unit_info *unit)
{
    char name[48];

    if (!(limber_ops[limb->op].flags & OP_MANY) || limb->op == OP_products)
        return bad(c, "%%%s is no set of limbs", limb->name);
    if (num(c->n, ATTR_unit) == UNIT_exact)
        return (limb->op == OP_whole &&
                limber_format_equal(limb->type.format, c->p->node[limb->in[0]].type.format)) ||
               bad(c, "unit exact takes whole operands, in their own format");
    if (limb->op == OP_quantize && num(c->n, ATTR_unit) == UNIT_f64)
        return (limber_unit_is_chain(c->p->model) && is_format(limb->type.format, "f64")) ||
               bad(c, "the model is no chain of binary64, whose operands unit f64 takes");
    if ((num(c->n, ATTR_unit) == UNIT_model) != (limb->op == OP_quantize))
        return bad(c, "unit model takes quantized operands, and nothing else does");
    if (num(c->n, ATTR_unit) == UNIT_i16 && limb->op != OP_residues)
        return bad(c, "unit i16 takes residues");
    if (num(c->n, ATTR_unit) == UNIT_i8 ? is_byte(limb->type.format) :
                                          is_format(limb->type.format, unit->in))
        return true;
    if (num(c->n, ATTR_unit) == UNIT_model && is_format(limb->type.format, "f64"))
        return true;
    return bad(c, "unit %s does not take %%%s: %s", unit->name, limb->name,
               format_name(limb->type.format, name));
}

/* Checks that the unit can multiply these limbs, and that the sums of exact chains fit its
 * accumulator. */
static bool check_unit(const struct check *c)
{
    int64_t u = num(c->n, ATTR_unit);
    const struct unit_info *unit = &limber_units[u];
    bool integer = limber_rated_unit(u) == UNIT_i8;
    const char *acc = integer ? "i64" : unit->acc;
    char name[48];

    if (!check_unit_takes(c, in(c, 0), unit) || !check_unit_takes(c, in(c, 1), unit) ||
        !check_range(c, ATTR_chunk, 1, (int64_t)1 << 62))
        return false;
    if (!is_format(c->n->type.format, acc) &&
        (u == UNIT_exact || !is_format(c->n->type.format, "i64")))
        return bad(c, "unit %s totals in %s, not in %s", unit->name, acc,
                   format_name(c->n->type.format, name));
    if (u == UNIT_exact)
        return true;
    return integer ? check_integer_chain(c) : check_slice_chain(c, unit);
}

/* Checks row i of a product table. seen: a set of bits, for the pairs of limbs in earlier rows. */
static bool check_row(const struct check *c, size_t i, unsigned char *seen)
{
    const struct row *r = &c->n->row[i];
    int na = in(c, 0)->type.count, nb = in(c, 1)->type.count;
    size_t pair = (size_t)r->a * (size_t)nb + (size_t)r->b;

    if (r->a < 0 || r->a >= na || r->b < 0 || r->b >= nb)
        return bad(c, "row %zu: there is no limb %%%s.%d", i,
                   r->a < 0 || r->a >= na ? in(c, 0)->name : in(c, 1)->name,
                   r->a < 0 || r->a >= na ? r->a : r->b);
    if (r->acc < 0 || r->acc >= c->n->type.count)
        return bad(c, "row %zu: there is no accumulator %d", i, r->acc);
    if (r->weight < -40000 || r->weight > 40000)
        return bad(c, "row %zu: its weight is 2^%d", i, r->weight);
    if (!(r->share >= 0))
        return bad(c, "row %zu: its share is no positive number", i);
    if (seen[pair / 8] >> pair % 8 & 1)
        return bad(c, "row %zu: limbs %d and %d are multiplied twice", i, r->a, r->b);
    seen[pair / 8] |= (unsigned char)(1 << pair % 8);
    return true;
}

/* Checks that all rows of the product table that add to one accumulator have the same weight. */
static bool check_weights(const struct check *c)
{
    int first[4096];

    for (int i = 0; i < c->n->type.count; i++)
        first[i] = INT32_MIN;
    for (size_t i = 0; i < c->n->rows; i++) {
        const struct row *r = &c->n->row[i];

        if (first[r->acc] == INT32_MIN)
            first[r->acc] = r->weight;
        else if (first[r->acc] != r->weight)
            return bad(c, "row %zu: accumulator %d counts 2^%d, not 2^%d", i, r->acc, first[r->acc],
                       r->weight);
    }
    return true;
}

/* Checks all rows of a product table. */
static bool check_rows(const struct check *c)
{
    size_t pairs = (size_t)in(c, 0)->type.count * (size_t)in(c, 1)->type.count;
    unsigned char *seen = calloc(pairs / 8 + 1, 1);
    bool ok = seen || limber_fail(c->d, LIMBER_STATUS_NO_MEMORY, "verify: out of memory");

    for (size_t i = 0; ok && i < c->n->rows; i++)
        ok = check_row(c, i, seen);
    free(seen);
    return ok && check_weights(c);
}

/* Checks split=inside, which makes Hi/Lo limbs inside the multiply kernel from elements of a plain
 * matrix of f32. */
static bool check_inside(const struct check *c)
{
    for (int i = 0; i < 2 && num(c->n, ATTR_split) == SPLIT_inside; i++) {
        const struct node *x = &c->p->node[in(c, i)->in[0]];

        if (in(c, i)->op != OP_hilo || x->op != OP_arg || !is_format(x->type.format, "f32"))
            return bad(c, "split=inside, but %%%s are no hilo of a matrix of f32", in(c, i)->name);
    }
    return true;
}

/* Checks the order of sums that the contract `reproducible` promises: docs/accuracy.md, "The stated
 * order". */
static bool check_stated_order(const struct check *c)
{
    int64_t unit = limber_attr_number(c->n, ATTR_unit);

    if (c->p->promise != LIMBER_CONTRACT_REPRODUCIBLE)
        return true;
    if (unit != UNIT_f64 && unit != UNIT_f32)
        return bad(c, "reproducible sums are of f64 or f32, not %s", limber_units[unit].name);
    if (c->n->rows != 1 || c->n->row->weight != 0 || in(c, 0)->op != OP_whole ||
        in(c, 1)->op != OP_whole)
        return bad(c, "a reproducible sum is one of whole elements");
    if (limber_attr_number(c->n, ATTR_sums) != SUMS_fma || num(c->n, ATTR_chunk) != NATIVE_CHAIN)
        return bad(c, "reproducible chains are of %d fused multiply-adds", NATIVE_CHAIN);
    return limber_plan_order(c->p, c->n->in[1]) == ORDER_crs ||
           bad(c, "reproducible sums of a convolution run in the order crs");
}

/* Checks `products`: shape, unit, rows, order of sums, tile. */
static bool check_products(const struct check *c)
{
    int64_t sums = limber_attr_number(c->n, ATTR_sums), unit = limber_attr_number(c->n, ATTR_unit);
    limber_unit core;

    if (!check_product_shape(c) || !check_unit(c) || !check_rows(c))
        return false;
    if (sums == SUMS_any && unit != UNIT_f64 && unit != UNIT_f32)
        return bad(c, "sums=any, but products are of %s", limber_units[unit].name);
    if (unit == UNIT_model && sums != SUMS_fma &&
        (sums != SUMS_b200 || !limber_unit_block_scaled(c->p->model)))
        return bad(c, "no instruction of this kind computes what the model does");
    if (unit != UNIT_model && sums != SUMS_fma && sums != SUMS_any &&
        !limber_unit_of_sums(c->n, &core))
        return bad(c, "no tensor core of this kind multiplies %s", limber_units[unit].name);
    return (!limber_node_has(c->n, ATTR_tile) || check_list(c, ATTR_tile, 6, 1, INT64_MAX)) &&
           limber_verify_accumulators(c) && check_inside(c) && check_stated_order(c);
}

/* ---- operations that combine and store results ----------------------------------------------- */

/* Returns true if `limbs` consists of the moduli in this order, each as often as its residues have
 * digits. */
static bool are_moduli_of(const struct dims_list *moduli, const struct dims_list *limbs)
{
    size_t l = 0;

    for (size_t i = 0; i < limbs->n; i += (size_t)digits_at(limbs, i))
        if (l == moduli->n || limbs->v[i] != moduli->v[l++])
            return false;
    return l == moduli->n;
}

/* Checks a combination by CRT: both operands consist of residues of these moduli, and each row
 * multiplies two limbs of its accumulator's modulus. */
static bool check_crt(const struct check *c, const struct node *table)
{
    const struct dims_list *moduli = limber_attr_list(c->n, ATTR_moduli), *limbs[2];

    if (!check_moduli(c, 4096, false))
        return false;
    if ((size_t)table->type.count != moduli->n)
        return bad(c, "%zu moduli, but %%%s has %d accumulators", moduli->n, table->name,
                   table->type.count);
    for (int i = 0; i < 2; i++) {
        const struct node *r = &c->p->node[table->in[i]];

        if (r->op != OP_residues || !are_moduli_of(moduli, limber_attr_list(r, ATTR_moduli)))
            return bad(c, "%%%s are no residues of these moduli", r->name);
        limbs[i] = limber_attr_list(r, ATTR_moduli);
    }
    for (size_t i = 0; i < table->rows; i++)
        if (table->row[i].a != table->row[i].b ||
            limbs[0]->v[table->row[i].a] != moduli->v[table->row[i].acc])
            return bad(c, "row %zu of %%%s mixes moduli", i, table->name);
    return true;
}

/* Checks `uncertain`.  With CRT, the error of an integer is below 2^uncertain.  For a chain of
 * elements in f64, it is below 2^uncertain times the norms of its row and its column.  Then the
 * operands' formats must embed in f32, so that binary64 holds the squares in these norms. */
static bool check_uncertain(const struct check *c, const struct node *table, int64_t reconstruct)
{
    if (reconstruct == RECONSTRUCT_crt)
        return check_range(c, ATTR_uncertain, 0, 400);
    if (reconstruct != RECONSTRUCT_sum || num(table, ATTR_unit) != UNIT_f64 || table->rows != 1)
        return bad(c, "only crt and one product on f64 are uncertain");
    for (int i = 0; i < 2; i++) {
        const struct node *limbs = &c->p->node[table->in[i]];

        if (limbs->op != OP_whole ||
            !limber_format_embeds(c->p->node[limbs->in[0]].type.format, LIMBER_F32))
            return bad(c, "%%%s is no operand that embeds in f32", limbs->name);
    }
    return check_range(c, ATTR_uncertain, -60, -1);
}

enum { MOST_SHIFT = 1900 }; /* largest weight of an accumulator (log2), in integers of 2048 bits */

/* Checks `combine`: its operand is a product table, whose totals must suit the way of
 * reconstruction. */
static bool check_combine(const struct check *c)
{
    const struct node *table = in(c, 0);
    int64_t reconstruct = num(c->n, ATTR_reconstruct);
    bool exact = c->n->type.format.kind == LIMBER_KIND_EXACT;

    if (table->op != OP_products)
        return bad(c, "%%%s is no table of products", table->name);
    if (!check_same_shape(c, table))
        return false;
    for (size_t i = 0; reconstruct == RECONSTRUCT_shift && i < table->rows; i++)
        if (table->row[i].weight < 0 || table->row[i].weight > MOST_SHIFT)
            return bad(c, "row %zu of %%%s is shifted by %d bits", i, table->name,
                       table->row[i].weight);
    if (reconstruct != RECONSTRUCT_crt && limber_node_has(c->n, ATTR_moduli))
        return bad(c, "only crt has moduli");
    if (limber_node_has(c->n, ATTR_uncertain) && !check_uncertain(c, table, reconstruct))
        return false;
    if (reconstruct != RECONSTRUCT_sum && !is_format(table->type.format, "i64"))
        return bad(c, "%s needs totals of i64", reconstruct == RECONSTRUCT_crt ? "crt" : "shift");
    if (reconstruct != RECONSTRUCT_sum ? !exact :
                                         exact != (table->type.format.kind == LIMBER_KIND_EXACT))
        return bad(c, exact ? "a sum of floats is not exact" : "its value is exact");
    if (!exact && c->n->type.format.kind != LIMBER_KIND_FLOAT)
        return bad(c, "a sum of floats is a float");
    return reconstruct != RECONSTRUCT_crt || check_crt(c, table);
}

/* Checks `epilogue`: beta needs a second operand, and attributes of integers are used for integers
 * only. */
static bool check_epilogue(const struct check *c)
{
    bool two = num(c->n, ATTR_beta) != 0;
    bool reports = limber_num_is_int(c->n->type.format) && !num(c->n, ATTR_wrap);
    char name[48];

    if (!check_stored(c, c->n) || !check_range(c, ATTR_wrap, 0, 1) ||
        !check_same_shape(c, in(c, 0)))
        return false;
    if (c->n->nin != 1 + two)
        return bad(c, two ? "beta=arg needs the value that beta scales" :
                            "beta=zero takes no second operand");
    if (num(c->n, ATTR_wrap) && !limber_num_is_int(c->n->type.format))
        return bad(c, "wrap=1, but %s does not wrap", format_name(c->n->type.format, name));
    if (limber_node_has(c->n, ATTR_integral) && !check_range(c, ATTR_integral, 1, 1))
        return false;
    if (limber_node_has(c->n, ATTR_integral) && !reports)
        return bad(c, "integral=1 is of integers that do not wrap");
    if (c->p->promise == LIMBER_CONTRACT_EXACT && reports && !limber_node_has(c->n, ATTR_integral))
        return bad(c, "the promise exact needs integral=1");
    return !two || (check_same_shape(c, in(c, 1)) && check_same_format(c, in(c, 1)));
}

/* ---- the plan -------------------------------------------------------------------------------- */

static bool (*const check[OP_count])(const struct check *) = {
#define OP(name, least, most, attributes, flags) [OP_##name] = check_##name,
#include "ir/ops.h"
};

/* Checks one operation: what holds for all operations, then what holds for its own kind. */
static bool check_node(const struct check *c)
{
    if ((unsigned)c->n->op >= OP_count)
        return bad(c, "operation %d is unknown", (int)c->n->op);
    if (c->n->op != OP_slices && limber_node_has(c->n, ATTR_sign) &&
        num(c->n, ATTR_sign) == SIGN_balanced)
        return bad(c, "sign=balanced is for slices");
    return limber_verify_node(c) && check[c->n->op](c);
}

/* Checks that a plan is complete and all its values are consistent. */
bool limber_plan_verify(const struct plan *p, struct diag *d)
{
    if (!limber_verify_head(p, d))
        return false;
    for (size_t i = 0; i < p->nodes; i++)
        if (!check_node(&(struct check){ p, &p->node[i], d }))
            return false;
    if (p->ret < 0 || (size_t)p->ret >= p->nodes)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ret: the plan returns nothing");
    if (limber_ops[p->node[p->ret].op].flags & OP_MANY)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%%%s: a set cannot be returned",
                           p->node[p->ret].name);
    return true;
}
