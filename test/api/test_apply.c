/* SPDX-License-Identifier: BSD-3-Clause
 * Tests of limber_apply: for every instruction set, table, length and thread count, results have
 * the bits of computing element by element.  Invalid calls are refused. */
#include "contexts.h"
#include "support.h"

#include "ir/function.h"
#include "jit/api/api.h"
#include "targets.h"
#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 8, LONGEST = 70001, FLOATS = 15 };

static limber_context *context[MOST];
static int contexts;
static unsigned char *src, *want, *got;

/* Creates a context of the backend and appends it to the list of contexts. */
static limber_context *add_context(const char *backend, int threads)
{
    limber_config config = LIMBER_CONFIG_INIT;

    config.cache_dir = "";
    config.backend = backend;
    config.threads = threads;
    if (limber_create(&context[contexts], &config))
        fail_msg("%s", limber_error_text());
    return context[contexts++];
}

/* Sets up the contexts: NULL, the interpreter, the default with one and with three threads and, if
 * LLVM is built in, one for each AVX2 or AVX-512 target of `targets` that this CPU has.  Allocates
 * the arrays. */
static int set_up(void **state)
{
    (void)state;
    context[contexts++] = NULL;
    add_context("interp", 1);
    add_context(NULL, 1);
    add_context(NULL, 3);
#ifdef LIMBER_HAVE_LLVM
    struct diag d = { 0 };
    struct target here;

    for (size_t t = 0; limber_backend_llvm.probe(&here, &d) && t < COUNT(targets); t++)
        if (strstr(here.features, targets[t].needs) && contexts < MOST &&
            (!strcmp(targets[t].needs, "avx2") || !strcmp(targets[t].needs, "avx512"))) {
            struct target *to = &add_context(NULL, 1)->machine.target;

            memset(to, 0, sizeof *to);
            assert_true(limber_target_parse(to, targets[t].text, &d));
            limber_target_complete(to);
        }
#endif
    src = malloc(8 * LONGEST + 64);
    want = malloc(8 * LONGEST + 64);
    got = malloc(8 * LONGEST + 64);
    return !src || !want || !got;
}

static int tear_down(void **state)
{
    (void)state;
    while (contexts > 0)
        limber_destroy(context[--contexts]);
    free(src);
    free(want);
    free(got);
    return 0;
}

/* Computes the expected result element by element, with the scalar functions that test_functions.c
 * compares with MPFR. */
static void compute_expected(const limber_elementwise *e, void *dst)
{
    bool single = e->compute == LIMBER_COMPUTE_F32;
    struct fn_args a = limber_function_args(single ? LIMBER_F32 : e->to, e->p, e->q);

    for (size_t i = 0; i < e->count; i++) {
        double x;

        limber_convert(&x, LIMBER_F64, (const char *)e->src + i * e->from.size, e->from, 1,
                       LIMBER_ROUND_NEAREST);
        x = limber_function_value(e->function, &a, x);
        x = single ? (double)(float)x : x;
        limber_convert((char *)dst + i * e->to.size, e->to, &x, LIMBER_F64, 1, e->rounding);
    }
}

/* Runs the call in every context and compares all bits with the expected result.  shift: number of
 * elements by which the arrays are moved, to vary their alignment. */
static void check_in_all_contexts(limber_elementwise e, size_t shift)
{
    char from[32], to[32];

    e.src = src + shift * e.from.size;
    compute_expected(&e, want);
    for (int c = 0; c < contexts; c++) {
        e.dst = got + shift * e.to.size;
        memset(got, 0xa5, (e.count + shift) * e.to.size + 8);
        if (limber_apply(context[c], &e))
            fail_msg("%s", limber_error_text());
        for (size_t i = 0; i < e.count; i++)
            if (memcmp(want + i * e.to.size, got + (i + shift) * e.to.size, e.to.size))
                fail_msg("%s of %s to %s, rounding %d, element %zu of %zu, context %d",
                         limber_function_at((int)e.function, NULL, NULL),
                         limber_format_name(e.from, from, sizeof from),
                         limber_format_name(e.to, to, sizeof to), (int)e.rounding, i, e.count, c);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(got[(e.count + shift) * e.to.size + i], 0xa5);
    }
}

/* Returns a random floating-point format.  A quarter of those of at most 16 bits saturate or have
 * no subnormals. */
