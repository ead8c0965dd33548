/* SPDX-License-Identifier: BSD-3-Clause
 * Tests whether a matrix is singular by its determinant modulo two Mersenne primes.  Elements are
 * integers times powers of two, so they have residues.  A nonzero residue proves that the
 * determinant is not 0.  If the determinant is not 0, both residues, of 92 bits together, are 0
 * only by chance. */
#include "jit/operators/solve.h"

#include <string.h>

/* The fraction bits of binary128, and the mask of its exponent field. */
enum { FRACTION = 112, EXPONENT = 0x7fff };

/* Returns x modulo p = 2^bits - 1, for x < p^2.  Adds the upper bits to the lower ones, because
 * 2^bits is 1 modulo p. */
static uint64_t reduce_modulo(unsigned __int128 x, int bits)
{
    const uint64_t p = ((uint64_t)1 << bits) - 1;
    uint64_t sum = ((uint64_t)x & p) + (uint64_t)(x >> bits);

    return sum >= p ? sum - p : sum;
}

/* Returns x y modulo the Mersenne prime 2^bits - 1. */
static uint64_t multiply_modulo(uint64_t x, uint64_t y, int bits)
{
    return reduce_modulo((unsigned __int128)x * y, bits);
}

/* Returns the inverse of x modulo p, which is x^(p - 2) by Fermat's little theorem. */
static uint64_t inverse_of(uint64_t x, int bits)
{
    uint64_t y = 1;

    for (uint64_t e = ((uint64_t)1 << bits) - 3; e; e >>= 1) {
        if (e & 1)
            y = multiply_modulo(y, x, bits);
        x = multiply_modulo(x, x, bits);
    }
    return y;
}

/* Returns the residue of a finite number, up to a constant factor. 2^bits is 1 modulo p, so only
 * exponent mod `bits` matters.  A factor that all elements have does not change the rank, so the
 * exponent's bias is ignored. */
static uint64_t residue_of(quad x, int bits)
{
    const uint64_t p = ((uint64_t)1 << bits) - 1;
    unsigned __int128 all, fraction;
    uint64_t r = 0;
    int exponent;

    memcpy(&all, &x, sizeof all);
    fraction = all & (((unsigned __int128)1 << FRACTION) - 1);
    exponent = (int)(all >> FRACTION) & EXPONENT;
    if (exponent)
        fraction |= (unsigned __int128)1 << FRACTION;
    else
        exponent = 1; /* subnormal */
    for (; fraction; fraction >>= bits)
        r = reduce_modulo((unsigned __int128)r + ((uint64_t)fraction & p), bits);
    r = multiply_modulo(r, (uint64_t)1 << exponent % bits, bits);
    return all >> 127 && r ? p - r : r;
}

static void swap_rows(uint64_t *a, uint64_t *b, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        uint64_t x = a[j];

        a[j] = b[j];
        b[j] = x;
    }
}

/* Eliminates an n x n row-major matrix of residues by Gauss's method.  False if the determinant is
 * 0. */
static bool has_inverse(uint64_t *m, int64_t n, int bits)
{
    const uint64_t p = ((uint64_t)1 << bits) - 1;

    for (int64_t i = 0; i < n; i++) {
        uint64_t *top = m + i * n, over;
        int64_t pivot = i;

        while (pivot < n && !m[pivot * n + i])
            pivot++;
        if (pivot == n)
            return false;
        if (pivot > i)
            swap_rows(m + pivot * n, top, n);
        over = inverse_of(top[i], bits);
        for (int64_t r = i + 1; r < n; r++) {
            uint64_t *row = m + r * n, factor = multiply_modulo(row[i], over, bits);

            for (int64_t j = i + 1; factor && j < n; j++)
                row[j] = reduce_modulo((unsigned __int128)(p - factor) * top[j] + row[j], bits);
        }
    }
    return true;
}

/* True if a matrix of finite numbers, row-major, is singular. */
bool limber_is_singular(const quad *a, int64_t n, uint64_t *room)
{
    static const int exponents[] = { 61, 31 }; /* 2^61 - 1 and 2^31 - 1 are prime */

    for (size_t e = 0; e < COUNT(exponents); e++) {
        for (int64_t i = 0; i < n * n; i++)
            room[i] = residue_of(a[i], exponents[e]);
        if (has_inverse(room, n, exponents[e]))
            return false;
    }
    return true;
}
