/* SPDX-License-Identifier: BSD-3-Clause
 * Sums of floats with integer results, on every backend and contract that has them: rounded to the
 * nearest integer, ties to even.  If one does not fit, or is NaN or infinite, the call fails with C
 * unchanged. */
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

struct sums {
    limber_format a, b, c;
    struct request request;
    double ea[M * K], eb[K * N], sum[M * N];
    int64_t before[M * N];      /* C before the call, in its format */
    char name[160];
};

/* Fills an operand with multiples of `step`, or with integers. */
static void fill_side(struct rng *r, limber_format f, double step, double *x, int count)
{
    bool whole = f.kind == LIMBER_KIND_INT;

    for (int i = 0; i < count; i++)
        x[i] = rng_below(r, 3) ? 0 : (rng_below(r, 13) - 6) * (whole ? 1 : step);
}

static void stored(limber_format f, const double *x, int count, char *to)
{
    assert_int_equal(limber_convert(to, f, x, named("f64"), (size_t)count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
}

static limber_status multiply(limber_context *ctx, const struct sums *p, bool turned, char *c)
{
    static char a[M * K * 16], b[K * N * 16];
    limber_contract k = { .size = sizeof(limber_contract),
                          .promise = p->request.promise,
                          .scheme = p->request.scheme,
                          .bits = p->request.promise == LIMBER_CONTRACT_BITS ? 30 : 0 };

    stored(p->a, p->ea, M * K, a);
    stored(p->b, p->eb, K * N, b);
    memcpy(c, p->before, (size_t)(M * N) * p->c.size);
    return limber_gemm(ctx, &k, M, N, K, NULL, (limber_matrix){ a, p->a, K, 1 },
                       (limber_matrix){ b, p->b, N, 1 }, NULL,
                       (limber_output){ c, p->c, turned ? 1 : N, turned ? M : 1 }, NULL);
}

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

static void expect_range(limber_context *ctx, const struct sums *p, const char *what)
{
    static char c[M * N * 8];
    limber_status s = multiply(ctx, p, false, c);

    if (s != LIMBER_STATUS_RANGE)
        fail_msg("%s, %s: status %d, %s", p->name, what, (int)s, s ? limber_error_text() : "");
    if (memcmp(c, p->before, (size_t)(M * N) * p->c.size))
        fail_msg("%s, %s: C is another", p->name, what);
}

static void check_sums(limber_context *ctx, const struct sums *p)
{
    static char c[M * N * 8];
    bool near = p->request.promise == LIMBER_CONTRACT_BITS;
    limber_status s;

    for (int turned = 0; turned < 2; turned++) {
        s = multiply(ctx, p, turned, c);
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

/* Numbers that make exactly one element overflow, or none. */
static void check_misfits(limber_context *ctx, struct sums *p)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    struct sums q = *p;
    bool integers[2] = { p->a.kind == LIMBER_KIND_INT, p->b.kind == LIMBER_KIND_INT };

    for (size_t i = 0; i < COUNT(bad); i++) {
        q = *p;
        if (!integers[0] && i % 2 == 0)
            q.ea[3 * K + 5] = bad[i]; /* a row */
        else if (!integers[1])
            q.eb[7 * N + 20] = bad[i];
        else
            q.ea[8 * K] = bad[i];
        expect_range(ctx, &q, "not a number or infinite");
    }
    q = *p;
    for (int x = 0; x < K; x++)     /* one sum of 37 times 100 */
        q.ea[4 * K + x] = 10, q.eb[x * N + 2] = 10;
    if (p->c.size == 1)
        expect_range(ctx, &q, "too large");
}

static void check(limber_context *ctx, struct rng *r, struct sums *p)
{
    bool whole = p->request.promise == LIMBER_CONTRACT_EXACT;

    memset(p->before, 0x5a & (p->c.kind == LIMBER_KIND_SHORT ? 0x0f : 0xff), sizeof p->before);
    fill_side(r, p->a, whole ? 1 : 0.25, p->ea, M * K);
    fill_side(r, p->b, whole ? 1 : 0.5, p->eb, K * N);
    if (p->c.kind == LIMBER_KIND_SHORT) /* one product per element: at most 9 */
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
        print_message("%s does not run here: %s\n", backend, limber_error_text());
        skip();
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
        check(ctx, &r, &p);
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

/* Sums of integers wrap under native, and overflow is an error under other contracts. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_in_the_interpreter),
        cmocka_unit_test(integers_in_compiled_kernels),
        cmocka_unit_test(integers_in_cuda_kernels),
        cmocka_unit_test(sums_of_integers_wrap),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
