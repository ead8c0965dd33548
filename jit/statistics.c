/* SPDX-License-Identifier: BSD-3-Clause
 * Statistics of a simulated product: the kernel's counts, the distributions of operands and result,
 * and the distance of the result from the exact one. */
#include "jit/engine.h"

#include "limber/research.h"

#include "ir/unit/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- distributions of magnitudes ----------------------------------------------------------- */

/* Adds x to a distribution.  Mean and variance are running values (Welford's method); until
 * finish_distribution is called, `variance` is a sum of squares. */
static void add_value(limber_distribution *d, double x)
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

/* Turns `variance` from a sum of squares into the variance. */
static void finish_distribution(limber_distribution *d)
{
    int64_t n = d->count - d->special;

    d->variance = n > 0 ? d->variance / (double)n : 0;
}

/* ---- operands as matrices of doubles --------------------------------------------------------- */

/* Copies of one group's data: A and B as lines of k doubles, as given (a, b) and as the unit loads
 * them (la, lb); exact, wide: the products a b and la lb in binary64. */
struct copies {
    double *a, *b, *la, *lb;
    double *exact, *wide;
    int64_t *nonzero[2]; /* [A or B][p]: number of lines whose element p is finite and not zero */
};

/* Allocates rows x cols numbers.  NULL if memory runs out, or there are too many. */
static double *alloc_doubles(int64_t rows, int64_t cols)
{
    size_t n;

    if (__builtin_mul_overflow((size_t)rows, (size_t)(cols ? cols : 1), &n) ||
        n > SIZE_MAX / sizeof(double))
        return NULL;
    return malloc(n * sizeof(double));
}

/* Allocates the copies that the statistics need. compare: also the two products in binary64. */
static bool copies_new(struct copies *c, const struct problem *p, bool compare, struct diag *d)
{
    memset(c, 0, sizeof *c);
    c->a = alloc_doubles(p->m, p->k);
    c->b = alloc_doubles(p->n, p->k);
    c->la = alloc_doubles(p->m, p->k);
    c->lb = alloc_doubles(p->n, p->k);
    for (int i = 0; i < 2; i++)
        c->nonzero[i] = calloc((size_t)p->k + 1, sizeof *c->nonzero[i]);
    if (compare) {
        c->exact = alloc_doubles(p->m, p->n);
        c->wide = alloc_doubles(p->m, p->n);
    }
    return (c->a && c->b && c->la && c->lb && c->nonzero[0] && c->nonzero[1] &&
            (!compare || (c->exact && c->wide))) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the statistics");
}

/* Frees all arrays of *c. */
static void copies_free(struct copies *c)
{
    free(c->a);
    free(c->b);
    free(c->la);
    free(c->lb);
    free(c->exact);
    free(c->wide);
    free(c->nonzero[0]);
    free(c->nonzero[1]);
}

/* Arguments of load_line.  Lines are loaded in parallel, but added to a distribution in order, so
 * that the sums do not depend on the number of threads. */
struct loading {
    const struct problem *p;
    struct view v;
    limber_format f;
    /* 0: A; 1: B */
    int side;
    double *given, *loaded;
    struct loaded *line; /* [worker][k]: scratch */
    /* the unit rounds operands when it loads them */
    bool rounds;
};

/* Returns an element as the nearest double. */
static double element_value(limber_format f, const char *at)
{
    double x;
    float y;

    if (limber_format_equal(f, LIMBER_F64)) { /* the usual formats need no conversion */
        memcpy(&x, at, sizeof x);
        return x;
    }
    if (limber_format_equal(f, LIMBER_F32)) {
        memcpy(&y, at, sizeof y);
        return y;
    }
    return limber_format_value(f, at);
}

/* Task: converts line i to doubles, both as given and as the unit loads it. */
static void load_line(void *arg, int64_t i, int worker)
{
    const struct loading *l = arg;
    int64_t k = l->p->k;
    struct loaded *line = l->line + worker * k;
    double *given = l->given + i * k, *loaded = l->loaded + i * k;

    for (int64_t q = 0; q < k; q++) {
        const char *at = limber_view_at(&l->v, i, q, l->f.size);

        given[q] = at ? element_value(l->f, at) : 0;
    }
    if (l->rounds)
        limber_unit_load(l->p->contract.unit, l->side, given, k, line);
    for (int64_t q = 0; q < k; q++)
        loaded[q] = l->rounds ? (double)line[q].value : given[q];
}

/* Adds all elements to the distribution.  Adds to nonzero[q] the number of lines whose element q is
 * finite and not zero. */
static void add_lines(limber_distribution *d, int64_t *nonzero, const double *x, int64_t lines,
                      int64_t k)
{
    for (int64_t i = 0; i < lines; i++)
        for (int64_t q = 0; q < k; q++) {
            add_value(d, x[i * k + q]);
            nonzero[q] += x[i * k + q] != 0 && isfinite(x[i * k + q]);
        }
}

/* Loads one operand of a group (side 0: A, 1: B), and adds its elements to the distribution. */
static bool load_side(limber_context *ctx, const struct problem *p, int side, int64_t group,
                      struct copies *c, limber_distribution *d, int64_t *nonzero, struct diag *diag)
{
    struct runner runner = limber_pool_runner(ctx->pool);
    limber_format acc = p->contract.unit->acc.format;
    int64_t lines = side ? p->n : p->m;
    struct loading l = {
        .p = p,
        .v = side ? limber_group_b(p, group) : limber_group_a(p, group),
        .f = side ? p->fb : p->fa,
        .side = side,
        .given = side ? c->b : c->a,
        .loaded = side ? c->lb : c->la,
        .line = malloc((size_t)(p->k + 1) * (size_t)runner.workers * sizeof *l.line),
        .rounds = acc.kind != LIMBER_KIND_INT && !limber_format_equal(acc, LIMBER_F64),
    };

