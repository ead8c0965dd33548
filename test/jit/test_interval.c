/* SPDX-License-Identifier: BSD-3-Clause
 * Products of matrices of intervals: points give the tightest bounds, intervals bounds that contain
 * the exact ranges and are at most twice as wide; infinite bounds, formats and strides; refused
 * arguments. */
#include "calls.h"
#include "contexts.h"
#include "support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/api/api.h"
#include "limber/interval.h"

enum { MOST = 24, ROOM = MOST * MOST };

static limber_context *interp, *best;

static int set_up(void **state)
{
    (void)state;
    return make_interp_and_best(&interp, &best);
}

/* Matrices of intervals: [a: low, high; b: low, high], and results. */
static double data[4][ROOM], result[2][ROOM];
static float narrow[2][ROOM];

static limber_interval_call call_of(int m, int n, int k, bool a, bool b)
{
    limber_interval_call x = LIMBER_INTERVAL_INIT;

    x.m = m, x.n = n, x.k = k;
    x.a_low = (limber_matrix){ data[0], LIMBER_F64, 1, m }; /* by columns */
    x.a_high = (limber_matrix){ a ? data[1] : NULL, LIMBER_F64, 1, m };
    x.b_low = (limber_matrix){ data[2], LIMBER_F64, n, 1 };
    x.b_high = (limber_matrix){ b ? data[3] : NULL, LIMBER_F64, n, 1 };
    x.c_low = (limber_output){ result[0], LIMBER_F64, n, 1 };
    x.c_high = (limber_output){ result[1], LIMBER_F64, n, 1 };
    return x;
}

/* Adds the exact range of [a] [b] to [low, high]. */
static void add_range(mpfr_t low, mpfr_t high, const double a[2], const double b[2])
{
    mpfr_t x, least, most;

    mpfr_inits2(4000, x, least, most, (mpfr_ptr)0);
    for (int i = 0; i < 4; i++) {
        mpfr_set_d(x, a[i & 1], MPFR_RNDN);
        mpfr_mul_d(x, x, b[i >> 1], MPFR_RNDN);
        if (!i || mpfr_cmp(x, least) < 0)
            mpfr_set(least, x, MPFR_RNDN);
        if (!i || mpfr_cmp(x, most) > 0)
            mpfr_set(most, x, MPFR_RNDN);
    }
    mpfr_add(low, low, least, MPFR_RNDN);
    mpfr_add(high, high, most, MPFR_RNDN);
    mpfr_clears(x, least, most, (mpfr_ptr)0);
}

/* Checks that every result contains the exact range.  Points: the bounds are the tightest.  Else
 * the width is at most 1.5 times that of the range, plus what rounding adds. */
static void check_results(const limber_interval_call *c, bool points)
{
    const bool a = c->a_high.data, b = c->b_high.data, single = c->c_low.format.size == 4;
    mpfr_t low, high, got[2], width;

    mpfr_inits2(4200, low, high, got[0], got[1], width, (mpfr_ptr)0);
    for (int i = 0; i < c->m; i++)
        for (int j = 0; j < c->n; j++) {
            const int at = i * (int)c->n + j;
            double size = 0;

            mpfr_set_zero(low, 1);
            mpfr_set_zero(high, 1);
            for (int l = 0; l < c->k; l++) {
                const int p = l * (int)c->m + i, q = l * (int)c->n + j;
                const double x[2] = { data[0][p], data[a ? 1 : 0][p] };
                const double y[2] = { data[2][q], data[b ? 3 : 2][q] };

                add_range(low, high, x, y);
                size += fmax(fabs(x[0]), fabs(x[1])) * fmax(fabs(y[0]), fabs(y[1]));
            }
            for (int s = 0; s < 2; s++)
                mpfr_set_d(got[s], single ? (double)narrow[s][at] : result[s][at], MPFR_RNDN);
            assert_true(mpfr_cmp(got[0], low) <= 0 && mpfr_cmp(got[1], high) >= 0);
            if (points && mpfr_cmp(low, high) == 0) {
                const double x = mpfr_get_d(got[0], MPFR_RNDN), y = mpfr_get_d(got[1], MPFR_RNDN);

                assert_true(x == y || (single ? nextafterf((float)x, INFINITY) == (float)y :
                                                nextafter(x, INFINITY) == y));
                continue;
            }
            mpfr_sub(width, high, low, MPFR_RNDN);
            mpfr_mul_d(width, width, 1.5 + 0x1p-20, MPFR_RNDN);
            mpfr_add_d(width, width,
                       single ? size * 0x1p-21 + 0x1p-147 : size * 0x1p-50 + 0x1p-1070, MPFR_RNDN);
            mpfr_sub(got[1], got[1], got[0], MPFR_RNDN);
            assert_true(mpfr_cmp(got[1], width) <= 0);
        }
    mpfr_clears(low, high, got[0], got[1], width, (mpfr_ptr)0);
}

/* Fills matrices of intervals of many kinds: wide, thin, points, around zero, small and large. */
static void fill_intervals(struct rng *r, int kind)
{
    for (int side = 0; side < 4; side += 2)
        for (int i = 0; i < ROOM; i++) {
            const double x = rng_unit(r) - 0.5, scale = ldexp(1, kind == 3 ? -520 : 0);
            const double wide = rng_below(r, 3) ? rng_unit(r) : 0;

            data[side][i] = scale * (kind == 2 ? floor(8 * x) : x);
            data[side + 1][i] = data[side][i] + scale * (kind == 1 ? wide * 0x1p-50 :
                                                         kind == 2 ? floor(4 * wide) :
                                                                     wide);
        }
}

