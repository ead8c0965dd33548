/* SPDX-License-Identifier: BSD-3-Clause
 * Planes of a convolution's image, one per channel or word of channels.  Decides whether a launch
 * uses planes, and sets their sizes and packing tasks.  kernel/planes.c packs planes and gathers
 * panels from them. */
#include "backends/llvm/part.h"

#include "ir/poison.h"

#include <string.h>

enum { STRIP = 64 }; /* largest number of columns of a panel, if the plan's nr is smaller */

/* One dimension of a window and its movement over the image.  Under a stride, pixels fall into
 * `phases` interleaved sets, and a window reads consecutive pixels of each set, up to `reach`
 * pixels past its first one.  count: number of elements of the window, which are `step` pixels
 * apart.  back: the window is flipped. */
struct direction {
    int64_t count, step, stride, phases, reach, pad;
    bool back;
};

/* Returns the geometry of windows in one dimension: 0 for rows, 1 for columns.  The number of
 * phases is the stride divided by its greatest common divisor with the dilation, but at most
 * `count`. */
static struct direction direction_of(const struct patch *w, int of)
{
    int64_t count = of ? w->s : w->r, stride = w->stride[of];
    int64_t dilate = w->dilate[of] < 0 ? -w->dilate[of] : w->dilate[of];
    int64_t a = dilate, b = stride, phases;
    bool back = w->dilate[of] < 0;

    while (b) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    phases = stride / a;
    return (struct direction){ count,
                               dilate,
                               stride,
                               smaller(count, phases),
                               (count - 1) * dilate / stride,
                               w->pad[of] + (back ? (count - 1) * dilate : 0),
                               back };
}

/* Returns an upper bound of the rows of planes that any n consecutive columns of the result
 * (pixels) read: the rows in which they lie, and `reach` more for each image that they touch.
 * all: number of columns of all images, which n does not exceed. */
static int64_t most_rows(const struct patch *w, int64_t n, int64_t all)
{
    struct direction down = direction_of(w, 0);
    int64_t rows = ceil_div(n, w->ow) + 1, images = (rows - 1) / w->oh + 2;

    return smaller(rows + images * down.reach, all / (w->oh * w->ow) * (w->oh + down.reach));
}

/* Returns the distance in elements from one channel to the next.  It leaves room for a panel of nr
 * elements that begins at the last pixel, and is an odd number of cache lines, so that channels do
 * not share cache sets. */
static int64_t channel_length(const struct kernel_config *f, const struct patch *w, int group,
                              int64_t rows)
{
    struct direction down = direction_of(w, 0);
    struct direction across = direction_of(w, 1);
    int64_t pixels = down.phases * across.phases * rows * (w->ow + across.reach);
    int64_t unit = 64 / f->bytes / group;

    unit = unit > KERNEL_LANES ? unit : KERNEL_LANES;

    return (ceil_div(pixels + (f->nr > STRIP ? f->nr : STRIP), unit) | 1) * unit;
}

/* Returns the number of channels that k runs through.  The planes of a deep image count as
 * channels. */
static int64_t channel_count(const struct patch *w, int64_t k)
{
    return k / (w->r * w->s);
}

/* Returns the bytes of the table of stride phases. */
static int64_t phase_bytes(const struct patch *w)
{
    return direction_of(w, 0).phases * direction_of(w, 1).phases * (int64_t)sizeof(int64_t[2]);
}

/* Returns the bytes of the table of taps (window elements). */
static int64_t tap_bytes(const struct patch *w)
{
    return w->r * w->s * (int64_t)sizeof(int64_t);
}

/* Returns the number of channels that are packed as one word; 1 if each has a plane of its own.
 * With words, panels are gathered without shuffling bytes.  Words are used only for integers, whose
 * sums are exact in any order of channels, and if at most a third of their bytes is padding. */
int limber_planes_group(const struct kernel_config *f, const struct call *c)
{
    int group = f->group < 4 ? f->group : 4; /* number of elements that fit in a word */
    int64_t channels = channel_count(c->b.patch, c->k), all = round_up(channels, group);
    int64_t k = channels ? c->k / channels * all : 0;
    bool fits = !f->offsets || k <= f->chunk;

    return f->unit == UNIT_i8 && fits && 2 * all <= 3 * channels &&
                   limber_can_transpose_filters(c) ?
               group :
               1;
}

/* Returns the bytes of the planes from which n columns of B are gathered, with their sums, norms
 * and tables; 0 if n is 0. */
