/* SPDX-License-Identifier: BSD-3-Clause
 * Products of floats with integer results, on every backend and under every contract that has them.
 * Sums are rounded to the nearest integer, ties to even.  If a sum does not fit, or is NaN or
 * infinite, the call must fail and leave C unchanged. */
#include "engine_support.h"
#include "gpus.h"
#include "support.h"

#include <math.h>

enum { M = 9, N = 21, K = 37 };

static const char *const operands[][2] = {
    { "f64", "f64" }, { "f32", "f32" }, { "f16", "f16" },  { "bf16", "i8" },
    { "f64", "i32" }, { "dd", "f64" },  { "f128", "f32" }, { "i16", "posit16" },
};
static const char *const results[] = { "i32", "i64", "i8", "i4" };
/* A promise and a scheme to request; no scheme: the library chooses. */
static const struct request {
    limber_promise promise;
    const char *scheme;
} requests[] = {
    { LIMBER_CONTRACT_NATIVE, NULL },
    { LIMBER_CONTRACT_CORRECT, NULL },
    { LIMBER_CONTRACT_CORRECT, "ozaki2" },
    { LIMBER_CONTRACT_CORRECT, "ozaki1-i8" },
    { LIMBER_CONTRACT_CORRECT, "accumulator" },
    { LIMBER_CONTRACT_BITS, NULL },
    { LIMBER_CONTRACT_EXACT, NULL },
};

/* A product of integers, with the exact sums. */
struct sums {
    limber_format a, b, c;
    struct request request;
    double ea[M * K], eb[K * N], sum[M * N];
    int64_t before[M * N]; /* C before the call, in its format */
    char name[160];
};

/* Fills an operand with multiples of `step`, or with integers if its format is one. */
static void fill_operand(struct rng *r, limber_format f, double step, double *x, int count)
{
    bool whole = f.kind == LIMBER_KIND_INT;

    for (int i = 0; i < count; i++)
        x[i] = rng_below(r, 3) ? 0 : (rng_below(r, 13) - 6) * (whole ? 1 : step);
}

