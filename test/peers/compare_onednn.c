/* SPDX-License-Identifier: BSD-3-Clause
 * Compares convolutions with oneDNN's in every direction: results may differ by no more than the
 * sum of both error bounds.  oneDNN is found as `limber bench` finds it, or in LIMBER_PEERS/lib, a
 * folder that tools/bench/peers.sh fills.  Images come from LIMBER_DATA. */
#include "contexts.h"
#include "convs.h"

#include "tools/bench/onednn.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { SKIPPED = 77 };

static limber_context *ctx;

static int make_context(void **state)
{
    (void)state;
    ctx = group_context(.threads = 1);
    return ctx ? 0 : -1;
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* The shape of a convolution. */
struct layer {
    int n, c, h, o, r, stride, pad, dilate, groups;
};

/* Makes a trial of a layer with random tensors. */
static void make_trial(struct trial *t, const struct layer *l, limber_layout layout)
{
    uint64_t seed = 1 + (uint64_t)l->c;

    t->s = (limber_conv){ .size = sizeof t->s,
                          .n = l->n,
                          .c = l->c,
                          .h = l->h,
                          .w = l->h + 1,
                          .o = l->o,
                          .r = l->r,
                          .s = l->r,
                          .stride = { l->stride, l->stride },
                          .dilate = { l->dilate, l->dilate },
                          .pad = { l->pad, l->pad, l->pad, l->pad },
                          .groups = l->groups,
                          .layout = layout };
    trial_open(t);
    for (int i = 0; i < TENSORS; i++)
        for (int64_t j = 0; j < t->count[i]; j++)
            t->v[i][j] = (float)random_normal(&seed);
}

/* Computes |A||B| of each result.  The caller frees it. */
static double *magnitudes(const struct trial *t, int direction)
{
    const size_t count = (size_t)t->count[written[direction]];
    double *sum = malloc(count * sizeof *sum);
    struct trial m = *t;

    trial_open(&m);
    for (int i = 0; i < TENSORS; i++)
        for (int64_t j = 0; j < t->count[i]; j++)
            m.v[i][j] = fabs(t->v[i][j]);
    convolve_by_definition(&m, direction, sum);
    trial_close(&m);
    return sum;
}

/* Returns the number of products in each sum. */
static double sum_length(const struct trial *t, int direction)
{
    const limber_conv *s = &t->s;
    const int64_t seen = (direction == DATA ? s->o : s->c) / s->groups * s->r * s->s;

    return (double)(direction == FILTER ? s->n * t->oh * t->ow : seen);
}

/* ---- both results ---------------------------------------------------------------------------- */

static limber_operation operation_of(int direction)
{
    return (limber_operation)(LIMBER_OPERATION_CONV_FORWARD + direction);
}

/* Convolves with oneDNN. any: oneDNN chooses the layout of tensors; else it is the caller's. */
static void convolve_theirs(const struct trial *t, int direction, limber_format f, limber_format to,
                            const char *a, const char *b, char *c, bool any)
{
    const struct peer peer = { .library = &onednn, .code = { any ? DNN_ANY : 0 } };
    const struct operands now = { .fa = f, .fb = f, .fy = to, .a = a, .b = b, .y = c };
    struct work *w = calloc(1, sizeof *w);
    struct contender *x = &w->list[0];

    w->fa = w->fb = f;
    w->fc = to;
    w->operation = operation_of(direction);
    w->conv = t->s;
    x->peer = &peer;
    x->work = w;
    x->now = &now;
    assert_true(onednn_conv_prepare(x));
    assert_true(onednn_conv_run(x));
    onednn_conv_fetch(x);
    assert_int_equal(x->state, STATE_ok);
    onednn_conv_release(x);
    free(w);
}

static void convolve_ours(const struct trial *t, int direction, limber_promise promise,
                          const char *a, const char *b, char *c)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;

    contract.promise = promise;
    if (run_direction(ctx, direction, &contract, &t->s, LIMBER_F32, a, b, LIMBER_F32, c, NULL, NULL,
                      NULL))
        fail_msg("%s", limber_error_text());
}

