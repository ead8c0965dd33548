/* SPDX-License-Identifier: BSD-3-Clause
 * Compares complex products with MPFR, real and imaginary parts separately: every format and
 * layout, conjugates, scalars, NaN and infinities, integers, and the bound of the method with three
 * real products. */
#include "support.h"
#include "contexts.h"
#include "engine_support.h"

#include "jit/api/api.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_CONTEXTS = 8 };

static limber_context *contexts[MOST_CONTEXTS];
static int context_count;

static int make_contexts(void **state)
{
    (void)state;
    context_count = make_contexts_of_backends(contexts, MOST_CONTEXTS, (const int[]){ 2, 0 });
    return context_count > 0 ? 0 : -1;
}

/* ---- a product and its exact value ---------------------------------------------------------- */

/* Alpha and beta of a trial: absent, both real, only beta complex, both complex. */
enum { SCALARS_none, SCALARS_real, SCALARS_beta, SCALARS_complex, SCALARS_count };

/* A complex product, and how it is requested. */
struct trial {
    int64_t m, n, k;
    limber_format fa, fb, fc;
    enum data data;
    limber_contract contract;
    int conj_a, conj_b, products, scalars;
    limber_matrix a, b, c, c0;
    char *alpha, *beta; /* NULL for alpha = 1, and for beta = 0 */
};

/* largest padding after a row or column, in elements */
enum { GAP = 3 };

/* Returns a matrix with contiguous rows, contiguous columns, or neither, at random. */
static limber_matrix make_matrix(struct rng *r, limber_format f, int64_t rows, int64_t cols,
                                 enum data data)
{
    static const int64_t apart[] = { 1, 1, 2 };
    int way = rng_below(r, 3);
    int64_t lead = way == 1 ? rows : cols, count = 2 * (rows + GAP) * (cols + GAP) * 2;
    limber_matrix m = { calloc((size_t)count + 2, f.size), f, 0, 0 };

    lead = apart[way] * (lead + rng_below(r, GAP)) + 1;
    m.row_stride = way == 1 ? 1 : lead;
    m.col_stride = way == 1 ? lead : apart[way];
    fill(r, data, f, writable(m.data), (size_t)count);
    return m;
}

/* Returns the matrix with its data copied to new memory. */
static limber_matrix copy_of(limber_matrix m, int64_t rows, int64_t cols)
{
    size_t bytes = (size_t)(4 * (rows + GAP) * (cols + GAP) + 2) * m.format.size;
    void *p = malloc(bytes);

    memcpy(p, m.data, bytes);
    m.data = p;
    return m;
}

/* Makes the trial's alpha and beta: none, real, or complex ones, by t->scalars. */
static void make_scalars(struct rng *r, struct trial *t)
{
    limber_format f = t->fc.kind == LIMBER_KIND_INT ? named("i64") : t->fc;
    enum data d = t->fc.kind == LIMBER_KIND_INT ? DATA_bytes : DATA_unit;

    t->alpha = t->beta = NULL;
    if (t->scalars == SCALARS_none)
        return;
    t->alpha = calloc(2, f.size);
    t->beta = calloc(2, f.size);
    fill(r, d, f, t->alpha, t->scalars == SCALARS_complex ? 2 : 1);
    fill(r, d, f, t->beta, t->scalars >= SCALARS_beta ? 2 : 1);
}

/* Fills a trial's matrices and scalars at random. */
static void make_trial(struct rng *r, struct trial *t)
{
    t->a = make_matrix(r, t->fa, t->m, t->k, t->data);
    t->b = make_matrix(r, t->fb, t->k, t->n, t->data);
    t->c0 = make_matrix(r, t->fc, t->m, t->n, t->data);
    t->c = copy_of(t->c0, t->m, t->n);
    make_scalars(r, t);
}

static void free_trial(struct trial *t)
{
    free(writable(t->a.data));
    free(writable(t->b.data));
    free(writable(t->c.data));
    free(writable(t->c0.data));
    free(t->alpha);
    free(t->beta);
}

/* Returns the address of the real or imaginary part of an element. */
static const char *part_at(limber_matrix m, int64_t i, int64_t j, int imaginary)
{
    return (char *)m.data + (2 * (i * m.row_stride + j * m.col_stride) + imaginary) * m.format.size;
}

