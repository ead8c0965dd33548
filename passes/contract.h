/* SPDX-License-Identifier: BSD-3-Clause
 * The meaning of a contract before there is a plan.  The engine asks these functions what a call
 * needs and may do; the engine itself compares neither promises nor names of schemes. */
#ifndef LIMBER_CONTRACT_H
#define LIMBER_CONTRACT_H

#include "ir/ir.h"

/* ---- contract.c: questions about a contract, without a plan ------------------------------- */

/* Checks that a product of these formats can have the contract.  On failure the error text names
 * the argument. */
bool limber_contract_check(const limber_contract *k, limber_format a, limber_format b,
                           limber_format c, struct diag *d);
/* True if integer results wrap modulo 2^bits of their format: native sums of integers. */
bool limber_wraps(const limber_contract *k, limber_format a, limber_format b);
/* True if a result that does not fit into format c makes the call fail (RANGE). */
bool limber_refuses_overflow(const limber_contract *k, limber_format a, limber_format b,
                             limber_format c);
/* True if a simulated unit defines the result. */
static inline bool limber_simulates(const limber_contract *k)
{
    return k->promise == LIMBER_CONTRACT_SIMULATE;
}
/* True if every scheme within the error bound is allowed, so that a product may be partitioned. */
bool limber_allows_any_scheme(const limber_contract *k);
/* True if the caller names several schemes, each for the tiles that the schemes before it do not
 * suit. */
bool limber_names_several(const limber_contract *k);
enum { SCHEME_LIST = 48 }; /* more bytes than the names of a list of schemes take */
/* Checks that a function that is compiled for one shape (limber_bind_shape) can have this
 * contract. */
bool limber_fixed_check(const limber_contract *k, struct diag *d);
/* Checks that a complex product with this contract can be computed by three real products. */
bool limber_three_products_check(const limber_contract *k, limber_format a, limber_format b,
                                 limber_format c, struct diag *d);
/* Returns the contract of each of the three real products of a complex product.  `exact` becomes
 * `native`, since integers that wrap still have the right differences. */
limber_contract limber_three_products_part(const limber_contract *k);
/* Returns the contract for a sum of a few products in format f, which yields a result under
 * contract k. unscanned: the returned contract names a scheme that needs no scan of the data, if
 * there is one. */
limber_contract limber_contract_of_sum(const limber_contract *k, limber_format f, bool unscanned);
/* True if the caller names the scheme `pairs`. */
bool limber_names_pairs(const limber_contract *k);
/* True if the scheme `pairs` (double-double sums) can keep the contract.  *allowed: allowed error
 * before the final rounding, relative to |A||B|; 0 if no error is allowed. */
bool limber_pairs_serve(const limber_contract *k, double *allowed);
/* True if the contract needs only native sums, in any order or the documented one, and names no
 * scheme with limbs. */
bool limber_needs_native_sums(const limber_contract *k);
/* True if the promise allows the error of native sums. */
bool limber_errs_natively(limber_promise promise);
/* True if results must be exact integers, which are never rounded. */
bool limber_requires_integers(limber_promise promise);
/* Returns the version of the order of additions that a contract fixes; 0 if it fixes none. */
int limber_order(const limber_contract *k);

/* ---- request.c: a product under a contract --------------------------------------------------- */

/* The request that a plan is made for: contract, formats and sizes. */
struct product_request {
    const limber_contract *contract;
    limber_format a, b, c;
    int64_t m, n, k, groups;
    bool conv; /* the product of a convolution */
    /* True for a part of a larger product if compiling a kernel for classes of data with fewer
     * bits pays for the larger product; it then pays for the part, too. */
    bool fine;
};

/* What must be known of the operands' data before a plan can be made. */
enum data_need {
    NEED_nothing,
    NEED_format, /* exponents and bits that follow from the formats, without a scan */
    /* the results of a probe, a scan that stops early, if it finds a small range of exponents or
     * few bits; else nothing */
    NEED_probe,
    NEED_masks
};
enum data_need limber_data_need(const struct product_request *r, const struct target *t);
/* True if B^T A^T may be computed instead of A B, because the results have the same bits. */
bool limber_may_transpose(const struct product_request *r, const struct target *t);
/* True if the product may be partitioned, with a plan for each part. */
bool limber_can_partition(const struct product_request *r);
/* True if the sums over parts of k may be rounded before they are added.  scaled: alpha or beta is
 * used. */
