/* SPDX-License-Identifier: BSD-3-Clause
 * limber_solve: the public call for linear systems, with its argument checks. */
#include "jit/api/api.h"
#include "jit/device.h"
#include "jit/operators/operators.h"

/* True if binary128 holds every value of the format. */
static bool is_within_binary128(limber_format f)
{
    return limber_format_embeds(f, LIMBER_F128);
}

/* Checks that binary128 holds all values of A's and B's formats, and that X's format is a float of
 * at most binary128, or a double-double. */
static bool check_formats(const limber_solve_call *s, struct diag *d)
{
    const limber_format formats[] = { s->a.format, s->b.format, s->x.format };
    static const char *const names[] = { "a", "b", "x" };
    char name[32];

    for (int i = 0; i < 3; i++) {
        if (!limber_format_check(names[i], formats[i], d))
            return false;
        if ((!is_within_binary128(formats[i]) && (i < 2 || formats[i].kind != LIMBER_KIND_DD)) ||
            (i == 2 && limber_is_integer(formats[i])))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %s is %s", names[i],
                               limber_format_name(formats[i], name, sizeof name),
                               i < 2 ? "not within binary128" : "no float within binary128");
    }
    return true;
}

/* Checks a system's formats, sizes, addresses and overlaps. */
static bool check_call(limber_context *ctx, const limber_solve_call *s, struct diag *d)
{
    const limber_matrix x = { s->x.data, s->x.format, s->x.row_stride, s->x.col_stride };
    int64_t elements;

    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    if (s->n < 0 || s->columns < 0 || s->most_steps < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s is negative",
                           s->n < 0       ? "n" :
                           s->columns < 0 ? "columns" :
                                            "most_steps");
    if (__builtin_mul_overflow(s->n, s->n > s->columns ? s->n : s->columns, &elements) ||
        elements > INT64_MAX / 64)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "n and columns = %lld, %lld are too large", (long long)s->n,
                           (long long)s->columns);
    if (!check_formats(s, d) || !limber_check_data(&s->a, "a", s->n, s->n, d) ||
        !limber_check_data(&s->b, "b", s->n, s->columns, d) ||
        !limber_check_data(&x, "x", s->n, s->columns, d) ||
        !limber_check_distinct(&x, "x", s->n, s->columns, d) ||
        !limber_check_apart((struct extent){ &x, "x", s->n, s->columns },
                            (struct extent){ &s->a, "a", s->n, s->n }, d) ||
        !limber_check_apart((struct extent){ &x, "x", s->n, s->columns },
                            (struct extent){ &s->b, "b", s->n, s->columns }, d))
        return false;
    if (elements && (limber_device_holds(ctx, s->a.data) || limber_device_holds(ctx, s->b.data) ||
                     limber_device_holds(ctx, x.data)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "matrices lie in host memory");
    return true;
}

/* Checks the arguments and solves a system of linear equations. report: may be NULL. */
limber_status limber_solve(limber_context *ctx, const limber_solve_call *call,
                           limber_solve_report *report)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    limber_solve_call c;
    limber_solve_report given, r = LIMBER_SOLVE_REPORT_INIT;
    double began = limber_now();

    if (!call)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "call is NULL");
    else if (limber_copy_sized_in(&c, sizeof c, call, LEAST_solve_call, "call", &d) &&
             (!report || limber_copy_sized_in(&given, sizeof given, report, LEAST_solve_report,
                                              "report", &d)) &&
             check_call(ctx, &c, &d) && c.n && c.columns && limber_solve_run(ctx, &c, &r, &d) &&
             report) {
        r.seconds = limber_now() - began;
        limber_copy_sized_out(report, &r, sizeof r);
    }
    if (d.status)
        limber_fail_in(&d, "solve");
    return limber_error_set(&d);
}
