/* SPDX-License-Identifier: BSD-3-Clause
 * Rounds results of simulated units before they are stored. */
#include "ir/unit/store.h"

#include "ir/ir.h"
#include "ir/num/prim.h"
#include "ir/unit/num.h"

/* Returns what the unit's epilogue makes of a sum. */
double limber_unit_result(const limber_unit *u, const void *c, limber_format f, double x,
                          const double *alpha, const double *beta)
{
    int loss;

    if (beta)
        x = limber_blend(alpha ? *alpha : 1, x, *beta, limber_format_value(f, c));
    else
        x = (alpha ? x * *alpha : x) + 0.0;
    return limber_step_value(&u->epilogue, x, 0, 0, &loss);
}
