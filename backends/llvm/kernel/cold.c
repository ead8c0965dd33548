/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of the library that kernels call for rare or slow work.  Here the configuration is read
 * at run time; it is not a constant. */
#include "backends/llvm/kernel/kernel.h"
#include "ir/cpu.h"
#include "ir/num/dot.h"
#include "ir/num/small.h"
#include "ir/unit/num.h"
#include "ir/unit/store.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- copying and packing operands ------------------------------------------------------------ */

kernel_transpose *limber_transpose_here(void)
{
    const unsigned cpu = limber_cpu_here();

    return LIMBER_CODE(cpu, limber_transpose);
}

/* Sets the pointers to functions of planes.c, for this CPU's instruction set. */
void limber_planes_code(struct planes *x)
{
    const unsigned cpu = limber_cpu_here();

    x->gather = LIMBER_CODE(cpu, limber_planes_gather);
    x->sums = LIMBER_CODE(cpu, limber_planes_sums);
    x->norms = LIMBER_CODE(cpu, limber_planes_norms);
    x->copy = LIMBER_CODE(cpu, limber_planes_copy);
}

/* Transposes lines that are contiguous along k.  part: { first line, number of lines, first
 * position along k, elements along k }. If fewer lines than `lanes` exist, the last one is
 * repeated.  64 elements along k never lie in two tiles of a tile subset.  Bytes are transposed as
 * words of four: `step` is the bytes of an element, `size` those of a word. */
static void transpose_lines(const struct kernel_call *c, int side, const int64_t part[4], int step,
                            int size, int lanes, char *to, int64_t stride)
{
    int64_t count = part[3] * step / size;

    /* read instead of lines that are zero; has the length of the longest run that is read */
    static const char zeros[64 * 8];
    const struct packed *o = &c->op[side];
    const char *line[KERNEL_LANES];

    for (int l = lanes; l < KERNEL_LANES; l++)
        line[l] = zeros;
    for (int64_t l = 0; l < lanes; l++) {
        int64_t at = o->line0 + part[0] + (l < part[1] ? l : part[1] - 1);

        line[l] = limber_view_at(&o->view, at, part[2], step);
        line[l] = line[l] ? line[l] : zeros;
        for (int64_t ahead = 0; ahead < count * size; ahead += 64)
            __builtin_prefetch(line[l] + 4 * KERNEL_LANES * size + ahead);
    }
    limber_transpose_here()(line, size, lanes, to, stride, count);
}

/* Copies an element of 1, 2, 4, 8 or 16 bytes. */
static void copy_element(char *to, const char *from, size_t size)
{
    switch (size) {             /* constant lengths, so that the compiler inlines memcpy */
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, 16); break;
    }
}

/* Copies a part of a matrix line by line into a block in which sixteen lines are interleaved.
 * part: { first line, number of lines, first position along k, elements along k }. */
static void copy_lines(const struct packed *o, const int64_t part[4], size_t size, char *room)
{
    int64_t step = o->view.p * (int64_t)size;

    for (int64_t l = 0; l < part[1]; l++) {
        const char *from = limber_view_at(&o->view, o->line0 + part[0] + l, part[2], (int)size);

        for (int64_t p = 0; from && p < part[3]; p++)
            copy_element(room + (size_t)(p * KERNEL_LANES + l) * size, from + p * step, size);
    }
}

/* Copies `count` elements that are `step` elements apart to contiguous memory. */
static void copy_apart(char *to, const char *from, int64_t step, int count, size_t size)
{
    if (size == 4)              /* a constant length, so that the compiler inlines memcpy */
        for (int i = 0; i < count; i++)
            memcpy(to + 4 * i, from + 4 * i * step, 4);
    else
        for (int i = 0; i < count; i++)
            copy_element(to + (size_t)i * size, from + (int64_t)size * i * step, size);
}

/* An element of a window: its offset in elements from the window's first element, and its row
 * (high) and column (wide) in the window. */
