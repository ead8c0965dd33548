/* SPDX-License-Identifier: BSD-3-Clause
 * The contract `reproducible`: all code computes sums in one documented order, so its bits are
 * those of plain loops.  The last test freezes the bits of version 1 of this order. */
#include "contexts.h"
#include "compiler.h"
#include "engine_support.h"
#include "files.h"
#include "support.h"
#include "used.h"

#include "jit/api/api.h"
#include "order.h"
#include "targets.h"
#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const limber_contract reproducible = { .size = sizeof(limber_contract),
                                              .promise = LIMBER_CONTRACT_REPRODUCIBLE };
static const limber_contract native = { .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_NATIVE };

/* ---- the contexts that compute --------------------------------------------------------------- */

enum { MOST = 32 };
/* The contexts to compare, with names for messages. */
static struct named_context {
    limber_context *ctx;
    char name[80];
} contexts[MOST];
static int count;

/* Whether small products are computed without a plan, by the code paths `direct` and `pairs` of
 * the library, or by kernels. */
enum small_products { SMALL_BY_KERNELS, SMALL_WITHOUT_PLANS };

/* Opens a context and adds it to those that are compared. */
static limber_context *add_context(const char *backend, limber_kernels kernels, int threads,
                                   enum small_products small)
{
    static const char *const words[] = { "auto", "both", "prebuilt", "specialised" };
    limber_config config = LIMBER_CONFIG_INIT;
    struct named_context *w = &contexts[count++];

    assert_true(count <= MOST);
    config.backend = backend;
    config.kernels = kernels;
    config.threads = threads;
    /* the first context on a machine compiles kernels, later ones load them from disk */
    config.cache_dir = kernels == LIMBER_KERNELS_SPECIALISED ? dir : "";
    config.allocator = used_memory();
    if (limber_create(&w->ctx, &config))
        fail_msg("%s", limber_error_text());
    set_planless(w->ctx, small == SMALL_WITHOUT_PLANS);
    snprintf(w->name, sizeof w->name, "%s, %s, threads %d, small %d", w->ctx->machine.target.isa,
             words[kernels], threads, (int)small);
    return w->ctx;
}

#ifdef LIMBER_HAVE_LLVM
/* Adds contexts for other instruction sets that this CPU has: one with specialised kernels, if
 * there is a compiler, and two with prebuilt kernels. */
static void add_targets(void)
{
    struct diag d = { 0 };
    struct target here;

    if (!limber_backend_llvm.probe(&here, &d))
        return;
    for (size_t t = 0; t < COUNT(targets); t++)
        for (int i = compiler_here() ? 0 : 1; i < 3; i++) {
            limber_kernels kernels = i == 0 ? LIMBER_KERNELS_SPECIALISED : LIMBER_KERNELS_PREBUILT;
            struct target *to;

            if (targets[t].emulated || !strstr(here.features, targets[t].needs))
                continue;
            to = &add_context("llvm", kernels, 1, i == 2 ? SMALL_WITHOUT_PLANS : SMALL_BY_KERNELS)
                      ->machine.target;
            memset(to, 0, sizeof *to);
            assert_true(limber_target_parse(to, targets[t].text, &d));
            limber_target_complete(to);
            memcpy(contexts[count - 1].name, to->isa, strlen(to->isa) + 1);
        }
}
#endif

/* Creates contexts for all ways to compute: the interpreter, prebuilt and specialised kernels
 * with 1 to 3 threads, and other instruction sets. */
static int open_contexts(void **state)
{
    if (make_dir(state))
        return -1;
    add_context("interp", LIMBER_KERNELS_AUTO, 1, SMALL_BY_KERNELS);
    for (int threads = 1; threads <= 3; threads++) {
        add_context(NULL, LIMBER_KERNELS_PREBUILT, threads,
                    threads != 2 ? SMALL_WITHOUT_PLANS : SMALL_BY_KERNELS);
        add_context(NULL, LIMBER_KERNELS_SPECIALISED, threads,
                    threads == 2 ? SMALL_WITHOUT_PLANS : SMALL_BY_KERNELS);
    }
    add_context(NULL, LIMBER_KERNELS_BOTH, 2, SMALL_WITHOUT_PLANS);
#ifdef LIMBER_HAVE_LLVM
    add_targets();
#endif
    return 0;
}

static int end(void **state)
{
    while (count > 0)
        limber_destroy(contexts[--count].ctx);
    return remove_dir(state);
}

/* ---- products in the stated order ------------------------------------------------------------ */

enum { GAP = 3 };

/* Describes a row-major or column-major matrix with a padded leading dimension. */
static limber_matrix matrix(const void *data, limber_format f, int64_t rows, int64_t cols,
                            bool by_columns)
{
    return by_columns ? (limber_matrix){ data, f, 1, rows + GAP } :
                        (limber_matrix){ data, f, cols + GAP, 1 };
}

/* Counts the elements of a matrix including those that its padded leading dimension skips. */
static size_t count_padded(int64_t rows, int64_t cols)
{
    return (size_t)((rows + GAP) * (cols + GAP));
}

/* Fails the test at the first element that differs. */
static void expect_same_numbers(limber_format f, const char *want, const char *got, size_t elements,
                                const char *what, const char *way)
{
    for (size_t i = 0; i < elements; i++)
        if (!same_number(f, want + i * f.size, got + i * f.size))
            fail_msg("%s by %s: element %zu of %zu has other bits", what, way, i, elements);
}

/* A product to compute in all contexts. */
struct shape {
    const char *a, *b, *c;
    enum data data;
    int64_t m, n, k;
    unsigned layout; /* bits 0 to 2: A, B, C are column-major */
    bool alpha, beta, one; /* alpha and beta are passed if set; one: beta is 1 */
};

/* Runs a problem in every context, from the C of c0.  Demands the `wanted` numbers, and a report
 * of one product in order 1.  elements: of C. */
