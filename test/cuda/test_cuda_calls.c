/* SPDX-License-Identifier: BSD-3-Clause
 * Calls as programs on GPUs make them, compared with the interpreter: operands in device memory,
 * the caller's streams and workspaces, recorded graphs.  Runs on a GPU if LIMBER_TEST_GPU is set,
 * else on the harness that runs kernels on the CPU (SIMT_CC names the compute capability). */
#include "contexts.h"
#include "gpus.h"
#include "support.h"

#include "ir/ir.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- operands on the device ------------------------------------------------------------------ */

enum { M = 33, N = 29, K = 70, MANY = 3 };

/* Computes a product, or the batch, by the interpreter, and on the GPU from host and from device
 * memory, and compares C.  format: of A and B; result: of C. */
static void compare_everywhere(limber_contract contract, const char *format, const char *result,
                               enum data data, const limber_queue *queue, const limber_batch *batch)
{
    limber_format f = named(format), fc = named(result);
    size_t na = MANY * M * K * f.size, nb = MANY * K * N * f.size, nc = MANY * M * N * fc.size;
    char *a = malloc(na), *b = malloc(nb), *c = malloc(nc), *want = malloc(nc), *got = malloc(nc);
    struct gpu_buffer ra, rb, rc;
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
    ra = gpu_upload_new(a, na);
    rb = gpu_upload_new(b, nb);
    rc = gpu_upload_new(c, nc);
    if (gemm_batch(cuda, &contract, queue, batch, M, N, K, NULL,
                   (limber_matrix){ (void *)ra.at, f, K, 1 },
                   (limber_matrix){ (void *)rb.at, f, N, 1 }, NULL,
                   (limber_output){ (void *)rc.at, fc, N, 1 }, &device) != s)
        fail_msg("%s", limber_error_text());
    if (queue)
        assert_int_equal(driver.cuStreamSynchronize(queue->stream), 0);
    gpu_download(got, rc);
    assert_memory_equal(got, want, nc);
    /* subnormal numbers are excepted: the host's scan classifies them more coarsely than the
     * device's */
    if (s == LIMBER_STATUS_OK && data != DATA_tiny && strcmp(device.kernel, host.kernel))
        fail_msg("%s of %s: a scan on the device finds another class", data_name(data), format);
    gpu_free(ra);
    gpu_free(rb);
    gpu_free(rc);
    free(a);
    free(b);
    free(c);
    free(want);
    free(got);
}

/* Products of many formats and data have the same bits and status, whether each operand is in
 * memory of the host or of the device. */
static void operands_may_lie_on_the_device(void **state)
{
    static const enum data data[] = { DATA_unit,  DATA_range, DATA_special,
                                      DATA_zeros, DATA_tiny,  DATA_ints };
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = MANY, .a = M * K, .b = 0, .c = M * N
    };

    (void)state;
    for (size_t i = 0; i < COUNT(data); i++) {
        if (is_taken(i, 2))
            compare_everywhere(correct, "f64", "f64", data[i], NULL, NULL);
        if (is_taken(i + 1, 2))
            compare_everywhere(correct, "f32", "f32", data[i], NULL, NULL);
    }
    compare_everywhere(plain, "f32", "f32", DATA_unit, NULL, &batch);
    compare_everywhere(correct, "dd", "dd", DATA_unit, NULL, NULL);
    compare_everywhere(correct, "f128", "f128", DATA_spread, NULL, NULL);
    compare_everywhere(correct, "posit8", "posit16", DATA_special, NULL, NULL);
    compare_everywhere(correct, "posit32", "posit32", DATA_range, NULL, NULL);
    compare_everywhere(correct, "e4m3fnuz", "e5m2fnuz", DATA_special, NULL, NULL);
    compare_everywhere(plain, "e5m2fnuz", "f32", DATA_unit, NULL, NULL);
    /* results are taken modulo 16 */
    compare_everywhere(plain, "i4", "i4", DATA_ints, NULL, &batch);
    compare_everywhere(exact, "i8", "i2", DATA_zeros, NULL, NULL);
    compare_everywhere(exact, "i8", "i2", DATA_ints, NULL,
                       NULL); /* refused with status RANGE; C stays unchanged */
    compare_everywhere(exact, "i4", "i32", DATA_ints, NULL, &batch);
    compare_everywhere(exact, "i16", "i64", DATA_ints, NULL, &batch);
    compare_everywhere(exact, "i16", "i16", DATA_ints, NULL,
                       &batch); /* refused with status RANGE; C stays unchanged */
}