/* Converts doubles to the format. */
static void store(limber_format f, const double *x, int count, char *to)
{
    assert_int_equal(limber_convert(to, f, x, named("f64"), (size_t)count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
}

/* Computes the product.  turned: C is column-major. */
static limber_status multiply_sums(limber_context *ctx, const struct sums *p, bool turned, char *c)
{
    static char a[M * K * 16], b[K * N * 16];
    limber_contract k = { .size = sizeof(limber_contract),
                          .promise = p->request.promise,
                          .scheme = p->request.scheme,
                          .bits = p->request.promise == LIMBER_CONTRACT_BITS ? 30 : 0 };

    store(p->a, p->ea, M * K, a);
    store(p->b, p->eb, K * N, b);
    memcpy(c, p->before, (size_t)(M * N) * p->c.size);
    return limber_gemm(ctx, &k, M, N, K, NULL, (limber_matrix){ a, p->a, K, 1 },
                       (limber_matrix){ b, p->b, N, 1 }, NULL,
                       (limber_output){ c, p->c, turned ? 1 : N, turned ? M : 1 }, NULL);
}

/* Returns an element of C as an integer. */
static int64_t element(limber_format f, const char *c, int at)
{
    int64_t x = 0;
    double d;

    if (f.kind == LIMBER_KIND_SHORT) {
        limber_convert(&d, named("f64"), c + at, f, 1, LIMBER_ROUND_NEAREST);
        return (int64_t)d;
    }
    memcpy(&x, c + at * f.size, f.size);
    return (int64_t)((uint64_t)x << (64 - 8 * f.size)) >> (64 - 8 * f.size);
}

/* Checks that the product is refused with status RANGE and leaves C unchanged. */
static void expect_range(limber_context *ctx, const struct sums *p, const char *what)
{
    static char c[M * N * 8];
    limber_status s = multiply_sums(ctx, p, false, c);

    if (s != LIMBER_STATUS_RANGE)
        fail_msg("%s, %s: status %d, %s", p->name, what, (int)s, s ? limber_error_text() : "");
    if (memcmp(c, p->before, (size_t)(M * N) * p->c.size))
        fail_msg("%s, %s: C is another", p->name, what);
}

/* Checks all sums, with both layouts of C.  Under `bits` a tie may be rounded either way. */
static void check_sums(limber_context *ctx, const struct sums *p)
{
    static char c[M * N * 8];
    bool near = p->request.promise == LIMBER_CONTRACT_BITS;
    limber_status s;

    for (int turned = 0; turned < 2; turned++) {
        s = multiply_sums(ctx, p, turned, c);
        if (s == LIMBER_STATUS_NO_SCHEME && p->request.scheme)
            return;
        if (s)
            fail_msg("%s: %s", p->name, limber_error_text());
        for (int i = 0; i < M * N; i++) {
            int64_t got = element(p->c, c, turned ? i % N * M + i / N : i);
            double sum = p->sum[i];

            if ((double)got != rint(sum) && !(near && fabs((double)got - sum) == 0.5))
                fail_msg("%s: %lld for %g at %d", p->name, (long long)got, sum, i);
        }
    }
}

/* Changes the operands so that one sum is NaN, infinite, or beyond one-byte formats.  The call must
 * fail. */
static void check_misfits(limber_context *ctx, struct sums *p)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    struct sums q = *p;
    bool integers[2] = { p->a.kind == LIMBER_KIND_INT, p->b.kind == LIMBER_KIND_INT };

    for (size_t i = 0; i < COUNT(bad); i++) {
        q = *p;
        if (!integers[0] && i % 2 == 0)
            q.ea[3 * K + 5] = bad[i]; /* NaN in an element of A spoils a row of C */
        else if (!integers[1])
            q.eb[7 * N + 20] = bad[i];
        else
            q.ea[8 * K] = bad[i];
        expect_range(ctx, &q, "not a number or infinite");
    }
    q = *p;
    for (int x = 0; x < K; x++) /* one sum is 37 times 100 */
        q.ea[4 * K + x] = 10, q.eb[x * N + 2] = 10;
    if (p->c.size == 1)
        expect_range(ctx, &q, "too large");
}

/* Makes random operands, computes their product by definition, and checks the call. */
static void check_random_product(limber_context *ctx, struct rng *r, struct sums *p)
{
    bool whole = p->request.promise == LIMBER_CONTRACT_EXACT;

    memset(p->before, 0x5a & (p->c.kind == LIMBER_KIND_SHORT ? 0x0f : 0xff), sizeof p->before);
    fill_operand(r, p->a, whole ? 1 : 0.25, p->ea, M * K);
    fill_operand(r, p->b, whole ? 1 : 0.5, p->eb, K * N);
    if (p->c.kind == LIMBER_KIND_SHORT) /* each element is a single product of at most 9 */
        for (int i = 0; i < M; i++)
            for (int x = 0; x < K; x++)
                p->ea[i * K + x] = x == i && p->ea[i * K + x] != 0 ? 1 : 0;
    for (int i = 0; i < M * N; i++) {
        p->sum[i] = 0;
        for (int x = 0; x < K; x++)
            p->sum[i] += p->ea[i / N * K + x] * p->eb[x * N + i % N];
    }
    check_sums(ctx, p);
    check_misfits(ctx, p);
}

/* Checks every step-th combination of operands, results and contracts on a backend. */
static void run_backend(const char *backend, size_t step)
{
    struct rng r = { 91 };
    limber_context *ctx;
    struct sums p;
    size_t done = 0;

    if (limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                              .backend = backend,
                                              .cache_dir = "",
                                              .threads = 2 })) {
        skip_because("%s does not run here: %s", backend, limber_error_text());
    }
    for (size_t i = 0; i < COUNT(operands) * COUNT(results) * COUNT(requests); i += step) {
        const char *const *from = operands[i / (COUNT(results) * COUNT(requests))];
        const char *to = results[i / COUNT(requests) % COUNT(results)];

        p.a = named(from[0]);
        p.b = named(from[1]);
        p.c = named(to);
        p.request = requests[i % COUNT(requests)];
        snprintf(p.name, sizeof p.name, "%s: %s x %s to %s, promise %d, %s", backend, from[0],
                 from[1], to, (int)p.request.promise, p.request.scheme ? p.request.scheme : "any");
        check_random_product(ctx, &r, &p);
        done++;
    }
    print_message("%s: %zu kinds of products\n", backend, done);
    limber_destroy(ctx);
}

static void integers_in_the_interpreter(void **state)
{
    (void)state;
    run_backend("interp", 1);
}

static void integers_in_compiled_kernels(void **state)
{
    (void)state;
    run_backend("llvm", SANITIZED ? 5 : 1);
}

