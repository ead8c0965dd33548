/* SPDX-License-Identifier: BSD-3-Clause
 * An extension module that is linked with a cuBLAS of its own, and the host of such modules. `host
 * [global:|private:]PLUGIN...` loads modules in this order, in the global or a local scope. For
 * each module it prints how many of three products the module's own cuBLAS has computed.  The
 * module makes two of these calls, the host one, through a function address that the module
 * returns. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int product(void *, int, int, int, int, int, const double *, const double *, int,
                    const double *, int, const double *, double *, int);

#ifdef PLUGIN
int cublasCreate_v2(void **);
product cublasDgemm_v2;
long cublas_mock_calls(void);

void *make_handle(void);
void *make_handle(void)
{
    void *handle;

    return cublasCreate_v2(&handle) ? NULL : handle;
}

product *address(void);
product *address(void)
{
    return cublasDgemm_v2;
}

long calls(void);
long calls(void)
{
    return cublas_mock_calls();
}
#endif

/* Multiplies through the module's cuBLAS.  Returns whether the product is right. */
int multiply(product *dgemm, void *handle);
/* Returns whether a product of 2 x 2 matrices is right. */
int multiply(product *dgemm, void *handle)
{
    const double x[] = { 1, 2, 3, 4 }, one = 1, zero = 0;
    double c[4] = { 0 };

    return dgemm(handle, 0, 0, 2, 2, 2, &one, x, 2, x, 2, &zero, c, 2) == 0 && c[0] == 7 &&
           c[1] == 10 && c[2] == 15 && c[3] == 22;
}

#ifndef PLUGIN
static void *find_function(void *plugin, const char *name)
{
    void *f = dlsym(plugin, name);

    if (!f) {
        printf("no plugin: %s\n", dlerror());
        exit(1);
    }
    return f;
}

/* Multiplies by the plugin's call of cublasDgemm and, if `by_address`, also from this program by
 * the address of cublasDgemm that the plugin found. */
static void compute(void *plugin, const char *name, int by_address)
{
    void *(*make_handle)(void);
    product *(*address)(void);
    int (*of_module)(product *, void *);
    long (*calls)(void);
    void *handle;
    int right;

    *(void **)&make_handle = find_function(plugin, "make_handle");
    *(void **)&address = find_function(plugin, "address");
    *(void **)&of_module = find_function(plugin, "multiply");
    *(void **)&calls = find_function(plugin, "calls");
    handle = make_handle();
    right = handle && of_module(address(), handle) && of_module(address(), handle) &&
            (!by_address || multiply(address(), handle));
    printf("%s: %s, %ld of its own\n", name, right ? "right" : "wrong", calls());
}

int main(int argc, char **argv)
{
    void *plugins[4] = { NULL };

    for (int i = 1; i < argc && i < 4; i++) {
        int scope = strncmp(argv[i], "global:", 7) == 0 ? RTLD_GLOBAL : RTLD_LOCAL;

        plugins[i] = dlopen(strchr(argv[i], ':') + 1, RTLD_LAZY | scope);
        if (!plugins[i]) {
            printf("no plugin: %s\n", dlerror());
            return 1;
        }
    }
    for (int i = 1; i < argc && i < 4; i++)
        compute(plugins[i], strrchr(argv[i], '/') + 1, argc == 2);
    return 0;
}
#endif
