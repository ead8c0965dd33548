/* SPDX-License-Identifier: BSD-3-Clause
 * Reductions of arrays.  A task reduces a few neighbouring lines, each an array of `count`
 * elements, which it reads in pieces.  The first pass computes a maximum or a sum.  A second pass
 * computes sums that depend on it, such as squared deviations, and a third pass the results for
 * every element. */
#include "ir/num/long_sum.h"
#include "jit/engine.h"
#include "jit/operators/inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes in elements.  A task's buffer of ROOM elements holds a piece of one line, or short pieces
 * of COLUMNS lines, so that it fits on a small stack.  Sums are in LANES accumulators.  Reductions
 * of less than SMALL_TASK elements use one thread. */
enum { PIECE = 256, COLUMNS = 16, LANES = 16, ROOM = 1024, SMALL_TASK = 1 << 14 };

/* State of the reduction of one line.  Each reduction uses some of the fields. */
struct line {
    struct long_sum exact;
    float sum[LANES], lost[LANES];
    /* mean: the line's mean.  second: what divides the line's results (a root of a sum of squares,
     * or a sum of exponentials), or the line's only result. */
    double chain, most, mean, second;
    uint64_t swallowed;
};

/* The terms that a pass adds: elements x, (x - mean)^2, x^2, or e^(x - max). */
enum term { TERM_value, TERM_deviation, TERM_square, TERM_power };

/* A reduction while its tasks run. */
struct reduction {
    const limber_reduce_call *r;
    const limber_context *ctx; /* if NULL, one thread computes, without vector code */
    struct fn_args exp;
    size_t blocks; /* number of blocks of COLUMNS lines, for each outer index */
    /* LIMBER_CARRY_STORAGE: for |x| in [low, high), rounding to the format drops the last `cut`
     * bits of the double. */
    double low, high;
    int cut;
    /* number of addends, over all tasks, that were too small to change their sum */
    uint64_t swallowed;
};

/* A task: at most COLUMNS neighbouring lines, read in pieces. */
struct task {
    const struct reduction *j;
    struct line line[COLUMNS];
    double x[ROOM]; /* [line][element of the piece] */
    double scale[PIECE], shift[PIECE];
    size_t outer, first, columns, piece;
};

