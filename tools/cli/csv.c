/* SPDX-License-Identifier: BSD-3-Clause
 * Comma-separated values: one line for each row of the matrix.  The separator is the same in all of
 * a file: commas, semicolons, tabs or spaces.  A first line without numbers names columns; # begins
 * a comment.  Ambiguous lines are refused: a decimal comma or a missing value could shift
 * columns. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_FIELD = 1100 };

/* The state while a text file of numbers is read. */
struct reader {
    const char *path;
    limber_format format;
    char *data;
    int64_t line, rows, columns, room; /* room: how many numbers `data` can hold */
    int64_t most;                      /* most bytes that `data` may take */
    char separator;                    /* 0 as long as it is unknown */
};

static bool report_error(const struct reader *r, const char *what)
{
    complain("%s: line %" PRId64 ": %s", r->path, r->line, what);
    return false;
}

static bool report_field(const struct reader *r, int64_t field, const char *text, const char *what)
{
    complain("%s: line %" PRId64 ", field %" PRId64 ": \"%s\" %s", r->path, r->line, field + 1,
             text, what);
    return false;
}

/* Enlarges the array, if necessary, so that it has room for the element with index `at`, which is
 * at most the present room. */
static bool make_room(struct reader *r, int64_t at)
{
    int64_t room = r->room ? r->room * 2 : 1024;
    char *grown;

    if (at < r->room)
        return true;
    if (room > r->most / r->format.size)
        return report_error(r, "the array is larger than memory");
    grown = realloc(r->data, (size_t)(room * r->format.size) + 16);
    if (!grown)
        return report_error(r, "out of memory");
    r->data = grown;
    r->room = room;
    return true;
}

/* Finds the first of the separators that is outside quotes, or the end of the text. */
static char *find_separator(char *s, const char *separators)
{
    for (bool quoted = false; *s && (quoted || !strchr(separators, *s)); s++)
        quoted ^= *s == '"';
    return s;
}

/* Finds the file's separator in a line.  Spaces separate only if no other separator occurs.  In a
 * line with one field the separator remains unknown. */
static bool find_line_separator(struct reader *r, char *text)
{
    char *at = find_separator(text, ",;\t"), *other = at;

    while (*other == *at && *at)
        other = find_separator(other + 1, ",;\t");
    if (!*at)
        at = find_separator(text, " ");
    if (*other || (r->separator && *at && *at != ' ' && *at != r->separator))
        return report_error(
            r, "two kinds of separator in one file (commas, semicolons, tabs or spaces); a "
               "decimal comma is not read");
    if (*at && !r->separator)
        r->separator = *at;
    return true;
}

/* Returns the next field without spaces around it; NULL at the end of the line, which may be a
 * separator. */
static char *next_field(char **rest, char separator)
{
    char *s = *rest + strspn(*rest, " "), *end;
    const char only[] = { separator, 0 };

    if (!*s)
        return NULL;
    end = find_separator(s, only);
    *rest = end + (*end != 0);
    while (end > s && end[-1] == ' ')
        end--;
    *end = 0;
    return s;
}

/* True if a field without a number may be a column's name, not a missing value or a misspelt
 * number. */
static bool is_name(const char *field)
{
    static const char *const missing[] = { "NA", "N/A", "NULL", "null", "None" };

    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (!strcmp(field, missing[i]))
            return false;
    return *field && !strchr("0123456789+-.", *field);
}

/* If the line may have column names, accepts a field without a number.  Else prints a message and
 * returns false. */
static bool check_name(const struct reader *r, int64_t column, const char *field)
{
    if (r->rows || r->columns)
        return report_field(r, column, field, *field == '"' ? "is text" : "is no number");
    return is_name(field) ||
           report_field(r, column, field, "is no number; the name of a column stands in quotes");
}

/* Reads the numbers of a line, and ignores a first line of names.  On failure prints a message and
 * returns false. */
static bool read_line(struct reader *r, char *text)
{
    int64_t columns = 0, names = 0;
    char *rest = text, *field, *first = text;

    text[strcspn(text, "#")] = 0;
    for (size_t n = strlen(text); n && strchr(" \t\r\n", text[n - 1]); n--)
        text[n - 1] = 0;
    if (!find_line_separator(r, text))
        return false;
    while ((field = next_field(&rest, r->separator))) {
        int64_t at = r->rows * r->columns + columns;

        if (strlen(field) > LONGEST_FIELD)
            return report_error(r, "a field is too long");
        if (!make_room(r, at))
            return false;
        if (*field == '"' || !parse_number(field, r->format, r->data + at * r->format.size)) {
            if (!check_name(r, columns, field))
                return false;
            first = names++ ? first : field;
        }
        columns++;
        if (names && names < columns)
            return report_field(r, first == field ? columns - 1 : 0, first,
                                "is no number, and other fields of the first line are");
        if (r->rows && columns > r->columns)
            break;
    }
    if (columns == 0)
        return true;
    if (names) {
        r->columns = columns;
        return true;
    }
    if (r->columns && columns != r->columns) {
        complain("%s: line %" PRId64 ": %s than the %" PRId64 " fields of the lines before",
                 r->path, r->line, columns > r->columns ? "more" : "fewer", r->columns);
        return false;
    }
    r->columns = columns;
    r->rows++;
    return true;
}

/* Reads a file of decimal numbers as a matrix; wide: as binary128.  On failure prints a message and
 * returns false. */
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
        ok = strlen(line) == (size_t)n ? read_line(&r, line) : report_error(&r, "no text");
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
