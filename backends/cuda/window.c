/* SPDX-License-Identifier: BSD-3-Clause
 * Convolutions that pack each pixel of the image once (NHWC).  The multiply kernel then reads B
 * from the packed image through the convolution's window.  If a pixel's channels are no multiple of
 * 16 bytes, the window covers few of the pixels, or only some blocks of pixels are multiplied, the
 * im2col matrix is packed instead. */
#include "backends/cuda/launch.h"

#include "ir/num/prim.h"

enum {
    PIECE = 16,
    /* largest size in rows, columns or pixels; sums of such numbers do not overflow 32 bits */
    MOST = 1 << 27
};

/* True if all sizes fit the 32-bit arithmetic of the kernels. */
static bool is_small(const struct patch *w)
{
    int64_t sizes[] = { w->h,      w->w,         w->oh,        w->ow,        w->r,
                        w->s,      w->stride[0], w->stride[1], w->dilate[0], w->dilate[1],
                        w->pad[0], w->pad[1],    w->h * w->w,  w->oh * w->ow };

    for (size_t i = 0; i < COUNT(sizes); i++)
        if (sizes[i] > MOST)
            return false;
    return true;
}

/* True if packing the image instead of the im2col matrix is possible and pays.  Locating an element
 * of the im2col matrix takes divisions, which are slower than splitting four elements. */
static bool should_pack_image(const struct patch *w, int bytes)
{
    return !w->t && is_small(w) && w->depth * bytes % PIECE == 0 && w->row == w->w * w->col &&
           w->h * w->w <= 4 * w->oh * w->ow * w->r * w->s;
}

/* In a convolution, orders k as the plan says, and decides whether to pack the image. */
void limber_cuda_set_order(struct device_call *r)
{
    const struct cuda_config *f = &r->kernel->config;
    struct conv conv;

    r->k = r->call->k;
    for (int i = 0; i < 2; i++)
        r->ordered[i] = r->view[i];
    if (!f->rsc)
        return;
    conv = *r->call->conv;
    conv.geometry.order = ORDER_rsc;
    r->k = limber_conv_length(&conv, f->bytes);
    for (int i = 0; i < 2; i++) {
        limber_conv_map(&r->map[i], i ? OP_patches : OP_filters, &conv, f->bytes);
        r->ordered[i] = limber_map_view(&r->map[i], r->view[i].data);
    }
    r->images = f->window && r->k > 0 && !r->call->b.tile_subset &&
                        should_pack_image(&r->map[1].patch, f->bytes) ?
                    conv.sizes.n :
                    0;
}

/* Returns the bytes of one limb of one image. */
int64_t limber_cuda_image_bytes(const struct device_call *r)
{
    const struct patch *w = &r->map[1].patch;

    return w->h * w->w * w->depth * r->kernel->config.bytes;
}

/* Returns the window through which the multiply kernel reads B.  A matrix is treated as an image
 * with one row of pixels, and a window of one pixel. */
static struct window window_of(const struct device_call *r, const struct part *p)
{
    const struct patch *w = &r->map[1].patch;
    struct window a = {
        .h = 1,
        .w = (int32_t)p->n,
        .r = 1,
        .s = 1,
        .oh = 1,
        .ow = (int32_t)p->n,
        .stride = { 1, 1 },
        .dilate = { 1, 1 },
        .pieces = (int32_t)(p->pitch / PIECE),
    };

    if (!r->images)
        return a;
    a = (struct window){
        .line0 = p->j - p->image * w->oh * w->ow,
        .h = (int32_t)w->h,
        .w = (int32_t)w->w,
        .r = (int32_t)w->r,
        .s = (int32_t)w->s,
        .oh = (int32_t)w->oh,
        .ow = (int32_t)w->ow,
        .pieces = (int32_t)(w->depth * r->kernel->config.bytes / PIECE),
    };
    for (int i = 0; i < 2; i++) {
        a.stride[i] = (int32_t)w->stride[i];
        a.pad[i] = (int32_t)w->pad[i];
        a.dilate[i] = (int32_t)w->dilate[i];
    }
    return a;
}

/* Returns the window with the constants by which kernels divide. */
struct window limber_cuda_window(const struct device_call *r, const struct part *p)
{
    struct window a = window_of(r, p);

    a.inverse_pieces = limber_inverse(a.pieces);
    a.inverse_s = limber_inverse(a.s);
    return a;
}

/* Returns the arguments for packing the pixels of a part's images: pixels are rows of a matrix
 * whose columns are channels. */
struct pack_args limber_cuda_pixels(const struct device_call *r, const struct part *p)
{
    const struct patch *w = &r->map[1].patch;
    int size = r->kernel->config.side[1].f.size;
    const char *data = (const char *)r->view[1].data + p->image * w->image * size;

    return (struct pack_args){
        .operand = { .view = { data, w->col, w->channel, NULL, NULL, NULL },
                     .images = (int32_t)p->images,
                     .image = w->image * size },
        .lines = w->h * w->w,
        .length = w->channels,
        .padded = w->h * w->w,
        .pitch = w->depth * r->kernel->config.bytes,
    };
}
