/* SPDX-License-Identifier: BSD-3-Clause
 * The command `limber demo` compares errors and times of products under all contracts. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <limber/environment.h>

#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A row of the table: a contract, its name, and the format of the result. */
struct accuracy {
    const char *name, *as;
    limber_promise promise;
};
static const struct accuracy accuracies[] = {
    { "plain FP64", "f64", LIMBER_CONTRACT_NATIVE },
    { "correct", "f64", LIMBER_CONTRACT_CORRECT },
    { "binary128", "f128", LIMBER_CONTRACT_NATIVE },
};

static void print_heading(const char *what)
{
    printf("\n%s\n  %-11s %-6s %-11s %13s %13s %12s %12s\n", what, "accuracy", "format", "scheme",
           "error in ulp", "of |A||B|", "first call", "second call");
}

/* Computes the product under a contract, and prints its error and time as a row. */
static int print_row(limber_context *ctx, const struct accuracy *w, int64_t m, int64_t n, int64_t k,
                     struct array *a, int64_t row_a, int64_t col_a, struct array *b)
{
    struct cli_product p = { .turns.trans_a = row_a != a->dim[1] };
    limber_contract contract = { .size = sizeof(limber_contract), .promise = w->promise };
    limber_matrix ma = { a->data, a->format, row_a, col_a }, mb = { b->data, b->format, n, 1 };
    limber_output mc;
    limber_report r = LIMBER_REPORT_INIT;
    double start, first, second;
    struct verdict v;

    p.a = *a;
    p.b = *b;
    p.c = (struct array){ .format = format_of(w->as), .rank = 2, .dim = { m, n } };
    if (!array_alloc(&p.c, "demo"))
        return 1;
    mc = (limber_output){ p.c.data, p.c.format, n, 1 };
    if (isatty(2))
        fprintf(stderr, "\r%s ...\033[K", w->name);
    start = now();
    if (limber_gemm(ctx, &contract, m, n, k, NULL, ma, mb, NULL, mc, &r) != LIMBER_STATUS_OK) {
        array_clear(&p.c);
        return complain("%s: %s", w->name, limber_error_text());
    }
    first = now() - start;
    start = now();
    limber_gemm(ctx, &contract, m, n, k, NULL, ma, mb, NULL, mc, &r);
    second = now() - start;
    v = check_product(&p, NULL);
    if (isatty(2))
        fprintf(stderr, "\r\033[K");
    printf("  %-11s %-6s %-11s %13.4g %13.3g %10.2f ms %10.2f ms\n", w->name, w->as, r.scheme,
           v.ulp, v.relative, 1e3 * first, 1e3 * second);
    array_clear(&p.c);
    return 0;
}

/* Prints one product's errors under all contracts.  trans: A is transposed. */
static int print_table(limber_context *ctx, const char *what, int64_t m, int64_t n, int64_t k,
                       struct array *a, bool trans, struct array *b)
{
    print_heading(what);
    for (size_t i = 0; i < sizeof accuracies / sizeof *accuracies; i++)
        if (print_row(ctx, &accuracies[i], m, n, k, a, trans ? 1 : a->dim[1], trans ? a->dim[1] : 1,
                      b))
            return 1;
    return 0;
}

static bool alloc_matrix(struct array *a, int64_t rows, int64_t cols)
{
    *a = (struct array){ .format = format_of("f64"), .rank = 2, .dim = { rows, cols } };
    return array_alloc(a, "demo");
}

/* ---- a demonstration: Hilbert matrices ------------------------------------------------------- */

/* Returns the binomial coefficient n over k. */
static double choose(int n, int k)
{
    double c = 1;

    for (int i = 1; i <= k; i++)
        /* exact, since each intermediate result is a binomial coefficient */
        c = c * (n - k + i) / i;
    return c;
}

/* Multiplies a Hilbert matrix, with entries lcm(1..2n-1)/(i+j-1), by its integer inverse.  For n =
 * 10, entries of both are exact in binary64. */
static int demonstrate_hilbert(limber_context *ctx)
{
    enum { N = 10 };
    const double lcm = 232792560; /* lcm(1..19) */
    struct array h, inverse;
    int status = 1;

    if (!alloc_matrix(&h, N, N))
        return 1;
    if (alloc_matrix(&inverse, N, N)) {
        for (int i = 1; i <= N; i++)
            for (int j = 1; j <= N; j++) {
                double c = choose(i + j - 2, i - 1);
                double v =
                    (i + j - 1) * choose(N + i - 1, N - j) * choose(N + j - 1, N - i) * c * c;

                ((double *)h.data)[(i - 1) * N + j - 1] = lcm / (i + j - 1);
                ((double *)inverse.data)[(i - 1) * N + j - 1] = (i + j) % 2 ? -v : v;
            }
        status =
            print_table(ctx,
                        "Hilbert matrix of order 10, scaled to integers, times its inverse: the "
                        "result is 232792560 I",
                        N, N, N, &h, false, &inverse);
    }
    array_clear(&h);
    array_clear(&inverse);
    return status;
}

