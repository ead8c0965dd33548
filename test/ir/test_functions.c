/* SPDX-License-Identifier: BSD-3-Clause
 * Compares elementwise functions with MPFR: many values of binary32 and binary64, and the points at
 * which an implementation switches between methods.  test_apply_all.c tests every value of 8- and
 * 16-bit formats. */
#include "function_reference.h"

#include "ir/function.h"
#include "ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = SANITIZED ? 300 : 3000 };

static void encode(limber_format f, double from, int mode, unsigned char code[8])
{
    memset(code, 0, 8);
    assert_int_equal(limber_convert(code, f, &from, LIMBER_F64, 1, (limber_rounding)mode),
                     LIMBER_STATUS_OK);
}

static struct fn_args arguments(limber_function f, limber_format to)
{
    return limber_function_args(to, f == LIMBER_FUNCTION_CLAMP ? -1.5 : 0.01, 2.25);
}

/* Checks a function's value at `from`, rounded to the format in every mode. */
static void check_rounded(limber_function f, limber_format format, double from)
{
    struct fn_args a = arguments(f, format);
    double got = limber_function_value(f, &a, from), want = ref_function(f, a.p, a.q, from);
    unsigned char one[8], other[8];

    for (int mode = 0; mode <= LIMBER_ROUND_ODD; mode++) {
        encode(format, got, mode, one);
        encode(format, want, mode, other);
        if (memcmp(one, other, 8))
            fail_msg("%s(%a) in direction %d: %a, not %a", limber_function_at((int)f, NULL, NULL),
                     from, mode, got, want);
    }
}

/* ---- binary32, binary64 ---------------------------------------------------------------------- */

static uint64_t draw(void)
{
    return (uint64_t)mrand48() << 32 ^ (uint64_t)mrand48() << 11 ^ (uint64_t)mrand48();
}

/* Draws a double: with any exponent, or with a common one. */
static double draw_double(int i)
{
    uint64_t bits = draw(), field = i % 2 ? bits >> 52 & 2047 : 1023 - 12 + (bits >> 52) % 20;
    double d;

    bits = (bits & 0x800fffffffffffffu) | field << 52;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Results in binary32 have an error of at most 0.501 units in the last place. */
static void test_f32(void **state)
{
    (void)state;
    srand48(1);
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++)
        for (int i = 0; i < SAMPLES; i++) {
            struct fn_args a = arguments((limber_function)f, LIMBER_F32);
            uint32_t bits = (uint32_t)draw();
            double from = i % 2 ? 0 : (float)draw_double(0), want;
            float single, got;

            if (i % 2) {
                memcpy(&single, &bits, sizeof single);
                from = single;
            }
            got = (float)limber_function_value((limber_function)f, &a, from);
            want = ref_function((limber_function)f, a.p, a.q, from);
            if (!isfinite((float)want) || want == 0) {
                assert_true((float)want == got || (want != want && got != got));
            } else if (ref_function_error(got, 24, -149) > 0.501) {
                fail_msg("%s(%a) = %a, not %a", limber_function_at(f, NULL, NULL), from, got, want);
            }
        }
}

/* largest error in units in the last place; docs/operators.md promises this bound */
enum { MOST_ULP = 5 };

/* Results in binary64 have an error of at most MOST_ULP units in the last place. */
static void test_f64(void **state)
{
    (void)state;
    srand48(2);
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++) {
        double worst = 0;

        for (int i = 0; i < SAMPLES; i++) {
            struct fn_args a = arguments((limber_function)f, LIMBER_F64);
            double from = draw_double(i), got, want, error;

            got = limber_function_value((limber_function)f, &a, from);
            want = ref_function((limber_function)f, a.p, a.q, from);
            if (got == 0 && signbit(got) != signbit(want))
                fail_msg("%s(%a): the zero has another sign", limber_function_at(f, NULL, NULL),
                         from);
            if (!isfinite(want) || fabs(want) < 0x1p-1073 || !isfinite(got)) {
                if (want != got && !(want != want && got != got) && fabs(want - got) > 0x1p-1072 &&
                    fabs(want) <= 0x1.ffffffffffffep+1023)
                    fail_msg("%s(%a) = %a, not %a", limber_function_at(f, NULL, NULL), from, got,
                             want);
                continue;
            }
            error = ref_function_error(got, 53, -1074);
            worst = error > worst ? error : worst;
            if (error > MOST_ULP)
                fail_msg("%s(%a) = %a, not %a: %g ulp", limber_function_at(f, NULL, NULL), from,
                         got, want, error);
        }
        print_message("%-12s %.2f ulp of binary64\n", limber_function_at(f, NULL, NULL), worst);
    }
}

