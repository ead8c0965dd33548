/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions and products of 8-bit integers, summed in 32-bit integers by library code
 * (kernel/bytes.c).  In a matrix product, rows of A are treated as pixels with k channels, and
 * columns of B as 1 x 1 filters.  The image is converted to unsigned bytes in NHWC order, padding
 * included.  The code reads windows directly from this image and packs no panels.
 *
 * Filters are packed as 32-bit words of four channels, interleaved by sixteen filters (a filter
 * unit).  If the image is signed, 128 is added to each byte, and each sum starts at minus the
 * effect of that.  Without VNNI, image and filters are packed as words of two 16-bit channels,
 * which keep their signs.  An NCHW image under 1 x 1 windows keeps its order: blocks of its pixels
 * are packed as panels. */
#include "backends/llvm/kernel/join.h"
#include "backends/llvm/windows.h"

#include <string.h>

enum {
    PIXELS = 96, /* largest number of pixels of a task */
    /* smallest number of pixels of a task, used if there are too few tasks for the workers */
    LEAST = 24,
    MOST_K = 65536, /* largest k: no sum overflows 32 bits */
    /* under 1 x 1 windows, an NCHW image of at most this many pixels is transposed to NHWC;
     * larger ones keep NCHW */
    TURNED = 32,
    PANEL = 2048, /* largest number of channels of an NCHW image that keeps its order */
    DEEPEST = 8192, /* largest k of matrix products; then rows of A fit in the L2 cache */
    TASKS = 4 /* desired number of tasks per worker */
};

/* ---- which calls are supported --------------------------------------------------------------- */

/* True if the plan is one product of 8-bit integers, summed in 32 bits.  image: the operand that
 * holds the image (0: A, 1: B). */
static bool is_byte_product(const struct kernel_config *f, int image)
{
    const limber_format *w = &f->side[!image].f, *x = &f->side[image].f;

    return f->unit == UNIT_i8 && !f->matrix && f->rows == 1 && f->weight[0] == 0 && f->plain &&
           f->c.kind == LIMBER_KIND_INT && f->c.size == 4 && w->kind == LIMBER_KIND_INT &&
           w->size == 1 && (x->kind == LIMBER_KIND_INT || x->kind == LIMBER_KIND_UINT) &&
           x->size == 1;
}

/* Sets the caller's image.  If windows are 1 x 1 and reach no padding, the image is reduced to the
 * pixels that windows read, so that the window's stride becomes 1.  Returns false if the image has
 * an unsuitable layout. */
static bool set_image(struct windows *x)
{
    const struct call *c = x->call;
    const struct view *v = &c->b;
    const struct patch *w = v->patch;

    if (v->tile_subset || v->pairs)
        return false;
    if (!w) { /* a matrix is treated as an image of one row or, if transposed, of one column */
        bool rows = c == &x->turned;
        int64_t h = rows ? c->n : 1, width = rows ? 1 : c->n;

        x->from = (struct patch){ .h = h,
                                  .w = width,
                                  .oh = h,
                                  .ow = width,
                                  .r = 1,
                                  .s = 1,
                                  .stride = { 1, 1 },
                                  .dilate = { 1, 1 },
                                  .channel = v->p,
                                  .col = rows ? c->k : v->line,
                                  .row = rows ? v->line : 0 };
        return true;
    }
    if (w->depth || w->transposed || w->divide[0] || w->origin)
        return false;
    x->from = *w;
    if (w->r == 1 && w->s == 1 && w->t <= 1 && w->pad[0] == 0 && w->pad[1] == 0 &&
        (!w->t || (w->pad[2] == 0 && (w->od - 1) * w->stride[2] < w->d)) &&
        (w->oh - 1) * w->stride[0] < w->h && (w->ow - 1) * w->stride[1] < w->w) {
        x->from.row *= w->stride[0];
        x->from.col *= w->stride[1];
        x->from.plane *= w->stride[2];
        x->from.stride[0] = x->from.stride[1] = x->from.stride[2] = 1;
        x->from.h = w->oh;
        x->from.w = w->ow;
        x->from.d = w->od;
    }
    return true;
}

/* True if constant strides locate the elements of all filters. */
static bool are_filters_dense(const struct call *c)
{
    return !c->a.tile_subset && (c->a.patch ? limber_is_window_over_whole_image(c->a.patch) :
                                              limber_view_strided(&c->a));
}

/* True if a filter's elements lie in memory in the order in which a window is packed: tap after
 * tap, and in each tap 32-bit words of neighbouring channels, without an incomplete last word. */
static bool are_in_order(const struct windows *x)
{
    const struct view *v = &x->call->a;
    const struct patch *w = v->patch;

    if (x->channels % x->group)
        return false;
    return w ? w->channel == 1 && (w->s == 1 || w->col == x->channels) &&
                   (w->r == 1 || w->row == w->s * x->channels) :
               x->taps == 1 && v->p == 1;
}

/* True if this code can write C's layout: the results of all filters for a pixel are contiguous
 * (sets `across`), or the results of all pixels of an image for one filter are. */
