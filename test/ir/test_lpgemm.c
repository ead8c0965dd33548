/* SPDX-License-Identifier: BSD-3-Clause
 * Configurations in the format of LPGEMM, and the model of retained variance. */
#include "contexts.h"
#include "ir/ir.h"
#include "limber/research.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- configuration files ------------------------------------------------------------------- */

static const char good[] = "# the template\n"
                           "groupedCumulativeLength = 16\n"
                           "targetFloatType = (1, 5, 2)   # FP8\r\n"
                           "roundingType = \"nearest\"\n"
                           "quantLayer = [conv1, 'FC#1', \"FC2\"]\n"
                           "\n"
                           "[ 'FC#1' ]\n"
                           "[FC2]\n"
                           "targetFloatType = BF16\n"
                           "roundingType = stochastic\n"
                           "seed = 18446744073709551615\n"
                           "groupedCumulativeLength = 1\n"
                           "[conv9]\n"
                           "targetFloatType = FP32";

/* Checks that a configuration gives the unit that `words` describe.  wanted: 1 if the configuration
 * lists the layer. */
static void expect_unit(const char *text, const char *layer, int wanted, const char *words)
{
    limber_unit unit = LIMBER_UNIT_INIT, same = LIMBER_UNIT_INIT;
    char got[512];
    int listed;

    if (limber_unit_lpgemm(text, layer, &unit, &listed) != LIMBER_STATUS_OK)
        fail_msg("%s: %s", layer ? layer : "all", limber_error_text());
    assert_int_equal(listed, wanted);
    if (!words) {
        same = (limber_unit)LIMBER_UNIT_INIT;
        assert_memory_equal(&unit, &same, sizeof same);
        return;
    }
    assert_int_equal(limber_unit_parse(words, &same), LIMBER_STATUS_OK);
    assert_string_equal(limber_unit_text(&unit, got, sizeof got),
                        limber_unit_text(&same, (char[512]){ 0 }, 512));
}

/* LPGEMM configurations give the expected unit for each layer, and none for layers that are not
 * quantised. */
static void configurations_are_read(void **state)
{
    const char *fp8 = "in=(1,5,2) mul=(1,5,2) acc=(1,5,2) group=16 outer=(1,5,2)";

    (void)state;
    expect_unit(good, NULL, 1, fp8);
    expect_unit(good, "conv1", 1, fp8);
    expect_unit(good, "FC#1", 1, fp8);
    expect_unit(good, "FC2", 1, "in=bf16 mul=bf16:rs acc=bf16:rs seed=18446744073709551615");
    expect_unit(good, "conv9", 0, NULL);
    expect_unit(good, "conv", 0, NULL);
    expect_unit("targetFloatType=FP16\nroundingType=truncate", "any", 1,
                "in=f16 mul=f16:rz acc=f16:rz");
    expect_unit("targetFloatType=e5m2\nroundingType=ra\nquantLayer=[]", NULL, 0, NULL);
    expect_unit("quantLayer=[]", "x", 0, NULL);
    expect_unit("[x]\ntargetFloatType = (1,6,9)", "x", 1, "in=(1,6,9) mul=(1,6,9) acc=(1,6,9)");
}

/* Checks that a configuration is refused with this text and leaves the unit empty. */
static void expect_refused(const char *text, const char *layer, const char *why)
{
    /* static, so that its padding bytes are zero, too */
    static const limber_unit zero = LIMBER_UNIT_INIT;
    limber_unit unit;
    int listed = 7;

    memcpy(&unit, &zero, sizeof unit);
    assert_refused(limber_unit_lpgemm(text, layer, &unit, &listed), LIMBER_STATUS_BAD_ARGUMENT,
                   why);
    assert_int_equal(listed, 0);
    assert_memory_equal(&unit, &zero, sizeof zero);
}

