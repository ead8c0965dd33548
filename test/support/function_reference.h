/* SPDX-License-Identifier: BSD-3-Clause
 * Every elementwise function by MPFR. */
#ifndef LIMBER_TEST_FUNCTION_REFERENCE_H
#define LIMBER_TEST_FUNCTION_REFERENCE_H

#include "support.h"

#include <limber/ops.h>

/* The exact value, rounded to odd in binary64: what a format of at most 50 fraction bits needs to
 * be rounded to in any direction. */
double ref_function(limber_function f, double p, double q, double from);
/* The error of `got` beside the value of the last call, in units of its last place in a format of
 * `bits` bits whose numbers are multiples of 2^least.  Once a call. */
double ref_function_error(double got, int bits, int least);

#endif
