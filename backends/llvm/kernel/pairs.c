/* SPDX-License-Identifier: BSD-3-Clause
 * Small products, correctly rounded, without a scan, a plan or a compiler.  Sums are double-double
 * numbers.  Their error bound is computed from the largest elements of a row and a column, or from
 * the sum of the products' magnitudes (Dot2).  If the error could change the rounding of an
 * element, its products are summed in bins, and then exactly.  This file is compiled once for each
 * instruction set.
 *
 *   needs   operands and results in binary64 or binary32
 *   proof   docs/accuracy.md, "Pairs"
 *   source  Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005), algorithm 5.3 */
#include "backends/llvm/kernel/kernel.h"
#include "backends/llvm/kernel/settle.h"


/* ROWS: number of rows of A in registers; BLOCK: number of rows of A whose largest magnitudes are
 * kept; UNKNOWN: an exponent that has not been computed yet */
enum { ROWS = 4, BLOCK = 512, UNKNOWN = INT32_MIN };

/* The product, transposed if C has more rows than columns, so that the lanes of vectors run along
 * the longer side of C. */
struct pair_product {
    const struct call *c;
    limber_format fa, fb, fc;
    struct view a, b;
    struct output_view to;
    int64_t m, n;
    double alpha, beta;
    double *strip;              /* packed columns of B: [k][LANES] */
    vd most;                    /* [column of the strip]: largest magnitude */
    const double *most_a;       /* [row of A, from line0 on]: largest magnitude */
    int64_t line0;
    double below;               /* bound of the error of products that are subnormal */
    double allowed;             /* tolerated error of a result, relative to |A||B| */
    int low[LANES]; /* [column of the strip]: exponent of its lowest bit; valid if `known` */
    bool known;
    int *low_a; /* [row of A, from line0 on]: exponent of its lowest bit, or UNKNOWN */
    int64_t slow;               /* number of elements that were computed in the long accumulator */
};

/* The sums high + low of LANES elements.  size: upper bounds of the sums of the products'
 * magnitudes. */
struct sums { vd high, low, size; };

/* How a sum is computed.  CHAIN: in plain FP64, for FP32 elements.  PAIR: as a double-double number
 * with a start value above all partial sums, so that rounding errors need no comparisons (add_far).
 * SIZED: as a double-double number that starts at zero, together with the sum of magnitudes; this
 * works for any finite products. */
enum way { CHAIN, PAIR, SIZED };

/* Returns the address of element (i, j) of the result. */
FLAT char *result_at(const struct pair_product *x, int64_t i, int64_t j)
{
    return (char *)x->to.data + (i * x->to.row + j * x->to.col) * x->fc.size;
}

/* Returns upper bounds of the sums of magnitudes of row i's products, which cover their own
 * rounding errors. */
FLAT vd bound_magnitudes(const struct pair_product *x, int64_t i)
{
    return x->most * (x->most_a[i - x->line0] * (double)(x->c->k + 1));
}

/* True if the sums of these rows can use PAIR, whose start value is above all partial sums: that
 * value is finite, and the rounding errors of products are representable. */
static bool can_use_pair(const struct pair_product *x, int64_t i, int rows)
{
    for (int r = 0; r < rows; r++)
        if (!all(fits_bins(bound_magnitudes(x, i + r))))
            return false;
    return true;
}

/* Multiplies `rows` rows of A, from row i on, by a strip of columns of B.  Sums are plain arrays,
 * since GCC does not keep structures in registers. */
FLAT void sum_rows(const struct pair_product *x, int64_t i, int rows, int size, enum way way,
                   struct sums *out)
{
    const char *line[ROWS];
    int64_t step = x->a.p * size, k = x->c->k;
    vd high[ROWS], low[ROWS], sizes[ROWS];
    const double *strip = x->strip;

