/* SPDX-License-Identifier: BSD-3-Clause
 * Output of `limber bench` and `limber gpu`: progress, the two tables, the JSON. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <limber/environment.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const states[] = { [STATE_ok] = "ok",
                                      [STATE_wrong] = "WRONG",
                                      [STATE_skipped] = "skipped",
                                      [STATE_failed] = "FAILED" };

/* Returns whether progress can be shown. */
static bool on_terminal(void)
{
    return isatty(2);
}

/* Prints on stderr what is being measured. */
void print_progress(struct bench *b, const char *format, ...)
{
    /* lines of a log, unlike a status line that is overwritten, show where a killed program was */
    bool lines = b->json && b->gpu;
    va_list args;

    if (!lines && (!on_terminal() || b->json))
        return;
    fprintf(stderr, "%s%4.0f s  %s: ", lines ? "" : "\r", now() - b->start, b->results.group);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, lines ? "\n" : " ...\033[K");
}

/* Prints a line of text, unless the output is JSON. */
void print_text(struct bench *b, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    if (b->json)
        return;
    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    if (on_terminal())
        fprintf(stderr, "\r\033[K");
    printf("%s\n", text);
    fflush(stdout);
    free(text);
}

/* ---- the head of the tables ------------------------------------------------------------------ */

/* Writes the CPU features on which the speed of products depends. */
static void write_cpu_features(char *text, size_t size)
{
    snprintf(text, size, "%s%s%s",
             cpu_has("avx512") ? " AVX-512" :
             cpu_has("avx2")   ? " AVX2" :
                                 "",
             cpu_has("vnni") ? " VNNI" : "", cpu_has("avxvnni") ? " AVX-VNNI" : "");
}

/* Prints a line for each library that rows of this command use: its version, or why it is
 * absent. */
static void print_libraries(struct bench *b)
{
    struct library *const *list;
    int count = libraries_list(&list);

    for (int i = 0; i < count; i++) {
        const struct library *l = list[i];

        if (l->gpu != b->gpu || (!l->usable && !*l->why_not))
            continue;
        if (l->usable)
            print_text(b, "%s%s%s%s%s", l->name, *l->version ? " " : "", l->version,
                       *l->kernels ? ": " : "", l->kernels);
        else
            print_text(b, b->gpu ? "%s: skipped: %s" : "%s: %s; rows against it are left out",
                       l->name, l->why_not);
    }
}

/* Prints the head of the table: versions, CPU or GPU, and the libraries that were found. */
void print_head(struct bench *b)
{
    const struct device_info *g = device_info();
    char cpu[64], has[64];

    if (b->gpu) {
        print_text(b,
                   "Limber %s, backend %s; %s: %d multiprocessors, %.0f GiB, %.0f MiB of L2, "
                   "sm_%d%d; driver for CUDA %d.%d",
                   LIMBER_VERSION, b->backend, g->name, g->units, (double)g->memory / (1 << 30),
                   (double)g->l2 / (1 << 20), g->major, g->minor, g->driver / 1000,
                   g->driver % 1000 / 10);
        print_text(b,
                   "medians; every row checked against %d exact elements; error: the largest, in "
                   "units of u |A||B|",
                   PICKS);
        if (b->unwatched)
            print_text(b, "clocks and power are not read: %s", b->unwatched);
        print_libraries(b);
        return;
    }
    cpu_name(cpu, sizeof cpu);
    write_cpu_features(has, sizeof has);
    print_text(b, "Limber %s; %s,%s; medians of %d runs%s", LIMBER_VERSION, cpu, has, b->runs,
               b->cpu_time ? "; times of the CPU" : "");
    print_libraries(b);
    print_text(b, "threads of OpenMP wait: OMP_WAIT_POLICY=%s",
               limber_variable_value("OMP_WAIT_POLICY"));
    print_text(b, "CPFloat: %s",
               cpfloat_name() ? cpfloat_name() :
                                "its headers were not there at build time (CPFLOAT_INCLUDE_DIR); "
                                "ratios to it are left out");
    if (dd_kernel())
        print_text(b, "double-double by FMA: %s", dd_kernel());
}

void print_group(struct bench *b, const char *name)
{
    b->results.group = name;
    if (b->gpu)
        print_text(b, "\n%-40s %-17s %-28s %9s %9s %9s %-7s %9s  ratio", name, "m x n x k", "by",
                   "ms", "best", "rate", "unit", "error");
}

