/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of an epilogue on matrices. */
#ifndef LIMBER_JIT_EPILOGUE_H
#define LIMBER_JIT_EPILOGUE_H

#include "backends/backend.h"
#include "ir/steps.h"
#include "limber/limber.h"

/* Numbers of a matrix; strides in numbers. */
struct numbers {
    const char *data;
    limber_format format;
    int64_t row, col;
};

/* to = steps(from), element by element; `to` may be where `from` is, with the same strides. */
struct epilogue {
    const struct steps *steps;
    limber_format compute; /* binary32 or binary64 */
    int64_t rows, cols;
    struct numbers from, to; /* to.data is written */
    struct numbers input[MOST_INPUTS];
};

/* Rows [row, row + rows) and columns [col, col + cols).  t: its vector code serves; NULL: none. */
void limber_epilogue_block(const struct epilogue *e, const struct function_ops *ops,
                           const struct target *t, int64_t row, int64_t rows, int64_t col,
                           int64_t cols);
/* All of `count` matrices of one size; of(arg, g, e) tells the g-th. */
void limber_epilogue_all(limber_context *ctx, void (*of)(void *arg, int64_t g, struct epilogue *e),
                         void *arg, int64_t count);

#endif
