/* SPDX-License-Identifier: BSD-3-Clause
 * Windows of bytes by filters, by the code of each instruction set that runs here: sums are those
 * of plain loops, and nothing else is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guarded.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#if defined(LIMBER_HAVE_LLVM) && defined(__x86_64__)
#include "backends/llvm/cpu.h"
#include "backends/llvm/kernel/bytes.h"

enum { PIXELS = 40, WORDS = 50, FILTERS = BYTES_UNITS * BYTES_UNIT, ROW = FILTERS + 3 };

static uint8_t image[4096];
static int8_t filters[WORDS * FILTERS * 4];
static int32_t start[FILTERS], to[PIXELS * ROW];
static const uint8_t *line[PIXELS];
static int64_t at[WORDS];

static int32_t sum_of(const struct byte_strip *s, int64_t pixel, int64_t filter)
{
    int32_t sum = s->start[filter];

    for (int64_t p = 0; p < s->words; p++)
        for (int q = 0; q < 4; q++)
            sum += (s->line[pixel][s->at[p] + q] ^ (s->flip & 255)) *
                   s->filters[p * s->step + 4 * filter + q];
    return sum;
}

static void check(kernel_bytes *code, const struct byte_strip *s)
{
    memset(to, 0x5a, sizeof to);
    code(s);
    for (int64_t i = 0; i < PIXELS; i++)
        for (int64_t f = 0; f < ROW; f++) {
            bool inside = i < s->pixels && f < s->count;

            if (to[i * ROW + f] != (inside ? sum_of(s, i, f) : 0x5a5a5a5a))
                fail_msg("%d pixels, %d words, %d units, %d filters: pixel %d, filter %d",
                         (int)s->pixels, (int)s->words, s->units, (int)s->count, (int)i, (int)f);
        }
}

static void sums_are_right(kernel_bytes *code)
{
    struct rng r = { 5 };

    for (size_t i = 0; i < sizeof image; i++)
        image[i] = (uint8_t)rng_next(&r);
    for (size_t i = 0; i < sizeof filters; i++)
        filters[i] = (int8_t)rng_next(&r);
    for (int i = 0; i < FILTERS; i++)
        start[i] = rng_below(&r, 1 << 20);
    for (int64_t pixels = 1; pixels <= PIXELS; pixels++)
        for (int units = 1; units <= BYTES_UNITS; units++) {
            int64_t most = units * BYTES_UNIT;
            struct byte_strip s = { .line = line,
                                    .pixels = pixels,
                                    .at = at,
                                    .words = (int64_t)rng_below(&r, WORDS + 1),
                                    .units = units,
                                    .filters = filters,
                                    .step = FILTERS * 4,
                                    .start = start,
                                    .to = to,
                                    .row = ROW,
                                    .count = most - (int64_t)rng_below(&r, (int)most) };

            for (int64_t i = 0; i < pixels; i++)
                line[i] = image + rng_below(&r, 2000);
            for (int64_t p = 0; p < s.words; p++)
                at[p] = (int64_t)rng_below(&r, 2000);
            check(code, &s);
            s.count = most;
            s.flip = (int32_t)0x80808080;
            check(code, &s);
        }
}

/* Pixels of channels that lie `step` bytes apart, the last of which ends where memory does. */
static void check_planes(struct rng *r, kernel_bytes_join *join, kernel_bytes_planes *code,
                         int64_t pixels)
{
    enum { CHANNELS = 40 };
    static _Alignas(64) uint8_t panel[CHANNELS * BYTES_PANEL];
    const int64_t channels = 1 + rng_below(r, CHANNELS), step = pixels + rng_below(r, 70);
    const int64_t words = (channels + 3) / 4, row = BYTES_PANEL + rng_below(r, 5);
    const int flip = rng_below(r, 2) ? 128 : 0, units = 1 + rng_below(r, BYTES_UNITS);
    const int64_t count = 1 + rng_below(r, units * BYTES_UNIT);
    const size_t bytes = (size_t)((channels - 1) * step + pixels);
    struct guarded seen = guarded(bytes, true);
    int32_t *sums = malloc((size_t)(FILTERS * row) * sizeof *sums);
    const struct byte_strip s = { .pixels = pixels,
                                  .words = words,
                                  .units = units,
                                  .filters = filters,
                                  .step = FILTERS * 4,
                                  .start = start,
                                  .to = sums,
                                  .row = row,
                                  .count = count };

    for (size_t i = 0; i < bytes; i++)
        seen.data[i] = (char)rng_next(r);
    for (int64_t f = 0; f < FILTERS; f++) /* of channels that there are not */
        for (int64_t q = channels; q < 4 * words; q++)
            filters[q / 4 * s.step + 4 * f + q % 4] = 0;
    memset(sums, 0x5a, (size_t)(FILTERS * row) * sizeof *sums);
    join(&(struct byte_panel){ (uint8_t *)seen.data, step, channels, pixels, flip, panel });
    code(&s, panel);
    for (int64_t f = 0; f < FILTERS; f++)
        for (int64_t i = 0; i < row; i++) {
            int32_t sum = start[f];

            for (int64_t q = 0; q < channels; q++)
                sum += (i < pixels ? (uint8_t)seen.data[q * step + i] ^ flip : 0) *
                       filters[q / 4 * s.step + 4 * f + q % 4];
            if (sums[f * row + i] != (f < count && i < pixels ? sum : 0x5a5a5a5a))
                fail_msg("%d pixels, %d channels, %d filters: filter %d, pixel %d", (int)pixels,
                         (int)channels, (int)count, (int)f, (int)i);
        }
    free(sums);
    leave_guarded(seen);
}

