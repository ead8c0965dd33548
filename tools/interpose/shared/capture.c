/* SPDX-License-Identifier: BSD-3-Clause
 * Keeps the operands of products in a folder, as .npy files and a line of JSON a product, up to a
 * number of bytes.  A file appears with all of its content; a line names files that are there. */
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

INTERPOSE_LOCK(one)
static int64_t used; /* bytes of this process */
static int calls; /* products that are kept */
static long long began; /* seconds; tells runs with one process identity apart */
static bool ended; /* by the limit or a failure */

static size_t size_of(const struct capture_operand *o)
{
    return (size_t)o->format.size << o->pairs;
}

/* Files have no type of this format's: its numbers are kept in binary32. */
static bool is_widened(const struct capture_operand *o)
{
    return o->format.kind == LIMBER_KIND_FLOAT && o->format.size <= 2 &&
           !limber_format_equal(o->format, LIMBER_F16);
}

static size_t stored_size(const struct capture_operand *o)
{
    return is_widened(o) ? 4 : size_of(o);
}

static const char *type_of(const struct capture_operand *o)
{
    if (o->format.kind == LIMBER_KIND_INT)
        return "|i1";
    if (o->pairs)
        return o->format.size == 4 ? "<c8" : "<c16";
    return stored_size(o) == 2 ? "<f2" : stored_size(o) == 4 ? "<f4" : "<f8";
}

static int64_t bytes_of(const struct capture_operand *o)
{
    int64_t bytes;

    return __builtin_mul_overflow(o->rows, o->cols, &bytes) ||
                   __builtin_mul_overflow(bytes, (int64_t)stored_size(o), &bytes) ||
                   bytes > INT64_MAX / 4 ?
               INT64_MAX / 4 :
               bytes + HEADER;
}

static bool put_header(FILE *f, const struct capture_operand *o, bool by_columns)
{
    char text[HEADER - 10];
    int n =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': (%lld, %lld), }",
                 type_of(o), by_columns ? "True" : "False", (long long)o->rows, (long long)o->cols);

    memset(text + n, ' ', sizeof text - (size_t)n);
    text[sizeof text - 1] = '\n';
    return fwrite("\x93NUMPY\x01\x00", 1, 8, f) == 8 && fputc(sizeof text, f) != EOF &&
           fputc(0, f) != EOF && fwrite(text, 1, sizeof text, f) == sizeof text;
}

/* Element (i, j) as it is multiplied. */
static void element_at(const struct capture_operand *o, int64_t i, int64_t j, char x[16])
{
    static const double one = 1;
    const size_t part = o->format.size;
    const bool lies = o->stores == CAPTURE_all || i == j || (i < j) == o->upper;
    const bool mirrored =
        !lies && (o->stores == CAPTURE_symmetric || o->stores == CAPTURE_hermitian);

    memset(x, 0, 16);
    if (o->stores == CAPTURE_unit_triangle && i == j) {
        limber_convert(x, o->format, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        return;
    }
    if (!lies && !mirrored)
        return;
    memcpy(x,
           (const char *)o->data +
               ((mirrored ? j : i) * o->row + (mirrored ? i : j) * o->col) * (int64_t)size_of(o),
           size_of(o));
    if (o->stores == CAPTURE_hermitian && mirrored)
        x[2 * part - 1] = (char)(x[2 * part - 1] ^ 0x80);
    if (o->stores == CAPTURE_hermitian && i == j)
        memset(x + part, 0, part);
}

static bool put_element(FILE *f, const struct capture_operand *o, int64_t i, int64_t j)
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

static void put_elements(FILE *f, const struct capture_operand *o, bool by_columns)
{
    const int64_t lines = by_columns ? o->cols : o->rows, length = by_columns ? o->rows : o->cols;
    const int64_t line = (by_columns ? o->col : o->row) * (int64_t)size_of(o);
    const char *at = o->data;

    for (int64_t i = 0; i < lines; i++, at += line)
        if (!is_widened(o) && !o->conj && o->stores == CAPTURE_all) {
            if (fwrite(at, size_of(o), (size_t)length, f) != (size_t)length)
                return;
        } else {
            for (int64_t p = 0; p < length; p++)
                if (!put_element(f, o, by_columns ? p : i, by_columns ? i : p))
                    return;
        }
}

static bool put_operand(const char *path, const struct capture_operand *o)
{
    const bool by_columns = o->row == 1; /* else the elements of a row lie together */
    struct output to;

    if (!output_open(&to, path))
        return false;
    if (put_header(to.f, o, by_columns))
        put_elements(to.f, o, by_columns);
    return output_close(&to, true); /* false where something was not written */
}

static bool put_product(const struct capture *p, const char *folder)
{
    const struct capture_operand *a = &p->a, *b = &p->b;
    char name[2][64], caller[200] = "", format[32], *path[3] = { 0 }, line[LINE] = "";
    FILE *f = fmemopen(line, sizeof line, "w");
    bool ok = f && asprintf(&path[2], "%s/index.jsonl", folder) >= 0;
    long n;

    for (int i = 0; ok && i < 2; i++) {
        snprintf(name[i], sizeof name[i], "%ld-%llx-%06d-%c.npy", (long)getpid(), began, calls,
                 "ab"[i]);
        ok = asprintf(&path[i], "%s/%s", folder, name[i]) >= 0 && put_operand(path[i], i ? b : a);
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

static void end_with(const char *what, const char *folder, const char *why)
{
    ended = true;
    interpose_message("LIMBER_CAPTURE = \"%.200s\": %s%s; %d products are kept", folder, what, why,
                      calls);
}

static void keep(const struct capture *p)
{
    const struct interpose_options *o = interpose_options();
    const int64_t bytes = bytes_of(&p->a) + bytes_of(&p->b);

    if (bytes > o->capture_bytes - used) {
        end_with("the limit of bytes is reached", o->capture, "");
        return;
    }
    if (!began) {
        began = (long long)time(NULL);
        if (mkdir(o->capture, 0777) != 0 && errno != EEXIST) {
            end_with("", o->capture, strerror(errno));
            return;
        }
    }
    calls++;
    if (put_product(p, o->capture)) {
        used += bytes;
        return;
    }
    calls--;
    end_with("", o->capture, strerror(errno));
}

bool interpose_captures(void)
{
    bool on = interpose_options()->capture;

    if (!on)
        return false;
    pthread_mutex_lock(&one);
    on = !ended;
    pthread_mutex_unlock(&one);
    return on;
}

void interpose_capture(const struct capture *p)
{
    struct interpose_limits limits;
    int before = errno;

    pthread_mutex_lock(&one);
    if (!ended) {
        interpose_limits_enter(&limits);
        keep(p);
        interpose_limits_leave(&limits);
    }
    pthread_mutex_unlock(&one);
    errno = before;
}

void interpose_capture_fails(const char *why)
{
    pthread_mutex_lock(&one);
    if (!ended)
        end_with("", interpose_options()->capture, why);
    pthread_mutex_unlock(&one);
}
