/* SPDX-License-Identifier: BSD-3-Clause
 * Batches in device memory have the interpreter's bits and take as many launches as a single
 * product.  Runs on a GPU if LIMBER_TEST_GPU is set, else on the harness that runs kernels on the
 * CPU. */
#include "contexts.h"
#include "gpus.h"
#include "support.h"

#include "ir/ir.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* With ROWS rows C has two rows of tiles on Hopper, where two blocks form a cluster.  With
 * FEW_ROWS it has one, for tests of the steps after the product. */
enum { ROWS = 140, FEW_ROWS = 40, N = 30, K = 50, MOST = 3, GAP = 4 };
static int64_t M = ROWS;

/* Bits of compute capabilities.  A scheme is tested on one or two devices that have it. */
enum { ON_75 = 1, ON_80 = 2, ON_90 = 4, ON_all = 7, ON_100 = 8, ON_120 = 16 };

/* The schemes with which batches are computed. */
static const struct scheme {
    limber_promise promise;
    const char *scheme, *format, *result;
    enum data data;
    int on;
    int split;
    /* sums are in the device's own order: the expected result comes from single products on the
     * device */
    bool alone;
    const char *unit; /* unit of LIMBER_CONTRACT_SIMULATE */
} schemes[] = {
    { LIMBER_CONTRACT_CORRECT, NULL, "f64", "f64", DATA_unit, ON_all | ON_100, 0, false },
    { LIMBER_CONTRACT_CORRECT, "ozaki1-i8", "f64", "f64", DATA_special, ON_90, 0, false },
    { LIMBER_CONTRACT_NATIVE, "native", "f32", "f32", DATA_unit, ON_80, 0, false },
    { LIMBER_CONTRACT_NATIVE, "native", "f64", "f64", DATA_unit, ON_90, 0, false },
    { LIMBER_CONTRACT_FAST, "fp32-f", "f32", "f32", DATA_unit, ON_75 | ON_90, LIMBER_SPLIT_AHEAD,
      true },
    { LIMBER_CONTRACT_FAST, "fp32-f", "f32", "f32", DATA_tiny, ON_80 | ON_90, LIMBER_SPLIT_INSIDE,
      true },
    { LIMBER_CONTRACT_EXACT, NULL, "i8", "i32", DATA_ints, ON_90, 0, false },
    { LIMBER_CONTRACT_CORRECT, "accumulator", "f64", "f64", DATA_range, ON_80, 0, false },
    /* one simulated unit of each kind: with 32-bit lanes, 64-bit lanes, block scales, random
     * rounding */
    { LIMBER_CONTRACT_SIMULATE, NULL, "f32", "f32", DATA_unit, ON_80, 0, false, "h100-fp16" },
    { LIMBER_CONTRACT_SIMULATE, NULL, "f32", "f32", DATA_range, ON_80, 0, false, "a100-bf16" },
    { LIMBER_CONTRACT_SIMULATE, NULL, "f32", "f32", DATA_unit, ON_80, 0, false, "b200-nvfp4" },
    { LIMBER_CONTRACT_SIMULATE, NULL, "f32", "f16", DATA_unit, ON_80, 0, false,
      "in=e4m3 scale=e8m0:8 mul=(1,5,4):rs acc=f16 group=10 outer=f16:rs seed=4" },
    { LIMBER_CONTRACT_SIMULATE, "tensor-mx", "f32", "f32", DATA_unit, ON_100 | ON_120, 0, true,
      "b200-nvfp4" },
    { LIMBER_CONTRACT_SIMULATE, "tensor-mx", "f32", "f32", DATA_unit, ON_100 | ON_120, 0, true,
      "b200-mxe5m2 b=e2m3" },
};

/* Returns whether the device's capability is in the set.  A GPU after Hopper (LIMBER_TEST_GPU is
 * set) also runs what is listed for Hopper; the simulated devices after Hopper support only
 * instructions that are new there. */
static bool is_on_device(int on)
{
    int capability = gpu_capability(), too = getenv("LIMBER_TEST_GPU") ? ON_90 : 0;

    return on & (capability < 80  ? ON_75 :
                 capability < 90  ? ON_80 :
                 capability < 100 ? ON_90 :
                 capability < 120 ? ON_100 | too :
                                    ON_120 | too);
}

