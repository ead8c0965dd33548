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

/* What is started for one operand. */
struct planned {
    struct scan_args args;
    struct windows_args windows;
    bool has_windows;
    int64_t clearing, blocks; /* blocks of threads of both kernels */
};

/* Of matrices, or of pixels that follow each other. */
static void divide(const struct run *r, struct planned *p, int64_t images)
{
    struct scan_args *args = &p->args;
    int64_t blocks = (args->lines + LINES - 1) / LINES;

    args->all = images * args->lines;
    args->blocks_p = across(r->device, images * blocks, args->length);
    blocks *= args->blocks_p;
    args->blocks = images > 1 ? (int32_t)blocks : INT32_MAX;
    p->clearing = (args->all + THREADS - 1) / THREADS;
    p->blocks = images * blocks;
}

static void plan_pixels(const struct run *r, const struct scan_job *j, const struct pixels *x,
                        const struct scan_memory *memory, struct planned *p)
{
    p->has_windows = true;
    p->windows = (struct windows_args){
        .patch = *j->v->patch,
        .pixels = (const int32_t *)(uintptr_t)memory->pixels,
        .count = x->images * x->lines,
        .found = p->args.found,
        .lines = j->lines,
        .matrices = j->matrices,
    };
    p->args.operand = limber_cuda_operand(&x->view);
    p->args.lines = x->lines;
    p->args.length = x->length;
    p->args.operand.images = (int32_t)x->images;
    p->args.operand.image = x->image * r->kernel->config.side[0].f.size;
    p->args.operand.each = j->each;
    p->args.found = (int32_t *)(uintptr_t)memory->pixels;
    divide(r, p, j->matrices * x->images);
}

static struct planned plan(const struct run *r, const struct scan_job *j,
                           const struct scan_memory *memory)
{
    struct planned p = { .args = {
                             .operand = limber_cuda_operand(j->v),
                             .lines = j->lines,
                             .length = j->length,
                             .found = (int32_t *)(uintptr_t)memory->found,
                             .tiles = (int32_t *)(uintptr_t)memory->tiles,
                             .tile_rows = (j->lines + LIMBER_BLOCK - 1) / LIMBER_BLOCK,
                             .choice = (int32_t *)(uintptr_t)memory->choice,
                             .most = (int32_t *)(uintptr_t)memory->most,
                         } };
    struct pixels x;

    if (limber_view_pixels(&x, j->v, j->lines, j->length)) {
        plan_pixels(r, j, &x, memory, &p);
    } else {
        p.args.operand.each = j->each;
        divide(r, &p, j->matrices);
    }
    return p;
}

bool limber_cuda_scan_start(struct run *r, const struct scan_job *jobs,
                            const struct scan_memory *memory, int count, struct diag *d)
{
    struct scans_args args = { .first = 0 };
    struct planned p[2] = { 0 };
    bool ok;

    for (int i = 0; i < count; i++) {
        p[i] = plan(r, &jobs[i], &memory[i]);
        args.side[i] = p[i].args;
    }
    args.first = (int32_t)p[0].clearing;
    ok = limber_cuda_start(r, KERNEL_scan_start, p[0].clearing + p[1].clearing, THREADS, 0, &args,
                           d);
    args.first = (int32_t)p[0].blocks;
    ok = ok &&
         limber_cuda_start(r, KERNEL_scan, p[0].blocks + p[1].blocks, THREADS,
                           LINES * (ELEMENTS + 1) * r->kernel->config.side[0].f.size, &args, d);
    for (int i = 0; ok && i < count; i++)
        ok = !p[i].has_windows ||
             limber_cuda_start(r, KERNEL_scan_windows,
                               (jobs[i].matrices * jobs[i].lines + THREADS - 1) / THREADS, THREADS,
                               0, &p[i].windows, d);
    return ok;
}

/* ---- a scan for the host --------------------------------------------------------------------- */

static size_t bytes_of(const struct scan_job *j)
{
    return (size_t)(j->matrices * j->lines) * SCAN_fields * sizeof *j->found;
}

static size_t tile_bytes(const struct scan_job *j)
{
    return j->tiles ? (size_t)limber_cuda_scan_tiles(j->lines, j->length) * SCAN_fields *
                          sizeof *j->tiles :
                      0;
}

/* Memory of a scan, and the job's addresses on the device. */
static bool reach(struct run *r, struct scan_job *j, struct scan_memory *memory,
                  cu_pointer *addresses, struct diag *d)
{
    size_t pixels = (size_t)j->matrices * limber_cuda_scan_pixels(j->v, j->lines, j->length);
    size_t tiles = tile_bytes(j);

    if (j->each.address) {
        if (!limber_cuda_copy(r, addresses, j->each.address,
                              (size_t)j->matrices * sizeof *j->each.address, "addresses", d))
            return false;
        j->each.address = (const void *const *)(uintptr_t)*addresses;
    }
    return limber_cuda_memory(r, &memory->found, bytes_of(j), "a scan", d) &&
           (pixels == 0 || limber_cuda_memory(r, &memory->pixels, pixels, "a scan", d)) &&
           (tiles == 0 || limber_cuda_memory(r, &memory->tiles, tiles, "a scan", d));
}

static bool fetch(struct run *r, const struct scan_job *j, const struct scan_memory *memory,
                  struct diag *d)
{
    size_t tiles = tile_bytes(j);

    return limber_cuda_ok(
               r->driver,
               r->driver->cuMemcpyDtoHAsync_v2(j->found, memory->found, bytes_of(j), r->stream),
               "copying from the device", d) &&
           (tiles == 0 || limber_cuda_ok(r->driver,
                                         r->driver->cuMemcpyDtoHAsync_v2(j->tiles, memory->tiles,
                                                                         tiles, r->stream),
                                         "copying from the device", d));
}

bool limber_cuda_scan(struct kernel *k, const struct scan_job *jobs, int count, int device,
                      const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct run r = { .kernel = k, .call = &call };
    struct scan_memory memory[2] = { { .found = 0 } };
    struct scan_job there[2];
    int used = 0;
    bool ok = true;

    for (int i = 0; i < count; i++)
        if (jobs[i].lines)
            there[used++] = jobs[i];
    if (used == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    for (int i = 0; ok && i < used; i++)
        ok = reach(&r, &there[i], &memory[i], &r.addresses[i], d);
    ok = ok && limber_cuda_scan_start(&r, there, memory, used, d);
    for (int i = 0; ok && i < used; i++)
        ok = fetch(&r, &there[i], &memory[i], d);
    for (int i = 0; i < used; i++) {
        limber_cuda_release(&r, &memory[i].found);
        limber_cuda_release(&r, &memory[i].pixels);
        limber_cuda_release(&r, &memory[i].tiles);
        limber_cuda_release(&r, &r.addresses[i]);
    }
    if (!limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a scan", d))
        ok = false;
    limber_cuda_leave(&r);
    return ok;
}
