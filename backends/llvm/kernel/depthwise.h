/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolution.  This file is included once for each format.  PIXEL, FILTER and RESULT are
 * the elements of the tensors.  REAL is the type that is multiplied and summed, and VEC a vector
 * register of REAL.
 *
 * Lanes are neighbouring pixels of a row (NCHW) or neighbouring channels (NHWC).  Common windows
 * read the image in place.  For other windows, the pixels that a piece of the result reads are
 * packed together with their padding, so that each tap is a load at a constant offset, whatever the
 * stride.  An instruction multiplies GROUP taps of a row: one, or four of 8-bit integers.  A sum of
 * floats is one chain of fused multiply-adds from +0 over the taps, which gives the bits of the
 * scheme `native`. */

enum { NAME(lanes) = VECTOR / sizeof(REAL) };
typedef REAL NAME(vec) __attribute__((vector_size(VECTOR)));
typedef REAL NAME(unaligned) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
typedef PIXEL NAME(pixels)
    __attribute__((vector_size(LANES * sizeof(PIXEL)), aligned(1), may_alias));
typedef RESULT NAME(results)
    __attribute__((vector_size(VECTOR), aligned(sizeof(RESULT)), may_alias));
/* Number of vectors of sums, one per pixel with channels as lanes, that are collected before they
 * are transposed. */
enum { NAME(most) = LANES > TILE ? LANES : TILE };

/* Converts 8-bit integers to integers, or to floats, in which sums of LIMBER_SMALL_K products are
 * exact.  `flip` is 128 for signed bytes, which it makes unsigned; the initial values of
 * accumulators compensate for this. */
FLAT VEC NAME(widen)(NAME(pixels) v, int flip)
{
#if PIXEL_BYTES == 1
    return __builtin_convertvector(v ^ (PIXEL)flip, VEC);
#else
    (void)flip;
    return (VEC)v;
#endif
}

/* Returns the number that is XORed to signed bytes of the image to make them unsigned and 128
 * larger; 0 for unsigned bytes and for floats. */
FLAT int NAME(flip)(const struct depthwise *d)
{
    return PIXEL_BYTES > 1 || d->is_unsigned ? 0 : 128;
}

/* Returns sum + x * w in each lane, of floats or of groups of four bytes. */
FLAT VEC NAME(multiply_add)(VEC x, VEC w, VEC sum)
{
#if GROUP > 1
    return (VEC)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#else
    return __builtin_elementwise_fma(x, w, sum);
#endif
}

/* A piece of the result, and the buffers of its task. */
struct NAME(piece) {
    const struct depthwise *d;
    struct piece p;
    /* vectors: number of vectors in a row of the result; last: lanes of the row's last vector
     * (NCHW) */
    int64_t vectors, last;
    /* start: [group][lane], initial values of the accumulators, only for 8-bit integers; weight:
     * [group][tap][lane], the filters */
    REAL *start, *weight;
    REAL *room;            /* a task's scratch memory: zeros, or packed pixels [plane][row][...] */
};

/* Loads LANES elements of a row of w elements, from `first` on.  Elements outside of the row are
 * zero. */
FLAT NAME(pixels) NAME(some_pixels)(const PIXEL *row, int64_t first, int64_t w)
{
    const int64_t from = first < 0 ? least(-first, LANES) : 0;
    const int64_t end = first < w ? least(w - first, LANES) : 0;
    NAME(pixels) some = { 0 };

    if (from == 0 && end == LANES)
        return *(const NAME(pixels) *)(row + first);
#if PIXEL_BYTES > 1 || defined(PICKED_LOAD_1)
    if (from < end)
        some = (NAME(pixels))PICKED_LOAD(row + first, from, end);
#else
    const word_of_bytes word = some_bytes(row, first, w);

    memcpy(&some, &word, sizeof some);
#endif
    return some;
}

/* Stores the first `lanes` lanes with a distance of `step` elements. */
FLAT void NAME(spread)(RESULT *to, int64_t step, NAME(results) v, int64_t lanes)
{
    RESULT each[LANES];

    if (step == 2) { /* an image gradient under a stride of 2 */
        EVEN_STORE(to, ZIP(v, v, 0), least(lanes, LANES / 2));
        if (lanes > LANES / 2)
            EVEN_STORE(to + LANES, ZIP(v, v, LANES / 2), lanes - LANES / 2);
        return;
    }
    *(NAME(results) *)each = v;
    for (int64_t l = 0; l < lanes; l++)
        to[l * step] = each[l];
}

