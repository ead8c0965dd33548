/* SPDX-License-Identifier: BSD-3-Clause
 * Every product of a batch has the bits of limber_gemm.  Invalid batches are refused, and a failure
 * leaves all results unchanged. */
#include "compiler.h"
#include "contexts.h"
#include "engine_support.h"
#include "support.h"

#include "jit/api/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_CONTEXTS = 12 };

static limber_context *contexts[MOST_CONTEXTS];
static int context_count;

/* Creates contexts on every available backend, with one thread and with four. */
static int make_contexts(void **state)
{
    (void)state;
    context_count = make_contexts_of_backends(contexts, MOST_CONTEXTS, (const int[]){ 1, 4, 0 });
    return context_count > 0 ? 0 : -1;
}

/* ---- batches have the bits of single products ------------------------------------------------ */

/* A random batch, with its operands, and the results of single calls in `want`. */
struct trial {
    /* steps: distances of consecutive matrices, in elements */
    int64_t count, m, n, k, step_a, step_b, step_c;
    limber_format fa, fb, fc;
    limber_contract contract;
    /* pointers: matrices are given by their addresses; columns: they are column-major; scalars:
     * alpha and beta are given */
    bool pointers, columns, scalars;
    enum data data;
    char *a, *b, *c0, *c, *want;
    const void **pa, **pb;
    void **pc;
    char scalar[2][16];
};

/* Elements of an array that holds the matrices of a batch. */
static size_t element_count(int64_t count, int64_t step, int64_t rows, int64_t cols)
{
    return (size_t)((count > 0 ? count : 1) * step + rows * cols + 1);
}

/* Allocates a trial's random matrices.  The arrays of addresses list B and C in reverse order. */
static void make_trial(struct rng *r, struct trial *t)
{
    limber_format fs = t->fc.kind == LIMBER_KIND_INT ? named("i64") : t->fc;
    size_t na = element_count(t->count, t->step_a, t->m, t->k);
    size_t nb = element_count(t->count, t->step_b, t->k, t->n);
    size_t nc = element_count(t->count, t->step_c, t->m, t->n);

    t->a = calloc(na, t->fa.size);
    t->b = calloc(nb, t->fb.size);
    t->c0 = calloc(nc, t->fc.size);
    t->c = calloc(nc, t->fc.size);
    t->want = calloc(nc, t->fc.size);
    fill(r, t->data, t->fa, t->a, na);
    fill(r, t->data, t->fb, t->b, nb);
    fill(r, DATA_bytes, t->fc, t->c0, nc);
    fill(r, DATA_bytes, fs, t->scalar[0], 1);
    fill(r, DATA_bytes, fs, t->scalar[1], 1);
    memcpy(t->c, t->c0, nc * t->fc.size);
    memcpy(t->want, t->c0, nc * t->fc.size);
    t->pa = calloc((size_t)t->count + 1, sizeof *t->pa);
    t->pb = calloc((size_t)t->count + 1, sizeof *t->pb);
    t->pc = calloc((size_t)t->count + 1, sizeof *t->pc);
    /* B and C in reverse order, so that addresses do not rise */
    for (int64_t g = 0; g < t->count; g++) {
        t->pa[g] = t->a + g * t->step_a * t->fa.size;
        t->pb[g] = t->b + (t->count - 1 - g) * t->step_b * t->fb.size;
        t->pc[g] = t->c + (t->count - 1 - g) * t->step_c * t->fc.size;
    }
}

static void free_trial(struct trial *t)
{
    free(t->a);
    free(t->b);
    free(t->c0);
    free(t->c);
    free(t->want);
    free(t->pa);
    free(t->pb);
    free(t->pc);
}

/* Describes a rows x cols matrix in the trial's layout. */
static limber_matrix view(const struct trial *t, const void *data, limber_format f, int64_t rows,
                          int64_t cols)
{
    limber_matrix m = { (void *)(uintptr_t)data, f, cols, 1 };

    if (t->columns) {
        m.row_stride = 1;
        m.col_stride = rows;
    }
    return m;
}

