/* SPDX-License-Identifier: BSD-3-Clause
 * Small products, correctly rounded, without a scan, a plan or a compiler.  Sums are pairs of
 * doubles (Dot2), and the bound of their error is summed beside them.  Where the error could change
 * the rounding of an element, its products are summed exactly.  Compiled once for each instruction
 * set.
 *
 *   needs   binary64 or binary32 throughout
 *   proof   docs/accuracy.md, "Pairs"
 *   source  Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005), algorithm 5.3 */
#include "backends/llvm/kernel/kernel.h"
#include "backends/llvm/kernel/lanes.h"
#include "ir/num/dot.h"
#include "ir/num/prim.h"

#ifndef PAIRS
#define PAIRS(name) limber_pairs_##name
#endif

enum { ROWS = 4 };

/* Lines of A go along rows, vectors along columns. */
struct product {
    const struct call *c;
    limber_format fa, fb, fc;
    struct view a, b;
    struct output_view to;
    int64_t m, n;
    double alpha, beta;
    double *strip;              /* of B: [k][LANES] */
    double allowed;             /* error that need not be removed, as a share of |A||B| */
    int low[LANES];             /* exponents of the lowest bits in the strip, once they are known */
    bool known;
    int64_t slow;               /* elements that the pairs did not tell */
};

struct sums { vd high, low, size; };

FLAT double load(const char *at, int size)
{
    float narrow;
    double x;

    if (size == 8) {
        memcpy(&x, at, 8);
        return x;
    }
    memcpy(&narrow, at, 4);
    return (double)narrow;
}

static double value(limber_format f, const void *at)
{
    return load(at, f.size);
}

/* Adds b to a exactly: a + b = sum + rest. */
FLAT vd two_sum(vd a, vd b, vd *rest)
{
    vd sum = a + b, back = sum - a;

    *rest = (a - (sum - back)) + (b - back);
    return sum;
}

FLAT void add_products(struct sums *s, vd a, vd b)
{
    vd high = a * b, low = fma_of(a, b, -high), rest;

    s->high = two_sum(s->high, high, &rest);
    s->low += rest + low;
    s->size += size_of(high);
}

/* `rows` lines of A, from i on, times a strip of B. */
FLAT void sum_rows(const struct product *x, int64_t i, int rows, int size, struct sums *s)
{
    const char *line[ROWS];
    int64_t step = x->a.p * size;

    for (int r = 0; r < rows; r++) {
        line[r] = (const char *)x->a.data + (i + r) * x->a.line * size;
        s[r] = (struct sums){ { 0 }, { 0 }, { 0 } };
    }
    for (int64_t p = 0; p < x->c->k; p++) {
        vd b = LOAD(vd, x->strip + p * LANES);

        for (int r = 0; r < rows; r++)
            add_products(&s[r], all_of(load(line[r] + p * step, size)), b);
    }
}

static void sum_block(const struct product *x, int64_t i, int rows, struct sums *s)
{
    if (rows == ROWS && x->fa.size == 8)        /* constants, for the sake of the loops */
        sum_rows(x, i, ROWS, 8, s);
    else if (x->fa.size == 8)
        for (int r = 0; r < rows; r++)
            sum_rows(x, i + r, 1, 8, s + r);
    else
        for (int r = 0; r < rows; r++)
            sum_rows(x, i + r, 1, 4, s + r);
}

static void pack_strip(const struct product *x, int64_t j, int live)
{
    int size = x->fb.size;
    const char *from = (const char *)x->b.data + j * x->b.line * size;

    if (size == 8 && x->b.line == 1 && live == LANES) {
        for (int64_t p = 0; p < x->c->k; p++)
            memcpy(x->strip + p * LANES, from + p * x->b.p * 8, sizeof(vd));
        return;
    }
    if (live < LANES)
        memset(x->strip, 0, (size_t)x->c->k * sizeof(vd));
    for (int l = 0; l < live; l++)
        for (int64_t p = 0; p < x->c->k; p++)
            x->strip[p * LANES + l] = load(from + (l * x->b.line + p * x->b.p) * size, size);
}

