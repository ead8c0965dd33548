/* SPDX-License-Identifier: BSD-3-Clause
 * A mock libcuda: the driver's functions on top of the engine that runs kernels on the CPU, all
 * under one lock.  Streams execute their work late (streams.h).  cuInit and simt_reset read the
 * environment (README.md). */
#define _GNU_SOURCE
#include "test/cuda/simt/engine.h"
#include "test/cuda/simt/image.h"
#include "test/cuda/simt/streams.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OK,
    INVALID_VALUE,
    OUT_OF_MEMORY,
    NOT_INITIALIZED,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED,
    CAPTURE_UNMATCHED = 903,
    CAPTURED_EVENT = 907,
    UNKNOWN = 999
};
enum { DEVICES = 2, STACK_DEPTH = 16 };

/* A device's primary context; refs: how often it is retained. */
struct context {
    int device, refs;
};

/* The work items of a graph; end: where the next one is appended. */
struct graph {
    struct work *first, **end;
};

/* A stream that is being captured. */
struct capture {
    struct graph *graph;
    int mode;
    pthread_t thread;           /* the thread that began the capture */
    bool invalid;
    struct capture *next;
};
enum { MODE_global, MODE_thread, MODE_relaxed, MODES };     /* CUstreamCaptureMode */
struct event {
    bool recorded;
    double time;
    struct capture *capture;
    const struct stream *stream;
    uint64_t number; /* number of the last work item of the stream that the event waits for */
};
struct module {
    void *library;
    char *path;
};

/* A kernel of a loaded module. */
struct function {
    struct function *next;
    struct module *module;
    char *name;
    void (*entry)(const void *);
    uint32_t args, threads;
    int dynamic;
    bool loaded; /* set by cuFuncLoad or by the first launch */
};
/* An allocation of page-locked host memory. */
struct pinned {
    struct pinned *next;
    char *at;
    size_t size;
};

/* A stream-ordered memory pool.  When a thread synchronises, free memory above `threshold` bytes is
 * unmapped. */
struct pool {
    struct pool *next;
    int device;
    uint64_t threshold, used, mapped;
};

/* An allocation from a pool. */
struct pooled {
    struct pooled *next;
    struct pool *pool;
    uint64_t at, size;
    bool freed; /* set when the free is queued */
};
/* CUmemPoolProps. */
struct pool_props {
    int type, handles, location, device;
    void *security;
    size_t most;
    unsigned char unused[56];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The state of the driver. */
static struct {
    bool started;
    int capability, multiprocessors, version;
    int clock, memory_clock; /* kHz */
    int bus; /* bits of the bus to the memory */
    uint64_t each; /* bytes of memory of each device; 0 until start_memory() */
    struct context contexts[DEVICES];
    struct capture *captures;
    struct function *functions;
    struct pinned *pinned;
    struct pool *pools;
    struct pooled *pooled;
    long maps; /* number of times that a pool mapped memory */
    long waits; /* number of times that threads waited for streams */
    /* kernel launches; those of a graph count each time that the graph is launched */
    long launches;
    long copies; /* copies between host and device */
    long early; /* launches that may begin before the previous launch has ended */
} driver;
static _Thread_local struct context *current[STACK_DEPTH];
static _Thread_local int depth; /* current[depth] is the current context */
/* this thread's mode (cuThreadExchangeStreamCaptureMode), on which it depends whether captures
 * forbid it unsafe calls */
static _Thread_local int thread_mode;

/* ---- settings and start of the driver -------------------------------------------------------- */

/* Returns a number from the environment, or `otherwise` if the variable is not set. */
static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* Reads the properties of the simulated device from environment variables. */
static void read_settings(void)
{
    driver.capability = (int)setting("SIMT_CC", 90);
    driver.multiprocessors = (int)setting("SIMT_SMS", 5);
    driver.version = (int)setting("SIMT_DRIVER", 13000);
    driver.clock = (int)setting("SIMT_CLOCK", 1500000);
    driver.memory_clock = (int)setting("SIMT_MEMORY_CLOCK", 2000000);
    driver.bus = (int)setting("SIMT_BUS", 5120);
    streams_seed(setting("SIMT_SEED", 1));
    engine.seed = setting("SIMT_SEED", 1);
    engine.capability = driver.capability;
}

static bool start_memory(void)
{
    uint64_t each = setting("SIMT_MEMORY", UINT64_C(2) << 30);

    if (driver.each)
        return true;
    driver.each = each;
    return memory_start(each);
}

/* Reads the settings and reserves the devices' memory.  Fails if SIMT_FAULT is set, but the fault
 * could not be planted. */
EXPORT int cuInit(unsigned flags)
{
    bool good;

    if (fault_is_gone())
        return UNKNOWN;
    pthread_mutex_lock(&lock);
    read_settings();
    good = flags == 0 && start_memory();
    for (int d = 0; d < DEVICES; d++)
        driver.contexts[d].device = d;
    driver.started = good;
    pthread_mutex_unlock(&lock);
    return good ? OK : flags ? INVALID_VALUE : OUT_OF_MEMORY;
}

/* Returns the first error that the simulator has found, or "". */
EXPORT const char *simt_error(void)
{
    pthread_mutex_lock(&lock);
    streams_finish_all();
    pthread_mutex_unlock(&lock);
    return engine.failed ? engine.error : "";
}

static void drop_graph(struct graph *g)
{
    while (g->first) {
        struct work *w = g->first;

        g->first = w->next;
        free(w->args);
        free(w);
    }
    free(g);
}

/* Resets all state except objects that callers own: modules and graphs exist until callers destroy
 * them. */
EXPORT void simt_reset(void)
{
    pthread_mutex_lock(&lock);
    streams_forget();
    memory_stop();
    driver.each = 0;
    engine_drop();
    engine.failed = false;
    engine.error[0] = 0;
    while (driver.captures) {
        struct capture *c = driver.captures;

        driver.captures = c->next;
        drop_graph(c->graph);
        free(c);
    }
    for (struct stream *s = streams_first(); s; s = s->next)
        s->capture = NULL;
    for (int d = 0; d < DEVICES; d++)
        driver.contexts[d].refs = 0;
    depth = 0;
    current[0] = NULL;
    read_settings();
    if (driver.started)
        start_memory();
    pthread_mutex_unlock(&lock);
}

/* ---- checks at every call -------------------------------------------------------------------- */

/* Returns whether a stream is being captured in a mode that restricts other calls. */
static bool is_capturing(void)
{
    for (const struct capture *c = driver.captures; c; c = c->next)
        if (c->mode != MODE_relaxed)
            return true;
    return false;
}

/* Returns whether a capture forbids this thread unsafe calls.  This depends on the capture's and
 * the thread's mode, and on whether this thread began the capture. */
static bool forbids(const struct capture *c)
{
    bool own = pthread_equal(c->thread, pthread_self());

    return thread_mode != MODE_relaxed &&
           (own ? c->mode != MODE_relaxed : c->mode == MODE_global && thread_mode == MODE_global);
}

/* Refuses an unsafe call, and invalidates the captures that forbid it. */
static int refuse_unsafe(void)
{
    int e = OK;

    for (struct capture *c = driver.captures; c; c = c->next)
        if (forbids(c)) {
            c->invalid = true;
            e = CAPTURE_UNSUPPORTED;
        }
    return e;
}

/* Refuses a call that the capture c does not allow, and invalidates c.  If c is NULL, the call is
 * on the NULL stream, and all captures whose mode is not relaxed become invalid. */
static int refuse_capture(struct capture *c)
{
    if (c)
        c->invalid = true;
    else
        for (c = driver.captures; c; c = c->next)
            c->invalid |= c->mode != MODE_relaxed;
    return CAPTURE_UNSUPPORTED;
}

enum needs { NEEDS_context = 1, NEEDS_safety = 2, NEEDS_no_failure = 4, NEEDS_all = 7 };

/* Begins a driver function: takes the lock, and checks the conditions in `needs`.  If the result is
 * not OK, the lock has been released. */
static int enter(int needs)
{
    int e = OK;

    pthread_mutex_lock(&lock);
    if (!driver.started)
        e = NOT_INITIALIZED;
    else if (needs & NEEDS_context && !current[depth])
        e = INVALID_CONTEXT;
    else if (needs & NEEDS_no_failure && engine.failed)
        e = LAUNCH_FAILED;
    else if (needs & NEEDS_safety)
        e = refuse_unsafe();
    if (e)
        pthread_mutex_unlock(&lock);
    return e;
}

/* Ends a driver function: releases the lock and returns the status. */
static int leave(int e)
{
    pthread_mutex_unlock(&lock);
    return e;
}

/* Begins the function that contains it, or returns the error of enter() from it. */
#define ENTER(needs) \
    do { \
        int e_ = enter(needs); \
        if (e_) \
            return e_; \
    } while (0)

/* ---- devices and their properties ------------------------------------------------------------ */

/* Stores the driver's version, or 0 before cuInit: programs may call this before cuInit. */
EXPORT int cuDriverGetVersion(int *version)
{
    *version = driver.started ? driver.version : (int)setting("SIMT_DRIVER", 13000);
    return OK;
}

EXPORT int cuDeviceGetCount(int *count)
{
    *count = DEVICES;
    return driver.started ? OK : NOT_INITIALIZED;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    if (!driver.started)
        return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= DEVICES)
        return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    if (device < 0 || device >= DEVICES)
        return INVALID_DEVICE;
    snprintf(name, (size_t)size, "Limber SIMT %d.%d", driver.capability / 10,
             driver.capability % 10);
    return OK;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    if (device < 0 || device >= DEVICES)
        return INVALID_DEVICE;
    *bytes = driver.each;
    return OK;
}

