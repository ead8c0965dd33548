/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* clock_gettime under any standard */
#include "jit/runtime/runtime.h"

#include <time.h>

/* Returns the seconds of a monotonic clock. */
double limber_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
