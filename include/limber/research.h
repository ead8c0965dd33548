/* SPDX-License-Identifier: BSD-3-Clause
 * For those who study formats: models of accuracy, a paper's configuration files, and the random
 * numbers of stochastic rounding.  Programs that only multiply matrices do not need it. */
#ifndef LIMBER_RESEARCH_H
#define LIMBER_RESEARCH_H

#include "unit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The unit of one layer of a configuration file in LPGEMM's keys, one "key = value" a line:
 *   groupedCumulativeLength = 16        targetFloatType = (1,5,2)
 *   roundingType = "nearest"            quantLayer = [conv1,FC1]
 * Keys under a line "[layer]" hold for that layer alone.  layer NULL: what holds for all.
 * *listed tells whether the layer is quantised at all (quantLayer; absent: every layer is). */
LIMBER_API limber_status limber_unit_lpgemm(const char *text, const char *layer, limber_unit *unit,
                                            int *listed);

/* The random number of 32 bits that rounds at output (i,j), stream and index: the same for any
 * tiling, thread count and backend. */
LIMBER_API uint32_t limber_unit_random(uint64_t seed, int64_t i, int64_t j, uint32_t stream,
                                       uint32_t index);

/* Variance retention rate of n additions into acc_bits fraction bits of products with product_bits:
 * Sakr et al., ICLR 2019, theorem 1.  A model; NAN outside 1 <= bits <= 30, 1 <= n <= 2^24. */
LIMBER_API double limber_retention(int acc_bits, int product_bits, int64_t n);
typedef enum limber_chunking {
    LIMBER_CHUNKING_BY_LENGTH,
    LIMBER_CHUNKING_BY_NUMBER /* log2 of groups instead of length, as another implementation does */
} limber_chunking;
/* Variance retention rate of a sum in `groups` chunks of `length`:
 * VRR(a, p, length) VRR(a, min(a, p + log2 length), groups); NAN for an unknown chunking. */
LIMBER_API double limber_retention_chunked(int acc_bits, int product_bits, int64_t length,
                                           int64_t groups, limber_chunking chunking);
/* Variance retention rate of a unit at inner dimension k: of its acc, products and groups. */
LIMBER_API double limber_unit_retention(const limber_unit *unit, int64_t k);

/* A sum under study: stores the sum of a[p] b[p], p < k, as an implementation computes it.  Returns
 * 0, or another number where it failed. */
typedef int limber_reveal_fn(void *user, const double *a, const double *b, int64_t k, double *sum);

/* Finds the order in which an implementation sums k products, from what it makes of special numbers
 * (Xie et al., FPRev, USENIX ATC 2025).  It calls `sum` about k times where terms are added from
 * the first to the last, k log2 k times for balanced trees, at most k (k - 1) / 2 times, and some
 * hundred times more for the words; more often where sums have too few bits to count to k.
 *
 * operand  format of a and b: they get numbers that it holds; where it has 8 bits, also some beyond
 *          its range, from which blocks with scales are told
 * result   format of *sum.  Sums of fewer bits are found by themselves
 * tree     the order.  Freed by limber_free
 *            [a, b, c]    a, then b is added, then c
 *            [a, [b, c]]  the sum of b and c is added to a
 *            {0..7}       all at once; in a list, with what stands before
 *            0..12:4      0, 4, 8, 12
 * unit     NULL: not wanted.  Else *unit becomes the words of a simulated unit that sums so
 *          (limber_unit_parse reads them), the simplest ones for this k, or NULL where no words say
 *          this order, or sums round at random.  Freed as tree
 *
 * BAD_ARGUMENT: k is below 2 or above 65536, the range of `operand` does not hold what k needs, or
 * results do not come from one order of rounded additions, as those of compensated sums. */
LIMBER_API limber_status limber_reveal(limber_reveal_fn *sum, void *user, int64_t k,
                                       limber_format operand, limber_format result, char **tree,
                                       char **unit);

#ifdef __cplusplus
}
#endif

#endif
