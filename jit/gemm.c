/* SPDX-License-Identifier: BSD-3-Clause
 * The public GEMM calls: check the arguments, state the problem. */
#include "jit/engine.h"

static bool check_size(int64_t v, const char *what, struct diag *d)
{
    return v >= 0 || limber_fail(d, LIMBER_BAD_ARGUMENT, "%s = %lld is negative", what,
                                 (long long)v);
}

/* What holds for plans too, whose C is not touched. */
static bool check(const limber_context *ctx, const limber_contract *contract, int64_t m, int64_t n,
                  int64_t k, const limber_matrix *a, const limber_matrix *b,
                  const limber_matrix *c, struct diag *d)
{
    if (!ctx)
        return limber_fail(d, LIMBER_BAD_ARGUMENT, "ctx is NULL");
    return check_size(m, "m", d) && check_size(n, "n", d) && check_size(k, "k", d) &&
           limber_check_matrix(a, "a", m, k, d) && limber_check_data(a, "a", m, k, d) &&
           limber_check_matrix(b, "b", k, n, d) && limber_check_data(b, "b", k, n, d) &&
           limber_check_matrix(c, "c", m, n, d) && limber_check_contract(contract, c->format, d);
}

static bool check_result(int64_t m, int64_t n, int64_t k, const limber_matrix *a,
                         const limber_matrix *b, const limber_matrix *c, struct diag *d)
{
    const struct extent xa = { a, "a", m, k }, xb = { b, "b", k, n }, xc = { c, "c", m, n };

    return limber_check_data(c, "c", m, n, d) && limber_check_distinct(c, "c", m, n, d) &&
           limber_check_apart(xc, xa, d) && limber_check_apart(xc, xb, d);
}

static struct problem state(const limber_contract *contract, int64_t m, int64_t n, int64_t k,
                            const void *alpha, const limber_matrix *a, const limber_matrix *b,
                            const void *beta, const limber_matrix *c)
{
    return (struct problem){
        .contract = *contract, .m = m, .n = n, .k = k, .groups = 1,
        .fa = a->format, .fb = b->format, .fc = c->format,
        .a = { a->data, a->row, a->col, NULL },
        .b = { b->data, b->col, b->row, NULL },
        .c = { .data = c->data, .row = c->row, .col = c->col, .inner = n > 0 ? n : 1 },
        .alpha = limber_scalar(alpha, c->format, 1),
        .beta = limber_scalar(beta, c->format, 0),
    };
}

limber_status limber_gemm(limber_context *ctx, const limber_contract *contract, int64_t m,
                          int64_t n, int64_t k, const void *alpha, limber_matrix a,
                          limber_matrix b, const void *beta, limber_matrix c,
                          limber_report *report)
{
    struct diag d = { 0 };

    if (check(ctx, contract, m, n, k, &a, &b, &c, &d) && check_result(m, n, k, &a, &b, &c, &d)) {
        struct problem p = state(contract, m, n, k, alpha, &a, &b, beta, &c);

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
    struct diag d = { 0 };
    struct text out = { 0 };

    if (!text) {
        limber_fail(&d, LIMBER_BAD_ARGUMENT, "text is NULL");
    } else if (check(ctx, contract, m, n, k, &a, &b, &c, &d)) {
        struct problem p = state(contract, m, n, k, alpha, &a, &b, beta, &c);

        if (!limber_engine_plan(ctx, &p, &out, report, &d))
            limber_text_clear(&out);
    }
    if (text)
        *text = out.s;
    if (d.status)
        limber_fail_in(&d, "gemm_plan");
    return limber_error_set(&d);
}
