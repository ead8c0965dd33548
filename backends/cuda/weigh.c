/* SPDX-License-Identifier: BSD-3-Clause
 * Weighted sums of the magnitudes in an operand, computed on the device for error estimates on the
 * host (struct weigh_job). */
#include "backends/cuda/launch.h"

enum { THREADS = 256 };

/* Uploads the weights, launches the kernel, and queues the copy of the sums to the host.  Returns
 * false with an error. */
static bool launch_weigh(struct device_call *r, const struct weigh_job *j, cu_pointer weights,
                         cu_pointer to, struct diag *d)
{
    size_t bytes = (size_t)j->length * sizeof *j->weights;
    struct weigh_args args = {
        .operand = limber_cuda_operand(j->view),
        .across = j->across,
        .lines = j->lines,
        .length = j->length,
        .weights = (const double *)(uintptr_t)weights,
        .to = (double *)(uintptr_t)to,
    };

    return (!weights ||
            limber_cuda_ok(r->driver,
                           r->driver->cuMemcpyHtoDAsync_v2(weights, j->weights, bytes, r->stream),
                           "copying to the device", d)) &&
           limber_cuda_launch_kernel(r, KERNEL_weigh, (j->lines + THREADS - 1) / THREADS, THREADS,
                                     0, &args, d) &&
           limber_cuda_ok(r->driver,
                          r->driver->cuMemcpyDtoHAsync_v2(
                              j->to, to, (size_t)j->lines * sizeof *j->to, r->stream),
                          "copying from the device", d);
}

/* Implements device_ops.weigh: computes weighted sums of absolute values (struct weigh_job), and
 * waits for them. */
bool limber_cuda_weigh(struct kernel *k, const struct weigh_job *j, int device,
                       const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct device_call r = { .kernel = k, .call = &call };
    cu_pointer weights = 0, to = 0;
    bool ok;

    if (j->lines == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    ok = (j->length == 0 ||
          limber_cuda_take_memory(&r, &weights, (size_t)j->length * sizeof *j->weights, "weights",
                                  d)) &&
         limber_cuda_take_memory(&r, &to, (size_t)j->lines * sizeof *j->to, "sums", d) &&
         launch_weigh(&r, j, weights, to, d);
    limber_cuda_release(&r, &weights);
    limber_cuda_release(&r, &to);
    ok = limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a kernel", d) &&
         ok;
    limber_cuda_leave(&r);
    return ok;
}
