/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of timed_cuda.c, which programs look up in the library that LIMBER_CUDA names. */
#ifndef LIMBER_TIMED_CUDA_H
#define LIMBER_TIMED_CUDA_H

/* The launches of one kernel. */
struct timed_kernel {
    char name[48];
    int launches;
    double seconds; /* sum over all launches */
};

/* Starts timing: each later launch is put between two events of its stream, which keeps kernels
 * from overlapping. */
typedef void timed_begin_fn(void);
/* Waits for the events and lists kernels, in the order of their first launch, with their total
 * times.  Returns the number of kernels, at most `room`; -1 if an event could not be recorded or
 * read. */
typedef int timed_end_fn(struct timed_kernel *list, int room);

#endif
