/* SPDX-License-Identifier: BSD-3-Clause
 * A list of calls, one for each public function that computes, plans or queries, with small
 * operands.  A test can be run for each of them.  The result of a call is left in c. */
#ifndef LIMBER_TEST_EVERY_CALL_H
#define LIMBER_TEST_EVERY_CALL_H

#include "compiler.h"
#include "files.h"
#include "support.h"

#include "jit/api/api.h"

#include <limber/interval.h>
#include <limber/ops.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 24, ROWS = 160, LONG = 512, ALL = ROWS * ROWS };

static double a[ALL], b[ALL], c[2 * ALL], before[2 * ALL];
static double odd[ALL]; /* a, with some NaN and infinities after the first N x N elements */
static double tiles[ALL]; /* rows of LONG elements: 256 small integers, then 256 general numbers */
static int8_t bytes_a[ALL], bytes_b[ALL];
static limber_format f64, f32, i8, i32;

static limber_matrix matrix(const void *p, limber_format f, int64_t row)
{
    return (limber_matrix){ (void *)(uintptr_t)p, f, row, 1 };
}

/* Multiplies `left` (m x k) by b with nonzero alpha and beta.  With `tiles` the product must be
 * computed in several parts. */
static limber_status multiply_left_by_b(limber_context *ctx, const limber_contract *contract,
                                        const double *left, int m, int n, int k)
{
    const double alpha = 0.75, beta = 0.5;
    limber_report r = LIMBER_REPORT_INIT;
    limber_status s = limber_gemm(ctx, contract, m, n, k, &alpha, matrix(left, f64, k),
                                  matrix(b, f64, n), &beta, output_of(matrix(c, f64, n)), &r);

    assert_true(s != LIMBER_STATUS_OK || left != tiles || r.parts > 1);
    return s;
}

static limber_status multiply_n_by_n(limber_context *ctx, const limber_contract *k,
                                     const double *left)
{
    return multiply_left_by_b(ctx, k, left, N, N, N);
}

/* Multiplies N x N matrices under the contract `native`. */
static limber_status native(limber_context *ctx)
{
    return multiply_n_by_n(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE },
        a);
}

/* Multiplies under `bits`. */
static limber_status bits(limber_context *ctx)
{
    return multiply_n_by_n(ctx,
                           &(limber_contract){ .size = sizeof(limber_contract),
                                               .promise = LIMBER_CONTRACT_BITS,
                                               .bits = 40 },
                           a);
}

/* Multiplies N x N matrices under the contract `correct`. */
static limber_status correct(limber_context *ctx)
{
    return multiply_n_by_n(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        a);
}

/* Multiplies `tiles` by b with two schemes, each for a part of the product. */
static limber_status gemm_mixed(limber_context *ctx)
{
    return multiply_left_by_b(ctx,
                              &(limber_contract){ .size = sizeof(limber_contract),
                                                  .promise = LIMBER_CONTRACT_NATIVE,
                                                  .scheme = "ozaki2+native" },
                              tiles, N, N, LONG);
}

/* Multiplies ROWS rows under the contract bits=90. */
static limber_status gemm_in_parts(limber_context *ctx)
{
    return multiply_left_by_b(ctx,
                              &(limber_contract){ .size = sizeof(limber_contract),
                                                  .promise = LIMBER_CONTRACT_BITS,
                                                  .bits = 90 },
                              a, ROWS, ROWS, N);
}

/* Multiplies with the policy that the interpreter computes while no kernel is ready. */
static limber_status on_miss(limber_context *ctx)
{
    return multiply_n_by_n(ctx,
                           &(limber_contract){ .size = sizeof(limber_contract),
                                               .promise = LIMBER_CONTRACT_CORRECT,
                                               .on_miss = LIMBER_ON_MISS_GENERIC },
                           a);
}

/* Multiplies integers under `exact`. */
static limber_status integers(limber_context *ctx)
{
    return limber_gemm(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_EXACT }, N,
        N, N, NULL, matrix(bytes_a, i8, N), matrix(bytes_b, i8, N), NULL,
        output_of(matrix(c, i32, N)), NULL);
}

