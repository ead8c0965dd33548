/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the moduli for products modulo a number, and computes constants for conversions. */
#include "jit/operators/residues.h"

#include <math.h>
#include <stdbool.h>

static int greatest_divisor(int a, int b)
{
    return b ? greatest_divisor(b, a % b) : a;
}

/* Returns x modulo m, above -m/2 and at most m/2. */
static int32_t symmetric(int64_t x, int32_t m)
{
    const int32_t r = (int32_t)((x % m + m) % m);

    return r > m / 2 ? r - m : r;
}

/* Adds the largest modulus below the last one that is coprime to all others.  False if there is
 * none. */
static bool add_modulus(struct moduli *x)
{
    int32_t next = x->count ? x->m[x->count - 1] : 257;
    bool found = false;

    while (!found && --next > 1) {
        found = true;
        for (int i = 0; i < x->count && found; i++)
            found = greatest_divisor(x->m[i], next) == 1;
    }
    if (!found || x->count == MOST_MODULI)
        return false;
    x->m[x->count++] = next;
    return true;
}

/* Sets the constants by which numbers are converted to and from residues modulo the i-th modulus.
 */
static void set_factors(struct moduli *x, int i)
{
    const int32_t m = x->m[i];
    __int128 term = 1;
    int32_t rest = 1;

    for (int j = 0; j < x->count; j++)
        if (j != i) {
            term = term * x->m[j] % x->p;
            rest = rest * x->m[j] % m;
        }
    x->inverse[i] = 1 / (float)m;
    x->piece[i][0] = symmetric((int64_t)1 << PIECE, m);
    x->piece[i][1] = symmetric((int64_t)1 << 2 * PIECE, m);
    for (int32_t w = 1; w < m; w++)
        if (rest * w % m == 1)
            x->weight[i] = symmetric(w, m);
    x->term[i][0] = (int64_t)term & 0xffffffff;
    x->term[i][1] = (int64_t)term >> 32;
}

/* Chooses moduli whose product exceeds 4 k (p / 2)^2, for products of inner dimension k.  Returns
 * false if there are too few. */
bool limber_moduli_choose(struct moduli *x, int64_t p, int64_t k)
{
    const double most = 2 + 2 * log2((double)p / 2) + log2(fmax((double)k, 1)) + 1e-9;
    double bits = 0;

    x->p = p;
    x->count = 0;
    x->pieces = 1 + (p / 2 >= (int64_t)1 << (PIECE - 1)) + (p / 2 >= (int64_t)1 << (2 * PIECE - 1));
    for (; bits <= most; bits += log2(x->m[x->count - 1]))
        if (!add_modulus(x))
            return false;
    for (int i = 0; i < x->count; i++)
        set_factors(x, i);
    x->all = (int64_t)((__int128)(((uint64_t)x->term[0][1] << 32) + (uint64_t)x->term[0][0]) *
                       x->m[0] % p);
    return true;
}
