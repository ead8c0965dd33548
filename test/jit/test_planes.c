/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions of many channels in every direction, in two and three dimensions: by integer limbs,
 * whose planes (one per limb and channel group) have words of several channels, and in the
 * documented order of floats.  They run on every available instruction set and must have the
 * interpreter's bits. */
#include "contexts.h"
#include "engine_support.h"
#include "support.h"

#include "jit/api/api.h"
#include "targets.h"
#ifdef LIMBER_HAVE_LLVM
#include "amx_emulator.h"
extern const struct backend limber_backend_llvm;
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 16 };

static limber_context *context[MOST], *interp;
static int contexts;
static bool emulates; /* some context uses AMX, which this CPU lacks and the test emulates */

/* Opens a context and adds it to those that are compared. */
static limber_context *add_context(limber_kernels kernels, int threads)
{
    context[contexts] = group_context(.kernels = kernels, .threads = threads);
    assert_non_null(context[contexts]);
    set_planless(context[contexts], false);
    return context[contexts++];
}

/* Adds a context for each instruction set that the CPU has or the test can emulate. */
static void add_targets(void)
{
#ifdef LIMBER_HAVE_LLVM
    struct diag d = { 0 };
    struct target here;

    if (!limber_backend_llvm.probe(&here, &d))
        return;
    for (size_t t = 0; t < COUNT(targets); t++) {
        bool emulated = targets[t].emulated & CPU_amx && !strstr(here.features, "amxint8");
        struct target *to;

        if (targets[t].emulated & CPU_fp16 || !strstr(here.features, targets[t].needs) ||
            (emulated && !amx_emulate()))
            continue;
        if (emulated) {
            limber_cpu_emulated = CPU_amx;
            emulates = true;
        }
        to = &add_context(LIMBER_KERNELS_PREBUILT, 1)->machine.target;
        memset(to, 0, sizeof *to);
        assert_true(limber_target_parse(to, targets[t].text, &d));
        limber_target_complete(to);
    }
#endif
}

static int make_contexts(void **state)
{
    (void)state;
    add_context(LIMBER_KERNELS_AUTO, 1);
    add_context(LIMBER_KERNELS_PREBUILT, 3);
    add_targets();
    interp = group_context(.backend = "interp");
    return interp ? 0 : -1;
}

/* ---- random convolutions --------------------------------------------------------------------- */

/* The kinds of convolutions. */
static const struct kind {
    limber_promise promise;
    const char *scheme, *a, *b, *c;
    int bits; /* number of bits of integer elements; 0: elements are floats with any values */
} kinds[] = {
    { LIMBER_CONTRACT_EXACT, NULL, "i8", "i8", "i32", 8 },
    { LIMBER_CONTRACT_EXACT, NULL, "u8", "i8", "i32", 7 },
    { LIMBER_CONTRACT_EXACT, NULL, "i8", "u8", "i32", 7 },
    { LIMBER_CONTRACT_EXACT, NULL, "u8", "u8", "i64", 7 },
    { LIMBER_CONTRACT_EXACT, NULL, "i16", "i8", "i64", 8 },
    { LIMBER_CONTRACT_CORRECT, "ozaki1-i8", "f32", "f32", "f32", 8 },
    { LIMBER_CONTRACT_CORRECT, "ozaki1-i8", "f64", "f64", "f64", 20 },
    { LIMBER_CONTRACT_CORRECT, "ozaki2", "f64", "f64", "f64", 0 },
    { LIMBER_CONTRACT_CORRECT, NULL, "f32", "f32", "f32", 8 },
    { LIMBER_CONTRACT_CORRECT, NULL, "f32", "f32", "f32", 0 },
    { LIMBER_CONTRACT_CORRECT, "wider", "f32", "f32", "f32", 0 },
    { LIMBER_CONTRACT_CORRECT, "accumulator", "f64", "f64", "f64", 0 },
    { LIMBER_CONTRACT_CORRECT, "accumulator", "f32", "f32", "f64", 0 },
    { LIMBER_CONTRACT_CORRECT, "accumulator", "bf16", "f16", "f32", 0 },
    { LIMBER_CONTRACT_REPRODUCIBLE, NULL, "f32", "f32", "f32", 0 },
    { LIMBER_CONTRACT_REPRODUCIBLE, NULL, "f64", "f64", "f64", 0 },
    { LIMBER_CONTRACT_REPRODUCIBLE, NULL, "bf16", "bf16", "f32", 0 },
};

