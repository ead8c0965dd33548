/* SPDX-License-Identifier: BSD-3-Clause
 * Compares quotients and remainders that are computed by reciprocals with division, where they may
 * be wrong: near multiples of the divisor, and at the ends of their domain. */
#include "support.h"

#include "ir/num/prim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Compares the fast quotient with n / d; it must be refused if n is out of range. */
static void expect_quotient(int64_t n, int32_t d)
{
    int32_t q;

    if (n < 0 || n > INT32_MAX)
        return;
    q = limber_divide_by((int32_t)n, d, limber_inverse(d));
    if (q != n / d)
        fail_msg("%lld / %d is %d", (long long)n, (int)d, (int)q);
}

/* Quotients by a precomputed inverse are those of an integer division. */
static void quotients_are_those_of_a_division(void **state)
{
    enum { SMALL = 300, RANDOM = 200000 };
    struct rng r = { 3 };

    (void)state;
    assert_int_equal(limber_inverse(0), 0);
    assert_int_equal(limber_inverse(-1), 0);
    for (int32_t d = 1; d < SMALL; d++)
        for (int32_t n = 0; n < 4 * SMALL; n++) {
            expect_quotient(n, d);
            expect_quotient(INT32_MAX - n, d);
        }
    for (int i = 0; i < RANDOM; i++) {
        int32_t d = (int32_t)(rng_next(&r) >> (33 + rng_below(&r, 31))) | 1;
        int64_t multiple = (int64_t)(rng_next(&r) % ((uint64_t)(INT32_MAX / d) + 1)) * d;

        d += d < INT32_MAX ? rng_below(&r, 2) : 0;
        expect_quotient((int64_t)(rng_next(&r) >> 33), d);
        for (int near = -1; near <= 1; near++) {
            expect_quotient(multiple + near, d);
            expect_quotient(multiple / d * d + near, d);
        }
    }
}

/* Remainders by a precomputed inverse are those of an integer division, in the range that residues
 * need. */
static void remainders_are_those_of_a_division(void **state)
{
    enum { TURNS = 4000 };
    struct rng r = { 4 };

    (void)state;
    for (uint32_t p = 2; p <= 256; p++)
        for (int i = 0; i < TURNS; i++) {
            uint32_t t = (uint32_t)(rng_next(&r) >> 40) / p * p + (uint32_t)rng_below(&r, 3);
            int32_t x = (int32_t)(rng_next(&r) >> (32 + rng_below(&r, 31)));
            int64_t m = x % (int64_t)p;

            t = t ? (t - 1) & 0xffffff : 0xffffff;
            for (uint32_t half = 0; half <= p / 2; half += p / 2) {
                uint32_t from = t >= half ? t - half : t;
                int32_t r = limber_mod24(from, half, p, (uint32_t)((0xffffffff + (uint64_t)p) / p));

                if (r + (int64_t)half != (from + half) % p)
                    fail_msg("%u mod %u is %d, from -%u on", from, p, (int)r, half);
            }
            m += m < 0 ? p : 0;
            if (p > 2 && limber_mod32(x, p, (int32_t)((0x100000000 + p / 2) / p)) != m)
                fail_msg("%d mod %u is %u", (int)x, p,
                         limber_mod32(x, p, (int32_t)((0x100000000 + p / 2) / p)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_are_those_of_a_division),
        cmocka_unit_test(remainders_are_those_of_a_division),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
