/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of arrays, and epilogue steps after products, give the same bits in device memory as in
 * host memory.  Runs on a GPU if LIMBER_TEST_GPU is set, else on the harness that runs kernels on
 * the CPU. */
#include "contexts.h"
#include "gpus.h"
#include "support.h"

#include "ir/ir.h"

#include <limber/ops.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- functions of one element ---------------------------------------------------------------- */

enum { COUNT_F = 3001 };

static limber_context *host; /* the CPU backend, which runs compiled code if there is a compiler */

/* Returns a new array of random bits and special values in format `from`, which the caller
 * frees. */
static char *numbers_of(struct rng *r, limber_format from)
{
    char *x = malloc((size_t)COUNT_F * from.size);

    fill(r, DATA_bytes, from, x, COUNT_F);
    fill(r, DATA_unit, from, x, COUNT_F / 3);
    fill(r, DATA_special, from, x + COUNT_F / 3 * from.size, COUNT_F / 3);
    return x;
}

/* Compares two arrays of results, byte by byte. */
static void expect_same_results(const limber_elementwise *e, const char *want, const char *got,
                                const char *whose)
{
    char from[32], to[32];

    for (size_t i = 0; i < COUNT_F; i++)
        if (memcmp(want + i * e->to.size, got + i * e->to.size, e->to.size))
            fail_msg("%s of %s to %s, rounding %d, compute %d: element %zu %s",
                     limber_function_at((int)e->function, NULL, NULL),
                     limber_format_name(e->from, from, sizeof from),
                     limber_format_name(e->to, to, sizeof to), (int)e->rounding, (int)e->compute, i,
                     whose);
}

/* Applies a function by compiled code and by the GPU, and compares both with the interpreter. */
static void compare_function(limber_elementwise e, const limber_queue *queue, struct rng *r)
{
    char *x = numbers_of(r, e.from), *want = malloc((size_t)COUNT_F * e.to.size);
    char *got = malloc((size_t)COUNT_F * e.to.size);
    struct gpu_buffer src = gpu_upload_new(x, (size_t)COUNT_F * e.from.size);
    struct gpu_buffer dst = gpu_allocate((size_t)COUNT_F * e.to.size);

    e.count = COUNT_F;
    e.src = x, e.dst = want;
    if (limber_apply(reference, &e))
        fail_msg("%s", limber_error_text());
    e.dst = got; /* result of compiled code */
    if (limber_apply(host, &e))
        fail_msg("%s", limber_error_text());
    expect_same_results(&e, want, got, "of compiled code");
    e.src = (void *)src.at, e.dst = (void *)dst.at;
    e.queue = queue;
    if (limber_apply(cuda, &e))
        fail_msg("%s", limber_error_text());
    if (queue)
        assert_int_equal(driver.cuStreamSynchronize(queue->stream), 0);
    gpu_download(got, dst);
    expect_same_results(&e, want, got, "of the GPU");
    gpu_free(src);
    gpu_free(dst);
    free(x);
    free(want);
    free(got);
}

/* Applies each function to binary64 and binary32, whose results often need one operation only,
 * and to other formats with changing roundings and compute formats. */
static void functions_have_the_same_bits(void **state)
{
    static const char *const formats[] = { "f16",  "bf16",    "e4m3", "f32",      "f64",
                                           "e5m2", "(1,4,9)", "tf32", "e4m3fnuz", "posit16" };
    struct rng r = { 31 };
    limber_queue queue;
    struct gpu_buffer room = gpu_queue(&queue, 256);

    (void)state;
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++) {
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

        e.function = (limber_function)f;
        e.p = -0.75, e.q = 3;
        e.from = e.to = LIMBER_F64;
        if (is_taken((size_t)f, 3))
            compare_function(e, NULL, &r);
        e.from = e.to = LIMBER_F32;
        if (is_taken((size_t)(f + 1), 3))
            compare_function(e, NULL, &r);
        if (!is_taken((size_t)(f + 2), 3))
            continue;
        e.from = f % 2 ? LIMBER_F64 : named(formats[rng_below(&r, COUNT(formats))]);
        e.to = named(formats[rng_below(&r, COUNT(formats))]);
        e.rounding = (limber_rounding)(rng_below(&r, 2) ? rng_below(&r, 6) : 0);
        if (e.to.kind == LIMBER_KIND_POSIT)
            e.rounding = LIMBER_ROUND_NEAREST;
        e.compute = (limber_compute)(rng_below(&r, 4) == 0);
        compare_function(e, rng_below(&r, 2) ? &queue : NULL, &r);
    }
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(room);
}

