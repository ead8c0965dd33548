/* SPDX-License-Identifier: BSD-3-Clause
 * Scans operands in device memory for exponents, significant bits, signs and special values. */
#include "backends/cuda/launch.h"

#include <string.h>

enum { LEAST_COUNTERS = 1024 };
enum { LINES = 32, ELEMENTS = 64, THREADS = 256, WARPS = THREADS / 32, WAVES = 8 };

/* Returns the number of thread blocks along k that scan one group of lines: enough to fill the
 * device a few times, at most one per run of ELEMENTS. */
static int32_t blocks_along_k(const struct device *v, int64_t blocks_lines, int64_t length)
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

/* Returns the number of tiles for which a scan has results, in a matrix of lines x length elements.
 */
int64_t limber_cuda_scan_tiles(int64_t lines, int64_t length)
{
    return ceil_div(lines, LIMBER_BLOCK) * ceil_div(length, ELEMENTS);
}

/* Kernel arguments and grid sizes of one operand's scan. */
struct planned_scan {
    struct scan_args args;
    struct windows_args windows;
    bool has_windows;
    /* number of thread blocks of the kernel that initialises results, and of the scan */
    int64_t clearing, blocks;
};

/* Divides the scan of matrices, or of the pixels of images, among thread blocks. */
static void divide_scan(const struct device_call *r, struct planned_scan *p, int64_t images)
{
    struct scan_args *args = &p->args;
    int64_t blocks = (args->lines + LINES - 1) / LINES;

    args->all = images * args->lines;
    args->blocks_p = blocks_along_k(r->device, images * blocks, args->length);
    blocks *= args->blocks_p;
    args->blocks = images > 1 ? (int32_t)blocks : INT32_MAX;
    p->clearing = (args->all + THREADS - 1) / THREADS;
    p->blocks = images * blocks;
}

/* Plans the scan of an image that is read through windows: each pixel is scanned once, then the
 * results of the pixels in each window are combined. */
static void plan_pixels(const struct device_call *r, const struct scan_call *call,
                        const struct pixels *x, const struct scan_memory *memory,
                        struct planned_scan *p)
{
    p->has_windows = true;
    p->windows = (struct windows_args){
        .patch = *call->v->patch,
        .pixels = (const int32_t *)(uintptr_t)memory->pixels,
        .count = x->images * x->lines,
        .found = p->args.found,
        .lines = call->lines,
        .matrices = call->matrices,
    };
    p->args.operand = limber_cuda_operand(&x->view);
    p->args.lines = x->lines;
    p->args.length = x->length;
    p->args.operand.images = (int32_t)x->images;
    p->args.operand.image = x->image * r->kernel->config.side[0].f.size;
    p->args.operand.each = call->each;
    p->args.found = (int32_t *)(uintptr_t)memory->pixels;
    divide_scan(r, p, call->matrices * x->images);
}

/* Returns the plan for the scan of one operand: kernel arguments, grid sizes, and memory for
 * results. */
static struct planned_scan plan_scan(const struct device_call *r, const struct scan_call *call,
                                     const struct scan_memory *memory)
{
    struct planned_scan p = { .args = {
                                  .operand = limber_cuda_operand(call->v),
                                  .lines = call->lines,
                                  .length = call->length,
                                  .found = (int32_t *)(uintptr_t)memory->found,
                                  .tiles = (int32_t *)(uintptr_t)memory->tiles,
                                  .tile_rows = ceil_div(call->lines, LIMBER_BLOCK),
                                  .counters = (int32_t *)(uintptr_t)memory->counters,
                                  .parts = (int32_t *)(uintptr_t)memory->parts,
                                  .halves = (int32_t *)(uintptr_t)memory->halves,
                                  .together = call->tiles ? LIMBER_BLOCK / LINES : 1,
                                  .choice = (int32_t *)(uintptr_t)memory->choice,
                                  .most = (int32_t *)(uintptr_t)memory->most,
                              } };
    struct pixels x;

    if (limber_view_pixels(&x, call->v, call->lines, call->length)) {
        plan_pixels(r, call, &x, memory, &p);
    } else {
        p.args.operand.each = call->each;
        divide_scan(r, &p, call->matrices);
    }
    return p;
}

/* Launches the kernels of a scan of one or two operands: one that initialises the results, unless
 * the last thread block of a line stores them (counters); the scan; and, for images, one that
 * combines the results of pixels to those of windows.  Returns false with an error. */
