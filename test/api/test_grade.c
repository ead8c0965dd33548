/* SPDX-License-Identifier: BSD-3-Clause
 * The tests for grading GEMM: errors relative to |A||B| grow at most linearly in k, zeros stay
 * zeros, and numbers at scales that fixed-point arithmetic would lose are kept.  Also:
 * permutations, powers of two, threads and workspaces do not change results.
 *
 *   source  Demmel, Li, Langou, Pereira, Gates, Rubio-Gonzalez, tests for grading GEMM (2024) */
#define _GNU_SOURCE
#include "support.h"
#include "contexts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static limber_context *one, *two;

static int make_contexts(void **state)
{
    (void)state;
    one = group_context(.backend = "auto", .threads = 1);
    two = group_context(.backend = "auto", .threads = 2, .workspace_bytes = 1 << 20);
    return one && two ? 0 : -1;
}

/* ---- products of doubles, stored in any format ----------------------------------------------- */

/* A product whose result is graded, that is, whose error is measured. */
struct trial {
    int64_t m, n, k;
    const char *format;
    limber_contract contract;
    double *a, *b; /* a: m x k; b: n x k, the columns of B; owned */
};

/* Returns a product with zero operands, which are rounded to `format` when it runs. */
static struct trial make_product(int64_t m, int64_t n, int64_t k, const char *format,
                                 limber_promise promise, const char *scheme)
{
    return (
        struct trial){ m,
                       n,
                       k,
                       format,
                       { .size = sizeof(limber_contract), .promise = promise, .scheme = scheme },
                       calloc((size_t)(m * k) + 1, sizeof(double)),
                       calloc((size_t)(n * k) + 1, sizeof(double)) };
}

static void free_product(struct trial *p)
{
    free(p->a);
    free(p->b);
}

