/* SPDX-License-Identifier: BSD-3-Clause
 * Correctly rounded FP32 results for 3 x 3 windows, NCHW.  Sums are chains in FP64.  The magnitudes
 * of the products are also summed, for an error bound.  If both ends of the error interval round to
 * the same number, that number is stored.  Rows in which this fails for some element are flagged,
 * and those elements are recomputed elsewhere. */

enum { WIDE = f64_lanes };
typedef float wide_floats
    __attribute__((vector_size(WIDE * sizeof(float)), aligned(4), may_alias));
typedef int32_t wide_bits __attribute__((vector_size(WIDE * sizeof(float))));

/* The computation of one channel. */
struct wide {
    const float *image, *filter, *zeros; /* the channel's image and filter, and a row of zeros */
    float *to;
    /* w, h: width and height of the image; ow: columns of the result; top, left: first row and
     * column that windows read; down: distance in elements between rows of the result */
    int64_t w, h, ow, top, left, down;
};

/* Loads WIDE elements of a row of w elements, from `first` on.  Elements outside of the row are
 * zero. */
FLAT wide_floats load_wide_row(const float *row, int64_t first, int64_t w)
{
    const int64_t from = least(first < 0 ? -first : 0, WIDE);
    const int64_t end = least(first < w ? w - first : 0, WIDE);

#if defined(__AVX512F__)
    return (wide_floats)_mm256_maskz_loadu_ps((__mmask8)BETWEEN(from, end), row + first);
#else
    wide_floats some = { 0 };

    if (from == 0 && end == WIDE)
        return *(const wide_floats *)(row + first);
    for (int64_t l = from; l < end; l++)
        some[l] = row[first + l];
    return some;
#endif
}

/* Loads a tap for a vector of results, as doubles: every `stride`-th element from `first` on. */
FLAT f64_vec wide_tap(const float *row, int64_t first, int64_t w, int stride)
{
    wide_floats v = load_wide_row(row, first, w);

    if (stride == 2)
        v = PASTE(EVEN_, LANES_OF_8)(v, load_wide_row(row, first + WIDE, w));
    return __builtin_convertvector(v, f64_vec);
}

/* Returns the magnitudes of the lanes. */
FLAT f64_vec wide_size(f64_vec x)
{
    typedef int64_t bits __attribute__((vector_size(VECTOR)));

    return (f64_vec)((bits)x & INT64_MAX);
}

/* Rounds and stores the first `lanes` lanes.  Returns false if one of them may not be correctly
 * rounded.  size: sums of the products' magnitudes. */
FLAT bool wide_store(float *to, f64_vec sum, f64_vec size, int64_t lanes)
{
    /* error bound: covers nine roundings of the sum, and those of the magnitudes, of the interval's
     * ends and of this product */
    const f64_vec uncertain = size * (11 * 0x1p-53 + 0x1p-51);
    const wide_floats up = __builtin_convertvector(sum + uncertain, wide_floats);
    const wide_floats down = __builtin_convertvector(sum - uncertain, wide_floats);
    const wide_bits zero = __builtin_convertvector(size == 0, wide_bits);
    /* If all products are zero, the result is +0.  Any other zero, and infinities and NaN, count as
     * uncertain. */
    const wide_floats result = (wide_floats)((wide_bits)up & ~zero);
    const wide_bits sure = zero | ((up == down) & (up != 0) & (up - up == 0));
    int64_t unsure = 0;

    if (lanes == WIDE)
        *(wide_floats *)to = result;
#if defined(__AVX512F__)
    else
        _mm256_mask_storeu_ps(to, (__mmask8)BETWEEN(0, lanes), (__m256)result);
    unsure = _mm256_movepi32_mask((__m256i)~sure) & BETWEEN(0, lanes);
#else
    for (int64_t l = 0; l < lanes; l++) {
        to[l] = result[l];
        unsure |= ~sure[l];
    }
#endif
    return unsure == 0;
}

/* Computes `rows` rows from row y on.  back: windows are flipped.  unsure[y]: set if a row has an
 * element whose rounding is uncertain. */
