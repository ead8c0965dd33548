/* SPDX-License-Identifier: BSD-3-Clause
 * Convolution's operands along k as a GPU reads them: window by window, the channels of a pixel
 * together. */
#include "ir/view.h"

enum { PIECE = 16 };            /* bytes that are fetched at once */

/* Channels with their padding: whole pieces, so that every pixel begins with one; but padding may
 * at most double the products. */
static int64_t depth_of(int64_t channels, int bytes)
{
    int64_t each = bytes < PIECE ? PIECE / bytes : 1;
    int64_t depth = (channels + each - 1) / each * each;

    return depth <= 2 * channels ? depth : channels;
}

/* Filters that are rows of a matrix become images of their window's size, one pixel each. */
static struct patch filters_of(const struct view *v, const struct patch *image)
{
    return (struct patch){
        .h = image->r,
        .w = image->s,
        .r = image->r,
        .s = image->s,
        .oh = 1,
        .ow = 1,
        .stride = { 1, 1 },
        .dilate = { 1, 1 },
        .image = v->line,
        .channel = image->r * image->s * v->p,
        .row = image->s * v->p,
        .col = v->p,
    };
}

int64_t limber_view_rsc(struct view v[2], struct patch patch[2], int64_t k, int bytes)
{
    int64_t window = v[1].patch->r * v[1].patch->s;

    patch[0] = v[0].patch ? *v[0].patch : filters_of(&v[0], v[1].patch);
    patch[1] = *v[1].patch;
    for (int i = 0; i < 2; i++) {
        patch[i].channels = window ? k / window : 0;
        patch[i].depth = depth_of(patch[i].channels, bytes);
        v[i].patch = &patch[i];
    }
    return patch[1].depth * window;
}

int limber_view_pixels(struct pixels *x, const struct view *v, int64_t lines, int64_t length)
{
    const struct patch *w = v->patch;

    if (!w || w->pairs || w->depth || lines == 0 || length == 0 || w->row != w->w * w->col ||
        w->h * w->w >= w->oh * w->ow * w->r * w->s)
        return 0;
    *x = (struct pixels){
        .view = { v->data, w->col, w->channel, 0 },
        .lines = w->h * w->w,
        .length = length / (w->r * w->s),
        .images = lines / (w->oh * w->ow),
        .image = w->image,
    };
    if (x->image == x->lines * w->col) {        /* pixels of all images are as far apart */
        x->lines *= x->images;
        x->images = 1;
    }
    return 1;
}
