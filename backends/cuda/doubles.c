/* SPDX-License-Identifier: BSD-3-Clause
 * Columns of doubles for CRT reconstruction.  A kernel makes 1 + c 2^-12 of a residue c by one
 * instruction, and adds (1 + c 2^-12) (2^12 column) to a sum that starts at minus the columns' sum,
 * which leaves c column.  All columns but the highest are rounded up or down, modulus by modulus,
 * so that the start stays small. */
#include "backends/cuda/cuda.h"

#include <math.h>

static const double limit = 0x1p53; /* integers are exact up to here */

/* Largest magnitude of a column's sum in a kernel: while it adds all moduli, and after it subtracts
 * q columns of P, q <= count.  *most: largest c column. */
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

/* Splits the constants into columns of `bits` bits; the highest has the rest. */
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
    return others * d->inverse < 0x1p-20; /* the highest column determines q */
}

bool limber_cuda_doubles(const struct limber_crt *crt, struct cuda_doubles *d)
{
    enum { LEAST = 10 }; /* bits: fewer would round badly */
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
