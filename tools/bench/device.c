/* SPDX-License-Identifier: BSD-3-Clause
 * NVIDIA's driver API, opened at run time: one device, one stream, memory, timing, graphs.  Without
 * a device these functions work on the host.  The device's primary context is used, since cuBLAS
 * and cuDNN use it. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long address; /* CUdeviceptr */

/* Constants of cuda.h: attributes of a device, and the relaxed mode of stream captures. */
enum { UNITS = 16, L2 = 38, MAJOR = 75, MINOR = 76, RELAXED = 2 };

/* Lists functions of the driver: name in this file, symbol, parameters. */
#define DRIVER(F) \
    F(init, cuInit, (unsigned)) \
    F(error_text, cuGetErrorString, (int, const char **)) \
    F(version, cuDriverGetVersion, (int *)) \
    F(count, cuDeviceGetCount, (int *)) \
    F(get, cuDeviceGet, (int *, int)) \
    F(name, cuDeviceGetName, (char *, int, int)) \
    F(attribute, cuDeviceGetAttribute, (int *, int, int)) \
    F(total, cuDeviceTotalMem_v2, (size_t *, int)) \
    F(retain, cuDevicePrimaryCtxRetain, (void **, int)) \
    F(release, cuDevicePrimaryCtxRelease_v2, (int)) \
    F(current, cuCtxSetCurrent, (void *)) \
    F(wait, cuCtxSynchronize, (void)) \
    F(memory, cuMemGetInfo_v2, (size_t *, size_t *)) \
    F(alloc, cuMemAlloc_v2, (address *, size_t)) \
    F(free, cuMemFree_v2, (address)) \
    F(alloc_host, cuMemHostAlloc, (void **, size_t, unsigned)) \
    F(free_host, cuMemFreeHost, (void *)) \
    F(put, cuMemcpyHtoD_v2, (address, const void *, size_t)) \
    F(get_back, cuMemcpyDtoH_v2, (void *, address, size_t)) \
    F(copy, cuMemcpyDtoDAsync_v2, (address, address, size_t, void *)) \
    F(fill, cuMemsetD8Async, (address, unsigned char, size_t, void *)) \
    F(stream, cuStreamCreate, (void **, unsigned)) \
    F(end_stream, cuStreamDestroy_v2, (void *)) \
    F(event, cuEventCreate, (void **, unsigned)) \
    F(end_event, cuEventDestroy_v2, (void *)) \
    F(record, cuEventRecord, (void *, void *)) \
    F(event_wait, cuEventSynchronize, (void *)) \
    F(elapsed, cuEventElapsedTime, (float *, void *, void *)) \
    F(capture, cuStreamBeginCapture_v2, (void *, int)) \
    F(end_capture, cuStreamEndCapture, (void *, void **)) \
    F(graph, cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) \
    F(launch, cuGraphLaunch, (void *, void *)) \
    F(end_exec, cuGraphExecDestroy, (void *)) \
    F(end_graph, cuGraphDestroy, (void *))

#define DECLARE(here, symbol, arguments) int(*here) arguments;
#define NEEDED(here, symbol, arguments) { #symbol, &cu.here },
/* The functions of libcuda. */
static struct {
    DRIVER(DECLARE)
} cu;
static const struct symbol needed[] = { DRIVER(NEEDED) };

/* The open device; from, to: events around the timed work. */
static struct {
    void *stream, *from, *to;
    int device;
    bool pinned, lost, open;
    double start; /* host time of device_start, in seconds */
    char error[200];
    struct device_info info;
} gpu;

static struct library driver;

const char *device_error(void)
{
    return gpu.error;
}

bool device_lost(void)
{
    return gpu.lost;
}

const struct device_info *device_info(void)
{
    return &gpu.info;
}

void *device_stream(void)
{
    return gpu.stream;
}

void *device_symbol(const char *name)
{
    return driver.handle ? dlsym(driver.handle, name) : NULL;
}

int device_attribute(int number)
{
    int value = -1;

    return gpu.open && cu.attribute(&value, number, gpu.device) == 0 ? value : -1;
}

/* If a driver call failed, stores its error text and returns false.  Codes 700 to 719 are errors of
 * kernels, after which the context is unusable. */
static bool check_driver(int code, const char *what)
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

/* ---- opening the CUDA driver and a device ---------------------------------------------------- */

static bool open_library(void)
{
    const char *name = limber_variable_value("LIMBER_CUDA");

    driver = (struct library){ .name = "the driver", .files = name ? name : "libcuda.so.1" };
    if (library_load(&driver) && LIBRARY_FIND(&driver, needed))
        return true;
    snprintf(gpu.error, sizeof gpu.error, "%s", driver.why_not);
    return false;
}

/* Initialises the driver, finds the device with this number, stores its attributes and makes its
 * primary context current.  Returns false on failure. */
static bool open_device(int device)
{
    struct device_info *a = &gpu.info;
    int n = 0;
    void *context;

    if (!check_driver(cu.init(0), "the driver finds no device: cuInit") ||
        !check_driver(cu.count(&n), "cuDeviceGetCount"))
        return false;
    if (device < 0 || device >= n) {
        snprintf(gpu.error, sizeof gpu.error, "there is no device %d: the driver lists %d", device,
                 n);
        return false;
    }
    return check_driver(cu.get(&gpu.device, device), "cuDeviceGet") &&
           check_driver(cu.name(a->name, sizeof a->name, gpu.device), "cuDeviceGetName") &&
           check_driver(cu.version(&a->driver), "cuDriverGetVersion") &&
           check_driver(cu.attribute(&a->units, UNITS, gpu.device), "cuDeviceGetAttribute") &&
           check_driver(cu.attribute(&a->major, MAJOR, gpu.device), "cuDeviceGetAttribute") &&
           check_driver(cu.attribute(&a->minor, MINOR, gpu.device), "cuDeviceGetAttribute") &&
           check_driver(cu.total(&a->memory, gpu.device), "cuDeviceTotalMem") &&
           check_driver(cu.retain(&context, gpu.device), "cuDevicePrimaryCtxRetain") &&
           check_driver(cu.current(context), "cuCtxSetCurrent");
}

