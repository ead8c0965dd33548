/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA backend.  A stored kernel consists of its constants and a cubin (machine code).  Each
 * device loads the cubin when it first launches the kernel. */
#include "backends/cuda/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_VERSION = 6 };

/* The first bytes of a stored kernel; the cubin follows. */
struct head {
    uint32_t magic, version;
    struct cuda_config config;
};
static const uint32_t magic = 0x6d627243;

/* Implements backend.probe for the device whose index the target has. */
static bool probe(struct target *t, struct diag *d)
{
    int device = t->device;

    if (!limber_cuda_target(t, device, d))
        return false;
    t->device = device;
    return true;
}

/* Concatenates head and cubin to the bytes of a stored kernel; the caller frees out->data. */
static bool pack_blob(const struct cuda_config *c, const struct blob *cubin, struct blob *out,
                      struct diag *d)
{
    struct head head;

    memset(&head, 0, sizeof head);
    head.magic = magic;
    head.version = KERNEL_VERSION;
    head.config = *c;
    out->size = sizeof head + cubin->size;
    out->data = malloc(out->size);
    if (!out->data)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "cuda: no memory for a kernel");
    memcpy(out->data, &head, sizeof head);
    memcpy(out->data + sizeof head, cubin->data, cubin->size);
    return true;
}

/* Compiles a source for the target's architecture, and makes a stored kernel of the cubin.  Returns
 * false with an error if that fails. */
static bool compile_to_blob(const struct cuda_config *c, const struct text *source,
                            const struct target *t, const struct dump *dump, struct blob *out,
                            struct diag *d)
{
    struct blob cubin = { 0 };
    char arch[sizeof t->isa + 1];
    bool ok;

    if (dump)
        dump->file(dump->user, "kernel.cu", source->s, source->n);
    /* NVRTC has mma.sync's block-scaled instructions of capability 12.0 only for the
     * family-specific target, "sm_120f" */
    snprintf(arch, sizeof arch, "%s%s", t->isa,
             c->mx.kind && c->mma_path == MMA_PATH_warp ? "f" : "");
    ok = limber_nvrtc(source->s, arch, t->no_compiler, dump, &cubin, d) &&
         pack_blob(c, &cubin, out, d);
    if (ok && dump)
        dump->file(dump->user, "kernel.cubin", (const char *)cubin.data, cubin.size);
    free(cubin.data);
    return ok;
}

/* Implements backend.compile: prints a plan as constants and source, and compiles the source. */
static bool compile(const struct plan *p, const struct target *t, const struct dump *dump,
                    struct blob *out, struct diag *d)
{
    struct cuda_config config;
    struct text source = { 0 };
    bool ok;

    ok = limber_cuda_config(p, t, &config, d) && limber_cuda_source(p, &config, &source, d) &&
         compile_to_blob(&config, &source, t, dump, out, d);
    limber_text_clear(&source);
    return ok;
}

/* Implements code_ops.key.  The key consists of the kernel's constants and source, which
 * determine the output of compile(). */
static bool code_key(const struct plan *p, const struct target *t, struct blob *out, struct diag *d)
{
    struct cuda_config config;
    struct text source = { 0 };
    struct blob text;
    bool ok;

    ok = limber_cuda_config(p, t, &config, d) && limber_cuda_source(p, &config, &source, d);
    text = (struct blob){ (unsigned char *)source.s, source.n };
    ok = ok && pack_blob(&config, &text, out, d);
    limber_text_clear(&source);
    return ok;
}

/* Implements code_ops.source: prints the source of a plan's kernels. */
static bool source_of(const struct plan *p, const struct target *t, struct text *out,
                      struct diag *d)
{
    struct cuda_config config;

    return limber_cuda_config(p, t, &config, d) && limber_cuda_source(p, &config, out, d);
}

/* Implements device_ops.compile_scan: compiles the kernels that scan operands of a format, and
 * those that copy and combine numbers in this format. */
static bool compile_scan(limber_format f, const struct target *t, const struct dump *dump,
                         struct blob *out, struct diag *d)
{
    struct cuda_config config;
    struct text source = { 0 };
    bool ok;

    memset(&config, 0, sizeof config);
    config.mma_path = MMA_PATH_scan;
    config.side[0].f = config.side[1].f = config.result = config.scalars = f;
    config.side[0].limb = config.side[1].limb = f;
    ok = limber_cuda_scan_source(&config, &source, d) &&
         compile_to_blob(&config, &source, t, dump, out, d);
    limber_text_clear(&source);
    return ok;
}