static void run_in_all_contexts(limber_problem *p, const char *c0, const char *wanted,
                                size_t elements, const char *what)
{
    const limber_format f = p->c.format;
    char *got = malloc(elements * f.size);

    assert_non_null(got);
    p->c.data = got;
    for (int i = 0; i < count; i++) {
        limber_report report = LIMBER_REPORT_INIT;

        memcpy(got, c0, elements * f.size);
        if (limber_run(contexts[i].ctx, p, &report))
            fail_msg("%s by %s: %s", what, contexts[i].name, limber_error_text());
        assert_int_equal(report.order, 1);
        assert_int_equal(report.parts, 0);
        assert_string_equal(report.scheme, "native");
        expect_same_numbers(f, wanted, got, elements, what, contexts[i].name);
    }
    free(got);
}

/* Computes in every context, and compares with the reference loop. */
static void compare_all_contexts(const struct shape *s, uint64_t seed)
{
    limber_format fa = named(s->a), fb = named(s->b), fc = named(s->c);
    struct rng r = { seed };
    size_t na = count_padded(s->m, s->k), nb = count_padded(s->k, s->n),
           nc = count_padded(s->m, s->n);
    char *a = malloc(na * fa.size), *b = malloc(nb * fb.size), *c0 = malloc(nc * fc.size),
         *want = malloc(nc * fc.size), what[160], alpha[8], beta[8];
    limber_problem p = LIMBER_PROBLEM_INIT;

    assert_true(a && b && c0 && want);
    fill(&r, s->data, fa, a, na);
    fill(&r, s->data, fb, b, nb);
    fill(&r, s->data, fc, c0, nc);
    store_scalar(alpha, fc, -1.625);
    store_scalar(beta, fc, s->one ? 1 : 0.7109375);
    snprintf(what, sizeof what, "%s %s %s, %s, %dx%dx%d, layout %u, alpha %d, beta %d", s->a, s->b,
             s->c, data_name(s->data), (int)s->m, (int)s->n, (int)s->k, s->layout, s->alpha,
             s->beta);
    p.m = s->m;
    p.n = s->n;
    p.k = s->k;
    p.a = matrix(a, fa, s->m, s->k, s->layout & 1);
    p.b = matrix(b, fb, s->k, s->n, s->layout & 2);
    p.c = output_of(matrix(want, fc, s->m, s->n, s->layout & 4));
    p.alpha = s->alpha ? alpha : NULL;
    p.beta = s->beta ? beta : NULL;
    p.contract = &reproducible;
    memcpy(want, c0, nc * fc.size);
    order_gemm(&p);
    run_in_all_contexts(&p, c0, want, nc, what);
    free(a);
    free(b);
    free(c0);
    free(want);
}

/* Reproducible products in ten combinations of formats, seven lengths and seven kinds of data have,
 * in every context, the bits of a plain loop. */
static void every_way_has_the_bits_of_the_loop(void **state)
{
    static const char *const formats[][3] = {
        { "f64", "f64", "f64" },   { "f32", "f32", "f32" }, { "f16", "f16", "f32" },
        { "bf16", "bf16", "f32" }, { "f16", "f16", "f16" }, { "bf16", "bf16", "bf16" },
        { "f32", "f64", "f64" },   { "f32", "f32", "f64" }, { "f64", "f64", "f32" },
        { "f16", "bf16", "f16" },
    };
    static const int64_t ks[] = { 1, 2, 255, 256, 257, 513, 1000 };
    static const int64_t sizes[][2] = { { 1, 1 }, { 7, 5 }, { 33, 47 }, { 1, 70 }, { 65, 2 } };
    static const enum data data[] = { DATA_unit,    DATA_range,  DATA_tiny, DATA_zeros,
                                      DATA_special, DATA_spread, DATA_bytes };
    struct rng r = { 41 };

    (void)state;
    /* all pairs of formats and k are tested, each with one of the kinds of data */
    for (size_t f = 0; f < COUNT(formats); f++)
        for (size_t k = 0; k < COUNT(ks); k++)
            for (size_t j = 0; j < (SANITIZED ? 1 : 3); j++) {
                size_t i = (f + k + 2 * j) % COUNT(data);
                const int64_t *size = sizes[rng_below(&r, COUNT(sizes))];
                unsigned scalars = (unsigned)rng_below(&r, 4);

                compare_all_contexts(&(struct shape){ formats[f][0], formats[f][1], formats[f][2],
                                                      data[i], size[0], size[1], ks[k],
                                                      (unsigned)rng_below(&r, 8), scalars == 1,
                                                      scalars > 1, scalars == 2 },
                                     100 * f + 10 * k + i);
            }
}

/* Dot products and matrix-vector products have the bits of a plain loop.  A SIMD vector may hold
 * partial sums of one row or of several rows. */
static void vectors_have_the_bits_of_the_loop(void **state)
{
    static const int64_t ks[] = { 1, 3, 256, 257, 511, 1023, 2048, 2049, 4097, 9000 };
    static const int64_t sizes[][2] = { { 1, 1 },  { 2, 1 },   { 1, 9 },
                                        { 33, 1 }, { 1, 130 }, { 600, 1 } };
    static const enum data data[] = { DATA_unit, DATA_tiny, DATA_special, DATA_range };
    static const char *const formats[][3] = {
        { "f32", "f32", "f32" },   { "f64", "f64", "f64" },    { "f16", "f16", "f16" },
        { "f16", "f16", "f32" },   { "bf16", "bf16", "bf16" }, { "bf16", "f32", "f32" },
        { "e4m3", "e5m2", "f16" }, { "f32", "f64", "bf16" },   { "f16", "f64", "f64" },
        { "f32", "f32", "f64" },
    };
    struct rng r = { 97 };

    (void)state;
    for (size_t k = 0; k < COUNT(ks); k++)
        for (size_t s = 0; s < COUNT(sizes); s += SANITIZED ? 3 : 1) {
            const int one = rng_below(&r, 2) ? (int)((k + s) % 2) : rng_below(&r, COUNT(formats));
            const unsigned scalars = (unsigned)rng_below(&r, 4);

            compare_all_contexts(&(struct shape){ formats[one][0], formats[one][1], formats[one][2],
                                                  data[rng_below(&r, COUNT(data))], sizes[s][0],
                                                  sizes[s][1], ks[k], (unsigned)rng_below(&r, 8),
                                                  scalars == 1, scalars > 1, scalars == 2 },
                                 100 * k + s);
        }
}

