/* SPDX-License-Identifier: BSD-3-Clause
 * Elements of any magnitude in their format: pairs of integer formats and some of floats, with
 * every kind of result, contract and named scheme, on every backend.  An error must be at most the
 * reported bound plus one rounding, and under `bits` at most what the caller asked for.  Since
 * plans know only formats, an error must be negligible compared with small elements, not only with
 * the largest that the format has. */
#include "engine_support.h"
#include "gpus.h"
#include "support.h"

#include <math.h>

enum { M = 5, N = 18, K = 39 };

static const char *const operands[][2] = {
    { "i8", "i8" },   { "i8", "u8" },   { "u8", "u8" },   { "i8", "i16" },  { "u8", "i16" },
    { "i8", "i32" },  { "u8", "i32" },  { "i8", "i64" },  { "i16", "i16" }, { "i16", "i32" },
    { "i32", "i32" }, { "i16", "i64" }, { "i32", "i64" }, { "i64", "i64" }, { "i32", "f32" },
    { "i64", "f64" }, { "f32", "f32" }, { "f64", "f16" }, { "bf16", "i8" },
};
static const char *const results[] = { "f64", "f32", "tf32", "bf16", "f16", "e5m2", "e4m3", "i64" };
/* A contract to request. */
static const struct asked {
    limber_promise promise;
    const char *scheme;
    int bits;
} requests[] = {
    { LIMBER_CONTRACT_NATIVE, NULL, 0 },    { LIMBER_CONTRACT_NATIVE, "integer", 0 },
    { LIMBER_CONTRACT_BITS, NULL, 8 },      { LIMBER_CONTRACT_BITS, "integer", 8 },
    { LIMBER_CONTRACT_BITS, NULL, 24 },     { LIMBER_CONTRACT_BITS, "ozaki1-i8", 12 },
    { LIMBER_CONTRACT_FAST, "integer", 0 }, { LIMBER_CONTRACT_FAST, "ozaki1-i8", 0 },
    { LIMBER_CONTRACT_CORRECT, NULL, 0 },
};

/* Numbers of bits of the elements of A and B.  Sums of products of the largest are exact in
 * binary64. */
static const int sizes[][2] = { { 1, 1 }, { 2, 5 }, { 7, 1 }, { 1, 20 }, { 14, 14 }, { 23, 23 } };

/* An operand: its numbers, and these as stored in format f. */
struct stated_operand {
    limber_format f;
    double number[M > N ? M *K : K *N];
    char stored[(M > N ? M * K : K * N) * 8];
};

/* A product to compute, with a name for messages. */
struct stated_product {
    struct stated_operand a, b;
    limber_format c;
    struct asked request;
    char name[120];
};

