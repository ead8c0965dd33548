/* SPDX-License-Identifier: BSD-3-Clause
 * Tests epilogues of products: a stored element must equal the plain product's after the steps,
 * which are evaluated here for each element.  `correct` is compared with MPFR. */
#include "compiler.h"
#include "epilogues.h"

enum { STEPS = 6 };

/* ---- a random expression --------------------------------------------------------------------- */

/* A line of an expression.  of: numbers of the operands.  0 is x, the inputs have the next numbers,
 * and the results of earlier lines follow; -1 is the constant `number`. */
struct line {
    char op[16];
    int of[2];
    double number[2];
};

/* A random epilogue: its operations and its text. */
struct expression {
    struct line line[STEPS];
    int lines, inputs;
    char text[1024];
};

static const char *const binary[] = { "add", "sub", "mul", "div", "max", "min" };
static const char *const unary[] = { "relu", "abs", "neg",  "clamp", "leaky_relu",
                                     "gelu", "exp", "tanh", "floor", "sqrt" };

/* Returns whether a line's operation has two operands. */
static bool is_binary(const struct line *l)
{
    for (size_t i = 0; i < COUNT(binary); i++)
        if (!strcmp(l->op, binary[i]))
            return true;
    return false;
}

static double random_constant(struct rng *r)
{
    static const double some[] = { 0, 1, -2, 0.5, 0.1, -0.3, 1e3, 6 };

    return some[rng_below(r, COUNT(some))];
}

/* Chooses operand i of line `at`: a value of the expression or a constant. */
static void choose_random_operand(struct rng *r, const struct expression *e, struct line *l, int i,
                                  int at)
{
    /* the first operand of a line is the line before, that of the first line is x */
    l->of[i] = at && i == 0      ? e->inputs + at :
               at == 0 && i == 0 ? 0 :
                                   rng_below(r, 1 + e->inputs + at + 1) - 1;
    l->number[i] = random_constant(r);
}

/* Returns the name of a value: x, an input, or the result of a line. */
static const char *name_of_value(const struct expression *e, int value, char text[32])
{
    if (value == 0)
        return "%x";
    snprintf(text, 32, value <= e->inputs ? "%%in_%d" : "%%v%d", value);
    return text;
}

/* Writes the expression as text for the library. */
static void write_text(struct expression *e)
{
    char *at = e->text, word[32];

    *at = '\0';
    for (int i = 0; i < e->lines; i++) {
        const struct line *l = &e->line[i];

        at += sprintf(at, "%s%%v%d = %s %s", i % 2 ? "  " : "", e->inputs + 1 + i, l->op,
                      name_of_value(e, l->of[0], word));
        if (is_binary(l) && l->of[1] < 0)
            at += sprintf(at, " %.17g", l->number[1]);
        else if (is_binary(l))
            at += sprintf(at, " %s", name_of_value(e, l->of[1], word));
        else if (!strcmp(l->op, "clamp"))
            at += sprintf(at, " p=%.17g q=%.17g", l->number[0], l->number[1]);
        else if (!strcmp(l->op, "leaky_relu"))
            at += sprintf(at, " p=%.17g", l->number[0]);
        at += sprintf(at, i % 3 ? "\n" : "   ; a comment\n\n");
    }
}

/* Makes a random expression.  selects: its binary operations are max and min only, its unary ones
 * select or negate.  adds: its first line adds an input. */
static void make_expression(struct rng *r, struct expression *e, bool selects, bool adds)
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
        choose_random_operand(r, e, l, 0, i);
        choose_random_operand(r, e, l, 1, i);
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

/* Evaluates one line on operands v and w, in binary64 or (is_f32) binary32. */
static double evaluate_step(const struct line *l, bool is_f32, double v, double w)
{
    limber_format f = is_f32 ? LIMBER_F32 : LIMBER_F64;
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
        return is_f32 ? (double)(float)y : y;
    }
    assert_int_equal(limber_function_named(l->op, &e.function), LIMBER_STATUS_OK);
    e.from = LIMBER_F64;
    e.to = f;
    e.p = is_f32 ? (double)(float)l->number[0] : l->number[0];
    e.q = is_f32 ? (double)(float)l->number[1] : l->number[1];
    e.src = &from;
    e.dst = &to;
    e.count = 1;
    assert_int_equal(limber_apply(NULL, &e), LIMBER_STATUS_OK);
    if (is_f32) {
        float y;

        memcpy(&y, &to, sizeof y);
        return (double)y;
    }
    return to;
}

