/* SPDX-License-Identifier: BSD-3-Clause
 * Random simulated units, operands for them, and helpers that tests of units share. */
#ifndef LIMBER_TEST_UNIT_ANY_H
#define LIMBER_TEST_UNIT_ANY_H

#include "support.h"

/* Parses a description; fails the test where it is invalid. */
limber_unit unit(const char *text);
/* Makes a random unit, with its description in text. */
limber_unit any_unit(struct rng *r, char *text, size_t size);

enum { VALUE_KINDS = 8 };       /* kinds of data */
double any_value(struct rng *r, int kind);
/* random numbers of binary32; the caller frees them */
double *any_matrix(struct rng *r, int64_t count, int kind);
/* Converts to a format; the caller frees the result. */
void *converted(const double *x, size_t count, limber_format f);
/* Returns the first of `count` results that differs, with both values as binary64; -1: none
 * does. */
int64_t first_difference(limber_format f, const void *want, const void *got, size_t count,
                         double value[2]);

/* A small convolution whose strides, dilation, padding and groups differ by direction. */
extern const limber_conv uneven_conv;
/* Convolves in two contexts, the second with a scheme (NULL: its own choice), and expects the same
 * bits. */
void same_simulated_conv(struct rng *r, const char *text, limber_layout layout,
                         limber_context *const ctx[2], const char *scheme);

#endif
