/* SPDX-License-Identifier: BSD-3-Clause
 * Scans an operand once: for each line (row of A or column of B) and each tile, finds the exponents
 * and significant bits in use.  Eight elements that are adjacent in memory are measured at once,
 * whether they belong to one line or to eight. */
#include "ir/num/prim.h"
#include "ir/cpu.h"
#include "jit/runtime/runtime.h"
#include "jit/scan/host_scan.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* FEW: largest number of elements that one thread scans alone.  STRETCH: elements of a line that
 * are measured before the next line's.  CUT: smallest number of elements of each line for a task
 * that shares lines with other tasks.  AHEAD: distance of prefetches in bytes. */
enum { FEW = 65536, STRETCH = 64 * RUN, CUT = 16 * RUN, AHEAD = 12 << 10 };

/* ---- measuring eight elements at once -------------------------------------------------------- */

/* Returns the kind (vector code) that measures elements of a format; KIND_none if none does. */
static enum kind kind_of(limber_format f)
{
    if (f.kind == LIMBER_KIND_FLOAT)
        return limber_num_is_f64(f)               ? KIND_f64 :
               limber_num_is_f32(f)               ? KIND_f32 :
               limber_same_format(f, LIMBER_F128) ? KIND_f128 :
                                                    KIND_none;
    switch (f.kind * 32 + f.size) {
    case LIMBER_KIND_INT * 32 + 8: return KIND_i64;
    case LIMBER_KIND_INT * 32 + 4: return KIND_i32;
    case LIMBER_KIND_INT * 32 + 2: return KIND_i16;
    case LIMBER_KIND_INT * 32 + 1: return KIND_i8;
    case LIMBER_KIND_UINT * 32 + 1: return KIND_u8;
    case LIMBER_KIND_DD * 32 + 16: return KIND_dd;
    default: return KIND_none;
    }
}

/* True if a format of 8 or 16 bits is converted to binary32 before it is measured.  *to: the
 * constants of that conversion. */
static bool is_widened(limber_format f, struct small_float *to)
{
    uint32_t fraction, top;

    if (f.kind != LIMBER_KIND_FLOAT || f.size > 2 || f.carried || f.exp_bits > 8 || f.bias > 127 ||
        f.flags & (LIMBER_FORMAT_NO_SUBNORMAL | LIMBER_FORMAT_NO_MINUS_ZERO))
        return false;
    fraction = ((uint32_t)1 << f.frac_bits) - 1;
    top = (((uint32_t)1 << f.exp_bits) - 1) << f.frac_bits;
    *to = (struct small_float){ .sign = (uint32_t)1 << (f.frac_bits + f.exp_bits),
                                .magnitude = top | fraction,
                                .special = f.flags & LIMBER_FORMAT_FINITE ? top + fraction + 1 :
                                           f.flags & LIMBER_FORMAT_NO_INF ? top | fraction :
                                                                            top,
                                .shift = 23 - f.frac_bits,
                                .scale = (float)ldexp(1, 127 - f.bias),
                                .size = f.size };
    return true;
}

/* Returns the bias of the exponents of this kind of elements. */
static int bias_of(enum kind k)
{
    return k == KIND_f128 ? 16383 : k == KIND_i64 ? 0 : 1023;
}

/* Returns the measuring functions for this CPU's instruction set. */
static struct measures measures_here(void)
{
    const unsigned cpu = limber_cpu_here();

#define BEST(name) LIMBER_BEST(LIMBER_FALLBACK, cpu, limber_measure_##name, limber_measure_##name)
    return (struct measures){ BEST(start), BEST(end), BEST(along), BEST(across), BEST(widen) };
#undef BEST
}

/* Returns how many tiles of a line are measured before their extremes (of exponents and bits) are
 * stored.  The number is limited, so that long lines need little memory. */
static int64_t measured_at_once(const struct host_scan *j)
{
    enum { MOST = 1024 };

    return j->m->tile_cols < MOST ? j->m->tile_cols : MOST;
}

/* Returns the extremes in accumulator i of eight, with unbiased exponents. bias: the bias of the
 * exponents in *s. */
static struct extremes lane_extremes(const struct eight *s, int i, int bias)
{
    struct extremes r = nothing;

    r.special = s->special[i] != 0;
    r.negative = s->negative[i] != 0;
    r.sig = (int32_t)s->sig[i];
    if (s->emax[i] != NONE_HIGH) {
        r.emin = (int32_t)s->emin[i] - bias;
        r.emax = (int32_t)s->emax[i] - bias;
        r.lsb = (int32_t)s->lsb[i] - bias;
    }
    return r;
}

