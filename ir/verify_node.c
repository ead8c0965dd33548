/* SPDX-License-Identifier: BSD-3-Clause
 * Checks the head of a plan, and what every operation needs: a unique name, operands, a type, and
 * its attributes. */
#include "ir/num/prim_num.h"
#include "ir/verify.h"

#include <string.h>

#define BIT(a) (UINT64_C(1) << ATTR_##a)

/* Checks that no earlier value has the same name. */
static bool check_name(const struct check *c)
{
    for (const struct node *o = c->p->node; o < c->n; o++)
        if (!strcmp(o->name, c->n->name))
            return bad(c, "defined twice");
    return true;
}

/* Checks the operands: their number must suit the operation, they must be defined before it, and
 * only operations on sets of limbs may take sets. */
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

/* Checks format, dimensions and count of the value's type. */
static bool check_type(const struct check *c)
{
    const struct type *t = &c->n->type;
    bool many = limber_ops[c->n->op].flags & OP_MANY;

    if (t->format.kind != LIMBER_KIND_EXACT && t->format.kind != LIMBER_KIND_SIDED &&
        !limber_format_check("format", t->format, NULL))
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

/* Returns the attributes that may be absent, by operation: direction (absent: forward); the
 * results of a scan, all of them or none, and reach; tile before the pass `tile`; sums (absent:
 * fused multiply-adds); joins (absent: only the first accumulator has a total); split (absent:
 * limbs are made before the product); order (absent: crs); integral (absent: results are
 * rounded); uncertain (absent: sums have no unknown error); moduli without CRT. */
static uint64_t optional_attrs(const struct node *n)
{
    uint64_t mask =
        BIT(emin) | BIT(emax) | BIT(spread) | BIT(width) | BIT(sig) | BIT(sign) | BIT(special);

    switch (n->op) {
    case OP_arg: return (n->has & mask ? 0 : mask) | BIT(reach);
    case OP_products: return BIT(tile) | BIT(sums) | BIT(joins) | BIT(split);
    case OP_conv:
    case OP_image: return BIT(direction);
    case OP_patches:
    case OP_filters: return BIT(order) | BIT(direction);
    case OP_epilogue: return BIT(integral);
    case OP_combine:
        return BIT(uncertain) |
               (limber_node_has(n, ATTR_reconstruct) &&
                        limber_attr_number(n, ATTR_reconstruct) == RECONSTRUCT_crt ?
                    0 :
                    BIT(moduli));
    default: return 0;
    }
}

/* Checks that no attribute is missing, that the operation can have all of them, and that words are
 * in range. */
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
            (limber_attr_number(n, (enum attr)a) < 0 || limber_attr_number(n, (enum attr)a) > most))
            return bad(c, "%s is none of %s", limber_attrs[a].name, limber_attrs[a].words);
    }
    return true;
}

/* Checks that accumulators which share one total are sums of tensor cores with equal weights. */
static bool check_joins(const struct check *c)
{
    limber_unit core;

    if (!limber_node_has(c->n, ATTR_joins))
        return true;
    if (limber_attr_number(c->n, ATTR_joins) != 1 ||
        limber_attr_number(c->n, ATTR_unit) == UNIT_model || !limber_unit_of_sums(c->n, &core))
        return bad(c, "joins is not 1, or no tensor core sums");
    for (size_t i = 0; i < c->n->rows; i++)
        if (c->n->row[i].weight != 0)
            return bad(c, "joins, but row %d has a weight", (int)i);
    return true;
}

/* Checks what must hold for all operations, before the checks of a single operation. */
bool limber_verify_node(const struct check *c)
{
    return check_name(c) && check_operands(c) && check_type(c) && check_attrs(c);
}

/* Checks the head of a plan: promise, sizes, error bounds and the simulated unit. */
bool limber_verify_head(const struct plan *p, struct diag *d)
{
    if ((int)p->promise < 0 || (int)p->promise >= PROMISES)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "promise: %d is none", (int)p->promise);
    if (p->kbits < 0 || p->kbits > 62)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "kbits: %d is not in 0..62", p->kbits);
    if (!(p->budget >= 0))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "budget: not a number from 0 on");
    if ((p->promise == LIMBER_CONTRACT_SIMULATE) != (p->model != NULL))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           p->model ? "model: only the promise simulate has one" :
                                      "model: the promise simulate needs one");
    if (p->counts && !p->model)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "counts: only models are counted in");
    if ((p->promise == LIMBER_CONTRACT_BITS) != (p->bits > 0))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           p->bits > 0 ? "bits: only the promise bits has them" :
                                         "bits: the promise bits needs them");
    return true;
}

/* Checks the accumulators of a table of products: their number, the order of their rows, and which
 * share one total. */
bool limber_verify_accumulators(const struct check *c)
{
    const struct row *row = c->n->row;

    if (limber_attr_number(c->n, ATTR_unit) == UNIT_model && c->n->type.count != 1)
        return bad(c, "the simulated unit has one accumulator, not %d", c->n->type.count);
    for (size_t i = 1; i < c->n->rows; i++)
        if (row[i].acc < row[i - 1].acc) /* kernels finish one accumulator before the next */
            return bad(c, "row %d is of accumulator %d, after rows of accumulator %d", (int)i,
                       row[i].acc, row[i - 1].acc);
    return check_joins(c);
}
