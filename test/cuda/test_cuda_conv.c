/* SPDX-License-Identifier: BSD-3-Clause
 * Compares convolutions of the CUDA backend with the interpreter's, bit for bit, from host and
 * device memory and recorded into graphs.  Runs on a GPU if LIMBER_TEST_GPU is set, else on the
 * harness that runs kernels on the CPU (SIMT_CC names the compute capability). */
#include "gpus.h"
#include "plans.h"
#include "support.h"

#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_cuda;

/* The shape of a convolution. */
struct layer {
    int64_t n, c, h, w, o, r, s, stride, pad, dilate, groups;
    limber_layout layout;
    int64_t d, t; /* depth of the image and of the filter; 0: two-dimensional */
};

/* Returns a layer as the library's description of a convolution. */
static limber_conv shape_of(const struct layer *l)
{
    return (limber_conv){
        .size = sizeof(limber_conv),
        .n = l->n,
        .c = l->c,
        .h = l->h,
        .w = l->w,
        .o = l->o,
        .r = l->r,
        .s = l->s,
        .stride = { l->stride, l->stride },
        .pad = { l->pad, l->pad, l->pad, l->pad },
        .dilate = { l->dilate, l->dilate },
        .groups = l->groups,
        .layout = l->layout,
        .d = l->d,
        .t = l->t,
        .depth_stride = l->t ? l->stride : 0,
        .depth_dilate = l->t ? l->dilate : 0,
        .depth_pad = { l->t ? l->pad : 0, l->t ? l->pad : 0 },
    };
}

/* The library writes a missing depth as 0 or 1. */
static int64_t make_3d(int64_t depth)
{
    return depth ? depth : 1;
}

/* Layers as in ResNet, and unusual shapes. */
static const struct layer layers[] = {
    { 2, 16, 9, 9, 24, 3, 3, 1, 1, 1, 1, LIMBER_LAYOUT_NCHW },
    { 2, 16, 9, 9, 24, 3, 3, 1, 1, 1, 1, LIMBER_LAYOUT_NHWC },
    { 1, 3, 21, 21, 16, 7, 7, 2, 3, 1, 1, LIMBER_LAYOUT_NCHW },
    { 2, 32, 8, 8, 40, 1, 1, 2, 0, 1, 1, LIMBER_LAYOUT_NHWC },
    { 3, 13, 6, 7, 10, 3, 2, 1, 2, 2, 1, LIMBER_LAYOUT_NCHW },
    { 2, 24, 7, 9, 18, 3, 3, 3, 1, 1, 3, LIMBER_LAYOUT_NHWC },
    { 1, 80, 5, 5, 130, 3, 3, 1, 1, 1, 2, LIMBER_LAYOUT_NCHW },
    { 2, 16, 5, 6, 20, 3, 3, 1, 1, 1, 1, LIMBER_LAYOUT_NCHW, 4, 3 },
    { 2, 12, 7, 5, 10, 3, 2, 2, 1, 2, 2, LIMBER_LAYOUT_NHWC, 6, 2 },
};

/* Image x, filters w and result y of a convolution. */
struct tensors {
    limber_format f, fy;
    char *x, *w, *y;
    size_t nx, nw, ny; /* number of elements of each tensor */
    int64_t od, oh, ow;
};

/* Makes random tensors of a layer, in host memory. */
static struct tensors make_tensors(const struct layer *l, const char *format, const char *result,
                                   enum data data)
{
    struct tensors t = { .f = named(format), .fy = named(result) };
    limber_conv s = shape_of(l);
    struct rng r = { 400 + (uint64_t)(l->h * l->c) };

    assert_int_equal(limber_conv_output(&s, &t.oh, &t.ow), LIMBER_STATUS_OK);
    assert_int_equal(limber_conv_output_depth(&s, &t.od), LIMBER_STATUS_OK);
    t.nx = (size_t)(l->n * l->c * make_3d(l->d) * l->h * l->w);
    t.nw = (size_t)(l->o * l->c / l->groups * make_3d(l->t) * l->r * l->s);
    t.ny = (size_t)(l->n * l->o * t.od * t.oh * t.ow);
    t.x = malloc(t.nx * t.f.size);
    t.w = malloc(t.nw * t.f.size);
    t.y = calloc(t.ny, t.fy.size);
    fill(&r, data, t.f, t.x, t.nx);
    fill(&r, data, t.f, t.w, t.nw);
    /* images differ so much in magnitude that one scale would not suit them */
    for (size_t i = 0; i < t.nx && data == DATA_spread; i++)
        ((double *)(void *)t.x)[i] *= ldexp(1, -60 * (int)(i * (size_t)l->n / t.nx));
    return t;
}

static void drop_tensors(struct tensors *t)
{
    free(t->x);
    free(t->w);
    free(t->y);
}

/* Convolves from host and from device memory and compares the bits; compares with the interpreter,
 * too, if it has the same plan. */
static void compare_convolution(limber_contract contract, const char *format, const char *result,
                                enum data data, const struct layer *l)
{
    struct tensors t = make_tensors(l, format, result, data);
    limber_conv shape = shape_of(l);
    size_t bytes = t.ny * t.fy.size;
    char *got = malloc(bytes);
    struct gpu_buffer x = gpu_upload_new(t.x, t.nx * t.f.size),
                      w = gpu_upload_new(t.w, t.nw * t.f.size), y = gpu_upload_new(t.y, bytes);
    limber_report report = LIMBER_REPORT_INIT, device = LIMBER_REPORT_INIT;

    if (limber_conv2d(cuda, &contract, &shape, NULL, t.x, t.f, t.w, t.f, NULL, t.y, t.fy, &report))
        fail_msg("%s", limber_error_text());
    assert_string_equal(report.backend, "cuda");
    if (limber_conv2d(cuda, &contract, &shape, NULL, (void *)x.at, t.f, (void *)w.at, t.f, NULL,
                      (void *)y.at, t.fy, &device))
        fail_msg("%s", limber_error_text());
    gpu_download(got, y);
    assert_memory_equal(got, t.y, bytes);
    if (strcmp(device.kernel, report.kernel))
        fail_msg("layer %d: a scan on the device finds another class", (int)(l - layers));
    if (contract.promise == LIMBER_CONTRACT_CORRECT || contract.promise == LIMBER_CONTRACT_EXACT ||
        contract.promise == LIMBER_CONTRACT_REPRODUCIBLE ||
        contract.promise == LIMBER_CONTRACT_SIMULATE) {
        assert_int_equal(limber_conv2d(reference, &contract, &shape, NULL, t.x, t.f, t.w, t.f, NULL,
                                       t.y, t.fy, NULL),
                         LIMBER_STATUS_OK);
        if (memcmp(got, t.y, bytes))
            fail_msg("%s of %s, layer %d differs", report.scheme, format, (int)(l - layers));
    }
    gpu_free(x);
    gpu_free(w);
    gpu_free(y);
    free(got);
    drop_tensors(&t);
}

