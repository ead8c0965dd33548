/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of the C library that Limber's LAPACK has instead of the system's: square roots of
 * complex numbers and magnitudes, on zeros, infinities, NaN and both ends of the range, beside the
 * system's. */
#include "tools/interpose/lapack/math.c"

#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const double values[] = { 0.0, -0.0,     1,         -1,        3,
                                 -4,  0x1p1023, -0x1p1023, 0x1p-1022, -0x1p-1022,
                                 NAN, INFINITY, -INFINITY, 1.5,       0x1p-1074 };
enum { VALUES = sizeof values / sizeof *values };

/* Returns whether a result is the expected one: the same special value and sign, or a number
 * within eight units in the last place. */
static bool is_close(double got, double want)
{
    if (isnan(want))
        return isnan(got);
    if (isinf(want) || want == 0)
        return got == want && signbit(got) == signbit(want);
    return fabs(got - want) <= fmax(0x1p-50 * fabs(want), 0x1p-1073);
}

/* Tests square roots of complex numbers whose real and imaginary parts are all pairs of values. */
static void square_roots_are_those_of_the_c_library(void **state)
{
    (void)state;
    for (int i = 0; i < VALUES; i++)
        for (int j = 0; j < VALUES; j++) {
            double complex z = complex_of(values[i], values[j]), want = csqrt(z),
                           got = limber_lapack_csqrt(z);

            /* the sign of a NaN's infinite partner is not specified */
            if (isinf(values[i]) && values[i] < 0 && isnan(values[j])) {
                assert_true(isnan(creal(got)) && isinf(cimag(got)));
                continue;
            }
            if (!is_close(creal(got), creal(want)) || !is_close(cimag(got), cimag(want)))
                fail_msg("sqrt(%g, %g) is (%g, %g), not (%g, %g)", values[i], values[j], creal(got),
                         cimag(got), creal(want), cimag(want));
        }
}

/* Absolute values of complex numbers, whose parts are all pairs of values, are those of the C
 * library. */
static void magnitudes_are_those_of_the_c_library(void **state)
{
    (void)state;
    for (int i = 0; i < VALUES; i++)
        for (int j = 0; j < VALUES; j++) {
            double complex z = complex_of(values[i], values[j]);

            assert_true(is_close(limber_lapack_cabs(z), cabs(z)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(square_roots_are_those_of_the_c_library),
        cmocka_unit_test(magnitudes_are_those_of_the_c_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
