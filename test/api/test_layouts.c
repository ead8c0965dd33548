/* SPDX-License-Identifier: BSD-3-Clause
 * Formats that share size or fraction bits with a common format, but have another bias, exponent
 * width or other rules.  No code path may mistake one for the other. */
#include "contexts.h"
#include "support.h"

#include <limber/limber.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { M = 9, N = 20, K = 7, LARGEST = 16 };

static limber_context *ctx;

static int make_context(void **state)
{
    (void)state;
    ctx = group_context(.threads = 1);
    return ctx ? 0 : -1;
}

static const limber_format unusual[] = {
    { LIMBER_KIND_FLOAT, 8, 23, 0, 100, 4, 0 },
    { LIMBER_KIND_FLOAT, 8, 23, LIMBER_FORMAT_NO_SUBNORMAL, 127, 4, 0 },
    { LIMBER_KIND_FLOAT, 8, 23, LIMBER_FORMAT_SATURATE, 127, 4, 0 },
    { LIMBER_KIND_FLOAT, 8, 23, LIMBER_FORMAT_FINITE, 127, 4, 0 },
    { LIMBER_KIND_FLOAT, 11, 20, 0, 1023, 4, 0 },
    { LIMBER_KIND_FLOAT, 15, 16, 0, 16383, 4, 0 },
    { LIMBER_KIND_FLOAT, 11, 52, 0, 900, 8, 0 },
    { LIMBER_KIND_FLOAT, 11, 52, LIMBER_FORMAT_NO_INF, 1023, 8, 0 },
    { LIMBER_KIND_FLOAT, 8, 55, 0, 127, 8, 0 },
    { LIMBER_KIND_FLOAT, 15, 48, 0, 16383, 8, 0 },
    { LIMBER_KIND_FLOAT, 8, 7, 0, 100, 2, 0 },
    { LIMBER_KIND_FLOAT, 5, 10, 0, 9, 2, 0 },
    { LIMBER_KIND_FLOAT, 5, 10, LIMBER_FORMAT_NO_INF, 15, 2, 0 },
    { LIMBER_KIND_FLOAT, 15, 112, 0, 16000, 16, 0 },
    { LIMBER_KIND_FLOAT, 15, 112, LIMBER_FORMAT_SATURATE, 16383, 16, 0 },
    { LIMBER_KIND_FLOAT, 8, 23, 0, 120, 8, 1 },
};

static void convert(void *to, limber_format tf, const void *from, limber_format ff, size_t count)
{
    assert_int_equal(limber_convert(to, tf, from, ff, count, LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
}

/* Multiplies small integers, whose products every format represents.  All schemes must give the
 * exact result. */
static void check_product(limber_format a, limber_format b, limber_format c, limber_promise promise)
{
    limber_contract contract = LIMBER_CONTRACT_INIT;
    double x[M * K], y[K * N], sum[M * N], got[M * N];
    char ea[M * K * LARGEST], eb[K * N * LARGEST], ec[M * N * LARGEST];
    limber_report report = LIMBER_REPORT_INIT;
    limber_status status;

    for (int i = 0; i < M * K; i++)
        x[i] = (i * 5 + 3) % 4 - 1;
    for (int i = 0; i < K * N; i++)
        y[i] = (i * 3 + 1) % 4 - 2;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            sum[i * N + j] = 0;
            for (int p = 0; p < K; p++)
                sum[i * N + j] += x[i * K + p] * y[p * N + j];
        }
    convert(ea, a, x, LIMBER_F64, M * K);
    convert(eb, b, y, LIMBER_F64, K * N);
    memset(ec, 0x55, sizeof ec);
    contract.promise = promise;
    contract.bits = promise == LIMBER_CONTRACT_BITS ? 6 : 0;
    status =
        limber_gemm(ctx, &contract, M, N, K, NULL, (limber_matrix){ ea, a, K, 1 },
                    (limber_matrix){ eb, b, N, 1 }, NULL, (limber_output){ ec, c, N, 1 }, &report);
    if (status)
        fail_msg("%s", limber_error_text());
    convert(got, LIMBER_F64, ec, c, M * N);
    for (int i = 0; i < M * N; i++)
        if (got[i] != sum[i]) {
            char name[3][64];

            fail_msg("%s by %s to %s, promise %d, scheme %s: element %d is %g, not %g",
                     limber_format_name(a, name[0], sizeof name[0]),
                     limber_format_name(b, name[1], sizeof name[1]),
                     limber_format_name(c, name[2], sizeof name[2]), (int)promise, report.scheme, i,
                     got[i], sum[i]);
        }
}

/* Checks the product under `native`, `correct` and `bits`. */
static void check_all(limber_format a, limber_format b, limber_format c)
{
    check_product(a, b, c, LIMBER_CONTRACT_NATIVE);
    check_product(a, b, c, LIMBER_CONTRACT_CORRECT);
    check_product(a, b, c, LIMBER_CONTRACT_BITS);
}

/* Each unusual format as format of A, B and C, alone and with usual ones: products of small
 * integers are exact. */
static void unusual_formats_are_read_and_written_as_they_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++) {
        limber_format f = unusual[i];

        check_all(f, f, f);
        check_all(f, LIMBER_F64, LIMBER_F64);
        check_all(LIMBER_F32, f, LIMBER_F32);
        check_all(LIMBER_F64, LIMBER_F64, f);
        check_all(LIMBER_F32, LIMBER_F32, f);
    }
}

/* Numbers with more significant bits than binary64 keep all their bits. */
static void long_fractions_are_kept(void **state)
{
    const limber_format f = { LIMBER_KIND_FLOAT, 8, 55, 0, 127, 8, 0 };
    limber_contract contract = LIMBER_CONTRACT_INIT;
    uint64_t one = (uint64_t)127 << 55, x = one | 5, sum = 0;
    double unit = 1;

    (void)state;
    contract.promise = LIMBER_CONTRACT_CORRECT;
    assert_int_equal(limber_gemm(ctx, &contract, 1, 1, 1, NULL, (limber_matrix){ &x, f, 1, 1 },
                                 (limber_matrix){ &unit, LIMBER_F64, 1, 1 }, NULL,
                                 (limber_output){ &sum, f, 1, 1 }, NULL),
                     LIMBER_STATUS_OK);
    assert_true(sum == x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unusual_formats_are_read_and_written_as_they_are),
        cmocka_unit_test(long_fractions_are_kept),
    };

    return cmocka_run_group_tests(tests, make_context, destroy_group_contexts);
}