/* Largest shared memory that a block can opt in to, in bytes. */
static int shared_optin(void)
{
    return driver.capability >= 120 ? 99 * 1024 :
           driver.capability >= 90  ? 227 * 1024 :
           driver.capability >= 86  ? 99 * 1024 :
           driver.capability >= 80  ? 163 * 1024 :
           driver.capability >= 75  ? 64 * 1024 :
                                      96 * 1024;
}

static int shared_of_multiprocessor(void)
{
    return driver.capability >= 80 ? shared_optin() + 1024 : shared_optin();
}

static int threads_of_multiprocessor(void)
{
    bool fewer = driver.capability == 86 || driver.capability == 89 || driver.capability >= 120;

    return driver.capability == 75 ? 1024 : fewer ? 1536 : 2048;
}

/* Stores the value of a device attribute in *v, and 0 for attributes that the simulation does not
 * know. */
EXPORT int cuDeviceGetAttribute(int *v, int attribute, int device)
{
    if (device < 0 || device >= DEVICES)
        return INVALID_DEVICE;
    switch (attribute) {
    case 1: *v = MAX_THREADS; break;
    case 2:
    case 3: *v = MAX_THREADS; break;
    case 4: *v = 64; break;
    case 5: *v = 0x7fffffff; break;
    case 6:
    case 7: *v = 65535; break;
    case 8: *v = 48 * 1024; break;
    case 9: *v = 65536; break; /* bytes of constant memory */
    case 10: *v = 32; break;
    case 11: *v = 0x7fffffff; break;
    case 12:
    case 82: *v = 65536; break; /* registers of a block and of a multiprocessor */
    case 13: *v = driver.clock; break;
    case 14: *v = 512; break;
    case 16: *v = driver.multiprocessors; break;
    case 31:
    case 41:
    /* 31: concurrent kernels, 40: copy engines, 41: unified addressing */
    case 40: *v = 1; break;
    case 33: *v = 0; break;
    case 34: *v = device; break;
    case 36: *v = driver.memory_clock; break;
    case 37: *v = driver.bus; break;
    case 38: *v = 50 << 20; break;
    case 39: *v = threads_of_multiprocessor(); break;
    case 75: *v = driver.capability / 10; break;
    case 76: *v = driver.capability % 10; break;
    case 81: *v = shared_of_multiprocessor(); break;
    case 95: *v = 1; break;
    case 97: *v = shared_optin(); break;
    case 106: *v = 32; break;
    case 111: *v = driver.capability >= 80 ? 1024 : 0; break;
    case 115: *v = 1; break; /* supports memory pools */
    case 120:
    case 127: *v = driver.capability >= 90; break;
    default: *v = 0;
    }
    return OK;
}

/* ---- contexts -------------------------------------------------------------------------------- */

EXPORT int cuDevicePrimaryCtxRetain(struct context **c, int device)
{
    ENTER(0);
    if (device < 0 || device >= DEVICES)
        return leave(INVALID_DEVICE);
    driver.contexts[device].refs++;
    *c = &driver.contexts[device];
    return leave(OK);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER(0);
    if (device < 0 || device >= DEVICES || !driver.contexts[device].refs)
        return leave(INVALID_CONTEXT);
    driver.contexts[device].refs--;
    return leave(OK);
}

