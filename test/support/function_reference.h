/* SPDX-License-Identifier: BSD-3-Clause
 * Reference for every elementwise function, computed by MPFR. */
#ifndef LIMBER_TEST_FUNCTION_REFERENCE_H
#define LIMBER_TEST_FUNCTION_REFERENCE_H

#include "support.h"

#include <limber/ops.h>

/* Returns f(from) rounded to odd in binary64.  Rounding this to a format with at most 50 fraction
 * bits, in any direction, gives the correctly rounded value of f.  p, q: the function's
 * parameters. */
double ref_function(limber_function f, double p, double q, double from);
/* Returns the error of `got`, compared with the value of the last call of ref_function(), in units
 * in the last place.  The format has `bits` significant bits, and its smallest unit is 2^least.  To
 * be called once per value. */
double ref_function_error(double got, int bits, int least);

#endif
