/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions of NHWC images that are read in place, for common windows.  depthwise.h
 * includes this file once for each format.
 *
 * Lanes are channels.  The windows of a block of rows and columns of the result share pixels, so
 * each pixel is loaded once per block.  For 8-bit integers, four pixels of sixteen channels are
 * loaded into one register, and a shuffle makes elements that hold the three taps of a row. */

enum { NAME(columns) = GROUP > 1 ? 2 : BLOCK_COLUMNS };

/* The rows of the image that the windows of some rows of the result read. */
struct NAME(strip) {
    /* [plane][row of the image]: address of the row; NULL if it is padding */
    const PIXEL *const *row;
    const PIXEL *zeros;
    /* weight: the filters; start: initial values of the accumulators, only for 8-bit integers */
    const REAL *weight, *start;
    int64_t planes;
    /* pixel: distance between neighbouring pixels of the image, in elements; w: number of pixels in
     * a row */
    int64_t pixel, w;
    int64_t shift; /* number of unused lanes before the first channel */
    /* left: column of the image at which the first window begins; columns, channels: how many the
     * result has */
    int64_t left, columns, channels;
    /* distances in the result, in elements: between columns (right), and between rows (down) */
    int64_t right, down;
#if GROUP > 1
    __m512i offset; /* flips the signs of a signed image's bytes */
#else
    int offset;
#endif
    RESULT *to;
};

#if GROUP > 1
/* Four pixels, and the constants of the shuffles that join their bytes.  The compiler cannot see
 * the constants' values, since it would decompose the shuffles. */
struct NAME(joins) {
    __m512i turn, first, second, offset, four;
};

/* Returns the constants for pixels of this image. */
FLAT struct NAME(joins) NAME(joins)(const struct NAME(strip) *x)
{
    struct NAME(joins) j = {
        .turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        .first = _mm512_set4_epi32(0x800b0703, 0x800a0602, 0x80090501, 0x80080400),
        .second = _mm512_set4_epi32(0x800f0b07, 0x800e0a06, 0x800d0905, 0x800c0804),
        .offset = x->offset,
    };

    __asm__("" : "+v"(j.turn), "+v"(j.first), "+v"(j.second));
    return j;
}

/* Loads `count` pixels, at most four, and interleaves them by groups of four channels.  place:
 * offset of each pixel from `at`.  each: mask of the channels that are loaded of each pixel.  all:
 * all channels are loaded, so no masks are needed. */
FLAT void NAME(load_pixels)(struct NAME(joins) *j, const uint8_t *at, const int64_t *place,
                            const some_lanes *each, int count, bool all)
{
    __m512i pixels = _mm512_setzero_si512();

    UNROLL for (int c = 0; c < count; c++) {
        const __m128i bytes =
            all ? _mm_loadu_si128((const __m128i *)(const void *)(at + place[c])) :
                  _mm_maskz_loadu_epi8((__mmask16)each[c], at + place[c]);

        pixels = c == 0 ? _mm512_zextsi128_si512(bytes) :
                          _mm512_mask_broadcast_i32x4(pixels, (__mmask16)(0xf << 4 * c), bytes);
    }
    j->four = _mm512_xor_si512(_mm512_permutexvar_epi32(j->turn, pixels), j->offset);
}

/* Returns a vector whose 32-bit lane l has, for channel l of sixteen, the bytes that the taps of
 * a row read, for column k of n columns. */
FLAT VEC NAME(load_pixel)(struct NAME(joins) *j, const uint8_t *at, const int64_t *place,
                          const some_lanes *each, int k, int n, int stride, bool all)
{
    const bool loads = k == 0 || stride > 1;

    if (loads)
        NAME(load_pixels)(j, at, place + k * stride, each + k * stride, stride > 1 ? 3 : n + 2,
                          all);
    return (VEC)_mm512_shuffle_epi8(j->four, loads ? j->first : j->second);
}
#else
struct NAME(joins) {
    int offset;
};

/* Returns the constants for pixels of this image. */
FLAT struct NAME(joins) NAME(joins)(const struct NAME(strip) *x)
{
    return (struct NAME(joins)){ x->offset };
}

/* Loads a vector of channels of column c, converted to the type that is multiplied. */
FLAT VEC NAME(load_pixel)(struct NAME(joins) *j, const PIXEL *at, const int64_t *place,
                          const some_lanes *each, int c, int n, int stride, bool all)
{
    (void)n, (void)stride;
    return NAME(widen)(all ? *(const NAME(pixels) *)(at + place[c]) :
                             (NAME(pixels))PIXELS_LOAD(at + place[c], each[c]),
                       j->offset);
}
#endif

/* Computes a block of the result, of `rows` rows and n columns, for a vector of channels.  left:
 * column of the image at which the first pixel's window begins.  back: windows are flipped.  all:
 * no channel is masked, and no column is padding. */
