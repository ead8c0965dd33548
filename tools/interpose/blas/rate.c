/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates the time of the BLAS to which calls are forwarded, for reports.  Products of similar
 * size are timed, once for each class of sizes. */
#define _GNU_SOURCE     /* clock_gettime under any standard */
#include "product.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Sizes up to EXACT are measured as they are; larger ones are rounded to powers of two, at most
 * MOST.  If only one size exceeds EXACT, it may be up to LONG, since with MOST the product would
 * hardly take longer than a call.  SHAPES: entries of the table.  FEW_SAMPLES suffice for products
 * of more than LARGE multiply-adds. */
enum {
    MOST = 256,
    LONG = 1 << 16,
    EXACT = 16,
    SHAPES = 8192,
    SAMPLES = 9,
    LARGE = 1 << 22,
    FEW_SAMPLES = 3
};

typedef void gemm(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
                  const void *, const void *, const int64_t *, const void *, const int64_t *,
                  const void *, void *, const int64_t *, size_t, size_t);
typedef void gemv(const char *, const int64_t *, const int64_t *, const void *, const void *,
                  const int64_t *, const void *, const int64_t *, const void *, void *,
                  const int64_t *, size_t);
/* a routine of the BLAS that is timed */
union timed {
    void *address;
    gemm *multiply;
    gemv *apply;
};

double limber_blas_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the seconds of one product, including one reading of the clock, as Limber's times do.
 * k = 0 stands for the product of a matrix, m x n, and a vector.  A 32-bit integer is the lower
 * half of a 64-bit one, which comes first in little-endian memory. */
static double time_product(union timed behind, const int64_t size[3], const void *alpha,
                           char *memory, size_t each)
{
    static const double zero[2];
    const int64_t m = size[0], n = size[1], k = size[2], one = 1;
    char *b = memory + (size_t)(m * (k ? k : n)) * each, *c = b + (size_t)((k ? k : 1) * n) * each;
    double start = limber_blas_now();

    if (k)
        behind.multiply("N", "N", &m, &n, &k, alpha, memory, &m, b, &k, zero, c, &m, 1, 1);
    else
        behind.apply("N", &m, &n, alpha, memory, &m, b, &one, zero, c, &one, 1);
    return limber_blas_now() - start;
}

/* Compares doubles for qsort, smallest first. */
static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Allocates operands without zeros, since some libraries skip zeros. */
static char *make_operands(const struct request *r, const int64_t size[3], size_t each)
{
    const int64_t k = size[2] ? size[2] : 1; /* k = 0: m n + m + n elements */
    size_t count = (size_t)(size[0] * k + k * size[1] + size[0] * size[1]);
    bool single = r->type == 's' || r->type == 'c';
    char *memory = malloc(count * each);

    for (size_t i = 0; memory && i < count * each / (single ? sizeof(float) : sizeof(double)); i++)
        if (single)
            ((float *)memory)[i] = 1 + (float)(i % 7);
        else
            ((double *)memory)[i] = 1 + (double)(i % 7);
    return memory;
}

/* Returns the multiply-adds of a product of this size. */
static double work_of_size(const int64_t size[3])
{
    return (double)size[0] * (double)size[1] * (double)(size[2] ? size[2] : 1);
}

/* Returns the median seconds of a product of this size; 0 on failure.  The median, since other
 * programs may disturb some samples. */
static double measure(const struct request *r, const int64_t size[3])
{
    const char routine[] = { r->type, 'g', 'e', 'm', size[2] ? 'm' : 'v', 0 };
    size_t each = r->type == 's' ? 4 : r->type == 'z' ? 16 : 8;
    const double one[2] = { 1 }, work = work_of_size(size);
    const float single[2] = { 1 };
    const void *alpha = r->type == 's' || r->type == 'c' ? (const void *)single : one;
    int samples = work < LARGE ? SAMPLES : FEW_SAMPLES;
    double seconds[SAMPLES] = { 0 };
    union timed behind = { limber_blas_look_up_routine(r, routine) };
    char *memory = behind.address ? make_operands(r, size, each) : NULL;

    if (!memory)
        return 0;
    time_product(behind, size, alpha, memory, each);
    for (int i = 0; i < samples; i++)
        seconds[i] = time_product(behind, size, alpha, memory, each);
    free(memory);
    qsort(seconds, (size_t)samples, sizeof *seconds, compare_doubles);
    return seconds[samples / 2];
}

