/* SPDX-License-Identifier: BSD-3-Clause
 * Products of matrices of intervals. */
#ifndef LIMBER_JIT_INTERVAL_H
#define LIMBER_JIT_INTERVAL_H

#include "jit/problem.h"
#include "jit/report.h"
#include "limber/interval.h"

/* Checks that the bounds of a matrix of intervals, rows x cols, are intervals of real numbers.
 * high.data: NULL for numbers, which must be finite.  what: the argument's name. */
bool limber_interval_check(const limber_matrix *low, const limber_matrix *high, const char *what,
                           int64_t rows, int64_t cols, struct diag *d);
/* Computes a call whose arguments were checked.  points: the product of a_low and b_low in the
 * format of C, as the engine states it.  r may be NULL.  After a failure C is unchanged. */
bool limber_interval_run(limber_context *ctx, const limber_interval_call *x,
                         const struct problem *points, struct report *r, struct diag *d);

#endif
