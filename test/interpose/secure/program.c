/* SPDX-License-Identifier: BSD-3-Clause
 * A program that the test makes set-user-id.  It is linked with liblimber_blas before its BLAS,
 * multiplies through both libraries, and prints nothing.  Exit status 3: it has no elevated
 * rights. */
#include <limber/limber.h>

#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

enum { N = 100 };

void dgemm_(const char *, const char *, const int32_t *, const int32_t *, const int32_t *,
            const void *, const void *, const int32_t *, const void *, const int32_t *,
            const void *, void *, const int32_t *, size_t, size_t);

static double a[N * N], c[N * N];

/* Returns whether c is right, and clears it. */
static int is_right(void)
{
    for (int i = 0; i < N * N; i++)
        if (c[i] != N)
            return 0;
    memset(c, 0, sizeof c);
    return 1;
}

static int multiply(limber_context *ctx)
{
    const limber_contract native = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_NATIVE };
    const limber_matrix x = { a, LIMBER_F64, N, 1 };
    const limber_output y = { c, LIMBER_F64, N, 1 };

    return limber_gemm(ctx, &native, N, N, N, NULL, x, x, NULL, y, NULL) == LIMBER_STATUS_OK &&
           is_right();
}

int main(void)
{
    const limber_config gpu = { .size = sizeof(limber_config), .backend = "cuda" };
    const int32_t n = N;
    const double one = 1, zero = 0;
    limber_context *ctx;

    for (int i = 0; i < N * N; i++)
        a[i] = 1;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n, 1, 1);
    if (!is_right() || limber_create(&ctx, NULL) != LIMBER_STATUS_OK || !multiply(ctx))
        return 1;
    limber_destroy(ctx);
    if (limber_create(&ctx, &gpu) == LIMBER_STATUS_OK)
        limber_destroy(ctx);
    return getauxval(AT_SECURE) ? 0 : 3;
}