static bool set_result(struct windows *x)
{
    const struct call *c = x->call;
    const struct output_view *v = &c->c;
    int64_t pixels = x->from.oh * x->from.ow;

    if (v->rows || v->cols || v->wide || v->origin)
        return false;
    x->across = v->row == 1 && v->col != 1;
    return x->across ? v->inner >= c->n || v->outer == v->inner * v->col :
                       v->col == 1 && (v->inner % pixels == 0 || v->inner >= c->n);
}

/* Sets up an NCHW image under 1 x 1 windows, which keeps its order.  It is copied if its pixels are
 * not contiguous.  Returns false if the image is unsuitable. */
static bool set_planes(struct windows *x)
{
    struct patch *w = &x->window;

    if (x->across || x->channels > PANEL || x->from.h != x->from.oh || x->from.w != x->from.ow ||
        x->from.d != x->from.od || x->from.pad[0] || x->from.pad[1] || x->from.pad[2] ||
        x->from.stride[0] != 1 || x->from.stride[1] != 1 || x->from.stride[2] != 1)
        return false; /* pixels and windows do not match one to one, or rows of C are pixels */
    x->planes = true;
    x->flips = false;
    x->copies = x->from.col != 1 || (x->from.oh > 1 && x->from.row != x->from.ow);
    *w = x->from;
    /* the copy has one image for each plane of the result, since each is a product of its own */
    if (x->copies) {
        w->col = 1;
        w->channel = round_up(w->oh * w->ow, LINE);
        w->image = x->channels * w->channel;
        w->od = 1;
    }
    return true;
}

/* Sets the image that windows read: the caller's image, or a copy with padding, in which the
 * channels of a pixel are filled up to 32-bit words. */
static void set_window(struct windows *x)
{
    int64_t end[3];

    for (int i = 0; i < 3; i++)
        limber_patch_reach(&x->from, i, &x->first[i], &end[i]);
    x->window = x->from;
    x->deep = x->from.d;
    x->flips = x->flip && x->units <= BYTES_UNITS; /* signs are flipped while the image is read */
    x->copies = (x->flip && !x->flips) || x->from.channel != 1 || x->channels % 4 ||
                x->group != 4 || x->first[0] < 0 || x->first[1] < 0 || x->first[2] < 0 ||
                end[0] > x->from.h || end[1] > x->from.w || end[2] > x->from.d;
    x->flips &= !x->copies;
    if (!x->copies) {
        x->first[0] = x->first[1] = x->first[2] = 0;
        return;
    }
    x->window.h = end[0] - x->first[0];
    x->window.w = end[1] - x->first[1];
    x->window.channel = 1;
    x->window.col = 4 * x->groups;
    if (limber_shares_sets(x->window.col, x->from.stride[1]))
        x->window.col += LINE;
    x->window.row = x->window.w * x->window.col;
    x->window.plane = x->window.h * x->window.row;
    x->deep = end[2] - x->first[2];
    x->window.image = x->deep * x->window.plane;
}

/* Sets up A B as C^T = B^T A^T, if rows of A and of C are contiguous and A is not prepared.
 * Returns false if the product is unsuitable. */
static bool set_matrices(struct windows *x)
{
    const struct call *c = x->call;

    if (c->a.patch || c->b.patch || c->a.p != 1 || c->keep[0] || c->c.col != 1 ||
        c->c.inner < c->n || c->c.wide || c->c.rows || c->c.cols || c->k > DEEPEST ||
        c->m < PIXELS || c->n < BYTES_UNIT)
        return false;
    x->turned = *c;
    x->turned.a = c->b;
    x->turned.b = c->a;
    x->turned.m = c->n;
    x->turned.n = c->m;
    x->turned.keep[0] = c->keep[1];
    x->turned.c.row = 1;
    x->turned.c.col = c->c.row;
    x->turned.c.inner = INT64_MAX;
    x->call = &x->turned;
    return true;
}

/* Sets sizes and the packing of bytes: the number of channels in a word, and the value that makes
 * signed bytes unsigned. */
static void set_sizes(struct windows *x, const struct kernel_config *f)
{
    const struct call *c = x->call;
    const bool is_conv = c->conv != NULL;

    if (!x->from.t) { /* a two-dimensional image has one plane */
        x->from.d = x->from.od = x->from.t = 1;
        x->from.stride[2] = x->from.dilate[2] = 1;
        /* with one plane, the distance between planes is not used */
        x->from.pad[2] = x->from.plane = 0;
    }
    x->taps = x->from.t * x->from.r * x->from.s;
    x->images = c->n / (x->from.oh * x->from.ow);
    x->channels = c->k / x->taps;
    x->group = x->code.group;
    x->groups = ceil_div(x->channels, x->group);
    x->words = x->groups * x->taps;
    x->units = ceil_div(c->m, BYTES_UNIT);
    x->in_order = are_in_order(x);
    x->sign = f->side[is_conv].f.kind == LIMBER_KIND_INT;
    x->flip = x->sign && x->group == 4 ? 128 : 0;
    set_window(x);
}

/* Fills *x and checks everything but the size of the workspace.  Returns the reason of a refusal,
 * or NULL. */
