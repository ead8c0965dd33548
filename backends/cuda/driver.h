/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA driver and NVRTC, which are opened at run time.  All of their functions that are used
 * are declared here, so that the build needs neither.  Source: CUDA Driver API and NVRTC reference
 * manuals 13.0. */
#ifndef LIMBER_CUDA_DRIVER_H
#define LIMBER_CUDA_DRIVER_H

#include "backends/backend.h"

typedef uint64_t cu_pointer;                    /* CUDA's CUdeviceptr */
typedef struct cu_context *cu_context;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;
typedef struct cu_stream *cu_stream;
typedef struct cu_pool *cu_pool;
typedef struct cu_event *cu_event;

enum {                                          /* CUdevice_attribute */
       CU_MULTIPROCESSORS = 16,
       CU_CLOCK_KHZ = 13,
       CU_L2_BYTES = 38,
       CU_MAJOR = 75,
       CU_MINOR = 76,
       CU_MEMORY_KHZ = 36,
       CU_BUS_BITS = 37,
       CU_SHARED_OPTIN = 97,
       CU_MEMORY_POOLS = 115
};
/* Values of CUpointer_attribute and CUmemorytype. */
enum { CU_POINTER_MEMORY_TYPE = 2, CU_MEMORY_HOST = 1, CU_POINTER_DEVICE = 9 };
enum {
    CU_FUNCTION_SHARED = 8 /* MAX_DYNAMIC_SHARED_SIZE_BYTES */,
    CU_FUNCTION_REGISTERS = 4,
    CU_FUNCTION_LOCAL = 3
};
enum { CU_OUT_OF_MEMORY = 2, CU_INVALID_IMAGE = 200, CU_NO_BINARY = 209, CU_UNSUPPORTED_PTX = 222 };

enum {                                          /* CUlaunchAttributeID */
       CU_LAUNCH_CLUSTER = 4,
       CU_LAUNCH_EARLY = 6 /* PROGRAMMATIC_STREAM_SERIALIZATION */
};
/* first driver version that can capture programmatic dependent launches into graphs */
enum { CU_EARLY_IN_GRAPHS = 12030 };

struct cu_launch_attribute {
    int id, unused;
    unsigned value[16];
};
enum { CU_PINNED = 1, CU_LOCATION_DEVICE = 1, CU_POOL_RELEASE_THRESHOLD = 4 };
struct cu_pool_props {                          /* CUmemPoolProps */
    int type, handles, location, device;
    void *security;
    size_t most;
    unsigned char unused[56];
};
struct cu_launch {                              /* CUlaunchConfig */
    unsigned grid[3], block[3], shared;
    cu_stream stream;
    struct cu_launch_attribute *attribute;
    unsigned attributes;
};

/* clang-format off */
#define LIMBER_CUDA_DRIVER(F) \
    F(cuInit, (unsigned)) \
    F(cuDriverGetVersion, (int *)) \
    F(cuGetErrorName, (int, const char **)) \
    F(cuGetErrorString, (int, const char **)) \
    F(cuDeviceGetCount, (int *)) \
    F(cuDeviceGet, (int *, int)) \
    F(cuDeviceGetName, (char *, int, int)) \
    F(cuDeviceGetAttribute, (int *, int, int)) \
    F(cuDeviceTotalMem_v2, (size_t *, int)) \
    F(cuDevicePrimaryCtxRetain, (cu_context *, int)) \
    F(cuDevicePrimaryCtxRelease_v2, (int)) \
    F(cuCtxPushCurrent_v2, (cu_context)) \
    F(cuCtxPopCurrent_v2, (cu_context *)) \
    F(cuMemAlloc_v2, (cu_pointer *, size_t)) \
    F(cuMemFree_v2, (cu_pointer)) \
    F(cuMemHostAlloc, (void **, size_t, unsigned)) \
    F(cuMemFreeHost, (void *)) \
    F(cuMemFreeAsync, (cu_pointer, cu_stream)) \
    F(cuMemPoolCreate, (cu_pool *, const struct cu_pool_props *)) \
    F(cuMemPoolSetAttribute, (cu_pool, int, void *)) \
    F(cuMemPoolTrimTo, (cu_pool, size_t)) \
    F(cuMemAllocFromPoolAsync, (cu_pointer *, size_t, cu_pool, cu_stream)) \
    F(cuMemcpyHtoDAsync_v2, (cu_pointer, const void *, size_t, cu_stream)) \
    F(cuMemcpyDtoHAsync_v2, (void *, cu_pointer, size_t, cu_stream)) \
    F(cuMemcpyDtoDAsync_v2, (cu_pointer, cu_pointer, size_t, cu_stream)) \
    F(cuMemsetD8Async, (cu_pointer, unsigned char, size_t, cu_stream)) \
    F(cuMemsetD32Async, (cu_pointer, unsigned, size_t, cu_stream)) \
    F(cuPointerGetAttribute, (void *, int, cu_pointer)) \
    F(cuStreamCreate, (cu_stream *, unsigned)) \
    F(cuStreamDestroy_v2, (cu_stream)) \
    F(cuStreamSynchronize, (cu_stream)) \
    F(cuStreamIsCapturing, (cu_stream, int *)) \
    F(cuThreadExchangeStreamCaptureMode, (int *)) \
    F(cuModuleLoadData, (cu_module *, const void *)) \
    F(cuModuleUnload, (cu_module)) \
    F(cuModuleGetFunction, (cu_function *, cu_module, const char *)) \
    F(cuFuncSetAttribute, (cu_function, int, int)) \
    F(cuFuncGetAttribute, (int *, int, cu_function)) \
    F(cuLaunchKernel, (cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                       unsigned, cu_stream, void **, void **))
