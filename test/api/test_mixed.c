/* SPDX-License-Identifier: BSD-3-Clause
 * Products of data with very different parts.  Such a product is computed in parts with plans of
 * their own.  It must keep the contract and give the same bits on every backend, and parts must be
 * used where they pay. */
#include "engine_support.h"
#include "contexts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Kinds of operands.  A tile is 64 lines (rows of A or columns of B) by 256 elements along k. */
enum kind {
    KIND_plain, /* uniform numbers */
    KIND_hot_row, /* one line whose exponents span 200 binades */
    KIND_wide_tiles, /* some tiles have a range of exponents wider than binary16's */
    KIND_far_tiles, /* some tiles as in KIND_wide_tiles, all others hold numbers near 2^-40 */
    KIND_zero_tiles, /* some tiles are dense, all others zero */
    KIND_byte_tiles, /* some tiles have uniform numbers, all others small integers */
    KIND_count
};
static const char *const kind_names[] = { "plain",     "hot row",    "wide tiles",
                                          "far tiles", "zero tiles", "byte tiles" };

/* A product whose tiles are of different kinds. */
struct trial {
    int64_t m, n, k;
    const char *format;
    enum kind a, b;
    limber_contract contract;
    bool scalars, columns; /* scalars: alpha and beta are given; columns: C is column-major */
    double share; /* share of the tiles that differ from the others, 0 to 1 */
};

static limber_context *interp, *fast;

static int make_contexts(void **state)
{
    (void)state;
    if (make_interp_and_best(&interp, &fast))
        return -1;
    plan_without_matrix_unit(fast);
    return 0;
}

/* ---- operands of different tiles ------------------------------------------------------------- */

/* Draws a number of roughly normal distribution, with mean 0 and deviation 1. */
static double normal_like(struct rng *r)
{
    return (rng_unit(r) + rng_unit(r) + rng_unit(r) - 1.5) * 2;
}

/* Draws an element of an operand.  line: its row of A or column of B; odd_tile: its tile is one of
 * those that differ. */
static double draw_element(struct rng *r, enum kind kind, int64_t line, bool odd_tile)
{
    double x = normal_like(r);

    switch (kind) {
    case KIND_hot_row: return line == 70 ? ldexp(x, rng_below(r, 200) - 100) : x;
    case KIND_wide_tiles: return odd_tile ? ldexp(x, rng_below(r, 60) - 30) : x;
    case KIND_far_tiles: return ldexp(x, odd_tile ? rng_below(r, 60) - 70 : -40);
    case KIND_zero_tiles: return odd_tile ? x : 0;
    case KIND_byte_tiles: return odd_tile ? x : rng_below(r, 255) - 127;
    default: return x;
    }
}

