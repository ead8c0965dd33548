/* SPDX-License-Identifier: BSD-3-Clause
 * Digits of residues (FP8 pieces of a residue modulo p): each digit is an FP8 number within its
 * declared bound, and products of digits give the products of residues, for every pair of residues.
 * Also signed slices: each is small enough for FP8, and together they are the integer. */
#include "support.h"

#include "ir/num/digits.h"
#include "ir/num/prim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef double digits[LIMBER_RESIDUES][LIMBER_DIGITS];

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static void moduli_have_no_common_divisor(void **state)
{
    (void)state;
    for (int i = 0; i < limber_digits_count; i++)
        for (int j = 0; j < i; j++)
            assert_int_equal(common_divisor(limber_digits[i].p, limber_digits[j].p), 1);
}

/* Plans use the moduli in this order: those whose digits need the smallest number of products
 * come first. */
static void fewest_products_come_first(void **state)
{
    (void)state;
    for (int i = 1; i < limber_digits_count; i++) {
        assert_true(limber_digits[i].count >= limber_digits[i - 1].count);
        assert_true(limber_digits[i].count > limber_digits[i - 1].count ||
                    limber_digits[i].p < limber_digits[i - 1].p);
    }
    assert_null(limber_digits_of(61, 2));
    assert_null(limber_digits_of(33, 1));
}

/* Plans rely on sums of 512 products of digits being below 2^24, which FP32 sums exactly. */
static void chains_of_512_are_exact(void **state)
{
    (void)state;
    for (int i = 0; i < limber_digits_count; i++)
        assert_true(512 * limber_digits[i].reach[0] * limber_digits[i].reach[1] <= 1 << 24);
}

/* The digits of all residues are numbers of E4M3, and at most as large as the table says. */
static void fp8_holds_digits(void **state)
{
    (void)state;
    for (int i = 0; i < limber_digits_count; i++)
        for (int side = 0; side < 2; side++) {
            const struct limber_digits *d = &limber_digits[i];
            double largest = 0, moved = d->count != 2 ? 1 : side ? 8 : 0.125;
            digits v;

            limber_digits_fill(d, side, v);
            for (int r = 0; r < d->p; r++)
                for (int x = 0; x < LIMBER_DIGITS; x++) {
                    uint8_t code;
                    double back;

                    assert_int_equal(limber_convert(&code, LIMBER_E4M3, &v[r][x], LIMBER_F64, 1,
                                                    LIMBER_ROUND_NEAREST),
                                     LIMBER_STATUS_OK);
                    limber_convert(&back, LIMBER_F64, &code, LIMBER_E4M3, 1, LIMBER_ROUND_NEAREST);
                    if (back != v[r][x] || (x >= d->count && v[r][x] != 0))
                        fail_msg("%d modulo %d: digit %d is %g", r, d->p, x, v[r][x]);
                    largest = fmax(largest, fabs(v[r][x]) / moved);
                }
            assert_true(largest == d->reach[side]);
            for (int x = 0; x < LIMBER_DIGITS; x++)
                /* the digits of residue 0 are 0, so that padding with zeros is right */
                assert_true(v[0][x] == 0);
        }
}

/* Sums of products of digits are congruent to the products of the residues. */
static void products_are_those_of_residues(void **state)
{
    (void)state;
    for (int i = 0; i < limber_digits_count; i++) {
        const struct limber_digits *d = &limber_digits[i];
        digits a, b;

        limber_digits_fill(d, 0, a);
        limber_digits_fill(d, 1, b);
        for (int x = 0; x < d->p; x++)
            for (int y = 0; y < d->p; y++) {
                double sum = a[x][0] * b[y][0] + a[x][1] * b[y][1] + a[x][2] * b[y][2];

                if (fmod(sum - x * y, d->p) != 0)
                    fail_msg("%d %d modulo %d: %g", x, y, d->p, sum);
            }
    }
}

/* ---- slices with signs ----------------------------------------------------------------------- */

/* A slice has STEP bits, with its sign, and is below REACH = 2^(STEP - 1). */
enum { STEP = 5, REACH = 16 };

/* Checks that the `count` slices of w, highest first, are in [-REACH, REACH), the first one in
 * [-REACH, REACH], and add up to w. */
static void expect_slices(const uint64_t w[LIMBER_WIDE], int count)
{
    uint64_t sum[LIMBER_WIDE] = { 0 }, prepared[LIMBER_WIDE] = { w[0], w[1], w[2] };

    limber_balance(prepared, count, STEP);

    for (int i = 0; i < count; i++) {
        int32_t digit = limber_balanced_slice(prepared, i, count, STEP);
        uint64_t add = (uint64_t)(int64_t)digit, carry = 0;

        if (digit < -REACH || digit > REACH - (i > 0))
            fail_msg("slice %d of %d is %d", i, count, (int)digit);
        for (int q = LIMBER_WIDE; q-- > 0;)
            sum[q] = sum[q] << STEP | (q ? sum[q - 1] >> (64 - STEP) : 0);
        for (int q = 0; q < LIMBER_WIDE; q++) {
            uint64_t old = sum[q], more = (q ? (digit < 0 ? UINT64_MAX : 0) : add);

            sum[q] = old + more + carry;
            carry = sum[q] < old || (carry && sum[q] == old);
        }
    }
    assert_memory_equal(sum, w, sizeof sum);
}

/* The slices of all small and of random large integers add up to the integer. */
static void signed_slices_are_the_integer(void **state)
{
    struct rng r = { 7 };

    (void)state;
    for (int64_t x = -(1 << 14); x <= 1 << 14; x++)
        expect_slices((uint64_t[]){ (uint64_t)x, x < 0 ? UINT64_MAX : 0, x < 0 ? UINT64_MAX : 0 },
                      3);
    for (int i = 0; i < 100000; i++) {
        int bits = 1 + rng_below(&r, 165);
        uint64_t w[LIMBER_WIDE], sign = rng_below(&r, 2) ? UINT64_MAX : 0;

        for (int q = 0; q < LIMBER_WIDE; q++) {
            int here = bits - 64 * q;
            uint64_t word = rng_next(&r) & rng_next(&r), kept;

            kept = here >= 64 ? UINT64_MAX : here > 0 ? ((uint64_t)1 << here) - 1 : 0;
            w[q] = (word & kept) ^ sign;
        }
        expect_slices(w, (bits + STEP) / STEP);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moduli_have_no_common_divisor),
        cmocka_unit_test(fewest_products_come_first),
        cmocka_unit_test(chains_of_512_are_exact),
        cmocka_unit_test(fp8_holds_digits),
        cmocka_unit_test(products_are_those_of_residues),
        cmocka_unit_test(signed_slices_are_the_integer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