struct tap {
    int64_t at, high, wide;
};

/* Sets tap[0] to tap[len - 1] to the positions of elements p to p + len - 1 of the window, in the
 * order of k: columns vary fastest, then rows, then channels. */
static void find_taps(const struct patch *w, int64_t p, int64_t len, struct tap tap[KERNEL_BLOCK])
{
    int64_t s = p % w->s, r = p / w->s % w->r, channel = p / w->s / w->r;

    for (int64_t i = 0; i < len; i++) {
        tap[i].high = r * w->dilate[0];
        tap[i].wide = s * w->dilate[1];
        tap[i].at = channel * w->channel + tap[i].high * w->row + tap[i].wide * w->col;
        if (++s < w->s)
            continue;
        s = 0;
        if (++r < w->r)
            continue;
        r = 0;
        channel++;
    }
}

/* Neighbouring output pixels in one row of one image: `count` pixels, from number p of a group of
 * KERNEL_BLOCK pixels on. */
struct stretch {
    int64_t p, count, image;
    /* row and column, in the padded image, of the first pixel's window; the padding is subtracted
     * later */
    int64_t high, wide;
};

/* Divides output pixels [p0, p0 + len) into stretches within rows.  Returns the number of
 * stretches. */
static int find_stretches(const struct patch *w, int64_t p0, int64_t len,
                          struct stretch s[KERNEL_BLOCK])
{
    int64_t row = p0 / w->ow, x = p0 % w->ow, image = row / w->oh, y = row % w->oh;
    int count = 0;

    for (int64_t p = 0; p < len; x = 0) {
        int64_t left = w->ow - x < len - p ? w->ow - x : len - p;

        s[count++] = (struct stretch){ p, left, image, y * w->stride[0], x * w->stride[1] };
        p += left;
        if (++y == w->oh) {
            y = 0;
            image++;
        }
    }
    return count;
}

/* Elements of the image that one window element reads for a stretch of output pixels: for pixel i,
 * the element at first + i * step, if i is in [from, end).  For all other i it reads padding. */
struct seen {
    int64_t first, step, from, end;
};

/* Returns the elements of the image that one window element reads for a stretch of output
 * pixels. */
static struct seen find_pixels_read(const struct patch *w, const struct stretch *s,
                                    const struct tap *tap)
{
    int64_t high = s->high + tap->high - w->pad[0], wide = s->wide + tap->wide - w->pad[1];
    int64_t step = w->stride[1];
    struct seen x = { s->image * w->image + (s->high - w->pad[0]) * w->row +
                          (s->wide - w->pad[1]) * w->col + tap->at,
                      step * w->col,
                      wide < 0 ? (step - 1 - wide) / step : 0,
                      wide < w->w ? (w->w - wide + step - 1) / step : 0 };

    x.end = x.end < s->count ? x.end : s->count;
    if (high < 0 || high >= w->h)
        x.end = 0;
    return x;
}

/* Copies a part of the transposed im2col matrix into a block of 16 lines.  Lines are elements of
 * the window, and k runs through the output pixels. */
