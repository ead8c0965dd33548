/* SPDX-License-Identifier: BSD-3-Clause
 * Linear systems with known solutions.  MPFR computes the right-hand side and checks the result. */
#include "contexts.h"
#include "compiler.h"
#include "support.h"

#include "limber/solve.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 70, COLUMNS = 3, LEAD = N + 2, ROOM = LEAD * LEAD * 16 };

static limber_context *ctx;
/* The system a x = b, its exact solution, and a copy of memory to compare with. */
static char *a, *b, *x, *truth, *before;

static int set_up(void **state)
{
    limber_config config = LIMBER_CONFIG_INIT;

    (void)state;
    config.backend = "interp";
    config.threads = 2;
    config.cache_dir = config.dump_dir = "";
    a = malloc(ROOM), b = malloc(ROOM), x = malloc(ROOM), truth = malloc(ROOM);
    before = malloc(ROOM);
    return limber_create(&ctx, &config) == LIMBER_STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    limber_destroy(ctx);
    free(a), free(b), free(x), free(truth), free(before);
    return 0;
}

static void set_element(limber_format f, char *m, int64_t i, double v)
{
    limber_convert(m + i * f.size, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
}

/* Makes a matrix with singular values from 1 to 10^-digits: a diagonal matrix, multiplied by four
 * reflections and rounded to multiples of 2^-52. */
static void make_matrix(struct rng *r, int n, int digits, double *m)
{
    double v[N];

    for (int i = 0; i < n * n; i++)
        m[i] = 0;
    for (int i = 0; i < n; i++)
        m[i * n + i] = n > 1 ? pow(10, -(double)digits * i / (n - 1)) : 1;
    for (int side = 0; side < 4; side++) {
        const int across = side % 2 ? 1 : n, along = side % 2 ? n : 1;
        double norm = 0;

        for (int i = 0; i < n; i++) {
            v[i] = rng_unit(r) - 0.5;
            norm += v[i] * v[i];
        }
        for (int i = 0; i < n; i++) {
            double sum = 0;

            for (int j = 0; j < n; j++)
                sum += m[i * across + j * along] * v[j];
            for (int j = 0; j < n; j++)
                m[i * across + j * along] -= 2 * sum / norm * v[j];
        }
    }
    for (int i = 0; i < n * n; i++)
        m[i] = ldexp(rint(ldexp(m[i], 52)), -52);
}

/* Computes the right-hand side b = A truth in binary128.  The sums are exact, since elements of
 * `truth` have 20 bits. */
static void make_right_hand_side(int n, limber_format of, int64_t row, int64_t col)
{
    mpfr_t sum, absolute;
    double two[2]; /* the sum has fewer than 106 bits, so that a double-double holds it */

    mpfr_inits2(REF_BITS, sum, absolute, (mpfr_ptr)NULL);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < COLUMNS; j++) {
            ref_dot(sum, absolute, of, a + i * row * of.size, col, LIMBER_F128,
                    truth + j * LIMBER_F128.size, COLUMNS, n);
            two[0] = mpfr_get_d(sum, MPFR_RNDN);
            mpfr_sub_d(sum, sum, two[0], MPFR_RNDN);
            two[1] = mpfr_get_d(sum, MPFR_RNDN);
            limber_convert(b + (i * COLUMNS + j) * LIMBER_F128.size, LIMBER_F128, two, named("dd"),
                           1, LIMBER_ROUND_NEAREST);
        }
    mpfr_clears(sum, absolute, (mpfr_ptr)NULL);
}

/* Returns the largest error of x, relative to the largest element of its column, in units of 2^-p
 * for a format of p significant bits. */
static double largest_error(int n, limber_format f, int64_t row, int64_t col)
{
    double most = 0;
    mpfr_t got, right, largest;

    mpfr_inits2(REF_BITS, got, right, largest, (mpfr_ptr)NULL);
    for (int j = 0; j < COLUMNS; j++) {
        double error = 0;

        mpfr_set_zero(largest, 1);
        for (int i = 0; i < n; i++) {
            ref_load(right, LIMBER_F128, truth + (i * COLUMNS + j) * LIMBER_F128.size);
            ref_load(got, f, x + (i * row + j * col) * f.size);
            if (mpfr_cmpabs(right, largest) > 0)
                mpfr_abs(largest, right, MPFR_RNDN);
            mpfr_sub(got, got, right, MPFR_RNDN);
            error = fmax(error, fabs(mpfr_get_d(got, MPFR_RNDN)));
        }
        most = fmax(most, error / mpfr_get_d(largest, MPFR_RNDN));
    }
    mpfr_clears(got, right, largest, (mpfr_ptr)NULL);
    return ldexp(most, limber_format_sig(f));
}

/* Returns a call that solves for COLUMNS right-hand sides of n numbers.  turned: A and X are
 * column-major. */
