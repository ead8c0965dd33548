/* SPDX-License-Identifier: BSD-3-Clause
 * Bound functions (limber_bind) are called like BLAS functions and give the right products. */
#include "contexts.h"
#include "engine_support.h"

enum { M = 3, N = 4, K = 5, LD = 7 };

typedef void dgemm_like(const char *, const char *, const int *, const int *, const int *,
                        const double *, const double *, const int *, const double *, const int *,
                        const double *, double *, const int *);
typedef void cblas_like(int, int, int, int, int, int, double, const double *, int, const double *,
                        int, double, double *, int);

static const limber_contract native = { .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_NATIVE };
static limber_context *ctx;

static int create_context(void **state)
{
    (void)state;
    ctx = counted_group_context();
    return 0;
}

/* Binds a function with this signature.  Fails the test if that fails. */
static void (*bind_f64(const char *signature))(void)
{
    limber_format f64 = named("f64");
    void (*f)(void);

    if (limber_bind(ctx, &native, f64, f64, f64, signature, &f) != LIMBER_STATUS_OK)
        fail_msg("%s", limber_error_text());
    assert_true(f != NULL);
    return f;
}

static double a_at(int i, int p)
{
    return i * 2 - p;
}
static double b_at(int p, int j)
{
    return p + 3 * j - 4;
}

/* An element of alpha A B + beta C where all elements of C are 7; exact, since numbers are small
 * integers. */
static double c_at(int i, int j, double alpha, double beta)
{
    double sum = 0;

    for (int p = 0; p < K; p++)
        sum += a_at(i, p) * b_at(p, j);
    return alpha * sum + beta * 7;
}

/* Stores a matrix row by row or column by column, with the leading dimension LD. */
static void store_matrix(double *x, double (*at)(int, int), int rows, int cols, bool by_row)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            x[by_row ? i * LD + j : i + j * LD] = at(i, j);
}

static void expect_product(const double *c, bool by_row, double alpha, double beta)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            assert_true(c[by_row ? i * LD + j : i + j * LD] == c_at(i, j, alpha, beta));
}

/* A function bound as Fortran's dgemm_ gives the right product for each pair of transposition
 * letters, and leaves the padding of C unchanged. */
static void functions_with_the_arguments_of_fortran(void **state)
{
    static const char codes[] = "NnTtCc";
    dgemm_like *f = (dgemm_like *)bind_f64("dgemm_");
    const int m = M, n = N, k = K, ld = LD;
    const double alpha = 2, beta = -1;

    (void)state;
    for (int u = 0; u < 6; u++) {
        for (int v = 0; v < 6; v++) {
            double a[LD * LD], b[LD * LD], c[LD * LD];

            for (int i = 0; i < LD * LD; i++)
                a[i] = b[i] = 99, c[i] = 7;
            store_matrix(a, a_at, M, K, u >= 2);
            store_matrix(b, b_at, K, N, v >= 2);
            f(&codes[u], &codes[v], &m, &n, &k, &alpha, a, &ld, b, &ld, &beta, c, &ld);
            expect_product(c, false, alpha, beta);
            assert_true(c[M] == 7);
        }
    }
}

/* A function bound as cblas_dgemm gives the right product for each order and each pair of
 * transpositions. */
static void functions_with_the_arguments_of_cblas(void **state)
{
    cblas_like *f = (cblas_like *)bind_f64("cblas_dgemm");

    (void)state;
    for (int order = 101; order <= 102; order++) {
        for (int ta = 111; ta <= 113; ta++) {
            for (int tb = 111; tb <= 113; tb++) {
                double a[LD * LD], b[LD * LD], c[LD * LD];
                bool rows = order == 101;

                for (int i = 0; i < LD * LD; i++)
                    a[i] = b[i] = 99, c[i] = 7;
                store_matrix(a, a_at, M, K, rows != (ta > 111));
                store_matrix(b, b_at, K, N, rows != (tb > 111));
                f(order, ta, tb, M, N, K, 3, a, LD, b, LD, 0.5, c, LD);
                expect_product(c, rows, 3, 0.5);
            }
        }
    }
}

/* A function with arguments in an order of one's own computes and returns a status; bad arguments
 * are refused and leave C unchanged. */
static void functions_with_a_status_and_custom_arguments(void **state)
{
    typedef int own(double *, double *, double *, void *, int64_t, int64_t, int64_t, int);
    own *f = (own *)bind_f64("int(c:ptr b:ptr a:ptr _:ptr m:i64 n:i64 k:i64 transb:i32)");
    double a[M * K], b[N * K], c[M * N];

    (void)state;
    for (int i = 0; i < M; i++)
        for (int p = 0; p < K; p++)
            a[i + p * M] = a_at(i, p);
    for (int p = 0; p < K; p++)
        for (int j = 0; j < N; j++)
            b[j + p * N] = b_at(p, j);
    assert_int_equal(f(c, b, a, NULL, M, N, K, 'T'), LIMBER_STATUS_OK);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            assert_true(c[i + j * M] == c_at(i, j, 1, 0));
    c[0] = 123;
    assert_refused(f(c, b, a, NULL, -1, N, K, 'T'), LIMBER_STATUS_BAD_ARGUMENT, "m = -1");
    assert_refused(f(c, b, a, NULL, M, N, K, 'X'), LIMBER_STATUS_BAD_ARGUMENT, "transb = 88");
    assert_refused(f(NULL, b, a, NULL, M, N, K, 'T'), LIMBER_STATUS_BAD_ARGUMENT, "c.data");
    assert_true(c[0] == 123);
}

