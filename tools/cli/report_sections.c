/* SPDX-License-Identifier: BSD-3-Clause
 * Sections of a page for sweeps and benchmarks: charts and tables of the JSON that other commands
 * and the programs in examples/ print. */
#define _GNU_SOURCE
#include "tools/cli/page.h"
#include "tools/cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CURVES = 24, MOST_COLUMNS = 24, MOST_NAMES = 24, MOST_ROWS = 1000 };

/* ---- values from JSON ------------------------------------------------------------------------ */

double json_value(const cJSON *o, const char *name)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(o, name);

    return cJSON_IsNumber(x) ? x->valuedouble : NAN;
}

const char *json_word(const cJSON *o, const char *name)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(o, name);

    return cJSON_IsString(x) ? x->valuestring : "";
}

static const cJSON *array_of(const cJSON *o, const char *name)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(o, name);

    return cJSON_IsArray(x) ? x : NULL;
}

/* A set of names. */
struct names {
    const char *list[MOST_NAMES];
    int n;
};

/* Adds a name to a set.  Returns false if it is in the set already, or if the set is full. */
static bool add_name(struct names *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (!strcmp(names->list[i], name))
            return false;
    if (names->n == MOST_NAMES)
        return false;
    names->list[names->n++] = name;
    return true;
}

static bool has_number(const cJSON *o)
{
    const cJSON *x;

    cJSON_ArrayForEach(x, o) if (cJSON_IsNumber(x)) return true;
    return false;
}

/* Returns which command wrote a JSON file, by its members. */
enum kind kind_of(const cJSON *o)
{
    if (cJSON_IsArray(o)) {
        const cJSON *one;

        cJSON_ArrayForEach(one,
                           o) if (!cJSON_IsObject(one) || !has_number(one)) return KIND_UNKNOWN;
        return o->child ? KIND_LINES : KIND_UNKNOWN;
    }
    if (array_of(o, "trials"))
        return cJSON_HasObjectItem(array_of(o, "trials")->child, "unit") ? KIND_EXPLORE :
                                                                           KIND_SWEEP;
    return array_of(o, "applications")       ? KIND_APPS :
           !cJSON_HasObjectItem(o, "limber") ? KIND_UNKNOWN :
           array_of(o, "calls")              ? KIND_RUN :
           array_of(o, "rows")               ? KIND_BENCH :
                                               KIND_UNKNOWN;
}

const char *kind_name(enum kind k)
{
    static const char *const names[] = { [KIND_RUN] = "runs",
                                         [KIND_EXPLORE] = "simulated units",
                                         [KIND_SWEEP] = "formats or contracts",
                                         [KIND_BENCH] = "benchmark",
                                         [KIND_APPS] = "applications",
                                         [KIND_LINES] = "measurements",
                                         [KIND_UNKNOWN] = "" };

    return names[k];
}

/* ---- curves of several series ---------------------------------------------------------------- */

/* Curves by name.  `left` counts points of curves for which there is no room. */
struct curves {
    struct curve list[MOST_CURVES];
    int n, left;
    bool failed; /* true if memory ran out */
};

/* Adds a point to the curve of this name.  The curve is made if it does not exist and there is
 * room. */
static void curve_add(struct curves *c, const char *name, struct point p)
{
    struct curve *at = c->list;
    struct point *more;

    while (at < c->list + c->n && strcmp(at->name, name))
        at++;
    if (at == c->list + c->n) {
        if (c->n == MOST_CURVES) {
            c->left++;
            return;
        }
        *at = (struct curve){ .n = 0 };
        snprintf(at->name, sizeof at->name, "%s", name);
        c->n++;
    }
    more = realloc(at->point, (size_t)(at->n + 1) * sizeof *more);
    if (!more) {
        c->failed = true;
        return;
    }
    at->point = more;
    at->point[at->n++] = p;
}

static struct point point_at(double x, double y)
{
    return (struct point){ x, y, NAN, NAN };
}

/* Draws the curves, and frees them.  If memory was exhausted while they were collected, draws
 * nothing and returns false. */
