/* SPDX-License-Identifier: BSD-3-Clause
 * For dots.c: the operands of a product of a matrix and a vector, loading of elements as doubles,
 * and storing of results whose rounding is certain. */
#ifndef LIMBER_KERNEL_DOTS_H
#define LIMBER_KERNEL_DOTS_H

#include "backends/llvm/kernel/kernel.h"
#include "backends/llvm/kernel/settle.h"

/* ROWS: number of rows that are summed together.  CHUNK: number of elements along k whose
 * magnitudes are summed before their products.  SEGMENT: number of elements of the vector that are
 * copied at once.  COLUMNS: number of columns that are summed together if columns are contiguous.
 * BLOCK: number of rows whose sums are kept. */
enum { ROWS = 4, CHUNK = 512, SEGMENT = 8 * CHUNK, COLUMNS = 16, BLOCK = 512 };

/* A product of a matrix and a vector.  If C is one row, the matrix is the transpose of B. */
struct vector_product {
    const struct call *c;
    limber_format fa, fb, fc;
    struct view a, b;
    char *to; /* C; `step` is the distance in bytes between results */
    int64_t m, k, step;
    double alpha, beta;
    double allowed;             /* tolerated error of a result, relative to |A||B| */
    int64_t slow;               /* number of results that were computed in the long accumulator */
    int unit;                   /* exponent of the vector's lowest bit; valid if `known` is set */
    bool known;
};

/* Returns the address of element p of the vector. */
static const char *x_at(const struct vector_product *x, int64_t p)
{
    return (const char *)x->b.data + p * x->b.p * x->fb.size;
}

/* Returns the address of element p of row i. */
static const char *a_at(const struct vector_product *x, int64_t i, int64_t p)
{
    return (const char *)x->a.data + (i * x->a.line + p * x->a.p) * x->fa.size;
}

/* Returns the address of row i's result. */
static char *result_at(const struct vector_product *x, int64_t i)
{
    return x->to + i * x->step;
}

/* ---- loading numbers ------------------------------------------------------------------------- */

/* Copies n elements of 8 or 4 bytes, `step` bytes apart, as doubles. */
static void copy_elements(const char *from, int64_t step, int size, int64_t n, double *to)
{
    if (size == 8 && step == 8)
        memcpy(to, from, (size_t)n * 8);
    else if (size == 8)
        for (int64_t p = 0; p < n; p++)
            to[p] = double_at(from + p * step, 8);
    else
        for (int64_t p = 0; p < n; p++)
            to[p] = double_at(from + p * step, 4);
}

/* Loads LANES contiguous elements of 8 or 4 bytes as doubles. */
FLAT vd load(const char *at, int size)
{
    return size == 8 ? LOAD(vd, at) : __builtin_convertvector(LOAD(vf, at), vd);
}

/* Loads n < LANES contiguous elements of 8 or 4 bytes as doubles; all other lanes become zero. */
FLAT vd load_part(const char *at, int size, int64_t n)
{
    double x[LANES] = { 0 };

    for (int64_t l = 0; l < n; l++)
        x[l] = double_at(at + l * size, size);
    return LOAD(vd, x);
}

/* Loads the first LANES of n > 0 doubles; if there are fewer, all other lanes become zero. */
FLAT vd load_up_to(const double *x, int64_t n)
{
    return n < LANES ? load_part((const char *)x, 8, n) : LOAD(vd, x);
}

/* Returns the sum of the lanes. */
FLAT double sum_lanes(vd x)
{
    double s = 0;

    for (int l = 0; l < LANES; l++)
        s += x[l];
    return s;
}

/* ---- storing results that are certain -------------------------------------------------------- */

/* The sums high + low of LANES rows, with an error of at most `uncertain`.  size: sums of the
 * products' magnitudes, 0 only if all products are zero. */
struct sums {
    vd high, low, size, uncertain;
};

/* Stores the results of the first `live` rows whose rounding is certain, or whose error is at most
 * `allowed` times the sum of magnitudes.  Returns the mask of the rows that are not stored. */
static int store_certain(const struct vector_product *x, const int64_t *row, int live,
                         struct sums s, double allowed)
{
    const bool usual = all((vl)(s.size - s.size == 0) & (vl)(s.size != 0));
    struct results o;
    int open = 0, zero = 0;

    set_results(&o, x->c, x->fc, live, x->alpha, &x->beta);
    for (int l = 0; l < live; l++)
        o.to[l] = result_at(x, row[l]);
    for (int l = 0; l < live && !usual; l++) {
        zero |= (s.size[l] == 0) << l;
        open |= (s.size[l] - s.size[l] != 0) << l;
    }
    return store_results(&o, open | zero, zero, s.high, s.low, s.uncertain,
                         s.size * (allowed * fabs(x->alpha)));
}

#endif
