/* SPDX-License-Identifier: BSD-3-Clause
 * Products of a matrix and a vector, and of two vectors, native or reproducible, on operands as
 * they lie: no scan, no key, no plan, no packing.  Both contracts have the chains of order 1. */
#include "ir/num/prim.h"
#include "jit/ways.h"

#include <math.h>
#include <string.h>

/* A task has at least so many multiply-adds; sums of a task lie on the stack, ROWS at a time. */
enum { TASK = 1 << 17, ROWS = 512 };

/* The product as a matrix times a vector: n x k, where C has one row, since C^T = B^T A^T. */
struct vectors {
    limber_context *ctx;
    const struct problem *p;
    int64_t m, k, row, col, step, to; /* to: elements from one element of C to the next */
    int64_t rows; /* of a task */
    struct scaling scaling;
    bool scales;
};

static bool is_plain_view(const struct view *v)
{
    return limber_view_strided(v) && !v->tile_subset && !v->pairs;
}

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
    return p->c.inner >= p->n && !p->c.rows && !p->c.cols && is_plain_view(&p->a) &&
                   is_plain_view(&p->b) ?
               NULL :
               "the operands lie otherwise";
}

/* Where all four numbers are finite, but what they make is not, the long form is exact. */
static double join(const struct scaling *f, double sum, double c)
{
    const double y = f->beta == 1 ? f->alpha * sum + c : NAN;

    return y - y == 0 ? y : limber_blend(f->alpha, sum, f->beta, c);
}

/* C may lie at any address. */
static void store(const struct vectors *x, const void *sum, int64_t rows, char *c)
{
    const struct scaling *f = &x->scaling;

    for (int64_t i = 0; i < rows && x->p->fc.size == 8; i++, c += x->to * 8) {
        const double s = ((const double *)sum)[i];
        double y;

        memcpy(&y, c, 8);
        y = f->beta == 0 ? f->alpha * s : join(f, s, y);
        memcpy(c, &y, 8);
    }
    for (int64_t i = 0; i < rows && x->p->fc.size == 4; i++, c += x->to * 4) {
        const double s = (double)((const float *)sum)[i];
        float y;

        memcpy(&y, c, 4);
        y = (float)(f->beta == 0 ? f->alpha * s : join(f, s, (double)y));
        memcpy(c, &y, 4);
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

/* Chains of at most NATIVE_CHAIN products, and additions of chains: docs/accuracy.md, "Native
 * chains". */
static double bound(const struct problem *p)
{
    const double k = (double)p->k, chain = k < NATIVE_CHAIN ? k : NATIVE_CHAIN,
                 chains = (double)((p->k + NATIVE_CHAIN - 1) / NATIVE_CHAIN),
                 n = (chain + chains - 1) * (p->fc.size == 8 ? 0x1p-53 : 0x1p-24);

    return n / (1 - n);
}

static void report(struct attempt *x)
{
    struct report *r = x->r;

    limber_report_clear(r);
    r->rows = 1;
    r->from = LIMBER_FROM_LIBRARY;
    r->bound = bound(x->p);
    strcpy(r->scheme, "native");
    memccpy(r->backend, x->ctx->machine.backend->name, '\0', sizeof r->backend - 1);
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
    struct runner all = limber_pool_runner(ctx->pool);
    const double start = at->r ? limber_now() : 0, work = (double)x.m * (double)x.k;
    struct diag ignored = { 0 };
    int64_t tasks = 1;

    x.scales = limber_scaling(p->alpha, p->beta, p->fc.size, &x.scaling);
    if (all.workers > 1 && work * (double)p->groups > 2.0 * TASK)
        tasks = work / TASK < 8 * all.workers ? (int64_t)(work / TASK) + 1 : 8 * all.workers;
    x.rows = (x.m + tasks - 1) / tasks;
    tasks = (x.m + x.rows - 1) / x.rows * p->groups;
    if (tasks > 1 && all.workers > 1 && work * (double)p->groups > 2.0 * TASK) {
        limber_pool_enter(ctx->pool);
        limber_groups_run(&all, tasks, run_task, &x, &ignored);
        limber_pool_leave(ctx->pool);
    } else {
        for (int64_t t = 0; t < tasks; t++)
            run_task(&x, t, 0, &ignored);
    }
    if (at->r) {
        report(at);
        at->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

const struct way limber_way_vectors = {
    .id = WAY_vectors, .refuses = refuses, .run = run, .report = report
};
