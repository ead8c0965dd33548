/* SPDX-License-Identifier: BSD-3-Clause
 * The command `limber explore` computes one product, or all products of a captured run, in many
 * ways, and prints errors: on many simulated units, with operands stored in many formats, or under
 * many contracts.  For units it also prints swamping and variance retention. */
#define _GNU_SOURCE
#include "tools/cli/explore.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LISTED = 64 };

/* A list that is an option's value. */
struct list {
    char *text;                     /* owned copy of popt's text; items are terminated by NUL */
    const char *item[MOST_LISTED];
    int n;
};

/* The command: options, lists, and one trial for each combination of the lists' items. */
struct explore {
    struct cli_product p;
    struct list formats, groups, roundings, products, stored, contracts, layers;
    enum sweep sweep;
    char *captured;
    /* the products of --captured; NULL without that option, which gives a single product */
    struct captured *list;
    int products_n, left_out;
    char *in, *outer, *random, *csv, *plot;
    double keep;
    long long seed;
    struct array exact; /* the product A B, rounded correctly to binary64 */
    struct trial *trial;
    int trials;
};

/* ---- the lists of formats, contracts and units ----------------------------------------------- */

/* Splits a list at spaces and at commas outside parentheses.  otherwise: the list if the option is
 * absent.  On failure prints a message and returns false. */
static bool split_list(struct list *l, const char *option, const char *otherwise)
{
    int depth = 0;

    if (!l->text)
        l->text = strdup(otherwise);
    for (char *s = l->text; s && *s; s++) {
        bool between = *s == ' ' || (*s == ',' && depth == 0);

        depth += (*s == '(') - (*s == ')');
        if (!between && (s == l->text || !s[-1])) {
            if (l->n == MOST_LISTED)
                return complain("--%s: more than %d items", option, MOST_LISTED), false;
            l->item[l->n++] = s;
        }
        if (between)
            *s = 0;
    }
    if (!l->text || !l->n)
        return complain(l->text ? "--%s is empty" : "--%s: out of memory", option), false;
    return true;
}

static int format_width(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT || f.kind == LIMBER_KIND_SHORT ?
               1 + f.exp_bits + f.frac_bits :
               8 * f.size;
}

/* Number of bits that hold an exact product: one more bit for the exponent, and all bits of both
 * significands. */
static int product_width(const limber_unit *u)
{
    limber_format a = u->a.format, b = u->b.format;

    if (u->mul.format.kind)
        return format_width(u->mul.format);
    return 2 + (a.exp_bits > b.exp_bits ? a.exp_bits : b.exp_bits) + a.frac_bits + b.frac_bits + 1;
}

/* Makes a trial's unit.  On failure prints a message and returns false. */
static bool make_unit(const struct explore *e, struct trial *t)
{
    const char *outer = e->outer ? e->outer : t->format;
    char words[UNIT_TEXT], mul[96] = "exact", groups[128] = "", seed[40] = "";
    int length;

    if (!strcmp(t->products, "rounded"))
        snprintf(mul, sizeof mul, "%.60s:%.16s", t->format, t->rounding);
    if (t->group)
        snprintf(groups, sizeof groups, " group=%lld outer=%.60s:%.16s", (long long)t->group, outer,
                 t->rounding);
    if (!strcmp(t->rounding, "rs") || !strcmp(t->rounding, "sr"))
        snprintf(seed, sizeof seed, " seed=%lld", e->seed);
    length = snprintf(words, sizeof words, "in=%s mul=%s acc=%s:%s%s%s", e->in ? e->in : t->format,
                      mul, t->format, t->rounding, groups, seed);
    if (length < 0 || length >= (int)sizeof words)
        return complain("explore: %s is no format", t->format), false;
    t->unit = (limber_unit)LIMBER_UNIT_INIT;
    if (limber_unit_parse(words, &t->unit) != LIMBER_STATUS_OK)
        return complain("explore: %s: %s", words, limber_error_text()), false;
    limber_format_name(t->unit.acc.format, t->format, sizeof t->format);
    t->bits = format_width(t->unit.acc.format);
    t->cost = t->bits;
    t->product_bits = product_width(&t->unit);
    return true;
}

/* Reads the format of --stored, whose bits are the trial's cost. */
static bool read_stored_format(struct trial *t)
{
    if (limber_format_named(t->format, &t->stored) != LIMBER_STATUS_OK ||
        t->stored.kind == LIMBER_KIND_EXACT)
        return complain("--stored: %s is no format", t->format), false;
    limber_format_name(t->stored, t->format, sizeof t->format);
    t->cost = t->bits = format_width(t->stored);
    return true;
}

