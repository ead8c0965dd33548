/* SPDX-License-Identifier: BSD-3-Clause
 * NumPy's .npy files, versions 1 to 3.  Source: NumPy's enhancement proposal 1 and
 * numpy.lib.format. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The header of a .npy file. */
struct header {
    char descr[16];
    bool fortran;
    int rank;
    int64_t dim[MOST_AXES];
};

static bool report_error(const char *path, const char *what)
{
    complain("%s: %s", path, what);
    return false;
}

/* Returns the text after 'key': in the dictionary of the header; NULL if the key is absent. */
static const char *find_field(const char *dict, const char *key)
{
    const char *s = strstr(dict, key);

    if (!s)
        return NULL;
    s += strlen(key);
    while (*s == '\'' || *s == '"' || *s == ' ' || *s == ':') {
        if (*s == ':') {
            s++;
            while (*s == ' ')
                s++;
            return s;
        }
        s++;
    }
    return NULL;
}

/* Reads a shape such as "(2, 3)". */
static bool parse_shape(const char *s, struct header *h)
{
    if (*s++ != '(')
        return false;
    for (;;) {
        char *end;

        while (*s == ' ' || *s == ',')
            s++;
        if (*s == ')')
            return true;
        if (h->rank == MOST_AXES || !isdigit((unsigned char)*s))
            return false;
        h->dim[h->rank] = strtoll(s, &end, 10);
        if (end == s || h->dim[h->rank] < 0 || h->dim[h->rank] > (int64_t)1 << 48)
            return false;
        h->rank++;
        s = end;
    }
}

/* Reads type, order and shape from the header's dictionary. */
static bool parse_header(const char *dict, const char *path, struct header *h)
{
    const char *descr = find_field(dict, "descr"), *order = find_field(dict, "fortran_order");
    const char *shape = find_field(dict, "shape");
    size_t n;

    memset(h, 0, sizeof *h);
    if (!descr || !order || !shape)
        return report_error(path, "the .npy header lacks descr, fortran_order or shape");
    if (*descr != '\'' && *descr != '"')
        return report_error(path, "structured .npy types are not numbers");
    n = strcspn(descr + 1, "'\"");
    if (n >= sizeof h->descr)
        return report_error(path, "the .npy type is not understood");
    memcpy(h->descr, descr + 1, n);
    if (strncmp(order, "True", 4) && strncmp(order, "False", 5))
        return report_error(path, "fortran_order is neither True nor False");
    h->fortran = *order == 'T';
    return parse_shape(shape, h) || report_error(path, "the shape is not one to five sizes");
}

/* Reads the header of a .npy file. */
static bool read_header(FILE *f, const char *path, struct header *h)
{
    unsigned char head[12];
    size_t length, at = 10;
    char *dict;
    bool ok;

    if (fread(head, 1, 10, f) != 10)
        return report_error(path, "the .npy header is cut short");
    length = head[8] | (size_t)head[9] << 8;
    if (head[6] >= 2) {
        if (fread(head + 10, 1, 2, f) != 2)
            return report_error(path, "the .npy header is cut short");
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
        at = 12;
    }
    (void)at;
    if (head[6] < 1 || head[6] > 3)
        return report_error(path, "an unknown version of .npy");
    if (length > 1 << 20)
        return report_error(path, "the .npy header is implausibly long");
    dict = calloc(length + 1, 1);
    if (!dict)
        return report_error(path, "out of memory");
    ok = fread(dict, 1, length, f) == length || report_error(path, "the .npy header is cut short");
    ok = ok && parse_header(dict, path, h);
    free(dict);
    return ok;
}

/* A type of NumPy, and the format as which it is read. */
static const struct type {
    const char *code;   /* NumPy's code, without the byte order */
    int size;
    const char *format;
    bool widens; /* true for unsigned integers, which are read as signed ones of twice the size */
    bool pairs; /* true for complex numbers; size and format are those of the real part */
} types[] = {
    { "b1", 1, "u8", false, false },  { "u1", 1, "u8", false, false },
    { "i1", 1, "i8", false, false },  { "i2", 2, "i16", false, false },
    { "i4", 4, "i32", false, false }, { "i8", 8, "i64", false, false },
    { "u2", 2, "i32", true, false },  { "u4", 4, "i64", true, false },
    { "u8", 8, "i64", true, false },  { "f2", 2, "f16", false, false },
    { "f4", 4, "f32", false, false }, { "f8", 8, "f64", false, false },
    { "c8", 4, "f32", false, true },  { "c16", 8, "f64", false, true },
    { "V1", 1, "u8", false, false },  { "V2", 2, "i16", false, false },
};

/* Returns the type of elements that npy's `descr` names.  NULL, after a message, if it is not
 * supported. */