static const void *scalar_or_null(const struct trial *t, int which)
{
    return t->scalars ? t->scalar[which] : NULL;
}

/* Computes the products of a trial one by one, into t->want. */
static limber_status run_singly(limber_context *ctx, const struct trial *t)
{
    limber_status s = LIMBER_STATUS_OK;

    for (int64_t g = 0; g < t->count && s == LIMBER_STATUS_OK; g++) {
        const char *b = t->b + g * t->step_b * t->fb.size;
        char *c = t->want + g * t->step_c * t->fc.size;

        if (t->pointers) {
            b = t->pb[g];
            c = t->want + ((char *)t->pc[g] - t->c);
        }
        s = limber_gemm(ctx, &t->contract, t->m, t->n, t->k, scalar_or_null(t, 0),
                        view(t, t->a + g * t->step_a * t->fa.size, t->fa, t->m, t->k),
                        view(t, b, t->fb, t->k, t->n), scalar_or_null(t, 1),
                        output_of(view(t, c, t->fc, t->m, t->n)), NULL);
    }
    return s;
}

/* Computes all products of a trial as one batch. */
static limber_status run_batch(limber_context *ctx, const struct trial *t, limber_report *report)
{
    limber_batch batch = {
        .size = sizeof(limber_batch), t->count, t->step_a, t->step_b, t->step_c, NULL, NULL, NULL
    };

    if (t->pointers)
        batch = (limber_batch){ .size = sizeof(limber_batch),
                                .count = t->count,
                                .address_a = t->pa,
                                .address_b = t->pb,
                                .address_c = t->pc };
    return gemm_batch(ctx, &t->contract, NULL, &batch, t->m, t->n, t->k, scalar_or_null(t, 0),
                      view(t, t->pointers ? NULL : t->a, t->fa, t->m, t->k),
                      view(t, t->pointers ? NULL : t->b, t->fb, t->k, t->n), scalar_or_null(t, 1),
                      output_of(view(t, t->pointers ? NULL : t->c, t->fc, t->m, t->n)), report);
}

