/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the functions behind: in the next library that the program has loaded, else in cuBLAS by
 * its name. */
#define _GNU_SOURCE     /* RTLD_NEXT */
#include "cublas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

const char interpose_name[] = "liblimber_cublas", interpose_original[] = "cuBLAS";
_Thread_local int limber_cublas_inside;

bool interpose_check_own(void)
{
    return true;
}

static void *library;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    static const char *const name[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so" };

    for (size_t i = 0; i < sizeof name / sizeof *name && !library; i++)
        library = dlopen(name[i], RTLD_LAZY);
}

/* dlsym each time: that takes a fraction of a microsecond, much less than a product. */
void *limber_cublas_real(const char *name)
{
    static _Atomic bool printed;
    void *f = dlsym(RTLD_NEXT, name);

    if (f)
        return f;
    pthread_once(&opened, open_library);
    f = library ? dlsym(library, name) : NULL;
    if (!f && !printed) {
        printed = true;
        fprintf(stderr, "liblimber_cublas: no libcublas has %s\n", name);
    }
    return f;
}