/* Multiplies N x N integers modulo the largest prime below 2^61. */
static limber_status modular(limber_context *ctx)
{
    return limber_gemm(ctx,
                       &(limber_contract){ .size = sizeof(limber_contract),
                                           .promise = LIMBER_CONTRACT_EXACT,
                                           .modulus = ((uint64_t)1 << 61) - 1 },
                       N, N, N, NULL, matrix(bytes_a, i8, N), matrix(bytes_b, i8, N), NULL,
                       output_of(matrix(c, named("i64"), N)), NULL);
}

/* Multiplies N x N matrices under the contract `correct`, rounded up. */
static limber_status upward(limber_context *ctx)
{
    return multiply_n_by_n(ctx,
                           &(limber_contract){ .size = sizeof(limber_contract),
                                               .promise = LIMBER_CONTRACT_CORRECT,
                                               .rounding = LIMBER_ROUND_UP },
                           a);
}

/* Multiplies N x N intervals: points, or bounds from a to |a|. */
static limber_status multiply_intervals(limber_context *ctx, bool points)
{
    static double high[N * N];
    limber_interval_call x = LIMBER_INTERVAL_INIT;

    for (int i = 0; i < N * N; i++)
        high[i] = fabs(a[i]); /* raises no exception where those are traps */
    x.m = x.n = x.k = N;
    x.a_low = matrix(a, f64, N);
    x.b_low = matrix(b, f64, N);
    if (!points)
        x.a_high = matrix(high, f64, N);
    x.c_low = output_of(matrix(c, f64, N));
    x.c_high = output_of(matrix(c + N * N, f64, N));
    return limber_interval_gemm(ctx, &x, NULL);
}

static limber_status points(limber_context *ctx)
{
    return multiply_intervals(ctx, true);
}

static limber_status intervals(limber_context *ctx)
{
    return multiply_intervals(ctx, false);
}

/* Multiplies powers of two (format e8m0). */
static limber_status powers(limber_context *ctx)
{
    return limber_gemm(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE }, N,
        N, N, NULL, matrix(bytes_a, named("e8m0"), N), matrix(bytes_b, named("e8m0"), N), NULL,
        output_of(matrix(c, f64, N)), NULL);
}

/* An INT8 result that overflows must be refused with LIMBER_STATUS_RANGE, and c left unchanged. */
static limber_status out_of_range(limber_context *ctx)
{
    limber_status s = limber_gemm(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_EXACT }, N,
        N, N, NULL, matrix(bytes_a, i8, N), matrix(bytes_b, i8, N), NULL,
        output_of(matrix(c, i8, N)), NULL);

    return s == LIMBER_STATUS_RANGE && memcmp(c, before, sizeof c) == 0 ? LIMBER_STATUS_OK : s;
}

/* Multiplies on a simulated matrix unit.  s: gets its statistics unless NULL. */
static limber_status gemm_simulated(limber_context *ctx, limber_statistics *s)
{
    limber_unit u = LIMBER_UNIT_INIT;
    limber_status read = limber_unit_parse("in=e5m2 mul=e5m2:rn acc=(1,8,7):rn", &u);

    return read ? read :
                  multiply_n_by_n(ctx,
                                  &(limber_contract){ .size = sizeof(limber_contract),
                                                      .promise = LIMBER_CONTRACT_SIMULATE,
                                                      .unit = &u,
                                                      .statistics = s },
                                  a);
}

static limber_status simulate_without_statistics(limber_context *ctx)
{
    return gemm_simulated(ctx, NULL);
}

static limber_status statistics(limber_context *ctx)
{
    limber_statistics s = { .size = sizeof(limber_statistics), .compare = 1 };

    return gemm_simulated(ctx, &s);
}

/* Computes a batch of four products. */
static limber_status batch_of(limber_context *ctx, const limber_contract *k, const void *left,
                              const void *right, limber_format from, limber_format to)
{
    enum { COUNT_OF = 4, SIDE = 24, STEP = SIDE * SIDE };
    const limber_batch t = {
        .size = sizeof(limber_batch), .count = COUNT_OF, .a = STEP, .b = STEP, .c = STEP
    };

    return gemm_batch(ctx, k, NULL, &t, SIDE, SIDE, SIDE, NULL, matrix(left, from, SIDE),
                      matrix(right, from, SIDE), NULL, output_of(matrix(c, to, SIDE)), NULL);
}