/* Fails the test unless the batch gives the bits of single products. */
static void compare_with_single_products(limber_context *ctx, struct trial *t)
{
    size_t bytes = element_count(t->count, t->step_c, t->m, t->n) * t->fc.size;
    limber_report r = LIMBER_REPORT_INIT;

    if (run_singly(ctx, t) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    if (run_batch(ctx, t, &r) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    if (memcmp(t->c, t->want, bytes))
        fail_msg("%s: %lld x %lld x %lld, %lld products, promise %d, pointers %d, columns %d",
                 r.scheme, (long long)t->m, (long long)t->n, (long long)t->k, (long long)t->count,
                 t->contract.promise, t->pointers, t->columns);
}

/* Formats, schemes and data.  Where the library would choose the scheme by the data, it is named,
 * since a batch has one plan for all its products. */
static const struct {
    const char *a, *b, *c, *scheme;
    limber_promise promise;
    enum data data;
} kinds[] = {
    { "f64", "f64", "f64", "native", LIMBER_CONTRACT_NATIVE, DATA_unit },
    { "f32", "f32", "f32", "native", LIMBER_CONTRACT_NATIVE, DATA_special },
    { "f64", "f64", "f64", NULL, LIMBER_CONTRACT_CORRECT, DATA_spread },
    { "f32", "f32", "f32", NULL, LIMBER_CONTRACT_CORRECT, DATA_unit },
    { "f128", "f128", "f128", NULL, LIMBER_CONTRACT_CORRECT, DATA_unit },
    { "i8", "i8", "i32", NULL, LIMBER_CONTRACT_EXACT, DATA_bytes },
    { "i16", "i8", "i64", NULL, LIMBER_CONTRACT_EXACT, DATA_ints },
    { "i32", "i32", "i32", NULL, LIMBER_CONTRACT_NATIVE, DATA_ints },
};

/* Compares a random batch of this kind with single products. way: bits that select options, such as
 * addresses in place of steps, layouts and scalars. */
static void try_kind(limber_context *ctx, size_t kind, struct rng *r, int way)
{
    struct trial t = {
        .count = rng_below(r, 9),
        .m = 1 + rng_below(r, 20),
        .n = 1 + rng_below(r, 40),
        .k = rng_below(r, 30),
        .fa = named(kinds[kind].a),
        .fb = named(kinds[kind].b),
        .fc = named(kinds[kind].c),
        .data = kinds[kind].data,
        .contract = { .size = sizeof(limber_contract),
                      .promise = kinds[kind].promise,
                      .scheme = kinds[kind].scheme },
        .pointers = way & 1,
        .columns = way & 2,
        .scalars = way & 4,
    };

    t.step_a = way & 8 ? 0 : t.m * t.k + rng_below(r, 3);
    t.step_b = way & 16 ? 0 : t.k * t.n + rng_below(r, 3);
    t.step_c = t.m * t.n + rng_below(r, 3);
    make_trial(r, &t);
    compare_with_single_products(ctx, &t);
    free_trial(&t);
}

/* Batches of all kinds, formats and layouts have the bits of single products on every backend. */
static void batches_are_products(void **state)
{
    struct rng r = { 1 };

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (size_t kind = 0; kind < COUNT(kinds); kind++)
            for (int way = 0; way < 32; way += 1 + rng_below(&r, 3) + (SANITIZED ? 6 : 0))
                try_kind(contexts[c], kind, &r, way);
}

/* A batch of many small products is divided among threads and gives the right results. */
static void batches_of_many_small_products(void **state)
{
    struct rng r = { 2 };

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < 4; i++) {
            bool slow = strcmp(contexts[c]->machine.backend->name, "interp") == 0;
            struct trial t = { .count = slow || SANITIZED ? 200 : 3000,
                               .m = 9,
                               .n = 17,
                               .k = 8,
                               .step_a = 72,
                               .step_b = i & 1 ? 0 : 136,
                               .step_c = 153,
                               .fa = named("f64"),
                               .fb = named("f64"),
                               .fc = named("f64"),
                               .pointers = i == 2,
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = i & 2 ? LIMBER_CONTRACT_CORRECT :
                                                                LIMBER_CONTRACT_NATIVE } };

            make_trial(&r, &t);
            compare_with_single_products(contexts[c], &t);
            free_trial(&t);
        }
}

/* A few large products, each of which is divided among all threads, give the right results. */
static void batches_of_few_large_products(void **state)
{
    struct rng r = { 3 };
    struct trial t = { .count = 3,
                       .m = 260,
                       .n = 270,
                       .k = 280,
                       .step_a = 260 * 280,
                       .step_b = 280 * 270,
                       .step_c = 260 * 270,
                       .fa = named("f32"),
                       .fb = named("f32"),
                       .fc = named("f32"),
                       .contract = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_CORRECT } };

    (void)state;
    for (int c = 0; c < context_count; c++) {
        if (strcmp(contexts[c]->machine.backend->name, "interp") == 0)
            continue;
        make_trial(&r, &t);
        compare_with_single_products(contexts[c], &t);
        free_trial(&t);
    }
}

/* A single large product given by address: sampling and partitioning must read operands through the
 * addresses. */
