/* SPDX-License-Identifier: BSD-3-Clause
 * What must be known of a call's operands before a kernel is chosen. */
#ifndef LIMBER_JIT_OPERANDS_H
#define LIMBER_JIT_OPERANDS_H

#include "jit/context.h"
#include "jit/problem.h"
#include "jit/scan/scan.h"
#include "passes/contract.h"

/* ---- operands.c ------------------------------------------------------------------------------ */

/* Results of scanning the operands: a mask (summary of exponents and special values) for each
 * group, which launches read, and one over all groups, from which the kernel key is made. */
struct scan_result {
    /* [group]: result of the group's scan, or a single result if all groups share a matrix */
    struct mask *a, *b;
    struct mask all_a, all_b;
    bool borrowed[2]; /* [A, B]: the masks belong to a prepared operand */
    int slices; /* number of slices, as in struct plan */
    struct first_pass first_pass; /* as in struct plan */
    /* some elements are not integers, although the contract may need sums of integers */
    bool fractional;
};
/* Facts about the operands that a call needs.  They depend on its contract, formats and sizes. */
struct scan_wants {
    enum data_need need;
    bool mixes; /* a probe also samples whether partitioning may pay */
    bool estimates; /* the number of slices is estimated */
    /* whether to sample the share of roundings that sums in binary64 (chains) or double-double sums
     * (pairs) leave uncertain */
    bool chains, pairs;
    bool integers; /* sums must be integers */
};
/* Returns what scans must find out for this call. */
struct scan_wants limber_scan_wants(const limber_context *ctx, const struct problem *p);
/* Scans the operands.  *f must be zero before, and must be cleared afterwards, also after a
 * failure. */
bool limber_scan_operands(limber_context *ctx, struct scan_result *f, const struct problem *p,
                          const struct scan_wants *wants, struct diag *d);
/* Scans all of both operands, and estimates nothing. */
bool limber_scan_masks(limber_context *ctx, struct scan_result *f, const struct problem *p,
                       struct diag *d);
/* Frees the masks (results of scans) in *f, but not those that a prepared operand owns.  groups:
 * number of groups of the product. */
void limber_scan_result_clear(struct scan_result *f, int64_t groups);
/* Returns the number of matrices of an operand: 1 if all groups share one, else one per group.
 * left: the operand is A. */
static inline int64_t limber_matrix_count(const struct problem *p, bool left)
{
    const bool shared =
        left ? !p->at.each_a && p->at.step_a == 0 : !p->at.each_b && p->at.step_b == 0;

    return shared && p->groups > 1 ? 1 : p->groups;
}
/* Returns the mask (scan result) of group g from m, the masks of one operand. left: the operand
 * is A. */
static inline const struct mask *limber_mask_of(const struct problem *p, const struct mask *m,
                                                bool left, int64_t g)
{
    return &m[limber_matrix_count(p, left) == 1 ? 0 : g];
}

/* Returns what the passes need to know of the problem. */
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
                                     .fine = p->part.fine };
}
/* True if the product may be partitioned (limber_can_partition), and the operands' views allow
 * it. */
bool limber_may_cut(const limber_context *ctx, const struct problem *p);

/* slices.c: estimates how many slices (Ozaki I) reach the accuracy of the result's format.  The
 * scan results must have the exponents of lines.  False if memory is short or the device fails. */
bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int *slices, struct diag *d);
/* estimate.c.  Returns log2 of the smallest of some sampled sums |sum_p a_ip b_pj| 2^-(E_i + F_j),
 * where E_i and F_j are the largest exponents of row i and column j.  INFINITY if all sampled lines
 * are zero; NAN if a sum is 0 or unknown, or memory runs out. */
double limber_sample_sums(const struct problem *p, const struct mask *a, const struct mask *b);
/* Returns the mean probability, over a sample, that the rounding of an element to sig bits stays
 * uncertain, if its sum has an error below `error` times the product of the Euclidean norms of its
 * row and column. of_zeros: the probability for an element whose products are all zero.  NAN if
 * memory runs out. */
double limber_sample_open(const struct problem *p, double error, int sig, double of_zeros);

#endif