/* Adds x y (or, if `minus`, subtracts it) to *sum, and adds |x y| to *all. */
static void add_product(mpfr_t sum, mpfr_t all, limber_format fx, const void *x, limber_format fy,
                        const void *y, bool minus)
{
    mpfr_t u, v;

    mpfr_init2(u, 300);
    mpfr_init2(v, 300);
    ref_load(u, fx, x);
    ref_load(v, fy, y);
    {
        mpfr_t p;

        mpfr_init2(p, 700);
        mpfr_mul(p, u, v, MPFR_RNDN);
        if (minus)
            mpfr_neg(p, p, MPFR_RNDN);
        mpfr_add(sum, sum, p, MPFR_RNDN);
        mpfr_abs(p, p, MPFR_RNDN);
        mpfr_add(all, all, p, MPFR_RNDN);
        mpfr_clear(p);
    }
    mpfr_clear(u);
    mpfr_clear(v);
}

/* Computes the real or imaginary part of an element of op(A) op(B) exactly, and the sum of absolute
 * values of its terms. */
static void exact_part(const struct trial *t, int64_t i, int64_t j, int imaginary, mpfr_t x,
                       mpfr_t all)
{
    mpfr_set_zero(x, 1);
    mpfr_set_zero(all, 1);
    for (int64_t p = 0; p < t->k; p++) {
        add_product(x, all, t->fa, part_at(t->a, i, p, 0), t->fb, part_at(t->b, p, j, imaginary),
                    imaginary && t->conj_b);
        add_product(x, all, t->fa, part_at(t->a, i, p, 1), t->fb, part_at(t->b, p, j, !imaginary),
                    imaginary ? t->conj_a != 0 : t->conj_a == t->conj_b);
    }
}

static limber_status run_trial(limber_context *ctx, const struct trial *t, limber_report *r)
{
    limber_contract contract = t->contract;

    contract.size = sizeof contract; /* the trials leave this field 0 */
    return gemm_complex(ctx, &contract, NULL, t->m, t->n, t->k, t->alpha, t->a, t->conj_a, t->b,
                        t->conj_b, t->beta, output_of(t->c), r, t->products);
}

/* Fails the test with a description of the trial and the element. */
static void fail_at(const struct trial *t, const char *what, int64_t i, int64_t j, int imaginary)
{
    char a[16], b[16], c[16];

    print_error("%s: %lld x %lld x %lld %s %s %s data=%s promise=%d conj=%d%d scalars=%d "
                "strides a=%lld,%lld b=%lld,%lld c=%lld,%lld at (%lld,%lld) part %d\n",
                what, (long long)t->m, (long long)t->n, (long long)t->k,
                limber_format_name(t->fa, a, sizeof a), limber_format_name(t->fb, b, sizeof b),
                limber_format_name(t->fc, c, sizeof c), data_name(t->data), t->contract.promise,
                t->conj_a, t->conj_b, t->scalars, (long long)t->a.row_stride,
                (long long)t->a.col_stride, (long long)t->b.row_stride, (long long)t->b.col_stride,
                (long long)t->c.row_stride, (long long)t->c.col_stride, (long long)i, (long long)j,
                imaginary);
    fail();
}

/* Replaces x by alpha x + beta C for real alpha and beta, and `all` by the sum of absolute
 * values. */
static void apply_real_scalars(const struct trial *t, int64_t i, int64_t j, int imaginary, mpfr_t x,
                               mpfr_t all)
{
    mpfr_t s;

    if (!t->alpha)
        return;
    mpfr_init2(s, 300);
    ref_load(s, t->fc, t->alpha);
    mpfr_mul(x, x, s, MPFR_RNDN);
    mpfr_abs(s, s, MPFR_RNDN);
    mpfr_mul(all, all, s, MPFR_RNDN);
    mpfr_clear(s);
    add_product(x, all, t->fc, t->beta, t->fc, part_at(t->c0, i, j, imaginary), false);
}

static double roundoff(limber_format f)
{
    return f.kind == LIMBER_KIND_DD ? 0x1p-106 : ldexp(1, -f.frac_bits - 1);
}

/* Checks the real or imaginary part of an element against its exact value, within the error that
 * the contract allows. */
