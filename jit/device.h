/* SPDX-License-Identifier: BSD-3-Clause
 * Operands in the memory of the context's device. */
#ifndef LIMBER_JIT_DEVICE_H
#define LIMBER_JIT_DEVICE_H

#include "jit/context.h"

/* True if the address is in the memory of the context's device. */
static inline bool limber_device_holds(const limber_context *ctx, const void *p)
{
    const struct device_ops *ops = ctx->machine.backend->device_ops;

    return ops && p && ops->holds(p, ctx->machine.target.device);
}
/* True if the queue's stream is being captured. */
static inline bool limber_device_records(const limber_context *ctx, const limber_queue *q)
{
    const struct device_ops *ops = ctx->machine.backend->device_ops;

    return q && ops && ops->records(q, ctx->machine.target.device);
}
/* Gets the kernel that scans operands of format f.  It must be released with limber_kernels_put. */
bool limber_device_scanner(limber_context *ctx, limber_format f, struct entry **e, struct diag *d);
/* Scans one matrix, every line (row of A or column of B) separately. */
bool limber_device_scan(limber_context *ctx, struct mask *m, const struct view *v, limber_format f,
                        int64_t lines, int64_t length, const limber_queue *q, struct diag *d);
/* A scan of several matrices of lines x length elements that have the same layout, and their
 * masks. */
struct device_scan {
    /* in: one mask for each matrix, which the scan fills */
    struct mask *m;
    int64_t matrices;
    /* addresses of the matrices */
    struct spread each;
    const struct view *v;
    int64_t lines, length;
    /* true: every line is scanned separately; false: the device may scan the images of an im2col
     * matrix */
    bool each_line;
};
/* Performs one or two scans of operands of one format in a single launch.  False on failure. */
bool limber_device_scans(limber_context *ctx, const struct device_scan *s, int count,
                         limber_format f, const limber_queue *q, struct diag *d);
/* Performs an operation on the device: terms of a complex sum (struct terms_call), or weighted sums
 * of magnitudes (struct weigh_call).  f: format of the operand. */
bool limber_device_terms(limber_context *ctx, const struct terms_call *call, limber_format f,
                         const limber_queue *q, struct diag *d);
bool limber_device_weigh(limber_context *ctx, const struct weigh_call *call, limber_format f,
                         const limber_queue *q, struct diag *d);
/* Performs an operation for complex products by three real ones.  call->from and call->product are
 * in format f; products of integers are in i64. */
bool limber_device_sums(limber_context *ctx, struct sums_call *call, limber_format f,
                        const limber_queue *q, struct diag *d);
bool limber_device_pairs(limber_context *ctx, const struct pairs_call *call, limber_format f,
                         const limber_queue *q, struct diag *d);
/* Gets the kernel that applies epilogue steps in these formats.  It must be released with
 * limber_kernels_put.  limber_device_steps launches it. */
bool limber_device_stepper(limber_context *ctx, const struct epilogue *steps, struct entry **e,
                           struct diag *d);
bool limber_device_steps(limber_context *ctx, struct entry *e, const struct epilogue *steps,
                         const limber_queue *q, struct diag *d);
/* Allocates and frees device memory in the order of the queue's stream. what: name of the memory,
 * for error texts. */
bool limber_device_alloc(limber_context *ctx, void **p, size_t bytes, const char *what,
                         const limber_queue *q, struct diag *d);
void limber_device_free(limber_context *ctx, void *p, const limber_queue *q);

#endif
