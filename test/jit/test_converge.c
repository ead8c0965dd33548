/* SPDX-License-Identifier: BSD-3-Clause
 * Data and shapes that are chosen to make calls slow.  Measures no time, but checks what decides
 * it: the number of compiled kernels, the schemes, and the predicted costs. */
#include "contexts.h"
#include "engine_support.h"

#include "support.h"

#include <math.h>

static limber_context *ctx;
static limber_format f64;

static int make_context(void **state)
{
    (void)state;
    f64 = named("f64");
#ifdef LIMBER_HAVE_LLVM
    ctx = group_context(.backend = "llvm", .threads = 1);
#endif
    return 0;
}

static void need_context(void)
{
    if (!ctx)
        skip_because("no compiled backend");
}

/* Multiplies m x k by k x n doubles under the contract and returns the call's report. */
static limber_report multiply_doubles(double *a, double *b, double *c, int m, int n, int k,
                                      limber_contract contract)
{
    limber_report report = LIMBER_REPORT_INIT;

    if (limber_gemm(ctx, &contract, m, n, k, NULL, (limber_matrix){ a, f64, k, 1 },
                    (limber_matrix){ b, f64, n, 1 }, NULL, (limber_output){ c, f64, n, 1 },
                    &report))
        fail_msg("%s", limber_error_text());
    return report;
}

/* ---- how many kernels a mix of calls needs --------------------------------------------------- */

enum { SIDE = 150 };
static double a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];

/* Fills an array with numbers of a random number of bits, whose exponents lie in a random range. */
static void fill_random(struct rng *r, double *x, int count)
{
    int middle = rng_below(r, 2) ? rng_below(r, 900) - 450 : 0, bits = 1 + rng_below(r, 53);
    int binades = 1 + (rng_below(r, 3) ? rng_below(r, 60) : rng_below(r, 500));

    for (int i = 0; i < count; i++)
        x[i] =
            ldexp(floor(ldexp(2 * rng_unit(r) - 1, bits)), middle - bits - rng_below(r, binades));
}

/* 300 random small shapes need at most 40 kernels, and the second half of them at most 2 new
 * ones. */
static void random_work_converges(void **state)
{
    enum { CALLS = 300, FIRST = 150, MOST = 40, LATE = 2 };
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    struct rng r = { 81 };
    int made = 0, late = 0;

    (void)state;
    need_context();
    for (int i = 0; i < CALLS; i++) {
        int m = 1 + rng_below(&r, SIDE), n = 1 + rng_below(&r, SIDE), k = 1 + rng_below(&r, SIDE);

        fill_random(&r, a, m * k);
        fill_random(&r, b, k * n);
        if (multiply_doubles(a, b, c, m, n, k, correct).from == 0) {
            made++;
            late += i >= FIRST;
        }
    }
    print_message("%d calls, %d kernels\n", CALLS, made);
    assert_true(made <= MOST);
    assert_true(late <= LATE);
}

/* Operands multiplied by powers of two must use the kernels of the first calls: later calls
 * compile none. */
static void scales_do_not_select_another_kernel(void **state)
{
    static const limber_contract contracts[] = {
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_BITS, .bits = 40 },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_BITS, .bits = 53 },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT, .scheme = "ozaki2" },
    };
    struct rng r = { 82 };

    (void)state;
    need_context();
    for (size_t q = 0; q < COUNT(contracts); q++) {
        fill(&r, DATA_unit, f64, a, SIDE * SIDE);
        fill(&r, DATA_unit, f64, b, SIDE * SIDE);
        multiply_doubles(a, b, c, SIDE, SIDE, SIDE, contracts[q]);
        for (int i = 0; i < 30; i++) {
            /* in this range, native products cannot leave the range of binary64 */
            double x = ldexp(1, rng_below(&r, 60) - 30), y = ldexp(1, rng_below(&r, 60) - 30);
            limber_report report = LIMBER_REPORT_INIT;

            for (int j = 0; j < SIDE * SIDE; j++) {
                a[j] *= x;
                b[j] *= y;
            }
            report = multiply_doubles(a, b, c, SIDE, SIDE, SIDE, contracts[q]);
            /* the first calls may compile two kernels, for numbers in the range of binary16 and of
             * binary32 */
            if (report.from == 0 && i > 2)
                fail_msg("contract %zu: scaled data made a kernel", q);
            for (int j = 0; j < SIDE * SIDE; j++) {
                a[j] /= x;
                b[j] /= y;
            }
        }
    }
}

/* Draws similar data so often that in some samples the sum is near 0.  The scheme must not
 * change, and few plans may have another kernel. */
static void samples_of_like_data_agree(void **state)
{
    enum { DRAWS = SANITIZED ? 60 : 200, M = 64, K = 1024 };
    static float x[M * K], y[K * M];
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    const limber_format f32 = named("f32");
    limber_report first = LIMBER_REPORT_INIT;
    struct rng r = { 85 };
    int others = 0;

    (void)state;
    need_context();
    for (int i = 0; i < DRAWS; i++) {
        limber_report report = LIMBER_REPORT_INIT;
        char *text;

        fill(&r, DATA_unit, f32, x, M * K);
        fill(&r, DATA_unit, f32, y, K * M);
        if (gemm_plan(ctx, &correct, M, M, K, NULL, (limber_matrix){ x, f32, K, 1 },
                      (limber_matrix){ y, f32, M, 1 }, NULL, (limber_output){ NULL, f32, M, 1 },
                      &text, &report))
            fail_msg("%s", limber_error_text());
        limber_free(text);
        assert_string_equal(report.scheme, "wider");
        first = i == 0 ? report : first;
        others += strcmp(report.kernel, first.kernel) != 0;
    }
    print_message("%d draws, %d with another plan\n", DRAWS, others);
    assert_true(others <= DRAWS / 8);
}

