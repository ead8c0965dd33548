/* SPDX-License-Identifier: BSD-3-Clause
 * Operands of native products on a GPU are scanned only where that may pay, at the rates of an
 * H200.  Its FP64 and cuBLAS are fast, so that only large FP64 products gain from bytes, and only
 * large FP32 products from FP16. */
#include "backends/cuda/cuda.h"
#include "ir/num/prim_num.h"
#include "passes/contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Returns which scan a native product on an H200 needs, with or without cuBLAS. */
static enum data_need need(limber_format f, int64_t m, int64_t n, int64_t k, bool cublas)
{
    const limber_contract contract = { .size = sizeof contract, .promise = LIMBER_CONTRACT_NATIVE };
    struct target t;
    struct diag d = { 0 };

    assert_true(limber_cuda_arch(&t, 9, 0, 132, 1.98e9, 232448, 60 << 20, &d));
    t.bandwidth = 4.9e12;
    if (cublas)
        strcat(t.features, ",cublas");
    return limber_data_need(
        &(struct product_request){
            .contract = &contract, .a = f, .b = f, .c = f, .m = m, .n = n, .k = k, .groups = 1 },
        &t);
}

/* Operands are scanned only if the product is so large that the scan may save time. */
static void scans_must_pay(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 4096; n *= 2)
        assert_int_equal(need(LIMBER_F64, n, n, n, true), NEED_nothing);
    assert_int_equal(need(LIMBER_F64, 8192, 8192, 8192, true), NEED_masks);
    assert_int_equal(need(LIMBER_F64, 8192, 8192, 512, true), NEED_nothing);
    assert_int_equal(need(LIMBER_F64, 4096, 4096, 4096, false), NEED_masks);
    for (int64_t n = 1; n <= 1024; n *= 2)
        assert_int_equal(need(LIMBER_F32, n, n, n, true), NEED_nothing);
    assert_int_equal(need(LIMBER_F32, 2048, 2048, 2048, true), NEED_masks);
    assert_int_equal(need(LIMBER_F32, 1, 1 << 20, 1 << 10, true), NEED_nothing);
    /* the library's own plan is chosen, since cuBLAS is not considered for FP16 */
    assert_int_equal(need(LIMBER_F16, 2048, 2048, 2048, true),
                     need(LIMBER_F16, 2048, 2048, 2048, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scans_must_pay) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
