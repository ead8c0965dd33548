/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA backend against the interpreter, bit for bit: on a GPU when LIMBER_TEST_GPU is set, else
 * on the harness that runs kernels on the CPU (SIMT_CC names the compute capability). */
#include "gpus.h"
#include "plans.h"
#include "support.h"

#include "backends/backend.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static limber_context *reference, *cuda;

/* The driver, as a program that uses the library has it. */
static struct {
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuMemFree_v2)(uint64_t);
    int (*cuMemcpyHtoD)(uint64_t, const void *, size_t, void *);
    int (*cuMemcpyDtoH)(void *, uint64_t, size_t, void *);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuStreamDestroy_v2)(void *);
    int (*cuStreamSynchronize)(void *);
    int (*cuStreamBeginCapture)(void *, int);
    int (*cuStreamEndCapture)(void *, void **);
    int (*cuGraphInstantiate)(void **, void *, unsigned long long);
    int (*cuGraphLaunch)(void *, void *);
    int (*cuGraphExecDestroy)(void *);
    int (*cuGraphDestroy)(void *);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
} driver;

static bool open_driver(void)
{
    const char *name = getenv("LIMBER_CUDA");
    void *handle = dlopen(name ? name : "libcuda.so.1", RTLD_NOW), *context;

    if (!handle)
        return false;
#define GET(field, name) *(void **)&driver.field = dlsym(handle, name)
    GET(cuMemAlloc_v2, "cuMemAlloc_v2");
    GET(cuMemFree_v2, "cuMemFree_v2");
    GET(cuMemcpyHtoD, "cuMemcpyHtoDAsync_v2");
    GET(cuMemcpyDtoH, "cuMemcpyDtoHAsync_v2");
    GET(cuStreamCreate, "cuStreamCreate");
    GET(cuStreamDestroy_v2, "cuStreamDestroy_v2");
    GET(cuStreamSynchronize, "cuStreamSynchronize");
    GET(cuStreamBeginCapture, "cuStreamBeginCapture_v2");
    GET(cuStreamEndCapture, "cuStreamEndCapture");
    GET(cuGraphInstantiate, "cuGraphInstantiateWithFlags");
    GET(cuGraphLaunch, "cuGraphLaunch");
    GET(cuGraphExecDestroy, "cuGraphExecDestroy");
    GET(cuGraphDestroy, "cuGraphDestroy");
    GET(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    GET(cuCtxSetCurrent, "cuCtxSetCurrent");
#undef GET
    return driver.cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
           driver.cuCtxSetCurrent(context) == 0;
}

static int open_contexts(void **state)
{
    const limber_config interp = { .size = sizeof(limber_config),
                                   .backend = "interp",
                                   .cache_dir = "" };
    const limber_config device = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };

    (void)state;
    if (!getenv("LIMBER_TEST_GPU")) {
        setenv("LIMBER_CUDA", SIMT_CUDA, 1);
        setenv("LIMBER_NVRTC", SIMT_NVRTC, 1);
        setenv("LIMBER_CUBLAS", SIMT_CUBLAS, 1);
    }
    if (limber_create(&reference, &interp) || limber_create(&cuda, &device)) {
        fprintf(stderr, "%s\n", limber_error_text());
        return -1;
    }
    return open_driver() ? 0 : -1;
}

static int close_contexts(void **state)
{
    (void)state;
    limber_destroy(cuda);
    limber_destroy(reference);
    return 0;
}

/* ---- one product on both --------------------------------------------------------------------- */

struct product {
    const char *scheme; /* NULL: the library's choice */
    limber_contract contract;
    const char *fa, *fb, *fc;
    enum data data;
    int64_t m, n, k;
    bool transpose_a, transpose_b, transpose_c; /* column-major */
    double alpha, beta; /* 1 and 0: not given */
};

static limber_matrix matrix(void *data, limber_format f, int64_t rows, int64_t cols,
                            bool transposed, int64_t gap)
{
    return transposed ? (limber_matrix){ data, f, 1, rows + gap } :
                        (limber_matrix){ data, f, cols + gap, 1 };
}

static void scalar(char to[16], limber_format c, double v)
{
    limber_format f64 = named("f64"), f = c;

    if (c.kind == LIMBER_KIND_INT)
        f = named("i64");
    assert_int_equal(limber_convert(to, f, &v, f64, 1, LIMBER_ROUND_NEAREST), LIMBER_STATUS_OK);
}

/* NaN is NaN. */
static bool same(limber_format f, const char *x, const char *y)
{
    double a, b;

    if (memcmp(x, y, f.size) == 0)
        return true;
    if (f.kind == LIMBER_KIND_INT ||
        limber_convert(&a, named("f64"), x, f, 1, LIMBER_ROUND_NEAREST) ||
        limber_convert(&b, named("f64"), y, f, 1, LIMBER_ROUND_NEAREST))
        return false;
    return a != a && b != b;
}

static void compare(const struct product *p, uint64_t seed)
{
    limber_format fa = named(p->fa), fb = named(p->fb), fc = named(p->fc);
    struct rng r = { seed };
    int64_t gap = (int64_t)(seed % 3);
    size_t na = (size_t)((p->m + gap) * (p->k + gap) + 1);
    size_t nb = (size_t)((p->k + gap) * (p->n + gap) + 1);
    size_t nc = (size_t)((p->m + gap) * (p->n + gap) + 1);
    char *a = malloc(na * fa.size), *b = malloc(nb * fb.size), *want = malloc(nc * fc.size),
         *got = malloc(nc * fc.size), alpha[16], beta[16];
    limber_contract contract = p->contract;
    limber_report report = LIMBER_REPORT_INIT;
    limber_status s, t;

    contract.scheme = p->scheme;
    fill(&r, p->data, fa, a, na);
    fill(&r, p->data, fb, b, nb);
    fill(&r, DATA_unit, fc, want, nc);
    memcpy(got, want, nc * fc.size);
    scalar(alpha, fc, p->alpha);
    scalar(beta, fc, p->beta);
#define RUN(ctx, to) \
    limber_gemm(ctx, &contract, p->m, p->n, p->k, p->alpha == 1 ? NULL : alpha, \
                matrix(a, fa, p->m, p->k, p->transpose_a, gap), \
                matrix(b, fb, p->k, p->n, p->transpose_b, gap), p->beta == 0 ? NULL : beta, \
                output_of(matrix(to, fc, p->m, p->n, p->transpose_c, gap)), &report)
    if (p->scheme && strcmp(p->scheme, "cublas") == 0)
        contract.scheme = "native";
    s = RUN(reference, want);
    contract.scheme = p->scheme;
    t = RUN(cuda, got);
    if (t == LIMBER_STATUS_NO_SCHEME && strstr(limber_error_text(), "cuda has no"))
        goto done; /* older devices have fewer units */
    if (s != t)
        fail_msg("%s %s: interp says %s, cuda %s: %s", p->scheme ? p->scheme : "any", p->fa,
                 limber_status_name(s), limber_status_name(t), limber_error_text());
    if (s == LIMBER_STATUS_OK && p->m > 0)
        assert_string_equal(report.backend, "cuda");
    for (size_t i = 0; i < nc; i++)
        if (!same(fc, want + i * fc.size, got + i * fc.size))
            fail_msg("%s of %s, %s, %dx%dx%d, seed %d: element %zu of %zu differs",
                     p->scheme ? p->scheme : report.scheme, p->fa, data_name(p->data), (int)p->m,
                     (int)p->n, (int)p->k, (int)seed, i, nc);
done:
    free(a);
    free(b);
    free(want);
    free(got);
}

