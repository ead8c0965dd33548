/* SPDX-License-Identifier: BSD-3-Clause
 * Tests slices on the device that hold the upper bits of numbers only (contract `fast`): elements
 * are rounded alike and digits are the same, so C has the interpreter's bits though products of
 * slices are left out. */
#include "gpus.h"
#include "support.h"

#include "ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M = 20, N = 21, K = 70 };

/* A product in a format, and the number of slices of an operand. */
struct sliced {
    const char *scheme, *format;
    int slices;
};

/* Multiplies on a backend, in a new context.  Returns 1 on success, 0 if the call fails, 2 if there
 * is no context, 3 if NVRTC refuses the kernels, 4 if the device lacks the unit. */
static int multiply(const struct sliced *x, const char *backend, const char *a, const char *b,
                    double c[M * N])
{
    const limber_contract fast = { .size = sizeof fast,
                                   .promise = LIMBER_CONTRACT_FAST,
                                   .slices = x->slices,
                                   .scheme = x->scheme };
    const limber_config config = { .size = sizeof config, .backend = backend, .cache_dir = "" };
    limber_format f = named(x->format);
    limber_context *ctx;
    int done = 1;

    if (limber_create(&ctx, &config))
        return 2;
    if (limber_gemm(ctx, &fast, M, N, K, NULL, (limber_matrix){ a, f, K, 1 },
                    (limber_matrix){ b, f, 1, K }, NULL, (limber_output){ c, named("f64"), N, 1 },
                    NULL))
        done = strstr(limber_error_text(), "NVRTC") ? 3 : gpu_lacks(limber_error_text()) ? 4 : 0;
    limber_destroy(ctx);
    return done;
}

/* Multiplies by a struct sliced on the device and by the interpreter.  Returns 1 if both results
 * have the same bits or the device lacks the unit, 0 if they differ or a call fails, 2 if there is
 * no context, 3 if NVRTC refuses the kernels. */
static int compare_slices(void *what)
{
    const struct sliced *x = what;
    limber_format f = named(x->format);
    char *a = malloc((size_t)(M * K) * f.size), *b = malloc((size_t)(N * K) * f.size);
    double right[M * N], c[M * N];
    struct rng r = { 77 };
    int same;

    for (int i = 0; i < (M + N) * K; i++) {
        double v = ldexp(rng_unit(&r) - 0.5, rng_below(&r, 40));
        int at = i < M * K ? i : i - M * K;

        limber_convert((i < M * K ? a : b) + (size_t)at * f.size, f, &v, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
    }
    same = multiply(x, "interp", a, b, right);
    if (same == 1)
        same = multiply(x, "cuda", a, b, c);
    free(a);
    free(b);
    return same == 1 ? !memcmp(c, right, sizeof c) : same == 4 ? 1 : same;
}

/* Slices on each kind of unit, of operands in all formats, give the interpreter's bits. */
static void slices_have_the_interpreters_bits(void **state)
{
    static const char *const schemes[] = { "ozaki1-i8", "ozaki1-f16", "ozaki1-bf16", "ozaki1-f64",
                                           "ozaki1-e4m3" };
    static const char *const formats[] = { "f64", "f32", "bf16", "i32", "dd", "f128", "posit32" };

    (void)state;
    for (size_t i = 0; i < COUNT(schemes); i++)
        /* all units read elements by the same code, so only the first scheme is tested with all
         * formats */
        for (size_t f = 0; f < (i ? 1 : COUNT(formats)); f++) {
            struct sliced x = { schemes[i], formats[f], f % 2 ? 3 : 2 };

            if (compare_slices(&x) != 1)
                fail_msg("%s, %s: %s", x.scheme, x.format, limber_error_text());
        }
}

/* Faults planted in the code that makes slices must change the result.  Three slices of a byte
 * take one 32-bit word, nine take three. */
static void planted_faults_are_found(void **state)
{
    static const struct gpu_fault few[] = {
        { 80, "slices of truncated numbers",
          "? down - 1 : 63)) + 1) >> 1=>? down - 1 : 63))) >> 1" },
        { 80, "digits that are not balanced", "= w[x][i] + half[i];=>= w[x][i];" },
    };
    static const struct gpu_fault many[] = {
        { 80, "slices of truncated wide numbers", "m[0]++;=>;" },
        { 80, "digits without a carry", "carry = sum < half[i] || w[x][i] < sum;=>;" },
    };
    static const struct gpu_fault halves[] = {
        { 80, "a top digit without a sign", "<< (31 - step)) >> (31 - step)=>)" },
    };
    struct sliced x = { "ozaki1-i8", "f64", 3 }, y = { "ozaki1-i8", "f64", 9 },
                  z = { "ozaki1-f16", "f64", 3 };

    (void)state;
    assert_int_equal(compare_slices(&y), 1);
    gpu_faults_are_found(few, COUNT(few), compare_slices, &x);
    gpu_faults_are_found(many, COUNT(many), compare_slices, &y);
    gpu_faults_are_found(halves, COUNT(halves), compare_slices, &z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_have_the_interpreters_bits),
        cmocka_unit_test(planted_faults_are_found),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
