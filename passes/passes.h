/* SPDX-License-Identifier: BSD-3-Clause
 * The passes, in order.  Each is a file with one function
 *     bool limber_pass_NAME(plan, target, diag);
 * a new pass needs a file and a row of this list. */
#ifndef LIMBER_PASSES_H
#define LIMBER_PASSES_H

#include "ir/ir.h"

/* clang-format off */
#define LIMBER_PASSES(P) \
    P(conv_to_gemm, "convolution becomes an implicit GEMM") \
    P(choose,       "contract, mask and target give a scheme") \
    P(split,        "operands become limbs and a product table") \
    P(prune,        "rows that the contract does not need go") \
    P(tile,         "register tiles and cache blocks") \
    P(bound,        "prove that what is left keeps the contract")
/* clang-format on */

#define P(name, about) bool limber_pass_##name(struct plan *, const struct target *, struct diag *);
LIMBER_PASSES(P)
#undef P

/* A pass: its name, one line about it, and the function that changes the plan. */
struct pass_info {
    const char *name, *about;
    bool (*run)(struct plan *, const struct target *, struct diag *);
};
extern const struct pass_info limber_passes[];
extern const size_t limber_pass_count;

/* visit is called after every pass, with its name and the plan.  It may be NULL. */
struct pass_watch {
    void (*visit)(void *user, const char *pass, const struct plan *);
    void *user;
};

/* Runs the passes that are named in the comma-separated list (NULL: all), and verifies the plan
 * after each. */
bool limber_passes_run(struct plan *p, const struct target *t, const char *names,
                       struct pass_watch w, struct diag *d);

/* Returns the error that the contract allows for inner dimension k, relative to |A||B|. */
double limber_allowed_error(const struct plan *p, double k);
/* Returns the smallest k of the plan's class, for which it must keep the contract.  2^kbits if the
 * contract does not depend on k. */
double limber_smallest_k(const struct plan *p);
/* Fails if the error bound of a plan after the passes exceeds the contract's at this k, which may
 * be below the plan's class. */
bool limber_check_bound(const struct plan *p, double k, struct diag *d);

/* Predicts the memory traffic of a plan, after all passes, between L2 and the memory beyond, at
 * m = n = k = size on one core.  Zeros if the plan has no cache blocks of a CPU.  In tile.c. */
struct traffic {
    double bytes; /* bytes per multiply-add of the caller's product */
    double rate; /* bytes per second, if limb products run at the target's full rate */
};
struct traffic limber_traffic(const struct plan *p, const struct target *t, double size);

#endif
