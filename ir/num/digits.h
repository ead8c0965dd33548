/* SPDX-License-Identifier: BSD-3-Clause
 * Residues written as digits in FP8 (E4M3), which holds integers of four significant bits.
 * Products of residues modulo p are sums of products of digits:
 *
 *   x y = sum over i < count of a_i(x) b_i(y)  (mod p)
 *
 *   count   a               b
 *   1       x               y              x, y: numbers that E4M3 holds, congruent modulo p
 *   2       x, by x         h, l           y = h + by l
 *   3       x-z, by x+z, z  h, l, h-l      y = h + by l, any z
 *
 * h, l and z are chosen so that the largest digit is as small as possible.  Source:
 * docs/accuracy.md, "Residues (Ozaki II)". */
#ifndef LIMBER_DIGITS_H
#define LIMBER_DIGITS_H

#include <stdint.h>

enum { LIMBER_RESIDUES = 256, LIMBER_DIGITS = 3 };

/* How residues modulo p are written as `count` digits, with the factor `by` of the table above. */
struct limber_digits {
    uint8_t p, count, by;
    int16_t reach[2];   /* largest magnitude of a digit of A and of B, before digits are scaled */
};

/* All moduli, which are pairwise coprime, sorted by the number of digit products per bit, fewest
 * first. */
extern const struct limber_digits limber_digits[];
extern const int limber_digits_count;

/* Returns the entry for modulus p with `count` digits; NULL if there is none. */
const struct limber_digits *limber_digits_of(int64_t p, int count);
/* Sets digit[r] to the digits of each residue r < p of A (side 0) or B (side 1).  With two digits,
 * A's are divided by 8 and B's multiplied by 8, since E4M3 ends at 448. */
void limber_digits_fill(const struct limber_digits *d, int side,
                        double digit[LIMBER_RESIDUES][LIMBER_DIGITS]);

#endif
