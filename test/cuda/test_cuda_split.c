/* SPDX-License-Identifier: BSD-3-Clause
 * Limbs that the multiply kernel makes itself have the bits of limbs that are made ahead, and of
 * the interpreter, for every layout of operands.  Runs on a GPU if LIMBER_TEST_GPU is set, else on
 * the harness that runs kernels on the CPU (SIMT_CC names the compute capability). */
#include "contexts.h"
#include "gpus.h"
#include "plans.h"
#include "support.h"

#include "backends/backend.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct backend limber_backend_cuda;

static struct target target;

static int open_device(void **state)
{
    struct diag d = { 0 };

    return gpu_open(state) || !limber_backend_cuda.probe(&target, &d) ? -1 : 0;
}

/* ---- one plan on both backends --------------------------------------------------------------- */

/* Layouts of an operand.  ALONG: elements of a line (row of A or column of B) are contiguous;
 * ACROSS: neighbouring elements of different lines are; BOTH_STRIDED: neither.  odd: the leading
 * dimension is no multiple of 16 bytes; moved: the operand's address is no multiple of 16 bytes. */
enum lies { ALONG, ALONG_odd, ALONG_moved, ACROSS, ACROSS_odd, BOTH_STRIDED };

/* An operand, with what a scan finds of it. */
struct operand {
    float *data;
    struct view view;
    struct mask mask;
};

/* Makes a random operand with the layout `lies`. */
static void make_operand(struct operand *o, enum lies lies, enum data data, int64_t lines,
                         int64_t k, struct rng *r)
{
    int64_t along = (k + 3) / 4 * 4 + 4, across = (lines + 3) / 4 * 4;
    int64_t line = lies == ALONG || lies == ALONG_moved ? along :
                   lies == ALONG_odd                    ? along + 1 :
                   lies == BOTH_STRIDED                 ? 2 * along + 1 :
                                                          1;
    int64_t p = lies == ACROSS       ? across :
                lies == ACROSS_odd   ? across + 3 :
                lies == BOTH_STRIDED ? 2 :
                                       1;
    size_t count = (size_t)(2 * (lines + 4) * (k + 12));
    struct diag d = { 0 };

    *o = (struct operand){ .data = malloc(count * 4) };
    fill(r, data, named("f32"), o->data, count);
    /* lines alternate between large and tiny magnitudes */
    for (int64_t i = 0; data == DATA_range && i < lines; i++)
        for (int64_t x = 0; x < k; x++)
            o->data[i * line + x * p] = (float)(x + 1) * (i % 2 ? 0x1p-140f : 0x1p100f);
    o->view = (struct view){ o->data + (lies == ALONG_moved), line, p, NULL };
    assert_true(limber_scan(&o->mask, &o->view, named("f32"), lines, k, SCAN_full, NULL, &d));
}

/* A product to compute on the GPU and by the interpreter. */
struct trial {
    const char *scheme;
    enum data data;
    int64_t m, n, k;
    enum lies a, b;
    bool scalars;
    limber_split split;
    bool half; /* C is FP16, and a separate kernel stores it */
};

/* Returns the index of the first element of C that differs, -1 if none does. d: an error if the GPU
 * refuses. */
