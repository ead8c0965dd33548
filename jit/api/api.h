/* SPDX-License-Identifier: BSD-3-Clause
 * What the public calls share: errors, checks of arguments, and how a problem is made. */
#ifndef LIMBER_JIT_API_H
#define LIMBER_JIT_API_H

#include "jit/engine.h"
#include "limber/solve.h"

/* error.c: makes d's text the thread's error text; returns d's status. */
limber_status limber_error_set(const struct diag *d);

/* check.c: what gemm and conv ask of their arguments.  `what` names the argument. */
bool limber_check_format(limber_format f, const char *what, struct diag *d);
/* rows x cols elements in this matrix: format, strides, index arithmetic. */
bool limber_check_matrix(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                         struct diag *d);
bool limber_check_data(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                       struct diag *d);
/* Elements of both formats side by side, which share memory only where they are of one size and
 * begin in one place. */
bool limber_check_arrays(const void *dst, limber_format to, const void *src, limber_format from,
                         size_t count, struct diag *d);
/* No two of the matrix' elements share memory. */
bool limber_check_distinct(const limber_matrix *m, const char *what, int64_t rows, int64_t cols,
                           struct diag *d);
/* The two matrices share no memory. */
struct extent {
    const limber_matrix *m;
    const char *what;
    int64_t rows, cols;
};
bool limber_check_apart(struct extent c, struct extent x, struct diag *d);

/* gemm.c: a product as the checks see it. */
struct product {
    int64_t m, n, k;
    limber_matrix a, b, c;
};
limber_matrix limber_as_matrix(limber_output c);
bool limber_check_sizes(int64_t m, int64_t n, int64_t k, struct diag *d);
/* Where the matrices of one product lie. */
bool limber_check_addresses(const struct product *x, struct diag *d);
/* batch.c: where those of many lie, and that no two results meet. */
bool limber_check_batch(const limber_batch *t, const struct product *x, struct diag *d);

/* The caller's problem becomes the engine's; `stores`: C is written.  The problem's structures have
 * this version's size and outlive *to. */
bool limber_gemm_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d);
bool limber_conv_run(limber_context *ctx, const limber_problem *p, struct report *report,
                     struct diag *d);
/* Phases of backward data run one after another in the same memory. */
bool limber_conv_workspace(limber_context *ctx, const limber_problem *p, size_t *least,
                           size_t *best, struct diag *d);
bool limber_conv_state(limber_context *ctx, const limber_problem *p, bool stores,
                       struct problem *to, struct diag *d);
/* What a plan shows: of phases the one with the longest sums. */
bool limber_conv_state_main(limber_context *ctx, const limber_problem *p, struct problem *to,
                            struct diag *d);
/* widen.c: e8m0 operands of p become bf16 matrices in memory that limber_widen_end frees, after a
 * failure, too. */
bool limber_widen(limber_context *ctx, limber_problem *p, void *memory[2], struct diag *d);
void limber_widen_end(limber_context *ctx, void *const memory[2]);
/* complex.c: computes it.  r may be NULL. */
bool limber_complex_run(limber_context *ctx, const limber_problem *p, struct report *r,
                        struct diag *d);

/* A product where its caller's arguments lie. */
struct gemm_arguments {
    const limber_contract *contract;
    int64_t m, n, k;
    const limber_matrix *a, *b;
    const limber_output *c;
    const void *alpha, *beta;
};
/* at_once.c: computes a plain small product; false: nothing is done, it is none.  report: NULL, or
 * filled. */
bool limber_gemm_at_once(limber_context *ctx, const struct gemm_arguments *x,
                         limber_report *report);
bool limber_run_at_once(limber_context *ctx, const limber_problem *p, limber_report *report);

/* problem.c: limber_run, whose errors begin with `name`. */
limber_status limber_run_as(const char *name, limber_context *ctx, const limber_problem *problem,
                            limber_report *report);

/* prepared.c: it was made of this matrix, for this operation and side.  o may be NULL. */
bool limber_prepared_fits(const limber_context *ctx, const limber_prepared *o, struct extent x,
                          limber_operation operation, limber_side side, struct diag *d);
/* The same of a convolution's filters. */
bool limber_prepared_filters_fit(const limber_context *ctx, const limber_problem *p,
                                 struct diag *d);
/* conv.c: geometry and elements of a filter, where all of them may be prepared for the operation;
 * sizes of images are 0. */
bool limber_conv_filters(const limber_conv *s, limber_operation operation, struct conv *c,
                         int64_t *length, struct diag *d);

/* ---- sized.c: structures that grow ----------------------------------------------------------- */

/* Copies a caller's structure to one of this version's, `full` bytes; `least` is its size in
 * version 0.2. */
bool limber_sized_in(void *to, size_t full, const void *from, size_t least, const char *what,
                     struct diag *d);
bool limber_sized_check(const void *to, size_t least, const char *what, struct diag *d);
/* The same of a contract and its unit; NULL is native. */
bool limber_contract_in(limber_contract *to, limber_unit *unit, const limber_contract *from,
                        struct diag *d);
/* And back, all but the size. */
void limber_sized_out(void *to, const void *from, size_t full);
/* NULL is fine. */
bool limber_report_check(const limber_report *r, struct diag *d);
void limber_report_out(limber_report *to, const struct report *from);
bool limber_cut_check(const limber_cut *cut, struct diag *d);
/* Takes the arrays of from over. */
bool limber_cut_out(limber_cut *to, struct cut *from, struct diag *d);

/* What a public call reads of its arguments. */
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

/* Sizes in version 0.2, in bytes. */
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
