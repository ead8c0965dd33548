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
    { ATTR_direction, offsetof(struct conv_geometry, direction), 0, DIRECTION_forward },
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
        /* words of which one is usual */
        if (!f->count && ((f->attr != ATTR_order && f->attr != ATTR_direction) || *from != 0))
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

static int64_t filters_of(const struct conv *c)
{
    return c->sizes.o / c->geometry.groups;
}

/* One direction of backward data: of which elements of the window, first, first + step, ..., the
 * pixels begin, begin + stride, ... of dx are sums, and where in dy the first of both meet. */
struct lattice {
    int64_t begin, stride, pixels; /* of dx */
    int64_t first, step, taps; /* of the window */
    int64_t at, dilate; /* in dy: of the first; from one element to the next, back */
};

static int64_t divisor(int64_t a, int64_t b)
{
    return b ? divisor(b, a % b) : a;
}

static struct lattice lattice_of(const struct conv *c, int of)
{
    const struct conv_geometry *g = &c->geometry;
    int64_t size = of ? c->sizes.w : c->sizes.h, window = of ? c->sizes.s : c->sizes.r;
    int64_t stride = g->stride[of], dilate = g->dilate[of], pad = g->pad[2 * of];
    int64_t begin = c->sizes.phase[of] - 1;
    struct lattice x = { .begin = begin, .stride = stride, .dilate = dilate };

    x.step = stride / divisor(dilate, stride);
    x.pixels = size > begin ? (size - begin + stride - 1) / stride : 0;
    while (x.first < x.step && (begin + pad - x.first * dilate) % stride != 0)
        x.first++;
    x.taps = x.first < x.step && x.first < window ? (window - 1 - x.first) / x.step + 1 : 0;
    x.at = (begin + pad - x.first * dilate) / stride;
    x.dilate = dilate * x.step / stride;
    return x;
}

static bool is_phase(const struct conv *c)
{
    return c->geometry.direction == DIRECTION_data && c->sizes.phase[0] > 0;
}

void limber_conv_product(const struct conv *c, int64_t *m, int64_t *n, int64_t *k)
{
    const struct conv_sizes *s = &c->sizes;
    int64_t window = s->r * s->s;

    switch (c->geometry.direction) {
    case DIRECTION_data:
        *m = channels(c);
        *n = s->n * s->h * s->w;
        *k = filters_of(c) * window;
        if (is_phase(c)) {
            const struct lattice down = lattice_of(c, 0), across = lattice_of(c, 1);

            *n = s->n * down.pixels * across.pixels;
            *k = filters_of(c) * down.taps * across.taps;
        }
        break;
    case DIRECTION_filter:
        *m = filters_of(c);
        *n = channels(c) * window;
        *k = s->n * s->oh * s->ow;
        break;
    default:
        *m = filters_of(c);
        *n = s->n * s->oh * s->ow;
        *k = channels(c) * window;
        break;
    }
}

