/* SPDX-License-Identifier: BSD-3-Clause
 * Decides which native products of floats read A without packing it, and how they read A and B. */
#include "backends/llvm/unpacked.h"
#include "ir/num/prim.h"

enum {
    /* a product with at most this many rows or columns may be too thin for packing to pay */
    THIN = 128,
    /* smallest k of a filter gradient; with shorter sums, storing C takes most of the time */
    PIXELS = 128,
    /* a product whose columns of B are contiguous is transposed if A has at most this many rows */
    TURNED = 128,
    /* a product of FP32, or of any type on NEON, is computed without packing if m * n * k is at
     * most the cube of this number */
    SMALL = 288,
    /* replaces SMALL for FP32 on CPUs for which limber_cpu_reads_wide() is true */
    SMALL_WIDE = 544,
    SMALL_WIDE_F64 = 256, /* replaces SMALL for FP64 on the same CPUs */
    /* up to this many bytes along k, transposing C costs more than packing saves */
    TURNING = 4096
};

/* Reads alpha and beta.  Returns false if k has more than one chain and the result is scaled or
 * added to C. */
static bool set_scaling(struct unpacked_product *p)
{
    const struct call *c = p->call;
    struct scaling *x = &p->scaling;

    x->alpha = c->alpha ? limber_format_value(p->f->scalars, c->alpha) : 1;
    x->beta = c->beta ? limber_format_value(p->f->scalars, c->beta) : 0;
    p->adds = x->beta != 0;
    return !(p->adds || limber_scales(x)) || c->k <= LIMBER_SMALL_K;
}

/* True if the plan is one native product of floats whose chains have LIMBER_SMALL_K elements, or
 * all of k.  (Simulated units have chains of all of k.) */
static bool is_native(const struct kernel_config *f, int64_t k)
{
    const struct side *a = &f->side[0], *b = &f->side[1];

    return (f->unit == UNIT_f64 ? limber_num_is_f64(f->c) :
                                  f->unit == UNIT_f32 && limber_num_is_f32(f->c)) &&
           f->rows == 1 && f->weight[0] == 0 && !f->c.carried && !f->norms &&
           f->reconstruct == RECONSTRUCT_sum && a->limb_kind == LIMB_KIND_whole &&
           b->limb_kind == LIMB_KIND_whole && a->copied && b->copied &&
           (f->chunk == LIMBER_SMALL_K || f->chunk >= k) && (int32_t)f->c.size == f->bytes &&
           (int32_t)a->f.size == f->bytes && (int32_t)b->f.size == f->bytes;
}

/* True if each window covers a full image, as filters do, so that the windows' first elements are
 * `image` elements apart. */
bool limber_is_window_over_whole_image(const struct patch *w)
{
    return !w->depth && !w->t && !w->transposed && !w->divide[0] && w->oh == 1 && w->ow == 1 &&
           w->h == w->r && w->w == w->s && w->pad[0] == 0 && w->pad[1] == 0 && w->dilate[0] == 1 &&
           w->dilate[1] == 1;
}

/* True if w is the image of a forward convolution: no transposition, no padded channels, no zeros
 * between pixels, and no origin. */
static bool is_image(const struct patch *w)
{
    return !w->depth && !w->transposed && !w->divide[0] && !w->origin;
}

/* Sets [*first, *end) to the range of pixels that windows read, in rows (of = 0), columns (1) or
 * planes (2). */
void limber_patch_reach(const struct patch *w, int of, int64_t *first, int64_t *end)
{
    int64_t window = (of == 2 ? w->t : of ? w->s : w->r) - 1;
    int64_t result = (of == 2 ? w->od : of ? w->ow : w->oh) - 1;
    int64_t spread = window * w->dilate[of];

    *first = -w->pad[of] + (spread < 0 ? spread : 0);
    *end = result * w->stride[of] - w->pad[of] + (spread > 0 ? spread : 0) + 1;
}

/* True if windows reach into padding, so that the image must be copied together with its
 * padding. */
