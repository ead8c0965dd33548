/* SPDX-License-Identifier: BSD-3-Clause
 * Products whose sums cancel, as in tests of accuracy: Q'Q of an orthogonal Q, a matrix times its
 * inverse, exact zeros, centred columns, and also sparse operands.  Results under `correct` have
 * the interpreter's bits at every size and by every way, and plans take cancellation into
 * account. */
#include "contexts.h"
#include "engine_support.h"

#include "calls.h"
#include "support.h"

#include <math.h>

enum { MOST = 160 };

static limber_context *compiled, *interp;

static int make_contexts(void **state)
{
    (void)state;
#ifdef LIMBER_HAVE_LLVM
    compiled = group_context(.backend = "llvm", .threads = 2);
#endif
    interp = group_context(.backend = "interp", .threads = 2);
    return interp ? 0 : -1;
}

/* ---- matrices whose products cancel ---------------------------------------------------------- */

enum operands { RANDOM, ORTHOGONAL, INVERSE, ZEROS, CENTRED, SPARSE, OPERANDS };
static const char *const operands_names[] = { "random",      "orthogonal", "inverse",
                                              "exact zeros", "centred",    "sparse" };

/* Returns a number with approximately normal distribution. */
static double normal(struct rng *r)
{
    double s = 0;

    for (int i = 0; i < 12; i++)
        s += rng_unit(r);
    return s - 6;
}

/* Rounds the elements of a matrix to format f, so that its FP32 and FP64 versions hold the same
 * numbers. */
static void round_all(double *x, int count, limber_format f)
{
    char narrow[8];

    for (int i = 0; i < count; i++) {
        limber_convert(narrow, f, &x[i], named("f64"), 1, LIMBER_ROUND_NEAREST);
        limber_convert(&x[i], named("f64"), narrow, f, 1, LIMBER_ROUND_NEAREST);
    }
}

/* Makes a product of (n + 1) / 2 reflections I - 2 v v' / v'v, which is orthogonal except for
 * rounding errors. */
static void make_orthogonal(struct rng *r, int n, double *q)
{
    double *v = malloc(sizeof *v * (size_t)n);

    for (int i = 0; i < n * n; i++)
        q[i] = i % (n + 1) == 0;
    for (int turn = 0; turn < (n + 1) / 2; turn++) {
        double size = 0;

        for (int i = 0; i < n; i++) {
            v[i] = normal(r);
            size += v[i] * v[i];
        }
        for (int j = 0; j < n; j++) {
            double dot = 0;

            for (int i = 0; i < n; i++)
                dot += v[i] * q[i * n + j];
            for (int i = 0; i < n; i++)
                q[i * n + j] -= 2 * dot / size * v[i];
        }
    }
    free(v);
}

/* Makes a unit lower triangular matrix, and its inverse by substitution. */
static void make_inverse(struct rng *r, int n, double *a, double *b)
{
    memset(b, 0, sizeof *b * (size_t)(n * n));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[i * n + j] = i == j ? 1 : j < i ? normal(r) / 8 : 0;
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) {
            double s = i == j;

            for (int p = j; p < i; p++)
                s -= a[i * n + p] * b[p * n + j];
            b[i * n + j] = s;
        }
}

/* Makes two n x n matrices of the kind `data`, such that sums of their products cancel or do
 * not. */
static void make_operands(struct rng *r, enum operands data, int n, limber_format f, double *a,
                          double *b)
{
    const int half = n / 2;

    memset(a, 0, sizeof *a * (size_t)(n * n));
    memset(b, 0, sizeof *b * (size_t)(n * n));
    switch (data) {
    case ORTHOGONAL:
        make_orthogonal(r, n, b);
        round_all(b, n * n, f);
        for (int i = 0; i < n * n; i++)
            a[i % n * n + i / n] = b[i];
        return;
    case INVERSE: make_inverse(r, n, a, b); break;
    case ZEROS:
        for (int i = 0; i < n; i++)
            for (int p = 0; p < half; p++) {
                a[i * n + p] = a[i * n + half + p] = normal(r);
                b[p * n + i] = normal(r);
                b[(half + p) * n + i] = -b[p * n + i];
            }
        break;
    case CENTRED:
        for (int i = 0; i < n; i++)
            for (int p = 0; p < half; p++) {
                a[i * n + p] = normal(r);
                a[i * n + half + p] = -a[i * n + p];
            }
        for (int i = 0; i < n * n; i++)
            b[i] = 1;
        break;
    default:
        for (int i = 0; i < n * n; i++) {
            a[i] = data == SPARSE && rng_below(r, 20) ? 0 : normal(r);
            b[i] = data == SPARSE && rng_below(r, 20) ? 0 : normal(r);
        }
    }
    round_all(a, n * n, f);
    round_all(b, n * n, f);
}

/* ---- products of these matrices -------------------------------------------------------------- */