    UNROLL for (int r = 0; r < rows; r++) {
        line[r] = (const char *)x->a.data + (i + r) * x->a.line * size;
        sizes[r] = way == SIZED ? all_of(0) : bound_magnitudes(x, i + r);
        high[r] = way == PAIR ? far_of(sizes[r]) : all_of(0);
        low[r] = all_of(0);
    }
    _Pragma("GCC unroll 2") for (int64_t p = 0; p < k; p++)
    {
        vd b = LOAD(vd, strip + p * LANES);

        UNROLL for (int r = 0; r < rows; r++) {
            vd a = all_of(double_at(line[r] + p * step, size)), product, rest;

            if (way == CHAIN) {
                high[r] = fma_of(a, b, high[r]);
            } else if (way == PAIR) {
                add_far(&high[r], &low[r], a, b);
            } else {
                product = a * b;
                high[r] = two_sum(high[r], product, &rest);
                low[r] += rest + fma_of(a, b, -product);
                sizes[r] += size_of(product);
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        out[r] = (struct sums){ way == PAIR ? high[r] - far_of(sizes[r]) : high[r], low[r],
                                sizes[r] };
}

/* Sums rows by sum_rows with a constant number of rows, so that the compiler unrolls its loops. */
FLAT void sum_rows_unrolled(const struct pair_product *x, int64_t i, int rows, int size,
                            enum way way, struct sums *s)
{
    if (rows == ROWS)
        sum_rows(x, i, ROWS, size, way, s);
    else
        for (int r = 0; r < rows; r++)
            sum_rows(x, i + r, 1, size, way, s + r);
}

/* Sums the products of `rows` rows of A, from row i on, as `way` says.  PAIR needs a start value
 * above all partial sums; where there is none, SIZED is used. */
static void sum_block(const struct pair_product *x, int64_t i, int rows, enum way way,
                      struct sums *s)
{
    if (way == PAIR && !can_use_pair(x, i, rows))
        way = SIZED;
    if (!QUICK)
        for (int r = 0; r < rows; r++)
            sum_rows(x, i + r, 1, x->fa.size, way, s + r);
    else if (way == CHAIN)
        sum_rows_unrolled(x, i, rows, 4, CHAIN, s);
    else if (way == PAIR && x->fa.size == 8)
        sum_rows_unrolled(x, i, rows, 8, PAIR, s);
    else if (way == PAIR)
        sum_rows_unrolled(x, i, rows, 4, PAIR, s);
    else if (x->fa.size == 8)
        sum_rows_unrolled(x, i, rows, 8, SIZED, s);
    else
        sum_rows_unrolled(x, i, rows, 4, SIZED, s);
}

/* Copies the `live` columns of B that exist from column j on, as doubles, to x->strip.  The lanes
 * of columns that do not exist become zero. */
static void fill_strip(const struct pair_product *x, int64_t j, int live)
{
    int size = x->fb.size;
    const char *from = (const char *)x->b.data + j * x->b.line * size;

    if (size == 8 && x->b.line == 1 && live == LANES) {
        for (int64_t p = 0; p < x->c->k; p++)
            memcpy(x->strip + p * LANES, from + p * x->b.p * 8, sizeof(vd));
        return;
    }
    if (size == 4 && x->b.line == 1 && live == LANES) {
        for (int64_t p = 0; p < x->c->k; p++) {
            vd wide = __builtin_convertvector(LOAD(vf, from + p * x->b.p * 4), vd);

            memcpy(x->strip + p * LANES, &wide, sizeof wide);
        }
        return;
    }
    if (live < LANES)
        memset(x->strip, 0, (size_t)x->c->k * sizeof(vd));
    for (int l = 0; l < live; l++)
        for (int64_t p = 0; p < x->c->k; p++)
            x->strip[p * LANES + l] = double_at(from + (l * x->b.line + p * x->b.p) * size, size);
}

/* Fills the strip, and computes the largest magnitude of each of its columns. */
static void pack_strip(struct pair_product *x, int64_t j, int live)
{
    /* two maxima alternate, since each step depends on the previous one */
    vl most[2] = { { 0 }, { 0 } };

    fill_strip(x, j, live);
    for (int64_t p = 0; p < x->c->k; p++)
        most[p % 2] = larger(LOAD(vl, x->strip + p * LANES) & INT64_MAX, most[p % 2]);
    x->most = (vd)larger(most[0], most[1]);
    x->known = false;
}

/* Returns the largest magnitude of a row of A; NaN counts as larger than all numbers. */
static double largest_of_row(const struct pair_product *x, int64_t i)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;
    int64_t step = x->a.p * x->fa.size;
    double most[4] = { 0 }; /* four maxima alternate, since each step depends on the previous one */
    vl wide = { 0 };
    vi narrow = { 0 };
    bool dense = x->a.p == 1, single = x->fa.size == 4;
    int64_t p = 0;

    for (; dense && !single && p + LANES <= x->c->k; p += LANES)
        wide = larger(LOAD(vl, at + p * step) & INT64_MAX, wide);
    for (; dense && single && p + LANES <= x->c->k; p += LANES)
        narrow = max_of(narrow, LOAD(vi, at + p * step) & INT32_MAX);
    if (dense && single)
        wide = (vl)__builtin_convertvector((vf)narrow, vd);
    for (int l = 0; l < LANES && p > 0; l++)
        most[l % 4] = larger_of(((vd)wide)[l], most[l % 4]);
    for (; p < x->c->k; p++)
        most[p % 4] = larger_of(double_at(at + p * step, x->fa.size), most[p % 4]);
    return larger_of(larger_of(most[0], most[1]), larger_of(most[2], most[3]));
}

/* ---- storing results, and repeating sums that leave them uncertain --------------------------- */

/* Returns error bounds of high + low. */
FLAT vd uncertain_of(const struct pair_product *x, const struct sums *s, enum way way)
{
    double terms = (double)x->c->k + 2;

    if (way == CHAIN)   /* chains of normal numbers have no other error than rounding */
        return s->size * (terms * 0x1p-53);
    /* The lower sum is rounded 2k times, and contains the errors of k sums and k products.  A
     * subnormal product loses less than the smallest positive number. */
    return s->size * (4 * terms * terms * 0x1p-106) + x->below;
}

/* True if each product of row i and column `lane` of the strip has a factor that is zero. */
static bool are_zero(const struct pair_product *x, int64_t i, int lane)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;

    /* products that underflow do not count as zero */
    for (int64_t p = 0; p < x->c->k; p++)
        if (x->strip[p * LANES + lane] != 0 &&
            double_at(at + p * x->a.p * x->fa.size, x->fa.size) != 0)
            return false;
    return true;
}

/* Returns 1 with the sign of v in lanes where v is finite and not zero, else v.  Sums of products
 * of such numbers are NaN or infinite exactly if those of the original numbers are. */
FLAT vd class_of(vd v)
{
    vl zero = v == 0, finite = v - v == 0, sign = (vl)v & INT64_MIN;

    return (vd)((zero & sign) | (~zero & finite & ((vl)all_of(1) | sign)) | (~finite & (vl)v));
}

/* Returns the number of lanes that are NaN. */
static int nans_of(vd x)
{
    int n = 0;

    for (int l = 0; l < LANES; l++)
        n += x[l] != x[l];
    return n;
}

/* Returns, for row i, the sums of products of the elements' classes: NaN or infinite exactly where
 * the row's sums are. */
static vd class_sums(const struct pair_product *x, int64_t i)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;
    vd sum = { 0 };
    int known = 0;              /* number of lanes that are NaN, and thus stay NaN */