/* Placement of an operand's matrices: equal strides, one shared matrix, or an array of
 * addresses. */
enum lie { LIE_steps, LIE_shared, LIE_addresses };

/* An operand of all products of a batch, on the host and on the device. */
struct operand {
    limber_format f;
    int64_t rows, cols, step;
    enum lie lie;
    char *host;
    struct gpu_buffer there;
    const void *at[MOST], *host_at[MOST];
};

/* Makes an operand of all products, on the host and on the device, with matrices placed as `lie`
 * says. */
static void make_operand(struct operand *o, struct rng *r, limber_format f, enum data data,
                         int64_t rows, int64_t cols, enum lie lie)
{
    size_t numbers;

    *o = (struct operand){ .f = f, .rows = rows, .cols = cols, .lie = lie };
    o->step = lie == LIE_shared ? 0 : rows * cols + GAP;
    numbers = (size_t)(MOST * (rows * cols + GAP));
    o->host = malloc(numbers * f.size);
    fill(r, data, f, o->host, numbers);
    /* The first matrix is within the range of exponents that the unit's 32-bit lanes compute;
     * tiles outside that range use other lanes. */
    if (data == DATA_range)
        fill(r, DATA_unit, f, o->host, (size_t)(rows * cols));
    o->there = gpu_upload_new(o->host, numbers * f.size);
    for (int g = 0; g < MOST; g++) { /* addresses do not ascend */
        size_t at = (size_t)(g * 2 % MOST * (rows * cols + GAP)) * f.size;

        o->at[g] = (const char *)o->there.at + at;
        o->host_at[g] = o->host + at;
    }
}

static void free_operand(struct operand *o)
{
    gpu_free(o->there);
    free(o->host);
}

static limber_matrix matrix_of(const struct operand *o, bool there)
{
    return (limber_matrix){ there ? (const void *)o->there.at : o->host, o->f, o->cols, 1 };
}

/* Returns the placement of all matrices as the library's structure. there: addresses on the
 * device. */
static limber_batch batch_of(const struct operand x[3], int64_t count, bool there)
{
    limber_batch t = LIMBER_BATCH_INIT;

    t.count = count;
    t.a = x[0].step;
    t.b = x[1].step;
    t.c = x[2].step;
    if (x[0].lie == LIE_addresses)
        t.address_a = there ? x[0].at : x[0].host_at;
    if (x[1].lie == LIE_addresses)
        t.address_b = there ? x[1].at : x[1].host_at;
    if (x[2].lie == LIE_addresses)
        t.address_c = (void *const *)(there ? x[2].at : x[2].host_at);
    return t;
}

/* Returns the contract of a scheme.  Its unit, if it has one, is valid until the next call. */
static limber_contract contract_of(const struct scheme *s)
{
    static limber_unit unit;
    limber_contract c = LIMBER_CONTRACT_INIT;

    if (s->unit) {
        unit = (limber_unit)LIMBER_UNIT_INIT;
        if (limber_unit_parse(s->unit, &unit) != LIMBER_STATUS_OK)
            fail_msg("%s: %s", s->unit, limber_error_text());
        c.unit = &unit;
    }
    c.promise = s->promise;
    c.scheme = s->scheme;
    c.split = s->split;
    return c;
}

/* Multiplies the matrices of a batch by one call. */
static limber_status run_batch(limber_context *ctx, const struct scheme *s,
                               const struct operand x[3], int64_t count, const limber_queue *queue)
{
    const limber_contract contract = contract_of(s);
    bool there = ctx == cuda;
    const limber_batch batch = batch_of(x, count, there);

    return gemm_batch(ctx, &contract, queue, &batch, M, N, K, NULL, matrix_of(&x[0], there),
                      matrix_of(&x[1], there), NULL, output_of(matrix_of(&x[2], there)), NULL);
}

static long count_launches(void)
{
    return driver.simt_launches ? driver.simt_launches() : 0;
}

/* Computes the expected C in host memory: by the interpreter, or as single products on the
 * device. */
