/* SPDX-License-Identifier: BSD-3-Clause
 * Launches of products in device memory: their number, and which of them may begin before the
 * previous one has ended.  Also scans whose blocks share lines, without an extra launch that
 * initialises memory.  Runs on a GPU if LIMBER_TEST_GPU is set, else on the harness that runs
 * kernels on the CPU. */
#include "gpus.h"
#include "support.h"

#include "ir/ir.h"
#include "jit/device.h"
#include "jit/scan/scan.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- scans by the device --------------------------------------------------------------------- */

/* Shapes of operands.  Some are so large that several blocks scan different parts of the same
 * lines. across: elements of a line are strided, not contiguous. */
static const struct shape {
    int64_t lines, length;
    bool across;
} shapes[] = {
    { 100, 300, false }, { 33, 70, true },   { 31, 200, false },
    { 129, 64, true },   { 300, 17, false },
};

static struct view view_of(const struct shape *s, const void *data)
{
    return (struct view){ data, s->across ? 1 : s->length, s->across ? s->lines : 1, NULL };
}

/* True if two scans have the same results: for the matrix, for each line and, if both have
 * tiles, for each tile. */
static bool same_masks(const struct mask *x, const struct mask *y)
{
    int64_t tiles = x->tile_rows * x->tile_cols;

    if (x->emin != y->emin || x->emax != y->emax || x->width != y->width || x->sig != y->sig ||
        x->spread != y->spread || x->special != y->special || x->negative != y->negative ||
        x->zero != y->zero ||
        memcmp(x->line_emax, y->line_emax, (size_t)x->lines * sizeof *x->line_emax))
        return false;
    for (int64_t i = 0; x->tile && y->tile && i < tiles; i++) {
        const struct tile_mask *a = &x->tile[i], *b = &y->tile[i];

        if (a->emin != b->emin || a->emax != b->emax || a->low != b->low || a->sig != b->sig ||
            a->flags != b->flags)
            return false;
    }
    return true;
}

/* Scans matrix `i` on the host and on the device.  Returns 1 if the results agree, 0 if not, and
 * 2 if the device cannot scan. */
static int check_scan(limber_context *ctx, int i, bool with_tiles)
{
    static const enum data data[] = { DATA_unit, DATA_tiny, DATA_special, DATA_ints, DATA_range };
    const struct shape *s = &shapes[i % (int)COUNT(shapes)];
    size_t bytes = (size_t)(s->lines * s->length) * sizeof(double);
    double *x = malloc(bytes);
    struct mask host = { 0 }, device = { 0 };
    struct diag d = { 0 };
    struct rng r = { 90 + (uint64_t)i };
    struct gpu_buffer there;
    struct view v = view_of(s, x);
    int right;

    fill(&r, data[i % (int)COUNT(data)], LIMBER_F64, x, bytes / sizeof *x);
    for (size_t p = 0; data[i % (int)COUNT(data)] == DATA_tiny && p < bytes / sizeof *x; p++)
        x[p] = ldexp(x[p], -40); /* some of the numbers become subnormal */
    there = gpu_upload_new(x, bytes);
    assert_true(limber_scan(&host, &v, LIMBER_F64, s->lines, s->length, SCAN_full, NULL, &d));
    v.data = (const void *)there.at;
    right = limber_device_scan(ctx, &device, &v, LIMBER_F64, s->lines, s->length, NULL, &d) ?
                same_masks(&device, &host) && (!with_tiles || device.tile) :
                2;
    gpu_free(there);
    limber_mask_clear(&host);
    limber_mask_clear(&device);
    free(x);
    return right;
}

static void scans_find_the_same_again_and_again(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * (int)COUNT(shapes); i++)
        assert_int_equal(check_scan(cuda, i, true), 1);
}

/* If a scan fails for lack of memory before its launch, the next scan is still right. */
static void scans_that_fail_leave_nothing(void **state)
{
    const struct shape s = { INT64_C(1) << 27, 0, false };
    const struct view v = view_of(&s, NULL);
    struct mask m = { 0 };
    struct diag d = { 0 };

    (void)state;
    if (!driver.simt_launches)
        skip_because("a real device may have enough memory");
    assert_int_equal(check_scan(cuda, 0, true), 1);
    assert_false(limber_device_scan(cuda, &m, &v, LIMBER_F64, s.lines, s.length, NULL, &d));
    assert_int_equal(d.status, LIMBER_STATUS_NO_MEMORY);
    limber_mask_clear(&m);
    assert_int_equal(check_scan(cuda, 0, true), 1);
}

