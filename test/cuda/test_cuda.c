/* SPDX-License-Identifier: BSD-3-Clause
 * Compares products of the CUDA backend with the interpreter's, bit for bit: on a GPU if
 * LIMBER_TEST_GPU is set, else on the harness that runs kernels on the CPU (SIMT_CC names the
 * compute capability). */
#include "contexts.h"
#include "gpus.h"
#include "plans.h"
#include "support.h"

#include "backends/backend.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int open_contexts(void **state)
{
    if (!getenv("LIMBER_TEST_GPU"))
        setenv("LIMBER_CUBLAS", SIMT_CUBLAS, 1);
    return gpu_open(state);
}

/* ---- one product on both backends ------------------------------------------------------------ */

/* A product to compute on the device and by the interpreter. */
struct trial {
    const char *scheme; /* NULL: the library chooses */
    limber_contract contract;
    const char *fa, *fb, *fc;
    enum data data;
    int64_t m, n, k;
    bool transpose_a, transpose_b, transpose_c; /* true: the matrix is column-major */
    double alpha, beta; /* alpha = 1 and beta = 0 are not passed */
};

static limber_matrix matrix_of(void *data, limber_format f, int64_t rows, int64_t cols,
                               bool transposed, int64_t gap)
{
    return transposed ? (limber_matrix){ data, f, 1, rows + gap } :
                        (limber_matrix){ data, f, cols + gap, 1 };
}

/* Writes a scalar in C's format, or as i64 if C's elements are integers. */
static void set_scalar(char to[16], limber_format c, double v)
{
    limber_format f64 = named("f64"), f = c;

    if (c.kind == LIMBER_KIND_INT)
        f = named("i64");
    assert_int_equal(limber_convert(to, f, &v, f64, 1, LIMBER_ROUND_NEAREST), LIMBER_STATUS_OK);
}

/* Computes a product on both backends and compares the bits. */
static void compare_product(const struct trial *p, uint64_t seed)
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
    set_scalar(alpha, fc, p->alpha);
    set_scalar(beta, fc, p->beta);
#define RUN(ctx, to) \
    limber_gemm(ctx, &contract, p->m, p->n, p->k, p->alpha == 1 ? NULL : alpha, \
                matrix_of(a, fa, p->m, p->k, p->transpose_a, gap), \
                matrix_of(b, fb, p->k, p->n, p->transpose_b, gap), p->beta == 0 ? NULL : beta, \
                output_of(matrix_of(to, fc, p->m, p->n, p->transpose_c, gap)), &report)
    if (p->scheme && strcmp(p->scheme, "cublas") == 0)
        contract.scheme = "native";
    s = RUN(reference, want);
    contract.scheme = p->scheme;
    t = RUN(cuda, got);
    if (t == LIMBER_STATUS_NO_SCHEME && gpu_lacks(limber_error_text()))
        goto done;
    if (s != t)
        fail_msg("%s %s: interp says %s, cuda %s: %s", p->scheme ? p->scheme : "any", p->fa,
                 limber_status_name(s), limber_status_name(t), limber_error_text());
    if (s == LIMBER_STATUS_OK && p->m > 0)
        assert_string_equal(report.backend, "cuda");
    for (size_t i = 0; i < nc; i++)
        if (!same_number(fc, want + i * fc.size, got + i * fc.size))
            fail_msg("%s of %s, %s, %dx%dx%d, seed %d: element %zu of %zu differs",
                     p->scheme ? p->scheme : report.scheme, p->fa, data_name(p->data), (int)p->m,
                     (int)p->n, (int)p->k, (int)seed, i, nc);
done:
    free(a);
    free(b);
    free(want);
    free(got);
}

/* ---- each scheme against the interpreter ----------------------------------------------------- */

/* Scheme native in four combinations of formats, data and layouts: every result has the
 * interpreter's bits. */
static void native_has_the_bits_of_fused_multiply_adds(void **state)
{
    (void)state;
    compare_product(&(struct trial){ "native", native, "f32", "f32", "f32", DATA_unit, 37, 51, 300,
                                     .alpha = 1 },
                    1);
    compare_product(&(struct trial){ "native", native, "f64", "f64", "f64", DATA_range, 130, 70,
                                     290, .alpha = 1, .transpose_a = true },
                    2);
    compare_product(&(struct trial){ "native", native, "f32", "f32", "f32", DATA_special, 20, 30,
                                     40, .alpha = 1.5, .beta = -2, .transpose_c = true },
                    3);
    compare_product(&(struct trial){ "native", native, "f16", "bf16", "f16", DATA_unit, 20, 30, 40,
                                     .alpha = 2, .transpose_b = true },
                    4);
}

/* `reproducible` sums have the interpreter's bits.  The interpreter's order of additions is
 * checked by test/jit/test_order.c. */
