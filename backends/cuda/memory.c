/* SPDX-License-Identifier: BSD-3-Clause
 * Makes operands accessible to kernels.  Device memory is used in place; host memory is copied.  C
 * is copied back to host memory, element by element if its layout is not dense. */
#include "backends/cuda/launch.h"
#include "ir/num/prim_num.h"

#include <stdlib.h>
#include <string.h>

/* Allocates device memory in the order of the call's stream.  what: names the memory in errors. */
bool limber_cuda_take_memory(struct device_call *r, cu_pointer *p, size_t bytes, const char *what,
                             struct diag *d)
{
    const struct cuda_driver *c = r->driver;
    int result = c->cuMemAllocFromPoolAsync(p, bytes ? bytes : 1, r->device->pool, r->stream);

    if (result == CU_OUT_OF_MEMORY && !c->cuMemPoolTrimTo(r->device->pool, 0))
        result = c->cuMemAllocFromPoolAsync(p, bytes ? bytes : 1, r->device->pool, r->stream);
    if (result == CU_OUT_OF_MEMORY)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no device memory for %zu bytes of %s",
                           bytes, what);
    return limber_cuda_ok(c, result, "taking device memory", d);
}

/* Frees device memory in the order of the call's stream, and sets *p to 0. */
void limber_cuda_release(struct device_call *r, cu_pointer *p)
{
    if (*p)
        r->driver->cuMemFreeAsync(*p, r->stream);
    *p = 0;
}

/* True for memory that kernels can access: device or managed memory of any context of this
 * process. */
bool limber_cuda_on_device(const struct device_call *r, const void *p)
{
    unsigned type = 0;

    return r->driver->cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE,
                                            (cu_pointer)(uintptr_t)p) == 0 &&
           type != 0 && type != CU_MEMORY_HOST;
}

/* Implements device_ops.holds: true if kernels on this device can access the memory at p. */
bool limber_cuda_is_device_memory(const void *p, int device)
{
    struct diag ignored = { 0 };
    struct device_call r = { .device = limber_cuda_device(device, &ignored) };
    cu_context before;
    bool holds;

    if (!r.device)
        return false;
    r.driver = r.device->driver;
    if (r.driver->cuCtxPushCurrent_v2(r.device->context))
        return false;
    holds = limber_cuda_on_device(&r, p);
    r.driver->cuCtxPopCurrent_v2(&before);
    return holds;
}

/* Allocates device memory and copies host memory to it. */
bool limber_cuda_copy(struct device_call *r, cu_pointer *to, const void *from, size_t bytes,
                      const char *what, struct diag *d)
{
    return limber_cuda_take_memory(r, to, bytes, what, d) &&
           (bytes == 0 ||
            limber_cuda_ok(r->driver, r->driver->cuMemcpyHtoDAsync_v2(*to, from, bytes, r->stream),
                           "copying to the device", d));
}

/* ---- operands on the device ------------------------------------------------------------------ */

/* Returns the number of the line (row of A or column of B) just past the last one of which the tile
 * subset uses an element. */
static int64_t end_of_used_lines(const struct tile_subset *x, int64_t lines)
{
    int64_t end = 0;

    for (int64_t i = 0; i < lines; i += LIMBER_BLOCK) {
        int64_t last = i + LIMBER_BLOCK <= lines ? i + LIMBER_BLOCK - 1 : lines - 1;
        int64_t at = limber_block_line(x->block, last) + 1;

        end = at > end ? at : end;
    }
    return end;
}

/* Returns the bytes from the begin of an operand's first element to the end of its last element. */
static size_t extent_bytes(const struct view *v, int64_t lines, int64_t k, int size)
{
    const struct patch *w = v->patch;
    int64_t images, channels, planes;

    if (lines == 0 || k == 0)
        return 0;
    lines = v->tile_subset ? end_of_used_lines(v->tile_subset, lines) : lines;
    if (v->pairs)
        return (size_t)((v->pairs->kind == PAIRS_square ? (lines - 1) / 2 : lines - 1) * v->line +
                        (k - 1) / 2 * v->p + 2) *
               (size_t)(v->pairs->stored ? v->pairs->stored : size);
    if (!w)
        return (size_t)((lines - 1) * v->line + (k - 1) * v->p + 1) * (size_t)size;
    if (w->transposed) {
        images = lines;
        lines = k;
        k = images;
    }
    /* the lines of a tile subset may end within an image, or within a channel's taps */
    images = ceil_div(lines, w->oh * w->ow * (w->t ? w->od : 1));
    channels = v->tile_subset && w->depth ? w->depth : ceil_div(k, w->r * w->s * (w->t ? w->t : 1));
    planes = w->t ? w->d - 1 : 0;
    return (size_t)(w->origin + (images - 1) * w->image + (channels - 1) * w->channel +
                    planes * w->plane + (w->h - 1) * w->row + (w->w - 1) * w->col + 1) *
           (size_t)size;
}

