/* SPDX-License-Identifier: BSD-3-Clause
 * Tests limber_run_plan and limber_kernel_make with plans as text: stated and finished ones have
 * the bits of the same calls without a plan, and each refusal names its reason and leaves C as it
 * was. */
#define _GNU_SOURCE
#include "contexts.h"
#include "limber/ops.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M = 23, N = 19, K = 40 };

static limber_context *ctx, *interp;
static double a[M * K], b[K * N];
static float af[M * K], bf[K * N];

static int setup(void **state)
{
    struct rng rng = { 3 };

    (void)state;
    ctx = group_context(.threads = 2);
    interp = group_context(.threads = 1, .backend = "interp");
    fill(&rng, DATA_unit, LIMBER_F64, a, M * K);
    fill(&rng, DATA_unit, LIMBER_F64, b, K * N);
    fill(&rng, DATA_unit, LIMBER_F32, af, M * K);
    fill(&rng, DATA_unit, LIMBER_F32, bf, K * N);
    return ctx && interp ? 0 : -1;
}

static bool is_single(limber_format f)
{
    return limber_format_equal(f, LIMBER_F32);
}

/* Returns the product of the test's matrices in format f, with the result in c. */
static limber_problem problem_of(limber_format f, void *c)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = M;
    p.n = N;
    p.k = K;
    p.a = (limber_matrix){ is_single(f) ? (void *)af : a, f, K, 1 };
    p.b = (limber_matrix){ is_single(f) ? (void *)bf : b, f, N, 1 };
    p.c = (limber_output){ c, f, N, 1 };
    return p;
}

/* Returns a copy of the last plan of a text that shows several.  Frees the text. */
static char *last_plan(char *all)
{
    char *at = all, *next, *end, *one;

    while ((next = strstr(at + 1, "\nplan ")))
        at = next + 1;
    end = strstr(at, "\n}\n");
    assert_non_null(end);
    assert_true(asprintf(&one, "%.*s", (int)(end + 3 - at), at) > 0);
    limber_free(all);
    return one;
}

/* Returns the text of the plan after all passes, for a product under a contract. */
static char *finished(const limber_contract *k, limber_format f)
{
    double c[M * N];
    limber_problem p = problem_of(f, c);
    char *text = NULL;

    p.contract = k;
    if (limber_plan(ctx, &p, &text, NULL) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    return last_plan(text);
}

/* The contracts and formats of the plans to run. */
static const struct wanted {
    limber_contract contract;
    const char *format;
} wanted[] = {
#define C(...) { .size = sizeof(limber_contract), __VA_ARGS__ }
    { C(.promise = LIMBER_CONTRACT_FAST, .scheme = "fp32-f"), "f32" },
    { C(.promise = LIMBER_CONTRACT_FAST, .scheme = "fp32-b"), "f32" },
    { C(.promise = LIMBER_CONTRACT_BITS, .bits = 40, .scheme = "ozaki1-i8"), "f64" },
    { C(.promise = LIMBER_CONTRACT_FAST, .scheme = "ozaki1-f16", .slices = 3), "f64" },
    { C(.promise = LIMBER_CONTRACT_CORRECT, .scheme = "ozaki2"), "f64" },
    { C(.promise = LIMBER_CONTRACT_CORRECT, .scheme = "accumulator"), "f32" },
    { C(.promise = LIMBER_CONTRACT_NATIVE, .scheme = "native"), "f64" },
#undef C
};

/* The plan of a call after all passes, given back as text, has the bits of that call, compiled
 * and interpreted, and its kernel can be compiled ahead of time. */
static void finished_plans_have_their_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        limber_format f = named(wanted[i].format);
        size_t bytes = M * N * (size_t)f.size;
        char *text = finished(&wanted[i].contract, f), *want = poisoned(bytes);
        limber_report r = LIMBER_REPORT_INIT, made = LIMBER_REPORT_INIT;
        limber_problem p = problem_of(f, want);

        p.contract = &wanted[i].contract;
        if (limber_run(ctx, &p, &r) != LIMBER_STATUS_OK ||
            limber_kernel_make(ctx, text, &made) != LIMBER_STATUS_OK)
            fail_msg("%s: %s\n%s", wanted[i].contract.scheme, limber_error_text(), text);
        assert_string_equal(made.scheme, wanted[i].contract.scheme);
        for (int which = 0; which < 2; which++) {
            limber_report is = LIMBER_REPORT_INIT;
            char *c = poisoned(bytes);

            p = problem_of(f, c);
            if (limber_run_plan(which ? interp : ctx, text, &p, &is) != LIMBER_STATUS_OK)
                fail_msg("%s: %s\n%s", wanted[i].contract.scheme, limber_error_text(), text);
            assert_memory_equal(c, want, bytes);
            assert_string_equal(is.scheme, wanted[i].contract.scheme);
            assert_true(is.bound == made.bound && is.rows == made.rows);
            free(c);
        }
        free(want);
        free(text);
    }
}

