/* SPDX-License-Identifier: BSD-3-Clause
 * Scans have fast paths for each memory layout; these must find what a loop over single elements
 * finds. */
#include "support.h"

#include "ir/conv.h"
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

/* Checks that two scans have the same results for the matrix, its lines and its rows of tiles. */
static void assert_same_lines(const struct mask *a, const struct mask *b)
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
}

static void assert_same_masks(const struct mask *a, const struct mask *b)
{
    assert_same_lines(a, b);
    assert_int_equal(a->tile_cols, b->tile_cols);
    for (int64_t i = 0; i < a->tile_rows * a->tile_cols; i++) {
        const struct tile_mask *x = &a->tile[i], *y = &b->tile[i];

        assert_true(x->emin == y->emin && x->emax == y->emax && x->low == y->low &&
                    x->sig == y->sig && x->flags == y->flags);
    }
}

/* Checks that the scan result `a` includes `b`: a's tiles have bounds at least as wide as b's,
 * or a has no bounds by tile. */
static void check_includes(const struct mask *a, const struct mask *b)
{
    for (int64_t i = 0; i < a->tile_rows * a->tile_cols; i++) {
        const struct tile_mask *x = &a->tile[i], *y = &b->tile[i];

        assert_int_equal(x->flags & y->flags & ~TILE_zero, y->flags & ~TILE_zero);
        if (y->flags & TILE_zero)
            continue;
        assert_false(x->flags & TILE_zero);
        assert_true(x->emin <= y->emin && x->emax >= y->emax && x->low <= y->low &&
                    x->sig >= y->sig);
    }
}

/* Overwrites about one element in 450 by NaN, infinity, a tiny or an extreme number, a zero or a
 * tie, so that scans find them between ordinary values. */
static void sprinkle(struct rng *r, limber_format f, char *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += 1 + rng_below(r, 900)) {
        static const enum data rare[] = { DATA_special, DATA_tiny, DATA_zeros, DATA_range,
                                          DATA_ties };

        fill(r, rare[rng_below(r, 5)], f, x + i * f.size, 1);
    }
}

/* Compares scans of one matrix in three layouts: contiguous lines, strided lines, and padding after
 * every element. */
static void compare_three_layouts(struct rng *r, limber_format f, int data, int64_t lines,
                                  int64_t length)
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
    assert_same_masks(&got, &want);
    limber_mask_clear(&got);
    got = scan(across, 1, lines, f, lines, length, SCAN_full);
    assert_same_masks(&got, &want);
    limber_mask_clear(&got);
    got = scan(across, 1, lines, f, lines, length, SCAN_probe);
    assert_int_equal(got.scanned, want.width <= SCAN_narrow);
    if (got.scanned)
        assert_same_masks(&got, &want);
    limber_mask_clear(&got);
    got = scan(x, length, 1, f, lines, length, SCAN_probe);
    assert_int_equal(got.scanned, want.width <= SCAN_narrow);
    limber_mask_clear(&got);
    limber_mask_clear(&want);
    free(x);
    free(across);
    free(apart);
}

/* Vectorised scans find the same exponents, bits and special values as the plain loop, in all
 * formats and layouts. */
static void fast_paths_find_what_the_loop_finds(void **state)
{
    static const int64_t sizes[][2] = { { 1, 1 },    { 7, 65 },    { 64, 64 }, { 72, 131 },
                                        { 3, 2100 }, { 1100, 70 }, { 139, 9 } };
    struct rng r = { 5 };

    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int data = 0; data <= DATA_count; data++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                compare_three_layouts(&r, named(formats[i]), data, sizes[s][0], sizes[s][1]);
}

/* Scans one value among zeros, at every position. */
static void a_single_value_is_found_anywhere(void **state)
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

