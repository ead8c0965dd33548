/* SPDX-License-Identifier: BSD-3-Clause
 * A mock BLAS that multiplies by plain loops, and counts its calls and errors. */
#include <complex.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "name.h"

int mock_calls, mock_errors, mock_info;     /* mock_info: argument number of the last error */

void xerbla_(const char *name, const INTEGER *info, size_t length);
void xerbla_(const char *name, const INTEGER *info, size_t length)
{
    (void)name, (void)length;
    mock_errors++;
    mock_info = (int)*info;
}

void cblas_xerbla(INTEGER info, const char *name, const char *form, ...);
void cblas_xerbla(INTEGER info, const char *name, const char *form, ...)
{
    (void)name, (void)form;
    mock_errors++;
    mock_info = -(int)info;
}

INTEGER NAME(isamax)(const INTEGER *n, const float *x, const INTEGER *step);
INTEGER NAME(isamax)(const INTEGER *n, const float *x, const INTEGER *step)
{
    INTEGER best = 0;

    for (INTEGER i = 0; i < *n; i++)
        if (best == 0 || x[i * *step] > x[(best - 1) * *step])
            best = i + 1;
    return best;
}

/* Functions by which libblastrampoline detects the width of integers and the calling convention. */
#define DOT(name, type) \
    type name(const INTEGER *n, const type *x, const INTEGER *step_x, const type *y, \
              const INTEGER *step_y); \
    type name(const INTEGER *n, const type *x, const INTEGER *step_x, const type *y, \
              const INTEGER *step_y) \
    { \
        type sum = 0; \
\
        for (INTEGER i = 0; i < *n; i++) \
            sum += x[i * *step_x] * y[i * *step_y]; \
        return sum; \
    }

DOT(NAME(sdot), float)
DOT(NAME(cdotc), float complex)
DOT(NAME(zdotc), double complex)

/* Defines a GEMM of this type by plain loops. */
#define GEMM(name, type, conjugate) \
    void name(const char *ta, const char *tb, const INTEGER *m, const INTEGER *n, \
              const INTEGER *k, const type *alpha, const type *a, const INTEGER *lda, \
              const type *b, const INTEGER *ldb, const type *beta, type *c, const INTEGER *ldc, \
              size_t la, size_t lb); \
    void name(const char *ta, const char *tb, const INTEGER *m, const INTEGER *n, \
              const INTEGER *k, const type *alpha, const type *a, const INTEGER *lda, \
              const type *b, const INTEGER *ldb, const type *beta, type *c, const INTEGER *ldc, \
              size_t la, size_t lb) \
    { \
        INTEGER info = *ldc < *m ? 13 : 0; \
\
        (void)la, (void)lb; \
        mock_calls++; \
        if (info) { \
            xerbla_(#name, &info, sizeof #name); \
            return; \
        } \
        for (INTEGER i = 0; i < *m; i++) \
            for (INTEGER j = 0; j < *n; j++) { \
                type sum = 0; \
\
                for (INTEGER p = 0; p < *k; p++) { \
                    type x = *ta == 'N' ? a[i + p * *lda] : a[p + i * *lda]; \
                    type y = *tb == 'N' ? b[p + j * *ldb] : b[j + p * *ldb]; \
\
                    sum += (*ta == 'C' ? conjugate(x) : x) * (*tb == 'C' ? conjugate(y) : y); \
                } \
                c[i + j * *ldc] = *alpha * sum + (*beta == 0 ? 0 : *beta * c[i + j * *ldc]); \
            } \
    }

GEMM(NAME(sgemm), float, )
GEMM(NAME(dgemm), double, )
GEMM(NAME(cgemm), float complex, conjf)
GEMM(NAME(zgemm), double complex, conj)

void cblas_dgemm(int order, int ta, int tb, INTEGER m, INTEGER n, INTEGER k, double alpha,
                 const double *a, INTEGER lda, const double *b, INTEGER ldb, double beta, double *c,
                 INTEGER ldc);
/* Hands on to the Fortran routine, with operands swapped for row-major order. */
void cblas_dgemm(int order, int ta, int tb, INTEGER m, INTEGER n, INTEGER k, double alpha,
                 const double *a, INTEGER lda, const double *b, INTEGER ldb, double beta, double *c,
                 INTEGER ldc)
{
    const char *x = ta == 111 ? "N" : "T", *y = tb == 111 ? "N" : "T";

    if (order == 101)
        NAME(dgemm)(y, x, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc, 1, 1);
    else
        NAME(dgemm)(x, y, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
}
