/* SPDX-License-Identifier: BSD-3-Clause
 * Applies the steps of an epilogue to matrices.  All steps are applied to a piece of a row while
 * the piece is in L1. */
#include "jit/device.h"
#include "jit/engine.h"
#include "jit/operators/inside.h"

#include <math.h>
#include <string.h>

/* PIECE: largest number of elements of a piece of a row.  ROOM: bytes of memory of a piece.  TASK:
 * elements of C that a task computes. */
enum { PIECE = 256, ROOM = 1 << 13, TASK = 1 << 15 };

/* A piece of a row: the addresses of all values that the steps read, and memory for those that must
 * be converted.  It is on the stack, so pieces are shorter if there are many values. */
struct row_piece {
    const struct epilogue *e;
    const struct function_ops *ops; /* vector code, or NULL */
    const struct target *t;
    /* number of elements of this piece, and of the longest piece */
    int64_t n, most;
    /* the steps compute in binary32; else in binary64 */
    bool is_f32;
    const char *at[MOST_VALUES];
    /* memory of x, of the inputs, of the steps' results, and of two constants of a step */
    _Alignas(64) char room[ROOM];
    _Alignas(64) double wide[PIECE];
};

/* Returns the memory of value v in the piece. */
static char *room_of(struct row_piece *p, int v)
{
    int i = v >= VALUE_steps ? v - VALUE_steps + 1 + p->e->steps->inputs : v;

    return p->room + i * p->most * (int64_t)p->e->compute.size;
}

/* Returns the length of the longest piece, a multiple of 16 elements, so that values are whole
 * vectors of 64 bytes. */
static int64_t largest_piece(const struct epilogue *e)
{
    int64_t values = 1 + e->steps->inputs + e->steps->count + 2;
    int64_t most = ROOM / (values * (int64_t)e->compute.size) / 16 * 16;

    return most < PIECE ? most : PIECE;
}

/* Returns number i of an array that is in the format in which the steps compute. */
static double get_number(const struct row_piece *p, const char *from, int64_t i)
{
    float f;
    double x;

    if (p->is_f32) {
        memcpy(&f, from + 4 * i, 4);
        return (double)f;
    }
    memcpy(&x, from + 8 * i, 8);
    return x;
}

/* Stores x as number i of an array in the steps' format.  Every NaN becomes the canonical one, as
 * in vector code. */
static void put_number(const struct row_piece *p, char *to, int64_t i, double x)
{
    float f;

    x = isnan(x) ? NAN : x;
    f = (float)x;

    if (p->is_f32)
        memcpy(to + 4 * i, &f, 4);
    else
        memcpy(to + 8 * i, &x, 8);
}

/* Fills a piece's memory with one number. */
static void fill_constant(const struct row_piece *p, char *to, double x)
{
    float *f = (float *)(void *)to;
    double *d = (double *)(void *)to;

    for (int64_t i = 0; i < p->n && p->is_f32; i++)
        f[i] = (float)x;
    for (int64_t i = 0; i < p->n && !p->is_f32; i++)
        d[i] = x;
}

/* Converts n contiguous numbers to doubles. */
static void widen_numbers(const struct row_piece *p, limber_format f, const void *src, double *x,
                          int64_t n)
{
    struct diag ignored = { 0 };

    if (!p->ops || !p->ops->widen(p->t, f, src, x, n))
        limber_format_convert(x, LIMBER_F64, src, f, (size_t)n, LIMBER_ROUND_NEAREST, &ignored);
}

/* Converts n doubles to the format in which the steps compute. */
static void convert_from_doubles(const struct row_piece *p, const double *x, char *to, int64_t n)
{
    if (!p->is_f32)
        memcpy(to, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n && p->is_f32; i++) {
        const float f = (float)x[i];

        memcpy(to + 4 * i, &f, 4);
    }
}

/* Converts n numbers of the format in which the steps compute to doubles. */
static void convert_to_doubles(const struct row_piece *p, const char *from, double *x, int64_t n)
{
    if (!p->is_f32)
        memcpy(x, from, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n && p->is_f32; i++) {
        float f;

        memcpy(&f, from + 4 * i, 4);
        x[i] = (double)f;
    }
}

/* Sets the address of value v, an input or the product's result.  Numbers that are not contiguous
 * in the steps' format are first converted into the piece's memory. */
static void load_value(struct row_piece *p, int v, const struct numbers *m, int64_t row,
                       int64_t col)
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
        convert_from_doubles(p, p->wide, room, p->n);
    } else {
        for (int64_t i = 0; i < p->n; i++) {
            widen_numbers(p, m->format, src + i * m->col * (int64_t)size, &x, 1);
            put_number(p, room, i, x);
        }
    }
}

/* Returns the address of operand i of a step.  A constant is first written to the piece's
 * memory. */
static const char *operand_address(struct row_piece *p, const struct epilogue_step *s, int i)
{
    char *room = room_of(p, VALUE_steps + p->e->steps->count + i);

    if (s->operand[i] >= 0)
        return p->at[s->operand[i]];
    fill_constant(p, room, s->number[i]);
    return room;
}

/* Computes a function of n numbers, which are converted to doubles and back. */
static void run_function(struct row_piece *p, const struct epilogue_step *s, const char *x,
                         char *to)
{
    struct fn_args a = limber_function_args(p->e->compute, s->number[0], s->number[1]);

    convert_to_doubles(p, x, p->wide, p->n);
    if (!p->ops || !p->ops->run(p->t, s->function, &a, p->wide, p->n, p->is_f32))
        for (int64_t i = 0; i < p->n; i++)
            p->wide[i] = limber_function_value(s->function, &a, p->wide[i]);
    convert_from_doubles(p, p->wide, to, p->n);
}

