/* SPDX-License-Identifier: BSD-3-Clause
 * Filters whose elements do not lie in the order in which k takes them: the channels of a tap are
 * neighbours in memory, or the image's planes have words of several channels.  The lines of a task
 * are turned before they are packed, so that memory is read in its order. */
#include "backends/llvm/kernel/join.h"
#include "backends/llvm/part.h"

/* Where elements are: from + (channel c + row r + col s) elements. */
struct source {
    int64_t channel, row, col, r, s, channels;
    int size;
};

/* Windows that are whole images, as filters are, of which k takes the channels one by one. */
static bool are_filters(const struct call *c)
{
    const struct patch *w = c->a.patch;

    return w && !w->depth && !w->t && !w->transposed && !c->a.tile_subset && w->oh == 1 &&
           w->ow == 1 && w->h == w->r && w->w == w->s && w->pad[0] == 0 && w->pad[1] == 0 &&
           w->dilate[0] == 1 && w->dilate[1] == 1;
}

/* Into words of channels; planes of a deep image count as channels, which those of filters that lie
 * channel by channel do not. */
bool limber_can_turn(const struct call *c)
{
    return are_filters(c) ? !c->b.patch || !c->b.patch->t :
                            limber_view_strided(&c->a) && !c->a.tile_subset;
}

struct filters limber_filters(const struct kernel_config *f, const struct call *c, bool planes)
{
    const struct patch *w = c->b.patch;
    struct filters x = { .group = planes ? limber_planes_group(f, c) : 1 };

    x.taps = are_filters(c) ? c->a.patch->r * c->a.patch->s : x.group > 1 ? w->r * w->s : 1;
    x.turned = are_filters(c) || (x.group > 1 && x.taps > 1);
    x.k = c->k;
    if (x.group > 1 && x.taps > 1)
        x.k = round_up(c->k / x.taps, x.group) * x.taps;
    return x;
}

int64_t limber_turned_bytes(const struct kernel_config *f, const struct filters *x)
{
    int64_t lines = f->side[0].lines > KERNEL_LANES ? f->side[0].lines : KERNEL_LANES;

    return x->turned ? round_up(lines * x->k * f->side[0].f.size + 128, 64) : 0;
}

static struct source source_of(const struct view *v, const struct filters *x, int64_t k, int size)
{
    const struct patch *w = v->patch;

    if (w)
        return (struct source){ w->channel, w->row, w->col, w->r, w->s, k / x->taps, size };
    return (struct source){ x->taps * v->p, 0, v->p, 1, x->taps, k / x->taps, size };
}

/* Runs of `bytes`, `from_step` bytes apart, to places `to_step` bytes apart. */
static inline __attribute__((always_inline)) void copy_runs(char *to, int64_t to_step,
                                                            const char *from, int64_t from_step,
                                                            int64_t count, size_t bytes)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * to_step, from + i * from_step, bytes);
}

static void copy_apart(char *to, int64_t to_step, const char *from, int64_t from_step,
                       int64_t count, size_t bytes)
{
    switch (bytes) { /* of constant length */
    case 1: copy_runs(to, to_step, from, from_step, count, 1); break;
    case 2: copy_runs(to, to_step, from, from_step, count, 2); break;
    case 4: copy_runs(to, to_step, from, from_step, count, 4); break;
    case 8: copy_runs(to, to_step, from, from_step, count, 8); break;
    case 16: copy_runs(to, to_step, from, from_step, count, 16); break;
    case 32: copy_runs(to, to_step, from, from_step, count, 32); break;
    default: copy_runs(to, to_step, from, from_step, count, bytes); break;
    }
}

/* A tap of the groups of channels [first, end), `step` elements from one to the next. */
static void turn_tap(const struct source *s, const char *from, int64_t first, int64_t end,
                     int group, int64_t step, char *to)
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
    memset(to, 0, (size_t)(group * size)); /* what the last group has less */
    copy_apart(to, size, from + groups * group * each, each, s->channels - whole * group,
               (size_t)size);
}

