/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by tests on GPUs: use of the stand-ins for libcuda and NVRTC (or of a GPU, if
 * LIMBER_TEST_GPU is set), contexts, and device memory. */
#ifndef LIMBER_TEST_GPUS_H
#define LIMBER_TEST_GPUS_H

#include "driver.h"

#include "limber/limber.h"

/* Returns 77 and prints why if LIMBER_TEST_GPU is set and there is no GPU.  Else returns 0. */
int gpu_is_missing(void);
/* Makes the library load the stand-ins for libcuda and NVRTC, unless LIMBER_TEST_GPU is set. */
void gpu_stand_ins(void);

/* Returns the compute capability, for instance 90: the stand-in's (SIMT_CC), or the GPU's after
 * gpu_open(). */
int gpu_capability(void);

/* True if an error text says that the device lacks a unit, or that the unit's sums have too few
 * bits or another length of chains. */
bool gpu_lacks(const char *text);

/* Setup and teardown of a group (gpu_open, gpu_close): contexts of the interpreter and of the GPU
 * without a disk cache, and the driver's functions.  The primary context of device 0 is current. */
extern limber_context *reference, *cuda;
extern struct driver driver;
/* Contracts without options.  `plain` is `native` with the scheme `native`. */
extern const limber_contract native, plain, reproducible, correct, exact;
int gpu_open(void **state);
int gpu_close(void **state);

/* A buffer in device memory: its address and its bytes. */
struct gpu_buffer {
    uint64_t at;
    size_t bytes;
};
/* Allocates device memory. */
struct gpu_buffer gpu_allocate(size_t bytes);
/* Allocates device memory and copies `bytes` bytes of data to it. */
struct gpu_buffer gpu_upload_new(const void *data, size_t bytes);
/* Copies host memory to a buffer. */
void gpu_upload(struct gpu_buffer to, const void *data);
/* Copies a buffer to host memory. */
void gpu_download(void *to, struct gpu_buffer from);
void gpu_free(struct gpu_buffer x);

/* gpu_queue() makes a stream with a workspace of `bytes` on which calls can be recorded, and
 * returns the workspace.  gpu_end_recording() ends the recording and makes a graph, which
 * gpu_run_graph() runs to its end. */
struct gpu_buffer gpu_queue(limber_queue *q, size_t bytes);
void *gpu_end_recording(const limber_queue *q);
void gpu_run_graph(void *play, const limber_queue *q);

/* A fault that is planted in the source of kernels.  capability: the only one that has this fault,
 * or 0 for all.  fault: a value of SIMT_FAULT. */
struct gpu_fault {
    int capability;
    const char *what, *fault;
};
/* Checks that a test detects the faults of the simulated device's capability.  Each fault is
 * planted in a child process, since a simulated driver stays in error after a failure. run(arg)
 * returns 0 if it has detected the fault, 3 if the fault was not planted, and another number, such
 * as 1 for a right result, if it has not detected it.  Fails the test if a fault is not detected.
 * Skips the test on a GPU and under sanitizers. */
void gpu_faults_are_found(const struct gpu_fault *fault, size_t count, int (*run)(void *arg),
                          void *arg);

#endif
