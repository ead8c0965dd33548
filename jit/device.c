/* SPDX-License-Identifier: BSD-3-Clause
 * Operands in device memory.  For each format, kernels on the device scan operands and prepare
 * terms of complex sums; other kernels apply epilogue steps.  These kernels are cached like those
 * of products. */
#include "jit/device.h"
#include "jit/trace.h"
#include "jit/scan/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiling and finding kernels ----------------------------------------------------------- */

/* A kernel that belongs to no plan: a scan, or epilogue steps. */
struct source {
    limber_context *ctx;
    limber_format f; /* format of the operands that a scan reads */
    const struct epilogue *steps; /* steps of an epilogue; NULL if the kernel is a scan */
    /* key of the kernel in memory, and its bytes */
    const void *key;
    size_t size;
};

/* Loads a kernel from the cache on disk.  Does not look there while kernels are dumped, because a
 * dump shows all stages of making a kernel.  False if there is no usable kernel. */
static bool load_from_disk(limber_context *ctx, struct entry *e)
{
    struct diag ignored = { 0 };
    struct facts facts;
    struct blob bytes;
    bool ok;

    if (ctx->tells.dump_dir || !limber_disk_load(ctx->disk, e->facts.key, &facts, &bytes))
        return false;
    ok = e->backend->load(bytes.data, bytes.size, &e->kernel, &ignored);
    if (!ok)
        limber_disk_drop(ctx->disk, e->facts.key);
    free(bytes.data);
    return ok;
}

/* Compiles the kernel of a scan or of epilogue steps for the device, and loads it. */
static bool compile_source(struct entry *e, const struct source *m, struct diag *d)
{
    const struct device_ops *ops = e->backend->device_ops;
    const struct target *t = &m->ctx->machine.target;
    struct trace trace = { .folder = limber_dump_folder(m->ctx, e->facts.key) };
    const struct dump dump = { limber_trace_file, &trace }, *to = trace.folder ? &dump : NULL;
    struct blob bytes = { 0 };
    bool ok;

    ok = limber_compile_enter(e->backend, t, d);
    if (ok) {
        ok = m->steps ? ops->compile_steps(m->steps, t, to, &bytes, d) :
                        ops->compile_scan(m->f, t, to, &bytes, d);
        limber_compile_leave();
    }
    ok = ok && e->backend->load(bytes.data, bytes.size, &e->kernel, d);
    if (ok)
        limber_disk_store(m->ctx->disk, &e->facts, &bytes);
    free(bytes.data);
    limber_trace_clear(&trace);
    return ok;
}

/* Makes the entry of a kernel that belongs to no plan: loads the kernel from disk or compiles
 * it. */
static bool make_entry(void *user, struct entry *e, struct diag *d)
{
    const struct source *m = user;
    char name[2][32];

    e->backend = m->ctx->machine.backend;
    if (m->steps)
        snprintf(e->facts.plan, sizeof e->facts.plan, "%d steps, %s to %s", m->steps->steps->count,
                 limber_format_name(m->steps->from.format, name[0], sizeof name[0]),
                 limber_format_name(m->steps->to.format, name[1], sizeof name[1]));
    else
        snprintf(e->facts.plan, sizeof e->facts.plan, "scan of %s",
                 limber_format_name(m->f, name[0], sizeof name[0]));
    snprintf(e->facts.scheme, sizeof e->facts.scheme, m->steps ? "steps" : "scan");
    limber_key_make(e->facts.key, m->ctx->build, m->key, m->size,
                    limber_code_target(&m->ctx->machine));
    if (load_from_disk(m->ctx, e))
        return true;
    if (m->ctx->no_compile && !limber_carries(e->backend))
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "LIMBER_NO_COMPILE is set and no cache holds the kernel \"%s\"",
                           e->facts.plan);
    return compile_source(e, m, d);
}

/* Gets the kernel of the device's code, which it compiles at first use. */
static bool get_kernel(struct source *m, struct entry **e, struct diag *d)
{
    const struct kernel_maker kernel_maker = { make_entry, m };
    bool cached;

    return limber_kernels_get(m->ctx->memory, m->key, m->size, kernel_maker, e, &cached, d);
}

/* ---- scans by the device --------------------------------------------------------------------- */

/* Returns in *e the kernel that scans operands of format f on the device.  Compiles it if
 * necessary. */
bool limber_device_scanner(limber_context *ctx, limber_format f, struct entry **e, struct diag *d)
{
    struct {
        char what[8]; /* distinguishes the key from those of products */
        limber_format f;
    } key;
    struct source m = { ctx, f, NULL, &key, sizeof key };

    memset(&key, 0, sizeof key);
    memcpy(key.what, "scan", 4);
    key.f = f;
    return get_kernel(&m, e, d);
}

/* A scan as the device performs it.  For the im2col matrix of a convolution the device may scan the
 * images themselves. */
struct remote_scan {
    struct scan_call call;
    struct view images; /* views of the images as matrices with long lines */
    bool of_images;
};