static void compute_expected(const struct scheme *s, const struct operand x[3])
{
    const limber_contract contract = contract_of(s);

    if (!s->alone) {
        assert_int_equal(run_batch(reference, s, x, MOST, NULL), LIMBER_STATUS_OK);
        return;
    }
    for (int g = 0; g < MOST; g++) {
        limber_matrix m[3];

        for (int i = 0; i < 3; i++) {
            m[i] = matrix_of(&x[i], true);
            m[i].data = x[i].lie == LIE_addresses ?
                            x[i].at[g] :
                            (const char *)m[i].data + g * x[i].step * x[i].f.size;
        }
        if (limber_gemm(cuda, &contract, M, N, K, NULL, m[0], m[1], NULL, output_of(m[2]), NULL))
            fail_msg("%s", limber_error_text());
    }
    gpu_download(x[2].host, x[2].there);
}

/* Compares `got`, a copy of C from the device, with the expected C in host memory. */
static void compare_c(const struct scheme *s, const struct operand *c, const char *got)
{
    size_t bytes = c->there.bytes;

    for (size_t i = 0; i < bytes / c->f.size; i++)
        if (!same_number(c->f, c->host + i * c->f.size, got + i * c->f.size))
            fail_msg("%s of %s: number %zu of C, of %zu", s->scheme ? s->scheme : "correct",
                     s->format, i, bytes / c->f.size);
}

/* Compares C on the device with the expected numbers. */
static void same_numbers(const struct scheme *s, const struct operand *c)
{
    char *got = malloc(c->there.bytes);

    gpu_download(got, c->there);
    compare_c(s, c, got);
    free(got);
}

/* Computes the expected C, and compares C on the device with it. */
static void same_c(const struct scheme *s, const struct operand x[3])
{
    const struct operand *c = &x[2];
    char *got = malloc(c->there.bytes);

    gpu_download(got, c->there);
    if (s->alone) /* clear C on the device, so that the single products must store it anew */
        gpu_upload(c->there, c->host);
    compute_expected(s, x);
    compare_c(s, c, got);
    free(got);
}

/* Checks that a batch of two and a batch of MOST take the same number of launches, and that C is
 * right.  a, b, c: placement of each operand's matrices. */
static void a_batch_takes_one_launch_per_step(int i, enum lie a, enum lie b, enum lie c)
{
    const struct scheme *s = &schemes[i];
    struct rng r = { 5 };
    struct operand x[3];
    long before, few, many;

    make_operand(&x[0], &r, named(s->format), s->data, M, K, a);
    make_operand(&x[1], &r, named(s->format), s->data, K, N, b);
    make_operand(&x[2], &r, named(s->result), DATA_bytes, M, N, c);
    if (run_batch(cuda, s, x, 2, NULL))
        fail_msg("%s", limber_error_text());
    before = count_launches();
    assert_int_equal(run_batch(cuda, s, x, 2, NULL), LIMBER_STATUS_OK);
    few = count_launches() - before;
    before = count_launches();
    assert_int_equal(run_batch(cuda, s, x, MOST, NULL), LIMBER_STATUS_OK);
    many = count_launches() - before;
    same_c(s, x);
    print_message("%-9s of %-4s %ld launches\n",
                  s->unit   ? "simulated" :
                  s->scheme ? s->scheme :
                              "correct",
                  s->format, many);
    assert_int_equal(few, many);
    if (i == 0 && driver.simt_launches) /* launches: scan, limbs, products, C */
        assert_int_equal(many, 4);
    for (int k = 0; k < 3; k++)
        free_operand(&x[k]);
}

/* Computes a scheme's batch in a new context, whose kernels are compiled with the planted fault.
 * which: address of the scheme's index.  Returns 1 if C is right, 0 if not, 2 if there is no
 * context, 3 if NVRTC refuses the kernels. */