static bool curves_draw(FILE *f, struct curves *c, struct chart chart)
{
    const bool ok = !c->failed;

    chart.curve = c->list;
    chart.n = c->n;
    if (ok)
        page_chart(f, &chart);
    if (ok && c->left)
        fprintf(f, "<p>%d points of further curves are not drawn.</p>\n", c->left);
    for (int i = 0; i < c->n; i++)
        free(c->list[i].point);
    *c = (struct curves){ .n = 0 };
    return ok;
}

/* ---- any JSON rows as a table ---------------------------------------------------------------- */

static bool is_cell(const cJSON *x)
{
    return cJSON_IsNumber(x) || cJSON_IsString(x) || cJSON_IsBool(x);
}

/* Writes one cell of an HTML table: a number, text, or yes or no. */
static void write_cell(FILE *f, const cJSON *x)
{
    if (cJSON_IsNumber(x))
        page_number(f, x->valuedouble);
    else {
        fputs("<td>", f);
        page_text(f, cJSON_IsString(x) ? x->valuestring :
                     cJSON_IsTrue(x)   ? "yes" :
                     cJSON_IsFalse(x)  ? "no" :
                                         "");
        fputs("</td>", f);
    }
}

static void write_omitted(FILE *f, int rows)
{
    if (rows > MOST_ROWS)
        fprintf(f, "<p>%d further rows are not listed.</p>\n", rows - MOST_ROWS);
}

/* Writes a table with a column for each member that occurs in the rows, in the order of first
 * occurrence. */
static void write_table(FILE *f, const cJSON *rows)
{
    struct names names = { .n = 0 };
    const cJSON *row, *x;
    int n = 0;

    cJSON_ArrayForEach(row, rows) cJSON_ArrayForEach(x, row) if (is_cell(x))
        add_name(&names, x->string);
    fputs("<div><table><tr>", f);
    for (int i = 0; i < names.n; i++) {
        fputs("<th>", f);
        page_text(f, names.list[i]);
        fputs("</th>", f);
    }
    fputs("</tr>\n", f);
    cJSON_ArrayForEach(row, rows)
    {
        if (n++ >= MOST_ROWS)
            continue;
        fputs("<tr>", f);
        for (int i = 0; i < names.n; i++)
            write_cell(f, cJSON_GetObjectItemCaseSensitive(row, names.list[i]));
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
    write_omitted(f, n);
}

/* ---- rows of limber explore ------------------------------------------------------------------ */

/* True if the rows' values of member `name` are not all equal. */
static bool has_variation(const cJSON *rows, const char *name)
{
    const cJSON *row;

    cJSON_ArrayForEach(
        row, rows) if (strcmp(json_word(row, name), json_word(rows->child, name))) return true;
    return false;
}

/* Draws a curve for each family of trials, such as "groups of 16, rn, products exact".  Names
 * include only attributes in which trials differ. */
static bool explore_curves(FILE *f, const cJSON *trials, const char *across, const char *up,
                           double times, struct chart chart)
{
    struct curves c = { .n = 0 };
    bool roundings = has_variation(trials, "rounding"),
         products = has_variation(trials, "products");
    const cJSON *t;

    cJSON_ArrayForEach(t, trials)
    {
        double group = json_value(t, "group");
        char name[120], groups[40] = "no groups";

        if (group > 0)
            snprintf(groups, sizeof groups, "groups of %.0f", group);
        snprintf(name, sizeof name, "%s%s%s%s%s", groups, roundings ? ", " : "",
                 roundings ? json_word(t, "rounding") : "", products ? ", products " : "",
                 products ? json_word(t, "products") : "");
        curve_add(&c, name, point_at(json_value(t, across), times * json_value(t, up)));
    }
    return curves_draw(f, &c, chart);
}

static const char *const trial_heads[] = { "unit",      "bits",     "error",
                                           "",          "swamped",  "variance kept",
                                           "predicted", "distance", "frontier" };

/* Writes a table of trials of simulated units, with the error of each. */
static void explore_table(FILE *f, const cJSON *trials)
{
    const cJSON *t;
    double most = 0;
    int n = 0;

    cJSON_ArrayForEach(t, trials) if (isfinite(json_value(t, "error"))) most =
        fmax(most, json_value(t, "error"));
    fputs("<div><table><tr>", f);
    for (size_t i = 0; i < sizeof trial_heads / sizeof *trial_heads; i++)
        fprintf(f, "<th>%s</th>", trial_heads[i]);
    fputs("</tr>\n", f);
    cJSON_ArrayForEach(t, trials)
    {
        double error = json_value(t, "error");
        bool best = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(t, "frontier"));

        if (n++ >= MOST_ROWS)
            continue;
        fputs("<tr><td class=w>", f);
        page_text(f, json_word(t, "unit"));
        fputs("</td>", f);
        page_number(f, json_value(t, "accumulator_bits"));
        page_number(f, error);
        page_bar(f, error, most, 0, !best);
        fprintf(f, "<td class=n>%.2f%%</td>", 100 * json_value(t, "swamped"));
        page_number(f, json_value(t, "retention"));
        page_number(f, json_value(t, "retention_predicted"));
        page_number(f, json_value(t, "distance"));
        fprintf(f, "<td>%s</td></tr>\n", best ? "yes" : "");
    }
    fputs("</table></div>\n", f);
    write_omitted(f, n);
}