/* Products of a matrix and a few vectors have the bits of a plain loop in every layout, although
 * the library may multiply the vectors one by one. */
static void few_vectors_have_the_bits_of_the_loop(void **state)
{
    static const int64_t sizes[][2] = { { 300, 2 }, { 7, 260 } };

    (void)state;
    for (unsigned i = 0; i < 32; i += SANITIZED ? 5 : 1) {
        const char *f = i & 8 ? "f32" : "f64";
        const int64_t *size = sizes[i >> 4];

        compare_all_contexts(&(struct shape){ f, f, f, DATA_unit, size[0], size[1], 257, i & 7,
                                              i % 3 == 0, i % 3 == 0, false },
                             i);
    }
}

/* Sums without terms are +0 in every layout, with or without scalars. */
static void empty_sums_are_plus_zero(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++)
        compare_all_contexts(
            &(struct shape){ "f64", "f64", "f64", DATA_special, 5, 7, 0, i, i & 1, i & 2, false },
            i);
}

/* A stride of 0 repeats a row, a column or an element along k.  The bits must be those of a dense
 * copy. */
static void repeated_operands_have_the_same_bits(void **state)
{
    static const int64_t sizes[][3] = {
        { 16, 500, 600 }, { 60, 60, 600 }, { 3, 70, 257 }, { 200, 40, 300 }, { 30, 50, 256 }
    };
    const int64_t most = 500 * 600;
    float *x = malloc((size_t)most * 4), *a = malloc((size_t)most * 4);
    float *b = malloc((size_t)most * 4), *want = malloc((size_t)most * 4);
    float *got = malloc((size_t)most * 4);
    struct rng r = { 43 };

    (void)state;
    fill(&r, DATA_unit, LIMBER_F32, x, (size_t)most);
    for (int i = 0; i < 6 * (int)COUNT(sizes); i++) {
        const int64_t *size = sizes[i / 6], m = size[0], n = size[1], k = size[2];
        const int kind = i % 6; /* selects the operand, and the dimension of it that repeats */
        limber_matrix left = { x, LIMBER_F32, k, 1 }, right = { x, LIMBER_F32, n, 1 };
        limber_matrix *one = kind < 3 ? &left : &right;

        *one = (limber_matrix){ x, LIMBER_F32, kind % 3 == 0 ? 0 : 1, kind % 3 == 1 ? 0 : 1 };
        if (kind % 3 == 2)
            /* lines overlap, but no dimension repeats */
            one->row_stride = one->col_stride = 1;
        for (int64_t j = 0; j < m * k; j++)
            a[j] = x[j / k * left.row_stride + j % k * left.col_stride];
        for (int64_t j = 0; j < k * n; j++)
            b[j] = x[j / n * right.row_stride + j % n * right.col_stride];
        for (int w = 0; w < count; w++) {
            if (limber_gemm(contexts[w].ctx, &reproducible, m, n, k, NULL,
                            (limber_matrix){ a, LIMBER_F32, k, 1 },
                            (limber_matrix){ b, LIMBER_F32, n, 1 }, NULL,
                            (limber_output){ w ? got : want, LIMBER_F32, n, 1 }, NULL))
                fail_msg("%s", limber_error_text());
            if (limber_gemm(contexts[w].ctx, &reproducible, m, n, k, NULL, left, right, NULL,
                            (limber_output){ got, LIMBER_F32, n, 1 }, NULL))
                fail_msg("%s", limber_error_text());
            if (memcmp(got, want, (size_t)(m * n) * 4))
                fail_msg("%d x %d x %d, kind %d, by %s", (int)m, (int)n, (int)k, kind,
                         contexts[w].name);
        }
    }
    free(x);
    free(a);
    free(b);
    free(want);
    free(got);
}

/* Packed panels exceed the last-level cache, so that products are split by columns or along k.  The
 * bits must be those of a few columns at a time, which are not packed. */
static void long_operands_have_the_same_bits(void **state)
{
    static const struct {
        limber_format f;
        int64_t m, n, k;
    } shapes[] = { { LIMBER_F64, 200, 2100, 1100 },
                   { LIMBER_F32, 200, 2100, 1100 },
                   { LIMBER_F64, 300, 400, 25000 } };
    enum { COLUMNS = 48 };
    struct rng r = { 77 };

    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const limber_format f = shapes[i].f;
        const int64_t m = shapes[i].m, n = shapes[i].n, k = shapes[i].k;
        char *a = malloc((size_t)(m * k * f.size)), *b = malloc((size_t)(k * n * f.size)),
             *want = malloc((size_t)(m * n * f.size)), *got = malloc((size_t)(m * n * f.size));
        limber_problem p = LIMBER_PROBLEM_INIT;

        assert_true(a && b && want && got);
        fill(&r, DATA_unit, f, a, (size_t)(m * k));
        fill(&r, DATA_unit, f, b, (size_t)(k * n));
        p.m = m;
        p.k = k;
        p.contract = &reproducible;
        p.a = (limber_matrix){ a, f, k, 1 };
        for (int64_t j = 0; j < n; j += COLUMNS) {
            p.n = n - j < COLUMNS ? n - j : COLUMNS;
            p.b = (limber_matrix){ b + j * f.size, f, n, 1 };
            p.c = (limber_output){ want + j * f.size, f, n, 1 };
            assert_int_equal(limber_run(contexts[1].ctx, &p, NULL), LIMBER_STATUS_OK);
        }
        p.n = n;
        p.b = (limber_matrix){ b, f, n, 1 };
        p.c = (limber_output){ got, f, n, 1 };
        for (int w = 1; w <= 5; w += 2) { /* contexts with 1, 2 and 3 threads */
            memset(got, 0xff, (size_t)(m * n * f.size));
            assert_int_equal(limber_run(contexts[w].ctx, &p, NULL), LIMBER_STATUS_OK);
            expect_same_numbers(f, want, got, (size_t)(m * n), "a long product", contexts[w].name);
        }
        free(a);
        free(b);
        free(want);
        free(got);
    }
}

/* Sums of more than 2^24 products, up to which FP32 can count, have the bits of the documented
 * order. */
