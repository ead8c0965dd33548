/* SPDX-License-Identifier: BSD-3-Clause
 * Every code of every format of up to 16 bits, multiplied by one, is the number that limber_convert
 * says: kernels decode such operands in vectors, in FP32 or in FP64. */
#include "support.h"

#include <limber/limber.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { K = 64, COLUMNS = 32, PLACE = 5 };

static limber_context *ctx;

static int make_context(void **state)
{
    (void)state;
    return limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = "" });
}

static int free_context(void **state)
{
    (void)state;
    limber_destroy(ctx);
    return 0;
}

/* Multiplies all codes by one, with lines along k or across, and from the left or the right. */
static void check(const char *name, limber_format to, bool across, bool right)
{
    const limber_contract contract = { .size = sizeof contract, .promise = LIMBER_CONTRACT_NATIVE };
    limber_format f = named(name); /* of one or two bytes */
    int64_t codes = strncmp(name, "posit", 5) ? 2 << (f.exp_bits + f.frac_bits) : 1 << 8 * f.size;
    char *a = calloc((size_t)(codes * K), f.size), *b = calloc(K * COLUMNS, f.size);
    double *want = malloc((size_t)codes * sizeof *want);
    char *c = malloc((size_t)(codes * COLUMNS) * to.size);
    limber_matrix wide = { a, f, across ? 1 : K, across ? codes : 1 };
    limber_matrix ones = { b, f, COLUMNS, 1 };

    for (int64_t i = 0; i < codes; i++)
        memcpy(a + (across ? PLACE * codes + i : i * K + PLACE) * f.size,
               &(uint16_t){ (uint16_t)i }, f.size);
    for (int j = 0; j < COLUMNS; j++)
        assert_int_equal(limber_convert(b + (PLACE * COLUMNS + j) * f.size, f, &(double){ 1 },
                                        LIMBER_F64, 1, LIMBER_ROUND_NEAREST),
                         LIMBER_STATUS_OK);
    for (int64_t i = 0; i < codes; i++)
        assert_int_equal(limber_convert(&want[i], LIMBER_F64, &(uint16_t){ (uint16_t)i }, f, 1,
                                        LIMBER_ROUND_NEAREST),
                         LIMBER_STATUS_OK);
    if (right) { /* C = ones' A', whose columns are the codes */
        limber_matrix left = { b, f, 1, COLUMNS };
        limber_matrix turned = { a, f, wide.col_stride, wide.row_stride };

        assert_int_equal(limber_gemm(ctx, &contract, COLUMNS, codes, K, NULL, left, turned, NULL,
                                     (limber_output){ c, to, codes, 1 }, NULL),
                         LIMBER_STATUS_OK);
    } else {
        assert_int_equal(limber_gemm(ctx, &contract, codes, COLUMNS, K, NULL, wide, ones, NULL,
                                     (limber_output){ c, to, COLUMNS, 1 }, NULL),
                         LIMBER_STATUS_OK);
    }
    for (int64_t i = 0; i < codes; i++)
        for (int j = 0; j < COLUMNS; j += COLUMNS - 1) {
            const char *at = c + (right ? j * codes + i : i * COLUMNS + j) * to.size;
            double got =
                to.size == 4 ? *(const float *)(const void *)at : *(const double *)(const void *)at;
            double due = to.size == 4 ? (float)want[i] : want[i];

            if (got != due && !(isnan(got) && isnan(due)))
                fail_msg("%s: code %#x is %a and not %a", name, (unsigned)i, got, due);
        }
    free(a);
    free(b);
    free(want);
    free(c);
}

static void every_code_is_its_number(void **state)
{
    static const char *const names[] = {
        "f16",  "bf16", "e5m2",   "e4m3",    "e4m3fnuz",         "e5m2fnuz",         "e3m2",
        "e2m3", "e2m1", "posit8", "posit16", "(1,7,0,63,1,1,0)", "(1,5,10,15,0,2,0)"
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int how = 0; how < 5; how++)
            check(names[i], how & 4 ? LIMBER_F64 : LIMBER_F32, how & 1, how & 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_code_is_its_number) };

    return cmocka_run_group_tests(tests, make_context, free_context);
}