/* ---- the schemes ----------------------------------------------------------------------------- */

static const limber_contract native = { .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_NATIVE };
static const limber_contract plain = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE,
                                       .scheme = "native" };
static const limber_contract correct = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_CORRECT };
static const limber_contract exact = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_EXACT };

static void native_has_the_bits_of_fused_multiply_adds(void **state)
{
    (void)state;
    compare(&(struct product){ "native", native, "f32", "f32", "f32", DATA_unit, 37, 51, 300,
                               .alpha = 1 },
            1);
    compare(&(struct product){ "native", native, "f64", "f64", "f64", DATA_range, 130, 70, 290,
                               .alpha = 1, .transpose_a = true },
            2);
    compare(&(struct product){ "native", native, "f32", "f32", "f32", DATA_special, 20, 30, 40,
                               .alpha = 1.5, .beta = -2, .transpose_c = true },
            3);
    compare(&(struct product){ "native", native, "f16", "bf16", "f16", DATA_unit, 20, 30, 40,
                               .alpha = 2, .transpose_b = true },
            4);
}

static void residues_have_the_bits_of_the_exact_integer(void **state)
{
    (void)state;
    compare(&(struct product){ "ozaki2", correct, "f64", "f64", "f64", DATA_unit, 131, 67, 200,
                               .alpha = 1 },
            5);
    compare(&(struct product){ "ozaki2", correct, "f64", "f64", "f64", DATA_ties, 33, 40, 65,
                               .alpha = 3, .beta = 0.5, .transpose_c = true, .transpose_a = true },
            6);
    compare(&(struct product){ "ozaki2", correct, "f128", "f128", "f128", DATA_spread, 9, 45, 50,
                               .alpha = 1 },
            7);
    compare(&(struct product){ "ozaki2", correct, "dd", "dd", "dd", DATA_unit, 9, 35, 50,
                               .alpha = 1, .transpose_c = true },
            8);
    compare(&(struct product){ "ozaki2", correct, "f64", "f64", "f64", DATA_special, 20, 20, 30,
                               .alpha = 1 },
            9);
    compare(&(struct product){ "ozaki2", correct, "f32", "f32", "f32", DATA_tiny, 20, 20, 30,
                               .alpha = 1 },
            10);
}

static void slices_have_the_bits_of_the_exact_integer(void **state)
{
    static const char *const schemes[] = { "ozaki1-i8", "ozaki1-f16", "ozaki1-bf16", "ozaki1-f64" };

    (void)state;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        compare(&(struct product){ schemes[i], correct, "f64", "f64", "f64", DATA_ties, 30, 40, 70,
                                   .alpha = 1 },
                20 + i);
        compare(&(struct product){ schemes[i], correct, "f32", "f32", "f32", DATA_unit, 30, 21, 170,
                                   .alpha = 1, .transpose_b = true },
                30 + i);
    }
}

static void integers_are_exact(void **state)
{
    (void)state;
    compare(
        &(struct product){ NULL, exact, "i8", "i8", "i32", DATA_bytes, 140, 30, 100, .alpha = 1 },
        40);
    compare(&(struct product){ NULL, exact, "u8", "i8", "i32", DATA_bytes, 30, 30, 100, .alpha = 2,
                               .beta = 3 },
            41);
    compare(&(struct product){ NULL, exact, "i16", "i16", "i64", DATA_ints, 30, 30, 100, .alpha = 1,
                               .transpose_c = true },
            42);
    compare(
        &(struct product){ NULL, exact, "i32", "i32", "i64", DATA_ints, 30, 30, 100, .alpha = 1 },
        43);
    compare(
        &(struct product){ NULL, native, "i32", "i32", "i32", DATA_range, 30, 30, 100, .alpha = 1 },
        44);
    compare(
        &(struct product){ NULL, exact, "i16", "i16", "i16", DATA_range, 30, 30, 100, .alpha = 1 },
        45);
}

static void long_accumulators_serve_any_data(void **state)
{
    (void)state;
    compare(&(struct product){ "exact", correct, "f64", "f64", "f64", DATA_range, 11, 13, 20,
                               .alpha = 1 },
            50);
    compare(&(struct product){ "exact", correct, "f32", "f32", "f64", DATA_special, 11, 13, 20,
                               .alpha = -1, .beta = 2, .transpose_c = true },
            51);
}

/* ---- sums of tensor cores -------------------------------------------------------------------- */

extern const struct backend limber_backend_cuda;

static void same_plan(const char *scheme, enum data data, int64_t m, int64_t n, int64_t k)
{
    plan_compare(scheme, named("f32"), named("f32"), data, m, n, k);
}

static void limbs_have_the_bits_of_tensor_cores(void **state)
{
    static const char *const schemes[] = { "fp32-f", "fp32-t", "fp32-b", "fp32-b9" };

    (void)state;
    for (size_t i = 0; i < COUNT(schemes); i++) {
        same_plan(schemes[i], DATA_unit, 21, 35, 150);
        same_plan(schemes[i], DATA_ints, 130, 9, 64);
    }
    same_plan("fp32-f", DATA_unit, 9, 140, 37);
    same_plan("fp32-m", DATA_bytes, 9, 14, 300);
}

/* ---- clusters -------------------------------------------------------------------------------- */

static bool has_feature(const char *feature)
{
    struct target t = { .device = 0 };
    struct diag d = { 0 };

    return limber_backend_cuda.probe(&t, &d) && limber_target_has(&t, feature);
}

/* Two products side by side, of which the second begins behind the first in each matrix. */
static void same_batch(int64_t m, int64_t n, int64_t k)
{
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = 2, .a = m * k, .b = n * k, .c = m * n
    };
    limber_format f = named("i8"), fc = named("i32");
    char *a = malloc((size_t)(2 * m * k)), *b = malloc((size_t)(2 * n * k));
    int32_t *want = calloc((size_t)(2 * m * n), 4), *got = calloc((size_t)(2 * m * n), 4);
    struct rng r = { 95 };

    fill(&r, DATA_bytes, f, a, (size_t)(2 * m * k));
    fill(&r, DATA_bytes, f, b, (size_t)(2 * n * k));
    for (int i = 0; i < 2; i++)
        assert_int_equal(gemm_batch(i ? cuda : reference, &exact, NULL, &batch, m, n, k, NULL,
                                    (limber_matrix){ a, f, k, 1 }, (limber_matrix){ b, f, 1, k },
                                    NULL, (limber_output){ i ? got : want, fc, n, 1 }, NULL),
                         LIMBER_STATUS_OK);
    assert_memory_equal(got, want, (size_t)(2 * m * n * 4));
    free(a);
    free(b);
    free(want);
    free(got);
}

/* One row of tiles is for blocks by themselves; of an odd number the last has a block beside it
 * that has none. */
static void clusters_have_the_same_bits(void **state)
{
    static const int64_t rows[] = { 100, 256, 300, 600 };

    (void)state;
    if (!has_feature("wgmma"))
        return;
    for (size_t i = 0; i < COUNT(rows); i++) {
        compare(&(struct product){ NULL, exact, "i8", "i8", "i32", DATA_bytes, rows[i], 20, 300,
                                   .alpha = 1, .transpose_b = i & 1 },
                90 + i);
        same_plan("fp32-f", DATA_unit, rows[i], 12, 70);
    }
    compare(&(struct product){ NULL, exact, "i16", "i16", "i64", DATA_ints, 140, 270, 130,
                               .alpha = 2, .beta = 3, .transpose_c = true },
            94);
    compare(&(struct product){ "ozaki2", correct, "f64", "f64", "f64", DATA_unit, 259, 9, 140,
                               .alpha = 1 },
            95);
    same_batch(200, 30, 150);
}

