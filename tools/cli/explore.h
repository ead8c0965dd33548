/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of `limber explore`: the sweep and its plot. */
#ifndef LIMBER_EXPLORE_H
#define LIMBER_EXPLORE_H

#include "tools/cli/cli.h"

/* What a sweep varies, and what its cost counts: bits of a unit's accumulator, bits of a format in
 * which operands are stored, seconds under a contract. */
enum sweep { SWEEP_units, SWEEP_stored, SWEEP_contracts };

/* One of a sweep and what it did. */
struct trial {
    char format[64]; /* its name; of a contract its words */
    const char *layer; /* of LPGEMM's configuration; NULL: of none */
    const char *rounding, *products; /* of a unit */
    int64_t group;              /* 0: none */
    limber_unit unit;
    limber_format stored;
    limber_contract contract;
    double cost;
    int bits, product_bits;     /* of the accumulator; of one product */
    double error;               /* relative, Frobenius, the largest of all products; infinite when
       C has a NaN or infinity that A B has not */
    double distance, relative, swamped, partly, retention, predicted, seconds;
    bool frontier;              /* none costs less and has no larger error */
};

/* Draws error against cost, a curve for each group length, to an SVG file by gnuplot.  *absent:
 * there is no gnuplot.  False after a message. */
bool explore_plot(const char *path, const char *title, enum sweep sweep, const struct trial *t,
                  int n, bool *absent);

/* Products whose operands a program left in a folder (LIMBER_CAPTURE). */
struct captured {
    char *a, *b; /* files */
};
/* Reads the folder's index; complex products are left out, and counted.  False after a message. */
bool captured_read(const char *folder, struct captured **list, int *n, int *left_out);
void captured_clear(struct captured *list, int n);

#endif
