/* SPDX-License-Identifier: BSD-3-Clause
 * Small native products of one float format, computed without scan, key, plan or packing.  Each
 * element is one chain of k fused multiply-adds, as in every kernel of the scheme `native` if k is
 * at most one chunk. */
#include "jit/tasks.h"
#include "jit/ways.h"

#include <stdatomic.h>
#include <string.h>

enum { BLOCK = 48 }; /* rows that cpu_ops.direct computes for one copy of some columns of B */

/* Returns the predicted seconds of one product of a batch on one core.  Small products reach half
 * of the unit's rate. */
static double direct_seconds(const struct target *t, const struct problem *p)
{
    return (double)p->m * (double)p->n * (double)p->k /
           (0.5 * t->rate[p->fc.size == 8 ? UNIT_f64 : UNIT_f32]);
}

/* True if a product of low rank is computed without packing although it is large.  Such an update
 * mostly reads and writes C.  The limits were measured: the target does not say how fast C is. */
static bool is_short(int64_t m, int64_t n, int64_t k)
{
    enum { K = 64, MOST = 1 << 22 };

    return k > 0 && k <= K && m > 0 && n > 0 && m <= MOST && n <= MOST && m * n <= MOST;
}

/* Returns the reason why the way `direct` (a code path) cannot compute the call, as text; NULL if
 * it can. */
static const char *why_not_direct(const limber_context *ctx, const struct problem *p)
{
    if (!limber_needs_native_sums(&p->contract) || p->contract.scheme || p->part.roundings)
        return "it serves native products";
    if (!ctx->machine.cpu || p->shape || !limber_format_is_binary(p->fc) ||
        !limber_format_equal(p->fa, p->fc) || !limber_format_equal(p->fb, p->fc))
        return "it serves products of f64 or f32 throughout on CPUs";
    if (!limber_is_direct_size(p->m, p->n, p->k) && !is_short(p->m, p->n, p->k))
        return "the product is large, or has k = 0";
    return (p->c.col == 1 || p->c.row == 1) && p->c.inner >= p->n && limber_is_strided(p) ?
               NULL :
               "the operands lie otherwise";
}

/* Computes one product by `code` or, if that is NULL, by library code for any shape.  x: alpha and
 * beta; NULL for C = A B, or C += A B if s->fixed.add is 1.  Returns false if the library has no
 * code for this machine. */
bool limber_shape_run(limber_context *ctx, const struct product_shape *s, const struct scaling *x,
                      limber_kernel code, const void *a, const void *b, void *c)
{
    const struct machine *m = &ctx->machine;

    if (!code)
        return m->cpu->direct(&s->fixed, x, &m->target, (int)s->size, a, b, c);
    code(a, b, c);
    return true;
}

/* State of a call while its tasks run. */
struct direct {
    limber_context *ctx;
    const struct problem *p;
    struct product_shape shape;
    struct spread a, b, c; /* addresses of each group's matrices */
    const struct scaling *scaling; /* alpha and beta; NULL if C = A B or C += A B */
    limber_kernel code; /* function compiled for this shape; NULL if there is none */
    bool large; /* its rows may be divided; other products may have a function of their shape */
    atomic_bool refused; /* set if the library has no code for this machine */
};

/* Computes some blocks of rows of one group's product or, unless `large`, all of it.  Does nothing
 * if the library has no code for this machine. */
static void run_piece(void *arg, const struct piece *w)
{
    struct direct *x = arg;
    const struct problem *p = x->p;
    const char *a = limber_spread_at(p->a.data, &x->a, w->group),
               *c = limber_spread_at(p->c.data, &x->c, w->group);
    struct product_shape shape = x->shape;

    if (x->large) {
        const int64_t first = w->first * BLOCK, end = w->end * BLOCK;

        shape.fixed.m = (end < p->m ? end : p->m) - first;
        a += first * shape.fixed.a.row * shape.size;
        c += first * shape.fixed.c.row * shape.size;
    }
    if (!limber_shape_run(x->ctx, &shape, x->scaling, x->code, a,
                          limber_spread_at(p->b.data, &x->b, w->group), (void *)(uintptr_t)c))
        atomic_store(&x->refused, true);
}

/* Returns the error bound of native sums of k products in binary64 (size 8) or binary32 (size 4),
 * in chains of at most NATIVE_CHAIN products: docs/accuracy.md, "Native chains". */
double limber_native_bound(int64_t k, int64_t size)
{
    const int64_t chain = k < NATIVE_CHAIN ? k : NATIVE_CHAIN,
                  chains = (k + NATIVE_CHAIN - 1) / NATIVE_CHAIN;

    return limber_chain_bound((double)chain, (double)(chains - 1), size == 8 ? 0x1p-53 : 0x1p-24);
}

/* Fills the report of a product that limber_shape_run computed in `seconds` seconds. */
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

/* The way `direct` (a code path): computes native products without packing.  RAN_not if the library
 * has no code for this machine. */
static enum ran run_direct(struct attempt *at)
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

    x.large = !limber_is_direct_size(p->m, p->n, p->k);
    if (limber_scaling(p->alpha, p->beta, p->fc.size, &scaling))
        x.scaling = &scaling;
    else if (!x.large)
        x.code = limber_shape_code(ctx, &x.shape, p->groups);
    limber_run_pieces(ctx,
                      &(struct division){ .groups = p->groups,
                                          .lines = x.large ? (p->m - 1) / BLOCK + 1 : 1,
                                          .vectors = 1,
                                          .seconds = direct_seconds(&ctx->machine.target, p) },
                      run_piece, &x);
    if (r && !x.refused)
        limber_shape_report(ctx, &x.shape, x.code, limber_now() - start, r);
    return limber_ran(!x.refused);
}

const struct way limber_way_direct = {
    .id = WAY_direct, .at_once = limber_direct_at_once, .refuses = why_not_direct, .run = run_direct
};
