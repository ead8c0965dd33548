/* SPDX-License-Identifier: BSD-3-Clause
 * Products and convolutions of formats other than IEEE floats: all backends must give the
 * interpreter's bits, and `correct` results must equal MPFR's. */
#include "contexts.h"
#include "codes.h"
#include "support.h"

#include <limber/limber.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(x) (sizeof(x) / sizeof *(x))
enum { M = 19, N = 21, K = 90, LARGEST = 8 };

static limber_context *context[2]; /* the default backend, and the interpreter */

static int make_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        /* without partitioning, which may differ between backends */
        context[i] = group_context(.backend = i ? "interp" : NULL, .threads = 1,
                                   .partition = LIMBER_PARTITION_OFF);
        if (!context[i])
            return 1;
    }
    return 0;
}

/* Formats of A, B and C. */
static const struct {
    const char *a, *b, *c;
} trios[] = {
    { "e4m3fnuz", "e4m3fnuz", "f32" },
    { "e4m3fnuz", "e5m2fnuz", "f16" },
    { "e5m2fnuz", "e5m2fnuz", "bf16" },
    { "e4m3fnuz", "e4m3fnuz", "e4m3fnuz" },
    { "f32", "e4m3fnuz", "e5m2fnuz" },
    { "e4m3fnuz", "e4m3", "f64" },
    { "posit8", "posit8", "posit8" },
    { "posit16", "posit16", "posit16" },
    { "posit32", "posit32", "posit32" },
    { "posit8", "posit16", "f32" },
    { "posit16", "posit16", "f64" },
    { "posit32", "f32", "f64" },
    { "f64", "posit8", "posit16" },
    { "f16", "bf16", "posit32" },
    { "i8", "i8", "posit16" },
    { "i4", "i4", "i32" },
    { "i2", "i4", "i64" },
    { "i4", "i8", "i32" },
    { "u8", "i2", "i32" },
    { "i4", "f32", "f32" },
    { "bf16", "i4", "f16" },
    { "i4", "i4", "posit16" },
    { "f32", "f16", "posit8" },
    { "e4m3", "e4m3", "posit8" },
    { "i4", "i4", "i4" },
    { "i8", "i8", "i2" },
    { "i2", "i4", "i4" },
    { "i16", "i32", "i4" },
    { "i64", "i8", "i2" },
};

/* Fills an array with random bit patterns; elements of f32 and of 8-byte formats get random numbers
 * of moderate size instead.  finite: bit patterns of NaN and infinities are drawn again. */
