/* SPDX-License-Identifier: BSD-3-Clause
 * GEMMs: checks the arguments and converts the problem to the engine's. */
#include "jit/accepted.h"
#include "jit/api/api.h"
#include "jit/ways.h"

/* Checks that one of m, n and k is not negative. */
static bool check_size(int64_t v, const char *what, struct diag *d)
{
    return v >= 0 ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is negative", what, (long long)v);
}

/* Checks that m, n and k are not negative. */
bool limber_check_sizes(int64_t m, int64_t n, int64_t k, struct diag *d)
{
    return check_size(m, "m", d) && check_size(n, "n", d) && check_size(k, "k", d);
}

/* Returns the result C as a limber_matrix, for checks. */
limber_matrix limber_as_matrix(limber_output c)
{
    return (limber_matrix){ c.data, c.format, c.row_stride, c.col_stride };
}

/* Checks the sizes, matrices and contract of a product, but no addresses. */
static bool check_product(const limber_contract *contract, const struct product_matrices *x,
                          struct diag *d)
{
    return limber_check_sizes(x->m, x->n, x->k, d) &&
           limber_check_matrix(&x->a, "a", x->m, x->k, d) &&
           limber_check_matrix(&x->b, "b", x->k, x->n, d) &&
           limber_check_matrix(&x->c, "c", x->m, x->n, d) &&
           limber_contract_check(contract, x->a.format, x->b.format, x->c.format, d);
}

/* Checks that A and B are not NULL. C may be NULL for plans, which do not write it. */
static bool check_operands(const struct product_matrices *x, struct diag *d)
{
    return limber_check_data(&x->a, "a", x->m, x->k, d) &&
           limber_check_data(&x->b, "b", x->k, x->n, d);
}

/* Checks that the matrices of one product are not NULL and that C overlaps neither operand. */
bool limber_check_addresses(const struct product_matrices *x, struct diag *d)
{
    const struct extent a = { &x->a, "a", x->m, x->k }, b = { &x->b, "b", x->k, x->n };
    const struct extent c = { &x->c, "c", x->m, x->n };

    return check_operands(x, d) && limber_check_data(&x->c, "c", x->m, x->n, d) &&
           limber_check_distinct(&x->c, "c", x->m, x->n, d) && limber_check_apart(c, a, d) &&
           limber_check_apart(c, b, d);
}

/* Checks that a prepared operand of a batch is one matrix that all its products read. */
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

/* Checks the addresses of a product or a batch. stores: C will be written, so its address and
 * overlap with A and B are checked, too. */
static bool check_call_addresses(const limber_problem *p, const struct product_matrices *x,
                                 bool stores, struct diag *d)
{
    if (p->batch)
        return limber_check_batch(p->batch, x, d);
    return stores ? limber_check_addresses(x, d) : check_operands(x, d);
}

/* Describes the products of a batch as groups of a problem. */
static void state_batch(const limber_batch *batch, struct problem *to)
{
    to->groups = batch->count;
    to->at.step_a = batch->a;
    to->at.step_b = batch->b;
    to->at.step_c = batch->c;
    to->at.each_a = batch->address_a;
    to->at.each_b = batch->address_b;
    to->at.each_c = batch->address_c;
    if (batch->count != 1)
        return;
    /* A batch of one product becomes a single product, since code for single products reads no
     * lists of addresses. */
    to->a.data = to->at.each_a ? *to->at.each_a : to->a.data;
    to->b.data = to->at.each_b ? *to->at.each_b : to->b.data;
    to->c.data = to->at.each_c ? *to->at.each_c : to->c.data;
    to->at.each_a = to->at.each_b = NULL;
    to->at.each_c = NULL;
}

/* Describes a product whose arguments were checked.  alpha: NULL if it is 1; beta: NULL if it is
 * 0. */