/* Convolves FP32 images, the second one scaled by 2^down, from host and from device memory.  Checks
 * that the status and the bits agree, and under `correct` that they are the interpreter's. */
static limber_status convolve_unlike_images(limber_contract contract, int down,
                                            limber_report *report)
{
    const struct layer *l = &layers[0];
    struct tensors t = make_tensors(l, "f32", "f32", DATA_unit);
    limber_conv shape = shape_of(l);
    size_t bytes = t.ny * t.fy.size;
    char *got = malloc(bytes), *want = malloc(bytes);
    limber_report host = LIMBER_REPORT_INIT;
    limber_status status;
    struct gpu_buffer x, w, y;

    for (size_t i = t.nx / 2; i < t.nx; i++)
        ((float *)(void *)t.x)[i] = ldexpf(((float *)(void *)t.x)[i], down);
    x = gpu_upload_new(t.x, t.nx * t.f.size);
    w = gpu_upload_new(t.w, t.nw * t.f.size);
    y = gpu_upload_new(t.y, bytes);
    status = limber_conv2d(cuda, &contract, &shape, NULL, (void *)x.at, t.f, (void *)w.at, t.f,
                           NULL, (void *)y.at, t.fy, report);
    assert_int_equal(
        limber_conv2d(cuda, &contract, &shape, NULL, t.x, t.f, t.w, t.f, NULL, want, t.fy, &host),
        status);
    gpu_download(got, y);
    if (!status) {
        assert_memory_equal(got, want, bytes);
        assert_string_equal(report->kernel, host.kernel);
    }
    if (!status && contract.promise == LIMBER_CONTRACT_CORRECT) {
        assert_int_equal(limber_conv2d(reference, &contract, &shape, NULL, t.x, t.f, t.w, t.f, NULL,
                                       want, t.fy, NULL),
                         LIMBER_STATUS_OK);
        assert_memory_equal(got, want, bytes);
    }
    gpu_free(x);
    gpu_free(w);
    gpu_free(y);
    free(got);
    free(want);
    drop_tensors(&t);
    return status;
}

/* A GPU scans an image instead of its patches matrix, with two exceptions: images that differ
 * too much in magnitude, and a scheme named by the caller, since it may suit the patches but not
 * the image. */
static void images_may_differ_in_magnitude(void **state)
{
    limber_contract named_scheme = native;
    limber_report one = LIMBER_REPORT_INIT, other = LIMBER_REPORT_INIT;

    (void)state;
    named_scheme.promise = LIMBER_CONTRACT_FAST;
    named_scheme.scheme = "fp32-f";
    for (int down = 0; down >= -60; down -= 20) {
        if (convolve_unlike_images(named_scheme, down, &one))
            fail_msg("2^%d: %s", down, limber_error_text());
        assert_int_equal(convolve_unlike_images(correct, down, &other), LIMBER_STATUS_OK);
        assert_int_equal(convolve_unlike_images(native, down, &other), LIMBER_STATUS_OK);
    }
}

static bool has_unit(enum unit u)
{
    struct target t = { .device = 0 };
    struct diag d = { 0 };

    return limber_backend_cuda.probe(&t, &d) && t.rate[u] > 0;
}

/* Blocks of 64 filters and of 64 pixels take the scheme that suits them.  An element of a block of
 * narrow filters and narrow pixels has the bits of FP32-F, as if all other blocks were zero; the
 * others have those of FP32-B. */
static void convolutions_are_cut_into_blocks(void **state)
{
    enum { BLOCK = 64, FILTERS = 130, SIDE = 11, PIXELS = SIDE * SIDE, WIDE_FILTER = 70 };
    enum { WIDE_ROW = 2 }; /* row of the second image with a pixel of another magnitude */
    const limber_layout layouts[] = { LIMBER_LAYOUT_NCHW, LIMBER_LAYOUT_NHWC };
    limber_contract k = native;

    (void)state;
    if (!has_unit(UNIT_bf16))
        skip_because("the device does not multiply BF16");
    k.promise = LIMBER_CONTRACT_FAST;
    for (int i = 0; i < 4; i++) {
        const struct layer l = { 2, 16, SIDE, SIDE, FILTERS, 3, 3, 1, 1, 1, 1, layouts[i % 2] };
        const bool nchw = l.layout == LIMBER_LAYOUT_NCHW, on_device = i > 1;
        const int64_t at =
            nchw ? (l.c * SIDE + WIDE_ROW) * SIDE + 4 : ((SIDE + WIDE_ROW) * SIDE + 4) * l.c;
        struct tensors t = make_tensors(&l, "f32", "f32", DATA_unit);
        float *x = (float *)(void *)t.x, *w = (float *)(void *)t.w, *y = (float *)(void *)t.y;
        const int64_t taps = (int64_t)(t.nw / FILTERS);
        float *want[2] = { malloc(t.ny * 4), malloc(t.ny * 4) };
        limber_conv shape = shape_of(&l);
        limber_report report = LIMBER_REPORT_INIT;
        struct gpu_buffer dx, dw, dy;

        x[at] = w[WIDE_FILTER * taps] = 0;
        for (int wide = 0; wide < 2; wide++) {
            k.scheme = wide ? "fp32-b" : "fp32-f";
            if (wide) {
                x[at] = 0x1p-50f;
                w[WIDE_FILTER * taps] = 0x1p-45f;
            }
            assert_int_equal(
                limber_conv2d(cuda, &k, &shape, NULL, x, t.f, w, t.f, NULL, want[wide], t.fy, NULL),
                LIMBER_STATUS_OK);
        }
        dx = gpu_upload_new(x, t.nx * 4);
        dw = gpu_upload_new(w, t.nw * 4);
        dy = gpu_upload_new(y, t.ny * 4);
        k.scheme = "fp32-f+fp32-b";
        if (limber_conv2d(cuda, &k, &shape, NULL, on_device ? (void *)dx.at : x, t.f,
                          on_device ? (void *)dw.at : w, t.f, NULL, on_device ? (void *)dy.at : y,
                          t.fy, &report))
            fail_msg("%s", limber_error_text());
        if (on_device)
            gpu_download(y, dy);
        assert_string_equal(report.scheme, "mixed");
        for (int64_t o = 0; o < FILTERS; o++)
            for (int64_t line = 0; line < 2 * PIXELS; line++) {
                /* lines whose windows see the pixel of another magnitude */
                const int64_t first = PIXELS + (WIDE_ROW - 1) * SIDE + 3,
                              last = PIXELS + (WIDE_ROW + 1) * SIDE + 5;
                const bool wide = o / BLOCK == WIDE_FILTER / BLOCK ||
                                  (line / BLOCK >= first / BLOCK && line / BLOCK <= last / BLOCK);
                const int64_t e = nchw ? (line / PIXELS * FILTERS + o) * PIXELS + line % PIXELS :
                                         line * FILTERS + o;

                if (!same_number(t.fy, &y[e], &want[wide][e]))
                    fail_msg("%d: filter %d, pixel %d: %a, not %a", i, (int)o, (int)line,
                             (double)y[e], (double)want[wide][e]);
            }
        gpu_free(dx);
        gpu_free(dw);
        gpu_free(dy);
        free(want[0]);
        free(want[1]);
        drop_tensors(&t);
    }
}

