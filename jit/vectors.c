/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a matrix and a vector, and of two vectors, native or reproducible, on operands as
 * they lie: no scan, no key, no plan, no packing.  Both contracts have the chains of order 1. */
#include "ir/num/prim.h"
#include "jit/operators/inside.h"
#include "jit/ways.h"

#include <math.h>
#include <string.h>

/* A task has at least so many multiply-adds; sums of a task lie on the stack, ROWS at a time. */
enum { TASK = 1 << 17, ROWS = 512 };
/* Rows, and elements of a single row, that are converted at once: whole chains. */
enum { LINES = 16, LENGTH = LINES * NATIVE_CHAIN };

/* The product as a matrix of m x k times a vector.  A product whose C is one row is computed
 * transposed, as C^T = B^T A^T, and m is then its n. */
struct vectors {
    limber_context *ctx;
    const struct problem *p;
    int64_t m, k, row, col, step, to; /* to: elements from one element of C to the next */
    int64_t rows; /* rows of a task */
    struct scaling scaling;
    bool scales;
    limber_format fa, fx; /* formats of the matrix and of the vector */
    int size; /* bytes of a number in sums */
    double alpha, beta;
};

/* True if order 1 sums in binary32: that holds both operands and is no less precise than C.  Else
 * it sums in binary64 (docs/accuracy.md, "The stated order"). */
static bool sums_single(const struct problem *p)
{
    return limber_format_embeds(p->fa, LIMBER_F32) && limber_format_embeds(p->fb, LIMBER_F32) &&
           limber_format_sig(p->fc) <= limber_format_sig(LIMBER_F32);
}

static bool is_small_float(limber_format f)
{
    return limber_format_is_binary(f) || (f.kind == LIMBER_KIND_FLOAT && f.size <= 2);
}

static bool converts(const struct problem *p)
{
    return !limber_format_is_binary(p->fc) || !limber_format_equal(p->fa, p->fc) ||
           !limber_format_equal(p->fb, p->fc);
}

/* The reason why this way does not serve the call; NULL: it does. */
static const char *refuses(const limber_context *ctx, const struct problem *p)
{
    if (!limber_has_vector(p))
        return "neither operand is a vector";
    if (!limber_is_plain(&p->contract) || p->contract.scheme || p->roundings)
        return "it serves native and reproducible products";
    if (!ctx->machine.backend->vectors || p->shape || !is_small_float(p->fa) ||
        !is_small_float(p->fb) || !is_small_float(p->fc))
        return "it serves f64, f32 and floats of up to 16 bits on CPUs";
    if (p->k == 0)
        return "it has nothing to multiply";
    if (!limber_is_long_vector(p->m, p->n, p->k) && limber_has_way(ctx, WAY_direct) &&
        !limber_way_direct.refuses(ctx, p))
        return "the vectors are short, which direct computes faster";
    return p->c.inner >= p->n && limber_is_strided(p) ? NULL : "the operands lie otherwise";
}

/* alpha sum + beta c, as limber_blend computes it.  With beta = 1 and a finite value, the first
 * line does the same without a call of fma. */
static double join(const struct scaling *f, double sum, double c)
{
    const double y = f->beta == 1 ? f->alpha * sum + c : NAN;

    return y - y == 0 ? y : limber_blend(f->alpha, sum, f->beta, c);
}

/* Stores sums to C, which may lie at any address. */
static void store(const struct vectors *x, const void *sum, int64_t rows, char *c)
{
    const struct scaling *f = &x->scaling;
    const int size = x->p->fc.size;

    for (int64_t i = 0; i < rows; i++, c += x->to * size) {
        const double s = limber_scalar_value((const char *)sum + i * size, size),
                     y = f->beta == 0 ? f->alpha * s : join(f, s, limber_scalar_value(c, size));
        const float narrow = (float)y;

        if (size == 8)
            memcpy(c, &y, 8);
        else
            memcpy(c, &narrow, 4);
    }
}

/* Converts n elements, `step` apart, to numbers of sums. */
static void convert(const struct vectors *x, limber_format f, const char *from, int64_t step,
                    int64_t n, char *to)
{
    char dense[8 * NATIVE_CHAIN];
    double wide[NATIVE_CHAIN];

    for (int64_t p = 0; p < n; p += NATIVE_CHAIN) {
        const int64_t here = n - p < NATIVE_CHAIN ? n - p : NATIVE_CHAIN;
        const char *at = from + p * step * f.size;

        if (step != 1) {
            for (int64_t i = 0; i < here; i++)
                memcpy(dense + i * f.size, at + i * step * f.size, (size_t)f.size);
            at = dense;
        }
        limber_values_widen(x->ctx, f, at, wide, (size_t)here);
        if (x->size == 8)
            memcpy(to + p * 8, wide, (size_t)here * 8);
        for (int64_t i = 0; i < here && x->size == 4; i++) {
            const float narrow = (float)wide[i];

            memcpy(to + (p + i) * 4, &narrow, 4);
        }
    }
}