static void integers_in_cuda_kernels(void **state)
{
    (void)state;
    gpu_stand_ins();
    run_backend("cuda", 23);
}

/* Sums of integers wrap under `native`.  Under other contracts overflow is an error. */
static void sums_of_integers_wrap(void **state)
{
    const int32_t a[2] = { INT32_MAX, 1 }, b[2] = { 1, 1 };
    const limber_contract native = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_NATIVE },
                          exact = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_EXACT };
    limber_format f = named("i32");
    limber_context *ctx;
    int32_t c = 5;

    (void)state;
    assert_int_equal(limber_create(&ctx, NULL), LIMBER_STATUS_OK);
    assert_int_equal(limber_gemm(ctx, &exact, 1, 1, 2, NULL, (limber_matrix){ a, f, 2, 1 },
                                 (limber_matrix){ b, f, 1, 1 }, NULL,
                                 (limber_output){ &c, f, 1, 1 }, NULL),
                     LIMBER_STATUS_RANGE);
    assert_int_equal(c, 5);
    assert_int_equal(limber_gemm(ctx, &native, 1, 1, 2, NULL, (limber_matrix){ a, f, 2, 1 },
                                 (limber_matrix){ b, f, 1, 1 }, NULL,
                                 (limber_output){ &c, f, 1, 1 }, NULL),
                     LIMBER_STATUS_OK);
    assert_int_equal(c, INT32_MIN);
    limber_destroy(ctx);
}

/* Returns an integer of a format, extended to 64 bits. */
static uint64_t extended(limber_format f, const char *at)
{
    uint64_t x = 0;

    memcpy(&x, at, f.size);
    if (f.kind == LIMBER_KIND_INT && f.size < 8 && x >> (8 * f.size - 1))
        x |= UINT64_MAX << (8 * f.size);
    return x;
}

/* Batches of dot products, whose operands may be shared or have gaps, equal plain loops modulo
 * 2^64. */
static void stacks_of_integer_dots_wrap(void **state)
{
    enum { MOST_K = 90, GROUPS = 13, ROOM = GROUPS * (MOST_K + 2) };
    static const char *const formats[] = { "i8", "u8", "i16", "i32", "i64" };
    static char a[ROOM * 8], b[ROOM * 8], c[2 * GROUPS * 8];
    const limber_contract native = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_NATIVE };
    struct rng r = { 71 };
    limber_context *ctx;

    (void)state;
    assert_int_equal(limber_create(&ctx, NULL), LIMBER_STATUS_OK);
    for (int trial = 0; trial < 200; trial++) {
        const limber_format fa = named(formats[rng_below(&r, COUNT(formats))]),
                            fb = trial % 4 ? fa : named(formats[rng_below(&r, COUNT(formats))]),
                            fc = named(trial % 2 ? "i64" : "i32");
        const int64_t k = 1 + rng_below(&r, MOST_K), steps[] = { k, k + 2, 0, 1 };
        limber_problem p = LIMBER_PROBLEM_INIT;
        limber_batch batch = LIMBER_BATCH_INIT;

        for (size_t i = 0; i < sizeof a; i++) {
            a[i] = (char)rng_next(&r);
            b[i] = (char)rng_next(&r);
        }
        batch.count = GROUPS;
        batch.a = steps[rng_below(&r, 4)];
        batch.b = steps[rng_below(&r, 4)];
        batch.c = 1 + rng_below(&r, 2);
        p.m = p.n = 1;
        p.k = k;
        p.a = (limber_matrix){ a, fa, k, 1 };
        p.b = (limber_matrix){ b, fb, 1, 1 };
        p.c = (limber_output){ c, fc, 1, 1 };
        p.contract = &native;
        p.batch = &batch;
        assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
        for (int64_t g = 0; g < GROUPS; g++) {
            uint64_t sum = 0;

            for (int64_t i = 0; i < k; i++)
                sum += extended(fa, a + (g * batch.a + i) * fa.size) *
                       extended(fb, b + (g * batch.b + i) * fb.size);
            if (memcmp(c + g * batch.c * fc.size, &sum, fc.size))
                fail_msg("dot %d of %d, k = %d", (int)g, GROUPS, (int)k);
        }
    }
    limber_destroy(ctx);
}

/* Products with vectors, small ones and ones of large numbers, for every pair of formats, layout
 * and scalars, must equal a plain loop modulo 2^64, whichever code path computes them. */