static void copy_transposed_windows(const struct packed *o, const int64_t part[4], size_t size,
                                    char *room)
{
    const struct patch *w = o->view.patch;
    char copies[KERNEL_LANES][KERNEL_BLOCK * 16] __attribute__((aligned(64)));
    const char *line[KERNEL_LANES], *data = o->view.data;
    struct stretch stretch[KERNEL_BLOCK];
    struct tap tap[KERNEL_LANES];
    int count = find_stretches(w, part[2], part[3], stretch);

    find_taps(w, o->line0 + part[0], part[1], tap);
    for (int64_t l = 0; l < KERNEL_LANES; l++) {
        line[l] = copies[l];
        if (l >= part[1] || part[3] < KERNEL_BLOCK)
            memset(copies[l], 0, KERNEL_BLOCK * size);
        for (int i = 0; i < count && l < part[1]; i++) {
            struct seen x = find_pixels_read(w, &stretch[i], &tap[l]);
            char *to = copies[l] + (size_t)stretch[i].p * size;

            if (x.step == 1 && x.from == 0 && x.end == KERNEL_BLOCK) {
                line[l] = data + x.first * (int64_t)size;
                continue;
            }
            memset(to, 0, (size_t)stretch[i].count * size);
            if (x.end > x.from)
                copy_apart(to + (size_t)x.from * size,
                           data + (x.first + x.from * x.step) * (int64_t)size, x.step,
                           (int)(x.end - x.from), size);
        }
    }
    if (size == 4 || size == 8) {
        limber_transpose_here()(line, (int)size, KERNEL_LANES, room, KERNEL_LANES * (int64_t)size,
                                KERNEL_BLOCK);
        return;
    }
    for (int64_t l = 0; l < KERNEL_LANES; l++)
        for (int64_t p = 0; p < KERNEL_BLOCK; p++)
            copy_element(room + (size_t)(p * KERNEL_LANES + l) * size, line[l] + (size_t)p * size,
                         size);
}

/* The quotient and the rest of a division by b: a = quotient * b + rest, with 0 <= rest < b. */
struct quotient {
    int64_t quotient, rest;
};

/* Divides a by b > 0, rounding the quotient down. */
static struct quotient divide(int64_t a, int64_t b)
{
    struct quotient x = { a / b, a % b };

    if (x.rest < 0)
        x = (struct quotient){ x.quotient - 1, x.rest + b };
    return x;
}

/* Returns (a + b) / by if that is an integer in [0, end), else -1.  a and b are given as quotients
 * by `by`. */
static int64_t sum_over(struct quotient a, struct quotient b, int64_t by, int64_t end)
{
    int64_t rest = a.rest + b.rest, x = a.quotient + b.quotient + (rest == by);

    return (rest == 0 || rest == by) && x >= 0 && x < end ? x : -1;
}

/* Copies a part of the windows of an image with zeros between its pixels (a transposed convolution)
 * into a block.  Quotients by the stride are computed once per line and once per window element, so
 * that no combination of both needs a division. */
static void copy_windows_of_zeros(const struct packed *o, const int64_t part[4], size_t size,
                                  char *room)
{
    const struct patch *w = o->view.patch;
    struct quotient high[KERNEL_BLOCK], wide[KERNEL_BLOCK];
    struct tap tap[KERNEL_BLOCK];

    find_taps(w, part[2], part[3], tap);
    for (int64_t p = 0; p < part[3]; p++) {
        high[p] = divide(tap[p].high, w->divide[0]);
        wide[p] = divide(tap[p].wide, w->divide[1]);
        /* keep only the channel's offset */
        tap[p].at -= tap[p].high * w->row + tap[p].wide * w->col;
    }
    for (int64_t l = 0; l < part[1]; l++) {
        int64_t line = o->line0 + part[0] + l, row = line / w->ow, image = row / w->oh;
        struct quotient y = divide(row % w->oh * w->stride[0] - w->pad[0], w->divide[0]);
        struct quotient x = divide(line % w->ow * w->stride[1] - w->pad[1], w->divide[1]);
        const char *data = (const char *)o->view.data +
                           (w->origin + image * w->image) * (int64_t)size;

        for (int64_t p = 0; p < part[3]; p++) {
            int64_t down = sum_over(y, high[p], w->divide[0], w->h);
            int64_t across = sum_over(x, wide[p], w->divide[1], w->w);

            if (down >= 0 && across >= 0)
                copy_element(room + (size_t)(p * KERNEL_LANES + l) * size,
                             data + (tap[p].at + down * w->row + across * w->col) * (int64_t)size,
                             size);
        }
    }
}

/* Copies a part of the windows of an image into a block.  Each line is an output pixel.  The
 * block's padding is already zero. */
