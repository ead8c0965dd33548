/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions, as the library's own folders see them. */
#ifndef LIMBER_FUNCTION_H
#define LIMBER_FUNCTION_H

/* Parameters of a function.  p and q: the caller's.  bound: arguments of e^x are clamped to
 * [-bound, bound].  If the result's format has a smaller range than binary64, e^x must not become 0
 * or infinite before it is rounded to this format; for binary64 it must. */
struct fn_args {
    double p, q, bound;
    /* 1: values are rounded to odd, since they are rounded again to a format with fewer bits */
    int odd;
};

/* A table of a function's results for all elements of a format with few values. */
struct lookup {
    int from, to; /* bytes of an operand (1 or 2) and of a result (1, 2 or 4) */
    void *table;
};

#ifndef LIMBER_DEVICE_H
#include "limber/ops.h"

#include <stdbool.h>
struct diag;

/* Returns the parameters of a function whose results are stored in format `to`. */
struct fn_args limber_function_args(limber_format to, double p, double q);
/* Returns the function's value at x as a double, rounded to odd if a->odd, else to nearest
 * (ir/num/functions.h). */
double limber_function_value(limber_function f, const struct fn_args *a, double x);
/* Checks the formats and the parameters of e.  A message begins with the name of the wrong
 * argument. */
bool limber_function_check(const limber_elementwise *e, struct diag *d);
#endif

#endif