/* A random convolution; the arrays are by operand: A, B, C. */
struct work {
    const struct kind *kind;
    limber_conv s;
    limber_operation operation;
    limber_format f[3];
    int64_t count[3];
    char *data[3];
    bool adds;
};

/* Draws a convolution: groups, layout, strides, padding and, rarely, depth. */
static void make_geometry(limber_conv *s, struct rng *r)
{
    *s = (limber_conv)LIMBER_CONV_INIT;
    s->groups = rng_below(r, 6) ? 1 : 2;
    s->n = 1 + rng_below(r, 2);
    s->c = s->groups * (1 + rng_below(r, rng_below(r, 4) ? 24 : 70));
    s->o = s->groups * (1 + rng_below(r, rng_below(r, 4) ? 20 : 40));
    s->layout = rng_below(r, 2) ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
    for (int i = 0; i < 2; i++) {
        s->stride[i] = 1 + rng_below(r, 2);
        s->dilate[i] = rng_below(r, 5) ? 1 : 2;
    }
    for (int i = 0; i < 4; i++)
        s->pad[i] = rng_below(r, 3);
    if (rng_below(r, 6) == 0) {
        s->t = 1 + rng_below(r, 3);
        s->d = s->t + rng_below(r, 3);
        s->depth_stride = 1 + rng_below(r, 2);
        s->depth_dilate = 1;
        s->depth_pad[0] = rng_below(r, 2);
        s->depth_pad[1] = rng_below(r, 2);
    }
    do {
        s->r = 1 + rng_below(r, 3);
        s->s = 1 + rng_below(r, rng_below(r, 5) ? 3 : 7);
        s->h = 1 + rng_below(r, 9);
        s->w = 1 + rng_below(r, rng_below(r, 5) ? 9 : 40);
    } while (s->h + s->pad[0] + s->pad[1] < s->dilate[0] * (s->r - 1) + 1 ||
             s->w + s->pad[2] + s->pad[3] < s->dilate[1] * (s->s - 1) + 1);
}

/* Draws an element of this kind. */
static double draw_number(const struct kind *k, limber_format f, struct rng *r)
{
    double x = (double)rng_below(r, 1 << 30) / (1 << 29) - 1;

    if (k->bits) {
        x = floor(ldexp(x, k->bits - 1));
        return f.kind == LIMBER_KIND_UINT ? fabs(x) * 2 : x;
    }
    /* values whose sums cancel, and a few infinities and NaN */
    if (rng_below(r, 400) == 0)
        return rng_below(r, 2) ? INFINITY : NAN;
    return rng_below(r, 8) ? x : ldexp(x, 40 * (int)rng_below(r, 2));
}

/* Draws a convolution, its tensors and scalars. */
static void make_work(struct work *w, const struct kind *k, struct rng *r)
{
    static const limber_operation operations[] = { LIMBER_OPERATION_CONV_FORWARD,
                                                   LIMBER_OPERATION_CONV_FORWARD,
                                                   LIMBER_OPERATION_CONV_BACKWARD_DATA,
                                                   LIMBER_OPERATION_CONV_BACKWARD_FILTER };
    const char *names[] = { k->a, k->b, k->c };
    int64_t od = 1, oh, ow, images, filters, results;

    *w = (struct work){ .kind = k, .adds = rng_below(r, 3) == 0 };
    make_geometry(&w->s, r);
    w->operation = operations[rng_below(r, (int)COUNT(operations))];
    assert_int_equal(limber_conv_output(&w->s, &oh, &ow), LIMBER_STATUS_OK);
    if (w->s.t)
        assert_int_equal(limber_conv_output_depth(&w->s, &od), LIMBER_STATUS_OK);
    images = w->s.n * w->s.c * w->s.h * w->s.w * (w->s.t ? w->s.d : 1);
    filters = w->s.o * (w->s.c / w->s.groups) * w->s.r * w->s.s * (w->s.t ? w->s.t : 1);
    results = w->s.n * w->s.o * od * oh * ow;
    w->count[0] = w->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ? results : images;
    w->count[1] = w->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? results : filters;
    w->count[2] = w->operation == LIMBER_OPERATION_CONV_FORWARD         ? results :
                  w->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? filters :
                                                                          images;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(limber_format_named(names[i], &w->f[i]), LIMBER_STATUS_OK);
        /* a block of the exact size, so that a sanitizer detects reads past its end */
        w->data[i] = malloc((size_t)w->count[i] * w->f[i].size);
        for (int64_t j = 0; j < w->count[i]; j++) {
            double x = draw_number(k, w->f[i], r);

            limber_convert(w->data[i] + j * w->f[i].size, w->f[i], &x, LIMBER_F64, 1,
                           LIMBER_ROUND_NEAREST);
        }
    }
}

