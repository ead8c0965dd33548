/* SPDX-License-Identifier: BSD-3-Clause
 * Operands in the memory of the context's device. */
#ifndef LIMBER_JIT_DEVICE_H
#define LIMBER_JIT_DEVICE_H

#include "jit/context.h"

/* device.c: operands in the memory of the context's device. */
bool limber_device_holds(const limber_context *ctx, const void *p);
/* True if the stream is being captured. */
bool limber_device_records(const limber_context *ctx, const limber_queue *q);
/* Gets the kernel that scans operands of a format; release it with limber_kernels_put. */
bool limber_device_scanner(limber_context *ctx, limber_format f, struct entry **e, struct diag *d);
/* Scans each line of one matrix. */
bool limber_device_scan(limber_context *ctx, struct mask *m, const struct view *v, limber_format f,
                        int64_t lines, int64_t length, const limber_queue *q, struct diag *d);
/* A scan of several matrices of lines x length elements that lie like the first, and their
 * masks. */
struct device_scan {
    struct mask *m;
    int64_t matrices;
    struct spread each;
    const struct view *v;
    int64_t lines, length;
    bool each_line; /* of a patches matrix: its images do not suffice */
};
/* Runs one or two scans of one format in one launch. */
bool limber_device_scans(limber_context *ctx, const struct device_scan *s, int count,
                         limber_format f, const limber_queue *q, struct diag *d);
/* j->c is in format f.  See struct terms_job. */
bool limber_device_terms(limber_context *ctx, const struct terms_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
bool limber_device_weigh(limber_context *ctx, const struct weigh_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
/* j->from and j->product are in format f, products of integers in i64. */
bool limber_device_sums(limber_context *ctx, struct sums_job *j, limber_format f,
                        const limber_queue *q, struct diag *d);
bool limber_device_pairs(limber_context *ctx, const struct pairs_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
/* Gets the loaded kernel of epilogue steps for these formats; release it with limber_kernels_put.
 * limber_device_steps launches it. */
bool limber_device_stepper(limber_context *ctx, const struct epilogue *steps, struct entry **e,
                           struct diag *d);
bool limber_device_steps(limber_context *ctx, struct entry *e, const struct epilogue *steps,
                         const limber_queue *q, struct diag *d);
/* Allocates and frees device memory in the queue's order. */
bool limber_device_alloc(limber_context *ctx, void **p, size_t bytes, const char *what,
                         const limber_queue *q, struct diag *d);
void limber_device_free(limber_context *ctx, void *p, const limber_queue *q);

#endif
