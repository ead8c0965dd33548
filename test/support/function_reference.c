/* SPDX-License-Identifier: BSD-3-Clause
 * Reference for every elementwise function: evaluates its mathematical definition in MPFR. */
#include "function_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* precision in bits: USUAL for |x| < 8; more for other exponents; at most MOST */
enum { USUAL = 160, MOST = 440 };

static mpfr_t x, y, t, u; /* the argument, the value, and temporaries */
static bool ready;

/* Clamps v to [-most, most].  Beyond that the exponential is so large or small that the function's
 * value rounds to the same number in all formats. */
static void limit(mpfr_t v, double most)
{
    if (mpfr_inf_p(v))
        return;
    if (mpfr_cmp_d(v, most) > 0)
        mpfr_set_d(v, most, MPFR_RNDN);
    if (mpfr_cmp_d(v, -most) < 0)
        mpfr_set_d(v, -most, MPFR_RNDN);
}

/* Computes y = x / (1 + e^-u).  x is not NaN. */
static void gate(void)
{
    int low = mpfr_signbit(x);

    limit(u, mpfr_signbit(u) ? 3000 : 200);
    mpfr_neg(t, u, MPFR_RNDN);
    mpfr_exp(t, t, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
    mpfr_div(y, x, t, MPFR_RNDN);
    if (mpfr_inf_p(x) && low)
        mpfr_set_zero(y, -1);
}

/* Computes y = gelu(x) = x erfc(-x / sqrt(2)) / 2.  Large |x| are limited, since there the
 * function is 0 or x to all bits. */
static void gelu(void)
{
    mpfr_set(t, x, MPFR_RNDN);
    limit(t, mpfr_signbit(x) ? 90 : 20);
    mpfr_sqrt_ui(u, 2, MPFR_RNDN);
    mpfr_div(t, t, u, MPFR_RNDN);
    mpfr_neg(t, t, MPFR_RNDN);
    mpfr_erfc(t, t, MPFR_RNDN);
    mpfr_div_ui(t, t, 2, MPFR_RNDN);
    mpfr_mul(y, t, x, MPFR_RNDN);
    if (mpfr_inf_p(x) && mpfr_signbit(x))
        mpfr_set_zero(y, -1);
}

/* Computes y = gelu(x) by its approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2,
 * as a logistic function of twice the tanh's argument. */
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
    limit(t, mpfr_signbit(x) ? 3000 : 200);
    mpfr_neg(t, t, MPFR_RNDN);
    mpfr_exp(t, t, MPFR_RNDN);
    mpfr_log1p(y, t, MPFR_RNDN);
    if (mpfr_sgn(x) > 0)
        mpfr_add(y, y, x, MPFR_RNDN);
}

static void softsign(void)
{
    mpfr_abs(t, x, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDU); /* rounds up, so that the function's value stays below 1 */
    mpfr_div(y, x, t, MPFR_RNDZ);
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

/* Computes y = f(x) for an x that is not NaN.  May change x. */
static void reference(limber_function f, double p, double q)
{
    switch (f) {
    case LIMBER_FUNCTION_SIN: mpfr_sin(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_COS: mpfr_cos(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_TAN: mpfr_tan(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ASIN: mpfr_asin(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ACOS: mpfr_acos(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ATAN: mpfr_atan(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_SINH: limit(x, 800), mpfr_sinh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_COSH: limit(x, 800), mpfr_cosh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_TANH: limit(x, 100), mpfr_tanh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ASINH: mpfr_asinh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ACOSH: mpfr_acosh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_ATANH: mpfr_atanh(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_EXP: limit(x, 800), mpfr_exp(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_EXPM1:
        if (!mpfr_inf_p(x) && mpfr_cmp_si(x, -200) < 0)
            mpfr_set_si(x, -200, MPFR_RNDN);
        limit(x, 800), mpfr_expm1(y, x, MPFR_RNDN);
        break;
    case LIMBER_FUNCTION_LOG: mpfr_log(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_LOG2: mpfr_log2(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_LOG10: mpfr_log10(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_LOG1P: mpfr_log1p(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_SQRT: mpfr_sqrt(y, x, MPFR_RNDN); break;
    case LIMBER_FUNCTION_RSQRT:
        mpfr_rec_sqrt(y, x, MPFR_RNDN);
        if (mpfr_zero_p(x)) /* IEEE 754: rSqrt(-0) is -infinity, MPFR returns +infinity */
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
        mpfr_set(t, x, MPFR_RNDN), limit(t, 100), mpfr_tanh(t, t, MPFR_RNDN);
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

/* Returns y rounded to odd in binary64, so that a later rounding to fewer bits gives the correctly
 * rounded y. */
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

/* Sets the precision of all variables.  1 - tanh x cancels for large x, and x - sin x for small
 * x. */
static void set_precision(mpfr_prec_t bits)
{
    if (!ready)
        mpfr_inits2(MOST, x, y, t, u, (mpfr_ptr)NULL);
    ready = true;
    mpfr_set_prec(x, bits);
    mpfr_set_prec(y, bits);
    mpfr_set_prec(t, bits);
    mpfr_set_prec(u, bits);
}

/* Returns a function's value rounded to odd. */
double ref_function(limber_function f, double p, double q, double from)
{
    if (from != from)
        return f == LIMBER_FUNCTION_ISNAN ? 1 : f == LIMBER_FUNCTION_ISINF ? 0 : from;
    set_precision(fabs(from) < 8 && from != 0 ? USUAL + 2 * abs(ilogb(from)) : MOST);
    mpfr_set_d(x, from, MPFR_RNDN);
    reference(f, p, q);
    return to_odd();
}

/* Returns the error of `got`, compared with the last value of ref_function, in units of the last of
 * `bits` bits or 2^least. */
double ref_function_error(double got, int bits, int least)
{
    mpfr_exp_t e = mpfr_get_exp(y) - bits;

    mpfr_sub_d(t, y, got, MPFR_RNDN);
    mpfr_div_2si(t, t, e > least ? e : least, MPFR_RNDN);
    return fabs(mpfr_get_d(t, MPFR_RNDN));
}
