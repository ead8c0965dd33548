/* SPDX-License-Identifier: BSD-3-Clause
 * Tests convolutions and both gradients with random geometry: against the definition, against each
 * other (the directions are adjoint), and between backends, threads and layouts. */
#include "convs.h"
#include "support.h"
#include "contexts.h"
#include "used.h"

#include "ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LLVM, THREADS, INTERP, CONTEXTS };

static limber_context *context[CONTEXTS];

/* cmocka set-up: creates contexts with compiled kernels, in one thread and in three, and one of the
 * interpreter. */
static int make_contexts(void **state)
{
    static const char *const backends[] = { NULL, NULL, "interp" };

    (void)state;
    for (int i = 0; i < CONTEXTS; i++) {
        context[i] = group_context(.backend = backends[i], .threads = i == THREADS ? 3 : 1,
                                   .allocator = used_memory());
        if (!context[i])
            return -1;
    }
    return 0;
}

/* Draws the depth of a 3-D convolution so that its window fits the padded image. */
static void make_depth(limber_conv *s, struct rng *r)
{
    s->depth_stride = rng_below(r, 4); /* 0 stands for 1 */
    s->depth_dilate = rng_below(r, 3);
    s->depth_pad[0] = rng_below(r, 3);
    s->depth_pad[1] = rng_below(r, 3);
    do {
        s->t = 1 + rng_below(r, 3);
        s->d = 1 + rng_below(r, 5);
    } while (s->d + s->depth_pad[0] + s->depth_pad[1] <
             (s->depth_dilate ? s->depth_dilate : 1) * (s->t - 1) + 1);
}

/* Makes a random convolution and its tensors.  most: rough upper limit of the image's height and
 * width. */
static void make_random(struct trial *t, struct rng *r, int64_t most)
{
    limber_conv *s = &t->s;

    *s = (limber_conv)LIMBER_CONV_INIT;
    s->groups = 1 + rng_below(r, 3);
    s->n = 1 + rng_below(r, 3);
    s->c = s->groups * (1 + rng_below(r, 4));
    s->o = s->groups * (1 + rng_below(r, 5));
    for (int i = 0; i < 2; i++) {
        s->stride[i] = 1 + rng_below(r, rng_below(r, 8) ? 4 : 12);
        s->dilate[i] = 1 + rng_below(r, 3);
    }
    for (int i = 0; i < 4; i++)
        s->pad[i] = rng_below(r, 4);
    s->layout = rng_below(r, 2) ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
    if (rng_below(r, 3) == 0)
        make_depth(s, r);
    do {
        s->r = 1 + rng_below(r, 4);
        s->s = 1 + rng_below(r, 4);
        s->h = 1 + rng_below(r, most);
        s->w = 1 + rng_below(r, most);
    } while (s->h + s->pad[0] + s->pad[1] < s->dilate[0] * (s->r - 1) + 1 ||
             s->w + s->pad[2] + s->pad[3] < s->dilate[1] * (s->s - 1) + 1);
    if (rng_below(r, 8) == 0) {
        s->h = s->r = s->stride[0] = s->dilate[0] = 1;
        s->pad[0] = s->pad[1] = 0;
    }
    trial_open(t);
    for (int i = 0; i < TENSORS; i++)
        for (int64_t j = 0; j < t->count[i]; j++)
            t->v[i][j] = (double)rng_below(r, 15) - 7;
}

/* Gives each group of channels its own exponents and number of bits, so that a choice that looks at
 * one group only would be wrong for others.  Sums still fit binary32. */
static void vary_groups(struct trial *t, struct rng *r)
{
    for (int i = 0; i < TENSORS; i++) {
        int64_t channels = i == W ? t->dim[W][0] : t->dim[i][1];
        int64_t each = channels / t->s.groups, pixels = t->count[i] / t->dim[i][0];
        int shift[16], bits[16];

        assert_true(t->s.groups <= 16);
        for (int64_t g = 0; g < t->s.groups; g++) {
            shift[g] = rng_below(r, 13) - 6;
            bits[g] = rng_below(r, i == X ? 10 : 4);
        }
        if (i != W)
            pixels /= channels;
        for (int64_t j = 0; j < t->count[i]; j++) {
            int64_t g = j / pixels % channels / each;
            double sign = t->v[i][j] < 0 ? -1 : t->v[i][j] > 0;

            t->v[i][j] = ldexp(sign * (1 + rng_below(r, 1 << bits[g])), shift[g]);
        }
    }
}

/* Fails the test with a description of the convolution and the element. */
static void fail_at(const struct trial *t, int direction, int ctx, const char *scheme, int64_t i,
                    double got, double want)
{
    const limber_conv *s = &t->s;

    fail_msg("direction %d, context %d, %s: n %d c %d h %d w %d o %d r %d s %d stride %d,%d dilate "
             "%d,%d pad %d,%d,%d,%d groups %d layout %d; d %d t %d stride %d dilate %d pad %d,%d: "
             "element %d is %g, not %g",
             direction, ctx, scheme, (int)s->n, (int)s->c, (int)s->h, (int)s->w, (int)s->o,
             (int)s->r, (int)s->s, (int)s->stride[0], (int)s->stride[1], (int)s->dilate[0],
             (int)s->dilate[1], (int)s->pad[0], (int)s->pad[1], (int)s->pad[2], (int)s->pad[3],
             (int)s->groups, (int)s->layout, (int)s->d, (int)s->t, (int)s->depth_stride,
             (int)s->depth_dilate, (int)s->depth_pad[0], (int)s->depth_pad[1], (int)i, got, want);
}

