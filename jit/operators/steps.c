/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the steps of an epilogue on matrices: a piece of a row goes through all steps while it is in
 * L1. */
#include "jit/device.h"
#include "jit/engine.h"
#include "jit/operators/inside.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256, ROOM = 1 << 13, TASK = 1 << 15 };

/* A piece of a row: addresses of all values, and room for those that must be converted.  All of it
 * is on the stack, so pieces are shorter if there are many values. */
struct piece {
    const struct epilogue *e;
    const struct function_ops *ops; /* NULL: no vector code */
    const struct target *t;
    int64_t n, most;
    bool narrow;
    const char *at[MOST_VALUES];
    _Alignas(64) char room[ROOM]; /* for x, inputs, results of steps, the two numbers of a step */
    _Alignas(64) double wide[PIECE];
};

/* The address of value v's room. */
static char *room_of(struct piece *p, int v)
{
    int i = v >= VALUE_steps ? v - VALUE_steps + 1 + p->e->steps->inputs : v;

    return p->room + i * p->most * (int64_t)p->e->compute.size;
}

/* The largest piece: a multiple of vectors of 64 bytes. */
static int64_t largest_piece(const struct epilogue *e)
{
    int64_t values = 1 + e->steps->inputs + e->steps->count + 2;
    int64_t most = ROOM / (values * (int64_t)e->compute.size) / 16 * 16;

    return most < PIECE ? most : PIECE;
}

/* Number i of the format in which the steps compute. */
static double get_number(const struct piece *p, const char *from, int64_t i)
{
    float f;
    double x;

    if (p->narrow) {
        memcpy(&f, from + 4 * i, 4);
        return (double)f;
    }
    memcpy(&x, from + 8 * i, 8);
    return x;
}

/* Converts to binary32 as vector code does: every NaN becomes the canonical one. */
static void put_number(const struct piece *p, char *to, int64_t i, double x)
{
    float f;

    x = isnan(x) ? NAN : x;
    f = (float)x;

    if (p->narrow)
        memcpy(to + 4 * i, &f, 4);
    else
        memcpy(to + 8 * i, &x, 8);
}

/* Fills a piece's buffer with one number. */
static void fill_constant(const struct piece *p, char *to, double x)
{
    float *f = (float *)(void *)to;
    double *d = (double *)(void *)to;

    for (int64_t i = 0; i < p->n && p->narrow; i++)
        f[i] = (float)x;
    for (int64_t i = 0; i < p->n && !p->narrow; i++)
        d[i] = x;
}

/* Converts n contiguous numbers to doubles. */
static void widen_numbers(const struct piece *p, limber_format f, const void *src, double *x,
                          int64_t n)
{
    struct diag ignored = { 0 };

    if (!p->ops || !p->ops->widen(p->t, f, src, x, n))
        limber_format_convert(x, LIMBER_F64, src, f, (size_t)n, LIMBER_ROUND_NEAREST, &ignored);
}

/* Stores doubles in the format in which the steps are computed. */
static void from_doubles(const struct piece *p, const double *x, char *to, int64_t n)
{
    if (!p->narrow)
        memcpy(to, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n && p->narrow; i++) {
        const float f = (float)x[i];

        memcpy(to + 4 * i, &f, 4);
    }
}

/* Converts n numbers of the steps' format to doubles. */
static void to_doubles(const struct piece *p, const char *from, double *x, int64_t n)
{
    if (!p->narrow)
        memcpy(x, from, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n && p->narrow; i++) {
        float f;

        memcpy(&f, from + 4 * i, 4);
        x[i] = (double)f;
    }
}

/* Converts the value's numbers to where, and how, steps read them. */
static void load_value(struct piece *p, int v, const struct numbers *m, int64_t row, int64_t col)
{
    const size_t size = m->format.size;
    const char *src = m->data + (row * m->row + col * m->col) * (int64_t)size;
    char *room = room_of(p, v);
    double x;

    p->at[v] = room;
    if (m->col == 0) {
        widen_numbers(p, m->format, src, &x, 1);
        fill_constant(p, room, x);
    } else if (m->col == 1 && limber_format_equal(m->format, p->e->compute)) {
        p->at[v] = src;
    } else if (m->col == 1) {
        widen_numbers(p, m->format, src, p->wide, p->n);
        from_doubles(p, p->wide, room, p->n);
    } else {
        for (int64_t i = 0; i < p->n; i++) {
            widen_numbers(p, m->format, src + i * m->col * (int64_t)size, &x, 1);
            put_number(p, room, i, x);
        }
    }
}

