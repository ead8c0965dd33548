/* SPDX-License-Identifier: BSD-3-Clause
 * Contracts hold on every backend: results against MPFR, and the backends' bits against each other,
 * for edge-case data, shapes from empty to a few tiles, and all schemes. */
#include "support.h"
#include "contexts.h"
#include "jit/engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct trial {
    int64_t m, n, k;
    limber_format fa, fb, fc;
    enum data data;
    limber_contract contract;
    bool scalars, trans_a, trans_b;
    char *a, *b, *c0, *alpha, *beta;
};

static limber_context *interp, *llvm;

static int make_contexts(void **state)
{
    (void)state;
    interp = test_context("interp", 2, 0);
    llvm = test_context("auto", 2, 0);
    if (!interp || !llvm)
        return -1;
    /* A CPU that multiplies bytes as words has wider residues, whose named number keeps more. */
    interp->machine.target.group = llvm->machine.target.group;
    return 0;
}

static int drop_contexts(void **state)
{
    (void)state;
    limber_destroy(interp);
    limber_destroy(llvm);
    return 0;
}

static void make_trial(struct rng *r, struct trial *t)
{
    size_t sizes[] = { (size_t)(t->m * t->k), (size_t)(t->k * t->n), (size_t)(t->m * t->n) };
    limber_format fs = t->fc.kind == LIMBER_KIND_INT ? named("i64") : t->fc;

    t->a = calloc(sizes[0] + 1, t->fa.size);
    t->b = calloc(sizes[1] + 1, t->fb.size);
    t->c0 = calloc(sizes[2] + 1, t->fc.size);
    t->alpha = calloc(1, 16);
    t->beta = calloc(1, 16);
    fill(r, t->data, t->fa, t->a, sizes[0]);
    fill(r, t->data == DATA_nothing ? DATA_unit : t->data, t->fb, t->b, sizes[1]);
    fill(r, t->data, t->fc, t->c0, sizes[2]);
    fill(r, fs.kind == LIMBER_KIND_INT ? DATA_bytes : DATA_unit, fs, t->alpha, 1);
    fill(r, fs.kind == LIMBER_KIND_INT ? DATA_bytes : DATA_unit, fs, t->beta, 1);
    t->trans_a = rng_below(r, 2);
    t->trans_b = rng_below(r, 2);
}

static void free_trial(struct trial *t)
{
    free(t->a);
    free(t->b);
    free(t->c0);
    free(t->alpha);
    free(t->beta);
}

/* View of a dense rows x cols matrix, or of the transpose of a dense one. */
static limber_matrix matrix(void *data, limber_format f, int64_t rows, int64_t cols, bool trans)
{
    return trans ? (limber_matrix){ data, f, 1, rows } : (limber_matrix){ data, f, cols, 1 };
}

/* Computes the trial's product into c, which begins as C0. */
static limber_status run(limber_context *ctx, const struct trial *t, char *c, limber_report *rep)
{
    limber_contract contract = t->contract;

    contract.size = sizeof contract; /* trials are zero-initialised */
    memcpy(c, t->c0, (size_t)(t->m * t->n) * t->fc.size);
    return limber_gemm(ctx, &contract, t->m, t->n, t->k, t->scalars ? t->alpha : NULL,
                       matrix(t->a, t->fa, t->m, t->k, t->trans_a),
                       matrix(t->b, t->fb, t->k, t->n, t->trans_b), t->scalars ? t->beta : NULL,
                       output_of(matrix(c, t->fc, t->m, t->n, false)), rep);
}

/* Prints a failure: what is wrong, and with which trial. */
static void describe(const struct trial *t, const char *what, int64_t i, int64_t j)
{
    char a[32], c[32];

    print_error("%s: m=%lld n=%lld k=%lld a=%s c=%s data=%s promise=%d bits=%d scheme=%s "
                "scalars=%d trans=%d%d at (%lld,%lld)\n",
                what, (long long)t->m, (long long)t->n, (long long)t->k,
                limber_format_name(t->fa, a, sizeof a), limber_format_name(t->fc, c, sizeof c),
                data_name(t->data), t->contract.promise, t->contract.bits,
                t->contract.scheme ? t->contract.scheme : "-", t->scalars, t->trans_a, t->trans_b,
                (long long)i, (long long)j);
}

