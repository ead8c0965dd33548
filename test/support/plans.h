/* SPDX-License-Identifier: BSD-3-Clause
 * Plans of products, stated without the engine. */
#ifndef LIMBER_TEST_PLANS_H
#define LIMBER_TEST_PLANS_H

#include "ir/ir.h"
#include "support.h"

struct planned {
    limber_promise promise;
    const char *scheme;         /* NULL: any */
    limber_format f, result;    /* of both operands, of C */
    const struct mask *a, *b;
    int kbits;
    bool scalars;               /* alpha and beta are given */
};
/* [m,k] times [k,n]; native and fast plans have a budget, others none. */
void plan_state(struct plan *p, const struct planned *x);
/* Fails unless the plan that a scheme gives for this GPU has the interpreter's bits there; passes
 * where the GPU has no such unit. */
void plan_compare(const char *scheme, limber_format f, limber_format result, enum data data,
                  int64_t m, int64_t n, int64_t k);

#endif
