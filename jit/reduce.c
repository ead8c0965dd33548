/* SPDX-License-Identifier: BSD-3-Clause
 * Reductions of arrays.  A task has some lines that lie side by side, and goes through them piece
 * by piece: once for a maximum or a sum, again for what is summed with their help, and again for
 * results of every element. */
#include "ir/num/long_sum.h"
#include "jit/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A task's elements fit a small stack: a piece of one line, or short ones of many. */
enum { PIECE = 256, COLUMNS = 16, LANES = 16, ROOM = 1024, SMALL_TASK = 1 << 14 };

struct line {
    struct long_sum exact;
    float sum[LANES], lost[LANES];
    double chain, most, mean, second; /* second: of squares, or of powers */
    uint64_t swallowed;
};

/* What a pass adds up. */
enum term { TERM_value, TERM_deviation, TERM_square, TERM_power };

struct job {
    const limber_reduce_call *r;
    const limber_context *ctx; /* NULL: one element after the other */
    struct fn_args exp;
    size_t blocks; /* of columns */
    uint64_t swallowed;
};

struct task {
    const struct job *j;
    struct line line[COLUMNS];
    double x[ROOM]; /* a piece of the first line, of the second, ... */
    double scale[PIECE], shift[PIECE];
    size_t outer, first, columns, piece;
};

static void widen(const struct job *j, limber_format f, const void *src, double *x, size_t n)
{
    const struct function_ops *ops = j->ctx ? limber_host(j->ctx)->backend->function_ops : NULL;
    struct diag d = { 0 };

    if (!ops || !ops->widen(&limber_host(j->ctx)->target, f, src, x, (int64_t)n))
        limber_format_convert(x, LIMBER_F64, src, f, n, LIMBER_ROUND_NEAREST, &d);
}

/* What a step leaves of a value. */
static double step(const struct job *j, double x)
{
    switch (j->r->carry) {
    case LIMBER_CARRY_EXACT: return x;
    case LIMBER_CARRY_STORAGE:
        return limber_format_equal(j->r->from, LIMBER_F64) ? x : limber_format_round(j->r->from, x);
    default: return (double)(float)x;
    }
}

/* Element i of the task's first line. */
static const char *place(const struct task *t, size_t i)
{
    const limber_reduce_call *r = t->j->r;
    size_t at = r->arrays ? t->first : (t->outer * r->count + i) * r->inner + t->first;

    return (const char *)(r->arrays ? r->arrays[i] : r->src) + at * r->from.size;
}

/* Elements [i, i + n) of the task's lines. */
static void read_piece(struct task *t, size_t i, size_t n)
{
    const limber_reduce_call *r = t->j->r;
    double row[COLUMNS];

    if (r->inner == 1 && !r->arrays) {
        widen(t->j, r->from, place(t, i), t->x, n);
        return;
    }
    for (size_t p = 0; p < n; p++) {
        widen(t->j, r->from, place(t, i + p), row, t->columns);
        for (size_t c = 0; c < t->columns; c++)
            t->x[c * t->piece + p] = row[c];
    }
}

static void add_lanes(struct line *l, const double *v, size_t n, int compensated, int counts)
{
    for (size_t i = 0; i < n; i++) {
        float x = (float)v[i], s = l->sum[i % LANES], sum = s + x;

        if (compensated)
            l->lost[i % LANES] += fabsf(s) >= fabsf(x) ? (s - sum) + x : (x - sum) + s;
        l->swallowed += counts && sum == s && x != 0;
        l->sum[i % LANES] = sum;
    }
}

/* Pieces begin at multiples of LANES. */
static void add(const struct job *j, struct line *l, const double *v, size_t n)
{
    int counts = j->r->swallowed != NULL;

    switch (j->r->carry) {
    case LIMBER_CARRY_EXACT:
        for (size_t i = 0; i < n; i++)
            limber_long_add(&l->exact, v[i]);
        break;
    case LIMBER_CARRY_STORAGE:
        for (size_t i = 0; i < n; i++) {
            double sum = step(j, l->chain + v[i]);

            l->swallowed += counts && sum == l->chain && v[i] != 0;
            l->chain = sum;
        }
        break;
    case LIMBER_CARRY_COMPENSATED: add_lanes(l, v, n, 1, 0); break;
    default: add_lanes(l, v, n, 0, counts); break;
    }
}

static void clear(struct line *l)
{
    memset(&l->exact, 0, sizeof l->exact);
    memset(l->sum, 0, sizeof l->sum);
    memset(l->lost, 0, sizeof l->lost);
    l->chain = 0;
}

