/* SPDX-License-Identifier: BSD-3-Clause */
#include "ir/num/crt.h"

#include <string.h>

/* Multiplies x, in 32-bit digits, by f. */
static void multiply_by(uint32_t *x, uint32_t f)
{
    uint64_t carry = 0;

    for (int i = 0; i < LIMBER_CRT_DIGITS; i++) {
        carry += (uint64_t)x[i] * f;
        x[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* Returns x mod p, by long division. */
static uint32_t remainder_modulo(const uint32_t *x, uint32_t p)
{
    uint64_t r = 0;

    for (int i = LIMBER_CRT_DIGITS; i-- > 0;)
        r = (r << 32 | x[i]) % p;
    return (uint32_t)r;
}

/* Returns the inverse of x modulo p <= 4096, found by trying all numbers; 0 if there is none. */
static uint32_t inverse_modulo(uint32_t x, uint32_t p)
{
    for (uint32_t y = 1; y < p; y++)
        if (x * y % p == 1)
            return y;
    return p == 1;
}

/* Computes the constants of the Chinese remainder theorem.  False if there are more than
 * LIMBER_MODULI moduli, or they are not pairwise coprime numbers in 2..4096. */
bool limber_crt_init(struct limber_crt *c, const int64_t *moduli, size_t count)
{
    memset(c, 0, sizeof *c);
    if (count == 0 || count > LIMBER_MODULI)
        return false;
    c->count = (int)count;
    c->product[0] = 1;
    for (size_t l = 0; l < count; l++) {
        if (moduli[l] < 2 || moduli[l] > 4096)
            return false;
        c->modulus[l] = (int32_t)moduli[l];
        multiply_by(c->product, (uint32_t)moduli[l]);
    }
    for (size_t l = 0; l < count; l++) {
        uint32_t p = (uint32_t)moduli[l];

        c->cofactor[l][0] = 1;
        for (size_t i = 0; i < count; i++)
            if (i != l)
                multiply_by(c->cofactor[l], (uint32_t)moduli[i]);
        c->inverse[l] = inverse_modulo(remainder_modulo(c->cofactor[l], p), p);
        if (c->inverse[l] == 0)
            return false;
    }
    c->digits = LIMBER_CRT_DIGITS;
    while (c->digits > 1 && c->product[c->digits - 1] == 0)
        c->digits--;
    c->digits++;
    return true;
}

/* Returns bits at to at + count - 1 of a number in LIMBER_CRT_DIGITS digits, as a double; rounded
 * if they are more than 53 bits. */
double limber_crt_bits(const uint32_t *digit, int at, int count)
{
    double v = 0;

    for (int b = at + count; b-- > at;)
        v = 2 * v + (b < 32 * LIMBER_CRT_DIGITS ? digit[b / 32] >> b % 32 & 1 : 0);
    return v;
}