/* Implements device_ops.compile_steps: compiles the kernel of an epilogue's steps. */
static bool compile_steps(const struct epilogue *e, const struct target *t, const struct dump *dump,
                          struct blob *out, struct diag *d)
{
    struct cuda_config config;
    struct text source = { 0 };
    bool ok;

    memset(&config, 0, sizeof config);
    config.mma_path = MMA_PATH_steps;
    ok = limber_cuda_steps_source(e, &source, d) &&
         compile_to_blob(&config, &source, t, dump, out, d);
    limber_text_clear(&source);
    return ok;
}

/* Implements backend.load: checks the head and copies the cubin.  Devices load the cubin later. */
static bool load_kernel(const unsigned char *data, size_t size, struct kernel **out, struct diag *d)
{
    struct head head;
    struct kernel *k;

    if (size <= sizeof head)
        return limber_fail(d, LIMBER_STATUS_IO, "cuda: a kernel of %zu bytes", size);
    memcpy(&head, data, sizeof head);
    if (head.magic != magic || head.version != KERNEL_VERSION)
        return limber_fail(d, LIMBER_STATUS_IO, "cuda: these bytes are no kernel");
    k = calloc(1, sizeof *k);
    if (k)
        k->cubin = malloc(size - sizeof head);
    if (!k || !k->cubin) {
        free(k);
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "cuda: no memory for a kernel");
    }
    pthread_mutex_init(&k->lock, NULL);
    k->config = head.config;
    memcpy(k->cubin, data + sizeof head, size - sizeof head);
    *out = k;
    return true;
}

/* Implements backend.predict_way: cuBLAS if the plan and the call allow it, else the way (code
 * path) of the plan's kernel. */
static enum way_id predict_way(const struct plan *p, const struct target *t, const struct call *c,
                               struct text *out)
{
    struct diag ignored = { 0 };
    struct cuda_config config;

    (void)out;
    if (!limber_cuda_config(p, t, &config, &ignored))
        return WAY_none;
    return config.library && c->ways & limber_way_bit(WAY_cublas) ? WAY_cublas :
                                                                    limber_cuda_kernel_way(&config);
}

/* Implements backend.unload: unloads the kernel from all devices. */
static void unload(struct kernel *k)
{
    struct diag ignored = { 0 };
    const struct cuda_driver *c = limber_cuda(&ignored);
    int mode = c ? limber_cuda_relax(c) : 0;

    for (int i = 0; i < CUDA_DEVICES; i++) {
        struct device *device = c && k->loaded[i] ? limber_cuda_device(i, &ignored) : NULL;

        if (device && c->cuCtxPushCurrent_v2(device->context) == 0) {
            c->cuModuleUnload(k->loaded[i]->module);
            c->cuCtxPopCurrent_v2(&device->context);
        }
        free(k->loaded[i]);
    }
    if (c)
        limber_cuda_restore(c, mode);
    pthread_mutex_destroy(&k->lock);
    free(k->cubin);
    free(k);
}

static const struct device_ops device_ops = { .blocks = &limber_cuda_blocks,
                                              .takes_groups = limber_cuda_takes_groups,
                                              .holds = limber_cuda_is_device_memory,
                                              .compile_scan = compile_scan,
                                              .scan = limber_cuda_scan,
                                              .records = limber_cuda_is_capturing,
                                              .ready = limber_cuda_ready,
                                              .terms = limber_cuda_terms,
                                              .weigh = limber_cuda_weigh,
                                              .sums = limber_cuda_sums,
                                              .pairs = limber_cuda_pairs,
                                              .alloc = limber_cuda_alloc,
                                              .free = limber_cuda_free,
                                              .compile_steps = compile_steps,
                                              .steps = limber_cuda_steps };

/* Returns an empty range: no thread is stopped in NVRTC's code. */
static struct code_range compiler(void)
{
    return (struct code_range){ 0, 0 };
}

static const struct code_ops code_ops = { .open = limber_nvrtc_open,
                                          .compiler = compiler,
                                          .key = code_key,
                                          .source = source_of,
                                          .source_name = "kernel.cu",
                                          .named = limber_cuda_named,
                                          .workspace = limber_cuda_workspace,
                                          .by_isa = true,
                                          .carries = true };

const struct backend limber_backend_cuda = { .name = "cuda",
                                             .probe = probe,
                                             .compile = compile,
                                             .load = load_kernel,
                                             .launch = limber_cuda_launch,
                                             .unload = unload,
                                             .predict_way = predict_way,
                                             .code = &code_ops,
                                             .device_ops = &device_ops };
