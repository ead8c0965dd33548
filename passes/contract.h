/* SPDX-License-Identifier: BSD-3-Clause
 * What a contract means before there is a plan.  The engine asks here what a call needs and may do;
 * it compares neither promises nor names of schemes. */
#ifndef LIMBER_CONTRACT_H
#define LIMBER_CONTRACT_H

#include "ir/ir.h"

/* ---- contract.c: questions about a contract, without a plan ------------------------------- */

/* Checks that a product of these formats can have the contract; the text names the argument. */
bool limber_contract_check(const limber_contract *k, limber_format a, limber_format b,
                           limber_format c, struct diag *d);
/* True if integer results wrap modulo their size, which only sums of integers do. */
bool limber_wraps(const limber_contract *k, limber_format a, limber_format b);
/* True if a result in c that does not fit is refused (RANGE). */
bool limber_refuses_overflow(const limber_contract *k, limber_format a, limber_format b,
                             limber_format c);
/* True if the result is what a described unit computes. */
bool limber_simulates(const limber_contract *k);
/* True if any scheme within the error bound may serve, so that a product may be partitioned. */
bool limber_frees_scheme(const limber_contract *k);
/* The scheme that the caller names.  With "NARROW+WIDE", narrow tiles use [0] and others [1].
 * Without a name both are "". */
enum { SCHEME_NAME = 32 };
void limber_scheme_names(const limber_contract *k, char name[2][SCHEME_NAME]);
/* Checks that a function of one fixed shape can have this contract. */
bool limber_fixed_check(const limber_contract *k, struct diag *d);
/* Checks that a complex product with this contract can be three real ones. */
bool limber_three_products_check(const limber_contract *k, limber_format a, limber_format b,
                                 limber_format c, struct diag *d);
/* The contract of each of the three products.  Native integers wrap, so their differences are
 * right. */
limber_contract limber_three_products_part(const limber_contract *k);
/* The contract of a short sum of products in format f, which is a term of a result under k.
 * unscanned: choose a scheme that needs no scan of the data, where there is one. */
limber_contract limber_contract_of_sum(const limber_contract *k, limber_format f, bool unscanned);
/* True if the scheme `pairs` is named. */
bool limber_names_pairs(const limber_contract *k);
/* True if `pairs` can serve.  *allowed: error before the final rounding, as a coefficient of
 * |A||B|; 0: none. */
bool limber_pairs_serve(const limber_contract *k, double *allowed);
/* True for native sums, also in the stated order, if no scheme with limbs is named. */
bool limber_is_plain(const limber_contract *k);
/* True if the promised error is that of native sums. */
bool limber_errs_natively(limber_promise promise);
/* True if results must be exact integers, so that none is rounded. */
bool limber_is_integral(limber_promise promise);
/* The version of the order of sums that a contract states; 0: it states none. */
int limber_order(const limber_contract *k);

/* ---- request.c: a product under a contract --------------------------------------------------- */

/* The request that a plan is made for: contract, formats and sizes. */
struct product_request {
    const limber_contract *contract;
    limber_format a, b, c;
    int64_t m, n, k, groups;
    bool conv; /* the product of a convolution */
    bool fine; /* part of a product that is not coarse, so it is not coarse either */
};

/* A plan is made after one of these looks at the operands' data. */
enum data_need {
    NEED_nothing,
    NEED_format, /* masks that follow from the formats */
    NEED_probe, /* masks if the data is narrow; else nothing */
    NEED_masks
};
enum data_need limber_data_need(const struct product_request *r, const struct target *t);
/* True if B^T A^T may be computed instead, because it has the bits of (A B)^T. */
bool limber_may_transpose(const struct product_request *r, const struct target *t);
/* True if several plans may compute the product, each a part of it. */
bool limber_may_part(const struct product_request *r);
/* True if parts along k may be rounded before they are added.  scaled: with alpha or beta. */
bool limber_may_sum_parts(const struct product_request *r, const struct mask *a,
                          const struct mask *b, bool scaled);
/* True if there is too little work for a second thread, or for a scan, to pay. */
bool limber_is_tiny(const struct product_request *r);
/* True if there is too little work for kernels of narrow classes to pay. */
bool limber_is_coarse(const struct product_request *r, const struct target *t);

/* Ozaki I: bits of a slice if the library is to estimate the number of slices, else 0. */
int limber_estimated_step(const struct product_request *r);
/* The number of such slices that a product needs.  what_rounds[i] is sum_p |a_ip| sum_j |b_pj| of
 * row i, scales the sum of 2^(F_j) over B's columns. */
int limber_slices_needed(const struct product_request *r, const struct mask *a,
                         const double *what_rounds, double scales, int step);

/* True if a first pass with fewer bits may decide most elements, and chains of binary64 do not. */
bool limber_wants_first_pass(const struct product_request *r, const struct target *t,
                             const struct mask *a, const struct mask *b, int decided);
/* The bits of that first pass; 0: all.  least: log2 of the least of some sampled sums
 * sum_p a_ip b_jp 2^-(E_i + F_j). */
int limber_first_pass_bits(const struct product_request *r, const struct target *t,
                           const struct mask *a, const struct mask *b, double least);

/* True if chains of binary64 may decide most elements of the result. */
bool limber_wants_chains(const struct product_request *r, const struct target *t);
/* Error bound of a chain in binary64, as a share of the product of its lines' Euclidean norms. */
double limber_chain_share(const struct product_request *r);
/* Rounds `open`, the share of elements that chains leave uncertain, to a class 2^-result. */
int limber_decided(double open);

/* True if the scheme `accumulator` may first sum pairs of doubles, which decide no element whose
 * products cancel far enough. */
bool limber_wants_pairs(const struct product_request *r, const struct target *t);
/* Error bound of a sum in pairs of doubles, as a share of the product of its lines' Euclidean
 * norms. */
double limber_pair_share(const struct product_request *r);
/* Rounds `open`, the share of elements that pairs leave undecided, up to a class 2^-result; 0: it
 * is too small to matter, or NAN. */
int limber_paired(double open);

/* True if sums must be integers, so that fractions among the operands may be an error. */
bool limber_needs_integers(const struct product_request *r);

/* The properties that calls must share to use one plan. */
struct request_class {
    int kbits, bits, size; /* as in struct plan */
    bool wrap;
    char wanted[SCHEME_NAME]; /* the scheme, or "" */
    struct node data[2]; /* classes of the masks, as attributes of an arg */
};
/* fractional: operands have fractions, so sums may not be the integers that they must be. */
void limber_request_class(struct request_class *out, const struct product_request *r,
                          const struct target *t, const struct mask *a, const struct mask *b,
                          const struct first_pass *first_pass, bool fractional);
/* The error that the promise of a stated plan allows at the least k of its class, as a coefficient
 * of |A||B|; c is the result's format. */
double limber_stated_budget(const struct plan *p, limber_format c);

#endif
