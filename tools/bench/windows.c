/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions, compared with matrix products of the same m, n and k, whose operand of windows is
 * already stored in memory (im2col). */
#include "tools/bench/bench.h"

#include <stdlib.h>

/* Layers to measure: channels, height and width, filters, window. */
static const struct shape {
    const char *name;
    int64_t c, h, o, r;
} shapes[] = { { "3x3 64 -> 64, 56", 64, 56, 64, 3 },
               { "3x3 128 -> 128, 28", 128, 28, 128, 3 },
               { "3x3 512 -> 512, 7", 512, 7, 512, 3 },
               { "1x1 64 -> 384, 14", 64, 14, 384, 1 },
               { "1x1 768 -> 768, 16", 768, 16, 768, 1 } };

/* The ways of computing each layer. */
static const struct kind {
    const char *name, *from, *to, *scheme, *unit;
    limber_promise promise;
} kinds[] = { { "FP32 correct", "f32", "f32", NULL, NULL, LIMBER_CONTRACT_CORRECT },
              { "FP64 correct", "f64", "f64", NULL, NULL, LIMBER_CONTRACT_CORRECT },
              { "binary128", "f128", "f128", NULL, NULL, LIMBER_CONTRACT_CORRECT },
              { "i16 to i64", "i16", "i64", NULL, NULL, LIMBER_CONTRACT_EXACT },
              { "i32 to i64", "i32", "i64", NULL, NULL, LIMBER_CONTRACT_EXACT },
              { "Hi/Lo", "f32", "f32", "fp32-b", NULL, LIMBER_CONTRACT_FAST },
              { "h100-fp16 simulated", "f16", "f32", NULL, "h100-fp16", LIMBER_CONTRACT_SIMULATE },
              { "a100-fp64 simulated", "f64", "f64", NULL, "a100-fp64",
                LIMBER_CONTRACT_SIMULATE } };

enum { IMAGE, FILTERS, WINDOWS, RESULT, ARRAYS };

/* A convolution, and a product with the same m, n and k whose im2col matrix is stored in memory. */
struct pair {
    const struct shape *shape;
    const struct kind *kind;
    limber_format f, to;
    limber_conv conv;
    limber_unit unit;
    limber_contract contract;
    int64_t pixels, k;
    char *array[ARRAYS];
};

/* Allocates an array, and fills it with random numbers. */
static bool fill_random(char **to, limber_format f, int64_t count, uint64_t *state)
{
    *to = malloc((size_t)count * f.size);
    for (int64_t i = 0; *to && i < count; i++) {
        double x = random_normal(state);

        if (f.kind == LIMBER_KIND_INT)
            x *= f.size == 2 ? 4096 : 0x1p24;
        limber_convert(*to + i * f.size, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    }
    return *to || !complain("bench: not enough memory");
}

/* Allocates a convolution, and the product with the same m, n and k. */
static bool open_pair(struct pair *p, const struct shape *s, const struct kind *k)
{
    uint64_t state = 1;

    *p = (struct pair){ .shape = s, .kind = k, .f = format_of(k->from), .to = format_of(k->to) };
    p->conv = (limber_conv)LIMBER_CONV_INIT;
    p->conv.n = p->conv.groups = 1;
    p->conv.c = s->c;
    p->conv.h = p->conv.w = s->h;
    p->conv.o = s->o;
    p->conv.r = p->conv.s = s->r;
    for (int i = 0; i < 4; i++)
        p->conv.pad[i] = s->r / 2;
    for (int i = 0; i < 2; i++)
        p->conv.stride[i] = p->conv.dilate[i] = 1;
    p->unit = (limber_unit)LIMBER_UNIT_INIT;
    p->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    p->contract.promise = k->promise;
    p->contract.scheme = k->scheme;
    p->contract.unit = k->unit ? &p->unit : NULL;
    p->pixels = s->h * s->h;
    p->k = s->c * s->r * s->r;
    if (k->unit && limber_unit_parse(k->unit, &p->unit) != LIMBER_STATUS_OK)
        return !complain("bench: %s", limber_error_text());
    return fill_random(&p->array[IMAGE], p->f, s->c * p->pixels, &state) &&
           fill_random(&p->array[FILTERS], p->f, s->o * p->k, &state) &&
           fill_random(&p->array[WINDOWS], p->f, p->k * p->pixels, &state) &&
           fill_random(&p->array[RESULT], p->to, s->o * p->pixels, &state);
}

static void close_pair(struct pair *p)
{
    for (int i = 0; i < ARRAYS; i++)
        free(p->array[i]);
}

/* Times one call of the convolution or of the product. */
static bool time_call(limber_context *ctx, const struct pair *p, bool product, double *seconds,
                      limber_report *report)
{
    limber_problem x = LIMBER_PROBLEM_INIT;
    double start;
    bool ok;

    x.contract = &p->contract;
    x.operation = product ? LIMBER_OPERATION_GEMM : LIMBER_OPERATION_CONV_FORWARD;
    x.conv = product ? NULL : &p->conv;
    x.a = (limber_matrix){ p->array[IMAGE], p->f, 0, 0 };
    x.b = (limber_matrix){ p->array[FILTERS], p->f, 0, 0 };
    x.c = (limber_output){ p->array[RESULT], p->to, 0, 0 };
    if (product) {
        x.m = p->shape->o;
        x.n = p->pixels;
        x.k = p->k;
        x.a = (limber_matrix){ p->array[FILTERS], p->f, p->k, 1 };
        x.b = (limber_matrix){ p->array[WINDOWS], p->f, p->pixels, 1 };
        x.c.row_stride = p->pixels;
        x.c.col_stride = 1;
    }
    start = now();
    ok = limber_run(ctx, &x, report) == LIMBER_STATUS_OK;
    *seconds = now() - start;
    return ok || !complain("bench: %s, %s: %s", p->shape->name, p->kind->name, limber_error_text());
}

/* Prints a row: a convolution's rate, and its ratio to that of the product. */
static bool print_window_row(struct bench *b, const struct shape *s, const struct kind *k)
{
    struct contender conv = { .times.samples = b->runs }, product = { .times.samples = b->runs };
    limber_report report = LIMBER_REPORT_INIT;
    struct pair p;
    char what[64];
    bool ok = open_pair(&p, s, k);
    double work = 2e-9 * (double)s->o * (double)p.pixels * (double)p.k;

    for (int i = -1; ok && i < b->runs; i++) { /* run -1 makes kernels and warms up */
        int at = i < 0 ? 0 : i;
        limber_context *ctx = i < 0 && b->maker ? b->maker : b->ctx;

        ok = time_call(ctx, &p, true, &product.times.seconds[at], NULL) &&
             time_call(ctx, &p, false, &conv.times.seconds[at], &report);
    }
    close_pair(&p);
    if (!ok)
        return false;
    contender_median(&conv);
    contender_median(&product);
    snprintf(what, sizeof what, "%s, %s", s->name, k->name);
    print_line(b, &(struct line){ .what = what,
                                  .scheme = report.scheme,
                                  .unit = "GFLOPS",
                                  .value = work / conv.times.median,
                                  .best = work / conv.times.best,
                                  .ratio = product.times.best / conv.times.best,
                                  .of = "the product, bests" });
    return true;
}

bool window_rows(struct bench *b)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (!print_window_row(b, &shapes[s], &kinds[k]))
                return false;
    return true;
}