/* Returns the largest difference between elements, as a share of the sum of both bounds. */
static double largest_difference(const struct trial *t, int direction, double allowed,
                                 const double *scale, const char *ours, const char *theirs)
{
    double most = 0;

    for (int64_t i = 0; i < t->count[written[direction]]; i++) {
        const int64_t at = place(t, written[direction], i);
        const double x = ((const float *)(const void *)ours)[at];
        const double y = ((const float *)(const void *)theirs)[at];

        if (x != y && !(fabs(x - y) / (allowed * scale[i]) <= most))
            most = fabs(x - y) / (allowed * scale[i]);
    }
    return most;
}

/* Computes t with Limber and `theirs` with oneDNN, and returns the largest difference as a share of
 * the allowed one.  theirs: t itself, or another trial, whose results must differ.  In any order,
 * oneDNN's sums of k products have an error of at most k u / (1 - k u) |A||B|. */
static double compare(const struct trial *t, const struct trial *theirs, int direction)
{
    static const limber_promise promises[] = { LIMBER_CONTRACT_NATIVE, LIMBER_CONTRACT_CORRECT };
    const double k = sum_length(t, direction), u = 0x1p-24;
    const double own[] = { (k + 2) * u, u };
    const size_t bytes = (size_t)t->count[written[direction]] * sizeof(float);
    char *a = stored(t, reads[direction][0], LIMBER_F32);
    char *b = stored(t, reads[direction][1], LIMBER_F32);
    char *c[2] = { malloc(bytes), malloc(bytes) };
    double *scale = magnitudes(t, direction), most = 0;

    for (int any = 0; any < 2; any++) {
        memset(c[1], 0xff, bytes);
        convolve_theirs(theirs, direction, LIMBER_F32, LIMBER_F32, a, b, c[1], any);
        for (int i = 0; i < 2; i++) {
            memset(c[0], 0xff, bytes);
            convolve_ours(t, direction, promises[i], a, b, c[0]);
            most = fmax(most, largest_difference(t, direction, own[i] + k * u / (1 - k * u), scale,
                                                 c[0], c[1]));
        }
    }
    free(scale);
    free(c[0]);
    free(c[1]);
    free(a);
    free(b);
    return most;
}

