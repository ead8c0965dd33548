/* SPDX-License-Identifier: BSD-3-Clause
 * For tests: functions that fill a limber_problem from their arguments and run, plan or query
 * it. */
#ifndef LIMBER_TEST_CALLS_H
#define LIMBER_TEST_CALLS_H

#include "limber/limber.h"

/* Casts away const.  Only for memory that the test may write. */
static inline void *writable(const void *data)
{
    return (void *)(uintptr_t)data;
}

/* Returns a matrix as a limber_output, for results that the test reads again as operands. */
static inline limber_output output_of(limber_matrix m)
{
    return (limber_output){ (void *)(uintptr_t)m.data, m.format, m.row_stride, m.col_stride };
}

/* Returns the problem of a GEMM with the given operands; its other fields have their defaults. */
static inline limber_problem gemm_problem(const limber_contract *contract, int64_t m, int64_t n,
                                          int64_t k, const void *alpha, limber_matrix a,
                                          limber_matrix b, const void *beta, limber_output c)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = m;
    p.n = n;
    p.k = k;
    p.a = a;
    p.b = b;
    p.c = c;
    p.alpha = alpha;
    p.beta = beta;
    p.contract = contract;
    return p;
}

/* Returns the problem of a forward convolution with the given operands; its other fields have their
 * defaults. */
static inline limber_problem conv_problem(const limber_contract *contract, const limber_conv *conv,
                                          const void *alpha, const void *x, limber_format xf,
                                          const void *w, limber_format wf, const void *beta,
                                          void *y, limber_format yf)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.operation = LIMBER_OPERATION_CONV_FORWARD;
    p.conv = conv;
    p.a = (limber_matrix){ x, xf, 0, 0 };
    p.b = (limber_matrix){ w, wf, 0, 0 };
    p.c = (limber_output){ y, yf, 0, 0 };
    p.alpha = alpha;
    p.beta = beta;
    p.contract = contract;
    return p;
}

static inline limber_status gemm_batch(limber_context *ctx, const limber_contract *contract,
                                       const limber_queue *queue, const limber_batch *batch,
                                       int64_t m, int64_t n, int64_t k, const void *alpha,
                                       limber_matrix a, limber_matrix b, const void *beta,
                                       limber_output c, limber_report *report)
{
    limber_problem p = gemm_problem(contract, m, n, k, alpha, a, b, beta, c);

    p.batch = batch;
    p.queue = queue;
    return limber_run(ctx, &p, report);
}

static inline limber_status gemm_prepared(limber_context *ctx, const limber_contract *contract,
                                          int64_t m, int64_t n, int64_t k, const void *alpha,
                                          limber_prepared *prepared_a, limber_matrix a,
                                          limber_prepared *prepared_b, limber_matrix b,
                                          const void *beta, limber_output c, limber_report *report)
{
    limber_problem p = gemm_problem(contract, m, n, k, alpha, a, b, beta, c);

    p.prepared_a = prepared_a;
    p.prepared_b = prepared_b;
    return limber_run(ctx, &p, report);
}

/* Multiplies complex matrices by 3 or 4 real products; any other number of `products` leaves the
 * choice to the library.  conj_a, conj_b: conjugates the operand. */
static inline limber_status gemm_complex(limber_context *ctx, const limber_contract *contract,
                                         const limber_queue *queue, int64_t m, int64_t n, int64_t k,
                                         const void *alpha, limber_matrix a, int conj_a,
                                         limber_matrix b, int conj_b, const void *beta,
                                         limber_output c, limber_report *report, int products)
{
    limber_problem p = gemm_problem(contract, m, n, k, alpha, a, b, beta, c);

    p.domain = LIMBER_DOMAIN_COMPLEX;
    p.conjugate =
        (limber_conjugate)((conj_a ? LIMBER_CONJUGATE_A : 0) | (conj_b ? LIMBER_CONJUGATE_B : 0));
    p.complex_method = products == 3 ? LIMBER_COMPLEX_THREE_PRODUCTS :
                       products == 4 ? LIMBER_COMPLEX_FOUR_PRODUCTS :
                                       LIMBER_COMPLEX_AUTO;
    p.queue = queue;
    return limber_run(ctx, &p, report);
}

static inline limber_status gemm_plan(limber_context *ctx, const limber_contract *contract,
                                      int64_t m, int64_t n, int64_t k, const void *alpha,
                                      limber_matrix a, limber_matrix b, const void *beta,
                                      limber_output c, char **text, limber_report *report)
{
    limber_problem p = gemm_problem(contract, m, n, k, alpha, a, b, beta, c);

    return limber_plan(ctx, &p, text, report);
}

static inline limber_status gemm_cut(limber_context *ctx, const limber_contract *contract,
                                     int64_t m, int64_t n, int64_t k, const void *alpha,
                                     limber_matrix a, limber_matrix b, const void *beta,
                                     limber_output c, limber_cut *cut, limber_report *report)
{
    limber_problem p = gemm_problem(contract, m, n, k, alpha, a, b, beta, c);

    return limber_explain(ctx, &p, cut, report);
}

static inline limber_status gemm_workspace(limber_context *ctx, const limber_contract *contract,
                                           int64_t m, int64_t n, int64_t k, const void *alpha,
                                           limber_matrix a, limber_matrix b, const void *beta,
                                           limber_output c, size_t *least, size_t *best)
{
    limber_problem p = gemm_problem(contract, m, n, k, alpha, a, b, beta, c);

    return limber_workspace(ctx, &p, least, best);
}

static inline limber_status conv2d_queue(limber_context *ctx, const limber_contract *contract,
                                         const limber_queue *queue, const limber_conv *conv,
                                         const void *alpha, const void *x, limber_format xf,
                                         const void *w, limber_format wf, const void *beta, void *y,
                                         limber_format yf, limber_report *report)
{
    limber_problem p = conv_problem(contract, conv, alpha, x, xf, w, wf, beta, y, yf);

    p.queue = queue;
    return limber_run(ctx, &p, report);
}

static inline limber_status conv2d_workspace(limber_context *ctx, const limber_contract *contract,
                                             const limber_conv *conv, const void *alpha,
                                             const void *x, limber_format xf, const void *w,
                                             limber_format wf, const void *beta, limber_format yf,
                                             size_t *least, size_t *best)
{
    limber_problem p = conv_problem(contract, conv, alpha, x, xf, w, wf, beta, NULL, yf);

    return limber_workspace(ctx, &p, least, best);
}

static inline limber_status conv2d_plan(limber_context *ctx, const limber_contract *contract,
                                        const limber_conv *conv, const void *alpha, const void *x,
                                        limber_format xf, const void *w, limber_format wf,
                                        const void *beta, limber_format yf, char **text,
                                        limber_report *report)
{
    limber_problem p = conv_problem(contract, conv, alpha, x, xf, w, wf, beta, NULL, yf);

    return limber_plan(ctx, &p, text, report);
}

#endif
