/* SPDX-License-Identifier: BSD-3-Clause
 * GEMMs: checks the arguments and states the problem. */
#include "jit/api/api.h"

static bool check_size(int64_t v, const char *what, struct diag *d)
{
    return v >= 0 ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is negative", what, (long long)v);
}

bool limber_check_sizes(int64_t m, int64_t n, int64_t k, struct diag *d)
{
    return check_size(m, "m", d) && check_size(n, "n", d) && check_size(k, "k", d);
}

limber_matrix limber_as_matrix(limber_output c)
{
    return (limber_matrix){ c.data, c.format, c.row_stride, c.col_stride };
}

/* Checks everything but the addresses. */
static bool check_product(const limber_contract *contract, const struct product *x, struct diag *d)
{
    return limber_check_sizes(x->m, x->n, x->k, d) &&
           limber_check_matrix(&x->a, "a", x->m, x->k, d) &&
           limber_check_matrix(&x->b, "b", x->k, x->n, d) &&
           limber_check_matrix(&x->c, "c", x->m, x->n, d) &&
           limber_contract_check(contract, x->a.format, x->b.format, x->c.format, d);
}

/* Checks the operands' addresses; for plans, which do not touch C. */
static bool check_operands(const struct product *x, struct diag *d)
{
    return limber_check_data(&x->a, "a", x->m, x->k, d) &&
           limber_check_data(&x->b, "b", x->k, x->n, d);
}

bool limber_check_addresses(const struct product *x, struct diag *d)
{
    const struct extent a = { &x->a, "a", x->m, x->k }, b = { &x->b, "b", x->k, x->n };
    const struct extent c = { &x->c, "c", x->m, x->n };

    return check_operands(x, d) && limber_check_data(&x->c, "c", x->m, x->n, d) &&
           limber_check_distinct(&x->c, "c", x->m, x->n, d) && limber_check_apart(c, a, d) &&
           limber_check_apart(c, b, d);
}

/* A prepared operand of a batch must be one matrix that all products read. */
static bool check_shared(const limber_problem *p, struct diag *d)
{
    const limber_batch *t = p->batch;
    bool one_a = !t || (!t->address_a && (t->a == 0 || t->count < 2));
    bool one_b = !t || (!t->address_b && (t->b == 0 || t->count < 2));

    if ((!p->prepared_a || one_a) && (!p->prepared_b || one_b))
        return true;
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "problem.prepared_%c: the products of the batch read unlike matrices",
                       p->prepared_a && !one_a ? 'a' : 'b');
}

/* Checks the addresses of a product or batch. stores: C is written, and must not overlap. */
static bool check_places(const limber_problem *p, const struct product *x, bool stores,
                         struct diag *d)
{
    if (p->batch)
        return limber_check_batch(p->batch, x, d);
    return stores ? limber_check_addresses(x, d) : check_operands(x, d);
}

/* Sets the groups of a problem from a batch. */
static void state_batch(const limber_batch *batch, struct problem *to)
{
    to->groups = batch->count;
    to->step_a = batch->a;
    to->step_b = batch->b;
    to->step_c = batch->c;
    to->each_a = batch->address_a;
    to->each_b = batch->address_b;
    to->each_c = batch->address_c;
    if (batch->count != 1)
        return;
    /* A batch of one product sets data, too, since code for single products reads no addresses. */
    to->a.data = to->each_a ? *to->each_a : to->a.data;
    to->b.data = to->each_b ? *to->each_b : to->b.data;
    to->c.data = to->each_c ? *to->each_c : to->c.data;
    to->each_a = to->each_b = NULL;
    to->each_c = NULL;
}

bool limber_gemm_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d)
{
    struct product x = { p->m, p->n, p->k, p->a, p->b, limber_as_matrix(p->c) };

    if (p->batch && p->batch->address_a) /* addresses replace data, which may be invalid */
        x.a.data = NULL;
    if (p->batch && p->batch->address_b)
        x.b.data = NULL;
    if (p->batch && p->batch->address_c)
        x.c.data = NULL;
    if (!check_product(p->contract, &x, d) || !check_places(p, &x, stores, d) ||
        !check_shared(p, d) ||
        !limber_prepared_fits(ctx, p->prepared_a, (struct extent){ &x.a, "prepared_a", x.m, x.k },
                              LIMBER_OPERATION_GEMM, LIMBER_SIDE_A, d) ||
        !limber_prepared_fits(ctx, p->prepared_b, (struct extent){ &x.b, "prepared_b", x.k, x.n },
                              LIMBER_OPERATION_GEMM, LIMBER_SIDE_B, d))
        return false;
    *to = (struct problem){
        .contract = *p->contract,
        .m = x.m,
        .n = x.n,
        .k = x.k,
        .groups = 1,
        .fa = x.a.format,
        .fb = x.b.format,
        .fc = x.c.format,
        .a = { x.a.data, x.a.row_stride, x.a.col_stride, NULL },
        .b = { x.b.data, x.b.col_stride, x.b.row_stride, NULL },
        .c = { .data = p->batch && p->batch->address_c ? NULL : p->c.data,
               .row = x.c.row_stride,
               .col = x.c.col_stride,
               .inner = x.n > 0 ? x.n : 1 },
        .alpha = limber_scalar(p->alpha, x.c.format, 1),
        .beta = limber_scalar(p->beta, x.c.format, 0),
        .queue = p->queue,
        .kept = { p->prepared_a, p->prepared_b },
    };
    if (p->batch)
        state_batch(p->batch, to);
    return true;
}
