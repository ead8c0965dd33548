/* SPDX-License-Identifier: BSD-3-Clause
 * For dots.c: rows of a product of a matrix and a vector whose rounding double-double sums leave
 * uncertain.  They are summed in bins.  If the rounding is still uncertain, they are summed in deep
 * bins, and at last in the long accumulator.
 *
 *   proof   docs/accuracy.md, "Bins" */
#ifndef LIMBER_KERNEL_DOTS_AGAIN_H
#define LIMBER_KERNEL_DOTS_AGAIN_H

#include "backends/llvm/kernel/dots.h"

/* ---- sums in bins ---------------------------------------------------------------------------- */

/* Adds n products of a row to bins, LANES at a time. */
FLAT void bin_row_by(const double *a, const double *x, int64_t n, bool deep, struct bins *s)
{
    ADD_TO_BINS(s, (n + LANES - 1) / LANES, deep, load_up_to(a + p * LANES, n - p * LANES),
                load_up_to(x + p * LANES, n - p * LANES));
}

/* Adds the products of a row to bins, with `deep` as a constant, so that the compiler specialises
 * bin_row_by. */
static void bin_row(const double *a, const double *x, int64_t n, bool deep, struct bins *s)
{
    if (!QUICK)
        bin_row_by(a, x, n, deep, s);
    else if (deep)
        bin_row_by(a, x, n, true, s);
    else
        bin_row_by(a, x, n, false, s);
}

/* Loads element p of LANES rows.  beside: the rows are adjacent in memory. */
FLAT vd column_at(const struct vector_product *x, const int64_t *row, bool beside, int64_t p)
{
    vd u = { 0 };

    if (beside)
        return load(a_at(x, row[0], p), x->fa.size);
    for (int l = 0; l < LANES; l++)
        u[l] = double_at(a_at(x, row[l], p), x->fa.size);
    return u;
}

/* True if LANES rows are adjacent in memory. */
static bool are_beside(const int64_t *row)
{
    bool beside = true;

    for (int l = 1; l < LANES; l++)
        beside &= row[l] == row[0] + l;
    return beside;
}

/* Adds the magnitudes of the products of elements [from, from + n) of LANES rows to `sizes`.  b:
 * the vector's elements from `from` on. */
static void measure_rows(const struct vector_product *x, const int64_t *row, int64_t from,
                         int64_t n, const double *b, double *sizes)
{
    const bool beside = are_beside(row);
    vd size = LOAD(vd, sizes);

    for (int64_t p = 0; p < n; p++)
        size = fma_of(size_of(column_at(x, row, beside, from + p)),
                      size_of(all_of(double_at(b + p, 8))), size);
    memcpy(sizes, &size, sizeof size);
}

/* Adds the products of elements [from, from + n) of LANES rows to bins.  b: the vector's elements
 * from `from` on. */
static void bin_rows(const struct vector_product *x, const int64_t *row, int64_t from, int64_t n,
                     const double *b, struct bins *s)
{
    const bool beside = are_beside(row);

    ADD_TO_BINS(s, n, false, column_at(x, row, beside, from + p), all_of(double_at(b + p, 8)));
}

/* Returns n elements of a line, from p on, as doubles: in place, or in `copy`. */
static const double *load_numbers(const struct view *v, limber_format f, int64_t line, int64_t p,
                                  int64_t n, double *copy)
{
    const char *at = (const char *)v->data + (line * v->line + p * v->p) * f.size;

    if (v->p == 1 && f.size == 8)
        return (const double *)at;
    copy_elements(at, v->p * f.size, f.size, n, copy);
    return copy;
}

/* Returns elements [p, p + n) of the vector as doubles, in place or in `copy`. */
static const double *x_part(const struct vector_product *x, int64_t p, int64_t n, double *copy)
{
    return load_numbers(&x->b, x->fb, 0, p, n, copy);
}

/* Returns elements [p, p + n) of a row as doubles, in place or in `copy`. */
static const double *a_part(const struct vector_product *x, int64_t row, int64_t p, int64_t n,
                            double *copy)
{
    return load_numbers(&x->a, x->fa, row, p, n, copy);
}

/* Adds the lanes of a row's bins, and stores the sums in lane r of *to.  These additions are exact,
 * except for `low`. */
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

/* ---- rows for which bins lose nothing, and rows in the long accumulator ---------------------- */