    for (int64_t p = 0; p < x->c->k && known < LANES; p++) {
        sum += class_of(all_of(double_at(at + p * x->a.p * x->fa.size, x->fa.size))) *
               class_of(LOAD(vd, x->strip + p * LANES));
        if (p % 8 == 7)
            known = nans_of(sum);
    }
    return sum;
}

/* Returns the exponent of the lowest set bit in row i of A; 0 if all its elements are zero. */
static int lowest_bit_of_row(const struct pair_product *x, int64_t i)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;
    const int64_t step = x->a.p * x->fa.size;
    int *low = &x->low_a[i - x->line0];

    if (*low == UNKNOWN) {
        vl lowest = (vl)all_of(INFINITY);

        for (int64_t p = 0; p < x->c->k; p++)
            take_lowest_bits(&lowest, all_of(double_at(at + p * step, x->fa.size)));
        *low = ((vd)lowest)[0] < INFINITY ? ilogb(((vd)lowest)[0]) : 0;
    }
    return *low;
}

/* Returns the exponent of the lowest set bit in column `lane` of the strip; 0 if all its elements
 * are zero. */
static int lowest_bit_of_column(struct pair_product *x, int lane)
{
    vl lowest = (vl)all_of(INFINITY);

    for (int64_t p = 0; p < x->c->k && !x->known; p++)
        take_lowest_bits(&lowest, LOAD(vd, x->strip + p * LANES));
    for (int l = 0; l < LANES && !x->known; l++)
        x->low[l] = ((vd)lowest)[l] < INFINITY ? ilogb(((vd)lowest)[l]) : 0;
    x->known = true;
    return x->low[lane];
}