static void integers_of_every_layout_wrap(void **state)
{
    static const char *const formats[] = { "u8", "i8", "i16", "i32", "i64" };
    static const int64_t sizes[][3] = { { 1, 1, 9 },     { 1, 70, 600 }, { 300, 1, 40 },
                                        { 600, 1, 530 }, { 9, 13, 17 },  { 33, 20, 1100 },
                                        { 1, 1, 3000 },  { 50, 60, 40 } };
    enum { GAP = 2 };
    const limber_contract native = { .size = sizeof(limber_contract),
                                     .promise = LIMBER_CONTRACT_NATIVE };
    struct rng r = { 191 };
    limber_context *ctx;
    int taken = 0;

    (void)state;
    setenv("LIMBER_WAYS", "", 1);
    assert_int_equal(limber_create(&ctx, NULL), LIMBER_STATUS_OK);
    unsetenv("LIMBER_WAYS");
    for (int trial = 0; trial < (SANITIZED ? 60 : 300); trial++) {
        const limber_format f[3] = { named(formats[rng_below(&r, COUNT(formats))]),
                                     named(formats[rng_below(&r, COUNT(formats))]),
                                     named(formats[1 + rng_below(&r, COUNT(formats) - 1)]) };
        const int64_t *size = sizes[rng_below(&r, COUNT(sizes))], m = size[0], n = size[1],
                      k = size[2], rows[3] = { m, k, m }, cols[3] = { k, n, n };
        const int layout = rng_below(&r, 8), scalars = rng_below(&r, 4), narrow = rng_below(&r, 3);
        const int64_t alpha = (int64_t)rng_next(&r), beta = (int64_t)rng_next(&r);
        int64_t row[3], col[3];
        char *x[3], *want;
        size_t bytes = 0;
        limber_report report = LIMBER_REPORT_INIT;

        for (int i = 0; i < 3; i++) {
            row[i] = layout >> i & 1 ? 1 : cols[i] + GAP;
            col[i] = layout >> i & 1 ? rows[i] + GAP : 1;
            bytes = (size_t)((rows[i] + GAP) * (cols[i] + GAP) * f[i].size);
            x[i] = malloc(bytes);
            assert_non_null(x[i]);
            for (size_t at = 0; at < bytes; at += f[i].size) {
                const uint64_t v = narrow ? rng_next(&r) : (uint64_t)rng_below(&r, 60);

                memcpy(x[i] + at, &v, f[i].size);
            }
        }
        want = malloc(bytes);
        assert_non_null(want);
        memcpy(want, x[2], bytes);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                char *c = want + (i * row[2] + j * col[2]) * f[2].size;
                uint64_t sum = 0;

                for (int64_t p = 0; p < k; p++)
                    sum += extended(f[0], x[0] + (i * row[0] + p * col[0]) * f[0].size) *
                           extended(f[1], x[1] + (p * row[1] + j * col[1]) * f[1].size);
                if (scalars & 1)
                    sum *= (uint64_t)alpha;
                if (scalars & 2)
                    sum += (uint64_t)beta * extended(f[2], c);
                memcpy(c, &sum, f[2].size);
            }
        if (limber_gemm(ctx, &native, m, n, k, scalars & 1 ? &alpha : NULL,
                        (limber_matrix){ x[0], f[0], row[0], col[0] },
                        (limber_matrix){ x[1], f[1], row[1], col[1] }, scalars & 2 ? &beta : NULL,
                        (limber_output){ x[2], f[2], row[2], col[2] }, &report))
            fail_msg("trial %d: %s", trial, limber_error_text());
        if (memcmp(x[2], want, bytes))
            fail_msg("trial %d: %d x %d x %d, layout %d, scalars %d, by %s", trial, (int)m, (int)n,
                     (int)k, layout, scalars, report.way);
        taken += strcmp(report.way, "integers") == 0;
        for (int i = 0; i < 3; i++)
            free(x[i]);
        free(want);
    }
#ifdef LIMBER_HAVE_LLVM
    assert_true(taken > 30);
#endif
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_in_the_interpreter),
        cmocka_unit_test(integers_in_compiled_kernels),
        cmocka_unit_test(integers_in_cuda_kernels),
        cmocka_unit_test(sums_of_integers_wrap),
        cmocka_unit_test(integers_of_every_layout_wrap),
        cmocka_unit_test(stacks_of_integer_dots_wrap),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
