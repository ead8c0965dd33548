/* SPDX-License-Identifier: BSD-3-Clause
 * Drop the rows of the product table that the contract does not need.
 *
 *   needs   a product table with shares, largest first (split)
 *   leaves  a table in which no further row fits into the slack
 *   proof   a dropped row of share s moves an element by at most s |A||B|:
 *           docs/accuracy.md, "What pruning costs" */
#include "ir/num/prim_num.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>

/* True if the mask says that the limb is zero. */
static bool is_zero_limb(const struct plan *p, int limbs, int limb)
{
    const struct node *n = &p->node[limbs], *mask = limber_source(p, limbs);
    int64_t each;

    if (!limber_node_has(mask, ATTR_sig))
        return false;
    if (limber_num(mask, ATTR_width) == 0)
        return true;
    if (n->op != OP_hilo)
        return false;
    each = limber_format_sig(n->type.format);
    return limber_num(mask, ATTR_sig) <= each * limb;
}

/* True if a row lies above all bits of an integer result that wraps. */
static bool wraps_away(const struct plan *p, const struct row *r)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);

    return limber_num(limber_plan_find(p, OP_combine), ATTR_reconstruct) == RECONSTRUCT_shift &&
           limber_num_is_int(out->type.format) && limber_num(out, ATTR_wrap) == 1 &&
           limber_num(out, ATTR_alpha) == 0 && r->weight > limber_format_sig(out->type.format);
}

static double deletion_cost(const struct plan *p, const struct node *table, const struct row *r)
{
    if (is_zero_limb(p, table->in[0], r->a) || is_zero_limb(p, table->in[1], r->b) ||
        wraps_away(p, r))
        return 0;
    return r->share;
}

/* Removes accumulators without a row; the others keep their order. */
static void renumber_accumulators(struct node *table)
{
    int next = 0;

    for (int acc = 0; acc < table->type.count; acc++) {
        bool used = false;

        for (size_t i = 0; i < table->rows; i++)
            if (table->row[i].acc == acc) {
                table->row[i].acc = next;
                used = true;
            }
        next += used;
    }
    table->type.count = next;
}

bool limber_pass_prune(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *table = limber_plan_find(p, OP_products);
    struct node *combine = limber_plan_find(p, OP_combine);
    double slack;
    size_t kept;

    (void)t, (void)d;
    if (!table || !combine)
        return true;
    slack = p->promise == LIMBER_CONTRACT_FAST ? 0 : limber_slack(p);
    kept = table->rows;
    for (size_t i = table->rows; i-- > 0 && kept > 1;) {    /* smallest share first */
        struct row *r = &table->row[i];
        double c = deletion_cost(p, table, r);

        if (c > 0 && !(c <= slack))     /* a NaN slack keeps every row, too */
            continue;
        if (c > 0) {
            slack = nextafter(slack - c, 0);        /* rounded against the deletion */
            p->dropped = nextafter(p->dropped + c, INFINITY);
        }
        r->acc = -1;
        kept--;
    }
    p->pruned += (int)(table->rows - kept);
    kept = 0;
    for (size_t i = 0; i < table->rows; i++)
        if (table->row[i].acc >= 0)
            table->row[kept++] = table->row[i];
    table->rows = kept;
    if (limber_num(combine, ATTR_reconstruct) != RECONSTRUCT_crt)
        renumber_accumulators(table);
    return true;
}