EXPORT int cuCtxSetCurrent(struct context *c)
{
    current[depth] = c;
    return driver.started ? OK : NOT_INITIALIZED;
}

EXPORT int cuCtxGetCurrent(struct context **c)
{
    *c = current[depth];
    return driver.started ? OK : NOT_INITIALIZED;
}

EXPORT int cuCtxPushCurrent_v2(struct context *c)
{
    if (depth + 1 == STACK_DEPTH || !c)
        return INVALID_VALUE;
    current[++depth] = c;
    return OK;
}

EXPORT int cuCtxPopCurrent_v2(struct context **c)
{
    if (!current[depth])
        return INVALID_CONTEXT;
    if (c)
        *c = current[depth];
    current[depth] = NULL;
    depth -= depth > 0;
    return OK;
}

EXPORT int cuCtxGetDevice(int *device)
{
    if (!current[depth])
        return INVALID_CONTEXT;
    *device = current[depth]->device;
    return OK;
}

static void trim_all(void);

/* Returns the status of a call that waits for the device: an error if a kernel has failed. */
static int device_status(void)
{
    return engine.failed ? LAUNCH_FAILED : OK;
}

EXPORT int cuCtxSynchronize(void)
{
    ENTER(NEEDS_all);
    streams_finish_all();
    trim_all();
    return leave(device_status());
}

/* ---- memory and pools ------------------------------------------------------------------------ */

EXPORT int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    ENTER(NEEDS_context);
    *left = memory_left(current[depth]->device);
    *total = driver.each;
    return leave(OK);
}

/* Allocates memory on the current device.  Returns the driver's status. */
static int allocate(uint64_t *at, size_t size)
{
    if (!at || !size)
        return INVALID_VALUE;
    *at = memory_allocate(current[depth]->device, size);
    return *at ? OK : OUT_OF_MEMORY;
}

EXPORT int cuMemAlloc_v2(uint64_t *at, size_t size)
{
    ENTER(NEEDS_all);
    return leave(allocate(at, size));
}

EXPORT int cuMemFree_v2(uint64_t at)
{
    ENTER(NEEDS_all);
    streams_finish_all();
    return leave(!at || memory_free(at) ? OK : INVALID_VALUE);
}

/* Creates an empty memory pool.  Only device memory without handles for other processes is
 * supported. */
EXPORT int cuMemPoolCreate(struct pool **to, const struct pool_props *props)
{
    struct pool *p;

    ENTER(NEEDS_context | NEEDS_safety);
    if (!to || !props || props->type != 1 || props->location != 1 || props->handles ||
        props->device < 0 || props->device >= DEVICES)
        return leave(INVALID_VALUE);
    p = calloc(1, sizeof *p);
    *p = (struct pool){ .next = driver.pools, .device = props->device };
    *to = driver.pools = p;
    return leave(OK);
}

EXPORT int cuMemPoolDestroy(struct pool *p)
{
    ENTER(NEEDS_context);
    streams_finish_all();
    for (struct pool **at = &driver.pools; *at; at = &(*at)->next)
        if (*at == p && !p->used) {
            *at = p->next;
            free(p);
            return leave(OK);
        }
    return leave(INVALID_VALUE);
}

EXPORT int cuMemPoolSetAttribute(struct pool *p, int attribute, void *value)
{
    ENTER(NEEDS_context);
    if (attribute != 4)
        return leave(INVALID_VALUE);
    memcpy(&p->threshold, value, sizeof p->threshold);
    return leave(OK);
}

/* Unmaps memory of a pool that exceeds `most` bytes and is not in use. */
static void trim(struct pool *p, uint64_t most)
{
    most = most > p->used ? most : p->used;
    p->mapped = p->mapped < most ? p->mapped : most;
}

EXPORT int cuMemPoolTrimTo(struct pool *p, size_t bytes)
{
    ENTER(NEEDS_context);
    trim(p, bytes);
    return leave(OK);
}

/* Trims all pools.  Called when a thread synchronises. */
static void trim_all(void)
{
    for (struct pool *p = driver.pools; p; p = p->next)
        trim(p, p->threshold);
}

EXPORT long simt_maps(void)
{
    return driver.maps;
}

/* Allocates memory of a pool at once, as if the stream had no earlier work.  While a stream is
 * captured this is refused. */
EXPORT int cuMemAllocFromPoolAsync(uint64_t *at, size_t size, struct pool *p, struct stream *s)
{
    struct pooled *x;

    ENTER(NEEDS_all);
    if (s && s->capture)
        return leave(refuse_capture(s->capture));
    if (!at || !size)
        return leave(INVALID_VALUE);
    *at = memory_allocate(p->device, size);
    if (!*at) { /* wait for frees that are pending in streams, then try again */
        streams_finish_all();
        *at = memory_allocate(p->device, size);
    }
    if (!*at)
        return leave(OUT_OF_MEMORY);
    x = malloc(sizeof *x);
    *x = (struct pooled){ driver.pooled, p, *at, size, false };
    driver.pooled = x;
    p->used += size;
    if (p->used > p->mapped) {
        p->mapped = p->used;
        driver.maps++;
    }
    return leave(OK);
}

static int submit(struct stream *s, const struct work *w);

EXPORT int cuMemFreeAsync(uint64_t at, struct stream *s)
{
    ENTER(NEEDS_all);
    if (s && s->capture)
        return leave(refuse_capture(s->capture));
    for (struct pooled *x = driver.pooled; x; x = x->next)
        if (x->at == at && !x->freed) {
            x->freed = true;
            return leave(submit(s, &(struct work){ .kind = WORK_free, .to = at }));
        }
    return leave(INVALID_VALUE);
}

/* Allocates pinned host memory, filled with 0xc5 so that reading what was never written shows. */
EXPORT int cuMemHostAlloc(void **at, size_t size, unsigned flags)
{
    struct pinned *p;

    (void)flags;
    ENTER(NEEDS_all);
    if (!size)
        return leave(INVALID_VALUE);
    p = malloc(sizeof *p);
    *p = (struct pinned){ driver.pinned, aligned_alloc(4096, (size + 4095) / 4096 * 4096), size };
    memset(p->at, 0xc5, size);
    driver.pinned = p;
    *at = p->at;
    return leave(OK);
}

