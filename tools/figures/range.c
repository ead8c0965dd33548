/* SPDX-License-Identifier: BSD-3-Clause
 * Figure dynamic-range: accuracy and time of Ozaki's schemes on data (U - 0.5) exp(phi N(0,1)).
 * Source of the data: Ozaki, Uchino, Imamura, arXiv 2504.08009, section 5. */
#include "tools/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Widths of the distributions: elements are multiplied by exp(width x), where x is normal. */
static const double widths[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6, 8 };
/* The measured schemes, and their contracts. */
static const struct call {
    const char *name;
    limber_contract contract;
} calls[] = {
    { "native FP64",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE, .scheme = "native" } },
    { "Ozaki I native",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_NATIVE,
        .scheme = "ozaki1-i8" } },
    { "Ozaki II native",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE, .scheme = "ozaki2" } },
    { "Ozaki I bits=40",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_BITS,
        .bits = 40,
        .scheme = "ozaki1-i8" } },
    { "Ozaki II bits=40",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_BITS,
        .bits = 40,
        .scheme = "ozaki2" } },
    { "Ozaki I correct",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_CORRECT,
        .scheme = "ozaki1-i8" } },
    { "Ozaki II correct",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT, .scheme = "ozaki2" } },
    { "Ozaki I 7 slices",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_FAST,
        .slices = 7,
        .scheme = "ozaki1-i8" } },
    { "Ozaki I 9 slices",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_FAST,
        .slices = 9,
        .scheme = "ozaki1-i8" } },
    { "Ozaki I estimated",
      { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_FAST, .scheme = "ozaki1-i8" } },
    { "Ozaki I FP16 6 slices",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_FAST,
        .slices = 6,
        .scheme = "ozaki1-f16" } },
    { "Ozaki I FP16 estimated",
      { .size = sizeof(limber_contract),
        .promise = LIMBER_CONTRACT_FAST,
        .scheme = "ozaki1-f16" } },
};
/* the first and the last of the contracts that Ozaki's schemes keep whatever the data */
enum { FIRST_KEPT = 1, LAST_KEPT = 6 };
enum { WIDTHS = sizeof widths / sizeof *widths, CALLS = sizeof calls / sizeof *calls };

/* Adds the rows for one width of the data (phi).  Times are divided by that of the first
 * contract. */
static bool measure(struct figures *f, double phi, const struct factors *x, struct table *data)
{
    double base = NAN, cost = NAN, worst = 0;
    bool failed = false;

    for (int i = 0; i < CALLS && !failed; i++) {
        limber_report r = LIMBER_REPORT_INIT;
        double t, error;

        figure_note(f, "dynamic-range: phi = %g, %s", phi, calls[i].name);
        t = factors_time(f, f->whole, &calls[i].contract, x, &r, &failed);
        base = i ? base : t;
        cost = i ? cost : r.cost;
        if (failed)
            break;
        table_add(data, "wn", calls[i].name, phi);
        if (isnan(t)) { /* the contract is refused */
            table_add(data, "nnnnn", NAN, NAN, NAN, NAN, NAN);
            continue;
        }
        error = factors_check(x).relative * 0x1p53;
        worst = i >= FIRST_KEPT && i <= LAST_KEPT ? fmax(worst, error) : worst;
        table_add(data, "nnnnn", (double)r.rows, error, r.bound * 0x1p53, r.cost / cost, t / base);
    }
    table_add(data, "wnnnnnn", "largest of the contracts", phi, NAN, worst, NAN, NAN, NAN);
    return !failed;
}

#define HEAD \
    "array N = ['native FP64', 'Ozaki I native', 'Ozaki II native', 'Ozaki I bits=40', " \
    "'Ozaki II bits=40', 'Ozaki I correct', 'Ozaki II correct', 'Ozaki I 7 slices', " \
    "'Ozaki I 9 slices', 'Ozaki I estimated', 'Ozaki I FP16 6 slices', " \
    "'Ozaki I FP16 estimated', 'largest of the contracts']\n" \
    "array T = ['', 'Ozaki I native', 'Ozaki II native', 'Ozaki I bits=40', 'Ozaki II bits=40', " \
    "'Ozaki I correct', 'Ozaki II correct', 'INT8, 7 slices', 'INT8, 9 slices', " \
    "'INT8, estimated', 'FP16, 6 slices', 'FP16, estimated']\n" \
    "set datafile missing NaN\n" /* curves leave out rows of other contracts */ \
    "set xlabel 'phi'\nset logscale y 10\n"
