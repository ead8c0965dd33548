/* SPDX-License-Identifier: BSD-3-Clause
 * Tests of Ozaki I with a number of slices that is given or estimated (contract `fast`), by exact
 * results from MPFR:
 *
 *   - with as many slices, errors are at most twice those of the algorithm as published
 *     (Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, algorithms 1 and 2), which is
 *     written here in plain loops;
 *   - with an estimated number, errors are at most those of conventional sums of the result's
 *     format, also where few elements are large;
 *   - errors have both signs. */
#include "contexts.h"
#include "support.h"

#include "ir/ir.h"

#include <math.h>
#include <mpfr.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M = 11, N = 13 };

static limber_context *ctx;

/* A problem in doubles: A is M x k, B is N x k (its columns), both contiguous along k. */
struct trial {
    int k;
    double *a, *b;
    double exact[M * N], size[M * N]; /* sum a b, rounded once; sum |a| |b| */
    mpfr_t sum[M * N];
};

static void start_trial(struct trial *p, int k)
{
    p->k = k;
    p->a = malloc((size_t)k * M * sizeof *p->a);
    p->b = malloc((size_t)k * N * sizeof *p->b);
    for (int e = 0; e < M * N; e++)
        mpfr_init2(p->sum[e], 4096);
}

static void end_trial(struct trial *p)
{
    free(p->a);
    free(p->b);
    for (int e = 0; e < M * N; e++)
        mpfr_clear(p->sum[e]);
}

/* Computes the exact results.  4096 bits hold products of doubles between 2^-400 and 2^400. */
static void compute_exact(struct trial *p)
{
    mpfr_t t;

    mpfr_init2(t, 106);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int e = i * N + j, inexact = 0;

            mpfr_set_zero(p->sum[e], 1);
            p->size[e] = 0;
            for (int q = 0; q < p->k; q++) {
                mpfr_set_d(t, p->a[i * p->k + q], MPFR_RNDN);
                inexact |= mpfr_mul_d(t, t, p->b[j * p->k + q], MPFR_RNDN);
                inexact |= mpfr_add(p->sum[e], p->sum[e], t, MPFR_RNDN);
                p->size[e] += fabs(p->a[i * p->k + q] * p->b[j * p->k + q]);
            }
            assert_int_equal(inexact, 0);
            p->exact[e] = mpfr_get_d(p->sum[e], MPFR_RNDN);
        }
    mpfr_clear(t);
}

/* Returns c's error in element e, relative to sum |a| |b|. */
static double error_of(const struct trial *p, int e, double c)
{
    mpfr_t t;
    double x;

    mpfr_init2(t, 64);
    mpfr_d_sub(t, c, p->sum[e], MPFR_RNDN);
    x = mpfr_get_d(t, MPFR_RNDN) / p->size[e];
    mpfr_clear(t);
    return p->size[e] > 0 ? x : 0;
}

/* Returns the largest error of C's elements. */
static double largest_error(const struct trial *p, const double c[M * N])
{
    double most = 0;

    for (int e = 0; e < M * N; e++)
        most = fmax(most, fabs(error_of(p, e, c[e])));
    return most;
}

/* Multiplies by Limber under `fast`.  slices: 0 to have their number estimated.  single: operands,
 * which are exact in FP32, and results are FP32.  Returns the number of products. */
static int multiply(const struct trial *p, const char *scheme, int slices, bool single,
                    double c[M * N])
{
    const limber_contract fast = {
        .size = sizeof fast, .promise = LIMBER_CONTRACT_FAST, .slices = slices, .scheme = scheme
    };
    limber_format f = single ? LIMBER_F32 : LIMBER_F64;
    limber_report report = LIMBER_REPORT_INIT;
    float *narrow = malloc((size_t)(M + N) * (size_t)p->k * sizeof *narrow), out[M * N];
    const void *a = p->a, *b = p->b;
    size_t count = (size_t)M * (size_t)p->k;

    for (size_t i = 0; single && i < (size_t)(M + N) * (size_t)p->k; i++)
        narrow[i] = (float)(i < count ? p->a[i] : p->b[i - count]);
    if (single) {
        a = narrow;
        b = narrow + count;
    }
    if (limber_gemm(ctx, &fast, M, N, p->k, NULL, (limber_matrix){ a, f, p->k, 1 },
                    (limber_matrix){ b, f, 1, p->k }, NULL,
                    (limber_output){ single ? (void *)out : c, f, N, 1 }, &report))
        fail_msg("%s, %d slices: %s", scheme, slices, limber_error_text());
    for (int e = 0; single && e < M * N; e++)
        c[e] = out[e];
    free(narrow);
    return report.rows;
}

