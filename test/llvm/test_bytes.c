/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions of bytes by the code of each available instruction set: sums equal those of plain
 * loops, and nothing else is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guarded.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include "ir/cpu.h"
#include "backends/llvm/kernel/bytes.h"

enum { PIXELS = 40, WORDS = 50, FILTERS = BYTES_UNITS * BYTES_UNIT, ROW = FILTERS + 3 };

/* The code for an instruction set.  group: number of channels in a 32-bit word, 4 of 8 bits or 2 of
 * 16 bits. */
struct code {
    kernel_bytes *run;
    kernel_bytes_join *join;
    kernel_bytes_planes *planes;
    int group;
};

static _Alignas(2) uint8_t image[4096];
static _Alignas(2) int8_t filters[WORDS * FILTERS * 4];
static int32_t start[FILTERS], to[PIXELS * ROW];
static const uint8_t *line[PIXELS];
static int64_t at[WORDS];

/* Returns channel q of a word of the image, with the bits `flip` inverted. */
static int32_t seen_at(const struct code *code, const uint8_t *word, int q, int32_t flip)
{
    int16_t wide;

    if (code->group == 4)
        return word[q] ^ (flip & 255);
    memcpy(&wide, word + 2 * q, 2);
    return wide;
}

/* Returns channel q of a word of a filter. */
static int32_t weight_at(const struct code *code, const int8_t *word, int q)
{
    int16_t wide;

    if (code->group == 4)
        return word[q];
    memcpy(&wide, word + 2 * q, 2);
    return wide;
}

/* Draws filters and image.  16-bit channels hold weights of 8 bits, and pixels from -128 to 255. */
static void fill_words(const struct code *code, struct rng *r)
{
    for (size_t i = 0; i < sizeof filters; i++)
        filters[i] = (int8_t)rng_next(r);
    for (size_t i = 0; i < sizeof image; i++)
        image[i] = (uint8_t)rng_next(r);
    for (size_t i = 0; i < sizeof filters / 2 && code->group == 2; i++) {
        const int16_t wide = (int16_t)(rng_below(r, 256) - 128);

        memcpy(filters + 2 * i, &wide, 2);
    }
    for (size_t i = 0; i < sizeof image / 2 && code->group == 2; i++) {
        const int16_t wide = (int16_t)(rng_below(r, 384) - 128);

        memcpy(image + 2 * i, &wide, 2);
    }
}

/* Returns the sum for a pixel and a filter, computed by a plain loop. */
static int32_t sum_of(const struct code *code, const struct byte_strip *s, int64_t pixel,
                      int64_t filter)
{
    int32_t sum = s->start[filter];

    for (int64_t p = 0; p < s->words; p++)
        for (int q = 0; q < code->group; q++)
            sum += seen_at(code, s->line[pixel] + s->at[p], q, s->flip) *
                   weight_at(code, s->filters + p * s->step + 4 * filter, q);
    return sum;
}

/* Runs the code on a strip of pixels and filters: its sums must be right, and memory after the
 * results unchanged. */
static void check(const struct code *code, const struct byte_strip *s)
{
    memset(to, 0x5a, sizeof to);
    code->run(s);
    for (int64_t i = 0; i < PIXELS; i++)
        for (int64_t f = 0; f < ROW; f++) {
            bool inside = i < s->pixels && f < s->count;

            if (to[i * ROW + f] != (inside ? sum_of(code, s, i, f) : 0x5a5a5a5a))
                fail_msg("%d pixels, %d words, %d units, %d filters: pixel %d, filter %d",
                         (int)s->pixels, (int)s->words, s->units, (int)s->count, (int)i, (int)f);
        }
}

/* Tries all numbers of pixels and of groups of filters, with random offsets of pixels and words,
 * and with pixels whose highest bits the code inverts. */
static void sums_are_right(const struct code *code)
{
    struct rng r = { 5 };

    fill_words(code, &r);
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
                line[i] = image + 2 * rng_below(&r, 1000);
            for (int64_t p = 0; p < s.words; p++)
                at[p] = 2 * (int64_t)rng_below(&r, 1000);
            check(code, &s);
            s.count = most;
            s.flip = code->group == 4 ? (int32_t)0x80808080 : 0;
            check(code, &s);
        }
}

/* Convolves an NCHW image, whose channels are `step` bytes apart.  The last channel ends at an
 * inaccessible page. */