static const char *why_refused(const struct kernel *k, const struct call *call, struct windows *x)
{
    const struct kernel_config *f = &k->config;

    *x = (struct windows){ .call = call, .code = limber_bytes_code(k->cpu) };
    if (!(call->ways & limber_way_bit(WAY_windows)) || call->dry)
        return "it is not wanted";
    if (!is_byte_product(f, call->conv != NULL))
        return "the plan has other products than those of bytes by signed bytes";
    if (!x->code.run)
        return "the library has no such code for this CPU";
    if (call->k == 0 || call->k > MOST_K)
        return "k is 0, or sums may leave 32 bits";
    if (!call->conv && (x->code.group != 4 || !set_matrices(x)))
        return "the matrices are small, long or lie otherwise";
    if (!set_image(x) || (!x->from.t && !limber_can_transpose_filters(x->call)) ||
        !are_filters_dense(x->call))
        return "the image or the filters lie otherwise";
    set_sizes(x, f);
    if (!set_result(x))
        return "the result lies otherwise";
    return x->taps != 1 || x->from.channel == 1 || x->from.oh * x->from.ow <= TURNED ||
                   set_planes(x) ?
               NULL :
               "the channels of many pixels would have to be turned";
}

/* ---- sizes of buffers ------------------------------------------------------------------------ */

/* Returns the bytes of the image's copy, as a double because padding and dilation may exceed any
 * memory. */
static double image_bytes(const struct windows *x)
{
    if (x->planes)
        return x->copies ? (double)x->images * (double)x->window.image : 0;
    return x->copies ? (double)(x->images / x->from.od) * (double)x->deep * (double)x->window.h *
                               (double)x->window.row +
                           64 :
                       0;
}

/* Returns the bytes of a filter unit: the start values of sixteen sums, then the words of sixteen
 * filters. */
static int64_t unit_bytes(const struct windows *x)
{
    return (1 + x->words) * BYTES_UNIT * 4;
}

/* Returns the bytes of all packed filters. */
static int64_t filters_bytes(const struct windows *x)
{
    return x->units * unit_bytes(x);
}

/* Returns the bytes of a worker's memory.  While filters are packed it holds sixteen transposed
 * filters.  Later it holds a panel of pixels, or the addresses of windows and a block of sums. */
static int64_t worker_bytes(const struct windows *x)
{
    int64_t turned = BYTES_UNIT * round_up(4 * x->words + 64, 64);
    int64_t sums = x->planes ? x->words * 4 * BYTES_PANEL :
                               PIXELS * (BYTES_UNITS * BYTES_UNIT * 4 + (int64_t)sizeof(void *));

    return turned > sums ? turned : sums;
}

/* Prepares a launch by this code.  Returns why the code cannot compute the call, or NULL. */
const char *limber_windows_refuses(const struct kernel *k, const struct call *c, struct windows *x)
{
    const char *why = why_refused(k, c, x);
    double bytes;

    if (why)
        return why;
    bytes = image_bytes(x) + (double)filters_bytes(x) + 16.0 * (double)x->words +
            (double)c->runner->workers * (double)worker_bytes(x) + 1024;
    return limber_workspace_holds(c, bytes, &x->bytes) ? NULL : "the workspace is too small";
}

/* State that the tasks of one launch share. */
struct launch_state {
    const struct windows *x;
    const uint8_t *image; /* the image that windows read: `copy` or the caller's image */
    uint8_t *copy;
    int8_t *filters;
    /* at: byte offsets of a window's words.  nowhere: as many zeros, with which start_sums reads a
     * window of equal words. */
    int64_t *at, *nowhere;
    /* memory of all workers, `room` bytes each */
    char *rooms;
    int64_t room;
    int64_t image_tasks, filter_tasks;
    /* strips: number of strips of filters.  blocks: number of blocks of an image.  pixels: pixels
     * in a block. */
    int64_t strips, blocks, pixels;
    /* number of tasks that share one block of pixels; each computes some strips of filters */
    int64_t parts;
};

/* ---- copying the image ----------------------------------------------------------------------- */

typedef uint8_t sixteen __attribute__((vector_size(16)));

/* Copies bytes and XORs each with `flip`.  A flip of 128 adds 128 to signed bytes, which makes them
 * unsigned; 0 changes nothing. */
static void flip_bytes(char *to, const char *from, int64_t count, int flip)
{
    const sixteen all = (sixteen){ 0 } + (uint8_t)flip;
    int64_t i = 0;

    for (; i + 16 <= count; i += 16) {
        sixteen bytes;

        memcpy(&bytes, from + i, 16);
        bytes ^= all;
        memcpy(to + i, &bytes, 16);
    }
    for (; i < count; i++)
        to[i] = (char)(from[i] ^ flip);
}

typedef int16_t pairs __attribute__((vector_size(32)));
typedef int8_t signed_sixteen __attribute__((vector_size(16)));

/* Extends 8-bit integers to 16 bits: signed ones if `sign`, else unsigned ones. */
static void widen_bytes_to_16(char *to, const char *from, int64_t count, bool sign)
{
    int64_t i = 0;

    for (; i + 16 <= count; i += 16)
        widen_bytes(from + i, sign, to + 2 * i);
    for (; i < count; i++) {
        int16_t p = sign ? (int8_t)from[i] : (uint8_t)from[i];

        memcpy(to + 2 * i, &p, 2);
    }
}