/* Compares Limber's and oneDNN's results in all directions. */
static void expect_agreement(const struct trial *t)
{
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        const double most = compare(t, t, direction);

        if (!(most <= 1))
            fail_msg("direction %d, %d x %d x %d -> %d, window %d, stride %d, layout %d: %g of "
                     "what is allowed",
                     direction, (int)t->s.c, (int)t->s.h, (int)t->s.w, (int)t->s.o, (int)t->s.r,
                     (int)t->s.stride[0], (int)t->s.layout, most);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The layers have the filter sizes, strides, channels and groups of the networks.  Images are
 * smaller, and some layers have fewer filters. */
static const struct layer resnet18[] = {
    { 1, 3, 28, 64, 7, 2, 3, 1, 1 },   { 1, 64, 10, 64, 3, 1, 1, 1, 1 },
    { 1, 64, 14, 128, 3, 2, 1, 1, 1 }, { 1, 64, 14, 128, 1, 2, 0, 1, 1 },
    { 1, 128, 7, 128, 3, 1, 1, 1, 1 }, { 1, 128, 7, 256, 3, 2, 1, 1, 1 },
    { 1, 128, 7, 256, 1, 2, 0, 1, 1 }, { 1, 256, 5, 64, 3, 1, 1, 1, 1 },
    { 1, 256, 7, 64, 3, 2, 1, 1, 1 },  { 1, 256, 7, 512, 1, 2, 0, 1, 1 },
    { 1, 512, 4, 32, 3, 1, 1, 1, 1 },
};
static const struct layer mobilenetv2[] = {
    { 1, 3, 28, 32, 3, 2, 1, 1, 1 },     { 1, 32, 14, 32, 3, 1, 1, 1, 32 },
    { 1, 32, 14, 16, 1, 1, 0, 1, 1 },    { 1, 16, 14, 96, 1, 1, 0, 1, 1 },
    { 1, 96, 14, 96, 3, 2, 1, 1, 96 },   { 1, 144, 14, 24, 1, 1, 0, 1, 1 },
    { 1, 144, 7, 144, 3, 1, 1, 1, 144 }, { 1, 192, 14, 192, 3, 2, 1, 1, 192 },
    { 1, 384, 7, 64, 1, 1, 0, 1, 1 },    { 1, 576, 7, 576, 3, 2, 1, 1, 576 },
    { 1, 960, 7, 960, 3, 1, 1, 1, 960 }, { 1, 960, 7, 160, 1, 1, 0, 1, 1 },
    { 1, 320, 3, 1280, 1, 1, 0, 1, 1 },
};
/* Layers with shapes that these networks lack. */
static const struct layer others[] = {
    { 3, 16, 13, 24, 3, 1, 2, 2, 1 },
    { 2, 24, 11, 36, 3, 2, 1, 1, 3 },
    { 1, 10, 9, 30, 5, 3, 0, 1, 10 },
};

/* Compares Limber and oneDNN on layers, in both layouts. */
static void check_layers(const struct layer *l, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int layout = 0; layout < 2; layout++) {
            struct trial t;

            make_trial(&t, &l[i], layout ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW);
            expect_agreement(&t);
            trial_close(&t);
        }
}
#define CHECK_LAYERS(list) check_layers(list, sizeof(list) / sizeof *(list))

static void networks_agree(void **state)
{
    (void)state;
    CHECK_LAYERS(resnet18);
    CHECK_LAYERS(mobilenetv2);
    CHECK_LAYERS(others);
}

/* In three dimensions a filter is as deep as it is high, and images have a depth of a few
 * pixels. */
static void deep_layers_agree(void **state)
{
    static const struct layer deep[] = { { 1, 8, 7, 16, 3, 1, 1, 1, 1 },
                                         { 2, 6, 9, 20, 3, 2, 1, 1, 2 },
                                         { 1, 16, 6, 24, 1, 1, 0, 1, 1 },
                                         { 1, 12, 8, 12, 3, 1, 1, 1, 12 } };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof deep / sizeof *deep; i++) {
        const struct layer *l = &deep[i / 2];
        struct trial flat, t;

        make_trial(&flat, l, i % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW);
        t = flat;
        trial_close(&flat);
        t.s.d = 5;
        t.s.t = l->r;
        t.s.depth_stride = l->stride;
        t.s.depth_dilate = 1;
        t.s.depth_pad[0] = t.s.depth_pad[1] = l->pad;
        trial_open(&t);
        for (int of = 0; of < TENSORS; of++)
            for (int64_t j = 0; j < t.count[of]; j++)
                t.v[of][j] = (float)sin((double)(j * 7 + of));
        expect_agreement(&t);
        trial_close(&t);
    }
}

