/* SPDX-License-Identifier: BSD-3-Clause
 * The scheme `accumulator`: sums of exact products, vectorised over columns of C.  The code is part
 * of the library, is compiled once for each instruction set, and needs no compiler at run time.
 *
 * Products of binary64 and binary32 are first summed as double-double numbers, of elements scaled
 * by the largest of their row or column.  An error bound tells which results are certain.  Elements
 * of C whose rounding the bound leaves uncertain are summed in bins (bins.h).
 *
 * Elements that are still uncertain are summed in windows.  A window consists of four columns of
 * WIDTH bits and begins at the largest product of an element of C.  Every product is two doubles
 * (product and rest).  The bits of these in the window are cut into the columns by adding and
 * subtracting a constant, which is exact.  The bits below the window change the sum by less than
 * one unit of the window per term.  If that could change the rounding, the next lower window is
 * summed, until the result is certain or no bits are left.
 *
 *   proof   docs/accuracy.md, "Windows" and "Scaled pairs"
 *   source  Demmel and Nguyen, IEEE Trans. Comput. 64 (2015), section 4 (cutting by a constant);
 *           Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005) (exact products; algorithm 5.3) */
#include "backends/llvm/kernel/exact_limbs.h"
#include "ir/num/dot.h"
#include "ir/num/prim.h"

#include <math.h>
#include <string.h>


enum {
    /* number of bits of a column of the sum, and of an exponent window: the bits of the sum that
     * are added in one pass */
    WIDTH = 40, WINDOW = 4 * WIDTH,
    /* number of exponent windows that are summed before the long accumulator is used */
    WINDOWS = 4,
    RUN = 4096, /* largest number of terms whose sum in each column stays exact as a double */
    /* rows, and vectors of columns, of a register tile of double-double sums */
    ROWS = LANES / 2, VECTORS = 2,
    /* elements along k of a stretch; the packed elements of a block's stretch fit in L2 */
    STRETCH = 1024
};

/* ---- packing --------------------------------------------------------------------------------- */

/* Entry point kernel_pack: packs some panels of A or B. */
void FOR_ISA(limber_exact_pack)(struct kernel_call *c, int64_t task)
{
    int side = task >= c->tasks[0];
    int64_t panels = c->lines[side] / PANEL, from = (task - (side ? c->tasks[0] : 0)) * panels;
    bool pairs = limber_sums_pairs(c->config);

    for (int64_t panel = from; panel < from + panels && panel < c->op[side].panels; panel++)
        if (pairs)
            pack_scaled(c, side, panel);
        /* exact sums need packed elements only if k is one part */
        else if (!c->adds && !c->more)
            pack(c, side, panel);
}

/* ---- sums in windows ------------------------------------------------------------------------- */

/* For each row of A, and for each group of LANES columns of B: a bit set that tells in which of
 * 64 equal parts of k it has a nonzero number.  Filled at the first result
 * that is zero. */
struct occupied {
    uint64_t row[KERNEL_EXACT_BLOCK], strip[KERNEL_EXACT_BLOCK / LANES];
    bool known;
};

/* The computation of LANES elements of C, (i, j) to (i, j + LANES - 1): limbs of their lines
 * (rows of A, columns of B), the state of each element, and the columns (digits of WIDTH bits) of
 * its sum.  The last column has weight 2^(top + 2 - WINDOW windows). */
struct strip {
    const struct kernel_call *c;
    struct occupied *occupied;  /* `occupied` of the rows and columns that are computed together */
    int64_t i0, j0; /* first of the rows, and of the columns, that are computed together */
    struct limb a[3], b[3];
    int line, first;            /* line: row in A's panel; first: first column in B's panel */
    vi top, low; /* [lane]: largest exponent of a product, and lower bound of the exponents */
    int left;                   /* bit set of the lanes whose rounding is still uncertain */
    int windows; /* number of exponent windows summed so far, the current one included */
    /* [column][lane]: bits of the sums; column 0 receives the carries of all others */
    int64_t column[4 * WINDOWS + 1][LANES];
};

/* Returns the exponents of the products of element p of A's line and of LANES lines of B. */
FLAT vi product_exponents(const struct limb *a, const struct limb *b, const struct strip *s,
                          int64_t p)
{
    return exponents_at(b, s->first, p) + exponent_at(a, s->line, p);
}

/* Sets s->top to the largest exponent of the products of each lane, and s->low to a lower bound of
 * their exponents. */
static void find_exponent_range(struct strip *s)
{
    const struct kernel_config *f = s->c->config;

    s->top = (vi){ 0 } + 2 * NOTHING;
    s->low = (vi){ 0 } - 2 * NOTHING;
    for (int x = 0; x < f->side[0].limbs; x++)
        for (int y = 0; y < f->side[1].limbs; y++) {
            const struct limb *a = &s->a[x], *b = &s->b[y];
            vi top = s->top;

            for (int64_t p = 0; p < s->c->k; p++)
                top = max_of(top, product_exponents(a, b, s, p));
            s->top = top;
            s->low = -max_of(-s->low, -(LOAD(vi, &b->low[s->first]) + a->low[s->line]));
        }
}

