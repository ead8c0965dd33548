/* SPDX-License-Identifier: BSD-3-Clause
 * The speed of the BLAS behind, for reports.  It is measured by one product of each type, at the
 * first question. */
#define _GNU_SOURCE     /* clock_gettime under any standard */
#include "product.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 256, WARM = 64 };

typedef void gemm(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
                  const void *, const void *, const int64_t *, const void *, const int64_t *,
                  const void *, void *, const int64_t *, size_t, size_t);

double limber_blas_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A 32-bit integer is the first half of a 64-bit one (little-endian). */
static double time_of(gemm *behind, int64_t n, const void *alpha, char *memory, size_t size)
{
    static const double zero[2];
    size_t bytes = (size_t)(n * n) * size;
    double start = limber_blas_now();

    behind("N", "N", &n, &n, &n, alpha, memory, &n, memory + bytes, &n, zero, memory + 2 * bytes,
           &n, 1, 1);
    return limber_blas_now() - start;
}

/* Multiply-adds per second. */
static double measure(const struct request *r)
{
    const char routine[] = { r->type, 'g', 'e', 'm', 'm', 0 };
    size_t size = r->type == 's' ? 4 : r->type == 'z' ? 16 : 8;
    const double one[2] = { 1 };
    const float single[2] = { 1 };
    const void *alpha = r->type == 's' || r->type == 'c' ? (const void *)single : one;
    char *memory = calloc(3 * SIZE * SIZE, size);
    double seconds = 0;
    gemm *behind;

    *(void **)&behind = limber_blas_sibling(r, routine);
    if (behind && memory) {
        time_of(behind, WARM, alpha, memory, size);
        seconds = time_of(behind, SIZE, alpha, memory, size);
    }
    free(memory);
    return seconds > 0 ? (double)SIZE * SIZE * SIZE / seconds : 0;
}

double limber_blas_original(const struct request *r, double work)
{
    static const char types[] = "sdcz";
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double rates[4];
    static bool known[4];
    size_t type = (size_t)(strchr(types, r->type) - types);
    double rate;

    pthread_mutex_lock(&lock);
    if (!known[type]) {
        limber_blas_enter();
        rates[type] = measure(r);
        limber_blas_leave();
        known[type] = true;
    }
    rate = rates[type];
    pthread_mutex_unlock(&lock);
    return rate > 0 ? work / rate : 0;
}