/* An operand that was prepared (scanned once), on the host or on the device, is accepted for
 * products on both. */
static void prepared_operands_have_the_same_bits(void **state)
{
    enum { M = 70, N = 50, K = 90 };
    const limber_prepare_config checked = { .size = sizeof(limber_prepare_config), .changes = 1 };
    limber_format f64 = named("f64");
    struct rng r = { 77 };
    double a[M * K], b[K * N], want[M * N], got[M * N];
    struct gpu_buffer at, bt, ct;
    limber_prepared *oa, *ob;
    limber_report whole = LIMBER_REPORT_INIT, prepared = LIMBER_REPORT_INIT;

    (void)state;
    fill(&r, DATA_special, f64, a, M * K);
    fill(&r, DATA_unit, f64, b, K * N);
    at = gpu_upload_new(a, sizeof a);
    bt = gpu_upload_new(b, sizeof b);
    ct = gpu_upload_new(got, sizeof got);
    for (int there = 0; there < 2; there++) {
        limber_matrix ma = { there ? (void *)at.at : a, f64, K, 1 };
        limber_matrix mb = { there ? (void *)bt.at : b, f64, N, 1 };
        limber_matrix mc = { there ? (void *)ct.at : got, f64, N, 1 }, mw = { want, f64, N, 1 };

        assert_int_equal(limber_prepare(cuda, ma, M, K, LIMBER_SIDE_A, NULL, &oa),
                         LIMBER_STATUS_OK);
        assert_int_equal(limber_prepare(cuda, mb, K, N, LIMBER_SIDE_B, NULL, &ob),
                         LIMBER_STATUS_OK);
        assert_int_equal(
            limber_gemm(cuda, &correct, M, N, K, NULL, ma, mb, NULL, output_of(mw), &whole),
            LIMBER_STATUS_OK);
        for (int sides = 1; sides < 4; sides++) {
            memset(got, 0, sizeof got);
            assert_int_equal(gemm_prepared(cuda, &correct, M, N, K, NULL, sides & 1 ? oa : NULL, ma,
                                           sides & 2 ? ob : NULL, mb, NULL, output_of(mc),
                                           &prepared),
                             LIMBER_STATUS_OK);
            if (there)
                gpu_download(got, ct);
            assert_memory_equal(got, want, sizeof got);
            assert_string_equal(whole.kernel, prepared.kernel);
        }
        limber_prepared_free(oa);
        limber_prepared_free(ob);
        assert_int_equal(limber_prepare(cuda, ma, M, K, LIMBER_SIDE_A, &checked, &oa),
                         there ? LIMBER_STATUS_BAD_ARGUMENT : LIMBER_STATUS_OK);
        limber_prepared_free(oa);
    }
    gpu_free(at);
    gpu_free(bt);
    gpu_free(ct);
}

/* The device estimates the number of slices from the same sums as the host, so that both choose
 * one plan. */
static void slices_are_estimated_on_the_device(void **state)
{
    const limber_contract fast = { .size = sizeof(limber_contract),
                                   .promise = LIMBER_CONTRACT_FAST,
                                   .scheme = "ozaki1-i8" };
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = MANY, .a = 0, .b = K * N, .c = M * N
    };

    (void)state;
    compare_everywhere(fast, "f64", "f64", DATA_unit, NULL, NULL);
    compare_everywhere(fast, "f64", "f64", DATA_special, NULL, &batch);
    compare_everywhere(fast, "dd", "f64", DATA_spread, NULL, NULL);
}

