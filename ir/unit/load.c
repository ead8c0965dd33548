/* SPDX-License-Identifier: BSD-3-Clause
 * Loads operands of a simulated unit: scales blocks, rounds elements. */
#include "ir/unit/num.h"

#include <math.h>
#include <stdbool.h>

/* Returns the scale of a block of operands; 1 if it has no finite nonzero element. */
static double scale_of(const limber_unit *u, const limber_step *s, const double *x, int64_t n)
{
    double most = 0;

    for (int64_t p = 0; p < n; p++)
        if (isfinite(x[p]) && fabs(x[p]) > most)
            most = fabs(x[p]);
    return most > 0 ? limber_unit_scale(u, s, most) : 1;
}

/* Rounds k elements of a row of A (side 0) or column of B (side 1) to the format in which the unit
 * loads them, with a common scale for each block if the unit has scales. */
void limber_unit_load(const limber_unit *u, int side, const double *line, int64_t k,
                      struct loaded *out)
{
    const limber_step *s = side ? &u->b : &u->a;
    int64_t block = u->scale ? u->scale_block : k > 0 ? k : 1;

    for (int64_t from = 0; from < k; from += block) {
        int64_t n = k - from < block ? k - from : block;
        double scale = u->scale ? scale_of(u, s, line + from, n) : 1;

        for (int64_t p = from; p < from + n; p++)
            limber_unit_load_one(s, line[p], scale, u->sub > 1, &out[p]);
    }
}