FLAT void NAME(channels_block)(const struct NAME(strip) *x, int64_t group, int64_t left,
                               RESULT *to, int rows, int n, int r, int s, int stride, bool back,
                               bool all)
{
    const int seen = (rows - 1) * stride + r, across = (n - 1) * stride + s;
    const int taps = ceil_div(s, GROUP), elements = GROUP > 1 ? n : across;
    const int64_t channel = group * LANES - x->shift, lanes = least(LANES, x->channels - channel);
    const some_lanes some = lanes_between(channel < 0 ? -channel : 0, lanes);
    const int64_t last = x->w - 1, begin = all ? left : left < 0 ? 0 : least(left, last);
    const REAL *weight = x->weight + group * x->planes * r * taps * LANES;
    const PIXEL *const *rows_of = x->row;
    struct NAME(joins) joins = NAME(joins)(x);
    some_lanes each[BLOCK_ACROSS]; /* [column]: lanes to load */
    int64_t place[BLOCK_ACROSS]; /* [column]: offset from the row's address */
    VEC w[3][3], sum[BLOCK_ROWS][BLOCK_COLUMNS];

    UNROLL for (int c = 0; c < across; c++) {
        const int64_t column = left + c, near = column < 0 ? 0 : least(column, last);

        /* A column of padding gets a valid address, since a masked load without lanes is slow at an
         * unmapped address. */
        place[c] = (all ? c : near - begin) * x->pixel;
        each[c] = column == near ? some : 0;
    }
    UNROLL for (int i = 0; i < rows * n; i++)
        sum[i / n][i % n] = PIXEL_BYTES == 1 ? LOAD(x->start + channel) : (VEC){ 0 };
    for (int64_t p = 0; p < x->planes; p++, weight += r * taps * LANES, rows_of += seen) {
        UNROLL for (int i = 0; i < r * taps; i++)
            w[i / taps][i % taps] = LOAD(weight + i * LANES);
        UNROLL for (int i = 0; i < seen; i++) {
            const PIXEL *row = rows_of[back ? seen - 1 - i : i];
            const PIXEL *at = __builtin_unpredictable(row != NULL) ?
                                  row + begin * x->pixel + channel :
                                  x->zeros;

            UNROLL for (int c = 0; c < elements; c++) {
                const VEC e = NAME(load_pixel)(&joins, at, place, each,
                                               back ? across - 1 - c : c, n, stride, all);

                UNROLL for (int q = 0; q < rows; q++)
                    UNROLL for (int k = 0; k < n; k++) {
                        const int down = i - q * stride;
                        const int t = GROUP > 1 ? 3 * (c - k) : c - k * stride;

                        if (down >= 0 && down < r && t >= 0 && t < taps)
                            sum[q][k] = MULTIPLY_ADD(e, w[down][t], sum[q][k]);
                    }
            }
            /* Keeps the compiler from moving all loads to the front, which would spill
             * registers. */
            UNROLL for (int q = 0; q < rows * n; q++)
                __asm__("" : REGISTER(sum[q / n][q % n]));
        }
    }
    UNROLL for (int q = 0; q < rows; q++)
        UNROLL for (int k = 0; k < n; k++) {
            const NAME(results) result = __builtin_convertvector(sum[q][k], NAME(results));
            RESULT *c = to + (back ? rows - 1 - q : q) * x->down +
                      (back ? n - 1 - k : k) * x->right + channel;

            if (all)
                *(NAME(results) *)c = result;
            else
                LANES_STORE(c, result, some);
        }
}

/* Computes columns [v, v + n) of a strip for all channels, one vector of channels after the
 * other. */
FLAT void NAME(channels_columns)(const struct NAME(strip) *x, int64_t v, int rows, int n, int r,
                                 int s, int stride, bool back)
{
    const int64_t left = x->left + v * stride, groups = ceil_div(x->shift + x->channels, LANES);
    const bool inside = left >= 0 && left + (n - 1) * stride + s <= x->w;
    const int64_t whole =
        inside && (!MASKS_ARE_FREE || PIXEL_BYTES == 1) ? (x->shift + x->channels) / LANES : 0;
    RESULT *to = x->to + v * x->right;

    _Pragma("clang loop unroll(disable)") for (int64_t g = 0; g < whole; g++)
        NAME(channels_block)(x, g, left, to, rows, n, r, s, stride, back, true);
    _Pragma("clang loop unroll(disable)") for (int64_t g = whole; g < groups; g++)
        NAME(channels_block)(x, g, left, to, rows, n, r, s, stride, back, false);
}

/* Computes some rows of a strip, in blocks whose widths differ by at most one column. */
FLAT void NAME(channels_rows)(const struct NAME(strip) *strip, int rows, int r, int s, int stride,
                              bool back)
{
    const struct NAME(strip) x = *strip;

    for (int64_t v = 0, n; v < x.columns; v += n) {
        n = ceil_div(x.columns - v, ceil_div(x.columns - v, NAME(columns)));
        if (n == 3 && GROUP == 1)
            NAME(channels_columns)(&x, v, rows, 3, r, s, stride, back);
        else if (n == 2)
            NAME(channels_columns)(&x, v, rows, 2, r, s, stride, back);
        else
            NAME(channels_columns)(&x, v, rows, 1, r, s, stride, back);
    }
}

