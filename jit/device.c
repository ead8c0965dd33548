/* SPDX-License-Identifier: BSD-3-Clause
 * Operands in device memory: kernels per format scan them there and prepare terms of sums; they are
 * cached like other kernels. */
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

/* ---- compiling and finding kernels ----------------------------------------------------------- */

/* The source of a kernel that belongs to no plan. */
struct source {
    limber_context *ctx;
    limber_format f; /* a scan: the operands' format */
    const struct epilogue *steps; /* NULL: a scan */
    const void *key;
    size_t size;
};

/* Loads a kernel from the cache on disk; not while kernels are dumped, since that shows all
 * stages. */
static bool load_from_disk(limber_context *ctx, struct entry *e)
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

/* Compiles a scan's or an epilogue's kernel for the device, and loads it. */
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

/* The maker of entries for kernels that belong to no plan. */
static bool make(void *user, struct entry *e, struct diag *d)
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
    if (m->ctx->no_compile && !e->backend->carries)
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "LIMBER_NO_COMPILE is set and no cache holds the kernel \"%s\"",
                           e->facts.plan);
    return compile_source(e, m, d);
}

static bool get_kernel(struct source *m, struct entry **e, struct diag *d)
{
    const struct kernel_maker kernel_maker = { make, m };
    bool cached;

    return limber_kernels_get(m->ctx->memory, m->key, m->size, kernel_maker, e, &cached, d);
}

/* ---- scans by the device --------------------------------------------------------------------- */

bool limber_device_records(const limber_context *ctx, const limber_queue *q)
{
    const struct backend *b = ctx->machine.backend;

    return q && b->device_ops && b->device_ops->records(q, ctx->machine.target.device);
}

bool limber_device_scanner(limber_context *ctx, limber_format f, struct entry **e, struct diag *d)
{
    struct {
        char what[8]; /* apart from keys of products */
        limber_format f;
    } key;
    struct source m = { ctx, f, NULL, &key, sizeof key };

    memset(&key, 0, sizeof key);
    memcpy(key.what, "scan", 4);
    key.f = f;
    return get_kernel(&m, e, d);
}

/* Sets up a scan and allocates memory for its results; the caller frees j->found. */
static bool make_job(const struct device_scan *s, struct scan_job *j, struct diag *d)
{
    int64_t all = s->matrices * s->lines;
    int64_t tiles =
        s->matrices == 1 && limber_view_strided(s->v) ? limber_scan_tiles(s->lines, s->length) : 0;

    memset(s->m, 0, (size_t)s->matrices * sizeof *s->m);
    *j = (struct scan_job){
        .v = s->v, .matrices = s->matrices, .each = s->each, .lines = s->lines, .length = s->length
    };
    j->found = malloc((size_t)(all + tiles + 1) * SCAN_fields * sizeof *j->found);
    if (!j->found)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a scan of %lld lines",
                           (long long)all);
    j->tiles = tiles ? j->found + SCAN_fields * all : NULL;
    return true;
}

bool limber_device_scans(limber_context *ctx, const struct device_scan *s, int count,
                         limber_format f, const limber_queue *q, struct diag *d)
{
    struct scan_job job[2] = { { .found = NULL } };
    struct entry *e;
    bool ok = true;

    for (int i = 0; ok && i < count; i++)
        ok = make_job(&s[i], &job[i], d);
    ok = ok && limber_device_scanner(ctx, f, &e, d);
    if (ok) {
        ok = e->backend->device_ops->scan(e->kernel, job, count, ctx->machine.target.device, q, d);
        limber_kernels_put(ctx->memory, e);
    }
    for (int i = 0; i < count; i++) {
        for (int64_t g = 0; ok && g < s[i].matrices; g++)
            ok = limber_scan_found(&s[i].m[g], job[i].found + g * s[i].lines,
                                   s[i].matrices * s[i].lines, job[i].tiles, s[i].lines,
                                   s[i].length, d);
        free(job[i].found);
    }
    return ok;
}

bool limber_device_scan(limber_context *ctx, struct mask *m, const struct view *v, limber_format f,
                        int64_t lines, int64_t length, const limber_queue *q, struct diag *d)
{
    const struct device_scan s = { m, 1, { 0, NULL }, v, lines, length };

    return limber_device_scans(ctx, &s, 1, f, q, d);
}

/* ---- terms of a complex sum, by the device --------------------------------------------------- */

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

/* ---- sums of magnitudes, by the device ------------------------------------------------------- */

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

/* ---- three products for a complex one, by the device ----------------------------------------- */

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

/* ---- steps, by the device -------------------------------------------------------------------- */

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

bool limber_device_steps(limber_context *ctx, struct entry *e, const struct epilogue *steps,
                         const limber_queue *q, struct diag *d)
{
    return e->backend->device_ops->steps(e->kernel, steps, ctx->machine.target.device, q, d);
}

/* ---- memory of the device -------------------------------------------------------------------- */

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