/* Returns the sums of row i in bins. */
static struct bins sum_in_bins(const struct pair_product *x, int64_t i)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;
    const int64_t step = x->a.p * x->fa.size;
    struct bins s = begin_bins(bound_magnitudes(x, i), x->c->k);

    ADD_TO_BINS(&s, x->c->k, false, all_of(double_at(at + p * step, x->fa.size)),
                LOAD(vd, x->strip + p * LANES));
    return s;
}

/* Stores the results in the mask `left` whose sums in bins can be rounded with certainty or lost no
 * bits.  Returns the mask of the results that are not stored. */
static int store_binned(struct pair_product *x, int64_t i, const struct results *o, int left)
{
    const struct bins s = sum_in_bins(x, i);
    const struct exact_sums t = finish_bins(&s);

    left &= store_results(o, ~left, 0, t.high, t.low + t.rest,
                          bins_error(s.second, x->c->k) + x->below, all_of(-1));
    for (int l = 0; l < LANES; l++)
        if (left >> l & 1 && o->plain && t.rest[l] == 0 &&
            bins_are_exact(s.second[l], x->c->k,
                           lowest_bit_of_row(x, i) + lowest_bit_of_column(x, l))) {
            put_number(o->size, o->to[l], t.high[l], round_to_f32(t.high[l], t.low[l]));
            left &= ~(1 << l);
        }
    return left;
}

/* Stores the results in the mask `left`, whose rounding the double-double sums leave uncertain.
 * size: upper bounds of the sums of magnitudes. */
static void store_rest(struct pair_product *x, int64_t i, int64_t j, const struct results *o,
                       int left, vd size)
{
    const vl finite = (vl)(size - size == 0);
    vd class = { 0 };
    bool odd = false;

    for (int l = 0; l < LANES; l++)
        odd |= left >> l & 1 && !finite[l];
    if (odd)
        class = class_sums(x, i);
    else if (can_use_pair(x, i, 1))
        left = store_binned(x, i, o, left);
    for (int l = 0; l < LANES; l++)
        if (left >> l & 1)
            x->slow += store_exactly(x->c, o->to[l], x->fc,
                                     &(struct limber_lines){ &x->a, &x->b, x->fa, x->fb, i, j + l,
                                                             x->c->k },
                                     finite[l] ? 0 : class[l]);
}

/* Stores a row of LANES elements if the rounding of all is certain and none is zero.  Otherwise
 * returns false. */
FLAT bool store_certain(const struct pair_product *x, int64_t i, int64_t j, int live, struct sums s,
                        enum way way)
{
    char *to = result_at(x, i, j);
    bool single = x->fc.size == 4;
    vd uncertain = uncertain_of(x, &s, way), old = { 0 }, r, up, down;
    vf narrow = { 0 }, other;
    vl sure;

    if (live < LANES || x->to.col != 1)
        return false;
    if (x->c->beta && single) {
        memcpy(&narrow, to, sizeof narrow);
        old = __builtin_convertvector(narrow, vd);
    } else if (x->c->beta) {
        memcpy(&old, to, sizeof old);
    }
    if (x->c->alpha || x->c->beta)
        scale_pair(&s.high, &s.low, &uncertain, x->alpha, x->c->beta ? &x->beta : NULL, old);
    ends_of(s.high, s.low, single, &uncertain, &r, &up, &down);
    if (single) {
        narrow = __builtin_convertvector(up, vf);
        other = __builtin_convertvector(down, vf);
        up = __builtin_convertvector(narrow, vd);
        down = __builtin_convertvector(other, vd);
    }
    sure = (vl)(up == down) & (vl)(up != 0) & (vl)(up - up == 0);
    if (!all(sure))
        return false;
    memcpy(to, single ? (void *)&narrow : (void *)&up, sizeof up * (size_t)x->fc.size / 8);
    return true;
}