/* Frees pinned host memory, after all work of all streams has completed, as the real driver
 * does. */
EXPORT int cuMemFreeHost(void *at)
{
    ENTER(NEEDS_safety);
    streams_finish_all();
    for (struct pinned **p = &driver.pinned; *p; p = &(*p)->next)
        if ((*p)->at == at) {
            struct pinned *old = *p;

            *p = old->next;
            free(old->at);
            free(old);
            return leave(OK);
        }
    return leave(INVALID_VALUE);
}

/* Returns whether bytes [at, at + size) are in pinned host memory. */
static bool is_pinned(uint64_t at, uint64_t size)
{
    for (const struct pinned *p = driver.pinned; p; p = p->next)
        if (at >= (uint64_t)(uintptr_t)p->at && at + size <= (uint64_t)(uintptr_t)p->at + p->size)
            return true;
    return false;
}

/* Stores an attribute of an address of device memory or pinned memory in *data.  Attributes: 1
 * context, 2 type of memory, 3 device address, 4 host address, 8 managed, 9 device, 11 and 12 the
 * allocation. */
EXPORT int cuPointerGetAttribute(void *data, int attribute, uint64_t at)
{
    uint64_t base, size;
    bool device = memory_find(at, &base, &size), pinned = is_pinned(at, 1);

    if (!device && !pinned)
        return INVALID_VALUE;
    switch (attribute) {
    case 1: *(struct context **)data = device ? &driver.contexts[memory_device(at)] : NULL; break;
    case 2: *(unsigned *)data = device ? 2 : 1; break;
    case 3: *(uint64_t *)data = at; break;
    case 4:
        if (device)
            return INVALID_VALUE;
        *(uint64_t *)data = at;
        break;
    case 8: *(unsigned char *)data = 0; break;
    case 9: *(int *)data = device ? memory_device(at) : 0; break;
    case 11: *(uint64_t *)data = device ? base : at; break;
    case 12: *(size_t *)data = device ? size : 0; break;
    default: return INVALID_VALUE;
    }
    return OK;
}

EXPORT int cuStreamSynchronize(struct stream *s);

/* ---- work queued in streams ------------------------------------------------------------------ */

/* Copies rows between device memory and host memory, or within device memory. */
static void run_copy(const struct work *w)
{
    for (uint64_t r = 0; r < w->height; r++) {
        uint64_t to = w->to + r * w->to_pitch, from = w->from + r * w->from_pitch;

        if ((!w->to_host && !memory_host_address(to, w->width)) ||
            (!w->from_host && !memory_host_address(from, w->width))) {
            engine_fail("a copy of memory that was freed before");
            return;
        }
        if (w->to_host)
            memcpy((void *)(uintptr_t)to, memory_host_address(from, w->width), w->width);
        else if (w->from_host)
            memcpy(memory_host_address(to, w->width), (const void *)(uintptr_t)from, w->width);
        else
            memory_copy(to, from, w->width);
        if (!w->to_host && w->from_host)
            memory_written(to, w->width);
    }
}

/* Fills memory, as cuMemsetD8Async and its like. */
static void run_set(const struct work *w)
{
    unsigned char *p = memory_host_address(w->to, w->width * w->unit);

    if (!p)
        engine_fail("memory is set that was freed before");
    for (uint64_t i = 0; p && i < w->width; i++)
        memcpy(p + i * w->unit, &w->value, w->unit);
    if (p)
        memory_written(w->to, w->width * w->unit);
}

/* Frees memory of a pool when a stream reaches the request; does nothing if the address is not in a
 * pool. */
static void run_free(uint64_t at)
{
    for (struct pooled **x = &driver.pooled; *x; x = &(*x)->next)
        if ((*x)->at == at) {
            struct pooled *old = *x;

            *x = old->next;
            old->pool->used -= old->size;
            free(old);
            memory_free(at);
            return;
        }
}

static void run_launch(const struct launch *l)
{
    fault_before();
    if (!engine.failed && engine_run(l))
        fault_after(l->name);
}

/* Executes a work item.  After a failure, work items only free memory. */
void work_run(const struct work *w)
{
    if (w->kind == WORK_free)
        run_free(w->to);
    else if (engine.failed)
        return;
    else if (w->kind == WORK_copy)
        run_copy(w);
    else if (w->kind == WORK_set)
        run_set(w);
    else if (w->kind == WORK_launch)
        run_launch(&w->launch);
}

static struct work *copy_work(const struct work *w)
{
    struct work *copy = malloc(sizeof *copy);

    *copy = *w;
    copy->next = NULL;
    return copy;
}

/* Returns whether all memory that a work item accesses is allocated.  A driver checks this when the
 * work is queued. */
static bool is_valid(const struct work *w)
{
    uint64_t last = w->height ? w->height - 1 : 0;

    if (w->kind == WORK_set)
        return w->to % w->unit == 0 && memory_host_address(w->to, w->width * w->unit);
    return w->kind != WORK_copy ||
           ((w->to_host || (memory_host_address(w->to, w->width) &&
                            memory_host_address(w->to + last * w->to_pitch, w->width))) &&
            (w->from_host || (memory_host_address(w->from, w->width) &&
                              memory_host_address(w->from + last * w->from_pitch, w->width))));
}

/* Counts launches and copies between host and device, for tests that compare the counts. */
static void count_work(const struct work *w)
{
    driver.launches += w->kind == WORK_launch;
    driver.early += w->kind == WORK_launch && w->launch.early;
    driver.copies += w->kind == WORK_copy && (w->to_host || w->from_host);
}

/* Queues work, or adds it to the graph that is being captured; takes ownership of args.  A copy to
 * host memory that is not pinned has completed when the call returns. */
static int submit(struct stream *s, const struct work *w)
{
    struct capture *c = s ? s->capture : NULL;
    bool late = w->kind != WORK_copy || !w->to_host || is_pinned(w->to, w->width);

    /* the NULL stream would wait for streams that are being captured */
    if (!is_valid(w) || (!s && is_capturing())) {
        free(w->args);
        return is_valid(w) ? refuse_capture(NULL) : INVALID_VALUE;
    }
    if (c) {
        struct work *kept = copy_work(w);

        *c->graph->end = kept;
        c->graph->end = &kept->next;
        return OK;
    }
    count_work(w);
    streams_put(s, copy_work(w), late);
    return late ? OK : device_status();
}

