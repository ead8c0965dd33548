/* SPDX-License-Identifier: BSD-3-Clause
 * Products of matrices by register tiles.  Blocks of A and B are packed in lanes, so operands may
 * lie in any way.  Sums of a block of C stay in memory until the last block along k, so that each
 * element is summed in the order of k. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_ROWS = 384, /* rows of a block of C: a multiple of the rows of each tile */
    BLOCK_COLUMNS = 256,
    WIDE = 16 /* smallest extent for which the values of integers are scanned */
};

static const int size_of[ELEMENTS] = {
    [I8] = 1, [U8] = 1, [I16] = 2, [I32] = 4, [I64] = 8, [HALF] = 2
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Exchanges A and B, so that C^T = B^T A^T is computed. */
static void transpose(struct loop_product *x)
{
    const struct place a = x->a;
    const int64_t m = x->m, cm = x->cm;

    x->a = x->b;
    x->b = a;
    x->m = x->n;
    x->n = m;
    x->cm = x->cn;
    x->cn = cm;
}

/* Returns the OR of a matrix's elements, each XORed with its sign.  Returns all bits set if
 * neither lines nor elements along k are contiguous. */
static uint64_t scan(const struct kernels *with, enum element type, const struct place *v,
                     int64_t lines, int64_t k)
{
    const int64_t size = size_of[type];
    uint64_t all = 0;

    if (v->k == size)
        for (int64_t i = 0; i < lines; i++)
            all |= with->scan(type, v->data + i * v->line, k);
    else if (v->line == size)
        for (int64_t p = 0; p < k; p++)
            all |= with->scan(type, v->data + p * v->k, lines);
    else
        return UINT64_MAX;
    return all;
}

/* True if Limber's kernels are faster than the tiles of this file, provided that the values are
 * bytes. */
static bool is_large(const struct loop_product *x)
{
    return (double)x->m * (double)x->n * (double)x->k >=
           (x->type == I8 || x->type == U8 ? 1 << 26 : 1 << 29);
}

/* How the values of two integer matrices can be multiplied. */
struct choice {
    enum lanes lanes;
    bool bytes; /* all values are numbers of eight bits, signed or unsigned */
};

/* Chooses the type of lanes by the elements' type and values.  For PAIRS of I64, sums over a
 * block along k fit int32. */
static struct choice choose(const struct kernels *with, const struct loop_product *x)
{
    uint64_t a, b, both;

    if (x->type == HALF)
        return (struct choice){ FLOATS, false };
    if (x->type == I8 || x->type == U8)
        return (struct choice){ PAIRS, true };
    /* a scan of the values would take longer than it saves */
    if (x->type != I16 && least(least(x->m, x->n), x->k) < WIDE)
        return (struct choice){ x->type == I32 ? WORDS : LONGS, false };
    if (x->type == I16 && !is_large(x))
        return (struct choice){ PAIRS, false };
    a = scan(with, x->type, &x->a, x->m, x->k);
    b = a >> 31 ? a : scan(with, x->type, &x->b, x->n, x->k);
    both = a | b;
    if (x->type == I16)
        return (struct choice){ PAIRS, both >> 8 == 0 };
    if (x->type == I32)
        return (struct choice){ both >> 15 ? WORDS : PAIRS, both >> 8 == 0 };
    if (both >> 31)
        return (struct choice){ LONGS, false };
    return (struct choice){ both >> 15 || (a + 1) * (b + 1) * 2 * DEPTH >> 31 ? SHORT_LONGS : PAIRS,
                            both >> 8 == 0 };
}

/* Memory for the blocks of one product. */
struct memory {
    char *all, *a, *b, *sums;
    int64_t *total; /* sums of int64 whose products are computed as PAIRS; else NULL */
    int64_t stride; /* lanes from one row of the sums to the next */
};

/* Allocates memory for blocks of A, B and C, in lanes of this type.  False if memory runs out. */
static bool allocate(struct memory *w, const struct loop_product *x, enum lanes lanes,
                     const struct multiplier *tile)
{
    const int64_t rows = round_up(least(x->m, BLOCK_ROWS), tile->rows), bytes = BYTES_OF(lanes),
                  columns = round_up(least(x->n, BLOCK_COLUMNS), tile->columns);
    const size_t a = (size_t)round_up(rows * STRIDE * bytes, 64),
                 b = (size_t)round_up(columns * DEPTH * bytes, 64),
                 sums = (size_t)(rows * columns * bytes),
                 total = x->type == I64 && lanes == PAIRS ? (size_t)(rows * columns * 8) : 0;

    w->all = aligned_alloc(64, (size_t)round_up((int64_t)(a + b + sums + total), 64));
    if (!w->all)
        return false;
    w->a = w->all;
    w->b = w->a + a;
    w->sums = w->b + b;
    w->total = total ? (int64_t *)(void *)(w->sums + sums) : NULL;
    w->stride = columns;
    return true;
}

/* Returns the number of rows of a tile that are computed if `live` rows are left. */
static int tile_rows(const struct multiplier *tile, int64_t live)
{
    return live == 1 ? 1 : live <= tile->rows - 2 ? (int)round_up(live, 2) : tile->rows;
}

/* Multiplies rows [i, i + m) of A by columns [j, j + n) of B over [p, p + k), and adds the
 * products to the block's sums. at: i, j, p; extent: m, n, k. */
static void multiply_block(const struct kernels *with, const struct loop_product *x,
                           enum lanes lanes, const struct memory *w, const int64_t at[3],
                           const int64_t extent[3])
{
    const struct multiplier *tile = &with->multiply[lanes];
    const int64_t m = extent[0], n = extent[1], k = extent[2], bytes = BYTES_OF(lanes),
                  depth = (k + ELEMENTS_OF(lanes) - 1) / ELEMENTS_OF(lanes);
    struct place from = x->a;

    from.data += at[0] * from.line + at[2] * from.k;
    for (int64_t i = 0; i < m; i += tile->rows, from.data += tile->rows * from.line) {
        const int live = (int)least(m - i, tile->rows);

        with->pack_a(lanes, x->type, &from, live, tile_rows(tile, live), k,
                     w->a + i * STRIDE * bytes);
    }
    from = x->b;
    from.data += at[1] * from.line + at[2] * from.k;
    for (int64_t j = 0; j < n; j += tile->columns, from.data += tile->columns * from.line) {
        with->pack_b(lanes, x->type, &from, (int)least(n - j, tile->columns), tile->columns, k,
                     w->b);
        for (int64_t i = 0; i < m; i += tile->rows)
            tile->run(tile_rows(tile, m - i), w->a + i * STRIDE * bytes, w->b, depth,
                      w->sums + (i * w->stride + j) * bytes, w->stride);
    }
}

/* Computes the block of C that begins at (i, j), over all of k. */
static void compute_block(const struct kernels *with, struct loop_product *x, enum lanes lanes,
                          const struct memory *w, int64_t i0, int64_t j0)
{
    const int64_t m = least(x->m - i0, BLOCK_ROWS), n = least(x->n - j0, BLOCK_COLUMNS),
                  depth = DEPTH * ELEMENTS_OF(lanes);
    const int64_t rows = round_up(m, with->multiply[lanes].rows);
    const size_t sums = (size_t)(rows * w->stride);
    const int64_t bytes = w->total ? 8 : BYTES_OF(lanes);

    if (w->total)
        memset(w->total, 0, sums * 8);
    memset(w->sums, 0, sums * BYTES_OF(lanes));
    for (int64_t p = 0; p < x->k; p += depth) {
        multiply_block(with, x, lanes, w, (const int64_t[]){ i0, j0, p },
                       (const int64_t[]){ m, n, least(x->k - p, depth) });
        if (w->total) {
            const int32_t *part = (const int32_t *)(const void *)w->sums;

            for (size_t i = 0; i < sums; i++)
                w->total[i] += part[i];
            memset(w->sums, 0, sums * 4);
        }
    }
    for (int64_t i = 0; i < m; i++)
        x->raised |= with->store(w->total ? LONGS : lanes, x->type,
                                 (w->total ? (char *)w->total : w->sums) + i * w->stride * bytes, n,
                                 x->c + (i0 + i) * x->cm + j0 * x->cn, x->cn, &x->nan);
}

/* Computes a product by Limber's engine if that is faster, else block by block.  False if memory
 * runs out. */
static bool by_tiles(const struct kernels *with, struct loop_product *x)
{
    const struct choice choice = choose(with, x);
    const enum lanes lanes = choice.lanes;
    struct memory w;

    if (choice.bytes && is_large(x) && limber_numpy_engine(x))
        return true;
    if (x->n < with->multiply[lanes].columns && x->m > x->n)
        transpose(x);
    if (!allocate(&w, x, lanes, &with->multiply[lanes]))
        return false;
    for (int64_t j = 0; j < x->n; j += BLOCK_COLUMNS)
        for (int64_t i = 0; i < x->m; i += BLOCK_ROWS)
            compute_block(with, x, lanes, &w, i, j);
    free(w.all);
    return true;
}

/* ---- vectors ------------------------------------------------------------------------------- */

enum {
    LINES = 2048, /* elements of C whose sums are kept in by_multiples */
    /* below these sizes NumPy's loops are as fast: elements of a dot product, elements that are
     * added at once, multiply-adds */
    LEAST_DEPTH = 16,
    LEAST_LINES = 16,
    LEAST_WORK = 512,
    /* from this number of lines on, products of binary16, and of matrices, are computed by tiles */
    FEW = 4,
    /* NumPy's loops are as fast as tiles if both operands have fewer than NARROW lines, or if
     * the smaller number of lines times k is below THIN */
    NARROW = 8,
    THIN = 16
};

/* Copies n elements of `size` bytes; steps are in bytes. */
static void copy(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                 int size)
{
#define COPY(bytes) \
    for (int64_t i = 0; i < n; i++) \
        memcpy(to + i * to_step, from + i * from_step, bytes);
    if (to_step == size && from_step == size)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 1)
        COPY(1)
    else if (size == 2)
        COPY(2)
    else if (size == 4)
        COPY(4)
    else
        COPY(8)
#undef COPY
}

