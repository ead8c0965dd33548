/* SPDX-License-Identifier: BSD-3-Clause
 * Tables of figures: as text, CSV, JSON and pictures. */
#define _GNU_SOURCE
#include "tools/figures/figures.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 32 };

bool sheet_open(struct sheet *s, const char *heads)
{
    *s = (struct sheet){ .f = NULL };
    s->f = open_memstream(&s->text, &s->size);
    if (!s->f)
        return complain("figures: out of memory"), false;
    fprintf(s->f, "%s\n", heads);
    return true;
}

void sheet_clear(struct sheet *s)
{
    if (s->f)
        fclose(s->f);
    free(s->text);
    *s = (struct sheet){ .f = NULL };
}

static void comma(struct sheet *s)
{
    if (s->within)
        fputc(',', s->f);
    s->within = true;
}

void sheet_word(struct sheet *s, const char *word)
{
    comma(s);
    fputs(word, s->f);
}

void sheet_number(struct sheet *s, double x)
{
    comma(s);
    if (!isnan(x))
        fprintf(s->f, "%.5g", x);
}

void sheet_end_line(struct sheet *s)
{
    fputc('\n', s->f);
    s->within = false;
}

/* ---- reading it again ------------------------------------------------------------------------ */

/* Cells of the line at *at, which moves behind it; the line's own commas become zeros. */
static int cells(char **at, char *cell[COLUMNS])
{
    char *line = *at, *end = strchr(line, '\n');
    int n = 0;

    *end = 0;
    *at = end + 1;
    for (char *s = line; s && n < COLUMNS; n++)
        cell[n] = strsep(&s, ",");
    return n;
}

static void print_text(const struct sheet *s)
{
    char *copy = strdup(s->text), *cell[COLUMNS];
    int width[COLUMNS] = { 0 };

    for (int pass = 0; copy && pass < 2; pass++) {
        memcpy(copy, s->text, strlen(s->text) + 1);
        for (char *at = copy; *at;) {
            int n = cells(&at, cell);

            for (int i = 0; i < n; i++)
                if (pass)
                    printf(i ? "  %*s" : "%-*s", width[i], cell[i]);
                else if ((int)strlen(cell[i]) > width[i])
                    width[i] = (int)strlen(cell[i]);
            if (pass)
                printf("\n");
        }
    }
    free(copy);
}

static cJSON *json_rows(const struct sheet *s)
{
    char *copy = strdup(s->text), *at = copy, *head[COLUMNS], *cell[COLUMNS];
    cJSON *rows = cJSON_CreateArray();
    int heads = copy ? cells(&at, head) : 0;

    while (at && *at) {
        cJSON *row = cJSON_CreateObject();
        int n = cells(&at, cell);

        for (int i = 0; i < n && i < heads; i++) {
            char *end;
            double x = strtod(cell[i], &end);

            if (!*cell[i])
                cJSON_AddNullToObject(row, head[i]);
            else if (*end)
                cJSON_AddStringToObject(row, head[i], cell[i]);
            else
                json_number(row, head[i], x);
        }
        cJSON_AddItemToArray(rows, row);
    }
    free(copy);
    return rows;
}

static void tell(struct figures *f, const char *name, const struct sheet *data,
                 const struct sheet *brief)
{
    cJSON *j;

    if (!f->json) {
        printf("%s\n", name);
        print_text(brief ? brief : data);
        printf("\n");
        fflush(stdout);
        return;
    }
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "name", name);
    if (brief)
        cJSON_AddItemToObject(j, "brief", json_rows(brief));
    cJSON_AddItemToObject(j, "rows", json_rows(data));
    cJSON_AddItemToArray(f->json, j);
}

/* ---- files ----------------------------------------------------------------------------------- */

struct drawing {
    const struct picture *picture;
    const struct sheet *data;
};

static void write_script(FILE *out, const void *user)
{
    const struct drawing *d = user;

    fprintf(out,
            "set terminal svg size 900,%d dynamic enhanced font 'sans,13' background rgb "
            "'white'\nset datafile separator ','\nset grid\n$data << END\n%sEND\n%s\n",
            d->picture->height, strchr(d->data->text, '\n') + 1, d->picture->script);
}

static char *path_of(const struct figures *f, const char *name, const char *end)
{
    char *path;

    if (asprintf(&path, "%s/%s.%s", f->dir, name, end) < 0)
        path = (complain("figures: out of memory"), NULL);
    return path;
}

static bool write_csv(const struct figures *f, const char *name, const struct sheet *s)
{
    char *path = path_of(f, name, "csv");
    struct draft d;
    bool ok = path && draft_open(&d, path);

    if (ok) {
        fputs(s->text, d.f);
        ok = draft_close(&d, true);
    }
    free(path);
    return ok;
}

/* Where there is no gnuplot, that is said once and the data is kept. */
static bool draw(struct figures *f, const struct picture *p, const struct sheet *s)
{
    const struct drawing d = { p, s };
    char *path = f->undrawn ? NULL : path_of(f, p->name, "svg");
    bool ok = f->undrawn ||
              (path && (gnuplot(path, p->name, write_script, &d, &f->undrawn) || f->undrawn));

    free(path);
    return ok;
}

bool figure_write(struct figures *f, const char *name, struct sheet *data, struct sheet *brief,
                  const struct picture *picture, int pictures)
{
    bool ok = !fflush(data->f) && (!brief || !fflush(brief->f));

    if (!ok)
        return complain("figures: out of memory"), false;
    figure_note(f, "%s", "");
    ok = write_csv(f, name, data);
    for (int i = 0; i < pictures && ok; i++)
        ok = draw(f, &picture[i], data);
    if (ok)
        tell(f, name, data, brief);
    return ok;
}