/* Adds the doubles in column[], which are exact, to the sum's columns (digits of WIDTH bits) in the
 * current exponent window, and propagates carries.  Then all columns but the first are in
 * [0, 2^WIDTH). */
static void flush_columns(struct strip *s, vd column[4])
{
    static const double up[4] = { 0x1p40, 0x1p80, 0x1p120, 0x1p160 };

    for (int at = 4 * s->windows; at > 0; at--)
        for (int i = 0; i < LANES; i++) {
            int64_t *to = &s->column[at][i], carry;
            int here = at - 1 - 4 * (s->windows - 1);

            if (here >= 0)
                *to += (int64_t)(column[here][i] * up[here]);
            carry = *to >> WIDTH;
            *to -= carry * ((int64_t)1 << WIDTH);
            s->column[at - 1][i] += carry;
        }
    for (int at = 0; at < 4; at++)
        column[at] = (vd){ 0 };
}

/* Adds x, |x| < 1, to the columns (digits) of a sum.  Each column receives the bits of x above the
 * column's own lowest bit; the remaining bits go to the next column.  Columns before `from` lie
 * above all bits of x. */
FLAT void cut_into_columns(vd x, int from, vd column[4])
{
    static const double at[4] = { 0x1.8p12, 0x1.8p-28, 0x1.8p-68, 0x1.8p-108 };

    for (int i = from; i < 4; i++) {
        vd part = (x + at[i]) - at[i];

        x -= part;
        column[i] += part;
    }
}

/* exponents of products, relative to the exponent window; a product outside of (BELOW, ABOVE)
 * has no bit in the window */
enum { BELOW = -WINDOW - 3, ABOVE = 107 };

/* Returns a mask of the lanes whose products have bits in the exponent window. first: this is
 * the first window, so no product lies above it. */
FLAT vi lanes_in_window(vi e, bool first)
{
    return first ? e > BELOW : (e > BELOW) & (e < ABOVE);
}

/* Adds one product in each lane to the sum's columns (digits), cut into the bits of each column.
 * shift: converts exponents to exponents relative to the exponent window. */
FLAT void add_term(const struct limb *a, const struct limb *b, const struct strip *s, vi shift,
                   int64_t p, bool first, vd column[4])
{
    vi e = product_exponents(a, b, s, p) + shift;
    vd scale = (vd)(__builtin_convertvector((e + 1023) & lanes_in_window(e, first), vl) << 52);
    vd factor = fractions_at(b, s->first, p), high, low;

    scale *= fraction_at(a, s->line, p);
    high = scale * factor;
    low = fma_of(scale, factor, -high);
    if (!first) {
        high -= whole_of(high);
        low -= whole_of(low);
    }
    cut_into_columns(high, 0, column);
    cut_into_columns(low, first ? 1 : 0, column);
}

/* Adds those bits of all products that lie in the current exponent window, except in lanes whose
 * rounding is already certain.  If exponents vary much, most products have no bits in any lane's
 * window.  The products that do are listed first, since testing them one by one would be an
 * unpredictable branch. */
FLAT void sum_window(struct strip *s, bool first)
{
    const struct kernel_config *f = s->c->config;
    vi shift = WINDOW * (s->windows - 1) - 2 - s->top;
    vd column[4] = { { 0 } };
    int32_t list[LISTED];
    int64_t terms = 0;

    for (int i = 0; i < LANES; i++)
        if (!(s->left >> i & 1))
            shift[i] = 4 * NOTHING;
    for (int x = 0; x < f->side[0].limbs; x++)
        for (int y = 0; y < f->side[1].limbs; y++) {
            const struct limb *a = &s->a[x], *b = &s->b[y];

            for (int64_t from = 0; from < s->c->k; from += LISTED) {
                int count = (int)(s->c->k - from < LISTED ? s->c->k - from : LISTED), listed = 0;

                for (int p = 0; p < count; p++) {
                    list[listed] = p;
                    listed += any(lanes_in_window(product_exponents(a, b, s, from + p) + shift,
                                                  first)) != 0;
                }
                for (int p = 0; p < listed; p++)
                    add_term(a, b, s, shift, from + list[p], first, column);
                terms += listed;
                if (terms > RUN - LISTED) {
                    flush_columns(s, column);
                    terms = 0;
                }
            }
        }
    flush_columns(s, column);
}


/* ---- sums in pairs --------------------------------------------------------------------------- */

/* A double-double sum high + low, with its error bound. */
struct pair {
    vd high, low, off; /* off: bound of the error of high + low */
};

/* Double-double sums of a strip of LANES columns, while products are added.  `high` starts at a
 * number above all partial sums, so that rounding errors need no comparisons (add_far). */
struct far_pairs {
    vd high[KERNEL_EXACT_BLOCK], low[KERNEL_EXACT_BLOCK]; /* [row of the block] */
    /* [row of the block]: upper bounds of the sums of the products' magnitudes */
    vd size[KERNEL_EXACT_BLOCK];
};

/* Returns an upper bound of the sum of magnitudes of an element's products, by the Cauchy-Schwarz
 * inequality. */
FLAT vd size_bound(const struct limb *a, int line, const struct limb *b, int first)
{
    return LOAD(vd, &b->norm[first]) * a->norm[line];
}