static void check_part(const struct trial *t, const limber_report *r, int64_t i, int64_t j,
                       int imaginary, mpfr_t x, mpfr_t all)
{
    const char *got = part_at(t->c, i, j, imaginary);

    exact_part(t, i, j, imaginary, x, all);
    apply_real_scalars(t, i, j, imaginary, x, all);
    if (!mpfr_number_p(x)) {
        if (!ref_is_same_special(x, t->fc, got))
            fail_at(t, "special", i, j, imaginary);
    } else if (t->contract.promise == LIMBER_CONTRACT_CORRECT) {
        if (!ref_rounds_to(x, t->fc, got))
            fail_at(t, "not correctly rounded", i, j, imaginary);
    } else if (!ref_rounds_to(x, t->fc, got)) {
        double limit =
            r->bound + (t->contract.promise == LIMBER_CONTRACT_NATIVE ? 0 : roundoff(t->fc));

        if (ref_error(x, t->fc, got, all) > limit)
            fail_at(t, "bound exceeded", i, j, imaginary);
    }
}

/* Checks that memory between the elements of C is unchanged. */
static void check_gaps(const struct trial *t)
{
    size_t size = t->fc.size, count = (size_t)(4 * (t->m + GAP) * (t->n + GAP));
    char *seen = calloc(count + 2, 1);

    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++)
            memset(seen + 2 * (i * t->c.row_stride + j * t->c.col_stride), 1, 2);
    for (size_t e = 0; e < count; e++)
        if (!seen[e] && memcmp((char *)t->c.data + e * size, (char *)t->c0.data + e * size, size))
            fail_at(t, "a gap was written", 0, (int64_t)e, 0);
    free(seen);
}

/* Checks every element of C against the exact result, and that gaps between rows or columns are
 * unchanged. */
static void check_elements(const struct trial *t, const limber_report *r)
{
    mpfr_t x, all;

    mpfr_init2(x, REF_BITS);
    mpfr_init2(all, REF_BITS);
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++)
            for (int imaginary = 0; imaginary < 2; imaginary++)
                check_part(t, r, i, j, imaginary, x, all);
    check_gaps(t);
    mpfr_clear(x);
    mpfr_clear(all);
}

/* ---- complex floats ------------------------------------------------------------------------- */

static struct trial random_sizes(struct rng *r, int i)
{
    return (struct trial){ .m = 1 + rng_below(r, 9),
                           .n = 1 + rng_below(r, 12),
                           .k = rng_below(r, 14),
                           .conj_a = i & 1,
                           .conj_b = i >> 1 & 1 };
}

/* Makes a trial, runs it and checks the result.  Adds 1 to *ran if some scheme supports it. */
static void try_one(limber_context *ctx, struct rng *r, struct trial *t, int *ran)
{
    limber_report rep = LIMBER_REPORT_INIT;
    limber_status s;

    make_trial(r, t);
    s = run_trial(ctx, t, &rep);
    if (s == LIMBER_STATUS_OK) {
        ++*ran;
        check_elements(t, &rep);
    } else if (s != LIMBER_STATUS_NO_SCHEME) {
        fail_msg("%s", limber_error_text());
    }
    free_trial(t);
}

/* Under `correct`, the real and imaginary part of each element are the exact values, rounded
 * once. */
static void correct_is_correct(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f128", "dd", "f16", "e4m3" };
    int ran = 0;

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < 6 * DATA_count * 2; i += SANITIZED ? 7 : 1) {
            struct rng r = { 100 + (uint64_t)i };
            struct trial t = random_sizes(&r, i);

            t.data = (enum data)(i % DATA_count);
            t.fa = t.fb = t.fc = named(formats[i / DATA_count % 6]);
            if (t.fc.size == 1) /* overflow of one-byte formats is tested elsewhere */
                t.fc = named("f32");
            t.contract.promise = LIMBER_CONTRACT_CORRECT;
            t.scalars = t.fc.kind == LIMBER_KIND_DD ? SCALARS_none : rng_below(&r, SCALARS_beta);
            try_one(contexts[c], &r, &t, &ran);
        }
    assert_true(ran > (SANITIZED ? 9 : 60) * context_count);
}

