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
    bool zero; /* nothing but zeros */
};

int simt_elements(int kind); /* of 32 bytes */
/* The model of a kind on a device of this compute capability; columns: of products into tensor
 * memory, which add FP8 otherwise.  False where the library has none. */
bool simt_model(int kind, int capability, bool columns, struct model *m);
void simt_line(int kind, const void *bytes, struct line *l);
float simt_dot(int kind, const struct model *m, const struct line *a, const struct line *b,
               float c);

/* ---- blocks with scales ---- */

/* Up to 64 elements: value i is sig[i] 2^(exp[i] - fraction bits of the format), and has the scale
 * of its block; `value` has it, too. */
struct scaled_line {
    int n, frac_bits, blocks;
    int32_t sig[64], exp[64], scale_sig[4], scale_exp[4];
    double value[64];
    bool special;
};

enum { SIMT_FORMATS = 6 }; /* of elements, as descriptors number them; 2 is none */
/* False where bits are set that no element has. */
bool simt_scaled_line(enum simt_scaled kind, int format, const uint8_t bytes[32],
                      const uint8_t *scales, struct scaled_line *l);
/* Elements that lie 16 together in 16 bytes, each to a byte of its own; false where bits are set
 * behind them.  Other kinds are left as they are. */
bool simt_set_apart(enum simt_scaled kind, int format, const uint8_t from[32], uint8_t to[32]);
/* False where the library's preset is of another kind than what is computed here. */
bool simt_scaled_dot(enum simt_scaled kind, const struct scaled_line *a,
                     const struct scaled_line *b, float *c);

#endif
