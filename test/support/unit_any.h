/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units, random ones and operands for them, and what tests of them share. */
#ifndef LIMBER_TEST_UNIT_ANY_H
#define LIMBER_TEST_UNIT_ANY_H

#include "support.h"

/* Of a description; fails the test where it is none. */
limber_unit unit(const char *text);
/* A random description and, in text, its words. */
limber_unit any_unit(struct rng *r, char *text, size_t size);

enum { VALUE_KINDS = 8 };       /* of data */
double any_value(struct rng *r, int kind);
double *any_matrix(struct rng *r, int64_t count, int kind);     /* of binary32 numbers */
/* The same in a format, to be freed. */
void *converted(const double *x, size_t count, limber_format f);
/* The first of `count` results that is another number, with both as binary64; -1: none is. */
int64_t first_difference(limber_format f, const void *want, const void *got, size_t count,
                         double value[2]);

/* A small convolution in which strides, dilation, padding and groups differ by direction. */
extern const limber_conv uneven_conv;
/* By two contexts, the second of which takes a scheme (NULL: its own choice): the same bits. */
void same_simulated_conv(struct rng *r, const char *text, limber_layout layout,
                         limber_context *const ctx[2], const char *scheme);

#endif