/* ---- memory of the device -------------------------------------------------------------------- */

struct there {
    uint64_t at;
    size_t bytes;
};

static struct there put(const void *data, size_t bytes)
{
    struct there r = { 0, bytes };

    assert_int_equal(driver.cuMemAlloc_v2(&r.at, bytes), 0);
    assert_int_equal(driver.cuMemcpyHtoD(r.at, data, bytes, NULL), 0);
    return r;
}

static void get(void *to, struct there r)
{
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
    assert_int_equal(driver.cuMemcpyDtoH(to, r.at, r.bytes, NULL), 0);
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

struct layer {
    int64_t n, c, h, w, o, r, s, stride, pad, dilate, groups;
    limber_layout layout;
};

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
    };
}

/* ResNet's kinds of layers, and what else a shape may be. */
static const struct layer layers[] = {
    { 2, 16, 9, 9, 24, 3, 3, 1, 1, 1, 1, LIMBER_LAYOUT_NCHW },
    { 2, 16, 9, 9, 24, 3, 3, 1, 1, 1, 1, LIMBER_LAYOUT_NHWC },
    { 1, 3, 21, 21, 16, 7, 7, 2, 3, 1, 1, LIMBER_LAYOUT_NCHW },
    { 2, 32, 8, 8, 40, 1, 1, 2, 0, 1, 1, LIMBER_LAYOUT_NHWC },
    { 3, 13, 6, 7, 10, 3, 2, 1, 2, 2, 1, LIMBER_LAYOUT_NCHW },
    { 2, 24, 7, 9, 18, 3, 3, 3, 1, 1, 3, LIMBER_LAYOUT_NHWC },
    { 1, 80, 5, 5, 130, 3, 3, 1, 1, 1, 2, LIMBER_LAYOUT_NCHW },
};

struct tensors {
    limber_format f, fy;
    char *x, *w, *y;
    size_t nx, nw, ny; /* elements */
    int64_t oh, ow;
};

static struct tensors make_tensors(const struct layer *l, const char *format, const char *result,
                                   enum data data)
{
    struct tensors t = { .f = named(format), .fy = named(result) };
    limber_conv s = shape_of(l);
    struct rng r = { 400 + (uint64_t)(l->h * l->c) };

    assert_int_equal(limber_conv_output(&s, &t.oh, &t.ow), LIMBER_STATUS_OK);
    t.nx = (size_t)(l->n * l->c * l->h * l->w);
    t.nw = (size_t)(l->o * l->c / l->groups * l->r * l->s);
    t.ny = (size_t)(l->n * l->o * t.oh * t.ow);
    t.x = malloc(t.nx * t.f.size);
    t.w = malloc(t.nw * t.f.size);
    t.y = calloc(t.ny, t.fy.size);
    fill(&r, data, t.f, t.x, t.nx);
    fill(&r, data, t.f, t.w, t.nw);
    /* images of so different sizes that one scale does not serve them */
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

/* Host and device memory give the same; so does the interpreter where there is no choice. */
static void convolve(limber_contract contract, const char *format, const char *result,
                     enum data data, const struct layer *l)
{
    struct tensors t = make_tensors(l, format, result, data);
    limber_conv shape = shape_of(l);
    size_t bytes = t.ny * t.fy.size;
    char *got = malloc(bytes);
    struct there x = put(t.x, t.nx * t.f.size), w = put(t.w, t.nw * t.f.size), y = put(t.y, bytes);
    limber_report report = LIMBER_REPORT_INIT, device = LIMBER_REPORT_INIT;

    if (limber_conv2d(cuda, &contract, &shape, NULL, t.x, t.f, t.w, t.f, NULL, t.y, t.fy, &report))
        fail_msg("%s", limber_error_text());
    assert_string_equal(report.backend, "cuda");
    if (limber_conv2d(cuda, &contract, &shape, NULL, (void *)x.at, t.f, (void *)w.at, t.f, NULL,
                      (void *)y.at, t.fy, &device))
        fail_msg("%s", limber_error_text());
    get(got, y);
    assert_memory_equal(got, t.y, bytes);
    if (strcmp(device.kernel, report.kernel))
        fail_msg("layer %d: a scan on the device finds another class", (int)(l - layers));
    if (contract.promise == LIMBER_CONTRACT_CORRECT || contract.promise == LIMBER_CONTRACT_EXACT) {
        assert_int_equal(limber_conv2d(reference, &contract, &shape, NULL, t.x, t.f, t.w, t.f, NULL,
                                       t.y, t.fy, NULL),
                         LIMBER_STATUS_OK);
        if (memcmp(got, t.y, bytes))
            fail_msg("%s of %s, layer %d differs", report.scheme, format, (int)(l - layers));
    }
    driver.cuMemFree_v2(x.at);
    driver.cuMemFree_v2(w.at);
    driver.cuMemFree_v2(y.at);
    free(got);
    drop_tensors(&t);
}

/* One group's operands. */
struct places {
    struct conv conv;
    struct index_map map[3];
};

static struct call call_of(const struct layer *l, const struct tensors *t, struct places *x,
                           int64_t group, char *y)
{
    static const enum op ops[] = { OP_filters, OP_patches, OP_image };

    x->conv = (struct conv){ { .stride = { l->stride, l->stride },
                               .pad = { l->pad, l->pad, l->pad, l->pad },
                               .dilate = { l->dilate, l->dilate },
                               .groups = l->groups,
                               .layout = l->layout == LIMBER_LAYOUT_NHWC },
                             { l->n, l->c, l->h, l->w, l->o, l->r, l->s, t->oh, t->ow } };
    for (int i = 0; i < 3; i++)
        limber_conv_map(&x->map[i], ops[i], &x->conv, 0);
    return (struct call){
        .m = l->o / l->groups,
        .n = l->n * t->oh * t->ow,
        .k = l->c / l->groups * l->r * l->s,
        .workspace_limit = 1 << 22,
        .conv = &x->conv,
        .a = limber_map_view(&x->map[0], t->w + group * x->map[0].group * t->f.size),
        .b = limber_map_view(&x->map[1], t->x + group * x->map[1].group * t->f.size),
        .c = limber_map_output(&x->map[2], y + group * x->map[2].group * t->fy.size),
    };
}

static int add_tensor(struct plan *p, const char *name, int index, const struct mask *m,
                      limber_format f, const char *dims)
{
    struct type t = { .format = f, .rank = 4, .count = 1 };
    int n;

    for (int i = 0; i < 4; i++)
        t.dim[i] = -dims[i];
    n = limber_plan_add(p, OP_arg, name, -1, -1, t);
    limber_node_set(&p->node[n], ATTR_index, index);
    if (m)
        limber_mask_class(m, f, false, &p->node[n]);
    return n;
}

static void state_conv(struct plan *p, const char *scheme, const struct layer *l,
                       const struct tensors *t, const struct mask *mw, const struct mask *mx)
{
    struct type type = { .format = { .kind = LIMBER_KIND_EXACT },
                         .rank = 4,
                         .dim = { -'n', -'o', -'p', -'q' },
                         .count = 1 };
    int x, w, c, d;

    limber_plan_init(p);
    p->name = "conv2d";
    p->promise = LIMBER_CONTRACT_FAST;
    p->kbits = 12;
    p->budget = INFINITY;
    p->wanted = scheme;
    x = add_tensor(p, "x", 0, mx, t->f, "nchw");
    w = add_tensor(p, "w", 1, mw, t->f, "odrs");
    c = limber_plan_add(p, OP_conv2d, "c", x, w, type);
    limber_node_list(p, &p->node[c], ATTR_stride, (int64_t[]){ l->stride, l->stride }, 2);
    limber_node_list(p, &p->node[c], ATTR_pad, (int64_t[]){ l->pad, l->pad, l->pad, l->pad }, 4);
    limber_node_list(p, &p->node[c], ATTR_dilate, (int64_t[]){ l->dilate, l->dilate }, 2);
    limber_node_set(&p->node[c], ATTR_groups, l->groups);
    limber_node_set(&p->node[c], ATTR_layout, l->layout == LIMBER_LAYOUT_NHWC);
    type.format = t->fy;
    d = limber_plan_add(p, OP_epilogue, "d", c, -1, type);
    limber_node_set(&p->node[d], ATTR_alpha, 0);
    limber_node_set(&p->node[d], ATTR_beta, 0);
    limber_node_set(&p->node[d], ATTR_wrap, 0);
    p->ret = d;
}

static bool run_conv(const struct backend *b, const struct plan *p, const struct target *t,
                     struct call *c, struct diag *d)
{
    struct kernel *kernel = NULL;
    struct blob blob = { 0 };
    bool ok = b->compile(p, t, NULL, &blob, d) && b->load(blob.data, blob.size, &kernel, d) &&
              b->launch(kernel, c, d);

