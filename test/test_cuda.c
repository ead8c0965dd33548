/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA backend against the interpreter, bit for bit: on a GPU when LIMBER_TEST_GPU is set, else
 * on the harness that runs kernels on the CPU (SIMT_CC names the compute capability). */
#include "plans.h"
#include "support.h"

#include "backends/backend.h"
#include "jit/scan.h"
#include "passes/passes.h"

#include <dlfcn.h>
#include <math.h>
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
    const limber_config interp = { .backend = "interp", .cache_dir = "" };
    const limber_config device = { .backend = "cuda", .cache_dir = "" };

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

/* ---- one product on both ---------------------------------------------------------------------- */

struct product {
    const char *scheme;         /* NULL: the library's choice */
    limber_contract contract;
    const char *fa, *fb, *fc;
    enum data data;
    int64_t m, n, k;
    bool turn_a, turn_b, turn_c;        /* column-major */
    double alpha, beta;         /* 1 and 0: not given */
};

static limber_matrix matrix(void *data, limber_format f, int64_t rows, int64_t cols, bool turned,
                            int64_t gap)
{
    return turned ? (limber_matrix){ data, f, 1, rows + gap } :
           (limber_matrix){ data, f, cols + gap, 1 };
}

static void scalar(char to[16], limber_format c, double v)
{
    limber_format f64 = named("f64"), f = c;

    if (c.kind == LIMBER_KIND_INT)
        f = named("i64");
    assert_int_equal(limber_convert(to, f, &v, f64, 1, LIMBER_RN), LIMBER_OK);
}

/* NaN is NaN. */
static bool same(limber_format f, const char *x, const char *y)
{
    double a, b;

    if (memcmp(x, y, f.size) == 0)
        return true;
    if (f.kind == LIMBER_KIND_INT ||
        limber_convert(&a, named("f64"), x, f, 1, LIMBER_RN) ||
        limber_convert(&b, named("f64"), y, f, 1, LIMBER_RN))
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
    limber_report report = { .rows = 0 };
    limber_status s, t;

    contract.scheme = p->scheme;
    fill(&r, p->data, fa, a, na);
    fill(&r, p->data, fb, b, nb);
    fill(&r, DATA_unit, fc, want, nc);
    memcpy(got, want, nc * fc.size);
    scalar(alpha, fc, p->alpha);
    scalar(beta, fc, p->beta);
#define RUN(ctx, to) limber_gemm(ctx, &contract, p->m, p->n, p->k, p->alpha == 1 ? NULL : alpha,   \
                                 matrix(a, fa, p->m, p->k, p->turn_a, gap),                        \
                                 matrix(b, fb, p->k, p->n, p->turn_b, gap),                        \
                                 p->beta == 0 ? NULL : beta,                                       \
                                 matrix(to, fc, p->m, p->n, p->turn_c, gap), &report)
    if (p->scheme && strcmp(p->scheme, "cublas") == 0)
        contract.scheme = "native";
    s = RUN(reference, want);
    contract.scheme = p->scheme;
    t = RUN(cuda, got);
    if (t == LIMBER_NO_SCHEME && strstr(limber_error_text(), "cuda has no"))
        goto done;              /* older devices have fewer units */
    if (s != t)
        fail_msg("%s %s: interp says %s, cuda %s: %s", p->scheme ? p->scheme : "any", p->fa,
                 limber_status_name(s), limber_status_name(t), limber_error_text());
    if (s == LIMBER_OK && p->m > 0)
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

/* ---- the schemes --------------------------------------------------------------------------------- */

static const limber_contract native = { .promise = LIMBER_NATIVE };
static const limber_contract plain = { .promise = LIMBER_NATIVE, .scheme = "native" };
static const limber_contract correct = { .promise = LIMBER_CORRECT };
static const limber_contract exact = { .promise = LIMBER_EXACT };

static void native_has_the_bits_of_fused_multiply_adds(void **state)
{
    (void)state;
    compare(&(struct product){ "native", native, "f32", "f32", "f32", DATA_unit, 37, 51, 300,
                               .alpha = 1 }, 1);
    compare(&(struct product){ "native", native, "f64", "f64", "f64", DATA_range, 130, 70, 290,
                               .alpha = 1, .turn_a = true }, 2);
    compare(&(struct product){ "native", native, "f32", "f32", "f32", DATA_special, 20, 30, 40,
                               .alpha = 1.5, .beta = -2, .turn_c = true }, 3);
    compare(&(struct product){ "native", native, "f16", "bf16", "f16", DATA_unit, 20, 30, 40,
                               .alpha = 2, .turn_b = true }, 4);
}

