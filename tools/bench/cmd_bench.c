/* SPDX-License-Identifier: BSD-3-Clause
 * limber bench: ratios to other libraries and to the machine, all from one run.
 * Own calls and peers' alternate; figures are medians, the best of the runs stands beside. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <limber/environment.h>

#include <cjson/cJSON.h>
#include <ftw.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREAD_COUNTS = 8, MOST_THREADS = 256 };

struct bench {
    limber_context *ctx;
    struct own own;
    struct library *libraries;
    int library_count, runs, threads;
    bool full, first;       /* first: of several thread counts */
    const char *only;       /* words of --rows; NULL: all */
    cJSON *rows;            /* NULL: text */
    double int8;            /* the machine's byte products per second; 0: not measured yet */
    const char *int8_by;
};

#define KIND(k) (1u << (k))

static const limber_contract native = { .promise = LIMBER_CONTRACT_NATIVE };
static const limber_contract correct = { .promise = LIMBER_CONTRACT_CORRECT };
static const limber_contract exact = { .promise = LIMBER_CONTRACT_EXACT };

/* ---- output ---------------------------------------------------------------------------------- */

static bool on_terminal(const struct bench *b)
{
    return isatty(2) && !b->rows;
}

static void note(const struct bench *b, const char *what, int n)
{
    if (on_terminal(b))
        fprintf(stderr, "\r%s n=%d ...\033[K", what, n);
}

/* A row of the table; higher values are better unless the unit is a time or a size. */
struct row {
    const char *group, *work, *scheme, *unit;
    int n;
    double value, best;
    double ratio; /* 0: none */
    const char *of;
    char note[64]; /* more about the ratio */
    double share; /* of the time that the byte products need at their peak; 0 */
    const struct outcome *o; /* NULL: none; for the ratios to all peers */
};

static void json_peers(cJSON *j, const struct outcome *o)
{
    cJSON *list = cJSON_AddArrayToObject(j, "seconds");

    cJSON_AddNumberToObject(j, "runs", o->runs);
    for (int i = 0; i < o->count; i++) {
        const struct result *r = &o->r[i];
        cJSON *x = cJSON_CreateObject();

        cJSON_AddStringToObject(x, "name", r->name);
        cJSON_AddNumberToObject(x, "median", r->median);
        cJSON_AddNumberToObject(x, "best", r->best);
        if (r->peer) {
            cJSON_AddNumberToObject(x, "ratio", r->median / o->r[0].median);
            cJSON_AddNumberToObject(x, "ratio_of_bests", r->best / o->r[0].best);
            cJSON_AddNumberToObject(x, "difference_of_allowed", r->error);
        }
        cJSON_AddItemToArray(list, x);
    }
}

static void json_row(struct bench *b, const struct row *r)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "group", r->group);
    cJSON_AddStringToObject(j, "work", r->work);
    cJSON_AddNumberToObject(j, "n", r->n);
    cJSON_AddNumberToObject(j, "threads", b->threads);
    cJSON_AddStringToObject(j, "scheme", r->scheme);
    cJSON_AddNumberToObject(j, "value", r->value);
    cJSON_AddNumberToObject(j, "best", r->best);
    cJSON_AddStringToObject(j, "unit", r->unit);
    if (r->ratio > 0) {
        cJSON_AddNumberToObject(j, "ratio", r->ratio);
        cJSON_AddStringToObject(j, "ratio_to", r->of);
    }
    if (r->share > 0)
        cJSON_AddNumberToObject(j, "products_at_peak", r->share);
    if (r->o)
        json_peers(j, r->o);
    cJSON_AddItemToArray(b->rows, j);
}

static void print_row(struct bench *b, const struct row *r)
{
    char n[16] = "";

    if (on_terminal(b))
        fprintf(stderr, "\r\033[K");
    if (b->rows) {
        json_row(b, r);
        return;
    }
    if (r->n)
        snprintf(n, sizeof n, "%d", r->n);
    printf("%-46s %5s  %-12s %9.1f %9.1f %-7s", r->work, n, r->scheme, r->value, r->best, r->unit);
    if (r->ratio > 0)
        printf(r->ratio < 0.1 ? " %6.3f x %s" :
               r->ratio < 10  ? " %6.2f x %s" :
                                " %6.1f x %s",
               r->ratio, r->of);
    if (r->ratio > 0 && *r->note)
        printf("; %s", r->note);
    if (r->share > 0)
        printf("%sproducts at peak: %.0f%%", r->ratio > 0 ? "; " : " ", 100 * r->share);
    printf("\n");
    fflush(stdout);
}

static void table_head(const struct bench *b)
{
    if (!b->rows)
        printf("\n%-46s %5s  %-12s %9s %9s %-7s  ratio\n", "work", "n", "scheme", "median", "best",
               "unit");
}

static void features(char *text, size_t size)
{
    snprintf(text, size, "%s%s%s",
             cpu_has("avx512") ? " AVX-512" :
             cpu_has("avx2")   ? " AVX2" :
                                 "",
             cpu_has("vnni") ? " VNNI" : "", cpu_has("avxvnni") ? " AVX-VNNI" : "");
}