/* The numbers of operand i of a step; constants are written to a buffer. */
static const char *operand_address(struct piece *p, const struct epilogue_step *s, int i)
{
    char *room = room_of(p, VALUE_steps + p->e->steps->count + i);

    if (s->operand[i] >= 0)
        return p->at[s->operand[i]];
    fill_constant(p, room, s->number[i]);
    return room;
}

/* Computes a function in binary64. */
static void run_function(struct piece *p, const struct epilogue_step *s, const char *x, char *to)
{
    struct fn_args a = limber_function_args(p->e->compute, s->number[0], s->number[1]);

    to_doubles(p, x, p->wide, p->n);
    if (!p->ops || !p->ops->run(p->t, s->function, &a, p->wide, p->n, p->narrow))
        for (int64_t i = 0; i < p->n; i++)
            p->wide[i] = limber_function_value(s->function, &a, p->wide[i]);
    from_doubles(p, p->wide, to, p->n);
}

/* Runs one step: by vector code, else number by number. */
static void run_step(struct piece *p, const struct epilogue_step *s, char *to)
{
    const char *x = operand_address(p, s, 0);
    const char *y = s->op == STEP_function ? x : operand_address(p, s, 1);

    if (p->ops && p->ops->step(p->t, s, p->narrow, x, y, to, p->n))
        return;
    if (s->op == STEP_function) {
        run_function(p, s, x, to);
        return;
    }
    for (int64_t i = 0; i < p->n; i++)
        put_number(p, to, i,
                   limber_epilogue_value(s, p->narrow, get_number(p, x, i), get_number(p, y, i)));
}

/* Stores the last result. */
static void store_result(struct piece *p, const char *from, const struct numbers *m, char *to)
{
    const size_t size = m->format.size;
    struct diag ignored = { 0 };

    if (m->col == 1 && limber_format_equal(m->format, p->e->compute)) {
        if (from != to)
            memmove(to, from, (size_t)p->n * size);
        return;
    }
    if (m->col == 1 && p->ops && p->ops->store(p->t, p->narrow, from, m->format, to, p->n))
        return;
    to_doubles(p, from, p->wide, p->n);
    if (m->col == 1 && p->ops && p->ops->narrow(p->t, m->format, p->wide, to, p->n))
        return;
    for (int64_t i = 0; i < p->n; i++)
        limber_format_convert(to + i * m->col * (int64_t)size, m->format, &p->wide[i], LIMBER_F64,
                              1, LIMBER_ROUND_NEAREST, &ignored);
}

/* Runs all steps on a piece of a row of C. */
static void run_piece(struct piece *p, int64_t row, int64_t col)
{
    const struct epilogue *e = p->e;
    const struct steps *s = e->steps;
    char *to = (char *)(uintptr_t)e->to.data +
               (row * e->to.row + col * e->to.col) * (int64_t)e->to.format.size;
    bool in_place = e->to.col == 1 && limber_format_equal(e->to.format, e->compute);

    load_value(p, VALUE_product, &e->from, row, col);
    for (int i = 0; i < s->inputs; i++)
        if (e->input[i].data)
            load_value(p, 1 + i, &e->input[i], row, col);
    for (int i = 0; i < s->count; i++) {
        int v = VALUE_steps + i;
        char *result = i == s->count - 1 && in_place ? to : room_of(p, v);

        run_step(p, &s->step[i], result);
        p->at[v] = result;
    }
    store_result(p, p->at[limber_steps_result(s)], &e->to, to);
}

/* The epilogue of the transposed matrices. */
static struct epilogue transposed_epilogue(const struct epilogue *e)
{
    struct epilogue t = *e;
    struct numbers *all[2 + MOST_INPUTS] = { &t.from, &t.to };

    for (int i = 0; i < MOST_INPUTS; i++)
        all[2 + i] = &t.input[i];
    for (size_t i = 0; i < COUNT(all); i++) {
        int64_t row = all[i]->row;

        all[i]->row = all[i]->col;
        all[i]->col = row;
    }
    t.rows = e->cols;
    t.cols = e->rows;
    return t;
}

void limber_epilogue_block(const struct epilogue *e, const struct function_ops *ops,
                           const struct target *t, int64_t row, int64_t rows, int64_t col,
                           int64_t cols)
{
    struct piece p; /* not cleared, for speed */
    struct epilogue other;

    if (e->to.row == 1 && e->to.col != 1) {
        other = transposed_epilogue(e);
        limber_epilogue_block(&other, ops, t, col, cols, row, rows);
        return;
    }
    p.e = e;
    p.ops = ops;
    p.t = t;
    p.narrow = limber_format_equal(e->compute, LIMBER_F32);
    p.most = largest_piece(e);
    for (int64_t i = row; i < row + rows; i++)
        for (int64_t j = col; j < col + cols; j += p.n) {
            p.n = col + cols - j < p.most ? col + cols - j : p.most;
            run_piece(&p, i, j);
        }
}