static void copy_windows(const struct packed *o, const int64_t part[4], size_t size, char *room)
{
    const struct patch *w = o->view.patch;
    struct tap tap[KERNEL_BLOCK];

    if (w->transposed && !w->depth && !w->t && !o->view.tile_subset) {
        copy_transposed_windows(o, part, size, room);
        return;
    }
    if (w->divide[0] && !w->depth && !w->t && !o->view.tile_subset) {
        copy_windows_of_zeros(o, part, size, room);
        return;
    }
    if (w->depth || w->t || o->view.tile_subset) {
        for (int64_t l = 0; l < part[1]; l++)
            for (int64_t p = 0; p < part[3]; p++) {
                const char *at = limber_view_at(&o->view, o->line0 + part[0] + l, part[2] + p,
                                                (int)size);

                if (at)
                    copy_element(room + (size_t)(p * KERNEL_LANES + l) * size, at, size);
            }
        return;
    }
    find_taps(w, part[2], part[3], tap);
    for (int64_t l = 0; l < part[1]; l++) {
        int64_t line = o->line0 + part[0] + l, row = line / w->ow, image = row / w->oh;
        int64_t y = row % w->oh * w->stride[0] - w->pad[0];
        int64_t x = line % w->ow * w->stride[1] - w->pad[1];
        const char *data = (const char *)o->view.data +
                           (w->origin + image * w->image + y * w->row + x * w->col) *
                               (int64_t)size;

        for (int64_t p = 0; p < part[3]; p++) {
            int64_t high = y + tap[p].high, wide = x + tap[p].wide;

            if (high >= 0 && high < w->h && wide >= 0 && wide < w->w)
                copy_element(room + (size_t)(p * KERNEL_LANES + l) * size,
                             data + tap[p].at * (int64_t)size, size);
        }
    }
}

/* Sets at[] to the offsets of sixteen pixels of planes, from number `first` on, in elements from
 * the image's start (in three dimensions: from channel 0).  An offset is -1 for padding and for
 * pixels past the last one.  plane: plane of the window. */
static void find_pixels(const struct packed *o, int64_t first, int64_t plane,
                        int64_t at[KERNEL_LANES])
{
    const struct planes *x = o->planes;
    const struct patch *w = o->view.patch;
    int64_t row = first / x->columns, column = first % x->columns;
    int64_t phase = row / x->rows, images = (o->line0 + o->lines - 1) / (w->oh * w->ow) + 1;

    row %= x->rows;
    for (int l = 0; l < KERNEL_LANES; l++) {
        int64_t image = (x->first + row) / x->high, high, wide, begin;

        at[l] = -1;
        if (phase < x->phases && image < images) {
            high = (x->first + row) % x->high * w->stride[0] + x->phase[phase][0] - x->pad[0];
            wide = column * w->stride[1] + x->phase[phase][1] - x->pad[1];
            begin = limber_patch_begin(w, image, plane);
            if (high >= 0 && high < w->h && wide >= 0 && wide < w->w && begin >= 0)
                at[l] = begin + high * w->row + wide * w->col;
        }
        if (++column < x->columns)
            continue;
        column = 0;
        if (++row == x->rows) {
            row = 0;
            phase++;
        }
    }
}

/* Neighbours among sixteen pixels that have a constant distance in memory. */
struct pixel_run {
    int lane, count;    /* lane of the first pixel, and number of pixels */
    int64_t at, step;   /* offset of the first pixel, and distance between pixels, in elements */
};

/* Groups sixteen pixels into runs of constant distance, `step`.  Returns the number of runs.  at:
 * offset of each pixel, negative for padding. */
static int find_runs(const int64_t at[KERNEL_LANES], int64_t step,
                     struct pixel_run run[KERNEL_LANES])
{
    int runs = 0;

