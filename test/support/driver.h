/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of libcuda and NVRTC that tests call, and additional functions of the stand-in for
 * libcuda (test/cuda/simt). */
#ifndef LIMBER_TEST_DRIVER_H
#define LIMBER_TEST_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUlaunchAttribute and CUlaunchConfig of libcuda */
struct launch_attribute {
    int id, unused;
    unsigned value[16];
};
/* CUlaunchConfig. */
struct launch_config {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct launch_attribute *attribute;
    unsigned attributes;
};

/* clang-format off */
/* functions of NVRTC */
#define NVRTC_FUNCTIONS(F) \
    F(nvrtcCreateProgram, (void **, const char *, const char *, int, const char *const *, \
                           const char *const *)) \
    F(nvrtcCompileProgram, (void *, int, const char *const *)) F(nvrtcDestroyProgram, (void **)) \
    F(nvrtcGetProgramLogSize, (void *, size_t *)) F(nvrtcGetProgramLog, (void *, char *)) \
    F(nvrtcGetCUBINSize, (void *, size_t *)) F(nvrtcGetCUBIN, (void *, char *))
/* functions of libcuda */
#define DRIVER_FUNCTIONS(F) \
    F(cuInit, (unsigned)) F(cuDriverGetVersion, (int *)) \
    F(cuDeviceGetAttribute, (int *, int, int)) \
    F(cuDevicePrimaryCtxRetain, (void **, int)) F(cuCtxSetCurrent, (void *)) \
    F(cuCtxSynchronize, (void)) F(cuMemAlloc_v2, (uint64_t *, size_t)) F(cuMemFree_v2, (uint64_t)) \
    F(cuMemPoolCreate, (void **, const void *)) F(cuMemPoolDestroy, (void *)) \
    F(cuMemPoolSetAttribute, (void *, int, void *)) \
    F(cuMemAllocFromPoolAsync, (uint64_t *, size_t, void *, void *)) \
    F(cuMemFreeAsync, (uint64_t, void *)) \
    F(cuMemHostAlloc, (void **, size_t, unsigned)) \
    F(cuMemFreeHost, (void *)) F(cuMemGetInfo_v2, (size_t *, size_t *)) \
    F(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *)) \
    F(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *)) \
    F(cuMemsetD32Async, (uint64_t, unsigned, size_t, void *)) \
    F(cuStreamCreate, (void **, unsigned)) F(cuStreamDestroy_v2, (void *)) \
    F(cuStreamSynchronize, (void *)) F(cuStreamIsCapturing, (void *, int *)) \
    F(cuStreamBeginCapture_v2, (void *, int)) F(cuStreamEndCapture, (void *, void **)) \
    F(cuEventCreate, (void **, unsigned)) F(cuEventDestroy_v2, (void *)) \
    F(cuEventRecord, (void *, void *)) F(cuStreamWaitEvent, (void *, void *, unsigned)) \
    F(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) \
    F(cuGraphLaunch, (void *, void *)) F(cuGraphExecDestroy, (void *)) F(cuGraphDestroy, (void *)) \
    F(cuModuleLoadData, (void **, const void *)) F(cuModuleUnload, (void *)) \
    F(cuModuleGetFunction, (void **, void *, const char *)) \
    F(cuFuncLoad, (void *)) F(cuFuncSetAttribute, (void *, int, int)) \
    F(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                       unsigned, void *, void **, void **)) \
    F(cuLaunchKernelEx, (const struct launch_config *, void *, void **, void **)) \
    F(cuOccupancyMaxActiveClusters, (int *, void *, const struct launch_config *)) \
    F(cuTensorMapEncodeTiled, (void *, int, unsigned, uint64_t, const uint64_t *, \
                               const uint64_t *, const uint32_t *, const uint32_t *, int, int, \
                               int, int))
/* clang-format on */

/* The functions of libcuda that tests call. */
struct driver {
#define DRIVER_FIELD(name, args) int(*name) args;
    DRIVER_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
    /* functions of the stand-in only; NULL with a real libcuda */
    const char *(*simt_error)(void);
    void (*simt_reset)(void);
    long (*simt_launches)(void);
    long (*simt_early)(void);
    long (*simt_copies)(void);
    long (*simt_waits)(void);
    long (*simt_maps)(void);
};

/* Opens the library that LIMBER_CUDA names, else libcuda.so.1.  False if it is absent. */
bool driver_open(struct driver *d);

#endif
