/* SPDX-License-Identifier: BSD-3-Clause
 * Parts of `limber report`: cmd_report.c reads files and tells their kinds; report_run.c shows
 * reports of Limber's BLAS and cuBLAS libraries; report_sections.c shows sweeps and benchmarks. */
#ifndef LIMBER_REPORT_CLI_H
#define LIMBER_REPORT_CLI_H

#include "tools/cli/cli.h"

#include <cjson/cJSON.h>

/* A number or string of an object; NaN or "" if it is absent. */
double json_value(const cJSON *o, const char *name);
const char *json_word(const cJSON *o, const char *name);

/* ---- reports of runs: summed over all files -------------------------------------------------- */

struct run_totals;
struct run_totals *run_totals_new(void); /* returns NULL, after a message, if memory is exhausted */
void run_totals_free(struct run_totals *r);
bool run_totals_add(struct run_totals *r,
                    const cJSON *report); /* returns false, after a message, on failure */
/* sorts, and computes advice; must precede the functions below */
void run_totals_finish(struct run_totals *r);
const char *run_totals_name(const struct run_totals *r); /* name of the program */
void run_totals_print(const struct run_totals *r, int top);
void run_totals_html(const struct run_totals *r, FILE *f, int top);
bool run_totals_json(const struct run_totals *r,
                     int top); /* returns false, after a message, on failure */

/* ---- files of other commands ----------------------------------------------------------------- */

enum kind {
    KIND_RUN, /* a report of a program's run (LIMBER_REPORT) */
    KIND_EXPLORE, /* limber explore --json */
    KIND_SWEEP, /* limber explore --json, a sweep over formats or contracts */
    KIND_BENCH, /* limber bench --json, gpu.json of tools/gpu.py */
    KIND_APPS, /* limber bench apps --json */
    KIND_LINES, /* JSON lines, such as a training sweep or statistics of layers */
    KIND_UNKNOWN
};
/* A JSON file, and the command that wrote it. */
struct document {
    const char *path;
    cJSON *json;
    enum kind kind;
};
enum kind kind_of(const cJSON *o);
const char *kind_name(enum kind k); /* such as "a sweep" */
void section_print(const struct document *d);
/* returns false, after a message, on failure */
bool section_html(FILE *f, const struct document *d);

#endif
