/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Opens the CUDA driver, or the library that LIMBER_CUDA names in its place, and finds its
 * functions.  Returns false if there is no driver or no device. */
bool driver_open(struct driver *d)
{
    const char *name = getenv("LIMBER_CUDA");
    void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW);

    if (!library)
        return false;
#define GET(name, args) *(void **)&d->name = dlsym(library, #name);
    DRIVER_FUNCTIONS(GET)
    GET(simt_error, )
    GET(simt_reset, )
    GET(simt_launches, )
    GET(simt_early, )
    GET(simt_copies, )
    GET(simt_waits, )
    GET(simt_maps, )
#undef GET
    return d->cuInit(0) == 0;
}
