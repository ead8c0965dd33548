/* SPDX-License-Identifier: BSD-3-Clause
 * A correctly rounded product of doubles: the sum 1e16 + 1 - 1e16.  Its exact value is 1, but FP64
 * arithmetic gives 0. */
#include <limber/limber.h>

#include <stdio.h>

int main(void)
{
    double a[] = { 1e16, 1, -1e16 }, b[] = { 1, 1, 1 }, c = 0;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_context *ctx;

    contract.promise = LIMBER_CONTRACT_CORRECT;
    if (limber_create(&ctx, NULL) != LIMBER_STATUS_OK ||
        limber_gemm(ctx, &contract, 1, 1, 3, NULL, (limber_matrix){ a, LIMBER_F64, 3, 1 },
                    (limber_matrix){ b, LIMBER_F64, 1, 1 }, NULL,
                    (limber_output){ &c, LIMBER_F64, 1, 1 }, NULL) != LIMBER_STATUS_OK) {
        fprintf(stderr, "%s\n", limber_error_text());
        return 1;
    }
    printf("%g\n", c);
    limber_destroy(ctx);
    return c != 1;
}