static void set_problem(struct problem *to, const limber_contract *contract,
                        const struct product_matrices *x, const void *alpha, const void *beta)
{
    *to = (struct problem){
        .contract = *contract,
        .m = x->m,
        .n = x->n,
        .k = x->k,
        .groups = 1,
        .fa = x->a.format,
        .fb = x->b.format,
        .fc = x->c.format,
        .a = { x->a.data, x->a.row_stride, x->a.col_stride, NULL },
        .b = { x->b.data, x->b.col_stride, x->b.row_stride, NULL },
        .c = { .data = (void *)(uintptr_t)x->c.data,
               .row = x->c.row_stride,
               .col = x->c.col_stride,
               .inner = x->n > 0 ? x->n : 1 },
        .alpha = alpha,
        .beta = beta,
    };
}

/* Checks a GEMM's arguments and describes it as an internal problem.  stores: C is written, so its
 * address and its overlap with A and B are checked, too. */
bool limber_gemm_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d)
{
    struct product_matrices x = { p->m, p->n, p->k, p->a, p->b, limber_as_matrix(p->c) };

    if (p->batch && p->batch->address_a) /* listed addresses replace data, which may be invalid */
        x.a.data = NULL;
    if (p->batch && p->batch->address_b)
        x.b.data = NULL;
    if (p->batch && p->batch->address_c)
        x.c.data = NULL;
    if (!check_product(p->contract, &x, d) || !check_call_addresses(p, &x, stores, d) ||
        !check_shared(p, d) ||
        !limber_prepared_fits(ctx, p->prepared_a, (struct extent){ &x.a, "prepared_a", x.m, x.k },
                              LIMBER_OPERATION_GEMM, LIMBER_SIDE_A, d) ||
        !limber_prepared_fits(ctx, p->prepared_b, (struct extent){ &x.b, "prepared_b", x.k, x.n },
                              LIMBER_OPERATION_GEMM, LIMBER_SIDE_B, d))
        return false;
    set_problem(to, p->contract, &x, limber_scalar(p->alpha, x.c.format, 1),
                limber_scalar(p->beta, x.c.format, 0));
    to->queue = p->queue;
    to->kept[0] = p->prepared_a;
    to->kept[1] = p->prepared_b;
    if (p->batch)
        state_batch(p->batch, to);
    return true;
}

/* ---- forms of products that were accepted ---------------------------------------------------- */

/* True if the contract names no scheme, unit, statistics, modulus or rounding, and has this
 * version's size. */
static bool is_plain_contract(const limber_contract *k)
{
    return k->size == sizeof *k && !k->scheme && !k->unit && !k->statistics && !k->modulus &&
           !k->rounding;
}

/* Writes the form (sizes, strides, formats, contract) of a single product to *f.  False if a form
 * cannot represent the contract. */
static inline bool read_form(const limber_contract *k, const struct product_matrices *x, bool alpha,
                             bool beta, struct form *f)
{
    if (!is_plain_contract(k))
        return false;
    *f = (struct form){ .m = x->m,
                        .n = x->n,
                        .k = x->k,
                        .a = { x->a.row_stride, x->a.col_stride },
                        .b = { x->b.row_stride, x->b.col_stride },
                        .c = { x->c.row_stride, x->c.col_stride },
                        .fa = x->a.format,
                        .fb = x->b.format,
                        .fc = x->c.format,
                        .promise = (int32_t)k->promise,
                        .bits = k->bits,
                        .slices = k->slices,
                        .split = (int32_t)k->split,
                        .on_miss = (int32_t)k->on_miss,
                        .flags = (alpha ? FORM_alpha : 0) | (beta ? FORM_beta : 0) };
    return true;
}

/* Adds to a form (key of repeated calls) what single products do not have: a batch, prepared
 * operands. */
static void extend_form(const limber_problem *p, const struct problem *x, struct long_form *f)
{
    const limber_batch *t = p->batch;

    f->form.flags |= FORM_long | (p->prepared_a ? FORM_a : 0) | (p->prepared_b ? FORM_b : 0) |
                     (x->beta && !limber_scalar(x->beta, x->fc, 1) ? FORM_one : 0);
    f->operation = (int64_t)p->operation;
    if (!t)
        return;
    f->groups = t->count;
    f->step[0] = t->a;
    f->step[1] = t->b;
    f->step[2] = t->c;
    f->form.flags |= (t->address_a ? FORM_listed_a : 0) | (t->address_b ? FORM_listed_b : 0) |
                     (t->address_c ? FORM_listed_c : 0);
}

