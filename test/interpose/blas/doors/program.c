/* SPDX-License-Identifier: BSD-3-Clause
 * A program that calls a BLAS through another library: `program flexiblas LIBRARY`, `program global
 * LIBRARY`, which finds functions as a linked program does, or `program trampoline LIBRARY BITS
 * BLAS SHIM`.  Prints how many products reached the BLAS. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 120, ROUNDS = 2 };

static void *library;
static double a[N * N], b[N * N], c[N * N];

static void fill(double *x)
{
    for (int i = 0; i < N * N; i++)
        x[i] = rand() / (RAND_MAX + 1.0) - 0.5;
}

/* Returns "right" if c = a b, else "wrong". */
static const char *compare(void)
{
    double worst = 0;

    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;

            for (int p = 0; p < N; p++)
                sum += a[i + p * N] * b[p + j * N];
            worst = fmax(worst, fabs(sum - c[i + j * N]));
        }
    return worst < 1e-12 ? "right" : "wrong";
}

static void *find(const char *name, const char *suffix)
{
    char text[64];
    void *f;

    snprintf(text, sizeof text, "%s%s", name, suffix);
    f = dlsym(library, text);
    if (!f) {
        printf("there is no %s\n", text);
        exit(1);
    }
    return f;
}

/* Returns how many calls the mock BLAS has counted, or -1 if it has no counter. blas: its file,
 * which must be loaded already; NULL: the library that the program opened. */
static int calls_of(const char *blas)
{
    void *behind = blas ? dlopen(blas, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    const int *calls = dlsym(blas ? behind : library, "mock_calls");

    return calls ? *calls : -1;
}

/* Multiplies by dgemm_, and prints whether the result is right and how many calls the mock
 * counted. */
static void multiply(const char *suffix, const char *blas)
{
    const int64_t n = N; /* functions with 32-bit integers read N from the lower half */
    const double one = 1, zero = 0;
    const int before = calls_of(blas);
    void (*gemm)(const char *, const char *, const void *, const void *, const void *, const void *,
                 const void *, const void *, const void *, const void *, const void *, void *,
                 const void *, size_t, size_t);

    *(void **)&gemm = find("dgemm_", suffix);
    memset(c, 0, sizeof c);
    gemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);
    printf("dgemm_%s is %s, %d behind\n", suffix, compare(), calls_of(blas) - before);
}

/* Multiplies by cblas_dgemm, and prints whether the result is right and how many calls the mock
 * BLAS has counted. bits: width of its integers. */
static void multiply_cblas(const char *suffix, int bits, const char *blas)
{
    const int before = calls_of(blas);
    void (*narrow)(int, int, int, int, int, int, double, const double *, int, const double *, int,
                   double, double *, int);
    void (*wide)(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t,
                 const double *, int64_t, double, double *, int64_t);

    *(void **)&narrow = *(void **)&wide = find("cblas_dgemm", suffix);
    memset(c, 0, sizeof c);
    if (bits == 64)
        wide(102, 111, 111, N, N, N, 1, a, N, b, N, 0, c, N);
    else
        narrow(102, 111, 111, N, N, N, 1, a, N, b, N, 0, c, N);
    printf("cblas_dgemm%s is %s, %d behind\n", suffix, compare(), calls_of(blas) - before);
}

/* Asks libblastrampoline to forward to a library.  clear: undoes earlier forwards. */
static void forward(const char *file, int clear)
{
    int32_t (*lbt_forward)(const char *, int32_t, int32_t, const char *);

    *(void **)&lbt_forward = find("lbt_forward", "");
    printf("%s\n", lbt_forward(file, clear, 0, NULL) > 0 ? "forwarded" : "refused");
}

/* Lets libblastrampoline forward to a BLAS and to the shim in turn, and prints after each change
 * which library computes. */
static void through_trampoline(int bits, const char *blas, const char *shim)
{
    const char *suffix = bits == 64 ? "64_" : "";
    const int64_t n = 3, step = 1;
    const float x[3] = { 1, 3, 2 };
    int32_t (*isamax)(const void *, const float *, const void *);
    float (*sdot)(const void *, const float *, const void *, const float *, const void *);

    forward(shim, 0); /* before a BLAS is loaded */
    for (int round = 0; round < ROUNDS; round++) {
        forward(blas, 1);
        multiply(suffix, blas);
        forward(shim, 0);
        multiply(suffix, blas);
        forward(shim, 0); /* a second time: the shim must still find the BLAS */
        multiply(suffix, blas);
        if (bits == 32) /* the mock has no cblas_dgemm64_ */
            multiply_cblas(suffix, bits, blas);
    }
    *(void **)&isamax = find("isamax_", suffix);
    *(void **)&sdot = find("sdot_", suffix);
    printf("isamax %d, sdot %g\n", isamax(&n, x, &step), sdot(&n, x, &step, x, &step));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    library = dlopen(argv[2], RTLD_LAZY | (strcmp(argv[1], "global") ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    fill(a);
    fill(b);
    if (strcmp(argv[1], "flexiblas") == 0) {
        multiply("", NULL);
        multiply("", NULL);
        dlclose(library);
    } else if (strcmp(argv[1], "global") == 0) {
        library = RTLD_DEFAULT;
        multiply("", NULL);
        multiply_cblas("", 32, NULL);
    } else if (argc == 6) {
        through_trampoline(atoi(argv[3]), argv[4], argv[5]);
    }
    return 0;
}