/* ---- steps on whole matrices ----------------------------------------------------------------- */

/* Steps that are applied to whole matrices. */
struct job {
    const limber_context *ctx;
    void (*of)(void *arg, int64_t g, struct epilogue *e);
    void *arg;
    int64_t lines, blocks; /* lines of a task; tasks of a matrix */
    bool by_columns;
};

/* Task: runs the steps on some lines of one matrix. */
static void run_task(void *arg, int64_t task, int worker)
{
    const struct job *j = arg;
    const struct function_ops *ops = limber_host(j->ctx)->backend->function_ops;
    int64_t first = task % j->blocks * j->lines, all, lines;
    struct epilogue e;

    (void)worker;
    j->of(j->arg, task / j->blocks, &e);
    all = j->by_columns ? e.cols : e.rows;
    lines = all - first < j->lines ? all - first : j->lines;
    if (j->by_columns)
        limber_epilogue_block(&e, ops, &limber_host(j->ctx)->target, 0, e.rows, first, lines);
    else
        limber_epilogue_block(&e, ops, &limber_host(j->ctx)->target, first, lines, 0, e.cols);
}

void limber_epilogue_all(limber_context *ctx, void (*of)(void *arg, int64_t g, struct epilogue *e),
                         void *arg, int64_t count)
{
    struct job j = { .ctx = ctx, .of = of, .arg = arg };
    int64_t lines, length, tasks;
    struct epilogue e = { .rows = 0 };
    struct runner runner;

    if (count > 0)
        of(arg, 0, &e);
    if (e.rows == 0 || e.cols == 0)
        return;
    j.by_columns = e.to.row == 1 && e.to.col != 1;
    lines = j.by_columns ? e.cols : e.rows;
    length = j.by_columns ? e.rows : e.cols;
    j.lines = length < TASK ? TASK / length : 1;
    j.blocks = (lines + j.lines - 1) / j.lines;
    tasks = j.blocks * count;
    if (tasks == 1) {
        run_task(&j, 0, 0);
        return;
    }
    limber_pool_enter(ctx->pool);
    runner = limber_pool_runner(ctx->pool);
    runner.run(runner.self, tasks, run_task, &j);
    limber_pool_leave(ctx->pool);
}

/* ---- steps in device memory ------------------------------------------------------------------ */

/* Transposes the matrices if that makes the stored rows contiguous. */
static void make_rows_contiguous(struct epilogue *e)
{
    if (e->to.row == 1 && e->to.col != 1)
        *e = transposed_epilogue(e);
}

bool limber_epilogue_stepper(limber_context *ctx,
                             void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                             struct entry **entry, struct diag *d)
{
    struct epilogue e;

    of(arg, 0, &e);
    return limber_device_stepper(ctx, &e, entry, d);
}

/* True if matrix g lies g times as far from the first as the second does; sets that distance. */
static bool have_same_step(struct numbers *first, const struct numbers *second,
                           const struct numbers *n, int64_t g)
{
    int64_t size = first->format.size, step = second->data - first->data;

    first->plane = step / size;
    return step % size == 0 && n->data == first->data + g * step;
}

/* Joins all matrices as planes of one job, if each operand has a constant stride from one to the
 * next. */
static bool join_planes(void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                        int64_t count, struct epilogue *all)
{
    struct epilogue second, e;

    of(arg, 0, all);
    of(arg, count > 1, &second);
    for (int64_t g = 1; g < count; g++) {
        of(arg, g, &e);
        if (!have_same_step(&all->from, &second.from, &e.from, g) ||
            !have_same_step(&all->to, &second.to, &e.to, g))
            return false;
        for (int i = 0; i < all->steps->inputs; i++)
            if (!have_same_step(&all->input[i], &second.input[i], &e.input[i], g))
                return false;
    }
    all->planes = count;
    return true;
}

bool limber_epilogue_there(limber_context *ctx,
                           void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                           int64_t count, struct entry *entry, const limber_queue *q,
                           struct diag *d)
{
    struct epilogue e;
    bool ok = true;

    if (count == 0)
        return true;
    if (join_planes(of, arg, count, &e)) {
        make_rows_contiguous(&e);
        return limber_device_steps(ctx, entry, &e, q, d);
    }
    for (int64_t g = 0; ok && g < count; g++) {
        of(arg, g, &e);
        e.planes = 1;
        make_rows_contiguous(&e);
        ok = limber_device_steps(ctx, entry, &e, q, d);
    }
    return ok;
}
