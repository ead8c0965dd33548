/* SPDX-License-Identifier: BSD-3-Clause
 * An extension module with a BLAS of its own, and a host that loads the module in a local scope, as
 * Python does.  `host PLUGIN` prints how many products the module's BLAS has computed, for the
 * module and for the host, which gets the function's address from the module. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef PLUGIN
#include "name.h"

extern int mock_calls;

void NAME(dgemm)(const char *, const char *, const INTEGER *, const INTEGER *, const INTEGER *,
                 const double *, const double *, const INTEGER *, const double *, const INTEGER *,
                 const double *, double *, const INTEGER *, size_t, size_t);

void *address(void);
/* Returns dgemm's address as this module sees it. */
void *address(void)
{
    return (void *)NAME(dgemm);
}

/* Multiplies three times.  Returns the number of products that the module's BLAS has computed, or
 * -1 if a result is wrong. */
int run(void);
int run(void)
{
    const INTEGER two = 2;
    const double a[] = { 1, 2, 3, 4 }, b[] = { 5, 6, 7, 8 }, one = 1, zero = 0;
    double c[4];

    for (int i = 0; i < 3; i++) {
        NAME(dgemm)("N", "N", &two, &two, &two, &one, a, &two, b, &two, &zero, c, &two, 1, 1);
        if (c[0] != 23 || c[1] != 34 || c[2] != 31 || c[3] != 46)
            return -1;
    }
    return mock_calls;
}
#else
typedef void product(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
                     const double *, const double *, const int64_t *, const double *,
                     const int64_t *, const double *, double *, const int64_t *, size_t, size_t);

/* Multiplies and checks the result.  Functions with 32-bit integers read the same sizes from the
 * lower halves of the integers. */
static int is_right(product *dgemm)
{
    const int64_t two = 2;
    const double a[] = { 1, 2, 3, 4 }, one = 1, zero = 0;
    double c[4] = { 0 };

    dgemm("N", "N", &two, &two, &two, &one, a, &two, a, &two, &zero, c, &two, 1, 1);
    return c[0] == 7 && c[1] == 10 && c[2] == 15 && c[3] == 22;
}

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_LOCAL | RTLD_LAZY) : NULL;
    int (*run)(void) = NULL;
    void *(*address)(void) = NULL;
    product *dgemm;

    if (plugin)
        *(void **)&address = dlsym(plugin, "address");
    if (plugin)
        *(void **)&run = dlsym(plugin, "run");
    if (!run || !address) {
        printf("no plugin: %s\n", dlerror());
        return 1;
    }
    *(void **)&dgemm = address();
    printf("%s by address\n", is_right(dgemm) ? "right" : "wrong");
    printf("%d products of its own\n", run());
    return 0;
}
#endif