static limber_status batch(limber_context *ctx)
{
    return batch_of(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE }, a,
        b, f64, f64);
}

static limber_status batch_correct(limber_context *ctx)
{
    return batch_of(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        a, b, f64, f64);
}

static limber_status batch_special(limber_context *ctx)
{
    return batch_of(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        odd, b, f64, f64);
}

static limber_status batch_integers(limber_context *ctx)
{
    return batch_of(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_EXACT },
        bytes_a, bytes_b, i8, i32);
}

/* Multiplies complex matrices, with A conjugated, by `products` real products (0: as the library
 * chooses). */
static limber_status gemm_complex_of(limber_context *ctx, limber_promise promise, int products)
{
    enum { SIDE = 40 };
    const double alpha[2] = { 1.5, -0.25 }, beta[2] = { 0, 2 };
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = promise,
                                .scheme = promise == LIMBER_CONTRACT_FAST ? "native" : NULL };
    limber_report r = LIMBER_REPORT_INIT;

    return gemm_complex(ctx, &k, NULL, SIDE, SIDE, SIDE, alpha, matrix(a, f64, SIDE), 1,
                        matrix(b, f64, SIDE), 0, beta, output_of(matrix(c, f64, SIDE)), &r,
                        products);
}

static limber_status complex_by_four(limber_context *ctx)
{
    return gemm_complex_of(ctx, LIMBER_CONTRACT_CORRECT, 4);
}

static limber_status complex_three(limber_context *ctx)
{
    return gemm_complex_of(ctx, LIMBER_CONTRACT_FAST, 3);
}

static const limber_conv window = { .size = sizeof(limber_conv),
                                    .n = 2,
                                    .c = 8,
                                    .h = 9,
                                    .w = 9,
                                    .o = 6,
                                    .r = 3,
                                    .s = 3,
                                    .stride = { 1, 1 },
                                    .pad = { 1, 1, 1, 1 },
                                    .dilate = { 1, 1 },
                                    .groups = 2 };

static limber_status conv(limber_context *ctx)
{
    return limber_conv2d(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        &window, NULL, a, f64, b, f64, NULL, c, f64, NULL);
}

/* Computes a gradient of an image with stride 2: several phases, each of which stores some
 * pixels. */
static limber_status strided(limber_context *ctx, limber_conv w, limber_promise promise)
{
    w.stride[0] = w.stride[1] = 2;
    return limber_conv2d_backward_data(
        ctx, &(limber_contract){ .size = sizeof(limber_contract), .promise = promise }, &w, NULL, a,
        f64, b, f64, NULL, c, f64, NULL);
}

static limber_status gradient(limber_context *ctx)
{
    return strided(ctx, window, LIMBER_CONTRACT_CORRECT);
}

/* Computes a gradient with 1 x 1 filters and stride 2: pixels that no filter position reads are
 * set to zero. */
static limber_status gradient_with_unread_pixels(limber_context *ctx)
{
    limber_conv w = window;

    w.r = w.s = w.groups = 1;
    return strided(ctx, w, LIMBER_CONTRACT_CORRECT);
}

static limber_status depthwise_gradient(limber_context *ctx)
{
    limber_conv w = window;

    w.o = w.groups = w.c;
    return strided(ctx, w, LIMBER_CONTRACT_NATIVE);
}

/* Prepares the left operand and multiplies with it. */
static limber_status prepared(limber_context *ctx)
{
    limber_prepared *left = NULL;
    limber_status s = limber_prepare(ctx, matrix(a, f64, N), N, N, LIMBER_SIDE_A, NULL, &left);
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT };

    if (s == LIMBER_STATUS_OK)
        s = gemm_prepared(ctx, &k, N, N, N, NULL, left, matrix(a, f64, N), NULL, matrix(b, f64, N),
                          NULL, output_of(matrix(c, f64, N)), NULL);
    limber_prepared_free(left);
    return s;
}

/* Applies a function to the first `count` elements of a, with results in this format. */
static limber_status apply_to(limber_context *ctx, limber_format to, size_t count)
{
    limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

    e.function = LIMBER_FUNCTION_GELU;
    e.from = named("bf16");
    e.to = to;
    e.rounding = LIMBER_ROUND_UP;
    e.src = before, e.dst = c, e.count = count;
    return limber_apply(ctx, &e);
}

