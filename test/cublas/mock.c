/* SPDX-License-Identifier: BSD-3-Clause
 * A libcublas that computes nothing: it remembers what it is asked for. */
#include "mock.h"

#include "tools/interpose/cublas/entries.h"

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct mock mock;

EXPORT int cublasGetStream_v2(void *handle, void **stream);
EXPORT int cublasGetStream_v2(void *handle, void **stream)
{
    *stream = NULL;
    return handle ? 0 : 1;
}

EXPORT int cublasGetPointerMode_v2(void *handle, int *mode);
EXPORT int cublasGetPointerMode_v2(void *handle, int *mode)
{
    *mode = mock.pointer_mode;
    return handle ? 0 : 1;
}

static int note(const char *name, int64_t count, const void *c)
{
    mock.calls++;
    mock.name = name;
    mock.count = count;
    mock.c = c;
    return mock.status;
}

#define DEFINE(NAME, PARAMS, COUNT) \
    EXPORT int NAME(PARAMS); \
    EXPORT int NAME(PARAMS) \
    { \
        (void)handle, (void)transa, (void)transb, (void)m, (void)n, (void)k, (void)alpha; \
        (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)ldc; \
        return note(#NAME, COUNT, c); \
    }
#define ONE(NAME, T, TYPE, PRODUCTS) DEFINE(NAME, CUBLAS_PARAMS_ONE(T), 1)
#define ARRAY(NAME, T, TYPE, PRODUCTS) DEFINE(NAME, CUBLAS_PARAMS_ARRAY(T), count)
#define STRIDED(NAME, T, TYPE, PRODUCTS) DEFINE(NAME, CUBLAS_PARAMS_STRIDED(T), count)
#define EX(NAME, T, TYPE, PRODUCTS) DEFINE(NAME, CUBLAS_PARAMS_EX(T), 1)
#define ARRAY_EX(NAME, T, TYPE, PRODUCTS) DEFINE(NAME, CUBLAS_PARAMS_ARRAY_EX(T), count)
#define STRIDED_EX(NAME, T, TYPE, PRODUCTS) DEFINE(NAME, CUBLAS_PARAMS_STRIDED_EX(T), count)

#pragma GCC diagnostic ignored "-Wunused-parameter"
CUBLAS_ONE(ONE)
CUBLAS_ARRAY(ARRAY)
CUBLAS_STRIDED(STRIDED)
CUBLAS_EX(EX)
CUBLAS_ARRAY_EX(ARRAY_EX)
CUBLAS_STRIDED_EX(STRIDED_EX)
