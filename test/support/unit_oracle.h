/* SPDX-License-Identifier: BSD-3-Clause
 * A second implementation of simulated units, written from docs/simulation.md with MPFR and without
 * the library's arithmetic. */
#ifndef LIMBER_TEST_UNIT_ORACLE_H
#define LIMBER_TEST_UNIT_ORACLE_H

#include "limber/limber.h"
#include "limber/research.h"

#include <stdbool.h>

/* An operand element after the unit has rounded and scaled it.  exponent: the one by which the unit
 * aligns terms. */
struct oracle_value {
    double value;
    int exponent;
};
/* Loads a line of k elements (a row of A, side 0, or a column of B, side 1). */
void oracle_load(const limber_unit *u, int side, const double *line, int64_t k,
                 struct oracle_value *out);

/* Loads lines of a matrix; the caller frees the result, [line * k + p].  next, step: distances in
 * elements from line to line, and along k. */
struct oracle_value *oracle_load_lines(const limber_unit *u, int side, const double *x,
                                       int64_t lines, int64_t k, int64_t next, int64_t step);

/* Computes element (i, j) of the result from a loaded row a and column b.  start: initial value of
 * the accumulator.  *counts: what sums lose is added to its fields. */
double oracle_dot(const limber_unit *u, const struct oracle_value *a, const struct oracle_value *b,
                  int64_t k, double start, int64_t i, int64_t j, limber_statistics *counts);

/* Rounds x to the format and by the mode of s. r: `bits` random bits for stochastic rounding. */
double oracle_round(const limber_step *s, double x, uint32_t r, int bits);

/* Compares values: all NaN are equal, zeros must have the same sign. */
bool oracle_equal(double got, double want);

#endif