    if (kernel)
        b->unload(kernel);
    free(blob.data);
    return ok;
}

enum { ROOM = 1 << 24 }; /* for all limbs of any layer here */

struct conv_run {
    const char *scheme, *format;
    enum data data;
    size_t limit;
};

/* The plan for this device on both, by workspaces of `limit` bytes: the first element that differs,
 * or -1, or d tells; the bytes that the GPU's took. */
static int64_t compare_conv(struct conv_run how, const struct layer *l, size_t *took,
                            struct diag *d)
{
    struct tensors t = make_tensors(l, how.format, how.format, how.data);
    char *got = calloc(t.ny, t.fy.size);
    struct places places;
    struct target target = { .device = 0 };
    struct mask mw = { 0 }, mx = { 0 };
    struct plan p;
    int64_t at = 0;
    bool ok = limber_backend_cuda.probe(&target, d);

    for (int64_t g = 0; ok && g < l->groups; g++) {
        struct call want = call_of(l, &t, &places, g, t.y), call = call_of(l, &t, &places, g, got);

        ok = limber_scan(&mw, &call.a, t.f, call.m, call.k, SCAN_full, true, NULL, d) &&
             limber_scan(&mx, &call.b, t.f, call.n, call.k, SCAN_full, true, NULL, d);
        state_conv(&p, how.scheme, l, &t, &mw, &mx);
        ok = ok && limber_passes_run(&p, &target, NULL, (struct pass_watch){ 0 }, d);
        want.mask_a = call.mask_a = &mw;
        want.mask_b = call.mask_b = &mx;
        call.workspace_limit = how.limit;
        ok = ok && run_conv(&limber_backend_interp, &p, &target, &want, d) &&
             run_conv(&limber_backend_cuda, &p, &target, &call, d);
        *took = call.workspace;
        limber_plan_clear(&p);
        limber_mask_clear(&mw);
        limber_mask_clear(&mx);
    }
    while (at < (int64_t)t.ny && same(t.fy, t.y + at * t.fy.size, got + at * t.fy.size))
        at++;
    at = at < (int64_t)t.ny ? at : -1;
    free(got);
    drop_tensors(&t);
    return at;
}

static size_t same_conv(const char *scheme, const char *format, enum data data,
                        const struct layer *l, size_t limit)
{
    struct conv_run how = { scheme, format, data, limit };
    struct diag d = { 0 };
    size_t took = 0;
    int64_t at = compare_conv(how, l, &took, &d);

    if (d.status && strstr(d.text, "cuda has no"))
        return 0; /* older devices have fewer units */
    if (d.status)
        fail_msg("%s: %s", scheme, d.text);
    if (at >= 0)
        fail_msg("%s, layer %d: element %d differs", scheme, (int)(l - layers), (int)at);
    return took;
}

static void convolutions_have_the_bits_of_the_interpreter(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++) {
        convolve(native, "f32", "f32", DATA_unit, &layers[i]);
        convolve(correct, "f32", "f32", DATA_unit, &layers[i]);
        convolve(exact, "i8", "i32", DATA_bytes, &layers[i]);
        same_conv("native", "f32", DATA_unit, &layers[i], ROOM);
    }
    convolve(native, "f64", "f64", DATA_range, &layers[4]);
    convolve(correct, "f64", "f64", DATA_special, &layers[0]);
    same_conv("native", "f64", DATA_unit, &layers[4], ROOM);
    same_conv("integer", "i32", DATA_ints, &layers[6], ROOM);
    same_conv("ozaki2", "f64", DATA_unit, &layers[1], ROOM);
    same_conv("ozaki2", "f64", DATA_spread, &layers[4], ROOM);
    same_conv("ozaki1-i8", "f32", DATA_unit, &layers[5], ROOM);
    same_conv("native", "f32", DATA_special, &layers[2], ROOM);
}

/* What no window sees is no part of the class: stride 2 leaves the last row and column. */
static void unseen_pixels_may_hold_anything(void **state)
{
    static const struct layer layer = { 2, 5, 8, 8, 7, 3, 3, 2, 0, 1, 1, LIMBER_LAYOUT_NHWC };
    struct tensors t = make_tensors(&layer, "f64", "f64", DATA_unit);
    limber_conv shape = shape_of(&layer);
    size_t bytes = t.ny * 8;
    char *want = malloc(bytes);
    limber_report report[2] = { LIMBER_REPORT_INIT, LIMBER_REPORT_INIT };
    struct there w = put(t.w, t.nw * 8), y = put(t.y, bytes), x;

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (size_t e = 0; e < t.nx && i; e++)
            if (e / 5 % 8 == 7 || e / 40 % 8 == 7)
                ((double *)(void *)t.x)[e] = e % 2 ? NAN : 1e300;
        x = put(t.x, t.nx * 8);
        assert_int_equal(limber_conv2d(cuda, &correct, &shape, NULL, (void *)x.at, t.f,
                                       (void *)w.at, t.f, NULL, (void *)y.at, t.fy, &report[i]),
                         LIMBER_STATUS_OK);
        get(i ? t.y : want, y);
        driver.cuMemFree_v2(x.at);
    }
    assert_memory_equal(t.y, want, bytes);
    assert_string_equal(report[0].kernel, report[1].kernel);
    driver.cuMemFree_v2(w.at);
    driver.cuMemFree_v2(y.at);
    free(want);
    drop_tensors(&t);
}

static bool has_unit(enum unit u)
{
    struct target t = { .device = 0 };
    struct diag d = { 0 };

    return limber_backend_cuda.probe(&t, &d) && t.rate[u] > 0;
}

static void convolutions_have_the_bits_of_tensor_cores(void **state)
{
    (void)state;
    if (!has_unit(UNIT_f16))
        return;
    for (size_t i = 0; i < COUNT(layers); i++)
        same_conv("fp32-f", "f32", DATA_unit, &layers[i], ROOM);
    same_conv("fp32-t", "f32", DATA_unit, &layers[4], ROOM);
    same_conv("fp32-f", "f32", DATA_ties, &layers[0], ROOM);
    same_conv("fp32-b9", "f32", DATA_unit, &layers[0], ROOM);
    same_conv("fp32-m", "f32", DATA_bytes, &layers[1], ROOM);
    same_conv("tensor-f16", "f16", DATA_unit, &layers[5], ROOM);
    same_conv("tensor-e4m3", "e4m3", DATA_unit, &layers[1], ROOM);
}