static bool has_frame(const struct patch *w)
{
    const int64_t size[] = { w->h, w->w, w->d };

    for (int i = 0; i < 3; i++) {
        int64_t first, end;

        limber_patch_reach(w, i, &first, &end);
        if (first < 0 || end > size[i])
            return true;
    }
    return false;
}

/* Sets the image that windows read.  A two-dimensional image is treated as one plane.  Returns
 * false if the image is not NHWC, or does not belong to a forward convolution. */
static bool set_window(struct unpacked_product *p, const struct patch *w)
{
    if (!is_image(w) || w->channel != 1)
        return false;
    p->window = *w;
    if (!w->t) {
        p->window.t = p->window.d = p->window.od = 1;
        p->window.stride[2] = p->window.dilate[2] = 1;
        p->window.pad[2] = p->window.plane = 0;
    }
    /* also copy the image if windows would share L1 sets; the copy's pixels are one cache line
     * longer */
    p->frames = has_frame(&p->window) || (limber_shares_sets(w->col * p->size, w->stride[1]) &&
                                          w->r * w->s * p->window.t > 1);
    return true;
}

/* Returns a copy of a filter gradient's call with n and k exchanged, as in the forward convolution.
 */
struct call limber_exchange_n_and_k(const struct call *c)
{
    struct call forward = *c;

    forward.n = c->k;
    forward.k = c->n;
    return forward;
}

/* True for an operand of the gradient of 1 x 1 filters: a line is one channel, and k runs through
 * all pixels of the image or of the result. */
static bool is_pixel_gradient(const struct patch *w)
{
    return w->transposed && !w->depth && !w->t && !w->divide[0] && w->r == 1 && w->s == 1 &&
           w->pad[0] == 0 && w->pad[1] == 0 && w->stride[0] == 1 && w->stride[1] == 1 &&
           w->oh == w->h && w->ow == w->w;
}

/* Determines what rows of A are: contiguous along k, interleaved, windows of an image, or taps.
 * Returns false if this code cannot read A. */
static bool inspect_a(struct unpacked_product *p)
{
    const struct patch *w = p->a.patch;

    if (p->a.tile_subset || p->a.pairs)
        return false;
    if (!w)
        return p->a.p == 1 || p->a.line == 1;
    if (p->gradient)
        p->rows = ROWS_taps;
    if (p->gradient || limber_is_window_over_whole_image(w) || is_pixel_gradient(w))
        return true;
    p->rows = ROWS_windows;
    return set_window(p, w);
}

/* Determines where strips of B come from.  Returns false if this code cannot read B. */
static bool inspect_b(struct unpacked_product *p)
{
    const struct patch *w = p->b.patch;

    if (p->b.tile_subset || p->b.pairs)
        return false;
    if (!w) {
        p->source = p->b.line == 1 ? SOURCE_rows : SOURCE_lines;
        return p->b.line == 1 || p->b.p == 1;
    }
    if (limber_is_window_over_whole_image(w)) {
        p->source = w->image == 1 ? SOURCE_rows : SOURCE_filters;
        return w->image == 1 || w->channel == 1;
    }
    if (is_pixel_gradient(w)) {
        p->source = w->channel == 1 ? SOURCE_rows : SOURCE_lines;
        return w->channel == 1 || w->col == 1;
    }
    p->source = w->transposed ? SOURCE_taps : SOURCE_planes;
    if (w->transposed) {
        const struct output_view *v = &p->c;
        struct patch forward = *w;
        int64_t taps = w->r * w->s;

        forward.transposed = 0;
        p->result = RESULT_dense;
        return !v->wide && !w->t && set_window(p, &forward) &&
               (taps == 1 ? v->col == 1 :
                            v->outer == 1 && v->inner == taps && v->col * taps == p->n);
    }
    return p->call->b.patch == w && w->col == 1 && limber_has_planes(p->f, p->call);
}

/* True for a filter gradient of an NCHW image.  Such a product is transposed, so that the window
 * elements become rows of A. */
static bool should_transpose_gradient(const struct unpacked_product *p)
{
    const struct patch *w = p->call->b.patch;
    struct patch forward;
    struct call c;

    if (!w || !w->transposed || is_pixel_gradient(w) || w->col != 1)
        return false;
    forward = *w;
    forward.transposed = 0;
    c = limber_exchange_n_and_k(p->call);
    c.b.patch = &forward;
    return limber_has_planes(p->f, &c);
}

