/* SPDX-License-Identifier: BSD-3-Clause
 * Tests that report.bound holds, for every scheme with every number of slices and for pairs of
 * schemes, on operands whose exponents differ as much as their format allows.  The error of an
 * element is at most the bound plus one rounding and underflow.  No bound is NaN. */
#include "contexts.h"
#include "engine_support.h"
#include "support.h"

#include <float.h>
#include <math.h>

#if LDBL_MANT_DIG == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

enum { M = 64, N = 70, K = 530, SLICES = 6, LOOKS = 40 };

/* Which elements have an exponent that differs from the other elements' exponents. */
enum range {
    RANGE_unmet, /* the first column of A, which is multiplied by zeros of B */
    /* the first column of A, which is multiplied by a row of B with the inverse exponent */
    RANGE_met,
    RANGE_unmet_b, /* the first row of B, which is multiplied by zeros of A */
    RANGE_line, /* the first row of A and the first column of B */
    RANGE_any, /* every element */
    RANGES
};

/* Random A and B: as doubles, and as stored in format f. */
struct operands {
    limber_format f;
    double a[M * K], b[K * N];
    char stored_a[M * K * 8], stored_b[K * N * 8];
};

/* Returns a random power of two with an exponent from -most to most. */
static double random_power(struct rng *r, int most)
{
    return ldexp(1, rng_below(r, 2 * most + 1) - most);
}

/* Fills operands with integers below 8.  Elements that `range` selects are 2^e or are multiplied by
 * 2^e or 2^-e; for RANGE_any, all are multiplied by random powers of two from 2^(-|e|/2) to
 * 2^(|e|/2). */
static void fill_operands(struct rng *r, struct operands *x, int m, int n, int k, enum range range,
                          int e)
{
    for (int i = 0; i < m * k; i++)
        x->a[i] = 1 + rng_below(r, 7);
    for (int i = 0; i < k * n; i++)
        x->b[i] = rng_below(r, 8);
    for (int i = 0; i < m && range <= RANGE_met; i++)
        x->a[i * k] = ldexp(1, e);
    for (int j = 0; j < n && range <= RANGE_met; j++)
        x->b[j] = range == RANGE_met ? ldexp(1, -e) : 0;
    for (int i = 0; i < m && range == RANGE_unmet_b; i++)
        x->a[i * k] = 0;
    for (int j = 0; j < n && range == RANGE_unmet_b; j++)
        x->b[j] = ldexp(1, e);
    for (int p = 0; p < k && range == RANGE_line; p++) {
        x->a[p] = ldexp(x->a[p], e);
        x->b[p * n] = ldexp(x->b[p * n], -e);
    }
    for (int i = 0; i < m * k && range == RANGE_any; i++)
        x->a[i] *= random_power(r, abs(e) / 2);
    for (int i = 0; i < k * n && range == RANGE_any; i++)
        x->b[i] *= random_power(r, abs(e) / 2);
    /* rounds the numbers to the format, and keeps what it represents */
    for (int side = 0; side < 2; side++) {
        size_t count = (size_t)(side ? k * n : m * k);
        double *v = side ? x->b : x->a;
        char *to = side ? x->stored_b : x->stored_a;

        limber_convert(to, x->f, v, LIMBER_F64, count, LIMBER_ROUND_ZERO);
        limber_convert(v, LIMBER_F64, to, x->f, count, LIMBER_ROUND_NEAREST);
    }
}

/* Checks an element's error against the bound, in binary128. */
static void check_element(const struct operands *x, int n, int k, int i, int j, double bound,
                          double got, const char *name)
{
    limber_format_facts facts = LIMBER_FORMAT_FACTS_INIT;
    quad sum = 0, size = 0, off, allowed;

    assert_int_equal(limber_format_describe(x->f, &facts), LIMBER_STATUS_OK);
    for (int p = 0; p < k; p++) {
        quad term = (quad)x->a[i * k + p] * x->b[p * n + j];

        sum += term;
        size += term < 0 ? -term : term;
    }
    if (size == 0 || 2 * size > facts.largest) /* skips sums that may overflow */
        return;
    off = got - sum;
    off = off < 0 ? -off : off;
    allowed = (bound * size + facts.roundoff * size) * (1 + 0x1p-20) + 2 * k * facts.smallest;
    if (!(off <= allowed))
        fail_msg("%s: element %d, %d is %.17g for %.17g, bound %g", name, i, j, got, (double)sum,
                 bound);
}

/* Multiplies and checks samples against the bound.  Returns 1 if the bound is finite, 0 if it is
 * infinite or the product was refused. */
