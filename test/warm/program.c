/* SPDX-License-Identifier: BSD-3-Clause
 * Computes a product, a convolution or a batch repeatedly.  warm.sh counts, with a debugger, the
 * function calls of the last one.
 *
 *   program native | correct | conv | batch */
#include <limber/limber.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { N = 256, SMALL = 96, COUNT = 4 };

/* A breakpoint at which the debugger begins to count. */
void counting_begins(void);
__attribute__((noinline)) void counting_begins(void)
{
    __asm__ volatile("");
}

static double number(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 12) * 0x1p-52;
}

int main(int count, char **word)
{
    static double a[N * N], b[N * N], c[N * N];
    const limber_conv conv = { .size = sizeof conv,
                               .n = 1,
                               .c = 64,
                               .h = 28,
                               .w = 28,
                               .o = 64,
                               .r = 3,
                               .s = 3,
                               .stride = { 1, 1 },
                               .pad = { 1, 1, 1, 1 },
                               .dilate = { 1, 1 },
                               .groups = 1 };
    const limber_batch batch = { .size = sizeof batch,
                                 .count = COUNT,
                                 .a = SMALL * SMALL,
                                 .b = SMALL * SMALL,
                                 .c = SMALL * SMALL };
    limber_config config = LIMBER_CONFIG_INIT;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_context *ctx;
    uint64_t seed = 1;

    if (count < 2)
        return 2;
    contract.promise = !strcmp(word[1], "native") || !strcmp(word[1], "conv") ?
                           LIMBER_CONTRACT_NATIVE :
                           LIMBER_CONTRACT_CORRECT;
    config.threads = 1;
    config.cache_dir = "";
    config.kernels = LIMBER_KERNELS_PREBUILT;
    if (limber_create(&ctx, &config)) {
        fprintf(stderr, "%s\n", limber_error_text());
        return 77;
    }
    for (int i = 0; i < N * N; i++) {
        a[i] = number(&seed);
        b[i] = number(&seed);
    }
    for (int run = 0; run < 5; run++) {
        limber_problem p = LIMBER_PROBLEM_INIT;
        limber_status status;

        p.contract = &contract;
        p.m = p.n = p.k = SMALL;
        p.a = (limber_matrix){ a, LIMBER_F64, SMALL, 1 };
        p.b = (limber_matrix){ b, LIMBER_F64, SMALL, 1 };
        p.c = (limber_output){ c, LIMBER_F64, SMALL, 1 };
        p.batch = &batch;
        if (run == 4)
            counting_begins();
        if (!strcmp(word[1], "conv"))
            status = limber_conv2d(ctx, &contract, &conv, NULL, a, LIMBER_F32, b, LIMBER_F32, NULL,
                                   c, LIMBER_F32, NULL);
        else if (!strcmp(word[1], "batch"))
            status = limber_run(ctx, &p, NULL);
        else
            status =
                limber_gemm(ctx, &contract, N, N, N, NULL, (limber_matrix){ a, LIMBER_F64, N, 1 },
                            (limber_matrix){ b, LIMBER_F64, N, 1 }, NULL,
                            (limber_output){ c, LIMBER_F64, N, 1 }, NULL);
        if (status) {
            fprintf(stderr, "%s\n", limber_error_text());
            return 1;
        }
    }
    limber_destroy(ctx);
    return 0;
}