/* ---- data ------------------------------------------------------------------------------------ */

enum kind { plain, rows, inner, balanced, needle, needles, positive, KINDS };
static const char *const kind_names[KINDS] = {
    "plain",         "a large row, a small column",
    "large along k", "large along k, B small there",
    "one needle",    "a needle in each row and column",
    "positive",
};

/* Returns a number with standard normal distribution. */
static double normal(struct rng *r)
{
    double u = rng_unit(r), v = rng_unit(r);

    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* Fills A and B with (U - 1/2) exp(phi N(0,1)), the paper's distribution, and makes some elements
 * larger or smaller as `kind` says. */
static void fill_trial(struct rng *r, struct trial *p, double phi, enum kind kind, bool single)
{
    int k = p->k;

    for (int i = 0; i < (M + N) * k; i++) {
        double x = (rng_unit(r) - 0.5) * exp(phi * normal(r)), *to = p->a + i;

        if (i >= M * k)
            to = p->b + i - M * k;
        *to = kind == positive ? fabs(x) : x;
    }
    for (int q = 0; q < k; q++) {
        if (kind == rows) {
            p->a[3 * k + q] *= 1e9;
            p->b[5 * k + q] *= 1e-7;
        }
        if ((kind == inner || kind == balanced) && q == k / 3) {
            for (int i = 0; i < M; i++)
                p->a[i * k + q] *= 1e9;
            for (int j = 0; j < N && kind == balanced; j++)
                p->b[j * k + q] *= 1e-9;
        }
    }
    if (kind == needle) {
        p->a[4 * k + k / 2] = 1e10;
        p->b[8 * k + k / 5] = -1e10;
    }
    for (int i = 0; i < M + N && kind == needles; i++)
        (i < M ? p->a + i * k : p->b + (i - M) * k)[rng_below(r, k)] *= 1e6;
    for (int i = 0; i < (M + N) * k && single; i++) {
        double *to = i < M * k ? p->a + i : p->b + i - M * k;

        *to = (double)(float)*to;
    }
    compute_exact(p);
}

/* ---- the published algorithm ----------------------------------------------------------------- */

/* Splits a line into `count` slices, the largest first: each is the remainder so far, rounded to
 * a multiple of one power of two by adding and subtracting sigma. half: log2 of a slice's
 * largest integer. */
static void split_line(const double *line, int k, int half, int count, double *slice)
{
    double *rest = malloc((size_t)k * sizeof *rest);

    memcpy(rest, line, (size_t)k * sizeof *rest);
    for (int s = 0; s < count; s++, slice += k) {
        volatile double sigma, moved;
        double most = 0;

        for (int q = 0; q < k; q++)
            most = fmax(most, fabs(rest[q]));
        /* the last bit of sigma is 2^(ceil(log2 most) - half) */
        sigma = most > 0 ? ldexp(0.75, 53 - half + (int)ceil(log2(most))) : 0;
        for (int q = 0; q < k; q++) {
            moved = rest[q] + sigma;
            slice[q] = moved - sigma;
            rest[q] -= slice[q];
        }
    }
    free(rest);
}

/* Computes the products of slices p and q with p + q <= d + 1 of d slices, each exactly, and
 * sums them in FP64, the smallest first. half: log2 of a slice's largest integer. */
static void multiply_as_published(const struct trial *p, int half, int d, double c[M * N])
{
    size_t line = (size_t)d * (size_t)p->k;
    double *a = malloc(M * line * sizeof *a), *b = malloc(N * line * sizeof *b);

    for (int i = 0; i < M; i++)
        split_line(p->a + i * p->k, p->k, half, d, a + (size_t)i * line);
    for (int j = 0; j < N; j++)
        split_line(p->b + j * p->k, p->k, half, d, b + (size_t)j * line);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;

            for (int w = d - 1; w >= 0; w--)
                for (int s = 0; s <= w; s++) {
                    const double *x = a + (size_t)i * line + s * p->k;
                    const double *y = b + (size_t)j * line + (w - s) * p->k;
                    double t = 0;

                    for (int q = 0; q < p->k; q++)
                        t += x[q] * y[q]; /* exact: at most 53 bits from lowest to highest */
                    sum += t;
                }
            c[i * N + j] = sum;
        }
    free(a);
    free(b);
}

