/* SPDX-License-Identifier: BSD-3-Clause
 * Writes the operands of products to a folder, as .npy files, and a line of JSON for each product,
 * up to a limit of bytes.  Incomplete files are never visible, and lines name only files that
 * exist. */
#define _GNU_SOURCE     /* asprintf */
#include "capture.h"

#include "interpose.h"
#include "tools/output.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 128, LINE = 1024 };

INTERPOSE_LOCK(capture_lock)
static int64_t used; /* bytes that this process has written */
static int calls; /* number of products captured */
/* time of the first capture in seconds; tells processes with equal numbers apart in file names */
static long long began;
static bool ended; /* the limit of bytes was reached, or a write failed: nothing more is captured */

static size_t element_size(const struct capture_operand *o)
{
    return (size_t)o->format.size << o->pairs;
}

/* True if .npy has no type for the format, so that its numbers are stored as binary32. */
static bool is_widened(const struct capture_operand *o)
{
    return o->format.kind == LIMBER_KIND_FLOAT && o->format.size <= 2 &&
           !limber_format_equal(o->format, LIMBER_F16);
}

static size_t stored_size(const struct capture_operand *o)
{
    return is_widened(o) ? 4 : element_size(o);
}

static const char *npy_type(const struct capture_operand *o)
{
    if (o->format.kind == LIMBER_KIND_INT)
        return "|i1";
    if (o->pairs)
        return o->format.size == 4 ? "<c8" : "<c16";
    return stored_size(o) == 2 ? "<f2" : stored_size(o) == 4 ? "<f4" : "<f8";
}

/* Bytes of an operand's file, header included; at most INT64_MAX / 4. */
static int64_t file_bytes(const struct capture_operand *o)
{
    int64_t bytes;

    return __builtin_mul_overflow(o->rows, o->cols, &bytes) ||
                   __builtin_mul_overflow(bytes, (int64_t)stored_size(o), &bytes) ||
                   bytes > INT64_MAX / 4 ?
               INT64_MAX / 4 :
               bytes + HEADER;
}

static bool write_header(FILE *f, const struct capture_operand *o, bool by_columns)
{
    char text[HEADER - 10];
    int n = snprintf(text, sizeof text,
                     "{'descr': '%s', 'fortran_order': %s, 'shape': (%lld, %lld), }", npy_type(o),
                     by_columns ? "True" : "False", (long long)o->rows, (long long)o->cols);

    memset(text + n, ' ', sizeof text - (size_t)n);
    text[sizeof text - 1] = '\n';
    return fwrite("\x93NUMPY\x01\x00", 1, 8, f) == 8 && fputc(sizeof text, f) != EOF &&
           fputc(0, f) != EOF && fwrite(text, 1, sizeof text, f) == sizeof text;
}

/* Returns in x element (i, j) of the full matrix: a stored or mirrored one, or an implied zero or
 * one. */
