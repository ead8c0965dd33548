/* SPDX-License-Identifier: BSD-3-Clause
 * Figure type-error: error of representing a binary32 number by limbs, for each binade.
 *   published: the sum of unscaled limbs, converted as the papers define;
 *   scaled: x * 1 under `fast`, where each x is a line with a scale of its own;
 *   beside 1: lines (x, 1), whose elements share a scale.
 *
 *   source  Ma et al., ICS 2022, figure 14 */
#include "tools/figures/figures.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOWEST = -140, HIGHEST = 127, BINADES = HIGHEST - LOWEST + 1, MOST = 400 };

/* A type of number that is made of limbs. */
struct type {
    const char *name, *limb, *scheme;
    /* bits: each number in the range is represented with a relative error of at most 2^-bits */
    int limbs, shift, bits;
};
static const struct type types[] = {
    { "FP16", "f16", NULL, 1, 0, 11 },        { "BF16", "bf16", NULL, 1, 0, 8 },
    { "TF32", "tf32", NULL, 1, 0, 11 },       { "FP32-F", "f16", "fp32-f", 2, 12, 23 },
    { "FP32-M", "f16", "fp32-m", 2, 0, 23 },  { "FP32-T", "tf32", "fp32-t", 2, 0, 23 },
    { "FP32-B", "bf16", "fp32-b", 3, 0, 23 }, { "FP32", "f32", NULL, 1, 0, 24 },
};
enum { TYPES = sizeof types / sizeof *types };
/* Indices in `types` of those that are also measured as the library computes them, with scaling. */
static const int scaling[] = { 3, 5, 6 };
enum { SCALING = sizeof scaling / sizeof *scaling };

/* Returns the relative error of `got`, at most 1.  NaN and infinities have the error 1. */
static double error_of(double got, double x)
{
    double e = fabs(got - x) / fabs(x);

    return e < 1 ? e : 1;
}

/* Returns the error of x if it is stored as the published limbs of type t: each limb holds, in a
 * low precision, what the limbs before it leave. */
static double published_error(const struct type *t, float x)
{
    limber_format limb = format_of(t->limb), f64 = format_of("f64");
    double rest = x, sum = 0;

    for (int i = 0; i < t->limbs; i++) {
        double scaled = ldexp(rest, i * t->shift), back;
        char stored[8];

        limber_convert(stored, limb, &scaled, f64, 1, LIMBER_ROUND_NEAREST);
        limber_convert(&back, f64, stored, limb, 1, LIMBER_ROUND_NEAREST);
        back = ldexp(back, -i * t->shift);
        sum += back;
        rest -= back;
    }
    return error_of(sum, x);
}