/* Reads the contract of a trial. */
static bool read_contract(struct trial *t)
{
    t->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    return (contract_of(t->format, &t->contract) && !t->contract.modulus) ||
           (complain("--contracts: \"%s\" is none of native, reproducible, correct, bits=N",
                     t->format),
            false);
}

/* Makes the trials of a sweep over stored formats, or over contracts. */
static bool make_word_trials(struct explore *e)
{
    const struct list *l = e->sweep == SWEEP_stored ? &e->stored : &e->contracts;

    e->trial = calloc((size_t)l->n, sizeof *e->trial);
    if (!e->trial)
        return complain("explore: out of memory"), false;
    for (int i = 0; i < l->n; i++) {
        struct trial *t = &e->trial[i];

        snprintf(t->format, sizeof t->format, "%s", l->item[i]);
        t->rounding = t->products = "-";
        if (!(e->sweep == SWEEP_stored ? read_stored_format(t) : read_contract(t)))
            return false;
    }
    e->trials = l->n;
    return true;
}

/* Makes the trials of a sweep over units.  All units are parsed before any is used, so that an
 * invalid word is reported first. */
static bool make_unit_trials(struct explore *e)
{
    int n = e->formats.n * e->groups.n * e->roundings.n * e->products.n, i = 0;

    e->trial = calloc((size_t)n, sizeof *e->trial);
    if (!e->trial)
        return complain("explore: out of memory"), false;
    for (int m = 0; m < e->products.n; m++)
        if (strcmp(e->products.item[m], "exact") && strcmp(e->products.item[m], "rounded"))
            return complain("--mul: \"%s\" is neither exact nor rounded", e->products.item[m]),
                   false;
    for (int g = 0; g < e->groups.n; g++) {
        char *end;
        long length = strtol(e->groups.item[g], &end, 10);

        if (*end || length < 0 || length > INT32_MAX)
            return complain("--groups: \"%s\" is no length of a group", e->groups.item[g]), false;
        for (int r = 0; r < e->roundings.n; r++)
            for (int m = 0; m < e->products.n; m++)
                for (int f = 0; f < e->formats.n; f++, i++) {
                    snprintf(e->trial[i].format, sizeof e->trial[i].format, "%s",
                             e->formats.item[f]);
                    e->trial[i].rounding = e->roundings.item[r];
                    e->trial[i].products = e->products.item[m];
                    e->trial[i].group = length;
                    if (!make_unit(e, &e->trial[i]))
                        return false;
                }
    }
    e->trials = n;
    return true;
}

/* Makes the unit that LPGEMM's configuration gives for a layer. */
static bool make_layer_unit(struct explore *e, struct trial *t, const char *layer)
{
    static const char *const names[] = { "rn", "rz", "ru", "rd", "ra", "ro", "rs" };
    char *own = e->p.layer;
    bool ok;

    e->p.layer = (char *)layer;
    ok = unit_of_lpgemm(&e->p);
    e->p.layer = own;
    e->p.promise = (limber_contract){ 0 };
    if (ok && e->p.unquantised)
        return complain("--layer: %s does not quantise \"%s\"", e->p.lpgemm, layer), false;
    if (!ok)
        return false;
    t->layer = layer;
    t->unit = e->p.unit;
    limber_format_name(t->unit.acc.format, t->format, sizeof t->format);
    t->rounding = names[t->unit.acc.rounding];
    t->products = t->unit.mul.format.kind ? "rounded" : "exact";
    t->group = t->unit.group;
    t->cost = t->bits = format_width(t->unit.acc.format);
    t->product_bits = product_width(&t->unit);
    return true;
}

/* Makes a trial for each layer of --layer, or one if --layer is absent. */
static bool make_layer_trials(struct explore *e)
{
    e->layers.text = e->p.layer ? strdup(e->p.layer) : NULL;
    if (e->p.layer && !split_list(&e->layers, "layer", ""))
        return false;
    e->trials = e->layers.n ? e->layers.n : 1;
    e->trial = calloc((size_t)e->trials, sizeof *e->trial);
    if (!e->trial)
        return complain("explore: out of memory"), false;
    for (int i = 0; i < e->trials; i++)
        if (!make_layer_unit(e, &e->trial[i], e->layers.item[i]))
            return false;
    return true;
}

/* ---- operands at random (--random) ----------------------------------------------------------- */

