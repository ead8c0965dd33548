/* SPDX-License-Identifier: BSD-3-Clause
 * Steps of epilogues on short arrays in L1, and conversion of the epilogue's results.  This file is
 * compiled once for each instruction set.  Steps that it does not support are computed in doubles
 * by other code. */
#include "backends/llvm/kernel/kernel.h"

#if !defined(__aarch64__)
#include <immintrin.h>
#endif


/* SAFELY lets the compiler vectorise loops whose arrays may be the same, since iteration i accesses
 * only element i.  EACH replaces every NaN by one canonical NaN. */
#define SAFELY _Pragma("clang loop vectorize(assume_safety)")
#define EACH(value) \
    SAFELY for (int64_t i = 0; i < n; i++) { \
        TYPE a = x[i], b = y[i], r = value; \
        (void)b; \
        to[i] = r != r ? (TYPE)__builtin_nan("") : r; \
    } \
    return 1

/* Defines a function that applies one step to arrays.  It returns 0 if it does not support the
 * step.  y may be x, and `to` may be either. */
#define DEFINE(name) \
    static int name(const struct epilogue_step *s, const TYPE *x, const TYPE *y, TYPE *to, \
                    int64_t n) \
    { \
        const TYPE p = (TYPE)s->number[0], q = (TYPE)s->number[1]; \
        switch (s->op) { \
        case STEP_add: EACH(a + b); \
        case STEP_sub: EACH(a - b); \
        case STEP_mul: EACH(a * b); \
        case STEP_div: EACH(a / b); \
        case STEP_max: EACH(((a > b) | (a != a)) ? a : b); \
        case STEP_min: EACH(((a < b) | (a != a)) ? a : b); \
        default: break; \
        } \
        switch (s->function) { \
        case LIMBER_FUNCTION_CAST: EACH(a); \
        case LIMBER_FUNCTION_SQUARE: EACH(a * a); \
        case LIMBER_FUNCTION_SQRT: EACH((TYPE)__builtin_sqrt((double)a)); \
        case LIMBER_FUNCTION_FLOOR: EACH((TYPE)__builtin_floor((double)a)); \
        case LIMBER_FUNCTION_CEIL: EACH((TYPE)__builtin_ceil((double)a)); \
        case LIMBER_FUNCTION_TRUNC: EACH((TYPE)__builtin_trunc((double)a)); \
        case LIMBER_FUNCTION_ROUND: EACH((TYPE)__builtin_rint((double)a)); \
        case LIMBER_FUNCTION_NEG: EACH(-a); \
        case LIMBER_FUNCTION_ABS: EACH(a < 0 ? -a : a == 0 ? 0 : a); \
        case LIMBER_FUNCTION_RELU: EACH(a < 0 ? 0 : a); \
        case LIMBER_FUNCTION_LEAKY_RELU: EACH(a < 0 ? a * p : a); \
        case LIMBER_FUNCTION_CLAMP: EACH(a < p ? p : a > q ? q : a); \
        default: return 0; \
        } \
    }

#define TYPE float
DEFINE(run_float)
#undef TYPE
#define TYPE double
DEFINE(run_double)
#undef TYPE

/* Implements cpu_ops.functions.step: applies one step to arrays of floats or of doubles. */
int FOR_ISA(limber_steps_run)(const struct epilogue_step *s, int is_f32, const void *x,
                              const void *y, void *to, int64_t n)
{
    return is_f32 ? run_float(s, x, y, to, n) : run_double(s, x, y, to, n);
}

/* ---- storing results ------------------------------------------------------------------------- */

/* Rounds to BF16, to nearest even.  Every NaN becomes the canonical NaN. */
static void store_bf16(const float *x, uint16_t *to, int64_t n)
{
    SAFELY for (int64_t i = 0; i < n; i++) {
        uint32_t b;

        __builtin_memcpy(&b, &x[i], 4);
        to[i] = (uint16_t)(x[i] != x[i] ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
    }
}

/* Defines a function that rounds to integers, to nearest even, and saturates; NaN becomes 0. */
#define INTEGERS(name, type, low, high) \
    static void name(const float *x, type *to, int64_t n) \
    { \
        SAFELY for (int64_t i = 0; i < n; i++) { \
            float v = x[i] != x[i] ? 0 : x[i]; \
            v = v < low ? low : v > high ? high : v; \
            to[i] = (type)(int32_t)(v + 0x1.8p23f - 0x1.8p23f); \
        } \
    }
INTEGERS(store_i8, int8_t, -128, 127)
INTEGERS(store_u8, uint8_t, 0, 255)

#ifdef __AVX512F__
/* Rounds to FP16, to nearest even, sixteen elements at a time.  Every NaN becomes the canonical
 * NaN. */
static void store_f16(const float *x, uint16_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 some = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
        __m512 v = _mm512_maskz_loadu_ps(some, x + i);
        __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        __m256i h = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);

        _mm256_mask_storeu_epi16(to + i, some,
                                 _mm256_mask_blend_epi16(nan, h, _mm256_set1_epi16(0x7e00)));
    }
}
#define STORES_F16
#elif defined(__aarch64__)
/* Rounds to FP16, to nearest even.  Every NaN becomes the canonical NaN. */
static void store_f16(const float *x, uint16_t *to, int64_t n)
{
    SAFELY for (int64_t i = 0; i < n; i++) {
        _Float16 h = (_Float16)x[i];
        uint16_t b;

        __builtin_memcpy(&b, &h, 2);
        to[i] = x[i] != x[i] ? 0x7e00 : b;
    }
}
#define STORES_F16
#endif

/* Converts n binary32 numbers to format f.  Returns 0 if the format is not supported. */
int FOR_ISA(limber_steps_store)(const float *x, limber_format f, void *to, int64_t n)
{
    if (f.kind == LIMBER_KIND_INT && f.size == 1)
        store_i8(x, to, n);
    else if (f.kind == LIMBER_KIND_UINT && f.size == 1)
        store_u8(x, to, n);
    else if (limber_format_equal(f, LIMBER_BF16))
        store_bf16(x, to, n);
#ifdef STORES_F16
    else if (limber_format_equal(f, LIMBER_F16))
        store_f16(x, to, n);
#endif
    else
        return 0;
    return 1;
}
