/* SPDX-License-Identifier: BSD-3-Clause
 * The exported functions with cuBLAS names.  Each makes a request of its arguments.  If Limber does
 * not compute it, cuBLAS's function is called. */
#include "cublas.h"
#include "entries.h"

#define EXPORT __attribute__((visibility("default")))

/* Sets the compute type that the program passes.  An invalid 0 becomes -1, since 0 stands for
 * functions that compute in C's type. */
#define STATED(COMPUTE) .compute = (COMPUTE) ? (COMPUTE) : -1

#define COMMON(NAME, FORM, COUNT) \
    .name = #NAME, .caller = __builtin_return_address(0), .handle = handle, .form = FORM, .m = m, \
    .n = n, .k = k, .count = COUNT, .alpha = alpha, .beta = beta

/* Computes the request, or else calls cuBLAS's function with these arguments and returns its
 * status. */
#define SERVE_OR_FORWARD(NAME, PARAMS, ...) \
    do { \
        int (*real)(PARAMS), status; \
\
        if (limber_cublas_serve(&r)) \
            return CUBLAS_SUCCESS; \
        *(void **)&real = limber_cublas_real(r.name, r.caller); \
        if (!real) \
            return CUBLAS_NOT_INITIALIZED; \
        limber_cublas_inside++; \
        status = real(__VA_ARGS__); \
        limber_cublas_inside--; \
        return status; \
    } while (0)

#define DEFINE_ONE(NAME, T, TYPE, PRODUCTS) \
    EXPORT int NAME(CUBLAS_PARAMS_ONE(T)); \
    EXPORT int NAME(CUBLAS_PARAMS_ONE(T)) \
    { \
        struct request r = { COMMON(NAME, FORM_one, 1), .a = { a, TYPE, transa, lda, 0 }, \
                             .b = { b, TYPE, transb, ldb, 0 }, .c = { c, TYPE, 0, ldc, 0 }, \
                             .products = PRODUCTS }; \
\
        SERVE_OR_FORWARD(NAME, CUBLAS_PARAMS_ONE(T), handle, transa, transb, m, n, k, alpha, a, \
                         lda, b, ldb, beta, c, ldc); \
    }
CUBLAS_ONE(DEFINE_ONE)

#define DEFINE_EX(NAME, T, TYPE, PRODUCTS) \
    EXPORT int NAME(CUBLAS_PARAMS_EX(T)); \
    EXPORT int NAME(CUBLAS_PARAMS_EX(T)) \
    { \
        struct request r = { COMMON(NAME, FORM_one, 1), \
                             .a = { a, type_a, transa, lda, 0 }, \
                             .b = { b, type_b, transb, ldb, 0 }, \
                             .c = { c, type_c, 0, ldc, 0 }, \
                             STATED(compute), \
                             .products = PRODUCTS }; \
\
        SERVE_OR_FORWARD(NAME, CUBLAS_PARAMS_EX(T), handle, transa, transb, m, n, k, alpha, a, \
                         type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute, algorithm); \
    }
CUBLAS_EX(DEFINE_EX)

#define DEFINE_ARRAY(NAME, T, TYPE, PRODUCTS) \
    EXPORT int NAME(CUBLAS_PARAMS_ARRAY(T)); \
    EXPORT int NAME(CUBLAS_PARAMS_ARRAY(T)) \
    { \
        struct request r = { COMMON(NAME, FORM_array, count), .a = { a, TYPE, transa, lda, 0 }, \
                             .b = { b, TYPE, transb, ldb, 0 }, .c = { c, TYPE, 0, ldc, 0 }, \
                             .products = PRODUCTS }; \
\
        SERVE_OR_FORWARD(NAME, CUBLAS_PARAMS_ARRAY(T), handle, transa, transb, m, n, k, alpha, a, \
                         lda, b, ldb, beta, c, ldc, count); \
    }
CUBLAS_ARRAY(DEFINE_ARRAY)

#define DEFINE_ARRAY_EX(NAME, T, TYPE, PRODUCTS) \
    EXPORT int NAME(CUBLAS_PARAMS_ARRAY_EX(T)); \
    EXPORT int NAME(CUBLAS_PARAMS_ARRAY_EX(T)) \
    { \
        struct request r = { COMMON(NAME, FORM_array, count), \
                             .a = { a, type_a, transa, lda, 0 }, \
                             .b = { b, type_b, transb, ldb, 0 }, \
                             .c = { c, type_c, 0, ldc, 0 }, \
                             STATED(compute), \
                             .products = PRODUCTS }; \
\
        SERVE_OR_FORWARD(NAME, CUBLAS_PARAMS_ARRAY_EX(T), handle, transa, transb, m, n, k, alpha, \
                         a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, count, compute, \
                         algorithm); \
    }
CUBLAS_ARRAY_EX(DEFINE_ARRAY_EX)

#define DEFINE_STRIDED(NAME, T, TYPE, PRODUCTS) \
    EXPORT int NAME(CUBLAS_PARAMS_STRIDED(T)); \
    EXPORT int NAME(CUBLAS_PARAMS_STRIDED(T)) \
    { \
        struct request r = { COMMON(NAME, FORM_strided, count), \
                             .a = { a, TYPE, transa, lda, step_a }, \
                             .b = { b, TYPE, transb, ldb, step_b }, \
                             .c = { c, TYPE, 0, ldc, step_c }, .products = PRODUCTS }; \
\
        SERVE_OR_FORWARD(NAME, CUBLAS_PARAMS_STRIDED(T), handle, transa, transb, m, n, k, alpha, \
                         a, lda, step_a, b, ldb, step_b, beta, c, ldc, step_c, count); \
    }
CUBLAS_STRIDED(DEFINE_STRIDED)

#define DEFINE_STRIDED_EX(NAME, T, TYPE, PRODUCTS) \
    EXPORT int NAME(CUBLAS_PARAMS_STRIDED_EX(T)); \
    EXPORT int NAME(CUBLAS_PARAMS_STRIDED_EX(T)) \
    { \
        struct request r = { COMMON(NAME, FORM_strided, count), \
                             .a = { a, type_a, transa, lda, step_a }, \
                             .b = { b, type_b, transb, ldb, step_b }, \
                             .c = { c, type_c, 0, ldc, step_c }, \
                             STATED(compute), \
                             .products = PRODUCTS }; \
\
        SERVE_OR_FORWARD(NAME, CUBLAS_PARAMS_STRIDED_EX(T), handle, transa, transb, m, n, k, \
                         alpha, a, type_a, lda, step_a, b, type_b, ldb, step_b, beta, c, type_c, \
                         ldc, step_c, count, compute, algorithm); \
    }
CUBLAS_STRIDED_EX(DEFINE_STRIDED_EX)