static void one_large_product_by_addresses(void **state)
{
    static const enum data data[] = { DATA_unit, DATA_spread, DATA_zeros };
    struct rng r = { 6 };

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (size_t kind = 0; kind < COUNT(kinds); kind++) {
            struct trial t = { .count = 1,
                               .m = 140,
                               .n = 150,
                               .k = 160,
                               .fa = named(kinds[kind].a),
                               .fb = named(kinds[kind].b),
                               .fc = named(kinds[kind].c),
                               .data = data[(kind + (size_t)c) % COUNT(data)],
                               .pointers = true,
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = kinds[kind].promise,
                                             .on_miss = LIMBER_ON_MISS_GENERIC } };

            if (strcmp(contexts[c]->machine.backend->name, "interp") == 0)
                continue;
            if (t.contract.promise == LIMBER_CONTRACT_EXACT)
                t.data = kinds[kind].data;
            make_trial(&r, &t);
            compare_with_single_products(contexts[c], &t);
            free_trial(&t);
        }
}

/* Results are right if their rows or elements are interleaved in one array. */
static void results_may_interleave(void **state)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_EXACT };
    const limber_format i32 = named("i32");

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int way = 0; way < 2; way++) {
            const int32_t a[4] = { 1, 2, 3, 4 }, b[8] = { 1, 0, 0, 1, 2, 0, 0, 2 };
            limber_matrix to =
                way ? (limber_matrix){ NULL, i32, 4, 2 } : (limber_matrix){ NULL, i32, 4, 1 };
            limber_batch batch = {
                .size = sizeof(limber_batch), .count = 2, .b = 4, .c = way ? 1 : 2
            };
            int32_t out[8] = { 0 };
            int32_t want[2][8] = { { 1, 2, 2, 4, 3, 4, 6, 8 }, { 1, 2, 2, 4, 3, 6, 4, 8 } };

            to.data = out;
            assert_int_equal(gemm_batch(contexts[c], &contract, NULL, &batch, 2, 2, 2, NULL,
                                        (limber_matrix){ (void *)(uintptr_t)a, i32, 2, 1 },
                                        (limber_matrix){ (void *)(uintptr_t)b, i32, 2, 1 }, NULL,
                                        output_of(to), NULL),
                             LIMBER_STATUS_OK);
            assert_memory_equal(out, want[way], sizeof out);
        }
}

/* True if the context can simulate units.  These have no prebuilt kernels, so that `llvm` needs a
 * compiler. */
static bool can_simulate(const limber_context *ctx)
{
    return strcmp(ctx->machine.backend->name, "llvm") || compiler_here();
}

/* Batches on a simulated unit have the bits of single products, and count the same. */
static void batches_are_simulated(void **state)
{
    struct rng r = { 4 };
    limber_unit unit = LIMBER_UNIT_INIT;

    (void)state;
    assert_int_equal(limber_unit_parse("a100-fp16", &unit), LIMBER_STATUS_OK);
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < 4 && can_simulate(contexts[c]); i++) {
            limber_statistics one = LIMBER_STATISTICS_INIT, all = LIMBER_STATISTICS_INIT;
            struct trial t = { .count = 40,
                               .m = 5,
                               .n = 6,
                               .k = 30,
                               .step_a = 150,
                               .step_b = 180,
                               .step_c = 30,
                               .fa = named("f16"),
                               .fb = named("f16"),
                               .fc = named("f32"),
                               .pointers = i & 1,
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = LIMBER_CONTRACT_SIMULATE,
                                             .unit = &unit } };

            make_trial(&r, &t);
            compare_with_single_products(contexts[c], &t);
            if (i & 2) {
                t.contract.statistics = &all;
                assert_int_equal(run_batch(contexts[c], &t, NULL), LIMBER_STATUS_OK);
                t.count = 1;
                t.contract.statistics = &one;
                assert_int_equal(run_batch(contexts[c], &t, NULL), LIMBER_STATUS_OK);
                assert_int_equal(all.products, 40 * one.products);
                assert_int_equal(all.a.count, 40 * one.a.count);
            }
            free_trial(&t);
        }
}

/* ---- calls that fail or are refused ---------------------------------------------------------- */