/* Describes dense pixels as lines of about a thousand elements.  If there would be fewer than 32
 * lines, makes lines shorter, down to 128 elements, so that the whole device has work. */
static void choose_line_length(struct view *v, int64_t *lines, int64_t *length)
{
    enum { LINES = 32, LONG = 1024, SHORT = 128 };

    if (v->p != 1 || v->line != *length)
        return;
    for (; *length < LONG && *lines % 2 == 0; *lines /= 2)
        *length *= 2;
    for (; *lines < LINES && *length % 2 == 0 && *length > SHORT; *lines *= 2)
        *length /= 2;
    v->line = *length;
}

/* True if, in one dimension, the windows together read all of the image's `size` pixels. */
static bool windows_cover(int64_t size, int64_t taps, int64_t count, int64_t stride, int64_t pad,
                          int64_t dilate)
{
    if (taps > 1 && (stride == 1 ? dilate > count : dilate > 1 || stride > taps))
        return false;
    return (taps > 1 || stride == 1) &&
           (count - 1) * stride + (taps - 1) * dilate - pad >= size - 1;
}

/* If the windows read all pixels of the images, sets the scan to read the images in place of the
 * im2col matrix.  They have fewer elements, and one result holds for all lines of the matrix.
 * False if the matrix must be scanned. */
static bool scan_images(const struct device_scan *s, limber_format f, struct remote_scan *remote)
{
    const struct patch *w = s->v->patch;
    struct pixels x;

    if (!w || w->t || w->divide[0] || !limber_view_pixels(&x, s->v, s->lines, s->length) ||
        (x.images > 1 && s->matrices > 1) ||
        !windows_cover(w->h, w->r, w->oh, w->stride[0], w->pad[0], w->dilate[0]) ||
        !windows_cover(w->w, w->s, w->ow, w->stride[1], w->pad[1], w->dilate[1]))
        return false;
    remote->images = x.view;
    remote->call.v = &remote->images;
    remote->call.lines = x.lines;
    remote->call.length = x.length;
    if (x.images > 1) {
        remote->call.matrices = x.images;
        remote->call.each = (struct spread){ x.image * f.size, NULL };
    }
    if (remote->images.p != 1) {
        remote->images.line = x.view.p;
        remote->images.p = x.view.line;
        remote->call.lines = x.length;
        remote->call.length = x.lines;
    }
    choose_line_length(&remote->images, &remote->call.lines, &remote->call.length);
    return true;
}

/* Sets up a scan and allocates memory for its results, remote->call.found, which the caller
 * frees. */
static bool make_remote_scan(const struct device_scan *s, limber_format f,
                             struct remote_scan *remote, struct diag *d)
{
    int64_t all, tiles = 0;

    memset(s->m, 0, (size_t)s->matrices * sizeof *s->m);
    remote->call = (struct scan_call){
        .v = s->v, .matrices = s->matrices, .each = s->each, .lines = s->lines, .length = s->length
    };
    remote->of_images = !s->each_line && scan_images(s, f, remote);
    if (s->matrices == 1 && limber_view_strided(s->v))
        tiles = limber_scan_tiles(s->lines, s->length);
    all = remote->call.matrices * remote->call.lines;
    remote->call.found =
        malloc((size_t)(all + tiles + 1) * SCAN_fields * sizeof *remote->call.found);
    if (!remote->call.found)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a scan of %lld lines",
                           (long long)all);
    remote->call.tiles = tiles ? remote->call.found + SCAN_fields * all : NULL;
    return true;
}

/* Makes the masks (summaries of exponents and special values) of the scanned matrices.  *lines:
 * true if scanning the images was not enough, so that the lines of the im2col matrix must be
 * scanned. */
static bool make_masks(const struct device_scan *s, const struct remote_scan *remote, bool *lines,
                       struct diag *d)
{
    int64_t all = remote->call.matrices * remote->call.lines, each = all / s->matrices;
    bool ok = true, level = true;
    struct pixels ignored;

    for (int64_t g = 0; ok && level && g < s->matrices; g++)
        if (remote->of_images) {
            ok = limber_scan_found_level(&s->m[g], remote->call.found, all, g * each, each,
                                         s->lines, s->length, &level, d);
        } else {
            ok = limber_scan_found(&s->m[g], remote->call.found + g * s->lines, all,
                                   remote->call.tiles, s->lines, s->length, d);
            if (ok && !s->each_line && limber_view_pixels(&ignored, s->v, s->lines, s->length))
                limber_mask_make_uniform(&s->m[g]);
        }
    *lines = ok && !level;
    return ok;
}

/* Performs one or two scans on the device. lines[i] becomes true if scan i must be repeated for
 * each line of its im2col matrix. */
