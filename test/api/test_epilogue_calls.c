/* SPDX-License-Identifier: BSD-3-Clause
 * Calls with epilogues: dequantisation, integers of every size, texts of plans, and refusals. */
#include "contexts.h"
#include "epilogues.h"

static limber_epilogue_input good_input;

/* ---- dequantisation and conversions ---------------------------------------------------------- */

/* INT8 products with a scale for each row and each column, stored as saturated bytes, are right. */
static void test_bytes(void **state)
{
    limber_epilogue_input in[2] = { LIMBER_EPILOGUE_INPUT_INIT, LIMBER_EPILOGUE_INPUT_INIT };
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_contract exact = LIMBER_CONTRACT_INIT;
    limber_problem p = small(&e, LIMBER_I8, LIMBER_I8);
    static const float rows[3] = { 0.5f, 0.01f, 100 }, cols[4] = { 1, -0.25f, 3, 0.125f };
    struct rng r = { 10 };

    (void)state;
    exact.promise = LIMBER_CONTRACT_CORRECT;
    p.contract = &exact;
    for (int i = 0; i < 2; i++) {
        in[i].name = i ? "cols" : "rows", in[i].shape = i ? LIMBER_INPUT_COLUMN : LIMBER_INPUT_ROW;
        in[i].format = LIMBER_F32, in[i].data = i ? cols : rows;
    }
    e.steps = "%1 = mul %x %rows\n%2 = mul %1 %cols\n", e.inputs = in, e.input_count = 2;
    for (int i = 0; i < context_count; i++) {
        fill(&r, DATA_unit, LIMBER_I8, a, 15);
        fill(&r, DATA_ints, LIMBER_I8, b, 20);
        for (int j = 0; j < 35; j++) {
            a[j] = (char)rng_below(&r, 256);
            b[j] = (char)rng_below(&r, 256);
        }
        if (limber_run(contexts[i], &p, NULL))
            fail_msg("%s", limber_error_text());
        for (int row = 0; row < 3; row++)
            for (int col = 0; col < 4; col++) {
                int sum = 0;
                double y;

                for (int k = 0; k < 5; k++)
                    sum += (signed char)a[row * 5 + k] * (signed char)b[k * 4 + col];
                y = rint((double)((float)sum * rows[row] * cols[col]));
                y = y > 127 ? 127 : y < -128 ? -128 : y;
                assert_int_equal(((signed char *)c)[row * 4 + col], (int)y);
            }
    }
}

/* Numbers near the limits of integer formats are stored right.  The library converts them by
 * vector code; this test converts them one by one. */
