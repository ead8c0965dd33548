/* SPDX-License-Identifier: BSD-3-Clause
 * Stores results of simulated units. */
#include "ir/unit/store.h"

#include "ir/ir.h"
#include "ir/num/prim.h"
#include "ir/unit/num.h"

/* Returns alpha x + beta c, rounded to the unit's epilogue.  Without beta, +0 is added. */
static double rounded_result(const limber_unit *u, const void *c, limber_format f, double x,
                             const double *alpha, const double *beta)
{
    int loss;

    if (beta)
        x = limber_blend(alpha ? *alpha : 1, x, *beta, limber_format_value(f, c));
    else
        x = (alpha ? x * *alpha : x) + 0.0;
    return limber_step_value(&u->epilogue, x, 0, 0, &loss);
}

/* Stores a sum of floats as an element of C. */
void limber_unit_store(const limber_unit *u, void *c, limber_format f, double x,
                       const double *alpha, const double *beta)
{
    if (u && u->epilogue.format.kind)
        limber_store_float(c, f, rounded_result(u, c, f, x, alpha, beta), 0, 1, 0, 0);
    else
        limber_store_float(c, f, x, alpha != NULL, alpha ? *alpha : 1, beta != NULL,
                           beta ? *beta : 0);
}
