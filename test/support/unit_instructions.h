/* SPDX-License-Identifier: BSD-3-Clause
 * Compares simulated units with a CPU's instructions: data for both, and the comparison. */
#ifndef LIMBER_TEST_UNIT_INSTRUCTIONS_H
#define LIMBER_TEST_UNIT_INSTRUCTIONS_H

#include "support.h"

/* Kinds of data.  0: any code; 1: a few binades, so that sums lose few bits; 2: products near the
 * smallest normal float; 3: numbers that cancel. */
enum { CODE_KINDS = 4 };
/* a random code of binary16 (half) or bfloat16 */
uint16_t any_code(struct rng *r, int kind, bool half);
float any_start(struct rng *r, int kind);              /* the addend C */

/* The result of an instruction for C, m x n in rows, with k products per element: the unit must
 * have the same bits on both backends, with all NaN equal. */
struct executed {
    const char *instruction, *unit;
    int kind;
    int64_t m, n, k;
    limber_matrix a, b;
    const float *c, *want;
};
void compare_with_unit(const struct executed *x);

#endif
