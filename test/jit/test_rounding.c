/* SPDX-License-Identifier: BSD-3-Clause
 * Products that are rounded in a direction: every element against MPFR, in all float formats and
 * modes, with scalars, strides, batches, complex numbers and prepared operands, by every scheme and
 * by the interpreter; refused arguments. */
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
#include "limber/ops.h"

enum { MOST = 40, ROOM = 2 * MOST * MOST, LARGE = 150 };

static const limber_rounding modes[] = { LIMBER_ROUND_UP, LIMBER_ROUND_DOWN, LIMBER_ROUND_ZERO,
                                         LIMBER_ROUND_AWAY };
static const char *const names[] = { "up", "down", "zero", "away" };

static limber_context *interp, *best;

static int set_up(void **state)
{
    (void)state;
    interp = group_context(.backend = "interp", .threads = 2);
    best = group_context(.threads = 2, .kernels = LIMBER_KERNELS_BOTH);
    return interp && best ? 0 : -1;
}

static limber_contract rounded(limber_rounding mode)
{
    limber_contract k = LIMBER_CONTRACT_INIT;

    k.promise = LIMBER_CONTRACT_CORRECT;
    k.rounding = mode;
    return k;
}

/* ---- the reference --------------------------------------------------------------------------- */

/* Sets y to x rounded in a direction to a float with these bits and exponents, without a largest
 * number. */
static void round_to(mpfr_t y, const mpfr_t x, limber_format f, mpfr_rnd_t direction)
{
    const mpfr_exp_t least = mpfr_get_emin();
    int inexact;

    mpfr_set_prec(y, limber_format_sig(f));
    mpfr_set_emin(limber_format_quantum(f) + 1);
    inexact = mpfr_set(y, x, direction);
    inexact = mpfr_check_range(y, inexact, direction);
    mpfr_subnormalize(y, inexact, direction);
    mpfr_set_emin(least);
}

/* Sets want to the finite value x, rounded to f.  *beyond: x overflows to infinity. */
static void reference(mpfr_t want, const mpfr_t x, limber_format f, limber_rounding mode,
                      bool *beyond)
{
    mpfr_t low, high, largest, a, b;
    int side;

    mpfr_inits2(200, low, high, largest, (mpfr_ptr)0);
    mpfr_inits2(mpfr_get_prec(x) + 200, a, b, (mpfr_ptr)0);
    round_to(low, x, f, MPFR_RNDD);
    round_to(high, x, f, MPFR_RNDU);
    if (limber_format_equal(f, LIMBER_F128)) {
        mpfr_set_ui_2exp(largest, 1, 16384, MPFR_RNDN);
        mpfr_nextbelow(largest); /* 200 bits; below, at most the largest number of f is compared */
        mpfr_prec_round(largest, 113, MPFR_RNDZ);
    } else {
        limber_format_facts facts = LIMBER_FORMAT_FACTS_INIT;

        assert_int_equal(limber_format_describe(f, &facts), LIMBER_STATUS_OK);
        mpfr_set_d(largest, facts.largest, MPFR_RNDN);
    }
    mpfr_sub(a, x, low, MPFR_RNDN);
    mpfr_sub(b, high, x, MPFR_RNDN);
    side = mpfr_cmp(b, a); /* above 0: low is nearer */
    switch (mode) {
    case LIMBER_ROUND_UP: mpfr_set(want, high, MPFR_RNDN); break;
    case LIMBER_ROUND_DOWN: mpfr_set(want, low, MPFR_RNDN); break;
    case LIMBER_ROUND_ZERO: mpfr_set(want, mpfr_sgn(x) > 0 ? low : high, MPFR_RNDN); break;
    default: mpfr_set(want, side > 0 || (!side && mpfr_sgn(x) < 0) ? low : high, MPFR_RNDN);
    }
    *beyond = mpfr_cmpabs(want, largest) > 0;
    if (mpfr_cmpabs(x, largest) > 0 &&
        (mode == LIMBER_ROUND_ZERO || (mode == LIMBER_ROUND_UP && mpfr_sgn(x) < 0) ||
         (mode == LIMBER_ROUND_DOWN && mpfr_sgn(x) > 0))) {
        mpfr_set(want, largest, MPFR_RNDN);
        mpfr_setsign(want, want, mpfr_sgn(x) < 0, MPFR_RNDN);
        *beyond = false;
    }
    mpfr_clears(low, high, largest, a, b, (mpfr_ptr)0);
}

