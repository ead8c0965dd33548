/* SPDX-License-Identifier: BSD-3-Clause
 * Order 1 of the contract `reproducible` in plain loops over doubles and floats, independent of the
 * library. */
#ifndef LIMBER_TEST_ORDER_H
#define LIMBER_TEST_ORDER_H

#include "limber/limber.h"

#include <stdbool.h>

/* The number at p. */
double order_load(limber_format f, const void *p);
/* Returns whether chains and their sum are of f32. */
bool order_is_narrow(limber_format a, limber_format b, limber_format c);
/* The sum of a_p b_p in the stated order. */
double order_sum(bool narrow, const double *a, const double *b, int64_t k);
/* Stores *c = alpha sum + beta *c; alpha and beta are in C's format, NULL where absent. */
void order_store(limber_format f, void *c, double sum, const void *alpha, const void *beta);
/* Computes a whole GEMM in the stated order. */
void order_gemm(const limber_problem *p);

#endif
