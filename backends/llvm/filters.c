/* SPDX-License-Identifier: BSD-3-Clause
 * Transposes filters whose elements lie in memory in another order than the product's k: the
 * channels of a tap are contiguous, or k consists of words of several channels.  A task transposes
 * its filters before it packs them, so that memory is read in order. */
#include "backends/llvm/kernel/join.h"
#include "backends/llvm/part.h"

/* Strides of a filter in elements: element (channel c, row y, column x) is at c * channel + y *
 * row + x * col.  The filter has r x s elements (taps) for each channel, and `size` is bytes per
 * element. */
struct filter_strides {
    int64_t channel, row, col, r, s, channels;
    int size;
};

/* True if A's rows are read as windows that each cover a full image, as filters are; k then runs
 * through the image channel by channel. */
static bool is_window_over_whole_image(const struct call *c)
{
    const struct patch *w = c->a.patch;

    return w && !w->depth && !w->t && !w->transposed && !c->a.tile_subset && w->oh == 1 &&
           w->ow == 1 && w->h == w->r && w->w == w->s && w->pad[0] == 0 && w->pad[1] == 0 &&
           w->dilate[0] == 1 && w->dilate[1] == 1;
}

/* True if filters can be transposed to words of channels.  In a deep image k treats planes like
 * channels, which does not match the elements of filters in NHWC order. */
bool limber_can_transpose_filters(const struct call *c)
{
    return is_window_over_whole_image(c) ? !c->b.patch || !c->b.patch->t :
                                           limber_view_strided(&c->a) && !c->a.tile_subset;
}

/* Returns the order in which A is packed along k: words of several channels if the image is
 * packed in such words. */
struct filters limber_filter_order(const struct kernel_config *f, const struct call *c, bool planes)
{
    const struct patch *w = c->b.patch;
    struct filters x = { .group = planes ? limber_planes_group(f, c) : 1 };

    x.taps = is_window_over_whole_image(c) ? c->a.patch->r * c->a.patch->s :
             x.group > 1                   ? w->r * w->s :
                                             1;
    x.turned = is_window_over_whole_image(c) || (x.group > 1 && x.taps > 1);
    x.k = c->k;
    if (x.group > 1 && x.taps > 1)
        x.k = round_up(c->k / x.taps, x.group) * x.taps;
    return x;
}

/* Returns the bytes of a worker's buffer for the transposed lines of one task. */
int64_t limber_transposed_bytes(const struct kernel_config *f, const struct filters *x)
{
    int64_t lines = f->side[0].lines > KERNEL_LANES ? f->side[0].lines : KERNEL_LANES;

    return x->turned ? round_up(lines * x->k * f->side[0].f.size + 128, 64) : 0;
}

/* Returns the strides of the elements of a filter.  k: number of elements of a filter in memory. */
static struct filter_strides filter_strides_of(const struct view *v, const struct filters *x,
                                               int64_t k, int size)
{
    const struct patch *w = v->patch;

    if (w)
        return (struct filter_strides){ w->channel, w->row, w->col, w->r, w->s, k / x->taps, size };
    return (struct filter_strides){ x->taps * v->p, 0, v->p, 1, x->taps, k / x->taps, size };
}

/* Copies `count` runs of `bytes` bytes.  Steps are distances in bytes from one run to the next. */
static inline __attribute__((always_inline)) void copy_runs(char *to, int64_t to_step,
                                                            const char *from, int64_t from_step,
                                                            int64_t count, size_t bytes)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * to_step, from + i * from_step, bytes);
}

/* Copies `count` runs of `bytes` bytes, with a constant length for each usual size, so that the
 * compiler inlines the copy. */
static void copy_apart(char *to, int64_t to_step, const char *from, int64_t from_step,
                       int64_t count, size_t bytes)
{
    switch (bytes) {
    case 1: copy_runs(to, to_step, from, from_step, count, 1); break;
    case 2: copy_runs(to, to_step, from, from_step, count, 2); break;
    case 4: copy_runs(to, to_step, from, from_step, count, 4); break;
    case 8: copy_runs(to, to_step, from, from_step, count, 8); break;
    case 16: copy_runs(to, to_step, from, from_step, count, 16); break;
    case 32: copy_runs(to, to_step, from, from_step, count, 32); break;
    default: copy_runs(to, to_step, from, from_step, count, bytes); break;
    }
}