/* True if *p is x, rounded.  nearest: the same element under `correct`, for the sign of an exact
 * zero.  empty: the sum has no terms. */
static bool is_rounded(const mpfr_t x, limber_format f, limber_rounding mode, const void *p,
                       const void *nearest, bool empty)
{
    const bool minus_zero = !(f.flags & LIMBER_FORMAT_NO_MINUS_ZERO);
    limber_format_facts facts = LIMBER_FORMAT_FACTS_INIT;
    mpfr_t want, got, other;
    bool beyond, same;

    if (!mpfr_number_p(x))
        return same_number(f, p, nearest);
    mpfr_inits2(200, want, got, other, (mpfr_ptr)0);
    ref_load(got, f, p);
    ref_load(other, f, nearest);
    if (mpfr_zero_p(x)) {
        const bool down = mode == LIMBER_ROUND_DOWN && !empty;

        same = mpfr_zero_p(got) &&
               (!minus_zero || !mpfr_signbit(got) == !(down || mpfr_signbit(other)));
        mpfr_clears(want, got, other, (mpfr_ptr)0);
        return same;
    }
    reference(want, x, f, mode, &beyond);
    assert_int_equal(limber_format_describe(f, &facts), LIMBER_STATUS_OK);
    if (!beyond)
        same = mpfr_equal_p(got, want) &&
               (!mpfr_zero_p(want) || !minus_zero || !mpfr_signbit(got) == (mpfr_sgn(x) > 0));
    else if (facts.has_infinity)
        same = mpfr_inf_p(got) && mpfr_sgn(got) == mpfr_sgn(x);
    else if (f.flags & (LIMBER_FORMAT_FINITE | LIMBER_FORMAT_SATURATE))
        same = mpfr_get_d(got, MPFR_RNDN) == copysign(facts.largest, mpfr_sgn(x));
    else
        same = mpfr_nan_p(got);
    mpfr_clears(want, got, other, (mpfr_ptr)0);
    return same;
}

/* ---- products -------------------------------------------------------------------------------- */

struct product {
    int m, n, k;
    limber_format f[3];
    char data[3][ROOM * 16];
    limber_matrix at[3];
    char alpha[16], beta[16];
    bool has_alpha, has_beta;
};

static void make_matrix(struct product *x, struct rng *r, int which, int rows, int cols)
{
    limber_matrix *at = &x->at[which];
    const int layout = rng_below(r, rows * cols * 2 <= MOST * MOST ? 3 : 2);

    *at = (limber_matrix){ x->data[which], x->f[which],
                           layout == 0 ? cols :
                           layout == 1 ? 1 :
                                         2 * cols,
                           layout == 0 ? 1 :
                           layout == 1 ? rows :
                                         2 };
    fill(r, rng_below(r, 2) ? DATA_unit : (enum data)rng_below(r, DATA_count), x->f[which],
         x->data[which], ROOM);
}

static void multiply(limber_context *ctx, const struct product *x, limber_rounding mode,
                     const char *scheme, char *c)
{
    limber_contract k = rounded(mode);

    k.scheme = scheme;
    memcpy(c, x->data[2], sizeof x->data[2]);
    if (limber_gemm(ctx, &k, x->m, x->n, x->k, x->has_alpha ? x->alpha : NULL, x->at[0], x->at[1],
                    x->has_beta ? x->beta : NULL,
                    (limber_output){ c, x->f[2], x->at[2].row_stride, x->at[2].col_stride }, NULL))
        fail_msg("%s", limber_error_text());
}

