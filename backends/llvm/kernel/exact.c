/* SPDX-License-Identifier: BSD-3-Clause
 * The scheme `accumulator`: sums of exact products, vectorised over columns of C.  The code is
 * part of the library, compiled once for each instruction set, and needs no compiler at run time.
 *
 * Binary64 and binary32 are first summed as pairs of doubles, of elements scaled by the largest of
 * their line; the bound of their error tells which elements are certain.
 *
 * The elements that the bound leaves open are summed in bins (bins.h).
 *
 * For the others, a window of four columns of WIDTH bits hangs below the largest product of an
 * element.  Every product is two doubles (product and rest), and what of them lies in the window
 * is cut into the columns by adding and subtracting a constant, which is exact.  What lies below
 * moves the sum by less than one unit of the window a term; where that could change the rounding,
 * the next window is summed, until the element is certain or nothing is left.
 *
 *   proof   docs/accuracy.md, "Windows" and "Scaled pairs"
 *   source  Demmel and Nguyen, IEEE Trans. Comput. 64 (2015), section 4 (cutting by a constant);
 *           Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005) (exact products; algorithm 5.3) */
#include "backends/llvm/kernel/exact_limbs.h"
#include "ir/num/dot.h"
#include "ir/num/prim.h"

#include <math.h>
#include <string.h>

#ifndef EXACT
#define EXACT(name) limber_exact_##name
#endif

enum {
    WIDTH = 40, WINDOW = 4 * WIDTH, /* bits of a column, of a window */
    WINDOWS = 4,                    /* windows that are tried before the long accumulator */
    RUN = 4096,                     /* most terms whose sums in each column stay exact doubles */
    ROWS = LANES / 2, VECTORS = 2,  /* rows and vectors of pairs in registers */
    STRETCH = 1024                  /* elements along k; a block's stay in L2 */
};

/* ---- packing --------------------------------------------------------------------------------- */

void EXACT(pack)(struct kernel_call *c, int64_t task)
{
    int side = task >= c->tasks[0];
    int64_t panels = c->lines[side] / PANEL, from = (task - (side ? c->tasks[0] : 0)) * panels;
    bool pairs = limber_sums_pairs(c->config);

    for (int64_t panel = from; panel < from + panels && panel < c->op[side].panels; panel++)
        if (pairs)
            pack_scaled(c, side, panel);
        else if (!c->adds && !c->more) /* with several parts of k, operands are read in place */
            pack(c, side, panel);
}

/* ---- sums in windows ------------------------------------------------------------------------- */

/* The parts of k, of 64 equal ones, that hold any number but zero: for each line of A, and for each
 * LANES lines of B together.  Filled when the first zero is met. */
struct occupied {
    uint64_t row[KERNEL_EXACT_BLOCK], strip[KERNEL_EXACT_BLOCK / LANES];
    bool known;
};

/* LANES elements of C, (i, j) to (i, j + LANES - 1): limbs of their lines, state of each, and
 * columns of the sum; the last has weight 2^(top + 2 - WINDOW windows). */
struct strip {
    const struct kernel_call *c;
    struct occupied *occupied;  /* of the rows and strips that are computed together */
    int64_t i0, j0;             /* the first of these */
    struct limb a[3], b[3];
    int line, first;            /* line in A's panel; first line in B's */
    vi top, low;                /* exponents of the largest and the smallest product */
    int left;                   /* bit mask of lanes that are not decided */
    int windows;                /* number of windows summed, the current one included */
    int64_t column[4 * WINDOWS + 1][LANES];     /* the first takes the others' carries */
};

/* Exponents of the products of element p: of A's line and LANES lines of B. */
FLAT vi exponents(const struct limb *a, const struct limb *b, const struct strip *s, int64_t p)
{
    return exponents_at(b, s->first, p) + exponent_at(a, s->line, p);
}