/* Adds the geometry of a convolution to a form (key of repeated calls). */
static void extend_by_conv(const limber_conv *s, struct long_form *f)
{
    enum { FIRST = offsetof(limber_conv, n), LAYOUT = offsetof(limber_conv, layout) };
    enum { DEPTH = offsetof(limber_conv, d), BEFORE = (LAYOUT - FIRST) / 8 };
    const char *from = (const char *)s;

    /* all fields but `layout`, which is followed by padding, are numbers of 64 bits */
    _Static_assert(sizeof f->conv == LAYOUT - FIRST + 8 + sizeof *s - DEPTH, "all numbers");
    memcpy(f->conv, from + FIRST, LAYOUT - FIRST);
    f->conv[BEFORE] = s->layout;
    memcpy(f->conv + BEFORE + 1, from + DEPTH, sizeof *s - DEPTH);
    f->form.a = f->form.b = f->form.c = (struct strides){ 0, 0 };
}

/* Adds a call's form to the context's table.  Returns the entry, or NULL. */
struct accepted *limber_keep_form(limber_context *ctx, const limber_problem *p,
                                  const struct problem *x)
{
    const struct product_matrices product = {
        x->m, x->n, x->k, p->a, p->b, limber_as_matrix(p->c)
    };
    struct long_form f = { .groups = 0 };

    if (p->queue || p->epilogue || !read_form(p->contract, &product, x->alpha, x->beta, &f.form))
        return NULL;
    if (p->batch || p->conv || p->prepared_a || p->prepared_b)
        extend_form(p, x, &f);
    if (p->conv)
        extend_by_conv(p->conv, &f);
    return limber_accepted_add(ctx, &f.form, x, limber_ways_open);
}

/* True if the `bytes` bytes at p do not overlap the `bytes_c` bytes at c. */
static bool is_apart(const void *p, int64_t bytes, const void *c, int64_t bytes_c)
{
    const uintptr_t from = (uintptr_t)p, from_c = (uintptr_t)c;

    return p && c && from < from + (uintptr_t)bytes && from_c < from_c + (uintptr_t)bytes_c &&
           (from + (uintptr_t)bytes <= from_c || from_c + (uintptr_t)bytes_c <= from);
}

/* Fills *to with a product's problem, and returns the entry of an equal earlier call; NULL if there
 * is none. */
struct accepted *limber_gemm_find_form(const limber_context *ctx, const struct gemm_arguments *x,
                                       struct problem *to)
{
    static const limber_contract native = LIMBER_CONTRACT_INIT;
    const limber_contract *k = x->contract ? x->contract : &native;
    const struct product_matrices product = { x->m,  x->n,  x->k,
                                              *x->a, *x->b, limber_as_matrix(*x->c) };
    const limber_format c = x->c->format;
    const void *alpha = x->alpha, *beta = x->beta;
    struct accepted *w;
    struct form f;

    /* scalars of other formats are read only after all formats were checked */
    if (!ctx || ((alpha || beta) && !limber_format_is_binary(c)))
        return NULL;
    alpha = alpha && limber_scalar_is(alpha, c.size, 1) ? NULL : alpha;
    beta = beta && limber_scalar_is(beta, c.size, 0) ? NULL : beta;
    if (!read_form(k, &product, alpha, beta, &f) || !(w = limber_accepted_find(ctx, &f)))
        return NULL;
    if (is_apart(x->a->data, w->bytes_a, x->c->data, w->bytes_c) &&
        is_apart(x->b->data, w->bytes_b, x->c->data, w->bytes_c)) {
        set_problem(to, k, &product, alpha, beta);
        return w;
    }
    limber_accepted_release(w);
    return NULL;
}
