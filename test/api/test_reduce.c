/* SPDX-License-Identifier: BSD-3-Clause
 * Tests of limber_reduce: exact sums against MPFR, sums that are carried in a format against loops
 * written here, independence of threads and shapes, and refusals. */
#include "contexts.h"
#include "support.h"

#include "jit/api/api.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXTS = 4, WIDE = 4400, MOST = 1 << 17 };

static limber_context *context[CONTEXTS]; /* the first is NULL, which limber_reduce accepts */
static unsigned char *src, *dst, *want;

/* cmocka set-up: creates contexts of the interpreter, of compiled kernels in one thread and in
 * three, and the arrays. */
static int set_up(void **state)
{
    (void)state;
    for (int i = 1; i < CONTEXTS; i++) {
        limber_config config = LIMBER_CONFIG_INIT;

        config.cache_dir = "";
        config.backend = i == 1 ? "interp" : NULL;
        config.threads = i == 3 ? 3 : 1;
        if (limber_create(&context[i], &config))
            return -1;
    }
    src = malloc(8 * MOST);
    dst = malloc(8 * MOST + 8);
    want = malloc(8 * MOST);
    return !src || !dst || !want;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 1; i < CONTEXTS; i++)
        limber_destroy(context[i]);
    free(src);
    free(dst);
    free(want);
    return 0;
}

/* Returns the number of results of a call. */
static size_t result_count(const limber_reduce_call *r)
{
    return r->outer * r->inner * (r->reduction >= LIMBER_REDUCTION_SOFTMAX ? r->count : 1);
}

/* Passes the same lines as separate arrays, in reverse order in memory and with padding between
 * them. */
static void use_separate_arrays(limber_reduce_call *r, const void **arrays, unsigned char *room)
{
    size_t bytes = r->inner * r->from.size;

    for (size_t i = 0; i < r->count; i++) {
        arrays[i] = room + (r->count - 1 - i) * (bytes + 3);
        memcpy((void *)(uintptr_t)arrays[i], src + i * bytes, bytes);
    }
    r->arrays = arrays;
    r->src = NULL;
}

static void expect_want_in_contexts(limber_reduce_call r);

/* Checks that every context stores `want`, for lines in one array and in separate arrays. */
static void expect_want(limber_reduce_call r)
{
    r.src = src;
    expect_want_in_contexts(r);
    if (r.outer == 1) {
        const void **arrays = malloc((r.count + 1) * sizeof *arrays);
        unsigned char *room = malloc(r.count * (r.inner * r.from.size + 3) + 1);

        assert_true(arrays && room);
        use_separate_arrays(&r, arrays, room);
        expect_want_in_contexts(r);
        free(arrays);
        free(room);
    }
}

/* Checks that the call stores the bytes of `want` in every context, and nothing past them. */
static void expect_want_in_contexts(limber_reduce_call r)
{
    char text[32];

    r.dst = dst;
    for (int c = 0; c < CONTEXTS; c++) {
        memset(dst, 0xa5, result_count(&r) * r.to.size + 8);
        if (limber_reduce(context[c], &r))
            fail_msg("%s", limber_error_text());
        for (size_t i = 0; i < result_count(&r); i++)
            if (memcmp(want + i * r.to.size, dst + i * r.to.size, r.to.size))
                fail_msg("reduction %d, carry %d, %s, [%zu][%zu][%zu], context %d, result %zu",
                         (int)r.reduction, (int)r.carry,
                         limber_format_name(r.from, text, sizeof text), r.outer, r.count, r.inner,
                         c, i);
        for (int i = 0; i < 8; i++)
            assert_int_equal(dst[result_count(&r) * r.to.size + (size_t)i], 0xa5);
    }
}

static double element(const limber_reduce_call *r, size_t o, size_t i, size_t j)
{
    return limber_format_value(r->from, src + ((o * r->count + i) * r->inner + j) * r->from.size);
}

