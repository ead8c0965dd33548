/* SPDX-License-Identifier: BSD-3-Clause
 * The few functions of the CUDA driver that a call needs, looked up at run time. */
#include "cublas.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Constants of CUpointer_attribute, CUmemorytype and CUstreamCaptureStatus. */
enum { ATTRIBUTE_MEMORY_TYPE = 2, MEMORY_HOST = 1, CAPTURE_NONE = 0 };

/* The functions of libcuda. */
static struct {
    int (*cuCtxGetDevice)(int *device);
    int (*cuPointerGetAttribute)(void *data, int attribute, uintptr_t p);
    int (*cuMemcpyDtoHAsync_v2)(void *to, uintptr_t from, size_t bytes, void *stream);
    int (*cuStreamSynchronize)(void *stream);
    int (*cuStreamIsCapturing)(void *stream, int *status);
} driver;
static bool has_driver;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* Looks up the functions of `driver` in libcuda, or in the library that LIMBER_CUDA names.
 * has_driver: all are there. */
static void open_driver(void)
{
    static const char *const name[] = { "cuCtxGetDevice", "cuPointerGetAttribute",
                                        "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize",
                                        "cuStreamIsCapturing" };
    const char *wish = limber_variable_value("LIMBER_CUDA");
    void *library = dlopen(wish ? wish : "libcuda.so.1", RTLD_LAZY);
    void **slot = (void **)&driver;

    for (size_t i = 0; i < sizeof name / sizeof *name && library; i++)
        if (!(slot[i] = dlsym(library, name[i])))
            return;
    has_driver = library != NULL;
}

/* Returns whether there is a CUDA driver; opens it in the first call. */
static bool is_ready(void)
{
    pthread_once(&opened, open_driver);
    return has_driver;
}

/* Number of the current CUDA device; 0 without a driver. */
int limber_cublas_device(void)
{
    int device;

    return is_ready() && driver.cuCtxGetDevice(&device) == 0 ? device : 0;
}

/* The driver refuses addresses that it does not know, which are addresses of host memory. */
bool limber_cublas_is_device(const void *p)
{
    unsigned type = 0;

    return is_ready() && p &&
           driver.cuPointerGetAttribute(&type, ATTRIBUTE_MEMORY_TYPE, (uintptr_t)p) == 0 &&
           type != 0 && type != MEMORY_HOST;
}

/* Returns whether the stream is being captured; true if the driver cannot tell, since a copy would
 * invalidate a capture. */
bool limber_cublas_is_capturing(void *stream)
{
    int status = CAPTURE_NONE;

    return is_ready() &&
           (driver.cuStreamIsCapturing(stream, &status) != 0 || status != CAPTURE_NONE);
}

/* Copies from host or device memory to the host, after the stream's earlier work. */
bool limber_cublas_fetch(void *to, const void *from, size_t bytes, void *stream)
{
    if (!limber_cublas_is_device(from)) {
        if (is_ready() && driver.cuStreamSynchronize(stream) != 0)
            return false;
        memcpy(to, from, bytes);
        return true;
    }
    return driver.cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, stream) == 0 &&
           driver.cuStreamSynchronize(stream) == 0;
}
