/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions by the library's own code have the interpreter's bits on every available
 * instruction set and for every geometry.  Operands and result lie between guard pages. */
#include "contexts.h"
#include "engine_support.h"

#include "guarded.h"
#include "support.h"
#include "targets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 4 };

/* Names (of targets.h) of the instruction sets of the contexts.  NULL: this machine's; context 0
 * has one thread and context 1 three. */
static const char *const sets[SETS] = { NULL, NULL, "avx2", "avx512" };
enum { THREADS = 1 };
static limber_context *compiled[SETS], *interp;

/* Creates the interpreter's context, and a context for each instruction set that this CPU has. */
static int make_contexts(void **state)
{
    (void)state;
#ifdef LIMBER_HAVE_LLVM
    for (int i = 0; i < SETS; i++) {
        struct target *t;

        compiled[i] = group_context(.backend = "llvm", .threads = i == THREADS ? 3 : 1);
        if (!compiled[i])
            break;
        set_planless(compiled[i], true);
        t = &compiled[i]->machine.target;
        if (sets[i] && !strstr(t->features, sets[i])) {
            compiled[i] = NULL;
            break;
        }
        for (size_t j = 0; sets[i] && j < COUNT(targets); j++)
            if (!strcmp(targets[j].needs, sets[i]) && !targets[j].emulated) {
                memset(t, 0, sizeof *t);
                assert_true(limber_target_parse(t, targets[j].text, &(struct diag){ 0 }));
                limber_target_complete(t);
            }
    }
#endif
    interp = group_context(.backend = "interp", .threads = 1);
    return interp ? 0 : -1;
}

/* ---- random convolutions --------------------------------------------------------------------- */

/* One convolution.  a: the image, or dy for a gradient of the image; b: the filters, or dy for a
 * gradient of the filters; c: the result. */
struct trial {
    limber_operation operation;
    limber_conv s;
    limber_format image, filters, result;
    limber_contract contract;
    enum data data;
    struct guarded a, b, c;
    size_t count[3]; /* number of elements of a, b and c */
    char *expected, *before;
    size_t bytes;
    bool adds;
    double alpha; /* 0: alpha is not passed; else 1 */
    float alpha_f;
};

/* Adds a third dimension, and reduces the number of columns and channels. */
static void choose_depth(struct rng *r, limber_conv *s)
{
    s->t = 1 + rng_below(r, 4);
    s->depth_stride = 1 + rng_below(r, 3);
    s->depth_dilate = 1 + rng_below(r, 2);
    for (int i = 0; i < 2; i++)
        s->depth_pad[i] = rng_below(r, 4);
    s->d = 1 + rng_below(r, 5) + s->depth_dilate * (s->t - 1);
    if (rng_below(r, 3) == 0)
        /* with depth 1 of the image and the filter, some results may depend on padding only */
        s->t = s->d = 1;
    s->w = s->w < 24 ? s->w : 24 + s->dilate[1] * (s->s - 1);
    s->c = 1 + s->c % 12;
    s->o = s->c * (s->o / s->groups);
    s->groups = s->c;
}

/* Draws a random shape of a depthwise convolution, often one of the common shapes. */
static void choose_geometry(struct rng *r, limber_conv *s)
{
    const bool common = rng_below(r, 3) == 0;

    s->size = sizeof *s;
    s->n = 1 + rng_below(r, 2);
    /* sometimes a multiple of 16 channels */
    s->c = rng_below(r, 6) ? 1 + rng_below(r, 40) : 16 * (1 + rng_below(r, 6));
    s->groups = s->c;
    s->o = s->c * (rng_below(r, 3) ? 1 : 1 + rng_below(r, 6));
    s->r = common ? 3 : 1 + rng_below(r, 6);
    s->s = common ? 3 : 1 + rng_below(r, 6);
    for (int i = 0; i < 2; i++) {
        s->stride[i] = common && rng_below(r, 2) ? 1 : 1 + rng_below(r, 3);
        s->dilate[i] = common || rng_below(r, 2) ? 1 : 1 + rng_below(r, 3);
    }
    if (common && rng_below(r, 2))
        /* for these strides the library reads images in place */
        s->stride[0] = s->stride[1] = 1 + rng_below(r, 2);
    if (rng_below(r, 10) == 0)
        s->stride[rng_below(r, 2)] = 7;
    for (int i = 0; i < 4; i++)
        s->pad[i] = rng_below(r, 2) ? 1 : rng_below(r, 6);
    s->h = 1 + rng_below(r, 12) + s->dilate[0] * (s->r - 1);
    s->w = 1 + rng_below(r, rng_below(r, 8) ? 40 : 500) + s->dilate[1] * (s->s - 1);
    if (common && rng_below(r, 3) == 0) { /* rows that fill half a vector */
        s->w = 1 + rng_below(r, 18);
        s->pad[2] = s->pad[3] = 1;
    }
    s->layout = rng_below(r, 2) ? LIMBER_LAYOUT_NCHW : LIMBER_LAYOUT_NHWC;
    if (rng_below(r, 3) == 0)
        choose_depth(r, s);
}

