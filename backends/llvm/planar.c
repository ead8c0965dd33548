/* SPDX-License-Identifier: BSD-3-Clause
 * Filter gradients for NHWC images with few channels, such as RGB.  Code that vectorises over
 * channels would fill only a few lanes of each vector.  So the image is copied to NCHW, and the
 * gradient is computed from this copy in a buffer and then copied to C. */
#include "backends/llvm/kernel/join.h"
#include "backends/llvm/unpacked.h"

#include <string.h>

/* CHANNELS: largest number of channels of an NHWC image that is copied to NCHW; PIXELS: number of
 * pixels that a task copies */
enum { CHANNELS = 8, PIXELS = 1024 };

/* Sets up the NCHW copy of the image.  Returns true if the call is a filter gradient of an NHWC
 * image with few channels, which this code can compute. */
bool limber_planar_init(const struct call *c, struct planar *x)
{
    const struct patch *w = c->b.patch;
    const struct output_view *v = &c->c;
    int64_t channels = w ? c->n / (w->r * w->s) : 0;

    if (!w || !w->transposed || w->t || w->depth || w->divide[0] || w->channel != 1 ||
        w->col == 1 || w->r * w->s == 1 || channels > CHANNELS || c->beta || v->wide || v->rows ||
        v->cols)
        return false;
    *x = (struct planar){ .of = c, .call = *c, .channels = channels, .pixels = w->h * w->w };
    x->images = c->k / (w->oh * w->ow);
    x->patch = *w;
    x->patch.col = 1;
    x->patch.row = w->w;
    x->patch.channel = x->pixels;
    x->patch.image = channels * x->pixels;
    x->patch.origin = 0;
    /* limber_planar_call sets the patch later, so that copies of *x do not point into the
     * original */
    x->call.b.patch = NULL;
    x->call.c = (struct output_view){ .row = c->n, .col = 1, .inner = c->n };
    x->call.finish = NULL;
    return true;
}

/* Returns the bytes of the copies of image and gradient. */
double limber_planar_bytes(const struct planar *x, int size)
{
    return ((double)x->images * (double)x->patch.image + (double)x->call.m * (double)x->call.n) *
               size +
           2 * LINE;
}

/* Sets the size of an element in bytes, and the call's pointer to its windows, x->patch. */
void limber_planar_call(struct planar *x, int size)
{
    x->size = size;
    x->call.b.patch = &x->patch;
}

/* Assigns memory for the copies of image and gradient. */
void limber_planar_place(struct planar *x, char *memory)
{
    memory = (char *)(((uintptr_t)memory + LINE - 1) & ~(uintptr_t)(LINE - 1));
    x->call.b.data = x->image = memory;
    x->call.c.data = x->gradient = memory + round_up(x->images * x->patch.image * x->size, LINE);
}

/* Task: copies some rows of an NHWC image to planes, one plane per channel. */
static void fill_rows(void *arg, int64_t task, int worker)
{
    const struct planar *x = arg;
    const struct patch *from = x->of->b.patch;
    const int64_t rows = PIXELS / from->w + 1, tasks = ceil_div(from->h, rows);
    const int64_t image = task / tasks, first = task % tasks * rows;

    (void)worker;
    for (int64_t y = first; y < first + rows && y < from->h; y++)
        for (int64_t c = 0; c < x->channels; c++) {
            const char *at = (const char *)x->of->b.data +
                             (from->origin + image * from->image + y * from->row + c) * x->size;
            char *to = x->image + ((image * x->channels + c) * x->pixels + y * from->w) * x->size;

            /* a constant distance and length, for which the compiler makes vector code */
            if (x->size == 4 && from->col == 3)
                join_steps(to, at, 3, from->w, 4);
            else if (x->size == 4)
                join_steps(to, at, from->col, from->w, 4);
            else
                join_steps(to, at, from->col, from->w, 8);
        }
}

/* Copies the image to NCHW. */
void limber_planar_fill(struct planar *x)
{
    const struct patch *from = x->of->b.patch;
    const int64_t rows = PIXELS / from->w + 1;

    x->of->runner->run(x->of->runner->self, x->images * ceil_div(from->h, rows), fill_rows, x);
}

/* Copies the gradient to C. */
void limber_planar_store(const struct planar *x)
{
    for (int64_t i = 0; i < x->call.m; i++)
        for (int64_t j = 0; j < x->call.n; j++)
            memcpy(limber_output_at(&x->of->c, i, j, x->size),
                   x->gradient + (i * x->call.n + j) * x->size, (size_t)x->size);
}
