/* SPDX-License-Identifier: BSD-3-Clause
 * Compares convolutions with their definition: strides, padding, dilation, groups, both layouts,
 * and every scheme.  Data are small integers, so that the definition is exact in doubles. */
#include "support.h"
#include "contexts.h"

#include "jit/scan/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A random convolution. */
struct trial {
    limber_conv s;
    int64_t oh, ow;
    double *x, *w; /* image in NCHW and filters in OIHW, both dense; owned */
};

static limber_context *ctx[2];

static int make_contexts(void **state)
{
    (void)state;
    return make_interp_and_best(&ctx[0], &ctx[1]);
}

/* Makes a random convolution with operands of small integers. */
static void make_trial(struct rng *r, struct trial *t)
{
    limber_conv *s = &t->s;
    size_t nx, nw;

    *s = (limber_conv)LIMBER_CONV_INIT;
    s->groups = 1 + rng_below(r, 3);
    s->n = 1 + rng_below(r, 2);
    s->c = s->groups * (1 + rng_below(r, 3));
    s->o = s->groups * (1 + rng_below(r, 5));
    s->r = 1 + rng_below(r, 3);
    s->s = 1 + rng_below(r, 4);
    for (int i = 0; i < 2; i++) {
        s->stride[i] = 1 + rng_below(r, 3);
        s->dilate[i] = 1 + rng_below(r, 2);
    }
    for (int i = 0; i < 4; i++)
        s->pad[i] = rng_below(r, 3);
    s->h = 1 + s->dilate[0] * (s->r - 1) + rng_below(r, 6);
    s->w = 1 + s->dilate[1] * (s->s - 1) + rng_below(r, 9);
    s->layout = rng_below(r, 2) ? LIMBER_LAYOUT_NCHW : LIMBER_LAYOUT_NHWC;
    assert_int_equal(limber_conv_output(s, &t->oh, &t->ow), LIMBER_STATUS_OK);
    nx = (size_t)(s->n * s->c * s->h * s->w);
    nw = (size_t)(s->o * s->c / s->groups * s->r * s->s);
    t->x = malloc(nx * sizeof *t->x);
    t->w = malloc(nw * sizeof *t->w);
    for (size_t i = 0; i < nx; i++)
        t->x[i] = rng_below(r, 255) - 127;
    for (size_t i = 0; i < nw; i++)
        t->w[i] = rng_below(r, 61) - 30;
}