static void reproducible_sums_have_one_order(void **state)
{
    static const char *const formats[][3] = { { "f64", "f64", "f64" },
                                              { "f32", "f32", "f32" },
                                              { "f16", "f16", "f32" },
                                              { "bf16", "bf16", "bf16" },
                                              { "f64", "f32", "f32" } };
    static const enum data data[] = { DATA_unit, DATA_tiny, DATA_special, DATA_bytes, DATA_range };
    static const int64_t ks[] = { 0, 255, 256, 257, 600 };

    (void)state;
    for (int i = 0; i < 25; i++)
        compare_product(&(struct trial){ NULL, reproducible, formats[i % 5][0], formats[i % 5][1],
                                         formats[i % 5][2], data[i / 5], 1 + 17 * (i % 3),
                                         70 - 9 * (i % 7), ks[(i + i / 5) % 5], i & 1, i & 2, i & 4,
                                         i % 3 ? 1 : 1.5, i % 4 ? 0 : -2 },
                        i);
    compare_product(&(struct trial){ NULL, reproducible, "f32", "f32", "f32", DATA_spread, 190, 260,
                                     700, .alpha = 1 },
                    3);
}

/* Scheme ozaki2 (residues modulo 8-bit numbers) on data with ties, special values, subnormals and
 * large ranges: every result has the interpreter's bits. */
static void residues_have_the_bits_of_the_exact_integer(void **state)
{
    (void)state;
    compare_product(&(struct trial){ "ozaki2", correct, "f64", "f64", "f64", DATA_unit, 131, 67,
                                     200, .alpha = 1 },
                    5);
    compare_product(&(struct trial){ "ozaki2", correct, "f64", "f64", "f64", DATA_ties, 33, 40, 65,
                                     .alpha = 3, .beta = 0.5, .transpose_c = true,
                                     .transpose_a = true },
                    6);
    compare_product(&(struct trial){ "ozaki2", correct, "f128", "f128", "f128", DATA_spread, 9, 45,
                                     50, .alpha = 1 },
                    7);
    compare_product(&(struct trial){ "ozaki2", correct, "dd", "dd", "dd", DATA_unit, 9, 35, 50,
                                     .alpha = 1, .transpose_c = true },
                    8);
    compare_product(&(struct trial){ "ozaki2", correct, "f64", "f64", "f64", DATA_special, 20, 20,
                                     30, .alpha = 1 },
                    9);
    compare_product(&(struct trial){ "ozaki2", correct, "f32", "f32", "f32", DATA_tiny, 20, 20, 30,
                                     .alpha = 1 },
                    10);
    compare_product(&(struct trial){ "ozaki2", correct, "f32", "f32", "f64", DATA_tiny, 20, 20, 30,
                                     .alpha = 1 },
                    10);
    compare_product(&(struct trial){ "ozaki2", correct, "f16", "f16", "f32", DATA_tiny, 20, 20, 30,
                                     .alpha = 1 },
                    11);
}

/* Results that are rounded in a direction have the interpreter's bits, by each kind of sum. */
static void rounded_results_have_the_same_bits(void **state)
{
    static const char *const schemes[] = { NULL, "ozaki2", "ozaki1-i8", "accumulator" };
    limber_contract up = correct, down = correct;

    (void)state;
    up.rounding = LIMBER_ROUND_UP;
    down.rounding = LIMBER_ROUND_DOWN;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        compare_product(&(struct trial){ schemes[i], up, "f64", "f64", "f64", DATA_unit, 33, 40, 70,
                                         .alpha = 1 },
                        30);
        compare_product(&(struct trial){ schemes[i], down, "f64", "f64", "f64", DATA_ties, 20, 33,
                                         30, .alpha = 3, .beta = 0.5, .transpose_c = true },
                        31);
    }
    compare_product(
        &(struct trial){ NULL, down, "f64", "f64", "f64", DATA_special, 20, 20, 30, .alpha = 1 },
        32);
    compare_product(
        &(struct trial){ NULL, up, "f32", "f32", "f32", DATA_tiny, 20, 20, 30, .alpha = 1 }, 33);
}

/* Scheme ozaki2-f16 (residues as FP16 numbers) has the interpreter's bits, also where k is so long
 * that FP32 sums are added to longer ones and several are reduced together. */
static void residues_in_halves_have_the_same_bits(void **state)
{
    (void)state;
    compare_product(&(struct trial){ "ozaki2-f16", correct, "f64", "f64", "f64", DATA_unit, 131, 67,
                                     200, .alpha = 1 },
                    5);
    compare_product(&(struct trial){ "ozaki2-f16", correct, "f64", "f64", "f64", DATA_ties, 33, 40,
                                     2100, .alpha = 3, .beta = 0.5, .transpose_c = true,
                                     .transpose_a = true },
                    6);
    compare_product(&(struct trial){ "ozaki2-f16", correct, "f128", "f128", "f128", DATA_spread, 9,
                                     45, 50, .alpha = 1 },
                    7);
    compare_product(&(struct trial){ "ozaki2-f16", correct, "f64", "f64", "f64", DATA_special, 20,
                                     20, 30, .alpha = 1 },
                    9);
}

