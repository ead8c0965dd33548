/* SPDX-License-Identifier: BSD-3-Clause
 * Computes one instruction of a tensor core by the library's models (docs/simulation.md), in 64-bit
 * integers.  Operands are lines (rows of A or columns of B) of 32 bytes along k. */
#ifndef LIMBER_SIMT_DOT_H
#define LIMBER_SIMT_DOT_H

#include <stdbool.h>
#include <stdint.h>

#include "test/cuda/simt/api.h"

/* Parameters of a tensor core: products per fused block, fraction bits that are kept below the
 * largest exponent, smallest exponent, fraction bits of the result. */
struct model {
    int block, frac, floor, bits;
    /* FP8 elements are multiplied as FP16 in two blocks: the first two elements of each four,
     * starting from 0, then the last two, which are added to that sum.  The sum is added to c in
     * binary32. */
    bool quads;
};

/* The decoded elements of a line: value[i] is sig[i] * 2^(exp[i] - fraction bits of the format).
 * Zeros have the lowest exponent. */
struct line {
    int32_t sig[32], exp[32];
    float value[32];
    bool special; /* has NaN or infinity */
    bool zero; /* all elements are zero */
};

int simt_elements(int kind); /* returns the number of elements in 32 bytes */
/* Sets *m to the parameters of a device with this compute capability for a kind of product.
 * columns: products into tensor memory, which sum FP8 differently.  Returns false if the library
 * has no preset for them. */
bool simt_model(int kind, int capability, bool columns, struct model *m);
void simt_line(int kind, const void *bytes, struct line *l);
float simt_dot(int kind, const struct model *m, const struct line *a, const struct line *b,
               float c);

/* ---- blocks with scales ---- */

/* The decoded elements of a line, at most 64, of a block-scaled operand.  Without its block's
 * scale, element i is sig[i] * 2^(exp[i] - fraction bits of the format); value[i] includes the
 * scale. */
struct scaled_line {
    int n, frac_bits, blocks;
    int32_t sig[64], exp[64], scale_sig[4], scale_exp[4];
    double value[64];
    bool special;
};

/* number of element formats, numbered as in instruction descriptors; 2 is unused */
enum { SIMT_FORMATS = 6 };
/* Decodes a line of an operand.  Returns false if bits outside an element are set. */
bool simt_scaled_line(enum simt_scaled kind, int format, const uint8_t bytes[32],
                      const uint8_t *scales, struct scaled_line *l);
/* Unpacks 16 elements of less than a byte, from the start of each 16 bytes, to one element per
 * byte. Returns false if unused bits are set.  Copies elements of other kinds unchanged. */
bool simt_unpack(enum simt_scaled kind, int format, const uint8_t from[32], uint8_t to[32]);
/* Adds the dot product of two lines to *c.  Returns false if the library's preset has features
 * that this function lacks. */
bool simt_scaled_dot(enum simt_scaled kind, const struct scaled_line *a,
                     const struct scaled_line *b, float *c);

#endif
