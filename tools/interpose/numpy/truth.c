/* SPDX-License-Identifier: BSD-3-Clause
 * Products of truth values.  A row of C is the OR of those rows of B whose element of A is true.
 * Rows of B are packed to bits.  A row of C is complete when all of its bits are set, so dense data
 * needs few rows of B; therefore B is packed in blocks that begin small. */
#include "product.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 512, /* rows of a block of C */
    FIRST = 16, /* rows of the first block of B */
    LAST = 1024, /* largest number of rows of the later blocks of B */
    COLUMNS = 64 * WORDS_OF_BITS,
    /* smallest extent for which rows of bits are faster than NumPy's loop, if data is sparse */
    LEAST = 16,
    SQUARE = 64, /* smallest extent for which they are faster for any data */
    LONG = 48 /* positions along k that are tested to find out whether an element is sparse */
};

/* A product of truth values, computed by rows of bits. */
struct truth {
    const struct kernels *with;
    const struct loop_product *x;
    int words; /* number of 64-bit words of a row of bits */
    uint64_t *bits, *sums, *full;
    uint8_t *bytes; /* memory for a copy of a row of A or B that is not contiguous */
};

/* Returns n bytes as a contiguous array: in place, or copied to `to`. */
static const uint8_t *gather(const char *from, int64_t step, int64_t n, uint8_t *to)
{
    if (step == 1)
        return (const uint8_t *)from;
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint8_t)from[i * step];
    return to;
}

/* ORs rows [p, p + k) of B (range: p, k) to those of rows [i0, i0 + m) of C whose elements of A
 * are true.  Returns true if each row of C is complete: all of its bits are set. */
static bool add_block(const struct truth *t, int64_t i0, int64_t m, int64_t j, int64_t n,
                      const int64_t range[2])
{
    const struct loop_product *x = t->x;
    const int64_t p = range[0], k = range[1];
    bool complete = true;

    for (int64_t q = 0; q < k; q++)
        t->with->to_bits(
            gather(x->b.data + j * x->b.line + (p + q) * x->b.k, x->b.line, n, t->bytes), n,
            t->bits + q * t->words);
    for (int64_t i = 0; i < m; i++) {
        uint64_t *sum = t->sums + i * t->words;

        if (memcmp(sum, t->full, (size_t)t->words * 8) == 0)
            continue;
        t->with->join(gather(x->a.data + (i0 + i) * x->a.line + p * x->a.k, x->a.k, k, t->bytes),
                      t->bits, k, t->words, t->full, sum);
        complete = complete && memcmp(sum, t->full, (size_t)t->words * 8) == 0;
    }
    return complete;
}

/* Computes the block of C that begins at (i0, j0), until all of its bits are set or k ends. */
static void compute_block(const struct truth *t, int64_t i0, int64_t j0)
{
    const struct loop_product *x = t->x;
    const int64_t m = x->m - i0 < ROWS ? x->m - i0 : ROWS,
                  n = x->n - j0 < COLUMNS ? x->n - j0 : COLUMNS;
    int64_t depth = FIRST;

    memset(t->sums, 0, (size_t)m * (size_t)t->words * 8);
    memset(t->full, 0, (size_t)t->words * 8);
    for (int64_t j = 0; j < n; j++)
        t->full[j / 64] |= (uint64_t)1 << j % 64;
    for (int64_t p = 0; p < x->k; p += depth, depth = depth < LAST ? 2 * depth : LAST) {
        const int64_t k = x->k - p < depth ? x->k - p : depth;

        if (add_block(t, i0, m, j0, n, (const int64_t[]){ p, k }))
            break;
    }
    for (int64_t i = 0; i < m; i++) {
        char *to = x->c + (i0 + i) * x->cm + j0 * x->cn;
        uint8_t *row = x->cn == 1 ? (uint8_t *)to : t->bytes;

        t->with->from_bits(t->sums + i * t->words, n, row);
        for (int64_t j = 0; j < n && x->cn != 1; j++)
            to[j * x->cn] = (char)row[j];
    }
}

/* True if A and B are not both true at any of the first LONG positions along k for element (i,
 * j).  NumPy's loop ends an element at the first such position, so it then takes long. */
static bool goes_far(const struct loop_product *x, int64_t i, int64_t j)
{
    const char *a = x->a.data + i * x->a.line, *b = x->b.data + j * x->b.line;

    for (int64_t p = 0; p < LONG && p < x->k; p++)
        if (a[p * x->a.k] && b[p * x->b.k])
            return false;
    return true;
}

/* Returns whether products of true elements seem to be rare, by two samples. */
static bool is_sparse(const struct loop_product *x)
{
    return goes_far(x, 0, 0) && goes_far(x, x->m / 2, x->n / 2);
}

bool limber_numpy_truth(const struct kernels *with, const struct loop_product *x)
{
    struct truth t = { .with = with, .x = x };
    const int64_t rows = x->m < ROWS ? x->m : ROWS, depth = x->k < LAST ? x->k : LAST;
    bool done = false;

    if (x->m < LEAST || x->n < LEAST || x->k < LEAST ||
        ((x->m < SQUARE || x->n < SQUARE) && !is_sparse(x)))
        return false;
    t.words = x->n <= 64 ? 1 : x->n <= 512 ? 8 : WORDS_OF_BITS;
    t.bits = calloc((size_t)(rows + depth + 1) * (size_t)t.words, 8);
    t.bytes = malloc(depth > COLUMNS ? (size_t)depth : COLUMNS);
    if (t.bits && t.bytes) {
        t.sums = t.bits + depth * t.words;
        t.full = t.sums + rows * t.words;
        for (int64_t j = 0; j < x->n; j += COLUMNS)
            for (int64_t i = 0; i < x->m; i += ROWS)
                compute_block(&t, i, j);
        done = true;
    }
    free(t.bits);
    free(t.bytes);
    return done;
}

/* Computes a product with a vector: each element by a search for a common true. */
bool limber_numpy_truth_vector(const struct kernels *with, const struct loop_product *x)
{
    const bool turned = x->m == 1;
    const struct place *a = turned ? &x->b : &x->a, *b = turned ? &x->a : &x->b;
    const int64_t m = turned ? x->n : x->m, step = turned ? x->cn : x->cm;

    if (a->k != 1 || b->k != 1 || x->k < DEPTH || !is_sparse(x))
        return false;
    for (int64_t i = 0; i < m; i++)
        x->c[i * step] = with->have_common_true((const uint8_t *)a->data + i * a->line,
                                                (const uint8_t *)b->data, x->k);
    return true;
}
