/* SPDX-License-Identifier: BSD-3-Clause
 * Compares products of block-scaled operands by NVIDIA's instructions (scheme tensor-mx) with the
 * interpreter, which computes their model: on a GPU if LIMBER_TEST_GPU is set, else on the harness
 * (SIMT_CC names the compute capability).  A device without such instructions must refuse. */
#include "engine_support.h"
#include "contexts.h"
#include "gpus.h"
#include "support.h"
#include "unit_any.h"

#include <math.h>

/* A product of a simulated unit with block scales. */
struct scaled {
    const char *unit;
    int64_t m, n, k;
    int kind;                   /* kind of random values (any_matrix) */
    const char *in, *out;       /* formats of operands and result; NULL: f32 */
    bool transposed;
    double alpha, beta; /* alpha = 0: alpha and beta are not passed */
    int64_t pad; /* padding that is added to leading dimensions, in elements */
};

static limber_matrix matrix(void *data, limber_format f, int64_t rows, int64_t cols,
                            const struct scaled *p, bool turned)
{
    return p->transposed != turned ? (limber_matrix){ data, f, 1, rows + p->pad } :
                                     (limber_matrix){ data, f, cols + p->pad, 1 };
}

/* Runs a simulated product.  scheme: NULL for the unit's model in software, "tensor-mx" for the
 * device's instruction. */
static limber_status run_simulated(limber_context *ctx, const char *scheme, const struct scaled *p,
                                   void *a, void *b, void *c)
{
    limber_format in = named(p->in ? p->in : "f32"), out = named(p->out ? p->out : "f32");
    limber_unit u = unit(p->unit);
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u,
                                 .scheme = scheme };
    char *alpha = converted(&p->alpha, 1, out), *beta = converted(&p->beta, 1, out);
    limber_report report = LIMBER_REPORT_INIT;
    limber_status status = limber_gemm(
        ctx, &contract, p->m, p->n, p->k, p->alpha != 0 ? alpha : NULL,
        matrix(a, in, p->m, p->k, p, false), matrix(b, in, p->k, p->n, p, true),
        p->beta != 0 ? beta : NULL, output_of(matrix(c, out, p->m, p->n, p, false)), &report);

    if (!status && scheme && p->m > 0 && p->n > 0)
        assert_string_equal(report.scheme, scheme);
    free(alpha);
    free(beta);
    return status;
}

/* Counts the elements of a matrix and its padding. */
static size_t count_padded(const struct scaled *p, int64_t rows, int64_t cols)
{
    return (size_t)((rows + p->pad) * (cols + p->pad));
}

/* Returns whether the instruction gives the model's bits on random matrices.  report: a difference
 * fails the test. */
static bool is_simulated_right(const struct scaled *p, struct rng *r, bool report)
{
    limber_format in = named(p->in ? p->in : "f32"), out = named(p->out ? p->out : "f32");
    size_t na = count_padded(p, p->m, p->k), nb = count_padded(p, p->k, p->n),
           nc = count_padded(p, p->m, p->n);
    double *x = any_matrix(r, (int64_t)na, p->kind), *y = any_matrix(r, (int64_t)nb, p->kind);
    double *z = any_matrix(r, (int64_t)nc, 0);
    char *a = converted(x, na, in), *b = converted(y, nb, in), *want = converted(z, nc, out);
    char *got = converted(z, nc, out);
    bool same = true;
    double v[2];
    int64_t at;

    if (run_simulated(reference, NULL, p, a, b, want) != LIMBER_STATUS_OK)
        fail_msg("%s: %s", p->unit, limber_error_text());
    if (run_simulated(cuda, "tensor-mx", p, a, b, got) != LIMBER_STATUS_OK) {
        if (report)
            fail_msg("%s: %s", p->unit, limber_error_text());
        same = false;
    }
    at = same ? first_difference(out, want, got, nc, v) : -1;
    if (at >= 0 && report)
        fail_msg("%s, data %d, %d x %d x %d: element %d is %a, not %a", p->unit, p->kind, (int)p->m,
                 (int)p->n, (int)p->k, (int)at, v[1], v[0]);
    same = same && at < 0;
    free(x);
    free(y);
    free(z);
    free(a);
    free(b);
    free(want);
    free(got);
    return same;
}

/* Returns whether the device has MX instructions.  A device without them must refuse with an error
 * that says so. */