static const struct type *find_type(const char *descr, const char *path)
{
    const char *code = descr + (strchr("<>|=", descr[0]) != NULL);

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].code, code) == 0)
            return &types[i];
    if (strncmp(code, "f1", 2) == 0 || strncmp(code, "c2", 2) == 0 || strncmp(code, "c3", 2) == 0)
        complain("%s: type %s is the compiler's long double, not binary128; use .mtx", path, descr);
    else
        complain("%s: type %s is not numeric", path, descr);
    return NULL;
}

/* Stores a number of the file as number `at` of the array, with its bytes swapped if necessary. */
static bool store_number(const struct type *t, bool swap, const unsigned char *in, struct array *a,
                         int64_t at)
{
    unsigned char b[8] = { 0 };
    uint64_t v;

    for (int i = 0; i < t->size; i++)
        b[i] = in[swap ? t->size - 1 - i : i];
    memcpy(&v, b, 8);
    if (t->widens && v > INT64_MAX)
        return false;
    memcpy((char *)a->data + at * a->format.size, t->widens ? (const void *)&v : b, a->format.size);
    return true;
}

/* Reads a .npy file into a row-major array.  On failure prints a message and returns false. */
bool npy_read(FILE *f, const char *path, struct array *a)
{
    struct header h;
    const struct type *t;
    int64_t count, left;
    unsigned char in[8];
    int parts;
    bool swap;

    if (!read_header(f, path, &h) || !(t = find_type(h.descr, path)))
        return false;
    swap = h.descr[0] == '>';
    parts = t->pairs ? 2 : 1;
    a->format = format_of(t->format);
    a->pairs = t->pairs;
    a->unnamed = t->code[0] == 'V';
    a->rank = h.rank ? h.rank : 1;
    memcpy(a->dim, h.dim, sizeof a->dim);
    if (h.rank == 0)
        a->dim[0] = 1;
    if (!array_check_size(a, path, memory_here(), &count))
        return false;
    left = bytes_left(f);
    if (left >= 0 && left / (t->size * parts) < count) {
        complain("%s: %lld elements are claimed, %lld are there", path, (long long)count,
                 (long long)(left / (t->size * parts)));
        return false;
    }
    if (!array_alloc(a, path))
        return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i;

        if (h.fortran) {        /* the first index varies fastest in the file */
            int64_t rest = i, stride[MOST_AXES], step = 1;

            for (int d = a->rank; d-- > 0;) {
                stride[d] = step;
                step *= a->dim[d];
            }
            at = 0;
            for (int d = 0; d < a->rank; d++) {
                at += rest % a->dim[d] * stride[d];
                rest /= a->dim[d];
            }
        }
        for (int part = 0; part < parts; part++) {
            if (fread(in, 1, (size_t)t->size, f) != (size_t)t->size)
                return report_error(path, "the data is cut short");
            if (!store_number(t, swap, in, a, at * parts + part))
                return report_error(path, "an unsigned value exceeds 2^63 - 1");
        }
    }
    return true;
}

/* Returns npy's name for a format (pairs: of complex numbers); NULL if npy has none. */
static const char *descr_of(limber_format f, bool pairs)
{
    static const char *const codes[][2] = {
        { "f16", "<f2" }, { "f32", "<f4" }, { "f64", "<f8" }, { "u8", "|u1" },   { "i8", "|i1" },
        { "i16", "<i2" }, { "i32", "<i4" }, { "i64", "<i8" }, { "tf32", "<f4" },
    };

    if (pairs)
        return limber_format_equal(f, format_of("f32")) ? "<c8" :
               limber_format_equal(f, format_of("f64")) ? "<c16" :
                                                          NULL;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (limber_format_equal(f, format_of(codes[i][0])))
            return codes[i][1];
    return f.carried ? (f.size == 4 ? "<f4" : "<f8") : NULL;
}

/* Writes an array as a .npy file.  On failure prints a message and returns false. */
bool npy_write(FILE *f, const char *path, const struct array *a)
{
    const char *descr = descr_of(a->format, a->pairs);
    char dict[256], shape[100] = "";
    size_t length;
    int n = 0;

    if (!descr)
        return report_error(path, ".npy has no type for this format; write .mtx, or choose --as");
    for (int i = 0; i < a->rank; i++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, "%lld, ", (long long)a->dim[i]);
    length =
        (size_t)snprintf(dict, sizeof dict,
                         "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    while ((10 + length + 1) % 64)
        dict[length++] = ' ';
    dict[length++] = '\n';
    if (fwrite("\x93NUMPY\x01\x00", 1, 8, f) != 8 || fputc((int)(length & 255), f) == EOF ||
        fputc((int)(length >> 8), f) == EOF || fwrite(dict, 1, length, f) != length ||
        fwrite(a->data, (size_t)array_step(a), (size_t)array_size(a), f) != (size_t)array_size(a))
        return report_error(path, "writing failed");
    return true;
}