/* Computes a convolution or gradient in one context, and checks every element.  direction: index of
 * the operation. */
static void check_convolution(const struct trial *t, int direction, const limber_contract *contract,
                              limber_format f, limber_format to, int ctx, int scalars)
{
    int tensor = written[direction];
    double *sum = malloc((size_t)t->count[tensor] * sizeof *sum), got;
    char *a = stored(t, reads[direction][0], f), *b = stored(t, reads[direction][1], f);
    char *c = stored(t, tensor, to), alpha[16], beta[16];
    limber_report report = LIMBER_REPORT_INIT;

    store_scalar(alpha, to, 2);
    store_scalar(beta, to, -1);
    convolve_by_definition(t, direction, sum);
    if (run_direction(context[ctx], direction, contract, &t->s, f, a, b, to, c,
                      scalars ? alpha : NULL, scalars ? beta : NULL, &report))
        fail_msg("direction %d: %s", direction, limber_error_text());
    for (int64_t i = 0; i < t->count[tensor]; i++) {
        double want = scalars ? 2 * sum[i] - t->v[tensor][i] : sum[i];

        limber_convert(&got, LIMBER_F64, c + place(t, tensor, i) * to.size, to, 1,
                       LIMBER_ROUND_NEAREST);
        if (got != want && !(isnan(got) && isnan(want)))
            fail_at(t, direction, ctx, report.scheme, i, got, want);
    }
    free(sum);
    free(a);
    free(b);
    free(c);
}

