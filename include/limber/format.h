/* SPDX-License-Identifier: BSD-3-Clause
 * Number formats as data.
 *
 * A format says what an element means and how it lies in memory.  Floats are (1,e,m): one sign
 * bit, e exponent bits, m fraction bits.  Named formats are stored as themselves (f16 in two
 * bytes, e4m3 in one, dd as two doubles, high first); tf32 and the free (1,e,m) formats are
 * stored in a carrier, float for e <= 8 and m <= 23 and double for e <= 11 and m <= 52, whose
 * values must be members of the format (conversion to the format makes them so).
 *
 * All functions here are pure and thread-safe. */
#ifndef LIMBER_FORMAT_H
#define LIMBER_FORMAT_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LIMBER_API
#define LIMBER_API __attribute__((visibility("default")))
#endif

typedef enum limber_kind {
    LIMBER_KIND_NONE,   /* no format */
    LIMBER_KIND_FLOAT,  /* (1, exp_bits, frac_bits) */
    LIMBER_KIND_INT,    /* two's complement of `size` bytes */
    LIMBER_KIND_UINT,   /* unsigned, of `size` bytes */
    LIMBER_KIND_DD,     /* unevaluated sum of two binary64, |low| <= ulp(high)/2 */
    LIMBER_KIND_EXACT   /* inside plans only: an exact dyadic number */
} limber_kind;

enum limber_format_flags {
    LIMBER_FORMAT_NO_INF = 1,       /* no infinities; the top exponent holds numbers (OCP e4m3) */
    LIMBER_FORMAT_NO_SUBNORMAL = 2, /* values below the smallest normal are flushed to zero */
    LIMBER_FORMAT_SATURATE = 4,     /* overflow gives the largest finite value */
    LIMBER_FORMAT_FINITE = 8        /* neither infinities nor NaN (OCP fp6, fp4): all codes are
                         numbers, overflow saturates, NaN becomes 0 */
};

/* Plain data of eight bytes; compare with limber_format_equal. */
typedef struct limber_format {
    uint8_t kind;       /* limber_kind */
    uint8_t exp_bits;   /* floats: 1..15 */
    uint8_t frac_bits;  /* floats: 0..112 */
    uint8_t flags;      /* limber_format_flags */
    int16_t bias;       /* floats: value of a normal is 2^(field - bias) * 1.f */
    uint8_t size;       /* bytes of one element in memory */
    uint8_t carried;    /* 1: stored in a binary32 or binary64 carrier of `size` bytes */
} limber_format;

typedef enum limber_rounding {
    LIMBER_ROUND_NEAREST,  /* to nearest, ties to even */
    LIMBER_ROUND_ZERO,  /* toward zero */
    LIMBER_ROUND_UP,  /* toward plus infinity */
    LIMBER_ROUND_DOWN,  /* toward minus infinity */
    LIMBER_ROUND_AWAY,  /* to nearest, ties away from zero */
    LIMBER_ROUND_ODD,  /* to odd: inexact results get an odd last bit */
    LIMBER_ROUND_STOCHASTIC   /* stochastic: in units only (unit.h) */
} limber_rounding;

/* The format called name: f16 bf16 tf32 e4m3 e5m2 e3m2 e2m3 e2m1 f32 f64 f128 dd i8
 * i16 i32 i64 u8, or "(1,e,m)"
 * with IEEE rules, 2 <= e <= 11 and 1 <= m, in a binary32 or binary64 carrier.
 * BAD_ARGUMENT when the name is unknown or the carrier cannot hold it; *out is then KIND_NONE. */
LIMBER_API limber_status limber_format_named(const char *name, limber_format *out);

/* Writes the name of f (as limber_format_named reads it) into text, at most size bytes with the
 * closing zero; returns text. */
LIMBER_API const char *limber_format_name(limber_format f, char *text, size_t size);

LIMBER_API int limber_format_equal(limber_format a, limber_format b);

/* Converts count elements.  Every source value is rounded once, by mode; NaN and Inf follow the
 * target's rules (no infinity: Inf becomes NaN, or the largest value when it saturates).
 * Integers saturate; NaN becomes 0.  dst and src must not overlap.
 * Source: IEEE 754-2019, sections 3.4, 4.3, 5.4; OCP 8-bit floating point specification 1.0. */
LIMBER_API limber_status limber_convert(void *dst, limber_format to, const void *src,
                                        limber_format from, size_t count, limber_rounding mode);

#ifdef __cplusplus
}
#endif
#endif
