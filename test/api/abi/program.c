/* SPDX-License-Identifier: BSD-3-Clause
 * A program of version 0.2: compiled against that version's headers, run with the newest
 * library. */
#include <limber/interpose.h>
#include <limber/limber.h>
#include <limber/research.h>

#include <stdio.h>
#include <string.h>

enum { N = 6 };

static int failures;

/* Counts a failure, and prints it, unless `good`. */
static void check(int good, const char *what)
{
    if (good)
        return;
    printf("wrong: %s: %s\n", what, limber_error_text());
    failures++;
}

/* Defines a structure followed by guard bytes that the library must not change. */
#define GUARDED(type) \
    struct { \
        type it; \
        unsigned char guard[256]; \
    }
#define GUARD(x) memset((x).guard, 0x5a, sizeof(x).guard)
#define INTACT(x) intact((x).guard, sizeof(x).guard)

/* True if the library has left all guard bytes unchanged. */
static int intact(const unsigned char *guard, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (guard[i] != 0x5a)
            return 0;
    return 1;
}

/* Calls the functions for products, plans and inspections with structures of the headers' sizes. */
static void products(limber_context *ctx)
{
    static double a[N * N], b[N * N], c[N * N];
    GUARDED(limber_report) report = { .it = LIMBER_REPORT_INIT };
    GUARDED(limber_cut) cut = { .it = LIMBER_CUT_INIT };
    GUARDED(limber_inspection) found = { .it = LIMBER_INSPECTION_INIT };
    limber_part part[LIMBER_PARTS];
    limber_contract correct = LIMBER_CONTRACT_INIT;
    limber_prepare_config config = LIMBER_PREPARE_CONFIG_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_batch batch = LIMBER_BATCH_INIT;
    limber_prepared *prepared = NULL;
    size_t least, best;
    char *text = NULL;

    GUARD(report);
    GUARD(cut);
    GUARD(found);
    for (int i = 0; i < N * N; i++) {
        a[i] = i;
        b[i] = i % (N + 1) == 0;
    }
    correct.promise = LIMBER_CONTRACT_CORRECT;
    report.it.part = part;
    report.it.part_room = LIMBER_PARTS;
    p.m = p.n = p.k = N;
    p.a = (limber_matrix){ a, LIMBER_F64, N, 1 };
    p.b = (limber_matrix){ b, LIMBER_F64, N, 1 };
    p.c = (limber_output){ c, LIMBER_F64, N, 1 };
    p.contract = &correct;
    check(limber_run(ctx, &p, &report.it) == LIMBER_STATUS_OK, "limber_run");
    check(memcmp(a, c, sizeof c) == 0, "a product");
    check(report.it.scheme[0] && report.it.bound == 0 && INTACT(report), "a report");
    check(limber_plan(ctx, &p, &text, &report.it) == LIMBER_STATUS_OK && text, "limber_plan");
    limber_free(text);
    check(limber_workspace(ctx, &p, &least, &best) == LIMBER_STATUS_OK, "limber_workspace");
    check(limber_explain(ctx, &p, &cut.it, NULL) == LIMBER_STATUS_OK && INTACT(cut), "a cut");
    limber_cut_free(&cut.it);
    check(INTACT(cut), "limber_cut_free");
    check(limber_inspect(ctx, p.a, N, N, LIMBER_SIDE_A, &found.it) == LIMBER_STATUS_OK &&
              found.it.lines == N && INTACT(found),
          "limber_inspect");
    limber_inspection_free(&found.it);
    check(INTACT(found), "limber_inspection_free");
    check(limber_prepare(ctx, p.a, N, N, LIMBER_SIDE_A, &config, &prepared) == LIMBER_STATUS_OK,
          "limber_prepare");
    batch.count = 1;
    p.prepared_a = prepared;
    p.batch = &batch;
    memset(c, 0, sizeof c);
    check(limber_run(ctx, &p, NULL) == LIMBER_STATUS_OK && memcmp(a, c, sizeof c) == 0,
          "a prepared batch");
    limber_prepared_free(prepared);
}

/* Parses a unit and multiplies on it; the library must not write past a structure's old size. */
static void units(limber_context *ctx)
{
    static float a[N * N], b[N * N], c[N * N];
    GUARDED(limber_unit) unit = { .it = LIMBER_UNIT_INIT };
    GUARDED(limber_statistics) counts = { .it = LIMBER_STATISTICS_INIT };
    limber_contract k = LIMBER_CONTRACT_INIT;

    GUARD(unit);
    GUARD(counts);
    for (int i = 0; i < N * N; i++)
        a[i] = b[i] = 1;
    check(limber_unit_parse("in=e5m2 mul=e5m2 acc=e5m2", &unit.it) == LIMBER_STATUS_OK &&
              INTACT(unit),
          "limber_unit_parse");
    k.promise = LIMBER_CONTRACT_SIMULATE;
    k.unit = &unit.it;
    k.statistics = &counts.it;
    check(limber_gemm(ctx, &k, N, N, N, NULL, (limber_matrix){ a, LIMBER_F32, N, 1 },
                      (limber_matrix){ b, LIMBER_F32, N, 1 }, NULL,
                      (limber_output){ c, LIMBER_F32, N, 1 }, NULL) == LIMBER_STATUS_OK &&
              counts.it.products == N * N * N && INTACT(counts),
          "a simulated product");
    check(limber_unit_retention(&unit.it, 100) > 0, "limber_unit_retention");
}

/* Calls the functions for convolutions. */
static void images(limber_context *ctx)
{
    static float x[N * N], w[1] = { 2 }, y[N * N];
    limber_conv conv = LIMBER_CONV_INIT;

    x[7] = 3;
    conv.n = conv.c = conv.o = conv.r = conv.s = conv.groups = 1;
    conv.h = conv.w = N;
    conv.stride[0] = conv.stride[1] = conv.dilate[0] = conv.dilate[1] = 1;
    check(limber_conv2d(ctx, NULL, &conv, NULL, x, LIMBER_F32, w, LIMBER_F32, NULL, y, LIMBER_F32,
                        NULL) == LIMBER_STATUS_OK &&
              y[7] == 6 && y[8] == 0,
          "a convolution");
}

int main(void)
{
    limber_config config = LIMBER_CONFIG_INIT;
    GUARDED(limber_cache_info) info = { .it = LIMBER_CACHE_INFO_INIT };
    limber_context *ctx = NULL;

    GUARD(info);
    config.cache_dir = "";
    config.threads = 1;
    check(limber_create(&ctx, &config) == LIMBER_STATUS_OK, "limber_create");
    if (!ctx)
        return 1;
    check(limber_cache_describe(ctx, &info.it) == LIMBER_STATUS_OK && INTACT(info),
          "limber_cache_describe");
    products(ctx);
    units(ctx);
    images(ctx);
    limber_destroy(ctx);
    return failures != 0;
}