/* Interleaves sixteen bytes of each of `group` rows into sixteen words.  A word has four bytes
 * (group 4), or two elements that are widened to 16 bits (group 2). */
static void join_words(int group, const char *const *row, bool sign, char *to)
{
    if (group == 4)
        join_four(row, to);
    else
        join_two_widened(row, sign, to);
}

/* Copies every second byte.  The last bytes are copied one by one, so that nothing past the last
 * byte is read. */
static void copy_every_second(char *to, const char *from, int64_t count)
{
    int64_t i = 0;

    for (; i + 17 <= count; i += 16) {
        pairs p;
        sixteen even;

        memcpy(&p, from + 2 * i, sizeof p);
        even = (sixteen) __builtin_convertvector(p, signed_sixteen);
        memcpy(to + i, &even, sizeof even);
    }
    for (; i < count; i++)
        to[i] = from[2 * i];
}

/* Gathers up to sixteen pixels of a channel, `step` bytes apart, into 16 bytes at `to`.  Bytes from
 * `count` on may have any value.  A channel that does not exist gives zeros. */
static void gather_channel(const struct windows *x, int64_t channel, const char *at,
                           const char *end, int64_t count, char *to)
{
    int64_t step = x->from.col;

    memset(to, 0, 16);
    if (channel < x->channels && step == 2 && end - at >= 32) {
        pairs p;
        sixteen even;

        memcpy(&p, at, sizeof p);
        even = (sixteen) __builtin_convertvector(p, signed_sixteen);
        memcpy(to, &even, sizeof even);
        return;
    }
    for (int64_t l = 0; l < count && channel < x->channels; l++)
        to[l] = at[l * step];
}

/* Transposes up to sixteen pixels of up to sixteen groups of channels from NCHW to NHWC.  May read
 * past the last pixel, but not at or beyond `end`. */
static void transpose_pixels(const struct windows *x, const char *from, const char *end,
                             int64_t count, int64_t group, char *to)
{
    char words[16][64], turned[16][64], ends[4][16];
    int64_t groups = smaller(x->groups - group, 16);
    const char *line[16];

    for (int64_t g = 0; g < 16; g++) {
        const char *row[4] = { ends[0], ends[1], ends[2], ends[3] };

        line[g] = words[g < groups ? g : 0];
        for (int64_t q = 0; q < x->group && g < groups; q++) {
            int64_t channel = x->group * (group + g) + q;
            const char *at = from + channel * x->from.channel;

            if (channel < x->channels && x->from.col == 1 && end - at >= 16)
                row[q] = at;
            else
                gather_channel(x, channel, at, end, count, ends[q]);
        }
        if (g < groups) {
            join_words(x->group, row, x->sign, words[g]);
            if (x->flip)
                flip_bytes(words[g], words[g], 64, x->flip);
        }
    }
    if (x->groups == 1) {
        memcpy(to, words[0], (size_t)(4 * count));
    } else if (count == 16) {
        limber_transpose_here()(line, 4, (int)groups, to, x->window.col, 16);
    } else {
        limber_transpose_here()(line, 4, (int)groups, turned[0], 64, 16);
        for (int64_t l = 0; l < count; l++)
            memcpy(to + l * x->window.col, turned[l], (size_t)(4 * groups));
    }
}

/* Copies `count` pixels of `words` bytes each and XORs each byte with `flip`.  Pixels are `step`
 * bytes apart at `from`, and `to_step` bytes apart at `to`. */
static inline __attribute__((always_inline)) void copy_words(char *to, int64_t to_step,
                                                             const char *from, int64_t step,
                                                             int64_t words, int64_t count, int flip)
{
    const uint32_t all = 0x01010101u * (unsigned)flip;

    for (int64_t l = 0; l < count; l++, from += step, to += to_step)
        for (int64_t i = 0; i < words; i += 4) {
            uint32_t word;

            memcpy(&word, from + i, 4);
            word ^= all;
            memcpy(to + i, &word, 4);
        }
}

typedef int8_t four_bytes __attribute__((vector_size(4)));
typedef int16_t four_pairs __attribute__((vector_size(8)));

/* Copies NHWC pixels and widens their bytes to 16 bits.  Reads nothing at or beyond `end`. */
static void widen_pixels(const struct windows *x, const char *from, const char *end, int64_t count,
                         char *to)
{
    const int64_t step = x->from.col, words = 4 * x->groups, to_step = x->window.col;
    const four_pairs mask = (four_pairs){ 0 } + (int16_t)(x->sign ? -1 : 0xff);

    if (step == x->channels && 2 * step == to_step) {
        widen_bytes_to_16(to, from, step * count, x->sign);
        return;
    }
    /* one instruction widens the four bytes of a pixel */
    for (; count > 0 && words == 8 && end - from >= 4; count--, from += step, to += 8) {
        four_bytes some;
        four_pairs p;

        memcpy(&some, from, 4);
        p = __builtin_convertvector(some, four_pairs);
        p &= mask;
        memcpy(to, &p, 8);
    }
    for (; count > 0; count--, from += step, to += to_step) {
        memset(to + words - 4, 0, 4);
        widen_bytes_to_16(to, from, x->channels, x->sign);
    }
}