typedef int64_t four_longs __attribute__((vector_size(32)));
typedef int32_t four_ints __attribute__((vector_size(16)));
typedef int16_t four_shorts __attribute__((vector_size(8)));

/* Four rows of four elements, as columns. */
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

/* Sixteen bytes, or four larger elements, of four channels. */
static void turn_taps(const char *const row[4], int size, char *to)
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

/* Two rows of 16 bytes, element by element in turn. */
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
#define LIST(...) __VA_ARGS__

static void turn_pairs(const char *const row[2], int size, char *to)
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

/* Groups of two or four channels whose taps are neighbours. */
static inline __attribute__((always_inline)) void
join_taps(const struct source *s, const char *from, int64_t first, int64_t end, int group, char *to)
{
    int64_t taps = s->r * s->s, row = taps * s->size, all = s->channels * taps, q = first;
    int64_t once = group == 2 ? 16 / s->size : s->size == 1 ? 16 : 4;

    for (; q < end; q++, to += group * row) {
        const char *at = from + group * q * row;

        /* nothing behind the last channel is read */
        if ((group * (q + 1) - 1) * taps + round_up(taps, once) > all)
            break;
        for (int64_t t = 0; t < row && group == 2; t += once * s->size)
            turn_pairs((const char *[]){ at + t, at + row + t }, s->size, to + 2 * t);
        for (int64_t t = 0; t < row && group == 4; t += once * s->size)
            turn_taps((const char *[]){ at + t, at + row + t, at + 2 * row + t, at + 3 * row + t },
                      s->size, to + 4 * t);
    }
    for (int64_t t = 0; t < taps && q < end; t++)
        turn_tap(s, from + t * s->size, q, end, group, group * taps, to + group * t * s->size);
}

/* Groups of channels [first, end) of a filter. */
static void turn_line(const struct source *s, const char *from, int64_t first, int64_t end,
                      int group, char *to)
{
    int64_t taps = s->r * s->s;

    to += first * group * taps * s->size;
    if (s->size <= 8 && (group == 2 || group == 4) && s->col == 1 && s->channel == taps &&
        (s->r == 1 || s->row == s->s)) {
        if (group == 2)
            join_taps(s, from, first, end, 2, to);
        else
            join_taps(s, from, first, end, 4, to);
        return;
    }
    for (int64_t t = 0; t < taps; t++)
        turn_tap(s, from + (t / s->s * s->row + t % s->s * s->col) * s->size, first, end, group,
                 group * taps, to + t * group * s->size);
}

const char *limber_line_at(const struct view *v, int64_t line, int size)
{
    const struct patch *w = v->patch;

    return (const char *)v->data + (w ? w->origin + line * w->image : line * v->line) * size;
}

void limber_turn_line(const struct filters *x, const struct view *v, int64_t k, int size,
                      int64_t line, char *to)
{
    const struct source s = source_of(v, x, k, size);

    turn_line(&s, limber_line_at(v, line, size), 0, x->k / (x->taps * x->group), x->group, to);
}

struct kernel_call limber_turned_call(const struct part *p, int64_t task, char *memory)
{
    struct kernel_call call = p->call;
    const struct filters *x = &p->filters;
    struct packed *o = &call.op[0];
    const struct view *v = &o->view;
    int size = call.config->side[0].f.size;
    const struct source s = source_of(v, x, call.view_k, size);
    int64_t from = task / call.cuts[0] * call.lines[0];
    int64_t to = smaller(from + call.lines[0], o->lines), p0 = task % call.cuts[0] * call.depth[0];
    int64_t each = x->taps * x->group, end = smaller(p0 + call.depth[0], x->k);

    for (int64_t i = from; i < to; i++)
        turn_line(&s, limber_line_at(v, o->line0 + i, size), p0 / each, ceil_div(end, each),
                  x->group, memory + (i - from) * x->k * size);
    o->view =
        (struct view){ .data = memory - (o->line0 + from) * x->k * size, .line = x->k, .p = 1 };
    return call;
}