/* True if subnormals were seen, so that the elements must be measured one by one. */
static bool is_odd(const struct eight *s)
{
    int64_t any = 0;

    for (int i = 0; i < 8; i++)
        any |= s->odd[i];
    return any != 0;
}

/* ---- measuring single elements --------------------------------------------------------------- */

/* Returns the position of the lowest bit that is set. */
static int lowest_bit(limber_u128 s)
{
    return (uint64_t)s ? __builtin_ctzll((uint64_t)s) : 64 + __builtin_ctzll((uint64_t)(s >> 64));
}

/* Measures one element of any format, and merges its extremes (of exponents and bits) into *out. */
static void measure_element(limber_format f, const char *at, struct extremes *out)
{
    struct limber_num x[2];
    struct extremes s = nothing;
    int n = limber_parts(x, f, at);

    if (x[0].kind == NUM_inf || x[0].kind == NUM_nan) {
        out->special = 1;
        return;
    }
    if (x[0].kind != NUM_finite)
        return;
    s.emin = s.emax = x[0].exp + limber_sig_bits(limber_num_sig(&x[0])) - 1;
    for (int i = 0; i < n; i++)
        if (x[i].kind == NUM_finite) {
            int at_bit = x[i].exp + lowest_bit(limber_num_sig(&x[i]));

            s.lsb = at_bit < s.lsb ? at_bit : s.lsb;
        }
    s.sig = s.emax - s.lsb + 1;
    s.negative = x[0].sign;
    join_extremes(out, &s);
}

/* Measures elements [p0, p0 + len) of a line one by one, in any format and layout. */
static void measure_elements(const struct host_scan *j, int64_t line, int64_t p0, int64_t len,
                             struct extremes *out)
{
    *out = nothing;
    for (int64_t p = p0; p < p0 + len; p++) {
        const char *at = limber_view_at(j->v, line, p, j->f.size);

        if (at)
            measure_element(j->f, at, out);
    }
}

/* ---- scanning one tile ----------------------------------------------------------------------- */

/* Stores what the scan found in a tile (exponents and bits) in the tile's mask. */
static void set_tile(struct tile_mask *t, const struct extremes *s)
{
    bool zero = s->emax == NONE_HIGH && !s->special;

    t->emin = (int16_t)(s->emax == NONE_HIGH ? 0 : s->emin);
    t->emax = (int16_t)(s->emax == NONE_HIGH ? 0 : s->emax);
    t->low = (int16_t)(s->emax == NONE_HIGH ? 0 : s->lsb);
    t->sig = (uint8_t)(s->sig < 255 ? s->sig : 255);
    t->flags = (uint8_t)((zero ? TILE_zero : 0) | (s->special ? TILE_special : 0) |
                         (s->negative ? TILE_negative : 0));
}

/* The elements [p0, end) of each line that a task scans, and the lines' extremes (of exponents and
 * bits) so far. */
struct section {
    int64_t p0, end;
    struct extremes *line;
};

/* True if a line needs more than SCAN_narrow bits, from its largest exponent to its lowest set bit.
 */
static bool is_wide(const struct extremes *s)
{
    return s->emax != NONE_HIGH && s->emax - s->lsb + 1 > SCAN_narrow;
}

/* Stops a probe if a line needs more than SCAN_narrow bits. */
static void stop_if_wide(struct host_scan *j, const struct extremes *s)
{
    if (j->depth == SCAN_probe && is_wide(s))
        atomic_store(&j->stop, true);
}

/* Merges the extremes (of exponents and bits) of a line's elements in one tile into those of the
 * line and of the tile. */
static void join_tile(struct host_scan *j, const struct section *x, int64_t line, int64_t p0,
                      const struct extremes *s)
{
    join_extremes(&j->tile[line / RUN * j->m->tile_cols + p0 / RUN], s);
    join_extremes(&x->line[line], s);
    stop_if_wide(j, &x->line[line]);
}

/* Returns the address of element p of a line. */
static const char *element_address(const struct host_scan *j, int64_t line, int64_t p)
{
    return (const char *)j->v->data + (line * j->v->line + p * j->v->p) * j->f.size;
}

/* Returns n contiguous elements as they are measured.  If that is as binary32, they are converted
 * and stored in `room`. */
static const char *widen_elements(const struct host_scan *j, const char *at, int64_t n, float *room)
{
    if (!j->small)
        return at;
    j->measure.widen(j->small, at, n, room);
    return (const char *)room;
}

/* Scans a line element by element: for formats and layouts that vector code does not measure, and
 * for lines with subnormals. */
static void scan_one_by_one(struct host_scan *j, const struct section *x, int64_t line)
{
    for (int64_t p0 = x->p0; p0 < x->end && !is_stopped(j); p0 += RUN) {
        struct extremes s;

        measure_elements(j, line, p0, x->end - p0 < RUN ? x->end - p0 : RUN, &s);
        join_tile(j, x, line, p0, &s);
    }
}

