/* SPDX-License-Identifier: BSD-3-Clause
 * Stores elements to C, as vectors if rows of C are contiguous, and computes the exponents that
 * remove scales. */
#ifndef LIMBER_KERNEL_STORE_H
#define LIMBER_KERNEL_STORE_H

/* Returns the exponent s of the scale 2^s of a line. */
FLAT int scale_of(const struct packed *o, int64_t line)
{
    return o->scale ? o->scale[o->line0 + line] : 0;
}

/* True if row i of A or column j of B has NaN or infinities, which may determine element (i, j). */
FLAT int is_special(const struct kernel_call *c, int64_t i, int64_t j)
{
    return (c->op[0].special && c->op[0].special[c->op[0].line0 + i]) ||
           (c->op[1].special && c->op[1].special[c->op[1].line0 + j]);
}

/* True if C's elements are FP64 or FP32. */
FLAT int stores_binary(const struct kernel_call *c)
{
    return limber_num_is_f64(CFG(c).c) || limber_num_is_f32(CFG(c).c);
}

/* True if C's elements are FP64 numbers and their sides (prim_num.h), without alpha and beta. */
FLAT int stores_sided(const struct kernel_call *c)
{
    return CFG(c).c.kind == LIMBER_KIND_SIDED && CFG(c).c.size == 16 && CFG(c).plain;
}

/* True if `cols` elements of a row, from column j of this part on, are contiguous. */
FLAT int is_dense(const struct kernel_call *c, int64_t j, int64_t cols)
{
    int64_t at = c->j0 + j;

    return c->c.col == 1 && at + cols <= c->c.inner &&
           (!c->c.cols || at % LIMBER_BLOCK + cols <= LIMBER_BLOCK);
}

/* Stores the first `cols` of sixteen elements in C's format. */
FLAT void store_row(const struct kernel_call *c, int64_t i, int64_t j, int64_t cols,
                    const char *v)
{
    int size = CFG(c).c.size;
    char *to;

    if (!is_dense(c, j, cols)) {
        ROLL for (int64_t x = 0; x < cols; x++)
            __builtin_memcpy(place(c, i, j + x), v + x * size, (unsigned)size);
        return;
    }
    to = place(c, i, j);
    if (cols == KERNEL_LANES)
        __builtin_memcpy(to, v, (unsigned)(KERNEL_LANES * size));
    else
        ROLL for (int64_t x = 0; x < cols; x++)
            __builtin_memcpy(to + x * size, v + x * size, (unsigned)size);
}

/* Computes the exponents that remove the scales of row i and of sixteen columns, from j0 on.  For
 * columns that do not exist, the last one is repeated. */
FLAT void scales_at(const struct kernel_call *c, const struct block *b, int64_t i, int64_t j0,
                    v8l e[2])
{
    const struct packed *o = &c->op[1];
    int sa = scale_of(&c->op[0], b->i0 + i);

    e[0] = e[1] = all_l(-sa);
    if (!o->scale)
        return;
    if (b->j0 + j0 + KERNEL_LANES <= c->n) {
        e[0] -= TO(v8l, LOAD(v8i, o->scale + o->line0 + b->j0 + j0));
        e[1] -= TO(v8l, LOAD(v8i, o->scale + o->line0 + b->j0 + j0 + 8));
    } else {
        ROLL for (int64_t x = 0; x < KERNEL_LANES; x++)
            e[x / 8][x % 8] -= o->scale[o->line0 + min64(b->j0 + j0 + x, c->n - 1)];
    }
}

#endif
