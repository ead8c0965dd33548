/* SPDX-License-Identifier: BSD-3-Clause
 * Division of a call without a plan into tasks, by its predicted time. */
#include "jit/tasks.h"

/* Shortest task, in seconds.  Waking a thread takes some ten microseconds. */
static const double shortest = 15e-6;

/* A call while its tasks run. */
struct divided_call {
    const struct division *x;
    int64_t rows, blocks; /* numbers of lines of a piece, of pieces for a group and vector */
    int64_t pieces, each; /* numbers of pieces of the call, and of a task */
    void (*fn)(void *arg, const struct piece *);
    void *arg;
};

/* Task: calls fn for some successive pieces: blocks of lines, each for one vector. */
static void run_pieces(void *arg, int64_t task, int worker)
{
    const struct divided_call *s = arg;
    const struct division *x = s->x;
    const int64_t from = task * s->each,
                  to = from + s->each < s->pieces ? from + s->each : s->pieces;

    (void)worker;
    for (int64_t i = from; i < to; i++) {
        const int64_t block = i / x->vectors, first = block % s->blocks * s->rows;

        s->fn(s->arg, &(struct piece){ block / s->blocks, i % x->vectors, first,
                                       first + s->rows < x->lines ? first + s->rows : x->lines });
    }
}

/* Returns the number of tasks for work of so many seconds: up to eight for each thread, or one if
 * that is as fast. */
static int64_t count_tasks(const limber_context *ctx, double seconds)
{
    int64_t most;

    if (!(seconds >= 2 * shortest))
        return 1;
    most = 8 * (int64_t)limber_pool_runner(ctx->pool).workers;
    if (most == 8)
        return 1;
    return seconds < shortest * (double)most ? (int64_t)(seconds / shortest) : most;
}

/* Calls fn, which cannot fail, for every piece: on all threads if the call takes long enough, else
 * in order on the caller's thread. */
void limber_run_pieces(limber_context *ctx, const struct division *x,
                       void (*fn)(void *arg, const struct piece *), void *arg)
{
    const int64_t tasks = count_tasks(ctx, x->seconds * (double)x->groups);
    struct divided_call s = { .x = x, .fn = fn, .arg = arg };

    s.rows = tasks == 1 ? x->lines : ceil_div(x->lines, ceil_div(tasks, x->groups * x->vectors));
    if (x->most && s.rows > x->most)
        s.rows = x->most;
    s.blocks = ceil_div(x->lines, s.rows);
    s.pieces = s.blocks * x->vectors * x->groups;
    s.each = ceil_div(s.pieces, tasks);
    if (tasks == 1 || s.pieces == 1) {
        run_pieces(&s, 0, 0);
    } else {
        const struct runner all = limber_pool_runner(ctx->pool);

        limber_pool_enter(ctx->pool);
        all.run(all.self, ceil_div(s.pieces, s.each), run_pieces, &s);
        limber_pool_leave(ctx->pool);
    }
}
