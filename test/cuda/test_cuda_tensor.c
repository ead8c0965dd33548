/* SPDX-License-Identifier: BSD-3-Clause
 * Products by tensor cores whose operands are not split: which contracts choose them, that they
 * have the interpreter's bits, and that errors stay within the bound. */
#include "gpus.h"
#include "plans.h"
#include "support.h"

#include "backends/backend.h"
#include "backends/cuda/cuda.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_cuda;

/* Products of 8-bit and 16-bit floats on tensor cores, on several kinds of data and shapes, have
 * the interpreter's bits. */
static void tensor_cores_have_the_interpreters_bits(void **state)
{
    static const struct {
        const char *scheme, *f, *result;
    } kinds[] = {
        { "tensor-e4m3", "e4m3", "bf16" }, { "tensor-e5m2", "e5m2", "f32" },
        { "tensor-f16", "e4m3", "f32" },   { "tensor-f16", "e5m2", "f16" },
        { "tensor-f16", "f16", "f32" },
    };
    static const enum data data[] = { DATA_unit, DATA_range, DATA_tiny, DATA_special };

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        limber_format f = named(kinds[i].f), result = named(kinds[i].result);

        for (size_t j = 0; j < COUNT(data); j++)
            plan_compare(kinds[i].scheme, f, result, data[j], 9, 21, 150 + 17 * (int)j);
        plan_compare(kinds[i].scheme, f, result, DATA_unit, 135, 12, 300);
        plan_compare(kinds[i].scheme, f, result, DATA_ties, 5, 133, 40);
    }
}

/* ---- the chosen scheme ----------------------------------------------------------------------- */

static const struct mask unknown = { .scanned = false };

/* Makes the plan of a product for a GPU of some compute capability. */
static void make_plan(struct plan *p, struct target *t, int capability, const struct planned *x)
{
    struct diag d = { 0 };

    assert_true(
        limber_cuda_arch(t, capability / 10, capability % 10, 132, 1.7e9, 227 << 10, 50 << 20, &d));
    build_plan(p, x);
    if (!limber_passes_run(p, t, NULL, (struct pass_watch){ 0 }, &d))
        fail_msg("%s", d.text);
}

/* Each contract must choose the expected unit for these formats and lengths.  The plans assume
 * nothing about the data. */