static const char *element(const limber_matrix *at, const char *data, int i, int j)
{
    return data + (i * at->row_stride + j * at->col_stride) * at->format.size;
}

/* Sets `sum` to the exact element (i, j). */
static void exact_element(const struct product *x, int i, int j, mpfr_t sum)
{
    mpfr_t absolute, y, z;

    mpfr_inits2(mpfr_get_prec(sum), absolute, y, z, (mpfr_ptr)0);
    ref_dot(sum, absolute, x->f[0], element(&x->at[0], x->data[0], i, 0), x->at[0].col_stride,
            x->f[1], element(&x->at[1], x->data[1], 0, j), x->at[1].row_stride, x->k);
    if (x->has_alpha) {
        ref_load(y, x->f[2], x->alpha);
        mpfr_mul(sum, sum, y, MPFR_RNDN);
    }
    if (x->has_beta) {
        ref_load(y, x->f[2], x->beta);
        ref_load(z, x->f[2], element(&x->at[2], x->data[2], i, j));
        mpfr_mul(y, y, z, MPFR_RNDN);
        mpfr_add(sum, sum, y, MPFR_RNDN);
    }
    mpfr_clears(absolute, y, z, (mpfr_ptr)0);
}

/* Checks every element of a product in every mode, and that the interpreter has the same bits. */
static void check_product(const struct product *x, const char *scheme)
{
    static char c[4][sizeof x->data[2]], nearest[sizeof x->data[2]], again[sizeof x->data[2]];
    const bool wide = x->f[0].size == 16 || x->f[1].size == 16 || x->f[2].size == 16;
    mpfr_t sum;

    multiply(best, x, LIMBER_ROUND_NEAREST, NULL, nearest);
    for (int mode = 0; mode < 4; mode++) {
        multiply(best, x, modes[mode], scheme, c[mode]);
        multiply(interp, x, modes[mode], scheme, again);
        assert_memory_equal(c[mode], again, sizeof again);
    }
    mpfr_init2(sum, wide ? REF_BITS : 12000);
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < x->n; j++) {
            exact_element(x, i, j, sum);
            for (int mode = 0; mode < 4; mode++) {
                char a[32], b[32], f[32];

                if (is_rounded(sum, x->f[2], modes[mode], element(&x->at[2], c[mode], i, j),
                               element(&x->at[2], nearest, i, j), x->k == 0 && !x->has_beta))
                    continue;
                fail_msg("%d x %d x %d, %s x %s -> %s, %s, element %d, %d is %a, not %a (%s)", x->m,
                         x->n, x->k, limber_format_name(x->f[0], a, sizeof a),
                         limber_format_name(x->f[1], b, sizeof b),
                         limber_format_name(x->f[2], f, sizeof f), scheme ? scheme : "any scheme",
                         i, j, limber_format_value(x->f[2], element(&x->at[2], c[mode], i, j)),
                         mpfr_get_d(sum, MPFR_RNDN), names[mode]);
            }
        }
    mpfr_clear(sum);
}

static void make_product(struct product *x, struct rng *r)
{
    static const char *const scalars[] = { "1", "-1", "0.75", "-3", "0x1p-20" };

    make_matrix(x, r, 0, x->m, x->k);
    make_matrix(x, r, 1, x->k, x->n);
    make_matrix(x, r, 2, x->m, x->n);
    x->has_alpha = rng_below(r, 3) == 0;
    x->has_beta = rng_below(r, 3) == 0;
    store_scalar(x->alpha, x->f[2], strtod(scalars[rng_below(r, COUNT(scalars))], NULL));
    store_scalar(x->beta, x->f[2], strtod(scalars[rng_below(r, COUNT(scalars))], NULL));
    x->has_beta = x->has_beta && limber_format_value(x->f[2], x->beta) != 0;
}