/* Checks a function's value, rounded to every format of few bits.  The function's parameters are
 * the same for all of them, so that one double is rounded to all. */
static void check_narrow(limber_function f, double from)
{
    static const char *const names[] = { "f16",  "bf16", "e4m3",     "e5m2",   "e2m3",
                                         "tf32", "f32",  "e4m3fnuz", "(1,8,3)" };
    struct fn_args a = arguments(f, LIMBER_BF16);
    double got = limber_function_value(f, &a, from), want = ref_function(f, a.p, a.q, from);

    if (memcmp(&got, &want, sizeof got) == 0)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct fn_args same = arguments(f, named(names[i]));

        assert_true(same.bound == a.bound && same.odd == a.odd);
        check_rounded(f, named(names[i]), from);
    }
}

/* Tests powers of two and random numbers in the binades of binary64, with both signs, rounded in
 * every mode.  Near 1 and at both ends every binade is tested, elsewhere a subset that differs
 * by function. */
static void test_binades(void **state)
{
    const int step = SANITIZED ? 61 : 7;

    (void)state;
    srand48(3);
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++)
        for (int e = -1074; e <= 1023; e++) {
            if (e > -1065 && e < 1015 && abs(e) > (SANITIZED ? 12 : 155) && (e + f) % step)
                continue;
            for (int sign = -1; sign <= 1; sign += 2) {
                check_narrow((limber_function)f, sign * ldexp(1, e));
                check_narrow((limber_function)f, sign * ldexp(1 + drand48(), e));
            }
        }
}

/* Tests arguments at which the implementations switch between methods. */
static void test_edges(void **state)
{
    static const double at[] = { 0x1p20,
                                 0.5,
                                 1,
                                 0x1.a827999fcef32p-2,
                                 0x1.3504f333f9de6p+1,
                                 0.17,
                                 0x1p60,
                                 3,
                                 0x1.6a09e667f3bcdp+0,
                                 0x1.62e42fefa39efp-2,
                                 600,
                                 0x1p-149,
                                 0x1p-24,
                                 709.78,
                                 745.13 };

    (void)state;
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++)
        for (size_t i = 0; i < sizeof at / sizeof *at; i++)
            for (int side = -2; side <= 2; side++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    float from = (float)at[i];

                    for (int step = 0; step < abs(side); step++)
                        from = nextafterf(from, side < 0 ? 0 : INFINITY);
                    check_rounded((limber_function)f, LIMBER_F16, sign * from);
                    check_rounded((limber_function)f, LIMBER_BF16, sign * from);
                    check_rounded((limber_function)f, LIMBER_F32, sign * from);
                }
}

/* Each function is found by its name; unknown names and indices are refused. */
static void test_names(void **state)
{
    limber_function f;
    const char *meaning;
    int parameters;

    (void)state;
    for (int i = 0; i < LIMBER_FUNCTION_COUNT; i++) {
        const char *name = limber_function_at(i, &meaning, &parameters);

        assert_int_equal(limber_function_named(name, &f), LIMBER_STATUS_OK);
        assert_int_equal(f, i);
        assert_true(meaning[0] && parameters >= 0 && parameters <= 2);
    }
    assert_null(limber_function_at(LIMBER_FUNCTION_COUNT, NULL, NULL));
    assert_null(limber_function_at(-1, NULL, NULL));
    assert_int_equal(limber_function_named("sine", &f), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_function_named(NULL, &f), LIMBER_STATUS_BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_edges),   cmocka_unit_test(test_f32),
        cmocka_unit_test(test_f64),   cmocka_unit_test(test_binades),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