int64_t limber_planes_bytes(const struct kernel_config *f, const struct call *c, int64_t n)
{
    const struct patch *w = c->b.patch;
    int group = limber_planes_group(f, c);
    int64_t channels = round_up(channel_count(w, c->k), group), limbs = f->side[1].limbs;
    int64_t length = channel_length(f, w, group, most_rows(w, n, c->n));

    return n == 0 ?
               0 :
               limbs * (channels * length * f->bytes + 64) + (f->offsets ? limbs * length * 4 : 0) +
                   (f->norms ? length * 8 : 0) + phase_bytes(w) + tap_bytes(w) + 256;
}

/* Returns the bytes of a panel that is gathered from planes, followed by the sums or norms of its
 * columns.  Sums and norms are stored after kc elements along k, even if k is smaller. */
int64_t limber_gathered_panel_bytes(const struct kernel_config *f, int64_t k)
{
    int64_t whole = round_up(k, KERNEL_BLOCK * f->group);
    int64_t depth = f->offsets || f->norms ? f->kc : smaller(f->kc, whole);

    return round_up(depth * f->nr * f->bytes + 64 +
                        (f->nb + f->nr) * (int64_t)(f->norms ? sizeof(double) : sizeof(int32_t)),
                    64);
}

/* True if planes are not much larger than panels of all windows would be.  Padding and dilation can
 * make planes larger than that, or than any memory, so their size is first estimated as a
 * double. */
static bool has_small_planes(const struct kernel_config *f, const struct call *c)
{
    const struct patch *w = c->b.patch;
    const struct direction down = direction_of(w, 0), across = direction_of(w, 1);
    double pixels = (double)down.phases * (double)across.phases * (double)(w->ow + across.reach) *
                    (double)(w->oh + down.reach) * (double)(c->n / (w->oh * w->ow));
    double all = pixels * (double)channel_count(w, c->k) * f->side[1].limbs * f->bytes;

    return all <= 2 * (double)limber_side_bytes(f, 1, c->n, c->k) + (64 << 10) &&
           limber_planes_bytes(f, c, c->n) <= 2 * limber_side_bytes(f, 1, c->n, c->k) + (64 << 10);
}

/* True if the convolution's image is packed as planes, one per channel or word of channels. */
bool limber_has_planes(const struct kernel_config *f, const struct call *c)
{
    const struct patch *w = c->b.patch;

    return w && !w->depth && !w->transposed && !w->divide[0] && !w->origin && !c->b.tile_subset &&
           c->n > 0 && c->k > 0 && f->unit != UNIT_exact && f->unit != UNIT_model &&
           (!is_scaled(&f->side[1]) || f->side[1].axis == AXIS_all) &&
           (!f->offsets || c->k <= f->chunk) && has_small_planes(f, c);
}

/* True if planes hold unchanged elements of the image: one row of pixels after another, or words of
 * channels. */
static bool is_copied(const struct kernel_config *f, const struct patch *w, int group)
{
    const struct side *s = &f->side[1];

    if (group == 2) /* 8-bit integers are widened to 16 bits, so they are not unchanged */
        return f->bytes == 2 && !f->offsets && s->limbs == 1 && s->axis == AXIS_none &&
               s->f.size == 1 && s->f.kind != LIMBER_KIND_FLOAT && !w->t && w->col == 1;
    if (group > 1)
        return s->copied && group == 4 && !w->t && (w->col == 1 || w->channel == 1);
    return s->copied && !f->norms && w->col == 1 &&
           (s->f.size == 1 || s->f.size == 4 || s->f.size == 8);
}

/* Sets two tables. phase: first pixel of each stride phase in the padded image. tap: offset in a
 * plane of each element of the window. */
static void set_taps(struct planes *x, const struct patch *w, int64_t (*phase)[2], int64_t *tap)
{
    struct direction down = direction_of(w, 0);
    struct direction across = direction_of(w, 1);

    x->phases = down.phases * across.phases;
    x->phase = (const int64_t(*)[2])phase;
    x->taps = w->r * w->s;
    x->tap = tap;
    x->pad[0] = down.pad;
    x->pad[1] = across.pad;
    for (int64_t r = 0; r < down.phases; r++)
        for (int64_t s = 0; s < across.phases; s++, phase++) {
            (*phase)[0] = r * down.step % down.stride;
            (*phase)[1] = s * across.step % across.stride;
        }
    for (int64_t t = 0; t < x->taps; t++) {
        int64_t r = down.back ? w->r - 1 - t / w->s : t / w->s;
        int64_t c = across.back ? w->s - 1 - t % w->s : t % w->s;
        int64_t of = r % down.phases * across.phases + c % across.phases;

        tap[t] = (of * x->rows + r * down.step / down.stride) * x->columns +
                 c * across.step / across.stride;
    }
}

