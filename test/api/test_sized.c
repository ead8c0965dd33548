/* SPDX-License-Identifier: BSD-3-Clause
 * Structures that grow: callers may know fewer fields than the library, or more. */
#include "support.h"
#include "contexts.h"

#include "jit/api/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static limber_context *ctx;

static int make_context(void **state)
{
    (void)state;
    ctx = group_context(.threads = 1);
    return ctx ? 0 : -1;
}

/* Today's version of a structure.  Older programs know only its first fields. */
struct today {
    size_t size;
    int a, b;
};

/* A structure of an older, smaller version is read with defaults for its missing fields; a larger
 * one only if its unknown bytes are 0. */
static void structures_of_other_sizes_are_read(void **state)
{
    struct {
        struct today it;
        int later[2];
    } newer = { { sizeof newer, 1, 2 }, { 0, 0 } };
    struct today to, older = { offsetof(struct today, b), 3, 4 };
    struct diag d = { 0 };

    (void)state;
    assert_true(limber_copy_sized_in(&to, sizeof to, &newer, sizeof(size_t), "it", &d));
    assert_true(to.size == sizeof to && to.a == 1 && to.b == 2);
    assert_true(limber_copy_sized_in(&to, sizeof to, &older, sizeof(size_t), "it", &d));
    /* b keeps its default, since it is beyond the end of the older structure */
    assert_true(to.size == sizeof to && to.a == 3 && to.b == 0);
    newer.later[1] = 1;
    assert_false(limber_copy_sized_in(&to, sizeof to, &newer, sizeof(size_t), "it", &d));
    assert_non_null(strstr(d.text, "does not know"));
    d = (struct diag){ 0 };
    older.size = 3;
    assert_false(limber_copy_sized_in(&to, sizeof to, &older, sizeof(size_t), "it", &d));
    assert_non_null(strstr(d.text, "LIMBER_..._INIT"));
}

/* A caller's structure of an older, smaller version gets only the fields that it has; memory behind
 * it is unchanged. */
static void smaller_structures_are_filled_partially(void **state)
{
    struct today older = { offsetof(struct today, b), 0, 7 }, from = { sizeof from, 5, 6 };

    (void)state;
    limber_copy_sized_out(&older, &from, sizeof from);
    assert_true(older.size == offsetof(struct today, b) && older.a == 5 && older.b == 7);
}

static const double one = 1;

/* Returns a product of 1 x 1 matrices. */
static limber_problem smallest_problem(double *c)
{
    limber_problem p = LIMBER_PROBLEM_INIT;

    p.m = p.n = p.k = 1;
    p.a = p.b = (limber_matrix){ &one, LIMBER_F64, 1, 1 };
    p.c = (limber_output){ c, LIMBER_F64, 1, 1 };
    return p;
}

