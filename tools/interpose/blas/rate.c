/* SPDX-License-Identifier: BSD-3-Clause
 * The speed of the BLAS behind, for reports.  It is measured by products of sizes like those that
 * are asked for, once for each class of sizes. */
#define _GNU_SOURCE     /* clock_gettime under any standard */
#include "product.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A call of at least LEAST multiply-adds tells the rate of its class. */
enum { MOST = 256, CLASSES = 512, LEAST = 1 << 18, SAMPLES = 4 };

typedef void gemm(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
                  const void *, const void *, const int64_t *, const void *, const int64_t *,
                  const void *, void *, const int64_t *, size_t, size_t);

double limber_blas_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of `times` products.  A 32-bit integer is the first half of a 64-bit one
 * (little-endian). */
static double time_of(gemm *behind, const int64_t size[3], const void *alpha, char *memory,
                      size_t each, int times)
{
    static const double zero[2];
    const int64_t m = size[0], n = size[1], k = size[2];
    char *b = memory + (size_t)(m * k) * each, *c = b + (size_t)(k * n) * each;
    double start = limber_blas_now();

    for (int i = 0; i < times; i++)
        behind("N", "N", &m, &n, &k, alpha, memory, &m, b, &k, zero, c, &m, 1, 1);
    return limber_blas_now() - start;
}

/* Multiply-adds per second of products of that size: the best of a few samples, since others may
 * use the machine. */
static double measure(const struct request *r, const int64_t size[3])
{
    const char routine[] = { r->type, 'g', 'e', 'm', 'm', 0 };
    size_t each = r->type == 's' ? 4 : r->type == 'z' ? 16 : 8;
    const double one[2] = { 1 }, work = (double)size[0] * (double)size[1] * (double)size[2];
    const float single[2] = { 1 };
    const void *alpha = r->type == 's' || r->type == 'c' ? (const void *)single : one;
    char *memory =
        calloc((size_t)(size[0] * size[2] + size[2] * size[1] + size[0] * size[1]), each);
    int times = work * 1000 < LEAST ? 1000 : work < LEAST ? (int)(LEAST / work) : 1;
    double seconds = 0;
    gemm *behind;

    *(void **)&behind = limber_blas_sibling(r, routine);
    if (behind && memory) {
        time_of(behind, size, alpha, memory, each, 1);
        for (int i = 0; i < SAMPLES; i++) {
            double sample = time_of(behind, size, alpha, memory, each, times);

            seconds = i == 0 || sample < seconds ? sample : seconds;
        }
    }
    free(memory);
    return seconds > 0 ? times * work / seconds : 0;
}

/* The nearest power of two, at most MOST. */
static int64_t class_of(int64_t n)
{
    int64_t p = 1;

    while (p < n && p < MOST)
        p *= 2;
    return p > 1 && p - n > n - p / 2 ? p / 2 : p;
}

INTERPOSE_LOCK(lock)

double limber_blas_original(const struct request *r, double work)
{
    static struct known {
        char type;
        int64_t size[3];
        double rate;
    } all[CLASSES];
    static int count;
    /* most of a system's time is that of its factors, however few right sides it has */
    const bool factors = r->routine == LAPACK_GESV || r->routine == LAPACK_POSV;
    const int64_t n = factors ? r->m : r->n;
    const struct known wanted = { .type = r->type,
                                  .size = { class_of(r->m), class_of(n), class_of(r->k) } };
    double rate;
    int i = 0;

    if (r->m <= 0 || r->n <= 0 || r->k <= 0)
        return 0;
    pthread_mutex_lock(&lock);
    while (i < count && (all[i].type != wanted.type ||
                         memcmp(all[i].size, wanted.size, sizeof wanted.size) != 0))
        i++;
    if (i == count && count < CLASSES) {
        limber_blas_enter();
        all[i] = wanted;
        all[i].rate = measure(r, wanted.size);
        limber_blas_leave();
        count++;
    }
    rate = i < count ? all[i].rate : 0;
    pthread_mutex_unlock(&lock);
    return rate > 0 ? work / rate : 0;
}
