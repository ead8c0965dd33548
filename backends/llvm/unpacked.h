/* SPDX-License-Identifier: BSD-3-Clause
 * Native products of floats that read A unpacked (unpacked.c); product.c decides which. */
#ifndef LIMBER_LLVM_UNPACKED_H
#define LIMBER_LLVM_UNPACKED_H

#include "backends/llvm/part.h"

enum {
    ROWS_BYTES = 512 << 10, /* bytes of A, of one chain, that a task keeps in L2 */
    LINE = 64, /* bytes of a cache line */
    ALIAS = 2048, /* bytes: addresses that differ by a multiple share L1 sets */
    NEAR = 4096, /* bytes between rows of B from which on few rows of A read them in place */
    FEW = 24 /* most such rows; also lines that do not repay panels, even prepared ones */
};

/* True if windows at every `stride`-th pixel share L1 sets, and would not with pixels one cache
 * line longer.  `bytes` is the distance of pixels. */
static inline bool limber_shares_sets(int64_t bytes, int64_t stride)
{
    return stride % (ALIAS / LINE) != 0 && bytes % ALIAS * (stride % ALIAS) % ALIAS == 0;
}

/* Source of B's strips. */
enum source {
    SOURCE_rows, /* dense rows, read in place or copied */
    SOURCE_lines, /* dense columns, transposed 16 by 16 */
    SOURCE_filters, /* filters with contiguous channels, transposed once */
    SOURCE_planes, /* planes of an NCHW image */
    SOURCE_taps /* pixels of an NHWC image, for a filter gradient */
};

/* Kind of A's rows. */
enum rows {
    ROWS_apart, /* a line with a constant distance to the next */
    ROWS_windows, /* a window of an NHWC image */
    ROWS_taps /* one element of the windows, as each pixel sees it, from planes */
};

/* Destination of C's rows. */
enum result {
    RESULT_dense, /* at a constant distance, with contiguous stretches of columns */
    RESULT_lines, /* at any address */
    RESULT_staged /* in a buffer, from which they are copied */
};

/* A product C = A B, or C^T = B^T A^T, with dense rows of C; elements have `size` bytes. */
struct product {
    const struct kernel_config *f;
    const struct call *call;
    struct view a, b;
    struct output_view c;
    int64_t m, n, k;
    int size;
    bool adds; /* beta is not 0 */
    bool one_chain; /* k is one chain, not several of LIMBER_SMALL_K elements */
    struct scaling scaling;
    enum source source;
    bool packs; /* all strips of B are packed first: `width` columns each, for all of k */
    const struct keeper *keep; /* prepared strips of B, or NULL */
    enum rows rows;
    enum result result;
    struct patch window; /* image that windows read, with padding if `frames` */
    bool frames; /* the image is copied with its padding */
    bool gathers; /* rows of A are copied, one chain at a time, and interleaved */
    const struct keeper *keep_rows; /* prepared copies of all rows, or NULL */
    bool turned, gradient; /* the product is transposed; it is a transposed filter gradient */
    int64_t width, lanes; /* columns of a strip; elements of a vector */
};

/* ---- product.c ------------------------------------------------------------------------------- */

/* NULL if the call is faster as an unpacked product; else the reason why not.  *p points to *c. */
const char *limber_product_refuses(const struct kernel *kernel, const struct call *c,
                                   struct product *p);
/* True if each window is a whole image, as filters are: lines begin `image` elements apart. */
bool limber_is_window_over_whole_image(const struct patch *w);
/* The range [*first, *end) of pixels that windows see, in rows (of = 0), columns (1) or planes (2).
 * It may reach into padding. */
void limber_patch_reach(const struct patch *w, int of, int64_t *first, int64_t *end);
/* The forward convolution whose planes a filter gradient reads. */
struct call limber_forward_call(const struct call *c);
/* Channels of the image that windows read. */
int64_t limber_product_channels(const struct product *p);

/* ---- planar.c -------------------------------------------------------------------------------- */

/* A filter gradient that is computed on an NCHW copy of the image. */
struct planar {
    const struct call *of;
    struct call call;
    struct patch patch; /* patch of the copy */
    int64_t images, channels, pixels;
    int size;
    char *image, *gradient;
};
/* Fills x.  True if computing this gradient from a planar copy of the image is faster. */
bool limber_planar_init(const struct call *c, struct planar *x);
double limber_planar_bytes(const struct planar *x, int size);
/* In order: completes the call, which then points to x; assigns memory; fills the image; stores the
 * result. */
void limber_planar_call(struct planar *x, int size);
void limber_planar_place(struct planar *x, char *memory);
void limber_planar_fill(struct planar *x);
void limber_planar_store(const struct planar *x);

/* ---- unpacked.c ------------------------------------------------------------------------------ */

/* An accepted launch.  It must not be copied: it points into itself and to the call. */
struct unpacked {
    bool is_planar;
    struct planar planar;
    struct call first; /* the call, or its first image */
    struct product product; /* how it is computed */
    int64_t products, image; /* number of products, and their distance in the image in elements */
    int64_t bytes; /* bytes of workspace */
};
/* NULL if a native product can be launched without packing A; else the reason why not. */
const char *limber_unpacked_refuses(const struct kernel *k, const struct call *c,
                                    struct unpacked *u);
/* Returns whether the epilogue has been applied. */
bool limber_unpacked_run(const struct kernel *k, struct unpacked *u, char *memory);

#endif