/* Converts dense NCHW doubles to a layout and a format.  The caller frees the result. */
static char *lay_out(const double *v, int64_t n, int64_t c, int64_t h, int64_t w, limber_layout l,
                     limber_format f)
{
    char *out = calloc((size_t)(n * c * h * w) + 1, f.size);

    for (int64_t i = 0; i < n * c * h * w; i++) {
        int64_t x = i % w, y = i / w % h, d = i / (w * h) % c, b = i / (w * h * c);
        int64_t at = l == LIMBER_LAYOUT_NCHW ? i : ((b * h + y) * w + x) * c + d;

        assert_int_equal(
            limber_convert(out + at * f.size, f, &v[i], named("f64"), 1, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_OK);
    }
    return out;
}

/* Returns an element of a convolution's result, computed from the definition. */
static double convolve_by_definition(const struct trial *t, int64_t b, int64_t o, int64_t y,
                                     int64_t x)
{
    const limber_conv *s = &t->s;
    int64_t depth = s->c / s->groups, first = o / (s->o / s->groups) * depth;
    double sum = 0;

    for (int64_t d = 0; d < depth; d++)
        for (int64_t i = 0; i < s->r; i++)
            for (int64_t j = 0; j < s->s; j++) {
                int64_t iy = y * s->stride[0] + i * s->dilate[0] - s->pad[0];
                int64_t ix = x * s->stride[1] + j * s->dilate[1] - s->pad[2];

                if (iy >= 0 && iy < s->h && ix >= 0 && ix < s->w)
                    sum += t->x[((b * s->c + first + d) * s->h + iy) * s->w + ix] *
                           t->w[((o * depth + d) * s->r + i) * s->s + j];
            }
    return sum;
}

/* Checks every element of a result. */
static void check_elements(const struct trial *t, const char *y, limber_format f,
                           const char *scheme)
{
    const limber_conv *s = &t->s;

    for (int64_t b = 0; b < s->n; b++)
        for (int64_t o = 0; o < s->o; o++)
            for (int64_t i = 0; i < t->oh; i++)
                for (int64_t j = 0; j < t->ow; j++) {
                    int64_t at = s->layout == LIMBER_LAYOUT_NCHW ?
                                     ((b * s->o + o) * t->oh + i) * t->ow + j :
                                     ((b * t->oh + i) * t->ow + j) * s->o + o;
                    double got, want = convolve_by_definition(t, b, o, i, j);

                    limber_convert(&got, named("f64"), y + at * f.size, f, 1, LIMBER_ROUND_NEAREST);
                    if (got != want)
                        fail_msg("%s: (%d,%d,%d,%d) is %g, not %g", scheme, (int)b, (int)o, (int)i,
                                 (int)j, got, want);
                }
}

/* Makes a random convolution, computes it in a format under a contract, and checks it. */
static void run_random(struct rng *r, const char *format, const limber_contract *contract)
{
    limber_format f = named(format);
    struct trial t;
    char *x, *w, *y;

    make_trial(r, &t);
    x = lay_out(t.x, t.s.n, t.s.c, t.s.h, t.s.w, t.s.layout, f);
    w = lay_out(t.w, t.s.o, t.s.c / t.s.groups, t.s.r, t.s.s, t.s.layout, f);
    y = calloc((size_t)(t.s.n * t.s.o * t.oh * t.ow) + 1, f.size);
    for (int i = 0; i < 2; i++) {
        limber_report report = LIMBER_REPORT_INIT;

        memset(y, 0x55, (size_t)(t.s.n * t.s.o * t.oh * t.ow) * f.size);
        if (limber_conv2d(ctx[i], contract, &t.s, NULL, x, f, w, f, NULL, y, f, &report) !=
            LIMBER_STATUS_OK)
            fail_msg("%s: %s", contract->scheme ? contract->scheme : "-", limber_error_text());
        check_elements(&t, y, f, report.scheme);
    }
    free(x);
    free(w);
    free(y);
    free(t.x);
    free(t.w);
}

/* Random convolutions by each scheme in a format that it supports: every element keeps the
 * contract. */
static void every_scheme_convolves(void **state)
{
    static const struct {
        const char *scheme, *format;
        limber_promise promise;
    } rows[] = {
        { "native", "f64", LIMBER_CONTRACT_NATIVE },
        { "native", "f32", LIMBER_CONTRACT_NATIVE },
        { "fp32-f", "f32", LIMBER_CONTRACT_FAST },
        { "fp32-t", "f32", LIMBER_CONTRACT_FAST },
        { "fp32-m", "f32", LIMBER_CONTRACT_FAST },
        { "fp32-b9", "f32", LIMBER_CONTRACT_FAST },
        { "fp32-b", "f32", LIMBER_CONTRACT_FAST },
        { "ozaki1-f16", "f64", LIMBER_CONTRACT_CORRECT },
        { "ozaki1-bf16", "f64", LIMBER_CONTRACT_CORRECT },
        { "ozaki1-i8", "f64", LIMBER_CONTRACT_CORRECT },
        { "ozaki1-f64", "f64", LIMBER_CONTRACT_CORRECT },
        { "ozaki2", "f128", LIMBER_CONTRACT_CORRECT },
        { "ozaki2", "dd", LIMBER_CONTRACT_CORRECT },
        { "integer", "i32", LIMBER_CONTRACT_EXACT },
        { "accumulator", "f64", LIMBER_CONTRACT_CORRECT },
        { "wider", "f32", LIMBER_CONTRACT_CORRECT },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rng r = { 77 + i };
        limber_contract c = { .size = sizeof(limber_contract),
                              .promise = rows[i].promise,
                              .scheme = rows[i].scheme };

        run_random(&r, rows[i].format, &c);
    }
}

/* Random convolutions in FP32 and FP64 under `native` and `correct` have the elements of the
 * definition. */
static void random_shapes_match_the_definition(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct rng r = { 900 + (uint64_t)i };
        limber_contract c = { .size = sizeof(limber_contract),
                              .promise = i % 2 ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE };

        run_random(&r, i % 3 ? "f64" : "f32", &c);
    }
}