/* Copies NHWC pixels.  Reads nothing at or beyond `end`.  Bytes of the last word for which the
 * image has no channels may have any value, since filters have zeros there. */
static void copy_pixels(const struct windows *x, const char *from, const char *end, int64_t count,
                        char *to)
{
    const int64_t step = x->from.col, words = 4 * x->groups, to_step = x->window.col;

    if (x->group == 2) {
        widen_pixels(x, from, end, count, to);
        return;
    }
    if (step == to_step && x->channels == to_step) {
        flip_bytes(to, from, words * count, x->flip);
        return;
    }
    /* The last pixels are copied channel by channel, since copying their last full words would read
     * at or beyond `end`. */
    for (; count > 0 && end - (from + (count - 1) * step) < words; count--)
        flip_bytes(to + (count - 1) * to_step, from + (count - 1) * step, x->channels, x->flip);
    if (words == 4) /* a constant length lets the compiler inline the copy, for RGB images */
        copy_words(to, 4, from, step, 4, count, x->flip);
    else
        copy_words(to, to_step, from, step, words, count, x->flip);
}

/* Interleaves `count` pixels of an NCHW image with at most four channels: copies them to NHWC
 * with one 32-bit word per pixel.  The panels' packing code copies up to BYTES_PANEL pixels at
 * a time; an incomplete last panel is written to `end` first, so that nothing past its pixels is
 * changed. */
static void interleave_four_channels(const struct windows *x, const char *from, int64_t count,
                                     char *to)
{
    uint8_t end[4 * BYTES_PANEL];

    for (int64_t i = 0; i < count; i += BYTES_PANEL) {
        const int64_t pixels = smaller(count - i, BYTES_PANEL);
        uint8_t *words = pixels < BYTES_PANEL ? end : (uint8_t *)to + 4 * i;

        x->code.join(&(struct byte_panel){ .image = (const uint8_t *)from + i,
                                           .channel = x->from.channel,
                                           .channels = x->channels,
                                           .pixels = pixels,
                                           .flip = x->flip,
                                           .sign = x->sign,
                                           .panel = words });
        if (words == end)
            memcpy(to + 4 * i, end, (size_t)(4 * pixels));
    }
}

/* Copies an NCHW image of three or four channels as two words of 16-bit elements per pixel.  If
 * there is no fourth channel, the third is stored twice. */
static void fill_two_words(const struct windows *x, const char *from, int64_t count, char *to)
{
    for (int64_t i = 0; i < count; i += 16) {
        const int64_t pixels = smaller(count - i, 16);
        char ends[4][16] = { { 0 } }, words[64];
        const char *row[4];

        for (int64_t q = 0; q < 4; q++) {
            const char *at = from + i + smaller(q, x->channels - 1) * x->from.channel;

            row[q] = pixels < 16 ? ends[q] : at;
            if (pixels < 16)
                memcpy(ends[q], at, (size_t)pixels);
        }
        join_four(row, words);
        widen_bytes_to_16(to + 8 * i, words, 4 * pixels, x->sign);
    }
}

/* Task: copies a row of the image with its padding.  row: number among the rows of all planes. */
static void fill_row(const struct launch_state *j, int64_t row)
{
    const struct windows *x = j->x;
    const struct patch *from = &x->from, *to = &x->window;
    int64_t y = row % to->h + x->first[0], image = row / to->h / x->deep;
    int64_t z = row / to->h % x->deep + x->first[2];
    char *at = (char *)j->copy + row * to->row;
    /* columns [begin, stop) of the copy are pixels; all other columns are padding */
    int64_t begin = x->first[1] < 0 ? smaller(-x->first[1], to->w) : 0;
    int64_t stop = smaller(from->w - x->first[1], to->w), column;
    const char *data = x->call->b.data, *line, *end;

    if (y < 0 || y >= from->h || z < 0 || z >= from->d || stop <= begin) {
        memset(at, x->flip, (size_t)to->row);
        return;
    }
    memset(at, x->flip, (size_t)(begin * to->col));
    memset(at + stop * to->col, x->flip, (size_t)((to->w - stop) * to->col));
    line = data + image * from->image + z * from->plane + y * from->row +
           (x->first[1] + begin) * from->col;
    /* address just past the last byte of the image */
    end = data + (x->images / from->od - 1) * from->image + (x->channels - 1) * from->channel +
          (from->d - 1) * from->plane + (from->h - 1) * from->row + (from->w - 1) * from->col + 1;
    if (from->channel == 1) {
        copy_pixels(x, line, end, stop - begin, at + begin * to->col);
        return;
    }
    if (x->groups == 1 && from->col == 1) {
        interleave_four_channels(x, line, stop - begin, at + begin * to->col);
        return;
    }
    if (x->groups == 2 && x->group == 2 && from->col == 1) {
        fill_two_words(x, line, stop - begin, at + begin * to->col);
        return;
    }
    for (column = begin; column < stop; column += 16)
        for (int64_t g = 0; g < x->groups; g += 16)
            transpose_pixels(x, line + (column - begin) * from->col, end,
                             smaller(stop - column, 16), g, at + column * to->col + 4 * g);
}

