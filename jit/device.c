/* SPDX-License-Identifier: BSD-3-Clause
 * Operands in a device's memory are scanned there, and made terms of a sum, by kernels for each
 * format, kept like others. */
#include "jit/device.h"
#include "jit/trace.h"
#include "jit/scan/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool limber_device_holds(const limber_context *ctx, const void *p)
{
    const struct backend *b = ctx->machine.backend;

    return b->device_ops && p && b->device_ops->holds(p, ctx->machine.target.device);
}

/* ---- the kernel of a format ------------------------------------------------------------------ */

struct scanner {
    char what[8]; /* apart from keys of products */
    limber_format f;
};

struct scan_source {
    limber_context *ctx;
    limber_format f;
};

static bool from_disk(limber_context *ctx, struct entry *e)
{
    struct diag ignored = { 0 };
    struct facts facts;
    struct blob bytes;
    bool ok;

    if (ctx->dump_dir || !limber_disk_load(ctx->disk, e->facts.key, &facts, &bytes))
        return false;
    ok = e->backend->load(bytes.data, bytes.size, &e->kernel, &ignored);
    if (!ok)
        limber_disk_drop(ctx->disk, e->facts.key);
    free(bytes.data);
    return ok;
}

static bool compile(limber_context *ctx, struct entry *e, limber_format f, struct diag *d)
{
    struct trace trace = { .folder = limber_dump_folder(ctx, e->facts.key) };
    const struct dump dump = { limber_trace_file, &trace };
    struct blob bytes = { 0 };
    bool ok;

    ok = e->backend->device_ops->compile_scan(f, &ctx->machine.target, trace.folder ? &dump : NULL,
                                              &bytes, d) &&
         e->backend->load(bytes.data, bytes.size, &e->kernel, d);
    if (ok)
        limber_disk_store(ctx->disk, &e->facts, &bytes);
    free(bytes.data);
    limber_trace_clear(&trace);
    return ok;
}

static bool make(void *user, struct entry *e, struct diag *d)
{
    const struct scan_source *m = user;
    char name[32];

    e->backend = m->ctx->machine.backend;
    snprintf(e->facts.scheme, sizeof e->facts.scheme, "scan");
    snprintf(e->facts.plan, sizeof e->facts.plan, "scan of %s",
             limber_format_name(m->f, name, sizeof name));
    limber_key_make(e->facts.key, m->ctx->build, e->facts.plan, m->ctx->machine.text.s);
    if (from_disk(m->ctx, e))
        return true;
    if (m->ctx->no_compile)
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "LIMBER_NO_COMPILE is set and no cache holds the scan of %s", name);
    return compile(m->ctx, e, m->f, d);
}

/* ---- the scan -------------------------------------------------------------------------------- */

bool limber_device_records(const limber_context *ctx, const limber_queue *q)
{
    const struct backend *b = ctx->machine.backend;

    return q && b->device_ops && b->device_ops->records(q, ctx->machine.target.device);
}

bool limber_device_scanner(limber_context *ctx, limber_format f, struct entry **e, struct diag *d)
{
    const struct kernel_maker kernel_maker = { make, &(struct scan_source){ ctx, f } };
    struct scanner key;
    bool cached;

    memset(&key, 0, sizeof key);
    memcpy(key.what, "scan", 4);
    key.f = f;
    return limber_kernels_get(ctx->memory, &key, sizeof key, kernel_maker, e, &cached, d);
}

bool limber_device_scan(limber_context *ctx, struct mask *m, const struct view *v, limber_format f,
                        int64_t lines, int64_t length, const limber_queue *q, struct diag *d)
{
    int64_t tiles = limber_view_strided(v) ? limber_scan_tiles(lines, length) : 0;
    int32_t *found = malloc((size_t)(lines + tiles + 1) * SCAN_fields * sizeof *found);
    int32_t *of_tiles = tiles ? found + SCAN_fields * lines : NULL;
    struct entry *e;
    bool ok;

    memset(m, 0, sizeof *m);
    if (!found)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a scan of %lld lines",
                           (long long)lines);
    ok = limber_device_scanner(ctx, f, &e, d);
    if (ok) {
        ok = e->backend->device_ops->scan(e->kernel,
                                          &(struct scan_job){ v, lines, length, found, of_tiles },
                                          ctx->machine.target.device, q, d) &&
             limber_scan_found(m, found, of_tiles, lines, length, d);
        limber_kernels_put(ctx->memory, e);
    }
    free(found);
    return ok;
}

/* ---- terms of a sum -------------------------------------------------------------------------- */

bool limber_device_terms(limber_context *ctx, const struct terms_job *j, limber_format f,
                         const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->terms(e->kernel, j, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

/* ---- sums of magnitudes ---------------------------------------------------------------------- */

bool limber_device_weigh(limber_context *ctx, const struct weigh_job *j, limber_format f,
                         const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->weigh(e->kernel, j, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

/* ---- three products -------------------------------------------------------------------------- */

bool limber_device_sums(limber_context *ctx, struct sums_job *j, limber_format f,
                        const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->sums(e->kernel, j, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

bool limber_device_pairs(limber_context *ctx, const struct pairs_job *j, limber_format f,
                         const limber_queue *q, struct diag *d)
{
    struct entry *e;
    bool ok = limber_device_scanner(ctx, f, &e, d);

    if (ok) {
        ok = e->backend->device_ops->pairs(e->kernel, j, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    return ok;
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool limber_device_alloc(limber_context *ctx, void **p, size_t bytes, const char *what,
                         const limber_queue *q, struct diag *d)
{
    return ctx->machine.backend->device_ops->alloc(p, bytes, what, ctx->machine.target.device, q,
                                                   d);
}

void limber_device_free(limber_context *ctx, void *p, const limber_queue *q)
{
    ctx->machine.backend->device_ops->free(p, ctx->machine.target.device, q);
}