/* A gradient to compute: that of the filters if `filter` is set, else that of the image. */
struct gradient {
    const limber_contract *contract;
    const char *format, *result;
    enum data data;
    const struct layer *layer;
    bool filter;
};

/* Computes a gradient of random tensors from host memory, from device memory and by the
 * interpreter.  Returns whether all agree.  If it returns false, `why` is the error, or empty if
 * results differ. */
static bool same_gradient(limber_context *gpu, const struct gradient *g, char why[256])
{
    const struct layer *l = g->layer;
    const bool filter = g->filter;
    struct tensors t = make_tensors(l, g->format, g->format, g->data);
    limber_conv shape = shape_of(l);
    limber_format to = named(g->result);
    size_t count = filter ? t.nw : t.nx, bytes = count * to.size;
    limber_problem p = LIMBER_PROBLEM_INIT;
    char *out[3];
    struct rng r = { 31 };
    struct gpu_buffer a, b, c;
    bool same = true;

    *why = 0;
    fill(&r, g->data, t.f, t.y, t.ny);
    p.operation =
        filter ? LIMBER_OPERATION_CONV_BACKWARD_FILTER : LIMBER_OPERATION_CONV_BACKWARD_DATA;
    p.conv = &shape;
    p.contract = g->contract;
    p.a = (limber_matrix){ filter ? t.x : t.y, t.f, 0, 0 };
    p.b = (limber_matrix){ filter ? t.y : t.w, t.f, 0, 0 };
    for (int i = 0; i < 3; i++)
        out[i] = calloc(count, to.size);
    a = gpu_upload_new((char *)p.a.data, (filter ? t.nx : t.ny) * t.f.size);
    b = gpu_upload_new((char *)p.b.data, (filter ? t.ny : t.nw) * t.f.size);
    c = gpu_upload_new(out[1], bytes);
    for (int i = 0; i < 3 && !*why; i++) {
        limber_report report = LIMBER_REPORT_INIT;

        p.c = (limber_output){ i == 1 ? (void *)c.at : out[i], to, 0, 0 };
        if (i == 1) {
            p.a.data = (void *)a.at;
            p.b.data = (void *)b.at;
        } else if (i == 2) {
            p.a.data = filter ? t.x : t.y;
            p.b.data = filter ? t.y : t.w;
        }
        if (limber_run(i == 2 ? reference : gpu, &p, &report))
            snprintf(why, 256, "%s", limber_error_text());
        else if (strcmp(report.backend, i == 2 ? "interp" : "cuda"))
            snprintf(why, 256, "computed by %s", report.backend);
    }
    if (!*why)
        gpu_download(out[1], c);
    for (int i = 0; i < 2; i++)
        same = same && memcmp(out[i], out[2], bytes) == 0;
    for (int i = 0; i < 3; i++)
        free(out[i]);
    drop_tensors(&t);
    if (*why)
        return false; /* after an error the device and its memory may be lost */
    gpu_free(a);
    gpu_free(b);
    gpu_free(c);
    return same;
}

static void check_gradient(limber_contract contract, const char *format, const char *result,
                           enum data data, const struct layer *l, bool filter)
{
    const struct gradient g = { &contract, format, result, data, l, filter };
    char why[256];

    if (!same_gradient(cuda, &g, why))
        fail_msg("%s of %s, layer %d: %s", filter ? "filters" : "image", format, (int)(l - layers),
                 *why ? why : "bits differ");
}

/* Gradients in both layouts are cut into blocks as convolutions are: host and device memory give
 * the same bits, and errors against correctly rounded results are within the reported bound. */
