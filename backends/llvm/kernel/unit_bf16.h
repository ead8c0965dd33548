/* SPDX-License-Identifier: BSD-3-Clause
 * The unit arm-bfdot, which adds pairs of BF16 products, computed by the instruction BFDOT itself.
 * BFMMLA would be twice as fast, but its operands would need shuffles. */
#ifndef LIMBER_KERNEL_UNIT_BF16_H
#define LIMBER_KERNEL_UNIT_BF16_H

#include <arm_neon.h>

enum { PAIR_ROWS = 4, PAIR_VECTORS = 4 };   /* registers hold the sums of 4 x 16 elements */

/* Interleaves 8 elements of each of two rows along k.  both: the second row exists; if k is odd,
 * the last row is interleaved with zeros. */
FLAT void pairs_of(const uint16_t *row, int64_t lines, int both, bfloat16x8_t pair[2])
{
    uint16x8_t first = vld1q_u16(row), second = both ? vld1q_u16(row + lines) : vdupq_n_u16(0);

    pair[0] = vreinterpretq_bf16_u16(vzip1q_u16(first, second));
    pair[1] = vreinterpretq_bf16_u16(vzip2q_u16(first, second));
}

/* Adds two products to each sum, as BFDOT does.  both: the second product exists. */
FLAT void add_pairs(float32x4_t sum[PAIR_ROWS][PAIR_VECTORS], const uint16_t *a, const uint16_t *b,
                    int both)
{
    uint16x4_t first = vld1_u16(a), second = both ? vld1_u16(a + CONSTANT.mr) : vdup_n_u16(0);
    bfloat16x8_t rows = vreinterpretq_bf16_u16(vcombine_u16(vzip1_u16(first, second),
                                                            vzip2_u16(first, second)));
    bfloat16x8_t pair[PAIR_VECTORS];

    pairs_of(b, CONSTANT.nr, both, pair);
    pairs_of(b + 8, CONSTANT.nr, both, pair + 2);
    UNROLL for (int v = 0; v < PAIR_VECTORS; v++) {
        sum[0][v] = vbfdotq_laneq_f32(sum[0][v], pair[v], rows, 0);
        sum[1][v] = vbfdotq_laneq_f32(sum[1][v], pair[v], rows, 1);
        sum[2][v] = vbfdotq_laneq_f32(sum[2][v], pair[v], rows, 2);
        sum[3][v] = vbfdotq_laneq_f32(sum[3][v], pair[v], rows, 3);
    }
}

/* Computes a register tile over all of k.  to: the sums, row by row. */
FLAT void sum_pairs(int64_t k, const uint16_t *a, const uint16_t *b, float *to)
{
    ROLL for (int r = 0; r < CONSTANT.mr; r += PAIR_ROWS)
        ROLL for (int j = 0; j < CONSTANT.nr; j += 4 * PAIR_VECTORS) {
            float32x4_t sum[PAIR_ROWS][PAIR_VECTORS];

            UNROLL for (int i = 0; i < PAIR_ROWS * PAIR_VECTORS; i++)
                sum[i / PAIR_VECTORS][i % PAIR_VECTORS] = vdupq_n_f32(0);
            ROLL for (int64_t p = 0; p + 2 <= k; p += 2)
                add_pairs(sum, a + p * CONSTANT.mr + r, b + p * CONSTANT.nr + j, 1);
            if (k % 2)
                add_pairs(sum, a + (k - 1) * CONSTANT.mr + r, b + (k - 1) * CONSTANT.nr + j, 0);
            UNROLL for (int i = 0; i < PAIR_ROWS * PAIR_VECTORS; i++)
                vst1q_f32(to + (r + i / PAIR_VECTORS) * CONSTANT.nr + j + i % PAIR_VECTORS * 4,
                          sum[i / PAIR_VECTORS][i % PAIR_VECTORS]);
        }
}

#endif