/* ---- lines as JSON --------------------------------------------------------------------------- */

/* Adds a problem's data and sizes to a JSON object. */
static void add_shape(cJSON *j, const struct work *w)
{
    if (*w->data_name)
        cJSON_AddStringToObject(j, "data", w->data_name);
    cJSON_AddNumberToObject(j, "m", (double)w->m);
    cJSON_AddNumberToObject(j, "n", (double)w->n);
    cJSON_AddNumberToObject(j, "k", (double)w->k);
    if (w->operation != LIMBER_OPERATION_GEMM)
        cJSON_AddStringToObject(j, "layout",
                                w->conv.layout == LIMBER_LAYOUT_NHWC ? "nhwc" : "nchw");
}

/* Adds a line's ratio and the name of what it is a ratio to. */
static void add_ratio(cJSON *j, const struct line *l)
{
    if (l->ratio > 0) {
        json_number(j, "ratio", l->ratio);
        cJSON_AddStringToObject(j, "ratio_to", l->of);
    }
}

/* Adds Limber's report of a call to a contender's JSON object. */
static void add_report(cJSON *j, const struct contender *c)
{
    const limber_report *p = &c->report;
    cJSON *o;

    if (c->peer || !*p->backend)
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

static void add_library(cJSON *list, const struct library *l)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "name", l->name);
    cJSON_AddBoolToObject(j, "usable", l->usable);
    cJSON_AddStringToObject(j, "version", l->version);
    cJSON_AddStringToObject(j, "kernels", l->kernels);
    if (!l->usable)
        cJSON_AddStringToObject(j, "why_not", l->why_not);
    cJSON_AddItemToArray(list, j);
}

/* Attributes of the device that the JSON shows, with their CUdevice_attribute numbers. */
static const struct {
    const char *name;
    int number;
} attributes[] = {
    { "multiprocessors", 16 },
    { "clock_khz", 13 },
    { "memory_clock_khz", 36 },
    { "memory_bus_bits", 37 },
    { "l2", 38 },
    { "shared_of_multiprocessor", 81 },
    { "shared_of_block", 97 },
    { "registers_of_multiprocessor", 82 },
    { "threads_of_multiprocessor", 39 },
    { "ecc", 32 },
    { "memory_pools", 115 },
};

/* Adds the device's clocks, power and temperature. */
static void add_clocks(cJSON *j, const struct device_now *d)
{
    if (!d->sm_mhz)
        return;
    cJSON_AddNumberToObject(j, "sm_mhz", d->sm_mhz);
    cJSON_AddNumberToObject(j, "memory_mhz", d->memory_mhz);
    cJSON_AddNumberToObject(j, "watts", d->watts);
    cJSON_AddNumberToObject(j, "celsius", d->celsius);
    cJSON_AddNumberToObject(j, "clock_reasons", (double)d->reasons);
}

/* Returns a JSON object with Limber's version, the GPU's attributes and clocks, and the
 * libraries. */
cJSON *print_device(const struct bench *b)
{
    const struct device_info *g = device_info();
    cJSON *j = cJSON_CreateObject(), *gpu, *peers;
    struct device_now now;
    struct library *const *list;
    int count = libraries_list(&list);

    cJSON_AddStringToObject(j, "limber", LIMBER_VERSION);
    cJSON_AddStringToObject(j, "backend", b->backend);
    gpu = cJSON_AddObjectToObject(j, "gpu");
    cJSON_AddStringToObject(gpu, "name", g->name);
    cJSON_AddNumberToObject(gpu, "capability", g->major * 10 + g->minor);
    cJSON_AddNumberToObject(gpu, "memory", (double)g->memory);
    cJSON_AddNumberToObject(gpu, "driver", g->driver);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (device_attribute(attributes[i].number) >= 0)
            cJSON_AddNumberToObject(gpu, attributes[i].name,
                                    device_attribute(attributes[i].number));
    watch_sample();
    now = watch_last();
    add_clocks(gpu, &now);
    cJSON_AddStringToObject(j, "clocks", b->unwatched ? b->unwatched : "by NVML");
    peers = cJSON_AddArrayToObject(j, "peers");
    for (int i = 0; i < count; i++)
        if (list[i]->gpu && (list[i]->usable || *list[i]->why_not))
            add_library(peers, list[i]);
    return j;
}