/* The contracts of the convolutions.  unit: the unit of LIMBER_CONTRACT_SIMULATE, else NULL. */
static const struct kind {
    limber_promise promise;
    const char *scheme, *from, *to, *unit;
} kinds[] = {
    { LIMBER_CONTRACT_NATIVE, NULL, "f32", "f32", NULL },
    { LIMBER_CONTRACT_NATIVE, "native", "f32", "f32", NULL },
    { LIMBER_CONTRACT_NATIVE, "native", "f64", "f64", NULL },
    { LIMBER_CONTRACT_CORRECT, NULL, "f64", "f64", NULL },
    { LIMBER_CONTRACT_CORRECT, NULL, "f32", "f32", NULL },
    { LIMBER_CONTRACT_CORRECT, NULL, "f16", "f32", NULL },
    { LIMBER_CONTRACT_CORRECT, "ozaki2", "f32", "f32", NULL },
    { LIMBER_CONTRACT_BITS, NULL, "f32", "f64", NULL },
    { LIMBER_CONTRACT_CORRECT, "wider", "f32", "f32", NULL },
    { LIMBER_CONTRACT_CORRECT, "ozaki2", "f64", "f64", NULL },
    { LIMBER_CONTRACT_CORRECT, "ozaki1-i8", "f64", "f64", NULL },
    { LIMBER_CONTRACT_CORRECT, "accumulator", "f64", "f64", NULL },
    { LIMBER_CONTRACT_CORRECT, "ozaki2", "f128", "f128", NULL },
    { LIMBER_CONTRACT_FAST, "fp32-b", "f32", "f32", NULL },
    { LIMBER_CONTRACT_EXACT, "integer", "i8", "i32", NULL },
    { LIMBER_CONTRACT_EXACT, "integer", "i32", "i64", NULL },
    { LIMBER_CONTRACT_REPRODUCIBLE, NULL, "f32", "f32", NULL },
    { LIMBER_CONTRACT_SIMULATE, NULL, "f16", "f32", "h100-fp16" },
    { LIMBER_CONTRACT_CORRECT, "ozaki2", "dd", "dd", NULL },
    { LIMBER_CONTRACT_EXACT, "integer", "i16", "i64", NULL },
    { LIMBER_CONTRACT_CORRECT, "ozaki1-f16", "f64", "f64", NULL },
    { LIMBER_CONTRACT_FAST, "fp32-f", "f32", "f32", NULL },
    { LIMBER_CONTRACT_SIMULATE, NULL, "f64", "f64", "a100-fp64" },
    { LIMBER_CONTRACT_SIMULATE, NULL, "f32", "f32", "a100-tf32" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static limber_format format(const char *name)
{
    limber_format f;

    assert_int_equal(limber_format_named(name, &f), LIMBER_STATUS_OK);
    return f;
}

/* Returns the contract of a kind of operation.  Its unit, if there is one, is valid until the next
 * call. */
static limber_contract contract_of(const struct kind *k)
{
    static limber_unit unit = LIMBER_UNIT_INIT;
    limber_contract c = LIMBER_CONTRACT_INIT;

    c.promise = k->promise;
    c.scheme = k->scheme;
    c.bits = k->promise == LIMBER_CONTRACT_BITS ? 20 : 0;
    if (k->unit) {
        assert_int_equal(limber_unit_parse(k->unit, &unit), LIMBER_STATUS_OK);
        c.unit = &unit;
    }
    return c;
}

/* In 3000 random convolutions and gradients of all kinds, every element agrees with the
 * definition as the contract requires. */
static void every_direction_equals_its_definition(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++) {
        const struct kind *k = &kinds[i % KINDS];
        limber_contract contract = contract_of(k);
        struct rng r = { 4000 + (uint64_t)i };
        struct trial t;

        make_random(&t, &r, i % 50 ? 7 : 24);
        if (format(k->from).kind == LIMBER_KIND_FLOAT && i / 3 % 2 == 0)
            vary_groups(&t, &r);
        check_convolution(&t, i / KINDS % DIRECTIONS, &contract, format(k->from), format(k->to),
                          i / 7 % CONTEXTS, i / 3 % 2);
        trial_close(&t);
    }
}

/* Makes convolutions with enough channels and filters for several vectors, register tiles and
 * chains, but few images and groups. */
static void make_many_channels(struct trial *t, struct rng *r)
{
    limber_conv *s = &t->s;
    int64_t window = 1 + rng_below(r, 3), strides = 1 + 2 * rng_below(r, 2);

    *s = (limber_conv)LIMBER_CONV_INIT;
    s->groups = 1 + (rng_below(r, 6) == 0);
    s->n = 1 + (rng_below(r, 6) == 0);
    s->c = s->groups * (1 + rng_below(r, window == 1 ? 120 : 40));
    s->o = s->groups * (1 + rng_below(r, window == 1 || rng_below(r, 2) == 0 ? 120 : 40));
    s->r = s->s = window;
    s->h = window + rng_below(r, 12);
    s->w = window + rng_below(r, 12);
    for (int i = 0; i < 2; i++) {
        s->stride[i] = 1 + rng_below(r, strides);
        s->dilate[i] = 1;
    }
    for (int i = 0; i < 4; i++)
        s->pad[i] = rng_below(r, 2);
    s->layout = rng_below(r, 2) ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
    /* a number of channels with which pixels compete for the same cache sets */
    if (rng_below(r, 8) == 0) {
        int64_t *many = rng_below(r, 2) ? &s->c : &s->o;

        s->c = s->groups * (1 + rng_below(r, 4));
        s->o = s->groups * (1 + rng_below(r, 4));
        *many = s->groups * ((int64_t)512 << rng_below(r, 3));
        s->h = window + rng_below(r, 4);
        s->w = window + rng_below(r, 4);
        s->layout = LIMBER_LAYOUT_NHWC;
    }
    trial_open(t);
    for (int i = 0; i < TENSORS; i++)
        for (int64_t j = 0; j < t->count[i]; j++)
            t->v[i][j] = (double)rng_below(r, 15) - 7;
}

/* Convolutions and gradients with many channels agree with the definition, in FP32, FP64 and
 * INT8. */
static void many_channels_equal_the_definition(void **state)
{
    static const struct kind kind[] = { { LIMBER_CONTRACT_NATIVE, NULL, "f32", "f32", NULL },
                                        { LIMBER_CONTRACT_NATIVE, NULL, "f64", "f64", NULL },
                                        { LIMBER_CONTRACT_EXACT, NULL, "i8", "i32", NULL } };

    (void)state;
    for (int i = 0; i < 360; i++) {
        const struct kind *k = &kind[i % 3];
        limber_contract contract = contract_of(k);
        struct rng r = { 12000 + (uint64_t)i };
        struct trial t;

        make_many_channels(&t, &r);
        check_convolution(&t, i / 3 % DIRECTIONS, &contract, format(k->from), format(k->to),
                          i / 9 % (CONTEXTS - 1), i / 2 % 4 == 0);
        trial_close(&t);
    }
}

/* Dilation and padding are so large that a padded image would not fit in memory. */
static void serve_far_windows(limber_layout layout)
{
    const int64_t far = (int64_t)1 << 30;
    limber_conv s = LIMBER_CONV_INIT;
    double x[16], w[64], y, dx[16], dw[64];
    bool nchw = layout == LIMBER_LAYOUT_NCHW;

    s.n = s.o = s.h = s.w = s.groups = 1;
    s.c = 16;
    s.r = s.s = 2;
    s.stride[0] = s.stride[1] = 1;
    s.dilate[0] = s.dilate[1] = s.pad[0] = s.pad[2] = far;
    s.layout = layout;
    for (int i = 0; i < 64; i++) {
        w[i] = i % 7 - 3;
        x[i / 4] = i / 4 % 5 - 2;
    }
    for (int ctx = 0; ctx < CONTEXTS; ctx++) {
        double sum = 0, one = 1;
        limber_contract native = LIMBER_CONTRACT_INIT;

        /* only the last element of the window is inside the image */
        for (int i = 0; i < 16; i++)
            sum += x[i] * w[nchw ? 4 * i + 3 : 48 + i];
        assert_int_equal(run_direction(context[ctx], FORWARD, &native, &s, LIMBER_F64, x, w,
                                       LIMBER_F64, &y, NULL, NULL, NULL),
                         LIMBER_STATUS_OK);
        assert_true(y == sum);
        assert_int_equal(run_direction(context[ctx], DATA, &native, &s, LIMBER_F64, &one, w,
                                       LIMBER_F64, dx, NULL, NULL, NULL),
                         LIMBER_STATUS_OK);
        assert_int_equal(run_direction(context[ctx], FILTER, &native, &s, LIMBER_F64, x, &one,
                                       LIMBER_F64, dw, NULL, NULL, NULL),
                         LIMBER_STATUS_OK);
        for (int i = 0; i < 64; i++)
            if (nchw)
                assert_true(dx[i / 4] == w[i / 4 * 4 + 3] && dw[i] == (i % 4 == 3 ? x[i / 4] : 0));
            else
                assert_true(dx[i % 16] == w[48 + i % 16] && dw[i] == (i >= 48 ? x[i - 48] : 0));
    }
}

/* Convolutions are served whose padding or dilation is so large that most of a window lies outside
 * the image. */
static void far_windows_are_served(void **state)
{
    (void)state;
    serve_far_windows(LIMBER_LAYOUT_NCHW);
    serve_far_windows(LIMBER_LAYOUT_NHWC);
}

/* Tensors without images (n = 0), which may have no address; also for gradients with strides. */
static void tensors_without_images(void **state)
{
    limber_conv s = { .size = sizeof s,
                      .c = 4,
                      .o = 4,
                      .h = 5,
                      .w = 5,
                      .r = 1,
                      .s = 1,
                      .stride = { 2, 2 },
                      .dilate = { 1, 1 } };
    float w[16] = { 1 };

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int ctx = 0; ctx < CONTEXTS; ctx++) {
            limber_contract contract = LIMBER_CONTRACT_INIT;

            contract.promise = i % 2 ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE;
            s.groups = i < 2 ? 1 : 4;
            for (int d = FORWARD; d <= DATA; d++)
                if (run_direction(context[ctx], d, &contract, &s, LIMBER_F32, NULL, w, LIMBER_F32,
                                  NULL, NULL, NULL, NULL))
                    fail_msg("%s", limber_error_text());
        }
}

