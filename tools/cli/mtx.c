/* SPDX-License-Identifier: BSD-3-Clause
 * Matrix Market: array and coordinate; real, integer, pattern; general, symmetric and
 * skew-symmetric.  Source: Boisvert, Pozo, Remington, NISTIR 5935 (1996). */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SPARSE_SHARE = 8
};  /* the dense form of a sparse matrix takes at most this part of the memory */

struct reader {
    FILE *f;
    const char *path;
    long line;
    char text[1200];
    bool coordinate, integer, pattern, symmetric, skew;
};

static bool bad(const struct reader *r, const char *what)
{
    complain("%s: line %ld: %s", r->path, r->line, what);
    return false;
}

/* The next line that is neither empty nor a comment. */
static bool next_line(struct reader *r)
{
    while (fgets(r->text, sizeof r->text, r->f)) {
        size_t n = strlen(r->text);

        r->line++;
        if (n == sizeof r->text - 1 && r->text[n - 1] != '\n')
            return bad(r, "the line is too long");
        if (strlen(r->text) == strspn(r->text, " \t\r\n") || r->text[0] == '%')
            continue;
        return true;
    }
    return bad(r, "the file ends too early");
}

static bool banner(struct reader *r)
{
    char object[64], layout[64], field[64], symmetry[64];

    if (!fgets(r->text, sizeof r->text, r->f) ||
        sscanf(r->text, "%%%%MatrixMarket %63s %63s %63s %63s", object, layout, field, symmetry) !=
            4 ||
        strcasecmp(object, "matrix"))
        return bad(r, "expected \"%%MatrixMarket matrix LAYOUT FIELD SYMMETRY\"");
    r->line = 1;
    r->coordinate = strcasecmp(layout, "coordinate") == 0;
    r->integer = strcasecmp(field, "integer") == 0;
    r->pattern = strcasecmp(field, "pattern") == 0;
    r->skew = strcasecmp(symmetry, "skew-symmetric") == 0;
    r->symmetric = r->skew || strcasecmp(symmetry, "symmetric") == 0;
    if (!r->coordinate && strcasecmp(layout, "array"))
        return bad(r, "the layout is neither array nor coordinate");
    if (!r->integer && !r->pattern && strcasecmp(field, "real") && strcasecmp(field, "double"))
        return bad(r, "the field is not real, integer or pattern");
    if (!r->symmetric && strcasecmp(symmetry, "general"))
        return bad(r, "the symmetry is not general, symmetric or skew-symmetric");
    return !(r->pattern && !r->coordinate) || bad(r, "a pattern has no array layout");
}

static bool sizes(struct reader *r, int64_t v[3])
{
    int n = r->coordinate ? 3 : 2, at = 0, used;

    if (!next_line(r))
        return false;
    for (int i = 0; i < n; i++, at += used)
        if (sscanf(r->text + at, "%" SCNd64 "%n", &v[i], &used) != 1 || v[i] < 0 ||
            v[i] > (int64_t)1 << 40)
            return bad(r, "the sizes are not understood");
    if (r->symmetric && v[0] != v[1])
        return bad(r, "a symmetric matrix is square");
    return true;
}

static bool bad_value(const struct reader *r, const char *token, const char *what)
{
    complain("%s: line %ld: %s %s", r->path, r->line, token, what);
    return false;
}

/* All digits of an integer are meant, so none may be lost. */
static bool check_integer(const struct reader *r, const char *token)
{
    mpz_t z;
    bool fits, number;

    mpz_init(z);
    number = mpz_set_str(z, token + (*token == '+'), 10) == 0;
    fits = !number || mpz_sgn(z) == 0 || mpz_sizeinbase(z, 2) - mpz_scan1(z, 0) <= 113;
    mpz_clear(z);
    if (!number)
        return bad(r, "expected an integer");
    return fits || bad_value(r, token, "has more bits than the 113 of binary128");
}

static bool set_integer(const struct reader *r, const char *token, int64_t *at, int64_t *mirror)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(token, &end, 10);
    if (end == token || *end)
        return bad(r, "expected an integer");
    if (errno == ERANGE)
        return bad_value(r, token, "does not fit 64 bits; --as f128 holds 113");
    if (mirror && r->skew && v == INT64_MIN)
        return bad_value(r, token, "has no negative of 64 bits; --as f128 holds it");
    memcpy(at, &v, sizeof v);
    if (mirror) {
        v = r->skew ? -v : v;
        memcpy(mirror, &v, sizeof v);
    }
    return true;
}

/* Reads one element's text into the array at (i, j), and its mirror image. */
static bool set(struct reader *r, struct array *a, const char *token, int64_t i, int64_t j)
{
    int size = a->format.size;
    char *at = (char *)a->data + (i * a->dim[1] + j) * size;
    char *mirror = (char *)a->data + (j * a->dim[1] + i) * size;

    if (r->pattern)
        token = "1";
    if (a->format.kind == LIMBER_KIND_INT)
        return set_integer(r, token, (void *)at, r->symmetric && i != j ? (void *)mirror : NULL);
    if (r->integer && !check_integer(r, token))
        return false;
    if (!parse_number(token, a->format, at))
        return bad(r, "expected a number");
    if (r->symmetric && i != j) {
        memcpy(mirror, at, (size_t)size);
        if (r->skew)
            mirror[size - 1] ^= (char)0x80;
    }
    return true;
}

