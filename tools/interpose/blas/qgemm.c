/* SPDX-License-Identifier: BSD-3-Clause
 * cblas_qgemm of QBLAS, the binary128 BLAS of numpy-quaddtype.  Without a contract of the user,
 * results are rounded correctly. */
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

/* Computes the call's product by limber_run under `contract`. */
static limber_status run_product(const struct request *r, const limber_contract *contract,
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

/* Adds the call to the report of calls. why_not: why Limber did not compute it, or NULL. */
static void count_call(const struct request *r, const limber_report *report, const char *why_not)
{
    const struct interpose_result t = { .routine = r->name,
                                        .m = r->m,
                                        .n = r->n,
                                        .k = r->k,
                                        .why_not = why_not,
                                        .contract = r->served.contract,
                                        .ops = { r->a.op, r->b.op },
                                        .site = r->caller,
                                        .count = 1,
                                        .ctx = limber_blas_context(),
                                        .report = report,
                                        .seconds = limber_blas_now() - r->served.began };

    interpose_record_call(&t);
}

/* Computes the call.  Returns false if the program's QBLAS must compute it.  alone: there is no
 * QBLAS, so that Limber computes even without a contract. */
static bool serve_call(struct request *r, bool alone)
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
    r->served.began = limber_blas_now();
    r->served.contract = s->on ? s->words : "correct";
    status = limber_blas_context() ? run_product(r, s->on ? &s->contract : &correct, &report) :
                                     LIMBER_STATUS_NO_MEMORY;
    if (status != LIMBER_STATUS_OK && alone)
        interpose_message("%s is not computed: %s", r->name, limber_error_text());
    else if (status == LIMBER_STATUS_OK && interpose_options()->verbose)
        interpose_message("%s %d x %d x %d %s, by %s", r->name, (int)r->m, (int)r->n, (int)r->k,
                          r->served.contract, report.scheme);
    if (status == LIMBER_STATUS_OK)
        count_call(r, &report, NULL);
    return status == LIMBER_STATUS_OK || alone;
}

PUBLIC void cblas_qgemm(QGEMM);
/* Defines cblas_qgemm: computes by Limber, forwards to the program's QBLAS, or reports a wrong
 * argument. */
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
    const int wrong = limber_blas_first_bad_argument(&r);
    void (*real)(QGEMM);

    *(void **)&real = limber_blas_real(r.name, r.caller, true);
    if (wrong && !real)
        limber_blas_report_wrong_argument(&r, wrong);
    else if ((wrong || !serve_call(&r, !real)) && real)
        real(PASS);
}
#endif