/* Makes a matrix of normal random numbers. */
static bool random_matrix(struct array *a, int64_t rows, int64_t cols, uint64_t *state)
{
    float *x;

    *a = (struct array){ .format = format_of("f32"), .rank = 2, .dim = { rows, cols } };
    if (!array_alloc(a, "--random"))
        return false;
    x = a->data;
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = (float)random_normal(state);
    return true;
}

/* Makes the random operands of --random M,N,K[,SEED].  On failure prints a message and returns
 * false. */
static bool random_operands(struct explore *e)
{
    long long v[4] = { 0, 0, 0, 1 };
    const char *s = e->random;
    uint64_t state;
    int n = 0;

    while (n < 4) {
        char *end;

        v[n++] = strtoll(s, &end, 10);
        if (end == s || (*end && *end != ',') || v[n - 1] < (n < 4) || v[n - 1] > 1 << 20) {
            n = 0;
            break;
        }
        s = end + 1;
        if (!*end)
            break;
    }
    if (n < 3 || s[-1])
        return complain("--random takes M,N,K or M,N,K,SEED, each up to 1048576"), false;
    state = (uint64_t)v[3];
    return random_matrix(&e->p.a, v[0], v[2], &state) && random_matrix(&e->p.b, v[2], v[1], &state);
}

/* ---- multiplying and measuring errors -------------------------------------------------------- */

/* Computes the correctly rounded product, with which trials are compared. */
static bool multiply_exactly(struct explore *e, limber_context *ctx)
{
    struct cli_product q = e->p;

    e->exact = e->p.c;
    e->exact.format = format_of("f64");
    e->exact.data = NULL;
    if (!array_alloc(&e->exact, "result"))
        return false;
    q.c = e->exact;
    q.promise =
        (limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT };
    return product_run(&q, ctx, NULL) == LIMBER_STATUS_OK ||
           (complain("%s", limber_error_text()), false);
}

/* Returns the relative error of c in the Frobenius norm. c is binary32 or binary64. */
static double frobenius_error(const struct array *c, const double *exact, int64_t n)
{
    const float *narrow = c->data;
    const double *wide = c->data;
    double far = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        double got = c->format.size == 8 ? wide[i] : (double)narrow[i], x = got - exact[i];

        if (!isfinite(exact[i]))
            continue;
        if (!isfinite(got))
            return INFINITY;
        far += x * x;
        size += exact[i] * exact[i];
    }
    return size > 0 ? sqrt(far / size) : far > 0 ? INFINITY : 0;
}