/* Bound functions without a status leave C unchanged on bad arguments, and an error text that names
 * them. */
static void failures_leave_c_and_a_text(void **state)
{
    dgemm_like *f = (dgemm_like *)bind_f64("dgemm_");
    cblas_like *g = (cblas_like *)bind_f64("cblas_dgemm");
    const int m = M, n = N, k = K, ld = LD, little = M - 1;
    const double one = 1, zero = 0;
    double a[LD * LD] = { 0 }, b[LD * LD] = { 0 }, c[LD * LD] = { 7 };

    (void)state;
    f("N", "N", &m, &n, &k, &one, a, &little, b, &ld, &zero, c, &ld);
    assert_non_null(strstr(limber_error_text(), "lda = 2"));
    f("N", "N", &m, NULL, &k, &one, a, &ld, b, &ld, &zero, c, &ld);
    assert_non_null(strstr(limber_error_text(), "n is NULL"));
    g(100, 111, 111, M, N, K, 1, a, LD, b, LD, 0, c, LD);
    assert_non_null(strstr(limber_error_text(), "order = 100"));
    g(102, 111, 111, M, N, K, 1, a, LD, b, LD, 0, c, M - 1);
    assert_non_null(strstr(limber_error_text(), "ldc = 2"));
    assert_true(c[0] == 7);
}

/* Each signature that cannot be parsed, or lacks an argument, is refused with a text that names the
 * bad word; the function becomes NULL. */
static void bad_signatures_are_named(void **state)
{
    static const char *const bad[][2] = {
        { "m:i32", "\"n\" is missing" },
        { "m:i32 n:i32 k:i32 a:ptr b:ptr", "\"c\" is missing" },
        { "m:f64 n:i32 k:i32 a:ptr b:ptr c:ptr", "m:f64" },
        { "m:i32 m:i32 k:i32 a:ptr b:ptr c:ptr", "twice" },
        { "m n k", "\"m\"" },
        { "q:i32", "\"q:i32\"" },
        { "m:int", "m:int" },
        { "m:", "\"m:\"" },
        { ":i32", "\":i32\"" },
        { "m:**i32", "m:**i32" },
        { "a:*ptr", "a:*ptr" },
        { "int(m:i32", "not closed" },
        { "m:i32 n:i32 k:i32 a:ptr b:ptr c:ptr alpha:f32", "\"alpha\" has to be in format f64" },
        { "m:i32 n:i32 k:i32 a:ptr b:ptr c:ptr alpha:fp32", "\"alpha\" has to be in format f64" },
        { "m:i32 n:i32 k:i32 a:ptr b:ptr c:ptr beta:*f16", "\"beta\" has to be in format f64" },
        { "alpha:f16 m:i32", "alpha:f16" },
        { "averyveryveryveryveryveryverylongword:i32", "too long" },
    };
    limber_format f64 = named("f64");
    void (*f)(void);

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        f = (void (*)(void))functions_with_the_arguments_of_fortran;
        if (limber_bind(ctx, &native, f64, f64, f64, bad[i][0], &f) != LIMBER_STATUS_BAD_ARGUMENT ||
            !strstr(limber_error_text(), bad[i][1]))
            fail_msg("\"%s\" gives \"%s\"", bad[i][0], limber_error_text());
        assert_true(f == NULL);
    }
    assert_int_equal(limber_bind(ctx, &native, f64, f64, f64, NULL, &f),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_bind(ctx, NULL, f64, f64, f64, "dgemm_", &f), LIMBER_STATUS_OK);
    assert_int_equal(limber_bind(NULL, &native, f64, f64, f64, "dgemm_", &f),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_bind(ctx, &native, f64, f64, f64, "dgemm_", NULL),
                     LIMBER_STATUS_BAD_ARGUMENT);
}

/* A signature of 100 arguments is refused. */
static void too_many_arguments(void **state)
{
    char text[2000] = "";
    limber_format f64 = named("f64");
    void (*f)(void);

    (void)state;
    for (int i = 0; i < 100; i++)
        strcat(text, "_:i32 ");
    assert_refused(limber_bind(ctx, &native, f64, f64, f64, text, &f), LIMBER_STATUS_BAD_ARGUMENT,
                   "too many");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_with_the_arguments_of_fortran),
        cmocka_unit_test(functions_with_the_arguments_of_cblas),
        cmocka_unit_test(functions_with_a_status_and_custom_arguments),
        cmocka_unit_test(failures_leave_c_and_a_text),
        cmocka_unit_test(bad_signatures_are_named),
        cmocka_unit_test(too_many_arguments),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, create_context, destroy_group_contexts);
}