static void planes_are_right(kernel_bytes_join *join, kernel_bytes_planes *code)
{
    struct rng r = { 6 };

    for (int64_t pixels = 1; pixels <= BYTES_PANEL; pixels++)
        for (int i = 0; i < 8; i++) {
            for (size_t j = 0; j < sizeof filters; j++)
                filters[j] = (int8_t)rng_next(&r);
            check_planes(&r, join, code, pixels);
        }
}

static void all_codes(void **state)
{
    int codes = 0;

    (void)state;
    if ((limber_cpu() & (CPU_avx512 | CPU_vnni)) == (CPU_avx512 | CPU_vnni)) {
        sums_are_right(limber_bytes_avx512vnni);
        planes_are_right(limber_bytes_join_avx512vnni, limber_bytes_planes_avx512vnni);
        codes++;
    }
    if (limber_cpu() & CPU_avxvnni) {
        sums_are_right(limber_bytes_avxvnni);
        planes_are_right(limber_bytes_join_avxvnni, limber_bytes_planes_avxvnni);
        codes++;
    }
    if (!codes)
        skip();
}

enum { MOST = 150, DEEPEST = 300 };

/* Of matrices as callers have them, with gaps between rows, B by rows or by columns. */
static void products_are_right(void **state)
{
    static int8_t a[MOST * (DEEPEST + 3)], b[MOST * (DEEPEST + 3)];
    static int32_t c[MOST * (MOST + 3)];
    const limber_contract exact = { .size = sizeof exact, .promise = LIMBER_CONTRACT_EXACT };
    struct rng r = { 21 };
    limber_context *ctx;

    (void)state;
    assert_int_equal(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                           .backend = "llvm",
                                                           .cache_dir = "",
                                                           .threads = 2 }),
                     LIMBER_STATUS_OK);
    for (int trial = 0; trial < 60; trial++) {
        int64_t m = 90 + rng_below(&r, 61), n = 1 + rng_below(&r, MOST), gap = rng_below(&r, 4);
        int64_t k = 1 + rng_below(&r, DEEPEST), row = trial % 2 ? 1 : n + gap;
        int64_t col = trial % 2 ? k + gap : 1, c_row = n + gap;
        bool is_signed = trial / 2 % 2;
        limber_format fa = is_signed ? LIMBER_I8 : LIMBER_U8;

        for (int64_t i = 0; i < m * (k + gap); i++)
            a[i] = (int8_t)rng_next(&r);
        for (size_t i = 0; i < sizeof b; i++)
            b[i] = (int8_t)rng_next(&r);
        memset(c, 0x5a, sizeof c);
        if (limber_gemm(ctx, &exact, m, n, k, NULL, (limber_matrix){ a, fa, k + gap, 1 },
                        (limber_matrix){ b, LIMBER_I8, row, col }, NULL,
                        (limber_output){ c, LIMBER_I32, c_row, 1 }, NULL))
            fail_msg("%s", limber_error_text());
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < c_row; j++) {
                int32_t sum = 0;

                for (int64_t p = 0; p < k && j < n; p++)
                    sum += (is_signed ? a[i * (k + gap) + p] : (uint8_t)a[i * (k + gap) + p]) *
                           b[p * row + j * col];
                if (c[i * c_row + j] != (j < n ? sum : 0x5a5a5a5a))
                    fail_msg("%d x %d x %d, gap %d: row %d, column %d", (int)m, (int)n, (int)k,
                             (int)gap, (int)i, (int)j);
            }
    }
    limber_destroy(ctx);
}

