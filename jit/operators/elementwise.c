/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions of arrays.  An array is processed in pieces that fit the cache.  A piece is
 * converted to doubles, the backend computes values that are rounded to odd, and these are rounded
 * to the result's format.  For long arrays of 8 or 16 bits a table of all values is made, which
 * gives the same bits. */
#include "jit/engine.h"
#include "jit/operators/inside.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 512, /* elements of a piece, so that it fits in L1 */
    TASK = 1 << 15, /* elements of a task */
    TABLES = 32, /* largest number of tables of a context, each of up to 256 KiB */
    LONG = 1 << 14 /* elements for which making a table pays */
};

/* The key of a table.  It has no padding, since it is compared as bytes. */
struct table_key {
    double p, q;
    limber_format from, to;
    int32_t function, rounding, compute, unused;
};

/* All values of a function of a small format, indexed by the operand's bit pattern. */
struct table {
    struct table_key key;
    struct lookup lookup;
    int users; /* number of calls that are reading the table */
    struct table *next;
};

/* Frees a list of function tables. */
void limber_tables_free(struct table *list)
{
    for (struct table *t = list, *next; t; t = next) {
        next = t->next;
        free(t->lookup.table);
        free(t);
    }
}

/* A call of an elementwise function while its tasks run. */
struct elementwise_call {
    const limber_elementwise *e;
    const limber_context *ctx; /* if NULL, one thread computes, without vector code */
    const struct lookup *lookup; /* NULL if values are computed, not looked up */
    struct fn_args args;
    /* true if the function of a binary32 number may return any double that rounds to the right
     * binary32 number */
    bool single;
};

/* Converts n values of format f to doubles. */
void limber_values_widen(const limber_context *ctx, limber_format f, const void *src, double *x,
                         size_t n)
{
    const struct function_ops *ops = limber_host_functions(ctx);
    struct diag d = { 0 };

    if (!ops || !ops->widen(&limber_host(ctx)->target, f, src, x, (int64_t)n))
        limber_format_convert(x, LIMBER_F64, src, f, n, LIMBER_ROUND_NEAREST, &d);
}

/* Rounds n doubles to format f.  The doubles may have been rounded to odd before. */
void limber_values_narrow(const limber_context *ctx, limber_format f, limber_rounding rounding,
                          const double *x, void *dst, size_t n)
{
    const struct function_ops *ops = limber_host_functions(ctx);
    struct diag d = { 0 };

    if (!ops || rounding != LIMBER_ROUND_NEAREST ||
        !ops->narrow(&limber_host(ctx)->target, f, x, dst, (int64_t)n))
        limber_format_convert(dst, f, x, LIMBER_F64, n, rounding, &d);
}

/* Computes a function of n doubles in place. */
void limber_values_function(const limber_context *ctx, limber_function f, const struct fn_args *a,
                            double *x, size_t n, bool single)
{
    const struct function_ops *ops = limber_host_functions(ctx);

    if (!ops || !ops->run(&limber_host(ctx)->target, f, a, x, (int64_t)n, single))
        for (size_t i = 0; i < n; i++)
            x[i] = limber_function_value(f, a, x[i]);
}

/* Computes at most PIECE elements: converts them to doubles, computes, and rounds. */
static void compute_piece(const struct elementwise_call *j, const char *src, char *dst, size_t n)
{
    const limber_elementwise *e = j->e;
    double x[PIECE];

    limber_values_widen(j->ctx, e->from, src, x, n);
    limber_values_function(j->ctx, e->function, &j->args, x, n, j->single);
    for (size_t i = 0; e->compute == LIMBER_COMPUTE_F32 && i < n; i++)
        x[i] = (double)(float)x[i];
    limber_values_narrow(j->ctx, e->to, e->rounding, x, dst, n);
}

/* Computes n elements without conversion to doubles: functions that are cheap in the format itself,
 * or a cast from binary32.  Returns false, and computes nothing, for other calls. */