/* Returns the address of the piece's first result in row y, for output j of channel c. */
static RESULT *NAME(output)(const struct NAME(piece) *x, int64_t c, int64_t j, int64_t y)
{
    const struct depthwise *d = x->d;

    return (RESULT *)d->result + x->p.image * d->to[0] + (c * d->multiplier + j) * d->to[1] +
           x->p.z * d->to[2] + y * d->to[3] + x->p.x * d->to[4];
}

/* Returns the address of the image's plane that plane `plane` of the window reads; NULL if that is
 * padding. */
static const PIXEL *NAME(plane_seen)(const struct NAME(piece) *x, int64_t plane)
{
    const struct depthwise *d = x->d;
    const int64_t z = plane_of(d, x->p.z, plane);

    if (z < 0 || z >= d->depth)
        return NULL;
    return (const PIXEL *)d->image +
           row_of(d, x->p.image, x->p.channel * d->inputs + plane / d->t, z, 0);
}

/* ---- sums of rows that were packed ----------------------------------------------------------- */

/* Packs rows of one channel, with columns ordered by their remainder modulo the stride.  The outer
 * loop runs along a row, so that masks are made once for all rows.  plane: NULL for padding; top:
 * the first row. */
static void NAME(pack_pixels)(const struct NAME(piece) *x, const PIXEL *plane, int64_t top,
                              REAL *to)
{
    const struct depthwise *d = x->d;
    const int64_t stride = d->stride[1], w = d->w, h = d->h, rows = x->p.slots, down = x->p.row;
    const int flip = GROUP > 1 ? 0 : NAME(flip)(d);

    for (int64_t i = 0; i < down; i += LANES, to += LANES) {
        const int64_t first = x->p.x * stride - d->pad[1] + i / x->p.length +
                              i % x->p.length * stride;

        for (int64_t r = 0; r < rows; r++) {
            const PIXEL *row;
            NAME(pixels) v = { 0 };

            if (!plane || top + r < 0 || top + r >= h) {
                STORE(to + r * down, (VEC){ 0 });
                continue;
            }
            row = plane + (top + r) * w;
            if (stride == 1)
                v = NAME(some_pixels)(row, first, w);
            else if (stride == 2)
                v = EVEN(NAME(some_pixels)(row, first, w),
                         NAME(some_pixels)(row, first + LANES, w));
            else
                for (int64_t l = 0, at = first; l < LANES; l++, at += stride)
                    v[l] = at >= 0 && at < w ? row[at] : 0;
            STORE(to + r * down, NAME(widen)(v, flip) - (REAL)flip);
        }
    }
}

/* Packs rows of the piece's channels of an NHWC image, pixel by pixel. */
static void NAME(pack_channels)(const struct NAME(piece) *x, const PIXEL *plane, int64_t top,
                                REAL *to)
{
    const struct depthwise *d = x->d;
    const int64_t inputs = d->inputs, all = d->channels * inputs, some = x->p.channels;
    const int64_t h = d->h, w = d->w, groups = x->p.groups;
    const int64_t whole = inputs == 1 ? some / LANES : 0;
    const int64_t length = x->p.length, first = x->p.x * d->stride[1] - d->pad[1];
    const int flip = GROUP > 1 ? 0 : NAME(flip)(d);

    for (int64_t y = top; y < top + x->p.slots; y++)
        for (int64_t i = first; i < first + length; i++) {
            const PIXEL *at;
            int64_t g = 0;

            if (!plane || y < 0 || y >= h || i < 0 || i >= w) {
                memset(to, 0, (size_t)groups * sizeof(VEC));
                to += groups * LANES;
                continue;
            }
            at = plane + (y * w + i) * all;
            for (; g < whole; g++, to += LANES)
                STORE(to, NAME(widen)(*(const NAME(pixels) *)(at + g * LANES), flip) -
                              (REAL)flip);
            for (; g < groups && inputs <= 2; g++, to += LANES) {
                const int64_t from = g * LANES * inputs, end = some * inputs - (inputs - 1);
                NAME(pixels) v = NAME(some_pixels)(at, from, end);

                if (inputs == 2)
                    v = EVEN(v, NAME(some_pixels)(at, from + LANES, end));
                STORE(to, NAME(widen)(v, flip) - (REAL)flip);
            }
            for (; g < groups; g++, to += LANES)
                /* only floats come here: 8-bit integers have no gradients */
                for (int64_t l = 0; l < LANES; l++)
                    to[l] = g * LANES + l < some ? (REAL)at[(g * LANES + l) * inputs] : 0;
        }
}

