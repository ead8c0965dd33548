/* SPDX-License-Identifier: BSD-3-Clause
 * Matrix Market files: array and coordinate; real, complex, integer and pattern; general,
 * symmetric, skew-symmetric and Hermitian.  Source: Boisvert, Pozo, Remington, NISTIR 5935
 * (1996). */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <gmp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SPARSE_SHARE = 8
    /* a coordinate file is refused if its full matrix exceeds 1 / SPARSE_SHARE of the memory */
};

/* The state while a Matrix Market file is read, and what its first line says. */
struct reader {
    FILE *f;
    const char *path;
    long line;
    char text[2400];
    /* [element]: a bit that is set if a line of a coordinate file gave the element; owned */
    unsigned char *given;
    bool coordinate, integer, complex, pattern, symmetric, skew, hermitian;
};

static bool report_error(const struct reader *r, const char *what)
{
    complain("%s: line %ld: %s", r->path, r->line, what);
    return false;
}

/* Reads the next line that is neither empty nor a comment.  *end: true if there is no such line. */
static bool find_line(struct reader *r, bool *end)
{
    for (*end = false; fgets(r->text, sizeof r->text, r->f);) {
        size_t n = strlen(r->text);

        r->line++;
        if (n == sizeof r->text - 1 && r->text[n - 1] != '\n')
            return report_error(r, "the line is too long");
        if (r->text[strspn(r->text, " \t\r\n")] && r->text[0] != '%')
            return true;
    }
    *end = true;
    return true;
}

static bool next_line(struct reader *r)
{
    bool end;

    return find_line(r, &end) && (!end || report_error(r, "the file ends too early"));
}

/* Reads the first line, which tells layout, kind of numbers and symmetry.  On failure prints a
 * message and returns false. */
static bool read_banner(struct reader *r)
{
    char object[64], layout[64], field[64], symmetry[64];

    r->line = 1;
    if (!fgets(r->text, sizeof r->text, r->f) ||
        sscanf(r->text, "%%%%MatrixMarket %63s %63s %63s %63s", object, layout, field, symmetry) !=
            4 ||
        strcasecmp(object, "matrix"))
        return report_error(r, "expected \"%%MatrixMarket matrix LAYOUT FIELD SYMMETRY\"");
    r->coordinate = strcasecmp(layout, "coordinate") == 0;
    r->integer = strcasecmp(field, "integer") == 0;
    r->complex = strcasecmp(field, "complex") == 0;
    r->pattern = strcasecmp(field, "pattern") == 0;
    r->skew = strcasecmp(symmetry, "skew-symmetric") == 0;
    r->hermitian = strcasecmp(symmetry, "hermitian") == 0;
    r->symmetric = r->skew || r->hermitian || strcasecmp(symmetry, "symmetric") == 0;
    if (!r->coordinate && strcasecmp(layout, "array"))
        return report_error(r, "the layout is neither array nor coordinate");
    if (!r->integer && !r->pattern && !r->complex && strcasecmp(field, "real") &&
        strcasecmp(field, "double"))
        return report_error(r, "the field is not real, complex, integer or pattern");
    if (!r->symmetric && strcasecmp(symmetry, "general"))
        return report_error(r,
                            "the symmetry is not general, symmetric, skew-symmetric or Hermitian");
    if (r->hermitian && !r->complex)
        return report_error(r, "a Hermitian matrix has complex numbers");
    return !(r->pattern && !r->coordinate) || report_error(r, "a pattern has no array layout");
}

/* Reads the line with the sizes of a Matrix Market file: rows, columns and, if it is sparse,
 * entries. */
static bool read_sizes(struct reader *r, int64_t v[3])
{
    int n = r->coordinate ? 3 : 2, at = 0, used;

    if (!next_line(r))
        return false;
    for (int i = 0; i < n; i++, at += used)
        if (sscanf(r->text + at, "%" SCNd64 "%n", &v[i], &used) != 1 || v[i] < 0 ||
            v[i] > (int64_t)1 << 40)
            return report_error(r, "the sizes are not understood");
    if (r->text[at + (int)strspn(r->text + at, " \t\r\n")])
        return report_error(r, r->coordinate ? "expected three sizes" : "expected two sizes");
    if (r->symmetric && v[0] != v[1])
        return report_error(r, "a symmetric matrix is square");
    return true;
}