FLAT void wide_block(const struct wide *x, int64_t y, int rows, int stride, bool back,
                     const f64_vec w[3][3], uint8_t *unsure)
{
    const int seen = (rows - 1) * stride + 3;

    for (int64_t v = 0; v < x->ow; v += WIDE) {
        const int64_t first = x->left + v * stride;
        f64_vec sum[ROWS], size[ROWS];

        UNROLL for (int q = 0; q < rows; q++)
            sum[q] = size[q] = (f64_vec){ 0 };
        UNROLL for (int i = 0; i < seen; i++) {
            const int64_t at = x->top + y * stride + (back ? seen - 1 - i : i);
            const float *row = __builtin_unpredictable((uint64_t)at < (uint64_t)x->h) ?
                                   x->image + at * x->w :
                                   x->zeros;

            UNROLL for (int t = 0; t < 3; t++) {
                const f64_vec e = wide_tap(row, first + (back ? 2 - t : t), x->w, stride);

                UNROLL for (int q = 0; q < rows; q++)
                    if (i - q * stride >= 0 && i - q * stride < 3) {
                        const f64_vec weight = w[i - q * stride][t];

                        sum[q] = __builtin_elementwise_fma(e, weight, sum[q]);
                        size[q] = __builtin_elementwise_fma(wide_size(e), wide_size(weight),
                                                            size[q]);
                    }
            }
            UNROLL for (int q = 0; q < rows; q++)
                __asm__ volatile("" : REGISTER(sum[q])::"memory");
        }
        UNROLL for (int q = 0; q < rows; q++) {
            const int64_t to = y + (back ? rows - 1 - q : q);

            unsure[to] |= !wide_store(x->to + to * x->down + v, sum[q], size[q],
                                      least(WIDE, x->ow - v));
        }
    }
}

/* Computes a channel's result, ROWS rows at a time.  Sets unsure[y] for rows y with elements whose
 * rounding is uncertain. */
FLAT void wide_plane(const struct wide *plane, int64_t rows, int stride, bool back,
                     uint8_t *unsure)
{
    const struct wide x = *plane;
    f64_vec w[3][3];
    int64_t y = 0;

    UNROLL for (int i = 0; i < 9; i++)
        w[i / 3][i % 3] = (f64_vec)PASTE(SAME_, LANES_OF_8)(x.filter[i]);
    for (; y + ROWS <= rows; y += ROWS)
        wide_block(&x, y, ROWS, stride, back, w, unsure);
    for (; y < rows; y++)
        wide_block(&x, y, 1, stride, back, w, unsure);
}

/* True if this code computes d: forward, FP32, NCHW read in place, contiguous 3 x 3 filters, and
 * one input and one output channel in each group. */
static bool suits_wide(const struct depthwise *d)
{
    return d->size == 4 && !d->nhwc && !d->gradient && is_direct(d) && d->r == 3 && d->s == 3 &&
           d->multiplier == 1 && d->inputs == 1 && is_flat(d) &&
           d->filter[3] == 3 && d->filter[4] == 1;
}

/* Implements depthwise_ops.wide: computes one channel of one image.  Returns false if this code
 * does not support the convolution. */
bool FOR_ISA(limber_depthwise_wide)(const struct depthwise *d, int64_t task, float *zeros,
                                    uint8_t *unsure)
{
    const int64_t image = task / d->channels, channel = task % d->channels;
    const struct wide x = { .image = (const float *)d->image + task * d->h * d->w,
                            .filter = (const float *)d->filters + channel * d->filter[0],
                            .zeros = zeros,
                            .to = (float *)d->result + image * d->to[0] + channel * d->to[1],
                            .w = d->w,
                            .h = d->h,
                            .ow = d->ow,
                            .top = -d->pad[0],
                            .left = -d->pad[1],
                            .down = d->to[3] };

    if (!suits_wide(d))
        return false;
    if (!zeros)
        return true;
    memset(zeros, 0, (size_t)d->w * sizeof *zeros);
    memset(unsure, 0, (size_t)d->oh);
    if (d->backward)
        wide_plane(&x, d->oh, 1, true, unsure);
    else if (d->stride[0] == 1)
        wide_plane(&x, d->oh, 1, false, unsure);
    else
        wide_plane(&x, d->oh, 2, false, unsure);
    return true;
}