/* Packs complete rows of some NCHW channels, transposed so that lanes are channels. */
static void NAME(pack_turned)(const struct NAME(piece) *x, const PIXEL *plane, int64_t top,
                              REAL *to)
{
    const struct depthwise *d = x->d;
    const int64_t w = d->w, left = d->pad[1], right = x->p.length - left - w, row = x->p.row;
    const int64_t from = plane ? least(top < 0 ? -top : 0, x->p.slots) : x->p.slots;
    const int64_t below = least(d->h - top, x->p.slots), end = below < from ? from : below;
    const int64_t apart = d->inputs * d->depth * d->h * w, all = (end - from) * w;
    const int flip = GROUP > 1 ? 0 : NAME(flip)(d);
    int64_t column = 0;

    for (int64_t r = 0; r < x->p.slots; r++) {
        const bool inside = r >= from && r < end;

        memset(to + r * row, 0, (size_t)(inside ? left : x->p.length) * sizeof(VEC));
        if (inside)
            memset(to + r * row + (left + w) * LANES, 0, (size_t)right * sizeof(VEC));
    }
    to += from * row + left * LANES;
    for (int64_t e = 0; e < all; e += LANES) {
        const PIXEL *at = plane + (top + from) * w;
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++) {
            v[l] = NAME(widen)(NAME(some_pixels)(at, e, all), flip) - (REAL)flip;
            /* for channels that do not exist, the last one is repeated */
            at += l + 1 < x->p.channels ? apart : 0;
        }
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++, to += LANES) {
            if (e + l < all)
                STORE(to, v[l]);
            column = column + 1 < w ? column + 1 : 0;
            to += column ? 0 : (left + right) * LANES;
        }
    }
}

#if PIXEL_BYTES > 1
/* Transposes the filters of channels [first, lanes), each of which has `all` contiguous elements.
 * apart: distance between channels. */
FLAT void NAME(turn_filters)(const REAL *from, int64_t apart, int64_t first, int64_t lanes,
                             int64_t all, REAL *to)
{
    for (int64_t e = 0; e < all; e += LANES) {
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++)
            v[l] = (VEC)PICKED_LOAD(from + (l < first ? first : l) * apart + e, 0,
                                    l >= first && l < lanes ? least(all - e, LANES) : 0);
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            if (e + l < all)
                STORE(to + (e + l) * LANES, v[l]);
    }
}

#endif

/* Packs the filters of output j of each channel, tap by tap.  If lanes are pixels, there is one
 * channel, and each of its taps is broadcast. */
static void NAME(pack_filters)(const struct NAME(piece) *x, int64_t j)
{
    const struct depthwise *d = x->d;
    const int64_t apart = d->multiplier * d->filter[0];
    REAL *to = x->weight, *start = x->start;

    for (int64_t g = 0; g < x->p.groups; g++, start += LANES) {
        const int64_t done = g * LANES - x->p.shift, first = done < 0 ? -done : 0;
        const int64_t lanes = x->p.by_channel ? least(LANES, x->p.channels - done) : LANES;
        const FILTER *from = (const FILTER *)d->filters +
                             ((x->p.channel + done) * d->multiplier + j) * d->filter[0];

        STORE(start, (VEC){ 0 });
#if PIXEL_BYTES > 1
        if (x->p.by_channel && d->filter[4] == 1 && d->filter[3] == d->s &&
            (x->p.planes == 1 ||
             (d->filter[2] == d->r * d->s && d->filter[1] == d->t * d->filter[2]))) {
            const int64_t all = x->p.planes * d->r * d->s;

            NAME(turn_filters)(from, apart, first, lanes, all, to);
            to += all * LANES;
            continue;
        }
#endif
        for (int64_t row = 0; row < x->p.planes * d->r; row++) {
            const int64_t plane = row / d->r;
            const FILTER *tap = from + plane / d->t * d->filter[1] + plane % d->t * d->filter[2] +
                                row % d->r * d->filter[3];

            for (int64_t s = 0; s < d->s; s++, tap += d->filter[4], to += LANES) {
                STORE(to, (VEC){ 0 } + (x->p.by_channel ? 0 : (REAL)*tap));
                for (int64_t l = first; x->p.by_channel && l < lanes; l++)
                    to[l] = tap[l * apart];
                if (PIXEL_BYTES == 1)
                    /* the start value cancels what flipping the image's signs adds */
                    STORE(start, LOAD(start) - LOAD(to) * (REAL)NAME(flip)(d));
#if GROUP > 1
                /* four taps of a row are packed into one element */
                STORE(to, (LOAD(to) & 255) << 8 * (s % GROUP));
                if (s % GROUP > 0) {
                    to -= LANES;
                    STORE(to, LOAD(to) | LOAD(to + LANES));
                }
#endif
            }
        }
    }
}

