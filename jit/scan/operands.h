/* SPDX-License-Identifier: BSD-3-Clause
 * What a call has to know of its operands before a kernel is chosen. */
#ifndef LIMBER_JIT_OPERANDS_H
#define LIMBER_JIT_OPERANDS_H

#include "jit/context.h"
#include "jit/problem.h"
#include "jit/scan/scan.h"
#include "passes/contract.h"

/* ---- operands.c ------------------------------------------------------------------------------ */

/* What the scan found: one mask a group for the launches, one over all groups for the class. */
struct scan_result {
    struct mask *a, *b;
    struct mask all_a, all_b;
    bool borrowed[2]; /* masks of prepared operands */
    int slices; /* as in struct plan, */
    struct first_pass first_pass; /* and this */
    bool fractional; /* sums that must be integers may be none */
};
/* f is zero, and to be cleared also after a failure. */
bool limber_scan_operands(limber_context *ctx, struct scan_result *f, const struct problem *p,
                          struct diag *d);
void limber_scan_result_clear(struct scan_result *f, int64_t groups);
/* Of m, the masks of a side, that of group g. */
const struct mask *limber_mask_of(const struct problem *p, const struct mask *m, bool left,
                                  int64_t g);

/* The problem as passes see it. */
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
/* As limber_may_part, of operands that parts can show. */
bool limber_may_cut(const limber_context *ctx, const struct problem *p);

/* estimate.c: slices of `step` bits for the accuracy of the result's format; masks with lines. */
bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int step, int *slices, struct diag *d);
/* log2 of the smallest of some sums sum_p a_ip b_jp 2^-(E_i + F_j), INFINITY where all of them have
 * zero lines; NAN: one vanishes, or no memory. */
double limber_sample_sums(const struct problem *p, const struct mask *a, const struct mask *b);
/* The mean chance that the rounding of an element to sig bits is open where sums are off by less
 * than `error` of the product of their lines' Euclidean norms; NAN: no memory. */
double limber_sample_open(const struct problem *p, double error, int sig);

#endif
