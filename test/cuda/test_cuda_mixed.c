/* SPDX-License-Identifier: BSD-3-Clause
 * Mixed products, whose C is the sum of several parts with plans of their own, on a GPU or on the
 * harness.  Each part must multiply its own lines and tiles only, and store to the right places. */
#include "gpus.h"
#include "support.h"

#include "jit/api/api.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A context that never divides a product into parts. */
static limber_context *whole;

static int open_contexts(void **state)
{
    const limber_config uncut = { .size = sizeof(limber_config),
                                  .backend = "cuda",
                                  .cache_dir = "",
                                  .partition = LIMBER_PARTITION_OFF };

    if (gpu_open(state) || limber_create(&whole, &uncut))
        return -1;
    cuda->pricing.brief = 0;
    return 0;
}

static int close_contexts(void **state)
{
    limber_destroy(whole);
    return gpu_close(state);
}

enum { TILE_LINES = 64, TILE_LENGTH = 256 };

/* A row-major FP32 matrix.  Tiles are of two kinds: numbers of many magnitudes ("wide"), or of one
 * ("narrow").  wide: [row of tiles][column of tiles], nonzero if the tile has many magnitudes. */
struct operand {
    int64_t lines, k, tiles;
    float *x;
    unsigned char *wide;
};

/* Makes a random matrix.  About one tile in `every` has a wide range of exponents; if `every` is
 * 0, no tile has. first: if not negative, wide tiles fill one column of tiles in `every`, starting
 * with this one, except for its first tile. */
static struct operand make_operand(struct rng *r, int64_t lines, int64_t k, int every, int first)
{
    struct operand o = { lines, k, (k + TILE_LENGTH - 1) / TILE_LENGTH, NULL, NULL };

    o.x = malloc((size_t)(lines * k) * sizeof *o.x);
    o.wide = calloc((size_t)((lines / TILE_LINES + 1) * o.tiles), 1);
    for (int64_t i = 0; i < (lines + TILE_LINES - 1) / TILE_LINES * o.tiles; i++)
        o.wide[i] = every && (first < 0 ? rng_below(r, every) == 0 :
                                          i % o.tiles % every == first && i != first);
    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < k; p++) {
            double x = (1 + rng_unit(r)) * (rng_below(r, 2) ? 1 : -1);

            if (o.wide[i / TILE_LINES * o.tiles + p / TILE_LENGTH])
                x = ldexp(x, rng_below(r, 40) - 20);
            o.x[i * k + p] = (float)x;
        }
    return o;
}

/* Returns a copy that keeps the tiles with one magnitude (narrow), those with many (wide), or both,
 * and has zeros in all others. */
static float *copy_tiles(const struct operand *o, bool narrow, bool wide)
{
    float *x = calloc((size_t)(o->lines * o->k), sizeof *x);

    for (int64_t i = 0; i < o->lines; i++)
        for (int64_t p = 0; p < o->k; p++)
            if (o->wide[i / TILE_LINES * o->tiles + p / TILE_LENGTH] ? wide : narrow)
                x[i * o->k + p] = o->x[i * o->k + p];
    return x;
}

static void free_operand(struct operand *o)
{
    free(o->x);
    free(o->wide);
}

static void multiply_floats(limber_context *ctx, const limber_contract *contract, int64_t m,
                            int64_t n, int64_t k, const float *a, const float *b, const float *beta,
                            float *c, bool transposed, limber_report *report)
{
    limber_format f = named("f32");

    if (limber_gemm(ctx, contract, m, n, k, NULL, (limber_matrix){ (void *)(uintptr_t)a, f, k, 1 },
                    (limber_matrix){ (void *)(uintptr_t)b, f, 1, k }, beta,
                    (limber_output){ c, f, transposed ? 1 : n, transposed ? m : 1 }, report))
        fail_msg("%s", limber_error_text());
}

/* If two schemes share a product, each computes the product of the matrices in which the other
 * scheme's tiles are zero.  C must be the sum of both parts.  Few tiles are wide; with more, one
 * scheme for the whole product would cost no more than two. */