static void fill_codes(struct rng *r, limber_format f, bool finite, char *to, int count)
{
    for (int i = 0; i < count; i++) {
        char *at = to + i * f.size;
        double v;

        do {
            uint64_t code = rng_next(r);

            memcpy(at, &code, f.size);
            /* formats of 32 and 64 bits get numbers of moderate size */
            if (f.size == 8 || (f.size == 4 && f.kind == LIMBER_KIND_FLOAT)) {
                v = ldexp(2 * rng_unit(r) - 1, rng_below(r, 9));
                limber_convert(at, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
            }
            limber_convert(&v, LIMBER_F64, at, f, 1, LIMBER_ROUND_NEAREST);
        } while (finite && !isfinite(v));
    }
}

/* A product of fixed sizes, with its matrices as stored. */
struct call {
    limber_format a, b, c;
    limber_contract contract;
    const void *alpha, *beta;
    bool transposed;
    _Alignas(16) char ea[M * K * LARGEST]; /* aligned, since tests also write floats to it */
    _Alignas(16) char eb[K * N * LARGEST];
    _Alignas(16) char ec[M * N * LARGEST];
    _Alignas(16) char before[M * N * LARGEST];
};

/* Computes C in context i.  c: is first set to a copy of `before`. */
static limber_status run_in_context(const struct call *x, int i, char *c, limber_report *report)
{
    limber_matrix a = { x->ea, x->a, x->transposed ? 1 : K, x->transposed ? M : 1 };
    limber_matrix b = { x->eb, x->b, x->transposed ? 1 : N, x->transposed ? K : 1 };

    memcpy(c, x->before, sizeof x->before);
    return limber_gemm(context[i], &x->contract, M, N, K, x->alpha, a, b, x->beta,
                       (limber_output){ c, x->c, N, 1 }, report);
}

/* Writes a description of the call to `text` and returns it. */
static const char *describe(const struct call *x, char text[200])
{
    char name[3][64];

    snprintf(text, 200, "%s by %s to %s, promise %d, transposed %d, alpha %d",
             limber_format_name(x->a, name[0], sizeof name[0]),
             limber_format_name(x->b, name[1], sizeof name[1]),
             limber_format_name(x->c, name[2], sizeof name[2]), (int)x->contract.promise,
             x->transposed, x->alpha != NULL);
    return text;
}

/* Checks that the interpreter gives the same bits with the scheme that the default backend has
 * chosen. */
static void check_same_bits(struct call *x)
{
    static char other[M * N * LARGEST];
    limber_report report = LIMBER_REPORT_INIT;
    char text[200];

    if (run_in_context(x, 0, x->ec, &report))
        fail_msg("%s: %s", describe(x, text), limber_error_text());
    x->contract.scheme = report.scheme;
    if (run_in_context(x, 1, other, NULL))
        fail_msg("%s by %s: %s", describe(x, text), report.scheme, limber_error_text());
    assert_same_numbers(x->c, other, x->ec, M * N, "%s by %s, two backends", describe(x, text),
                        report.scheme);
}

/* Computes an element exactly, and |alpha| |A| |B| + |beta| |C|.  Scalars, if present, are alpha =
 * 3 and beta = -2. */
static void exact_of(const struct call *x, int i, mpfr_t sum, mpfr_t absolute)
{
    int row = i / N, col = i % N;
    mpfr_t before;

    ref_dot(sum, absolute, x->a, x->ea + (x->transposed ? row : row * K) * x->a.size,
            x->transposed ? M : 1, x->b, x->eb + (x->transposed ? col * K : col) * x->b.size,
            x->transposed ? 1 : N, K);
    if (!x->alpha)
        return;
    mpfr_init2(before, 4000);
    ref_load(before, x->c, x->before + i * x->c.size);
    mpfr_mul_si(sum, sum, 3, MPFR_RNDN);
    mpfr_mul_si(absolute, absolute, 3, MPFR_RNDN);
    mpfr_mul_si(before, before, -2, MPFR_RNDN);
    mpfr_add(sum, sum, before, MPFR_RNDN);
    mpfr_abs(before, before, MPFR_RNDN);
    mpfr_add(absolute, absolute, before, MPFR_RNDN);
    mpfr_clear(before);
}

/* Checks that every element is the exact sum rounded once. */
static void check_correct(const struct call *x)
{
    mpfr_t sum, absolute;
    char text[200];

    mpfr_inits2(4000, sum, absolute, (mpfr_ptr)NULL);
    for (int i = 0; i < M * N; i++) {
        exact_of(x, i, sum, absolute);
        if (!ref_rounds_to(sum, x->c, x->ec + i * x->c.size))
            fail_msg("%s: element %d is wrong", describe(x, text), i);
    }
    mpfr_clears(sum, absolute, (mpfr_ptr)NULL);
}

/* Checks that results are the low bits of the exact integers, and that unused bits are zero. */
static void check_wrapped(const struct call *x)
{
    mpfr_t sum, absolute;
    char text[200];

    mpfr_inits2(400, sum, absolute, (mpfr_ptr)NULL);
    for (int i = 0; i < M * N; i++) {
        int modulus = 2 << x->c.frac_bits, want;

        exact_of(x, i, sum, absolute);
        assert_true(mpfr_integer_p(sum));
        mpfr_set_ui(absolute, (unsigned long)modulus, MPFR_RNDN);
        mpfr_fmod(sum, sum, absolute, MPFR_RNDN);
        want = ((int)mpfr_get_si(sum, MPFR_RNDN) + modulus) % modulus;
        if ((unsigned char)x->ec[i] != want)
            fail_msg("%s: element %d has the bits %d, not %d", describe(x, text), i,
                     (unsigned char)x->ec[i], want);
    }
    mpfr_clears(sum, absolute, (mpfr_ptr)NULL);
}

/* Returns x rounded to a double in direction `mode`, and then to the nearest number of f. */
static double rounded(limber_format f, const mpfr_t x, mpfr_rnd_t mode)
{
    double v = mpfr_get_d(x, mode);
    char code[LARGEST];

    limber_convert(code, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    limber_convert(&v, LIMBER_F64, code, f, 1, LIMBER_ROUND_NEAREST);
    return v;
}

/* Checks results in posits.  A result may be any rounding of a number in the interval that the
 * contract's error bound allows.  Sums whose terms may overflow binary32 are not checked. */
static void check_bounds(const struct call *x)
{
    double allowed = x->contract.promise == LIMBER_CONTRACT_BITS ?
                         ldexp(1, -x->contract.bits) :
                         (K + 5) * ldexp(1, -x->c.frac_bits - 1);
    mpfr_t sum, absolute, low, high;
    char text[200];

    mpfr_inits2(4000, sum, absolute, low, high, (mpfr_ptr)NULL);
    for (int i = 0; i < M * N; i++) {
        double v, from, to;

        exact_of(x, i, sum, absolute);
        limber_convert(&v, LIMBER_F64, x->ec + i * x->c.size, x->c, 1, LIMBER_ROUND_NEAREST);
        if (!mpfr_number_p(sum)) {
            assert_true(isnan(v));
            continue;
        }
        if (mpfr_cmp_d(absolute, 0x1p127) >= 0)
            continue;
        mpfr_mul_d(absolute, absolute, allowed, MPFR_RNDU);
        mpfr_sub(low, sum, absolute, MPFR_RNDD);
        mpfr_add(high, sum, absolute, MPFR_RNDU);
        from = rounded(x->c, low, MPFR_RNDD);
        to = rounded(x->c, high, MPFR_RNDU);
        if (!(v >= from && v <= to))
            fail_msg("%s: element %d is %a, outside of [%a, %a]", describe(x, text), i, v, from,
                     to);
    }
    mpfr_clears(sum, absolute, low, high, (mpfr_ptr)NULL);
}

/* Multiplies all trios of formats, with and without transposition and scalars, and checks the
 * results. */
static void check_products(bool finite, uint64_t seed)
{
    static struct call x;
    struct rng r = { seed };

    for (size_t i = 0; i < COUNT(trios); i++)
        for (size_t variant = SANITIZED ? i % 4 : 0; variant < 4; variant += SANITIZED ? 4 : 1) {
            static char scalars[2][16];
            const double numbers[2] = { 3, -2 };
            bool integer;

            x.a = named(trios[i].a);
            x.b = named(trios[i].b);
            x.c = named(trios[i].c);
            integer = x.c.kind == LIMBER_KIND_INT || x.c.kind == LIMBER_KIND_SHORT;
            x.transposed = variant & 1;
            for (int s = 0; s < 2; s++)
                store_scalar(scalars[s], x.c, numbers[s]);
            x.alpha = variant >= 2 ? scalars[0] : NULL;
            x.beta = variant >= 2 ? scalars[1] : NULL;
            fill_codes(&r, x.a, finite, x.ea, M * K);
            fill_codes(&r, x.b, finite, x.eb, K * N);
            if (integer) {
                for (int e = 0; e < M * N; e++) {
                    /* small enough for i2, which saturates */
                    const double small = rng_below(&r, 8);

                    limber_convert(x.before + e * x.c.size, x.c, &small, LIMBER_F64, 1,
                                   LIMBER_ROUND_NEAREST);
                }
            } else {
                fill_codes(&r, x.c, finite, x.before, M * N);
            }
            for (int p = LIMBER_CONTRACT_NATIVE; p <= LIMBER_CONTRACT_FAST; p++) {
                x.contract = (limber_contract)LIMBER_CONTRACT_INIT;
                x.contract.promise = (limber_promise)p;
                x.contract.bits = p == LIMBER_CONTRACT_BITS ? 12 : 0;
                if (p == LIMBER_CONTRACT_FAST || (p == LIMBER_CONTRACT_EXACT && !integer) ||
                    (p != LIMBER_CONTRACT_NATIVE && x.c.kind == LIMBER_KIND_SHORT))
                    continue;
                check_same_bits(&x);
                if (p == LIMBER_CONTRACT_CORRECT || p == LIMBER_CONTRACT_EXACT)
                    check_correct(&x);
                else if (x.c.kind == LIMBER_KIND_SHORT)
                    check_wrapped(&x);
                else if (x.c.kind == LIMBER_KIND_POSIT)
                    check_bounds(&x);
            }
        }
}

static void finite_products(void **state)
{
    (void)state;
    check_products(true, 1);
}

/* Products with NaN, NaR and infinities among the elements give the expected results. */
static void special_products(void **state)
{
    (void)state;
    check_products(false, 2);
}

/* Results in i4 and i2: those that fit must be correct; one that does not fit must make the call
 * fail and leave C unchanged. */
static void short_integers_that_fit(void **state)
{
    static const char *const names[] = { "i4", "i2" };
    static struct call x;
    struct rng r = { 5 };

    (void)state;
    for (size_t f = 0; f < COUNT(names); f++)
        for (int p = LIMBER_CONTRACT_BITS; p <= LIMBER_CONTRACT_EXACT; p++)
            for (int scaled = 0; scaled < 2; scaled++) {
                static const int64_t scalars[2] = { 3, -2 };
                const int least = f ? -2 : -8, most = f ? 1 : 7;

                x.a = x.b = x.c = named(names[f]);
                x.contract = (limber_contract)LIMBER_CONTRACT_INIT;
                x.contract.promise = (limber_promise)p;
                x.contract.bits = p == LIMBER_CONTRACT_BITS ? 12 : 0;
                x.alpha = scaled ? &scalars[0] : NULL;
                x.beta = scaled ? &scalars[1] : NULL;
                x.transposed = false;
                memset(x.ea, 0xf0, sizeof x.ea); /* zeros: unused upper bits are ignored */
                memset(x.eb, 0xf0, sizeof x.eb);
                memset(x.before, 0, sizeof x.before);
                for (int i = 0; i < M; i++) /* each element is a single product */
                    x.ea[i * K + i] = (char)(scaled ? rng_below(&r, 2) - 1 : rng_below(&r, 2) * 3);
                for (int i = 0; i < K * N; i++)
                    x.eb[i] = (char)(scaled ? -(f == 0) * rng_below(&r, 2) : rng_below(&r, 2));
                for (int i = 0; scaled && i < M * N; i++)
                    x.before[i] = (char)(f ? rng_below(&r, 2) : rng_below(&r, 6) - 2);
                check_same_bits(&x);
                check_correct(&x);
                for (int i = 0; i < M * N; i++)
                    assert_true((unsigned char)x.ec[i] < most - least + 1);
                x.contract.scheme = NULL;
                for (int q = 0; q < K; q++) { /* makes one element a sum of 90 squares */
                    x.ea[3 * K + q] = 1;
                    x.eb[q * N + 5] = 1;
                }
                for (int i = 0; i < 2; i++) {
                    assert_int_equal(run_in_context(&x, i, x.ec, NULL), LIMBER_STATUS_RANGE);
                    assert_memory_equal(x.ec, x.before, M * N);
                }
            }
}

/* Convolutions of integers in every operand format, with results in doubles, which are exact. */
static void convolutions(void **state)
{
    static const char *const names[] = { "e4m3fnuz", "e5m2fnuz", "posit8", "posit16",
                                         "posit32",  "i4",       "i2" };
    limber_conv conv = LIMBER_CONV_INIT;
    enum { IMAGE = 2 * 9 * 11, FILTER = 3 * 2 * 9, RESULT = 3 * 9 * 11 };
    limber_contract contract = LIMBER_CONTRACT_INIT;
    struct rng r = { 9 };

    (void)state;
    conv.n = 1, conv.c = 2, conv.h = 9, conv.w = 11, conv.o = 3, conv.r = conv.s = 3,
    conv.groups = 1;
    for (int i = 0; i < 4; i++)
        conv.pad[i] = 1;
    for (int i = 0; i < 2; i++)
        conv.stride[i] = conv.dilate[i] = 1;
    contract.promise = LIMBER_CONTRACT_CORRECT;
    for (size_t i = 0; i < COUNT(names); i++) {
        limber_format f = named(names[i]);
        char image[IMAGE * 4], filter[FILTER * 4];
        double pixel[IMAGE], weight[FILTER], want[RESULT] = { 0 }, got[RESULT];

        for (int e = 0; e < IMAGE; e++)
            pixel[e] = rng_below(&r, 3) - 1;
        for (int e = 0; e < FILTER; e++)
            weight[e] = rng_below(&r, 3) - 1;
        limber_convert(image, f, pixel, LIMBER_F64, IMAGE, LIMBER_ROUND_NEAREST);
        limber_convert(filter, f, weight, LIMBER_F64, FILTER, LIMBER_ROUND_NEAREST);
        for (int k = 0; k < 3; k++)
            for (int y = 0; y < 9; y++)
                for (int x = 0; x < 11; x++)
                    for (int t = 0; t < 18; t++) {
                        int c = t / 9, h = y + t / 3 % 3 - 1, w = x + t % 3 - 1;

                        if (h >= 0 && h < 9 && w >= 0 && w < 11)
                            want[(k * 9 + y) * 11 + x] +=
                                pixel[(c * 9 + h) * 11 + w] * weight[k * 18 + t];
                    }
        for (int x = 0; x < 2; x++) {
            limber_problem p =
                conv_problem(&contract, &conv, NULL, image, f, filter, f, NULL, got, LIMBER_F64);

            memset(got, 0x55, sizeof got);
            if (limber_run(context[x], &p, NULL))
                fail_msg("%s: %s", names[i], limber_error_text());
            assert_memory_equal(got, want, sizeof got);
        }
    }
}

/* Powers of two (format e8m0) in any layout, multiplied with each other or with f32.  Sums are
 * exact in doubles, so every contract must give the exact sums. */
static void powers(void **state)
{
    static const struct {
        limber_promise promise;
        int bits;
    } promise[] = { { LIMBER_CONTRACT_NATIVE, 0 },
                    { LIMBER_CONTRACT_REPRODUCIBLE, 0 },
                    { LIMBER_CONTRACT_BITS, 40 },
                    { LIMBER_CONTRACT_CORRECT, 0 } };
    static uint8_t a[2 * 40 * 80], b[2 * 80 * 40];
    static float other[80 * 40];
    static double c[40 * 40];
    struct rng r = { 7 };

    (void)state;
    for (int turn = 0; turn < 48; turn++) {
        const int64_t m = 1 + rng_below(&r, 40), n = 1 + rng_below(&r, 40);
        const int64_t k = 1 + rng_below(&r, 80), step = 1 + turn % 2;
        const bool both = turn / 2 % 2, columns = turn / 4 % 2;
        const int64_t row = columns ? 1 : k * step, column = columns ? m : step;
        limber_contract contract = LIMBER_CONTRACT_INIT;
        limber_problem p;

        for (size_t i = 0; i < sizeof a; i++) {
            a[i] = (uint8_t)(120 + rng_below(&r, 15));
            b[i] = (uint8_t)(120 + rng_below(&r, 15));
        }
        for (size_t i = 0; i < COUNT(other); i++)
            other[i] = (float)rng_below(&r, 17) - 8;
        contract.promise = promise[turn % 4].promise;
        contract.bits = promise[turn % 4].bits;
        p = gemm_problem(&contract, m, n, k, NULL, (limber_matrix){ a, LIMBER_E8M0, row, column },
                         both ? (limber_matrix){ b, LIMBER_E8M0, n * step, step } :
                                (limber_matrix){ other, LIMBER_F32, n, 1 },
                         NULL, (limber_output){ c, LIMBER_F64, n, 1 });
        for (int x = 0; x < 2; x++) {
            if (limber_run(context[x], &p, NULL))
                fail_msg("%s", limber_error_text());
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    double sum = 0;

                    for (int64_t q = 0; q < k; q++)
                        sum += ldexp(1, a[i * row + q * column] - 127) *
                               (both ? ldexp(1, b[(q * n + j) * step] - 127) :
                                       (double)other[q * n + j]);
                    assert_true(c[i * n + j] == sum);
                }
        }
    }
}

/* Tests the smallest and the largest power of two, NaN, and which calls with this format are
 * accepted or refused. */
static void powers_at_the_ends(void **state)
{
    const uint8_t a[] = { 0, 254, 1 }, nan[] = { 0, 255, 1 };
    const double b[] = { 0x1p127, 0x1p-127, 0 };
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_batch batch = LIMBER_BATCH_INIT;
    limber_problem p;
    size_t least, best;
    char *text = NULL;
    double c = 5;

    (void)state;
    contract.promise = LIMBER_CONTRACT_CORRECT;
    p = gemm_problem(&contract, 1, 1, 3, NULL, (limber_matrix){ a, LIMBER_E8M0, 3, 1 },
                     (limber_matrix){ b, LIMBER_F64, 1, 1 }, NULL,
                     (limber_output){ &c, LIMBER_F64, 1, 1 });
    assert_int_equal(limber_run(context[1], &p, NULL), LIMBER_STATUS_OK);
    assert_true(c == 2);
    assert_int_equal(limber_plan(context[1], &p, &text, NULL), LIMBER_STATUS_OK);
    assert_non_null(strstr(text, "bf16[m,k]"));
    limber_free(text);
    assert_int_equal(limber_workspace(context[1], &p, &least, &best), LIMBER_STATUS_OK);
    p.a.data = nan;
    assert_int_equal(limber_run(context[1], &p, NULL), LIMBER_STATUS_OK);
    assert_true(isnan(c));
    c = 5;
    p.a.data = NULL;
    assert_refused(limber_run(context[1], &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "a.data is NULL");
    p.a.data = &c;
    assert_refused(limber_run(context[1], &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "c overlaps a");
    p.a.data = a;
    p.a.col_stride = -1;
    assert_refused(limber_run(context[1], &p, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                   "a.col_stride = -1");
    p.a.col_stride = 1;
    batch.count = 1;
    p.batch = &batch;
    assert_refused(limber_run(context[1], &p, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                   "a: e8m0 is not for batches");
    p.batch = NULL;
    p.domain = LIMBER_DOMAIN_COMPLEX;
    assert_refused(limber_run(context[1], &p, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                   "a: e8m0 is not for complex products");
    assert_true(c == 5);
}

/* Formats that cannot hold the promised result, or have no negative numbers by sign, are refused
 * and leave C unchanged. */
static void meaningless_formats_are_refused(void **state)
{
    static const struct {
        limber_promise promise;
        const char *a, *b, *c, *text;
    } cases[] = {
        { LIMBER_CONTRACT_CORRECT, "f32", "f32", "e8m0", "c: e8m0 is no format of results" },
        { LIMBER_CONTRACT_EXACT, "i4", "i4", "posit16", "exact needs an integer result" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        limber_contract contract = LIMBER_CONTRACT_INIT;
        limber_problem p;
        float x[2] = { 1, 1 };
        char c[8] = "unchang";

        contract.promise = cases[i].promise;
        contract.bits = cases[i].promise == LIMBER_CONTRACT_BITS ? 8 : 0;
        p = gemm_problem(&contract, 1, 1, 1, NULL, (limber_matrix){ x, named(cases[i].a), 1, 1 },
                         (limber_matrix){ x, named(cases[i].b), 1, 1 }, NULL,
                         (limber_output){ c, named(cases[i].c), 1, 1 });
        assert_refused(limber_run(context[1], &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, cases[i].text);
        assert_string_equal(c, "unchang");
    }
    for (int i = 0; i < 2; i++) { /* no single bit of these formats negates a number */
        limber_contract contract = LIMBER_CONTRACT_INIT;
        limber_format f = i ? LIMBER_E4M3FNUZ : LIMBER_POSIT16;
        uint16_t x[2] = { 0 };
        float c[2] = { 5, 5 };
        limber_problem p;

        contract.promise = LIMBER_CONTRACT_CORRECT;
        p = gemm_problem(&contract, 1, 1, 1, NULL, (limber_matrix){ x, f, 1, 1 },
                         (limber_matrix){ x, f, 1, 1 }, NULL,
                         (limber_output){ c, LIMBER_F32, 1, 1 });
        p.domain = LIMBER_DOMAIN_COMPLEX;
        assert_refused(limber_run(context[1], &p, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                       "a: complex numbers");
        assert_true(c[0] == 5 && c[1] == 5);
    }
}

/* Large terms cancel in pairs, but sums of some of them would overflow binary32.  Under `bits` no
 * intermediate sum may overflow, whatever the other operand holds. */
static void bits_of_integers_beside_large_numbers(void **state)
{
    static const char *const results[] = { "f32", "f64", "bf16", "f16", "e4m3fnuz", "posit16" };
    static const char *const left[] = { "i8", "u8", "i16", "i4", "f32", "posit8" };
    static struct call x;
    struct rng r = { 32 };

    (void)state;
    for (size_t c = 0; c < COUNT(results); c++)
        for (size_t a = 0; a < COUNT(left); a++)
            for (int bits = 3; bits < 40; bits += 9) {
                x = (struct call){ .a = named(left[a]), .b = LIMBER_F32, .c = named(results[c]) };
                x.contract = (limber_contract)LIMBER_CONTRACT_INIT;
                x.contract.promise = LIMBER_CONTRACT_BITS;
                x.contract.bits = bits;
                for (int i = 0; i < M * K; i++) {
                    double v = 5 + rng_below(&r, 3);

                    limber_convert(x.ea + i * x.a.size, x.a, &v, LIMBER_F64, 1,
                                   LIMBER_ROUND_NEAREST);
                    /* a copy of the element before it, so that their products cancel */
                    if (i % K % 3 == 2)
                        memcpy(x.ea + i * x.a.size, x.ea + (i - 1) * x.a.size, x.a.size);
                }
                for (int i = 0; i < K * N; i++) {
                    int third = i / N % 3;
                    float *b = (float *)(void *)x.eb + i;

                    *b = third == 0 ? (float)rng_unit(&r) : third == 1 ? 0x1.8p126f : -b[-N];
                }
                check_same_bits(&x);
                for (int i = 0; i < M * N; i++) {
                    double v;

                    limber_convert(&v, LIMBER_F64, x.ec + i * x.c.size, x.c, 1,
                                   LIMBER_ROUND_NEAREST);
                    if (!isfinite(v) || fabs(v) > 400)
                        fail_msg("%s by f32 to %s, bits %d: element %d is %g", left[a], results[c],
                                 bits, i, v);
                }
            }
}

/* Large numbers are multiplied by zeros in half of the rows.  The bound that a first sum in double
 * gives is then beyond the range of most formats. */
static void large_terms_multiplied_by_zeros(void **state)
{
    static const char *const results[] = { "e4m3fnuz", "e5m2fnuz", "e4m3", "e5m2",   "f16",
                                           "bf16",     "posit8",   "f32",  "posit16" };
    static const char *const schemes[] = { NULL, "wider", "ozaki2", "accumulator" };
    static struct call x;
    struct rng r = { 31 };
    int served = 0;

    (void)state;
    for (size_t c = 0; c < COUNT(results); c++)
        for (size_t s = 0; s < COUNT(schemes); s++)
            for (int wide = 0; wide < 2; wide++) {
                limber_report report = LIMBER_REPORT_INIT;
                limber_status status;

                x = (struct call){ .a = LIMBER_F32, .b = LIMBER_F32, .c = named(results[c]) };
                x.contract = (limber_contract)LIMBER_CONTRACT_INIT;
                x.contract.promise = LIMBER_CONTRACT_CORRECT;
                x.contract.scheme = schemes[s];
                for (int i = 0; i < M * K; i++) {
                    bool none = i % K % 2 == 0 && i / K % 2;

                    ((float *)(void *)x.ea)[i] = none ? 0 : (float)(2 * rng_unit(&r) - 1);
                }
                for (int i = 0; i < K * N; i++) {
                    int e = i / N % 2 ? -rng_below(&r, 12) : (wide ? 90 : 12) + rng_below(&r, 9);

                    ((float *)(void *)x.eb)[i] = (float)ldexp(2 * rng_unit(&r) - 1, e);
                }
                status = run_in_context(&x, 0, x.ec, &report);
                if (status == LIMBER_STATUS_NO_SCHEME && schemes[s])
                    continue;
                assert_int_equal(status, LIMBER_STATUS_OK);
                served++;
                check_correct(&x);
                check_same_bits(&x);
            }
    print_message("%d products\n", served);
    assert_true(served > 3 * (int)COUNT(results));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_products),
        cmocka_unit_test(special_products),
        cmocka_unit_test(short_integers_that_fit),
        cmocka_unit_test(large_terms_multiplied_by_zeros),
        cmocka_unit_test(bits_of_integers_beside_large_numbers),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(powers),
        cmocka_unit_test(powers_at_the_ends),
        cmocka_unit_test(meaningless_formats_are_refused),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