/* Sums of 8-bit products are exact, so that all elements must be equal. */
static void bytes_agree(void **state)
{
    static const struct layer layers[] = {
        { 1, 3, 28, 64, 7, 2, 3, 1, 1 },   { 1, 64, 10, 64, 3, 1, 1, 1, 1 },
        { 2, 60, 9, 34, 3, 2, 1, 1, 1 },   { 1, 144, 14, 24, 1, 1, 0, 1, 1 },
        { 1, 32, 14, 32, 3, 1, 1, 1, 32 }, { 1, 24, 11, 36, 3, 1, 2, 2, 3 }
    };

    (void)state;
    for (size_t i = 0; i < 4 * sizeof layers / sizeof *layers; i++) {
        limber_contract exact = LIMBER_CONTRACT_INIT;
        struct trial t;
        char *a, *b, *ours, *theirs;
        size_t bytes;

        exact.promise = LIMBER_CONTRACT_EXACT;
        make_trial(&t, &layers[i / 4], i % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW);
        for (int of = 0; of < TENSORS; of++)
            for (int64_t j = 0; j < t.count[of]; j++)
                t.v[of][j] = (double)(j * 37 % 255) - 127;
        bytes = (size_t)t.count[Y] * sizeof(int32_t);
        a = stored(&t, X, LIMBER_I8);
        b = stored(&t, W, LIMBER_I8);
        ours = malloc(bytes);
        theirs = malloc(bytes);
        memset(ours, 0xff, bytes);
        memset(theirs, 0x5a, bytes);
        convolve_theirs(&t, FORWARD, LIMBER_I8, LIMBER_I32, a, b, theirs, i / 2 % 2);
        if (run_direction(ctx, FORWARD, &exact, &t.s, LIMBER_I8, a, b, LIMBER_I32, ours, NULL, NULL,
                          NULL))
            fail_msg("%s", limber_error_text());
        assert_memory_equal(ours, theirs, bytes);
        free(a);
        free(b);
        free(ours);
        free(theirs);
        trial_close(&t);
    }
}

/* Convolutions of images of handwritten digits agree with oneDNN's. */
static void images_agree(void **state)
{
    static const struct layer layer = { 64, 1, 28, 6, 5, 1, 2, 1, 1 };
    const char *root = getenv("LIMBER_DATA");
    struct array images;
    struct trial t;
    char path[4000];

    (void)state;
    snprintf(path, sizeof path, "%s/mnist/t10k-images-idx3-ubyte.gz", root ? root : "");
    if (!root || access(path, R_OK)) {
        print_message("LIMBER_DATA has no mnist/t10k-images-idx3-ubyte.gz\n");
        skip();
    }
    assert_true(array_read(path, false, &images));
    make_trial(&t, &layer, LIMBER_LAYOUT_NCHW);
    /* an image of the trial has one more column, which is zero */
    for (int64_t i = 0; i < t.count[X]; i++) {
        const int64_t x = i % t.s.w, row = i / t.s.w;

        t.v[X][i] = x < t.s.h ? ((const uint8_t *)images.data)[row * t.s.h + x] / 256.0 : 0;
    }
    expect_agreement(&t);
    trial_close(&t);
    array_clear(&images);
}

/* Convolutions that differ by a shift of one pixel, with results of the same size, must not
 * agree. */
static void another_convolution_does_not_agree(void **state)
{
    (void)state;
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        struct trial t, other;

        make_trial(&t, &resnet18[1], LIMBER_LAYOUT_NCHW);
        other = t;
        other.s.pad[0]++;
        other.s.pad[1]--;
        assert_true(compare(&t, &other, direction) > 100);
        trial_close(&t);
    }
}

/* Opens oneDNN. */
static bool open_peer(void)
{
    const char *folder = getenv("LIMBER_PEERS");
    char path[4000];

    /* loads the library from this folder, so that it is then found by its name */
    if (folder && *folder) {
        snprintf(path, sizeof path, "%s/lib/libdnnl.so.3", folder);
        dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!onednn.open(&onednn))
        print_message("oneDNN: %s\n", onednn.why_not);
    else if (!dnn.convolution)
        print_message("oneDNN %s has no convolutions of release 3\n", onednn.version);
    else
        print_message("oneDNN %s, %s\n", onednn.version, onednn.kernels);
    return dnn.convolution;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_agree),
        cmocka_unit_test(deep_layers_agree),
        cmocka_unit_test(bytes_agree),
        cmocka_unit_test(images_agree),
        cmocka_unit_test(another_convolution_does_not_agree),
    };

    if (!open_peer())
        return SKIPPED;
    onednn.threads(1);
    return cmocka_run_group_tests(tests, make_context, destroy_group_contexts);
}
