/* SPDX-License-Identifier: BSD-3-Clause
 * The same of NHWC, as depthwise.h includes it for floats: lanes are channels.  A block of rows and
 * columns of the result shares the pixels that it sees, each of which is loaded once. */

/* What some rows of the result see. */
struct NAME(strip) {
    const REAL *row[3 + 2 * (BLOCK_ROWS - 1)]; /* as they follow each other; NULL: padding */
    const REAL *zeros, *weight;
    int64_t pixel, w; /* elements of a pixel of the image; pixels of a row */
    int64_t shift; /* lanes of the first vector that are no channels */
    int64_t left, columns, channels; /* where the window of the first column begins */
    int64_t right, down; /* elements of the result from column to column and from row to row */
    REAL *to;
};

/* Rows and n columns of a vector of channels, whose window begins in column `left`. */
FLAT void NAME(channels_block)(const struct NAME(strip) *x, int64_t group, int64_t left, REAL *to,
                               int rows, int n, int r, int s, int stride, bool back, bool all)
{
    const int seen = (rows - 1) * stride + r, across = (n - 1) * stride + s;
    const int64_t channel = group * LANES - x->shift, lanes = least(LANES, x->channels - channel);
    const some_lanes some = lanes_between(channel < 0 ? -channel : 0, lanes);
    const int64_t last = x->w - 1, begin = all ? left : left < 0 ? 0 : least(left, last);
    const REAL *weight = x->weight + group * r * s * LANES;
    some_lanes each[BLOCK_ACROSS]; /* of columns */
    int64_t place[BLOCK_ACROSS];
    VEC w[3][3], sum[BLOCK_ROWS][BLOCK_COLUMNS];

    UNROLL for (int c = 0; c < across; c++) {
        const int64_t column = left + c, near = column < 0 ? 0 : least(column, last);

        /* Loads of no lanes take long where there is no memory. */
        place[c] = (all ? c : near - begin) * x->pixel;
        each[c] = column == near ? some : 0;
    }
    UNROLL for (int i = 0; i < r * s; i++)
        w[i / s][i % s] = LOAD(weight + i * LANES);
    UNROLL for (int i = 0; i < rows * n; i++)
        sum[i / n][i % n] = (VEC){ 0 };
    UNROLL for (int i = 0; i < seen; i++) {
        const REAL *row = x->row[back ? seen - 1 - i : i];
        const REAL *at = __builtin_unpredictable(row != NULL) ?
                             row + begin * x->pixel + channel :
                             x->zeros;

        UNROLL for (int c = 0; c < across; c++) {
            const int column = back ? across - 1 - c : c;
            const REAL *pixel = at + place[column];
            const VEC e = all ? LOAD(pixel) : (VEC)LANES_LOAD(pixel, each[column]);

            UNROLL for (int q = 0; q < rows; q++)
                UNROLL for (int k = 0; k < n; k++) {
                    const int down = i - q * stride, t = c - k * stride;

                    if (down >= 0 && down < r && t >= 0 && t < s)
                        sum[q][k] = MULTIPLY_ADD(e, w[down][t], sum[q][k]);
                }
        }
        UNROLL for (int q = 0; q < rows * n; q++) /* else all loads come first, and are spilled */
            __asm__("" : REGISTER(sum[q / n][q % n]));
    }
    UNROLL for (int q = 0; q < rows; q++)
        UNROLL for (int k = 0; k < n; k++) {
            REAL *c = to + (back ? rows - 1 - q : q) * x->down +
                      (back ? n - 1 - k : k) * x->right + channel;

            if (all)
                STORE(c, sum[q][k]);
            else
                LANES_STORE(c, sum[q][k], some);
        }
}

/* All channels of n columns from v on. */
FLAT void NAME(channels_columns)(const struct NAME(strip) *x, int64_t v, int rows, int n, int r,
                                 int s, int stride, bool back)
{
    const int64_t left = x->left + v * stride, groups = parts(x->shift + x->channels, LANES);
    const bool inside = left >= 0 && left + (n - 1) * stride + s <= x->w;
    REAL *to = x->to + v * x->right;

    _Pragma("clang loop unroll(disable)") for (int64_t g = 0; g < groups; g++)
        if (!MASKS_ARE_FREE && inside && (g + 1) * LANES - x->shift <= x->channels)
            NAME(channels_block)(x, g, left, to, rows, n, r, s, stride, back, true);
        else
            NAME(channels_block)(x, g, left, to, rows, n, r, s, stride, back, false);
}