    for (int l = 0; l < KERNEL_LANES; l++) {
        if (at[l] < 0)
            continue;
        if (l > 0 && at[l - 1] >= 0 && at[l] == at[l - 1] + step)
            run[runs - 1].count++;
        else
            run[runs++] = (struct pixel_run){ l, 1, at[l], step };
    }
    return runs;
}

/* Copies pixels into rows p0, p0 + step, ... below `end` of a block.  Each row holds the pixels of
 * one channel.  channel: distance between channels. */
static void copy_runs(const struct pixel_run *run, int runs, const char *data, int64_t channel,
                      const int64_t p0, int64_t step, int64_t end, size_t size, char *room)
{
    for (int64_t p = p0; p < end; p += step, data += (size_t)channel * size)
        for (int i = 0; i < runs; i++) {
            const char *from = data + (size_t)run[i].at * size;
            char *to = room + (size_t)(p * KERNEL_LANES + run[i].lane) * size;

            if (run[i].step != 1)
                copy_apart(to, from, run[i].step, run[i].count, size);
            else
                memcpy(to, from, (size_t)run[i].count * size);
        }
}

/* Copies pixels of a three-dimensional image into a block.  Each channel occurs once per plane of
 * the window. */
static void copy_deep_pixels(const struct packed *o, const int64_t part[4], size_t size, char *room)
{
    const struct patch *w = o->view.patch;

    memset(room, 0, KERNEL_BLOCK * KERNEL_LANES * size);
    for (int64_t p = 0; p < w->t && p < part[3]; p++) {
        int64_t channel = (part[2] + p) / w->t, plane = (part[2] + p) % w->t, at[KERNEL_LANES];
        struct pixel_run run[KERNEL_LANES];

        find_pixels(o, part[0], plane, at);
        copy_runs(run, find_runs(at, w->col * w->stride[1], run),
                  (const char *)o->view.data + (size_t)(channel * w->channel) * size, w->channel, p,
                  w->t, part[3], size, room);
    }
}

/* Copies a part of an image that is packed as planes into a block.  Lines are sixteen pixels, and k
 * runs through the channels. */
static void copy_pixels(const struct packed *o, const int64_t part[4], size_t size, char *room)
{
    static const char zeros[KERNEL_BLOCK * 8];
    const struct patch *w = o->view.patch;
    const char *data = o->view.data;
    int64_t at[KERNEL_LANES];
    struct pixel_run run[KERNEL_LANES];
    int runs;

    if (w->t) {
        copy_deep_pixels(o, part, size, room);
        return;
    }
    find_pixels(o, part[0], 0, at);
    if (w->channel == 1 && part[3] == KERNEL_BLOCK && (size == 4 || size == 8)) {
        const char *line[KERNEL_LANES];

        for (int l = 0; l < KERNEL_LANES; l++)
            line[l] = at[l] < 0 ? zeros : data + (size_t)(at[l] + part[2]) * size;
        limber_transpose_here()(line, (int)size, KERNEL_LANES, room, KERNEL_LANES * (int64_t)size,
                         KERNEL_BLOCK);
        return;
    }
    runs = find_runs(at, w->col * w->stride[1], run);
    if (runs != 1 || run[0].count < KERNEL_LANES)
        memset(room, 0, KERNEL_BLOCK * KERNEL_LANES * size);
    copy_runs(run, runs, data + (size_t)(part[2] * w->channel) * size, w->channel, 0, 1, part[3],
              size, room);
}

/* Transposes a block of elements, whose number and size are compile-time constants. */
static inline __attribute__((always_inline)) void
transpose_block(const struct packed *o, const int64_t part[4], size_t size, char *room)
{
    for (int64_t l = 0; l < part[1]; l++) {
        const char *from = limber_view_at(&o->view, o->line0 + part[0] + l, part[2], (int)size);

        for (size_t p = 0; p < KERNEL_BLOCK; p++)
            copy_element(room + (p * KERNEL_LANES + (size_t)l) * size, from + p * size, size);
    }
}

