/* SPDX-License-Identifier: BSD-3-Clause
 * What a contract means before there is a plan.  The engine asks here what a call needs and may do;
 * it compares neither promises nor names of schemes. */
#ifndef LIMBER_CONTRACT_H
#define LIMBER_CONTRACT_H

#include "ir/ir.h"

/* ---- contract.c: a contract alone ------------------------------------------------------------ */

/* Is the contract one that a product of these formats can have?  The text names the argument. */
bool limber_contract_check(const limber_contract *k, limber_format a, limber_format b,
                           limber_format c, struct diag *d);
/* Integer results are taken modulo their size: only sums of integers are. */
bool limber_wraps(const limber_contract *k, limber_format a, limber_format b);
/* A result in c that does not fit is refused. */
bool limber_refuses_overflow(const limber_contract *k, limber_format a, limber_format b,
                             limber_format c);
/* The result is what a described unit computes. */
bool limber_simulates(const limber_contract *k);
/* Every scheme that keeps the error serves the contract: a product may be cut into parts. */
bool limber_frees_scheme(const limber_contract *k);
/* The scheme that the caller names.  Of two, "NARROW+WIDE", narrow tiles go to [0], others to [1].
 * Without a wish both are "". */
enum { SCHEME_NAME = 32 };
void limber_scheme_names(const limber_contract *k, char name[2][SCHEME_NAME]);
/* Can a function of one fixed shape have this contract? */
bool limber_fixed_check(const limber_contract *k, struct diag *d);
/* Can a complex product with this contract be three real ones? */
bool limber_three_products_check(const limber_contract *k, limber_format a, limber_format b,
                                 limber_format c, struct diag *d);
/* The contract of each of the three products: their differences wrap to the right result. */
limber_contract limber_three_products_part(const limber_contract *k);
/* The contract of a sum of a few products in format f, which are terms of a result under k.
 * unscanned: by a scheme that asks nothing of the data, where there is one. */
limber_contract limber_contract_of_sum(const limber_contract *k, limber_format f, bool unscanned);
/* Is the scheme `pairs` named?  Can it serve, and by how much, as a coefficient of |A||B|, may its
 * elements be off before they are rounded (0: not at all)? */
bool limber_names_pairs(const limber_contract *k);
bool limber_pairs_serve(const limber_contract *k, double *allowed);
/* Native sums, in the stated order too, and no scheme of limbs is asked for. */
bool limber_is_plain(const limber_contract *k);
/* The error that is promised is that of native sums. */
bool limber_errs_natively(limber_promise promise);
/* Results are integers as they are: none is rounded to one. */
bool limber_is_integral(limber_promise promise);
/* The version of the order of sums that a contract states; 0: it states none. */
int limber_order(const limber_contract *k);

/* ---- request.c: a product under a contract --------------------------------------------------- */

struct product_request {
    const limber_contract *contract;
    limber_format a, b, c;
    int64_t m, n, k, groups;
    bool conv; /* the product of a convolution */
    bool fine; /* part of a product that is not coarse, so it is not coarse either */
};

/* What must be known of the operands before the plan is stated. */
enum data_need {
    NEED_nothing,
    NEED_format, /* masks that follow from the formats */
    NEED_probe, /* masks of narrow data; of other data nothing */
    NEED_masks
};
enum data_need limber_data_need(const struct product_request *r, const struct target *t);
/* B^T A^T has the bits of (A B)^T. */
bool limber_may_transpose(const struct product_request *r, const struct target *t);
/* Several plans may compute the product, each a part. */
bool limber_may_part(const struct product_request *r);
/* Parts along k may be stored before they are added.  scaled: with alpha or beta. */
bool limber_may_sum_parts(const struct product_request *r, const struct mask *a,
                          const struct mask *b, bool scaled);
/* Too little work for a second thread, or for a scan, to pay. */
bool limber_is_tiny(const struct product_request *r);
/* Too little for kernels of narrow classes to pay. */
bool limber_is_coarse(const struct product_request *r, const struct target *t);

/* Ozaki I: the bits of a slice where the count of slices is for the library to estimate, else 0. */
int limber_estimated_step(const struct product_request *r);
/* How many such slices a product needs: what_rounds[i] is sum_p |a_ip| sum_j |b_pj| of row i,
 * scales the sum of 2^(F_j) over B's columns. */
int limber_slices_needed(const struct product_request *r, const struct mask *a,
                         const double *what_rounds, double scales, int step);

/* Might fewer bits than all decide most elements of the result, where chains of binary64 do not? */
bool limber_wants_first_pass(const struct product_request *r, const struct target *t,
                             const struct mask *a, const struct mask *b, int decided);
/* As many bits; 0: all.  least: log2 of the least of some sums sum_p a_ip b_jp 2^-(E_i + F_j). */
int limber_first_pass_bits(const struct product_request *r, const struct target *t,
                           const struct mask *a, const struct mask *b, double least);

/* Might chains of binary64 decide most elements of the result? */
bool limber_wants_chains(const struct product_request *r, const struct target *t);
/* By what share of the product of its lines' norms such a chain may be off. */
double limber_chain_share(const struct product_request *r);
/* A class of the share of elements that they leave open: all but 2^-decided are decided. */
int limber_decided(double open);

/* Sums must be integers, which fractions among the operands may prevent. */
bool limber_needs_integers(const struct product_request *r);

/* What calls that share a plan have in common. */
struct request_class {
    int kbits, bits, size; /* as in struct plan */
    bool wrap;
    char wanted[SCHEME_NAME]; /* the scheme, or "" */
    struct node data[2]; /* classes of the masks, as attributes of an arg */
};
/* fractional: the sums may be no integers though they must be. */
void limber_request_class(struct request_class *out, const struct product_request *r,
                          const struct target *t, const struct mask *a, const struct mask *b,
                          const struct first_pass *first_pass, bool fractional);
/* What the promise of a stated plan allows at the least k of its class, as a coefficient of
 * |A||B|; c is the result's format. */
double limber_stated_budget(const struct plan *p, limber_format c);

#endif
