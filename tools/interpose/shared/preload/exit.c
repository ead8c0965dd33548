/* SPDX-License-Identifier: BSD-3-Clause
 * _exit and _Exit of a program, which call no destructors: the workers of Python's multiprocessing
 * end so.  Part of the libraries that are preloaded; others come behind the C library. */
#define _GNU_SOURCE     /* RTLD_NEXT, syscall */
#include "tools/interpose/shared/interpose.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default"), noreturn))

static void (*next)(int status); /* another library's that is preloaded, or the C library's */

/* Before the program begins, as dlsym is not async-signal-safe and _exit is. */
__attribute__((constructor)) static void find_next(void)
{
    *(void **)&next = dlsym(RTLD_NEXT, "_exit");
}

PUBLIC void _exit(int status)
{
    interpose_leave();
    if (next)
        next(status);
    for (;;)
        syscall(SYS_exit_group, status);
}

PUBLIC void _Exit(int status)
{
    _exit(status);
}
