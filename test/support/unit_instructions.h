/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units beside the instructions of a CPU: data for both, and the comparison. */
#ifndef LIMBER_TEST_UNIT_INSTRUCTIONS_H
#define LIMBER_TEST_UNIT_INSTRUCTIONS_H

#include "support.h"

/* 0: any code; 1: numbers of a few binades, so that sums lose few bits; 2: products near the
 * smallest normal float; 3: numbers that cancel. */
enum { CODE_KINDS = 4 };
uint16_t any_code(struct rng *r, int kind, bool half); /* of binary16 or bfloat16 */
float any_start(struct rng *r, int kind);              /* that products are added to */

/* What an instruction made of C, m x n in rows, and of k products in each element: the unit must
 * have the same bits on both backends, every NaN alike. */
struct executed {
    const char *instruction, *unit;
    int kind;
    int64_t m, n, k;
    limber_matrix a, b;
    const float *c, *want;
};
void compare_with_unit(const struct executed *x);

#endif
