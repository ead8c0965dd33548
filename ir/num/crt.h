/* SPDX-License-Identifier: BSD-3-Clause
 * Constants of the Chinese remainder theorem (CRT) for one set of moduli p_l with product P.  From
 * residues r_l it gives the S with |S| < P/2 and S = r_l mod p_l:
 *
 *   S = sum over l of c_l (P/p_l) - q P,  c_l = r_l inverse_l mod p_l,  q = rint(sum of c_l/p_l)
 *
 * Source: docs/accuracy.md, "Residues (Ozaki II)". */
#ifndef LIMBER_CRT_H
#define LIMBER_CRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* largest number of moduli; largest number of 32-bit digits of P, plus one */
enum { LIMBER_MODULI = 49, LIMBER_CRT_DIGITS = 12 };

/* Constants for the moduli p_l, whose product is P. */
struct limber_crt {
    int count, digits; /* number of moduli; number of 32-bit digits of P plus one */
    int32_t modulus[LIMBER_MODULI];
    uint32_t inverse[LIMBER_MODULI];            /* inverse of P/p_l modulo p_l */
    uint32_t product[LIMBER_CRT_DIGITS];        /* P, lowest digit first */
    uint32_t cofactor[LIMBER_MODULI][LIMBER_CRT_DIGITS];    /* P/p_l, lowest digit first */
};

/* Sets the constants.  Returns false if there are more than LIMBER_MODULI moduli, or these are not
 * pairwise coprime numbers in 2..4096. */
bool limber_crt_init(struct limber_crt *c, const int64_t *moduli, size_t count);

/* Returns bits at to at + count - 1 of a number in LIMBER_CRT_DIGITS digits, as a double; rounded
 * if they are more than 53 bits. */
double limber_crt_bits(const uint32_t *digit, int at, int count);

#endif
