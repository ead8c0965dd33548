/* SPDX-License-Identifier: BSD-3-Clause
 * Operands for measuring: rows cut at random places from a pool of random numbers.  Drawing every
 * element of a large matrix on the host would take longer than all that is measured on it. */
#include "tools/bench/gpu.h"
#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 1 << 20, SLACK = 1 << 14, STEP = 16, MOST_SEGMENTS = 32 };

/* A multiple of 2^-53 in (0,1). */
static double uniform(uint64_t *state)
{
    return ((double)(random_bits(state) >> 12) + 0.5) * 0x1p-52;
}

static double value(enum gpu_data data, int bits, uint64_t *state)
{
    double x;

    if (data == DATA_uniform)
        return uniform(state);
    if (data != DATA_integer)
        return random_normal(state);
    x = floor(ldexp(uniform(state), bits));
    return random_bits(state) & 1 ? -x : x;
}

/* Each segment has a power of two of its own, where the data is to be scaled; of a mixed pool 3 in
 * 10 have one for each element. */
static void draw(const struct pool *p, enum gpu_data data, int bits, void *out, uint64_t *state)
{
    for (int64_t s = 0; s < p->segments; s++) {
        int e = data == DATA_scaled ? (int)(random_bits(state) % 17) - 8 : 0;
        bool wide = data == DATA_mixed && s % 10 < 3;

        for (int64_t i = s * p->length; i < (s + 1) * p->length; i++)
            if (wide)
                ((double *)out)[i] =
                    ldexp(value(data, bits, state), (int)(random_bits(state) % 60) - 30);
            else if (data == DATA_quad)
                ((quad *)out)[i] = (quad)uniform(state) + (quad)uniform(state) * (quad)0x1p-60;
            else
                ((double *)out)[i] = ldexp(value(data, bits, state), e);
    }
}

bool pool_fill(struct pool *p, enum gpu_data data, int bits, limber_format f, int64_t cols,
               uint64_t seed)
{
    size_t count;
    void *x;
    bool ok;

    p->format = f;
    p->cols = cols;
    p->length = cols + SLACK;
    p->segments = POOL / p->length;
    p->together = data == DATA_mixed ? 256 : 1;
    p->segments = p->segments < 2 ? 2 : p->segments > MOST_SEGMENTS ? MOST_SEGMENTS : p->segments;
    count = (size_t)(p->segments * p->length);
    p->data = malloc(count * f.size);
    x = malloc(count * sizeof(quad));
    ok = p->data && x;
    if (ok) {
        draw(p, data, bits, x, &seed);
        ok = limber_convert(p->data, f, x, format_of(data == DATA_quad ? "f128" : "f64"), count,
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

/* Where a row begins in the pool, in elements; steps keep the device's copies aligned. */
static int64_t row_start(const struct tensor *t, int64_t row)
{
    const struct pool *p = t->pool;
    uint64_t state = t->seed + (uint64_t)row, bits = random_bits(&state);
    uint64_t shared = t->seed + (uint64_t)(row / p->together);

    return (int64_t)(random_bits(&shared) % (uint64_t)p->segments) * p->length +
           (int64_t)((bits >> 32) % (SLACK / STEP + 1)) * STEP;
}

const void *tensor_row(const struct tensor *t, int64_t row)
{
    return (const char *)t->pool->data + (size_t)row_start(t, row) * t->format.size;
}

bool tensor_fill(struct tensor *t, const void *device_pool)
{
    size_t size = t->format.size, bytes = (size_t)t->cols * size;

    for (int64_t i = 0; i < t->rows; i++)
        if (!gpu_copy((char *)t->data + (size_t)i * bytes,
                      (const char *)device_pool + (size_t)row_start(t, i) * size, bytes))
            return false;
    return gpu_wait();
}