/* Exact alpha sum + beta c0, and its scale. */
static void exact_element(const struct trial *t, int64_t i, int64_t j, mpfr_t x, mpfr_t scale)
{
    limber_matrix a = matrix(t->a, t->fa, t->m, t->k, t->trans_a);
    limber_matrix b = matrix(t->b, t->fb, t->k, t->n, t->trans_b);
    mpfr_t s, c;

    ref_dot(x, scale, t->fa, t->a + i * a.row_stride * t->fa.size, a.col_stride, t->fb,
            t->b + j * b.col_stride * t->fb.size, b.row_stride, t->k);
    if (!t->scalars)
        return;
    mpfr_init2(s, 300);
    mpfr_init2(c, 300);
    ref_load(s, t->fc, t->alpha);
    mpfr_mul(x, x, s, MPFR_RNDN);
    mpfr_abs(s, s, MPFR_RNDN);
    mpfr_mul(scale, scale, s, MPFR_RNDN);
    ref_load(s, t->fc, t->beta);
    ref_load(c, t->fc, t->c0 + (i * t->n + j) * t->fc.size);
    {
        mpfr_t term;

        mpfr_init2(term, 700);
        mpfr_mul(term, s, c, MPFR_RNDN);
        mpfr_add(x, x, term, MPFR_RNDN);
        mpfr_abs(term, term, MPFR_RNDN);
        mpfr_add(scale, scale, term, MPFR_RNDN);
        mpfr_clear(term);
    }
    mpfr_clear(s);
    mpfr_clear(c);
}

/* Compares results that are not finite in the conventional algorithm: NaN with NaN, infinities with
 * their sign. */
static bool same_class(const mpfr_t x, limber_format f, const char *p)
{
    mpfr_t got;
    bool ok;

    mpfr_init2(got, 300);
    ref_load(got, f, p);
    ok = mpfr_nan_p(x) ? mpfr_nan_p(got) != 0 :
                         mpfr_inf_p(got) && mpfr_signbit(got) == mpfr_signbit(x);
    mpfr_clear(got);
    return ok;
}

static double roundoff(limber_format f)
{
    return f.kind == LIMBER_KIND_DD ? 0x1p-106 : ldexp(1, -f.frac_bits - 1);
}

/* Largest error relative to the promised bound; the test fails if it exceeds 1. */
static double check(const struct trial *t, const char *c, const limber_report *rep)
{
    double worst = 0;
    mpfr_t x, scale;

    mpfr_init2(x, REF_BITS);
    mpfr_init2(scale, REF_BITS);
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++) {
            const char *p = c + (i * t->n + j) * t->fc.size;
            double e, limit;

            exact_element(t, i, j, x, scale);
            if (!mpfr_number_p(x)) {
                if (!same_class(x, t->fc, p)) {
                    describe(t, "special", i, j);
                    fail();
                }
                continue;
            }
            if (t->contract.promise == LIMBER_CONTRACT_CORRECT) {
                if (!ref_rounds_to(x, t->fc, p)) {
                    describe(t, "not correctly rounded", i, j);
                    print_error("exact %.17g, scheme %s\n", mpfr_get_d(x, MPFR_RNDN), rep->scheme);
                    fail();
                }
                continue;
            }
            if (ref_rounds_to(x, t->fc, p)) /* also covers overflow */
                continue;
            e = ref_error(x, t->fc, p, scale);
            limit =
                rep->bound + (t->contract.promise == LIMBER_CONTRACT_NATIVE ? 0 : roundoff(t->fc));
            if (e > limit) {
                describe(t, "bound exceeded", i, j);
                print_error("error %g, bound %g, scheme %s\n", e, limit, rep->scheme);
                fail();
            }
            if (limit > 0 && e / limit > worst)
                worst = e / limit;
        }
    mpfr_clear(x);
    mpfr_clear(scale);
    return worst;
}

