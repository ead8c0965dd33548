/* SPDX-License-Identifier: BSD-3-Clause
 * The bound of packed limbs (workspace_bytes) holds for long sums: native products of floats are
 * cut along k, and have the bits of those that are not. */
#include "engine_support.h"

enum { LENGTH = 1 << 14, SIDE = 160, LIMIT = 1 << 20, MORE = 1 << 20 };

static limber_report multiply(size_t limit, limber_format f, int m, int n, const void *a,
                              const void *b, void *c)
{
    limber_contract native = LIMBER_CONTRACT_INIT;
    limber_report r = LIMBER_REPORT_INIT;
    limber_context *ctx;

    native.scheme = "native";
    assert_int_equal(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                           .threads = 1,
                                                           .cache_dir = "",
                                                           .workspace_bytes = limit }),
                     LIMBER_STATUS_OK);
    assert_int_equal(limber_gemm(ctx, &native, m, n, LENGTH, NULL,
                                 (limber_matrix){ a, f, LENGTH, 1 }, (limber_matrix){ b, f, n, 1 },
                                 NULL, (limber_output){ c, f, n, 1 }, &r),
                     LIMBER_STATUS_OK);
    limber_destroy(ctx);
    return r;
}

static void long_sums_keep_the_bound(void **state)
{
    static const char *const names[] = { "f64", "f32" };
    struct rng r = { 5 };

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        limber_format f = named(names[i]);
        size_t bytes = (size_t)SIDE * SIDE * f.size;
        char *a = malloc((size_t)SIDE * LENGTH * f.size),
             *b = malloc((size_t)SIDE * LENGTH * f.size);
        char *c = poisoned(bytes), *want = poisoned(bytes);

        assert_true(a && b);
        fill(&r, DATA_unit, f, a, (size_t)SIDE * LENGTH);
        fill(&r, DATA_unit, f, b, (size_t)SIDE * LENGTH);
        for (int m = 40; m <= SIDE; m += 60)
            for (int n = 40; n <= SIDE; n += 60) {
                limber_report whole = multiply((size_t)1 << 30, f, m, n, a, b, want);
                limber_report cut = multiply(LIMIT, f, m, n, a, b, c);

                if (cut.workspace > LIMIT + MORE)
                    fail_msg("%s, %d x %d: %zu bytes, %zu without a bound", names[i], m, n,
                             cut.workspace, whole.workspace);
                assert_memory_equal(c, want, (size_t)(m * n) * f.size);
            }
        free(a);
        free(b);
        free(c);
        free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sums_keep_the_bound),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
