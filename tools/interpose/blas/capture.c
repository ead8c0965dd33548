/* SPDX-License-Identifier: BSD-3-Clause
 * Keeps the operands of gemm calls in a folder, as .npy files and a line of JSON a call, up to a
 * number of bytes.  A file appears with all of its content; a line names files that are there. */
#define _GNU_SOURCE     /* asprintf */
#include "product.h"
#include "tools/output.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 128, LINE = 1024 };

INTERPOSE_LOCK(one)
static int64_t used; /* bytes of this process */
static int calls;
static long long began; /* seconds; tells runs with one process identity apart */
static bool ended; /* by the limit or a failure */

/* op(X), as numbers of a type of .npy. */
struct operand {
    struct view v;
    int64_t rows, cols;
    size_t size, part; /* in the program: of an element, of its part */
    const char *type;
    size_t stored; /* bytes of an element in the file */
};

static const char *format_name(const struct request *r)
{
    return r->factors == 'b'                ? "bf16" :
           r->factors == 'h'                ? "f16" :
           r->type == 's' || r->type == 'c' ? "f32" :
                                              "f64";
}

static struct operand operand_of(const struct request *r, const struct argument *x, int64_t rows,
                                 int64_t cols)
{
    const bool pairs = r->type == 'c' || r->type == 'z';
    const size_t part = r->factors ? 2 : r->type == 's' || r->type == 'c' ? 4 : 8;
    struct operand o = {
        .v = limber_blas_view(r, x), .rows = rows, .cols = cols, .size = part << pairs, .part = part
    };

    o.stored = r->factors == 'b' ? 4 : o.size; /* .npy has no bfloat16: as binary32 */
    o.type = r->factors == 'b' ? "<f4" :
             r->factors == 'h' ? "<f2" :
             pairs             ? part == 4 ? "<c8" : "<c16" :
             part == 4         ? "<f4" :
                                 "<f8";
    o.v.conj = o.v.conj && pairs;
    return o;
}

static int64_t bytes_of(const struct operand *o)
{
    int64_t bytes;

    return __builtin_mul_overflow(o->rows, o->cols, &bytes) ||
                   __builtin_mul_overflow(bytes, (int64_t)o->stored, &bytes) ||
                   bytes > INT64_MAX / 4 ?
               INT64_MAX / 4 :
               bytes + HEADER;
}

static bool put_header(FILE *f, const struct operand *o, bool by_columns)
{
    char text[HEADER - 10];
    int n =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': (%lld, %lld), }",
                 o->type, by_columns ? "True" : "False", (long long)o->rows, (long long)o->cols);

    memset(text + n, ' ', sizeof text - (size_t)n);
    text[sizeof text - 1] = '\n';
    return fwrite("\x93NUMPY\x01\x00", 1, 8, f) == 8 && fputc(sizeof text, f) != EOF &&
           fputc(0, f) != EOF && fwrite(text, 1, sizeof text, f) == sizeof text;
}

static bool put_element(FILE *f, const struct operand *o, const char *at)
{
    char x[16];

    memcpy(x, at, o->size);
    if (o->stored > o->size)
        limber_convert(x, LIMBER_F32, at, LIMBER_BF16, 1, LIMBER_ROUND_NEAREST);
    if (o->v.conj)
        x[2 * o->part - 1] = (char)(x[2 * o->part - 1] ^ 0x80);
    return fwrite(x, 1, o->stored, f) == o->stored;
}

static void put_elements(FILE *f, const struct operand *o, bool by_columns)
{
    const int64_t lines = by_columns ? o->cols : o->rows, length = by_columns ? o->rows : o->cols;
    const int64_t line = (by_columns ? o->v.col : o->v.row) * (int64_t)o->size;
    const char *at = o->v.data;

    for (int64_t i = 0; i < lines; i++, at += line)
        if (o->stored == o->size && !o->v.conj) {
            if (fwrite(at, o->size, (size_t)length, f) != (size_t)length)
                return;
        } else {
            for (int64_t p = 0; p < length; p++)
                if (!put_element(f, o, at + p * (int64_t)o->size))
                    return;
        }
}

static bool put_operand(const char *path, const struct operand *o)
{
    const bool by_columns = o->v.row == 1; /* else the elements of a row lie together */
    struct output to;

    if (!output_open(&to, path))
        return false;
    if (put_header(to.f, o, by_columns))
        put_elements(to.f, o, by_columns);
    return output_close(&to, true); /* false where something was not written */
}

static bool put_call(const struct request *r, const char *words, const char *folder,
                     const struct operand *a, const struct operand *b)
{
    char name[2][64], caller[200], *path[3] = { 0 }, line[LINE] = "";
    FILE *f = fmemopen(line, sizeof line, "w");
    bool ok = f && asprintf(&path[2], "%s/index.jsonl", folder) >= 0;
    long n;

    for (int i = 0; ok && i < 2; i++) {
        snprintf(name[i], sizeof name[i], "%ld-%llx-%06d-%c.npy", (long)getpid(), began, calls,
                 "ab"[i]);
        ok = asprintf(&path[i], "%s/%s", folder, name[i]) >= 0 && put_operand(path[i], i ? b : a);
    }
    if (ok) {
        fprintf(f, "{ \"routine\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld", r->name,
                (long long)r->m, (long long)r->n, (long long)r->k);
        fprintf(f, ", \"format\": \"%s\", \"complex\": %s, \"ops\": \"%c%c\"", format_name(r),
                a->type[1] == 'c' ? "true" : "false", r->a.op, r->b.op);
        fprintf(f, ", \"a\": \"%s\", \"b\": \"%s\", \"contract\": ", name[0], name[1]);
        interpose_put_text(f, words);
        interpose_name_caller(r->caller, caller, sizeof caller);
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
    interpose_message("LIMBER_CAPTURE = \"%.200s\": %s%s; %d calls are kept", folder, what, why,
                      calls);
}

static void capture(const struct request *r, const struct interpose_setting *s)
{
    const struct interpose_options *o = interpose_options();
    const struct operand a = operand_of(r, &r->a, r->m, r->k), b = operand_of(r, &r->b, r->k, r->n);
    const int64_t bytes = bytes_of(&a) + bytes_of(&b);

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
    if (put_call(r, s->on ? s->words : "", o->capture, &a, &b)) {
        used += bytes;
        return;
    }
    calls--;
    end_with("", o->capture, strerror(errno));
}

void limber_blas_capture(const struct request *r, const struct interpose_setting *s)
{
    struct interpose_limits limits;
    int before = errno;

    if (r->routine != BLAS_GEMM || !r->k)
        return;
    pthread_mutex_lock(&one);
    if (!ended) {
        interpose_limits_enter(&limits);
        capture(r, s);
        interpose_limits_leave(&limits);
    }
    pthread_mutex_unlock(&one);
    errno = before;
}
