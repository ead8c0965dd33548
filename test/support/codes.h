/* SPDX-License-Identifier: BSD-3-Clause
 * References for posits, short integers and powers of two, written from their standards without the
 * library. */
#ifndef LIMBER_TEST_CODES_H
#define LIMBER_TEST_CODES_H

#include "limber/format.h"

#include <mpfr.h>
#include <stdbool.h>

/* The value of a posit of `bits` bits with es = 2, decoded bit by bit; NaN for NaR. */
double ref_posit(int bits, uint64_t code);

/* Returns whether f is one of these formats. */
bool ref_is_coded(limber_format f);
double ref_coded_value(limber_format f, uint64_t code);
/* The code of x, rounded to nearest. */
uint64_t ref_coded_nearest(limber_format f, const mpfr_t x);

#endif
