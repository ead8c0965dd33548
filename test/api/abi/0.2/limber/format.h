/* SPDX-License-Identifier: BSD-3-Clause
 * The declarations of limber/format.h as they were in version 0.2.  include/limber/format.h
 * documents them.  The test abi_program is compiled with these headers and runs with the newest
 * library. */
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

typedef enum limber_kind {
    LIMBER_KIND_NONE,
    LIMBER_KIND_FLOAT,
    LIMBER_KIND_INT,
    LIMBER_KIND_UINT,
    LIMBER_KIND_DD,
    LIMBER_KIND_EXACT
} limber_kind;

enum limber_format_flags {
    LIMBER_FORMAT_NO_INF = 1,
    LIMBER_FORMAT_NO_SUBNORMAL = 2,
    LIMBER_FORMAT_SATURATE = 4,
    LIMBER_FORMAT_FINITE = 8
};

typedef struct limber_format {
    uint8_t kind;
    uint8_t exp_bits;
    uint8_t frac_bits;
    uint8_t flags;
    int16_t bias;
    uint8_t size;
    uint8_t carried;
} limber_format;

/* clang-format off */
#define LIMBER_FORMATS(ROW) \
    ROW(F16, f16, FLOAT, 5, 10, 15, 0, 2, 0)   \
    ROW(BF16, bf16, FLOAT, 8, 7, 127, 0, 2, 0)   \
    ROW(TF32, tf32, FLOAT, 8, 10, 127, 0, 4, 1)   \
    ROW(E4M3, e4m3, FLOAT, 4, 3, 7, LIMBER_FORMAT_NO_INF, 1, 0)   \
    ROW(E5M2, e5m2, FLOAT, 5, 2, 15, 0, 1, 0)   \
    ROW(E3M2, e3m2, FLOAT, 3, 2, 3, LIMBER_FORMAT_FINITE, 1, 0)   \
    ROW(E2M3, e2m3, FLOAT, 2, 3, 1, LIMBER_FORMAT_FINITE, 1, 0)  \
    ROW(E2M1, e2m1, FLOAT, 2, 1, 1, LIMBER_FORMAT_FINITE, 1, 0)   \
    ROW(F32, f32, FLOAT, 8, 23, 127, 0, 4, 0)   \
    ROW(F64, f64, FLOAT, 11, 52, 1023, 0, 8, 0)   \
    ROW(F128, f128, FLOAT, 15, 112, 16383, 0, 16, 0)   \
    ROW(DD, dd, DD, 0, 0, 0, 0, 16, 0)   \
    ROW(I8, i8, INT, 0, 0, 0, 0, 1, 0) \
    ROW(I16, i16, INT, 0, 0, 0, 0, 2, 0) \
    ROW(I32, i32, INT, 0, 0, 0, 0, 4, 0) \
    ROW(I64, i64, INT, 0, 0, 0, 0, 8, 0) \
    ROW(U8, u8, UINT, 0, 0, 0, 0, 1, 0)
/* clang-format on */

typedef enum limber_rounding {
    LIMBER_ROUND_NEAREST,
    LIMBER_ROUND_ZERO,
    LIMBER_ROUND_UP,
    LIMBER_ROUND_DOWN,
    LIMBER_ROUND_AWAY,
    LIMBER_ROUND_ODD,
    LIMBER_ROUND_STOCHASTIC
} limber_rounding;

#define LIMBER_FORMAT_ROW(NAME, name, kind, e, m, bias, flags, size, carried) \
    static const limber_format LIMBER_##NAME = { \
        LIMBER_KIND_##kind, e, m, flags, bias, size, carried \
    };
LIMBER_FORMATS(LIMBER_FORMAT_ROW)
#undef LIMBER_FORMAT_ROW

LIMBER_API limber_status limber_format_named(const char *name, limber_format *out);

LIMBER_API const char *limber_format_name(limber_format f, char *text, size_t size);

LIMBER_API const char *limber_format_at(int i);

LIMBER_API int limber_format_equal(limber_format a, limber_format b);

LIMBER_API limber_status limber_convert(void *dst, limber_format to, const void *src,
                                        limber_format from, size_t count, limber_rounding mode);

#ifdef __cplusplus
}
#endif
#endif