static int check_against_bound(limber_context *ctx, struct rng *r, const struct operands *x, int m,
                               int n, int k, const limber_contract *contract, const char *name)
{
    limber_report report = LIMBER_REPORT_INIT;
    static char c[M * N * 8];
    static double got[M * N];
    limber_status s;

    s = limber_gemm(ctx, contract, m, n, k, NULL, (limber_matrix){ x->stored_a, x->f, k, 1 },
                    (limber_matrix){ x->stored_b, x->f, n, 1 }, NULL,
                    (limber_output){ c, x->f, n, 1 }, &report);
    if (s == LIMBER_STATUS_NO_SCHEME)
        return 0;
    if (s)
        fail_msg("%s: %s", name, limber_error_text());
    if (isnan(report.bound) || report.bound < 0)
        fail_msg("%s: the bound is %g", name, report.bound);
    if (report.bound == INFINITY)
        return 0;
    limber_convert(got, LIMBER_F64, c, x->f, (size_t)(m * n), LIMBER_ROUND_NEAREST);
    /* half of the samples are in the first row, a third of all in the first column */
    for (int look = 0; look < LOOKS; look++) {
        int i = look % 2 ? 0 : rng_below(r, m), j = look % 3 ? rng_below(r, n) : 0;

        check_element(x, n, k, i, j, report.bound, got[i * n + j], name);
    }
    return 1;
}

/* Runs a scheme, or two schemes joined by "+", for all ranges and exponents.  Returns how many
 * bounds were finite. */
static int run_scheme(limber_context *ctx, const char *scheme, const char *format, int m, int n,
                      int k, int slices)
{
    static const int exponents[] = { 12, 40, 100, 500, 1000, -12, -40, -100, -500, -1000 };
    static struct operands x;
    int finite = 0;

    x.f = named(format);
    for (int range = 0; range < RANGES; range++)
        for (size_t e = 0; e < COUNT(exponents); e++) {
            const limber_contract contract = { .size = sizeof(limber_contract),
                                               .promise = LIMBER_CONTRACT_FAST,
                                               .scheme = scheme,
                                               .slices = slices };
            struct rng r = { 100 * (uint64_t)range + e };
            char name[96];

            if (abs(exponents[e]) >= (1 << x.f.exp_bits) / 2)
                continue;
            snprintf(name, sizeof name, "%s, %s, %d slices, range %d of 2^%d", scheme, format,
                     slices, range, exponents[e]);
            fill_operands(&r, &x, m, n, k, (enum range)range, exponents[e]);
            finite += check_against_bound(ctx, &r, &x, m, n, k, &contract, name);
        }
    return finite;
}

/* Every scheme in three formats, and every number of slices: errors of samples stay within the
 * bound that the report states. */
static void schemes_alone(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f16" };
    static const char *const backends[] = { "interp", "llvm" };

    (void)state;
    for (size_t b = 0; b < COUNT(backends); b++) {
        limber_context *ctx = test_context(backends[b], 2, 0);
        int finite = 0;

        for (int s = 0; ctx && limber_scheme_at(s); s++) {
            const char *scheme = limber_scheme_at(s)->name;
            bool sliced = strncmp(scheme, "ozaki1", 6) == 0;

            for (size_t f = 0; f < COUNT(formats) && strcmp(scheme, "simulate") != 0 &&
                               strcmp(scheme, "tensor-mx") != 0;
                 f++)
                for (int slices = 0; slices <= (sliced ? SLICES : 0); slices++)
                    finite += run_scheme(ctx, scheme, formats[f], 3, 4, 40, slices);
        }
        print_message("%s: %d bounds\n", backends[b], finite);
        assert_true(!ctx || finite > 1000);
        limber_destroy(ctx);
    }
}

/* A product whose parts have different schemes must report the largest bound of its parts. */
static void schemes_in_pairs(void **state)
{
    static const char *const pairs[] = { "tensor-e5m2+ozaki1-f64", "fp32-f+ozaki1-i8",
                                         "tensor-f16+ozaki1-i8" };
    limber_context *ctx = test_context(NULL, 2, 0);
    int finite = 0;

    (void)state;
    assert_non_null(ctx);
    for (size_t i = 0; i < COUNT(pairs); i++)
        for (int slices = 1; slices <= SLICES; slices += SANITIZED ? 3 : 1)
            finite += run_scheme(ctx, pairs[i], "f64", M, N, K, slices);
    print_message("pairs: %d bounds\n", finite);
    assert_true(finite > 0);
    limber_destroy(ctx);
}

/* beta C is a midpoint of C's format, and A B is so small that a sum in binary64 would lose it.
 * `correct` must round toward A B, `bits` may give either neighbour. */
