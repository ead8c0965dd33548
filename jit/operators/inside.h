/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the files of operators share. */
#ifndef LIMBER_JIT_OPERATORS_INSIDE_H
#define LIMBER_JIT_OPERATORS_INSIDE_H

#include "backends/backend.h"
#include "jit/operators/operators.h"

struct entry;

/* ---- elementwise.c --------------------------------------------------------------------------- */

/* limber_values_widen: n values as doubles.  limber_values_narrow: doubles, which may have been
 * rounded to odd, to f.  limber_values_function: the function of each.  They use the host's vector
 * code if there is some, which gives the same bits.  ctx may be NULL. */
void limber_values_widen(const limber_context *ctx, limber_format f, const void *src, double *x,
                         size_t n);
void limber_values_narrow(const limber_context *ctx, limber_format f, limber_rounding rounding,
                          const double *x, void *dst, size_t n);
void limber_values_function(const limber_context *ctx, limber_function f, const struct fn_args *a,
                            double *x, size_t n, bool single); /* function_ops.run */

/* ---- addends.c ------------------------------------------------------------------------------- */

/* Moves the inputs that the first steps add into the product's exact sum: one to c->addend, unless
 * C begins with something else, the others to c->join. */
void limber_epilogue_addends(limber_context *ctx, struct epilogue_call *c, bool begins_free);
/* Extends the product by the terms of c->join.  *memory has the extended operands, and is freed by
 * the caller; NULL if there are none. */
bool limber_epilogue_widen(limber_context *ctx, struct epilogue_call *c, char **memory,
                           struct diag *d);

/* ---- steps.c --------------------------------------------------------------------------------- */

/* Runs the steps on rows [row, row + rows) and columns [col, col + cols), by ops' vector code for
 * target t; ops NULL: by scalar code. */
void limber_epilogue_block(const struct epilogue *e, const struct function_ops *ops,
                           const struct target *t, int64_t row, int64_t rows, int64_t col,
                           int64_t cols);
/* Runs the steps on all of `count` matrices of one size; of(arg, g, e) describes matrix g. */
void limber_epilogue_all(limber_context *ctx, void (*of)(void *arg, int64_t g, struct epilogue *e),
                         void *arg, int64_t count);

/* limber_epilogue_all in device memory: gets the kernel, before anything is written (release it
 * with limber_kernels_put), and launches it. */
bool limber_epilogue_stepper(limber_context *ctx,
                             void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                             struct entry **entry, struct diag *d);
bool limber_epilogue_there(limber_context *ctx,
                           void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                           int64_t count, struct entry *entry, const limber_queue *q,
                           struct diag *d);

#endif
