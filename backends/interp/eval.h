/* SPDX-License-Identifier: BSD-3-Clause
 * The meaning of a plan: one evaluator an operation, element by element. */
#ifndef LIMBER_EVAL_H
#define LIMBER_EVAL_H

#include "backends/backend.h"

bool limber_interp_eval(const struct plan *p, struct call *c, struct diag *d);

#endif