static void gradients_are_cut_into_blocks(void **state)
{
    enum { FILTERS = 130, SIDE = 11, OPERANDS = 2 };

    (void)state;
    if (!has_unit(UNIT_bf16))
        skip_because("the device does not multiply BF16");
    for (int i = 0; i < 4; i++) {
        const bool filter = i > 1;
        const struct layer l = {
            2, 16, SIDE, SIDE, FILTERS, 3,
            3, 1,  1,    1,    1,       i % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW
        };
        struct tensors t = make_tensors(&l, "f32", "f32", DATA_unit);
        const size_t count = filter ? t.nw : t.nx,
                     sizes[OPERANDS] = { filter ? t.nx : t.ny, filter ? t.ny : t.nw };
        float *in[OPERANDS] = { (float *)(void *)(filter ? t.x : t.y),
                                (float *)(void *)(filter ? t.y : t.w) };
        float *magnitude[OPERANDS], *out[4];
        limber_contract ape = native;
        limber_conv shape = shape_of(&l);
        limber_report report = LIMBER_REPORT_INIT;
        limber_problem p = LIMBER_PROBLEM_INIT;
        struct gpu_buffer on_device[OPERANDS], c;
        struct rng r = { 32 };

        fill(&r, DATA_unit, t.f, t.y, t.ny);
        in[filter][t.ny / 2] = 0x1p-45f;
        ape.promise = LIMBER_CONTRACT_FAST;
        ape.scheme = "ape";
        for (int j = 0; j < OPERANDS; j++) {
            magnitude[j] = malloc(sizes[j] * 4);
            for (size_t e = 0; e < sizes[j]; e++)
                magnitude[j][e] = fabsf(in[j][e]);
            on_device[j] = gpu_upload_new((char *)in[j], sizes[j] * 4);
        }
        p.operation =
            filter ? LIMBER_OPERATION_CONV_BACKWARD_FILTER : LIMBER_OPERATION_CONV_BACKWARD_DATA;
        p.conv = &shape;
        for (int j = 0; j < 4; j++) {
            float *const *from = j == 3 ? magnitude : in;

            out[j] = calloc(count, 4);
            p.contract = j > 1 ? &correct : &ape;
            p.a = (limber_matrix){ from[0], t.f, 0, 0 };
            p.b = (limber_matrix){ from[1], t.f, 0, 0 };
            p.c = (limber_output){ out[j], t.fy, 0, 0 };
            if (j == 1) {
                c = gpu_upload_new((char *)out[j], count * 4);
                p.a.data = (void *)on_device[0].at;
                p.b.data = (void *)on_device[1].at;
                p.c.data = (void *)c.at;
            }
            if (limber_run(j > 1 ? reference : cuda, &p, j > 1 ? NULL : &report))
                fail_msg("%s", limber_error_text());
            if (j < 2)
                assert_true(report.parts > 1);
        }
        gpu_download((char *)out[1], c);
        assert_memory_equal(out[0], out[1], count * 4);
        for (size_t e = 0; e < count; e++) {
            double error = fabs((double)out[0][e] - out[2][e]);

            if (!(error <= (report.bound + 0x1p-23) * out[3][e]))
                fail_msg("%d: element %d is %a, not %a", i, (int)e, (double)out[0][e],
                         (double)out[2][e]);
        }
        for (int j = 0; j < 4; j++)
            free(out[j]);
        for (int j = 0; j < OPERANDS; j++) {
            free(magnitude[j]);
            gpu_free(on_device[j]);
        }
        gpu_free(c);
        drop_tensors(&t);
    }
}

/* Returns the index maps of a layer's tensors in one direction. */
static struct placed place_layer(const struct layer *l, int direction)
{
    const struct conv_geometry g = {
        .stride = { l->stride, l->stride, l->t ? l->stride : 1 },
        .pad = { l->pad, l->pad, l->pad, l->pad, l->t ? l->pad : 0, l->t ? l->pad : 0 },
        .dilate = { l->dilate, l->dilate, l->t ? l->dilate : 1 },
        .groups = l->groups,
        .layout = l->layout == LIMBER_LAYOUT_NHWC,
        .direction = direction,
        .deep = l->t != 0,
    };
    struct placed p;

    place_conv(
        &p, &g,
        &(struct conv_sizes){ l->n, l->c, l->h, l->w, l->o, l->r, l->s, .d = l->d, .t = l->t });
    return p;
}

enum { ROOM = 1 << 24 }; /* bytes of a workspace that holds all limbs of any layer in this file */

/* How a convolution is computed.  limit: bytes of the workspace. */
struct conv_run {
    const char *scheme, *format;
    enum data data;
    size_t limit;
    int direction;
};

/* A tensor's address and number of elements. */
struct part {
    char *data;
    size_t count;
};

/* Sets the left and the right operand and the result of the product that computes a direction of
 * the convolution. */
static void set_parts(const struct tensors *t, int direction, struct part part[3])
{
    const struct part x = { t->x, t->nx }, w = { t->w, t->nw }, y = { t->y, t->ny };

    part[0] = direction == DIRECTION_filter ? y : w;
    part[1] = direction == DIRECTION_data ? y : x;
    part[2] = direction == DIRECTION_forward ? y : direction == DIRECTION_data ? x : w;
}

/* Runs the device's plan on both backends, on the GPU with a workspace of at most how.limit bytes.
 * Returns the index of the first element that differs, or -1 if none does; on an error returns 0 or
 * more, with a message in d.  *took: bytes of the GPU's workspace. */
static int64_t compare_conv(struct conv_run how, const struct layer *l, size_t *took,
                            struct diag *d)
{
    struct tensors t = make_tensors(l, how.format, how.format, how.data);
    struct placed placed = place_layer(l, how.direction);
    struct rng r = { 37 };
    struct part part[3];
    struct tensor filters, image;
    char *got;
    struct target target = { .device = 0 };
    struct mask mw = { 0 }, mx = { 0 };
    struct plan p;
    int64_t at = 0;
    bool ok = limber_backend_cuda.probe(&target, d);

    if (how.direction != DIRECTION_forward)
        fill(&r, how.data, t.f, t.y, t.ny);
    set_parts(&t, how.direction, part);
    filters = (struct tensor){ part[0].data, t.f };
    image = (struct tensor){ part[1].data, t.f };
    got = calloc(part[2].count, t.fy.size);
    memset(part[2].data, 0, part[2].count * t.fy.size);
    for (int64_t g = 0; ok && g < l->groups; g++) {
        struct call want =
            place_group(&placed, g, filters, image, (struct tensor){ part[2].data, t.fy });
        struct call call = place_group(&placed, g, filters, image, (struct tensor){ got, t.fy });

        ok = limber_scan(&mw, &call.a, t.f, call.m, call.k, SCAN_full, NULL, d) &&
             limber_scan(&mx, &call.b, t.f, call.n, call.k, SCAN_full, NULL, d);
        plan_state_conv(
            &p, &placed.conv.geometry,
            &(struct planned){ LIMBER_CONTRACT_FAST, how.scheme, t.f, t.f, &mw, &mx, 12, false });
        ok = ok && limber_passes_run(&p, &target, NULL, (struct pass_watch){ 0 }, d);
        want.mask_a = call.mask_a = &mw;
        want.mask_b = call.mask_b = &mx;
        call.workspace_limit = how.limit;
        ok = ok && plan_launch(&limber_backend_interp, &p, &target, &want, d) &&
             plan_launch(&limber_backend_cuda, &p, &target, &call, d);
        *took = call.out.workspace;
        limber_plan_clear(&p);
        limber_mask_clear(&mw);
        limber_mask_clear(&mx);
    }
    while (at < (int64_t)part[2].count &&
           same_number(t.fy, part[2].data + at * t.fy.size, got + at * t.fy.size))
        at++;
    at = at < (int64_t)part[2].count ? at : -1;
    free(got);
    drop_tensors(&t);
    return at;
}

