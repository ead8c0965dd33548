/* SPDX-License-Identifier: BSD-3-Clause
 * Products of matrices of intervals.  The product of points is computed once and rounded down and
 * up.  Intervals are enclosed by midpoints and radii, whose products are computed apart.
 * Source: Rump, Fast and parallel interval arithmetic, BIT 39 (1999), 534-554. */
#include "jit/operators/interval.h"

#include "jit/operators/directed.h"
#include "jit/tasks.h"

#include <math.h>
#include <string.h>

/* RADIUS_BITS: bits of the contract under which radii are multiplied. */
enum { RADIUS_BITS = 30 };

/* ---- elements -------------------------------------------------------------------------------- */

static inline double element(const limber_matrix *m, int64_t i, int64_t j)
{
    const char *at =
        (const char *)m->data + (i * m->row_stride + j * m->col_stride) * m->format.size;

    return limber_format_is_binary(m->format) ? limber_scalar_value(at, m->format.size) :
                                                limber_format_value(m->format, at);
}

bool limber_interval_check(const limber_matrix *low, const limber_matrix *high, const char *what,
                           int64_t rows, int64_t cols, struct diag *d)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double x = element(low, i, j), y = high->data ? element(high, i, j) : x;

            if (high->data ? x <= y && x < INFINITY && y > -INFINITY : isfinite(x))
                continue;
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "%s: element (%lld, %lld) is %s [%g, %g]", what, (long long)i,
                               (long long)j, high->data ? "no interval:" : "not finite:", x, y);
        }
    return true;
}

/* Returns a + b rounded up. */
static inline double add_up(double a, double b)
{
    const double s = a + b, part = s - a, rest = (a - (s - part)) + (b - part);

    /* rest is the exact rounding error, unless an addition overflowed */
    return rest <= 0 || s == INFINITY ? s : limber_next_double(s, 1);
}

/* Sets *mid and *rad >= 0 so that [mid - rad, mid + rad] contains [low, high]. */
static void split_interval(double low, double high, double *mid, double *rad)
{
    if (isinf(low) || isinf(high)) {
        *mid = 0;
        *rad = INFINITY;
        return;
    }
    *mid = low == high ? low : low / 2 + high / 2;
    *rad = low == high ? 0 : fmax(add_up(high, -*mid), add_up(*mid, -low));
}

/* ---- midpoints and radii --------------------------------------------------------------------- */

/* One operand.  The columns of `wide` of A are two blocks, |mid| and rad; the rows of `wide` of B
 * are rad and |mid| + rad, rounded up. */
struct balls {
    const limber_matrix *low, *high;
    int64_t rows, cols;
    bool right; /* the operand is B */
    double *mid, *wide; /* [rows][cols]; [rows][2 cols] of A, [2 rows][cols] of B */
};

/* Task: converts some rows of an operand. */
static void split_rows(void *arg, const struct piece *piece)
{
    const struct balls *x = arg;
    const int64_t cols = x->cols;

    for (int64_t i = piece->first; i < piece->end; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double low = element(x->low, i, j);
            const double high = x->high->data ? element(x->high, i, j) : low;
            double mid, rad;

            split_interval(low, high, &mid, &rad);
            x->mid[i * cols + j] = mid;
            if (x->right) {
                x->wide[i * cols + j] = rad;
                x->wide[(x->rows + i) * cols + j] = add_up(fabs(mid), rad);
            } else {
                x->wide[i * 2 * cols + j] = fabs(mid);
                x->wide[i * 2 * cols + cols + j] = rad;
            }
        }
}

static void run_rows(limber_context *ctx, int64_t rows, int64_t cols,
                     void (*task)(void *arg, const struct piece *piece), void *arg)
{
    if (!rows || !cols)
        return;
    limber_run_pieces(ctx,
                      &(struct division){ .groups = 1,
                                          .lines = rows,
                                          .vectors = 1,
                                          .seconds = 3e-8 * (double)rows * (double)cols },
                      task, arg);
}

/* ---- the call -------------------------------------------------------------------------------- */

struct enclosure {
    limber_context *ctx;
    const limber_interval_call *call;
    struct balls a, b;
    double *low, *high, *rad; /* [m][n]: bounds of the product of midpoints; its radius */
};

/* Returns `count` doubles, at least one; NULL if there is no memory. */
static double *doubles(limber_context *ctx, int64_t rows, int64_t cols, int64_t times)
{
    size_t bytes;

    if (__builtin_mul_overflow((size_t)rows, (size_t)cols, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)times * sizeof(double), &bytes) ||
        bytes > PTRDIFF_MAX)
        return NULL;
    return limber_memory_alloc(&ctx->allocator, bytes ? bytes : 1);
}

static bool allocate(struct enclosure *x, struct diag *d)
{
    const int64_t m = x->call->m, n = x->call->n, k = x->call->k;

    x->a.mid = doubles(x->ctx, m, k, 1);
    x->a.wide = x->a.mid ? doubles(x->ctx, m, k, 2) : NULL;
    x->b.mid = x->a.wide ? doubles(x->ctx, k, n, 1) : NULL;
    x->b.wide = x->b.mid ? doubles(x->ctx, k, n, 2) : NULL;
    x->low = x->b.wide ? doubles(x->ctx, m, n, 3) : NULL;
    if (!x->low)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for midpoints and radii");
    x->high = x->low + m * n;
    x->rad = x->high + m * n;
    return true;
}