static void check_planes(struct rng *r, const struct code *code, int64_t pixels)
{
    enum { CHANNELS = 40 };
    static _Alignas(64) uint8_t panel[2 * CHANNELS * BYTES_PANEL];
    const int64_t channels = 1 + rng_below(r, CHANNELS), step = pixels + rng_below(r, 70);
    const int64_t words = (channels + code->group - 1) / code->group,
                  row = BYTES_PANEL + rng_below(r, 5);
    const bool sign = rng_below(r, 2);
    const int flip = sign && code->group == 4 ? 128 : 0, units = 1 + rng_below(r, BYTES_UNITS);
    const int64_t count = 1 + rng_below(r, units * BYTES_UNIT);
    const size_t bytes = (size_t)((channels - 1) * step + pixels);
    const size_t size = (size_t)(4 / code->group);
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
    for (int64_t f = 0; f < FILTERS; f++) /* weights of channels that pad the last word */
        for (int64_t q = channels; q < code->group * words; q++)
            memset(filters + q / code->group * s.step + 4 * f + q % code->group * size, 0, size);
    memset(sums, 0x5a, (size_t)(FILTERS * row) * sizeof *sums);
    code->join(&(struct byte_panel){ .image = (uint8_t *)seen.data,
                                     .channel = step,
                                     .channels = channels,
                                     .pixels = pixels,
                                     .flip = flip,
                                     .sign = sign,
                                     .panel = panel });
    code->planes(&s, panel);
    for (int64_t f = 0; f < FILTERS; f++)
        for (int64_t i = 0; i < row; i++) {
            int32_t sum = start[f];

            for (int64_t q = 0; q < channels && i < pixels; q++) {
                const uint8_t byte = (uint8_t)seen.data[q * step + i];
                const int8_t *word = filters + q / code->group * s.step + 4 * f;

                sum += (code->group == 4 ? byte ^ flip :
                        sign             ? (int8_t)byte :
                                           byte) *
                       weight_at(code, word, (int)(q % code->group));
            }
            if (sums[f * row + i] != (f < count && i < pixels ? sum : 0x5a5a5a5a))
                fail_msg("%d pixels, %d channels, %d filters: filter %d, pixel %d", (int)pixels,
                         (int)channels, (int)count, (int)f, (int)i);
        }
    free(sums);
    leave_guarded(seen);
}

/* Tests one instruction set with all numbers of pixels that a panel may have. */
static void planes_are_right(const struct code *code)
{
    struct rng r = { 6 };

    for (int64_t pixels = 1; pixels <= BYTES_PANEL; pixels++)
        for (int i = 0; i < 8; i++) {
            fill_words(code, &r);
            check_planes(&r, code, pixels);
        }
}

/* Tests the code of each instruction set that this CPU has. */
static void sums_of_all_instruction_sets_are_right(void **state)
{
    const struct {
        unsigned needs;
        struct code code;
    } all[] = {
#define ROW(isa, ...) \
    { NEEDS_##isa, \
      { limber_bytes_##isa, limber_bytes_join_##isa, limber_bytes_planes_##isa, GROUP_##isa } },
        LIMBER_BYTES(ROW, )
#undef ROW
    };
    int codes = 0;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(all[i].needs & ~limber_cpu())) {
            sums_are_right(&all[i].code);
            planes_are_right(&all[i].code);
            codes++;
        }
    if (!codes)
        skip_because("this CPU has no instructions for bytes");
}

static limber_context *two_threads(void)
{
    limber_context *ctx;

    assert_int_equal(limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config),
                                                           .backend = "llvm",
                                                           .cache_dir = "",
                                                           .threads = 2 }),
                     LIMBER_STATUS_OK);
    return ctx;
}

enum { MOST = 150, DEEPEST = 300 };

/* Products are right for matrices with padding between rows, with B row-major or column-major. */
static void products_are_right(void **state)
{
    static int8_t a[MOST * (DEEPEST + 3)], b[MOST * (DEEPEST + 3)];
    static int32_t c[MOST * (MOST + 3)];
    const limber_contract exact = { .size = sizeof exact, .promise = LIMBER_CONTRACT_EXACT };
    struct rng r = { 21 };
    limber_context *ctx = two_threads();

    (void)state;
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

/* Returns the index of pixel k of channel j of image i. */
static int64_t element_index(const limber_conv *s, int64_t channels, int64_t i, int64_t j,
                             int64_t k)
{
    const int64_t pixels = s->h * s->w;

    return s->layout == LIMBER_LAYOUT_NHWC ? (i * pixels + k) * channels + j :
                                             (i * channels + j) * pixels + k;
}

/* Filters of one element, whose convolutions are matrix products, give right results and
 * gradients, with as few as one channel or pixel. */
static void pixels_are_right(void **state)
{
    enum { CHANNELS = 40, PIXELS = 100, IMAGES = 6 };
    static int8_t a[IMAGES * CHANNELS * PIXELS], w[CHANNELS * CHANNELS];
    static int32_t c[IMAGES * CHANNELS * PIXELS];
    const limber_contract exact = { .size = sizeof exact, .promise = LIMBER_CONTRACT_EXACT };
    struct rng r = { 22 };
    limber_context *ctx = two_threads();

    (void)state;
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
                        const int8_t x = a[element_index(&s, from, i, p, k)];

                        sum += (is_signed ? x : (uint8_t)x) * w[back ? p * s.c + j : j * s.c + p];
                    }
                    if (c[element_index(&s, to, i, j, k)] != sum)
                        fail_msg("trial %d, image %d, channel %d, pixel %d", trial, (int)i, (int)j,
                                 (int)k);
                }
    }
    limber_destroy(ctx);
}