static int batch_is_right(void *which)
{
    const struct scheme *s = &schemes[*(const int *)which];
    const limber_contract contract = contract_of(s);
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    struct rng r = { 5 };
    struct operand x[3];
    char *got;
    limber_context *own;
    limber_batch batch;
    int right = 1;

    if (limber_create(&own, &config))
        return 2;
    make_operand(&x[0], &r, named(s->format), s->data, M, K, LIE_steps);
    make_operand(&x[1], &r, named(s->format), s->data, K, N, LIE_steps);
    make_operand(&x[2], &r, named(s->result), DATA_bytes, M, N, LIE_steps);
    batch = batch_of(x, MOST, true);
    if (gemm_batch(own, &contract, NULL, &batch, M, N, K, NULL, matrix_of(&x[0], true),
                   matrix_of(&x[1], true), NULL, output_of(matrix_of(&x[2], true)), NULL))
        return strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    got = malloc(x[2].there.bytes);
    gpu_download(got, x[2].there);
    compute_expected(s, x);
    for (size_t i = 0; i < x[2].there.bytes / x[2].f.size; i++)
        right &= same_number(x[2].f, x[2].host + i * x[2].f.size, got + i * x[2].f.size);
    free(got);
    limber_destroy(own);
    for (int i = 0; i < 3; i++)
        free_operand(&x[i]);
    return right;
}

/* Faults planted in the code that finds a product's operands, results or scales in a batch must
 * change a result. */
static void faults_of_batches_are_found(void **state)
{
    static const struct gpu_fault wide[] = {
        { 80, "another matrix' slots",
          "which * a.padded + line0 + line;\\n    char=>0 * which + line0 + line;\\n    char" },
        { 80, "where another product goes",
          "        put_value(r, i, j, w.element=>        put_value(a.r, i, j, w.element" },
    };
    static const struct gpu_fault scales[] = {
        { 80, "scales of another matrix",
          "(which * a.lines + line) * a.scale_blocks=>line * "
          "a.scale_blocks" },
        { 80, "scales of the first alone",
          "which);\\n    line -= which=>0 * which);\\n    line -= which" },
    };
    int units[2] = { 9, 10 };

    (void)state;
    if (!is_on_device(ON_80))
        skip_because("another architecture runs it");
    for (int i = 0; i < 2; i++)
        assert_int_equal(batch_is_right(&units[i]), 1);
    gpu_faults_are_found(wide, COUNT(wide), batch_is_right, &units[0]);
    gpu_faults_are_found(scales, COUNT(scales), batch_is_right, &units[1]);
}

/* Each scheme's batch takes as many launches as a batch of two products, with matrices at constant
 * strides, shared, or listed by address, and C is right. */
static void batches_take_as_many_launches_as_one_product(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(schemes); i++)
        if (is_on_device(schemes[i].on))
            a_batch_takes_one_launch_per_step((int)i, i % 3 ? LIE_steps : LIE_addresses,
                                              i % 3 == 1 ? LIE_shared : LIE_steps,
                                              i % 2 ? LIE_steps : LIE_addresses);
}

/* Multiplies complex matrices.  Each element is two numbers, so an operand has twice as many
 * columns of numbers. */
static limber_status run_complex(limber_context *ctx, const struct scheme *s,
                                 const struct operand x[3], int64_t count,
                                 limber_complex_method method, const void *alpha, const void *beta)
{
    const limber_contract contract = contract_of(s);
    bool there = ctx == cuda;
    limber_batch batch = batch_of(x, count, there);
    limber_problem p =
        gemm_problem(&contract, M, N, K, alpha, matrix_of(&x[0], there), matrix_of(&x[1], there),
                     beta, output_of(matrix_of(&x[2], there)));

    batch.a /= 2;
    batch.b /= 2;
    batch.c /= 2;
    p.a.row_stride /= 2;
    p.b.row_stride /= 2;
    p.c.row_stride /= 2;
    p.domain = LIMBER_DOMAIN_COMPLEX;
    p.complex_method = method;
    p.conjugate = LIMBER_CONJUGATE_B;
    p.batch = &batch;
    return limber_run(ctx, &p, NULL);
}

/* A complex batch of MOST products takes as many launches as a batch of two products, and has the
 * interpreter's bits.  A batch with operands both on the host and on the device is refused. */
