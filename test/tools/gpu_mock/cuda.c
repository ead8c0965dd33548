/* SPDX-License-Identifier: BSD-3-Clause
 * A mock driver for tests of `limber gpu`: one device, whose memory is the host's.  Calls are
 * synchronous, so nothing can be recorded into graphs.  The variable GPU_MOCK plants faults:
 *
 * GPU_MOCK=none    there is no device
 * GPU_MOCK=copy    copies from the device have a flipped bit
 * GPU_MOCK=fault   the device is lost once an event has been recorded
 * GPU_MOCK=graph   graphs can be recorded, but do nothing */
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEMORY = 256 << 20, LOST = 719, NO_DEVICE = 100, UNSUPPORTED = 801 };

/* True after a failing kernel: all later calls report a lost device. */
static int faulty;

/* True if GPU_MOCK names this fault. */
static int mocks(const char *what)
{
    const char *s = getenv("GPU_MOCK");

    return s && !strcmp(s, what);
}

/* The status of a call after a kernel has failed, else success. */
static int state(void)
{
    return faulty ? LOST : 0;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return mocks("none") ? NO_DEVICE : 0;
}

int cuGetErrorString(int code, const char **text)
{
    *text = code == NO_DEVICE ? "no CUDA-capable device is detected" :
            code == LOST      ? "unspecified launch failure" :
                                "operation not supported";
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int which)
{
    *device = which;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    strncpy(name, "mock", (size_t)size);
    return 0;
}

int cuDeviceGetAttribute(int *value, int which, int device)
{
    (void)device;
    *value = which == 38 ? 1 << 16 : which == 75 ? 9 : which == 76 ? 0 : 1;
    return 0;
}

int cuDeviceGetPCIBusId(char *bus, int size, int device)
{
    strncpy(bus, device ? "" : "0000:01:00.0", (size_t)size);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = MEMORY;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &faulty;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    (void)context;
    return 0;
}

int cuCtxSynchronize(void)
{
    return state();
}

int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *left = *total = MEMORY;
    return 0;
}

int cuMemAlloc_v2(unsigned long long *at, size_t bytes)
{
    *at = (unsigned long long)malloc(bytes);
    return *at ? 0 : 2;
}

int cuMemFree_v2(unsigned long long at)
{
    free((void *)at);
    return 0;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    (void)flags;
    *at = malloc(bytes);
    return *at ? 0 : 2;
}

int cuMemFreeHost(void *at)
{
    free(at);
    return 0;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    memcpy((void *)to, from, bytes);
    return state();
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    memcpy(to, (const void *)from, bytes);
    if (mocks("copy"))
        ((char *)to)[bytes - 1] ^= 0x40;
    return state();
}

int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy((void *)to, (const void *)from, bytes);
    return state();
}

int cuMemsetD8Async(unsigned long long to, unsigned char byte, size_t bytes, void *stream)
{
    (void)stream;
    memset((void *)to, byte, bytes);
    return state();
}

int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    *stream = &faulty;
    return 0;
}

int cuStreamDestroy_v2(void *stream)
{
    (void)stream;
    return 0;
}

int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    *event = malloc(sizeof(struct timespec));
    return *event ? 0 : 2;
}

int cuEventDestroy_v2(void *event)
{
    free(event);
    return 0;
}

int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, event);
    faulty |= mocks("fault");
    return 0;
}

int cuEventSynchronize(void *event)
{
    (void)event;
    return state();
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
    const struct timespec *a = from, *b = to;

    *ms = (float)(1e3 * (double)(b->tv_sec - a->tv_sec) + 1e-6 * (double)(b->tv_nsec - a->tv_nsec));
    return 0;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    (void)stream;
    (void)mode;
    return mocks("graph") ? 0 : UNSUPPORTED;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    (void)stream;
    *graph = &faulty;
    return 0;
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    (void)flags;
    *exec = graph;
    return 0;
}

int cuGraphLaunch(void *exec, void *stream)
{
    (void)exec;
    (void)stream;
    return 0;
}

int cuGraphExecDestroy(void *exec)
{
    (void)exec;
    return 0;
}

int cuGraphDestroy(void *graph)
{
    (void)graph;
    return 0;
}