static void head(const struct bench *b)
{
    char cpu[64], has[64];

    if (b->rows)
        return;
    cpu_name(cpu, sizeof cpu);
    features(has, sizeof has);
    printf("Limber %s; %s,%s; medians of %d runs\n", LIMBER_VERSION, cpu, has, b->runs);
    for (int i = 0; i < b->library_count; i++) {
        const struct library *l = &b->libraries[i];

        if (l->usable)
            printf("%s%s%s: %s\n", l->name, *l->version ? " " : "", l->version, l->kernels);
        else
            printf("%s: %s; rows against it are left out\n", l->name, l->why_not);
    }
    printf("CPFloat: %s\n", cpfloat_name() ?
                                cpfloat_name() :
                                "its headers were not there at build "
                                "time (CPFLOAT_INCLUDE_DIR); ratios to it are left out");
    if (dd_kernel())
        printf("double-double by FMA: %s\n", dd_kernel());
}

static cJSON *json_libraries(const struct bench *b)
{
    cJSON *list = cJSON_CreateArray();

    for (int i = 0; i < b->library_count; i++) {
        const struct library *l = &b->libraries[i];
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "name", l->name);
        cJSON_AddBoolToObject(j, "usable", l->usable);
        cJSON_AddStringToObject(j, "version", l->version);
        cJSON_AddStringToObject(j, "kernels", l->kernels);
        if (!l->usable)
            cJSON_AddStringToObject(j, "why_not", l->why_not);
        cJSON_AddItemToArray(list, j);
    }
    return list;
}

static int print_json(struct bench *b)
{
    cJSON *all = cJSON_CreateObject();
    char cpu[64], has[64], *s;

    cpu_name(cpu, sizeof cpu);
    features(has, sizeof has);
    cJSON_AddStringToObject(all, "limber", LIMBER_VERSION);
    cJSON_AddStringToObject(all, "cpu", cpu);
    cJSON_AddStringToObject(all, "features", *has ? has + 1 : has);
    cJSON_AddStringToObject(all, "double_double", dd_kernel() ? dd_kernel() : "none");
    cJSON_AddStringToObject(all, "cpfloat", cpfloat_name() ? cpfloat_name() : "none");
    cJSON_AddItemToObject(all, "peers", json_libraries(b));
    cJSON_AddItemToObject(all, "rows", b->rows);
    s = cJSON_Print(all);
    if (s)
        printf("%s\n", s);
    cJSON_Delete(all);
    b->rows = NULL;
    if (!s)
        return complain("out of memory");
    cJSON_free(s);
    return 0;
}

/* ---- rows of products ------------------------------------------------------------------------ */

static double cube(int n)
{
    return (double)n * n * n;
}

static struct work work_of(const struct bench *b, const char *group, const char *what, int n)
{
    return (struct work){ .group = group,
                          .what = what,
                          .n = n,
                          .own = &b->own,
                          .owns = 1,
                          .runs = b->runs,
                          .threads = b->threads };
}

static bool run(struct bench *b, const struct work *w, struct outcome *o)
{
    note(b, w->what, w->n);
    return measure(w, o);
}

static double int8_peak(struct bench *b)
{
    if (b->int8 == 0)
        b->int8 = limits_int8(b->threads, &b->int8_by);
    return b->int8;
}

static bool multiplies_bytes(const char *scheme)
{
    return !strcmp(scheme, "ozaki2") || !strcmp(scheme, "ozaki1-i8") || !strcmp(scheme, "integer");
}

/* What the byte products alone would take at the machine's own rate, of the measured time. */
static double share(struct bench *b, int n, const struct outcome *o)
{
    if (!multiplies_bytes(o->report.scheme) || int8_peak(b) <= 0)
        return 0;
    return o->report.rows * cube(n) / int8_peak(b) / o->r[0].median;
}

/* A rate of Limber's with the ratio to the fastest peer that ran beside; if that one had packed
 * an operand before, also to the fastest that had not. */
static struct row rate_row(const struct work *w, const struct outcome *o, double per_product,
                           const char *unit)
{
    const struct result *peer = best_peer(o, true), *fair = best_peer(o, false);
    double work = 1e-9 * per_product * cube(w->n);
    struct row r = { .group = w->group,
                     .work = w->what,
                     .scheme = o->report.scheme,
                     .unit = unit,
                     .n = w->n,
                     .value = work / o->r[0].median,
                     .best = work / o->r[0].best,
                     .ratio = peer ? peer->median / o->r[0].median : 0,
                     .of = peer ? peer->name : "",
                     .o = o };

    if (fair && fair != peer)
        snprintf(r.note, sizeof r.note, "%.2f x %s", fair->median / o->r[0].median, fair->name);
    return r;
}