/* Opens a GPU, with a stream and events for timing.  Returns NULL, or an error's text. */
const char *device_open(int device, bool pinned)
{
    int l2;

    gpu.pinned = pinned;
    if (!open_library() || !open_device(device))
        return gpu.error;
    if (!check_driver(cu.stream(&gpu.stream, 0), "cuStreamCreate") ||
        !check_driver(cu.event(&gpu.from, 0), "cuEventCreate") ||
        !check_driver(cu.event(&gpu.to, 0), "cuEventCreate"))
        return gpu.error;
    gpu.open = true;
    l2 = device_attribute(L2);
    gpu.info.l2 = l2 > 0 ? (size_t)l2 : 0;
    return NULL;
}

void device_close(void)
{
    if (!gpu.open)
        return;
    cu.end_event(gpu.from);
    cu.end_event(gpu.to);
    cu.end_stream(gpu.stream);
    cu.release(gpu.device);
    gpu.open = false;
}

/* ---- device memory --------------------------------------------------------------------------- */

static address address_of(const void *data)
{
    return (address)(uintptr_t)data;
}

size_t device_memory_free(void)
{
    size_t left = 0, total;

    if (!gpu.open)
        return (size_t)memory_here();
    return check_driver(cu.memory(&left, &total), "cuMemGetInfo") ? left : 0;
}

/* Allocates memory of the GPU (pinned host memory if device_open was told so), or ordinary
 * memory if no GPU is open.  NULL on failure. */
void *device_alloc(size_t bytes)
{
    address at = 0;
    void *p = NULL;

    bytes = bytes ? bytes : 1;
    if (!gpu.open)
        return malloc(bytes);
    if (gpu.pinned)
        return check_driver(cu.alloc_host(&p, bytes, 0), "cuMemHostAlloc") ? p : NULL;
    return check_driver(cu.alloc(&at, bytes), "cuMemAlloc") ? (void *)(uintptr_t)at : NULL;
}

/* Frees what device_alloc and its like returned. */
void device_free(void *data)
{
    if (!gpu.open)
        free(data);
    else if (data && gpu.pinned)
        cu.free_host(data);
    else if (data)
        cu.free(address_of(data));
}

bool device_wait(void)
{
    return !gpu.open || check_driver(cu.wait(), "cuCtxSynchronize");
}

bool device_put(void *to, const void *from, size_t bytes)
{
    if (!gpu.open)
        return device_copy(to, from, bytes);
    return check_driver(cu.put(address_of(to), from, bytes), "cuMemcpyHtoD") && device_wait();
}

bool device_get(void *to, const void *from, size_t bytes)
{
    if (!gpu.open)
        return device_copy(to, from, bytes);
    return check_driver(cu.get_back(to, address_of(from), bytes), "cuMemcpyDtoH");
}

/* Copies on the device, or on the host if no device is open. */
bool device_copy(void *to, const void *from, size_t bytes)
{
    if (gpu.open)
        return check_driver(cu.copy(address_of(to), address_of(from), bytes, gpu.stream),
                            "cuMemcpyDtoDAsync");
    memcpy(to, from, bytes);
    return true;
}

/* Fills memory of the device, or of the host if no device is open. */
bool device_fill(void *to, int byte, size_t bytes)
{
    if (gpu.open)
        return check_driver(cu.fill(address_of(to), (unsigned char)byte, bytes, gpu.stream),
                            "cuMemsetD8Async") &&
               device_wait();
    memset(to, byte, bytes);
    return true;
}

/* ---- timing by the device's clock ------------------------------------------------------------ */

static clockid_t host_clock = CLOCK_MONOTONIC;

void device_host_time(bool of_cpu)
{
    host_clock = of_cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
}

static double host_time(void)
{
    struct timespec t;

    clock_gettime(host_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool device_start(void)
{
    gpu.start = host_time();
    return !gpu.open || check_driver(cu.record(gpu.from, gpu.stream), "cuEventRecord");
}

/* Returns the seconds since device_start: of the GPU if one is open, else of the host. -1 on
 * failure. */
double device_stop(void)
{
    float ms = 0;

    if (!gpu.open)
        return host_time() - gpu.start;
    if (!check_driver(cu.record(gpu.to, gpu.stream), "cuEventRecord"))
        return -1;
    watch_sample();
    if (!check_driver(cu.event_wait(gpu.to), "cuEventSynchronize") ||
        !check_driver(cu.elapsed(&ms, gpu.from, gpu.to), "cuEventElapsedTime"))
        return -1;
    return 1e-3 * (double)ms;
}

/* ---- recorded graphs of calls ---------------------------------------------------------------- */

bool device_begin_capture(void)
{
    return check_driver(cu.capture(gpu.stream, RELAXED), "cuStreamBeginCapture");
}

void *device_end_capture(void)
{
    void *graph = NULL, *exec = NULL;

    if (!check_driver(cu.end_capture(gpu.stream, &graph), "cuStreamEndCapture") || !graph)
        return NULL;
    if (!check_driver(cu.graph(&exec, graph, 0), "cuGraphInstantiate"))
        exec = NULL;
    cu.end_graph(graph);
    return exec;
}

bool device_replay(void *graph)
{
    return check_driver(cu.launch(graph, gpu.stream), "cuGraphLaunch");
}

void device_graph_free(void *graph)
{
    if (graph)
        cu.end_exec(graph);
}
