/* SPDX-License-Identifier: BSD-3-Clause
 * Sets every dimension of every operation to 0, alone and in pairs.  A call must either refuse an
 * argument by name, or store the value of an empty sum in all elements and nothing beyond them. */
#include "engine_support.h"

#include <limber/ops.h>
#include <limber/solve.h>

enum { ROOM = 4096, GUARD = 16, FILLED = 7 };

static limber_context *ctx;
static double x[ROOM], w[ROOM], y[ROOM + GUARD];
static const double alpha = 3, beta = 2;

/* The contracts under which empty products are computed. */
static const struct tried_promise {
    limber_promise promise;
    const char *scheme;
} tried[] = {
    { LIMBER_CONTRACT_NATIVE },       { LIMBER_CONTRACT_BITS },
    { LIMBER_CONTRACT_CORRECT },      { LIMBER_CONTRACT_FAST, "accumulator" },
    { LIMBER_CONTRACT_REPRODUCIBLE }, { LIMBER_CONTRACT_SIMULATE },
};
enum { PROMISE_COUNT = sizeof tried / sizeof *tried };

/* Returns contract number i of the list `tried`.  u: the unit of simulated contracts. */
static limber_contract contract_of(int i, const limber_unit *u)
{
    limber_contract k = LIMBER_CONTRACT_INIT;

    k.promise = tried[i].promise;
    k.scheme = tried[i].scheme;
    k.bits = k.promise == LIMBER_CONTRACT_BITS ? 30 : 0;
    k.unit = k.promise == LIMBER_CONTRACT_SIMULATE ? u : NULL;
    return k;
}

static void refill(void)
{
    for (int i = 0; i < ROOM + GUARD; i++)
        y[i] = FILLED;
}

/* Checks that the first `stored` elements of y are `sum`, and that all others are unchanged. */
static void expect_stored(const char *what, int64_t stored, double sum)
{
    for (int64_t i = 0; i < ROOM + GUARD; i++)
        if (!(y[i] == (i < stored ? sum : FILLED)))
            fail_msg("%s: element %d is %g", what, (int)i, y[i]);
}

/* True if the call succeeded.  Else it must have refused an argument or have no scheme, with an
 * error text. */
static bool succeeded(const char *what, limber_status s)
{
    if (s != LIMBER_STATUS_OK && s != LIMBER_STATUS_BAD_ARGUMENT && s != LIMBER_STATUS_NO_SCHEME)
        fail_msg("%s: %s (%s)", what, limber_status_name(s), limber_error_text());
    if (s != LIMBER_STATUS_OK && !*limber_error_text())
        fail_msg("%s: refused without a word", what);
    return s == LIMBER_STATUS_OK;
}

/* Queries workspace, plan and explanation of a problem, each of which may be refused. */
static void query(const char *what, const limber_problem *p)
{
    size_t least, best;
    char *text = NULL;
    limber_cut cut = LIMBER_CUT_INIT;

    if (succeeded(what, limber_workspace(ctx, p, &least, &best)))
        assert_true(least <= best);
    if (succeeded(what, limber_plan(ctx, p, &text, NULL)))
        limber_free(text);
    if (succeeded(what, limber_explain(ctx, p, &cut, NULL)))
        limber_cut_free(&cut);
}

/* Products some of whose sizes are 0, under every contract: nothing is stored, or sums of no
 * terms. */
static void products(void **state)
{
    enum { SIDE = 5 };
    limber_unit u = LIMBER_UNIT_INIT;

    (void)state;
    assert_int_equal(limber_unit_parse("in=f64 acc=f64 group=4", &u), LIMBER_STATUS_OK);
    for (int i = 0; i < PROMISE_COUNT; i++)
        for (int empty = 1; empty < 8; empty++)
            for (int way = 0; way < 8; way++) {
                const limber_contract k = contract_of(i, &u);
                const limber_batch three = {
                    .size = sizeof three, .count = way & 4 ? 0 : 3, .a = 25, .b = 25, .c = 25
                };
                int64_t m = empty & 1 ? 0 : SIDE, n = empty & 2 ? 0 : SIDE, depth;
                limber_problem p;
                char what[100];

                depth = empty & 4 ? 0 : SIDE;
                p = gemm_problem(&k, m, n, depth, &alpha, (limber_matrix){ x, LIMBER_F64, SIDE, 1 },
                                 (limber_matrix){ w, LIMBER_F64, SIDE, 1 }, way & 1 ? &beta : NULL,
                                 (limber_output){ y, LIMBER_F64, SIDE, 1 });
                p.batch = way & 2 ? &three : NULL;
                if (way == 4)
                    p.domain = LIMBER_DOMAIN_COMPLEX, p.alpha = NULL;
                if (way == 5)
                    continue;
                snprintf(what, sizeof what, "promise %d, m = %d, n = %d, k = %d, way %d", i, (int)m,
                         (int)n, (int)depth, way);
                refill();
                if (succeeded(what, limber_run(ctx, &p, NULL)))
                    expect_stored(what,
                                  m * n *
                                      (way == 4   ? 2 :
                                       !(way & 2) ? 1 :
                                                    three.count),
                                  way & 1 ? FILLED * beta : 0);
                query(what, &p);
            }
}

