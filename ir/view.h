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

/* A block: this many neighbouring lines, which are rows of A or columns of B. */
enum { LIMBER_BLOCK = 64 };

/* The part of a matrix that a product reads: some blocks of lines (rows of A or columns of B), in a
 * new order, and of these blocks some tiles.  A tile has 2^shift elements along k, and a class, a
 * number from 0 to 31.  Elements of tiles whose class is not in `keep` are replaced by zeros. */
struct tile_subset {
    /* line i is line i % LIMBER_BLOCK of the matrix's block number block[i / LIMBER_BLOCK] */
    const int32_t *block;
    /* [block of the matrix][tile]: class of the tile, 0 to 31; NULL if all tiles are read */
    const uint8_t *tile;
    int64_t tiles; /* number of tiles of a block along k */
    uint32_t keep; /* bit c is set if tiles of class c are read */
    int32_t shift;
};

/* Returns the index in the matrix of line i, where lines are counted in the order of `block`. */
PRIM int64_t limber_block_line(const int32_t *block, int64_t i)
{
    return (int64_t)LIMBER_READ(int32_t, block + i / LIMBER_BLOCK) * LIMBER_BLOCK +
           i % LIMBER_BLOCK;
}

/* Returns true if element p of a line of the matrix is read, false if it is replaced by zero. */
PRIM int limber_tile_subset_reads(const struct tile_subset *x, int64_t line, int64_t p)
{
    return !x->tile || x->keep >> LIMBER_READ(uint8_t, x->tile + line / LIMBER_BLOCK * x->tiles +
                                                           (p >> x->shift)) &
                           1;
}

/* Where the elements of an operand are in memory.  A line is a row of A or a column of B; p runs
 * along k.  At most one of patch and pairs is not NULL. */
struct view {
    const void *data;
    int64_t line, p; /* strides in elements: between lines, and along k */
    /* NULL, or the map of an image that is read as the windows of a convolution */
    const struct patch *patch;
    const struct tile_subset *tile_subset; /* NULL if all elements are read */
    /* NULL, or the map of a complex matrix that is read as a real one */
    const struct pair_map *pairs;
};

/* The index map of a convolution; ir/conv.c makes it.  A convolution of three dimensions is mapped
 * to one of two dimensions: the index `c` then counts the pairs (channel, plane of the window), and
 * the index `image` counts the pairs (image, plane of the result). */
struct patch {
    int64_t h, w; /* size of the image */
    int64_t r, s; /* size of the window; p = (c*r + y)*s + x if depth is 0 */
    int64_t depth; /* 0, or the channels of a pixel with padding; then p = (y*s + x)*depth + c */
    /* if depth is not 0: channels from this number on are padding, which is read as zero */
    int64_t channels;
    int64_t oh, ow; /* size of the result; line = (image*oh + y)*ow + x */
    /* 0 for two dimensions; else the planes of the window: c = channel*t + plane of the window */
    int64_t t;
    int64_t d, od; /* planes of the image and of the result: image = i*od + plane of the result */
    int64_t stride[3], pad[3], dilate[3]; /* vertical, horizontal, depth; pad: top, left, front */
    int64_t image, channel, row, col, plane; /* strides in elements */
    /* if [0] is not 0: the image is read as if it had zeros between its pixels, which make it this
     * many times as high, wide and deep */
    int64_t divide[3];
    int64_t origin; /* elements from the data to the first row of the first image */
    /* 1: lines run over the elements of the window, and k over pixels of the result; 0: lines run
     * over pixels, and k over the window */
    int64_t transposed;
};

/* The index map of a complex matrix that is read as a real one, whose elements are the real and
 * imaginary parts.  The strides view.line and view.p are those of complex elements, counted in real
 * numbers.  PAIRS_along: the two parts of an element are neighbours along k.  PAIRS_square: an
 * element becomes [[re, im], [im, re]], with some of these negated. */
enum pair_kind { PAIRS_along, PAIRS_square };
struct pair_map {
    int32_t kind; /* an enum pair_kind */
    /* bit 2 (line % 2) + p % 2 is set if elements with these line % 2 and p % 2 are negated */
    int32_t minus;
    /* bytes of an integer in memory, which is widened when it is read; 0 if elements are not
     * widened */
    int32_t stored, is_unsigned;
};