static bool device_has_mx(void)
{
    struct scaled p = { .unit = "b200-nvfp4", .m = 1, .n = 1, .k = 1 };
    float a = 1, b = 1, c = 0;
    bool due = gpu_capability() >= 100;

    if (run_simulated(cuda, "tensor-mx", &p, &a, &b, &c) == LIMBER_STATUS_OK) {
        assert_true(due || getenv("LIMBER_TEST_GPU"));
        return true;
    }
    assert_non_null(strstr(limber_error_text(), "cuda has no block-scaled instructions"));
    assert_true(!due || getenv("LIMBER_TEST_GPU"));
    return false;
}

static const char *const units[] = {
    "b200-mxe4m3",
    "b200-mxe5m2",
    "b200-mxe3m2",
    "b200-mxe2m3",
    "b200-mxfp4",
    "b200-nvfp4",
    "b200-mxe4m3 b=e5m2:sat",
    "b200-mxe5m2 a=e2m1 b=e3m2",
    "b200-mxe2m3 b=e2m1 scale=e8m0:ceil",
    "b200-mxe4m3 in=e4m3:rz scale=e8m0:even",
    "b200-mxe5m2 in=e5m2",
    "b200-mxfp4 scale=e8m0:ceil",
};

/* Multiplies matrices of random shapes and data by each unit with block scales: the tensor
 * cores' results have the interpreter's bits. */
static void instructions_have_the_bits_of_their_model(void **state)
{
    struct rng r = { 3 };

    (void)state;
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    for (size_t i = 0; i < COUNT(units); i++)
        for (int kind = 0; kind < VALUE_KINDS; kind++) {
            if (!is_taken(i + i / 3 + (size_t)kind, 3))
                continue;
            is_simulated_right(&(struct scaled){ .unit = units[i],
                                                 .m = 1 + rng_below(&r, kind ? 40 : 150),
                                                 .n = 1 + rng_below(&r, kind ? 40 : 90),
                                                 .k = 1 + rng_below(&r, kind % 2 ? 50 : 600),
                                                 .kind = kind,
                                                 .transposed = rng_below(&r, 2),
                                                 .pad = rng_below(&r, 3) },
                               &r, true);
        }
}

/* Block scales that differ widely, up to the smallest and the largest of their format, give the
 * interpreter's bits. */
static void scales_reach_the_ends_of_their_formats(void **state)
{
    enum { M = 20, N = 12, K = 96 };
    struct rng r = { 4 };
    float *a, *b, c[2][M * N];

    (void)state;
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    a = malloc(M * K * 4);
    b = malloc(K * N * 4);
    assert_true(a && b);
    for (size_t i = 0; i < COUNT(units); i++) {
        struct scaled p = { .unit = units[i], .m = M, .n = N, .k = K };

        for (int x = 0; x < M * K; x++) {
            double size = ldexp(1, (int)rng_below(&r, 6) - 3 + (x / 16 % 6 - 3) * 48);

            a[x] = (float)((double)rng_below(&r, 17) * size) * (rng_below(&r, 2) ? 1.0f : -1.0f);
        }
        for (int x = 0; x < K * N; x++)
            b[x] = (float)ldexp((double)rng_below(&r, 64) - 31, (x / N / 32 - 1) * 60);
        a[K + 3] = INFINITY;
        a[2 * K + 40] = -INFINITY;
        a[3 * K + 1] = NAN;
        memset(a + 4 * K, 0, K * 4);
        b[5 * N + 2] = -INFINITY;
        assert_int_equal(run_simulated(reference, NULL, &p, a, b, c[0]), LIMBER_STATUS_OK);
        if (run_simulated(cuda, "tensor-mx", &p, a, b, c[1]) != LIMBER_STATUS_OK)
            fail_msg("%s: %s", units[i], limber_error_text());
        for (int x = 0; x < M * N; x++)
            if (!same_number(named("f32"), &c[0][x], &c[1][x]))
                fail_msg("%s: element %d is %a, not %a", units[i], x, (double)c[1][x],
                         (double)c[0][x]);
    }
    free(a);
    free(b);
}

/* Returns whether the device gives -0 for a negative sum that is too small for binary32. k is no
 * multiple of the elements that the kernel multiplies at once, so the kernel pads with zeros. */