/* True if all neighbouring columns of C have the same distance, also from one image to the next. */
static bool has_even_columns(const struct output_view *v, int64_t n)
{
    return !v->wide && (v->inner >= n || v->outer == v->inner * v->col);
}

/* True for few rows of A and many contiguous columns of B, such as a layer's weights.  In the
 * transposed product C^T = B^T A^T these columns are read as rows, and only the small result must
 * be transposed. */
static bool should_transpose_columns(const struct call *c, const struct output_view *v)
{
    return has_even_columns(v, c->n) && !c->a.patch && !c->b.patch && !c->keep[0] && !c->keep[1] &&
           c->b.p == 1 && c->b.line != 1 && c->m <= TURNED && c->n >= 4 * c->m;
}

/* True if elements along k are contiguous; for an image, k runs through its pixels. */
static bool is_dense_along(const struct view *v)
{
    return v->patch ? is_pixel_gradient(v->patch) && v->patch->col == 1 : v->p == 1 && v->line != 1;
}

/* Returns the estimated cost of one step along k, in sixths of a cycle: multiply-adds of the
 * register tile, counted in half vectors, and the transposing of columns. */
static int64_t k_step_cost(const struct unpacked_product *p, int64_t rows, int64_t columns)
{
    return 3 * rows * ceil_div(2 * columns, p->lanes) + 4 * columns;
}

/* True if the gradient of 1 x 1 filters is estimated to be cheaper as a transposed product.  Both
 * operands are contiguous along k, so one of them (B) must be transposed while it is read.
 * Transposing the product exchanges them, but then C must be transposed, too. */
static bool should_transpose_pixels(const struct unpacked_product *p, const struct output_view *v)
{
    const struct call *c = p->call;

    return has_even_columns(v, c->n) && c->b.patch && !c->keep[0] && !c->keep[1] &&
           is_dense_along(&c->a) && is_dense_along(&c->b) &&
           k_step_cost(p, c->n, c->m) + 5 * c->m * c->n / c->k < k_step_cost(p, c->m, c->n);
}

/* Sets A, B and C, and decides whether to transpose the product: C^T then has contiguous rows or,
 * for a gradient, A is the image.  Returns false if this code cannot store C. */
static bool set_sides(struct unpacked_product *p)
{
    const struct call *c = p->call;
    struct output_view view = c->c, *v = &view;
    bool turned;

    if (v->rows || v->cols)
        return false;
    /* if each contiguous stretch has one column, the distance between columns is constant */
    if (v->inner == 1 && !v->wide) {
        v->col = v->outer;
        v->inner = INT64_MAX;
    }
    p->gradient = should_transpose_gradient(p);
    turned = p->gradient || (v->row == 1 && v->col != 1) || should_transpose_columns(c, v) ||
             should_transpose_pixels(p, v);
    p->turned = turned;
    p->keep = c->keep[turned ? 0 : 1];
    p->a = turned ? c->b : c->a;
    p->b = turned ? c->a : c->b;
    p->m = turned ? c->n : c->m;
    p->n = turned ? c->m : c->n;
    p->c = *v;
    p->result = v->col == 1 && !v->wide ? RESULT_dense : RESULT_staged;
    if (!turned)
        return true;
    p->result = p->gradient || v->row != 1 ? RESULT_staged :
                has_even_columns(v, c->n)  ? RESULT_dense :
                                             RESULT_lines;
    if (p->result != RESULT_lines)
        p->c = (struct output_view){
            .data = v->data, .row = v->col, .col = v->row, .inner = c->m, .origin = v->origin
        };
    return !p->gradient || has_even_columns(v, c->n);
}

/* True if rows of A should first be gathered into a copy.  This pays for filters whose elements
 * alternate with those of the next filter and lie on different pages: without a copy, each strip of
 * B would read all these cache lines again. */