/* Decodes the accumulator of a line, and merges it into the line's extremes (of exponents and
 * bits). */
static void resolve_line(struct host_scan *j, const struct section *x, struct accumulator *s,
                         int64_t line)
{
    struct extremes one;

    j->measure.end(s, j->kind, 1, false);
    one = lane_extremes(&s->known, 0, bias_of(j->kind));
    join_extremes(&x->line[line], &one);
    stop_if_wide(j, &x->line[line]);
}

/* Scans lines [from, to), whose elements are contiguous, and their tiles.  tile: scratch. */
static void scan_along(struct host_scan *j, const struct section *x, int64_t from, int64_t to,
                       struct accumulator *tile)
{
    struct accumulator line[RUN];
    float room[STRETCH];
    int64_t length = x->end - x->p0, tiles = (length + RUN - 1) / RUN;
    int64_t lines = to - from, bytes = (length < STRETCH ? length : STRETCH) * j->f.size;
    int64_t ahead = (AHEAD / (bytes + 1) + 1) * j->v->line * j->f.size;

    j->measure.start(line, j->kind, lines);
    j->measure.start(tile, j->kind, tiles);
    for (int64_t p0 = x->p0; p0 < x->end && !is_stopped(j); p0 += STRETCH)
        for (int64_t i = 0; i < lines && !is_stopped(j); i++) {
            int64_t n = x->end - p0 < STRETCH ? x->end - p0 : STRETCH;

            j->measure.along(&line[i], &tile[(p0 - x->p0) / RUN], j->kind,
                             widen_elements(j, element_address(j, from + i, p0), n, room), n,
                             j->small ? 0 : ahead);
            if (j->depth == SCAN_probe)
                resolve_line(j, x, &line[i], from + i);
        }
    for (int64_t i = 0; i < lines && !is_stopped(j); i++) {
        resolve_line(j, x, &line[i], from + i);
        if (is_odd(&line[i].known))
            scan_one_by_one(j, x, from + i);
    }
    j->measure.end(tile, j->kind, tiles, false);
    for (int64_t c = 0; c < tiles; c++) {
        struct extremes s = lane_extremes(&tile[c].known, 0, bias_of(j->kind));

        join_extremes(&j->tile[from / RUN * j->m->tile_cols + x->p0 / RUN + c], &s);
    }
}

/* The pixels of one row of the image that an element of the filter reads for `count` adjacent
 * pixels of the result: elements first + i * step of the image, for i in [from, end). */
struct covered {
    int64_t first, step, from, end;
};

/* Returns which of `count` pixels of the result, from (row, x0) on, read the image rather than the
 * padding in line `line` of the im2col matrix (an element of the window in a channel), and which
 * pixels of the image they read.  row: image * w->oh + row of the result. */
static struct covered covered_part(const struct patch *w, int64_t line, int64_t row, int64_t x0,
                                   int64_t count)
{
    int64_t s = line % w->s, r = line / w->s % w->r, channel = line / (w->s * w->r);
    int64_t image = row / w->oh, step = w->stride[1];
    int64_t image_y = row % w->oh * w->stride[0] + r * w->dilate[0] - w->pad[0];
    int64_t image_x = x0 * step + s * w->dilate[1] - w->pad[1];
    struct covered part = { w->origin + image * w->image + channel * w->channel + image_y * w->row +
                                image_x * w->col,
                            step * w->col, image_x < 0 ? (step - 1 - image_x) / step : 0,
                            image_x < w->w ? (w->w - image_x + step - 1) / step : 0 };

    part.end = part.end < count ? part.end : count;
    if (image_y < 0 || image_y >= w->h)
        part.end = 0;
    return part;
}

/* Scans a line that runs over the pixels of a convolution's result, row by row: a line of the
 * transposed im2col matrix of a filter gradient. */
static void scan_rows(struct host_scan *j, const struct section *x, int64_t i,
                      struct accumulator *tile)
{
    const struct patch *w = j->v->patch;
    enum { MOST = 4 * RUN };
    const int64_t tiles = MOST / RUN;
    char copies[MOST * 16];
    float room[MOST];
    struct accumulator line;