static limber_solve_call system_of(int n, limber_format of, limber_format to, bool turned)
{
    limber_solve_call s = LIMBER_SOLVE_INIT;

    s.n = n, s.columns = COLUMNS;
    s.a = (limber_matrix){ a, of, turned ? 1 : LEAD, turned ? LEAD : 1 };
    s.b = (limber_matrix){ b, LIMBER_F128, COLUMNS, 1 };
    s.x = (limber_output){ x, to, turned ? 1 : COLUMNS, turned ? LEAD : 1 };
    return s;
}

/* Makes a system with a condition of about 10^digits.  turned: A is column-major. */
static void make_system(struct rng *r, int n, int digits, limber_format of, bool turned)
{
    double m[N * N];

    make_matrix(r, n, digits, m);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            set_element(of, a, turned ? i + j * LEAD : i * LEAD + j, m[i * n + j]);
    for (int i = 0; i < n * COLUMNS; i++)
        set_element(LIMBER_F128, truth, i, rint(ldexp(rng_unit(r) - 0.5, 20)));
    make_right_hand_side(n, of, turned ? 1 : LEAD, turned ? LEAD : 1);
}

/* Solutions have errors of a few units in the last place, for conditions up to 10^13 and all
 * formats of results. */
static void test_accurate(void **state)
{
    static const char *const results[] = { "f128", "dd", "f64", "f32" };
    struct rng r = { 3 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 16 : 64); trial++) {
        const int sizes[] = { 1, 2, 17, N }, digits[] = { 0, 4, 9, 13 };
        const int n = sizes[trial % 4], hard = n == 1 ? 0 : digits[trial / 4 % 4];
        const bool turned = trial / 16 % 2;
        const limber_format to = named(results[trial / 3 % 4]),
                            of = hard < 5 && trial % 5 == 0 ? LIMBER_F32 : LIMBER_F64;
        limber_solve_report report = LIMBER_SOLVE_REPORT_INIT;
        limber_solve_call s = system_of(n, of, to, turned);
        double ulps;

        if (n < 3 && hard)
            continue;
        make_system(&r, n, n > 1 ? hard : 0, of, turned);
        memset(x, 77, ROOM);
        if (limber_solve(ctx, &s, &report))
            fail_msg("trial %d: %s", trial, limber_error_text());
        ulps = largest_error(n, to, s.x.row_stride, s.x.col_stride);
        if (ulps > 8) /* in binary128 iterative refinement ends at 2^-110 */
            fail_msg("trial %d: %d x %d, 10^%d, %s: %g ulp, change %g after %d steps", trial, n, n,
                     hard, results[trial / 3 % 4], ulps, report.change, report.steps);
        if (n > 2 &&
            (report.condition < pow(10, hard) / 50 || report.condition > pow(10, hard) * 5000))
            fail_msg("trial %d: condition %g of 10^%d", trial, report.condition, hard);
        assert_int_equal(report.method, LIMBER_SOLVE_FACTORS);
        if (turned) /* memory just past the first column was not written */
            assert_int_equal(((unsigned char *)x)[(size_t)n * to.size], 77);
    }
}

/* Solves with Hilbert's matrix of order 13, scaled to integers.  Its condition is too large for
 * refinement that uses the factors alone. */
static void test_ill_conditioned(void **state)
{
    enum { ORDER = 13 };
    limber_solve_report report = LIMBER_SOLVE_REPORT_INIT;
    limber_solve_call s = system_of(ORDER, LIMBER_F64, LIMBER_F128, false);
    struct rng r = { 5 };

    (void)state;
    for (int i = 0; i < ORDER; i++)
        /* all elements are integers: the factor is lcm(1..25) = 26771144400 */
        for (int j = 0; j < ORDER; j++)
            set_element(LIMBER_F64, a, i * LEAD + j, 26771144400. / (i + j + 1));
    for (int i = 0; i < ORDER * COLUMNS; i++)
        set_element(LIMBER_F128, truth, i, rint(ldexp(rng_unit(&r) - 0.5, 20)));
    make_right_hand_side(ORDER, LIMBER_F64, LEAD, 1);
    if (limber_solve(ctx, &s, &report))
        fail_msg("%s", limber_error_text());
    assert_true(largest_error(ORDER, LIMBER_F128, COLUMNS, 1) < 64);
    assert_true(report.condition > 1e16 && report.seconds > 0);
    assert_int_equal(report.method, LIMBER_SOLVE_GMRES);
}

/* Checks that the call returns the status with a text that contains `text`, and leaves X
 * unchanged. */
static void expect_refused(const limber_solve_call *s, limber_status status, const char *text)
{
    memset(x, 5, ROOM);
    memset(before, 5, ROOM);
    assert_refused(limber_solve(ctx, s, NULL), status, text);
    assert_memory_equal(x, before, ROOM);
}

/* Sets A = left right, exactly in integers.  The product of an n x rank and a rank x n matrix is
 * singular.  That of a unit lower and a unit upper triangular matrix has determinant 1, whatever
 * its condition. */
