/* SPDX-License-Identifier: BSD-3-Clause
 * Compares limber_store_near with MPFR.  A result may be stored only if both ends of the sum's
 * error interval round to it.  Sums are random, numbers of the format, or midpoints. */
#include "support.h"

#include "ir/num/dot.h"

#include <math.h>
#include <mpfr.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = SANITIZED ? 20000 : 200000 };

static const char *const formats[] = { "f32", "f16", "bf16", "tf32", "e4m3", "e5m2", "(1,8,5)" };

/* True if alpha v + beta c rounds to the number at p, where v = high + low + side * off. side: 1
 * or -1, for an end of the error interval; scalars: alpha and beta, or NULL. */
static bool rounds_to(struct near_sum s, int side, const double *scalars, double c, limber_format f,
                      const void *p)
{
    mpfr_t v, t;
    bool ok;

    mpfr_inits2(3000, v, t, (mpfr_ptr)NULL);
    mpfr_set_d(v, s.high, MPFR_RNDN);
    mpfr_add_d(v, v, s.low, MPFR_RNDN);
    mpfr_set_d(t, side * s.off, MPFR_RNDN);
    mpfr_add(v, v, t, MPFR_RNDN);
    if (scalars) {
        mpfr_mul_d(v, v, scalars[0], MPFR_RNDN);
        mpfr_set_d(t, c, MPFR_RNDN);
        mpfr_mul_d(t, t, scalars[1], MPFR_RNDN);
        mpfr_add(v, v, t, MPFR_RNDN);
    }
    ok = ref_rounds_to(v, f, p);
    mpfr_clears(v, t, (mpfr_ptr)NULL);
    return ok;
}

static double uniform(struct rng *r)
{
    return (double)(int64_t)rng_next(r) * 0x1p-63;
}

/* Draws a number of the format, or the midpoint to a neighbour, with any exponent. */
static double draw_number_or_midpoint(struct rng *r, limber_format f)
{
    int low = limber_format_emin(f) - 2, span = limber_format_emax(f) + 3 - low;
    double x =
        ldexp(1 + floor(fabs(uniform(r)) * ldexp(1, f.frac_bits + 1)) * ldexp(1, -f.frac_bits - 1),
              low + (int)rng_below(r, span));

    return rng_below(r, 2) ? x : -x;
}

/* limber_store_near stores a sum only if both ends of its error interval round to the stored
 * number; else it stores nothing. */
static void results_are_stored_if_both_ends_round_to_them(void **state)
{
    struct rng r = { 4711 };

    (void)state;
    for (size_t i = 0; i < COUNT(formats); i++) {
        limber_format f = named(formats[i]);
        int stored = 0, odd = 0;

        for (int round = 0; round < ROUNDS / (int)COUNT(formats); round++) {
            double scalars[2] = { uniform(&r), rng_below(&r, 2) ? uniform(&r) : 0 }, c;
            bool scaled = rng_below(&r, 3) == 0, close = rng_below(&r, 2);
            struct near_sum s = { draw_number_or_midpoint(&r, f), 0, 0 };
            char dst[16] = { 0 }, before[16];

            if (!close)
                s.high *= 1 + uniform(&r) * 0x1p-3;
            if (rng_below(&r, 3))
                s.low = s.high * ldexp(uniform(&r), -53 - (int)rng_below(&r, 50));
            if (rng_below(&r, 4))
                s.off = fabs(s.high) * ldexp(fabs(uniform(&r)), -20 - (int)rng_below(&r, 90));
            if (scaled && rng_below(&r, 2)) /* powers of two keep midpoints */
                scalars[0] = rng_below(&r, 2) ? -1 : 0.5;
            limber_convert(dst, f, &(double){ uniform(&r) }, named("f64"), 1, LIMBER_ROUND_NEAREST);
            c = limber_format_value(f, dst);
            memcpy(before, dst, sizeof before);
            if (!limber_store_near(dst, f, s, scaled ? scalars : NULL)) {
                assert_memory_equal(before, dst, sizeof before);
                continue;
            }
            stored++;
            odd += close && !scaled && s.low != 0;
            for (int side = -1; side <= 1; side += 2)
                if (!rounds_to(s, side, scaled ? scalars : NULL, c, f, dst))
                    fail_msg("%s: %a + %a, off by %a, times %a + %a * %a", formats[i], s.high,
                             s.low, s.off, scaled ? scalars[0] : 1, scaled ? scalars[1] : 0, c);
        }
        /* for most results the rounding is certain, also at midpoints, where only the low part
         * tells the direction */
        assert_true(stored > ROUNDS / (int)COUNT(formats) / 2 && odd > 100);
    }
}

/* A sum of zeros is stored as +0.  With scalars, or with a possible error, the function refuses
 * zeros, which its caller then computes. */
static void signs_of_zero_sums(void **state)
{
    const struct near_sum nothing = { 0, 0, 0 }, something = { 0, 0, 0x1p-40 };
    const double minus[2] = { -1, 0 };
    float x = 3;

    (void)state;
    assert_false(limber_store_near(&x, LIMBER_F32, something, NULL));
    assert_true(x == 3);
    assert_true(limber_store_near(&x, LIMBER_F32, nothing, NULL));
    assert_true(x == 0 && !signbit(x));
    x = 3;
    assert_false(limber_store_near(&x, LIMBER_F32, nothing, minus));
    assert_true(x == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
                                            results_are_stored_if_both_ends_round_to_them),
                                        cmocka_unit_test(signs_of_zero_sums) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
