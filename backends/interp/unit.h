/* SPDX-License-Identifier: BSD-3-Clause
 * The interpreter of simulated arithmetic units (docs/simulation.md).  It computes one dot product
 * at a time. */
#ifndef LIMBER_INTERP_UNIT_H
#define LIMBER_INTERP_UNIT_H

#include "backends/backend.h"
#include "ir/unit/num.h"

/* One element of the result: the dot product of a row of A and a column of B, of k elements
 * each. */
struct model_dot {
    const limber_unit *u;
    const struct loaded *a, *b;
    int64_t k;
    double start;               /* value that the outermost sum starts with */
    /* seed of stochastic rounding; row and column of the element */
    uint64_t seed;
    int64_t i, j;
    struct unit_counts *counts;
};
/* Returns the dot product as the unit computes it, and updates the counters. */
double limber_interp_dot(const struct model_dot *dot);

#endif
