/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the sweep of `limber explore` and its plot share. */
#ifndef LIMBER_EXPLORE_H
#define LIMBER_EXPLORE_H

#include "tools/cli/cli.h"

/* What a sweep varies.  The cost of a trial is the bits of the accumulator for units, the bits of
 * the stored format, or the seconds under a contract. */
enum sweep { SWEEP_units, SWEEP_stored, SWEEP_contracts };

/* One point of a sweep, with its results. */
struct trial {
    char format[64]; /* name of the format, or text of the contract */
    const char *layer; /* layer of LPGEMM's configuration, or NULL */
    const char *rounding, *products; /* a unit's rounding; "exact" or "rounded" */
    int64_t group;              /* length of the groups that a unit sums; 0 if it has none */
    limber_unit unit;
    limber_format stored;
    limber_contract contract;
    double cost;
    int bits, product_bits; /* bits of the accumulator, and of one product */
    /* largest relative error (Frobenius norm) of all products; infinite if C has NaN or infinity
     * where A B has none */
    double error;
    double distance, relative, swamped, partly, retention, predicted, seconds;
    /* Pareto-optimal: no other trial has less cost without a larger error, or less error without a
     * higher cost. */
    bool frontier;
};

/* Draws error against cost as an SVG or PNG file by gnuplot, with a curve for each group length.
 * On failure prints a message and returns false. */
bool explore_plot(const char *path, const char *title, enum sweep sweep, const struct trial *t,
                  int n);

/* A product that LIMBER_CAPTURE stored. */
struct captured {
    char *a, *b; /* names of the operands' files; owned */
};
/* Reads the index of a folder.  Leaves out complex products, and counts them in *left_out.  On
 * failure prints a message and returns false. */
bool captured_read(const char *folder, struct captured **list, int *n, int *left_out);
void captured_clear(struct captured *list, int n);

#endif
