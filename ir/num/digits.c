/* SPDX-License-Identifier: BSD-3-Clause */
#include "ir/num/digits.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Each entry has: modulus p, number of digits, `by`, largest digits of A and of B.  `by` makes the
 * product of the last two as small as possible; test_digits recomputes it. */
/* clang-format off */
const struct limber_digits limber_digits[] = {
    { 61, 1, 0, { 160, 160 } }, { 53, 1, 0, { 72, 72 } }, { 49, 1, 0, { 32, 32 } },
    { 47, 1, 0, { 30, 30 } },   { 43, 1, 0, { 26, 26 } }, { 41, 1, 0, { 24, 24 } },
    { 37, 1, 0, { 20, 20 } },   { 32, 1, 0, { 16, 16 } }, { 31, 1, 0, { 15, 15 } },
    { 29, 1, 0, { 14, 14 } },   { 27, 1, 0, { 13, 13 } }, { 25, 1, 0, { 12, 12 } },
    { 23, 1, 0, { 11, 11 } },   { 19, 1, 0, { 9, 9 } },   { 17, 1, 0, { 8, 8 } },
    { 13, 1, 0, { 6, 6 } },     { 11, 1, 0, { 5, 5 } },
    { 89, 2, 8, { 1920, 5 } },  { 83, 2, 8, { 1792, 5 } }, { 79, 2, 9, { 832, 4 } },
    { 73, 2, 8, { 768, 4 } },   { 71, 2, 8, { 384, 4 } },  { 67, 2, 8, { 704, 4 } },
    { 59, 2, 7, { 320, 4 } },
    { 251, 3, 26, { 160, 9 } }, { 241, 3, 25, { 176, 9 } }, { 239, 3, 11, { 160, 10 } },
    { 233, 3, 43, { 160, 9 } }, { 229, 3, 12, { 144, 10 } }, { 227, 3, 26, { 144, 9 } },
    { 223, 3, 39, { 128, 9 } }, { 211, 3, 22, { 120, 9 } }, { 199, 3, 12, { 112, 9 } },
    { 197, 3, 35, { 104, 10 } }, { 193, 3, 40, { 104, 9 } }, { 191, 3, 22, { 104, 8 } },
    { 181, 3, 27, { 88, 9 } },  { 179, 3, 10, { 88, 9 } }, { 173, 3, 30, { 88, 8 } },
    { 167, 3, 10, { 80, 8 } },  { 163, 3, 10, { 80, 8 } }, { 157, 3, 10, { 72, 8 } },
    { 151, 3, 32, { 72, 7 } },  { 149, 3, 54, { 64, 8 } }, { 139, 3, 18, { 60, 7 } },
    { 137, 3, 18, { 60, 7 } },  { 131, 3, 9, { 60, 7 } },  { 127, 3, 19, { 52, 6 } },
    { 113, 3, 17, { 48, 6 } },
};
/* clang-format on */
const int limber_digits_count = sizeof limber_digits / sizeof limber_digits[0];

/* Returns the entry for modulus p with `count` digits; NULL if there is none. */
const struct limber_digits *limber_digits_of(int64_t p, int count)
{
    for (int i = 0; i < limber_digits_count; i++)
        if (limber_digits[i].p == p && limber_digits[i].count == count)
            return &limber_digits[i];
    return NULL;
}

/* True if v >= 0 has at most four significant bits, so that E4M3 holds it. */
static int fits_e4m3(int v)
{
    while (v > 15 && v % 2 == 0)
        v /= 2;
    return v <= 15;
}

/* Sets number[r] to the number of smallest magnitude that is congruent to r modulo p and has at
 * most four significant bits. */
static void find_least_numbers(int p, int number[LIMBER_RESIDUES])
{
    enum { LARGEST = 1920 };

    for (int r = 0; r < p; r++)
        number[r] = INT_MAX;
    for (int v = 0; v <= LARGEST; v++)
        for (int sign = 1; fits_e4m3(v) && sign >= -1; sign -= 2) {
            int r = ((sign * v) % p + p) % p;

            if (number[r] == INT_MAX)
                number[r] = sign * v;
        }
}

/* Sets class[i] to the residue modulo p of digit i of r.  choice: the value, 0 to p - 1, of the
 * digit that is free to choose: l of B or z of A in the table of digits.h. */
static void digit_classes(const struct limber_digits *d, int side, int r, int choice,
                          int class[LIMBER_DIGITS])
{
    int p = d->p, h = (r + (p - choice) * d->by) % p; /* r = h + by choice */

    if (d->count == 1) {
        class[0] = r;
    } else if (side) {
        class[0] = h;
        class[1] = choice;
        class[2] = (h + p - choice) % p;
    } else {
        class[0] = d->count == 2 ? r : (r + p - choice) % p;
        class[1] = (d->by * r + (d->count == 2 ? 0 : choice)) % p;
        class[2] = choice;
    }
}

/* Sets digit[r] to the digits of each residue r of A (side 0) or B (side 1).  One digit is free to
 * choose; the choice makes the largest digit as small as possible. */
void limber_digits_fill(const struct limber_digits *d, int side,
                        double digit[LIMBER_RESIDUES][LIMBER_DIGITS])
{
    int number[LIMBER_RESIDUES];
    double move = d->count != 2 ? 1 : side ? 8 : 0.125;

    memset(digit, 0, LIMBER_RESIDUES * sizeof *digit);
    find_least_numbers(d->p, number);
    for (int r = 0; r < d->p; r++) {
        int best = INT_MAX;

        for (int choice = 0; choice < d->p; choice++) {
            int class[LIMBER_DIGITS], largest = 0;

            digit_classes(d, side, r, choice, class);
            for (int i = 0; i < d->count; i++)
                if (abs(number[class[i]]) > largest)
                    largest = abs(number[class[i]]);
            if (largest >= best)
                continue;
            best = largest;
            for (int i = 0; i < d->count; i++)
                digit[r][i] = number[class[i]] * move;
        }
    }
}
