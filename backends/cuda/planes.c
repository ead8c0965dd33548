/* SPDX-License-Identifier: BSD-3-Clause
 * Complex products by three real products, on the device: sums of real and imaginary parts, and the
 * combination of the three products (struct sums_call, struct pairs_call). */
#include "backends/cuda/launch.h"

enum { THREADS = 256, WAVES = 8 };

/* True if the kernels of a scan of this format include those that compute complex products by three
 * real products. */
bool limber_cuda_has_planes(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT || limber_format_is_binary(f);
}

/* Launches a kernel whose threads loop over `elements` elements, with a few thread blocks per
 * multiprocessor. */
static bool launch_grid(struct device_call *r, enum cuda_kernel which, int64_t elements, void *args,
                        struct diag *d)
{
    int64_t blocks = (elements + THREADS - 1) / THREADS;
    int64_t most = (int64_t)WAVES * r->device->multiprocessors;

    return limber_cuda_launch_kernel(r, which, blocks < most ? blocks : most, THREADS, 0, args, d);
}

/* Waits for the call's stream if `waits` is set.  Returns false with an error if that fails. */
static bool wait_for_stream(struct device_call *r, bool waits, struct diag *d)
{
    return !waits || limber_cuda_ok(r->driver, r->driver->cuStreamSynchronize(r->stream),
                                    "running a kernel", d);
}

/* Launches the kernel that computes sums of real and imaginary parts.  most: device address at
 * which the largest magnitude is stored, or 0. */
static bool launch_sums(struct device_call *r, struct sums_call *sums, cu_pointer most,
                        struct diag *d)
{
    struct sums_args args = {
        .from = sums->from,
        .outer = sums->outer,
        .inner = sums->inner,
        .outer_step = sums->outer_step,
        .inner_step = sums->inner_step,
        .count = sums->count,
        .each = sums->each,
        .to = sums->to,
        .most = (uint64_t *)(uintptr_t)most,
        .minus = sums->minus,
    };

    if (sums->each.address) {
        if (!limber_cuda_copy(r, &r->addresses[0], sums->each.address,
                              (size_t)sums->count * sizeof *sums->each.address, "addresses", d))
            return false;
        args.each.address = (const void *const *)(uintptr_t)r->addresses[0];
    }
    return (!most || limber_cuda_ok(r->driver, r->driver->cuMemsetD32Async(most, 0, 2, r->stream),
                                    "clearing", d)) &&
           launch_grid(r, KERNEL_sums, sums->count * sums->outer * sums->inner, &args, d) &&
           (!most || limber_cuda_ok(r->driver,
                                    r->driver->cuMemcpyDtoHAsync_v2(&sums->most, most,
                                                                    sizeof sums->most, r->stream),
                                    "copying from the device", d));
}

/* Implements device_ops.sums: computes sums or differences of real and imaginary parts (struct
 * sums_call).  Waits if there is no queue or the largest magnitude is measured. */
bool limber_cuda_sums(struct kernel *k, struct sums_call *sums, int device,
                      const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct device_call r = { .kernel = k, .call = &call };
    cu_pointer most = 0;
    bool ok;

    sums->most = 0;
    if (!limber_cuda_enter(&r, d))
        return false;
    ok =
        (!sums->measures || limber_cuda_take_memory(&r, &most, sizeof sums->most, "a number", d)) &&
        launch_sums(&r, sums, most, d);
    limber_cuda_release(&r, &most);
    limber_cuda_release(&r, &r.addresses[0]);
    ok = wait_for_stream(&r, r.own_stream || sums->measures, d) && ok;
    limber_cuda_leave(&r);
    return ok;
}

/* Implements device_ops.pairs: combines three real products to complex results (struct
 * pairs_call). */
bool limber_cuda_pairs(struct kernel *k, const struct pairs_call *pairs, int device,
                       const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct device_call r = { .kernel = k, .call = &call };
    struct pairs_args args = {
        .product = { pairs->product[0], pairs->product[1], pairs->product[2] },
        .count = pairs->count,
        .width = pairs->width,
        .to = pairs->to,
        .plus = pairs->plus,
    };
    bool ok;

    if (!limber_cuda_enter(&r, d))
        return false;
    ok = launch_grid(&r, KERNEL_pairs, pairs->count, &args, d);
    ok = wait_for_stream(&r, r.own_stream, d) && ok;
    limber_cuda_leave(&r);
    return ok;
}
