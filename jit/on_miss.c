/* SPDX-License-Identifier: BSD-3-Clause
 * What a call does while its kernel is being made: the interpreter computes rows of C, from the
 * last row upwards, until the kernel is ready to compute the remaining rows. */
#include "jit/engine.h"

/* seconds of interpreting between two checks whether the kernel is ready */
static const double slice = 2e-3;
/* Seconds.  If the interpreter would take longer for the whole product, it stops, because it slows
 * the compiler down. */
static const double worth = 60e-3;
enum { FIRST = 1 << 17 }; /* multiply-adds that are interpreted before the first check */
/* largest number of multiply-adds of a row; with longer rows, checks would be too rare */
enum { ROW = 1 << 21 };

/* True if rows of C can be computed separately.  The result must be a float: an integer result that
 * does not fit makes the call fail with all of C unchanged. */
static bool can_split_into_rows(const limber_context *ctx, const struct problem *p)
{
    return p->groups == 1 && !p->shape && limber_is_strided(p) && p->fc.kind == LIMBER_KIND_FLOAT &&
           !ctx->machine.backend->device_ops && limber_allows_any_scheme(&p->contract) &&
           (double)p->n * (double)p->k <= ROW;
}

/* Returns the problem of rows [first, first + count) of C. */
static struct problem rows_of(const struct problem *p, int64_t first, int64_t count)
{
    struct problem part = *p;

    part.m = count;
    part.a.data = (const char *)p->a.data + first * p->a.line * p->fa.size;
    part.c.data = (char *)p->c.data + first * p->c.row * p->fc.size;
    part.contract.on_miss = LIMBER_ON_MISS_WAIT;
    part.kept[0] = part.kept[1] = NULL;
    return part;
}

/* Returns the saved copy of C's rows, from row `first`. */
static struct output_view saved_rows(const struct problem *p, const struct on_miss *w,
                                     int64_t first)
{
    return (struct output_view){ .data = w->saved + (size_t)(first * p->n) * (size_t)p->fc.size,
                                 .row = p->n,
                                 .col = 1,
                                 .inner = p->n };
}

/* Interprets the next *count rows after those that were computed.  Doubles or halves *count so
 * that the next rows take about `slice` seconds.  False if the interpreter should stop. */
static bool interpret_rows(limber_context *generic, const struct problem *p, struct on_miss *w,
                           int64_t *count)
{
    int64_t rows = *count < w->rest.m ? *count : w->rest.m, first = w->rest.m - rows;
    struct problem part = rows_of(p, first, rows);
    const struct output_view saved = saved_rows(p, w, first);
    struct diag ignored = { 0 };
    double took = limber_now();

    limber_output_copy(&saved, &part.c, rows, p->n, p->fc.size);
    if (!w->run(generic, &part, &w->report, &ignored))
        return false; /* none of these rows was written */
    w->rest.m = first;
    w->rest.kept[0] = NULL; /* kept limbs belong to all rows of A, not to these */
    took = limber_now() - took;
    if (took < slice / 2)
        *count *= 2;
    else if (took > slice * 2 && *count > 1)
        *count /= 2;
    return took / (double)rows * (double)p->m < worth;
}

/* Interprets rows of C while the background thread compiles the kernel. w->rest: the rows that
 * are left.  Returns true if there are any. */
bool limber_on_miss_run(limber_context *ctx, const struct problem *p, const struct awaited *kernel,
                        struct on_miss *w)
{
    size_t bytes = (size_t)p->m * (size_t)p->n * (size_t)p->fc.size;
    int64_t count = FIRST / (p->n * p->k + 1) + 1;
    limber_context *generic;

    *w = (struct on_miss){ .rest = *p, .run = w->run };
    if (!can_split_into_rows(ctx, p))
        return true;
    generic = ctx->generic_of(ctx);
    w->saved = generic ? limber_memory_alloc(&ctx->allocator, bytes) : NULL;
    if (!w->saved)
        return true;
    while (w->rest.m > 0 && limber_background_busy(ctx->background, kernel->key, kernel->size, 0))
        if (!interpret_rows(generic, p, w, &count))
            break;
    return w->rest.m > 0;
}

/* Must follow limber_on_miss_run. done: the kernel has computed the remaining rows; if it is false,
 * the interpreter computes them.  If that fails, too, restores C and returns false. */
bool limber_on_miss_finish(limber_context *ctx, const struct problem *p, struct on_miss *w,
                           bool done)
{
    struct problem rows = rows_of(p, 0, w->rest.m),
                   written = rows_of(p, w->rest.m, p->m - w->rest.m);
    struct diag ignored = { 0 };

    if (!done && w->rest.m < p->m) {
        const struct output_view saved = saved_rows(p, w, w->rest.m);

        done = w->run(ctx->generic_of(ctx), &rows, NULL, &ignored);
        if (!done)
            limber_output_copy(&written.c, &saved, written.m, p->n, p->fc.size);
    }
    limber_memory_free(&ctx->allocator, w->saved);
    return done;
}