/* Chooses filters of three or seven columns, whose gradients have specialised code.  Rows have
 * all lengths, so that the blocks of 256 products in which sums are computed end anywhere in a
 * row, with and without padding at both ends. */
static void make_common(struct rng *r, limber_conv *s)
{
    *s = (limber_conv){ .size = sizeof *s,
                        .n = 1 + rng_below(r, 3),
                        .c = s->c,
                        .h = 3 + rng_below(r, 12),
                        .w = 3 + rng_below(r, rng_below(r, 8) ? 20 : 300),
                        .o = s->c,
                        .r = 3,
                        .s = 3,
                        .stride = { 1, 1 },
                        .dilate = { 1, 1 },
                        .groups = s->c,
                        .layout = s->layout };
    if (rng_below(r, 4) == 0) {
        s->s = 7;
        s->w += 4;
    } else if (rng_below(r, 2)) {
        s->stride[0] = s->stride[1] = 2;
    }
    for (int i = 0; i < 4; i++)
        s->pad[i] = rng_below(r, 4) ? rng_below(r, 2) : rng_below(r, 4);
}

enum work {
    FLOATS,
    BYTES,
    EXACT_FLOATS,
    IMAGES,
    FILTERS,
    EXACT_IMAGES,
    EXACT_FILTERS,
    PAIRS,
    PAIRS_OF_IMAGES,
    COMMON_FILTERS
};

static bool is_exact_work(enum work work)
{
    return work == EXACT_FLOATS || work == EXACT_IMAGES || work == EXACT_FILTERS;
}

/* Sets a trial's operation by the kind of work, and the number of elements of its tensors. */
static void choose_operation(struct trial *t, enum work work)
{
    const limber_conv *s = &t->s;
    int64_t oh, ow, od;
    size_t x, w, y;

    t->operation = work == IMAGES || work == EXACT_IMAGES || work == PAIRS_OF_IMAGES ?
                       LIMBER_OPERATION_CONV_BACKWARD_DATA :
                   work == FILTERS || work == EXACT_FILTERS || work == COMMON_FILTERS ?
                       LIMBER_OPERATION_CONV_BACKWARD_FILTER :
                       LIMBER_OPERATION_CONV_FORWARD;
    assert_int_equal(limber_conv_output(s, &oh, &ow), LIMBER_STATUS_OK);
    assert_int_equal(limber_conv_output_depth(s, &od), LIMBER_STATUS_OK);
    x = (size_t)(s->n * s->c * s->h * s->w * (s->t ? s->d : 1));
    w = (size_t)(s->o * s->r * s->s * (s->t ? s->t : 1));
    y = (size_t)(s->n * s->o * oh * ow * od);
    t->count[0] = t->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ? y : x;
    t->count[1] = t->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? y : w;
    t->count[2] = t->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA   ? x :
                  t->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? w :
                                                                          y;
}

/* Draws shape, formats, data and contract of a trial. */
static void choose_trial(struct rng *r, struct trial *t, enum work work)
{
    static const enum data real[] = { DATA_unit,  DATA_spread,  DATA_tiny,
                                      DATA_zeros, DATA_special, DATA_range };

    memset(t, 0, sizeof *t);
    choose_geometry(r, &t->s);
    if (work == COMMON_FILTERS)
        make_common(r, &t->s);
    choose_operation(t, work);
    t->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    t->image = t->filters = t->result = named(rng_below(r, 2) ? "f32" : "f64");
    t->data = real[rng_below(r, (int)COUNT(real))];
    t->adds = work != BYTES && work != COMMON_FILTERS && rng_below(r, 4) == 0;
    if (work != BYTES && rng_below(r, 2))
        t->contract.promise = LIMBER_CONTRACT_REPRODUCIBLE;
    if (work == BYTES) {
        t->image = named(rng_below(r, 2) ? "i8" : "u8");
        t->filters = named("i8");
        t->result = named("i32");
        t->contract.promise = rng_below(r, 2) ? LIMBER_CONTRACT_EXACT : LIMBER_CONTRACT_NATIVE;
    }
    if (work == PAIRS || work == PAIRS_OF_IMAGES) {
        t->contract.promise = LIMBER_CONTRACT_CORRECT;
        t->alpha = rng_below(r, 4) ? 1 : -0.3;
    }
    if (is_exact_work(work)) {
        t->contract.promise = LIMBER_CONTRACT_CORRECT;
        t->data = rng_below(r, 3) ? DATA_bytes : rng_below(r, 2) ? DATA_ints : DATA_nothing;
    }
    t->alpha_f = (float)t->alpha;
    t->bytes = t->count[2] * t->result.size;
}

