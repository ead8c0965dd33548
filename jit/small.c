/* SPDX-License-Identifier: BSD-3-Clause
 * Small products, and products with a few vectors, under the contracts `correct` and `bits`:
 * library code computes them without scan, key or compilation.  Correctly rounded results also
 * keep contracts in bits. */
#include "jit/ways.h"

#include <stdatomic.h>
#include <stdio.h>

/* Numbers of multiply-adds.  NATIVE_WORK: from 16 cubed on, native products of binary64 are
 * faster; for every k of their class they keep contracts of at most NATIVE_BITS bits.
 * VECTOR_WORK: a task of a product with a vector.  Other limits.  FEW: a matrix is multiplied by
 * at most this many vectors one by one; for more vectors kernels are faster.  BLOCK_LINES: rows
 * by which several vectors are multiplied in turn, so that the rows stay in a cache. */
enum { NATIVE_WORK = 1 << 12, NATIVE_BITS = 44, VECTOR_WORK = 1 << 15, FEW = 6, BLOCK_LINES = 64 };

/* Returns the number of vectors by which the other operand is multiplied one by one; 0 if they are
 * many, or if the product is small as a whole. */
static int64_t count_vectors(const struct problem *p)
{
    const int64_t n = p->m < p->n ? p->m : p->n;

    return p->k > 0 &&
                   (n == 1 || (n <= FEW && !limber_is_small(p->m, p->n, p->k, LIMBER_SMALL_WORK))) ?
               n :
               0;
}

/* True if native sums in binary64 keep the contract, and are faster for all but the smallest
 * products. */
static bool is_native_faster(const struct problem *p)
{
    return p->contract.promise == LIMBER_CONTRACT_BITS && p->contract.bits <= NATIVE_BITS &&
           p->fc.size == 8;
}

/* True if the library code keeps p's contract.  *allowed: the allowed error before rounding,
 * relative to |A||B|.  It is 0 for binary32 results, which are computed faster if they are
 * correctly rounded. */
static bool can_keep_contract(const struct problem *p, double *allowed)
{
    bool ok = limber_pairs_serve(&p->contract, allowed);

    if (p->fc.size == 4)
        *allowed = 0;
    return ok;
}

/* Returns the reason why the way `pairs` (a code path) cannot compute the call, as text; NULL if it
 * can. */
static const char *why_not_pairs(const limber_context *ctx, const struct problem *p)
{
    double allowed;

    if (!can_keep_contract(p, &allowed))
        return "it serves correct results and those in bits";
    if (!ctx->machine.cpu || p->shape || p->part.roundings || !limber_format_is_binary(p->fa) ||
        !limber_format_is_binary(p->fb) || !limber_format_is_binary(p->fc))
        return "it serves products of f64 and f32 on CPUs";
    if (is_native_faster(p) ?
            !limber_is_small(p->m, p->n, p->k, NATIVE_WORK) :
            !count_vectors(p) && !limber_is_small(p->m, p->n, p->k, LIMBER_SMALL_WORK))
        return "the product is large";
    return p->c.inner >= p->n && limber_is_strided(p) ? NULL : "the operands lie otherwise";
}

bool limber_check_small(const limber_context *ctx, const struct problem *p, struct diag *d)
{
    return !limber_names_pairs(&p->contract) ||
           (limber_has_way(ctx, WAY_pairs) && !why_not_pairs(ctx, p)) ||
           ctx->machine.backend == &limber_backend_interp ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "scheme pairs: serves correct and bits of f64 and f32 on CPUs, of up to %d "
                       "vectors and to %d multiply-adds (bits up to %d of f64: %d) and k = %d",
                       FEW, LIMBER_SMALL_WORK, NATIVE_BITS, NATIVE_WORK, LIMBER_SMALL_K);
}

/* A small product while its tasks run. */
struct small {
    limber_context *ctx;
    const struct problem *p;
    double allowed;
    /* A product with `vectors` vectors, the columns of B or the rows of A, is divided into `tasks`,
     * each of one vector and `rows` rows or columns of the other operand.  vectors is 0 for other
     * products, which are one task. */
    int64_t tasks, vectors, rows;
    atomic_llong slow; /* number of elements that were recomputed exactly */
};

/* Reduces a call to one vector and some rows of the matrix by which it is multiplied. */
static void select_task(const struct small *s, int64_t task, struct call *call)
{
    const struct problem *p = s->p;
    const int64_t v = task % s->vectors, first = task / s->vectors * s->rows;
    const bool by_columns = p->n <= p->m; /* the vectors are columns of B */
    struct view *vector = by_columns ? &call->b : &call->a,
                *matrix = by_columns ? &call->a : &call->b;
    int64_t *one = by_columns ? &call->n : &call->m, *lines = by_columns ? &call->m : &call->n;
    const int64_t to_vector = by_columns ? call->c.col : call->c.row,
                  to_line = by_columns ? call->c.row : call->c.col;

    *one = 1;
    *lines = *lines - first < s->rows ? *lines - first : s->rows;
    vector->data =
        (const char *)vector->data + v * vector->line * (by_columns ? p->fb.size : p->fa.size);
    matrix->data =
        (const char *)matrix->data + first * matrix->line * (by_columns ? p->fa.size : p->fb.size);
    call->c.data = (char *)call->c.data + (v * to_vector + first * to_line) * p->fc.size;
}

/* Task: computes some results of a product with a vector, or a complete product, by double-double
 * sums. */
static bool run_task(void *arg, int64_t task, int worker, struct diag *d)
{
    struct small *s = arg;
    const struct problem *p = s->p;
    const struct target *t = &s->ctx->machine.target;
    const int64_t g = task / s->tasks;
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
    int64_t slow;

    (void)worker, (void)d;
    if (s->vectors)
        select_task(s, task % s->tasks, &call);
    slow = s->ctx->machine.cpu->small(&call, t, p->fa, p->fb, p->fc, s->allowed);
    if (slow)
        atomic_fetch_add(&s->slow, slow);
    return true;
}

/* Runs tasks, in the pool's threads if `shared`, else in the caller's. */
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

/* Runs the way `pairs` (a code path): computes a product with a vector in tasks of some results,
 * other products in one task for each group, by double-double sums. */
static enum ran run_pairs(struct attempt *x)
{
    const struct problem *p = x->p;
    /* number of results of a product with a vector */
    const int64_t lines = p->m > p->n ? p->m : p->n;
    struct small s = { .ctx = x->ctx, .p = p, .tasks = 1, .vectors = count_vectors(p) };
    const double start = x->r ? limber_now() : 0;

    (void)can_keep_contract(p, &s.allowed);
    if (s.vectors) {
        s.rows = limber_task_lines(x->ctx, lines, (double)lines * (double)p->k, VECTOR_WORK);
        if (s.vectors > 1 && s.rows > BLOCK_LINES)
            s.rows = BLOCK_LINES;
        s.tasks = ((lines - 1) / s.rows + 1) * s.vectors;
    }
    if (s.tasks > 1)
        limber_tasks_run(x->ctx, s.tasks * p->groups, true, run_task, &s);
    else
        limber_groups_run_small(x->ctx, p, LIMBER_SMALL_WORK, run_task, &s);
    if (x->r) {
        limber_pairs_report(x);
        x->r->recomputed = s.slow;
        x->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

const struct way limber_way_pairs = {
    .id = WAY_pairs, .refuses = why_not_pairs, .run = run_pairs, .report = limber_pairs_report
};