/* Draws formats, shape and data of a reduction. */
static void choose_shape_and_data(struct rng *r, limber_reduce_call *call)
{
    static const char *const formats[] = { "f16", "bf16", "e4m3", "e5m2", "f32", "f64", "(1,4,9)" };

    call->from = named(formats[rng_below(r, 7)]);
    call->to = named(formats[rng_below(r, 7)]);
    call->outer = 1 + (size_t)rng_below(r, 5);
    call->inner = rng_below(r, 2) ? 1 : 1 + (size_t)rng_below(r, 70);
    call->count = 1 + (size_t)rng_below(r, rng_below(r, 3) ? 40 : 300);
    fill(r, (enum data)rng_below(r, DATA_count), call->from, src,
         call->outer * call->count * call->inner);
}

/* ---- sums that are rounded once -------------------------------------------------------------- */

static mpfr_t sum, x;

/* Rounds MPFR's x to odd in double, and then to the format.  Rounding to odd keeps the second
 * rounding correct. */
static void store(limber_format f, limber_rounding mode, void *to)
{
    double d = mpfr_get_d(x, MPFR_RNDZ);
    uint64_t bits;

    if (mpfr_number_p(x) && mpfr_cmp_d(x, d)) {
        memcpy(&bits, &d, sizeof bits);
        bits |= 1;
        memcpy(&d, &bits, sizeof d);
        d = d == 0 ? copysign(0x1p-1074, mpfr_sgn(x)) : d;
    }
    limber_convert(to, f, &d, LIMBER_F64, 1, mode);
}

/* Sums and means without a carry format are the exact value, rounded once in any mode. */
static void test_exact(void **state)
{
    struct rng r = { 1 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 60 : 400); trial++) {
        limber_reduce_call call = LIMBER_REDUCE_INIT;

        choose_shape_and_data(&r, &call);
        call.reduction = trial % 2 ? LIMBER_REDUCTION_MEAN : LIMBER_REDUCTION_SUM;
        call.rounding = (limber_rounding)rng_below(&r, LIMBER_ROUND_ODD + 1);
        /* rounding to odd in double is not exact for results in f64 */
        if (limber_format_equal(call.to, LIMBER_F64))
            call.rounding = LIMBER_ROUND_ODD;
        for (size_t o = 0; o < call.outer; o++)
            for (size_t j = 0; j < call.inner; j++) {
                mpfr_set_zero(sum, 1);
                for (size_t i = 0; i < call.count; i++)
                    mpfr_add_d(sum, sum, element(&call, o, i, j), MPFR_RNDN);
                mpfr_div_ui(x, sum, trial % 2 ? call.count : 1, MPFR_RNDN);
                if (mpfr_zero_p(x))
                    mpfr_set_zero(x, 1);
                store(call.to, call.rounding, want + (o * call.inner + j) * call.to.size);
            }
        expect_want(call);
    }
}