/* The sum divided by a positive number; in a call that is exact rounded to binary64. */
static double total(const struct job *j, struct line *l, uint64_t by)
{
    double sum = 0, lost = 0;

    switch (j->r->carry) {
    case LIMBER_CARRY_EXACT:
        limber_long_store(&l->exact, by, LIMBER_F64, LIMBER_ROUND_NEAREST, &sum);
        return sum;
    case LIMBER_CARRY_STORAGE: return by == 1 ? l->chain : step(j, l->chain / (double)by);
    case LIMBER_CARRY_COMPENSATED:
        for (int i = 0; i < LANES; i++) {
            sum += (double)l->sum[i];
            lost += (double)l->lost[i];
        }
        sum = sum - sum == 0 ? sum + lost : sum;
        return step(j, step(j, sum) / (double)by);
    default:
        for (int half = LANES / 2; half; half /= 2)
            for (int i = 0; i < half; i++)
                l->sum[i] += l->sum[i + half];
        return step(j, (double)l->sum[0] / (double)by);
    }
}

static double power(const struct job *j, double x)
{
    return step(j, fn_value(fn_exp(x, &j->exp), x, j->exp.odd));
}

static double term_of(const struct job *j, const struct line *l, enum term term, double x)
{
    double d;

    switch (term) {
    case TERM_deviation: d = step(j, x - l->mean); return step(j, d * d);
    case TERM_square: return step(j, x * x);
    case TERM_power: return power(j, step(j, x - l->most));
    default: return x;
    }
}

static void sum_up(struct task *t, enum term term)
{
    const struct job *j = t->j;
    double v[PIECE];

    for (size_t c = 0; c < t->columns; c++)
        clear(&t->line[c]);
    for (size_t i = 0, n; i < j->r->count; i += n) {
        n = j->r->count - i < t->piece ? j->r->count - i : t->piece;
        read_piece(t, i, n);
        for (size_t c = 0; c < t->columns; c++) {
            struct line *l = &t->line[c];
            const double *x = t->x + c * t->piece;

            for (size_t p = 0; p < n && term != TERM_value; p++)
                v[p] = term_of(j, l, term, x[p]);
            add(j, l, term == TERM_value ? x : v, n);
        }
    }
}

static void find_most(struct task *t)
{
    const struct job *j = t->j;

    for (size_t c = 0; c < t->columns; c++)
        t->line[c].most = -INFINITY;
    for (size_t i = 0, n; i < j->r->count; i += n) {
        n = j->r->count - i < t->piece ? j->r->count - i : t->piece;
        read_piece(t, i, n);
        for (size_t c = 0; c < t->columns; c++) {
            const double *x = t->x + c * t->piece;
            double most = t->line[c].most;

            for (size_t p = 0; p < n; p++)
                most = x[p] > most || x[p] != x[p] ? x[p] : most;
            t->line[c].most = most;
        }
    }
}

static double result_of(const struct job *j, const struct line *l, double x, size_t p,
                        const struct task *t)
{
    double y;

    if (j->r->reduction == LIMBER_REDUCTION_SOFTMAX)
        return step(j, power(j, step(j, x - l->most)) / l->second);
    y = j->r->reduction == LIMBER_REDUCTION_LAYER_NORM ? step(j, x - l->mean) : x;
    y = step(j, y / l->second);
    y = j->r->scale ? step(j, y * t->scale[p]) : y;
    return j->r->shift ? step(j, y + t->shift[p]) : y;
}

/* Results of every element. */
static void store_all(struct task *t)
{
    const struct job *j = t->j;
    const limber_reduce_call *r = j->r;
    size_t size = r->to.size, in = r->from.size;
    struct diag d = { 0 };

    for (size_t i = 0, n; i < r->count; i += n) {
        n = r->count - i < t->piece ? r->count - i : t->piece;
        read_piece(t, i, n);
        if (r->scale)
            widen(j, r->from, (const char *)r->scale + i * in, t->scale, n);
        if (r->shift)
            widen(j, r->from, (const char *)r->shift + i * in, t->shift, n);
        for (size_t c = 0; c < t->columns; c++) {
            char *to =
                (char *)r->dst + ((t->outer * r->count + i) * r->inner + t->first + c) * size;

            for (size_t p = 0; p < n; p++) {
                double y = result_of(j, &t->line[c], t->x[c * t->piece + p], p, t);

                limber_format_convert(to + p * r->inner * size, r->to, &y, LIMBER_F64, 1,
                                      r->rounding, &d);
            }
        }
    }
}