/* Computes the convolution with beta = -1.  Returns the result, which the caller frees. */
static char *run_convolution(limber_context *ctx, const struct work *w)
{
    size_t bytes = (size_t)w->count[2] * w->f[2].size;
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    char *c = malloc(bytes), beta[16];

    memcpy(c, w->data[2], bytes);
    store_scalar(beta, w->f[2], -1);
    contract.promise = w->kind->promise;
    contract.scheme = w->kind->scheme;
    p.operation = w->operation;
    p.conv = &w->s;
    p.contract = &contract;
    p.a = (limber_matrix){ w->data[0], w->f[0], 0, 0 };
    p.b = (limber_matrix){ w->data[1], w->f[1], 0, 0 };
    p.beta = w->adds ? beta : NULL;
    p.c = (limber_output){ c, w->f[2], 0, 0 };
    if (limber_run(ctx, &p, NULL))
        fail_msg("%s", limber_error_text());
    return c;
}

/* Compares two results.  On a difference, the message describes the convolution. */
static void compare_results(const struct work *w, const limber_context *ctx, const char *got,
                            const char *want)
{
    const limber_conv *s = &w->s;
    int64_t i = 0;

    while (i < w->count[2] && same_number(w->f[2], got + i * w->f[2].size, want + i * w->f[2].size))
        i++;
    if (i == w->count[2])
        return;
    fail_msg("element %d of %d, %s, %s x %s, %s, t %d d %d: n %d c %d h %d w %d o %d r %d s %d "
             "stride %d,%d dilate %d,%d pad "
             "%d,%d,%d,%d groups %d layout %d operation %d adds %d",
             (int)i, (int)w->count[2], ctx->machine.target.isa, w->kind->a, w->kind->b,
             w->kind->scheme ? w->kind->scheme : "-", (int)s->t, (int)s->d, (int)s->n, (int)s->c,
             (int)s->h, (int)s->w, (int)s->o, (int)s->r, (int)s->s, (int)s->stride[0],
             (int)s->stride[1], (int)s->dilate[0], (int)s->dilate[1], (int)s->pad[0],
             (int)s->pad[1], (int)s->pad[2], (int)s->pad[3], (int)s->groups, s->layout,
             w->operation, w->adds);
}

/* Random convolutions of all kinds have the interpreter's bits in every context. */
static void bits_are_the_interpreters(void **state)
{
    const int trials = SANITIZED ? 168 : is_long() ? 616 : 280;

    (void)state;
#ifdef LIMBER_HAVE_LLVM
    if (emulates) /* cmocka installs its own SIGILL handler after the group's set-up */
        assert_true(amx_emulate());
#endif
    for (int i = 0; i < trials; i++) {
        struct rng r = { 300 + (uint64_t)i };
        struct work w;
        char *want;

        make_work(&w, &kinds[(size_t)i % COUNT(kinds)], &r);
        want = run_convolution(interp, &w);
        for (int c = 0; c < contexts; c++) {
            char *got = run_convolution(context[c], &w);

            compare_results(&w, context[c], got, want);
            free(got);
        }
        free(want);
        for (int j = 0; j < 3; j++)
            free(w.data[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bits_are_the_interpreters) };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
