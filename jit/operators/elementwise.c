/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions of arrays.  Pieces of an array are converted to doubles; the backend's code
 * computes values that are rounded to odd; these are rounded to the results.  For operands of 8 or
 * 16 bits a lookup table is made if the array is long enough; it gives the same bits. */
#include "jit/engine.h"
#include "jit/operators/inside.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 512, /* elements that stay in L1 */
    TASK = 1 << 15, /* elements of a task */
    TABLES = 32, /* tables per context, of 128 or 256 KiB each */
    LONG = 1 << 14 /* elements from which a table pays */
};

/* The key of a table; it has no padding, since it is compared as bytes. */
struct table_key {
    double p, q;
    limber_format from, to;
    int32_t function, rounding, compute, unused;
};

/* A function's values for all inputs of a small format. */
struct table {
    struct table_key key;
    struct lookup lookup;
    int users; /* calls that are reading it */
    struct table *next;
};

void limber_tables_free(struct table *list)
{
    for (struct table *t = list, *next; t; t = next) {
        next = t->next;
        free(t->lookup.table);
        free(t);
    }
}

/* A call of an elementwise function while its tasks run. */
struct job {
    const limber_elementwise *e;
    const limber_context *ctx; /* NULL: no threads and no vector code */
    const struct lookup *lookup;
    struct fn_args args;
    bool single; /* argument `single` of function_ops.run */
};

static const struct function_ops *ops_of(const limber_context *ctx)
{
    return ctx ? limber_host(ctx)->backend->function_ops : NULL;
}

void limber_values_widen(const limber_context *ctx, limber_format f, const void *src, double *x,
                         size_t n)
{
    const struct function_ops *ops = ops_of(ctx);
    struct diag d = { 0 };

    if (!ops || !ops->widen(&limber_host(ctx)->target, f, src, x, (int64_t)n))
        limber_format_convert(x, LIMBER_F64, src, f, n, LIMBER_ROUND_NEAREST, &d);
}

void limber_values_narrow(const limber_context *ctx, limber_format f, limber_rounding rounding,
                          const double *x, void *dst, size_t n)
{
    const struct function_ops *ops = ops_of(ctx);
    struct diag d = { 0 };

    if (!ops || rounding != LIMBER_ROUND_NEAREST ||
        !ops->narrow(&limber_host(ctx)->target, f, x, dst, (int64_t)n))
        limber_format_convert(dst, f, x, LIMBER_F64, n, rounding, &d);
}

void limber_values_function(const limber_context *ctx, limber_function f, const struct fn_args *a,
                            double *x, size_t n, bool single)
{
    const struct function_ops *ops = ops_of(ctx);

    if (!ops || !ops->run(&limber_host(ctx)->target, f, a, x, (int64_t)n, single))
        for (size_t i = 0; i < n; i++)
            x[i] = limber_function_value(f, a, x[i]);
}

/* Computes up to PIECE elements by way of doubles. */
static void compute_piece(const struct job *j, const char *src, char *dst, size_t n)
{
    const limber_elementwise *e = j->e;
    double x[PIECE];

    limber_values_widen(j->ctx, e->from, src, x, n);
    limber_values_function(j->ctx, e->function, &j->args, x, n, j->single);
    for (size_t i = 0; e->compute == LIMBER_COMPUTE_F32 && i < n; i++)
        x[i] = (double)(float)x[i];
    limber_values_narrow(j->ctx, e->to, e->rounding, x, dst, n);
}

/* Computes without doubles, for functions that are cheap in the format, or a cast from binary32. */
static bool compute_in_format(const struct job *j, const char *src, char *dst, int64_t n)
{
    const struct function_ops *ops = ops_of(j->ctx);
    const limber_elementwise *e = j->e;
    const struct target *t = ops ? &limber_host(j->ctx)->target : NULL;
    bool narrow = limber_format_equal(e->from, LIMBER_F32);
    struct epilogue_step s = { .function = e->function, .number = { e->p, e->q } };

    if (!ops || e->rounding != LIMBER_ROUND_NEAREST || e->compute != LIMBER_COMPUTE_EXACT ||
        !limber_format_is_binary(e->from))
        return false;
    if (e->function == LIMBER_FUNCTION_CAST)
        return narrow && ops->store(t, true, src, e->to, dst, n);
    return limber_format_equal(e->from, e->to) &&
           (!narrow || ((double)(float)e->p == e->p && (double)(float)e->q == e->q)) &&
           ops->step(t, &s, narrow, src, src, dst, n);
}

/* Computes elements [first, last). */
static void compute_range(const struct job *j, size_t first, size_t last)
{
    const limber_elementwise *e = j->e;
    const char *src = e->src;
    char *dst = e->dst;
    struct diag d = { 0 };

    if (j->lookup) {
        (void)ops_of(j->ctx)->look_up(&limber_host(j->ctx)->target, j->lookup,
                                      src + first * e->from.size, dst + first * e->to.size,
                                      (int64_t)(last - first));
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

static void run_task(void *arg, int64_t task, int worker)
{
    const struct job *j = arg;
    size_t first = (size_t)task * TASK, count = j->e->count;

    (void)worker;
    compute_range(j, first, count - first < TASK ? count : first + TASK);
}

/* ---- tables of all values of a function ------------------------------------------------------ */

static bool has_table(const struct job *j)
{
    const limber_elementwise *e = j->e;
    bool small = !e->from.carried && e->from.size <= 2 && limber_is_real(e->from);

    return ops_of(j->ctx) && small && e->to.size <= 4 &&
           ops_of(j->ctx)->look_up(&limber_host(j->ctx)->target, &(struct lookup){ 2, 2, NULL },
                                   NULL, NULL, 0);
}

/* Makes a table by computing the function for all codes of the format; NULL: no memory. */
static struct table *make_table(const struct job *j, const struct table_key *key)
{
    size_t codes = (size_t)1 << 8 * j->e->from.size, bytes = codes * j->e->to.size;
    struct table *t = calloc(1, sizeof *t);
    struct job all = *j;
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

/* Finds the table of a key, moves it to the front and counts a user; or NULL. */
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

/* Keeps a table, and evicts the least recently used one; false: all are in use. */
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

/* The call's table, which must be given back; or NULL. */
static struct table *get_table(limber_context *ctx, const struct job *j)
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
    found = use_table(ctx, &key); /* another thread may have made it meanwhile */
    if (!found)
        kept = keep_table(ctx, made);
    pthread_mutex_unlock(&ctx->lock);
    if (!kept)
        limber_tables_free(made);
    return kept ? made : found;
}

static void release_table(limber_context *ctx, struct table *t)
{
    pthread_mutex_lock(&ctx->lock);
    t->users--;
    pthread_mutex_unlock(&ctx->lock);
}

/* Computes a whole array, on the pool if it is long. */
static void run_all(limber_context *ctx, struct job *j)
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

void limber_elementwise_run(limber_context *ctx, const limber_elementwise *e)
{
    struct job j = { .e = e, .ctx = ctx, .args = limber_function_args(e->to, e->p, e->q) };
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
