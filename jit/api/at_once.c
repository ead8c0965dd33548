/* SPDX-License-Identifier: BSD-3-Clause
 * Plain small products: native, of doubles or of floats, in dense rows or columns, with no options.
 * Each test is a cheap form of one on the general path (problem.c, gemm.c, jit/direct.c).  A
 * product that fails a test takes that path, which serves or refuses it.  Nothing here takes a lock
 * or waits, so threads need no protection from cancellation. */
#include "jit/api/api.h"
#include "jit/shapes.h"

#include <string.h>

static bool is_equal(limber_format x, limber_format y)
{
    return memcmp(&x, &y, sizeof x) == 0;
}

static bool is_plain_contract(const limber_contract *k)
{
    return !k ||
           (k->size == sizeof *k &&
            (k->promise == LIMBER_CONTRACT_NATIVE || k->promise == LIMBER_CONTRACT_REPRODUCIBLE) &&
            !k->scheme && !k->unit && !k->statistics && !k->slices && !k->split &&
            (unsigned)k->on_miss <= LIMBER_ON_MISS_COMPILE);
}

/* The addresses of a matrix: [from, to). */
struct range {
    uintptr_t from, to;
};

/* False if the matrix may be neither dense rows nor dense columns, or exceed the address space. */
static inline bool find_range(const void *data, struct strides s, int64_t rows, int64_t cols,
                              int64_t size, struct range *r)
{
    const int64_t farthest = (int64_t)1 << 31;
    bool along = s.col == 1;
    int64_t lead = along ? s.row : s.col, lines = along ? rows : cols, length = along ? cols : rows;

    if (!data || !(along || s.row == 1) || lead < length || lead > farthest)
        return false;
    r->from = (uintptr_t)data;
    r->to = r->from + (uintptr_t)(((lines - 1) * lead + length) * size);
    return r->from < r->to;
}

static bool is_apart(struct range x, struct range y)
{
    return x.to <= y.from || y.to <= x.from;
}

/* The shape was validated when its function was made; only the address is new. */
static inline bool find_known_range(const void *data, int64_t bytes, struct range *r)
{
    r->from = (uintptr_t)data;
    r->to = r->from + (uintptr_t)bytes;
    return data && r->from < r->to;
}

/* False if the general path must check. */
static inline bool check_places(const struct product_shape *s, const struct made *made,
                                const void *a, const void *b, const void *c)
{
    const struct fixed *f = &s->fixed;
    struct range in_a, in_b, in_c;
    bool ok = made ? find_known_range(a, made->bytes_a, &in_a) &&
                         find_known_range(b, made->bytes_b, &in_b) &&
                         find_known_range(c, made->bytes_c, &in_c) :
                     limber_is_direct_size(f->m, f->n, f->k) &&
                         find_range(a, f->a, f->m, f->k, s->size, &in_a) &&
                         find_range(b, f->b, f->k, f->n, s->size, &in_b) &&
                         find_range(c, f->c, f->m, f->n, s->size, &in_c);

    return ok && is_apart(in_a, in_c) && is_apart(in_b, in_c);
}

static bool is_plain_report(const limber_report *r)
{
    return !r || (r->size == sizeof *r && r->part_size == sizeof(limber_part) &&
                  r->part_room >= 0 && (r->part || !r->part_room));
}

static bool multiply(limber_context *ctx, const struct gemm_arguments *x,
                     const struct product_shape *s, const struct scaling *scaling,
                     const struct made *made, limber_report *report)
{
    const limber_kernel code = made ? made->code : scaling ? NULL : limber_shape_code(ctx, s, 1);
    const void *a = x->a->data, *b = x->b->data;
    void *c = x->c->data;
    struct report r;
    double start;

    if (!report && made) {
        code(a, b, c);
        return true;
    }
    if (!report)
        return limber_shape_run(ctx, s, scaling, code, a, b, c);
    start = limber_now();
    if (!limber_shape_run(ctx, s, scaling, code, a, b, c))
        return false;
    limber_shape_report(ctx, s, code, limber_now() - start, &r);
    r.order = x->contract ? limber_order(x->contract) : 0;
    limber_report_out(report, &r);
    return true;
}

bool limber_gemm_at_once(limber_context *ctx, const struct gemm_arguments *x, limber_report *report)
{
    const limber_matrix *a = x->a, *b = x->b;
    const limber_output *c = x->c;
    const struct made *made;
    struct product_shape s;
    struct scaling scaling;
    bool scaled;

    if (limber_is_long_vector(x->m, x->n, x->k))
        return false;
    if (!ctx || !limber_has_way(ctx, WAY_direct) || !ctx->machine.backend->direct ||
        ctx->verbose > 0 || !is_plain_contract(x->contract) || !is_plain_report(report) ||
        !is_equal(a->format, c->format) || !is_equal(b->format, c->format))
        return false;
    s.size = is_equal(c->format, LIMBER_F64) ? 8 : 4;
    if (s.size == 4 && !is_equal(c->format, LIMBER_F32))
        return false;
    MODE_SCOPE; /* denormals-are-zero would make subnormal scalars 0 */
    s.fixed.m = x->m;
    s.fixed.n = x->n;
    s.fixed.k = x->k;
    s.fixed.a = (struct strides){ a->row_stride, a->col_stride };
    s.fixed.b = (struct strides){ b->row_stride, b->col_stride };
    s.fixed.c = (struct strides){ c->row_stride, c->col_stride };
    s.fixed.add = x->beta && !limber_scalar_is(x->beta, s.size, 0);
    scaled = (x->alpha || x->beta) && limber_scaling(x->alpha, x->beta, s.size, &scaling);
    made = scaled ? NULL : limber_shape_found(ctx, &s);
    return check_places(&s, made, a->data, b->data, c->data) && limber_has_stack(STACK_small) &&
           multiply(ctx, x, &s, scaled ? &scaling : NULL, made, report);
}

bool limber_run_at_once(limber_context *ctx, const limber_problem *p, limber_report *report)
{
    return p && p->size == sizeof *p && p->operation == LIMBER_OPERATION_GEMM &&
           p->domain == LIMBER_DOMAIN_REAL && p->conjugate == LIMBER_CONJUGATE_NONE &&
           p->complex_method == LIMBER_COMPLEX_AUTO && !p->conv && !p->epilogue && !p->prepared_a &&
           !p->prepared_b && !p->batch && !p->queue &&
           limber_gemm_at_once(ctx,
                               &(struct gemm_arguments){ p->contract, p->m, p->n, p->k, &p->a,
                                                         &p->b, &p->c, p->alpha, p->beta },
                               report);
}
