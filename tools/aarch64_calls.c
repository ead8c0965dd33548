/* SPDX-License-Identifier: BSD-3-Clause
 * Calls products of n x n matrices; tools/aarch64_calls.sh counts their instructions.
 *
 *   aarch64_calls LIBRARY ROUTINE N CALLS      ROUTINE: dgemm_ or sgemm_, with :TN and so on for
 *                                              transposed operands; limber_gemm: INT8 x INT8 */
#include <limber/limber.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void gemm(const char *ta, const char *tb, const int *m, const int *n, const int *k,
                  const void *alpha, const void *a, const int *lda, const void *b, const int *ldb,
                  const void *beta, void *c, const int *ldc);

static void *symbol(void *library, const char *name)
{
    void *p = dlsym(library, name);

    if (!p) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return p;
}

/* Calls a library's sgemm or dgemm several times, for square matrices. routine: its name, and after
 * a colon the letters of both operands' op. */
static void call_blas(void *library, const char *routine, int n, int calls)
{
    const double one = 1, zero = 0;
    const float narrow_one = 1, narrow_zero = 0;
    const size_t all = (size_t)n * (size_t)n;
    bool dbl = routine[0] == 'd';
    char name[16], turned[2][2] = { "N", "N" };
    double *a = malloc(3 * all * sizeof *a);
    float *narrow = (float *)(void *)a;
    gemm *run;

    if (sscanf(routine, "%15[^:]:%1s%1s", name, turned[0], turned[1]) < 1)
        exit(1);
    *(void **)&run = symbol(library, name);
    for (size_t i = 0; a && i < 2 * all; i++) {
        double x = (double)(i * 2654435761u % 1000003) / 1000003 - 0.5;

        if (dbl)
            a[i] = x;
        else
            narrow[i] = (float)x;
    }
    for (int i = 0; a && i < calls; i++)
        if (dbl)
            run(turned[0], turned[1], &n, &n, &n, &one, a, &n, a + all, &n, &zero, a + 2 * all, &n);
        else
            run(turned[0], turned[1], &n, &n, &n, &narrow_one, narrow, &n, narrow + all, &n,
                &narrow_zero, narrow + 2 * all, &n);
    free(a);
}

/* Multiplies square matrices of 8-bit integers several times, by a Limber library that is opened at
 * run time. */
static void call_limber(void *library, int n, int calls)
{
    const size_t all = (size_t)n * (size_t)n;
    int8_t *a = malloc(2 * all);
    int32_t *c = malloc(all * sizeof *c);
    limber_context *ctx = NULL;
    __typeof__(&limber_create) create;
    __typeof__(&limber_gemm) run;
    __typeof__(&limber_destroy) destroy;

    *(void **)&create = symbol(library, "limber_create");
    *(void **)&run = symbol(library, "limber_gemm");
    *(void **)&destroy = symbol(library, "limber_destroy");
    for (size_t i = 0; a && i < 2 * all; i++)
        a[i] = (int8_t)(i * 2654435761u >> 13);
    if (!a || !c || create(&ctx, NULL))
        exit(1);
    for (int i = 0; i < calls; i++)
        if (run(ctx, NULL, n, n, n, NULL, (limber_matrix){ a, LIMBER_I8, n, 1 },
                (limber_matrix){ a + all, LIMBER_I8, n, 1 }, NULL,
                (limber_output){ c, LIMBER_I32, n, 1 }, NULL))
            exit(1);
    destroy(ctx);
    free(a);
    free(c);
}

int main(int argc, char **argv)
{
    void *library = argc == 5 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;

    if (!library) {
        fprintf(stderr, "usage: aarch64_calls LIBRARY ROUTINE N CALLS (%s)\n",
                argc == 5 ? dlerror() : "four arguments");
        return 2;
    }
    if (strcmp(argv[2], "limber_gemm") == 0)
        call_limber(library, atoi(argv[3]), atoi(argv[4]));
    else
        call_blas(library, argv[2], atoi(argv[3]), atoi(argv[4]));
    return 0;
}
