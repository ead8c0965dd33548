/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include "codes.h"

#include "ir/ir.h"
#include "ir/poison.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Fills new memory with a pattern, in every test that uses this file, so that memory that the
 * library forgets to write is neither zero nor an earlier result. */
__attribute__((constructor)) static void poison_memory(void)
{
    limber_poisons = true;
    mallopt(M_PERTURB, 0x5b);
}

bool is_long(void)
{
    return getenv("LIMBER_TEST_LONG") != NULL;
}

/* Returns whether a loop takes case i.  The first case depends on the build and on the simulated
 * GPU's capability, so that builds take different cases. */
bool is_taken(size_t i, int step)
{
    const char *capability = getenv("SIMT_CC");
    size_t first =
        (size_t)(SANITIZED + EMULATED) + (capability ? strtoul(capability, NULL, 10) / 10 : 0);

    return step <= 1 || is_long() || getenv("LIMBER_TEST_GPU") || (i + first) % (size_t)step == 0;
}

char *poisoned(size_t bytes)
{
    char *p = malloc(bytes + 1);

    assert_non_null(p);
    limber_poison_fill(p, bytes + 1);
    return p;
}

static bool is_nan(limber_format f, const void *p)
{
    double x;

    return f.kind != LIMBER_KIND_INT && f.kind != LIMBER_KIND_UINT &&
           limber_convert(&x, named("f64"), p, f, 1, LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK &&
           x != x;
}

bool same_number(limber_format f, const void *x, const void *y)
{
    return memcmp(x, y, f.size) == 0 || (is_nan(f, x) && is_nan(f, y));
}

int64_t first_difference(limber_format f, const void *want, const void *got, size_t count,
                         double value[2])
{
    for (size_t i = 0; i < count; i++) {
        const char *due = (const char *)want + i * f.size, *has = (const char *)got + i * f.size;

        if (same_number(f, due, has))
            continue;
        limber_convert(&value[0], named("f64"), due, f, 1, LIMBER_ROUND_NEAREST);
        limber_convert(&value[1], named("f64"), has, f, 1, LIMBER_ROUND_NEAREST);
        return (int64_t)i;
    }
    return -1;
}

void assert_same_numbers(limber_format f, const void *want, const void *got, size_t count,
                         const char *text, ...)
{
    double value[2];
    int64_t at = first_difference(f, want, got, count, value);
    char what[256];
    va_list arguments;

    if (at < 0)
        return;
    va_start(arguments, text);
    vsnprintf(what, sizeof what, text, arguments);
    va_end(arguments);
    fail_msg("%s: element %lld is %a, not %a", what, (long long)at, value[1], value[0]);
}

uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int rng_below(struct rng *r, int n)
{
    return (int)(rng_next(r) % (uint64_t)n);
}

double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

limber_format named(const char *name)
{
    limber_format f;

    assert_int_equal(limber_format_named(name, &f), LIMBER_STATUS_OK);
    return f;
}

void store_scalar(char *to, limber_format c, double value)
{
    limber_convert(to, limber_scalar_format(c), &value, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
}

const char *data_name(enum data d)
{
    static const char *const names[] = { "unit", "bytes", "ints",    "spread", "range",
                                         "tiny", "zeros", "special", "ties",   "nothing" };

    return names[d];
}

/* Draws a number of kind d for fill().  `top` is about the largest exponent of the format. */
static double draw_number(struct rng *r, enum data d, limber_format f)
{
    int top = f.kind == LIMBER_KIND_FLOAT || f.kind == LIMBER_KIND_POWER ? f.bias :
              f.kind == LIMBER_KIND_POSIT ? (8 * f.size - 2) << f.exp_bits :
                                            1022;
    double x = 2 * rng_unit(r) - 1;

    top = top > 1000 ? 1000 : top;
    switch (d) {
    case DATA_bytes: return rng_below(r, 256);
    case DATA_ints: return rng_below(r, 65535) - 32767;
    case DATA_spread: return ldexp(x, rng_below(r, top > 40 ? 40 : top) - 20);
    case DATA_range: return ldexp(x, rng_below(r, top) - top / 2);
    case DATA_tiny: return ldexp(x, -top - rng_below(r, 12));
    case DATA_zeros: return rng_below(r, 8) ? copysign(0, x) : x;
    case DATA_special: return rng_below(r, 40) ? x : rng_below(r, 3) ? copysign(INFINITY, x) : NAN;
    case DATA_nothing: return copysign(0, x);
    case DATA_ties: return rng_below(r, 7) - 3 + (rng_below(r, 2) ? 0x1p-11 : 0x1p-24);
    default: return x;
    }
}

/* Fills `count` elements of format f with random numbers of kind d. */
void fill(struct rng *r, enum data d, limber_format f, void *p, size_t count)
{
    bool integer = f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;

    for (size_t i = 0; i < count; i++) {
        double x = draw_number(r, d, f);

        if (integer && d != DATA_bytes && d != DATA_ints)
            x = isfinite(x) ? ldexp(x, 8 * f.size - 1) : 0;
        assert_int_equal(
            limber_convert((char *)p + i * f.size, f, &x, named("f64"), 1, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_OK);
        /* Half of the numbers of double-double and binary128 get random low bits. */
        if (!integer && isfinite(x) && x != 0 && d <= DATA_spread && d != DATA_bytes &&
            d != DATA_ints && rng_below(r, 2)) {
            if (f.kind == LIMBER_KIND_DD) {
                double part[2] = { x, ldexp(2 * rng_unit(r) - 1, ilogb(x) - 54) };

                memcpy((char *)p + i * 16, part, 16);
            } else if (f.size == 16) {
                uint64_t low = rng_next(r);

                memcpy((char *)p + i * 16, &low, 7);
            }
        }
    }
}

/* ---- MPFR ------------------------------------------------------------------------------------ */

/* Loads a float from its bits, exactly.  The bits are those of the format, or those of binary32 or
 * binary64 if its elements are stored as such. */
static void load_bits(mpfr_t x, limber_format f, const unsigned char *p)
{
    int e = f.carried ? (f.size == 4 ? 8 : 11) : f.exp_bits;
    int m = f.carried ? (f.size == 4 ? 23 : 52) : f.frac_bits;
    int bias = f.carried ? (f.size == 4 ? 127 : 1023) : f.bias;
    bool finite = !f.carried && (f.flags & LIMBER_FORMAT_FINITE),
         no_inf = !f.carried && (f.flags & LIMBER_FORMAT_NO_INF), all_ones = true;
    bool uz = !f.carried && f.flags & LIMBER_FORMAT_NO_MINUS_ZERO, minus;
    int field = 0;

    mpfr_set_zero(x, 1);
    for (int i = 0; i < m; i++) {
        int bit = p[i / 8] >> i % 8 & 1;

        all_ones &= bit;
        if (bit) {
            mpfr_t t;

            mpfr_init2(t, 2);
            mpfr_set_ui_2exp(t, 1, i, MPFR_RNDN);
            mpfr_add(x, x, t, MPFR_RNDN);
            mpfr_clear(t);
        }
    }
    for (int i = 0; i < e; i++)
        field |= (p[(m + i) / 8] >> (m + i) % 8 & 1) << i;
    minus = p[(m + e) / 8] >> (m + e) % 8 & 1;
    if (uz && minus && !field && mpfr_zero_p(x)) {
        mpfr_set_nan(x);
    } else if (!finite && !uz && field == (1 << e) - 1 && (no_inf ? all_ones : true)) {
        if (!no_inf && mpfr_zero_p(x))
            mpfr_set_inf(x, 1);
        else
            mpfr_set_nan(x);
    } else {
        if (field)
            mpfr_add_d(x, x, ldexp(1, m), MPFR_RNDN);
        mpfr_mul_2si(x, x, (field ? field : 1) - bias - m, MPFR_RNDN);
    }
    if (minus)
        mpfr_neg(x, x, MPFR_RNDN);
}

/* Sets x to the number of format f at p, exactly, without the library's conversion. */
void ref_load(mpfr_t x, limber_format f, const void *p)
{
    int64_t v = 0;
    double part[2];

    switch (f.kind) {
    case LIMBER_KIND_DD:
        memcpy(part, p, 16);
        mpfr_set_d(x, part[0], MPFR_RNDN);
        if (isfinite(part[0]))
            mpfr_add_d(x, x, part[1], MPFR_RNDN);
        break;
    case LIMBER_KIND_INT:
        memcpy(&v, p, f.size);
        v = (int64_t)((uint64_t)v << (64 - 8 * f.size)) >> (64 - 8 * f.size);
        mpfr_set_sj(x, v, MPFR_RNDN);
        break;
    case LIMBER_KIND_UINT:
        memcpy(&v, p, f.size);
        mpfr_set_uj(x, (uintmax_t)v, MPFR_RNDN);
        break;
    case LIMBER_KIND_FLOAT: load_bits(x, f, p); break;
    default: memcpy(&v, p, f.size); mpfr_set_d(x, ref_value_of_bits(f, (uint64_t)v), MPFR_RNDN);
    }
}

static bool same_value(const mpfr_t x, const mpfr_t y)
{
    if (mpfr_nan_p(x) || mpfr_nan_p(y))
        return mpfr_nan_p(x) && mpfr_nan_p(y);
    return mpfr_equal_p(x, y) && (!mpfr_zero_p(x) || mpfr_signbit(x) == mpfr_signbit(y));
}

/* Rounds x to a float format, with the format's range and special values. */
static void round_float(mpfr_t x, limber_format f)
{
    mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    int t;

    mpfr_set_emin(1 - f.bias - f.frac_bits + 1);
    mpfr_set_emax((1 << f.exp_bits) - 1 - f.bias + ((f.flags & LIMBER_FORMAT_NO_INF) != 0));
    t = mpfr_prec_round(x, f.frac_bits + 1, MPFR_RNDN);
    t = mpfr_check_range(x, t, MPFR_RNDN);
    mpfr_subnormalize(x, t, MPFR_RNDN);
    /* In these formats the pattern of all ones is NaN, which is also the result of overflow. */
    if (f.flags & LIMBER_FORMAT_NO_INF) {
        mpfr_t last;

        mpfr_init2(last, 200);
        mpfr_set_d(last,
                   2 - (f.flags & LIMBER_FORMAT_NO_MINUS_ZERO ? 1 : 2) * ldexp(1, -f.frac_bits),
                   MPFR_RNDN);
        mpfr_mul_2si(last, last, (1 << f.exp_bits) - 1 - f.bias, MPFR_RNDN);
        if (mpfr_cmpabs(x, last) > 0)
            mpfr_set_nan(x);
        if (mpfr_zero_p(x) && f.flags & LIMBER_FORMAT_NO_MINUS_ZERO)
            mpfr_set_zero(x, 1);
        mpfr_clear(last);
    }
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
}

/* True if *p is x as double-double: the high part is x rounded, the low part x minus that,
 * rounded. */
static bool rounds_to_dd(const mpfr_t x, const void *p)
{
    double part[2], high, low;
    mpfr_t rest;

    memcpy(part, p, 16);
    high = mpfr_get_d(x, MPFR_RNDN);
    mpfr_init2(rest, REF_BITS);
    mpfr_sub_d(rest, x, high, MPFR_RNDN);
    low = isfinite(high) ? mpfr_get_d(rest, MPFR_RNDN) : 0;
    mpfr_clear(rest);
    if (isnan(high))
        return isnan(part[0]);
    return part[0] == high && part[1] == low;
}

/* True if the element at p is x rounded once to nearest, ties to even. */
bool ref_rounds_to(const mpfr_t x, limber_format f, const void *p)
{
    mpfr_t want, got;
    bool ok;

    if (f.kind == LIMBER_KIND_DD)
        return rounds_to_dd(x, p);
    if (ref_is_coded(f)) {
        uint64_t code = 0;

        memcpy(&code, p, f.size);
        return code == ref_nearest_code(f, x);
    }
    mpfr_init2(want, REF_BITS);
    mpfr_init2(got, REF_BITS);
    mpfr_set(want, x, MPFR_RNDN);
    if (f.kind == LIMBER_KIND_FLOAT)
        round_float(want, f);
    ref_load(got, f, p);
    ok = same_value(want, got);
    mpfr_clear(want);
    mpfr_clear(got);
    return ok;
}

/* Computes the exact sum of a[i] b[i], and that of |a[i] b[i]|. sa, sb: distance of elements. */
void ref_dot(mpfr_t sum, mpfr_t absolute, limber_format fa, const void *a, int64_t sa,
             limber_format fb, const void *b, int64_t sb, int64_t k)
{
    mpfr_t x, y;

    mpfr_init2(x, 2200);
    mpfr_init2(y, 2200);
    mpfr_set_zero(sum, 1);
    mpfr_set_zero(absolute, 1);
    for (int64_t p = 0; p < k; p++) {
        mpfr_t z;

        mpfr_init2(z, 4400);
        ref_load(x, fa, (const char *)a + p * sa * fa.size);
        ref_load(y, fb, (const char *)b + p * sb * fb.size);
        mpfr_mul(z, x, y, MPFR_RNDN);
        mpfr_add(sum, sum, z, MPFR_RNDN);
        mpfr_abs(z, z, MPFR_RNDN);
        mpfr_add(absolute, absolute, z, MPFR_RNDN);
        mpfr_clear(z);
    }
    mpfr_clear(x);
    mpfr_clear(y);
}

/* True if the number at p is NaN or the infinity that x is. */
bool ref_is_same_special(const mpfr_t x, limber_format f, const void *p)
{
    mpfr_t got;
    bool ok;

    mpfr_init2(got, 300);
    ref_load(got, f, p);
    ok = mpfr_nan_p(x) ? mpfr_nan_p(got) != 0 :
                         mpfr_inf_p(got) && mpfr_signbit(got) == mpfr_signbit(x);
    mpfr_clear(got);
    return ok;
}

/* Returns |*p - x| / scale, rounded up; 0 if the two are equal. */
double ref_error(const mpfr_t x, limber_format f, const void *p, const mpfr_t scale)
{
    mpfr_t got;
    double e;

    mpfr_init2(got, REF_BITS);
    ref_load(got, f, p);
    mpfr_sub(got, got, x, MPFR_RNDN);
    if (mpfr_zero_p(got)) {
        e = 0;
    } else {
        mpfr_div(got, got, scale, MPFR_RNDN);
        e = fabs(mpfr_get_d(got, MPFR_RNDU));
    }
    mpfr_clear(got);
    return e;
}
