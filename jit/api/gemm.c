/* SPDX-License-Identifier: BSD-3-Clause
 * The public GEMM calls: check the arguments, state the problem. */
#include "jit/api/api.h"

#include <string.h>

static bool check_size(int64_t v, const char *what, struct diag *d)
{
    return v >= 0 ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is negative", what, (long long)v);
}

bool limber_check_product(const limber_context *ctx, const limber_contract *contract,
                          const struct product *x, struct diag *d)
{
    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    return check_size(x->m, "m", d) && check_size(x->n, "n", d) && check_size(x->k, "k", d) &&
           limber_check_matrix(&x->a, "a", x->m, x->k, d) &&
           limber_check_matrix(&x->b, "b", x->k, x->n, d) &&
           limber_check_matrix(&x->c, "c", x->m, x->n, d) &&
           limber_check_contract(contract, x->c.format, d);
}

/* Of plans too, whose C is not touched. */
static bool check_operands(const struct product *x, struct diag *d)
{
    return limber_check_data(&x->a, "a", x->m, x->k, d) &&
           limber_check_data(&x->b, "b", x->k, x->n, d);
}

bool limber_check_addresses(const struct product *x, struct diag *d)
{
    const struct extent a = { &x->a, "a", x->m, x->k }, b = { &x->b, "b", x->k, x->n };
    const struct extent c = { &x->c, "c", x->m, x->n };

    return check_operands(x, d) && limber_check_data(&x->c, "c", x->m, x->n, d) &&
           limber_check_distinct(&x->c, "c", x->m, x->n, d) && limber_check_apart(c, a, d) &&
           limber_check_apart(c, b, d);
}

struct problem limber_problem_of(const limber_contract *contract, const struct product *x)
{
    return (struct problem){
        .contract = *contract,
        .m = x->m,
        .n = x->n,
        .k = x->k,
        .groups = 1,
        .fa = x->a.format,
        .fb = x->b.format,
        .fc = x->c.format,
        .a = { x->a.data, x->a.row, x->a.col, NULL },
        .b = { x->b.data, x->b.col, x->b.row, NULL },
        .c = { .data = x->c.data, .row = x->c.row, .col = x->c.col, .inner = x->n > 0 ? x->n : 1 },
        .alpha = limber_scalar(x->alpha, x->c.format, 1),
        .beta = limber_scalar(x->beta, x->c.format, 0),
    };
}

limber_status limber_gemm(limber_context *ctx, const limber_contract *contract, int64_t m,
                          int64_t n, int64_t k, const void *alpha, limber_matrix a, limber_matrix b,
                          const void *beta, limber_matrix c, limber_report *report)
{
    CALL_SCOPE;
    const struct product x = { m, n, k, alpha, beta, a, b, c };
    struct diag d = { 0 };

    if (limber_check_product(ctx, contract, &x, &d) && limber_check_addresses(&x, &d)) {
        struct problem p = limber_problem_of(contract, &x);

        limber_engine_run(ctx, &p, report, &d);
    }
    if (d.status)
        limber_fail_in(&d, "gemm");
    return limber_error_set(&d);
}

limber_status limber_gemm_plan(limber_context *ctx, const limber_contract *contract, int64_t m,
                               int64_t n, int64_t k, const void *alpha, limber_matrix a,
                               limber_matrix b, const void *beta, limber_matrix c, char **text,
                               limber_report *report)
{
    CALL_SCOPE;
    const struct product x = { m, n, k, alpha, beta, a, b, c };
    struct diag d = { 0 };
    struct text out = { 0 };
    limber_cut cut = { 0 };

    if (!text) {
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "text is NULL");
    } else if (limber_check_product(ctx, contract, &x, &d) && check_operands(&x, &d)) {
        struct problem p = limber_problem_of(contract, &x);

        if (!limber_engine_plan(ctx, &p, &out, &cut, report, &d))
            limber_text_clear(&out);
        limber_cut_free(&cut);
    }
    if (text)
        *text = out.s;
    if (d.status)
        limber_fail_in(&d, "gemm_plan");
    return limber_error_set(&d);
}

limber_status limber_gemm_cut(limber_context *ctx, const limber_contract *contract, int64_t m,
                              int64_t n, int64_t k, const void *alpha, limber_matrix a,
                              limber_matrix b, const void *beta, limber_matrix c, limber_cut *cut,
                              limber_report *report)
{
    CALL_SCOPE;
    const struct product x = { m, n, k, alpha, beta, a, b, c };
    struct diag d = { 0 };

    if (cut)
        memset(cut, 0, sizeof *cut);
    if (!cut) {
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "cut is NULL");
    } else if (limber_check_product(ctx, contract, &x, &d) && check_operands(&x, &d)) {
        struct problem p = limber_problem_of(contract, &x);

        if (!limber_engine_plan(ctx, &p, NULL, cut, report, &d))
            limber_cut_free(cut);
    }
    if (d.status)
        limber_fail_in(&d, "gemm_cut");
    return limber_error_set(&d);
}

limber_status limber_gemm_workspace(limber_context *ctx, const limber_contract *contract, int64_t m,
                                    int64_t n, int64_t k, const void *alpha, limber_matrix a,
                                    limber_matrix b, const void *beta, limber_matrix c,
                                    size_t *least, size_t *best)
{
    CALL_SCOPE;
    const struct product x = { m, n, k, alpha, beta, a, b, c };
    struct diag d = { 0 };

    if (!least || !best) {
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", least ? "best" : "least");
    } else if (limber_check_product(ctx, contract, &x, &d)) {
        struct problem p = limber_problem_of(contract, &x);

        limber_engine_workspace(ctx, &p, least, best, &d);
    }
    if (d.status)
        limber_fail_in(&d, "gemm_workspace");
    return limber_error_set(&d);
}
