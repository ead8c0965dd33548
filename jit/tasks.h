/* SPDX-License-Identifier: BSD-3-Clause
 * Tasks of library code that computes a call without a plan.  A call is divided into pieces: some
 * rows or columns of C, in one group.  A task computes some pieces, in order. */
#ifndef LIMBER_JIT_TASKS_H
#define LIMBER_JIT_TASKS_H

#include "jit/engine.h"

/* How a call may be divided. */
struct division {
    int64_t groups, lines; /* lines: rows or columns of a group's C */
    int64_t vectors; /* how often each line is computed, once for each of several vectors; else 1 */
    int64_t most; /* largest number of lines of a piece; 0: any number */
    double seconds; /* predicted for a group, on one core */
};

/* A piece of a call: lines (rows or columns) [first, end) of a group's C, for one of the vectors by
 * which a matrix is multiplied.  Pieces of the same lines follow one another, one for each vector,
 * so that these lines stay in a cache. */
struct piece {
    int64_t group, vector, first, end;
};

/* Calls fn, which cannot fail, for every piece: on all threads if the call takes long enough, else
 * in order on the caller's thread. */
void limber_run_pieces(limber_context *ctx, const struct division *x,
                       void (*fn)(void *arg, const struct piece *), void *arg);

#endif