/* A sum of the last product overflows: no result may be stored. */
static void overflow_leaves_all_results(void **state)
{
    struct rng r = { 5 };

    (void)state;
    for (int c = 0; c < context_count; c++)
        for (int i = 0; i < 4; i++) {
            struct trial t = { .count = 300,
                               .m = 6,
                               .n = 7,
                               .k = 3,
                               .step_a = 18,
                               .step_b = 21,
                               .step_c = 42,
                               .fa = named("i16"),
                               .fb = named("i16"),
                               .fc = named("i32"),
                               .data = DATA_zeros,
                               .pointers = i & 1,
                               .scalars = i & 2,
                               .contract = { .size = sizeof(limber_contract),
                                             .promise = LIMBER_CONTRACT_EXACT } };
            int16_t *a, *b;

            make_trial(&r, &t);
            a = (int16_t *)t.a + (t.count - 1) * t.step_a;
            b = (int16_t *)(t.pointers ? t.b : t.b + (t.count - 1) * t.step_b * 2);
            for (int p = 0; p < 3; p++) {
                a[p] = INT16_MIN;
                b[7 * p] = INT16_MIN;
            }
            if (run_batch(contexts[c], &t, NULL) != LIMBER_STATUS_RANGE)
                fail_msg("not RANGE: %s", limber_error_text());
            assert_memory_equal(t.c, t.c0, element_count(t.count, t.step_c, t.m, t.n) * t.fc.size);
            free_trial(&t);
        }
}

/* A batch of 2 x 2 products that must be refused with this text. */
struct refusal {
    limber_batch batch;
    limber_matrix a, b, c;
    const char *text;
};

/* Checks that the call is refused with a text that names the bad argument. */
static void expect_refusal(const struct refusal *f)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE };
    limber_batch batch = f->batch;
    limber_status s;

    batch.size = sizeof batch;
    s = gemm_batch(contexts[0], &contract, NULL, &batch, 2, 2, 2, NULL, f->a, f->b, NULL,
                   output_of(f->c), NULL);

    if (s != LIMBER_STATUS_BAD_ARGUMENT || !strstr(limber_error_text(), f->text))
        fail_msg("\"%s\" in the place of \"%s\"", limber_error_text(), f->text);
    assert_non_null(strstr(limber_error_text(), "run: "));
}

