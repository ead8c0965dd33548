/* SPDX-License-Identifier: BSD-3-Clause
 * Operands for measurements.  Their rows are copied from random places in a pool of random numbers,
 * since drawing each element on the host would take longer than the measurements. */
#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* POOL: most elements of a pool.  SLACK: elements by which a segment is longer than a row.  STEP:
 * alignment of a row's start, in elements. */
enum { POOL = 1 << 20, SLACK = 1 << 14, STEP = 16, MOST_SEGMENTS = 32 };

/* Draws an odd multiple of 2^-53 in (0,1). */
static double uniform(uint64_t *state)
{
    return ((double)(random_bits(state) >> 12) + 0.5) * 0x1p-52;
}

/* Draws a multiple of 2^-53 in (-1,1). */
static double signed_uniform(uint64_t *state)
{
    uint64_t bits = random_bits(state);
    double x = (double)(bits >> 11) * 0x1p-53;

    return bits & 1 ? -x : x;
}

/* Draws one number of this kind. */
static double draw_value(struct data_kind d, uint64_t *state)
{
    uint64_t bits;

    switch (d.data) {
    case DATA_uniform: return uniform(state);
    case DATA_signed: return signed_uniform(state);
    case DATA_floats:
        bits = random_bits(state);
        return ldexp((double)(bits >> 41 | 1 << 23), (int)(bits & 3) - 24) * (bits & 4 ? -1 : 1);
    case DATA_integers:
        return floor(ldexp(uniform(state), d.bits)) * (random_bits(state) & 1 ? -1 : 1);
    case DATA_spread:
        if (d.special && random_bits(state) % (uint64_t)d.special == 0)
            return random_bits(state) & 1 ? (double)NAN : (double)INFINITY;
        return ldexp(signed_uniform(state),
                     (int)(random_bits(state) % (uint64_t)d.binades) - d.binades / 2);
    default: return random_normal(state);
    }
}

/* Sets the second half of each segment of the pool to minus its first half, with relative errors of
 * up to 2^-bits (none if bits is 0).  B's rows repeat with period k/2, so that all sums cancel
 * except for these errors. */
static void cancel(double *x, const struct pool *p, int bits, uint64_t *state)
{
    const int64_t half = p->cols / 2;

    for (int64_t i = 0; i < p->segments * p->length; i++)
        if (i % p->length >= half)
            x[i] = -x[i - half] * (1 + (bits ? ldexp(signed_uniform(state), -bits) : 0));
}

/* Fills a pool.  DATA_scaled multiplies each segment by a power of two, DATA_mixed each element of
 * 3 in 10 segments.  Unsigned formats get absolute values. */
static void fill_pool(const struct pool *p, struct data_kind d, void *out, uint64_t *state)
{
    for (int64_t s = 0; s < p->segments; s++) {
        int e = d.data == DATA_scaled ? (int)(random_bits(state) % 17) - 8 : 0;
        bool wide = d.data == DATA_mixed && s % 10 < 3;

        for (int64_t i = s * p->length; i < (s + 1) * p->length; i++)
            if (d.data == DATA_quad) {
                ((quad *)out)[i] =
                    (quad)signed_uniform(state) + (quad)signed_uniform(state) * (quad)0x1p-60;
            } else {
                double x = draw_value(d, state);

                x = ldexp(x, wide ? (int)(random_bits(state) % 60) - 30 : e);
                ((double *)out)[i] = p->format.kind == LIMBER_KIND_UINT ? fabs(x) : x;
            }
    }
}

/* Fills a pool with random numbers of this kind, in format f, for a matrix with `cols` columns.
 * Returns false if memory is exhausted. */
bool pool_fill(struct pool *p, struct data_kind d, limber_format f, int64_t cols, uint64_t seed)
{
    size_t count;
    void *x;
    bool ok;

    p->format = f;
    p->cols = cols;
    p->length = cols + SLACK;
    p->segments = POOL / p->length;
    p->together = d.data == DATA_mixed ? 256 : 1;
    p->segments = p->segments < 2 ? 2 : p->segments > MOST_SEGMENTS ? MOST_SEGMENTS : p->segments;
    count = (size_t)(p->segments * p->length);
    p->data = malloc(count * f.size);
    x = malloc(count * sizeof(quad));
    ok = p->data && x;
    if (ok) {
        fill_pool(p, d, x, &seed);
        if (d.data == DATA_cancels && !p->repeats)
            cancel(x, p, d.bits, &seed);
        ok = limber_convert(p->data, f, x, format_of(d.data == DATA_quad ? "f128" : "f64"), count,
                            LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK;
    }
    free(x);
    if (!ok)
        pool_clear(p);
    return ok;
}

void pool_clear(struct pool *p)
{
    free(p->data);
    memset(p, 0, sizeof *p);
}

size_t tensor_bytes(const struct tensor *t)
{
    return (size_t)(t->rows * t->cols) * t->format.size;
}

/* Returns the index in the pool of the row's first element.  It is a multiple of STEP, which
 * keeps device copies aligned. */
static int64_t row_start(const struct tensor *t, int64_t row)
{
    const struct pool *p = t->pool;
    const int64_t which = p->repeats ? row % p->repeats : row;
    uint64_t state = t->seed + (uint64_t)which, bits = random_bits(&state);
    uint64_t shared = t->seed + (uint64_t)(which / p->together);

    return (int64_t)(random_bits(&shared) % (uint64_t)p->segments) * p->length +
           (int64_t)((bits >> 32) % (SLACK / STEP + 1)) * STEP;
}

/* Returns the host's copy of a row, which is a part of the pool. */
const void *tensor_row(const struct tensor *t, int64_t row)
{
    return (const char *)t->pool->data + (size_t)row_start(t, row) * t->format.size;
}

/* Copies each row from its place in the pool in device memory. */
bool tensor_fill(struct tensor *t, const void *device_pool)
{
    size_t size = t->format.size, bytes = (size_t)t->cols * size;

    for (int64_t i = 0; i < t->rows; i++)
        if (!device_copy((char *)t->data + (size_t)i * bytes,
                         (const char *)device_pool + (size_t)row_start(t, i) * size, bytes))
            return false;
    return device_wait();
}
