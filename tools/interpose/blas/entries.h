/* SPDX-License-Identifier: BSD-3-Clause
 * Macros that define the functions with the names of BLAS and LAPACK.  Each function makes a
 * request of its arguments.  If Limber does not compute it, the function forwards its arguments
 * unchanged. */
#ifndef LIMBER_BLAS_ENTRIES_H
#define LIMBER_BLAS_ENTRIES_H

#include "blas.h"

#define PUBLIC __attribute__((visibility("default")))

/* The names under which libraries export a routine: X(name, prefix and suffix of Fortran names,
 * ...). Names that end in a mere underscore take integers as wide as those of the BLAS to which
 * calls are forwarded.  Limber's LAPACK (../lapack) calls limber32_ and limber64_.  FlexiBLAS looks
 * for hook_NAME in a hook, and doors/flexiblas.c interprets "real_". */
#ifdef LIMBER_BLAS_HOOK
#define FORTRAN_SPELLINGS(X, base, ...) X(hook_##base, "real_", "_", __VA_ARGS__)
#define ROUTINE_NAME(function) &#function[sizeof "hook_" - 1]
#else
#define ROUTINE_NAME(function) #function
#define FORTRAN_SPELLINGS(X, base, ...) \
    X(base##_, "", "_", __VA_ARGS__) \
    X(base##_64_, "", "_64_", __VA_ARGS__) \
    X(base##64_, "", "64_", __VA_ARGS__) \
    X(scipy_##base##_, "scipy_", "_", __VA_ARGS__) \
    X(scipy_##base##_64_, "scipy_", "_64_", __VA_ARGS__) \
    X(limber32_##base##_, "limber32_", "_", __VA_ARGS__) \
    X(limber64_##base##_, "limber64_", "_", __VA_ARGS__)
#define CBLAS_SPELLINGS(X, base, ...) \
    X(cblas_##base, "", "_", __VA_ARGS__) \
    X(cblas_##base##_64, "", "_64_", __VA_ARGS__) \
    X(cblas_##base##64_, "", "_64_", __VA_ARGS__) \
    X(scipy_cblas_##base, "scipy_", "_", __VA_ARGS__) \
    X(scipy_cblas_##base##64_, "scipy_", "_64_", __VA_ARGS__)
#endif

/* Whether the integers of a function have 64 bits: its suffix tells it, or else the library's
 * isamax. */
#define IS_WIDE(prefix, suffix) \
    (suffix[1] || limber_blas_is_wide(prefix "isamax_", __builtin_return_address(0)))

/* Defines an exported function that computes the call, or forwards it.  list: parameters in
 * parentheses; pass: their names; ...: members of struct request. */
#define ENTRY(function, spelling_prefix, spelling_suffix, list, pass, ...) \
    PUBLIC void function list; \
    PUBLIC void function list \
    { \
        const bool wide = IS_WIDE(spelling_prefix, spelling_suffix); \
        struct request r = { .name = ROUTINE_NAME(function), \
                             .wide = wide, \
                             .spelling = { spelling_prefix, spelling_suffix }, \
                             .caller = __builtin_return_address(0), \
                             __VA_ARGS__ }; \
        void(*real) list; \
\
        if (limber_blas_serve(&r)) \
            return; \
        *(void **)&real = limber_blas_real(r.name, r.caller, true); \
        if (real) \
            real pass; \
        else \
            limber_blas_serve_without_blas(&r); \
        limber_blas_end(&r); \
    }

/* Defines a function that returns a value.  The request's c points to that value. */
#define VALUE_ENTRY(type_of_value, function, spelling_prefix, spelling_suffix, list, pass, ...) \
    PUBLIC type_of_value function list; \
    PUBLIC type_of_value function list \
    { \
        const bool wide = IS_WIDE(spelling_prefix, spelling_suffix); \
        type_of_value value = 0; \
        struct request r = { .name = ROUTINE_NAME(function), \
                             .wide = wide, \
                             .spelling = { spelling_prefix, spelling_suffix }, \
                             .caller = __builtin_return_address(0), \
                             .c = { &value, 'N', 1 }, \
                             __VA_ARGS__ }; \
        type_of_value(*real) list; \
\
        if (limber_blas_serve(&r)) \
            return value; \
        *(void **)&real = limber_blas_real(r.name, r.caller, true); \
        if (real) \
            value = real pass; \
        else \
            limber_blas_serve_without_blas(&r); \
        limber_blas_end(&r); \
        return value; \
    }

/* Defines a function for a batch.  members: of struct request; ...: of struct groups. */
#define BATCH_ENTRY(function, spelling_prefix, spelling_suffix, list, hand_on, members, ...) \
    PUBLIC void function list; \
    PUBLIC void function list \
    { \
        const bool wide = IS_WIDE(spelling_prefix, spelling_suffix); \
        struct request r = { .name = ROUTINE_NAME(function), \
                             .routine = BLAS_GEMM_BATCH, \
                             .wide = wide, \
                             .spelling = { spelling_prefix, spelling_suffix }, \
                             .caller = __builtin_return_address(0), \
                             MEMBERS members }; \
        const struct groups g = { __VA_ARGS__ }; \
\
        limber_blas_batch(&r, &g, hand_on); \
    }
#define MEMBERS(...) __VA_ARGS__

#endif