/* Task: copies the pixels of one channel of one NCHW image. */
static void fill_channel(const struct launch_state *j, int64_t task)
{
    const struct windows *x = j->x;
    const struct patch *from = &x->from, *to = &x->window;
    const int64_t image = task / x->channels, channel = task % x->channels;
    char *at = (char *)j->copy + image * to->image + channel * to->channel;
    const char *line = (const char *)x->call->b.data + image / from->od * from->image +
                       image % from->od * from->plane + channel * from->channel;

    for (int64_t y = 0; y < from->oh; y++, line += from->row, at += from->ow)
        if (from->col == 1)
            memcpy(at, line, (size_t)from->ow);
        else if (from->col == 2)
            copy_every_second(at, line, from->ow);
        else
            for (int64_t i = 0; i < from->ow; i++)
                at[i] = line[i * from->col];
}

/* ---- packed filters -------------------------------------------------------------------------- */

/* Sets the start values of a filter unit's sums: minus the sums that an image would give if all its
 * bytes were `flip`. */
static void start_sums(const struct launch_state *j, const int8_t *filters, int64_t step,
                       int32_t *start)
{
    const uint8_t flip[4] = { (uint8_t)j->x->flip, (uint8_t)j->x->flip, (uint8_t)j->x->flip,
                              (uint8_t)j->x->flip },
                  *line = flip;
    int32_t sums[BYTES_UNIT], zero[BYTES_UNIT] = { 0 };

    if (!j->x->flip) {
        memcpy(start, zero, sizeof zero);
        return;
    }
    j->x->code.run(&(struct byte_strip){ .line = &line,
                                         .pixels = 1,
                                         .at = j->nowhere,
                                         .words = j->x->words,
                                         .units = 1,
                                         .filters = filters,
                                         .step = step,
                                         .start = zero,
                                         .to = sums,
                                         .count = BYTES_UNIT });
    for (int l = 0; l < BYTES_UNIT; l++)
        start[l] = -sums[l];
}

/* Returns the number of the first filter unit (sixteen filters) of a strip.  Units are divided
 * among strips as evenly as possible.  The units of a strip are interleaved word by word. */
static int64_t first_unit(const struct launch_state *j, int64_t strip)
{
    return strip * j->x->units / j->strips;
}

/* Interleaves `columns` columns (filters) from `column` on, whose rows are contiguous, into words
 * of `group` rows of k. */
static void join_rows(const struct windows *x, int64_t column, int64_t columns, char *to,
                      int64_t stride)
{
    const struct view *v = &x->call->a;
    const char *data = (const char *)v->data + column;

    for (int64_t p = 0; p < x->words; p++, to += stride) {
        char ends[4][16] = { { 0 } };
        const char *row[4];

        for (int64_t q = 0; q < x->group; q++) {
            const char *at = data + (x->group * p + q) * v->p;

            row[q] = ends[q];
            if (x->group * p + q >= x->call->k)
                continue;
            if (columns == BYTES_UNIT)
                row[q] = at;
            else
                memcpy(ends[q], at, (size_t)columns);
        }
        join_words(x->group, row, true, to);
    }
}

/* Transposes up to sixteen filters into words.  Filters that are widened to 16 bits are first
 * stored as bytes in the second half of the filter's memory. */
static void transpose_filters(const struct windows *x, int64_t filter, int64_t filters, char *room,
                              char *to, int64_t stride)
{
    const int64_t elements = x->group * x->words, later = 4 * x->words - elements;
    const struct filters order = { .taps = x->taps, .k = elements, .group = x->group };
    int64_t whole = x->words / 16 * 16, step = round_up(4 * x->words + 64, 64);
    const char *line[BYTES_UNIT];

    for (int64_t l = 0; l < BYTES_UNIT; l++) {
        int64_t own = smaller(l, filters - 1);

        line[l] =
            x->in_order ? limber_filter_address(&x->call->a, filter + own, 1) : room + own * step;
        if (l < filters && !x->in_order)
            limber_transpose_filter(&order, &x->call->a, x->call->k, 1, filter + l,
                                    room + l * step + later);
        if (x->group == 4)
            continue;
        if (l < filters)
            widen_bytes_to_16(room + l * step, x->in_order ? line[l] : room + l * step + later,
                              elements, true);
        line[l] = room + own * step;
    }
    limber_transpose_here()(line, 4, BYTES_UNIT, to, stride, whole);
    for (int64_t p = whole; p < x->words; p++)
        for (int64_t l = 0; l < BYTES_UNIT; l++)
            memcpy(to + p * stride + 4 * l, line[l] + 4 * p, 4);
}

/* Packs a unit of sixteen filters after the start values of its sums. room: scratch memory. */
static void pack_unit(const struct launch_state *j, int64_t unit, char *room)
{
    const struct windows *x = j->x;
    int64_t filter = unit * BYTES_UNIT, filters = smaller(x->call->m - filter, BYTES_UNIT);
    int64_t strip = ((unit + 1) * j->strips - 1) / x->units, first = first_unit(j, strip);
    int64_t stride = (first_unit(j, strip + 1) - first) * BYTES_UNIT * 4;
    char *to = (char *)j->filters + first * unit_bytes(x) + (unit - first) * BYTES_UNIT * 4;

    if (x->call == &x->turned && x->call->a.line == 1)
        join_rows(x, filter, filters, to + stride, stride);
    else
        transpose_filters(x, filter, filters, room, to + stride, stride);
    start_sums(j, (const int8_t *)to + stride, stride, (int32_t *)(void *)to);
}