/* The inner products <conv(x, w), y>, <x, gradient of the image from y and w> and <w, gradient of
 * the filters from x and y> must be equal. */
static void directions_are_adjoint(void **state)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;

    (void)state;
    for (int i = 0; i < 120; i++) {
        bool exact = i % 2;
        limber_format from = exact ? LIMBER_I32 : LIMBER_F32, to = exact ? LIMBER_I64 : LIMBER_F64;
        struct rng r = { 9000 + (uint64_t)i };
        int64_t dot[DIRECTIONS] = { 0 };
        struct trial t;

        contract.promise = exact ? LIMBER_CONTRACT_EXACT : LIMBER_CONTRACT_CORRECT;
        make_random(&t, &r, 9);
        for (int d = 0; d < DIRECTIONS; d++) {
            int tensor = written[d];
            char *a = stored(&t, reads[d][0], from), *b = stored(&t, reads[d][1], from);
            char *own = stored(&t, tensor, to), *c = calloc((size_t)t.count[tensor], to.size);

            assert_int_equal(run_direction(context[i / 2 % CONTEXTS], d, &contract, &t.s, from, a,
                                           b, to, c, NULL, NULL, NULL),
                             LIMBER_STATUS_OK);
            for (int64_t j = 0; j < t.count[tensor]; j++) {
                double v[2];

                limber_convert(&v[0], LIMBER_F64, own + 8 * j, to, 1, LIMBER_ROUND_NEAREST);
                limber_convert(&v[1], LIMBER_F64, c + 8 * j, to, 1, LIMBER_ROUND_NEAREST);
                dot[d] += (int64_t)(v[0] * v[1]);
            }
            free(a);
            free(b);
            free(own);
            free(c);
        }
        assert_true(dot[FORWARD] == dot[DATA] && dot[FORWARD] == dot[FILTER]);
        trial_close(&t);
    }
}

