/* SPDX-License-Identifier: BSD-3-Clause
 * Tables of figures as text, CSV, JSON and pictures. */
#define _GNU_SOURCE
#include "tools/figures/figures.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 32 };

/* Appends cells to a table. kinds: a letter for each argument, w for a word, n for a number.  NaN
 * gives an empty cell.  Sets t->failed if memory runs out. */
void table_add(struct table *t, const char *kinds, ...)
{
    va_list args;

    va_start(args, kinds);
    for (; *kinds; kinds++) {
        char *text = NULL;

        if (*kinds == 'w') {
            text = strdup(va_arg(args, const char *));
        } else {
            double x = va_arg(args, double);

            if (isnan(x))
                text = strdup("");
            else if (asprintf(&text, "%.5g", x) < 0)
                text = NULL;
        }
        if (t->count % 256 == 0) {
            char **cell = realloc(t->cell, (size_t)(t->count + 256) * sizeof *cell);

            t->failed |= !cell;
            t->cell = cell ? cell : t->cell;
        }
        t->failed |= !text;
        if (t->failed)
            free(text);
        else
            t->cell[t->count++] = text;
    }
    va_end(args);
}

static void clear_table(struct table *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->cell[i]);
    free(t->cell);
}

/* Makes a table whose first row has these heads, which commas separate. */
static struct table with_heads(const char *heads)
{
    char copy[512], *rest = copy;
    struct table t = { .columns = 0 };

    snprintf(copy, sizeof copy, "%s", heads ? heads : "");
    for (; heads && rest; t.columns++)
        table_add(&t, "w", strsep(&rest, ","));
    return t;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Prints a table as text, with aligned columns. */
static void print_text(const struct table *t)
{
    int width[COLUMNS] = { 0 };

    for (int i = 0; i < t->count; i++) {
        int *w = &width[i % t->columns], n = (int)strlen(t->cell[i]);

        *w = n > *w ? n : *w;
    }
    for (int i = 0; i < t->count; i++) {
        int column = i % t->columns;

        printf(column ? "  %*s" : "%-*s", width[column], t->cell[i]);
        if (column == t->columns - 1)
            printf("\n");
    }
    printf("\n");
    fflush(stdout);
}

static void write_lines(FILE *f, const struct table *t, int from)
{
    for (int i = from; i < t->count; i++)
        fprintf(f, "%s%c", t->cell[i], i % t->columns == t->columns - 1 ? '\n' : ',');
}

/* Returns a table's rows as JSON objects, whose members are named by the heads. */
static cJSON *json_rows(const struct table *t)
{
    cJSON *rows = cJSON_CreateArray(), *row = NULL;

    for (int i = t->columns; i < t->count; i++) {
        const char *head = t->cell[i % t->columns], *text = t->cell[i];
        char *end;
        double x = strtod(text, &end);

        if (i % t->columns == 0)
            cJSON_AddItemToArray(rows, row = cJSON_CreateObject());
        if (!*text)
            cJSON_AddNullToObject(row, head);
        else if (*end)
            cJSON_AddStringToObject(row, head, text);
        else
            json_number(row, head, x);
    }
    return rows;
}

/* Prints a figure's table, or adds it to the JSON array.  The brief table is printed in place of
 * the full one, if there is one. */
static void add_report(struct figures *f, const char *name, const struct table *data,
                       const struct table *brief)
{
    cJSON *j;

    if (!f->json) {
        printf("%s\n", name);
        print_text(brief->columns ? brief : data);
        return;
    }
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "name", name);
    if (brief->columns)
        cJSON_AddItemToObject(j, "brief", json_rows(brief));
    cJSON_AddItemToObject(j, "rows", json_rows(data));
    cJSON_AddItemToArray(f->json, j);
}

/* A picture and the data of its table. */
struct drawing {
    const struct picture *picture;
    const struct table *data;
};

/* Writes gnuplot's commands for a picture, with the table's data. */
static void write_script(FILE *out, const void *user)
{
    const struct drawing *d = user;

    fprintf(out,
            "set terminal svg size 900,%d dynamic enhanced font 'sans,13' background rgb "
            "'white'\nset datafile separator ','\n",
            d->picture->height);
    gnuplot_style(out);
    /* the legend stands in the frame, above or below the curves, for which scripts leave room */
    fprintf(out, "set key inside top center horizontal Left reverse samplen 3\n$data << END\n");
    write_lines(out, d->data, d->data->columns);
    fprintf(out, "END\n%s\n", d->picture->script);
}

static char *path_of(const struct figures *f, const char *name, const char *end)
{
    char *path;

    if (asprintf(&path, "%s/%s.%s", f->dir, name, end) < 0)
        path = (complain("figures: out of memory"), NULL);
    return path;
}

/* Writes a table to the file NAME.csv in the figures' folder.  False on failure. */
static bool write_csv(const struct figures *f, const char *name, const struct table *t)
{
    char *path = path_of(f, name, "csv");
    struct draft d;
    bool ok = path && draft_open(&d, path);

    if (ok) {
        write_lines(d.f, t, 0);
        ok = draft_close(&d, true);
    }
    free(path);
    return ok;
}

static bool draw_picture(const struct figures *f, const struct picture *p, const struct table *t)
{
    const struct drawing d = { p, t };
    char *path = path_of(f, p->name, "svg");
    bool ok = path && gnuplot(path, p->name, write_script, &d);

    free(path);
    return ok;
}

/* Computes a figure's tables, writes them and its pictures to files, and prints them.  False on
 * failure. */
bool figure_make(struct figures *f, const struct figure *figure)
{
    struct table data = with_heads(figure->heads), brief = with_heads(figure->brief);
    bool ok = figure->fill(f, &data, &brief);

    if (ok && (data.failed || brief.failed))
        ok = !complain("figures: out of memory");
    figure_note(f, "%s", "");
    if (ok && data.count == data.columns) { /* left out: `fill` has said why */
        clear_table(&data);
        clear_table(&brief);
        return true;
    }
    ok = ok && write_csv(f, figure->name, &data);
    for (int i = 0; ok && !f->undrawn && i < MOST_PICTURES && figure->picture[i].name; i++)
        ok = draw_picture(f, &figure->picture[i], &data);
    if (ok)
        add_report(f, figure->name, &data, &brief);
    clear_table(&data);
    clear_table(&brief);
    return ok;
}
