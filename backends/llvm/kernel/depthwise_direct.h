/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions of NCHW images that are read in place, for common windows.  depthwise.h
 * includes this file once for each format.
 *
 * Lanes are neighbouring pixels of a row.  Several rows of the result share the rows of the image
 * that their windows read.  Masked loads give zeros to the left and right of the image, and a row
 * of zeros replaces the rows above and below it.  So padding is multiplied like any other pixel. */

/* Loads LANES elements of a row of w elements, from `first` on.  Elements outside of the row are
 * zero.  inside: all elements are in the row. */
FLAT NAME(pixels) NAME(look)(const PIXEL *row, int64_t first, int64_t w, bool inside)
{
    if (inside)
        return *(const NAME(pixels) *)(row + first);
#if PIXEL_BYTES > 1 || defined(PICKED_LOAD_1)
    {
        const int64_t from = least(first < 0 ? -first : 0, LANES);
        const int64_t end = least(first < w ? w - first : 0, LANES);

        return (NAME(pixels))PICKED_LOAD(row + first, from, end);
    }
#else
    return NAME(some_pixels)(row, first, w);
#endif
}

#if GROUP == 1
#if PIXEL_BYTES == 1 || !defined(__AVX512F__)
/* Loads the element at index `at` into the first lane; zero if it is outside of the row. */
FLAT NAME(pixels) NAME(load_one_element)(const PIXEL *row, int64_t at, int64_t w, bool inside)
{
    static const PIXEL zero;

    return (NAME(pixels)){ *(inside || (at >= 0 && at < w) ? row + at : &zero) };
}
#endif

/* Loads each of the s taps of a row of the window, for a vector of results: e[t] becomes tap t.
 * `first` is the column of the first result's first tap.  Taps are shuffled from few loads, since
 * loads that cross cache lines are slow. */
FLAT void NAME(load_taps)(const PIXEL *row, int64_t first, int64_t w, int s, int stride, bool back,
                          bool inside, int offset, VEC *e)
{
    NAME(pixels) low, high;

    if (stride == 2) {
        low = NAME(look)(row, first, w, inside);
        high = NAME(look)(row, first + LANES, w, inside);
        e[0] = NAME(widen)(EVEN(low, high), offset);
        e[1] = NAME(widen)(ODD(low, high), offset);
#if PIXEL_BYTES > 1 && defined(__AVX512F__)
        e[2] = NEXT_ONE(e[0], (VEC)LOOK_BEYOND(row, first + 2 * LANES, w));
#else
        high = NAME(load_one_element)(row, first + 2 * LANES, w, inside);
        e[2] = NEXT(e[0], NAME(widen)(high, offset));
#endif
#if PIXEL_BYTES > 1 && defined(__AVX512F__)
    } else if (s > 1) {
        const VEC one = (VEC)NAME(look)(row, first, w, inside);
        const VEC two = (VEC)LOOK_BEYOND(row, first + LANES, w);
        const VEC all[] = { one, NEXT_ONE(one, two), NEXT_BUT_ONE(one, two) };

        UNROLL for (int t = 0; t < s; t++)
            e[t] = all[back ? s - 1 - t : t];
#endif
#if PIXEL_BYTES == 1 && defined(__AVX2__) && !defined(__AVX512F__)
    } else if (!inside) {
        const __m128i all = sixteen_bytes(row, first, w);
        const long long taps[] = { _mm_cvtsi128_si64(all),
                                   _mm_cvtsi128_si64(_mm_srli_si128(all, 1)),
                                   _mm_cvtsi128_si64(_mm_srli_si128(all, 2)) };

        UNROLL for (int t = 0; t < s; t++)
            e[t] = NAME(widen)((NAME(pixels))taps[back ? s - 1 - t : t], offset);
#endif
    } else {
        UNROLL for (int t = 0; t < s; t++)
            e[t] = NAME(widen)(NAME(look)(row, first + (back ? s - 1 - t : t), w, inside), offset);
    }
}
#else
/* Loads the pixels under a row of the window for a vector of results, from an image of 8-bit
 * integers: each 32-bit lane of e[0] gets the bytes that the taps of the row read. */
FLAT void NAME(load_taps)(const PIXEL *row, int64_t first, int64_t w, int s, int stride, bool back,
                          bool inside, int offset, VEC *e)
{
    (void)s, (void)back, (void)inside;
    e[0] = (VEC)load_four_bytes(row, first, w, stride, offset);
}
#endif

/* One vector of columns of the result for some channels, and the image and filters that it
 * reads. */
struct NAME(column) {
    /* plane: [plane of the window]: the first channel's plane of the image; NULL if it is
     * padding */
    const PIXEL *const *plane, *zeros;
    const FILTER *const *filter; /* [plane of the window]: the first channel's filter */
    /* distances between channels, in elements: of images, of filters, of results */
    int64_t apart, beyond, across;
    /* down: distances between rows, of filters and of results; right: distance between taps */
    int64_t down[2], right;
    /* first, top: column and row of the first lane's first tap; w, h: width and height of the
     * image */
    int64_t first, w, h, top;
    int64_t channels, rows, lanes; /* lanes: number of lanes of the vector that are stored */
    RESULT *to;
    int offset; /* flips the signs of a signed image's bytes; 0 if it is not signed */
};

