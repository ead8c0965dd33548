/* SPDX-License-Identifier: BSD-3-Clause
 * The index maps of a convolution: its nodes say stride, padding, dilation, groups and layout, a
 * call says sizes, and together they say where elements lie.
 *
 *   direction   filters: m x k                  patches: k x n              image: m x n
 *   forward     filters, (o) x (c r s)          x, windows                  y, (o) x (pixels)
 *   data        filters, (c) x (o r s)          dy, windows with zeros      dx, (c) x (pixels)
 *               between pixels, run through backwards; or, phase by phase, without the zeros
 *   filter      dy, (o) x (pixels)              x, windows transposed       dw, (o) x (c r s)  */
#ifndef LIMBER_CONV_H
#define LIMBER_CONV_H

#include "ir/ir.h"
#include "ir/view.h"

/* Attributes of the same names; stride, pad and dilate: down, across and into the depth, whose
 * are last.  Compared as bytes: no holes. */
struct conv_geometry {
    int64_t stride[3], pad[6], dilate[3], groups, layout, direction, order;
    int64_t deep; /* of three dimensions; else what is of the depth is 1, its pads 0 */
};

/* Of the tensors n c h w, o c/groups r s and n o oh ow, in every direction; deep: n c d h w,
 * o c/groups t r s and n o od oh ow. */
struct conv_sizes {
    int64_t n, c, h, w, o, r, s, oh, ow;
    int64_t d, t, od;
    int64_t
        phase[3]; /* backward data: 0, or one more than what pixels of dx leave as rest modulo the
                         stride: only these are computed, of the elements of the window that reach
                         them */
};

struct conv {
    struct conv_geometry geometry;
    struct conv_sizes sizes;
};

/* A node's attributes; what it does not carry has no effect: steps of 1, no padding, one group. */
void limber_conv_read(const struct node *n, struct conv_geometry *g);
/* Sets those that the node's operation carries; false: no memory. */
bool limber_conv_write(struct plan *p, struct node *n, const struct conv_geometry *g);

/* Where one group's matrix lies in its tensor, the address aside. */
struct index_map {
    bool patched; /* by patch, else by strides of lines and along k */
    struct patch patch;
    int64_t line, p;
    struct output_view output; /* of a result, whose matrix is not read */
    int64_t group; /* elements from one group to the next */
};

/* One direction of backward data: of which elements of the window, first, first + step, ..., the
 * pixels begin, begin + stride, ... of dx are sums, and where in dy the first of both meet. */
struct lattice {
    int64_t begin, stride, pixels; /* of dx */
    int64_t first, step, taps; /* of the window */
    int64_t at, dilate; /* in dy: of the first; from one element to the next, back */
};
/* Of a phase, or of a convolution without strides.  of: 0 down, 1 across, 2 into the depth. */
struct lattice limber_conv_lattice(const struct conv *c, int of);

/* Planes of the image, of the window and of the result: 1 of two dimensions. */
struct depths {
    int64_t image, window, result;
};
struct depths limber_conv_depths(const struct conv *c);

/* Elements of the left and the right operand and of the result, of all groups. */
struct conv_elements {
    int64_t left, right, result;
};
struct conv_elements limber_conv_elements(const struct conv *c);

/* Of a group: m x k by k x n. */
void limber_conv_product(const struct conv *c, int64_t *m, int64_t *n, int64_t *k);
/* The map of operation op: filters, patches or image.  bytes: of a limb's element, which order=rsc
 * pads for. */
void limber_conv_map(struct index_map *m, enum op op, const struct conv *c, int bytes);
/* Filters of backward data are read whole (part 0) or phase by phase.  A phase reads the window
 * from one element on, in steps: part 1 + the place of that element. */
int64_t limber_conv_parts(const struct conv *c);
int64_t limber_conv_part(const struct conv *c);
/* Sets the phase that reads this part; false: none does. */
bool limber_conv_set_part(struct conv *c, int64_t part);
/* Elements along k, with that padding. */
int64_t limber_conv_length(const struct conv *c, int bytes);

/* The operand at `data`; the view points into the map. */
static inline struct view limber_map_view(const struct index_map *m, const void *data)
{
    return (struct view){ data, m->line, m->p, m->patched ? &m->patch : NULL, NULL, NULL };
}

static inline struct output_view limber_map_output(const struct index_map *m, void *data)
{
    struct output_view v = m->output;

    v.data = data;
    return v;
}

#endif
