/* SPDX-License-Identifier: BSD-3-Clause
 * The table of functions for frequent shapes (shapes.c), with its inline look-up. */
#ifndef LIMBER_JIT_SHAPES_H
#define LIMBER_JIT_SHAPES_H

#include "jit/engine.h"

#include <stdatomic.h>

/* The table has SETS sets of PLACES entries. */
enum { SET_BITS = 6, SETS = 1 << SET_BITS, PLACES = 4 };

/* A function for one shape.  Immutable, and freed with the table. */
struct made {
    struct product_shape shape;
    /* bytes of A, B and C, from the first element to the end of the last one */
    int64_t bytes_a, bytes_b, bytes_c;
    limber_kernel code;
};

/* A table of functions, each for one shape.  The shape's hash selects a set of entries, any of
 * which may hold the shape. */
struct shapes {
    struct place {
        _Atomic(struct made *) made;
        atomic_uint_fast64_t hash; /* hash of the shape whose products are counted here */
        atomic_llong saved; /* nanoseconds that a function for that shape would have saved so far */
    } place[SETS][PLACES];
};

/* Packs three small sizes into one word, by which shapes are compared. */
static inline uint64_t limber_shape_pack(int64_t x, int64_t y, int64_t z)
{
    return (uint64_t)x + ((uint64_t)y << 21) + ((uint64_t)z << 42);
}

/* Returns a multiplicative hash of the shape, whose high bits are mixed best. */
static inline uint64_t limber_shape_hash(const struct product_shape *s)
{
    const struct fixed *f = &s->fixed;
    const uint64_t sizes = limber_shape_pack(f->m, f->n, f->k);
    const uint64_t rows = limber_shape_pack(f->a.row, f->b.row, f->c.row);
    const uint64_t cols = limber_shape_pack(f->a.col, f->b.col, f->c.col);
    const uint64_t rest = limber_shape_pack(f->add, s->size, 0);

    return sizes * 0x9e3779b97f4a7c15 + rows * 0xd1342543de82ef95 + cols * 0xaf251af3b0f025b5 +
           rest * 0xb564ef22ec7aece5;
}

static inline bool limber_strides_equal(struct strides x, struct strides y)
{
    return x.row == y.row && x.col == y.col;
}

/* True if the function was made for this shape.  Compares field by field, because loads of several
 * fields at once would stall on the smaller stores that have just filled *s. */
static inline bool limber_shape_is(const struct made *made, const struct product_shape *s)
{
    const struct fixed *x = &made->shape.fixed, *y = &s->fixed;

    return x->m == y->m && x->n == y->n && x->k == y->k && limber_strides_equal(x->a, y->a) &&
           limber_strides_equal(x->b, y->b) && limber_strides_equal(x->c, y->c) &&
           x->add == y->add && made->shape.size == s->size;
}

/* Returns the function for this shape, or NULL if there is none.  Does not count the product. */
static inline const struct made *limber_find_shape_function(const limber_context *ctx,
                                                            const struct product_shape *s)
{
    const struct place *set;

    if (!ctx->shapes)
        return NULL;
    set = ctx->shapes->place[limber_shape_hash(s) >> (64 - SET_BITS)];
    for (const struct place *w = set; w < set + PLACES; w++) {
        const struct made *made = atomic_load_explicit(&w->made, memory_order_acquire);

        if (made && limber_shape_is(made, s))
            return made;
    }
    return NULL;
}

#endif