static bool product_row(struct bench *b, const struct work *w, bool with_share, double *rate)
{
    struct outcome o;
    struct row r;

    if (!run(b, w, &o))
        return false;
    r = rate_row(w, &o, 2, "GFLOPS");
    r.share = with_share ? share(b, w->n, &o) : 0;
    if (rate)
        *rate = r.value;
    print_row(b, &r);
    return true;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static bool limit_rows(struct bench *b)
{
    struct limit list[MOST_LIMITS];
    int n;

    note(b, "the machine's limits", 0);
    n = limits_measure(b->threads, list);
    for (int i = 0; i < n; i++)
        print_row(b, &(struct row){ .group = "limits",
                                    .work = list[i].what,
                                    .unit = list[i].unit,
                                    .scheme = list[i].unit[1] == 'B' ? "memory" : "registers",
                                    .value = 1e-9 * list[i].rate,
                                    .best = 1e-9 * list[i].rate });
    return true;
}

static bool float_rows(struct bench *b, bool single)
{
    static const int sizes[] = { 256, 512, 1024, 2048, 4096 };
    static const char *const names[2][4] = {
        { "FP64 native", "FP64 native, A B^T", "FP64 native, A^T B", "FP64 native, A^T B^T" },
        { "FP32 native", "FP32 native, A B^T", "FP32 native, A^T B", "FP32 native, A^T B^T" },
    };
    limber_format f = format_of(single ? "f32" : "f64");

    for (int i = 0; i < 4 + b->full + 3; i++) {
        int turn = i < 4 + b->full ? 0 : i - 3 - b->full;
        struct work w =
            work_of(b, single ? "fp32" : "fp64", names[single][turn], turn ? 1024 : sizes[i]);

        w.fa = w.fb = w.fc = f;
        w.contract = native;
        w.ta = turn & 2;
        w.tb = turn & 1;
        w.kinds = KIND(single ? KIND_F32 : KIND_F64);
        if (!product_row(b, &w, false, NULL))
            return false;
    }
    return true;
}

static bool fp64_rows(struct bench *b)
{
    return float_rows(b, false);
}
static bool fp32_rows(struct bench *b)
{
    return float_rows(b, true);
}

/* Three rows: against peers, against the machine, and the latter without the scan. */
static bool int8_row(struct bench *b, const struct work *w)
{
    struct outcome o;
    struct row r;
    double peak = int8_peak(b);

    if (!run(b, w, &o))
        return false;
    r = rate_row(w, &o, 1, "GMAC/s");
    if (r.ratio > 0)
        print_row(b, &r);
    r.ratio = peak > 0 ? 1e9 * r.value / peak : 0;
    r.of = b->int8_by;
    *r.note = 0;
    print_row(b, &r);
    r.work = "  without the scan";
    r.value = 1e-9 * cube(w->n) / o.median_run;
    r.best = 1e-9 * cube(w->n) / o.best_run;
    r.ratio = peak > 0 ? 1e9 * r.value / peak : 0;
    r.o = NULL;
    print_row(b, &r);
    return true;
}

static bool int8_rows(struct bench *b)
{
    static const int sizes[] = { 512, 1024, 2048 };

    for (int unsigned_a = 0; unsigned_a < 2; unsigned_a++)
        for (int i = 0; i < 3; i++) {
            struct work w =
                work_of(b, "int8", unsigned_a ? "u8 x i8 -> i32" : "i8 x i8 -> i32", sizes[i]);

            w.fa = format_of(unsigned_a ? "u8" : "i8");
            w.fb = format_of("i8");
            w.fc = format_of("i32");
            w.data = INTEGERS;
            w.bits = 7;
            w.contract =
                (limber_contract){ .promise = LIMBER_CONTRACT_NATIVE, .scheme = "integer" };
            w.kinds = KIND(unsigned_a ? KIND_U8 : KIND_I8);
            if (!int8_row(b, &w))
                return false;
        }
    return true;
}

static bool correct_row(struct bench *b, const char *what, enum data data, int n)
{
    struct work w = work_of(b, "correct", what, n);

    w.fa = w.fb = w.fc = format_of("f64");
    w.data = data;
    w.contract = correct;
    w.kinds = KIND(KIND_F64);
    w.seconds = n < 256 ? 3e-4 : 0;
    return product_row(b, &w, true, NULL);
}

static bool correct_rows(struct bench *b)
{
    static const int small[] = { 4, 8, 16, 32, 64, 128 };
    static const struct {
        const char *what;
        enum data data;
    } sets[] = {
        { "FP64 correct, multiples of 2^-53 in (-1,1)", UNIFORM },
        { "FP64 correct, normal N(0,1)", NORMAL },
    };

    for (int s = 0; s < 2; s++)
        for (int n = 1024; n <= (b->full ? 4096 : 2048); n *= 2)
            if (!correct_row(b, sets[s].what, sets[s].data, n))
                return false;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (!correct_row(b, "FP64 correct, small, N(0,1)", NORMAL, small[i]))
            return false;
    return true;
}

/* A peer at the size that it does in about a second, beside Limber at the same size; the ratio
 * of rates is to Limber's at a size of its own. */
static bool quad_peer_row(struct bench *b, const struct peer *p, double rate)
{
    struct work w = work_of(b, "quad", p->name, p->largest);
    char of[64];
    struct outcome o;
    struct row r;

    w.data = UNIFORM_QUAD;
    w.fa = w.fb = w.fc = kind_a(p->kind);
    w.contract = native;
    w.only = p;
    w.runs = b->runs < 3 ? b->runs : 3;
    if (!run(b, &w, &o))
        return false;
    if (o.count < 2)
        return true;
    r = rate_row(&w, &o, 2, "GFLOPS");
    r.scheme = "peer";
    r.value *= o.r[0].median / o.r[1].median;
    r.best *= o.r[0].best / o.r[1].best;
    snprintf(of, sizeof of, "for Limber at n = 2048, %.3g x at %d", r.ratio, w.n);
    r.of = of;
    r.ratio = rate / r.value;
    print_row(b, &r);
    return true;
}

static bool quad_rows(struct bench *b)
{
    static const struct {
        const char *what, *in, *out;
        enum data data;
        enum kind kind;
    } ways[] = {
        { "binary128 from binary128", "f128", "f128", UNIFORM_QUAD, KIND_QUAD },
        { "binary128 from binary64", "f64", "f128", UNIFORM, KINDS },
        { "double-double", "dd", "dd", UNIFORM_QUAD, KIND_DD },
    };
    const struct peer *peers;
    double rates[KINDS + 1] = { 0 };
    int count = peers_list(&peers);

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int n = b->full ? 512 : 1024; n <= 2048; n *= 2) {
            struct work w = work_of(b, "quad", ways[i].what, n);

            w.fa = w.fb = format_of(ways[i].in);
            w.fc = format_of(ways[i].out);
            w.data = ways[i].data;
            w.contract = native;
            w.kinds = KIND(KIND_F64);
            if (!product_row(b, &w, true, &rates[ways[i].kind]))
                return false;
        }
    for (int i = 0; i < count; i++)
        if ((peers[i].kind == KIND_QUAD || peers[i].kind == KIND_DD) &&
            !quad_peer_row(b, &peers[i], rates[peers[i].kind]))
            return false;
    return true;
}