/* Scheme ozaki2-e4m3 (residues as digits in FP8) on the data of the test of ozaki2: every result
 * has the interpreter's bits. */
static void residues_in_digits_have_the_same_bits(void **state)
{
    static const char *const scheme = "ozaki2-e4m3";

    (void)state;
    compare_product(&(struct trial){ scheme, correct, "f64", "f64", "f64", DATA_unit, 131, 67, 200,
                                     .alpha = 1 },
                    5);
    compare_product(&(struct trial){ scheme, correct, "f64", "f64", "f64", DATA_ties, 33, 40, 1100,
                                     .alpha = 3, .beta = 0.5, .transpose_c = true,
                                     .transpose_a = true },
                    6);
    compare_product(&(struct trial){ scheme, correct, "f128", "f128", "f128", DATA_spread, 9, 45,
                                     50, .alpha = 1 },
                    7);
    compare_product(&(struct trial){ scheme, correct, "dd", "dd", "dd", DATA_unit, 9, 35, 50,
                                     .alpha = 1, .transpose_c = true },
                    8);
    compare_product(&(struct trial){ scheme, correct, "f64", "f64", "f64", DATA_special, 20, 20, 30,
                                     .alpha = 1 },
                    9);
    compare_product(&(struct trial){ scheme, correct, "f64", "f64", "f64", DATA_nothing, 20, 20, 30,
                                     .alpha = 1 },
                    11);
    compare_product(
        &(struct trial){ scheme, correct, "f32", "f32", "f32", DATA_tiny, 20, 20, 30, .alpha = 1 },
        10);
}

/* Computes in a new context, whose kernels are compiled with the planted fault.  Checks sums of
 * many products of the largest residues, all of one sign, with a few small products between them,
 * which are lost if sums are added too late to longer ones.  Elements of A are subnormal.  Lines
 * hold consecutive integers from SIDE on, so that for each modulus some line has the largest
 * residue, whatever the line's scale is.  Returns 1 if C is right or the device lacks the scheme's
 * unit, 0 if not, 2 if there is no context, 3 if NVRTC refuses the kernels. */
static int check_largest_sums(void *scheme)
{
    enum { SIDE = 128, K = 2600, DOWN = -1074, UP = 1000 };
    static double a[SIDE * K], b[SIDE * K], c[SIDE * SIDE];
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_contract contract = correct;
    limber_context *own;
    limber_status s;
    int right = 0;

    for (int p = 0; p < SIDE * K; p++) {
        a[p] = ldexp(p % K % 7 == 5 ? p % 11 + 1 : p / K + SIDE, DOWN);
        b[p] = ldexp(p % K % 7 == 5 ? p % 5 + 1 : p / K + SIDE, UP);
    }
    contract.scheme = scheme;
    if (limber_create(&own, &config))
        return 2;
    s = limber_gemm(own, &contract, SIDE, SIDE, K, NULL, (limber_matrix){ a, named("f64"), K, 1 },
                    (limber_matrix){ b, named("f64"), 1, K }, NULL,
                    (limber_output){ c, named("f64"), SIDE, 1 }, NULL);
    if (s != LIMBER_STATUS_OK)
        right = s == LIMBER_STATUS_NO_SCHEME && gpu_lacks(limber_error_text()) ? SIDE * SIDE :
                strstr(limber_error_text(), "NVRTC")                           ? -1 :
                                                                                 0;
    for (int e = 0; s == LIMBER_STATUS_OK && e < SIDE * SIDE; e++) {
        double sum = 0; /* the sum has 28 bits, so it is exact */

        for (int p = 0; p < K; p++)
            sum += a[e / SIDE * K + p] * b[e % SIDE * K + p];
        right += c[e] == sum;
    }
    limber_destroy(own);
    return right < 0 ? 3 : right == SIDE * SIDE;
}

/* Computes in a new context, whose kernels are compiled with the planted fault.  Checks sums of
 * 65,536 products 2^24 of slices with value -16, and of further odd products, which are lost if
 * more products are summed in FP32.  The numbers have 11 bits: 1520 has the slices 2, -16 and -16,
 * and 1521 the slices 2, -16 and -15.  Returns 1 if C is right, 0 if not, 2 if there is no memory
 * or no context, 3 if NVRTC refuses the kernels. */