/* Makes a copy of an operand, rounded to a format. */
static bool round_to_format(const struct array *from, limber_format f, struct array *to)
{
    *to = *from;
    to->format = f;
    to->data = NULL;
    if (!array_alloc(to, "--stored"))
        return false;
    return limber_convert(to->data, f, from->data, from->format, (size_t)array_size(from),
                          LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK ||
           (complain("%s", limber_error_text()), false);
}

/* Runs a product under a contract, or with operands rounded to a format.  The result is binary64
 * if A's elements have more than 4 bytes or operands are rounded, else binary32.  Under a
 * contract the time is that of the faster of two runs, since the first one compiles kernels and
 * touches memory. */
static bool try_plain(struct explore *e, limber_context *ctx, struct trial *t)
{
    struct cli_product q = e->p;
    limber_report report = LIMBER_REPORT_INIT;
    bool stored = e->sweep == SWEEP_stored, wide = stored || e->p.a.format.size > 4, ok;
    double seconds = INFINITY;

    q.c.format = format_of(wide ? "f64" : "f32");
    q.c.data = NULL;
    ok = array_alloc(&q.c, "result");
    if (stored) {
        t->contract = (limber_contract)LIMBER_CONTRACT_INIT;
        t->contract.promise = LIMBER_CONTRACT_CORRECT;
        q.a.data = q.b.data = NULL;
        ok = ok && round_to_format(&e->p.a, t->stored, &q.a) &&
             round_to_format(&e->p.b, t->stored, &q.b);
    }
    q.promise = t->contract;
    for (int run = 0; ok && run < 2 - stored; run++) {
        ok = product_run(&q, ctx, &report) == LIMBER_STATUS_OK ||
             (complain("%s: %s", t->format, limber_error_text()), false);
        seconds = fmin(seconds, report.seconds_scan + report.seconds_run);
    }
    if (ok) {
        t->error = fmax(t->error, frobenius_error(&q.c, e->exact.data, array_size(&e->exact)));
        t->seconds += seconds;
        t->cost = stored ? t->bits : t->seconds;
    }
    array_clear(&q.c);
    if (stored) {
        array_clear(&q.a);
        array_clear(&q.b);
    }
    return ok;
}

/* Updates a weighted mean.  before: weight of earlier products; weight: of this one. */
static void add_mean(double *mean, double x, double before, double weight)
{
    *mean = before > 0 ? (*mean * before + x * weight) / (before + weight) : x;
}

/* Runs a trial's unit on the current product.  Statistics are means over the products, with the
 * number of multiply-adds (`weight`) as weights. */
static bool try_unit(struct explore *e, limber_context *ctx, struct trial *t, double before,
                     double weight)
{
    limber_statistics *s = &e->p.statistics;
    limber_report report = LIMBER_REPORT_INIT;

    e->p.promise = (limber_contract){ .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_SIMULATE,
                                      .unit = &t->unit,
                                      .statistics = s };
    *s = (limber_statistics){ .size = sizeof(limber_statistics), .compare = 1 };
    if (product_run(&e->p, ctx, &report) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text()), false;
    t->error = fmax(t->error, frobenius_error(&e->p.c, e->exact.data, array_size(&e->exact)));
    add_mean(&t->distance, s->distance, before, weight);
    add_mean(&t->relative, s->relative, before, weight);
    add_mean(&t->swamped, s->nonzero ? (double)s->swamped / (double)s->nonzero : 0, before, weight);
    add_mean(&t->partly, s->nonzero ? (double)s->partly_swamped / (double)s->nonzero : 0, before,
             weight);
    add_mean(&t->retention, s->retention, before, weight);
    add_mean(&t->predicted, s->predicted, before, weight);
    t->seconds += report.seconds_run;
    return true;
}

/* Marks the Pareto-optimal trials: for each of them, no other trial is better in cost or error
 * and at least as good in the other. */
static void mark_frontier(struct explore *e)
{
    for (int i = 0; i < e->trials; i++) {
        struct trial *t = &e->trial[i];

        t->frontier = isfinite(t->error);
        for (int j = 0; t->frontier && j < e->trials; j++) {
            const struct trial *u = &e->trial[j];

            t->frontier = !(u->cost <= t->cost && u->error <= t->error &&
                            (u->cost < t->cost || u->error < t->error));
        }
    }
}

/* Runs all trials on the current product, whose index is `at`. */
static bool run_product(struct explore *e, limber_context *ctx, int at, double before,
                        double weight)
{
    bool shown = isatty(2), ok = multiply_exactly(e, ctx);

    for (int i = 0; ok && i < e->trials; i++) {
        struct trial *t = &e->trial[i];

        if (shown && e->list)
            fprintf(stderr, "\rproduct %d of %d, ", at + 1, e->products_n);
        if (shown)
            fprintf(stderr, "%s%d of %d: %s, group %lld, %s\033[K", e->list ? "" : "\r", i + 1,
                    e->trials, t->format, (long long)t->group, t->rounding);
        ok = e->sweep == SWEEP_units ? try_unit(e, ctx, t, before, weight) : try_plain(e, ctx, t);
    }
    return ok;
}

/* Runs the captured products one after the other, of which only one is in memory at a time. */
static bool run_captured(struct explore *e, limber_context *ctx)
{
    double before = 0, weight;
    bool ok = true;

    for (int i = 0; ok && i < e->products_n; i++, before += weight) {
        const char *const files[] = { e->list[i].a, e->list[i].b };

        array_clear(&e->p.a);
        array_clear(&e->p.b);
        array_clear(&e->p.c);
        array_clear(&e->exact);
        ok = product_open(&e->p, files) &&
             (!e->p.c.pairs || (complain("%s: explore takes real matrices", files[0]), false));
        weight = ok ? (double)array_size(&e->p.c) * (double)e->p.a.dim[1] : 1;
        ok = ok && run_product(e, ctx, i, before, weight);
    }
    return ok;
}

/* Runs all trials on one product or on the captured ones, and marks the frontier.  False on
 * failure. */
static bool run_trials(struct explore *e)
{
    limber_context *ctx = NULL;
    bool shown = isatty(2), ok;

    ok = product_context(&e->p, &ctx) == LIMBER_STATUS_OK ||
         (complain("%s", limber_error_text()), false);
    ok = ok && (e->list ? run_captured(e, ctx) : run_product(e, ctx, 0, 0, 1));
    if (shown)
        fprintf(stderr, "\r\033[K");
    context_end(ctx);
    mark_frontier(e);
    return ok;
}

/* Returns the trial of lowest cost whose error is at most --keep; of trials with equal cost, the
 * one with the smallest error.  NULL if there is none. */
static const struct trial *find_smallest(const struct explore *e)
{
    const struct trial *best = NULL;

    for (int i = 0; i < e->trials; i++) {
        const struct trial *t = &e->trial[i];

        if (t->error <= e->keep &&
            (!best || t->cost < best->cost || (t->cost == best->cost && t->error < best->error)))
            best = t;
    }
    return best;
}

/* ---- tables and JSON ------------------------------------------------------------------------- */

static void print_cell(double x, int columns, int digits)
{
    if (isnan(x))
        printf(" %*s", columns, "-");
    else
        printf(" %*.*g", columns, digits, x);
}

/* Writes the sizes of the product, or the number of captured products. */
static void write_shape(const struct explore *e, char *text, size_t size)
{
    if (e->list)
        snprintf(text, size, "%d product%s of %.100s", e->products_n, e->products_n > 1 ? "s" : "",
                 e->captured);
    else
        product_shape_text(&e->p, true, text, size);
}

/* Writes the sizes, and how operands are stored. */
static void write_title(const struct explore *e, char *text, size_t size)
{
    char shape[160];

    write_shape(e, shape, sizeof shape);
    snprintf(text, size, "%s; %s%s", shape,
             e->sweep == SWEEP_units  ? "operands in " :
             e->sweep == SWEEP_stored ? "operands stored in formats, sums exact" :
                                        "contracts",
             e->sweep != SWEEP_units ? "" :
             e->p.lpgemm             ? "the formats of its configuration" :
             e->in                   ? e->in :
                                       "the accumulator's format");
}

/* Prints a sweep over stored formats or contracts: cost and error of each, and the cheapest that
 * keeps --keep. */
static void print_plain(const struct explore *e)
{
    const struct trial *best = find_smallest(e);
    bool stored = e->sweep == SWEEP_stored;

    printf("%-16s %10s %10s %9s\n", stored ? "operands" : "contract", stored ? "bits" : "seconds",
           "error", "");
    for (int i = 0; i < e->trials; i++) {
        const struct trial *t = &e->trial[i];

        printf("%-16s %10.4g", t->format, t->cost);
        print_cell(t->error, 10, 4);
        printf("%s\n", t->frontier ? " *" : "");
    }
    printf("* on the frontier: none costs less and has no larger error\n");
    if (e->keep > 0 && best)
        printf("the cheapest that keeps %g: %s (error %.4g)\n", e->keep, best->format, best->error);
    else if (e->keep > 0)
        printf("none of these keeps %g\n", e->keep);
}

/* Prints a table of all trials, and which has the smallest accumulator that keeps --keep. */
static void print_text(const struct explore *e)
{
    const struct trial *best = find_smallest(e);
    char title[320], groups[40] = "no groups";

    write_title(e, title, sizeof title);
    printf("%s\n", title);
    if (e->left_out)
        printf("%d complex products are left out\n", e->left_out);
    if (e->sweep != SWEEP_units) {
        print_plain(e);
        return;
    }
    if (e->layers.n)
        printf("%-12s ", "layer");
    printf("%-12s %-5s %8s %-8s %4s %10s %10s %8s %8s %9s %9s\n", "accumulator", "round", "group",
           "products", "bits", "error", "distance", "swamped", "retained", "predicted", "seconds");
    for (int i = 0; i < e->trials; i++) {
        const struct trial *t = &e->trial[i];

        if (t->layer)
            printf("%-12s ", t->layer);
        printf("%-12s %-5s %8lld %-8s %4d", t->format, t->rounding, (long long)t->group,
               t->products, t->bits);
        print_cell(t->error, 10, 4);
        print_cell(t->distance, 10, 4);
        printf(" %7.2f%%", 100 * t->swamped);
        print_cell(t->retention, 8, 4);
        print_cell(t->predicted, 9, 4);
        printf(" %9.4f%s\n", t->seconds, t->frontier ? " *" : "");
    }
    printf("* on the frontier: none has fewer bits and no larger error\n");
    if (best && best->group)
        snprintf(groups, sizeof groups, "groups of %lld", (long long)best->group);
    if (e->keep > 0 && best)
        printf("smallest accumulator that keeps %g: %s, %d bits, %s, %s, products %s "
               "(error %.4g)\n",
               e->keep, best->format, best->bits, groups, best->rounding, best->products,
               best->error);
    else if (e->keep > 0)
        printf("none of these keeps %g\n", e->keep);
}

static cJSON *json_plain(const struct explore *e, const struct trial *t)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, e->sweep == SWEEP_stored ? "stored" : "contract", t->format);
    if (e->sweep == SWEEP_stored)
        cJSON_AddNumberToObject(j, "operand_bits", t->bits);
    json_number(j, "error", t->error);
    json_number(j, "seconds", t->seconds);
    cJSON_AddBoolToObject(j, "frontier", t->frontier);
    return j;
}

