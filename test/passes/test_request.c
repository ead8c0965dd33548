/* SPDX-License-Identifier: BSD-3-Clause
 * Operands of native products on a GPU are scanned only where that may pay, at the rates of an
 * H200.  Its FP64 and cuBLAS are fast, so that only large FP64 products gain from bytes, and only
 * large FP32 products from FP16.  And: classes of k, and what contracts allow in them. */
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

/* Returns the class of k of an FP32 product on a CPU: log2 of the largest k of its plan. */
static int class_of(limber_promise promise, int64_t k)
{
    const limber_contract contract = { .size = sizeof contract,
                                       .promise = promise,
                                       .scheme = "native" };
    const struct product_request r = { .contract = &contract,
                                       .a = LIMBER_F32,
                                       .b = LIMBER_F32,
                                       .c = LIMBER_F32,
                                       .m = 1000,
                                       .n = 1000,
                                       .k = k,
                                       .groups = 1 };
    const struct first_pass none = { .bits = 0 };
    const struct target cpu = { .device = 0 };
    struct request_class class;
    struct mask m = { 0 };

    limber_request_class(&class, &r, &cpu, &m, &m, &none, false);
    return class.kbits;
}

/* Returns what a promise allows for the smallest k of a class, in units of u. */
static double allowed(limber_promise promise, int kbits)
{
    const struct plan p = { .promise = promise, .kbits = kbits };

    return limber_stated_budget(&p, LIMBER_F32) * 0x1p24;
}

/* Under `native` k from 17 to 64 are a class, and from 65 to 256; other contracts do not divide
 * them.  A plan may err as the smallest k of its class allows. */
static void native_has_more_classes(void **state)
{
    const limber_promise native = LIMBER_CONTRACT_NATIVE, other = LIMBER_CONTRACT_REPRODUCIBLE;

    (void)state;
    assert_int_equal(class_of(native, 16), 4);
    assert_int_equal(class_of(native, 17), 6);
    assert_int_equal(class_of(native, 64), 6);
    assert_int_equal(class_of(native, 65), 8);
    assert_int_equal(class_of(native, 256), 8);
    assert_int_equal(class_of(native, 257), 10);
    assert_int_equal(class_of(other, 17), 8);
    assert_int_equal(class_of(other, 64), 8);
    assert_int_equal(class_of(other, 256), 8);
    assert_int_equal(class_of(LIMBER_CONTRACT_FAST, 17), 8);
    assert_true(allowed(native, 4) == 4 && allowed(other, 4) == 4);
    assert_true(allowed(native, 6) == 17 + 2);
    assert_true(allowed(native, 8) == 65 + 2 && allowed(other, 8) == 17 + 2);
    assert_true(allowed(native, 10) == 257 + 2 && allowed(other, 10) == 257 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scans_must_pay),
                                        cmocka_unit_test(native_has_more_classes) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
