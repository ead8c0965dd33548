/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIMBER_TEST_GPUS_H
#define LIMBER_TEST_GPUS_H

#include <stddef.h>

/* Of tests that a GPU was asked for (LIMBER_TEST_GPU): 77, with a word on stderr, where there is
 * none; else 0. */
int gpu_is_missing(void);

/* A fault in the text of kernels for one capability, as SIMT_FAULT has it. */
struct gpu_fault {
    int capability;
    const char *what, *fault;
};
/* Plants those for the capability that the harness plays (SIMT_CC, 90), each in a process of its
 * own, since a harness that has failed stays failed: run(arg) answers 0 where the fault was found,
 * 3 where it was not planted.  Skips on a GPU; fails the test where one is not found. */
void gpu_faults_are_found(const struct gpu_fault *fault, size_t count, int (*run)(void *arg),
                          void *arg);

#endif