static bool are_zeros_negative(void)
{
    enum { K = 40 };
    struct scaled p = { .unit = "b200-mxe4m3", .m = 1, .n = 1, .k = K };
    float a[K], b[K], want, got = 7;

    for (int i = 0; i < K; i++) {
        a[i] = -0x1p-100f;
        b[i] = 0x1p-100f;
    }
    assert_int_equal(run_simulated(reference, NULL, &p, a, b, &want), LIMBER_STATUS_OK);
    assert_true(want == 0 && signbit(want));
    return run_simulated(cuda, "tensor-mx", &p, a, b, &got) == LIMBER_STATUS_OK && got == 0 &&
           signbit(got);
}

static void sums_may_be_negative_zeros(void **state)
{
    (void)state;
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    assert_true(are_zeros_negative());
}

/* Products with block scales, with alpha and beta in five pairs of formats, also transposed or
 * empty, have the interpreter's bits. */
static void results_are_scaled_and_stored(void **state)
{
    static const struct {
        const char *in, *out;
        double alpha, beta;
    } cases[] = {
        { "bf16", "f64", -1.5, 2 }, { "f16", "bf16", 0, 0 },  { "f64", "f16", 3, -1 },
        { "e4m3", "dd", 1, -3 },    { "f32", "f32", 0, 0.5 },
    };
    struct rng r = { 21 };

    (void)state;
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            if (!is_taken(i + (size_t)transposed + i / 2, 2))
                continue;
            is_simulated_right(&(struct scaled){ .unit = i % 2 ? "b200-mxe4m3" : "b200-nvfp4",
                                                 .m = 35,
                                                 .n = 39,
                                                 .k = 141,
                                                 .in = cases[i].in,
                                                 .out = cases[i].out,
                                                 .transposed = transposed,
                                                 .alpha = cases[i].alpha,
                                                 .beta = cases[i].beta },
                               &r, true);
        }
    is_simulated_right(&(struct scaled){ .unit = "b200-mxfp4", .m = 3, .n = 2, .k = 0, .beta = 2 },
                       &r, true);
    is_simulated_right(&(struct scaled){ .unit = "b200-mxfp4", .m = 0, .n = 2, .k = 5 }, &r, true);
}

/* With a small workspace, C is computed piece by piece.  Each piece must use the right block
 * scales. */
static void parts_have_the_same_bits(void **state)
{
    const limber_config small = { .size = sizeof(limber_config),
                                  .backend = "cuda",
                                  .cache_dir = "",
                                  .threads = 1,
                                  .workspace_bytes = 60000 };
    limber_context *whole = cuda;
    struct rng r = { 41 };

    (void)state;
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    assert_int_equal(limber_create(&cuda, &small), LIMBER_STATUS_OK);
    for (size_t i = 4; i < 7; i++)
        is_simulated_right(&(struct scaled){ .unit = units[i], .m = 270, .n = 150, .k = 300 }, &r,
                           true);
    limber_destroy(cuda);
    cuda = whole;
}

/* Convolutions on block-scaled tensor cores have the bits of the simulated units in the
 * interpreter. */
static void convolutions_are_computed(void **state)
{
    limber_context *const both[] = { reference, cuda };
    struct rng r = { 51 };

    (void)state;
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    for (size_t i = 3; i < 6; i++)
        same_simulated_conv(&r, units[i], i % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW, both,
                            "tensor-mx");
}

/* Units that have no block-scaled instruction, and statistics, must be refused with an error that
 * tells why. */
