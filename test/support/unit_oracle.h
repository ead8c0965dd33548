/* SPDX-License-Identifier: BSD-3-Clause
 * A second implementation of described units, by MPFR, from docs/simulation.md and without the
 * library's arithmetic. */
#ifndef LIMBER_TEST_UNIT_ORACLE_H
#define LIMBER_TEST_UNIT_ORACLE_H

#include "limber/limber.h"
#include "limber/research.h"

/* An operand element as the unit loads it. */
struct oracle_value {
    double value;
    int exponent;
};
void oracle_load(const limber_unit *u, int side, const double *line, int64_t k,
                 struct oracle_value *out);

/* Computes element (i,j) of loaded lines a and b; counts are added to the fields of the same
 * name. */
double oracle_dot(const limber_unit *u, const struct oracle_value *a, const struct oracle_value *b,
                  int64_t k, double start, int64_t i, int64_t j, limber_statistics *counts);

/* Rounds x by a step; r: random bits. */
double oracle_round(const limber_step *s, double x, uint32_t r, int bits);

#endif