static void chains_outlast_the_precision(void **state)
{
    enum { LONG = (1 << 24) + 1 };
    static const limber_contract *const contracts[] = { &reproducible, &native };
    float *a = malloc(LONG * sizeof *a), b = 0.7109375f, got;
    float want = 0;

    (void)state;
    assert_non_null(a);
    for (int p = 0; p < LONG; p++)
        a[p] = (float)(p * 2654435761u >> 8) * 0x1p-24f;
    for (int from = 0; from < LONG; from += 256) {
        float s = 0;

        for (int p = from; p < LONG && p < from + 256; p++)
            s = fmaf(a[p], b, s);
        want = from == 0 ? s : want + s;
    }
    for (int i = 0; i < 4; i++) {
        limber_report report = LIMBER_REPORT_INIT;

        got = NAN;
        if (limber_gemm(contexts[1 + i / 2].ctx, contracts[i % 2], 1, 1, LONG, NULL,
                        (limber_matrix){ a, LIMBER_F32, 0, 1 },
                        (limber_matrix){ &b, LIMBER_F32, 0, 0 }, NULL,
                        (limber_output){ &got, LIMBER_F32, 1, 1 }, &report))
            fail_msg("%s", limber_error_text());
        assert_string_equal(report.scheme, "native");
        assert_true(i % 2 ? fabsf(got - want) <= 1e-2f * want : got == want);
    }
    free(a);
}

/* Half of all tiles are zero.  A product under `native` is divided into parts that leave out
 * zero tiles.  A reproducible product must not be divided. */
static void zero_tiles_keep_the_order(void **state)
{
    enum { N = 512, TILE = 256, LINES = 64, BYTES = N * N * sizeof(double) };
    double *a = malloc(BYTES), *b = malloc(BYTES), *want = malloc(BYTES), *got = malloc(BYTES);
    limber_problem p = LIMBER_PROBLEM_INIT;
    struct rng r = { 9 };
    int others = 0;

    (void)state;
    assert_true(a && b && want && got);
    fill(&r, DATA_unit, LIMBER_F64, a, N * N);
    fill(&r, DATA_unit, LIMBER_F64, b, N * N);
    for (int i = 0; i < N; i++)
        for (int q = 0; q < N; q++)
            if ((i / LINES + q / TILE) % 2) {
                a[i * N + q] = 0;
                b[q * N + i] = 0;
            }
    p.m = p.n = p.k = N;
    p.a = (limber_matrix){ a, LIMBER_F64, N, 1 };
    p.b = (limber_matrix){ b, LIMBER_F64, N, 1 };
    p.c = (limber_output){ want, LIMBER_F64, N, 1 };
    p.contract = &reproducible;
    order_gemm(&p);
    p.c.data = got;
    for (int i = 1; i < count; i++) {
        limber_report report = LIMBER_REPORT_INIT;

        p.contract = &native;
        assert_int_equal(limber_run(contexts[i].ctx, &p, &report), LIMBER_STATUS_OK);
        assert_int_equal(report.order, 0);
        others += report.parts > 0;
        p.contract = &reproducible;
        memset(got, 0xaa, BYTES);
        assert_int_equal(limber_run(contexts[i].ctx, &p, &report), LIMBER_STATUS_OK);
        assert_int_equal(report.order, 1);
        assert_int_equal(report.parts, 0);
        expect_same_numbers(LIMBER_F64, (char *)want, (char *)got, N * N, "zero tiles",
                            contexts[i].name);
    }
    print_message("native was cut into parts %d times\n", others);
    assert_true(others > 0 || contexts[1].ctx->machine.backend == &limber_backend_interp);
    free(a);
    free(b);
    free(want);
    free(got);
}

/* ---- batches and prepared operands ----------------------------------------------------------- */

/* A batch of dot products. */
struct dots {
    const char *a, *b, *c;
    int64_t groups, k;
    int64_t step_a, step_b, step_c; /* 0: the products share an operand; 1: theirs overlap */
    bool scalars;
};

/* Computes a batch of dot products in every context, and compares with the reference loop. */
static void compare_dots(const struct dots *s, uint64_t seed)
{
    const limber_format fa = named(s->a), fb = named(s->b), fc = named(s->c);
    const size_t na = (size_t)((s->groups - 1) * s->step_a + s->k),
                 nb = (size_t)((s->groups - 1) * s->step_b + s->k),
                 nc = (size_t)((s->groups - 1) * s->step_c + 1);
    char *a = malloc(na * fa.size), *b = malloc(nb * fb.size), *c0 = malloc(nc * fc.size),
         *want = malloc(nc * fc.size), what[120], alpha[8], beta[8];
    limber_batch batch = LIMBER_BATCH_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    struct rng r = { seed };

    assert_true(a && b && c0 && want);
    fill(&r, seed % 3 ? DATA_unit : DATA_special, fa, a, na);
    fill(&r, DATA_tiny, fb, b, nb);
    fill(&r, DATA_unit, fc, c0, nc);
    store_scalar(alpha, fc, -1.625);
    store_scalar(beta, fc, 0.7109375);
    snprintf(what, sizeof what, "%d dots of %s %s %s, k = %d, steps %d %d %d", (int)s->groups, s->a,
             s->b, s->c, (int)s->k, (int)s->step_a, (int)s->step_b, (int)s->step_c);
    p.m = p.n = 1;
    p.k = s->k;
    p.alpha = s->scalars ? alpha : NULL;
    p.beta = s->scalars ? beta : NULL;
    p.contract = &reproducible;
    memcpy(want, c0, nc * fc.size);
    for (int64_t g = 0; g < s->groups; g++) {
        p.a = (limber_matrix){ a + g * s->step_a * fa.size, fa, s->k, 1 };
        p.b = (limber_matrix){ b + g * s->step_b * fb.size, fb, 1, 1 };
        p.c = (limber_output){ want + g * s->step_c * fc.size, fc, 1, 1 };
        order_gemm(&p);
    }
    batch.count = s->groups;
    batch.a = s->step_a;
    batch.b = s->step_b;
    batch.c = s->step_c;
    p.batch = &batch;
    p.a.data = a;
    p.b.data = b;
    run_in_all_contexts(&p, c0, want, nc, what);
    free(a);
    free(b);
    free(c0);
    free(want);
}