/* Writes the section for a sweep over stored formats, or over contracts. */
static bool sweep_html(FILE *f, const cJSON *o)
{
    const cJSON *trials = array_of(o, "trials"), *t;
    const bool stored = cJSON_HasObjectItem(trials->child, "stored");
    const char *cost = stored ? "operand_bits" : "seconds", *key = stored ? "stored" : "contract";
    const char *across = stored ? "bits of an operand's element" : "seconds of all products";
    struct curves c = { .n = 0 };

    fputs("<p>", f);
    page_text(f, json_word(o, "shape"));
    fprintf(f,
            ", %s. Error: the largest of all products, relative to the exact result. On the "
            "frontier none costs less and has no larger error.</p>\n",
            stored ? "operands stored in formats, sums exact" : "under contracts");
    cJSON_ArrayForEach(t, trials)
        curve_add(&c, json_word(t, key), point_at(json_value(t, cost), json_value(t, "error")));
    if (!curves_draw(f, &c,
                     (struct chart){ .title = stored ? "Error over bits" : "Error over time",
                                     .across = across,
                                     .up = "relative error",
                                     .log_y = true }))
        return false;
    write_table(f, trials);
    return true;
}

/* Writes the section for trials of simulated units: charts and a table.  Returns false if memory is
 * exhausted. */
static bool explore_html(FILE *f, const cJSON *o)
{
    const cJSON *trials = array_of(o, "trials");
    const cJSON *best = cJSON_GetObjectItemCaseSensitive(o, "smallest");

    fputs("<p>", f);
    page_text(f, json_word(o, "shape"));
    fprintf(f,
            ", on %d simulated units. Error: of all elements, relative to the exact result. On the "
            "frontier no other unit has fewer bits and no larger error.</p>\n",
            cJSON_GetArraySize(trials));
    if (cJSON_IsObject(best)) {
        fputs("<p>The smallest accumulator that keeps ", f);
        fprintf(f, "%g: ", json_value(o, "keep"));
        page_text(f, json_word(best, "unit"));
        fputs("</p>\n", f);
    } else if (cJSON_HasObjectItem(o, "keep"))
        fprintf(f, "<p>No unit keeps %g.</p>\n", json_value(o, "keep"));
    if (!explore_curves(f, trials, "accumulator_bits", "error", 1,
                        (struct chart){ .title = "Error over the accumulator's bits",
                                        .across = "bits of the accumulator",
                                        .up = "relative error",
                                        .log_y = true }) ||
        !explore_curves(f, trials, "accumulator_bits", "swamped", 100,
                        (struct chart){ .title = "Additions that changed nothing",
                                        .across = "bits of the accumulator",
                                        .up = "percent of additions" }) ||
        !explore_curves(f, trials, "retention_predicted", "retention", 1,
                        (struct chart){ .title = "Variance kept, over what the model predicts",
                                        .across = "predicted",
                                        .up = "measured" }))
        return false;
    explore_table(f, trials);
    return true;
}