/* Points and intervals, in both formats, on both backends, which agree bit for bit. */
static void results_contain_the_range(void **state)
{
    struct rng r = { 4 };

    (void)state;
    for (int trial = 0; trial < (BRIEF ? 24 : 120); trial++) {
        const bool a = trial & 1, b = trial & 2, single = trial % 5 == 0;
        limber_interval_call x = call_of(1 + rng_below(&r, MOST), 1 + rng_below(&r, MOST),
                                         rng_below(&r, MOST + 1), a, b);
        static double first[2][ROOM];
        static float first_narrow[2][ROOM];
        limber_report report = LIMBER_REPORT_INIT;

        fill_intervals(&r, trial / 4 % 4);
        if (single) {
            x.c_low = (limber_output){ narrow[0], LIMBER_F32, x.n, 1 };
            x.c_high = (limber_output){ narrow[1], LIMBER_F32, x.n, 1 };
        }
        if (limber_interval_gemm(best, &x, &report))
            fail_msg("%s", limber_error_text());
        memcpy(first, result, sizeof first);
        memcpy(first_narrow, narrow, sizeof narrow);
        check_results(&x, !a && !b);
        if (a || b)
            continue; /* radii may be rounded in another order */
        assert_int_equal(limber_interval_gemm(interp, &x, NULL), LIMBER_STATUS_OK);
        assert_memory_equal(first, result, sizeof first);
        assert_memory_equal(first_narrow, narrow, sizeof narrow);
    }
}

/* Infinite bounds, and products that overflow, give infinite bounds. */
static void infinite_bounds_are_kept(void **state)
{
    limber_interval_call x = call_of(1, 1, 2, true, true);

    (void)state;
    data[0][0] = 1, data[1][0] = INFINITY, data[0][1] = data[1][1] = 1;
    data[2][0] = data[3][0] = 1, data[2][1] = data[3][1] = 1;
    assert_int_equal(limber_interval_gemm(best, &x, NULL), LIMBER_STATUS_OK);
    assert_true(result[0][0] == -INFINITY && result[1][0] == INFINITY);
    data[2][0] = data[3][0] = 0; /* infinity times zero */
    assert_int_equal(limber_interval_gemm(best, &x, NULL), LIMBER_STATUS_OK);
    assert_true(result[0][0] == -INFINITY && result[1][0] == INFINITY);
    data[0][0] = data[1][0] = 0x1p1000, data[2][0] = 0x1p100, data[3][0] = 0x1p101;
    assert_int_equal(limber_interval_gemm(best, &x, NULL), LIMBER_STATUS_OK);
    assert_true(result[1][0] == INFINITY);
    x = call_of(1, 1, 1, false, false);
    assert_int_equal(limber_interval_gemm(best, &x, NULL), LIMBER_STATUS_OK);
    assert_true(result[0][0] == 0x1.fffffffffffffp+1023 && result[1][0] == INFINITY);
}

/* Refused calls name the argument and store nothing. */
static void refused(const limber_interval_call *x, const char *text)
{
    result[0][0] = result[1][0] = 5;
    assert_refused(limber_interval_gemm(best, x, NULL), LIMBER_STATUS_BAD_ARGUMENT, text);
    assert_true(result[0][0] == 5 && result[1][0] == 5);
}

static void bad_arguments_are_named(void **state)
{
    struct rng r = { 8 };
    limber_interval_call good = call_of(3, 4, 5, true, true), x;

    (void)state;
    fill_intervals(&r, 0);
    assert_int_equal(limber_interval_gemm(best, &good, NULL), LIMBER_STATUS_OK);
    assert_refused(limber_interval_gemm(NULL, &good, NULL), LIMBER_STATUS_BAD_ARGUMENT, "ctx");
    assert_refused(limber_interval_gemm(best, NULL, NULL), LIMBER_STATUS_BAD_ARGUMENT, "call");
    x = good, x.size = 3, refused(&x, "call");
    x = good, x.m = -1, refused(&x, "m = ");
    x = good, x.a_low.data = NULL, refused(&x, "a_low");
    x = good, x.b_low.data = NULL, refused(&x, "b_low");
    x = good, x.c_low.data = NULL, refused(&x, "c_low");
    x = good, x.c_high.data = NULL, refused(&x, "c_high");
    x = good, x.c_high.data = x.c_low.data, refused(&x, "c_high overlaps c_low");
    x = good, x.c_high.data = data[3], refused(&x, "c_high overlaps b_high");
    x = good, x.c_low.data = data[1], refused(&x, "c_low overlaps a_high");
    x = good, x.c_low.data = data[0], refused(&x, "c_low overlaps a_low");
    x = good, x.c_low.row_stride = 1, refused(&x, "c_low");
    x = good, x.a_high.row_stride = -1, refused(&x, "a_high");
    x = good, x.a_low.format = LIMBER_F128, refused(&x, "a_low");
    x = good, x.b_high.format = LIMBER_DD, refused(&x, "b_high");
    x = good, x.c_low.format = LIMBER_F16, refused(&x, "c_low, c_high");
    x = good, x.c_low.format = LIMBER_F32, refused(&x, "c_low, c_high");
    data[0][2] = 3, data[1][2] = 2;
    refused(&good, "a: element (2, 0) is no interval: [3, 2]");
    data[1][2] = NAN;
    refused(&good, "a: element (2, 0) is no interval");
    data[0][2] = data[1][2] = INFINITY;
    refused(&good, "a: element (2, 0) is no interval");
    data[0][2] = data[1][2] = 1;
    data[2][5] = INFINITY;
    x = call_of(3, 4, 5, true, false);
    refused(&x, "b: element (1, 1) is not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_contain_the_range),
        cmocka_unit_test(infinite_bounds_are_kept),
        cmocka_unit_test(bad_arguments_are_named),
    };

    return cmocka_run_group_tests(tests, set_up, destroy_group_contexts);
}
