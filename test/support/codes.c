/* SPDX-License-Identifier: BSD-3-Clause */
#include "codes.h"

#include <math.h>

/* Returns the value of a posit of `bits` bits with two exponent bits (es = 2): a sign, a run of
 * equal bits (the regime), the exponent, the fraction.  NaN for NaR. */
double ref_posit(int bits, uint64_t code)
{
    uint64_t sign = (uint64_t)1 << (bits - 1);
    double x = 0, weight = 1;
    int at = bits - 2, first, regime = 0, e = 0;

    code &= 2 * sign - 1;
    if (code == sign)
        return NAN;
    if (code > sign)
        return -ref_posit(bits, 2 * sign - code);
    if (code == 0)
        return 0;
    first = (int)(code >> at & 1);
    while (at >= 0 && (int)(code >> at & 1) == first) {
        regime++;
        at--;
    }
    regime = first ? regime - 1 : -regime;
    at--; /* skips the bit that ends the regime */
    for (int i = 0; i < 2; i++, at--) /* two exponent bits; bits beyond the end are 0 */
        e = 2 * e + (at >= 0 ? (int)(code >> at & 1) : 0);
    for (x = 1; at >= 0; at--) {
        weight /= 2;
        x += (double)(code >> at & 1) * weight;
    }
    return ldexp(x, 4 * regime + e);
}

bool ref_is_coded(limber_format f)
{
    return f.kind == LIMBER_KIND_POSIT || f.kind == LIMBER_KIND_SHORT ||
           f.kind == LIMBER_KIND_POWER;
}

double ref_value_of_bits(limber_format f, uint64_t code)
{
    int bits = f.frac_bits + 1, low;

    switch (f.kind) {
    case LIMBER_KIND_POSIT: return ref_posit(8 * f.size, code);
    case LIMBER_KIND_POWER: return code == 255 ? NAN : ldexp(1, (int)code - 127);
    default:
        low = (int)(code % ((uint64_t)1 << bits));
        return low >> (bits - 1) ? low - (1 << bits) : low;
    }
}

/* Rounds x to a posit as the standard prescribes.  If x lies between the posits with codes u and u
 * + 1, it is compared with the posit of one more bit between them; at that value the even code is
 * taken.  A nonzero x never becomes 0 or NaR. */
static uint64_t nearest_posit(int bits, const mpfr_t x)
{
    uint64_t low = 0, high = ((uint64_t)1 << (bits - 1)) - 1, most = high, code;
    mpfr_t absolute;
    int order;

    mpfr_init2(absolute, mpfr_get_prec(x));
    mpfr_abs(absolute, x, MPFR_RNDN);
    /* invariant: low <= |x|, and |x| < high unless |x| is at least the largest posit */
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;

        if (mpfr_cmp_d(absolute, ref_posit(bits, middle)) >= 0)
            low = middle;
        else
            high = middle;
    }
    order = mpfr_cmp_d(absolute, ref_posit(bits + 1, 2 * low + 1));
    if (mpfr_cmp_d(absolute, ref_posit(bits, most)) >= 0)
        code = most;
    else if (low == 0)
        code = 1;
    else
        code = order > 0 || (order == 0 && low & 1) ? low + 1 : low;
    mpfr_clear(absolute);
    return mpfr_signbit(x) ? ((uint64_t)1 << bits) - code : code;
}

/* Rounds x to a power of two.  A midpoint 1.5 * 2^e is rounded up.  255 is NaN, also for x <= 0. */
static uint64_t nearest_power(limber_format f, const mpfr_t x)
{
    int e;

    if (mpfr_cmp_ui(x, 0) <= 0)
        return 255;
    e = (int)(mpfr_get_exp(x) - 1);
    e += (mpfr_cmp_ui_2exp(x, 3, e - 1) >= 0) + f.bias;
    return e < 0 ? 0 : e > 254 ? 255 : (uint64_t)e;
}

/* Returns the bit pattern of x rounded to nearest in a posit, power-of-two or short integer format.
 * Short integers saturate, and are 0 for NaN. */
uint64_t ref_nearest_code(limber_format f, const mpfr_t x)
{
    long most = (1L << f.frac_bits) - 1, v;
    mpfr_t whole;

    if (f.kind != LIMBER_KIND_SHORT && !mpfr_number_p(x))
        return f.kind == LIMBER_KIND_POWER ? 255 : (uint64_t)1 << (8 * f.size - 1);
    if (f.kind == LIMBER_KIND_POSIT)
        return mpfr_zero_p(x) ? 0 : nearest_posit(8 * f.size, x);
    if (f.kind == LIMBER_KIND_POWER)
        return nearest_power(f, x);
    if (mpfr_nan_p(x))
        return 0;
    mpfr_init2(whole, 64);
    mpfr_rint(whole, x, MPFR_RNDN); /* ties to even */
    v = mpfr_cmp_si(whole, most) > 0      ? most :
        mpfr_cmp_si(whole, -most - 1) < 0 ? -most - 1 :
                                            mpfr_get_si(whole, MPFR_RNDN);
    mpfr_clear(whole);
    return (uint64_t)v & (uint64_t)(2 * most + 1);
}
