/* SPDX-License-Identifier: BSD-3-Clause
 * NVIDIA's driver, opened at run time: one device, one stream, memory, timing, graphs.
 *
 * The primary context is used, which cuBLAS and cuDNN use too. */
#define _GNU_SOURCE
#include "tools/bench/gpu.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;     /* CUdeviceptr */

/* Constants of cuda.h. */
enum { UNITS = 16, L2 = 38, MAJOR = 75, MINOR = 76, RELAXED = 2 };

static struct {
    int (*init)(unsigned);
    int (*error_text)(int, const char **);
    int (*version)(int *);
    int (*count)(int *);
    int (*get)(int *, int);
    int (*name)(char *, int, int);
    int (*attribute)(int *, int, int);
    int (*total)(size_t *, int);
    int (*retain)(void **, int);
    int (*release)(int);
    int (*current)(void *);
    int (*wait)(void);
    int (*memory)(size_t *, size_t *);
    int (*alloc)(address *, size_t);
    int (*free)(address);
    int (*alloc_host)(void **, size_t, unsigned);
    int (*free_host)(void *);
    int (*put)(address, const void *, size_t);
    int (*get_back)(void *, address, size_t);
    int (*copy)(address, address, size_t, void *);
    int (*fill)(address, unsigned char, size_t, void *);
    int (*stream)(void **, unsigned);
    int (*end_stream)(void *);
    int (*event)(void **, unsigned);
    int (*end_event)(void *);
    int (*record)(void *, void *);
    int (*event_wait)(void *);
    int (*elapsed)(float *, void *, void *);
    int (*capture)(void *, int);
    int (*end_capture)(void *, void **);
    int (*graph)(void **, void *, unsigned long long);
    int (*launch)(void *, void *);
    int (*end_exec)(void *);
    int (*end_graph)(void *);
} cu;

static struct {
    void *library, *stream, *from, *to;
    int device;
    bool pinned, lost, open;
    char error[200];
    struct gpu_about about;
} gpu;

static const struct {
    const char *name;
    void *function;
} needed[] = {
    { "cuInit", &cu.init },
    { "cuGetErrorString", &cu.error_text },
    { "cuDriverGetVersion", &cu.version },
    { "cuDeviceGetCount", &cu.count },
    { "cuDeviceGet", &cu.get },
    { "cuDeviceGetName", &cu.name },
    { "cuDeviceGetAttribute", &cu.attribute },
    { "cuDeviceTotalMem_v2", &cu.total },
    { "cuDevicePrimaryCtxRetain", &cu.retain },
    { "cuDevicePrimaryCtxRelease_v2", &cu.release },
    { "cuCtxSetCurrent", &cu.current },
    { "cuCtxSynchronize", &cu.wait },
    { "cuMemGetInfo_v2", &cu.memory },
    { "cuMemAlloc_v2", &cu.alloc },
    { "cuMemFree_v2", &cu.free },
    { "cuMemHostAlloc", &cu.alloc_host },
    { "cuMemFreeHost", &cu.free_host },
    { "cuMemcpyHtoD_v2", &cu.put },
    { "cuMemcpyDtoH_v2", &cu.get_back },
    { "cuMemcpyDtoDAsync_v2", &cu.copy },
    { "cuMemsetD8Async", &cu.fill },
    { "cuStreamCreate", &cu.stream },
    { "cuStreamDestroy_v2", &cu.end_stream },
    { "cuEventCreate", &cu.event },
    { "cuEventDestroy_v2", &cu.end_event },
    { "cuEventRecord", &cu.record },
    { "cuEventSynchronize", &cu.event_wait },
    { "cuEventElapsedTime", &cu.elapsed },
    { "cuStreamBeginCapture_v2", &cu.capture },
    { "cuStreamEndCapture", &cu.end_capture },
    { "cuGraphInstantiateWithFlags", &cu.graph },
    { "cuGraphLaunch", &cu.launch },
    { "cuGraphExecDestroy", &cu.end_exec },
    { "cuGraphDestroy", &cu.end_graph },
};

const char *gpu_error(void)
{
    return gpu.error;
}

bool gpu_lost(void)
{
    return gpu.lost;
}

const struct gpu_about *gpu_about(void)
{
    return &gpu.about;
}

void *gpu_stream(void)
{
    return gpu.stream;
}

/* Codes from 700 to 719 are faults of a kernel: the context is of no use any more. */
static bool good(int code, const char *what)
{
    const char *text = NULL;

    if (code == 0)
        return true;
    if (cu.error_text)
        cu.error_text(code, &text);
    snprintf(gpu.error, sizeof gpu.error, "%s: %s (%d)", what, text ? text : "error", code);
    gpu.lost |= code >= 700 && code < 720;
    return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

void *gpu_library(const char *names, char *why, size_t size)
{
    char name[256];
    void *handle = NULL;

    while (*names && !handle) {
        size_t n = strcspn(names, " ");

        snprintf(name, sizeof name, "%.*s", (int)n, names);
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            snprintf(why, size, "%s", dlerror());
        names += n + (names[n] == ' ');
    }
    return handle;
}

static bool find_functions(void)
{
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *f = dlsym(gpu.library, needed[i].name);

        if (!f) {
            snprintf(gpu.error, sizeof gpu.error, "the driver's library has no %s", needed[i].name);
            return false;
        }
        memcpy(needed[i].function, &f, sizeof f);
    }
    return true;
}

