/* SPDX-License-Identifier: BSD-3-Clause
 * A stand-in for FlexiBLAS 3.4: calls pass the hooks, whose files FLEXIBLAS_HOOK names, and then
 * reach the BLAS with which this library is linked.  It opens, closes and names hooks as FlexiBLAS
 * does. As in that version, hook_cblas_dgemm becomes a hook of dgemm. */
#define _GNU_SOURCE     /* for RTLD_NEXT */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST \
    const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k, \
        const double *alpha, const double *a, const int32_t *lda, const double *b, \
        const int32_t *ldb, const double *beta, double *c, const int32_t *ldc, size_t la, \
        size_t lb
#define PASS ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, la, lb

typedef void gemm(LIST);
gemm dgemm_, flexiblas_chain_dgemm_, flexiblas_real_dgemm_;

/* The description of a hook, as FlexiBLAS defines it. */
struct hook {
    const char *name, *section, *description, *authors;
};
/* An option of a hook, as FlexiBLAS defines it. */
struct option {
    const char *name, *description;
    int type;
    const char *value;
};

enum { MOST = 4 };
static gemm *hooks[MOST];
static void *handles[MOST];
/* Number of hooks of dgemm, and of opened libraries. */
static int count, opened;
/* The hook that this thread is in. */
static _Thread_local int position;

/* Calls the BLAS behind FlexiBLAS. */
void flexiblas_real_dgemm_(LIST)
{
    gemm *backend;

    *(void **)&backend = dlsym(RTLD_NEXT, "dgemm_");
    backend(PASS);
}

/* Called by a hook: calls the next hook, or the BLAS after the last. */
void flexiblas_chain_dgemm_(LIST)
{
    if (++position < count) {
        hooks[position](PASS);
    } else {
        position = 0;
        flexiblas_real_dgemm_(PASS);
    }
}

/* Calls the first hook, or the BLAS behind if there is none, like the function of FlexiBLAS. */
void dgemm_(LIST)
{
    position = 0;
    if (count)
        hooks[0](PASS);
    else
        flexiblas_real_dgemm_(PASS);
}

void cblas_dgemm(int order, int ta, int tb, int32_t m, int32_t n, int32_t k, double alpha,
                 const double *a, int32_t lda, const double *b, int32_t ldb, double beta, double *c,
                 int32_t ldc);
/* Calls the backend's CBLAS, past the hooks, as FlexiBLAS 3.4 does. */
void cblas_dgemm(int order, int ta, int tb, int32_t m, int32_t n, int32_t k, double alpha,
                 const double *a, int32_t lda, const double *b, int32_t ldb, double beta, double *c,
                 int32_t ldc)
{
    const char *x = ta == 111 ? "N" : "T", *y = tb == 111 ? "N" : "T";

    if (order == 101)
        flexiblas_real_dgemm_(y, x, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc, 1, 1);
    else
        flexiblas_real_dgemm_(x, y, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
}

/* Calls a hook's function, if it has one of this name. */
static void call(void *handle, const char *name)
{
    void (*function)(void);

    *(void **)&function = dlsym(handle, name);
    if (function)
        function();
}

/* Loads a hook as FlexiBLAS does: once to read its name, then again to call it. */
static void load(const char *file)
{
    static const char *const names[] = { "hook_dgemm", "hook_cblas_dgemm" };
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL), *f;
    struct hook *h = handle ? dlsym(handle, "flexiblas_register") : NULL;
    const char *key = h ? h->section : NULL;
    const struct option *options = h ? dlsym(handle, "flexiblas_options") : NULL;

    if (!key || !options || options->name || !h->name || !h->description || !h->authors) {
        printf("%s is no hook: %s\n", file, handle ? "it lacks a name" : dlerror());
        exit(1);
    }
    dlclose(handle);
    handles[opened++] = handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    printf("hook %s\n", key);
    free((void *)(uintptr_t)key);
    for (int i = 0; i < 2; i++)
        if ((f = dlsym(handle, names[i])) != NULL)
            *(void **)&hooks[count++] = f;
    call(handle, "__flexiblas_hook_initialize");
}

__attribute__((constructor)) static void load_all(void)
{
    const char *files = getenv("FLEXIBLAS_HOOK");
    char *copy = files ? strdup(files) : NULL, *rest = NULL;

    for (char *file = copy ? strtok_r(copy, ":", &rest) : NULL; file && opened < MOST;
         file = strtok_r(NULL, ":", &rest))
        load(file);
    free(copy);
}

__attribute__((destructor)) static void close_all(void)
{
    while (opened > 0) {
        call(handles[--opened], "__flexiblas_hook_finalize");
        dlclose(handles[opened]);
    }
}