static bool report_value(const struct reader *r, const char *token, const char *what)
{
    complain("%s: line %ld: %s %s", r->path, r->line, token, what);
    return false;
}

/* Refuses integers that binary128 cannot hold exactly. */
static bool check_integer(const struct reader *r, const char *token)
{
    mpz_t z;
    bool fits, number;

    mpz_init(z);
    number = mpz_set_str(z, token + (*token == '+'), 10) == 0;
    fits = !number || mpz_sgn(z) == 0 || mpz_sizeinbase(z, 2) - mpz_scan1(z, 0) <= 113;
    mpz_clear(z);
    if (!number)
        return report_error(r, "expected an integer");
    return fits || report_value(r, token, "has more bits than the 113 of binary128");
}

/* Stores an integer, and in a skew-symmetric matrix its negative at `mirror`. */
static bool set_integer(const struct reader *r, const char *token, int64_t *at, int64_t *mirror)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(token, &end, 10);
    if (end == token || *end)
        return report_error(r, "expected an integer");
    if (errno == ERANGE)
        return report_value(r, token, "does not fit 64 bits; --as f128 holds 113");
    if (mirror && r->skew && v == INT64_MIN)
        return report_value(r, token, "has no negative of 64 bits; --as f128 holds it");
    memcpy(at, &v, sizeof v);
    if (mirror) {
        v = r->skew ? -v : v;
        memcpy(mirror, &v, sizeof v);
    }
    return true;
}

/* Text of an element: real and imaginary part. */
struct tokens {
    char re[1100], im[1100];
};

/* Stores an element at (i, j), and in a symmetric matrix its mirror image, too. */
static bool set_element(struct reader *r, struct array *a, const struct tokens *t, int64_t i,
                        int64_t j)
{
    int size = a->format.size, whole = (int)array_step(a);
    char *at = (char *)a->data + (i * a->dim[1] + j) * whole;
    char *mirror = (char *)a->data + (j * a->dim[1] + i) * whole;
    const char *token = r->pattern ? "1" : t->re;

    if (a->format.kind == LIMBER_KIND_INT)
        return set_integer(r, token, (void *)at, r->symmetric && i != j ? (void *)mirror : NULL);
    if (r->integer && !check_integer(r, token))
        return false;
    if (!parse_number(token, a->format, at) ||
        (a->pairs && !parse_number(t->im, a->format, at + size)))
        return report_error(r, "expected a number");
    if (r->symmetric && i != j) {
        memcpy(mirror, at, (size_t)whole);
        if (r->skew)
            mirror[size - 1] ^= (char)0x80;
        if (a->pairs && (r->skew || r->hermitian))
            mirror[whole - 1] ^= (char)0x80;
    }
    return true;
}

/* True if no earlier line gave the element or its mirror image.  Duplicates are refused, since
 * programs differ: some add them, with a rounding, others replace. */
static bool is_first(struct reader *r, const struct array *a, int64_t i, int64_t j)
{
    int64_t at = r->symmetric && i < j ? j * a->dim[1] + i : i * a->dim[1] + j;
    unsigned char bit = (unsigned char)(1 << at % 8);

    if (r->given[at / 8] & bit) {
        complain("%s: line %ld: row %" PRId64 ", column %" PRId64 " has a value already%s", r->path,
                 r->line, i + 1, j + 1, r->symmetric ? ", or its mirror image" : "");
        return false;
    }
    r->given[at / 8] |= bit;
    return true;
}

/* Reads `count` lines "row column value" of a coordinate file. */
static bool read_entries(struct reader *r, struct array *a, int64_t count)
{
    for (int64_t e = 0; e < count; e++) {
        long long i, j;
        struct tokens t;
        char more;

        if (!next_line(r))
            return false;
        if (sscanf(r->text, "%lld %lld %1099s %1099s %c", &i, &j, t.re, t.im, &more) !=
            (r->pattern ? 2 :
             r->complex ? 4 :
                          3))
            return report_error(r, r->pattern ? "expected row and column" :
                                   r->complex ? "expected row, column and two values" :
                                                "expected row, column and one value");
        if (i < 1 || i > a->dim[0] || j < 1 || j > a->dim[1])
            return report_error(r, "an index lies outside the matrix");
        if (!is_first(r, a, i - 1, j - 1) || !set_element(r, a, &t, i - 1, j - 1))
            return false;
    }
    return true;
}