/* Layer 0's image has 162 pixels of 16 channels, the patches matrix 162 lines of 144. */
static void an_image_is_cut_once(void **state)
{
    size_t image = 2 * 9 * 9 * 16 * 4, filters = 128 * 640;

    (void)state;
    assert_true(same_conv("native", "f32", DATA_unit, &layers[0], ROOM) <= image + filters + 1024);
    /* parts of filters and pixels, then of images */
    for (size_t limit = 1 << 18; limit >= 1 << 12; limit /= 4)
        for (size_t i = 0; i < COUNT(layers); i += 2)
            same_conv("native", "f32", DATA_unit, &layers[i], limit);
}

/* In a process of its own, since a device is lost with its first complaint. */
static bool fault_is_found(const char *fault, const char *scheme, const char *format,
                           enum data data, const struct layer *l)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct conv_run how = { scheme, format, data, ROOM };
        struct diag d = { 0 };
        size_t took;

        setenv("SIMT_FAULT", fault, 1);
        _exit(compare_conv(how, l, &took, &d) >= 0 || (d.status && !strstr(d.text, "occurs")));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void faults_of_windows_are_found(void **state)
{
    static const char *const faults[] = {
        "position - r * w.s) * w.dilate[1]=>position - r * w.s) * w.dilate[0] + 1",
        "y = r * w.dilate[0]=>y = r * w.dilate[0] * 2",
        "% w.ow * w.stride[1] - w.pad[1]=>% w.ow * w.stride[1]",
        "if (j >= a.r.n)\n        return { -2 * OUTSIDE, 0, 0 };=>",
        "inside ? 16 : 0=>16",
    };
    static const char *const group[] = {
        "fence_async();\n    sync_warp();=>sync_warp();",
        "copy_wait<behind>();\n    fence=>fence",
        "sync_warp();\n    if (lane() == 0)\n        barrier=>if (lane() == 0) barrier",
        "barrier_wait((uint32_t)(EMPTY + 8 * r.stage), r.parity ^ 1);\n    if=>if",
    };
    const char *scheme = has_unit(UNIT_bf16) ? "fp32-f" : "native"; /* not in WMMA */
    struct target t = { .device = 0 };
    struct diag d = { 0 };

    (void)state;
    if (getenv("LIMBER_TEST_GPU"))
        return; /* faults are planted by the harness */
    assert_true(limber_backend_cuda.probe(&t, &d));
    for (size_t i = 0; i < COUNT(faults); i++)
        if (!fault_is_found(faults[i], scheme, "f32", DATA_unit, &layers[4]))
            fail_msg("not found: %s", faults[i]);
    /* what is behind the last position meets zeros of A */
    assert_true(
        fault_is_found("if (r >= w.r)=>if (r > w.r)", "native", "f32", DATA_special, &layers[2]));
    if (!limber_target_has(&t, "wgmma"))
        return;
    for (size_t i = 0; i < COUNT(group); i++)
        if (!fault_is_found(group[i], scheme, "f32", DATA_unit, &layers[6]))
            fail_msg("not found: %s", group[i]);
    assert_true(fault_is_found("behind = STAGES - 2=>behind = STAGES - 1", "integer", "i32",
                               DATA_ints, &layers[6]));
}

/* ---- operands on the device ------------------------------------------------------------------ */

enum { M = 33, N = 29, K = 70, MANY = 3 };

/* MANY products, A and B of f, C of fc: on the interpreter, on the GPU from host memory and from
 * device memory. */
static void everywhere(limber_contract contract, const char *format, const char *result,
                       enum data data, const limber_queue *queue, const limber_batch *batch)
{
    limber_format f = named(format), fc = named(result);
    size_t na = MANY * M * K * f.size, nb = MANY * K * N * f.size, nc = MANY * M * N * fc.size;
    char *a = malloc(na), *b = malloc(nb), *c = malloc(nc), *want = malloc(nc), *got = malloc(nc);
    struct there ra, rb, rc;
    struct rng r = { 99 };
    limber_report host = LIMBER_REPORT_INIT, device = LIMBER_REPORT_INIT;
    limber_status s;

    fill(&r, data, f, a, na / f.size);
    fill(&r, data, f, b, nb / f.size);
    fill(&r, DATA_bytes, fc, c, nc / fc.size);
    memcpy(want, c, nc);
    s = gemm_batch(reference, &contract, NULL, batch, M, N, K, NULL, (limber_matrix){ a, f, K, 1 },
                   (limber_matrix){ b, f, N, 1 }, NULL, (limber_output){ want, fc, N, 1 }, NULL);
    memcpy(got, c, nc);
    assert_int_equal(gemm_batch(cuda, &contract, NULL, batch, M, N, K, NULL,
                                (limber_matrix){ a, f, K, 1 }, (limber_matrix){ b, f, N, 1 }, NULL,
                                (limber_output){ got, fc, N, 1 }, &host),
                     s);
    assert_memory_equal(got, want, nc);
    ra = put(a, na);
    rb = put(b, nb);
    rc = put(c, nc);
    if (gemm_batch(cuda, &contract, queue, batch, M, N, K, NULL,
                   (limber_matrix){ (void *)ra.at, f, K, 1 },
                   (limber_matrix){ (void *)rb.at, f, N, 1 }, NULL,
                   (limber_output){ (void *)rc.at, fc, N, 1 }, &device) != s)
        fail_msg("%s", limber_error_text());
    if (queue)
        assert_int_equal(driver.cuStreamSynchronize(queue->stream), 0);
    get(got, rc);
    assert_memory_equal(got, want, nc);
    /* of subnormal numbers the host's scan is content with a wider class */
    if (s == LIMBER_STATUS_OK && data != DATA_tiny && strcmp(device.kernel, host.kernel))
        fail_msg("%s of %s: a scan on the device finds another class", data_name(data), format);
    driver.cuMemFree_v2(ra.at);
    driver.cuMemFree_v2(rb.at);
    driver.cuMemFree_v2(rc.at);
    free(a);
    free(b);
    free(c);
    free(want);
    free(got);
}

static void operands_may_lie_on_the_device(void **state)
{
    static const enum data data[] = { DATA_unit,  DATA_range, DATA_special,
                                      DATA_zeros, DATA_tiny,  DATA_ints };
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = MANY, .a = M * K, .b = 0, .c = M * N
    };

    (void)state;
    for (size_t i = 0; i < COUNT(data); i++) {
        everywhere(correct, "f64", "f64", data[i], NULL, NULL);
        everywhere(correct, "f32", "f32", data[i], NULL, NULL);
    }
    everywhere(plain, "f32", "f32", DATA_unit, NULL, &batch);
    everywhere(correct, "dd", "dd", DATA_unit, NULL, NULL);
    everywhere(correct, "f128", "f128", DATA_spread, NULL, NULL);
    everywhere(exact, "i16", "i64", DATA_ints, NULL, &batch);
    everywhere(exact, "i16", "i16", DATA_ints, NULL, &batch); /* RANGE: C stays */
}

