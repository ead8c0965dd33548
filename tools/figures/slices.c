/* SPDX-License-Identifier: BSD-3-Clause
 * Figures slices and dgemm-tc-speed: the number of slices that Ozaki I estimates, over the range of
 * the data and the inner size, with errors beside those of the machine's own arithmetic; and the
 * speed that these numbers give.
 * Source: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, sections 3.2 and 5. */
#include "tools/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 64 };
/* Widths phi of the distributions, and lengths of the sums. */
static const double widths[] = { 0, 0.5, 1, 2, 3, 4 };
static const int64_t sizes[] = { 64, 256, 1024, 4096, 16384 };
/* The units for which slices are counted, with schemes and formats. */
static const struct row {
    const char *unit, *scheme, *format;
} rows[] = {
    { "FP16", "ozaki1-f16", "f64" },
    { "FP16", "ozaki1-f16", "f32" },
    { "INT8", "ozaki1-i8", "f64" },
    { "INT8", "ozaki1-i8", "f32" },
};
enum {
    WIDTHS = sizeof widths / sizeof *widths,
    SIZES = sizeof sizes / sizeof *sizes,
    ROWS = sizeof rows / sizeof *rows
};

/* Fills A and B with (U - 0.5) exp(phi N(0,1)). */
static void fill_factors(const struct factors *x, double phi)
{
    uint64_t state = 2020;
    int64_t count_a = x->m * x->k;

    for (int64_t i = 0; i < count_a + x->k * x->n; i++) {
        double v = (random_unit(&state) - 0.5) * exp(phi * random_normal(&state));

        factors_set(x, i < count_a ? x->a : x->b, i < count_a ? i : i - count_a, v);
    }
}

/* Returns the number of slices that the plan states; 0 if there is no plan. */
static int planned_slices(limber_context *ctx, const limber_contract *contract,
                          const struct factors *x)
{
    limber_problem p = LIMBER_PROBLEM_INIT;
    char *text = NULL;
    const char *at;
    int slices = 0;

    p.contract = contract;
    p.m = x->m;
    p.n = x->n;
    p.k = x->k;
    p.a = (limber_matrix){ x->a, x->format, x->k, 1 };
    p.b = (limber_matrix){ x->b, x->format, x->n, 1 };
    p.c = (limber_output){ x->c, x->result, x->n, 1 };
    if (limber_plan(ctx, &p, &text, NULL) == LIMBER_STATUS_OK && (at = strstr(text, " slices=")))
        slices = atoi(at + strlen(" slices="));
    limber_free(text);
    return slices;
}

/* Adds the row of one product to the data.  Returns the number of slices; 0 on failure, after a
 * message. */
static int measure(struct figures *f, const struct row *row, double phi, const struct factors *x,
                   struct table *data)
{
    limber_contract native = { .size = sizeof native,
                               .promise = LIMBER_CONTRACT_NATIVE,
                               .scheme = "native" };
    limber_contract fast = { .size = sizeof fast,
                             .promise = LIMBER_CONTRACT_FAST,
                             .scheme = row->scheme };
    limber_report r = LIMBER_REPORT_INIT;
    double conventional, u = row->format[1] == '6' ? 0x1p-53 : 0x1p-24;
    int slices = planned_slices(f->whole, &fast, x);

    if (!slices || factors_multiply(f->whole, &native, x, NULL))
        return complain("slices: %s", limber_error_text()), 0;
    conventional = factors_check(x).relative;
    if (factors_multiply(f->whole, &fast, x, &r))
        return complain("slices: %s", limber_error_text()), 0;
    table_add(data, "wwnnnnnn", row->unit, row->format, phi, (double)x->k, (double)slices,
              (double)r.rows, factors_check(x).relative / u, conventional / u);
    return slices;
}

/* Fills the figure's data, and a table of slices with a column for each k. */
static bool fill_slices(struct figures *f, struct table *data, struct table *brief)
{
    int count = f->quick ? 3 : SIZES;

    for (int i = 0; i < ROWS; i++)
        for (int w = 0; w < WIDTHS; w += f->quick ? 5 : 1) {
            int slices[SIZES] = { 0 };

            for (int s = 0; s < count; s++) {
                struct factors x;

                figure_note(f, "slices: %s, phi = %g, k = %d", rows[i].scheme, widths[w],
                            (int)sizes[s]);
                if (factors_alloc(&x, LINES, LINES, sizes[s], rows[i].format, rows[i].format)) {
                    fill_factors(&x, widths[w]);
                    slices[s] = measure(f, &rows[i], widths[w], &x, data);
                }
                factors_free(&x);
                if (!slices[s])
                    return false;
            }
            table_add(brief, "wwn", rows[i].unit, rows[i].format, widths[w]);
            for (int s = 0; s < SIZES; s++)
                table_add(brief, "n", s < count ? slices[s] : NAN);
        }
    return true;
}

