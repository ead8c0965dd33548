/* SPDX-License-Identifier: BSD-3-Clause
 * Native products of floats that read A as it lies (unpacked.c): which they are (product.c). */
#ifndef LIMBER_LLVM_UNPACKED_H
#define LIMBER_LLVM_UNPACKED_H

#include "backends/llvm/part.h"

enum {
    ROWS_BYTES = 512 << 10, /* of A, of one chain, that a task reads again and again */
    LINE = 64, /* bytes of a cache's line */
    ALIAS = 2048, /* bytes: addresses a multiple of it apart share sets of the nearest cache */
    NEAR = 4096, /* bytes between rows of B that few rows of A read where they are */
    FEW = 24 /* such rows; and lines that are not worth panels, even where these are kept */
};

/* Whether windows that begin at each `stride`-th pixel, of pixels `bytes` apart, share sets of the
 * nearest cache, and would not with a line of it more between pixels.  Pixels of a few bytes never
 * do. */
static inline bool limber_shares_sets(int64_t bytes, int64_t stride)
{
    return stride % (ALIAS / LINE) != 0 && bytes % ALIAS * (stride % ALIAS) % ALIAS == 0;
}

/* Where B's strips come from. */
enum source {
    SOURCE_rows, /* dense rows */
    SOURCE_lines, /* dense columns, transposed 16 by 16 */
    SOURCE_filters, /* channels of filters lie side by side: turned and transposed once */
    SOURCE_planes, /* of an image whose rows lie side by side */
    SOURCE_taps /* pixels of an image, whose channels do, for a gradient of filters */
};

/* What rows of A are. */
enum rows {
    ROWS_apart, /* some elements apart */
    ROWS_windows, /* windows of an image whose channels lie side by side */
    ROWS_taps /* elements of windows, each seen by all pixels: of planes */
};

/* Where rows of C are. */
enum result {
    RESULT_dense, /* some elements apart, in stretches of columns */
    RESULT_lines, /* anywhere */
    RESULT_staged /* in a buffer, from which they are moved */
};

/* A product C = A B of `size` bytes an element, or C^T = B^T A^T, whose C is dense along rows. */
struct product {
    const struct kernel_config *f;
    const struct call *call;
    struct view a, b;
    struct output_view c;
    int64_t m, n, k;
    int size;
    bool adds; /* to C: beta is not 0 */
    bool one_chain; /* of all of k, not one of LIMBER_SMALL_K after the other */
    struct scaling scaling;
    enum source source;
    bool packs; /* all strips of B at first, each of `width` columns and all of k */
    const struct keeper *keep; /* of these; or NULL */
    enum rows rows;
    enum result result;
    struct patch window; /* of the image that is read as it is, or framed */
    bool frames; /* it is read from a copy that has the padding */
    bool gathers; /* rows of A are copied, a chain at a time, so that they lie side by side */
    const struct keeper *keep_rows; /* of all these copies; or NULL */
    bool turned, gradient; /* C^T = B^T A^T; of filters, turned */
    int64_t width, lanes; /* of a strip, of a vector */
};

/* ---- product.c ------------------------------------------------------------------------------- */

/* NULL where the call is such a product, and it pays; else why not.  *p points to *c. */
const char *limber_product_refuses(const struct kernel *kernel, const struct call *c,
                                   struct product *p);
/* Lines of filters, and of all windows that are whole images, begin `image` elements apart. */
bool limber_are_filters(const struct patch *w);
/* Pixels of the image that windows see down, across or (2) in depth: the first, and one behind the
 * last. */
void limber_patch_reach(const struct patch *w, int of, int64_t *first, int64_t *end);
/* The image's planes, as forward they would be. */
struct call limber_forward_call(const struct call *c);
/* Of the image that is read through windows. */
int64_t limber_product_channels(const struct product *p);

/* ---- planar.c -------------------------------------------------------------------------------- */

/* A gradient of filters as that of an image whose channels lie apart. */
struct planar {
    const struct call *of;
    struct call call;
    struct patch patch; /* what the call's windows see */
    int64_t images, channels, pixels;
    int size;
    char *image, *gradient;
};
/* Is it one that is better so?  x->call is not complete. */
bool limber_planar(const struct call *c, struct planar *x);
double limber_planar_bytes(const struct planar *x, int size);
/* Completes the call, which points to x, but for memory; gives it memory; fills its image; stores
 * its result. */
void limber_planar_call(struct planar *x, int size);
void limber_planar_place(struct planar *x, char *memory);
void limber_planar_fill(struct planar *x);
void limber_planar_store(const struct planar *x);

/* ---- unpacked.c ------------------------------------------------------------------------------ */

/* A launch that is accepted, as it was: it points into itself and to the call. */
struct unpacked {
    bool is_planar;
    struct planar planar;
    struct call first; /* one product: the call, or its first image, */
    struct product product; /* as it is computed */
    int64_t products, image; /* one after the other, so many elements of the image apart */
    int64_t bytes; /* of memory */
};
/* NULL where a launch that packs no side of a native product serves; else why not. */
const char *limber_unpacked_refuses(const struct kernel *k, const struct call *c,
                                    struct unpacked *u);
/* Answers whether the call's result is finished. */
bool limber_unpacked_run(const struct kernel *k, struct unpacked *u, char *memory);

#endif