/* All float formats of results and all modes, with operands of many formats, sizes and data. */
static void elements_are_rounded_once(void **state)
{
    static const char *const operands[] = { "f64", "f64", "f32", "f16",  "bf16",   "e4m3",
                                            "i8",  "i32", "dd",  "f128", "posit16" };
    static const char *const results[] = { "f64",       "f32",      "f16",  "bf16",    "tf32",
                                           "e4m3",      "e5m2",     "e3m2", "e2m3",    "e2m1",
                                           "e4m3fnuz",  "e5m2fnuz", "f128", "(1,6,9)", "(1,11,51)",
                                           "(1,11,52)", "(1,8,22)" };
    static struct product x;
    struct rng r = { 11 };

    (void)state;
    for (int trial = 0; trial < (BRIEF ? 100 : 500); trial++) {
        const int most = trial % 16 == 0 ? MOST : 9;

        x.m = rng_below(&r, most + 1);
        x.n = rng_below(&r, most + 1);
        x.k = rng_below(&r, 8) ? rng_below(&r, 2 * most) % (MOST + 1) : 0;
        x.f[0] = named(operands[rng_below(&r, COUNT(operands))]);
        x.f[1] = rng_below(&r, 2) ? x.f[0] : named(operands[rng_below(&r, COUNT(operands))]);
        x.f[2] = named(results[trial % (int)COUNT(results)]);
        if (trial % 3 == 0)
            x.f[0] = x.f[1] = x.f[2] = trial % 2 ? LIMBER_F32 : LIMBER_F64;
        make_product(&x, &r);
        check_product(&x, NULL);
    }
}

/* Every size from 1 to 40. */
static void all_sizes_are_right(void **state)
{
    static struct product x;
    struct rng r = { 5 };

    (void)state;
    for (int n = 1; n <= MOST; n += BRIEF ? 7 : 1) {
        x.m = rng_below(&r, 4) + 1;
        x.n = n;
        x.k = MOST + 1 - n;
        x.f[0] = x.f[1] = x.f[2] = n % 2 ? LIMBER_F64 : LIMBER_F32;
        make_product(&x, &r);
        check_product(&x, NULL);
    }
}

/* Every scheme that keeps `correct`. */
static void schemes_agree(void **state)
{
    static const char *const schemes[] = { "ozaki1-i8",   "ozaki2",     "accumulator", "ozaki1-f64",
                                           "ozaki1-bf16", "ozaki1-f16", "ozaki2-i16" };
    static struct product x;
    struct rng r = { 23 };

    (void)state;
    for (int trial = 0; trial < (BRIEF ? 7 : 42); trial++) {
        const char *scheme = schemes[trial % (int)COUNT(schemes)];
        limber_contract k = rounded(LIMBER_ROUND_UP);

        x.m = 3 + rng_below(&r, 10);
        x.n = 3 + rng_below(&r, 30);
        x.k = 1 + rng_below(&r, MOST);
        x.f[0] = x.f[1] = x.f[2] = LIMBER_F64;
        make_product(&x, &r);
        k.scheme = scheme;
        if (limber_gemm(best, &k, x.m, x.n, x.k, NULL, x.at[0], x.at[1], NULL, output_of(x.at[2]),
                        NULL) == LIMBER_STATUS_OK)
            check_product(&x, scheme);
    }
}

/* ---- larger products ------------------------------------------------------------------------- */

/* Kinds of large data. */
enum { RANDOM, CANCELLING, ORTHOGONAL, IDENTITY, INTEGERS, WIDE, KINDS };