static int check_longest_chain(void *scheme)
{
    enum { ROWS = 2, COLS = 3, K = 70000, ODD = 11 };
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    double *a = malloc(ROWS * K * sizeof *a), *b = malloc(COLS * K * sizeof *b), c[ROWS * COLS];
    limber_contract contract = correct;
    limber_context *own;
    int right = 1;

    for (int p = 0; a && b && p < K; p++)
        for (int i = 0; i < COLS; i++) {
            double v = p < K - ODD ? 1520 : 1521;

            b[i * K + p] = v;
            if (i < ROWS)
                a[i * K + p] = i ? -v : v;
        }
    contract.scheme = scheme;
    if (!a || !b || limber_create(&own, &config))
        return 2;
    if (limber_gemm(own, &contract, ROWS, COLS, K, NULL, (limber_matrix){ a, named("f64"), K, 1 },
                    (limber_matrix){ b, named("f64"), 1, K }, NULL,
                    (limber_output){ c, named("f64"), COLS, 1 }, NULL))
        right = strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    for (int e = 0; right == 1 && e < ROWS * COLS; e++)
        right =
            fabs(c[e]) == 1520.0 * 1520 * (K - ODD) + 1521.0 * 1521 * ODD && (c[e] < 0) == e / COLS;
    limber_destroy(own);
    free(a);
    free(b);
    return right;
}

/* Returns whether long tests would add nothing: under a sanitizer, which does not see into kernels,
 * or for the simulated device of capability 12.0, which multiplies as that of 8.0 does. */
static bool is_long_test_useless(void)
{
    return SANITIZED || (gpu_capability() == 120 && !getenv("LIMBER_TEST_GPU"));
}

/* Products of the largest residues must be exact, and each planted fault in their kernels must be
 * detected. */
static void largest_residues_are_summed_exactly(void **state)
{
    static char schemes[][12] = { "ozaki2", "ozaki2-f16", "ozaki2-e4m3", "ozaki1-e4m3" };
    static const struct gpu_fault late[] = {
        { 80, "residues from 0 on", "symmetric ? p / 2 : 0=>0" },
        { 80, "FP16 is promoted late",
          "% CHUNK_STEPS == 0 || s + 1 == steps)) {=>% (2 * CHUNK_STEPS) == 0 || s + 1 == steps)) "
          "{" },
    };
    static const struct gpu_fault bytes[] = {
        { 80, "a stretch read over the one before",
          "        sync_block();\\n        if (line0=>        if (line0" },
        { 80, "stretches that follow", "a.blocks_p * ELEMENTS) {=>2 * a.blocks_p * ELEMENTS) {" },
        { 80, "subnormals a binade too low",
          "int shift = (exponent ? exponent : 1)=>int shift = exponent" },
        { 80, "no first bit",
          "? (uint64_t)1 << f.frac_bits : 0;\\n    m = exponent=>? (uint64_t)0 : 0;\\n    m = "
          "exponent" },
    };
    static const struct gpu_fault digits[] = {
        { 100, "FP8 is promoted late",
          "FLUSH_STEPS : CHUNK_STEPS, end=>FLUSH_STEPS : 2 * CHUNK_STEPS, end" },
        { 100, "another residue's digits", "codes[r[x]]=>codes[r[x] ^ 1]" },
        { 100, "another modulus' digits", "+ CODES_BEGIN[modulus]=>+ CODES_BEGIN[modulus / 2]" },
    };
    static const struct gpu_fault slices[] = {
        { 100, "slices in FP8 that are not carried on", "= w[x][i] + half[i];=>= w[x][i];" },
        { 100, "slices in FP8 without a sign of their own",
          "(w, from, step) - ((int32_t)1 <<=>(w, from, step) - (0 * (int32_t)1 <<" },
        { 100, "slices in FP8 as bytes", "limb.kind == LIMBER_KIND_FLOAT)=>limb.size > 1)" },
        { 100, "slices in FP8 without a sign", "v ? (x >> 31) <<=>v ? (x >> 31) * 0 <<" },
    };

    (void)state;
    if (is_long_test_useless())
        skip_because("another architecture runs it");
    for (size_t i = 0; i < COUNT(schemes); i++)
        if (check_largest_sums(schemes[i]) != 1)
            fail_msg("%s: %s", schemes[i], limber_error_text());
    gpu_faults_are_found(bytes, COUNT(bytes), check_largest_sums, schemes[0]);
    gpu_faults_are_found(late, COUNT(late), check_largest_sums, schemes[1]);
    gpu_faults_are_found(digits, COUNT(digits), check_largest_sums, schemes[2]);
    gpu_faults_are_found(slices, COUNT(slices), check_largest_sums, schemes[3]);
    if (gpu_capability() == 100)
        assert_int_equal(check_longest_chain(schemes[3]), 1);
    gpu_faults_are_found(digits, 1, check_longest_chain, schemes[3]);
}

