/* SPDX-License-Identifier: BSD-3-Clause
 * Reads and writes the geometry of a convolution in nodes; makes index maps from geometry and
 * sizes. */
#include "ir/conv.h"

#include <string.h>

/* ---- the geometry of a convolution, in nodes of a plan --------------------------------------- */

/* An attribute of a node, and the field of conv_geometry that holds the same value. each: 0 if the
 * attribute is a number; else the number of entries of its list per dimension. */
static const struct field {
    enum attr attr;
    size_t offset, each;
    int64_t neutral; /* value if a node does not carry the attribute */
} fields[] = {
    { ATTR_stride, offsetof(struct conv_geometry, stride), 1, 1 },
    { ATTR_pad, offsetof(struct conv_geometry, pad), 2, 0 },
    { ATTR_dilate, offsetof(struct conv_geometry, dilate), 1, 1 },
    { ATTR_groups, offsetof(struct conv_geometry, groups), 0, 1 },
    { ATTR_layout, offsetof(struct conv_geometry, layout), 0, LAYOUT_nchw },
    { ATTR_direction, offsetof(struct conv_geometry, direction), 0, DIRECTION_forward },
    { ATTR_order, offsetof(struct conv_geometry, order), 0, ORDER_crs },
};

/* Returns the index in conv_geometry of entry j of an attribute's list.  In three dimensions a list
 * begins with the depth, which is last in conv_geometry. */
static size_t index_in_geometry(size_t j, size_t each, size_t count)
{
    return count > 2 * each ? (j + 2 * each) % count : j;
}

/* Returns the node that has a convolution's geometry: `conv` before the passes, `patches` after
 * them. */
const struct node *limber_conv_node(const struct plan *p)
{
    const struct node *conv = limber_plan_find(p, OP_conv);

    return conv ? conv : limber_plan_find(p, OP_patches);
}

/* Reads the geometry of a convolution from a node's attributes.  Attributes that the node lacks
 * get neutral values: steps of 1, no padding, one group. */
void limber_conv_read(const struct node *n, struct conv_geometry *g)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        const struct field *f = &fields[i];
        int64_t *to = (int64_t *)(void *)((char *)g + f->offset);
        const struct dims_list *list =
            f->each && limber_node_has(n, f->attr) ? limber_attr_list(n, f->attr) : NULL;

        for (size_t j = 0; j < (f->each ? 3 * f->each : 1); j++)
            to[j] = f->neutral;
        if (!f->each && limber_node_has(n, f->attr))
            *to = limber_attr_number(n, f->attr);
        for (size_t j = 0; list && j < list->n; j++)
            to[index_in_geometry(j, f->each, list->n)] = list->v[j];
        if (f->attr == ATTR_stride)
            g->deep = list && list->n == 3;
    }
}

/* Copies the geometry g to those attributes of a node that its operation has.  Returns false if
 * memory runs out. */
bool limber_conv_write(struct plan *p, struct node *n, const struct conv_geometry *g)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        const struct field *f = &fields[i];
        const int64_t *from = (const int64_t *)(const void *)((const char *)g + f->offset);

        int64_t list[6];
        size_t count = (g->deep ? 3 : 2) * f->each;

        if (!(limber_ops[n->op].attrs >> f->attr & 1))
            continue;
        for (size_t j = 0; j < count; j++)
            list[j] = from[index_in_geometry(j, f->each, count)];
        if (count && !limber_node_list(p, n, f->attr, list, count))
            return false;
        /* order and direction are not stored if they have the default value */
        if (!count && ((f->attr != ATTR_order && f->attr != ATTR_direction) || *from != 0))
            limber_node_set(n, f->attr, *from);
    }
    return true;
}

/* ---- index maps ------------------------------------------------------------------------------ */

enum { PIECE = 16 }; /* bytes that GPUs fetch at once */

/* Returns the number of channels of a group, padded so that every pixel begins at a multiple of 16
 * bytes.  There is no padding if it would more than double the channels. */
static int64_t padded_channels(int64_t channels, int bytes)
{
    int64_t each = bytes < PIECE ? PIECE / bytes : 1;
    int64_t depth = (channels + each - 1) / each * each;

    return depth <= 2 * channels ? depth : channels;
}

