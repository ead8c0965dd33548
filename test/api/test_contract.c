/* SPDX-License-Identifier: BSD-3-Clause
 * Tests that contracts hold on every backend, for special data, for shapes from empty to a few
 * tiles and for all schemes: results are compared with MPFR, and the bits of the backends with each
 * other. */
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

/* A product to compute and check, with its operands as stored. */
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
    if (make_interp_and_best(&interp, &llvm))
        return -1;
    /* On a CPU that multiplies residues as 16-bit words, residues have more bits, so that a given
     * number of moduli holds more.  The interpreter must use the same residues. */
    interp->machine.target.group = llvm->machine.target.group;
    return 0;
}

/* Allocates a trial's random operands, C0 and scalars. */
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

/* Returns a dense rows x cols matrix, or the transpose of a dense cols x rows matrix. */
static limber_matrix view(void *data, limber_format f, int64_t rows, int64_t cols, bool trans)
{
    return trans ? (limber_matrix){ data, f, 1, rows } : (limber_matrix){ data, f, cols, 1 };
}

/* Computes the trial's product into c, which first gets a copy of C0. */
static limber_status run_trial(limber_context *ctx, const struct trial *t, char *c,
                               limber_report *rep)
{
    limber_contract contract = t->contract;

    contract.size = sizeof contract; /* trials are initialised with zeros */
    memcpy(c, t->c0, (size_t)(t->m * t->n) * t->fc.size);
    return limber_gemm(ctx, &contract, t->m, t->n, t->k, t->scalars ? t->alpha : NULL,
                       view(t->a, t->fa, t->m, t->k, t->trans_a),
                       view(t->b, t->fb, t->k, t->n, t->trans_b), t->scalars ? t->beta : NULL,
                       output_of(view(c, t->fc, t->m, t->n, false)), rep);
}

/* Prints what is wrong, with the trial and the element. */
static void print_trial(const struct trial *t, const char *what, int64_t i, int64_t j)
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

/* Computes alpha sum + beta c0 of an element exactly, and the sum of the terms' absolute values. */
static void exact_element(const struct trial *t, int64_t i, int64_t j, mpfr_t x, mpfr_t scale)
{
    limber_matrix a = view(t->a, t->fa, t->m, t->k, t->trans_a);
    limber_matrix b = view(t->b, t->fb, t->k, t->n, t->trans_b);
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

static double roundoff(limber_format f)
{
    return f.kind == LIMBER_KIND_DD ? 0x1p-106 : ldexp(1, -f.frac_bits - 1);
}

/* Returns the largest error as a share of the promised bound.  Fails the test if the share exceeds
 * 1. */
static double check_error(const struct trial *t, const char *c, const limber_report *rep)
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
                if (!ref_is_same_special(x, t->fc, p)) {
                    print_trial(t, "special", i, j);
                    fail();
                }
                continue;
            }
            if (t->contract.promise == LIMBER_CONTRACT_CORRECT) {
                if (!ref_rounds_to(x, t->fc, p)) {
                    print_trial(t, "not correctly rounded", i, j);
                    print_error("exact %.17g, scheme %s\n", mpfr_get_d(x, MPFR_RNDN), rep->scheme);
                    fail();
                }
                continue;
            }
            if (ref_rounds_to(x, t->fc, p)) /* also true if an overflow is right */
                continue;
            e = ref_error(x, t->fc, p, scale);
            limit =
                rep->bound + (t->contract.promise == LIMBER_CONTRACT_NATIVE ? 0 : roundoff(t->fc));
            if (e > limit) {
                print_trial(t, "bound exceeded", i, j);
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

/* Runs both backends, the interpreter with the scheme that LLVM has chosen, and compares all bits.
 * Returns false if the call was refused; C must then be unchanged. */
static bool run_both(const struct trial *t, char *c, limber_report *rep)
{
    size_t size = (size_t)(t->m * t->n) * t->fc.size;
    char *other = calloc(size + 1, 1);
    limber_contract forced = t->contract;
    struct trial same_scheme = *t;
    limber_status s = run_trial(llvm, t, c, rep);
    double value[2];

    if (s == LIMBER_STATUS_NO_SCHEME && strstr(limber_error_text(), "llvm has no"))
        s = run_trial(interp, t, c, rep);
    if (s != LIMBER_STATUS_OK && s != LIMBER_STATUS_NO_SCHEME && s != LIMBER_STATUS_RANGE) {
        print_trial(t, limber_error_text(), 0, 0);
        fail();
    }
    if (s == LIMBER_STATUS_OK) {
        limber_report mine = LIMBER_REPORT_INIT;

        forced.scheme = rep->scheme[0] ? rep->scheme : NULL;
        same_scheme.contract = forced;
        if (run_trial(interp, &same_scheme, other, &mine) != LIMBER_STATUS_OK) {
            print_trial(t, limber_error_text(), 0, 0);
            fail();
        }
        if (first_difference(t->fc, other, c, (size_t)(t->m * t->n), value) >= 0) {
            print_trial(t, rep->scheme, 0, 0);
            fail();
        }
    } else {
        assert_true(strlen(limber_error_text()) > 0);
        assert_memory_equal(c, t->c0, size);
    }
    free(other);
    return s == LIMBER_STATUS_OK;
}

/* Makes a trial, runs it on both backends and checks it.  Returns the largest error as a share of
 * the promised bound.  Adds 1 to *ran unless the call was refused. */
static double try_one(struct rng *r, struct trial *t, int *ran)
{
    limber_report rep = LIMBER_REPORT_INIT;
    double worst = 0;
    char *c;

    make_trial(r, t);
    c = poisoned((size_t)(t->m * t->n) * t->fc.size);
    if (run_both(t, c, &rep)) {
        ++*ran;
        worst = check_error(t, c, &rep);
    }
    free(c);
    free_trial(t);
    return worst;
}

/* ---- each promise, on several kinds of data -------------------------------------------------- */

/* Under `correct`, each element is the exact value, rounded once, for all formats and kinds of
 * data. */
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

/* Under `correct`, alpha A B + beta C is rounded once. */
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

/* Multiplies operands whose terms cancel in pairs except for their last bits.  What remains is
 * far smaller than the terms, or exactly half an ulp. */
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
            /* a[p + 1] = -a[p], in a third of the cases off by one ulp */
            for (int64_t x = 0; x < t.m; x++) {
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
            check_error(&t, c, &rep);
            again += i >= 12 && rep.recomputed > 0;
            if (i >= 12 && rep.recomputed > 0)
                assert_true(rep.recomputed_share > 0 && rep.recomputed_share <= 1);
        }
        free(c);
        free_trial(&t);
    }
    assert_int_equal(ran, SANITIZED ? 4 : 16);
    assert_true(again > 0 || SANITIZED); /* `wider` reports recomputed elements, too */
}