/* Uploads the list of addresses of a batch's matrices, which lie on the device themselves. */
static bool upload_addresses(struct device_call *r, int which, int64_t count, struct diag *d)
{
    struct spread *x = &r->each[which];

    if (!x->address)
        return true;
    if (!limber_cuda_copy(r, &r->addresses[which], x->address, (size_t)count * sizeof *x->address,
                          "addresses", d))
        return false;
    x->address = (const void *const *)(uintptr_t)r->addresses[which];
    return true;
}

/* Copies an operand's matrices to the device.  Matrices that overlap, such as groups of an image's
 * channels, are copied as one range and keep their distances.  Others are copied one by one to
 * aligned addresses. */
static bool copy_matrices(struct device_call *r, int side, size_t bytes, cu_pointer *copy,
                          struct diag *d)
{
    enum { ALIGN = 256 };
    const void *first = r->view[side].data;
    int64_t count = r->matrices[side], step = r->each[side].step;
    size_t apart = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    bool ok;

    if (count > 1 && !r->each[side].address && (size_t)step < bytes) {
        ok = limber_cuda_copy(r, copy, first, (size_t)(count - 1) * (size_t)step + bytes,
                              side ? "B" : "A", d);
        r->view[side].data = (const void *)(uintptr_t)*copy;
        return ok;
    }
    ok = limber_cuda_take_memory(r, copy, (size_t)count * apart, side ? "B" : "A", d);
    for (int64_t g = 0; ok && g < count; g++)
        ok = limber_cuda_ok(r->driver,
                            r->driver->cuMemcpyHtoDAsync_v2(
                                *copy + (cu_pointer)g * apart,
                                limber_spread_at(first, &r->each[side], g), bytes, r->stream),
                            "copying to the device", d);
    r->view[side].data = (const void *)(uintptr_t)*copy;
    r->each[side] = (struct spread){ count > 1 ? (int64_t)apart : 0, NULL };
    return ok;
}

/* Makes an operand accessible to kernels: in place if it lies on the device, else as a copy. */
static bool make_operand_accessible(struct device_call *r, int side, cu_pointer *copy,
                                    struct diag *d)
{
    const struct view *v = side ? &r->call->b : &r->call->a;
    size_t bytes = extent_bytes(v, side ? r->call->n : r->call->m, r->call->k,
                                r->kernel->config.side[side].f.size);

    r->view[side] = *v;
    if (bytes == 0 || limber_cuda_on_device(r, limber_spread_at(v->data, &r->each[side], 0)))
        return upload_addresses(r, side, r->matrices[side], d);
    r->host = true;
    return copy_matrices(r, side, bytes, copy, d);
}

/* Uploads the arrays of an operand's tile subset: the block of each line, and the class of each
 * tile, by which the product reads or skips it. */
static bool upload_tile_subset(struct device_call *r, int side, struct diag *d)
{
    const struct tile_subset *x = r->view[side].tile_subset;
    int64_t lines = side ? r->call->n : r->call->m, end;

    if (!x)
        return true;
    end = ceil_div(end_of_used_lines(x, lines), LIMBER_BLOCK);
    r->view[side].tile_subset = NULL;
    r->subsets.tile_subset[side] = *x;
    if (!limber_cuda_copy(r, &r->subsets.blocks[side], x->block,
                          (size_t)ceil_div(lines, LIMBER_BLOCK) * sizeof *x->block, "blocks", d) ||
        (x->tile && !limber_cuda_copy(r, &r->subsets.tiles[side], x->tile, (size_t)(end * x->tiles),
                                      "tiles", d)))
        return false;
    r->subsets.tile_subset[side].block = (const int32_t *)(uintptr_t)r->subsets.blocks[side];
    r->subsets.tile_subset[side].tile = (const uint8_t *)(uintptr_t)r->subsets.tiles[side];
    return true;
}

/* Returns the largest exponent of the lines. */
static int32_t largest_of(const int32_t *emax, size_t lines)
{
    int32_t most = INT32_MIN;

    for (size_t i = 0; i < lines; i++)
        most = emax[i] > most ? emax[i] : most;
    return most;
}

/* The exponents and flags of an operand's lines that kernels need. */
struct known {
    const struct mask *m;
    /* number of matrices; lines per matrix; exponents per matrix: one for each line, or 1 */
    size_t matrices, lines, each;
    /* number of exponents, and number of flags, over all matrices; 0 if kernels need none */
    size_t emax, special;
};