/* Casts between six pairs of formats, isinf, and casts to formats that saturate or have no
 * subnormals have the host's bits. */
static void casts_and_tests_take_all_formats(void **state)
{
    static const char *const pairs[][2] = { { "f128", "bf16" }, { "dd", "f32" },  { "f32", "i8" },
                                            { "f16", "u8" },    { "i64", "f16" }, { "f64", "dd" } };
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
    struct rng r = { 37 };

    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        e.from = named(pairs[i][0]), e.to = named(pairs[i][1]);
        e.rounding = (limber_rounding)(i % 3);
        compare_function(e, NULL, &r);
    }
    e.function = LIMBER_FUNCTION_ISINF;
    e.from = named("bf16"), e.to = named("i8");
    compare_function(e, NULL, &r);
    /* an infinity stays infinite, although the format saturates */
    e.function = LIMBER_FUNCTION_CAST;
    e.from = named("f32"), e.to = named("f16");
    e.to.flags = LIMBER_FORMAT_SATURATE;
    compare_function(e, NULL, &r);
    e.to.flags = LIMBER_FORMAT_NO_SUBNORMAL;
    compare_function(e, NULL, &r);
}

/* ---- steps after a product ------------------------------------------------------------------- */

enum { M = 21, N = 34, K = 40, INPUTS = 3, GROUPS = 3, ELEMENTS = 16 * M * N };

/* A problem and its buffers, in host memory and on the device. */
struct trial {
    limber_problem p;
    limber_epilogue e;
    limber_epilogue_input input[INPUTS];
    limber_batch batch;
    limber_conv conv;
    void *address[GROUPS];
    struct gpu_buffer at[3 + INPUTS];
    char *data[3 + INPUTS];
    size_t bytes[3 + INPUTS];
};

static void add_buffer(struct trial *t, struct rng *r, int i, limber_format f, enum data data)
{
    t->bytes[i] = (size_t)ELEMENTS * f.size;
    t->data[i] = malloc(t->bytes[i]);
    fill(r, data, f, t->data[i], ELEMENTS);
}

/* Points the call at the operands and inputs on the device (there) or on the host. */
static void place_operand(struct trial *t, bool there)
{
    const void *at[3 + INPUTS];

    for (int i = 0; i < 3 + INPUTS; i++)
        at[i] = !t->data[i] ? NULL : there ? (void *)t->at[i].at : t->data[i];
    t->p.a.data = at[0];
    t->p.b.data = at[1];
    t->p.c.data = writable(at[2]);
    for (int i = 0; i < t->e.input_count; i++)
        t->input[i].data = at[3 + i];
    for (int g = 0; g < GROUPS; g++) /* addresses do not ascend */
        t->address[g] = (char *)writable(at[2]) + (g * 2 % GROUPS) * 2 * M * N * t->p.c.format.size;
}

/* Runs the problem in host memory and on the device, and compares C. */
static void compare_host_and_device(struct trial *t, struct rng *r, const char *what)
{
    static const enum data data[] = { DATA_unit, DATA_unit, DATA_unit };
    limber_format fc = t->p.c.format;
    char *got;
    limber_status s;

    add_buffer(t, r, 0, t->p.a.format, data[0]);
    add_buffer(t, r, 1, t->p.b.format, data[1]);
    add_buffer(t, r, 2, fc, data[2]);
    for (int i = 0; i < t->e.input_count; i++)
        add_buffer(t, r, 3 + i, t->input[i].format, rng_below(r, 4) ? DATA_unit : DATA_special);
    t->e.inputs = t->input;
    t->p.epilogue = &t->e;
    for (int i = 0; i < 3 + INPUTS; i++)
        if (t->data[i])
            t->at[i] = gpu_upload_new(t->data[i], t->bytes[i]);
    place_operand(t, true);
    s = limber_run(cuda, &t->p, NULL);
    if (s)
        fail_msg("%s: %s", what, limber_error_text());
    if (t->p.queue)
        assert_int_equal(driver.cuStreamSynchronize(t->p.queue->stream), 0);
    t->p.queue = NULL;
    place_operand(t, false);
    if (limber_run(reference, &t->p, NULL))
        fail_msg("%s: %s", what, limber_error_text());
    got = malloc(t->bytes[2]);
    gpu_download(got, t->at[2]);
    for (size_t i = 0; i < ELEMENTS; i++)
        if (memcmp(t->data[2] + i * fc.size, got + i * fc.size, fc.size))
            fail_msg("%s: element %zu", what, i);
    free(got);
    for (int i = 0; i < 3 + INPUTS; i++)
        if (t->data[i]) {
            gpu_free(t->at[i]);
            free(t->data[i]);
        }
}

