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
                   KERNEL_special, KERNEL_exact, KERNEL_scan, KERNEL_scan_start,
                   KERNEL_count };

struct kernel {
    struct cuda_config config;
    unsigned char *cubin;
    pthread_mutex_t lock;
    struct loaded {
        cu_module module;
        cu_function function[KERNEL_count];
    } loaded[CUDA_DEVICES];
};

/* launch.c: of backend.h.  scan.c: of struct remote. */
bool limber_cuda_launch(struct kernel *k, struct call *c, struct diag *d);
bool limber_cuda_scan(struct kernel *k, const struct view *v, int64_t lines, int64_t length,
                      int device, const limber_queue *queue, int32_t *found, struct diag *d);

/* memory.c: what of a call lies in host memory gets a place on the device. */
struct run {                    /* one call */
    struct device *device;
    const struct cuda_driver *driver;
    struct kernel *kernel;
    struct loaded *loaded;
    struct call *call;
    cu_stream stream;
    bool own_stream, host;      /* host: some operand lies there, so the call waits */
    cu_pointer a, b, c;         /* copies of ours, or 0 */
    cu_pointer emax[2], special[2], overflow;
    cu_pointer workspace;
    size_t workspace_bytes;
    bool own_workspace;
    struct view view[2];        /* on the device */
    struct place place;
    int64_t k;                  /* along limbs: with a convolution's padding */
    struct view ordered[2];     /* as limbs are made: in the plan's order along k */
    struct patch patch[2];
    int64_t images;             /* whose limbs B is fetched from; 0: from limbs of B itself */
    char *staged;               /* C on its way to or from host memory, dense */
};
bool limber_cuda_holds(const void *p, int device);
bool limber_cuda_upload(struct run *r, struct diag *d);
/* Brings C back and frees what upload took; ok: the call went well so far. */
bool limber_cuda_download(struct run *r, bool ok, struct diag *d);
bool limber_cuda_memory(struct run *r, cu_pointer *p, size_t bytes, const char *what,
                        struct diag *d);
void limber_cuda_release(struct run *r, cu_pointer *p);

/* A part of C: rows [i, i + m), columns [j, j + n); where its limbs and totals lie. */
struct part {
    int64_t i, j, m, n;
    int64_t tiles_m, tiles_n;
    int64_t image, images;      /* whose limbs are held */
    int64_t pitch;              /* bytes of a limb's line */
    int64_t limb[2];            /* bytes of a limb of A, of B */
    int64_t total_pitch, total_size;
    cu_pointer limbs[2], totals;
    size_t bytes;
};

/* window.c: of convolutions.  What is known of a call: k, ordered, images. */
void limber_cuda_order(struct run *r);
int64_t limber_cuda_image(const struct run *r);
struct window limber_cuda_window(const struct run *r, const struct part *p);
/* The images that a part holds; all but the limbs' place. */
struct prepare_args limber_cuda_pixels(const struct run *r, const struct part *p);

/* launch.c: makes the device current, finds kernel and stream; after success leave is due. */
bool limber_cuda_enter(struct run *r, struct diag *d);
void limber_cuda_leave(struct run *r);
bool limber_cuda_start(struct run *r, enum cuda_kernel which, int64_t blocks, int threads,
                       int shared, void *arguments, struct diag *d);

#endif