static void multiply_integers(int n, int rank, const int64_t *left, const int64_t *right)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int64_t sum = 0;

            for (int k = 0; k < rank; k++)
                sum += left[i * n + k] * right[k * n + j];
            set_element(LIMBER_F64, a, i * LEAD + j, (double)sum);
        }
}

/* Singular matrices must be refused, whether the system has solutions or none. */
static void test_singular(void **state)
{
    static int64_t left[N * N], right[N * N];
    struct rng r = { 11 };
    int tried = 0;

    (void)state;
    for (int n = 2; n <= 40; n += n < 8 ? 1 : 16)
        for (int trial = 0; trial < 12; trial++, tried++) {
            const limber_format to = named(trial % 3 ? "f64" : "f128");
            limber_solve_call s = system_of(n, LIMBER_F64, to, false);

            for (int i = 0; i < n * n; i++) {
                left[i] = rng_below(&r, 19) - 9;
                right[i] = rng_below(&r, 19) - 9;
            }
            multiply_integers(n, n - 1, left, right);
            for (int i = 0; i < n * COLUMNS; i++)
                set_element(LIMBER_F128, truth, i, rint(ldexp(rng_unit(&r) - 0.5, 20)));
            make_right_hand_side(n, LIMBER_F64, LEAD, 1); /* the system has many solutions */
            if (trial % 2) /* changes b, so that there is almost certainly no solution */
                set_element(LIMBER_F128, b, 0, 12345);
            expect_refused(&s, LIMBER_STATUS_NO_SCHEME, "singular");
        }
    assert_true(tried > 80);
}

/* Matrices with determinant 1 are regular, also with a condition of 1e16 and more. */
static void test_nearly_singular(void **state)
{
    static int64_t left[N * N], right[N * N];
    struct rng r = { 12 };
    int hard = 0;

    (void)state;
    for (int trial = 0; trial < 12; trial++) {
        const int n = 6 + trial;
        limber_solve_report report = LIMBER_SOLVE_REPORT_INIT;
        limber_solve_call s = system_of(n, LIMBER_F64, LIMBER_F64, false);
        limber_status status;

        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                left[i * n + j] = i == j ? 1 : i > j ? rng_below(&r, 9) - 4 : 0;
                right[i * n + j] = i == j ? 1 : i < j ? rng_below(&r, 9) - 4 : 0;
            }
        multiply_integers(n, n, left, right);
        for (int i = 0; i < n * COLUMNS; i++)
            set_element(LIMBER_F128, truth, i, rint(ldexp(rng_unit(&r) - 0.5, 20)));
        make_right_hand_side(n, LIMBER_F64, LEAD, 1);
        status = limber_solve(ctx, &s, &report);
        if (status == LIMBER_STATUS_OK)
            assert_true(largest_error(n, LIMBER_F64, COLUMNS, 1) <= 8);
        else if (strstr(limber_error_text(), "a is singular") &&
                 !strstr(limber_error_text(), "in binary64"))
            fail_msg("%d x %d: %s", n, n, limber_error_text());
        hard += status == LIMBER_STATUS_OK && report.condition > 1e14;
    }
    assert_true(hard > 0);
}

/* Invalid systems are refused with a text that names the reason: bad arguments, a singular matrix,
 * corrections that do not shrink. */
static void test_refused(void **state)
{
    struct rng r = { 6 };
    limber_solve_call good, s;

    (void)state;
    make_system(&r, 9, 2, LIMBER_F64, false);
    good = system_of(9, LIMBER_F64, LIMBER_F64, false);
    assert_int_equal(limber_solve(NULL, &good, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_solve(ctx, NULL, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    s = good, s.n = -1, expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "n is negative");
    s = good, s.columns = -1, expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "columns is negative");
    s = good, s.n = INT64_MAX / 2, expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "too large");
    s = good, s.a.data = NULL, expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "a");
    s = good, s.x.format = LIMBER_I32,
    expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "x: i32 is no");
    s = good, s.a.format.kind = 99, expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "a");
    s = good, s.x.data = b, expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "x overlaps b");
    s = good, s.size = 3, expect_refused(&s, LIMBER_STATUS_BAD_ARGUMENT, "start the structure");
    set_element(LIMBER_F64, a, LEAD + 1, NAN);
    expect_refused(&good, LIMBER_STATUS_BAD_ARGUMENT, "a: a value is not finite");
    for (int j = 0; j < 9; j++)
        set_element(LIMBER_F64, a, LEAD + j, 0);
    expect_refused(&good, LIMBER_STATUS_NO_SCHEME, "singular in binary64");
    make_system(&r, 9, 2, LIMBER_F64, false);
    s = good, s.most_steps = 1, s.x.format = LIMBER_F128;
    expect_refused(&s, LIMBER_STATUS_NO_SCHEME, "corrections do not shrink");
    s = good, s.n = 0;
    assert_int_equal(limber_solve(ctx, &s, NULL), LIMBER_STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accurate), cmocka_unit_test(test_ill_conditioned),
        cmocka_unit_test(test_singular), cmocka_unit_test(test_nearly_singular),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