/* Returns a random number of a binade. */
static float in_binade(int e, uint64_t *state)
{
    return (float)ldexp(1 + (double)(random_bits(state) >> 41) * 0x1p-23, e);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static bool is_representable(const struct type *t, float x)
{
    return published_error(t, x) <= ldexp(1, -t->bits);
}

/* Returns the largest x such that the type's limbs represent all numbers from 1 to x with a
 * relative error of at most 2^-bits.  Found by bisection over bit patterns. */
static float largest_representable(const struct type *t)
{
    float one = 1, most = FLT_MAX, x;
    uint32_t low, high, middle;

    memcpy(&low, &one, 4);
    memcpy(&high, &most, 4);
    if (is_representable(t, most))
        return most;
    while (high - low > 1) {
        middle = low + (high - low) / 2;
        memcpy(&x, &middle, 4);
        if (is_representable(t, x))
            low = middle;
        else
            high = middle;
    }
    memcpy(&x, &low, 4);
    return x;
}

/* Returns the smallest number below largest_representable() that lies midway between two values of
 * the first limb, and that the limbs do not represent with a relative error of at most 2^-bits.
 * NAN if there is none. */
static double lost_tie(const struct type *t)
{
    double end = largest_representable(t);
    int p = format_of(t->limb).frac_bits;

    for (int e = 0; t->limbs > 1 && ldexp(1, e) < end; e++)
        if (!is_representable(t, (float)ldexp(1 + ldexp(1, -p - 1), e)))
            return ldexp(1 + ldexp(1, -p - 1), e);
    return NAN;
}

/* Adds a line of the summary: the range of binades around 1 in which errors are at most 2^-bits,
 * and the largest error in it.  error[b]: largest error in binade LOWEST + b.  to: end of the range
 * if it is known, else NAN.  tie: result of lost_tie(), or NAN. */
static void add_summary_line(struct table *s, const char *name, const char *limbs, int bits,
                             const double *error, double to, double tie)
{
    int first = -LOWEST, last = -LOWEST;
    double worst = 0;

    while (first > 0 && error[first - 1] <= ldexp(1, -bits))
        first--;
    while (last + 1 < BINADES && error[last + 1] <= ldexp(1, -bits))
        last++;
    for (int b = first; b <= last; b++)
        worst = error[b] > worst ? error[b] : worst;
    table_add(s, "wwnnnn", name, limbs, ldexp(1, first + LOWEST),
              isnan(to) ? ldexp(2 - 0x1p-23, last + LOWEST) : to, worst, tie);
}

/* ---- by the library -------------------------------------------------------------------------- */

/* Random numbers of each binade. */
struct samples {
    int each; /* number of samples in each binade */
    float x[BINADES * MOST];
};

/* Measures the largest error in each of `binades` binades from index b on: multiplies rows that
 * hold one number or, if `beside`, a number and a 1. On failure prints a message and returns
 * false. */
static bool multiply(limber_context *ctx, const struct type *t, const struct samples *s, int b,
                     int binades, bool beside, double *error)
{
    const limber_contract fast = { .size = sizeof(limber_contract),
                                   .promise = LIMBER_CONTRACT_FAST,
                                   .scheme = t->scheme };
    struct factors x;
    limber_status status;

    if (!factors_alloc(&x, binades * s->each, 1, beside ? 2 : 1, "f32", "f32"))
        return false;
    for (int64_t i = 0; i < x.m; i++) {
        float *row = (float *)x.a + i * x.k;

        row[x.k - 1] = 1;
        row[0] = s->x[b * s->each + i];
    }
    memcpy(x.b, (float[]){ 1, 0 }, (size_t)x.k * sizeof(float));
    status = factors_multiply(ctx, &fast, &x, NULL);
    for (int64_t i = 0; i < x.m; i++) {
        double e =
            status == LIMBER_STATUS_OK ? error_of(((float *)x.c)[i], s->x[b * s->each + i]) : 1;
        double *to = &error[b + i / s->each];

        *to = i % s->each == 0 || e > *to ? e : *to;
    }
    factors_free(&x);
    return status == LIMBER_STATUS_OK || status == LIMBER_STATUS_NO_SCHEME ||
           !complain("%s", limber_error_text());
}

/* Measures the errors of schemes that scale rows.  error[0]: of rows with one number, all binades
 * in one product.  error[1]: of rows with a number and a 1, one product for each binade. */
static bool multiply_all(struct figures *f, const struct samples *s,
                         double error[2][SCALING][BINADES])
{
    const limber_config config = {
        .size = sizeof(limber_config), .backend = "interp", .threads = 1, .cache_dir = ""
    };
    limber_context *ctx;
    bool ok =
        limber_create(&ctx, &config) == LIMBER_STATUS_OK || !complain("%s", limber_error_text());

    for (int i = 0; i < SCALING && ok; i++) {
        const struct type *t = &types[scaling[i]];

        figure_note(f, "type-error: %s", t->name);
        ok = multiply(ctx, t, s, 0, BINADES, false, error[0][i]);
        for (int b = 0; b < BINADES && ok; b++)
            ok = multiply(ctx, t, s, b, 1, true, error[1][i]);
    }
    context_end(ctx);
    return ok;
}

/* ---- the figure ------------------------------------------------------------------------------ */

static const char script[] =
    "e(x) = x < 2**-26 ? 2**-26 : x\n"
    "set logscale y 2\nset yrange [2**-27:2**8]\nset xrange [-140:128]\n"
    "set ytics ('0' 2**-26, '2^{-22}' 2**-22, '2^{-16}' 2**-16, '2^{-11}' 2**-11, '2^{-8}' 2**-8, "
    "'2^{-4}' 2**-4, '1' 1)\nset xtics 20\nset xlabel 'binade of x'\n"
    "set ylabel 'largest relative error'\n"
    "array C = [8, 5, 6, 1, 3, 2, 7, 4]\nset multiplot layout 2,1\n"
    "set title 'as published: unscaled limbs'\n"
    "plot for [i=2:9] $data every 2 using 1:(e(column(i))) with lines lw 2 dt i-1 lc C[i-1] "
    "title word('FP16 BF16 TF32 FP32-F FP32-M FP32-T FP32-B FP32', i-1)\n"
    "set title 'scaled by lines, as the library multiplies'\n"
    /* the curves of FP32-F and FP32-T coincide */
    "plot $data every 2 using 1:(e($10 > $11 ? $10 : $11)) with lines lw 2 lc C[4] "
    "title 'FP32-F and FP32-T', $data every 2 using 1:(e($12)) with lines lw 2 dt 7 lc C[7] "
    "title 'FP32-B', $data every 2 using 1:(e($13)) with lines lw 2 dt 2 lc C[4] title 'FP32-F "
    "beside 1'\n"
    "unset multiplot";

/* Computes, for each binade, the largest error of each type as published and with scaling
 * (data), and a summary (brief).  False on failure. */
static bool fill_tables(struct figures *f, const struct samples *s, struct table *data,
                        struct table *brief)
{
    double plain[TYPES][BINADES] = { { 0 } }, scaled[2][SCALING][BINADES];
    bool ok = multiply_all(f, s, scaled);

    for (int b = 0; b < BINADES && ok; b++) {
        table_add(data, "n", (double)(b + LOWEST));
        for (int t = 0; t < TYPES; t++) {
            for (int i = 0; i < s->each; i++)
                plain[t][b] = fmax(plain[t][b], published_error(&types[t], s->x[b * s->each + i]));
            table_add(data, "n", plain[t][b]);
        }
        for (int i = 0; i < 2 * SCALING; i++)
            table_add(data, "n", scaled[i / SCALING][i % SCALING][b]);
    }
    for (int t = 0; t < TYPES && ok; t++)
        add_summary_line(brief, types[t].name, "published", types[t].bits, plain[t],
                         largest_representable(&types[t]), lost_tie(&types[t]));
    for (int i = 0; i < 2 * SCALING && ok; i++)
        add_summary_line(brief, types[scaling[i % SCALING]].name,
                         i < SCALING ? "scaled" : "beside 1", types[scaling[i % SCALING]].bits,
                         scaled[i / SCALING][i % SCALING], NAN, NAN);
    return ok;
}

/* Makes the random samples of all binades and fills the figure's tables.  False on failure. */
static bool fill_types(struct figures *f, struct table *data, struct table *brief)
{
    struct samples *s = malloc(sizeof *s);
    uint64_t state = 14;
    bool ok = s || !complain("figures: out of memory");

    if (ok)
        s->each = f->quick ? 40 : MOST;
    for (int i = 0; ok && i < BINADES * s->each; i++)
        s->x[i] = in_binade(LOWEST + i / s->each, &state);
    ok = ok && fill_tables(f, s, data, brief);
    free(s);
    return ok;
}

const struct figure figure_types = {
    .name = "type-error",
    .about = "what emulated types lose of a number, binade by binade",
    .heads = "binade,FP16,BF16,TF32,FP32-F,FP32-M,FP32-T,FP32-B,FP32,FP32-F scaled,FP32-T scaled,"
             "FP32-B scaled,FP32-F beside 1,FP32-T beside 1,FP32-B beside 1",
    .brief = "type,limbs,from,to,error,lost half-way at",
    .fill = fill_types,
    .picture = { { "type-error", script, 760 } }
};