    if (!l.line)
        return limber_fail(diag, LIMBER_STATUS_NO_MEMORY, "no memory for the statistics");
    runner.run(runner.self, lines, load_line, &l);
    free(l.line);
    add_lines(d, nonzero, l.loaded, lines, p->k);
    return true;
}

/* ---- comparison with a product in FP64 ------------------------------------------------------- */

/* Computes to = a b in binary64. a and b have contiguous elements along k. */
static bool multiply_in_binary64(limber_context *ctx, const struct problem *p, const double *a,
                                 const double *b, double *to, struct diag *d)
{
    const struct problem q = {
        .contract = { .promise = LIMBER_CONTRACT_NATIVE, .scheme = "native" },
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .groups = 1,
        .fa = LIMBER_F64,
        .fb = LIMBER_F64,
        .fc = LIMBER_F64,
        .a = { a, p->k, 1, NULL },
        .b = { b, p->k, 1, NULL },
        .c = { .data = to, .row = p->n, .col = 1, .inner = p->n > 0 ? p->n : 1 },
    };

    return limber_engine_run_plain(ctx, &q, NULL, d);
}

/* Sums of |c - exact| and of |exact| over the finite elements, and their number. */
struct distance {
    double far, size;
    int64_t count;
};

/* Adds C to its distribution.  If there is a product in binary64, also compares C with that
 * product, and adds the product of the loaded operands to its distribution. */
static void compare_results(const struct problem *p, int64_t group, const struct copies *c,
                            limber_distribution *result, limber_distribution *wide,
                            struct distance *far)
{
    struct output_view at = limber_group_c(p, group);

    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double x = element_value(p->fc, limber_output_at(&at, i, j, p->fc.size));

            add_value(result, x);
            if (!c->exact)
                continue;
            add_value(wide, c->wide[i * p->n + j]);
            if (!isfinite(x) || !isfinite(c->exact[i * p->n + j]))
                continue;
            far->far += fabs(x - c->exact[i * p->n + j]);
            far->size += fabs(c->exact[i * p->n + j]);
            far->count++;
        }
}

/* Computes the statistics from the sums over all groups. */
static void finish_comparison(const struct problem *p, limber_statistics *s,
                              limber_distribution *wide, const struct distance *far)
{
    bool plain = !p->alpha && !p->beta && s->compare;

    finish_distribution(&s->a);
    finish_distribution(&s->b);
    finish_distribution(&s->result);
    finish_distribution(wide);
    s->predicted = limber_unit_retention(p->contract.unit, p->k);
    s->variance_wide = s->compare ? wide->variance : NAN;
    s->retention = plain && wide->variance > 0 ? s->result.variance / wide->variance : NAN;
    s->distance = plain && far->count ? far->far / (double)far->count : NAN;
    s->relative = plain && far->size > 0 ? far->far / far->size : NAN;
}

/* Copies the kernel's counts to the statistics. */
static void copy_counts(limber_statistics *s, const struct problem *p, const struct unit_counts *c)
{
    s->products = p->m * p->n * p->k * p->groups;
    s->swamped = c->swamped;
    s->outer_sums = c->outer_sums;
    s->outer_swamped = c->outer_swamped;
    if (s->swamped_only) /* a backend may count more than was asked for */
        return;
    s->mul_inexact = c->mul_inexact;
    s->mul_underflow = c->mul_underflow;
    s->mul_overflow = c->mul_overflow;
    s->partly_swamped = c->partly_swamped;
    s->sum_overflow = c->sum_overflow;
    s->outer_partly = c->outer_partly;
}

/* Fills *s with statistics of a simulated product: of its operands and counts and, if
 * s->compare, of its error against products in higher precision. */
bool limber_statistics_fill(limber_context *ctx, const struct problem *p,
                            const struct unit_counts *counts, limber_statistics *s, struct diag *d)
{
    limber_statistics all = { .compare = s->compare, .swamped_only = s->swamped_only };
    limber_distribution wide = { 0 };
    struct distance far = { 0 };
    struct copies c;
    bool ok = copies_new(&c, p, s->compare, d);

    limber_pool_enter(ctx->pool);
    for (int64_t g = 0; ok && g < p->groups; g++) {
        memset(c.nonzero[0], 0, (size_t)p->k * sizeof *c.nonzero[0]);
        memset(c.nonzero[1], 0, (size_t)p->k * sizeof *c.nonzero[1]);
        ok = load_side(ctx, p, 0, g, &c, &all.a, c.nonzero[0], d) &&
             load_side(ctx, p, 1, g, &c, &all.b, c.nonzero[1], d);
        if (ok && s->compare)
            ok = multiply_in_binary64(ctx, p, c.a, c.b, c.exact, d) &&
                 multiply_in_binary64(ctx, p, c.la, c.lb, c.wide, d);
        for (int64_t q = 0; ok && q < p->k; q++)
            all.nonzero += c.nonzero[0][q] * c.nonzero[1][q];
        if (ok)
            compare_results(p, g, &c, &all.result, &wide, &far);
    }
    limber_pool_leave(ctx->pool);
    copies_free(&c);
    if (!ok)
        return false;
    copy_counts(&all, p, counts);
    finish_comparison(p, &all, &wide, &far);
    *s = all;
    return true;
}
