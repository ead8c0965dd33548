/* SPDX-License-Identifier: BSD-3-Clause
 * Where elements of operands and results lie in memory; read by the library and by kernels. */
#ifndef LIMBER_VIEW_H
#define LIMBER_VIEW_H

#include <stddef.h>
#include <stdint.h>

#ifndef PRIM
#define PRIM static inline __attribute__((always_inline, unused))
#endif

/* How element (line, p) of an operand is found; p runs along k.  A line is a row of A or a column
 * of B.  With patch set, the operand is an image seen through a convolution's window, or pairs of
 * numbers. */
struct view {
    const void *data;
    int64_t line, p;        /* strides in elements */
    const struct patch *patch;
};
struct patch {
    int64_t h, w;                       /* of the image */
    int64_t r, s;                       /* of the window; p = (c*r + y)*s + x */
    int64_t oh, ow;                     /* of the result; line = (image*oh + y)*ow + x */
    int64_t stride[2], pad[2], dilate[2];   /* pad: top, left */
    int64_t image, channel, row, col;   /* strides in elements */
    int32_t pairs;                      /* PAIRS_...: no image */
    int32_t minus;                      /* bit 2 (line % 2) + p % 2: these change their signs */
    int32_t stored, is_unsigned;        /* bytes of integers in memory that are read as wider ones;
                                           0: as they are */
};

/* Complex elements (re, im) as real operands; view.line and view.p are strides of pairs, counted in
 * numbers.  Along k they lie as they are; as squares each is [[re, im], [im, re]], signs apart. */
enum { PAIRS_none, PAIRS_along, PAIRS_square };

PRIM const char *limber_pair_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct patch *w = v->patch;
    int64_t pair = w->pairs == PAIRS_square ? line / 2 : line;
    int64_t number = w->pairs == PAIRS_square ? (line ^ p) & 1 : p & 1;

    return (const char *)v->data + (pair * v->line + p / 2 * v->p + number) *
                                   (w->stored ? w->stored : size);
}

/* Whether the number at (line, p) is the negative of what lies there. */
PRIM int limber_pair_minus(const struct patch *w, int64_t line, int64_t p)
{
    return w->minus >> (2 * (line & 1) + (p & 1)) & 1;
}

/* Address of element p of a line, or NULL where a window sees padding (zero). */
PRIM const char *limber_view_at(const struct view *v, int64_t line, int64_t p, int size)
{
    const struct patch *w = v->patch;
    int64_t y, x, c, r, s;

    if (!w)
        return (const char *)v->data + (line * v->line + p * v->p) * size;
    if (w->pairs)
        return limber_pair_at(v, line, p, size);
    c = p / (w->r * w->s);
    r = p / w->s % w->r;
    s = p % w->s;
    y = line / w->ow % w->oh * w->stride[0] + r * w->dilate[0] - w->pad[0];
    x = line % w->ow * w->stride[1] + s * w->dilate[1] - w->pad[1];
    if (y < 0 || y >= w->h || x < 0 || x >= w->w)
        return NULL;
    return (const char *)v->data + (line / (w->oh * w->ow) * w->image + c * w->channel +
                                    y * w->row + x * w->col) * size;
}

/* Element (i,j) of the result is at i*row + (j / inner)*outer + (j % inner)*col; inner >= 1. */
struct place {
    void *data;
    int64_t row, col, inner, outer;
};

PRIM char *limber_place_at(const struct place *c, int64_t i, int64_t j, int size)
{
    if (j < c->inner)           /* spares matrices the divisions */
        return (char *)c->data + (i * c->row + j * c->col) * size;
    return (char *)c->data + (i * c->row + j / c->inner * c->outer + j % c->inner * c->col) * size;
}

#endif
