/* SPDX-License-Identifier: BSD-3-Clause
 * Exact sums of products, and stores of sums with a known error, which tell whether rounding is
 * certain. */
#ifndef LIMBER_DOT_H
#define LIMBER_DOT_H

#include "ir/ir.h"
#include "ir/num/prim.h"
#include "ir/view.h"

/* Returns the number of 64-bit words that hold every sum of up to 2^kbits products of two finite
 * elements. */
int limber_dot_words(limber_format a, limber_format b, int kbits);
/* Returns the exponent of the lowest bit that a sum of products of two finite elements can have. */
int limber_dot_base(limber_format a, limber_format b);

/* Sets *sum to the sum over p < k of a(i,p) b(j,p); NaN and infinities count as 0.  The caller sets
 * sum->n by limber_dot_words, and sum->base by limber_dot_base. */
void limber_dot(struct limber_big *sum, const struct view *a, limber_format fa, int64_t i,
                const struct view *b, limber_format fb, int64_t j, int64_t k);

/* A dot product of k elements: row i of A and column j of B. */
struct limber_lines {
    const struct view *a, *b;
    limber_format fa, fb;
    int64_t i, j, k;
};
/* Stores round(alpha s + beta dst) to dst, where s is the exact dot product, or `class` if that is
 * NaN or infinite.  k < 2^40. */
void limber_dot_store(void *dst, limber_format f, const struct limber_lines *x, double class,
                      const struct limber_scalars *sc);

/* Stores round(alpha s 2^exp + beta dst) to dst if this is the same value for all s within
 * 2^uncertain of the integer at w, of n words.  Otherwise returns false and leaves dst
 * unchanged. */
bool limber_store_certain(void *dst, limber_format f, const uint64_t *w, int n, int uncertain,
                          int exp, const struct limber_scalars *sc);
/* A sum of products, high + low, whose absolute error is below `off`. */
struct near_sum {
    double high, low, off;
};
/* Stores round(alpha s + beta dst) to dst if this is the same value for all sums within s.off of s.
 * f: a float of at most 24 bits.  Otherwise returns false and leaves dst unchanged.  scalars: alpha
 * and beta, or NULL for 1 and 0. */
bool limber_store_near(void *dst, limber_format f, struct near_sum s, const double *scalars);

#endif