/* Complex products: the errors of the real and of the imaginary part are within the bound that the
 * report gives. */
static void bounds_hold(void **state)
{
    static const struct {
        const char *format, *scheme;
        limber_promise promise;
        int bits;
    } rows[] = {
        { "f64", NULL, LIMBER_CONTRACT_NATIVE, 0 },
        { "f32", NULL, LIMBER_CONTRACT_NATIVE, 0 },
        { "f64", NULL, LIMBER_CONTRACT_BITS, 40 },
        { "f64", "ozaki2", LIMBER_CONTRACT_BITS, 60 },
        { "f64", "ozaki1-i8", LIMBER_CONTRACT_FAST, 0 },
        { "f32", "fp32-b", LIMBER_CONTRACT_FAST, 0 },
        { "f128", NULL, LIMBER_CONTRACT_BITS, 100 },
        { "dd", NULL, LIMBER_CONTRACT_BITS, 90 },
    };

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (size_t i = 0; i < COUNT(rows); i++) {
            int ran = 0;

            for (int j = 0; j < (SANITIZED ? 2 : 6); j++) {
                struct rng r = { 900 + 10 * i + (uint64_t)j };
                struct trial t = random_sizes(&r, j);

                t.fa = t.fb = t.fc = named(rows[i].format);
                t.contract = (limber_contract){ .size = sizeof(limber_contract),
                                                .promise = rows[i].promise,
                                                .bits = rows[i].bits,
                                                .scheme = rows[i].scheme };
                try_one(contexts[c], &r, &t, &ran);
            }
            assert_true(ran > (SANITIZED ? 0 : 3));
        }
}

/* Complex alpha and beta: alpha t + beta c must be the rounded exact sum, where t is the result
 * without scalars. */
static void complex_scalars(void **state)
{
    static const char *const formats[] = { "f64", "f32", "f128" };

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < 48; i += SANITIZED ? 5 : 1) {
            struct rng r = { 2000 + (uint64_t)i };
            struct trial t = random_sizes(&r, i), plain;
            mpfr_t x, all;

            t.fa = t.fb = t.fc = named(formats[i % 3]);
            t.contract.promise = i < 24 ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE;
            t.scalars = i & 8 ? SCALARS_complex : SCALARS_beta;
            make_trial(&r, &t);
            plain = t;
            plain.c = copy_of(t.c0, t.m, t.n);
            plain.alpha = plain.beta = NULL;
            assert_int_equal(run_trial(contexts[c], &plain, NULL), LIMBER_STATUS_OK);
            assert_int_equal(run_trial(contexts[c], &t, NULL), LIMBER_STATUS_OK);
            mpfr_init2(x, REF_BITS);
            mpfr_init2(all, REF_BITS);
            for (int64_t e = 0; e < 2 * t.m * t.n; e++) {
                int64_t row = e / 2 / t.n, col = e / 2 % t.n;
                int im = e & 1;
                const char *ai = t.alpha + t.fc.size, *bi = t.beta + t.fc.size;

                mpfr_set_zero(x, 1);
                mpfr_set_zero(all, 1);
                add_product(x, all, t.fc, t.alpha, t.fc, part_at(plain.c, row, col, im), false);
                add_product(x, all, t.fc, ai, t.fc, part_at(plain.c, row, col, !im), !im);
                add_product(x, all, t.fc, t.beta, t.fc, part_at(t.c0, row, col, im), false);
                add_product(x, all, t.fc, bi, t.fc, part_at(t.c0, row, col, !im), !im);
                if (t.contract.promise == LIMBER_CONTRACT_NATIVE ?
                        ref_error(x, t.fc, part_at(t.c, row, col, im), all) > 6 * roundoff(t.fc) :
                        !ref_rounds_to(x, t.fc, part_at(t.c, row, col, im)))
                    fail_at(&t, "complex scalars", row, col, im);
            }
            check_gaps(&t);
            mpfr_clear(x);
            mpfr_clear(all);
            free(writable(plain.c.data));
            free_trial(&t);
        }
}

/* ---- complex integers ----------------------------------------------------------------------- */

