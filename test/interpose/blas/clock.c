/* SPDX-License-Identifier: BSD-3-Clause
 * A mock BLAS with a simulated clock that advances only in its products: by a microsecond per call
 * and a nanosecond per multiply-add whose element of B is not zero, like old reference BLAS.  So
 * tests know how long the BLAS would take.  With PROGRAM defined, this file is the program that
 * calls it. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void dgemm_(const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k,
            const double *alpha, const double *a, const int32_t *lda, const double *b,
            const int32_t *ldb, const double *beta, double *c, const int32_t *ldc, size_t la,
            size_t lb);
void dgemv_(const char *trans, const int32_t *m, const int32_t *n, const double *alpha,
            const double *a, const int32_t *lda, const double *x, const int32_t *incx,
            const double *beta, double *y, const int32_t *incy, size_t length);

#ifdef PROGRAM
int main(void)
{
    const int32_t size[3] = { 300, 200, 400 }, small[3] = { 40, 50, 30 }, tiny[3] = { 3, 3, 3 };
    const int32_t step = 1;
    const double alpha = 1, beta = 0;
    double *a = calloc(120000, sizeof *a), *b = calloc(80000, sizeof *b),
           *c = calloc(60000, sizeof *c);

    for (int i = 0; i < 1110; i++) {
        const int32_t *s = i < 10 ? size : i < 110 ? small : tiny;

        dgemm_("N", "N", &s[0], &s[1], &s[2], &alpha, a, &s[0], b, &s[2], &beta, c, &s[0], 1, 1);
    }
    for (int i = 0; i < 10; i++)
        dgemv_("N", &size[0], &size[1], &alpha, a, &size[0], b, &step, &beta, c, &step, 1);
    free(a);
    free(b);
    free(c);
    return 0;
}
#else
/* The time that clock_gettime tells. */
static int64_t nanoseconds = 1000000000;

/* Replaces the C library's function: the clock advances only in the products below. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec = nanoseconds / 1000000000;
    t->tv_nsec = nanoseconds % 1000000000;
    return 0;
}

/* Stands for a BLAS whose time depends on the zeros in B. */
void dgemm_(const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k,
            const double *alpha, const double *a, const int32_t *lda, const double *b,
            const int32_t *ldb, const double *beta, double *c, const int32_t *ldc, size_t la,
            size_t lb)
{
    (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)beta, (void)c, (void)ldc, (void)la;
    (void)lb;
    nanoseconds += 1000;
    for (int32_t j = 0; j < *n; j++)
        for (int32_t i = 0; i < *k; i++)
            nanoseconds += b[j * *ldb + i] != 0 ? *m : 0;
}

void dgemv_(const char *trans, const int32_t *m, const int32_t *n, const double *alpha,
            const double *a, const int32_t *lda, const double *x, const int32_t *incx,
            const double *beta, double *y, const int32_t *incy, size_t length)
{
    (void)trans, (void)alpha, (void)a, (void)lda, (void)x, (void)incx, (void)beta, (void)y;
    (void)incy, (void)length;
    nanoseconds += 1000 + (int64_t)*m * *n;
}
#endif
