/* SPDX-License-Identifier: BSD-3-Clause
 * Functions for frequent shapes of small native products.  Products are counted by shape in a table
 * that many threads read and write without a lock.  Once a function would have saved as much time
 * as it costs, the background thread compiles it.  Its results have the bits of jit/direct.c.
 *
 * The table is a set-associative cache.  A shape that is only counted may be evicted; a shape that
 * has a function keeps its place for the context's life.  So at most SETS * PLACES functions are
 * made, and all other shapes use the library's code for any shape. */
#include "jit/shapes.h"

#include <stdlib.h>

/* Returns an empty table of functions for fixed shapes; NULL if memory runs out. */
struct shapes *limber_shapes_new(void)
{
    return calloc(1, sizeof(struct shapes));
}

/* Frees the table of functions for fixed shapes. */
void limber_shapes_free(struct shapes *all)
{
    if (!all)
        return;
    for (int i = 0; i < SETS * PLACES; i++)
        free(all->place[i / PLACES][i % PLACES].made);
    free(all);
}

/* Returns the table entry that counts products of a shape: the shape's own entry, or the one with
 * the lowest count, which from now on counts this shape.  NULL if all entries of the set have
 * functions. */
static struct place *counter_of(struct place *set, uint64_t hash)
{
    struct place *least = NULL;

    for (struct place *w = set; w < set + PLACES; w++) {
        if (atomic_load_explicit(&w->made, memory_order_relaxed))
            continue;
        if (atomic_load_explicit(&w->hash, memory_order_relaxed) == hash)
            return w;
        if (!least || w->saved < least->saved)
            least = w;
    }
    if (least) { /* races between threads only lose counts */
        atomic_store_explicit(&least->saved, 0, memory_order_relaxed);
        atomic_store_explicit(&least->hash, hash, memory_order_relaxed);
    }
    return least;
}

/* Asks the background thread to compile the function of a shape.  False if the request cannot be
 * queued. */
static __attribute__((noinline)) bool ask_for_function(limber_context *ctx,
                                                       const struct product_shape *s)
{
    const struct background_job job = { .shape = *s };

    CALL_SCOPE;
    return limber_background_ask(ctx->background, &job, sizeof job);
}

/* Counts products of a shape, and requests the function of that shape once compiling it pays.  Not
 * inlined, since products that have a function never call this. */
static __attribute__((noinline)) void count_product(limber_context *ctx,
                                                    const struct product_shape *s, int64_t times)
{
    const struct functions *made = ctx->machine.cpu->fixed;
    const int64_t cost = (int64_t)made->cost;
    const struct fixed *f = &s->fixed;
    const double work = (double)f->m * (double)f->n * (double)f->k;
    const uint64_t hash = limber_shape_hash(s);
    struct place *place = counter_of(ctx->shapes->place[hash >> (64 - SET_BITS)], hash);
    int64_t more = (int64_t)((double)times * (made->saved + work * made->saved_each)), before;

    if (!place || atomic_load_explicit(&place->saved, memory_order_relaxed) >= cost)
        return; /* the function is being made, or cannot be made */
    before = atomic_fetch_add_explicit(&place->saved, more, memory_order_relaxed);
    if (before < cost && before + more >= cost && !ask_for_function(ctx, s))
        atomic_store_explicit(&place->saved, 0, memory_order_relaxed);
}

/* Returns the function for this shape.  If there is none yet, counts `times` products of the shape
 * and returns NULL. */
limber_kernel limber_shape_code(limber_context *ctx, const struct product_shape *s, int64_t times)
{
    const struct made *made = limber_find_shape_function(ctx, s);

    if (made)
        return made->code;
    if (ctx->shapes)
        count_product(ctx, s, times);
    return NULL;
}

/* ---- the background thread's jobs ------------------------------------------------------------ */

/* Returns an entry of the set without a function, for the function of a shape.  NULL if the shape
 * has a function already, or all entries have one. */
static struct place *find_unused_place(struct place *set, const struct product_shape *s)
{
    struct place *found = NULL;

    for (struct place *w = set; w < set + PLACES; w++) {
        const struct made *made = w->made;

        if (made && limber_shape_is(made, s))
            return NULL;
        found = made ? found : w;
    }
    return found;
}

/* Returns the number of bytes from the first element of a matrix to the end of the last one. */
static int64_t bytes_of(struct strides s, int64_t rows, int64_t cols, int64_t size)
{
    return ((rows - 1) * s.row + (cols - 1) * s.col + 1) * size;
}

/* Compiles the function of a shape and publishes it for later calls. */
void limber_shape_make(limber_context *ctx, const struct product_shape *s)
{
    const limber_contract native = LIMBER_CONTRACT_INIT;
    const struct fixed *f = &s->fixed;
    struct place *place =
        find_unused_place(ctx->shapes->place[limber_shape_hash(s) >> (64 - SET_BITS)], s);
    struct made *made = place ? malloc(sizeof *made) : NULL;
    struct diag ignored = { 0 }; /* on failure, library code for any shape is used as before */
    void *address;

    if (!made)
        return;
    made->shape = *s;
    made->bytes_a = bytes_of(f->a, f->m, f->k, s->size);
    made->bytes_b = bytes_of(f->b, f->k, f->n, s->size);
    made->bytes_c = bytes_of(f->c, f->m, f->n, s->size);
    if (!limber_engine_function(ctx, &native, &s->fixed, s->size == 8 ? LIMBER_F64 : LIMBER_F32,
                                &address, &ignored)) {
        free(made);
        return;
    }
    memcpy(&made->code, &address, sizeof address);
    atomic_store_explicit(&place->made, made, memory_order_release);
}