/* Rounds x to nearest in the array's format. */
static double round_to_storage(const struct reduction *j, double x)
{
    uint64_t bits;

    if (!(fabs(x) >= j->low && fabs(x) < j->high))
        return limber_format_equal(j->r->from, LIMBER_F64) ? x : limber_format_round(j->r->from, x);
    memcpy(&bits, &x, sizeof bits);
    bits += (((uint64_t)1 << j->cut) - 1) / 2 + (bits >> j->cut & 1);
    bits = bits >> j->cut << j->cut;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds a value as the reduction's `carry` says. */
static double round_step(const struct reduction *j, double x)
{
    switch (j->r->carry) {
    case LIMBER_CARRY_EXACT: return x;
    case LIMBER_CARRY_STORAGE: return round_to_storage(j, x);
    default: return (double)(float)x;
    }
}

/* Rounds n values as the reduction's `carry` says. */
static void round_steps(const struct reduction *j, double *x, size_t n)
{
    switch (j->r->carry) {
    case LIMBER_CARRY_EXACT: break;
    case LIMBER_CARRY_STORAGE:
        for (size_t i = 0; i < n; i++)
            x[i] = round_to_storage(j, x[i]);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            x[i] = (double)(float)x[i];
        break;
    }
}

/* Returns the address of element i of the task's first line. */
static const char *element_address(const struct task *t, size_t i)
{
    const limber_reduce_call *r = t->j->r;
    size_t at = r->arrays ? t->first : (t->outer * r->count + i) * r->inner + t->first;

    return (const char *)(r->arrays ? r->arrays[i] : r->src) + at * r->from.size;
}

/* Reads elements [i, i + n) of the task's lines as doubles. */
static void read_piece(struct task *t, size_t i, size_t n)
{
    const limber_reduce_call *r = t->j->r;
    double row[COLUMNS];

    if (r->inner == 1 && !r->arrays) {
        limber_values_widen(t->j->ctx, r->from, element_address(t, i), t->x, n);
        return;
    }
    for (size_t p = 0; p < n; p++) {
        limber_values_widen(t->j->ctx, r->from, element_address(t, i + p), row, t->columns);
        for (size_t c = 0; c < t->columns; c++)
            t->x[c * t->piece + p] = row[c];
    }
}

/* Adds v[i] to sum[i] for i < n, at most LANES, in binary32. compensated: adds each rounding error
 * to lost[i]. counts: counts nonzero values whose addition left the sum unchanged. */
static inline void add_values(float *sum, float *lost, uint64_t *swallowed, const double *v,
                              size_t n, bool compensated, bool counts)
{
    for (size_t i = 0; i < n; i++) {
        float x = (float)v[i], s = sum[i], next = s + x;

        if (compensated)
            lost[i] += fabsf(s) >= fabsf(x) ? (s - next) + x : (x - next) + s;
        if (counts)
            *swallowed += next == s && x != 0;
        sum[i] = next;
    }
}

/* Adds n values to the LANES sums of a line in turn.  The first value is added to sum 0, because
 * pieces begin at multiples of LANES. */
static inline void add_lanes(struct line *l, const double *v, size_t n, bool compensated,
                             bool counts)
{
    float sum[LANES], lost[LANES];
    size_t i = 0;

    memcpy(sum, l->sum, sizeof sum);
    memcpy(lost, l->lost, sizeof lost);
    for (; i + LANES <= n; i += LANES)
        add_values(sum, lost, &l->swallowed, v + i, LANES, compensated, counts);
    add_values(sum, lost, &l->swallowed, v + i, n - i, compensated, counts);
    memcpy(l->sum, sum, sizeof sum);
    memcpy(l->lost, lost, sizeof lost);
}

/* Adds v[0 .. n) to an exact sum.  Each round takes the upper parts of all numbers, multiples of an
 * ulp of `large`, whose sum is exact in binary64.  The remainders are added in the next round.
 *
 * Source: Rump, Ogita and Oishi, "Accurate floating-point summation, part I", SIAM J. Sci. Comput.
 * 31 (2008), section 3. */
static void add_exact(struct long_sum *exact, const double *v, size_t n)
{
    double rest[PIECE + LANES], most[LANES] = { 0 }, sum[LANES], large, top = 0;
    int left = 1, far = 0;

    memset(rest + n, 0, LANES * sizeof *rest);
    memcpy(rest, v, n * sizeof *rest);
    for (size_t i = 0; i < n; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            far |= !(fabs(rest[i + l]) < 0x1p1000);
            most[l] = fabs(rest[i + l]) > most[l] ? fabs(rest[i + l]) : most[l];
        }
    for (size_t l = 0; l < LANES; l++)
        top = most[l] > top ? most[l] : top;
    if (top == 0 && !far)
        return;
    if (far) {
        for (size_t i = 0; i < n; i++)
            limber_long_add(exact, v[i]);
        return;
    }
    large = ldexp(4 * PIECE, ilogb(top)); /* a power of two above the sum of all |v| */
    for (; left; large *= 0x1p-40) {
        left = 0;
        if (large < 0x1p-1000) {
            for (size_t i = 0; i < n; i++)
                limber_long_add(exact, rest[i]);
            return;
        }
        memset(sum, 0, sizeof sum);
        for (size_t i = 0; i < n; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                double upper = large + rest[i + l] - large;

                sum[l] += upper;
                rest[i + l] -= upper;
                left |= rest[i + l] != 0;
            }
        for (size_t l = 1; l < LANES; l++)
            sum[0] += sum[l];
        limber_long_add(exact, sum[0]);
    }
}

/* Adds a piece of n elements to a line's sum, in the precision that `carry` says. */
static void add_piece(const struct reduction *j, struct line *l, const double *v, size_t n)
{
    int counts = j->r->swallowed != NULL;

    switch (j->r->carry) {
    case LIMBER_CARRY_EXACT: add_exact(&l->exact, v, n); break;
    case LIMBER_CARRY_STORAGE:
        for (size_t i = 0; i < n; i++) {
            double sum = round_step(j, l->chain + v[i]);

            l->swallowed += counts && sum == l->chain && v[i] != 0;
            l->chain = sum;
        }
        break;
    case LIMBER_CARRY_COMPENSATED: add_lanes(l, v, n, true, false); break;
    default:
        if (counts)
            add_lanes(l, v, n, false, true);
        else
            add_lanes(l, v, n, false, false);
    }
}

/* Sets a line's state to that of no elements. */
static void clear_line(struct line *l)
{
    memset(&l->exact, 0, sizeof l->exact);
    memset(l->sum, 0, sizeof l->sum);
    memset(l->lost, 0, sizeof l->lost);
    l->chain = 0;
}

/* Returns the line's sum divided by `by`, rounded as `carry` says.  Exact sums are rounded to
 * binary64. */
static double line_total(const struct reduction *j, struct line *l, uint64_t by)
{
    double sum = 0, lost = 0;

    switch (j->r->carry) {
    case LIMBER_CARRY_EXACT:
        limber_long_store(&l->exact, by, LIMBER_F64, LIMBER_ROUND_NEAREST, &sum);
        return sum;
    case LIMBER_CARRY_STORAGE: return by == 1 ? l->chain : round_step(j, l->chain / (double)by);
    case LIMBER_CARRY_COMPENSATED:
        for (int i = 0; i < LANES; i++) {
            sum += (double)l->sum[i];
            lost += (double)l->lost[i];
        }
        sum = sum - sum == 0 ? sum + lost : sum;
        return round_step(j, round_step(j, sum) / (double)by);
    default:
        for (int half = LANES / 2; half; half /= 2)
            for (int i = 0; i < half; i++)
                l->sum[i] += l->sum[i + half];
        return round_step(j, (double)l->sum[0] / (double)by);
    }
}

/* Replaces x[i] by e^x[i], rounded as `carry` says. */
static void replace_by_exponentials(const struct reduction *j, double *x, size_t n)
{
    const bool single = j->r->carry == LIMBER_CARRY_F32 || j->r->carry == LIMBER_CARRY_COMPENSATED;

    limber_values_function(j->ctx, LIMBER_FUNCTION_EXP, &j->exp, x, n, single);
    round_steps(j, x, n);
}

/* Computes v = x - what for n elements, rounded as `carry` says. */
static void subtract(const struct reduction *j, const double *x, double what, double *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = x[i] - what;
    round_steps(j, v, n);
}

/* Computes v = x y for n elements, rounded as `carry` says. */
static void multiply_arrays(const struct reduction *j, const double *x, const double *y, double *v,
                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = x[i] * y[i];
    round_steps(j, v, n);
}

/* Computes the terms that a pass adds, from the elements x.  Returns their address: v, or x
 * itself. */
static const double *compute_terms(const struct reduction *j, const struct line *l, enum term term,
                                   const double *x, double *v, size_t n)
{
    switch (term) {
    case TERM_deviation:
        subtract(j, x, l->mean, v, n);
        multiply_arrays(j, v, v, v, n);
        return v;
    case TERM_square: multiply_arrays(j, x, x, v, n); return v;
    case TERM_power:
        subtract(j, x, l->most, v, n);
        replace_by_exponentials(j, v, n);
        return v;
    default: return x;
    }
}

/* Makes one pass over the task's lines: sums the chosen terms of each line. */
static void sum_terms(struct task *t, enum term term)
{
    const struct reduction *j = t->j;
    double v[PIECE];

    for (size_t c = 0; c < t->columns; c++)
        clear_line(&t->line[c]);
    for (size_t i = 0, n; i < j->r->count; i += n) {
        n = j->r->count - i < t->piece ? j->r->count - i : t->piece;
        read_piece(t, i, n);
        for (size_t c = 0; c < t->columns; c++)
            add_piece(j, &t->line[c],
                      compute_terms(j, &t->line[c], term, t->x + c * t->piece, v, n), n);
    }
}

/* Finds the maximum of each line of the task; NaN if the line has a NaN. */
static void find_maxima(struct task *t)
{
    const struct reduction *j = t->j;

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

/* Computes the results y for n elements x of a line. */
static void compute_results(const struct task *t, const struct line *l, const double *x, double *y,
                            size_t n)
{
    const struct reduction *j = t->j;

    switch (j->r->reduction) {
    case LIMBER_REDUCTION_SOFTMAX:
        subtract(j, x, l->most, y, n);
        replace_by_exponentials(j, y, n);
        break;
    case LIMBER_REDUCTION_LAYER_NORM: subtract(j, x, l->mean, y, n); break;
    default: memcpy(y, x, n * sizeof *y); break;
    }
    for (size_t p = 0; p < n; p++)
        y[p] /= l->second;
    round_steps(j, y, n);
    if (j->r->scale)
        multiply_arrays(j, y, t->scale, y, n);
    if (!j->r->shift)
        return;
    for (size_t p = 0; p < n; p++)
        y[p] += t->shift[p];
    round_steps(j, y, n);
}

/* Computes softmax of one line that fits into t->x, so that each exponential is computed only
 * once. */
static void compute_short_softmax(struct task *t)
{
    const struct reduction *j = t->j;
    const limber_reduce_call *r = j->r;
    char *to = (char *)r->dst + t->outer * r->count * r->to.size;

    find_maxima(t);
    subtract(j, t->x, t->line->most, t->x, r->count);
    replace_by_exponentials(j, t->x, r->count);
    clear_line(t->line);
    for (size_t i = 0; i < r->count; i += PIECE)
        add_piece(j, t->line, t->x + i, r->count - i < PIECE ? r->count - i : PIECE);
    t->line->second = line_total(j, t->line, 1);
    for (size_t i = 0; i < r->count; i++)
        t->x[i] /= t->line->second;
    round_steps(j, t->x, r->count);
    limber_values_narrow(j->ctx, r->to, r->rounding, t->x, to, r->count);
}

/* Computes and stores a result for each element of the task's lines. */
static void store_all_elements(struct task *t)
{
    const struct reduction *j = t->j;
    const limber_reduce_call *r = j->r;
    const size_t size = r->to.size, in = r->from.size;
    /* results of a piece, if their stride in dst is not 1 */
    char apart[PIECE * sizeof(long double)];
    double y[PIECE];

    for (size_t i = 0, n; i < r->count; i += n) {
        n = r->count - i < t->piece ? r->count - i : t->piece;
        read_piece(t, i, n);
        if (r->scale)
            limber_values_widen(j->ctx, r->from, (const char *)r->scale + i * in, t->scale, n);
        if (r->shift)
            limber_values_widen(j->ctx, r->from, (const char *)r->shift + i * in, t->shift, n);
        for (size_t c = 0; c < t->columns; c++) {
            char *to =
                (char *)r->dst + ((t->outer * r->count + i) * r->inner + t->first + c) * size;

            compute_results(t, &t->line[c], t->x + c * t->piece, y, n);
            limber_values_narrow(j->ctx, r->to, r->rounding, y, r->inner == 1 ? to : apart, n);
            for (size_t p = 0; p < n && r->inner > 1; p++)
                memcpy(to + p * r->inner * size, apart + p * size, size);
        }
    }
}

/* Stores one result for each line of the task. */
static void store_line_results(struct task *t)
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
        y = sums ? line_total(t->j, l, by) : y;
        limber_format_convert(to, r->to, &y, LIMBER_F64, 1, r->rounding, &d);
    }
}

