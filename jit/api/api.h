/* SPDX-License-Identifier: BSD-3-Clause
 * What the public calls share: errors, argument checks, and the conversion of a caller's problem to
 * the engine's. */
#ifndef LIMBER_JIT_API_H
#define LIMBER_JIT_API_H

#include "jit/engine.h"
#include "limber/solve.h"

/* error.c: makes the text in *d the error text of this thread.  Returns the status in *d. */
limber_status limber_error_set(const struct diag *d);

/* check.c: argument checks of GEMMs and convolutions.  On failure each describes the error in *d
 * and returns false.  `what` names the argument in error texts. */
bool limber_check_format(limber_format f, const char *what, struct diag *d);
/* Checks a matrix of rows x cols elements: its format, its strides, and that byte offsets do not
 * overflow. */
bool limber_check_matrix(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                         struct diag *d);
/* Checks that the address of the matrix is not NULL, unless the matrix has no elements. */
bool limber_check_data(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                       struct diag *d);
/* Checks source and destination of an elementwise function.  They may share memory only if they
 * begin at the same address and their elements have the same size. */
bool limber_check_arrays(const void *dst, limber_format to, const void *src, limber_format from,
                         size_t count, struct diag *d);
/* Checks that no two elements of the matrix share memory. */
bool limber_check_distinct(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                           struct diag *d);
/* A matrix, its sizes, and its name in error texts.  limber_check_apart checks that two such
 * matrices do not overlap in memory. */
struct extent {
    const limber_matrix *m;
    const char *what;
    int64_t rows, cols;
};
bool limber_check_apart(struct extent c, struct extent x, struct diag *d);

/* gemm.c: the sizes and matrices of a product, for argument checks. */
struct product_matrices {
    int64_t m, n, k;
    limber_matrix a, b, c;
};
limber_matrix limber_as_matrix(limber_output c);
bool limber_check_sizes(int64_t m, int64_t n, int64_t k, struct diag *d);
/* Checks that the matrices of one product are not NULL and that C overlaps neither operand. */
bool limber_check_addresses(const struct product_matrices *x, struct diag *d);
/* batch.c: checks the addresses of all matrices of a batch, and that no result overlaps another
 * matrix. */
bool limber_check_batch(const limber_batch *t, const struct product_matrices *x, struct diag *d);

/* Converts the caller's problem p to the engine's structure *to. stores: C will be written.  The
 * structures that p points to have the sizes of this version and must outlive *to.  Returns false
 * on failure. */
bool limber_gemm_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d);
/* Keeps the form (sizes, strides, formats, contract) of a call that passed all checks, for later
 * calls (jit/accepted.h).  x: the result of limber_gemm_state or limber_conv_state.  NULL if it is
 * not kept; else it must be released. */
struct accepted;
struct accepted *limber_keep_form(limber_context *ctx, const limber_problem *p,
                                  const struct problem *x);
bool limber_conv_run(limber_context *ctx, const limber_problem *p, struct report *report,
                     struct diag *d);
/* Computes the workspace of a convolution in bytes: *least suffices, with *best the call is
 * fastest.  The stride phases of backward data run one after another in the same memory. */
bool limber_conv_workspace(limber_context *ctx, const limber_problem *p, size_t *least,
                           size_t *best, struct diag *d);
bool limber_conv_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d);
/* Converts a convolution to the engine's structure *to, for limber_plan.  Backward data with
 * strides is computed in several phases; the one with the longest sums is converted. */
bool limber_conv_state_main(limber_context *ctx, const limber_problem *p, struct problem *to,
                            struct diag *d);
/* widen.c: replaces operands of p in the format e8m0 by bf16 matrices. limber_widen_end frees their
 * memory, and must also be called after a failure. */
bool limber_widen(limber_context *ctx, limber_problem *p, void *memory[2], struct diag *d);
void limber_widen_end(limber_context *ctx, void *const memory[2]);
/* modular.c: computes a product modulo a number.  r may be NULL. */
bool limber_modular_run(limber_context *ctx, const limber_problem *p, struct report *r,
                        struct diag *d);
