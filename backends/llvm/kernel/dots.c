/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a matrix and a vector, and of two vectors, correctly rounded, without a scan, a plan
 * or a compiler.  Rows are first summed as pairs of doubles that begin far from zero; the bound of
 * their error comes from the sum of the row's magnitudes and the vector's largest.  Rows that this
 * does not decide are summed in bins (bins.h), and what is still undecided exactly, in a long
 * accumulator.  Compiled once for each instruction set.
 *
 *   needs   binary64 or binary32 throughout
 *   proof   docs/accuracy.md, "Pairs"
 *   source  Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005), algorithms 5.3 and 5.10 */
#include "backends/llvm/kernel/kernel.h"
#include "backends/llvm/kernel/bins.h"
#include "ir/num/dot.h"
#include "ir/num/prim.h"

#ifndef DOTS
#define DOTS(name) limber_dots_##name
#endif

/* Rows that are summed together; elements of k whose magnitudes are summed before their products,
 * and that are copied from a vector at once; columns of a column-wise matrix that are summed
 * together; rows whose sums are kept. */
enum { ROWS = 4, CHUNK = 512, SEGMENT = 8 * CHUNK, COLUMNS = 16, BLOCK = 512 };

/* Matrix times vector.  The matrix is B, transposed, if C is one row. */
struct product {
    const struct call *c;
    limber_format fa, fb, fc;
    struct view a, b;
    char *to; /* C, `step` bytes from one result to the next */
    int64_t m, k, step;
    double alpha, beta;
    double allowed;             /* tolerated error, relative to |A||B| */
    int64_t slow;               /* number of results that were summed exactly */
    int unit;                   /* exponent of the vector's lowest bit, if `known` */
    bool known;
};

/* The sums so far of a block of rows: high + low.  size: upper bound of the sum of magnitudes;
 * infinite if the row is not decided by its pair. */
struct block {
    double high[BLOCK], low[BLOCK], size[BLOCK];
};

/* A part of the vector in binary64.  A copy is followed by zeros. */
struct segment {
    const double *x;
    int group;                  /* elements whose largest magnitude is known together */
    double most[SEGMENT / COLUMNS];
    int64_t from, n;
    double copy[SEGMENT + ROWS * LANES] __attribute__((aligned(64)));
};

/* CHAIN: products of binary32 in binary64 chains; PAIR: pairs that begin far from zero. */
enum way { CHAIN, PAIR };

/* Address of element p of the vector. */
static const char *x_at(const struct product *x, int64_t p)
{
    return (const char *)x->b.data + p * x->b.p * x->fb.size;
}

/* Address of element p of row i. */
static const char *a_at(const struct product *x, int64_t i, int64_t p)
{
    return (const char *)x->a.data + (i * x->a.line + p * x->a.p) * x->fa.size;
}

/* Address of row i's result. */
static char *result_at(const struct product *x, int64_t i)
{
    return x->to + i * x->step;
}

/* ---- copying the vector ---------------------------------------------------------------------- */

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

/* The largest magnitude of n numbers.  NaN counts as larger than all. */
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

/* Sets a segment of the vector, in place or as a copy, and finds its chunks' largest magnitudes. */
static void fill_segment(const struct product *x, int64_t from, struct segment *s)
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

/* Largest magnitude of a chunk, which begins at p. */
static double most_of(const struct segment *s, int64_t p, int64_t n)
{
    double most = 0;

    for (int64_t i = p / s->group; i * s->group < p + n; i++)
        most = larger_of(s->most[i], most);
    return most;
}

/* ---- sums of rows, far from zero ------------------------------------------------------------- */

/* Loads LANES elements of 8 or 4 bytes as doubles. */
FLAT vd load(const char *at, int size)
{
    return size == 8 ? LOAD(vd, at) : __builtin_convertvector(LOAD(vf, at), vd);
}

/* Loads n < LANES elements of 8 or 4 bytes as doubles, and zeros into the other lanes. */
FLAT vd load_part(const char *at, int size, int64_t n)
{
    double x[LANES] = { 0 };

    for (int64_t l = 0; l < n; l++)
        x[l] = double_at(at + l * size, size);
    return LOAD(vd, x);
}