bool limber_cuda_scan_start(struct device_call *r, const struct scan_call *calls,
                            const struct scan_memory *memory, int count, struct diag *d)
{
    struct scans_args args = { .first = 0 };
    struct planned_scan p[2] = { 0 };
    bool ok;

    for (int i = 0; i < count; i++) {
        p[i] = plan_scan(r, &calls[i], &memory[i]);
        args.side[i] = p[i].args;
    }
    args.first = (int32_t)p[0].clearing;
    ok = memory[0].counters ||
         limber_cuda_launch_kernel(r, KERNEL_scan_start, p[0].clearing + p[1].clearing, THREADS, 0,
                                   &args, d);
    args.first = (int32_t)p[0].blocks;
    ok = ok && limber_cuda_launch_kernel(r, KERNEL_scan, p[0].blocks + p[1].blocks, THREADS,
                                         LINES * (ELEMENTS + 1) * r->kernel->config.side[0].f.size +
                                             WARPS * SCAN_fields * (int)sizeof(int32_t),
                                         &args, d);
    for (int i = 0; ok && i < count; i++)
        ok = !p[i].has_windows ||
             limber_cuda_launch_kernel(r, KERNEL_scan_windows,
                                       (calls[i].matrices * calls[i].lines + THREADS - 1) / THREADS,
                                       THREADS, 0, &p[i].windows, d);
    return ok;
}

/* ---- a scan whose results the host receives -------------------------------------------------- */

/* Takes an idle array of at least `count` counters that are 0, or allocates one.  Returns false
 * with an error. */
static bool take_counters(struct device_call *r, struct idle_item *c, size_t count, struct diag *d)
{
    *c = limber_cuda_take_idle(r->device, &r->device->counters);
    if (c->at && c->size >= count)
        return true;
    limber_cuda_release(r, &c->at);
    c->size = count > LEAST_COUNTERS ? count : LEAST_COUNTERS;
    return limber_cuda_take_memory(r, &c->at, c->size * sizeof(int32_t), "counters", d) &&
           limber_cuda_ok(r->driver, r->driver->cuMemsetD32Async(c->at, 0, c->size, r->stream),
                          "clearing", d);
}

/* Keeps counters for later scans.  are_zero: the scan succeeded, so the counters are 0 again.  If
 * they are not, they are freed. */
static void return_counters(struct device_call *r, struct idle_item *c, bool are_zero)
{
    if (!are_zero || !limber_cuda_keep_idle(r->device, &r->device->counters, *c))
        limber_cuda_release(r, &c->at);
}

/* Frees an idle buffer of pinned host memory. */
static void free_pinned(const struct device_call *r, const struct idle_item *x)
{
    if (x->at)
        r->driver->cuMemFreeHost((void *)(uintptr_t)x->at);
}

/* Takes at least `bytes` bytes of page-locked host memory, to which the device copies without an
 * intermediate buffer.  Returns false with an error. */
static bool take_pinned(struct device_call *r, struct idle_item *x, size_t bytes, struct diag *d)
{
    enum { LEAST = 1 << 18 };
    void *at = NULL;
    bool ok;

    *x = limber_cuda_take_idle(r->device, &r->device->pinned);
    if (x->at && x->size >= bytes)
        return true;
    free_pinned(r, x);
    for (x->size = LEAST; x->size < bytes;)
        x->size *= 2;
    ok = limber_cuda_ok(r->driver, r->driver->cuMemHostAlloc(&at, x->size, 0),
                        "taking page-locked memory", d);
    x->at = (uintptr_t)at;
    return ok;
}

/* Keeps page-locked memory for a later scan, or frees it if enough is kept. */
static void return_pinned(struct device_call *r, const struct idle_item *x)
{
    if (x->at && !limber_cuda_keep_idle(r->device, &r->device->pinned, *x))
        free_pinned(r, x);
}

/* Returns the bytes of a scan's results for all lines. */
static size_t line_bytes(const struct scan_call *call)
{
    return (size_t)(call->matrices * call->lines) * SCAN_fields * sizeof *call->found;
}

/* Returns the bytes of a scan's results for all tiles. */
static size_t tile_bytes(const struct scan_call *call)
{
    return call->tiles ? (size_t)limber_cuda_scan_tiles(call->lines, call->length) * SCAN_fields *
                             sizeof *call->tiles :
                         0;
}

/* Device memory that a scan needs in addition to its results. */
struct needs {
    size_t counters, parts, halves; /* counters: number of counters; parts, halves: bytes */
};

/* Returns the sizes of a scan's temporary arrays.  If one thread block scans a line alone, none are
 * needed. */
static struct needs needs_of(const struct device_call *r, const struct scan_call *call)
{
    const struct scan_memory none = { .found = 0 };
    const struct scan_args a = plan_scan(r, call, &none).args;
    int64_t line_blocks = (a.lines + LINES - 1) / LINES;
    int64_t across = (a.length + ELEMENTS - 1) / ELEMENTS;
    bool alone = a.blocks_p == 1 && !call->tiles;

    if (alone)
        return (struct needs){ 0 };
    return (struct needs){
        .counters = (size_t)(a.all / a.lines * line_blocks),
        .parts = (size_t)(a.blocks_p * a.all) * SCAN_fields * sizeof *call->found,
        .halves =
            call->tiles ? (size_t)(line_blocks * across) * SCAN_fields * sizeof *call->found : 0,
    };
}

/* The state of a scan whose results are copied to the host. */
struct host_scan {
    struct scan_call calls[2]; /* the scans of one or two operands, with addresses on the device */
    struct scan_memory memory[2];
    int count;
    cu_pointer all; /* device memory of all arrays but the counters; results are stored first */
    struct idle_item counters;
    struct idle_item pinned; /* page-locked host memory, to which results are copied */
};