/* Fills square matrices a and b of n rows. */
static void fill_large(struct rng *r, int kind, int n, double *a, double *b)
{
    for (int i = 0; i < n * n; i++) {
        a[i] = rng_unit(r) - 0.5;
        b[i] = rng_unit(r) - 0.5;
        if (kind == INTEGERS) {
            a[i] = floor(a[i] * 1000);
            b[i] = floor(b[i] * 1000);
        } else if (kind == WIDE) {
            a[i] = ldexp(a[i], rng_below(r, 50));
            b[i] = ldexp(b[i], rng_below(r, 50));
        }
    }
    if (kind == IDENTITY)
        for (int i = 0; i < n * n; i++)
            b[i] = i / n == i % n;
    if (kind == CANCELLING)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n / 2; j++) {
                a[i * n + j + n / 2] = nextafter(a[i * n + j], j % 3 - 1);
                b[(j + n / 2) * n + i] = -b[j * n + i];
            }
    if (kind == ORTHOGONAL) /* a reflection, and its transpose */
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                a[i * n + j] = (i == j) - 2.0 * sin(i + 1) * sin(j + 1) / (n / 2.0);
                b[j * n + i] = a[i * n + j];
            }
}

/* Random, cancelling and exact sums of doubles and floats: bounds are neighbours around the nearest
 * number or equal to it, sampled elements are what MPFR gives, and threads, memory limits and
 * batches change nothing. */
static void large_products_are_right(void **state)
{
    static double a[LARGE * LARGE], b[LARGE * LARGE], c[3][LARGE * LARGE], again[LARGE * LARGE];
    static float fa[LARGE * LARGE], fb[LARGE * LARGE], fc[3][LARGE * LARGE];
    limber_context *tight = group_context(.threads = 1, .workspace_bytes = 1 << 16);
    const int n = BRIEF ? 70 : LARGE;
    struct rng r = { 77 };
    mpfr_t sum, absolute;

    (void)state;
    mpfr_inits2(12000, sum, absolute, (mpfr_ptr)0);
    for (int kind = 0; kind < KINDS; kind++) {
        const limber_matrix ma = { a, LIMBER_F64, n, 1 }, mb = { b, LIMBER_F64, n, 1 };
        limber_contract k = rounded(LIMBER_ROUND_NEAREST);

        fill_large(&r, kind, n, a, b);
        for (int i = 0; i < n * n; i++)
            fa[i] = (float)a[i], fb[i] = (float)b[i];
        for (int mode = 0; mode < 3; mode++) {
            k.rounding = mode ? modes[mode - 1] : LIMBER_ROUND_NEAREST;
            assert_int_equal(limber_gemm(best, &k, n, n, n, NULL, ma, mb, NULL,
                                         (limber_output){ c[mode], LIMBER_F64, n, 1 }, NULL),
                             LIMBER_STATUS_OK);
            assert_int_equal(limber_gemm(best, &k, n, n, n, NULL,
                                         (limber_matrix){ fa, LIMBER_F32, n, 1 },
                                         (limber_matrix){ fb, LIMBER_F32, n, 1 }, NULL,
                                         (limber_output){ fc[mode], LIMBER_F32, n, 1 }, NULL),
                             LIMBER_STATUS_OK);
            assert_int_equal(limber_gemm(tight, &k, n, n, n, NULL, ma, mb, NULL,
                                         (limber_output){ again, LIMBER_F64, n, 1 }, NULL),
                             LIMBER_STATUS_OK);
            assert_memory_equal(again, c[mode], sizeof *c[mode] * (size_t)(n * n));
        }
        for (int i = 0; i < n * n; i++) {
            const double down = c[2][i], up = c[1][i], near = c[0][i];

            assert_true(down == up ?
                            near == up :
                            nextafter(down, INFINITY) == up && (near == down || near == up));
            assert_true(fc[2][i] == fc[1][i] ? fc[0][i] == fc[1][i] :
                                               nextafterf(fc[2][i], INFINITY) == fc[1][i] &&
                                                   (fc[0][i] == fc[1][i] || fc[0][i] == fc[2][i]));
        }
        for (int each = 0; each < 60; each++) {
            const int i = rng_below(&r, n), j = rng_below(&r, n), at = i * n + j;

            ref_dot(sum, absolute, LIMBER_F64, a + i * n, 1, LIMBER_F64, b + j, n, n);
            for (int mode = 0; mode < 2; mode++)
                assert_true(
                    is_rounded(sum, LIMBER_F64, modes[mode], &c[mode + 1][at], &c[0][at], false));
            ref_dot(sum, absolute, LIMBER_F32, fa + i * n, 1, LIMBER_F32, fb + j, n, n);
            for (int mode = 0; mode < 2; mode++)
                assert_true(
                    is_rounded(sum, LIMBER_F32, modes[mode], &fc[mode + 1][at], &fc[0][at], false));
        }
    }
    mpfr_clears(sum, absolute, (mpfr_ptr)0);
}