/* Evaluates an expression.  in: x, followed by the inputs. */
static double evaluate(const struct expression *e, bool is_f32, const double in[1 + INPUTS])
{
    double v[1 + INPUTS + STEPS];

    memcpy(v, in, (1 + (size_t)e->inputs) * sizeof *v);
    for (int i = 0; i < e->lines; i++) {
        const struct line *l = &e->line[i];
        double w[2];

        for (int j = 0; j < 2; j++)
            w[j] = l->of[j] >= 0 ? v[l->of[j]] :
                   is_f32        ? (double)(float)l->number[j] :
                                   l->number[j];
        v[1 + e->inputs + i] = evaluate_step(l, is_f32, w[0], w[1]);
    }
    return v[e->lines ? e->inputs + e->lines : 0];
}

/* ---- rules of the documentation -------------------------------------------------------------- */

/* True if the number can be represented in the format. */
static bool exact_in(limber_format f, double v)
{
    double back;
    char code[16];

    limber_convert(code, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    limber_convert(&back, LIMBER_F64, code, f, 1, LIMBER_ROUND_NEAREST);
    return back == v;
}

/* True if all lines from `from` on return an operand, a constant that f represents, or the negative
 * of one. */
static bool selects_only(const struct expression *e, int from, limber_format f)
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

/* True if a line from `from` on reads x. */
static bool reads_x(const struct expression *e, int from)
{
    for (int i = from; i < e->lines; i++)
        if (e->line[i].of[0] == 0 || (is_binary(&e->line[i]) && e->line[i].of[1] == 0))
            return true;
    return false;
}

/* ---- random products with steps -------------------------------------------------------------- */

/* A random call with an epilogue: a product, a batch or a convolution. */
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
    /* groups: number of products; rows, cols: sizes of each; pad: padding between rows, in
     * elements */
    int64_t groups, rows, cols, pad;
    void *address[8];
};

static const char *const floats[] = { "f32", "f64",     "f16",    "bf16",     "e4m3", "(1,4,9)",
                                      "i8",  "posit16", "posit8", "e5m2fnuz", "i4" };

/* Computes to which product, row and column element i of C belongs.  These index the inputs. */
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

/* Returns the offset of element (row, col) of product g in C, in elements. i: number of the element
 * in a convolution. */
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

/* The number of input k that is used for an element of C. */
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

/* Makes the random inputs of a trial's expression. */
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

/* Makes a random product or batch of products. */
static void choose_gemm(struct rng *r, struct trial *t)
{
    int64_t k = rng_below(r, 50), m, n;
    bool turned = rng_below(r, 3) == 0;

    m = t->rows = 1 + rng_below(r, 40);
    n = t->cols = 1 + rng_below(r, rng_below(r, 3) ? 40 : 600);
    m = t->rows = n > 40 ? 1 + m % 5 : m;
    /* long sums, which the library computes by a plan */
    if (n <= 40 && rng_below(r, 3) == 0) {
        k = 257 + rng_below(r, 250);
        m = t->rows = 1 + m % 17;
        n = t->cols = rng_below(r, 3) ? n : 1;
    }
    t->pad = rng_below(r, 3);
    t->p.m = m, t->p.n = n, t->p.k = k;
    t->p.a.row_stride = k ? k : 1, t->p.a.col_stride = 1;
    t->p.b.row_stride = n, t->p.b.col_stride = 1;
    t->p.c.row_stride = turned ? 1 : n + t->pad;
    t->p.c.col_stride = turned ? m + t->pad : 1;
    if (k <= 50 && rng_below(r, 4) == 0) {
        t->groups = 1 + rng_below(r, 4);
        t->batch = (limber_batch)LIMBER_BATCH_INIT;
        t->batch.count = t->groups;
        t->batch.a = m * k;
        t->batch.b = rng_below(r, 2) ? k * n : 0;
        t->batch.c = turned ? (m + t->pad) * n : m * (n + t->pad);
        t->p.batch = &t->batch;
        if (rng_below(r, 2)) { /* the same matrices, given by address */
            for (int64_t g = 0; g < t->groups; g++)
                t->address[g] = c + g * t->batch.c * t->p.c.format.size;
            t->batch.address_c = t->address;
        }
    }
}

