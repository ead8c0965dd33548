/* SPDX-License-Identifier: BSD-3-Clause
 * Weighted sums of the magnitudes in an operand, computed on the device for error estimates on the
 * host (struct weigh_call). */
#include "backends/cuda/launch.h"

enum { THREADS = 256 };

/* Uploads the weights, launches the kernel, and queues the copy of the sums to the host.  Returns
 * false with an error. */
static bool launch_weigh(struct device_call *r, const struct weigh_call *weigh, cu_pointer weights,
                         cu_pointer to, struct diag *d)
{
    size_t bytes = (size_t)weigh->length * sizeof *weigh->weights;
    struct weigh_args args = {
        .operand = limber_cuda_operand(weigh->view),
        .across = weigh->across,
        .lines = weigh->lines,
        .length = weigh->length,
        .weights = (const double *)(uintptr_t)weights,
        .to = (double *)(uintptr_t)to,
    };

    return (!weights || limber_cuda_ok(r->driver,
                                       r->driver->cuMemcpyHtoDAsync_v2(weights, weigh->weights,
                                                                       bytes, r->stream),
                                       "copying to the device", d)) &&
           limber_cuda_launch_kernel(r, KERNEL_weigh, (weigh->lines + THREADS - 1) / THREADS,
                                     THREADS, 0, &args, d) &&
           limber_cuda_ok(r->driver,
                          r->driver->cuMemcpyDtoHAsync_v2(
                              weigh->to, to, (size_t)weigh->lines * sizeof *weigh->to, r->stream),
                          "copying from the device", d);
}

/* Implements device_ops.weigh: computes weighted sums of absolute values (struct weigh_call), and
 * waits for them. */
bool limber_cuda_weigh(struct kernel *k, const struct weigh_call *weigh, int device,
                       const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct device_call r = { .kernel = k, .call = &call };
    cu_pointer weights = 0, to = 0;
    bool ok;

    if (weigh->lines == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    ok = (weigh->length == 0 ||
          limber_cuda_take_memory(&r, &weights, (size_t)weigh->length * sizeof *weigh->weights,
                                  "weights", d)) &&
         limber_cuda_take_memory(&r, &to, (size_t)weigh->lines * sizeof *weigh->to, "sums", d) &&
         launch_weigh(&r, weigh, weights, to, d);
    limber_cuda_release(&r, &weights);
    limber_cuda_release(&r, &to);
    ok = limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a kernel", d) &&
         ok;
    limber_cuda_leave(&r);
    return ok;
}