/* ---- rows of limber bench and limber gpu ----------------------------------------------------- */

/* Returns a row's rate, which is the member "value" for CPUs and "rate" for GPUs. */
static double rate_of(const cJSON *row)
{
    double value = json_value(row, "value");

    return isnan(value) ? json_value(row, "rate") : value;
}

static bool same_group(const cJSON *a, const cJSON *b)
{
    return !strcmp(json_word(a, "group"), json_word(b, "group"));
}

/* Draws rates as a function of n, for benchmarks with several sizes.  Returns false if memory
 * runs out. */
static bool bench_curves(FILE *f, const cJSON *first)
{
    struct curves c = { .n = 0 };
    const char *unit = json_word(first, "unit");

    for (const cJSON *row = first; row && same_group(row, first); row = row->next) {
        double n = json_value(row, "n"), threads = json_value(row, "threads");
        const char *by = json_word(row, "by");
        char name[120], count[32] = "";

        if (threads > 1)
            snprintf(count, sizeof count, ", %.0f threads", threads);
        snprintf(name, sizeof name, "%s%s%s%s", json_word(row, "work"), *by ? ", " : "", by, count);
        if (n > 0 && !strcmp(json_word(row, "unit"), unit))
            curve_add(&c, name, point_at(n, rate_of(row)));
    }
    for (int i = 0; i < c.n;) { /* removes benchmarks with a single size */
        bool several = false;

        for (int j = 1; j < c.list[i].n; j++)
            several |= c.list[i].point[j].x != c.list[i].point[0].x;
        if (several) {
            i++;
            continue;
        }
        free(c.list[i].point);
        memmove(&c.list[i], &c.list[i + 1], (size_t)(--c.n - i) * sizeof *c.list);
    }
    return curves_draw(f, &c,
                       (struct chart){ .title = json_word(first, "group"),
                                       .across = "n",
                                       .up = unit,
                                       .log_x = true,
                                       .lines = true });
}

/* Writes a row of a benchmark.  most: largest rate of the group, for the bars. */
static void bench_row(FILE *f, const cJSON *row, double most)
{
    double ratio = json_value(row, "ratio");
    const char *scheme = json_word(row, "scheme"), *note = json_word(row, "note");
    const char *state = json_word(row, "state"), *why = json_word(row, "why");

    fputs("<tr><td>", f);
    page_text(f, json_word(row, "work"));
    fputs("</td>", f);
    page_number(f, json_value(row, "n"));
    page_number(f, json_value(row, "threads"));
    fputs("<td>", f);
    page_text(f, *scheme ? scheme : json_word(row, "by"));
    fputs("</td>", f);
    page_number(f, rate_of(row));
    fputs("<td>", f);
    page_text(f, json_word(row, "unit"));
    fputs("</td>", f);
    page_bar(f, rate_of(row), most, 0, !strcmp(state, "WRONG") || !strcmp(state, "FAILED"));
    fputs("<td>", f);
    if (ratio > 0) {
        fprintf(f, "%.3g &times; ", ratio);
        page_text(f, json_word(row, "ratio_to"));
    }
    fputs("</td>", f);
    page_ratio(f, ratio);
    fputs("<td>", f);
    page_text(f, note);
    if (*state && strcmp(state, "ok")) {
        page_text(f, *note ? "; " : "");
        page_text(f, state);
        page_text(f, *why ? ": " : "");
        page_text(f, why);
    }
    fputs("</td></tr>\n", f);
}

/* Writes the head of a benchmark's section: versions, machine and libraries. */
static void bench_head(FILE *f, const cJSON *o)
{
    const cJSON *gpu = cJSON_GetObjectItemCaseSensitive(o, "gpu"), *peer;
    const char *before = "Beside ";

    fputs("<p>Limber ", f);
    page_text(f, json_word(o, "limber"));
    fputs(", ", f);
    page_text(f, gpu ? json_word(gpu, "name") : json_word(o, "cpu"));
    fputs(". ", f);
    cJSON_ArrayForEach(peer, array_of(o, "peers"))
    {
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(peer, "usable"))) {
            page_text(f, before);
            page_text(f, json_word(peer, "name"));
            fputs(" ", f);
            page_text(f, json_word(peer, "version"));
            before = ", ";
        }
    }
    fputs("</p>\n<p>The point beside each ratio: its place between 1/16 and 16 on a scale of "
          "powers of 2; orange where Limber takes longer.</p>\n",
          f);
}

