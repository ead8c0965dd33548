/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a matrix and a vector, and of two vectors, correctly rounded, without a scan, a plan
 * or a compiler.  Rows are first summed as double-double numbers that start far from zero.  The
 * error bound of such a sum is computed from the sum of the row's magnitudes and the largest
 * magnitude of the vector.  Rows whose rounding this leaves uncertain are summed in bins (bins.h).
 * If it is still uncertain, they are summed exactly, in a long accumulator.  This file is compiled
 * once for each instruction set.
 *
 *   needs   operands and results in binary64 or binary32
 *   proof   docs/accuracy.md, "Pairs"
 *   source  Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005), algorithm 5.3 */
#include "backends/llvm/kernel/dots_again.h"


/* The sums so far of a block of rows, high + low. size: upper bounds of the sums of magnitudes;
 * infinite for a row whose double-double sum cannot be rounded with certainty. */
struct block {
    double high[BLOCK], low[BLOCK], size[BLOCK];
};

/* A segment of the vector as doubles, in place or copied.  A copy is followed by zeros. */
struct segment {
    const double *x;
    int group;                  /* number of elements that share an entry of `most` */
    double most[SEGMENT / COLUMNS]; /* [group of elements]: the largest magnitude in the group */
    int64_t from, n;
    double copy[SEGMENT + ROWS * LANES] __attribute__((aligned(64)));
};

/* How rows are summed.  CHAIN: products of binary32 in plain binary64 chains.  PAIR: double-double
 * sums with a start value above all partial sums, so that rounding errors need no comparisons. */
enum way { CHAIN, PAIR };

/* ---- copying the vector ---------------------------------------------------------------------- */

/* Returns the largest magnitude of n numbers.  NaN counts as larger than all numbers. */
static double largest(const double *x, int64_t n)
{
    vl most[4] = { { 0 } };
    double all = 0;
    int64_t p = 0;

    for (; p + 4 * LANES <= n; p += 4 * LANES)
        UNROLL for (int i = 0; i < 4; i++)
            most[i] = larger(LOAD(vl, x + p + i * LANES) & INT64_MAX, most[i]);
    for (; p + LANES <= n; p += LANES)
        most[0] = larger(LOAD(vl, x + p) & INT64_MAX, most[0]);
    for (; p < n; p++)
        all = larger_of(x[p], all);
    most[0] = larger(larger(most[0], most[1]), larger(most[2], most[3]));
    for (int l = 0; l < LANES; l++)
        all = larger_of(((vd)most[0])[l], all);
    return all;
}

/* Sets a segment of the vector, from element `from` on, in place or as a copy, and computes the
 * largest magnitudes of its groups. */
static void fill_segment(const struct vector_product *x, int64_t from, struct segment *s)
{
    s->from = from;
    s->n = x->k - from < SEGMENT ? x->k - from : SEGMENT;
    s->x = s->copy;
    if (x->b.p == 1 && x->fb.size == 8 && s->n == SEGMENT) {
        s->x = (const double *)x_at(x, from);
    } else {
        copy_elements(x_at(x, from), x->b.p * x->fb.size, x->fb.size, s->n, s->copy);
        memset(s->copy + s->n, 0, sizeof(double) * ROWS * LANES);
    }
    for (int64_t p = 0; p < s->n; p += s->group)
        s->most[p / s->group] = largest(s->x + p, s->n - p < s->group ? s->n - p : s->group);
}

/* Returns the largest magnitude among the n elements of a segment that begin at p. */
static double largest_in_segment(const struct segment *s, int64_t p, int64_t n)
{
    double most = 0;

    for (int64_t i = p / s->group; i * s->group < p + n; i++)
        most = larger_of(s->most[i], most);
    return most;
}

/* ---- sums of rows, far from zero ------------------------------------------------------------- */