/* ---- results --------------------------------------------------------------------------------- */

/* What products below the normal numbers lose. */
static double terms_below(int64_t k)
{
    return ((double)k + 2) * 0x1p-1073;
}

/* The sums so far as high + low, off by less than uncertain. */
FLAT vd uncertain_of(const struct sums *s, int64_t k)
{
    double terms = (double)k + 2;

    /* the lower sum is rounded 2k times, and holds the errors of k sums and k products; below the
     * normal numbers products lose less than the least number each */
    return s->size * (4 * terms * terms * 0x1p-106) + terms_below(k);
}

/* Times alpha, plus beta times what C holds. */
FLAT void scale(const struct product *x, struct sums *s, vd *uncertain, vd old)
{
    vd alpha = all_of(x->alpha), beta = all_of(x->beta), high, low, rest, other;

    high = alpha * s->high;
    low = fma_of(alpha, s->high, -high);
    low = fma_of(alpha, s->low, low);
    *uncertain = *uncertain * fabs(x->alpha) + size_of(low) * 0x1p-52 + 0x1p-1071;
    if (x->c->beta) {
        other = beta * old;
        low += fma_of(beta, old, -other);
        *uncertain += size_of(low) * 0x1p-51 + 0x1p-1071;
        high = two_sum(high, other, &rest);
        low += rest;
        *uncertain += size_of(rest) * 0x1p-51;
    }
    s->high = high;
    s->low = low;
}

static bool are_zero(const struct product *x, int64_t i, int lane)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;

    for (int64_t p = 0; p < x->c->k; p++)       /* not only because products vanish */
        if (x->strip[p * LANES + lane] != 0 && load(at + p * x->a.p * x->fa.size, x->fa.size) != 0)
            return false;
    return true;
}

/* All products are zero: their sum is +0, alpha decides about its sign and beta about the rest.
 * False: beta c vanishes. */
static bool store_zero(const struct product *x, char *to)
{
    double old = x->c->beta ? value(x->fc, to) : 0, r = x->alpha * 0.0;
    float narrow;

    if (x->c->beta) {
        double term = x->beta * old;

        /* one rounding only: binary32's is left to others */
        if (x->fc.size == 4 || (term == 0 && x->beta != 0 && old != 0) || term - term != 0)
            return false;
        r += term;
    }
    narrow = (float)r;
    if (x->fc.size == 8)
        memcpy(to, &r, 8);
    else
        memcpy(to, &narrow, 4);
    return true;
}

/* What the pairs could not tell: exactly, in a long accumulator. */
static void store_slow(const struct product *x, int64_t i, int64_t j, char *to)
{
    const struct call *c = x->c;
    struct limber_scalars sc = { c->alpha, c->beta, x->fc };
    uint64_t w[80];
    struct limber_big sum = { w, limber_dot_words(x->fa, x->fb, 20),
                              limber_dot_base(x->fa, x->fb) };

    limber_dot(&sum, &x->a, x->fa, i, &x->b, x->fb, j, c->k);
    limber_store_exact(to, x->fc, w, sum.n, sum.base, &sc);
}

/* Stand-ins of finite numbers, whose sums of products are not finite where theirs are not. */
FLAT vd class_of(vd v)
{
    vl zero = v == 0, finite = v - v == 0, sign = (vl)v & INT64_MIN;

    return (vd)((zero & sign) | (~zero & finite & ((vl)all_of(1) | sign)) | (~finite & (vl)v));
}

static int nans_of(vd x)
{
    int n = 0;

    for (int l = 0; l < LANES; l++)
        n += x[l] != x[l];
    return n;
}