/* Transposes one tap of the channel groups [first, end), of `group` channels each.  `step` is the
 * distance in elements between groups at `to`. */
static void transpose_tap(const struct filter_strides *s, const char *from, int64_t first,
                          int64_t end, int group, int64_t step, char *to)
{
    const int64_t size = s->size, each = s->channel * size;
    int64_t whole = s->channels / group < end ? s->channels / group : end;
    int64_t groups = whole > first ? whole - first : 0;

    from += first * group * each;
    if (s->channel == 1)
        copy_apart(to, step * size, from, group * size, groups, (size_t)(group * size));
    for (int i = 0; i < group && s->channel != 1; i++)
        copy_apart(to + i * size, step * size, from + i * each, group * each, groups, (size_t)size);
    if (first + groups == end)
        return;
    to += groups * step * size;
    memset(to, 0, (size_t)(group * size)); /* zeros for channels that the last group lacks */
    copy_apart(to, size, from + groups * group * each, each, s->channels - whole * group,
               (size_t)size);
}

typedef int64_t four_longs __attribute__((vector_size(32)));
typedef int32_t four_ints __attribute__((vector_size(16)));
typedef int16_t four_shorts __attribute__((vector_size(8)));

/* Transposes a 4 x 4 matrix: four elements of each of four rows. */
#define TURN_FOUR(vector, row, to) \
    do { \
        vector r[4], low[2], high[2]; \
\
        for (int i = 0; i < 4; i++) \
            memcpy(&r[i], (row)[i], sizeof r[i]); \
        for (int i = 0; i < 2; i++) { \
            low[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 4, 1, 5); \
            high[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 6, 3, 7); \
        } \
        r[0] = __builtin_shufflevector(low[0], low[1], 0, 1, 4, 5); \
        r[1] = __builtin_shufflevector(low[0], low[1], 2, 3, 6, 7); \
        r[2] = __builtin_shufflevector(high[0], high[1], 0, 1, 4, 5); \
        r[3] = __builtin_shufflevector(high[0], high[1], 2, 3, 6, 7); \
        memcpy(to, r, sizeof r); \
    } while (0)

/* Interleaves four channels, element by element.  Each channel has 16 elements of 1 byte, or four
 * elements of another size. */
static void interleave_four(const char *const row[4], int size, char *to)
{
    switch (size) {
    case 1: join_four(row, to); break;
    case 2: TURN_FOUR(four_shorts, row, to); break;
    case 4: TURN_FOUR(four_ints, row, to); break;
    default: TURN_FOUR(four_longs, row, to); break;
    }
}

typedef int64_t two_longs __attribute__((vector_size(16)));
typedef int16_t eight_shorts __attribute__((vector_size(16)));

/* Interleaves the elements of two rows and stores two vectors at `to`: first those from the rows'
 * lower halves, then those from the upper halves. */
#define TURN_TWO(vector, row, to, low, high) \
    do { \
        vector r[2], turned; \
\
        memcpy(&r[0], (row)[0], sizeof r[0]); \
        memcpy(&r[1], (row)[1], sizeof r[1]); \
        turned = __builtin_shufflevector(r[0], r[1], LIST low); \
        memcpy(to, &turned, sizeof turned); \
        turned = __builtin_shufflevector(r[0], r[1], LIST high); \
        memcpy((to) + sizeof turned, &turned, sizeof turned); \
    } while (0)
/* removes the parentheses around a list of indices */
#define LIST(...) __VA_ARGS__

/* Interleaves two channels of 16 bytes each, element by element. */
static void interleave_two(const char *const row[2], int size, char *to)
{
    switch (size) {
    case 1: join_two(row, to); break;
    case 2:
        TURN_TWO(eight_shorts, row, to, (0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15));
        break;
    case 4: TURN_TWO(four_ints, row, to, (0, 4, 1, 5), (2, 6, 3, 7)); break;
    default: TURN_TWO(two_longs, row, to, (0, 2), (1, 3)); break;
    }
}

