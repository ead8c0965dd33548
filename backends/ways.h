/* SPDX-License-Identifier: BSD-3-Clause
 * The ways (code paths) by which products and convolutions are computed, best first, with the names
 * that plans, dumps, reports, the log and LIMBER_WAYS use.  Each call tries the ways in this order
 * (jit/ways.c). */
#ifndef LIMBER_WAYS_H
#define LIMBER_WAYS_H

#include <stdint.h>

/* Ways to compute a call (code paths) among which the folder jit chooses.  Each has a structure
 * `limber_way_NAME` in a file of jit (jit/ways.h). */
#define LIMBER_CALL_WAYS(WAY) \
    WAY(vectors, "a matrix times a vector, or two vectors, native or reproducible") \
    WAY(direct, "native products of one float format that are small or have short sums, in place") \
    WAY(integers, "native products of integers by plain loops: with vectors, small, or wide") \
    WAY(depthwise, "convolutions whose filters see one channel each, native or of bytes") \
    WAY(pairs, "small products to a contract, summed as pairs of doubles") \
    WAY(bytes, "floats that hold bytes, which are multiplied as integers") \
    WAY(depthwise_exact, "depthwise convolutions whose sums are exact for this data") \
    WAY(depthwise_pairs, "depthwise convolutions to a contract, summed as pairs of doubles") \
    WAY(parts, "several plans, each for the part of the data that suits it")
/* Ways to compute a launch of one plan (code paths) among which the backend chooses.  `windows` and
 * `unpacked` run library code instead of the plan's kernel. */
#define LIMBER_LAUNCH_WAYS(WAY) \
    WAY(windows, "bytes as integers: windows are read where an image lies") \
    WAY(unpacked, "native products of floats: A is read as it lies, B in strips") \
    WAY(cublas, "cuBLAS") \
    WAY(inside, "the plan's kernel, which makes limbs while it multiplies") \
    WAY(packed, "the plan's kernel, on limbs that are packed before") \
    WAY(interpreter, "the interpreter")

enum way_id {
    WAY_none,
#define ID(name, about) WAY_##name,
    LIMBER_CALL_WAYS(ID) LIMBER_LAUNCH_WAYS(ID)
#undef ID
        WAY_count
};

const char *limber_way_name(enum way_id way);
const char *limber_way_about(enum way_id way);

/* Returns the bit that stands for a way (code path) in a set of ways. */
static inline uint32_t limber_way_bit(enum way_id way)
{
    return (uint32_t)1 << way;
}

enum { WAYS_all = (1 << WAY_count) - 1 };

#endif
