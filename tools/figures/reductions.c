/* SPDX-License-Identifier: BSD-3-Clause
 * Figure reductions: the error of a sum over its length for each kind of accumulation, and the
 * share of additions that change nothing (swallowed).
 *
 *   source  "additions whose ratio exceeds 2^11 are swallowed" of a published guide for operators
 *           in FP16; docs/operators.md, "Reductions" */
#include "tools/figures/figures.h"

#include <limber/ops.h>

#include <math.h>
#include <stdlib.h>

enum { LEAST = 16, MOST_COUNT = 1 << 20, CARRIES = 4, REPEATS = 8 };

static const char *const formats[] = { "f16", "bf16" };

/* Sums each of `repeats` rows of `count` numbers; the sums are binary64. */
static bool sum_rows(limber_context *ctx, limber_format f, const void *x, int64_t count,
                     int repeats, limber_carry carry, double *sum, uint64_t *swallowed)
{
    limber_reduce_call r = LIMBER_REDUCE_INIT;

    r.reduction = LIMBER_REDUCTION_SUM;
    r.carry = carry;
    r.from = f;
    r.to = LIMBER_F64;
    r.outer = (size_t)repeats;
    r.count = (size_t)count;
    r.inner = 1;
    r.src = x;
    r.dst = sum;
    r.swallowed = swallowed;
    return limber_reduce(ctx, &r) == LIMBER_STATUS_OK || !complain("%s", limber_error_text());
}

/* Adds a row of the figure: for each accumulation the root mean square of errors, relative to the
 * exact sum of absolute values, and the share of additions that change nothing. */
static bool measure(struct figures *f, limber_format format, int64_t count, bool is_signed,
                    struct table *data)
{
    int64_t all = count * REPEATS;
    double *x = malloc((size_t)all * sizeof *x), sum[CARRIES][REPEATS], size[REPEATS];
    char *codes = malloc((size_t)all * 2);
    uint64_t state = 7, swallowed[CARRIES] = { 0 };
    bool ok = x && codes;

    if (!ok)
        complain("figures: out of memory");
    for (int64_t i = 0; i < all && ok; i++)
        x[i] = random_unit(&state) * (is_signed ? 2 : 1) - is_signed;
    ok = ok && !limber_convert(codes, format, x, LIMBER_F64, (size_t)all, LIMBER_ROUND_NEAREST) &&
         !limber_convert(x, LIMBER_F64, codes, format, (size_t)all, LIMBER_ROUND_NEAREST);
    for (int c = 0; c < CARRIES && ok; c++)
        ok =
            sum_rows(f->ctx, format, codes, count, REPEATS, (limber_carry)c, sum[c], &swallowed[c]);
    for (int64_t i = 0; i < all && ok; i++)
        x[i] = fabs(x[i]);
    ok = ok && sum_rows(f->ctx, LIMBER_F64, x, count, REPEATS, LIMBER_CARRY_EXACT, size, NULL);
    for (int c = 1; c < CARRIES && ok; c++) {
        double square = 0;

        for (int r = 0; r < REPEATS; r++) {
            double error = isfinite(sum[c][r]) ? (sum[c][r] - sum[0][r]) / size[r] : 1;

            square += error * error / REPEATS;
        }
        table_add(data, "n", sqrt(square));
    }
    for (int c = 0; c < CARRIES && ok; c++)
        if (c == LIMBER_CARRY_F32 || c == LIMBER_CARRY_STORAGE)
            table_add(data, "n", (double)swallowed[c] / (double)all);
    free(x);
    free(codes);
    return ok;
}

/* Measures reductions in all formats, of positive and of signed numbers, with growing length.  A
 * line of the table for each.  False on failure. */
static bool fill_reductions(struct figures *f, struct table *data, struct table *brief)
{
    bool ok = true;

    (void)brief;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int is_signed = 0; is_signed < 2; is_signed++)
            for (int64_t n = LEAST; n <= (f->quick ? 1 << 12 : MOST_COUNT) && ok;
                 n *= f->quick ? 16 : 2) {
                figure_note(f, "reductions: %s, n = %lld", formats[i], (long long)n);
                table_add(data, "wwn", formats[i], is_signed ? "signed" : "positive", (double)n);
                ok = measure(f, format_of(formats[i]), n, is_signed, data);
            }
    return ok;
}

static const char script[] =
    "set logscale x 2\nset format x '2^{%L}'\nset xlabel 'numbers added' offset 0,0.5\n"
    "set xtics 16\nset key at graph 0.5,0.49 center samplen 1.5 spacing 0.8 width -1\n"
    "d(t) = t eq 'f16' ? 1 : 2\nset multiplot layout 2,2\n"
    "do for [d in 'positive signed'] {\n"
    "set logscale y 10\nset format y '10^{%T}'\nset yrange [1e-10:2]\n"
    "set ylabel 'error / sum of |x|'\nset title 'uniform '.d.' numbers'\n"
    "y(t,i) = strcol(1) eq t && strcol(2) eq d ? (column(i) > 0 ? column(i) : NaN) : NaN\n"
    "plot for [t in 'f16 bf16'] $data using 3:(y(t,6)) with linespoints pt (t eq 'f16' ? 7 : 6) "
    "ps 0.5 lw 2 dt d(t) lc 2 title t.' in itself', "
    "for [t in 'f16 bf16'] $data using 3:(y(t,4)) with linespoints pt (t eq 'f16' ? 7 : 6) "
    "ps 0.5 lw 2 dt d(t) lc 1 title t.' in f32', "
    "for [t in 'f16 bf16'] $data using 3:(y(t,5)) with linespoints pt (t eq 'f16' ? 7 : 6) "
    "ps 0.5 lw 2 dt d(t) lc 3 title t.' compensated'\n"
    "unset key\n" /* the other pictures have the same curves */
    "unset logscale y\nset format y '%g'\nset yrange [0:1]\n"
    "set ylabel 'swallowed additions'\n"
    "z(t,i) = strcol(1) eq t && strcol(2) eq d ? column(i) : NaN\n"
    "plot for [t in 'f16 bf16'] $data using 3:(z(t,8)) with linespoints pt (t eq 'f16' ? 7 : 6) "
    "ps 0.5 lw 2 dt d(t) lc 2 title t.' in itself', "
    "for [t in 'f16 bf16'] $data using 3:(z(t,7)) with linespoints pt (t eq 'f16' ? 7 : 6) "
    "ps 0.5 lw 2 dt d(t) lc 1 title t.' in f32'\n"
    "}\nunset multiplot";

const struct figure figure_reductions = {
    .name = "reductions",
    .about = "error growth of sums, and additions that change nothing, by how sums are carried",
    .heads = "format,data,n,f32 error,compensated error,storage error,f32 swallowed,"
             "storage swallowed",
    .fill = fill_reductions,
    .picture = { { "reductions", script, 760 } }
};
