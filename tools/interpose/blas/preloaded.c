/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE     /* RTLD_NEXT */
#include "library.h"

#include "tools/interpose/shared/interpose.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

const char interpose_name[] = "liblimber_blas", interpose_original[] = "the program's BLAS";

static void *named_blas, *system_blas;
static pthread_once_t named_once = PTHREAD_ONCE_INIT, system_once = PTHREAD_ONCE_INIT;

void *limber_blas_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* True if the library of LIMBER_BLAS can replace the program's BLAS: it has gemm, and integers of
 * equal width.  programs: the program's own isamax_, or NULL. */
static bool is_suitable(const char *name, void *library, void *programs)
{
    void *ours = dlsym(library, "isamax_");
    bool wide = ours && limber_blas_asks_wide(ours);

    if (!limber_blas_has_gemm(library)) {
        interpose_message("LIMBER_BLAS = \"%.200s\" is no BLAS; it is not used", name);
        return false;
    }
    if (!ours || !programs || wide == limber_blas_asks_wide(programs))
        return true;
    interpose_message(
        "LIMBER_BLAS = \"%.200s\" has integers of %d bits, the program's BLAS of %d; it "
        "is not used",
        name, wide ? 64 : 32, wide ? 32 : 64);
    return false;
}

/* An address in the code that first called a function of the BLAS. */
static const void *_Atomic first_caller;

/* Opens the BLAS that LIMBER_BLAS names, if it is set.  Leaves named_blas NULL, with a message,
 * if the file does not load or is_suitable refuses it. */
static void open_named_blas(void)
{
    const char *name = limber_variable_value("LIMBER_BLAS");
    void *programs;

    if (!name)
        return;
    programs = limber_blas_loaded("isamax_", first_caller);
    named_blas = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!named_blas)
        interpose_message("LIMBER_BLAS: %s", dlerror());
    else if (!is_suitable(name, named_blas, programs))
        named_blas = NULL;
}

/* Looks up the name in the library of LIMBER_BLAS.  A name that this library lacks, such as
 * another spelling, is looked up in the program's own BLAS. */
bool limber_blas_designated(const char *name, const void *caller, void **function)
{
    static atomic_flag printed = ATOMIC_FLAG_INIT;

    if (!atomic_load(&first_caller))
        atomic_store(&first_caller, caller);
    pthread_once(&named_once, open_named_blas);
    *function = named_blas ? dlsym(named_blas, name) : NULL;
    if (named_blas && !*function && !atomic_flag_test_and_set(&printed))
        interpose_message("LIMBER_BLAS = \"%.200s\" has no %s; what it lacks is searched as if "
                          "LIMBER_BLAS were not set",
                          limber_variable_value("LIMBER_BLAS"), name);
    return *function;
}

/* Opens the system's BLAS, for programs that have none. */
static void open_system(void)
{
    static const char *const names[] = { "libblas.so.3", "libopenblas.so.0", "libblas.so" };

    for (size_t i = 0; i < sizeof names / sizeof *names && !system_blas; i++)
        system_blas = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
}

void *limber_blas_system(void)
{
    pthread_once(&system_once, open_system);
    return system_blas;
}