/* Allocates a trial's tensors so that they begin or end at an inaccessible page, and fills them
 * with random data. */
static void fill_trial(struct rng *r, struct trial *t)
{
    const size_t a = t->count[0], b = t->count[1];
    const bool at_end = rng_below(r, 2);

    t->a = guarded(a * t->image.size, at_end);
    t->b = guarded(b * t->filters.size, at_end);
    t->c = guarded(t->bytes, at_end);
    t->expected = malloc(t->bytes + 1);
    t->before = malloc(t->bytes + 1);
    if (t->image.size == 1) {
        for (size_t i = 0; i < a; i++)
            t->a.data[i] = (char)rng_next(r);
        for (size_t i = 0; i < b; i++)
            t->b.data[i] = (char)rng_next(r);
    } else {
        fill(r, t->data, t->image, t->a.data, a);
        fill(r, t->data == DATA_special ? DATA_unit : t->data, t->filters, t->b.data, b);
        /* filters with NaN, whose products with padding are NaN */
        if (t->data == DATA_special && rng_below(r, 2))
            fill(r, DATA_special, t->filters, t->b.data, b);
    }
    fill(r, t->adds && t->result.kind == LIMBER_KIND_FLOAT ? DATA_unit : DATA_ints, t->result,
         t->before, t->bytes / t->result.size);
}

static void free_trial(const struct trial *t)
{
    leave_guarded(t->a);
    leave_guarded(t->b);
    leave_guarded(t->c);
    free(t->expected);
    free(t->before);
}

/* Returns the trial's call, with result c, as a problem for limber_run. */
static limber_problem problem_of(const struct trial *t, char *c)
{
    static const double one = 1;
    static const float one_f = 1;
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.operation = t->operation;
    p.conv = &t->s;
    p.contract = &t->contract;
    p.a = (limber_matrix){ t->a.data, t->image, 0, 0 };
    p.b = (limber_matrix){ t->b.data, t->filters, 0, 0 };
    p.alpha = t->alpha == 0 ? NULL : t->result.size == 8 ? (const void *)&t->alpha : &t->alpha_f;
    p.beta = !t->adds ? NULL : t->result.size == 8 ? (const void *)&one : &one_f;
    p.c = (limber_output){ c, t->result, 0, 0 };
    return p;
}

