/* SPDX-License-Identifier: BSD-3-Clause
 * Residues as digits of FP8 (e4m3), which holds whole numbers of four significant bits.  Modulo p
 *   x y = sum over i < count of a_i(x) b_i(y)
 *
 *   count   a               b
 *   1       x               y              x, y: numbers that e4m3 holds, congruent modulo p
 *   2       x, by x         h, l           y = h + by l
 *   3       x-z, by x+z, z  h, l, h-l      y = h + by l, any z
 *
 * h, l and z are chosen so that the largest digit is least.  Source:
 * docs/accuracy.md, "Residues (Ozaki II)". */
#ifndef LIMBER_DIGITS_H
#define LIMBER_DIGITS_H

#include <stdint.h>

enum { LIMBER_RESIDUES = 256, LIMBER_DIGITS = 3 };

/* How residues modulo p are written as `count` digits in base `by`. */
struct limber_digits {
    uint8_t p, count, by;
    int16_t reach[2];   /* the largest magnitude of A's and of B's digits, before their scaling */
};

/* Pairwise coprime moduli, sorted by products per bit, fewest first. */
extern const struct limber_digits limber_digits[];
extern const int limber_digits_count;

/* NULL: residues modulo p have no `count` digits here. */
const struct limber_digits *limber_digits_of(int64_t p, int count);
/* Fills the digits of all residues r < p of A (side 0) or B.  Pairs of digits are scaled by 2^3:
 * A's down and B's up, since e4m3 ends at 448. */
void limber_digits_fill(const struct limber_digits *d, int side,
                        double digit[LIMBER_RESIDUES][LIMBER_DIGITS]);

#endif