static void residues_have_the_bits_of_the_exact_integer(void **state)
{
    (void)state;
    compare(&(struct product){ "ozaki2", correct, "f64", "f64", "f64", DATA_unit, 131, 67, 200,
                               .alpha = 1 }, 5);
    compare(&(struct product){ "ozaki2", correct, "f64", "f64", "f64", DATA_ties, 33, 40, 65,
                               .alpha = 3, .beta = 0.5, .turn_c = true, .turn_a = true }, 6);
    compare(&(struct product){ "ozaki2", correct, "f128", "f128", "f128", DATA_spread, 9, 45, 50,
                               .alpha = 1 }, 7);
    compare(&(struct product){ "ozaki2", correct, "dd", "dd", "dd", DATA_unit, 9, 35, 50,
                               .alpha = 1, .turn_c = true }, 8);
    compare(&(struct product){ "ozaki2", correct, "f64", "f64", "f64", DATA_special, 20, 20, 30,
                               .alpha = 1 }, 9);
    compare(&(struct product){ "ozaki2", correct, "f32", "f32", "f32", DATA_tiny, 20, 20, 30,
                               .alpha = 1 }, 10);
}

static void slices_have_the_bits_of_the_exact_integer(void **state)
{
    static const char *const schemes[] = { "ozaki1-i8", "ozaki1-f16", "ozaki1-bf16",
                                           "ozaki1-f64" };

    (void)state;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        compare(&(struct product){ schemes[i], correct, "f64", "f64", "f64", DATA_ties, 30, 40, 70,
                                   .alpha = 1 }, 20 + i);
        compare(&(struct product){ schemes[i], correct, "f32", "f32", "f32", DATA_unit, 30, 21, 170,
                                   .alpha = 1, .turn_b = true }, 30 + i);
    }
}

static void integers_are_exact(void **state)
{
    (void)state;
    compare(&(struct product){ NULL, exact, "i8", "i8", "i32", DATA_bytes, 140, 30, 100,
                               .alpha = 1 }, 40);
    compare(&(struct product){ NULL, exact, "u8", "i8", "i32", DATA_bytes, 30, 30, 100,
                               .alpha = 2, .beta = 3 }, 41);
    compare(&(struct product){ NULL, exact, "i16", "i16", "i64", DATA_ints, 30, 30, 100,
                               .alpha = 1, .turn_c = true }, 42);
    compare(&(struct product){ NULL, exact, "i32", "i32", "i64", DATA_ints, 30, 30, 100,
                               .alpha = 1 }, 43);
    compare(&(struct product){ NULL, native, "i32", "i32", "i32", DATA_range, 30, 30, 100,
                               .alpha = 1 }, 44);
    compare(&(struct product){ NULL, exact, "i16", "i16", "i16", DATA_range, 30, 30, 100,
                               .alpha = 1 }, 45);
}

static void long_accumulators_serve_any_data(void **state)
{
    (void)state;
    compare(&(struct product){ "exact", correct, "f64", "f64", "f64", DATA_range, 11, 13, 20,
                               .alpha = 1 }, 50);
    compare(&(struct product){ "exact", correct, "f32", "f32", "f64", DATA_special, 11, 13, 20,
                               .alpha = -1, .beta = 2, .turn_c = true }, 51);
}

/* ---- sums of tensor cores ------------------------------------------------------------------------- */

extern const struct backend limber_backend_cuda;

struct operand {
    char *data;
    limber_format f;
    int64_t lines, k;
    struct mask mask;
};

static void make_operand(struct operand *o, enum data data, int64_t lines, int64_t k,
                         struct rng *r)
{
    struct diag d = { 0 };

    *o = (struct operand){ malloc((size_t)(lines * k * 4)), named("f32"), lines, k, { 0 } };
    fill(r, data, o->f, o->data, (size_t)(lines * k));
    assert_true(limber_scan(&o->mask, &(struct view){ o->data, k, 1, NULL }, o->f, lines, k,
                            SCAN_full, true, NULL, &d));
}

