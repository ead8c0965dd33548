/* SPDX-License-Identifier: BSD-3-Clause
 * A plan's summary in plain words: the scheme and why it was chosen, products, accuracy, time,
 * memory. */
#define _GNU_SOURCE
#include "tools/cli/plan.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the plan's text says of schemes ---------------------------------------------------- */

static const limber_scheme *scheme_named(const char *name, size_t length)
{
    const limber_scheme *s;

    for (int i = 0; (s = limber_scheme_at(i)); i++)
        if (strlen(s->name) == length && !strncmp(s->name, name, length))
            return s;
    return NULL;
}

/* Parses a line "NAME: refused: WHY" or "NAME: keeps the contract, SECONDS s".  Ignores other
 * lines. */
static void read_line(struct outlook *o, const char *line, size_t length)
{
    static const char refused[] = ": refused: ", keeps[] = ": keeps the contract, ";
    const char *colon = memchr(line, ':', length);
    const limber_scheme *s = colon ? scheme_named(line, (size_t)(colon - line)) : NULL;
    struct attempt *a = &o->attempt[o->attempts];

    if (!s || o->attempts == MOST_ATTEMPTS)
        return;
    *a = (struct attempt){ .name = s->name, .seconds = INFINITY };
    if (!strncmp(colon, keeps, sizeof keeps - 1))
        a->seconds = strtod(colon + sizeof keeps - 1, NULL);
    else if (!strncmp(colon, refused, sizeof refused - 1))
        snprintf(a->why, sizeof a->why, "%.*s", (int)(line + length - (colon + sizeof refused - 1)),
                 colon + sizeof refused - 1);
    else
        return;
    o->attempts++;
}

void outlook_read(struct outlook *o, const char *text)
{
    const char *line = strstr(text, "; plan.txt");

    o->attempts = 0;
    while (line && *line) {
        size_t length = strcspn(line, "\n");

        read_line(o, line, length);
        line += length + (line[length] != 0);
    }
}

/* ---- the outlook as text --------------------------------------------------------------------- */

static const struct attempt *attempt_of(const struct outlook *o, const char *name)
{
    for (int i = 0; i < o->attempts; i++)
        if (!strcmp(o->attempt[i].name, name))
            return &o->attempt[i];
    return NULL;
}

/* Writes a ratio with two significant digits, without an exponent: 120, not 1.2e+02. */
static const char *write_ratio(double x, char *text, size_t size)
{
    snprintf(text, size, x < 99.5 ? "%.2g" : "%.0f", x);
    return text;
}

/* Prints why this scheme was chosen, and compares it with the second fastest. */
static void print_why(const struct cli_product *p, const struct outlook *o, const limber_report *r)
{
    const struct attempt *own = attempt_of(o, r->scheme), *native = attempt_of(o, "native");
    const struct attempt *next = NULL;
    char times[32];
    int keep = 0;

    const bool is_bytes = !strcmp(r->way, "bytes");

    if (p->scheme || r->parts || is_bytes || !own) {
        printf("why       %s\n",
               p->scheme ? "--scheme names it" :
               r->parts  ? "parts of the data are unlike, and parts of their own are faster" :
               is_bytes  ? "both operands hold bytes" :
                           "the product is so small that it needs no plan");
        return;
    }
    for (int i = 0; i < o->attempts; i++) {
        const struct attempt *a = &o->attempt[i];

        keep += isfinite(a->seconds);
        if (a != own && isfinite(a->seconds) && (!next || a->seconds < next->seconds))
            next = a;
    }
    if (!next)
        printf("why       it alone keeps the contract\n");
    else
        printf("why       predicted the fastest of %d that keep the contract; %s takes %s x as "
               "long\n",
               keep, next->name, write_ratio(next->seconds / own->seconds, times, sizeof times));
    if (native && *native->why)
        printf("          not native: %s\n", native->why);
}

/* Prints the predicted time, compared with that of `native`. */
static void print_seconds(const struct outlook *o, const limber_report *r)
{
    char times[32];

    if (!(r->cost > 0)) {
        printf("seconds   not predicted without a plan\n");
        return;
    }
    printf("seconds   %.3g predicted", r->cost);
    if (o->native > 0 && isfinite(o->native)) {
        if (!strcmp(o->native_scheme, r->scheme) && o->native == r->cost)
            printf(", as native");
        else
            printf(", %s x native (%.3g%s%s)",
                   write_ratio(r->cost / o->native, times, sizeof times), o->native,
                   strcmp(o->native_scheme, "native") ? ", by " : "",
                   strcmp(o->native_scheme, "native") ? o->native_scheme : "");
    }
    printf("\n");
}

/* Prints a summary of a plan: scheme, reason, accuracy, predicted time and memory. */
void outlook_print(const struct cli_product *p, const struct outlook *o, const limber_report *r)
{
    const limber_scheme *s = scheme_named(r->scheme, strlen(r->scheme));
    char shape[128], format[64];

    product_shape_text(p, !p->is_conv, shape, sizeof shape);
    printf("result    %s of %s\n", shape, limber_format_name(p->c.format, format, sizeof format));
    printf("scheme    ");
    scheme_print(r);
    printf("%s%s\n", s ? ": " : "", s ? s->about : "");
    printf("way       %s\n", r->way);
    print_why(p, o, r);
    epilogue_print(p);
    products_print(r);
    printf("accuracy  %s: %s\n",
           p->promise.unit ? "simulate" :
           p->contract     ? p->contract :
           p->slices       ? "fast" :
                             "native",
           contract_about(&p->promise));
    if (!p->promise.unit)
        bound_print("          bound ", r->bound);
    print_seconds(o, r);
    if (!o->best || !(r->cost > 0))
        printf("memory    none beside the operands\n");
    else if (o->least < o->best)
        printf("memory    %.3g MB of workspace, or in smaller parts %.3g MB\n",
               1e-6 * (double)o->best, 1e-6 * (double)o->least);
    else
        printf("memory    %.3g MB of workspace\n", 1e-6 * (double)o->best);
}

/* Prints those lines of the plan's text that describe parts, with the map of groups. */
void outlook_parts(const char *text)
{
    const char *at = strstr(text, "; parts\n"), *end = at ? strstr(at + 1, "\n; ") : NULL;

    if (at)
        printf("%.*s\n", (int)(end ? end - at - 2 : (long)strlen(at + 2)), at + 2);
}

/* ---- the outlook as JSON --------------------------------------------------------------------- */

/* Adds a plan's predictions to a JSON object. */
void outlook_json(cJSON *j, const struct outlook *o, const limber_report *r)
{
    cJSON *list;

    cJSON_AddStringToObject(j, "backend", r->backend);
    cJSON_AddStringToObject(j, "way", r->way);
    cJSON_AddNumberToObject(j, "products_kept", r->rows);
    cJSON_AddNumberToObject(j, "products_pruned", r->pruned);
    json_number(j, "seconds_predicted_native", o->native);
    cJSON_AddNumberToObject(j, "workspace_least", (double)o->least);
    cJSON_AddNumberToObject(j, "workspace_best", (double)o->best);
    list = cJSON_AddArrayToObject(j, "schemes");
    for (int i = 0; i < o->attempts; i++) {
        const struct attempt *a = &o->attempt[i];
        cJSON *row = cJSON_CreateObject();

        cJSON_AddStringToObject(row, "name", a->name);
        cJSON_AddBoolToObject(row, "keeps", !*a->why);
        if (*a->why)
            cJSON_AddStringToObject(row, "why_not", a->why);
        else
            json_number(row, "relative_seconds", a->seconds);
        cJSON_AddItemToArray(list, row);
    }
}
