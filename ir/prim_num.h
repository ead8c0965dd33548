/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers in any format, written once: decode to sign, significand and exponent; encode with one
 * rounding.  Read by the C compiler for the library, and as bitcode by the LLVM backend; hence C
 * without libc and without 128-bit division. */
#ifndef LIMBER_PRIM_NUM_H
#define LIMBER_PRIM_NUM_H

#include "limber/format.h"

#define PRIM static inline __attribute__((always_inline, unused))

enum limber_num_kind { NUM_zero, NUM_finite, NUM_inf, NUM_nan };

/* (-1)^sign * (hi * 2^64 + lo) * 2^exp; finite: hi and lo are not both zero, nothing is
 * normalised.  Zeros carry their sign. */
struct limber_num {
    uint64_t hi, lo;
    int32_t exp;
    uint8_t sign, kind;
};

#endif
