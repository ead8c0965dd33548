/* SPDX-License-Identifier: BSD-3-Clause
 * Operands in the memory of the context's device. */
#ifndef LIMBER_JIT_DEVICE_H
#define LIMBER_JIT_DEVICE_H

#include "jit/context.h"

/* device.c: operands in the memory of the context's device. */
bool limber_device_holds(const limber_context *ctx, const void *p);
/* The stream is being captured. */
bool limber_device_records(const limber_context *ctx, const limber_queue *q);
/* The kernel that scans operands of a format, to be put back like others. */
bool limber_device_scanner(limber_context *ctx, limber_format f, struct entry **e, struct diag *d);
bool limber_device_scan(limber_context *ctx, struct mask *m, const struct view *v, limber_format f,
                        int64_t lines, int64_t length, const limber_queue *q, struct diag *d);
/* Many matrices of lines x length elements, which are seen as the first one is, and their masks. */
struct device_scan {
    struct mask *m;
    int64_t matrices;
    struct spread each;
    const struct view *v;
    int64_t lines, length;
};
/* One or two of these at once, of one format. */
bool limber_device_scans(limber_context *ctx, const struct device_scan *s, int count,
                         limber_format f, const limber_queue *q, struct diag *d);
/* j->c is in format f. */
bool limber_device_terms(limber_context *ctx, const struct terms_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
bool limber_device_weigh(limber_context *ctx, const struct weigh_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
/* j->from, and j->product, are in format f; of integers the products are in i64. */
bool limber_device_sums(limber_context *ctx, struct sums_job *j, limber_format f,
                        const limber_queue *q, struct diag *d);
bool limber_device_pairs(limber_context *ctx, const struct pairs_job *j, limber_format f,
                         const limber_queue *q, struct diag *d);
/* The kernel of steps for these formats, loaded, to be put back like others; and the steps. */
bool limber_device_stepper(limber_context *ctx, const struct epilogue *steps, struct entry **e,
                           struct diag *d);
bool limber_device_steps(limber_context *ctx, struct entry *e, const struct epilogue *steps,
                         const limber_queue *q, struct diag *d);
/* Memory of the device, in the queue's order. */
bool limber_device_alloc(limber_context *ctx, void **p, size_t bytes, const char *what,
                         const limber_queue *q, struct diag *d);
void limber_device_free(limber_context *ctx, void *p, const limber_queue *q);

#endif
