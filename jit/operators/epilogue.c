/* SPDX-License-Identifier: BSD-3-Clause
 * Epilogues: a problem with an epilogue becomes a product in the format of the steps, and steps on
 * the product's result x.  x is stored in C if C has that format, else in memory of its own. */
#include "jit/api/api.h"
#include "jit/device.h"
#include "jit/operators/inside.h"

#include <stdio.h>
#include <string.h>

/* Reports an invalid argument `what`, and returns false. */
static bool refuse(struct diag *d, const char *what, const char *why)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s %s", what, why);
}

/* ---- reading the caller's steps and inputs --------------------------------------------------- */

/* Reads and checks input i of an epilogue. from: the caller's structure. */
static bool read_input(limber_context *ctx, struct epilogue_call *c, int i, const void *from,
                       struct diag *d)
{
    limber_epilogue_input *in = &c->input[i];
    char what[32], name[32];
    bool matrix;

    snprintf(what, sizeof what, "inputs[%d]", i);
    if (!limber_copy_sized_in(in, sizeof *in, from, LEAST_epilogue_input, what, d))
        return false;
    c->name[i] = in->name;
    matrix = in->shape == LIMBER_INPUT_MATRIX;
    snprintf(what, sizeof what, "inputs[%d].format", i);
    if (!limber_format_check(what, in->format, d))
        return false;
    if (!limber_format_embeds(in->format, LIMBER_F64))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %s has values beyond binary64", what,
                           limber_format_name(in->format, name, sizeof name));
    snprintf(what, sizeof what, "inputs[%d]", i);
    if ((unsigned)in->shape > LIMBER_INPUT_MATRIX)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s.shape = %d is unknown", what,
                           (int)in->shape);
    if (c->product.conv && in->shape == LIMBER_INPUT_COLUMN)
        return refuse(d, what, "has a number of each column, but a convolution has none");
    if ((in->row_stride || in->col_stride) && (!matrix || c->product.conv))
        return refuse(d, what, "has strides, which only matrices of GEMMs have");
    if (matrix && !c->product.conv && !in->row_stride && !in->col_stride &&
        (c->product.m > 1 || c->product.n > 1))
        return refuse(d, what,
                      "is a matrix whose strides are 0; LIMBER_INPUT_SCALAR is one number for all");
    if (in->row_stride < 0 || in->col_stride < 0 || in->step < 0)
        return refuse(d, what, "has a negative stride or step");
    if (in->step && !c->product.batch)
        return refuse(d, what, "has a step, but there is no batch");
    if (!in->data)
        return refuse(d, what, "has no data");
    return !c->c.data || limber_device_holds(ctx, in->data) == c->on_device ||
           refuse(d, what,
                  c->on_device ? "lies in host memory, but c in a device's" :
                                 "lies in a device's memory, but c in the host's");
}

/* Reads all inputs.  The size field of the first one holds for all of the caller's structures. */
static bool read_inputs(limber_context *ctx, struct epilogue_call *c, const limber_epilogue *e,
                        struct diag *d)
{
    size_t each;

    if (e->input_count < 0 || e->input_count > MOST_INPUTS)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "input_count = %d is not from 0 to 8",
                           e->input_count);
    if (e->input_count && !e->inputs)
        return refuse(d, "inputs", "is NULL");
    if (e->input_count)
        memcpy(&each, e->inputs, sizeof each);
    for (int i = 0; i < e->input_count; i++)
        if (!read_input(ctx, c, i, (const char *)e->inputs + (size_t)i * each, d))
            return false;
    return true;
}

/* Chooses the format in which the steps compute: binary32, or binary64 if binary32 does not hold
 * all values of C's format.  False, with an error, if C's format is not supported. */
static bool choose_compute(struct epilogue_call *c, const limber_epilogue *e, struct diag *d)
{
    limber_format f = c->c.format;
    char name[32];

    if (f.kind == LIMBER_KIND_POWER)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "c: %s is no format of results",
                           limber_format_name(f, name, sizeof name));
    if (f.kind == LIMBER_KIND_DD || (limber_is_real(f) && !limber_format_embeds(f, LIMBER_F64)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "steps compute in binary64 at most, but c is %s",
                           limber_format_name(f, name, sizeof name));
    if (f.kind == LIMBER_KIND_FLOAT && f.flags & LIMBER_FORMAT_FINITE && !e->nan_to_zero)
        return limber_fail(
            d, LIMBER_STATUS_BAD_ARGUMENT,
            "c: %s has no NaN, which steps can give; nan_to_zero = 1 stores 0 for it",
            limber_format_name(f, name, sizeof name));
    c->compute = limber_format_embeds(f, LIMBER_F32) ? LIMBER_F32 : LIMBER_F64;
    return true;
}

