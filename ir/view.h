/* SPDX-License-Identifier: BSD-3-Clause
 * Where elements of operands and results lie in memory; read by the library and by kernels. */
#ifndef LIMBER_VIEW_H
#define LIMBER_VIEW_H

#include <stddef.h>
#include <stdint.h>

#ifndef PRIM
#define PRIM static inline __attribute__((always_inline, unused))
#endif

#ifdef LIMBER_DEVICE_H
#define LIMBER_READ(type, p) load<type>(p)
#else
#define LIMBER_READ(type, p) (*(p))
#endif

enum { LIMBER_BLOCK = 64 };     /* lines of a block */

/* The visible part of a matrix: some blocks of its lines, in a new order.  Of these blocks' tiles,
 * each of 2^shift elements along k, those whose class is in `keep` are visible; the others read as
 * zero. */
struct tile_subset {
    const int32_t *block;   /* line i is line i % LIMBER_BLOCK of block[i / LIMBER_BLOCK] */
    const uint8_t *tile; /* [block of the matrix][tile]: its class, 0 to 31; NULL: all are shown */
    int64_t tiles; /* per block */
    uint32_t keep; /* bit c: tiles of class c are shown */
    int32_t shift;
};

/* The matrix's line that is line i in the order of `block`. */
PRIM int64_t limber_block_line(const int32_t *block, int64_t i)
{
    return (int64_t)LIMBER_READ(int32_t, block + i / LIMBER_BLOCK) * LIMBER_BLOCK +
           i % LIMBER_BLOCK;
}

/* Is element p of a line of the matrix shown? */
PRIM int limber_tile_subset_shows(const struct tile_subset *x, int64_t line, int64_t p)
{
    return !x->tile || x->keep >> LIMBER_READ(uint8_t, x->tile + line / LIMBER_BLOCK * x->tiles +
                                                           (p >> x->shift)) &
                           1;
}

/* How element (line, p) of an operand is found; p runs along k.  A line is a row of A or a column
 * of B.  At most one of patch and pairs is set. */
struct view {
    const void *data;
    int64_t line, p; /* strides in elements */
    const struct patch *patch; /* NULL, or the map of an image seen through a window */
    const struct tile_subset *tile_subset; /* NULL: all elements are shown */
    const struct pair_map *pairs; /* NULL, or the map of a complex matrix seen as a real one */
};

/* The index map of a convolution; ir/conv.h makes it.  A convolution of three dimensions is mapped
 * to two: c counts pairs (channel, plane of the window), image pairs (image, plane of result). */
struct patch {
    int64_t h, w; /* size of the image */
    int64_t r, s; /* size of the window; if depth is 0, p = (c*r + y)*s + x */
    int64_t depth; /* else p = (y*s + x)*depth + c: channels with padding, in elements */
    int64_t channels; /* c >= channels is padding, which reads as zero */
    int64_t oh, ow; /* size of the result; line = (image*oh + y)*ow + x */
    int64_t t; /* 0: two dimensions; else c = channel*t + plane of the window */
    int64_t d, od; /* planes of the image and of the result: image = i*od + plane */
    int64_t stride[3], pad[3], dilate[3]; /* down, across, into the depth; pad: top, left, front */
    int64_t image, channel, row, col, plane; /* strides in elements */
    int64_t divide[3]; /* [0] is 0, or the image is read as if it had zeros between its pixels,
                          which makes it this many times as high, wide and deep */
    int64_t origin; /* elements from the data to where the first image's first row begins */
    int64_t transposed; /* lines run through the window, and k through the result */
};

/* The index map of a complex matrix seen as a real one: pairs (re, im) are real elements.  Strides
 * view.line and view.p go from pair to pair, in numbers.  PAIRS_along: the pairs lie along k.
 * PAIRS_square: a pair becomes [[re, im], [im, re]], with signs as `minus` says. */
enum pair_kind { PAIRS_along, PAIRS_square };
struct pair_map {
    int32_t kind; /* enum pair_kind */
    int32_t minus; /* bit 2 (line % 2) + p % 2: elements at these places are negated */
    int32_t stored, is_unsigned; /* bytes of integers in memory that are widened when read; 0: they
                                    are not */
};

/* Address of element (line, p) of a complex matrix that is seen as a real one. */
PRIM const char *limber_pair_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct pair_map *m = v->pairs;
    int64_t pair = m->kind == PAIRS_square ? line / 2 : line;
    int64_t number = m->kind == PAIRS_square ? (line ^ p) & 1 : p & 1;

    return (const char *)v->data +
           (pair * v->line + p / 2 * v->p + number) * (m->stored ? m->stored : size);
}

/* True if the element at (line, p) is the negative of the number in memory. */
PRIM int limber_pair_minus(const struct pair_map *m, int64_t line, int64_t p)
{
    return m->minus >> (2 * (line & 1) + (p & 1)) & 1;
}