/* Returns the sum of the magnitudes of n contiguous elements of `size` bytes. */
FLAT double sum_magnitudes(const char *a, int size, int64_t n)
{
    vd s[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
    int64_t p = 0;

    for (; p + 4 * LANES <= n; p += 4 * LANES)
        UNROLL for (int i = 0; i < 4; i++) s[i] += size_of(load(a + (p + i * LANES) * size, size));
    for (; p + LANES <= n; p += LANES)
        s[0] += size_of(load(a + p * size, size));
    if (p < n)
        s[1] += size_of(load_part(a + p * size, size, n - p));
    return sum_lanes((s[0] + s[1]) + (s[2] + s[3]));
}

/* Returns an upper bound of a sum of |a x|, if the |a| sum to `size` and |x| <= most.  It is
 * infinite if it is so large or small that no start value for add_far is possible.  It covers its
 * own rounding errors, and those of the sum of up to CHUNK magnitudes, which are below 2^-40 of
 * it. */
FLAT double bound_of(double size, double most)
{
    const double bound = size * most * (1 + 0x1p-40);

    if ((size == 0 && most - most == 0) || (most == 0 && size - size == 0))
        return 0;
    return bound > 0x1p-900 && bound < 0x1p1000 ? bound : INFINITY;
}

/* Sums n products of each of `rows` rows.  apart: distance in elements between the vectors of the
 * rows; 0 if all rows use the same vector.  bound: upper bound of the sum of a row's magnitudes.
 * ahead: distance in bytes to the memory that is read next, which is prefetched. */
FLAT void sum_rows(const char *const *row, int rows, int size, enum way way, const double *x,
                   int64_t apart, int64_t n, int64_t ahead, const double *bound, vd *to_high,
                   vd *to_low)
{
    vd high[ROWS], low[ROWS]; /* local arrays, which GCC keeps in registers */
    int64_t p = 0;

    UNROLL for (int r = 0; r < rows; r++)
    {
        high[r] = way == PAIR ? far_of(all_of(bound[r])) : all_of(0);
        low[r] = all_of(0);
    }
    for (; p + LANES <= n; p += LANES) {
        if (p * size % 64 == 0)
            UNROLL for (int r = 0; r < rows; r++) __builtin_prefetch(row[r] + p * size + ahead);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const vd a = load(row[r] + p * size, size), b = LOAD(vd, x + r * apart + p);

            if (way == PAIR)
                add_far(&high[r], &low[r], a, b);
            else
                high[r] = fma_of(a, b, high[r]);
        }
    }
    if (p < n) {
        UNROLL for (int r = 0; r < rows; r++)
        {
            const vd a = load_part(row[r] + p * size, size, n - p),
                     b = LOAD(vd, x + r * apart + p);

            if (way == PAIR)
                add_far(&high[r], &low[r], a, b);
            else
                high[r] = fma_of(a, b, high[r]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        to_high[r] = way == PAIR ? high[r] - far_of(all_of(bound[r])) : high[r];
        to_low[r] = low[r];
    }
}

/* Sums rows by sum_rows, with constants as arguments in the frequent cases, so that the compiler
 * unrolls its loops. */
static void sum_rows_by(const char *const *row, int rows, int size, enum way way, const double *x,
                        int64_t apart, int64_t n, int64_t ahead, const double *bound, vd *high,
                        vd *low)
{
    if (QUICK && rows == ROWS && way == CHAIN)
        sum_rows(row, ROWS, 4, CHAIN, x, apart, n, ahead, bound, high, low);
    else if (QUICK && rows == ROWS && size == 8)
        sum_rows(row, ROWS, 8, PAIR, x, apart, n, ahead, bound, high, low);
    else if (QUICK && rows == ROWS)
        sum_rows(row, ROWS, 4, PAIR, x, apart, n, ahead, bound, high, low);
    else
        for (int r = 0; r < rows; r++)
            sum_rows(row + r, 1, size, way, x + r * apart, 0, n, ahead, bound + r, high + r,
                     low + r);
}

/* Adds the double-double number h + l to *high + *low. */
FLAT void add_pair(vd *high, vd *low, vd h, vd l)
{
    vd rest;

    *high = two_sum(*high, h, &rest);
    *low += l + rest;
}

/* Adds the lanes of `rows` sums to the totals of these rows. */
static void add_lanes(const vd *high, const vd *low, int rows, double *to_high, double *to_low)
{
    vd h = { 0 }, l = { 0 };

    for (int r = 0; r < rows; r++) {
        h[r] = to_high[r];
        l[r] = to_low[r];
    }
    for (int i = 0; i < LANES; i++) {
        vd each_high = { 0 }, each_low = { 0 };

        for (int r = 0; r < ROWS && r < rows; r++) {
            each_high[r] = high[r][i];
            each_low[r] = low[r][i];
        }
        add_pair(&h, &l, each_high, each_low);
    }
    for (int r = 0; r < rows; r++) {
        to_high[r] = h[r];
        to_low[r] = l[r];
    }
}

/* Adds a segment's products of up to ROWS rows, from row i on, to their totals, which begin at
 * index `at` of the block. */
static void add_rows(const struct vector_product *x, enum way way, const struct segment *s,
                     int64_t i, int rows, int at, struct block *t)
{
    double copy[ROWS][CHUNK];
    const bool dense = x->a.p == 1;
    const int size = x->fa.size;

    for (int64_t p = 0; p < s->n; p += CHUNK) {
        const int64_t n = s->n - p < CHUNK ? s->n - p : CHUNK;
        const double most = largest_in_segment(s, p, n);
        double bound[ROWS];
        const char *row[ROWS];
        vd high[ROWS], low[ROWS];

        for (int r = 0; r < rows; r++) {
            row[r] = a_at(x, i + r, s->from + p);
            if (!dense) {
                copy_elements(row[r], x->a.p * size, size, n, copy[r]);
                row[r] = (const char *)copy[r];
            }
            bound[r] = bound_of(!dense || size == 8 ? sum_magnitudes(row[r], 8, n) :
                                                      sum_magnitudes(row[r], 4, n), most);
            t->size[at + r] += bound[r];
            if (bound[r] == INFINITY)
                bound[r] = 1;
        }
        sum_rows_by(row, rows, dense ? size : 8, dense ? way : PAIR, s->x + p, 0, n,
                    !dense            ? 0 :
                    p + CHUNK < s->n ? CHUNK * size :
                                       (ROWS * x->a.line - p) * size,
                    bound, high, low);
        add_lanes(high, low, rows, t->high + at, t->low + at);
    }
}

/* Adds a segment's products, if the matrix has only one row.  Each chunk is summed in ROWS parts at
 * the same time; their totals are the first ROWS entries of the block. */
static void add_row(const struct vector_product *x, enum way way, const struct segment *s,
                    struct block *t)
{
    double copy[CHUNK];
    const int size = x->fa.size;

    for (int64_t p = 0; p < s->n; p += CHUNK) {
        const int64_t n = s->n - p < CHUNK ? s->n - p : CHUNK,
                      part = (n + ROWS * LANES - 1) / (ROWS * LANES) * LANES;
        const bool dense = x->a.p == 1 && n == part * ROWS;
        const int here = dense ? size : 8;
        const char *row[ROWS] = { a_at(x, 0, s->from + p) };
        double bound[ROWS];
        vd high[ROWS], low[ROWS];

        if (!dense) {
            memset(copy + n, 0, (size_t)(part * ROWS - n) * sizeof *copy);
            copy_elements(row[0], x->a.p * size, size, n, copy);
            row[0] = (const char *)copy;
        }
        bound[0] = bound_of(here == 8 ? sum_magnitudes(row[0], 8, part * ROWS) :
                                        sum_magnitudes(row[0], 4, part * ROWS),
                                        largest_in_segment(s, p, n));
        t->size[0] += bound[0];
        if (bound[0] == INFINITY)
            bound[0] = 1;
        for (int r = 1; r < ROWS; r++) {
            row[r] = row[0] + r * part * here;
            bound[r] = bound[0];
        }
        sum_rows_by(row, ROWS, here, here == 4 ? way : PAIR, s->x + p, part, part,
                    dense ? CHUNK * size : 0, bound, high, low);
        add_lanes(high, low, ROWS, t->high, t->low);
    }
}

/* ---- sums over columns ----------------------------------------------------------------------- */

/* Adds the products of n <= COLUMNS columns, whose elements are contiguous, to the totals of
 * `strips` * LANES rows.  column: distance in bytes between columns.  most: largest magnitude of
 * the vector. */
FLAT void sum_columns(const char *a, int64_t column, int size, enum way way, const double *x,
                      int n, double most, int strips, double *to_high, double *to_low,
                      double *to_size)
{
    vd sizes[2], high[2], low[2], far[2];

    UNROLL for (int u = 0; u < strips; u++) sizes[u] = all_of(0);
    for (int p = 0; p < n; p++)
        UNROLL for (int u = 0; u < strips; u++)
            sizes[u] += size_of(load(a + p * column + u * LANES * size, size));
    UNROLL for (int u = 0; u < strips; u++)
    {
        const vd bound = sizes[u] * (most * (1 + 0x1p-40));
        const vl fit = (vl)(bound > 0x1p-900) & (vl)(bound < 0x1p1000);

        if (all(fit)) {
            const vd sum = LOAD(vd, to_size + u * LANES) + bound;

            memcpy(to_size + u * LANES, &sum, sizeof sum);
        } else {
            for (int l = 0; l < LANES; l++)
                to_size[u * LANES + l] += bound_of(sizes[u][l], most);
        }
        far[u] = high[u] = way == PAIR ? far_of((vd)((fit & (vl)bound) |
                                                     (~fit & (vl)all_of(1)))) :
                                         all_of(0);
        low[u] = all_of(0);
    }
    for (int p = 0; p < n; p++) {
        const vd b = all_of(double_at((const char *)(x + p), 8));

        UNROLL for (int u = 0; u < strips; u++)
        {
            const vd v = load(a + p * column + u * LANES * size, size);

            if (way == PAIR)
                add_far(&high[u], &low[u], v, b);
            else
                high[u] = fma_of(v, b, high[u]);
        }
    }
    UNROLL for (int u = 0; u < strips; u++)
    {
        vd h = LOAD(vd, to_high + u * LANES), l = LOAD(vd, to_low + u * LANES);

        add_pair(&h, &l, high[u] - far[u], low[u]);
        memcpy(to_high + u * LANES, &h, sizeof h);
        memcpy(to_low + u * LANES, &l, sizeof l);
    }
}

/* Adds a segment's products to the totals of rows that are adjacent in memory, LANES rows at a
 * time.  Returns the number of rows that it added; fewer than LANES are left. */
static int64_t add_columns(const struct vector_product *x, enum way way, const struct segment *s,
                           int64_t i, int64_t rows, struct block *t)
{
    const int size = x->fa.size;
    const int64_t column = x->a.p * size, whole = rows / LANES * LANES;

    for (int64_t p = 0; p < s->n; p += COLUMNS) {
        const int n = (int)(s->n - p < COLUMNS ? s->n - p : COLUMNS);
        const char *a = a_at(x, i, s->from + p);
        const double most = s->most[p / COLUMNS];

        for (int64_t r = 0; r < whole; r += (1 + QUICK) * LANES) {
            const bool one = !QUICK || whole - r < 2 * LANES;
            const char *at = a + r * size;
            double *h = t->high + r, *l = t->low + r, *z = t->size + r;

            if (one)
                sum_columns(at, column, size, way, s->x + p, n, most, 1, h, l, z);
            else if (way == CHAIN)
                sum_columns(at, column, 4, CHAIN, s->x + p, n, most, 2, h, l, z);
            else if (size == 8)
                sum_columns(at, column, 8, PAIR, s->x + p, n, most, 2, h, l, z);
            else
                sum_columns(at, column, 4, PAIR, s->x + p, n, most, 2, h, l, z);
        }
    }
    return whole;
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Adds two numbers exactly: a + b equals the returned sum plus *rest. */
FLAT double two_sum_of(double a, double b, double *rest)
{
    const double sum = a + b, back = sum - a;

    *rest = (a - (sum - back)) + (b - back);
    return sum;
}

/* True if the elements of a column are contiguous, and those of a row are not. */
static bool has_columns(const struct vector_product *x)
{
    return x->m > 1 && x->a.line == 1 && x->a.p != 1;
}

/* Computes up to BLOCK rows: first as double-double sums, and then again those rows whose sums
 * are not accurate enough to round them with certainty. */
static void run_block(struct vector_product *x, enum way way, struct segment *s, int64_t i,
                      int64_t rows)
{
    const bool one = x->m == 1, columns = has_columns(x);
    const double length = columns ? COLUMNS : CHUNK,
                 merges = columns ? (double)x->k / COLUMNS + 1 :
                                    ((double)x->k / CHUNK + 1) * LANES + ROWS,
                 off = way == CHAIN ?
                     (length + 2) * 0x1p-53 + (merges + 2) * (merges + 2) * 0x1p-104 :
                     (length + merges + 2) * (length + merges + 2) * 0x1p-104;
    int64_t again[BLOCK];
    double sizes[BLOCK]; /* [index in `again`]: upper bounds of the rows' sums of magnitudes */
    int count = 0;
    struct block t;

    for (int64_t r = 0; r < rows; r += LANES) {
        memset(t.high + r, 0, sizeof(vd));
        memset(t.low + r, 0, sizeof(vd));
        memset(t.size + r, 0, sizeof(vd));
    }
    for (int64_t p = 0; p < x->k; p += SEGMENT) {
        int64_t r = 0;

        if (s->from != p)
            fill_segment(x, p, s);
        if (one)
            add_row(x, way, s, &t);
        if (columns)
            r = add_columns(x, way, s, i, rows, &t);
        for (; r < rows && !one; r += ROWS)
            add_rows(x, way, s, i + r, (int)(rows - r < ROWS ? rows - r : ROWS), (int)r, &t);
    }
    for (int r = 1; r < ROWS && one; r++) {
        double rest;

        t.high[0] = two_sum_of(t.high[0], t.high[r], &rest);
        t.low[0] += t.low[r] + rest;
    }
    for (int64_t r = 0; r < rows; r += LANES) {
        const int live = (int)(rows - r < LANES ? rows - r : LANES);
        struct sums sums = { .high = LOAD(vd, t.high + r),
                             .low = LOAD(vd, t.low + r),
                             .size = LOAD(vd, t.size + r) };
        int64_t row[LANES];
        int left;

        sums.uncertain = sums.size * off;
        for (int l = 0; l < LANES; l++)
            row[l] = i + r + l;
        left = store_certain(x, row, live, sums, 0);
        for (int l = 0; l < live; l++)
            if (left >> l & 1) {
                sizes[count] = sums.size[l];
                again[count++] = row[l];
            }
    }
    if (count && columns)
        run_columns_again(x, again, count, sizes);
    else
        run_rows_again(x, again, count, sizes);
}

/* Computes a product with m = 1 or n = 1, in blocks of rows.  Returns the number of results that
 * were computed in the long accumulator. */
int64_t FOR_ISA(limber_dots_run)(const struct call *c, limber_format fa, limber_format fb,
                                 limber_format fc, double allowed)
{
    struct vector_product x = { .c = c,
                                .fa = fa,
                                .fb = fb,
                                .fc = fc,
                                .a = c->a,
                                .b = c->b,
                                .to = c->c.data,
                                .m = c->m,
                                .k = c->k,
                                .step = c->c.row * fc.size,
                                .allowed = allowed,
                                .alpha = c->alpha ? double_at(c->alpha, fc.size) : 1,
                                .beta = c->beta ? double_at(c->beta, fc.size) : 0 };
    struct segment s;

    if (c->n != 1) {    /* C is a row, so compute C^T = B^T A^T */
        x.fa = fb, x.fb = fa;
        x.a = c->b, x.b = c->a;
        x.m = c->n;
        x.step = c->c.col * fc.size;
    }
    s.from = -1;
    s.group = has_columns(&x) ? COLUMNS : CHUNK;
    for (int64_t i = 0; i < x.m; i += BLOCK)
        run_block(&x, fa.size == 4 && fb.size == 4 ? CHAIN : PAIR, &s, i,
                  x.m - i < BLOCK ? x.m - i : BLOCK);
    return x.slow;
}