/* Returns a trial's unit and results as a JSON object. */
static cJSON *json_trial(const struct explore *e, const struct trial *t)
{
    cJSON *j;
    char unit[UNIT_TEXT];

    if (e->sweep != SWEEP_units)
        return json_plain(e, t);
    j = cJSON_CreateObject();
    if (t->layer)
        cJSON_AddStringToObject(j, "layer", t->layer);
    cJSON_AddStringToObject(j, "unit", limber_unit_text(&t->unit, unit, sizeof unit));
    cJSON_AddStringToObject(j, "format", t->format);
    cJSON_AddStringToObject(j, "rounding", t->rounding);
    cJSON_AddNumberToObject(j, "group", (double)t->group);
    cJSON_AddStringToObject(j, "products", t->products);
    cJSON_AddNumberToObject(j, "accumulator_bits", t->bits);
    cJSON_AddNumberToObject(j, "product_bits", t->product_bits);
    json_number(j, "error", t->error);
    json_number(j, "distance", t->distance);
    json_number(j, "relative", t->relative);
    json_number(j, "swamped", t->swamped);
    json_number(j, "partly_swamped", t->partly);
    json_number(j, "retention", t->retention);
    json_number(j, "retention_predicted", t->predicted);
    json_number(j, "seconds", t->seconds);
    cJSON_AddBoolToObject(j, "frontier", t->frontier);
    return j;
}