/* Each invalid LPGEMM configuration is refused with the line and the key. */
static void bad_configurations(void **state)
{
    limber_unit unit = LIMBER_UNIT_INIT;

    (void)state;
    expect_refused(NULL, NULL, "text is NULL");
    expect_refused("", NULL, "targetFloatType is missing");
    expect_refused("[x]\ntargetFloatType = FP16", "y", "targetFloatType is missing");
    expect_refused("\ntargetFloat = FP16", NULL, "line 2: key: 'targetFloat' is unknown");
    expect_refused("targetFloatType = (1,5,2", NULL, "line 1: targetFloatType");
    expect_refused("targetFloatType = (1,9,2)", NULL, "line 1: targetFloatType");
    expect_refused("targetFloatType = f128", NULL, "line 1: targetFloatType");
    expect_refused("targetFloatType = e5m2:sat", NULL, "line 1: targetFloatType");
    expect_refused("targetFloatType = f16 seed=1", NULL, "line 1: targetFloatType");
    expect_refused("targetFloatType =", NULL, "line 1: targetFloatType: '' is no format");
    expect_refused("targetFloatType = FP16\ntargetFloatType = FP16", NULL,
                   "line 2: key: "
                   "'targetFloatType' stands twice");
    expect_refused("roundingType = up", NULL, "line 1: roundingType: 'up' is none of");
    expect_refused("targetFloatType=f16\nroundingType = rs", NULL,
                   "line 2: roundingType: stochastic");
    expect_refused("groupedCumulativeLength = 0", NULL, "line 1: groupedCumulativeLength");
    expect_refused("groupedCumulativeLength = 16x", NULL, "line 1: groupedCumulativeLength");
    expect_refused("groupedCumulativeLength = 9999999999", NULL, "line 1: groupedCumulativeLength");
    expect_refused("targetFloatType=f16\nseed = -1", NULL, "line 2: seed");
    expect_refused("targetFloatType=f16\nseed = 18446744073709551616", NULL, "seed");
    expect_refused("quantLayer = conv1", NULL, "line 1: quantLayer");
    expect_refused("quantLayer = [a,,b]", NULL, "line 1: quantLayer");
    expect_refused("[x]\nquantLayer = [a]", NULL, "line 2: key: 'quantLayer' cannot hold");
    expect_refused("[x\n", NULL, "line 1: section: '[x' is not [layer]");
    expect_refused("[]\n", NULL, "line 1: section");
    expect_refused("[x]\n[x]", "x", "line 2: section");
    expect_refused("nonsense", NULL, "line 1: line: 'nonsense'");
    expect_refused("targetFloatType=f16\n[y]\nroundingType = up", "x", "line 3: roundingType");
    assert_int_equal(limber_unit_lpgemm("", NULL, NULL, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_unit_lpgemm("targetFloatType=f16", NULL, &unit, NULL),
                     LIMBER_STATUS_OK);
}

/* ---- the retained variance of units ---------------------------------------------------------- */

static void assert_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 0.0005))
        fail_msg("%.5f instead of %.3f", got, wanted);
}

static double retention_of_unit(const char *words, int64_t k)
{
    limber_unit unit = LIMBER_UNIT_INIT;

    assert_int_equal(limber_unit_parse(words, &unit), LIMBER_STATUS_OK);
    return limber_unit_retention(&unit, k);
}

/* The variance retention ratio has published values, and is NaN for arguments out of range. */
static void retention(void **state)
{
    (void)state;
    assert_near(limber_retention(2, 2, 64), 0.573);
    assert_near(limber_retention(2, 2, 1024), 0.418);
    assert_near(limber_retention(5, 5, 64), 0.992);
    assert_near(limber_retention(5, 5, 1024), 0.709);
    assert_near(limber_retention(5, 5, 4096), 0.564);
    assert_near(limber_retention_chunked(5, 5, 64, 64, LIMBER_CHUNKING_BY_LENGTH), 0.984);
    assert_near(limber_retention_chunked(8, 2, 256, 4, LIMBER_CHUNKING_BY_LENGTH),
                limber_retention(8, 2, 256) * limber_retention(8, 8, 4));
    assert_near(limber_retention_chunked(8, 2, 256, 4, LIMBER_CHUNKING_BY_NUMBER),
                limber_retention(8, 2, 256) * limber_retention(8, 4, 4));
    assert_true(isnan(limber_retention(0, 1, 1)) && isnan(limber_retention(31, 1, 1)));
    assert_true(isnan(limber_retention(1, 0, 1)) && isnan(limber_retention(1, 31, 1)));
    assert_true(isnan(limber_retention(1, 1, 0)) && isnan(limber_retention(1, 1, 16777217)));
    assert_near(limber_retention(30, 30, 16777216), 1);
}

/* The variance retention ratio of units with groups and split sums has the expected values. */
static void retention_of_units_is_modelled(void **state)
{
    (void)state;
    assert_near(retention_of_unit("in=(1,5,5) mul=(1,5,5) acc=(1,5,5)", 1024), 0.709);
    assert_near(retention_of_unit("in=(1,5,5) mul=(1,5,5) acc=(1,5,5) group=64", 4096), 0.984);
    assert_near(retention_of_unit("in=(1,5,5) mul=(1,5,5) acc=(1,5,5) split=64", 4096), 0.984);
    assert_near(retention_of_unit("in=e5m2 acc=(1,5,5)", 4096), 0.564);
    assert_near(retention_of_unit("in=(1,5,5) mul=(1,5,5) acc=(1,5,5) group=64 outer=f32", 4096),
                0.992);
    assert_near(retention_of_unit("int8", 4096), 1);
    assert_near(retention_of_unit("in=e5m2 acc=f32", 4096), 1);
    assert_near(retention_of_unit("in=(1,5,2) mul=(1,5,2) acc=(1,5,2)", 1), 1);
    assert_true(isnan(retention_of_unit("h100-fp16", 4096)) &&
                isnan(retention_of_unit("a100-fp64", 4096)));
    assert_true(isnan(retention_of_unit("in=f16 acc=f16", 0)) &&
                isnan(limber_unit_retention(NULL, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_are_read),
        cmocka_unit_test(bad_configurations),
        cmocka_unit_test(retention),
        cmocka_unit_test(retention_of_units_is_modelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
