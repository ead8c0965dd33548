/* SPDX-License-Identifier: BSD-3-Clause
 * Compares simulated units of the CUDA backend with the interpreter, bit for bit, and all their
 * counters: on a GPU if LIMBER_TEST_GPU is set, else on the harness (SIMT_CC names the compute
 * capability).  LIMBER_TEST_UNITS sets the number of random units. */
#include "engine_support.h"
#include "contexts.h"
#include "gpus.h"
#include "support.h"
#include "unit_any.h"

#include <math.h>

/* ---- one product on both backends ------------------------------------------------------------ */

/* A product of a simulated unit. */
struct simulated {
    const char *text;
    limber_unit u;
    int64_t m, n, k;
    int kind; /* kind of random values (any_matrix) */
    const char *in, *out; /* formats of operands and result; NULL: f32 */
    bool transposed, counts, swamped_only;
    double alpha, beta; /* both 0: alpha and beta are not passed */
};

/* Compares the counters of two runs of a unit. */
static void same_counts(const struct simulated *p, const limber_statistics *s,
                        const limber_statistics *want)
{
    const int64_t have[] = { s->mul_inexact, s->mul_underflow,  s->mul_overflow,
                             s->swamped,     s->partly_swamped, s->sum_overflow,
                             s->outer_sums,  s->outer_swamped,  s->outer_partly };
    const int64_t due[] = { want->mul_inexact, want->mul_underflow,  want->mul_overflow,
                            want->swamped,     want->partly_swamped, want->sum_overflow,
                            want->outer_sums,  want->outer_swamped,  want->outer_partly };

    for (size_t i = 0; i < COUNT(have); i++)
        if (have[i] != due[i])
            fail_msg("%s, data %d, %d x %d x %d: counter %d is %lld, not %lld", p->text, p->kind,
                     (int)p->m, (int)p->n, (int)p->k, (int)i, (long long)have[i],
                     (long long)due[i]);
}

static limber_matrix matrix(void *data, limber_format f, int64_t rows, int64_t cols,
                            bool transposed)
{
    return transposed ? (limber_matrix){ data, f, 1, rows > 0 ? rows : 1 } :
                        (limber_matrix){ data, f, cols > 0 ? cols : 1, 1 };
}

/* Runs a simulated product.  *s gets its statistics if p->counts. */
static limber_status run_simulated(limber_context *ctx, const struct simulated *p, void *a, void *b,
                                   void *c, limber_statistics *s)
{
    limber_format in = named(p->in ? p->in : "f32"), out = named(p->out ? p->out : "f32");
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &p->u,
                                 .statistics = p->counts ? s : NULL };
    char *alpha = converted(&p->alpha, 1, out), *beta = converted(&p->beta, 1, out);
    limber_report report = LIMBER_REPORT_INIT;
    limber_status status;

    s->swamped_only = p->swamped_only;
    status = limber_gemm(ctx, &contract, p->m, p->n, p->k, p->alpha != 0 ? alpha : NULL,
                         matrix(a, in, p->m, p->k, p->transposed),
                         matrix(b, in, p->k, p->n, !p->transposed), p->beta != 0 ? beta : NULL,
                         output_of(matrix(c, out, p->m, p->n, p->transposed)), &report);
    if (status != LIMBER_STATUS_OK)
        fail_msg("%s: %s", p->text, limber_error_text());
    if (ctx == cuda && p->m > 0 && p->n > 0)
        assert_string_equal(report.backend, "cuda");
    free(alpha);
    free(beta);
    return status;
}

/* Multiplies random matrices on the GPU and by the reference; fails if results or counts differ. */
static void compare_with_reference(const struct simulated *p, struct rng *r)
{
    limber_format in = named(p->in ? p->in : "f32"), out = named(p->out ? p->out : "f32");
    size_t na = (size_t)(p->m * p->k), nb = (size_t)(p->k * p->n), nc = (size_t)(p->m * p->n);
    double *x = any_matrix(r, (int64_t)na, p->kind), *y = any_matrix(r, (int64_t)nb, p->kind);
    double *z = any_matrix(r, (int64_t)nc, 0);
    char *a = converted(x, na, in), *b = converted(y, nb, in), *want = converted(z, nc, out);
    char *got = converted(z, nc, out);
    limber_statistics due = LIMBER_STATISTICS_INIT, have = LIMBER_STATISTICS_INIT;
    double v[2];
    int64_t at;

    run_simulated(reference, p, a, b, want, &due);
    run_simulated(cuda, p, a, b, got, &have);
    at = first_difference(out, want, got, nc, v);
    if (at >= 0)
        fail_msg("%s, data %d, %d x %d x %d: element %d is %a, not %a", p->text, p->kind, (int)p->m,
                 (int)p->n, (int)p->k, (int)at, v[1], v[0]);
    if (p->counts)
        same_counts(p, &have, &due);
    free(x);
    free(y);
    free(z);
    free(a);
    free(b);
    free(want);
    free(got);
}

/* ---- units, results and operands ------------------------------------------------------------- */