/* Returns an integer of format f. */
static __int128 load_integer(limber_format f, const char *p)
{
    mpfr_t x;
    __int128 v;

    mpfr_init2(x, 64);
    ref_load(x, f, p);
    v = mpfr_get_sj(x, MPFR_RNDZ);
    mpfr_clear(x);
    return v;
}

static unsigned __int128 multiply_128(__int128 x, __int128 y, bool minus)
{
    unsigned __int128 p = (unsigned __int128)x * (unsigned __int128)y;

    return minus ? 0 - p : p;
}

/* Computes the real and imaginary part of an element of alpha A B + beta C modulo 2^128. */
static void integer_element(const struct trial *t, int64_t i, int64_t j, unsigned __int128 out[2])
{
    unsigned __int128 sum[2] = { 0, 0 };
    const limber_format i64 = named("i64");
    __int128 s[4] = { 1, 0, 0, 0 }, c[2];

    for (int64_t p = 0; p < t->k; p++) {
        __int128 ar = load_integer(t->fa, part_at(t->a, i, p, 0)),
                 ai = load_integer(t->fa, part_at(t->a, i, p, 1));
        __int128 br = load_integer(t->fb, part_at(t->b, p, j, 0)),
                 bi = load_integer(t->fb, part_at(t->b, p, j, 1));

        sum[0] += multiply_128(ar, br, false) + multiply_128(ai, bi, t->conj_a == t->conj_b);
        sum[1] += multiply_128(ar, bi, t->conj_b) + multiply_128(ai, br, t->conj_a);
    }
    for (int x = 0; x < 4 && t->alpha; x++)
        s[x] = load_integer(i64, (x < 2 ? t->alpha : t->beta) + 8 * (x & 1));
    for (int x = 0; x < 2; x++)
        c[x] = load_integer(t->fc, part_at(t->c0, i, j, x));
    out[0] = multiply_128(s[0], (__int128)sum[0], false) +
             multiply_128(s[1], (__int128)sum[1], true) + multiply_128(s[2], c[0], false) +
             multiply_128(s[3], c[1], true);
    out[1] = multiply_128(s[0], (__int128)sum[1], false) +
             multiply_128(s[1], (__int128)sum[0], false) + multiply_128(s[2], c[1], false) +
             multiply_128(s[3], c[0], false);
}

/* Returns whether the result's integer format holds v, a two's complement number. */
static bool is_in_range(const struct trial *t, unsigned __int128 v)
{
    int bits = 8 * t->fc.size - 1;
    __int128 x = (__int128)v;

    return x >= -((__int128)1 << bits) && x < (__int128)1 << bits;
}

/* Checks that a result is exact, and that the status is RANGE exactly if a real or imaginary part
 * does not fit C's format. */
static void check_integers(const struct trial *t, limber_status s)
{
    size_t bytes = (size_t)(4 * (t->m + GAP) * (t->n + GAP)) * t->fc.size;
    bool all_fit = true;

    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++) {
            unsigned __int128 want[2];

            integer_element(t, i, j, want);
            for (int x = 0; x < 2; x++) {
                all_fit = all_fit && is_in_range(t, want[x]);
                if (s == LIMBER_STATUS_OK && memcmp(&want[x], part_at(t->c, i, j, x), t->fc.size))
                    fail_at(t, "not exact", i, j, x);
            }
        }
    if (t->contract.promise == LIMBER_CONTRACT_EXACT)
        assert_int_equal(s == LIMBER_STATUS_OK, all_fit);
    if (s != LIMBER_STATUS_OK)
        assert_memory_equal(t->c.data, t->c0.data, bytes);
    else
        check_gaps(t);
}