/* Stores row i from its sums.  If the rounding of some elements is uncertain, first sums the row
 * again: plain FP64 chains as double-double sums and, if the caller allows an error, double-double
 * sums together with the sums of magnitudes, to which that error is relative. */
static void store_row(struct pair_product *x, int64_t i, int64_t j, int live, struct sums *s,
                      enum way way)
{
    struct results o;
    int open = 0, zero = 0, left;

    if (store_certain(x, i, j, live, *s, way))
        return;
    if (way == CHAIN)
        sum_block(x, i, 1, way = PAIR, s);
    if (way == PAIR && x->allowed > 0)
        sum_block(x, i, 1, way = SIZED, s);
    set_results(&o, x->c, x->fc, live, x->alpha, &x->beta);
    for (int l = 0; l < live; l++) {
        o.to[l] = result_at(x, i, j + l);
        open |= (s->size[l] - s->size[l] != 0) << l;
        zero |= (s->high[l] == 0 && are_zero(x, i, l)) << l;
    }
    left = store_results(&o, open, zero, s->high, s->low, uncertain_of(x, s, way),
                         s->size * (x->allowed * fabs(x->alpha)));
    if (left)
        store_rest(x, i, j, &o, left, s->size);
}

/* Multiplies `rows` rows of A, from row i0 on, by B, and stores the rows of C.  most_a: receives
 * the largest magnitude of each of these rows of A. */
static void run_block(struct pair_product *x, int64_t i0, int64_t rows, enum way way,
                      double *most_a)
{
    for (int64_t i = 0; i < rows; i++) {
        most_a[i] = largest_of_row(x, i0 + i);
        x->low_a[i] = UNKNOWN;
    }
    x->most_a = most_a;
    x->line0 = i0;
    for (int64_t j = 0; j < x->n; j += LANES) {
        int live = (int)(x->n - j < LANES ? x->n - j : LANES);

        pack_strip(x, j, live);
        for (int64_t i = i0; i < i0 + rows; i += ROWS) {
            int here = (int)(i0 + rows - i < ROWS ? i0 + rows - i : ROWS);
            struct sums s[ROWS];

            sum_block(x, i, here, way, s);
            for (int r = 0; r < here; r++)
                store_row(x, i + r, j, live, &s[r], way);
        }
    }
}

/* Computes a small product, in blocks of rows.  Returns the number of elements that were computed
 * in the long accumulator. */
int64_t FOR_ISA(limber_pairs_run)(const struct call *c, limber_format fa, limber_format fb,
                                  limber_format fc, double allowed)
{
    double strip[LIMBER_SMALL_K * LANES] __attribute__((aligned(64))), most_a[BLOCK];
    int low_a[BLOCK];
    enum way way = fa.size == 4 && fb.size == 4 ? CHAIN : PAIR;
    struct pair_product x = { .c = c,
                              .fa = fa,
                              .fb = fb,
                              .fc = fc,
                              .a = c->a,
                              .b = c->b,
                              .to = c->c,
                              .strip = strip,
                              .low_a = low_a,
                              /* computed only once, since subnormal arithmetic is slow */
                              .below = ((double)c->k + 2) * 0x1p-1073,
                              .allowed = allowed,
                              .m = c->m,
                              .n = c->n,
                              .alpha = c->alpha ? double_at(c->alpha, fc.size) : 1,
                              .beta = c->beta ? double_at(c->beta, fc.size) : 0 };

    if (c->m > c->n || (c->m == c->n && c->b.line != 1 && c->a.line == 1)) {
        x.fa = fb, x.fb = fa;   /* lanes run along the longer side of C: C^T = B^T A^T */
        x.a = c->b, x.b = c->a;
        x.m = c->n, x.n = c->m;
        x.to.row = c->c.col, x.to.col = c->c.row;
    }
    for (int64_t i = 0; i < x.m; i += BLOCK)
        run_block(&x, i, x.m - i < BLOCK ? x.m - i : BLOCK, way, most_a);
    return x.slow;
}
