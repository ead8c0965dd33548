/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions against MPFR: every value of the formats of 8 and 16 bits in every
 * direction of rounding, and many of binary32 and binary64. */
#include "support.h"

#include "ir/function.h"
#include "ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { USUAL = 160, MOST = 440 }; /* bits */
enum { SAMPLES = SANITIZED ? 300 : 3000, STEP = SANITIZED ? 37 : 1 };

static mpfr_t x, y, t, u; /* the argument, the value, and room */

/* Beyond such arguments a power of e only says that it is tiny, or too large. */
static void cut(mpfr_t v, double most)
{
    if (mpfr_inf_p(v))
        return;
    if (mpfr_cmp_d(v, most) > 0)
        mpfr_set_d(v, most, MPFR_RNDN);
    if (mpfr_cmp_d(v, -most) < 0)
        mpfr_set_d(v, -most, MPFR_RNDN);
}

/* y = x / (1 + e^-v) for v = u; x is no NaN */
static void gate(void)
{
    int low = mpfr_signbit(x);

    cut(u, mpfr_signbit(u) ? 3000 : 200);
    mpfr_neg(t, u, MPFR_RNDN);
    mpfr_exp(t, t, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
    mpfr_div(y, x, t, MPFR_RNDN);
    if (mpfr_inf_p(x) && low)
        mpfr_set_zero(y, -1);
}

static void gelu(void)
{
    mpfr_set(t, x, MPFR_RNDN);
    cut(t, mpfr_signbit(x) ? 90 : 20);
    mpfr_sqrt_ui(u, 2, MPFR_RNDN);
    mpfr_div(t, t, u, MPFR_RNDN);
    mpfr_neg(t, t, MPFR_RNDN);
    mpfr_erfc(t, t, MPFR_RNDN);
    mpfr_div_ui(t, t, 2, MPFR_RNDN);
    mpfr_mul(y, t, x, MPFR_RNDN);
    if (mpfr_inf_p(x) && mpfr_signbit(x))
        mpfr_set_zero(y, -1);
}

static void gelu_tanh(void)
{
    mpfr_sqr(t, x, MPFR_RNDN);
    mpfr_set_str(u, "0.044715", 10, MPFR_RNDN);
    mpfr_mul(t, t, u, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
    mpfr_mul(t, t, x, MPFR_RNDN);
    mpfr_const_pi(u, MPFR_RNDN);
    mpfr_ui_div(u, 8, u, MPFR_RNDN);
    mpfr_sqrt(u, u, MPFR_RNDN);
    mpfr_mul(u, u, t, MPFR_RNDN);
    gate();
}

static void softplus(void)
{
    mpfr_abs(t, x, MPFR_RNDN);
    cut(t, mpfr_signbit(x) ? 3000 : 200);
    mpfr_neg(t, t, MPFR_RNDN);
    mpfr_exp(t, t, MPFR_RNDN);
    mpfr_log1p(y, t, MPFR_RNDN);
    if (mpfr_sgn(x) > 0)
        mpfr_add(y, y, x, MPFR_RNDN);
}

static void softsign(void)
{
    mpfr_abs(t, x, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
    mpfr_div(y, x, t, MPFR_RNDN);
    if (mpfr_inf_p(x))
        mpfr_set_si(y, mpfr_signbit(x) ? -1 : 1, MPFR_RNDN);
}

static void hardswish(void)
{
    mpfr_add_ui(t, x, 3, MPFR_RNDN);
    mpfr_mul(t, t, x, MPFR_RNDN);
    mpfr_div_ui(y, t, 6, MPFR_RNDN);
    if (mpfr_cmp_si(x, -3) <= 0)
        mpfr_set_zero(y, -1);
    if (mpfr_cmp_si(x, 3) >= 0)
        mpfr_set(y, x, MPFR_RNDN);
}

/* y = f(x), which may change x; x is no NaN. */
static void reference(limber_function f, double p, double q)
{
    switch (f) {
    case LIMBER_FUNCTION_SIN: mpfr_sin(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_COS: mpfr_cos(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_TAN: mpfr_tan(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ASIN: mpfr_asin(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ACOS: mpfr_acos(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ATAN: mpfr_atan(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_SINH: cut(x, 800), mpfr_sinh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_COSH: cut(x, 800), mpfr_cosh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_TANH: cut(x, 100), mpfr_tanh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ASINH: mpfr_asinh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ACOSH: mpfr_acosh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ATANH: mpfr_atanh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_EXP: cut(x, 800), mpfr_exp(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_EXPM1:
        if (!mpfr_inf_p(x) && mpfr_cmp_si(x, -200) < 0)
            mpfr_set_si(x, -200, MPFR_RNDN);
        cut(x, 800), mpfr_expm1(y, x, MPFR_RNDN);
        break;
    case LIMBER_FUNCTION_LOG: mpfr_log(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_LOG2: mpfr_log2(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_LOG10: mpfr_log10(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_LOG1P: mpfr_log1p(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_SQRT: mpfr_sqrt(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_RSQRT:
        mpfr_rec_sqrt(y, x, MPFR_RNDN);
        if (mpfr_zero_p(x)) /* IEEE 754: rSqrt(-0) is -infinity */
            mpfr_set_inf(y, mpfr_signbit(x) ? -1 : 1);
        break;
    case LIMBER_FUNCTION_RECIPROCAL: mpfr_ui_div(y, 1, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_SQUARE: mpfr_sqr(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ABS: mpfr_abs(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_NEG: mpfr_neg(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_FLOOR: mpfr_floor(y, x); break;
    case LIMBER_FUNCTION_CEIL: mpfr_ceil(y, x); break;
    case LIMBER_FUNCTION_ROUND: mpfr_roundeven(y, x); break;
    case LIMBER_FUNCTION_TRUNC: mpfr_trunc(y, x); break;
    case LIMBER_FUNCTION_RELU:
        mpfr_set(y, x, MPFR_RNDN);
        if (mpfr_sgn(x) < 0)
            mpfr_set_zero(y, 1);
        break;
    case LIMBER_FUNCTION_LEAKY_RELU:
        mpfr_set(y, x, MPFR_RNDN);
        if (mpfr_sgn(x) < 0)
            mpfr_mul_d(y, x, p, MPFR_RNDN);
        break;
    case LIMBER_FUNCTION_GELU: gelu(); break;
    case LIMBER_FUNCTION_GELU_TANH: gelu_tanh(); break;
    case LIMBER_FUNCTION_SILU: mpfr_set(u, x, MPFR_RNDN), gate(); break;
    case LIMBER_FUNCTION_SIGMOID:
        mpfr_set(u, x, MPFR_RNDN);
        mpfr_set_ui(x, 1, MPFR_RNDN);
        if (mpfr_inf_p(u))
            mpfr_set_ui(y, !mpfr_signbit(u), MPFR_RNDN);
        else
            gate();
        break;
    case LIMBER_FUNCTION_LOGSIGMOID:
        mpfr_neg(x, x, MPFR_RNDN), softplus(), mpfr_neg(y, y, MPFR_RNDN);
        break;
    case LIMBER_FUNCTION_SOFTSIGN: softsign(); break;
    case LIMBER_FUNCTION_SOFTPLUS: softplus(); break;
    case LIMBER_FUNCTION_TANH_SHRINK:
        mpfr_set(t, x, MPFR_RNDN), cut(t, 100), mpfr_tanh(t, t, MPFR_RNDN);
        mpfr_sub(y, x, t, MPFR_RNDN);
        if (mpfr_zero_p(x))
            mpfr_set(y, x, MPFR_RNDN);
        break;
    case LIMBER_FUNCTION_HARDSWISH: hardswish(); break;
    case LIMBER_FUNCTION_CLAMP:
        mpfr_set(y, x, MPFR_RNDN);
        if (mpfr_cmp_d(x, p) < 0)
            mpfr_set_d(y, p, MPFR_RNDN);
        if (mpfr_cmp_d(x, q) > 0)
            mpfr_set_d(y, q, MPFR_RNDN);
        break;
    case LIMBER_FUNCTION_ISNAN: mpfr_set_zero(y, 1); break;
    case LIMBER_FUNCTION_ISINF:
        mpfr_set_si(y, mpfr_inf_p(x) ? mpfr_signbit(x) ? -1 : 1 : 0, MPFR_RNDN);
        break;
    default: mpfr_set(y, x, MPFR_RNDN);
    }
}

/* y as a double, rounded to odd, which keeps what a narrower format needs. */
static double to_odd(void)
{
    double d = mpfr_get_d(y, MPFR_RNDZ);
    uint64_t bits;

    if (mpfr_cmp_d(y, d) == 0 || mpfr_nan_p(y))
        return d;
    memcpy(&bits, &d, sizeof bits);
    bits |= 1;
    memcpy(&d, &bits, sizeof d);
    return d == 0 ? (mpfr_signbit(y) ? -0x1p-1074 : 0x1p-1074) : d;
}

/* 1 - tanh x and so on need many bits where x is large, x - sin x where it is small. */
static void set_precision(mpfr_prec_t bits)
{
    mpfr_set_prec(x, bits);
    mpfr_set_prec(y, bits);
    mpfr_set_prec(t, bits);
    mpfr_set_prec(u, bits);
}

static double expected(limber_function f, const struct fn_args *a, double from)
{
    if (from != from)
        return f == LIMBER_FUNCTION_ISNAN ? 1 : f == LIMBER_FUNCTION_ISINF ? 0 : from;
    set_precision(fabs(from) < 8 && from != 0 ? USUAL + 2 * abs(ilogb(from)) : MOST);
    mpfr_set_d(x, from, MPFR_RNDN);
    reference(f, a->p, a->q);
    return to_odd();
}

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

static void check(limber_function f, limber_format format, double from)
{
    struct fn_args a = arguments(f, format);
    double got = limber_function_value(f, &a, from), want = expected(f, &a, from);
    unsigned char one[8], other[8];

    for (int mode = 0; mode <= LIMBER_ROUND_ODD; mode++) {
        encode(format, got, mode, one);
        encode(format, want, mode, other);
        if (memcmp(one, other, 8))
            fail_msg("%s(%a) in direction %d: %a, not %a", limber_function_at((int)f, NULL, NULL),
                     from, mode, got, want);
    }
}

/* All values of a format, in all directions. */
static void check_all(limber_format format)
{
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++)
        for (unsigned code = 0; code < 1u << 8 * format.size; code += STEP) {
            uint16_t wide = (uint16_t)code;
            uint8_t narrow = (uint8_t)code;
            double from;

            limber_convert(&from, LIMBER_F64, format.size == 1 ? (void *)&narrow : (void *)&wide,
                           format, 1, LIMBER_ROUND_NEAREST);
            check((limber_function)f, format, from);
        }
}

static void test_bytes(void **state)
{
    (void)state;
    check_all(LIMBER_E4M3);
    check_all(LIMBER_E5M2);
}

static void test_f16(void **state)
{
    (void)state;
    check_all(LIMBER_F16);
}

static void test_bf16(void **state)
{
    (void)state;
    check_all(LIMBER_BF16);
}

/* ---- binary32, binary64 ---------------------------------------------------------------------- */

static uint64_t draw(void)
{
    return (uint64_t)mrand48() << 32 ^ (uint64_t)mrand48() << 11 ^ (uint64_t)mrand48();
}

/* Any exponent, or those of usual numbers. */
static double draw_double(int i)
{
    uint64_t bits = draw(), field = i % 2 ? bits >> 52 & 2047 : 1023 - 12 + (bits >> 52) % 20;
    double d;

    bits = (bits & 0x800fffffffffffffu) | field << 52;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* The error of `got` in units of the last place of the exact value in y. */
static double error_of(double got, int bits, int least)
{
    mpfr_exp_t e = mpfr_get_exp(y) - bits;

    mpfr_sub_d(t, y, got, MPFR_RNDN);
    mpfr_div_2si(t, t, e > least ? e : least, MPFR_RNDN);
    return fabs(mpfr_get_d(t, MPFR_RNDN));
}

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
            want = expected((limber_function)f, &a, from);
            if (!isfinite((float)want) || want == 0) {
                assert_true((float)want == got || (want != want && got != got));
            } else if (error_of(got, 24, -149) > 0.501) {
                fail_msg("%s(%a) = %a, not %a", limber_function_at(f, NULL, NULL), from, got, want);
            }
        }
}

/* docs/operators.md states this bound. */
enum { MOST_ULP = 3 };

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
            want = expected((limber_function)f, &a, from);
            if (!isfinite(want) || fabs(want) < 0x1p-1073 || !isfinite(got)) {
                if (want != got && !(want != want && got != got) && fabs(want - got) > 0x1p-1072 &&
                    fabs(want) <= 0x1.ffffffffffffep+1023)
                    fail_msg("%s(%a) = %a, not %a", limber_function_at(f, NULL, NULL), from, got,
                             want);
                continue;
            }
            error = error_of(got, 53, -1074);
            worst = error > worst ? error : worst;
            if (error > MOST_ULP)
                fail_msg("%s(%a) = %a, not %a: %g ulp", limber_function_at(f, NULL, NULL), from,
                         got, want, error);
        }
        print_message("%-12s %.2f ulp of binary64\n", limber_function_at(f, NULL, NULL), worst);
    }
}

/* Where functions change their ways. */
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
                    check((limber_function)f, LIMBER_F16, sign * from);
                    check((limber_function)f, LIMBER_BF16, sign * from);
                    check((limber_function)f, LIMBER_F32, sign * from);
                }
}

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
        cmocka_unit_test(test_names), cmocka_unit_test(test_edges), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_f32),   cmocka_unit_test(test_f64),   cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bf16),
    };

    mpfr_inits2(MOST, x, y, t, u, (mpfr_ptr)NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