static bool mask_rows(struct bench *b)
{
    static const struct {
        const char *what;
        enum data data;
        int bits;
        bool correct;
    } sets[] = {
        { "doubles that hold integers to 127", INTEGERS, 7, false },
        { "doubles that hold integers to 32767", INTEGERS, 15, false },
        { "doubles born as floats", FLOATS, 0, false },
        { "doubles born as floats, correct", FLOATS, 0, true },
    };

    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
        for (int n = 1024; n <= 2048; n *= 2) {
            struct work w = work_of(b, "mask", sets[s].what, n);

            w.fa = w.fb = w.fc = format_of("f64");
            w.data = sets[s].data;
            w.bits = sets[s].bits;
            w.contract = sets[s].correct ? correct : native;
            w.kinds = KIND(KIND_F64);
            if (!product_row(b, &w, true, NULL))
                return false;
        }
    return true;
}

static bool integer_rows(struct bench *b)
{
    static const struct {
        const char *what, *in;
        int bits;
    } ways[] = {
        { "i16 -> i64 exact", "i16", 15 },
        { "i32 -> i64 exact, values of 26 bits", "i32", 26 },
        { "i64 -> i64 exact, values of 20 bits", "i64", 20 },
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int n = 512; n <= 1024; n *= 2) {
            struct work w = work_of(b, "integers", ways[i].what, n);
            struct outcome o;
            struct row r;

            w.fa = w.fb = format_of(ways[i].in);
            w.fc = format_of("i64");
            w.data = INTEGERS;
            w.bits = ways[i].bits;
            w.contract = exact;
            w.kinds = KIND(KIND_INT);
            if (!run(b, &w, &o))
                return false;
            r = rate_row(&w, &o, 1, "GMAC/s");
            r.share = share(b, n, &o);
            print_row(b, &r);
        }
    return true;
}

/* ---- simulated units ------------------------------------------------------------------------- */

static bool unit_row(struct bench *b, const struct unit_work *w)
{
    double work = 1e-9 * cube(w->n);
    struct outcome o;
    struct row r;

    note(b, w->what, w->n);
    if (!measure_unit(w, &o))
        return false;
    r = (struct row){ .group = "simulate",
                      .work = w->what,
                      .scheme = o.report.scheme,
                      .unit = "GMAC/s",
                      .n = w->n,
                      .value = work / o.r[0].median,
                      .best = work / o.r[0].best,
                      .ratio = o.r[1].median / o.r[0].median,
                      .of = o.r[1].name,
                      .o = &o };
    if (w->counts) { /* the comparison with FP64 is none of the simulation's work */
        r.value = work / o.median_run;
        r.best = work / o.best_run;
        r.ratio = o.r[1].median / o.median_run;
    }
    if (o.count > 2)
        snprintf(r.note, sizeof r.note, "%.1f x %s", o.r[2].median / o.r[0].median, o.r[2].name);
    print_row(b, &r);
    return true;
}