/* Makes a random convolution or gradient.  Sets which elements share a row or column input. */
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

/* Makes a random product or convolution with an epilogue. */
static void make_random_trial(struct rng *r, struct trial *t)
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
    make_expression(r, &t->e, rng_below(r, 3) == 0, rng_below(r, 2));
    choose_inputs(r, t);
    fill(r, rng_below(r, 6) ? DATA_unit : DATA_special, t->p.a.format, a, 9000);
    fill(r, DATA_unit, t->p.b.format, b, 30000);
    fill(r, DATA_unit, t->p.c.format, c0, 30000);
    t->alpha = rng_below(r, 2) ? 1 : 3;
    t->beta = rng_below(r, 3) ? 0 : 2;
}

/* Converts v to the format that scalars of a result in f have. */
static const void *scalar_for(limber_format f, double v, char room[16])
{
    int64_t whole = (int64_t)v;

    if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_SHORT)
        memcpy(room, &whole, sizeof whole);
    else
        limber_convert(room, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    return room;
}

/* True if f represents every value of g, for the formats in `floats`. */
static bool represents_all(limber_format f, limber_format g)
{
    static const char *const pairs[][2] = {
        { "f16", "e4m3" },      { "f16", "i8" },      { "bf16", "e4m3" },    { "bf16", "i8" },
        { "(1,4,9)", "i8" },    { "f16", "(1,4,9)" }, { "f16", "e5m2fnuz" }, { "f16", "i4" },
        { "bf16", "e5m2fnuz" }, { "bf16", "posit8" }, { "bf16", "i4" },      { "(1,4,9)", "i4" },
        { "e4m3", "i4" },       { "e5m2fnuz", "i4" }
    };

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

/* Computes the product without steps into x, in C's layout, and returns the format of x.  *rest:
 * the steps that remain to be evaluated.  If the first step adds an input, the library may round
 * the sum of product and input once; then the input is added here, in the place of beta C. */
static limber_format plain_product(limber_context *ctx, struct trial *t, struct expression *rest)
{
    limber_format f = t->p.c.format, xf;
    bool is_f32 = !limber_format_equal(f, LIMBER_F64), folds;
    int64_t all = t->groups * t->rows * t->cols, g, row, col;
    limber_problem p = t->p;
    limber_batch batch = t->batch;
    const struct line *first = t->e.line;
    double beta = t->beta, v;
    int added = 0;

    *rest = t->e;
    xf = is_f32 ? LIMBER_F32 : LIMBER_F64;
    folds = t->contract.promise != LIMBER_CONTRACT_NATIVE && beta == 0 && t->e.lines &&
            !strcmp(first->op, "add") && first->of[0] == 0 && first->of[1] > 0 &&
            first->of[1] <= t->e.inputs && !reads_x(&t->e, 1);
    if (folds && limber_format_equal(t->input[first->of[1] - 1].format, LIMBER_F64) && is_f32)
        folds = false;
    if (folds) {
        added = first->of[1];
        beta = 1;
        /* replaces the added line by max(x, x), which changes nothing */
        strcpy(rest->line[0].op, "max");
        rest->line[0].of[0] = rest->line[0].of[1] = 0;
    }
    if ((f.kind == LIMBER_KIND_FLOAT || f.kind == LIMBER_KIND_POSIT) &&
        t->contract.promise != LIMBER_CONTRACT_NATIVE && selects_only(&t->e, folds, f) &&
        (!folds || represents_all(f, t->input[added - 1].format)))
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

/* Checks every element of a product with an epilogue. */
static void check_epilogue(limber_context *ctx, struct trial *t, int number)
{
    limber_format f = t->p.c.format, xf;
    bool is_f32 = !limber_format_equal(f, LIMBER_F64);
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
            in[1 + k] = is_f32 ? (double)(float)in[1 + k] : in[1 + k];
        }
        v = evaluate(&rest, is_f32, in);
        limber_convert(want, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        /* The bits of a NaN are unspecified, and so is its sign if it is an overflow in a format
         * without infinities. */
        if (memcmp(want, got, f.size) &&
            !((!t->e.lines || f.flags & LIMBER_FORMAT_NO_INF) && same_number(f, want, got)))
            fail_msg(
                "trial %d, promise %d, %s, element %lld (%lld, %lld): %g of x = %g, not %g\n%s",
                number, (int)t->contract.promise, limber_format_name(f, name, sizeof name),
                (long long)i, (long long)row, (long long)col, value(f, got), in[0], v, t->e.text);
        memcpy(c + at(t, g, row, col, i) * f.size, c0 + at(t, g, row, col, i) * f.size, f.size);
    }
    assert_memory_equal(c, c0, 30000 * f.size); /* nothing outside the results was stored */
}

/* True if several added inputs, or an input and beta C, may be part of a sum that is rounded
 * once. */
static bool has_joined_sum(const struct trial *t)
{
    const bool is_f32 = !limber_format_equal(t->p.c.format, LIMBER_F64);
    int added = 0, wide = 0;

    for (int k = 0; k < t->e.inputs; k++)
        wide += is_f32 && limber_format_equal(t->input[k].format, LIMBER_F64);

    while (added < t->e.lines && !strcmp(t->e.line[added].op, "add"))
        added++;
    return t->contract.promise == LIMBER_CONTRACT_CORRECT &&
           t->p.operation == LIMBER_OPERATION_GEMM && added > 0 &&
           added + (t->beta != 0) + wide > 1;
}

/* Random products with random epilogues: every element is checked, in each context in turn. */
static void test_random(void **state)
{
    struct rng r = { 7 };

    (void)state;
    for (int trial = 0; trial < (SANITIZED ? 100 : 600); trial++) {
        struct trial t;

        make_random_trial(&r, &t);
        if (has_joined_sum(&t)) /* test_joined checks these */
            continue;
        check_epilogue(contexts[trial % context_count], &t, trial);
    }
}

/* Products of many blocks, whose steps are applied after each block, must give the bits of a
 * separate product followed by steps. */
static void test_steps_after_each_block(void **state)
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
        /* vectors, whose rows and columns are both contiguous */
        { "f32", "f32", LIMBER_CONTRACT_NATIVE, 88, 1, 464, false },
        { "f32", "f32", LIMBER_CONTRACT_NATIVE, 1, 88, 464, true },
        { "f64", "f64", LIMBER_CONTRACT_NATIVE, 300, 1, 700, false },
        { "f64", "f64", LIMBER_CONTRACT_NATIVE, 1, 300, 700, false },
        { "f32", "f32", LIMBER_CONTRACT_NATIVE, 100, 40, 700, true },
        { "f32", "f32", LIMBER_CONTRACT_NATIVE, 40, 500, 700, false },
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
            limber_epilogue_input in[2] = { LIMBER_EPILOGUE_INPUT_INIT,
                                            LIMBER_EPILOGUE_INPUT_INIT };
            limber_epilogue e = LIMBER_EPILOGUE_INIT;
            limber_format to = named(work[w].to), xf = LIMBER_F32;
            bool is_f32 = !limber_format_equal(to, LIMBER_F64), correct;
            struct line leaky = { .op = "leaky_relu", .number = { 0.01 } };

            if (contexts[i]->machine.backend == &limber_backend_interp)
                continue;
            xf = is_f32 ? LIMBER_F32 : LIMBER_F64;
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
            /* x is the first input as it was before the product is added */
            for (int64_t at = 0; correct && at < m * n; at++) {
                int64_t row = work[w].turned ? at % m : at / n;
                double v = value(LIMBER_F32, data[0] + 4 * row);

                limber_convert(plain + at * xf.size, xf, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
            }
            p.beta = correct ? scalar_for(xf, 1, (char[16]){ 0 }) : NULL;
            assert_int_equal(limber_run(contexts[i], &p, NULL), LIMBER_STATUS_OK);
            in[0].name = "in_1", in[0].shape = LIMBER_INPUT_ROW, in[0].data = data[0];
            in[1].name = "in_2", in[1].shape = LIMBER_INPUT_COLUMN, in[1].data = data[1];
            in[0].format = in[1].format = LIMBER_F32;
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

                y = is_f32 ? (double)(float)y : y;
                y *= value(LIMBER_F32, data[1] + 4 * col);
                y = is_f32 ? (double)(float)y : y;
                if (y < 0)
                    y = is_f32 ? (double)((float)y * 0.01f) : evaluate_step(&leaky, false, y, 0);
                limber_convert(want, to, &y, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
                if (memcmp(want, got + at * to.size, to.size))
                    fail_msg("work %zu, (%lld, %lld): %g, not %g", w, (long long)row,
                             (long long)col, value(to, got + at * to.size), y);
            }
        }
    free(from[0]), free(from[1]), free(plain), free(got);
}