/* ---- tasks: packing, then blocks of sums ----------------------------------------------------- */

/* Task: copies a row or a channel of the image, or packs a unit of sixteen filters. */
static void run_packing(void *arg, int64_t task, int worker)
{
    const struct launch_state *j = arg;

    if (task < j->image_tasks && j->x->planes)
        fill_channel(j, task);
    else if (task < j->image_tasks)
        fill_row(j, task);
    else
        pack_unit(j, task - j->image_tasks, j->rooms + worker * j->room);
}

/* Stores sums[pixel][filter] to C, whose rows are filters, by transposing blocks of 16 x 16. */
static void store_filter_rows(const struct output_view *v, const int32_t *sums, int64_t row,
                              int64_t filter, int64_t filters, int64_t pixel, int64_t pixels)
{
    char *to = limber_output_at(v, filter, pixel, 4);

    for (int64_t f = 0; f < filters; f += 16)
        for (int64_t i = 0; i < pixels; i += 16) {
            int64_t count = smaller(pixels - i, 16);
            const char *line[16];

            for (int64_t l = 0; l < 16; l++)
                line[l] = (const char *)(sums + (i + smaller(l, count - 1)) * row + f);
            if (f + 16 <= filters)
                limber_transpose_here()(line, 4, (int)count, to + (f * v->row + i) * 4, v->row * 4,
                                        16);
            for (int64_t g = f; g < filters && f + 16 > filters; g++)
                for (int64_t l = 0; l < count; l++)
                    memcpy(to + (g * v->row + i + l) * 4, line[l] + 4 * (g - f), 4);
        }
}

/* Returns the address of the first byte that the windows of one plane of the result read.  It may
 * lie in padding. */
static const uint8_t *plane_seen(const struct windows *x, const uint8_t *image, int64_t plane)
{
    const struct patch *w = &x->window;

    return image + plane / w->od * w->image +
           (plane % w->od * w->stride[2] - w->pad[2] - x->first[2]) * w->plane;
}

/* Sets line[i] to the address of the window of output pixel `first` + i. */
static void find_lines(const struct launch_state *j, const uint8_t *image, int64_t first,
                       int64_t count, const uint8_t **line)
{
    const struct windows *x = j->x;
    const struct patch *w = &x->window;
    int64_t column = first % w->ow, step = w->stride[1] * w->col;
    const uint8_t *at = image + (first / w->ow * w->stride[0] - w->pad[0] - x->first[0]) * w->row +
                        (column * w->stride[1] - w->pad[1] - x->first[1]) * w->col;

    for (int64_t l = 0; l < count; l++, at += step) {
        line[l] = at;
        if (++column == w->ow) {
            column = 0;
            at += w->stride[0] * w->row - w->ow * step;
        }
    }
}

/* Applies the caller's epilogue to a block of C whose sums are final. */
static void finish_block(const struct windows *x, int64_t filter, int64_t filters, int64_t pixel,
                         int64_t pixels)
{
    const struct finisher *f = x->call->finish;

    if (f && x->call == &x->turned)
        f->block(f, pixel, pixels, filter, filters);
    else if (f)
        f->block(f, filter, filters, pixel, pixels);
}

/* Multiplies a block of pixels, which begins at C's column `pixel`, by a strip of filters, and
 * stores the result.  sums: scratch memory; if the image keeps its NCHW order, it holds the packed
 * pixels. */
static void sum_strip(const struct launch_state *j, int64_t strip, struct byte_strip *s,
                      int64_t pixel, int32_t *sums)
{
    const struct windows *x = j->x;
    int64_t unit = first_unit(j, strip), units = first_unit(j, strip + 1) - unit;
    int64_t filter = unit * BYTES_UNIT;
    const char *packed = (const char *)j->filters + unit * unit_bytes(x);

    s->units = (int)units;
    s->step = units * BYTES_UNIT * 4;
    s->start = (const int32_t *)(const void *)packed;
    s->filters = (const int8_t *)packed + s->step;
    s->count = smaller(units * BYTES_UNIT, x->call->m - filter);
    s->to = sums;
    s->row = units * BYTES_UNIT;
    if (x->planes) {
        s->row = x->call->c.row;
        s->to = (int32_t *)(void *)limber_output_at(&x->call->c, filter, pixel, 4);
        x->code.planes(s, (const uint8_t *)sums);
        finish_block(x, filter, s->count, pixel, s->pixels);
        return;
    }
    if (x->across) {
        s->row = x->call->c.col;
        s->to = (int32_t *)(void *)limber_output_at(&x->call->c, filter, pixel, 4);
    }
    x->code.run(s);
    if (!x->across)
        store_filter_rows(&x->call->c, sums, s->row, filter, s->count, pixel, s->pixels);
    finish_block(x, filter, s->count, pixel, s->pixels);
}