/* Prints an object as one line, and deletes it. */
void print_object(cJSON *j)
{
    char *text = cJSON_PrintUnformatted(j);

    if (text)
        puts(text);
    fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(j);
}

static void add_cpu(cJSON *all)
{
    char cpu[64], has[64];

    cpu_name(cpu, sizeof cpu);
    write_cpu_features(has, sizeof has);
    cJSON_AddStringToObject(all, "cpu", cpu);
    cJSON_AddStringToObject(all, "features", *has ? has + 1 : has);
    cJSON_AddStringToObject(all, "double_double", dd_kernel() ? dd_kernel() : "none");
    cJSON_AddStringToObject(all, "cpfloat", cpfloat_name() ? cpfloat_name() : "none");
}

/* Returns all results as a JSON object, which takes over b->rows. */
cJSON *print_json(struct bench *b)
{
    struct library *const *list;
    int count = libraries_list(&list);
    cJSON *all = cJSON_CreateObject(), *peers;

    cJSON_AddStringToObject(all, "limber", LIMBER_VERSION);
    add_cpu(all);
    cJSON_AddBoolToObject(all, "cpu_time", b->cpu_time);
    peers = cJSON_AddArrayToObject(all, "peers");
    for (int i = 0; i < count; i++)
        if (!list[i]->gpu)
            add_library(peers, list[i]);
    cJSON_AddItemToObject(all, "rows", b->results.rows);
    b->results.rows = NULL;
    return all;
}

/* ---- lines of `limber bench` ----------------------------------------------------------------- */

/* Adds the times of all contenders that succeeded, Limber first. */
static void add_contenders(cJSON *j, const struct work *w)
{
    cJSON *list = cJSON_AddArrayToObject(j, "seconds");

    cJSON_AddNumberToObject(j, "runs", w->list[0].times.samples);
    for (int i = 0; i < w->count; i++) {
        const struct contender *c = &w->list[i];
        cJSON *x;

        if (c->state != STATE_ok)
            continue;
        x = cJSON_CreateObject();
        cJSON_AddStringToObject(x, "name", c->peer ? c->peer->name : c->name ? c->name : "Limber");
        cJSON_AddNumberToObject(x, "median", c->times.median);
        cJSON_AddNumberToObject(x, "best", c->times.best);
        if (i > 0) {
            cJSON_AddNumberToObject(x, "ratio", c->times.median / w->list[0].times.median);
            cJSON_AddNumberToObject(x, "ratio_of_bests", c->times.best / w->list[0].times.best);
            cJSON_AddNumberToObject(x, "difference_of_allowed",
                                    c->checked.allowed > 0 ? c->checked.error / c->checked.allowed :
                                                             c->checked.error);
        }
        cJSON_AddItemToArray(list, x);
    }
}

/* Adds a line of the table to the rows of the JSON. */
static void add_line(struct bench *b, const struct line *l)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "group", b->results.group);
    cJSON_AddStringToObject(j, "work", l->what ? l->what : l->w->what);
    cJSON_AddNumberToObject(j, "n", (double)l->n);
    cJSON_AddNumberToObject(j, "threads", l->w ? l->w->threads : b->threads);
    cJSON_AddStringToObject(j, "scheme", l->scheme);
    cJSON_AddNumberToObject(j, "value", l->value);
    cJSON_AddNumberToObject(j, "best", l->best);
    cJSON_AddStringToObject(j, "unit", l->unit);
    add_ratio(j, l);
    if (l->share > 0)
        cJSON_AddNumberToObject(j, "products_at_peak", l->share);
    if (l->note)
        cJSON_AddStringToObject(j, "note", l->note);
    if (l->shows_workspace)
        cJSON_AddNumberToObject(j, "workspace", (double)l->w->list[0].report.workspace);
    if (l->all)
        add_contenders(j, l->w);
    cJSON_AddItemToArray(b->results.rows, j);
}

/* Prints a line of the table of `limber bench`, or adds it to the JSON. */
void print_line(struct bench *b, const struct line *l)
{
    char n[16] = "", ratio[160] = "", share[48] = "";

    if (b->json) {
        add_line(b, l);
        return;
    }
    if (l->n)
        snprintf(n, sizeof n, "%lld", (long long)l->n);
    if (l->ratio > 0)
        snprintf(ratio, sizeof ratio,
                 l->ratio < 0.1 ? " %6.3f x %s%s%s" :
                 l->ratio < 10  ? " %6.2f x %s%s%s" :
                                  " %6.1f x %s%s%s",
                 l->ratio, l->of, l->note ? "; " : "", l->note ? l->note : "");
    else if (l->note)
        snprintf(ratio, sizeof ratio, " %s", l->note);
    if (l->share > 0)
        snprintf(share, sizeof share, "%sproducts at peak: %.0f%%", *ratio ? "; " : " ",
                 100 * l->share);
    print_text(b, "%-46s %5s  %-12s %9.1f %9.1f %-7s%s%s", l->what ? l->what : l->w->what, n,
               l->scheme, l->value, l->best, l->unit, ratio, share);
}

