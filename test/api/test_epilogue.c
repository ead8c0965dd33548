/* SPDX-License-Identifier: BSD-3-Clause
 * Epilogues: the stored elements are those of the plain product, taken through steps that are
 * evaluated here one element after the other; `correct` against MPFR; what is refused. */
#include "compiler.h"
#include "support.h"

#include "jit/api/api.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXTS = 12, INPUTS = 3, STEPS = 6, ROOM = 1 << 20 };

static limber_context *contexts[CONTEXTS];
static int context_count;
static limber_epilogue_input good_input;
static char *a, *b, *c0, *c, *x, *data[INPUTS];

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; limber_backends[i]; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            limber_config config = LIMBER_CONFIG_INIT;

            config.backend = limber_backends[i]->name;
            config.threads = threads;
            config.cache_dir = config.dump_dir = "";
            if (limber_create(&contexts[context_count], &config) == LIMBER_STATUS_OK)
                context_count++;
        }
    for (int i = 0; i < INPUTS; i++)
        data[i] = malloc(ROOM);
    a = malloc(ROOM), b = malloc(ROOM), c0 = malloc(ROOM), c = malloc(ROOM), x = malloc(ROOM);
    return context_count > 0 ? 0 : -1;
}

static int drop(void **state)
{
    (void)state;
    for (int i = 0; i < context_count; i++)
        limber_destroy(contexts[i]);
    for (int i = 0; i < INPUTS; i++)
        free(data[i]);
    free(a), free(b), free(c0), free(c), free(x);
    return 0;
}

/* ---- a random expression --------------------------------------------------------------------- */

/* Values: 0 is x, then inputs, then lines; -1 is `number`. */
struct line {
    char op[16];
    int of[2];
    double number[2];
};

struct expression {
    struct line line[STEPS];
    int lines, inputs;
    char text[1024];
};

static const char *const binary[] = { "add", "sub", "mul", "div", "max", "min" };
static const char *const unary[] = { "relu", "abs", "neg",  "clamp", "leaky_relu",
                                     "gelu", "exp", "tanh", "floor", "sqrt" };

static bool is_binary(const struct line *l)
{
    for (size_t i = 0; i < COUNT(binary); i++)
        if (!strcmp(l->op, binary[i]))
            return true;
    return false;
}

static double a_number(struct rng *r)
{
    static const double some[] = { 0, 1, -2, 0.5, 0.1, -0.3, 1e3, 6 };

    return some[rng_below(r, COUNT(some))];
}

static void operand(struct rng *r, const struct expression *e, struct line *l, int i, int at)
{
    l->of[i] = at && i == 0 ? e->inputs + at : /* the line before */
                   at == 0 && i == 0 ? 0 :
                                       rng_below(r, 1 + e->inputs + at + 1) - 1;
    l->number[i] = a_number(r);
}

static const char *name_of(const struct expression *e, int value, char text[32])
{
    if (value == 0)
        return "%x";
    snprintf(text, 32, value <= e->inputs ? "%%in_%d" : "%%v%d", value);
    return text;
}

static void write_text(struct expression *e)
{
    char *at = e->text, word[32];

    *at = '\0';
    for (int i = 0; i < e->lines; i++) {
        const struct line *l = &e->line[i];

        at += sprintf(at, "%s%%v%d = %s %s", i % 2 ? "  " : "", e->inputs + 1 + i, l->op,
                      name_of(e, l->of[0], word));
        if (is_binary(l) && l->of[1] < 0)
            at += sprintf(at, " %.17g", l->number[1]);
        else if (is_binary(l))
            at += sprintf(at, " %s", name_of(e, l->of[1], word));
        else if (!strcmp(l->op, "clamp"))
            at += sprintf(at, " p=%.17g q=%.17g", l->number[0], l->number[1]);
        else if (!strcmp(l->op, "leaky_relu"))
            at += sprintf(at, " p=%.17g", l->number[0]);
        at += sprintf(at, i % 3 ? "\n" : "   ; a comment\n\n");
    }
}

static void make(struct rng *r, struct expression *e, bool selects, bool adds)
{
    memset(e, 0, sizeof *e);
    e->inputs = rng_below(r, INPUTS + 1);
    e->lines = rng_below(r, STEPS);
    adds = adds && e->inputs;
    e->lines = adds && !e->lines ? 1 : e->lines;
    for (int i = 0; i < e->lines; i++) {
        struct line *l = &e->line[i];
        bool two = selects ? rng_below(r, 3) == 0 : rng_below(r, 2);

        strcpy(l->op, two ? binary[selects ? 4 + rng_below(r, 2) : rng_below(r, 6)] :
                            unary[rng_below(r, selects ? 4 : (int)COUNT(unary))]);
        operand(r, e, l, 0, i);
        operand(r, e, l, 1, i);
        if (selects && l->of[1] > 0 && l->of[1] <= e->inputs)
            l->of[1] = -1;
        if (l->number[0] > l->number[1]) {
            double lower = l->number[1];

            l->number[1] = l->number[0];
            l->number[0] = lower;
        }
        if (adds && i == 0) {
            strcpy(l->op, "add");
            l->of[1] = 1 + rng_below(r, e->inputs);
        }
    }
    write_text(e);
}

