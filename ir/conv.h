/* SPDX-License-Identifier: BSD-3-Clause
 * The index maps of a convolution.  A plan's nodes give stride, padding, dilation, groups and
 * layout; a call gives the sizes of the tensors.  Together they tell where the elements of the
 * factors and of the result of a matrix product are in memory:
 *
 *   direction   filters: m x k                  patches: k x n              image: m x n
 *   forward     filters, (o) x (c r s)          x, windows                  y, (o) x (pixels)
 *   data        filters, (c) x (o r s)          dy, windows with zeros      dx, (c) x (pixels)
 *               between pixels, read backwards; or, phase by phase, without the zeros
 *   filter      dy, (o) x (pixels)              x, windows transposed       dw, (o) x (c r s) */
#ifndef LIMBER_CONV_H
#define LIMBER_CONV_H

#include "ir/ir.h"
#include "ir/view.h"

/* The attributes of a convolution's node (ir/attrs.h).  stride, pad and dilate: vertical,
 * horizontal, depth; pad has two entries for each, before and after.  Compared by memcmp, so there
 * is no padding. */
struct conv_geometry {
    int64_t stride[3], pad[6], dilate[3], groups, layout, direction, order;
    /* 1: three dimensions; 0: two, and the depth's stride and dilate are 1, its pads 0 */
    int64_t deep;
};

/* Sizes of the tensors of the forward convolution, for gradients, too: image n c h w, filters o
 * c/groups r s, result n o oh ow.  In three dimensions: image n c d h w, filters o c/groups t r s,
 * result n o od oh ow. */
struct conv_sizes {
    int64_t n, c, h, w, o, r, s, oh, ow;
    int64_t d, t, od;
    /* Backward data with strides: a stride phase is a product that computes only the pixels of
     * dx with one remainder modulo the stride, and reads only the window's elements that reach
     * these pixels. phase is 1 + this remainder [vertical, horizontal, depth]; 0 if all pixels
     * are computed. */
    int64_t phase[3];
};

/* A convolution: what its plan fixes, and the sizes of one call. */
struct conv {
    struct conv_geometry geometry;
    struct conv_sizes sizes;
};

/* Reads the attributes of a node.  Attributes that it lacks get neutral values: steps of 1, no
 * padding, one group. */
void limber_conv_read(const struct node *n, struct conv_geometry *g);
/* Returns the node that has a convolution's geometry: `conv` before the passes, `patches` after
 * them.  NULL in the plan of a GEMM. */
const struct node *limber_conv_node(const struct plan *p);
/* Sets those attributes of a node that its operation can have.  Returns false if memory runs
 * out. */
bool limber_conv_write(struct plan *p, struct node *n, const struct conv_geometry *g);

/* Where the elements of one group's matrix are in a tensor.  Offsets count from the tensor's
 * address. */
struct index_map {
    /* true: `patch` locates the elements; false: the strides `line` and `p` locate them */
    bool patched;
    struct patch patch;
    /* strides of a matrix, in elements: from row to row of A (column to column of B), and along
     * k */
    int64_t line, p;
    struct output_view output; /* the map of the result, which is only written */
    int64_t group; /* elements from one group to the next */
};

/* One dimension of a stride phase of backward data (struct conv_sizes): a regular grid of
 * pixels.  Pixels begin, begin + stride, ... of dx are sums over elements first, first + step,
 * ... of the window. */
struct lattice {
    /* the phase's pixels of dx: the first one, their distance, and their number */
    int64_t begin, stride, pixels;
    /* the elements of the window that these pixels read: first one, distance, and number */
    int64_t first, step, taps;
    /* dy: index of the pixel that pixel `begin` of dx reads with element `first` of the window; how
     * much the index decreases from one element of the window to the next */
    int64_t at, dilate;
};
/* Returns the lattice (grid of pixels) of a stride phase, or of a convolution without strides, in
 * dimension `of`: 0 vertical, 1 horizontal, 2 depth. */
struct lattice limber_conv_lattice(const struct conv *c, int of);

/* Sizes in the third dimension (depth) of image, window and result.  All are 1 for a convolution of
 * two dimensions. */
struct depths {
    int64_t image, window, result;
};
struct depths limber_conv_depths(const struct conv *c);

/* The numbers of elements of the left factor, the right factor and the result, over all groups. */
struct conv_elements {
    int64_t left, right, result;
};
struct conv_elements limber_conv_elements(const struct conv *c);

/* Sets the sizes of one group's product: m x k by k x n. */
void limber_conv_product(const struct conv *c, int64_t *m, int64_t *n, int64_t *k);
/* Sets *m to the map of operation op: filters, patches or image. bytes: size of a limb's element,
 * on which the padding of order=rsc depends. */
void limber_conv_map(struct index_map *m, enum op op, const struct conv *c, int bytes);
/* Returns the number of parts in which filters are read.  Part 0 is the complete window.  Backward
 * data with strides reads the filters phase by phase: part 1 + p has every stride-th element of the
 * window from element p on. */
int64_t limber_conv_parts(const struct conv *c);
/* Returns the number of the part of the filters that this convolution, or its stride phase,
 * reads. */
int64_t limber_conv_part(const struct conv *c);
/* Sets c's stride phase to the one that reads this part of the filters.  Returns false if there is
 * none. */
bool limber_conv_set_part(struct conv *c, int64_t part);
/* Returns the number of elements along k, with the padding of order=rsc. */
int64_t limber_conv_length(const struct conv *c, int bytes);

/* Returns a view of the operand at `data`, whose elements are located by map m, which must outlive
 * the view. */
static inline struct view limber_map_view(const struct index_map *m, const void *data)
{
    return (struct view){ data, m->line, m->p, m->patched ? &m->patch : NULL, NULL, NULL };
}

/* Returns a view of the result at `data`, whose elements are located by map m. */
static inline struct output_view limber_map_output(const struct index_map *m, void *data)
{
    struct output_view v = m->output;

    v.data = data;
    return v;
}

#endif
