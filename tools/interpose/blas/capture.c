/* SPDX-License-Identifier: BSD-3-Clause
 * Keeps the operands of level 3's products in a folder, as .npy files and a line of JSON a product,
 * up to a number of bytes.  A file appears with all of its content; a line names files that are
 * there. */
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
static int calls; /* products that are kept */
static long long began; /* seconds; tells runs with one process identity apart */
static bool ended; /* by the limit or a failure */

/* What the program stores of a matrix; the rest of it is known. */
enum stored { ALL, SYMMETRIC, HERMITIAN, TRIANGLE, UNIT_TRIANGLE };

/* op(X), as numbers of a type of .npy. */
struct operand {
    struct view v;
    enum stored stores;
    bool upper; /* of op(X) the program stores the upper triangle */
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

/* Element (i, j) as it is multiplied. */
static void element_at(const struct operand *o, int64_t i, int64_t j, char x[16])
{
    static const double one = 1;
    const bool lies = o->stores == ALL || i == j || (i < j) == o->upper;
    const bool mirrored = !lies && (o->stores == SYMMETRIC || o->stores == HERMITIAN);

    memset(x, 0, 16);
    if (o->stores == UNIT_TRIANGLE && i == j) {
        limber_convert(x, o->part == 4 ? LIMBER_F32 : LIMBER_F64, &one, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
        return;
    }
    if (!lies && !mirrored)
        return;
    memcpy(x,
           (const char *)o->v.data +
               ((mirrored ? j : i) * o->v.row + (mirrored ? i : j) * o->v.col) * (int64_t)o->size,
           o->size);
    if (o->stores == HERMITIAN && mirrored)
        x[2 * o->part - 1] = (char)(x[2 * o->part - 1] ^ 0x80);
    if (o->stores == HERMITIAN && i == j)
        memset(x + o->part, 0, o->part);
}

static bool put_element(FILE *f, const struct operand *o, int64_t i, int64_t j)
{
    char x[16], at[16];

    element_at(o, i, j, at);
    memcpy(x, at, sizeof x);
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
        if (o->stored == o->size && !o->v.conj && o->stores == ALL) {
            if (fwrite(at, o->size, (size_t)length, f) != (size_t)length)
                return;
        } else {
            for (int64_t p = 0; p < length; p++)
                if (!put_element(f, o, by_columns ? p : i, by_columns ? i : p))
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
                     const struct operand *a, const struct operand *b, const char ops[2])
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
                (long long)a->rows, (long long)b->cols, (long long)a->cols);
        fprintf(f, ", \"format\": \"%s\", \"complex\": %s, \"ops\": \"%c%c\"", format_name(r),
                a->type[1] == 'c' ? "true" : "false", ops[0], ops[1]);
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
    interpose_message("LIMBER_CAPTURE = \"%.200s\": %s%s; %d products are kept", folder, what, why,
                      calls);
}

static void keep(const struct request *r, const struct interpose_setting *s, struct operand a,
                 struct operand b, const char ops[2])
{
    const struct interpose_options *o = interpose_options();
    const int64_t bytes = bytes_of(&a) + bytes_of(&b);

    if (ended)
        return;
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
    if (put_call(r, s->on ? s->words : "", o->capture, &a, &b, ops)) {
        used += bytes;
        return;
    }
    calls--;
    end_with("", o->capture, strerror(errno));
}

static struct operand adjoint(struct operand x, bool hermitian)
{
    const int64_t rows = x.rows;

    x.v = limber_blas_transposed(x.v);
    x.v.conj ^= hermitian && x.size > x.part;
    x.rows = x.cols;
    x.cols = rows;
    return x;
}

static void keep_batch(const struct request *r, const struct interpose_setting *s)
{
    const size_t size = operand_of(r, &r->a, 1, 1).size;

    for (int64_t i = 0; i < r->count; i++) {
        struct argument a = r->a, b = r->b;

        a.data = r->each_a ? r->each_a[i] : (const char *)a.data + i * r->step_a * (int64_t)size;
        b.data = r->each_b ? r->each_b[i] : (const char *)b.data + i * r->step_b * (int64_t)size;
        keep(r, s, operand_of(r, &a, r->m, r->k), operand_of(r, &b, r->k, r->n),
             (char[]){ r->a.op, r->b.op });
    }
}

/* C = A A', or A B' and B A'. */
static void keep_rank(const struct request *r, const struct interpose_setting *s)
{
    const bool hermitian = r->routine == BLAS_HERK || r->routine == BLAS_HER2K;
    const bool two = r->routine == BLAS_SYR2K || r->routine == BLAS_HER2K;
    const struct operand a = operand_of(r, &r->a, r->n, r->k);
    const struct operand b = two ? operand_of(r, &r->b, r->n, r->k) : a;
    const char ops[2] = { r->a.op, r->a.op != 'N' ? 'N' : hermitian ? 'C' : 'T' };

    keep(r, s, a, adjoint(b, hermitian), ops);
    if (two)
        keep(r, s, b, adjoint(a, hermitian), ops);
}

/* The square matrix from the left or from the right. */
static void keep_sided(const struct request *r, const struct interpose_setting *s,
                       enum stored stores)
{
    const int64_t order = r->side == 'L' ? r->m : r->n;
    const char op = stores == TRIANGLE ? r->a.op : 'N';
    struct operand a = operand_of(r, &r->a, order, order), b = operand_of(r, &r->b, r->m, r->n);

    a.stores = stores == TRIANGLE && r->diag == 'U' ? UNIT_TRIANGLE : stores;
    a.upper = (r->uplo == 'U') ^ (op != 'N');
    if (r->side == 'L')
        keep(r, s, a, b, (char[]){ op, 'N' });
    else
        keep(r, s, b, a, (char[]){ 'N', op });
}

static void capture(const struct request *r, const struct interpose_setting *s)
{
    switch (r->routine) {
    case BLAS_GEMM_BATCH: keep_batch(r, s); break;
    case BLAS_SYRK:
    case BLAS_HERK:
    case BLAS_SYR2K:
    case BLAS_HER2K: keep_rank(r, s); break;
    case BLAS_SYMM: keep_sided(r, s, SYMMETRIC); break;
    case BLAS_HEMM: keep_sided(r, s, HERMITIAN); break;
    case BLAS_TRMM: keep_sided(r, s, TRIANGLE); break;
    default:
        keep(r, s, operand_of(r, &r->a, r->m, r->k), operand_of(r, &r->b, r->k, r->n),
             (char[]){ r->a.op, r->b.op });
    }
}

void limber_blas_capture(const struct request *r, const struct interpose_setting *s)
{
    struct interpose_limits limits;
    int before = errno;

    if (r->routine == BLAS_TRSM || limber_blas_is_lapack(r) || !r->k)
        return; /* they solve: what they multiply is made inside */
    pthread_mutex_lock(&one);
    if (!ended) {
        interpose_limits_enter(&limits);
        capture(r, s);
        interpose_limits_leave(&limits);
    }
    pthread_mutex_unlock(&one);
    errno = before;
}