static limber_status apply(limber_context *ctx)
{
    return apply_to(ctx, f64, ALL);
}

/* Applies a function to an array so long that the library makes a table of the function, for all
 * values of the format. */
static limber_status apply_by_table(limber_context *ctx)
{
    return apply_to(ctx, named("f16"), 2 * ALL);
}

static limber_status convert(limber_context *ctx)
{
    (void)ctx;
    return limber_convert(c, named("e5m2"), a, f64, ALL, LIMBER_ROUND_UP);
}

/* Reduces ROWS elements of b to c, for `outer` x `inner` reductions.  Only layer norm gets scale
 * factors. */
static limber_status reduce_by(limber_context *ctx, limber_reduction reduction, limber_carry carry,
                               size_t outer, size_t inner)
{
    limber_reduce_call r = LIMBER_REDUCE_INIT;

    r.reduction = reduction;
    r.carry = carry;
    r.from = f64, r.to = f32;
    r.outer = outer, r.count = ROWS, r.inner = inner;
    r.epsilon = 1e-5;
    r.src = b, r.dst = c;
    r.scale = reduction == LIMBER_REDUCTION_LAYER_NORM ? b : NULL;
    return limber_reduce(ctx, &r);
}

static limber_status softmax(limber_context *ctx)
{
    return reduce_by(ctx, LIMBER_REDUCTION_SOFTMAX, LIMBER_CARRY_F32, ROWS, 1);
}

static limber_status layer_norm(limber_context *ctx)
{
    return reduce_by(ctx, LIMBER_REDUCTION_LAYER_NORM, LIMBER_CARRY_EXACT, 1, ROWS);
}

static limber_status variance(limber_context *ctx)
{
    return reduce_by(ctx, LIMBER_REDUCTION_VARIANCE, LIMBER_CARRY_STORAGE, 4, ROWS / 4);
}

/* Runs (text == NULL) or plans a problem whose epilogue has eight inputs and sixteen steps. */
static limber_status run_or_plan_with_epilogue(limber_context *ctx, limber_problem *p, char **text)
{
    static const char *const names[] = { "i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7" };
    limber_epilogue_input in[COUNT(names)];
    limber_epilogue e = LIMBER_EPILOGUE_INIT;

    for (size_t i = 0; i < COUNT(names); i++) {
        in[i] = (limber_epilogue_input)LIMBER_EPILOGUE_INPUT_INIT;
        in[i].name = names[i];
        in[i].shape = i % 2 ? LIMBER_INPUT_ROW : LIMBER_INPUT_SCALAR;
        in[i].format = i % 3 ? f64 : i8;
        in[i].data = i % 3 ? (const void *)(b + i) : bytes_a;
    }
    e.steps = "%s0 = add %x %i1\n%s1 = add %s0 %i5\n%s2 = gelu %s1\n%s3 = max %s2 %i2\n"
              "%s4 = min %s3 %i3\n%s5 = sub %s4 %i4\n%s6 = div %s5 3\n%s7 = tanh %s6\n"
              "%s8 = add %s7 %i0\n%s9 = mul %s8 %i6\n%s10 = exp %s9\n%s11 = sin %s10\n"
              "%s12 = add %s11 %i7\n%s13 = clamp %s12 p=-9 q=9\n%s14 = silu %s13\n"
              "%s15 = abs %s14\n";
    e.inputs = in, e.input_count = (int)COUNT(names);
    p->epilogue = &e;
    return text ? limber_plan(ctx, p, text, NULL) : limber_run(ctx, p, NULL);
}

/* Runs a product or batch with an epilogue or, if `text` is not NULL, returns its plan. */
static limber_status epilogue_of(limber_context *ctx, limber_promise promise, limber_format to,
                                 const limber_batch *batch, char **text)
{
    const limber_contract k = { .size = sizeof(limber_contract), .promise = promise };
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = p.n = p.k = N;
    p.a = matrix(a, f64, N), p.b = matrix(b, f64, N), p.c = output_of(matrix(c, to, N));
    p.contract = &k;
    p.batch = batch;
    return run_or_plan_with_epilogue(ctx, &p, text);
}

static limber_status epilogue(limber_context *ctx)
{
    return epilogue_of(ctx, LIMBER_CONTRACT_NATIVE, f64, NULL, NULL);
}