    j->measure.start(&line, j->kind, 1);
    j->measure.start(tile, j->kind, tiles < j->m->tile_cols ? tiles : j->m->tile_cols);
    for (int64_t p = x->p0; p < x->end && !is_stopped(j);) {
        int64_t x0 = p % w->ow, count = w->ow - x0 < x->end - p ? w->ow - x0 : x->end - p;
        const char *from;
        struct covered s;

        count = count < MOST ? count : MOST;
        s = covered_part(w, i, p / w->ow, x0, count);
        p += count;
        if (s.end <= s.from)
            continue;
        for (int64_t l = s.from; l < s.end && s.step != 1; l++)
            memcpy(copies + l * j->f.size,
                   (const char *)j->v->data + (s.first + l * s.step) * j->f.size, j->f.size);
        from = s.step != 1 ? copies + s.from * j->f.size :
                             (const char *)j->v->data + (s.first + s.from) * j->f.size;
        j->measure.along(&line, tile, j->kind, widen_elements(j, from, s.end - s.from, room),
                         s.end - s.from, 0);
        if (j->depth == SCAN_probe)
            resolve_line(j, x, &line, i);
    }
    resolve_line(j, x, &line, i);
    if (is_odd(&line.known))
        scan_one_by_one(j, x, i);
    /* all tiles get the extremes (of exponents and bits) of the complete line */
    for (int64_t c = x->p0 / RUN; c * RUN < x->end; c++)
        join_extremes(&j->tile[i / RUN * j->m->tile_cols + c], &x->line[i]);
}

/* Decodes the accumulators of `count` interleaved lines, and merges them into the lines' extremes
 * (of exponents and bits). */
static void resolve_lines(struct host_scan *j, const struct section *x, struct accumulator *s,
                          int64_t line, int64_t count)
{
    j->measure.end(s, j->kind, (int)((count + 7) / 8), true);
    for (int64_t i = 0; i < count; i++) {
        struct extremes one = lane_extremes(&s[i / 8].known, (int)(i % 8), bias_of(j->kind));

        join_extremes(&x->line[line + i], &one);
        stop_if_wide(j, &x->line[line + i]);
    }
}

/* Converts interleaved lines to binary32 and measures them, the lines of one tile at a time. */
static void widen_across(const struct host_scan *j, struct accumulator *s, struct eight *tile,
                         uint8_t *odd, const char *from, int groups, int64_t len, int64_t step)
{
    float room[RUN * MEASURE_RUN];

    for (int g = 0, n; g < groups; g += n) {
        n = groups - g < MEASURE_RUN / 8 ? groups - g : MEASURE_RUN / 8;
        for (int64_t p = 0; p < len; p++)
            j->measure.widen(j->small, from + p * step + g * 8 * j->f.size, n * 8,
                             room + p * n * 8);
        j->measure.across(s + g, tile + g * 8 / MEASURE_RUN, odd + g, j->kind, (const char *)room,
                          n, len, n * 8 * (int64_t)sizeof *room);
    }
}

/* Measures at most RUN elements of each of `count` interleaved lines into the accumulators s and
 * the tiles.  Fewer than eight lines are padded with zeros, which do not change the extremes (of
 * exponents and bits). */
static void measure_interleaved(struct host_scan *j, const struct section *x, struct accumulator *s,
                                int64_t line, int64_t count, int64_t p0)
{
    int64_t len = x->end - p0 < RUN ? x->end - p0 : RUN, step = j->v->p * j->f.size;
    int groups = (int)((count + 7) / 8);
    const char *from = element_address(j, line, p0);
    char eight[RUN * 8 * 16];
    struct eight tile[MEASURE_TILES];
    uint8_t odd[MEASURE_GROUPS];
    struct extremes one;

    if (count < 8) {
        memset(eight, 0, (size_t)len * 8 * j->f.size);
        for (int64_t p = 0; p < len; p++)
            memcpy(eight + p * 8 * j->f.size, from + p * step, (size_t)count * j->f.size);
        from = eight;
        step = 8 * j->f.size;
    }
    if (j->small)
        widen_across(j, s, tile, odd, from, groups, len, step);
    else
        j->measure.across(s, tile, odd, j->kind, from, groups, len, step);
    for (int i = 0; i < groups; i++) {
        struct extremes *to = &j->tile[(line + 8 * i) / RUN * j->m->tile_cols + p0 / RUN];

        if (8 * i % RUN == 0) {
            one = lane_extremes(&tile[8 * i / RUN], 0, bias_of(j->kind));
            join_extremes(to, &one);
        }
        for (int l = 0; l < 8 && l < count && odd[i]; l++) {
            measure_elements(j, line + 8 * i + l, p0, len, &one);
            join_tile(j, x, line + 8 * i + l, p0, &one);
        }
    }
}

/* Scans lines [from, to), which are interleaved in memory.  Their number is a multiple of eight, or
 * less than eight. */