static const char slices_script[] =
    "set xlabel 'k'\nset ylabel 'slices'\nset logscale x 4\nset xrange [45:23000]\n"
    "set yrange [0:13]\nset ytics 2\nset key bottom center\n"
    "set multiplot layout 2,1\n"
    "do for [r in 'f64 f32'] {\nset title (r eq 'f64' ? 'FP64' : 'FP32').' results'\n"
    "y(u,p) = strcol(1) eq u && strcol(2) eq r && $3 == p ? $5 : NaN\n"
    "plot for [p in '0 1 2 4'] $data using 4:(y('INT8',p)) with linespoints pt 5 ps 0.7 lw 2 "
    "lc (p eq '4' ? 4 : p+1) title 'INT8, phi = '.p, "
    "for [p in '0 1 2 4'] $data using 4:(y('FP16',p)) with linespoints pt 6 ps 0.9 lw 2 dt 2 "
    "lc (p eq '4' ? 4 : p+1) title 'FP16, phi = '.p\n"
    "unset key\n}\nunset multiplot";

const struct figure figure_slices = { .name = "slices",
                                      .about = "slices that Ozaki I estimates, by range and size",
                                      .heads = "unit,result,phi,k,slices,products,error,native",
                                      .brief = "unit,result,phi,k=64,k=256,k=1024,k=4096,k=16384",
                                      .fill = fill_slices,
                                      .picture = { { "slices", slices_script, 640 } } };

/* ---- speed ----------------------------------------------------------------------------------- */

static const double speed_widths[] = { 0, 1, 4 };
static const int64_t speed_sizes[] = { 128, 256, 512, 1024 };
/* The schemes whose speed is measured. */
static const struct {
    const char *scheme;
    limber_promise promise;
} speed_ways[] = { { "native", LIMBER_CONTRACT_NATIVE },
                   { "ozaki1-f16", LIMBER_CONTRACT_FAST },
                   { "ozaki1-i8", LIMBER_CONTRACT_FAST } };
enum {
    SPEED_WIDTHS = sizeof speed_widths / sizeof *speed_widths,
    SPEED_SIZES = sizeof speed_sizes / sizeof *speed_sizes,
    SPEED_WAYS = sizeof speed_ways / sizeof *speed_ways
};

/* Adds the row of one size: GFLOPS of each way, and numbers of slices.  Returns false on failure,
 * after a message. */
static bool measure_speed(struct figures *f, double phi, int64_t n, struct table *data)
{
    struct factors x;
    double gflops[SPEED_WAYS], slices[SPEED_WAYS], error[SPEED_WAYS];
    bool failed = !factors_alloc(&x, n, n, n, "f64", "f64");

    if (!failed)
        fill_factors(&x, phi);
    for (int i = 0; i < SPEED_WAYS && !failed; i++) {
        const limber_contract c = { .size = sizeof c,
                                    .promise = speed_ways[i].promise,
                                    .scheme = speed_ways[i].scheme };

        figure_note(f, "dgemm-tc-speed: phi = %g, n = %d, %s", phi, (int)n, c.scheme);
        slices[i] = i ? planned_slices(f->whole, &c, &x) : NAN;
        gflops[i] = 2e-9 * (double)n * (double)n * (double)n /
                    factors_time(f, f->whole, &c, &x, NULL, &failed);
        error[i] = factors_check(&x).relative * 0x1p53;
    }
    if (!failed)
        table_add(data, "nnnnnnnnnn", phi, (double)n, gflops[0], gflops[1], gflops[2], slices[1],
                  slices[2], error[0], error[1], error[2]);
    factors_free(&x);
    return !failed;
}

static bool fill_speed(struct figures *f, struct table *data, struct table *brief)
{
    bool ok = true;

    (void)brief;
    for (int w = 0; w < SPEED_WIDTHS; w++)
        for (int s = 0; s < (f->quick ? 2 : SPEED_SIZES) && ok; s++)
            ok = measure_speed(f, speed_widths[w], speed_sizes[s], data);
    return ok;
}

static const char speed_script[] =
    "set xlabel 'n'\nset ylabel 'GFLOPS'\nset logscale xy 2\nset offsets 0,0,graph 0.15,0\n"
    "array P[3] = [0, 1, 4]\nset datafile missing NaN\n"
    "y(i,p) = $1 == P[p] ? column(i) : NaN\n"
    "plot $data using 2:(y(3,1)) with linespoints pt 7 ps 0.7 lw 2 lc 7 title 'native FP64', "
    "for [p=1:3] $data using 2:(y(5,p)) with linespoints pt 5 ps 0.7 lw 2 dt p lc 1 "
    "title sprintf('INT8, phi = %g', P[p]), "
    "for [p=1:3] $data using 2:(y(4,p)) with linespoints pt 6 ps 0.9 lw 2 dt p lc 2 "
    "title sprintf('FP16, phi = %g', P[p])";

const struct figure figure_slices_speed = {
    .name = "dgemm-tc-speed",
    .about = "speed of Ozaki I with estimated slices, by range and size",
    .heads = "phi,n,FP64 GFLOPS,FP16 GFLOPS,INT8 GFLOPS,FP16 slices,INT8 slices,FP64 error,"
             "FP16 error,INT8 error",
    .fill = fill_speed,
    .picture = { { "dgemm-tc-speed", speed_script, 420 } }
};
