/* SPDX-License-Identifier: BSD-3-Clause
 * limber report: shows reports of runs, sweeps and benchmarks as text or as one HTML page. */
#include "tools/cli/page.h"
#include "tools/cli/report.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 1024, MOST_CALLS = 10 };

/* The files that were read, and the sum of all reports of programs' runs. */
struct files {
    struct document d[MOST_FILES];
    int n;
    struct run_totals *totals;  /* sum of all reports of runs; owned */
    int runs;
};

/* ---- reading files --------------------------------------------------------------------------- */

static const char *skip_space(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

/* True if the text ends inside the object or array with which it begins. */
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

/* Parses consecutive JSON objects into an array.  On failure prints a message and returns NULL. */
static cJSON *read_lines(const char *s, const char *path)
{
    cJSON *list = cJSON_CreateArray();
    const char *all = s, *end = s;

    for (s = skip_space(s); list && *s; s = skip_space(end)) {
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

/* Parses a file as one JSON value or, if that fails, as consecutive objects, which become an
 * array. */
static cJSON *read_json(const char *path)
{
    char *all = text_read(path);
    const char *end;
    cJSON *o = all ? cJSON_ParseWithOpts(all, &end, 0) : NULL;

    if (all && !*skip_space(all))
        complain("%s: is empty", path);
    else if (all && (!o || *skip_space(end) || (cJSON_IsObject(o) && kind_of(o) == KIND_UNKNOWN))) {
        cJSON_Delete(o);
        o = read_lines(all, path);
    }
    free(all);
    return o;
}

/* Adds a parsed file to the list.  If it is no report, prints a message and returns false. */
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

/* True if one process wrote both reports: they are copies, or one is an earlier state of the
 * other. */
static bool same_process(const cJSON *a, const cJSON *b)
{
    const double pid = json_value(a, "pid"), began = json_value(a, "began");

    return pid == json_value(b, "pid") && began == json_value(b, "began") &&
           !strcmp(json_word(a, "host"), json_word(b, "host"));
}

/* Returns the latest report of a process, which includes all that its earlier ones have. */
static const struct document *latest_report(const struct files *f, const struct document *one)
{
    const struct document *last = one;

    for (const struct document *d = f->d; d < f->d + f->n; d++)
        if (d->kind == KIND_RUN && same_process(d->json, one->json) &&
            json_value(d->json, "wall_seconds") >= json_value(last->json, "wall_seconds"))
            last = d;
    return last;
}

/* Adds up the reports of programs' runs, one for each process.  On failure prints a message and
 * returns false. */
static bool add_runs(struct files *f)
{
    for (const struct document *d = f->d; d < f->d + f->n; d++) {
        const struct document *last = d->kind == KIND_RUN ? latest_report(f, d) : NULL;

        if (last && last != d)
            complain("%s: is an earlier report, or a copy, of the process of %s: not counted",
                     d->path, last->path);
        else if (last && !run_totals_add(f->totals, d->json))
            return false;
    }
    return true;
}

/* Reads a file, which may hold several reports one after the other. */
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
        run_totals_print(f->totals, top);
    for (int i = 0; i < f->n; i++)
        if (f->d[i].kind != KIND_RUN)
            section_print(&f->d[i]);
}

/* Writes all documents as an HTML page.  top: number of shapes that are listed. */
static bool write_page(const struct files *f, const char *path, int top)
{
    struct draft d;
    bool ok = true;

    if (!draft_open(&d, path))
        return false;
    page_begin(d.f, f->runs ? run_totals_name(f->totals) : kind_name(f->d[0].kind));
    if (f->runs)
        run_totals_html(f->totals, d.f, top);
    for (int i = 0; ok && i < f->n; i++)
        ok = f->d[i].kind == KIND_RUN || section_html(d.f, &f->d[i]);
    page_end(d.f);
    return draft_close(&d, ok) && ok;
}

/* Shows all documents as text, as JSON or as an HTML page. */
static bool show_documents(const struct files *f, const char *html, bool json, int top)
{
    if (json && f->runs < f->n)
        return !complain("report: --json is for reports of runs; the other files are JSON");
    if ((html && !write_page(f, html, top)) || (json && !run_totals_json(f->totals, top)))
        return false;
    if (!json)
        print_all(f, top);
    if (html && strcmp(html, "-") != 0)
        fprintf(json ? stderr : stdout, "wrote %s\n", html);
    return true;
}

/* The command `limber report`: reads reports and other JSON files, and prints them as text, JSON or
 * HTML. */
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
            status = (f->totals = run_totals_new()) ? 0 : 1;
        send_messages_to_stderr(html);
        while (status == 0 && (path = poptGetArg(o)))
            status = read_file(f, path) ? 0 : 1;
        if (status == 0)
            status = add_runs(f) ? 0 : 1;
        if (status == 0) {
            run_totals_finish(f->totals);
            status = show_documents(f, html, json, top) ? 0 : 1;
        }
    }
    for (int i = 0; f && i < f->n; i++)
        cJSON_Delete(f->d[i].json);
    if (f)
        run_totals_free(f->totals);
    free(f);
    free(html);
    poptFreeContext(o);
    return status;
}
