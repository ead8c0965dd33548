/* SPDX-License-Identifier: BSD-3-Clause
 * A library that is linked before libLLVM and finds the functions of libLLVM by dlsym.  It holds a
 * compilation until the program releases it, and ends the process with a message if a compilation
 * begins after destructors have run.  Like libLLVM, it registers a destructor when it is loaded and
 * another at its first compilation. */
#define _GNU_SOURCE     /* for RTLD_NEXT */
#include "gate.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Threads that are compiling; whether the compiler's destructors have run. */
static atomic_int running, destroyed;

static void fault(const char *what)
{
    if (write(STDERR_FILENO, what, strlen(what)) > 0)
        _exit(70);
    _exit(71);
}

/* Exit function, registered before and after those of libLLVM: fails if a thread still compiles. */
static void destroy(void)
{
    destroyed = 1;
    /* a thread of the program still compiles: the library has not waited for it, which is an
     * error */
    if (running && !gate_in_background && !gate_lost)
        fault("destructors run while a thread compiles\n");
}

__attribute__((constructor)) static void opened(void)
{
    atexit(destroy);
}

int LLVMTargetMachineEmitToMemoryBuffer(void *machine, void *module, int kind, char **message,
                                        void **buffer);

/* Replaces LLVM's function that emits code: waits while the gate is shut, and fails if destructors
 * have run. */
int LLVMTargetMachineEmitToMemoryBuffer(void *machine, void *module, int kind, char **message,
                                        void **buffer)
{
    static atomic_flag first = ATOMIC_FLAG_INIT;
    int (*emit)(void *, void *, int, char **, void **), result;

    if (destroyed)
        fault("compiled after destructors have run\n");
    if (!atomic_flag_test_and_set(&first))
        atexit(destroy);
    running++;
    if (gate_shut) {
        gate_held++;
        while (gate_shut)
            sched_yield();
    }
    *(void **)&emit = dlsym(RTLD_NEXT, "LLVMTargetMachineEmitToMemoryBuffer");
    result = emit(machine, module, kind, message, buffer);
    running--;
    if (destroyed)
        fault("destructors have run while a thread compiled\n");
    return result;
}