/* Returns whether this process tests case i.  The test runs on two simulated devices (SIMT_CC),
 * whose kernels for units differ only in how they fetch operands, so each run tests one case in
 * `step`.  On a GPU, or without SIMT_CC, all cases are tested. */
static bool is_case_taken(int i, int step)
{
    return !getenv("SIMT_CC") || is_taken((size_t)i, step);
}

/* Preset units have the interpreter's bits on random data.  With some of the data, kernels use
 * 32-bit lanes, with some 64-bit lanes in some tiles. */
static void presets_have_the_bits_of_the_interpreter(void **state)
{
    const limber_unit_preset *preset;
    struct rng r = { 1 };

    (void)state;
    for (int i = 0; (preset = limber_unit_preset_at(i)); i++) {
        struct simulated p = { .text = preset->name,
                               .u = unit(preset->name),
                               .m = 5 + i % 3 * 30,
                               .n = 67 - i % 60,
                               .k = 60 + i,
                               .counts = i % 2 };

        if (p.u.acc.format.kind == LIMBER_KIND_INT || p.u.epilogue.format.kind ||
            !is_case_taken(i, 5))
            continue; /* the CPU's own sums, or only the CPU's backends */
        p.out = p.u.acc.format.exp_bits == 11 ? "f64" : NULL;
        p.in = p.out;
        p.counts &= !p.out;
        compare_with_reference(&p, &r);
        p.kind = 6;
        p.m = 7;
        p.k = 33;
        compare_with_reference(&p, &r);
        p.kind = 2;
        compare_with_reference(&p, &r);
    }
}

/* Random matrix-unit descriptions with random shapes and data: the simulation on the device has the
 * interpreter's bits.  LIMBER_TEST_UNITS: number of descriptions. */
static void random_units_compute_what_they_describe(void **state)
{
    const char *many = getenv("LIMBER_TEST_UNITS");

    (void)state;
    for (int i = many ? atoi(many) : 25; i > 0; i--) {
        struct rng r = { 1100 + i };
        char text[512];
        struct simulated p = { .text = text, .u = any_unit(&r, text, sizeof text) };

        if (!is_case_taken(i, 4) || p.u.halve || p.u.unroll || p.u.join_halves)
            continue; /* only the interpreter has these features */
        p.counts = rng_below(&r, 3) > 0;
        p.swamped_only = rng_below(&r, 3) == 0;
        for (int data = 0; data < 4; data++) { /* one kernel computes with all kinds of data */
            p.m = 1 + rng_below(&r, data ? 9 : 70);
            p.n = 1 + rng_below(&r, data ? 70 : 9);
            p.k = rng_below(&r, 90);
            p.kind = rng_below(&r, VALUE_KINDS);
            p.transposed = rng_below(&r, 2);
            p.alpha = p.beta = p.u.start_c ? 1 : 0;
            compare_with_reference(&p, &r);
        }
    }
}

/* Units near the limits at which kernels change from 32-bit to 64-bit lanes have the
 * interpreter's bits: formats of few and of many exponents, large blocks, terms of more than 32
 * bits. */
static void corners_have_the_bits_of_the_interpreter(void **state)
{
    static const char *const texts[] = {
        "in=(1,7,9) mul=(1,3,23) acc=f32 narrow=yes",
        "in=f16 acc=f32 block=4 frac=10 floor=500",
        "in=e4m3 acc=f16 block=128 frac=22 zeros=keep",
        "in=e5m2 mul=e5m2 acc=e5m2 group=3 outer=e4m3",
        "in=bf16 acc=(1,7,8):ra",
        "in=bf16 mul=bf16:ru acc=bf16:ru",
        "in=e2m1 scale=ue4m3:16 acc=f32 block=32 frac=20",
        "in=f16 mul=f16 acc=f16 block=4 tree=yes group=12 outer=f32",
        "in=f16 mul=(1,2,8) acc=(1,2,8) split=5 total=e4m3:ro",
        "in=bf16 acc=f32:rd block=7 frac=35 late=40 reach=3 halves=yes zeros=keep",
        "in=f16 acc=bf16 group=9 lanes=8 order=evenodd split=2",
    };
    struct rng r = { 17 };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        for (int kind = 0; kind < VALUE_KINDS && is_case_taken((int)i, 2); kind += 2)
            compare_with_reference(&(struct simulated){ .text = texts[i],
                                                        .u = unit(texts[i]),
                                                        .m = 20,
                                                        .n = 33,
                                                        .k = 150,
                                                        .kind = kind,
                                                        .counts = true },
                                   &r);
}

/* Simulated products with alpha and beta, in many formats of result, also transposed, have the
 * interpreter's bits. */