/* ---- steps that are rounded once with the product -------------------------------------------- */

/* Checks a product under `correct`: the sum of the product and the added inputs must be rounded
 * once. */
static void check_correct(limber_context *ctx, struct rng *r, limber_format f, limber_format of,
                          enum data kind)
{
    static const char *const steps[2] = { "%1 = add %x %bias\n%2 = relu %1\n%3 = min %2 6\n",
                                          "%1 = add %x %bias\n%2 = relu %1\n" };
    enum { M = 9, N = 13, K = 40 };
    const bool bytes = of.kind == LIMBER_KIND_INT;
    limber_epilogue_input bias = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    mpfr_t sum, absolute, v;

    fill(r, kind, of, a, M * K);
    fill(r, kind, of, b, K * N);
    fill(r, kind, f, data[0], M);
    for (int i = 0; bytes && i < M; i++) { /* makes many sums midpoints between numbers of f */
        double v = ldexp((double)(rng_below(r, 1 << 20) | 1), -(int)rng_below(r, 8));

        limber_convert(data[0] + i * f.size, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    }
    contract.promise = LIMBER_CONTRACT_CORRECT;
    bias.name = "bias", bias.shape = LIMBER_INPUT_ROW, bias.format = f, bias.data = data[0];
    e.steps = steps[bytes], e.inputs = &bias, e.input_count = 1;
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
            if (mpfr_cmp_d(sum, 6) > 0 && !bytes)
                mpfr_set_d(sum, 6, MPFR_RNDN);
            if (!ref_rounds_to(sum, f, c + (i * N + j) * f.size))
                fail_msg("(%d, %d): %g", i, j, value(f, c + (i * N + j) * f.size));
        }
    mpfr_clears(sum, absolute, v, (mpfr_ptr)NULL);
}