/* Returns a product with these steps; compare_host_and_device adds the random matrices. */
static struct trial describe_trial(const char *a, const char *c, const limber_contract *contract,
                                   const char *steps)
{
    struct trial t;

    memset(&t, 0, sizeof t);
    t.p = (limber_problem)LIMBER_PROBLEM_INIT;
    t.p.m = M, t.p.n = N, t.p.k = K;
    t.p.a.format = t.p.b.format = named(a);
    t.p.a.row_stride = K, t.p.a.col_stride = 1;
    t.p.b.row_stride = N, t.p.b.col_stride = 1;
    t.p.c.format = named(c);
    t.p.c.row_stride = N + 1, t.p.c.col_stride = 1;
    t.p.contract = contract;
    t.e = (limber_epilogue)LIMBER_EPILOGUE_INIT;
    t.e.steps = steps;
    return t;
}

/* Adds an input of the steps to a trial. */
static void add_input(struct trial *t, const char *name, limber_input_shape shape,
                      const char *format)
{
    limber_epilogue_input *in = &t->input[t->e.input_count++];

    *in = (limber_epilogue_input)LIMBER_EPILOGUE_INPUT_INIT;
    in->name = name;
    in->shape = shape;
    in->format = named(format);
    if (shape == LIMBER_INPUT_MATRIX && !t->p.conv)
        in->row_stride = N + 2, in->col_stride = 1;
}

static const char many[] = "%1 = add %x %bias\n"
                           "%2 = gelu %1\n"
                           "%3 = mul %2 %scale\n"
                           "%4 = add %3 %skip\n"
                           "%5 = max %4 -0.25\n"
                           "%6 = div %5 3\n"
                           "%7 = sub 1 %6\n"
                           "%8 = min %7 %1\n"
                           "%9 = tanh %8";

/* GEMMs with an epilogue of three inputs, in five pairs of formats, have the same bits on host and
 * device. */
static void gemms_run_steps_on_the_device(void **state)
{
    static const char *const formats[][2] = {
        { "f32", "f32" }, { "f32", "bf16" }, { "f64", "f64" }, { "i8", "i8" }, { "f16", "f16" },
    };
    struct rng r = { 41 };
    limber_queue queue;
    struct gpu_buffer room = gpu_queue(&queue, 4 << 20);

    (void)state;
    for (size_t i = 0; i < COUNT(formats); i++) {
        struct trial t = describe_trial(formats[i][0], formats[i][1], &correct, many);

        add_input(&t, "bias", (limber_input_shape)(1 + i % 2), "f32");
        add_input(&t, "scale", i % 2 ? LIMBER_INPUT_SCALAR : LIMBER_INPUT_ROW, "f16");
        add_input(&t, "skip", LIMBER_INPUT_MATRIX, formats[i][1]);
        if (i == 2) /* columns of C are contiguous, with gaps between them */
            t.p.c.row_stride = 1, t.p.c.col_stride = M + 3;
        t.p.queue = i % 2 ? &queue : NULL;
        compare_host_and_device(&t, &r, formats[i][1]);
    }
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(room);
}

/* Steps that begin with alpha x + beta c, or whose first addition is exact, have the host's
 * bits. */