/* Computes rows [first, end) of one product, whose operands are converted block by block. */
static void run_converted(const struct vectors *x, int64_t first, int64_t end, const char *a,
                          const char *v, char *c)
{
    char rows[LENGTH * 8], vector[LENGTH * 8];
    const limber_format fc = x->p->fc;
    const int lines = x->m == 1 ? 1 : LINES;
    const int64_t length = LENGTH / lines;
    double sum[LINES];

    for (int64_t i = first; i < end; i += lines) {
        struct vector_sums s = { .size = x->size,
                                 .m = end - i < lines ? end - i : lines,
                                 .row = length,
                                 .col = 1,
                                 .step = 1,
                                 .a = rows,
                                 .x = vector,
                                 .sum = sum };

        for (int64_t p = 0; p < x->k; p += length) {
            s.k = x->k - p < length ? x->k - p : length;
            s.more = p > 0;
            convert(x, x->fx, v + p * x->step * x->fx.size, x->step, s.k, vector);
            for (int64_t r = 0; r < s.m; r++)
                convert(x, x->fa, a + ((i + r) * x->row + p * x->col) * x->fa.size, x->col, s.k,
                        rows + r * length * x->size);
            x->ctx->machine.backend->vectors(&s, &x->ctx->machine.target);
        }
        for (int64_t r = 0; r < s.m; r++)
            limber_store_float(c + (i + r) * x->to * fc.size, fc,
                               limber_scalar_value((const char *)sum + r * x->size, x->size),
                               x->p->alpha != NULL, x->alpha, x->p->beta != NULL, x->beta);
    }
}

/* Task: computes some rows of one group's product. */
static bool run_task(void *arg, int64_t task, int worker, struct diag *d)
{
    const struct vectors *x = arg;
    const struct problem *p = x->p;
    const int64_t tasks = (x->m + x->rows - 1) / x->rows, g = task / tasks,
                  first = task % tasks * x->rows,
                  end = first + x->rows < x->m ? first + x->rows : x->m;
    const struct view a = limber_group_a(p, g), b = limber_group_b(p, g);
    const struct output_view c = limber_group_c(p, g);
    const int size = p->fc.size;
    double sum[ROWS];
    struct vector_sums s = { .size = size,
                             .k = x->k,
                             .row = x->row,
                             .col = x->col,
                             .step = x->step,
                             .x = p->n == 1 ? b.data : a.data };

    (void)worker, (void)d;
    if (converts(p)) {
        run_converted(x, first, end, p->n == 1 ? a.data : b.data, s.x, c.data);
        return true;
    }
    for (int64_t i = first; i < end; i += s.m) {
        char *to = (char *)c.data + i * x->to * size;
        const bool direct = x->to == 1 && !x->scales && x->scaling.beta == 0;

        s.m = direct || end - i < ROWS ? end - i : ROWS;
        s.a = (const char *)(p->n == 1 ? a.data : b.data) + i * x->row * size;
        s.sum = direct ? (void *)to : sum;
        x->ctx->machine.backend->vectors(&s, &x->ctx->machine.target);
        if (!direct)
            store(x, sum, s.m, to);
    }
    return true;
}

static void report(struct attempt *x)
{
    limber_report_library(x->r, x->ctx->machine.backend->name, "native",
                          limber_native_bound(x->p->k, sums_single(x->p) ? 4 : 8));
}

static enum ran run(struct attempt *at)
{
    const struct problem *p = at->p;
    limber_context *ctx = at->ctx;
    const bool by_row = p->n != 1;
    const struct view *v = by_row ? &p->b : &p->a;
    struct vectors x = { .ctx = ctx,
                         .p = p,
                         .m = by_row ? p->n : p->m,
                         .k = p->k,
                         .row = v->line,
                         .col = v->p,
                         .step = by_row ? p->a.p : p->b.p,
                         .to = by_row ? p->c.col : p->c.row,
                         .fa = by_row ? p->fb : p->fa,
                         .fx = by_row ? p->fa : p->fb,
                         .size = sums_single(p) ? 4 : 8 };
    const double start = at->r ? limber_now() : 0, work = (double)x.m * (double)x.k;
    const bool shared = work * (double)p->groups > 2.0 * TASK;

    if (!converts(p)) {
        x.scales = limber_scaling(p->alpha, p->beta, p->fc.size, &x.scaling);
    } else {
        if (p->alpha)
            limber_values_widen(ctx, limber_scalar_format(p->fc), p->alpha, &x.alpha, 1);
        if (p->beta)
            limber_values_widen(ctx, limber_scalar_format(p->fc), p->beta, &x.beta, 1);
    }
    x.rows = shared ? limber_task_lines(ctx, x.m, work, TASK) : x.m;
    limber_tasks_run(ctx, ((x.m - 1) / x.rows + 1) * p->groups, shared, run_task, &x);
    if (at->r) {
        report(at);
        at->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

const struct way limber_way_vectors = {
    .id = WAY_vectors, .refuses = refuses, .run = run, .report = report
};