/* Returns `count` doubles converted to the product's format, in memory that the caller frees. */
static char *convert(const struct trial *p, const double *x, int64_t count)
{
    limber_format f = named(p->format);
    char *out = malloc((size_t)(count + 1) * f.size);

    assert_int_equal(limber_convert(out, f, x, named("f64"), (size_t)count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    return out;
}

/* Returns the result, which the caller frees; NULL if no scheme supports the product. */
static char *run_product(limber_context *ctx, const struct trial *p)
{
    limber_format f = named(p->format);
    char *a = convert(p, p->a, p->m * p->k), *b = convert(p, p->b, p->n * p->k);
    char *c = malloc((size_t)(p->m * p->n) * f.size);
    limber_status s =
        limber_gemm(ctx, &p->contract, p->m, p->n, p->k, NULL, (limber_matrix){ a, f, p->k, 1 },
                    (limber_matrix){ b, f, 1, p->k }, NULL, (limber_output){ c, f, p->n, 1 }, NULL);

    free(a);
    free(b);
    if (s == LIMBER_STATUS_OK)
        return c;
    free(c);
    assert_int_equal(s, LIMBER_STATUS_NO_SCHEME);
    return NULL;
}

/* Returns the unit roundoff of a format. */
static double unit_of(const char *format)
{
    return ldexp(1, strcmp(format, "f64") ? -24 : -53);
}

/* Returns the largest error of sampled elements, in units of u |A||B| with the format's unit
 * roundoff u. */
static double largest_error(struct rng *r, const struct trial *p, const char *c, int samples)
{
    limber_format f = named(p->format);
    char *a = convert(p, p->a, p->m * p->k), *b = convert(p, p->b, p->n * p->k);
    double most = 0;
    mpfr_t x, scale;

    mpfr_inits2(REF_BITS, x, scale, (mpfr_ptr)NULL);
    for (int s = 0; s < samples; s++) {
        int64_t i = rng_below(r, (int)p->m), j = rng_below(r, (int)p->n);
        double e;

        ref_dot(x, scale, f, a + i * p->k * f.size, 1, f, b + j * p->k * f.size, 1, p->k);
        e = ref_error(x, f, c + (i * p->n + j) * f.size, scale) / unit_of(p->format);
        most = e > most ? e : most;
    }
    mpfr_clears(x, scale, (mpfr_ptr)NULL);
    free(a);
    free(b);
    return most;
}

/* The schemes to grade; NULL: the library chooses. */
static const struct {
    const char *scheme, *format;
} graded[] = {
    { NULL, "f64" },        { NULL, "f32" },         { "native", "f64" }, { "native", "f32" },
    { "fp32-f", "f32" },    { "fp32-t", "f32" },     { "fp32-b", "f32" }, { "fp32-b9", "f32" },
    { "ozaki1-i8", "f64" }, { "ozaki1-f16", "f32" }, { "ozaki2", "f64" }, { "ozaki2", "f32" },
};
enum { GRADED = sizeof graded / sizeof *graded };

/* ---- the tests ------------------------------------------------------------------------------- */

/* Test 1: numbers uniform in (0, 1).  The largest error grows no faster than k. */
static void errors_grow_at_most_linearly(void **state)
{
    static const int sizes[] = { 16, 64, 256, 1024 };
    struct rng r = { 71 };

    (void)state;
    for (int g = 0; g < GRADED; g += SANITIZED ? 3 : 1) {
        double first = 0, last = 0;
        int small = 0, large = 0;

        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int k = sizes[s];
            struct trial p =
                make_product(40, 40, k, graded[g].format, LIMBER_CONTRACT_NATIVE, graded[g].scheme);
            char *c;
            double e;

            for (int64_t i = 0; i < p.m * k; i++)
                p.a[i] = rng_unit(&r);
            for (int64_t i = 0; i < p.n * k; i++)
                p.b[i] = rng_unit(&r);
            c = run_product(one, &p);
            if (c) { /* NULL if the scheme's bound is too large for this k */
                e = largest_error(&r, &p, c, 60);
                assert_true(e <= k + 2);
                first = small ? first : e;
                small = small ? small : k;
                last = e;
                large = k;
            }
            free(c);
            free_product(&p);
        }
        assert_true(large > 0);
        if (large > small && first > 0)
            assert_true(log(last / first) / log((double)large / small) <= 1);
    }
}

/* Test 2: zeros of A and B alternate, so that some blocks of C are exactly zero. */
static void zeros_stay_zeros(void **state)
{
    struct rng r = { 72 };

    (void)state;
    for (int g = 0; g < GRADED; g += SANITIZED ? 3 : 1) {
        struct trial p =
            make_product(70, 70, 400, graded[g].format, LIMBER_CONTRACT_NATIVE, graded[g].scheme);
        limber_format f = named(p.format);
        char zero[16] = { 0 }, *c;

        for (int64_t i = 0; i < p.m; i++)
            for (int64_t q = 0; q < p.k; q++) {
                p.a[i * p.k + q] = (q / 7 + i / 35) % 2 ? rng_unit(&r) - 0.5 : 0;
                p.b[i * p.k + q] = (q / 7 + i / 35) % 2 ? rng_unit(&r) - 0.5 : 0;
            }
        c = run_product(one, &p);
        for (int64_t i = 0; c && i < p.m; i++)
            for (int64_t j = 0; j < p.n; j++)
                if ((i / 35 + j / 35) % 2)
                    assert_memory_equal(c + (i * p.n + j) * f.size, zero, f.size);
        free(c);
        free_product(&p);
    }
}

/* Test 4: each row of A has powers of two over nearly the whole range of exponents, shifted
 * cyclically from row to row, and B has their inverses.  An arithmetic with one scale per row would
 * lose all digits of most products. */
static void errors_are_relative_to_each_element(void **state)
{
    static const limber_promise promises[] = { LIMBER_CONTRACT_NATIVE, LIMBER_CONTRACT_BITS,
                                               LIMBER_CONTRACT_CORRECT };
    struct rng r = { 74 };

    (void)state;
    for (int g = 0; g < GRADED; g += SANITIZED ? 3 : 1)
        for (int q = 0; q < 3; q++) {
            struct trial p =
                make_product(48, 48, 300, graded[g].format, promises[q], graded[g].scheme);
            int range = strcmp(p.format, "f64") ? 60 : 480;
            char *c;

            p.contract.bits = promises[q] == LIMBER_CONTRACT_BITS ? 18 : 0;
            for (int64_t i = 0; i < p.k; i++) {
                int scale = (int)(i * 2 * range / p.k) - range;

                for (int64_t l = 0; l < p.m; l++) {
                    p.a[l * p.k + (i + 5 * l) % p.k] = ldexp(1 + rng_unit(&r), scale);
                    p.b[l * p.k + i] = ldexp(1 + rng_unit(&r), -scale);
                }
            }
            c = run_product(one, &p);
            if (c)
                assert_true(largest_error(&r, &p, c, 40) <=
                            (q == 1 ? ldexp(1, -18) / unit_of(p.format) + 1 :
                             q      ? 1 :
                                      (double)p.k + 2));
            assert_true(c || graded[g].scheme); /* without a named scheme the call must succeed */
            free(c);
            free_product(&p);
        }
}

/* ---- correct results do not depend on the configuration -------------------------------------- */

/* A product of doubles whose correct rounding is hard. */
static struct trial hard_product(struct rng *r)
{
    struct trial p = make_product(150, 140, 330, "f64", LIMBER_CONTRACT_CORRECT, NULL);

    /* rows of A have different magnitudes, some a wide range of exponents; products cancel in
     * columns of B */
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t q = 0; q < p.k; q++)
            p.a[i * p.k + q] =
                ldexp(rng_unit(r) - 0.5, (int)(-i / 4) + (i % 3 ? 0 : rng_below(r, 60)));
    for (int64_t j = 0; j < p.n; j++)
        for (int64_t q = 0; q < p.k; q++)
            p.b[j * p.k + q] =
                (__builtin_popcountll((uint64_t)(q & j)) % 2 ? -1 : 1) *
                ldexp(1 + 0x1p-40 * rng_unit(r), j % 5 ? 0 : rng_below(r, 300) - 150);
    return p;
}