#if GROUP > 1
/* Packs the bytes of four neighbouring taps into the element of the first tap.  Bytes past the end
 * of a row are multiplied by zeros of the filters. */
static void NAME(pack_four_taps)(const struct NAME(piece) *x)
{
    const int64_t all = x->p.planes * x->p.slots * x->p.row;
    const int64_t step = x->d->dilate[1] * (x->p.by_channel ? x->p.groups * LANES : 1);
    const VEC offset = (VEC)SAME(0x01010101 * NAME(flip)(x->d));

    for (REAL *e = x->room; e < x->room + all; e += LANES)
        STORE(e, (LOAD(e) | LOAD(e + step) << 8 | LOAD(e + 2 * step) << 16 |
                  LOAD(e + 3 * step) << 24) ^ offset);
}
#endif

/* Stores the first `lanes` lanes, `lane` elements apart.  add: adds them to the old values
 * instead. */
FLAT void NAME(store)(RESULT *c, NAME(results) sum, int64_t lanes, int64_t lane, bool add)
{
    RESULT each[LANES];

    if (lane == 1 && lanes == LANES) {
        *(NAME(results) *)c = add ? sum + *(NAME(results) *)c : sum;
    } else if (lane == 1 && !add) {
        MASKED_STORE(c, sum, lanes);
    } else if (!add) {
        NAME(spread)(c, lane, sum, lanes);
    } else {
        *(NAME(results) *)each = sum;
        for (int64_t l = 0; l < lanes; l++, c += lane)
            *c = each[l] + *c;
    }
}

/* Transposes pixels [first, all) of the result, whose lanes are channels, and stores them as rows
 * of channels.  sum: the vectors of these pixels. */
static void NAME(turn_out)(const struct NAME(piece) *x, const NAME(results) sum[NAME(most)],
                           RESULT *to, int64_t first, int64_t all)
{
    const struct depthwise *d = x->d;
    const int64_t apart = d->multiplier * d->to[1], step = d->to[4];

    for (int64_t i = 0; i < NAME(most) && first < all; i += LANES, first += LANES) {
        const int64_t lanes = least(all - first, LANES);
        RESULT *row = to + first * step;
        NAME(results) v[LANES];

        UNROLL for (int l = 0; l < LANES; l++)
            v[l] = sum[i + l];
        TURN(NAME(results), v);
        if (step == 1 && !d->add)
            UNROLL for (int l = 0; l < LANES; l++, row += apart)
                if (l < x->p.channels)
                    NAME(store)(row, v[l], lanes, 1, false);
        for (int64_t l = 0; l < x->p.channels && (step > 1 || d->add); l++, row += apart)
            NAME(store)(row, v[l], lanes, step, d->add);
    }
}

/* Computes output j of a group of channels from packed rows, in `rows` rows from row y on.  Sums
 * TILE vectors at once, which may belong to several rows of the result.  at: offset of each tap. */
static void NAME(sum_group)(const struct NAME(piece) *x, int64_t g, int64_t j, const int64_t *at,
                            int64_t y, int64_t rows)
{
    const struct depthwise *d = x->d;
    const int64_t taps = x->p.planes * d->r * ceil_div(d->s, GROUP), all = x->vectors * rows;
    const int64_t step = x->p.by_channel ? d->stride[1] * x->p.groups * LANES : LANES;
    const int64_t right = d->nhwc ? d->to[4] : LANES * d->to[4], down = d->stride[0] * x->p.row;
    const int64_t lane = d->nhwc ? d->multiplier : d->to[4];
    const int64_t usual = d->nhwc ? least(LANES, x->p.channels - g * LANES) : LANES;
    const int64_t last = d->nhwc ? usual : x->last, vectors = x->vectors;
    const REAL *const weight = x->weight + g * taps * LANES;
    const REAL *row = x->room + y * down + g * LANES;
    RESULT *const start = NAME(output)(x, x->p.channel + g * LANES, j, x->p.y + y);
    RESULT *result = start;
    NAME(results) kept[NAME(most)] = { 0 };

    for (int64_t done = 0, v = 0; done < all; done += TILE) {
        const int64_t full = done % NAME(most);
        const REAL *in[TILE];
        RESULT *to[TILE];
        int64_t lanes[TILE];
        VEC sum[TILE];

        /* if fewer than TILE vectors are left, the last one is repeated */
        UNROLL for (int i = 0; i < TILE; i++) {
            in[i] = row + v * step;
            to[i] = result + v * right;
            lanes[i] = v == vectors - 1 ? last : usual;
            sum[i] = GROUP > 1 ? LOAD(x->start + g * LANES) : (VEC){ 0 };
            if (done + i + 1 < all && ++v == vectors) {
                v = 0;
                row += down;
                result += d->to[3];
            }
        }
        for (int64_t t = 0; t < taps; t++) {
            const VEC w = LOAD(weight + t * LANES);

            UNROLL for (int i = 0; i < TILE; i++)
                sum[i] = MULTIPLY_ADD(LOAD(in[i] + at[t]), w, sum[i]);
        }
        UNROLL for (int i = 0; i < TILE; i++)
            if (x->p.turned)
                kept[full + i] = __builtin_convertvector(sum[i], NAME(results));
            else if (done + i < all)
                NAME(store)(to[i], __builtin_convertvector(sum[i], NAME(results)), lanes[i], lane,
                            d->add);
        if (x->p.turned && (full + TILE == NAME(most) || done + TILE >= all))
            NAME(turn_out)(x, kept, start, done - full, all);
    }
}

