/* SPDX-License-Identifier: BSD-3-Clause
 * Residues as digits of FP8 (e4m3), which holds whole numbers of four significant bits.  Modulo p
 *   x y = sum over i < count of a_i(x) b_i(y)
 *
 *   count   a               b
 *   1       x               y              any whole number of the class that e4m3 holds
 *   2       x, by x         h, l           y = h + by l
 *   3       x-z, by x+z, z  h, l, h-l      y = h + by l, any z
 *
 * Of all choices of h, l and z these are the ones whose largest digit is least.  Source:
 * docs/accuracy.md, "Residues (Ozaki II)". */
#ifndef LIMBER_DIGITS_H
#define LIMBER_DIGITS_H

#include <stdint.h>

enum { LIMBER_RESIDUES = 256, LIMBER_DIGITS = 3 };

struct limber_digits {
    uint8_t p, count, by;
    int16_t reach[2];   /* the largest magnitude of A's digits, of B's, before they are moved */
};

/* The moduli, pairwise coprime, those first that cost the fewest products a bit. */
extern const struct limber_digits limber_digits[];
extern const int limber_digits_count;

/* NULL: residues modulo p have no `count` digits here. */
const struct limber_digits *limber_digits_of(int64_t p, int count);
/* Digits of residues r < p of A (side 0) or B.  Those of two are moved by 2^3, A's down and B's up:
 * e4m3 ends at 448. */
void limber_digits_fill(const struct limber_digits *d, int side,
                        double digit[LIMBER_RESIDUES][LIMBER_DIGITS]);

#endif
