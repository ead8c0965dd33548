/* SPDX-License-Identifier: BSD-3-Clause
 * Loads a kernel's code once per device, and launches its functions. */
#include "backends/cuda/launch.h"

#include <stdlib.h>

/* [enum cuda_kernel]: names of the functions in the source */
static const char *const names[KERNEL_count] = {
    "limber_pack",       "limber_multiply",     "limber_reconstruct", "limber_special",
    "limber_exact",      "limber_scale_a",      "limber_scale_b",     "limber_scan",
    "limber_scan_start", "limber_scan_windows", "limber_decide",      "limber_terms",
    "limber_weigh",      "limber_sums",         "limber_pairs",       "limber_steps"
};

/* True if the kernel's source contains function i (enum cuda_kernel). */
static bool has_kernel(const struct cuda_config *c, int i)
{
    if ((c->mma_path == MMA_PATH_steps) != (i == KERNEL_steps))
        return false;
    if (c->mma_path == MMA_PATH_steps)
        return true;
    if ((c->mma_path == MMA_PATH_scan) != (i >= KERNEL_scan))
        return false;
    if (c->mma_path == MMA_PATH_scan)
        return i < KERNEL_sums || limber_cuda_has_planes(c->side[0].f);
    if (i == KERNEL_special)
        return c->special && c->mma_path != MMA_PATH_element;
    if (i == KERNEL_pack)
        return !c->inside && c->mma_path != MMA_PATH_element;
    if (i == KERNEL_reconstruct && c->direct)
        return false;
    if (i == KERNEL_scale_a || i == KERNEL_scale_b)
        return c->model.scale_block > 0;
    return (i == KERNEL_exact) == (c->mma_path == MMA_PATH_element);
}

/* Finds the module's functions, and sets the shared memory of the multiply kernel.  Returns false
 * with an error. */
static bool load_functions(struct device_call *r, struct on_device *l, struct diag *d)
{
    const struct cuda_driver *c = r->driver;
    const struct cuda_config *f = &r->kernel->config;

    /* functions are loaded now, since the first launch may be captured into a graph, where loading
     * is not allowed */
    for (int i = 0; i < KERNEL_count; i++)
        if (has_kernel(f, i) &&
            (!limber_cuda_ok(c, c->cuModuleGetFunction(&l->function[i], l->module, names[i]),
                             "finding a kernel", d) ||
             (c->cuFuncLoad &&
              !limber_cuda_ok(c, c->cuFuncLoad(l->function[i]), "loading a kernel", d))))
            return false;
    if (f->mma_path == MMA_PATH_element || f->mma_path == MMA_PATH_scan ||
        f->mma_path == MMA_PATH_steps)
        return true;
    if (!limber_cuda_ok(
            c, c->cuFuncSetAttribute(l->function[KERNEL_multiply], CU_FUNCTION_SHARED, f->shared),
            "giving a kernel its shared memory", d))
        return false;
    l->clusters = limber_cuda_resident_clusters(c, f, l->function[KERNEL_multiply]);
    return true;
}

/* Loads the cubin as a module in the current context.  Returns false with an error. */
static bool load_module(struct device_call *r, struct on_device *l, struct diag *d)
{
    const struct cuda_driver *c = r->driver;
    bool ok =
        limber_cuda_ok(c, c->cuModuleLoadData(&l->module, r->kernel->cubin), "loading a kernel", d);

    if (ok && !load_functions(r, l, d)) {
        c->cuModuleUnload(l->module);
        ok = false;
    }
    return ok;
}

/* Loads the cubin on the current device.  Returns NULL, with an error, if that fails. */
static struct on_device *load_kernel(struct device_call *r, struct diag *d)
{
    struct on_device *l = calloc(1, sizeof *l);

    if (!l)
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "cuda: no memory for a kernel");
    if (l && load_module(r, l, d))
        return l;
    free(l);
    return NULL;
}

/* Sets r->loaded, after loading the kernel if this device has not loaded it. */
bool limber_cuda_find_kernel(struct device_call *r, int device, struct diag *d)
{
    struct kernel *k = r->kernel;

    pthread_mutex_lock(&k->lock);
    if (!k->loaded[device])
        k->loaded[device] = load_kernel(r, d);
    r->loaded = k->loaded[device];
    pthread_mutex_unlock(&k->lock);
    return r->loaded != NULL;
}

/* True if the kernel itself waits for the previous launch, so that it may begin before that launch
 * ends. */
bool limber_cuda_begins_early(const struct device_call *r, enum cuda_kernel which)
{
    return r->device->early && (which == KERNEL_multiply || which == KERNEL_reconstruct);
}

/* Launches a kernel, early if the kernel itself waits for the previous launch.  Does nothing if
 * the grid is empty. */
bool limber_cuda_launch_kernel(struct device_call *r, enum cuda_kernel which, int64_t blocks,
                               int threads, int shared, void *arguments, struct diag *d)
{
    struct cu_launch_attribute early = { CU_LAUNCH_EARLY, 0, { 1 } };
    struct cu_launch launch = { .grid = { (unsigned)blocks, 1, 1 },
                                .block = { (unsigned)threads, 1, 1 },
                                .shared = (unsigned)shared,
                                .stream = r->stream,
                                .attribute = &early,
                                .attributes = 1 };
    cu_function f = r->loaded->function[which];
    void *list[] = { arguments };

    if (blocks == 0)
        return true;
    if (blocks > INT32_MAX)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "cuda: a grid of %lld blocks is too large", (long long)blocks);
    return limber_cuda_ok(r->driver,
                          limber_cuda_begins_early(r, which) ?
                              r->driver->cuLaunchKernelEx(&launch, f, list, NULL) :
                              r->driver->cuLaunchKernel(f, (unsigned)blocks, 1, 1,
                                                        (unsigned)threads, 1, 1, (unsigned)shared,
                                                        r->stream, list, NULL),
                          names[which], d);
}