/* Computes a piece from packed pixels.  Packs all channels at once if lanes are channels, else one
 * channel after another.  If rows of the result are contiguous, transposed vectors may hold pixels
 * of two rows. */
static void NAME(run_packed)(struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;
    const int64_t top = x->p.y * d->stride[0] - d->pad[0], pixel = x->p.groups * LANES;
    const bool apart = x->p.turned && (d->to[4] != 1 || d->to[3] != d->ow);
    const int64_t rows = apart ? 1 : x->p.height, taps = ceil_div(d->s, GROUP);
    int64_t at[LIMBER_SMALL_K];

    for (int64_t e = 0; e < x->p.planes * d->r * taps; e++) {
        const int64_t r = e / taps % d->r, s = e % taps * GROUP;
        const int64_t row = (d->backward ? d->r - 1 - r : r) * d->dilate[0];
        const int64_t column = (d->backward ? d->s - 1 - s : s) * d->dilate[1];

        at[e] = (e / (d->r * taps) * x->p.slots + row) * x->p.row +
                (x->p.by_channel ? column * pixel :
                                   column % d->stride[1] * x->p.length + column / d->stride[1]);
    }
    for (int64_t c = 0; c < (x->p.by_channel ? 1 : x->p.channels); c++, x->p.channel++) {
        for (int64_t i = 0; i < x->p.planes; i++)
            (d->nhwc ? NAME(pack_channels) : x->p.turned ? NAME(pack_turned) : NAME(pack_pixels))(
                x, NAME(plane_seen)(x, i), top, x->room + i * x->p.slots * x->p.row);
#if GROUP > 1
        NAME(pack_four_taps)(x);
#endif
        for (int64_t j = 0; j < d->multiplier; j++) {
            NAME(pack_filters)(x, j);
            for (int64_t g = 0; g < x->p.groups; g++)
                for (int64_t y = 0; y < x->p.height; y += rows)
                    NAME(sum_group)(x, g, j, at, y, rows);
        }
    }
}

/* ---- images read in place -------------------------------------------------------------------- */

#include "backends/llvm/kernel/depthwise_direct.h"

#include "backends/llvm/kernel/depthwise_channels.h"
#if PIXEL_BYTES > 1 && defined(__AVX512F__)
#include "backends/llvm/kernel/depthwise_twins.h"

#include "backends/llvm/kernel/depthwise_whole.h"
#endif

/* Task: computes a piece of the result, in place or from packed rows. */
static void NAME(run)(const struct depthwise *d, const struct depthwise_plan *plan, int64_t task,
                      void *room)
{
    struct NAME(piece) x = { .d = d, .p = find_piece(d, plan, LANES, task), .start = room };

    x.vectors = x.p.by_channel ? x.p.width : ceil_div(x.p.width, LANES);
    x.last = x.p.width - (x.vectors - 1) * LANES;
    x.weight = x.start + x.p.groups * LANES;
    x.room = x.weight + x.p.groups * x.p.planes * d->r * d->s * LANES;
#if PIXEL_BYTES > 1 && defined(__AVX512F__)
    if (is_whole(d)) {
        NAME(run_whole)(&x);
        return;
    }
    if (x.p.twins) {
        NAME(run_twins)(&x);
        return;
    }
#endif
    if (x.p.direct)
        (d->nhwc ? NAME(run_channels) : NAME(run_direct))(&x);
    else
        NAME(run_packed)(&x);
}

#if PIXEL_BYTES > 1
#include "backends/llvm/kernel/depthwise_gradient.h"
#endif

#undef FORMAT
#undef REAL
#undef PIXEL
#undef FILTER
#undef RESULT
#undef BYTES
#undef PIXEL_BYTES
#undef GROUP