/* Computes what the results of the task's lines depend on: maxima, means, and sums of squares or
 * exponentials. */
static void prepare_lines(struct task *t)
{
    const struct reduction *j = t->j;
    const limber_reduce_call *r = j->r;
    enum term second = TERM_value;
    uint64_t by = r->count;

    if (r->reduction == LIMBER_REDUCTION_MAX || r->reduction == LIMBER_REDUCTION_SOFTMAX)
        find_maxima(t);
    else if (r->reduction != LIMBER_REDUCTION_RMS_NORM)
        sum_terms(t, TERM_value);
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
        t->line[c].mean = line_total(j, &t->line[c], r->count);
    sum_terms(t, second);
    for (size_t c = 0; c < t->columns; c++) {
        double v = line_total(j, &t->line[c], by);
        bool root = r->reduction == LIMBER_REDUCTION_LAYER_NORM ||
                    r->reduction == LIMBER_REDUCTION_RMS_NORM;

        t->line[c].second =
            root ? round_step(j, sqrt(round_step(j, v + round_step(j, r->epsilon)))) : v;
    }
}

/* Task: reduces some lines. */
static void run_task(void *arg, int64_t number, int worker)
{
    struct reduction *j = arg;
    const limber_reduce_call *r = j->r;
    struct task t; /* not cleared, since every element is written before it is read */
    uint64_t swallowed = 0;

    (void)worker;
    t.j = j;
    t.outer = (size_t)number / j->blocks;
    t.first = (size_t)number % j->blocks * COLUMNS;
    t.columns = r->inner - t.first < COLUMNS ? r->inner - t.first : COLUMNS;
    t.piece = t.columns == 1 ? PIECE : ROOM / COLUMNS;
    for (size_t c = 0; c < t.columns; c++)
        t.line[c].swallowed = 0;
    if (r->reduction == LIMBER_REDUCTION_SOFTMAX && r->inner == 1 && r->count <= ROOM) {
        t.piece = ROOM;
        compute_short_softmax(&t);
    } else {
        prepare_lines(&t);
        (r->reduction >= LIMBER_REDUCTION_SOFTMAX ? store_all_elements : store_line_results)(&t);
    }
    for (size_t c = 0; c < t.columns; c++)
        swallowed += t.line[c].swallowed;
    __atomic_fetch_add(&j->swallowed, swallowed, __ATOMIC_RELAXED);
}

/* Computes a reduction whose arguments have been checked. ctx: NULL to use only the caller's
 * thread. */
void limber_reduce_run(limber_context *ctx, const limber_reduce_call *r)
{
    struct reduction j = { .r = r,
                           .ctx = ctx,
                           .exp = limber_function_args(r->carry == LIMBER_CARRY_STORAGE ? r->from :
                                                       r->carry == LIMBER_CARRY_EXACT ? LIMBER_F64 :
                                                                                        LIMBER_F32,
                                                       0, 0),
                           .blocks = (r->inner + COLUMNS - 1) / COLUMNS };
    int64_t tasks = (int64_t)(r->outer * j.blocks);
    struct runner runner;

    if (r->from.kind == LIMBER_KIND_FLOAT && r->from.frac_bits > 0 && r->from.frac_bits < 52) {
        j.cut = 52 - r->from.frac_bits;
        j.low = ldexp(1, 1 - r->from.bias);
        j.high = ldexp(1, limber_format_emax(r->from));
    }
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
