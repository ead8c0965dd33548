/* SPDX-License-Identifier: BSD-3-Clause
 * Random simulated units and operands for them, shared by the tests. */
#ifndef LIMBER_TEST_UNIT_ANY_H
#define LIMBER_TEST_UNIT_ANY_H

#include "support.h"

/* A description and, in text, its words. */
limber_unit any_unit(struct rng *r, char *text, size_t size);

enum { VALUE_KINDS = 8 };       /* of data */
double any_value(struct rng *r, int kind);
double *any_matrix(struct rng *r, int64_t count, int kind);     /* of binary32 numbers */

#endif