/* Whether all bits agree; all NaN are equal. */
static bool same_bits(limber_format f, const char *a, const char *b, size_t count)
{
    for (size_t i = 0; i < count; i++, a += f.size, b += f.size) {
        double x, y;

        if (memcmp(a, b, f.size) == 0)
            continue;
        if (limber_convert(&x, named("f64"), a, f, 1, LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK ||
            limber_convert(&y, named("f64"), b, f, 1, LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK ||
            !isnan(x) || !isnan(y))
            return false;
    }
    return true;
}

/* Runs both backends and compares bits.  False: the call was refused, and C is unchanged. */
static bool run_both(const struct trial *t, char *c, limber_report *rep)
{
    size_t size = (size_t)(t->m * t->n) * t->fc.size;
    char *other = calloc(size + 1, 1);
    limber_contract forced = t->contract;
    struct trial same_scheme = *t;
    limber_status s = run(llvm, t, c, rep);

    if (s == LIMBER_STATUS_NO_SCHEME && strstr(limber_error_text(), "llvm has no"))
        s = run(interp, t, c, rep);
    if (s != LIMBER_STATUS_OK && s != LIMBER_STATUS_NO_SCHEME && s != LIMBER_STATUS_RANGE) {
        describe(t, limber_error_text(), 0, 0);
        fail();
    }
    if (s == LIMBER_STATUS_OK) {
        limber_report mine = LIMBER_REPORT_INIT;

        forced.scheme = rep->scheme[0] ? rep->scheme : NULL;
        same_scheme.contract = forced;
        if (run(interp, &same_scheme, other, &mine) != LIMBER_STATUS_OK) {
            describe(t, limber_error_text(), 0, 0);
            fail();
        }
        if (!same_bits(t->fc, c, other, (size_t)(t->m * t->n))) {
            describe(t, rep->scheme, 0, 0);
            fail();
        }
    } else {
        assert_true(strlen(limber_error_text()) > 0);
        assert_memory_equal(c, t->c0, size);
    }
    free(other);
    return s == LIMBER_STATUS_OK;
}

/* Draws a trial, runs both backends and checks; returns the largest error relative to the bound. */
static double try_one(struct rng *r, struct trial *t, int *ran)
{
    limber_report rep = LIMBER_REPORT_INIT;
    double worst = 0;
    char *c;

    make_trial(r, t);
    c = poisoned((size_t)(t->m * t->n) * t->fc.size);
    if (run_both(t, c, &rep)) {
        ++*ran;
        worst = check(t, c, &rep);
    }
    free(c);
    free_trial(t);
    return worst;
}

/* ---- each promise, by several kinds of data -------------------------------------------------- */

static void correct_is_correct(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f128", "dd", "f16", "bf16" };
    int ran = 0;

    (void)state;
    for (int i = 0; i < 6 * DATA_count; i += SANITIZED ? 7 : 1) {
        struct rng r = { 1000 + (uint64_t)i };
        struct trial t = { .m = 1 + rng_below(&r, 18),
                           .n = 1 + rng_below(&r, 34),
                           .k = 1 + rng_below(&r, 40),
                           .data = (enum data)(i % DATA_count),
                           .contract = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_CORRECT } };

        t.fa = t.fb = t.fc = named(formats[i / DATA_count]);
        try_one(&r, &t, &ran);
    }
    assert_true(ran > (SANITIZED ? 5 : 40));
}

static void correct_with_scalars(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f128" };
    int ran = 0;

    (void)state;
    for (int i = 0; i < 3 * 4; i += SANITIZED ? 3 : 1) {
        struct rng r = { 2000 + (uint64_t)i };
        struct trial t = { .m = 1 + rng_below(&r, 9),
                           .n = 1 + rng_below(&r, 20),
                           .k = 1 + rng_below(&r, 30),
                           .data = (enum data)(i % 4),
                           .contract = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_CORRECT },
                           .scalars = true };

        t.fa = t.fb = t.fc = named(formats[i / 4]);
        try_one(&r, &t, &ran);
    }
    assert_true(ran > (SANITIZED ? 1 : 6));
}

/* Pairs of terms that cancel except in their last bits, and a remainder that is far smaller or
 * exactly half an ulp. */
