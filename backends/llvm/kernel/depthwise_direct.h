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
/* The element at `at`, in the first lane. */
FLAT VEC NAME(look_at_one)(const PIXEL *row, int64_t at, int64_t w, bool inside)
{
    static const REAL zero;

    return (VEC){ *(inside || (at >= 0 && at < w) ? row + at : &zero) };
}

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
        e[2] = NEXT(e[0], NAME(look_at_one)(row, first + 2 * LANES, w, inside));
#if defined(LOOK_BEYOND)
    } else if (s > 1) {
        const VEC low = NAME(look)(row, first, w, inside);
        const VEC high = LOOK_BEYOND(row, first + LANES, w);
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

/* One column of vectors of a channel's result, and what it sees: planes of the image, NULL where all
 * is padding; weights of each plane, row and tap. */
struct NAME(column) {
    const PIXEL *const *plane, *zeros;
    const REAL *weight;
    int64_t first, w, h, top; /* where the first tap of the first lane and row is */
    int64_t lanes, down; /* lanes that are stored; from row to row */
    REAL *to;
    VEC start;
    int offset;
};

FLAT VEC NAME(same)(const REAL *x)
{
    return (VEC)SAME(*x);
}

/* `rows` rows from y on.  w: the weights, where there is one plane. */
FLAT void NAME(see_block)(const struct NAME(column) *x, int64_t planes, int64_t y, int rows, int r,
                          int s, int stride, bool back, bool inside, VEC w[3][3])
{
    const int taps = (s + GROUP - 1) / GROUP, seen = (rows - 1) * stride + r;
    const bool apart = back && (r < 3 || s < 3);
    REAL *c = x->to + y * x->down;
    VEC sum[ROWS];

    UNROLL for (int q = 0; q < rows; q++)
        sum[q] = x->start;
    for (int64_t p = 0; p < planes; p++) {
        if (planes > 1)
            UNROLL for (int i = 0; i < r * taps; i++)
                w[i / taps][i % taps] = NAME(same)(x->weight + p * r * taps + i);
        UNROLL for (int i = 0; i < seen; i++) {
            const int64_t at = x->top + y * stride + (back ? seen - 1 - i : i);
            const bool is_row = (uint64_t)at < (uint64_t)x->h && x->plane[p];
            const PIXEL *row = __builtin_unpredictable(is_row) ? x->plane[p] + at * x->w : x->zeros;
            VEC e[3];

            NAME(see)(row, x->first, x->w, s, stride, back, inside, x->offset, e);
            UNROLL for (int t = 0; t < taps; t++)
                UNROLL for (int q = 0; q < rows; q++)
                    if (i - q * stride >= 0 && i - q * stride < r)
                        sum[q] = MULTIPLY_ADD(e[t], w[i - q * stride][t], sum[q]);
            UNROLL for (int q = 0; q < rows; q++) /* else all loads come first, and are spilled */
                __asm__("" : REGISTER(sum[q]));
        }
    }
    UNROLL for (int q = 0; q < rows; q++) {
        REAL *at = c + (back ? rows - 1 - q : q) * x->down;

        if (apart)
            NAME(spread)(at, 2, sum[q], x->lanes);
        else
            MASKED_STORE(at, sum[q], x->lanes);
    }
}

FLAT void NAME(see_column)(struct NAME(column) x, int64_t planes, int64_t height, int r, int s,
                           int stride, bool back, bool inside)
{
    const int taps = (s + GROUP - 1) / GROUP;
    int64_t y = 0;
    VEC w[3][3];

    UNROLL for (int i = 0; i < r * taps; i++)
        w[i / taps][i % taps] = NAME(same)(x.weight + i);
    _Pragma("clang loop unroll(disable)") for (; y + ROWS <= height; y += ROWS)
        NAME(see_block)(&x, planes, y, ROWS, r, s, stride, back, inside, w);
    switch (height - y) {
    case 1: NAME(see_block)(&x, planes, y, 1, r, s, stride, back, inside, w); break;
    case 2: NAME(see_block)(&x, planes, y, 2, r, s, stride, back, inside, w); break;
    case 3: NAME(see_block)(&x, planes, y, 3, r, s, stride, back, inside, w); break;
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

/* One channel's output j. */
FLAT void NAME(see_channel)(const struct NAME(piece) *x, int64_t j, int64_t planes, int r, int s,
                            int stride, bool back)
{
    const struct depthwise *d = x->d;
    const PIXEL *plane[LIMBER_SMALL_K];
    struct NAME(column) of = { .plane = plane,
                               .zeros = (const PIXEL *)x->ring,
                               .weight = x->weight,
                               .first = x->p.x * stride - d->pad[1],
                               .w = d->w,
                               .h = d->h,
                               .top = x->p.y * stride - d->pad[0],
                               .down = d->to[3],
                               .to = NAME(output)(x, x->p.channel, j, x->p.y),
                               .start = NAME(same)(x->start),
                               .offset = x->offset };

    for (int64_t p = 0; p < planes; p++)
        plane[p] = NAME(plane_seen)(x, p);
    for (int64_t v = 0; v < x->vectors; v++, of.to += LANES * d->to[4], of.first += LANES * stride) {
        of.lanes = v + 1 < x->vectors ? LANES : x->last;
        if (!MASKS_ARE_FREE && of.first >= 0 && of.first + (LANES - 1) * stride + s <= d->w)
            NAME(see_column)(of, planes, x->p.height, r, s, stride, back, true);
        else
            NAME(see_column)(of, planes, x->p.height, r, s, stride, back, false);
    }
}

/* Functions of their own: what one plane needs stays in registers. */
#define WINDOW(r, s, stride, back) \
    static __attribute__((noinline)) void NAME(see_##r##s##stride##back)( \
        const struct NAME(piece) *x, int64_t j) \
    { \
        if (x->p.planes == 1) \
            NAME(see_channel)(x, j, 1, r, s, stride, back); \
        else \
            NAME(see_channel)(x, j, x->p.planes, r, s, stride, back); \
    }
DIRECT_WINDOWS(WINDOW)
#undef WINDOW

static void NAME(run_direct)(struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;

    memset(x->ring, 0, (size_t)d->w * sizeof(PIXEL));
    for (int64_t c = 0; c < x->p.channels; c++, x->p.channel++)
        for (int64_t j = 0; j < d->multiplier; j++) {
            *x->start = 0;
            NAME(pack_filter)(x, (const FILTER *)d->filters +
                                 (x->p.channel * d->multiplier + j) * d->filter[0],
                              x->weight, x->start);
#define WINDOW(height, width, step, back) \
    if (d->r == height && d->s == width && d->stride[0] == step && d->backward == back) \
        NAME(see_##height##width##step##back)(x, j);
            DIRECT_WINDOWS(WINDOW)
#undef WINDOW
        }
}
