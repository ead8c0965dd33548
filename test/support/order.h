/* SPDX-License-Identifier: BSD-3-Clause
 * A reference for order 1 of the contract `reproducible` (docs/accuracy.md): loops over doubles and
 * floats that do not use the library's arithmetic. */
#ifndef LIMBER_TEST_ORDER_H
#define LIMBER_TEST_ORDER_H

#include "limber/limber.h"

#include <stdbool.h>

/* Returns the number of format f at p as a double, which must represent it. */
double order_load(limber_format f, const void *p);
/* True if chains and their sums are computed in binary32, false if in binary64. */
bool order_is_f32(limber_format a, limber_format b, limber_format c);
/* Returns the sum of a[p] b[p] in the documented order.  is_f32: in binary32. */
double order_sum(bool is_f32, const double *a, const double *b, int64_t k);
/* Computes *c = alpha sum + beta *c.  alpha and beta are in C's format; NULL stands for 1 and 0. */
void order_store(limber_format f, void *c, double sum, const void *alpha, const void *beta);
/* Computes a GEMM in the documented order. */
void order_gemm(const limber_problem *p);

#endif