/* Prints the mean rate of a group of convolutions, and adds it to the JSON rows if there are
 * any. */
void print_mean(struct bench *b, const char *what, double rate, const char *ratios)
{
    cJSON *j;

    print_text(b, "%-46s %5s  %-12s %9.1f %9s %-7s %s", what, "", "", rate, "", "GFLOPS", ratios);
    if (!b->json)
        return;
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "group", "conv");
    cJSON_AddStringToObject(j, "work", what);
    cJSON_AddNumberToObject(j, "threads", b->threads);
    cJSON_AddNumberToObject(j, "value", rate);
    cJSON_AddStringToObject(j, "unit", "GFLOPS");
    cJSON_AddStringToObject(j, "note", ratios);
    cJSON_AddItemToArray(b->results.rows, j);
}

/* ---- lines of `limber gpu` ------------------------------------------------------------------- */

/* Writes the size of a row as text: n, m x n x k, or the batch of a convolution. */
static void write_size(const struct work *w, char *text, size_t size)
{
    if (w->operation != LIMBER_OPERATION_GEMM)
        snprintf(text, size, "batch %lld", (long long)w->conv.n);
    else if (w->m == w->n && w->n == w->k)
        snprintf(text, size, "%lld", (long long)w->n);
    else
        snprintf(text, size, "%lldx%lldx%lld", (long long)w->m, (long long)w->n, (long long)w->k);
}

static const char *const splits[] = { "", " ahead", " inside" }; /* [limber_split] */

/* Writes the name of a contender: "Limber fp32-f inside", or the peer's.  A scheme that Limber
 * chose is put in parentheses. */
static void write_contender_name(const struct contender *c, char *text, size_t size)
{
    if (c->peer)
        snprintf(text, size, "%s", c->peer->name);
    else if (c->contract.scheme)
        snprintf(text, size, "Limber %s%s%s%s", c->contract.scheme, splits[c->contract.split],
                 c->name ? " " : "", c->name ? c->name : "");
    else
        snprintf(text, size, "Limber%s%s (%s)", c->name ? " " : "", c->name ? c->name : "",
                 *c->report.scheme ? c->report.scheme : "?");
}

/* Writes a duration in milliseconds; "" if there is none. */
static const char *write_ms(double seconds, char *text, size_t size)
{
    *text = 0;
    if (seconds > 0)
        snprintf(text, size, "%.4f", 1e3 * seconds);
    return text;
}

/* Prints a line of `limber gpu`.  by: name of the contender. */
static void print_gpu_text(struct bench *b, const struct line *l, const char *by)
{
    const struct contender *c = l->c;
    const struct work *w = l->w;
    char what[128], size[48], median[16], best[16], ratio[96] = "";

    snprintf(what, sizeof what, "%s%s%s", l->what ? l->what : w->what, *w->data_name ? ", " : "",
             w->data_name);
    write_size(w, size, sizeof size);
    if (l->ratio > 0)
        snprintf(ratio, sizeof ratio, l->ratio < 10 ? "%.2f x %s" : "%.1f x %s", l->ratio, l->of);
    if (c->state == STATE_skipped || c->state == STATE_failed ||
        (c->times.samples == 0 && !l->untimed))
        print_text(b, "%-40s %-17s %-28s %s: %s", what, size, by, states[c->state],
                   *c->why ? c->why : "not timed");
    else
        print_text(b, "%-40s %-17s %-28s %9s %9s %9.4g %-7s %9.3g  %s%s%s%s%s", what, size, by,
                   write_ms(c->times.median, median, 16), write_ms(c->times.best, best, 16),
                   l->value, l->unit, c->checked.error, ratio, l->note ? "  " : "",
                   l->note ? l->note : "", c->state == STATE_wrong ? "  WRONG: " : "",
                   c->state == STATE_wrong ? c->why : "");
}

