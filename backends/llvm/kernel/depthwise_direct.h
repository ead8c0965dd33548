/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions whose image is read where it lies, as depthwise.h includes it once for
 * each format: NCHW, common windows.
 *
 * Lanes are neighbouring pixels of a row.  Several rows of the result share the rows of the image
 * that they see.  Loads under masks give zeros beside the image, and a row of zeros lies above and
 * below it: padding is multiplied like any other pixel. */

/* Elements from `first` on of a row of w, and zeros beside it. */
FLAT NAME(pixels) NAME(look)(const PIXEL *row, int64_t first, int64_t w, bool inside)
{
    if (inside)
        return *(const NAME(pixels) *)(row + first);
#if defined(PICKED_LOAD)
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
#if !defined(LOOK_BEYOND)
/* The element at `at`, in the first lane. */
FLAT VEC NAME(look_at_one)(const PIXEL *row, int64_t at, int64_t w, bool inside)
{
    static const REAL zero;

    return (VEC){ *(inside || (at >= 0 && at < w) ? row + at : &zero) };
}
#endif

/* Each tap of a row, for a vector of results whose first one's first tap is at `first`.  Loads that
 * cross lines of the cache take longer than lanes that change places. */
FLAT void NAME(see)(const PIXEL *row, int64_t first, int64_t w, int s, int stride, bool back,
                    bool inside, int offset, VEC *e)
{
    (void)offset;
    if (stride == 2) {
        const VEC low = NAME(look)(row, first, w, inside);
        const VEC high = NAME(look)(row, first + LANES, w, inside);

        e[0] = EVEN(low, high);
        e[1] = ODD(low, high);
        #if defined(LOOK_BEYOND)
        e[2] = NEXT(e[0], (VEC)LOOK_BEYOND(row, first + 2 * LANES, w));
#else
        e[2] = NEXT(e[0], NAME(look_at_one)(row, first + 2 * LANES, w, inside));
#endif
#if defined(LOOK_BEYOND)
    } else if (s > 1) {
        const VEC low = NAME(look)(row, first, w, inside);
        const VEC high = (VEC)LOOK_BEYOND(row, first + LANES, w);
        const VEC all[] = { low, NEXT(low, high), NEXT_BUT_ONE(low, high) };

        UNROLL for (int t = 0; t < s; t++)
            e[t] = all[back ? s - 1 - t : t];
#endif
    } else {
        UNROLL for (int t = 0; t < s; t++)
            e[t] = NAME(look)(row, first + (back ? s - 1 - t : t), w, inside);
    }
}
#else
/* All taps of a row together. */
FLAT void NAME(see)(const PIXEL *row, int64_t first, int64_t w, int s, int stride, bool back,
                    bool inside, int offset, VEC *e)
{
    (void)s, (void)back, (void)inside;
    e[0] = (VEC)see_bytes(row, first, w, stride, offset);
}
#endif

/* A column of vectors of some channels' results, and what it sees. */
struct NAME(column) {
    const PIXEL *const *plane, *zeros; /* planes of the first channel's image; NULL: padding */
    const FILTER *const *filter; /* each plane's, of the first channel */
    int64_t apart, beyond, across; /* from channel to channel: of images, filters and results */
    int64_t down[2], right; /* from row to row, of filters and results; from tap to tap */
    int64_t first, w, h, top; /* where the first tap of the first lane and row is */
    int64_t channels, rows, lanes;
    REAL *to;
    int offset; /* of bytes */
};

#if GROUP == 1
FLAT void NAME(weigh)(const struct NAME(column) *x, int64_t c, int64_t plane, int r, int s,
                      VEC w[3][3])
{
    const FILTER *from = x->filter[plane] + c * x->beyond;

    UNROLL for (int i = 0; i < r; i++)
        UNROLL for (int t = 0; t < s; t++)
            w[i][t] = (VEC)SAME(from[i * x->down[0] + t * x->right]);
}

FLAT VEC NAME(start)(const struct NAME(column) *x, int r, VEC w[3][3])
{
    (void)x, (void)r, (void)w;
    return (VEC){ 0 };
}
#else
FLAT void NAME(weigh)(const struct NAME(column) *x, int64_t c, int64_t plane, int r, int s,
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

/* What undoes the offset of the image's bytes, in one plane. */
FLAT VEC NAME(start)(const struct NAME(column) *x, int r, VEC w[3][3])
{
    const VEC offset = (VEC)SAME(0x01010101 * x->offset);
    VEC sum = { 0 };

    UNROLL for (int i = 0; i < r; i++)
        sum = MULTIPLY_ADD(offset, w[i][0], sum);
    return -sum;
}
#endif

/* `rows` rows of channel c from y on.  w, start: of its weights, where there is one plane. */
FLAT void NAME(see_block)(const struct NAME(column) *x, int64_t planes, int64_t c, int64_t y,
                          int rows, int r, int s, int stride, bool back, bool inside, VEC w[3][3],
                          VEC start)
{
    const int taps = (s + GROUP - 1) / GROUP, seen = (rows - 1) * stride + r;
    REAL *to = x->to + c * x->across + y * x->down[1];
    VEC sum[ROWS];

    UNROLL for (int q = 0; q < rows; q++)
        sum[q] = start;
    for (int64_t p = 0; p < planes; p++) {
        const PIXEL *plane = x->plane[p] + c * x->apart;
        const uint64_t h = x->plane[p] ? (uint64_t)x->h : 0;

        if (planes > 1) {
            NAME(weigh)(x, c, p, r, s, w);
            start = NAME(start)(x, r, w);
            UNROLL for (int q = 0; q < rows; q++)
                sum[q] = GROUP > 1 ? sum[q] + start : sum[q];
        }
        UNROLL for (int i = 0; i < seen; i++) {
            const int64_t at = x->top + y * stride + (back ? seen - 1 - i : i);
            const PIXEL *row =
                __builtin_unpredictable((uint64_t)at < h) ? plane + at * x->w : x->zeros;
            VEC e[3];

            NAME(see)(row, x->first, x->w, s, stride, back, inside, x->offset, e);
            UNROLL for (int t = 0; t < taps; t++)
                UNROLL for (int q = 0; q < rows; q++)
                    if (i - q * stride >= 0 && i - q * stride < r)
                        sum[q] = MULTIPLY_ADD(e[t], w[i - q * stride][t], sum[q]);
            UNROLL for (int q = 0; q < rows; q++) /* else all loads come first, and are spilled */
                __asm__ volatile("" : REGISTER(sum[q])::"memory");
        }
    }
    UNROLL for (int q = 0; q < rows; q++) {
        REAL *at = to + (back ? rows - 1 - q : q) * x->down[1];

        if (back && (r < 3 || s < 3)) /* a phase under a stride of two */
            NAME(spread)(at, 2, sum[q], x->lanes);
        else
            MASKED_STORE(at, sum[q], x->lanes);
    }
}

FLAT void NAME(see_column)(struct NAME(column) x, int64_t planes, int r, int s, int stride,
                           bool back, bool inside)
{
    _Pragma("clang loop unroll(disable)") for (int64_t c = 0; c < x.channels; c++) {
        int64_t y = 0;
        VEC w[3][3], start = { 0 };

        if (planes == 1) {
            NAME(weigh)(&x, c, 0, r, s, w);
            start = NAME(start)(&x, r, w);
        }
        _Pragma("clang loop unroll(disable)") for (; y + ROWS <= x.rows; y += ROWS)
            NAME(see_block)(&x, planes, c, y, ROWS, r, s, stride, back, inside, w, start);
#define CASE(n) \
    case n: NAME(see_block)(&x, planes, c, y, n, r, s, stride, back, inside, w, start); break;
        switch (x.rows - y) {
            CASE(1) CASE(2) CASE(3)
        }
#undef CASE
    }
}

/* Where a plane lies that the window sees. */
static const PIXEL *NAME(plane_seen)(const struct NAME(piece) *x, int64_t plane)
{
    const struct depthwise *d = x->d;
    const int64_t t = plane % d->t;
    const int64_t z = x->p.z * d->stride[2] - d->pad[2] +
                      (d->backward ? d->t - 1 - t : t) * d->dilate[2];

    if (z < 0 || z >= d->depth)
        return NULL;
    return (const PIXEL *)d->image +
           row_of(d, x->p.image, x->p.channel * d->inputs + plane / d->t, z, 0);
}

FLAT void NAME(see_columns)(struct NAME(column) x, int64_t columns, int64_t last, int64_t planes,
                            int r, int s, int stride, bool back, int64_t right)
{
    for (int64_t v = 0; v < columns; v++, x.to += LANES * right, x.first += LANES * stride) {
        x.lanes = v + 1 < columns ? LANES : last;
        if (!MASKS_ARE_FREE && x.first >= 0 && x.first + (LANES - 1) * stride + s <= x.w)
            NAME(see_column)(x, planes, r, s, stride, back, true);
        else
            NAME(see_column)(x, planes, r, s, stride, back, false);
    }
}

/* Output j of each channel.  Where rows are longer than a vector, channel after channel, else all
 * of them, which spend less together. */
FLAT void NAME(see_channels)(const struct NAME(piece) *x, int64_t j, int64_t planes, int r, int s,
                             int stride, bool back)
{
    const struct depthwise *d = x->d;
    const PIXEL *plane[LIMBER_SMALL_K];
    const FILTER *filter[LIMBER_SMALL_K];
    struct NAME(column) of = { .plane = plane,
                               .zeros = (const PIXEL *)x->ring,
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
                               .offset = GROUP > 1 && !d->is_unsigned ? 128 : 0 };

    for (int64_t p = 0; p < planes; p++) {
        plane[p] = NAME(plane_seen)(x, p);
        filter[p] = (const FILTER *)d->filters +
                    (x->p.channel * d->multiplier + j) * d->filter[0] + p / d->t * d->filter[1] +
                    p % d->t * d->filter[2];
    }
    for (int64_t c = 0; c < x->p.channels; c += of.channels) {
        NAME(see_columns)(of, x->vectors, x->last, planes, r, s, stride, back, d->to[4]);
        for (int64_t p = 0; p < planes; p++) {
            plane[p] += plane[p] ? of.apart : 0;
            filter[p] += of.beyond;
        }
        of.to += of.across;
    }
}

/* Functions of their own: what one plane needs stays in registers. */
#define WINDOW(r, s, stride, back) \
    static __attribute__((noinline)) void NAME(see_##r##s##stride##back)( \
        const struct NAME(piece) *x, int64_t j) \
    { \
        if (x->p.planes == 1) \
            NAME(see_channels)(x, j, 1, r, s, stride, back); \
        else \
            NAME(see_channels)(x, j, x->p.planes, r, s, stride, back); \
    }
DIRECT_WINDOWS(WINDOW)
#undef WINDOW

static void NAME(run_direct)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;

    memset(x->ring, 0, (size_t)d->w * sizeof(PIXEL));
    for (int64_t j = 0; j < d->multiplier; j++) {
#define WINDOW(height, width, step, back) \
    if (d->r == height && d->s == width && d->stride[0] == step && d->backward == back) \
        NAME(see_##height##width##step##back)(x, j);
        DIRECT_WINDOWS(WINDOW)
#undef WINDOW
    }
}