/* Writes the section for a benchmark: a chart and a table for each group of rows.  Returns false if
 * memory is exhausted. */
static bool bench_html(FILE *f, const cJSON *o)
{
    const cJSON *rows = array_of(o, "rows"), *row, *end;

    bench_head(f, o);
    for (row = rows->child; row; row = end) {
        const cJSON *first = row;
        double most = 0;

        for (end = row; end && same_group(end, first); end = end->next)
            if (isfinite(rate_of(end)))
                most = fmax(most, rate_of(end));
        fputs("<h2>", f);
        page_text(f, json_word(first, "group"));
        fputs("</h2>\n", f);
        if (!bench_curves(f, first))
            return false;
        fputs("<div><table><tr><th>work</th><th>n</th><th>threads</th><th>by</th><th>rate</th>"
              "<th></th><th></th><th>ratio</th><th></th><th></th></tr>\n",
              f);
        for (; row != end; row = row->next)
            bench_row(f, row, most);
        fputs("</table></div>\n", f);
    }
    return true;
}

/* ---- rows of limber bench apps --------------------------------------------------------------- */

/* Writes the row of an application.  most: longest time, for the bars. */
static void app_row(FILE *f, const cJSON *row, double most)
{
    double seconds = json_value(row, "seconds"), inside = json_value(row, "seconds_in_products");

    fputs("<tr><td class=w>", f);
    page_text(f, json_word(row, "by"));
    fputs("</td><td class=w>", f);
    page_text(f, json_word(row, "computed_by"));
    fputs("</td>", f);
    page_number(f, seconds);
    page_number(f, inside);
    page_bar(f, seconds, most, inside, !strcmp(json_word(row, "by"), json_word(row, "beside")));
    page_number(f, json_value(row, "speed"));
    page_ratio(f, json_value(row, "speed"));
    page_number(f, json_value(row, "speed_of_products"));
    page_ratio(f, json_value(row, "speed_of_products"));
    page_number(f, json_value(row, "accuracy"));
    fputs("</tr>\n", f);
}

/* Writes the section for applications: a table for each. */
static void apps_html(FILE *f, const cJSON *o)
{
    const cJSON *app, *row;

    fputs("<p>Limber ", f);
    page_text(f, json_word(o, "limber"));
    fprintf(f,
            "; threads: %.0f, runs of each: %.0f. Grey: the plain BLAS, beside which speeds are "
            "told; the orange line: what products take of the time.</p>\n",
            json_value(o, "threads"), json_value(o, "runs"));
    cJSON_ArrayForEach(app, array_of(o, "applications"))
    {
        const char *skipped = json_word(app, "skipped"), *failed = json_word(app, "failed");
        double most = 0;

        fputs("<h2>", f);
        page_text(f, json_word(app, "name"));
        fputs(": ", f);
        page_text(f, json_word(app, "what"));
        fputs("</h2>\n", f);
        if (!array_of(app, "rows")) {
            fputs(*failed ? "<p>failed: " : "<p>skipped: ", f);
            page_text(f, *failed ? failed : skipped);
            fputs("</p>\n", f);
            continue;
        }
        cJSON_ArrayForEach(row, array_of(app, "rows")) most =
            fmax(most, json_value(row, "seconds"));
        fputs("<p>Accuracy: ", f);
        page_text(f, json_word(app, "accuracy"));
        fputs("</p>\n<div><table><tr><th>by</th><th>computed by</th><th>seconds</th>"
              "<th>in products</th><th></th><th>speed</th><th></th><th>of products</th><th></th>"
              "<th>accuracy</th></tr>\n",
              f);
        cJSON_ArrayForEach(row, array_of(app, "rows")) app_row(f, row, most);
        fputs("</table></div>\n", f);
    }
}

/* ---- lines of training logs and statistics --------------------------------------------------- */

