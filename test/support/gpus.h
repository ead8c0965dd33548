/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by tests of GPUs: the stand-ins, or a GPU when LIMBER_TEST_GPU is set; contexts; device
 * memory. */
#ifndef LIMBER_TEST_GPUS_H
#define LIMBER_TEST_GPUS_H

#include "driver.h"

#include "limber/limber.h"

/* Returns 77, with a message on stderr, if a GPU was asked for (LIMBER_TEST_GPU) and there is none;
 * else 0. */
int gpu_is_missing(void);
/* Points the library to the stand-ins for libcuda and NVRTC, unless a GPU was asked for. */
void gpu_stand_ins(void);

/* The compute capability of the stand-in, or of the GPU once gpu_open has found it. */
int gpu_capability(void);

/* Returns whether an error says that the device lacks a unit, or the bits or chain length of its
 * sums. */
bool gpu_lacks(const char *text);

/* Group fixture: contexts of the interpreter and of the GPU, without a cache, and the driver, with
 * the first device's context current. */
extern limber_context *reference, *cuda;
extern struct driver driver;
/* Contracts of most tests: the promise alone, and native's plain scheme. */
extern const limber_contract native, plain, reproducible, correct, exact;
int gpu_open(void **state);
int gpu_close(void **state);

/* Device memory. */
struct there {
    uint64_t at;
    size_t bytes;
};
struct there gpu_room(size_t bytes);
struct there gpu_put(const void *data, size_t bytes);
void gpu_upload(struct there to, const void *data);
void gpu_get(void *to, struct there from);
void gpu_drop(struct there x);

/* gpu_queue: a stream with a workspace of `bytes`, for calls that are recorded.  gpu_recorded: the
 * stream's recording, ready to run.  gpu_play: runs it to its end. */
struct there gpu_queue(limber_queue *q, size_t bytes);
void *gpu_recorded(const limber_queue *q);
void gpu_play(void *play, const limber_queue *q);

/* A fault in the source of kernels for one capability (0: all), in the form of SIMT_FAULT. */
struct gpu_fault {
    int capability;
    const char *what, *fault;
};
/* Plants the faults for the stand-in's capability (SIMT_CC, 90), each in a process of its own
 * because a failed stand-in stays failed.  run(arg) returns 0 if the fault was found, 1 if the
 * result is right, 3 if the fault was not planted.  Skips on a GPU and under sanitizers; fails the
 * test where a fault is not found. */
void gpu_faults_are_found(const struct gpu_fault *fault, size_t count, int (*run)(void *arg),
                          void *arg);

#endif
