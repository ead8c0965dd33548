/* SPDX-License-Identifier: BSD-3-Clause
 * Device operations for complex products: copying scalars and C (struct terms_call), and allocation
 * of device memory. */
#include "backends/cuda/launch.h"

#include <string.h>

enum { THREADS = 256, WAVES = 8 };

/* Returns the grid size: a few blocks per multiprocessor, whose threads loop over complex numbers
 * of C; 1 block if none are copied (width below 4). */
static int64_t grid_blocks(const struct device_call *r, const struct terms_call *terms)
{
    int64_t blocks = (terms->count * terms->m * terms->n + THREADS - 1) / THREADS;
    int64_t most = (int64_t)WAVES * r->device->multiprocessors;

    return terms->width < 4 || blocks < 1 ? 1 : blocks < most ? blocks : most;
}

/* Launches the kernel that copies scalars and C for a complex product (struct terms_call). */
static bool launch_terms(struct device_call *r, const struct terms_call *terms, struct diag *d)
{
    struct terms_args args = {
        .c = terms->c,
        .row = terms->row,
        .col = terms->col,
        .m = terms->m,
        .n = terms->n,
        .width = terms->width,
        .count = terms->count,
        .each = terms->each,
        .to = terms->to,
        .factors = terms->factors,
    };

    const bool listed = terms->each.address && terms->width == 4;
    bool ok;

    memcpy(args.value, terms->value, sizeof args.value);
    if (listed &&
        !limber_cuda_copy(r, &r->addresses[2], terms->each.address,
                          (size_t)terms->count * sizeof *terms->each.address, "addresses", d))
        return false;
    if (listed)
        args.each.address = (const void *const *)(uintptr_t)r->addresses[2];
    ok = limber_cuda_launch_kernel(r, KERNEL_terms, grid_blocks(r, terms), THREADS, 0, &args, d);
    limber_cuda_release(r, &r->addresses[2]);
    return ok;
}

/* Implements device_ops.terms: copies scalars and C for a complex product (struct terms_call), and
 * waits for the copies if there is no queue. */
bool limber_cuda_terms(struct kernel *k, const struct terms_call *terms, int device,
                       const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct device_call r = { .kernel = k, .call = &call };
    bool ok;

    if (!limber_cuda_enter(&r, d))
        return false;
    ok = launch_terms(&r, terms, d);
    if (r.own_stream)
        ok = limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a kernel",
                            d) &&
             ok;
    limber_cuda_leave(&r);
    return ok;
}

/* ---- the device's memory --------------------------------------------------------------------- */

/* Makes the device's context current and sets r->stream.  Without a queue any stream will do, since
 * each call then waits for its stream. */
static bool enter_device(struct device_call *r, int device, const limber_queue *queue,
                         struct diag *d)
{
    r->device = limber_cuda_device(device, d);
    if (!r->device)
        return false;
    if (!limber_cuda_enter_context(r, d))
        return false;
    if (queue)
        r->stream = queue->stream;
    else
        r->own_stream = limber_cuda_take_stream(r->device, &r->stream, d);
    if (queue || r->own_stream)
        return true;
    limber_cuda_leave(r);
    return false;
}

/* Implements device_ops.alloc: sets *p to memory of the device's pool. */
bool limber_cuda_alloc(void **p, size_t bytes, const char *what, int device,
                       const limber_queue *queue, struct diag *d)
{
    struct device_call r = { .own_stream = false };
    cu_pointer at = 0;
    bool ok;

    if (!enter_device(&r, device, queue, d))
        return false;
    ok = limber_cuda_take_memory(&r, &at, bytes, what, d) &&
         (queue || limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream),
                                  "taking device memory", d));
    limber_cuda_leave(&r);
    *p = (void *)(uintptr_t)at;
    return ok;
}

/* Implements device_ops.free: frees device memory in the order of the queue's stream. */
void limber_cuda_free(void *p, int device, const limber_queue *queue)
{
    struct diag ignored = { 0 };
    struct device_call r = { .own_stream = false };
    cu_pointer at = (cu_pointer)(uintptr_t)p;

    if (!enter_device(&r, device, queue, &ignored))
        return;
    limber_cuda_release(&r, &at);
    limber_cuda_leave(&r);
}