static void complex_batches_take_one_launch_per_step(void **state)
{
    static const struct scheme complex[] = {
        { LIMBER_CONTRACT_CORRECT, NULL, "f64", "f64", DATA_unit, ON_90, 0, false },
        { LIMBER_CONTRACT_EXACT, NULL, "i8", "i32", DATA_bytes, ON_90, 0, false },
    };
    struct rng r = { 8 };

    (void)state;
    if (!is_on_device(ON_90))
        skip_because("another architecture runs it");
    for (size_t i = 0; i < COUNT(complex); i++) {
        const struct scheme *s = &complex[i];
        struct operand x[3], host;
        long before, few;

        make_operand(&x[0], &r, named(s->format), s->data, M, 2 * K, LIE_addresses);
        make_operand(&x[1], &r, named(s->format), s->data, K, 2 * N, i ? LIE_steps : LIE_shared);
        make_operand(&x[2], &r, named(s->result), DATA_bytes, M, 2 * N, LIE_steps);
        if (run_complex(cuda, s, x, 2, LIMBER_COMPLEX_AUTO, NULL, NULL))
            fail_msg("%s", limber_error_text());
        before = count_launches();
        assert_int_equal(run_complex(cuda, s, x, 2, LIMBER_COMPLEX_AUTO, NULL, NULL),
                         LIMBER_STATUS_OK);
        few = count_launches() - before;
        before = count_launches();
        assert_int_equal(run_complex(cuda, s, x, MOST, LIMBER_COMPLEX_AUTO, NULL, NULL),
                         LIMBER_STATUS_OK);
        assert_int_equal(count_launches() - before, few);
        assert_int_equal(run_complex(reference, s, x, MOST, LIMBER_COMPLEX_AUTO, NULL, NULL),
                         LIMBER_STATUS_OK);
        same_numbers(s, &x[2]);
        host = x[1];
        x[1].there.at = (uint64_t)(uintptr_t)x[1].host;
        assert_refused(run_complex(cuda, s, x, 2, LIMBER_COMPLEX_AUTO, NULL, NULL),
                       LIMBER_STATUS_BAD_ARGUMENT, "all in host memory");
        x[1] = host;
        for (int k = 0; k < 3; k++)
            free_operand(&x[k]);
    }
}

/* A complex batch with alpha and beta takes one launch per step.  The scalars are applied by a
 * second product, whose operands are A B and, with beta, C. */
static void complex_scalars_take_one_launch_per_step(void **state)
{
    static const struct scheme complex[] = {
        { LIMBER_CONTRACT_CORRECT, NULL, "f32", "f32", DATA_unit, ON_all, 0, false },
        { LIMBER_CONTRACT_EXACT, NULL, "i8", "i32", DATA_ints, ON_90, 0, false },
    };
    static const double alpha[2] = { 1.5, -2 }, beta[2] = { 0.25, 3 };
    static const int64_t whole[2] = { 2, -1 }, also[2] = { 1, 1 };

    (void)state;
    M = FEW_ROWS;
    for (int i = 0; i < 6; i++) {
        const struct scheme *s = &complex[i / 4];
        const void *scale = i / 4 ? (const void *)whole : alpha;
        const void *keep = i % 2 ? NULL : i / 4 ? (const void *)also : beta;
        struct rng r = { 18 };
        struct operand x[3];
        long before, few;
        char *start;

        /* each scheme is tested either with beta or without */
        if (!is_on_device(s->on) || !is_taken((size_t)(i + i / 2), 2))
            continue;
        make_operand(&x[0], &r, named(s->format), s->data, M, 2 * K,
                     i & 2 ? LIE_addresses : LIE_steps);
        make_operand(&x[1], &r, named(s->format), s->data, K, 2 * N,
                     i & 2 ? LIE_steps : LIE_shared);
        make_operand(&x[2], &r, named(s->result), DATA_ints, M, 2 * N,
                     i & 2 ? LIE_addresses : LIE_steps);
        start = malloc(x[2].there.bytes);
        memcpy(start, x[2].host, x[2].there.bytes);
        if (run_complex(cuda, s, x, 2, LIMBER_COMPLEX_AUTO, scale, keep))
            fail_msg("%s", limber_error_text());
        before = count_launches();
        assert_int_equal(run_complex(cuda, s, x, 2, LIMBER_COMPLEX_AUTO, scale, keep),
                         LIMBER_STATUS_OK);
        few = count_launches() - before;
        gpu_upload(x[2].there, start);
        before = count_launches();
        assert_int_equal(run_complex(cuda, s, x, MOST, LIMBER_COMPLEX_AUTO, scale, keep),
                         LIMBER_STATUS_OK);
        assert_int_equal(count_launches() - before, few);
        print_message("%s, complex alpha%s: %ld launches\n", s->format, keep ? " and beta" : "",
                      few);
        assert_int_equal(run_complex(reference, s, x, MOST, LIMBER_COMPLEX_AUTO, scale, keep),
                         LIMBER_STATUS_OK);
        same_numbers(s, &x[2]);
        free(start);
        for (int k = 0; k < 3; k++)
            free_operand(&x[k]);
    }
    M = ROWS;
}