/* Fills an operand with integers below 2^bits, a quarter of them zero. */
static void fill_operand(struct rng *r, struct stated_operand *x, int count, int bits)
{
    bool is_unsigned = x->f.kind == LIMBER_KIND_UINT;
    int most = x->f.kind == LIMBER_KIND_FLOAT ? x->f.frac_bits + 1 : 8 * x->f.size - !is_unsigned;

    bits = bits < most ? bits : most;
    for (int i = 0; i < count; i++) {
        double v = (double)rng_below(r, 1 << bits);

        x->number[i] = rng_below(r, 4) == 0 ? 0 : is_unsigned || rng_below(r, 2) ? v : -v;
    }
    assert_int_equal(limber_convert(x->stored, x->f, x->number, named("f64"), (size_t)count,
                                    LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
}

/* Checks an element's error against the contract and the reported bound. */
static void check_element(const struct stated_product *p, const limber_report *r, double roundoff,
                          double largest, int at, double got)
{
    double sum = 0, size = 0, allowed;

    for (int x = 0; x < K; x++) {
        double term = p->a.number[at / N * K + x] * p->b.number[x * N + at % N];

        sum += term;
        size += fabs(term);
    }
    if (2 * size > largest) /* skips sums that may overflow */
        return;
    allowed = r->bound * size;
    if (p->request.promise == LIMBER_CONTRACT_BITS)
        allowed = fmin(allowed, ldexp(size, -p->request.bits));
    allowed = (allowed + roundoff * (fabs(sum) + allowed)) * (1 + 0x1p-20);
    if (!(fabs(got - sum) <= allowed))
        fail_msg("%s, by %s: %.17g for %.17g, %g allowed", p->name, r->scheme, got, sum, allowed);
}

/* Multiplies and checks all elements.  Returns false if no scheme supports the product. */
static bool check_product(limber_context *ctx, const struct stated_product *p)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = p->request.promise,
                                .scheme = p->request.scheme,
                                .bits = p->request.bits };
    const bool whole = p->c.kind == LIMBER_KIND_INT;
    limber_format_facts facts = LIMBER_FORMAT_FACTS_INIT;
    limber_report report = LIMBER_REPORT_INIT;
    static double got[M * N];
    char *c = poisoned(M * N * 8);
    limber_status s;

    s = limber_gemm(ctx, &k, M, N, K, NULL, (limber_matrix){ p->a.stored, p->a.f, K, 1 },
                    (limber_matrix){ p->b.stored, p->b.f, N, 1 }, NULL,
                    (limber_output){ c, p->c, N, 1 }, &report);
    if (s && s != LIMBER_STATUS_NO_SCHEME)
        fail_msg("%s: %s", p->name, limber_error_text());
    if (!s) {
        assert_int_equal(limber_convert(got, named("f64"), c, p->c, M * N, LIMBER_ROUND_NEAREST),
                         LIMBER_STATUS_OK);
        assert_int_equal(limber_format_describe(p->c, &facts), LIMBER_STATUS_OK);
        for (int i = 0; i < M * N; i++)
            check_element(p, &report, whole ? 0 : facts.roundoff, facts.largest, i, got[i]);
    }
    free(c);
    return !s;
}

/* Tests every step-th combination of operands, results, requests and sizes. */
static void run_backend(const char *backend, size_t step)
{
    const size_t per_pair = COUNT(results) * COUNT(requests) * COUNT(sizes);
    static struct stated_product p;
    struct rng r = { 17 };
    limber_context *ctx;
    int served = 0;

    if (limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                              .backend = backend,
                                              .cache_dir = "",
                                              .threads = 2 })) {
        print_message("%s does not run here: %s\n", backend, limber_error_text());
        return;
    }
    for (size_t i = 0; i < COUNT(operands) * per_pair; i += step) {
        const char *const *from = operands[i / per_pair];
        const char *to = results[i / (COUNT(requests) * COUNT(sizes)) % COUNT(results)];
        const int *size = sizes[i % COUNT(sizes)];

        p.a.f = named(from[0]);
        p.b.f = named(from[1]);
        p.c = named(to);
        p.request = requests[i / COUNT(sizes) % COUNT(requests)];
        snprintf(p.name, sizeof p.name, "%s: %s x %s to %s, %d and %d bits, promise %d, %s",
                 backend, from[0], from[1], to, size[0], size[1], (int)p.request.promise,
                 p.request.scheme ? p.request.scheme : "any");
        fill_operand(&r, &p.a, M * K, size[0]);
        fill_operand(&r, &p.b, K * N, size[1]);
        served += check_product(ctx, &p);
    }
    print_message("%s: %d products\n", backend, served);
    assert_true(served > 0);
    limber_destroy(ctx);
}

static void magnitudes_in_the_interpreter(void **state)
{
    (void)state;
    run_backend("interp", SANITIZED ? 7 : 1);
}

static void magnitudes_in_compiled_kernels(void **state)
{
    (void)state;
    run_backend("llvm", SANITIZED ? 7 : 1);
}

static void magnitudes_in_cuda_kernels(void **state)
{
    (void)state;
    gpu_stand_ins();
    run_backend("cuda", is_long() ? 149 : 307);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magnitudes_in_the_interpreter),
        cmocka_unit_test(magnitudes_in_compiled_kernels),
        cmocka_unit_test(magnitudes_in_cuda_kernels),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