/* Scans repeatedly on the thread's own stream, which has its own counters.  *wrong: failures. */
static void *scan_often(void *wrong)
{
    void *context;

    if (driver.cuDevicePrimaryCtxRetain(&context, 0) || driver.cuCtxSetCurrent(context))
        *(int *)wrong = 1;
    for (int i = 0; i < 6; i++)
        *(int *)wrong += check_scan(cuda, i, true) != 1;
    return NULL;
}

/* Three threads scan operands at the same time: each must find the right results. */
static void threads_scan_at_once(void **state)
{
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    int wrong[THREADS] = { 0 };

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, scan_often, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(wrong[i], 0);
    }
}

/* Scans in a new context, so that kernels are compiled with the planted fault.  Returns 1 if all
 * results are right, 0 if one is wrong or a scan kernel fails, 2 if there is no context, 3 if no
 * scan kernel ran. */
static int scans_are_right(void *unused)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_context *own;
    int right = 1;

    (void)unused;
    if (limber_create(&own, &config))
        return 2;
    for (int i = 0; right == 1 && i < (int)COUNT(shapes); i++)
        right = check_scan(own, i, true);
    limber_destroy(own);
    return right == 2 ? strstr(driver.simt_error(), "limber_scan") == NULL ? 3 : 0 : right;
}

/* Faults planted in the scan kernel (its counters, tiles and special values) must change the
 * results or stop the kernel. */
static void faults_of_scans_are_found(void **state)
{
    static const struct gpu_fault faults[] = {
        { 0, "a counter that passes nothing on",
          "atom.acq_rel.gpu.global.add=>atom.relaxed.gpu.global.add" },
        { 0, "the first block joins", "(0) == count - 1=>(0) == 0" },
        { 0, "the last but one joins", "(0) == count - 1=>(0) == count - 2" },
        { 0, "a counter that stays", "            store<int32_t>(counter, 0);=>            ;" },
        { 0, "a counter before all have written",
          "DEVICE bool is_last(int32_t *counter, int count)\\n{\\n    sync_block();=>"
          "DEVICE bool is_last(int32_t *counter, int count)\\n{" },
        { 0, "another group's counter", "args.counters + which * groups + group=>args.counters" },
        { 0, "one part is left out",
          "p < args.blocks_p; p += lanes=>p + 1 < args.blocks_p; p += lanes" },
        { 0, "half a tile",
          "b < first + count; b++)\\n            combine=>b < first + 1; b++)\\n"
          "            combine" },
        { 0, "subnormals a binade too low",
          "int unit = (exponent ? exponent : 1)=>int unit = exponent" },
        { 0, "subnormals as normal",
          "exponent ? exponent - f.bias : unit=>1 ? exponent - f.bias : unit" },
        { 0, "infinities as numbers",
          "    if (exponent == most) {\\n        s.flags=>    if (false) {\\n        s.flags" },
        { 0, "a tile that not all have seen",
          "            see_tile(here);\\n        sync_block();"
          "=>            see_tile(here);" },
    };

    (void)state;
    gpu_faults_are_found(faults, COUNT(faults), scans_are_right, NULL);
}

/* ---- launches of products -------------------------------------------------------------------- */

enum { M = 140, N = 60, K = 70 };

static limber_status multiply_m_n_k(limber_context *ctx, const limber_contract *c, const double *a,
                                    const double *b, double *to)
{
    return limber_gemm(ctx, c, M, N, K, NULL, (limber_matrix){ a, LIMBER_F64, K, 1 },
                       (limber_matrix){ b, LIMBER_F64, N, 1 }, NULL,
                       (limber_output){ to, LIMBER_F64, N, 1 }, NULL);
}

/* Counts of the simulated driver: launches, launches that may begin early, and copies. */
struct counted {
    long launches, early, copies;
};

static struct counted read_counters(void)
{
    return driver.simt_launches ? (struct counted){ driver.simt_launches(), driver.simt_early(),
                                                    driver.simt_copies() } :
                                  (struct counted){ 0 };
}

/* Multiplies on the device.  Returns 1 if C is right, 0 if it is wrong, -1 if the call fails.  *n:
 * launches and copies of the call. */
