/* SPDX-License-Identifier: BSD-3-Clause
 * Small native products of one float format, computed without scan, key, plan or packing.  An
 * element is one chain of k fused multiply-adds, which is what every kernel of the
 * scheme `native` computes for a k of at most one chunk. */
#include "jit/ways.h"

#include <stdatomic.h>
#include <string.h>

/* Multiply-adds of a product, 128 cubed: larger ones are as fast with packed panels, unless their
 * sums are short: updates of low rank, which read and write more of C than they multiply. */
enum { DIRECT_WORK = 128 * 128 * 128, SHORT = 64, SHORT_MOST = 1 << 22 };

bool limber_is_long_vector(int64_t m, int64_t n, int64_t k)
{
    enum { LONG_VECTOR = 4096 }; /* multiply-adds */

    return (m == 1 || n == 1) && (double)m * (double)n * (double)k > LONG_VECTOR;
}

bool limber_is_direct_size(int64_t m, int64_t n, int64_t k)
{
    return m > 0 && n > 0 && k > 0 && k <= LIMBER_SMALL_K && m <= DIRECT_WORK && n <= DIRECT_WORK &&
           m * n <= DIRECT_WORK && m * n * k <= DIRECT_WORK;
}

/* True if a large product of this size is computed without packing, too. */
static bool is_short(int64_t m, int64_t n, int64_t k)
{
    return k > 0 && k <= SHORT && m > 0 && n > 0 && m <= SHORT_MOST && n <= SHORT_MOST &&
           m * n <= SHORT_MOST;
}

/* The reason why this way does not serve the call; NULL: it does. */
static const char *refuses(const limber_context *ctx, const struct problem *p)
{
    if (!limber_is_plain(&p->contract) || p->contract.scheme || p->roundings)
        return "it serves native products";
    if (!ctx->machine.backend->direct || p->shape || !limber_format_is_binary(p->fc) ||
        !limber_format_equal(p->fa, p->fc) || !limber_format_equal(p->fb, p->fc))
        return "it serves products of f64 or f32 throughout on CPUs";
    if (!limber_is_direct_size(p->m, p->n, p->k) && !is_short(p->m, p->n, p->k))
        return "the product is large, or has k = 0";
    return (p->c.col == 1 || p->c.row == 1) && p->c.inner >= p->n && limber_is_strided(p) ?
               NULL :
               "the operands lie otherwise";
}

bool limber_shape_run(limber_context *ctx, const struct product_shape *s, const struct scaling *x,
                      limber_kernel code, const void *a, const void *b, void *c)
{
    const struct machine *m = &ctx->machine;

    if (!code)
        return m->backend->direct(&s->fixed, x, &m->target, (int)s->size, a, b, c);
    code(a, b, c);
    return true;
}

struct direct {
    limber_context *ctx;
    const struct problem *p;
    struct product_shape shape;
    struct spread a, b, c; /* addresses of the groups' matrices */
    const struct scaling *scaling; /* alpha and beta; NULL: C = A B or C += A B */
    limber_kernel code; /* the specialised function of this shape; NULL: none */
    int64_t rows; /* of a task */
    atomic_bool refused; /* out: there is no code for this machine */
};

/* Task: computes some rows of one product of the groups. */
static bool run_task(void *arg, int64_t task, int worker, struct diag *d)
{
    struct direct *x = arg;
    const struct problem *p = x->p;
    const int64_t tasks = (p->m - 1) / x->rows + 1, g = task / tasks,
                  first = task % tasks * x->rows, size = x->shape.size;
    const char *a = limber_spread_at(p->a.data, &x->a, g),
               *c = limber_spread_at(p->c.data, &x->c, g);
    struct product_shape shape = x->shape;
    bool ok;

    (void)worker, (void)d;
    shape.fixed.m = p->m - first < x->rows ? p->m - first : x->rows;
    ok = limber_shape_run(x->ctx, &shape, x->scaling, x->code, a + first * shape.fixed.a.row * size,
                          limber_spread_at(p->b.data, &x->b, g),
                          (void *)(uintptr_t)(c + first * shape.fixed.c.row * size));
    if (!ok)
        atomic_store(&x->refused, true);
    return ok;
}

double limber_native_bound(int64_t k, int64_t size)
{
    const int64_t chain = k < NATIVE_CHAIN ? k : NATIVE_CHAIN,
                  chains = (k + NATIVE_CHAIN - 1) / NATIVE_CHAIN;
    const double u = size == 8 ? 0x1p-53 : 0x1p-24, all = (double)(chain + chains - 1) * u,
                 one = (double)chain * u / (1 - (double)chain * u);

    return all < 0.5 ? all / (1 - all) : one + (double)(chains - 1) * u * (1 + one);
}

void limber_shape_report(const limber_context *ctx, const struct product_shape *s,
                         limber_kernel code, double seconds, struct report *r)
{
    limber_report_library(r, ctx->machine.backend->name, "native",
                          limber_native_bound(s->fixed.k, s->size));
    if (code)
        r->from = LIMBER_FROM_MEMORY;
    r->seconds_run = seconds;
    r->way = WAY_direct;
}

static enum ran run(struct attempt *at)
{
    limber_context *ctx = at->ctx;
    const struct problem *p = at->p;
    struct report *r = at->r;
    struct direct x = { .ctx = ctx,
                        .p = p,
                        .a = limber_groups_a(p),
                        .b = limber_groups_b(p),
                        .c = limber_groups_c(p),
                        .shape = { .fixed = { .m = p->m,
                                              .n = p->n,
                                              .k = p->k,
                                              .a = { p->a.line, p->a.p },
                                              .b = { p->b.p, p->b.line },
                                              .c = { p->c.row, p->c.col },
                                              .add = p->beta != NULL },
                                   .size = p->fc.size } };
    struct scaling scaling;
    double start = r ? limber_now() : 0;
    const double work = (double)p->m * (double)p->n * (double)p->k;
    const bool large = work > DIRECT_WORK;

    x.rows = large ? limber_task_lines(ctx, p->m, work, DIRECT_WORK) : p->m;
    if (limber_scaling(p->alpha, p->beta, p->fc.size, &scaling))
        x.scaling = &scaling;
    else if (!large)
        x.code = limber_shape_code(ctx, &x.shape, p->groups);
    if (large)
        limber_tasks_run(ctx, ((p->m - 1) / x.rows + 1) * p->groups, true, run_task, &x);
    else
        limber_groups_run_small(ctx, p, DIRECT_WORK, run_task, &x);
    if (r && !x.refused)
        limber_shape_report(ctx, &x.shape, x.code, limber_now() - start, r);
    return limber_ran(!x.refused);
}

const struct way limber_way_direct = { .id = WAY_direct, .refuses = refuses, .run = run };