static double one(const struct line *l, bool narrow, double v, double w)
{
    limber_format f = narrow ? LIMBER_F32 : LIMBER_F64;
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
    double from = v, to = 0;

    if (is_binary(l)) {
        double y = !strcmp(l->op, "add") ? v + w :
                   !strcmp(l->op, "sub") ? v - w :
                   !strcmp(l->op, "mul") ? v * w :
                   !strcmp(l->op, "div") ? v / w :
                   v != v || w != w      ? NAN :
                   !strcmp(l->op, "max") ? (v > w ? v : w) :
                                           (v < w ? v : w);
        return narrow ? (double)(float)y : y;
    }
    assert_int_equal(limber_function_named(l->op, &e.function), LIMBER_STATUS_OK);
    e.from = LIMBER_F64;
    e.to = f;
    e.p = narrow ? (double)(float)l->number[0] : l->number[0];
    e.q = narrow ? (double)(float)l->number[1] : l->number[1];
    e.src = &from;
    e.dst = &to;
    e.count = 1;
    assert_int_equal(limber_apply(NULL, &e), LIMBER_STATUS_OK);
    if (narrow) {
        float y;

        memcpy(&y, &to, sizeof y);
        return (double)y;
    }
    return to;
}

static double evaluate(const struct expression *e, bool narrow, const double in[1 + INPUTS])
{
    double v[1 + INPUTS + STEPS];

    memcpy(v, in, (1 + (size_t)e->inputs) * sizeof *v);
    for (int i = 0; i < e->lines; i++) {
        const struct line *l = &e->line[i];
        double w[2];

        for (int j = 0; j < 2; j++)
            w[j] = l->of[j] >= 0 ? v[l->of[j]] :
                   narrow        ? (double)(float)l->number[j] :
                                   l->number[j];
        v[1 + e->inputs + i] = one(l, narrow, w[0], w[1]);
    }
    return v[e->lines ? e->inputs + e->lines : 0];
}

/* ---- what the documentation says of formats -------------------------------------------------- */