/* Fails the test unless the device's plan gives the interpreter's bits.  Returns the bytes of
 * workspace that the device used; 0 if the device lacks a unit. */
static size_t same_run(struct conv_run how, const struct layer *l)
{
    const char *scheme = how.scheme;
    struct diag d = { 0 };
    size_t took = 0;
    int64_t at = compare_conv(how, l, &took, &d);

    if (d.status && gpu_lacks(d.text))
        return 0; /* older devices lack some units */
    if (d.status)
        fail_msg("%s: %s", scheme, d.text);
    if (at >= 0)
        fail_msg("%s, direction %d, layer %d: element %d differs", scheme, how.direction,
                 (int)(l - layers), (int)at);
    return took;
}

static size_t same_conv(const char *scheme, const char *format, enum data data,
                        const struct layer *l, size_t limit)
{
    return same_run((struct conv_run){ scheme, format, data, limit, DIRECTION_forward }, l);
}

/* Convolves all layers under several contracts and schemes.  Each run tests a third of the pairs
 * of a layer and a contract. */
static void convolutions_have_the_bits_of_the_interpreter(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++) {
        if (is_taken(i, 3))
            compare_convolution(native, "f32", "f32", DATA_unit, &layers[i]);
        if (is_taken(i + 1, 3))
            compare_convolution(reproducible, "f32", "f32", DATA_unit, &layers[i]);
        if (is_taken(i + 2, 3))
            compare_convolution(correct, "f32", "f32", DATA_unit, &layers[i]);
        if (is_taken(i + 1, 3))
            compare_convolution(exact, "i8", "i32", DATA_bytes, &layers[i]);
        if (is_taken(i + 2, 3))
            same_conv("native", "f32", DATA_unit, &layers[i], ROOM);
    }
    compare_convolution(native, "f64", "f64", DATA_range, &layers[4]);
    compare_convolution(reproducible, "f64", "f64", DATA_range, &layers[4]);
    compare_convolution(correct, "f64", "f64", DATA_special, &layers[0]);
    same_conv("native", "f64", DATA_unit, &layers[4], ROOM);
    same_conv("integer", "i32", DATA_ints, &layers[6], ROOM);
    same_conv("ozaki2", "f64", DATA_unit, &layers[1], ROOM);
    same_conv("ozaki2", "f64", DATA_spread, &layers[4], ROOM);
    same_conv("ozaki1-i8", "f32", DATA_unit, &layers[5], ROOM);
    same_conv("native", "f32", DATA_special, &layers[2], ROOM);
}

/* Gradients of images and of filters of five layers have the interpreter's bits under several
 * contracts. */
static void gradients_have_the_bits_of_the_interpreter(void **state)
{
    static const int some[] = { 0, 3, 4, 5, 8 };

    (void)state;
    for (size_t i = 0; i < COUNT(some); i++)
        for (int filter = 0; filter < 2; filter++) {
            const struct layer *l = &layers[some[i]];

            if (is_taken(i + (size_t)filter, 2))
                check_gradient(reproducible, "f32", "f32", DATA_unit, l, filter);
            if (is_taken(i + (size_t)filter + 1, 2))
                check_gradient(exact, "i8", "i32", DATA_bytes, l, filter);
            if (i < 2 && is_taken(i + (size_t)filter, 2))
                check_gradient(correct, "f64", "f64", DATA_unit, l, filter);
        }
    check_gradient(correct, "f32", "f32", DATA_special, &layers[3], false);
}

/* Gradients by schemes that round sums or use tensor cores have the interpreter's bits. */
static void gradients_of_every_scheme(void **state)
{
    static const int some[] = { 0, 2, 4, 5, 7 };
    static const char *const schemes[][2] = { { "native", "f32" },
                                              { "fp32-f", "f32" },
                                              { "fp32-b", "f32" },
                                              { "tensor-f16", "f16" },
                                              { "ozaki2", "f64" } };

    (void)state;
    for (size_t i = 0; i < COUNT(some); i++)
        for (size_t j = 0; j < COUNT(schemes); j++) {
            const int direction = (i + j) % 2 ? DIRECTION_filter : DIRECTION_data;

            /* tests each scheme in both directions, but only some of the pairs of a scheme and a
             * layer */
            if (!is_taken(i / 2 + j, 2))
                continue;
            same_run((struct conv_run){ schemes[j][0], schemes[j][1], DATA_unit, ROOM, direction },
                     &layers[some[i]]);
        }
}

/* Convolutions on units with blocks, groups, block scales, and sums that are split along k, have
 * the interpreter's bits.  Each direction has its own order of summation. */
static void units_have_the_bits_of_the_interpreter(void **state)
{
    static const struct {
        const char *unit, *format, *result;
    } units[] = {
        { "h100-bf16", "bf16", "f32" },
        { "in=f16 acc=f32:rs seed=5 group=8 outer=f32", "f16", "f16" },
        { "b200-mxe4m3", "f32", "f32" },
        { "in=bf16 acc=f32 group=6 lanes=2 order=evenodd split=2", "bf16", "bf16" },
    };
    static const int some[] = { 0, 3, 4, 5, 8 };

    (void)state;
    for (size_t i = 0; i < COUNT(units); i++) {
        limber_unit u = LIMBER_UNIT_INIT;
        const limber_contract simulate = { .size = sizeof(limber_contract),
                                           .promise = LIMBER_CONTRACT_SIMULATE,
                                           .unit = &u };

        if (limber_unit_parse(units[i].unit, &u))
            fail_msg("%s: %s", units[i].unit, limber_error_text());
        for (size_t j = i % 2; j < COUNT(some); j += 2) {
            const struct layer *l = &layers[some[j]];

            if (!is_taken(i / 2 + j / 2, 2))
                continue;

            compare_convolution(simulate, units[i].format, units[i].result, DATA_unit, l);
            check_gradient(simulate, units[i].format, units[i].result, DATA_unit, l, false);
            check_gradient(simulate, units[i].format, units[i].result, DATA_unit, l, true);
        }
    }
}

/* Pixels that no filter position covers do not influence the plan: a stride of 2 leaves out the
 * last row and column. */
