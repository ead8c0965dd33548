/* SPDX-License-Identifier: BSD-3-Clause
 * What a call has to know of its operands before a kernel is chosen. */
#ifndef LIMBER_JIT_OPERANDS_H
#define LIMBER_JIT_OPERANDS_H

#include "jit/context.h"
#include "jit/problem.h"
#include "jit/scan/scan.h"

/* ---- operands.c ------------------------------------------------------------------------------ */

/* What the scan found: one mask a group for the launches, one over all groups for the class. */
struct scan_result {
    struct mask *a, *b;
    struct mask all_a, all_b;
    bool lent[2]; /* masks of prepared operands */
    int slices; /* Ozaki I: asked for or estimated; 0: no wish */
    int first_pass_bits; /* correct: bits, as in struct plan */
    bool fractional; /* exact: sums may be no integers */
};
/* f is zero, and to be cleared also after a failure. */
bool limber_scan_operands(limber_context *ctx, struct scan_result *f, const struct problem *p,
                          struct diag *d);
void limber_scan_result_clear(struct scan_result *f, int64_t groups);
/* Of m, the masks of a side, that of group g. */
const struct mask *limber_mask_of(const struct problem *p, const struct mask *m, bool left,
                                  int64_t g);

/* The scheme that is asked for; "NARROW+WIDE". */
bool limber_asks(const struct problem *p, const char *scheme);
bool limber_names_two(const struct problem *p);
enum scan_depth limber_depth_of(const limber_context *ctx, const struct problem *p);
/* Too little work for a second thread, or for a look at the data, to pay. */
bool limber_is_tiny(const struct problem *p);
/* Too little for a kernel of narrow classes to pay. */
bool limber_is_coarse(const limber_context *ctx, const struct problem *p);
/* A kernel serves every k <= 2^this that no smaller class does. */
int limber_k_class(int64_t k);
double limber_least_k(int kbits); /* of such a class */

/* estimate.c: slices for the accuracy of the result's format; masks with lines. */
bool limber_estimate_slices(limber_context *ctx, const struct problem *p, const struct mask *a,
                            const struct mask *b, int step, int *slices, struct diag *d);
/* Bits of scaled integers that leave few elements of a correct result undecided, from a sample of
 * them; 0: no number is known to. */
int limber_estimate_first_pass(const struct problem *p, const struct mask *a, const struct mask *b,
                               int kbits);

#endif
