/* SPDX-License-Identifier: BSD-3-Clause
 * Number formats as data.
 *
 * A format says what an element means and how it is stored.  Floats are (1,e,m): one sign bit, e
 * exponent bits, m fraction bits.  An element of a named format is stored in the format's own
 * bytes: f16 in two bytes, e4m3 in one, dd as two doubles, the high part first.  tf32 and the free
 * (1,e,m) formats are stored in a carrier: a float for e <= 8 and m <= 23, a double for e <= 11 and
 * m <= 52.  The values in a carrier must be values of the format; conversion to the format ensures
 * that.
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

/* Initialises a structure that starts with its size. */
#ifdef __cplusplus
extern "C++" {
template <class T> inline T limber_sized()
{
    T x = T();
    x.size = sizeof x;
    return x;
}
}
#define LIMBER_SIZED(type) (limber_sized<type>())
#else
#define LIMBER_SIZED(type) { .size = sizeof(type) }
#endif

/* Kinds of number formats.  The kind tells how the other fields of a limber_format are read. */
typedef enum limber_kind {
    LIMBER_KIND_NONE,   /* no format */
    LIMBER_KIND_FLOAT,  /* (1, exp_bits, frac_bits) */
    LIMBER_KIND_INT,    /* two's complement of `size` bytes */
    LIMBER_KIND_UINT,   /* unsigned, of `size` bytes */
    /* unevaluated sum of two binary64 numbers, high + low, where |low| <= ulp(high)/2 */
    LIMBER_KIND_DD,
    LIMBER_KIND_EXACT,  /* inside plans only: an exact dyadic number */
    LIMBER_KIND_POSIT,  /* posit of `size` bytes, exp_bits = 2 (Posit Standard 2022) */
    /* two's complement of frac_bits + 1 bits, stored in the low bits of a byte */
    LIMBER_KIND_SHORT,
    LIMBER_KIND_POWER /* 2^(code - bias), where the last code is NaN; no sign, no zero (OCP E8M0) */
} limber_kind;

/* Properties in which a float differs from IEEE 754. */
enum limber_format_flags {
    LIMBER_FORMAT_NO_INF = 1, /* no infinities; the top exponent has numbers (OCP e4m3) */
    /* values below the smallest normal number are flushed to zero */
    LIMBER_FORMAT_NO_SUBNORMAL = 2,
    LIMBER_FORMAT_SATURATE = 4, /* overflow gives the largest finite value */
    /* Neither infinities nor NaN (OCP fp6, fp4): all bit patterns are numbers, overflow saturates,
     * NaN becomes 0. */
    LIMBER_FORMAT_FINITE = 8,
    /* With NO_INF: the bit pattern of -0 is the only NaN, and all ones is a number (fnuz). */
    LIMBER_FORMAT_NO_MINUS_ZERO = 16
};

/* Plain data of eight bytes.  Compare with limber_format_equal. */
typedef struct limber_format {
    uint8_t kind; /* limber_kind */
    uint8_t exp_bits; /* floats: 1..15; posits: 2; powers: 8 */
    uint8_t frac_bits; /* floats: 0..112; posits: 8 size - 5, the bits near 1; short: 1 or 3 */
    uint8_t flags; /* limber_format_flags */
    int16_t bias; /* powers: 127; floats: a normal number is 2^(field - bias) * 1.f */
    uint8_t size; /* bytes of an element in memory */
    uint8_t carried; /* 1: stored in a binary32 or binary64 carrier of `size` bytes */
} limber_format;

/* Every named format, once:
 *   ROW(NAME, name, kind, exponent bits, fraction bits, bias, flags, bytes, carried) */