static void release(struct enclosure *x)
{
    double *const all[] = { x->a.mid, x->a.wide, x->b.mid, x->b.wide, x->low };

    for (size_t i = 0; i < COUNT(all); i++)
        limber_memory_free(&x->ctx->allocator, all[i]);
}

/* Returns a dense product of doubles, m x k by k x n. */
static struct problem dense(int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                            double *c)
{
    return (struct problem){
        .contract = { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        .m = m,
        .n = n,
        .k = k,
        .groups = 1,
        .fa = LIMBER_F64,
        .fb = LIMBER_F64,
        .fc = LIMBER_F64,
        .a = { .data = a, .line = k, .p = 1 },
        .b = { .data = b, .line = 1, .p = n },
        .c = { .data = c, .row = n, .col = 1, .inner = n > 0 ? n : 1 },
    };
}

/* Computes the bounds of the product of midpoints, and radii that may still be a little small. */
static bool multiply(struct enclosure *x, struct report *r, struct diag *d)
{
    const int64_t m = x->call->m, n = x->call->n, k = x->call->k;
    struct problem mid = dense(m, n, k, x->a.mid, x->b.mid, x->low);
    struct problem rad = dense(m, n, 2 * k, x->a.wide, x->b.wide, x->rad);
    const struct directed_result to[] = { { .rounding = LIMBER_ROUND_DOWN, .c = mid.c },
                                          { .rounding = LIMBER_ROUND_UP, .c = mid.c } };
    struct directed_result bounds[2] = { to[0], to[1] };

    bounds[1].c.data = x->high;
    if (!x->a.high->data || !x->b.high->data)
        rad.k = k; /* the other block is zero: the first one if B has no radii, else the second */
    if (!x->b.high->data) {
        rad.a.data = x->a.wide + k;
        rad.b.data = x->b.wide + k * n;
    }
    rad.contract.promise = LIMBER_CONTRACT_BITS;
    rad.contract.bits = RADIUS_BITS;
    return limber_directed_run(x->ctx, &mid, bounds, 2, r, d) &&
           limber_engine_run(x->ctx, &rad, NULL, NULL, d);
}

/* Stores a bound, rounded to C's format, which is binary64 or binary32, up or down. */
static inline void store(const limber_output *c, int64_t i, int64_t j, double x, bool up)
{
    char *to = (char *)c->data + (i * c->row_stride + j * c->col_stride) * c->format.size;
    float narrow;

    if (c->format.size == 8) {
        memcpy(to, &x, sizeof x);
        return;
    }
    narrow = (float)x;
    if (up ? narrow < x : narrow > x)
        narrow = nextafterf(narrow, up ? INFINITY : -INFINITY);
    memcpy(to, &narrow, sizeof narrow);
}

/* Task: stores some rows of C. */
static void store_bounds(void *arg, const struct piece *piece)
{
    const struct enclosure *x = arg;
    const int64_t n = x->call->n;

    for (int64_t i = piece->first; i < piece->end; i++)
        for (int64_t j = 0; j < n; j++) {
            /* The contract allows an error of 2^-30 of the radius, which is a sum of numbers that
             * are not negative, and one rounding. */
            const double rad = x->rad[i * n + j] * (1 + 0x1p-28) + 0x1p-1073;
            const bool finite = isfinite(rad);

            store(&x->call->c_low, i, j, finite ? -add_up(-x->low[i * n + j], rad) : -INFINITY,
                  false);
            store(&x->call->c_high, i, j, finite ? add_up(x->high[i * n + j], rad) : INFINITY,
                  true);
        }
}

bool limber_interval_run(limber_context *ctx, const limber_interval_call *call,
                         const struct problem *points, struct report *r, struct diag *d)
{
    struct enclosure x = {
        .ctx = ctx,
        .call = call,
        .a = { &call->a_low, &call->a_high, call->m, call->k, false, NULL, NULL },
        .b = { &call->b_low, &call->b_high, call->k, call->n, true, NULL, NULL },
    };
    bool ok;

    if (!call->a_high.data && !call->b_high.data) {
        struct directed_result to[] = { { .rounding = LIMBER_ROUND_DOWN, .c = points->c },
                                        { .rounding = LIMBER_ROUND_UP, .c = points->c } };

        to[1].c.data = call->c_high.data;
        to[1].c.row = call->c_high.row_stride;
        to[1].c.col = call->c_high.col_stride;
        return limber_directed_run(ctx, points, to, 2, r, d);
    }
    ok = allocate(&x, d);
    if (ok) {
        run_rows(ctx, call->m, call->k, split_rows, &x.a);
        run_rows(ctx, call->k, call->n, split_rows, &x.b);
        ok = multiply(&x, r, d);
    }
    if (ok)
        run_rows(ctx, call->m, call->n, store_bounds, &x);
    release(&x);
    return ok;
}