/* Divides the packing of planes into tasks.  If elements are copied, a task has a range of rows and
 * channels; else it has a range of pixels and channels.  The sums and norms of a pixel are computed
 * by a single task. */
static void divide_planes(const struct kernel_config *f, struct part *p, int busy)
{
    struct kernel_call *call = &p->call;
    const struct planes *x = &p->planes;
    int64_t strips = ceil_div(x->length, KERNEL_LANES), tasks = busy == 1 ? 1 : 4 * busy, cuts = 1;
    int64_t all = x->length;

    if (p->copies) {
        all = x->phases * x->rows;
        call->lines[1] = f->offsets ? ceil_div(all, smaller(all, tasks)) : all;
        call->depth[1] =
            round_up(f->offsets ? x->channels : ceil_div(x->channels, tasks), x->group);
    } else {
        if (!f->offsets && !f->norms)
            cuts = smaller(ceil_div(x->channels, 64), ceil_div(tasks, strips));
        call->lines[1] = ceil_div(strips, smaller(strips, tasks)) * KERNEL_LANES;
        call->depth[1] = round_up(ceil_div(x->channels, cuts), KERNEL_BLOCK);
    }
    call->cuts[1] = ceil_div(x->channels, call->depth[1]);
    call->tasks[1] = ceil_div(all, call->lines[1]) * call->cuts[1];
}

/* Sets the layout of the planes that a part of C reads, assigns their memory, and divides their
 * packing into tasks.  Returns the first free byte. */
char *limber_planes_begin(const struct kernel_config *f, struct part *p, int busy, char *memory)
{
    struct kernel_call *call = &p->call;
    struct planes *x = &p->planes;
    struct packed *o = &call->op[1];
    const struct patch *w = o->view.patch;
    int64_t first = o->line0 / w->ow, last = (o->line0 + o->lines - 1) / w->ow;
    int64_t limbs = f->side[1].limbs, reach, (*phase)[2] = (int64_t(*)[2])(void *)memory;
    int64_t *tap = (int64_t *)(void *)(memory + phase_bytes(w));

    memory = (char *)(tap + w->r * w->s);
    memory = limber_aligned(memory);
    reach = direction_of(w, 0).reach;
    *x = (struct planes){ .channels = channel_count(w, call->view_k),
                          .group = p->filters.group,
                          .high = w->oh + reach };
    x->nr = f->nr;
    x->first = first / w->oh * x->high + first % w->oh;
    x->rows = last / w->oh * x->high + last % w->oh + reach + 1 - x->first;
    x->columns = w->ow + direction_of(w, 1).reach;
    x->length = channel_length(f, w, x->group, x->rows);
    set_taps(x, w, phase, tap);
    limber_planes_code(x);
    o->planes = x;
    o->limb_bytes = round_up(x->channels, x->group) * x->length * f->bytes + 64;
    o->chunks = 1;
    o->sum_lines = x->length;
    o->data = memory;
    memory += limbs * o->limb_bytes;
    limber_poison(o->data, (size_t)(limbs * o->limb_bytes));
    if (f->offsets) {
        o->sums = (int32_t *)(void *)memory;
        memset(o->sums, 0, (size_t)(limbs * o->sum_lines) * 4);
        memory += limbs * o->sum_lines * 4;
    }
    if (f->norms) {
        o->norm = (double *)(void *)memory;
        memset(o->norm, 0, (size_t)x->length * sizeof *o->norm);
        memory += x->length * (int64_t)sizeof *o->norm;
    }
    p->copies = is_copied(f, w, x->group);
    divide_planes(f, p, busy);
    return limber_aligned(memory);
}

/* Task: copies some rows and channels of the image to planes. */
void limber_planes_task(const struct part *p, int64_t task)
{
    const struct kernel_call *c = &p->call;
    const struct planes *x = &p->planes;
    int64_t row = task / c->cuts[1] * c->lines[1], channel = task % c->cuts[1] * c->depth[1];

    x->copy(c, channel, smaller(channel + c->depth[1], x->channels), row,
            smaller(row + c->lines[1], x->phases * x->rows));
}
