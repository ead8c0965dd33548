/* SPDX-License-Identifier: BSD-3-Clause
 * What `limber gpu` shows: progress, the table, the rows of the JSON. */
#define _GNU_SOURCE
#include "tools/bench/gpu.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const states[] = { [STATE_ok] = "ok",
                                      [STATE_wrong] = "WRONG",
                                      [STATE_skipped] = "skipped",
                                      [STATE_failed] = "FAILED" };

static bool terminal(void)
{
    return isatty(2);
}

void gpu_progress(struct gpu_bench *b, const char *format, ...)
{
    va_list args;

    if (!terminal())
        return;
    fprintf(stderr, "\r%4.0f s  %s: ", now() - b->start, b->group);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " ...\033[K");
}

void gpu_line(struct gpu_bench *b, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    if (terminal())
        fprintf(stderr, "\r\033[K");
    printf("%s\n", text);
    fflush(stdout);
    if (b->table) {
        fprintf(b->table, "%s\n", text);
        fflush(b->table);
    }
    free(text);
}

bool gpu_time_left(const struct gpu_bench *b)
{
    return now() - b->start < b->seconds;
}

/* ---- the table ------------------------------------------------------------------------------- */

void gpu_head(struct gpu_bench *b)
{
    const struct gpu_about *g = gpu_about();

    gpu_line(b,
             "Limber %s, backend %s; %s: %d multiprocessors, %.0f GiB, %.0f MiB of L2, "
             "sm_%d%d; driver for CUDA %d.%d",
             LIMBER_VERSION, b->backend, g->name, g->units, (double)g->memory / (1 << 30),
             (double)g->l2 / (1 << 20), g->major, g->minor, g->driver / 1000,
             g->driver % 1000 / 10);
    gpu_line(b,
             "medians; every row checked against %d exact elements; error: the largest, in "
             "units of u |A||B|",
             PICKS);
}

void gpu_group(struct gpu_bench *b, const char *name)
{
    b->group = name;
    gpu_line(b, "\n%-40s %-17s %-28s %9s %9s %9s %-7s %9s  ratio", name, "m x n x k", "by", "ms",
             "best", "rate", "unit", "error");
}

static void size_text(const struct gpu_work *w, char *text, size_t size)
{
    if (w->conv)
        snprintf(text, size, "batch %lld", (long long)w->conv->n);
    else if (w->m == w->n && w->n == w->k)
        snprintf(text, size, "%lld", (long long)w->n);
    else
        snprintf(text, size, "%lldx%lldx%lld", (long long)w->m, (long long)w->n, (long long)w->k);
}

static const char *const splits[] = { "", " ahead", " inside" }; /* by limber_split */

/* "Limber fp32-f inside" or the peer's name; what Limber chose itself stands in brackets. */
static void by_text(const struct contender *c, char *text, size_t size)
{
    if (c->by != BY_limber)
        snprintf(text, size, "%s", c->name);
    else if (c->contract.scheme)
        snprintf(text, size, "Limber %s%s%s%s", c->contract.scheme, splits[c->contract.split],
                 c->name ? " " : "", c->name ? c->name : "");
    else
        snprintf(text, size, "Limber%s%s (%s)", c->name ? " " : "", c->name ? c->name : "",
                 *c->report.scheme ? c->report.scheme : "?");
}

static double rate(const struct gpu_row *r)
{
    if (r->untimed)
        return r->value;
    return r->c->median > 0 ? r->amount / r->c->median : 0;
}

static double ratio(const struct gpu_row *r)
{
    if (r->untimed)
        return r->value_ratio;
    return r->base > 0 && r->c->median > 0 ? r->base / r->c->median : 0;
}

static void ratio_text(const struct gpu_row *r, char *text, size_t size)
{
    double x = ratio(r);

    *text = 0;
    if (x > 0)
        snprintf(text, size, x < 10 ? "%.2f x %s" : "%.1f x %s", x, r->base_name);
}

static const char *ms_text(double seconds, char *text, size_t size)
{
    *text = 0;
    if (seconds > 0)
        snprintf(text, size, "%.4f", 1e3 * seconds);
    return text;
}