static void scalars_and_sums_are_as_on_the_host(void **state)
{
    static const double beta64 = -1.5;
    static const float beta32 = -1.5f;
    struct rng r = { 43 };
    struct trial t = describe_trial("f64", "f64", &correct, "%1 = relu %x");

    (void)state;
    t.p.beta = &beta64;
    compare_host_and_device(&t, &r, "relu with beta");
    t = describe_trial("f32", "bf16", &correct, "%1 = tanh %x");
    t.p.beta = &beta32;
    compare_host_and_device(&t, &r, "tanh to bf16 with beta");
    t = describe_trial("f32", "f32", &correct, "%1 = add %x %bias\n%2 = relu %1");
    add_input(&t, "bias", LIMBER_INPUT_COLUMN, "f32");
    compare_host_and_device(&t, &r, "an exact bias");
    t = describe_trial("f32", "f32", &correct, "%1 = add %x %bias");
    add_input(&t, "bias", LIMBER_INPUT_MATRIX, "f32");
    compare_host_and_device(&t, &r, "an exact matrix alone");
}

/* Batches, by strides and by addresses, and convolutions in both layouts with an epilogue have the
 * same bits on host and device. */
static void batches_and_convolutions_run_steps_on_the_device(void **state)
{
    struct rng r = { 47 };

    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        struct trial t = describe_trial("f32", apart ? "bf16" : "f32", &correct, many);

        add_input(&t, "bias", LIMBER_INPUT_COLUMN, "f32");
        add_input(&t, "scale", LIMBER_INPUT_SCALAR, "f32");
        add_input(&t, "skip", LIMBER_INPUT_MATRIX, "f32");
        t.input[0].step = 2 * N;
        t.batch = (limber_batch)LIMBER_BATCH_INIT;
        t.batch.count = GROUPS;
        t.batch.a = M * K, t.batch.b = 0, t.batch.c = 2 * M * N;
        t.batch.address_c = apart ? t.address : NULL;
        t.p.batch = &t.batch;
        compare_host_and_device(&t, &r, "a batch");
    }
    for (int nhwc = 0; nhwc < 2; nhwc++) {
        struct trial t = describe_trial("f32", "f32", &correct, many);

        t.conv = (limber_conv)LIMBER_CONV_INIT;
        t.conv.n = 2, t.conv.c = 3, t.conv.o = 5;
        t.conv.h = t.conv.w = 9, t.conv.r = t.conv.s = 3;
        t.conv.stride[0] = t.conv.stride[1] = t.conv.dilate[0] = t.conv.dilate[1] = 1;
        t.conv.groups = 1;
        t.conv.layout = nhwc ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        t.p.operation = LIMBER_OPERATION_CONV_FORWARD;
        t.p.conv = &t.conv;
        t.p.a = (limber_matrix){ NULL, t.p.a.format, 0, 0 };
        t.p.b = (limber_matrix){ NULL, t.p.b.format, 0, 0 };
        t.p.c = (limber_output){ NULL, t.p.c.format, 0, 0 };
        t.p.m = t.p.n = t.p.k = 0;
        add_input(&t, "bias", LIMBER_INPUT_ROW, "f32");
        add_input(&t, "scale", LIMBER_INPUT_SCALAR, "f32");
        add_input(&t, "skip", LIMBER_INPUT_MATRIX, "f32");
        compare_host_and_device(&t, &r, nhwc ? "a convolution, NHWC" : "a convolution, NCHW");
    }
}

/* ---- steps in recorded graphs ---------------------------------------------------------------- */