/* Returns the channels of one group. */
static int64_t group_channels(const struct conv *c)
{
    return c->sizes.c / c->geometry.groups;
}

/* Returns the filters of one group. */
static int64_t group_filters(const struct conv *c)
{
    return c->sizes.o / c->geometry.groups;
}

/* Returns the depths of image, window and result; 1 for a two-dimensional convolution. */
struct depths limber_conv_depths(const struct conv *c)
{
    return c->geometry.deep ? (struct depths){ c->sizes.d, c->sizes.t, c->sizes.od } :
                              (struct depths){ 1, 1, 1 };
}

/* Returns the elements of a window in one channel. */
static int64_t window_elements(const struct conv *c)
{
    return limber_conv_depths(c).window * c->sizes.r * c->sizes.s;
}

/* Returns the pixels of one image. */
static int64_t image_pixels(const struct conv *c)
{
    return limber_conv_depths(c).image * c->sizes.h * c->sizes.w;
}

/* Returns the pixels of one result image. */
static int64_t result_pixels(const struct conv *c)
{
    return limber_conv_depths(c).result * c->sizes.oh * c->sizes.ow;
}

/* Returns the numbers of elements of the left factor, the right factor and the result, over all
 * groups. */
struct conv_elements limber_conv_elements(const struct conv *c)
{
    const int64_t x = c->sizes.n * c->sizes.c * image_pixels(c);
    const int64_t w = c->sizes.o * group_channels(c) * window_elements(c);
    const int64_t y = c->sizes.n * c->sizes.o * result_pixels(c);

    switch (c->geometry.direction) {
    case DIRECTION_data: return (struct conv_elements){ w, y, x };
    case DIRECTION_filter: return (struct conv_elements){ y, x, w };
    default: return (struct conv_elements){ w, x, y };
    }
}

/* True if this is one stride phase of backward data: a product that computes only the pixels
 * with one remainder modulo the stride (struct conv_sizes). */
static bool is_phase(const struct conv *c)
{
    return c->geometry.direction == DIRECTION_data && c->sizes.phase[0] > 0;
}

/* Extends a map of filters from two to three dimensions.  In memory, the planes of a filter
 * follow each other like rows, so they are mapped as further rows.  They have an index of their
 * own if k counts them like channels (order=rsc), or if a stride phase skips some of them. */
static void deepen_filters(struct patch *w, const struct conv *c)
{
    if (!c->geometry.deep)
        return;
    if (c->geometry.order != ORDER_rsc && !is_phase(c)) {
        w->h = w->r = c->sizes.t * c->sizes.r;
        return;
    }
    w->t = w->d = c->sizes.t;
    w->od = w->stride[2] = w->dilate[2] = 1;
    w->plane = c->sizes.r * w->row;
}

/* Replaces 0 by 1, because views divide by sizes. */
static int64_t at_least_one(int64_t size)
{
    return size > 0 ? size : 1;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    return b ? greatest_common_divisor(b, a % b) : a;
}

/* Returns, for dimension `of` (0 vertical, 1 horizontal, 2 depth), which pixels a stride phase
 * of the backward-data pass computes, and which elements of the window reach these pixels. */
struct lattice limber_conv_lattice(const struct conv *c, int of)
{
    const struct conv_geometry *g = &c->geometry;
    int64_t size = (const int64_t[]){ c->sizes.h, c->sizes.w, c->sizes.d }[of];
    int64_t window = (const int64_t[]){ c->sizes.r, c->sizes.s, c->sizes.t }[of];
    int64_t stride = g->stride[of], dilate = g->dilate[of], pad = g->pad[2 * of];
    int64_t begin = c->sizes.phase[of] ? c->sizes.phase[of] - 1 : 0;
    struct lattice x = { .begin = begin, .stride = stride, .dilate = dilate };

    x.step = stride / greatest_common_divisor(dilate, stride);
    x.pixels = size > begin ? (size - begin + stride - 1) / stride : 0;
    while (x.first < x.step && x.first < window && (begin + pad - x.first * dilate) % stride != 0)
        x.first++;
    x.taps = x.first < x.step && x.first < window ? (window - 1 - x.first) / x.step + 1 : 0;
    x.at = (begin + pad - x.first * dilate) / stride;
    x.dilate = dilate * x.step / stride;
    return x;
}