/* Prints all trials as one JSON object.  On failure prints a message and returns false. */
static bool print_json(const struct explore *e)
{
    cJSON *j = cJSON_CreateObject(), *array;
    const struct trial *best = find_smallest(e);
    char shape[160];

    write_shape(e, shape, sizeof shape);
    cJSON_AddStringToObject(j, "shape", shape);
    if (e->list) {
        cJSON_AddStringToObject(j, "captured", e->captured);
        cJSON_AddNumberToObject(j, "products", e->products_n);
        cJSON_AddNumberToObject(j, "complex_left_out", e->left_out);
    }
    array = cJSON_AddArrayToObject(j, "trials");
    for (int i = 0; i < e->trials; i++)
        cJSON_AddItemToArray(array, json_trial(e, &e->trial[i]));
    if (e->keep > 0) {
        cJSON_AddNumberToObject(j, "keep", e->keep);
        cJSON_AddItemToObject(j, "smallest", best ? json_trial(e, best) : cJSON_CreateNull());
    }
    return json_print(j);
}

/* Writes a field of CSV; an empty one for NaN. */
static void field(FILE *f, double x)
{
    if (isnan(x))
        fprintf(f, ",");
    else
        fprintf(f, ",%.9g", x);
}

/* Writes a line of CSV for each trial. */
static bool write_csv(const struct explore *e, const char *path)
{
    struct draft d;

    if (!draft_open(&d, path))
        return false;
    if (e->sweep != SWEEP_units) {
        fprintf(d.f, "%s,error,frontier\n",
                e->sweep == SWEEP_stored ? "stored,operand_bits" : "contract,seconds");
        for (int i = 0; i < e->trials; i++)
            fprintf(d.f, "\"%s\",%.9g,%.9g,%d\n", e->trial[i].format, e->trial[i].cost,
                    e->trial[i].error, e->trial[i].frontier);
        return draft_close(&d, true);
    }
    fprintf(d.f,
            "%sunit,format,rounding,group,products,accumulator_bits,product_bits,error,distance,"
            "relative,swamped,partly_swamped,retention,retention_predicted,seconds,"
            "frontier\n",
            e->layers.n ? "layer," : "");
    for (int i = 0; i < e->trials; i++) {
        const struct trial *t = &e->trial[i];
        const double x[] = { t->error,  t->distance,  t->relative,  t->swamped,
                             t->partly, t->retention, t->predicted, t->seconds };
        char unit[UNIT_TEXT];

        if (t->layer)
            fprintf(d.f, "\"%s\",", t->layer);
        fprintf(d.f, "\"%s\",\"%s\",%s,%lld,%s,%d,%d",
                limber_unit_text(&t->unit, unit, sizeof unit), t->format, t->rounding,
                (long long)t->group, t->products, t->bits, t->product_bits);
        for (size_t k = 0; k < sizeof x / sizeof *x; k++)
            field(d.f, x[k]);
        fprintf(d.f, ",%d\n", t->frontier);
    }
    return draft_close(&d, true);
}

