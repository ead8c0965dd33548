/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the BLAS to which calls are forwarded, if this library is itself the program's libblas. */
#include "library.h"

#include "tools/interpose/shared/interpose.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* WIDTH is "", or "64" for a BLAS with 64-bit integers.  ARCHITECTURE is the name of Debian's
 * multiarch folder, such as x86_64-linux-gnu. */
#define FILE_NAME "libblas" WIDTH ".so.3"

const char interpose_name[] = "Limber's " FILE_NAME, interpose_original[] = "the BLAS behind";

static void *behind;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* Opens a BLAS.  Returns NULL if it is absent, is this library, or has integers of another width.
 * wished: LIMBER_BLAS names it, so that a message tells why it is not used. */
static void *open_blas(const char *name, bool wished)
{
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL),
         *isamax = library ? dlsym(library, "isamax_") : NULL;
    const char *why = !library ? dlerror() : !isamax ? "it has no isamax_" : NULL;

    if (!why && dlsym(library, "limber_blas_is_here"))
        why = "it is this library";
    if (!why && limber_blas_asks_wide(isamax) != (WIDTH[0] != 0))
        why = WIDTH[0] ? "its integers have 32 bits" : "its integers have 64 bits";
    if (!why)
        return library;
    if (wished)
        interpose_message("LIMBER_BLAS = \"%.200s\" is not used: %s", name, why);
    if (library)
        dlclose(library);
    return NULL;
}

/* Opens a BLAS of the system, by its usual names and in Debian's folders of alternatives. */
static void *open_system(void)
{
    static const char *const names[] = { ("libopenblas" WIDTH ".so.0"), ("libblis" WIDTH ".so.4") };
    static const char *const folders[] = { ("/usr/lib/" ARCHITECTURE), "/usr/lib64", "/usr/lib",
                                           "/usr/local/lib" };
    static const char *const kinds[] = { ("openblas" WIDTH "-pthread"),
                                         ("openblas" WIDTH "-openmp"),
                                         ("openblas" WIDTH "-serial"),
                                         ("blis" WIDTH "-pthread"),
                                         ("blis" WIDTH "-openmp"),
                                         ("blis" WIDTH "-serial"),
                                         "atlas",
                                         ("blas" WIDTH),
                                         "." };
    void *library = NULL;
    char path[512];

    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = open_blas(names[i], false);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !library; k++) {
            snprintf(path, sizeof path, "%s/%s/" FILE_NAME, folders[i], kinds[k]);
            library = open_blas(path, false);
        }
    return library;
}

/* Opens the BLAS to which calls are forwarded: that of LIMBER_BLAS, else the system's. */
static void open_behind(void)
{
    const char *wish = limber_variable_value("LIMBER_BLAS");

    behind = wish ? open_blas(wish, true) : NULL;
    if (!behind)
        behind = open_system();
    if (!behind)
        interpose_message("there is no BLAS behind it; LIMBER_BLAS names one");
}

/* Finds a function in the BLAS behind this library. */
bool limber_blas_designated(const char *name, const void *caller, void **function)
{
    (void)caller;
    pthread_once(&opened, open_behind);
    *function = behind ? dlsym(behind, name) : NULL;
    return behind;
}

void *limber_blas_next(const char *name)
{
    (void)name;
    return NULL;
}

void *limber_blas_system(void)
{
    return NULL;
}