/* Batches of dot products have the bits of a plain loop, although the chains of several may be
 * summed side by side. */
static void stacks_of_dots_have_the_bits_of_the_loop(void **state)
{
    static const char *const formats[][3] = {
        { "f32", "f32", "f32" },  { "f64", "f64", "f64" }, { "f16", "f16", "f16" },
        { "bf16", "f32", "f32" }, { "f32", "f64", "f64" }, { "f16", "f16", "f32" },
    };
    static const int64_t ks[] = { 1, 7, 256, 300, 1000, 5000 },
                         groups[] = { 2, 3, 8, 17, 40, 1000 };
    struct rng r = { 131 };

    (void)state;
    for (size_t f = 0; f < COUNT(formats); f++)
        for (size_t i = 0; i < COUNT(ks); i += SANITIZED ? 2 : 1) {
            const int64_t k = ks[i];
            const int most = k > 1000 ? 4 : 6;
            const int64_t steps[] = { k, k + 3, 0, 1 };

            compare_dots(&(struct dots){ formats[f][0], formats[f][1], formats[f][2],
                                         groups[rng_below(&r, most)], k, steps[rng_below(&r, 4)],
                                         steps[rng_below(&r, 4)], 1 + (int64_t)rng_below(&r, 2),
                                         rng_below(&r, 2) },
                         100 * f + i);
        }
}

/* Each product of a batch has the bits of a single product, wherever it is in the batch, by strides
 * and by addresses. */
static void the_place_in_a_batch_keeps_the_bits(void **state)
{
    enum { M = 9, N = 14, K = 300, BATCH = 7 };
    float a[BATCH][M][K], b[BATCH][K][N], want[BATCH][M][N], got[BATCH][M][N];
    const void *at_a[BATCH], *at_b[BATCH];
    void *at_c[BATCH];
    struct rng r = { 77 };

    (void)state;
    fill(&r, DATA_unit, LIMBER_F32, a, BATCH * M * K);
    fill(&r, DATA_unit, LIMBER_F32, b, BATCH * K * N);
    for (int k = 40; k <= K; k += K - 40)
        for (int shared = 0; shared < 2; shared++) {
            limber_problem p = LIMBER_PROBLEM_INIT;

            p.m = M;
            p.n = N;
            p.k = k;
            p.contract = &reproducible;
            for (int g = 0; g < BATCH; g++) {
                p.a = (limber_matrix){ a[g], LIMBER_F32, K, 1 };
                p.b = (limber_matrix){ b[shared ? 0 : g], LIMBER_F32, N, 1 };
                p.c = (limber_output){ want[g], LIMBER_F32, N, 1 };
                order_gemm(&p);
                at_a[g] = a[BATCH - 1 - g]; /* addresses in reverse order */
                at_b[g] = b[shared ? 0 : BATCH - 1 - g];
                at_c[g] = got[BATCH - 1 - g];
            }
            p.a.data = a;
            p.b.data = b;
            p.c.data = got;
            for (int i = 0; i < count; i++)
                for (int64_t products = 1; products <= BATCH; products += 3) {
                    limber_batch batch = LIMBER_BATCH_INIT;

                    batch.count = products;
                    batch.a = M * K;
                    batch.b = shared ? 0 : K * N;
                    batch.c = M * N;
                    p.batch = &batch;
                    memset(got, 0xaa, sizeof got);
                    if (limber_run(contexts[i].ctx, &p, NULL))
                        fail_msg("%s: %s", contexts[i].name, limber_error_text());
                    expect_same_numbers(LIMBER_F32, (char *)want, (char *)got,
                                        (size_t)products * M * N, "a batch", contexts[i].name);
                    batch.count = BATCH;
                    batch.address_a = at_a;
                    batch.address_b = at_b;
                    batch.address_c = at_c;
                    memset(got, 0xaa, sizeof got);
                    if (limber_run(contexts[i].ctx, &p, NULL))
                        fail_msg("%s: %s", contexts[i].name, limber_error_text());
                    expect_same_numbers(LIMBER_F32, (char *)want, (char *)got, BATCH * M * N,
                                        "a batch of addresses", contexts[i].name);
                }
        }
}

/* Prepared operands give the same bits.  Some sums overflow and others contain infinities, so
 * that only the order of additions determines which elements are NaN. */
static void prepared_operands_have_the_same_bits(void **state)
{
    enum { M = 40, N = 50, K = 300 };
    static double a[M * K], b[K * N], want[M * N], got[M * N];
    limber_problem p = LIMBER_PROBLEM_INIT;
    struct rng r = { 5 };
    int nans = 0;

    (void)state;
    fill(&r, DATA_unit, LIMBER_F64, a, M * K);
    fill(&r, DATA_unit, LIMBER_F64, b, K * N);
    for (int i = 0; i < M; i++) {
        a[i * K + 3 * i] = 1e308;
        a[i * K + 3 * i + 1] = 1e308;
        a[i * K + 3 * i + 2] = i % 3 ? INFINITY : 7;
    }
    for (int i = 0; i < K * N; i++)
        b[i] += b[i] < 0 ? -1 : 1;
    p.m = M;
    p.n = N;
    p.k = K;
    p.a = (limber_matrix){ a, LIMBER_F64, K, 1 };
    p.b = (limber_matrix){ b, LIMBER_F64, N, 1 };
    p.c = (limber_output){ want, LIMBER_F64, N, 1 };
    p.contract = &reproducible;
    order_gemm(&p);
    for (int i = 0; i < M * N; i++)
        nans += isnan(want[i]);
    assert_true(nans > M && nans < M * N / 2);
    p.c.data = got;
    for (int i = 0; i < count; i++) {
        for (int side = 1; side < 4; side++) {
            limber_prepared *left = NULL, *right = NULL;

            if (side & 1)
                assert_int_equal(
                    limber_prepare(contexts[i].ctx, p.a, M, K, LIMBER_SIDE_A, NULL, &left),
                    LIMBER_STATUS_OK);
            if (side & 2)
                assert_int_equal(
                    limber_prepare(contexts[i].ctx, p.b, K, N, LIMBER_SIDE_B, NULL, &right),
                    LIMBER_STATUS_OK);
            p.prepared_a = left;
            p.prepared_b = right;
            for (int times = 0; times < 2; times++) {
                memset(got, 0xaa, sizeof got);
                if (limber_run(contexts[i].ctx, &p, NULL))
                    fail_msg("%s: %s", contexts[i].name, limber_error_text());
                expect_same_numbers(LIMBER_F64, (char *)want, (char *)got, M * N, "prepared",
                                    contexts[i].name);
            }
            limber_prepared_free(left);
            limber_prepared_free(right);
        }
    }
}