static void parts_are_products_with_zeros(void **state)
{
    static const struct {
        const char *both, *narrow, *wide;
        int every_a, every_b;
    } cases[] = {
        { "fp32-f+fp32-b", "fp32-f", "fp32-b", 9, 9 },
        { "fp32-f+fp32-b9", "fp32-f", "fp32-b9", 4, 0 },
        { "fp32-f+fp32-t", "fp32-f", "fp32-t", 0, 4 },
    };
    struct rng r = { 91 };

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t m = c ? 300 : 200, n = 70, k = c ? 1000 : 2200;
        bool transposed = c == 1;
        struct operand a = make_operand(&r, m, k, cases[c].every_a, 1),
                       b = make_operand(&r, n, k, cases[c].every_b, 2);
        float *an = copy_tiles(&a, true, false), *aw = copy_tiles(&a, false, true),
              *bn = copy_tiles(&b, true, false);
        float *bw = copy_tiles(&b, false, true), one = 1;
        float *want = calloc((size_t)(m * n), sizeof *want),
              *got = calloc((size_t)(m * n), sizeof *got);
        limber_contract both = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_FAST,
                                 .scheme = cases[c].both };
        limber_contract narrow = { .size = sizeof(limber_contract),
                                   .promise = LIMBER_CONTRACT_FAST,
                                   .scheme = cases[c].narrow,
                                   .split = LIMBER_SPLIT_AHEAD };
        limber_contract wide = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_FAST,
                                 .scheme = cases[c].wide,
                                 .split = LIMBER_SPLIT_AHEAD };
        limber_contract probe = { .size = sizeof(limber_contract),
                                  .promise = LIMBER_CONTRACT_FAST,
                                  .scheme = cases[c].narrow };
        limber_report report = LIMBER_REPORT_INIT;

        if (limber_gemm(whole, &probe, 1, 1, 1, NULL, (limber_matrix){ a.x, named("f32"), 1, 1 },
                        (limber_matrix){ b.x, named("f32"), 1, 1 }, NULL,
                        (limber_output){ got, named("f32"), 1, 1 },
                        NULL) == LIMBER_STATUS_NO_SCHEME)
            goto next; /* the device has no such tensor cores */
        multiply_floats(cuda, &both, m, n, k, a.x, b.x, NULL, got, transposed, &report);
        assert_true(report.parts >= (cases[c].every_a && cases[c].every_b ? 3 : 2));
        multiply_floats(whole, &narrow, m, n, k, an, bn, NULL, want, transposed, NULL);
        if (cases[c].every_a)
            multiply_floats(whole, &wide, m, n, k, aw, b.x, &one, want, transposed, NULL);
        if (cases[c].every_b)
            multiply_floats(whole, &wide, m, n, k, an, bw, &one, want, transposed, NULL);
        assert_same_numbers(named("f32"), want, got, (size_t)(m * n), "%s", cases[c].both);
    next:
        free(an);
        free(aw);
        free(bn);
        free(bw);
        free(want);
        free(got);
        free_operand(&a);
        free_operand(&b);
    }
}

/* Returns a copy that keeps the tiles whose kind is in the set, and has zeros in all others. */
static float *copy_kinds(const struct operand *o, unsigned kinds)
{
    float *x = calloc((size_t)(o->lines * o->k), sizeof *x);

    for (int64_t i = 0; i < o->lines * o->k; i++)
        if (kinds >> o->wide[i / o->k / TILE_LINES * o->tiles + i % o->k / TILE_LENGTH] & 1)
            x[i] = o->x[i];
    return x;
}

/* Three schemes share a product: for numbers of 1, of 40 and of 120 binades.  Each computes the
 * product of the matrices in which other tiles are zero; C must be the sum of the parts, in their
 * order.  Ozaki II stands for any scheme whose bits do not depend on the order of sums. */
