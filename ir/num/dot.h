/* SPDX-License-Identifier: BSD-3-Clause
 * Exact sums of products, and results that a small error cannot change. */
#ifndef LIMBER_DOT_H
#define LIMBER_DOT_H

#include "ir/ir.h"
#include "ir/num/prim.h"
#include "ir/view.h"

/* Words that hold every sum of up to 2^kbits products of two finite numbers, and the exponent of
 * their lowest bit. */
int limber_dot_words(limber_format a, limber_format b, int kbits);
int limber_dot_base(limber_format a, limber_format b);

/* The sum over p < k of element (i,p) of a times (j,p) of b; what is not finite counts as zero. sum
 * has the words and the base of the functions above. */
void limber_dot(struct limber_big *sum, const struct view *a, limber_format fa, int64_t i,
                const struct view *b, limber_format fb, int64_t j, int64_t k);

/* dst = round(alpha s 2^exp + beta dst), where all s within 2^uncertain of the n words at w give
 * the same; false where they do not, and dst is as it was. */
bool limber_store_certain(void *dst, limber_format f, const uint64_t *w, int n, int uncertain,
                          int exp, const struct limber_scalars *sc);
/* A sum of products, off by less than `off` from high + low. */
struct near_sum {
    double high, low, off;
};
/* dst = round(alpha s + beta dst), f a float of at most 24 bits, where all that s may be give the
 * same; false where they do not, and dst is as it was.  scalars: NULL, or alpha and beta. */
bool limber_store_near(void *dst, limber_format f, struct near_sum s, const double *scalars);

#endif