static bool entries(struct reader *r, struct array *a, int64_t count)
{
    for (int64_t e = 0; e < count; e++) {
        long long i, j;
        char token[1100] = "1";
        int n;

        if (!next_line(r))
            return false;
        n = sscanf(r->text, "%lld %lld %1099s", &i, &j, token);
        if (n < (r->pattern ? 2 : 3))
            return bad(r, "expected row, column and value");
        if (i < 1 || i > a->dim[0] || j < 1 || j > a->dim[1])
            return bad(r, "an index lies outside the matrix");
        if (!set(r, a, token, i - 1, j - 1))
            return false;
    }
    return true;
}

/* Columns one after the other; a symmetric matrix gives its lower triangle. */
static bool columns(struct reader *r, struct array *a)
{
    for (int64_t j = 0; a->dim[0] > 0 && j < a->dim[1]; j++)    /* empty columns may be many */
        for (int64_t i = r->symmetric ? j + r->skew : 0; i < a->dim[0]; i++) {
            char token[1100], more;

            if (!next_line(r))
                return false;
            if (sscanf(r->text, "%1099s %c", token, &more) != 1)
                return bad(r, "expected one value a line");
            if (!set(r, a, token, i, j))
                return false;
        }
    return true;
}

bool mtx_read(FILE *f, const char *path, bool wide, struct array *a)
{
    struct reader r = { .f = f, .path = path };
    int64_t v[3] = { 0 }, left, count, claimed;

    if (!banner(&r) || !sizes(&r, v))
        return false;
    a->format = format_of(r.integer && !wide ? "i64" : wide ? "f128" : "f64");
    a->rank = 2;
    a->dim[0] = v[0];
    a->dim[1] = v[1];
    /* a coordinate file may leave out any number of zeros */
    if (!array_claims(a, path, memory_here() / (r.coordinate ? SPARSE_SHARE : 1), &count))
        return false;
    left = bytes_left(f);
    claimed = r.coordinate ? v[2] : r.symmetric ? count / 2 - v[0] / 2 : count;
    /* an entry takes at least two bytes, so a size that the file cannot hold is not believed */
    if (left >= 0 && claimed > left)
        return bad(&r, "more entries are claimed than the file can hold");
    if (!array_alloc(a, path))
        return false;
    return r.coordinate ? entries(&r, a, v[2]) : columns(&r, a);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* One element with so many digits that it reads back the same. */
static bool write_element(FILE *f, limber_format fmt, const char *p)
{
    double d, part[2];
    int64_t v;
    mpfr_t x;
    int n;

    if (fmt.kind == LIMBER_KIND_INT || fmt.kind == LIMBER_KIND_UINT) {
        limber_convert(&v, format_of("i64"), p, fmt, 1, LIMBER_ROUND_NEAREST);
        return fprintf(f, "%" PRId64 "\n", v) > 0;
    }
    if (fmt.kind == LIMBER_KIND_FLOAT && fmt.size < 16) {
        limber_convert(&d, format_of("f64"), p, fmt, 1, LIMBER_ROUND_NEAREST);
        return fprintf(f, "%.17g\n", d) > 0;
    }
    mpfr_init2(x, 2200);
    if (fmt.kind == LIMBER_KIND_DD) {
        memcpy(part, p, 16);
        mpfr_set_d(x, part[0], MPFR_RNDN);
        mpfr_add_d(x, x, isfinite(part[0]) ? part[1] : 0, MPFR_RNDN);
    } else {
        uint64_t low, high;

        memcpy(&low, p, 8);
        memcpy(&high, p + 8, 8);
        n = (int)(high >> 48 & 0x7fff);
        mpfr_set_uj(x, (high & 0xffffffffffff) | (n ? (uintmax_t)1 << 48 : 0), MPFR_RNDN);
        mpfr_mul_2si(x, x, 64, MPFR_RNDN);
        {
            mpfr_t t;

            mpfr_init2(t, 64);
            mpfr_set_uj(t, low, MPFR_RNDN);
            mpfr_add(x, x, t, MPFR_RNDN);
            mpfr_clear(t);
        }
        mpfr_mul_2si(x, x, (n ? n : 1) - 16383 - 112, MPFR_RNDN);
        if (n == 0x7fff && ((high & 0xffffffffffff) || low))
            mpfr_set_nan(x);
        else if (n == 0x7fff)
            mpfr_set_inf(x, 1);
        if (high >> 63)
            mpfr_neg(x, x, MPFR_RNDN);
    }
    n = mpfr_fprintf(f, "%.35Re\n", x);
    mpfr_clear(x);
    return n > 0;
}

bool mtx_write(FILE *f, const char *path, const struct array *a)
{
    bool integer = a->format.kind == LIMBER_KIND_INT || a->format.kind == LIMBER_KIND_UINT;
    bool ok;

    if (a->rank != 2) {
        complain("%s: Matrix Market holds matrices, this has %d dimensions", path, a->rank);
        return false;
    }
    ok = fprintf(f, "%%%%MatrixMarket matrix array %s general\n%lld %lld\n",
                 integer ? "integer" : "real", (long long)a->dim[0], (long long)a->dim[1]) > 0;
    for (int64_t j = 0; ok && a->dim[0] > 0 && j < a->dim[1]; j++)
        for (int64_t i = 0; ok && i < a->dim[0]; i++)
            ok = write_element(f, a->format,
                               (const char *)a->data + (i * a->dim[1] + j) * a->format.size);
    if (!ok)
        complain("%s: writing failed", path);
    return ok;
}