static void three_schemes_share_a_product(void **state)
{
    static const struct {
        unsigned a, b;
        const char *scheme;
    } parts[] = { { 1, 1, "fp32-f" },
                  { 2, 3, "fp32-b" },
                  { 1, 2, "fp32-b" },
                  { 4, 7, "ozaki2" },
                  { 3, 4, "ozaki2" } };
    enum { M = 140, N = 100, K = 700 };
    struct rng r = { 92 };
    struct operand o[2] = { make_operand(&r, M, K, 2, -1), make_operand(&r, N, K, 2, -1) };
    float *want = calloc(M * N, sizeof *want), *got = calloc(M * N, sizeof *got), one = 1;
    limber_contract k = { .size = sizeof k, .promise = LIMBER_CONTRACT_FAST, .scheme = "fp32-b" };
    limber_report report = LIMBER_REPORT_INIT;

    (void)state;
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < o[side].lines * K; i++) {
            unsigned char *kind =
                &o[side].wide[i / K / TILE_LINES * o[side].tiles + i % K / TILE_LENGTH];

            if (i % K % TILE_LENGTH == 0 && i / K % TILE_LINES == 0 && *kind)
                *kind = (unsigned char)(1 + rng_below(&r, 2));
            if (*kind == 2)
                o[side].x[i] =
                    (float)ldexp((double)o[side].x[i] < 0 ? -1.25 : 1.25, -rng_below(&r, 120));
        }
    if (limber_gemm(whole, &k, 1, 1, 1, NULL, (limber_matrix){ &one, named("f32"), 1, 1 },
                    (limber_matrix){ &one, named("f32"), 1, 1 }, NULL,
                    (limber_output){ got, named("f32"), 1, 1 }, NULL) != LIMBER_STATUS_NO_SCHEME) {
        k.scheme = "fp32-f+fp32-b+ozaki2";
        multiply_floats(cuda, &k, M, N, K, o[0].x, o[1].x, NULL, got, false, &report);
        assert_int_equal(report.parts, 5);
        k.split = LIMBER_SPLIT_AHEAD;
        for (int i = 0; i < 5; i++) {
            float *a = copy_kinds(&o[0], parts[i].a), *b = copy_kinds(&o[1], parts[i].b);

            k.scheme = parts[i].scheme;
            multiply_floats(whole, &k, M, N, K, a, b, i ? &one : NULL, want, false, NULL);
            free(a);
            free(b);
        }
        assert_same_numbers(named("f32"), want, got, (size_t)(M * N), "%s",
                            k.scheme ? k.scheme : "several");
    }
    free(want);
    free(got);
    free_operand(&o[0]);
    free_operand(&o[1]);
}

static const struct gpu_fault faults[] = {
    { 90, "a step that is fetched and not multiplied",
      "            if (is_step_needed(a, t, s)) {=>            {" },
    { 90, "a step that is multiplied and was not fetched",
      "if (!is_step_needed(a, t, s))\\n                continue;=>" },
    { 90, "another row's tiles", "a.shown_a + (t.i >> pairs(a)) * a.shown=>a.shown_a" },
    { 100, "a step that is fetched and not multiplied",
      "            if (is_step_needed(a, t, s)) {=>            {" },
    { 100, "sums that are awaited and were not made",
      "    if (!PARTED)\\n        return s < end;=>    return s < end;\n"
      "            if (!is_part(a, t, s, end))\\n                continue;\\n            barrier=>"
      "            if (end_of(s, steps) < 0)\\n                continue;\\n            barrier" },
    { 100, "the other accumulators overwritten", "            barrier_wait(OTHERS, others);=>" },
    { 100, "the other accumulators given back too early",
      "        if (any)\\n            UNROLL=>        announce_taken(OTHERS);\\n        if (any)\\n"
      "            UNROLL\n        announce_taken(OTHERS);\\n    }=>    }" },
};

/* A product to compute by faulty kernels, and its expected result. */
struct wanted {
    struct operand a, b;
    float *c;
};

/* Multiplies by kernels with a planted fault.  Returns 1 if the result is the expected one, 0 if
 * not, 2 if there is no context, 3 if NVRTC refuses the kernels. */
