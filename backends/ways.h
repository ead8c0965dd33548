/* SPDX-License-Identifier: BSD-3-Clause
 * The ways in which products and convolutions are computed, best first, as plans, dumps, reports,
 * the log and LIMBER_WAYS name them.  Each call tries the list of jit/ways.c; a backend decides
 * which of the last ones a kernel's launch takes (struct backend, `way`). */
#ifndef LIMBER_WAYS_H
#define LIMBER_WAYS_H

#include <stdint.h>

#define LIMBER_WAY_LIST(WAY) \
    /* need no plan */ \
    WAY(vectors, "a matrix times a vector, or two vectors, native or reproducible") \
    WAY(direct, "native products of one float format that are small or have short sums, in place") \
    WAY(integers, "native products of integers by plain loops: with vectors, small, or wide") \
    WAY(depthwise, "convolutions whose filters see one channel each, native or of bytes") \
    WAY(pairs, "small products to a contract, summed as pairs of doubles") \
    WAY(bytes, "floats that hold bytes, which are multiplied as integers") \
    WAY(depthwise_exact, "depthwise convolutions whose sums are exact for this data") \
    WAY(depthwise_pairs, "depthwise convolutions to a contract, summed as pairs of doubles") \
    /* uses several plans */ \
    WAY(parts, "several plans, each for the part of the data that suits it") \
    /* use one plan; the first two run library code instead of the plan's kernel */ \
    WAY(windows, "bytes as integers: windows are read where an image lies") \
    WAY(unpacked, "native products of floats: A is read as it lies, B in strips") \
    WAY(cublas, "cuBLAS") \
    WAY(inside, "the plan's kernel, which makes limbs while it multiplies") \
    WAY(packed, "the plan's kernel, on limbs that are packed before") \
    WAY(interpreter, "the interpreter")

enum way_id {
    WAY_none,
#define ID(name, about) WAY_##name,
    LIMBER_WAY_LIST(ID)
#undef ID
        WAY_count
};

const char *limber_way_name(enum way_id way);
const char *limber_way_about(enum way_id way);

/* The bit of a way in a set of ways. */
static inline uint32_t limber_way_bit(enum way_id way)
{
    return (uint32_t)1 << way;
}

enum {
    WAYS_all = (1 << WAY_count) - 1,
    WAYS_planless = 1 << WAY_vectors | 1 << WAY_direct | 1 << WAY_integers | 1 << WAY_depthwise |
                    1 << WAY_pairs | 1 << WAY_depthwise_exact | 1 << WAY_depthwise_pairs
};

#endif