/* Plans that are made without sizes, and so have large blocks, must give the interpreter's bits. */
static void large_blocks_have_the_same_bits(void **state)
{
    (void)state;
    if (is_long_test_useless())
        skip_because("another architecture runs it");
    plan_compare_chains("ozaki2", named("f64"), named("f64"), DATA_unit, 140, 270, 150, 65536);
    plan_compare_chains("ozaki2-f16", named("f32"), named("f32"), DATA_ties, 140, 135, 70, 1024);
    plan_compare_chains("ozaki2-e4m3", named("f32"), named("f32"), DATA_ties, 140, 135, 70, 512);
    plan_compare_chains("ozaki1-i8", named("f32"), named("f32"), DATA_unit, 131, 260, 70, 32768);
    plan_compare_chains("ozaki1-e4m3", named("f32"), named("f32"), DATA_unit, 131, 140, 70, 65536);
    plan_compare_chains("ozaki1-f64", named("f32"), named("f32"), DATA_unit, 135, 70, 40, 512);
}

/* Products with more than one chain have the interpreter's bits: after a chain of `chunk` products,
 * 32-bit sums are added to longer ones or reduced in place.  Short chains let a small k test
 * this. */
static void long_sums_are_exact(void **state)
{
    static const struct {
        const char *scheme, *format;
        int64_t k, chunk;
    } sums[] = {
        { "ozaki2", "f64", 700, 256 },       { "ozaki2-f16", "f32", 700, 64 },
        { "ozaki2-e4m3", "f32", 1100, 128 }, { "ozaki1-i8", "f32", 700, 256 },
        { "ozaki1-f16", "f32", 700, 64 },    { "ozaki1-bf16", "f32", 700, 64 },
        { "ozaki1-f64", "f64", 70, 16 },     { "ozaki1-e4m3", "f32", 1100, 128 },
    };

    (void)state;
    if (is_long_test_useless())
        skip_because("another architecture runs it");
    for (size_t i = 0; i < COUNT(sums); i++)
        plan_compare_chains(sums[i].scheme, named(sums[i].format), named(sums[i].format), DATA_unit,
                            9, 18, sums[i].k, sums[i].chunk);
}

/* Multiplies the largest digits, all of one sign, until sums exceed 31 bits: sums of residues
 * are then reduced on the way, and sums of slices are added to longer sums.  Sums with a smaller
 * k would not do this.  Each line is one number, repeated. */
static void sums_beyond_31_bits_are_exact(void **state)
{
    enum { SIDE = 4, RESIDUES = 70000, SLICES = 34000 };
    static double a[SIDE], c[SIDE * SIDE];
    static int16_t x[SIDE];
    static int64_t z[SIDE * SIDE];
    limber_contract contract = {
        .size = sizeof contract, .promise = LIMBER_CONTRACT_FAST, .scheme = "ozaki2", .slices = 5
    }; /* `slices` is the number of moduli here; with five, all bits of their sums matter */

    (void)state;
    if (is_long_test_useless() || gpu_capability() < 80)
        skip_because("only one long run on a device of capability 8.0 or above has this");
    for (int i = 0; i < SIDE; i++) {
        a[i] = 255 - 40 * i; /* the first element is nearly p - 1 modulo many of the moduli p */
        x[i] = (int16_t)(4096 * i + 255);
    }
    if (limber_gemm(cuda, &contract, SIDE, SIDE, RESIDUES, NULL,
                    (limber_matrix){ a, named("f64"), 1, 0 },
                    (limber_matrix){ a, named("f64"), 0, 1 }, NULL,
                    (limber_output){ c, named("f64"), SIDE, 1 }, NULL))
        fail_msg("%s", limber_error_text());
    if (limber_gemm(cuda, &exact, SIDE, SIDE, SLICES, NULL,
                    (limber_matrix){ x, named("i16"), 1, 0 },
                    (limber_matrix){ x, named("i16"), 0, 1 }, NULL,
                    (limber_output){ z, named("i64"), SIDE, 1 }, NULL))
        fail_msg("%s", limber_error_text());
    for (int e = 0; e < SIDE * SIDE; e++) {
        assert_true(c[e] == a[e / SIDE] * a[e % SIDE] * RESIDUES);
        assert_true(z[e] == (int64_t)x[e / SIDE] * x[e % SIDE] * SLICES);
    }
}

/* All ozaki1 schemes (slices) in FP64, with ties, and in FP32: every result has the interpreter's
 * bits. */
static void slices_have_the_bits_of_the_exact_integer(void **state)
{
    static const char *const schemes[] = { "ozaki1-i8", "ozaki1-f16", "ozaki1-bf16", "ozaki1-f64",
                                           "ozaki1-e4m3" };

    (void)state;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        compare_product(&(struct trial){ schemes[i], correct, "f64", "f64", "f64", DATA_ties, 30,
                                         40, 70, .alpha = 1 },
                        20 + i);
        compare_product(&(struct trial){ schemes[i], correct, "f32", "f32", "f32", DATA_unit, 30,
                                         21, 170, .alpha = 1, .transpose_b = true },
                        30 + i);
    }
}