/* Transposes a block of elements of 1 or 2 bytes. */
static void transpose_small_block(const struct packed *o, const int64_t part[4], size_t size,
                                  char *room)
{
    if (size == 1)
        transpose_block(o, part, 1, room);
    else
        transpose_block(o, part, 2, room);
}

/* Implements kernel_cold.rows: copies part { first line, number of lines, first position along k,
 * elements along k } of an operand into a block in which sixteen lines are interleaved.  Elements
 * that do not exist become zero. */
static void read_rows(const struct kernel_call *c, int side, const int64_t part[4], char *room)
{
    const struct packed *o = &c->op[side];
    size_t size = (size_t)c->config->side[side].f.size;

    if (o->planes) {
        copy_pixels(o, part, size, room);
        return;
    }

    if (!o->view.patch && o->view.p == 1 && part[3] == KERNEL_BLOCK && part[1] > 0 &&
        (size == 4 || size == 8)) {
        transpose_lines(c, side, part, (int)size, (int)size, KERNEL_LANES, room,
             KERNEL_LANES * (int64_t)size);
        return;
    }
    if (part[1] < KERNEL_LANES || o->view.patch || o->view.tile_subset)
        memset(room, 0, KERNEL_BLOCK * KERNEL_LANES * size);
    if (o->view.patch)
        copy_windows(o, part, size, room);
    else if (o->view.p == 1 && part[3] == KERNEL_BLOCK && size <= 2 && !o->view.tile_subset)
        transpose_small_block(o, part, size, room);
    else
        copy_lines(o, part, size, room);
}

/* Implements kernel_cold.pack: transposes a part of a matrix into a panel of `lanes` lines. */
static void pack_panel(const struct kernel_call *c, int side, const int64_t part[4], int lanes,
                       char *to, int64_t stride)
{
    int size = c->config->side[side].f.size;

    transpose_lines(c, side, part, size, size, lanes, to, stride);
}

/* Implements kernel_cold.words_of_bytes: packs up to 64 bytes along k of each of sixteen lines as
 * words of four bytes. */
static void words_of_bytes(const struct kernel_call *c, int side, const int64_t part[4],
                           char *room)
{
    const struct packed *o = &c->op[side];
    char copies[KERNEL_LANES][64];
    const char *line[KERNEL_LANES];

    if (part[3] == 64) {
        transpose_lines(c, side, part, 1, 4, KERNEL_LANES, room, KERNEL_LANES * 4);
        return;
    }
    /* copy the lines first, since memory past the end of a line must not be read */
    for (int64_t l = 0; l < KERNEL_LANES; l++) {
        const char *from = l < part[1] ?
            limber_view_at(&o->view, o->line0 + part[0] + l, part[2], 1) : NULL;

        memset(copies[l], 0, sizeof copies[l]);
        if (from)
            memcpy(copies[l], from, (size_t)part[3]);
        line[l] = copies[l];
    }
    limber_transpose_here()(line, 4, KERNEL_LANES, room, KERNEL_LANES * 4, 16);
}

/* Implements kernel_cold.load: converts n elements of a format whose numbers FP64 can hold. */
static void load_doubles(limber_format f, const char *from, double *to, int n)
{
    if (limber_num_is_small(f) && f.bias > -500 && f.bias + f.frac_bits < 1000) {
        const struct small s = small_of(f);

        for (int i = 0; i < n; i++) {
            uint16_t code = (uint8_t)from[i];

            if (f.size == 2)
                memcpy(&code, from + 2 * i, 2);
            to[i] = small_value(&s, code, f.flags & LIMBER_FORMAT_NO_INF);
        }
    } else if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT) {
        for (int i = 0; i < n; i++)
            to[i] = (double)limber_load_int(f, from + i * f.size);
    } else {
        struct diag ignored = { 0 };

        limber_format_convert(to, LIMBER_F64, from, f, (size_t)n, LIMBER_ROUND_NEAREST, &ignored);
    }
}

