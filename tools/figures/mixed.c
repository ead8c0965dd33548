/* SPDX-License-Identifier: BSD-3-Clause
 * Figures ape-8, mixed-sweep and overhead: products whose parts need different precision, computed
 * by one plan, by a plan for each part, and as the library decides.
 *
 *   source  Ma et al., ICS 2022, figures 8 and 16 */
#include "tools/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 64, LENGTH = 256, SCHEMES = 3 };

/* Data of the figure: most elements need few bits or binades; those in a share of the tiles are
 * wide (need many). */
enum wide {
    WIDE_bits,      /* FP64: integers of seven bits and a sign; wide: all significant bits */
    WIDE_exponents, /* FP64: the same integers; wide: exponents over 120 binades */
    WIDE_floats,    /* FP32: uniform in (-1, 1); wide: exponents over 60 binades */
};

/* Draws one element, for an ordinary or a wide tile. */
static double draw_element(enum wide kind, bool wide, uint64_t *state)
{
    double x = random_unit(state) - 0.5;
    int binades = kind == WIDE_exponents ? 120 : kind == WIDE_floats ? 60 : 0;

    if (!wide)
        return kind == WIDE_floats ? 2 * x : floor(x * 254);
    return ldexp(x, binades ? (int)(random_unit(state) * binades) - binades / 2 : 0);
}

/* Fills A and B with data of this kind.  tiles: tiles in random places of A and of B are wide, so
 * that their share is `share`; else the first blocks of A's lines are wide, and no tile of B is. */
static void fill_operands(const struct factors *x, double share, bool tiles, enum wide kind)
{
    uint64_t state = 8;

    for (int64_t side = 0; side < 2; side++)
        for (int64_t i = 0; i < (side ? x->n : x->m); i++)
            for (int64_t p = 0; p < x->k; p++) {
                int64_t blocks = x->m / LINES;
                uint64_t tile = (uint64_t)(side << 40 | (i / LINES) << 20 | p / LENGTH) * 7919 + 1;
                bool wide = tiles ? random_unit(&tile) < share :
                                    !side && (double)(i / LINES) < share * (double)blocks - 0.5;

                factors_set(x, side ? x->b : x->a, side ? p * x->n + i : i * x->k + p,
                            draw_element(kind, wide, &state));
            }
}

/* ---- ape-8 and mixed-sweep --------------------------------------------------------------- */

/* The products of the figure. */
static const struct sweep {
    const char *name, *format;
    limber_promise promise;
    bool tiles;
    enum wide kind;
    /* named scheme, which chooses its limbs tile by tile; NULL: only the contract is given */
    const char *decided;
    /* schemes that compute the whole product, for comparison with the decision */
    const char *scheme[SCHEMES];
} sweeps[] = {
    { "native rows",
      "f64",
      LIMBER_CONTRACT_NATIVE,
      false,
      WIDE_bits,
      NULL,
      { "native", "ozaki2", "ozaki1-i8+native" } },
    { "native tiles",
      "f64",
      LIMBER_CONTRACT_NATIVE,
      true,
      WIDE_bits,
      NULL,
      { "native", "ozaki2", "ozaki1-i8+native" } },
    { "correct rows",
      "f64",
      LIMBER_CONTRACT_CORRECT,
      false,
      WIDE_exponents,
      NULL,
      { "ozaki1-i8", "ozaki2" } },
    { "FP32 rows",
      "f32",
      LIMBER_CONTRACT_FAST,
      false,
      WIDE_floats,
      "ape",
      { "fp32-f", "fp32-b", "native" } },
    { "FP32 tiles",
      "f32",
      LIMBER_CONTRACT_FAST,
      true,
      WIDE_floats,
      "ape",
      { "fp32-f", "fp32-b", "native" } },
};
enum { OWN_SWEEPS = 3, SWEEPS = sizeof sweeps / sizeof *sweeps };

/* The largest ratio of times in a sweep, and the share of wide tiles at which it was found. */
struct best {
    double ratio, share;
};

/* Adds a row of the figure: times of the library's own choice, of a single plan, and of named
 * schemes, at one share of tiles that need more bits. */
