/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of arrays, reductions, problems with an epilogue and linear systems, for the public
 * calls. */
#ifndef LIMBER_JIT_OPERATORS_H
#define LIMBER_JIT_OPERATORS_H

#include "ir/steps.h"
#include "jit/problem.h"
#include "jit/report.h"
#include "limber/solve.h"

/* ---- elementwise.c, reduce.c ----------------------------------------------------------------- */

/* Runs a checked call.  ctx may be NULL. */
void limber_elementwise_run(limber_context *ctx, const limber_elementwise *e);
struct table;
void limber_tables_free(struct table *list);
/* Runs a checked call.  ctx may be NULL. */
void limber_reduce_run(limber_context *ctx, const limber_reduce_call *r);

/* ---- epilogue.c ------------------------------------------------------------------------------ */

/* A problem with an epilogue: the product x that is computed, and the steps that follow it. */
struct epilogue_call {
    limber_problem product; /* without the epilogue; its C is x, in the steps' format */
    limber_batch batch;
    limber_output c; /* the caller's C */
    struct problem stated; /* the engine's problem of the product with the caller's C */
    struct steps steps;
    limber_format compute;
    int addend; /* index of the input that replaces beta C in x, or -1 */
    int joins, join[MOST_INPUTS]; /* further inputs that are terms of the product's sum */
    bool on_device; /* C lies in device memory */
    bool apart; /* x has memory of its own */
    char alpha[16], beta[16]; /* scalars in the format of x */
    limber_epilogue_input input[MOST_INPUTS];
    const char *name[MOST_INPUTS];
};

/* Reads and checks a problem; `stores`: C will be written.  Pointers in *c point into *c. */
bool limber_epilogue_read(limber_context *ctx, struct epilogue_call *c, const limber_problem *p,
                          bool stores, struct diag *d);
/* Computes the problem; `run` computes its product. */
bool limber_epilogue_run(limber_context *ctx, struct epilogue_call *c, struct report *r,
                         bool (*run)(limber_context *, const limber_problem *, struct report *,
                                     struct diag *),
                         struct diag *d);
/* Adds the steps to a plan's text. */
void limber_epilogue_text(const struct epilogue_call *c, struct text *out);

/* ---- solve.c --------------------------------------------------------------------------------- */

/* Solves a checked, nonempty system; fills all of *r but `seconds`. */
bool limber_solve_run(limber_context *ctx, const limber_solve_call *c, limber_solve_report *r,
                      struct diag *d);

#endif