/* Task: computes a block of an image's output pixels for some strips of output channels.  If the
 * image keeps its NCHW order, first packs the input pixels of the block; else first finds the
 * addresses of the windows. */
static void run_block(void *arg, int64_t task, int worker)
{
    const struct launch_state *j = arg;
    const struct windows *x = j->x;
    int64_t pixels = x->window.oh * x->window.ow, part = task % j->parts;
    int64_t first = task / j->parts % j->blocks * j->pixels, image = task / j->parts / j->blocks;
    char *room = j->rooms + worker * j->room;
    const uint8_t **line = (const uint8_t **)(void *)room;
    int32_t *sums = (int32_t *)(void *)(room + PIXELS * sizeof(void *));
    struct byte_strip s = { .line = line,
                            .pixels = smaller(j->pixels, pixels - first),
                            .at = j->at,
                            .words = x->words,
                            .flip = x->flips ? (int32_t)0x80808080 : 0 };

    if (x->planes) {
        sums = (int32_t *)(void *)room;
        x->code.join(&(struct byte_panel){ .image = plane_seen(x, j->image, image) + first,
                                           .channel = x->window.channel,
                                           .channels = x->channels,
                                           .pixels = s.pixels,
                                           .flip = x->flip,
                                           .sign = x->sign,
                                           .panel = (uint8_t *)room });
    } else {
        find_lines(j, plane_seen(x, j->image, image), first, s.pixels, line);
    }
    for (int64_t strip = part * j->strips / j->parts; strip < (part + 1) * j->strips / j->parts;
         strip++)
        sum_strip(j, strip, &s, image * pixels + first, sums);
}

/* ---- a launch of all tasks ------------------------------------------------------------------- */

/* Sets at[] to the byte offsets of a window's words, in the order of the filters' words. */
static void set_words(const struct windows *x, int64_t *at)
{
    const struct patch *w = &x->window;

    for (int64_t i = 0; i < x->words; i++) {
        int64_t g = x->in_order ? i % x->groups : i / x->taps;
        int64_t tap = x->in_order ? i / x->groups : i % x->taps, row = tap / w->s;

        at[i] = 4 * g + row / w->r * w->dilate[2] * w->plane + row % w->r * w->dilate[0] * w->row +
                tap % w->s * w->dilate[1] * w->col;
    }
}

/* Divides each output image into blocks of pixels.  If tasks are too few for the workers, blocks
 * become smaller; if tasks are still too few, the strips of a block are divided among several
 * tasks. */
static void divide_work(struct launch_state *j)
{
    const struct windows *x = j->x;
    int64_t pixels = x->from.oh * x->from.ow, busy = limber_runner_busy(x->call->runner);
    int64_t tasks = busy > 1 ? TASKS * busy : 1, most = x->planes ? BYTES_PANEL : PIXELS;

    j->strips = ceil_div(x->units, x->code.units);
    j->blocks = ceil_div(pixels, most);
    while (x->images * j->blocks < tasks && j->blocks < ceil_div(pixels, LEAST))
        j->blocks++;
    j->pixels = ceil_div(pixels, j->blocks);
    if (!x->across) /* tasks write full cache lines of C */
        j->pixels = smaller(round_up(j->pixels, 16), most);
    j->blocks = ceil_div(pixels, j->pixels);
    j->parts = x->images * j->blocks < tasks ? smaller(j->strips, tasks) : 1;
}

/* Computes an accepted launch: copies the image and packs filters, then computes blocks of C. */
void limber_windows_run(const struct windows *x, char *memory)
{
    const struct runner *runner = x->call->runner;
    const struct keeper *keep = x->call->keep[0];
    struct launch_state j = { .x = x };
    struct kept_limbs *kept;

    memory = limber_aligned(memory);
    j.at = (int64_t *)(void *)limber_take_memory(&memory, 16 * x->words);
    j.nowhere = j.at + x->words;
    memset(j.nowhere, 0, (size_t)x->words * sizeof *j.nowhere);
    j.copy = (uint8_t *)limber_take_memory(&memory, (int64_t)image_bytes(x));
    j.image = x->copies ? j.copy : x->call->b.data;
    j.filters = (int8_t *)limber_take_memory(&memory, filters_bytes(x));
    j.room = worker_bytes(x);
    j.rooms = memory;
    divide_work(&j);
    set_words(x, j.at);
    kept = keep ? keep->alloc(keep->self, KEPT_windows, (size_t)filters_bytes(x)) : NULL;
    if (kept)
        j.filters = (int8_t *)(void *)kept->memory;
    j.image_tasks = !x->copies ? 0 :
                    x->planes  ? x->images * x->channels :
                                 x->images / x->from.od * x->deep * x->window.h;
    j.filter_tasks = kept && kept->packed ? 0 : x->units;
    runner->run(runner->self, j.image_tasks + j.filter_tasks, run_packing, &j);
    if (kept && !kept->packed)
        keep->packed(keep->self, kept);
    runner->run(runner->self, x->images * j.blocks * j.parts, run_block, &j);
    if (kept)
        keep->free(keep->self, kept);
}