/* Implements kernel_cold.round: rounds elements as the simulated unit loads operands. */
static void round_operands(const struct kernel_call *c, int side, double v[KERNEL_LANES])
{
    struct loaded x[KERNEL_LANES];

    limber_unit_load(&c->config->model, side, v, KERNEL_LANES, x);
    for (int i = 0; i < KERNEL_LANES; i++)
        v[i] = x[i].value;
}

/* ---- storing results ------------------------------------------------------------------------- */

/* Returns the address of element (i, j) of this part of C. */
static char *element_address(const struct kernel_call *c, int64_t i, int64_t j)
{
    return limber_output_at(&c->c, c->i0 + i, c->j0 + j, c->config->c.size);
}

/* Returns pointers to alpha and beta of the call, each NULL if the plan has none. */
static struct limber_scalars scalars_of_call(const struct kernel_call *c)
{
    const struct kernel_config *f = c->config;

    return (struct limber_scalars){ f->has_alpha ? c->alpha : NULL, f->has_beta ? c->beta : NULL,
                                    f->scalars };
}

/* Returns the exponent s of the scale 2^s of a line. */
static int scale_of(const struct packed *o, int64_t line)
{
    return o->scale ? o->scale[o->line0 + line] : 0;
}

/* Implements kernel_cold.special: if NaN or infinities determine element (i, j), stores it. */
static int64_t store_special(const struct kernel_call *c, int64_t i, int64_t j)
{
    double x = limber_classes_sum(&c->classes[0], c->op[0].line0 + i, &c->classes[1],
                                  c->op[1].line0 + j);
    const struct kernel_config *f = c->config;
    struct limber_scalars sc = scalars_of_call(c);
    float narrow = (float)x;
    int flags = 0;

    if (f->plain && limber_num_is_f64(f->c))
        memcpy(element_address(c, i, j), &x, 8);
    else if (f->plain && limber_num_is_f32(f->c))
        memcpy(element_address(c, i, j), &narrow, 4);
    else
        flags = limber_store_class(element_address(c, i, j), f->c, x, &sc);
    return limber_num_is_int(f->c) && flags & NUM_overflow;
}

/* Implements kernel_cold.words: stores the integer of n words times 2^exp as element (i, j),
 * rounded once together with alpha and beta.  Returns 1 if it does not fit an integer format, else
 * 0. */
static int64_t store_words(const struct kernel_call *c, int64_t i, int64_t j, uint64_t *w, int n,
                           int exp)
{
    const struct kernel_config *f = c->config;
    struct limber_scalars sc = scalars_of_call(c);
    struct limber_big sum = { w, n, exp };
    int flags = 0;

    if (limber_num_is_int(f->c) && f->wrap)
        limber_store_wrapped(element_address(c, i, j), f->c, limber_big_units(w, n, exp), &sc);
    else if (f->plain)
        flags = limber_big_store(element_address(c, i, j), f->c, &sum);
    else
        flags = limber_store_exact(element_address(c, i, j), f->c, w, n, exp, &sc);
    return limber_num_is_int(f->c) &&
           (flags & (f->integral ? NUM_overflow | NUM_inexact : NUM_overflow));
}

/* Returns a monotonic time in nanoseconds. */
static int64_t nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Implements kernel_cold.exact: sums an element exactly from the operands and stores it.  Adds the
 * time spent to c->recomputed_ns. */
static int64_t store_exact(const struct kernel_call *c, int64_t i, int64_t j)
{
    const struct kernel_config *f = c->config;
    uint64_t w[LIMBER_BIG];
    struct limber_big sum = { w, f->big_words, f->big_base };

    int64_t start = nanoseconds(), left;

    limber_dot(&sum, &c->whole[0], f->side[0].f, c->op[0].line0 + i, &c->whole[1], f->side[1].f,
               c->op[1].line0 + j, c->view_k);
    left = store_words(c, i, j, w, f->big_words, f->big_base);
    __atomic_fetch_add(c->recomputed_ns, nanoseconds() - start, __ATOMIC_RELAXED);
    return left;
}

