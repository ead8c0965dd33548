/* SPDX-License-Identifier: BSD-3-Clause
 * Products of which every element is the exact value, rounded once in a given direction. */
#ifndef LIMBER_JIT_DIRECTED_H
#define LIMBER_JIT_DIRECTED_H

#include "jit/problem.h"
#include "jit/report.h"

#include <string.h>

/* Returns the double next to x: the larger one if up is 1, the smaller one if it is -1. */
static inline double limber_next_double(double x, int64_t up)
{
    int64_t bits;

    if (x == 0)
        return 0x1p-1074 * (double)up;
    memcpy(&bits, &x, sizeof bits);
    bits += bits < 0 ? -up : up;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A result, and how it is rounded.  Its format is that of the problem. */
struct directed_result {
    limber_rounding rounding;
    struct output_view c;
    int64_t step; /* elements from one group's matrix to the next one's */
    void *const *each; /* addresses of the groups' matrices, which replace data and step; or NULL */
};

/* A problem whose result is sided (ir/num/prim_num.h), which tells how each element is rounded in
 * every direction. */
struct sided_problem {
    struct problem p;
    char alpha[16], beta[16]; /* scalars in the format of the sided results */
};

/* Sets *s to the sided form of a problem, without memory for its result.  *s must not be moved. */
void limber_sided_problem(struct sided_problem *s, const struct problem *p);
/* Computes a checked problem under the contract `correct` once, and stores the result in host
 * memory `count` times, each time rounded in another way.  With beta, p->c has the old values.  r
 * may be NULL.  After a failure nothing is stored. */
bool limber_directed_run(limber_context *ctx, const struct problem *p,
                         const struct directed_result *to, int count, struct report *r,
                         struct diag *d);

#endif