/* Complex products of integers are exact, or refused if a result does not fit. */
static void integers_are_exact(void **state)
{
    static const char *const in[] = { "i8", "i16", "i32", "u8" }, *const out[] = { "i16", "i32",
                                                                                   "i64" };
    int ran = 0, out_of_range = 0;

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < 96; i += SANITIZED ? 5 : 1) {
            struct rng r = { 3000 + (uint64_t)i };
            struct trial t = random_sizes(&r, i);
            limber_status s;

            t.fa = named(in[rng_below(&r, 4)]);
            t.fb = named(in[rng_below(&r, 4)]);
            t.fc = named(out[rng_below(&r, 3)]);
            t.contract.promise = i & 4 ? LIMBER_CONTRACT_EXACT : LIMBER_CONTRACT_NATIVE;
            t.products = i & 8 ? 3 : 4;
            t.scalars = rng_below(&r, SCALARS_count);
            t.data = rng_below(&r, 3) ? DATA_bytes : DATA_unit;
            make_trial(&r, &t);
            s = run_trial(contexts[c], &t, NULL);
            ran += s == LIMBER_STATUS_OK;
            out_of_range += s == LIMBER_STATUS_RANGE;
            if (s == LIMBER_STATUS_OK || s == LIMBER_STATUS_RANGE)
                check_integers(&t, s);
            else
                fail_msg("%s", limber_error_text());
            free_trial(&t);
        }
    assert_true(ran > (SANITIZED ? 6 : 30) * context_count &&
                out_of_range > (SANITIZED ? 0 : 2) * context_count);
}

/* Operands are the smallest integers of their format, whose negatives the format lacks. */
static void least_integers(void **state)
{
    static const char *const in[] = { "i8", "i16", "i32", "i64" };

    (void)state;
    for (int i = 0; i < 32; i++) {
        struct rng r = { 1 };
        struct trial t = {
            .m = 2, .n = 3, .k = 2, .conj_a = i & 1, .conj_b = i >> 1 & 1, .products = i & 4 ? 3 : 4
        };
        limber_status s;

        t.fa = t.fb = named(in[i / 8]);
        t.fc = named("i64");
        t.contract.promise = i / 8 == 3 ? LIMBER_CONTRACT_NATIVE : LIMBER_CONTRACT_EXACT;
        make_trial(&r, &t);
        for (int64_t e = 1; e <= 4 * 6 * 2; e++)
            for (int x = 0; x < 2; x++) {
                char *p = (char *)(x ? t.a : t.b).data;

                memset(p + (e - 1) * t.fa.size, 0, t.fa.size);
                p[e * t.fa.size - 1] = x ? (char)0x80 : e % 3 ? (char)0x80 : 0x40;
            }
        s = run_trial(contexts[0], &t, NULL);
        if (t.fa.size == 4 && s == LIMBER_STATUS_NO_SCHEME && t.products == 3) {
            free_trial(&t);
            continue;
        }
        check_integers(&t, s);
        free_trial(&t);
    }
}

/* ---- special values, three products, arguments ---------------------------------------------- */

/* Complex infinities follow the textbook formula for products: (Inf + 0i) (0 + 1i) is NaN + Inf
 * i. */
static void specials_follow_the_formula(void **state)
{
    const limber_contract contracts[] = {
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
        { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT }
    };
    const limber_format f64 = named("f64");

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < 2; i++) {
            double a[2] = { INFINITY, 0 }, b[2] = { 0, 1 }, out[2] = { 0, 0 };
            double alpha[2] = { 1, 1 }, one[2] = { 1, 2 };
            limber_matrix x = { a, f64, 1, 1 }, y = { b, f64, 1, 1 }, z = { out, f64, 1, 1 };

            assert_int_equal(gemm_complex(contexts[c], &contracts[i], NULL, 1, 1, 1, NULL, x, 0, y,
                                          0, NULL, output_of(z), NULL, 0),
                             LIMBER_STATUS_OK);
            assert_true(isnan(out[0]) && out[1] == INFINITY);
            y.data = one;
            a[1] = 1;
            assert_int_equal(gemm_complex(contexts[c], &contracts[i], NULL, 1, 1, 1, alpha, x, 0, y,
                                          0, NULL, output_of(z), NULL, 0),
                             LIMBER_STATUS_OK);
            assert_true(isnan(out[0]) && out[1] == INFINITY);
        }
}

/* The method of three real products keeps its error bound, which is relative to the sum over both
 * parts. */