/* Loads up to LANES of n > 0 doubles, and zeros into the other lanes. */
FLAT vd load_up_to(const double *x, int64_t n)
{
    return n < LANES ? load_part((const char *)x, 8, n) : LOAD(vd, x);
}

/* Sum of the lanes. */
FLAT double sum_lanes(vd x)
{
    double s = 0;

    for (int l = 0; l < LANES; l++)
        s += x[l];
    return s;
}

/* Sums the magnitudes of n elements. */
FLAT double sum_sizes(const char *a, int size, int64_t n)
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

/* Upper bound of the sum of |a x| where the |a| sum to `size` and |x| <= most.  It is infinite if
 * it leaves the range in which sums may begin far from zero.  Its own rounding errors, and those of
 * the sums of up to CHUNK numbers, are below 2^-40 of it. */
FLAT double bound_of(double size, double most)
{
    const double bound = size * most * (1 + 0x1p-40);

    if ((size == 0 && most - most == 0) || (most == 0 && size - size == 0))
        return 0;
    return bound > 0x1p-900 && bound < 0x1p1000 ? bound : INFINITY;
}

/* Sums of n products of `rows` rows and vectors, which are `apart` elements apart.  bound: upper
 * bound of the sum of magnitudes in a lane.  Prefetches the memory `ahead` bytes further, which is
 * read next. */