/* ---- predicted costs ------------------------------------------------------------------------- */

enum { LARGE = 512 };

/* Plans a product of large matrices and returns the report. */
static limber_report make_plan(const double *x, const double *y, limber_contract contract)
{
    limber_report report = LIMBER_REPORT_INIT;
    char *text;

    if (gemm_plan(ctx, &contract, LARGE, LARGE, LARGE, NULL,
                  (limber_matrix){ (void *)(uintptr_t)x, f64, LARGE, 1 },
                  (limber_matrix){ (void *)(uintptr_t)y, f64, LARGE, 1 }, NULL,
                  (limber_output){ NULL, f64, LARGE, 1 }, &text, &report))
        fail_msg("%s", limber_error_text());
    limber_free(text);
    return report;
}

/* Returns a matrix of numbers whose exponents are spread over some binades. */
static double *random_matrix(struct rng *r, int binades)
{
    double *x = malloc(sizeof *x * LARGE * LARGE);

    for (int i = 0; i < LARGE * LARGE; i++)
        x[i] = ldexp(2 * rng_unit(r) - 1, rng_below(r, binades) - binades / 2);
    return x;
}

/* A weaker contract is not predicted to cost more, because any scheme that keeps a stronger
 * contract keeps it, too. */
static void weaker_contracts_cost_no_more(void **state)
{
    static const int binades[] = { 1, 40, 80, 120, 300, 2000 };
    static const int bits[] = { 53, 40, 24, 11, 1 };
    struct rng r = { 83 };

    (void)state;
    need_context();
    for (size_t i = 0; i < COUNT(binades); i++) {
        double *x = random_matrix(&r, binades[i]), *y = random_matrix(&r, binades[i]);
        double cost = make_plan(x, y,
                                (limber_contract){ .size = sizeof(limber_contract),
                                                   .promise = LIMBER_CONTRACT_CORRECT })
                          .cost;

        for (size_t q = 0; q < COUNT(bits); q++) {
            limber_report weak = make_plan(x, y,
                                           (limber_contract){ .size = sizeof(limber_contract),
                                                              .promise = LIMBER_CONTRACT_BITS,
                                                              .bits = bits[q] });

            if (weak.cost > cost * 1.05)
                fail_msg("%d binades: bits=%d costs %g by %s, more than a stronger contract's %g",
                         binades[i], bits[q], weak.cost, weak.scheme, cost);
        }
        free(x);
        free(y);
    }
}

/* With a large range of exponents, the predicted cost is at most ten times that of plain data.
 * NaN and infinities do not change the scheme. */
static void wide_and_special_data_cost_little_more(void **state)
{
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    struct rng r = { 84 };
    double *x = random_matrix(&r, 1), *y = random_matrix(&r, 1), *wide = random_matrix(&r, 2000);
    limber_report narrow = LIMBER_REPORT_INIT, report = LIMBER_REPORT_INIT;

    (void)state;
    if (!ctx) {
        free(x), free(y), free(wide);
        skip_because("no compiled backend");
    }
    narrow = make_plan(x, y, correct);
    report = make_plan(wide, y, correct);
    if (report.cost > 10 * narrow.cost)
        fail_msg("the full range costs %g by %s, plain data %g", report.cost, report.scheme,
                 narrow.cost);
    for (int i = 0; i < LARGE * LARGE; i += 100)
        x[i] = i % 300 ? NAN : INFINITY;
    report = make_plan(x, y, correct);
    assert_string_equal(report.scheme, narrow.scheme);
    assert_true(report.rows <= narrow.rows);
    free(x);
    free(y);
    free(wide);
}

/* Whatever the data, few elements of a small product need the slow exact sum. */
static void small_products_stay_fast(void **state)
{
    enum { N = 32, KINDS = 5 };
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT,
                                      .scheme = "pairs" };
    struct rng r = { 85 };

    (void)state;
    need_context();
    for (int kind = 0; kind < KINDS; kind++) {
        limber_report report = LIMBER_REPORT_INIT;

        fill(&r, kind == 4 ? DATA_special : DATA_unit, f64, a, N * N);
        fill(&r, DATA_unit, f64, b, N * N);
        for (int i = 0; i < N * N; i++) {
            if (kind == 1)
                a[i] *= 0x1p-80, b[i] *= 0x1p-80;
            if (kind == 2)
                a[i] = floor(8 * a[i]), b[i] = floor(8 * b[i]);
            if (kind == 3) { /* every second product cancels the previous one */
                a[i] = i % 2 ? -a[i - 1] : a[i];
                b[i] = i / N % 2 ? b[i - N] : b[i];
            }
        }
        report = multiply_doubles(a, b, c, N, N, N, correct);
        if (report.recomputed > N * N / 20)
            fail_msg("data %d: %lld of %d elements", kind, (long long)report.recomputed, N * N);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_products_stay_fast),
        cmocka_unit_test(random_work_converges),
        cmocka_unit_test(scales_do_not_select_another_kernel),
        cmocka_unit_test(samples_of_like_data_agree),
        cmocka_unit_test(weaker_contracts_cost_no_more),
        cmocka_unit_test(wide_and_special_data_cost_little_more),
    };

    return cmocka_run_group_tests(tests, make_context, destroy_group_contexts);
}
