/* SPDX-License-Identifier: BSD-3-Clause
 * Outer products in ZA (AArch64 SME): the caller's ZA is saved to its lazy-save buffer, as the
 * procedure call standard requires, and callee-saved vector registers survive.  Skipped on other
 * CPUs. */
#include "support.h"

#include <limber/limber.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__aarch64__)
#include "ir/cpu.h"

/* N: size of the matrices; VECTOR: largest number of bytes of a slice of ZA; SLICES: largest
 * number of slices */
enum { N = 160, VECTOR = 64, SLICES = 64 };

static double a[N * N], b[N * N], c[N * N];
static unsigned char za[SLICES * VECTOR], saved[SLICES * VECTOR];
static int length; /* bytes of a ZA slice, and number of slices */
static struct {
    unsigned char *to;
    uint16_t slices;
    uint8_t zero[6];
} block;

/* Opens a context of compiled kernels with one thread. */
static limber_context *make_numbers(void)
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx = NULL;

    config.backend = "llvm";
    config.threads = 1;
    config.cache_dir = config.dump_dir = "";
    config.kernels = LIMBER_KERNELS_PREBUILT;
    if (limber_create(&ctx, &config))
        fail_msg("%s", limber_error_text());
    return ctx;
}

/* Enables ZA, fills it, and sets up a lazy save, as a caller does. */
static void set_up_lazy_save(void)
{
    for (int i = 0; i < length * length; i++)
        za[i] = (unsigned char)(7 * (i / length) + 3 * i + 1);
    __asm__ volatile(".arch armv8-a+sme\n\tsmstart za\n\tmov w12, wzr\n"
                     "1:\tldr za[w12, 0], [%0]\n\taddsvl %0, %0, #1\n\tadd w12, w12, #1\n\t"
                     "cmp w12, %w2\n\tb.lt 1b\n\tmsr TPIDR2_EL0, %1"
                     : "+r"((uintptr_t){ (uintptr_t)za })
                     : "r"(&block), "r"(length)
                     : "x12", "cc", "memory");
}

/* Returns TPIDR2_EL0, which is 0 after ZA was saved. */
static uint64_t read_tpidr2(void)
{
    uint64_t at;

    __asm__ volatile(".arch armv8-a+sme\n\tmrs %0, TPIDR2_EL0" : "=r"(at));
    return at;
}

static void multiply(limber_context *ctx)
{
    limber_matrix x = { a, LIMBER_F64, N, 1 }, y = { b, LIMBER_F64, N, 1 };
    limber_output z = { c, LIMBER_F64, N, 1 };

    if (limber_gemm(ctx, NULL, N, N, N, NULL, x, y, NULL, z, NULL))
        fail_msg("%s", limber_error_text());
}

/* Returns whether the callee-saved registers d8 and d15 survive a call. */
static bool keeps_vectors(limber_context *ctx)
{
    register double x __asm__("d8") = 8, y __asm__("d15") = 15;

    __asm__ volatile("" : "+w"(x), "+w"(y));
    multiply(ctx);
    __asm__ volatile("" : "+w"(x), "+w"(y));
    return x == 8 && y == 15;
}

/* Compares C with plain loops. */
static void check_product(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;

            for (int p = 0; p < N; p++)
                sum += a[i * N + p] * b[p * N + j];
            assert_float_equal(c[i * N + j], sum, 0); /* sums of small integers are exact */
        }
}

/* If the caller uses the ZA register of SME, kernels save it to the caller's buffer before they use
 * ZA themselves. */
static void callers_za_is_saved(void **state)
{
    limber_context *ctx;

    (void)state;
    if (!(limber_cpu() & CPU_sme)) {
        skip_because("this CPU has no SME of 256 or 512 bits");
    }
    length = limber_cpu() & CPU_sme512 ? 64 : 32;
    for (int i = 0; i < N * N; i++)
        /* numbers beyond 8 bits, since other code multiplies 8-bit integers */
        a[i] = 1000 * (i % 17 - 8) + i % 7, b[i] = i % 13 - 6;
    ctx = make_numbers();
    block.to = saved;
    block.slices = (uint16_t)length;
    set_up_lazy_save();
    multiply(ctx);
    assert_true(read_tpidr2() == 0);
    assert_memory_equal(saved, za, (size_t)(length * length));
    check_product();

    /* now ZA is off, and the caller has no buffer to save it to */
    memset(saved, 0, sizeof saved);
    memset(c, 0, sizeof c);
    block.to = NULL;
    set_up_lazy_save();
    multiply(ctx);
    assert_true(read_tpidr2() == 0);
    check_product();
    memset(c, 0, sizeof c);
    assert_true(keeps_vectors(ctx));
    check_product();
    for (int i = 0; i < SLICES * VECTOR; i++)
        assert_int_equal(saved[i], 0);
    limber_destroy(ctx);
}
#else
static void callers_za_is_saved(void **state)
{
    (void)state;
    skip_because("not an AArch64 machine");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(callers_za_is_saved) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