/* Reads the elements of an array file, which are column-major.  Of a symmetric matrix the file has
 * the lower triangle only. */
static bool read_columns(struct reader *r, struct array *a)
{
    /* a matrix without rows may have any number of columns */
    for (int64_t j = 0; a->dim[0] > 0 && j < a->dim[1]; j++)
        for (int64_t i = r->symmetric ? j + r->skew : 0; i < a->dim[0]; i++) {
            struct tokens t;
            char more;

            if (!next_line(r))
                return false;
            if (r->complex ? sscanf(r->text, "%1099s %1099s %c", t.re, t.im, &more) != 2 :
                             sscanf(r->text, "%1099s %c", t.re, &more) != 1)
                return report_error(r, r->complex ? "expected two values a line" :
                                                    "expected one value a line");
            if (!set_element(r, a, &t, i, j))
                return false;
        }
    return true;
}

/* Reads a Matrix Market file; wide: as binary128.  On failure prints a message and returns
 * false. */
bool mtx_read(FILE *f, const char *path, bool wide, struct array *a)
{
    struct reader r = { .f = f, .path = path };
    int64_t v[3] = { 0 }, left, count, claimed;
    bool ok, end;

    if (!read_banner(&r) || !read_sizes(&r, v))
        return false;
    a->format = format_of(r.integer && !wide ? "i64" : wide ? "f128" : "f64");
    a->pairs = r.complex;
    a->rank = 2;
    a->dim[0] = v[0];
    a->dim[1] = v[1];
    /* a coordinate file omits zeros, so a short file may claim any size */
    if (!array_check_size(a, path, memory_here() / (r.coordinate ? SPARSE_SHARE : 1), &count))
        return false;
    left = bytes_left(f);
    claimed = r.coordinate ? v[2] : r.symmetric ? count / 2 - v[0] / 2 : count;
    /* A line takes at least two bytes, so the file's size limits the number of entries. */
    if (left >= 0 && claimed > left)
        return report_error(&r, "more entries are claimed than the file can hold");
    if (!array_alloc(a, path))
        return false;
    if (r.coordinate && !(r.given = calloc((size_t)count / 8 + 1, 1)))
        return report_error(&r, "out of memory");
    ok = r.coordinate ? read_entries(&r, a, v[2]) : read_columns(&r, a);
    free(r.given);
    return ok && find_line(&r, &end) &&
           (end || report_error(&r, "more values than the sizes claim"));
}

/* ---- writing a .mtx file --------------------------------------------------------------------- */

/* Writes a matrix as a Matrix Market file in array layout.  On failure prints a message and returns
 * false. */
bool mtx_write(FILE *f, const char *path, const struct array *a)
{
    bool integer = a->format.kind == LIMBER_KIND_INT || a->format.kind == LIMBER_KIND_UINT;
    bool ok;

    if (a->rank != 2) {
        complain("%s: Matrix Market holds matrices, this has %d dimensions", path, a->rank);
        return false;
    }
    ok = fprintf(f, "%%%%MatrixMarket matrix array %s general\n%lld %lld\n",
                 integer  ? "integer" :
                 a->pairs ? "complex" :
                            "real",
                 (long long)a->dim[0], (long long)a->dim[1]) > 0;
    for (int64_t j = 0; ok && a->dim[0] > 0 && j < a->dim[1]; j++)
        for (int64_t i = 0; ok && i < a->dim[0]; i++) {
            const char *at = (const char *)a->data + (i * a->dim[1] + j) * array_step(a);

            ok = write_number(f, a->format, at) &&
                 (!a->pairs ||
                  (fputc(' ', f) != EOF && write_number(f, a->format, at + a->format.size))) &&
                 fputc('\n', f) != EOF;
        }
    if (!ok)
        complain("%s: writing failed", path);
    return ok;
}