static bool open_library(void)
{
    const char *name = limber_variable_value("LIMBER_CUDA");

    gpu.library = gpu_library(name ? name : "libcuda.so.1", gpu.error, sizeof gpu.error);
    return gpu.library && find_functions();
}

static bool open_device(int device)
{
    struct gpu_about *a = &gpu.about;
    int n = 0;
    void *context;

    if (!good(cu.init(0), "the driver finds no device: cuInit") ||
        !good(cu.count(&n), "cuDeviceGetCount"))
        return false;
    if (device < 0 || device >= n) {
        snprintf(gpu.error, sizeof gpu.error, "there is no device %d: the driver lists %d", device,
                 n);
        return false;
    }
    return good(cu.get(&gpu.device, device), "cuDeviceGet") &&
           good(cu.name(a->name, sizeof a->name, gpu.device), "cuDeviceGetName") &&
           good(cu.version(&a->driver), "cuDriverGetVersion") &&
           good(cu.attribute(&a->units, UNITS, gpu.device), "cuDeviceGetAttribute") &&
           good(cu.attribute(&a->major, MAJOR, gpu.device), "cuDeviceGetAttribute") &&
           good(cu.attribute(&a->minor, MINOR, gpu.device), "cuDeviceGetAttribute") &&
           good(cu.total(&a->memory, gpu.device), "cuDeviceTotalMem") &&
           good(cu.retain(&context, gpu.device), "cuDevicePrimaryCtxRetain") &&
           good(cu.current(context), "cuCtxSetCurrent");
}

const char *gpu_open(int device, bool pinned)
{
    int l2 = 0;

    gpu.pinned = pinned;
    if (!open_library() || !open_device(device))
        return gpu.error;
    if (cu.attribute(&l2, L2, gpu.device) == 0 && l2 > 0)
        gpu.about.l2 = (size_t)l2;
    if (!good(cu.stream(&gpu.stream, 0), "cuStreamCreate") ||
        !good(cu.event(&gpu.from, 0), "cuEventCreate") ||
        !good(cu.event(&gpu.to, 0), "cuEventCreate"))
        return gpu.error;
    gpu.open = true;
    return NULL;
}

void gpu_close(void)
{
    if (!gpu.open)
        return;
    cu.end_event(gpu.from);
    cu.end_event(gpu.to);
    cu.end_stream(gpu.stream);
    cu.release(gpu.device);
    gpu.open = false;
}

/* ---- memory ---------------------------------------------------------------------------------- */

size_t gpu_memory_free(void)
{
    size_t left = 0, total;

    return good(cu.memory(&left, &total), "cuMemGetInfo") ? left : 0;
}

void *gpu_alloc(size_t bytes)
{
    address at = 0;
    void *p = NULL;

    if (gpu.pinned)
        return good(cu.alloc_host(&p, bytes ? bytes : 1, 0), "cuMemHostAlloc") ? p : NULL;
    return good(cu.alloc(&at, bytes ? bytes : 1), "cuMemAlloc") ? (void *)(uintptr_t)at : NULL;
}

void gpu_free(void *data)
{
    if (data && gpu.pinned)
        cu.free_host(data);
    else if (data)
        cu.free((address)(uintptr_t)data);
}

bool gpu_wait(void)
{
    return good(cu.wait(), "cuCtxSynchronize");
}

bool gpu_put(void *to, const void *from, size_t bytes)
{
    return good(cu.put((address)(uintptr_t)to, from, bytes), "cuMemcpyHtoD") && gpu_wait();
}

bool gpu_get(void *to, const void *from, size_t bytes)
{
    return good(cu.get_back(to, (address)(uintptr_t)from, bytes), "cuMemcpyDtoH");
}

bool gpu_copy(void *to, const void *from, size_t bytes)
{
    return good(cu.copy((address)(uintptr_t)to, (address)(uintptr_t)from, bytes, gpu.stream),
                "cuMemcpyDtoDAsync");
}

bool gpu_fill(void *to, int byte, size_t bytes)
{
    return good(cu.fill((address)(uintptr_t)to, (unsigned char)byte, bytes, gpu.stream),
                "cuMemsetD8Async") &&
           gpu_wait();
}

/* ---- timing ---------------------------------------------------------------------------------- */

bool gpu_start(void)
{
    return good(cu.record(gpu.from, gpu.stream), "cuEventRecord");
}

double gpu_stop(void)
{
    float ms = 0;

    if (!good(cu.record(gpu.to, gpu.stream), "cuEventRecord") ||
        !good(cu.event_wait(gpu.to), "cuEventSynchronize") ||
        !good(cu.elapsed(&ms, gpu.from, gpu.to), "cuEventElapsedTime"))
        return -1;
    return 1e-3 * (double)ms;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

bool gpu_record(void)
{
    return good(cu.capture(gpu.stream, RELAXED), "cuStreamBeginCapture");
}

void *gpu_recorded(void)
{
    void *graph = NULL, *exec = NULL;

    if (!good(cu.end_capture(gpu.stream, &graph), "cuStreamEndCapture") || !graph)
        return NULL;
    if (!good(cu.graph(&exec, graph, 0), "cuGraphInstantiate"))
        exec = NULL;
    cu.end_graph(graph);
    return exec;
}

bool gpu_replay(void *graph)
{
    return good(cu.launch(graph, gpu.stream), "cuGraphLaunch");
}

void gpu_forget(void *graph)
{
    if (graph)
        cu.end_exec(graph);
}