static bool run_plan(const struct backend *b, const struct plan *p, const struct target *t,
                     struct operand *x, struct operand *y, float *c, struct diag *d)
{
    struct call call = { .m = x->lines, .n = y->lines, .k = x->k, .a = { x->data, x->k, 1, NULL },
                         .b = { y->data, y->k, 1, NULL },
                         .c = { c, y->lines, 1, y->lines, 0 }, .mask_a = &x->mask,
                         .mask_b = &y->mask, .workspace_limit = 1 << 22 };
    struct kernel *kernel = NULL;
    struct blob blob = { 0 };
    bool ok = b->compile(p, t, NULL, &blob, d) && b->load(blob.data, blob.size, &kernel, d) &&
              b->launch(kernel, &call, d);

    if (kernel)
        b->unload(kernel);
    free(blob.data);
    return ok;
}

static void same_plan(const char *scheme, enum data data, int64_t m, int64_t n, int64_t k)
{
    struct rng r = { 70 + (uint64_t)k };
    struct operand a, b;
    struct diag d = { 0 };
    struct target t = { .device = 0 };
    float *want = malloc((size_t)(m * n * 4)), *got = malloc((size_t)(m * n * 4));
    struct plan p;

    assert_true(limber_backend_cuda.probe(&t, &d));
    make_operand(&a, data, m, k, &r);
    make_operand(&b, data, n, k, &r);
    plan_state(&p, &(struct planned){ LIMBER_FAST, scheme, a.f, a.f, &a.mask, &b.mask, 10,
                                      false });
    if (!limber_passes_run(&p, &t, NULL, (struct pass_watch){ 0 }, &d)) {
        if (!strstr(d.text, "cuda has no"))
            fail_msg("%s", d.text);
    } else {
        assert_true(limber_node_has(limber_plan_find(&p, OP_products), ATTR_sums));
        if (!run_plan(&limber_backend_interp, &p, &t, &a, &b, want, &d) ||
            !run_plan(&limber_backend_cuda, &p, &t, &a, &b, got, &d))
            fail_msg("%s: %s", scheme, d.text);
        for (int64_t i = 0; i < m * n; i++)
            if (memcmp(&want[i], &got[i], 4))
                fail_msg("%s, %s, k = %d: element %d is %a, not %a", scheme, data_name(data),
                         (int)k, (int)i, got[i], want[i]);
    }
    limber_plan_clear(&p);
    limber_mask_clear(&a.mask);
    limber_mask_clear(&b.mask);
    free(a.data);
    free(b.data);
    free(want);
    free(got);
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

/* ---- operands on the device ------------------------------------------------------------------------ */

struct there { uint64_t at; size_t bytes; };

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
    limber_report host, device;
    limber_status s;

    fill(&r, data, f, a, na / f.size);
    fill(&r, data, f, b, nb / f.size);
    fill(&r, DATA_bytes, fc, c, nc / fc.size);
    memcpy(want, c, nc);
    s = limber_gemm_batch(reference, &contract, NULL, batch, M, N, K, NULL,
                          (limber_matrix){ a, f, K, 1 }, (limber_matrix){ b, f, N, 1 }, NULL,
                          (limber_matrix){ want, fc, N, 1 }, NULL);
    memcpy(got, c, nc);
    assert_int_equal(limber_gemm_batch(cuda, &contract, NULL, batch, M, N, K, NULL,
                                       (limber_matrix){ a, f, K, 1 }, (limber_matrix){ b, f, N, 1 },
                                       NULL, (limber_matrix){ got, fc, N, 1 }, &host), s);
    assert_memory_equal(got, want, nc);
    ra = put(a, na);
    rb = put(b, nb);
    rc = put(c, nc);
    if (limber_gemm_batch(cuda, &contract, queue, batch, M, N, K, NULL,
                          (limber_matrix){ (void *)ra.at, f, K, 1 },
                          (limber_matrix){ (void *)rb.at, f, N, 1 }, NULL,
                          (limber_matrix){ (void *)rc.at, fc, N, 1 }, &device) != s)
        fail_msg("%s", limber_error_text());
    if (queue)
        assert_int_equal(driver.cuStreamSynchronize(queue->stream), 0);
    get(got, rc);
    assert_memory_equal(got, want, nc);
    /* of subnormal numbers the host's scan is content with a wider class */
    if (s == LIMBER_OK && data != DATA_tiny && strcmp(device.kernel, host.kernel))
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
    static const enum data data[] = { DATA_unit, DATA_range, DATA_special, DATA_zeros, DATA_tiny,
                                      DATA_ints };
    const limber_batch batch = { .count = MANY, .a = M * K, .b = 0, .c = M * N };

    (void)state;
    for (size_t i = 0; i < COUNT(data); i++) {
        everywhere(correct, "f64", "f64", data[i], NULL, NULL);
        everywhere(correct, "f32", "f32", data[i], NULL, NULL);
    }
    everywhere(plain, "f32", "f32", DATA_unit, NULL, &batch);
    everywhere(correct, "dd", "dd", DATA_unit, NULL, NULL);
    everywhere(correct, "f128", "f128", DATA_spread, NULL, NULL);
    everywhere(exact, "i16", "i64", DATA_ints, NULL, &batch);
    everywhere(exact, "i16", "i16", DATA_ints, NULL, &batch);      /* RANGE: C stays */
}

