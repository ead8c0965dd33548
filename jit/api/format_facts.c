/* SPDX-License-Identifier: BSD-3-Clause
 * limber_format_describe and limber_format_spacing: properties of formats. */
#include "jit/api/api.h"

#include <math.h>

static const double log10_of_2 = 0.30102999566398119521;

/* Fills the facts that are specific to floats. */
static void describe_float(limber_format f, limber_format_facts *to)
{
    int p = limber_format_sig(f);

    to->normal_exponent = 1 - f.bias;
    to->has_infinity = !(f.flags & (LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_FINITE));
    to->has_nan = !(f.flags & LIMBER_FORMAT_FINITE);
    to->has_negative_zero = !(f.flags & LIMBER_FORMAT_NO_MINUS_ZERO);
    to->largest = limber_format_largest(f);
    to->lowest = -to->largest;
    to->normal = ldexp(1, to->normal_exponent);
    to->smallest = ldexp(1, to->smallest_exponent);
    to->overflow = to->largest + ldexp(1, to->largest_exponent - p);
    to->underflow = ldexp(1, to->smallest_exponent - 1);
    to->exact_integers = fmin(ldexp(1, p), floor(to->largest));
    if (to->smallest_exponent > 0) /* then 1 is not a number of the format */
        to->exact_integers = 0;
    /* both signs of the normal numbers in each range [2^e, 2^(e+1)), and zero */
    to->finite_values = 2 * ldexp(to->largest_exponent - to->normal_exponent + 1, f.frac_bits) + 1;
    if (f.flags & LIMBER_FORMAT_NO_INF && f.frac_bits && to->has_negative_zero)
        to->finite_values -= 2; /* the code of all ones, with either sign, is NaN */
    if (!(f.flags & LIMBER_FORMAT_NO_SUBNORMAL))
        to->finite_values += 2 * (ldexp(1, f.frac_bits) - 1);
}

/* Fills the facts of an integer format. */
static void describe_integer(limber_format f, limber_format_facts *to)
{
    int bits = limber_format_sig(f);

    to->largest = ldexp(1, bits) - 1;
    to->lowest = f.kind == LIMBER_KIND_UINT ? 0 : -ldexp(1, bits);
    to->normal = to->smallest = 1;
    to->overflow = to->largest + 0.5;
    to->underflow = 0.5;
    to->exact_integers = to->largest;
    to->finite_values = f.kind == LIMBER_KIND_SHORT ? ldexp(2, bits) : ldexp(1, 8 * f.size);
}

/* Fills the properties of a posit.  A posit has one fraction bit less for every 2^exp_bits
 * doublings above 1. */
static void describe_posit(limber_format f, limber_format_facts *to)
{
    int step = 1 << f.exp_bits, e = 0;

    while (f.frac_bits - (e / step > 0 ? e / step : 0) >= e)
        e++;
    to->exact_integers = ldexp(1, e);
    to->normal_exponent = -step;
    to->normal = ldexp(1, to->normal_exponent);
    to->smallest = ldexp(1, to->smallest_exponent);
    to->largest = to->overflow = ldexp(1, to->largest_exponent);
    to->finite_values = ldexp(1, 8 * f.size) - 1;
    to->has_nan = 1;
}

/* Fills the facts of a format whose elements are powers of two. */
static void describe_power(limber_format f, limber_format_facts *to)
{
    to->normal_exponent = to->smallest_exponent;
    to->normal = to->smallest = ldexp(1, to->smallest_exponent);
    to->largest = ldexp(1, to->largest_exponent);
    to->overflow = 1.5 * to->largest;
    to->exact_integers = 2;
    to->finite_values = ldexp(1, f.exp_bits) - 1;
    to->has_nan = 1;
}

/* Computes the facts of a format: precision, range, special values. */
limber_status limber_format_describe(limber_format f, limber_format_facts *out)
{
    struct diag d = { 0 };
    limber_format_facts to = { .significant_bits = limber_format_sig(f) };
    int p = to.significant_bits;
    bool integer = limber_is_integer(f) || f.kind == LIMBER_KIND_SHORT;

    if (!out)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "out is NULL");
    else if (limber_sized_check(out, LEAST_format_facts, "out", &d))
        limber_format_check("f", f, &d);
    if (d.status) {
        limber_fail_in(&d, "format_describe");
        return limber_error_set(&d);
    }
    to.largest_exponent = integer ? p - 1 : limber_format_emax(f);
    to.smallest_exponent = limber_format_emin(f);
    to.epsilon = integer ? 1 : ldexp(1, 1 - p);
    to.roundoff = limber_format_roundoff(f);
    to.decimal_digits = p * log10_of_2;
    to.digits_kept = (int)floor((integer ? p : p - 1) * log10_of_2);
    to.digits_needed = (int)ceil(p * log10_of_2 + (integer ? 0 : 1));
    if (f.kind == LIMBER_KIND_FLOAT)
        describe_float(f, &to);
    else if (integer)
        describe_integer(f, &to);
    else if (f.kind == LIMBER_KIND_POSIT)
        describe_posit(f, &to);
    else if (f.kind == LIMBER_KIND_POWER)
        describe_power(f, &to);
    else { /* dd: the range of binary64; numbers have p bits only while the low part is normal */
        limber_format_facts half = { .size = sizeof half };

        describe_float(LIMBER_F64, &half);
        to.normal_exponent = -1022 + 53;
        to.normal = ldexp(1, to.normal_exponent);
        to.smallest = ldexp(1, to.smallest_exponent);
        to.largest = half.largest;
        to.lowest = -half.largest;
        to.overflow = INFINITY;
        to.underflow = 0;
        to.has_infinity = to.has_nan = to.has_negative_zero = 1;
        to.exact_integers = ldexp(1, p);
    }
    limber_copy_sized_out(out, &to, sizeof to);
    return limber_error_set(&d);
}

/* Computes the distance 2^*spacing of neighbouring numbers of f in [2^exponent,
 * 2^(exponent+1)). */
limber_status limber_format_spacing(limber_format f, int exponent, int *spacing)
{
    struct diag d = { 0 };
    char name[32];

    if (!spacing)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "spacing is NULL");
    else if (limber_format_check("f", f, &d) && f.kind != LIMBER_KIND_FLOAT)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "f: %s has no binades",
                    limber_format_name(f, name, sizeof name));
    else if (!d.status && (exponent < limber_format_emin(f) || exponent > limber_format_emax(f)))
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "exponent = %d: numbers of %s go from %d to %d",
                    exponent, limber_format_name(f, name, sizeof name), limber_format_emin(f),
                    limber_format_emax(f));
    else if (!d.status)
        *spacing = exponent < 1 - f.bias ? limber_format_quantum(f) : exponent - f.frac_bits;
    if (d.status)
        limber_fail_in(&d, "format_spacing");
    return limber_error_set(&d);
}
