/* SPDX-License-Identifier: BSD-3-Clause
 * The functions that ours stand before: of the next library that the program has loaded, else of the
 * system's libblas. */
#define _GNU_SOURCE     /* RTLD_NEXT */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char preload_name[] = "liblimber_blas", preload_original[] = "the program's BLAS";

static void *library;
static pthread_once_t opened = PTHREAD_ONCE_INIT, asked = PTHREAD_ONCE_INIT;
static bool wide;

static void open_library(void)
{
    static const char *const names[] = { "libblas.so.3", "libopenblas.so.0", "libblas.so" };
    const char *wish = getenv("LIMBER_BLAS");

    if (wish && *wish)
        library = dlopen(wish, RTLD_LAZY | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
}

void *limber_blas_real(const char *name)
{
    static _Atomic bool told;
    const char *wish = getenv("LIMBER_BLAS");
    void *f = wish && *wish ? NULL : dlsym(RTLD_NEXT, name);

    if (f)
        return f;
    pthread_once(&opened, open_library);
    f = library ? dlsym(library, name) : NULL;
    if (!f && !told) {
        told = true;
        fprintf(stderr, "%s: no BLAS has %s; LIMBER_BLAS names one\n", preload_name, name);
    }
    return f;
}

/* n is 3 to those who read 32 bits, and negative to those who read 64: they answer 0. */
static void ask(void)
{
    const char *wish = getenv("LIMBER_ILP64");
    int64_t n = (int64_t)0xffffffff00000003, step = 1;
    float x[3] = { 1, 3, 2 };
    int (*isamax)(const void *, const float *, const void *);

    if (wish && (!strcmp(wish, "0") || !strcmp(wish, "1"))) {
        wide = *wish == '1';
        return;
    }
    if (wish && *wish)
        fprintf(stderr, "%s: LIMBER_ILP64 = \"%.20s\" is neither 0 nor 1\n", preload_name, wish);
    *(void **)&isamax = limber_blas_real("isamax_");
    wide = isamax && isamax(&n, x, &step) == 0;
}

bool limber_blas_is_wide(void)
{
    pthread_once(&asked, ask);
    return wide;
}
