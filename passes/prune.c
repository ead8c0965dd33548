/* SPDX-License-Identifier: BSD-3-Clause
 * The pass `prune`: deletes rows of the product table that the contract does not need.
 *
 *   needs   a product table whose rows have shares, sorted from the largest (split)
 *   leaves  a table in which the error of one more deletion would exceed the budget
 *   proof   deleting a row of share s changes an element by at most s |A||B|:
 *           docs/accuracy.md, "What pruning costs" */
#include "passes/limbs.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>

/* Returns the error, relative to |A||B|, that the deletion of a row causes; 0 if the row is
 * known to be zero, or all its bits are above those of a result that wraps. */
static double deletion_cost(const struct plan *p, const struct node *table, const struct row *r)
{
    return limber_row_is_free(p, table, r->a, r->b, r->weight) ? 0 : r->share;
}

/* Removes accumulators to which no row adds any more.  The others keep their order. */
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

/* Deletes rows of the product table, smallest share first, as long as the error bound allows it. */
bool limber_pass_prune(struct plan *p, const struct target *t, struct diag *d)
{
    struct node *table = limber_plan_find(p, OP_products);
    struct node *combine = limber_plan_find(p, OP_combine);
    double slack;
    size_t kept;

    (void)t, (void)d;
    if (!table || !combine)
        return true;
    slack = p->promise == LIMBER_CONTRACT_FAST ? 0 : limber_smallest_slack(p);
    kept = table->rows;
    for (size_t i = table->rows; i-- > 0 && kept > 1;) { /* the smallest share comes last */
        struct row *r = &table->row[i];
        double c = deletion_cost(p, table, r);

        if (c > 0 && !(c <= slack)) /* also keeps every row if slack is NaN */
            continue;
        if (c > 0) {
            /* rounded down, so that rounding never allows a deletion */
            slack = nextafter(slack - c, 0);
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
    if (limber_attr_number(combine, ATTR_reconstruct) != RECONSTRUCT_crt)
        renumber_accumulators(table);
    return true;
}