/* Rounds n to the nearest power of two, at most `most`. */
static int64_t round_to_class(int64_t n, int64_t most)
{
    int64_t p = 1;

    while (p < n && p < most)
        p *= 2;
    return p > 1 && p - n > n - p / 2 ? p / 2 : p;
}

/* ---- measured shapes ------------------------------------------------------------------------- */

INTERPOSE_LOCK(lock)

/* A measured shape, and its time. */
struct shape {
    char type; /* type of the measured gemm (s, d, c or z); 0 if the entry is unused */
    int64_t size[3]; /* m, n and k; k = 0: the product of a matrix, m x n, and a vector */
    double seconds;
};

/* Returns the entry of the hash table for a shape, or an unused entry.  The caller holds the
 * lock. */
static struct shape *find_shape(char type, const int64_t size[3])
{
    static struct shape all[SHAPES];
    size_t at = (size_t)((size[0] * 31 + size[1] * 37 + size[2] * 41 + type) * 2654435761u);
    struct shape *s;

    do
        s = &all[at++ % SHAPES];
    while (s->type && (s->type != type || memcmp(s->size, size, sizeof s->size) != 0));
    return s;
}

static int shapes; /* number of measured shapes */

/* Seconds of a product of this size, which is measured at the first call.  The caller holds the
 * lock. */
static double seconds_of(const struct request *r, const int64_t size[3])
{
    struct shape *s = find_shape(r->type, size);

    if (!s->type) {
        limber_blas_enter();
        s->type = r->type;
        memcpy(s->size, size, sizeof s->size);
        s->seconds = measure(r, size);
        limber_blas_leave();
        shapes++;
    }
    return s->seconds;
}

/* Estimates the seconds of a call of the other BLAS: the overhead of a call, and the time of a
 * measured product of similar shape in proportion to the multiply-adds.  For a matrix and a vector
 * (level 2) that product is made by gemv. */
double limber_blas_estimate_seconds(const struct request *r, double work)
{
    const bool level2 = r->routine >= BLAS_GEMV && r->routine <= BLAS_TPSV;
    const int64_t tiny[3] = { 2, 2, level2 ? 0 : 2 };
    /* a solver's time is mostly that of the factorisation, even with few right-hand sides */
    const bool factors = r->routine == LAPACK_GESV || r->routine == LAPACK_POSV;
    const double count = r->routine == BLAS_GEMM_BATCH ? (double)r->batch.count : 1;
    int64_t size[3] = { r->m, factors ? r->m : r->n, level2 ? 0 : r->k };
    int sides = 0; /* number of sizes above EXACT */
    double call, least;

    if (r->m <= 0 || r->n <= 0 || (r->k <= 0 && !level2))
        return 0;
    pthread_mutex_lock(&lock);
    /* once half of the table is used, all sizes are rounded: the other half has room for all
     * rounded sizes */
    for (int i = 0; i < 3; i++)
        sides += size[i] > EXACT;
    for (int i = 0; i < 3; i++)
        if (size[i] > EXACT || (size[i] && shapes > SHAPES / 2))
            size[i] = round_to_class(size[i], sides == 1 ? LONG : MOST);
    call = seconds_of(r, size);
    least = seconds_of(r, tiny);
    pthread_mutex_unlock(&lock);
    least = least < call ? least : call;
    /* the time of a tiny product is the overhead of a call; the rest grows with the work */
    return count * least + (call - least) * work / work_of_size(size);
}
