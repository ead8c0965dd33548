/* SPDX-License-Identifier: BSD-3-Clause
 * Measuring what is done to operands: products with one prepared beside plain ones, compared, and
 * the scan beside reading the same memory. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 99 };

static bool no_memory(const char *what)
{
    return !complain("bench: %s: not enough memory", what);
}

/* ---- prepared operands ----------------------------------------------------------------------- */

struct pair {
    const struct prepared_work *w;
    double *a, *b, *c[2];
    limber_prepared *operand;
};

static bool multiply(const struct pair *x, bool prepared, limber_report *report)
{
    const struct prepared_work *w = x->w;
    const limber_format f = format_of("f64");
    const limber_matrix a = { x->a, f, w->k, 1 }, b = { x->b, f, w->n, 1 };
    const limber_matrix c = { x->c[prepared], f, w->n, 1 };

    if (limber_gemm_prepared(w->ctx, &w->contract, w->m, w->n, w->k, NULL,
                             prepared ? x->operand : NULL, a, NULL, b, NULL, c,
                             report) == LIMBER_STATUS_OK)
        return true;
    complain("bench: %s: %s", w->what, limber_error_text());
    return false;
}

static bool time_one(const struct pair *x, bool prepared, double *seconds)
{
    double start = now();
    int calls = 0;

    do {
        if (!multiply(x, prepared, NULL))
            return false;
        calls++;
        *seconds = now() - start;
    } while (*seconds < 20e-3);
    *seconds /= calls;
    return true;
}

static bool begin(struct pair *x, limber_report *report)
{
    const struct prepared_work *w = x->w;
    size_t count_a = (size_t)(w->m * w->k), count_b = (size_t)(w->k * w->n);
    size_t count_c = (size_t)(w->m * w->n);
    uint64_t state = 1;

    x->a = malloc(count_a * sizeof *x->a);
    x->b = malloc(count_b * sizeof *x->b);
    x->c[0] = malloc(count_c * sizeof *x->c[0]);
    x->c[1] = malloc(count_c * sizeof *x->c[1]);
    if (!x->a || !x->b || !x->c[0] || !x->c[1])
        return no_memory(w->what);
    for (size_t i = 0; i < count_a; i++)
        x->a[i] = random_normal(&state);
    for (size_t i = 0; i < count_b; i++)
        x->b[i] = random_normal(&state);
    if (limber_prepare(w->ctx, (limber_matrix){ x->a, format_of("f64"), w->k, 1 }, w->m, w->k, 1,
                       NULL, &x->operand) != LIMBER_STATUS_OK)
        return complain("bench: %s: %s", w->what, limber_error_text()), false;
    if (!multiply(x, false, report) || !multiply(x, true, report))
        return false;
    return !memcmp(x->c[0], x->c[1], count_c * sizeof *x->c[0]) ||
           (complain("bench: %s: the prepared operand gives other bits", w->what), false);
}

bool measure_prepared(const struct prepared_work *w, struct outcome *o)
{
    struct pair x = { .w = w };
    double seconds[2][MOST_RUNS];
    bool ok;

    *o = (struct outcome){ .count = 2, .runs = w->runs };
    ok = begin(&x, &o->report);
    for (int i = 0; ok && i < w->runs; i++)
        ok = time_one(&x, true, &seconds[0][i]) && time_one(&x, false, &seconds[1][i]);
    for (int i = 0; ok && i < 2; i++) {
        o->r[i].name = i ? "plain calls" : "prepared";
        o->r[i].median = median(seconds[i], w->runs, &o->r[i].best);
    }
    limber_prepared_free(x.operand);
    free(x.a);
    free(x.b);
    free(x.c[0]);
    free(x.c[1]);
    return ok;
}

/* ---- the scan -------------------------------------------------------------------------------- */

/* One scan of a, rows of whose lines lie along k or across it, as the report of a plan tells it. */
static bool scan(const struct scan_work *w, void *a, int64_t lines, double *seconds)
{
    static const limber_contract bits = { .promise = LIMBER_CONTRACT_BITS, .bits = 40 };
    const int64_t k = SCAN_LENGTH;
    double column[SCAN_LENGTH] = { 1 };
    const limber_matrix x = { a, w->f, w->across ? 1 : k, w->across ? lines : 1 };
    const limber_matrix y = { column, format_of("f64"), 1, 1 };
    const limber_matrix z = { NULL, format_of("f64"), 1, 1 };
    limber_report report;
    char *text = NULL;
    bool ok = limber_gemm_plan(w->ctx, &bits, lines, 1, k, NULL, x, y, NULL, z, &text, &report) ==
              LIMBER_STATUS_OK;

    limber_free(text);
    if (!ok)
        return complain("bench: %s: %s", w->what, limber_error_text()), false;
    *seconds = report.seconds_scan;
    return true;
}

static void fill(const struct scan_work *w, void *a)
{
    size_t count = w->bytes / w->f.size;
    uint64_t state = 1;

    for (size_t i = 0; i < count; i++) {
        double x = (double)(random_bits(&state) >> 11) * 0x1p-53 - 0.5;

        if (w->f.size == 8)
            ((double *)a)[i] = x;
        else
            ((float *)a)[i] = (float)x;
    }
}

bool measure_scan(const struct scan_work *w, struct outcome *o)
{
    void *a = aligned_alloc(64, w->bytes);
    int64_t lines = (int64_t)(w->bytes / w->f.size) / SCAN_LENGTH;
    double seconds[2][MOST_RUNS];
    bool ok = a || no_memory(w->what);

    if (ok)
        fill(w, a);
    *o = (struct outcome){ .count = 2, .runs = w->runs };
    for (int i = -1; ok && i < w->runs; i++) { /* the first warms up */
        ok = scan(w, a, lines, &seconds[0][i < 0 ? 0 : i]);
        seconds[1][i < 0 ? 0 : i] = limits_read(w->threads, a, w->bytes);
    }
    for (int i = 0; ok && i < 2; i++) {
        o->r[i].name = i ? "reading" : "scan";
        o->r[i].median = median(seconds[i], w->runs, &o->r[i].best);
    }
    free(a);
    return ok;
}
