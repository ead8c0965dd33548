/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of `limber report`: cmd_report.c reads files and knows what each holds; report_run.c
 * has what libraries before a BLAS reported; report_sections.c has sweeps and benchmarks. */
#ifndef LIMBER_REPORT_CLI_H
#define LIMBER_REPORT_CLI_H

#include "tools/cli/cli.h"

#include <cjson/cJSON.h>

/* A number or a word of an object; NaN, "": it has none. */
double json_value(const cJSON *o, const char *name);
const char *json_word(const cJSON *o, const char *name);

/* ---- runs: of several files the sums --------------------------------------------------------- */

struct run;
struct run *run_new(void); /* NULL after a message */
void run_free(struct run *r);
bool run_add(struct run *r, const cJSON *report); /* false after a message */
void run_finish(struct run *r); /* sorts, and finds advice; what follows needs it */
const char *run_name(const struct run *r); /* the program's */
void run_print(const struct run *r, int top);
void run_html(const struct run *r, FILE *f, int top);
bool run_json(const struct run *r, int top); /* false after a message */

/* ---- others: one section for each file ------------------------------------------------------- */

enum kind {
    KIND_RUN, /* LIMBER_REPORT */
    KIND_EXPLORE, /* limber explore --json */
    KIND_SWEEP, /* the same of formats or contracts */
    KIND_BENCH, /* limber bench --json, gpu.json of tools/gpu.py */
    KIND_APPS, /* limber bench apps --json */
    KIND_LINES, /* an object a line, as of a training sweep or statistics */
    KIND_UNKNOWN
};
struct document {
    const char *path;
    cJSON *json;
    enum kind kind;
};
enum kind kind_of(const cJSON *o);
const char *kind_name(enum kind k); /* "a sweep", ... */
void section_print(const struct document *d);
bool section_html(FILE *f, const struct document *d); /* false after a message */

#endif