static bool needs_gathering(const struct unpacked_product *p)
{
    const struct patch *w = p->a.patch;

    return p->rows == ROWS_apart && w && limber_is_window_over_whole_image(w) && w->image > 1 &&
           w->channel > w->image && w->channel * p->size >= LINE && p->n > p->width;
}

/* Returns the number of channels of the image that windows read. */
int64_t limber_product_channels(const struct unpacked_product *p)
{
    return (p->source == SOURCE_taps ? p->n : p->k) / (p->window.t * p->window.r * p->window.s);
}

/* True if the product is faster without packing.  Packed panels are faster to read.  Packing pays
 * if each panel is read often, if elements of A's rows lie on different pages, or if pixels have
 * too few channels for a strip of columns.  It also pays for gradients with short sums, since
 * without packing C must be transposed. */
static bool is_faster_unpacked(const struct kernel *kernel, const struct unpacked_product *p)
{
    const bool neon = kernel->cpu & CPU_neon && !(kernel->cpu & CPU_sve256);
    const bool wide = kernel->cpu & CPU_avx512 && limber_cpu_reads_wide();
    const int64_t small = wide                 ? (p->size == 4 ? SMALL_WIDE : SMALL_WIDE_F64) :
                          p->size == 4 || neon ? SMALL :
                                                 0;
    const bool thin = smaller(p->m, p->n) <= THIN || p->m * p->n <= small * small * small / p->k;

    /* C is column-major, like NHWC results.  With packed panels it would be computed in a buffer
     * and then copied. */
    if (p->turned && p->result == RESULT_dense && p->call->c.row == 1 && p->call->c.col != 1 &&
        p->k * p->size <= TURNING && !(kernel->cpu & (CPU_sve512 | CPU_sme)))
        return true;
    if (!p->a.patch && !p->b.patch && (p->call->keep[0] || p->call->keep[1]) &&
        !(p->keep && thin) && smaller(p->m, p->n) > FEW)
        /* prepared panels need no packing in this call; for thin products, prepared strips need
         * none either */
        return false;
    if (kernel->cpu & (CPU_sve512 | CPU_sme))
        /* strips are multiplied by NEON code, which is far slower than SVE or SME with long
         * vectors */
        return smaller(p->m, p->n) <= FEW;
    if (p->rows == ROWS_apart && !p->a.patch && p->a.p != 1 && p->m * p->k * p->size > ROWS_BYTES &&
        (p->a.p * p->size >= NEAR ||
         (p->source == SOURCE_taps && limber_product_channels(p) < p->lanes)))
        return false;
    if (p->gradient && p->k < PIXELS)
        return false;
    return p->a.patch || p->b.patch || thin;
}

/* Fills *p and returns NULL if the call should be computed unpacked.  Otherwise returns the reason
 * why not. */
const char *limber_product_refuses(const struct kernel *kernel, const struct call *c,
                                   struct unpacked_product *p)
{
    const struct kernel_config *f = &kernel->config;

    *p = (struct unpacked_product){ .f = f, .call = c, .k = c->k, .size = f->bytes };
    if (!(c->ways & limber_way_bit(WAY_unpacked)) || c->dry)
        return "it is not wanted";
    if (c->k == 0 || !is_native(f, c->k))
        return "the plan has other products than native ones of one float format";
    if (!set_scaling(p))
        return "k is longer than a chain, and results are scaled or added";
    p->one_chain = f->chunk != LIMBER_SMALL_K;
    p->lanes = (kernel->cpu & CPU_avx512 ? 64 : 32) / p->size;
    p->width = p->lanes * (kernel->cpu & CPU_avx512 ? 3 : 2);
    if (!limber_strip_code(kernel->cpu))
        return "the library has no such code for this CPU";
    if (!set_sides(p) || !inspect_a(p) || !inspect_b(p))
        return "the operands or the result lie otherwise";
    if (!is_faster_unpacked(kernel, p))
        return "packed panels are faster";
    p->gathers = needs_gathering(p);
    p->keep_rows = p->gathers ? c->keep[p->turned ? 1 : 0] : NULL;
    p->packs = p->source == SOURCE_filters || (p->keep && p->source <= SOURCE_lines);
    return NULL;
}