/* a / b for a, b >= 0.  Most fit 32 bits, whose division is several times faster. */
PRIM int64_t limber_quotient(int64_t a, int64_t b)
{
    return (a | b) >> 31 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* Three dimensions: the image's plane that this image of the view reads at this plane of the
 * window; -1 for padding. */
PRIM int64_t limber_patch_depth(const struct patch *w, int64_t image, int64_t plane)
{
    int64_t z = image % w->od * w->stride[2] + plane * w->dilate[2] - w->pad[2];

    if (z < 0)
        return -1;
    if (w->divide[0]) {
        if (z % w->divide[2])
            return -1;
        z /= w->divide[2];
    }
    return z < w->d ? z : -1;
}

/* Elements from the data to the first element of this image and channel; -1: padding. */
PRIM int64_t limber_patch_begin(const struct patch *w, int64_t image, int64_t channel)
{
    int64_t c, z;

    if (!w->t)
        return image * w->image + channel * w->channel;
    c = limber_quotient(channel, w->t);
    z = limber_patch_depth(w, image, channel - c * w->t);
    return z < 0 ? -1 : image / w->od * w->image + c * w->channel + z * w->plane;
}

/* True if elements are found by strides alone. */
PRIM int limber_view_strided(const struct view *v)
{
    return !v->patch && !v->pairs;
}

/* Address of element p of a line; NULL for a zero of the padding or of a tile that is not shown. */
PRIM const char *limber_view_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct patch *w = v->patch;
    int64_t y, x, c, r, s, image, begin;

    if (v->tile_subset) {
        line = limber_block_line(v->tile_subset->block, line);
        if (!limber_tile_subset_shows(v->tile_subset, line, p))
            return NULL;
    }
    if (v->pairs)
        return limber_pair_at(v, line, p, size);
    if (!w)
        return (const char *)v->data + (line * v->line + p * v->p) * size;
    if (w->transposed) {
        y = line;
        line = p;
        p = y;
    }
    if (w->depth) {
        s = limber_quotient(p, w->depth);
        c = p - s * w->depth;
        r = limber_quotient(s, w->s);
        s -= r * w->s;
    } else {
        r = limber_quotient(p, w->s);
        s = p - r * w->s;
        c = limber_quotient(r, w->r);
        r -= c * w->r;
    }
    y = limber_quotient(line, w->ow);
    image = limber_quotient(y, w->oh);
    x = (line - y * w->ow) * w->stride[1] + s * w->dilate[1] - w->pad[1];
    y = (y - image * w->oh) * w->stride[0] + r * w->dilate[0] - w->pad[0];
    if (y < 0 || x < 0)
        return NULL;
    if (w->divide[0]) {
        if (y % w->divide[0] || x % w->divide[1])
            return NULL;
        y /= w->divide[0];
        x /= w->divide[1];
    }
    if (y >= w->h || x >= w->w || (w->depth && c >= w->channels))
        return NULL;
    begin = limber_patch_begin(w, image, c);
    if (begin < 0)
        return NULL;
    return (const char *)v->data + (w->origin + begin + y * w->row + x * w->col) * size;
}

#ifndef LIMBER_DEVICE_H
/* view.c: the pixels of a convolution's image, as lines of channels, for scans.  A line of the view
 * consists of the pixels that its window covers. */
struct pixels {
    struct view view; /* the pixels of the first image */
    int64_t lines, length; /* pixels of an image, channels */
    int64_t images, image; /* number of images; elements from one to the next */
};
/* A 1x1 window without stride or padding sees a matrix: then *v becomes a view by strides alone. */
void limber_view_straighten(struct view *v, int64_t lines);
/* Describes filters as backward data reads them (lines are channels): the elements of each filter
 * are taken as pixels.  False: the view has no such form. */
int limber_view_filters(struct pixels *x, const struct view *v, int64_t lines, int64_t length);
/* False if the windows cover few of the image's pixels, or the view is no image. */
int limber_view_pixels(struct pixels *x, const struct view *v, int64_t lines, int64_t length);
#endif

/* Element (i,j) of the result is at origin + i*row + (j / inner)*outer + (j % inner)*col; inner >=
 * 1.  If wide is not 0, rest = j % inner lies at (rest / wide)*jump + (rest % wide)*col: pixels of
 * a lattice.  If high is not 0 either, lattices of `high` rows lie `leap` elements apart. */
struct output_view {
    void *data;
    int64_t row, col, inner, outer;
    const int32_t *rows, *cols; /* NULL, or the order of blocks of i and of j, as in a tile
                                   subset */
    int64_t origin, wide, jump, high, leap;
};

PRIM char *limber_output_at(const struct output_view *c, int64_t i, int64_t j, int size)
{
    int64_t outer, rest, plane;

    i = c->rows ? limber_block_line(c->rows, i) : i;
    j = c->cols ? limber_block_line(c->cols, j) : j;
    if (j < c->inner && !c->wide) /* spares matrices the divisions */
        return (char *)c->data + (c->origin + i * c->row + j * c->col) * size;
    outer = j / c->inner;
    j -= outer * c->inner;
    rest = c->wide ? j / c->wide : 0;
    j -= rest * c->wide;
    plane = c->high ? rest / c->high : 0;
    return (char *)c->data + (c->origin + i * c->row + outer * c->outer + plane * c->leap +
                              (rest - plane * c->high) * c->jump + j * c->col) *
                                 size;
}

#endif