/* Returns a convolution of these sizes, some of which may be 0. */
static limber_conv make_geometry(const int64_t size[9], int stride, bool deep, limber_layout layout,
                                 int64_t groups, int64_t pad)
{
    limber_conv g = LIMBER_CONV_INIT;

    g.n = size[0], g.c = size[1], g.h = size[2], g.w = size[3];
    g.o = size[4], g.r = size[5], g.s = size[6];
    g.d = deep ? size[7] : 0, g.t = deep ? size[8] : 0;
    g.stride[0] = g.stride[1] = stride;
    g.depth_stride = deep ? stride : 0;
    g.dilate[0] = g.dilate[1] = 1;
    for (int i = 0; i < 4; i++)
        g.pad[i] = pad;
    g.groups = groups, g.layout = layout;
    return g;
}

/* Returns the number of elements of the operation's result. */
static int64_t result_elements(const limber_conv *g, limber_operation operation)
{
    int64_t oh, ow, od, depth = g->t ? g->d : 1, window = g->t ? g->t : 1;

    if (operation == LIMBER_OPERATION_CONV_BACKWARD_DATA)
        return g->n * g->c * depth * g->h * g->w;
    if (operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER)
        return g->o * (g->c / g->groups) * window * g->r * g->s;
    assert_int_equal(limber_conv_output(g, &oh, &ow), LIMBER_STATUS_OK);
    assert_int_equal(limber_conv_output_depth(g, &od), LIMBER_STATUS_OK);
    return g->n * g->o * od * oh * ow;
}

/* Computes a convolution whose sums are empty, and checks what is stored.  adds: with the scalar
 * `beta`. */
static void convolve_empty(const limber_conv *g, limber_operation operation,
                           const limber_contract *k, bool adds, const char *what)
{
    limber_problem p =
        conv_problem(k, g, NULL, x, LIMBER_F64, w, LIMBER_F64, adds ? &beta : NULL, y, LIMBER_F64);

    p.operation = operation;
    refill();
    if (succeeded(what, limber_run(ctx, &p, NULL)))
        expect_stored(what, result_elements(g, operation), adds ? FILLED * beta : 0);
    query(what, &p);
}

/* Convolutions one or two sizes of which are 0 are refused, or store zeros or C times beta, and
 * nothing beyond the result. */
static void convolutions(void **state)
{
    static const int64_t sizes[] = { 2, 4, 5, 5, 4, 2, 2, 3, 2 };
    enum { DIMENSIONS = sizeof sizes / sizeof *sizes };

    (void)state;
    for (int first = 0; first < DIMENSIONS; first++)
        for (int second = first; second < DIMENSIONS; second++)
            /* all combinations of rank, beta, layout, stride, groups and padding */
            for (int way = 0; way < 96; way++) {
                bool deep = way & 1, adds = way / 2 & 1;
                limber_layout layout = way / 4 & 1 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
                int stride = way / 8 % 3 + 1, groups = way / 24 & 1 ? (int)sizes[1] : 1;
                int64_t size[DIMENSIONS];
                limber_conv g;

                if (!deep && second >= 7)
                    continue;
                memcpy(size, sizes, sizeof size);
                size[first] = size[second] = 0;
                g = make_geometry(size, stride, deep, layout, groups, way / 48);
                for (int op = LIMBER_OPERATION_CONV_FORWARD;
                     op <= LIMBER_OPERATION_CONV_BACKWARD_FILTER; op++)
                    for (int i = 0; i < 3; i++) {
                        const limber_contract k = contract_of(i, NULL);
                        char what[100];

                        snprintf(what, sizeof what, "conv %d, dimensions %d and %d, way %d, %d", op,
                                 first, second, way, i);
                        convolve_empty(&g, (limber_operation)op, &k, adds, what);
                    }
            }
}

