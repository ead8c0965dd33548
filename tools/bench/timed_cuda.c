/* SPDX-License-Identifier: BSD-3-Clause
 * A library that is loaded in place of the CUDA driver, and times kernels by events.  It is linked
 * to libcuda.so.1, so that functions which it does not define are the driver's.  Launches before
 * timed_cuda_begin and after timed_cuda_end are passed on unchanged.  Only one thread may launch at
 * a time. */
#define _GNU_SOURCE
#include "tools/bench/timed_cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MOST_FUNCTIONS = 4096, MOST_LAUNCHES = 1024 };
enum { NOT_FOUND = 500 };

typedef int launch_fn(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void *, void **, void **);

struct launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared;
    void *stream, *attribute;
    unsigned attributes;
};

/* The functions of libcuda. */
static struct {
    int (*get_function)(void **, void *, const char *);
    launch_fn *launch;
    int (*launch_ex)(const struct launch_config *, void *, void **, void **);
    int (*create)(void **, unsigned);
    int (*destroy)(void *);
    int (*record)(void *, void *);
    int (*wait)(void *);
    int (*elapsed)(float *, void *, void *);
} cu;

/* A ring buffer of functions and their names.  An entry is overwritten after MOST_FUNCTIONS further
 * ones. */
static struct {
    void *function;
    char name[48];
} functions[MOST_FUNCTIONS];
static unsigned function_count;

static struct {
    void *function, *from, *to;
} launches[MOST_LAUNCHES];
static int launch_count;
/* is_on: launches are timed now.  is_broken: timing has failed. */
static bool is_on, is_broken;

/* Finds the functions of the CUDA driver that the program has loaded.  Returns false if it has
 * loaded none. */
static bool find_driver(void)
{
    void *driver;

    if (cu.elapsed)
        return true;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver)
        return false;
    *(void **)&cu.get_function = dlsym(driver, "cuModuleGetFunction");
    *(void **)&cu.launch = dlsym(driver, "cuLaunchKernel");
    *(void **)&cu.launch_ex = dlsym(driver, "cuLaunchKernelEx");
    *(void **)&cu.create = dlsym(driver, "cuEventCreate");
    *(void **)&cu.destroy = dlsym(driver, "cuEventDestroy_v2");
    *(void **)&cu.record = dlsym(driver, "cuEventRecord");
    *(void **)&cu.wait = dlsym(driver, "cuEventSynchronize");
    *(void **)&cu.elapsed = dlsym(driver, "cuEventElapsedTime");
    return cu.elapsed != NULL;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
    int code = find_driver() ? cu.get_function(function, module, name) : NOT_FOUND;
    unsigned at = function_count % MOST_FUNCTIONS;

    if (code)
        return code;
    functions[at].function = *function;
    strncpy(functions[at].name, name, sizeof functions[at].name - 1);
    function_count++;
    return 0;
}

/* Returns the name of a function.  The latest entry counts, since the driver may reuse an
 * address. */
static const char *name_of(const void *function)
{
    for (unsigned i = 1; i <= MOST_FUNCTIONS && i <= function_count; i++)
        if (functions[(function_count - i) % MOST_FUNCTIONS].function == function)
            return functions[(function_count - i) % MOST_FUNCTIONS].name;
    return "?";
}

/* Notes a launch, and records an event before it. */
static void record_start(void *function, void *stream)
{
    if (!is_on || is_broken)
        return;
    if (launch_count == MOST_LAUNCHES) {
        is_broken = true;
        return;
    }
    launches[launch_count].function = function;
    launches[launch_count].from = launches[launch_count].to = NULL;
    is_broken = cu.create(&launches[launch_count].from, 0) ||
                cu.create(&launches[launch_count].to, 0) ||
                cu.record(launches[launch_count].from, stream);
    launch_count++;
}

/* Records an event after a launch. */
static void record_end(void *stream)
{
    if (is_on && !is_broken)
        is_broken = cu.record(launches[launch_count - 1].to, stream) != 0;
}

/* Replaces the driver's function: launches the kernel between two events that time it. */
EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                          void *stream, void **arguments, void **extra)
{
    int code;

    if (!find_driver())
        return NOT_FOUND;
    record_start(function, stream);
    code = cu.launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                     arguments, extra);
    record_end(stream);
    return code;
}

EXPORT int cuLaunchKernelEx(const struct launch_config *config, void *function, void **arguments,
                            void **extra)
{
    int code;

    if (!find_driver() || !cu.launch_ex)
        return NOT_FOUND;
    record_start(function, config->stream);
    code = cu.launch_ex(config, function, arguments, extra);
    record_end(config->stream);
    return code;
}

EXPORT void timed_cuda_begin(void)
{
    launch_count = 0;
    is_broken = !find_driver();
    is_on = true;
}

/* Entry of a kernel's name in the list, which is added if there is room; NULL if there is none. */
static struct timed_kernel *entry_of(struct timed_kernel *list, int *count, int room,
                                     const char *name)
{
    for (int i = 0; i < *count; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    if (*count == room)
        return NULL;
    list[*count] = (struct timed_kernel){ .launches = 0 };
    strncpy(list[*count].name, name, sizeof list->name - 1);
    return &list[(*count)++];
}

/* Waits for the events around all launches, and sums times by the name of the kernel.  Returns the
 * number of kernels in the list; -1 if events failed. */
EXPORT int timed_cuda_end(struct timed_kernel *list, int room)
{
    int count = 0;

    is_on = false;
    for (int i = 0; i < launch_count; i++) {
        struct timed_kernel *k = entry_of(list, &count, room, name_of(launches[i].function));
        float ms = 0;

        if (is_broken || cu.wait(launches[i].to) ||
            cu.elapsed(&ms, launches[i].from, launches[i].to))
            is_broken = true;
        if (k) {
            k->launches++;
            k->seconds += 1e-3 * (double)ms;
        }
        if (launches[i].from)
            cu.destroy(launches[i].from);
        if (launches[i].to)
            cu.destroy(launches[i].to);
    }
    launch_count = 0;
    return is_broken ? -1 : count;
}