/* Copies the windows of an image to a dense matrix (im2col). */
static char *unfold_windows(const struct view *v, limber_format f, int64_t lines, int64_t k)
{
    char *out = calloc((size_t)(lines * k) + 1, f.size);

    for (int64_t i = 0; i < lines * k; i++) {
        const char *at = limber_view_at(v, i / k, i % k, f.size);

        if (at)
            memcpy(out + i * f.size, at, f.size);
    }
    return out;
}

/* Checks that two masks (summaries of an operand's exponents and special values) are equal. */
static void assert_same_mask(const struct mask *x, const struct mask *y)
{
    assert_true(x->scanned && y->scanned);
    assert_int_equal(x->zero, y->zero);
    assert_int_equal(x->special, y->special);
    assert_int_equal(x->negative, y->negative);
    assert_int_equal(x->emin, y->emin);
    assert_int_equal(x->emax, y->emax);
    assert_int_equal(x->spread, y->spread);
    assert_int_equal(x->width, y->width);
    assert_int_equal(x->sig, y->sig);
    assert_memory_equal(x->line_emax, y->line_emax, (size_t)x->lines * sizeof *x->line_emax);
    assert_memory_equal(x->line_special, y->line_special, (size_t)x->lines);
}

/* A scan of the image must find what a scan of the im2col matrix finds: exponent ranges, widths
 * and special values.  Strides and dilations may skip pixels, which then may have any value. */
static void a_scan_finds_what_windows_see(void **state)
{
    static const char *const formats[] = { "f64", "f32", "bf16", "i16" };
    static const enum data data[] = { DATA_spread, DATA_special, DATA_zeros, DATA_ints };

    (void)state;
    for (int i = 0; i < 96; i++) {
        struct rng r = { 4000 + (uint64_t)i };
        limber_format f = named(formats[i % 4]);
        struct mask seen, wanted;
        struct diag d = { 0 };
        struct trial t;
        char *x, *all;

        make_trial(&r, &t);
        const limber_conv *s = &t.s;
        const int64_t depth = s->c / s->groups, lines = s->n * t.oh * t.ow;
        const int64_t k = depth * s->r * s->s;
        const struct conv conv = {
            { .stride = { s->stride[0], s->stride[1] },
              .pad = { s->pad[0], s->pad[1], s->pad[2], s->pad[3] },
              .dilate = { s->dilate[0], s->dilate[1] },
              .groups = s->groups,
              .layout = s->layout == LIMBER_LAYOUT_NHWC },
            { s->n, s->c, s->h, s->w, s->o, s->r, s->s, t.oh, t.ow },
        };
        struct index_map map;

        limber_conv_map(&map, OP_patches, &conv, 0);
        x = malloc((size_t)(s->n * s->c * s->h * s->w) * f.size);
        fill(&r, data[i / 4 % 4], f, x, (size_t)(s->n * s->c * s->h * s->w));
        const struct view v = limber_map_view(&map, x);

        all = unfold_windows(&v, f, lines, k);
        assert_true(limber_scan(&seen, &v, f, lines, k, SCAN_full, NULL, &d));
        assert_true(limber_scan(&wanted, &(struct view){ all, k, 1, NULL }, f, lines, k, SCAN_full,
                                NULL, &d));
        assert_same_mask(&seen, &wanted);
        limber_mask_clear(&seen);
        limber_mask_clear(&wanted);
        free(all);
        free(x);
        free(t.x);
        free(t.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_convolves),
        cmocka_unit_test(random_shapes_match_the_definition),
        cmocka_unit_test(a_scan_finds_what_windows_see),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
