/* SPDX-License-Identifier: BSD-3-Clause
 * Exact dot products in a long accumulator.  Products are added to 32-bit digits in 64-bit columns,
 * so that carries need not be propagated at once.
 *
 *   source  Kulisch, Computer Arithmetic and Validity, 2013, chapter 8; Neal, Fast exact summation
 *           using small and large superaccumulators, arXiv 1505.05571 (columns) */
#include "ir/num/dot.h"

#include <math.h>
#include <string.h>

/* Returns the exponent of the lowest bit that a sum of products can have.  Formats that are stored
 * in elements of binary32 or binary64 are decoded as these, so their lowest bit counts. */
int limber_dot_base(limber_format a, limber_format b)
{
    return limber_format_quantum(limber_num_carrier(a)) +
           limber_format_quantum(limber_num_carrier(b));
}

/* Returns the number of 64-bit words that hold every sum of up to 2^kbits products of two finite
 * elements. */
int limber_dot_words(limber_format a, limber_format b, int kbits)
{
    int top = limber_format_emax(limber_num_carrier(a)) + limber_format_emax(limber_num_carrier(b));

    return (top + 2 + kbits - limber_dot_base(a, b)) / 64 + 2;
}

/* ---- exact sums of binary32 and binary64 ----------------------------------------------------- */

/* An element in decoded form, of magnitude m 2^(exp + emin of its format), where emin is the
 * exponent of the format's lowest bit. m is 0 for NaN and infinities. */
struct binary {
    uint64_t m;
    int exp, sign;
};

/* Decodes an element of binary32 (size 4) or binary64 (8); NaN and infinities become 0. */
PRIM struct binary decode(const char *p, int size)
{
    int frac = size == 8 ? 52 : 23, fields = size == 8 ? 0x7ff : 0xff, field;
    uint64_t v = 0;
    struct binary x;

    if (size == 8)
        memcpy(&v, p, 8);
    else
        memcpy(&v, p, 4);
    field = (int)(v >> frac) & fields;
    x.m = (v & ((1ull << frac) - 1)) | (uint64_t)(field != 0) << frac;
    x.m = field == fields ? 0 : x.m;
    x.exp = field - (field != 0);
    x.sign = (int)(v >> (8 * size - 1)) & 1;
    return x;
}

/* Adds a product to columns of 32-bit digits, without carries between columns. */
PRIM void add_product(int64_t *column, struct binary x, struct binary y)
{
    unsigned __int128 p = (unsigned __int128)x.m * y.m;
    int at = x.exp + y.exp, s = at & 31;
    uint64_t low = (uint64_t)p, high = (uint64_t)(p >> 64);
    uint64_t w[3] = { low << s, s ? low >> (64 - s) | high << s : high, s ? high >> (64 - s) : 0 };
    int64_t flip = -(int64_t)(x.sign ^ y.sign);

    column += at >> 5;
    for (int i = 0; i < 5; i++) {
        int64_t v = (int64_t)(i & 1 ? w[i / 2] >> 32 : w[i / 2] & 0xffffffff);

        column[i] += (v ^ flip) - flip;
    }
}

enum { COLUMNS = 150, CARRY = 1 << 30 }; /* 2^30 additions of 32-bit digits fit a column */