/* ---- convolutions in the stated order -------------------------------------------------------- */

/* Returns the index of element (n, c, h, w) of a tensor with these extents. */
static int64_t element_index(bool nhwc, const int64_t d[4], int64_t n, int64_t c, int64_t h,
                             int64_t w)
{
    return nhwc ? ((n * d[2] + h) * d[3] + w) * d[1] + c : ((n * d[1] + c) * d[2] + h) * d[3] + w;
}

/* A convolution and the sizes of its tensors. */
struct images {
    limber_conv s;
    int64_t x[4], w[4], y[4]; /* extents of image, filters and result */
    size_t size[3]; /* number of elements of each tensor */
};

/* Makes random images and filters with these sizes. */
static struct images make_images(int64_t c, int64_t window, int64_t groups)
{
    struct images t = { .s = LIMBER_CONV_INIT };
    limber_conv *s = &t.s;

    s->n = 2;
    s->c = c;
    s->h = 7;
    s->w = 9;
    s->o = 6;
    s->r = s->s = window;
    s->stride[0] = 2;
    s->stride[1] = 1;
    s->dilate[0] = 1;
    s->dilate[1] = 2;
    s->pad[0] = s->pad[3] = 1;
    s->pad[1] = s->pad[2] = 2;
    s->groups = groups;
    t.y[0] = s->n;
    t.y[1] = s->o;
    assert_int_equal(limber_conv_output(s, &t.y[2], &t.y[3]), LIMBER_STATUS_OK);
    memcpy(t.x, (int64_t[]){ s->n, s->c, s->h, s->w }, sizeof t.x);
    memcpy(t.w, (int64_t[]){ s->o, s->c / groups, s->r, s->s }, sizeof t.w);
    for (int i = 0; i < 3; i++) {
        const int64_t *d = i == 0 ? t.x : i == 1 ? t.w : t.y;

        t.size[i] = (size_t)(d[0] * d[1] * d[2] * d[3]);
    }
    return t;
}

/* Computes one element of the result, in this order: channels, then rows and columns of the
 * filter. */
static void convolve_element(const struct images *t, bool nhwc, const float *x, const float *w,
                             float *y, const int64_t at[4])
{
    const limber_conv *s = &t->s;
    int64_t each = s->c / s->groups, first = at[1] / (s->o / s->groups) * each, k = 0;
    double a[1024], b[1024];

    for (int64_t c = 0; c < each; c++)
        for (int64_t r = 0; r < s->r; r++)
            for (int64_t q = 0; q < s->s; q++, k++) {
                int64_t h = at[2] * s->stride[0] + r * s->dilate[0] - s->pad[0];
                int64_t v = at[3] * s->stride[1] + q * s->dilate[1] - s->pad[2];
                bool inside = h >= 0 && h < s->h && v >= 0 && v < s->w;

                a[k] = (double)w[element_index(nhwc, t->w, at[1], c, r, q)];
                b[k] = inside ? (double)x[element_index(nhwc, t->x, at[0], first + c, h, v)] : 0;
            }
    order_store(LIMBER_F32, &y[element_index(nhwc, t->y, at[0], at[1], at[2], at[3])],
                order_sum(true, a, b, k), NULL, NULL);
}

/* Convolutions have, in every context and in both layouts, the bits of a plain loop in the
 * documented order. */
static void convolutions_have_one_order(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        bool nhwc = i & 1;
        struct images t = make_images(i & 2 ? 36 : 4, 3, i & 4 ? 2 : 1);
        float *x = malloc(t.size[0] * 4), *w = malloc(t.size[1] * 4), *want = malloc(t.size[2] * 4),
              *got = malloc(t.size[2] * 4);
        struct rng r = { 50 + (uint64_t)i };
        int64_t at[4];

        assert_true(x && w && want && got);
        t.s.layout = nhwc ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        fill(&r, DATA_spread, LIMBER_F32, x, t.size[0]);
        fill(&r, i & 2 ? DATA_unit : DATA_tiny, LIMBER_F32, w, t.size[1]);
        for (at[0] = 0; at[0] < t.y[0]; at[0]++)
            for (at[1] = 0; at[1] < t.y[1]; at[1]++)
                for (at[2] = 0; at[2] < t.y[2]; at[2]++)
                    for (at[3] = 0; at[3] < t.y[3]; at[3]++)
                        convolve_element(&t, nhwc, x, w, want, at);
        for (int j = 0; j < count; j++) {
            limber_report report = LIMBER_REPORT_INIT;

            memset(got, 0xaa, t.size[2] * 4);
            if (limber_conv2d(contexts[j].ctx, &reproducible, &t.s, NULL, x, LIMBER_F32, w,
                              LIMBER_F32, NULL, got, LIMBER_F32, &report))
                fail_msg("%s: %s", contexts[j].name, limber_error_text());
            assert_int_equal(report.order, 1);
            expect_same_numbers(LIMBER_F32, (char *)want, (char *)got, t.size[2], "a convolution",
                                contexts[j].name);
        }
        free(x);
        free(w);
        free(want);
        free(got);
    }
}

/* ---- complex products in the stated order ---------------------------------------------------- */

