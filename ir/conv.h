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

/* The attributes of the same names.  stride, pad and dilate: down, across, then depth.  Compared
 * by memcmp, so it has no padding. */
struct conv_geometry {
    int64_t stride[3], pad[6], dilate[3], groups, layout, direction, order;
    int64_t deep; /* 1: three dimensions; 0: two, the depth's entries are 1, its pads 0 */
};

/* Sizes of the tensors in every direction: image n c h w, filters o c/groups r s, result n o oh ow.
 * deep: image n c d h w, filters o c/groups t r s, result n o od oh ow. */
struct conv_sizes {
    int64_t n, c, h, w, o, r, s, oh, ow;
    int64_t d, t, od;
    int64_t
        phase[3]; /* backward data: 0: no phases.  Else 1 + the remainder modulo the stride that the
                     computed pixels of dx share; only the elements of the window that reach them
                     are read */
};

/* A convolution: what a plan fixes, and the sizes of a call. */
struct conv {
    struct conv_geometry geometry;
    struct conv_sizes sizes;
};

/* Reads a node's attributes; those that it lacks are neutral: steps of 1, no padding, one group. */
void limber_conv_read(const struct node *n, struct conv_geometry *g);
/* Sets the attributes that the node's operation carries; false: no memory. */
bool limber_conv_write(struct plan *p, struct node *n, const struct conv_geometry *g);

/* The places of one group's matrix elements in its tensor, without the tensor's address. */
struct index_map {
    bool patched; /* true: elements are found by patch; false: by the strides line and p */
    struct patch patch;
    int64_t line, p;
    struct output_view output; /* the result; its matrix is only written */
    int64_t group; /* elements from one group to the next */
};

/* One dimension of a phase of backward data.  The pixels begin, begin + stride, ... of dx are sums
 * over the elements first, first + step, ... of the window. */
struct lattice {
    int64_t begin, stride, pixels; /* dx: first pixel, distance, number of pixels */
    int64_t first, step, taps; /* window: first element, distance, number of elements */
    /* dy: index that pixel `begin` and element `first` multiply; its decrease per further
     * element */
    int64_t at, dilate;
};
/* The lattice of a phase, or of a convolution without strides.  of: 0 down, 1 across, 2 depth. */
struct lattice limber_conv_lattice(const struct conv *c, int of);

/* Planes (depth) of the image, of the window and of the result; 1 in two dimensions. */
struct depths {
    int64_t image, window, result;
};
struct depths limber_conv_depths(const struct conv *c);

/* Numbers of elements of the left operand, the right operand and the result, over all groups. */
struct conv_elements {
    int64_t left, right, result;
};
struct conv_elements limber_conv_elements(const struct conv *c);

/* Sizes of one group's product: m x k by k x n. */
void limber_conv_product(const struct conv *c, int64_t *m, int64_t *n, int64_t *k);
/* The map of operation op: filters, patches or image.  bytes: size of a limb's element, which sets
 * the padding of order=rsc. */
void limber_conv_map(struct index_map *m, enum op op, const struct conv *c, int bytes);
/* The number of parts in which filters are read.  Part 0 is the whole window.  Backward data with
 * strides reads them phase by phase: part 1 + p has every stride-th element from element p on. */
int64_t limber_conv_parts(const struct conv *c);
int64_t limber_conv_part(const struct conv *c);
/* Sets the phase that reads this part; false: none does. */
bool limber_conv_set_part(struct conv *c, int64_t part);
/* Elements along k, with the padding of order=rsc. */
int64_t limber_conv_length(const struct conv *c, int bytes);

/* The operand at `data`, seen through map m, which must outlive the view. */
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