/* Rounded sums of random floats must have the same bits on all backends and in both layouts. */
static void bits_are_the_same_everywhere(void **state)
{
    static const struct kind kind[] = {
        { LIMBER_CONTRACT_NATIVE, "native", "f32", "f32" },
        { LIMBER_CONTRACT_REPRODUCIBLE, NULL, "f64", "f64" },
        { LIMBER_CONTRACT_CORRECT, NULL, "f32", "f32" },
        { LIMBER_CONTRACT_FAST, "fp32-f", "f32", "f32" },
        { LIMBER_CONTRACT_SIMULATE, NULL, "f64", "f64", "a100-fp64" },
        { LIMBER_CONTRACT_SIMULATE, NULL, "f32", "f32", "in=f32 acc=f32" },
        { LIMBER_CONTRACT_NATIVE, "native", "f64", "f64" }
    };
    enum { COUNT_OF = sizeof kind / sizeof *kind };

    (void)state;
    for (int i = 0; i < 60 * COUNT_OF; i++) {
        const struct kind *k = &kind[i % COUNT_OF];
        limber_contract contract = contract_of(k);
        limber_format f = format(k->from);
        int d = i / COUNT_OF % DIRECTIONS, tensor = written[d];
        struct rng r = { 7000 + (uint64_t)i };
        char *got[2][CONTEXTS];
        struct trial t;

        if (i / COUNT_OF / DIRECTIONS % 3 == 2)
            make_many_channels(&t, &r); /* has sums of more than 256 terms, which is one chain */
        else
            make_random(&t, &r, 14);
        for (int j = 0; j < TENSORS; j++)
            for (int64_t l = 0; l < t.count[j]; l++)
                t.v[j][l] = (double)(rng_below(&r, 1 << 20) + 1) / (i % 2 ? -1000 : 3);
        for (int layout = 0; layout < 2; layout++) {
            char *a, *b;

            t.s.layout = layout ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
            a = stored(&t, reads[d][0], f);
            b = stored(&t, reads[d][1], f);
            for (int ctx = 0; ctx < CONTEXTS; ctx++) {
                got[layout][ctx] = calloc((size_t)t.count[tensor], f.size);
                if (run_direction(context[ctx], d, &contract, &t.s, f, a, b, f, got[layout][ctx],
                                  NULL, NULL, NULL))
                    fail_msg("%s", limber_error_text());
            }
            free(a);
            free(b);
        }
        for (int64_t j = 0; j < t.count[tensor]; j++)
            for (int layout = 0; layout < 2; layout++)
                for (int ctx = 0; ctx < CONTEXTS; ctx++) {
                    int64_t at;

                    t.s.layout = layout ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
                    at = place(&t, tensor, j);
                    if (memcmp(got[layout][ctx] + at * f.size, got[0][INTERP] + j * f.size, f.size))
                        fail_at(&t, d, ctx, k->scheme ? k->scheme : "-", j, layout, 0);
                }
        for (int j = 0; j < 2 * CONTEXTS; j++)
            free(got[j / CONTEXTS][j % CONTEXTS]);
        trial_close(&t);
    }
}

/* One tensor has NaN and infinities, the other is finite.  Each result must be what the definition
 * gives in IEEE 754 arithmetic, and padding must not add NaN. */
static void special_values_are_conventional(void **state)
{
    static const double special[] = { NAN, INFINITY, -INFINITY };

    (void)state;
    for (int i = 0; i < 720; i++) {
        const struct kind *k = &kinds[i % KINDS];
        const int direction = i / KINDS % DIRECTIONS, tensor = reads[direction][0];
        limber_contract contract = contract_of(k);
        struct rng r = { 15000 + (uint64_t)i };
        struct trial t;

        if (format(k->from).kind == LIMBER_KIND_INT)
            continue;
        make_random(&t, &r, 9);
        for (int64_t j = 0; j < t.count[tensor]; j++)
            if (rng_below(&r, 30) == 0)
                t.v[tensor][j] = special[rng_below(&r, 3)];
        check_convolution(&t, direction, &contract, format(k->from), format(k->to),
                          i / 7 % CONTEXTS, 0);
        trial_close(&t);
    }
}

/* Prepared filters must give the bits of unprepared ones, at the first use and at later ones. */
static void prepare_and_compare(int i, const struct kind *k, int direction, bool wide)
{
    const int read = reads[direction][0], wrote = 3 - W - read;
    limber_contract contract = contract_of(k);
    limber_format f = format(k->from), to = format(k->to);
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_prepare_config config = LIMBER_PREPARE_CONFIG_INIT;
    struct rng r = { 5000 + (uint64_t)i };
    limber_prepared *kept;
    char *x, *w, *y[2];
    limber_conv filters;
    size_t bytes;
    struct trial t;

    if (wide)
        make_many_channels(&t, &r);
    else
        make_random(&t, &r, i % 5 ? 9 : 20);
    bytes = (size_t)t.count[wrote] * to.size;
    x = stored(&t, read, f);
    w = stored(&t, W, f);
    y[0] = calloc(1, bytes);
    y[1] = calloc(1, bytes);
    p.operation = direction ? LIMBER_OPERATION_CONV_BACKWARD_DATA : LIMBER_OPERATION_CONV_FORWARD;
    p.conv = &t.s;
    p.contract = &contract;
    p.a = (limber_matrix){ x, f, 0, 0 };
    p.b = (limber_matrix){ w, f, 0, 0 };
    p.c = (limber_output){ y[0], to, 0, 0 };
    assert_int_equal(limber_run(context[i % CONTEXTS], &p, NULL), LIMBER_STATUS_OK);
    config.operation = i % 3 || direction ? (int64_t)p.operation : 0;
    filters = t.s;
    if (i % 4 == 0) /* the size of the image is that of the call, not that of the preparation */
        filters.n = filters.h = filters.w = filters.d = 0;
    if (limber_prepare_filters(context[i % CONTEXTS], &filters, w, f, &config, &kept))
        fail_msg("%s", limber_error_text());
    p.prepared_b = kept;
    p.c.data = y[1];
    for (int call = 0; call < 3; call++) {
        memset(y[1], 0x55, bytes);
        if (limber_run(context[i % CONTEXTS], &p, NULL) != LIMBER_STATUS_OK)
            fail_msg("%s", limber_error_text());
        assert_memory_equal(y[0], y[1], bytes);
    }
    limber_prepared_free(kept);
    free(x);
    free(w);
    free(y[0]);
    free(y[1]);
    trial_close(&t);
}

