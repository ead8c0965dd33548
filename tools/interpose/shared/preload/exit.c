/* SPDX-License-Identifier: BSD-3-Clause
 * Intercepts _exit and _Exit, which run no destructors; workers of Python's multiprocessing end
 * this way.  Only preloaded libraries can do this, since others are searched after the C
 * library. */
#define _GNU_SOURCE     /* RTLD_NEXT, syscall */
#include "tools/interpose/shared/interpose.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default"), noreturn))

/* the next definition: of another preloaded library, or of the C library */
static void (*next)(int status);

/* Runs before main: _exit must be async-signal-safe, which dlsym is not. */
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