#define ROWS_OF(i, y) "$data using 2:(strcol(1) eq N[" i "] ? " y " : NaN) "
/* Curves of slices: FP16 is orange, INT8 blue; fixed numbers are dashed, estimated ones are not. */
/* clang-format off */
#define SLICES(y, estimated) \
    ROWS_OF("8", y) "with linespoints pt 8 ps 0.8 lw 2 dt 2 lc 1 title T[8], " \
    ROWS_OF("9", y) "with linespoints pt 10 ps 0.8 lw 2 dt 4 lc 1 title T[9], " \
    ROWS_OF("10", y) "with " estimated " pt 6 ps 0.9 lw 2 lc 1 title T[10], " \
    ROWS_OF("11", y) "with linespoints pt 4 ps 0.8 lw 2 dt 2 lc 2 title T[11], " \
    ROWS_OF("12", y) "with " estimated " pt 5 ps 0.6 lw 2 lc 2 title T[12]"

/* Errors under the six contracts nearly coincide, so one curve shows the largest of them.  Those of
 * estimated slices are points on it. */
static const char accuracy[] = HEAD
    "set ylabel 'largest error / u |A||B|'\nset format y '10^{%L}'\nset yrange [0.01:]\n"
    "set key top left vertical\n"
    "plot "
    ROWS_OF("13", "$4") "with lines lw 2 lc 8 title 'Ozaki I and II, contracts', "
    ROWS_OF("1", "$4") "with linespoints pt 6 ps 0.8 lw 2 lc 7 title 'native FP64', "
    SLICES("$4", "points");

static const char cost[] = HEAD
    "set ylabel 'time / native FP64'\nset offsets 0,0,graph 0.2,0\nset multiplot layout 2,1\n"
    "set title 'contracts (lines: measured; crosses: predicted)'\n"
    "plot for [i=2:7] " ROWS_OF("i", "$7") "with linespoints pt i+2 ps 0.7 lw 2 "
    "dt 1+i%2 lc 1+i/2 title T[i], for [i=2:7] " ROWS_OF("i", "$6")
    "with points pt 2 lc 1+i/2 notitle\n"
    "set title 'numbers of slices'\nplot " SLICES("$7", "linespoints") ", "
    "for [i=8:12] " ROWS_OF("i", "$6") "with points pt 2 lc (i < 11 ? 1 : 2) notitle\n"
    "unset multiplot";
/* clang-format on */

/* Fills the figure of errors and times against the range of the data's exponents. */
static bool fill_range(struct figures *f, struct table *data, struct table *brief)
{
    int64_t n = f->quick ? 64 : 512;
    struct factors x;
    bool ok = factors_alloc(&x, n, n, n, "f64", "f64");

    (void)brief;
    for (int w = 0; w < WIDTHS && ok; w += f->quick ? 3 : 1) {
        uint64_t state = 2504;

        for (int64_t i = 0; i < n * n; i++) {
            ((double *)x.a)[i] =
                (random_unit(&state) - 0.5) * exp(widths[w] * random_normal(&state));
            ((double *)x.b)[i] =
                (random_unit(&state) - 0.5) * exp(widths[w] * random_normal(&state));
        }
        ok = measure(f, widths[w], &x, data);
    }
    factors_free(&x);
    return ok;
}

const struct figure figure_range = { .name = "dynamic-range",
                                     .about = "Ozaki's schemes against the range of the data",
                                     .heads = "way,phi,products,error,bound,predicted,measured",
                                     .fill = fill_range,
                                     .picture = { { "dynamic-range", accuracy, 480 },
                                                  { "dynamic-range-cost", cost, 760 } } };