/* Transposes the channel groups [first, end) of a filter whose taps are contiguous within a
 * channel, by interleaving two or four channels at a time. */
static inline __attribute__((always_inline)) void interleave_taps(const struct filter_strides *s,
                                                                  const char *from, int64_t first,
                                                                  int64_t end, int group, char *to)
{
    int64_t taps = s->r * s->s, row = taps * s->size, all = s->channels * taps, q = first;
    /* elements of a channel that one call interleaves */
    int64_t once = group == 2 ? 16 / s->size : s->size == 1 ? 16 : 4;

    for (; q < end; q++, to += group * row) {
        const char *at = from + group * q * row;

        /* stop where the vectors would read past the last channel */
        if ((group * (q + 1) - 1) * taps + round_up(taps, once) > all)
            break;
        for (int64_t t = 0; t < row && group == 2; t += once * s->size)
            interleave_two((const char *[]){ at + t, at + row + t }, s->size, to + 2 * t);
        for (int64_t t = 0; t < row && group == 4; t += once * s->size)
            interleave_four(
                (const char *[]){ at + t, at + row + t, at + 2 * row + t, at + 3 * row + t },
                s->size, to + 4 * t);
    }
    /* the last groups: channels are missing, or vectors would read past the last channel */
    for (int64_t t = 0; t < taps && q < end; t++)
        transpose_tap(s, from + t * s->size, q, end, group, group * taps, to + group * t * s->size);
}

/* Transposes the channel groups [first, end) of one filter, from `from` to `to`. */
static void transpose_line(const struct filter_strides *s, const char *from, int64_t first,
                           int64_t end, int group, char *to)
{
    int64_t taps = s->r * s->s;

    to += first * group * taps * s->size;
    if (s->size <= 8 && (group == 2 || group == 4) && s->col == 1 && s->channel == taps &&
        (s->r == 1 || s->row == s->s)) {
        if (group == 2)
            interleave_taps(s, from, first, end, 2, to);
        else
            interleave_taps(s, from, first, end, 4, to);
        return;
    }
    for (int64_t t = 0; t < taps; t++)
        transpose_tap(s, from + (t / s->s * s->row + t % s->s * s->col) * s->size, first, end,
                      group, group * taps, to + t * group * s->size);
}

/* Returns the address of the first element of a filter (row of A).  size: bytes per element. */
const char *limber_filter_address(const struct view *v, int64_t line, int size)
{
    const struct patch *w = v->patch;

    return (const char *)v->data + (w ? w->origin + line * w->image : line * v->line) * size;
}

/* Transposes one filter into the order of struct filters. */
void limber_transpose_filter(const struct filters *x, const struct view *v, int64_t k, int size,
                             int64_t line, char *to)
{
    const struct filter_strides s = filter_strides_of(v, x, k, size);

    transpose_line(&s, limber_filter_address(v, line, size), 0, x->k / (x->taps * x->group),
                   x->group, to);
}

/* Transposes the filters that one packing task reads, and returns a call whose A is the transposed
 * copy. */
struct kernel_call limber_transposed_call(const struct part *p, int64_t task, char *memory)
{
    struct kernel_call call = p->call;
    const struct filters *x = &p->filters;
    struct packed *o = &call.op[0];
    const struct view *v = &o->view;
    int size = call.config->side[0].f.size;
    const struct filter_strides s = filter_strides_of(v, x, call.view_k, size);
    int64_t from = task / call.cuts[0] * call.lines[0];
    int64_t to = smaller(from + call.lines[0], o->lines), p0 = task % call.cuts[0] * call.depth[0];
    int64_t each = x->taps * x->group, end = smaller(p0 + call.depth[0], x->k);

    for (int64_t i = from; i < to; i++)
        transpose_line(&s, limber_filter_address(v, o->line0 + i, size), p0 / each,
                       ceil_div(end, each), x->group, memory + (i - from) * x->k * size);
    o->view =
        (struct view){ .data = memory - (o->line0 + from) * x->k * size, .line = x->k, .p = 1 };
    return call;
}
