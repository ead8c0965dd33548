/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the sum of the reports of runs as JSON, for programs. */
#include "tools/cli/report_run.h"

#include <stdio.h>

static cJSON *json_of_unit(const struct group *g)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddNumberToObject(o, "products", g->products);
    cJSON_AddNumberToObject(o, "swamped", g->swamped);
    cJSON_AddNumberToObject(o, "partly_swamped", g->partly);
    cJSON_AddNumberToObject(o, "underflow", g->underflow);
    cJSON_AddNumberToObject(o, "overflow", g->overflow);
    return o;
}

/* Returns a group as a JSON object.  shape: with m, n, k and the caller. */
static cJSON *json_of(const struct group *g, bool shape)
{
    cJSON *o = cJSON_CreateObject();

    if (*g->routine)
        cJSON_AddStringToObject(o, "routine", g->routine);
    if (*g->outcome)
        cJSON_AddStringToObject(o, g->served ? "scheme" : "why_not", g->outcome);
    if (shape) {
        cJSON_AddNumberToObject(o, "m", (double)g->m);
        cJSON_AddNumberToObject(o, "n", (double)g->n);
        cJSON_AddNumberToObject(o, "k", (double)g->k);
        cJSON_AddStringToObject(o, "caller", g->caller);
    }
    cJSON_AddBoolToObject(o, "served", g->served);
    cJSON_AddNumberToObject(o, "calls", g->calls);
    cJSON_AddNumberToObject(o, "seconds", g->seconds);
    cJSON_AddNumberToObject(o, "compile_seconds", g->compiling);
    cJSON_AddNumberToObject(o, "estimated_original_seconds", g->original);
    cJSON_AddNumberToObject(o, "checked_elements", g->elements);
    cJSON_AddNumberToObject(o, "broken", g->broken);
    if (g->products > 0)
        cJSON_AddItemToObject(o, "unit", json_of_unit(g));
    return o;
}

/* Prints the sum of all reports as JSON.  On failure prints a message and returns false. */
bool run_totals_json(const struct run_totals *r, int top)
{
    cJSON *o = cJSON_CreateObject(), *groups, *calls, *sites, *advice;
    char *s;

    cJSON_AddStringToObject(o, "program", r->program);
    cJSON_AddStringToObject(o, "contracts", r->contracts);
    cJSON_AddStringToObject(o, "verdict", r->verdict);
    cJSON_AddNumberToObject(o, "opening_seconds", r->opening);
    cJSON_AddNumberToObject(o, "reports", r->files);
    cJSON_AddItemToObject(o, "served", json_of(&r->served, false));
    cJSON_AddItemToObject(o, "left", json_of(&r->left, false));
    groups = cJSON_AddArrayToObject(o, "routines");
    for (int i = 0; i < r->groups; i++)
        cJSON_AddItemToArray(groups, json_of(&r->group[i], false));
    calls = cJSON_AddArrayToObject(o, "longest");
    for (int i = 0; i < r->shapes && i < top; i++)
        cJSON_AddItemToArray(calls, json_of(&r->shape[i], true));
    sites = cJSON_AddArrayToObject(o, "unit_by_caller");
    for (int i = 0; i < r->sites; i++) {
        cJSON *one = json_of_unit(&r->site[i]);

        cJSON_AddStringToObject(one, "routine", r->site[i].routine);
        cJSON_AddStringToObject(one, "caller", r->site[i].caller);
        cJSON_AddItemToArray(sites, one);
    }
    advice = cJSON_AddArrayToObject(o, "advice");
    for (int i = 0; i < r->advices; i++)
        cJSON_AddItemToArray(advice, cJSON_CreateString(r->advice[i]));
    s = cJSON_Print(o);
    if (s)
        printf("%s\n", s);
    cJSON_free(s);
    cJSON_Delete(o);
    return s || !complain("report: not enough memory");
}