/* True if beta, in format c, is 0 or NULL. */
static bool is_zero(const void *beta, limber_format c)
{
    return !limber_scalar(beta, c, 0);
}

/* Converts a scalar from C's format to the format of x, the product's result, into `room`.  Fails
 * if the value changes and x's format does not hold all values of C's. */
static bool read_scalar(const char *what, const void **at, char room[16], limber_format c,
                        limber_format x, struct diag *d)
{
    const limber_format from = limber_scalar_format(c), to = limber_scalar_format(x);
    char back[16];

    if (!*at || limber_format_equal(from, to))
        return true;
    if (!limber_format_convert(room, to, *at, from, 1, LIMBER_ROUND_NEAREST, d) ||
        !limber_format_convert(back, from, room, to, 1, LIMBER_ROUND_NEAREST, d))
        return false;
    if (memcmp(back, *at, from.size) && !limber_format_embeds(from, to))
        return refuse(d, what, "is no number of the format in which steps compute");
    *at = room;
    return true;
}

/* Returns an upper bound of the number of products that are summed for an element; 0 for operations
 * other than GEMM and forward convolution. */
static int64_t products_per_element(const limber_problem *p)
{
    const limber_conv *v = p->conv;
    int64_t k;

    if (p->operation == LIMBER_OPERATION_GEMM)
        return p->k;
    if (p->operation != LIMBER_OPERATION_CONV_FORWARD || !v || v->r < 1 || v->s < 1 ||
        __builtin_mul_overflow(v->c, v->r, &k) || __builtin_mul_overflow(k, v->s, &k) ||
        __builtin_mul_overflow(k, v->t > 1 ? v->t : 1, &k))
        return 0;
    return k;
}

/* True if x, the product's result, can be i32: the operands are 8-bit integers, and all sums fit
 * i32.  The sums are then exact, and the steps read them faster. */
static bool can_sum_integers(const struct epilogue_call *c)
{
    const limber_problem *p = &c->product;
    const limber_promise promise = p->contract->promise;
    const limber_format f = limber_scalar_format(c->c.format);
    const int64_t k = products_per_element(p);

    return (promise == LIMBER_CONTRACT_NATIVE || promise == LIMBER_CONTRACT_CORRECT ||
            promise == LIMBER_CONTRACT_BITS) &&
           !p->contract->scheme && !c->on_device && limber_is_integer(p->a.format) &&
           limber_is_integer(p->b.format) && p->a.format.size == 1 && p->b.format.size == 1 &&
           k > 0 && k <= INT32_MAX / 255 / 255 && is_zero(p->beta, c->c.format) &&
           (!p->alpha || limber_format_value(f, p->alpha) == 1);
}

/* Chooses the format of x, the product's result, and the inputs that become part of the sum.
 * Converts alpha and beta to that format.  False on failure. */
static bool choose_product(limber_context *ctx, struct epilogue_call *c, struct diag *d)
{
    limber_promise promise = c->product.contract->promise;
    limber_format f = c->c.format, x = c->compute;
    int addend = -1;

    c->addend = -1;
    if (promise == LIMBER_CONTRACT_CORRECT || promise == LIMBER_CONTRACT_BITS) {
        limber_epilogue_addends(ctx, c, is_zero(c->product.beta, f));
        addend = c->addend;
    }
    /* steps that only select a value do not round, so x is rounded to C's format at once */
    if (limber_is_real(f) && promise != LIMBER_CONTRACT_NATIVE &&
        limber_steps_round_nothing(&c->steps, f) &&
        (addend < 0 || limber_format_embeds(c->input[addend].format, f)))
        x = f;
    /* sums of bytes stay integers */
    if (addend < 0 && !c->joins && can_sum_integers(c))
        x = LIMBER_I32;
    c->apart = addend >= 0 || !limber_format_equal(x, f);
    if (!is_zero(c->product.beta, f) && !limber_format_embeds(f, x))
        return refuse(d, "beta", "is not 0, but steps compute in a format without all values of c");
    c->product.c.format = x;
    if (!read_scalar("alpha", &c->product.alpha, c->alpha, f, x, d))
        return false;
    if (addend < 0)
        return read_scalar("beta", &c->product.beta, c->beta, f, x, d);
    /* an input that becomes part of the sum takes the place of C, with beta = 1 */
    c->product.beta = c->beta;
    return limber_format_convert(c->beta, limber_scalar_format(x), &(double){ 1 }, LIMBER_F64, 1,
                                 LIMBER_ROUND_NEAREST, d);
}

