/* SPDX-License-Identifier: BSD-3-Clause
 * Compares units that load small floats and sum in FP64 with the MPFR reference: on the interpreter
 * and, where the unit is a chain of FMAs, on compiled kernels. */
#include "engine_support.h"
#include "support.h"
#include "contexts.h"
#include "unit_backends.h"
#include "unit_any.h"
#include "unit_oracle.h"

#include <math.h>

enum { M = 27, N = 37, K = 150, BLOCKS = 1100 };

/* Units, and formats of stored operands.  Products of loaded operands are exact in FP64. */
static const struct {
    const char *text, *a, *b, *c;
    bool compiled; /* compiled kernels can simulate the unit */
} rows[] = {
    { "in=f16 acc=f64", "f64", "f64", "f64", true },
    { "in=f16 acc=f64", "f32", "f64", "f32", true },
    { "in=f16 acc=f64", "f16", "f16", "f64", true },
    { "in=f16 acc=f64 group=24", "f32", "f32", "f64", true },
    { "in=f16:rz:sat acc=f64", "f32", "f64", "f64", true },
    { "a=e5m2:ftz b=bf16:ru acc=f64 group=100", "f64", "bf16", "f64", true },
    { "a=f64 b=e4m3 acc=f64", "f32", "f64", "f64", true },
    { "in=e2m1 acc=f64", "f64", "f32", "f32", true },
    { "in=f16 mul=f64 acc=f64", "f32", "f32", "f64", false },
    { "in=f16 mul=f64 acc=f64 block=8 tree=yes", "f32", "f32", "f64", false },
    { "in=f16 acc=f64 group=16 lanes=4 split=2", "f64", "f32", "f64", false },
};

/* Draws numbers in FP16's range; one in sixteen is beyond the range, subnormal or zero.  special:
 * a few numbers are infinite or NaN. */
static void draw(struct rng *r, double *x, int64_t count, bool special)
{
    static const double odd[] = { 65519, 65520, -65536, 0x1p-25, 0x1.8p-25, -0.0, 1e-30, 1e30 };

    for (int64_t i = 0; i < count; i++) {
        x[i] = ldexp(2 * rng_unit(r) - 1, rng_below(r, 9) - 4);
        if (rng_below(r, 16) == 0)
            x[i] = odd[rng_below(r, 8)];
        if (special && rng_below(r, 400) == 0)
            x[i] = rng_below(r, 2) ? INFINITY : NAN;
    }
}

/* Returns the elements of x, as a format holds them, as doubles. */
static double *read_back(const void *x, int64_t count, limber_format f)
{
    double *v = malloc((size_t)count * sizeof *v);

    assert_int_equal(limber_convert(v, named("f64"), x, f, (size_t)count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    return v;
}

/* Multiplies on the unit of a row of `rows`, on both backends, and compares all elements with
 * MPFR. */
static void compare(size_t row, int64_t k, bool special)
{
    limber_unit u = unit(rows[row].text);
    limber_contract contract = { .size = sizeof contract,
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u };
    const limber_format fa = named(rows[row].a), fb = named(rows[row].b), fc = named(rows[row].c);
    double *x = malloc((size_t)(M * k) * sizeof *x), *y = malloc((size_t)(k * N) * sizeof *y);
    struct rng r = { 100 + row };
    struct oracle_value *lx, *ly;
    void *a, *b;

    draw(&r, x, M * k, special);
    draw(&r, y, k * N, special);
    a = converted(x, (size_t)(M * k), fa);
    b = converted(y, (size_t)(k * N), fb);
    free(x);
    free(y);
    x = read_back(a, M * k, fa);
    y = read_back(b, k * N, fb);
    lx = oracle_load_lines(&u, 0, x, M, k, k, 1);
    ly = oracle_load_lines(&u, 1, y, N, k, 1, N);
    for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
        unsigned char c[M * N * 8];
        double *got;
        limber_report report = LIMBER_REPORT_INIT;
        const limber_status status =
            limber_gemm(backend[ctx], &contract, M, N, k, NULL, (limber_matrix){ a, fa, k, 1 },
                        (limber_matrix){ b, fb, N, 1 }, NULL,
                        output_of((limber_matrix){ c, fc, N, 1 }), &report);

        if (ctx && !rows[row].compiled) {
            assert_int_equal(status, LIMBER_STATUS_DEVICE);
            continue;
        }
        if (status)
            fail_msg("%s: %s", rows[row].text, limber_error_text());
        assert_string_equal(report.backend, backend_name[ctx]);
        got = read_back(c, M * N, fc);
        for (int64_t e = 0; e < M * N; e++) {
            limber_statistics counts = LIMBER_STATISTICS_INIT;
            double want =
                oracle_dot(&u, lx + e / N * k, ly + e % N * k, k, 0, e / N, e % N, &counts);

            want = fc.size == 4 ? (float)want : want;
            if (!oracle_equal(got[e], want))
                fail_msg("%s on %s: element %d is %a, not %a", rows[row].text, backend_name[ctx],
                         (int)e, got[e], want);
        }
        free(got);
    }
    free(a);
    free(b);
    free(x);
    free(y);
    free(lx);
    free(ly);
}

/* Units with FP64 sums have the results of MPFR, for one and for many products, and with special
 * values. */
static void sums_in_f64_agree_with_mpfr(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        compare(i, K, false);
        compare(i, K, true);
        compare(i, 1, false);
    }
}