/* Masks of one scan on the host or on the device serve products of both sides. */
static void prepared_operands_have_the_same_bits(void **state)
{
    enum { M = 70, N = 50, K = 90 };
    const limber_prepare_config checked = { .size = sizeof(limber_prepare_config), .changes = 1 };
    limber_format f64 = named("f64");
    struct rng r = { 77 };
    double a[M * K], b[K * N], want[M * N], got[M * N];
    struct there at, bt, ct;
    limber_prepared *oa, *ob;
    limber_report plain = LIMBER_REPORT_INIT, prepared = LIMBER_REPORT_INIT;

    (void)state;
    fill(&r, DATA_special, f64, a, M * K);
    fill(&r, DATA_unit, f64, b, K * N);
    at = put(a, sizeof a);
    bt = put(b, sizeof b);
    ct = put(got, sizeof got);
    for (int there = 0; there < 2; there++) {
        limber_matrix ma = { there ? (void *)at.at : a, f64, K, 1 };
        limber_matrix mb = { there ? (void *)bt.at : b, f64, N, 1 };
        limber_matrix mc = { there ? (void *)ct.at : got, f64, N, 1 }, mw = { want, f64, N, 1 };

        assert_int_equal(limber_prepare(cuda, ma, M, K, LIMBER_SIDE_A, NULL, &oa),
                         LIMBER_STATUS_OK);
        assert_int_equal(limber_prepare(cuda, mb, K, N, LIMBER_SIDE_B, NULL, &ob),
                         LIMBER_STATUS_OK);
        assert_int_equal(
            limber_gemm(cuda, &correct, M, N, K, NULL, ma, mb, NULL, output_of(mw), &plain),
            LIMBER_STATUS_OK);
        for (int sides = 1; sides < 4; sides++) {
            memset(got, 0, sizeof got);
            assert_int_equal(gemm_prepared(cuda, &correct, M, N, K, NULL, sides & 1 ? oa : NULL, ma,
                                           sides & 2 ? ob : NULL, mb, NULL, output_of(mc),
                                           &prepared),
                             LIMBER_STATUS_OK);
            if (there)
                get(got, ct);
            assert_memory_equal(got, want, sizeof got);
            assert_string_equal(plain.kernel, prepared.kernel);
        }
        limber_prepared_free(oa);
        limber_prepared_free(ob);
        assert_int_equal(limber_prepare(cuda, ma, M, K, LIMBER_SIDE_A, &checked, &oa),
                         there ? LIMBER_STATUS_BAD_ARGUMENT : LIMBER_STATUS_OK);
        limber_prepared_free(oa);
    }
    driver.cuMemFree_v2(at.at);
    driver.cuMemFree_v2(bt.at);
    driver.cuMemFree_v2(ct.at);
}

/* By the same sums as the host's. */
static void slices_are_estimated_on_the_device(void **state)
{
    const limber_contract fast = { .size = sizeof(limber_contract),
                                   .promise = LIMBER_CONTRACT_FAST,
                                   .scheme = "ozaki1-i8" };
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = MANY, .a = 0, .b = K * N, .c = M * N
    };

    (void)state;
    everywhere(fast, "f64", "f64", DATA_unit, NULL, NULL);
    everywhere(fast, "f64", "f64", DATA_special, NULL, &batch);
    everywhere(fast, "dd", "f64", DATA_spread, NULL, NULL);
    convolve(fast, "f64", "f64", DATA_unit, &layers[4]);
}

static void streams_and_workspaces_are_the_callers(void **state)
{
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = MANY, .a = M * K, .b = K * N, .c = M * N
    };
    limber_queue queue = { .size = sizeof(limber_queue), .bytes = (size_t)1 << 24 };
    struct there room = { .bytes = queue.bytes };

    (void)state;
    assert_int_equal(driver.cuStreamCreate(&queue.stream, 1), 0);
    everywhere(correct, "f64", "f64", DATA_unit, &queue, &batch);
    assert_int_equal(driver.cuMemAlloc_v2(&room.at, room.bytes), 0);
    queue.workspace = (void *)room.at;
    everywhere(correct, "f64", "f64", DATA_unit, &queue, &batch);
    everywhere(plain, "f64", "f64", DATA_unit, &queue, NULL);
    driver.cuMemFree_v2(room.at);
    driver.cuStreamDestroy_v2(queue.stream);
}

/* Sums of integers are exact in any order. */
static void cublas_multiplies_where_it_may(void **state)
{
    limber_contract contract = native;

    (void)state;
    contract.scheme = "cublas";
    for (int i = 0; i < 8; i++)
        compare(&(struct product){ "cublas", contract, i & 1 ? "f32" : "f64", i & 1 ? "f32" : "f64",
                                   i & 1 ? "f32" : "f64", DATA_bytes, 33, 17, 20, .alpha = 1,
                                   .beta = i & 1, .transpose_a = i & 2, .transpose_b = i & 4,
                                   .transpose_c = i > 3 },
                (uint64_t)(80 + i));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void upload(struct there r, const void *data)
{
    assert_int_equal(driver.cuMemcpyHtoD(r.at, data, r.bytes, NULL), 0);
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
}

/* A stream and a workspace of so many bytes, for calls that are recorded. */
static struct there make_queue(limber_queue *q, size_t bytes)
{
    struct there room = { .bytes = bytes };

    assert_int_equal(driver.cuMemAlloc_v2(&room.at, room.bytes), 0);
    *q = (limber_queue){ .size = sizeof(limber_queue),
                         .workspace = (void *)room.at,
                         .bytes = bytes,
                         .capture = LIMBER_CAPTURE_READY };
    assert_int_equal(driver.cuStreamCreate(&q->stream, 1), 0);
    return room;
}

/* What the stream has recorded, ready to be played. */
static void *end_capture(const limber_queue *q)
{
    void *graph, *play;

    assert_int_equal(driver.cuStreamEndCapture(q->stream, &graph), 0);
    assert_int_equal(driver.cuGraphInstantiate(&play, graph, 0), 0);
    driver.cuGraphDestroy(graph);
    return play;
}

static void play_graph(void *play, const limber_queue *q)
{
    assert_int_equal(driver.cuGraphLaunch(play, q->stream), 0);
    assert_int_equal(driver.cuStreamSynchronize(q->stream), 0);
}

/* A product that is recorded once and played with other operands: like the first, and not. */
static void recorded(limber_contract contract, const char *format, const char *any)
{
    static const enum data data[] = { DATA_unit, DATA_unit, DATA_special, DATA_range, DATA_zeros };
    limber_format f = named(format);
    size_t na = M * K * f.size, nb = K * N * f.size, nc = M * N * f.size, least, best;
    char *a = malloc(na), *b = malloc(nb), *want = malloc(nc), *got = malloc(nc);
    limber_contract other = contract;
    struct rng r = { 17 };
    struct there ra, rb, rc, room;
    limber_queue queue;
    limber_matrix xa, xb, xc;
    void *graph, *play;

    fill(&r, DATA_unit, f, a, na / f.size);
    fill(&r, DATA_unit, f, b, nb / f.size);
    ra = put(a, na);
    rb = put(b, nb);
    rc = put(want, nc);
    xa = (limber_matrix){ (void *)ra.at, f, K, 1 };
    xb = (limber_matrix){ (void *)rb.at, f, N, 1 };
    xc = (limber_matrix){ (void *)rc.at, f, 1, M };
    assert_int_equal(
        gemm_workspace(cuda, &contract, M, N, K, NULL, xa, xb, NULL, output_of(xc), &least, &best),
        LIMBER_STATUS_OK);
    assert_true(least > 0 && least <= best);
    room = make_queue(&queue, best);
#define CALL() \
    gemm_batch(cuda, &contract, &queue, NULL, M, N, K, NULL, xa, xb, NULL, output_of(xc), NULL)
    assert_int_equal(driver.cuStreamBeginCapture(queue.stream, 0), 0);
    assert_int_equal(CALL(), LIMBER_STATUS_DEVICE); /* not warm */
    assert_non_null(strstr(limber_error_text(), "LIMBER_CAPTURE_READY"));
    assert_int_equal(driver.cuStreamEndCapture(queue.stream, &graph), 0);
    driver.cuGraphDestroy(graph);
    if (CALL())
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamBeginCapture(queue.stream, 0), 0);
    if (CALL())
        fail_msg("%s", limber_error_text());
    play = end_capture(&queue);
    for (size_t i = 0; i < COUNT(data); i++) {
        fill(&r, data[i], f, a, na / f.size);
        fill(&r, data[i], f, b, nb / f.size);
        upload(ra, a);
        upload(rb, b);
        memset(got, 0xff, nc);
        upload(rc, got);
        play_graph(play, &queue);
        get(got, rc);
        /* data of another class is for the fallback */
        other.scheme = i < 2 ? contract.scheme : any;
        assert_int_equal(limber_gemm(reference, &other, M, N, K, NULL,
                                     (limber_matrix){ a, f, K, 1 }, (limber_matrix){ b, f, N, 1 },
                                     NULL, (limber_output){ want, f, 1, M }, NULL),
                         LIMBER_STATUS_OK);
        for (size_t e = 0; e < M * N; e++)
            if (!same(f, want + e * f.size, got + e * f.size))
                fail_msg("%s, played with %s: element %zu", format, data_name(data[i]), e);
    }
    driver.cuGraphExecDestroy(play);
    driver.cuStreamDestroy_v2(queue.stream);
    driver.cuMemFree_v2(ra.at);
    driver.cuMemFree_v2(rb.at);
    driver.cuMemFree_v2(rc.at);
    driver.cuMemFree_v2(room.at);
    free(a);
    free(b);
    free(want);
    free(got);
}