/* ---- layouts of inputs and results ----------------------------------------------------------- */

/* C as a set of matrices of one size: their number, sizes and strides in elements.  `step`:
 * elements from one matrix to the next. */
struct shape {
    int64_t count, rows, cols, row, col, step;
    /* The matrices are transposed, so an input with one number per row of C has one per column of a
     * matrix. */
    bool by_columns;
};

/* Describes C as matrices.  A row of a matrix is a channel of an image, or a filter of a filter
 * gradient; with by_columns a row is a pixel. */
static struct shape shape_of(const struct epilogue_call *c)
{
    const struct problem *p = &c->stated;
    const struct conv_sizes *s = &p->conv.sizes;
    bool nhwc = p->shape && p->shape->layout == LIMBER_LAYOUT_NHWC;
    int64_t channels, pixels;

    if (!p->shape)
        return (struct shape){ p->groups, p->m, p->n, p->c.row, p->c.col, p->at.step_c, false };
    if (c->product.operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER) {
        pixels = s->c / p->shape->groups * s->t * s->r * s->s;
        return (struct shape){ 1, s->o, pixels, pixels, 1, 0, false };
    }
    channels = c->product.operation == LIMBER_OPERATION_CONV_FORWARD ? s->o : s->c;
    pixels = c->product.operation == LIMBER_OPERATION_CONV_FORWARD ? s->od * s->oh * s->ow :
                                                                     s->d * s->h * s->w;
    if (nhwc)
        return (struct shape){ 1, s->n * pixels, channels, channels, 1, 0, true };
    return (struct shape){ s->n, channels, pixels, pixels, 1, channels * pixels, false };
}

/* Returns the address of the first element of matrix g of C. */
static char *matrix_of(const struct epilogue_call *c, const struct shape *s, int64_t g)
{
    const struct problem *p = &c->stated;

    if (!p->shape)
        return limber_group_c(p, g).data;
    return (char *)c->c.data + g * s->step * c->c.format.size;
}

/* Returns input i in the form in which the steps read it for matrix g of C. */
static struct numbers input_of(const struct epilogue_call *c, int i, const struct shape *s,
                               int64_t g)
{
    const limber_epilogue_input *in = &c->input[i];
    const char *data = in->data;
    struct numbers x = { .format = in->format };

    switch (in->shape) {
    case LIMBER_INPUT_ROW: *(s->by_columns ? &x.col : &x.row) = 1; break;
    case LIMBER_INPUT_COLUMN: x.col = 1; break;
    case LIMBER_INPUT_MATRIX:
        x.row = c->product.conv ? s->row : in->row_stride;
        x.col = c->product.conv ? 1 : in->col_stride;
        break;
    default: break;
    }
    if (c->product.conv)
        data += in->shape == LIMBER_INPUT_MATRIX ? g * s->step * in->format.size : 0;
    else
        data += g * in->step * in->format.size;
    x.data = data;
    return x;
}

/* True if an input is C itself, with the same format and strides. */
static bool is_result(const struct epilogue_call *c, const struct numbers *x, const struct shape *s,
                      const char *matrix)
{
    return x->data == matrix && limber_format_equal(x->format, c->c.format) && x->row == s->row &&
           x->col == s->col;
}

/* Checks that no input overlaps C, unless it is C itself.  If an input is C, the product's result
 * gets memory of its own. */