/* clang-format off */
#define LIMBER_FORMATS(ROW) \
    ROW(F16, f16, FLOAT, 5, 10, 15, 0, 2, 0)   /* IEEE 754-2019 binary16 */ \
    ROW(BF16, bf16, FLOAT, 8, 7, 127, 0, 2, 0)   /* bfloat16: binary32's upper half */ \
    ROW(TF32, tf32, FLOAT, 8, 10, 127, 0, 4, 1)   /* NVIDIA A100 white paper */ \
    ROW(E4M3, e4m3, FLOAT, 4, 3, 7, LIMBER_FORMAT_NO_INF, 1, 0)   /* OCP FP8 1.0: largest 448 */ \
    ROW(E5M2, e5m2, FLOAT, 5, 2, 15, 0, 1, 0)   /* OCP FP8 1.0 */ \
    ROW(E4M3FNUZ, e4m3fnuz, FLOAT, 4, 3, 8, \
        LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_NO_MINUS_ZERO, 1, 0)   /* AMD CDNA3: largest 240 */ \
    ROW(E5M2FNUZ, e5m2fnuz, FLOAT, 5, 2, 16, \
        LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_NO_MINUS_ZERO, 1, 0)   /* AMD CDNA3: largest 57344 */ \
    ROW(E3M2, e3m2, FLOAT, 3, 2, 3, LIMBER_FORMAT_FINITE, 1, 0)   /* OCP MX 1.0 FP6: largest 28 */ \
    ROW(E2M3, e2m3, FLOAT, 2, 3, 1, LIMBER_FORMAT_FINITE, 1, 0)  /* OCP MX 1.0 FP6: to 7.5 */ \
    ROW(E2M1, e2m1, FLOAT, 2, 1, 1, LIMBER_FORMAT_FINITE, 1, 0)   /* OCP MX 1.0 FP4: largest 6 */ \
    ROW(F32, f32, FLOAT, 8, 23, 127, 0, 4, 0)   /* binary32 */ \
    ROW(F64, f64, FLOAT, 11, 52, 1023, 0, 8, 0)   /* binary64 */ \
    ROW(F128, f128, FLOAT, 15, 112, 16383, 0, 16, 0)   /* binary128 */ \
    ROW(DD, dd, DD, 0, 0, 0, 0, 16, 0)   /* two binary64, high first */ \
    ROW(I8, i8, INT, 0, 0, 0, 0, 1, 0) \
    ROW(I16, i16, INT, 0, 0, 0, 0, 2, 0) \
    ROW(I32, i32, INT, 0, 0, 0, 0, 4, 0) \
    ROW(I64, i64, INT, 0, 0, 0, 0, 8, 0) \
    ROW(U8, u8, UINT, 0, 0, 0, 0, 1, 0) \
    ROW(I4, i4, SHORT, 0, 3, 0, 0, 1, 0)   /* one in a byte; the upper bits are not read */ \
    ROW(I2, i2, SHORT, 0, 1, 0, 0, 1, 0) \
    ROW(POSIT8, posit8, POSIT, 2, 3, 0, 0, 1, 0)   /* Posit Standard 2022 */ \
    ROW(POSIT16, posit16, POSIT, 2, 11, 0, 0, 2, 0) \
    ROW(POSIT32, posit32, POSIT, 2, 27, 0, 0, 4, 0) \
    ROW(E8M0, e8m0, POWER, 8, 0, 127, 0, 1, 0)   /* OCP MX 1.0 scales: powers of two */
/* clang-format on */

typedef enum limber_rounding {
    LIMBER_ROUND_NEAREST, /* to nearest, ties to even */
    LIMBER_ROUND_ZERO, /* toward zero */
    LIMBER_ROUND_UP, /* toward plus infinity */
    LIMBER_ROUND_DOWN, /* toward minus infinity */
    LIMBER_ROUND_AWAY, /* to nearest, ties away from zero */
    LIMBER_ROUND_ODD, /* inexact results become the neighbour whose last bit is odd */
    LIMBER_ROUND_STOCHASTIC /* up or down by random bits; only in simulated units (unit.h) */
} limber_rounding;

/* The named formats as constants: LIMBER_F16, LIMBER_F64, LIMBER_E4M3 and so on. */
#define LIMBER_FORMAT_ROW(NAME, name, kind, e, m, bias, flags, size, carried) \
    static const limber_format LIMBER_##NAME = { \
        LIMBER_KIND_##kind, e, m, flags, bias, size, carried \
    };
LIMBER_FORMATS(LIMBER_FORMAT_ROW)
#undef LIMBER_FORMAT_ROW

/* Finds the format with this name: a name of the list above, in lower case, a usual other name
 * (names.h), or "(1,e,m)" with IEEE rules, 2 <= e <= 11 and 1 <= m, in a binary32 or binary64
 * carrier.  BAD_ARGUMENT if the name is unknown or no carrier can hold the format; *out is then
 * KIND_NONE. */