/* Sets flush-to-zero mode and returns the previous mode.  Subnormal products, which occur far below
 * a line's largest element, would take CPUs several times as long.  The error bounds include what
 * flushing loses. */
FLAT unsigned flush_subnormals(void)
{
#if defined(__AVX2__)
    unsigned mode = _mm_getcsr();

    _mm_setcsr(mode | _MM_FLUSH_ZERO_ON);
    return mode;
#else
    return 0;
#endif
}

/* Restores the floating-point mode that flush_subnormals returned. */
FLAT void restore_mode(unsigned mode)
{
#if defined(__AVX2__)
    _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

/* Functions that compute in flush-to-zero mode are not inlined, since compilers could move their
 * operations to where the mode is not set. */
#define APART __attribute__((noinline))

/* Adds `count` products to the double-double sums of ROWS rows, from row r on, and of VECTORS
 * strips of columns.  The sums are plain arrays, since GCC does not keep structures in registers.
 * strip: distance in doubles between strips of columns. */
FLAT void add_products(const double *a, const double *b, int64_t strip, int64_t count,
                       struct far_pairs *x, int64_t r)
{
    vd high[VECTORS][ROWS], low[VECTORS][ROWS], y[VECTORS];

    for (int v = 0; v < VECTORS; v++) {
        memcpy(high[v], &x[v].high[r], sizeof high[v]);
        memcpy(low[v], &x[v].low[r], sizeof low[v]);
    }
    _Pragma("GCC unroll 2") for (int64_t p = 0; p < count; p++, a += LANES, b += LANES)
    {
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)
            y[v] = LOAD(vd, b + v * strip);
        _Pragma("GCC unroll 4") for (int i = 0; i < ROWS; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)
                add_far(&high[v][i], &low[v][i], all_of(a[i]), y[v]);
    }
    for (int v = 0; v < VECTORS; v++) {
        memcpy(&x[v].high[r], high[v], sizeof high[v]);
        memcpy(&x[v].low[r], low[v], sizeof low[v]);
    }
}

/* Adds the magnitudes of the products of `count` elements along k to x[v].size, for ROWS rows from
 * r on and VECTORS vectors v of columns.  a, b: packed elements.  strip: distance in elements
 * between vectors of b. */
FLAT void add_magnitudes(const double *a, const double *b, int64_t strip, int64_t count,
                         struct far_pairs *x, int64_t r)
{
    vd size[VECTORS][ROWS], y[VECTORS];

    for (int v = 0; v < VECTORS; v++)
        memcpy(size[v], &x[v].size[r], sizeof size[v]);
    for (int64_t p = 0; p < count; p++, a += LANES, b += LANES) {
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)
            y[v] = size_of(LOAD(vd, b + v * strip));
        _Pragma("GCC unroll 4") for (int i = 0; i < ROWS; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)
                size[v][i] = fma_of(size_of(all_of(a[i])), y[v], size[v][i]);
    }
    for (int v = 0; v < VECTORS; v++)
        memcpy(&x[v].size[r], size[v], sizeof size[v]);
}

/* Adds the products (or, if `sizes`, their magnitudes) of rows [i, i + rows) of A and of `strips`
 * vectors of columns to x's rows from `first` on, one stretch of k after another. */
FLAT void add_all(const struct kernel_call *c, int64_t i, int64_t rows, int64_t j, int64_t strips,
                  struct far_pairs *x, int64_t first, bool sizes)
{
    for (int64_t p = 0; p < c->k; p += STRETCH)
        for (int64_t s = 0; s < strips; s += VECTORS) {
            const struct limb b = limb_of(c, true, 1, (j + s * LANES) / PANEL, 0);
            const double *right = scaled_at(&b, (int)((j + s * LANES) % PANEL), p);
            const int64_t count = c->k - p < STRETCH ? c->k - p : STRETCH;

            for (int64_t r = 0; r < rows; r += ROWS) {
                const struct limb a = limb_of(c, true, 0, (i + r) / PANEL, 0);
                const double *left = scaled_at(&a, (int)((i + r) % PANEL), p);

                if (sizes)
                    add_magnitudes(left, right, LANES * c->k, count, &x[s], first + r);
                else
                    add_products(left, right, LANES * c->k, count, &x[s], first + r);
            }
        }
}

/* Computes the double-double sums of rows [i, i + rows) and of `strips` vectors of columns.  first:
 * the row of x for row i.  sized: error bounds come from sums of magnitudes, not from norms. */
APART static void sum_pairs(const struct kernel_call *c, int64_t i, int64_t rows, int64_t j,
                            int64_t strips, struct far_pairs *x, int64_t first, bool sized)
{
    strips += strips % VECTORS; /* panels contain full groups of vectors */
    rows = (rows + ROWS - 1) / ROWS * ROWS; /* panels contain full groups of rows */
    for (int64_t s = 0; s < strips && sized; s++)
        for (int64_t r = 0; r < rows; r++)
            x[s].size[first + r] = all_of(0);
    if (sized)
        add_all(c, i, rows, j, strips, x, first, true);
    for (int64_t s = 0; s < strips; s++)
        for (int64_t r = 0; r < rows; r++) {
            const struct limb a = limb_of(c, true, 0, (i + r) / PANEL, 0);
            const struct limb b = limb_of(c, true, 1, (j + s * LANES) / PANEL, 0);
            vd *size = &x[s].size[first + r];

            *size = sized ? *size * (1 + (double)(c->k + 8) * 0x1p-52) + 0x1p-960 :
                            size_bound(&a, (int)((i + r) % PANEL), &b,
                                       (int)((j + s * LANES) % PANEL));
            x[s].high[first + r] = far_of(*size);
            x[s].low[first + r] = all_of(0);
        }
    add_all(c, i, rows, j, strips, x, first, false);
}

