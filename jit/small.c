/* SPDX-License-Identifier: BSD-3-Clause
 * Small products, and those with a vector, to a contract by library code: no scan, no key, nothing
 * is compiled.  Correctly rounded results also keep contracts in bits. */
#include "jit/ways.h"

#include <stdatomic.h>
#include <stdio.h>

/* Multiply-adds of a product, 64 cubed: kernels compute larger ones faster, or nearly so.  Native
 * products of binary64 are faster from 16 cubed on; for every k of their class they keep contracts
 * of at most NATIVE_BITS bits.  A task of a product with a vector has VECTOR_WORK. */
enum { WORK = 1 << 18, NATIVE_WORK = 1 << 12, NATIVE_BITS = 44, VECTOR_WORK = 1 << 15 };

static bool is_vector(const struct problem *p)
{
    return limber_has_vector(p) && p->k > 0;
}

static bool is_native_faster(const struct problem *p)
{
    return p->contract.promise == LIMBER_CONTRACT_BITS && p->contract.bits <= NATIVE_BITS &&
           p->fc.size == 8;
}

/* True if the library code serves p.  *allowed: the error before rounding.  It is 0 for binary32,
 * which is faster if it is only rounded correctly. */
static bool is_served(const struct problem *p, double *allowed)
{
    bool ok = limber_pairs_serve(&p->contract, allowed);

    if (p->fc.size == 4)
        *allowed = 0;
    return ok;
}

/* The reason why this way does not serve the call; NULL: it does. */
static const char *refuses(const limber_context *ctx, const struct problem *p)
{
    double allowed;
    int64_t work = is_native_faster(p) ? NATIVE_WORK : WORK;

    if (!is_served(p, &allowed))
        return "it serves correct results and those in bits";
    if (!ctx->machine.backend->small || p->shape || p->roundings ||
        !limber_format_is_binary(p->fa) || !limber_format_is_binary(p->fb) ||
        !limber_format_is_binary(p->fc))
        return "it serves products of f64 and f32 on CPUs";
    if ((!is_vector(p) || is_native_faster(p)) &&
        (p->k > LIMBER_SMALL_K || p->m > work || p->n > work || p->m * p->n > work ||
         p->m * p->n * p->k > work))
        return "the product is large";
    return p->c.inner >= p->n && limber_is_strided(p) ? NULL : "the operands lie otherwise";
}

bool limber_check_small(const limber_context *ctx, const struct problem *p, struct diag *d)
{
    return !limber_names_pairs(&p->contract) ||
           (limber_has_way(ctx, WAY_pairs) && !refuses(ctx, p)) ||
           ctx->machine.backend == &limber_backend_interp ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "scheme pairs: serves correct and bits of f64 and f32 on CPUs, of vectors "
                       "and to %d multiply-adds (bits up to %d of f64: %d) and k = %d",
                       WORK, NATIVE_BITS, NATIVE_WORK, LIMBER_SMALL_K);
}

/* A small product while its tasks run. */
struct small {
    limber_context *ctx;
    const struct problem *p;
    double allowed;
    int64_t tasks, rows; /* a product with a vector is cut into tasks of so many results */
    atomic_llong slow; /* elements that were summed again, exactly */
};

/* Task: computes some results, or a whole group, by sums of pairs. */
static bool run_task(void *arg, int64_t task, int worker, struct diag *d)
{
    struct small *s = arg;
    const struct problem *p = s->p;
    const struct target *t = &s->ctx->machine.target;
    const int64_t g = task / s->tasks, first = task % s->tasks * s->rows;
    struct call call = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = limber_group_a(p, g),
        .b = limber_group_b(p, g),
        .c = limber_group_c(p, g),
        .alpha = p->alpha,
        .beta = p->beta,
    };
    int64_t slow, *results = p->n == 1 ? &call.m : &call.n;
    struct view *matrix = p->n == 1 ? &call.a : &call.b;

    (void)worker, (void)d;
    if (s->tasks > 1) {
        *results = *results - first < s->rows ? *results - first : s->rows;
        matrix->data = (const char *)matrix->data +
                       first * matrix->line * (p->n == 1 ? p->fa.size : p->fb.size);
        call.c.data =
            (char *)call.c.data + first * (p->n == 1 ? call.c.row : call.c.col) * p->fc.size;
    }
    slow = s->ctx->machine.backend->small(&call, t, p->fa, p->fb, p->fc, s->allowed);
    if (slow)
        atomic_fetch_add(&s->slow, slow);
    return true;
}

void limber_tasks_run(limber_context *ctx, int64_t tasks, bool shared,
                      bool (*fn)(void *arg, int64_t task, int worker, struct diag *d), void *arg)
{
    struct runner all = limber_pool_runner(ctx->pool);
    struct diag ignored = { 0 };

    if (shared && tasks > 1 && all.workers > 1) {
        limber_pool_enter(ctx->pool);
        limber_groups_run(&all, tasks, fn, arg, &ignored);
        limber_pool_leave(ctx->pool);
    } else {
        for (int64_t t = 0; t < tasks; t++)
            fn(arg, t, 0, &ignored);
    }
}

int64_t limber_task_lines(limber_context *ctx, int64_t lines, double work, double least)
{
    const int workers = limber_pool_runner(ctx->pool).workers;
    const double tasks = work / least + 1;

    if (workers == 1)
        return lines;
    return tasks < 8 * workers ? (lines - 1) / (int64_t)tasks + 1 : (lines - 1) / (8 * workers) + 1;
}

void limber_groups_run_small(limber_context *ctx, const struct problem *p, int64_t work,
                             bool (*fn)(void *arg, int64_t g, int worker, struct diag *d),
                             void *arg)
{
    limber_tasks_run(ctx, p->groups, p->groups > 4 * work / (p->m * p->n * p->k + 1), fn, arg);
}

void limber_pairs_report(struct attempt *x)
{
    struct report *r = x->r;
    const double scan = r->seconds_scan;

    limber_report_library(r, x->ctx->machine.backend->name, "pairs", 0);
    r->seconds_scan = scan;
}

static enum ran run(struct attempt *x)
{
    const struct problem *p = x->p;
    const int64_t lines = p->m > p->n ? p->m : p->n; /* lines of a product with a vector */
    struct small s = { .ctx = x->ctx, .p = p, .tasks = 1 };
    const double start = x->r ? limber_now() : 0;

    (void)is_served(p, &s.allowed);
    if (is_vector(p)) {
        s.rows = limber_task_lines(x->ctx, lines, (double)lines * (double)p->k, VECTOR_WORK);
        s.tasks = (lines - 1) / s.rows + 1;
    }
    if (s.tasks > 1)
        limber_tasks_run(x->ctx, s.tasks * p->groups, true, run_task, &s);
    else
        limber_groups_run_small(x->ctx, p, WORK, run_task, &s);
    if (x->r) {
        limber_pairs_report(x);
        x->r->recomputed = s.slow;
        x->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

const struct way limber_way_pairs = {
    .id = WAY_pairs, .refuses = refuses, .run = run, .report = limber_pairs_report
};
