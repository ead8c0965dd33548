/* SPDX-License-Identifier: BSD-3-Clause
 * Exact sums of products, and stores that report whether an uncertain sum rounds to one value. */
#ifndef LIMBER_DOT_H
#define LIMBER_DOT_H

#include "ir/ir.h"
#include "ir/num/prim.h"
#include "ir/view.h"

/* Number of 64-bit words that hold every sum of up to 2^kbits products of two finite numbers. */
int limber_dot_words(limber_format a, limber_format b, int kbits);
/* The exponent of the lowest bit that a sum of products of two finite numbers can have. */
int limber_dot_base(limber_format a, limber_format b);

/* sum = the sum over p < k of a(i,p) b(j,p); NaN and infinities count as zero.  sum has the words
 * and the base of the functions above. */
void limber_dot(struct limber_big *sum, const struct view *a, limber_format fa, int64_t i,
                const struct view *b, limber_format fb, int64_t j, int64_t k);

/* A dot product: lines i of a and j of b, of k elements. */
struct limber_lines {
    const struct view *a, *b;
    limber_format fa, fb;
    int64_t i, j, k;
};
/* dst = round(alpha s + beta dst), where s is the exact sum, or `class` if that is NaN or infinite;
 * k < 2^40. */
void limber_dot_store(void *dst, limber_format f, const struct limber_lines *x, double class,
                      const struct limber_scalars *sc);

/* dst = round(alpha s 2^exp + beta dst) if all s within 2^uncertain of the integer of n words at w
 * round to the same value.  Else false, and dst is unchanged. */
bool limber_store_certain(void *dst, limber_format f, const uint64_t *w, int n, int uncertain,
                          int exp, const struct limber_scalars *sc);
/* A sum of products: high + low, with an error below `off`. */
struct near_sum {
    double high, low, off;
};
/* dst = round(alpha s + beta dst) if all values within the sum's error round to the same value; f
 * is a float of at most 24 bits.  Else false, and dst is unchanged.
 * scalars: NULL, or alpha and beta. */
bool limber_store_near(void *dst, limber_format f, struct near_sum s, const double *scalars);

#endif