static void other_devices_refuse_by_name(void **state)
{
    static const struct {
        const char *unit, *why;
    } refused[] = {
        { "b200-fp16", "the unit is none of b200-mx" },
        { "b200-mxe4m3 frac=24", "the unit is none of b200-mx" },
        { "b200-mxe4m3 in=e4m3:sat b=(1,4,3)", "the unit is none of b200-mx" },
        { "b200-mxfp4 scale=e8m0:16", "the unit is none of b200-mx" },
        { "b200-nvfp4 b=e2m3", "the unit is none of b200-mx" },
        { "b200-mxe4m3 group=64 outer=f32", "the unit is none of b200-mx" },
    };
    float a = 1, b = 1, c = 7;
    limber_statistics statistics = LIMBER_STATISTICS_INIT;
    limber_unit u = unit("b200-mxe4m3");
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u,
                                 .scheme = "tensor-mx",
                                 .statistics = &statistics };
    struct scaled p = { .unit = "b200-mxe4m3", .m = 1, .n = 1, .k = 1, .beta = 0 };

    (void)state;
    assert_refused(run_simulated(reference, "tensor-mx", &p, &a, &b, &c), LIMBER_STATUS_NO_SCHEME,
                   "interp has no block-scaled instructions");
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    for (size_t i = 0; i < COUNT(refused); i++) {
        p.unit = refused[i].unit;
        assert_int_equal(run_simulated(cuda, "tensor-mx", &p, &a, &b, &c), LIMBER_STATUS_NO_SCHEME);
        if (!strstr(limber_error_text(), refused[i].why))
            fail_msg("%s: %s", refused[i].unit, limber_error_text());
    }
    assert_refused(limber_gemm(cuda, &contract, 1, 1, 1, NULL,
                               (limber_matrix){ &a, named("f32"), 1, 1 },
                               (limber_matrix){ &b, named("f32"), 1, 1 }, NULL,
                               output_of((limber_matrix){ &c, named("f32"), 1, 1 }), NULL),
                   LIMBER_STATUS_NO_SCHEME, "instructions count nothing");
    assert_true(c == 7);
}

static const struct gpu_fault faults[] = {
    { 120, "scales of other lanes",
      "8 * (l & 3) + (l >> 2)) * SCALES=>8 * (l >> 3) + (l & 7)) * SCALES" },
    { 120, "the quad's place of another tile of A", "% 4, i & 1, j & 3);=>% 4, j & 1, j & 3);" },
    { 120, "the quad's place of another tile of B", "% 4, i & 1, j & 3);=>% 4, i & 1, i & 3);" },
    { 120, "scales of one part of k", "q * each % 4, i=>0, i" },
    { 120, "scales of one word", "sb[j / 4].w[q * each / 4]=>sb[j / 4].w[0]" },
    { 120, "scales of A for B",
      "load_scales(sb, stage + SCALES_AT + SCALES * BM, line_b)=>"
      "load_scales(sb, stage + SCALES_AT, line_b)" },
    { 120, "scales of the first step",
      "a.scale_pitch + s * SCALES, a.scale_pitch);=>"
      "a.scale_pitch, a.scale_pitch);" },
    { 120, "lines of scales too far apart",
      "* pitch + c % pieces * size=>* 2 * pitch + c % pieces * size" },
    { 120, "E2M1 low in its byte", "middle ? 2 : 0=>middle ? 0 : 0" },
    { 0, "elements of one operand exchanged", "<< bits * x;=><< bits * (x ^ S);" },
    { 0, "the scale of a part of a block", "mask < BLOCK / EACH=>mask < BLOCK / EACH / 2" },
    { 0, "another exponent's code", "- 1023 + 127;=>- 1023 + 126;" },
    { 0, "scales of a column of blocks", "(p0 + p) / BLOCK,=>p / BLOCK," },
    { 120, "formats exchanged",
      "mma_scaled<MX, FORMAT_A, FORMAT_B>=>"
      "mma_scaled<MX, FORMAT_B, FORMAT_A>" },
    /* fault in the copy to tensor memory */
    { 100, "a bit too many for an element",
      "? 1 + format.exp_bits=>? (format.exp_bits > 3 ? 1 : 2) + format.exp_bits" },
    { 100, "E2M1 in the middle of a byte", "PACKED == 1 && !COLUMNS_TAKEN=>PACKED == 1" },
    { 100, "halves of 16 elements exchanged", "thread() % 2 ? own=>thread() % 2 == 0 ? own" },
    { 100, "the second half's elements left out", "own | other << 8 * bits=>own" },
    { 100, "the codes of another neighbour", "of_neighbour(own, 1)=>of_neighbour(own, 2)" },
    { 100, "scales of other lines",
      "line % 32 * 16 + line / 32 % 4 * 4=>line / 4 % 32 * 16 + line % 4 * 4" },
    { 100, "scales of other blocks", "block / 4 * 512=>(block / 4 ^ 1) * 512" },
    { 100, "scales of another byte", "block % 4;=>(block % 4 ^ 2);" },
    { 100, "scales of the first step", "step = (int64_t)s * SCALES;=>step = 0;" },
    { 100, "scales of another tile", "line_b = limbs_at_b(a, t);=>line_b = 0;" },
    { 100, "scales that no one waits for",
      "barrier_expect(full, STAGE)=>barrier_expect(full, SCALES_AT)" },
    { 100, "fewer scales than lines",
      "step * BM, SCALES * BM, full=>step * BM, SCALES * 64, full" },
    { 100, "scales of all stages in the same columns",
      "SCALES_FROM + stage * 2 * SCALES=>SCALES_FROM" },
    { 100, "scales in columns of sums", "SCALES_FROM = (PLACES=>SCALES_FROM = (PLACES - 1" },
    { 100, "no scales of B", "x < SCALES / 2; x++=>x < SCALES / 4; x++" },
    { 100, "scales behind products",
      "scales = issue_stage_scales(columns, r.stage)=>"
      "scales = columns + (uint32_t)(SCALES_FROM + r.stage * 2 * SCALES)\n"
      "release(a, r.stage);=>issue_stage_scales(columns, r.stage);\\nrelease(a, r.stage);" },
    { 100, "scales of the stage before",
      "stage * STAGE + SCALES_AT);=>(stage ^ 1) * STAGE + SCALES_AT);" },
    { 100, "scales of A for B", "scales, scales + SCALES, keep=>scales, scales, keep" },
    { 100, "scales of one part of k", "q * each % 4);=>0);" },
    { 100, "scales of one word", "q * each / 4 * 4);=>0);" },
    { 100, "scales of the other format", "MODEL.scale != LIMBER=>MODEL.scale == LIMBER" },
    { 100, "formats exchanged",
      "MX == 1 ? FORMAT_A : 1, MX == 1 ? FORMAT_B : 1=>"
      "MX == 1 ? FORMAT_B : 1, MX == 1 ? FORMAT_A : 1" },
    { 100, "tiles exchanged",
      "tile_descriptor(at, 32 * q), tile_descriptor(at + TILE_A, 32 * q), what=>"
      "tile_descriptor(at + TILE_A, 32 * q), tile_descriptor(at, 32 * q), what" },
    { 100, "sums of the last steps alone", "scales, (keep | q) != 0);=>scales, q != 0);" },
    { 100, "zeros without a sign", "start(d[0], a.steps);=>;" },
    { 0, "blocks of zeros behind k", "rest < STEP * PACKED ?=>rest < 0 ?" },
};

