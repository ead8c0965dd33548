/* SPDX-License-Identifier: BSD-3-Clause
 * Storing of results from sums of double-double numbers or of bins, for pairs.c and dots.c: as far
 * as their rounding is certain, else from the long accumulator. */
#ifndef LIMBER_KERNEL_SETTLE_H
#define LIMBER_KERNEL_SETTLE_H

#include "backends/llvm/kernel/bins.h"
#include "ir/num/dot.h"
#include "ir/num/prim.h"

/* Up to LANES results alpha * sum + beta * c, and where they are stored.  beta: NULL for 0. */
struct results {
    char *to[LANES];
    int live;                   /* number of results */
    int size;                   /* bytes of a result: 8 or 4 */
    bool plain;                 /* alpha and beta need not be applied */
    double alpha;
    const double *beta;
};

/* Sets the fields of *o for `live` results of a call, except their addresses. */
FLAT void set_results(struct results *o, const struct call *c, limber_format f, int live,
                      double alpha, const double *beta)
{
    o->live = live;
    o->size = f.size;
    o->plain = !c->alpha && !c->beta;
    o->alpha = alpha;
    o->beta = c->beta ? beta : NULL;
}

/* Stores results from sums high + low with errors of at most `uncertain`: those whose rounding is
 * certain, or whose error is at most `tolerated`.  open: mask of results whose sums are not known.
 * zero: mask of results whose products are all zero.  Returns the mask of those not stored. */
__attribute__((noinline)) static int store_results(const struct results *o, int open, int zero,
                                                   vd high, vd low, vd uncertain, vd tolerated)
{
    vd old = { 0 }, middle, up, down;
    int left = 0;

    for (int l = 0; l < o->live && o->beta; l++)
        old[l] = double_at(o->to[l], o->size);
    if (!o->plain)
        scale_pair(&high, &low, &uncertain, o->alpha, o->beta, old);
    ends_of(high, low, o->size == 4, &uncertain, &middle, &up, &down);
    if (!(open | zero) && o->size == 8 &&
        all((vl)(up == down) & (vl)(up != 0) & (vl)(up - up == 0))) { /* the usual case, faster */
        for (int l = 0; l < o->live; l++)
            put_number(8, o->to[l], up[l], 0);
        return 0;
    }
    for (int l = 0; l < o->live; l++) {
        if (zero >> l & 1 && store_zero(o->to[l], o->size, o->alpha, o->beta))
            continue;
        if (open >> l & 1 || !store_sure(o->to[l], o->size, up[l], down[l], middle[l],
                                         uncertain[l] <= tolerated[l]))
            left |= 1 << l;
    }
    return left;
}

/* Stores a result from its sum in the long accumulator.  class: NaN or an infinity if such elements
 * determine the sum, else 0.  Returns how many sums were computed: 1, or 0 for NaN or infinity. */
static int store_exactly(const struct call *c, char *to, limber_format f,
                         const struct limber_lines *lines, double class)
{
    const struct limber_scalars sc = { c->alpha, c->beta, f };

    limber_dot_store(to, f, lines, class, &sc);
    return class - class == 0;
}

#endif
