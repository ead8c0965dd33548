/* SPDX-License-Identifier: BSD-3-Clause
 * Bytes of NHWC under windows of 3 x 3, as depthwise.h includes it where four products of bytes are
 * summed at once: lanes are channels, and an element has the three taps of a row.  Rows of the
 * result share these. */

enum { BYTES_ROWS = 4 };

/* What some rows of the result see. */
struct NAME(strip) {
    const uint8_t *row[3 + 2 * (BYTES_ROWS - 1)]; /* NULL: padding */
    const uint8_t *zeros;
    const REAL *weight, *start;
    int64_t pixel, w; /* bytes of a pixel of the image; pixels of a row */
    int64_t left, columns, channels; /* where the window of the first column begins */
    int64_t right, down; /* elements of the result from column to column and from row to row */
    __m512i offset;
    REAL *to;
};

/* What puts bytes together: kept from the compiler, which would take shuffles apart. */
struct NAME(joins) {
    __m512i turn, first, second;
};

FLAT struct NAME(joins) NAME(joins)(void)
{
    struct NAME(joins) j = {
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        _mm512_set4_epi32(0x800b0703, 0x800a0602, 0x80090501, 0x80080400),
        _mm512_set4_epi32(0x800f0b07, 0x800e0a06, 0x800d0905, 0x800c0804),
    };

    __asm__("" : "+v"(j.turn), "+v"(j.first), "+v"(j.second));
    return j;
}

/* Four pixels of sixteen channels: four channels of each in turn.  all: or some channels of those
 * pixels that are some. */
FLAT __m512i NAME(pixels_of)(const uint8_t *at, const int64_t place[4], const __mmask16 some[4],
                             int count, bool all, const struct NAME(joins) *j)
{
    __m512i pixels = _mm512_setzero_si512();

    UNROLL for (int c = 0; c < count; c++) {
        const __m128i bytes =
            all ? _mm_loadu_si128((const __m128i *)(const void *)(at + place[c])) :
                  _mm_maskz_loadu_epi8(some[c], at + place[c]);

        pixels = c == 0 ? _mm512_zextsi128_si512(bytes) :
                          _mm512_mask_broadcast_i32x4(pixels, (__mmask16)(0xf << 4 * c), bytes);
    }
    return _mm512_permutexvar_epi32(j->turn, pixels);
}

/* Rows and one or two columns of sixteen channels, whose window begins in column `left`. */
FLAT void NAME(bytes_block)(const struct NAME(strip) *x, int64_t group, int64_t left, REAL *to,
                            int rows, int n, int stride, bool all)
{
    const int seen = (rows - 1) * stride + 3, across = (n - 1) * stride + 3;
    const int64_t channel = group * LANES, last = x->w - 1;
    const __mmask16 lanes = (__mmask16)lanes_between(0, least(LANES, x->channels - channel));
    const int64_t begin = all ? left : left < 0 ? 0 : least(left, last);
    const struct NAME(joins) j = NAME(joins)();
    __mmask16 some[6] = { 0 };
    int64_t place[6] = { 0 };
    VEC w[3], sum[BYTES_ROWS][2];

    UNROLL for (int c = 0; c < across; c++) {
        const int64_t column = left + c, near = column < 0 ? 0 : least(column, last);

        /* Loads of no lanes take long where there is no memory. */
        place[c] = (all ? c : near - begin) * x->pixel;
        some[c] = column == near ? lanes : 0;
    }
    UNROLL for (int r = 0; r < 3; r++)
        w[r] = LOAD(x->weight + (group * 3 + r) * LANES);
    UNROLL for (int i = 0; i < rows * n; i++)
        sum[i / n][i % n] = LOAD(x->start + channel);
    UNROLL for (int i = 0; i < seen; i++) {
        const uint8_t *row = x->row[i];
        const uint8_t *at = __builtin_unpredictable(row != NULL) ?
                                row + begin * x->pixel + channel :
                                x->zeros;
        __m512i four = { 0 };

        UNROLL for (int k = 0; k < n; k++) {
            VEC e;

            if (k == 0 || stride > 1) {
                const int c = k * stride, count = stride > 1 ? 3 : across;

                four = NAME(pixels_of)(at, place + c, some + c, count, all, &j);
                four = _mm512_xor_si512(four, x->offset);
            }
            e = (VEC)_mm512_shuffle_epi8(four, k == 0 || stride > 1 ? j.first : j.second);
            UNROLL for (int q = 0; q < rows; q++)
                if (i - q * stride >= 0 && i - q * stride < 3)
                    sum[q][k] = MULTIPLY_ADD(e, w[i - q * stride], sum[q][k]);
        }
        UNROLL for (int q = 0; q < rows * n; q++) /* else all loads come first, and are spilled */
            __asm__("" : REGISTER(sum[q / n][q % n]));
    }
    UNROLL for (int q = 0; q < rows; q++)
        UNROLL for (int k = 0; k < n; k++) {
            REAL *c = to + q * x->down + k * x->right + channel;

            if (all)
                STORE(c, sum[q][k]);
            else
                LANES_STORE(c, sum[q][k], lanes);
        }
}