/* Draws the geometry of a convolution of any direction. */
static struct conv draw_geometry(struct rng *r)
{
    struct conv c = { .geometry = { .groups = 1 + rng_below(r, 2),
                                    .layout = rng_below(r, 2) ? LAYOUT_nhwc : LAYOUT_nchw,
                                    .deep = rng_below(r, 3) == 0 } };
    struct conv_geometry *g = &c.geometry;
    struct conv_sizes *s = &c.sizes;
    int64_t *const image[] = { &s->h, &s->w, &s->d }, *const result[] = { &s->oh, &s->ow, &s->od };
    int64_t *const window[] = { &s->r, &s->s, &s->t };

    g->direction =
        (int64_t[]){ DIRECTION_forward, DIRECTION_data, DIRECTION_filter }[rng_below(r, 3)];
    s->n = 1 + rng_below(r, 3);
    s->c = g->groups * (1 + rng_below(r, 9));
    s->o = g->groups * (1 + rng_below(r, 9));
    for (int i = 0; i < 3; i++) {
        const bool is = i < 2 || g->deep;

        g->stride[i] = is ? 1 + rng_below(r, 3) : 1;
        g->dilate[i] = is ? 1 + rng_below(r, 3) : 1;
        g->pad[2 * i] = is ? rng_below(r, 3) : 0;
        g->pad[2 * i + 1] = is ? rng_below(r, 3) : 0;
        *window[i] = is ? 1 + rng_below(r, 3) : 1;
        *image[i] = is ? g->dilate[i] * (*window[i] - 1) + 1 + rng_below(r, 5) : 1;
        *result[i] =
            (*image[i] + g->pad[2 * i] + g->pad[2 * i + 1] - g->dilate[i] * (*window[i] - 1) - 1) /
                g->stride[i] +
            1;
    }
    for (int i = 0; i < 3 && g->direction == DIRECTION_data && rng_below(r, 3); i++)
        s->phase[i] = 1 + rng_below(r, g->stride[i]);
    if (!s->phase[0] || !s->phase[1] || !s->phase[2])
        memset(s->phase, 0, sizeof s->phase);
    return c;
}

/* Operands of convolutions are scanned, whose elements may be anywhere in memory and occur in
 * several lines. */
static void operands_of_convolutions_are_scanned(void **state)
{
    static const char *const some[] = { "f64", "f32", "f16", "i8", "f128" };
    struct rng r = { 6 };

    (void)state;
    for (int trial = 0; trial < 4000; trial++) {
        const struct conv c = draw_geometry(&r);
        const limber_format f = named(some[trial % 5]);
        const struct conv_elements count = limber_conv_elements(&c);
        const bool left = trial / 5 % 2;
        const int64_t elements = left ? count.left : count.right;
        char *x = malloc((size_t)elements * f.size), *matrix;
        struct index_map map;
        struct mask want, got;
        struct diag d = { 0 };
        struct view v;
        int64_t m, n, k, lines;

        fill(&r, (enum data)rng_below(&r, DATA_count), f, x, (size_t)elements);
        limber_conv_map(&map, left ? OP_filters : OP_patches, &c, 0);
        limber_conv_product(&c, &m, &n, &k);
        lines = left ? m : n;
        v = limber_map_view(&map, x);
        matrix = calloc((size_t)(lines * k + 1), f.size);
        for (int64_t i = 0; i < lines; i++)
            for (int64_t p = 0; p < k; p++) {
                const char *at = limber_view_at(&v, i, p, f.size);

                if (at)
                    memcpy(matrix + (i * k + p) * f.size, at, f.size);
            }
        want = scan(matrix, k, 1, f, lines, k, SCAN_full);
        assert_true(limber_scan(&got, &v, f, lines, k, SCAN_full, NULL, &d));
        assert_same_lines(&got, &want);
        check_includes(&got, &want);
        limber_mask_clear(&got);
        limber_mask_clear(&want);
        free(matrix);
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fast_paths_find_what_the_loop_finds),
                                        cmocka_unit_test(a_single_value_is_found_anywhere),
                                        cmocka_unit_test(operands_of_convolutions_are_scanned) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
