/* SPDX-License-Identifier: BSD-3-Clause
 * Formats that are not floats: compares every bit pattern of 8 and 16 bits, and values between the
 * represented ones, with a reference written from the standards. */
#include "contexts.h"
#include "codes.h"
#include "support.h"

#include "ir/ir.h"
#include "ir/num/prim_num.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = SANITIZED ? 20000 : 100000 };

static uint64_t encode(limber_format f, double v, limber_rounding mode)
{
    uint64_t code = 0;

    assert_int_equal(limber_convert(&code, f, &v, LIMBER_F64, 1, mode), LIMBER_STATUS_OK);
    return code;
}

static double decode(limber_format f, uint64_t code)
{
    double v;

    assert_int_equal(limber_convert(&v, LIMBER_F64, &code, f, 1, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    return v;
}

/* Checks the value of a bit pattern. */
static void check_value(limber_format f, uint64_t code)
{
    double v = decode(f, code), want = ref_value_of_bits(f, code);

    if (isnan(want) ? !isnan(v) : v != want || (v == 0 && signbit(v)))
        fail_msg("code %#llx is %a, not %a", (unsigned long long)code, v, want);
}

/* Checks the bit pattern to which v is rounded to nearest. */
static void check_code(limber_format f, double v)
{
    uint64_t code = encode(f, v, LIMBER_ROUND_NEAREST), want;
    mpfr_t x;

    mpfr_init2(x, 60);
    mpfr_set_d(x, v, MPFR_RNDN);
    want = ref_nearest_code(f, x);
    mpfr_clear(x);
    if (code != want)
        fail_msg("%a becomes code %#llx, not %#llx", v, (unsigned long long)code,
                 (unsigned long long)want);
}

/* Checks v, its neighbours in binary64, and their negatives. */
static void check_around(limber_format f, double v)
{
    const double near[] = { nextafter(v, -INFINITY), v, nextafter(v, INFINITY) };

    for (size_t i = 0; i < COUNT(near); i++) {
        check_code(f, near[i]);
        check_code(f, -near[i]);
    }
}

/* Checks a bit pattern and the midpoint between it and the next one. */
static void check_posit(limber_format f, uint64_t code)
{
    int bits = 8 * f.size;

    check_value(f, code);
    if (!isnan(ref_posit(bits, code))) {
        assert_int_equal(encode(f, ref_posit(bits, code), LIMBER_ROUND_NEAREST), code);
        check_around(f, ref_posit(bits, code));
        check_around(f, ref_posit(bits + 1, 2 * code + 1));
    }
}

/* Conversions to and from posits are right for all or for random bit patterns, their midpoints and
 * the ends of the range; other roundings than to nearest are refused. */
static void test_posits(void **state)
{
    static const double ends[] = { INFINITY, -INFINITY,    NAN,        DBL_MAX,
                                   -DBL_MAX, DBL_TRUE_MIN, 0x1p120,    0x1p121,
                                   0x1p-120, 0x1p-121,     0x1.8p-119, 0x1p119 };
    struct rng r = { 5 };

    (void)state;
    for (uint64_t code = 0; code < 1 << 8; code++)
        check_posit(LIMBER_POSIT8, code);
    for (uint64_t code = 0; code < 1 << 16; code += SANITIZED ? 7 : 1)
        check_posit(LIMBER_POSIT16, code);
    /* shifted at random, so that every length of the regime is equally frequent */
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t code = (rng_next(&r) & 0xffffffff) >> rng_below(&r, 31);

        check_posit(LIMBER_POSIT32, rng_below(&r, 2) ? code : 0xffffffff & ~code);
    }
    for (size_t i = 0; i < COUNT(ends); i++) {
        check_code(LIMBER_POSIT8, ends[i]);
        check_code(LIMBER_POSIT16, ends[i]);
        check_code(LIMBER_POSIT32, ends[i]);
    }
    assert_int_equal(encode(LIMBER_POSIT16, 1, LIMBER_ROUND_NEAREST), 0x4000);
    assert_int_equal(encode(LIMBER_POSIT16, -0.0, LIMBER_ROUND_NEAREST), 0);
    for (int mode = LIMBER_ROUND_ZERO; mode <= LIMBER_ROUND_ODD; mode++) {
        uint16_t code = 0x55;
        double v = 3;

        assert_refused(
            limber_convert(&code, LIMBER_POSIT16, &v, LIMBER_F64, 1, (limber_rounding)mode),
            LIMBER_STATUS_BAD_ARGUMENT, "mode");
        assert_int_equal(code, 0x55);
    }
}

/* Conversions from binary128 to posits must not round to double in between. */
static void test_posits_of_wide_floats(void **state)
{
    struct rng r = { 6 };

    (void)state;
    for (int i = 0; i < SAMPLES / 10; i++) {
        unsigned char wide[16];
        uint64_t code = 0;
        double v = ldexp(1 + rng_unit(&r), rng_below(&r, 300) - 150);
        mpfr_t x;

        limber_convert(wide, LIMBER_F128, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        /* near a midpoint of two posits: the midpoint is a posit with one more bit; sometimes a
         * further bit is added far below it */
        if (rng_below(&r, 2))
            limber_convert(wide, LIMBER_F128,
                           &(double){ ref_posit(33, rng_next(&r) >> rng_below(&r, 31)) },
                           LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        wide[0] = (unsigned char)rng_below(&r, 2);
        mpfr_init2(x, 120);
        ref_load(x, LIMBER_F128, wide);
        assert_int_equal(
            limber_convert(&code, LIMBER_POSIT32, wide, LIMBER_F128, 1, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_OK);
        assert_int_equal(code, ref_nearest_code(LIMBER_POSIT32, x));
        mpfr_clear(x);
    }
}

/* Rounds v to an integer in a mode. */
static double rounded(double v, int mode)
{
    double down = floor(v), up = ceil(v), low = v < 0 ? up : down, high = v < 0 ? down : up;

    switch (mode) {
    case LIMBER_ROUND_NEAREST: return nearbyint(v);
    case LIMBER_ROUND_ZERO: return low;
    case LIMBER_ROUND_UP: return up;
    case LIMBER_ROUND_DOWN: return down;
    case LIMBER_ROUND_AWAY: return fabs(v - low) >= 0.5 ? high : low;
    default: return fmod(low, 2) != 0 ? low : high;
    }
}

/* Conversions to i4 and i2 round in every mode, saturate, and leave unused bits zero. */
static void test_short_integers(void **state)
{
    const limber_format formats[] = { LIMBER_I4, LIMBER_I2 };

    (void)state;
    for (size_t i = 0; i < COUNT(formats); i++) {
        limber_format f = formats[i];
        double most = ldexp(1, f.frac_bits) - 1, least = -most - 1;

        for (uint64_t code = 0; code < 256; code++)
            check_value(f, code);
        for (double v = -20; v <= 20; v += 0.125)
            for (int mode = 0; mode <= LIMBER_ROUND_ODD; mode++) {
                double want = fmin(fmax(rounded(v, mode), least), most);
                uint64_t code = encode(f, v, (limber_rounding)mode);

                assert_true(decode(f, code) == want);
                assert_true(code < 2u << f.frac_bits); /* the unused bits are zero */
            }
        check_code(f, NAN);
        check_code(f, INFINITY);
        check_code(f, -INFINITY);
    }
}

/* All numbers of a format must be in the range that fixed-point sums of the format have: no bit
 * below the smallest unit, none above the largest exponent. */
static void test_units_are_within_the_format(void **state)
{
    struct rng r = { 8 };
    const char *name;

    (void)state;
    for (int i = 0; (name = limber_format_at(i)); i++) {
        limber_format f = named(name), in = limber_num_carrier(f);

        for (int n = 0; f.kind != LIMBER_KIND_DD && n < 1 << 16; n++) {
            uint64_t code[2] = { f.size <= 2 ? (uint64_t)n : rng_next(&r), rng_next(&r) };
            struct limber_num x;
            int top;

            if (f.size > 2 && rng_below(&r, 2))
                code[f.size / 16] >>= rng_below(&r, 64);
            limber_num_decode(&x, f, code);
            if (x.kind != NUM_finite)
                continue;
            top = x.exp + limber_sig_bits(limber_num_sig(&x)) - 1;
            if (x.exp < limber_format_quantum(in) || top > limber_format_emax(in))
                fail_msg("%s, code %#llx: from 2^%d to 2^%d", name, (unsigned long long)code[0],
                         (int)x.exp, top);
        }
    }
}

/* Conversions to the format e8m0 (powers of two) round in every mode; zero, negative numbers, NaN
 * and infinity become NaN. */
static void test_powers(void **state)
{
    limber_format f = LIMBER_E8M0;

    (void)state;
    for (uint64_t code = 0; code < 256; code++) {
        double v = ref_value_of_bits(f, code);

        check_value(f, code);
        if (code == 255)
            continue;
        check_around(f, v);
        check_around(f, 1.5 * v);
        for (int mode = 0; mode <= LIMBER_ROUND_ODD; mode++) {
            bool up = mode == LIMBER_ROUND_UP,
                 nearest = mode == LIMBER_ROUND_NEAREST || mode == LIMBER_ROUND_AWAY;
            bool finite = !up && !nearest;

            assert_int_equal(encode(f, v, (limber_rounding)mode), code);
            assert_int_equal(encode(f, nextafter(1.5 * v, 0), (limber_rounding)mode), code + up);
            assert_int_equal(encode(f, 1.5 * v, (limber_rounding)mode), code + (up || nearest));
            assert_int_equal(encode(f, nextafter(2 * v, 0), (limber_rounding)mode), code + !finite);
        }
    }
    for (int mode = 0; mode <= LIMBER_ROUND_ODD; mode++) {
        assert_int_equal(encode(f, 0, (limber_rounding)mode), 255);
        assert_int_equal(encode(f, -0.0, (limber_rounding)mode), 255);
        assert_int_equal(encode(f, -1, (limber_rounding)mode), 255);
        assert_int_equal(encode(f, NAN, (limber_rounding)mode), 255);
        assert_int_equal(encode(f, INFINITY, (limber_rounding)mode), 255);
        assert_int_equal(encode(f, DBL_TRUE_MIN, (limber_rounding)mode), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posits),
        cmocka_unit_test(test_posits_of_wide_floats),
        cmocka_unit_test(test_short_integers),
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_units_are_within_the_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