/* A chain of FP64 continues where a cache block of k ends. */
static void long_sums_agree_with_mpfr(void **state)
{
    (void)state;
    compare(0, BLOCKS, false);
    compare(3, BLOCKS, false);
}

/* The products of FP16 numbers are exact in FP64, so statistics count lost bits of sums only. */
static void rounding_errors_are_counted(void **state)
{
    limber_unit u = unit("in=f16 acc=f64");
    limber_statistics s = LIMBER_STATISTICS_INIT;
    limber_contract contract = {
        .size = sizeof contract, .promise = LIMBER_CONTRACT_SIMULATE, .unit = &u, .statistics = &s
    };
    double a[] = { 0x1p15, 0x1p-24, 0x1p-24 }, b[] = { 0x1p15, 0x1p-24, 0x1p-22 + 0x1p-23 }, c;

    (void)state;
    assert_int_equal(limber_gemm(backend[0], &contract, 1, 1, 3, NULL,
                                 (limber_matrix){ a, named("f64"), 3, 1 },
                                 (limber_matrix){ b, named("f64"), 1, 1 }, NULL,
                                 output_of((limber_matrix){ &c, named("f64"), 1, 1 }), NULL),
                     LIMBER_STATUS_OK);
    assert_true(c == 0x1p30);
    assert_int_equal(s.nonzero, 3);
    assert_int_equal(s.swamped, 2);
}

/* Schemes on an FP16 unit with FP64 sums have the interpreter's bits.  The error is at most that of
 * the division into limbs plus one rounding, so it does not grow with k. */
static void schemes_use_such_a_unit(void **state)
{
    static const struct {
        const char *scheme, *format;
        double error; /* of the division into limbs, as a share of the sum of absolute products */
    } schemes[] = { { "fp32-fd", "f32", 0x1p-21 }, { "ozaki1-f16d", "f64", 0x1p-52 } };
    enum { LONG = 9000, SIDE = 3 };
    double *x = malloc(2 * SIDE * LONG * sizeof *x);
    struct rng r = { 16 };

    (void)state;
    for (int i = 0; i < 2 * SIDE * LONG; i++)
        x[i] = rng_unit(&r) + 0x1p-10; /* positive, so that errors of a chain would add up */
    for (size_t s = 0; s < COUNT(schemes); s++) {
        const limber_format f = named(schemes[s].format);
        const limber_contract contract = { .size = sizeof contract,
                                           .promise = LIMBER_CONTRACT_FAST,
                                           .scheme = schemes[s].scheme };
        char *a = converted(x, 2 * SIDE * LONG, f), *b = a + SIDE * LONG * f.size;
        double *v = read_back(a, 2 * SIDE * LONG, f), c[2][SIDE * SIDE], *got;

        for (int ctx = 0; ctx < 2 && backend[ctx]; ctx++) {
            limber_report report = LIMBER_REPORT_INIT;

            if (limber_gemm(backend[ctx], &contract, SIDE, SIDE, LONG, NULL,
                            (limber_matrix){ a, f, LONG, 1 }, (limber_matrix){ b, f, SIDE, 1 },
                            NULL, output_of((limber_matrix){ c[ctx], f, SIDE, 1 }), &report))
                fail_msg("%s: %s", schemes[s].scheme, limber_error_text());
            assert_string_equal(report.backend, backend_name[ctx]);
            assert_string_equal(report.scheme, schemes[s].scheme);
            assert_memory_equal(c[0], c[ctx], SIDE * SIDE * (size_t)f.size);
        }
        got = read_back(c[0], SIDE * SIDE, f);
        for (int e = 0; e < SIDE * SIDE; e++) {
            long double sum = 0, off, most;

            for (int p = 0; p < LONG; p++)
                sum += (long double)v[e / SIDE * LONG + p] * v[SIDE * (LONG + p) + e % SIDE];
            off = fabsl(got[e] - sum);
            most = sum * (schemes[s].error + ldexp(1, -f.frac_bits - 1));
            if (off > most)
                fail_msg("%s: error %Lg, at most %Lg", schemes[s].scheme, off, most);
        }
        free(got);
        free(a);
        free(v);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_in_f64_agree_with_mpfr),
        cmocka_unit_test(long_sums_agree_with_mpfr),
        cmocka_unit_test(rounding_errors_are_counted),
        cmocka_unit_test(schemes_use_such_a_unit),
    };

    return cmocka_run_group_tests(tests, make_contexts, NULL);
}