#if GROUP == 1
/* Loads the weights of a plane of channel c's window, each broadcast to a vector. */
FLAT void NAME(load_weights)(const struct NAME(column) *x, int64_t c, int64_t plane, int r, int s,
                             VEC w[3][3])
{
    const FILTER *from = x->filter[plane] + c * x->beyond;

    UNROLL for (int i = 0; i < r; i++)
        UNROLL for (int t = 0; t < s; t++)
            w[i][t] = (VEC)SAME(from[i * x->down[0] + t * x->right]);
}

/* Returns the start value of a sum for one plane of a window, which compensates for flipped
 * signs. */
FLAT VEC NAME(start)(const struct NAME(column) *x, int r, int s, VEC w[3][3])
{
    VEC sum = { 0 };

    UNROLL for (int i = 0; i < r; i++)
        UNROLL for (int t = 0; t < s; t++)
            sum = PIXEL_BYTES == 1 ? sum - w[i][t] * (REAL)x->offset : sum;
    return sum;
}
#else
/* Loads the weights of a plane of channel c's window.  Each lane of w[row][0] holds the taps of
 * that row as its bytes. */
FLAT void NAME(load_weights)(const struct NAME(column) *x, int64_t c, int64_t plane, int r, int s,
                             VEC w[3][3])
{
    const FILTER *from = x->filter[plane] + c * x->beyond;

    UNROLL for (int i = 0; i < r; i++) {
        uint32_t all = 0;

        UNROLL for (int t = 0; t < s; t++)
            all |= (uint32_t)(uint8_t)from[i * x->down[0] + t * x->right] << 8 * t;
        w[i][0] = (VEC)SAME((int32_t)all);
    }
}

/* Returns the start value of a sum for one plane of a window, which compensates for flipped
 * signs. */
FLAT VEC NAME(start)(const struct NAME(column) *x, int r, int s, VEC w[3][3])
{
    const VEC offset = (VEC)SAME(0x01010101 * x->offset);
    VEC sum = { 0 };

    (void)s;
    UNROLL for (int i = 0; i < r; i++)
        sum = MULTIPLY_ADD(offset, w[i][0], sum);
    return -sum;
}
#endif

/* Computes `rows` rows of channel c from row y on.  back: windows are flipped.  inside: no tap
 * reads padding to the left or right of a row.  w, start: weights and start value, if there is one
 * plane. */
FLAT void NAME(compute_block)(const struct NAME(column) *x, int64_t planes, int64_t c, int64_t y,
                              int rows, int r, int s, int stride, bool back, bool inside,
                              VEC w[3][3], VEC start)
{
    const int taps = (s + GROUP - 1) / GROUP, seen = (rows - 1) * stride + r;
    RESULT *to = x->to + c * x->across + y * x->down[1];
    VEC sum[ROWS];

    UNROLL for (int q = 0; q < rows; q++)
        sum[q] = start;
    for (int64_t p = 0; p < planes; p++) {
        const PIXEL *plane = x->plane[p] + c * x->apart;
        const uint64_t h = x->plane[p] ? (uint64_t)x->h : 0;

        if (planes > 1) {
            NAME(load_weights)(x, c, p, r, s, w);
            start = NAME(start)(x, r, s, w);
            UNROLL for (int q = 0; q < rows; q++)
                sum[q] = PIXEL_BYTES == 1 ? sum[q] + start : sum[q];
        }
        UNROLL for (int i = 0; i < seen; i++) {
            const int64_t at = x->top + y * stride + (back ? seen - 1 - i : i);
            const PIXEL *row =
                __builtin_unpredictable((uint64_t)at < h) ? plane + at * x->w : x->zeros;
            VEC e[3];

            NAME(load_taps)(row, x->first, x->w, s, stride, back, inside, x->offset, e);
            UNROLL for (int t = 0; t < taps; t++)
                UNROLL for (int q = 0; q < rows; q++)
                    if (i - q * stride >= 0 && i - q * stride < r)
                        sum[q] = MULTIPLY_ADD(e[t], w[i - q * stride][t], sum[q]);
            /* keeps the compiler from moving all loads to the front, which spills registers */
            UNROLL for (int q = 0; q < rows; q++)
                __asm__ volatile("" : REGISTER(sum[q])::"memory");
        }
    }
    UNROLL for (int q = 0; q < rows; q++) {
        const NAME(results) all = __builtin_convertvector(sum[q], NAME(results));
        RESULT *at = to + (back ? rows - 1 - q : q) * x->down[1];

        /* one stride phase of an image gradient under a stride of two */
        if (back && (r < 3 || s < 3))
            NAME(spread)(at, 2, all, x->lanes);
        else
            MASKED_STORE(at, all, x->lanes);
    }
}