/* Structures without an initialiser are refused by name, and C is unchanged. */
static void sizes_of_zero_are_refused(void **state)
{
    double c = 7;
    limber_problem p = smallest_problem(&c);
    limber_contract contract = { .size = 0 };
    limber_batch batch = { .size = 8 };
    limber_queue queue = { .size = 0 };
    limber_conv conv = { .size = 0 };
    limber_report report = { .size = 0 };
    limber_unit unit = { .size = 0 };
    limber_context *other;
    int64_t h, w;

    (void)state;
    p.size = 0;
    assert_refused(limber_run(ctx, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "problem.size");
    p = smallest_problem(&c);
    p.contract = &contract;
    assert_refused(limber_run(ctx, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "contract.size");
    p = smallest_problem(&c);
    p.batch = &batch;
    assert_refused(limber_run(ctx, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "batch.size = 8");
    p = smallest_problem(&c);
    p.queue = &queue;
    assert_refused(limber_run(ctx, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, "queue.size");
    p = smallest_problem(&c);
    assert_refused(limber_run(ctx, &p, &report), LIMBER_STATUS_BAD_ARGUMENT, "report.size");
    assert_refused(limber_conv_output(&conv, &h, &w), LIMBER_STATUS_BAD_ARGUMENT, "conv.size");
    assert_refused(limber_unit_parse("int8", &unit), LIMBER_STATUS_BAD_ARGUMENT, "unit.size");
    assert_refused(limber_create(&other, &(limber_config){ .size = 0 }), LIMBER_STATUS_BAD_ARGUMENT,
                   "config.size");
    assert_true(c == 7);
}

/* After the initialiser, a convolution needs only its sizes, and padding if wanted. */
static void a_convolution_needs_its_sizes(void **state)
{
    static const float x[4] = { 1, 2, 3, 4 }, w[1] = { 10 };
    limber_conv conv = LIMBER_CONV_INIT;
    float y[4] = { 0 };

    (void)state;
    conv.n = conv.c = conv.o = conv.r = conv.s = 1;
    conv.h = conv.w = 2;
    if (limber_conv2d(ctx, NULL, &conv, NULL, x, LIMBER_F32, w, LIMBER_F32, NULL, y, LIMBER_F32,
                      NULL))
        fail_msg("%s", limber_error_text());
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == 10 * x[i]);
}

/* Features of a problem that exclude each other are refused by the name of a field, and C is
 * unchanged. */
static void combinations(void **state)
{
    double c = 7;
    limber_conv conv = LIMBER_CONV_INIT;
    limber_batch two = LIMBER_BATCH_INIT;
    limber_prepared *prepared;
    size_t least, best;
    char *text;

    (void)state;
#define REFUSED(change, word) \
    do { \
        limber_problem p = smallest_problem(&c); \
        change; \
        assert_refused(limber_run(ctx, &p, NULL), LIMBER_STATUS_BAD_ARGUMENT, word); \
        assert_true(c == 7); \
    } while (0)
    two.count = 2;
    two.a = two.c = 1;
    assert_int_equal(limber_prepare(ctx, (limber_matrix){ &one, LIMBER_F64, 1, 1 }, 1, 1,
                                    LIMBER_SIDE_A, NULL, &prepared),
                     LIMBER_STATUS_OK);
    REFUSED(p.operation = (limber_operation)9, "problem.operation");
    REFUSED(p.operation = LIMBER_OPERATION_CONV_BACKWARD_DATA, "problem.conv");
    REFUSED(p.operation = LIMBER_OPERATION_CONV_FORWARD, "problem.conv");
    REFUSED((p.operation = LIMBER_OPERATION_CONV_FORWARD, p.conv = &conv), "problem.m, n, k");
    REFUSED(p.conv = &conv, "problem.conv");
    REFUSED(p.domain = (limber_domain)5, "problem.domain");
    REFUSED(p.conjugate = LIMBER_CONJUGATE_A, "problem.conjugate");
    REFUSED(p.conjugate = (limber_conjugate)4, "problem.conjugate");
    REFUSED(p.complex_method = LIMBER_COMPLEX_THREE_PRODUCTS, "problem.complex_method");
    REFUSED(p.epilogue = (const limber_epilogue *)&c, "problem.epilogue");
    REFUSED((p.domain = LIMBER_DOMAIN_COMPLEX, p.prepared_a = prepared), "problem.prepared_a");
    REFUSED((p.prepared_a = prepared, p.batch = &two), "problem.prepared_a");
    REFUSED((p.prepared_b = prepared), "prepared_b was prepared for the other side");
    {
        limber_problem p = smallest_problem(&c);

        p.domain = LIMBER_DOMAIN_COMPLEX;
        assert_refused(limber_plan(ctx, &p, &text, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                       "problem.domain");
        assert_refused(limber_workspace(ctx, &p, &least, &best), LIMBER_STATUS_BAD_ARGUMENT,
                       "problem.domain");
        p = smallest_problem(&c);
        p.batch = &two;
        assert_refused(limber_plan(ctx, &p, &text, NULL), LIMBER_STATUS_BAD_ARGUMENT,
                       "problem.batch");
    }
    limber_prepared_free(prepared);
}

/* Batches of complex products, by strides and by addresses.  The last product overflows: all of C
 * must be unchanged. */
static void complex_batches(void **state)
{
    enum { COUNT_OF = 3 };
    const int64_t a[2 * COUNT_OF] = { 1, 2, 3, -4, INT64_MAX, 0 }, b[2] = { 2, 1 };
    int64_t c[2 * COUNT_OF] = { 9, 9, 9, 9, 9, 9 };
    const void *at_a[] = { a, a + 2, a + 4 }, *at_b[] = { b, b, b };
    void *at_c[] = { c, c + 2, c + 4 };
    limber_contract exact = LIMBER_CONTRACT_INIT;

    (void)state;
    exact.promise = LIMBER_CONTRACT_EXACT;
    for (int by_address = 0; by_address < 2; by_address++) {
        limber_problem p = LIMBER_PROBLEM_INIT;
        limber_batch batch = LIMBER_BATCH_INIT;

        p.domain = LIMBER_DOMAIN_COMPLEX;
        p.m = p.n = p.k = 1;
        p.a = (limber_matrix){ a, LIMBER_I64, 1, 1 };
        p.b = (limber_matrix){ b, LIMBER_I64, 1, 1 };
        p.c = (limber_output){ c, LIMBER_I64, 1, 1 };
        p.contract = &exact;
        p.batch = &batch;
        batch.count = COUNT_OF;
        batch.a = batch.c = 1;
        if (by_address) {
            batch.address_a = at_a;
            batch.address_b = at_b;
            batch.address_c = at_c;
        }
        for (int i = 0; i < 2 * COUNT_OF; i++)
            c[i] = 9;
        assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_RANGE);
        for (int i = 0; i < 2 * COUNT_OF; i++)
            assert_true(c[i] == 9);
        batch.count = 2;
        assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
        assert_true(c[0] == 0 && c[1] == 5 && c[2] == 10 && c[3] == -5 && c[4] == 9);
    }
}

/* All products of a batch use the same prepared operand. */
static void prepared_batches(void **state)
{
    enum { N = 33, PRODUCTS = 4 };
    static double a[N * N], b[PRODUCTS * N * N], c[2][PRODUCTS * N * N];
    limber_contract correct = LIMBER_CONTRACT_INIT;
    limber_batch batch = LIMBER_BATCH_INIT;
    struct rng r = { 3 };

    (void)state;
    fill(&r, DATA_unit, LIMBER_F64, a, N * N);
    fill(&r, DATA_unit, LIMBER_F64, b, PRODUCTS * N * N);
    correct.promise = LIMBER_CONTRACT_CORRECT;
    batch.count = PRODUCTS;
    batch.b = batch.c = N * N;
    for (int with = 0; with < 2; with++) {
        limber_problem p = LIMBER_PROBLEM_INIT;
        limber_prepared *prepared = NULL;

        p.m = p.n = p.k = N;
        p.a = (limber_matrix){ a, LIMBER_F64, N, 1 };
        p.b = (limber_matrix){ b, LIMBER_F64, N, 1 };
        p.c = (limber_output){ c[with], LIMBER_F64, N, 1 };
        p.contract = &correct;
        p.batch = &batch;
        if (with)
            assert_int_equal(limber_prepare(ctx, p.a, N, N, LIMBER_SIDE_A, NULL, &prepared),
                             LIMBER_STATUS_OK);
        p.prepared_a = prepared;
        assert_int_equal(limber_run(ctx, &p, NULL), LIMBER_STATUS_OK);
        limber_prepared_free(prepared);
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structures_of_other_sizes_are_read),
        cmocka_unit_test(smaller_structures_are_filled_partially),
        cmocka_unit_test(sizes_of_zero_are_refused),
        cmocka_unit_test(a_convolution_needs_its_sizes),
        cmocka_unit_test(combinations),
        cmocka_unit_test(complex_batches),
        cmocka_unit_test(prepared_batches),
    };

    return cmocka_run_group_tests(tests, make_context, destroy_group_contexts);
}