static void calls_are_recorded_into_graphs(void **state)
{
    limber_contract residues = correct;

    (void)state;
    residues.scheme = "ozaki2";
    recorded(residues, "f64", NULL);
    recorded(correct, "f32", NULL);
    recorded(plain, "f32", "native");
}

/* Other data of the same class. */
static void reverse(char *p, size_t count, size_t size)
{
    char x[16];

    for (size_t i = 0; i < count / 2; i++) {
        memcpy(x, p + i * size, size);
        memcpy(p + i * size, p + (count - 1 - i) * size, size);
        memcpy(p + (count - 1 - i) * size, x, size);
    }
}

/* The same of a convolution, in the least workspace or the best. */
static void recorded_conv(limber_contract contract, const char *format, const char *any,
                          const struct layer *l, bool whole)
{
    static const enum data data[] = { DATA_unit, DATA_unit, DATA_special, DATA_range };
    struct tensors t = make_tensors(l, format, format, DATA_unit);
    limber_conv shape = shape_of(l);
    limber_contract other = contract;
    size_t bytes = t.ny * t.fy.size, least, best;
    struct rng r = { 23 };
    char *got = malloc(bytes);
    struct there x, w, y, room;
    limber_queue queue;
    void *play;

    memset(t.x, 0, t.nx / 4 * t.f.size); /* lines whose scales are not that of all */
    x = put(t.x, t.nx * t.f.size);
    w = put(t.w, t.nw * t.f.size);
    y = put(t.y, bytes);
    assert_int_equal(conv2d_workspace(cuda, &contract, &shape, NULL, (void *)x.at, t.f,
                                      (void *)w.at, t.f, NULL, t.fy, &least, &best),
                     LIMBER_STATUS_OK);
    assert_true(least > 0 && least <= best);
    room = make_queue(&queue, whole ? best : least);
#define CONV() \
    conv2d_queue(cuda, &contract, &queue, &shape, NULL, (void *)x.at, t.f, (void *)w.at, t.f, \
                 NULL, (void *)y.at, t.fy, NULL)
    if (CONV())
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamBeginCapture(queue.stream, 0), 0);
    if (CONV())
        fail_msg("%s", limber_error_text());
    play = end_capture(&queue);
    for (size_t i = 0; i < COUNT(data); i++) {
        if (i == 1) {
            reverse(t.x, t.nx, t.f.size);
            reverse(t.w, t.nw, t.f.size);
        } else if (i > 1) {
            fill(&r, data[i], t.f, t.x, t.nx);
            fill(&r, data[i], t.f, t.w, t.nw);
        }
        upload(x, t.x);
        upload(w, t.w);
        memset(got, 0xff, bytes);
        upload(y, got);
        play_graph(play, &queue);
        get(got, y);
        other.scheme = i < 2 ? contract.scheme : any;
        assert_int_equal(limber_conv2d(i < 2 || any ? cuda : reference, &other, &shape, NULL, t.x,
                                       t.f, t.w, t.f, NULL, t.y, t.fy, NULL),
                         LIMBER_STATUS_OK);
        for (size_t e = 0; e < t.ny; e++)
            if (!same(t.fy, t.y + e * t.fy.size, got + e * t.fy.size))
                fail_msg("layer %d of %s, played with %s: element %zu", (int)(l - layers), format,
                         data_name(data[i]), e);
    }
    driver.cuGraphExecDestroy(play);
    driver.cuStreamDestroy_v2(queue.stream);
    driver.cuMemFree_v2(x.at);
    driver.cuMemFree_v2(w.at);
    driver.cuMemFree_v2(y.at);
    driver.cuMemFree_v2(room.at);
    free(got);
    drop_tensors(&t);
}

static void convolutions_are_recorded_into_graphs(void **state)
{
    const limber_contract limbs = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_FAST,
                                    .scheme = "fp32-f" };
    limber_contract residues = correct;

    (void)state;
    if (has_unit(UNIT_f16)) /* the bits tell which kernels computed */
        recorded_conv(limbs, "f32", "native", &layers[0], true);
    residues.scheme = "ozaki2";
    recorded_conv(residues, "f64", NULL, &layers[3], true);
    recorded_conv(residues, "f64", NULL, &layers[5], false);
    recorded_conv(correct, "f32", NULL, &layers[4], true);
}

/* A first call, which loads kernels, while another thread's capture forbids what may be unsafe. */
static void *multiply_first(void *arg)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    bool *ok = arg;
    limber_format f = named("f64");
    double a[4] = { 1, 2, 3, 4 }, b[4] = { 5, 6, 7, 8 }, c[4] = { 0 };
    limber_context *ctx;

    *ok = limber_create(&ctx, &config) == LIMBER_STATUS_OK &&
          limber_gemm(ctx, &correct, 2, 2, 2, NULL, (limber_matrix){ a, f, 2, 1 },
                      (limber_matrix){ b, f, 2, 1 }, NULL, (limber_output){ c, f, 2, 1 },
                      NULL) == LIMBER_STATUS_OK &&
          c[0] == 19 && c[3] == 50;
    if (*ok)
        limber_destroy(ctx);
    else
        print_message("%s\n", limber_error_text());
    return NULL;
}

static void kernels_load_beside_captures(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        void *stream, *graph;
        pthread_t thread;
        bool ok;

        assert_int_equal(driver.cuStreamCreate(&stream, 1), 0);
        assert_int_equal(driver.cuStreamBeginCapture(stream, mode), 0);
        assert_int_equal(pthread_create(&thread, NULL, multiply_first, &ok), 0);
        pthread_join(thread, NULL);
        assert_true(ok);
        multiply_first(&ok); /* and in the thread that captures */
        assert_true(ok);
        assert_int_equal(driver.cuStreamEndCapture(stream, &graph), 0);
        driver.cuGraphDestroy(graph);
        driver.cuStreamDestroy_v2(stream);
    }
}

/* ---- threads, devices
 * ---------------------------------------------------------------------------- */

struct worker {
    limber_context *ctx;
    uint64_t seed;
    bool same;
};