/* Computes each element of C = A v by a dot product. */
static void by_dots(const struct kernels *with, struct loop_product *x, const char *v)
{
    for (int64_t i = 0; i < x->m; i++) {
        const char *line = x->a.data + i * x->a.line;

        if (x->type == HALF) {
            const float sum = with->dot_of_halves((const void *)line, (const void *)v, x->k);

            x->raised |= with->store(FLOATS, HALF, &sum, 1, x->c + i * x->cm, 2, &x->nan);
        } else {
            const uint64_t sum = with->dot(x->type, line, v, x->k);

            copy(x->c + i * x->cm, 0, (const char *)&sum, 0, 1, size_of[x->type]);
        }
    }
}

/* Computes all elements of C = A v together: for each k adds the k-th column of A times the k-th
 * element of v. */
static void by_multiples(const struct kernels *with, struct loop_product *x, const char *v)
{
    const int size = size_of[x->type];
    char sums[LINES * 8];

    for (int64_t i = 0; i < x->m; i += LINES) {
        const int64_t n = least(x->m - i, LINES);

        memset(sums, 0, (size_t)(n * size));
        for (int64_t p = 0; p < x->k; p++)
            with->add_multiple(x->type, x->a.data + i * size + p * x->a.k, v + p * size, n, sums);
        copy(x->c + i * x->cm, x->cm, sums, size, n, size);
    }
}

