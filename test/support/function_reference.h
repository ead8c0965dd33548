/* SPDX-License-Identifier: BSD-3-Clause
 * Every elementwise function by MPFR. */
#ifndef LIMBER_TEST_FUNCTION_REFERENCE_H
#define LIMBER_TEST_FUNCTION_REFERENCE_H

#include "support.h"

#include <limber/ops.h>

/* The exact value, rounded to odd in binary64, from which a format of at most 50 fraction bits can
 * be rounded in any direction. */
double ref_function(limber_function f, double p, double q, double from);
/* The error of `got` beside the last call's value, in units in the last place of a format with
 * `bits` bits and multiples of 2^least.  Call it once per value. */
double ref_function_error(double got, int bits, int least);

#endif
