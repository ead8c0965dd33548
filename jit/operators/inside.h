/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the files of jit/operators share. */
#ifndef LIMBER_JIT_OPERATORS_INSIDE_H
#define LIMBER_JIT_OPERATORS_INSIDE_H

#include "backends/backend.h"
#include "jit/operators/operators.h"

struct entry;

/* ---- elementwise.c --------------------------------------------------------------------------- */

/* limber_values_widen converts n values to doubles.  limber_values_narrow converts doubles, which
 * may have been rounded to odd, to format f.  limber_values_function replaces each double by the
 * function's value.  All use the host's vector code if there is any; the bits are the same without
 * it. ctx may be NULL. */
void limber_values_widen(const limber_context *ctx, limber_format f, const void *src, double *x,
                         size_t n);
void limber_values_narrow(const limber_context *ctx, limber_format f, limber_rounding rounding,
                          const double *x, void *dst, size_t n);
void limber_values_function(const limber_context *ctx, limber_function f, const struct fn_args *a,
                            double *x, size_t n, bool single); /* function_ops.run */

/* ---- addends.c ------------------------------------------------------------------------------- */

/* Moves inputs that the first steps add into the product's exact sum. begins_free: C is not read
 * (beta is 0), so that one input may take its place, as c->addend.  The other inputs are listed in
 * c->join. */
void limber_epilogue_addends(limber_context *ctx, struct epilogue_call *c, bool begins_free);
/* Extends the operands of the product by columns and rows for the inputs in c->join.  *memory: the
 * extended operands, which the caller frees; NULL if there are no such inputs. */
bool limber_epilogue_widen(limber_context *ctx, struct epilogue_call *c, char **memory,
                           struct diag *d);

/* ---- steps.c --------------------------------------------------------------------------------- */

/* Applies the steps to rows [row, row + rows) and columns [col, col + cols), by vector code of
 * `ops` for target t, or by scalar code if ops is NULL. */
void limber_epilogue_block(const struct epilogue *e, const struct function_ops *ops,
                           const struct target *t, int64_t row, int64_t rows, int64_t col,
                           int64_t cols);
/* Applies the steps to `count` matrices of one size in host memory. of(arg, g, e) describes matrix
 * g in *e. */
void limber_epilogue_all(limber_context *ctx, void (*of)(void *arg, int64_t g, struct epilogue *e),
                         void *arg, int64_t count);

/* Functions for steps in device memory. limber_epilogue_stepper gets the kernel before anything is
 * written; release it with limber_kernels_put. limber_epilogue_on_device launches it for all
 * matrices. */
bool limber_epilogue_stepper(limber_context *ctx,
                             void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                             struct entry **entry, struct diag *d);
bool limber_epilogue_on_device(limber_context *ctx,
                               void (*of)(void *arg, int64_t g, struct epilogue *e), void *arg,
                               int64_t count, struct entry *entry, const limber_queue *q,
                               struct diag *d);

#endif
