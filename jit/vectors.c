/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a matrix and a vector, and of two vectors, native or reproducible, on operands as
 * they lie: no scan, no key, no plan, no packing.  Both contracts have the chains of order 1. */
#include "ir/num/prim.h"
#include "jit/ways.h"

#include <math.h>
#include <string.h>

/* A task has at least so many multiply-adds; sums of a task lie on the stack, ROWS at a time. */
enum { TASK = 1 << 17, ROWS = 512 };

/* The product as a matrix of m x k times a vector.  A product whose C is one row is computed
 * transposed, as C^T = B^T A^T, and m is then its n. */
struct vectors {
    limber_context *ctx;
    const struct problem *p;
    int64_t m, k, row, col, step, to; /* to: elements from one element of C to the next */
    int64_t rows; /* of a task */
    struct scaling scaling;
    bool scales;
};

static const char *refuses(const limber_context *ctx, const struct problem *p)
{
    if (p->m != 1 && p->n != 1)
        return "neither operand is a vector";
    if (!limber_is_plain(&p->contract) || p->contract.scheme || p->roundings)
        return "it serves native and reproducible products";
    if (!ctx->machine.backend->vectors || p->shape || !limber_format_is_binary(p->fc) ||
        !limber_format_equal(p->fa, p->fc) || !limber_format_equal(p->fb, p->fc))
        return "it serves products of f64 or f32 throughout on CPUs";
    if (p->k == 0)
        return "it has nothing to multiply";
    return p->c.inner >= p->n && limber_is_strided(p) ? NULL : "the operands lie otherwise";
}

/* alpha sum + beta c, as limber_blend computes it.  With beta = 1 and a finite value, the first
 * line does the same without a call of fma. */
static double join(const struct scaling *f, double sum, double c)
{
    const double y = f->beta == 1 ? f->alpha * sum + c : NAN;

    return y - y == 0 ? y : limber_blend(f->alpha, sum, f->beta, c);
}

/* C may lie at any address. */
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

/* Some rows of one product of the groups. */
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
                          limber_native_bound(x->p->k, x->p->fc.size));
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
                         .to = by_row ? p->c.col : p->c.row };
    const int64_t most = 8 * limber_pool_runner(ctx->pool).workers;
    const double start = at->r ? limber_now() : 0, work = (double)x.m * (double)x.k;
    const bool shared = work * (double)p->groups > 2.0 * TASK;
    int64_t tasks = 1;

    x.scales = limber_scaling(p->alpha, p->beta, p->fc.size, &x.scaling);
    if (shared)
        tasks = work / TASK < (double)most ? (int64_t)(work / TASK) + 1 : most;
    x.rows = (x.m + tasks - 1) / tasks;
    tasks = (x.m + x.rows - 1) / x.rows;
    limber_tasks_run(ctx, tasks * p->groups, shared, run_task, &x);
    if (at->r) {
        report(at);
        at->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

const struct way limber_way_vectors = {
    .id = WAY_vectors, .refuses = refuses, .run = run, .report = report
};
