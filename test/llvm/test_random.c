/* SPDX-License-Identifier: BSD-3-Clause
 * Compares random products of the compiled backend with the interpreter's bits: formats, shapes,
 * strides, scalars, schemes, threads and small workspaces vary at random.  Products are not split
 * into parts, since each backend splits them differently. */
#include "engine_support.h"
#include "support.h"

#include <math.h>

enum { MOST = 90, MOST_K = 700 };

static const char *const formats[] = { "f64", "f64", "f32", "f128", "dd",  "i8",
                                       "i16", "i32", "i64", "u8",   "f16", "bf16" };
static const char *const schemes[] = { NULL,     NULL,        NULL,         NULL,
                                       "ozaki2", "ozaki1-i8", "ozaki1-f64", "integer",
                                       "fp32-f", "fp32-b",    "ozaki1-f16", "wider" };

static bool is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}

/* Draws a number that fits the format: a real of some kind, which may be NaN or infinite, or an
 * integer. */
static double draw_value(struct rng *r, limber_format f, int kind)
{
    double u = (double)(int64_t)rng_next(r) * 0x1p-63;
    int most = f.size == 1 ? 127 : 30000;

    if (is_integer(f))
        return f.kind == LIMBER_KIND_UINT ? rng_below(r, most) : rng_below(r, 2 * most + 1) - most;
    switch (kind) {
    case 0: return u;
    case 1: return rng_below(r, 255) - 127;
    case 2: return rng_below(r, 65535) - 32767;
    case 3: return ldexp(u, rng_below(r, 60) - 30);
    case 4: return rng_below(r, 4) ? 0 : u;
    case 5: return rng_below(r, 200) ? u : rng_below(r, 2) ? INFINITY : NAN;
    case 6: return rng_below(r, 100) ? u : ldexp(u, -1060);
    default: return floor(u * 0x1p53) * 0x1p-53;
    }
}