/* Permuting rows and k, and scaling rows and columns by powers of two, changes the results only by
 * these permutations and powers, down to the last bit. */
static void permuted_and_scaled(void **state)
{
    struct rng r = { 75 };
    struct trial p = hard_product(&r), q = hard_product(&r);
    int64_t *row = calloc((size_t)p.m, sizeof *row), *inner = calloc((size_t)p.k, sizeof *inner);
    const double *before, *after;
    char *x, *y;

    (void)state;
    for (int64_t i = 0; i < p.m; i++)
        row[i] = (i * 77 + 5) % p.m; /* permutations, as 77 and 150, and 127 and 330, are coprime */
    for (int64_t i = 0; i < p.k; i++)
        inner[i] = (i * 127 + 3) % p.k;
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t k = 0; k < p.k; k++)
            q.a[row[i] * p.k + inner[k]] = ldexp(p.a[i * p.k + k], (int)(i % 50));
    for (int64_t j = 0; j < p.n; j++)
        for (int64_t k = 0; k < p.k; k++)
            q.b[j * p.k + inner[k]] = ldexp(p.b[j * p.k + k], -(int)(j % 40));
    x = run_product(one, &p);
    y = run_product(two, &q);
    before = (const double *)(const void *)x;
    after = (const double *)(const void *)y;
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.n; j++)
            assert_true(ldexp(before[i * p.n + j], (int)(i % 50 - j % 40)) ==
                        after[row[i] * p.n + j]);
    free(x);
    free(y);
    free(row);
    free(inner);
    free_product(&p);
    free_product(&q);
}

/* Threads, workspaces, schemes, partitions, backends and a filled disk cache do not change bits. */
static void configuration_does_not_change_bits(void **state)
{
    static const char *const schemes[] = { NULL, "ozaki2", "accumulator" };
    char folder[] = "/tmp/limber-grade-XXXXXX", command[64];
    limber_config c = { .size = sizeof(limber_config),
                        .backend = "auto",
                        .cache_dir = folder,
                        .dump_dir = "",
                        .threads = 1 };
    struct rng r = { 76 };
    struct trial p = hard_product(&r);
    char *first = run_product(one, &p);

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int way = 0; way < 6; way++) {
        limber_context *own = NULL;

        c.partition = way ? LIMBER_PARTITION_OFF : LIMBER_PARTITION_AUTO;
        c.backend = way == 4 ? "interp" : "auto";
        if (way > 1) /* configurations 2 to 5 use the disk cache, which is empty at first */
            assert_int_equal(limber_create(&own, &c), LIMBER_STATUS_OK);
        for (int s = 0; s < (way == 4 ? 1 : 3); s++) {
            char *got;

            p.contract.scheme = schemes[s];
            got = run_product(own ? own : way ? two : one, &p);
            /* the range of the data may be too wide for ozaki2 (s == 1) */
            assert_true(got || s == 1);
            if (got)
                assert_memory_equal(got, first, (size_t)(p.m * p.n) * sizeof(double));
            free(got);
        }
        limber_destroy(own);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    free(first);
    free_product(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_grow_at_most_linearly),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(errors_are_relative_to_each_element),
        cmocka_unit_test(permuted_and_scaled),
        cmocka_unit_test(configuration_does_not_change_bits),
    };

    return cmocka_run_group_tests_name("grade", tests, make_contexts, destroy_group_contexts);
}
