/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of operators share. */
#ifndef LIMBER_JIT_OPERATORS_INSIDE_H
#define LIMBER_JIT_OPERATORS_INSIDE_H

#include "backends/backend.h"
#include "jit/operators/operators.h"

struct entry;

/* ---- elementwise.c --------------------------------------------------------------------------- */

/* n values as doubles, of doubles (rounded to odd, or once), and the function of each.  By the
 * host's vector code where there is some, which gives the same bits.  ctx may be NULL. */
void limber_values_widen(const limber_context *ctx, limber_format f, const void *src, double *x,
                         size_t n);
void limber_values_narrow(const limber_context *ctx, limber_format f, limber_rounding rounding,
                          const double *x, void *dst, size_t n);
void limber_values_function(const limber_context *ctx, limber_function f, const struct fn_args *a,
                            double *x, size_t n, bool single); /* function_ops.run */

/* ---- addends.c ------------------------------------------------------------------------------- */

/* Takes from the steps the inputs that the first of them add, as part of the exact sum:
 * c->addend, unless C begins with something already, and c->join. */
void limber_epilogue_addends(limber_context *ctx, struct epilogue_call *c, bool begins_free);
/* The product with c->join among its terms; its operands lie in *memory, the caller's, which is
 * NULL where there are none. */
bool limber_epilogue_widen(limber_context *ctx, struct epilogue_call *c, char **memory,
                           struct diag *d);

/* ---- steps.c --------------------------------------------------------------------------------- */

/* Rows [row, row + rows) and columns [col, col + cols).  t: its vector code serves; NULL: none. */
void limber_epilogue_block(const struct epilogue *e, const struct function_ops *ops,
                           const struct target *t, int64_t row, int64_t rows, int64_t col,
                           int64_t cols);
/* All of `count` matrices of one size; of(arg, g, e) tells the g-th. */
void limber_epilogue_all(limber_context *ctx, void (*of)(void *arg, int64_t g, struct epilogue *e),
                         void *arg, int64_t count);

/* The same of numbers in the device's memory: a kernel, made before anything is written and put
 * back like others, and its launch. */
bool limber_epilogue_stepper(limber_context *ctx,
                             void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                             struct entry **entry, struct diag *d);
bool limber_epilogue_there(limber_context *ctx,
                           void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                           int64_t count, struct entry *entry, const limber_queue *q,
                           struct diag *d);

#endif