/* Allocates `lines` rows of A or columns of B, each contiguous. */
static void *make_operand(struct rng *r, const struct trial *t, enum kind kind, int64_t lines)
{
    limber_format f = named(t->format), f64 = named("f64");
    double *x = malloc((size_t)(lines * t->k) * sizeof *x);
    char *out = malloc((size_t)(lines * t->k) * f.size);
    uint64_t seed = rng_next(r);

    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < t->k; p++) {
            struct rng tile = { seed + (uint64_t)(i / 64 * 1000 + p / 256) * 7919 };

            rng_next(&tile);
            x[i * t->k + p] = draw_element(r, kind, i, rng_unit(&tile) < t->share);
        }
    assert_int_equal(limber_convert(out, f, x, f64, (size_t)(lines * t->k), LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    free(x);
    return out;
}

/* The operands of a trial, as stored, and the size of C. */
struct matrices {
    char *a, *b, *c0, alpha[16], beta[16];
    size_t bytes;
};

/* Makes the operands, scalars and initial C of a trial. */
static struct matrices make_trial(struct rng *r, const struct trial *t)
{
    limber_format f = named(t->format);
    struct matrices d = {
        make_operand(r, t, t->a, t->m), make_operand(r, t, t->b, t->n), NULL, { 0 }, { 0 },
        (size_t)(t->m * t->n) * f.size
    };

    d.c0 = malloc(d.bytes);
    fill(r, DATA_unit, f, d.c0, (size_t)(t->m * t->n));
    fill(r, DATA_unit, f, d.alpha, 1);
    fill(r, DATA_unit, f, d.beta, 1);
    return d;
}

static void free_trial(struct matrices *d)
{
    free(d->a);
    free(d->b);
    free(d->c0);
}

/* ---- computing and checking a product -------------------------------------------------------- */

/* Computes the trial's product into c, which first gets a copy of C0. */
static void run_trial(limber_context *ctx, const struct trial *t, const struct matrices *d, char *c,
                      limber_report *report)
{
    limber_format f = named(t->format);
    limber_status s;

    memcpy(c, d->c0, d->bytes);
    s = limber_gemm(ctx, &t->contract, t->m, t->n, t->k, t->scalars ? d->alpha : NULL,
                    (limber_matrix){ d->a, f, t->k, 1 }, (limber_matrix){ d->b, f, 1, t->k },
                    t->scalars ? d->beta : NULL,
                    (limber_output){ c, f, t->columns ? 1 : t->n, t->columns ? t->m : 1 }, report);
    if (s != LIMBER_STATUS_OK)
        print_error("%s x %s, %s: %s\n", kind_names[t->a], kind_names[t->b],
                    t->contract.scheme ? t->contract.scheme : "-", limber_error_text());
    assert_int_equal(s, LIMBER_STATUS_OK);
}

/* Computes alpha sum + beta c0 exactly, and alpha |A||B| + |beta c0|. */
static void exact_element(const struct trial *t, const struct matrices *d, int64_t i, int64_t j,
                          mpfr_t x, mpfr_t scale)
{
    limber_format f = named(t->format);
    int64_t at = t->columns ? j * t->m + i : i * t->n + j;
    mpfr_t s, c;

    ref_dot(x, scale, f, d->a + i * t->k * f.size, 1, f, d->b + j * t->k * f.size, 1, t->k);
    if (!t->scalars)
        return;
    mpfr_inits2(300, s, c, (mpfr_ptr)NULL);
    ref_load(s, f, d->alpha);
    mpfr_mul(x, x, s, MPFR_RNDN);
    mpfr_abs(s, s, MPFR_RNDN);
    mpfr_mul(scale, scale, s, MPFR_RNDN);
    ref_load(s, f, d->beta);
    ref_load(c, f, d->c0 + at * f.size);
    mpfr_mul(c, c, s, MPFR_RNDN);
    mpfr_add(x, x, c, MPFR_RNDN);
    mpfr_abs(c, c, MPFR_RNDN);
    mpfr_add(scale, scale, c, MPFR_RNDN);
    mpfr_clears(s, c, (mpfr_ptr)NULL);
}

/* Returns the promised error bound, relative to the element's scale. */
static double allowed(const struct trial *t)
{
    double u = ldexp(1, strcmp(t->format, "f32") ? -53 : -24);

    return t->contract.promise == LIMBER_CONTRACT_BITS ? ldexp(1, -t->contract.bits) + u :
                                                         (double)(t->k + 2 + 2 * t->scalars) * u;
}

/* Checks sampled elements against MPFR and the promised bound. */
static void check_samples(struct rng *r, const struct trial *t, const struct matrices *d,
                          const char *c, const limber_report *report)
{
    limber_format f = named(t->format);
    mpfr_t x, scale;

    mpfr_inits2(REF_BITS, x, scale, (mpfr_ptr)NULL);
    for (int s = 0; s < 60; s++) {
        int64_t i = s < 10 ? 70 % t->m : rng_below(r, (int)t->m), j = rng_below(r, (int)t->n);
        const char *at = c + (t->columns ? j * t->m + i : i * t->n + j) * f.size;
        bool ok;

        exact_element(t, d, i, j, x, scale);
        ok = t->contract.promise == LIMBER_CONTRACT_CORRECT ?
                 ref_rounds_to(x, f, at) :
                 ref_error(x, f, at, scale) <= allowed(t);
        if (!ok)
            print_error("%s x %s, %s: (%lld,%lld) errs by %g, allowed %g\n", kind_names[t->a],
                        kind_names[t->b], report->scheme, (long long)i, (long long)j,
                        ref_error(x, f, at, scale), allowed(t));
        assert_true(ok);
    }
    mpfr_clears(x, scale, (mpfr_ptr)NULL);
}

/* Fails the test unless both results have the same bits. */
static void assert_same_bits(const struct trial *t, const char *c, const char *e, size_t bytes)
{
    const limber_format f = named(t->format);

    assert_same_numbers(f, e, c, bytes / f.size, "%s x %s, %s", kind_names[t->a], kind_names[t->b],
                        t->contract.scheme ? t->contract.scheme : "-");
    assert_memory_equal(c, e, bytes); /* NaN, too */
}

/* Runs the default backend and checks the result.  same: the interpreter must give the same
 * bits. */
static void try_both(struct rng *r, const struct trial *t, bool same, limber_report *report)
{
    struct matrices d = make_trial(r, t);
    char *c = malloc(d.bytes), *e = malloc(d.bytes);
    limber_report ri = LIMBER_REPORT_INIT;

    run_trial(fast, t, &d, c, report);
    check_samples(r, t, &d, c, report);
    if (same) {
        run_trial(interp, t, &d, e, &ri);
        assert_same_bits(t, c, e, d.bytes);
    }
    free(c);
    free(e);
    free_trial(&d);
}

/* ---- pairs of schemes, ranges and contracts -------------------------------------------------- */

/* Products by two schemes, each for the tiles it suits: the bound is kept, and there are at least
 * as many parts as expected. */
static void pairs_of_schemes(void **state)
{
    static const struct {
        const char *scheme, *format;
        enum kind a, b;
        int least;
        /* share of tiles that differ from the others; with a larger one, a single scheme would cost
         * less than two */
        double share;
    } cases[] = {
        { "fp32-f+fp32-b", "f32", KIND_wide_tiles, KIND_wide_tiles, 2, 0.2 },
        { "fp32-f+fp32-b", "f32", KIND_wide_tiles, KIND_plain, 2, 0.4 },
        { "fp32-f+fp32-b", "f32", KIND_plain, KIND_wide_tiles, 2, 0.4 },
        { "fp32-f+fp32-b", "f32", KIND_plain, KIND_plain, 1, 0.4 },
        { "fp32-f+native", "f32", KIND_far_tiles, KIND_far_tiles, 3, 0.4 },
        { "fp32-f+fp32-t", "f32", KIND_wide_tiles, KIND_zero_tiles, 1, 0.4 },
        { "ozaki2+native", "f64", KIND_byte_tiles, KIND_byte_tiles, 3, 0.4 },
        { "native+native", "f64", KIND_zero_tiles, KIND_zero_tiles, 1, 0.4 },
    };
    struct rng r = { 41 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += SANITIZED ? 3 : 1)
        for (int way = 0; way < 2; way++) {
            struct trial t = { .m = 150 + 31 * way,
                               .n = 201 - 40 * way,
                               .k = 600 - 88 * way,
                               .format = cases[i].format,
                               .a = cases[i].a,
                               .b = cases[i].b,
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = LIMBER_CONTRACT_NATIVE,
                                             .scheme = cases[i].scheme },
                               .scalars = way,
                               .columns = way,
                               .share = cases[i].share };
            limber_report report = LIMBER_REPORT_INIT;

            try_both(&r, &t, true, &report);
            assert_true(report.parts >= cases[i].least);
        }
}