/* Finds the largest and the smallest exponent of each lane's products. */
static void measure(struct strip *s)
{
    const struct kernel_config *f = s->c->config;

    s->top = (vi){ 0 } + 2 * NOTHING;
    s->low = (vi){ 0 } - 2 * NOTHING;
    for (int x = 0; x < f->side[0].limbs; x++)
        for (int y = 0; y < f->side[1].limbs; y++) {
            const struct limb *a = &s->a[x], *b = &s->b[y];
            vi top = s->top;

            for (int64_t p = 0; p < s->c->k; p++)
                top = max_of(top, exponents(a, b, s, p));
            s->top = top;
            s->low = -max_of(-s->low, -(LOAD(vi, &b->low[s->first]) + a->low[s->line]));
        }
}

/* Adds exact doubles to the columns of the window; all columns but the first stay in [0, 2^WIDTH).
 */
static void flush(struct strip *s, vd column[4])
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

/* Adds x, |x| < 1, to the columns: each takes the bits of x above its own lowest place, and leaves
 * the rest to the next.  Columns before `from` lie above x. */
FLAT void cut(vd x, int from, vd column[4])
{
    static const double at[4] = { 0x1.8p12, 0x1.8p-28, 0x1.8p-68, 0x1.8p-108 };

    for (int i = from; i < 4; i++) {
        vd part = (x + at[i]) - at[i];

        x -= part;
        column[i] += part;
    }
}

/* exponents of products, relative to the window, beyond which no bit of a product lies in it */
enum { BELOW = -WINDOW - 3, ABOVE = 107 };

/* Mask of lanes whose products reach the window. */
FLAT vi reach(vi e, bool first)
{
    return first ? e > BELOW : (e > BELOW) & (e < ABOVE);
}

/* Adds one product a lane, cut into the columns. */
FLAT void add_term(const struct limb *a, const struct limb *b, const struct strip *s, vi shift,
                   int64_t p, bool first, vd column[4])
{
    vi e = exponents(a, b, s, p) + shift;
    vd scale = (vd)(__builtin_convertvector((e + 1023) & reach(e, first), vl) << 52);
    vd factor = fractions_at(b, s->first, p), high, low;

    scale *= fraction_at(a, s->line, p);
    high = scale * factor;
    low = fma_of(scale, factor, -high);
    if (!first) {
        high -= whole_of(high);
        low -= whole_of(low);
    }
    cut(high, 0, column);
    cut(low, first ? 1 : 0, column);
}

/* Adds all parts of products that lie in the window, except in decided lanes.  Nothing lies above
 * the first window.  In wide data most terms reach no lane's window; those that do are collected
 * first, since that branch is unpredictable. */
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
                    listed += any(reach(exponents(a, b, s, from + p) + shift, first)) != 0;
                }
                for (int p = 0; p < listed; p++)
                    add_term(a, b, s, shift, from + list[p], first, column);
                terms += listed;
                if (terms > RUN - LISTED) {
                    flush(s, column);
                    terms = 0;
                }
            }
        }
    flush(s, column);
}

/* ---- results --------------------------------------------------------------------------------- */

/* ---- sums in pairs --------------------------------------------------------------------------- */

struct pair {
    vd high, low, off; /* off: error bound */
};

/* Pairs of a strip of LANES columns.  Their sums start far from zero. */
struct far_pairs {
    vd high[KERNEL_EXACT_BLOCK], low[KERNEL_EXACT_BLOCK]; /* [row of the block] */
    vd size[KERNEL_EXACT_BLOCK]; /* upper bounds of the sums of magnitudes */
};

/* Upper bound of the sum of magnitudes of a row's products (Cauchy and Schwarz). */
FLAT vd size_bound(const struct limb *a, int line, const struct limb *b, int first)
{
    return LOAD(vd, &b->norm[first]) * a->norm[line];
}

/* Sets flush-to-zero, since subnormal products take CPUs several times as long.  They occur far
 * below a line's largest element; the bounds include what flushing loses. */
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