int64_t limber_conv_length(const struct conv *c, int bytes)
{
    int64_t depth = channels(c), window = c->sizes.r * c->sizes.s, m, n, k;

    limber_conv_product(c, &m, &n, &k);
    if (c->geometry.direction != DIRECTION_forward)
        return k;
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

/* ---- backward: data -------------------------------------------------------------------------- */

/* Lines are channels, and k runs through the filters that see them. */
static void map_filters_back(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t depth = channels(c), window = s->r * s->s, size = depth * window;

    m->group = filters_of(c) * size;
    m->patched = true;
    m->patch = (struct patch){
        .h = s->r,
        .w = s->s,
        .r = s->r,
        .s = s->s,
        .oh = 1,
        .ow = 1,
        .stride = { 1, 1 },
        .dilate = { 1, 1 },
        .image = nchw ? window : 1,
        .channel = size,
        .row = nchw ? s->s : s->s * depth,
        .col = nchw ? 1 : depth,
    };
    if (is_phase(c)) {
        const struct lattice down = lattice_of(c, 0), across = lattice_of(c, 1);

        m->patch.origin = down.first * m->patch.row + across.first * m->patch.col;
        m->patch.row *= down.step;
        m->patch.col *= across.step;
        m->patch.h = m->patch.r = down.taps ? down.taps : 1;
        m->patch.w = m->patch.s = across.taps ? across.taps : 1;
    }
}

/* dy at (y + pad - r dilate) / stride, where that is a whole number. */
static void map_patches_back(struct index_map *m, const struct conv *c)
{
    const struct conv_geometry *g = &c->geometry;
    const struct conv_sizes *s = &c->sizes;
    bool nchw = g->layout == LAYOUT_nchw, apart = g->stride[0] > 1 || g->stride[1] > 1;
    int64_t pixels = s->oh * s->ow;

    m->group = nchw ? filters_of(c) * pixels : filters_of(c);
    m->patched = true;
    m->patch = (struct patch){
        .h = s->oh,
        .w = s->ow,
        .r = s->r,
        .s = s->s,
        .oh = s->h,
        .ow = s->w,
        .stride = { 1, 1 },
        .pad = { -g->pad[0], -g->pad[2] },
        .dilate = { -g->dilate[0], -g->dilate[1] },
        .image = s->o * pixels,
        .channel = nchw ? pixels : 1,
        .row = nchw ? s->ow : s->ow * s->o,
        .col = nchw ? 1 : s->o,
        .divide = { apart ? g->stride[0] : 0, apart ? g->stride[1] : 0 },
    };
    for (int i = 0; i < 2 && is_phase(c); i++) {
        const struct lattice x = lattice_of(c, i);

        *(i ? &m->patch.ow : &m->patch.oh) = x.pixels ? x.pixels : 1;
        *(i ? &m->patch.s : &m->patch.r) = x.taps ? x.taps : 1;
        m->patch.pad[i] = -x.at;
        m->patch.dilate[i] = -x.dilate;
        m->patch.divide[i] = 0;
    }
}

static void map_image_back(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t pixels = s->h * s->w, rows = channels(c);

    m->group = nchw ? rows * pixels : rows;
    m->output = (struct output_view){
        .row = nchw ? pixels : 1,
        .col = nchw ? 1 : s->c,
        .inner = pixels > 0 ? pixels : 1,
        .outer = s->c * pixels,
    };
    if (is_phase(c)) {
        const struct lattice down = lattice_of(c, 0), across = lattice_of(c, 1);
        int64_t some = down.pixels * across.pixels;

        m->output.origin = (down.begin * s->w + across.begin) * m->output.col;
        m->output.inner = some > 0 ? some : 1;
        m->output.wide = across.pixels > 0 ? across.pixels : 1;
        m->output.jump = down.stride * s->w * m->output.col;
        m->output.col *= across.stride;
    }
}

/* ---- backward: filters ----------------------------------------------------------------------- */

/* Lines are filters, and k runs through the pixels of their result. */
static void map_result(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t pixels = s->oh * s->ow;

    m->group = nchw ? filters_of(c) * pixels : filters_of(c);
    m->patched = nchw && s->n > 1;
    m->line = nchw ? pixels : 1;
    m->p = nchw ? 1 : s->o;
    if (!m->patched)
        return;
    m->patch = (struct patch){
        .h = s->oh,
        .w = s->ow,
        .r = 1,
        .s = 1,
        .oh = s->oh,
        .ow = s->ow,
        .stride = { 1, 1 },
        .dilate = { 1, 1 },
        .image = s->o * pixels,
        .channel = pixels,
        .row = s->ow,
        .col = 1,
        .transposed = 1,
    };
}

static void map_gradient(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t depth = channels(c), window = s->r * s->s, size = depth * window;

    m->group = filters_of(c) * size;
    m->output = (struct output_view){
        .row = size,
        .col = nchw ? 1 : depth,
        .inner = nchw ? (size > 0 ? size : 1) : window,
        .outer = nchw ? 0 : 1,
    };
}

/* ---- each map of each direction -------------------------------------------------------------- */

void limber_conv_map(struct index_map *m, enum op op, const struct conv *c, int bytes)
{
    int64_t direction = c->geometry.direction;
    bool data = direction == DIRECTION_data, filter = direction == DIRECTION_filter;

    memset(m, 0, sizeof *m);
    switch (op) {
    case OP_filters:
        if (data)
            map_filters_back(m, c);
        else if (filter)
            map_result(m, c);
        else
            map_filters(m, c, bytes);
        break;
    case OP_patches:
        if (data)
            map_patches_back(m, c);
        else
            map_patches(m, c, bytes);
        m->patch.transposed = filter;
        break;
    case OP_image:
        if (data)
            map_image_back(m, c);
        else if (filter)
            map_gradient(m, c);
        else
            map_image(m, c);
        break;
    default: break;
    }
}