LIMBER_API limber_status limber_format_named(const char *name, limber_format *out);

/* Writes the name of f, which limber_format_named reads, to text: at most size bytes with the
 * closing zero.  Returns text. */
LIMBER_API const char *limber_format_name(limber_format f, char *text, size_t size);

/* Returns the name of row i of LIMBER_FORMATS, from 0; NULL past the last one. */
LIMBER_API const char *limber_format_at(int i);

/* Returns 1 if a and b are the same format, else 0. */
LIMBER_API int limber_format_equal(limber_format a, limber_format b);

/* Properties of a format.  A double is infinity, or 0, if the value is outside the range of
 * binary64 (f128).  Posits have their full number of significant bits near 1, and fewer the farther
 * a value is from 1. */
typedef struct limber_format_facts {
    size_t size; /* sizeof(limber_format_facts) */
    /* p, the hidden bit included; dd: 107, though most pairs of doubles hold fewer */
    int significant_bits;
    int largest_exponent; /* the largest number is in [2^e, 2^(e+1)) */
    int normal_exponent; /* the smallest number with p bits is 2^e; integers: 0 */
    int smallest_exponent; /* the smallest positive number is 2^e */
    double epsilon; /* distance from 1 to the next number: 2^(1-p) */
    /* Largest relative error of rounding a normal number to nearest: 2^-p.  Integers: 0. */
    double roundoff;
    /* Positive numbers: the largest one, the smallest one with p bits, the smallest one. */
    double largest, normal, smallest;
    /* The largest number plus half its ulp; posits: the largest number.  Numbers beyond it, and in
     * formats with infinities also this number itself, round to infinity, to NaN or (saturating
     * formats, posits) to the largest number. */
    double overflow;
    double underflow; /* numbers up to this one round to 0: half the smallest; posits, e8m0: 0 */
    double decimal_digits; /* log10 2^p */
    int digits_kept; /* decimal digits that survive conversion to the format and back */
    int digits_needed; /* decimal digits that distinguish all numbers */
    int has_infinity, has_nan, has_negative_zero;
    double finite_values; /* number of finite values, +0 and -0 as one; dd: 0 */
    double exact_integers; /* every integer from 0 to this one is a value of the format */
    double lowest; /* the smallest number: -largest; signed integers: -largest - 1; unsigned: 0 */
} limber_format_facts;
#define LIMBER_FORMAT_FACTS_INIT LIMBER_SIZED(limber_format_facts)

/* Fills *out, which must be initialised by LIMBER_FORMAT_FACTS_INIT.  BAD_ARGUMENT if f is no
 * format of elements in memory, or out is NULL. */
LIMBER_API limber_status limber_format_describe(limber_format f, limber_format_facts *out);

/* Computes the distance between neighbouring numbers in [2^exponent, 2^(exponent+1)), which is
 * 2^*spacing.  Subnormal ranges are allowed.  BAD_ARGUMENT if f is no float or has no number in
 * that range. */
LIMBER_API limber_status limber_format_spacing(limber_format f, int exponent, int *spacing);

/* Converts count elements.  Every value is rounded once, by mode.
 *   NaN and Inf       as the target has them; without infinities, Inf becomes NaN, or the largest
 *                     number if the target saturates.
 *   To integers       values out of range saturate; NaN becomes 0.
 *   To posits         round to nearest only, never to 0 and never beyond the largest number; NaN
 *                     and Inf become NaR.
 *   To powers of two  zero and negative numbers become NaN, numbers below the smallest one become
 *                     the smallest one.
 * dst may be src if elements of both formats have the same size; otherwise the arrays must not
 * overlap.  BAD_ARGUMENT names what is wrong; then nothing is written.
 * Source: IEEE 754-2019, sections 3.4, 4.3, 5.4; OCP 8-bit floating point specification 1.0; OCP
 * Microscaling Formats 1.0; Posit Standard 2022, sections 3 and 4. */
LIMBER_API limber_status limber_convert(void *dst, limber_format to, const void *src,
                                        limber_format from, size_t count, limber_rounding mode);

#ifdef __cplusplus
}
#endif
#endif