static void correct_under_cancellation(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f128" };
    int ran = 0, again = 0;

    (void)state;
    for (int i = 0; i < 16; i += SANITIZED ? 5 : 1) {
        struct rng r = { 7000 + (uint64_t)i };
        struct trial t = { .m = 9,
                           .n = 20,
                           .k = 24,
                           .data = i & 1 ? DATA_unit : DATA_spread,
                           .contract = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_CORRECT } };
        limber_report rep = LIMBER_REPORT_INIT;
        size_t size;
        char *c;

        t.fa = t.fb = t.fc = named(formats[i < 12 ? i % 3 : 1]);
        t.contract.scheme = i < 12 ? NULL : "wider";
        make_trial(&r, &t);
        t.trans_a = t.trans_b = false;
        size = t.fa.size;
        for (int64_t p = 0; p + 2 < t.k; p += 2) {
            for (int64_t x = 0; x < t.m; x++) { /* a_(p+1) = -a_p, sometimes off by one ulp */
                char *a = t.a + (x * t.k + p) * size;

                memcpy(a + size, a, size);
                a[2 * size - 1] ^= (char)0x80;
                a[size] ^= rng_below(&r, 3) == 0;
            }
            memcpy(t.b + (p + 1) * t.n * size, t.b + p * t.n * size, (size_t)t.n * size);
        }
        c = poisoned((size_t)(t.m * t.n) * size);
        if (run_both(&t, c, &rep)) {
            ran++;
            check(&t, c, &rep);
            again += i >= 12 && rep.recomputed > 0;
            if (i >= 12 && rep.recomputed > 0)
                assert_true(rep.recomputed_share > 0 && rep.recomputed_share <= 1);
        }
        free(c);
        free_trial(&t);
    }
    assert_int_equal(ran, SANITIZED ? 4 : 16);
    assert_true(again > 0 || SANITIZED); /* `wider` reports how much it recomputed, too */
}

/* The low double of a dd result is far below the high one: both must be rounded from the complete
 * sum. */
static void dd_is_rounded_from_the_whole_sum(void **state)
{
    (void)state;
    for (int e = 100; e < 400; e += 23) {
        double far = ldexp(1, -e), tie = ldexp(1, -e - 53), least = ldexp(1, -e - 120);
        double a[][2] = { { 1, 0 }, { far, 0 }, { tie, 0 }, { least, 0 } };
        double b[][2] = { { 1, 0 }, { 1, 0 }, { 1, 0 }, { 1, 0 } }, c[2] = { 0 };
        limber_contract contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT };
        limber_format dd = named("dd");

        assert_int_equal(limber_gemm(llvm, &contract, 1, 1, 4, NULL, matrix(a, dd, 1, 4, false),
                                     matrix(b, dd, 4, 1, false), NULL,
                                     output_of(matrix(c, dd, 1, 1, false)), NULL),
                         LIMBER_STATUS_OK);
        assert_true(c[0] == 1 && c[1] == nextafter(far, 1));
    }
}

/* Every scheme, at a number of bits that it can reach, on suitable data. */
static void bounds_hold(void **state)
{
    static const struct {
        const char *scheme, *format;
        limber_promise promise;
        int bits;
    } rows[] = {
        { "native", "f64", LIMBER_CONTRACT_NATIVE, 0 },
        { "native", "f32", LIMBER_CONTRACT_NATIVE, 0 },
        { "native", "f16", LIMBER_CONTRACT_NATIVE, 0 },
        { "fp32-f", "f32", LIMBER_CONTRACT_FAST, 0 },
        { "fp32-t", "f32", LIMBER_CONTRACT_FAST, 0 },
        { "fp32-b", "f32", LIMBER_CONTRACT_FAST, 0 },
        { "fp32-b9", "f32", LIMBER_CONTRACT_FAST, 0 },
        { "ozaki1-f16", "f64", LIMBER_CONTRACT_BITS, 30 },
        { "ozaki1-bf16", "f64", LIMBER_CONTRACT_BITS, 50 },
        { "ozaki1-i8", "f64", LIMBER_CONTRACT_BITS, 45 },
        { "ozaki1-f64", "f64", LIMBER_CONTRACT_BITS, 52 },
        { "ozaki2", "f64", LIMBER_CONTRACT_BITS, 40 },
        { "ozaki2", "f128", LIMBER_CONTRACT_BITS, 100 },
        { "ozaki2", "dd", LIMBER_CONTRACT_BITS, 90 },
        { "ozaki2-f16", "f64", LIMBER_CONTRACT_BITS, 40 },
        { "ozaki2-e4m3", "f64", LIMBER_CONTRACT_BITS, 40 },
        { "ozaki2-e4m3", "f128", LIMBER_CONTRACT_BITS, 100 },
        { "ozaki1-e4m3", "f64", LIMBER_CONTRACT_BITS, 30 },
        { "ozaki1-e4m3", "f32", LIMBER_CONTRACT_BITS, 20 },
        { "ozaki1-e4m3", "f64", LIMBER_CONTRACT_FAST, 0 },
        { "ozaki1-f16", "f64", LIMBER_CONTRACT_FAST, 0 },
        { "ozaki1-i8", "f64", LIMBER_CONTRACT_FAST, 0 },
        { "ozaki1-bf16", "f64", LIMBER_CONTRACT_FAST, 0 },
        { "ozaki1-f64", "f64", LIMBER_CONTRACT_FAST, 0 },
        { "fp32-m", "f32", LIMBER_CONTRACT_FAST, 0 },
        { "wider", "f32", LIMBER_CONTRACT_BITS, 40 },
        { "wider", "f32", LIMBER_CONTRACT_BITS, 60 },
        { "wider", "bf16", LIMBER_CONTRACT_BITS, 30 },
    };
    /* fp32-m needs bytes */
    static const enum data kinds[] = { DATA_unit, DATA_spread, DATA_bytes };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double worst = 0;
        int ran = 0;

        for (int j = SANITIZED ? 2 : 0; j < 3; j++) {
            struct rng r = { 3000 + 10 * i + (uint64_t)j };
            struct trial t = { .m = 1 + rng_below(&r, 30),
                               .n = 1 + rng_below(&r, 40),
                               .k = 40 + rng_below(&r, 200),
                               .data = kinds[j],
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = rows[i].promise,
                                             .bits = rows[i].bits,
                                             .scheme = rows[i].scheme } };
            double w;

            if (j < 2 && !is_taken(i + (size_t)j, 2))
                continue;
            t.fa = t.fb = t.fc = named(rows[i].format);
            w = try_one(&r, &t, &ran);
            worst = w > worst ? w : worst;
        }
        print_message("%-12s %-5s largest error / bound %.3g\n", rows[i].scheme, rows[i].format,
                      worst);
        assert_true(ran > 0);
    }
}