/* Draws the plot.  Without gnuplot, results are written to a .csv file beside the plot's name. */
static bool plot(const struct explore *e)
{
    char title[320], *beside;

    if (gnuplot_is_here()) {
        write_title(e, title, sizeof title);
        return explore_plot(e->plot, title, e->sweep, e->trial, e->trials);
    }
    if (!e->csv && asprintf(&beside, "%s.csv", e->plot) >= 0) {
        if (write_csv(e, beside))
            fprintf(stderr, "limber: the results are in %s\n", beside);
        free(beside);
    }
    return false;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Makes the list of trials from the options: layers, stored formats, contracts or units. */
static bool make_trials(struct explore *e)
{
    if (e->p.lpgemm || e->p.layer)
        return make_layer_trials(e) && (!e->p.is_conv || product_geometry(&e->p));
    if (e->sweep == SWEEP_stored)
        return split_list(&e->stored, "stored", "") && make_word_trials(e);
    if (e->sweep == SWEEP_contracts)
        return split_list(&e->contracts, "contracts", "") && make_word_trials(e);
    if (!split_list(&e->formats, "formats", "e5m2,(1,4,3),(1,5,4),(1,6,9),bf16,f16") ||
        !split_list(&e->groups, "groups", "0,16,64") ||
        !split_list(&e->roundings, "roundings", "rn") ||
        !split_list(&e->products, "mul", e->in ? "exact" : "rounded"))
        return false;
    return make_unit_trials(e) && (!e->p.is_conv || product_geometry(&e->p));
}

/* Runs all trials, and prints them; returns the exit status. */
static int explore(struct explore *e, const char *const *files)
{
    bool ok;

    e->p.output.as = strdup("f32");
    ok = e->p.output.as;
    if (ok && e->captured)
        ok = captured_read(e->captured, &e->list, &e->products_n, &e->left_out);
    else if (ok)
        ok = (!e->random || random_operands(e)) && product_open(&e->p, e->random ? NULL : files) &&
             (!e->p.c.pairs || (complain("explore takes real matrices"), false));
    ok = ok && run_trials(e);
    if (!ok)
        return 1;
    if (e->p.output.json)
        ok = print_json(e);
    else
        print_text(e);
    if (e->csv && !write_csv(e, e->csv))
        ok = false;
    if (e->plot && !plot(e))
        ok = false;
    return !ok;
}

/* Frees all that belongs to e. */
static void explore_clear(struct explore *e)
{
    char *strings[] = { e->formats.text, e->groups.text,    e->roundings.text, e->products.text,
                        e->stored.text,  e->contracts.text, e->layers.text,    e->captured,
                        e->in,           e->outer,          e->random,         e->csv,
                        e->plot };

    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        free(strings[i]);
    captured_clear(e->list, e->products_n);
    free(e->trial);
    array_clear(&e->exact);
    product_clear(&e->p);
}

/* The command `limber explore`: computes a product on many simulated units, in many formats or
 * under many contracts, and compares errors. */
int cmd_explore(int argc, const char **argv)
{
    struct explore e = {
        .seed = 1, .p = { .conv = LIMBER_CONV_INIT, .unit = LIMBER_UNIT_INIT, .shape.groups = 1 }
    };
    int conv = 0;
    struct poptOption table[] = {
        { "formats", 0, POPT_ARG_STRING, &e.formats.text, 0,
          "formats of accumulators: e5m2 f16 (1,e,m) "
          "... (e5m2,(1,4,3),(1,5,4),(1,6,9),bf16,f16)",
          "LIST" },
        { "groups", 0, POPT_ARG_STRING, &e.groups.text, 0, "lengths of groups, 0: none (0,16,64)",
          "LIST" },
        { "roundings", 0, POPT_ARG_STRING, &e.roundings.text, 0,
          "roundings, of rn ra rz ru rd ro rs (rn)", "LIST" },
        { "mul", 0, POPT_ARG_STRING, &e.products.text, 0,
          "products: rounded to the accumulator's "
          "format (default), exact (default with --in), or rounded,exact",
          "LIST" },
        { "in", 0, POPT_ARG_STRING, &e.in, 0,
          "operands in this format; default: the "
          "accumulator's",
          "FORMAT" },
        { "outer", 0, POPT_ARG_STRING, &e.outer, 0,
          "outer sums in this format; default: the "
          "accumulator's",
          "FORMAT" },
        { "seed", 0, POPT_ARG_LONGLONG, &e.seed, 0, "seed of stochastic rounding (1)", "N" },
        { "keep", 0, POPT_ARG_DOUBLE, &e.keep, 0,
          "name the smallest accumulator with at most this "
          "error",
          "ERROR" },
        { "stored", 0, POPT_ARG_STRING, &e.stored.text, 0,
          "no units: operands in each of these formats, sums exact", "LIST" },
        { "contracts", 0, POPT_ARG_STRING, &e.contracts.text, 0,
          "no units: error and seconds under each of native, bits=N, correct ...", "LIST" },
        { "lpgemm", 0, POPT_ARG_STRING, &e.p.lpgemm, 0,
          "the units of LPGEMM's configuration, in the place of those of the lists", "FILE" },
        { "layer", 0, POPT_ARG_STRING, &e.p.layer, 0,
          "its units of these layers; default: what it says of all", "LIST" },
        { "captured", 0, POPT_ARG_STRING, &e.captured, 0,
          "all products whose operands LIMBER_CAPTURE kept in this folder", "FOLDER" },
        { "random", 0, POPT_ARG_STRING, &e.random, 0, "normal numbers instead of files",
          "M,N,K[,SEED]" },
        { "csv", 0, POPT_ARG_STRING, &e.csv, 0, "write all results", "FILE" },
        { "plot", 0, POPT_ARG_STRING, &e.plot, 0,
          "draw error against bits, as .svg or .png (needs gnuplot)", "FILE" },
        { "trans-a", 0, POPT_ARG_NONE, &e.p.turns.trans_a, 0, "use the transpose of A", NULL },
        { "trans-b", 0, POPT_ARG_NONE, &e.p.turns.trans_b, 0, "use the transpose of B", NULL },
        { "conv", 0, POPT_ARG_NONE, &conv, 0, "the files are an image and filters", NULL },
        { "stride", 0, POPT_ARG_STRING, &e.p.shape.stride, 0, "with --conv: as in limber conv",
          "A,B" },
        { "pad", 0, POPT_ARG_STRING, &e.p.shape.pad, 0, "with --conv: as in limber conv",
          "T,B,L,R" },
        { "dilate", 0, POPT_ARG_STRING, &e.p.shape.dilate, 0, "with --conv: as in limber conv",
          "A,B" },
        { "layout", 0, POPT_ARG_STRING, &e.p.shape.layout, 0, "with --conv: as in limber conv",
          "nchw|nhwc" },
        { "conv-groups", 0, POPT_ARG_INT, &e.p.shape.groups, 0,
          "with --conv: --groups of limber conv", "N" },
        { "backend", 0, POPT_ARG_STRING, &e.p.backend, 0, BACKENDS, "BACKEND" },
        { "threads", 0, POPT_ARG_INT, &e.p.threads, 0, "worker threads", "N" },
        { "json", 0, POPT_ARG_NONE, &e.p.output.json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    const char *const *files;
    int n = 0, status = 2;
    bool ok;

    ok = options_read(
        o, "A B | --conv X W | --random M,N,K | --captured FOLDER [options]\n\nexample: limber "
           "explore A.npy B.npy --in e5m2 --groups 0,64 --keep 1e-2 --plot e.svg");
    send_messages_to_stderr(e.csv);
    files = poptGetArgs(o);
    while (files && files[n])
        n++;
    e.p.is_conv = conv;
    e.sweep = e.stored.text ? SWEEP_stored : e.contracts.text ? SWEEP_contracts : SWEEP_units;
    if (!ok)
        status = 2;
    else if (n != (e.random || e.captured ? 0 : 2))
        complain("explore takes two files, or --random or --captured and none (see limber explore "
                 "--help)");
    else if (e.captured && (e.random || conv || e.p.turns.trans_a || e.p.turns.trans_b))
        complain("--captured has its operands: --random, --conv, --trans-a and --trans-b are "
                 "of others");
    else if (e.p.lpgemm && (e.stored.text || e.contracts.text || e.formats.text || e.groups.text ||
                            e.roundings.text || e.products.text || e.in || e.outer))
        complain("--lpgemm states units: --formats, --groups, --roundings, --mul, --in, --outer, "
                 "--stored and --contracts are of other sweeps");
    else if (e.stored.text && e.contracts.text)
        complain("--stored and --contracts are two sweeps");
    else if (e.random && conv)
        complain("--random makes matrices, not tensors for --conv");
    else if (!(e.keep >= 0) || e.seed < 0)
        complain(e.seed < 0 ? "--seed is negative" : "--keep is negative");
    else if (check_picture_name(e.plot, "--plot", true) && make_trials(&e))
        status = explore(&e, files);
    poptFreeContext(o);
    explore_clear(&e);
    return status;
}
