/* SPDX-License-Identifier: BSD-3-Clause
 * Devices, and kernels loaded on them. */
#ifndef LIMBER_CUDA_LAUNCH_H
#define LIMBER_CUDA_LAUNCH_H

#include "backends/cuda/cuda.h"

#include <pthread.h>

enum { CUDA_DEVICES = 64, CUDA_STREAMS = 16 };

/* device.c: opened at first use, kept for the process. */
struct device {
    const struct cuda_driver *driver;
    cu_context context;         /* the primary one, which the CUDA runtime uses, too */
    int multiprocessors;
    pthread_mutex_t lock;
    cu_stream idle[CUDA_STREAMS];       /* of our own, between calls */
    int idle_streams;
};
struct device *limber_cuda_device(int ordinal, struct diag *d);
bool limber_cuda_stream(struct device *v, cu_stream *s, struct diag *d);
void limber_cuda_stream_back(struct device *v, cu_stream s);

enum cuda_kernel { KERNEL_prepare_a, KERNEL_prepare_b, KERNEL_multiply, KERNEL_finish,
                   KERNEL_special, KERNEL_exact, KERNEL_scale_a, KERNEL_scale_b,
                   KERNEL_count };

struct kernel {
    struct cuda_config config;
    unsigned char *cubin;
    pthread_mutex_t lock;
    struct on_device {
        cu_module module;
        cu_function function[KERNEL_count];
    } loaded[CUDA_DEVICES];
};

bool limber_cuda_launch(struct kernel *k, struct call *c, struct diag *d);

/* memory.c: what of a call lies in host memory gets a place on the device. */
struct run {                    /* one call */
    struct device *device;
    const struct cuda_driver *driver;
    struct kernel *kernel;
    struct on_device *loaded;
    struct call *call;
    cu_stream stream;
    bool own_stream, host;      /* host: some operand lies there, so the call waits */
    cu_pointer a, b, c;         /* copies of ours, or 0 */
    cu_pointer emax[2], special[2], overflow, counts;
    cu_pointer workspace;
    size_t workspace_bytes;
    bool own_workspace;
    struct view view[2];        /* on the device */
    struct place place;
    char *staged;               /* C on its way to or from host memory, dense */
};
bool limber_cuda_upload(struct run *r, struct diag *d);
/* Brings C back and frees what upload took; ok: the call went well so far. */
bool limber_cuda_download(struct run *r, bool ok, struct diag *d);
bool limber_cuda_memory(struct run *r, cu_pointer *p, size_t bytes, const char *what,
                        struct diag *d);
void limber_cuda_release(struct run *r, cu_pointer *p);

#endif