/* Products in the caller's stream have the same bits, without and with the caller's workspace. */
static void streams_and_workspaces_are_the_callers(void **state)
{
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = MANY, .a = M * K, .b = K * N, .c = M * N
    };
    limber_queue queue = { .size = sizeof(limber_queue), .bytes = (size_t)1 << 24 };
    struct gpu_buffer room = gpu_allocate(queue.bytes);

    (void)state;
    assert_int_equal(driver.cuStreamCreate(&queue.stream, 1), 0);
    compare_everywhere(correct, "f64", "f64", DATA_unit, &queue, &batch);
    queue.workspace = (void *)room.at;
    compare_everywhere(correct, "f64", "f64", DATA_unit, &queue, &batch);
    compare_everywhere(plain, "f64", "f64", DATA_unit, &queue, NULL);
    gpu_free(room);
    driver.cuStreamDestroy_v2(queue.stream);
}

/* ---- calls recorded into graphs -------------------------------------------------------------- */

/* Records a product and replays the graph with operands of the recorded class (range of
 * exponents, number of bits) and of another. any: scheme of the fallback plan, which computes
 * data of another class. */
static void check_recorded(limber_contract contract, const char *format, const char *any)
{
    static const enum data data[] = { DATA_unit, DATA_unit, DATA_special, DATA_range, DATA_zeros };
    limber_format f = named(format);
    size_t na = M * K * f.size, nb = K * N * f.size, nc = M * N * f.size, least, best;
    char *a = malloc(na), *b = malloc(nb), *want = malloc(nc), *got = malloc(nc);
    limber_contract other = contract;
    struct rng r = { 17 };
    struct gpu_buffer ra, rb, rc, room;
    limber_queue queue;
    limber_matrix xa, xb, xc;
    void *graph, *play;

    fill(&r, DATA_unit, f, a, na / f.size);
    fill(&r, DATA_unit, f, b, nb / f.size);
    ra = gpu_upload_new(a, na);
    rb = gpu_upload_new(b, nb);
    rc = gpu_upload_new(want, nc);
    xa = (limber_matrix){ (void *)ra.at, f, K, 1 };
    xb = (limber_matrix){ (void *)rb.at, f, N, 1 };
    xc = (limber_matrix){ (void *)rc.at, f, 1, M };
    assert_int_equal(
        gemm_workspace(cuda, &contract, M, N, K, NULL, xa, xb, NULL, output_of(xc), &least, &best),
        LIMBER_STATUS_OK);
    assert_true(least > 0 && least <= best);
    room = gpu_queue(&queue, best);
#define CALL() \
    gemm_batch(cuda, &contract, &queue, NULL, M, N, K, NULL, xa, xb, NULL, output_of(xc), NULL)
    assert_int_equal(driver.cuStreamBeginCapture_v2(queue.stream, 0), 0);
    /* a capture needs kernels that are loaded already */
    assert_refused(CALL(), LIMBER_STATUS_DEVICE, "LIMBER_CAPTURE_READY");
    assert_int_equal(driver.cuStreamEndCapture(queue.stream, &graph), 0);
    driver.cuGraphDestroy(graph);
    if (CALL())
        fail_msg("%s", limber_error_text());
    assert_int_equal(driver.cuStreamBeginCapture_v2(queue.stream, 0), 0);
    if (CALL())
        fail_msg("%s", limber_error_text());
    play = gpu_end_recording(&queue);
    for (size_t i = 0; i < COUNT(data); i++) {
        fill(&r, data[i], f, a, na / f.size);
        fill(&r, data[i], f, b, nb / f.size);
        gpu_upload(ra, a);
        gpu_upload(rb, b);
        memset(got, 0xff, nc);
        gpu_upload(rc, got);
        gpu_run_graph(play, &queue);
        gpu_download(got, rc);
        /* data of another class are multiplied by the fallback plan */
        other.scheme = i < 2 ? contract.scheme : any;
        assert_int_equal(limber_gemm(reference, &other, M, N, K, NULL,
                                     (limber_matrix){ a, f, K, 1 }, (limber_matrix){ b, f, N, 1 },
                                     NULL, (limber_output){ want, f, 1, M }, NULL),
                         LIMBER_STATUS_OK);
        for (size_t e = 0; e < M * N; e++)
            if (!same_number(f, want + e * f.size, got + e * f.size))
                fail_msg("%s, played with %s: element %zu", format, data_name(data[i]), e);
    }
    driver.cuGraphExecDestroy(play);
    driver.cuStreamDestroy_v2(queue.stream);
    gpu_free(ra);
    gpu_free(rb);
    gpu_free(rc);
    gpu_free(room);
    free(a);
    free(b);
    free(want);
    free(got);
}

