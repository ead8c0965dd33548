/* SPDX-License-Identifier: BSD-3-Clause
 * The way `direct` (a code path) for plain products, before they are checked and stated: small
 * ones, under the native contract, of doubles or of floats, with dense rows or columns.  Each test
 * is a cheap form of a test on the general path (problem.c, gemm.c, direct.c).  A product that
 * fails a test takes that path.  This code takes no lock and does not wait, so cancellation needs
 * no protection. */
#include "jit/shapes.h"
#include "jit/ways.h"

/* True if the contract is native or reproducible and sets no other option. */
static bool is_plain_contract(const limber_contract *k)
{
    return !k ||
           (k->size == sizeof *k &&
            (k->promise == LIMBER_CONTRACT_NATIVE || k->promise == LIMBER_CONTRACT_REPRODUCIBLE) &&
            !k->scheme && !k->unit && !k->statistics && !k->slices && !k->split && !k->modulus &&
            !k->rounding && (unsigned)k->on_miss <= LIMBER_ON_MISS_COMPILE);
}

/* The bytes that a matrix occupies: addresses from <= x < to. */
struct range {
    uintptr_t from, to;
};

/* Computes the addresses that a matrix occupies.  False if it has neither dense rows nor dense
 * columns, or if its extent might exceed the address space. */
static inline bool find_range(const void *data, struct strides s, int64_t rows, int64_t cols,
                              int64_t size, struct range *r)
{
    const int64_t farthest = (int64_t)1 << 31;
    bool has_dense_rows = s.col == 1;
    int64_t lead = has_dense_rows ? s.row : s.col, lines = has_dense_rows ? rows : cols,
            length = has_dense_rows ? cols : rows;

    if (!data || !(has_dense_rows || s.row == 1) || lead < length || lead > farthest)
        return false;
    r->from = (uintptr_t)data;
    r->to = r->from + (uintptr_t)(((lines - 1) * lead + length) * size);
    return r->from < r->to;
}

/* True if the ranges do not overlap. */
static bool is_apart(struct range x, struct range y)
{
    return x.to <= y.from || y.to <= x.from;
}

/* Computes the addresses that a matrix of `bytes` bytes occupies.  False if the address is NULL or
 * the matrix exceeds the address space.  Its shape was validated when the function for that shape
 * was made. */
static inline bool find_known_range(const void *data, int64_t bytes, struct range *r)
{
    r->from = (uintptr_t)data;
    r->to = r->from + (uintptr_t)bytes;
    return data && r->from < r->to;
}

/* True if all addresses are valid and C overlaps neither operand.  False if only the general path
 * can tell. made: the function for this shape, or NULL. */
static inline bool are_addresses_valid(const struct product_shape *s, const struct made *made,
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

/* Multiplies by the function `made` or, if that is NULL, by code for any shape.  False if the
 * library has no such code for this machine.  Fills the report unless it is NULL. */
static inline bool multiply_directly(limber_context *ctx, const struct gemm_arguments *x,
                                     const struct product_shape *s, const struct scaling *scaling,
                                     const struct made *made, struct report *report)
{
    const limber_kernel code = made ? made->code : scaling ? NULL : limber_shape_code(ctx, s, 1);
    const void *a = x->a->data, *b = x->b->data;
    void *c = x->c->data;
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
    limber_shape_report(ctx, s, code, limber_now() - start, report);
    return true;
}

/* Computes C = alpha A B + beta C if the call is simple enough: native contract, one format
 * (binary32 or binary64) and valid arguments.  Passes other contracts and formats on to the next
 * way (code path) of the list.  False if the product was not computed. */
bool limber_direct_at_once(limber_context *ctx, const struct gemm_arguments *x,
                           struct report *report, const struct way *const *at)
{
    const limber_matrix *a = x->a, *b = x->b;
    const limber_output *c = x->c;
    const struct made *made;
    struct product_shape s;
    struct scaling scaling;
    bool scaled;

    if (!limber_has_way(ctx, WAY_direct) || !ctx->machine.cpu || ctx->tells.verbose > 0 ||
        !is_plain_contract(x->contract) || !limber_same_format(a->format, c->format) ||
        !limber_same_format(b->format, c->format))
        return limber_pass_on(ctx, x, report, at);
    s.size = limber_same_format(c->format, LIMBER_F64) ? 8 : 4;
    if (s.size == 4 && !limber_same_format(c->format, LIMBER_F32))
        return limber_pass_on(ctx, x, report, at);
    MODE_SCOPE; /* denormals-are-zero would make subnormal scalars 0 */
    s.fixed.m = x->m;
    s.fixed.n = x->n;
    s.fixed.k = x->k;
    s.fixed.a = (struct strides){ a->row_stride, a->col_stride };
    s.fixed.b = (struct strides){ b->row_stride, b->col_stride };
    s.fixed.c = (struct strides){ c->row_stride, c->col_stride };
    s.fixed.add = x->beta && !limber_scalar_is(x->beta, s.size, 0);
    scaled = (x->alpha || x->beta) && limber_scaling(x->alpha, x->beta, s.size, &scaling);
    made = scaled ? NULL : limber_find_shape_function(ctx, &s);
    return are_addresses_valid(&s, made, a->data, b->data, c->data) &&
           limber_has_stack(STACK_small) &&
           multiply_directly(ctx, x, &s, scaled ? &scaling : NULL, made, report);
}
