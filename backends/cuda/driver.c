/* SPDX-License-Identifier: BSD-3-Clause
 * Opens the CUDA driver once per process. */
#include "backends/cuda/driver.h"
#include "backends/settings.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_driver driver;
static bool opened;

/* Looks up the driver's functions.  Returns false with an error if one is missing that every
 * supported driver has. */
static bool resolve_functions(void *handle, struct diag *d)
{
#define GET(name, arguments) \
    *(void **)&driver.name = dlsym(handle, #name); \
    if (!driver.name) \
        return limber_fail(d, LIMBER_STATUS_DEVICE, \
                           "the CUDA driver has no " #name ": it is too old");
    LIMBER_CUDA_DRIVER(GET)
#undef GET
    *(void **)&driver.cuFuncLoad = dlsym(handle, "cuFuncLoad");
    *(void **)&driver.cuLaunchKernelEx = dlsym(handle, "cuLaunchKernelEx");
    *(void **)&driver.cuOccupancyMaxActiveClusters = dlsym(handle, "cuOccupancyMaxActiveClusters");
    *(void **)&driver.cuTensorMapEncodeTiled = dlsym(handle, "cuTensorMapEncodeTiled");
    return true;
}

/* Initialises the driver and checks that there is a device.  Returns false with an error. */
static bool init_driver(struct diag *d)
{
    int count = 0, result = driver.cuInit(0);

    if (result)
        return limber_cuda_ok(&driver, result, "starting the CUDA driver", d);
    return limber_cuda_ok(&driver, driver.cuDriverGetVersion(&driver.version),
                          "asking the CUDA driver for its version", d) &&
           limber_cuda_ok(&driver, driver.cuDeviceGetCount(&count), "counting CUDA devices", d) &&
           (count > 0 || limber_fail(d, LIMBER_STATUS_DEVICE, "the CUDA driver finds no device"));
}

/* Opens the driver's library: the one that LIMBER_CUDA names, or libcuda.so.1.  Returns false with
 * an error. */
static bool open_driver(struct diag *d)
{
    const char *name = limber_setting("LIMBER_CUDA");
    void *handle;

    if (!name)
        name = "libcuda.so.1";
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "no CUDA driver: %s", dlerror());
    if (resolve_functions(handle, d) && init_driver(d))
        return true;
    dlclose(handle);
    return false;
}

/* Opens the driver at first use and keeps it open. */
const struct cuda_driver *limber_cuda(struct diag *d)
{
    pthread_mutex_lock(&lock);
    if (!opened)
        opened = open_driver(d);
    pthread_mutex_unlock(&lock);
    return opened ? &driver : NULL;
}

/* Returns true if `result` is success, else stores the driver's name for the error in *d. */
bool limber_cuda_ok(const struct cuda_driver *c, int result, const char *what, struct diag *d)
{
    const char *name = NULL, *text = NULL;

    if (result == 0)
        return true;
    c->cuGetErrorName(result, &name);
    c->cuGetErrorString(result, &text);
    return limber_fail(
        d, result == CU_OUT_OF_MEMORY ? LIMBER_STATUS_NO_MEMORY : LIMBER_STATUS_DEVICE,
        "%s: %s (%s)%s", what, name ? name : "unknown error", text ? text : "",
        result == CU_UNSUPPORTED_PTX || result == CU_NO_BINARY || result == CU_INVALID_IMAGE ?
            "; is the driver older than NVRTC?  LIMBER_NVRTC names another" :
            "");
}

/* Lets this thread load code and allocate memory while another thread captures a stream.  Returns
 * the mode to restore. */
int limber_cuda_relax(const struct cuda_driver *c)
{
    enum { GLOBAL = 0, RELAXED = 2 };
    int mode = RELAXED;

    return c->cuThreadExchangeStreamCaptureMode(&mode) == 0 ? mode : GLOBAL;
}

/* Restores the capture mode that limber_cuda_relax returned. */
void limber_cuda_restore(const struct cuda_driver *c, int mode)
{
    c->cuThreadExchangeStreamCaptureMode(&mode);
}
