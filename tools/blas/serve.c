/* SPDX-License-Identifier: BSD-3-Clause
 * One product of the BLAS as a call of Limber, or the reason why it is none. */
#include "blas.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Multiply-adds under which plain products are left alone: a BLAS is as fast there. */
static const double least_native = 128.0 * 128 * 128;

static limber_context *context;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_context(void)
{
    const limber_config config = { .verbose = -1 };

    if (limber_create(&context, &config) != LIMBER_OK)
        fprintf(stderr, "%s: %s; every product is left to %s\n", preload_name, limber_error_text(),
                preload_original);
}

static bool is_complex(const struct request *r)
{
    return r->type == 'c' || r->type == 'z';
}

static bool is_op(char op)
{
    return op && strchr("NnTtCc", op);
}

static bool is_plain(char op)
{
    return toupper((unsigned char)op) == 'N';
}

/* Rows and columns of op(x) are given. */
static bool leads(const struct request *r, const struct side *s, int64_t rows, int64_t cols)
{
    int64_t least = is_plain(s->op) == !r->rows ? rows : cols;

    return s->lead >= (least > 1 ? least : 1);
}

/* What the BLAS itself refuses, or has nothing to do for. */
static bool is_valid(const struct request *r)
{
    return is_op(r->a.op) && is_op(r->b.op) && r->m > 0 && r->n > 0 && r->k >= 0 && r->alpha &&
           r->beta && leads(r, &r->a, r->m, r->k) && leads(r, &r->b, r->k, r->n) &&
           leads(r, &r->c, r->m, r->n);
}

static limber_matrix matrix_of(const struct request *r, const struct side *s, limber_format f)
{
    bool down = is_plain(s->op) == !r->rows;    /* elements of a column lie together */

    return (limber_matrix){ (void *)(uintptr_t)s->data, f, down ? 1 : s->lead, down ? s->lead : 1 };
}

static limber_status multiply(const struct request *r, const limber_contract *contract,
                              limber_report *report)
{
    limber_matrix a, b, c;
    limber_format f;

    limber_format_named(r->type == 's' || r->type == 'c' ? "f32" : "f64", &f);
    a = matrix_of(r, &r->a, f);
    b = matrix_of(r, &r->b, f);
    c = matrix_of(r, &r->c, f);
    if (is_complex(r))
        return limber_gemm_complex(context, contract, NULL, r->m, r->n, r->k, r->alpha, a,
                                   toupper((unsigned char)r->a.op) == 'C', b,
                                   toupper((unsigned char)r->b.op) == 'C', r->beta, c, report, 0);
    return limber_gemm(context, contract, r->m, r->n, r->k, r->alpha, a, b, r->beta, c, report);
}

static void tell(const struct request *r, const char *text)
{
    fprintf(stderr, "%s: %s %lld x %lld x %lld %s\n", preload_name, r->name, (long long)r->m,
            (long long)r->n, (long long)r->k, text);
}

bool limber_blas_serve(const struct request *r)
{
    const struct preload_options *o = preload_options();
    double work = (double)r->m * (double)r->n * (double)r->k;
    limber_report report;
    char text[200];

    if (!o->on || !is_valid(r) || (o->contract.promise == LIMBER_NATIVE && work < least_native))
        return false;
    pthread_once(&made, make_context);
    if (!context)
        return false;
    if (multiply(r, &o->contract, &report) != LIMBER_OK) {
        if (o->verbose) {
            snprintf(text, sizeof text, "is left to the BLAS: %.150s", limber_error_text());
            tell(r, text);
        }
        return false;
    }
    if (o->verbose) {
        snprintf(text, sizeof text, "by %s, %d rows, %.3g ms", report.scheme, report.rows,
                 1e3 * (report.seconds_scan + report.seconds_compile + report.seconds_run));
        tell(r, text);
    }
    return true;
}