/* A row of large numbers makes the library divide a product under `correct`: the parts' shares add
 * up to 1, the result is right. */
static void lines_of_different_magnitudes(void **state)
{
    struct rng r = { 42 };
    struct trial t = { .m = 1280,
                       .n = 1500,
                       .k = 700,
                       .format = "f128",
                       .a = KIND_hot_row,
                       .b = KIND_plain,
                       .contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT },
                       .share = 0.3 };
    limber_part part[LIMBER_PARTS];
    limber_report report = {
        .size = sizeof report, .part_size = sizeof *part, .part_room = LIMBER_PARTS, .part = part
    };
    double share = 0;

    (void)state;
    try_both(&r, &t, false, &report);
    assert_true(report.parts >= 2);
    for (int i = 0; i < report.parts; i++)
        share += report.part[i].share;
    assert_true(fabs(share - 1) < 1e-12);
    assert_string_equal(report.scheme, "mixed");
    assert_true(report.bound == 0);
    t.b = KIND_hot_row;
    t.scalars = true; /* with beta, each part of the result must be combined with C */
    try_both(&r, &t, false, &report);
}

/* `correct` results do not depend on the partition. */
static void correct_everywhere(void **state)
{
    struct rng r = { 43 };

    (void)state;
    for (int a = 0; a < KIND_count; a++) {
        struct trial t = { .m = 130,
                           .n = 140,
                           .k = 520,
                           .format = a % 2 ? "f64" : "f32",
                           .a = (enum kind)a,
                           .b = (enum kind)rng_below(&r, KIND_count),
                           .contract = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_CORRECT },
                           .share = 0.3 };
        limber_report report = LIMBER_REPORT_INIT;

        try_both(&r, &t, true, &report);
    }
}

/* In every other row of A the second half nearly cancels the first.  A first pass with few bits
 * does not determine the rounding of these sums, and they must be recomputed. */