static void element_at(const struct capture_operand *o, int64_t i, int64_t j, char x[16])
{
    static const double capture_lock = 1;
    const size_t part = o->format.size;
    const bool lies = o->stores == CAPTURE_all || i == j || (i < j) == o->upper;
    const bool mirrored =
        !lies && (o->stores == CAPTURE_symmetric || o->stores == CAPTURE_hermitian);

    memset(x, 0, 16);
    if (o->stores == CAPTURE_unit_triangle && i == j) {
        limber_convert(x, o->format, &capture_lock, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        return;
    }
    if (!lies && !mirrored)
        return;
    memcpy(x,
           (const char *)o->data + ((mirrored ? j : i) * o->row + (mirrored ? i : j) * o->col) *
                                       (int64_t)element_size(o),
           element_size(o));
    if (o->stores == CAPTURE_hermitian && mirrored)
        x[2 * part - 1] = (char)(x[2 * part - 1] ^ 0x80);
    if (o->stores == CAPTURE_hermitian && i == j)
        memset(x + part, 0, part);
}

/* Writes element (i, j), widened to binary32 or conjugated if the operand asks for it.  False if
 * writing fails. */
static bool write_element(FILE *f, const struct capture_operand *o, int64_t i, int64_t j)
{
    const size_t part = o->format.size;
    char x[16], at[16];

    element_at(o, i, j, at);
    memcpy(x, at, sizeof x);
    if (is_widened(o))
        limber_convert(x, LIMBER_F32, at, o->format, 1, LIMBER_ROUND_NEAREST);
    if (o->conj)
        x[2 * part - 1] = (char)(x[2 * part - 1] ^ 0x80);
    return fwrite(x, 1, stored_size(o), f) == stored_size(o);
}

/* Writes all elements of an operand, row by row or column by column: entire lines at once where
 * no element needs a change.  Stops at the first error. */
static void write_elements(FILE *f, const struct capture_operand *o, bool by_columns)
{
    const int64_t lines = by_columns ? o->cols : o->rows, length = by_columns ? o->rows : o->cols;
    const int64_t line = (by_columns ? o->col : o->row) * (int64_t)element_size(o);
    const char *at = o->data;

    for (int64_t i = 0; i < lines; i++, at += line)
        if (!is_widened(o) && !o->conj && o->stores == CAPTURE_all) {
            if (fwrite(at, element_size(o), (size_t)length, f) != (size_t)length)
                return;
        } else {
            for (int64_t p = 0; p < length; p++)
                if (!write_element(f, o, by_columns ? p : i, by_columns ? i : p))
                    return;
        }
}

static bool write_operand(const char *path, const struct capture_operand *o)
{
    const bool by_columns = o->row == 1; /* otherwise rows are contiguous */
    struct output to;

    if (!output_open(&to, path))
        return false;
    if (write_header(to.f, o, by_columns))
        write_elements(to.f, o, by_columns);
    return output_close(&to, true); /* false if a write failed */
}

/* Writes both operands to files, and appends a line about the product to index.jsonl.  Returns
 * false, and removes the files, on failure. */
static bool write_product(const struct capture *p, const char *folder)
{
    const struct capture_operand *a = &p->a, *b = &p->b;
    char name[2][64], caller[200] = "", format[32], *path[3] = { 0 }, line[LINE] = "";
    FILE *f = fmemopen(line, sizeof line, "w");
    bool ok = f && asprintf(&path[2], "%s/index.jsonl", folder) >= 0;
    long n;

    for (int i = 0; ok && i < 2; i++) {
        snprintf(name[i], sizeof name[i], "%ld-%llx-%06d-%c.npy", (long)getpid(), began, calls,
                 "ab"[i]);
        ok = asprintf(&path[i], "%s/%s", folder, name[i]) >= 0 && write_operand(path[i], i ? b : a);
    }
    if (ok) {
        fprintf(f, "{ \"routine\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld", p->routine,
                (long long)a->rows, (long long)b->cols, (long long)a->cols);
        fprintf(f, ", \"format\": \"%s\", \"complex\": %s, \"ops\": \"%c%c\"",
                limber_format_name(a->format, format, sizeof format), a->pairs ? "true" : "false",
                p->ops[0], p->ops[1]);
        fprintf(f, ", \"a\": \"%s\", \"b\": \"%s\", \"contract\": ", name[0], name[1]);
        interpose_put_text(f, p->words);
        if (p->caller)
            interpose_name_caller(p->caller, caller, sizeof caller);
        fprintf(f, ", \"caller\": ");
        interpose_put_text(f, caller);
        fprintf(f, " }\n");
        fflush(f);
        n = ftell(f);
        ok = n > 0 && n < LINE - 1 && output_append(path[2], line, (size_t)n);
    }
    if (f)
        fclose(f);
    for (int i = 0; i < 3; i++) {
        int error = errno;

        if (!ok && i < 2 && path[i])
            unlink(path[i]);
        free(path[i]);
        errno = error;
    }
    return ok;
}

/* Ends capturing, and says why. */
static void stop_capture(const char *what, const char *folder, const char *why)
{
    ended = true;
    interpose_message("LIMBER_CAPTURE = \"%.200s\": %s%s; %d products are kept", folder, what, why,
                      calls);
}

/* Writes a product's operands unless the limit of bytes is reached.  On failure stops capturing. */
static void capture_product(const struct capture *p)
{
    const struct interpose_options *o = interpose_options();
    const int64_t bytes = file_bytes(&p->a) + file_bytes(&p->b);

    if (bytes > o->capture_bytes - used) {
        stop_capture("the limit of bytes is reached", o->capture, "");
        return;
    }
    if (!began) {
        began = (long long)time(NULL);
        if (mkdir(o->capture, 0777) != 0 && errno != EEXIST) {
            stop_capture("", o->capture, strerror(errno));
            return;
        }
    }
    calls++;
    if (write_product(p, o->capture)) {
        used += bytes;
        return;
    }
    calls--;
    stop_capture("", o->capture, strerror(errno));
}

bool interpose_captures(void)
{
    bool on = interpose_options()->capture;

    if (!on)
        return false;
    pthread_mutex_lock(&capture_lock);
    on = !ended;
    pthread_mutex_unlock(&capture_lock);
    return on;
}

/* Captures a product in the file, unless capturing has ended.  Preserves errno. */
void interpose_capture(const struct capture *p)
{
    struct interpose_limits limits;
    int before = errno;

    pthread_mutex_lock(&capture_lock);
    if (!ended) {
        interpose_limits_enter(&limits);
        capture_product(p);
        interpose_limits_leave(&limits);
    }
    pthread_mutex_unlock(&capture_lock);
    errno = before;
}

void interpose_capture_fails(const char *why)
{
    pthread_mutex_lock(&capture_lock);
    if (!ended)
        stop_capture("", interpose_options()->capture, why);
    pthread_mutex_unlock(&capture_lock);
}
