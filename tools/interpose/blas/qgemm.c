/* SPDX-License-Identifier: BSD-3-Clause
 * cblas_qgemm of QBLAS, the binary128 BLAS of numpy-quaddtype: correctly rounded unless a contract
 * is stated. */
#include "entries.h"
#include "product.h"

#include <stdatomic.h>
#include <stdio.h>

#if defined __SIZEOF_FLOAT128__
typedef __float128 quad;
#elif __LDBL_MANT_DIG__ == 113
typedef long double quad;
#endif

#if defined __SIZEOF_FLOAT128__ || __LDBL_MANT_DIG__ == 113
#define QGEMM \
    int order, int op_a, int op_b, int m, int n, int k, quad alpha, const quad *a, int lda, \
        const quad *b, int ldb, quad beta, quad *c, int ldc
#define PASS order, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc

static char op_letter(int op)
{
    return op == 111 ? 'N' : op == 112 ? 'T' : op == 113 ? 'C' : 0;
}

static limber_matrix matrix_of(const struct request *r, const struct argument *x)
{
    const struct view v = limber_blas_view(r, x);

    return (limber_matrix){ v.data, LIMBER_F128, v.row, v.col };
}

static limber_status multiply(const struct request *r, const limber_contract *contract,
                              limber_report *report)
{
    limber_problem x = LIMBER_PROBLEM_INIT;
    const limber_matrix c = matrix_of(r, &r->c);

    x.m = r->m;
    x.n = r->n;
    x.k = r->k;
    x.alpha = r->alpha;
    x.beta = r->beta;
    x.a = matrix_of(r, &r->a);
    x.b = matrix_of(r, &r->b);
    x.c = (limber_output){ (void *)(uintptr_t)c.data, c.format, c.row_stride, c.col_stride };
    x.contract = contract;
    return limber_run(limber_blas_context(), &x, report);
}

static void count_call(const struct request *r, const limber_report *report, const char *why_not)
{
    const struct interpose_result t = { .routine = r->name,
                                        .m = r->m,
                                        .n = r->n,
                                        .k = r->k,
                                        .why_not = why_not,
                                        .contract = r->contract,
                                        .ops = { r->a.op, r->b.op },
                                        .site = r->caller,
                                        .count = 1,
                                        .ctx = limber_blas_context(),
                                        .report = report,
                                        .seconds = limber_blas_now() - r->began };

    interpose_count(&t);
}

/* False: the QBLAS behind computes. alone: there is none, so Limber must. */
static bool serve(struct request *r, bool alone)
{
    static const limber_contract correct = { .size = sizeof(limber_contract),
                                             .promise = LIMBER_CONTRACT_CORRECT };
    const struct interpose_setting *s =
        interpose_choose(&(struct interpose_call){ r->name, r->m, r->n, r->k, r->caller });
    limber_part parts[LIMBER_PARTS];
    limber_report report = LIMBER_REPORT_INIT;
    limber_status status;

    if ((!s->on && !alone) || limber_blas_is_inside())
        return false;
    report.part = parts;
    report.part_room = LIMBER_PARTS;
    r->began = limber_blas_now();
    r->contract = s->on ? s->words : "correct";
    status = limber_blas_context() ? multiply(r, s->on ? &s->contract : &correct, &report) :
                                     LIMBER_STATUS_NO_MEMORY;
    if (status != LIMBER_STATUS_OK && alone)
        interpose_message("%s is not computed: %s", r->name, limber_error_text());
    else if (status == LIMBER_STATUS_OK && interpose_options()->verbose)
        interpose_message("%s %d x %d x %d %s, by %s", r->name, (int)r->m, (int)r->n, (int)r->k,
                          r->contract, report.scheme);
    if (status == LIMBER_STATUS_OK)
        count_call(r, &report, NULL);
    return status == LIMBER_STATUS_OK || alone;
}

PUBLIC void cblas_qgemm(QGEMM);
PUBLIC void cblas_qgemm(QGEMM)
{
    struct request r = { .name = "cblas_qgemm",
                         .routine = BLAS_GEMM,
                         .type = 'q',
                         .cblas = true,
                         .order = order,
                         .spelling = { "", "_" },
                         .caller = __builtin_return_address(0),
                         .m = m,
                         .n = n,
                         .k = k,
                         .alpha = &alpha,
                         .beta = &beta,
                         .a = { a, op_letter(op_a), lda },
                         .b = { b, op_letter(op_b), ldb },
                         .c = { c, 'N', ldc } };
    INTERPOSE_UNCANCELLED;
    const int wrong = limber_blas_wrong(&r);
    void (*real)(QGEMM);

    *(void **)&real = limber_blas_real(r.name, r.caller, true);
    if (wrong && !real)
        limber_blas_complain(&r, wrong);
    else if ((wrong || !serve(&r, !real)) && real)
        real(PASS);
}
#endif