/* Returns the lowest exponent of a set bit in n finite numbers, or `least` if that is lower. */
static int lowest_bit(const double *a, int64_t n, int least)
{
    vl lowest = (vl)all_of(INFINITY);
    double most = INFINITY;
    int e;

    for (int64_t p = 0; p < n; p += LANES)
        take_lowest_bits(&lowest, load_up_to(a + p, n - p));
    for (int l = 0; l < LANES; l++)
        if (((vd)lowest)[l] < most)
            most = ((vd)lowest)[l];
    if (most == INFINITY)
        return least;
    e = ilogb(most);
    return e < least ? e : least;
}

/* True if the row's sum in bins lost no bits.  last: start value of the last level of bins. */
static bool is_exact(struct vector_product *x, int64_t row, double last)
{
    double copy[CHUNK];
    int unit = 1024;

    for (int64_t p = 0; p < x->k; p += CHUNK) {
        const int64_t n = x->k - p < CHUNK ? x->k - p : CHUNK;

        unit = lowest_bit(a_part(x, row, p, n, copy), n, unit);
        if (!x->known)
            x->unit = lowest_bit(x_part(x, p, n, copy), n, p ? x->unit : 1024);
    }
    x->known = true;
    return bins_are_exact(last, x->k + LANES, unit + x->unit);
}

/* True if each product of the row has a factor that is zero. */
static bool is_zero(const struct vector_product *x, int64_t row)
{
    for (int64_t p = 0; p < x->k; p++)
        if (double_at(a_at(x, row, p), x->fa.size) != 0 && double_at(x_at(x, p), x->fb.size) != 0)
            return false;
    return true;
}

/* Returns 1 with the sign of v if v is finite and not zero, else v itself.  Sums of such numbers
 * are NaN or infinite exactly if those of the original numbers are. */
static double class_of(double v)
{
    return v - v != 0 || v == 0 ? v : copysign(1, v);
}

/* Computes and stores a result in the long accumulator, if its sum in bins is not accurate
 * enough to round it with certainty. finite: no product is NaN or infinite. */
static void store_long(struct vector_product *x, int64_t row, bool finite)
{
    double class = 0;

    for (int64_t p = 0; p < x->k && !finite; p++)
        class += class_of(double_at(a_at(x, row, p), x->fa.size)) *
                 class_of(double_at(x_at(x, p), x->fb.size));
    x->slow += store_exactly(x->c, result_at(x, row), x->fc,
                             &(struct limber_lines){ &x->a, &x->b, x->fa, x->fb, row, 0, x->k },
                             class);
}

/* Returns an upper bound of a sum of k magnitudes, given the computed sum.  It also covers the
 * rounding errors of summing in LANES lanes. */
FLAT vd rounded_up(const struct vector_product *x, vd size)
{
    return size * (1 + (double)(x->k + 4 * LANES) * 0x1p-50);
}

/* Sums a row in bins, and stores the bins in lane r of *to.  size: sum of the products'
 * magnitudes. */
