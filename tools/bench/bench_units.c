/* SPDX-License-Identifier: BSD-3-Clause
 * Measuring simulated units: the unit, the native FP32 product of the same matrices, and CPFloat in
 * turn.  A row is timed only when its corner has the interpreter's bits, and CPFloat's result the
 * same bits wherever it is a number. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CORNER = 8, MOST_RUNS = 99, SIDES = 3 };
static const double budget = 20;    /* seconds; beyond it three runs are enough */

struct field {
    const struct unit_work *w;
    limber_unit unit;
    limber_contract contract;
    limber_statistics statistics;
    float *a, *b, *c, *peer;
    bool with_peer;
    limber_report report;
    double seconds[SIDES][MOST_RUNS], run_seconds[MOST_RUNS];
};

static void fill(float *x, size_t count, uint64_t state)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (float)random_normal(&state);
}

static bool multiply(struct field *f, limber_context *ctx, const limber_contract *how, int m, int n,
                     float *c, limber_report *report)
{
    limber_format single = format_of("f32");
    int64_t k = f->w->n;
    limber_matrix a = { f->a, single, k, 1 }, b = { f->b, single, k, 1 }, y = { c, single, n, 1 };

    if (limber_gemm(ctx, how, m, n, k, NULL, a, b, NULL, y, report) == LIMBER_STATUS_OK)
        return true;
    complain("bench: %s, n = %d: %s", f->w->what, f->w->n, limber_error_text());
    return false;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool differs(const struct field *f, const char *from, int i, int j, float got, float wanted)
{
    complain("bench: %s, n = %d: element (%d,%d) is %a, by %s %a", f->w->what, f->w->n, i, j,
             (double)got, from, (double)wanted);
    return true;
}

/* The counts of the corner, on the context that is measured, are those of `wanted`. */
static bool check_counts(struct field *f, const limber_statistics *wanted)
{
    float corner[CORNER * CORNER];
    const limber_statistics *got = &f->statistics;

    if (!f->w->counts)
        return true;
    if (!multiply(f, f->w->ctx, &f->contract, CORNER, CORNER, corner, NULL))
        return false;
    if (got->nonzero == wanted->nonzero && got->mul_inexact == wanted->mul_inexact &&
        got->swamped == wanted->swamped && got->partly_swamped == wanted->partly_swamped)
        return true;
    complain("bench: %s, n = %d: %lld sums of the corner are swamped, by interp %lld", f->w->what,
             f->w->n, (long long)got->swamped, (long long)wanted->swamped);
    return false;
}

static bool check_corner(struct field *f)
{
    limber_statistics counts = { .swamped_only = f->w->counts == UNIT_swamped };
    limber_contract plain = { .promise = LIMBER_CONTRACT_SIMULATE,
                              .unit = &f->unit,
                              .statistics = f->w->counts ? &counts : NULL };
    limber_config config = { .backend = "interp", .threads = 1, .cache_dir = "" };
    limber_context *ctx = NULL;
    float corner[CORNER * CORNER];
    bool ok = limber_create(&ctx, &config) == LIMBER_STATUS_OK;

    if (!ok)
        complain("bench: %s", limber_error_text());
    ok = ok && multiply(f, ctx, &plain, CORNER, CORNER, corner, NULL);
    for (int i = 0; ok && i < CORNER; i++)
        for (int j = 0; ok && j < CORNER; j++) {
            const float *got = &f->c[(size_t)i * (size_t)f->w->n + (size_t)j];

            ok = !memcmp(got, &corner[i * CORNER + j], sizeof *got) ||
                 !differs(f, "interp", i, j, *got, corner[i * CORNER + j]);
        }
    context_end(ctx);
    return ok && check_counts(f, &counts);
}

static bool check_peer(const struct field *f)
{
    int n = f->w->n;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            size_t at = (size_t)i * (size_t)n + (size_t)j;

            if (f->c[at] != f->peer[at] && !(isnan(f->c[at]) && isnan(f->peer[at])) &&
                differs(f, "CPFloat", i, j, f->c[at], f->peer[at]))
                return false;
        }
    return true;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool call(struct field *f, int side)
{
    static const limber_contract native = { .promise = LIMBER_CONTRACT_NATIVE };
    int n = f->w->n;

    if (side == 0)
        return multiply(f, f->w->ctx, &f->contract, n, n, f->c, &f->report);
    if (side == 1)
        return multiply(f, f->w->ctx, &native, n, n, f->peer, NULL);
    return cpfloat_gemm(&(struct call){ .n = n, .a = f->a, .b = f->b, .c = f->peer },
                        f->unit.acc.format, f->unit.group) ||
           (complain("bench: CPFloat refuses %s", f->w->what), false);
}

static bool time_one(struct field *f, int side, double *seconds)
{
    double start = now();
    int calls = 0;

    do {
        if (!call(f, side))
            return false;
        calls++;
        *seconds = now() - start;
    } while (*seconds < 5e-3);
    *seconds /= calls;
    return true;
}

/* CPFloat knows what rounds every product and every sum in one format to nearest.  In binary32
 * itself it leaves both to the compiler, which may fuse them. */
static bool takes_part(const struct field *f)
{
    const limber_unit *u = &f->unit;

    return cpfloat_name() && f->w->threads == 1 && f->w->n <= 512 && !f->w->counts &&
           u->acc.format.frac_bits < 23 && u->block == 1 && u->mul.format.kind &&
           u->acc.rounding == LIMBER_ROUND_NEAREST &&
           limber_format_equal(u->mul.format, u->acc.format) &&
           limber_format_equal(u->a.format, u->acc.format) &&
           (!u->group || limber_format_equal(u->outer.format, u->acc.format));
}

static bool prepare(struct field *f, const struct unit_work *w)
{
    size_t count = (size_t)w->n * (size_t)w->n;

    f->w = w;
    f->statistics.swamped_only = w->counts == UNIT_swamped;
    if (limber_unit_parse(w->words, &f->unit) != LIMBER_STATUS_OK)
        return complain("bench: %s: %s", w->what, limber_error_text()), false;
    f->contract = (limber_contract){ .promise = LIMBER_CONTRACT_SIMULATE,
                                     .unit = &f->unit,
                                     .statistics = w->counts ? &f->statistics : NULL };
    f->a = malloc(count * sizeof *f->a);
    f->b = malloc(count * sizeof *f->b);
    f->c = malloc(count * sizeof *f->c);
    f->peer = malloc(count * sizeof *f->peer);
    if (!f->a || !f->b || !f->c || !f->peer)
        return complain("bench: %s, n = %d: not enough memory", w->what, w->n), false;
    fill(f->a, count, 1);
    fill(f->b, count, 2);
    f->with_peer = takes_part(f);
    return true;
}

static bool warm_up(struct field *f)
{
    if (!call(f, 1) || !call(f, 0) || !check_corner(f))
        return false;
    return !f->with_peer || (call(f, 2) && check_peer(f));
}

static bool all_runs(struct field *f, struct outcome *o)
{
    static const struct peer native = { .name = "native FP32" };
    static struct peer peer;
    const char *names[SIDES] = { "Limber", native.name, cpfloat_name() };
    double began = now();
    int runs = 0;

    peer.name = names[2];
    for (; runs < f->w->runs && runs < MOST_RUNS; runs++) {
        if (runs >= 3 && now() - began > budget)
            break;
        for (int side = 0; side < 2 + f->with_peer; side++)
            if (!time_one(f, side, &f->seconds[side][runs]))
                return false;
        f->run_seconds[runs] = f->report.seconds_run;
    }
    *o = (struct outcome){ .count = 2 + f->with_peer, .runs = runs, .report = f->report };
    for (int side = 0; side < o->count; side++) {
        struct result *r = &o->r[side];

        r->name = names[side];
        r->peer = side == 0 ? NULL : side == 1 ? &native : &peer;
        r->median = median(f->seconds[side], runs, &r->best);
    }
    o->median_run = median(f->run_seconds, runs, &o->best_run);
    return true;
}

bool measure_unit(const struct unit_work *w, struct outcome *o)
{
    struct field *f = calloc(1, sizeof *f);
    bool ok = f || !complain("bench: out of memory");

    ok = ok && prepare(f, w) && warm_up(f) && all_runs(f, o);
    if (f) {
        free(f->a);
        free(f->b);
        free(f->c);
        free(f->peer);
    }
    free(f);
    return ok;
}
