/* SPDX-License-Identifier: BSD-3-Clause
 * Opens devices, which are identified by their index in the driver's list, and keeps idle resources
 * of each device. */
#include "backends/cuda/launch.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[CUDA_DEVICES];

/* Creates a memory pool that keeps up to an eighth of the device's memory.  The driver's default
 * pool releases all unused memory whenever the program synchronises, and mapping it again takes
 * longer than most products.  Returns false with an error. */
static bool open_pool(const struct cuda_driver *c, struct device *v, int device, struct diag *d)
{
    const struct cu_pool_props props = { .type = CU_PINNED,
                                         .location = CU_LOCATION_DEVICE,
                                         .device = device };
    cu_context before;
    size_t total;
    uint64_t kept;
    bool ok;

    if (!limber_cuda_ok(c, c->cuDeviceTotalMem_v2(&total, device), "asking for the memory", d) ||
        !limber_cuda_ok(c, c->cuCtxPushCurrent_v2(v->context), "entering the context", d))
        return false;
    kept = total / 8;
    ok = limber_cuda_ok(c, c->cuMemPoolCreate(&v->pool, &props), "making a pool of memory", d) &&
         limber_cuda_ok(c, c->cuMemPoolSetAttribute(v->pool, CU_POOL_RELEASE_THRESHOLD, &kept),
                        "setting the pool's threshold", d);
    c->cuCtxPopCurrent_v2(&before);
    return ok;
}

/* Opens a device: its primary context, its properties and a memory pool.  Returns false with an
 * error. */
static bool open_device(struct device *v, int ordinal, struct diag *d)
{
    const struct cuda_driver *c = limber_cuda(d);
    int device, major, mode;
    bool ok;

    if (!c || !limber_cuda_ok(c, c->cuDeviceGet(&device, ordinal), "finding the device", d) ||
        !limber_cuda_ok(c, c->cuDeviceGetAttribute(&v->multiprocessors, CU_MULTIPROCESSORS, device),
                        "counting multiprocessors", d) ||
        !limber_cuda_ok(c, c->cuDeviceGetAttribute(&major, CU_MAJOR, device),
                        "asking for the compute capability", d) ||
        !limber_cuda_ok(c, c->cuDevicePrimaryCtxRetain(&v->context, device),
                        "taking the device's context", d))
        return false;
    mode = limber_cuda_relax(c);
    ok = open_pool(c, v, device, d);
    limber_cuda_restore(c, mode);
    if (!ok) {
        c->cuDevicePrimaryCtxRelease_v2(device);
        return false;
    }
    v->early = major >= 9 && c->cuLaunchKernelEx && c->version >= CU_EARLY_IN_GRAPHS;
    v->driver = c;
    pthread_mutex_init(&v->lock, NULL);
    return true;
}

/* Opens the device at its first use.  Returns NULL with an error if it cannot be opened. */
struct device *limber_cuda_device(int ordinal, struct diag *d)
{
    struct device *v = NULL;

    if (ordinal < 0 || ordinal >= CUDA_DEVICES) {
        limber_fail(d, LIMBER_STATUS_DEVICE, "device = %d is beyond %d", ordinal, CUDA_DEVICES);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (devices[ordinal].driver || open_device(&devices[ordinal], ordinal, d))
        v = &devices[ordinal];
    pthread_mutex_unlock(&lock);
    return v;
}

/* Takes an idle resource.  The result's `at` is 0 if there is none. */
struct idle_item limber_cuda_take_idle(struct device *v, struct idle *x)
{
    struct idle_item item = { .at = 0 };

    pthread_mutex_lock(&v->lock);
    if (x->count)
        item = x->item[--x->count];
    pthread_mutex_unlock(&v->lock);
    return item;
}

/* Keeps a resource for later calls.  Returns false if enough are kept already. */
bool limber_cuda_keep_idle(struct device *v, struct idle *x, struct idle_item item)
{
    bool room;

    pthread_mutex_lock(&v->lock);
    room = x->count < CUDA_STREAMS;
    if (room)
        x->item[x->count++] = item;
    pthread_mutex_unlock(&v->lock);
    return room;
}

/* Streams are created without flags, so their work is ordered after earlier work in the legacy
 * default stream. */
bool limber_cuda_take_stream(struct device *v, cu_stream *s, struct diag *d)
{
    *s = (cu_stream)(uintptr_t)limber_cuda_take_idle(v, &v->streams).at;
    return *s || limber_cuda_ok(v->driver, v->driver->cuStreamCreate(s, 0), "making a stream", d);
}

/* Keeps a stream for later calls, or destroys it if enough are kept. */
void limber_cuda_return_stream(struct device *v, cu_stream s)
{
    if (!limber_cuda_keep_idle(v, &v->streams, (struct idle_item){ .at = (uintptr_t)s }))
        v->driver->cuStreamDestroy_v2(s);
}