/* Convolutions and gradients with prepared filters have the bits of those with plain filters. */
static void filters_are_prepared(void **state)
{
    static const struct kind native[] = { { LIMBER_CONTRACT_NATIVE, NULL, "f32", "f32", NULL },
                                          { LIMBER_CONTRACT_NATIVE, NULL, "f64", "f64", NULL } };

    (void)state;
    for (int i = 0; i < (is_long() ? 24 : 12) * KINDS; i++)
        prepare_and_compare(i, &kinds[i % KINDS], i / KINDS % 2, i / (2 * KINDS) % 3 == 2);
    for (int i = 0; i < (is_long() ? 2000 : 800); i++)
        prepare_and_compare(i, &native[i / 8 % 2], i % 8 > 0, true);
}

/* Checks that the interpreter refuses a problem with this text. */
static void expect_refused(const limber_problem *p, const char *text)
{
    assert_refused(limber_run(context[INTERP], p, NULL), LIMBER_STATUS_BAD_ARGUMENT, text);
}

/* Prepared filters must be accepted only for the operation for which they were prepared.  For
 * gradients of images they depend on the strides, since each stride phase reads certain elements of
 * the window. */
static void prepared_filters_serve_what_they_are_for(void **state)
{
    float dy[2 * 16 * 16] = { 0 }, w[2 * 3 * 3 * 3] = { 0 }, dx[3 * 16 * 16];
    limber_prepare_config config = LIMBER_PREPARE_CONFIG_INIT;
    limber_conv s = LIMBER_CONV_INIT, t;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_prepared *back, *forward, *matrix, *none;

    (void)state;
    s.n = 1, s.c = 3, s.o = 2, s.groups = 1, s.h = s.w = 9, s.r = s.s = 3;
    s.pad[0] = s.pad[1] = s.pad[2] = s.pad[3] = 1;
    s.stride[0] = s.stride[1] = 2, s.dilate[0] = s.dilate[1] = 1;
    config.operation = LIMBER_OPERATION_CONV_BACKWARD_DATA;
    assert_int_equal(limber_prepare_filters(context[INTERP], &s, w, LIMBER_F32, &config, &back), 0);
    assert_int_equal(limber_prepare_filters(context[INTERP], &s, w, LIMBER_F32, NULL, &forward), 0);
    assert_int_equal(limber_prepare(context[INTERP], (limber_matrix){ w, LIMBER_F32, 27, 1 }, 2, 27,
                                    LIMBER_SIDE_A, NULL, &matrix),
                     0);
    p.operation = LIMBER_OPERATION_CONV_BACKWARD_DATA;
    p.conv = &t;
    p.a = (limber_matrix){ dy, LIMBER_F32, 0, 0 };
    p.b = (limber_matrix){ w, LIMBER_F32, 0, 0 };
    p.c = (limber_output){ dx, LIMBER_F32, 0, 0 };
    p.prepared_b = back;
    t = s, t.h = 8, t.pad[1] = 2; /* these fields may differ from those at preparation */
    assert_int_equal(limber_run(context[INTERP], &p, NULL), LIMBER_STATUS_OK);
    t = s, t.stride[1] = 1, t.w = 5;
    expect_refused(&p, "prepared_b was prepared with another conv.stride[1]");
    t = s, t.pad[2] = 0, t.w = 10;
    expect_refused(&p, "prepared_b was prepared with another conv.pad[2]");
    t = s, t.dilate[0] = 2, t.h = 11;
    expect_refused(&p, "prepared_b was prepared with another conv.dilate[0]");
    t = s, t.layout = LIMBER_LAYOUT_NHWC;
    expect_refused(&p, "prepared_b was prepared with another conv.layout");
    t = s, t.r = 1, t.s = 9, t.pad[0] = t.pad[1] = 0, t.w = 15;
    expect_refused(&p, "prepared_b was prepared with another conv.r");
    t = s;
    p.prepared_b = forward;
    expect_refused(&p, "prepared_b was prepared for forward convolutions, not for backward data");
    p.prepared_b = matrix;
    expect_refused(&p, "prepared_b was prepared for products of matrices, not for backward data");
    p.operation = LIMBER_OPERATION_CONV_BACKWARD_FILTER;
    expect_refused(&p, "prepared_b: a gradient of filters reads no filters");
    p = (limber_problem)LIMBER_PROBLEM_INIT;
    p.m = 2, p.n = 1, p.k = 27;
    p.a = (limber_matrix){ w, LIMBER_F32, 27, 1 };
    p.b = (limber_matrix){ dy, LIMBER_F32, 1, 1 };
    p.c = (limber_output){ dx, LIMBER_F32, 1, 1 };
    p.prepared_a = back;
    expect_refused(&p, "prepared_a was prepared for backward data, not for products of matrices");
    config.operation = LIMBER_OPERATION_CONV_BACKWARD_FILTER;
    assert_refused(limber_prepare_filters(context[INTERP], &s, w, LIMBER_F32, &config, &none),
                   LIMBER_STATUS_BAD_ARGUMENT, "config.operation = 3 reads no filters");
    assert_null(none);
    config.operation = LIMBER_OPERATION_CONV_BACKWARD_DATA;
    s.stride[1] = 0;
    assert_refused(limber_prepare_filters(context[INTERP], &s, w, LIMBER_F32, &config, &none),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv.stride[1] = 0");
    t = s, t.stride[1] = 2, t.o = 0, t.c = t.groups = (int64_t)1 << 32, t.r = 65537, t.s = 65535;
    assert_refused(limber_prepare_filters(context[INTERP], &t, w, LIMBER_F32, &config, &none),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv.groups and the window");
    assert_refused(limber_prepare(context[INTERP], (limber_matrix){ w, LIMBER_F32, 27, 1 }, 2, 27,
                                  LIMBER_SIDE_A, &config, &none),
                   LIMBER_STATUS_BAD_ARGUMENT, "config.operation = 2");
    limber_prepared_free(back);
    limber_prepared_free(forward);
    limber_prepared_free(matrix);
}

/* A gradient with strides is computed as one product for each stride phase.  Plan and report must
 * describe the phase with the longest sums. */
static void plans_of_strides_are_those_that_run(void **state)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_report planned = LIMBER_REPORT_INIT, ran = LIMBER_REPORT_INIT;
    limber_conv s = LIMBER_CONV_INIT;
    struct rng r = { 77 };
    double *dy, *w, *dx;
    char *text;

    (void)state;
    s.n = 1, s.c = 9, s.o = 40, s.groups = 1;
    s.h = s.w = 15, s.r = s.s = 3;
    s.pad[0] = s.pad[1] = s.pad[2] = s.pad[3] = 1;
    s.stride[0] = s.stride[1] = 2, s.dilate[0] = s.dilate[1] = 1;
    dy = calloc(40 * 8 * 8, sizeof *dy);
    w = calloc(40 * 9 * 9, sizeof *w);
    dx = calloc(9 * 15 * 15, sizeof *dx);
    fill(&r, DATA_unit, LIMBER_F64, dy, 40 * 8 * 8);
    fill(&r, DATA_unit, LIMBER_F64, w, 40 * 9 * 9);
    contract.promise = LIMBER_CONTRACT_CORRECT;
    contract.scheme = "ozaki2"; /* the kernel of ozaki2 depends on the length of sums */
    p.operation = LIMBER_OPERATION_CONV_BACKWARD_DATA;
    p.conv = &s;
    p.contract = &contract;
    p.a = (limber_matrix){ dy, LIMBER_F64, 0, 0 };
    p.b = (limber_matrix){ w, LIMBER_F64, 0, 0 };
    p.c = (limber_output){ dx, LIMBER_F64, 0, 0 };
    assert_int_equal(limber_plan(context[LLVM], &p, &text, &planned), LIMBER_STATUS_OK);
    limber_free(text);
    assert_int_equal(limber_run(context[LLVM], &p, &ran), LIMBER_STATUS_OK);
    assert_string_equal(planned.kernel, ran.kernel);
    assert_true(planned.bound <= ran.bound);
    free(dy);
    free(w);
    free(dx);
}

/* True if some element of the window, at some position, reads the pixel at coordinate x (of one
 * dimension). */
static bool is_reached(int64_t x, int64_t window, int64_t stride, int64_t pad, int64_t results)
{
    for (int64_t at = 0; at < window; at++)
        if (x + pad >= at && (x + pad - at) % stride == 0 && (x + pad - at) / stride < results)
            return true;
    return false;
}

/* Pixels of dx that no window reads must equal the result of a product with k = 0, in every
 * implementation of strided gradients. */
static void check_unreached(const limber_conv *s, const struct kind *k, double alpha, bool adds)
{
    enum { H = 5, MOST_C = 4 };
    const limber_format from = named(k->from), to = named(k->to);
    const bool whole = to.kind == LIMBER_KIND_INT;
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = k->promise,
                                       .bits = k->promise == LIMBER_CONTRACT_BITS ? 40 : 0,
                                       .scheme = k->scheme };
    const int64_t oh = (H + s->pad[0] + s->pad[1] - s->r) / s->stride[0] + 1;
    const int64_t ow = (H + s->pad[2] + s->pad[3] - s->s) / s->stride[1] + 1;
    const double one = 1;
    char dy[H * H * MOST_C * 16], w[MOST_C * MOST_C * 4 * 16], dx[H * H * MOST_C * 16];
    char want[16], by[16], beta[16], before[16];
    int found = 0;

    if (whole && !isfinite(alpha))
        return;
    for (size_t i = 0; i < sizeof dy / 16; i++)
        limber_convert(dy + i * from.size, from, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    for (size_t i = 0; i < sizeof w / 16; i++)
        limber_convert(w + i * from.size, from, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    store_scalar(by, to, alpha);
    store_scalar(beta, to, -3);
    limber_convert(before, to, &one, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    for (int c = 0; c < CONTEXTS; c++) {
        memcpy(want, before, sizeof want);
        if (limber_gemm(context[c], &contract, 1, 1, 0, by, (limber_matrix){ dy, from, 1, 1 },
                        (limber_matrix){ dy, from, 1, 1 }, adds ? beta : NULL,
                        (limber_output){ want, to, 1, 1 }, NULL))
            fail_msg("%s", limber_error_text());
        for (int64_t i = 0; i < s->c * H * H; i++)
            memcpy(dx + i * to.size, before, to.size);
        if (run_direction(context[c], DATA, &contract, s, from, dy, w, to, dx, by,
                          adds ? beta : NULL, NULL))
            fail_msg("%s", limber_error_text());
        for (int64_t i = 0; i < s->c * H * H; i++) {
            const bool nhwc = s->layout == LIMBER_LAYOUT_NHWC;
            const int64_t pixel = nhwc ? i / s->c : i % (H * H), y = pixel / H, x = pixel % H;

            if (is_reached(y, s->r, s->stride[0], s->pad[0], oh) &&
                is_reached(x, s->s, s->stride[1], s->pad[2], ow))
                continue;
            found++;
            if (!same_number(to, want, dx + i * to.size))
                fail_msg("%s to %s, promise %d, alpha %g, window %d, strides %d %d, groups %d, "
                         "layout %d, context %d: an empty sum at %d, %d is %a, not %a",
                         k->from, k->to, (int)k->promise, alpha, (int)s->r, (int)s->stride[0],
                         (int)s->stride[1], (int)s->groups, (int)s->layout, c, (int)y, (int)x,
                         limber_format_value(to, dx + i * to.size), limber_format_value(to, want));
        }
    }
    assert_true(found > 0);
}

/* Strides above the window's size leave pixels that no window reaches.  Their gradient is alpha
 * times an empty sum (0, -0 or NaN), with or without C added. */
static void unreached_pixels_are_empty_sums(void **state)
{
    static const double alphas[] = { 1, -1, -0.0, 2, INFINITY, -INFINITY, NAN };
    int turn = 0;

    (void)state;
    for (int shape = 0; shape < 16; shape++)
        for (size_t a = 0; a < COUNT(alphas); a++)
            for (int adds = 0; adds < 2; adds++) {
                limber_conv s = LIMBER_CONV_INIT;
                const struct kind *k;

                do
                    k = &kinds[turn++ % KINDS];
                while (k->unit);
                s.n = 1, s.c = s.o = 4;
                s.groups = shape & 1 ? 4 : 2;
                s.h = s.w = 5;
                s.r = s.s = shape & 2 ? 2 : 1;
                s.dilate[0] = s.dilate[1] = 1;
                s.stride[0] = s.stride[1] = shape & 2 ? 3 : 2;
                s.pad[0] = s.pad[2] = shape & 4 ? 1 : 0;
                s.layout = shape & 8 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
                check_unreached(&s, k, alphas[a], adds);
            }
}

/* Each invalid argument of a convolution or gradient is refused with a text that names it. */
static void refusals_name_the_argument(void **state)
{
    limber_conv s = LIMBER_CONV_INIT;
    float x[64] = { 0 }, y[64] = { 0 }, w[64] = { 0 };
    limber_contract contract = LIMBER_CONTRACT_INIT;

    (void)state;
    s.n = s.c = s.o = s.groups = 1;
    s.stride[0] = s.stride[1] = s.dilate[0] = s.dilate[1] = 1;
    s.h = s.w = 4;
    s.r = s.s = 3;
    w[0] = 5;
    assert_refused(run_direction(context[0], FILTER, &contract, &s, LIMBER_F32, x, y, LIMBER_F32,
                                 NULL, NULL, NULL, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv2d_backward_filter: dw");
    assert_refused(run_direction(context[0], DATA, &contract, &s, LIMBER_F32, NULL, w, LIMBER_F32,
                                 x, NULL, NULL, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv2d_backward_data: dy");
    assert_refused(run_direction(context[0], DATA, &contract, &s, LIMBER_F32, y, w, LIMBER_F32,
                                 w + 1, NULL, NULL, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, "dx");
    s.r = 9;
    assert_refused(run_direction(context[0], FILTER, &contract, &s, LIMBER_F32, x, y, LIMBER_F32, w,
                                 NULL, NULL, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv.r");
    s.r = 3;
    s.depth_pad[1] = 1;
    assert_refused(run_direction(context[0], FILTER, &contract, &s, LIMBER_F32, x, y, LIMBER_F32, w,
                                 NULL, NULL, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv.t = 0");
    s.t = 2;
    assert_refused(run_direction(context[0], FORWARD, &contract, &s, LIMBER_F32, x, y, LIMBER_F32,
                                 w, NULL, NULL, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv.t = 2");
    s.depth_pad[0] = -1;
    assert_refused(run_direction(context[0], DATA, &contract, &s, LIMBER_F32, x, y, LIMBER_F32, w,
                                 NULL, NULL, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, "conv.depth_pad = -1");
    assert_true(w[0] == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_direction_equals_its_definition),
        cmocka_unit_test(many_channels_equal_the_definition),
        cmocka_unit_test(far_windows_are_served),
        cmocka_unit_test(tensors_without_images),
        cmocka_unit_test(directions_are_adjoint),
        cmocka_unit_test(bits_are_the_same_everywhere),
        cmocka_unit_test(special_values_are_conventional),
        cmocka_unit_test(filters_are_prepared),
        cmocka_unit_test(prepared_filters_serve_what_they_are_for),
        cmocka_unit_test(plans_of_strides_are_those_that_run),
        cmocka_unit_test(unreached_pixels_are_empty_sums),
        cmocka_unit_test(refusals_name_the_argument),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
