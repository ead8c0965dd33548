/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the sweep of `limber explore` and its plot share. */
#ifndef LIMBER_EXPLORE_H
#define LIMBER_EXPLORE_H

#include "tools/cli/cli.h"

/* A sweep varies one of these; its cost is bits of the accumulator, bits of the stored format, or
 * seconds under a contract. */
enum sweep { SWEEP_units, SWEEP_stored, SWEEP_contracts };

/* One point of a sweep with its results. */
struct trial {
    char format[64]; /* format's name, or the contract's words */
    const char *layer; /* layer of LPGEMM's configuration; NULL: no layer */
    const char *rounding, *products; /* rounding and products of a unit */
    int64_t group;              /* length of the groups that a unit sums; 0: no groups */
    limber_unit unit;
    limber_format stored;
    limber_contract contract;
    double cost;
    int bits, product_bits;     /* bits of the accumulator; bits of one product */
    /* largest relative error in the Frobenius norm over all products; infinite if C has a NaN or
     * infinity where A B has none */
    double error;
    double distance, relative, swamped, partly, retention, predicted, seconds;
    /* Pareto-optimal: no trial is better in cost or error and no worse in the other */
    bool frontier;
};

/* Draws error against cost by gnuplot into an SVG file, a curve for each group length. *absent:
 * gnuplot is not installed.  False after a message. */
bool explore_plot(const char *path, const char *title, enum sweep sweep, const struct trial *t,
                  int n, bool *absent);

/* Files with the operands of a product that LIMBER_CAPTURE stored. */
struct captured {
    char *a, *b; /* files */
};
/* Reads the folder's index.  Complex products are skipped and counted in left_out.  False after a
 * message. */
bool captured_read(const char *folder, struct captured **list, int *n, int *left_out);
void captured_clear(struct captured *list, int n);

#endif