static int64_t find_difference(const struct trial *x, struct diag *d)
{
    const float alpha = 1.5f, beta = -3;
    struct rng r = { 900 + (uint64_t)(x->m + x->k) };
    limber_format fc = named(x->half ? "f16" : "f32");
    size_t bytes = (size_t)(x->m * x->n) * fc.size;
    char *want = malloc(bytes), *got = malloc(bytes);
    struct operand a, b;
    int64_t differs = -1;
    struct call call;
    struct plan p;

    make_operand(&a, x->a, x->data, x->m, x->k, &r);
    make_operand(&b, x->b, x->data, x->n, x->k, &r);
    build_plan(&p, &(struct planned){ LIMBER_CONTRACT_FAST, x->scheme, named("f32"), fc, &a.mask,
                                      &b.mask, 10, x->scalars });
    p.split = x->split;
    call = (struct call){ .m = x->m,
                          .n = x->n,
                          .k = x->k,
                          .a = a.view,
                          .b = b.view,
                          .c = { want, x->n, 1, x->n, 0 },
                          .mask_a = &a.mask,
                          .mask_b = &b.mask,
                          .workspace_limit = x->half ? 1 : 1 << 22,
                          .alpha = x->scalars ? &alpha : NULL,
                          .beta = x->scalars ? &beta : NULL };
    fill(&r, DATA_unit, fc, want, (size_t)(x->m * x->n));
    memcpy(got, want, bytes);
    if (!limber_passes_run(&p, &target, NULL, (struct pass_watch){ 0 }, d) ||
        !plan_launch(&limber_backend_interp, &p, &target, &call, d))
        fail_msg("%s: %s", x->scheme, d->text);
    assert_int_equal(limber_attr_number(limber_plan_find(&p, OP_products), ATTR_split) ==
                         SPLIT_inside,
                     x->split == LIMBER_SPLIT_INSIDE);
    call.c.data = got;
    if (plan_launch(&limber_backend_cuda, &p, &target, &call, d)) {
        if (x->split == LIMBER_SPLIT_INSIDE && !x->half)
            assert_int_equal(call.out.workspace, 0);
        for (int64_t i = x->m * x->n; i-- > 0;)
            if (!same_number(fc, want + i * fc.size, got + i * fc.size))
                differs = i;
    }
    limber_plan_clear(&p);
    limber_mask_clear(&a.mask);
    limber_mask_clear(&b.mask);
    free(a.data);
    free(b.data);
    free(want);
    free(got);
    return differs;
}

static void check_split(struct trial x)
{
    struct diag d = { 0 };
    int64_t differs = find_difference(&x, &d);

    if (d.status || differs >= 0)
        fail_msg("%s, %s, %dx%dx%d, lying %d and %d: element %d differs %s", x.scheme,
                 data_name(x.data), (int)x.m, (int)x.n, (int)x.k, x.a, x.b, (int)differs, d.text);
}

#define IN LIMBER_SPLIT_INSIDE

/* Each FP32 scheme that splits numbers, inside the product kernel or in a kernel before it, has
 * the interpreter's bits. */
static void every_scheme_has_the_interpreters_bits(void **state)
{
    (void)state;
    check_split(
        (struct trial){ "fp32-f", DATA_unit, 21, 35, 150, ALONG, ACROSS, false, IN, false });
    check_split((struct trial){ "fp32-m", DATA_bytes, 9, 14, 300, ALONG, ALONG, true, IN, false });
    check_split(
        (struct trial){ "fp32-t", DATA_unit, 21, 35, 150, ACROSS, ALONG, false, IN, false });
    check_split((struct trial){ "fp32-b", DATA_unit, 21, 35, 150, ALONG, ACROSS, true, IN, false });
    check_split(
        (struct trial){ "fp32-b9", DATA_unit, 9, 35, 37, ACROSS, ACROSS, false, IN, false });
    check_split((struct trial){ "fp32-f", DATA_unit, 21, 35, 150, ALONG, ACROSS, true,
                                LIMBER_SPLIT_AHEAD, false });
}

/* Schemes that split inside the product kernel have the interpreter's bits on operands that are
 * contiguous along or across lines, strided, unaligned or very small. */
static void operands_may_have_any_layout(void **state)
{
    (void)state;
    check_split(
        (struct trial){ "fp32-f", DATA_unit, 130, 9, 64, ACROSS, ALONG_odd, true, IN, false });
    check_split((struct trial){ "fp32-f", DATA_unit, 9, 140, 97, ALONG_moved, ACROSS_odd, false, IN,
                                false });
    check_split((struct trial){ "fp32-t", DATA_unit, 33, 20, 70, BOTH_STRIDED, BOTH_STRIDED, false,
                                IN, false });
    check_split((struct trial){ "fp32-b", DATA_unit, 1, 1, 1, ALONG, ACROSS, false, IN, false });
    check_split(
        (struct trial){ "fp32-f", DATA_unit, 140, 150, 40, ALONG, ACROSS, false, IN, true });
}

