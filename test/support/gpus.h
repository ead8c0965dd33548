/* SPDX-License-Identifier: BSD-3-Clause
 * What tests of GPUs share: the stand-ins, or a GPU when LIMBER_TEST_GPU is set; contexts;
 * memory of the device. */
#ifndef LIMBER_TEST_GPUS_H
#define LIMBER_TEST_GPUS_H

#include "driver.h"

#include "limber/limber.h"

/* Of tests that a GPU was asked for (LIMBER_TEST_GPU): 77, with a word on stderr, where there is
 * none; else 0. */
int gpu_is_missing(void);
/* Lets the library find the stand-ins for libcuda and NVRTC, unless a GPU was asked for. */
void gpu_stand_ins(void);

/* The compute capability that the stand-in plays. */
int gpu_capability(void);

/* Whether a refusal says that the device lacks a unit, or the bits or chains of its sums. */
bool gpu_lacks(const char *text);

/* The group's fixture of a test: a context of the interpreter and one of the GPU, without a cache,
 * and the driver, with the first device's context current. */
extern limber_context *reference, *cuda;
extern struct driver driver;
/* Contracts of most tests: no more than the promise, and native's plain scheme. */
extern const limber_contract native, plain, reproducible, correct, exact;
int gpu_open(void **state);
int gpu_close(void **state);

/* Memory of the device. */
struct there {
    uint64_t at;
    size_t bytes;
};
struct there gpu_room(size_t bytes);
struct there gpu_put(const void *data, size_t bytes);
void gpu_upload(struct there to, const void *data);
void gpu_get(void *to, struct there from);
void gpu_drop(struct there x);

/* A stream and a workspace of so many bytes, for calls that are recorded; what the stream has
 * recorded, ready to be played; and played, to its end. */
struct there gpu_queue(limber_queue *q, size_t bytes);
void *gpu_recorded(const limber_queue *q);
void gpu_play(void *play, const limber_queue *q);

/* A fault in the text of kernels for one capability, or for all (0), as SIMT_FAULT has it. */
struct gpu_fault {
    int capability;
    const char *what, *fault;
};
/* Plants those for the capability that the stand-in plays (SIMT_CC, 90), each in a process of its
 * own, since a stand-in that has failed stays failed: run(arg) answers 0 where the fault was found,
 * 3 where it was not planted.  Skips on a GPU and under sanitizers; fails the test where one is not
 * found. */
void gpu_faults_are_found(const struct gpu_fault *fault, size_t count, int (*run)(void *arg),
                          void *arg);

#endif
