/* SPDX-License-Identifier: BSD-3-Clause
 * Groups of a convolution in device memory have the bits of the interpreter, or of convolutions of
 * one group each, and four groups take as many launches as two.  Runs on a GPU if LIMBER_TEST_GPU
 * is set, else on the harness that runs kernels on the CPU. */
#include "gpus.h"
#include "support.h"

#include "ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Shapes. c and o are channels and filters per group.  With 16 channels the kernel reads patches
 * from the image in place, with 3 it packs them.  With a stride of 3, a filter of one element
 * covers few pixels. */
static const struct shape {
    int64_t n, c, o, h, w, r, stride, pad, t;
    limber_layout layout;
} shapes[] = {
    { 2, 16, 20, 7, 6, 3, 1, 1, 0, LIMBER_LAYOUT_NCHW },
    { 2, 16, 12, 7, 6, 3, 2, 1, 0, LIMBER_LAYOUT_NHWC },
    { 2, 3, 5, 9, 8, 3, 1, 1, 0, LIMBER_LAYOUT_NCHW },
    { 3, 16, 8, 7, 7, 1, 3, 0, 0, LIMBER_LAYOUT_NHWC },
    { 1, 16, 8, 5, 4, 3, 1, 1, 3, LIMBER_LAYOUT_NCHW },
};

/* The schemes with which convolutions of groups are computed. */
static const struct scheme {
    limber_promise promise;
    const char *scheme, *format, *result;
    enum data data;
    /* the expected bits are the interpreter's; otherwise those of single groups on the device */
    bool interpreted;
} schemes[] = {
    { LIMBER_CONTRACT_CORRECT, "ozaki2", "f64", "f64", DATA_unit, true },
    { LIMBER_CONTRACT_CORRECT, "ozaki1-i8", "f32", "f32", DATA_special, true },
    { LIMBER_CONTRACT_CORRECT, "accumulator", "f32", "f32", DATA_range, true },
    { LIMBER_CONTRACT_REPRODUCIBLE, NULL, "f32", "f32", DATA_unit, true },
    { LIMBER_CONTRACT_EXACT, NULL, "i8", "i32", DATA_ints, true },
    { LIMBER_CONTRACT_FAST, "fp32-f", "f32", "f32", DATA_unit, false },
};

static const limber_operation operations[] = { LIMBER_OPERATION_CONV_FORWARD,
                                               LIMBER_OPERATION_CONV_BACKWARD_DATA,
                                               LIMBER_OPERATION_CONV_BACKWARD_FILTER };

enum { FEW = 2, MOST = 4 };

/* Returns a shape with this number of groups as the library's description of a convolution. */
static limber_conv conv_of(const struct shape *s, int64_t groups)
{
    limber_conv c = LIMBER_CONV_INIT;

    c.n = s->n;
    c.c = s->c * groups;
    c.h = s->h;
    c.w = s->w;
    c.o = s->o * groups;
    c.r = c.s = s->r;
    c.groups = groups;
    c.layout = s->layout;
    for (int i = 0; i < 2; i++) {
        c.stride[i] = s->stride;
        c.dilate[i] = 1;
        c.pad[2 * i] = c.pad[2 * i + 1] = s->pad;
    }
    if (s->t) {
        c.d = s->t + 1;
        c.t = s->t;
        c.depth_stride = c.depth_dilate = 1;
        c.depth_pad[0] = 1;
    }
    return c;
}

/* Counts the elements of x, w and y. */
static void count_elements(const limber_conv *c, size_t n[3])
{
    int64_t oh, ow, od;

    assert_int_equal(limber_conv_output(c, &oh, &ow), LIMBER_STATUS_OK);
    assert_int_equal(limber_conv_output_depth(c, &od), LIMBER_STATUS_OK);
    n[0] = (size_t)(c->n * c->c * (c->d ? c->d : 1) * c->h * c->w);
    n[1] = (size_t)(c->o * c->c / c->groups * (c->t ? c->t : 1) * c->r * c->s);
    n[2] = (size_t)(c->n * c->o * od * oh * ow);
}

