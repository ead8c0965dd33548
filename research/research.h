/* SPDX-License-Identifier: BSD-3-Clause
 * Studies of arithmetic units: descriptions of units from other programs' configurations, and the
 * order of sums from their results.  Only jit/api, which exports these functions, includes this
 * file. */
#ifndef LIMBER_RESEARCH_ROOM_H
#define LIMBER_RESEARCH_ROOM_H

#include "ir/ir.h"
#include "limber/research.h"

/* Reads the unit of one layer from the text of an LPGEMM configuration file, like
 * limber_unit_lpgemm in limber/research.h (lpgemm.c).  Returns false, with an error, if it
 * fails. */
bool limber_unit_lpgemm_read(const char *text, const char *layer, limber_unit *unit, int *listed,
                             struct diag *d);

/* A sum of k products whose order is to be found.  The fields are arguments of limber_reveal. */
struct revealed_sum {
    limber_reveal_fn *call;
    void *user;
    int64_t k;
    limber_format operand, result;
};
/* reveal.c: writes the order of additions as text, and the description of a simulated unit that
 * adds in this order, if there is one. */
bool limber_reveal_order(const struct revealed_sum *, struct text *tree, struct text *words,
                         struct diag *);

#endif
