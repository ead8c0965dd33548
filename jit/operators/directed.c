/* SPDX-License-Identifier: BSD-3-Clause
 * Products that are rounded in a given direction.  The engine computes sided results: each is the
 * float nearest to the exact value, and the side of that float on which the value lies.  So it is
 * known where the value lies between all numbers of the float's format and their midpoints, and
 * thus how it is rounded, in every mode, to this format and to smaller ones.  One product gives
 * the results of several modes. */
#include "jit/operators/directed.h"

#include "ir/num/prim_num.h"
#include "jit/tasks.h"

#include <string.h>

/* ---- one element ----------------------------------------------------------------------------- */

/* An element of a sided format. */
struct sided {
    struct limber_num number; /* the float */
    int side;
};

static struct sided read_sided(limber_format f, const char *at)
{
    struct sided x;

    limber_num_decode(&x.number, limber_num_base(f), at);
    x.side = (signed char)at[f.size / 2]; /* the lowest byte of an integer */
    return x;
}

/* Returns a number that is rounded like the exact value to all formats that the sided one decides:
 * one strictly between the float and its midpoint with the neighbour on that side, or the
 * midpoint. */
static struct limber_num number_of(limber_format f, const struct sided *x)
{
    const bool tie = x->side == 2 || x->side == -2;
    struct limber_num v = x->number;
    limber_u128 m;

    if (!x->side)
        return v;
    if (v.kind == NUM_inf) /* a finite value that was rounded to infinity */
        return (struct limber_num){ 0, 1, limber_format_emax(f) + 1, v.sign, NUM_finite };
    if (v.kind == NUM_zero)
        return (struct limber_num){ 0, 1, limber_format_quantum(f) - 1 - !tie, x->side < 0,
                                    NUM_finite };
    /* the neighbour is 8 units away, or 4 below a power of two */
    m = limber_num_sig(&v) << 3;
    if ((x->side > 0) == !v.sign)
        m += tie ? 4 : 1;
    else if (m == (limber_u128)8 << f.frac_bits && v.exp > limber_format_quantum(f))
        m -= tie ? 2 : 1;
    else
        m -= tie ? 4 : 1;
    v.hi = (uint64_t)(m >> 64);
    v.lo = (uint64_t)m;
    v.exp -= 3;
    return v;
}

/* Stores an element of a sided format, rounded to format `to`.  An exact zero that is rounded down
 * is -0, as IEEE 754-2019, 6.3, says of sums, unless the sum is empty. */
static void round_element(limber_format f, const char *from, limber_rounding mode, limber_format to,
                          bool empty, char *at)
{
    const struct sided x = read_sided(f, from);
    struct limber_num v = number_of(f, &x);

    if (v.kind == NUM_zero && mode == LIMBER_ROUND_DOWN && !empty)
        v.sign = 1;
    limber_num_encode(at, to, &v, 0, mode);
}

/* ---- rows of binary64 ------------------------------------------------------------------------ */

/* True if x, the double nearest to a value on this side of it, is not what the value becomes in the
 * rounding mode. */
static inline bool moves(limber_rounding mode, double x, int64_t side)
{
    switch (mode) {
    case LIMBER_ROUND_UP: return side > 0;
    case LIMBER_ROUND_DOWN: return side < 0;
    case LIMBER_ROUND_ZERO: return x > 0 ? side < 0 : x < 0 && side > 0;
    case LIMBER_ROUND_AWAY: return side == 2 ? x >= 0 : side == -2 && x <= 0;
    default: return false;
    }
}

/* Rounds n elements of sided binary64 to binary64, which need not be aligned.  empty: zeros keep
 * their signs. */