/* For each direction, which of x (0), w (1) and y (2) are A, B and C of the problem. */
static const int tensors[3][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 0, 2, 1 } };

/* The operands and the result of a problem, on the host and on the device. */
struct trial {
    const struct scheme *s;
    limber_conv conv;
    int operation;
    /* the caller's queue, for calls in device memory; NULL: the library's own */
    const limber_queue *queue;
    char *host[3];
    struct gpu_buffer there[3];
    size_t size[3]; /* bytes */
};

/* Returns the group to which element e of x (0), w (1) or y (2) belongs. */
static size_t group_of(const limber_conv *c, int tensor, size_t e, size_t elements)
{
    size_t channels = (size_t)(tensor == 0 ? c->c : c->o), image = elements / (size_t)c->n;

    if (tensor == 1)
        return e / (elements / (size_t)c->groups);
    e = c->layout == LIMBER_LAYOUT_NHWC ? e % channels : e % image / (image / channels);
    return e / (channels / (size_t)c->groups);
}

/* Makes the tensors and the problem of an operation with this number of groups, with random
 * data. */
static struct trial make_trial(const struct scheme *s, const struct shape *shape, int operation,
                               int64_t groups)
{
    struct trial t = { .s = s, .conv = conv_of(shape, groups), .operation = operation };
    struct rng r = { 11 };
    size_t n[3];

    count_elements(&t.conv, n);
    for (int i = 0; i < 3; i++) {
        limber_format f = named(i == 2 ? s->result : s->format);
        size_t elements = n[tensors[operation][i]];

        t.size[i] = elements * f.size;
        t.host[i] = malloc(t.size[i]);
        fill(&r, i == 2 ? DATA_bytes : s->data, f, t.host[i], elements);
        for (size_t e = 0; e < elements && s->data == DATA_unit && i < 2; e++) {
            double v = ldexp(limber_format_value(f, t.host[i] + e * f.size),
                             5 * (int)group_of(&t.conv, tensors[operation][i], e, elements));

            limber_convert(t.host[i] + e * f.size, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
        }
        t.there[i] = gpu_upload_new(t.host[i], t.size[i]);
    }
    return t;
}

static void free_trial(struct trial *t)
{
    for (int i = 0; i < 3; i++) {
        free(t->host[i]);
        gpu_free(t->there[i]);
    }
}

/* Runs the problem on tensors that begin at byte at[x] of each buffer; there: on the device. */
static limber_status run_at(limber_context *ctx, const struct trial *t, const limber_conv *conv,
                            bool there, const size_t at[3])
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_format f = named(t->s->format);
    char *data[3];

    for (int i = 0; i < 3; i++)
        data[i] = (there ? (char *)(uintptr_t)t->there[i].at : t->host[i]) + at[i];
    contract.promise = t->s->promise;
    contract.scheme = t->s->scheme;
    p.operation = operations[t->operation];
    p.conv = conv;
    p.contract = &contract;
    p.queue = there ? t->queue : NULL;
    p.a = (limber_matrix){ data[0], f, 0, 0 };
    p.b = (limber_matrix){ data[1], f, 0, 0 };
    p.c = (limber_output){ data[2], named(t->s->result), 0, 0 };
    return limber_run(ctx, &p, NULL);
}

static limber_status run_convolution(limber_context *ctx, const struct trial *t, bool there)
{
    static const size_t at[3];

    return run_at(ctx, t, &t->conv, there, at);
}

/* Computes the expected result: runs each group as a convolution of its own. */
static void run_alone(const struct trial *t)
{
    limber_conv one = t->conv;

    one.c /= one.groups;
    one.o /= one.groups;
    one.groups = 1;
    for (size_t g = 0; g < (size_t)t->conv.groups; g++) {
        size_t at[3];

        for (int i = 0; i < 3; i++)
            at[i] = g * (t->size[i] / (size_t)t->conv.groups);
        if (run_at(cuda, t, &one, true, at))
            fail_msg("%s", limber_error_text());
    }
}

static long count_launches(void)
{
    return driver.simt_launches ? driver.simt_launches() : 0;
}