/* Returns log2 of the largest integer of a slice of the published algorithm, such that a sum of
 * k products fits the accumulator's bits and a slice fits the unit's operand. */
static int published_half(int accumulator, int operand, int k)
{
    int half = 53 - (int)ceil(53 - (accumulator - log2(k)) / 2);

    return half < operand ? half : operand;
}

/* With an equal number of slices, errors are at most twice those of the published algorithm.
 * Errors of few units in the last place are not compared, because conventional sums have them,
 * too. */
static void errors_are_those_of_the_published_algorithm(void **state)
{
    static const struct {
        const char *scheme;
        int accumulator, operand, least_k;
    } units[] = {
        { "ozaki1-f16", 24, 11, 64 },
        { "ozaki1-bf16", 24, 8, 64 },
        { "ozaki1-i8", 31, 6, 64 }, /* integers up to 127 */
        { "ozaki1-f64", 53, 21, 64 },
    };
    static const int ks[] = { 64, 100, 256, 1000, 1024, 2048 };
    static const double phis[] = { 0, 1, 4 };
    int compared = 0;

    (void)state;
    for (size_t x = 0; x < COUNT(ks); x += SANITIZED ? 3 : 1)
        for (size_t y = 0; y < COUNT(phis); y++) {
            struct rng r = { 60 + 10 * x + y };
            struct trial p;

            start_trial(&p, ks[x]);
            fill_trial(&r, &p, phis[y], plain, false);
            for (size_t u = 0; u < COUNT(units); u++)
                for (int d = 1; d <= 8; d++) {
                    int half = published_half(units[u].accumulator, units[u].operand, p.k);
                    double ours[M * N], theirs[M * N], e, published;

                    multiply_as_published(&p, half, d, theirs);
                    multiply(&p, units[u].scheme, d, false, ours);
                    e = largest_error(&p, ours);
                    published = largest_error(&p, theirs);
                    if (published > 0x1p-8) /* too few bits of small elements are left */
                        continue;
                    if (e > 2 * published && e > 0x1p-51)
                        fail_msg("%s, k = %d, phi = %g, %d slices: %g, published %g",
                                 units[u].scheme, p.k, phis[y], d, e, published);
                    compared += published > 0x1p-50;
                }
            end_trial(&p);
        }
    assert_true(compared > (SANITIZED ? 50 : 150));
}

/* ---- the estimate ---------------------------------------------------------------------------- */

/* Computes C by conventional sums in the result's format, in blocks of 256 products along k. */
static void multiply_plainly(const struct trial *p, bool single, double c[M * N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const double *x = p->a + i * p->k, *y = p->b + j * p->k;
            double sum = 0, part = 0;

            for (int q = 0; q < p->k; q++) {
                part = single ? fmaf((float)x[q], (float)y[q], (float)part) : fma(x[q], y[q], part);
                if (q % 256 == 255 || q == p->k - 1) {
                    sum = single ? (double)((float)sum + (float)part) : sum + part;
                    part = 0;
                }
            }
            c[i * N + j] = sum;
        }
}