EXPORT long simt_launches(void)
{
    return driver.launches;
}

EXPORT long simt_early(void)
{
    return driver.early;
}

EXPORT long simt_copies(void)
{
    return driver.copies;
}

EXPORT long simt_waits(void)
{
    return driver.waits;
}

/* Copies the source to a buffer now if it is pageable host memory, since the caller may
 * overwrite it. */
static void copy_source(struct work *w)
{
    char *copy;

    if (!w->from_host || is_pinned(w->from, w->width))
        return;
    copy = malloc(w->width * w->height);
    for (uint64_t r = 0; r < w->height; r++)
        memcpy(copy + r * w->width, (const char *)(uintptr_t)w->from + r * w->from_pitch, w->width);
    w->args = copy;
    w->from = (uint64_t)(uintptr_t)copy;
    w->from_pitch = w->width;
}

/* Checks a copy and queues it.  Pageable host memory is read now; while the stream is captured,
 * host memory must be pinned. */
static int submit_copy(struct stream *s, struct work w)
{
    uint64_t host = w.to_host ? w.to : w.from, pitch = w.to_host ? w.to_pitch : w.from_pitch;

    w.kind = WORK_copy;
    if (!w.width || !w.height)
        return OK;
    if (w.to_host && w.from_host)
        return INVALID_VALUE;
    if (w.to_host || w.from_host) {
        uint64_t size = (w.height - 1) * pitch + w.width;

        if (!host || memory_inside(host) || memory_inside(host + size - 1))
            return INVALID_VALUE;
        if (s && s->capture && !is_pinned(host, size))
            return refuse_capture(s->capture);
    }
    copy_source(&w);
    return submit(s, &w);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, struct stream *s)
{
    ENTER(NEEDS_context | NEEDS_no_failure);
    return leave(submit_copy(s, (struct work){ .to = to,
                                               .from = (uint64_t)(uintptr_t)from,
                                               .width = size,
                                               .height = 1,
                                               .from_host = true }));
}

/* Waits until the NULL stream has executed all its work.  e: the status so far. */
static int wait_for_copy(int e)
{
    return e ? e : cuStreamSynchronize(NULL);
}

EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    return wait_for_copy(cuMemcpyHtoDAsync_v2(to, from, bytes, NULL));
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, struct stream *s)
{
    ENTER(NEEDS_context | NEEDS_no_failure);
    return leave(submit_copy(s, (struct work){ .to = (uint64_t)(uintptr_t)to,
                                               .from = from,
                                               .width = size,
                                               .height = 1,
                                               .to_host = true }));
}

EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    return wait_for_copy(cuMemcpyDtoHAsync_v2(to, from, bytes, NULL));
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, struct stream *s)
{
    ENTER(NEEDS_context | NEEDS_no_failure);
    return leave(
        submit_copy(s, (struct work){ .to = to, .from = from, .width = size, .height = 1 }));
}

/* CUDA_MEMCPY2D of CUDA's driver */
struct copy2d {
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    uint64_t from_device;
    void *from_array;
    size_t from_pitch, to_x, to_y;
    unsigned to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array;
    size_t to_pitch, width, height;
};

/* Queues a copy of c->height rows of c->width bytes between host and device.  Types: 1 host, 2
 * device.  A pitch of 0 is the width. */
EXPORT int cuMemcpy2DAsync_v2(const struct copy2d *c, struct stream *s)
{
    struct work w;

    ENTER(NEEDS_context | NEEDS_no_failure);
    if (c->from_type < 1 || c->from_type > 2 || c->to_type < 1 || c->to_type > 2)
        return leave(INVALID_VALUE);
    if (c->height > 1 && ((c->from_pitch && c->from_pitch < c->width + c->from_x) ||
                          (c->to_pitch && c->to_pitch < c->width + c->to_x)))
        return leave(INVALID_VALUE);
    w = (struct work){ .to_host = c->to_type == 1,
                       .from_host = c->from_type == 1,
                       .width = c->width,
                       .height = c->height,
                       .to_pitch = c->to_pitch ? c->to_pitch : c->width,
                       .from_pitch = c->from_pitch ? c->from_pitch : c->width };
    w.to = (w.to_host ? (uint64_t)(uintptr_t)c->to_host : c->to_device) + c->to_y * w.to_pitch +
           c->to_x;
    w.from = (w.from_host ? (uint64_t)(uintptr_t)c->from_host : c->from_device) +
             c->from_y * w.from_pitch + c->from_x;
    return leave(submit_copy(s, w));
}

/* Queues filling memory with `count` copies of a value of `unit` bytes. */
static int submit_set(uint64_t to, uint32_t value, uint32_t unit, size_t count, struct stream *s)
{
    struct work w = { .kind = WORK_set, .to = to, .value = value, .unit = unit, .width = count };

    ENTER(NEEDS_context | NEEDS_no_failure);
    return leave(count ? submit(s, &w) : OK);
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, struct stream *s)
{
    return submit_set(to, value, 1, count, s);
}

EXPORT int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, struct stream *s)
{
    return submit_set(to, value, 4, count, s);
}

/* ---- streams and events ---------------------------------------------------------------------- */

EXPORT int cuStreamCreate(struct stream **s, unsigned flags)
{
    ENTER(NEEDS_context | NEEDS_no_failure);
    *s = calloc(1, sizeof **s);
    (*s)->apart = flags & 1;
    streams_add(*s);
    return leave(OK);
}

EXPORT int cuStreamDestroy_v2(struct stream *s)
{
    ENTER(0);
    for (struct stream *o = streams_first(); o; o = o->next)
        if (o == s) {
            streams_finish(s);
            streams_remove(s);
            free(s);
            return leave(OK);
        }
    return leave(INVALID_HANDLE);
}

EXPORT int cuStreamSynchronize(struct stream *s)
{
    ENTER(NEEDS_context | NEEDS_no_failure);
    if (s ? s->capture != NULL : is_capturing())
        return leave(refuse_capture(s ? s->capture : NULL));
    driver.waits++;
    streams_finish(s);
    trim_all();
    return leave(device_status());
}

EXPORT int cuEventCreate(struct event **e, unsigned flags)
{
    (void)flags;
    ENTER(NEEDS_context | NEEDS_no_failure);
    *e = calloc(1, sizeof **e);
    return leave(OK);
}