/* Computes double-double sums by sum_pairs, while the CPU treats subnormal numbers as zero. */
static void sum_flushed(const struct kernel_call *c, int64_t i, int64_t rows, int64_t j,
                        int64_t strips, struct far_pairs *x, int64_t first, bool sized)
{
    const unsigned mode = flush_subnormals();

    sum_pairs(c, i, rows, j, strips, x, first, sized);
    restore_mode(mode);
}

/* Converts the sums of some rows: subtracts their start values, and computes their error bounds. */
static void finish_pairs(const struct kernel_call *c, int rows, const struct far_pairs *x,
                         int64_t first, struct pair *out)
{
    const double terms = (double)c->k + 2;

    for (int r = 0; r < rows; r++) {
        const vd size = x->size[first + r];

        out[r] = (struct pair){ x->high[first + r] - far_of(size), x->low[first + r],
                                size * (4 * terms * terms * 0x1p-106) + terms * 0x1p-985 };
    }
}

/* Returns infinities with the signs of x. */
FLAT vl infinity_of(vd x)
{
    return ((vl)x & INT64_MIN) | (int64_t)0x7ff << 52;
}

/* Replaces the double-double sum, which has weight 2^*e, by alpha times the sum plus beta times C,
 * with weight 1.  If e is far from 0, the error bound becomes infinite. */
static void apply_scalars(const struct strip *s, int64_t i, int64_t j, int left, vd *high, vd *low,
                          vd *off, vl *e)
{
    const struct kernel_call *c = s->c;
    const int size = c->config->c.size;
    const vl near = (*e > -400) & (*e < 400);
    const vd unit = (vd)(((*e & near) + 1023) << 52);
    vd old = { 0 };

    for (int l = 0; l < LANES && c->config->has_beta; l++)
        if (left >> l & 1)
            old[l] = double_at(limber_output_at(&c->c, c->i0 + i, c->j0 + j + l, size), size);
    *high *= unit;
    *low *= unit;
    *off = *off * unit + 0x1p-1070;
    scale_pair(high, low, off, c->alpha_f64, c->config->has_beta ? &c->beta_f64 : NULL, old);
    *off = (vd)(((vl)*off & near) | ((int64_t)0x7ff << 52 & ~near));
    *e = (vl){ 0 };
}

/* True if LANES elements of a row of C, from column j on, are contiguous. */
static bool is_dense(const struct output_view *c, int64_t j)
{
    return c->col == 1 && !c->rows && !c->cols && !c->wide && j + LANES <= c->inner;
}

/* Stores the lanes of row r whose double-double sum can be rounded with certainty, as far as they
 * are in the mask `left`.  Returns the mask of the stored lanes.  r: row of the register tile;
 * i: row of the block. */
APART static int store_pairs(const struct strip *s, const struct pair *x, int r, int64_t i,
                             int64_t j, int left)
{
    const struct kernel_call *c = s->c;
    const bool single = c->config->c.size == 4;
    vd off = x->off, rest, high, up, down;
    vl e = __builtin_convertvector(LOAD(vi, &s->b[0].high[s->first]) + s->a[0].high[s->line + r],
                                   vl);
    vd first = x->high, second = x->low;
    vl field, sure, large;
    vf narrow, other;
    int done = 0;

    if (!c->config->plain)
        apply_scalars(s, i, j, left, &first, &second, &off, &e);
    high = two_sum(first, second, &rest);
    off += size_of(rest) * 0x1p-51;
    if (single) /* rounding the double to FP32 adds a second error */
        off += size_of(high) * 0x1p-51;
    up = high + (rest + off);
    down = high + (rest - off);
    field = ((vl)up >> 52 & 0x7ff) + e;
    sure = (vl)(up != 0) & ((vl)up >> 52 == (vl)down >> 52); /* same sign and exponent */
    sure &= (vl)(up - up == 0); /* C may hold NaN or infinities */
    /* results below the normal numbers would be rounded twice here */
    large = sure & (field > (single ? 1023 + 128 : 2047));
    sure &= single ? (field > 1023 - 124) & (field < 1023 + 126) : (field > 1) & (field < 2046);
    up = (vd)((((vl)up + (e << 52)) & sure) | (infinity_of(up) & large));
    down = (vd)((((vl)down + (e << 52)) & sure) | (infinity_of(down) & large));
    sure |= large;
    narrow = __builtin_convertvector(up, vf);
    other = __builtin_convertvector(down, vf);
    if (single)
        sure &= __builtin_convertvector(narrow == other, vl);
    else
        sure &= (vl)(up == down);
    if (left == (1 << LANES) - 1 && is_dense(&c->c, c->j0 + j) &&
        !any(__builtin_convertvector(~sure, vi))) {
        memcpy(limber_output_at(&c->c, c->i0 + i, c->j0 + j, c->config->c.size),
               single ? (void *)&narrow : (void *)&up, single ? sizeof narrow : sizeof up);
        return left;
    }
    for (int l = 0; l < LANES; l++) {
        char *to;

        if (!(left >> l & 1) || !sure[l])
            continue;
        to = limber_output_at(&c->c, c->i0 + i, c->j0 + j + l, c->config->c.size);
        if (single)
            memcpy(to, (char *)&narrow + 4 * l, 4);
        else
            memcpy(to, (char *)&up + 8 * l, 8);
        done |= 1 << l;
    }
    return done;
}