static bool compute_in_format(const struct elementwise_call *j, const char *src, char *dst,
                              int64_t n)
{
    const struct function_ops *ops = limber_host_functions(j->ctx);
    const limber_elementwise *e = j->e;
    const struct target *t = ops ? &limber_host(j->ctx)->target : NULL;
    bool is_f32 = limber_format_equal(e->from, LIMBER_F32);
    struct epilogue_step s = { .function = e->function, .number = { e->p, e->q } };

    if (!ops || e->rounding != LIMBER_ROUND_NEAREST || e->compute != LIMBER_COMPUTE_EXACT ||
        !limber_format_is_binary(e->from))
        return false;
    if (e->function == LIMBER_FUNCTION_CAST)
        return is_f32 && ops->store(t, true, src, e->to, dst, n);
    return limber_format_equal(e->from, e->to) &&
           (!is_f32 || ((double)(float)e->p == e->p && (double)(float)e->q == e->q)) &&
           ops->step(t, &s, is_f32, src, src, dst, n);
}

/* Computes elements [first, last): by the table of all results, in the elements' format, by
 * conversion alone (for casts), or else in pieces by way of binary32 or binary64. */
static void compute_range(const struct elementwise_call *j, size_t first, size_t last)
{
    const limber_elementwise *e = j->e;
    const char *src = e->src;
    char *dst = e->dst;
    struct diag d = { 0 };

    if (j->lookup) {
        (void)limber_host_functions(j->ctx)->look_up(
            &limber_host(j->ctx)->target, j->lookup, src + first * e->from.size,
            dst + first * e->to.size, (int64_t)(last - first));
        return;
    }
    if (compute_in_format(j, src + first * e->from.size, dst + first * e->to.size,
                          (int64_t)(last - first)))
        return;
    if (e->function == LIMBER_FUNCTION_CAST && e->compute == LIMBER_COMPUTE_EXACT &&
        !(limber_format_embeds(e->from, LIMBER_F64) && e->to.kind == LIMBER_KIND_FLOAT)) {
        limber_format_convert(dst + first * e->to.size, e->to, src + first * e->from.size, e->from,
                              last - first, e->rounding, &d);
        return;
    }
    for (size_t i = first, n; i < last; i += n) {
        n = last - i < PIECE ? last - i : PIECE;
        compute_piece(j, src + i * e->from.size, dst + i * e->to.size, n);
    }
}

/* Task: computes the function for a range of elements. */
static void run_task(void *arg, int64_t task, int worker)
{
    const struct elementwise_call *j = arg;
    size_t first = (size_t)task * TASK, count = j->e->count;

    (void)worker;
    compute_range(j, first, count - first < TASK ? count : first + TASK);
}

/* ---- tables of all values of a function ------------------------------------------------------ */

/* True if the operand's format has so few bit patterns that a table of all values is possible, and
 * the backend can use the table. */
static bool has_table(const struct elementwise_call *j)
{
    const limber_elementwise *e = j->e;
    bool small = !e->from.carried && e->from.size <= 2 && limber_is_real(e->from);

    return limber_host_functions(j->ctx) && small && e->to.size <= 4 &&
           limber_host_functions(j->ctx)->look_up(&limber_host(j->ctx)->target,
                                                  &(struct lookup){ 2, 2, NULL }, NULL, NULL, 0);
}

/* Makes a table by computing the function for all bit patterns of the format.  NULL if memory runs
 * out. */
static struct table *make_table(const struct elementwise_call *j, const struct table_key *key)
{
    size_t codes = (size_t)1 << 8 * j->e->from.size, bytes = codes * j->e->to.size;
    struct table *t = calloc(1, sizeof *t);
    struct elementwise_call all = *j;
    limber_elementwise e = *j->e;
    uint16_t *code = malloc(codes * sizeof *code);

    if (t)
        t->lookup.table = calloc(1, bytes + 4); /* gathers of 32 bits read past the last entry */
    if (!t || !t->lookup.table || !code) {
        limber_tables_free(t);
        free(code);
        return NULL;
    }
    for (size_t i = 0; i < codes; i++)
        if (e.from.size == 2)
            code[i] = (uint16_t)i;
        else
            ((uint8_t *)code)[i] = (uint8_t)i;
    e.src = code;
    e.dst = t->lookup.table;
    e.count = codes;
    all.e = &e;
    compute_range(&all, 0, codes);
    t->key = *key;
    t->lookup.from = e.from.size;
    t->lookup.to = e.to.size;
    free(code);
    return t;
}

