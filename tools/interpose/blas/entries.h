/* SPDX-License-Identifier: BSD-3-Clause
 * What the names have in common: every function makes a request of its arguments, and hands them on
 * as they came where that is not served. */
#ifndef LIMBER_BLAS_ENTRIES_H
#define LIMBER_BLAS_ENTRIES_H

#include "blas.h"

#define PUBLIC __attribute__((visibility("default")))

/* The spellings that libraries are built with: X(name, prefix, suffix of Fortran's names).  Names
 * whose suffix is a mere underscore have integers as wide as those of the BLAS behind.  limber32_
 * and limber64_ are those that Limber's LAPACK calls (../lapack).  FlexiBLAS
 * looks for hook_NAME in a hook, and doors/flexiblas.c knows what "real_" means. */
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

#define IS_WIDE(prefix, suffix) \
    (suffix[1] || limber_blas_is_wide(prefix "isamax_", __builtin_return_address(0)))

/* `list` are the parameters in parentheses, `pass` their names. */
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
            limber_blas_lacking(&r); \
        limber_blas_end(&r); \
    }

/* A function with a value, which the request's result points to. */
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
            limber_blas_lacking(&r); \
        limber_blas_end(&r); \
        return value; \
    }

/* `...` are the members of struct groups. */
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
