/* SPDX-License-Identifier: BSD-3-Clause
 * For the study of formats: models of accuracy, the configuration files of a paper, and the random
 * numbers of stochastic rounding.  Programs that only multiply matrices do not need this header. */
#ifndef LIMBER_RESEARCH_H
#define LIMBER_RESEARCH_H

#include "unit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the unit of one layer from the text of an LPGEMM configuration file, which has one "key =
 * value" a line:
 *   groupedCumulativeLength = 16        targetFloatType = (1,5,2)
 *   roundingType = "nearest"            quantLayer = [conv1,FC1]
 * Keys under a line "[layer]" hold for that layer alone.  If layer is NULL, the keys for all layers
 * are used.  *listed becomes 1 if the layer is quantised, else 0: the key quantLayer lists such
 * layers, and without that key every layer is quantised. */
LIMBER_API limber_status limber_unit_lpgemm(const char *text, const char *layer, limber_unit *unit,
                                            int *listed);

/* Returns the 32 random bits of one stochastic rounding at output (i,j). stream and index tell the
 * roundings of an output apart.  The number does not depend on tiling, threads or backend. */
LIMBER_API uint32_t limber_unit_random(uint64_t seed, int64_t i, int64_t j, uint32_t stream,
                                       uint32_t index);

/* Predicts the variance retention ratio (VRR) of n additions to an accumulator with acc_bits
 * fraction bits, of products with product_bits fraction bits: Sakr et al., ICLR 2019, theorem 1.
 * NAN unless 1 <= bits <= 30 and 1 <= n <= 2^24. */
LIMBER_API double limber_retention(int acc_bits, int product_bits, int64_t n);
typedef enum limber_chunking {
    LIMBER_CHUNKING_BY_LENGTH,
    /* uses log2 of the number of groups in place of their length, as another implementation does */
    LIMBER_CHUNKING_BY_NUMBER
} limber_chunking;
/* Variance retention ratio of a sum in `groups` chunks of `length` products: VRR(a, p, length)
 * VRR(a, min(a, p + log2 length), groups).  NAN for an unknown chunking. */
LIMBER_API double limber_retention_chunked(int acc_bits, int product_bits, int64_t length,
                                           int64_t groups, limber_chunking chunking);
/* Returns the variance retention ratio of a unit at inner dimension k, computed from its acc,
 * products and groups. */
LIMBER_API double limber_unit_retention(const limber_unit *unit, int64_t k);

/* A callback of limber_reveal: computes the sum of a[p] b[p] for p < k by the implementation whose
 * order of additions is studied, and stores it in *sum.  Returns 0, or another number on
 * failure. */
typedef int limber_reveal_fn(void *user, const double *a, const double *b, int64_t k, double *sum);

/* Finds the order in which an implementation sums k products, from its results for special numbers
 * (Xie et al., FPRev, USENIX ATC 2025).  It calls `sum` about k times if terms are added from the
 * first to the last, k log2 k times for balanced trees, at most k (k - 1) / 2 times; some hundred
 * times more for the words of a unit; and more often if sums have too few bits to count to k.
 *
 * operand  format of a and b, which get numbers of this format.  If it has 8 bits, they also get
 *          some numbers beyond its range, which reveal blocks with scales
 * result   format of *sum.  If sums have fewer bits, that is found out
 * tree     the order.  Freed by limber_free
 *            [a, b, c]    a, then b is added, then c
 *            [a, [b, c]]  the sum of b and c is added to a
 *            {0..7}       all at once; in a list, together with what is before
 *            0..12:4      0, 4, 8, 12
 * unit     NULL if it is not wanted.  Else *unit becomes the words of a simulated unit that sums in
 *          this order (limber_unit_parse reads them): the simplest words for this k.  *unit is NULL
 *          if no words describe the order, or sums are rounded at random.  Freed by limber_free
 *
 * BAD_ARGUMENT: k is below 2 or above 65536, the range of `operand` does not hold what k needs, or
 * the results do not come from one order of rounded additions; compensated sums, for example. */
LIMBER_API limber_status limber_reveal(limber_reveal_fn *sum, void *user, int64_t k,
                                       limber_format operand, limber_format result, char **tree,
                                       char **unit);

#ifdef __cplusplus
}
#endif

#endif
