/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions of NCHW images whose rows of the result fill at most half of a vector:
 * each half is a row. depthwise.h includes this file for floats with AVX-512.  Each tap is one
 * permutation of the rows that both halves see; lanes beside the image are zero. */

enum { NAME(half) = LANES / 2 };
typedef PASTE(lane_, BYTES) NAME(index);
typedef NAME(index) NAME(lane) __attribute__((vector_size(VECTOR)));

/* The rows of the image that some rows of each channel's result see. */
struct NAME(twins) {
    /* offset of each row of the image from the channel's first element */
    int64_t at[2 * (2 * TWINS - 1) + 3];
    /* lanes with elements of the row; none above and below the image */
    some_lanes seen[2 * (2 * TWINS - 1) + 3];
    __m512i lane[3]; /* for each tap: which lane of the loaded rows each lane of a result reads */
    some_lanes picked[3]; /* for each tap: lanes of the result that have it */
    some_lanes stored[2]; /* lanes that both halves store */
    int64_t rows; /* rows of the result */
};

/* Computes the lanes that each tap reads; a vector holds two rows of a result, one in each half. */
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

/* Sets the rows of the image.  With a stride of 1, one load has two neighbouring rows. */
static void NAME(find_twins)(const struct NAME(piece) *x, int64_t y, int stride,
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

/* Computes n vectors of a channel's result by a window of 3 x 3.  Each vector holds two rows of the
 * result, one in each half. */
FLAT void NAME(see_twins)(const struct NAME(twins) *of, const REAL *image, const REAL *filter,
                          const int64_t *step, int64_t down, int n, int stride, bool back, REAL *to)
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

/* Computes a piece, up to 2 TWINS rows at a time, channel by channel.  back: image gradient. */
FLAT void NAME(all_twins)(const struct NAME(piece) *x, int stride, bool back)
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
        NAME(find_twins)(x, y, stride, &of);
        for (int64_t c = 0; c < x->p.channels; c++) {
            const REAL *from = image + c * d->h * d->w, *filter = filters + c * d->filter[0];

#define CASE(n) \
    case n: \
        NAME(see_twins)(&of, from, filter, &d->filter[3], d->to[3], n, stride, back, to); \
        break;
            switch (parts(of.rows, 2)) {
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
        NAME(all_twins)(x, stride, back); \
    }
WINDOW(1, 0) WINDOW(2, 0) WINDOW(1, 1)
#undef WINDOW

/* Computes a piece whose vectors hold two rows of the result each. */
static void NAME(run_twins)(const struct NAME(piece) *x)
{
    if (x->d->backward)
        NAME(twins_11)(x);
    else if (x->d->stride[0] == 1)
        NAME(twins_10)(x);
    else
        NAME(twins_20)(x);
}