/* Products of integer formats, with overflows too: every result has the interpreter's bits. */
static void integers_are_exact(void **state)
{
    (void)state;
    compare_product(
        &(struct trial){ NULL, exact, "i8", "i8", "i32", DATA_bytes, 140, 30, 100, .alpha = 1 },
        40);
    compare_product(&(struct trial){ NULL, exact, "u8", "i8", "i32", DATA_bytes, 30, 30, 100,
                                     .alpha = 2, .beta = 3 },
                    41);
    compare_product(&(struct trial){ NULL, exact, "i16", "i16", "i64", DATA_ints, 30, 30, 100,
                                     .alpha = 1, .transpose_c = true },
                    42);
    compare_product(
        &(struct trial){ NULL, exact, "i32", "i32", "i64", DATA_ints, 30, 30, 100, .alpha = 1 },
        43);
    compare_product(
        &(struct trial){ NULL, native, "i32", "i32", "i32", DATA_range, 30, 30, 100, .alpha = 1 },
        44);
    compare_product(
        &(struct trial){ NULL, exact, "i16", "i16", "i16", DATA_range, 30, 30, 100, .alpha = 1 },
        45);
}

/* The scheme `accumulator` (exact sums in a long accumulator) has the interpreter's bits for data
 * of any range, and with NaN and infinities. */
static void long_accumulators_serve_any_data(void **state)
{
    (void)state;
    compare_product(&(struct trial){ "accumulator", correct, "f64", "f64", "f64", DATA_range, 11,
                                     13, 20, .alpha = 1 },
                    50);
    compare_product(&(struct trial){ "accumulator", correct, "f32", "f32", "f64", DATA_special, 11,
                                     13, 20, .alpha = -1, .beta = 2, .transpose_c = true },
                    51);
}

/* ---- sums of tensor cores -------------------------------------------------------------------- */

extern const struct backend limber_backend_cuda;

static void check_plan(const char *scheme, enum data data, int64_t m, int64_t n, int64_t k)
{
    plan_compare(scheme, named("f32"), named("f32"), data, m, n, k);
}

/* FP32 products by limbs on tensor cores have the bits of the interpreter, which models the order
 * in which tensor cores add. */
static void limbs_have_the_bits_of_tensor_cores(void **state)
{
    static const char *const schemes[] = { "fp32-f", "fp32-t", "fp32-b", "fp32-b9" };

    (void)state;
    for (size_t i = 0; i < COUNT(schemes); i++) {
        check_plan(schemes[i], DATA_unit, 21, 35, 150);
        check_plan(schemes[i], DATA_ints, 130, 9, 64);
    }
    check_plan("fp32-f", DATA_unit, 9, 140, 37);
    check_plan("fp32-m", DATA_bytes, 9, 14, 300);
    /* on an A100 all accumulators are added to the total after each chunk */
    plan_compare_native("fp32-b", DATA_unit, 21, 35, 257);
    plan_compare_native("fp32-b", DATA_unit, 9, 130, 448);
    plan_compare_native("fp32-b9", DATA_ints, 67, 9, 300);
}

/* ---- clusters of blocks, and products by cuBLAS ---------------------------------------------- */

static bool has_feature(const char *feature)
{
    struct target t = { .device = 0 };
    struct diag d = { 0 };

    return limber_backend_cuda.probe(&t, &d) && limber_target_has(&t, feature);
}

/* Multiplies a batch of two pairs, whose matrices are contiguous, without a gap between them. */
static void check_batch(int64_t m, int64_t n, int64_t k)
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

/* With one row of tiles, blocks form no clusters.  With an odd number of rows of tiles, the last
 * cluster has a block without a tile.  Both must give the same bits. */
static void clusters_have_the_same_bits(void **state)
{
    static const int64_t rows[] = { 100, 256, 300, 600 };

    (void)state;
    if (!has_feature("wgmma") && !has_feature("tcgen05"))
        return;
    for (size_t i = 0; i < COUNT(rows); i++) {
        compare_product(&(struct trial){ NULL, exact, "i8", "i8", "i32", DATA_bytes, rows[i], 20,
                                         300, .alpha = 1, .transpose_b = i & 1 },
                        90 + i);
        check_plan("fp32-f", DATA_unit, rows[i], 12, 70);
    }
    compare_product(&(struct trial){ NULL, exact, "i16", "i16", "i64", DATA_ints, 140, 270, 130,
                                     .alpha = 2, .beta = 3, .transpose_c = true },
                    94);
    compare_product(&(struct trial){ "ozaki2", correct, "f64", "f64", "f64", DATA_unit, 259, 9, 140,
                                     .alpha = 1 },
                    95);
    check_batch(200, 30, 150);
}

/* cuBLAS may multiply integers, because their sums are exact in any order. */
static void cublas_multiplies_where_it_may(void **state)
{
    /* lengths along k; some are shorter than what the kernel multiplies at once */
    static const int64_t lengths[] = { 20, 1, 2, 15, 16, 20, 300, 20 };
    limber_contract contract = native;

    (void)state;
    contract.scheme = "cublas";
    for (int i = 0; i < 8; i++)
        compare_product(&(struct trial){ "cublas", contract, i & 1 ? "f32" : "f64",
                                         i & 1 ? "f32" : "f64", i & 1 ? "f32" : "f64", DATA_bytes,
                                         33, 17, lengths[i], .alpha = 1, .beta = i & 1,
                                         .transpose_a = i & 2, .transpose_b = i & 4,
                                         .transpose_c = i > 3 },
                        (uint64_t)(80 + i));
}