EXPORT int cuEventDestroy_v2(struct event *e)
{
    free(e);
    return e ? OK : INVALID_HANDLE;
}

/* Records the event: it is complete when the stream's work so far is. */
EXPORT int cuEventRecord(struct event *e, struct stream *s)
{
    struct timespec t;

    ENTER(NEEDS_context | NEEDS_no_failure);
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->time = (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
    e->recorded = true;
    e->capture = s ? s->capture : NULL;
    e->stream = s;
    e->number = streams_last(s);
    return leave(OK);
}

/* False if the capture has ended, so that c is a dangling pointer. */
static bool is_live(const struct capture *c)
{
    for (const struct capture *o = driver.captures; o; o = o->next)
        if (o == c)
            return true;
    return false;
}

EXPORT int cuEventSynchronize(struct event *e)
{
    ENTER(NEEDS_no_failure);
    if (e->capture && is_live(e->capture)) {
        refuse_capture(e->capture);
        return leave(CAPTURED_EVENT);
    }
    if (e->recorded)
        streams_finish_until(e->stream, e->number);
    return leave(device_status());
}

/* Makes a stream wait for an event.  If the event is of a captured stream, the stream joins that
 * capture. */
EXPORT int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags)
{
    (void)flags;
    ENTER(NEEDS_context | NEEDS_no_failure);
    if (e->capture && is_live(e->capture) && s)
        s->capture = e->capture;
    else if (e->recorded)
        return leave(submit(
            s, &(struct work){ .kind = WORK_wait, .awaited = e->stream, .until = e->number }));
    return leave(OK);
}

EXPORT int cuEventElapsedTime(float *ms, const struct event *from, const struct event *to)
{
    if (!from || !to || !from->recorded || !to->recorded)
        return INVALID_HANDLE;
    if (!streams_are_done(to->stream, to->number) || !streams_are_done(from->stream, from->number))
        return NOT_READY;
    *ms = (float)(to->time - from->time);
    return engine.failed ? LAUNCH_FAILED : OK;
}

EXPORT int cuEventElapsedTime_v2(float *ms, const struct event *from, const struct event *to)
{
    return cuEventElapsedTime(ms, from, to);
}

/* ---- streams captured into graphs ------------------------------------------------------------ */

EXPORT int cuStreamIsCapturing(struct stream *s, int *status)
{
    ENTER(0);
    *status = s && s->capture ? s->capture->invalid ? 2 : 1 : 0;
    return leave(OK);
}

/* Begins to capture a stream: from now on its work is added to a new graph.  The mode tells for
 * which threads unsafe calls are forbidden. */
EXPORT int cuStreamBeginCapture_v2(struct stream *s, int mode)
{
    struct capture *c;

    ENTER(NEEDS_context | NEEDS_no_failure);
    if (!s)
        return leave(CAPTURE_UNSUPPORTED);
    if (s->capture || mode < 0 || mode >= MODES)
        return leave(INVALID_VALUE);
    c = calloc(1, sizeof *c);
    c->graph = calloc(1, sizeof *c->graph);
    c->graph->end = &c->graph->first;
    c->mode = mode;
    c->thread = pthread_self();
    c->next = driver.captures;
    driver.captures = s->capture = c;
    return leave(OK);
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = thread_mode;

    if (!driver.started)
        return NOT_INITIALIZED;
    if (!mode || *mode < 0 || *mode >= MODES)
        return INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return OK;
}

/* Ends a stream's capture and stores its graph in *graph, or NULL if a forbidden call has
 * invalidated it. */
EXPORT int cuStreamEndCapture(struct stream *s, struct graph **graph)
{
    struct capture *c, **p;
    bool invalid;

    ENTER(NEEDS_context);
    c = s ? s->capture : NULL;
    if (!c)
        return leave(INVALID_VALUE);
    for (struct stream *o = streams_first(); o; o = o->next)
        if (o->capture == c)
            o->capture = NULL;
    for (p = &driver.captures; *p != c; p = &(*p)->next)
        ;
    *p = c->next;
    invalid = c->invalid;
    *graph = invalid ? NULL : c->graph;
    if (invalid)
        drop_graph(c->graph);
    free(c);
    return leave(invalid ? CAPTURE_INVALIDATED : OK);
}

/* Returns a copy of a work item and of its launch arguments.  Copies of memory in a graph have no
 * such buffer, since they access pinned memory only. */
static struct work *clone_work(const struct work *w)
{
    struct work *new = copy_work(w);

    if (w->args) {
        new->args = aligned_alloc(64, (w->launch.args_size + 63) / 64 * 64);
        memcpy(new->args, w->args, w->launch.args_size);
        new->launch.args = new->args;
    }
    return new;
}

/* Makes an executable graph: a copy of the graph's list of work. */
EXPORT int cuGraphInstantiateWithFlags(struct graph **exec, const struct graph *g,
                                       unsigned long long flags)
{
    struct graph *copy;

    (void)flags;
    ENTER(NEEDS_context | NEEDS_no_failure);
    copy = calloc(1, sizeof *copy);
    copy->end = &copy->first;
    for (const struct work *w = g->first; w; w = w->next) {
        *copy->end = clone_work(w);
        copy->end = &(*copy->end)->next;
    }
    *exec = copy;
    return leave(OK);
}

EXPORT int cuGraphLaunch(struct graph *exec, struct stream *s)
{
    ENTER(NEEDS_context | NEEDS_no_failure);
    if (s && s->capture)
        return leave(refuse_capture(s->capture));
    for (const struct work *w = exec->first; w; w = w->next) {
        count_work(w);
        streams_put(s, clone_work(w), true);
    }
    return leave(OK);
}

EXPORT int cuGraphExecDestroy(struct graph *exec)
{
    drop_graph(exec);
    return OK;
}

EXPORT int cuGraphDestroy(struct graph *graph)
{
    drop_graph(graph);
    return OK;
}

/* ---- modules, and launches of their functions ------------------------------------------------ */

/* Writes an image's library to a temporary file and loads it.  Returns NULL if this fails. */
static void *open_image(const struct image *image)
{
    /* a unique name each, because dlopen identifies libraries by name */
    char path[] = "/tmp/simt-image-XXXXXX";
    int fd = mkstemp(path);
    const char *bytes = (const char *)(image + 1);
    void *library = NULL;
    size_t done = 0;

    if (fd < 0)
        return NULL;
    while (done < image->size) {
        ssize_t n = write(fd, bytes + done, image->size - done);

        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (done == image->size)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library && getenv("SIMT_VERBOSE"))
        fprintf(stderr, "simt: %s\n", dlerror());
    close(fd);
    unlink(path);
    return library;
}