static void three_products_of_floats(void **state)
{
    double worst = 0;

    (void)state;
    for (int i = 0; i < 40; i += SANITIZED ? 3 : 1) {
        struct rng r = { 5000 + (uint64_t)i };
        struct trial t = random_sizes(&r, i);
        limber_report rep = LIMBER_REPORT_INIT;
        mpfr_t x, all, re, im;

        t.k = 1 + rng_below(&r, 60);
        t.fa = t.fb = t.fc = named(i & 4 ? "f32" : "f64");
        t.contract = (limber_contract){ .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_FAST,
                                        .scheme = i & 4 ? "fp32-b" : "ozaki1-i8" };
        t.products = 3;
        make_trial(&r, &t);
        if (run_trial(contexts[context_count - 1], &t, &rep) != LIMBER_STATUS_OK)
            fail_msg("%s", limber_error_text());
        mpfr_inits2(REF_BITS, x, all, re, im, (mpfr_ptr)0);
        for (int64_t e = 0; e < t.m * t.n; e++) {
            exact_part(&t, e / t.n, e % t.n, 0, x, re);
            exact_part(&t, e / t.n, e % t.n, 1, x, im);
            /* the bound is a share of N (docs/accuracy.md, section 11): the sum over both parts */
            mpfr_add(all, re, im, MPFR_RNDN);
            for (int y = 0; y < 2; y++) {
                double error;

                exact_part(&t, e / t.n, e % t.n, y, x, re);
                error = ref_error(x, t.fc, part_at(t.c, e / t.n, e % t.n, y), all);
                if (error > rep.bound)
                    fail_at(&t, "three products: bound exceeded", e / t.n, e % t.n, y);
                worst = fmax(worst, error / rep.bound);
            }
        }
        mpfr_clears(x, all, re, im, (mpfr_ptr)0);
        check_gaps(&t);
        free_trial(&t);
    }
    print_message("three products: largest error / bound %.3g\n", worst);
}

/* Returns one part of an element of a complex matrix times a vector, in the documented order
 * (order 1 of limber.h): two terms for each p, in chains of 256 fused multiply-adds. */
static double stated_sum(const struct trial *t, int64_t i, int imaginary)
{
    const bool single = t->fc.size == 4;
    double sum = 0, chain = 0;

    for (int64_t p = 0; p < 2 * t->k; p++) {
        const char *a = part_at(t->a, i, p / 2, p % 2),
                   *b = part_at(t->b, p / 2, 0, (int)(p % 2) != imaginary);
        const double x = single ? (double)*(const float *)a : *(const double *)a,
                     y = single ? (double)*(const float *)b : *(const double *)b;
        bool minus = p % 2 && t->conj_a;

        if ((p % 2 != 0) != imaginary) /* b's imaginary part */
            minus ^= t->conj_b ^ (p % 2 != 0);
        if (p % 256 == 0)
            chain = 0;
        chain = single ? (double)fmaf((float)x, (float)(minus ? -y : y), (float)chain) :
                         fma(x, minus ? -y : y, chain);
        if (p % 256 == 255 || p == 2 * t->k - 1)
            sum = p < 256 ? chain : single ? (double)((float)sum + (float)chain) : sum + chain;
    }
    return sum;
}

/* Under `reproducible`, products with a vector have the bits of the documented order, in every
 * layout of the matrix; with scalars, all layouts give the same bits. */
static void vectors_keep_the_stated_order(void **state)
{
    static const int64_t rows[] = { 1, 2, 3, 17, 40, 600 },
                         lengths[] = { 1, 2, 127, 128, 129, 300 };

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < (int)(COUNT(rows) * COUNT(lengths)); i += SANITIZED ? 5 : 1)
            for (int layout = 0; layout < 4; layout++) {
                struct rng r = { 7000 + (uint64_t)i };
                struct trial t = random_sizes(&r, i);
                const bool single = i % 3 == 0;
                static double first[2 * 600];

                t.m = rows[i % (int)COUNT(rows)];
                t.n = 1;
                t.k = lengths[i / (int)COUNT(rows)];
                t.fa = t.fb = t.fc = named(single ? "f32" : "f64");
                t.contract = (limber_contract){ .size = sizeof(limber_contract),
                                                .promise = LIMBER_CONTRACT_REPRODUCIBLE };
                t.scalars = i % 2 ? SCALARS_none : SCALARS_complex;
                make_trial(&r, &t);
                free(writable(t.a.data));
                t.a = (limber_matrix){ calloc((size_t)(4 * (t.m + 3) * (t.k + 3)), t.fa.size), t.fa,
                                       layout == 0 ? t.k + 1 :
                                       layout == 3 ? 2 * t.k + 1 :
                                                     1,
                                       layout == 0 ? 1 :
                                       layout == 3 ? 2 :
                                                     t.m + layout };
                for (int64_t e = 0; e < t.m * t.k; e++)
                    fill(&(struct rng){ 1 + (uint64_t)e }, DATA_unit, t.fa,
                         writable(part_at(t.a, e / t.k, e % t.k, 0)), 2);
                if (run_trial(contexts[c], &t, NULL) != LIMBER_STATUS_OK)
                    fail_msg("%s", limber_error_text());
                for (int64_t e = 0; e < 2 * t.m; e++) {
                    const char *got = part_at(t.c, e / 2, 0, (int)(e % 2));
                    const double x = single ? (double)*(const float *)got : *(const double *)got;

                    if (layout == 0)
                        first[e] = x;
                    if (x != first[e] || (!t.alpha && x != stated_sum(&t, e / 2, (int)(e % 2))))
                        fail_at(&t, "another order", e / 2, 0, (int)(e % 2));
                }
                free_trial(&t);
            }
}