static void results_are_scaled_and_stored(void **state)
{
    static const struct {
        const char *text, *in, *out;
        double alpha, beta;
    } cases[] = {
        { "in=e5m2 mul=e5m2 acc=f16", "f16", "f16", 0, 0 },
        { "h100-bf16", "bf16", "f64", -1.5, 2 },
        { "a100-tf32", "f64", "dd", 3, 0 },
        { "a100-tf32", "f32", "dd", 1, -3 },
        { "a100-fp16", "f16", "posit16", 1, -3 },
        { "h100-bf16", "bf16", "posit8", 0, 0 },
        { "in=f16 acc=f32 start=c split=2", "f32", "f16", 1, 1 },
        { "ada-e4m3", "e4m3", "bf16", 1, -1 },
        { "in=f64 acc=f64 group=32", "f64", "f64", 0, 0 },
        { "cdna3-e4m3fnuz start=c", "e4m3fnuz", "f32", 1, 1 },
        { "in=(1,5,7) mul=(1,5,7) acc=(1,6,9)", "(1,5,7)", "f32", 0, 3 },
    };
    struct rng r = { 21 };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            if (!is_case_taken((int)i + transposed, 2))
                continue;
            compare_with_reference(&(struct simulated){ .text = cases[i].text,
                                                        .u = unit(cases[i].text),
                                                        .m = 35,
                                                        .n = 39,
                                                        .k = 41,
                                                        .in = cases[i].in,
                                                        .out = cases[i].out,
                                                        .transposed = transposed,
                                                        .alpha = cases[i].alpha,
                                                        .beta = cases[i].beta },
                                   &r);
        }
}

/* Groups of FP64 elements are refused if their length is no multiple of the elements that the
 * kernel multiplies at once. */
static void groups_of_doubles_that_do_not_fit(void **state)
{
    double x[7] = { 1, 2, 3, 4, 5, 6, 7 }, y = 9;
    limber_unit u = unit("in=f64 acc=f64 group=7");
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &u };

    (void)state;
    assert_refused(limber_gemm(cuda, &contract, 1, 1, 7, NULL, matrix(x, named("f64"), 1, 7, false),
                               matrix(x, named("f64"), 7, 1, false), NULL,
                               output_of(matrix(&y, named("f64"), 1, 1, false)), NULL),
                   LIMBER_STATUS_NO_SCHEME, "groups of f64 are multiples");
    assert_true(y == 9);
}

/* A unit with stochastic rounding has the interpreter's bits with another seed, with k = 0 and
 * with an empty result. */
static void seeds_and_empty_products(void **state)
{
    const char *text = "in=f16 mul=(1,5,7):rs acc=(1,8,9):rs group=7 outer=f16:rs split=2 "
                       "total=f32:rs out=bf16:rs seed=5 bits=11";
    struct simulated p = { .text = text, .u = unit(text), .m = 66, .n = 40, .k = 50 };
    struct rng r = { 31 };

    (void)state;
    p.u.seed = rng_next(&r);
    compare_with_reference(&p, &r);
    p.k = 0;
    p.beta = 2;
    compare_with_reference(&p, &r);
    p.m = 0;
    compare_with_reference(&p, &r);
}

/* With a small workspace, C is computed piece by piece.  Each piece must use the right positions
 * (of random bits) and block scales. */
static void parts_have_the_same_bits(void **state)
{
    static const char *const texts[] = {
        "in=e4m3 scale=e8m0:8 mul=(1,5,4):rs acc=f16 group=10 outer=f16:rs seed=4", "b200-nvfp4"
    };
    const limber_config small = { .size = sizeof(limber_config),
                                  .backend = "cuda",
                                  .cache_dir = "",
                                  .threads = 1,
                                  .workspace_bytes = 200000 };
    limber_context *whole = cuda;
    struct rng r = { 41 };

    (void)state;
    assert_int_equal(limber_create(&cuda, &small), LIMBER_STATUS_OK);
    for (size_t i = 0; i < COUNT(texts); i++)
        compare_with_reference(&(struct simulated){ .text = texts[i],
                                                    .u = unit(texts[i]),
                                                    .m = 100,
                                                    .n = 150,
                                                    .k = 100,
                                                    .counts = true },
                               &r);
    limber_destroy(cuda);
    cuda = whole;
}

/* Convolutions on four simulated units have the interpreter's bits in both layouts. */
static void convolutions_are_simulated(void **state)
{
    static const char *const texts[] = {
        "in=e5m2 mul=e5m2 acc=(1,6,9) group=4 outer=f16",
        "a100-bf16",
        "in=e4m3 scale=e8m0:4 acc=f32",
        "in=f16 mul=f16:rs acc=f16:rs seed=3 order=reverse",
    };
    limber_context *const both[] = { reference, cuda };
    struct rng r = { 51 };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        same_simulated_conv(&r, texts[i], i % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW, both,
                            NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_bits_of_the_interpreter),
        cmocka_unit_test(random_units_compute_what_they_describe),
        cmocka_unit_test(corners_have_the_bits_of_the_interpreter),
        cmocka_unit_test(results_are_scaled_and_stored),
        cmocka_unit_test(groups_of_doubles_that_do_not_fit),
        cmocka_unit_test(seeds_and_empty_products),
        cmocka_unit_test(parts_have_the_same_bits),
        cmocka_unit_test(convolutions_are_simulated),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