/* clang-format on */

struct cuda_driver {
#define FIELD(name, arguments) int(*name) arguments;
    LIMBER_CUDA_DRIVER(FIELD)
#undef FIELD
    int (*cuFuncLoad)(cu_function); /* NULL before driver 12.4 */
    /* The next three are NULL before driver 12.0. */
    int (*cuLaunchKernelEx)(const struct cu_launch *, cu_function, void **, void **);
    int (*cuOccupancyMaxActiveClusters)(int *, cu_function, const struct cu_launch *);
    int (*cuTensorMapEncodeTiled)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *,
                                  const unsigned *, const unsigned *, int, int, int, int);
    /* 1000 major + 10 minor, as cuDriverGetVersion reports it */
    int version;
};

/* Opens the driver at first use and keeps it open.  Returns NULL, with an error in *d, if there is
 * no driver or no device. */
const struct cuda_driver *limber_cuda(struct diag *d);
/* Returns true if `result` is success.  Otherwise records the driver's error in *d and returns
 * false.  what: the action that failed. */
bool limber_cuda_ok(const struct cuda_driver *c, int result, const char *what, struct diag *d);

/* While another thread captures a stream, loading code and allocating memory would fail and end
 * that capture.  After this call, the calling thread may do both, and they are not captured.
 * Returns the thread's previous mode. */
int limber_cuda_relax(const struct cuda_driver *c);
/* Restores the capture mode that limber_cuda_relax returned. */
void limber_cuda_restore(const struct cuda_driver *c, int mode);

/* ---- nvrtc.c ------------------------------------------------------------------------------ */

enum { CUDA_HEADERS = 64 }; /* largest number of headers of a program */
struct cuda_header {
    const char *name, *text;
};
/* The inputs of a compilation by NVRTC. */
struct cuda_program {
    const char *source;
    const struct cuda_header *header;
    const char *arch; /* such as "sm_90a" */
    const char *const *option; /* compiler options, that of the architecture included */
    int headers, options;
};
/* Implements code_ops.open: loads NVRTC, unless compiling is forbidden or LIMBER_CUBINS is set. */
void limber_nvrtc_open(const struct target *t);
/* Returns the cubin of a source for an architecture ("sm_90a"): a precompiled one or, unless
 * no_compiler is set, one that NVRTC compiles.  NVRTC's log is written to the dump, and its first
 * error to the diagnostic. */
bool limber_nvrtc(const char *source, const char *arch, bool no_compiler, const struct dump *dump,
                  struct blob *out, struct diag *d);

/* ---- cubins.c ----------------------------------------------------------------------------- */

/* Looks for the program's cubin in the folder LIMBER_CUBINS; the caller frees it.  Returns false if
 * there is none.  A file that is damaged, belongs to another program, or is too new for the driver,
 * is reported once and not used. */
bool limber_cubin_find(const struct cuda_program *p, struct blob *out);
/* Stores a cubin in the folder LIMBER_KEEP_CUBINS, if that is set.  major, minor: the version of
 * NVRTC that compiled it. */
void limber_cubin_keep(const struct cuda_program *p, int major, int minor,
                       const struct blob *cubin);

#endif