static bool simulate_rows(struct bench *b)
{
    static const struct {
        const char *what, *words;
        int counts;
    } units[] = {
        { "(1,5,10), all rounded", "in=f16 mul=f16 acc=f16", UNIT_uncounted },
        { "(1,5,2), all rounded", "in=e5m2 mul=e5m2 acc=e5m2", UNIT_uncounted },
        { "(1,4,3), all rounded", "in=(1,4,3) mul=(1,4,3) acc=(1,4,3)", UNIT_uncounted },
        { "(1,6,9), all rounded", "in=(1,6,9) mul=(1,6,9) acc=(1,6,9)", UNIT_uncounted },
        { "(1,8,7), all rounded", "in=bf16 mul=bf16 acc=bf16", UNIT_uncounted },
        { "FP32, groups of 16", "in=f32 mul=f32 acc=f32 group=16", UNIT_uncounted },
        { "(1,5,2), groups of 16", "in=e5m2 mul=e5m2 acc=e5m2 group=16", UNIT_uncounted },
        { "(1,5,2), swamping counted", "in=e5m2 mul=e5m2 acc=e5m2", UNIT_swamped },
        { "(1,5,2), all counted", "in=e5m2 mul=e5m2 acc=e5m2", UNIT_counted },
        { "(1,6,9), swamping counted", "in=(1,6,9) mul=(1,6,9) acc=(1,6,9)", UNIT_swamped },
        { "(1,5,2) in (1,6,9), stochastic", "in=e5m2 mul=e5m2:rs acc=(1,6,9):rs seed=1",
          UNIT_uncounted },
        { "(1,8,7), stochastic", "in=bf16 mul=bf16:rs acc=bf16:rs seed=1", UNIT_uncounted },
        { "v100-fp16", "v100-fp16", 0 },
        { "a100-fp16", "a100-fp16", 0 },
        { "a100-bf16", "a100-bf16", 0 },
        { "h100-fp16", "h100-fp16", 0 },
        { "h100-bf16", "h100-bf16", 0 },
        { "h100-e4m3", "h100-e4m3", 0 },
    };

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        for (int n = 512; n <= 1024; n *= 2)
            if (!unit_row(b, &(struct unit_work){ units[i].what, units[i].words, units[i].counts,
                                                  b->ctx, n, b->runs, b->threads }))
                return false;
    return true;
}

/* ---- small products -------------------------------------------------------------------------- */

/* How small products are called. */
enum way { WAY_gemm, WAY_bound, WAY_shape, WAY_count };

/* LIMBER_STATUS_DEVICE: this backend makes no such functions. */
static limber_status small_kernel(struct bench *b, int n, bool single, enum way way,
                                  struct own *own)
{
    limber_format f = format_of(single ? "f32" : "f64");
    limber_matrix m = { NULL, f, n, 1 };
    limber_status status = LIMBER_STATUS_OK;

    if (way == WAY_bound)
        status = limber_bind(b->ctx, &native, f, f, f, single ? "cblas_sgemm" : "cblas_dgemm",
                             &own->bound);
    else if (way == WAY_shape)
        status = limber_bind_shape(b->ctx, &native, n, n, n, m, m, m, 0, &own->shape);
    if (status != LIMBER_STATUS_OK && status != LIMBER_STATUS_DEVICE)
        complain("bench: %s", limber_error_text());
    return status;
}

static bool small_row(struct bench *b, int n, bool single, enum way way)
{
    static const char *const names[2][WAY_count] = {
        { "small FP64, limber_gemm", "small FP64, bound function", "small FP64, one shape" },
        { "small FP32, limber_gemm", "small FP32, bound function", "small FP32, one shape" },
    };
    struct work w = work_of(b, "small", names[single][way], n);
    struct own own = b->own;
    limber_status status;
    struct outcome o;
    struct row r;

    status = small_kernel(b, n, single, way, &own);
    if (status != LIMBER_STATUS_OK)
        return status == LIMBER_STATUS_DEVICE;
    w.own = &own;
    w.fa = w.fb = w.fc = format_of(single ? "f32" : "f64");
    w.contract = native;
    w.kinds = KIND(single ? KIND_F32 : KIND_F64);
    w.seconds = 3e-4;
    if (!run(b, &w, &o))
        return false;
    r = rate_row(&w, &o, 2, "GFLOPS");
    if (way != WAY_gemm)
        r.scheme = way == WAY_bound ? "bound" : "shape";
    print_row(b, &r);
    return true;
}