/* A complex batch by three real products runs each step once for all matrices: sums of real and
 * imaginary parts, products, and joining of both parts of C. */
static void three_products_take_one_launch_per_step(void **state)
{
    static const struct scheme complex[] = {
        { LIMBER_CONTRACT_FAST, "native", "f64", "f64", DATA_unit, ON_80, 0, false },
        { LIMBER_CONTRACT_FAST, "ozaki2", "f32", "f32", DATA_unit, ON_90, 0, false },
        { LIMBER_CONTRACT_EXACT, NULL, "i16", "i64", DATA_ints, ON_all, 0, false },
    };
    static const enum lie lies[] = { LIE_steps, LIE_addresses, LIE_shared };

    (void)state;
    M = FEW_ROWS;
    /* tests each scheme and each placement, but not all pairs of them */
    for (int i = 0; i < 9; i += 2) {
        const struct scheme *s = &complex[i / 3];
        struct rng r = { 28 + (uint64_t)i };
        struct operand x[3];
        long before, few;

        if (!is_on_device(s->on) || (i > 2 && !is_taken((size_t)(i / 2 + 1), 2)))
            continue;
        make_operand(&x[0], &r, named(s->format), s->data, M, 2 * K, lies[i % 3]);
        make_operand(&x[1], &r, named(s->format), s->data, K, 2 * N, lies[(i + i / 3) % 3]);
        make_operand(&x[2], &r, named(s->result), DATA_bytes, M, 2 * N, lies[i % 2]);
        if (run_complex(cuda, s, x, 2, LIMBER_COMPLEX_THREE_PRODUCTS, NULL, NULL))
            fail_msg("%s", limber_error_text());
        before = count_launches();
        assert_int_equal(run_complex(cuda, s, x, 2, LIMBER_COMPLEX_THREE_PRODUCTS, NULL, NULL),
                         LIMBER_STATUS_OK);
        few = count_launches() - before;
        before = count_launches();
        assert_int_equal(run_complex(cuda, s, x, MOST, LIMBER_COMPLEX_THREE_PRODUCTS, NULL, NULL),
                         LIMBER_STATUS_OK);
        assert_int_equal(count_launches() - before, few);
        print_message("%s, three products: %ld launches\n", s->format, few);
        assert_int_equal(
            run_complex(reference, s, x, MOST, LIMBER_COMPLEX_THREE_PRODUCTS, NULL, NULL),
            LIMBER_STATUS_OK);
        same_numbers(s, &x[2]);
        for (int k = 0; k < 3; k++)
            free_operand(&x[k]);
    }
    M = ROWS;
}

/* If sums of one matrix do not fit the result's format, the batch is refused and C stays
 * unchanged. */