/* ---- a demonstration: numbers of a wide range ------------------------------------------------ */

/* Fills a matrix with numbers of either sign, whose exponents spread over 64 binades. */
static void fill_wide_range(struct array *a, uint64_t seed)
{
    double *x = a->data;

    for (int64_t i = 0; i < array_size(a); i++) {
        double mantissa = 1 + (double)(random_bits(&seed) >> 12) * 0x1p-52;
        uint64_t bits = random_bits(&seed);

        x[i] = ldexp(bits & 1 ? -mantissa : mantissa, (int)(bits >> 1 & 63) - 32);
    }
}

/* Multiplies matrices whose exponents spread over 64 binades, under all contracts. */
static int demonstrate_wide_range(limber_context *ctx)
{
    enum { N = 1024 };
    struct array a, b;
    int status = 1;

    if (!alloc_matrix(&a, N, N))
        return 1;
    if (alloc_matrix(&b, N, N)) {
        fill_wide_range(&a, 1);
        fill_wide_range(&b, 2);
        status =
            print_table(ctx,
                        "Random 1024 x 1024, entries from 2^-32 to 2^32 (errors of 2000 sampled "
                        "elements)",
                        N, N, N, &a, false, &b);
    }
    array_clear(&a);
    array_clear(&b);
    return status;
}

/* ---- a demonstration: real data -------------------------------------------------------------- */

/* Writes the path of a data file.  If it does not exist, prints a message and returns false. */
static bool path_in(char *out, size_t size, const char *data, const char *file)
{
    snprintf(out, size, "%s/%s", data, file);
    if (access(out, R_OK) == 0)
        return true;
    printf("\n%s: skipped, it is not there\n", out);
    return false;
}

/* Prints the table for the Gram matrix of the images of digits (MNIST) among the demo's data.
 * Returns the exit status; 0 if the file is absent. */
static int demonstrate_mnist(limber_context *ctx, const char *data)
{
    struct array images, doubles = { 0 };
    char path[4096];
    int status = 1;

    if (!path_in(path, sizeof path, data, "mnist/t10k-images-idx3-ubyte.gz"))
        return 0;
    if (!array_read(path, false, &images))
        return 1;
    array_as_rows(&images);
    if (alloc_matrix(&doubles, images.dim[0], images.dim[1]) &&
        limber_convert(doubles.data, doubles.format, images.data, images.format,
                       (size_t)array_size(&images), LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK)
        status = print_table(ctx,
                             "Gram matrix of the MNIST images: doubles that hold bytes (784 x 784, "
                             "inner 10000)",
                             images.dim[1], images.dim[1], images.dim[0], &doubles, true, &doubles);
    array_clear(&images);
    array_clear(&doubles);
    return status;
}

/* Prints the table for A'A of a sparse matrix among the demo's data.  Returns the exit status; 0
 * if the file is absent. */
static int demonstrate_basis_matrix(limber_context *ctx, const char *data)
{
    struct array a;
    char path[4096];
    int status;

    if (!path_in(path, sizeof path, data, "mtx/bp__1400.mtx"))
        return 0;
    if (!array_read(path, false, &a))
        return 1;
    status = print_table(ctx, "LP basis matrix bp__1400, its transpose times itself", a.dim[1],
                         a.dim[1], a.dim[0], &a, true, &a);
    array_clear(&a);
    return status;
}

/* The command `limber demo`: prints errors and times of some products under all contracts. */
int cmd_demo(int argc, const char **argv)
{
    struct poptOption options[] = { POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, options);
    const char *data = limber_variable_value("LIMBER_DATA");
    limber_context *ctx;
    int status;
    bool ok;

    ok = options_read(o, "\n\nReal data is taken from the folder that LIMBER_DATA "
                         "names.\n\nexample: LIMBER_DATA=/path/to/data limber demo");
    if (ok && poptPeekArg(o))
        ok = (complain("demo takes nothing, no \"%s\"", poptGetArg(o)), false);
    poptFreeContext(o);
    if (!ok)
        return 2;
    if (limber_create(&ctx, NULL) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text());
    status = demonstrate_hilbert(ctx) || demonstrate_wide_range(ctx);
    if (!status && data)
        status = demonstrate_mnist(ctx, data) || demonstrate_basis_matrix(ctx, data);
    else if (!status)
        printf("\nReal data is skipped: LIMBER_DATA names no folder.\n");
    context_end(ctx);
    return status;
}