/* complex.c: computes a complex product.  given: the caller's plan of its real product, or NULL.  r
 * may be NULL. */
bool limber_complex_run(limber_context *ctx, const limber_problem *p,
                        const struct given_plan *given, struct report *r, struct diag *d);

/* gemm.c: if a product with these sizes, strides, formats and contract (a form) was accepted before
 * and the addresses are valid, converts it to the engine's structure *to and returns its form, to
 * be released.  Else NULL. */
struct gemm_arguments;
struct accepted *limber_gemm_find_form(const limber_context *ctx, const struct gemm_arguments *x,
                                       struct problem *to);
/* problem.c: does limber_run, with error texts that begin with `name`. */
limber_status limber_run_as(const char *name, limber_context *ctx, const limber_problem *problem,
                            limber_report *report);

/* prepared.c: checks that o, unless NULL, was prepared from this matrix, for this operation and
 * side. */
bool limber_prepared_fits(const limber_context *ctx, const limber_prepared *o, struct extent x,
                          limber_operation operation, limber_side side, struct diag *d);
/* Checks that the prepared filters, if any, fit the convolution. */
bool limber_prepared_filters_fit(const limber_context *ctx, const limber_problem *p,
                                 struct diag *d);
/* conv.c: returns the geometry and the filter length for an operation whose filters may be
 * prepared.  The sizes of images are set to 0. */
bool limber_conv_filters(const limber_conv *s, limber_operation operation, struct conv *c,
                         int64_t *length, struct diag *d);

/* ---- sized.c: structures that grow ----------------------------------------------------------- */

/* Copies a caller's structure to one of this version, which has `full` bytes. least: the
 * structure's size in version 0.2, in bytes.  Returns false if the size is impossible. */
bool limber_copy_sized_in(void *to, size_t full, const void *from, size_t least, const char *what,
                          struct diag *d);
bool limber_sized_check(const void *to, size_t least, const char *what, struct diag *d);
/* Copies a caller's contract and its unit to structures of this version.  A NULL contract is the
 * native one. */
bool limber_contract_in(limber_contract *to, limber_unit *unit, const limber_contract *from,
                        struct diag *d);
/* Copies the library's structure to the caller's, except the field `size`.  full: bytes of the
 * library's structure. */
void limber_copy_sized_out(void *to, const void *from, size_t full);
/* Checks the size fields of a report or a cut.  NULL is valid. */
bool limber_report_check(const limber_report *r, struct diag *d);
/* Copies the engine's report to the caller's. */
void limber_report_out(limber_report *to, const struct report *from);
bool limber_cut_check(const limber_cut *cut, struct diag *d);
/* Copies a cut to the caller's structure, and moves the arrays of `from` to it. */
bool limber_cut_out(limber_cut *to, struct cut *from, struct diag *d);

/* Copies of the structures that a public call reads, in this version's sizes. */
struct arguments {
    limber_problem problem;
    limber_contract contract;
    limber_conv conv;
    limber_batch batch;
    limber_queue queue;
    limber_unit unit;
    limber_statistics statistics;
    limber_statistics *statistics_to;
};

/* Sizes in bytes of structures in version 0.2, the smallest that callers may pass. */
enum {
    LEAST_part = 136,
    LEAST_report = 200,
    LEAST_contract = 56,
    LEAST_problem = 216,
    LEAST_conv = 144,
    LEAST_batch = 64,
    LEAST_queue = 40,
    LEAST_config = 112,
    LEAST_unit = 160,
    LEAST_statistics = 7992,
    LEAST_prepare_config = 24,
    LEAST_inspection = 80,
    LEAST_cut = 104,
    LEAST_tuning = 40,
    LEAST_cache_info = 4400,
    LEAST_elementwise = sizeof(limber_elementwise),
    LEAST_reduce_call = sizeof(limber_reduce_call),
    LEAST_solve_call = sizeof(limber_solve_call),
    LEAST_solve_report = sizeof(limber_solve_report),
    LEAST_format_facts = sizeof(limber_format_facts),
    LEAST_epilogue = sizeof(limber_epilogue),
    LEAST_epilogue_input = sizeof(limber_epilogue_input)
};

#endif