/* Underflow, overflow, infinities, NaN and zeros. */
static void ends_are_right(void **state)
{
    static const double a[] = { 0x1p-600, 0x1p700, -0x1p-1074, INFINITY, 0, -0.0, NAN, 3, 1 };
    static const struct {
        limber_rounding mode;
        double want[9][3]; /* [element of a][times 2^-600, 2^600, -0x1p-540] */
    } wanted[] = { { LIMBER_ROUND_UP,
                     { { 0x1p-1074, 1, -0.0 },
                       { 0x1p100, INFINITY, -0x1p160 },
                       { -0.0, -0x1p-474, 0x1p-1074 },
                       { INFINITY, INFINITY, -INFINITY },
                       { 0, 0, 0 },
                       { 0, 0, 0 },
                       { NAN, NAN, NAN },
                       { 0x1.8p-599, 0x1.8p601, -0x1.8p-539 },
                       { 0x1p-600, 0x1p600, -0x1p-540 } } },
                   { LIMBER_ROUND_DOWN,
                     { { 0, 1, -0x1p-1074 },
                       { 0x1p100, 0x1.fffffffffffffp+1023, -0x1p160 },
                       { -0x1p-1074, -0x1p-474, 0 },
                       { INFINITY, INFINITY, -INFINITY },
                       { -0.0, -0.0, -0.0 },
                       { -0.0, -0.0, -0.0 },
                       { NAN, NAN, NAN },
                       { 0x1.8p-599, 0x1.8p601, -0x1.8p-539 },
                       { 0x1p-600, 0x1p600, -0x1p-540 } } } };
    static const double b[] = { 0x1p-600, 0x1p600, -0x1p-540 };

    (void)state;
    for (size_t w = 0; w < COUNT(wanted); w++)
        for (int with = 0; with < 2; with++) {
            const limber_contract k = rounded(wanted[w].mode);
            double c[9][3];

            assert_int_equal(limber_gemm(with ? best : interp, &k, 9, 3, 1, NULL,
                                         (limber_matrix){ a, LIMBER_F64, 1, 1 },
                                         (limber_matrix){ b, LIMBER_F64, 3, 1 }, NULL,
                                         (limber_output){ c, LIMBER_F64, 3, 1 }, NULL),
                             LIMBER_STATUS_OK);
            assert_same_numbers(LIMBER_F64, wanted[w].want, c, 27, "mode %d", wanted[w].mode);
        }
}

/* ---- other forms of products ----------------------------------------------------------------- */