static void scan_across(struct host_scan *j, const struct section *x, int64_t from, int64_t to)
{
    struct accumulator s[MEASURE_GROUPS];

    j->measure.start(s, j->kind, (int)((to - from + 7) / 8));
    for (int64_t p0 = x->p0; p0 < x->end && !is_stopped(j); p0 += RUN) {
        measure_interleaved(j, x, s, from, to - from, p0);
        if (j->depth == SCAN_probe)
            resolve_lines(j, x, s, from, to - from);
    }
    if (j->depth != SCAN_probe)
        resolve_lines(j, x, s, from, to - from);
}

/* Sets a tile's results to those of no elements. */
static void clear_tile(struct host_scan *j, int64_t tile)
{
    j->tile[tile] = nothing;
}

/* Stores a tile's results in the mask. */
static void store_tile(struct host_scan *j, int64_t tile)
{
    set_tile(&j->m->tile[tile], &j->tile[tile]);
}

/* Calls fn for each tile of lines [from, to) within a section of them. */
static void for_each_tile(struct host_scan *j, const struct section *x, int64_t from, int64_t to,
                          void (*fn)(struct host_scan *j, int64_t tile))
{
    for (int64_t row = from / RUN; row * RUN < to; row++)
        for (int64_t p0 = x->p0; p0 < x->end; p0 += RUN)
            fn(j, row * j->m->tile_cols + p0 / RUN);
}

/* Task: scans some rows of tiles, or a section of each of their lines. */
static void scan_lines(void *arg, int64_t task, int worker)
{
    struct host_scan *j = arg;
    int64_t from = (task / j->sections * j->rows + j->first) * RUN, last = from + j->rows * RUN;
    int64_t to = last < j->lines ? last : j->lines, middle = from;
    bool direct = j->kind != KIND_none && limber_view_strided(j->v);
    int64_t section = task % j->sections, p0 = section * j->section_length,
            end = p0 + j->section_length;
    const struct section x = { p0, end < j->length ? end : j->length,
                               j->line + section * j->lines };

    for (int64_t i = from; i < to; i++)
        x.line[i] = nothing;
    for_each_tile(j, &x, from, to, clear_tile);

    if (direct && j->v->line == 1)
        middle = to - (to - from) % 8;
    if (middle > from)
        scan_across(j, &x, from, middle);
    if (direct && j->v->p == 1 && middle < to)
        for (struct section part = x; part.p0 < x.end && !is_stopped(j);
             part.p0 += measured_at_once(j) * RUN) {
            part.end = part.p0 + measured_at_once(j) * RUN;
            part.end = part.end < x.end ? part.end : x.end;
            scan_along(j, &part, middle, to, j->lanes + worker * measured_at_once(j));
        }
    else if (direct && j->v->line == 1 && middle < to)
        scan_across(j, &x, middle, to);
    else if (j->kind != KIND_none && j->v->patch && j->v->patch->transposed && !j->v->patch->t)
        for (int64_t i = from; i < to; i++)
            scan_rows(j, &x, i, j->lanes + worker * measured_at_once(j));
    else
        for (int64_t i = middle; i < to; i++)
            scan_one_by_one(j, &x, i);
    for_each_tile(j, &x, from, to, store_tile);
}

/* ---- joining tiles to the mask --------------------------------------------------------------- */

/* Merges what the scan found in a line (row of A or column of B) into the mask of the line's
 * block. */
static void join_block(struct block_mask *b, const struct extremes *s)
{
    bool first = b->flags & TILE_zero;

    b->flags |= (uint8_t)((s->special ? TILE_special : 0) | (s->negative ? TILE_negative : 0));
    if (s->emax == NONE_HIGH)
        return;
    b->flags &= (uint8_t)~TILE_zero;
    b->emin = first || s->emin < b->emin ? s->emin : b->emin;
    b->emax = first || s->emax > b->emax ? s->emax : b->emax;
    b->spread = s->emax - s->emin > b->spread ? s->emax - s->emin : b->spread;
    b->width = s->emax - s->lsb + 1 > b->width ? s->emax - s->lsb + 1 : b->width;
    b->sig = s->sig > b->sig ? s->sig : b->sig;
    b->low = first || s->lsb < b->low ? s->lsb : b->low;
}

/* Task: fills the mask's entries for a block of RUN lines (rows of A or columns of B): flags and
 * extremes of the block, and each line's largest exponent and special values. */
static void fill_mask_row(void *arg, int64_t row, int worker)
{
    const struct host_scan *j = arg;
    struct mask *m = j->m;

    (void)worker;
    m->block[row] = (struct block_mask){ .flags = TILE_zero };
    for (int64_t i = row * RUN; i < (row + 1) * RUN && i < j->lines; i++) {
        const struct extremes *s = &j->line[i];

        join_block(&m->block[row], s);
        m->line_emax[i] = s->emax == NONE_HIGH ? INT32_MIN : s->emax;
        m->line_special[i] = s->special;
    }
}

