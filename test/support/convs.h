/* SPDX-License-Identifier: BSD-3-Clause
 * Reference convolutions in every direction, computed from the definition without the library. */
#ifndef LIMBER_TEST_CONVS_H
#define LIMBER_TEST_CONVS_H

#include <limber/limber.h>

enum { FORWARD, DATA, FILTER, DIRECTIONS };
enum { X, W, Y, TENSORS };

/* [direction]: the tensor that it computes; the two tensors that it reads */
extern const int written[DIRECTIONS], reads[DIRECTIONS][2];

/* A convolution of one to three dimensions, and its tensors X (image), W (filters) and Y
 * (result). */
struct trial {
    limber_conv s;
    /* sizes of the output; count: elements of each tensor */
    int64_t od, oh, ow, count[TENSORS];
    /* sizes n c d h w of each tensor (W: o c t r s) */
    int64_t dim[TENSORS][5];
    /* elements of each tensor, in the order n c d h w for every layout; owned */
    double *v[TENSORS];
};

/* Computes sizes from t->s, and allocates the tensors.  The caller fills them. */
void trial_open(struct trial *t);
void trial_close(struct trial *t);

/* Computes, in binary64, the tensor that the direction writes: adds each product of the forward
 * convolution to the element to which it belongs. */
void convolve_by_definition(const struct trial *t, int direction, double *sum);

/* Returns the index in memory, in the convolution's layout, of the tensor's element i, which is
 * counted in the order n c d h w. */
int64_t place(const struct trial *t, int tensor, int64_t i);
/* Returns a tensor in a format, in its layout.  The caller frees it. */
char *stored(const struct trial *t, int tensor, limber_format f);

/* Calls limber_conv2d or one of its gradients.  a, b: the two tensors that the direction reads. */
limber_status run_direction(limber_context *ctx, int direction, const limber_contract *contract,
                            const limber_conv *s, limber_format f, const void *a, const void *b,
                            limber_format to, void *c, const void *alpha, const void *beta,
                            limber_report *report);

#endif