static void uncertain_elements_are_recomputed(void **state)
{
    static const char *const formats[] = { "f64", "f32" };
    struct rng r = { 45 };

    (void)state;
    for (int c = 0; c < 4; c++) {
        struct trial t = { .m = 96,
                           .n = 97,
                           .k = 300,
                           .format = formats[c % 2],
                           .contract = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_CORRECT,
                                         .scheme = "ozaki2" },
                           .scalars = c > 1 };
        limber_format f = named(t.format);
        struct matrices d = make_trial(&r, &t);
        char *out = malloc(d.bytes), *again = malloc(d.bytes);
        int64_t half = t.k / 2;
        limber_report report = LIMBER_REPORT_INIT, other = LIMBER_REPORT_INIT;

        for (int64_t i = 0; i < t.m + t.n; i++)
            for (int64_t p = 0; p < half; p++) {
                char *line = i < t.m ? d.a + i * t.k * f.size : d.b + (i - t.m) * t.k * f.size;
                /* separate statements, so that the order of the random draws does not depend on the
                 * compiler */
                double size = normal_like(&r);
                double x = ldexp(size, rng_below(&r, f.size == 4 ? 90 : 150) - 60);
                double y = i >= t.m ? x :
                           i % 2    ? -x * (1 + 0x1p-18 * (p % 7 == 0)) :
                                      normal_like(&r);

                assert_int_equal(
                    limber_convert(line + p * f.size, f, &x, named("f64"), 1, LIMBER_ROUND_NEAREST),
                    LIMBER_STATUS_OK);
                assert_int_equal(limber_convert(line + (p + half) * f.size, f, &y, named("f64"), 1,
                                                LIMBER_ROUND_NEAREST),
                                 LIMBER_STATUS_OK);
            }
        run_trial(fast, &t, &d, out, &report);
        assert_true(report.recomputed > 0 && report.recomputed < t.m * t.n);
        assert_true(report.recomputed_share > 0 && report.recomputed_share <= 1);
        check_samples(&r, &t, &d, out, &report);
        run_trial(interp, &t, &d, again, &other);
        assert_true(other.recomputed > 0);
        assert_same_bits(&t, out, again, d.bytes);
        free(out);
        free(again);
        free_trial(&d);
    }
}

/* Results are right if elements of A and B have exponents over most of binary64's range. */
static void exponents_cover_the_whole_range(void **state)
{
    struct rng r = { 46 };
    struct trial t = { .m = 130,
                       .n = 90,
                       .k = 200,
                       .format = "f64",
                       .contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT } };
    struct matrices d = make_trial(&r, &t);
    char *out = malloc(d.bytes), *again = malloc(d.bytes);
    limber_report report = LIMBER_REPORT_INIT;

    (void)state;
    fill(&r, DATA_range, named("f64"), d.a, (size_t)(t.m * t.k));
    fill(&r, DATA_range, named("f64"), d.b, (size_t)(t.n * t.k));
    run_trial(fast, &t, &d, out, &report);
    check_samples(&r, &t, &d, out, &report);
    run_trial(interp, &t, &d, again, &report);
    assert_same_bits(&t, out, again, d.bytes);
    free(out);
    free(again);
    free_trial(&d);
}

/* Every kind of operand under the contracts `bits` and `native`: results keep the contract. */
static void bits_and_native(void **state)
{
    struct rng r = { 44 };

    (void)state;
    for (int a = 0; a < KIND_count; a += SANITIZED ? 2 : 1)
        for (int bits = 0; bits < 2; bits++) {
            struct trial t = { .m = 700,
                               .n = 650,
                               .k = 800,
                               .format = a % 2 ? "f64" : "f32",
                               .a = (enum kind)a,
                               .b = (enum kind)rng_below(&r, KIND_count),
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = bits ? LIMBER_CONTRACT_BITS :
                                                               LIMBER_CONTRACT_NATIVE,
                                             .bits = bits ? 20 : 0 },
                               .scalars = bits,
                               .share = 0.3 };
            limber_report report = LIMBER_REPORT_INIT;

            try_both(&r, &t, false, &report);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_of_schemes),
        cmocka_unit_test(lines_of_different_magnitudes),
        cmocka_unit_test(correct_everywhere),
        cmocka_unit_test(uncertain_elements_are_recomputed),
        cmocka_unit_test(exponents_cover_the_whole_range),
        cmocka_unit_test(bits_and_native),
    };

    return cmocka_run_group_tests_name("mixed", tests, make_contexts, destroy_group_contexts);
}
