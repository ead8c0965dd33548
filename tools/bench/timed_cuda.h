/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of timed_cuda.c, which programs look up in the library that LIMBER_CUDA names. */
#ifndef LIMBER_TIMED_CUDA_H
#define LIMBER_TIMED_CUDA_H

struct timed_kernel {
    char name[48];
    int launches;
    double seconds; /* sum over all launches */
};

/* Puts later launches between two events of their stream, so that kernels no longer overlap. */
typedef void timed_begin_fn(void);
/* Waits for the events and lists each kernel's time, in order of first launch.  Returns the number
 * of kernels, at most room; -1: an event could not be recorded or read. */
typedef int timed_end_fn(struct timed_kernel *list, int room);

#endif