/* True if the double-double sums omit elements of this lane's row or column, because they are too
 * small. */
static bool omits_elements(const struct strip *s, int line, int lane)
{
    return s->a[0].low[line] == LEFT_OUT || s->b[0].low[s->first + lane] == LEFT_OUT;
}

/* Returns the length of a part of k, for struct occupied.  k has at most 64 such parts. */
static int64_t part_of(const struct kernel_call *c)
{
    return c->k / 64 + 1;
}

/* Sets, for each of LANES packed lines, the bits of those parts of k in which it has a nonzero
 * number. */
static void find_parts(const struct kernel_call *c, const double *v, uint64_t parts[LANES])
{
    const int64_t length = part_of(c);

    memset(parts, 0, LANES * sizeof *parts);
    for (int64_t p = 0; p < c->k; p += length) {
        const int64_t end = p + length < c->k ? p + length : c->k;
        vl some = { 0 };

        for (int64_t q = p; q < end; q++)
            some |= LOAD(vl, v + q * LANES) & INT64_MAX;
        for (int l = 0; l < LANES; l++)
            parts[l] |= (uint64_t)(some[l] != 0) << p / length;
    }
}

/* Finds in which parts of k the rows and columns that are computed together have nonzero numbers,
 * and stores that in *s->occupied. */
static void find_occupied(const struct strip *s)
{
    const struct kernel_call *c = s->c;
    uint64_t parts[LANES];

    s->occupied->known = true;
    for (int64_t r = 0; r < KERNEL_EXACT_BLOCK && s->i0 + r < c->m; r += LANES) {
        const struct limb a = limb_of(c, true, 0, (s->i0 + r) / PANEL, 0);

        find_parts(c, scaled_at(&a, (int)((s->i0 + r) % PANEL), 0), &s->occupied->row[r]);
    }
    for (int64_t j = 0; j < KERNEL_EXACT_BLOCK && s->j0 + j < c->n; j += LANES) {
        const struct limb b = limb_of(c, true, 1, (s->j0 + j) / PANEL, 0);
        uint64_t all = 0;

        find_parts(c, scaled_at(&b, (int)((s->j0 + j) % PANEL), 0), parts);
        for (int l = 0; l < LANES; l++)
            all |= parts[l];
        s->occupied->strip[j / LANES] = all;
    }
}

/* Stores an element whose products sum to exactly zero.  Returns false if the result must be
 * computed by the general code. */
static bool store_zero_at(const struct kernel_call *c, int64_t i, int64_t j)
{
    const int size = c->config->c.size;

    return store_zero(limber_output_at(&c->c, c->i0 + i, c->j0 + j, size), size, c->alpha_f64,
                      c->config->has_beta ? &c->beta_f64 : NULL);
}

/* Stores the lanes whose products are all zero, as in triangular or sparse operands, as far as they
 * are in the mask `left`.  Returns the mask of the stored lanes.  The rounding of a zero
 * double-double sum is never certain. */
APART static int store_zeros(const struct strip *s, const struct pair *x, int line, int64_t i,
                             int64_t j, int left)
{
    const struct kernel_call *c = s->c;
    const double *a = scaled_at(&s->a[0], line, 0), *b = scaled_at(&s->b[0], s->first, 0);
    const int64_t length = part_of(c);
    uint64_t both;
    vl some = { 0 };
    int done = 0;

    for (int l = 0; l < LANES; l++)
        if (x->high[l] != 0 || x->low[l] != 0 || omits_elements(s, line, l))
            left &= ~(1 << l);
    if (!left)
        return 0;
    if (!s->occupied->known)
        find_occupied(s);
    both = s->occupied->row[i - s->i0] & s->occupied->strip[(j - s->j0) / LANES];
    for (int64_t p = 0; both; p += length, both >>= 1) {
        const int64_t end = p + length < c->k ? p + length : c->k;

        for (int64_t q = both & 1 ? p : end; q < end; q++)
            some |= (vl)(all_of(a[q * LANES]) != 0) & LOAD(vl, b + q * LANES) & INT64_MAX;
    }
    for (int l = 0; l < LANES; l++)
        if (left >> l & 1 && some[l] == 0 && store_zero_at(c, i, j + l))
            done |= 1 << l;
    return done;
}

/* Stores the lanes of row i whose rounding is still uncertain, if their sums in bins can be rounded
 * with certainty or are exactly zero.  Returns the mask of the stored lanes. */
