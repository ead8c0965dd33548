/* SPDX-License-Identifier: BSD-3-Clause
 * Uses the library where it is built without LLVM, against musl, whose threads have small stacks,
 * or by other compilers: formats, a contract, a simulated unit, threads. */
#include <limber/limber.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40, THREADS = 3 };

static int failed;

static void check(int ok, const char *what)
{
    if (!ok)
        printf("FAILED: %s (%s)\n", what, limber_error_text());
    failed += !ok;
}

/* Checks a product: each row of A is 2^60, 1, 0, ..., -2^60 and B is all ones, so that every
 * element must be 1. */
static void *multiply(void *with)
{
    limber_context *ctx = with;
    static const char *const formats[] = { "f64", "f128", "dd", "f32" };
    limber_contract correct = LIMBER_CONTRACT_INIT;
    double *a = calloc(3 * N * N, sizeof *a), *b = a ? a + N * N : NULL, *c = a ? b + N * N : NULL;
    char *x = malloc(3 * N * N * 16);

    correct.promise = LIMBER_CONTRACT_CORRECT;
    check(a && x, "room");
    for (int i = 0; a && x && i < N * N; i++) {
        a[i] = i % N == 0 ? 0x1p60 : i % N == 1 ? 1 : i % N == N - 1 ? -0x1p60 : 0;
        b[i] = 1;
    }
    for (size_t f = 0; a && x && f < sizeof formats / sizeof *formats; f++) {
        limber_format t;
        const char *last = x + 2 * N * N * 16;

        check(!limber_format_named(formats[f], &t), formats[f]);
        limber_convert(x, t, a, LIMBER_F64, N * N, LIMBER_ROUND_NEAREST);
        limber_convert(x + N * N * 16, t, b, LIMBER_F64, N * N, LIMBER_ROUND_NEAREST);
        check(!limber_gemm(ctx, &correct, N, N, N, NULL, (limber_matrix){ x, t, N, 1 },
                           (limber_matrix){ x + N * N * 16, t, N, 1 }, NULL,
                           (limber_output){ x + 2 * N * N * 16, t, N, 1 }, NULL),
              formats[f]);
        limber_convert(c, LIMBER_F64, last, t, N * N, LIMBER_ROUND_NEAREST);
        for (int i = 0; i < N * N; i++)
            if (c[i] != 1) {
                check(0, formats[f]);
                break;
            }
    }
    free(a);
    free(x);
    return NULL;
}

/* Multiplies small integers on a simulated unit, which must compute them exactly. */
static void simulate(limber_context *ctx)
{
    static float a[N * N], b[N * N], c[N * N];
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_unit unit = LIMBER_UNIT_INIT;

    for (int i = 0; i < N * N; i++)
        a[i] = (float)(i % 3), b[i] = (float)(i % 5);
    check(!limber_unit_parse("h100-bf16", &unit), "limber_unit_parse");
    contract.promise = LIMBER_CONTRACT_SIMULATE;
    contract.unit = &unit;
    check(!limber_gemm(ctx, &contract, N, N, N, NULL, (limber_matrix){ a, LIMBER_F32, N, 1 },
                       (limber_matrix){ b, LIMBER_F32, N, 1 }, NULL,
                       (limber_output){ c, LIMBER_F32, N, 1 }, NULL),
          "simulate");
    for (int i = 0; i < N; i++) {
        float sum = 0;

        for (int p = 0; p < N; p++)
            sum += a[p] * b[p * N + i];
        check(c[i] == sum, "small integers by a unit");
    }
}

int main(void)
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx;
    pthread_t thread[THREADS];
    int started = 0;

    config.threads = 4;
    config.cache_dir = "";
    if (limber_create(&ctx, &config)) {
        printf("FAILED: %s\n", limber_error_text());
        return 1;
    }
    multiply(ctx);
    simulate(ctx);
    while (started < THREADS && pthread_create(&thread[started], NULL, multiply, ctx) == 0)
        started++;
    check(started == THREADS, "pthread_create");
    while (started-- > 0)
        pthread_join(thread[started], NULL);
    limber_destroy(ctx);
    if (!failed)
        printf("products are right\n");
    return failed != 0;
}
