/* SPDX-License-Identifier: BSD-3-Clause
 * Random simulated units (models of matrix units), operands for them, and helpers of their
 * tests. */
#ifndef LIMBER_TEST_UNIT_ANY_H
#define LIMBER_TEST_UNIT_ANY_H

#include "support.h"

/* Parses a description of a unit.  Fails the test if it is invalid. */
limber_unit unit(const char *text);
/* A description that is refused, and a part of the message. */
struct refused_unit {
    const char *text, *key;
};
/* Fails unless each description is refused with its message, and leaves the structure empty. */
void expect_refused_units(const struct refused_unit *bad, size_t count);
/* Returns a random unit, and writes its description to `text` of `size` bytes. */
limber_unit any_unit(struct rng *r, char *text, size_t size);
/* Returns a random unit with the words that describe calls of libraries: tiles, epilogue. */
limber_unit any_library_unit(struct rng *r, char *text, size_t size);

enum { VALUE_KINDS = 8 }; /* kinds of random operands; see any_value() */
double any_value(struct rng *r, int kind);
/* Returns `count` random numbers of binary32.  The caller frees them. */
double *any_matrix(struct rng *r, int64_t count, int kind);
/* Returns x converted to a format.  The caller frees it. */
void *converted(const double *x, size_t count, limber_format f);

/* A small convolution with groups whose strides, dilations and paddings differ by dimension. */
extern const limber_conv uneven_conv;
/* Convolves in two contexts, in the second with the given scheme (NULL for its default), and checks
 * that both results have the same bits. */
void same_simulated_conv(struct rng *r, const char *text, limber_layout layout,
                         limber_context *const ctx[2], const char *scheme);

#endif