APART static int store_binned(const struct strip *s, int64_t i, int64_t j)
{
    const struct kernel_call *c = s->c;
    const double *a = scaled_at(&s->a[0], s->line, 0), *b = scaled_at(&s->b[0], s->first, 0);
    const int unit_a = s->a[0].low[s->line] - s->a[0].high[s->line] - 52;
    const int32_t *low_b = &s->b[0].low[s->first], *high_b = &s->b[0].high[s->first];
    struct bins sum =
        begin_bins(1.01 * size_bound(&s->a[0], s->line, &s->b[0], s->first), c->k);
    struct exact_sums t;
    struct pair x;
    int done;

    ADD_TO_BINS(&sum, c->k, false, all_of(a[p * LANES]), LOAD(vd, b + p * LANES));
    t = finish_bins(&sum);
    x = (struct pair){ t.high, t.low + t.rest,
                       bins_error(sum.second, c->k) + ((double)c->k + 2) * 0x1p-985 };
    done = store_pairs(s, &x, 0, i, j, s->left);
    for (int l = 0; l < LANES; l++)
        if (s->left >> l & 1 && t.high[l] == 0 &&
            bins_are_exact(sum.second[l], c->k, unit_a + low_b[l] - high_b[l] - 52) &&
            store_zero_at(c, i, j + l))
            done |= 1 << l;
    return done;
}

/* ---- rounding sums in windows; computing strips and blocks of C ------------------------------ */

/* True if results are FP64 or FP32 without alpha and beta, so that round_fast may be able to round
 * them. */
static bool stores_fast(const struct kernel_config *f)
{
    return f->plain && limber_format_is_binary(f->c);
}

/* Rounds the sum in the first exponent window as a double-double number.  Returns false if the
 * rounding to an FP64 or FP32 result is not certain. uncertain: bound of the sum of all bits
 * below the window. */
static bool round_fast(const struct strip *s, int lane, int64_t j, int64_t i, double uncertain)
{
    const struct kernel_call *c = s->c;
    char *to = limber_output_at(&c->c, c->i0 + i, c->j0 + j, c->config->c.size);
    double x[4], sum, back, rest, r;
    int e = s->top[lane] + 2, bits;

    if (s->column[0][lane] >= 1 << 12 || s->column[0][lane] < -(1 << 12))
        return false;           /* the first two columns do not fit one double */
    for (int at = 0; at < 4; at++)
        x[at] = (double)s->column[at + 1][lane];
    x[0] += (double)s->column[0][lane] * 0x1p40;
    x[0] *= 0x1p-40, x[1] *= 0x1p-80, x[2] *= 0x1p-120, x[3] *= 0x1p-160;
    sum = x[0] + x[1];
    back = sum - x[0];
    rest = (x[0] - (sum - back)) + (x[1] - back);
    rest += x[2] + x[3];
    r = sum + rest;
    rest = (sum - r) + rest;
    uncertain += fabs(r) * 0x1p-100 + 0x1p-131;
    if (r + (rest + uncertain) != r || r + (rest - uncertain) != r || r == 0)
        return false;
    bits = ilogb(r) + e;
    if (c->config->c.size == 8) {
        if (bits < -1021 || bits > 1022)
            return false;
        r = scalbn(r, e);
        memcpy(to, &r, 8);
    } else {
        double about = fabs(r) * 0x1p-50;
        float up, down;

        if (bits < -124 || bits > 126)
            return false;
        up = (float)scalbn(r + about, e);
        down = (float)scalbn(r - about, e);
        if (up != down)
            return false;
        memcpy(to, &up, 4);
    }
    return true;
}

/* Converts the columns (digits of WIDTH bits) of a lane's sum to 64-bit words of a two's complement
 * integer.  Returns the number of words. */
static int words_of(const struct strip *s, int lane, int columns, uint64_t *w)
{
    int words = (WIDTH * (columns - 1) + 63) / 64 + 2;
    struct limber_big sum = { w, words, 0 };

    limber_big_zero(&sum);
    for (int at = 0; at < columns; at++) {
        int64_t v = s->column[at][lane];
        uint64_t m = v < 0 ? -(uint64_t)v : (uint64_t)v;

        limber_big_add(&sum, v < 0, &m, 1, WIDTH * (columns - 1 - at));
    }
    return words;
}

/* If the exponent windows summed so far determine the rounding of element (i, j) in this lane,
 * stores it and returns true.  If it returns false, the next window is needed. terms: number of
 * products with bits below the last window; each changes the sum by at most one unit of that
 * window's last bit.  Adds to *lost the number of integers that do not fit C's format. */
static bool store_if_certain(struct strip *s, int lane, int64_t i, int64_t j, double terms,
                             int64_t *lost)
{
    const struct kernel_call *c = s->c;
    const struct kernel_config *f = c->config;
    bool zero = s->top[lane] < NOTHING;
    int exp = zero ? 0 : s->top[lane] + 2 - WINDOW * s->windows, n;
    /* a product of two elements has 2 * 52 fraction bits */
    bool all = zero || exp <= s->low[lane] - 104;
    struct limber_scalars sc = { f->has_alpha ? c->alpha : NULL, f->has_beta ? c->beta : NULL,
                                 f->scalars };
    uint64_t w[(WINDOW * WINDOWS + 63) / 64 + 3];

    if (s->windows == 1 && stores_fast(f) && round_fast(s, lane, j, i, terms * 0x1p-160))
        return true;
    if (!all && limber_num_base(f->c).kind != LIMBER_KIND_FLOAT && f->c.kind != LIMBER_KIND_DD)
        return false;
    n = words_of(s, lane, 4 * s->windows + 1, w);
    if (all) {
        *lost += c->cold->words(c, i, j, w, n, exp);
        return true;
    }
    return limber_store_certain(limber_output_at(&c->c, c->i0 + i, c->j0 + j, f->c.size), f->c, w,
                                n, ilogb(terms) + 1, exp, &sc);
}

