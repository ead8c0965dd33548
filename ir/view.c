/* SPDX-License-Identifier: BSD-3-Clause
 * Scans of images: describes the pixels of a convolution's image as a matrix. */
#include "ir/view.h"

/* scanning this many neighbouring pixels takes as long as scanning one element at a stride */
enum { MANY = 8 };

/* Describes the image that a view reads through windows, so that each pixel is scanned once.
 * Returns 0 if the view is no image, or scanning it takes longer. */
int limber_view_pixels(struct pixels *x, const struct view *v, int64_t lines, int64_t length)
{
    const struct patch *w = v->patch;
    int64_t d = w && w->t ? w->d : 1, t = w && w->t ? w->t : 1, od = w && w->t ? w->od : 1;

    if (!w || w->depth || w->transposed || w->origin || lines == 0 || length == 0 ||
        w->row != w->w * w->col || (w->t && w->plane != w->h * w->row) ||
        d * w->h * w->w > MANY * od * w->oh * w->ow * t * w->r * w->s)
        return 0;
    *x = (struct pixels){
        .view = { v->data, w->col, w->channel, NULL, NULL, NULL },
        .lines = d * w->h * w->w,
        .length = length / (t * w->r * w->s),
        .images = lines / (od * w->oh * w->ow),
        .image = w->image,
    };
    /* images without a gap between them are scanned as one image */
    if (x->image == x->lines * w->col) {
        x->lines *= x->images;
        x->images = 1;
    }
    return 1;
}

/* Describes, for scans, the filters of backward data, whose lines are channels: elements of the
 * window take the place of pixels.  Returns 0 if the view has another form. */
int limber_view_filters(struct pixels *x, const struct view *v, int64_t lines, int64_t length)
{
    const struct patch *w = v->patch;
    int64_t planes = w && w->t ? w->t : 1, taps, last;

    if (!w || w->depth || w->transposed || w->divide[0] || w->oh != 1 || w->ow != 1 ||
        (w->t && w->od != 1) || w->h != w->r || w->w != w->s || w->pad[0] || w->pad[1] ||
        w->pad[2] || lines == 0 || length == 0)
        return 0;
    taps = planes * w->r * w->s;
    last = w->origin + (lines - 1) * w->image + (planes - 1) * w->plane + (w->r - 1) * w->row +
           (w->s - 1) * w->col;
    if (last >= w->channel || w->channel > 2 * MANY * lines * taps)
        return 0;
    *x = (struct pixels){ .view = { v->data, 1, w->channel, NULL, NULL, NULL },
                          .lines = w->channel,
                          .length = length / taps,
                          .images = 1 };
    return 1;
}

/* Replaces the view of an image that is read through a 1 x 1 window, without stride and padding,
 * by the view of a plain matrix. */
void limber_view_straighten(struct view *v, int64_t lines)
{
    const struct patch *w = v->patch;

    if (!w || w->depth || w->t || w->transposed || w->divide[0] || w->origin || w->r != 1 ||
        w->s != 1 || w->oh != w->h || w->ow != w->w || w->stride[0] != 1 || w->stride[1] != 1 ||
        w->pad[0] != 0 || w->pad[1] != 0 || w->row != w->w * w->col ||
        (w->image != w->h * w->row && (v->tile_subset || lines > w->h * w->w)))
        return;
    v->line = w->col;
    v->p = w->channel;
    v->patch = NULL;
}
