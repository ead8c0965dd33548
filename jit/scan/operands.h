/* SPDX-License-Identifier: BSD-3-Clause
 * What a call must know of its operands before a kernel is chosen. */
#ifndef LIMBER_JIT_OPERANDS_H
#define LIMBER_JIT_OPERANDS_H

#include "jit/context.h"
#include "jit/problem.h"
#include "jit/scan/scan.h"
#include "passes/contract.h"

/* ---- operands.c ------------------------------------------------------------------------------ */

/* Results of a scan: one mask per group for launches, and one over all groups for the class. */
struct scan_result {
    struct mask *a, *b;
    struct mask all_a, all_b;
    bool borrowed[2]; /* true: the masks belong to a prepared operand */
    int slices; /* as in struct plan */
    struct first_pass first_pass; /* as in struct plan */
    bool fractional; /* operands have fractions, so sums that must be integers may not be */
};
/* f must be zero, and must be cleared also after a failure. */
bool limber_scan_operands(limber_context *ctx, struct scan_result *f, const struct problem *p,
                          struct diag *d);
void limber_scan_result_clear(struct scan_result *f, int64_t groups);
/* The mask of group g among m, the masks of one side. */
const struct mask *limber_mask_of(const struct problem *p, const struct mask *m, bool left,
                                  int64_t g);

/* The problem in the form that passes take. */
static inline struct product_request limber_request(const struct problem *p)
{
    return (struct product_request){ .contract = &p->contract,
                                     .a = p->fa,
                                     .b = p->fb,
                                     .c = p->fc,
                                     .m = p->m,
                                     .n = p->n,
                                     .k = p->k,
                                     .groups = p->groups,
                                     .conv = p->shape != NULL,
                                     .fine = p->fine };
}
/* limber_may_part that also checks whether parts can show the operands' views. */
bool limber_may_cut(const limber_context *ctx, const struct problem *p);

/* estimate.c: estimates the slices of `step` bits that reach the accuracy of the result's format;
 * needs masks with lines. */
bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int step, int *slices, struct diag *d);
/* log2 of the smallest of some sampled sums sum_p a_ip b_jp 2^-(E_i + F_j); INFINITY if all of them
 * have zero lines; NAN if one is 0, or out of memory. */
double limber_sample_sums(const struct problem *p, const struct mask *a, const struct mask *b);
/* The mean probability that rounding an element to sig bits stays uncertain, if sums have an error
 * below `error` times the product of their lines' Euclidean norms; NAN: no memory.  of_zeros: the
 * probability for an element all of whose products are zero. */
double limber_sample_open(const struct problem *p, double error, int sig, double of_zeros);

#endif