/* Allocates `count` random numbers of format f.  kind: of reals, as in draw_value. */
static char *make_elements(struct rng *r, limber_format f, size_t count, int kind)
{
    double *v = malloc((count + 1) * sizeof *v);
    char *p = calloc(count + 1, f.size);

    assert_true(v && p);
    for (size_t i = 0; i < count; i++)
        v[i] = draw_value(r, f, kind);
    assert_int_equal(limber_convert(p, f, v, named("f64"), count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    free(v);
    return p;
}

/* Describes a dense matrix: row-major, or column-major if `transposed`. */
static limber_matrix matrix(void *data, limber_format f, int64_t rows, int64_t cols,
                            bool transposed)
{
    return (limber_matrix){ data, f, transposed ? 1 : cols, transposed ? rows : 1 };
}

/* Draws a result format for products of format f. */
static limber_format result_of(struct rng *r, limber_format f)
{
    if (is_integer(f))
        return named(rng_below(r, 2) ? "i64" : "i32");
    if (f.size == 2)
        return named("f32");
    return rng_below(r, 3) ? f : named("f64");
}

/* Computes a random product in both contexts and compares.  Returns whether the contract could be
 * kept. */
static bool check_random_product(struct rng *r, limber_context *compiled, limber_context *interp)
{
    int64_t m = 1 + rng_below(r, MOST), n = 1 + rng_below(r, MOST),
            k = rng_below(r, 12) ? rng_below(r, MOST_K) : 0;
    limber_format fa = named(formats[rng_below(r, (int)COUNT(formats))]), fc = result_of(r, fa);
    limber_contract contract = {
        .size = sizeof(limber_contract),
        .promise = is_integer(fa) ?
                       (rng_below(r, 2) ? LIMBER_CONTRACT_NATIVE : LIMBER_CONTRACT_EXACT) :
                   rng_below(r, 2) ? LIMBER_CONTRACT_NATIVE :
                                     LIMBER_CONTRACT_CORRECT,
        .scheme = schemes[rng_below(r, (int)COUNT(schemes))],
    };
    int kind = rng_below(r, 8), transposes = rng_below(r, 8);
    char *a = make_elements(r, fa, (size_t)(m * k), kind),
         *b = make_elements(r, fa, (size_t)(k * n), kind);
    char *got = make_elements(r, fc, (size_t)(m * n), 0),
         *want = malloc((size_t)(m * n) * fc.size + 1);
    int64_t three = 3, two = 2;
    char *alpha = make_elements(r, fc, 1, 0), *beta = make_elements(r, fc, 1, 0);
    const void *scalar[2] = { is_integer(fc) ? (void *)&three : alpha,
                              is_integer(fc) ? (void *)&two : beta };
    limber_matrix ma = matrix(a, fa, m, k, transposes & 1),
                  mb = matrix(b, fa, k, n, transposes & 2);
    limber_matrix mc = matrix(got, fc, m, n, transposes & 4);
    limber_report report = LIMBER_REPORT_INIT;
    bool kept;

    scalar[0] = rng_below(r, 3) ? NULL : scalar[0];
    scalar[1] = rng_below(r, 3) ? NULL : scalar[1];
    memcpy(want, got, (size_t)(m * n) * fc.size);
    kept = limber_gemm(compiled, &contract, m, n, k, scalar[0], ma, mb, scalar[1], output_of(mc),
                       &report) == LIMBER_STATUS_OK;
    if (kept) {
        contract.scheme = report.scheme;
        mc.data = want;
        if (limber_gemm(interp, &contract, m, n, k, scalar[0], ma, mb, scalar[1], output_of(mc),
                        NULL))
            fail_msg("%s", limber_error_text());
    }
    for (int64_t i = 0; i < m * n; i++)
        if (!same_number(fc, got + i * fc.size, want + i * fc.size))
            fail_msg(
                "%s, formats of %d and %d bytes, %d x %d x %d, data %d, transposed %d, element %d",
                kept ? report.scheme : "a refusal", fa.size, fc.size, (int)m, (int)n, (int)k, kind,
                transposes, (int)i);
    free(a);
    free(b);
    free(got);
    free(want);
    free(alpha);
    free(beta);
    return kept;
}

/* Random products by compiled kernels, with random threads and workspaces, have the interpreter's
 * bits. */
static void compiled_products_equal_the_interpreter(void **state)
{
    const int products = EMULATED ? 30 : SANITIZED ? 40 : is_long() ? 250 : 110;
    struct rng r = { 20 };
    limber_context *interp, *compiled = NULL;
    int kept = 0;

    (void)state;
    assert_int_equal(limber_create(&interp, &(limber_config){ .size = sizeof(limber_config),
                                                              .backend = "interp",
                                                              .partition = LIMBER_PARTITION_OFF }),
                     LIMBER_STATUS_OK);
    if (limber_create(&compiled, &(limber_config){ .size = sizeof(limber_config),
                                                   .backend = "llvm",
                                                   .partition = LIMBER_PARTITION_OFF }) !=
        LIMBER_STATUS_OK) {
        limber_destroy(interp);
        skip_because("%s", limber_error_text());
    }
    for (int i = 0; i < products; i++) {
        if (i % 10 == 0) {
            limber_destroy(compiled);
            assert_int_equal(
                limber_create(&compiled,
                              &(limber_config){ .size = sizeof(limber_config),
                                                .backend = "llvm",
                                                .threads = 1 + rng_below(&r, 3),
                                                .workspace_bytes =
                                                    rng_below(&r, 2) ?
                                                        0 :
                                                        (size_t)(4096 + rng_below(&r, 1 << 18)) }),
                LIMBER_STATUS_OK);
        }
        kept += check_random_product(&r, compiled, interp);
    }
    print_message("%d of %d contracts could be kept\n", kept, products);
    assert_true(kept > products / 3);
    limber_destroy(compiled);
    limber_destroy(interp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_products_equal_the_interpreter),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