/* Computes one vector of columns of the result for all channels, in blocks of ROWS rows.  back:
 * image gradient.  inside: no tap reads padding to the left or right of a row. */
FLAT void NAME(compute_column)(struct NAME(column) x, int64_t planes, int r, int s, int stride,
                               bool back, bool inside)
{
    _Pragma("clang loop unroll(disable)") for (int64_t c = 0; c < x.channels; c++) {
        int64_t y = 0;
        VEC w[3][3], start = { 0 };

        if (planes == 1) {
            NAME(load_weights)(&x, c, 0, r, s, w);
            start = NAME(start)(&x, r, s, w);
        }
        _Pragma("clang loop unroll(disable)") for (; y + ROWS <= x.rows; y += ROWS)
            NAME(compute_block)(&x, planes, c, y, ROWS, r, s, stride, back, inside, w, start);
#define CASE(n) \
    case n: NAME(compute_block)(&x, planes, c, y, n, r, s, stride, back, inside, w, start); break;
        switch (x.rows - y) {
            CASE(1) CASE(2) CASE(3)
        }
#undef CASE
    }
}

/* Computes `columns` columns of vectors, the last of which stores `last` lanes.  right: distance in
 * elements between neighbouring results of a row. */
FLAT void NAME(compute_columns)(struct NAME(column) x, int64_t columns, int64_t last,
                                int64_t planes, int r, int s, int stride, bool back, int64_t right)
{
    for (int64_t v = 0; v < columns; v++, x.to += LANES * right, x.first += LANES * stride) {
        x.lanes = v + 1 < columns ? LANES : last;
        if (!MASKS_ARE_FREE && x.first >= 0 && x.first + (LANES - 1) * stride + s <= x.w)
            NAME(compute_column)(x, planes, r, s, stride, back, true);
        else
            NAME(compute_column)(x, planes, r, s, stride, back, false);
    }
}

/* Computes output j of each channel.  If rows are longer than a vector, computes channel by
 * channel.  Otherwise computes the only column of vectors for all channels, which has less
 * overhead. */
FLAT void NAME(compute_channels)(const struct NAME(piece) *x, int64_t j, int64_t planes, int r,
                                 int s, int stride, bool back)
{
    const struct depthwise *d = x->d;
    const PIXEL *plane[LIMBER_SMALL_K];
    const FILTER *filter[LIMBER_SMALL_K];
    struct NAME(column) of = { .plane = plane,
                               .zeros = (const PIXEL *)x->room,
                               .filter = filter,
                               .apart = d->inputs * d->depth * d->h * d->w,
                               .beyond = d->multiplier * d->filter[0],
                               .across = d->multiplier * d->to[1],
                               .down = { d->filter[3], d->to[3] },
                               .right = d->filter[4],
                               .first = x->p.x * stride - d->pad[1],
                               .w = d->w,
                               .h = d->h,
                               .top = x->p.y * stride - d->pad[0],
                               .channels = x->vectors > 1 ? 1 : x->p.channels,
                               .rows = x->p.height,
                               .to = NAME(output)(x, x->p.channel, j, x->p.y),
                               .offset = NAME(flip)(d) };

    for (int64_t p = 0; p < planes; p++) {
        plane[p] = NAME(plane_seen)(x, p);
        filter[p] = (const FILTER *)d->filters +
                    (x->p.channel * d->multiplier + j) * d->filter[0] + p / d->t * d->filter[1] +
                    p % d->t * d->filter[2];
    }
    for (int64_t c = 0; c < x->p.channels; c += of.channels) {
        NAME(compute_columns)(of, x->vectors, x->last, planes, r, s, stride, back, d->to[4]);
        for (int64_t p = 0; p < planes; p++) {
            plane[p] += plane[p] ? of.apart : 0;
            filter[p] += of.beyond;
        }
        of.to += of.across;
    }
}

/* Defines a function for each common window.  With one plane, the weights stay in registers. */
#define WINDOW(r, s, stride, back) \
    static __attribute__((noinline)) void NAME(compute_##r##s##stride##back)( \
        const struct NAME(piece) *x, int64_t j) \
    { \
        if (x->p.planes == 1) \
            NAME(compute_channels)(x, j, 1, r, s, stride, back); \
        else \
            NAME(compute_channels)(x, j, x->p.planes, r, s, stride, back); \
    }
DIRECT_WINDOWS(WINDOW)
#undef WINDOW

/* Computes a piece of the result from an image read in place, by the function for this size of
 * windows. */
static void NAME(run_direct)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;

    memset(x->room, 0, (size_t)d->w * sizeof(PIXEL));
    for (int64_t j = 0; j < d->multiplier; j++) {
#define WINDOW(height, width, step, back) \
    if (d->r == height && d->s == width && d->stride[0] == step && d->backward == back) \
        NAME(compute_##height##width##step##back)(x, j);
        DIRECT_WINDOWS(WINDOW)
#undef WINDOW
    }
}
