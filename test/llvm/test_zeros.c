/* SPDX-License-Identifier: BSD-3-Clause
 * The packed form of configurations on disk unpacks to the same bytes; damaged bytes are refused
 * without a read beyond them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

size_t limber_zeros_pack(const void *from, size_t size, unsigned char *to);
bool limber_zeros_unpack(const unsigned char *from, size_t packed, void *to, size_t size);

enum { MOST = 400000 };
static unsigned char from[MOST], packed[2 * MOST + 8], to[MOST];

/* Fills `from` with zeros, and sets a random byte in about one 32-bit word in `rare`. */
static void fill_words(struct rng *r, size_t size, int rare)
{
    memset(from, 0, size);
    for (size_t i = 0; i < size; i += 4)
        if (rng_below(r, rare) == 0)
            from[i + (size_t)rng_below(r, 4)] = (unsigned char)rng_next(r);
}

/* Bytes with few or many zeros are the same after packing and unpacking, and packed bytes have at
 * most the documented size. */
static void packed_bytes_are_unpacked(void **state)
{
    static const size_t sizes[] = { 0, 4, 8, 4096, MOST };
    struct rng r = { 11 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int rare = 1; rare < 1 << 20; rare *= 4) {
            size_t n;

            fill_words(&r, sizes[i], rare);
            n = limber_zeros_pack(from, sizes[i], packed);
            assert_true(n <= 2 * sizes[i] + 8);
            memset(to, 0xa5, sizes[i]);
            assert_true(limber_zeros_unpack(packed, n, to, sizes[i]));
            assert_memory_equal(from, to, sizes[i]);
        }
}

/* Unpacks damaged bytes from a heap block of their exact size, so that sanitizers notice reads
 * beyond. */
static void damaged_bytes_are_refused(void **state)
{
    enum { SIZE = 4096 };
    struct rng r = { 12 };
    int refused = 0;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        unsigned char *bytes, *out = malloc(SIZE);
        size_t n, cut;

        fill_words(&r, SIZE, 16);
        n = limber_zeros_pack(from, SIZE, packed);
        cut = n - (size_t)rng_below(&r, (int)n);
        bytes = malloc(cut);
        memcpy(bytes, packed, cut);
        bytes[rng_below(&r, (int)cut)] ^= (unsigned char)(1 + rng_below(&r, 255));
        refused += !limber_zeros_unpack(bytes, cut, out, SIZE);
        free(bytes);
        free(out);
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_bytes_are_unpacked),
        cmocka_unit_test(damaged_bytes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
