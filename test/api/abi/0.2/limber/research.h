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

/* Elements loaded from one random number each: the number for output (i,j), stream and index, the
 * same for any tiling, thread count and backend. */
LIMBER_API uint32_t limber_unit_random(uint64_t seed, int64_t i, int64_t j, uint32_t stream,
                                       uint32_t index);

/* Variance retention rate of n additions into acc_bits fraction bits of products with product_bits:
 * Sakr et al., ICLR 2019, theorem 1.  A model; NAN outside 1 <= bits <= 30, 1 <= n <= 2^24. */
LIMBER_API double limber_retention(int acc_bits, int product_bits, int64_t n);
typedef enum limber_chunking {
    LIMBER_CHUNKING_BY_LENGTH,
    LIMBER_CHUNKING_BY_NUMBER /* log2 of groups instead of length, as another implementation does */
} limber_chunking;
/* The same in `groups` chunks of `length`:
 * VRR(a, p, length) VRR(a, min(a, p + log2 length), groups). */
LIMBER_API double limber_retention_chunked(int acc_bits, int product_bits, int64_t length,
                                           int64_t groups, limber_chunking chunking);
/* Of a unit at inner dimension k: its acc, its products, its groups. */
LIMBER_API double limber_unit_retention(const limber_unit *unit, int64_t k);

#ifdef __cplusplus
}
#endif

#endif