static limber_status epilogue_correct(limber_context *ctx)
{
    return epilogue_of(ctx, LIMBER_CONTRACT_CORRECT, f32, NULL, NULL);
}

static limber_status epilogue_batch(limber_context *ctx)
{
    const limber_batch t = {
        .size = sizeof(limber_batch), .count = 3, .a = N * N, .b = N * N, .c = N * N
    };

    return epilogue_of(ctx, LIMBER_CONTRACT_NATIVE, f32, &t, NULL);
}

/* Computes a product with a result in f16 whose epilogue overflows to infinities. */
static limber_status epilogue_halves(limber_context *ctx)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT };
    limber_problem p = LIMBER_PROBLEM_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;

    e.steps = "%s0 = mul %x 30000\n";
    p.m = p.n = p.k = N;
    p.a = matrix(b, f64, N), p.b = matrix(b, f64, N), p.c = output_of(matrix(c, named("f16"), N));
    p.contract = &k;
    p.epilogue = &e;
    return limber_run(ctx, &p, NULL);
}

/* Runs a convolution with an epilogue of eight inputs. */
static limber_status epilogue_conv(limber_context *ctx)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_CORRECT };
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.operation = LIMBER_OPERATION_CONV_FORWARD;
    p.conv = &window;
    p.a = matrix(a, f64, 0), p.b = matrix(b, f64, 0), p.c = output_of(matrix(c, f32, 0));
    p.a.row_stride = p.a.col_stride = p.b.row_stride = p.b.col_stride = 0;
    p.c.row_stride = p.c.col_stride = 0;
    p.contract = &k;
    return run_or_plan_with_epilogue(ctx, &p, NULL);
}

/* Frees a text.  The text must be NULL if the call failed. */
static limber_status free_text(limber_status s, char *text)
{
    assert_true(s == LIMBER_STATUS_OK ? text != NULL : text == NULL);
    limber_free(text);
    return s;
}

static limber_status plan(limber_context *ctx)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_NATIVE,
                                .scheme = "ozaki2+native" };
    char *text = NULL;
    limber_status s = gemm_plan(ctx, &k, N, N, LONG, NULL, matrix(tiles, f64, LONG),
                                matrix(b, f64, N), NULL, output_of(matrix(c, f64, N)), &text, NULL);

    return free_text(s, text);
}

static limber_status epilogue_plan(limber_context *ctx)
{
    char *text = NULL;
    limber_status s = epilogue_of(ctx, LIMBER_CONTRACT_CORRECT, f32, NULL, &text);

    return free_text(s, text);
}

static limber_status conv_plan(limber_context *ctx)
{
    char *text = NULL;
    limber_status s = conv2d_plan(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        &window, NULL, a, f64, b, f64, NULL, f64, &text, NULL);

    return free_text(s, text);
}

/* Asks, by limber_explain, into which parts a product would be divided. */
static limber_status cut(limber_context *ctx)
{
    const limber_contract k = { .size = sizeof(limber_contract),
                                .promise = LIMBER_CONTRACT_NATIVE,
                                .scheme = "ozaki2+native" };
    limber_cut x = LIMBER_CUT_INIT;
    limber_status s = gemm_cut(ctx, &k, N, N, LONG, NULL, matrix(tiles, f64, LONG),
                               matrix(b, f64, N), NULL, output_of(matrix(c, f64, N)), &x, NULL);

    limber_cut_free(&x);
    return s;
}

/* Inspects the tiles of an operand. */
static limber_status inspect_tiles(limber_context *ctx)
{
    limber_inspection x = LIMBER_INSPECTION_INIT;
    limber_status s = limber_inspect(ctx, matrix(tiles, f64, LONG), N, LONG, LIMBER_SIDE_A, &x);

    if (s == LIMBER_STATUS_OK)
        limber_inspection_free(&x);
    return s;
}

static limber_status workspace(limber_context *ctx)
{
    size_t least, best;

    return gemm_workspace(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_CORRECT },
        N, N, N, NULL, matrix(a, f64, N), matrix(b, f64, N), NULL, output_of(matrix(c, f64, N)),
        &least, &best);
}

