/* SPDX-License-Identifier: BSD-3-Clause
 * limber report: shows reports of runs, sweeps and benchmarks as text or as one HTML page. */
#include "tools/cli/page.h"
#include "tools/cli/report.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 1024, MOST_CALLS = 10 };

/* The documents that were read, and the sum of the reports of runs. */
struct files {
    struct document d[MOST_FILES];
    int n;
    struct run *run;            /* sum of all reports of runs */
    int runs;
};

/* ---- reading files --------------------------------------------------------------------------- */

static const char *without_space(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

/* Whether the text ends inside the object or array with which it begins. */
static bool is_cut_off(const char *s)
{
    bool quoted = false;
    int depth = 0;

    if (*s != '{' && *s != '[')
        return false;
    for (; *s; s++) {
        if (quoted && *s == '\\' && s[1])
            s++;
        else if (*s == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (*s == '{' || *s == '[') - (*s == '}' || *s == ']');
    }
    return quoted || depth > 0;
}

/* Parses consecutive JSON objects into an array; NULL after a message. */
static cJSON *read_lines(const char *s, const char *path)
{
    cJSON *list = cJSON_CreateArray();
    const char *all = s, *end = s;

    for (s = without_space(s); list && *s; s = without_space(end)) {
        cJSON *o = cJSON_ParseWithOpts(s, &end, 0);

        if (!cJSON_IsObject(o)) {
            int line = 1;

            for (const char *c = all; c < s; c++)
                line += *c == '\n';
            complain(is_cut_off(s) ?
                         "%s: ends early: what begins in line %d is cut off" :
                         "%s: no report of LIMBER_REPORT, and line %d is no object of JSON",
                     path, line);
            cJSON_Delete(o);
            cJSON_Delete(list);
            return NULL;
        }
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

/* Parses a file as one JSON value, or else as consecutive objects, into an array. */
static cJSON *read_json(const char *path)
{
    char *all = text_read(path);
    const char *end;
    cJSON *o = all ? cJSON_ParseWithOpts(all, &end, 0) : NULL;

    if (all && !*without_space(all))
        complain("%s: is empty", path);
    else if (all &&
             (!o || *without_space(end) || (cJSON_IsObject(o) && kind_of(o) == KIND_UNKNOWN))) {
        cJSON_Delete(o);
        o = read_lines(all, path);
    }
    free(all);
    return o;
}

/* Adds a parsed file to the list; refuses what is no report. */
static bool add_document(struct files *f, const char *path, cJSON *json)
{
    struct document d = { .path = path, .json = json, .kind = kind_of(json) };

    if (f->n == MOST_FILES)
        complain("report: more than %d files", MOST_FILES);
    else if (d.kind == KIND_UNKNOWN)
        complain("%s: no report of LIMBER_REPORT, and no numbers of a sweep or a benchmark", path);
    else {
        f->runs += d.kind == KIND_RUN;
        f->d[f->n++] = d;
        return true;
    }
    cJSON_Delete(json);
    return false;
}

/* Whether one process wrote both reports: they are copies, or one is earlier. */
static bool same_process(const cJSON *a, const cJSON *b)
{
    const double pid = json_value(a, "pid"), began = json_value(a, "began");

    return pid == json_value(b, "pid") && began == json_value(b, "began") &&
           !strcmp(json_word(a, "host"), json_word(b, "host"));
}

/* The latest report of a process, which includes everything in its earlier ones. */
static const struct document *latest_report(const struct files *f, const struct document *one)
{
    const struct document *last = one;

    for (const struct document *d = f->d; d < f->d + f->n; d++)
        if (d->kind == KIND_RUN && same_process(d->json, one->json) &&
            json_value(d->json, "wall_seconds") >= json_value(last->json, "wall_seconds"))
            last = d;
    return last;
}

/* Adds up the reports of runs, each process once.  False after a message. */
static bool add_runs(struct files *f)
{
    for (const struct document *d = f->d; d < f->d + f->n; d++) {
        const struct document *last = d->kind == KIND_RUN ? latest_report(f, d) : NULL;

        if (last && last != d)
            complain("%s: is an earlier report, or a copy, of the process of %s: not counted",
                     d->path, last->path);
        else if (last && !run_add(f->run, d->json))
            return false;
    }
    return true;
}

/* Reads a file, which may hold several concatenated reports. */
static bool read_file(struct files *f, const char *path)
{
    cJSON *json = read_json(path), *one;
    bool ok = json != NULL;

    if (!cJSON_IsArray(json) || kind_of(json->child) != KIND_RUN)
        return ok && add_document(f, path, json);
    while (ok && (one = cJSON_DetachItemFromArray(json, 0)))
        ok = add_document(f, path, one);
    cJSON_Delete(json);
    return ok;
}

/* ---- showing them as text or as a page ------------------------------------------------------- */

static void print_all(const struct files *f, int top)
{
    if (f->runs)
        run_print(f->run, top);
    for (int i = 0; i < f->n; i++)
        if (f->d[i].kind != KIND_RUN)
            section_print(&f->d[i]);
}

/* Writes the HTML page. top: shapes that it lists. */
static bool write_page(const struct files *f, const char *path, int top)
{
    struct draft d;
    bool ok = true;

    if (!draft_open(&d, path))
        return false;
    page_begin(d.f, f->runs ? run_name(f->run) : kind_name(f->d[0].kind));
    if (f->runs)
        run_html(f->run, d.f, top);
    for (int i = 0; ok && i < f->n; i++)
        ok = f->d[i].kind == KIND_RUN || section_html(d.f, &f->d[i]);
    page_end(d.f);
    return draft_close(&d, ok) && ok;
}

/* Shows all files as text, JSON or a page. */
static bool show(const struct files *f, const char *html, bool json, int top)
{
    if (json && f->runs < f->n)
        return !complain("report: --json is for reports of runs; the other files are JSON");
    if ((html && !write_page(f, html, top)) || (json && !run_json(f->run, top)))
        return false;
    if (!json)
        print_all(f, top);
    if (html && strcmp(html, "-") != 0)
        fprintf(json ? stderr : stdout, "wrote %s\n", html);
    return true;
}

int cmd_report(int argc, const char **argv)
{
    int json = 0, top = MOST_CALLS, status = 2;
    char *html = NULL;
    struct poptOption table[] = {
        { "html", 0, POPT_ARG_STRING, &html, 0,
          "write a page with pictures (-: to standard output)", "FILE" },
        { "top", 0, POPT_ARG_INT, &top, 0, "how many of the longest calls are listed (10)", "N" },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON, of runs", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    struct files *f = calloc(1, sizeof *f);
    const char *path;

    if (!f)
        complain("report: not enough memory");
    else if (options_read(
                 o, "[options] FILE...\n\n"
                    "Shows what a program's products became, from the files that "
                    "LIMBER_REPORT names: what\n"
                    "was served, what was left to the BLAS and why, time against the BLAS, "
                    "advice.  Several\n"
                    "files, as of an MPI program's ranks, are added up; - is standard input.\n"
                    "Also takes what `limber explore --json`, `limber bench --json`, `limber "
                    "gpu --json` and\n"
                    "`limber bench apps --json` print, and an object of JSON a line, as "
                    "programs of examples/\n"
                    "print and limber.torch writes.  A page has a section for each.\n\n"
                    "example: limber report run.json --html run.html")) {
        if (!poptPeekArg(o))
            complain("report: no FILE is named");
        else if (top < 0)
            complain("report: --top takes a number from 0 on");
        else
            status = (f->run = run_new()) ? 0 : 1;
        tell_beside(html);
        while (status == 0 && (path = poptGetArg(o)))
            status = read_file(f, path) ? 0 : 1;
        if (status == 0)
            status = add_runs(f) ? 0 : 1;
        if (status == 0) {
            run_finish(f->run);
            status = show(f, html, json, top) ? 0 : 1;
        }
    }
    for (int i = 0; f && i < f->n; i++)
        cJSON_Delete(f->d[i].json);
    if (f)
        run_free(f->run);
    free(f);
    free(html);
    poptFreeContext(o);
    return status;
}
