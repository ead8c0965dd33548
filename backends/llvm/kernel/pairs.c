/* SPDX-License-Identifier: BSD-3-Clause
 * Small products, correctly rounded, without a scan, a plan or a compiler.  Sums are pairs of doubles
 * (Dot2), and what they may be off by is summed beside them.  Where that could change the rounding of an
 * element, its products are summed exactly.  Compiled once for each instruction set.
 *
 *   needs   binary64 or binary32 throughout
 *   proof   docs/accuracy.md, "Pairs"
 *   source  Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26 (2005), algorithm 5.3 */
#include "backends/llvm/kernel/kernel.h"
#include "backends/llvm/kernel/lanes.h"
#include "ir/dot.h"
#include "ir/prim.h"

#ifndef PAIRS
#define PAIRS(name) limber_pairs_##name
#endif

enum { ROWS = 4 };

/* Lines of A go along rows, vectors along columns. */
struct product {
    const struct call *c;
    limber_format fa, fb, fc;
    struct view a, b;
    struct place to;
    int64_t m, n;
    double alpha, beta;
    double *strip;              /* of B: [k][LANES] */
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

/* The sums so far as high + low, off by less than doubt. */
FLAT vd doubt_of(const struct sums *s, int64_t k)
{
    double terms = (double)k + 2;

    /* the lower sum is rounded 2k times, and holds the errors of k sums and k products; below the
     * normal numbers products lose less than the least number each */
    return s->size * (4 * terms * terms * 0x1p-106) + terms * 0x1p-1073;
}

/* Times alpha, plus beta times what C holds. */
FLAT void scale(const struct product *x, struct sums *s, vd *doubt, vd old)
{
    vd alpha = all_of(x->alpha), beta = all_of(x->beta), high, low, rest, other;

    high = alpha * s->high;
    low = fma_of(alpha, s->high, -high);
    low = fma_of(alpha, s->low, low);
    *doubt = *doubt * fabs(x->alpha) + size_of(low) * 0x1p-52 + 0x1p-1071;
    if (x->c->beta) {
        other = beta * old;
        low += fma_of(beta, old, -other);
        *doubt += size_of(low) * 0x1p-51 + 0x1p-1071;
        high = two_sum(high, other, &rest);
        low += rest;
        *doubt += size_of(rest) * 0x1p-51;
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

/* All products are zero: their sum is +0, alpha decides about its sign and beta about the rest.  False:
 * beta c vanishes. */
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

/* What the pairs could not tell. */
static void store_slow(const struct product *x, int64_t i, int64_t j, char *to, bool finite)
{
    const struct call *c = x->c;
    struct limber_scalars sc = { c->alpha, c->beta, x->fc };
    uint64_t w[80];
    struct limber_big sum = { w, limber_dot_words(x->fa, x->fb, 20), limber_dot_base(x->fa, x->fb) };
    double class = 0;

    for (int64_t p = 0; p < c->k && !finite; p++) {
        double v[2];

        for (int side = 0; side < 2; side++) {
            const struct view *u = side ? &x->b : &x->a;
            limber_format f = side ? x->fb : x->fa;
            struct limber_num part;

            limber_num_decode(&part, f, (const char *)u->data +
                                        ((side ? j : i) * u->line + p * u->p) * f.size);
            v[side] = limber_num_class(&part);
        }
        class += v[0] * v[1];
    }
    if (class - class != 0) {
        limber_store_class(to, x->fc, class, &sc);
        return;
    }
    limber_dot(&sum, &x->a, x->fa, i, &x->b, x->fb, j, c->k);
    limber_store_exact(to, x->fc, w, sum.n, sum.base, &sc);
}

static void store_row(const struct product *x, int64_t i, int64_t j, int live, struct sums *s)
{
    char *to[LANES];
    vd doubt = doubt_of(s, x->c->k), old = { 0 }, r, rest, up, down;
    bool plain = !x->c->alpha && !x->c->beta;

    for (int l = 0; l < live; l++) {
        to[l] = (char *)x->to.data + (i * x->to.row + (j + l) * x->to.col) * x->fc.size;
        if (x->c->beta)
            old[l] = value(x->fc, to[l]);
    }
    if (!plain)
        scale(x, s, &doubt, old);
    r = two_sum(s->high, s->low, &rest);
    doubt += size_of(rest) * 0x1p-51;
    if (x->fc.size == 4)        /* rounded again: all that the double may be off by */
        doubt += size_of(r) * 0x1p-51;
    up = r + (rest + doubt);
    down = r + (rest - doubt);
    for (int l = 0; l < live; l++) {
        float narrow[2] = { (float)up[l], (float)down[l] };
        double wide = up[l];

        if (s->size[l] == 0 && are_zero(x, i, l) && store_zero(x, to[l]))
            continue;
        if (s->size[l] - s->size[l] != 0 || wide - wide != 0 || wide == 0 || narrow[0] == 0 ||
            (x->fc.size == 8 ? wide != down[l] : narrow[0] != narrow[1])) {
            store_slow(x, i, j + l, to[l], s->size[l] - s->size[l] == 0);
            continue;
        }
        if (x->fc.size == 8)
            memcpy(to[l], &wide, 8);
        else
            memcpy(to[l], &narrow[0], 4);
    }
}

void PAIRS(run)(const struct call *c, limber_format fa, limber_format fb, limber_format fc)
{
    double strip[LIMBER_SMALL_K * LANES] __attribute__((aligned(64)));
    struct product x = { .c = c, .fa = fa, .fb = fb, .fc = fc, .a = c->a, .b = c->b, .to = c->c, .strip = strip,
                         .m = c->m, .n = c->n, .alpha = c->alpha ? value(fc, c->alpha) : 1,
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
        for (int64_t i = 0; i < x.m; i += ROWS) {
            int rows = (int)(x.m - i < ROWS ? x.m - i : ROWS);
            struct sums s[ROWS];

            sum_block(&x, i, rows, s);
            for (int r = 0; r < rows; r++)
                store_row(&x, i + r, j, live, &s[r]);
        }
    }
}