static void sum_row(const struct vector_product *x, int64_t row, double size, bool deep, int r,
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

/* Stores the result in lane r of *t, if the bins lost no bits.  Returns false if it stored nothing.
 * last: start value of the row's last level of bins. */
static bool store_exact(struct vector_product *x, int64_t row, const struct exact_sums *t, int r,
                        double last)
{
    const double *beta = x->c->beta ? &x->beta : NULL;
    char *to = result_at(x, row);

    if (t->rest[r] != 0 || !is_exact(x, row, last))
        return false;
    if (t->high[r] == 0)
        return store_zero(to, x->fc.size, x->alpha, beta);
    if (x->c->alpha || beta)
        return false;
    put_number(x->fc.size, to, t->high[r], round_to_f32(t->high[r], t->low[r]));
    return true;
}

/* Returns the sums *t of rows with their error bounds.  last: start values of the last level
 * of bins. */
FLAT struct sums with_errors(const struct vector_product *x, const struct exact_sums *t, vd size,
                             vd last)
{
    /* error of products that underflow */
    const double below = ((double)x->k + 4 * LANES) * 0x1p-1073;

    return (struct sums){ t->high, t->low + t->rest, size,
                          bins_error(last, x->k + LANES) + below };
}

/* Sums a row in deep bins.  If that sum can be rounded with certainty or lost no bits, stores
 * the result and returns true. */
__attribute__((noinline)) static bool store_deep(struct vector_product *x, int64_t row, double size)
{
    struct bins bins = begin_bins(all_of(0), x->k);
    struct exact_sums t;

    sum_row(x, row, size, true, 0, &bins);
    t = finish_bins(&bins);
    return !store_certain(x, &row, 1, with_errors(x, &t, all_of(size), bins.third), x->allowed) ||
           store_exact(x, row, &t, 0, bins.third[0]);
}

/* Stores the results of `count` rows from their sums in bins.  sizes: upper bounds of the sums of
 * magnitudes or, if an error is allowed, the sums themselves.  Rows whose sizes do not fit bins are
 * summed in the long accumulator. */
static void store_binned_rows(struct vector_product *x, const int64_t *row, int count,
                              const struct bins *bins, vd sizes)
{
    const struct exact_sums t = finish_bins(bins);
    const vl fits = fits_bins(rounded_up(x, sizes));
    struct sums s = with_errors(x, &t, sizes, bins->second);
    int left, binned = 0; /* masks of rows */

    for (int r = 0; r < count; r++)
        /* a size of 0 may also come from products that underflow */
        if (fits[r] && (sizes[r] != 0 || is_zero(x, row[r])))
            binned |= 1 << r;
        else
            s.size[r] = INFINITY; /* makes store_certain leave the row uncertain */
    left = store_certain(x, row, count, s, x->allowed);
    for (int r = 0; r < count; r++)
        if ((left >> r & 1) &&
            !(binned >> r & 1 && (store_exact(x, row[r], &t, r, bins->second[r]) ||
                                  store_deep(x, row[r], sizes[r]))))
            store_long(x, row[r], sizes[r] - sizes[r] == 0);
}

/* Returns the sum of the magnitudes of the products of a row and the vector. */
static double sum_row_magnitudes(const struct vector_product *x, int64_t row)
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

/* Computes rows whose double-double sums could not be rounded with certainty, one after another
 * along k. sizes: upper bounds of their sums of magnitudes. */
static void run_rows_again(struct vector_product *x, const int64_t *row, int count, double *sizes)
{
    for (int r = 0; r < count; r += LANES) {
        const int here = count - r < LANES ? count - r : LANES;
        struct bins joined = begin_bins(all_of(0), x->k);
        vd size = { 0 };

        for (int i = 0; i < here; i++) {
            size[i] = sizes[r + i];
            if (x->allowed > 0 || !(size[i] < INFINITY))
                size[i] = sum_row_magnitudes(x, row[r + i]);
            if (fits_bins(rounded_up(x, all_of(size[i])))[0])
                sum_row(x, row[r + i], size[i], false, i, &joined);
        }
        store_binned_rows(x, row + r, here, &joined, size);
    }
}

/* Runs through sections of k, which fit in the cache, for all groups of LANES rows.  Adds products
 * to each group's bins in t or, if t is NULL, the products' magnitudes to `sizes`. */
static void run_groups(const struct vector_product *x, const int64_t *row, int groups,
                       struct bins *t, double *sizes)
{
    enum { PART = 64 };
    double copy[PART];

    for (int64_t p = 0; p < x->k; p += PART) {
        const int64_t n = x->k - p < PART ? x->k - p : PART;
        const double *b = x_part(x, p, n, copy);

        for (int g = 0; g < groups; g++)
            if (t)
                bin_rows(x, row + g * LANES, p, n, b, &t[g]);
            else
                measure_rows(x, row + g * LANES, p, n, b, sizes + g * LANES);
    }
}

/* Computes rows whose double-double sums could not be rounded with certainty, LANES rows at a
 * time, for a matrix whose columns are contiguous. sizes: upper bounds of their sums of
 * magnitudes. */
static void run_columns_again(struct vector_product *x, int64_t *row, int count, double *sizes)
{
    enum { GROUPS = BLOCK / LANES / 2 };
    const int groups = (count + LANES - 1) / LANES;

    for (int i = count; i < groups * LANES; i++) { /* repeat the last row to fill the last group */
        row[i] = row[count - 1];
        sizes[i] = sizes[count - 1];
    }
    for (int g0 = 0; g0 < groups; g0 += GROUPS, row += GROUPS * LANES, sizes += GROUPS * LANES) {
        const int here = groups - g0 < GROUPS ? groups - g0 : GROUPS;
        struct bins t[GROUPS];
        bool measure = x->allowed > 0;

        for (int i = 0; i < here * LANES; i++)
            measure |= !(sizes[i] < INFINITY);
        if (measure) {
            memset(sizes, 0, sizeof *sizes * (size_t)(here * LANES));
            run_groups(x, row, here, NULL, sizes);
        }
        for (int g = 0; g < here; g++) {
            const vd most = rounded_up(x, LOAD(vd, sizes + g * LANES));

            t[g] = begin_bins((vd)((vl)most & fits_bins(most)), x->k);
        }
        run_groups(x, row, here, t, sizes);
        for (int g = 0; g < here; g++) {
            const int left = count - (g0 + g) * LANES;

            store_binned_rows(x, row + g * LANES, left < LANES ? left : LANES, &t[g],
                              LOAD(vd, sizes + g * LANES));
        }
    }
}

#endif