static limber_format any_float(struct rng *r)
{
    static const char *const names[FLOATS] = { "f16",     "bf16",     "tf32",     "e4m3",
                                               "e5m2",    "e2m1",     "f32",      "f64",
                                               "(1,4,9)", "e4m3fnuz", "e5m2fnuz", "posit8",
                                               "posit16", "posit32",  "e8m0" };

    limber_format f = named(names[rng_below(r, FLOATS)]);

    if (rng_below(r, 4) == 0 && f.size <= 2 && f.kind == LIMBER_KIND_FLOAT)
        f.flags |= rng_below(r, 2) ? LIMBER_FORMAT_SATURATE : LIMBER_FORMAT_NO_SUBNORMAL;
    return f;
}

/* Makes a random call without operands: function, formats, rounding, parameters. */
static limber_elementwise any_call(struct rng *r)
{
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

    e.function = (limber_function)rng_below(r, LIMBER_FUNCTION_COUNT);
    e.from = any_float(r);
    e.to = any_float(r);
    e.rounding = (limber_rounding)(rng_below(r, 2) ? 0 : rng_below(r, LIMBER_ROUND_ODD + 1));
    if (e.to.kind == LIMBER_KIND_POSIT)
        e.rounding = LIMBER_ROUND_NEAREST;
    e.compute = (limber_compute)(rng_below(r, 4) == 0);
    e.nan_to_zero = 1;
    e.p = e.function == LIMBER_FUNCTION_CLAMP ? -0.75 : 0.1;
    e.q = 1.25;
    return e;
}

static void fill_any(struct rng *r, const limber_elementwise *e, size_t shift)
{
    fill(r, (enum data)rng_below(r, DATA_count), e->from, src + shift * e->from.size, e->count);
}

/* Random functions, formats and roundings on arrays of 0 to 1500 elements, also unaligned, give the
 * expected results in all contexts. */
static void test_short(void **state)
{
    static const size_t lengths[] = { 0, 1, 2, 7, 15, 16, 33, 100, 511, 512, 513, 1500 };
    struct rng r = { 1 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 200 : 1500); trial++) {
        limber_elementwise e = any_call(&r);
        size_t shift = (size_t)rng_below(&r, 3);

        e.count = lengths[rng_below(&r, COUNT(lengths))];
        fill_any(&r, &e, shift);
        check_in_all_contexts(e, shift);
    }
}

/* Functions of arrays that are so long that the library makes a table of results, and divides
 * the work into several tasks, give the expected results. */
static void test_long_arrays(void **state)
{
    struct rng r = { 2 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 4 : 24); trial++) {
        limber_elementwise e = any_call(&r);

        if (trial % 2)
            e.from = named(trial % 4 == 1 ? "bf16" : "e5m2");
        e.count = trial % 3 ? LONGEST : 20000;
        fill_any(&r, &e, 0);
        check_in_all_contexts(e, 0);
        e.count = 100; /* by now the table has been made */
        check_in_all_contexts(e, 0);
    }
}

/* All functions are right at evenly spaced bit patterns of binary32: of its whole range, and of
 * exponents from -8 to 8, where functions are most curved. */
static void test_binary32_codes(void **state)
{
    const size_t count = SANITIZED ? 4000 : 60000;
    struct rng r = { 41 };

    (void)state;
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++)
        for (int way = 0; way < 4; way++) {
            limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
            uint32_t step = (uint32_t)((way & 1 ? 1ull << 27 : 1ull << 31) / (count / 2));
            uint32_t at = (way & 1 ? 0x3b800000u : 0) + (uint32_t)rng_below(&r, (int)step);

            for (size_t i = 0; i < count; i++, at += i % 2 ? 0 : step) {
                uint32_t code = at | (uint32_t)(i % 2) << 31;

                memcpy(src + i * 4, &code, 4);
            }
            e.function = (limber_function)f;
            e.from = e.to = LIMBER_F32;
            if (way & 2)
                e.to = LIMBER_F16, e.compute = LIMBER_COMPUTE_F32;
            e.count = count;
            e.p = f == LIMBER_FUNCTION_CLAMP ? -0.75 : 0.1, e.q = 1.25;
            check_in_all_contexts(e, 0);
        }
}

/* For binary32 operands, exp, tanh, gelu and similar functions are computed in binary64, which must
 * suffice to round the result.  Compares them, for all operands, with the results for equal
 * binary64 operands, which are computed in double-double.  Runs only if LIMBER_TEST_LONG is set. */