/* Returns the number of fraction bits in a format's text "(1,8,5)"; NaN if it has another form. */
static double fraction_bits(const char *format)
{
    const char *comma = strrchr(format, ',');
    char *end;
    long bits = comma ? strtol(comma + 1, &end, 10) : 0;

    return comma && end > comma + 1 && !strcmp(end, ")") ? (double)bits : NAN;
}

/* Draws accuracy as a function of the accumulator's bits.  Runs in FP32, without a simulated
 * accumulator, are a horizontal line. */
static bool training_html(FILE *f, const cJSON *rows)
{
    struct curves c = { .n = 0 };
    double low = INFINITY, high = -INFINITY;
    const cJSON *row;

    cJSON_ArrayForEach(row, rows)
    {
        double bits = fraction_bits(json_word(row, "accumulator"));

        low = fmin(low, bits);
        high = fmax(high, bits);
    }
    cJSON_ArrayForEach(row, rows)
    {
        double bits = fraction_bits(json_word(row, "accumulator"));
        struct point p = { bits, json_value(row, "mean"), json_value(row, "lowest"),
                           json_value(row, "highest") };
        char name[120] = "no groups";

        if (json_value(row, "group") > 0)
            snprintf(name, sizeof name, "groups of %.0f", json_value(row, "group"));
        if (isnan(bits)) {
            snprintf(name, sizeof name, "%s", json_word(row, "accumulator"));
            p.x = low;
            curve_add(&c, name, p);
            p.x = high;
        }
        curve_add(&c, name, p);
    }
    if (!curves_draw(f, &c,
                     (struct chart){ .title = "Accuracy over the bits of accumulators",
                                     .across = "fraction bits of the accumulator",
                                     .up = "percent right: lowest, mean, highest",
                                     .lines = true }))
        return false;
    write_table(f, rows);
    return true;
}

/* Returns the quantity of a tag SERIES/QUANTITY: the text after the last "/". */
static const char *quantity_of(const cJSON *row)
{
    const char *tag = json_word(row, "tag"), *slash = strrchr(tag, '/');

    return slash ? slash + 1 : tag;
}

/* Writes the part of a tag SERIES/QUANTITY before the last "/". */
static void series_name(const cJSON *row, char *name, size_t size)
{
    const char *tag = json_word(row, "tag");
    int length = (int)(quantity_of(row) - tag);

    snprintf(name, size, "%.*s", length > 0 ? length - 1 : 0, tag);
}

/* Writes the section for statistics of layers: a chart for each quantity, as a function of the
 * step. */
static bool statistics_html(FILE *f, const cJSON *rows)
{
    struct names drawn = { .n = 0 };
    const cJSON *first, *row;

    cJSON_ArrayForEach(first, rows)
    {
        struct curves c = { .n = 0 };

        if (!add_name(&drawn, quantity_of(first)))
            continue;
        cJSON_ArrayForEach(row, rows)
        {
            char name[120];

            series_name(row, name, sizeof name);
            if (!strcmp(quantity_of(row), quantity_of(first)))
                curve_add(&c, name, point_at(json_value(row, "step"), json_value(row, "value")));
        }
        if (!curves_draw(f, &c,
                         (struct chart){ .title = quantity_of(first),
                                         .across = "step",
                                         .up = quantity_of(first),
                                         .lines = true }))
            return false;
    }
    return true;
}

