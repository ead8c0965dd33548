/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions of NCHW images for which a row of the result fills at most half of a
 * vector: each half of a vector holds one row of the result.  depthwise.h includes this file for
 * floats with AVX-512.  Each tap is one permutation of the rows of the image that both halves read;
 * lanes outside of the image are zero. */

enum { NAME(half) = LANES / 2 };
typedef PASTE(lane_, BYTES) NAME(index);
typedef NAME(index) NAME(lane) __attribute__((vector_size(VECTOR)));

/* The rows of the image that are read for up to 2 * TWINS rows of the result.  They are the same in
 * each channel. */
struct NAME(twins) {
    /* [row of the image]: the row's offset from the channel's first element */
    int64_t at[2 * (2 * TWINS - 1) + 3];
    /* [row of the image]: lanes that hold the row's elements; none for rows above and below the
     * image */
    some_lanes seen[2 * (2 * TWINS - 1) + 3];
    /* [tap of a row]: for each lane of a result, the lane of the loaded rows that it reads */
    __m512i lane[3];
    /* [tap of a row]: the lanes of a result for which the tap is not padding */
    some_lanes picked[3];
    some_lanes stored[2]; /* lanes that are stored: in the first half, and in the second half */
    int64_t rows; /* number of rows of the result */
};

/* Sets the lanes that each tap reads.  With a stride of 1, the second half reads the next row,
 * which the same load provides; otherwise it reads a second load. */
static void NAME(find_lanes)(const struct NAME(piece) *x, int stride, struct NAME(twins) *of)
{
    const struct depthwise *d = x->d;

    NAME(lane) column = { 0 }, inside;

    UNROLL for (int l = 0; l < LANES; l++)
        column[l] = l % NAME(half);
    for (int t = 0; t < 3; t++) {
        NAME(lane) at = column * stride + (NAME(index))(t - d->pad[1]);

        inside = (at >= 0) & (at < (NAME(index))d->w) & (column < (NAME(index))d->ow);
        of->picked[t] = (some_lanes)SIGNS(inside);
        UNROLL for (int l = NAME(half); l < LANES; l++)
            at[l] += stride == 1 ? (NAME(index))d->w : LANES;
        of->lane[t] = (__m512i)at;
    }
    of->stored[0] = lanes_between(0, d->ow);
    of->stored[1] = of->stored[0] << NAME(half);
}

/* Sets of->at and of->seen: where each row of the image is that the rows of the result from y on
 * read, and its lanes.  With a stride of 1, one load reads two neighbouring rows. */
static void NAME(find_image_rows)(const struct NAME(piece) *x, int64_t y, int stride,
                                  struct NAME(twins) *of)
{
    const struct depthwise *d = x->d;

    for (int i = 0; i < (2 * TWINS - 1) * stride + 3; i++) {
        const int64_t at = y * stride - d->pad[0] + i;
        const bool inside = at >= 0 && at < d->h, next = at + 1 >= 0 && at + 1 < d->h;

        of->at[i] = inside || (next && stride == 1) ? at * d->w : 0;
        of->seen[i] = inside ? lanes_between(0, d->w) : 0;
        if (next && stride == 1)
            of->seen[i] |= lanes_between(d->w, 2 * d->w);
    }
}

/* Computes 2 n rows of one channel's result by a 3 x 3 window and stores them at `to`.  Vector v
 * has row 2 v in its lower half and row 2 v + 1 in its upper half.  For the rows j and j + stride
 * of the image, which the two halves read, e[t] has the pixel that tap t of each lane needs.
 * down: distance in elements between rows of the result.  step: strides of the filter.  back: the
 * window is flipped and the sums' order reversed, for the gradient of the image. */
FLAT void NAME(convolve_row_pairs)(const struct NAME(twins) *of, const REAL *image,
                                   const REAL *filter, const int64_t *step, int64_t down, int n,
                                   int stride, bool back, REAL *to)
{
    VEC w[9], sum[TWINS];

    UNROLL for (int i = 0; i < 9; i++)
        w[i] = (VEC)SAME(filter[i / 3 * step[0] + i % 3 * step[1]]);
    UNROLL for (int v = 0; v < n; v++)
        sum[v] = (VEC){ 0 };
    UNROLL for (int k = 0; k < 2 * stride * (n - 1) + 3; k++) {
        const int j = back ? 2 * stride * (n - 1) + 2 - k : k;

        if (j % (2 * stride) < 3) {
            const VEC one = (VEC)LANES_LOAD(image + of->at[j], of->seen[j]);
            VEC two, e[3];

            if (stride > 1)
                two = (VEC)LANES_LOAD(image + of->at[j + stride], of->seen[j + stride]);
            UNROLL for (int t = 0; t < 3; t++)
                e[t] = stride == 1 ? (VEC)PICK_ONE(of->picked[t], of->lane[t], one) :
                                     (VEC)PICK_TWO(of->picked[t], of->lane[t], one, two);
            UNROLL for (int t = 0; t < 3; t++)
                UNROLL for (int v = 0; v < n; v++) {
                    const int r = j - 2 * stride * v;

                    if (r >= 0 && r < 3)
                        sum[v] = MULTIPLY_ADD(e[back ? 2 - t : t], w[(back ? 2 - r : r) * 3 + t],
                                              sum[v]);
                }
        }
    }
    UNROLL for (int v = 0; v < n; v++) {
        LANES_STORE(to + 2 * v * down, sum[v], of->stored[0]);
        if (2 * v + 1 < of->rows)
            LANES_STORE(to + (2 * v + 1) * down - NAME(half), sum[v], of->stored[1]);
    }
}

/* Computes a piece of the result, up to 2 TWINS rows at a time, one channel after another.  back:
 * true for the gradient of the image. */
FLAT void NAME(convolve_piece)(const struct NAME(piece) *x, int stride, bool back)
{
    const struct depthwise *d = x->d;
    const REAL *const image = (const REAL *)d->image + row_of(d, x->p.image, x->p.channel, 0, 0);
    const REAL *const filters = (const REAL *)d->filters + x->p.channel * d->filter[0];
    const int64_t end = x->p.y + x->p.height;
    struct NAME(twins) of;

    NAME(find_lanes)(x, stride, &of);
    for (int64_t y = x->p.y; y < end; y += of.rows) {
        REAL *to = NAME(output)(x, x->p.channel, 0, y);

        of.rows = least(end - y, 2 * TWINS);
        NAME(find_image_rows)(x, y, stride, &of);
        for (int64_t c = 0; c < x->p.channels; c++) {
            const REAL *from = image + c * d->h * d->w, *filter = filters + c * d->filter[0];

#define CASE(n) \
    case n: \
        NAME(convolve_row_pairs)(&of, from, filter, &d->filter[3], d->to[3], n, stride, back, to); \
        break;
            switch (ceil_div(of.rows, 2)) {
                CASE(1) CASE(2) CASE(3) CASE(4)
            }
#undef CASE
            to += d->to[1];
        }
    }
}

#define WINDOW(stride, back) \
    static __attribute__((noinline)) void NAME(twins_##stride##back)(const struct NAME(piece) *x) \
    { \
        NAME(convolve_piece)(x, stride, back); \
    }
WINDOW(1, 0) WINDOW(2, 0) WINDOW(1, 1)
#undef WINDOW

/* Computes a piece whose vectors hold two rows of the result each, by the function for this
 * direction and stride. */
static void NAME(run_twins)(const struct NAME(piece) *x)
{
    if (x->d->backward)
        NAME(twins_11)(x);
    else if (x->d->stride[0] == 1)
        NAME(twins_10)(x);
    else
        NAME(twins_20)(x);
}