static void *multiply_often(void *arg)
{
    enum { SIDE = 20 };
    struct worker *w = arg;
    limber_format f = named("f64");
    double a[SIDE * SIDE], b[SIDE * SIDE], want[SIDE * SIDE], got[SIDE * SIDE];
    struct rng r = { w->seed };

    w->same = true;
    for (int i = 0; i < 4 && w->same; i++) {
        fill(&r, DATA_ties, f, a, SIDE * SIDE);
        fill(&r, DATA_ties, f, b, SIDE * SIDE);
        w->same =
            limber_gemm(reference, &correct, SIDE, SIDE, SIDE, NULL,
                        (limber_matrix){ a, f, SIDE, 1 }, (limber_matrix){ b, f, SIDE, 1 }, NULL,
                        (limber_output){ want, f, SIDE, 1 }, NULL) == LIMBER_STATUS_OK &&
            limber_gemm(w->ctx, &correct, SIDE, SIDE, SIDE, NULL, (limber_matrix){ a, f, SIDE, 1 },
                        (limber_matrix){ b, f, SIDE, 1 }, NULL, (limber_output){ got, f, SIDE, 1 },
                        NULL) == LIMBER_STATUS_OK &&
            memcmp(want, got, sizeof want) == 0;
    }
    return NULL;
}

static void threads_share_contexts_and_devices(void **state)
{
    const limber_config second = {
        .size = sizeof(limber_config), .backend = "cuda", .cache_dir = "", .device = 1
    };
    const limber_config none = {
        .size = sizeof(limber_config), .backend = "cuda", .cache_dir = "", .device = 99
    };
    struct worker worker[4];
    pthread_t thread[4];
    limber_context *other, *absent;

    (void)state;
    assert_int_equal(limber_create(&absent, &none), LIMBER_STATUS_DEVICE);
    assert_non_null(strstr(limber_error_text(), "device = 99"));
    if (limber_create(&other, &second))
        other = cuda; /* there is one device */
    for (uint64_t i = 0; i < COUNT(thread); i++) {
        worker[i] = (struct worker){ i & 1 ? other : cuda, 500 + i, false };
        assert_int_equal(pthread_create(&thread[i], NULL, multiply_often, &worker[i]), 0);
    }
    for (size_t i = 0; i < COUNT(thread); i++) {
        pthread_join(thread[i], NULL);
        assert_true(worker[i].same);
    }
    if (other != cuda)
        limber_destroy(other);
}

/* ---- the harness finds what is wrong --------------------------------------------------------- */

/* In kernels for which capability what becomes of which line.  Compiled for another scheme or
 * device the line is not there to be wrong. */
static const struct gpu_fault faults[] = {
    { 80, "a dropped barrier",
      "        meet<of_warp>();        /* the stage is there for all=>        /*" },
    { 80, "a wrong stage",
      "(uint32_t)(s % STAGES * bytes), s=>(uint32_t)((s + 1) % STAGES * bytes), s" },
    { 80, "a missing edge",
      "        if (line < lines && p0 + p < length)=>        if (line < lines)" },
    { 80, "an edge off by one", "                if (row < r.m)=>                if (row <= r.m)" },
    { 90, "a barrier that is not awaited",
      "r.parity);\\n        product(d, at=>r.parity ^ 1);\\n"
      "        product(d, at" },
    { 90, "a stage given back too early",
      "        group_wait<1>();\\n        if (held >= 0)\\n"
      "            release(a, held);\\n        held=>        release(a, r.stage);\\n        "
      "group_wait<1>();\\n"
      "        held" },
    { 90, "a wrong stage",
      "        uint32_t at = (uint32_t)(r.stage * STAGE);\\n\\n        if=>"
      "        uint32_t at = (uint32_t)((r.stage + 1) % STAGES * STAGE);\\n\\n        if" },
    { 90, "a block that leaves too early",
      "    sync_cluster();             /* until=>    /* until" },
    { 90, "a block that is not there yet",
      "    sync_cluster();\\n    if=>    sync_block();\\n    if" },
    { 90, "a stage that one block gave back", "4 * GROUPS * args.cluster=>4 * GROUPS" },
    { 90, "the other block's half", "line + from, limb=>line + lines - from, limb" },
    { 90, "a half for one block", "(1u << a.cluster) - 1=>1u << block() % a.cluster" },
    { 90, "sums that are not awaited",
      "    group_wait<0>();\\n    group_keep(d);\\n=>    group_keep(d);\\n" },
};

static int run_faulty(void *unused)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_format f = named("f64");
    limber_contract contract = correct;
    limber_context *ctx;
    double *a = malloc(200 * 700 * 8), *b = malloc(200 * 700 * 8), *c = malloc(200 * 200 * 8);
    double *want = malloc(200 * 200 * 8);
    struct rng r = { 3 };
    limber_matrix xa = { a, f, 700, 1 }, xb = { b, f, 1, 700 };

    (void)unused;
    contract.scheme = "ozaki2";
    fill(&r, DATA_ints, f, a, 200 * 700);
    fill(&r, DATA_ints, f, b, 200 * 700);
    if (limber_create(&ctx, &config))
        return 2;
    if (limber_gemm(ctx, &contract, 200, 200, 700, NULL, xa, xb, NULL,
                    (limber_output){ c, f, 200, 1 }, NULL) != LIMBER_STATUS_OK)
        return strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    limber_gemm(reference, &contract, 200, 200, 700, NULL, xa, xb, NULL,
                (limber_output){ want, f, 200, 1 }, NULL);
    return memcmp(c, want, 200 * 200 * 8) ? 0 : 1;
}

static void planted_faults_are_found(void **state)
{
    (void)state;
    gpu_faults_are_found(faults, COUNT(faults), run_faulty, NULL);
}

static void empty_products_are_beta_c(void **state)
{
    (void)state;
    compare(&(struct product){ "native", native, "f64", "f64", "f64", DATA_unit, 5, 7, 0,
                               .alpha = 1, .beta = 2 },
            60);
    compare(&(struct product){ NULL, exact, "i8", "i8", "i32", DATA_unit, 5, 7, 0, .alpha = 1 },
            61);
    compare(
        &(struct product){ "native", native, "f64", "f64", "f64", DATA_unit, 0, 7, 3, .alpha = 1 },
        62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_has_the_bits_of_fused_multiply_adds),
        cmocka_unit_test(residues_have_the_bits_of_the_exact_integer),
        cmocka_unit_test(slices_have_the_bits_of_the_exact_integer),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(long_accumulators_serve_any_data),
        cmocka_unit_test(limbs_have_the_bits_of_tensor_cores),
        cmocka_unit_test(clusters_have_the_same_bits),
        cmocka_unit_test(convolutions_have_the_bits_of_the_interpreter),
        cmocka_unit_test(unseen_pixels_may_hold_anything),
        cmocka_unit_test(convolutions_have_the_bits_of_tensor_cores),
        cmocka_unit_test(an_image_is_cut_once),
        cmocka_unit_test(faults_of_windows_are_found),
        cmocka_unit_test(operands_may_lie_on_the_device),
        cmocka_unit_test(prepared_operands_have_the_same_bits),
        cmocka_unit_test(slices_are_estimated_on_the_device),
        cmocka_unit_test(streams_and_workspaces_are_the_callers),
        cmocka_unit_test(cublas_multiplies_where_it_may),
        cmocka_unit_test(calls_are_recorded_into_graphs),
        cmocka_unit_test(convolutions_are_recorded_into_graphs),
        cmocka_unit_test(kernels_load_beside_captures),
        cmocka_unit_test(threads_share_contexts_and_devices),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(empty_products_are_beta_c),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
