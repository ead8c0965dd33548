/* SPDX-License-Identifier: BSD-3-Clause
 * Statistics of a simulated product: what the kernel counted, how operands and result are
 * distributed, and how far the result is from the exact one. */
#include "jit/engine.h"

#include "ir/unit_num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const limber_format binary64 = { LIMBER_KIND_FLOAT, 11, 52, 0, 1023, 8, 0 };

/* ---- distributions ------------------------------------------------------------------------- */

/* Adds x; mean and variance are running ones (Welford), the variance still a sum of squares. */
static void see(limber_distribution *d, double x)
{
    double delta;
    int64_t n;
    int e;

    d->count++;
    if (!isfinite(x)) {
        d->special++;
        return;
    }
    n = d->count - d->special;
    if (n == 1 || x < d->least)
        d->least = x;
    if (n == 1 || x > d->largest)
        d->largest = x;
    delta = x - d->mean;
    d->mean += delta / (double)n;
    d->variance += delta * (x - d->mean);
    if (x == 0) {
        d->zeros++;
        return;
    }
    frexp(x, &e);
    e += LIMBER_EXPONENTS / 2 - 1;
    d->exponents[e < 0 ? 0 : e >= LIMBER_EXPONENTS ? LIMBER_EXPONENTS - 1 : e]++;
}

static void seen(limber_distribution *d)
{
    int64_t n = d->count - d->special;

    d->variance = n > 0 ? d->variance / (double)n : 0;
}

/* ---- operands as matrices -------------------------------------------------------------------- */

/* One group of a problem, copied: lines of k doubles, as given and as loaded; C beside two
 * products of its size. */
struct copies {
    double *a, *b, *la, *lb;
    double *exact, *wide;
};

static double *doubles(int64_t rows, int64_t cols)
{
    size_t n;

    if (__builtin_mul_overflow((size_t)rows, (size_t)(cols ? cols : 1), &n) ||
        n > SIZE_MAX / sizeof(double))
        return NULL;
    return malloc(n * sizeof(double));
}

static bool copies_new(struct copies *c, const struct problem *p, bool compare, struct diag *d)
{
    memset(c, 0, sizeof *c);
    c->a = doubles(p->m, p->k);
    c->b = doubles(p->n, p->k);
    c->la = doubles(p->m, p->k);
    c->lb = doubles(p->n, p->k);
    if (compare) {
        c->exact = doubles(p->m, p->n);
        c->wide = doubles(p->m, p->n);
    }
    return (c->a && c->b && c->la && c->lb && (!compare || (c->exact && c->wide))) ||
           limber_fail(d, LIMBER_NO_MEMORY, "no memory for the statistics");
}

static void copies_free(struct copies *c)
{
    free(c->a);
    free(c->b);
    free(c->la);
    free(c->lb);
    free(c->exact);
    free(c->wide);
}

static bool load_side(const struct problem *p, int side, int64_t group, double *given,
                      double *loaded, limber_distribution *d, struct diag *diag)
{
    limber_format f = side ? p->fb : p->fa;
    struct view v = side ? p->b : p->a;
    int64_t lines = side ? p->n : p->m, step = side ? p->step_b : p->step_a;
    struct loaded *line = malloc((size_t)(p->k ? p->k : 1) * sizeof *line);
    limber_format acc = p->contract.unit->acc.format;
    bool as_given = acc.kind == LIMBER_KIND_INT || limber_format_equal(acc, binary64);

    if (!line)
        return limber_fail(diag, LIMBER_NO_MEMORY, "no memory for the statistics");
    if (v.data)
        v.data = (const char *)v.data + group * step * f.size;
    for (int64_t i = 0; i < lines; i++) {
        for (int64_t q = 0; q < p->k; q++) {
            const char *at = limber_view_at(&v, i, q, f.size);

            given[i * p->k + q] = at ? limber_format_value(f, at) : 0;
        }
        if (!as_given)
            limber_unit_load(p->contract.unit, side, given + i * p->k, p->k, line);
        for (int64_t q = 0; q < p->k; q++) {
            double x = as_given ? given[i * p->k + q] : (double)line[q].value;

            loaded[i * p->k + q] = x;
            see(d, x);
        }
    }
    free(line);
    return true;
}