static void streams_and_workspaces_are_the_callers(void **state)
{
    const limber_batch batch = { .count = MANY, .a = M * K, .b = K * N, .c = M * N };
    limber_queue queue = { .bytes = (size_t)1 << 24 };
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
                                   .beta = i & 1, .turn_a = i & 2, .turn_b = i & 4,
                                   .turn_c = i > 3 }, (uint64_t)(80 + i));
}

/* ---- graphs ------------------------------------------------------------------------------------------ */

static void upload(struct there r, const void *data)
{
    assert_int_equal(driver.cuMemcpyHtoD(r.at, data, r.bytes, NULL), 0);
    assert_int_equal(driver.cuStreamSynchronize(NULL), 0);
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
    limber_queue queue = { .graph = 1 };
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
    assert_int_equal(limber_gemm_workspace(cuda, &contract, M, N, K, NULL, xa, xb, NULL, xc,
                                           &least, &best), LIMBER_OK);
    assert_true(least > 0 && least <= best);
    room = (struct there){ .bytes = best };
    assert_int_equal(driver.cuMemAlloc_v2(&room.at, room.bytes), 0);
    queue.workspace = (void *)room.at;
    queue.bytes = best;
    assert_int_equal(driver.cuStreamCreate(&queue.stream, 1), 0);
#define CALL() limber_gemm_batch(cuda, &contract, &queue, NULL, M, N, K, NULL, xa, xb, NULL, xc, NULL)
    assert_int_equal(driver.cuStreamBeginCapture(queue.stream, 0), 0);
    assert_int_equal(CALL(), LIMBER_DEVICE);    /* not warm */
    assert_non_null(strstr(limber_error_text(), "graph"));
    assert_int_equal(driver.cuStreamEndCapture(queue.stream, &graph), 0);
    driver.cuGraphDestroy(graph);
    if (CALL())
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamBeginCapture(queue.stream, 0), 0);
    if (CALL())
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamEndCapture(queue.stream, &graph), 0);
    assert_int_equal(driver.cuGraphInstantiate(&play, graph, 0), 0);
    for (size_t i = 0; i < COUNT(data); i++) {
        fill(&r, data[i], f, a, na / f.size);
        fill(&r, data[i], f, b, nb / f.size);
        upload(ra, a);
        upload(rb, b);
        memset(got, 0xff, nc);
        upload(rc, got);
        assert_int_equal(driver.cuGraphLaunch(play, queue.stream), 0);
        assert_int_equal(driver.cuStreamSynchronize(queue.stream), 0);
        get(got, rc);
        /* data of another class is for the fallback */
        other.scheme = i < 2 ? contract.scheme : any;
        assert_int_equal(limber_gemm(reference, &other, M, N, K, NULL,
                                     (limber_matrix){ a, f, K, 1 }, (limber_matrix){ b, f, N, 1 },
                                     NULL, (limber_matrix){ want, f, 1, M }, NULL), LIMBER_OK);
        for (size_t e = 0; e < M * N; e++)
            if (!same(f, want + e * f.size, got + e * f.size))
                fail_msg("%s, played with %s: element %zu", format, data_name(data[i]), e);
    }
    driver.cuGraphExecDestroy(play);
    driver.cuGraphDestroy(graph);
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

/* ---- the harness finds what is wrong ------------------------------------------------------------------ */

/* In kernels for which capability what becomes of which line.  Compiled for another scheme or device
 * the line is not there to be wrong. */
