/* SPDX-License-Identifier: BSD-3-Clause
 * References for posits, short integers and powers of two (e8m0), written from their standards and
 * without the library's arithmetic. */
#ifndef LIMBER_TEST_CODES_H
#define LIMBER_TEST_CODES_H

#include "limber/format.h"

#include <mpfr.h>
#include <stdbool.h>

/* Returns the value of a posit of `bits` bits with two exponent bits (es = 2).  NaN for NaR. */
double ref_posit(int bits, uint64_t code);

/* True if f is a posit, a short integer or a power of two. */
bool ref_is_coded(limber_format f);
/* Returns the value of a bit pattern of a posit, a short integer or a power of two. */
double ref_value_of_bits(limber_format f, uint64_t code);
/* Returns the bit pattern of x rounded to nearest. */
uint64_t ref_nearest_code(limber_format f, const mpfr_t x);

#endif