/* Checks that the estimated number of slices gives no larger errors than conventional sums. */
static void estimate_one(int k, double phi, enum kind kind, bool single)
{
    static const char *const schemes[] = { "ozaki1-i8", "ozaki1-f16", "ozaki1-bf16", "ozaki1-f64" };
    struct rng r = { (uint64_t)k * 1000 + (uint64_t)(10 * phi) + (uint64_t)kind * 7 + single };
    double c[M * N], conventional;
    struct trial p;

    start_trial(&p, k);
    fill_trial(&r, &p, phi, kind, single);
    multiply_plainly(&p, single, c);
    conventional = largest_error(&p, c);
    for (size_t s = 0; s < COUNT(schemes); s++) {
        int products = multiply(&p, schemes[s], 0, single, c);
        double e = largest_error(&p, c);

        if (e > conventional)
            fail_msg("%s, %s, k = %d, phi = %g, %s: %d products, error %g, conventional %g",
                     schemes[s], single ? "FP32" : "FP64", k, phi, kind_names[kind], products, e,
                     conventional);
    }
    end_trial(&p);
}

/* For short and long sums, and data of narrow and wide ranges, the estimated number of slices gives
 * errors at most as large as those of conventional sums. */
static void estimates_give_the_accuracy_of_conventional_sums(void **state)
{
    static const int ks[] = { 64, 300, 1024, 4096, 16384 };
    static const double phis[] = { 0, 1, 2, 4 };
    int turn = 0;

    (void)state;
    for (size_t x = 0; x < COUNT(ks) - (SANITIZED ? 2 : 0); x++)
        for (size_t y = 0; y < COUNT(phis); y++)
            for (int kind = 0; kind < KINDS; kind++)
                for (int single = 0; single < 2; single++)
                    /* every third of the long sums, which take a second each */
                    if (ks[x] < 4096 || kind == plain || ++turn % 3 == 0)
                        estimate_one(ks[x], phis[y], (enum kind)kind, single);
}

/* More slices than needed cost time: uniform numbers take 28 products in FP64 and six in FP32. */
static void estimates_are_no_larger_than_needed(void **state)
{
    struct rng r = { 4 };
    struct trial p;
    double c[M * N];

    (void)state;
    start_trial(&p, 1024);
    fill_trial(&r, &p, 0, plain, false);
    assert_int_equal(multiply(&p, "ozaki1-f16", 0, false, c), 28);
    assert_int_equal(multiply(&p, "ozaki1-i8", 0, false, c), 28);
    assert_int_equal(multiply(&p, "ozaki1-f64", 0, false, c), 6);
    fill_trial(&r, &p, 0, plain, true);
    assert_int_equal(multiply(&p, "ozaki1-f16", 0, true, c), 6);
    /* the slices of small integers end early, and so do the products */
    for (int i = 0; i < (M + N) * p.k; i++)
        *(i < M * p.k ? p.a + i : p.b + i - M * p.k) = rng_below(&r, 200) - 100;
    compute_exact(&p);
    assert_int_equal(multiply(&p, "ozaki1-f16", 0, false, c), 1);
    assert_true(largest_error(&p, c) == 0);
    end_trial(&p);
}

/* Scaling an operand by a power of two does not change the estimate, up to the limits of the
 * format. */
static void estimates_do_not_depend_on_scales(void **state)
{
    static const int scales[][2] = { { 960, -960 }, { -960, 960 }, { -600, 0 }, { 0, -400 } };
    double c[M * N];
    struct trial p;

    (void)state;
    start_trial(&p, 300);
    for (int kind = plain; kind <= needle; kind++) {
        struct rng r = { 6 };
        int products;

        fill_trial(&r, &p, 1, (enum kind)kind, false);
        products = multiply(&p, "ozaki1-i8", 0, false, c);
        for (size_t s = 0; s < COUNT(scales); s++) {
            for (int i = 0; i < (M + N) * p.k; i++) {
                double *to = i < M * p.k ? p.a + i : p.b + i - M * p.k;

                *to = ldexp(*to, scales[s][i >= M * p.k]);
            }
            assert_int_equal(multiply(&p, "ozaki1-i8", 0, false, c), products);
            for (int i = 0; i < (M + N) * p.k; i++) {
                double *to = i < M * p.k ? p.a + i : p.b + i - M * p.k;

                *to = ldexp(*to, -scales[s][i >= M * p.k]);
            }
        }
    }
    end_trial(&p);
}