static bool check_inputs(struct epilogue_call *c, struct diag *d)
{
    const struct shape s = shape_of(c);
    char what[32];

    for (int i = 0; i < c->steps.inputs; i++)
        for (int64_t g = 0; g < s.count; g++) {
            const char *data = matrix_of(c, &s, g);
            struct numbers x = input_of(c, i, &s, g);
            limber_matrix to = { data, c->c.format, s.row, s.col };
            limber_matrix from = { x.data, x.format, x.row, x.col };

            snprintf(what, sizeof what, "inputs[%d]", i);
            if (is_result(c, &x, &s, data)) {
                c->apart = true;
                continue;
            }
            if (!limber_check_matrix(&from, what, s.rows, s.cols, d) ||
                !limber_check_apart((struct extent){ &to, "c", s.rows, s.cols },
                                    (struct extent){ &from, what, s.rows, s.cols }, d))
                return false;
        }
    return true;
}

/* Converts the product to the engine's problem, from which sizes and addresses are read.  The
 * converted problem has the caller's C. */
static bool state_product(limber_context *ctx, struct epilogue_call *c, bool stores, struct diag *d)
{
    static const limber_contract native = LIMBER_CONTRACT_INIT;
    limber_problem *p = &c->product;
    const limber_contract *contract = p->contract;
    limber_format x = p->c.format;
    bool ok;

    p->contract = &native;
    p->c = c->c;
    ok = p->operation == LIMBER_OPERATION_GEMM ? limber_gemm_state(ctx, p, stores, &c->stated, d) :
                                                 limber_conv_state(ctx, p, stores, &c->stated, d);
    p->contract = contract;
    p->c.format = x;
    return ok;
}

/* Checks a problem's epilogue, parses its steps, and chooses the formats in which they and the
 * product are computed. */
bool limber_epilogue_read(limber_context *ctx, struct epilogue_call *c, const limber_problem *p,
                          bool stores, struct diag *d)
{
    limber_epilogue e;
    bool ok;

    memset(c, 0, sizeof *c);
    c->product = *p;
    c->product.epilogue = NULL;
    c->c = p->c;
    c->on_device = limber_device_holds(ctx, p->c.data);
    ok = limber_copy_sized_in(&e, sizeof e, p->epilogue, LEAST_epilogue, "e", d) &&
         read_inputs(ctx, c, &e, d);
    if (ok && p->domain == LIMBER_DOMAIN_COMPLEX)
        ok = refuse(d, "domain:", "epilogues are of real matrices");
    if (ok && p->contract->promise == LIMBER_CONTRACT_EXACT)
        ok = refuse(d, "contract:", "steps round, so that no result is exact");
    ok = ok && choose_compute(c, &e, d);
    if (ok && !limber_steps_parse(&c->steps, e.steps, c->name, e.input_count, c->compute, d)) {
        limber_fail_in(d, "steps");
        ok = false;
    }
    ok = ok && choose_product(ctx, c, d);
    if (!ok)
        limber_fail_in(d, "problem.epilogue");
    ok = ok && state_product(ctx, c, stores, d);
    if (ok && stores && !check_inputs(c, d)) {
        limber_fail_in(d, "problem.epilogue");
        ok = false;
    }
    return ok;
}

/* ---- running the steps on results of a product ----------------------------------------------- */

/* A pass over all elements of C, which copies the addend or C to x (the product's result), or
 * applies the steps. */
struct element_pass {
    const struct epilogue_call *c;
    struct shape s;
    const struct steps *steps;
    char *x; /* memory of x; NULL if x is stored in C */
    enum { PASS_addend, PASS_c, PASS_steps } what;
};

/* Returns matrix g of x, the product's result.  In memory of its own x is dense, row-major or
 * column-major as C is. */
static struct numbers numbers_of_x(const struct element_pass *w, int64_t g)
{
    const struct shape *s = &w->s;
    bool turned = s->row == 1 && s->col != 1;
    limber_format f = w->c->product.c.format;
    struct numbers x = { .format = f };

    if (!w->x)
        return (struct numbers){ matrix_of(w->c, s, g), f, s->row, s->col };
    x.data = w->x + g * s->rows * s->cols * f.size;
    x.row = turned ? 1 : s->cols;
    x.col = turned ? s->rows : 1;
    return x;
}

/* Fills *e with the description of matrix g that the code of the steps reads. */
static void epilogue_of(void *arg, int64_t g, struct epilogue *e)
{
    const struct element_pass *w = arg;
    const struct shape *s = &w->s;
    const struct numbers c = { matrix_of(w->c, s, g), w->c->c.format, s->row, s->col };

    *e = (struct epilogue){
        .steps = w->steps, .compute = w->c->compute, .planes = 1, .rows = s->rows, .cols = s->cols
    };
    e->to = w->what == PASS_steps ? c : numbers_of_x(w, g);
    e->from = w->what == PASS_steps  ? numbers_of_x(w, g) :
              w->what == PASS_addend ? input_of(w->c, w->c->addend, s, g) :
                                       c;
    for (int i = 0; i < w->steps->inputs; i++)
        e->input[i] = input_of(w->c, i, s, g);
}