/* Adds the times, rate and error of a row's contender to its JSON object. */
static void add_times(cJSON *j, const struct line *l)
{
    const struct contender *c = l->c;
    cJSON *list = cJSON_AddArrayToObject(j, "seconds");

    for (int i = 0; i < c->times.samples; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(c->times.seconds[i]));
    json_number(j, "median", c->times.median);
    json_number(j, "best", c->times.best);
    cJSON_AddNumberToObject(j, "calls_a_sample", c->times.repeats);
    json_number(j, "rate", l->value);
    cJSON_AddStringToObject(j, "unit", l->unit);
    add_ratio(j, l);
    json_number(j, "error", c->checked.error);
    json_number(j, "allowed", c->checked.allowed);
    add_clocks(j, &c->times.device);
}

/* Adds the GPU kernels that a contender launched, with their times, to a JSON object. */
static void add_kernels(cJSON *j, const struct contender *c)
{
    cJSON *list = c->times.kernel_count ? cJSON_AddArrayToObject(j, "kernels") : NULL;

    for (int i = 0; i < c->times.kernel_count; i++) {
        cJSON *k = cJSON_CreateObject();

        cJSON_AddStringToObject(k, "name", c->times.kernels[i].name);
        cJSON_AddNumberToObject(k, "launches", c->times.kernels[i].launches);
        json_number(k, "seconds", c->times.kernels[i].seconds);
        cJSON_AddItemToArray(list, k);
    }
}

/* Prints a contender's kernels and their times on a line below its row. */
static void print_kernels(struct bench *b, const struct contender *c)
{
    char text[400];
    size_t at = 0;

    for (int i = 0; i < c->times.kernel_count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %.4f ms", i ? ", " : "",
                               c->times.kernels[i].name, 1e3 * c->times.kernels[i].seconds);
    if (at)
        print_text(b, "    %s", text);
}

/* Prints a contender's result for `limber gpu`: a line of the table, its kernels, and a JSON object
 * with times if that was asked for. */
void print_gpu_line(struct bench *b, const struct line *l)
{
    const struct contender *c = l->c;
    cJSON *j;
    char by[64];

    b->results.count[c->state]++;
    write_contender_name(c, by, sizeof by);
    print_gpu_text(b, l, by);
    print_kernels(b, c);
    if (!b->json)
        return;
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "group", b->results.group);
    cJSON_AddStringToObject(j, "work", l->what ? l->what : l->w->what);
    add_shape(j, l->w);
    cJSON_AddStringToObject(j, "by", by);
    if (c->peer && *c->report.scheme)
        cJSON_AddStringToObject(j, "algorithm", c->report.scheme);
    cJSON_AddStringToObject(j, "state", states[c->state]);
    if (*c->why)
        cJSON_AddStringToObject(j, "why", c->why);
    if (l->note)
        cJSON_AddStringToObject(j, "note", l->note);
    if (c->times.samples > 0 || l->untimed)
        add_times(j, l);
    add_kernels(j, c);
    add_report(j, c);
    print_object(j);
}

/* Prints a contender's state as a JSON line before its timed samples, so that the output shows it
 * if a later call hangs. */
void print_so_far(void *bench, const struct work *w, const struct contender *c)
{
    struct bench *b = bench;
    cJSON *j;
    char by[64];

    if (!b->json || !b->gpu)
        return;
    j = cJSON_CreateObject();
    write_contender_name(c, by, sizeof by);
    cJSON_AddStringToObject(j, "group", b->results.group);
    cJSON_AddStringToObject(j, "work", w->what);
    add_shape(j, w);
    cJSON_AddStringToObject(j, "by", by);
    cJSON_AddStringToObject(j, "so_far", states[c->state]);
    if (c->times.best > 0)
        cJSON_AddNumberToObject(j, "median", c->times.best);
    if (*c->why)
        cJSON_AddStringToObject(j, "why", c->why);
    print_object(j);
}

/* Prints the reason for which a row was skipped. */
void print_skipped_row(struct bench *b, const char *what, const char *why)
{
    cJSON *j;

    b->results.count[STATE_skipped]++;
    print_text(b, "%-40s skipped: %s", what, why);
    if (!b->json)
        return;
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "group", b->results.group);
    cJSON_AddStringToObject(j, "work", what);
    cJSON_AddStringToObject(j, "state", states[STATE_skipped]);
    cJSON_AddStringToObject(j, "why", why);
    print_object(j);
}
