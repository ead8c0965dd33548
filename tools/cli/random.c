/* SPDX-License-Identifier: BSD-3-Clause
 * Random numbers of the command line, which are the same on every machine for the same seed. */
#include "tools/cli/cli.h"

#include <math.h>

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double random_normal(uint64_t *state)
{
    double u = ((double)(random_bits(state) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(random_bits(state) >> 11) * 0x1p-53;

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}