/* Loads a compiled image as a module.  Fails if it was not made by the simulated NVRTC for this
 * version, or not for this device's architecture. */
EXPORT int cuModuleLoadData(struct module **module, const void *image)
{
    const struct image *head = image;
    const int *version, *arch, *alone;
    void (*connect)(const struct simt_api *), *library;

    ENTER(NEEDS_all);
    if (head->magic != SIMT_IMAGE || head->toolkit > (uint32_t)driver.version / 1000 ||
        !(library = open_image(head)))
        return leave(INVALID_IMAGE);
    version = dlsym(library, "simt_version");
    arch = dlsym(library, "simt_arch");
    alone = dlsym(library, "simt_alone");
    *(void **)&connect = dlsym(library, "simt_connect");
    if (!version || !arch || !alone || !connect || *version != SIMT_VERSION) {
        dlclose(library);
        return leave(INVALID_IMAGE);
    }
    if (*arch / 100 != driver.capability / 10 || *arch / 10 > driver.capability ||
        (*alone && *arch / 10 != driver.capability)) {
        dlclose(library);
        return leave(NO_BINARY);
    }
    connect(&simt_table);
    *module = calloc(1, sizeof **module);
    (*module)->library = library;
    return leave(OK);
}

EXPORT int cuModuleLoadDataEx(struct module **module, const void *image, unsigned count,
                              int *options, void **values)
{
    (void)count;
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

/* Unloads a module, once all streams have completed their work, and frees its functions. */
EXPORT int cuModuleUnload(struct module *m)
{
    ENTER(NEEDS_safety);
    streams_finish_all();
    for (struct function **p = &driver.functions; *p;) {
        struct function *f = *p;

        if (f->module == m) {
            *p = f->next;
            free(f->name);
            free(f);
        } else {
            p = &f->next;
        }
    }
    ptx_forget(); /* forget the module's parsed assembly */
    dlclose(m->library);
    free(m);
    return leave(OK);
}

/* Returns the address of a number that the compiled kernel exports, such as the size of its
 * arguments. */
static const uint32_t *number_of(struct module *m, const char *name, const char *what)
{
    char symbol[512];

    snprintf(symbol, sizeof symbol, "%s_%s", name, what);
    return dlsym(m->library, symbol);
}

/* Finds a kernel of a module: its entry point and two numbers beside it, bytes of arguments and
 * largest number of threads. */
EXPORT int cuModuleGetFunction(struct function **function, struct module *m, const char *name)
{
    const uint32_t *args = number_of(m, name, "args"), *threads = number_of(m, name, "threads");
    void *entry = dlsym(m->library, name);
    struct function *f;

    if (!entry || !args || !threads)
        return NOT_FOUND;
    ENTER(0);
    f = calloc(1, sizeof *f);
    *f = (struct function){ driver.functions, m, strdup(name), NULL, *args, *threads, 0, false };
    *(void **)&f->entry = entry;
    driver.functions = *function = f;
    return leave(OK);
}

EXPORT int cuFuncLoad(struct function *f)
{
    if (!f)
        return INVALID_HANDLE;
    ENTER(NEEDS_safety);
    f->loaded = true;
    return leave(OK);
}

EXPORT int cuFuncSetAttribute(struct function *f, int attribute, int value)
{
    if (!f)
        return INVALID_HANDLE;
    if (attribute == 8) {
        if (value < 0 || value > shared_optin())
            return INVALID_VALUE;
        f->dynamic = value;
    }
    return OK;
}

/* Stores an attribute of a kernel in *v, by its number in cuda.h: 0 threads of a block, 4
 * registers, 5 and 6 capability, 8 dynamic shared memory.  Other attributes are 0. */
EXPORT int cuFuncGetAttribute(int *v, int attribute, const struct function *f)
{
    if (!f)
        return INVALID_HANDLE;
    switch (attribute) {
    case 0: *v = (int)f->threads; break;
    case 4: *v = 64; break;
    case 5:
    case 6: *v = driver.capability; break;
    case 8: *v = f->dynamic ? f->dynamic : 48 * 1024; break;
    default: *v = 0;
    }
    return OK;
}

/* Stores how many blocks fit a multiprocessor: at most 32, and as many as its threads and its
 * shared memory allow (the system uses 1 KiB of shared memory for each block). */
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const struct function *f,
                                                       int threads, size_t shared)
{
    int by_threads, by_shared;

    if (!f || threads < 1)
        return INVALID_VALUE;
    by_threads = threads_of_multiprocessor() / ((threads + 31) / 32 * 32);
    by_shared = (int)((size_t)shared_of_multiprocessor() / (shared + 1024));
    *blocks = by_threads < by_shared ? by_threads : by_shared;
    *blocks = *blocks < 32 ? *blocks : 32;
    if (threads > (int)f->threads || shared > (size_t)shared_optin())
        *blocks = 0;
    return OK;
}

/* Returns whether the comma-separated list in SIMT_SKIP has this kernel. */
static bool is_skipped(const char *name)
{
    const char *list = getenv("SIMT_SKIP"), *at = list;
    size_t length = strlen(name);

    while (at && (at = strstr(at, name)) &&
           ((at > list && at[-1] != ',') || (at[length] && at[length] != ',')))
        at += length;
    return at != NULL;
}

/* Checks a launch's configuration as a driver does, and queues the launch. */
static int queue_launch(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, struct stream *s, void **args,
                        void **extra, unsigned cluster, bool early)
{
    struct work w = { .kind = WORK_launch };
    int e;

    ENTER(NEEDS_context | NEEDS_no_failure);
    if (!f)
        return leave(INVALID_HANDLE);
    if (!gx || gx > 0x7fffffff || gy != 1 || gz != 1 || !bx || by != 1 || bz != 1 || extra ||
        bx > f->threads || (f->args && (!args || !args[0])))
        return leave(INVALID_VALUE);
    if (!f->loaded) {
        if (s ? s->capture != NULL : is_capturing())
            return leave(refuse_capture(s ? s->capture : NULL));
        f->loaded = true;
    }
    if (shared > (unsigned)shared_optin() ||
        shared > (unsigned)(f->dynamic > 48 * 1024 ? f->dynamic : 48 * 1024))
        return leave(INVALID_VALUE);
    if (is_skipped(f->name))
        return leave(OK);
    w.args = aligned_alloc(64, (f->args + 64) / 64 * 64);
    memcpy(w.args, args[0], f->args);
    w.launch = (struct launch){ f->name, f->entry, w.args,       f->args, current[depth]->device,
                                (int)gx, (int)bx,  (int)cluster, shared,  early };
    e = submit(s, &w);
    if (!e && setting("CUDA_LAUNCH_BLOCKING", 0) && !(s ? s->capture != NULL : is_capturing())) {
        streams_finish(s);
        e = device_status();
    }
    return leave(e);
}

