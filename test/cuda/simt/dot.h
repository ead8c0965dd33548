/* SPDX-License-Identifier: BSD-3-Clause
 * One tensor core instruction by the library's models (docs/simulation.md), in 64-bit integers.
 * Operands are lines of 32 bytes along k. */
#ifndef LIMBER_SIMT_DOT_H
#define LIMBER_SIMT_DOT_H

#include <stdbool.h>
#include <stdint.h>

#include "test/cuda/simt/api.h"

/* Parameters of a preset: products per fused block, fraction bits below the largest exponent,
 * smallest exponent, fraction bits of the result. */
struct model {
    int block, frac, floor, bits;
    /* FP8 as two blocks of FP16: the first two elements of each four with the sum so far, and the
     * others from zero; both are added in binary32 */
    bool quads;
};

/* Value i is sig[i] 2^(exp[i] - fraction bits of the format); zeros have the lowest exponent. */
struct line {
    int32_t sig[32], exp[32];
    float value[32];
    bool special; /* has NaN or infinity */
    bool zero; /* all elements are zero */
};

int simt_elements(int kind); /* number of elements in 32 bytes */
/* The model of a kind on a device with this compute capability. columns: products into tensor
 * memory, which sum FP8 differently.  False: the library has no model. */
bool simt_model(int kind, int capability, bool columns, struct model *m);
void simt_line(int kind, const void *bytes, struct line *l);
float simt_dot(int kind, const struct model *m, const struct line *a, const struct line *b,
               float c);

/* ---- blocks with scales ---- */

/* Up to 64 elements: value i is sig[i] 2^(exp[i] - fraction bits of the format) without its block's
 * scale; `value` includes the scale. */
struct scaled_line {
    int n, frac_bits, blocks;
    int32_t sig[64], exp[64], scale_sig[4], scale_exp[4];
    double value[64];
    bool special;
};

enum { SIMT_FORMATS = 6 }; /* number of element formats, numbered as in descriptors; 2 is unused */
/* Decodes a line; false if unused bits are set. */
bool simt_scaled_line(enum simt_scaled kind, int format, const uint8_t bytes[32],
                      const uint8_t *scales, struct scaled_line *l);
/* Unpacks elements of less than a byte from 16 per 16 bytes to one per byte; false if unused bits
 * are set.  Other kinds are unchanged. */
bool simt_set_apart(enum simt_scaled kind, int format, const uint8_t from[32], uint8_t to[32]);
/* False if the library's preset differs in kind from what is computed here. */
bool simt_scaled_dot(enum simt_scaled kind, const struct scaled_line *a,
                     const struct scaled_line *b, float *c);

#endif
