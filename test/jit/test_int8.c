/* SPDX-License-Identifier: BSD-3-Clause
 * Floats that hold bytes, that is, integers of 8 bits times a power of two: products and
 * convolutions have the interpreter's bits.  A single element that holds no byte, wherever it is,
 * makes the call use other code. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guarded.h"
#include "calls.h"
#include "support.h"

#include "jit/api/api.h"
#include "jit/ways.h"

enum { THREADS = 3, MOST = 140, DEEPEST = 400, ROOM = 1 << 21 };

static limber_context *one, *many, *interp;

/* Creates a context of the backend without a disk cache, with prebuilt kernels only. */
static limber_context *context_of(const char *backend, int threads)
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx;

    config.backend = backend;
    config.threads = threads;
    config.cache_dir = "";
    config.kernels = LIMBER_KERNELS_PREBUILT;
    if (limber_create(&ctx, &config))
        fail_msg("%s", limber_error_text());
    return ctx;
}

static int set_up(void **state)
{
    (void)state;
    one = context_of(NULL, 1);
    many = context_of(NULL, THREADS);
    interp = context_of("interp", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    limber_destroy(one);
    limber_destroy(many);
    limber_destroy(interp);
    return 0;
}

/* ---- products of floats that hold bytes ------------------------------------------------------ */

enum kind { SIGNED, UNSIGNED, FEW, ZEROS, KINDS };

static void set_element(limber_format f, char *at, double x)
{
    limber_convert(at, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
}

/* Draws a value of this kind.  Zeros have either sign. */
static double value_of(struct rng *r, enum kind kind)
{
    switch (kind) {
    case SIGNED: return rng_below(r, 256) - 128;
    case UNSIGNED: return rng_below(r, 256);
    case FEW: return rng_below(r, 4) ? (rng_below(r, 2) ? 0 : -0.0) : rng_below(r, 5) - 2;
    default: return rng_below(r, 2) ? 0 : -0.0;
    }
}

/* An operand with the layout of its memory; row, col: strides in elements. */
struct operand {
    limber_format f;
    enum kind kind;
    int64_t rows, cols, row, col;
    int exponent;
    char *data;
};

/* Returns the offset of element i of the operand in elements; i counts in row-major order. */
static int64_t place_of(const struct operand *x, int64_t i)
{
    return i / x->cols * x->row + i % x->cols * x->col;
}

/* Makes an operand of floats that hold 8-bit integers times a power of two, with random format and
 * layout. */
static void make_operand(struct rng *r, struct operand *x, int64_t rows, int64_t cols)
{
    const int64_t gap = rng_below(r, 3) ? 0 : rng_below(r, 9);

    x->f = rng_below(r, 2) ? LIMBER_F64 : LIMBER_F32;
    x->kind = (enum kind)rng_below(r, rng_below(r, 4) ? FEW : KINDS);
    x->exponent = rng_below(r, 3) ? 0 : rng_below(r, 60) - 30;
    x->rows = rows;
    x->cols = cols;
    x->col = rng_below(r, 2) ? 1 : rows + gap;
    x->row = x->col == 1 ? cols + gap : 1;
    x->data = malloc((size_t)((rows + gap) * (cols + gap) * x->f.size));
    assert_non_null(x->data);
    /* also fills the padding between rows or columns */
    for (int64_t i = 0; i < (rows + gap) * (cols + gap); i++)
        set_element(x->f, x->data + i * x->f.size, 0.3);
    for (int64_t i = 0; i < rows * cols; i++)
        set_element(x->f, x->data + place_of(x, i) * x->f.size,
                    ldexp(value_of(r, x->kind), x->exponent));
}

/* Replaces one element by a value that is no 8-bit integer times the operand's power of two. */
static void spoil(struct rng *r, const struct operand *x)
{
    static const double other[] = { 0.5, 300, -129, 1e-30, -0x1p-100, NAN, INFINITY, 0x1p40 };
    const double value = other[rng_below(r, (int)(sizeof other / sizeof *other))];
    const int64_t all = x->rows * x->cols, i = rng_below(r, 3) ? rng_below(r, (int)all) : all - 1;

    set_element(x->f, x->data + place_of(x, i) * x->f.size, ldexp(value, x->exponent));
}

/* A product to compute; row, col: strides of C. */
struct multiplied {
    struct operand a, b;
    limber_format to;
    int64_t m, n, k, row, col;
    size_t bytes;
    limber_prepared *prepared[2];
};

/* Computes the product x in a context, into c. */
static limber_status try_run(limber_context *ctx, const struct multiplied *x,
                             limber_promise promise, char *c, limber_report *report)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;

    contract.promise = promise;
    contract.bits = promise == LIMBER_CONTRACT_BITS ? 50 : 0;
    p.contract = &contract;
    p.m = x->m, p.n = x->n, p.k = x->k;
    p.a = (limber_matrix){ x->a.data, x->a.f, x->a.row, x->a.col };
    p.b = (limber_matrix){ x->b.data, x->b.f, x->b.row, x->b.col };
    p.c = (limber_output){ c, x->to, x->row, x->col };
    p.prepared_a = x->prepared[0];
    p.prepared_b = x->prepared[1];
    return limber_run(ctx, &p, report);
}

/* Multiplies under the contract; fails the test if the call fails. */
static void run_or_fail(limber_context *ctx, const struct multiplied *x, limber_promise promise,
                        char *c, limber_report *report)
{
    if (try_run(ctx, x, promise, c, report))
        fail_msg("%s", limber_error_text());
}

/* Draws a product: shape, operands, and the format and strides of the result, which may leave
 * gaps. */
static void draw_product(struct rng *r, struct multiplied *x)
{
    const int64_t gap = rng_below(r, 3) ? 0 : rng_below(r, 7);

    *x = (struct multiplied){ .m = 1 + rng_below(r, MOST), .n = 1 + rng_below(r, MOST) };
    x->k = 1 + rng_below(r, rng_below(r, 4) ? MOST : DEEPEST);
    make_operand(r, &x->a, x->m, x->k);
    make_operand(r, &x->b, x->k, x->n);
    x->to = rng_below(r, 2) ? LIMBER_F64 : LIMBER_F32;
    x->col = rng_below(r, 4) ? 1 : x->m + gap;
    x->row = x->col == 1 ? x->n + gap : 1;
    x->bytes = (size_t)((x->m + gap) * (x->n + gap) * x->to.size);
}

static void free_product(struct multiplied *x)
{
    free(x->a.data);
    free(x->b.data);
}

/* Compares all memory of C, including the padding between rows. */
static void compare_memory(const struct multiplied *x, const char *want, const char *got,
                           const char *what, int trial)
{
    for (int64_t i = 0; i < (int64_t)x->bytes; i += x->to.size)
        if (!same_number(x->to, got + i, want + i))
            fail_msg("trial %d, %s: %d x %d x %d, element %d", trial, what, (int)x->m, (int)x->n,
                     (int)x->k, (int)(i / x->to.size));
}

/* Compares a product in all contexts with the interpreter's. */
static void compare_contexts(const struct multiplied *x, limber_promise promise, int trial)
{
    char *want = poisoned(x->bytes);
    limber_context *const contexts[] = { one, many };
    struct multiplied plain = *x;

    plain.prepared[0] = plain.prepared[1] = NULL;
    run_or_fail(interp, &plain, promise, want, NULL);
    for (int i = 0; i < 2; i++) {
        char *got = poisoned(x->bytes);

        run_or_fail(contexts[i], &plain, promise, got, NULL);
        compare_memory(x, want, got, i ? "many threads" : "one thread", trial);
        free(got);
    }
    free(want);
}

/* Random products of 8-bit integers times a power of two have the interpreter's bits, and so have
 * products in which one element is no such number. */
static void products_are_the_interpreters(void **state)
{
    struct rng r = { 7 };

    (void)state;
    for (int trial = 0; trial < (EMULATED ? 24 : BRIEF ? 60 : 400); trial++) {
        struct multiplied x;

        draw_product(&r, &x);
        compare_contexts(&x, LIMBER_CONTRACT_CORRECT, trial);
        /* in FP64 the exact result is representable, so that every contract gives it */
        if (x.to.size == 8) {
            compare_contexts(&x, LIMBER_CONTRACT_NATIVE, trial);
            compare_contexts(&x, LIMBER_CONTRACT_BITS, trial);
        }
        spoil(&r, rng_below(&r, 2) ? &x.a : &x.b);
        compare_contexts(&x, LIMBER_CONTRACT_CORRECT, trial);
        free_product(&x);
    }
}

/* Sums reach the largest value of 32 bits: products of unsigned and signed bytes with the largest
 * k. */
static void longest_sums_are_exact(void **state)
{
    enum { K = 65536 };
    float *a = malloc(K * sizeof *a), *b = malloc(K * sizeof *b), c = 0;
    struct multiplied x = { .a = { .f = LIMBER_F32, .row = K, .col = 1, .data = (char *)a },
                            .b = { .f = LIMBER_F32, .row = 1, .col = K, .data = (char *)b },
                            .to = LIMBER_F32,
                            .m = 1,
                            .n = 1,
                            .k = K,
                            .row = 1,
                            .col = 1 };

    (void)state;
    for (int least = 0; least < 2; least++) {
        for (int i = 0; i < K; i++) {
            a[i] = least ? -128 : 255;
            b[i] = least ? 127 : -128;
        }
        run_or_fail(one, &x, LIMBER_CONTRACT_CORRECT, (char *)&c, NULL);
        assert_true(c == (least ? -128.0f * 127 * K : -255.0f * 128 * K));
    }
    free(a);
    free(b);
}

/* Products are right if the powers of two of the operands bring results to the ends of
 * binary32's range. */
static void units_at_the_ends_of_the_range_are_exact(void **state)
{
    static const int exponents[] = { -149, -126, -100, -75, -64, 60, 100, 120 };
    const int count = (int)(sizeof exponents / sizeof *exponents);
    struct rng r = { 9 };

    (void)state;
    for (int trial = 0; trial < count * count; trial++) {
        const int e[] = { exponents[trial % count], exponents[trial / count] };
        struct multiplied x;

        draw_product(&r, &x);
        for (int i = 0; i < 2; i++) {
            struct operand *o = i ? &x.b : &x.a;

            for (int64_t at = 0; at < o->rows * o->cols; at++)
                set_element(o->f, o->data + place_of(o, at) * o->f.size,
                            ldexp(rng_below(&r, 200) - 100, e[i]));
        }
        compare_contexts(&x, LIMBER_CONTRACT_CORRECT, trial);
        free_product(&x);
    }
}

/* ---- prepared operands ----------------------------------------------------------------------- */

/* A thread that computes the product into its own C. */
struct caller {
    limber_context *ctx;
    const struct multiplied *x;
    char *c;
};

/* Thread: computes the product several times. */
static void *multiply_repeatedly(void *arg)
{
    const struct caller *k = arg;

    for (int i = 0; i < 3; i++)
        run_or_fail(k->ctx, k->x, LIMBER_CONTRACT_CORRECT, k->c, NULL);
    return NULL;
}

/* Several threads multiply by one prepared operand.  One of them converts it to 8-bit integers,
 * which the operand then keeps for all. */
static void prepared_operands_keep_the_bits(void **state)
{
    struct rng r = { 11 };

    (void)state;
    for (int trial = 0; trial < (BRIEF ? 10 : 40); trial++) {
        struct caller callers[THREADS];
        pthread_t threads[THREADS];
        struct multiplied x;
        char *want;

        draw_product(&r, &x);
        if (trial % 5 == 4)
            spoil(&r, trial % 2 ? &x.a : &x.b);
        want = poisoned(x.bytes);
        run_or_fail(interp, &x, LIMBER_CONTRACT_CORRECT, want, NULL);
        for (int i = 0; i < 2; i++) {
            const struct operand *o = i ? &x.b : &x.a;

            if (trial % 3 == i)
                continue;
            if (limber_prepare(many, (limber_matrix){ o->data, o->f, o->row, o->col }, o->rows,
                               o->cols, i ? LIMBER_SIDE_B : LIMBER_SIDE_A, NULL, &x.prepared[i]))
                fail_msg("%s", limber_error_text());
        }
        for (int i = 0; i < THREADS; i++) {
            callers[i] = (struct caller){ many, &x, poisoned(x.bytes) };
            assert_int_equal(pthread_create(&threads[i], NULL, multiply_repeatedly, &callers[i]),
                             0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            compare_memory(&x, want, callers[i].c, "prepared", trial);
            free(callers[i].c);
        }
        limber_prepared_free(x.prepared[0]);
        limber_prepared_free(x.prepared[1]);
        free(want);
        free_product(&x);
    }
}

/* ---- convolutions of floats that hold bytes -------------------------------------------------- */

/* Computes a forward convolution.  prepared: prepared filters, or NULL; e: an epilogue, or NULL. */
static void run_conv(limber_context *ctx, const limber_conv *s, const void *image,
                     const void *filters, limber_format f, limber_prepared *prepared,
                     const limber_epilogue *e, float *to)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = conv_problem(&contract, s, NULL, image, f, filters, f, NULL, to, LIMBER_F32);

    contract.promise = LIMBER_CONTRACT_CORRECT;
    p.prepared_b = prepared;
    p.epilogue = e;
    if (limber_run(ctx, &p, NULL))
        fail_msg("%s", limber_error_text());
}

/* Allocates a dense tensor of floats that hold 8-bit integers.  spoilt: one element holds no such
 * integer. */
static char *make_tensor(struct rng *r, limber_format f, int64_t count, enum kind kind, bool spoilt)
{
    char *data = malloc((size_t)(count * f.size));

    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        set_element(f, data + i * f.size, value_of(r, kind));
    if (spoilt)
        set_element(f, data + (count - 1) * f.size, 0.5);
    return data;
}

/* Convolves in all contexts: with plain filters, with prepared ones, and with a bias and a
 * rectifier as epilogue. */
static void check_conv(struct rng *r, int trial)
{
    limber_conv s = LIMBER_CONV_INIT;
    const limber_format f = trial % 3 ? LIMBER_F32 : LIMBER_F64;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_epilogue_input bias = LIMBER_EPILOGUE_INPUT_INIT;
    limber_prepared *prepared;
    float shift[64], *want, *got;
    char *image, *filters;
    int64_t oh, ow;
    size_t bytes;

    s.groups = rng_below(r, 4) ? 1 : 2;
    s.n = 1 + rng_below(r, 3);
    s.c = s.groups * (1 + rng_below(r, 20));
    s.o = s.groups * (1 + rng_below(r, 30));
    s.h = 5 + rng_below(r, 20), s.w = 5 + rng_below(r, 20);
    s.r = 1 + rng_below(r, 4), s.s = 1 + rng_below(r, 4);
    for (int i = 0; i < 2; i++)
        s.stride[i] = 1 + rng_below(r, 2), s.dilate[i] = 1;
    for (int i = 0; i < 4; i++)
        s.pad[i] = rng_below(r, 3);
    s.layout = trial % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
    assert_int_equal(limber_conv_output(&s, &oh, &ow), LIMBER_STATUS_OK);
    image =
        make_tensor(r, f, s.n * s.c * s.h * s.w, trial % 4 < 2 ? UNSIGNED : SIGNED, trial % 7 == 6);
    filters = make_tensor(r, f, s.o * (s.c / s.groups) * s.r * s.s, SIGNED, trial % 11 == 10);
    for (int i = 0; i < 64; i++)
        shift[i] = (float)(i - 30);
    bias.name = "bias";
    bias.shape = LIMBER_INPUT_ROW;
    bias.format = LIMBER_F32;
    bias.data = shift;
    e.steps = "%1 = add %x %bias\n%2 = relu %1\n";
    e.inputs = &bias, e.input_count = 1;
    bytes = (size_t)(s.n * s.o * oh * ow) * sizeof *want;
    if (limber_prepare_filters(many, &s, filters, f, NULL, &prepared))
        fail_msg("%s", limber_error_text());
    for (int steps = 0; steps < 2; steps++) {
        want = (float *)(void *)poisoned(bytes);
        run_conv(interp, &s, image, filters, f, NULL, steps ? &e : NULL, want);
        for (int way = 0; way < 4; way++) {
            got = (float *)(void *)poisoned(bytes);
            run_conv(way ? many : one, &s, image, filters, f, way > 1 ? prepared : NULL,
                     steps ? &e : NULL, got);
            for (size_t i = 0; i < bytes / sizeof *want; i++)
                if (memcmp(&want[i], &got[i], sizeof *want))
                    fail_msg("trial %d, steps %d, way %d: element %d is %g, not %g", trial, steps,
                             way, (int)i, (double)got[i], (double)want[i]);
            free(got);
        }
        free(want);
    }
    limber_prepared_free(prepared);
    free(image);
    free(filters);
}

/* Random convolutions of floats that hold 8-bit integers have the interpreter's bits. */
static void convolutions_are_the_interpreters(void **state)
{
    struct rng r = { 13 };

    (void)state;
    for (int trial = 0; trial < (BRIEF ? 20 : 120); trial++)
        check_conv(&r, trial);
}

/* Gradients of images and of filters have the interpreter's bits, also with one channel, one
 * filter or one pixel. */
static void gradients_are_the_interpreters(void **state)
{
    struct rng r = { 19 };

    (void)state;
    for (int trial = 0; trial < (EMULATED ? 24 : BRIEF ? 60 : 300); trial++) {
        const limber_format f = trial % 3 ? LIMBER_F32 : LIMBER_F64;
        const limber_format to = rng_below(&r, 2) ? LIMBER_F64 : LIMBER_F32;
        const limber_contract correct = { .size = sizeof correct,
                                          .promise = LIMBER_CONTRACT_CORRECT };
        const bool images = rng_below(&r, 2);
        limber_conv s = LIMBER_CONV_INIT;
        int64_t oh, ow, x, w;
        char *left, *right, *want;
        size_t bytes;

        s.n = 1 + rng_below(&r, 5);
        s.c = rng_below(&r, 3) ? 1 + rng_below(&r, 20) : 1;
        s.o = rng_below(&r, 3) ? 1 + rng_below(&r, 20) : 1;
        s.h = 3 + rng_below(&r, 12), s.w = 3 + rng_below(&r, 12);
        s.r = 1 + rng_below(&r, 3), s.s = 1 + rng_below(&r, 3);
        s.stride[0] = s.stride[1] = s.dilate[0] = s.dilate[1] = s.groups = 1;
        s.pad[1] = rng_below(&r, 3), s.pad[2] = rng_below(&r, 3);
        s.layout = trial % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        assert_int_equal(limber_conv_output(&s, &oh, &ow), LIMBER_STATUS_OK);
        x = s.n * s.c * s.h * s.w;
        w = s.o * s.c * s.r * s.s;
        left = make_tensor(&r, f, images ? s.n * s.o * oh * ow : x, UNSIGNED, false);
        right = make_tensor(&r, f, images ? w : s.n * s.o * oh * ow, SIGNED, false);
        bytes = (size_t)((images ? x : w) * to.size);
        want = poisoned(bytes);
        for (int way = 0; way < 3; way++) {
            limber_context *ctx = way == 0 ? interp : way == 1 ? one : many;
            char *got = way ? poisoned(bytes) : want;

            if (images ? limber_conv2d_backward_data(ctx, &correct, &s, NULL, left, f, right, f,
                                                     NULL, got, to, NULL) :
                         limber_conv2d_backward_filter(ctx, &correct, &s, NULL, left, f, right, f,
                                                       NULL, got, to, NULL))
                fail_msg("%s", limber_error_text());
            if (memcmp(want, got, bytes))
                fail_msg("trial %d, way %d", trial, way);
            if (way)
                free(got);
        }
        free(want);
        free(left);
        free(right);
    }
}

/* ---- which calls, and memory ----------------------------------------------------------------- */

/* An allocator: requests so far, the request that fails, and the blocks in use. */
struct failing {
    int taken, fails_at, live;
};

/* Allocates memory: fails at a chosen request, and counts the blocks that are in use. */
static void *count_alloc(void *user, size_t bytes, size_t alignment)
{
    struct failing *f = user;

    if (f->taken++ == f->fails_at)
        return NULL;
    f->live++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void count_free(void *user, void *memory)
{
    ((struct failing *)user)->live -= memory != NULL;
    free(memory);
}

/* If there is no memory to store the 8-bit integers in a prepared operand, the call computes
 * without storing them, and a later call stores them. */
static void failing_allocations_keep_the_result(void **state)
{
    struct failing f = { 0 };
    limber_config config = LIMBER_CONFIG_INIT;
    limber_context *ctx;
    struct rng r = { 23 };

    (void)state;
    config.threads = 1;
    config.cache_dir = "";
    config.kernels = LIMBER_KERNELS_PREBUILT;
    config.allocator = (limber_allocator){ count_alloc, count_free, &f };
    if (limber_create(&ctx, &config))
        fail_msg("%s", limber_error_text());
    for (int trial = 0; trial < (EMULATED ? 12 : 40); trial++) {
        struct multiplied x;
        char *want, *got;

        draw_product(&r, &x);
        want = poisoned(x.bytes);
        run_or_fail(interp, &x, LIMBER_CONTRACT_CORRECT, want, NULL);
        f.fails_at = -1;
        if (limber_prepare(ctx, (limber_matrix){ x.b.data, x.b.f, x.b.row, x.b.col }, x.b.rows,
                           x.b.cols, LIMBER_SIDE_B, NULL, &x.prepared[1]))
            fail_msg("%s", limber_error_text());
        for (int call = 0; call < 3; call++) {
            f.fails_at = call == 2 ? -1 : f.taken + (call ? rng_below(&r, 4) : 0);
            got = poisoned(x.bytes);
            if (try_run(ctx, &x, LIMBER_CONTRACT_CORRECT, got, NULL) == LIMBER_STATUS_OK)
                compare_memory(&x, want, got, "memory that fails", trial);
            else
                assert_int_not_equal(call, 2);
            free(got);
        }
        limber_prepared_free(x.prepared[1]);
        free(want);
        free_product(&x);
    }
    limber_destroy(ctx);
    assert_int_equal(f.live, 0);
}

/* Returns whether the code path for floats that hold 8-bit integers computes the product. */
static bool serves(const struct multiplied *x, limber_promise promise, char *c)
{
    struct problem p = { .m = x->m,
                         .n = x->n,
                         .k = x->k,
                         .groups = 1,
                         .fa = x->a.f,
                         .fb = x->b.f,
                         .fc = x->to,
                         .a = { x->a.data, x->a.row, x->a.col, NULL, NULL, NULL },
                         .b = { x->b.data, x->b.col, x->b.row, NULL, NULL, NULL },
                         .c = { .data = c, .row = x->n, .col = 1, .inner = x->n } };

    struct diag ignored = { 0 };

    p.contract = (limber_contract)LIMBER_CONTRACT_INIT;
    p.contract.promise = promise;
    return limber_way_bytes.run(&(struct attempt){
               .ctx = one, .p = &p, .d = &ignored, .again = limber_ways_run }) == RAN_done;
}

/* Sets the first and last element so that no common power of two makes both 8-bit integers.  A
 * single element becomes NaN. */
static void make_incompatible_scales(const struct operand *x)
{
    const int64_t last = x->rows * x->cols - 1;

    set_element(x->f, x->data, 1);
    set_element(x->f, x->data + place_of(x, last) * x->f.size, last ? 0x1p-60 : NAN);
}

/* Floats that hold 8-bit integers are multiplied as integers.  If an operand has other values,
 * this code path refuses and leaves C unchanged. */
static void only_operands_of_bytes_are_multiplied_as_bytes(void **state)
{
    struct rng r = { 17 };
    int served = 0;

    (void)state;
    if (!one->machine.cpu || !one->machine.cpu->int8->serves(&one->machine.target))
        skip_because("this CPU has no unit for bytes");
    if (one->machine.target.rate[UNIT_i8] <= one->machine.target.rate[UNIT_f64]) {
        skip_because("bytes are no faster than doubles here");
    }
    for (int trial = 0; trial < 60; trial++) {
        struct multiplied x;
        char *c, *before;

        draw_product(&r, &x);
        x.bytes = (size_t)(x.m * x.n * x.to.size);
        c = poisoned(x.bytes);
        before = poisoned(x.bytes);
        make_incompatible_scales(trial % 2 ? &x.a : &x.b);
        assert_false(serves(&x, LIMBER_CONTRACT_CORRECT, c));
        assert_memory_equal(c, before, x.bytes);
        assert_false(serves(&x, LIMBER_CONTRACT_REPRODUCIBLE, c));
        free_product(&x);
        free(c);
        free(before);
    }
    for (int trial = 0; trial < 60; trial++) {
        struct multiplied x;
        char *c;

        draw_product(&r, &x);
        x.bytes = (size_t)(x.m * x.n * x.to.size);
        c = poisoned(x.bytes);
        served += serves(&x, LIMBER_CONTRACT_CORRECT, c);
        free_product(&x);
        free(c);
    }
    /* elements of B from 128 on are multiplied by other code */
    assert_true(served > 20);
}

/* Operands and C end at an inaccessible page, so that accesses past them are faults. 32-bit sums
 * are converted to floats in place. */
static void nothing_beyond_the_operands_is_accessed(void **state)
{
    const struct int8_ops *ops = one->machine.cpu ? one->machine.cpu->int8 : NULL;
    const struct target *t = &one->machine.target;

    (void)state;
    if (!ops || !ops->serves(t))
        skip_because("this CPU has no unit for bytes");
    for (int size = 4; size <= 8; size += 4)
        for (int64_t n = 1; n < 200; n += n < 70 ? 1 : 13) {
            struct guarded from = guarded((size_t)(n * size), true), to = guarded((size_t)n, true);
            struct guarded sums = guarded((size_t)n * 4, true),
                           wide = guarded((size_t)(n * size), true);
            struct widened w = { .from = sums.data,
                                 .to = wide.data,
                                 .size = size,
                                 .unit = 0.25,
                                 .lines = 1,
                                 .length = n };

            for (int64_t i = 0; i < n; i++) {
                set_element(size == 8 ? LIMBER_F64 : LIMBER_F32, from.data + i * size,
                            (double)(i % 256) - 128);
                memcpy(sums.data + 4 * i, &(int32_t){ (int32_t)(i * 1000003) - 90000000 }, 4);
            }
            assert_true(ops->from_floats(t, size, from.data, 1, -128, 127, (uint8_t *)to.data, n));
            ops->to_floats(t, &w);
            for (int64_t i = 0; i < n; i++) {
                const int32_t sum = (int32_t)(i * 1000003) - 90000000;

                assert_int_equal(((int8_t *)to.data)[i], i % 256 - 128);
                if (size == 8)
                    assert_true(((double *)(void *)wide.data)[i] == sum * 0.25);
                else
                    assert_true(((float *)(void *)wide.data)[i] == (float)(sum * 0.25));
            }
            set_element(size == 8 ? LIMBER_F64 : LIMBER_F32, from.data + (n - 1) * size, 0.5);
            assert_false(ops->from_floats(t, size, from.data, 1, -128, 127, (uint8_t *)to.data, n));
            leave_guarded(from);
            leave_guarded(to);
            leave_guarded(sums);
            leave_guarded(wide);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products_are_the_interpreters),
                                        cmocka_unit_test(longest_sums_are_exact),
                                        cmocka_unit_test(units_at_the_ends_of_the_range_are_exact),
                                        cmocka_unit_test(prepared_operands_keep_the_bits),
                                        cmocka_unit_test(convolutions_are_the_interpreters),
                                        cmocka_unit_test(gradients_are_the_interpreters),
                                        cmocka_unit_test(failing_allocations_keep_the_result),
                                        cmocka_unit_test(
                                            only_operands_of_bytes_are_multiplied_as_bytes),
                                        cmocka_unit_test(nothing_beyond_the_operands_is_accessed) };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