/* Products of two nonzero finite numbers: of every index along k so many as lines have them. */
static int64_t nonzero_products(const struct problem *p, const struct copies *c)
{
    int64_t sum = 0;

    for (int64_t q = 0; q < p->k; q++) {
        int64_t a = 0, b = 0;

        for (int64_t i = 0; i < p->m; i++)
            a += c->la[i * p->k + q] != 0 && isfinite(c->la[i * p->k + q]);
        for (int64_t j = 0; j < p->n; j++)
            b += c->lb[j * p->k + q] != 0 && isfinite(c->lb[j * p->k + q]);
        sum += a * b;
    }
    return sum;
}

/* ---- comparison -------------------------------------------------------------------------------- */

/* to = a b in binary64. */
static bool multiply(limber_context *ctx, const struct problem *p, const double *a,
                     const double *b, double *to, struct diag *d)
{
    const struct problem q = {
        .contract = { .promise = LIMBER_NATIVE, .scheme = "native" },
        .m = p->m, .n = p->n, .k = p->k, .groups = 1, .fa = binary64, .fb = binary64,
        .fc = binary64, .a = { a, p->k, 1, NULL }, .b = { b, p->k, 1, NULL },
        .c = { .data = to, .row = p->n, .col = 1, .inner = p->n > 0 ? p->n : 1 },
    };

    return limber_engine_run_plain(ctx, &q, NULL, d);
}

struct distance { double far, size; int64_t count; };

static void compare(const struct problem *p, int64_t group, const struct copies *c,
                    limber_distribution *result, limber_distribution *wide, struct distance *far)
{
    struct place at = p->c;

    at.data = (char *)at.data + group * p->step_c * p->fc.size;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double x = limber_format_value(p->fc, limber_place_at(&at, i, j, p->fc.size));

            see(result, x);
            if (!c->exact)
                continue;
            see(wide, c->wide[i * p->n + j]);
            if (!isfinite(x) || !isfinite(c->exact[i * p->n + j]))
                continue;
            far->far += fabs(x - c->exact[i * p->n + j]);
            far->size += fabs(c->exact[i * p->n + j]);
            far->count++;
        }
}

static void conclude(const struct problem *p, limber_statistics *s, limber_distribution *wide,
                     const struct distance *far)
{
    bool plain = !p->alpha && !p->beta && s->compare;

    seen(&s->a);
    seen(&s->b);
    seen(&s->result);
    seen(wide);
    s->predicted = limber_unit_retention(p->contract.unit, p->k);
    s->variance_wide = s->compare ? wide->variance : NAN;
    s->retention = plain && wide->variance > 0 ? s->result.variance / wide->variance : NAN;
    s->distance = plain && far->count ? far->far / (double)far->count : NAN;
    s->relative = plain && far->size > 0 ? far->far / far->size : NAN;
}

static void take_counts(limber_statistics *s, const struct problem *p,
                        const struct unit_counts *c)
{
    s->products = p->m * p->n * p->k * p->groups;
    s->swamped = c->swamped;
    s->outer_sums = c->outer_sums;
    s->outer_swamped = c->outer_swamped;
    if (s->swamped_only)        /* a backend may count more than it is asked to */
        return;
    s->mul_inexact = c->mul_inexact;
    s->mul_underflow = c->mul_underflow;
    s->mul_overflow = c->mul_overflow;
    s->partly_swamped = c->partly_swamped;
    s->sum_overflow = c->sum_overflow;
    s->outer_partly = c->outer_partly;
}

bool limber_statistics_fill(limber_context *ctx, const struct problem *p,
                            const struct unit_counts *counts, limber_statistics *s,
                            struct diag *d)
{
    limber_statistics all = { .compare = s->compare, .swamped_only = s->swamped_only };
    limber_distribution wide = { 0 };
    struct distance far = { 0 };
    struct copies c;
    bool ok = copies_new(&c, p, s->compare, d);

    for (int64_t g = 0; ok && g < p->groups; g++) {
        ok = load_side(p, 0, g, c.a, c.la, &all.a, d) && load_side(p, 1, g, c.b, c.lb, &all.b, d);
        if (ok && s->compare)
            ok = multiply(ctx, p, c.a, c.b, c.exact, d) && multiply(ctx, p, c.la, c.lb, c.wide, d);
        if (ok)
            all.nonzero += nonzero_products(p, &c);
        if (ok)
            compare(p, g, &c, &all.result, &wide, &far);
    }
    copies_free(&c);
    if (!ok)
        return false;
    take_counts(&all, p, counts);
    conclude(p, &all, &wide, &far);
    *s = all;
    return true;
}