static vd class_sums(const struct product *x, int64_t i)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;
    vd sum = { 0 };
    int known = 0;              /* nothing changes a NaN */

    for (int64_t p = 0; p < x->c->k && known < LANES; p++) {
        sum += class_of(all_of(load(at + p * x->a.p * x->fa.size, x->fa.size))) *
               class_of(LOAD(vd, x->strip + p * LANES));
        if (p % 8 == 7)
            known = nans_of(sum);
    }
    return sum;
}

/* The exponent of the lowest bit of v, at most `least`. */
static int low_bit(double v, int least)
{
    int64_t bits, m;
    int e;

    if (v == 0 || v - v != 0)
        return least;
    memcpy(&bits, &v, 8);
    e = (int)(bits >> 52 & 0x7ff);
    m = (bits & (((int64_t)1 << 52) - 1)) | (int64_t)(e != 0) << 52;
    e = (e ? e : 1) - 1075 + __builtin_ctzll((uint64_t)m);
    return e < least ? e : least;
}

/* Sums in three doubles.  All terms are multiples of 2^low, so where the third is below 2^53 of
 * that, it was never rounded: what cancels, and what lies half-way between two numbers, is known
 * exactly.  Answers the lanes that are, in *sum. */
static int sum_exactly(struct product *x, int64_t i, const struct sums *s, vd *sum, vd *rest)
{
    const char *at = (const char *)x->a.data + i * x->a.line * x->fa.size;
    vd high = { 0 }, low = { 0 }, least = { 0 }, uncertain = uncertain_of(s, x->c->k), below;
    int low_a = 1024, exact = 0;

    for (int l = 0; l < LANES && !x->known; l++) {
        x->low[l] = 1024;
        for (int64_t p = 0; p < x->c->k; p++)
            x->low[l] = low_bit(x->strip[p * LANES + l], x->low[l]);
    }
    x->known = true;
    for (int64_t p = 0; p < x->c->k; p++) {
        double v = load(at + p * x->a.p * x->fa.size, x->fa.size);
        vd a = all_of(v), b = LOAD(vd, x->strip + p * LANES), product = a * b, one, two, three;
        vd error = fma_of(a, b, -product);

        low_a = low_bit(v, low_a);
        high = two_sum(high, product, &one);
        error = two_sum(one, error, &two);
        low = two_sum(low, error, &three);
        least += two + three;
    }
    low = two_sum(low, least, &below);
    *sum = two_sum(high, low, rest);
    for (int l = 0; l < LANES; l++) {
        int unit = low_a + x->low[l];

        if (unit >= -1074 && below[l] == 0 &&
            uncertain[l] <= ldexp(1, (unit < 900 ? unit : 900) + 50))
            exact |= 1 << l;
    }
    return exact;
}

/* sum + rest to binary32, rounded once: the double is made odd where it is not exact. */
static float narrow_of(double sum, double rest)
{
    int64_t bits;

    memcpy(&bits, &sum, 8);
    if (rest != 0 && !(bits & 1))
        bits += (rest > 0) == (sum > 0) ? 1 : -1;
    memcpy(&sum, &bits, 8);
    return (float)sum;
}

static void put(const struct product *x, char *to, double wide, float narrow)
{
    if (x->fc.size == 8)
        memcpy(to, &wide, 8);
    else
        memcpy(to, &narrow, 4);
}

/* Lanes whose rounding the pairs do not tell. */
static void store_rest(struct product *x, int64_t i, int64_t j, int left, char *const *to,
                       const struct sums *s)
{
    const struct call *c = x->c;
    struct limber_scalars sc = { c->alpha, c->beta, x->fc };
    vd class = { 0 }, sum, rest;
    int exact = 0, odd = 0;

    for (int l = 0; l < LANES; l++)
        odd |= (left >> l & 1 && s->size[l] - s->size[l] != 0) << l;
    if (odd)
        class = class_sums(x, i);
    if (odd != left && !c->alpha && !c->beta)
        exact = sum_exactly(x, i, s, &sum, &rest);

    for (int l = 0; l < LANES; l++) {
        if (!(left >> l & 1))
            continue;
        if (class[l] - class[l] != 0) {
            limber_store_class(to[l], x->fc, class[l], &sc);
        } else if (exact >> l & 1) {
            put(x, to[l], sum[l], narrow_of(sum[l], rest[l]));
        } else {
            store_slow(x, i, j + l, to[l]);
            x->slow++;
        }
    }
}