/* True if a scan found NaN or infinities. */
static bool has_special(const struct mask *m)
{
    return m->special && m->line_special;
}

/* Sets *x to the mask of one operand, and counts the exponents and flags that its kernels need.
 * Returns false, with an error, if the plan scales an operand that was not scanned. */
static bool find_known(const struct device_call *r, int side, struct known *x, struct diag *d)
{
    int scaled = r->kernel->config.side[side].scaled;

    x->m = side ? r->call->mask_b : r->call->mask_a;
    x->matrices = (size_t)r->matrices[side];
    x->lines = (size_t)(side ? r->call->n : r->call->m);
    x->each = scaled == SCALED_all ? 1 : x->lines;
    x->emax = scaled ? x->matrices * x->each : 0;
    if (scaled && (!x->m || !x->m->line_emax))
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "cuda: a scaled operand without its scan");
    for (size_t g = 0; x->m && r->kernel->config.special && g < x->matrices; g++)
        if (has_special(&x->m[g]))
            x->special = x->matrices * x->lines;
    return true;
}

/* Stores the largest exponent of each line or, if a matrix has one scale, of each matrix. */
static void store_exponents(const struct known *x, int32_t *to)
{
    for (size_t g = 0; x->emax && g < x->matrices; g++, to += x->each)
        if (x->each == x->lines)
            memcpy(to, x->m[g].line_emax, x->lines * sizeof *to);
        else
            *to = largest_of(x->m[g].line_emax, x->lines);
}

/* Stores one flag per line (row of A or column of B): 1 if the line has NaN or infinities. */
static void store_flags(const struct known *x, uint8_t *to)
{
    for (size_t g = 0; x->special && g < x->matrices; g++, to += x->lines)
        if (has_special(&x->m[g]))
            memcpy(to, x->m[g].line_special, x->lines);
        else
            memset(to, 0, x->lines);
}

/* Uploads exponents and flags of both operands in one copy.  Returns false with an error. */
static bool upload_exponents_and_flags(struct device_call *r, struct diag *d)
{
    struct known x[2] = { 0 };
    size_t exponents, bytes;
    int32_t *all;
    uint8_t *flags;
    bool ok;

    if (!find_known(r, 0, &x[0], d) || !find_known(r, 1, &x[1], d))
        return false;
    exponents = x[0].emax + x[1].emax;
    bytes = exponents * sizeof *all + x[0].special + x[1].special;
    if (bytes == 0)
        return true;
    all = malloc(bytes);
    if (!all)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for exponents");
    flags = (uint8_t *)(all + exponents);
    store_exponents(&x[0], all);
    store_exponents(&x[1], all + x[0].emax);
    store_flags(&x[0], flags);
    store_flags(&x[1], flags + x[0].special);
    ok = limber_cuda_copy(r, &r->scales.masks, all, bytes, "exponents", d);
    free(all);
    for (int i = 0; i < 2; i++) {
        r->scales.emax[i] = x[i].emax ? r->scales.masks + (i ? x[0].emax : 0) * sizeof *all : 0;
        r->scales.special[i] =
            x[i].special ? r->scales.masks + exponents * sizeof *all + (i ? x[0].special : 0) : 0;
    }
    return ok;
}

/* ---- C on the device, and back --------------------------------------------------------------- */

/* Copies one matrix C to the dense copy or, if `out`, from the dense copy. */
static void stage_matrix(const struct device_call *r, const struct output_view *c,
                         const struct output_view *dense, bool out)
{
    int size = r->kernel->config.result.size;

    for (int64_t i = 0; i < r->call->m; i++)
        for (int64_t j = 0; j < r->call->n; j++) {
            char *at = limber_output_at(c, i, j, size);
            char *copy = limber_output_at(dense, i, j, size);

            memcpy(out ? at : copy, out ? copy : at, (size_t)size);
        }
}

/* Copies all matrices of C between the caller's layout and the dense copy in host memory.  out:
 * from the dense copy to the caller's layout. */
static void copy_staged(const struct device_call *r, bool out)
{
    struct output_view c = r->call->c, dense = r->place;

    for (int64_t g = 0; g < r->groups; g++) {
        c.data = (void *)(uintptr_t)limber_spread_at(r->call->c.data, &r->call->each_c, g);
        dense.data = r->staged + g * r->each[2].step;
        stage_matrix(r, &c, &dense, out);
    }
}

/* True if the kernel reads the old elements of C. */
static bool reads_c(const struct device_call *r)
{
    return r->kernel->config.beta || r->kernel->config.model.start_c;
}

/* Makes C accessible to kernels: in place if it lies on the device, else as a dense copy whose
 * contiguous dimension is that of C. */