/* Returns the number of parts in which filters are read.  Part 0 is the complete window. */
int64_t limber_conv_parts(const struct conv *c)
{
    const struct conv_geometry *g = &c->geometry;
    bool apart = g->stride[0] > 1 || g->stride[1] > 1 || g->stride[2] > 1;

    return g->direction == DIRECTION_data && apart ? 1 + window_elements(c) : 1;
}

/* Returns the number of the part of the filters that this convolution, or its stride phase, reads.
 */
int64_t limber_conv_part(const struct conv *c)
{
    int64_t into;

    if (!is_phase(c))
        return 0;
    into = c->geometry.deep ? limber_conv_lattice(c, 2).first : 0;
    return 1 + (into * c->sizes.r + limber_conv_lattice(c, 0).first) * c->sizes.s +
           limber_conv_lattice(c, 1).first;
}

/* Sets c's stride phase to the one that reads this part of the filters.  Returns false if there is
 * none. */
bool limber_conv_set_part(struct conv *c, int64_t part)
{
    const struct conv_geometry *g = &c->geometry;
    const int64_t place = part - 1, rows = place / c->sizes.s;
    const int64_t first[] = { rows % c->sizes.r, place % c->sizes.s, rows / c->sizes.r };

    for (int i = 0; i < 3; i++)
        c->sizes.phase[i] = part > 0;
    for (int i = 0; i < (g->deep ? 3 : 2) && part > 0; i++) {
        const int64_t begin = (first[i] * g->dilate[i] - g->pad[2 * i]) % g->stride[i];

        c->sizes.phase[i] += begin + (begin < 0 ? g->stride[i] : 0);
        if (limber_conv_lattice(c, i).first != first[i])
            return false;
    }
    return true;
}

/* Computes the sizes of the product (for one group) that the convolution, or its stride phase,
 * equals. */
void limber_conv_product(const struct conv *c, int64_t *m, int64_t *n, int64_t *k)
{
    const struct conv_sizes *s = &c->sizes;
    int64_t window = window_elements(c);

    switch (c->geometry.direction) {
    case DIRECTION_data:
        *m = group_channels(c);
        *n = s->n * image_pixels(c);
        *k = group_filters(c) * window;
        if (!is_phase(c))
            break;
        *n = s->n;
        *k = group_filters(c);
        for (int i = 0; i < (c->geometry.deep ? 3 : 2); i++) {
            *n *= limber_conv_lattice(c, i).pixels;
            *k *= limber_conv_lattice(c, i).taps;
        }
        break;
    case DIRECTION_filter:
        *m = group_filters(c);
        *n = group_channels(c) * window;
        *k = s->n * result_pixels(c);
        break;
    default:
        *m = group_filters(c);
        *n = s->n * result_pixels(c);
        *k = group_channels(c) * window;
        break;
    }
}

/* Returns the number of elements along k, with the padding of order=rsc. */
int64_t limber_conv_length(const struct conv *c, int bytes)
{
    int64_t m, n, k;

    limber_conv_product(c, &m, &n, &k);
    if (c->geometry.direction != DIRECTION_forward || c->geometry.order != ORDER_rsc)
        return k;
    return padded_channels(group_channels(c) * limber_conv_depths(c).window, bytes) * c->sizes.r *
           c->sizes.s;
}

/* If channels vary fastest along k (order=rsc), sets the number of channels of each pixel, and
 * this number with padding. bytes: size of an element. */
static void pad_channels_for_rsc(struct patch *w, const struct conv *c, int bytes)
{
    if (c->geometry.order != ORDER_rsc)
        return;
    w->channels = group_channels(c) * limber_conv_depths(c).window;
    w->depth = padded_channels(w->channels, bytes);
}

/* Maps filters: as images of the window's size, each of which gives one pixel of the result.  In
 * NCHW with order crs the map is that of a plain matrix whose rows are filters. */