/* Fills an operand's mask (exponents, bits and special values) from what the scan found in its
 * lines. */
static void fill_mask(struct host_scan *j, const struct runner *r)
{
    struct mask *m = j->m;
    bool zero = true;

    r->run(r->self, m->tile_rows, fill_mask_row, j);
    for (int64_t row = 0; row < m->tile_rows; row++) {
        const struct block_mask *b = &m->block[row];

        m->special |= (b->flags & TILE_special) != 0;
        m->negative |= (b->flags & TILE_negative) != 0;
        if (b->flags & TILE_zero)
            continue;
        m->emin = zero || b->emin < m->emin ? b->emin : m->emin;
        m->emax = zero || b->emax > m->emax ? b->emax : m->emax;
        m->spread = b->spread > m->spread ? b->spread : m->spread;
        m->width = b->width > m->width ? b->width : m->width;
        m->sig = b->sig > m->sig ? b->sig : m->sig;
        m->low = zero || b->low < m->low ? b->low : m->low;
        zero = false;
    }
    m->scanned = m->has_low = true;
    m->zero = zero;
}

/* Runs all tasks in the calling thread. */
static void run_serially(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

/* Chooses what a task scans: some rows of tiles or, if there are few rows, a section of each
 * line. */
static void share_lines(struct host_scan *j, const struct runner *r)
{
    int64_t busy = 4 * limber_runner_busy(r), rows = j->m->tile_rows / busy;
    int64_t most = (j->length + CUT - 1) / CUT;

    j->rows = j->sections = 1;
    j->section_length = j->length;
    if (j->v->line == 1) /* interleaved lines: more of them make longer contiguous reads */
        j->rows = rows < 1 ? 1 : rows < MEASURE_TILES ? rows : MEASURE_TILES;
    if (j->depth == SCAN_probe || busy == 4 || j->m->tile_rows == 0 || most <= 1)
        return;
    j->sections = (busy + j->m->tile_rows - 1) / j->m->tile_rows;
    j->sections = j->sections < most ? j->sections : most;
    j->section_length = (most + j->sections - 1) / j->sections * CUT;
    j->sections = (j->length + j->section_length - 1) / j->section_length;
}

/* Scans all tiles.  A probe usually stops within its first lines, so these are scanned by this
 * thread, and other threads start only if the probe has not stopped. */
static void scan_all(struct host_scan *j, const struct runner *r)
{
    int64_t rows = j->rows;

    if (j->depth == SCAN_probe && j->lines > 0) {
        j->rows = 1;
        scan_lines(j, 0, 0);
        j->rows = rows;
        j->first = 1;
    }
    if (!is_stopped(j))
        r->run(r->self, (j->m->tile_rows - j->first + rows - 1) / rows * j->sections, scan_lines,
               j);
}

/* Arguments of join_sections. */
struct sections {
    const struct host_scan *j;
    struct extremes *line;
};

/* Task: merges the extremes (of exponents and bits) of all sections of some lines. */
static void join_sections(void *arg, int64_t task, int worker)
{
    const struct sections *x = arg;
    const struct host_scan *j = x->j;

    (void)worker;
    for (int64_t i = task * RUN; i < (task + 1) * RUN && i < j->lines; i++) {
        x->line[i] = nothing;
        for (int64_t section = 0; section < j->sections; section++)
            join_extremes(&x->line[i], &j->line[section * j->lines + i]);
    }
}

/* Allocates those arrays of a mask (scan result) that have an entry for each line or each row of
 * tiles.  Returns false if memory runs out. */
static bool alloc_lines(struct mask *m, int64_t lines)
{
    m->line_emax = malloc((size_t)(lines + 1) * sizeof *m->line_emax);
    m->line_special = calloc((size_t)lines + 1, 1);
    m->tile_rows = (lines + RUN - 1) / RUN;
    m->block = malloc((size_t)(m->tile_rows + 1) * sizeof *m->block);
    return m->line_emax && m->line_special && m->block;
}

/* Reports that memory ran out, frees the mask's arrays and returns false. */
static bool no_memory(struct mask *m, struct diag *d)
{
    limber_mask_clear(m);
    return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "scan: out of memory");
}

/* Scans all lines and stores their extremes (of exponents and bits); the caller makes the mask of
 * them.  Returns false if memory runs out. */
