/* SPDX-License-Identifier: BSD-3-Clause
 * Studies of units: descriptions from others' configurations, and orders of sums from their
 * results.  Only jit/api, which exports them, includes this. */
#ifndef LIMBER_RESEARCH_ROOM_H
#define LIMBER_RESEARCH_ROOM_H

#include "ir/ir.h"
#include "limber/research.h"

/* lpgemm.c: limber_unit_lpgemm with its reason. */
bool limber_unit_lpgemm_read(const char *text, const char *layer, limber_unit *unit, int *listed,
                             struct diag *d);

/* A sum of k products under study, as limber_reveal has it. */
struct revealed_sum {
    limber_reveal_fn *call;
    void *user;
    int64_t k;
    limber_format operand, result;
};
/* reveal.c: the order as text, and words of a unit that sums so, or nothing. */
bool limber_reveal_order(const struct revealed_sum *, struct text *tree, struct text *words,
                         struct diag *);

#endif
