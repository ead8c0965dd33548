/* SPDX-License-Identifier: BSD-3-Clause
 * The passes, in order.  Each is a file with one function  bool limber_pass_NAME(plan, target,
 * diag); adding one is a file and a row. */
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

/* A pass: its name, and the function that changes the plan. */
struct pass_info {
    const char *name, *about;
    bool (*run)(struct plan *, const struct target *, struct diag *);
};
extern const struct pass_info limber_passes[];
extern const size_t limber_pass_count;

/* Called after every pass with its name and the plan; NULL watches nothing. */
struct pass_watch {
    void (*visit)(void *user, const char *pass, const struct plan *);
    void *user;
};

/* Runs the passes named in the comma-separated list (NULL: all), verifying after each. */
bool limber_passes_run(struct plan *p, const struct target *t, const char *names,
                       struct pass_watch w, struct diag *d);

/* What the contract allows for inner dimension k, as a coefficient of |A||B|. */
double limber_budget(const struct plan *p, double k);

/* Bytes that a finished plan moves between L2 and all memory beyond it, at m = n = k = size on one
 * core; zeros if the plan has no cache blocks of a CPU.  In tile.c. */
struct traffic {
    double bytes; /* per multiply-add of the contract's product */
    double rate; /* bytes per second, at the target's rate of limb products */
};
struct traffic limber_traffic(const struct plan *p, const struct target *t, double size);

#endif