/* Operands some of whose sizes are 0 can be inspected, prepared and multiplied. */
static void prepared_operands(void **state)
{
    static const int64_t filters[][4] = { { 0, 4, 2, 2 }, { 4, 0, 2, 2 }, { 0, 0, 2, 2 },
                                          { 4, 4, 0, 2 }, { 4, 4, 2, 0 }, { 4, 4, 0, 0 } };

    (void)state;
    for (int empty = 1; empty < 4; empty++)
        for (int side = 0; side < 2; side++) {
            int64_t rows = empty & 1 ? 0 : 5, cols = empty & 2 ? 0 : 5;
            limber_matrix m = { x, LIMBER_F64, 5, 1 };
            int64_t lines = side ? cols : rows, k = side ? rows : cols;
            limber_contract correct = contract_of(2, NULL);
            limber_inspection seen = LIMBER_INSPECTION_INIT;
            limber_prepared *prepared;
            limber_problem p = gemm_problem(&correct, side ? 5 : lines, side ? lines : 5, k, NULL,
                                            side ? (limber_matrix){ w, LIMBER_F64, 5, 1 } : m,
                                            side ? m : (limber_matrix){ w, LIMBER_F64, 5, 1 }, NULL,
                                            (limber_output){ y, LIMBER_F64, 5, 1 });

            if (succeeded("inspect", limber_inspect(ctx, m, rows, cols, (limber_side)side, &seen)))
                limber_inspection_free(&seen);
            if (!succeeded("prepare",
                           limber_prepare(ctx, m, rows, cols, (limber_side)side, NULL, &prepared)))
                continue;
            *(side ? &p.prepared_b : &p.prepared_a) = prepared;
            refill();
            if (succeeded("prepared", limber_run(ctx, &p, NULL)))
                expect_stored("prepared", p.m * p.n, 0);
            query("prepared", &p);
            limber_prepared_free(prepared);
        }
    for (size_t i = 0; i < COUNT(filters); i++)
        for (int stride = 1; stride < 4; stride++)
            for (int op = LIMBER_OPERATION_CONV_FORWARD; op <= LIMBER_OPERATION_CONV_BACKWARD_DATA;
                 op++) {
                const int64_t *f = filters[i];
                const limber_conv g =
                    make_geometry((int64_t[]){ 2, f[1], 5, 5, f[0], f[2], f[3], 0, 0 }, stride,
                                  false, LIMBER_LAYOUT_NCHW, 1, 0);
                limber_prepare_config how = LIMBER_PREPARE_CONFIG_INIT;
                limber_contract correct = contract_of(2, NULL);
                limber_problem p = conv_problem(&correct, &g, NULL, x, LIMBER_F64, w, LIMBER_F64,
                                                NULL, y, LIMBER_F64);
                limber_prepared *prepared;

                how.operation = p.operation = (limber_operation)op;
                if (!succeeded("filters",
                               limber_prepare_filters(ctx, &g, w, LIMBER_F64, &how, &prepared)))
                    continue;
                p.prepared_b = prepared;
                refill();
                if (succeeded("filters", limber_run(ctx, &p, NULL)))
                    expect_stored("filters", result_elements(&g, p.operation), 0);
                query("filters", &p);
                limber_prepared_free(prepared);
            }
}

/* Functions and reductions of arrays without elements store nothing, or the value of an empty
 * sum. */