static void unseen_pixels_may_hold_anything(void **state)
{
    static const struct layer layer = { 2, 5, 8, 8, 7, 3, 3, 2, 0, 1, 1, LIMBER_LAYOUT_NHWC };
    struct tensors t = make_tensors(&layer, "f64", "f64", DATA_unit);
    limber_conv shape = shape_of(&layer);
    size_t bytes = t.ny * 8;
    char *want = malloc(bytes);
    limber_report report[2] = { LIMBER_REPORT_INIT, LIMBER_REPORT_INIT };
    struct gpu_buffer w = gpu_upload_new(t.w, t.nw * 8), y = gpu_upload_new(t.y, bytes), x;

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (size_t e = 0; e < t.nx && i; e++)
            if (e / 5 % 8 == 7 || e / 40 % 8 == 7)
                ((double *)(void *)t.x)[e] = e % 2 ? NAN : 1e300;
        x = gpu_upload_new(t.x, t.nx * 8);
        assert_int_equal(limber_conv2d(cuda, &correct, &shape, NULL, (void *)x.at, t.f,
                                       (void *)w.at, t.f, NULL, (void *)y.at, t.fy, &report[i]),
                         LIMBER_STATUS_OK);
        gpu_download(i ? t.y : want, y);
        gpu_free(x);
    }
    assert_memory_equal(t.y, want, bytes);
    assert_string_equal(report[0].kernel, report[1].kernel);
    gpu_free(w);
    gpu_free(y);
    free(want);
    drop_tensors(&t);
}

/* Convolutions by schemes that use tensor cores have the bits of the simulated units in the
 * interpreter. */
static void convolutions_have_the_bits_of_tensor_cores(void **state)
{
    (void)state;
    if (!has_unit(UNIT_f16))
        return;
    for (size_t i = 0; i < COUNT(layers); i++)
        if (is_taken(i, 2))
            same_conv("fp32-f", "f32", DATA_unit, &layers[i], ROOM);
    same_conv("fp32-t", "f32", DATA_unit, &layers[4], ROOM);
    same_conv("fp32-f", "f32", DATA_ties, &layers[0], ROOM);
    same_conv("fp32-b9", "f32", DATA_unit, &layers[0], ROOM);
    same_conv("fp32-m", "f32", DATA_bytes, &layers[1], ROOM);
    same_conv("tensor-f16", "f16", DATA_unit, &layers[5], ROOM);
    same_conv("tensor-e4m3", "e4m3", DATA_unit, &layers[1], ROOM);
}

/* Limbs of an image are made once, not for each of its patches, as the size of the workspace shows.
 * Layer 0 has 162 pixels of 16 channels; its patches matrix has 162 lines of 144 elements. */
static void an_image_is_cut_once(void **state)
{
    size_t image = 2 * 9 * 9 * 16 * 4, filters = 128 * 640, part = 0;

    (void)state;
    assert_true(same_conv("native", "f32", DATA_unit, &layers[0], ROOM) <= image + filters + 1024);
    /* the less workspace, the more parts: of filters and pixels, then of images */
    for (size_t limit = 1 << 18; limit >= 1 << 12; limit /= 4, part++)
        for (size_t i = 0; i < COUNT(layers); i += 2)
            if (is_taken(part + i / 2, 2))
                same_conv("native", "f32", DATA_unit, &layers[i], limit);
}

/* A convolution to compute by faulty kernels. */
struct faulty {
    struct conv_run how;
    const struct layer *layer;
};

/* Computes a forward convolution by kernels with the planted fault.  Returns 1 if it is right, 0 if
 * it is wrong or fails, 3 if NVRTC refuses the kernels. */
static int run_faulty(void *arg)
{
    const struct faulty *f = arg;
    struct diag d = { 0 };
    size_t took;
    int64_t at = compare_conv(f->how, f->layer, &took, &d);

    if (d.status)
        return strstr(d.text, "NVRTC") ? 3 : 0;
    return at < 0;
}

/* Faults are planted in the code that finds the pixels which a filter covers, and in the
 * pipeline that fetches them; each must change the result or stop the kernel. */
static void faults_of_windows_are_found(void **state)
{
    static const struct gpu_fault windows[] = {
        { 0, "another dilation",
          "position - r * w.s) * w.dilate[1]=>position - r * w.s) * w.dilate[0] + 1" },
        { 0, "twice the dilation", "y = r * w.dilate[0]=>y = r * w.dilate[0] * 2" },
        { 0, "no padding", "% w.ow * w.stride[1] - w.pad[1]=>% w.ow * w.stride[1]" },
        { 0, "pixels behind the last",
          "if (j >= a.r.n)\\n        return { -2 * OUTSIDE, 0, 0 };=>" },
        { 0, "what lies outside", "inside ? 16 : 0=>16" },
        { 0, "quotients too small by one", "return q + (n - q * d >= d)=>return q" },
    };
    /* positions past the end of the filter are multiplied by zeros of A, so only NaN show this
     * fault */
    static const struct gpu_fault behind[] = {
        { 0, "a position behind the last", "if (r >= w.r)=>if (r > w.r)" },
    };
    static const struct gpu_fault stages[] = {
        { 90, "no fence", "fence_async();\\n    sync_warp();=>sync_warp();" },
        { 90, "copies that are not awaited", "copy_wait<behind>();\\n    fence=>fence" },
        { 90, "no order among lanes",
          "sync_warp();\\n    if (lane() == 0)\\n        barrier_arrive((=>"
          "if (lane() == 0) barrier_arrive((" },
        { 90, "a stage that is not empty",
          "barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);\\n    if=>if" },
        { 100, "no fence", "fence_async();\\n    sync_warp();=>sync_warp();" },
        { 100, "copies that are not awaited", "copy_wait<behind>();\\n    fence=>fence" },
        { 100, "no order among lanes",
          "sync_warp();\\n    if (lane() == 0)\\n        barrier_arrive((=>"
          "if (lane() == 0) barrier_arrive((" },
        { 100, "a stage that is not empty",
          "barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);\\n    if=>if" },
    };
    static const struct gpu_fault copies[] = {
        { 90, "one copy too many on its way", "behind = STAGES - 2=>behind = STAGES - 1" },
    };
    /* a device without BF16 units (WMMA only) computes "native" by other kernels */
    const char *scheme = has_unit(UNIT_bf16) ? "fp32-f" : "native";
    struct faulty limbs = { { scheme, "f32", DATA_unit, ROOM }, &layers[4] };
    struct faulty parts = { { scheme, "f32", DATA_unit, ROOM }, &layers[6] };
    struct faulty special = { { "native", "f32", DATA_special, ROOM }, &layers[2] };
    struct faulty integers = { { "integer", "i32", DATA_ints, ROOM }, &layers[6] };

    (void)state;
    gpu_faults_are_found(windows, COUNT(windows), run_faulty, &limbs);
    gpu_faults_are_found(behind, COUNT(behind), run_faulty, &special);
    gpu_faults_are_found(stages, COUNT(stages), run_faulty, &parts);
    gpu_faults_are_found(copies, COUNT(copies), run_faulty, &integers);
}

