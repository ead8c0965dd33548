/* SPDX-License-Identifier: BSD-3-Clause
 * Finds by a hash whether the elements of a prepared operand have changed. */
#include "jit/prepared_operand.h"

#include <stdlib.h>
#include <string.h>

enum { HASHED = 1 << 16 }; /* elements of a task */

/* A matrix that several tasks hash. */
struct hashing {
    const limber_matrix *x;
    int64_t outer, inner; /* numbers of elements; the inner dimension has the smaller stride */
    /* strides, in elements */
    int64_t outer_step, inner_step;
    int64_t each; /* number of outer indices per task */
    /* [task] */
    XXH128_hash_t *hash;
};

/* Hashes n elements of `size` bytes each, which begin `step` bytes apart, by copying them to a
 * buffer. */
static void hash_apart(XXH3_state_t *state, const char *at, int64_t n, int64_t step, size_t size)
{
    char buffer[4096];
    int64_t buffer_elements = (int64_t)(sizeof buffer / size);

    for (; n > 0; n -= buffer_elements) {
        int64_t some = n < buffer_elements ? n : buffer_elements;

        for (int64_t i = 0; i < some; i++, at += step)
            memcpy(buffer + (size_t)i * size, at, size);
        XXH3_128bits_update(state, buffer, (size_t)some * size);
    }
}

/* Task: hashes the elements of some rows or columns, those with the larger stride. */
static void hash_task(void *arg, int64_t task, int worker)
{
    const struct hashing *h = arg;
    size_t size = h->x->format.size;
    int64_t end = (task + 1) * h->each < h->outer ? (task + 1) * h->each : h->outer;
    XXH3_state_t state;

    (void)worker;
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    for (int64_t i = task * h->each; i < end; i++) {
        const char *at = (const char *)h->x->data + i * h->outer_step * (int64_t)size;

        if (h->inner_step == 1)
            XXH3_128bits_update(&state, at, (size_t)h->inner * size);
        else
            hash_apart(&state, at, h->inner, h->inner_step * (int64_t)size, size);
    }
    h->hash[task] = XXH3_128bits_digest(&state);
}

/* Hashes all elements on the context's threads. */
bool limber_prepared_hash(const struct limber_prepared *o, XXH128_hash_t *out, struct diag *d)
{
    bool by_rows = o->x.col_stride <= o->x.row_stride;
    struct hashing h = { .x = &o->x,
                         .outer = by_rows ? o->rows : o->cols,
                         .inner = by_rows ? o->cols : o->rows,
                         .outer_step = by_rows ? o->x.row_stride : o->x.col_stride,
                         .inner_step = by_rows ? o->x.col_stride : o->x.row_stride };
    struct runner r = limber_pool_runner(o->ctx->pool);
    int64_t tasks;

    h.each = HASHED / (h.inner + 1) + 1;
    tasks = h.inner ? (h.outer + h.each - 1) / h.each : 0;
    h.hash = malloc((size_t)(tasks + 1) * sizeof *h.hash);
    if (!h.hash)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the hashes of an operand");
    r.run(r.self, tasks, hash_task, &h);
    *out = XXH3_128bits(h.hash, (size_t)tasks * sizeof *h.hash);
    free(h.hash);
    return true;
}

/* True if the elements are unchanged.  Else false, with an error that names the operand as
 * `what`. */
bool limber_prepared_is_same(const struct limber_prepared *o, const char *what, struct diag *d)
{
    XXH128_hash_t now;

    return limber_prepared_hash(o, &now, d) &&
           (XXH128_isEqual(now, o->hash) ||
            limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s has changed since it was prepared",
                        what));
}
