/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of `limber explore`: the sweep and its plot. */
#ifndef LIMBER_EXPLORE_H
#define LIMBER_EXPLORE_H

#include "tools/cli/cli.h"

/* One unit and what it did. */
struct trial {
    char format[64]; /* its name */
    const char *rounding, *products;
    int64_t group;              /* 0: none */
    limber_unit unit;
    int bits, product_bits;     /* of the accumulator; of one product */
    double error;               /* relative, Frobenius; infinite when C has a NaN or infinity that
       A B has not */
    double distance, relative, swamped, partly, retention, predicted, seconds;
    bool frontier;              /* none has fewer bits and no larger error */
};

/* Draws error against bits, a curve for each group length, to an SVG file by gnuplot.  *absent:
 * there is no gnuplot.  False after a message. */
bool explore_plot(const char *path, const char *title, const struct trial *t, int n, bool *absent);

#endif