static const char correct_plan[] = "plan gemm promise=correct kbits=8 budget=0 {\n"
                                   "  %a = arg index=0 : f64[m,k]\n"
                                   "  %b = arg index=1 : f64[k,n]\n"
                                   "  %c = gemm %a %b : exact[m,n]\n"
                                   "  %d = epilogue %c alpha=one beta=zero wrap=0 : f64[m,n]\n"
                                   "  ret %d\n"
                                   "}\n";

/* Demands that the plan `correct_plan` has the bits of the same call under the contract `correct`,
 * compiled and interpreted.  c, want: the call's C has `numbers` doubles. */
static void check_correct_plan(limber_problem p, double *c, double *want, size_t numbers)
{
    const limber_contract k = { .size = sizeof k, .promise = LIMBER_CONTRACT_CORRECT };
    limber_report r = LIMBER_REPORT_INIT;

    for (size_t i = 0; i < numbers; i++)
        want[i] = -1;
    p.contract = &k;
    p.c.data = want;
    if (limber_run(ctx, &p, NULL) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    p.contract = NULL;
    p.c.data = c;
    for (int which = 0; which < 2; which++) {
        for (size_t i = 0; i < numbers; i++)
            c[i] = -1;
        if (limber_run_plan(which ? interp : ctx, correct_plan, &p, &r) != LIMBER_STATUS_OK)
            fail_msg("%s", limber_error_text());
        assert_memory_equal(c, want, numbers * sizeof *c);
        assert_true(r.rows > 0 && r.seconds_run > 0);
    }
}

/* A plan of the real product computes complex ones, in rows and columns, with conjugates, complex
 * scalars and in batches.  Three products it is not for. */
static void complex_products_run(void **state)
{
    static const double alpha[2] = { 1.5, -0.25 }, beta[2] = { 0, 1 };
    static double c[2 * M * N], want[2 * M * N];
    const limber_batch batch = { .size = sizeof batch, .count = 2, .a = K / 2, .b = N, .c = N };
    limber_problem p = problem_of(LIMBER_F64, c), columns;

    (void)state;
    p.domain = LIMBER_DOMAIN_COMPLEX;
    p.k = K / 2;
    p.a.row_stride = K / 2;
    check_correct_plan(p, c, want, 2 * M * N);
    p.conjugate = LIMBER_CONJUGATE_A;
    columns = p;
    columns.c.row_stride = 1;
    columns.c.col_stride = M;
    check_correct_plan(columns, c, want, 2 * M * N);
    p.alpha = alpha;
    p.beta = beta;
    check_correct_plan(p, c, want, 2 * M * N);
    p.alpha = p.beta = NULL;
    p.batch = &batch; /* of one row of A by one row of B */
    p.m = p.k = 1;
    check_correct_plan(p, c, want, 4 * N);
    p.complex_method = LIMBER_COMPLEX_THREE_PRODUCTS;
    assert_int_equal(limber_run_plan(ctx, correct_plan, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(limber_error_text(), "problem.complex_method: a plan is of one real"));
}

/* The steps of an epilogue follow the plan's product, of a batch, too. */
static void epilogues_run(void **state)
{
    static double c[M * N], want[M * N];
    const limber_batch batch = { .size = sizeof batch, .count = 2, .a = K, .b = 0, .c = N };
    const limber_epilogue_input bias = { .size = sizeof bias,
                                         .name = "bias",
                                         .data = b,
                                         .format = LIMBER_F64,
                                         .shape = LIMBER_INPUT_COLUMN };
    const limber_epilogue steps = { .size = sizeof steps,
                                    .steps = "%1 = mul %x %bias\n%2 = tanh %1",
                                    .inputs = &bias,
                                    .input_count = 1 };
    limber_problem p = problem_of(LIMBER_F64, c);

    (void)state;
    p.epilogue = &steps;
    check_correct_plan(p, c, want, M * N);
    p.batch = &batch;
    p.m = 1;
    check_correct_plan(p, c, want, 2 * N);
}

/* A plan without decisions of the passes (products are `exact`) runs all passes and has the bits
 * of the call. */
static void stated_plans_run(void **state)
{
    static const char text[] = "plan gemm promise=correct kbits=8 budget=0 {\n"
                               "  %a = arg index=0 : f64[m,k]\n"
                               "  %b = arg index=1 : f64[k,n]\n"
                               "  %c = gemm %a %b : exact[m,n]\n"
                               "  %c0 = arg index=2 : f64[m,n]\n"
                               "  %d = epilogue %c %c0 alpha=arg beta=arg wrap=0 : f64[m,n]\n"
                               "  ret %d\n"
                               "}\n";
    const limber_contract k = { .size = sizeof k, .promise = LIMBER_CONTRACT_CORRECT };
    double want[M * N], c[M * N], alpha = 0.7, beta = -1.1;
    limber_problem p = problem_of(LIMBER_F64, want);

    (void)state;
    for (int i = 0; i < M * N; i++)
        want[i] = c[i] = i;
    p.alpha = &alpha;
    p.beta = &beta;
    p.contract = &k;
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    p.c.data = c;
    p.contract = NULL;
    if (limber_run_plan(ctx, text, &p, NULL) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    assert_memory_equal(c, want, sizeof c);
    p.alpha = p.beta = NULL; /* a plan for any alpha and beta also computes with 1 and 0 */
    p.contract = &k;
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    memcpy(want, c, sizeof c);
    p.contract = NULL;
    assert_int_equal(limber_run_plan(interp, text, &p, NULL), LIMBER_STATUS_OK);
    assert_memory_equal(c, want, sizeof c);
    p.m = 0;
    assert_int_equal(limber_run_plan(ctx, text, &p, NULL), LIMBER_STATUS_OK);
}

/* A batch that is computed by the text of a plan after all passes has the bits of single products,
 * also if matrices are given by address, and with alpha and beta if the plan has them. */
static void batches_run(void **state)
{
    enum { COUNT = 5, BM = 4, BK = 8, BN = 3 };
    const limber_contract k = { .size = sizeof k,
                                .promise = LIMBER_CONTRACT_CORRECT,
                                .scheme = "ozaki1-i8" };
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_batch batch = {
        .size = sizeof batch, .count = COUNT, .a = BM * BK, .b = BK * BN, .c = BM * BN
    };
    const void *from_a[COUNT], *from_b[COUNT];
    void *to[COUNT];
    double want[COUNT * BM * BN], c[COUNT * BM * BN], alpha = 3, beta = 0.3;
    char *text = NULL;

    (void)state;
    p.m = BM;
    p.n = BN;
    p.k = BK;
    p.a = (limber_matrix){ a, LIMBER_F64, BK, 1 };
    p.b = (limber_matrix){ b, LIMBER_F64, BN, 1 };
    p.c = (limber_output){ want, LIMBER_F64, BN, 1 };
    p.alpha = &alpha;
    p.beta = &beta;
    p.contract = &k;
    assert_int_equal(limber_plan(ctx, &p, &text, NULL), LIMBER_STATUS_OK);
    text = last_plan(text);
    for (int i = 0; i < COUNT * BM * BN; i++)
        want[i] = i;
    for (int g = 0; g < COUNT; g++) {
        p.a.data = a + g * BM * BK;
        p.b.data = b + g * BK * BN;
        p.c.data = want + g * BM * BN;
        from_a[g] = p.a.data;
        from_b[g] = p.b.data;
        to[g] = c + g * BM * BN;
        assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    }
    p.contract = NULL;
    p.batch = &batch;
    for (int which = 0; which < 4; which++) {
        p.a.data = a;
        p.b.data = b;
        p.c.data = c;
        if (which > 1) {
            batch.address_a = from_a;
            batch.address_b = from_b;
            batch.address_c = to;
        }
        for (int i = 0; i < COUNT * BM * BN; i++)
            c[i] = i;
        if (limber_run_plan(which % 2 ? interp : ctx, text, &p, NULL) != LIMBER_STATUS_OK)
            fail_msg("%s\n%s", limber_error_text(), text);
        assert_memory_equal(c, want, sizeof c);
    }
    a[3 * BM * BK + 1] = __builtin_inf(); /* one matrix is not what the plan is for */
    assert_int_equal(limber_run_plan(ctx, text, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(limber_error_text(), "a: has NaN or infinities"));
    assert_memory_equal(c, want, sizeof c);
    a[3 * BM * BK + 1] = 0.25;
    free(text);
}

/* A convolution's plan gives the bits of the call; another geometry is refused. */
static void convolutions_run(void **state)
{
    const limber_contract k = { .size = sizeof k,
                                .promise = LIMBER_CONTRACT_FAST,
                                .scheme = "fp32-f" };
    limber_conv s = LIMBER_CONV_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;
    float want[2 * 4 * 4 * 5], c[2 * 4 * 4 * 5];
    char *text = NULL;

    (void)state;
    s.n = 2;
    s.c = 2;
    s.h = 8;
    s.w = 9;
    s.o = 4;
    s.r = s.s = 3;
    s.groups = 1;
    s.stride[0] = s.stride[1] = 2;
    s.dilate[0] = s.dilate[1] = 1;
    s.pad[0] = s.pad[1] = s.pad[2] = s.pad[3] = 1;
    p.operation = LIMBER_OPERATION_CONV_FORWARD;
    p.conv = &s;
    p.a = (limber_matrix){ af, LIMBER_F32, 0, 0 };
    p.b = (limber_matrix){ bf, LIMBER_F32, 0, 0 };
    p.c = (limber_output){ want, LIMBER_F32, 0, 0 };
    p.contract = &k;
    assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
    assert_int_equal(limber_plan(ctx, &p, &text, NULL), LIMBER_STATUS_OK);
    text = last_plan(text);
    p.contract = NULL;
    p.c.data = c;
    for (int which = 0; which < 2; which++) {
        memset(c, 1, sizeof c);
        if (limber_run_plan(which ? interp : ctx, text, &p, NULL) != LIMBER_STATUS_OK)
            fail_msg("%s\n%s", limber_error_text(), text);
        assert_memory_equal(c, want, sizeof c);
    }
    s.pad[1] = 2;
    assert_int_equal(limber_run_plan(ctx, text, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(limber_error_text(), "conv: stride, pad"));
    free(text);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Returns the text with the first `from` replaced by `by`. */
static char *with(const char *text, const char *from, const char *by)
{
    const char *at = strstr(text, from);
    char *out = NULL;

    if (!at)
        fail_msg("no \"%s\" in\n%s", from, text);
    assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, by, at + strlen(from)) > 0);
    return out;
}

/* Checks that the plan is refused with this status and a text that contains `why`, and that C is
 * unchanged. */
static void refused(limber_context *on, const char *text, const limber_problem *p,
                    limber_status status, const char *why)
{
    size_t bytes = M * N * (size_t)p->c.format.size;
    char *c = poisoned(bytes), *before = poisoned(bytes);
    limber_problem x = *p;

    x.c.data = c;
    assert_refused(limber_run_plan(on, text, &x, NULL), status, why);
    assert_memory_equal(c, before, bytes);
    free(before);
    free(c);
}

/* A plan that does not fit the call, or that `bound` rejects, is refused with a text that names
 * the reason. */
static void what_does_not_fit_is_named(void **state)
{
    const limber_contract k = { .size = sizeof k,
                                .promise = LIMBER_CONTRACT_FAST,
                                .scheme = "fp32-f" };
    static const char *const changes[][3] = {
        { "kbits=8", "kbits=5", "k = 40: kbits=5, so the plan serves k up to 32" },
        { "shift=12", "shift=11", "its limbs count 2^-11" },
        { "    row ", "    ; row ", "without the row" },
        { "promise=fast", "promise=native", "exceeds what the contract allows" },
    };
    char *text = finished(&k, LIMBER_F32), *other;
    limber_problem p = problem_of(LIMBER_F32, NULL), q;
    float two = 2;

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        other = with(text, changes[i][0], changes[i][1]);
        if (i > 0) { /* the pass that bounds errors refuses these */
            refused(ctx, other, &p, LIMBER_STATUS_NO_SCHEME, changes[i][2]);
            refused(interp, other, &p, LIMBER_STATUS_NO_SCHEME, changes[i][2]);
            assert_int_equal(limber_kernel_make(ctx, other, NULL), LIMBER_STATUS_NO_SCHEME);
        } else {
            refused(ctx, other, &p, LIMBER_STATUS_BAD_ARGUMENT, changes[i][2]);
        }
        free(other);
    }
    q = problem_of(LIMBER_F64, NULL);
    refused(ctx,
            "plan gemm promise=native kbits=8 budget=any {\n"
            "  %a = arg index=0 : f64[24,k]\n"
            "  %b = arg index=1 : f64[k,n]\n"
            "  %c = gemm %a %b : exact[24,n]\n"
            "  %d = epilogue %c alpha=one beta=zero wrap=0 : f64[24,n]\n"
            "  ret %d\n"
            "}\n",
            &q, LIMBER_STATUS_BAD_ARGUMENT, "%a has 24 in dimension 0, the call 23");
    refused(ctx, text, &q, LIMBER_STATUS_BAD_ARGUMENT, "a: is f64, the plan's %a is f32");
    q = p;
    q.alpha = &two;
    refused(ctx, text, &q, LIMBER_STATUS_BAD_ARGUMENT, "alpha: the plan has alpha=one");
    q = p;
    q.beta = &two;
    refused(ctx, text, &q, LIMBER_STATUS_BAD_ARGUMENT, "beta: the plan has beta=zero");
    q = p;
    q.contract = &k;
    refused(ctx, text, &q, LIMBER_STATUS_BAD_ARGUMENT, "contract: the plan states it");
    q = p;
    q.b.data = NULL;
    refused(ctx, text, &q, LIMBER_STATUS_BAD_ARGUMENT, "b.data is NULL");
    refused(ctx, "plan gemm {", &p, LIMBER_STATUS_BAD_ARGUMENT, "plan: ");
    refused(ctx, NULL, &p, LIMBER_STATUS_BAD_ARGUMENT, "plan is NULL");
    assert_int_equal(limber_run_plan(NULL, text, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_run_plan(ctx, text, NULL, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    free(text);
}

/* Data outside the exponent ranges that the plan states is refused. */
static void other_data_is_refused(void **state)
{
    const limber_contract k = { .size = sizeof k,
                                .promise = LIMBER_CONTRACT_FAST,
                                .scheme = "fp32-f" };
    char *text = finished(&k, LIMBER_F32);
    limber_problem p = problem_of(LIMBER_F32, NULL);
    const float kept = af[7];

    (void)state;
    af[7] = 0x1p40f;
    refused(ctx, text, &p, LIMBER_STATUS_BAD_ARGUMENT, "a: has emax=40, the plan emax=");
    af[7] = 0x1p-60f;
    refused(ctx, text, &p, LIMBER_STATUS_BAD_ARGUMENT, "a: has emin=-60, the plan emin=");
    af[7] = (float)__builtin_inf();
    refused(ctx, text, &p, LIMBER_STATUS_BAD_ARGUMENT, "a: has NaN or infinities");
    af[7] = kept;
    free(text);
}

/* A plan for tensor cores is interpreted on a CPU; if the contract names the LLVM backend, the
 * refusal names it. */
static void plans_for_other_machines(void **state)
{
    static const char text[] = "plan gemm promise=fast kbits=6 budget=any scheme=tensor-f16 {\n"
                               "  %a = arg index=0 : f16[m,k]\n"
                               "  %b = arg index=1 : f16[k,n]\n"
                               "  %l = whole %a : f16[m,k]x1\n"
                               "  %r = whole %b : f16[k,n]x1\n"
                               "  %s = products %l %r unit=f16 chunk=64 sums=h100 : f32[m,n]x1 {\n"
                               "    row %l.0 %r.0 acc=0 w=2^0 share=all\n"
                               "  }\n"
                               "  %e = combine %s reconstruct=sum : f32[m,n]\n"
                               "  %d = epilogue %e alpha=one beta=zero wrap=0 : f32[m,n]\n"
                               "  ret %d\n"
                               "}\n";
    limber_config config = { .size = sizeof config, .backend = "llvm", .threads = 1 };
    uint16_t h[K * K];
    float c[M * N], d[M * N];
    limber_report r = LIMBER_REPORT_INIT;
    limber_problem p = problem_of(LIMBER_F32, c);
    limber_context *llvm = NULL;

    (void)state;
    limber_convert(h, LIMBER_F16, af, LIMBER_F32, M * K, LIMBER_ROUND_NEAREST);
    p.a = (limber_matrix){ h, LIMBER_F16, K, 1 };
    p.b = (limber_matrix){ h, LIMBER_F16, N, 1 };
    if (limber_run_plan(ctx, text, &p, &r) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    assert_string_equal(r.backend, "interp");
    p.c.data = d;
    assert_int_equal(limber_run_plan(interp, text, &p, NULL), LIMBER_STATUS_OK);
    assert_memory_equal(c, d, sizeof c);
    if (limber_create(&llvm, &config) != LIMBER_STATUS_OK)
        skip();
    refused(llvm, text, &p, LIMBER_STATUS_NO_SCHEME, "sums");
    limber_destroy(llvm);
}

/* A plan of a contract that allows less for a smaller k runs below its class only if its bound is
 * small enough there.  Plans of one FP32 product are, plans of FP16 limbs are not. */
static void small_k_keeps_the_contract(void **state)
{
    static const char head[] = "plan gemm promise=native wanted=%s kbits=10 budget=any {\n"
                               "  %%a = arg index=0 emin=-40 emax=3 spread=12 width=36 sig=24 "
                               "sign=signed special=0 : f32[m,k]\n"
                               "  %%b = arg index=1 emin=-40 emax=3 spread=12 width=36 sig=24 "
                               "sign=signed special=0 : f32[k,n]\n"
                               "  %%c = gemm %%a %%b : exact[m,n]\n"
                               "  %%d = epilogue %%c alpha=one beta=zero wrap=0 : f32[m,n]\n"
                               "  ret %%d\n"
                               "}\n";
    float c[M * N];
    limber_problem p = problem_of(LIMBER_F32, c);
    char text[800];

    (void)state;
    for (int i = 0; i < M * K; i++)
        af[i] = 1 + (float)(i % 7) / 8;
    for (int i = 0; i < K * N; i++)
        bf[i] = 1 + (float)(i % 5) / 8;
    p.m = p.n = 2;
    p.c.row_stride = 2;
    snprintf(text, sizeof text, head, "native");
    for (p.k = 0; p.k < 3; p.k++)
        if (limber_run_plan(ctx, text, &p, NULL) != LIMBER_STATUS_OK)
            fail_msg("k = %d: %s", (int)p.k, limber_error_text());
    snprintf(text, sizeof text, head, "fp32-f");
    p.k = 2;
    refused(ctx, text, &p, LIMBER_STATUS_NO_SCHEME, "exceeds what the contract allows");
    refused(ctx, text, &p, LIMBER_STATUS_NO_SCHEME,
            "at k = 2, and one plan serves all k up to 1024");
    p.m = p.n = 1;
    p.a.row_stride = p.k = 257;
    p.b.row_stride = 1;
    if (limber_run_plan(ctx, text, &p, NULL) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finished_plans_have_their_bits),
        cmocka_unit_test(stated_plans_run),
        cmocka_unit_test(batches_run),
        cmocka_unit_test(complex_products_run),
        cmocka_unit_test(epilogues_run),
        cmocka_unit_test(convolutions_run),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(other_data_is_refused),
        cmocka_unit_test(plans_for_other_machines),
        cmocka_unit_test(small_k_keeps_the_contract),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
