/* SPDX-License-Identifier: BSD-3-Clause
 * Figure gemm-error: errors of FP32 products from limbs whose sums are those of tensor cores.
 *
 * The sums are simulated (h100-fp16, h100-tf32, h100-bf16): one chain over all of k, or with the
 * first accumulator added to a binary32 total after every 64 products (group=64), which is what
 * plans with sums=h100 do.  Limbs, rows and accumulators are those of the schemes under `fast`.
 *
 *   source  Ma et al., ICS 2022, figure 15; docs/accuracy.md, "Tensor cores" */
#include "tools/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LEAST to MOST_K: lengths of the sums.  CHUNK: elements along k that an emulation takes at a
 * time.  ROWS: most products of limbs. */
enum { LEAST = 64, MOST_K = 16384, CHUNK = 64, LIMBS = 3, ROWS = 6 };

/* An emulation of FP32 products by limbs. row: pairs of limbs whose products are summed.  The first
 * pair has an accumulator of its own; all other pairs share one. */
struct emulation {
    const char *name, *limb, *unit;
    int limbs, shift, rows;
    int row[ROWS][2];
};
static const struct emulation emulations[] = {
    { "FP32-F", "f16", "h100-fp16", 2, 12, 3, { { 0, 0 }, { 0, 1 }, { 1, 0 } } },
    { "FP32-T", "tf32", "h100-tf32", 2, 0, 3, { { 0, 0 }, { 0, 1 }, { 1, 0 } } },
    { "FP32-B",
      "bf16",
      "h100-bf16",
      3,
      0,
      6,
      { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 0, 2 }, { 1, 1 }, { 2, 0 } } },
};
enum { EMULATIONS = sizeof emulations / sizeof *emulations, CURVES = 2 + 2 * EMULATIONS };

/* Splits n numbers into limbs, which are stored as binary32. */
static bool split_limbs(const struct emulation *e, const float *x, int64_t n, float *limb[LIMBS])
{
    limber_format f = format_of(e->limb), f64 = format_of("f64"), f32 = format_of("f32");

    for (int i = 0; i < e->limbs; i++)
        if (!(limb[i] = malloc((size_t)n * sizeof(float))))
            return complain("figures: out of memory"), false;
    for (int64_t at = 0; at < n; at++) {
        double rest = x[at];

        for (int i = 0; i < e->limbs; i++) {
            double scaled = ldexp(rest, i * e->shift);
            char stored[8];

            limber_convert(stored, f, &scaled, f64, 1, LIMBER_ROUND_NEAREST);
            limber_convert(&limb[i][at], f32, stored, f, 1, LIMBER_ROUND_NEAREST);
            rest -= ldexp(limb[i][at], -i * e->shift);
        }
    }
    return true;
}

/* Computes rows [from, to) of the emulation's table as one product with one accumulator: for each
 * chunk of k, the rows one after the other. */
static bool accumulate(limber_context *ctx, const struct emulation *e, const struct factors *x,
                       float *a[LIMBS], float *b[LIMBS], int from, int to, const char *words,
                       float *c)
{
    int rows = to - from;
    int64_t length = x->k * rows;
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE };
    limber_unit unit = LIMBER_UNIT_INIT;
    struct factors y;
    bool ok;

    if (!factors_alloc(&y, x->m, x->n, length, "f32", "f32"))
        return false;
    for (int64_t p = 0; p < length; p++) {
        int64_t chunk = p / (CHUNK * rows), k = chunk * CHUNK + p % CHUNK;
        const int *row = e->row[from + p / CHUNK % rows];

        for (int64_t i = 0; i < x->m; i++)
            ((float *)y.a)[i * length + p] = a[row[0]][i * x->k + k];
        for (int64_t j = 0; j < x->n; j++)
            ((float *)y.b)[p * x->n + j] = b[row[1]][k * x->n + j];
    }
    contract.unit = &unit;
    ok = (limber_unit_parse(words, &unit) == LIMBER_STATUS_OK &&
          factors_multiply(ctx, &contract, &y, NULL) == LIMBER_STATUS_OK) ||
         !complain("%s", limber_error_text());
    if (ok)
        memcpy(c, y.c, (size_t)(x->m * x->n) * sizeof *c);
    factors_free(&y);
    return ok;
}

/* Computes an FP32 product by limbs on a simulated unit: the first pair of limbs in one
 * accumulator, the others in a second one.  promoted: sums of 64 products are added in FP32. */