/* Computes a product, then makes its kernel anew from the text of its plan. */
static limber_status make_kernel_again(limber_context *ctx)
{
    limber_report r = LIMBER_REPORT_INIT;
    char *text = NULL;
    limber_status s =
        limber_gemm(ctx,
                    &(limber_contract){ .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_NATIVE,
                                        /* a named scheme, so that a kernel computes it, although
                                         * the product is small */
                                        .scheme = "native" },
                    8, 8, 8, NULL, matrix(a, f64, 8), matrix(b, f64, 8), NULL,
                    output_of(matrix(c, f64, 8)), &r);

    if (s == LIMBER_STATUS_OK)
        s = limber_kernel_plan(ctx, r.kernel, &text);
    /* limber_kernel_plan and limber_kernel_make do not write c; restores what c had before the
     * product, so that its contents do not depend on whether these calls succeed */
    memcpy(c, before, sizeof c);
    if (s == LIMBER_STATUS_OK)
        s = limber_kernel_make(ctx, text, &r);
    limber_free(text);
    return s;
}

/* Computes a product by the text of a plan before the passes.  p: has what the product has beside
 * its sizes and matrices. */
static limber_status run_planned(limber_context *ctx, limber_problem p)
{
    static const char text[] = "plan gemm promise=correct kbits=8 budget=0 {\n"
                               "  %a = arg index=0 : f64[m,k]\n"
                               "  %b = arg index=1 : f64[k,n]\n"
                               "  %c = gemm %a %b : exact[m,n]\n"
                               "  %d = epilogue %c alpha=one beta=zero wrap=0 : f64[m,n]\n"
                               "  ret %d\n"
                               "}\n";

    p.m = p.n = p.k = 16;
    p.a = matrix(a, f64, 16);
    p.b = matrix(b, f64, 16);
    p.c = output_of(matrix(c, f64, 16));
    return limber_run_plan(ctx, text, &p, NULL);
}

static limber_status run_plan(limber_context *ctx)
{
    return run_planned(ctx, (limber_problem)LIMBER_PROBLEM_INIT);
}

static limber_status run_plan_complex(limber_context *ctx)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.domain = LIMBER_DOMAIN_COMPLEX;
    return run_planned(ctx, p);
}

static limber_status run_plan_epilogue(limber_context *ctx)
{
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;

    e.steps = "%1 = tanh %x";
    p.epilogue = &e;
    return run_planned(ctx, p);
}

/* Binds a function with a signature, and calls it. */
static limber_status bound(limber_context *ctx)
{
    enum { SIDE = 16 };
    static const char *const words =
        "int(m:i32 n:i32 k:i32 a:ptr lda:i32 b:ptr ldb:i32 c:ptr ldc:i32)";
    int (*multiply)(int, int, int, double *, int, double *, int, double *, int);
    limber_contract k = { .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE };
    limber_status s = limber_bind(ctx, &k, f64, f64, f64, words, (void (**)(void))&multiply);

    return s ? s : (limber_status)multiply(SIDE, SIDE, SIDE, a, SIDE, b, SIDE, c, SIDE);
}

/* Binds a kernel for one shape and calls it.  A missing compiler (LIMBER_STATUS_DEVICE) is
 * accepted. */
static limber_status shape(limber_context *ctx)
{
    const limber_matrix m = { NULL, f64, 6, 1 };
    limber_kernel f;
    limber_status s = limber_bind_shape(
        ctx,
        &(limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE }, 6,
        6, 6, m, m, output_of(m), LIMBER_ACCUMULATE_NONE, &f);

    if (s == LIMBER_STATUS_OK)
        f(a, b, c);
    return s == LIMBER_STATUS_DEVICE ? LIMBER_STATUS_OK : s;
}

static int count_entry(void *user, const limber_cache_entry *e)
{
    (void)e;
    ++*(int *)user;
    return 0;
}

/* Describes the cache and lists its entries. */
static limber_status cache(limber_context *ctx)
{
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    int entries = 0;
    limber_status s = limber_cache_describe(ctx, &info);

    return s ? s : limber_cache_each(ctx, LIMBER_CACHE_VERIFY, count_entry, &entries);
}