/* Finds the table of a key, moves it to the front of the list and counts one more user.  NULL if
 * there is none.  The context's lock is held. */
static struct table *use_table(limber_context *ctx, const struct table_key *key)
{
    for (struct table **at = &ctx->tables, *t; (t = *at); at = &t->next)
        if (!memcmp(&t->key, key, sizeof *key)) {
            *at = t->next;
            t->next = ctx->tables;
            ctx->tables = t;
            t->users++;
            return t;
        }
    return NULL;
}

/* Adds a table to the list.  If the list is full, evicts the least recently used table that has no
 * users; false if all have.  The context's lock is held. */
static bool keep_table(limber_context *ctx, struct table *made)
{
    struct table **oldest = NULL, *gone;
    int count = 0;

    for (struct table **at = &ctx->tables; *at; at = &(*at)->next, count++)
        if ((*at)->users == 0)
            oldest = at;
    if (count >= TABLES) {
        if (!oldest)
            return false;
        gone = *oldest;
        *oldest = gone->next;
        gone->next = NULL;
        limber_tables_free(gone);
    }
    made->users = 1;
    made->next = ctx->tables;
    ctx->tables = made;
    return true;
}

/* Returns the table for this call, which is made if the array is long; NULL if the call uses none.
 * A table must be released by release_table. */
static struct table *get_table(limber_context *ctx, const struct elementwise_call *j)
{
    const limber_elementwise *e = j->e;
    struct table_key key = { .p = e->p,
                             .q = e->q,
                             .from = e->from,
                             .to = e->to,
                             .function = (int32_t)e->function,
                             .rounding = (int32_t)e->rounding,
                             .compute = (int32_t)e->compute };
    struct table *found, *made;
    bool kept = false;

    if (!has_table(j))
        return NULL;
    pthread_mutex_lock(&ctx->lock);
    found = use_table(ctx, &key);
    pthread_mutex_unlock(&ctx->lock);
    if (found || e->count < LONG || !(made = make_table(j, &key)))
        return found;
    pthread_mutex_lock(&ctx->lock);
    found = use_table(ctx, &key); /* another thread may have made the table in the meantime */
    if (!found)
        kept = keep_table(ctx, made);
    pthread_mutex_unlock(&ctx->lock);
    if (!kept)
        limber_tables_free(made);
    return kept ? made : found;
}

/* Ends a use of the table. */
static void release_table(limber_context *ctx, struct table *t)
{
    pthread_mutex_lock(&ctx->lock);
    t->users--;
    pthread_mutex_unlock(&ctx->lock);
}

/* Computes the complete array, on all threads if it is long. */
static void run_all(limber_context *ctx, struct elementwise_call *j)
{
    struct runner runner;

    if (!ctx || j->e->count <= TASK) {
        compute_range(j, 0, j->e->count);
        return;
    }
    limber_pool_enter(ctx->pool);
    runner = limber_pool_runner(ctx->pool);
    runner.run(runner.self, (int64_t)((j->e->count + TASK - 1) / TASK), run_task, j);
    limber_pool_leave(ctx->pool);
}

/* Computes an elementwise operation: by a table of all results if the source format is small
 * enough, else element by element. j.single: the result is rounded to binary32, so that functions
 * of binary32 numbers may return any double that rounds to the right one. */
void limber_elementwise_run(limber_context *ctx, const limber_elementwise *e)
{
    struct elementwise_call j = { .e = e,
                                  .ctx = ctx,
                                  .args = limber_function_args(e->to, e->p, e->q) };
    struct table *t;

    j.single = limber_format_embeds(e->from, LIMBER_F32) &&
               (e->compute == LIMBER_COMPUTE_F32 ||
                (e->rounding == LIMBER_ROUND_NEAREST && limber_format_equal(e->to, LIMBER_F32)));
    if (e->compute == LIMBER_COMPUTE_F32)
        j.args = limber_function_args(LIMBER_F32, e->p, e->q);
    t = ctx ? get_table(ctx, &j) : NULL;
    j.lookup = t ? &t->lookup : NULL;
    run_all(ctx, &j);
    if (t)
        release_table(ctx, t);
}
