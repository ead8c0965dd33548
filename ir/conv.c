/* SPDX-License-Identifier: BSD-3-Clause
 * Nodes of a convolution to geometry and back; geometry and sizes to index maps. */
#include "ir/conv.h"

#include <string.h>

/* ---- nodes ----------------------------------------------------------------------------------- */

/* How each attribute is kept: count 0 is a number, else a list. */
static const struct field {
    enum attr attr;
    size_t offset, count;
    int64_t neutral; /* where a node does not carry it */
} fields[] = {
    { ATTR_stride, offsetof(struct conv_geometry, stride), 2, 1 },
    { ATTR_pad, offsetof(struct conv_geometry, pad), 4, 0 },
    { ATTR_dilate, offsetof(struct conv_geometry, dilate), 2, 1 },
    { ATTR_groups, offsetof(struct conv_geometry, groups), 0, 1 },
    { ATTR_layout, offsetof(struct conv_geometry, layout), 0, LAYOUT_nchw },
    { ATTR_order, offsetof(struct conv_geometry, order), 0, ORDER_crs },
};

void limber_conv_read(const struct node *n, struct conv_geometry *g)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        const struct field *f = &fields[i];
        int64_t *to = (int64_t *)(void *)((char *)g + f->offset);

        for (size_t j = 0; j < (f->count ? f->count : 1); j++)
            to[j] = !limber_node_has(n, f->attr) ? f->neutral :
                    f->count                     ? limber_list(n, f->attr)->v[j] :
                                                   limber_num(n, f->attr);
    }
}

bool limber_conv_write(struct plan *p, struct node *n, const struct conv_geometry *g)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        const struct field *f = &fields[i];
        const int64_t *from = (const int64_t *)(const void *)((const char *)g + f->offset);

        if (!(limber_ops[n->op].attrs >> f->attr & 1))
            continue;
        if (f->count && !limber_node_list(p, n, f->attr, from, f->count))
            return false;
        if (!f->count && (f->attr != ATTR_order || *from != ORDER_crs))
            limber_node_set(n, f->attr, *from);
    }
    return true;
}

/* ---- index maps ------------------------------------------------------------------------------ */

enum { PIECE = 16 }; /* bytes that GPUs fetch at once */

/* Channels of a group with their padding: whole pieces, so that every pixel begins with one.  But
 * padding at most doubles the products. */
static int64_t padded(int64_t channels, int bytes)
{
    int64_t each = bytes < PIECE ? PIECE / bytes : 1;
    int64_t depth = (channels + each - 1) / each * each;

    return depth <= 2 * channels ? depth : channels;
}

static int64_t channels(const struct conv *c)
{
    return c->sizes.c / c->geometry.groups;
}

int64_t limber_conv_length(const struct conv *c, int bytes)
{
    int64_t depth = channels(c), window = c->sizes.r * c->sizes.s;

    return (c->geometry.order == ORDER_rsc ? padded(depth, bytes) : depth) * window;
}

static void set_order(struct patch *w, const struct conv *c, int bytes)
{
    if (c->geometry.order != ORDER_rsc)
        return;
    w->channels = channels(c);
    w->depth = padded(w->channels, bytes);
}

/* Filters are images of their window's size that give one pixel each.  In NCHW and in the order of
 * memory they are rows of a matrix. */
static void map_filters(struct index_map *m, const struct conv *c, int bytes)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t depth = channels(c), size = depth * s->r * s->s;

    m->group = s->o / c->geometry.groups * size;
    m->patched = !nchw || c->geometry.order == ORDER_rsc;
    if (!m->patched) {
        m->line = size;
        m->p = 1;
        return;
    }
    m->patch = (struct patch){
        .h = s->r,
        .w = s->s,
        .r = s->r,
        .s = s->s,
        .oh = 1,
        .ow = 1,
        .stride = { 1, 1 },
        .dilate = { 1, 1 },
        .image = size,
        .channel = nchw ? s->r * s->s : 1,
        .row = nchw ? s->s : s->s * depth,
        .col = nchw ? 1 : depth,
    };
    set_order(&m->patch, c, bytes);
}

static void map_patches(struct index_map *m, const struct conv *c, int bytes)
{
    const struct conv_geometry *g = &c->geometry;
    const struct conv_sizes *s = &c->sizes;
    bool nchw = g->layout == LAYOUT_nchw;

    m->group = nchw ? channels(c) * s->h * s->w : channels(c);
    m->patched = true;
    m->patch = (struct patch){
        .h = s->h,
        .w = s->w,
        .r = s->r,
        .s = s->s,
        .oh = s->oh,
        .ow = s->ow,
        .stride = { g->stride[0], g->stride[1] },
        .pad = { g->pad[0], g->pad[2] },
        .dilate = { g->dilate[0], g->dilate[1] },
        .image = s->c * s->h * s->w,
        .channel = nchw ? s->h * s->w : 1,
        .row = nchw ? s->w : s->w * s->c,
        .col = nchw ? 1 : s->c,
    };
    set_order(&m->patch, c, bytes);
}

static void map_image(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t pixels = s->oh * s->ow, rows = s->o / c->geometry.groups;

    m->group = nchw ? rows * pixels : rows;
    m->output = (struct output_view){
        .row = nchw ? pixels : 1,
        .col = nchw ? 1 : s->o,
        .inner = pixels > 0 ? pixels : 1,
        .outer = s->o * pixels,
    };
}

void limber_conv_map(struct index_map *m, enum op op, const struct conv *c, int bytes)
{
    memset(m, 0, sizeof *m);
    switch (op) {
    case OP_filters: map_filters(m, c, bytes); break;
    case OP_patches: map_patches(m, c, bytes); break;
    case OP_image: map_image(m, c); break;
    default: break;
    }
}