/* One number a line. */
static void store_one(struct task *t)
{
    const limber_reduce_call *r = t->j->r;
    bool sums = r->reduction == LIMBER_REDUCTION_SUM || r->reduction == LIMBER_REDUCTION_MEAN;
    uint64_t by = r->reduction == LIMBER_REDUCTION_MEAN ? r->count : 1;
    struct diag d = { 0 };

    for (size_t c = 0; c < t->columns; c++) {
        struct line *l = &t->line[c];
        char *to = (char *)r->dst + (t->outer * r->inner + t->first + c) * r->to.size;
        double y = r->reduction == LIMBER_REDUCTION_MAX ? l->most : l->second;

        if (sums && r->carry == LIMBER_CARRY_EXACT) {
            limber_long_store(&l->exact, by, r->to, r->rounding, to);
            continue;
        }
        y = sums ? total(t->j, l, by) : y;
        limber_format_convert(to, r->to, &y, LIMBER_F64, 1, r->rounding, &d);
    }
}

/* What results need beside the elements. */
static void prepare(struct task *t)
{
    const struct job *j = t->j;
    const limber_reduce_call *r = j->r;
    enum term second = TERM_value;
    uint64_t by = r->count;

    if (r->reduction == LIMBER_REDUCTION_MAX || r->reduction == LIMBER_REDUCTION_SOFTMAX)
        find_most(t);
    else if (r->reduction != LIMBER_REDUCTION_RMS_NORM)
        sum_up(t, TERM_value);
    switch (r->reduction) {
    case LIMBER_REDUCTION_VARIANCE: by -= (uint64_t)r->correction; /* fall through */
    case LIMBER_REDUCTION_LAYER_NORM: second = TERM_deviation; break;
    case LIMBER_REDUCTION_RMS_NORM: second = TERM_square; break;
    case LIMBER_REDUCTION_SOFTMAX:
        second = TERM_power;
        by = 1;
        break;
    default: return;
    }
    for (size_t c = 0; c < t->columns && second == TERM_deviation; c++)
        t->line[c].mean = total(j, &t->line[c], r->count);
    sum_up(t, second);
    for (size_t c = 0; c < t->columns; c++) {
        double v = total(j, &t->line[c], by);
        bool root = r->reduction == LIMBER_REDUCTION_LAYER_NORM ||
                    r->reduction == LIMBER_REDUCTION_RMS_NORM;

        t->line[c].second = root ? step(j, sqrt(step(j, v + step(j, r->epsilon)))) : v;
    }
}

static void run_task(void *arg, int64_t number, int worker)
{
    struct job *j = arg;
    const limber_reduce_call *r = j->r;
    struct task t; /* whose elements are read before they are used */
    uint64_t swallowed = 0;

    (void)worker;
    t.j = j;
    t.outer = (size_t)number / j->blocks;
    t.first = (size_t)number % j->blocks * COLUMNS;
    t.columns = r->inner - t.first < COLUMNS ? r->inner - t.first : COLUMNS;
    t.piece = t.columns == 1 ? PIECE : ROOM / COLUMNS;
    for (size_t c = 0; c < t.columns; c++)
        t.line[c].swallowed = 0;
    prepare(&t);
    if (r->reduction >= LIMBER_REDUCTION_SOFTMAX)
        store_all(&t);
    else
        store_one(&t);
    for (size_t c = 0; c < t.columns; c++)
        swallowed += t.line[c].swallowed;
    __atomic_fetch_add(&j->swallowed, swallowed, __ATOMIC_RELAXED);
}

void limber_reduce_run(limber_context *ctx, const limber_reduce_call *r)
{
    struct job j = { .r = r,
                     .ctx = ctx,
                     .exp = limber_function_args(
                         r->carry == LIMBER_CARRY_STORAGE ? r->from : LIMBER_F64, 0, 0),
                     .blocks = (r->inner + COLUMNS - 1) / COLUMNS };
    int64_t tasks = (int64_t)(r->outer * j.blocks);
    struct runner runner;

    if (!ctx || tasks < 2 || r->outer * r->count * r->inner < SMALL_TASK) {
        for (int64_t i = 0; i < tasks; i++)
            run_task(&j, i, 0);
    } else {
        limber_pool_enter(ctx->pool);
        runner = limber_pool_runner(ctx->pool);
        runner.run(runner.self, tasks, run_task, &j);
        limber_pool_leave(ctx->pool);
    }
    if (r->swallowed)
        *r->swallowed = j.swallowed;
}