/* Lines whose scale is beyond binary32, lines of zeros, and lines with NaN and infinities have
 * the interpreter's bits. */
static void unusual_lines_are_scaled(void **state)
{
    (void)state;
    check_split((struct trial){ "fp32-f", DATA_range, 9, 7, 40, ALONG, ACROSS, false, IN, false });
    check_split((struct trial){ "fp32-b", DATA_range, 9, 7, 40, ACROSS, ALONG, true, IN, false });
    check_split(
        (struct trial){ "fp32-b", DATA_special, 20, 30, 40, ALONG, ACROSS, true, IN, false });
}

/* ---- whole calls that split inside the product ----------------------------------------------- */

enum { M = 40, N = 30, K = 70, MANY = 2 };

static struct gpu_buffer upload(enum data data, size_t count, struct rng *r)
{
    float *host = malloc(count * 4);
    struct gpu_buffer x;

    fill(r, data, named("f32"), host, count);
    x = gpu_upload_new(host, count * 4);
    free(host);
    return x;
}

/* Multiplies on the device: complex matrices, which the kernel reads in place, or a batch of
 * real ones.  *best: bytes of the workspace that the library recommends. */
static void run_call(limber_split split, bool complex, float *to, size_t *best)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_FAST,
                                       .scheme = "fp32-f",
                                       .split = split };
    const limber_batch batch = {
        .size = sizeof(limber_batch), .count = MANY, .a = M * K, .b = K * N, .c = M * N
    };
    limber_format f = named("f32");
    struct rng r = { 12 };
    struct gpu_buffer a = upload(DATA_unit, MANY * M * K, &r),
                      b = upload(DATA_unit, MANY * K * N, &r);
    struct gpu_buffer c = upload(DATA_unit, MANY * M * N, &r);
    limber_matrix xa = { (void *)a.at, f, K, 1 }, xb = { (void *)b.at, f, N, 1 },
                  xc = { (void *)c.at, f, N, 1 };
    size_t least;
    limber_status s;

    if (complex)
        s = gemm_complex(cuda, &contract, NULL, M, N, K, NULL, xa, 0, xb, 1, NULL, output_of(xc),
                         NULL, 4);
    else
        s = gemm_batch(cuda, &contract, NULL, &batch, M, N, K, NULL, xa, xb, NULL, output_of(xc),
                       NULL);
    if (s ||
        gemm_workspace(cuda, &contract, M, N, K, NULL, xa, xb, NULL, output_of(xc), &least, best))
        fail_msg("%s", limber_error_text());
    gpu_download(to, c);
    gpu_free(a);
    gpu_free(b);
    gpu_free(c);
}

/* Splitting inside the product kernel or ahead of it gives the same bits.  Inside needs less
 * workspace, by at least 4 bytes for each element of A and B. */
static void calls_have_the_same_bits(void **state)
{
    static float ahead[MANY * M * N], inside[MANY * M * N];
    size_t best_ahead, best_inside;

    (void)state;
    for (int complex = 0; complex < 2; complex++) {
        memset(ahead, 0, sizeof ahead);
        memset(inside, 1, sizeof inside);
        run_call(LIMBER_SPLIT_AHEAD, complex, ahead, &best_ahead);
        run_call(LIMBER_SPLIT_INSIDE, complex, inside, &best_inside);
        assert_memory_equal(ahead, inside, sizeof ahead);
        assert_true(best_inside + (M + N) * K * 4 <= best_ahead);
    }
}

/* A scheme that cannot split its operands inside the product kernel refuses split = inside with
 * status NO_SCHEME. */