/* Computes a trial in a context, into c, which first gets the result's initial contents. */
static void run_trial(limber_context *ctx, const struct trial *t, char *c, limber_report *report)
{
    const limber_problem p = problem_of(t, c);

    memcpy(c, t->before, t->bytes);
    if (limber_run(ctx, &p, report) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
}

/* Compares a trial's result with the expected one.  On a difference the test fails with a
 * description of the trial. */
static void compare_with_expected(const struct trial *t, int set)
{
    const limber_conv *s = &t->s;

    for (size_t i = 0; i < t->bytes; i += t->result.size)
        if (!same_number(t->result, t->c.data + i, t->expected + i))
            fail_msg("set %d, operation %d, %s of %s, element %zu: %lld x %lld x %lld x %lld, %lld "
                     "outputs, "
                     "window %lld x %lld, stride %lld %lld, pad %lld %lld %lld %lld, dilation %lld "
                     "%lld, %lld planes, %lld of the window, stride %lld, pad %lld %lld, dilation "
                     "%lld, %s",
                     set, (int)t->operation, data_name(t->data),
                     limber_format_name(t->result, (char[32]){ 0 }, 32), i / t->result.size,
                     (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w,
                     (long long)s->o, (long long)s->r, (long long)s->s, (long long)s->stride[0],
                     (long long)s->stride[1], (long long)s->pad[0], (long long)s->pad[1],
                     (long long)s->pad[2], (long long)s->pad[3], (long long)s->dilate[0],
                     (long long)s->dilate[1], (long long)s->d, (long long)s->t,
                     (long long)s->depth_stride, (long long)s->depth_pad[0],
                     (long long)s->depth_pad[1], (long long)s->depth_dilate,
                     s->layout == LIMBER_LAYOUT_NHWC ? "nhwc" : "nchw");
}

/* Returns whether the library's own code computes the trial, without a kernel. */
static bool has_own_code(limber_context *ctx, const struct trial *t)
{
    limber_report report = LIMBER_REPORT_INIT;

    run_trial(ctx, t, t->c.data, &report);
    return report.from == LIMBER_FROM_LIBRARY && report.workspace > 0 && !*report.kernel;
}

/* Computes with each of the two sizes of workspace that limber_workspace returns: the smallest
 * possible and the recommended. served: whether the library's own code must compute the trial. */
static void try_workspaces(limber_context *ctx, const struct trial *t, bool served)
{
    limber_queue queue = LIMBER_QUEUE_INIT;
    limber_problem p = problem_of(t, t->c.data);
    limber_report report = LIMBER_REPORT_INIT;
    size_t bytes[2];

    assert_int_equal(limber_workspace(ctx, &p, &bytes[0], &bytes[1]), LIMBER_STATUS_OK);
    assert_true(bytes[0] > 0 && bytes[0] <= bytes[1]);
    p.queue = &queue;
    for (int i = 0; i < 2; i++) {
        struct guarded room = guarded(bytes[i], true);

        queue.bytes = bytes[i];
        queue.workspace = room.data;
        memcpy(t->c.data, t->before, t->bytes);
        if (limber_run(ctx, &p, &report) != LIMBER_STATUS_OK)
            fail_msg("in %zu bytes: %s", bytes[i], limber_error_text());
        leave_guarded(room);
        assert_int_equal(served, report.from == LIMBER_FROM_LIBRARY && !*report.kernel);
        if (served && !(t->adds && t->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA))
            assert_in_range(bytes[i] - report.workspace, 0, 63);
    }
}

/* Draws a trial and compares the results of all contexts with the interpreter's.  *served:
 * incremented if the library's own code computes the trial. */
static void try_one(struct rng *r, enum work work, bool workspaces, int *served)
{
    struct trial t;

    choose_trial(r, &t, work);
    fill_trial(r, &t);
    run_trial(interp, &t, t.expected, NULL);
    for (int i = 0; i < SETS; i++)
        if (compiled[i]) {
            bool here = has_own_code(compiled[i], &t);

            *served += here;
            compare_with_expected(&t, i);
            if (workspaces) {
                try_workspaces(compiled[i], &t, here);
                compare_with_expected(&t, i);
            }
        }
    free_trial(&t);
}

/* Runs random trials, of which the library's own code must compute at least least_percent. */
static void try_many(enum work work, int least_percent)
{
    const int trials = SANITIZED ? 30 : BRIEF ? 60 : is_long() ? 200 : 80;
    struct rng r = { 4000 + (uint64_t)work };
    int served = 0, contexts = 0;

    for (int i = 0; i < SETS; i++)
        contexts += compiled[i] && compiled[i]->machine.target.features[0];
    if (compiled[0])
        assert_true(contexts > 0); /* without contexts, nothing would be tested */
    for (int i = 0; i < trials; i++)
        try_one(&r, work, i % 10 == 0, &served);
    if (100 * served < least_percent * trials * contexts)
        fail_msg("%d of %d were served", served, trials * contexts);
}

static void floats_are_native(void **state)
{
    (void)state;
    try_many(FLOATS, 99);
}

static void bytes_are_exact(void **state)
{
    (void)state;
    try_many(BYTES, 99);
}

static void integers_in_floats_are_correct(void **state)
{
    (void)state;
    try_many(EXACT_FLOATS, 40);
}

static void gradients_of_images_are_native(void **state)
{
    (void)state;
    try_many(IMAGES, 85);
}

static void gradients_of_filters_are_native(void **state)
{
    (void)state;
    try_many(FILTERS, 90);
    try_many(COMMON_FILTERS, 99);
}

static void gradients_of_integers_are_correct(void **state)
{
    (void)state;
    try_many(EXACT_IMAGES, 35);
    try_many(EXACT_FILTERS, 35);
}

static void other_sums_are_correct(void **state)
{
    (void)state;
    try_many(PAIRS, 95);
    try_many(PAIRS_OF_IMAGES, 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_sums_are_correct),
        cmocka_unit_test(gradients_of_images_are_native),
        cmocka_unit_test(gradients_of_filters_are_native),
        cmocka_unit_test(gradients_of_integers_are_correct),
        cmocka_unit_test(floats_are_native),
        cmocka_unit_test(bytes_are_exact),
        cmocka_unit_test(integers_in_floats_are_correct),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
