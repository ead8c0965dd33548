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

size_t limber_cuda_scan_pixels(const struct view *v, int64_t lines, int64_t length)
{
    struct pixels x;

    return limber_view_pixels(&x, v, lines, length) ?
               (size_t)(x.images * x.lines) * SCAN_fields * sizeof(int32_t) :
               0;
}

int64_t limber_cuda_scan_tiles(int64_t lines, int64_t length)
{
    return (lines + LIMBER_BLOCK - 1) / LIMBER_BLOCK * ((length + ELEMENTS - 1) / ELEMENTS);
}

/* Of matrices, or of pixels. */
static bool start(struct run *r, struct scan_args *args, int64_t images, struct diag *d)
{
    int64_t blocks = (args->lines + LINES - 1) / LINES;

    args->all = images * args->lines;
    args->blocks_p = across(r->device, images * blocks, args->length);
    blocks *= args->blocks_p;
    args->blocks = images > 1 ? (int32_t)blocks : INT32_MAX;
    return limber_cuda_start(r, KERNEL_scan_start, (args->all + THREADS - 1) / THREADS, THREADS, 0,
                             args, d) &&
           limber_cuda_start(r, KERNEL_scan, images * blocks, THREADS,
                             LINES * (ELEMENTS + 1) * r->kernel->config.side[0].f.size, args, d);
}

static bool start_pixels(struct run *r, const struct view *v, const struct pixels *x, int64_t lines,
                         struct scan_args *args, const struct scan_memory *memory, struct diag *d)
{
    struct windows_args w = {
        .patch = *v->patch,
        .pixels = (const int32_t *)(uintptr_t)memory->pixels,
        .count = x->images * x->lines,
        .found = args->found,
        .lines = lines,
    };

    args->operand = limber_cuda_operand(&x->view);
    args->lines = x->lines;
    args->length = x->length;
    args->operand.each.step = x->image * r->kernel->config.side[0].f.size;
    args->found = (int32_t *)(uintptr_t)memory->pixels;
    return start(r, args, x->images, d) &&
           limber_cuda_start(r, KERNEL_scan_windows, (lines + THREADS - 1) / THREADS, THREADS, 0,
                             &w, d);
}

bool limber_cuda_scan_start(struct run *r, const struct scan_job *j,
                            const struct scan_memory *memory, struct diag *d)
{
    struct scan_args args = {
        .operand = limber_cuda_operand(j->v),
        .lines = j->lines,
        .length = j->length,
        .found = (int32_t *)(uintptr_t)memory->found,
        .tiles = (int32_t *)(uintptr_t)memory->tiles,
        .tile_rows = (j->lines + LIMBER_BLOCK - 1) / LIMBER_BLOCK,
        .choice = (int32_t *)(uintptr_t)memory->choice,
        .most = (int32_t *)(uintptr_t)memory->most,
    };
    struct pixels x;

    if (limber_view_pixels(&x, j->v, j->lines, j->length))
        return start_pixels(r, j->v, &x, j->lines, &args, memory, d);
    args.operand.each = j->each;
    return start(r, &args, j->matrices, d);
}

/* The job with its addresses on the device. */
static bool reach(struct run *r, struct scan_job *j, struct diag *d)
{
    if (!j->each.address)
        return true;
    if (!limber_cuda_copy(r, &r->addresses[0], j->each.address,
                          (size_t)j->matrices * sizeof *j->each.address, "addresses", d))
        return false;
    j->each.address = (const void *const *)(uintptr_t)r->addresses[0];
    return true;
}

bool limber_cuda_scan(struct kernel *k, const struct scan_job *j, int device,
                      const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct run r = { .kernel = k, .call = &call };
    size_t bytes = (size_t)(j->matrices * j->lines) * SCAN_fields * sizeof *j->found;
    size_t pixels = limber_cuda_scan_pixels(j->v, j->lines, j->length);
    size_t tile_bytes = j->tiles ? (size_t)limber_cuda_scan_tiles(j->lines, j->length) *
                                       SCAN_fields * sizeof *j->tiles :
                                   0;
    struct scan_memory memory = { .found = 0 };
    struct scan_job there = *j;
    bool ok;

    if (j->lines == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    ok = reach(&r, &there, d) && limber_cuda_memory(&r, &memory.found, bytes, "a scan", d) &&
         (pixels == 0 || limber_cuda_memory(&r, &memory.pixels, pixels, "a scan", d)) &&
         (tile_bytes == 0 || limber_cuda_memory(&r, &memory.tiles, tile_bytes, "a scan", d)) &&
         limber_cuda_scan_start(&r, &there, &memory, d) &&
         limber_cuda_ok(r.driver,
                        r.driver->cuMemcpyDtoHAsync_v2(j->found, memory.found, bytes, r.stream),
                        "copying from the device", d) &&
         (tile_bytes == 0 || limber_cuda_ok(r.driver,
                                            r.driver->cuMemcpyDtoHAsync_v2(j->tiles, memory.tiles,
                                                                           tile_bytes, r.stream),
                                            "copying from the device", d));
    limber_cuda_release(&r, &memory.found);
    limber_cuda_release(&r, &memory.pixels);
    limber_cuda_release(&r, &memory.tiles);
    limber_cuda_release(&r, &r.addresses[0]);
    if (!limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a scan", d))
        ok = false;
    limber_cuda_leave(&r);
    return ok;
}
