/* SPDX-License-Identifier: BSD-3-Clause
 * Compares simulated units with the CPU's matrix instructions: random data, and the comparison. */
#ifndef LIMBER_TEST_UNIT_INSTRUCTIONS_H
#define LIMBER_TEST_UNIT_INSTRUCTIONS_H

#include "support.h"

/* Kinds of data.  0: any bit pattern; 1: few exponents, so that sums lose few bits; 2: products
 * near the smallest normal number; 3: numbers that cancel. */
enum { CODE_KINDS = 4 };
/* Returns a random bit pattern of binary16 (half) or bfloat16. */
uint16_t any_code(struct rng *r, int kind, bool half);
float any_start(struct rng *r, int kind); /* random element of C to which products are added */

/* One execution of an instruction: its operands, C before (c) and after it (want), which are m x n
 * and row-major, and the number k of products per element. compare_with_unit() fails the test
 * unless the simulated unit gives the same bits on both backends.  Any two NaN are equal. */
struct executed {
    const char *instruction, *unit;
    int kind;
    int64_t m, n, k;
    limber_matrix a, b;
    const float *c, *want;
};
void compare_with_unit(const struct executed *x);

#endif