/* ---- threads, devices ------------------------------------------------------------------------ */

/* A thread that computes products; same: all had the expected bits. */
struct worker {
    limber_context *ctx;
    uint64_t seed;
    bool same;
};

/* Thread: multiplies several times with a context, and sets `same` to whether the results have the
 * reference's bits.  arg: struct worker. */
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

/* Four threads multiply in one context (in two on two devices, if there are two) and get the
 * same bits again and again.  A device number without a device is refused. */
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
    assert_refused(limber_create(&absent, &none), LIMBER_STATUS_DEVICE, "device = 99");
    if (limber_create(&other, &second))
        other = cuda; /* this machine has one device */
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

/* ---- planted faults must be found ------------------------------------------------------------ */

/* Planted faults, each with the compute capability whose kernels contain the line that it
 * changes.  Kernels for another scheme or device lack the line. */
static const struct gpu_fault faults[] = {
    { 80, "a dropped barrier", "        sync_warp_or_block<of_warp>();\\n=>" },
    { 80, "a wrong stage",
      "(uint32_t)(s % STAGES * bytes), s=>(uint32_t)((s + 1) % STAGES * bytes), s" },
    { 80, "a missing edge", "along ? p0 + p < length : line=>along ? true : line" },
    { 80, "the other edge", "inside && t * step < rest && mine=>inside && mine" },
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
      "product(d, at + line * STEP=>product(d, (at + STAGE) % (STAGES * STAGE) + line * STEP" },
    { 90, "a block that leaves too early", "    sync_cluster();\\n}=>}" },
    { 90, "a block that is not there yet",
      "    sync_cluster();\\n    if=>    sync_block();\\n    if" },
    { 90, "a stage that one block gave back", "readers * a.cluster=>readers" },
    { 90, "the other block's half", "line + from, limb=>line + lines - from, limb" },
    { 90, "a half for one block",
      "limb, full,\\n                        (1u << a.cluster) - 1=>"
      "limb, full,\\n                        1u << block() % a.cluster" },
    { 90, "sums that are not awaited",
      "    group_wait<0>();\\n    keep_behind(d);\\n=>    keep_behind(d);\\n" },
    { 100, "sums that are not there yet",
      "p.parity);\\n    columns_after();=>p.parity ^ 1);\\n    columns_after();" },
    { 100, "sums of which no fence tells", "p.parity);\\n    columns_after();=>p.parity);" },
    { 100, "sums of the other place",
      "column_of_accumulator(0, p.index),\\n=>column_of_accumulator(0, p.index ^ 1),\\n" },
    { 100, "other lanes", "(w / 4 - 2) * 16=>(w / 4 - 2) * 8" },
    { 100, "the same lanes twice", "(w / 4 - 2) * 16=>0" },
    { 100, "a place given back too early",
      "    columns_after();\\n    each_sum=>    columns_after();\\n"
      "    announce_taken((uint32_t)(TAKEN + 8 * p.index));\\n    each_sum\n"
      "v); });\\n    announce_taken((uint32_t)(TAKEN + 8 * p.index));=>v); });" },
    { 100, "a place given back without a fence",
      "    columns_before();\\n    sync_warp();=>    sync_warp();" },
    { 100, "a place that others still read",
      "    columns_before();\\n    sync_warp();=>    columns_before();" },
    { 100, "a place that is not awaited",
      "barrier_wait((uint32_t)(TAKEN + 8 * p.index), p.parity ^ 1);=>" },
    { 100, "a stage that is not awaited",
      "r.parity);\\n        columns_after();=>r.parity ^ 1);\\n        columns_after();" },
    { 100, "a stage given back too early",
      "        UNROLL for (int q = 0; q < PIECES; q++)\\n"
      "            if constexpr (TOTALS)=>        release(a, r.stage);\\n"
      "        UNROLL for (int q = 0; q < PIECES; q++)\\n            if constexpr (TOTALS)\n"
      "        keep = through = 1;\\n        release(a, r.stage);=>        keep = through = 1;" },
    { 100, "a stage that one block gave back", "readers * a.cluster=>readers" },
    { 100, "a stage of which one block is told",
      "products_arrive_all((uint32_t)(EMPTY + 8 * stage), (1u << a.cluster) - 1);=>"
      "products_arrive((uint32_t)(EMPTY + 8 * stage));" },
    { 100, "the other operand's sign",
      "(uint32_t)signs >> 1, signs & 1=>signs & 1, (uint32_t)signs >> 1" },
    { 100, "a block that leaves too early",
      "    if (COLUMNS_TAKEN)\\n        ROLL=>    if (false)\\n        ROLL" },
    { 100, "columns that are not given back",
      "    if (warp() == 4)\\n        columns_free=>    if (false)\\n        columns_free" },
    { 100, "columns given back while they are read",
      "    sync_cluster();\\n    columns_after();\\n    sync_warp=>"
      "    columns_after();\\n    sync_warp" },
};

