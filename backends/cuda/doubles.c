/* SPDX-License-Identifier: BSD-3-Clause
 * Constants for the Chinese remainder theorem (CRT) in double arithmetic.  The product P of the
 * moduli and the cofactors are split into columns: groups of bits that each fit a double.
 *
 * A kernel forms the double 1 + c 2^-12 of a residue c by one instruction, and adds (1 + c 2^-12)
 * (2^12 column) to a sum that starts at minus the sum of all 2^12 column, so that the sum of all c
 * column remains.  For each modulus, every column but the highest is rounded up or down so that the
 * start value stays small. */
#include "backends/cuda/cuda.h"

#include <math.h>

static const double limit = 0x1p53; /* integers of at most this magnitude are exact in a double */

/* Returns the largest magnitude that a column's sum takes in a kernel: while residues of all moduli
 * are added, and after q times the column of P is subtracted, where q <= count.  *most: set to the
 * largest sum of all c column. */
static double largest_sum(const struct limber_crt *crt, const double *column, double product,
                          double *most)
{
    double ahead = 0, above = 0, below = 0, largest;

    for (int l = 0; l < crt->count; l++)
        ahead += column[l];
    largest = fabs(4096 * ahead);
    for (int l = 0; l < crt->count; l++) {
        ahead -= column[l];
        above += fmax(0, (crt->modulus[l] - 1) * column[l]);
        below += fmax(0, -(crt->modulus[l] - 1) * column[l]);
        largest = fmax(largest, fmax(above - 4096 * ahead, below + 4096 * ahead));
    }
    *most = fmax(above, below);
    return fmax(largest, fmax(above, below + crt->count * product));
}

/* Splits P and the cofactors into columns of `bits` bits, the highest of which has all remaining
 * bits.  Returns false if a kernel's sums would not be exact. */
static bool split_columns(const struct limber_crt *crt, int columns, int bits,
                          struct cuda_doubles *d)
{
    double column[LIMBER_MODULI], carry[LIMBER_MODULI] = { 0 }, unit = ldexp(1, bits), others = 0;

    d->columns = columns;
    d->inverse = 1 / limber_crt_bits(crt->product, 0, 32 * LIMBER_CRT_DIGITS);
    for (int i = 0; i < columns; i++) {
        int at = bits * i, count = i < columns - 1 ? bits : 32 * LIMBER_CRT_DIGITS - at;
        double product = limber_crt_bits(crt->product, at, count), sum = 0, most;

        for (int l = crt->count; l-- > 0; sum += column[l]) {
            column[l] = limber_crt_bits(crt->cofactor[l], at, count) + carry[l];
            carry[l] = i < columns - 1 && fabs(sum + column[l] - unit) < fabs(sum + column[l]);
            column[l] -= unit * carry[l];
        }
        if (largest_sum(crt, column, product, &most) > limit)
            return false;
        others += i < columns - 1 ? ldexp(most, at) : 0;
        d->product[i] = ldexp(product, at);
        d->begin[i] = 0;
        for (int l = 0; l < crt->count; l++) {
            d->cofactor[l][i] = ldexp(column[l], at + 12);
            d->begin[i] -= d->cofactor[l][i];
        }
    }
    /* all columns but the highest must be negligible, since the kernel computes the quotient q from
     * that one alone */
    return others * d->inverse < 0x1p-20;
}

/* Tries column widths until the sums of all columns are exact.  Returns false if none is
 * suitable. */
bool limber_cuda_doubles(const struct limber_crt *crt, struct cuda_doubles *d)
{
    /* smallest number of bits of a column; with fewer bits a start value would be too large */
    enum { LEAST = 10 };
    double sum = 0;

    for (int l = 0; l < crt->count; l++)
        sum += limber_crt_bits(crt->cofactor[l], 0, 32 * LIMBER_CRT_DIGITS);
    for (int columns = 1; columns <= CUDA_DOUBLES; columns++) {
        int bits = LEAST;

        while (columns > 1 && ldexp(sum, 12 - bits * (columns - 1)) > limit * (1 - 0x1p-20))
            bits++;
        if (bits < 53 && split_columns(crt, columns, bits, d))
            return true;
    }
    return false;
}
