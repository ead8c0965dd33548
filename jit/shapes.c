/* SPDX-License-Identifier: BSD-3-Clause
 * Functions for the shapes of small native products that come often.  Products are counted by shape
 * in a table that many threads read and write without a lock.  Once a function would have saved as
 * much time as it costs, the background thread makes it; the bits are those of jit/direct.c.
 *
 * The table is a cache of few ways.  A shape that is counted gives way to others; one that has a
 * function keeps its place for the context's life.  So there are at most SETS * WAYS functions, and
 * shapes beyond them stay with the library's code. */
#include "jit/engine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SET_BITS = 6, SETS = 1 << SET_BITS, WAYS = 4 };

/* Nanoseconds that a function takes to be made, and that it saves: of each product, and of each
 * multiply-add (docs/performance.md, "Small products"). */
static const int64_t cost = 20000000;
static const double saved = 40, saved_each = 1.0 / 2048;

/* A function; never changed, and freed with the table. */
struct made {
    struct product_shape shape;
    limber_kernel code;
};

struct shapes {
    struct way {
        _Atomic(struct made *) made;
        atomic_uint_fast64_t hash; /* of the shape that is counted */
        atomic_llong saved; /* nanoseconds that its function would have saved */
    } way[SETS][WAYS];
};

struct shapes *limber_shapes_new(void)
{
    return calloc(1, sizeof(struct shapes));
}

void limber_shapes_free(struct shapes *all)
{
    if (!all)
        return;
    for (int i = 0; i < SETS * WAYS; i++)
        free(all->way[i / WAYS][i % WAYS].made);
    free(all);
}

static uint64_t pack(int64_t x, int64_t y, int64_t z)
{
    return (uint64_t)x + ((uint64_t)y << 21) + ((uint64_t)z << 42);
}

/* The high bits are mixed best. */
static uint64_t hash_of(const struct product_shape *s)
{
    const struct fixed *f = &s->fixed;
    const uint64_t sizes = pack(f->m, f->n, f->k), rows = pack(f->a.row, f->b.row, f->c.row);
    const uint64_t cols = pack(f->a.col, f->b.col, f->c.col), rest = pack(f->add, s->size, 0);

    return sizes * 0x9e3779b97f4a7c15 + rows * 0xd1342543de82ef95 + cols * 0xaf251af3b0f025b5 +
           rest * 0xb564ef22ec7aece5;
}

static bool is_same(const struct made *made, const struct product_shape *s)
{
    return made && memcmp(&made->shape, s, sizeof *s) == 0;
}

/* Where the shape is counted: its own way, or that which has counted least.  NULL: all have
 * functions. */
static struct way *counter_of(struct way *set, uint64_t hash)
{
    struct way *least = NULL;

    for (struct way *w = set; w < set + WAYS; w++) {
        if (atomic_load_explicit(&w->made, memory_order_relaxed))
            continue;
        if (atomic_load_explicit(&w->hash, memory_order_relaxed) == hash)
            return w;
        if (!least || w->saved < least->saved)
            least = w;
    }
    if (least) { /* threads that meet here lose some of their counts */
        atomic_store_explicit(&least->saved, 0, memory_order_relaxed);
        atomic_store_explicit(&least->hash, hash, memory_order_relaxed);
    }
    return least;
}

static __attribute__((noinline)) bool ask(limber_context *ctx, const struct product_shape *s)
{
    const struct background_job job = { .shape = *s };

    CALL_SCOPE;
    return limber_background_ask(ctx->background, &job, sizeof job);
}

/* Not inlined: products that have a function do not come here. */
static __attribute__((noinline)) void count(limber_context *ctx, const struct product_shape *s,
                                            struct way *set, uint64_t hash, int64_t times)
{
    const struct fixed *f = &s->fixed;
    const double work = (double)f->m * (double)f->n * (double)f->k;
    struct way *way = counter_of(set, hash);
    int64_t more = (int64_t)((double)times * (saved + work * saved_each)), before;

    if (!way || atomic_load_explicit(&way->saved, memory_order_relaxed) >= cost)
        return; /* it is being made, or cannot be */
    before = atomic_fetch_add_explicit(&way->saved, more, memory_order_relaxed);
    if (before < cost && before + more >= cost && !ask(ctx, s))
        atomic_store_explicit(&way->saved, 0, memory_order_relaxed);
}

limber_kernel limber_shape_code(limber_context *ctx, const struct product_shape *s, int64_t times)
{
    struct way *set;
    uint64_t hash;

    if (!ctx->shapes)
        return NULL;
    hash = hash_of(s);
    set = ctx->shapes->way[hash >> (64 - SET_BITS)];
    for (struct way *w = set; w < set + WAYS; w++) {
        const struct made *made = atomic_load_explicit(&w->made, memory_order_acquire);

        if (is_same(made, s))
            return made->code;
    }
    count(ctx, s, set, hash, times);
    return NULL;
}

/* ---- in the background ----------------------------------------------------------------------- */

static struct way *free_way(struct way *set, const struct product_shape *s)
{
    struct way *found = NULL;

    for (struct way *w = set; w < set + WAYS; w++) {
        if (is_same(w->made, s))
            return NULL;
        found = w->made ? found : w;
    }
    return found;
}

void limber_shape_make(limber_context *ctx, const struct product_shape *s)
{
    const limber_contract native = LIMBER_CONTRACT_INIT;
    struct way *way = free_way(ctx->shapes->way[hash_of(s) >> (64 - SET_BITS)], s);
    struct made *made = way ? malloc(sizeof *made) : NULL;
    struct diag ignored = { 0 }; /* the library's code goes on serving */
    void *address;

    if (!made)
        return;
    made->shape = *s;
    if (!limber_engine_function(ctx, &native, &s->fixed, s->size == 8 ? LIMBER_F64 : LIMBER_F32,
                                &address, &ignored)) {
        free(made);
        return;
    }
    memcpy(&made->code, &address, sizeof address);
    atomic_store_explicit(&way->made, made, memory_order_release);
}