/* Computes a gradient in a new context, so that kernels are compiled after the fault was planted.
 * Returns 1 if it is right, 0 if not, 2 if there is no context, 3 if NVRTC refuses the kernels. */
static int run_faulty_gradient(void *arg)
{
    limber_context *own;
    char why[256];

    if (limber_create(
            &own,
            &(limber_config){ .size = sizeof(limber_config), .backend = "cuda", .cache_dir = "" }))
        return 2;
    if (same_gradient(own, arg, why))
        return 1;
    return strstr(why, "NVRTC") ? 3 : 0;
}

/* Faults planted in the code that finds the pixels that a gradient reads must change the result. */
static void faults_of_gradients_are_found(void **state)
{
    static const struct gpu_fault windows[] = {
        { 0, "a window that runs forwards", "+ s * w->dilate[1]=>- s * w->dilate[1]" },
        { 0, "no padding", "+ r * w->dilate[0] - w->pad[0]=>+ r * w->dilate[0]" },
        { 0, "what lies outside", "y >= w->h || x >= w->w=>y >= w->h || x > w->w" },
        { 0, "another row", "y * w->row=>(y + 1) % w->h * w->row" },
    };
    static const struct gpu_fault lines[] = {
        { 0, "windows that are no lines", "if (w->transposed)=>if (0)" },
    };
    struct gradient image = { &reproducible, "f32", "f32", DATA_unit, &layers[0], false };
    struct gradient strided = { &exact, "i8", "i32", DATA_bytes, &layers[5], false };
    struct gradient filter = { &reproducible, "f32", "f32", DATA_unit, &layers[0], true };

    (void)state;
    gpu_faults_are_found(windows, COUNT(windows), run_faulty_gradient, &image);
    /* with this stride, each stride phase of the gradient uses one element of the filter */
    gpu_faults_are_found(windows + 3, 1, run_faulty_gradient, &strided);
    gpu_faults_are_found(windows, COUNT(windows), run_faulty_gradient, &filter);
    gpu_faults_are_found(lines, COUNT(lines), run_faulty_gradient, &filter);
}

/* If the library estimates the number of slices from an image (scheme ozaki1 under `fast`), host
 * and device choose the same plan. */
static void slices_of_images_are_estimated(void **state)
{
    const limber_contract fast = { .size = sizeof(limber_contract),
                                   .promise = LIMBER_CONTRACT_FAST,
                                   .scheme = "ozaki1-i8" };

    (void)state;
    compare_convolution(fast, "f64", "f64", DATA_unit, &layers[4]);
}

/* ---- convolutions in recorded graphs --------------------------------------------------------- */

/* Reverses the order of the elements, which gives other data of the same exponent range. */
static void reverse_elements(char *p, size_t count, size_t size)
{
    char x[16];

    for (size_t i = 0; i < count / 2; i++) {
        memcpy(x, p + i * size, size);
        memcpy(p + i * size, p + (count - 1 - i) * size, size);
        memcpy(p + (count - 1 - i) * size, x, size);
    }
}

/* A convolution that is recorded once and then run on other data. */
struct recorded {
    limber_contract contract;
    const char *format;
    /* the scheme for data beyond the recorded class; NULL: the interpreter's bits are expected */
    const char *any;
    const struct layer *layer;
    bool whole; /* records with the largest workspace, else with the smallest */
    limber_operation operation;
};

/* Returns the problem of one convolution pass (forward, or the gradient of the image or of the
 * filters). at: addresses of A, B and C. */
static limber_problem problem_of(const struct recorded *x, const limber_conv *shape,
                                 const void *const at[3], const struct tensors *t)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.operation = x->operation;
    p.conv = shape;
    p.contract = &x->contract;
    p.a = (limber_matrix){ at[0], t->f, 0, 0 };
    p.b = (limber_matrix){ at[1], t->f, 0, 0 };
    p.c = (limber_output){ (void *)(uintptr_t)at[2], t->fy, 0, 0 };
    return p;
}

/* Records a convolution and replays the graph on other operands, of which some are beyond the
 * class (exponent range) of the recorded plan. */