/* Returns the bytes of a scan's results: those of lines, then those of tiles. */
static size_t found_bytes(const struct scan_call *call)
{
    return line_bytes(call) + tile_bytes(call);
}

/* Returns the bytes of all results that are copied to the host. */
static size_t all_found_bytes(const struct host_scan *s)
{
    return found_bytes(&s->calls[0]) + (s->count > 1 ? found_bytes(&s->calls[1]) : 0);
}

/* Adds bytes to the size of an allocation that is made later.  Returns their offset, or 0 for 0
 * bytes. */
static cu_pointer reserve_bytes(size_t *all, size_t bytes)
{
    *all += bytes;
    return bytes ? *all - bytes : 0;
}

/* Allocates the device memory of both scans.  Results are stored first, so that one copy fetches
 * them. */
static bool allocate_scan_memory(struct device_call *r, struct host_scan *s, struct diag *d)
{
    struct needs needs[2] = { 0 };
    size_t all = 0;

    for (int i = 0; i < s->count; i++) {
        needs[i] = needs_of(r, &s->calls[i]);
        s->memory[i].found = reserve_bytes(&all, line_bytes(&s->calls[i]));
        s->memory[i].tiles = reserve_bytes(&all, tile_bytes(&s->calls[i]));
    }
    for (int i = 0; i < s->count; i++) {
        const struct scan_call *call = &s->calls[i];

        s->memory[i].pixels =
            reserve_bytes(&all, (size_t)call->matrices *
                                    limber_cuda_scan_pixels(call->v, call->lines, call->length));
        s->memory[i].parts = reserve_bytes(&all, needs[i].parts);
        s->memory[i].halves = reserve_bytes(&all, needs[i].halves);
    }
    if (!take_counters(r, &s->counters, needs[0].counters + needs[1].counters, d) ||
        !limber_cuda_take_memory(r, &s->all, all, "a scan", d))
        return false;
    for (int i = 0; i < s->count; i++) {
        struct scan_memory *m = &s->memory[i];

        m->counters = s->counters.at + (i ? needs[0].counters : 0) * sizeof(int32_t);
        m->found += s->all;
        m->pixels += m->pixels ? s->all : 0;
        m->parts += m->parts ? s->all : 0;
        m->halves += m->halves ? s->all : 0;
        m->tiles += m->tiles ? s->all : 0;
    }
    return true;
}

/* Uploads the list of addresses of a batch's matrices, if it has one. */
static bool upload_addresses(struct device_call *r, struct scan_call *call, cu_pointer *addresses,
                             struct diag *d)
{
    if (!call->each.address)
        return true;
    if (!limber_cuda_copy(r, addresses, call->each.address,
                          (size_t)call->matrices * sizeof *call->each.address, "addresses", d))
        return false;
    call->each.address = (const void *const *)(uintptr_t)*addresses;
    return true;
}

/* Queues one copy of all results to page-locked memory.  The caller must wait for the copy. */
static bool download_results(struct device_call *r, struct host_scan *s, struct diag *d)
{
    return take_pinned(r, &s->pinned, all_found_bytes(s), d) &&
           limber_cuda_ok(r->driver,
                          r->driver->cuMemcpyDtoHAsync_v2((void *)(uintptr_t)s->pinned.at, s->all,
                                                          all_found_bytes(s), r->stream),
                          "copying from the device", d);
}

/* Copies results from page-locked memory to the arrays that the caller has named. */
static void store_results(struct host_scan *s)
{
    const char *at = (const char *)(uintptr_t)s->pinned.at;

    for (int i = 0; i < s->count; i++) {
        const struct scan_call *call = &s->calls[i];

        memcpy(call->found, at, line_bytes(call));
        if (call->tiles)
            memcpy(call->tiles, at + line_bytes(call), tile_bytes(call));
        at += found_bytes(call);
    }
}

/* Scans, copies the results to the host, and waits for them. */
bool limber_cuda_scan(struct kernel *k, const struct scan_call *calls, int count, int device,
                      const limber_queue *queue, struct diag *d)
{
    struct call call = { .device = device, .queue = queue };
    struct device_call r = { .kernel = k, .call = &call };
    struct host_scan s = { .count = 0 };
    bool ok = true;

    for (int i = 0; i < count; i++)
        if (calls[i].lines)
            s.calls[s.count++] = calls[i];
    if (s.count == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    for (int i = 0; ok && i < s.count; i++)
        ok = upload_addresses(&r, &s.calls[i], &r.addresses[i], d);
    ok = ok && allocate_scan_memory(&r, &s, d) &&
         limber_cuda_scan_start(&r, s.calls, s.memory, s.count, d) && download_results(&r, &s, d);
    for (int i = 0; i < s.count; i++)
        limber_cuda_release(&r, &r.addresses[i]);
    limber_cuda_release(&r, &s.all);
    if (!limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a scan", d))
        ok = false;
    return_counters(&r, &s.counters, ok);
    if (ok)
        store_results(&s);
    return_pinned(&r, &s.pinned);
    limber_cuda_leave(&r);
    return ok;
}