/* Filters on images of few and of many channels, with padding, strides and dilation, give right
 * results. */
static void windows_are_right(void **state)
{
    enum { CHANNELS = 37, SIDE = 40, IMAGES = 2, WINDOW = 3 };
    static int8_t a[IMAGES * CHANNELS * SIDE * SIDE], w[2048 * WINDOW * WINDOW];
    static int32_t c[IMAGES * CHANNELS * SIDE * SIDE];
    const limber_contract exact = { .size = sizeof exact, .promise = LIMBER_CONTRACT_EXACT };
    struct rng r = { 23 };
    limber_context *ctx = two_threads();

    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        limber_conv s = { .size = sizeof s, .groups = 1 }, result;
        const bool is_signed = rng_below(&r, 2), few = rng_below(&r, 2);
        int64_t taps;

        s.n = 1 + rng_below(&r, IMAGES);
        s.c = 1 + rng_below(&r, few ? 5 : CHANNELS);
        s.o = 1 + rng_below(&r, CHANNELS);
        s.r = 1 + rng_below(&r, WINDOW);
        s.s = 1 + rng_below(&r, WINDOW);
        s.h = 5 + rng_below(&r, SIDE - 8);
        s.w = 5 + rng_below(&r, SIDE - 8);
        s.layout = trial % 2 ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
        for (int i = 0; i < 2; i++) {
            s.stride[i] = 1 + rng_below(&r, 2);
            s.dilate[i] = 1 + rng_below(&r, 2);
            s.pad[2 * i] = rng_below(&r, (int)(i ? s.s : s.r));
            s.pad[2 * i + 1] = rng_below(&r, (int)(i ? s.s : s.r));
        }
        if (trial % 10 == 0) { /* pixels whose addresses map to the same cache sets */
            s.n = s.o = 1;
            s.c = (int64_t)512 << rng_below(&r, 3);
            s.h = 5;
            s.w = 6;
        }
        /* a filter of one element that also covers padding after the image */
        if (trial % 10 == 1) {
            s.r = s.s = 1;
            s.pad[0] = s.pad[2] = 0;
            s.pad[1] = (s.h - 1) * (s.stride[0] - 1);
            s.pad[3] = (s.w - 1) * (s.stride[1] - 1);
            s.layout = LIMBER_LAYOUT_NCHW;
        }
        if (trial % 10 == 2) { /* a large stride, so that few pixels are read, and few channels */
            s.c = 1 + rng_below(&r, 5);
            s.h = 5;
            s.stride[1] = (int64_t)32 << rng_below(&r, 6);
            s.w = 2 * s.stride[1] + 5;
        }
        taps = s.r * s.s;
        result = s;
        result.h = (s.h + s.pad[0] + s.pad[1] - (s.r - 1) * s.dilate[0] - 1) / s.stride[0] + 1;
        result.w = (s.w + s.pad[2] + s.pad[3] - (s.s - 1) * s.dilate[1] - 1) / s.stride[1] + 1;
        for (size_t i = 0; i < sizeof a; i++)
            a[i] = (int8_t)rng_next(&r);
        for (size_t i = 0; i < sizeof w; i++)
            w[i] = (int8_t)rng_next(&r);
        memset(c, 0x5a, sizeof c);
        if (limber_conv2d(ctx, &exact, &s, NULL, a, is_signed ? LIMBER_I8 : LIMBER_U8, w, LIMBER_I8,
                          NULL, c, LIMBER_I32, NULL))
            fail_msg("%s", limber_error_text());
        for (int64_t at = 0; at < s.n * s.o * result.h * result.w; at++) {
            const int64_t pixel = at % (result.h * result.w), plane = at / (result.h * result.w);
            const int64_t y = pixel / result.w, x = pixel % result.w;
            int32_t sum = 0;

            for (int64_t p = 0; p < s.c * taps; p++) {
                const int64_t row = y * s.stride[0] - s.pad[0] + p % taps / s.s * s.dilate[0];
                const int64_t column = x * s.stride[1] - s.pad[2] + p % s.s * s.dilate[1];
                const int64_t filter = plane % s.o;

                if (row >= 0 && row < s.h && column >= 0 && column < s.w) {
                    const int8_t seen =
                        a[element_index(&s, s.c, plane / s.o, p / taps, row * s.w + column)];

                    sum += (is_signed ? seen : (uint8_t)seen) *
                           w[s.layout == LIMBER_LAYOUT_NHWC ?
                                 (filter * taps + p % taps) * s.c + p / taps :
                                 filter * s.c * taps + p];
                }
            }
            if (c[element_index(&result, s.o, plane / s.o, plane % s.o, pixel)] != sum)
                fail_msg("trial %d, plane %d, row %d, column %d", trial, (int)plane, (int)y,
                         (int)x);
        }
    }
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sums_of_all_instruction_sets_are_right),
                                        cmocka_unit_test(windows_are_right),
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