static bool measure_share(struct figures *f, const struct sweep *s, const struct factors *x,
                          double share, struct table *data, struct best *worst)
{
    limber_contract c = { .size = sizeof(limber_contract),
                          .promise = s->promise,
                          .scheme = s->decided };
    double time[SCHEMES + 1], least = INFINITY, decided;
    bool failed = false;
    limber_report r = LIMBER_REPORT_INIT;
    int n = 0;

    figure_note(f, "%s, %.0f%%", s->name, 100 * share);
    decided = factors_time(f, f->ctx, &c, x, &r, &failed);
    time[n++] = s->decided ? NAN : factors_time(f, f->whole, &c, x, NULL, &failed);
    for (; n <= SCHEMES && !failed; n++) {
        c.scheme = s->scheme[n - 1];
        time[n] = !c.scheme ? NAN :
                              factors_time(f, strchr(c.scheme, '+') ? f->ctx : f->whole, &c, x,
                                           NULL, &failed);
    }
    table_add(data, "wnn", s->name, share, 1e3 * decided);
    for (int i = 0; i < n; i++) {
        table_add(data, "n", 1e3 * time[i]);
        if (!s->decided || i < 1 || strcmp(s->scheme[i - 1], "native"))
            /* the fastest emulated type, if emulated types are compared */
            least = fmin(time[i], least);
    }
    table_add(data, "wnn", r.scheme, (double)r.parts, decided / least);
    if (decided / least > worst->ratio)
        *worst = (struct best){ decided / least, share };
    return !failed;
}

static const char sweep_script[] =
    "set xlabel 'share of wide data'\nset ylabel 'milliseconds'\nset key bottom right\n"
    "set xrange [-0.02:1.02]\nset logscale y 2\nset multiplot layout 3,1\n"
    "array S = ['native rows', 'native tiles', 'correct rows']\n"
    "array A = ['native', 'native', 'INT8 slices']\narray B = ['Ozaki II', 'Ozaki II', 'Ozaki "
    "II']\n"
    "array C = ['INT8 slices + native', 'INT8 slices + native', '']\n"
    "do for [s=1:3] {\nset title S[s]\n"
    "y(i) = strcol(1) eq S[s] ? column(i) : NaN\n"
    "plot $data using 2:(y(4)) with linespoints pt 4 ps 0.6 lw 2 dt 2 lc 1 title 'chosen for the "
    "whole', "
    "$data using 2:(y(5)) with linespoints pt 5 ps 0.6 lw 2 dt 2 lc 2 title A[s], "
    "$data using 2:(y(6)) with linespoints pt 9 ps 0.6 lw 2 dt 2 lc 3 title B[s], "
    "$data using 2:(y(7)) with linespoints pt 11 ps 0.6 lw 2 dt 2 lc 4 title C[s], "
    "$data using 2:(y(3)) with linespoints pt 7 ps 0.6 lw 3 lc 7 title 'decided'\n"
    /* the second picture has the curves of the first */
    "if (s == 1) { unset key } else { set key on }\n}\nunset multiplot";

/* Measures sweeps from..to-1, each over shares of wide tiles. */
static bool fill_sweeps(struct figures *f, int from, int to, struct table *data,
                        struct table *brief)
{
    int64_t n = f->quick ? 256 : 1024;
    struct factors x;
    bool ok = factors_alloc(&x, n, n, n, sweeps[from].format, sweeps[from].format);

    for (int i = from; i < to && ok; i++) {
        struct best worst = { 0, 0 };

        for (int share = 0; share <= 10 && ok; share += f->quick ? 5 : 1) {
            fill_operands(&x, share / 10.0, sweeps[i].tiles, sweeps[i].kind);
            ok = measure_share(f, &sweeps[i], &x, share / 10.0, data, &worst);
        }
        table_add(brief, "wnn", sweeps[i].name, worst.ratio, worst.share);
    }
    factors_free(&x);
    return ok;
}

static bool fill_own_sweeps(struct figures *f, struct table *data, struct table *brief)
{
    return fill_sweeps(f, 0, OWN_SWEEPS, data, brief);
}

static bool fill_ape_sweeps(struct figures *f, struct table *data, struct table *brief)
{
    return fill_sweeps(f, OWN_SWEEPS, SWEEPS, data, brief);
}

const struct figure figure_sweep = {
    .name = "mixed-sweep",
    .about = "mixed products against each plan for all",
    .heads = "data,share,decided,whole,first,second,third,scheme,parts,ratio",
    .brief = "data,decided over best at the worst,at share",
    .fill = fill_own_sweeps,
    .picture = { { "mixed-sweep", sweep_script, 900 } }
};

static const char ape_script[] =
    "set xlabel 'share of wide data'\nset ylabel 'milliseconds'\n"
    "set xrange [-0.02:1.02]\nset yrange [0:*]\nset offsets 0,0,graph 0.3,0\n"
    "set multiplot layout 2,1\n"
    "array S = ['FP32 rows', 'FP32 tiles']\nF = NaN\n"
    "do for [s=1:2] {\nset title S[s]\n"
    "y(i) = strcol(1) eq S[s] ? column(i) : NaN\n"
    /* FP32-F holds no wide data: its line is the time without them */
    "plot $data using 2:(strcol(1) eq S[s] ? (F = $2 == 0 ? column(5) : F) : NaN) "
    "with linespoints pt 5 ps 0.6 lw 2 dt 3 lc 1 title 'FP32-F (none wide)', "
    "$data using 2:(y(6)) with linespoints pt 9 ps 0.6 lw 2 dt 2 lc 2 title 'FP32-B', "
    "$data using 2:(y(7)) with linespoints pt 11 ps 0.6 lw 2 dt 2 lc 3 title 'FP32', "
    "$data using 2:(y(3)) with linespoints pt 7 ps 0.6 lw 3 lc 7 title 'mixed'\n"
    "unset key\n}\nunset multiplot"; /* the second picture has the same curves */