/* Faults in the code for unaligned lines, whose elements are fetched singly. */
static const struct gpu_fault faults_of_elements[] = {
    { 80, "a missing edge",
      "        if (line < lines && p0 + p < length)=>        if (line < lines)" },
    { 80, "pieces that begin anywhere", "from % 16 == 0 && (along=>(along" },
};

/* Faults in the code for lines whose length is not a multiple of 16 bytes. */
static const struct gpu_fault faults_of_ends[] = {
    { 80, "pieces that end anywhere", "(along ? length : lines) % (16 / size) == 0=>1" },
};

/* A product that a planted fault makes wrong.  stride: leading dimension, in elements. */
struct faulty {
    int64_t k, stride;
};

/* Multiplies by kernels with a planted fault.  Returns 1 if the result is right, 0 if it is wrong
 * or the product fails, 2 if there is no context, 3 if NVRTC refuses the kernels. */
static int run_faulty(void *sizes)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    limber_format f = named("f64");
    limber_contract contract = correct;
    limber_context *ctx;
    const struct faulty *z = sizes;
    double *a = malloc(200 * 700 * 8), *b = malloc(200 * 700 * 8), *c = malloc(200 * 200 * 8);
    double *want = malloc(200 * 200 * 8);
    struct rng r = { 3 };
    limber_matrix xa = { a, f, z->stride, 1 }, xb = { b, f, 1, z->stride };

    contract.scheme = "ozaki2";
    fill(&r, DATA_ints, f, a, 200 * 700);
    fill(&r, DATA_ints, f, b, 200 * 700);
    if (limber_create(&ctx, &config))
        return 2;
    if (limber_gemm(ctx, &contract, 200, 200, z->k, NULL, xa, xb, NULL,
                    (limber_output){ c, f, 200, 1 }, NULL) != LIMBER_STATUS_OK)
        return strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    limber_gemm(reference, &contract, 200, 200, z->k, NULL, xa, xb, NULL,
                (limber_output){ want, f, 200, 1 }, NULL);
    return memcmp(c, want, 200 * 200 * 8) ? 0 : 1;
}

/* Each fault planted in the kernels must change the result or stop the kernel.  Faults of single
 * elements and of line ends are tested with unaligned lines. */
static void planted_faults_are_found(void **state)
{
    struct faulty dense = { 700, 700 }, odd = { 698, 699 }, short_lines = { 699, 700 };

    (void)state;
    gpu_faults_are_found(faults, COUNT(faults), run_faulty, &dense);
    gpu_faults_are_found(faults_of_elements, COUNT(faults_of_elements), run_faulty, &odd);
    gpu_faults_are_found(faults_of_ends, COUNT(faults_of_ends), run_faulty, &short_lines);
}

/* Products with k = 0 give beta C, or zeros without beta; products without rows succeed. */
static void empty_products_are_beta_c(void **state)
{
    (void)state;
    compare_product(&(struct trial){ "native", native, "f64", "f64", "f64", DATA_unit, 5, 7, 0,
                                     .alpha = 1, .beta = 2 },
                    60);
    compare_product(
        &(struct trial){ NULL, exact, "i8", "i8", "i32", DATA_unit, 5, 7, 0, .alpha = 1 }, 61);
    compare_product(
        &(struct trial){ "native", native, "f64", "f64", "f64", DATA_unit, 0, 7, 3, .alpha = 1 },
        62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_has_the_bits_of_fused_multiply_adds),
        cmocka_unit_test(reproducible_sums_have_one_order),
        cmocka_unit_test(residues_have_the_bits_of_the_exact_integer),
        cmocka_unit_test(rounded_results_have_the_same_bits),
        cmocka_unit_test(residues_in_halves_have_the_same_bits),
        cmocka_unit_test(residues_in_digits_have_the_same_bits),
        cmocka_unit_test(largest_residues_are_summed_exactly),
        cmocka_unit_test(large_blocks_have_the_same_bits),
        cmocka_unit_test(long_sums_are_exact),
        cmocka_unit_test(sums_beyond_31_bits_are_exact),
        cmocka_unit_test(slices_have_the_bits_of_the_exact_integer),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(long_accumulators_serve_any_data),
        cmocka_unit_test(limbs_have_the_bits_of_tensor_cores),
        cmocka_unit_test(clusters_have_the_same_bits),
        cmocka_unit_test(cublas_multiplies_where_it_may),
        cmocka_unit_test(threads_share_contexts_and_devices),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(empty_products_are_beta_c),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, open_contexts, gpu_close);
}