/* Returns the address of the number that is element (line, p) of the real matrix. */
PRIM const char *limber_pair_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct pair_map *m = v->pairs;
    int64_t pair = m->kind == PAIRS_square ? line / 2 : line;
    int64_t number = m->kind == PAIRS_square ? (line ^ p) & 1 : p & 1;

    return (const char *)v->data +
           (pair * v->line + p / 2 * v->p + number) * (m->stored ? m->stored : size);
}

/* Returns true if element (line, p) of the real matrix is the number in memory negated. */
PRIM int limber_pair_minus(const struct pair_map *m, int64_t line, int64_t p)
{
    return m->minus >> (2 * (line & 1) + (p & 1)) & 1;
}

/* Returns a / b for a, b >= 0.  Most numbers fit 32 bits, for which division is several times
 * faster. */
PRIM int64_t limber_quotient(int64_t a, int64_t b)
{
    return (a | b) >> 31 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* Returns, for three dimensions, the plane of the image that plane `plane` of the window reads; -1
 * if that is padding.  image: number of the image times od, plus the plane of the result. */
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

/* Returns the distance in elements from the data to the first element of this image and channel. -1
 * if that is padding. */
PRIM int64_t limber_patch_begin(const struct patch *w, int64_t image, int64_t channel)
{
    int64_t c, z;

    if (!w->t)
        return image * w->image + channel * w->channel;
    c = limber_quotient(channel, w->t);
    z = limber_patch_depth(w, image, channel - c * w->t);
    return z < 0 ? -1 : image / w->od * w->image + c * w->channel + z * w->plane;
}

/* Returns true if strides alone locate the elements. */
PRIM int limber_view_strided(const struct view *v)
{
    return !v->patch && !v->pairs;
}

/* Returns the address of element p of a line.  NULL if the element is a zero that is not in memory:
 * padding, or in a tile that is not read. */
PRIM const char *limber_view_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct patch *w = v->patch;
    int64_t y, x, c, r, s, image, begin;

    if (v->tile_subset) {
        line = limber_block_line(v->tile_subset->block, line);
        if (!limber_tile_subset_reads(v->tile_subset, line, p))
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
/* view.c: an image as scans read it: a matrix whose lines are pixels, and whose elements along k
 * are channels.  A line of the original view consists of the elements of the pixels in its
 * window. */
struct pixels {
    struct view view; /* the view of the first image */
    /* number of lines (the pixels of an image), and their length (channels) */
    int64_t lines, length;
    int64_t images, image; /* number of images; elements from one to the next */
};
/* If the view is an image that is read through a 1x1 window, without stride and padding, replaces
 * *v by the view of a plain matrix. */
void limber_view_straighten(struct view *v, int64_t lines);
/* Describes, for scans, the filters of backward data, whose lines are channels: the elements of a
 * filter's window take the place of pixels.  Returns false if the view has another form. */
int limber_view_filters(struct pixels *x, const struct view *v, int64_t lines, int64_t length);
/* Describes the image of a view.  Returns false if the view is no image, or if its windows cover so
 * few of the pixels that scanning the image takes longer. */
int limber_view_pixels(struct pixels *x, const struct view *v, int64_t lines, int64_t length);
#endif

/* Where element (i, j) of a result is: at origin + i*row + (j / inner)*outer + (j % inner)*col;
 * inner >= 1.  If wide is not 0, the pixels are a regular grid within an image: with rest = j %
 * inner, (rest / wide)*jump + (rest % wide)*col replaces (j % inner)*col.  If high is not 0 either,
 * after every `high` rows of the grid the next plane begins, `leap` elements after the previous
 * one. */
struct output_view {
    void *data;
    int64_t row, col, inner, outer;
    /* NULL, or the order of blocks of rows i and of columns j, as in struct tile_subset */
    const int32_t *rows, *cols;
    int64_t origin, wide, jump, high, leap;
};

/* Returns the address of element (i, j) of a result. */
PRIM char *limber_output_at(const struct output_view *c, int64_t i, int64_t j, int size)
{
    int64_t outer, rest, plane;

    i = c->rows ? limber_block_line(c->rows, i) : i;
    j = c->cols ? limber_block_line(c->cols, j) : j;
    if (j < c->inner && !c->wide) /* a plain matrix, which needs no division */
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