/* True if the line has NaN or infinities. */
FLAT bool is_special(const struct kernel_call *c, int side, int64_t line)
{
    const struct packed *o = &c->op[side];

    return o->special && o->special[o->line0 + line];
}

/* Stores those elements of row i, columns [j, j + live), that NaN or infinities determine.  Returns
 * the mask of all other lanes. */
static int store_special(const struct kernel_call *c, int64_t i, int64_t j, int live,
                         int64_t *lost)
{
    int left = (1 << live) - 1;

    for (int l = 0; l < live; l++)
        if (is_special(c, 0, i) || is_special(c, 1, j + l)) {
            *lost += c->cold->special(c, i, j + l);
            left &= ~(1 << l);
        }
    return left;
}

/* Sums and stores the lanes s->left of row i: in bins, then in exponent windows, then in the
 * long accumulator, until the rounding is certain.  Returns the number of integers that do not
 * fit C's format. */
static int64_t sum_strip(struct strip *s, int64_t i, int64_t j, int live)
{
    const struct kernel_call *c = s->c;
    const struct kernel_config *f = c->config;
    double terms = (double)c->k * f->side[0].limbs * f->side[1].limbs;
    int64_t lost = 0;

    for (int l = 0; l < live && s->a[0].v; l++)
        if (s->left >> l & 1 && omits_elements(s, s->line, l)) {
            lost += c->cold->exact(c, i, j + l);
            s->left &= ~(1 << l);
        }
    if (s->left && s->a[0].v)
        s->left &= ~store_binned(s, i, j);
    if (!s->left)
        return 0;
    find_exponent_range(s);
    memset(s->column, 0, sizeof s->column);
    for (s->windows = 1; s->left && s->windows <= WINDOWS; s->windows++) {
        sum_window(s, s->windows == 1);
        for (int l = 0; l < live; l++)
            if (s->left >> l & 1 && store_if_certain(s, l, i, j + l, terms < 1 ? 1 : terms, &lost))
                s->left &= ~(1 << l);
    }
    for (int l = 0; l < live; l++)
        if (s->left >> l & 1)
            lost += c->cold->exact(c, i, j + l);
    return lost;
}

/* Stores rows [i, i + rows) of a strip of columns: from double-double sums if their error bound
 * makes the rounding certain, else from exact sums (bins or exponent windows). far: the
 * double-double sums, with row i at index `first`; NULL if there are none. bounds: the error
 * bound is from norms; rows whose rounding it leaves uncertain are summed again with a tighter
 * bound, from sums of magnitudes.  *sized: set if the tighter bound makes more elements certain
 * and more than half of the rows were uncertain; then the rest of the block uses the tighter
 * bound. */
static int64_t sum_rows(struct strip *s, int64_t i, int rows, int64_t j, int live,
                        struct far_pairs *far, int64_t first, bool bounds, bool *sized)
{
    const int64_t odd = j / LANES % VECTORS;
    struct pair sum[ROWS];
    int left[ROWS], open = 0;
    int64_t lost = 0;

    for (int r = 0; r < rows; r++)
        left[r] = store_special(s->c, i + r, j, live, &lost);
    for (int turn = 0; far && turn < 2; turn++) {
        int before = open;

        /* sum all strips of the group again, so that the next strips reuse the sums */
        if (turn == 1)
            sum_flushed(s->c, i, rows, j - odd * LANES, VECTORS, far - odd, first, true);
        finish_pairs(s->c, rows, far, first, sum);
        open = 0;
        for (int r = 0; r < rows; r++) {
            if (left[r])
                left[r] &= ~store_pairs(s, &sum[r], r, i + r, j, left[r]);
            if (left[r])
                left[r] &= ~store_zeros(s, &sum[r], s->line + r, i + r, j, left[r]);
            open += left[r] != 0;
        }
        if (turn == 1 && open < before && 2 * before > rows)
            *sized = true;
        if (!open || !bounds)
            break;
    }
    for (int r = 0; r < rows; r++, s->line++) {
        s->left = left[r];
        lost += sum_strip(s, i + r, j, live);
    }
    return lost;
}

/* Computes rows [i, i + rows) and columns [j0, end) of a block.  Row i is the first row of a panel.
 * pairs: uses double-double sums. */
