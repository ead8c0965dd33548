/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of timed_cuda.c, which programs find in the library that LIMBER_CUDA names. */
#ifndef LIMBER_TIMED_CUDA_H
#define LIMBER_TIMED_CUDA_H

struct timed_kernel {
    char name[48];
    int launches;
    double seconds; /* of all launches */
};

/* Puts every later launch between two events of its stream, so that kernels no longer overlap. */
typedef void timed_begin_fn(void);
/* Waits for the events and writes what each kernel took, in the order of first launches: the number
 * of kernels, at most room; -1: an event could not be recorded or read. */
typedef int timed_end_fn(struct timed_kernel *list, int room);

#endif