/* The low double of a double-double result is far below the high one.  Both must be rounded from
 * the complete sum. */
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

        assert_int_equal(limber_gemm(llvm, &contract, 1, 1, 4, NULL, view(a, dd, 1, 4, false),
                                     view(b, dd, 4, 1, false), NULL,
                                     output_of(view(c, dd, 1, 1, false)), NULL),
                         LIMBER_STATUS_OK);
        assert_true(c[0] == 1 && c[1] == nextafter(far, 1));
    }
}

/* Every scheme keeps the contract on suitable data, at a number of bits that it can reach. */
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
        { "fp32-fd", "f32", LIMBER_CONTRACT_FAST, 0 },
        { "ozaki1-f16d", "f64", LIMBER_CONTRACT_BITS, 52 },
        { "ozaki1-f16d", "f64", LIMBER_CONTRACT_FAST, 0 },
        { "wider", "f32", LIMBER_CONTRACT_BITS, 40 },
        { "wider", "f32", LIMBER_CONTRACT_BITS, 60 },
        { "wider", "bf16", LIMBER_CONTRACT_BITS, 30 },
    };
    /* fp32-m needs data that are 8-bit integers */
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

/* The caller gives the number of moduli or slices.  `fast` keeps as many bits as they hold, and
 * reports a bound for that number.  Other contracts refuse a number that is too small; a larger one
 * does not change results. */
static void named_counts_hold(void **state)
{
    static const struct {
        const char *scheme, *format;
        int first, last; /* smallest and largest number to try */
        limber_promise promise;
        /* bits of the contract `bits`; for `fast`, the smallest number whose bound is finite */
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
                check_error(&t, c, &rep);
                assert_true(rep.bound <= bound);
                assert_true(count < rows[i].least || isfinite(rep.bound));
                bound = rep.bound;
                ran++;
            } else {
                assert_non_null(strstr(limber_error_text(), "contract.slices = "));
                /* if a number of slices suffices, all larger ones must, too */
                assert_int_equal(ran, 0);
                refused++;
            }
            free(c);
            free_trial(&t);
        }
        assert_true(ran > 0);
        assert_true(refused > 0 || rows[i].promise == LIMBER_CONTRACT_FAST);
        /* with the largest number some bits of any data are kept */
        assert_true(rows[i].promise != LIMBER_CONTRACT_FAST || bound < 0x1p-10);
    }
}

/* Random formats and shapes keep the contract with the scheme that the library chooses. */
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

/* Products of integers are exact, or modulo a power of two, whatever the contract. */
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
            limber_matrix a = view(t.a, t.fa, t.m, t.k, t.trans_a);
            limber_matrix b = view(t.b, t.fb, t.k, t.n, t.trans_b);

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
                        print_trial(&t, rep.scheme, x, y);
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

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
