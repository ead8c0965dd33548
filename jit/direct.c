/* SPDX-License-Identifier: BSD-3-Clause
 * Small native products of one float format on operands as they lie: no scan, no key, no plan, no
 * packing.  An element is one chain of k fused multiply-adds, which is what every kernel of the
 * scheme `native` computes for a k of at most one chunk. */
#include "jit/engine.h"

#include <stdio.h>

/* Multiply-adds of a product, 96 cubed: from there on packed panels are as fast. */
enum { DIRECT_WORK = 96 * 96 * 96 };

/* The scalar is absent, or 1. */
static bool is_one(const void *scalar, int size)
{
    return !scalar || (size == 8 ? *(const double *)scalar == 1 : *(const float *)scalar == 1);
}

static bool is_plain(const struct view *v)
{
    return limber_view_strided(v) && !v->tile_subset;
}

bool limber_is_direct(const limber_context *ctx, const struct problem *p)
{
    return limber_is_plain(&p->contract) && ctx->small && ctx->machine.backend->direct &&
           !p->roundings && p->k > 0 && p->k <= LIMBER_SMALL_K && p->m <= DIRECT_WORK &&
           p->n <= DIRECT_WORK && p->m * p->n <= DIRECT_WORK && p->m * p->n * p->k <= DIRECT_WORK &&
           !p->contract.scheme && !p->shape && limber_format_is_binary(p->fc) &&
           limber_format_equal(p->fa, p->fc) && limber_format_equal(p->fb, p->fc) &&
           is_one(p->alpha, p->fc.size) && (!p->beta || is_one(p->beta, p->fc.size)) &&
           (p->c.col == 1 || p->c.row == 1) && p->c.inner >= p->n && !p->c.rows && !p->c.cols &&
           is_plain(&p->a) && is_plain(&p->b);
}

struct direct {
    limber_context *ctx;
    const struct problem *p;
};

static bool run_group(void *arg, int64_t g, int worker, struct diag *d)
{
    const struct direct *x = arg;
    const struct problem *p = x->p;
    const struct call call = { .m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .a = limber_group_a(p, g),
                               .b = limber_group_b(p, g),
                               .c = limber_group_c(p, g) };

    (void)worker, (void)d;
    return x->ctx->machine.backend->direct(&call, &x->ctx->machine.target, p->fc.size,
                                           p->beta != NULL);
}

/* Of a chain of k from +0: docs/accuracy.md, "Native chains". */
static double bound(const struct problem *p)
{
    double n = (double)p->k * (p->fc.size == 8 ? 0x1p-53 : 0x1p-24);

    return n / (1 - n);
}

void limber_direct_run(limber_context *ctx, const struct problem *p, struct report *r)
{
    struct direct x = { ctx, p };
    double start = r ? limber_now() : 0;

    limber_groups_run_small(ctx, p, DIRECT_WORK, run_group, &x);
    if (!r)
        return;
    *r = (struct report){ .rows = 1,
                          .from = LIMBER_FROM_MEMORY,
                          .bound = bound(p),
                          .seconds_run = limber_now() - start };
    snprintf(r->scheme, sizeof r->scheme, "native");
    snprintf(r->backend, sizeof r->backend, "%s", ctx->machine.backend->name);
}