static void test_every_single(void **state)
{
    static const limber_function quick[] = { LIMBER_FUNCTION_EXP,       LIMBER_FUNCTION_TANH,
                                             LIMBER_FUNCTION_GELU,      LIMBER_FUNCTION_SILU,
                                             LIMBER_FUNCTION_GELU_TANH, LIMBER_FUNCTION_SIGMOID };
    enum { PART = 1 << 15 };
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
    limber_context *c = context[2]; /* the default backend, one thread */

    (void)state;
    if (!is_long())
        skip_because("LIMBER_TEST_LONG is not set");
    e.to = LIMBER_F32;
    e.count = PART;
    for (size_t f = 0; f < COUNT(quick); f++)
        for (int64_t first = 0; first < 1ll << 32; first += PART) {
            double *wide = (double *)(void *)src;
            float *single = (float *)(void *)(got + 4 * PART);

            for (int i = 0; i < PART; i++) {
                uint32_t code = (uint32_t)(first + i);

                memcpy(&single[i], &code, 4);
                wide[i] = single[i];
            }
            e.function = quick[f];
            e.from = LIMBER_F64, e.src = wide, e.dst = want;
            assert_int_equal(limber_apply(c, &e), LIMBER_STATUS_OK);
            e.from = LIMBER_F32, e.src = single, e.dst = got;
            assert_int_equal(limber_apply(c, &e), LIMBER_STATUS_OK);
            for (int i = 0; i < PART; i++)
                if (memcmp(want + 4 * i, got + 4 * i, 4) && wide[i] == wide[i])
                    fail_msg("%s of %a", limber_function_at((int)e.function, NULL, NULL), wide[i]);
        }
}

/* Sets operand i to a bit pattern of binary64. */
static void set_operand_bits(int64_t i, uint64_t bits)
{
    memcpy(src + i * 8, &bits, 8);
}

/* Tests operands near the ends of the range, so that results or their errors are subnormal, and
 * compares with C's functions that round only once.  Then tests all functions with operands of
 * any bit pattern. */
static void test_underflow_and_extremes(void **state)
{
    static const struct {
        limber_function function;
        int first, count; /* biased exponents of operands */
    } ends[] = { { LIMBER_FUNCTION_SQUARE, 1023 - 545, 70 },
                 { LIMBER_FUNCTION_SQRT, 0, 70 },
                 { LIMBER_FUNCTION_LEAKY_RELU, 0, 70 },
                 { LIMBER_FUNCTION_RECIPROCAL, 1023 + 955, 69 } };
    struct rng r = { 12 };

    (void)state;
    for (size_t f = 0; f < COUNT(ends); f++) {
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
        const double *x = (const double *)(const void *)src, *y = (const double *)(void *)want;

        e.function = ends[f].function;
        e.from = e.to = LIMBER_F64;
        e.p = 0.1;
        e.count = SANITIZED ? 20000 : LONGEST;
        for (size_t i = 0; i < e.count; i++)
            set_operand_bits((int64_t)i,
                             rng_next(&r) >> 12 | rng_next(&r) << 63 |
                                 (uint64_t)(ends[f].first + rng_below(&r, ends[f].count)) << 52);
        check_in_all_contexts(e, 0);
        for (size_t i = 0; i < e.count; i++) {
            const double want_here = f == 0 ? x[i] * x[i] :
                                     f == 1 ? sqrt(x[i]) :
                                     f == 2 ? (x[i] < 0 ? 0.1 * x[i] : x[i]) :
                                              1 / x[i];

            assert_true(same_number(LIMBER_F64, &want_here, &y[i]));
        }
    }
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++) {
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

        e.function = (limber_function)f;
        e.from = e.to = LIMBER_F64;
        e.p = f == LIMBER_FUNCTION_CLAMP ? -0.75 : 0.1;
        e.q = 1.25;
        e.count = 4000;
        for (size_t i = 0; i < e.count; i++)
            set_operand_bits((int64_t)i, rng_next(&r));
        check_in_all_contexts(e, 0);
    }
}