/* Computes a correct product.  scalars: addresses of alpha and beta, or NULL. */
static void multiply_correctly(limber_context *ctx, const char *scheme, int n, limber_format f,
                               const void *a, const void *b, const void *const scalars[2], void *c,
                               limber_report *report)
{
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT,
                                      .scheme = scheme };

    if (limber_gemm(ctx, &correct, n, n, n, scalars[0], (limber_matrix){ a, f, n, 1 },
                    (limber_matrix){ b, f, n, 1 }, scalars[1], (limber_output){ c, f, n, 1 },
                    report))
        fail_msg("%s", limber_error_text());
}

/* Compares correct products of these operands in the compiled context with the interpreter's. */
static void compare_with_interpreter(struct rng *r, enum operands data, int n, const char *format)
{
    static double a[MOST * MOST], b[MOST * MOST];
    static char x[MOST * MOST * 8], y[MOST * MOST * 8], old[MOST * MOST * 8];
    static char want[MOST * MOST * 8], c[MOST * MOST * 8];
    const limber_format f = named(format), f64 = named("f64");
    const int count = n * n;
    const double three[2] = { -3, 0.7 };
    char alpha[8], beta[8];

    make_operands(r, data, n, f, a, b);
    limber_convert(x, f, a, f64, count, LIMBER_ROUND_NEAREST);
    limber_convert(y, f, b, f64, count, LIMBER_ROUND_NEAREST);
    for (int i = 0; i < count; i++)
        a[i] = normal(r);
    limber_convert(old, f, a, f64, count, LIMBER_ROUND_NEAREST);
    store_scalar(alpha, f, three[0]);
    store_scalar(beta, f, three[1]);
    for (int given = 0; given < 3; given++) { /* number of given scalars: none, alpha, both */
        const void *const scalars[2] = { given ? alpha : NULL, given > 1 ? beta : NULL };

        memcpy(want, old, sizeof want);
        multiply_correctly(interp, "accumulator", n, f, x, y, scalars, want, NULL);
        for (int named = 0; named < 2; named++) {
            memcpy(c, old, sizeof c);
            multiply_correctly(compiled, named ? "accumulator" : NULL, n, f, x, y, scalars, c,
                               NULL);
            for (int i = 0; i < count; i++)
                if (!same_number(f, c + i * f.size, want + i * f.size))
                    fail_msg("%s, n = %d, %s, scalars %d, %s: element %d differs",
                             operands_names[data], n, format, given,
                             named ? "accumulator" : "best scheme", i);
        }
    }
}

/* Products whose sums cancel and products whose sums do not have the interpreter's bits under
 * `correct`, for several sizes and formats. */
static void results_are_those_of_the_interpreter(void **state)
{
    static const int sizes[] = { 2, 9, 24, 40, 66, 100 };
    struct rng r = { 91 };

    (void)state;
    if (!compiled)
        skip_because("no compiled backend");
    for (int data = 0; data < OPERANDS; data++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            compare_with_interpreter(&r, data, sizes[i],
                                     i % 2 || data == ORTHOGONAL ? "f64" : "f32");
}

/* If sums cancel, products are computed by residues or slices, because double-double sums would
 * leave the rounding of most elements uncertain.  With ordinary and sparse data, they are not. */
static void plans_know_that_data_cancels(void **state)
{
    static double a[MOST * MOST], b[MOST * MOST], c[MOST * MOST];
    struct rng r = { 92 };

    (void)state;
    if (!compiled)
        skip_because("no compiled backend");
    for (int data = 0; data < OPERANDS; data++) {
        const bool cancels = data != RANDOM && data != SPARSE;
        const void *const none[2] = { NULL, NULL };
        const limber_contract correct = { .size = sizeof(limber_contract),
                                          .promise = LIMBER_CONTRACT_CORRECT };
        limber_report report = LIMBER_REPORT_INIT;
        limber_problem problem;
        char *plan;

        make_operands(&r, data, MOST, named("f64"), a, b);
        multiply_correctly(compiled, NULL, MOST, named("f64"), a, b, none, c, &report);
        problem = gemm_problem(&correct, MOST, MOST, MOST, NULL,
                               (limber_matrix){ a, named("f64"), MOST, 1 },
                               (limber_matrix){ b, named("f64"), MOST, 1 }, NULL,
                               (limber_output){ c, named("f64"), MOST, 1 });
        assert_int_equal(limber_plan(compiled, &problem, &plan, NULL), LIMBER_STATUS_OK);
        if (!strstr(plan, " paired=") == cancels)
            fail_msg("%s: the plan says %.200s", operands_names[data], plan);
        if (cancels && strncmp(report.scheme, "ozaki", 5) != 0)
            fail_msg("%s: computed by %s", operands_names[data], report.scheme);
        limber_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_interpreter),
        cmocka_unit_test(plans_know_that_data_cancels),
    };

    return cmocka_run_group_tests(tests, make_contexts, destroy_group_contexts);
}
