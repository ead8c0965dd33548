/* SPDX-License-Identifier: BSD-3-Clause
 * Floating-point modes of the program: rounding, flush-to-zero as by -ffast-math, and traps.
 * Whatever is set, every public call must give the usual bits, raise no trap, and restore modes and
 * flags. */
#define _GNU_SOURCE /* for feenableexcept */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_call.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static double want[2 * ALL]; /* the result of an undisturbed call */

/* Returns the CPU's control and status registers of floating-point arithmetic. */
static uint64_t controls(void)
{
#if defined(__x86_64__)
    return _mm_getcsr();
#elif defined(__aarch64__)
    uint64_t modes, flags;

    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(modes), "=r"(flags) : : "memory");
    return modes << 32 | flags;
#else
    return (uint64_t)fegetround();
#endif
}

/* Clears the fields of the control register FPCR, some of which fesetenv does not change. */
static void clear_fields(void)
{
#if defined(__aarch64__)
    __asm__ volatile("msr fpcr, xzr" : : : "memory");
#endif
}

#if defined(__aarch64__)
/* Sets fields of the control register FPCR.  Fields that the CPU lacks stay zero. */
static void set_fields(uint64_t fields)
{
    uint64_t modes;

    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    __asm__ volatile("msr fpcr, %0" : : "r"(modes | fields) : "memory");
}

static void default_nan(void)
{
    set_fields(1 << 25);
}
static void set_fp16_modes(void) /* AHP, halves without infinities, and FZ16 */
{
    set_fields(1 << 26 | 1 << 19);
}
static void set_alternative_flushing(void) /* FIZ, AH and NEP of FEAT_AFP */
{
    set_fields(1 | 1 << 1 | 1 << 2);
}
static void set_bf16_modes(void) /* EBF of FEAT_EBF16 */
{
    set_fields(1 << 13);
}
#endif

/* Sets the CPU to replace subnormal operands and results by 0. */
static void flush_to_zero(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
    set_fields(1 << 24);
#endif
}

static void round_up(void)
{
    fesetround(FE_UPWARD);
}
static void round_down(void)
{
    fesetround(FE_DOWNWARD);
}
static void round_to_zero(void)
{
    fesetround(FE_TOWARDZERO);
}

static void enable_traps(void)
{
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
}

static const struct {
    const char *name;
    void (*set)(void);
} modes[] = {
    { "rounding up", round_up },
    { "rounding down", round_down },
    { "rounding to zero", round_to_zero },
    { "subnormals flushed", flush_to_zero },
    { "traps", enable_traps },
#if defined(__aarch64__)
    { "a default NaN", default_nan },
    { "other halves", set_fp16_modes },
    { "other flushing", set_alternative_flushing },
    { "other products", set_bf16_modes },
#endif
};

/* Makes some elements subnormal, which flush-to-zero would lose. */
static void make_some_subnormal(void)
{
    for (int i = 0; i < ALL; i += 3) {
        a[i] *= 0x1p-1060;
        b[i] *= 0x1p100;
    }
}

/* Calls give the same bits in each rounding and subnormal mode of the processor, and leave the mode
 * as it was. */
static void modes_change_nothing(void **state)
{
    (void)state;
    fill_operands();
    make_some_subnormal();
    for (int k = 0; limber_backends[k]; k++) {
        limber_context *ctx;

        if (open_context(&ctx, limber_backends[k]->name, ""))
            continue;
        for (size_t i = 0; i < COUNT(calls); i++) {
            /* bind_shape calls generated code directly, in the program's own modes */
            if (!strcmp(calls[i].name, "bind_shape") ||
                !serves(limber_backends[k]->name, &calls[i]))
                continue;
            reset();
            if (calls[i].call(ctx))
                fail_msg("%s: %s", calls[i].name, limber_error_text());
            memcpy(want, c, sizeof c);
            for (size_t m = 0; m < COUNT(modes); m++) {
                uint64_t before, after;
                limber_status status;
                fenv_t usual;

                reset();
                fegetenv(&usual);
                modes[m].set();
                before = controls();
                status = calls[i].call(ctx);
                after = controls();
                fesetenv(&usual);
                clear_fields();
                if (status || memcmp(c, want, sizeof c))
                    fail_msg("%s, %s: %s", calls[i].name, modes[m].name,
                             status ? "failed" : "other bits");
                if (before != after)
                    fail_msg("%s, %s: modes or flags are not as they were", calls[i].name,
                             modes[m].name);
            }
        }
        limber_destroy(ctx);
    }
}

/* Threads of the pool must not inherit the modes of the call that starts them. */
static void threads_have_modes_of_their_own(void **state)
{
    enum { LARGE = 300 };
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT,
                                      .scheme = "accumulator" };
    double *x = calloc(LARGE * LARGE, sizeof *x), *y[2];
    struct rng r = { 2 };

    (void)state;
    fill(&r, DATA_range, f64, x, LARGE * LARGE);
    for (int m = 0; m < 2; m++) {
        limber_context *ctx;
        fenv_t usual;

        y[m] = calloc(LARGE * LARGE, sizeof *y[m]);
        fegetenv(&usual);
        if (m) {
            round_up();
            flush_to_zero();
        }
        if (limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                  .threads = 3,
                                                  .cache_dir = "" }) == LIMBER_STATUS_OK)
            assert_int_equal(limber_gemm(ctx, &correct, LARGE, LARGE, 20, NULL, matrix(x, f64, 20),
                                         matrix(x, f64, LARGE), NULL,
                                         output_of(matrix(y[m], f64, LARGE)), NULL),
                             LIMBER_STATUS_OK);
        limber_destroy(ctx);
        fesetenv(&usual);
    }
    assert_memory_equal(y[0], y[1], LARGE * LARGE * sizeof *x);
    free(x);
    free(y[0]);
    free(y[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_change_nothing),
        cmocka_unit_test(threads_have_modes_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
