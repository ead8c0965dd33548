/* SPDX-License-Identifier: BSD-3-Clause
 * The scan's ways of reading memory find what a look at element after element finds. */
#include "support.h"

#include "jit/scan/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const formats[] = { "f64", "f32", "f16", "bf16", "f128", "dd",
                                       "i64", "i32", "i16", "i8",   "u8" };

static struct mask scan(const void *data, int64_t line, int64_t p, limber_format f, int64_t lines,
                        int64_t length, enum scan_depth depth)
{
    const struct view v = { data, line, p, NULL, NULL };
    struct diag d = { 0 };
    struct mask m;

    assert_true(limber_scan(&m, &v, f, lines, length, depth, NULL, &d));
    return m;
}

static void same(const struct mask *a, const struct mask *b)
{
    assert_int_equal(a->zero, b->zero);
    assert_int_equal(a->special, b->special);
    assert_int_equal(a->negative, b->negative);
    assert_int_equal(a->emin, b->emin);
    assert_int_equal(a->emax, b->emax);
    assert_int_equal(a->spread, b->spread);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->sig, b->sig);
    assert_int_equal(a->has_low, b->has_low);
    if (!a->zero)
        assert_int_equal(a->low, b->low);
    for (int64_t i = 0; i < a->lines; i++) {
        assert_int_equal(a->line_emax[i], b->line_emax[i]);
        assert_int_equal(a->line_special[i], b->line_special[i]);
    }
    for (int64_t i = 0; i < a->tile_rows; i++) {
        const struct block_mask *x = &a->block[i], *y = &b->block[i];

        assert_true(x->emin == y->emin && x->emax == y->emax && x->spread == y->spread &&
                    x->width == y->width && x->sig == y->sig && x->low == y->low &&
                    x->flags == y->flags);
    }
    for (int64_t i = 0; i < a->tile_rows * a->tile_cols; i++) {
        const struct tile_mask *x = &a->tile[i], *y = &b->tile[i];

        assert_true(x->emin == y->emin && x->emax == y->emax && x->low == y->low &&
                    x->sig == y->sig && x->flags == y->flags);
    }
}

/* Data with rare things in few places: most runs of a plain format are then like others. */
static void sprinkle(struct rng *r, limber_format f, char *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += 1 + rng_below(r, 900)) {
        static const enum data rare[] = { DATA_special, DATA_tiny, DATA_zeros, DATA_range,
                                          DATA_ties };

        fill(r, rare[rng_below(r, 5)], f, x + i * f.size, 1);
    }
}

/* Along, across, and with gaps everywhere. */
static void compare(struct rng *r, limber_format f, int data, int64_t lines, int64_t length)
{
    int64_t count = lines * length;
    char *x = malloc((size_t)count * f.size), *across = malloc((size_t)count * f.size);
    char *apart = malloc((size_t)(2 * count) * f.size);
    struct mask want, got;

    fill(r, data < DATA_count ? (enum data)data : DATA_unit, f, x, (size_t)count);
    if (data == DATA_count)
        sprinkle(r, f, x, count);
    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < length; p++) {
            const char *at = x + (i * length + p) * f.size;

            memcpy(across + (p * lines + i) * f.size, at, f.size);
            memcpy(apart + 2 * (i * length + p) * f.size, at, f.size);
        }
    want = scan(apart, 2 * length, 2, f, lines, length, SCAN_full);
    got = scan(x, length, 1, f, lines, length, SCAN_full);
    same(&got, &want);
    limber_mask_clear(&got);
    got = scan(across, 1, lines, f, lines, length, SCAN_full);
    same(&got, &want);
    limber_mask_clear(&got);
    got = scan(across, 1, lines, f, lines, length, SCAN_probe);
    assert_int_equal(got.scanned, want.width <= SCAN_narrow);
    if (got.scanned)
        same(&got, &want);
    limber_mask_clear(&got);
    got = scan(x, length, 1, f, lines, length, SCAN_probe);
    assert_int_equal(got.scanned, want.width <= SCAN_narrow);
    limber_mask_clear(&got);
    limber_mask_clear(&want);
    free(x);
    free(across);
    free(apart);
}

static void test_ways(void **state)
{
    static const int64_t sizes[][2] = { { 1, 1 },    { 7, 65 },    { 64, 64 }, { 72, 131 },
                                        { 3, 2100 }, { 1100, 70 }, { 139, 9 } };
    struct rng r = { 5 };

    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int data = 0; data <= DATA_count; data++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                compare(&r, named(formats[i]), data, sizes[s][0], sizes[s][1]);
}

/* One value in zeros, wherever it is. */
static void test_alone(void **state)
{
    static const double values[] = { 1,         -1,         3,           0x1.0000000000001p-1000,
                                     0x1p-1022, -0x1p-1074, 0x1.8p-1070, 0x1.fffffffffffffp1023,
                                     -0.0,      0x1.8p-3 };
    static const int widths[] = { 1, 1, 2, 53, 1, 1, 2, 53, 0, 2 };
    double x[70 * 70];

    (void)state;
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (int i = 0; i < 70 * 70; i += 123) {
            struct mask along, across;
            bool zero = values[v] == 0;

            memset(x, 0, sizeof x);
            x[i] = values[v];
            along = scan(x, 70, 1, named("f64"), 70, 70, SCAN_full);
            across = scan(x, 1, 70, named("f64"), 70, 70, SCAN_full);
            assert_int_equal(along.zero, zero);
            assert_int_equal(along.negative, values[v] < 0);
            assert_int_equal(along.emax, across.emax);
            assert_int_equal(along.emin, along.emax);
            assert_int_equal(along.width, widths[v]);
            assert_int_equal(across.width, widths[v]);
            assert_int_equal(along.sig, along.width);
            assert_int_equal(along.line_emax[i / 70] == INT32_MIN, zero);
            assert_int_equal(across.line_emax[i % 70] == INT32_MIN, zero);
            limber_mask_clear(&along);
            limber_mask_clear(&across);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ways), cmocka_unit_test(test_alone) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
