/* SPDX-License-Identifier: BSD-3-Clause */
#include "convs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const int written[DIRECTIONS] = { Y, X, W };
const int reads[DIRECTIONS][2] = { { X, W }, { Y, W }, { X, Y } };

/* Computes the sizes of a convolution's tensors from its description, and allocates their elements
 * as doubles, without values. */
void trial_open(struct trial *t)
{
    const limber_conv *s = &t->s;

    assert_int_equal(limber_conv_output(s, &t->oh, &t->ow), LIMBER_STATUS_OK);
    assert_int_equal(limber_conv_output_depth(s, &t->od), LIMBER_STATUS_OK);
    memcpy(t->dim,
           ((int64_t[TENSORS][5]){ { s->n, s->c, s->t ? s->d : 1, s->h, s->w },
                                   { s->o, s->c / s->groups, s->t ? s->t : 1, s->r, s->s },
                                   { s->n, s->o, t->od, t->oh, t->ow } }),
           sizeof t->dim);
    for (int i = 0; i < TENSORS; i++) {
        t->count[i] = 1;
        for (int j = 0; j < 5; j++)
            t->count[i] *= t->dim[i][j];
        t->v[i] = malloc((size_t)t->count[i] * sizeof(double));
    }
}

void trial_close(struct trial *t)
{
    for (int i = 0; i < TENSORS; i++)
        free(t->v[i]);
}

/* Computes each product that element i of the forward convolution's output sums.  Adds the product
 * to the element of `sum` that has it as a term in this direction: an element of the output, or of
 * the gradient of the image or of the filters. */
static void add_products_of_output(const struct trial *t, int direction, int64_t i, double *sum)
{
    const limber_conv *s = &t->s;
    const int64_t channels = s->c / s->groups, filter_depth = t->dim[W][2], depth = t->dim[X][2];
    const int64_t ox = i % t->ow, oy = i / t->ow % t->oh, oz = i / (t->ow * t->oh) % t->od;
    const int64_t o = i / (t->ow * t->oh * t->od) % s->o, n = i / (t->ow * t->oh * t->od * s->o);
    const int64_t first = n * s->c + o / (s->o / s->groups) * channels;
    const double *a = t->v[reads[direction][0]], *b = t->v[reads[direction][1]];

    for (int64_t q = 0; q < channels * filter_depth * s->r * s->s; q++) {
        const int64_t x = q % s->s, y = q / s->s % s->r, z = q / (s->s * s->r) % filter_depth;
        const int64_t c = q / (s->s * s->r * filter_depth);
        const int64_t d = oz * (s->depth_stride ? s->depth_stride : 1) +
                          z * (s->depth_dilate ? s->depth_dilate : 1) - s->depth_pad[0];
        const int64_t h = oy * s->stride[0] + y * s->dilate[0] - s->pad[0];
        const int64_t w = ox * s->stride[1] + x * s->dilate[1] - s->pad[2];
        const int64_t at[TENSORS] = {
            [X] = (((first + c) * depth + d) * s->h + h) * s->w + w,
            [W] = (((o * channels + c) * filter_depth + z) * s->r + y) * s->s + x,
            [Y] = i,
        };

        if (d >= 0 && d < depth && h >= 0 && h < s->h && w >= 0 && w < s->w)
            sum[at[written[direction]]] += a[at[reads[direction][0]]] * b[at[reads[direction][1]]];
    }
}

void convolve_by_definition(const struct trial *t, int direction, double *sum)
{
    memset(sum, 0, (size_t)t->count[written[direction]] * sizeof *sum);
    for (int64_t i = 0; i < t->count[Y]; i++)
        add_products_of_output(t, direction, i, sum);
}

/* Returns the index in memory of element i, counted in NCHW order. */
int64_t place(const struct trial *t, int tensor, int64_t i)
{
    const int64_t *d = t->dim[tensor], pixels = d[2] * d[3] * d[4];
    int64_t pixel = i % pixels, c = i / pixels % d[1], n = i / (pixels * d[1]);

    return t->s.layout == LIMBER_LAYOUT_NCHW ? i : (n * pixels + pixel) * d[1] + c;
}

/* Returns a tensor's numbers, converted to a format and laid out as stored. */
char *stored(const struct trial *t, int tensor, limber_format f)
{
    char *out = malloc((size_t)t->count[tensor] * f.size);

    for (int64_t i = 0; i < t->count[tensor]; i++)
        assert_int_equal(limber_convert(out + place(t, tensor, i) * f.size, f, &t->v[tensor][i],
                                        LIMBER_F64, 1, LIMBER_ROUND_NEAREST),
                         LIMBER_STATUS_OK);
    return out;
}

/* Computes a convolution (FORWARD) or its gradient of the image (DATA) or of the filters.  a, b:
 * the operation's two inputs; c: its result. */
limber_status run_direction(limber_context *ctx, int direction, const limber_contract *contract,
                            const limber_conv *s, limber_format f, const void *a, const void *b,
                            limber_format to, void *c, const void *alpha, const void *beta,
                            limber_report *report)
{
    switch (direction) {
    case FORWARD: return limber_conv2d(ctx, contract, s, alpha, a, f, b, f, beta, c, to, report);
    case DATA:
        return limber_conv2d_backward_data(ctx, contract, s, alpha, a, f, b, f, beta, c, to,
                                           report);
    default:
        return limber_conv2d_backward_filter(ctx, contract, s, alpha, a, f, b, f, beta, c, to,
                                             report);
    }
}