static void play_recorded(const struct recorded *x)
{
    static const enum data data[] = { DATA_unit, DATA_special, DATA_range };
    const bool image = x->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA,
               filter = x->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER;
    const struct layer *l = x->layer;
    struct tensors t = make_tensors(l, x->format, x->format, DATA_unit);
    limber_conv shape = shape_of(l);
    struct part in[2] = { { t.x, t.nx }, { t.w, t.nw } }, out = { t.y, t.ny };
    struct recorded other = *x;
    size_t least, best, size = t.f.size, bytes;
    struct rng r = { 23 };
    char *got;
    struct gpu_buffer a, b, c, room;
    limber_problem p, host;
    limber_queue queue;
    void *play;

    if (image) {
        in[0] = (struct part){ t.y, t.ny };
        out = (struct part){ t.x, t.nx };
    } else if (filter) {
        in[1] = (struct part){ t.y, t.ny };
        out = (struct part){ t.w, t.nw };
    }
    bytes = out.count * size;
    got = malloc(bytes);
    if (image || filter)
        fill(&r, DATA_unit, t.f, t.y, t.ny);
    memset(in[0].data, 0, in[0].count / 4 * size); /* zero lines have a scale of their own */
    a = gpu_upload_new(in[0].data, in[0].count * size);
    b = gpu_upload_new(in[1].data, in[1].count * size);
    c = gpu_upload_new(out.data, bytes);
    p = problem_of(x, &shape, (const void *[]){ (void *)a.at, (void *)b.at, (void *)c.at }, &t);
    host = problem_of(&other, &shape, (const void *[]){ in[0].data, in[1].data, out.data }, &t);
    assert_int_equal(limber_workspace(cuda, &p, &least, &best), LIMBER_STATUS_OK);
    assert_true(least > 0 && least <= best);
    room = gpu_queue(&queue, x->whole ? best : least);
    p.queue = &queue;
    if (limber_run(cuda, &p, NULL))
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamBeginCapture_v2(queue.stream, 0), 0);
    if (limber_run(cuda, &p, NULL))
        fail_msg("%s", limber_error_text());
    play = gpu_end_recording(&queue);
    for (size_t i = 0; i < COUNT(data); i++) {
        /* each run tests one of the two kinds of data that are beyond the class */
        if (i > 0 && !is_taken(i + (size_t)(l - layers) + (size_t)x->operation, 2))
            continue;
        for (int side = 0; side < 2; side++)
            if (i == 0)
                reverse_elements(in[side].data, in[side].count, size);
            else
                fill(&r, data[i], t.f, in[side].data, in[side].count);
        gpu_upload(a, in[0].data);
        gpu_upload(b, in[1].data);
        memset(got, 0xff, bytes);
        gpu_upload(c, got);
        gpu_run_graph(play, &queue);
        gpu_download(got, c);
        other.contract.scheme = i < 1 ? x->contract.scheme : x->any;
        if (limber_run(i < 1 || x->any ? cuda : reference, &host, NULL))
            fail_msg("%s", limber_error_text());
        for (size_t e = 0; e < out.count; e++)
            if (!same_number(t.fy, out.data + e * size, got + e * size))
                fail_msg("layer %d of %s, direction %d, played with %s: element %zu",
                         (int)(l - layers), x->format, x->operation, data_name(data[i]), e);
    }
    driver.cuGraphExecDestroy(play);
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(a);
    gpu_free(b);
    gpu_free(c);
    gpu_free(room);
    free(got);
    drop_tensors(&t);
}

/* Convolutions are recorded into CUDA graphs under four contracts; the graph, run later, must give
 * the right bits. */
static void convolutions_are_recorded_into_graphs(void **state)
{
    const limber_contract limbs = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_FAST,
                                    .scheme = "fp32-f" };
    const limber_operation forward = LIMBER_OPERATION_CONV_FORWARD;
    limber_contract residues = correct;

    (void)state;
    /* the bits show which kernels computed, since this scheme rounds differently */
    if (has_unit(UNIT_f16))
        play_recorded(&(struct recorded){ limbs, "f32", "native", &layers[0], true, forward });
    residues.scheme = "ozaki2";
    play_recorded(&(struct recorded){ residues, "f64", NULL, &layers[3], true, forward });
    play_recorded(&(struct recorded){ residues, "f64", NULL, &layers[5], false, forward });
    play_recorded(&(struct recorded){ correct, "f32", NULL, &layers[4], true, forward });
}

/* The image's gradient is computed as one product for each stride phase.  Dilation and groups take
 * further launches. */
static void gradients_are_recorded_into_graphs(void **state)
{
    static const limber_operation directions[] = { LIMBER_OPERATION_CONV_BACKWARD_DATA,
                                                   LIMBER_OPERATION_CONV_BACKWARD_FILTER };
    static const struct {
        const char *format;
        int layer;
        bool whole;
    } others[] = { { "f64", 3, true }, { "f32", 5, false }, { "f32", 8, true } };
    const limber_contract limbs = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_FAST,
                                    .scheme = "fp32-f" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (has_unit(UNIT_f16))
            play_recorded(
                &(struct recorded){ limbs, "f32", "native", &layers[1], true, directions[i] });
        for (size_t j = 0; j < COUNT(others); j++)
            if (is_taken(2 * (size_t)i + j + 2, 3))
                play_recorded(&(struct recorded){ correct, others[j].format, NULL,
                                                  &layers[others[j].layer], others[j].whole,
                                                  directions[i] });
    }
}

/* If the filter covers a pixel of an image's gradient nowhere, the pixel is alpha times an empty
 * sum. */
static void empty_sums_are_those_of_the_interpreter(void **state)
{
    static const float alphas[] = { -1, 2, INFINITY };
    static const struct layer l = { 1, 4, 5, 5, 4, 1, 1, 2, 0, 1, 1, LIMBER_LAYOUT_NCHW };
    struct tensors t = make_tensors(&l, "f32", "f32", DATA_unit);
    const limber_conv s = shape_of(&l);
    float got[4 * 5 * 5], want[4 * 5 * 5];

    (void)state;
    fill(&(struct rng){ 5 }, DATA_unit, t.fy, t.y, t.ny);
    for (size_t i = 0; i < COUNT(alphas); i++) {
        if (limber_conv2d_backward_data(cuda, &correct, &s, &alphas[i], t.y, t.fy, t.w, t.f, NULL,
                                        got, t.f, NULL) ||
            limber_conv2d_backward_data(reference, &correct, &s, &alphas[i], t.y, t.fy, t.w, t.f,
                                        NULL, want, t.f, NULL))
            fail_msg("%s", limber_error_text());
        for (size_t x = 0; x < COUNT(got); x++)
            if (!same_number(t.f, &got[x], &want[x]))
                fail_msg("alpha %g, pixel %zu: %a, not %a", (double)alphas[i], x, (double)got[x],
                         (double)want[x]);
        assert_true(i == 2 ? isnan(want[1]) : !!signbit(want[1]) == (i == 0));
    }
    drop_tensors(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_have_the_bits_of_the_interpreter),
        cmocka_unit_test(images_may_differ_in_magnitude),
        cmocka_unit_test(convolutions_are_cut_into_blocks),
        cmocka_unit_test(gradients_are_cut_into_blocks),
        cmocka_unit_test(gradients_have_the_bits_of_the_interpreter),
        cmocka_unit_test(gradients_of_every_scheme),
        cmocka_unit_test(units_have_the_bits_of_the_interpreter),
        cmocka_unit_test(unseen_pixels_may_hold_anything),
        cmocka_unit_test(convolutions_have_the_bits_of_tensor_cores),
        cmocka_unit_test(an_image_is_cut_once),
        cmocka_unit_test(faults_of_windows_are_found),
        cmocka_unit_test(faults_of_gradients_are_found),
        cmocka_unit_test(empty_sums_are_those_of_the_interpreter),
        cmocka_unit_test(slices_of_images_are_estimated),
        cmocka_unit_test(convolutions_are_recorded_into_graphs),
        cmocka_unit_test(gradients_are_recorded_into_graphs),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
