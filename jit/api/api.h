/* SPDX-License-Identifier: BSD-3-Clause
 * What the public calls share: errors, argument checks, and the making of a problem. */
#ifndef LIMBER_JIT_API_H
#define LIMBER_JIT_API_H

#include "jit/engine.h"
#include "limber/solve.h"

/* error.c: makes d's text the thread's error text; returns d's status. */
limber_status limber_error_set(const struct diag *d);

/* check.c: argument checks of gemm and conv.  `what` names the argument. */
bool limber_check_format(limber_format f, const char *what, struct diag *d);
/* Checks a matrix of rows x cols elements: format, strides, index arithmetic. */
bool limber_check_matrix(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                         struct diag *d);
bool limber_check_data(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                       struct diag *d);
/* Checks two arrays of elements.  They may share memory only if their elements have one size and
 * they begin at the same address. */
bool limber_check_arrays(const void *dst, limber_format to, const void *src, limber_format from,
                         size_t count, struct diag *d);
/* Checks that no two of the matrix' elements share memory. */
bool limber_check_distinct(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                           struct diag *d);
/* A matrix with its sizes, and its name for messages. limber_check_apart checks that two such share
 * no memory. */
struct extent {
    const limber_matrix *m;
    const char *what;
    int64_t rows, cols;
};
bool limber_check_apart(struct extent c, struct extent x, struct diag *d);

/* gemm.c: a product as argument checks see it. */
struct product {
    int64_t m, n, k;
    limber_matrix a, b, c;
};
limber_matrix limber_as_matrix(limber_output c);
bool limber_check_sizes(int64_t m, int64_t n, int64_t k, struct diag *d);
/* Checks the addresses of one product's matrices. */
bool limber_check_addresses(const struct product *x, struct diag *d);
/* batch.c: checks the addresses of a batch's matrices, and that no two results overlap. */
bool limber_check_batch(const limber_batch *t, const struct product *x, struct diag *d);

/* Makes the engine's problem of the caller's; `stores`: C will be written.  The problem's
 * structures have this version's size and outlive *to. */
bool limber_gemm_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d);
bool limber_conv_run(limber_context *ctx, const limber_problem *p, struct report *report,
                     struct diag *d);
/* Workspace of a convolution; phases of backward data run one after another in the same memory. */
bool limber_conv_workspace(limber_context *ctx, const limber_problem *p, size_t *least,
                           size_t *best, struct diag *d);
bool limber_conv_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d);
/* States the problem whose plan is shown: the convolution or, of an image gradient's phases, the
 * one with the longest sums. */
bool limber_conv_state_main(limber_context *ctx, const limber_problem *p, struct problem *to,
                            struct diag *d);
/* widen.c: converts e8m0 operands of p to bf16 matrices, in memory that limber_widen_end frees,
 * also after a failure. */
bool limber_widen(limber_context *ctx, limber_problem *p, void *memory[2], struct diag *d);
void limber_widen_end(limber_context *ctx, void *const memory[2]);
/* complex.c: computes a complex product.  r may be NULL. */
bool limber_complex_run(limber_context *ctx, const limber_problem *p, struct report *r,
                        struct diag *d);

/* The arguments of limber_gemm, at their addresses. */
struct gemm_arguments {
    const limber_contract *contract;
    int64_t m, n, k;
    const limber_matrix *a, *b;
    const limber_output *c;
    const void *alpha, *beta;
};
/* at_once.c: computes a plain small product at once.  False: it is no such product, and nothing is
 * done.  report: NULL, or filled. */
bool limber_gemm_at_once(limber_context *ctx, const struct gemm_arguments *x,
                         limber_report *report);
bool limber_run_at_once(limber_context *ctx, const limber_problem *p, limber_report *report);

/* problem.c: limber_run with error texts that begin with `name`. */
limber_status limber_run_as(const char *name, limber_context *ctx, const limber_problem *problem,
                            limber_report *report);

/* prepared.c: checks that o, if not NULL, was made of this matrix, for this operation and side. */
bool limber_prepared_fits(const limber_context *ctx, const limber_prepared *o, struct extent x,
                          limber_operation operation, limber_side side, struct diag *d);
/* Checks that prepared filters fit the convolution. */
bool limber_prepared_filters_fit(const limber_context *ctx, const limber_problem *p,
                                 struct diag *d);
/* conv.c: geometry and length of a filter for an operation whose filters may be prepared; sizes of
 * images are 0. */
bool limber_conv_filters(const limber_conv *s, limber_operation operation, struct conv *c,
                         int64_t *length, struct diag *d);

/* ---- sized.c: structures that grow ----------------------------------------------------------- */

/* Copies a caller's structure to one of this version's, of `full` bytes; `least` is its size in
 * version 0.2. */
bool limber_sized_in(void *to, size_t full, const void *from, size_t least, const char *what,
                     struct diag *d);
bool limber_sized_check(const void *to, size_t least, const char *what, struct diag *d);
/* Copies a caller's contract and its unit to structures of this version; NULL is the native
 * contract. */
bool limber_contract_in(limber_contract *to, limber_unit *unit, const limber_contract *from,
                        struct diag *d);
/* Copies the library's structure to the caller's, except the field `size`. */
void limber_sized_out(void *to, const void *from, size_t full);
/* Checks the size fields of a report or a cut; NULL is fine. */
bool limber_report_check(const limber_report *r, struct diag *d);
void limber_report_out(limber_report *to, const struct report *from);
bool limber_cut_check(const limber_cut *cut, struct diag *d);
/* Copies a cut to the caller's; takes over the arrays of `from`. */
bool limber_cut_out(limber_cut *to, struct cut *from, struct diag *d);

/* Copies of the structures that a public call reads. */
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

/* Sizes of structures in version 0.2, in bytes. */
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