static bool scan_once(limber_context *ctx, const struct device_scan *s, int count, limber_format f,
                      bool lines[2], const limber_queue *q, struct diag *d)
{
    struct remote_scan remote[2] = { { .of_images = false } };
    struct scan_call calls[2];
    struct entry *e;
    bool ok = true;

    for (int i = 0; ok && i < count; i++) {
        ok = make_remote_scan(&s[i], f, &remote[i], d);
        calls[i] = remote[i].call;
    }
    ok = ok && limber_device_scanner(ctx, f, &e, d);
    if (ok) {
        ok =
            e->backend->device_ops->scan(e->kernel, calls, count, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    for (int i = 0; i < count; i++) {
        ok = ok && make_masks(&s[i], &remote[i], &lines[i], d);
        free(remote[i].call.found);
    }
    return ok;
}

/* Scans up to two operands on the device.  An operand whose lines turn out to need their own
 * exponents is scanned a second time. */
bool limber_device_scans(limber_context *ctx, const struct device_scan *s, int count,
                         limber_format f, const limber_queue *q, struct diag *d)
{
    struct device_scan again[2];
    bool lines[2] = { false, false };
    int more = 0;

    if (!scan_once(ctx, s, count, f, lines, q, d))
        return false;
    for (int i = 0; i < count; i++) {
        for (int64_t g = 0; lines[i] && g < s[i].matrices; g++)
            limber_mask_clear(&s[i].m[g]);
        if (lines[i]) {
            again[more] = s[i];
            again[more++].each_line = true;
        }
    }
    return more == 0 || scan_once(ctx, again, more, f, lines, q, d);
}

/* Scans one matrix, every line (row of A or column of B) separately. */
bool limber_device_scan(limber_context *ctx, struct mask *m, const struct view *v, limber_format f,
                        int64_t lines, int64_t length, const limber_queue *q, struct diag *d)
{
    const struct device_scan s = {
        .m = m, .matrices = 1, .v = v, .lines = lines, .length = length, .each_line = true
    };

    return limber_device_scans(ctx, &s, 1, f, q, d);
}

/* ---- terms of a complex sum, by the device --------------------------------------------------- */

/* Computes terms of a complex sum on the device. */
bool limber_device_terms(limber_context *ctx, const struct terms_call *call, limber_format f,
                         const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->terms(e->kernel, call, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

/* ---- sums of magnitudes, by the device ------------------------------------------------------- */

/* Computes weighted sums of magnitudes on the device. */
bool limber_device_weigh(limber_context *ctx, const struct weigh_call *call, limber_format f,
                         const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->weigh(e->kernel, call, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

/* ---- three products for a complex one, by the device ----------------------------------------- */

/* Computes the sums of parts for a complex product by three real products. */
bool limber_device_sums(limber_context *ctx, struct sums_call *call, limber_format f,
                        const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->sums(e->kernel, call, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

/* Combines three real products into complex results on the device. */
bool limber_device_pairs(limber_context *ctx, const struct pairs_call *call, limber_format f,
                         const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->pairs(e->kernel, call, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

/* ---- steps, by the device -------------------------------------------------------------------- */

/* Returns in *e the kernel that applies these epilogue steps on the device.  Compiles and loads
 * it if necessary. */
bool limber_device_stepper(limber_context *ctx, const struct epilogue *steps, struct entry **e,
                           struct diag *d)
{
    struct {
        char what[8];
        int32_t rounding, once;
        limber_format compute, from, to, input[MOST_INPUTS];
        struct steps steps;
    } key;
    struct source m = { ctx, steps->from.format, steps, &key, sizeof key };
    const struct backend *b = ctx->machine.backend;

    memset(&key, 0, sizeof key);
    memcpy(key.what, "steps", 5);
    key.rounding = (int32_t)steps->rounding;
    key.once = steps->once;
    key.compute = steps->compute;
    key.from = steps->from.format;
    key.to = steps->to.format;
    for (int i = 0; i < MOST_INPUTS; i++)
        if (steps->input[i].data)
            key.input[i] = steps->input[i].format;
    key.steps.inputs = steps->steps->inputs;
    key.steps.count = steps->steps->count;
    memcpy(key.steps.step, steps->steps->step,
           (size_t)key.steps.count * sizeof *steps->steps->step);
    if (!get_kernel(&m, e, d))
        return false;
    if (b->device_ops->ready((*e)->kernel, ctx->machine.target.device, d))
        return true;
    limber_kernels_put(ctx->memory, *e);
    return false;
}

/* Launches the steps of an epilogue on the device. */
bool limber_device_steps(limber_context *ctx, struct entry *e, const struct epilogue *steps,
                         const limber_queue *q, struct diag *d)
{
    return e->backend->device_ops->steps(e->kernel, steps, ctx->machine.target.device, q, d);
}

/* ---- memory of the device -------------------------------------------------------------------- */

/* Allocates device memory in the order of the queue's stream. */
bool limber_device_alloc(limber_context *ctx, void **p, size_t bytes, const char *what,
                         const limber_queue *q, struct diag *d)
{
    return ctx->machine.backend->device_ops->alloc(p, bytes, what, ctx->machine.target.device, q,
                                                   d);
}

/* Frees device memory in the order of the queue's stream. */
void limber_device_free(limber_context *ctx, void *p, const limber_queue *q)
{
    ctx->machine.backend->device_ops->free(p, ctx->machine.target.device, q);
}