static bool scan_all_lines(struct host_scan *j, const struct runner *r)
{
    struct extremes *line = j->line;
    struct mask *m = j->m;
    bool ok;

    m->lines = j->lines;
    m->length = j->length;
    m->tile_rows = (j->lines + RUN - 1) / RUN;
    m->tile_cols = (j->length + RUN - 1) / RUN;
    m->tile = calloc((size_t)(m->tile_rows * m->tile_cols + 1), sizeof *m->tile);
    j->tile = malloc((size_t)(m->tile_rows * m->tile_cols + 1) * sizeof *j->tile);
    j->lanes = malloc((size_t)(r->workers * measured_at_once(j) + 1) * sizeof *j->lanes);
    share_lines(j, r);
    if (j->sections > 1)
        j->line = malloc((size_t)(j->sections * j->lines) * sizeof *j->line);
    ok = m->tile && j->tile && j->lanes && j->line;
    if (ok) {
        scan_all(j, r);
        if (j->sections > 1)
            r->run(r->self, m->tile_rows, join_sections, &(struct sections){ j, line });
    }
    if (j->sections > 1)
        free(j->line);
    j->line = line;
    free(j->tile);
    free(j->lanes);
    return ok;
}

/* ---- entry points ---------------------------------------------------------------------------- */

/* Scans an operand to the given depth, and fills its mask (exponents, bits and special values).
 * Needs the large enough stack that limber_scan provides. */
static bool scan_operand(struct mask *m, const struct view *v, limber_format f, int64_t lines,
                         int64_t length, enum scan_depth depth, const struct runner *r,
                         struct diag *d)
{
    const struct runner alone = { 1, run_serially, NULL };
    struct view straight = *v;
    struct host_scan j = { .v = &straight,
                           .f = f,
                           .kind = kind_of(f),
                           .measure = measures_here(),
                           .lines = lines,
                           .length = length,
                           .depth = depth,
                           .m = m };
    struct small_float small;
    struct pixels x;
    bool ok;

    if (is_widened(f, &small)) {
        j.kind = KIND_f32;
        j.small = &small;
    }

    memset(m, 0, sizeof *m);
    m->lines = lines;
    m->length = length;
    r = r && lines * length > FEW ? r : &alone;
    if (v->patch)
        limber_view_straighten(&straight, lines);
    j.line = malloc((size_t)(lines + 1) * sizeof *j.line);
    ok = j.line && alloc_lines(m, lines);
    if (ok && !straight.patch)
        ok = scan_all_lines(&j, r);
    else if (ok && limber_view_filters(&x, &straight, lines, length))
        ok = limber_scan_pixels(&j, &x, true, scan_all_lines, r);
    else if (ok && limber_view_pixels(&x, &straight, lines, length))
        ok = limber_scan_pixels(&j, &x, false, scan_all_lines, r);
    else
        ok = ok && scan_all_lines(&j, r);
    if (ok && !atomic_load(&j.stop))
        fill_mask(&j, r);
    free(j.line);
    return ok || no_memory(m, d);
}

/* Arguments of limber_scan, for the function that runs on a large enough stack. */
struct scan_arguments {
    struct mask *m;
    const struct view *v;
    limber_format f;
    int64_t lines, length;
    enum scan_depth depth;
    const struct runner *r;
};

/* Scans an operand on a thread whose stack is large enough. */
static bool scan_here(void *arg, struct diag *d)
{
    const struct scan_arguments *s = arg;

    return scan_operand(s->m, s->v, s->f, s->lines, s->length, s->depth, s->r, d);
}

/* Fills the mask *m (a summary of exponents and special values) from lines x length elements that v
 * locates. */
bool limber_scan(struct mask *m, const struct view *v, limber_format f, int64_t lines,
                 int64_t length, enum scan_depth depth, const struct runner *r, struct diag *d)
{
    if (limber_has_stack(STACK_run))
        return scan_operand(m, v, f, lines, length, depth, r, d);
    return limber_with_stack(STACK_run, scan_here,
                             &(struct scan_arguments){ m, v, f, lines, length, depth, r }, d);
}

/* Estimates from a few elements of 64 tiles the share of tiles that are zero, and of tiles that
 * need at most SCAN_narrow bits, zero tiles included. */
struct sample limber_scan_sample(const struct view *v, limber_format f, int64_t lines,
                                 int64_t length)
{
    enum { TILES = 64, LINES = 4, ELEMENTS = 32 };
    const struct host_scan j = { .v = v, .f = f };
    int64_t rows = (lines + RUN - 1) / RUN, cols = (length + RUN - 1) / RUN;
    struct sample found = { 0, 0 };

    for (int64_t t = 0; t < TILES && rows > 0 && cols > 0; t++) {
        int64_t line = t * rows / TILES * RUN, p = t * 29 % TILES * cols / TILES * RUN;
        int64_t len = length - p < ELEMENTS ? length - p : ELEMENTS;
        struct extremes tile = nothing;

        for (int64_t i = line; i < line + LINES && i < lines; i++)
            for (int64_t q = 0; q < len && !is_wide(&tile); q++) {
                struct extremes s;

                measure_elements(&j, i, p + q, 1, &s);
                join_extremes(&tile, &s);
            }
        found.zero += tile.emax == NONE_HIGH && !tile.special;
        found.narrow += !is_wide(&tile);
    }
    return (struct sample){ found.zero / TILES, found.narrow / TILES };
}