/* Batches, prepared operands and parts of complex products have the bits of single products. */
static void forms_agree(void **state)
{
    enum { GROUPS = 3, N = 12 };
    static double a[GROUPS][N * N], b[N * N], c[GROUPS][N * N], one[N * N], pairs[2 * N * N];
    static double re[N * 2 * N], im[2 * N * N];
    const limber_matrix mb = { b, LIMBER_F64, N, 1 };
    const void *listed[GROUPS] = { a[2], a[0], a[1] };
    limber_batch batch = LIMBER_BATCH_INIT;
    struct rng r = { 9 };

    (void)state;
    fill(&r, DATA_unit, LIMBER_F64, a, GROUPS * N * N);
    fill(&r, DATA_unit, LIMBER_F64, b, N * N);
    batch.count = GROUPS;
    batch.c = N * N;
    batch.address_a = listed;
    for (int mode = 0; mode < 4; mode++) {
        const limber_contract k = rounded(modes[mode]);
        limber_prepared *prepared = NULL;
        limber_problem p;

        p = gemm_problem(&k, N, N, N, NULL, (limber_matrix){ a, LIMBER_F64, N, 1 }, mb, NULL,
                         (limber_output){ c, LIMBER_F64, N, 1 });
        p.batch = &batch;
        assert_int_equal(limber_run(best, &p, NULL), LIMBER_STATUS_OK);
        assert_int_equal(limber_prepare(best, mb, N, N, LIMBER_SIDE_B, NULL, &prepared),
                         LIMBER_STATUS_OK);
        for (int g = 0; g < GROUPS; g++) {
            p = gemm_problem(&k, N, N, N, NULL, (limber_matrix){ listed[g], LIMBER_F64, N, 1 }, mb,
                             NULL, (limber_output){ one, LIMBER_F64, N, 1 });
            p.prepared_b = g ? prepared : NULL;
            assert_int_equal(limber_run(best, &p, NULL), LIMBER_STATUS_OK);
            assert_memory_equal(one, c[g], sizeof one);
        }
        limber_prepared_free(prepared);
        /* complex: A = a0 + a1 i (N x N/2 pairs in a[0]), conj(B) with pairs in b */
        p = gemm_problem(&k, N, N / 2, N / 2, NULL, (limber_matrix){ a[0], LIMBER_F64, N / 2, 1 },
                         (limber_matrix){ b, LIMBER_F64, N / 2, 1 }, NULL,
                         (limber_output){ pairs, LIMBER_F64, N / 2, 1 });
        p.domain = LIMBER_DOMAIN_COMPLEX;
        p.conjugate = LIMBER_CONJUGATE_B;
        assert_int_equal(limber_run(best, &p, NULL), LIMBER_STATUS_OK);
        for (int i = 0; i < N; i++) /* [Re, Im] times [Re; Im] is the real part of a conj(b) */
            memcpy(re + i * N, a[0] + i * N, N * sizeof *re);
        for (int l = 0; l < N / 2; l++)
            for (int j = 0; j < N / 2; j++) {
                im[2 * l * N / 2 + j] = b[2 * (l * N / 2 + j)];
                im[(2 * l + 1) * N / 2 + j] = b[2 * (l * N / 2 + j) + 1];
            }
        assert_int_equal(limber_gemm(best, &k, N, N / 2, N, NULL,
                                     (limber_matrix){ re, LIMBER_F64, N, 1 },
                                     (limber_matrix){ im, LIMBER_F64, N / 2, 1 }, NULL,
                                     (limber_output){ one, LIMBER_F64, N / 2, 1 }, NULL),
                         LIMBER_STATUS_OK);
        for (int i = 0; i < N * N / 2; i++)
            assert_true(one[i] == pairs[2 * i]);
    }
}