/* True if NumPy's loop is as fast for this product with a vector, or if this file has no code
 * for the layout of A. */
static bool is_left_to_numpy(const struct loop_product *x)
{
    const int size = size_of[x->type];

    if (x->m * x->k < LEAST_WORK)
        return true;
    if (x->type == HALF)
        return x->m < FEW && x->a.k != size;
    if (x->a.k == size)
        return x->k < LEAST_DEPTH;
    return x->a.line != size || x->m < LEAST_LINES;
}

bool limber_numpy_vector(const struct kernels *with, struct loop_product *x)
{
    const int size = size_of[x->type];
    const char *v;
    char *gathered = NULL;

    if (x->m == 1)
        transpose(x);
    if (is_left_to_numpy(x))
        return false;
    if (x->type == HALF && x->m >= FEW)
        return by_tiles(with, x);
    v = x->b.data;
    if (x->b.k != size) {
        v = gathered = malloc((size_t)(x->k * size));
        if (!gathered)
            return false;
        copy(gathered, size, x->b.data, x->b.k, x->k, size);
    }
    if (x->a.k == size)
        by_dots(with, x, v);
    else
        by_multiples(with, x, v);
    free(gathered);
    return true;
}

/* Computes a product with few columns as one product with a vector for each column. */
static bool by_vectors(const struct kernels *with, const struct loop_product *x)
{
    for (int64_t j = 0; j < x->n; j++) {
        struct loop_product column = *x;

        column.n = 1;
        column.b.data += j * x->b.line;
        column.c += j * x->cn;
        if (!limber_numpy_vector(with, &column))
            return false;
    }
    return true;
}

bool limber_numpy_matrix(const struct kernels *with, struct loop_product *x)
{
    if (x->type == HALF)
        return by_tiles(with, x);
    if (x->m < x->n && x->m < FEW)
        transpose(x);
    if (x->n < FEW)
        return by_vectors(with, x);
    return (x->m >= NARROW || x->n >= NARROW) && least(x->m, x->n) * x->k >= THIN &&
           by_tiles(with, x);
}