static bool exact_in(limber_format f, double v)
{
    double back;
    char code[16];

    limber_convert(code, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    limber_convert(&back, LIMBER_F64, code, f, 1, LIMBER_ROUND_NEAREST);
    return back == v;
}

static bool only_selects(const struct expression *e, int from, limber_format f)
{
    for (int i = from; i < e->lines; i++) {
        const struct line *l = &e->line[i];
        bool bounds = !strcmp(l->op, "max") || !strcmp(l->op, "min");

        if (!bounds && strcmp(l->op, "relu") && strcmp(l->op, "abs") && strcmp(l->op, "neg") &&
            strcmp(l->op, "clamp"))
            return false;
        for (int j = 0; j < 2; j++) {
            bool used = !strcmp(l->op, "clamp") || (bounds && l->of[j] < 0);

            if (used && !exact_in(f, l->number[j]))
                return false;
            if (bounds && l->of[j] > 0 && l->of[j] <= e->inputs)
                return false;
        }
    }
    return true;
}

static bool reads_x(const struct expression *e, int from)
{
    for (int i = from; i < e->lines; i++)
        if (e->line[i].of[0] == 0 || (is_binary(&e->line[i]) && e->line[i].of[1] == 0))
            return true;
    return false;
}

/* ---- trials ---------------------------------------------------------------------------------- */

struct trial {
    limber_problem p;
    limber_contract contract;
    limber_conv conv;
    limber_batch batch;
    limber_epilogue_input input[INPUTS];
    limber_epilogue epilogue;
    struct expression e;
    double alpha, beta;
    char scalar[2][16];
    int64_t groups, rows, cols, pad; /* elements of C */
    void *address[8];
};

static const char *const floats[] = { "f32", "f64", "f16", "bf16", "e4m3", "(1,4,9)", "i8" };

/* Row and column of what lies at place i of C, as inputs see it. */
static void place_of(const struct trial *t, int64_t i, int64_t *g, int64_t *row, int64_t *col)
{
    const limber_conv *s = &t->conv;
    int64_t each = t->rows * t->cols;

    if (!t->p.conv) {
        *g = i / each;
        *row = i % each / t->cols;
        *col = i % t->cols;
        return;
    }
    *g = 0;
    *col = i;
    if (t->p.operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER)
        *row = i / (s->c / s->groups * s->r * s->s);
    else if (s->layout == LIMBER_LAYOUT_NHWC)
        *row = i % t->rows;
    else
        *row = i / t->cols % t->rows;
}

/* Where element (row, col) of product g lies, in elements. */
static int64_t at(const struct trial *t, int64_t g, int64_t row, int64_t col, int64_t i)
{
    if (t->p.conv)
        return i;
    return g * (t->p.batch ? t->batch.c : 0) + row * t->p.c.row_stride + col * t->p.c.col_stride;
}

static double value(limber_format f, const void *p)
{
    return limber_format_value(f, p);
}

static double input_at(const struct trial *t, int k, int64_t g, int64_t row, int64_t col, int64_t i)
{
    const limber_epilogue_input *in = &t->input[k];
    const char *from = (const char *)in->data + g * in->step * in->format.size;
    int64_t j = 0;

    switch (in->shape) {
    case LIMBER_INPUT_ROW: j = row; break;
    case LIMBER_INPUT_COLUMN: j = col; break;
    case LIMBER_INPUT_MATRIX:
        j = t->p.conv ? i : row * in->row_stride + col * in->col_stride;
        break;
    default: break;
    }
    return value(in->format, from + j * in->format.size);
}

static void choose_inputs(struct rng *r, struct trial *t)
{
    for (int k = 0; k < t->e.inputs; k++) {
        static char names[INPUTS][8];
        limber_epilogue_input *in = &t->input[k];

        *in = (limber_epilogue_input)LIMBER_EPILOGUE_INPUT_INIT;
        sprintf(names[k], "in_%d", k + 1);
        in->name = names[k];
        in->format = named(floats[rng_below(r, COUNT(floats))]);
        in->shape = (limber_input_shape)rng_below(r, 4);
        if (t->p.conv && in->shape == LIMBER_INPUT_COLUMN)
            in->shape = LIMBER_INPUT_MATRIX;
        if (in->shape == LIMBER_INPUT_MATRIX && !t->p.conv) {
            bool turned = rng_below(r, 2);

            in->row_stride = turned ? 1 : t->cols + 1;
            in->col_stride = turned ? t->rows + 2 : 1;
        }
        if (t->p.batch && rng_below(r, 2))
            in->step = t->rows * t->cols + 3 * (t->rows + t->cols) + 9;
        in->data = data[k];
        fill(r, rng_below(r, 8) ? DATA_unit : DATA_special, in->format, data[k], 9000);
    }
    t->epilogue = (limber_epilogue)LIMBER_EPILOGUE_INIT;
    t->epilogue.steps = t->e.text;
    t->epilogue.inputs = t->input;
    t->epilogue.input_count = t->e.inputs;
    t->epilogue.nan_to_zero = 1;
}

static void choose_gemm(struct rng *r, struct trial *t)
{
    int64_t k = rng_below(r, 50), m, n;
    bool turned = rng_below(r, 3) == 0;

    m = t->rows = 1 + rng_below(r, 40);
    n = t->cols = 1 + rng_below(r, rng_below(r, 3) ? 40 : 600);
    m = t->rows = n > 40 ? 1 + m % 5 : m;
    t->pad = rng_below(r, 3);
    t->p.m = m, t->p.n = n, t->p.k = k;
    t->p.a.row_stride = k ? k : 1, t->p.a.col_stride = 1;
    t->p.b.row_stride = n, t->p.b.col_stride = 1;
    t->p.c.row_stride = turned ? 1 : n + t->pad;
    t->p.c.col_stride = turned ? m + t->pad : 1;
    if (rng_below(r, 4) == 0) {
        t->groups = 1 + rng_below(r, 4);
        t->batch = (limber_batch)LIMBER_BATCH_INIT;
        t->batch.count = t->groups;
        t->batch.a = m * k;
        t->batch.b = rng_below(r, 2) ? k * n : 0;
        t->batch.c = turned ? (m + t->pad) * n : m * (n + t->pad);
        t->p.batch = &t->batch;
        if (rng_below(r, 2)) { /* the same places, by address */
            for (int64_t g = 0; g < t->groups; g++)
                t->address[g] = c + g * t->batch.c * t->p.c.format.size;
            t->batch.address_c = t->address;
        }
    }
}

static void choose_conv(struct rng *r, struct trial *t)
{
    limber_conv *s = &t->conv;
    int64_t oh, ow;

    *s = (limber_conv)LIMBER_CONV_INIT;
    t->p.operation = (limber_operation)(LIMBER_OPERATION_CONV_FORWARD + rng_below(r, 3));
    s->groups = 1 + rng_below(r, 2);
    s->n = 1 + rng_below(r, 3);
    s->c = s->groups * (1 + rng_below(r, 4));
    s->o = s->groups * (1 + rng_below(r, 5));
    s->h = 3 + rng_below(r, 6), s->w = 3 + rng_below(r, 6);
    s->r = 1 + rng_below(r, 3), s->s = 1 + rng_below(r, 3);
    s->pad[0] = s->pad[3] = rng_below(r, 2);
    s->stride[0] = 1 + rng_below(r, 2), s->stride[1] = 1;
    s->dilate[0] = s->dilate[1] = 1;
    s->layout = rng_below(r, 2) ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
    t->p.conv = s;
    if (limber_conv_output(s, &oh, &ow))
        fail_msg("%s", limber_error_text());
    switch (t->p.operation) {
    case LIMBER_OPERATION_CONV_FORWARD: t->rows = s->o, t->cols = oh * ow, t->groups = s->n; break;
    case LIMBER_OPERATION_CONV_BACKWARD_DATA:
        t->rows = s->c, t->cols = s->h * s->w, t->groups = s->n;
        break;
    default: t->rows = s->o, t->cols = s->c / s->groups * s->r * s->s; break;
    }
}

static void choose(struct rng *r, struct trial *t)
{
    static const char *const operands[] = { "f32", "f64", "f16", "bf16", "i8", "u8" };
    bool conv = rng_below(r, 3) == 0;

    memset(t, 0, sizeof *t);
    t->groups = 1;
    t->p = (limber_problem)LIMBER_PROBLEM_INIT;
    t->p.a.format = t->p.b.format = named(operands[rng_below(r, COUNT(operands))]);
    t->p.c.format = named(floats[rng_below(r, COUNT(floats))]);
    t->p.a.data = a, t->p.b.data = b, t->p.c.data = c;
    t->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    t->contract.promise = rng_below(r, 2) ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE;
    if (rng_below(r, 6) == 0) {
        t->contract.promise = LIMBER_CONTRACT_BITS;
        t->contract.bits = 20;
    }
    t->p.contract = &t->contract;
    (conv ? choose_conv : choose_gemm)(r, t);
    make(r, &t->e, rng_below(r, 3) == 0, rng_below(r, 2));
    choose_inputs(r, t);
    fill(r, rng_below(r, 6) ? DATA_unit : DATA_special, t->p.a.format, a, 9000);
    fill(r, DATA_unit, t->p.b.format, b, 30000);
    fill(r, DATA_unit, t->p.c.format, c0, 30000);
    t->alpha = rng_below(r, 2) ? 1 : 3;
    t->beta = rng_below(r, 3) ? 0 : 2;
}

/* One value in the format of scalars of results in f. */
static const void *scalar_for(limber_format f, double v, char room[16])
{
    int64_t whole = (int64_t)v;

    if (f.kind == LIMBER_KIND_INT)
        memcpy(room, &whole, sizeof whole);
    else
        limber_convert(room, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    return room;
}

/* f has every value of g: of the formats in `floats`. */
static bool holds(limber_format f, limber_format g)
{
    static const char *const pairs[][2] = { { "f16", "e4m3" },   { "f16", "i8" },
                                            { "bf16", "e4m3" },  { "bf16", "i8" },
                                            { "(1,4,9)", "i8" }, { "f16", "(1,4,9)" } };

    if (limber_format_equal(f, g) || limber_format_equal(f, LIMBER_F64))
        return true;
    if (limber_format_equal(f, LIMBER_F32))
        return !limber_format_equal(g, LIMBER_F64);
    for (size_t i = 0; i < COUNT(pairs); i++)
        if (limber_format_equal(f, named(pairs[i][0])) &&
            limber_format_equal(g, named(pairs[i][1])))
            return true;
    return false;
}

/* x of the trial, dense where C is, by a plain product; and what of the expression is left. */
static limber_format plain_product(limber_context *ctx, struct trial *t, struct expression *rest)
{
    limber_format f = t->p.c.format, xf;
    bool narrow = !limber_format_equal(f, LIMBER_F64), folds;
    int64_t all = t->groups * t->rows * t->cols, g, row, col;
    limber_problem p = t->p;
    limber_batch batch = t->batch;
    const struct line *first = t->e.line;
    double beta = t->beta, v;
    int added = 0;

    *rest = t->e;
    xf = narrow ? LIMBER_F32 : LIMBER_F64;
    folds = t->contract.promise != LIMBER_CONTRACT_NATIVE && beta == 0 && t->e.lines &&
            !strcmp(first->op, "add") && first->of[0] == 0 && first->of[1] > 0 &&
            first->of[1] <= t->e.inputs && !reads_x(&t->e, 1);
    if (folds && limber_format_equal(t->input[first->of[1] - 1].format, LIMBER_F64) && narrow)
        folds = false;
    if (folds) {
        added = first->of[1];
        beta = 1;
        strcpy(rest->line[0].op, "max"); /* of the line's value with itself: no change */
        rest->line[0].of[0] = rest->line[0].of[1] = 0;
    }
    if (f.kind == LIMBER_KIND_FLOAT && t->contract.promise != LIMBER_CONTRACT_NATIVE &&
        only_selects(&t->e, folds, f) && (!folds || holds(f, t->input[added - 1].format)))
        xf = f;
    p.epilogue = NULL;
    p.c.data = x;
    p.c.format = xf;
    if (p.batch) {
        batch.address_c = NULL;
        p.batch = &batch;
    }
    for (int64_t i = 0; i < all; i++) {
        place_of(t, i, &g, &row, &col);
        v = folds ? input_at(t, added - 1, g, row, col, i) :
                    value(f, c0 + at(t, g, row, col, i) * f.size);
        limber_convert(x + at(t, g, row, col, i) * xf.size, xf, &v, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
    }
    p.alpha = scalar_for(xf, t->alpha, t->scalar[0]);
    p.beta = scalar_for(xf, beta, t->scalar[1]);
    if (limber_run(ctx, &p, NULL))
        fail_msg("%s", limber_error_text());
    return xf;
}

static void check(limber_context *ctx, struct trial *t, int number)
{
    limber_format f = t->p.c.format, xf;
    bool narrow = !limber_format_equal(f, LIMBER_F64);
    int64_t all = t->groups * t->rows * t->cols, g, row, col;
    struct expression rest;
    double in[1 + INPUTS], v;
    char want[16], name[32];

    xf = plain_product(ctx, t, &rest);
    memcpy(c, c0, 30000 * f.size);
    t->p.alpha = scalar_for(f, t->alpha, t->scalar[0]);
    t->p.beta = scalar_for(f, t->beta, t->scalar[1]);
    t->p.epilogue = &t->epilogue;
    if (limber_run(ctx, &t->p, NULL))
        fail_msg("trial %d: %s\n%s", number, limber_error_text(), t->e.text);
    for (int64_t i = 0; i < all; i++) {
        const char *got;

        place_of(t, i, &g, &row, &col);
        got = c + at(t, g, row, col, i) * f.size;
        in[0] = value(xf, x + at(t, g, row, col, i) * xf.size);
        for (int k = 0; k < t->e.inputs; k++) {
            in[1 + k] = input_at(t, k, g, row, col, i);
            in[1 + k] = narrow ? (double)(float)in[1 + k] : in[1 + k];
        }
        v = evaluate(&rest, narrow, in);
        limber_convert(want, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        if (!same_number(f, want, got))
            fail_msg(
                "trial %d, promise %d, %s, element %lld (%lld, %lld): %g of x = %g, not %g\n%s",
                number, (int)t->contract.promise, limber_format_name(f, name, sizeof name),
                (long long)i, (long long)row, (long long)col, value(f, got), in[0], v, t->e.text);
        memcpy(c + at(t, g, row, col, i) * f.size, c0 + at(t, g, row, col, i) * f.size, f.size);
    }
    assert_memory_equal(c, c0, 30000 * f.size); /* nothing else was stored */
}

static void test_random(void **state)
{
    struct rng r = { 7 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 100 : 600); trial++) {
        struct trial t;

        choose(&r, &t);
        check(contexts[trial % context_count], &t, trial);
    }
}

/* Products of many blocks, whose steps follow each block: the bits of a product of its own and of
 * steps behind it. */
static void test_blocks(void **state)
{
    static const struct {
        const char *of, *to;
        limber_promise promise;
        int64_t m, n, k;
        bool turned;
    } work[] = {
        { "f32", "f32", LIMBER_CONTRACT_NATIVE, 300, 700, 600, false },
        { "f32", "f32", LIMBER_CONTRACT_NATIVE, 500, 300, 1300, true },
        { "f64", "f64", LIMBER_CONTRACT_NATIVE, 260, 520, 1900, false },
        { "f64", "f32", LIMBER_CONTRACT_CORRECT, 200, 300, 400, false },
        { "f32", "bf16", LIMBER_CONTRACT_NATIVE, 300, 500, 300, true },
        { "i8", "i8", LIMBER_CONTRACT_CORRECT, 300, 700, 900, false },
        { "f64", "f64", LIMBER_CONTRACT_CORRECT, 130, 270, 300, true },
    };
    static const char *const steps = "%1 = add %x %in_1\n%2 = mul %1 %in_2\n%3 = leaky_relu %2\n";
    enum { BYTES = 8 << 20 };
    char *from[2] = { malloc(BYTES), malloc(BYTES) }, *plain = malloc(BYTES), *got = malloc(BYTES);
    struct rng r = { 11 };

    (void)state;
    for (int i = 0; i < context_count; i++)
        for (size_t w = 0; w < COUNT(work); w++) {
            const int64_t m = work[w].m / (SANITIZED ? 2 : 1), n = work[w].n, k = work[w].k;
            limber_contract contract = LIMBER_CONTRACT_INIT;
            limber_problem p = LIMBER_PROBLEM_INIT;
            limber_epilogue_input in[2] = { good_input, good_input };
            limber_epilogue e = LIMBER_EPILOGUE_INIT;
            limber_format to = named(work[w].to), xf = LIMBER_F32;
            bool narrow = !limber_format_equal(to, LIMBER_F64), correct;
            struct line leaky = { .op = "leaky_relu", .number = { 0.01 } };

            if (contexts[i]->machine.backend == &limber_backend_interp)
                continue;
            xf = narrow ? LIMBER_F32 : LIMBER_F64;
            contract.promise = work[w].promise;
            correct = contract.promise == LIMBER_CONTRACT_CORRECT;
            p.contract = &contract;
            p.m = m, p.n = n, p.k = k;
            p.a = (limber_matrix){ from[0], named(work[w].of), k, 1 };
            p.b = (limber_matrix){ from[1], named(work[w].of), n, 1 };
            p.c = (limber_output){ plain, xf, work[w].turned ? 1 : n, work[w].turned ? m : 1 };
            for (int j = 0; j < 2; j++)
                fill(&r, p.a.format.kind == LIMBER_KIND_INT ? DATA_bytes : DATA_unit, p.a.format,
                     from[j], (size_t)(j ? k * n : m * k));
            fill(&r, DATA_unit, LIMBER_F32, data[0], (size_t)m);
            fill(&r, DATA_unit, LIMBER_F32, data[1], (size_t)n);
            for (int64_t at = 0; correct && at < m * n; at++) { /* x begins with the first input */
                int64_t row = work[w].turned ? at % m : at / n;
                double v = value(LIMBER_F32, data[0] + 4 * row);

                limber_convert(plain + at * xf.size, xf, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
            }
            p.beta = correct ? scalar_for(xf, 1, (char[16]){ 0 }) : NULL;
            assert_int_equal(limber_run(contexts[i], &p, NULL), LIMBER_STATUS_OK);
            in[0].name = "in_1", in[0].shape = LIMBER_INPUT_ROW, in[0].data = data[0];
            in[1].name = "in_2", in[1].shape = LIMBER_INPUT_COLUMN, in[1].data = data[1];
            e.steps = steps, e.inputs = in, e.input_count = 2;
            p.epilogue = &e;
            p.beta = NULL;
            p.c.data = got, p.c.format = to;
            for (int again = 0; again < 2; again++)
                if (limber_run(contexts[i], &p, NULL))
                    fail_msg("%s", limber_error_text());
            for (int64_t at = 0; at < m * n; at++) {
                int64_t row = work[w].turned ? at % m : at / n;
                int64_t col = work[w].turned ? at / m : at % n;
                double v = value(xf, plain + at * xf.size);
                double bias = value(LIMBER_F32, data[0] + 4 * row), y = correct ? v : v + bias;
                char want[16];

                y = narrow ? (double)(float)y : y;
                y *= value(LIMBER_F32, data[1] + 4 * col);
                y = narrow ? (double)(float)y : y;
                if (y < 0)
                    y = narrow ? (double)((float)y * 0.01f) : one(&leaky, false, y, 0);
                limber_convert(want, to, &y, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
                if (!same_number(to, want, got + at * to.size))
                    fail_msg("work %zu, (%lld, %lld): %g, not %g", w, (long long)row,
                             (long long)col, value(to, got + at * to.size), y);
            }
        }
    free(from[0]), free(from[1]), free(plain), free(got);
}

/* ---- rounded once ---------------------------------------------------------------------------- */

static void correct(limber_context *ctx, struct rng *r, limber_format f, limber_format of,
                    enum data kind)
{
    static const char *const steps = "%1 = add %x %bias\n%2 = relu %1\n%3 = min %2 6\n";
    enum { M = 9, N = 13, K = 40 };
    limber_epilogue_input bias = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    mpfr_t sum, absolute, v;

    fill(r, kind, of, a, M * K);
    fill(r, kind, of, b, K * N);
    fill(r, kind, f, data[0], M);
    contract.promise = LIMBER_CONTRACT_CORRECT;
    bias.name = "bias", bias.shape = LIMBER_INPUT_ROW, bias.format = f, bias.data = data[0];
    e.steps = steps, e.inputs = &bias, e.input_count = 1;
    p.contract = &contract, p.epilogue = &e;
    p.m = M, p.n = N, p.k = K;
    p.a = (limber_matrix){ a, of, K, 1 }, p.b = (limber_matrix){ b, of, N, 1 };
    p.c = (limber_output){ c, f, N, 1 };
    if (limber_run(ctx, &p, NULL))
        fail_msg("%s", limber_error_text());
    mpfr_inits2(REF_BITS, sum, absolute, v, (mpfr_ptr)NULL);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            ref_dot(sum, absolute, of, a + i * K * of.size, 1, of, b + j * of.size, N, K);
            ref_load(v, f, data[0] + i * f.size);
            mpfr_add(sum, sum, v, MPFR_RNDN);
            if (mpfr_sgn(sum) < 0)
                mpfr_set_zero(sum, 1);
            if (mpfr_cmp_d(sum, 6) > 0)
                mpfr_set_d(sum, 6, MPFR_RNDN);
            if (!ref_rounds_to(sum, f, c + (i * N + j) * f.size))
                fail_msg("(%d, %d): %g", i, j, value(f, c + (i * N + j) * f.size));
        }
    mpfr_clears(sum, absolute, v, (mpfr_ptr)NULL);
}

static void test_correct(void **state)
{
    static const char *const formats[] = { "f32", "f64", "f16", "bf16" };
    static const enum data kinds[] = { DATA_unit, DATA_ties, DATA_spread };
    struct rng r = { 8 };

    (void)state;
    for (int i = 0; i < context_count; i++)
        for (size_t f = 0; f < COUNT(formats); f++)
            for (size_t k = 0; k < COUNT(kinds); k++)
                correct(contexts[i], &r, named(formats[f]), f == 1 ? LIMBER_F64 : LIMBER_F32,
                        kinds[k]);
}

/* ---- a residual that is C itself, dequantisation, and what is printed ------------------------ */

static limber_problem small(limber_epilogue *e, limber_format of, limber_format to)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = 3, p.n = 4, p.k = 5;
    p.a = (limber_matrix){ a, of, 5, 1 }, p.b = (limber_matrix){ b, of, 4, 1 };
    p.c = (limber_output){ c, to, 4, 1 };
    p.epilogue = e;
    return p;
}

static void test_residual(void **state)
{
    limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = small(&e, LIMBER_F32, LIMBER_F32);
    struct rng r = { 9 };
    float before[12];

    (void)state;
    in.name = "c", in.shape = LIMBER_INPUT_MATRIX, in.format = LIMBER_F32, in.data = c;
    in.row_stride = 4, in.col_stride = 1;
    e.steps = "%1 = tanh %x\n%2 = add %1 %c\n", e.inputs = &in, e.input_count = 1;
    for (int i = 0; i < context_count; i++) {
        fill(&r, DATA_unit, LIMBER_F32, a, 15);
        fill(&r, DATA_unit, LIMBER_F32, b, 20);
        fill(&r, DATA_unit, LIMBER_F32, c, 12);
        memcpy(before, c, sizeof before);
        p.epilogue = NULL, p.c.data = x;
        assert_int_equal(limber_run(contexts[i], &p, NULL), LIMBER_STATUS_OK);
        p.epilogue = &e, p.c.data = c;
        assert_int_equal(limber_run(contexts[i], &p, NULL), LIMBER_STATUS_OK);
        for (int j = 0; j < 12; j++) {
            struct line l = { .op = "tanh" };
            float y = (float)one(&l, true, value(LIMBER_F32, x + 4 * j), 0) + before[j];

            assert_memory_equal(&y, c + 4 * j, 4);
        }
    }
}

/* Bytes, a scale for each row and one for each column, and bytes again, which saturate. */
static void test_bytes(void **state)
{
    limber_epilogue_input in[2] = { LIMBER_EPILOGUE_INPUT_INIT, LIMBER_EPILOGUE_INPUT_INIT };
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_contract exact = LIMBER_CONTRACT_INIT;
    limber_problem p = small(&e, LIMBER_I8, LIMBER_I8);
    static const float rows[3] = { 0.5f, 0.01f, 100 }, cols[4] = { 1, -0.25f, 3, 0.125f };
    struct rng r = { 10 };

    (void)state;
    exact.promise = LIMBER_CONTRACT_CORRECT;
    p.contract = &exact;
    for (int i = 0; i < 2; i++) {
        in[i].name = i ? "cols" : "rows", in[i].shape = i ? LIMBER_INPUT_COLUMN : LIMBER_INPUT_ROW;
        in[i].format = LIMBER_F32, in[i].data = i ? cols : rows;
    }
    e.steps = "%1 = mul %x %rows\n%2 = mul %1 %cols\n", e.inputs = in, e.input_count = 2;
    for (int i = 0; i < context_count; i++) {
        fill(&r, DATA_unit, LIMBER_I8, a, 15);
        fill(&r, DATA_ints, LIMBER_I8, b, 20);
        for (int j = 0; j < 35; j++) {
            a[j] = (char)rng_below(&r, 256);
            b[j] = (char)rng_below(&r, 256);
        }
        if (limber_run(contexts[i], &p, NULL))
            fail_msg("%s", limber_error_text());
        for (int row = 0; row < 3; row++)
            for (int col = 0; col < 4; col++) {
                int sum = 0;
                double y;

                for (int k = 0; k < 5; k++)
                    sum += (signed char)a[row * 5 + k] * (signed char)b[k * 4 + col];
                y = rint((double)((float)sum * rows[row] * cols[col]));
                y = y > 127 ? 127 : y < -128 ? -128 : y;
                assert_int_equal(((signed char *)c)[row * 4 + col], (int)y);
            }
    }
}

/* Numbers that integers of some width do not hold, or hold after rounding; converted one by one
 * here, and many at once by the library. */
static void test_integers(void **state)
{
    static const double some[] = { 0,
                                   -0.,
                                   0.5,
                                   1.5,
                                   -0.5,
                                   -2.5,
                                   126.5,
                                   127.5,
                                   128,
                                   -128.5,
                                   -129,
                                   254.5,
                                   255.5,
                                   256,
                                   32766.5,
                                   32767.5,
                                   -32768.5,
                                   -32769,
                                   65535.5,
                                   2147483646.5,
                                   2147483647.5,
                                   -2147483648.5,
                                   -2147483650.,
                                   0x1p52 + 1,
                                   0x1p53 + 2,
                                   0x1.fffffffffffffp62,
                                   0x1p63,
                                   -0x1p63,
                                   -0x1.0000000000001p63,
                                   1e300,
                                   -1e300,
                                   INFINITY,
                                   -INFINITY,
                                   NAN };
    static const char *const formats[] = { "i8", "i16", "i32", "i64" };
    enum { N = 300 };
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    double numbers[N];
    signed char one = 0;
    char name[32];

    (void)state;
    for (int i = 0; i < N; i++)
        numbers[i] = some[i % (int)COUNT(some)];
    in.name = "in", in.shape = LIMBER_INPUT_COLUMN, e.inputs = &in, e.input_count = 1;
    for (int i = 0; i < context_count; i++)
        for (size_t f = 0; f <= COUNT(formats); f++) {
            const limber_format integer = f < COUNT(formats) ? named(formats[f]) : named("u8");
            limber_problem p = LIMBER_PROBLEM_INIT;

            p.m = p.k = 1, p.n = N, p.contract = &contract, p.epilogue = &e;
            p.a = (limber_matrix){ &one, LIMBER_I8, 1, 1 };
            p.b = (limber_matrix){ b, LIMBER_I8, N, 1 };
            memset(b, 0, N);
            e.steps = "%1 = max %in %in\n%2 = mul %x 0\n%3 = add %2 %1";
            in.format = LIMBER_F64, in.data = numbers;
            p.c = (limber_output){ c, integer, N, 1 };
            if (integer.kind == LIMBER_KIND_INT) {
                if (limber_run(contexts[i], &p, NULL))
                    fail_msg("%s", limber_error_text());
                for (int j = 0; j < N; j++) {
                    limber_convert(x, integer, &numbers[j], LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
                    if (memcmp(x, c + j * integer.size, integer.size))
                        fail_msg("%g to %s: %g", numbers[j],
                                 limber_format_name(integer, name, sizeof name),
                                 value(integer, c + j * integer.size));
                }
            }
            for (int j = 0; j < N; j++) /* and from integers */
                limber_convert(data[0] + j * integer.size, integer, &numbers[j], LIMBER_F64, 1,
                               LIMBER_ROUND_NEAREST);
            in.format = integer, in.data = data[0];
            p.c = (limber_output){ c, LIMBER_F64, N, 1 };
            if (integer.size < 8 && limber_run(contexts[i], &p, NULL))
                fail_msg("%s", limber_error_text());
            for (int j = 0; j < N && integer.size < 8; j++)
                assert_true(value(LIMBER_F64, c + 8 * j) ==
                            value(integer, data[0] + j * integer.size));
        }
}

/* Sums of bytes at the end of what 32 bits surely hold, and beyond. */
static void test_long_bytes(void **state)
{
    enum { MOST = 140000 };
    static const int64_t lengths[] = { 33025, 33026, MOST };
    static const char *const results[] = { "i32", "f32", "f64" };
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;

    (void)state;
    memset(a, -128, MOST);
    memset(b, -128, MOST);
    e.steps = "%1 = neg %x";
    for (int i = 0; i < context_count; i++)
        for (size_t l = 0; l < COUNT(lengths); l++)
            for (size_t f = 0; f < COUNT(results); f++)
                for (int correct = 0; correct < 2; correct++) {
                    limber_problem p = LIMBER_PROBLEM_INIT;
                    double sum = -16384. * (double)lengths[l];
                    limber_format to = named(results[f]);

                    contract.promise = correct ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE;
                    p.m = p.n = 1, p.k = lengths[l], p.contract = &contract, p.epilogue = &e;
                    p.a = (limber_matrix){ a, LIMBER_I8, p.k, 1 };
                    p.b = (limber_matrix){ b, LIMBER_I8, 1, 1 };
                    p.c = (limber_output){ c, to, 1, 1 };
                    if (limber_run(contexts[i], &p, NULL))
                        fail_msg("%s", limber_error_text());
                    limber_convert(x, to, &sum, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
                    if (memcmp(x, c, to.size))
                        fail_msg("%s of %lld products: %g, not %g", results[f],
                                 (long long)lengths[l], value(to, c), sum);
                }
}

static void test_plan(void **state)
{
    limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = small(&e, LIMBER_F32, LIMBER_BF16);
    char *text;
    size_t least, best;

    (void)state;
    in.name = "bias", in.shape = LIMBER_INPUT_ROW, in.format = LIMBER_F32, in.data = data[0];
    e.steps = "%sum = add %x %bias\n%1 = leaky_relu %sum p=0.5\n";
    e.inputs = &in, e.input_count = 1;
    memset(a, 0, 64), memset(b, 0, 80);
    assert_int_equal(limber_plan(contexts[0], &p, &text, NULL), LIMBER_STATUS_OK);
    assert_non_null(strstr(text, "; then, in f32, to bf16\nepilogue {\n  %_1 = add %x %bias\n"
                                 "  %_2 = leaky_relu %_1 p=0.5\n}\n"));
    limber_free(text);
    assert_int_equal(limber_workspace(contexts[0], &p, &least, &best), LIMBER_STATUS_OK);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refuses(limber_problem *p, const char *text)
{
    char before[256];

    memset(c, 0x5a, sizeof before);
    memcpy(before, c, sizeof before);
    for (int i = 0; i < context_count; i++) {
        assert_int_equal(limber_run(contexts[i], p, NULL), LIMBER_STATUS_BAD_ARGUMENT);
        if (!strstr(limber_error_text(), text))
            fail_msg("'%s' is not in '%s'", text, limber_error_text());
        assert_memory_equal(c, before, sizeof before);
    }
}

static void refuses_text(const char *steps, const char *text)
{
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = small(&e, LIMBER_F32, LIMBER_F32);

    e.steps = steps, e.inputs = &good_input, e.input_count = 1;
    refuses(&p, text);
}

static void test_text_refused(void **state)
{
    char many[1024] = "%a0 = relu %x\n";

    (void)state;
    refuses_text("%1 = gelo %x",
                 "problem.epilogue: steps: line 1, column 6: 'gelo' is neither a function");
    refuses_text("%1 = relu %x\n\n%2 = add %1 %bia", "line 3, column 13: %bia is neither x");
    refuses_text("1 = relu %x", "line 1, column 1: '1' is no %name");
    refuses_text("% = relu %x", "line 1, column 1: '%' is no %name");
    refuses_text("%x = relu %x", "line 1, column 1: %x is there already");
    refuses_text("%bias = relu %x", "line 1, column 1: %bias is there already");
    refuses_text("%1 = relu %x\n%1 = relu %x", "line 2, column 1: %1 is there already");
    refuses_text("%1 relu %x", "line 1, column 4: 'relu' stands where = should");
    refuses_text("%1 = add %x", "line 1, column 12: add needs another operand");
    refuses_text("%1 = relu", "line 1, column 10: relu needs an operand");
    refuses_text("%1 = relu 3", "line 1, column 11: '3' is no %name");
    refuses_text("%1 = relu %x 3", "line 1, column 14: '3' is none of the parameters");
    refuses_text("%1 = relu %x p=3", "line 1, column 14: 'p=3' is none of the parameters");
    refuses_text("%1 = clamp %x p=3",
                 "line 1, column 18: clamp needs p=NUMBER q=NUMBER with p <= q");
    refuses_text("%1 = clamp %x p=3 q=2",
                 "line 1, column 22: clamp needs p=NUMBER q=NUMBER with p <= q");
    refuses_text("%1 = clamp %x p=3 p=4", "line 1, column 19: 'p=4' is none of the parameters");
    refuses_text("%1 = add %x 3 4", "line 1, column 15: '4' is more than the operation takes");
    refuses_text("%1 = add %x 3x", "line 1, column 13: '3x' is no number");
    refuses_text("%1 = add %x nan", "line 1, column 13: 'nan' is no number");
    refuses_text("%1 = relu %x\n%2 = abs %x", "line 1, column 1: %1 is never read");
    for (int i = 1; i < 17; i++)
        sprintf(many + strlen(many), "%%a%d = relu %%a%d\n", i, i - 1);
    refuses_text(many, "line 17, column 1: there are more than 16 steps");
}

static void test_refused(void **state)
{
    limber_epilogue good = LIMBER_EPILOGUE_INIT, e;
    limber_epilogue_input in, nine[9];
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = small(&e, LIMBER_F32, LIMBER_F32), q;

    (void)state;
    good.steps = "%1 = add %x %bias", good.inputs = &in, good.input_count = 1;
    in = good_input;
    e = good, e.size = 1, refuses(&p, "e.size = 1");
    e = good, e.inputs = NULL, refuses(&p, "inputs is NULL");
    e = good, e.input_count = -1, refuses(&p, "input_count = -1 is not from 0 to 8");
    for (int i = 0; i < 9; i++)
        nine[i] = good_input;
    e = good, e.inputs = nine, e.input_count = 9, refuses(&p, "input_count = 9 is not");
    e.input_count = 2, refuses(&p, "inputs[1].name is bias, as that of inputs[0]");
    e = good;
    in = good_input, in.name = NULL, refuses(&p, "inputs[0].name is NULL");
    in = good_input, in.name = "a b", refuses(&p, "inputs[0].name is a b");
    in = good_input, in.name = "x", refuses(&p, "inputs[0].name is x");
    in = good_input, in.shape = (limber_input_shape)4, refuses(&p, "inputs[0].shape = 4");
    in = good_input, in.format = LIMBER_F128, refuses(&p, "f128 has values beyond binary64");
    in = good_input, in.data = NULL, refuses(&p, "inputs[0] has no data");
    in = good_input, in.row_stride = 1, refuses(&p, "inputs[0] has strides");
    in = good_input, in.step = 1, refuses(&p, "inputs[0] has a step, but there is no batch");
    in = good_input, in.data = c + 4, refuses(&p, "overlap");
    in = good_input, in.shape = LIMBER_INPUT_MATRIX, in.row_stride = -1;
    refuses(&p, "inputs[0] has a negative stride");
    in = good_input;
    q = p, q.c.format = LIMBER_F128, refuses(&q, "c is f128");
    q = p, q.c.format = named("e2m1"), refuses(&q, "c: e2m1 has no NaN");
    q = p, q.domain = LIMBER_DOMAIN_COMPLEX, refuses(&q, "epilogues are of real matrices");
    contract.promise = LIMBER_CONTRACT_EXACT;
    q = p, q.contract = &contract, q.c.format = LIMBER_I32, refuses(&q, "no result is exact");
    q = p, q.c.format = LIMBER_I64, q.beta = &(int64_t){ 1 }, refuses(&q, "beta is not 0");
    q.beta = NULL, q.alpha = &(int64_t){ ((int64_t)1 << 53) + 1 };
    refuses(&q, "alpha is no number of the format");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_refused), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_residual),     cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_integers),     cmocka_unit_test(test_long_bytes),
        cmocka_unit_test(test_plan),         cmocka_unit_test(test_correct),
        cmocka_unit_test(test_random),       cmocka_unit_test(test_blocks),
    };
    static const float numbers[4] = { 1, 2, 3, 4 };

    good_input = (limber_epilogue_input)LIMBER_EPILOGUE_INPUT_INIT;
    good_input.name = "bias";
    good_input.shape = LIMBER_INPUT_ROW;
    good_input.format = LIMBER_F32;
    good_input.data = numbers;
    return cmocka_run_group_tests(tests, set_up, drop);
}
