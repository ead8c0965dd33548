/* SPDX-License-Identifier: BSD-3-Clause
 * Scans of operands in device memory. */
#include "backends/cuda/launch.h"

enum { LINES = 32, ELEMENTS = 64, THREADS = 256, WAVES = 8 };

/* Blocks enough to fill the device a few times, and no more along k than there are stretches. */
static int32_t across(const struct device *v, int64_t blocks_lines, int64_t length)
{
    int64_t stretches = (length + ELEMENTS - 1) / ELEMENTS;
    int64_t wanted = WAVES * v->multiprocessors / (blocks_lines ? blocks_lines : 1) + 1;

    return (int32_t)(stretches < 1 ? 1 : stretches < wanted ? stretches : wanted);
}

bool limber_cuda_scan_start(struct run *r, const struct view *v, int64_t lines, int64_t length,
                            const struct scan_room *room, struct diag *d)
{
    int64_t blocks = (lines + LINES - 1) / LINES;
    struct scan_args args = {
        .view = *v, .lines = lines, .length = length,
        .found = (int32_t *)(uintptr_t)room->found,
        .choice = (int32_t *)(uintptr_t)room->choice, .most = (int32_t *)(uintptr_t)room->most,
        .patched = v->patch != NULL, .blocks_p = across(r->device, blocks, length),
    };

    if (v->patch)
        args.patch = *v->patch;
    args.view.patch = NULL;
    return limber_cuda_start(r, KERNEL_scan_start, (lines + THREADS - 1) / THREADS, THREADS, 0,
                             &args, d) &&
           limber_cuda_start(r, KERNEL_scan, blocks * args.blocks_p, THREADS,
                             LINES * (ELEMENTS + 1) * r->kernel->config.side[0].f.size, &args, d);
}

bool limber_cuda_scan(struct kernel *k, const struct view *v, int64_t lines, int64_t length,
                      int device, const limber_queue *queue, int32_t *found, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct run r = { .kernel = k, .call = &call };
    size_t bytes = (size_t)lines * SCAN_fields * sizeof *found;
    struct scan_room room = { .found = 0 };
    bool ok;

    if (lines == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    ok = limber_cuda_memory(&r, &room.found, bytes, "a scan", d) &&
         limber_cuda_scan_start(&r, v, lines, length, &room, d) &&
         limber_cuda_ok(r.driver, r.driver->cuMemcpyDtoHAsync_v2(found, room.found, bytes,
                                                                 r.stream),
                        "copying from the device", d);
    limber_cuda_release(&r, &room.found);
    if (!limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a scan", d))
        ok = false;
    limber_cuda_leave(&r);
    return ok;
}
