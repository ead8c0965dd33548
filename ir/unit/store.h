/* SPDX-License-Identifier: BSD-3-Clause
 * Results of simulated units. */
#ifndef LIMBER_UNIT_STORE_H
#define LIMBER_UNIT_STORE_H

#include "limber/unit.h"

/* Stores alpha x + beta c, for a sum of floats x, as the element c of C, in format f.  If the unit
 * has an epilogue, the result is rounded to that first.  u: NULL if no unit is simulated.
 * alpha, beta: NULL if absent. */
void limber_unit_store(const limber_unit *u, void *c, limber_format f, double x,
                       const double *alpha, const double *beta);

#endif
