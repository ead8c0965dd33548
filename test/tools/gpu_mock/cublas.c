/* SPDX-License-Identifier: BSD-3-Clause
 * A mock cuBLAS for tests of `limber gpu`: plain loops on column-major matrices.  The variable
 * GPU_MOCK plants faults:
 *
 * GPU_MOCK=sgemm       one corner of SGEMM's result is slightly wrong
 * GPU_MOCK=hole        SGEMM does not write one element
 * GPU_MOCK=declines    emulated FP32 is not supported; otherwise it gives the bits of FP32
 * GPU_MOCK=nocublas    no handle can be made */
#include "small_float.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_16BF = 14, AS_BF16X9 = 78, NOT_SUPPORTED = 15 };

/* True if GPU_MOCK names this fault. */
static int mocks(const char *what)
{
    const char *s = getenv("GPU_MOCK");

    return s && !strcmp(s, what);
}

int cublasCreate_v2(void **handle)
{
    *handle = handle;
    return mocks("nocublas");
}

int cublasDestroy_v2(void *handle)
{
    (void)handle;
    return 0;
}

int cublasGetVersion_v2(void *handle, int *version)
{
    (void)handle;
    *version = 130000;
    return 0;
}

int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    (void)handle;
    if (bytes)
        memset(workspace, 0, bytes);
    return 0;
}

int cublasSetStream_v2(void *handle, void *stream)
{
    (void)handle;
    (void)stream;
    return 0;
}

#define AS_IT_IS(x) (x)
#define F16(x) small_float(x, 5, 10)
#define BF16(x) small_float(x, 8, 7)

/* Defines a product of column-major matrices: C = A B, or A^T B if `transposed`. */
#define PRODUCT(name, in, sum, load) \
    static void name(int transposed, int m, int n, int k, const in *a, int lda, const in *b, \
                     int ldb, sum *c, int ldc) \
    { \
        for (int j = 0; j < n; j++) \
            for (int i = 0; i < m; i++) { \
                sum x = 0; \
\
                for (int q = 0; q < k; q++) \
                    x += (sum)load(a[transposed ? (size_t)i * lda + q : (size_t)q * lda + i]) * \
                         (sum)load(b[(size_t)j * ldb + q]); \
                c[(size_t)j * ldc + i] = x; \
            } \
    }
PRODUCT(product_f32, float, float, AS_IT_IS)
PRODUCT(product_f64, double, double, AS_IT_IS)
PRODUCT(product_i8, int8_t, int32_t, AS_IT_IS)
PRODUCT(product_f16, uint16_t, float, F16)
PRODUCT(product_bf16, uint16_t, float, BF16)

int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha,
                   const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                   int ldc)
{
    float before;

    (void)handle;
    (void)tb;
    (void)alpha;
    (void)beta;
    before = c[(size_t)(n / 2) * ldc + m / 3];
    product_f32(ta, m, n, k, a, lda, b, ldb, c, ldc);
    if (mocks("hole"))
        c[(size_t)(n / 2) * ldc + m / 3] = before;
    if (mocks("sgemm"))
        c[(size_t)(n - 1) * ldc + m - 1] *= 1.001f;
    return 0;
}

int cublasDgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const double *alpha,
                   const double *a, int lda, const double *b, int ldb, const double *beta,
                   double *c, int ldc)
{
    (void)handle;
    (void)tb;
    (void)alpha;
    (void)beta;
    product_f64(ta, m, n, k, a, lda, b, ldb, c, ldc);
    return 0;
}

int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                 const void *a, int in, int lda, const void *b, int in_b, int ldb, const void *beta,
                 void *c, int out, int ldc, int as, int algorithm)
{
    (void)handle;
    (void)tb;
    (void)alpha;
    (void)in_b;
    (void)beta;
    (void)out;
    (void)algorithm;
    if (as >= AS_BF16X9 && mocks("declines"))
        return NOT_SUPPORTED;
    if (in == R_8I)
        product_i8(ta, m, n, k, a, lda, b, ldb, c, ldc);
    else if (in == R_64F)
        product_f64(ta, m, n, k, a, lda, b, ldb, c, ldc);
    else if (in == R_32F)
        product_f32(ta, m, n, k, a, lda, b, ldb, c, ldc);
    else if (in == R_16F)
        product_f16(ta, m, n, k, a, lda, b, ldb, c, ldc);
    else if (in == R_16BF)
        product_bf16(ta, m, n, k, a, lda, b, ldb, c, ldc);
    else
        return NOT_SUPPORTED;
    return 0;
}
