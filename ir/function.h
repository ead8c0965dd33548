/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions as the library's rooms see them. */
#ifndef LIMBER_FUNCTION_H
#define LIMBER_FUNCTION_H

/* What a call fixes.  Exponents of e are cut at -bound and bound: for results in narrow formats no
 * power may become zero or infinite before it is rounded; in binary64 it must. */
struct fn_args {
    double p, q, bound;
    int odd; /* 1: values are rounded to odd, since a narrower format rounds them again */
};

/* All values of a function of a format with few: bytes of an operand and of a result. */
struct lookup {
    int from, to; /* 1 or 2; 1, 2 or 4 */
    void *table;
};

#ifndef LIMBER_DEVICE_H
#include "limber/ops.h"

#include <stdbool.h>
struct diag;

/* For results in this format. */
struct fn_args limber_function_args(limber_format to, double p, double q);
/* The value at x as a double, rounded to odd or to nearest: ir/num/functions.h. */
double limber_function_value(limber_function f, const struct fn_args *a, double x);
/* Is f defined on these formats, and so on; what it says begins with the argument's name. */
bool limber_function_check(const limber_elementwise *e, struct diag *d);
#endif

#endif