/* Each invalid argument of a batch is refused with a text that names it. */
static void arguments_are_named(void **state)
{
    const limber_format f64 = named("f64");
    double x[64] = { 0 }, y[64] = { 0 };
    limber_matrix a = { x, f64, 2, 1 }, b = { x + 32, f64, 2, 1 }, c = { y, f64, 2, 1 };
    limber_matrix none = { NULL, f64, 2, 1 }, inside = { x + 4, f64, 2, 1 };
    limber_matrix wide = { y, f64, 8, 1 };
    const void *pa[4] = { x, x, x, NULL }, *high[4] = { x, x, (void *)(UINTPTR_MAX - 7), x };
    void *same[4] = { y, y + 4, y + 8, y + 5 }, *in[4] = { y, y + 4, x + 6, y + 8 };
    const struct refusal rows[] = {
        { { .count = -1 }, a, b, c, "batch.count = -1 is negative" },
        { { .count = 2, .a = -3 }, a, b, c, "batch.a = -3 is negative" },
        { { .count = 2, .b = -4 }, a, b, c, "batch.b = -4 is negative" },
        { { .count = 2, .c = -5 }, a, b, c, "batch.c = -5 is negative" },
        { { .count = 2 }, a, b, c, "batch.c = 0 with 2 products" },
        { { .count = 2, .c = 3 }, a, b, c, "batch.c = 3 makes matrices of c overlap" },
        { { .count = 3, .c = 4 }, a, b, wide, "products 0 and 2" },
        { { .count = 9, .c = 1 }, a, b, wide, "batch.c = 1 makes matrices of c overlap" },
        { { .count = 2, .c = INT64_MAX / 4 }, a, b, c, "exceed the address space" },
        { { .count = INT64_MAX, .a = 2, .c = 4 }, a, b, c, "batch.a = 2: " },
        { { .count = 4, .c = 4, .address_a = pa }, none, b, c, "batch.address_a[3] is NULL" },
        { { .count = 4, .c = 4, .address_b = pa }, a, none, c, "batch.address_b[3] is NULL" },
        { { .count = 4, .c = 4, .address_b = high },
          a,
          none,
          c,
          "batch.address_b[2]: the matrix exceeds" },
        { { .count = 4, .address_c = same }, a, b, none, "c of product 1 overlaps c of product 3" },
        { { .count = 4, .a = 4, .address_c = in },
          a,
          b,
          none,
          "c of product 2 overlaps a of product 1" },
        { { .count = 2, .a = 4, .c = 4 }, a, b, inside, "c of product 0 overlaps a of product 1" },
        { { .count = 2, .c = 4 }, none, b, c, "a.data is NULL" },
        { { .count = 2, .c = 4 }, a, none, c, "b.data is NULL" },
        { { .count = 2, .c = 4 }, a, b, none, "c.data is NULL" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refusal(&rows[i]);
}

/* Operands and results may be blocks of one array, as in a blocked factorisation. */
static void blocks_of_one_array(void **state)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE };
    const limber_format f64 = named("f64");
    double x[2 * 16] = { 0 };
    limber_batch batch = { .size = sizeof(limber_batch), .count = 2, .a = 16, .b = 16, .c = 16 };
    void *pc[2] = { x + 16 + 10, x + 10 };

    (void)state;
    for (int i = 0; i < 32; i++)
        x[i] = i % 16 < 8 ? 1 + i % 4 % 2 : 0;
    for (int way = 0; way < 2; way++) {
        assert_int_equal(gemm_batch(contexts[0], &contract, NULL, &batch, 2, 2, 2, NULL,
                                    (limber_matrix){ x + 2, f64, 1, 4 },
                                    (limber_matrix){ x + 4, f64, 1, 4 }, NULL,
                                    (limber_output){ x + 10, f64, 1, 4 }, NULL),
                         LIMBER_STATUS_OK);
        assert_true(x[10] == 1 * 1 + 1 * 2);
        batch.address_c = pc;
    }
}

/* A batch of no products leaves C unchanged and needs no arrays; no batch at all means a single
 * product. */
static void empty_and_single_batches(void **state)
{
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE };
    const limber_format f64 = named("f64");
    double x = 3, y = 4, z = 5;
    limber_matrix a = { &x, f64, 1, 1 }, b = { &y, f64, 1, 1 }, c = { &z, f64, 1, 1 };
    limber_matrix none = { NULL, f64, 1, 1 };
    limber_batch batch = { .size = sizeof(limber_batch), .count = 0 };
    limber_report r = { .size = sizeof r, .rows = -1 };

    (void)state;
    assert_int_equal(gemm_batch(contexts[0], &contract, NULL, &batch, 1, 1, 1, NULL, none, none,
                                NULL, output_of(none), &r),
                     LIMBER_STATUS_OK);
    assert_int_equal(r.rows, 0);
    assert_true(z == 5);
    assert_int_equal(gemm_batch(contexts[0], &contract, NULL, NULL, 1, 1, 1, NULL, a, b, NULL,
                                output_of(c), NULL),
                     LIMBER_STATUS_OK);
    assert_true(z == 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_products),
        cmocka_unit_test(batches_of_many_small_products),
        cmocka_unit_test(batches_of_few_large_products),
        cmocka_unit_test(one_large_product_by_addresses),
        cmocka_unit_test(results_may_interleave),
        cmocka_unit_test(batches_are_simulated),
        cmocka_unit_test(overflow_leaves_all_results),
        cmocka_unit_test(arguments_are_named),
        cmocka_unit_test(blocks_of_one_array),
        cmocka_unit_test(empty_and_single_batches),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