/* Calls that plan and describe, and functions with a fixed contract, accept the rounding. */
static void other_calls_accept_it(void **state)
{
    const limber_contract k = rounded(LIMBER_ROUND_DOWN);
    double a[4] = { 1, 0x1p-60, 3, 4 }, b[4] = { 1, 0, 1, 1 }, c[4];
    limber_problem p = gemm_problem(&k, 2, 2, 2, NULL, (limber_matrix){ a, LIMBER_F64, 2, 1 },
                                    (limber_matrix){ b, LIMBER_F64, 2, 1 }, NULL,
                                    (limber_output){ c, LIMBER_F64, 2, 1 });
    void (*function)(void) = NULL;
    size_t least, most;
    char *text = NULL;

    (void)state;
    assert_int_equal(limber_plan(best, &p, &text, NULL), LIMBER_STATUS_OK);
    assert_non_null(strstr(text, "sided64"));
    limber_free(text);
    assert_int_equal(limber_workspace(best, &p, &least, &most), LIMBER_STATUS_OK);
    assert_int_equal(limber_bind(best, &k, LIMBER_F64, LIMBER_F64, LIMBER_F64,
                                 "m:i32 n:i32 k:i32 a:ptr lda:i32 b:ptr ldb:i32 c:ptr ldc:i32",
                                 &function),
                     LIMBER_STATUS_OK);
    ((void (*)(int, int, int, const double *, int, const double *, int, double *, int))function)(
        1, 1, 2, a, 1, b + 2, 2, c, 1);
    assert_true(c[0] == 1); /* 1 + 2^-60 */
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void bad_arguments_are_named(void **state)
{
    double a[4] = { 1, 2, 3, 4 }, c[8] = { 7, 7, 7, 7, 7, 7, 7, 7 }, pair[2] = { 1, 1 };
    const limber_matrix m = { a, LIMBER_F64, 2, 1 };
    const limber_output o = { c, LIMBER_F64, 2, 1 };
    limber_epilogue epilogue = LIMBER_EPILOGUE_INIT;
    limber_queue queue = LIMBER_QUEUE_INIT;
    limber_contract k = rounded(LIMBER_ROUND_UP);
    limber_problem p = gemm_problem(&k, 2, 2, 2, NULL, m, m, NULL, o);

    (void)state;
    for (int mode = -1; mode <= LIMBER_ROUND_STOCHASTIC; mode++) {
        if (mode >= 0 && mode <= LIMBER_ROUND_AWAY)
            continue;
        k.rounding = (limber_rounding)mode;
        assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    }
    k = rounded(LIMBER_ROUND_UP);
    for (int promise = 0; promise <= LIMBER_CONTRACT_REPRODUCIBLE; promise++) {
        k.promise = (limber_promise)promise;
        k.bits = 30;
        k.scheme = promise == LIMBER_CONTRACT_FAST ? "ozaki2" : NULL;
        if (promise == LIMBER_CONTRACT_CORRECT || promise == LIMBER_CONTRACT_SIMULATE)
            continue;
        p.c.format = promise == LIMBER_CONTRACT_EXACT ? LIMBER_I64 : LIMBER_F64;
        assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    }
    k = rounded(LIMBER_ROUND_UP);
    p.c.format = LIMBER_I64;
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    p.c.format = named("posit32");
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    p.c.format = LIMBER_DD;
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    p.c.format = (limber_format){
        .kind = LIMBER_KIND_POWER + 1, .exp_bits = 11, .frac_bits = 52, .bias = 1023, .size = 16
    };
    k.rounding = LIMBER_ROUND_NEAREST;
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "c: format");
    k.promise = LIMBER_CONTRACT_EXACT;
    k.modulus = 7;
    k.rounding = LIMBER_ROUND_UP;
    p.c.format = LIMBER_I64;
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    k = rounded(LIMBER_ROUND_UP);
    p.c.format = LIMBER_F64;
    p.epilogue = &epilogue;
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    p.epilogue = NULL;
    p.queue = &queue;
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    p.queue = NULL;
    p.domain = LIMBER_DOMAIN_COMPLEX;
    p.alpha = pair;
    p.m = p.n = p.k = 1;
    assert_refused(limber_run(best, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.rounding");
    for (size_t i = 0; i < COUNT(c); i++)
        assert_true(c[i] == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_rounded_once),
        cmocka_unit_test(all_sizes_are_right),
        cmocka_unit_test(schemes_agree),
        cmocka_unit_test(large_products_are_right),
        cmocka_unit_test(ends_are_right),
        cmocka_unit_test(forms_agree),
        cmocka_unit_test(other_calls_accept_it),
        cmocka_unit_test(bad_arguments_are_named),
    };

    return cmocka_run_group_tests_name("rounding", tests, set_up, destroy_group_contexts);
}