/* Counts of moduli or slices that the caller names. `fast` keeps as many bits as they hold, within
 * its bound.  Other contracts refuse a count that is too small; a larger one does not change
 * results. */
static void named_counts_hold(void **state)
{
    static const struct {
        const char *scheme, *format;
        int first, last; /* range of counts to try */
        limber_promise promise;
        /* smallest count that keeps the contract; 0: `fast` guarantees no accuracy */
        int bits, least;
    } rows[] = {
        { "ozaki2", "f64", 1, 20, LIMBER_CONTRACT_FAST, 0, 4 },
        { "ozaki2", "f32", 1, 12, LIMBER_CONTRACT_FAST, 0, 4 },
        { "ozaki2-f16", "f64", 2, 17, LIMBER_CONTRACT_FAST, 0, 4 },
        { "ozaki2-e4m3", "f64", 2, 17, LIMBER_CONTRACT_FAST, 0, 4 },
        { "ozaki2", "f64", 5, 20, LIMBER_CONTRACT_BITS, 40, 0 },
        { "ozaki2", "f64", 5, 20, LIMBER_CONTRACT_CORRECT, 0, 0 },
        { "ozaki1-i8", "f64", 2, 10, LIMBER_CONTRACT_BITS, 40, 0 },
        { "ozaki1-f16", "f64", 2, 12, LIMBER_CONTRACT_CORRECT, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double bound = INFINITY;
        int ran = 0, refused = 0;

        for (int count = rows[i].first; count <= rows[i].last; count += SANITIZED ? 5 : 1) {
            struct rng r = { 3500 + 10 * i };
            limber_report rep = LIMBER_REPORT_INIT;
            struct trial t = { .m = 7,
                               .n = 9,
                               .k = 60,
                               .data = DATA_unit,
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = rows[i].promise,
                                             .bits = rows[i].bits,
                                             .slices = count,
                                             .scheme = rows[i].scheme } };
            char *c;

            t.fa = t.fb = t.fc = named(rows[i].format);
            make_trial(&r, &t);
            c = poisoned((size_t)(t.m * t.n) * t.fc.size);
            if (run_both(&t, c, &rep)) {
                check(&t, c, &rep);
                assert_true(rep.bound <= bound);
                assert_true(count < rows[i].least || isfinite(rep.bound));
                bound = rep.bound;
                ran++;
            } else {
                assert_non_null(strstr(limber_error_text(), "contract.slices = "));
                assert_int_equal(ran, 0); /* all smaller counts were refused, too */
                refused++;
            }
            free(c);
            free_trial(&t);
        }
        assert_true(ran > 0);
        assert_true(refused > 0 || rows[i].promise == LIMBER_CONTRACT_FAST);
        /* the largest count keeps some bits of any data */
        assert_true(rows[i].promise != LIMBER_CONTRACT_FAST || bound < 0x1p-10);
    }
}