static void print_row(struct gpu_bench *b, const struct gpu_row *r)
{
    const struct contender *c = r->c;
    const struct gpu_work *w = r->w;
    char what[96], size[48], by[64], median[16], best[16], by_ratio[96];

    snprintf(what, sizeof what, "%s%s%s", w->what, w->data_name ? ", " : "",
             w->data_name ? w->data_name : "");
    size_text(w, size, sizeof size);
    by_text(c, by, sizeof by);
    ratio_text(r, by_ratio, sizeof by_ratio);
    if (c->state == STATE_skipped || c->state == STATE_failed || (c->samples == 0 && !r->untimed))
        gpu_line(b, "%-40s %-17s %-28s %s: %s", what, size, by, states[c->state],
                 *c->why ? c->why : "not timed");
    else
        gpu_line(b, "%-40s %-17s %-28s %9s %9s %9.4g %-7s %9.3g  %s%s%s%s%s", what, size, by,
                 ms_text(c->median, median, 16), ms_text(c->best, best, 16), rate(r), r->unit,
                 c->error, by_ratio, r->note ? "  " : "", r->note ? r->note : "",
                 c->state == STATE_wrong ? "  WRONG: " : "", c->state == STATE_wrong ? c->why : "");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_report(cJSON *j, const struct contender *c)
{
    const limber_report *p = &c->report;
    cJSON *o;

    if (c->by != BY_limber || !*p->backend)
        return;
    o = cJSON_AddObjectToObject(j, "report");
    cJSON_AddStringToObject(o, "scheme", p->scheme);
    cJSON_AddStringToObject(o, "backend", p->backend);
    cJSON_AddStringToObject(o, "kernel", p->kernel);
    cJSON_AddNumberToObject(o, "products", p->rows);
    cJSON_AddNumberToObject(o, "pruned", p->pruned);
    cJSON_AddNumberToObject(o, "from", p->from);
    json_number(o, "bound", p->bound);
    json_number(o, "cost", p->cost);
    json_number(o, "seconds_scan", p->seconds_scan);
    json_number(o, "seconds_compile", p->seconds_compile);
    json_number(o, "seconds_run", p->seconds_run);
    cJSON_AddNumberToObject(o, "workspace", (double)p->workspace);
}

static void json_times(cJSON *j, const struct gpu_row *r)
{
    const struct contender *c = r->c;
    cJSON *list = cJSON_AddArrayToObject(j, "seconds");

    for (int i = 0; i < c->samples; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(c->seconds[i]));
    json_number(j, "median", c->median);
    json_number(j, "best", c->best);
    cJSON_AddNumberToObject(j, "calls_a_sample", c->repeats);
    json_number(j, "rate", rate(r));
    cJSON_AddStringToObject(j, "unit", r->unit);
    if (ratio(r) > 0) {
        json_number(j, "ratio", ratio(r));
        cJSON_AddStringToObject(j, "ratio_to", r->base_name);
    }
    json_number(j, "error", c->error);
    json_number(j, "allowed", c->allowed);
}

static void json_shape(cJSON *j, const struct gpu_work *w)
{
    cJSON_AddStringToObject(j, "work", w->what);
    if (w->data_name)
        cJSON_AddStringToObject(j, "data", w->data_name);
    cJSON_AddNumberToObject(j, "m", (double)w->m);
    cJSON_AddNumberToObject(j, "n", (double)w->n);
    cJSON_AddNumberToObject(j, "k", (double)w->k);
    if (w->conv)
        cJSON_AddStringToObject(j, "layout",
                                w->conv->layout == LIMBER_LAYOUT_NHWC ? "nhwc" : "nchw");
}

static void json_row(struct gpu_bench *b, const struct gpu_row *r)
{
    const struct contender *c = r->c;
    cJSON *j = cJSON_CreateObject();
    char by[64];

    by_text(c, by, sizeof by);
    cJSON_AddStringToObject(j, "group", b->group);
    json_shape(j, r->w);
    cJSON_AddStringToObject(j, "by", by);
    if (c->by != BY_limber && *c->report.scheme)
        cJSON_AddStringToObject(j, "algorithm", c->report.scheme);
    cJSON_AddStringToObject(j, "state", states[c->state]);
    if (*c->why)
        cJSON_AddStringToObject(j, "why", c->why);
    if (r->note)
        cJSON_AddStringToObject(j, "note", r->note);
    if (c->samples > 0 || r->untimed)
        json_times(j, r);
    json_report(j, c);
    cJSON_AddItemToArray(b->rows, j);
}

static void count(struct gpu_bench *b, enum state s)
{
    b->measured += s == STATE_ok;
    b->wrong += s == STATE_wrong;
    b->failed += s == STATE_failed;
    b->skipped += s == STATE_skipped;
}

void gpu_row(struct gpu_bench *b, const struct gpu_row *r)
{
    count(b, r->c->state);
    print_row(b, r);
    json_row(b, r);
}

void gpu_skip(struct gpu_bench *b, const char *what, const char *why)
{
    cJSON *j = cJSON_CreateObject();

    b->skipped++;
    gpu_line(b, "%-40s skipped: %s", what, why);
    cJSON_AddStringToObject(j, "group", b->group);
    cJSON_AddStringToObject(j, "work", what);
    cJSON_AddStringToObject(j, "state", states[STATE_skipped]);
    cJSON_AddStringToObject(j, "why", why);
    cJSON_AddItemToArray(b->rows, j);
}
