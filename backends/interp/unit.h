/* SPDX-License-Identifier: BSD-3-Clause
 * The interpreter of simulated units (docs/simulation.md), one number at a time. */
#ifndef LIMBER_INTERP_UNIT_H
#define LIMBER_INTERP_UNIT_H

#include "backends/backend.h"
#include "ir/unit/num.h"

/* One element of the result: a line of A and a line of B, k elements each, in the order of k. */
struct model_dot {
    const limber_unit *u;
    const struct loaded *a, *b;
    int64_t k;
    double start;               /* value that the outermost sum starts from */
    uint64_t seed;
    int64_t i, j;
    struct unit_counts *counts;
};
double limber_interp_dot(const struct model_dot *dot);

#endif