/* Blocks of a row are alike, up to one column. */
FLAT void NAME(channels_rows)(const struct NAME(strip) *strip, int rows, int r, int s, int stride,
                              bool back)
{
    const struct NAME(strip) x = *strip;

    for (int64_t v = 0, n; v < x.columns; v += n) {
        n = parts(x.columns - v, parts(x.columns - v, BLOCK_COLUMNS));
        if (n == 3)
            NAME(channels_columns)(&x, v, rows, 3, r, s, stride, back);
        else if (n == 2)
            NAME(channels_columns)(&x, v, rows, 2, r, s, stride, back);
        else
            NAME(channels_columns)(&x, v, rows, 1, r, s, stride, back);
    }
}

FLAT void NAME(channels_piece)(const struct NAME(piece) *x, int r, int s, int stride, bool back)
{
    const struct depthwise *d = x->d;
    const REAL *image = NAME(plane_seen)(x, 0);
    const int64_t end = x->p.y + x->p.height;
    struct NAME(strip) strip = { .zeros = x->ring,
                                 .weight = x->weight,
                                 .pixel = d->channels,
                                 .w = d->w,
                                 .shift = x->p.shift,
                                 .left = x->p.x * stride - d->pad[1],
                                 .columns = x->p.width,
                                 .channels = x->p.channels,
                                 .right = d->to[4],
                                 .down = d->to[3] };

    for (int64_t y = x->p.y, rows; y < end; y += rows) {
        const int64_t top = y * stride - d->pad[0];

        rows = parts(end - y, parts(end - y, BLOCK_ROWS));
        for (int64_t i = 0; i < (rows - 1) * stride + r; i++)
            strip.row[i] = image && top + i >= 0 && top + i < d->h ?
                               image + (top + i) * d->w * d->channels :
                               NULL;
        strip.to = NAME(output)(x, x->p.channel, 0, y);
        switch (rows) {
        case 1: NAME(channels_rows)(&strip, 1, r, s, stride, back); break;
        case 2: NAME(channels_rows)(&strip, 2, r, s, stride, back); break;
#if BLOCK_ROWS > 2
        case 3: NAME(channels_rows)(&strip, 3, r, s, stride, back); break;
        case 4: NAME(channels_rows)(&strip, 4, r, s, stride, back); break;
#endif
        }
    }
}

#define WINDOW(r, s, stride, back) \
    static __attribute__((noinline)) void NAME(channels_##r##s##stride##back)( \
        const struct NAME(piece) *x) \
    { \
        NAME(channels_piece)(x, r, s, stride, back); \
    }
DIRECT_WINDOWS(WINDOW)
#undef WINDOW

/* `x->ring` has room for zeros. */
static void NAME(run_channels)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;

    NAME(pack_filters)(x, 0, 1);
    for (int64_t c = 0; c < BLOCK_ACROSS; c++)
        STORE(x->ring + c * d->channels, (VEC){ 0 });
#define WINDOW(height, width, step, back) \
    if (d->r == height && d->s == width && d->stride[0] == step && d->backward == back) \
        NAME(channels_##height##width##step##back)(x);
    DIRECT_WINDOWS(WINDOW)
#undef WINDOW
}

/* Pixels of some channels go where these are `plane` elements apart. */
static __attribute__((noinline)) void NAME(turn_back)(const REAL *from, int64_t count,
                                                      int64_t channels, int64_t plane, REAL *to)
{
    for (int64_t i = 0; i < count; i += LANES, to += LANES) {
        const int64_t some = least(LANES, count - i);
        REAL *at = to;
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++)
            v[l] = LOAD(from + (i + l) * LANES); /* there is room for all */
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++, at += plane) {
            if (l < channels)
                MASKED_STORE(at, v[l], some);
            __asm__("" : "+r"(at)); /* as in turn */
        }
    }
}

/* NCHW of narrow images: as NHWC, where half of a row's vector would be beside it. */
static void NAME(run_narrow)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;
    const int64_t plane = d->h * d->w, area = d->oh * d->ow;
    REAL *image = x->ring + BLOCK_ACROSS * LANES;
    REAL *result = image + parts(plane, LANES) * LANES * LANES;
    struct depthwise turned = *d;
    struct NAME(piece) of = *x;

    NAME(turn)((const REAL *)d->image + (x->p.image * d->channels + x->p.channel) * plane, plane,
               plane, x->p.channels, image);
    turned.nhwc = true;
    turned.channels = LANES;
    turned.image = image;
    turned.filters = (const REAL *)d->filters + x->p.channel * d->filter[0];
    turned.result = result;
    turned.to[3] = d->ow * LANES;
    turned.to[4] = LANES;
    of.d = &turned;
    of.p.image = of.p.channel = 0;
    of.p.by_channel = true;
    NAME(run_channels)(&of);
    NAME(turn_back)(result + x->p.y * d->ow * LANES, x->p.height * d->ow, x->p.channels, area,
                    NAME(output)(x, x->p.channel, 0, x->p.y));
}