/* Products are recorded into CUDA graphs and replayed, also on data that the recorded plan does not
 * support, which the fallback plan computes. */
static void calls_are_recorded_into_graphs(void **state)
{
    limber_contract residues = correct;

    (void)state;
    residues.scheme = "ozaki2";
    check_recorded(residues, "f64", NULL);
    check_recorded(correct, "f32", NULL);
    check_recorded(plain, "f32", "native");
}

/* Makes the first call of a context: it loads kernels, which must succeed also while another
 * thread captures a stream. */
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

/* While a stream is being captured, in each of the three modes, another thread and the capturing
 * thread can load and run kernels. */
static void kernels_load_beside_captures(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        void *stream, *graph;
        pthread_t thread;
        bool ok;

        assert_int_equal(driver.cuStreamCreate(&stream, 1), 0);
        assert_int_equal(driver.cuStreamBeginCapture_v2(stream, mode), 0);
        assert_int_equal(pthread_create(&thread, NULL, multiply_first, &ok), 0);
        pthread_join(thread, NULL);
        assert_true(ok);
        multiply_first(&ok); /* the thread that captures can load kernels, too */
        assert_true(ok);
        assert_int_equal(driver.cuStreamEndCapture(stream, &graph), 0);
        driver.cuGraphDestroy(graph);
        driver.cuStreamDestroy_v2(stream);
    }
}

/* Device memory stays mapped between calls, although each call waits for the device. */
static void workspaces_stay_mapped(void **state)
{
    static double a[M * K], b[K * N], c[M * N];
    limber_contract contract = LIMBER_CONTRACT_INIT;
    long maps = 0;

    (void)state;
    if (!driver.simt_maps)
        skip_because("only the stand-in counts mappings");
    contract.promise = LIMBER_CONTRACT_CORRECT;
    for (int i = 0; i < M * K; i++)
        a[i] = i % 7 + 0.1;
    for (int i = 0; i < K * N; i++)
        b[i] = i % 5 - 0.3;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(gemm_batch(cuda, &contract, NULL, NULL, M, N, K, NULL,
                                    (limber_matrix){ a, LIMBER_F64, K, 1 },
                                    (limber_matrix){ b, LIMBER_F64, N, 1 }, NULL,
                                    (limber_output){ c, LIMBER_F64, N, 1 }, NULL),
                         LIMBER_STATUS_OK);
        if (i == 1)
            maps = driver.simt_maps();
    }
    assert_true(maps > 0);
    assert_int_equal(driver.simt_maps(), maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_may_lie_on_the_device),
        cmocka_unit_test(prepared_operands_have_the_same_bits),
        cmocka_unit_test(slices_are_estimated_on_the_device),
        cmocka_unit_test(streams_and_workspaces_are_the_callers),
        cmocka_unit_test(calls_are_recorded_into_graphs),
        cmocka_unit_test(workspaces_stay_mapped),
        cmocka_unit_test(kernels_load_beside_captures),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