static void refused_batches_leave_c(void **state)
{
    static const struct scheme s = {
        LIMBER_CONTRACT_EXACT, NULL, "i64", "i64", DATA_ints, 0, 0, false
    };
    static const limber_complex_method methods[] = { LIMBER_COMPLEX_FOUR_PRODUCTS,
                                                     LIMBER_COMPLEX_THREE_PRODUCTS };
    struct rng r = { 38 };
    struct operand x[3];
    int64_t *last;
    char *got;

    (void)state;
    if (!is_on_device(ON_90))
        skip_because("another architecture runs it");
    make_operand(&x[0], &r, named("i64"), s.data, M, 2 * K, LIE_steps);
    make_operand(&x[1], &r, named("i64"), s.data, K, 2 * N, LIE_steps);
    make_operand(&x[2], &r, named("i64"), DATA_bytes, M, 2 * N, LIE_steps);
    got = malloc(x[2].there.bytes);
    last = (int64_t *)(void *)x[0].host + (MOST - 1) * x[0].step;
    for (int i = 0; i < 2 * K; i++) /* sums of the last product exceed 63 bits */
        last[i] = (int64_t)1 << 61;
    gpu_upload(x[0].there, x[0].host);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_complex(cuda, &s, x, MOST, methods[i], NULL, NULL),
                         i ? LIMBER_STATUS_NO_SCHEME : LIMBER_STATUS_RANGE);
        gpu_download(got, x[2].there);
        assert_memory_equal(got, x[2].host, x[2].there.bytes);
        /* the batch without that matrix succeeds */
        if (run_complex(cuda, &s, x, MOST - 1, methods[i], NULL, NULL))
            fail_msg("%s", limber_error_text());
        gpu_upload(x[2].there, x[2].host);
    }
    free(got);
    for (int k = 0; k < 3; k++)
        free_operand(&x[k]);
}

/* If the workspace holds only some of the products, the batch runs in several steps, one after the
 * other. */
static void small_workspaces_serialize_batches(void **state)
{
    const struct scheme *s = &schemes[0];
    limber_contract contract = contract_of(s);
    struct rng r = { 6 };
    limber_queue queue;
    struct gpu_buffer room;
    struct operand x[3];
    limber_problem p;
    limber_batch batch;
    size_t least, best, one;
    long before, whole, waits;

    (void)state;
    if (!is_on_device(ON_90))
        skip_because("another architecture runs it");
    make_operand(&x[0], &r, named(s->format), s->data, M, K, LIE_steps);
    make_operand(&x[1], &r, named(s->format), s->data, K, N, LIE_addresses);
    make_operand(&x[2], &r, named(s->result), DATA_bytes, M, N, LIE_steps);
    batch = batch_of(x, MOST, true);
    p = gemm_problem(&contract, M, N, K, NULL, matrix_of(&x[0], true), matrix_of(&x[1], true), NULL,
                     output_of(matrix_of(&x[2], true)));
    p.batch = &batch;
    assert_int_equal(limber_workspace(cuda, &p, &least, &best), LIMBER_STATUS_OK);
    assert_int_equal(
        gemm_workspace(cuda, &contract, M, N, K, NULL, p.a, p.b, NULL, p.c, &least, &one),
        LIMBER_STATUS_OK);
    assert_true(best > (MOST - 1) * one && best <= MOST * one);
    room = gpu_queue(&queue, best);
    queue.capture = LIMBER_CAPTURE_NONE;
    if (run_batch(cuda, s, x, MOST, &queue))
        fail_msg("%s", limber_error_text());
    before = count_launches();
    waits = driver.simt_waits ? driver.simt_waits() : 0;
    assert_int_equal(run_batch(cuda, s, x, MOST, &queue), LIMBER_STATUS_OK);
    whole = count_launches() - before;
    if (driver.simt_waits) /* the host waits once, for the results of scans */
        assert_int_equal(driver.simt_waits() - waits, 1);
    queue.bytes = 2 * one + one / 2; /* memory for two products: the three run as two, then one */
    before = count_launches();
    assert_int_equal(run_batch(cuda, s, x, MOST, &queue), LIMBER_STATUS_OK);
    if (driver.simt_launches)
        assert_int_equal(count_launches() - before, whole + 3);
    assert_int_equal(driver.cuStreamSynchronize(queue.stream), 0);
    same_c(s, x);
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(room);
    for (int i = 0; i < 3; i++)
        free_operand(&x[i]);
}

/* A batch is recorded into a graph, which is replayed on other operands.  Some have exponents
 * beyond those for which the plan was recorded. */