/* The omitted products of positive numbers have both signs, so their sum does not grow like k: the
 * mean error is small beside the errors' deviation.  A sum of 2^12 errors of one sign would have a
 * mean of 60 deviations. */
static void errors_have_both_signs(void **state)
{
    static const char *const schemes[] = { "ozaki1-i8", "ozaki1-f16", "ozaki1-bf16", "ozaki1-f64" };
    struct rng r = { 5 };
    struct trial p;

    (void)state;
    start_trial(&p, 4096);
    fill_trial(&r, &p, 0, positive, false);
    for (size_t s = 0; s < COUNT(schemes); s++)
        for (int d = 2; d <= (s == 3 ? 2 : 4); d++) {
            double c[M * N], mean = 0, square = 0;

            multiply(&p, schemes[s], d, false, c);
            for (int e = 0; e < M * N; e++) {
                double x = error_of(&p, e, c[e]);

                mean += x / (M * N);
                square += x * x / (M * N);
            }
            /* the mean of 143 independent errors deviates by a twelfth of one error's deviation */
            if (fabs(mean) > 0.5 * sqrt(square))
                fail_msg("%s, %d slices: mean %g, deviation %g", schemes[s], d, mean, sqrt(square));
        }
    end_trial(&p);
}

/* Tests estimates for operands from which nothing can be estimated: zeros, no inner dimension,
 * one element, NaN and infinities. */
static void estimates_of_unusual_operands(void **state)
{
    const limber_contract fast = { .size = sizeof fast,
                                   .promise = LIMBER_CONTRACT_FAST,
                                   .scheme = "ozaki1-i8" };
    double a[16] = { 0 }, b[16] = { 0 }, c[16];
    static const int64_t sizes[][3] = {
        { 4, 4, 4 }, { 0, 4, 4 }, { 4, 0, 4 }, { 4, 4, 0 }, { 1, 1, 1 }, { 1, 4, 1 }, { 4, 1, 4 },
    };

    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int filled = 0; filled < 4; filled++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];

            for (int i = 0; i < 16; i++) {
                a[i] = filled == 0 ? 0 : filled == 3 ? 0x1p-1060 : i + 1;
                b[i] = filled == 0 ? 0 : filled == 3 ? 0x1p60 : 3 - i;
            }
            if (filled == 2) {
                a[0] = NAN;
                b[3] = INFINITY;
            }
            if (limber_gemm(ctx, &fast, m, n, k, NULL, (limber_matrix){ a, LIMBER_F64, k, 1 },
                            (limber_matrix){ b, LIMBER_F64, n, 1 }, NULL,
                            (limber_output){ c, LIMBER_F64, n, 1 }, NULL))
                fail_msg("%s", limber_error_text());
            for (int64_t e = 0; e < m * n; e++) {
                double sum = 0;

                for (int64_t q = 0; q < k; q++)
                    sum += a[e / n * k + q] * b[q * n + e % n];
                if (isnan(sum) ? !isnan(c[e]) : c[e] != sum)
                    fail_msg("%zu, data %d: %g, not %g", s, filled, c[e], sum);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_of_the_published_algorithm),
        cmocka_unit_test(estimates_give_the_accuracy_of_conventional_sums),
        cmocka_unit_test(estimates_are_no_larger_than_needed),
        cmocka_unit_test(estimates_do_not_depend_on_scales),
        cmocka_unit_test(errors_have_both_signs),
        cmocka_unit_test(estimates_of_unusual_operands),
    };

    ctx = group_context(.threads = 2);
    return ctx ? cmocka_run_group_tests(tests, NULL, destroy_group_contexts) : 1;
}
