/* SPDX-License-Identifier: BSD-3-Clause
 * A block of a network in BF16: layer normalisation, a product with bias and GELU in its epilogue,
 * a product with bias and residual in its epilogue, and a softmax.  The first product and its
 * epilogue are computed again with a call for each step, which must give the same bits. */
#include <limber/limber.h>
#include <limber/ops.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 64, WIDTH = 128, HIDDEN = 256 };

typedef uint16_t bf16;

/* Ends the program with an error message if a call failed. */
static void stop_if_failed(limber_status s)
{
    if (s == LIMBER_STATUS_OK)
        return;
    fprintf(stderr, "layer: %s\n", limber_error_text());
    exit(1);
}

/* Fills x with numbers in [-scale, scale), rounded to BF16. */
static void fill(bf16 *x, size_t n, float scale)
{
    static uint32_t state = 1;

    for (size_t i = 0; i < n; i++) {
        float v;

        state = state * 1664525 + 1013904223;
        v = scale * ((float)(state >> 8) / (1 << 23) - 1);
        stop_if_failed(limber_convert(&x[i], LIMBER_BF16, &v, LIMBER_F32, 1, LIMBER_ROUND_NEAREST));
    }
}

/* Computes y, a normalisation or the softmax of each row of x [TOKENS][width], with sums in
 * binary32. */
static void reduce_rows(limber_context *ctx, limber_reduction what, const bf16 *x, bf16 *y,
                        size_t width)
{
    limber_reduce_call r = LIMBER_REDUCE_INIT;

    r.reduction = what;
    r.carry = LIMBER_CARRY_F32;
    r.from = r.to = LIMBER_BF16;
    r.outer = TOKENS, r.count = width, r.inner = 1;
    r.epsilon = 1e-5;
    r.src = x, r.dst = y;
    stop_if_failed(limber_reduce(ctx, &r));
}

/* Returns an input of an epilogue in BF16: a bias with an element for each column, or a TOKENS x
 * WIDTH matrix. */
static limber_epilogue_input make_input(const char *name, limber_input_shape shape,
                                        const bf16 *data)
{
    limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT;

    in.name = name;
    in.shape = shape;
    in.format = LIMBER_BF16;
    in.data = data;
    if (shape == LIMBER_INPUT_MATRIX)
        in.row_stride = WIDTH, in.col_stride = 1;
    return in;
}

/* Computes c = e(a b) for a [TOKENS][k], b [k][n] and c [TOKENS][n], where e is an epilogue.  Its
 * first step adds the bias; a b plus the bias is correctly rounded before the other steps. c has
 * the format `to`. */
static void multiply(limber_context *ctx, const bf16 *a, const bf16 *b, void *c, limber_format to,
                     int64_t n, int64_t k, const limber_epilogue *e)
{
    limber_contract correct = LIMBER_CONTRACT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;

    correct.promise = LIMBER_CONTRACT_CORRECT;
    p.m = TOKENS, p.n = n, p.k = k;
    p.a = (limber_matrix){ a, LIMBER_BF16, k, 1 };
    p.b = (limber_matrix){ b, LIMBER_BF16, n, 1 };
    p.c = (limber_output){ c, to, n, 1 };
    p.contract = &correct;
    p.epilogue = e;
    stop_if_failed(limber_run(ctx, &p, NULL));
}

int main(void)
{
    static bf16 x[TOKENS * WIDTH], normal[TOKENS * WIDTH], w1[WIDTH * HIDDEN], w2[HIDDEN * WIDTH],
        b1[HIDDEN], b2[WIDTH], hidden[TOKENS * HIDDEN], y[TOKENS * WIDTH], p[TOKENS * WIDTH],
        again[TOKENS * HIDDEN];
    static float sums[TOKENS * HIDDEN], activated[TOKENS * HIDDEN];
    limber_epilogue_input in[2];
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_elementwise gelu = LIMBER_ELEMENTWISE_INIT;
    limber_context *ctx;
    double total = 0;

    stop_if_failed(limber_create(&ctx, NULL));
    fill(x, TOKENS * WIDTH, 4);
    fill(w1, WIDTH * HIDDEN, 0.25f);
    fill(w2, HIDDEN * WIDTH, 0.25f);
    fill(b1, HIDDEN, 1);
    fill(b2, WIDTH, 1);

    reduce_rows(ctx, LIMBER_REDUCTION_LAYER_NORM, x, normal, WIDTH);
    in[0] = make_input("bias", LIMBER_INPUT_COLUMN, b1);
    e.steps = "%1 = add %x %bias\n"
              "%2 = gelu %1\n";
    e.inputs = in, e.input_count = 1;
    multiply(ctx, normal, w1, hidden, LIMBER_BF16, HIDDEN, WIDTH, &e);

    /* The first product is computed again with separate calls: A B + bias, rounded once to
     * binary32, then GELU in binary32, then rounding to BF16. */
    e.steps = "%1 = add %x %bias\n";
    multiply(ctx, normal, w1, sums, LIMBER_F32, HIDDEN, WIDTH, &e);
    gelu.function = LIMBER_FUNCTION_GELU;
    gelu.from = gelu.to = LIMBER_F32;
    gelu.src = sums, gelu.dst = activated;
    gelu.count = TOKENS * HIDDEN;
    stop_if_failed(limber_apply(ctx, &gelu));
    stop_if_failed(limber_convert(again, LIMBER_BF16, activated, LIMBER_F32, TOKENS * HIDDEN,
                                  LIMBER_ROUND_NEAREST));
    printf("fused and step by step: %s\n",
           memcmp(hidden, again, sizeof hidden) ? "other bits" : "the same bits");

    in[0] = make_input("bias", LIMBER_INPUT_COLUMN, b2);
    in[1] = make_input("skip", LIMBER_INPUT_MATRIX, x);
    e.steps = "%1 = add %x %bias\n"
              "%2 = add %1 %skip\n";
    e.input_count = 2;
    multiply(ctx, hidden, w2, y, LIMBER_BF16, WIDTH, HIDDEN, &e);
    reduce_rows(ctx, LIMBER_REDUCTION_SOFTMAX, y, p, WIDTH);
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        float v;

        stop_if_failed(limber_convert(&v, LIMBER_F32, &p[i], LIMBER_BF16, 1, LIMBER_ROUND_NEAREST));
        total += (double)v;
    }
    printf("a row of the softmax sums up to %.2f\n", total / TOKENS);
    limber_destroy(ctx);
    return memcmp(hidden, again, sizeof hidden) != 0;
}