/* Element (i, j, k) of a tensor of images, channels and pixels. */
static int64_t place(const limber_conv *s, int64_t channels, int64_t i, int64_t j, int64_t k)
{
    const int64_t pixels = s->h * s->w;

    return s->layout == LIMBER_LAYOUT_NHWC ? (i * pixels + k) * channels + j :
                                             (i * channels + j) * pixels + k;
}

/* Windows of one element, which see products of matrices in images, also in those of one channel
 * or one pixel; forward and backward. */
static void pixels_are_right(void **state)
{
    enum { CHANNELS = 40, PIXELS = 100, IMAGES = 6 };
    static int8_t a[IMAGES * CHANNELS * PIXELS], w[CHANNELS * CHANNELS];
    static int32_t c[IMAGES * CHANNELS * PIXELS];
    const limber_contract exact = { .size = sizeof exact, .promise = LIMBER_CONTRACT_EXACT };
    struct rng r = { 22 };
    limber_context *ctx;

    (void)state;
    assert_int_equal(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                           .backend = "llvm",
                                                           .cache_dir = "",
                                                           .threads = 2 }),
                     LIMBER_STATUS_OK);
    for (int trial = 0; trial < 200; trial++) {
        limber_conv s = {
            .size = sizeof s, .r = 1, .s = 1, .stride = { 1, 1 }, .dilate = { 1, 1 }, .groups = 1
        };
        const bool is_signed = rng_below(&r, 2), back = rng_below(&r, 2);
        const limber_format fa = is_signed ? LIMBER_I8 : LIMBER_U8;
        int64_t from, to;

        s.n = 1 + rng_below(&r, IMAGES);
        s.c = rng_below(&r, 3) ? 1 + rng_below(&r, CHANNELS) : 1;
        s.o = rng_below(&r, 3) ? 1 + rng_below(&r, CHANNELS) : 1;
        s.h = 1 + rng_below(&r, 10);
        s.w = 1 + rng_below(&r, 10);
        s.layout = trial % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        from = back ? s.o : s.c;
        to = back ? s.c : s.o;
        for (size_t i = 0; i < sizeof a; i++)
            a[i] = (int8_t)rng_next(&r);
        for (size_t i = 0; i < sizeof w; i++)
            w[i] = (int8_t)rng_next(&r);
        memset(c, 0x5a, sizeof c);
        if (back ? limber_conv2d_backward_data(ctx, &exact, &s, NULL, a, fa, w, LIMBER_I8, NULL, c,
                                               LIMBER_I32, NULL) :
                   limber_conv2d(ctx, &exact, &s, NULL, a, fa, w, LIMBER_I8, NULL, c, LIMBER_I32,
                                 NULL))
            fail_msg("%s", limber_error_text());
        for (int64_t i = 0; i < s.n; i++)
            for (int64_t j = 0; j < to; j++)
                for (int64_t k = 0; k < s.h * s.w; k++) {
                    int32_t sum = 0;

                    for (int64_t p = 0; p < from; p++) {
                        const int8_t x = a[place(&s, from, i, p, k)];

                        sum += (is_signed ? x : (uint8_t)x) * w[back ? p * s.c + j : j * s.c + p];
                    }
                    if (c[place(&s, to, i, j, k)] != sum)
                        fail_msg("trial %d, image %d, channel %d, pixel %d", trial, (int)i, (int)j,
                                 (int)k);
                }
    }
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_codes),
                                        cmocka_unit_test(products_are_right),
                                        cmocka_unit_test(pixels_are_right) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 0;
}
#endif
