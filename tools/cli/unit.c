/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units on the command line: options that describe a unit, and printed statistics. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/cli/commands.h"

#include <limber/research.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options that choose a unit -------------------------------------------------------------- */

static void set_simulate(struct cli_product *p)
{
    p->promise.promise = LIMBER_CONTRACT_SIMULATE;
    p->promise.unit = &p->unit;
}

bool unit_of_words(struct cli_product *p, const char *words)
{
    if (limber_unit_parse(words, &p->unit) != LIMBER_STATUS_OK)
        return complain("--contract simulate=%s: %s%s", words, limber_error_text(),
                        words_near(word_kind_named("unit"), words)),
               false;
    set_simulate(p);
    return true;
}

/* Sets the contract to the unit that an LPGEMM configuration gives for a layer.  On failure prints
 * a message and returns false. */
bool unit_of_lpgemm(struct cli_product *p)
{
    limber_status status;
    char *text;
    int listed;

    if (!p->lpgemm)
        return complain("--layer needs --lpgemm"), false;
    if (p->contract || p->slices)
        return complain("--lpgemm states the contract: neither --contract nor --slices"), false;
    text = text_read(p->lpgemm);
    if (!text)
        return false;
    status = limber_unit_lpgemm(text, p->layer, &p->unit, &listed);
    free(text);
    if (status != LIMBER_STATUS_OK)
        return complain("%s: %s", p->lpgemm, limber_error_text()), false;
    p->unquantised = !listed;
    if (listed)
        set_simulate(p);
    return true;
}

bool unit_counts(struct cli_product *p)
{
    if (!p->count || p->unquantised)
        return true;
    if (!p->promise.unit)
        return complain("--statistics is for simulated units (--contract simulate=UNIT)"), false;
    p->statistics.compare = 1;
    p->promise.statistics = &p->statistics;
    return true;
}

/* ---- statistics as text ---------------------------------------------------------------------- */

enum { BINS = 64 }; /* a histogram with more bins than this shows its ends only */

static void print_count(const char *what, int64_t n, int64_t of)
{
    printf("  %-22s %15lld", what, (long long)n);
    if (of > 0)
        printf("  %8.4f%%", 100 * (double)n / (double)of);
    printf("\n");
}

/* Finds the first and the last exponent that occurs.  Returns false if no exponent occurs. */
static bool find_bins(const limber_distribution *d, int *first, int *last)
{
    *first = LIMBER_EXPONENTS;
    *last = -1;
    for (int i = 0; i < LIMBER_EXPONENTS; i++)
        if (d->exponents[i]) {
            *first = i < *first ? i : *first;
            *last = i;
        }
    return *last >= 0;
}

static void print_distribution(const char *what, const limber_distribution *d)
{
    int first, last;

    printf("  %-8s %12lld %10lld %8lld  %10.4g %10.4g %10.4g %10.4g", what, (long long)d->count,
           (long long)d->zeros, (long long)d->special, d->mean, d->variance, d->least, d->largest);
    if (find_bins(d, &first, &last))
        printf("  2^%d..2^%d", first - LIMBER_EXPONENTS / 2, last + 1 - LIMBER_EXPONENTS / 2);
    printf("\n");
}

/* Prints the shares of exponents in A, B and C, in three columns. */
static void print_exponents(const limber_statistics *s)
{
    const limber_distribution *d[] = { &s->a, &s->b, &s->result };
    int least = LIMBER_EXPONENTS, most = -1;

    for (int i = 0; i < 3; i++) {
        int first, last;

        if (!find_bins(d[i], &first, &last))
            continue;
        least = first < least ? first : least;
        most = last > most ? last : most;
    }
    if (most < least || most - least >= BINS)
        return;
    printf("  %8s %9s %9s %9s\n", "exponent", "A", "B", "C");
    for (int e = most; e >= least; e--) {
        printf("  %8d", e - LIMBER_EXPONENTS / 2);
        for (int i = 0; i < 3; i++)
            printf(" %8.3f%%",
                   d[i]->count ? 100 * (double)d[i]->exponents[e] / (double)d[i]->count : 0);
        printf("\n");
    }
}

static void print_measure(const char *what, double x, const char *more)
{
    if (isfinite(x))
        printf("  %-22s %15.6g  %s\n", what, x, more);
    else
        printf("  %-22s %15s  %s\n", what, "-", more);
}

static const char *rounding_of(const limber_step *s)
{
    static const char *const words[] = { "to nearest even", "toward zero", "up",        "down",
                                         "to nearest away", "to odd",      "stochastic" };

    return s->rounding <= LIMBER_ROUND_STOCHASTIC ? words[s->rounding] : "";
}

/* Prints what a simulated unit counted: roundings, swamped additions, distributions, and the
 * comparison with FP64. */