bool limber_may_sum_parts(const struct product_request *r, const struct mask *a,
                          const struct mask *b, bool scaled);
/* True if the product is so small that neither a second thread nor a scan pays. */
bool limber_is_tiny(const struct product_request *r);
/* True if the product is so small that compiling a kernel for a class of data with fewer bits does
 * not pay. */
bool limber_is_coarse(const struct product_request *r, const struct target *t);

/* Ozaki I: true if the library has to estimate the number of slices. */
bool limber_estimates_slices(const struct product_request *r);
/* Returns the number of slices (Ozaki I). least: the smallest nonzero sum_p |a_ip| |b_pj|
 * 2^-(E_i + F_j), where E_i and F_j are the largest exponents of row i and column j. */
int limber_slices_needed(const struct product_request *r, const struct mask *a,
                         const struct mask *b, double least);

/* True if a first pass with fewer bits may be accurate enough to round most elements, while sums
 * in binary64 are not. decided: r if such sums leave a share of about 2^-r of the elements
 * uncertain; 0 if that is unknown (limber_decided). */
bool limber_wants_first_pass(const struct product_request *r, const struct target *t,
                             const struct mask *a, const struct mask *b, int decided);
/* Returns the number of bits of a first pass; 0 if there is none. least: log2 of the smallest of
 * some sampled sums |sum_p a_ip b_pj| 2^-(E_i + F_j), where E_i and F_j are the largest exponents
 * of row i and column j. */
int limber_first_pass_bits(const struct product_request *r, const struct target *t,
                           const struct mask *a, const struct mask *b, double least);

/* True if sums in binary64 may be accurate enough to round most elements of the result. */
bool limber_wants_chains(const struct product_request *r, const struct target *t);
/* bound.c: returns the relative error of a chain of n products, to which `others` further sums are
 * added (docs/accuracy.md, "Native chains").  u: the unit round-off. */
double limber_chain_bound(double n, double others, double u);
/* Returns the error bound of a sum in binary64, relative to the product of the Euclidean norms of
 * its row and its column. */
double limber_chain_share(const struct product_request *r);
/* `open` is the share of elements whose rounding sums in binary64 leave uncertain.  Returns the
 * largest of a few numbers r with open <= 2^-r; 1 if the share is more than 2^-4; 0 if it is
 * NAN. */
int limber_decided(double open);

/* True if the scheme `accumulator` may sum in double-double first.  Such a sum leaves an element's
 * rounding uncertain if its products cancel far enough. */
bool limber_wants_pairs(const struct product_request *r, const struct target *t);
/* Returns the error bound of a double-double sum, relative to the product of the Euclidean norms of
 * its row and its column. */
double limber_pair_share(const struct product_request *r);
/* `open` is the share of elements whose rounding double-double sums leave uncertain.  Returns the
 * largest of a few numbers r with open <= 2^-r; 1 if the share is more than 2^-4; 0 if it is too
 * small to matter, or NAN. */
int limber_paired(double open);

/* True if sums must be integers.  Then fractions among the operands may be an error. */
bool limber_needs_integers(const struct product_request *r);

/* The properties of a request that two calls must have in common to use one plan. */
struct request_class {
    int kbits, bits, size; /* as in struct plan */
    bool wrap;
    char wanted[SCHEME_LIST]; /* name of the scheme or of the list of schemes, or "" */
    struct data_class data[2]; /* [A, B]: what a scan found in the operand, rounded to a class */
};
/* Sets *out to the class of a request, the properties that calls with one plan have in common.
 * fractional: some elements are not integers, so sums that must be integers may not be. */
void limber_request_class(struct request_class *out, const struct product_request *r,
                          const struct target *t, const struct mask *a, const struct mask *b,
                          const struct first_pass *first_pass, bool fractional);
/* Returns the error that the promise allows at the smallest k that the plan computes, relative to
 * |A||B|. c is the result's format. */
double limber_stated_budget(const struct plan *p, limber_format c);

#endif