FLAT void sum_rows(const char *const *row, int rows, int size, enum way way, const double *x,
                   int64_t apart, int64_t n, int64_t ahead, const double *bound, vd *to_high,
                   vd *to_low)
{
    vd high[ROWS], low[ROWS]; /* arrays of its own, which GCC keeps in registers */
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

/* Calls sum_rows with constants for the frequent cases, so that its loops unroll. */
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

/* Adds a pair to a pair. */
FLAT void add_pair(vd *high, vd *low, vd h, vd l)
{
    vd rest;

    *high = two_sum(*high, h, &rest);
    *low += l + rest;
}

/* Adds the lanes of ROWS sums to the totals of ROWS rows. */
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

/* Adds a segment's products of `rows` <= ROWS rows, from row i on, to their totals, which begin at
 * `at` in the block. */
static void add_rows(const struct product *x, enum way way, const struct segment *s, int64_t i,
                     int rows, int at, struct block *t)
{
    double copy[ROWS][CHUNK];
    const bool dense = x->a.p == 1;
    const int size = x->fa.size;

    for (int64_t p = 0; p < s->n; p += CHUNK) {
        const int64_t n = s->n - p < CHUNK ? s->n - p : CHUNK;
        const double most = most_of(s, p, n);
        double bound[ROWS];
        const char *row[ROWS];
        vd high[ROWS], low[ROWS];

        for (int r = 0; r < rows; r++) {
            row[r] = a_at(x, i + r, s->from + p);
            if (!dense) {
                copy_elements(row[r], x->a.p * size, size, n, copy[r]);
                row[r] = (const char *)copy[r];
            }
            bound[r] = bound_of(!dense || size == 8 ? sum_sizes(row[r], 8, n) :
                                                      sum_sizes(row[r], 4, n), most);
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

/* Adds a segment's products of the only row.  Its chunks are summed in ROWS parts at once, whose
 * totals are the block's first. */
static void add_row(const struct product *x, enum way way, const struct segment *s,
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
        bound[0] = bound_of(here == 8 ? sum_sizes(row[0], 8, part * ROWS) :
                                        sum_sizes(row[0], 4, part * ROWS), most_of(s, p, n));
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

/* ---- sums of columns ----------------------------------------------------------------------- */

/* Adds the products of `n` <= COLUMNS columns, whose rows lie together, and `strips` times LANES
 * rows. */
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

/* Adds a segment's products to the totals of rows that lie together, LANES rows at a time.  Returns
 * how many rows it served; fewer than LANES are left. */
static int64_t add_columns(const struct product *x, enum way way, const struct segment *s,
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

/* ---- rounding what is certain ---------------------------------------------------------------- */

/* Sums of LANES rows with the error bounds `uncertain`.  size: of their magnitudes; 0 only if all
 * products are zero. */
struct sums {
    vd high, low, size, uncertain;
};

/* Stores the results of `live` rows whose rounding is certain, or whose error is allowed.  Returns
 * the mask of the others. */
__attribute__((noinline)) static int store_certain(const struct product *x, const int64_t *row,
                                                   int live, struct sums s, double allowed)
{
    const double share = allowed * fabs(x->alpha), *beta = x->c->beta ? &x->beta : NULL;
    vd old = { 0 }, r, up, down;
    int left = 0;

    for (int l = 0; l < live && beta; l++)
        old[l] = double_at(result_at(x, row[l]), x->fc.size);
    if (x->c->alpha || beta)
        scale_pair(&s.high, &s.low, &s.uncertain, x->alpha, beta, old);
    ends_of(s.high, s.low, x->fc.size == 4, &s.uncertain, &r, &up, &down);
    for (int l = 0; l < live; l++) {
        char *to = result_at(x, row[l]);

        if (s.size[l] == 0 && store_zero(to, x->fc.size, x->alpha, beta))
            continue;
        if (s.size[l] - s.size[l] != 0 || s.size[l] == 0 ||
            !store_sure(to, x->fc.size, up[l], down[l], r[l], s.uncertain[l] <= share * s.size[l]))
            left |= 1 << l;
    }
    return left;
}

/* ---- sums in bins ---------------------------------------------------------------------------- */

/* Adds n products of a row, LANES at a time. */
FLAT void bin_row_by(const double *a, const double *x, int64_t n, bool deep, struct bins *s)
{
    ADD_TO_BINS(s, (n + LANES - 1) / LANES, deep, load_up_to(a + p * LANES, n - p * LANES),
                load_up_to(x + p * LANES, n - p * LANES));
}

/* Specialises bin_row_by by its constant. */
static void bin_row(const double *a, const double *x, int64_t n, bool deep, struct bins *s)
{
    if (!QUICK)
        bin_row_by(a, x, n, deep, s);
    else if (deep)
        bin_row_by(a, x, n, true, s);
    else
        bin_row_by(a, x, n, false, s);
}

/* Loads element p of LANES rows. beside: the rows are adjacent in memory. */
FLAT vd column_at(const struct product *x, const int64_t *row, bool beside, int64_t p)
{
    vd u = { 0 };

    if (beside)
        return load(a_at(x, row[0], p), x->fa.size);
    for (int l = 0; l < LANES; l++)
        u[l] = double_at(a_at(x, row[l], p), x->fa.size);
    return u;
}

/* Adds elements from + 0 to from + n - 1 of LANES rows to bins, or their magnitudes to *size. */
static void add_rows_to_bins(const struct product *x, const int64_t *row, int64_t from, int64_t n,
                             const double *b, struct bins *s, vd *size)
{
    bool beside = true;

    for (int l = 1; l < LANES; l++)
        beside &= row[l] == row[0] + l;
    for (int64_t p = 0; p < n && size; p++)
        *size = fma_of(size_of(column_at(x, row, beside, from + p)),
                       size_of(all_of(double_at(b + p, 8))), *size);
    if (s)
        ADD_TO_BINS(s, n, false, column_at(x, row, beside, from + p), all_of(double_at(b + p, 8)));
}

/* n numbers of a view's line, from p on, in binary64: where they lie, or a copy. */
static const double *numbers(const struct view *v, limber_format f, int64_t line, int64_t p,
                             int64_t n, double *copy)
{
    const char *at = (const char *)v->data + (line * v->line + p * v->p) * f.size;

    if (v->p == 1 && f.size == 8)
        return (const double *)at;
    copy_elements(at, v->p * f.size, f.size, n, copy);
    return copy;
}

/* Elements p to p + n - 1 of the vector as doubles, in place or copied. */
static const double *x_part(const struct product *x, int64_t p, int64_t n, double *copy)
{
    return numbers(&x->b, x->fb, 0, p, n, copy);
}

/* Elements p to p + n - 1 of a row as doubles, in place or copied. */
static const double *a_part(const struct product *x, int64_t row, int64_t p, int64_t n,
                            double *copy)
{
    return numbers(&x->a, x->fa, row, p, n, copy);
}

/* Adds two numbers: a + b = the result + *rest, exactly. */
FLAT double two_sum_of(double a, double b, double *rest)
{
    const double sum = a + b, back = sum - a;

    *rest = (a - (sum - back)) + (b - back);
    return sum;
}

/* Adds the lanes of a row's bins, which is exact but for the lowest, in lane r. */
static void join_lanes(const struct bins *s, int r, struct bins *to)
{
    double sum[5] = { 0 };

    to->first[r] = s->first[0];
    to->second[r] = s->second[0];
    to->third[r] = s->third[0];
    to->low[r] = 0;
    for (int l = 0; l < LANES; l++) {
        sum[0] += s->products[l] - s->first[l];
        sum[1] += s->lost[l] - s->second[l];
        sum[2] += s->errors[l] - s->second[l];
        sum[3] += s->lost_again[l] - s->third[l];
        sum[4] += s->errors_again[l] - s->third[l];
        to->low[r] += s->low[l];
    }
    to->products[r] = s->first[0] + sum[0];
    to->lost[r] = s->second[0] + sum[1];
    to->errors[r] = s->second[0] + sum[2];
    to->lost_again[r] = s->third[0] + sum[3];
    to->errors_again[r] = s->third[0] + sum[4];
}

/* ---- sums that bins find exact, and repeated rows -------------------------------------------- */

/* The exponent of the lowest bit of n finite numbers, at most `least`. */
static int low_bit(const double *a, int64_t n, int least)
{
    vl lowest = (vl)all_of(INFINITY);
    double most = INFINITY;
    int e;

    for (int64_t p = 0; p < n; p += LANES) {
        const vd v = load_up_to(a + p, n - p);
        lowest = -larger(-lowest, -lowest_bits(v));
    }
    for (int l = 0; l < LANES; l++)
        if (((vd)lowest)[l] < most)
            most = ((vd)lowest)[l];
    if (most == INFINITY)
        return least;
    e = ilogb(most);
    return e < least ? e : least;
}

/* True if the row's sum in bins lost nothing. second: the start of its second bin. */
static bool is_exact(struct product *x, int64_t row, double second)
{
    double copy[CHUNK];
    int unit = 1024;

    for (int64_t p = 0; p < x->k; p += CHUNK) {
        const int64_t n = x->k - p < CHUNK ? x->k - p : CHUNK;

        unit = low_bit(a_part(x, row, p, n, copy), n, unit);
        if (!x->known)
            x->unit = low_bit(x_part(x, p, n, copy), n, p ? x->unit : 1024);
    }
    x->known = true;
    return bins_are_exact(second, x->k + LANES, unit + x->unit);
}

/* True if all products of the row are zero because a factor is. */
static bool is_zero(const struct product *x, int64_t row)
{
    for (int64_t p = 0; p < x->k; p++)
        if (double_at(a_at(x, row, p), x->fa.size) != 0 && double_at(x_at(x, p), x->fb.size) != 0)
            return false;
    return true;
}

/* Replaces a finite number by 1 or 0 of its sign, so that sums become NaN or infinite as the
 * original ones do. */
static double class_of(double v)
{
    return v - v != 0 || v == 0 ? v : copysign(1, v);
}

/* Stores a result that bins do not decide. */
static void store_slow(struct product *x, int64_t row, bool finite)
{
    const struct call *c = x->c;
    const struct limber_scalars sc = { c->alpha, c->beta, x->fc };
    double class = 0;

    for (int64_t p = 0; p < x->k && !finite; p++)
        class += class_of(double_at(a_at(x, row, p), x->fa.size)) *
                 class_of(double_at(x_at(x, p), x->fb.size));
    limber_dot_store(result_at(x, row), x->fc,
                     &(struct limber_lines){ &x->a, &x->b, x->fa, x->fb, row, 0, x->k }, class,
                     &sc);
    x->slow += class - class == 0;
}

/* Upper bound of a sum of k magnitudes from their computed sum. */
FLAT vd rounded_up(const struct product *x, vd size)
{
    return size * (1 + (double)(x->k + 4 * LANES) * 0x1p-52);
}

/* Sums a row in bins, with its result in lane r of *to. size: of its magnitudes. */
static void sum_row(const struct product *x, int64_t row, double size, bool deep, int r,
                  struct bins *to)
{
    double copy[2][CHUNK];
    struct bins s = begin_bins(rounded_up(x, all_of(size)), x->k);

    for (int64_t p = 0; p < x->k; p += CHUNK) {
        const int64_t n = x->k - p < CHUNK ? x->k - p : CHUNK;

        bin_row(a_part(x, row, p, n, copy[0]), x_part(x, p, n, copy[1]), n, deep, &s);
    }
    join_lanes(&s, r, to);
}

/* Sums a row in deep bins and stores its result, if these decide the rounding or lose nothing. */
__attribute__((noinline)) static bool store_deep(struct product *x, int64_t row, double size)
{
    const double below = ((double)x->k + 4 * LANES) * 0x1p-1073;
    const double *beta = x->c->beta ? &x->beta : NULL;
    struct bins bins = begin_bins(all_of(0), x->k);
    struct exact_sums t;
    struct sums s;

    sum_row(x, row, size, true, 0, &bins);
    t = finish_bins(&bins);
    s = (struct sums){ t.high, t.low + t.rest, all_of(size),
                       bins_error(bins.third, x->k + LANES) + below };
    if (!store_certain(x, &row, 1, s, x->allowed))
        return true;
    if (t.rest[0] != 0 || !is_exact(x, row, bins.third[0]))
        return false;
    if (t.high[0] == 0)
        return store_zero(result_at(x, row), x->fc.size, x->alpha, beta);
    if (!x->c->alpha && !beta)
        put_number(x->fc.size, result_at(x, row), t.high[0], narrow_of(t.high[0], t.low[0]));
    return !x->c->alpha && !beta;
}

/* Stores the results of `count` rows that pairs did not decide. sizes: upper bounds of the sums of
 * magnitudes, or these sums themselves if an error is allowed; where they are infinite or too small
 * for bins, the row is summed exactly. */
static void store_again(struct product *x, const int64_t *row, int count, const struct bins *bins,
                        vd sizes)
{
    /* Computed once, since arithmetic with subnormal numbers is slow. */
    const double below = ((double)x->k + 4 * LANES) * 0x1p-1073;
    const bool plain = !x->c->alpha && !x->c->beta;
    const struct exact_sums t = finish_bins(bins);
    const vl fits = fits_bins(sizes);
    const vd off = bins_error(bins->second, x->k + LANES) + below;
    struct sums s = { t.high, t.low + t.rest, sizes, off };
    int left;

    for (int r = 0; r < count; r++)
        if (!fits[r] || (s.size[r] == 0 && !is_zero(x, row[r]))) /* products may underflow */
            s.size[r] = s.size[r] - s.size[r] == 0 ? INFINITY : s.size[r];
    left = store_certain(x, row, count, s, x->allowed);
    for (int r = 0; r < count; r++) {
        if (!(left >> r & 1))
            continue;
        if (plain && s.size[r] < INFINITY && t.rest[r] == 0 &&
            is_exact(x, row[r], bins->second[r]))
            put_number(x->fc.size, result_at(x, row[r]), t.high[r],
                       narrow_of(t.high[r], t.low[r]));
        else if (!(s.size[r] < INFINITY) || !store_deep(x, row[r], sizes[r]))
            store_slow(x, row[r], sizes[r] - sizes[r] == 0);
    }
}

/* The sum of the magnitudes of a row's products. */
static double size_of_row(const struct product *x, int64_t row)
{
    double copy[2][CHUNK];
    vd size = { 0 };

    for (int64_t p = 0; p < x->k; p += CHUNK) {
        const int64_t n = x->k - p < CHUNK ? x->k - p : CHUNK;
        const double *a = a_part(x, row, p, n, copy[0]), *b = x_part(x, p, n, copy[1]);

        for (int64_t q = 0; q < n; q += LANES)
            size = fma_of(size_of(load_up_to(a + q, n - q)), size_of(load_up_to(b + q, n - q)),
                          size);
    }
    return sum_lanes(size);
}

/* Computes rows that pairs did not decide, each along k. sizes: upper bounds of their sums of
 * magnitudes. */
static void run_rows_again(struct product *x, const int64_t *row, int count, double *sizes)
{
    for (int r = 0; r < count; r += LANES) {
        const int here = count - r < LANES ? count - r : LANES;
        struct bins joined = begin_bins(all_of(0), x->k);
        vd size = { 0 };

        for (int i = 0; i < here; i++) {
            size[i] = sizes[r + i];
            if (x->allowed > 0 || !(size[i] < INFINITY))
                size[i] = size_of_row(x, row[r + i]);
            if (fits_bins(rounded_up(x, all_of(size[i])))[0])
                sum_row(x, row[r + i], size[i], false, i, &joined);
        }
        store_again(x, row + r, here, &joined, size);
    }
}

/* Computes LANES rows at a time, in parts of their columns, whose elements lie together. */
static void run_columns_again(struct product *x, int64_t *row, int count, double *sizes)
{
    enum { PART = 64, GROUPS = BLOCK / LANES / 2 };
    const int groups = (count + LANES - 1) / LANES;
    double copy[PART];

    for (int i = count; i < groups * LANES; i++) {
        row[i] = row[count - 1];
        sizes[i] = sizes[count - 1];
    }
    for (int g0 = 0; g0 < groups; g0 += GROUPS) {
        const int end = groups - g0 < GROUPS ? groups : g0 + GROUPS;
        struct bins t[GROUPS];
        bool measure = x->allowed > 0;

        for (int i = g0 * LANES; i < end * LANES; i++)
            measure |= !(sizes[i] < INFINITY);
        for (int i = g0 * LANES; i < end * LANES && measure; i++)
            sizes[i] = 0;
        for (int pass = !measure; pass < 2; pass++) {
            for (int g = g0; g < end && pass; g++) {
                const vd most = rounded_up(x, LOAD(vd, sizes + g * LANES));

                t[g - g0] = begin_bins((vd)((vl)most & fits_bins(most)), x->k);
            }
            for (int64_t p = 0; p < x->k; p += PART) {
                const int64_t n = x->k - p < PART ? x->k - p : PART;
                const double *b = x_part(x, p, n, copy);

                for (int g = g0; g < end; g++) {
                    vd size = LOAD(vd, sizes + g * LANES);

                    add_rows_to_bins(x, row + g * LANES, p, n, b, pass ? &t[g - g0] : NULL,
                                     pass ? NULL : &size);
                    memcpy(sizes + g * LANES, &size, sizeof size);
                }
            }
        }
        for (int g = g0; g < end; g++)
            store_again(x, row + g * LANES,
                        count - g * LANES < LANES ? count - g * LANES : LANES, &t[g - g0],
                        LOAD(vd, sizes + g * LANES));
    }
}

/* ---- the product
 * ------------------------------------------------------------------------------ */

/* True if the elements of columns lie together. */
static bool has_columns(const struct product *x)
{
    return x->m > 1 && x->a.line == 1 && x->a.p != 1;
}

/* Computes up to BLOCK rows: as pairs, and those that pairs leave undecided again. */
static void run_block(struct product *x, enum way way, struct segment *s, int64_t i, int64_t rows)
{
    const bool one = x->m == 1, columns = has_columns(x);
    const double length = columns ? COLUMNS : CHUNK,
                 merges = columns ? (double)x->k / COLUMNS + 1 :
                                    ((double)x->k / CHUNK + 1) * LANES + ROWS,
                 off = way == CHAIN ?
                     (length + 2) * 0x1p-53 + (merges + 2) * (merges + 2) * 0x1p-104 :
                     (length + merges + 2) * (length + merges + 2) * 0x1p-104;
    int64_t again[BLOCK];
    double sizes[BLOCK]; /* of the rows in `again` */
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

int64_t DOTS(run)(const struct call *c, limber_format fa, limber_format fb, limber_format fc,
                  double allowed)
{
    struct product x = { .c = c,
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

    if (c->n != 1) {    /* C^T = B^T A^T */
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
