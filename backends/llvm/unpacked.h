/* SPDX-License-Identifier: BSD-3-Clause
 * Native products of floats that read A without packing it (unpacked.c).  product.c decides which
 * products are computed so. */
#ifndef LIMBER_LLVM_UNPACKED_H
#define LIMBER_LLVM_UNPACKED_H

#include "backends/llvm/part.h"

enum {
    ROWS_BYTES = 512 << 10, /* bytes of one chain of A's rows that a task keeps in L2 */
    LINE = 64, /* bytes of a cache line */
    /* bytes; addresses map to the same L1 sets if their distance is a multiple of this number */
    ALIAS = 2048,
    /* if rows of B are at least this many bytes apart, they are read in place only for few rows of
     * A */
    NEAR = 4096,
    /* a product with at most this many rows reads B in place, which is faster than from packed
     * panels, even if these are prepared */
    FEW = 24
};

/* True if windows at every `stride`-th pixel share L1 sets, but would not if pixels were one cache
 * line longer.  bytes: distance between pixels. */
static inline bool limber_shares_sets(int64_t bytes, int64_t stride)
{
    return stride % (ALIAS / LINE) != 0 && bytes % ALIAS * (stride % ALIAS) % ALIAS == 0;
}

/* Source of the strips of columns of B. */
enum source {
    SOURCE_rows, /* contiguous rows of B, read in place or copied */
    SOURCE_lines, /* contiguous columns of B, transposed in blocks of 16 x 16 */
    SOURCE_filters, /* filters with contiguous channels, which are transposed once */
    SOURCE_planes, /* planes of an NCHW image, from which strips are gathered */
    SOURCE_taps /* pixels of an NHWC image, for a filter gradient */
};

/* How rows of A lie in memory. */
enum rows {
    ROWS_apart, /* a matrix row; the distance between rows is constant */
    ROWS_windows, /* a window of an NHWC image */
    ROWS_taps /* one element of all windows: for each pixel of the result, read from planes */
};

/* Where the rows of C are stored. */
enum result {
    RESULT_dense, /* rows have a constant distance; a row is one or more contiguous stretches */
    RESULT_lines, /* each row has its own address */
    RESULT_staged /* rows are in a buffer, from which they are copied to C */
};

/* A product C = A B or, transposed, C^T = B^T A^T, whose rows of C are contiguous.  An element has
 * `size` bytes. */
struct unpacked_product {
    const struct kernel_config *f;
    const struct call *call;
    struct view a, b;
    struct output_view c;
    int64_t m, n, k;
    int size;
    bool adds; /* true if beta is not 0 */
    /* true: a sum along k is one chain; false: it has chains of LIMBER_SMALL_K elements */
    bool one_chain;
    struct scaling scaling;
    enum source source;
    /* true if all strips of B are packed before they are multiplied: `width` columns each, for all
     * of k */
    bool packs;
    /* keeps prepared strips of B from call to call; NULL if B is not prepared */
    const struct keeper *keep;
    enum rows rows;
    enum result result;
    /* geometry of the image that windows read, with padding if `frames` is set */
    struct patch window;
    bool frames; /* true if the image is copied with its padding */
    /* true if rows of A are copied to a buffer, one chain at a time, and interleaved */
    bool gathers;
    /* keeps prepared copies of all gathered rows of A; NULL if A is not prepared */
    const struct keeper *keep_rows;
    /* turned: the product is transposed; gradient: it is also a filter gradient */
    bool turned, gradient;
    /* width: number of columns of a strip of B; lanes: elements of a vector */
    int64_t width, lanes;
};

/* ---- product.c ------------------------------------------------------------------------------- */

/* Fills *p and returns NULL if the call is faster as an unpacked product; else returns the reason
 * why not.  *p keeps a pointer to *c. */
const char *limber_product_refuses(const struct kernel *kernel, const struct call *c,
                                   struct unpacked_product *p);
/* True if each window covers a full image, as filters do, so that the windows' first elements are
 * `image` elements apart. */
bool limber_is_window_over_whole_image(const struct patch *w);
/* Sets [*first, *end) to the range of pixels that windows read, in rows (of = 0), columns (1) or
 * planes (2).  The range may reach into padding. */
void limber_patch_reach(const struct patch *w, int of, int64_t *first, int64_t *end);
/* Returns a copy of a filter gradient's call with n and k exchanged, as in the forward convolution.
 * The gradient reads planes that are packed for the forward convolution. */
struct call limber_exchange_n_and_k(const struct call *c);
/* Returns the number of channels of the image that windows read. */
int64_t limber_product_channels(const struct unpacked_product *p);

/* ---- planar.c -------------------------------------------------------------------------------- */

/* A filter gradient that is computed on an NCHW copy of the image. */
struct planar {
    const struct call *of;
    struct call call;
    struct patch patch; /* how windows read the copy */
    int64_t images, channels, pixels;
    int size;
    char *image, *gradient;
};
/* Fills *x.  Returns true if the gradient is computed faster from an NCHW copy of the image. */
bool limber_planar_init(const struct call *c, struct planar *x);
/* Returns the bytes of the copies of image and gradient. */
double limber_planar_bytes(const struct planar *x, int size);
/* The four functions below are the steps of a launch, in this order.  Completes x->call, which then
 * points into *x. */
void limber_planar_call(struct planar *x, int size);
/* Assigns memory for the copies of image and gradient. */
void limber_planar_place(struct planar *x, char *memory);
/* Copies the image to NCHW. */
void limber_planar_fill(struct planar *x);
/* Copies the gradient to C. */
void limber_planar_store(const struct planar *x);

/* ---- unpacked.c ------------------------------------------------------------------------------ */

/* An accepted launch.  The structure must not be copied, since it contains pointers into itself and
 * to the call. */
struct unpacked {
    bool is_planar;
    struct planar planar;
    struct call first; /* the call, or the part of it that computes its first image */
    struct unpacked_product product; /* the product that computes `first` */
    /* number of products, and distance in elements between their images */
    int64_t products, image;
    int64_t bytes; /* bytes of workspace */
};
/* Fills *u and returns NULL if this native product can be computed without packing A; else returns
 * the reason why not. */
const char *limber_unpacked_refuses(const struct kernel *k, const struct call *c,
                                    struct unpacked *u);
/* Computes the launch.  Returns true if the caller's epilogue has been applied. */
bool limber_unpacked_run(const struct kernel *k, struct unpacked *u, char *memory);

#endif