/* Random formats and shapes with the scheme that the library chooses. */
static void random_formats_and_shapes_keep_contracts(void **state)
{
    static const char *const formats[] = { "f64",  "f32",  "f16", "bf16",    "e4m3",
                                           "e5m2", "f128", "dd",  "(1,5,2)", "tf32" };
    int ran = 0;

    (void)state;
    for (int i = 0; i < 60; i += SANITIZED ? 5 : 1) {
        struct rng r = { 4000 + (uint64_t)i };
        struct trial t = { .m = rng_below(&r, 20),
                           .n = rng_below(&r, 40),
                           .k = rng_below(&r, 50),
                           .data = (enum data)rng_below(&r, DATA_count) };

        t.fa = named(formats[rng_below(&r, 10)]);
        t.fb = named(formats[rng_below(&r, 10)]);
        t.fc = named(formats[rng_below(&r, 2)]);
        t.contract.promise = rng_below(&r, 2) ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE;
        if (t.data == DATA_tiny || t.data == DATA_range)
            t.contract.promise = LIMBER_CONTRACT_CORRECT;
        try_one(&r, &t, &ran);
    }
    assert_true(ran > (SANITIZED ? 8 : 45));
}

static void integers_are_exact(void **state)
{
    static const char *const in[] = { "i8", "i16", "i32", "i64", "u8" };
    static const char *const out[] = { "i16", "i32", "i64" };
    int ran = 0;

    (void)state;
    for (int i = 0; i < 30; i += SANITIZED ? 4 : 1) {
        struct rng r = { 5000 + (uint64_t)i };
        struct trial t = { .m = 1 + rng_below(&r, 14),
                           .n = 1 + rng_below(&r, 36),
                           .k = rng_below(&r, 60),
                           .data = rng_below(&r, 2) ? DATA_bytes : DATA_unit };
        limber_report rep = LIMBER_REPORT_INIT;
        char *c;

        t.fa = named(in[i % 5]);
        t.fb = named(in[rng_below(&r, 5)]);
        t.fc = named(out[rng_below(&r, 3)]);
        t.contract.promise = rng_below(&r, 2) ? LIMBER_CONTRACT_EXACT : LIMBER_CONTRACT_NATIVE;
        make_trial(&r, &t);
        c = poisoned((size_t)(t.m * t.n) * t.fc.size);
        if (run_both(&t, c, &rep)) {
            limber_matrix a = matrix(t.a, t.fa, t.m, t.k, t.trans_a);
            limber_matrix b = matrix(t.b, t.fb, t.k, t.n, t.trans_b);

            ran++;
            for (int64_t x = 0; x < t.m; x++)
                for (int64_t y = 0; y < t.n; y++) {
                    unsigned __int128 sum = 0;

                    for (int64_t p = 0; p < t.k; p++) {
                        mpfr_t e;
                        __int128 u, v;

                        mpfr_init2(e, 64);
                        ref_load(e, t.fa, t.a + (x * a.row_stride + p * a.col_stride) * t.fa.size);
                        u = mpfr_get_sj(e, MPFR_RNDZ);
                        ref_load(e, t.fb, t.b + (p * b.row_stride + y * b.col_stride) * t.fb.size);
                        v = mpfr_get_sj(e, MPFR_RNDZ);
                        mpfr_clear(e);
                        sum += (unsigned __int128)(u * v);
                    }
                    if (memcmp(&sum, c + (x * t.n + y) * t.fc.size, t.fc.size)) {
                        describe(&t, rep.scheme, x, y);
                        fail();
                    }
                }
        }
        free(c);
        free_trial(&t);
    }
    assert_true(ran > (SANITIZED ? 3 : 15));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_is_correct),
        cmocka_unit_test(correct_with_scalars),
        cmocka_unit_test(correct_under_cancellation),
        cmocka_unit_test(dd_is_rounded_from_the_whole_sum),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(named_counts_hold),
        cmocka_unit_test(random_formats_and_shapes_keep_contracts),
        cmocka_unit_test(integers_are_exact),
    };

    return cmocka_run_group_tests(tests, make_contexts, drop_contexts);
}
