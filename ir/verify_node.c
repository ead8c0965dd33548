/* SPDX-License-Identifier: BSD-3-Clause
 * What every operation of a plan owes: a name, operands, a type, and its attributes. */
#include "ir/verify.h"

#include <string.h>

#define BIT(a) (UINT64_C(1) << ATTR_##a)

static bool check_name(const struct check *c)
{
    for (const struct node *o = c->p->node; o < c->n; o++)
        if (!strcmp(o->name, c->n->name))
            return bad(c, "defined twice");
    return true;
}

static bool check_operands(const struct check *c)
{
    const struct op_info *op = &limber_ops[c->n->op];
    int self = (int)(c->n - c->p->node);

    if (c->n->nin < op->least || c->n->nin > op->most)
        return bad(c, "%s takes %d operand%s, not %d", op->name,
                   c->n->nin < op->least ? op->least : op->most,
                   (c->n->nin < op->least ? op->least : op->most) == 1 ? "" : "s", c->n->nin);
    for (int i = 0; i < c->n->nin; i++)
        if (c->n->in[i] < 0 || c->n->in[i] >= self)
            return bad(c, "operand %d is not defined above", i);
    for (int i = 0; i < c->n->nin; i++)
        if (c->n->op != OP_products && c->n->op != OP_combine &&
            limber_ops[in(c, i)->op].flags & OP_MANY)
            return bad(c, "%%%s is a set, which only products and combine take", in(c, i)->name);
    return true;
}

static bool check_type(const struct check *c)
{
    const struct type *t = &c->n->type;
    bool many = limber_ops[c->n->op].flags & OP_MANY;

    if (t->format.kind != LIMBER_KIND_EXACT && !limber_format_check("format", t->format, NULL))
        return bad(c, "the type's format is no format");
    if (t->rank != 2 && t->rank != 4 && t->rank != 5)
        return bad(c, "the type has %d dimensions, not 2, 4 or 5", t->rank);
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 0 ? t->dim[i] > -'a' || t->dim[i] < -'z' : (t->dim[i] >> 48) != 0)
            return bad(c, "dimension %d is neither a size nor a letter", i);
    if (many ? t->count < 1 || t->count > 4096 : t->count != 1)
        return bad(c, many ? "a set of %d" : "x%d, but the value is no set", t->count);
    return true;
}

/* Attributes that may be absent: direction (forward), the mask (all of it, or not at all; its reach
 * alone), tile before the tile pass, moduli without crt, uncertain where nothing is cut, sums where
 * they are fused multiply-adds, order where it is crs, split where limbs are made ahead, integral
 * where results are rounded. */
static uint64_t optional_attrs(const struct node *n)
{
    uint64_t mask =
        BIT(emin) | BIT(emax) | BIT(spread) | BIT(width) | BIT(sig) | BIT(sign) | BIT(special);

    switch (n->op) {
    case OP_arg: return (n->has & mask ? 0 : mask) | BIT(reach);
    case OP_products: return BIT(tile) | BIT(sums) | BIT(split);
    case OP_conv:
    case OP_image: return BIT(direction);
    case OP_patches:
    case OP_filters: return BIT(order) | BIT(direction);
    case OP_epilogue: return BIT(integral);
    case OP_combine:
        return BIT(uncertain) | (limber_node_has(n, ATTR_reconstruct) &&
                                         limber_num(n, ATTR_reconstruct) == RECONSTRUCT_crt ?
                                     0 :
                                     BIT(moduli));
    default: return 0;
    }
}

static bool check_attrs(const struct check *c)
{
    const struct node *n = c->n;
    uint64_t missing = limber_ops[n->op].attrs & ~n->has & ~optional_attrs(n);
    uint64_t extra = n->has & ~limber_ops[n->op].attrs;

    for (int a = 0; a < ATTR_count; a++) {
        const char *words = limber_attrs[a].words;
        int64_t most = 0;

        if (missing >> a & 1)
            return bad(c, "%s is missing", limber_attrs[a].name);
        if (extra >> a & 1)
            return bad(c, "%s has no attribute %s", limber_ops[n->op].name, limber_attrs[a].name);
        for (; *words; words++)
            most += *words == '|';
        if (n->has >> a & 1 && limber_attrs[a].kind == ATTR_WORD &&
            (limber_num(n, (enum attr)a) < 0 || limber_num(n, (enum attr)a) > most))
            return bad(c, "%s is none of %s", limber_attrs[a].name, limber_attrs[a].words);
    }
    return true;
}

bool limber_verify_node(const struct check *c)
{
    return check_name(c) && check_operands(c) && check_type(c) && check_attrs(c);
}