/* Returns the number of tiles, which have 64 x 64 elements, of an operand. */
int64_t limber_scan_tiles(int64_t lines, int64_t length)
{
    return (lines + RUN - 1) / RUN * ((length + RUN - 1) / RUN);
}

/* Returns result i of `count` results of a device's scan. */
static struct extremes device_result(const int32_t *found, int64_t count, int64_t i)
{
    int32_t flags = found[SCAN_flags * count + i];
    struct extremes s = nothing;

    s.special = (flags & SCAN_special) != 0;
    s.negative = (flags & SCAN_negative) != 0;
    if (found[SCAN_emax * count + i] == INT32_MIN)
        return s;
    s.emax = found[SCAN_emax * count + i];
    s.emin = found[SCAN_emin * count + i];
    s.lsb = found[SCAN_low * count + i];
    s.sig = found[SCAN_sig * count + i];
    return s;
}

/* Fills the tiles of a mask (scan result) from what a device's scan found.  False if memory runs
 * out. */
static bool alloc_tiles(struct mask *m, const int32_t *found)
{
    int64_t count = limber_scan_tiles(m->lines, m->length);

    m->tile_cols = (m->length + RUN - 1) / RUN;
    m->tile = malloc((size_t)(count + 1) * sizeof *m->tile);
    for (int64_t i = 0; m->tile && i < count; i++) {
        struct extremes s = device_result(found, count, i);

        set_tile(&m->tile[i], &s);
    }
    return m->tile != NULL;
}

/* Fills *m from the results of a device's scan. found: [enum scan_field][all], of which the
 * first `lines` entries of each row are used. tiles: [enum scan_field][tile]; NULL if tiles stay
 * unknown. */
bool limber_scan_found(struct mask *m, const int32_t *found, int64_t all, const int32_t *tiles,
                       int64_t lines, int64_t length, struct diag *d)
{
    const struct runner alone = { 1, run_serially, NULL };
    struct host_scan j = { .lines = lines, .m = m };

    *m = (struct mask){ .lines = lines, .length = length };
    j.line = malloc((size_t)(lines + 1) * sizeof *j.line);
    if (!j.line || !alloc_lines(m, lines) || (tiles && !alloc_tiles(m, tiles))) {
        free(j.line);
        return no_memory(m, d);
    }
    for (int64_t i = 0; i < lines; i++)
        j.line[i] = device_result(found, all, i);
    fill_mask(&j, &alone);
    free(j.line);
    return true;
}

/* Makes the mask (scan result) of an im2col matrix from a device's scan of the images: results
 * [first, first + count).  All lines get the exponent range of the complete images.  *level:
 * false if that is not possible, so that the lines must be scanned. */
bool limber_scan_found_level(struct mask *m, const int32_t *found, int64_t all, int64_t first,
                             int64_t count, int64_t lines, int64_t length, bool *level,
                             struct diag *d)
{
    struct extremes s = nothing;

    for (int64_t i = first; i < first + count; i++) {
        const struct extremes one = device_result(found, all, i);

        join_extremes(&s, &one);
    }
    *m = (struct mask){ .scanned = true,
                        .has_low = true,
                        .zero = s.emax == NONE_HIGH,
                        .special = s.special,
                        .negative = s.negative,
                        .lines = lines,
                        .length = length };
    if (!m->zero) {
        m->emin = s.emin;
        m->emax = s.emax;
        m->low = s.lsb;
        m->sig = s.sig;
    }
    if (!alloc_lines(m, lines))
        return no_memory(m, d);
    *level = limber_mask_make_uniform(m);
    return true;
}

/* Makes the mask (result of a scan) of an 8-bit integer operand from its format, without reading
 * the operand. */
bool limber_scan_bytes(struct mask *m, limber_format f, int64_t lines, int64_t length,
                       struct diag *d)
{
    *m = (struct mask){ .scanned = true,
                        .negative = f.kind == LIMBER_KIND_INT,
                        .emax = 7,
                        .spread = 7,
                        .width = 8,
                        .sig = 8,
                        .lines = lines,
                        .length = length };
    if (!alloc_lines(m, lines))
        return no_memory(m, d);
    for (int64_t i = 0; i < lines; i++)
        m->line_emax[i] = 7;
    for (int64_t i = 0; i < m->tile_rows; i++)
        m->block[i] = (struct block_mask){ 0, 7, 7, 8, 8, 0, 0 };
    return true;
}