static bool make_c_accessible(struct device_call *r, struct diag *d)
{
    const struct call *c = r->call;
    size_t one = (size_t)(c->m * c->n) * (size_t)r->kernel->config.result.size;
    size_t bytes = (size_t)r->groups * one;

    r->place = c->c;
    r->place.rows = c->c.rows ? r->subsets.tile_subset[0].block : NULL;
    r->place.cols = c->c.cols ? r->subsets.tile_subset[1].block : NULL;
    if (bytes == 0 || limber_cuda_on_device(r, limber_spread_at(c->c.data, &r->each[2], 0)))
        return upload_addresses(r, 2, r->groups, d);
    r->host = true;
    r->each[2] = (struct spread){ (int64_t)one, NULL };
    r->place = c->c.row == 1 ? (struct output_view){ .row = 1, .col = c->m, .inner = c->n } :
                               (struct output_view){ .row = c->n, .col = 1, .inner = c->n };
    r->staged = malloc(bytes);
    if (!r->staged)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a copy of C");
    if (reads_c(r))
        copy_staged(r, false);
    if (!(reads_c(r) ? limber_cuda_copy(r, &r->c, r->staged, bytes, "C", d) :
                       limber_cuda_take_memory(r, &r->c, bytes, "C", d)))
        return false;
    r->place.data = (void *)(uintptr_t)r->c;
    return true;
}

/* Makes operands, tile subsets, exponents, flags, C and counters accessible, in this order. */
bool limber_cuda_upload(struct device_call *r, struct diag *d)
{
    const int32_t zero[2] = { 0, 0 };
    const struct unit_counts none = { 0 };

    return make_operand_accessible(r, 0, &r->a, d) && make_operand_accessible(r, 1, &r->b, d) &&
           upload_tile_subset(r, 0, d) && upload_tile_subset(r, 1, d) &&
           upload_exponents_and_flags(r, d) && make_c_accessible(r, d) &&
           (!limber_num_is_int(r->kernel->config.result) || r->kernel->config.wrap ||
            limber_cuda_copy(r, &r->overflow, zero, sizeof zero, "a counter", d)) &&
           (!r->kernel->config.model.counts ||
            limber_cuda_copy(r, &r->counts, &none, sizeof none, "counters", d));
}

/* Queues copies of C and of the counters to the host, as far as the host needs them. */
static bool download_results(struct device_call *r, struct diag *d)
{
    size_t bytes =
        (size_t)(r->groups * r->call->m * r->call->n) * (size_t)r->kernel->config.result.size;
    const struct cuda_driver *c = r->driver;

    if (r->overflow &&
        !limber_cuda_ok(c,
                        c->cuMemcpyDtoHAsync_v2(&r->call->out.overflow, r->overflow,
                                                sizeof r->call->out.overflow, r->stream),
                        "copying from the device", d))
        return false;
    if (r->counts && !limber_cuda_ok(c,
                                     c->cuMemcpyDtoHAsync_v2(&r->call->out.counts, r->counts,
                                                             sizeof r->call->out.counts, r->stream),
                                     "copying from the device", d))
        return false;
    return !r->staged ||
           limber_cuda_ok(c, c->cuMemcpyDtoHAsync_v2(r->staged, r->c, bytes, r->stream),
                          "copying from the device", d);
}

/* Queues the copies of results, frees device memory in stream order, and waits if the host needs
 * results or the stream is the library's own. */
bool limber_cuda_download(struct device_call *r, bool ok, struct diag *d)
{
    bool waits = r->own_stream || r->host || r->overflow || r->counts;

    ok = ok && download_results(r, d);
    limber_cuda_release(r, &r->a);
    limber_cuda_release(r, &r->b);
    limber_cuda_release(r, &r->c);
    limber_cuda_release(r, &r->overflow);
    limber_cuda_release(r, &r->counts);
    limber_cuda_release(r, &r->scales.masks);
    for (int i = 0; i < 2; i++) {
        limber_cuda_release(r, &r->subsets.blocks[i]);
        limber_cuda_release(r, &r->subsets.tiles[i]);
        limber_cuda_release(r, &r->subsets.shown[i]);
    }
    for (int i = 0; i < 3; i++)
        limber_cuda_release(r, &r->addresses[i]);
    if (r->memory.own_workspace)
        limber_cuda_release(r, &r->memory.workspace);
    if (waits && !limber_cuda_ok(r->driver, r->driver->cuStreamSynchronize(r->stream),
                                 "running a kernel", d))
        ok = false;
    if (ok && r->staged && !r->call->dry)
        copy_staged(r, true);
    free(r->staged);
    return ok;
}
