/* SPDX-License-Identifier: BSD-3-Clause
 * For every format of up to 16 bits, the product of each bit pattern and one is the number that
 * limber_convert gives.  Kernels decode such operands in vectors, to FP32 or to FP64. */
#include "contexts.h"
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
    ctx = group_context(.threads = 0);
    return ctx ? 0 : -1;
}

/* Multiplies all bit patterns of a format by one, and compares with the converted patterns.
 * across: elements of a line are strided; right: the patterns are in B. */
static void multiply_patterns_by_one(const char *name, limber_format to, bool across, bool right)
{
    const limber_contract contract = { .size = sizeof contract, .promise = LIMBER_CONTRACT_NATIVE };
    limber_format f = named(name); /* one or two bytes */
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
    if (right) { /* C = ones' A', where column j has the number of pattern j */
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

/* Products by 1 of all bit patterns of small formats, as A or B, contiguous or strided, are the
 * patterns' values. */
static void every_code_is_its_number(void **state)
{
    static const char *const names[] = {
        "f16",  "bf16", "e5m2",   "e4m3",    "e4m3fnuz",         "e5m2fnuz",         "e3m2",
        "e2m3", "e2m1", "posit8", "posit16", "(1,7,0,63,1,1,0)", "(1,5,10,15,0,2,0)"
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int how = 0; how < 5; how++)
            multiply_patterns_by_one(names[i], how & 4 ? LIMBER_F64 : LIMBER_F32, how & 1, how & 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_code_is_its_number) };

    return cmocka_run_group_tests(tests, make_context, destroy_group_contexts);
}