/* Some groups of channels of n columns from v on. */
FLAT void NAME(bytes_columns)(const struct NAME(strip) *x, int64_t v, int rows, int n, int stride,
                              int64_t first, int64_t end, bool all)
{
    REAL *to = x->to + v * x->right;

    _Pragma("clang loop unroll(disable)") for (int64_t g = first; g < end; g++)
        NAME(bytes_block)(x, g, x->left + v * stride, to, rows, n, stride, all);
}

/* Column by column at the edges of the image, and where channels fill no vector. */
FLAT void NAME(bytes_rows)(const struct NAME(strip) *strip, int rows, int stride)
{
    const struct NAME(strip) x = *strip;
    const int64_t whole = x.channels / LANES, groups = parts(x.channels, LANES);

    for (int64_t v = 0, n; v < x.columns; v += n) {
        const int64_t left = x.left + v * stride;
        const bool two = v + 2 <= x.columns && left >= 0 && left + stride + 3 <= x.w;
        const bool one = left >= 0 && left + 3 <= x.w;

        n = 1 + two;
        if (two)
            NAME(bytes_columns)(&x, v, rows, 2, stride, 0, whole, true);
        for (int64_t i = v; i < v + n && (!two || whole < groups); i++)
            NAME(bytes_columns)(&x, i, rows, 1, stride, one ? whole * two : 0, groups, false);
    }
}

FLAT void NAME(bytes_piece)(const struct NAME(piece) *x, int stride)
{
    const struct depthwise *d = x->d;
    const uint8_t *image = NAME(plane_seen)(x, 0);
    const int64_t end = x->p.y + x->p.height;
    struct NAME(strip) strip = { .zeros = (const uint8_t *)x->ring,
                                 .weight = x->weight,
                                 .start = x->start,
                                 .pixel = d->channels,
                                 .w = d->w,
                                 .left = x->p.x * stride - d->pad[1],
                                 .columns = x->p.width,
                                 .channels = x->p.channels,
                                 .right = d->to[4],
                                 .down = d->to[3],
                                 .offset = _mm512_set1_epi8((char)(d->is_unsigned ? 0 : 128)) };

    for (int64_t y = x->p.y, rows; y < end; y += rows) {
        const int64_t top = y * stride - d->pad[0];

        rows = parts(end - y, parts(end - y, BYTES_ROWS));
        for (int64_t i = 0; i < (rows - 1) * stride + 3; i++)
            strip.row[i] = image && top + i >= 0 && top + i < d->h ?
                               image + (top + i) * d->w * d->channels :
                               NULL;
        strip.to = NAME(output)(x, x->p.channel, 0, y);
        switch (rows) {
        case 1: NAME(bytes_rows)(&strip, 1, stride); break;
        case 2: NAME(bytes_rows)(&strip, 2, stride); break;
        case 3: NAME(bytes_rows)(&strip, 3, stride); break;
        default: NAME(bytes_rows)(&strip, 4, stride); break;
        }
    }
}

static __attribute__((noinline)) void NAME(bytes_1)(const struct NAME(piece) *x)
{
    NAME(bytes_piece)(x, 1);
}

static __attribute__((noinline)) void NAME(bytes_2)(const struct NAME(piece) *x)
{
    NAME(bytes_piece)(x, 2);
}

/* Three bytes of each row, and what undoes the offset of the image's: of filters whose nine bytes
 * are neighbours. */
static void NAME(pack_nine)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;
    const __m512i steps = _mm512_mullo_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32((int)d->filter[0]));
    const int8_t *from = (const int8_t *)d->filters + x->p.channel * d->filter[0];
    const __m512i offset = _mm512_set1_epi8((char)(d->is_unsigned ? 0 : 128));

    for (int64_t g = 0; g < x->p.groups; g++, from += LANES * d->filter[0]) {
        const __mmask16 some =
            (__mmask16)lanes_between(0, least(LANES, x->p.channels - g * LANES));
        __m512i start = _mm512_setzero_si512();

        UNROLL for (int r = 0; r < 3; r++) { /* nothing behind the ninth is read */
            const int8_t *row = from + (r < 2 ? 3 * r : 5);
            __m512i w = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), some, steps, row, 1);

            w = r < 2 ? _mm512_and_si512(w, _mm512_set1_epi32(0xffffff)) : _mm512_srli_epi32(w, 8);
            start = _mm512_dpbusd_epi32(start, offset, w);
            STORE(x->weight + (g * 3 + r) * LANES, (VEC)w);
        }
        STORE(x->start + g * LANES, -(VEC)start);
    }
}

/* `x->ring` has room for zeros. */
static void NAME(run_bytes)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;

    if (d->filter[4] == 1 && d->filter[3] == 3 && d->filter[0] <= 1 << 20)
        NAME(pack_nine)(x);
    else
        NAME(pack_filters)(x, 0, 1);
    memset(x->ring, 0, (size_t)((BLOCK_ACROSS - 1) * x->d->channels + LANES));
    (x->d->stride[1] == 1 ? NAME(bytes_1) : NAME(bytes_2))(x);
}
