/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions in every direction by definition, of the public interface alone. */
#ifndef LIMBER_TEST_CONVS_H
#define LIMBER_TEST_CONVS_H

#include <limber/limber.h>

enum { FORWARD, DATA, FILTER, DIRECTIONS };
enum { X, W, Y, TENSORS };

/* The tensor that a direction writes, and the two that it reads. */
extern const int written[DIRECTIONS], reads[DIRECTIONS][2];

/* A convolution of one, two or three dimensions and its tensors' numbers, in the order n c d h w
 * whatever the layout. */
struct trial {
    limber_conv s;
    int64_t od, oh, ow, count[TENSORS];
    int64_t dim[TENSORS][5];
    double *v[TENSORS];
};

/* Sizes of t->s, and room for the numbers; the caller fills it. */
void trial_open(struct trial *t);
void trial_close(struct trial *t);

/* Adds every product of a forward convolution to what the direction writes. */
void by_definition(const struct trial *t, int direction, double *sum);

/* Where element i of a tensor lies in the layout. */
int64_t place(const struct trial *t, int tensor, int64_t i);
/* The tensor in a format, as it lies; the caller frees it. */
char *stored(const struct trial *t, int tensor, limber_format f);

limber_status run_direction(limber_context *ctx, int direction, const limber_contract *contract,
                            const limber_conv *s, limber_format f, const void *a, const void *b,
                            limber_format to, void *c, const void *alpha, const void *beta,
                            limber_report *report);

#endif