/* Epilogues after products under the contract `correct` are right in every context: for four
 * formats and three kinds of data, and for bytes with sums that often lie midway between two
 * numbers of the result's format. */
static void test_correct(void **state)
{
    static const char *const formats[] = { "f32", "f64", "f16", "bf16" };
    static const enum data kinds[] = { DATA_unit, DATA_ties, DATA_spread };
    struct rng r = { 8 };

    (void)state;
    for (int i = 0; i < context_count; i++)
        for (size_t f = 0; f < COUNT(formats); f++)
            for (size_t k = 0; k < COUNT(kinds); k++)
                check_correct(contexts[i], &r, named(formats[f]), f == 1 ? LIMBER_F64 : LIMBER_F32,
                              kinds[k]);
    for (int i = 0; i < context_count; i++)
        for (int again = 0; again < 20; again++)
            check_correct(contexts[i], &r, again % 2 ? LIMBER_F32 : LIMBER_F64, LIMBER_I8,
                          DATA_bytes);
}

/* Adds inputs of several shapes and beta C.  The complete sum must be rounded once, whatever the
 * order of additions. */
static void check_joined(limber_context *ctx, struct rng *r, limber_format f, enum data kind,
                         bool scaled, const char *text)
{
    enum { M = 7, N = 11, K = 30, COUNTED = 4 };
    static const limber_input_shape shapes[COUNTED] = { LIMBER_INPUT_ROW, LIMBER_INPUT_COLUMN,
                                                        LIMBER_INPUT_SCALAR, LIMBER_INPUT_MATRIX };
    static const char *const names[COUNTED] = { "row", "column", "scalar", "matrix" };
    limber_epilogue_input in[COUNTED];
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    char beta[16], *from[COUNTED] = { data[0], data[1], data[2], x };
    mpfr_t sum, absolute, v;
    int64_t size = f.size;

    fill(r, kind, f, a, M * K);
    fill(r, kind, f, b, K * N);
    fill(r, kind, f, c0, M * N);
    for (int i = 0; i < COUNTED; i++) {
        fill(r, kind, f, from[i], M * N);
        in[i] = (limber_epilogue_input)LIMBER_EPILOGUE_INPUT_INIT;
        in[i].name = names[i], in[i].shape = shapes[i], in[i].format = f, in[i].data = from[i];
    }
    in[3].row_stride = N, in[3].col_stride = 1;
    memcpy(c, c0, (size_t)(M * N * size));
    contract.promise = LIMBER_CONTRACT_CORRECT;
    e.steps = text, e.inputs = in, e.input_count = COUNTED;
    p.contract = &contract, p.epilogue = &e;
    p.m = M, p.n = N, p.k = K;
    p.a = (limber_matrix){ a, f, 1, M }, p.b = (limber_matrix){ b, f, N, 1 };
    p.c = (limber_output){ c, f, N, 1 };
    p.beta = scaled ? scalar_for(f, -3, beta) : NULL;
    if (limber_run(ctx, &p, NULL))
        fail_msg("%s", limber_error_text());
    mpfr_inits2(REF_BITS, sum, absolute, v, (mpfr_ptr)NULL);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const int place[COUNTED] = { i, j, 0, i * N + j };

            ref_dot(sum, absolute, f, a + i * size, M, f, b + j * size, N, K);
            for (int t = 0; t < COUNTED; t++) {
                ref_load(v, f, from[t] + place[t] * size);
                if (strstr(text, names[t]))
                    mpfr_add(sum, sum, v, MPFR_RNDN);
            }
            ref_load(v, f, c0 + (i * N + j) * size);
            mpfr_mul_si(v, v, scaled ? -3 : 0, MPFR_RNDN);
            mpfr_add(sum, sum, v, MPFR_RNDN);
            if (mpfr_sgn(sum) < 0)
                mpfr_set_zero(sum, 1);
            if (!ref_rounds_to(sum, f, c + (i * N + j) * size))
                fail_msg("%s\n(%d, %d): %g", text, i, j, value(f, c + (i * N + j) * size));
        }
    mpfr_clears(sum, absolute, v, (mpfr_ptr)NULL);
}