static void map_filters(struct index_map *m, const struct conv *c, int bytes)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t depth = group_channels(c), window = window_elements(c), size = depth * window;

    m->group = group_filters(c) * size;
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
        .channel = nchw ? window : 1,
        .row = nchw ? s->s : s->s * depth,
        .col = nchw ? 1 : depth,
    };
    deepen_filters(&m->patch, c);
    pad_channels_for_rsc(&m->patch, c, bytes);
}

/* Maps the image as a matrix (im2col): columns of B are pixels of the result, and k runs through
 * the elements of the pixel's window. */
static void map_patches(struct index_map *m, const struct conv *c, int bytes)
{
    const struct conv_geometry *g = &c->geometry;
    const struct conv_sizes *s = &c->sizes;
    bool nchw = g->layout == LAYOUT_nchw;

    m->group = nchw ? group_channels(c) * image_pixels(c) : group_channels(c);
    m->patched = true;
    m->patch = (struct patch){
        .h = s->h,
        .w = s->w,
        .r = s->r,
        .s = s->s,
        .oh = s->oh,
        .ow = s->ow,
        .stride = { g->stride[0], g->stride[1], g->stride[2] },
        .pad = { g->pad[0], g->pad[2], g->pad[4] },
        .dilate = { g->dilate[0], g->dilate[1], g->dilate[2] },
        .image = s->c * image_pixels(c),
        .channel = nchw ? image_pixels(c) : 1,
        .row = nchw ? s->w : s->w * s->c,
        .col = nchw ? 1 : s->c,
    };
    if (g->deep) {
        m->patch.d = s->d;
        m->patch.t = s->t;
        m->patch.od = s->od;
        m->patch.plane = s->h * m->patch.row;
    }
    pad_channels_for_rsc(&m->patch, c, bytes);
}

/* Maps a result that is an image of `planes` channels and `pixels` pixels: rows of the product are
 * the channels of one group. */
static void set_planes(struct index_map *m, const struct conv *c, int64_t rows, int64_t planes,
                       int64_t pixels)
{
    bool nchw = c->geometry.layout == LAYOUT_nchw;

    m->group = nchw ? rows * pixels : rows;
    m->output = (struct output_view){
        .row = nchw ? pixels : 1,
        .col = nchw ? 1 : planes,
        .inner = at_least_one(pixels),
        .outer = planes * pixels,
    };
}

/* Maps C to the result of a forward convolution: rows are filters, columns are pixels. */
static void map_image(struct index_map *m, const struct conv *c)
{
    set_planes(m, c, group_filters(c), c->sizes.o, result_pixels(c));
}

/* ---- backward data --------------------------------------------------------------------------- */

/* Maps the filters, to compute the gradient of the image: rows of A are channels, and k runs over
 * the elements of filters that read a channel. */
static void map_filters_back(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t depth = group_channels(c), window = window_elements(c), size = depth * window;

    m->group = group_filters(c) * size;
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
    deepen_filters(&m->patch, c);
    if (is_phase(c)) {
        const struct lattice down = limber_conv_lattice(c, 0), across = limber_conv_lattice(c, 1);

        m->patch.origin = down.first * m->patch.row + across.first * m->patch.col;
        m->patch.row *= down.step;
        m->patch.col *= across.step;
        m->patch.h = m->patch.r = at_least_one(down.taps);
        m->patch.w = m->patch.s = at_least_one(across.taps);
    }
    if (is_phase(c) && c->geometry.deep) {
        const struct lattice into = limber_conv_lattice(c, 2);

        m->patch.origin += into.first * m->patch.plane;
        m->patch.plane *= into.step;
        m->patch.d = m->patch.t = at_least_one(into.taps);
    }
}

/* Maps dy, to compute the gradient of the image: pixel y of dx and element r of the window read dy
 * at (y + pad - r dilate) / stride if that is an integer, else 0. */