/* Functions give the expected results if they need more tables of results than the cache holds. */
static void test_many_tables(void **state)
{
    struct rng r = { 3 };
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

    (void)state;
    e.from = e.to = LIMBER_E4M3;
    e.p = -1;
    e.q = 1;
    e.count = 20000;
    fill(&r, DATA_unit, e.from, src, e.count);
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++) {
        e.function = (limber_function)f;
        check_in_all_contexts(e, 0);
    }
    /* One function with many parameters: its first tables are evicted, and are made again. */
    e.function = LIMBER_FUNCTION_LEAKY_RELU;
    for (int p = 0; p < 80; p++) {
        e.p = p % 50 / 64.0;
        check_in_all_contexts(e, 0);
    }
}

/* Tests all numbers of a format, the midpoints between them, and the doubles next to these
 * midpoints, where rounding is hardest. */
static void test_rounding(void **state)
{
    static const char *const names[] = { "f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1" };
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

    (void)state;
    e.function = LIMBER_FUNCTION_CAST;
    e.from = LIMBER_F64;
    for (size_t i = 0; i < COUNT(names); i++) {
        limber_format f = named(names[i]);
        size_t codes = (size_t)1 << 8 * f.size, n = 0;
        double *to = (double *)(void *)src;

        e.to = f;
        for (size_t code = 0; code + 1 < codes && n + 6 < LONGEST; code += codes > 256 ? 7 : 1) {
            uint16_t c[2] = { (uint16_t)code, (uint16_t)(code + 1) };
            uint8_t b[2] = { (uint8_t)code, (uint8_t)(code + 1) };
            double x[2];

            limber_convert(x, LIMBER_F64, f.size == 2 ? (void *)c : (void *)b, f, 2,
                           LIMBER_ROUND_NEAREST);
            to[n++] = x[0];
            to[n++] = x[0] / 2 + x[1] / 2;
            to[n] = nextafter(to[n - 1], -INFINITY), n++;
            to[n] = nextafter(to[n - 2], INFINITY), n++;
            to[n++] = 1.5 * x[0];
            to[n++] = 1024 * x[0];
        }
        e.nan_to_zero = 1;
        e.count = n;
        check_in_all_contexts(e, 0);
    }
}

/* The result may be stored in the place of the operand. */
static void test_in_place(void **state)
{
    struct rng r = { 4 };

    (void)state;
    for (int trial = 0; trial < 40; trial++) {
        limber_elementwise e = any_call(&r);

        e.to = e.from;
        if (e.to.kind == LIMBER_KIND_POSIT)
            e.rounding = LIMBER_ROUND_NEAREST;
        e.count = trial % 8 ? 700 : LONGEST;
        fill_any(&r, &e, 0);
        e.src = src;
        compute_expected(&e, want);
        for (int c = 0; c < contexts; c++) {
            memcpy(got, src, e.count * e.to.size);
            e.src = e.dst = got;
            assert_int_equal(limber_apply(context[c], &e), LIMBER_STATUS_OK);
            for (size_t i = 0; i < e.count; i++)
                assert_memory_equal(want + i * e.to.size, got + i * e.to.size, e.to.size);
            e.src = src;
        }
    }
}

/* Tests casts from and to integers and formats wider than binary64, which have separate
 * conversions. */
static void test_cast(void **state)
{
    static const char *const names[] = { "f16", "f32", "f64", "f128", "dd", "i8", "i32", "i64" };
    struct rng r = { 5 };

    (void)state;
    for (int trial = 0; trial < 120; trial++) {
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

        e.from = named(names[rng_below(&r, COUNT(names))]);
        e.to = named(names[rng_below(&r, COUNT(names))]);
        e.rounding = (limber_rounding)rng_below(&r, LIMBER_ROUND_ODD + 1);
        e.count = 100;
        fill(&r, DATA_spread, e.from, src, e.count);
        limber_convert(want, e.to, src, e.from, e.count, e.rounding);
        e.src = src;
        e.dst = got;
        for (int c = 0; c < contexts; c++) {
            assert_int_equal(limber_apply(context[c], &e), LIMBER_STATUS_OK);
            for (size_t i = 0; i < e.count; i++)
                assert_memory_equal(want + i * e.to.size, got + i * e.to.size, e.to.size);
        }
    }
}