/* A product that must be refused with this status and text. */
struct refusal {
    int64_t m;
    limber_contract contract;
    limber_matrix a, c;
    int products;
    limber_status status;
    const char *text;
};

/* Each invalid argument of a complex product is refused with a text that names it. */
static void arguments_are_named(void **state)
{
    const limber_format f64 = named("f64"), i32 = named("i32");
    const limber_contract native = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_NATIVE };
    const limber_contract exact = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_EXACT };
    double x[64] = { 0 }, y[64] = { 0 }, b[64] = { 0 };
    limber_matrix a = { x, f64, 2, 1 }, c = { y, f64, 2, 1 }, none = { NULL, f64, 2, 1 };
    limber_matrix minus = { x, f64, -2, 1 }, inside = { x + 6, f64, 2, 1 };
    limber_matrix after = { x + 8, f64, 2, 1 }, far = { x, f64, INT64_MAX / 2, 1 };
    limber_matrix same = { y, f64, 1, 1 }, whole = { y, i32, 2, 1 };
    const struct refusal rows[] = {
        { 2, native, a, c, 0, LIMBER_STATUS_OK, "" },
        { 2, native, a, after, 0, LIMBER_STATUS_OK, "" },
        { -2, native, a, c, 0, LIMBER_STATUS_BAD_ARGUMENT, "m = -2 is negative" },
        { 2, native, minus, c, 0, LIMBER_STATUS_BAD_ARGUMENT, "a.row_stride = -2 is negative" },
        { 2, native, far, c, 0, LIMBER_STATUS_BAD_ARGUMENT, "exceed the address space" },
        { 2, native, none, c, 0, LIMBER_STATUS_BAD_ARGUMENT, "a.data is NULL" },
        { 2, native, a, none, 0, LIMBER_STATUS_BAD_ARGUMENT, "c.data is NULL" },
        { 2, native, a, inside, 0, LIMBER_STATUS_BAD_ARGUMENT, "c overlaps a" },
        { 2, native, a, same, 0, LIMBER_STATUS_BAD_ARGUMENT, "into the same place" },
        { 2, exact, a, c, 0, LIMBER_STATUS_BAD_ARGUMENT, "exact needs an integer result" },
        { 2, native, a, c, 3, LIMBER_STATUS_NO_SCHEME, "contract.promise fast" },
        { 2, exact, a, whole, 3, LIMBER_STATUS_NO_SCHEME, "must be integers" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct refusal *f = &rows[i];
        limber_status s = gemm_complex(contexts[0], &f->contract, NULL, f->m, 2, 2, NULL, f->a, 0,
                                       (limber_matrix){ b, f64, 2, 1 }, 0, NULL, output_of(f->c),
                                       NULL, f->products);

        if (s != f->status || !strstr(limber_error_text(), s ? f->text : ""))
            fail_msg("\"%s\" in the place of \"%s\"", limber_error_text(), f->text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_is_correct),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(complex_scalars),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(least_integers),
        cmocka_unit_test(specials_follow_the_formula),
        cmocka_unit_test(vectors_keep_the_stated_order),
        cmocka_unit_test(three_products_of_floats),
        cmocka_unit_test(arguments_are_named),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