const struct figure figure_ape_sweep = {
    .name = "ape-8",
    .about = "FP32-F, FP32-B, FP32 and mixed, against the share of wide data",
    .heads = "data,share,mixed,whole,FP32-F,FP32-B,FP32,scheme,parts,ratio",
    .brief = "data,mixed over best at the worst,at share",
    .fill = fill_ape_sweeps,
    .picture = { { "ape-8", ape_script, 640 } }
};

/* ---- overhead -------------------------------------------------------------------------------- */

/* Measures the time of a mixed product, divided into scan and decision, and the parts, as the
 * report of the fastest call divides it; and the time of one plan for all: FP32-B for Ape's types,
 * else what the library chooses. */
static bool measure_overhead(struct figures *f, const struct sweep *s, const struct factors *x,
                             struct table *data)
{
    const limber_contract c = { .size = sizeof(limber_contract),
                                .promise = s->promise,
                                .scheme = s->decided },
                          alone = { .size = sizeof(limber_contract),
                                    .promise = s->promise,
                                    .scheme = s->decided ? "fp32-b" : NULL };
    double least = INFINITY, mixed, whole, share;
    bool failed = false;
    limber_report best = LIMBER_REPORT_INIT, r = LIMBER_REPORT_INIT;

    figure_note(f, "overhead: %s, n = %lld", s->name, (long long)x->n);
    for (int run = 0; run < (f->quick ? 2 : 6); run++) {
        if (factors_multiply(f->ctx, &c, x, &r) != LIMBER_STATUS_OK)
            return complain("%s", limber_error_text()), false;
        if (run > 0 && r.seconds_scan + r.seconds_run < least) {
            least = r.seconds_scan + r.seconds_run;
            best = r;
        }
    }
    share = best.seconds_scan / least;
    mixed = 1e3 * factors_time(f, f->ctx, &c, x, NULL, &failed);
    whole = 1e3 * factors_time(f, f->whole, &alone, x, NULL, &failed);
    table_add(data, "wnnnnwnn", s->name, (double)x->n, mixed * share, mixed * (1 - share), share,
              best.scheme, (double)best.parts, whole);
    return !failed;
}

/* Two bars for each row: one plan for all, whose time is 1, and the mixed product. */
static const char overhead_script[] =
    "set boxwidth 0.9\nset ylabel 'time / time of one plan for all'\nset yrange [0:*]\n"
    "set offsets 0,0,graph 0.12,0\nset rmargin 10\nset xtics rotate by -30\nunset grid\n"
    "set grid ytics\n"
    "plot $data using (3*$0):(1):xtic(sprintf('%s, n = %g', strcol(1), $2)) with boxes lc 8 "
    "title 'one plan (FP32: FP32-B)', "
    "$data using (3*$0+1):(($3+$4)/$8) with boxes lc 1 title 'mixed: parts', "
    "$data using (3*$0+1):($3/$8) with boxes lc 2 title 'mixed: scan and decision'";

/* Fills the figure of the time that planning of mixed products takes. */
static bool fill_overhead(struct figures *f, struct table *data, struct table *brief)
{
    static const int sizes[] = { 1024, 2048 };
    bool ok = true;

    (void)brief;
    for (int i = 0; i < (f->quick ? 1 : 2) && ok; i++) {
        int64_t n = f->quick ? 320 : sizes[i];

        for (int s = 0; s < SWEEPS && ok; s++) {
            struct factors x;

            ok = factors_alloc(&x, n, n, n, sweeps[s].format, sweeps[s].format);
            if (ok) /* with more wide tiles of FP32, one emulated type computes the product */
                fill_operands(&x, sweeps[s].decided && sweeps[s].tiles ? 0.1 : 0.4, sweeps[s].tiles,
                              sweeps[s].kind);
            ok = ok && measure_overhead(f, &sweeps[s], &x, data);
            factors_free(&x);
        }
    }
    return ok;
}

const struct figure figure_overhead = {
    .name = "overhead",
    .about = "scan, decision and parts of mixed products",
    .heads = "data,n,scan and decision ms,parts ms,share,scheme,parts,one plan ms",
    .fill = fill_overhead,
    .picture = { { "overhead", overhead_script, 480 } }
};