static void round_doubles(const char *from, limber_rounding mode, bool empty, int64_t n, char *to)
{
    const bool down = mode == LIMBER_ROUND_DOWN && !empty;

    for (int64_t j = 0; j < n; j++) {
        int64_t side;
        double x;

        memcpy(&x, from + 16 * j, sizeof x);
        memcpy(&side, from + 16 * j + 8, sizeof side);
        if (side && moves(mode, x, side))
            x = limber_next_double(x, side > 0 ? 1 : -1);
        else if (!side && down && x == 0)
            x = -0.0;
        memcpy(to + 8 * j, &x, sizeof x);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

/* A directed product while its tasks run. */
struct directed {
    const struct problem *p; /* the caller's */
    struct sided_problem sided;
    const struct directed_result *to;
    struct output_view c; /* a group's matrix */
    char *from; /* the same group's sided results */
};

static struct output_view group_of(const struct directed_result *x, int64_t g, int size)
{
    struct output_view c = x->c;

    if (x->each)
        c.data = x->each[g];
    else
        c.data = (char *)c.data + g * x->step * size;
    return c;
}

/* Task: rounds some rows of a group. */
static void round_rows(void *arg, const struct piece *piece)
{
    const struct directed *x = arg;
    const limber_format f = x->sided.p.fc, to = x->p->fc;
    const limber_rounding mode = x->to->rounding;
    const int64_t n = x->p->n;
    const bool doubles = limber_format_equal(to, LIMBER_F64) && x->c.col == 1 && x->c.inner >= n &&
                         !x->c.wide && !x->c.cols;
    const bool empty = x->p->k == 0 && !x->p->beta;

    for (int64_t i = piece->first; i < piece->end; i++) {
        const char *from = x->from + i * n * f.size;

        if (doubles) {
            round_doubles(from, mode, empty, n, limber_output_at(&x->c, i, 0, 8));
            continue;
        }
        for (int64_t j = 0; j < n; j++)
            round_element(f, from + j * f.size, mode, to, empty,
                          limber_output_at(&x->c, i, j, to.size));
    }
}

/* Task: copies rows of the old C to the sided results, which hold its values. */
static void copy_rows(void *arg, const struct piece *piece)
{
    const struct directed *x = arg;
    const limber_format f = x->sided.p.fc;
    struct diag ignored = { 0 };

    for (int64_t i = piece->first; i < piece->end; i++)
        for (int64_t j = 0; j < x->p->n; j++)
            limber_format_convert(x->from + (i * x->p->n + j) * f.size, limber_num_base(f),
                                  limber_output_at(&x->c, i, j, x->p->fc.size), x->p->fc, 1,
                                  LIMBER_ROUND_NEAREST, &ignored);
}

/* Calls `rows` for all rows of every group of a result. */
static void each_group(limber_context *ctx, struct directed *x, const struct directed_result *to,
                       void (*rows)(void *arg, const struct piece *piece))
{
    const struct problem *p = x->p;

    x->to = to;
    for (int64_t g = 0; g < p->groups; g++) {
        x->c = group_of(to, g, p->fc.size);
        x->from = (char *)x->sided.p.c.data + g * p->m * p->n * x->sided.p.fc.size;
        limber_run_pieces(ctx,
                          &(struct division){ .groups = 1,
                                              .lines = p->m,
                                              .vectors = 1,
                                              .seconds = 4e-9 * (double)p->m * (double)p->n },
                          rows, x);
    }
}

/* Returns the smallest sided format that decides the rounding to f in every mode: numbers of f and
 * midpoints of neighbours are numbers of its float, or f is its float. */
static limber_format sided_for(limber_format f)
{
    static const char *const names[] = { "sided64", "sided128" };
    limber_format sided = { 0 };

    for (size_t i = 0; i < COUNT(names); i++) {
        limber_format base;

        limber_format_named(names[i], &sided);
        base = limber_num_base(sided);
        if (limber_format_equal(f, base) ||
            (limber_format_embeds(f, base) && limber_format_sig(f) < limber_format_sig(base) &&
             limber_format_quantum(f) > limber_format_quantum(base)))
            break;
    }
    return sided;
}

/* Returns x, a scalar of C's format f, in the format of a sided result. */
static const void *convert_scalar(const void *x, limber_format f, limber_format sided, char *to)
{
    struct diag ignored = { 0 };

    return x && limber_format_convert(to, limber_num_base(sided), x, f, 1, LIMBER_ROUND_NEAREST,
                                      &ignored) ?
               to :
               NULL;
}

void limber_sided_problem(struct sided_problem *s, const struct problem *p)
{
    const limber_format f = sided_for(p->fc);

    s->p = *p;
    s->p.contract.rounding = LIMBER_ROUND_NEAREST;
    s->p.fc = f;
    s->p.c = (struct output_view){ .row = p->n, .col = 1, .inner = p->n > 0 ? p->n : 1 };
    s->p.at.step_c = p->m * p->n;
    s->p.at.each_c = NULL;
    s->p.alpha = convert_scalar(p->alpha, p->fc, f, s->alpha);
    s->p.beta = convert_scalar(p->beta, p->fc, f, s->beta);
}

bool limber_directed_run(limber_context *ctx, const struct problem *p,
                         const struct directed_result *to, int count, struct report *r,
                         struct diag *d)
{
    const struct directed_result old = { .c = p->c, .step = p->at.step_c, .each = p->at.each_c };
    struct directed x = { .p = p };
    size_t bytes;
    bool ok;

    if (limber_device_holds(ctx, old.each && p->groups ? *old.each : p->c.data))
        return limber_fail(
            d, LIMBER_STATUS_BAD_ARGUMENT,
            "contract.rounding: results in device memory are rounded to nearest only");
    limber_sided_problem(&x.sided, p);
    if (x.sided.p.fc.size == 32 && ctx->machine.backend->device_ops)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.rounding: on devices, results in f128 are rounded to nearest "
                           "only");
    if (__builtin_mul_overflow((size_t)p->m, (size_t)p->n, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)p->groups, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)x.sided.p.fc.size, &bytes) || bytes > PTRDIFF_MAX)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for sides of results");
    x.sided.p.c.data = bytes ? limber_memory_alloc(&ctx->allocator, bytes) : NULL;
    if (bytes && !x.sided.p.c.data)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for sides of results");
    if (bytes && x.sided.p.beta)
        each_group(ctx, &x, &old, copy_rows);
    ok = limber_engine_run(ctx, &x.sided.p, NULL, r, d);
    for (int i = 0; ok && bytes && i < count; i++)
        each_group(ctx, &x, &to[i], round_rows);
    limber_memory_free(&ctx->allocator, x.sided.p.c.data);
    return ok;
}
