/* SPDX-License-Identifier: BSD-3-Clause
 * limber figures: computes the data and pictures of docs/figures.md. */
#define _GNU_SOURCE
#include "tools/figures/figures.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <popt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct figure *const list[] = {
    &figure_types,     &figure_sums,  &figure_reductions, &figure_range,
    &figure_fallbacks, &figure_sweep, &figure_overhead,
};
enum { FIGURES = sizeof list / sizeof *list, SIDE = 16 };

void figure_note(const struct figures *f, const char *format, ...)
{
    va_list args;

    if (!isatty(2) || f->json)
        return;
    va_start(args, format);
    fputc('\r', stderr);
    vfprintf(stderr, format, args);
    fputs("\033[K", stderr);
    va_end(args);
}

double random_unit(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* ---- products -------------------------------------------------------------------------------- */

bool factors_alloc(struct factors *x, int64_t m, int64_t n, int64_t k, const char *format)
{
    limber_format f = format_of(format);

    *x = (struct factors){ m,
                           n,
                           k,
                           f,
                           malloc((size_t)(m * k) * f.size),
                           malloc((size_t)(k * n) * f.size),
                           calloc((size_t)(m * n), f.size) };
    return (x->a && x->b && x->c) || !complain("figures: out of memory");
}

void factors_free(struct factors *x)
{
    free(x->a);
    free(x->b);
    free(x->c);
    *x = (struct factors){ .a = NULL };
}

limber_status factors_multiply(limber_context *ctx, const limber_contract *contract,
                               const struct factors *x, limber_report *report)
{
    return limber_gemm(ctx, contract, x->m, x->n, x->k, NULL,
                       (limber_matrix){ x->a, x->format, x->k, 1 },
                       (limber_matrix){ x->b, x->format, x->n, 1 }, NULL,
                       (limber_output){ x->c, x->format, x->n, 1 }, report);
}

struct verdict factors_check(const struct factors *x)
{
    int64_t rows = x->m < SIDE ? x->m : SIDE, cols = x->n < SIDE ? x->n : SIDE;
    size_t size = x->format.size;
    struct verdict v = { NAN, NAN, 0, 0 };
    struct factors y;

    if (!factors_alloc(&y, rows, cols, x->k, "f64"))
        return v;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = i * x->m / rows;

        memcpy((char *)y.a + (size_t)(i * x->k) * size, (char *)x->a + (size_t)(from * x->k) * size,
               (size_t)x->k * size);
        for (int64_t j = 0; j < cols; j++)
            memcpy((char *)y.c + (size_t)(i * cols + j) * size,
                   (char *)x->c + (size_t)(from * x->n + j * x->n / cols) * size, size);
    }
    for (int64_t p = 0; p < x->k; p++)
        for (int64_t j = 0; j < cols; j++)
            memcpy((char *)y.b + (size_t)(p * cols + j) * size,
                   (char *)x->b + (size_t)(p * x->n + j * x->n / cols) * size, size);
    v = check_gemm(rows, cols, x->k, x->format, y.a, x->format, y.b, x->format, y.c);
    factors_free(&y);
    return v;
}

static double seconds(const struct figures *f)
{
    struct timespec t;

    clock_gettime(f->threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Times five runs, or more if they are short. */
double factors_time(const struct figures *f, limber_context *ctx, const limber_contract *contract,
                    const struct factors *x, limber_report *report, bool *failed)
{
    double best = INFINITY, spent = 0;

    for (int run = 0; run < (f->quick ? 2 : 6) || (!f->quick && run < 40 && spent < 0.1); run++) {
        double start = seconds(f), t;
        limber_status s = factors_multiply(ctx, contract, x, report);

        if (s == LIMBER_STATUS_NO_SCHEME)
            return NAN;
        if (s != LIMBER_STATUS_OK) {
            *failed = true;
            complain("%s", limber_error_text());
            return NAN;
        }
        t = seconds(f) - start;
        if (run > 0) { /* the first one may compile */
            best = t < best ? t : best;
            spent += t;
        }
    }
    return best;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool are_known(const char *const *names)
{
    for (; names && *names; names++) {
        bool found = false;

        for (int i = 0; i < FIGURES; i++)
            found |= strcmp(list[i]->name, *names) == 0;
        if (!found)
            return complain("no figure is called \"%s\"", *names), false;
    }
    return true;
}

static bool is_wanted(const char *const *names, const char *name)
{
    const char *const *at = names;

    while (*at && strcmp(*at, name))
        at++;
    return !*names || *at;
}

static bool open_contexts(struct figures *f)
{
    limber_config config = { .size = sizeof(limber_config), .threads = f->threads };
    bool ok = limber_create(&f->ctx, &config) == LIMBER_STATUS_OK;

    config.partition = LIMBER_PARTITION_OFF;
    ok = ok && limber_create(&f->whole, &config) == LIMBER_STATUS_OK;
    return ok || !complain("%s", limber_error_text());
}

static bool print_json(cJSON *figures)
{
    cJSON *j = cJSON_CreateObject();
    char cpu[64];

    cpu_name(cpu, sizeof cpu);
    cJSON_AddStringToObject(j, "cpu", cpu);
    cJSON_AddItemToObject(j, "figures", figures);
    return json_print(j);
}

static int make_figures(struct figures *f, const char *const *names)
{
    bool ok = true;

    if (mkdir(f->dir, 0777) && errno != EEXIST)
        return complain("%s: %s", f->dir, strerror(errno));
    ok = open_contexts(f);
    for (int i = 0; i < FIGURES && ok; i++)
        if (is_wanted(names, list[i]->name))
            ok = figure_make(f, list[i]);
    if (f->json && !print_json(f->json))
        ok = false;
    context_end(f->whole);
    context_end(f->ctx);
    return !ok || f->undrawn;
}

static const char *usage(void)
{
    static char text[1024];
    int at = snprintf(text, sizeof text, "[options] DIR [NAME...]\n\n");

    for (int i = 0; i < FIGURES; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "  %-13s  %s\n", list[i]->name,
                       list[i]->about);
    snprintf(text + at, sizeof text - (size_t)at,
             "\nexample: limber figures out type-error "
             "gemm-error");
    return text;
}

int cmd_figures(int argc, const char **argv)
{
    struct figures f = { .threads = 1 };
    int quick = 0, json = 0, status = 2;
    bool ok;
    struct poptOption table[] = {
        { "quick", 0, POPT_ARG_NONE, &quick, 0, "small sizes, for tests", NULL },
        { "threads", 0, POPT_ARG_INT, &f.threads, 0, "worker threads (1)", "N" },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    const char *const *args;

    ok = options_read(o, usage());
    args = poptGetArgs(o);
    if (!ok)
        status = 2;
    else if (!args || !*args)
        complain("figures takes a folder (see limber figures --help)");
    else if (f.threads < 1)
        complain("--threads takes a number from 1 on");
    else if (are_known(args + 1)) {
        f.dir = *args;
        f.quick = quick;
        f.json = json ? cJSON_CreateArray() : NULL;
        status = json && !f.json ? complain("out of memory") : make_figures(&f, args + 1);
    }
    poptFreeContext(o);
    return status;
}