/* Computes an element of a complex product in the documented order. */
static void complex_element(const double *a, int64_t step_a, int conj_a, const double *b,
                            int64_t step_b, int conj_b, int64_t k, double out[2])
{
    double left[512], right[2][512];

    for (int64_t p = 0; p < k; p++) {
        double re_b = b[2 * p * step_b], im_b = b[2 * p * step_b + 1] * (conj_b ? -1 : 1);
        double sign = conj_a ? -1 : 1;

        left[2 * p] = a[2 * p * step_a];
        left[2 * p + 1] = a[2 * p * step_a + 1];
        right[0][2 * p] = re_b;
        right[0][2 * p + 1] = -sign * im_b;
        right[1][2 * p] = im_b;
        right[1][2 * p + 1] = sign * re_b;
    }
    for (int i = 0; i < 2; i++)
        out[i] = order_sum(false, left, right[i], 2 * k);
}

/* Complex products have, in every context, the bits of the documented order: one part after the
 * other, then the scalars. */
static void complex_products_have_one_order(void **state)
{
    enum { M = 11, N = 17, K = 170 };
    static double a[2 * M * K], b[2 * K * N], c0[2 * M * N], want[2 * M * N], got[2 * M * N];
    static const double alpha[2] = { 1.25, -0.375 }, beta[2] = { -0.7, 3 }, real[2] = { 0.3, 0 };
    struct rng r = { 12 };

    (void)state;
    fill(&r, DATA_spread, LIMBER_F64, a, 2 * M * K);
    fill(&r, DATA_unit, LIMBER_F64, b, 2 * K * N);
    fill(&r, DATA_unit, LIMBER_F64, c0, 2 * M * N);
    for (int i = 0; i < 64; i++) {
        bool columns_a = i & 1, columns_c = i & 2;
        int conj_a = i >> 2 & 1, conj_b = i >> 3 & 1, scalars = i >> 4;
        limber_matrix ma = { a, LIMBER_F64, columns_a ? 1 : K, columns_a ? M : 1 };
        limber_matrix mb = { b, LIMBER_F64, N, 1 };
        limber_output mc = { got, LIMBER_F64, columns_c ? 1 : N, columns_c ? M : 1 };
        const void *by = scalars == 1 ? real : scalars > 1 ? alpha : NULL;
        const void *old = scalars == 1 ? real : scalars == 3 ? beta : NULL;

        for (int64_t e = 0; e < M * N; e++) {
            int64_t row = e / N, col = e % N, to = 2 * (row * mc.row_stride + col * mc.col_stride);
            double t[2];

            complex_element(a + 2 * row * ma.row_stride, ma.col_stride, conj_a, b + 2 * col, N,
                            conj_b, K, t);
            memcpy(&want[to], &c0[to], 2 * sizeof *want);
            if (scalars > 1) {
                const double terms[4] = { t[0], t[1], c0[to], c0[to + 1] };
                const double re[4] = { alpha[0], -alpha[1], beta[0], -beta[1] };
                const double im[4] = { alpha[1], alpha[0], beta[1], beta[0] };

                want[to] = order_sum(false, re, terms, scalars == 3 ? 4 : 2);
                want[to + 1] = order_sum(false, im, terms, scalars == 3 ? 4 : 2);
            } else {
                for (int x = 0; x < 2; x++)
                    order_store(LIMBER_F64, &want[to + x], t[x], by, old);
            }
        }
        for (int j = 0; j < count; j++) {
            limber_report report = LIMBER_REPORT_INIT;

            memcpy(got, c0, sizeof got);
            if (gemm_complex(contexts[j].ctx, &reproducible, NULL, M, N, K, by, ma, conj_a, mb,
                             conj_b, old, mc, &report, 0))
                fail_msg("%s: %s", contexts[j].name, limber_error_text());
            assert_int_equal(report.order, 1);
            expect_same_numbers(LIMBER_F64, (char *)want, (char *)got, 2 * M * N,
                                "a complex product", contexts[j].name);
        }
    }
}

/* ---- calls for which no order is stated ------------------------------------------------------ */

/* Checks that a call is refused with this text. */
static void expect_refused(const char *a, const char *b, const char *c, const char *scheme,
                           const char *text)
{
    char data[3][16] = { { 0 } };
    limber_contract contract = reproducible;

    contract.scheme = scheme;
    assert_refused(limber_gemm(contexts[0].ctx, &contract, 1, 1, 1, NULL,
                               (limber_matrix){ data[0], named(a), 1, 1 },
                               (limber_matrix){ data[1], named(b), 1, 1 }, NULL,
                               (limber_output){ data[2], named(c), 1, 1 }, NULL),
                   LIMBER_STATUS_BAD_ARGUMENT, text);
}

/* Formats and schemes without reproducible sums are refused with a text that says so. */
static void calls_without_an_order_are_refused(void **state)
{
    limber_contract contract = reproducible;
    limber_kernel function;

    (void)state;
    expect_refused("i8", "f32", "f32", NULL, "a: i8 has no reproducible sums");
    expect_refused("f64", "f128", "f64", NULL, "b: f128 has no");
    expect_refused("f64", "f64", "dd", NULL, "c: dd has no");
    expect_refused("i8", "i8", "i32", NULL, "a: i8 has no");
    expect_refused("f64", "f64", "f64", "ozaki2", "\"ozaki2\": only native has reproducible sums");
    expect_refused("f64", "f64", "f64", "native+accumulator", "only native has reproducible sums");
    assert_int_equal(limber_bind_shape(contexts[0].ctx, &contract, 4, 4, 4,
                                       (limber_matrix){ NULL, LIMBER_F64, 4, 1 },
                                       (limber_matrix){ NULL, LIMBER_F64, 4, 1 },
                                       (limber_output){ NULL, LIMBER_F64, 4, 1 },
                                       LIMBER_ACCUMULATE_NONE, &function),
                     LIMBER_STATUS_NO_SCHEME);
}

/* ---- version 1 of the order ------------------------------------------------------------------ */

/* Computes the i-th test number by a formula: 24 bits, exponents in a small range. */
static void set_number(limber_format f, char *to, uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    double v;

    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    v = ldexp((double)(int32_t)(x >> 32), -31 + (int)(x % 7) - (f.size > 2 ? (int)(x % 5) * 4 : 0));
    limber_convert(to, f, &v, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
}

/* FNV-1a hash of bytes, continued from h. */
static uint64_t hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data;

    while (size--)
        h = (h ^ *p++) * 0x100000001b3u;
    return h;
}

