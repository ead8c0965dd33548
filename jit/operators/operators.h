/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of arrays, reductions, problems with an epilogue, linear systems: what public calls
 * need of them. */
#ifndef LIMBER_JIT_OPERATORS_H
#define LIMBER_JIT_OPERATORS_H

#include "ir/steps.h"
#include "jit/problem.h"
#include "jit/report.h"
#include "limber/solve.h"

/* ---- elementwise.c, reduce.c ----------------------------------------------------------------- */

/* A checked call.  ctx may be NULL. */
void limber_elementwise_run(limber_context *ctx, const limber_elementwise *e);
struct table;
void limber_tables_free(struct table *list);
/* A checked call.  ctx may be NULL. */
void limber_reduce_run(limber_context *ctx, const limber_reduce_call *r);

/* ---- epilogue.c ------------------------------------------------------------------------------ */

/* A problem with an epilogue: the product that is computed, and the steps behind it. */
struct epilogue_call {
    limber_problem product; /* without the epilogue; its C is x, in the format of steps */
    limber_batch batch;
    limber_output c; /* the caller's */
    struct problem stated; /* that product with the caller's C */
    struct steps steps;
    limber_format compute;
    int addend; /* the input that x begins with, or -1 */
    int joins, join[MOST_INPUTS]; /* others that are part of the product's sum */
    bool on_device; /* C lies in the device's memory */
    bool apart; /* x has memory of its own */
    char alpha[16], beta[16]; /* in the format of x */
    limber_epilogue_input input[MOST_INPUTS];
    const char *name[MOST_INPUTS];
};

/* Reads and checks it; `stores`: C is written.  Points into *c. */
bool limber_epilogue_read(limber_context *ctx, struct epilogue_call *c, const limber_problem *p,
                          bool stores, struct diag *d);
/* Computes it by `run`, which computes the product. */
bool limber_epilogue_run(limber_context *ctx, struct epilogue_call *c, struct report *r,
                         bool (*run)(limber_context *, const limber_problem *, struct report *,
                                     struct diag *),
                         struct diag *d);
/* The steps behind a plan's text. */
void limber_epilogue_text(const struct epilogue_call *c, struct text *out);

/* ---- solve.c --------------------------------------------------------------------------------- */

/* A checked call of a system that has elements; fills all of *r but its seconds. */
bool limber_solve_run(limber_context *ctx, const limber_solve_call *c, limber_solve_report *r,
                      struct diag *d);

#endif