static void map_patches_back(struct index_map *m, const struct conv *c)
{
    const struct conv_geometry *g = &c->geometry;
    const struct conv_sizes *s = &c->sizes;
    bool nchw = g->layout == LAYOUT_nchw;
    bool apart = g->stride[0] > 1 || g->stride[1] > 1 || g->stride[2] > 1;
    int64_t pixels = result_pixels(c);
    struct patch *w = &m->patch;

    m->group = nchw ? group_filters(c) * pixels : group_filters(c);
    m->patched = true;
    m->patch = (struct patch){
        .h = s->oh,
        .w = s->ow,
        .r = s->r,
        .s = s->s,
        .oh = s->h,
        .ow = s->w,
        .stride = { 1, 1, 1 },
        .pad = { -g->pad[0], -g->pad[2], -g->pad[4] },
        .dilate = { -g->dilate[0], -g->dilate[1], -g->dilate[2] },
        .image = s->o * pixels,
        .channel = nchw ? pixels : 1,
        .row = nchw ? s->ow : s->ow * s->o,
        .col = nchw ? 1 : s->o,
    };
    if (g->deep) {
        w->d = s->od;
        w->t = s->t;
        w->od = s->d;
        w->plane = s->oh * w->row;
    }
    for (int i = 0; i < 3 && apart && !is_phase(c); i++)
        w->divide[i] = g->stride[i];
    for (int i = 0; i < (g->deep ? 3 : 2) && is_phase(c); i++) {
        const struct lattice x = limber_conv_lattice(c, i);

        *(int64_t *[]){ &w->oh, &w->ow, &w->od }[i] = at_least_one(x.pixels);
        *(int64_t *[]){ &w->r, &w->s, &w->t }[i] = at_least_one(x.taps);
        w->pad[i] = -x.at;
        w->dilate[i] = -x.dilate;
    }
}

/* Maps the gradient of the image, as a result.  A phase stores only the pixels of its lattice
 * (struct lattice). */
static void map_image_back(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;

    set_planes(m, c, group_channels(c), s->c, image_pixels(c));
    if (is_phase(c)) {
        const struct lattice down = limber_conv_lattice(c, 0), across = limber_conv_lattice(c, 1);
        struct output_view *v = &m->output;

        v->origin = (down.begin * s->w + across.begin) * v->col;
        v->inner = at_least_one(down.pixels * across.pixels);
        v->wide = at_least_one(across.pixels);
        v->jump = down.stride * s->w * v->col;
        if (c->geometry.deep) {
            const struct lattice into = limber_conv_lattice(c, 2);

            v->origin += into.begin * s->h * s->w * v->col;
            v->inner = at_least_one(into.pixels * down.pixels * across.pixels);
            v->high = at_least_one(down.pixels);
            v->leap = into.stride * s->h * s->w * v->col;
        }
        v->col *= across.stride;
    }
}

/* ---- backward filter ------------------------------------------------------------------------- */

/* Maps dy, to compute the gradient of the filters: rows of A are filters, and k runs over the
 * pixels of all results. */
static void map_gradient_of_result(struct index_map *m, const struct conv *c)
{
    const struct conv_sizes *s = &c->sizes;
    bool nchw = c->geometry.layout == LAYOUT_nchw;
    int64_t pixels = result_pixels(c), rows = limber_conv_depths(c).result * s->oh;

    m->group = nchw ? group_filters(c) * pixels : group_filters(c);
    m->patched = nchw && s->n > 1;
    m->line = nchw ? pixels : 1;
    m->p = nchw ? 1 : s->o;
    if (!m->patched)
        return;
    m->patch = (struct patch){
        .h = rows,
        .w = s->ow,
        .r = 1,
        .s = 1,
        .oh = rows,
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

/* Maps the gradient of the filters, as a result. */
static void map_gradient_of_filters(struct index_map *m, const struct conv *c)
{
    int64_t depth = group_channels(c), window = window_elements(c), size = depth * window;
    bool dense = c->geometry.layout == LAYOUT_nchw || window == 1;

    m->group = group_filters(c) * size;
    m->output = (struct output_view){
        .row = size,
        .col = dense ? 1 : depth,
        .inner = dense ? at_least_one(size) : window,
        .outer = dense ? 0 : 1,
    };
}

/* ---- maps by operation and direction --------------------------------------------------------- */

/* Sets *m to the addresses that operation op reads or writes: filters, patches or image. */
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
            map_gradient_of_result(m, c);
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
            map_gradient_of_filters(m, c);
        else
            map_image(m, c);
        break;
    default: break;
    }
}