/* Hashes of results under version 1 of the order of additions.  If the order is changed so that
 * a hash changes, limber_order() needs a new number, and this table a column for it. */
static const struct frozen {
    const char *a, *b, *c;
    int64_t m, n, k;
    bool scalars, is_complex;
    uint64_t bits;
} frozen[] = {
    { "f64", "f64", "f64", 5, 7, 1000, false, false, 0xb15953d9d133608c },
    { "f64", "f64", "f64", 5, 7, 257, true, false, 0xe395b03014846bff },
    { "f32", "f32", "f32", 5, 7, 1000, false, false, 0xa3651e259f5aaaf9 },
    { "f32", "f32", "f32", 5, 7, 257, true, false, 0x4badb33dbb0fc06c },
    { "f16", "f16", "f32", 5, 7, 1000, false, false, 0x7f12fbcf0e94f8ec },
    { "bf16", "bf16", "bf16", 5, 7, 600, true, false, 0x5d4f38fe26f94248 },
    { "f32", "f64", "f64", 5, 7, 300, true, false, 0xcbade59db72efa4d },
    { "f64", "f64", "f64", 5, 7, 300, false, true, 0x5dfbd58b8a042d91 },
    { "f32", "f32", "f32", 5, 7, 300, true, true, 0x21992a65de50b073 },
};

/* Computes each product of the table in every context and compares the hash of its result. */
static void order_1_has_these_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(frozen); i++) {
        const struct frozen *z = &frozen[i];
        limber_format fa = named(z->a), fb = named(z->b), fc = named(z->c);
        int64_t each = 1 + z->is_complex;
        size_t na = (size_t)(z->m * z->k * each), nb = (size_t)(z->k * z->n * each),
               nc = (size_t)(z->m * z->n * each);
        char *a = malloc(na * fa.size), *b = malloc(nb * fb.size), *c = malloc(nc * fc.size),
             alpha[16], beta[16];

        assert_true(a && b && c);
        for (size_t e = 0; e < na; e++)
            set_number(fa, a + e * fa.size, e);
        for (size_t e = 0; e < nb; e++)
            set_number(fb, b + e * fb.size, 1000003 + e);
        set_number(fc, alpha, 1);
        set_number(fc, alpha + fc.size, 2);
        set_number(fc, beta, 3);
        set_number(fc, beta + fc.size, 4);
        for (int j = 0; j < count; j++) {
            limber_problem p =
                gemm_problem(&reproducible, z->m, z->n, z->k, z->scalars ? alpha : NULL,
                             (limber_matrix){ a, fa, z->k, 1 }, (limber_matrix){ b, fb, z->n, 1 },
                             z->scalars ? beta : NULL, (limber_output){ c, fc, z->n, 1 });
            limber_report report = LIMBER_REPORT_INIT;
            uint64_t bits;

            p.domain = z->is_complex ? LIMBER_DOMAIN_COMPLEX : LIMBER_DOMAIN_REAL;
            for (size_t e = 0; e < nc; e++)
                set_number(fc, c + e * fc.size, 2000003 + e);
            if (limber_run(contexts[j].ctx, &p, &report))
                fail_msg("%s: %s", contexts[j].name, limber_error_text());
            bits = hash(0xcbf29ce484222325u, c, nc * fc.size);
            assert_int_equal(report.order, 1);
            if (bits != z->bits)
                fail_msg("%s %s %s, k = %d, by %s: bits 0x%016llx are not those of order 1", z->a,
                         z->b, z->c, (int)z->k, contexts[j].name, (unsigned long long)bits);
        }
        free(a);
        free(b);
        free(c);
    }
}

/* A kernel that is compiled from its plan's text reports the order that the plan states. */
static void compiled_kernels_report_their_order(void **state)
{
    enum { N = 40 };
    static float a[N * N], b[N * N], c[N * N];
    const limber_contract *contracts[] = { &native, &reproducible };

    (void)state;
    /* contexts 0 and 3: the interpreter, and a context that computes products of all sizes by
     * kernels */
    for (int j = 0; j < 4; j++) {
        limber_context *ctx = contexts[j / 2 * 3].ctx;
        limber_report used = LIMBER_REPORT_INIT, made = LIMBER_REPORT_INIT;
        limber_problem p = LIMBER_PROBLEM_INIT;
        char *plan;

        p.m = p.n = p.k = N;
        p.a = (limber_matrix){ a, LIMBER_F32, N, 1 };
        p.b = (limber_matrix){ b, LIMBER_F32, N, 1 };
        p.c = (limber_output){ c, LIMBER_F32, N, 1 };
        p.contract = contracts[j % 2];
        assert_int_equal(limber_run(ctx, &p, &used), LIMBER_STATUS_OK);
        assert_int_equal(used.order, j % 2);
        assert_int_equal(limber_kernel_plan(ctx, used.kernel, &plan), LIMBER_STATUS_OK);
        made.order = -1;
        assert_int_equal(limber_kernel_make(ctx, plan, &made), LIMBER_STATUS_OK);
        assert_int_equal(made.order, j % 2);
        limber_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_has_the_bits_of_the_loop),
        cmocka_unit_test(vectors_have_the_bits_of_the_loop),
        cmocka_unit_test(few_vectors_have_the_bits_of_the_loop),
        cmocka_unit_test(empty_sums_are_plus_zero),
        cmocka_unit_test(repeated_operands_have_the_same_bits),
        cmocka_unit_test(long_operands_have_the_same_bits),
        cmocka_unit_test(chains_outlast_the_precision),
        cmocka_unit_test(zero_tiles_keep_the_order),
        cmocka_unit_test(stacks_of_dots_have_the_bits_of_the_loop),
        cmocka_unit_test(the_place_in_a_batch_keeps_the_bits),
        cmocka_unit_test(prepared_operands_have_the_same_bits),
        cmocka_unit_test(convolutions_have_one_order),
        cmocka_unit_test(complex_products_have_one_order),
        cmocka_unit_test(calls_without_an_order_are_refused),
        cmocka_unit_test(order_1_has_these_bits),
        cmocka_unit_test(compiled_kernels_report_their_order),
    };

    return cmocka_run_group_tests(tests, open_contexts, end);
}
