/* SPDX-License-Identifier: BSD-3-Clause
 * Results of simulated units that are rounded twice. */
#ifndef LIMBER_UNIT_STORE_H
#define LIMBER_UNIT_STORE_H

#include "limber/unit.h"

/* store.c: returns alpha x + beta c, rounded to the unit's epilogue. c: the element of C, in format
 * f. alpha, beta: NULL if absent; without beta, +0 is added. */
double limber_unit_result(const limber_unit *u, const void *c, limber_format f, double x,
                          const double *alpha, const double *beta);

#endif