static bool small_rows(struct bench *b)
{
    static const int sizes[] = { 8, 16, 24, 32, 48, 64, 96, 128 };

    for (int single = 0; single < 2; single++)
        for (enum way way = 0; way < WAY_count; way++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                if (!small_row(b, sizes[i], single, way))
                    return false;
    return true;
}

/* ---- latency --------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

bool remove_directory(const char *path)
{
    return nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0;
}

struct moment {
    double seconds;
    limber_report report;
};

static bool one_call(limber_context *ctx, struct moment *m)
{
    limber_format f = format_of("f64");
    double a[64] = { 1 }, y[64], start = now();
    limber_matrix in = { a, f, 8, 1 }, out = { y, f, 8, 1 };
    bool ok =
        limber_gemm(ctx, &native, 8, 8, 8, NULL, in, in, NULL, out, &m->report) == LIMBER_STATUS_OK;

    m->seconds = now() - start;
    if (!ok)
        complain("bench: %s", limber_error_text());
    else if (y[0] != 1 || y[1] != 0) {
        complain("bench: the first call's result is wrong");
        ok = false;
    }
    return ok;
}

/* Compiled, then in a new context that finds the disk, then from memory. */
static bool three_calls(const char *dir, struct moment m[3])
{
    limber_config config = { .threads = 1, .cache_dir = dir };
    limber_context *ctx = NULL;
    bool ok = true;

    for (int i = 0; ok && i < 3; i++) {
        if (i < 2) {
            context_end(ctx);
            ok = limber_create(&ctx, &config) == LIMBER_STATUS_OK;
            if (!ok)
                complain("bench: %s", limber_error_text());
        }
        ok = ok && one_call(ctx, &m[i]);
    }
    context_end(ctx);
    return ok;
}

static void latency_row(struct bench *b, const char *what, const char *scheme, double seconds)
{
    print_row(b, &(struct row){ .group = "latency",
                                .work = what,
                                .scheme = scheme,
                                .unit = "us",
                                .n = 8,
                                .value = 1e6 * seconds,
                                .best = 1e6 * seconds });
}

static void print_latency(struct bench *b, const struct moment *m)
{
    static const char *const from[] = { "compiled", "disk", "memory", "interpreter" };
    static const char *const what[] = { "first call, empty cache", "first call, cache on disk",
                                        "later call" };

    for (int i = 0; i < 3; i++) {
        const limber_report *r = &m[i].report;

        latency_row(b, what[i], from[r->from], m[i].seconds);
        latency_row(b, "  scan", from[r->from], r->seconds_scan);
        latency_row(b, i ? "  finding the kernel" : "  passes and compiling", from[r->from],
                    r->seconds_compile);
        latency_row(b, "  running", from[r->from], r->seconds_run);
    }
}

static bool latency_rows(struct bench *b)
{
    const char *tmp = limber_variable_value("TMPDIR");
    char dir[4096];
    struct moment m[3];
    bool ok;

    snprintf(dir, sizeof dir, "%s/limber-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return !complain("bench: no temporary directory can be made");
    ok = three_calls(dir, m);
    if (ok)
        print_latency(b, m);
    if (!remove_directory(dir))
        ok = !complain("bench: %s stays behind", dir);
    return ok;
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool prepared_row(struct bench *b, const struct prepared_work *w)
{
    double work = 2e-9 * (double)w->m * (double)w->n * (double)w->k;
    struct outcome o;

    note(b, w->what, (int)w->n);
    if (!measure_prepared(w, &o))
        return false;
    print_row(b, &(struct row){ .group = "prepared",
                                .work = w->what,
                                .scheme = o.report.scheme,
                                .unit = "GFLOPS",
                                .n = (int)w->n,
                                .value = work / o.r[0].median,
                                .best = work / o.r[0].best,
                                .ratio = o.r[1].median / o.r[0].median,
                                .of = o.r[1].name });
    return true;
}

static bool prepared_rows(struct bench *b)
{
    static const struct {
        const char *what;
        int m, n, k;
    } shapes[] = {
        { "A prepared, %s", 256, 256, 256 },
        { "A prepared, %s", 1024, 1024, 1024 },
        { "A prepared, %s, m = k = 4096", 4096, 64, 4096 },
        { "A prepared, %s, m = k = 4096", 4096, 8, 4096 },
    };

    for (int c = 0; c < 2; c++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            char what[64];

            snprintf(what, sizeof what, shapes[i].what, c ? "FP64 correct" : "FP64 native");
            if (!prepared_row(b,
                              &(struct prepared_work){ what, shapes[i].m, shapes[i].n, shapes[i].k,
                                                       c ? correct : native, b->ctx, b->runs }))
                return false;
        }
    return true;
}

static bool hostile_rows(struct bench *b)
{
    static const struct {
        const char *what;
        int binades, special, bits;
    } sets[] = {
        { "1% NaN and infinities, correct", 1, 100, 0 },
        { "2^120, correct", 120, 0, 0 },
        { "2^120, bits=53", 120, 0, 53 },
        { "2^600, correct", 600, 0, 0 },
        { "full range, correct", 2000, 0, 0 },
        { "full range, bits=53", 2000, 0, 53 },
    };

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct hostile_work w = { sets[i].what, 512,     sets[i].binades, sets[i].special,
                                  correct,      correct, b->ctx,          b->runs };
        struct outcome o;

        if (sets[i].bits)
            w.contract = (limber_contract){ .promise = LIMBER_CONTRACT_BITS, .bits = sets[i].bits };
        note(b, w.what, w.n);
        if (!measure_hostile(&w, &o))
            return false;
        print_row(b, &(struct row){ .group = "hostile",
                                    .work = w.what,
                                    .scheme = o.report.scheme,
                                    .unit = "GFLOPS",
                                    .n = w.n,
                                    .value = 2e-9 * cube(w.n) / o.r[0].median,
                                    .best = 2e-9 * cube(w.n) / o.r[0].best,
                                    .ratio = o.r[1].median / o.r[0].median,
                                    .of = o.r[1].name });
    }
    return true;
}

static bool scan_row(struct bench *b, const struct scan_work *w)
{
    double size = 1e-9 * (double)w->bytes;
    struct outcome o;

    note(b, w->what, 0);
    if (!measure_scan(w, &o))
        return false;
    print_row(b, &(struct row){ .group = "scan",
                                .work = w->what,
                                .scheme = "scan",
                                .unit = "GB/s",
                                .value = size / o.r[0].median,
                                .best = size / o.r[0].best,
                                .ratio = o.r[1].best / o.r[0].best,
                                .of = "reading it, bests" });
    return true;
}

static bool scan_rows(struct bench *b)
{
    static const int mebibytes[] = { 1, 64, 512 };

    for (int single = 0; single < 2; single++)
        for (int across = 0; across < 2; across++)
            for (int i = 0; i < 3; i++) {
                char what[64];
                struct scan_work w = { what,      format_of(single ? "f32" : "f64"),
                                       across,    (size_t)mebibytes[i] << 20,
                                       b->ctx,    b->runs,
                                       b->threads };

                snprintf(what, sizeof what, "%s, lines %s, %d MiB", single ? "FP32" : "FP64",
                         across ? "side by side" : "along k", mebibytes[i]);
                if (!scan_row(b, &w))
                    return false;
            }
    return true;
}

/* ---- threads and workspace ------------------------------------------------------------------- */

static bool make_context(int threads, limber_context **ctx)
{
    limber_config config = { .threads = threads };

    if (limber_create(ctx, &config) == LIMBER_STATUS_OK)
        return true;
    complain("%s", limber_error_text());
    return false;
}

static void describe(struct work *w, int which)
{
    static const char *const formats[][3] = {
        { "f64", "f64", "f64" },
        { "f64", "f64", "f64" },
        { "f128", "f128", "f128" },
        { "i8", "i8", "i32" },
    };

    w->fa = format_of(formats[which][0]);
    w->fb = format_of(formats[which][1]);
    w->fc = format_of(formats[which][2]);
    w->data = which == 2 ? UNIFORM_QUAD : which == 3 ? INTEGERS : UNIFORM;
    w->bits = 7;
    w->contract = which == 1 ? correct : native;
    if (which == 3)
        w->contract.scheme = "integer";
}

static bool thread_row(struct bench *b, const struct own own[2], int which, int n)
{
    static const char *const names[] = { "2 threads, FP64 native", "2 threads, FP64 correct",
                                         "2 threads, binary128", "2 threads, INT8" };
    struct work w = work_of(b, "threads", names[which], n);
    struct outcome o;
    struct row r;
    char of[64];

    describe(&w, which);
    w.own = own;
    w.owns = 2;
    w.threads = 2;
    if (!run(b, &w, &o))
        return false;
    r = rate_row(&w, &o, which == 3 ? 1 : 2, which == 3 ? "GMAC/s" : "GFLOPS");
    r.ratio = o.r[1].median / o.r[0].median;
    snprintf(of, sizeof of, "1 thread (best over best: %.2f x)", o.r[1].best / o.r[0].best);
    r.of = of;
    print_row(b, &r);
    return true;
}

static bool thread_rows(struct bench *b)
{
    struct own own[2] = { { .name = "Limber, 2 threads" }, { .name = "Limber, 1 thread" } };
    bool ok = make_context(2, &own[0].ctx) && make_context(1, &own[1].ctx);
    int threads = b->threads;

    b->threads = 2;
    for (int which = 0; ok && which < 4; which++)
        for (int n = 1024; ok && n <= (b->full ? 2048 : 1024); n *= 2)
            ok = thread_row(b, own, which, n);
    b->threads = threads;
    context_end(own[0].ctx);
    context_end(own[1].ctx);
    return ok;
}

static bool workspace_rows(struct bench *b)
{
    static const char *const names[] = { "workspace, FP64 native", "workspace, FP64 correct",
                                         "workspace, binary128" };

    for (int which = 0; which < 3; which++) {
        struct work w = work_of(b, "workspace", names[which], 2048);
        struct outcome o;
        double bytes, operands;

        describe(&w, which);
        w.runs = 1;
        if (!run(b, &w, &o))
            return false;
        bytes = (double)o.report.workspace / (1 << 20);
        operands = (double)w.n * w.n * (w.fa.size + w.fb.size + w.fc.size) / (1 << 20);
        print_row(b, &(struct row){ .group = w.group,
                                    .work = w.what,
                                    .n = w.n,
                                    .scheme = o.report.scheme,
                                    .unit = "MiB",
                                    .value = bytes,
                                    .best = bytes,
                                    .ratio = bytes / operands,
                                    .of = "the bytes of A, B and C" });
    }
    return true;
}

/* ---- the command ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool once; /* does not depend on --threads */
    bool (*rows)(struct bench *);
} groups[] = {
    { "limits", false, limit_rows },      { "fp64", false, fp64_rows },
    { "fp32", false, fp32_rows },         { "int8", false, int8_rows },
    { "correct", false, correct_rows },   { "quad", false, quad_rows },
    { "mask", false, mask_rows },         { "integers", false, integer_rows },
    { "simulate", false, simulate_rows }, { "small", false, small_rows },
    { "prepared", false, prepared_rows }, { "hostile", false, hostile_rows },
    { "scan", false, scan_rows },         { "latency", true, latency_rows },
    { "threads", true, thread_rows },     { "workspace", true, workspace_rows },
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* Whether the word of the given length stands in a list with commas; NULL lists all. */
static bool listed(const char *list, const char *word, size_t length)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");

        if (n == length && !strncmp(list, word, n))
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* Every word of --rows must name a group. */
static bool known_groups(const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        bool known = false;

        for (int i = 0; i < GROUPS; i++)
            known |= strlen(groups[i].name) == n && !strncmp(groups[i].name, list, n);
        if (!known) {
            complain("bench: no rows are called \"%.*s\"", (int)n, list);
            return false;
        }
        list += n + (list[n] == ',');
    }
    return true;
}

/* "1,2" to numbers; answers how many, 0 after a message. */
static int thread_counts(const char *list, int counts[MOST_THREAD_COUNTS])
{
    int n = 0;

    while (*list) {
        char *end;
        long threads = strtol(list, &end, 10);

        if (end == list || (*end && *end != ',') || threads < 1 || threads > MOST_THREADS ||
            n == MOST_THREAD_COUNTS) {
            complain("bench: --threads takes numbers from 1 to %d with commas between",
                     MOST_THREADS);
            return 0;
        }
        counts[n++] = (int)threads;
        list = end + (*end == ',');
    }
    return n;
}

static bool all_groups(struct bench *b)
{
    for (int i = 0; i < GROUPS; i++) {
        const char *name = groups[i].name;

        if (b->only && !listed(b->only, name, strlen(name)))
            continue;
        if (groups[i].once && !b->first)
            continue;
        if (!groups[i].rows(b))
            return false;
    }
    return true;
}

static bool with_threads(struct bench *b, int threads)
{
    bool ok;

    b->threads = threads;
    b->int8 = 0;
    if (!make_context(threads, &b->ctx))
        return false;
    b->own = (struct own){ .name = "Limber", .ctx = b->ctx };
    peers_threads(threads);
    if (!b->rows)
        printf("\n%d thread%s", threads, threads == 1 ? "" : "s");
    table_head(b);
    ok = all_groups(b);
    context_end(b->ctx);
    return ok;
}

static int bench(struct bench *b, const int *counts, int n)
{
    bool ok = true;

    b->library_count = peers_open(&b->libraries);
    head(b);
    for (int i = 0; ok && i < n; i++) {
        b->first = i == 0;
        ok = with_threads(b, counts[i]);
    }
    if (b->rows && print_json(b))
        ok = false;
    return !ok;
}

int cmd_bench(int argc, const char **argv)
{
    int json = 0, full = 0, runs = 5, code, n, counts[MOST_THREAD_COUNTS], status = 2;
    char *rows = NULL, *threads = NULL;
    struct poptOption table[] = {
        { "full", 0, POPT_ARG_NONE, &full, 0, "larger sizes too", NULL },
        { "threads", 0, POPT_ARG_STRING, &threads, 0, "threads, or a list of such (1)", "1,2" },
        { "rows", 0, POPT_ARG_STRING, &rows, 0,
          "only these: limits fp64 fp32 int8 correct quad "
          "mask integers simulate small prepared scan latency threads workspace",
          "WORD,WORD" },
        { "runs", 0, POPT_ARG_INT, &runs, 0, "runs of every row (5)", "1..99" },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = poptGetContext("limber", argc, argv, table, 0);
    struct bench b = { 0 };

    poptSetOtherOptionHelp(o, "[options]\n\nexample: limber bench --rows fp64,quad --threads 1,2");
    code = poptGetNextOpt(o);
    n = code < -1 ? 0 : thread_counts(threads ? threads : "1", counts);
    if (code < -1)
        complain("%s: %s", poptBadOption(o, POPT_BADOPTION_NOALIAS), poptStrerror(code));
    else if (poptPeekArg(o))
        complain("bench takes no files");
    else if (runs < 1 || runs > 99)
        complain("bench: --runs takes a number from 1 to 99");
    else if (n > 0 && known_groups(rows)) {
        b = (struct bench){
            .runs = runs, .full = full, .only = rows, .rows = json ? cJSON_CreateArray() : NULL
        };
        status = json && !b.rows ? complain("out of memory") : bench(&b, counts, n);
    }
    poptFreeContext(o);
    free(rows);
    free(threads);
    return status;
}