/* For each order in which inputs and beta C may be added, the sum is rounded once. */
static void test_joined(void **state)
{
    static const char *const texts[] = {
        "%1 = add %x %row\n%2 = add %1 %column\n%3 = relu %2\n",
        "%1 = add %column %x\n%2 = add %1 %matrix\n%3 = add %scalar %2\n%4 = relu %3\n",
        "%1 = add %x %matrix\n%2 = add %1 %row\n%3 = relu %2\n",
        "%1 = add %x %scalar\n%2 = add %1 %row\n%3 = add %2 %column\n%4 = relu %3\n",
    };
    static const enum data kinds[] = { DATA_unit, DATA_ties, DATA_spread };
    struct rng r = { 12 };

    (void)state;
    for (int i = 0; i < context_count; i++)
        for (size_t k = 0; k < COUNT(kinds); k++)
            for (size_t t = 0; t < COUNT(texts); t++)
                for (int f = 0; f < 2; f++) {
                    bool scaled = t % 2 == 0 && !strstr(texts[t], "matrix");

                    check_joined(contexts[i], &r, f ? LIMBER_F64 : LIMBER_F32, kinds[k], scaled,
                                 texts[t]);
                }
}

/* ---- an input that is C itself --------------------------------------------------------------- */

/* An input may be C itself. */
static void test_residual_in_place(void **state)
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
            float y = (float)evaluate_step(&l, true, value(LIMBER_F32, x + 4 * j), 0) + before[j];

            assert_memory_equal(&y, c + 4 * j, 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_residual_in_place),
        cmocka_unit_test(test_correct),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_steps_after_each_block),
    };

    return cmocka_run_group_tests(tests, set_up, drop);
}