static const struct { int capability; const char *what, *fault; } faults[] = {
    { 80, "a dropped barrier", "        sync_block();           /* the stage is there for all=>        /*" },
    { 80, "a wrong stage", "        with((uint32_t)(s % STAGES * STAGE), s);\\n    }\\n    sync_block();\\n}\\n\\n"
          "/* One accumulator=>        with((uint32_t)((s + 1) % STAGES * STAGE), s);\\n    }\\n"
          "    sync_block();\\n}\\n\\n/* One accumulator" },
    { 80, "a missing edge", "        if (line < lines && p0 + p < length)=>        if (line < lines)" },
    { 80, "an edge off by one", "                if (row < r.m)=>                if (row <= r.m)" },
    { 90, "a barrier that is not awaited", "r.parity);\\n        product(d, at=>r.parity ^ 1);\\n"
          "        product(d, at" },
    { 90, "a stage given back too early", "        group_wait<1>();\\n        if (held >= 0)\\n"
          "            release(held);\\n        held=>        release(r.stage);\\n        group_wait<1>();\\n"
          "        held" },
    { 90, "a wrong stage", "uint32_t at = (uint32_t)(r.stage * STAGE), full=>uint32_t at = "
          "(uint32_t)((r.stage + 1) % STAGES * STAGE), full" },
    { 90, "sums that are not awaited", "    group_wait<0>();\\n    group_keep(d);\\n=>    group_keep(d);\\n" },
};

/* In a process of its own: a harness that has failed stays failed.  0: found. */
static int run_faulty(const char *fault)
{
    const limber_config config = { .backend = "cuda", .cache_dir = "" };
    limber_format f = named("f64");
    limber_contract contract = correct;
    limber_context *ctx;
    double *a = malloc(200 * 700 * 8), *b = malloc(200 * 700 * 8), *c = malloc(200 * 200 * 8);
    double *want = malloc(200 * 200 * 8);
    struct rng r = { 3 };
    limber_matrix xa = { a, f, 700, 1 }, xb = { b, f, 1, 700 };

    contract.scheme = "ozaki2";
    fill(&r, DATA_ints, f, a, 200 * 700);
    fill(&r, DATA_ints, f, b, 200 * 700);
    setenv("SIMT_FAULT", fault, 1);
    if (limber_create(&ctx, &config))
        return 2;
    if (limber_gemm(ctx, &contract, 200, 200, 700, NULL, xa, xb, NULL,
                    (limber_matrix){ c, f, 200, 1 }, NULL) != LIMBER_OK)
        return strstr(limber_error_text(), "NVRTC") ? 3 : 0;    /* 3: the fault was not planted */
    limber_gemm(reference, &contract, 200, 200, 700, NULL, xa, xb, NULL,
                (limber_matrix){ want, f, 200, 1 }, NULL);
    return memcmp(c, want, 200 * 200 * 8) ? 0 : 1;
}

static void planted_faults_are_found(void **state)
{
    int capability = getenv("SIMT_CC") ? atoi(getenv("SIMT_CC")) : 90;

    (void)state;
    if (getenv("LIMBER_TEST_GPU"))
        skip();
    for (size_t i = 0; i < COUNT(faults); i++) {
        int status;
        pid_t child;

        if (faults[i].capability != capability)
            continue;
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(run_faulty(faults[i].fault));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("%s: not found (%d)", faults[i].what, WEXITSTATUS(status));
    }
}

static void empty_products_are_beta_c(void **state)
{
    (void)state;
    compare(&(struct product){ "native", native, "f64", "f64", "f64", DATA_unit, 5, 7, 0,
                               .alpha = 1, .beta = 2 }, 60);
    compare(&(struct product){ NULL, exact, "i8", "i8", "i32", DATA_unit, 5, 7, 0,
                               .alpha = 1 }, 61);
    compare(&(struct product){ "native", native, "f64", "f64", "f64", DATA_unit, 0, 7, 3,
                               .alpha = 1 }, 62);
}

/* 77: no GPU that could be asked. */
static int have_gpu(void)
{
    const limber_config device = { .backend = "cuda", .cache_dir = "" };

    if (limber_create(&cuda, &device)) {
        fprintf(stderr, "skipped: %s\n", limber_error_text());
        return 77;
    }
    limber_destroy(cuda);
    return 0;
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
        cmocka_unit_test(operands_may_lie_on_the_device),
        cmocka_unit_test(streams_and_workspaces_are_the_callers),
        cmocka_unit_test(cublas_multiplies_where_it_may),
        cmocka_unit_test(calls_are_recorded_into_graphs),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(empty_products_are_beta_c),
    };

    if (getenv("LIMBER_TEST_GPU") && have_gpu())
        return 77;
    return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
