/* SPDX-License-Identifier: BSD-3-Clause
 * Measuring products of data that is chosen to be slow, and the same of plain data in turn. */
#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_RUNS = 99 };

struct hostile {
    const struct hostile_work *w;
    double *a, *b, *c;
};

static double draw(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-52 - 1;
}

static int binade(uint64_t *state, int binades)
{
    return (int)(random_bits(state) % (uint64_t)binades) - binades / 2;
}

static void fill(const struct hostile *x, bool plain)
{
    size_t count = (size_t)x->w->n * (size_t)x->w->n;
    uint64_t state = 7;

    for (size_t i = 0; i < count; i++) {
        int binades = plain ? 1 : x->w->binades;
        double u = draw(&state), v = draw(&state);

        x->a[i] = ldexp(u, binade(&state, binades));
        x->b[i] = ldexp(v, binade(&state, binades));
        if (!plain && x->w->special && random_bits(&state) % (uint64_t)x->w->special == 0)
            x->a[i] = random_bits(&state) % 2 ? NAN : INFINITY;
    }
}

static bool one(const struct hostile *x, bool plain, limber_report *report, double *seconds)
{
    const limber_format f = format_of("f64");
    int n = x->w->n;
    double start;

    fill(x, plain);
    start = now();
    if (limber_gemm(x->w->ctx, plain ? &x->w->plain : &x->w->contract, n, n, n, NULL,
                    (limber_matrix){ x->a, f, n, 1 }, (limber_matrix){ x->b, f, n, 1 }, NULL,
                    (limber_matrix){ x->c, f, n, 1 }, report) != LIMBER_STATUS_OK)
        return complain("bench: %s: %s", x->w->what, limber_error_text()), false;
    *seconds = now() - start;
    return true;
}

bool measure_hostile(const struct hostile_work *w, struct outcome *o)
{
    size_t bytes = (size_t)w->n * (size_t)w->n * sizeof(double);
    struct hostile x = { w, malloc(bytes), malloc(bytes), malloc(bytes) };
    double seconds[2][MOST_RUNS], ignored;
    limber_report plain;
    bool ok = x.a && x.b && x.c;

    *o = (struct outcome){ .count = 2, .runs = w->runs };
    if (!ok)
        complain("bench: %s: not enough memory", w->what);
    ok = ok && one(&x, false, &o->report, &ignored) && one(&x, true, &plain, &ignored);
    for (int i = 0; ok && i < w->runs; i++)
        ok = one(&x, false, &o->report, &seconds[0][i]) && one(&x, true, &plain, &seconds[1][i]);
    for (int i = 0; ok && i < 2; i++) {
        o->r[i].name = i ? "plain data, correct" : "hostile";
        o->r[i].median = median(seconds[i], w->runs, &o->r[i].best);
    }
    free(x.a);
    free(x.b);
    free(x.c);
    return ok;
}
