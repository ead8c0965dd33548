/* SPDX-License-Identifier: BSD-3-Clause
 * Computes a product repeatedly.  warm.sh counts, with a debugger, the function calls of the last
 * one.
 *
 *   program native | correct */
#include <limber/limber.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { N = 256 };

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
    limber_config config = LIMBER_CONFIG_INIT;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_context *ctx;
    uint64_t seed = 1;

    if (count < 2)
        return 2;
    contract.promise = strcmp(word[1], "native") ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE;
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
        if (run == 4)
            counting_begins();
        if (limber_gemm(ctx, &contract, N, N, N, NULL, (limber_matrix){ a, LIMBER_F64, N, 1 },
                        (limber_matrix){ b, LIMBER_F64, N, 1 }, NULL,
                        (limber_output){ c, LIMBER_F64, N, 1 }, NULL)) {
            fprintf(stderr, "%s\n", limber_error_text());
            return 1;
        }
    }
    limber_destroy(ctx);
    return 0;
}
