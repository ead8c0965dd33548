/* SPDX-License-Identifier: BSD-3-Clause
 * The cost of contracts on this machine: how many times as long a product of n x n doubles takes
 * under each contract as under `native`, on one thread.  Values of n are arguments, such as
 * `costs 16 256 1024`. */
#include <limber/limber.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CONTRACTS = 6 };
/* The contracts of the table. */
static const struct {
    const char *name;
    limber_promise promise;
    int bits, wide; /* wide: 1 if the result is in binary128, 0 if it is in binary64 */
} kinds[CONTRACTS] = {
    { "native", LIMBER_CONTRACT_NATIVE, 0, 0 },
    { "reproducible", LIMBER_CONTRACT_REPRODUCIBLE, 0, 0 },
    { "bits=40", LIMBER_CONTRACT_BITS, 40, 0 },
    { "bits=50", LIMBER_CONTRACT_BITS, 50, 0 },
    { "correct", LIMBER_CONTRACT_CORRECT, 0, 0 },
    { "to binary128", LIMBER_CONTRACT_CORRECT, 0, 1 },
};

/* Returns the time of the monotonic clock in seconds. */
static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns a random number with standard normal distribution, by the Box-Muller transform. */
static double random_normal(void)
{
    double u = (rand() + 1.0) / (RAND_MAX + 1.0), v = rand() / (double)RAND_MAX;

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Computes c = a b for n x n matrices under contract kinds[kind]. */
static limber_status multiply(limber_context *ctx, int kind, int64_t n, const double *a,
                              const double *b, void *c)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;

    contract.promise = kinds[kind].promise;
    contract.bits = kinds[kind].bits;
    return limber_gemm(ctx, &contract, n, n, n, NULL, (limber_matrix){ a, LIMBER_F64, n, 1 },
                       (limber_matrix){ b, LIMBER_F64, n, 1 }, NULL,
                       (limber_output){ c, kinds[kind].wide ? LIMBER_F128 : LIMBER_F64, n, 1 },
                       NULL);
}

/* Prints the time of the fastest call under each contract, for n x n matrices.  The contracts
 * are timed alternately, so that other load on the machine affects all of them alike.  Returns 1
 * on failure. */
static int time_contracts(limber_context *ctx, int64_t n)
{
    double *a = malloc((size_t)(n * n) * sizeof *a), *b = malloc((size_t)(n * n) * sizeof *b);
    void *c = aligned_alloc(16, (size_t)(n * n) * 16);
    double best[CONTRACTS], until = seconds() + 1;
    int failed = !a || !b || !c;

    for (int64_t i = 0; !failed && i < n * n; i++)
        a[i] = random_normal(), b[i] = random_normal();
    for (int kind = 0; kind < CONTRACTS; kind++)
        best[kind] = INFINITY;
    for (int rounds = 0; !failed && (rounds < 3 || seconds() < until); rounds++)
        for (int kind = 0; !failed && kind < CONTRACTS; kind++) {
            double start = seconds();

            failed = multiply(ctx, kind, n, a, b, c) != LIMBER_STATUS_OK;
            best[kind] = fmin(best[kind], seconds() - start);
        }
    if (failed)
        fprintf(stderr, "n = %lld: %s\n", (long long)n, limber_error_text());
    else
        printf("%6lld %9.4f ms", (long long)n, 1e3 * best[0]);
    for (int kind = 1; !failed && kind < CONTRACTS; kind++)
        printf("%13.1f x", best[kind] / best[0]);
    puts("");
    free(a);
    free(b);
    free(c);
    return failed;
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 8, 16, 32, 64, 128, 256, 512, 1024 };
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx;
    int failed = 0;

    config.threads = 1;
    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK) {
        fprintf(stderr, "%s\n", limber_error_text());
        return 1;
    }
    printf("%6s %12s", "n", kinds[0].name);
    for (int kind = 1; kind < CONTRACTS; kind++)
        printf("%15s", kinds[kind].name);
    puts("");
    for (int i = 1; i < argc; i++)
        failed |= time_contracts(ctx, atoi(argv[i]) > 0 ? atoi(argv[i]) : 1);
    for (int i = 0; argc < 2 && i < 8; i++)
        failed |= time_contracts(ctx, sizes[i]);
    limber_destroy(ctx);
    return failed;
}