/* Runs random products in a new context, whose kernels are compiled with the planted fault.
 * Returns 1 if they are right, 0 if not, 3 if NVRTC refuses the kernels, 4 if there is no
 * context. */
static int run_faulty(void *unused)
{
    static const char *const looked_at[] = { "b200-mxe5m2 a=e2m1 b=e3m2", "b200-mxfp4",
                                             "b200-nvfp4" };
    /* sizes exceed one tile of C; kernels that use tensor memory have larger tiles */
    bool large = gpu_capability() < 120;
    const limber_config fresh = { .size = sizeof(limber_config),
                                  .backend = "cuda",
                                  .cache_dir = "" };
    struct rng r = { 61 };

    (void)unused;
    if (limber_create(&cuda, &fresh) != LIMBER_STATUS_OK)
        return 4;
    for (size_t i = 0; i < COUNT(looked_at); i++)
        for (int kind = 0; kind < 3; kind += 2)
            if (!is_simulated_right(&(struct scaled){ .unit = looked_at[i],
                                                      .m = large ? 262 : 66,
                                                      .n = large ? 140 : 70,
                                                      .k = large ? 1100 : 530,
                                                      .kind = kind,
                                                      .out = "f32" },
                                    &r, false))
                return strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    return are_zeros_negative();
}

static void planted_faults_are_found(void **state)
{
    (void)state;
    if (!device_has_mx())
        skip_because("this device has no block-scaled formats");
    gpu_faults_are_found(faults, COUNT(faults), run_faulty, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_have_the_bits_of_their_model),
        cmocka_unit_test(scales_reach_the_ends_of_their_formats),
        cmocka_unit_test(sums_may_be_negative_zeros),
        cmocka_unit_test(results_are_scaled_and_stored),
        cmocka_unit_test(parts_have_the_same_bits),
        cmocka_unit_test(convolutions_are_computed),
        cmocka_unit_test(other_devices_refuse_by_name),
        cmocka_unit_test(planted_faults_are_found),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
