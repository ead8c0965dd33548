/* SPDX-License-Identifier: BSD-3-Clause
 * Tests formats against independent arithmetic: every bit pattern of the small floats in every
 * rounding mode, and large floats against MPFR. */
#include "contexts.h"
#include "ir/ir.h"
#include "ir/num/prim_num.h"
#include "limber/names.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#define MPFR_USE_INTMAX_T
#include <mpfr.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODES = 6 };

static uint64_t rng_state;

static uint64_t rng(void)
{
    uint64_t x = rng_state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int seed_rng(void **state)
{
    const char *s = getenv("LIMBER_SEED");

    (void)state;
    rng_state = s ? strtoull(s, NULL, 0) : 1;
    print_message("seed %llu\n", (unsigned long long)rng_state);
    return 0;
}

static limber_format format(const char *name)
{
    limber_format f;

    assert_int_equal(limber_format_named(name, &f), LIMBER_STATUS_OK);
    return f;
}

/* ---- formats of one or two bytes: every bit pattern ------------------------------------------ */

/* A format of few bits. */
struct small {
    limber_format f;
    int largest; /* bit pattern of the largest finite value */
    double beyond; /* the value of the bit pattern after the largest, if the format had it */
};

/* Returns the value of a positive bit pattern, from the definition of the format.  Patterns above
 * the largest finite one continue the sequence. */
static double value(limber_format f, int code)
{
    int field = code >> f.frac_bits, frac = code & ((1 << f.frac_bits) - 1);

    if (field == 0)
        return frac * pow(2, 1 - f.bias - f.frac_bits);
    return ((1 << f.frac_bits) + frac) * pow(2, field - f.bias - f.frac_bits);
}

/* Returns the facts of a small format that the tests below need. */
static struct small describe_small(const char *name)
{
    struct small s = { .f = format(name) };
    int top = (1 << s.f.exp_bits) - 1;

    s.largest = s.f.flags & LIMBER_FORMAT_NO_INF ?
                    (top << s.f.frac_bits) + (1 << s.f.frac_bits) - 2 :
                    (top << s.f.frac_bits) - 1;
    if (s.f.flags & (LIMBER_FORMAT_FINITE | LIMBER_FORMAT_NO_MINUS_ZERO))
        s.largest = (top << s.f.frac_bits) + (1 << s.f.frac_bits) - 1;
    s.beyond = value(s.f, s.largest + 1);
    return s;
}

static int sign_bit(limber_format f)
{
    return 1 << (f.exp_bits + f.frac_bits);
}

/* Returns the value of a code. */
static double decoded(limber_format f, int code)
{
    uint16_t wide = (uint16_t)code;
    uint8_t narrow = (uint8_t)code;
    double v;

    assert_int_equal(limber_convert(&v, format("f64"),
                                    f.size == 1 ? (void *)&narrow : (void *)&wide, f, 1,
                                    LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    return v;
}

/* Returns the code of a number. */
static int encoded(limber_format f, double v, limber_rounding mode)
{
    unsigned char out[2] = { 0 };
    uint16_t wide;

    assert_int_equal(limber_convert(out, f, &v, format("f64"), 1, mode), LIMBER_STATUS_OK);
    memcpy(&wide, out, 2);
    return f.size == 1 ? out[0] : wide;
}

/* Checks the value of every bit pattern of a format. */
static void decodes_every_code(const char *name)
{
    struct small s = describe_small(name);

    for (int code = 0; code < 2 * sign_bit(s.f); code++) {
        int magnitude = code & (sign_bit(s.f) - 1);
        double v = decoded(s.f, code), want = value(s.f, magnitude);

        if (code == sign_bit(s.f) && s.f.flags & LIMBER_FORMAT_NO_MINUS_ZERO)
            want = NAN;
        else if (magnitude > s.largest)
            want = s.f.flags & LIMBER_FORMAT_NO_INF || magnitude > s.largest + 1 ? NAN : INFINITY;
        if (isnan(want)) {
            assert_true(isnan(v));
            continue;
        }
        assert_true(v == (code & sign_bit(s.f) ? -want : want));
        assert_int_equal(!!signbit(v), !!(code & sign_bit(s.f)));
        for (int mode = 0; mode < MODES; mode++)
            assert_int_equal(encoded(s.f, v, (limber_rounding)mode), code);
    }
}

/* Every bit pattern of each format of one or two bytes is decoded to its value. */
static void codes_are_read(void **state)
{
    (void)state;
    decodes_every_code("f16");
    decodes_every_code("bf16");
    decodes_every_code("e4m3");
    decodes_every_code("e5m2");
    decodes_every_code("e4m3fnuz");
    decodes_every_code("e5m2fnuz");
    decodes_every_code("e3m2");
    decodes_every_code("e2m3");
    decodes_every_code("e2m1");
}

/* Returns the bit pattern that a positive v, between `code` and the next one, should round to. */
static int expected_code(const struct small *s, double v, int code, int negative, int mode)
{
    double low = value(s->f, code), high = value(s->f, code + 1), middle = low + (high - low) / 2;
    int up = 0;

    if (v == low)
        return code;
    switch (mode) {
    case LIMBER_ROUND_NEAREST: up = v > middle || (v == middle && code & 1); break;
    case LIMBER_ROUND_AWAY: up = v >= middle; break;
    case LIMBER_ROUND_UP: up = !negative; break;
    case LIMBER_ROUND_DOWN: up = negative; break;
    case LIMBER_ROUND_ODD: up = !(code & 1) && code < s->largest; break;
    default: break;
    }
    return code + up;
}

/* Returns the bit pattern without sign that an overflow should give. */
static int overflow_code(const struct small *s)
{
    if (s->f.flags & LIMBER_FORMAT_FINITE)
        return s->largest;
    if (s->f.flags & LIMBER_FORMAT_NO_MINUS_ZERO)
        return sign_bit(s->f);
    return s->f.flags & LIMBER_FORMAT_NO_INF ? sign_bit(s->f) - 1 : s->largest + 1;
}

/* Checks one value with both signs in every rounding mode.  code: the bit pattern of the largest
 * number that is at most v. */
static void check_rounding(const struct small *s, double v, int code)
{
    for (int negative = 0; negative < 2; negative++)
        for (int mode = 0; mode < MODES; mode++) {
            int want = expected_code(s, v, code, negative, mode);
            int have = encoded(s->f, negative ? -v : v, (limber_rounding)mode);

            if (want > s->largest)
                want = overflow_code(s);
            if (want == overflow_code(s) && s->f.flags & LIMBER_FORMAT_NO_INF)
                have &= s->f.flags & LIMBER_FORMAT_NO_MINUS_ZERO ?
                            2 * sign_bit(s->f) - 1 :
                            sign_bit(s->f) - 1; /* the sign of NaN is unspecified */
            else if (want || !(s->f.flags & LIMBER_FORMAT_NO_MINUS_ZERO))
                want |= negative ? sign_bit(s->f) : 0;
            if (have != want)
                fail_msg("%a in mode %d: code %#x, not %#x", negative ? -v : v, mode, have, want);
        }
}

/* Checks roundings at, between and near all pairs of neighbouring numbers, and of overflow. */
static void rounds_between_codes(const char *name)
{
    struct small s = describe_small(name);

    for (int code = 0; code <= s.largest; code++) {
        double low = value(s.f, code), high = value(s.f, code + 1), middle = (low + high) / 2;

        check_rounding(&s, nextafter(low, high), code);
        check_rounding(&s, nextafter(middle, low), code);
        check_rounding(&s, middle, code);
        check_rounding(&s, nextafter(middle, high), code);
        check_rounding(&s, nextafter(high, low), code);
    }
    for (int mode = 0; mode < MODES; mode++) {
        int finite =
            mode == LIMBER_ROUND_ZERO || mode == LIMBER_ROUND_DOWN || mode == LIMBER_ROUND_ODD;

        assert_int_equal(encoded(s.f, s.beyond, (limber_rounding)mode),
                         finite ? s.largest : overflow_code(&s));
        assert_int_equal(encoded(s.f, DBL_MAX, (limber_rounding)mode),
                         finite ? s.largest : overflow_code(&s));
        assert_int_equal(encoded(s.f, INFINITY, (limber_rounding)mode), overflow_code(&s));
        assert_int_equal(encoded(s.f, DBL_TRUE_MIN, (limber_rounding)mode),
                         mode == LIMBER_ROUND_UP || mode == LIMBER_ROUND_ODD);
    }
    if (s.f.flags & LIMBER_FORMAT_FINITE)
        assert_int_equal(encoded(s.f, NAN, LIMBER_ROUND_NEAREST), 0);
    else
        assert_true(isnan(decoded(s.f, encoded(s.f, NAN, LIMBER_ROUND_NEAREST))));
}

/* Numbers at, between and near all neighbouring values of small formats are rounded right in every
 * mode. */
static void small_floats_round(void **state)
{
    (void)state;
    rounds_between_codes("f16");
    rounds_between_codes("bf16");
    rounds_between_codes("e4m3");
    rounds_between_codes("e5m2");
    rounds_between_codes("e4m3fnuz");
    rounds_between_codes("e5m2fnuz");
    rounds_between_codes("e3m2");
    rounds_between_codes("e2m3");
    rounds_between_codes("e2m1");
}

/* ---- binary32, compared with the CPU's conversion -------------------------------------------- */

/* Returns a random double, mostly in the range of binary32, often halfway between two of its
 * numbers. */
static double random_double(void)
{
    uint64_t code = rng();
    double v;

    if (rng() % 4) /* in the whole range of binary32 and a little beyond */
        code = (code & ~(UINT64_C(0x7ff) << 52)) | (uint64_t)(1023 - 155 + rng() % 290) << 52;
    if (rng() % 4 == 0)
        code &= ~((UINT64_C(1) << (rng() % 40)) - 1);
    if (rng() % 4 == 0)
        code = (code & ~UINT64_C(0x1fffffff)) | UINT64_C(0x10000000); /* a midpoint of binary32 */
    memcpy(&v, &code, 8);
    return v;
}

/* Conversions from binary64 to binary32 have the CPU's results in four rounding modes. */
static void f64_becomes_f32(void **state)
{
    static const int hard[] = { FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD };

    (void)state;
    for (int i = 0; i < 400000; i++) {
        volatile double v = random_double();
        volatile float want;
        float have;
        double copy = v;
        int mode = i % 4;

        fesetround(hard[mode]);
        want = (float)v;
        fesetround(FE_TONEAREST);
        assert_int_equal(
            limber_convert(&have, format("f32"), &copy, format("f64"), 1, (limber_rounding)mode),
            LIMBER_STATUS_OK);
        if (isnan(v)) {
            assert_true(isnan(have));
        } else if (have != want || signbit(have) != signbit(want)) {
            fail_msg("%a in mode %d: %a, not %a", v, mode, have, want);
        }
    }
}

/* ---- rounding checked by MPFR ---------------------------------------------------------------- */

/* The rounding modes in the order of limber_rounding. */
static const mpfr_rnd_t hard[] = { MPFR_RNDN, MPFR_RNDZ, MPFR_RNDU, MPFR_RNDD };

/* Rounds x to (1,e,m) with MPFR's own rounding, exponent range and subnormals. */
static void round_mpfr(mpfr_t out, mpfr_t x, int e, int m, int bias, int mode)
{
    mpfr_exp_t least = mpfr_get_emin(), most = mpfr_get_emax();
    int t;

    mpfr_set_prec(out, m + 1);
    mpfr_set_emin(1 - bias - m + 1);
    mpfr_set_emax((1 << e) - 2 - bias + 1);
    t = mpfr_set(out, x, hard[mode]);
    t = mpfr_check_range(out, t, hard[mode]);
    mpfr_subnormalize(out, t, hard[mode]);
    mpfr_set_emin(least);
    mpfr_set_emax(most);
}

/* Converts an intermediate number of the library to MPFR. */
static void num_to_mpfr(mpfr_t out, const struct limber_num *x)
{
    mpfr_t low;

    mpfr_set_prec(out, 200);
    if (x->kind == NUM_nan) {
        mpfr_set_nan(out);
        return;
    }
    if (x->kind != NUM_finite) {
        x->kind == NUM_inf ? mpfr_set_inf(out, 1) : mpfr_set_zero(out, 1);
    } else {
        mpfr_init2(low, 64);
        mpfr_set_uj_2exp(out, x->hi, 64, MPFR_RNDN);
        mpfr_set_uj(low, x->lo, MPFR_RNDN);
        mpfr_add(out, out, low, MPFR_RNDN);
        mpfr_mul_2si(out, out, x->exp, MPFR_RNDN);
        mpfr_clear(low);
    }
    mpfr_setsign(out, out, x->sign, MPFR_RNDN);
}

/* Returns a random number whose leading bit is within `around` bits of 2^middle. */
static struct limber_num random_num(int middle, int around)
{
    struct limber_num x = { .hi = rng(), .lo = rng(), .sign = rng() & 1, .kind = NUM_finite };
    int drop = (int)(rng() % 4 ? 0 : rng() % 127);

    if (rng() % 3 == 0)
        x.lo &= ~UINT64_C(0) << rng() % 64;
    if (rng() % 3 == 0)
        x.lo = x.lo & UINT64_C(0xffffffffffff0000) ? UINT64_C(0x8000) : x.lo;
    if (rng() % 5 == 0)
        x.hi |= ~UINT64_C(0) << rng() % 64;
    if (drop >= 64)
        x.lo = x.hi >> (drop - 64), x.hi = 0;
    else
        x.hi >>= drop;
    x.lo |= !x.hi && !x.lo;
    x.exp = middle - 127 + drop + (int)(rng() % (unsigned)(2 * around + 1)) - around;
    return x;
}

/* Checks that a number is rounded to a float format as MPFR does. */
static void check_float(limber_format f, const struct limber_num *x, int mode)
{
    unsigned char out[16];
    struct limber_num back;
    mpfr_t exact, want, have;

    mpfr_inits2(200, exact, want, have, (mpfr_ptr)0);
    num_to_mpfr(exact, x);
    round_mpfr(want, exact, f.exp_bits, f.frac_bits, f.bias, mode);
    limber_num_encode(out, f, x, 0, (limber_rounding)mode);
    limber_num_decode(&back, f, out);
    num_to_mpfr(have, &back);
    if (!mpfr_equal_p(want, have) || mpfr_signbit(want) != mpfr_signbit(have)) {
        mpfr_printf("%Ra in mode %d: %Ra, not %Ra\n", exact, mode, have, want);
        fail_msg("(1,%d,%d)", f.exp_bits, f.frac_bits);
    }
    mpfr_clears(exact, want, have, (mpfr_ptr)0);
}

/* Random numbers, also near the ends of the range, are rounded to binary128 as by MPFR. */
static void binary128_rounds(void **state)
{
    static const int middle[] = { 0, -16382, -16440, -16494, 16383, 3000 };
    limber_format f = format("f128");

    (void)state;
    for (int i = 0; i < 60000; i++) {
        struct limber_num x = random_num(middle[i % 6], 8);

        check_float(f, &x, i / 6 % 4);
    }
}

/* Random numbers are rounded to random formats (1,e,m) as by MPFR. */
static void free_formats_round(void **state)
{
    (void)state;
    for (int i = 0; i < 60000; i++) {
        char name[24];
        int e = 2 + (int)(rng() % 10), m = 1 + (int)(rng() % 52), bias = (1 << (e - 1)) - 1;
        const int middle[] = { 0, 1 - bias, 1 - bias - m, bias };
        struct limber_num x;

        snprintf(name, sizeof name, "(1,%d,%d)", e, m);
        x = random_num(middle[i % 4], 4);
        check_float(format(name), &x, i / 4 % 4);
    }
}

/* A format that has no storage of its own is stored as binary32 or binary64.  Numbers of the
 * format must convert to themselves. */
static void carriers_hold_members(void **state)
{
    limber_format f64 = format("f64");

    (void)state;
    for (int i = 0; i < 20000; i++) {
        limber_format f = format(i & 1 ? "tf32" : "(1,3,2)");
        double v = ldexp((double)rng(), (int)(rng() % 200) - 164), w;
        float once, twice;

        limber_convert(&once, f, &v, f64, 1, LIMBER_ROUND_NEAREST);
        for (int mode = 0; mode < MODES; mode++) {
            limber_convert(&twice, f, &once, f, 1, (limber_rounding)mode);
            assert_memory_equal(&once, &twice, sizeof once);
        }
        limber_convert(&w, f64, &once, f, 1, LIMBER_ROUND_NEAREST);
        assert_true(w == once);
    }
}

/* ---- double-double --------------------------------------------------------------------------- */

/* A double-double is the nearest double, and then the double nearest to the remainder. */
static void dd_is_nearest_twice(void **state)
{
    static const int middle[] = { 0, -900, -1022, -1060, -1074, 1023, 1024 };
    mpfr_t exact, high, low;

    (void)state;
    mpfr_inits2(400, exact, high, low, (mpfr_ptr)0);
    for (int i = 0; i < 100000; i++) {
        struct limber_num x = random_num(middle[i % 7], 3);
        double out[2];

        num_to_mpfr(exact, &x);
        limber_num_encode_dd(out, &x, 0, LIMBER_ROUND_NEAREST);
        round_mpfr(high, exact, 11, 52, 1023, 0);
        assert_true(out[0] == mpfr_get_d(high, MPFR_RNDN));
        if (mpfr_inf_p(high)) {
            assert_true(out[1] == 0);
            continue;
        }
        mpfr_sub(exact, exact, high, MPFR_RNDN);
        round_mpfr(low, exact, 11, 52, 1023, 0);
        if (out[1] != mpfr_get_d(low, MPFR_RNDN))
            fail_msg("%a + %a: low is not %a", out[0], out[1], mpfr_get_d(low, MPFR_RNDN));
    }
    mpfr_clears(exact, high, low, (mpfr_ptr)0);
}

/* Decoding a double-double gives its exact value, or truncates it by less than one unit and reports
 * that. */
static void dd_is_read_exactly(void **state)
{
    mpfr_t sum, have, unit;

    (void)state;
    mpfr_inits2(2300, sum, have, unit, (mpfr_ptr)0);
    for (int i = 0; i < 100000; i++) {
        double pair[2] = { random_double(), random_double() };
        struct limber_num x;
        int sticky;

        if (i % 2)
            pair[1] = pair[0] * ldexp((double)(int64_t)rng(), -116 - (int)(rng() % 8));
        if (!isfinite(pair[0]) || !isfinite(pair[1]))
            continue;
        sticky = limber_num_decode_dd(&x, pair);
        mpfr_set_d(sum, pair[0], MPFR_RNDN);
        mpfr_add_d(sum, sum, pair[1], MPFR_RNDN);
        num_to_mpfr(have, &x);
        mpfr_prec_round(have, 2300, MPFR_RNDN);
        mpfr_sub(unit, sum, have, MPFR_RNDN);
        if (!sticky) {
            assert_true(mpfr_zero_p(unit));
            continue;
        }
        mpfr_mul_2si(unit, unit, -x.exp, MPFR_RNDN);
        mpfr_setsign(unit, unit, mpfr_signbit(unit) ^ x.sign, MPFR_RNDN);
        assert_true(mpfr_cmp_si(unit, 0) > 0 && mpfr_cmp_si(unit, 1) < 0);
    }
    mpfr_clears(sum, have, unit, (mpfr_ptr)0);
}

/* Double-doubles are unchanged by conversion to themselves and by way of binary128; infinities, NaN
 * and zeros are converted right. */
static void dd_converts(void **state)
{
    limber_format dd = format("dd"), f128 = format("f128"), f64 = format("f64");
    double pair[2], back[2], v;
    unsigned char quad[16];

    (void)state;
    for (int i = 0; i < 50000; i++) {
        pair[0] = ldexp((double)(int64_t)rng(), (int)(rng() % 200) - 100);
        pair[1] = ldexp((double)(int64_t)rng(), -117) * pair[0];
        back[0] = pair[0] + pair[1]; /* normalised: the low part is the rounding error of the sum */
        pair[1] = pair[1] - (back[0] - pair[0]);
        pair[0] = back[0];
        limber_convert(back, dd, pair, dd, 1, LIMBER_ROUND_NEAREST);
        assert_memory_equal(pair, back, sizeof pair);
        limber_convert(&v, f64, pair, dd, 1, LIMBER_ROUND_NEAREST);
        assert_true(v == pair[0]);
        if (fabs(pair[1]) < ldexp(fabs(pair[0]), -59))
            continue;
        /* at most 112 bits, so that binary128 holds the sum exactly */
        limber_convert(quad, f128, pair, dd, 1, LIMBER_ROUND_NEAREST);
        limber_convert(back, dd, quad, f128, 1, LIMBER_ROUND_NEAREST);
        assert_memory_equal(pair, back, sizeof pair);
    }
    limber_convert(back, dd, &(double){ INFINITY }, f64, 1, LIMBER_ROUND_NEAREST);
    assert_true(isinf(back[0]) && back[1] == 0);
    limber_convert(&v, f64, (double[]){ INFINITY, -INFINITY }, dd, 1, LIMBER_ROUND_NEAREST);
    assert_true(isnan(v));
    limber_convert(&v, f64, (double[]){ 1, -1 }, dd, 1, LIMBER_ROUND_NEAREST);
    assert_true(v == 0 && !signbit(v));
}

/* ---- sticky bits, lost bits, flags ----------------------------------------------------------- */

/* Converts to binary32 a number whose lost bits are given by `sticky`; *loss: what was lost. */
static float sticky_f32(uint64_t lo, int exp, int sign, int sticky, limber_rounding mode, int *loss)
{
    struct limber_num x = { .lo = lo, .exp = exp, .sign = (uint8_t)sign, .kind = NUM_finite };
    unsigned char room[16];
    float v;

    *loss = limber_num_encode(room, format("f32"), &x, sticky, mode);
    memcpy(&v, room, sizeof v);
    return v;
}

/* Lost bits below the last one (`sticky`) decide ties and directed roundings. */
static void sticky_breaks_ties(void **state)
{
    /* the midpoint between 1 and the next binary32 number */
    uint64_t tie = UINT64_C(1) << 40 | UINT64_C(1) << 16;
    int loss;

    (void)state;
    assert_true(sticky_f32(tie, -40, 0, 0, LIMBER_ROUND_NEAREST, &loss) == 1);
    assert_true(sticky_f32(tie, -40, 0, 1, LIMBER_ROUND_NEAREST, &loss) == 1 + FLT_EPSILON);
    assert_true(sticky_f32(UINT64_C(1) << 40, -40, 0, 1, LIMBER_ROUND_UP, &loss) ==
                1 + FLT_EPSILON);
    assert_int_equal(loss, NUM_inexact);
    assert_true(sticky_f32(UINT64_C(1) << 40, -40, 1, 1, LIMBER_ROUND_UP, &loss) == -1);
    assert_true(sticky_f32(UINT64_C(1) << 40, -40, 0, 1, LIMBER_ROUND_ODD, &loss) ==
                1 + FLT_EPSILON);
    assert_true(sticky_f32(UINT64_C(1) << 40, -40, 0, 0, LIMBER_ROUND_ODD, &loss) == 1);
    assert_int_equal(loss, 0);
}

/* Encodes (2^127 + rest) 2^-127 as a double-double, checks that its high part is `high`, and
 * returns the low part times 2^127. sticky: 1 if the number is larger by less than its last bit. */
static double low_of(__int128 rest, int sticky, double high)
{
    unsigned __int128 v = ((unsigned __int128)1 << 127) + (unsigned __int128)rest;
    struct limber_num x = {
        .hi = (uint64_t)(v >> 64), .lo = (uint64_t)v, .exp = -127, .kind = NUM_finite
    };
    double pair[2];

    limber_num_encode_dd(pair, &x, sticky, LIMBER_ROUND_NEAREST);
    assert_true(pair[0] == high);
    return ldexp(pair[1], 127);
}

/* Rounds to double-double numbers that are larger than given by less than their last bit.  `tie`
 * is a midpoint of doubles, which are 4 apart just above 2^54.  `next` is 2^-52 in units of
 * 2^-127; the second number is less than a high part of 1 + 2^-52. */
static void sticky_reaches_the_low_double(void **state)
{
    __int128 next = (__int128)1 << 75, tie = ((__int128)1 << 54) + 2;

    (void)state;
    assert_true(low_of(tie, 0, 1) == 0x1p54);
    assert_true(low_of(tie, 1, 1) == 0x1p54 + 4);
    assert_true(low_of(next - tie - 4, 0, 1 + 0x1p-52) == -0x1p54 - 8);
    assert_true(low_of(next - tie - 4, 1, 1 + 0x1p-52) == -0x1p54 - 4);
}

/* Roundings report whether they were inexact, overflowed or underflowed. */
static void lost_bits_are_reported(void **state)
{
    int loss;

    (void)state;
    assert_true(isinf(sticky_f32(1, 128, 0, 0, LIMBER_ROUND_NEAREST, &loss)));
    assert_int_equal(loss, NUM_inexact | NUM_overflow);
    assert_true(sticky_f32(1, 128, 0, 0, LIMBER_ROUND_ZERO, &loss) == FLT_MAX);
    assert_int_equal(loss, NUM_inexact | NUM_overflow);
    assert_true(sticky_f32(3, -150, 0, 0, LIMBER_ROUND_NEAREST, &loss) == 0x1p-148f);
    assert_int_equal(loss, NUM_inexact | NUM_underflow);
    assert_true(sticky_f32(1, -149, 0, 0, LIMBER_ROUND_NEAREST, &loss) == 0x1p-149f);
    assert_int_equal(loss, 0);
    assert_true(sticky_f32(1, -100000, 0, 0, LIMBER_ROUND_NEAREST, &loss) == 0);
    assert_int_equal(loss, NUM_inexact | NUM_underflow);
    assert_true(sticky_f32(1, -100000, 0, 0, LIMBER_ROUND_UP, &loss) == 0x1p-149f);
    assert_true(isinf(sticky_f32(1, 1000000, 0, 0, LIMBER_ROUND_NEAREST, &loss)));
}

/* The flags of a format decide whether numbers saturate, subnormals become zero, and which special
 * values exist. */
static void flags_decide_special_values(void **state)
{
    limber_format sat = format("e4m3"), flush = format("e5m2"), f32 = format("f32");
    unsigned char out;
    float v;

    (void)state;
    sat.flags |= LIMBER_FORMAT_SATURATE;
    v = 1e9f;
    limber_convert(&out, sat, &v, f32, 1, LIMBER_ROUND_NEAREST);
    assert_int_equal(out, 0x7e);
    v = -INFINITY;
    limber_convert(&out, sat, &v, f32, 1, LIMBER_ROUND_NEAREST);
    assert_int_equal(out, 0xfe);
    v = NAN;
    limber_convert(&out, sat, &v, f32, 1, LIMBER_ROUND_NEAREST);
    assert_int_equal(out & 0x7f, 0x7f);
    flush.flags |= LIMBER_FORMAT_NO_SUBNORMAL;
    v = 0x1p-15f;
    limber_convert(&out, flush, &v, f32, 1, LIMBER_ROUND_UP);
    assert_int_equal(out, 0);
    v = -0x1p-14f;
    limber_convert(&out, flush, &v, f32, 1, LIMBER_ROUND_NEAREST);
    assert_int_equal(out, 0x84);
    out = 0x83;
    limber_convert(&v, f32, &out, flush, 1, LIMBER_ROUND_NEAREST);
    assert_true(v == 0 && signbit(v));
    flush.flags |= LIMBER_FORMAT_SATURATE;
    v = INFINITY; /* the format has infinities, so that they do not saturate */
    limber_convert(&out, flush, &v, f32, 1, LIMBER_ROUND_NEAREST);
    assert_int_equal(out, 0x7c);
    v = 1e9f;
    limber_convert(&out, flush, &v, f32, 1, LIMBER_ROUND_NEAREST);
    assert_int_equal(out, 0x7b);
}

/* ---- conversions of integers ----------------------------------------------------------------- */

/* Converts to an integer format. */
static int64_t to_int(const char *name, double v, limber_rounding mode)
{
    limber_format f = format(name);
    int64_t out = 0, wide;

    assert_int_equal(limber_convert(&out, f, &v, format("f64"), 1, mode), LIMBER_STATUS_OK);
    assert_int_equal(limber_convert(&wide, format("i64"), &out, f, 1, mode), LIMBER_STATUS_OK);
    return wide;
}

/* Conversions to integers round in every mode and saturate; NaN becomes 0. */
static void integers_round_and_saturate(void **state)
{
    static const struct {
        double v;
        int64_t want[MODES];
    } cases[] = {
        /* results in each rounding mode: RN RZ RU RD RA RO */
        { 2.5, { 2, 2, 3, 2, 3, 3 } },
        { 3.5, { 4, 3, 4, 3, 4, 3 } },
        { -2.5, { -2, -2, -2, -3, -3, -3 } },
        { 0.25, { 0, 0, 1, 0, 0, 1 } },
        { -0.75, { -1, 0, 0, -1, -1, -1 } },
        { 127.25, { 127, 127, 127, 127, 127, 127 } },
        { 1e300, { 127, 127, 127, 127, 127, 127 } },
        { -128.5, { -128, -128, -128, -128, -128, -128 } },
        { 1e-300, { 0, 0, 1, 0, 0, 1 } },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int mode = 0; mode < MODES; mode++)
            assert_int_equal(to_int("i8", cases[i].v, (limber_rounding)mode), cases[i].want[mode]);
    assert_int_equal(to_int("u8", -3, LIMBER_ROUND_NEAREST), 0);
    assert_int_equal(to_int("u8", 300, LIMBER_ROUND_NEAREST), 255);
    assert_int_equal(to_int("i64", 0x1p63, LIMBER_ROUND_NEAREST), INT64_MAX);
    assert_int_equal(to_int("i64", -0x1p63, LIMBER_ROUND_NEAREST), INT64_MIN);
    assert_int_equal(to_int("i64", -INFINITY, LIMBER_ROUND_NEAREST), INT64_MIN);
    assert_int_equal(to_int("i32", NAN, LIMBER_ROUND_NEAREST), 0);
}

/* All 16-bit integers, and the ends of 64-bit ones, are converted to doubles right. */
static void integers_are_read(void **state)
{
    double v;

    (void)state;
    for (int i = -32768; i < 32768; i++) {
        int16_t x = (int16_t)i;

        limber_convert(&v, format("f64"), &x, format("i16"), 1, LIMBER_ROUND_NEAREST);
        assert_true(v == i && (i || !signbit(v)));
    }
    limber_convert(&v, format("f64"), &(int64_t){ INT64_MIN }, format("i64"), 1,
                   LIMBER_ROUND_NEAREST);
    assert_true(v == -0x1p63);
    limber_convert(&v, format("f64"), &(int64_t){ INT64_MAX }, format("i64"), 1, LIMBER_ROUND_ZERO);
    assert_true(v == 0x1.fffffffffffffp62);
}

/* ---- names and ranges of formats ------------------------------------------------------------- */

/* The printed name of each format is parsed to the same format; malformed names are refused. */
static void names_read_back(void **state)
{
    static const char *const bad[] = { "",
                                       "f",
                                       "f640",
                                       "float",
                                       "float128",
                                       "float8_e4m3",
                                       "fp16x",
                                       "int3",
                                       "(1,5)",
                                       "(1,1,3)",
                                       "(1,12,3)",
                                       "(1,5,0)",
                                       "(1,5,53)",
                                       "(2,5,2)",
                                       "(1,5,2",
                                       "(1,5,2)x",
                                       "(1,5,-2)",
                                       "(1,5,2,15,0,4)",
                                       "(1,5,2,15,16,4,1)",
                                       "(1,5,2,15,9,4,1)",
                                       "(1,5,2,99999999999,0,4,1)",
                                       "(1,261,2)",
                                       "(1,5,2,15,0,3,1)" };
    char text[48], own[48];
    limber_format f, g;
    int rows = 0;

    (void)state;
#define CHECK_NAME(NAME, name, ...) \
    assert_string_equal(limber_format_at(rows++), #name); \
    assert_string_equal(limber_format_name(format(#name), text, sizeof text), #name); \
    assert_true(limber_format_equal(format(#name), LIMBER_##NAME));
    LIMBER_FORMATS(CHECK_NAME)
#define CHECK_OTHER(NAME, name) \
    assert_string_equal(limber_format_name(format(name), text, sizeof text), \
                        limber_format_name(LIMBER_##NAME, own, sizeof own));
    LIMBER_FORMAT_NAMES(CHECK_OTHER)
    assert_true(limber_format_equal(format("float8_e4m3fn"), LIMBER_E4M3));
    assert_true(limber_format_equal(format("double"), LIMBER_F64));
    assert_true(limber_format_equal(format("INT4"), LIMBER_I4));
    assert_true(limber_format_equal(format("BF16"), LIMBER_BF16));
    assert_null(limber_format_at(rows));
    assert_null(limber_format_at(-1));
    assert_string_equal(limber_format_name(format("exact"), text, sizeof text), "exact");
    assert_string_equal(limber_format_name(format("(1,5,2)"), text, sizeof text), "(1,5,2)");
    assert_string_equal(limber_format_name(format("(1,8,10)"), text, sizeof text), "tf32");
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(limber_format_named(bad[i], &f), LIMBER_STATUS_BAD_ARGUMENT);
        assert_int_equal(f.kind, LIMBER_KIND_NONE);
    }
    f = format("e4m3"); /* the name of a format without a short name contains all its fields */
    f.flags |= LIMBER_FORMAT_SATURATE;
    f.bias = 11;
    assert_int_equal(limber_format_named(limber_format_name(f, text, sizeof text), &g),
                     LIMBER_STATUS_OK);
    assert_true(limber_format_equal(f, g));
    assert_string_equal(limber_format_name(f, text, 5), "(1,4");
}

/* Each invalid description of a format is refused with a text that names the field. */
static void invalid_formats_are_refused_by_field(void **state)
{
    static const struct {
        limber_format f;
        const char *field;
    } cases[] = {
        { { .kind = LIMBER_KIND_NONE }, "kind" },
        { { .kind = LIMBER_KIND_EXACT }, "kind" },
        { { .kind = 77, .size = 4 }, "kind" },
        { { .kind = LIMBER_KIND_INT, .size = 3 }, "size" },
        { { .kind = LIMBER_KIND_INT, .size = 16 }, "size" },
        { { .kind = LIMBER_KIND_UINT, .size = 2 }, "size" },
        { { .kind = LIMBER_KIND_INT, .size = 4, .carried = 1 }, "carried" },
        { { .kind = LIMBER_KIND_DD, .size = 8 }, "size" },
        { { LIMBER_KIND_FLOAT, 0, 7, 0, 1, 1, 0 }, "exp_bits" },
        { { LIMBER_KIND_FLOAT, 16, 7, 0, 1, 4, 0 }, "exp_bits" },
        { { LIMBER_KIND_FLOAT, 8, 200, 0, 127, 4, 0 }, "frac_bits" },
        { { LIMBER_KIND_FLOAT, 7, 0, 0, 63, 1, 0 }, "frac_bits" },
        { { LIMBER_KIND_FLOAT, 8, 23, 64, 127, 4, 0 }, "flags" },
        { { LIMBER_KIND_FLOAT, 4, 3, LIMBER_FORMAT_NO_MINUS_ZERO, 8, 1, 0 }, "flags" },
        { { LIMBER_KIND_POSIT, 2, 3, 0, 0, 2, 0 }, "size" },
        { { LIMBER_KIND_POSIT, 1, 4, 0, 0, 1, 0 }, "exp_bits" },
        { { LIMBER_KIND_SHORT, 0, 5, 0, 0, 1, 0 }, "frac_bits" },
        { { LIMBER_KIND_POWER, 8, 0, 0, 128, 1, 0 }, "bias" },
        { { LIMBER_KIND_FLOAT, 8, 22, 0, 127, 4, 0 }, "size" },
        { { LIMBER_KIND_FLOAT, 8, 10, 0, 127, 2, 1 }, "size" },
        { { LIMBER_KIND_FLOAT, 9, 10, 0, 255, 4, 1 }, "carrier" },
        { { LIMBER_KIND_FLOAT, 8, 10, 0, 126, 4, 1 }, "carrier" },
    };
    unsigned char room[16] = { 0 };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct diag d = { 0 };

        assert_false(limber_format_convert(room, cases[i].f, room, format("f32"), 1,
                                           LIMBER_ROUND_NEAREST, &d));
        assert_int_equal(d.status, LIMBER_STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(d.text, cases[i].field));
        assert_int_equal(strncmp(d.text, "to: ", 4), 0);
        assert_refused(
            limber_convert(room, format("f32"), room, cases[i].f, 1, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_BAD_ARGUMENT, "from: ");
    }
    assert_int_equal(
        limber_convert(room, format("f32"), room, format("f32"), 1, (limber_rounding)9),
        LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(
        limber_convert(NULL, format("f32"), room, format("f32"), 1, LIMBER_ROUND_NEAREST),
        LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(
        limber_convert(NULL, format("f32"), NULL, format("f32"), 0, LIMBER_ROUND_NEAREST),
        LIMBER_STATUS_OK);
}

/* Exponent ranges, precisions, and which formats include all values of another are as expected. */
static void ranges_are_known(void **state)
{
    (void)state;
    assert_int_equal(limber_format_emin(format("f64")), -1074);
    assert_int_equal(limber_format_emax(format("f64")), 1023);
    assert_int_equal(limber_format_emax(format("e4m3")), 8);
    assert_int_equal(limber_format_emin(format("e4m3")), -9);
    assert_int_equal(limber_format_emax(format("e5m2")), 15);
    assert_int_equal(limber_format_sig(format("f128")), 113);
    assert_int_equal(limber_format_emax(format("i8")), 7);
    assert_true(limber_format_roundoff(format("f32")) == 0x1p-24);
    assert_true(limber_format_roundoff(format("i32")) == 0);
    assert_true(limber_format_embeds(format("bf16"), format("f32")));
    assert_true(limber_format_embeds(format("e5m2"), format("f16")));
    assert_true(limber_format_embeds(format("f64"), format("dd")));
    assert_true(limber_format_embeds(format("i8"), format("bf16")));
    assert_true(limber_format_embeds(format("u8"), format("i16")));
    assert_true(limber_format_embeds(format("f128"), format("exact")));
    assert_false(limber_format_embeds(format("i16"), format("f16")));
    assert_false(limber_format_embeds(format("i8"), format("u8")));
    assert_false(limber_format_embeds(format("f16"), format("bf16")));
    assert_false(limber_format_embeds(format("bf16"), format("f16")));
    assert_false(limber_format_embeds(format("e5m2"), format("e4m3")));
    assert_false(limber_format_embeds(format("dd"), format("f128")));
    assert_false(limber_format_embeds(format("f32"), format("i64")));
    assert_true(limber_format_embeds(format("i4"), format("i8")));
    assert_true(limber_format_embeds(format("i2"), format("i4")));
    assert_false(limber_format_embeds(format("i8"), format("i4")));
    assert_false(limber_format_embeds(format("i4"), format("u8")));
    assert_true(limber_format_embeds(format("posit16"), format("f32")));
    assert_true(limber_format_embeds(format("posit32"), format("f64")));
    assert_false(limber_format_embeds(format("posit32"), format("f32")));
    assert_false(limber_format_embeds(format("posit8"), format("e2m1")));
    assert_true(limber_format_embeds(format("e8m0"), format("f32")));
    assert_true(limber_format_embeds(format("e4m3fnuz"), format("f16")));
    /* e2m1 has -0, which e4m3fnuz lacks */
    assert_false(limber_format_embeds(format("e2m1"), format("e4m3fnuz")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_read),
        cmocka_unit_test(small_floats_round),
        cmocka_unit_test(f64_becomes_f32),
        cmocka_unit_test(binary128_rounds),
        cmocka_unit_test(free_formats_round),
        cmocka_unit_test(carriers_hold_members),
        cmocka_unit_test(dd_is_nearest_twice),
        cmocka_unit_test(dd_is_read_exactly),
        cmocka_unit_test(dd_converts),
        cmocka_unit_test(sticky_breaks_ties),
        cmocka_unit_test(sticky_reaches_the_low_double),
        cmocka_unit_test(lost_bits_are_reported),
        cmocka_unit_test(flags_decide_special_values),
        cmocka_unit_test(integers_round_and_saturate),
        cmocka_unit_test(integers_are_read),
        cmocka_unit_test(names_read_back),
        cmocka_unit_test(invalid_formats_are_refused_by_field),
        cmocka_unit_test(ranges_are_known),
    };

    return cmocka_run_group_tests(tests, seed_rng, NULL);
}