/* The calls, by name. */
static const struct every_call {
    const char *name;
    limber_status (*call)(limber_context *ctx);
    bool compiles; /* true if the call needs a compiler: no prebuilt kernel computes it */
} calls[] = {
    { "native", native },
    { "bits", bits },
    { "correct", correct },
    { "mixed", gemm_mixed },
    { "in parts", gemm_in_parts },
    { "on_miss", on_miss },
    { "integers", integers },
    { "modular", modular },
    { "upward", upward },
    { "points", points },
    { "intervals", intervals },
    { "powers of 2", powers },
    { "out of range", out_of_range },
    { "simulate", simulate_without_statistics, true },
    { "statistics", statistics, true },
    { "batch", batch },
    { "batch, correct", batch_correct },
    { "batch with NaN", batch_special },
    { "batch of integers", batch_integers },
    { "complex", complex_by_four },
    { "complex by three", complex_three },
    { "convolution", conv },
    { "gradient of an image", gradient },
    { "gradient of an image, of which windows see a part", gradient_with_unread_pixels },
    { "depthwise gradient of an image", depthwise_gradient },
    { "prepared", prepared },
    { "apply", apply },
    { "apply by table", apply_by_table },
    { "convert", convert },
    { "softmax", softmax },
    { "layer_norm", layer_norm },
    { "variance", variance },
    { "epilogue", epilogue },
    { "epilogue, correct", epilogue_correct },
    { "epilogue of a batch", epilogue_batch },
    { "epilogue to halves", epilogue_halves },
    { "epilogue of a convolution", epilogue_conv },
    { "plan of an epilogue", epilogue_plan },
    { "plan", plan },
    { "plan of a convolution", conv_plan },
    { "cut", cut },
    { "look", inspect_tiles },
    { "workspace", workspace },
    { "kernel made again", make_kernel_again, true },
    { "plan as text", run_plan, true },
    { "plan as text, complex", run_plan_complex, true },
    { "plan as text, with steps", run_plan_epilogue, true },
    { "bind", bound },
    { "bind_shape", shape, true },
    { "cache", cache },
};

/* Fills the operands, which all calls share. */
static void fill_operands(void)
{
    struct rng r = { 1 };

    f64 = named("f64");
    f32 = named("f32");
    i8 = named("i8");
    i32 = named("i32");
    fill(&r, DATA_spread, f64, a, ALL);
    for (int i = 0; i < ALL; i++)
        b[i] = (rng_unit(&r) + rng_unit(&r) + rng_unit(&r) - 1.5) * 2;
    fill(&r, DATA_ints, f64, before, 2 * ALL);
    fill(&r, DATA_bytes, i8, bytes_a, ALL);
    fill(&r, DATA_bytes, i8, bytes_b, ALL);
    for (int i = 0; i < ALL; i++) {
        odd[i] = i < N * N || i % 50 ? a[i] : i % 100 ? (double)NAN : (double)INFINITY;
        tiles[i] = i % LONG < 256 ? i * 37 % 255 - 127 : b[i];
    }
}

/* Gives C its initial contents. */
static void reset(void)
{
    memcpy(c, before, sizeof c);
}

/* Creates a context of the backend, with its disk cache in `folder`; "" for no disk cache. */
static limber_status open_context(limber_context **ctx, const char *backend, const char *folder)
{
    return limber_create(ctx, &(limber_config){ .size = sizeof(limber_config),
                                                .backend = backend,
                                                .threads = 2,
                                                .cache_dir = folder,
                                                .dump_dir = "" });
}

static bool runs_here(const char *backend)
{
    limber_context *ctx;

    if (open_context(&ctx, backend, ""))
        return false;
    limber_destroy(ctx);
    return true;
}

/* True if the backend can compute the call here: `llvm` needs a compiler for some calls. */
static bool serves(const char *backend, const struct every_call *call)
{
    return !call->compiles || strcmp(backend, "llvm") || compiler_here();
}

/* Runs the test for every call on every available backend.  Each run gets an empty folder. */
__attribute__((unused)) static void each_call(void (*test)(const char *backend, const char *folder,
                                                           const struct every_call *call))
{
    for (int k = 0; limber_backends[k]; k++) {
        const char *name = limber_backends[k]->name;

        if (!runs_here(name))
            continue;
        for (size_t i = 0; i < COUNT(calls); i++) {
            char *folder;

            if (!serves(name, &calls[i]))
                continue;
            folder = scratch();
            test(name, folder, &calls[i]);
            discard(folder);
        }
    }
}

#endif