static void what_cannot_be_split_inside_is_refused(void **state)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_FAST,
                                       .scheme = "ozaki1-f16",
                                       .slices = 2,
                                       .split = LIMBER_SPLIT_INSIDE };
    limber_format f = named("f32");
    float a = 1, c = 0;

    (void)state;
    assert_refused(limber_gemm(cuda, &contract, 1, 1, 1, NULL, (limber_matrix){ &a, f, 1, 1 },
                               (limber_matrix){ &a, f, 1, 1 }, NULL, (limber_output){ &c, f, 1, 1 },
                               NULL),
                   LIMBER_STATUS_NO_SCHEME, "split=inside");
}

/* ---- planted faults must be found ------------------------------------------------------------ */

static const struct gpu_fault faults[] = {
    { 80, "no barrier between cutting and multiplying",
      "        sync_warp_or_block<of_warp>();\\n=>" },
    { 80, "limbs multiplied before they are cut",
      "with((uint32_t)((s - 1) % 2 * STAGE), s - 1);=>"
      "with((uint32_t)(s % 2 * STAGE), s - 1);" },
    { 80, "an edge off by one", "int64_t left = row < rows ?=>int64_t left = row <= rows ?" },
    { 90, "no barrier between cutting and multiplying",
      "            barrier_wait((uint32_t)(FULL + 8 * r.stage), r.parity);\\n            "
      "group_fence=>"
      "            group_fence" },
    { 90, "no fence between cutting and multiplying",
      "            fence_async();\\n            sync_warp=>            sync_warp" },
    { 90, "no order among the lanes that cut",
      "            sync_warp();\\n            if (lane() == 0)\\n                "
      "barrier_arrive((uint32_t)(FULL=>"
      "            if (lane() == 31)\\n                barrier_arrive((uint32_t)(FULL" },
    { 90, "elements read before they are there", "        sync_warp_or_block<of_warp>();\\n=>" },
    { 90, "limbs cut over those being multiplied",
      "        if (x % SQUARES == 0)\\n=>        if (x < 0)\\n" },
    { 100, "no barrier between cutting and multiplying",
      "        barrier_wait((uint32_t)(FULL + 8 * r.stage), r.parity);\\n        columns=>        "
      "columns" },
    { 100, "no fence between cutting and multiplying",
      "            fence_async();\\n            sync_warp=>            sync_warp" },
    { 100, "no order among the lanes that cut",
      "            sync_warp();\\n            if (lane() == 0)\\n                "
      "barrier_arrive((uint32_t)(FULL=>"
      "            if (lane() == 31)\\n                barrier_arrive((uint32_t)(FULL" },
    { 100, "limbs cut over those being multiplied",
      "        if (x % SQUARES == 0)\\n=>        if (x < 0)\\n" },
    { 100, "the first accumulator's sums in the place of another's",
      "acc ? PLACES - 1 + acc : place=>acc ? PLACES - 2 + acc : place" },
};

/* Multiplies by kernels with the planted fault.  Returns 1 if the result is right, 0 if it is wrong
 * or the call fails, 3 if NVRTC refuses the kernels. */
static int run_faulty(void *unused)
{
    const struct trial x = { "fp32-f", DATA_unit, 130, 70, 330, ALONG, ACROSS, false, IN, false };
    struct diag d = { 0 };
    int64_t differs = find_difference(&x, &d);

    (void)unused;
    if (d.status)
        return strstr(d.text, "NVRTC") ? 3 : 0;
    return differs < 0;
}

static void planted_faults_are_found(void **state)
{
    (void)state;
    gpu_faults_are_found(faults, COUNT(faults), run_faulty, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_has_the_interpreters_bits),
        cmocka_unit_test(operands_may_have_any_layout),
        cmocka_unit_test(unusual_lines_are_scaled),
        cmocka_unit_test(calls_have_the_same_bits),
        cmocka_unit_test(what_cannot_be_split_inside_is_refused),
        cmocka_unit_test(planted_faults_are_found),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, open_device, gpu_close);
}
