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

/* What a view shows of a matrix, where that is not all: some blocks of its lines, in a new order,
 * and of these blocks' tiles, each of 2^shift elements along k, those whose class is kept.  The
 * other tiles are zero. */
struct tile_subset {
    const int32_t *block;   /* line i is line i % LIMBER_BLOCK of block[i / LIMBER_BLOCK] */
    const uint8_t *tile; /* [block of the matrix][tile]: its class, below 32; NULL: all are shown */
    int64_t tiles; /* of a block */
    uint32_t keep; /* bit c: class c is shown */
    int32_t shift;
};

/* Line i of what is in the order of block. */
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
    const struct patch *patch; /* NULL, or of an image seen through a convolution's window */
    const struct tile_subset *tile_subset; /* NULL: all of it is shown */
    const struct pair_map *pairs; /* NULL, or of a complex matrix seen as a real one */
};

/* The index map of a convolution; ir/conv.h makes it.  Three dimensions are seen as two: a channel
 * for each plane of the window that a channel has, and an image for each plane of the result. */
struct patch {
    int64_t h, w; /* of the image */
    int64_t r, s; /* of the window; p = (c*r + y)*s + x, or, */
    int64_t depth; /* where this is not 0, p = (y*s + x)*depth + c; elements */
    int64_t channels; /* from c = channels on are zero */
    int64_t oh, ow; /* of the result; line = (image*oh + y)*ow + x */
    int64_t t; /* 0: two dimensions; else c = channel*t + plane of the window */
    int64_t d, od; /* planes of the image, and of the result: image = i*od + plane */
    int64_t stride[3], pad[3], dilate[3]; /* down, across, into the depth; pad: top, left, front */
    int64_t image, channel, row, col, plane; /* strides in elements */
    int64_t divide[3]; /* [0] is 0, or the image has zeros between its pixels: it is seen as so many
                          times as high, wide and deep */
    int64_t origin; /* elements from the data to where the first image's first row begins */
    int64_t transposed; /* lines run through the window, and k through the result */
};

/* The index map of a complex matrix: pairs (re, im) as real elements.  view.line and view.p are
 * strides of pairs, counted in numbers.  Along k they lie as they are; as squares each is
 * [[re, im], [im, re]], signs apart. */
enum pair_kind { PAIRS_along, PAIRS_square };
struct pair_map {
    int32_t kind; /* enum pair_kind */
    int32_t minus; /* bit 2 (line % 2) + p % 2: these change their signs */
    int32_t stored, is_unsigned; /* bytes of integers in memory that are read as wider ones;
                                    0: as they are */
};

PRIM const char *limber_pair_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct pair_map *m = v->pairs;
    int64_t pair = m->kind == PAIRS_square ? line / 2 : line;
    int64_t number = m->kind == PAIRS_square ? (line ^ p) & 1 : p & 1;

    return (const char *)v->data +
           (pair * v->line + p / 2 * v->p + number) * (m->stored ? m->stored : size);
}

/* Whether the number at (line, p) is the negative of what lies there. */
PRIM int limber_pair_minus(const struct pair_map *m, int64_t line, int64_t p)
{
    return m->minus >> (2 * (line & 1) + (p & 1)) & 1;
}

/* a / b, neither negative; most are short, whose division is several times faster. */
PRIM int64_t limber_quotient(int64_t a, int64_t b)
{
    return (a | b) >> 31 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* Of three dimensions: the plane that an image of the view and a plane of the window see; -1 where
 * there is none. */
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

/* Elements from the data to where an image and a channel of the view begin; -1: nowhere. */
PRIM int64_t limber_patch_begin(const struct patch *w, int64_t image, int64_t channel)
{
    int64_t c, z;

    if (!w->t)
        return image * w->image + channel * w->channel;
    c = limber_quotient(channel, w->t);
    z = limber_patch_depth(w, image, channel - c * w->t);
    return z < 0 ? -1 : image / w->od * w->image + c * w->channel + z * w->plane;
}

/* Are elements strides apart? */
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
/* view.c: what the lines of a convolution's image are made of: pixels, which are lines of channels.
 * A line's elements are those of the pixels that its window sees. */
struct pixels {
    struct view view; /* of the first image */
    int64_t lines, length; /* of one image */
    int64_t images, image; /* image: elements from one to the next */
};
/* A window of one element that skips none sees a matrix: then the view of these lines is made
 * one. */
void limber_view_straighten(struct view *v, int64_t lines);
/* The same of filters whose lines are channels, as backward data reads them: elements of a filter,
 * of which a line has those of its channel. */
int limber_view_filters(struct pixels *x, const struct view *v, int64_t lines, int64_t length);
/* False where the windows see few of them, or the view is no image. */
int limber_view_pixels(struct pixels *x, const struct view *v, int64_t lines, int64_t length);
#endif

/* Element (i,j) of the result is at origin + i*row + (j / inner)*outer + (j % inner)*col; inner >=
 * 1.  Where wide is not 0, rest = j % inner lies at (rest / wide)*jump + (rest % wide)*col: pixels
 * of a lattice; and where high is not 0 either, lattices of so many rows lie `leap` apart. */
struct output_view {
    void *data;
    int64_t row, col, inner, outer;
    const int32_t *rows, *cols; /* blocks, as of a tile subset: i and j count in their order; or
                                   NULL */
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