/* Runs one step on the piece, by vector code if there is any for the step. */
static void run_step(struct row_piece *p, const struct epilogue_step *s, char *to)
{
    const char *x = operand_address(p, s, 0);
    const char *y = s->op == STEP_function ? x : operand_address(p, s, 1);

    if (p->ops && p->ops->step(p->t, s, p->is_f32, x, y, to, p->n))
        return;
    if (s->op == STEP_function) {
        run_function(p, s, x, to);
        return;
    }
    for (int64_t i = 0; i < p->n; i++)
        put_number(p, to, i,
                   limber_epilogue_value(s, p->is_f32, get_number(p, x, i), get_number(p, y, i)));
}

/* Converts the last result to C's format and stores it. */
static void store_result(struct row_piece *p, const char *from, const struct numbers *m, char *to)
{
    const size_t size = m->format.size;
    struct diag ignored = { 0 };

    if (m->col == 1 && limber_format_equal(m->format, p->e->compute)) {
        if (from != to)
            memmove(to, from, (size_t)p->n * size);
        return;
    }
    if (m->col == 1 && p->ops && p->ops->store(p->t, p->is_f32, from, m->format, to, p->n))
        return;
    convert_to_doubles(p, from, p->wide, p->n);
    if (m->col == 1 && p->ops && p->ops->narrow(p->t, m->format, p->wide, to, p->n))
        return;
    for (int64_t i = 0; i < p->n; i++)
        limber_format_convert(to + i * m->col * (int64_t)size, m->format, &p->wide[i], LIMBER_F64,
                              1, LIMBER_ROUND_NEAREST, &ignored);
}

/* Runs all steps on a piece of a row, and stores the result. */
static void run_piece(struct row_piece *p, int64_t row, int64_t col)
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

/* Returns the epilogue of the transposed matrices. */
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

/* Applies the steps to a block of C, in pieces of a row (of a column if C is column-major). */
void limber_epilogue_block(const struct epilogue *e, const struct function_ops *ops,
                           const struct target *t, int64_t row, int64_t rows, int64_t col,
                           int64_t cols)
{
    struct row_piece p; /* not cleared, for speed */
    struct epilogue other;

    if (e->to.row == 1 && e->to.col != 1) {
        other = transposed_epilogue(e);
        limber_epilogue_block(&other, ops, t, col, cols, row, rows);
        return;
    }
    p.e = e;
    p.ops = ops;
    p.t = t;
    p.is_f32 = limber_format_equal(e->compute, LIMBER_F32);
    p.most = largest_piece(e);
    for (int64_t i = row; i < row + rows; i++)
        for (int64_t j = col; j < col + cols; j += p.n) {
            p.n = col + cols - j < p.most ? col + cols - j : p.most;
            run_piece(&p, i, j);
        }
}

/* ---- steps on whole matrices ----------------------------------------------------------------- */

/* Steps that are applied to complete matrices. */
struct matrix_steps {
    const limber_context *ctx;
    /* describes matrix g in *e */
    void (*of)(void *arg, int64_t g, struct epilogue *e);
    void *arg;
    int64_t lines, blocks; /* number of rows (or columns) of a task; number of tasks of a matrix */
    bool by_columns;
};

/* Task: applies the steps to some rows or columns of one matrix. */
static void run_task(void *arg, int64_t task, int worker)
{
    const struct matrix_steps *j = arg;
    const struct function_ops *ops = limber_host_functions(j->ctx);
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

/* Applies the steps to all elements of `count` matrices. of: describes matrix g. */
void limber_epilogue_all(limber_context *ctx, void (*of)(void *arg, int64_t g, struct epilogue *e),
                         void *arg, int64_t count)
{
    struct matrix_steps j = { .ctx = ctx, .of = of, .arg = arg };
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

/* Transposes all matrices if that makes the rows of the result contiguous. */
static void make_rows_contiguous(struct epilogue *e)
{
    if (e->to.row == 1 && e->to.col != 1)
        *e = transposed_epilogue(e);
}

/* Gets the kernel of the steps in device memory, before anything is written. */
bool limber_epilogue_stepper(limber_context *ctx,
                             void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                             struct entry **entry, struct diag *d)
{
    struct epilogue e;

    of(arg, 0, &e);
    return limber_device_stepper(ctx, &e, entry, d);
}

/* True if matrix g is g times as far from the first matrix as the second one is.  Stores the
 * distance from the first to the second in first->plane, in elements. */
static bool have_same_step(struct numbers *first, const struct numbers *second,
                           const struct numbers *n, int64_t g)
{
    int64_t size = first->format.size, step = second->data - first->data;

    first->plane = step / size;
    return step % size == 0 && n->data == first->data + g * step;
}

/* Describes all matrices in *all, for a single launch.  False if some operand has no constant
 * distance from one matrix to the next. */
static bool describe_for_one_launch(void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
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

/* Applies the steps to `count` matrices on the device, in one launch if their addresses allow
 * it. */
bool limber_epilogue_on_device(limber_context *ctx,
                               void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                               int64_t count, struct entry *entry, const limber_queue *q,
                               struct diag *d)
{
    struct epilogue e;
    bool ok = true;

    if (count == 0)
        return true;
    if (describe_for_one_launch(of, arg, count, &e)) {
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