/* Writes a bar for each row that has a time. */
static void lines_bars(FILE *f, const cJSON *rows, const char *name, const char *of)
{
    const cJSON *row;
    double most = 0;
    int n = 0;

    cJSON_ArrayForEach(row, rows) if (isfinite(json_value(row, of))) most =
        fmax(most, json_value(row, of));
    if (!(most > 0))
        return;
    fprintf(f, "<div><table><tr><th>%s</th><th>%s</th><th></th></tr>\n", name, of);
    cJSON_ArrayForEach(row, rows)
    {
        if (n++ >= MOST_ROWS)
            continue;
        fputs("<tr><td>", f);
        page_text(f, json_word(row, name));
        fputs("</td>", f);
        page_number(f, json_value(row, of));
        page_bar(f, json_value(row, of), most, json_value(row, "seconds_in_products"), false);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

/* Writes the section for lines of JSON: statistics, a training run, or a plain table. */
static bool lines_html(FILE *f, const cJSON *rows)
{
    const cJSON *first = rows->child;

    if (cJSON_HasObjectItem(first, "tag") && cJSON_HasObjectItem(first, "step"))
        return statistics_html(f, rows);
    if (cJSON_HasObjectItem(first, "accumulator"))
        return training_html(f, rows);
    if (cJSON_HasObjectItem(first, "by"))
        lines_bars(f, rows, "by", "seconds");
    write_table(f, rows);
    return true;
}

/* ---- choosing a document's section ----------------------------------------------------------- */

/* Writes the section for a JSON file.  On failure prints a message and returns false. */
bool section_html(FILE *f, const struct document *d)
{
    bool ok = true;

    const char *slash = strrchr(d->path, '/');

    fputs("<h1>", f);
    page_text(f, slash ? slash + 1 : d->path);
    fputs("</h1>\n", f);
    switch (d->kind) {
    case KIND_EXPLORE: ok = explore_html(f, d->json); break;
    case KIND_SWEEP: ok = sweep_html(f, d->json); break;
    case KIND_BENCH: ok = bench_html(f, d->json); break;
    case KIND_APPS: apps_html(f, d->json); break;
    case KIND_LINES: ok = lines_html(f, d->json); break;
    case KIND_RUN:
    case KIND_UNKNOWN: break;
    }
    return ok || !complain("report: not enough memory");
}

/* Prints the geometric mean of a benchmark's ratios, for each peer. */
static void print_ratios(const cJSON *rows)
{
    struct names peers = { .n = 0 };
    const cJSON *first, *row;

    cJSON_ArrayForEach(first, rows)
    {
        const char *of = json_word(first, "ratio_to");
        double sum = 0;
        int n = 0;

        if (!*of || !add_name(&peers, of))
            continue;
        for (row = first; row; row = row->next)
            if (!strcmp(json_word(row, "ratio_to"), of) && json_value(row, "ratio") > 0) {
                sum += log(json_value(row, "ratio"));
                n++;
            }
        if (n)
            printf("  %6.3g x %s, mean of %d\n", exp(sum / n), of, n);
    }
}

static void print_frontier(const cJSON *trials)
{
    const cJSON *t;

    cJSON_ArrayForEach(t, trials) if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(t, "frontier")))
        printf("  %3.0f bits, error %-10.4g %s\n", json_value(t, "accumulator_bits"),
               json_value(t, "error"), json_word(t, "unit"));
}

/* Prints the applications' rows, and those that failed or were skipped. */
static void print_apps(const cJSON *list)
{
    const cJSON *app, *row;

    cJSON_ArrayForEach(app, list)
    {
        if (!array_of(app, "rows"))
            printf("  %-12s %s\n", json_word(app, "name"),
                   cJSON_HasObjectItem(app, "failed") ? "failed" : "skipped");
        cJSON_ArrayForEach(row, array_of(app, "rows")) printf(
            "  %-12s %-24s %10.4g s, %.2f x %s\n", json_word(app, "name"), json_word(row, "by"),
            json_value(row, "seconds"), json_value(row, "speed"), json_word(row, "beside"));
    }
}

/* Prints the summary of a document: its kind, number of rows, and what its kind has to show. */
void section_print(const struct document *d)
{
    const cJSON *rows = d->kind == KIND_EXPLORE || d->kind == KIND_SWEEP ?
                            array_of(d->json, "trials") :
                        d->kind == KIND_BENCH ? array_of(d->json, "rows") :
                        d->kind == KIND_APPS  ? array_of(d->json, "applications") :
                                                d->json;

    printf("%s: %s, %d rows\n", d->path, kind_name(d->kind), cJSON_GetArraySize(rows));
    if (d->kind == KIND_EXPLORE)
        print_frontier(rows);
    else if (d->kind == KIND_BENCH)
        print_ratios(rows);
    else if (d->kind == KIND_APPS)
        print_apps(rows);
}