/* ISINF and ISNAN tell the class of each number, with its sign. */
static void test_classes(void **state)
{
    const float values[5] = { NAN, INFINITY, -INFINITY, 0, 1 };
    int8_t to[5];
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

    (void)state;
    e.function = LIMBER_FUNCTION_ISINF;
    e.from = LIMBER_F32;
    e.to = LIMBER_I8;
    e.src = values;
    e.dst = to;
    e.count = 5;
    assert_int_equal(limber_apply(NULL, &e), LIMBER_STATUS_OK);
    assert_memory_equal(to, ((const int8_t[]){ 0, 1, -1, 0, 0 }), 5);
    e.to = LIMBER_U8;
    assert_refused(limber_apply(NULL, &e), LIMBER_STATUS_BAD_ARGUMENT, "to: u8 has no -1");
    e.to = LIMBER_I8;
    e.function = LIMBER_FUNCTION_ISNAN;
    assert_int_equal(limber_apply(context[2], &e), LIMBER_STATUS_OK);
    assert_memory_equal(to, ((const int8_t[]){ 1, 0, 0, 0, 0 }), 5);
}

/* Fails the test unless the call is refused with this text and writes nothing. */
static void expect_refused(const limber_elementwise *e, const char *text)
{
    memset(got, 0xa5, 64);
    assert_refused(limber_apply(context[2], e), LIMBER_STATUS_BAD_ARGUMENT, text);
    for (int i = 0; i < 64; i++)
        assert_int_equal(got[i], 0xa5);
}

/* Each invalid field of an elementwise call is refused with a text that names it. */
static void test_refused(void **state)
{
    limber_elementwise good = LIMBER_ELEMENTWISE_INIT, e;

    (void)state;
    good.function = LIMBER_FUNCTION_EXP;
    good.from = good.to = LIMBER_F16;
    good.src = src;
    good.dst = got;
    good.count = 8;
    memset(src, 0, 64);
    assert_int_equal(limber_apply(context[2], &good), LIMBER_STATUS_OK);
    assert_int_equal(limber_apply(context[2], NULL), LIMBER_STATUS_BAD_ARGUMENT);
    e = good, e.size = 0, expect_refused(&e, "apply: e.size = 0");
    e = good, e.function = LIMBER_FUNCTION_COUNT, expect_refused(&e, "apply: function = ");
    e = good, e.rounding = LIMBER_ROUND_STOCHASTIC, expect_refused(&e, "apply: rounding = 6");
    e = good, e.compute = (limber_compute)7, expect_refused(&e, "apply: compute = 7");
    e = good, e.from = LIMBER_I32, expect_refused(&e, "apply: from: exp is not defined on i32");
    e = good, e.to = LIMBER_I8, expect_refused(&e, "apply: to: exp is not defined on i8");
    e = good, e.from = LIMBER_F128, expect_refused(&e, "apply: from: exp is not defined on f128");
    e = good, e.to = LIMBER_DD, expect_refused(&e, "apply: to: exp is not defined on dd");
    e = good, e.to.kind = LIMBER_KIND_NONE, expect_refused(&e, "apply: to: kind = 0");
    e = good, e.to = LIMBER_E2M1,
    expect_refused(&e, "apply: to: e2m1 has no NaN, which exp can give");
    e.function = LIMBER_FUNCTION_CAST,
    expect_refused(&e, "apply: to: e2m1 has no NaN, which cast can give");
    e.from = LIMBER_E3M2, assert_int_equal(limber_apply(context[2], &e), LIMBER_STATUS_OK);
    e.from = LIMBER_I8, assert_int_equal(limber_apply(context[2], &e), LIMBER_STATUS_OK);
    e = good, e.function = LIMBER_FUNCTION_LEAKY_RELU, e.p = NAN,
    expect_refused(&e, "apply: p is NaN");
    e = good, e.function = LIMBER_FUNCTION_CLAMP, e.p = 2, e.q = 1;
    expect_refused(&e, "apply: p = 2 is not at most q = 1");
    e = good, e.src = NULL, expect_refused(&e, "apply: src is NULL");
    e = good, e.dst = NULL, expect_refused(&e, "apply: dst is NULL");
    e = good, e.count = SIZE_MAX / 2, expect_refused(&e, "apply: count = ");
    e = good, e.src = got + 2, expect_refused(&e, "apply: dst and src overlap");
    e = good, e.src = got, e.to = LIMBER_F32, expect_refused(&e, "apply: dst and src overlap");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_long_arrays),
        cmocka_unit_test(test_many_tables),
        cmocka_unit_test(test_binary32_codes),
        cmocka_unit_test(test_every_single),
        cmocka_unit_test(test_underflow_and_extremes),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