static void store_row(struct product *x, int64_t i, int64_t j, int live, struct sums *s)
{
    char *to[LANES];
    struct sums before = *s;
    vd uncertain = uncertain_of(s, x->c->k), old = { 0 }, r, rest, up, down;
    double share = x->allowed * fabs(x->alpha);
    bool plain = !x->c->alpha && !x->c->beta;
    int left = 0;

    for (int l = 0; l < live; l++) {
        to[l] = (char *)x->to.data + (i * x->to.row + (j + l) * x->to.col) * x->fc.size;
        if (x->c->beta)
            old[l] = value(x->fc, to[l]);
    }
    if (!plain)
        scale(x, s, &uncertain, old);
    r = two_sum(s->high, s->low, &rest);
    uncertain += size_of(rest) * 0x1p-51;
    if (x->fc.size == 4)        /* rounded again: all that the double may be off by */
        uncertain += size_of(r) * 0x1p-51;
    up = r + (rest + uncertain);
    down = r + (rest - uncertain);
    for (int l = 0; l < live; l++) {
        float narrow[2] = { (float)up[l], (float)down[l] };
        double wide = up[l];
        bool single = x->fc.size == 4, vanished = single ? narrow[0] == 0 : wide == 0;

        if (before.size[l] == 0 && are_zero(x, i, l) && store_zero(x, to[l]))
            continue;
        if (before.size[l] - before.size[l] != 0 || wide - wide != 0)
            left |= 1 << l;
        else if (!vanished && (single ? narrow[0] == narrow[1] : wide == down[l]))
            put(x, to[l], wide, narrow[0]);
        else if (uncertain[l] <= share * before.size[l])
            put(x, to[l], r[l], (float)r[l]);
        else
            left |= 1 << l;
    }
    if (left)
        store_rest(x, i, j, left, to, &before);
}

int64_t PAIRS(run)(const struct call *c, limber_format fa, limber_format fb, limber_format fc,
                double allowed)
{
    double strip[LIMBER_SMALL_K * LANES] __attribute__((aligned(64)));
    struct product x = { .c = c,
                         .fa = fa,
                         .fb = fb,
                         .fc = fc,
                         .a = c->a,
                         .b = c->b,
                         .to = c->c,
                         .strip = strip,
                         .allowed = allowed,
                         .m = c->m,
                         .n = c->n,
                         .alpha = c->alpha ? value(fc, c->alpha) : 1,
                         .beta = c->beta ? value(fc, c->beta) : 0 };

    if (c->m > c->n || (c->m == c->n && c->b.line != 1 && c->a.line == 1)) {
        x.fa = fb, x.fb = fa;   /* vectors go along the longer side: C^T = B^T A^T */
        x.a = c->b, x.b = c->a;
        x.m = c->n, x.n = c->m;
        x.to.row = c->c.col, x.to.col = c->c.row;
    }
    for (int64_t j = 0; j < x.n; j += LANES) {
        int live = (int)(x.n - j < LANES ? x.n - j : LANES);

        pack_strip(&x, j, live);
        x.known = false;
        for (int64_t i = 0; i < x.m; i += ROWS) {
            int rows = (int)(x.m - i < ROWS ? x.m - i : ROWS);
            struct sums s[ROWS];

            sum_block(&x, i, rows, s);
            for (int r = 0; r < rows; r++)
                store_row(&x, i + r, j, live, &s[r]);
        }
    }
    return x.slow;
}
