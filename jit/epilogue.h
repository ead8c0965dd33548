/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of an epilogue on matrices. */
#ifndef LIMBER_JIT_EPILOGUE_H
#define LIMBER_JIT_EPILOGUE_H

#include "backends/backend.h"
#include "ir/steps.h"
#include "limber/limber.h"

struct entry;

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