/* Restores the floating-point mode that flush_subnormals replaced. */
FLAT void restore_mode(unsigned mode)
{
#if defined(__AVX2__)
    _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

/* Functions that sum in that mode are not inlined, lest compilers move what they do out of it. */
#define APART __attribute__((noinline))

/* Adds `count` products to the pairs of ROWS rows, from r on, and VECTORS strips.  Plain arrays,
 * since GCC keeps no structures in registers.  Each instruction counts on CPUs with separate
 * adders, which start a step each cycle. */
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

/* Adds the magnitudes of `count` products. */
FLAT void add_sizes(const double *a, const double *b, int64_t strip, int64_t count,
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

/* Adds products, or their magnitudes, of rows i to i + rows - 1 of A and whole strips, one stretch
 * of k after another.  They go to x's rows from `first` on. */
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
                    add_sizes(left, right, LANES * c->k, count, &x[s], first + r);
                else
                    add_products(left, right, LANES * c->k, count, &x[s], first + r);
            }
        }
}

/* Sums pairs of rows i to i + rows - 1, from row `first` of the block on, by `strips` vectors of
 * columns. sized: error bounds come from sums of magnitudes, not from norms. */
APART static void sum_pairs(const struct kernel_call *c, int64_t i, int64_t rows, int64_t j,
                            int64_t strips, struct far_pairs *x, int64_t first, bool sized)
{
    strips += strips % VECTORS; /* panels have whole groups of vectors */
    rows = (rows + ROWS - 1) / ROWS * ROWS; /* panels have whole groups of rows */
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

/* Sums pairs in flush-to-zero mode. */
static void sum_flushed(const struct kernel_call *c, int64_t i, int64_t rows, int64_t j,
                        int64_t strips, struct far_pairs *x, int64_t first, bool sized)
{
    const unsigned mode = flush_subnormals();

    sum_pairs(c, i, rows, j, strips, x, first, sized);
    restore_mode(mode);
}

/* Takes the start off each pair, and adds the bound of its error. */
static void take_pairs(const struct kernel_call *c, int rows, const struct far_pairs *x,
                       int64_t first, struct pair *out)
{
    const double terms = (double)c->k + 2;

    for (int r = 0; r < rows; r++) {
        const vd size = x->size[first + r];

        out[r] = (struct pair){ x->high[first + r] - far_of(size), x->low[first + r],
                                size * (4 * terms * terms * 0x1p-106) + terms * 0x1p-985 };
    }
}

/* Infinity with the sign of each lane. */
FLAT vl infinity_of(vd x)
{
    return ((vl)x & INT64_MIN) | (int64_t)0x7ff << 52;
}

/* Computes alpha times the pair plus beta C; the pair has weight 2^e.  Undecided if e is far from
 * 0. */
static void take_scalars(const struct strip *s, int64_t i, int64_t j, int left, vd *high, vd *low,
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

/* True if columns from j on are contiguous. */
static bool is_dense(const struct output_view *c, int64_t j)
{
    return c->col == 1 && !c->rows && !c->cols && !c->wide && j + LANES <= c->inner;
}

/* Stores the lanes of row r that the pair decides; returns their mask. */
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
        take_scalars(s, i, j, left, &first, &second, &off, &e);
    high = two_sum(first, second, &rest);
    off += size_of(rest) * 0x1p-51;
    if (single) /* a second rounding, of the double to FP32, adds its error */
        off += size_of(high) * 0x1p-51;
    up = high + (rest + off);
    down = high + (rest - off);
    field = ((vl)up >> 52 & 0x7ff) + e;
    sure = (vl)(up != 0) & ((vl)up >> 52 == (vl)down >> 52); /* same sign and exponent */
    sure &= (vl)(up - up == 0); /* C may hold NaN or infinities */
    /* below the normal numbers a result would be rounded twice */
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

/* True if the packed lines exclude elements of this lane. */
static bool leaves_out(const struct strip *s, int line, int lane)
{
    return s->a[0].low[line] == LEFT_OUT || s->b[0].low[s->first + lane] == LEFT_OUT;
}

/* The length of a part of k, of which there are at most 64. */
static int64_t part_of(const struct kernel_call *c)
{
    return c->k / 64 + 1;
}

/* The parts of k in which each of LANES packed lines holds any number but zero. */
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

/* Finds which parts of k are not all zero, for the rows and strips that are computed together. */
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

/* Stores an element whose products sum to exactly zero.  False: it cannot be decided here. */
static bool store_zero_at(const struct kernel_call *c, int64_t i, int64_t j)
{
    const int size = c->config->c.size;

    return store_zero(limber_output_at(&c->c, c->i0 + i, c->j0 + j, size), size, c->alpha_f64,
                      c->config->has_beta ? &c->beta_f64 : NULL);
}

/* Stores lanes whose products are all zero, as in triangular or sparse operands; returns their
 * mask.  Pairs never decide a zero. */
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
        if (x->high[l] != 0 || x->low[l] != 0 || leaves_out(s, line, l))
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

/* Stores the lanes left of row i that sums in bins decide, or that are exactly zero; returns their
 * mask. */
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

/* ---- rounding the windows' sums, and strips of C --------------------------------------------- */

/* True if results are FP64 or FP32 without alpha and beta, which round_fast may decide. */
static bool stores_fast(const struct kernel_config *f)
{
    return f->plain && limber_format_is_binary(f->c);
}

/* Rounds the first window as a double-double, if that decides an FP64 or FP32 result.  What is not
 * summed is below `uncertain`. */
static bool round_fast(const struct strip *s, int lane, int64_t j, int64_t i, double uncertain)
{
    const struct kernel_call *c = s->c;
    char *to = limber_output_at(&c->c, c->i0 + i, c->j0 + j, c->config->c.size);
    double x[4], sum, back, rest, r;
    int e = s->top[lane] + 2, bits;

    if (s->column[0][lane] >= 1 << 12 || s->column[0][lane] < -(1 << 12))
        return false;           /* else the first two columns are one double */
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

/* Converts the columns to words of a two's complement integer; returns how many. */
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

/* Rounds and stores element (i, j), which is this lane's, if the windows summed so far settle its
 * rounding.  False: the next window is needed.  terms: number of products whose bits below the last
 * window were left out; each moves the sum by at most one unit of that window's last bit.  Adds to
 * *lost the number of integers that do not fit C's format. */
static bool decide(struct strip *s, int lane, int64_t i, int64_t j, double terms, int64_t *lost)
{
    const struct kernel_call *c = s->c;
    const struct kernel_config *f = c->config;
    bool zero = s->top[lane] < NOTHING;
    int exp = zero ? 0 : s->top[lane] + 2 - WINDOW * s->windows, n;
    /* a product of two elements has two times 52 fraction bits */
    bool all = zero || exp <= s->low[lane] - 104;
    struct limber_scalars sc = { f->has_alpha ? c->alpha : NULL, f->has_beta ? c->beta : NULL,
                                 f->scalars };
    uint64_t w[(WINDOW * WINDOWS + 63) / 64 + 3];

    if (s->windows == 1 && stores_fast(f) && round_fast(s, lane, j, i, terms * 0x1p-160))
        return true;
    if (!all && f->c.kind != LIMBER_KIND_FLOAT && f->c.kind != LIMBER_KIND_DD)
        return false;
    n = words_of(s, lane, 4 * s->windows + 1, w);
    if (all) {
        *lost += c->cold->words(c, i, j, w, n, exp);
        return true;
    }
    return limber_store_certain(limber_output_at(&c->c, c->i0 + i, c->j0 + j, f->c.size), f->c, w,
                                n, ilogb(terms) + 1, exp, &sc);
}

/* True if the line holds NaN or infinities. */
FLAT bool is_special(const struct kernel_call *c, int side, int64_t line)
{
    const struct packed *o = &c->op[side];

    return o->special && o->special[o->line0 + line];
}

/* Stores the elements of row i, columns j to j + LANES - 1, that NaN or infinities decide; `live`
 * columns exist.  Returns the mask of the others. */
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

/* Sums and stores the elements of row i in the lanes of s->left: in bins, then in windows, then in
 * the long accumulator.  Returns the number of integers that do not fit C's format. */
static int64_t sum_strip(struct strip *s, int64_t i, int64_t j, int live)
{
    const struct kernel_call *c = s->c;
    const struct kernel_config *f = c->config;
    double terms = (double)c->k * f->side[0].limbs * f->side[1].limbs;
    int64_t lost = 0;

    for (int l = 0; l < live && s->a[0].v; l++)
        if (s->left >> l & 1 && leaves_out(s, s->line, l)) {
            lost += c->cold->exact(c, i, j + l);
            s->left &= ~(1 << l);
        }
    if (s->left && s->a[0].v)
        s->left &= ~store_binned(s, i, j);
    if (!s->left)
        return 0;
    measure(s);
    memset(s->column, 0, sizeof s->column);
    for (s->windows = 1; s->left && s->windows <= WINDOWS; s->windows++) {
        sum_window(s, s->windows == 1);
        for (int l = 0; l < live; l++)
            if (s->left >> l & 1 && decide(s, l, i, j + l, terms < 1 ? 1 : terms, &lost))
                s->left &= ~(1 << l);
    }
    for (int l = 0; l < live; l++)
        if (s->left >> l & 1)
            lost += c->cold->exact(c, i, j + l);
    return lost;
}

/* Stores rows i to i + rows - 1: from pairs where these decide, else from windows. far: the strip's
 * pairs, from row `first` on, or NULL. bounds: their error bounds come from norms.  If that decides
 * less than half of the rows, and sums of magnitudes decide more, the rest of the block uses
 * these. */
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

        if (turn == 1) /* computed for the whole group of strips, which the next ones reuse */
            sum_flushed(s->c, i, rows, j - odd * LANES, VECTORS, far - odd, first, true);
        take_pairs(s->c, rows, far, first, sum);
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

/* Computes rows i to i + rows - 1 of a block, i the first of a panel, and columns j0 to end - 1. */
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

/* Adds a part's pair to the sum of earlier parts; rounding adds to the error. */
static void add_pair(struct pair *sum, const struct pair *x)
{
    vd rest, high = two_sum(sum->high, x->high, &rest), low;

    rest += x->low;
    low = sum->low + rest;
    sum->off += x->off + (size_of(rest) + size_of(low)) * 0x1p-52;
    sum->high = high;
    sum->low = low;
}

/* Stores row i of a block from its pairs.  Undecided elements are summed from the unpacked
 * operands. */
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

/* Computes a block from one packed part of k.  The pairs of earlier parts follow those of this part
 * in the scratch memory. */
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
                take_pairs(c, 1, far, r, &x);
                for (int l = 0; l < LANES; l++)
                    if (leaves_out(&s, s.line, l))
                        x.off[l] = INFINITY;
                add_pair(&sum, &x);
                kept->high[r] = sum.high, kept->low[r] = sum.low, kept->size[r] = sum.off;
            }
            if (c->more)
                continue;
            sum.off *= 1 + 0x1p-10; /* the rounding errors of up to 2^40 additions */
            lost += store_sum(&s, pairs ? &sum : NULL, i0 + r, j, live);
        }
    return lost;
}

/* Computes a block of C. Scratch holds pairs.  The first panel shows whether bounds from norms
 * decide enough. */
void EXACT(block)(struct kernel_call *c, int64_t task, char *scratch)
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
