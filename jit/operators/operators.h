/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions, reductions, problems with an epilogue and linear systems: the code that
 * the public calls run after they have checked their arguments. */
#ifndef LIMBER_JIT_OPERATORS_H
#define LIMBER_JIT_OPERATORS_H

#include "ir/steps.h"
#include "jit/problem.h"
#include "jit/report.h"
#include "limber/solve.h"

/* ---- elementwise.c, reduce.c ----------------------------------------------------------------- */

/* Computes an elementwise function whose arguments were checked.  ctx: NULL for one thread. */
void limber_elementwise_run(limber_context *ctx, const limber_elementwise *e);
struct table;
void limber_tables_free(struct table *list);
/* Computes a reduction whose arguments were checked.  ctx: NULL for one thread. */
void limber_reduce_run(limber_context *ctx, const limber_reduce_call *r);

/* ---- epilogue.c ------------------------------------------------------------------------------ */

/* A problem with an epilogue: the product, whose result is x, and the steps that follow it. */
struct epilogue_call {
    limber_problem product; /* the product without the epilogue; its result is x */
    limber_batch batch;
    const struct given_plan *given; /* the caller's plan of the product, or NULL */
    limber_output c; /* the caller's C */
    struct problem stated; /* the engine's problem of the product with the caller's C */
    struct steps steps;
    /* format in which the steps compute: binary32 or binary64 */
    limber_format compute;
    int addend; /* index of the input that replaces beta C in x; -1 if there is none */
    int joins, join[MOST_INPUTS]; /* other inputs that became terms of the product's sum */
    bool on_device; /* true if C is in device memory */
    bool apart; /* true if x has memory of its own, false if x is stored in C */
    char alpha[16], beta[16]; /* scalars in the format of x */
    limber_epilogue_input input[MOST_INPUTS];
    const char *name[MOST_INPUTS];
};

/* Reads and checks a problem with an epilogue.  stores: C will be written.  *c points into itself,
 * so it must not be moved. */
bool limber_epilogue_read(limber_context *ctx, struct epilogue_call *c, const limber_problem *p,
                          bool stores, struct diag *d);
/* A function that computes a problem without an epilogue, by the caller's plan unless that is
 * NULL. */
typedef bool product_function(limber_context *, const limber_problem *, const struct given_plan *,
                              struct report *, struct diag *);
/* Computes the product and applies the steps to it.  run: computes the product if C is not a single
 * matrix. */
bool limber_epilogue_run(limber_context *ctx, struct epilogue_call *c, struct report *r,
                         product_function *run, struct diag *d);
/* Appends the steps to a plan's text. */
void limber_epilogue_text(const struct epilogue_call *c, struct text *out);

/* ---- solve.c --------------------------------------------------------------------------------- */

/* Solves a system that was checked and is not empty.  Fills all fields of *r except `seconds`. */
bool limber_solve_run(limber_context *ctx, const limber_solve_call *c, limber_solve_report *r,
                      struct diag *d);

#endif