EXPORT int cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, struct stream *s, void **args,
                          void **extra)
{
    return queue_launch(f, gx, gy, gz, bx, by, bz, shared, s, args, extra, 1, false);
}

/* CUlaunchConfig of CUDA's driver, and the attributes that this mock supports. */
enum { ATTRIBUTE_CLUSTER = 4, ATTRIBUTE_EARLY = 6 };
/* CUlaunchAttribute. */
struct launch_attribute {
    int id, unused;
    unsigned value[16];
};
/* CUlaunchConfig. */
struct launch_config {
    unsigned grid[3], block[3], shared;
    struct stream *stream;
    const struct launch_attribute *attribute;
    unsigned attributes;
};

/* Returns the number of blocks in a cluster, 0 if the configuration is invalid.  *early: the launch
 * may begin before the previous one has ended. */
static unsigned cluster_of(const struct launch_config *c, bool *early)
{
    unsigned n = 1;

    *early = false;
    for (unsigned i = 0; i < c->attributes; i++) {
        const struct launch_attribute *a = &c->attribute[i];

        if (a->id == ATTRIBUTE_CLUSTER && a->value[1] == 1 && a->value[2] == 1)
            n = a->value[0];
        else if (a->id == ATTRIBUTE_EARLY && a->value[0] <= 1)
            *early = a->value[0] == 1;
        else
            return 0;
    }
    return n && n <= MAX_CLUSTER && (n == 1 || driver.capability >= 90) && c->grid[0] % n == 0 &&
                   (!*early || driver.capability >= 90) ?
               n :
               0;
}

/* Refuses to capture an early launch before CUDA 12.3, whose graphs do not support it. */
static int refuse_early(struct stream *s)
{
    ENTER(0);
    return leave(s && s->capture && driver.version < 12030 ? refuse_capture(s->capture) : OK);
}

EXPORT int cuLaunchKernelEx(const struct launch_config *c, struct function *f, void **args,
                            void **extra)
{
    bool early;
    unsigned cluster = cluster_of(c, &early);
    int e = early ? refuse_early(c->stream) : OK;

    if (!cluster || e)
        return e ? e : INVALID_VALUE;
    return queue_launch(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                        c->block[2], c->shared, c->stream, args, extra, cluster, early);
}

/* Stores how many clusters of the launch fit the device at once. */
EXPORT int cuOccupancyMaxActiveClusters(int *clusters, const struct function *f,
                                        const struct launch_config *c)
{
    bool early;
    unsigned cluster = cluster_of(c, &early);
    int blocks, e;

    if (!cluster)
        return INVALID_VALUE;
    e = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, (int)c->block[0], c->shared);
    *clusters = e ? 0 : driver.multiprocessors / (int)cluster * blocks;
    return e;
}

/* ---- tensor maps ----------------------------------------------------------------------------- */

/* Encodes a tensor map: checks type, sizes, strides, box and swizzle as a driver does, and stores
 * them in the 128 bytes at `out`. */
EXPORT int cuTensorMapEncodeTiled(void *out, int type, unsigned rank, void *base,
                                  const uint64_t *size, const uint64_t *stride, const uint32_t *box,
                                  const uint32_t *step, int interleave, int swizzle, int promotion,
                                  int fill)
{
    static const uint8_t bytes[] = { 1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4 };
    static const uint32_t widest[] = { 256 * 8, 32, 64, 128 };
    struct map m = { .magic = SIMT_MAP,
                     .base = (uint64_t)(uintptr_t)base,
                     .rank = (uint8_t)rank,
                     .swizzle = (uint8_t)swizzle,
                     .fill = (uint8_t)fill };

    if (driver.capability < 90)
        return 801; /* CUDA_ERROR_NOT_SUPPORTED */
    if (!out || (uintptr_t)out % 64 || type < 0 || type > 12 || rank < 1 || rank > 3 ||
        (uintptr_t)base % 16 || !memory_inside(m.base) || interleave != 0 || swizzle < 0 ||
        swizzle > 3 || promotion < 0 || promotion > 3 || fill < 0 || fill > 1)
        return INVALID_VALUE;
    m.element = bytes[type];
    for (unsigned i = 0; i < rank; i++) {
        m.size[i] = size[i];
        m.box[i] = box[i];
        if (!size[i] || size[i] > UINT64_C(1) << 32 || !box[i] || box[i] > 256 || step[i] != 1)
            return INVALID_VALUE;
        if (i + 1 < rank) {
            m.stride[i] = stride[i];
            if (stride[i] % 16 || stride[i] >= UINT64_C(1) << 40 ||
                stride[i] < (i ? 0 : size[0] * m.element))
                return INVALID_VALUE;
        }
    }
    if (box[0] * m.element % 16 || box[0] * m.element > widest[swizzle])
        return INVALID_VALUE;
    memset(out, 0, 128);
    memcpy(out, &m, sizeof m);
    return OK;
}

/* ---- names of errors ------------------------------------------------------------------------- */

/* The statuses with their names and texts. */
static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    { OK, "CUDA_SUCCESS", "no error" },
    { INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
    { INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available on the device" },
    { INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
    { NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
    { UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
    { 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
    { CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
      "operation not permitted when stream is capturing" },
    { CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
      "operation failed due to a previous error during capture" },
    { CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
      "operation not permitted on an event last recorded in a capturing stream" },
};

EXPORT int cuGetErrorName(int code, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *name = errors[i].name;
            return OK;
        }
    *name = NULL;
    return INVALID_VALUE;
}

EXPORT int cuGetErrorString(int code, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *text = code == LAUNCH_FAILED && engine.failed ? engine.error : errors[i].text;
            return OK;
        }
    *text = NULL;
    return INVALID_VALUE;
}