static bool emulate(limber_context *ctx, const struct emulation *e, bool promoted,
                    const struct factors *x)
{
    float *limb[2][LIMBS] = { { NULL } }, *c = malloc(2 * (size_t)(x->m * x->n) * sizeof *c);
    int64_t n = x->m * x->n;
    char words[64];
    bool ok;

    snprintf(words, sizeof words, "%s%s", e->unit, promoted ? " group=64 outer=f32" : "");
    ok = (c || !complain("figures: out of memory")) && split_limbs(e, x->a, x->m * x->k, limb[0]) &&
         split_limbs(e, x->b, x->k * x->n, limb[1]) &&
         accumulate(ctx, e, x, limb[0], limb[1], 0, 1, words, c) &&
         accumulate(ctx, e, x, limb[0], limb[1], 1, e->rows, e->unit, c + n);
    for (int64_t i = 0; i < n && ok; i++)
        ((float *)x->c)[i] = (float)(ldexp(c[n + i], -e->shift) + (double)c[i]);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < LIMBS; i++)
            free(limb[side][i]);
    free(c);
    return ok;
}

static bool multiply_simulated(limber_context *ctx, const struct factors *x)
{
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE };
    limber_unit unit = LIMBER_UNIT_INIT;

    contract.unit = &unit;
    return (limber_unit_parse("in=f32 acc=f32", &unit) == LIMBER_STATUS_OK &&
            factors_multiply(ctx, &contract, x, NULL) == LIMBER_STATUS_OK) ||
           !complain("%s", limber_error_text());
}

static bool multiply_native(limber_context *ctx, const struct factors *x)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE,
                                       .scheme = "native" };

    return factors_multiply(ctx, &contract, x, NULL) == LIMBER_STATUS_OK ||
           !complain("%s", limber_error_text());
}

/* Adds a row of the figure: errors in units of u |A||B|, then in units in the last place of the
 * exact elements. */
static bool measure(struct figures *f, int64_t k, bool is_signed, struct table *data)
{
    int64_t side = f->quick ? 4 : 8;
    double ulp[CURVES];
    uint64_t state = 15;
    struct factors x;
    bool ok = factors_alloc(&x, side, side, k, "f32", "f32");

    for (int64_t i = 0; i < side * k && ok; i++) {
        ((float *)x.a)[i] = (float)(random_unit(&state) * (is_signed ? 2 : 1) - is_signed);
        ((float *)x.b)[i] = (float)(random_unit(&state) * (is_signed ? 2 : 1) - is_signed);
    }
    table_add(data, "wn", is_signed ? "signed" : "positive", (double)k);
    for (int i = 0; i < CURVES && ok; i++) {
        struct verdict v;

        ok = i == 0 ? multiply_simulated(f->whole, &x) :
             i == 1 ? multiply_native(f->whole, &x) :
                      emulate(f->whole, &emulations[(i - 2) / 2], i % 2, &x);
        v = ok ? factors_check(&x) : (struct verdict){ .ulp = 0 };
        table_add(data, "n", v.relative * 0x1p24);
        ulp[i] = v.ulp;
    }
    for (int i = 0; i < CURVES; i++)
        table_add(data, "n", ulp[i]);
    factors_free(&x);
    return ok;
}

static const char script[] =
    "set logscale x 2\nset logscale y 10\nset format x '%.0f'\nset xlabel 'k'\n"
    "set ylabel 'largest error / u |A||B|'\nset key bottom center\nset yrange [0.01:2000]\n"
    "set multiplot layout 2,1\n"
    "T = 'FP32-F FP32-T FP32-B'\ndo for [s in 'positive signed'] {\n"
    "set title s.' uniform numbers'\n"
    "y(i) = strcol(1) eq s ? column(i) : NaN\n"
    "plot $data using 2:(y(3)) with linespoints pt 7 ps 0.5 lw 2 lc 7 title 'FMA, one "
    "chain', $data using 2:(y(4)) with linespoints pt 7 ps 0.5 lw 2 lc 8 "
    "title 'native: chains of 256', "
    "for [i=1:3] $data using 2:(y(2*i+3)) with linespoints pt 7 ps 0.5 lw 2 dt 2 lc i "
    "title word(T, i).', one chain', "
    "for [i=1:3] $data using 2:(y(2*i+4)) with linespoints pt 7 ps 0.5 lw 2 lc i "
    "title word(T, i).', promoted'\n"
    "unset key\n}\nunset multiplot";

static bool fill_sums(struct figures *f, struct table *data, struct table *brief)
{
    bool ok = true;

    (void)brief;
    for (int is_signed = 0; is_signed < 2; is_signed++)
        for (int64_t k = LEAST; k <= MOST_K && ok; k *= f->quick ? 16 : 2) {
            figure_note(f, "gemm-error: k = %lld", (long long)k);
            ok = measure(f, k, is_signed, data);
        }
    return ok;
}

const struct figure figure_sums = {
    .name = "gemm-error",
    .about = "errors of sums on tensor cores, with and without promotion",
    .heads = "data,k,FMA chain,native,FP32-F chain,FP32-F promoted,FP32-T chain,FP32-T promoted,"
             "FP32-B chain,FP32-B promoted,FMA chain ulp,native ulp,FP32-F chain ulp,"
             "FP32-F promoted ulp,FP32-T chain ulp,FP32-T promoted ulp,FP32-B chain ulp,"
             "FP32-B promoted ulp",
    .fill = fill_sums,
    .picture = { { "gemm-error", script, 760 } }
};