static int check_product(limber_context *ctx, const char *scheme, struct counted *n)
{
    limber_contract c = correct;
    struct rng r = { 3 };
    double *a = malloc(sizeof(double) * M * K), *b = malloc(sizeof(double) * K * N);
    double *want = malloc(sizeof(double) * M * N), *got = malloc(sizeof(double) * M * N);
    struct gpu_buffer at, bt, ct;
    struct counted before;
    int right = -1;

    c.scheme = scheme;
    fill(&r, DATA_unit, LIMBER_F64, a, M * K);
    fill(&r, DATA_unit, LIMBER_F64, b, K * N);
    assert_int_equal(multiply_m_n_k(reference, &correct, a, b, want), LIMBER_STATUS_OK);
    at = gpu_upload_new(a, sizeof(double) * M * K);
    bt = gpu_upload_new(b, sizeof(double) * K * N);
    ct = gpu_allocate(sizeof(double) * M * N);
    before = read_counters();
    if (!multiply_m_n_k(ctx, &c, (double *)at.at, (double *)bt.at, (double *)ct.at)) {
        *n = read_counters();
        n->launches -= before.launches;
        n->early -= before.early;
        n->copies -= before.copies;
        gpu_download(got, ct);
        right = memcmp(got, want, sizeof(double) * M * N) == 0;
    }
    gpu_free(at);
    gpu_free(bt);
    gpu_free(ct);
    free(a);
    free(b);
    free(want);
    free(got);
    return right;
}

/* Returns whether the library uses launches that may begin before the previous one has ended.
 * Drivers before 12.3 cannot record such launches into graphs. */
static bool launches_begin_early(void)
{
    int version = 0;

    return gpu_capability() >= 90 && driver.cuDriverGetVersion(&version) == 0 && version >= 12030;
}

/* A product takes four launches (scan, limbs, products, C) and two copies (the scan's results to
 * the host, initial exponents to the device). */
static void products_are_few_launches(void **state)
{
    static const char *const schemes[] = { NULL, "ozaki1-i8" };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct counted n;
        int right = check_product(cuda, schemes[i % 2], &n);

        if (right < 0 && gpu_lacks(limber_error_text()))
            continue;
        assert_int_equal(right, 1);
        if (!driver.simt_launches)
            continue;
        assert_int_equal(n.launches, 4);
        assert_int_equal(n.early, launches_begin_early() ? 2 : 0);
        assert_int_equal(n.copies, 2);
    }
}

/* Returns 1 if a product is right, 0 if not, 2 if there is no context, 3 if NVRTC refuses the
 * kernels. */
static int product_is_right(void *unused)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_context *own;
    struct counted n;
    int right;

    (void)unused;
    if (limber_create(&own, &config))
        return 2;
    right = check_product(own, NULL, &n);
    limber_destroy(own);
    return right < 0 && strstr(limber_error_text(), "NVRTC") ? 3 : right > 0;
}

/* Kernels that begin before the previous launch has ended must wait for its results.  Each
 * planted fault removes or moves the wait, which must change the result or be reported. */
static void faults_of_early_launches_are_found(void **state)
{
#define LEFT "    if (is_left(args.r.choice, args.r.mine))\\n        return;\\n"
#define MULTIPLY "    await_launch();\\n    let_next_begin();\\n" LEFT
#define GROUPS "    sync_cluster();"
#define TENSOR "    if (warp() == 4)"
#define C "    await_launch();\\n\\n    uint32_t across=>    uint32_t across"
#define TASKS \
    "    ROLL for (int index = block(); index < args.tasks; index += blocks()) {\\n" \
    "        struct task t = task_at(args, index);\\n\\n        if constexpr (TOTALS)\\n" \
    "            totals_task<sum_type>"
    static const struct gpu_fault faults[] = {
        { 90, "products before there are limbs", MULTIPLY GROUPS "=>" LEFT GROUPS },
        { 90, "one thread awaits them for all",
          MULTIPLY GROUPS "=>    if (thread() == 0) await_launch();\\n" LEFT GROUPS },
        { 90, "C before there are products", C },
        { 100, "products before there are limbs", MULTIPLY TENSOR "=>" LEFT TENSOR },
        { 100, "C before there are products", C },
        { 120, "products before there are limbs", MULTIPLY TASKS "=>" LEFT TASKS },
        { 120, "C before there are products", C },
    };

    (void)state;
    if (!launches_begin_early())
        skip_because("launches do not begin early on this device");
    gpu_faults_are_found(faults, COUNT(faults), product_is_right, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scans_find_the_same_again_and_again),
        cmocka_unit_test(scans_that_fail_leave_nothing),
        cmocka_unit_test(threads_scan_at_once),
        cmocka_unit_test(products_are_few_launches),
        cmocka_unit_test(faults_of_scans_are_found),
        cmocka_unit_test(faults_of_early_launches_are_found),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
