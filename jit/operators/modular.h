/* SPDX-License-Identifier: BSD-3-Clause
 * Products modulo a number. */
#ifndef LIMBER_JIT_MODULAR_H
#define LIMBER_JIT_MODULAR_H

#include "jit/problem.h"
#include "jit/report.h"

/* Computes products of real matrices in host memory modulo contract->modulus, from 2 to 2^63 - 1.
 * The arguments were checked; a, b and c have formats whose values binary64 or i64 holds.  stated:
 * the problem with the addresses of all groups.  r may be NULL.  False, with C unchanged, if an
 * element is no integer or memory runs out. */
bool limber_modular_multiply(limber_context *ctx, const limber_problem *p,
                             const struct problem *stated, struct report *r, struct diag *d);

#endif
