/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE     /* RTLD_NEXT */
#include "library.h"

#include "tools/interpose/shared/interpose.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

const char interpose_name[] = "liblimber_blas", interpose_original[] = "the program's BLAS";

static void *wished, *of_system;
static pthread_once_t wished_once = PTHREAD_ONCE_INIT, system_once = PTHREAD_ONCE_INIT;

void *limber_blas_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* A library whose integers are not the program's would read beyond them. */
static bool suits(const char *name, void *library)
{
    void *ours = dlsym(library, "isamax_"), *programs = limber_blas_next("isamax_");
    bool wide = ours && limber_blas_asks_wide(ours);

    if (!ours || !programs || wide == limber_blas_asks_wide(programs))
        return true;
    interpose_message(
        "LIMBER_BLAS = \"%.200s\" has integers of %d bits, the program's BLAS of %d; it "
        "is not used",
        name, wide ? 64 : 32, wide ? 32 : 64);
    return false;
}

static void open_wished(void)
{
    const char *name = limber_variable_value("LIMBER_BLAS");

    if (!name)
        return;
    wished = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!wished)
        interpose_message("LIMBER_BLAS: %s", dlerror());
    else if (!suits(name, wished))
        wished = NULL;
}

bool limber_blas_only(const char *name, const void *caller, void **function)
{
    (void)caller;
    pthread_once(&wished_once, open_wished);
    *function = wished ? dlsym(wished, name) : NULL;
    return wished;
}

static void open_system(void)
{
    static const char *const names[] = { "libblas.so.3", "libopenblas.so.0", "libblas.so" };

    for (size_t i = 0; i < sizeof names / sizeof *names && !of_system; i++)
        of_system = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
}

void *limber_blas_system(void)
{
    pthread_once(&system_once, open_system);
    return of_system;
}