/* A product with an epilogue is captured into a graph, which must give the interpreter's bits. */
static void steps_are_recorded(void **state)
{
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    float a[M * K], b[K * N], want[M * N], got[M * N];
    struct rng r = { 53 };
    struct gpu_buffer ra, rb, rc, room;
    limber_queue queue;
    void *play;

    (void)state;
    fill(&r, DATA_unit, LIMBER_F32, a, M * K);
    fill(&r, DATA_unit, LIMBER_F32, b, K * N);
    ra = gpu_upload_new(a, sizeof a), rb = gpu_upload_new(b, sizeof b),
    rc = gpu_allocate(sizeof got);
    room = gpu_queue(&queue, 4 << 20);
    e.steps = "%1 = silu %x";
    p.m = M, p.n = N, p.k = K;
    p.a = (limber_matrix){ (void *)ra.at, LIMBER_F32, K, 1 };
    p.b = (limber_matrix){ (void *)rb.at, LIMBER_F32, N, 1 };
    p.c = (limber_output){ (void *)rc.at, LIMBER_F32, N, 1 };
    p.contract = &correct;
    p.epilogue = &e;
    p.queue = &queue;
    if (limber_run(cuda, &p, NULL))
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamBeginCapture_v2(queue.stream, 0), 0);
    if (limber_run(cuda, &p, NULL))
        fail_msg("%s", limber_error_text());
    p.c.format = LIMBER_BF16;
    /* a result in BF16 needs memory for x in FP32, and memory must not be allocated during a
     * capture */
    assert_refused(limber_run(cuda, &p, NULL), LIMBER_STATUS_DEVICE, "captured");
    p.c.format = LIMBER_F32;
    play = gpu_end_recording(&queue);
    gpu_run_graph(play, &queue);
    gpu_download(got, rc);
    p.a.data = a, p.b.data = b, p.c.data = want, p.queue = NULL;
    assert_int_equal(limber_run(reference, &p, NULL), LIMBER_STATUS_OK);
    assert_memory_equal(got, want, sizeof got);
    driver.cuGraphExecDestroy(play);
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(ra), gpu_free(rb), gpu_free(rc), gpu_free(room);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Elementwise, reduction and product calls whose arrays lie partly on the device and partly on the
 * host are refused with a text that names both. */
static void memory_of_both_kinds_is_refused(void **state)
{
    float here[4] = { 1, 2, 3, 4 }, got[4];
    struct gpu_buffer there = gpu_upload_new(here, sizeof here);
    float *device = (float *)there.at;
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
    limber_reduce_call sum = LIMBER_REDUCE_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue steps = LIMBER_EPILOGUE_INIT;
    limber_queue queue = LIMBER_QUEUE_INIT;

    (void)state;
#define REFUSED(call, text) \
    do { \
        assert_int_equal(call, LIMBER_STATUS_BAD_ARGUMENT); \
        if (!strstr(limber_error_text(), text)) \
            fail_msg("%s", limber_error_text()); \
    } while (0)
    e.from = e.to = LIMBER_F32;
    e.count = 4;
    e.src = here, e.dst = device;
    REFUSED(limber_apply(cuda, &e), "dst lies in a device's memory, but src in the host's");
    e.src = device, e.dst = here;
    REFUSED(limber_apply(cuda, &e), "src lies in a device's memory, but dst in the host's");
    e.src = here, e.dst = got, e.queue = &queue;
    REFUSED(limber_apply(cuda, &e), "queue is for arrays on a device");
    sum.from = sum.to = LIMBER_F32;
    sum.outer = 1, sum.count = 4, sum.inner = 1;
    sum.src = device, sum.dst = got;
    REFUSED(limber_reduce(cuda, &sum), "src lies in a device's memory");
    p.m = p.n = 2, p.k = 1;
    p.a = (limber_matrix){ here, LIMBER_F32, 1, 1 };
    p.b = (limber_matrix){ here, LIMBER_F32, 2, 1 };
    p.c = (limber_output){ device, LIMBER_F32, 2, 1 };
    p.contract = &correct;
    in.name = "bias", in.shape = LIMBER_INPUT_ROW, in.format = LIMBER_F32, in.data = here;
    steps.steps = "%1 = mul %x %bias";
    steps.inputs = &in, steps.input_count = 1;
    p.epilogue = &steps;
    REFUSED(limber_run(cuda, &p, NULL), "inputs[0] lies in host memory, but c in a device's");
    in.data = device;
    p.c.data = got;
    REFUSED(limber_run(cuda, &p, NULL), "inputs[0] lies in a device's memory, but c in the host's");
    gpu_download(got, there);
    assert_memory_equal(got, here, sizeof here);
    gpu_free(there);
}

static int open_all(void **state)
{
    return gpu_open(state) || limber_create(&host, NULL);
}

static int close_all(void **state)
{
    limber_destroy(host);
    return gpu_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_have_the_same_bits),
        cmocka_unit_test(casts_and_tests_take_all_formats),
        cmocka_unit_test(gemms_run_steps_on_the_device),
        cmocka_unit_test(scalars_and_sums_are_as_on_the_host),
        cmocka_unit_test(batches_and_convolutions_run_steps_on_the_device),
        cmocka_unit_test(steps_are_recorded),
        cmocka_unit_test(memory_of_both_kinds_is_refused),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, open_all, close_all);
}