static void test_integers(void **state)
{
    static const double some[] = { 0,
                                   -0.,
                                   0.5,
                                   1.5,
                                   -0.5,
                                   -2.5,
                                   126.5,
                                   127.5,
                                   128,
                                   -128.5,
                                   -129,
                                   254.5,
                                   255.5,
                                   256,
                                   32766.5,
                                   32767.5,
                                   -32768.5,
                                   -32769,
                                   65535.5,
                                   2147483646.5,
                                   2147483647.5,
                                   -2147483648.5,
                                   -2147483650.,
                                   0x1p52 + 1,
                                   0x1p53 + 2,
                                   0x1.fffffffffffffp62,
                                   0x1p63,
                                   -0x1p63,
                                   -0x1.0000000000001p63,
                                   1e300,
                                   -1e300,
                                   INFINITY,
                                   -INFINITY,
                                   NAN };
    static const char *const formats[] = { "i8", "i16", "i32", "i64" };
    enum { N = 300 };
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    double numbers[N];
    signed char one = 0;
    char name[32];

    (void)state;
    for (int i = 0; i < N; i++)
        numbers[i] = some[i % (int)COUNT(some)];
    in.name = "in", in.shape = LIMBER_INPUT_COLUMN, e.inputs = &in, e.input_count = 1;
    for (int i = 0; i < context_count; i++)
        for (size_t f = 0; f <= COUNT(formats); f++) {
            const limber_format integer = f < COUNT(formats) ? named(formats[f]) : named("u8");
            limber_problem p = LIMBER_PROBLEM_INIT;

            p.m = p.k = 1, p.n = N, p.contract = &contract, p.epilogue = &e;
            p.a = (limber_matrix){ &one, LIMBER_I8, 1, 1 };
            p.b = (limber_matrix){ b, LIMBER_I8, N, 1 };
            memset(b, 0, N);
            e.steps = "%1 = max %in %in\n%2 = mul %x 0\n%3 = add %2 %1";
            in.format = LIMBER_F64, in.data = numbers;
            p.c = (limber_output){ c, integer, N, 1 };
            if (integer.kind == LIMBER_KIND_INT) {
                if (limber_run(contexts[i], &p, NULL))
                    fail_msg("%s", limber_error_text());
                for (int j = 0; j < N; j++) {
                    limber_convert(x, integer, &numbers[j], LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
                    if (memcmp(x, c + j * integer.size, integer.size))
                        fail_msg("%g to %s: %g", numbers[j],
                                 limber_format_name(integer, name, sizeof name),
                                 limber_format_value(integer, c + j * integer.size));
                }
            }
            for (int j = 0; j < N; j++) /* integer inputs of a step */
                limber_convert(data[0] + j * integer.size, integer, &numbers[j], LIMBER_F64, 1,
                               LIMBER_ROUND_NEAREST);
            in.format = integer, in.data = data[0];
            p.c = (limber_output){ c, LIMBER_F64, N, 1 };
            if (integer.size < 8 && limber_run(contexts[i], &p, NULL))
                fail_msg("%s", limber_error_text());
            for (int j = 0; j < N && integer.size < 8; j++)
                assert_true(limber_format_value(LIMBER_F64, c + 8 * j) ==
                            limber_format_value(integer, data[0] + j * integer.size));
        }
}

/* Sums of 8-bit products with results in i32, f32 and f64 are right: of 33,025 products (the
 * largest k for which sums of any bytes, at most 255^2 each, fit i32), of one more, and of 140,000,
 * whose sum exceeds 32 bits. */
static void test_long_bytes(void **state)
{
    enum { MOST = 140000 };
    static const int64_t lengths[] = { 33025, 33026, MOST };
    static const char *const results[] = { "i32", "f32", "f64" };
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;

    (void)state;
    memset(a, -128, MOST);
    memset(b, -128, MOST);
    e.steps = "%1 = neg %x";
    for (int i = 0; i < context_count; i++)
        for (size_t l = 0; l < COUNT(lengths); l++)
            for (size_t f = 0; f < COUNT(results); f++)
                for (int correct = 0; correct < 2; correct++) {
                    limber_problem p = LIMBER_PROBLEM_INIT;
                    double sum = -16384. * (double)lengths[l];
                    limber_format to = named(results[f]);

                    contract.promise = correct ? LIMBER_CONTRACT_CORRECT : LIMBER_CONTRACT_NATIVE;
                    p.m = p.n = 1, p.k = lengths[l], p.contract = &contract, p.epilogue = &e;
                    p.a = (limber_matrix){ a, LIMBER_I8, p.k, 1 };
                    p.b = (limber_matrix){ b, LIMBER_I8, 1, 1 };
                    p.c = (limber_output){ c, to, 1, 1 };
                    if (limber_run(contexts[i], &p, NULL))
                        fail_msg("%s", limber_error_text());
                    limber_convert(x, to, &sum, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
                    if (memcmp(x, c, to.size))
                        fail_msg("%s of %lld products: %g, not %g", results[f],
                                 (long long)lengths[l], limber_format_value(to, c), sum);
                }
}

/* The text of a plan shows the steps of its epilogue. */
static void test_plan(void **state)
{
    limber_epilogue_input in = LIMBER_EPILOGUE_INPUT_INIT;
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = small(&e, LIMBER_F32, LIMBER_BF16);
    char *text;
    size_t least, best;

    (void)state;
    in.name = "bias", in.shape = LIMBER_INPUT_ROW, in.format = LIMBER_F32, in.data = data[0];
    e.steps = "%sum = add %x %bias\n%1 = leaky_relu %sum p=0.5\n";
    e.inputs = &in, e.input_count = 1;
    memset(a, 0, 64), memset(b, 0, 80);
    assert_int_equal(limber_plan(contexts[0], &p, &text, NULL), LIMBER_STATUS_OK);
    assert_non_null(strstr(text, "; then, in f32, to bf16\nepilogue {\n  %_1 = add %x %bias\n"
                                 "  %_2 = leaky_relu %_1 p=0.5\n}\n"));
    limber_free(text);
    assert_int_equal(limber_workspace(contexts[0], &p, &least, &best), LIMBER_STATUS_OK);
}

/* ---- steps that are refused ------------------------------------------------------------------ */

/* Checks that every context refuses the problem with a text that contains `text`, and leaves C
 * unchanged. */
static void expect_refused(limber_problem *p, const char *text)
{
    char before[256];

    memset(c, 0x5a, sizeof before);
    memcpy(before, c, sizeof before);
    for (int i = 0; i < context_count; i++) {
        assert_refused(limber_run(contexts[i], p, NULL), LIMBER_STATUS_BAD_ARGUMENT, text);
        assert_memory_equal(c, before, sizeof before);
    }
}

static void expect_text_refused(const char *steps, const char *text)
{
    limber_epilogue e = LIMBER_EPILOGUE_INIT;
    limber_problem p = small(&e, LIMBER_F32, LIMBER_F32);

    e.steps = steps, e.inputs = &good_input, e.input_count = 1;
    expect_refused(&p, text);
}

/* Each error in the text of steps is reported with its line and column. */
static void test_text_refused(void **state)
{
    char many[1024] = "%a0 = relu %x\n";

    (void)state;
    expect_text_refused("%1 = gelo %x",
                        "problem.epilogue: steps: line 1, column 6: 'gelo' is neither a function");
    expect_text_refused("%1 = relu %x\n\n%2 = add %1 %bia", "line 3, column 13: %bia is neither x");
    expect_text_refused("1 = relu %x", "line 1, column 1: '1' is no %name");
    expect_text_refused("% = relu %x", "line 1, column 1: '%' is no %name");
    expect_text_refused("%x = relu %x", "line 1, column 1: %x is there already");
    expect_text_refused("%bias = relu %x", "line 1, column 1: %bias is there already");
    expect_text_refused("%1 = relu %x\n%1 = relu %x", "line 2, column 1: %1 is there already");
    expect_text_refused("%1 relu %x", "line 1, column 4: 'relu' stands where = should");
    expect_text_refused("%1 = add %x", "line 1, column 12: add needs another operand");
    expect_text_refused("%1 = relu", "line 1, column 10: relu needs an operand");
    expect_text_refused("%1 = relu 3", "line 1, column 11: '3' is no %name");
    expect_text_refused("%1 = mul %x 1e39", "line 1, column 13: '1e39' is beyond f32");
    expect_text_refused("%1 = div %x 1e-50", "line 1, column 13: '1e-50' is 0 in f32");
    expect_text_refused("%1 = clamp %x p=-1e999 q=inf",
                        "line 1, column 15: '-1e999' is beyond f32");
    expect_text_refused("%1 = relu %x 3", "line 1, column 14: '3' is none of the parameters");
    expect_text_refused("%1 = relu %x p=3", "line 1, column 14: 'p=3' is none of the parameters");
    expect_text_refused("%1 = clamp %x p=3",
                        "line 1, column 6: clamp needs p=NUMBER q=NUMBER with p <= q");
    expect_text_refused("%1 = clamp %x p=3 q=2",
                        "line 1, column 6: clamp needs p=NUMBER q=NUMBER with p <= q");
    expect_text_refused("%1 = clamp %x p=3 p=4",
                        "line 1, column 19: 'p=4' is none of the parameters");
    expect_text_refused("%1 = add %x 3 4",
                        "line 1, column 15: '4' is more than the operation takes");
    expect_text_refused("%1 = add %x 3x", "line 1, column 13: '3x' is no number");
    expect_text_refused("%1 = add %x nan", "line 1, column 13: 'nan' is no number");
    expect_text_refused("%1 = relu %x\n%2 = abs %x", "line 1, column 1: %1 is never read");
    for (int i = 1; i < 17; i++)
        sprintf(many + strlen(many), "%%a%d = relu %%a%d\n", i, i - 1);
    expect_text_refused(many, "line 17, column 1: there are more than 16 steps");
}

/* Each invalid field of an epilogue or of its inputs is refused with a text that names it. */
static void test_refused(void **state)
{
    limber_epilogue good = LIMBER_EPILOGUE_INIT, e;
    limber_epilogue_input in, nine[9];
    limber_contract contract = LIMBER_CONTRACT_INIT;
    limber_problem p = small(&e, LIMBER_F32, LIMBER_F32), q;

    (void)state;
    good.steps = "%1 = add %x %bias", good.inputs = &in, good.input_count = 1;
    in = good_input;
    e = good, e.size = 1, expect_refused(&p, "e.size = 1");
    e = good, e.inputs = NULL, expect_refused(&p, "inputs is NULL");
    e = good, e.input_count = -1, expect_refused(&p, "input_count = -1 is not from 0 to 8");
    for (int i = 0; i < 9; i++)
        nine[i] = good_input;
    e = good, e.inputs = nine, e.input_count = 9, expect_refused(&p, "input_count = 9 is not");
    e.input_count = 2, expect_refused(&p, "inputs[1].name is bias, as that of inputs[0]");
    e = good;
    in = good_input, in.name = NULL, expect_refused(&p, "inputs[0].name is NULL");
    in = good_input, in.name = "a b", expect_refused(&p, "inputs[0].name is a b");
    in = good_input, in.name = "x", expect_refused(&p, "inputs[0].name is x");
    in = good_input, in.shape = (limber_input_shape)4, expect_refused(&p, "inputs[0].shape = 4");
    in = good_input, in.format = LIMBER_F128, expect_refused(&p, "f128 has values beyond binary64");
    in = good_input, in.data = NULL, expect_refused(&p, "inputs[0] has no data");
    in = good_input, in.row_stride = 1, expect_refused(&p, "inputs[0] has strides");
    in = good_input, in.step = 1, expect_refused(&p, "inputs[0] has a step, but there is no batch");
    in = good_input, in.data = c + 4, expect_refused(&p, "overlap");
    in = good_input, in.shape = LIMBER_INPUT_MATRIX, in.row_stride = -1;
    expect_refused(&p, "inputs[0] has a negative stride");
    in.row_stride = 0, expect_refused(&p, "inputs[0] is a matrix whose strides are 0");
    in = good_input;
    q = p, q.c.format = LIMBER_F128, expect_refused(&q, "c is f128");
    q = p, q.c.format = named("e2m1"), expect_refused(&q, "c: e2m1 has no NaN");
    q = p, q.domain = LIMBER_DOMAIN_COMPLEX, expect_refused(&q, "epilogues are of real matrices");
    contract.promise = LIMBER_CONTRACT_EXACT;
    q = p, q.contract = &contract, q.c.format = LIMBER_I32,
    expect_refused(&q, "no result is exact");
    q = p, q.c.format = LIMBER_I64, q.beta = &(int64_t){ 1 }, expect_refused(&q, "beta is not 0");
    q.beta = NULL, q.alpha = &(int64_t){ ((int64_t)1 << 53) + 1 };
    expect_refused(&q, "alpha is no number of the format");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_refused), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bytes),        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_long_bytes),   cmocka_unit_test(test_plan),

    };
    static const float numbers[4] = { 1, 2, 3, 4 };

    good_input = (limber_epilogue_input)LIMBER_EPILOGUE_INPUT_INIT;
    good_input.name = "bias";
    good_input.shape = LIMBER_INPUT_ROW;
    good_input.format = LIMBER_F32;
    good_input.data = numbers;
    return cmocka_run_group_tests(tests, set_up, drop);
}