void statistics_print(const limber_unit *u, const limber_statistics *s)
{
    char more[96];

    printf("\ninside%34s  of nonzero\n", "count");
    print_count("products", s->products, 0);
    print_count("nonzero", s->nonzero, 0);
    print_count("rounded products", s->mul_inexact, s->nonzero);
    print_count("  underflow to zero", s->mul_underflow, s->nonzero);
    print_count("  overflow", s->mul_overflow, s->nonzero);
    print_count("swamped", s->swamped, s->nonzero);
    print_count("partly swamped", s->partly_swamped, s->nonzero);
    print_count("overflow of a sum", s->sum_overflow, s->nonzero);
    if (s->outer_sums) {
        printf("%40s  of outer sums\n", "");
        print_count("outer sums", s->outer_sums, 0);
        print_count("  swamped", s->outer_swamped, s->outer_sums);
        print_count("  partly swamped", s->outer_partly, s->outer_sums);
    }
    printf("\nvalues   %12s %10s %8s  %10s %10s %10s %10s  exponents\n", "count", "zeros",
           "special", "mean", "variance", "least", "largest");
    print_distribution("A loaded", &s->a);
    print_distribution("B loaded", &s->b);
    print_distribution("C", &s->result);
    printf("\n");
    print_exponents(s);
    snprintf(more, sizeof more, "of the variance, accumulating %s", rounding_of(&u->acc));
    printf("\nagainst sums in FP64\n");
    print_measure("retention measured", s->retention, more);
    print_measure("retention predicted", s->predicted,
                  "by the model, which knows no rounding mode");
    print_measure("mean distance", s->distance, "mean |C - A B|");
    print_measure("relative distance", s->relative, "sum |C - A B| / sum |A B|");
}

/* ---- statistics as JSON ---------------------------------------------------------------------- */

/* Prints an object, and deletes it.  Returns false if memory runs out. */
bool json_print(cJSON *j)
{
    char *s = cJSON_Print(j);

    if (s)
        printf("%s\n", s);
    cJSON_Delete(j);
    cJSON_free(s);
    return s || !complain("out of memory");
}

void json_number(cJSON *j, const char *name, double x)
{
    if (isfinite(x))
        cJSON_AddNumberToObject(j, name, x);
    else
        cJSON_AddNullToObject(j, name);
}

/* Adds the distribution of an operand's or result's numbers to a JSON object. */
static void json_distribution(cJSON *j, const char *name, const limber_distribution *d)
{
    cJSON *o = cJSON_AddObjectToObject(j, name), *e;

    cJSON_AddNumberToObject(o, "count", (double)d->count);
    cJSON_AddNumberToObject(o, "zeros", (double)d->zeros);
    cJSON_AddNumberToObject(o, "special", (double)d->special);
    json_number(o, "mean", d->mean);
    json_number(o, "variance", d->variance);
    json_number(o, "least", d->least);
    json_number(o, "largest", d->largest);
    e = cJSON_AddObjectToObject(o, "exponents");
    for (int i = 0; i < LIMBER_EXPONENTS; i++) {
        char key[16];

        snprintf(key, sizeof key, "%d", i - LIMBER_EXPONENTS / 2);
        if (d->exponents[i])
            cJSON_AddNumberToObject(e, key, (double)d->exponents[i]);
    }
}

/* Returns what a simulated unit counted as a JSON object. */
cJSON *statistics_json(const limber_statistics *s)
{
    const struct {
        const char *name;
        int64_t n;
    } counts[] = {
        { "mul_inexact", s->mul_inexact },       { "mul_underflow", s->mul_underflow },
        { "mul_overflow", s->mul_overflow },     { "swamped", s->swamped },
        { "partly_swamped", s->partly_swamped }, { "sum_overflow", s->sum_overflow },
    };
    cJSON *j = cJSON_CreateObject(), *shares;

    cJSON_AddNumberToObject(j, "products", (double)s->products);
    cJSON_AddNumberToObject(j, "nonzero", (double)s->nonzero);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        cJSON_AddNumberToObject(j, counts[i].name, (double)counts[i].n);
    cJSON_AddNumberToObject(j, "outer_sums", (double)s->outer_sums);
    cJSON_AddNumberToObject(j, "outer_swamped", (double)s->outer_swamped);
    cJSON_AddNumberToObject(j, "outer_partly", (double)s->outer_partly);
    shares = cJSON_AddObjectToObject(j, "shares_of_nonzero");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_number(shares, counts[i].name, (double)counts[i].n / (double)s->nonzero);
    json_distribution(j, "a", &s->a);
    json_distribution(j, "b", &s->b);
    json_distribution(j, "result", &s->result);
    json_number(j, "variance_wide", s->variance_wide);
    json_number(j, "retention", s->retention);
    json_number(j, "retention_predicted", s->predicted);
    json_number(j, "distance", s->distance);
    json_number(j, "relative", s->relative);
    return j;
}
