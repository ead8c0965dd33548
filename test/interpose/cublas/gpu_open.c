/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include <dlfcn.h>
#include <stdlib.h>

bool gpu_open(struct gpu *g)
{
    const char *name = getenv("LIMBER_CUDA");
    void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW);

    if (!library)
        return false;
#define GET(f) *(void **)&g->f = dlsym(library, #f)
    GET(cuInit);
    GET(cuDevicePrimaryCtxRetain);
    GET(cuCtxSetCurrent);
    GET(cuMemAlloc_v2);
    GET(cuMemFree_v2);
    GET(cuMemcpyHtoDAsync_v2);
    GET(cuMemcpyDtoHAsync_v2);
    GET(cuMemsetD32Async);
    GET(cuStreamCreate);
    GET(cuStreamDestroy_v2);
    GET(cuStreamSynchronize);
    GET(cuStreamIsCapturing);
    GET(cuStreamBeginCapture_v2);
    GET(cuStreamEndCapture);
    GET(cuGraphInstantiateWithFlags);
    GET(cuGraphLaunch);
    GET(cuGraphExecDestroy);
    GET(cuGraphDestroy);
    GET(simt_error);
#undef GET
    return g->cuInit(0) == 0;
}