static void batches_are_recorded_into_graphs(void **state)
{
    static const enum data data[] = { DATA_unit, DATA_range };
    const struct scheme *s = &schemes[0];
    struct rng r = { 7 };
    limber_queue queue;
    struct operand x[3];
    struct gpu_buffer room;
    void *play;

    (void)state;
    if (!is_on_device(ON_80))
        skip_because("another architecture runs it");
    make_operand(&x[0], &r, named(s->format), s->data, M, K, LIE_steps);
    make_operand(&x[1], &r, named(s->format), s->data, K, N, LIE_shared);
    make_operand(&x[2], &r, named(s->result), DATA_bytes, M, N, LIE_steps);
    room = gpu_queue(&queue, (size_t)16 << 20);
    if (run_batch(cuda, s, x, MOST, &queue))
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamBeginCapture_v2(queue.stream, 0), 0);
    if (run_batch(cuda, s, x, MOST, &queue))
        fail_msg("%s", limber_error_text());
    play = gpu_end_recording(&queue);
    for (size_t i = 0; i < COUNT(data); i++) {
        fill(&r, data[i], x[0].f, x[0].host, x[0].there.bytes / x[0].f.size);
        gpu_upload(x[0].there, x[0].host);
        gpu_run_graph(play, &queue);
        same_c(s, x);
    }
    driver.cuGraphExecDestroy(play);
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(room);
    for (int i = 0; i < 3; i++)
        free_operand(&x[i]);
}

/* The mock cuBLAS multiplies a batch in one call.  It multiplies integers exactly, since their sums
 * are exact in any order. */
static void cublas_takes_batches_at_once(void **state)
{
    static const enum lie lies[][3] = {
        { LIE_steps, LIE_steps, LIE_steps },
        { LIE_shared, LIE_steps, LIE_steps },
        { LIE_addresses, LIE_addresses, LIE_addresses },
        { LIE_steps, LIE_addresses, LIE_steps },
    };
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_context *plain = cuda;
    void *mock;
    long (*calls)(void);

    (void)state;
    if (!driver.simt_launches || !is_on_device(ON_90))
        skip_because("another architecture runs it");
    mock = dlopen(SIMT_CUBLAS, RTLD_LAZY);
    assert_non_null(mock);
    *(void **)&calls = dlsym(mock, "cublas_mock_calls");
    assert_non_null(calls);
    setenv("LIMBER_CUBLAS", SIMT_CUBLAS, 1);
    assert_int_equal(limber_create(&cuda, &config), LIMBER_STATUS_OK);
    for (int i = 0; i < 8; i++) {
        const char *f = i & 1 ? "f32" : "f64";
        struct scheme s = { LIMBER_CONTRACT_NATIVE, "cublas", f, f, DATA_bytes, ON_90, 0, false };
        const enum lie *lie = lies[i / 2];
        struct rng r = { 48 + (uint64_t)i };
        struct operand x[3];
        long before;

        make_operand(&x[0], &r, named(f), s.data, M, K, lie[0]);
        make_operand(&x[1], &r, named(f), s.data, K, N, lie[1]);
        make_operand(&x[2], &r, named(f), DATA_bytes, M, N, lie[2]);
        before = calls();
        if (run_batch(cuda, &s, x, MOST, NULL))
            fail_msg("%s", limber_error_text());
        /* the last placement mixes steps and addresses, so cuBLAS is called once per product */
        assert_int_equal(calls() - before, i / 2 < 3 ? 1 : MOST);
        s.scheme = "native";
        assert_int_equal(run_batch(reference, &s, x, MOST, NULL), LIMBER_STATUS_OK);
        same_numbers(&s, &x[2]);
        for (int k = 0; k < 3; k++)
            free_operand(&x[k]);
    }
    limber_destroy(cuda);
    cuda = plain;
    unsetenv("LIMBER_CUBLAS");
    dlclose(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_take_as_many_launches_as_one_product),
        cmocka_unit_test(faults_of_batches_are_found),
        cmocka_unit_test(complex_batches_take_one_launch_per_step),
        cmocka_unit_test(complex_scalars_take_one_launch_per_step),
        cmocka_unit_test(three_products_take_one_launch_per_step),
        cmocka_unit_test(refused_batches_leave_c),
        cmocka_unit_test(small_workspaces_serialize_batches),
        cmocka_unit_test(batches_are_recorded_into_graphs),
        cmocka_unit_test(cublas_takes_batches_at_once),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