/* Sums terms that cancel over the whole range of exponents. */
static void test_cancelling(void **state)
{
    static const double terms[] = {
        1e308, 1, -1e308, 0x1p-1074, -1, 3e-300, 1e16, 1, -1e16, -3e-300
    };
    limber_reduce_call call = LIMBER_REDUCE_INIT;

    (void)state;
    memcpy(src, terms, sizeof terms);
    call.from = call.to = LIMBER_F64;
    call.outer = call.inner = 1;
    call.count = 10;
    *(double *)(void *)want = 1;
    expect_want(call);
    call.rounding = LIMBER_ROUND_UP;
    *(double *)(void *)want = 1 + 0x1p-52;
    expect_want(call);
    call.count = 9;
    call.rounding = LIMBER_ROUND_NEAREST;
    call.to = LIMBER_BF16;
    call.rounding = LIMBER_ROUND_DOWN;
    limber_convert(want, LIMBER_BF16, &(double){ 1 }, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    expect_want(call);
}

/* ---- sums carried in a format ---------------------------------------------------------------- */

/* Returns v rounded to a format. */
static double rounded(limber_format f, double v)
{
    unsigned char code[8];

    limber_convert(code, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    limber_convert(&v, LIMBER_F64, code, f, 1, LIMBER_ROUND_NEAREST);
    return v;
}

/* Sums a line, rounding to the storage format after each step. */
static double sum_in_storage(const limber_reduce_call *r, size_t o, size_t j, uint64_t *swallowed)
{
    double s = 0;

    for (size_t i = 0; i < r->count; i++) {
        double v = element(r, o, i, j), next = rounded(r->from, s + v);

        *swallowed += next == s && v != 0;
        s = next;
    }
    return r->reduction == LIMBER_REDUCTION_MEAN ? rounded(r->from, s / (double)r->count) : s;
}

/* Sums a line in sixteen lanes of binary32, as LIMBER_CARRY_F32 is defined. */
static double sum_in_f32(const limber_reduce_call *r, size_t o, size_t j, uint64_t *swallowed)
{
    float s[16] = { 0 };

    for (size_t i = 0; i < r->count; i++) {
        float v = (float)element(r, o, i, j), next = s[i % 16] + v;

        *swallowed += next == s[i % 16] && v != 0;
        s[i % 16] = next;
    }
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            s[i] += s[i + half];
    return r->reduction == LIMBER_REDUCTION_MEAN ? (float)((double)s[0] / (double)r->count) : s[0];
}

/* Sums carried in binary32 or in the storage format have the bits of the documented order, and
 * count absorbed terms. */
static void test_carried(void **state)
{
    struct rng r = { 2 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 60 : 400); trial++) {
        limber_reduce_call call = LIMBER_REDUCE_INIT;
        uint64_t swallowed = 0, counted = 0;

        choose_shape_and_data(&r, &call);
        call.reduction = trial % 2 ? LIMBER_REDUCTION_MEAN : LIMBER_REDUCTION_SUM;
        call.carry = trial % 4 < 2 ? LIMBER_CARRY_F32 : LIMBER_CARRY_STORAGE;
        for (size_t o = 0; o < call.outer; o++)
            for (size_t j = 0; j < call.inner; j++) {
                double s = (call.carry == LIMBER_CARRY_F32 ? sum_in_f32 : sum_in_storage)(
                    &call, o, j, &swallowed);

                limber_convert(want + (o * call.inner + j) * call.to.size, call.to, &s, LIMBER_F64,
                               1, call.rounding);
            }
        call.swallowed = &counted;
        expect_want(call);
        assert_int_equal(counted, swallowed);
    }
}

/* In FP16, 1 added to 2^11 no longer changes the sum. */
static void test_absorbed_terms_are_counted(void **state)
{
    limber_reduce_call call = LIMBER_REDUCE_INIT;
    uint64_t swallowed;
    double one = 1, s;

    (void)state;
    call.from = call.to = LIMBER_F16;
    call.outer = call.inner = 1;
    call.count = 5000;
    call.src = src;
    call.dst = dst;
    call.swallowed = &swallowed;
    for (size_t i = 0; i < call.count; i++)
        limber_convert(src + 2 * i, LIMBER_F16, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    call.carry = LIMBER_CARRY_STORAGE;
    assert_int_equal(limber_reduce(context[2], &call), LIMBER_STATUS_OK);
    limber_convert(&s, LIMBER_F64, dst, LIMBER_F16, 1, LIMBER_ROUND_NEAREST);
    assert_true(s == 2048 && swallowed == 5000 - 2048);
    call.carry = LIMBER_CARRY_F32;
    assert_int_equal(limber_reduce(context[2], &call), LIMBER_STATUS_OK);
    limber_convert(&s, LIMBER_F64, dst, LIMBER_F16, 1, LIMBER_ROUND_NEAREST);
    assert_true(s == 5000 && swallowed == 0);
}

/* ---- norms, means and other reductions ------------------------------------------------------- */

/* Roundoff u of one operation, and error bound s of a sum of n terms, relative to the sum of
 * absolute values; q: the smallest positive number. */
struct rounding {
    double u, s, q;
};

/* Returns the roundoff and the error bound of a sum of r->count terms.  They depend on the sum's
 * carry: exact, compensated, in FP32 or in the storage format. */
static struct rounding rounding_of(const limber_reduce_call *r)
{
    double n = (double)r->count, chain = ceil(n / 16);
    limber_format f = r->carry == LIMBER_CARRY_EXACT   ? LIMBER_F64 :
                      r->carry == LIMBER_CARRY_STORAGE ? r->from :
                                                         LIMBER_F32;
    struct rounding c = { limber_format_roundoff(f), 0, ldexp(1, limber_format_quantum(f)) };

    c.s = r->carry == LIMBER_CARRY_EXACT   ? c.u :
          r->carry == LIMBER_CARRY_F32     ? (chain + 4) * c.u :
          r->carry == LIMBER_CARRY_STORAGE ? n * c.u :
                                             3 * c.u + chain * chain * c.u * c.u;
    return c;
}

/* The exact value of a result and its error bound, which is that of docs/operators.md, "How far
 * off reductions are". */
struct expected {
    double y, bound;
};

static double number(const limber_reduce_call *r, const void *array, size_t i)
{
    return limber_format_value(r->from, (const char *)array + i * r->from.size);
}

/* Applies scale and shift to x, and to the error bound. */
static void scale_and_shift(const limber_reduce_call *r, size_t i, double u, mpfr_t x,
                            struct expected *e)
{
    if (r->scale) {
        mpfr_mul_d(x, x, number(r, r->scale, i), MPFR_RNDN);
        e->bound = e->bound * fabs(number(r, r->scale, i)) + u * fabs(mpfr_get_d(x, MPFR_RNDN));
    }
    if (r->shift) {
        mpfr_add_d(x, x, number(r, r->shift, i), MPFR_RNDN);
        e->bound += u * fabs(mpfr_get_d(x, MPFR_RNDN));
    }
    e->y = mpfr_get_d(x, MPFR_RNDN);
}

/* Computes a line's results from the definition of the reduction, in MPFR. */
static void reduce_by_definition(const limber_reduce_call *r, size_t o, size_t j,
                                 struct expected *e)
{
    const struct rounding c = rounding_of(r);
    const bool soft = r->reduction == LIMBER_REDUCTION_SOFTMAX;
    double n = (double)r->count, absolute = 0, delta, root, relative;
    mpfr_t most, part, sum, x; /* precision of 200 bits, since these sums need not be exact */

    mpfr_inits2(200, most, part, sum, x, (mpfr_ptr)NULL);
    mpfr_set_inf(most, -1);
    mpfr_set_zero(sum, 1);
    for (size_t i = 0; i < r->count; i++) {
        mpfr_set_d(x, element(r, o, i, j), MPFR_RNDN);
        mpfr_max(most, most, x, MPFR_RNDN);
        mpfr_add(sum, sum, x, MPFR_RNDN);
        absolute += fabs(element(r, o, i, j));
    }
    mpfr_div_ui(part, sum, r->count, MPFR_RNDN); /* the mean */
    delta = c.s * absolute / n + c.u * fabs(mpfr_get_d(part, MPFR_RNDN));
    if (r->reduction == LIMBER_REDUCTION_RMS_NORM) {
        mpfr_set_zero(part, 1);
        delta = 0;
    }
    mpfr_set_zero(sum, 1);
    for (size_t i = 0; i < r->count; i++) {
        mpfr_set_d(x, element(r, o, i, j), MPFR_RNDN);
        mpfr_sub(x, x, soft ? most : part, MPFR_RNDN);
        if (soft)
            mpfr_exp(x, x, MPFR_RNDN);
        else
            mpfr_sqr(x, x, MPFR_RNDN);
        mpfr_add(sum, sum, x, MPFR_RNDN);
    }
    if (!soft)
        mpfr_div_ui(sum, sum, r->count - (size_t)r->correction, MPFR_RNDN);
    if (r->reduction == LIMBER_REDUCTION_VARIANCE) {
        e->y = mpfr_get_d(sum, MPFR_RNDN);
        e->bound = (c.s + 4 * c.u) * e->y + n / (n - r->correction) * delta * delta + 2 * c.q;
    }
    if (r->reduction > LIMBER_REDUCTION_SOFTMAX) {
        mpfr_add_d(sum, sum, r->epsilon, MPFR_RNDN);
        mpfr_sqrt(sum, sum, MPFR_RNDN);
    }
    root = mpfr_get_d(sum, MPFR_RNDN);
    relative = c.s / 2 + 6 * c.u + (delta * delta + 2 * c.q) / (2 * root * root);
    for (size_t i = 0; i < r->count && r->reduction >= LIMBER_REDUCTION_SOFTMAX; i++) {
        double below;

        mpfr_set_d(x, element(r, o, i, j), MPFR_RNDN);
        mpfr_sub(x, x, soft ? most : part, MPFR_RNDN);
        below = fabs(mpfr_get_d(x, MPFR_RNDN));
        if (soft)
            mpfr_exp(x, x, MPFR_RNDN);
        mpfr_div(x, x, sum, MPFR_RNDN);
        e[i].y = fabs(mpfr_get_d(x, MPFR_RNDN));
        e[i].bound = soft ? e[i].y * (c.u * (below + log(n) + 4) + c.s) + 2 * c.q :
                            e[i].y * relative + delta / root + 2 * c.q;
        scale_and_shift(r, i, c.u, x, &e[i]);
    }
    mpfr_clears(most, part, sum, x, (mpfr_ptr)NULL);
}

/* True if an error is within the bound.  Bounds are of first order: the factor allows for their
 * square, and the last term for rounding y to double. */
static bool is_within(const struct expected *e, const struct rounding *c, double got)
{
    return fabs(got - e->y) <= e->bound * (1 + 4 * c->s + 40 * c->u) + 0x1p-53 * fabs(e->y);
}

/* Variances, softmax and norms are within the documented error bounds. */
static void test_others(void **state)
{
    static const char *const formats[] = { "f16", "bf16", "f32", "f64", "(1,5,12)" };
    static struct expected y[300];
    unsigned char room[2][8 * 300];
    struct rng r = { 3 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 80 : 400); trial++) {
        limber_reduce_call call = LIMBER_REDUCE_INIT;
        struct rounding c;
        double got;
        size_t n;

        call.from = named(formats[rng_below(&r, 5)]);
        call.to = LIMBER_F64;
        call.reduction = (limber_reduction)(LIMBER_REDUCTION_VARIANCE + trial % 4);
        call.carry = (limber_carry)(trial / 4 % 4);
        call.correction = call.reduction == LIMBER_REDUCTION_VARIANCE ? rng_below(&r, 2) : 0;
        call.epsilon = rng_below(&r, 2) ? 1e-5 : 0;
        call.outer = 1 + (size_t)rng_below(&r, 3);
        call.inner = rng_below(&r, 2) ? 1 : 1 + (size_t)rng_below(&r, 40);
        call.count = n = 8 + (size_t)rng_below(&r, call.carry == LIMBER_CARRY_STORAGE ? 8 : 290);
        fill(&r, DATA_unit, call.from, src, call.outer * n * call.inner);
        fill(&r, DATA_unit, call.from, room[0], n);
        fill(&r, DATA_unit, call.from, room[1], n);
        if (call.reduction > LIMBER_REDUCTION_SOFTMAX && trial % 3) {
            call.scale = room[0];
            call.shift = trial % 3 == 1 ? room[1] : NULL;
        }
        call.src = src;
        call.dst = dst;
        c = rounding_of(&call);
        assert_int_equal(limber_reduce(context[trial % CONTEXTS], &call), LIMBER_STATUS_OK);
        for (size_t o = 0; o < call.outer; o++)
            for (size_t j = 0; j < call.inner; j++) {
                reduce_by_definition(&call, o, j, y);
                for (size_t i = 0; i < (result_count(&call) > call.outer * call.inner ? n : 1);
                     i++) {
                    size_t at = call.reduction >= LIMBER_REDUCTION_SOFTMAX ?
                                    (o * n + i) * call.inner + j :
                                    o * call.inner + j;

                    memcpy(&got, dst + 8 * at, 8);
                    if (!is_within(&y[i], &c, got))
                        fail_msg("reduction %d, carry %d, count %zu: %g, not %g within %g",
                                 (int)call.reduction, (int)call.carry, n, got, y[i].y, y[i].bound);
                }
            }
        memcpy(want, dst, result_count(&call) * 8);
        expect_want(call);
    }
}

/* Maxima have the bits that a plain loop computes. */
static void test_most(void **state)
{
    struct rng r = { 4 };

    (void)state;
    for (int trial = 0; trial < 100; trial++) {
        limber_reduce_call call = LIMBER_REDUCE_INIT;

        choose_shape_and_data(&r, &call);
        call.reduction = LIMBER_REDUCTION_MAX;
        call.carry = (limber_carry)(trial % 4);
        for (size_t o = 0; o < call.outer; o++)
            for (size_t j = 0; j < call.inner; j++) {
                double m = -INFINITY;

                for (size_t i = 0; i < call.count; i++) {
                    double v = element(&call, o, i, j);

                    m = v != v || m != m ? NAN : v > m ? v : m;
                }
                limber_convert(want + (o * call.inner + j) * call.to.size, call.to, &m, LIMBER_F64,
                               1, call.rounding);
            }
        expect_want(call);
    }
}

/* Compensated summation keeps ones that are added to a large number. */
static void test_compensated(void **state)
{
    limber_reduce_call call = LIMBER_REDUCE_INIT;
    float *v = (float *)(void *)src, s;

    (void)state;
    call.from = call.to = LIMBER_F32;
    call.outer = call.inner = 1;
    call.count = 1600;
    call.src = src;
    call.dst = dst;
    for (size_t i = 0; i < 1600; i++)
        v[i] = i < 16 ? 0x1p30f : i < 1584 ? 1 : -0x1p30f;
    call.carry = LIMBER_CARRY_COMPENSATED;
    assert_int_equal(limber_reduce(context[2], &call), LIMBER_STATUS_OK);
    memcpy(&s, dst, sizeof s);
    assert_true(s == 1568);
    call.carry = LIMBER_CARRY_F32;
    assert_int_equal(limber_reduce(context[2], &call), LIMBER_STATUS_OK);
    memcpy(&s, dst, sizeof s);
    assert_true(s == 0);
}

/* Checks that the reduction is refused with a text that contains `text`, and stores nothing. */
static void expect_refused(const limber_reduce_call *r, const char *text)
{
    memset(dst, 0xa5, 64);
    assert_refused(limber_reduce(context[2], r), LIMBER_STATUS_BAD_ARGUMENT, text);
    for (int i = 0; i < 64; i++)
        assert_int_equal(dst[i], 0xa5);
}

/* Each invalid argument of a reduction is refused with a text that names it. */
static void test_refused(void **state)
{
    limber_reduce_call good = LIMBER_REDUCE_INIT, r;
    const void *arrays[3] = { src, src, src };

    (void)state;
    good.from = good.to = LIMBER_F16;
    good.outer = good.inner = 2;
    good.count = 3;
    good.src = src;
    good.dst = dst;
    memset(src, 0, 64);
    assert_int_equal(limber_reduce(context[2], &good), LIMBER_STATUS_OK);
    assert_int_equal(limber_reduce(context[2], NULL), LIMBER_STATUS_BAD_ARGUMENT);
    r = good, r.size = 3, expect_refused(&r, "reduce: r.size = 3");
    r = good, r.reduction = LIMBER_REDUCTION_COUNT, expect_refused(&r, "reduce: reduction = ");
    r = good, r.carry = (limber_carry)4, expect_refused(&r, "reduce: carry = 4");
    r = good, r.rounding = LIMBER_ROUND_STOCHASTIC, expect_refused(&r, "reduce: rounding = 6");
    r = good, r.correction = 2, expect_refused(&r, "reduce: correction = 2");
    r = good, r.epsilon = -1, expect_refused(&r, "reduce: epsilon = -1");
    r = good, r.epsilon = NAN, expect_refused(&r, "reduce: epsilon = ");
    r = good, r.from = LIMBER_I8, expect_refused(&r, "reduce: from: i8 is no float");
    r = good, r.to = LIMBER_F128, expect_refused(&r, "reduce: to: f128 is no float");
    r = good, r.src = NULL, expect_refused(&r, "reduce: src is NULL");
    r = good, r.dst = NULL, expect_refused(&r, "reduce: dst is NULL");
    r = good, r.src = dst + 4, expect_refused(&r, "reduce: dst and src overlap");
    r = good, r.scale = src, expect_refused(&r, "reduce: scale is for norms");
    r = good, r.outer = SIZE_MAX / 2, expect_refused(&r, "reduce: outer, count and inner = ");
    r = good, r.count = 0, r.reduction = LIMBER_REDUCTION_MEAN,
    expect_refused(&r, "reduce: count = 0");
    r = good, r.count = 1, r.reduction = LIMBER_REDUCTION_VARIANCE, r.correction = 1;
    expect_refused(&r, "reduce: count = 1 is too small");
    r = good, r.carry = LIMBER_CARRY_STORAGE, r.from = named("(1,8,40)");
    expect_refused(&r, "reduce: from: steps are not carried in (1,8,40)");
    r = good, r.reduction = LIMBER_REDUCTION_RMS_NORM, r.scale = dst + 2;
    expect_refused(&r, "reduce: dst overlaps scale or shift");
    r = good, r.to = LIMBER_E2M1,
    expect_refused(&r, "reduce: to: e2m1 has no NaN, which results can give");
    r = good, r.from = LIMBER_E2M1, r.carry = LIMBER_CARRY_STORAGE;
    expect_refused(&r, "reduce: from: e2m1 has no NaN, which its steps can give");
    r = good, r.arrays = arrays, r.outer = 1,
    expect_refused(&r, "reduce: arrays: src is given, too");
    r.src = NULL, r.outer = 2, expect_refused(&r, "reduce: arrays: outer is not 1");
    r.outer = 1, arrays[2] = NULL, expect_refused(&r, "reduce: arrays[2] is NULL");
    arrays[2] = dst + 1, expect_refused(&r, "reduce: arrays[2] and dst overlap");
    arrays[2] = dst, r.reduction = LIMBER_REDUCTION_SOFTMAX;
    expect_refused(&r, "reduce: arrays[2] and dst overlap");
}

/* A sum of arrays may be stored in one of the arrays. */
static void test_in_place(void **state)
{
    float x[40], y[40], sum_of[40];
    const void *const arrays[3] = { x, y, x };
    limber_reduce_call r = LIMBER_REDUCE_INIT;

    (void)state;
    for (int i = 0; i < 40; i++) {
        x[i] = (float)i, y[i] = 0.25f * (float)i;
        sum_of[i] = 2.25f * (float)i;
    }
    r.from = r.to = LIMBER_F32;
    r.outer = 1, r.count = 3, r.inner = 40;
    r.arrays = arrays, r.dst = x;
    assert_int_equal(limber_reduce(context[1], &r), LIMBER_STATUS_OK);
    assert_memory_equal(x, sum_of, sizeof x);
}

/* Results that are NaN must have the same bytes on every path, whatever sign and payload the
 * operands' NaN have. */
static void test_one_nan(void **state)
{
    static const uint32_t codes[] = { 0xff800000, 0x7f800000, 0xffc00001, 0x7fa00000, 0x3f800000 };
    enum { LINES = 3, LONGEST = 40 };
    int nans = 0;

    (void)state;
    for (int trial = 0; trial < 25 * 28; trial++) {
        limber_reduce_call r = LIMBER_REDUCE_INIT;

        r.reduction = (limber_reduction)(trial % 7);
        r.carry = (limber_carry)(trial / 7 % 4);
        r.from = LIMBER_F32;
        r.to = trial & 1 ? LIMBER_F32 : LIMBER_F64;
        r.outer = trial & 2 ? LINES : 1;
        r.inner = trial & 2 ? 1 : LINES;
        r.count = 1 + (size_t)(trial * 7 % LONGEST);
        for (size_t i = 0; i < r.count * LINES; i++)
            memcpy(src + 4 * i, &codes[i % 7 ? trial % 5 : trial / 5 % 5], 4);
        r.src = src;
        r.dst = want;
        assert_int_equal(limber_reduce(NULL, &r), LIMBER_STATUS_OK);
        for (size_t i = 0; i < result_count(&r); i++) {
            unsigned char one[8];
            const double nan = NAN;
            bool is = isnan(limber_format_value(r.to, want + i * r.to.size));

            limber_convert(one, r.to, &nan, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
            assert_true(!is || memcmp(one, want + i * r.to.size, r.to.size) == 0);
            nans += is;
        }
        expect_want(r);
    }
    assert_true(nans > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_cancelling),
        cmocka_unit_test(test_carried),
        cmocka_unit_test(test_absorbed_terms_are_counted),
        cmocka_unit_test(test_most),
        cmocka_unit_test(test_compensated),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_one_nan),
    };

    mpfr_inits2(WIDE, sum, x, (mpfr_ptr)NULL);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
