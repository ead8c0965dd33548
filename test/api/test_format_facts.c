/* SPDX-License-Identifier: BSD-3-Clause
 * Compares limber_format_describe and limber_format_spacing with all bit patterns of 8- and 16-bit
 * formats, with float.h, and with conversions of numbers next to thresholds. */
#include "contexts.h"
#include "support.h"

#include "jit/api/api.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static limber_format_facts facts_of(limber_format f)
{
    limber_format_facts x = LIMBER_FORMAT_FACTS_INIT;

    if (limber_format_describe(f, &x))
        fail_msg("%s", limber_error_text());
    return x;
}

/* Returns v rounded to the format. */
static double converted(limber_format f, double v)
{
    char code[16];
    double back;

    limber_convert(code, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    limber_convert(&back, LIMBER_F64, code, f, 1, LIMBER_ROUND_NEAREST);
    return back;
}

/* Compares doubles for qsort. */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Compares a format's facts with the values of all its bit patterns. */
static void check_codes(const char *name)
{
    static double v[1 << 16];
    limber_format f = named(name);
    limber_format_facts x = facts_of(f);
    int codes = f.flags & LIMBER_FORMAT_FINITE || f.kind == LIMBER_KIND_SHORT ?
                    1 << (1 + f.exp_bits + f.frac_bits) :
                    1 << 8 * f.size;
    int n = 0, zeros = 0, infinities = 0, nans = 0, spacing, e;

    for (int i = 0; i < codes; i++) {
        uint16_t code = (uint16_t)i;
        double value = limber_format_value(f, &code);

        nans += value != value;
        infinities += isinf(value) != 0;
        zeros += value == 0 && signbit(value);
        if (isfinite(value) && !(value == 0 && signbit(value)))
            v[n++] = value;
    }
    qsort(v, (size_t)n, sizeof *v, by_value);
    assert_true(x.finite_values == n);
    assert_true(x.has_infinity == (infinities > 0) && x.has_nan == (nans > 0));
    assert_true(x.has_negative_zero == (zeros > 0));
    assert_true(x.largest == v[n - 1] && x.largest_exponent == ilogb(x.largest));
    for (int i = 0; i + 1 < n; i++) {
        if (v[i] == 0)
            assert_true(v[i + 1] == x.smallest && ilogb(x.smallest) == x.smallest_exponent);
        if (v[i] == 1)
            assert_true(v[i + 1] - 1 == x.epsilon);
        if (f.kind == LIMBER_KIND_POSIT && v[i] >= x.normal && v[i] < 1 / x.normal)
            assert_true(v[i + 1] - v[i] == ldexp(x.epsilon, ilogb(v[i])));
        if (v[i] <= 0 || f.kind != LIMBER_KIND_FLOAT)
            continue;
        assert_int_equal(limber_format_spacing(f, ilogb(v[i]), &spacing), LIMBER_STATUS_OK);
        assert_true(ldexp(1, spacing) == v[i + 1] - v[i]);
    }
    if (!x.has_nan && f.kind != LIMBER_KIND_FLOAT)
        return;
    for (double i = f.kind == LIMBER_KIND_POWER; i <= x.exact_integers; i++)
        assert_true(converted(f, i) == i);
    if (x.exact_integers < x.largest)
        assert_true(converted(f, x.exact_integers + 1) != x.exact_integers + 1);
    if (f.kind == LIMBER_KIND_POSIT) {
        assert_true(v[n - 1] == converted(f, DBL_MAX) && x.overflow == v[n - 1]);
        assert_true(converted(f, DBL_TRUE_MIN) == x.smallest && x.underflow == 0);
    }
    if (f.kind != LIMBER_KIND_FLOAT)
        return;
    assert_true(x.normal == ldexp(1, x.normal_exponent));
    assert_int_equal(limber_format_spacing(f, x.normal_exponent, &spacing), LIMBER_STATUS_OK);
    /* at the smallest normal number the spacing is normal * epsilon, whose exponent is
     * smallest_exponent */
    e = spacing;
    assert_true(ldexp(1, e) == x.normal * x.epsilon && e == x.smallest_exponent);
    /* numbers next to the thresholds of underflow and overflow */
    assert_true(converted(f, x.underflow) == 0);
    assert_true(converted(f, nextafter(x.underflow, 1)) == x.smallest);
    assert_true(converted(f, nextafter(x.overflow, 0)) == x.largest);
    if (x.has_infinity)
        assert_true(isinf(converted(f, x.overflow)));
    else if (x.has_nan)
        assert_true(isnan(converted(f, nextafter(x.overflow, INFINITY))));
    /* 1 + epsilon / 2 is a midpoint, which rounds to the even neighbour 1 */
    assert_true(converted(f, 1 + x.epsilon / 2) == 1);
    assert_true(converted(f, nextafter(1 + x.epsilon / 2, 2)) == 1 + x.epsilon);
}

/* The facts of all small formats agree with the values of all their bit patterns. */
static void test_codes(void **state)
{
    static const char *const names[] = { "f16",      "bf16",     "e4m3", "e5m2", "e3m2",
                                         "e2m3",     "e2m1",     "i8",   "i16",  "u8",
                                         "e4m3fnuz", "e5m2fnuz", "i4",   "i2",   "posit8",
                                         "posit16",  "e8m0" };

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        check_codes(names[i]);
}

/* Facts of FP32 and FP64 equal the constants of <float.h>; those of FP16, binary128 and integers
 * equal known values. */
static void test_float_h(void **state)
{
    limber_format_facts s = facts_of(LIMBER_F32), d = facts_of(LIMBER_F64);
    limber_format_facts q = facts_of(LIMBER_F128), h = facts_of(LIMBER_F16);
    int spacing;

    (void)state;
    assert_true(s.epsilon == (double)FLT_EPSILON && d.epsilon == DBL_EPSILON);
    assert_true(s.largest == (double)FLT_MAX && d.largest == DBL_MAX);
    assert_true(s.normal == (double)FLT_MIN && d.normal == DBL_MIN);
    assert_true(s.smallest == 0x1p-149 && d.smallest == 0x1p-1074);
    assert_true(s.digits_kept == FLT_DIG && d.digits_kept == DBL_DIG);
    assert_true(s.digits_needed == FLT_DECIMAL_DIG && d.digits_needed == DBL_DECIMAL_DIG);
    assert_true(s.roundoff == 0x1p-24 && d.roundoff == 0x1p-53);
    assert_true(converted(LIMBER_F32, nextafter(s.overflow, 0)) == s.largest);
    assert_true(isinf(converted(LIMBER_F32, s.overflow)));
    assert_true(q.significant_bits == 113 && q.epsilon == 0x1p-112 && isinf(q.largest));
    assert_true(q.largest_exponent == 16383 && q.smallest_exponent == -16494);
    assert_true(s.lowest == -(double)FLT_MAX && d.lowest == -DBL_MAX && isinf(q.lowest));
    assert_true(facts_of(LIMBER_I8).lowest == INT8_MIN && facts_of(LIMBER_I64).lowest == INT64_MIN);
    assert_true(facts_of(LIMBER_U8).lowest == 0 && facts_of(named("i4")).lowest == -8);
    assert_true(q.digits_kept == 33 && q.digits_needed == 36);
    /* facts of binary16 */
    assert_true(h.largest == 65504 && h.overflow == 65520 && h.underflow == 0x1p-25);
    assert_true(fabs(h.decimal_digits - 3.311) < 1e-3 && h.exact_integers == 2048);
    assert_int_equal(limber_format_spacing(LIMBER_F128, -16494, &spacing), LIMBER_STATUS_OK);
    assert_int_equal(spacing, -16494);
}

/* Formats and structures that are invalid, and exponents beyond a format's range, are refused and
 * leave the result unchanged. */
static void test_refused(void **state)
{
    limber_format_facts x = LIMBER_FORMAT_FACTS_INIT;
    limber_format none = { 0 };
    int spacing = 7;

    (void)state;
    assert_int_equal(limber_format_describe(LIMBER_F16, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_refused(limber_format_describe(none, &x), LIMBER_STATUS_BAD_ARGUMENT,
                   "format_describe: f");
    x.size = 4;
    assert_int_equal(limber_format_describe(LIMBER_F16, &x), LIMBER_STATUS_BAD_ARGUMENT);
    assert_refused(limber_format_spacing(LIMBER_F16, 16, &spacing), LIMBER_STATUS_BAD_ARGUMENT,
                   "exponent = 16: numbers of f16 go from -24 to 15");
    assert_int_equal(limber_format_spacing(LIMBER_I8, 1, &spacing), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_format_spacing(LIMBER_POSIT8, 1, &spacing), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_format_spacing(LIMBER_F16, 0, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(spacing, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_float_h),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