static void arrays(void **state)
{
    (void)state;
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f++) {
        limber_elementwise e = LIMBER_ELEMENTWISE_INIT;

        e.function = (limber_function)f;
        e.from = e.to = LIMBER_F64;
        e.q = 1;
        e.src = x, e.dst = y;
        refill();
        assert_int_equal(limber_apply(ctx, &e), LIMBER_STATUS_OK);
        expect_stored("apply", 0, 0);
    }
    refill();
    assert_int_equal(limber_convert(y, LIMBER_F64, x, LIMBER_F64, 0, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    assert_int_equal(limber_convert(NULL, LIMBER_F64, NULL, LIMBER_F64, 0, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    expect_stored("convert", 0, 0);
    for (int r = 0; r < LIMBER_REDUCTION_COUNT; r++)
        for (int carry = 0; carry <= LIMBER_CARRY_STORAGE; carry++)
            for (int empty = 1; empty < 8; empty++) {
                limber_reduce_call c = LIMBER_REDUCE_INIT;
                bool fewer = r <= LIMBER_REDUCTION_VARIANCE, some;

                c.reduction = (limber_reduction)r;
                c.carry = (limber_carry)carry;
                c.from = c.to = LIMBER_F64;
                c.outer = empty & 1 ? 0 : 3;
                c.count = empty & 2 ? 0 : 3;
                c.inner = empty & 4 ? 0 : 3;
                c.src = x, c.dst = y;
                refill();
                some = succeeded("reduce", limber_reduce(ctx, &c)) && fewer && c.outer && c.inner;
                if (some && r == LIMBER_REDUCTION_SUM)
                    expect_stored("reduce", 9, 0);
                for (int i = some ? 9 : 0; i < ROOM; i++)
                    assert_true(y[i] == FILLED);
            }
}

/* Solving a system without unknowns, without right-hand sides or without both succeeds and stores
 * nothing. */
static void solutions(void **state)
{
    (void)state;
    for (int empty = 1; empty < 4; empty++) {
        limber_solve_call s = LIMBER_SOLVE_INIT;

        s.n = empty & 1 ? 0 : 2;
        s.columns = empty & 2 ? 0 : 2;
        s.a = (limber_matrix){ w, LIMBER_F64, 3, 1 };
        s.b = (limber_matrix){ x, LIMBER_F64, 2, 1 };
        s.x = (limber_output){ y, LIMBER_F64, 2, 1 };
        refill();
        succeeded("solve", limber_solve(ctx, &s, NULL));
        expect_stored("solve", 0, 0);
    }
}

/* Bound functions accept sizes of 0. */
static void functions(void **state)
{
    static const char *const words =
        "int(m:i64 n:i64 k:i64 a:ptr lda:i64 b:ptr ldb:i64 c:ptr ldc:i64)";
    const limber_matrix m = { NULL, LIMBER_F64, 5, 1 };
    int (*multiply)(int64_t, int64_t, int64_t, double *, int64_t, double *, int64_t, double *,
                    int64_t);
    limber_kernel kernel;

    (void)state;
    assert_int_equal(limber_bind(ctx, NULL, LIMBER_F64, LIMBER_F64, LIMBER_F64, words,
                                 (void (**)(void))&multiply),
                     LIMBER_STATUS_OK);
    for (int empty = 1; empty < 8; empty++) {
        int64_t rows = empty & 1 ? 0 : 5, cols = empty & 2 ? 0 : 5, k = empty & 4 ? 0 : 5;

        refill();
        assert_int_equal(multiply(rows, cols, k, x, 5, w, 5, y, 5), LIMBER_STATUS_OK);
        expect_stored("bound", rows * cols, 0);
        assert_int_equal(limber_bind_shape(ctx, NULL, rows, cols, k, m, m, output_of(m),
                                           LIMBER_ACCUMULATE_NONE, &kernel),
                         LIMBER_STATUS_BAD_ARGUMENT);
        assert_null(kernel);
    }
}

/* Runs all tests on a backend; NULL for the one the library chooses.  Returns the number of tests
 * that fail; 1 if there is no context. */
static int run_on_backend(const char *backend)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),          cmocka_unit_test(convolutions),
        cmocka_unit_test(prepared_operands), cmocka_unit_test(arrays),
        cmocka_unit_test(solutions),         cmocka_unit_test(functions),
    };
    const limber_config config = {
        .size = sizeof config, .threads = 2, .cache_dir = "", .backend = backend
    };
    int failed = 1;

    if (limber_create(&ctx, &config) == LIMBER_STATUS_OK)
        failed = cmocka_run_group_tests_name(backend ? backend : "auto", tests, NULL, NULL);
    limber_destroy(ctx);
    return failed;
}

int main(void)
{
    int failed;

    clear_environment();
    for (int i = 0; i < ROOM; i++)
        x[i] = w[i] = i % 5 + 1;
    failed = run_on_backend(NULL);
    return run_on_backend("interp") || failed;
}