static const struct steps none = { 0 };

/* Processes all matrices: if `begin` is set, fills x with the addend or with C; else applies the
 * steps. entry: the device's kernel; NULL if C is in host memory. */
static bool process_all(limber_context *ctx, struct element_pass *w, bool begin,
                        struct entry *entry, struct diag *d)
{
    struct element_pass at = *w;

    at.steps = begin ? &none : w->steps;
    at.what = !begin ? PASS_steps : w->c->addend >= 0 ? PASS_addend : PASS_c;
    if (w->c->on_device)
        return limber_epilogue_on_device(ctx, epilogue_of, &at, w->s.count, entry,
                                         w->c->product.queue, d);
    limber_epilogue_all(ctx, epilogue_of, &at, w->s.count);
    return true;
}

/* A finisher that applies the steps to each block of C as soon as the block is computed. */
struct finishing {
    struct finisher straight, turned;
    const limber_context *ctx;
    struct epilogue e;
};

/* The `block` callback of the finisher: applies the steps to a block of C. */
static void finish_straight(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                            int64_t cols)
{
    const struct finishing *f = (const struct finishing *)(const void *)self;

    limber_epilogue_block(&f->e, limber_host_functions(f->ctx), &limber_host(f->ctx)->target, row,
                          rows, col, cols);
}

/* The `block` callback of the finisher for a product that is computed transposed. */
static void finish_turned(const struct finisher *self, int64_t row, int64_t rows, int64_t col,
                          int64_t cols)
{
    finish_straight(self->turned, col, cols, row, rows);
}

/* Allocates memory for x, the product's result, on the device if C is there. */
static bool alloc_x(limber_context *ctx, const struct epilogue_call *c, size_t bytes, char **x,
                    struct diag *d)
{
    static const char what[] = "the product before its steps";
    void *on_device = NULL;

    if (c->on_device) {
        if (limber_device_records(ctx, c->product.queue))
            return limber_fail(d, LIMBER_STATUS_DEVICE,
                               "problem.epilogue: queue.stream is being captured, and %s needs "
                               "memory",
                               what);
        if (bytes == SIZE_MAX ||
            !limber_device_alloc(ctx, &on_device, bytes, what, c->product.queue, d))
            return d->status || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %s", what);
        *x = on_device;
        return true;
    }
    *x = bytes < SIZE_MAX ? limber_memory_alloc(&ctx->allocator, bytes) : NULL;
    return *x || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %s", what);
}

/* Frees the buffer of the product's results. */
static void free_x(limber_context *ctx, const struct epilogue_call *c, char *x)
{
    if (!c->on_device)
        limber_memory_free(&ctx->allocator, x);
    else if (x)
        limber_device_free(ctx, x, c->product.queue);
}

/* Sets where the product stores x: in C, or in memory of its own, which is allocated.  False if
 * memory runs out. */
static bool place_x(limber_context *ctx, struct epilogue_call *c, struct element_pass *w,
                    struct diag *d)
{
    limber_problem *p = &c->product;
    const struct shape *s = &w->s;
    size_t bytes;

    p->c.data = c->c.data;
    if (!c->apart)
        return true;
    if (__builtin_mul_overflow((size_t)s->rows * (size_t)s->cols, (size_t)s->count, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)p->c.format.size, &bytes))
        bytes = SIZE_MAX;
    if (!alloc_x(ctx, c, bytes ? bytes : 1, &w->x, d))
        return false;
    p->c.data = w->x;
    if (!p->conv) {
        bool turned = s->row == 1 && s->col != 1;

        p->c.row_stride = turned ? 1 : s->cols;
        p->c.col_stride = turned ? s->rows : 1;
    }
    if (p->batch) {
        c->batch = *p->batch;
        c->batch.address_c = NULL;
        c->batch.c = s->rows * s->cols;
        p->batch = &c->batch;
    }
    return true;
}

/* True if the product stores all of C as one matrix, so that the steps can be applied to each block
 * of C while the block is in the cache. */
