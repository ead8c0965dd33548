/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions, for the library's own folders. */
#ifndef LIMBER_FUNCTION_H
#define LIMBER_FUNCTION_H

/* Parameters of a function.  Arguments of e^x are clamped to [-bound, bound]: if the result's
 * format is narrower than binary64, e^x must not become zero or infinite before it is rounded; if
 * it is binary64, e^x must. */
struct fn_args {
    double p, q, bound;
    int odd; /* 1: values are rounded to odd, since a narrower format rounds them again */
};

/* A table of a function's results for all operands of a format with few values. */
struct lookup {
    int from, to; /* bytes of an operand (1 or 2) and of a result (1, 2 or 4) */
    void *table;
};

#ifndef LIMBER_DEVICE_H
#include "limber/ops.h"

#include <stdbool.h>
struct diag;

/* The arguments of a function whose results are stored in format `to`. */
struct fn_args limber_function_args(limber_format to, double p, double q);
/* The value at x as a double, rounded to odd or to nearest as a->odd says: ir/num/functions.h. */
double limber_function_value(limber_function f, const struct fn_args *a, double x);
/* Checks formats and parameters of e; the message begins with the argument's name. */
bool limber_function_check(const limber_elementwise *e, struct diag *d);
#endif

#endif
