/* SPDX-License-Identifier: BSD-3-Clause
 * One instruction of a tensor core, as the library's models say (docs/simulation.md), in 64-bit
 * integers.  Operands are lines of 32 bytes along k. */
#ifndef LIMBER_SIMT_DOT_H
#define LIMBER_SIMT_DOT_H

#include <stdbool.h>
#include <stdint.h>

#include "test/cuda/simt/api.h"

/* Of a preset: fused blocks of products, fraction bits below the largest exponent, its floor,
 * fraction bits of the result. */
struct model {
    int block, frac, floor, bits;
    bool quads; /* FP8 as two blocks of FP16, the first two of each four and the others, from zero,
                   and added to the sum so far in binary32 */
};

/* Value i is sig[i] 2^(exp[i] - fraction bits of the format); zeros have an exponent below all. */
struct line {
    int32_t sig[32], exp[32];
    float value[32];
    bool special; /* holds NaN or infinity */
};

int simt_elements(int kind); /* of 32 bytes */
/* The model of a kind on a device of this compute capability; columns: of products into tensor
 * memory, which add FP8 otherwise.  False where the library has none. */
bool simt_model(int kind, int capability, bool columns, struct model *m);
void simt_line(int kind, const void *bytes, struct line *l);
float simt_dot(int kind, const struct model *m, const struct line *a, const struct line *b,
               float c);

#endif