/* Counts the launches of a call with this number of groups. */
static long launches_of(const struct scheme *s, const struct shape *shape, int operation,
                        int64_t groups)
{
    struct trial t = make_trial(s, shape, operation, groups);
    long before = count_launches();

    if (run_convolution(cuda, &t, true))
        fail_msg("%s", limber_error_text());
    before = count_launches() - before;
    free_trial(&t);
    return before;
}

/* Compares C on the device with `want`, bit by bit. */
static void compare_c(const struct trial *t, const char *want, const char *where, size_t shape)
{
    char *got = malloc(t->size[2]);
    limber_format f = named(t->s->result);

    gpu_download(got, t->there[2]);
    for (size_t e = 0; e < t->size[2]; e += f.size)
        if (!same_number(f, got + e, want + e))
            fail_msg("%s of %s, shape %d, direction %d, %s: element %d", t->s->scheme, t->s->format,
                     (int)shape, t->operation, where, (int)(e / f.size));
    free(got);
}

/* Returns whether this run tests the scheme on this shape.  A run takes a third of all pairs;
 * runs for other compute capabilities take other pairs. */
static bool is_tried(size_t scheme, size_t shape)
{
    if (schemes[scheme].promise == LIMBER_CONTRACT_FAST && gpu_capability() == 75)
        return false; /* a device that has WMMA only supports none of these schemes */
    return is_taken(scheme + shape, 3);
}

/* Checks that the number of launches does not grow with the number of groups, and that C has the
 * bits of the interpreter or of single groups. */
static void try_shape(const struct scheme *s, size_t k, int operation)
{
    struct shape shape = shapes[k];
    struct trial t;
    char *want;
    long few, many;

    if (!s->interpreted) { /* the groups must be contiguous, as run_alone computes them singly */
        shape.n = 1;
        shape.layout = LIMBER_LAYOUT_NCHW;
    }
    few = launches_of(s, &shape, operation, FEW);
    t = make_trial(s, &shape, operation, MOST);
    want = malloc(t.size[2]);
    many = count_launches();
    if (run_convolution(cuda, &t, true))
        fail_msg("%s", limber_error_text());
    many = count_launches() - many;
    print_message("%s of %s, shape %d, direction %d: %ld launches\n", s->scheme ? s->scheme : "any",
                  s->format, (int)k, operation, many);
    assert_int_equal(many, few);
    if (s->interpreted) {
        assert_int_equal(run_convolution(reference, &t, false), LIMBER_STATUS_OK);
        memcpy(want, t.host[2], t.size[2]);
    } else {
        gpu_download(want, t.there[2]);
        run_alone(&t);
    }
    compare_c(&t, want, "in device memory", k);
    if (s->interpreted && is_taken(k, 2)) {
        memset(t.host[2], 0, t.size[2]);
        assert_int_equal(run_convolution(cuda, &t, false), LIMBER_STATUS_OK);
        gpu_upload(t.there[2], t.host[2]);
        compare_c(&t, want, "in host memory", k);
    }
    free(want);
    free_trial(&t);
}

/* A grouped convolution takes as many launches as one with fewer groups, and C has the bits of the
 * interpreter or of single groups. */
static void groups_take_one_launch_per_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(schemes); i++)
        for (size_t k = 0; k < COUNT(shapes); k++)
            if (is_tried(i, k))
                try_shape(&schemes[i], k, (int)((i + k) / 3 % 3));
}

/* A workspace that holds only some of the groups makes the call run in several steps; a smaller one
 * divides a group. */