/* Adds the value of the columns to the sum, and clears the columns. */
static void propagate_carries(struct limber_big *sum, int64_t *column)
{
    uint64_t w[COLUMNS / 2];
    uint64_t carry = 0;

    limber_columns_words(column, 1, COLUMNS, w, sum->n);
    for (int i = 0; i < sum->n; i++) {
        unsigned __int128 t = (unsigned __int128)sum->w[i] + w[i] + carry;

        sum->w[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
    memset(column, 0, COLUMNS * sizeof *column);
}

/* Elements in memory that are `step` bytes apart. */
struct strided {
    const char *at;
    int64_t step;
};

PRIM void add_products(int64_t *column, struct strided a, int size_a, struct strided b, int size_b,
                       int64_t count)
{
    for (; count > 0; count--, a.at += a.step, b.at += b.step)
        add_product(column, decode(a.at, size_a), decode(b.at, size_b));
}

/* Adds the products of `count` pairs of elements to the columns. */
static void add_products_by_size(int64_t *column, struct strided a, int size_a, struct strided b,
                                 int size_b, int64_t count)
{
    if (size_a == 8 && size_b == 8) /* constant sizes let the compiler specialise the loop */
        add_products(column, a, 8, b, 8, count);
    else if (size_a == 4 && size_b == 4)
        add_products(column, a, 4, b, 4, count);
    else
        add_products(column, a, size_a, b, size_b, count);
}

/* ---- exact sums in any format ---------------------------------------------------------------- */

/* Adds one product exactly.  A double-double element is a sum of two numbers. */
static void add_decoded(struct limber_big *sum, const char *a, limber_format fa, const char *b,
                        limber_format fb)
{
    struct limber_num x[2], y[2];

    for (int s = limber_parts(x, fa, a); s-- > 0;)
        for (int t = limber_parts(y, fb, b); t-- > 0;)
            if (x[s].kind == NUM_finite && y[t].kind == NUM_finite)
                limber_big_add_product(sum, &x[s], &y[t]);
}

/* Returns true if elements along k have a constant stride and the product reads all of them. */
static bool is_plain(const struct view *v)
{
    return limber_view_strided(v) && !(v->tile_subset && v->tile_subset->tile);
}

/* Adds the dot product of a row of A and a column of B, in binary32 or binary64, to *sum. */
static void dot_binary(struct limber_big *sum, const struct view *a, int size_a, int64_t i,
                       const struct view *b, int size_b, int64_t j, int64_t k)
{
    int64_t column[COLUMNS] = { 0 }, step = is_plain(a) && is_plain(b) ? CARRY : 1;

    for (int64_t p = 0, unsettled = 0; p < k; p += step) {
        int64_t count = k - p < step ? k - p : step;
        struct strided x = { limber_view_at(a, i, p, size_a), a->p * size_a };
        struct strided y = { limber_view_at(b, j, p, size_b), b->p * size_b };

        if (x.at && y.at)
            add_products_by_size(column, x, size_a, y, size_b, count);
        unsettled += count;
        if (unsettled >= CARRY) {
            propagate_carries(sum, column);
            unsettled = 0;
        }
    }
    propagate_carries(sum, column);
}

/* Sets *sum to the exact sum over p < k of a(i,p) b(j,p).  NaN and infinities count as 0. */
void limber_dot(struct limber_big *sum, const struct view *a, limber_format fa, int64_t i,
                const struct view *b, limber_format fb, int64_t j, int64_t k)
{
    limber_big_zero(sum);
    if (limber_format_is_binary(fa) && limber_format_is_binary(fb)) {
        dot_binary(sum, a, fa.size, i, b, fb.size, j, k);
        return;
    }
    for (int64_t p = 0; p < k; p++) {
        const char *pa = limber_view_at(a, i, p, fa.size), *pb = limber_view_at(b, j, p, fb.size);

        if (pa && pb)
            add_decoded(sum, pa, fa, pb, fb);
    }
}

/* ---- rounding a sum whose error is bounded --------------------------------------------------- */

/* Sets `to`, of n + 1 words, to w + 2^uncertain, where w is an integer of n words.  If `down`, to w
 * - 2^uncertain. */
static void add_error(uint64_t *to, const uint64_t *w, int n, int uncertain, bool down)
{
    struct limber_big sum = { to, n + 1, 0 };
    const uint64_t one = 1;

    memcpy(to, w, (size_t)n * sizeof *w);
    to[n] = (uint64_t)((int64_t)w[n - 1] >> 63);
    limber_big_add(&sum, down, &one, 1, uncertain);
}

/* Returns true for the NaN of an overflow in a format where -0 is NaN. This NaN has no sign, so if
 * both ends of an interval give it, they may still have overflowed on different sides of 0. */
static bool has_no_sign(limber_format f, const void *code)
{
    return f.flags & LIMBER_FORMAT_NO_MINUS_ZERO && isnan(limber_format_value(f, code));
}

/* Stores round(alpha s 2^exp + beta dst) to dst if this is the same value for all s within
 * 2^uncertain of the integer at w.  Otherwise returns false and leaves dst unchanged. */
bool limber_store_certain(void *dst, limber_format f, const uint64_t *w, int n, int uncertain,
                          int exp, const struct limber_scalars *sc)
{
    char low[32], high[32];
    uint64_t scratch[LIMBER_BIG];

    memcpy(low, dst, f.size); /* limber_store_exact reads C from here, for beta C */
    memcpy(high, dst, f.size);
    add_error(scratch, w, n, uncertain, true);
    limber_store_exact(low, f, scratch, n + 1, exp, sc);
    add_error(scratch, w, n, uncertain, false);
    limber_store_exact(high, f, scratch, n + 1, exp, sc);
    if (memcmp(low, high, f.size) || has_no_sign(f, low))
        return false;
    memcpy(dst, low, f.size);
    return true;
}

/* Knuth's TwoSum: returns s = a + b rounded, and its rounding error *e. */
static double two_sum(double a, double b, double *e)
{
    double s = a + b, part = s - a;

    *e = (a - (s - part)) + (b - part);
    return s;
}

/* Returns alpha s + beta c.  The errors of this computation are added to the error bound of the
 * result. */
static struct near_sum apply_scalars(struct near_sum s, double alpha, double beta, double c)
{
    double x = alpha * s.high, y = beta * c, e;

    s.low = fma(alpha, s.high, -x) + alpha * s.low;
    s.off = s.off * fabs(alpha) + fabs(s.low) * 0x1p-51;
    s.high = two_sum(x, y, &e);
    y = fma(beta, c, -y);
    s.low += e + y;
    s.off += (fabs(s.low) + fabs(e) + fabs(y)) * 0x1p-51;
    return s;
}

/* Returns r + rest, rounded to odd, where rest is at most half an ulp of r; only its sign matters.
 * If the result is rounded again, to a format of at least two bits less, this gives the same as
 * rounding r + rest once. */
static double round_to_odd(double r, double rest)
{
    int64_t bits;

    memcpy(&bits, &r, sizeof bits);
    return rest == 0 || bits & 1 ? r : nextafter(r, rest > 0 ? INFINITY : -INFINITY);
}

/* Stores round(alpha s + beta dst) to dst if this is the same value for all sums within s.off of
 * s.  Otherwise returns false and leaves dst unchanged. */
bool limber_store_near(void *dst, limber_format f, struct near_sum s, const double *scalars)
{
    char lower[32], upper[32];
    double r, rest, off;

    if (s.off == 0 && s.high == 0 && s.low == 0 && !scalars) {
        limber_store_float(dst, f, 0, 0, 1, 0, 0);
        return true;
    }
    if (scalars)
        s = apply_scalars(s, scalars[0], scalars[1],
                          scalars[1] != 0 ? limber_format_value(limber_num_base(f), dst) : 0);
    r = two_sum(s.high, s.low, &rest);
    off = s.off * (1 + 0x1p-50) + 0x1p-1060;
    if (!isfinite(r) || !isfinite(off))
        return false;
    if (fabs(rest) > off && off < fabs(r) * 0x1p-54) {
        limber_store_float(dst, f, round_to_odd(r, rest), 0, 1, 0, 0);
        return true;
    }
    limber_store_float(lower, f, nextafter(r + (rest - off), -INFINITY), 0, 1, 0, 0);
    limber_store_float(upper, f, nextafter(r + (rest + off), INFINITY), 0, 1, 0, 0);
    if (memcmp(lower, upper, f.size) || has_no_sign(f, lower))
        return false;
    memcpy(dst, lower, f.size);
    return true;
}

/* Stores round(alpha s + beta dst) to dst, where s is the exact dot product, or `class` if that
 * is NaN or infinite. */
void limber_dot_store(void *dst, limber_format f, const struct limber_lines *x, double class,
                      const struct limber_scalars *sc)
{
    uint64_t w[80];
    struct limber_big sum = { w, limber_dot_words(x->fa, x->fb, 40),
                              limber_dot_base(x->fa, x->fb) };

    if (class - class != 0) {
        limber_store_class(dst, f, class, sc);
        return;
    }
    limber_dot(&sum, x->a, x->fa, x->i, x->b, x->fb, x->j, x->k);
    limber_store_exact(dst, f, w, sum.n, sum.base, sc);
}