static int run_faulty(void *arg)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "cuda",
                                   .cache_dir = "" };
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_FAST,
                                       .scheme = "fp32-f+fp32-b" };
    const struct operand *a = &((struct wanted *)arg)->a, *b = &((struct wanted *)arg)->b;
    size_t bytes = (size_t)(a->lines * b->lines) * sizeof(float);
    limber_format f = named("f32");
    float *c = malloc(bytes);
    limber_context *ctx;

    if (limber_create(&ctx, &config))
        return 2;
    if (limber_gemm(ctx, &contract, a->lines, b->lines, a->k, NULL,
                    (limber_matrix){ a->x, f, a->k, 1 }, (limber_matrix){ b->x, f, 1, b->k }, NULL,
                    (limber_output){ c, f, b->lines, 1 }, NULL))
        return strstr(limber_error_text(), "NVRTC") ? 3 : 0;
    return memcmp(c, ((struct wanted *)arg)->c, bytes) ? 0 : 1;
}

/* Multiplies by two schemes at once, each for a part of the result; each fault planted in the
 * kernel must change the result. */
static void planted_faults_are_found(void **state)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_FAST,
                                       .scheme = "fp32-f+fp32-b" };
    struct rng r = { 93 };
    struct wanted w;

    (void)state;
    if (SANITIZED || gpu_capability() < 90)
        skip_because("its kernels need capability 9.0, and no sanitizer");
    w.a = make_operand(&r, 600, 600, 2, -1);
    w.b = make_operand(&r, 40, 600, 2, -1);
    w.c = malloc((size_t)(w.a.lines * w.b.lines) * sizeof *w.c);
    multiply_floats(cuda, &contract, w.a.lines, w.b.lines, w.a.k, w.a.x, w.b.x, NULL, w.c, false,
                    NULL);
    gpu_faults_are_found(faults, sizeof faults / sizeof *faults, run_faulty, &w);
    free(w.c);
    free_operand(&w.a);
    free_operand(&w.b);
}

/* Rows differ so much in magnitude that groups of them need different numbers of moduli.  The
 * interpreter's bits are expected. */
static void groups_of_lines_have_moduli_of_their_own(void **state)
{
    enum { M = 200, N = 140, K = 90 };
    limber_format f = named("f64");
    struct rng r = { 92 };
    double *a = malloc(M * K * 8), *b = malloc(N * K * 8);
    double *want = calloc(M * N, 8), *got = calloc(M * N, 8);
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_CORRECT };
    limber_report report = LIMBER_REPORT_INIT;

    (void)state;
    for (int i = 0; i < M * K; i++)
        a[i] = ldexp(rng_unit(&r) - 0.5, i / K == 70 ? rng_below(&r, 500) - 250 : 0);
    for (int i = 0; i < N * K; i++)
        b[i] = ldexp(rng_unit(&r) - 0.5, i / K == 3 ? rng_below(&r, 500) - 250 : 0);
    a[5 * K + 7] = NAN;
    for (int transposed = 0; transposed < 2; transposed++) {
        limber_context *const ctx[] = { cuda, reference };
        double *const c[] = { got, want };

        for (int i = 0; i < 2; i++)
            if (limber_gemm(ctx[i], &contract, M, N, K, NULL, (limber_matrix){ a, f, K, 1 },
                            (limber_matrix){ b, f, 1, K }, NULL,
                            (limber_output){ c[i], f, transposed ? 1 : N, transposed ? M : 1 },
                            i ? NULL : &report))
                fail_msg("%s", limber_error_text());
        assert_true(report.parts >= 4);
        for (int i = 0; i < M * N; i++)
            if (!same_number(f, &want[i], &got[i]))
                fail_msg("element %d is %a, not %a", i, got[i], want[i]);
    }
    free(a);
    free(b);
    free(want);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_products_with_zeros),
        cmocka_unit_test(three_schemes_share_a_product),
        cmocka_unit_test(groups_of_lines_have_moduli_of_their_own),
        cmocka_unit_test(planted_faults_are_found),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests_name("cuda_mixed", tests, open_contexts, close_contexts);
}