static void small_workspaces_serialize_groups(void **state)
{
    const struct scheme *s = &schemes[0];
    struct trial t = make_trial(s, &shapes[0], 0, MOST);
    char *want = malloc(t.size[2]);
    limber_queue queue;
    struct gpu_buffer room = gpu_queue(&queue, (size_t)4 << 20);
    long few = 0;

    (void)state;
    queue.capture = LIMBER_CAPTURE_NONE;
    t.queue = &queue;
    assert_int_equal(run_convolution(reference, &t, false), LIMBER_STATUS_OK);
    memcpy(want, t.host[2], t.size[2]);
    for (int i = 0; i < 8; i++, queue.bytes /= 2) {
        long before = count_launches();
        limber_status status = run_convolution(cuda, &t, true);

        before = count_launches() - before;
        assert_int_equal(driver.cuStreamSynchronize(queue.stream), 0);
        if (status == LIMBER_STATUS_NO_MEMORY) /* too small for any part of a group */
            break;
        if (status)
            fail_msg("%s", limber_error_text());
        print_message("%zu bytes: %ld launches\n", queue.bytes, before);
        few = i ? few : before;
        assert_true(before >= few);
        compare_c(&t, want, "in little memory", 0);
    }
    if (driver.simt_launches)
        assert_true(queue.bytes < (size_t)1 << 20);
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(room);
    free(want);
    free_trial(&t);
}

/* If a sum of the last group does not fit the result's format, no group's results are stored. */
static void refused_groups_leave_c(void **state)
{
    static const struct scheme narrow = {
        LIMBER_CONTRACT_EXACT, NULL, "i8", "i8", DATA_zeros, true
    };
    struct trial t = make_trial(&narrow, &shapes[0], 0, MOST);
    char *got = malloc(t.size[2]);

    (void)state;
    memset(t.host[0], 1, t.size[0]);
    memset(t.host[1], 0, t.size[1]);
    t.host[1][0] = 1;
    memset(t.host[1] + t.size[1] - 9 * 16, 1, 9 * 16); /* the last filter sums to 144 */
    for (int i = 0; i < 2; i++)
        gpu_upload(t.there[i], t.host[i]);
    assert_int_equal(run_convolution(cuda, &t, true), LIMBER_STATUS_RANGE);
    gpu_download(got, t.there[2]);
    assert_memory_equal(got, t.host[2], t.size[2]);
    free(got);
    free_trial(&t);
}

/* Returns 1 if the first shape's results by the scheme that `arg` points to are right, 0 if not,
 * 2 if there is no context or no reference, 3 if NVRTC refuses the kernels. */
static int are_right(void *arg)
{
    const struct scheme *s = arg;
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    struct trial t = make_trial(s, &shapes[0], 0, MOST);
    limber_format f = named(s->result);
    limber_context *own;
    char *got = malloc(t.size[2]);
    int right = 1;

    if (limber_create(&own, &config) || run_convolution(reference, &t, false))
        return 2;
    if (run_convolution(own, &t, true))
        return strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    gpu_download(got, t.there[2]);
    for (size_t e = 0; e < t.size[2]; e += f.size)
        right &= same_number(f, got + e, t.host[2] + e);
    free(got);
    limber_destroy(own);
    free_trial(&t);
    return right;
}

/* Faults planted where the groups of a grouped convolution find their own pixels, scales and
 * results must change the result. */
static void faults_of_groups_are_found(void **state)
{
    static const struct gpu_fault faults[] = {
        { 80, "another group's pixels",
          "PIXELS,\\n                                             from_b + t.product * "
          "a.next_b=>PIXELS, from_b" },
        { 90, "another group's pixels",
          "a.limbs_b + t.product * a.next_b + (TOTALS=>"
          "a.limbs_b + (TOTALS" },
        { 100, "another group's pixels",
          "a.limbs_b + t.product * a.next_b + (TOTALS=>"
          "a.limbs_b + (TOTALS" },
        { 0, "images of the first group", "limber_spread_at(v.data, &o->each, matrix)=>v.data" },
        { 0, "limbs by the first group's scale",
          "emax += limber_matrix_of(&a.operand, which)=>emax += 0" },
        { 0, "results by the first group's scale", "? lines != 0 : lines=>? 0 : lines" },
        { 0, "the first group's windows", "args.pixels + matrix * args.count=>args.pixels" },
    };

    (void)state;
    assert_int_equal(are_right((void *)(uintptr_t)&schemes[0]), 1);
    gpu_faults_are_found(faults, COUNT(faults), are_right, (void *)(uintptr_t)&schemes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_take_one_launch_per_step),
        cmocka_unit_test(small_workspaces_serialize_groups),
        cmocka_unit_test(refused_groups_leave_c),
        cmocka_unit_test(faults_of_groups_are_found),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
