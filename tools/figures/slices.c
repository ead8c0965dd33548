/* SPDX-License-Identifier: BSD-3-Clause
 * Figure slices: the number of slices that Ozaki I estimates, over the range of the data and the
 * inner size, with errors beside those of the machine's own arithmetic.
 * Source: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, sections 3.2 and 5. */
#include "tools/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 64 };
static const double widths[] = { 0, 0.5, 1, 2, 3, 4 };
static const int64_t sizes[] = { 64, 256, 1024, 4096, 16384 };
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

    for (int64_t i = 0; i < 2 * LINES * x->k; i++) {
        double v = (random_unit(&state) - 0.5) * exp(phi * random_normal(&state));
        int64_t at = i % (LINES * x->k);
        void *to = i < LINES * x->k ? x->a : x->b;

        factors_set(x, to, at, v);
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

const struct figure figure_slices = { .name = "slices",
                                      .about = "slices that Ozaki I estimates, by range and size",
                                      .heads = "unit,result,phi,k,slices,products,error,native",
                                      .brief = "unit,result,phi,k=64,k=256,k=1024,k=4096,k=16384",
                                      .fill = fill_slices };
