/* SPDX-License-Identifier: BSD-3-Clause
 * Comma-separated values: a row of the matrix a line.  Fields stand between commas, semicolons,
 * tabs or spaces; a first line of words names columns; what follows # is a comment. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_FIELD = 1100 };

struct reader {
    const char *path;
    limber_format format;
    char *data;
    int64_t line, rows, columns, room; /* room: numbers that data holds */
    int64_t most;                      /* bytes */
};

static bool bad(const struct reader *r, const char *what)
{
    complain("%s: line %" PRId64 ": %s", r->path, r->line, what);
    return false;
}

static bool make_room(struct reader *r, int64_t at)
{
    int64_t room = r->room ? r->room * 2 : 1024;
    char *grown;

    if (at < r->room)
        return true;
    if (room > r->most / r->format.size)
        return bad(r, "the array is larger than memory");
    grown = realloc(r->data, (size_t)(room * r->format.size) + 16);
    if (!grown)
        return bad(r, "out of memory");
    r->data = grown;
    r->room = room;
    return true;
}

/* The next field, without its quotes, and what follows it.  NULL: the line has no more. */
static char *next_field(char **rest, bool *quoted)
{
    static const char spaces[] = " \t\r\n";
    char *s = *rest + strspn(*rest, spaces), *end, *behind;

    if (!*s)
        return NULL;
    *quoted = *s == '"';
    if (*quoted) {
        s++;
        end = s + strcspn(s, "\"");
        behind = end + (*end != 0);
    } else {
        behind = end = s + strcspn(s, " ,;\t\r\n");
    }
    behind += strspn(behind, spaces);
    if (*behind == ',' || *behind == ';')
        behind++;
    *end = 0;
    *rest = behind;
    return s;
}

static bool read_line(struct reader *r, char *text)
{
    int64_t columns = 0, words = 0;
    char *rest = text, *field;
    bool quoted;

    text[strcspn(text, "#")] = 0;
    while ((field = next_field(&rest, &quoted))) {
        int64_t at = r->rows * r->columns + columns;

        if (strlen(field) > LONGEST_FIELD)
            return bad(r, "a field is too long");
        if (!make_room(r, at))
            return false;
        if (quoted || !parse_number(field, r->format, r->data + at * r->format.size)) {
            if (r->rows > 0 || r->columns > 0) {
                complain("%s: line %" PRId64 ": \"%s\" is %s", r->path, r->line, field,
                         quoted ? "text" : "no number");
                return false;
            }
            words++;
        }
        columns++;
        if (r->rows && columns > r->columns)
            break;
    }
    if (columns == 0)
        return true;
    if (words) {        /* the names of columns */
        r->columns = columns;
        return true;
    }
    if (r->columns && columns != r->columns) {
        complain("%s: line %" PRId64 ": %s than the %" PRId64 " numbers of the lines before",
                 r->path, r->line, columns > r->columns ? "more" : "fewer", r->columns);
        return false;
    }
    r->columns = columns;
    r->rows++;
    return true;
}

bool csv_read(FILE *f, const char *path, bool wide, struct array *a)
{
    struct reader r = { .path = path,
                        .format = format_of(wide ? "f128" : "f64"),
                        .most = memory_here() };
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    bool ok = true;

    while (ok && (n = getline(&line, &size, f)) >= 0) {
        r.line++;
        ok = strlen(line) == (size_t)n ? read_line(&r, line) : bad(&r, "no text");
    }
    free(line);
    if (ok && r.rows == 0)
        ok = (complain("%s: no numbers", path), false);
    a->format = r.format;
    a->rank = 2;
    a->dim[0] = r.rows;
    a->dim[1] = r.columns;
    a->data = r.data;
    return ok;
}

bool csv_write(FILE *f, const char *path, const struct array *a)
{
    const char *at = a->data;
    bool ok = true;

    if (a->rank != 2 || a->pairs)
        return complain("%s: CSV holds matrices of real numbers", path), false;
    for (int64_t i = 0; ok && i < a->dim[0]; i++)
        for (int64_t j = 0; ok && j < a->dim[1]; j++, at += a->format.size)
            ok = write_number(f, a->format, at) && fputc(j + 1 < a->dim[1] ? ',' : '\n', f) != EOF;
    return ok || (complain("%s: writing failed", path), false);
}