static void contracts_decide_which_unit_is_chosen(void **state)
{
    static const struct {
        int capability;
        const char *f, *result;
        limber_promise promise;
        int kbits;
        const char *scheme;
    } cases[] = {
        { 90, "e4m3", "bf16", LIMBER_CONTRACT_NATIVE, 10, "tensor-e4m3" },
        { 90, "e5m2", "f16", LIMBER_CONTRACT_NATIVE, 10, "tensor-e5m2" },
        { 90, "e4m3", "e4m3", LIMBER_CONTRACT_NATIVE, 4, "tensor-e4m3" },
        { 90, "e4m3", "f32", LIMBER_CONTRACT_FAST, 10, "tensor-e4m3" },
        { 89, "e5m2", "bf16", LIMBER_CONTRACT_NATIVE, 10, "tensor-e5m2" },
        /* the tensor core keeps 14 bits of sums, too few for these results and lengths */
        { 90, "e4m3", "f32", LIMBER_CONTRACT_NATIVE, 10, "tensor-f16" },
        { 90, "e5m2", "f32", LIMBER_CONTRACT_NATIVE, 12, "tensor-f16" },
        { 90, "e4m3", "f16", LIMBER_CONTRACT_NATIVE, 4, "tensor-f16" },
        { 90, "e4m3", "f32", LIMBER_CONTRACT_NATIVE, 5, "native" },
        { 90, "f16", "f16", LIMBER_CONTRACT_NATIVE, 10, "tensor-f16" },
        { 90, "f16", "f32", LIMBER_CONTRACT_NATIVE, 10,
          "native" }, /* all elements may be subnormal */
        /* the device has no FP8 unit, or none whose way of summing is known */
        { 80, "e4m3", "bf16", LIMBER_CONTRACT_NATIVE, 10, "tensor-f16" },
        { 100, "e5m2", "bf16", LIMBER_CONTRACT_NATIVE, 10, "tensor-f16" },
        { 75, "e4m3", "bf16", LIMBER_CONTRACT_NATIVE, 10, "tensor-f16" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct target t;
        struct plan p;

        make_plan(&p, &t, cases[i].capability,
                  &(struct planned){ cases[i].promise, NULL, named(cases[i].f),
                                     named(cases[i].result), &unknown, &unknown, cases[i].kbits,
                                     false });
        if (strcmp(p.scheme, cases[i].scheme))
            fail_msg("%d, %s to %s: %s, not %s\n%s", cases[i].capability, cases[i].f,
                     cases[i].result, p.scheme, cases[i].scheme, p.refused.s);
        limber_plan_clear(&p);
    }
}

/* ---- the bound of errors --------------------------------------------------------------------- */

/* Draws random numbers of the format: most have exponents near one point at the low end of the
 * format's range, and a few any exponent. */
static void fill_ends(struct rng *r, limber_format f, char *p, size_t count)
{
    int low = limber_format_emin(f), high = limber_format_emax(f), edge = low + rng_below(r, 6);

    for (size_t i = 0; i < count; i++) {
        int e = rng_below(r, 8) ? edge + rng_below(r, 3) : low + rng_below(r, high - low);
        double x = ldexp(1 + rng_unit(r), e) * (rng_below(r, 8) ? 1 : -1);

        assert_int_equal(
            limber_convert(p + i * f.size, f, &x, named("f64"), 1, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_OK);
    }
}

/* Fills lines of 32 elements with the worst case for a unit that keeps 13 bits below the largest
 * exponent: a product of a subnormal and the largest power of two, whose exponent the unit
 * computes as if the subnormal were the smallest normal number, beside 31 products that are just
 * too small and are lost. */
static void fill_worst(limber_format f, char *a, char *b, size_t lines)
{
    int normal = 1 - f.bias, top = limber_format_emax(f), lost = normal + top - 13;

    for (size_t i = 0; i < 32 * lines; i++) {
        double x = ldexp(1, lost - lost / 2 - 1), y = ldexp(2 - ldexp(1, -f.frac_bits), lost / 2);

        if (i % 32 == 0) {
            x = ldexp(1, limber_format_emin(f));
            y = ldexp(1, top);
        }
        limber_convert(a + i, f, &x, named("f64"), 1, LIMBER_ROUND_NEAREST);
        limber_convert(b + i, f, &y, named("f64"), 1, LIMBER_ROUND_NEAREST);
    }
}

enum { SIDE = 8, MOST_K = 300 };

/* Returns the largest error of an element of C, as a share of |A||B|, for random numbers or for the
 * worst case. */
static double largest_error(const struct plan *p, const struct target *t, limber_format f, int k,
                            struct rng *r)
{
    char a[SIDE * MOST_K * 2], b[SIDE * MOST_K * 2];
    float c[SIDE * SIDE];
    struct call call = { .m = SIDE,
                         .n = SIDE,
                         .k = k,
                         .a = { a, k, 1, NULL },
                         .b = { b, k, 1, NULL },
                         .c = { c, SIDE, 1, SIDE, 0 },
                         .workspace_limit = 1 << 22 };
    struct diag d = { 0 };
    double worst = 0;

    if (r) {
        fill_ends(r, f, a, (size_t)(SIDE * k));
        fill_ends(r, f, b, (size_t)(SIDE * k));
    } else {
        fill_worst(f, a, b, SIDE);
    }
    if (!plan_launch(&limber_backend_interp, p, t, &call, &d))
        fail_msg("%s", d.text);
    for (int i = 0; i < SIDE * SIDE; i++) {
        /* the sums in double are exact: elements have few bits, and their exponents differ by
         * less than 64 */
        double sum = 0, size = 0;

        for (int q = 0; q < k; q++) {
            double x = limber_format_value(f, a + (i / SIDE * k + q) * f.size) *
                       limber_format_value(f, b + (i % SIDE * k + q) * f.size);

            sum += x;
            size += fabs(x);
        }
        worst = fmax(worst, fabs((double)c[i] - sum) / size);
    }
    return worst;
}

/* The largest error of random products is within the plan's bound.  In the worst case it is at
 * least half of the bound, so that the bound is not too large. */
static void errors_stay_within_the_bound(void **state)
{
    static const struct {
        int capability;
        const char *scheme, *f;
    } cases[] = {
        { 90, "tensor-e4m3", "e4m3" }, { 90, "tensor-e5m2", "e5m2" }, { 89, "tensor-e4m3", "e4m3" },
        { 90, "tensor-f16", "e5m2" },  { 80, "tensor-f16", "e5m2" },
    };
    static const int lengths[] = { 20, 128, MOST_K };
    struct rng r = { 31 };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        limber_format f = named(cases[i].f);
        struct target t;
        double share = 0;
        struct plan p;

        make_plan(&p, &t, cases[i].capability,
                  &(struct planned){ LIMBER_CONTRACT_FAST, cases[i].scheme, f, named("f32"),
                                     &unknown, &unknown, 10, false });
        for (int j = 0; j < 30; j++) {
            int k = lengths[j % 3];

            share = fmax(share, largest_error(&p, &t, f, k, &r) / limber_error_bound(&p, k));
        }
        print_message("%s of %s on %d: %.3f of the bound\n", cases[i].scheme, cases[i].f,
                      cases[i].capability, share);
        assert_true(share > 0 && share <= 1);
        if (cases[i].capability == 90 && i < 2) {
            share = largest_error(&p, &t, f, 32, NULL) / limber_error_bound(&p, 32);
            assert_true(share > 0.5 && share <= 1);
        }
        limber_plan_clear(&p);
    }
}

/* ---- the whole library ----------------------------------------------------------------------- */

/* A user's contract leads to a product in FP8, with everything that a call does: scan, plan,
 * cache and kernel. */
static void programs_get_fp8_products(void **state)
{
    enum { M = 140, N = 33, K = 200 };
    limber_format f = named("e4m3"), fc = named("bf16");
    limber_report report = LIMBER_REPORT_INIT;
    struct target t = { .device = 0 };
    struct diag d = { 0 };
    struct rng r = { 8 };
    char a[M * K], b[K * N];
    uint16_t c[M * N];

    (void)state;
    assert_true(limber_backend_cuda.probe(&t, &d));
    fill(&r, DATA_unit, f, a, M * K);
    fill(&r, DATA_unit, f, b, K * N);
    if (limber_gemm(cuda, &native, M, N, K, NULL, (limber_matrix){ a, f, K, 1 },
                    (limber_matrix){ b, f, 1, K }, NULL, (limber_output){ c, fc, N, 1 }, &report))
        fail_msg("%s", limber_error_text());
    /* b200 sums in groups, so FP8 is used there for exact sums only */
    assert_string_equal(report.scheme, t.rate[UNIT_e4m3] > 0 && strcmp(t.sums, "b200") != 0 ?
                                           "tensor-e4m3" :
                                           "tensor-f16");
    for (int i = 0; i < M * N; i++) {
        double sum = 0, size = 0;

        for (int q = 0; q < K; q++) {
            double x = limber_format_value(f, a + i / N * K + q) *
                       limber_format_value(f, b + i % N * K + q);

            sum += x;
            size += fabs(x);
        }
        assert_true(fabs(limber_format_value(fc, &c[i]) - sum) <= (K + 2) * 0x1p-8 * size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_cores_have_the_interpreters_bits),
        cmocka_unit_test(contracts_decide_which_unit_is_chosen),
        cmocka_unit_test(errors_stay_within_the_bound),
        cmocka_unit_test(programs_get_fp8_products),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
