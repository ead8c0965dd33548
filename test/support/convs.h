/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions in every direction by definition, through the public interface only. */
#ifndef LIMBER_TEST_CONVS_H
#define LIMBER_TEST_CONVS_H

#include <limber/limber.h>

enum { FORWARD, DATA, FILTER, DIRECTIONS };
enum { X, W, Y, TENSORS };

/* For each direction, the tensor that it writes and the two that it reads. */
extern const int written[DIRECTIONS], reads[DIRECTIONS][2];

/* A convolution of one to three dimensions, with its tensors in the order n c d h w whatever the
 * layout. */
struct trial {
    limber_conv s;
    int64_t od, oh, ow, count[TENSORS];
    int64_t dim[TENSORS][5];
    double *v[TENSORS];
};

/* Computes the sizes of t->s and allocates the tensors, which the caller fills. */
void trial_open(struct trial *t);
void trial_close(struct trial *t);

/* Computes sums by definition: adds each product of a forward convolution to the element that the
 * direction writes. */
void by_definition(const struct trial *t, int direction, double *sum);

/* The index of element i of a tensor in the layout. */
int64_t place(const struct trial *t, int tensor, int64_t i);
/* The tensor converted to a format, in its layout; the caller frees it. */
char *stored(const struct trial *t, int tensor, limber_format f);

limber_status run_direction(limber_context *ctx, int direction, const limber_contract *contract,
                            const limber_conv *s, limber_format f, const void *a, const void *b,
                            limber_format to, void *c, const void *alpha, const void *beta,
                            limber_report *report);

#endif