static int64_t run_rows(struct kernel_call *c, bool pairs, int64_t i, int64_t rows, int64_t j0,
                        int64_t end, struct far_pairs *far, bool *sized)
{
    struct occupied occupied = { .known = false };
    struct strip s = { .c = c, .occupied = &occupied, .i0 = i, .j0 = j0 };
    const bool bounds = !*sized;
    int64_t lost = 0;

    if (pairs)
        sum_flushed(c, i, rows, j0, (end - j0 + LANES - 1) / LANES, far, 0, *sized);
    for (int64_t r = 0; r < rows; r += ROWS)
        for (int64_t j = j0; j < end; j += LANES) {
            for (int q = 0; q < c->config->side[0].limbs; q++)
                s.a[q] = limb_of(c, pairs, 0, (i + r) / PANEL, q);
            for (int q = 0; q < c->config->side[1].limbs; q++)
                s.b[q] = limb_of(c, pairs, 1, j / PANEL, q);
            s.first = (int)(j % PANEL);
            s.line = (int)((i + r) % PANEL);
            lost += sum_rows(&s, i + r, (int)(rows - r < ROWS ? rows - r : ROWS), j,
                             (int)(end - j < LANES ? end - j : LANES),
                             pairs ? far + (j - j0) / LANES : NULL, r, bounds, sized);
        }
    return lost;
}

/* ---- parts of k ------------------------------------------------------------------------------ */

/* Adds a part's double-double sum to the sum of earlier parts of k, and the errors of these
 * additions to the error bound. */
static void add_pair(struct pair *sum, const struct pair *x)
{
    vd rest, high = two_sum(sum->high, x->high, &rest), low;

    rest += x->low;
    low = sum->low + rest;
    sum->off += x->off + (size_of(rest) + size_of(low)) * 0x1p-52;
    sum->high = high;
    sum->low = low;
}

/* Stores row i of a block from its double-double sums.  Elements whose rounding is uncertain are
 * summed exactly from the unpacked operands. */
static int64_t store_sum(const struct strip *s, const struct pair *sum, int64_t i, int64_t j,
                         int live)
{
    int64_t lost = 0;
    int left = store_special(s->c, i, j, live, &lost);

    if (left && sum)
        left &= ~store_pairs(s, sum, 0, i, j, left);
    for (int l = 0; l < live; l++)
        if (left >> l & 1)
            lost += s->c->cold->exact(s->c, i, j + l);
    return lost;
}

/* Computes a block from one packed part of k.  In scratch memory, the sums of earlier parts of k
 * are stored after those of this part. */
static int64_t run_part(struct kernel_call *c, bool pairs, int64_t i0, int64_t rows, int64_t j0,
                        int64_t end, struct far_pairs *far)
{
    struct far_pairs *kept = far + KERNEL_EXACT_BLOCK / LANES;
    struct strip s = { .c = c };
    int64_t lost = 0;

    if (pairs)
        sum_flushed(c, i0, rows, j0, (end - j0 + LANES - 1) / LANES, far, 0, false);
    else if (c->more)
        return 0;
    for (int64_t j = j0; j < end; j += LANES, far++, kept++)
        for (int64_t r = 0; r < rows; r++) {
            const int live = (int)(end - j < LANES ? end - j : LANES);
            struct pair sum = { { 0 }, { 0 }, { 0 } }, x;

            s.a[0] = limb_of(c, pairs, 0, (i0 + r) / PANEL, 0);
            s.b[0] = limb_of(c, pairs, 1, j / PANEL, 0);
            s.line = (int)((i0 + r) % PANEL);
            s.first = (int)(j % PANEL);
            if (pairs && c->adds)
                sum = (struct pair){ kept->high[r], kept->low[r], kept->size[r] };
            if (pairs) {
                finish_pairs(c, 1, far, r, &x);
                for (int l = 0; l < LANES; l++)
                    if (omits_elements(&s, s.line, l))
                        x.off[l] = INFINITY;
                add_pair(&sum, &x);
                kept->high[r] = sum.high, kept->low[r] = sum.low, kept->size[r] = sum.off;
            }
            if (c->more)
                continue;
            sum.off *= 1 + 0x1p-10; /* covers the rounding errors of up to 2^40 additions */
            lost += store_sum(&s, pairs ? &sum : NULL, i0 + r, j, live);
        }
    return lost;
}

/* Entry point kernel_block: computes a block of C.  `scratch` holds the double-double sums.  The
 * rows of the first panel show whether error bounds from norms suffice for the rest of the
 * block. */
void FOR_ISA(limber_exact_block)(struct kernel_call *c, int64_t task, char *scratch)
{
    int64_t i0 = task / c->blocks_j * c->mb, j0 = task % c->blocks_j * c->nb, lost;
    int64_t rows = c->m - i0 < c->mb ? c->m - i0 : c->mb, first = rows < PANEL ? rows : PANEL;
    int64_t end = c->n < j0 + c->nb ? c->n : j0 + c->nb;
    struct far_pairs *far = (struct far_pairs *)(void *)scratch;
    bool pairs = limber_sums_pairs(c->config), sized = false;

    if (c->adds || c->more)
        lost = run_part(c, pairs, i0, rows, j0, end, far);
    else
        lost = run_rows(c, pairs, i0, first, j0, end, far, &sized);
    if (rows > first && !c->adds && !c->more)
        lost += run_rows(c, pairs, i0 + first, rows - first, j0, end, far, &sized);
    if (lost)
        __atomic_fetch_add(&c->overflow, lost, __ATOMIC_RELAXED);
}