/* Computes a piece: a rectangle of pixels of the result, for a block of channels.  back: computes
 * the gradient of the image.
 *
 * Under dilation, pixels with equal remainders modulo the dilation form an undilated image of their
 * own (a phase).  `below` and `beside` are the distances in rows and columns between its pixels.
 * row[] points to the rows of the image that the windows of a block of rows read; NULL is
 * padding. */
FLAT void NAME(channels_piece)(const struct NAME(piece) *x, int r, int s, int stride, bool back)
{
    const struct depthwise *d = x->d;
    const PIXEL *row[BLOCK_ROWS * LIMBER_SMALL_K];
    const int64_t end = x->p.y + x->p.height, below = r > 1 ? d->dilate[0] : 1;
    const int64_t beside = across_of(d), phases = least(beside, x->p.width);
    struct NAME(strip) strip = { .row = row,
                                 .zeros = (const PIXEL *)x->room,
                                 .weight = x->weight,
                                 .start = x->start,
                                 .planes = x->p.planes,
                                 .pixel = beside * d->channels,
                                 .shift = x->p.shift,
                                 .channels = x->p.channels,
                                 .right = beside * d->to[4],
                                 .down = below * d->to[3] };

#if GROUP > 1
    strip.offset = _mm512_set1_epi8((char)NAME(flip)(d));
#else
    strip.offset = NAME(flip)(d);
#endif

    for (int64_t phase = 0; phase < phases * least(below, x->p.height); phase++) {
        const int64_t v = phase % phases, left = (x->p.x + v) * stride - d->pad[1];
        const int64_t begin = (left % beside + beside) % beside; /* first column of this phase */

        strip.left = (left - begin) / beside;
        strip.w = ceil_div(d->w - least(begin, d->w), beside);
        strip.columns = ceil_div(x->p.width - v, beside);
        for (int64_t y = x->p.y + phase / phases, rows, seen; y < end; y += rows * below) {
            const int64_t top = y * stride - d->pad[0], all = ceil_div(end - y, below);

            rows = ceil_div(all, ceil_div(all, BLOCK_ROWS));
            seen = (rows - 1) * stride + r;
            for (int64_t i = 0; i < x->p.planes * seen; i++) {
                const PIXEL *image = NAME(plane_seen)(x, i / seen);
                const int64_t at = top + i % seen * below;

                row[i] = image && strip.w > 0 && at >= 0 && at < d->h ?
                             image + (at * d->w + begin) * d->channels :
                             NULL;
            }
            strip.to = NAME(output)(x, x->p.channel, 0, y) + v * d->to[4];
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
}

#define WINDOW(r, s, stride, back) \
    static __attribute__((noinline)) void NAME(channels_##r##s##stride##back)( \
        const struct NAME(piece) *x) \
    { \
        NAME(channels_piece)(x, r, s, stride, back); \
    }
DIRECT_WINDOWS(WINDOW)
#undef WINDOW

#if GROUP > 1
/* Packs the filters of 3 x 3 windows of 8-bit integers: the three taps of a row become one element.
 * The planes of a filter are contiguous.  Start values compensate for the flipped signs of the
 * image. */
static void NAME(pack_nines)(const struct NAME(piece) *x)
{
    const int size = (int)x->p.planes * 9;
    const __m512i steps = _mm512_mullo_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32(size));
    const int8_t *from = (const int8_t *)x->d->filters + x->p.channel * size;
    const __m512i offset = _mm512_set1_epi8((char)NAME(flip)(x->d));
    REAL *to = x->weight;

    for (int64_t g = 0; g < x->p.groups; g++, from += LANES * size) {
        const __mmask16 some =
            (__mmask16)lanes_between(0, least(LANES, x->p.channels - g * LANES));
        __m512i start = _mm512_setzero_si512();

        for (int64_t i = 0; i < 3 * x->p.planes; i++, to += LANES) {
            const bool last = i % 3 == 2; /* then nothing past the ninth byte may be read */
            __m512i w = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), some, steps,
                                                    from + 3 * i - last, 1);

            w = last ? _mm512_srli_epi32(w, 8) :
                       _mm512_and_si512(w, _mm512_set1_epi32(0xffffff));
            start = _mm512_dpbusd_epi32(start, offset, w);
            STORE(to, (VEC)w);
        }
        STORE(x->start + g * LANES, -(VEC)start);
    }
}
#endif

/* Computes a piece whose lanes are channels, by the function for its window. */
static void NAME(run_channels)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;

#if GROUP > 1
    NAME(pack_nines)(x);
#else
    NAME(pack_filters)(x, 0);
#endif
    memset(x->room, 0, (size_t)x->p.row * sizeof(PIXEL));
#define WINDOW(height, width, step, back) \
    if (d->r == height && d->s == width && d->stride[0] == step && d->backward == back) \
        NAME(channels_##height##width##step##back)(x);
    DIRECT_WINDOWS(WINDOW)
#undef WINDOW
}