/* Implements kernel_cold.total: reconstructs element (i, j) from its totals and stores it.  Totals
 * begin at `at` and are `stride` bytes apart.  If the rounding is uncertain, the element is summed
 * again exactly.  Returns 1 if it does not fit an integer format, else 0. */
static int64_t store_total(const struct kernel_call *c, int64_t i, int64_t j, const char *at,
                           int64_t stride)
{
    const struct kernel_config *f = c->config;
    int exp = -(scale_of(&c->op[0], i) + scale_of(&c->op[1], j));
    struct limber_scalars sc = scalars_of_call(c);
    int64_t column[32] = { 0 }, t;
    uint64_t w[16];
    double share = 0;

    for (int acc = 0; acc < f->accumulators; acc++, at += stride) {
        if (f->reconstruct == RECONSTRUCT_shift) {
            memcpy(&t, at, sizeof t);
            limber_columns_add(column, 1, t, f->weight[acc]);
            continue;
        }
        t = *(const int8_t *)at;
        if (f->wide) { /* t is a residue that is not yet multiplied by the modulus's inverse */
            int16_t word;

            memcpy(&word, at, sizeof word);
            t = word * (int64_t)f->crt.inverse[acc] % f->crt.modulus[acc];
        }
        share += (double)t / f->crt.modulus[acc];
        for (int d = 0; d < f->crt.digits; d++)
            column[d] += t * f->crt.cofactor[acc][d];
    }
    if (f->reconstruct == RECONSTRUCT_crt)
        for (int d = 0; d < f->crt.digits; d++)
            column[d] -= (int64_t)rint(share) * (int64_t)f->crt.product[d];
    limber_columns_words(column, 1, 2 * f->words, w, f->words);
    if (!f->uncertain_count)
        return store_words(c, i, j, w, f->words, exp);
    if (limber_store_certain(element_address(c, i, j), f->c, w, f->words, f->uncertain, exp, &sc))
        return 0;
    __atomic_fetch_add(c->recomputed, 1, __ATOMIC_RELAXED);
    return store_exact(c, i, j);
}

/* Implements kernel_cold.sum: stores a sum of floats as element (i, j), with its scales, alpha and
 * beta. */
static void store_sum(const struct kernel_call *c, int64_t i, int64_t j, double x)
{
    const struct kernel_config *f = c->config;

    if (c->op[0].scale || c->op[1].scale)
        x = ldexp(x, -(scale_of(&c->op[0], i) + scale_of(&c->op[1], j)));
    limber_unit_store(&f->model, element_address(c, i, j), f->c, x,
                      f->has_alpha ? &c->alpha_f64 : NULL, f->has_beta ? &c->beta_f64 : NULL);
}

/* Implements kernel_cold.near: if all numbers within `off` of high + low round to the same value,
 * stores that value and returns 1; else returns 0. */
static int store_near(const struct kernel_call *c, int64_t i, int64_t j, double high, double low,
                      double off)
{
    const struct kernel_config *f = c->config;
    const double scalars[2] = { c->alpha_f64, c->beta_f64 };

    return limber_store_near(element_address(c, i, j), f->c, (struct near_sum){ high, low, off },
                             f->plain ? NULL : scalars);
}

/* Implements kernel_cold.value: returns an element as a double. */
static double element_value(limber_format f, const char *p)
{
    double x;

    load_doubles(f, p, &x, 1);
    return x;
}

const struct kernel_cold limber_kernel_cold = {
    read_rows,   pack_panel,    words_of_bytes, load_doubles, store_special,
    store_words, store_total,   store_sum,      store_near,   store_exact,
    element_value, nanoseconds, round_operands
};
