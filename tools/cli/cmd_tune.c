/* SPDX-License-Identifier: BSD-3-Clause
 * limber tune: measures this machine, so that later plans use measured rates. */
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <popt.h>
#include <stdlib.h>

/* The lines shown so far. */
struct shown {
    cJSON *rows; /* owned; NULL if text is printed */
    int count;
};

/* Prints a line of the search, such as "tried f64 12,120,256 6.1e10". */
static void print_tried(void *user, const char *line)
{
    struct shown *s = user;
    char unit[16], tile[40];
    double rate;

    if (sscanf(line, "tried %15s %39s %lf", unit, tile, &rate) != 3)
        return;
    s->count++;
    if (s->rows) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "unit", unit);
        cJSON_AddStringToObject(j, "tile", tile);
        cJSON_AddNumberToObject(j, "gmacs", 1e-9 * rate);
        cJSON_AddItemToArray(s->rows, j);
        return;
    }
    printf("%-4s  %-14s  %7.1f GMAC/s\n", unit, tile, 1e-9 * rate);
    fflush(stdout);
}

/* Searches for the best tiles, and prints each measurement. */
static int run_tune(double seconds, const char *units, int json)
{
    struct shown shown = { json ? cJSON_CreateArray() : NULL, 0 };
    limber_tuning tuning = { sizeof tuning, seconds, units, print_tried, &shown };
    limber_context *ctx = NULL;
    limber_status status;
    bool ok;

    if (!json)
        printf("unit  mr,mb,nb\n");
    status = limber_create(&ctx, NULL);
    if (status == LIMBER_STATUS_OK)
        status = limber_tune(ctx, &tuning);
    ok = status == LIMBER_STATUS_OK;
    if (!ok)
        complain("%s", limber_error_text());
    else if (!json)
        printf("%d measured; the best are kept for plans to come\n", shown.count);
    if (ok && json) {
        char *s = cJSON_Print(shown.rows);

        printf("%s\n", s ? s : "[]");
        cJSON_free(s);
    }
    cJSON_Delete(shown.rows);
    context_end(ctx);
    return ok ? 0 : status == LIMBER_STATUS_BAD_ARGUMENT ? 2 : 1;
}

/* The command `limber tune`: searches for the best tiles and stores them. */
int cmd_tune(int argc, const char **argv)
{
    double seconds = 10;
    char *units = NULL;
    int json = 0, status;
    bool ok;
    struct poptOption table[] = { { "seconds", 0, POPT_ARG_DOUBLE, &seconds, 0,
                                    "time for the search in seconds, about (10)", "N" },
                                  { "unit", 0, POPT_ARG_STRING, &units, 0,
                                    "units to measure: f64,f32,i8 (all)", "LIST" },
                                  { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);

    ok = options_read(o, "[options]\n\nexample: limber tune --seconds 30 --unit f64,i8");
    if (ok && poptPeekArg(o))
        ok = (complain("tune takes options alone, no \"%s\"", poptGetArg(o)), false);
    poptFreeContext(o);
    if (!ok)
        status = 2;
    else if (!(seconds >= 0))
        status = complain("--seconds %g is negative", seconds) + 1;
    else
        status = run_tune(seconds, units, json);
    free(units);
    return status;
}