static bool is_single_matrix(const struct epilogue_call *c)
{
    const limber_problem *p = &c->product;

    return p->operation == LIMBER_OPERATION_GEMM ?
               !p->batch :
               p->operation == LIMBER_OPERATION_CONV_FORWARD && p->conv->groups == 1 &&
                   (p->conv->n == 1 || p->conv->layout == LIMBER_LAYOUT_NHWC);
}

/* Computes the product of a single matrix.  *finished: true if the steps were applied block by
 * block. */
static bool run_single(limber_context *ctx, struct epilogue_call *c, struct element_pass *w,
                       struct report *r, bool *finished, struct diag *d)
{
    struct finishing f = { .straight = { finish_straight, &f.turned },
                           .turned = { finish_turned, &f.straight },
                           .ctx = ctx };
    struct problem p;
    char *memory;
    bool ok;

    w->what = PASS_steps;
    epilogue_of(w, 0, &f.e);
    ok = limber_epilogue_widen(ctx, c, &memory, d) &&
         (c->product.conv ? limber_conv_state(ctx, &c->product, true, &p, d) :
                            limber_gemm_state(ctx, &c->product, true, &p, d));
    if (ok && (c->steps.count || w->x) && !limber_simulates(&p.contract) && !c->on_device) {
        /* in the product of a convolution, channels are rows */
        p.finish = w->s.by_columns ? &f.turned : &f.straight;
        p.finished = finished;
    }
    p.given = c->given;
    ok = ok && limber_engine_run(ctx, &p, NULL, r, d);
    limber_memory_free(&ctx->allocator, memory);
    return ok;
}

/* Gets the device kernels of both passes before anything is written: e[0] fills x, e[1] applies the
 * steps.  False on failure. */
static bool get_steppers(limber_context *ctx, struct element_pass *w, bool begins, bool steps,
                         struct entry *e[2], struct diag *d)
{
    struct element_pass at = *w;

    if (!w->c->on_device || w->s.rows == 0 || w->s.cols == 0 || w->s.count == 0)
        return true;
    at.what = PASS_steps;
    if (steps && !limber_epilogue_stepper(ctx, epilogue_of, &at, &e[1], d))
        return false;
    at.what = w->c->addend >= 0 ? PASS_addend : PASS_c;
    at.steps = &none;
    return !begins || limber_epilogue_stepper(ctx, epilogue_of, &at, &e[0], d);
}

/* Computes a product by `run`, and applies the steps to its result. r: report, or NULL. */
bool limber_epilogue_run(limber_context *ctx, struct epilogue_call *c, struct report *r,
                         product_function *run, struct diag *d)
{
    const bool one = is_single_matrix(c);
    bool begins = c->product.beta && c->apart, steps = c->steps.count || c->apart, finished = false;
    struct element_pass w = { .c = c, .s = shape_of(c), .steps = &c->steps };
    struct entry *entry[2] = { NULL, NULL };
    bool ok;

    ok = get_steppers(ctx, &w, begins, steps, entry, d) && place_x(ctx, c, &w, d) &&
         (!begins || process_all(ctx, &w, true, entry[0], d)) &&
         (one ? run_single(ctx, c, &w, r, &finished, d) : run(ctx, &c->product, c->given, r, d));
    if (ok && !finished) {
        double done = limber_now();

        ok = !steps || process_all(ctx, &w, false, entry[1], d);
        if (r)
            r->seconds_run += limber_now() - done;
    }
    free_x(ctx, c, w.x);
    for (int i = 0; i < 2; i++)
        if (entry[i])
            limber_kernels_put(ctx->memory, entry[i]);
    return ok;
}

/* Prints the epilogue as it follows a plan. */
void limber_epilogue_text(const struct epilogue_call *c, struct text *out)
{
    char name[32];

    limber_text_add(out, "; then, in %s", limber_format_name(c->compute, name, sizeof name));
    if (c->addend >= 0)
        limber_text_add(out, ", with %%%s as c above", c->name[c->addend]);
    for (int i = 0; i < c->joins; i++)
        limber_text_add(out, ", with %%%s in the sum", c->name[c->join[i]]);
    limber_text_add(out, ", to %s\n", limber_format_name(c->c.format, name, sizeof name));
    limber_text_add(out, "epilogue {\n");
    limber_steps_print(out, &c->steps, c->name);
    limber_text_add(out, "}\n");
}