static void ties_beside_tiny_products(void **state)
{
    static const char *const formats[] = { "f32", "tf32", "bf16", "f16", "f64" };
    static const int bits[] = { 0, 8, 24, 39, 60 }; /* 0 stands for `correct` */

    (void)state;
    for (int b = 0; b < 2; b++) {
        limber_context *ctx = test_context(b ? "llvm" : "interp", 2, 0);

        for (int i = 0; ctx && i < (int)(COUNT(formats) * COUNT(bits)) * 2; i++) {
            const limber_format f = named(formats[i / 2 % (int)COUNT(formats)]);
            const int asked = bits[i / 2 / (int)COUNT(formats)];
            const limber_contract contract = { .size = sizeof(limber_contract),
                                               .promise = asked ? LIMBER_CONTRACT_BITS :
                                                                  LIMBER_CONTRACT_CORRECT,
                                               .bits = asked };
            const double a = 0x1p-60, other = i & 1 ? -0x1p-60 : 0x1p-60,
                         ulp = ldexp(1, -f.frac_bits);
            const double before = 1.5, low = 1.5 + ulp, high = 1.5 + 2 * ulp;
            char beta[8], c[8];
            double got;

            store_scalar(beta, f, 1 + ulp);
            limber_convert(c, f, &before, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
            if (limber_gemm(ctx, &contract, 1, 1, 1, NULL, (limber_matrix){ &a, LIMBER_F64, 1, 1 },
                            (limber_matrix){ &other, LIMBER_F64, 1, 1 }, beta,
                            (limber_output){ c, f, 1, 1 }, NULL))
                fail_msg("%s", limber_error_text());
            limber_convert(&got, LIMBER_F64, c, f, 1, LIMBER_ROUND_NEAREST);
            if (got != low && got != high)
                fail_msg("%s, bits %d: %a is neither neighbour", formats[i / 2 % 5], asked, got);
            if (!asked && got != (other < 0 ? low : high))
                fail_msg("%s, correct: %a", formats[i / 2 % 5], got);
        }
        limber_destroy(ctx);
    }
}

/* Plans a product for each k from 1 to 2^50 + 1 at which a class of lengths begins, and for the
 * next k, and checks that the error bound is finite. */
static void serve_every_length(void)
{
    static const char *const formats[][2] = {
        { "f64", "f64" }, { "f32", "f32" }, { "bf16", "f32" }, { "f16", "f16" }, { "f64", "f16" }
    };
    static const char *const schemes[] = { NULL, "native" };
    const double one = 1;
    limber_context *ctx = test_context(NULL, 2, 0);

    for (int log = 0; log <= 50; log++)
        for (int i = 0; i < 4 * (int)COUNT(formats); i++) {
            const limber_format f = named(formats[i / 4][0]), to = named(formats[i / 4][1]);
            limber_contract contract = { .size = sizeof contract,
                                         .promise = i & 1 ? LIMBER_CONTRACT_NATIVE :
                                                            LIMBER_CONTRACT_REPRODUCIBLE };
            limber_report report = LIMBER_REPORT_INIT;
            limber_problem p = LIMBER_PROBLEM_INIT;
            char x[8], *text;

            assert_int_equal(limber_convert(x, f, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST),
                             LIMBER_STATUS_OK);
            /* a scheme is named for `native`, so that the data is not sampled */
            contract.scheme = schemes[i & 1];
            p.m = p.n = 1;
            p.k = ((int64_t)1 << log) + (i >> 1 & 1);
            p.a = p.b = (limber_matrix){ x, f, 0, 0 };
            p.c = (limber_output){ NULL, to, 1, 1 };
            p.contract = &contract;
            if (limber_plan(ctx, &p, &text, &report))
                fail_msg("%s to %s, k = 2^%d + %d: %s", formats[i / 4][0], formats[i / 4][1], log,
                         i >> 1 & 1, limber_error_text());
            limber_free(text);
            assert_string_equal(report.scheme, "native");
            if (!(report.bound >= 0 && report.bound < INFINITY))
                fail_msg("k = 2^%d + %d: bound %g", log, i >> 1 & 1, report.bound);
        }
    limber_destroy(ctx);
}

/* Plans of `reproducible` and `native` products have a finite error bound for every k, also where
 * small products would need no plan. */
static void every_length_is_served(void **state)
{
    const char *ways = getenv("LIMBER_WAYS");
    char *before = ways ? strdup(ways) : NULL;

    for (int turn = 0; turn < 2; turn++) {
        setenv("LIMBER_WAYS", turn ? "-planless" : "", 1);
        serve_every_length();
    }
    if (before)
        setenv("LIMBER_WAYS", before, 1);
    else
        unsetenv("LIMBER_WAYS");
    free(before);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemes_alone),
        cmocka_unit_test(schemes_in_pairs),
        cmocka_unit_test(every_length_is_served),
        cmocka_unit_test(ties_beside_tiny_products),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
