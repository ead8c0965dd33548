/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolution, included once for each format: PIXEL names an element of the image, REAL
 * one of packed rows and of the result, VEC a vector register of these.
 *
 * Lanes are neighbouring pixels of a row (NCHW) or neighbouring channels (NHWC).  The rows of the
 * image that a row of the result sees are packed with their padding, so that each tap is a load at
 * an offset of its own, whatever the stride.  An element of a packed row holds GROUP taps: one, or
 * as many bytes as an integer instruction multiplies at once.  Sums of floats are one chain of
 * fused multiply-adds from +0 over the taps, which are the bits of the scheme `native`. */

enum { NAME(lanes) = VECTOR / sizeof(REAL) };
#define LANES NAME(lanes)
typedef REAL NAME(vec) __attribute__((vector_size(VECTOR)));
typedef REAL NAME(unaligned) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
#define VEC NAME(vec)
#define LOAD(p) ((VEC) * (const NAME(unaligned) *)(p))
#define STORE(p, v) (*(NAME(unaligned) *)(p) = (v))

/* One piece of the result, and what is packed for it. */
struct NAME(piece) {
    const struct depthwise *d;
    struct piece p;
    int64_t taps;               /* elements of a packed row that an element of the result needs, */
    const int64_t *at;          /* and where the taps' pixels lie */
    int64_t step;               /* from the pixels of one vector to the next one's */
    int64_t *sum_at, sum_step;  /* the same of packed elements */
    int64_t vectors, last;      /* of a row of the result; lanes of the last (NCHW) */
    REAL *start, *weight, *ring; /* [group and output][lane], [group and output][tap][lane],
                                    [plane][row][...] */
    REAL *out;                  /* rows of the result before they are turned */
    PIXEL *pixels;              /* a row whose taps are not yet together; floats: none */
};

/* ---- packing --------------------------------------------------------------------------------- */

typedef PIXEL NAME(pixels)
    __attribute__((vector_size(LANES * sizeof(PIXEL)), aligned(1), may_alias));

/* Elements from `first` on of a row of w, and zeros for those that it does not have. */
FLAT NAME(pixels) NAME(some_pixels)(const PIXEL *row, int64_t first, int64_t w)
{
    const int64_t from = first < 0 ? least(-first, LANES) : 0;
    const int64_t end = first < w ? least(w - first, LANES) : 0;
    NAME(pixels) some = { 0 };

    if (from == 0 && end == LANES)
        return *(const NAME(pixels) *)(row + first);
#if defined(PICKED_LOAD)
    if (from < end)
        some = (NAME(pixels))PICKED_LOAD(row + first, from, end);
#else
    const word_of_bytes word = some_bytes(row, first, w);

    memcpy(&some, &word, sizeof some);
#endif
    return some;
}

/* A row of one channel: of each remainder of columns modulo the stride, neighbours together. */
static void NAME(pack_pixels)(const struct NAME(piece) *x, const PIXEL *row, PIXEL *to)
{
    const int64_t stride = x->d->stride[1], w = x->d->w, length = x->p.length;

    for (int64_t f = 0; f < x->p.phases; f++, to += length) {
        const int64_t first = x->p.x * stride - x->d->pad[1] + f;

        if (stride == 1)
            for (int64_t i = 0; i < length; i += LANES)
                *(NAME(pixels) *)(to + i) = NAME(some_pixels)(row, first + i, w);
        else if (stride == 2)
            for (int64_t i = 0; i < length; i += LANES)
                *(NAME(pixels) *)(to + i) = EVEN(NAME(some_pixels)(row, first + 2 * i, w),
                                                 NAME(some_pixels)(row, first + 2 * i + LANES, w));
        else
            for (int64_t i = 0; i < length; i++) {
                const int64_t at = first + i * stride;

                to[i] = at >= 0 && at < w ? row[at] : 0;
            }
    }
}

/* So many pixels of `all` channels, of which some that lie side by side are packed. */
FLAT void NAME(pack_beside)(const PIXEL *row, int64_t all, int64_t some, int64_t count,
                            int64_t groups, NAME(pixels) *pixel)
{
    const int64_t whole = some / LANES;

    for (int64_t i = 0; i < count; i++, row += all, pixel += groups) {
        for (int64_t g = 0; g < whole; g++)
            pixel[g] = *(const NAME(pixels) *)(row + g * LANES);
        if (some % LANES) {
            pixel[whole] = (NAME(pixels)){ 0 };
            memcpy(&pixel[whole], row + whole * LANES, (size_t)(some % LANES) * sizeof *row);
        }
    }
}

/* The same of channels `apart` elements from each other. */
static void NAME(pack_apart)(const PIXEL *row, int64_t all, int64_t apart, int64_t some,
                             int64_t count, int64_t groups, NAME(pixels) *pixel)
{
    PIXEL *to = (PIXEL *)pixel;

    for (int64_t i = 0; i < count; i++, row += all, to += groups * LANES) {
        for (int64_t c = 0; c < some; c++)
            to[c] = row[c * apart];
        memset(to + some, 0, (size_t)(groups * LANES - some) * sizeof *to);
    }
}

/* A row of some channels, pixel after pixel. */
static void NAME(pack_channels)(const struct NAME(piece) *x, const PIXEL *row, PIXEL *to)
{
    const int64_t all = x->d->channels * x->d->inputs;
    const int64_t some = x->p.channels, groups = x->p.groups, length = x->p.length;
    const int64_t first = x->p.x * x->d->stride[1] - x->d->pad[1];
    const int64_t from = first < 0 ? least(-first, length) : 0;
    const int64_t right = least(length, x->d->w - first), end = right < from ? from : right;
    const NAME(pixels) zero = { 0 };
    NAME(pixels) *pixel = (NAME(pixels) *)to;

    for (int64_t i = 0; i < from * groups; i++)
        *pixel++ = zero;
    row += (first + from) * all;
    if (x->d->inputs > 1)
        NAME(pack_apart)(row, all, x->d->inputs, some, end - from, groups, pixel);
    else
        NAME(pack_beside)(row, all, some, end - from, groups, pixel);
    pixel += (end - from) * groups;
    for (int64_t i = 0; i < (length - end) * groups; i++)
        *pixel++ = zero;
}

/* LANES rows of so many lanes become columns: each round deals two halves like cards, or, where
 * few instructions cross a register's halves, lanes go within these before the halves do. */
#define TURN(type, v) \
    do { \
        if (sizeof(type) == HALVED) { \
            TURN_HALVES(type, v); \
            break; \
        } \
        UNROLL for (int n = 1; n < LANES; n *= 2) { \
            type dealt[LANES]; \
\
            UNROLL for (int i = 0; i < LANES / 2; i++) { \
                dealt[2 * i] = ZIP(v[i], v[i + LANES / 2], 0); \
                dealt[2 * i + 1] = ZIP(v[i], v[i + LANES / 2], LANES / 2); \
            } \
            UNROLL for (int i = 0; i < LANES; i++) \
                v[i] = dealt[i]; \
        } \
    } while (0)

/* Elements from `first` on of rows of w, `plane` elements apart, of which there are so many. */
FLAT void NAME(some_rows)(const PIXEL *row, int64_t plane, int64_t first, int64_t w, int64_t rows,
                          NAME(pixels) v[LANES])
{
#if defined(PICKED_LOAD)
    const int64_t from = first < 0 ? least(-first, LANES) : 0;
    const int64_t end = first < w ? least(w - first, LANES) : 0;

    rows = from < end ? rows : 0;
    UNROLL for (int l = 0; l < LANES; l++)
        v[l] = l < rows ? (NAME(pixels))PICKED_LOAD(row + l * plane + first, from, end) :
                          (NAME(pixels)){ 0 };
#else
    UNROLL for (int l = 0; l < LANES; l++)
        v[l] = l < rows ? NAME(some_pixels)(row + l * plane, first, w) : (NAME(pixels)){ 0 };
#endif
}

/* The same of NCHW: a row of some channels, `plane` elements apart. */
static void NAME(pack_turned)(const struct NAME(piece) *x, const PIXEL *row, PIXEL *to)
{
    const int64_t first = x->p.x * x->d->stride[1] - x->d->pad[1];
    const int64_t plane = x->d->inputs * x->d->depth * x->d->h * x->d->w;

    for (int64_t i = 0; i < x->p.length; i += LANES) {
        const int64_t count = least(LANES, x->p.length - i), at = first + i;
        NAME(pixels) v[LANES];

        if (at >= 0 && at + LANES <= x->d->w && x->p.channels == LANES)
            UNROLL for (int l = 0; l < LANES; l++)
                v[l] = *(const NAME(pixels) *)(row + l * plane + at);
        else
            NAME(some_rows)(row, plane, at, x->d->w, x->p.channels, v);
        TURN(NAME(pixels), v);
        if (count == LANES)
            UNROLL for (int l = 0; l < LANES; l++)
                *(NAME(pixels) *)(to + (i + l) * LANES) = v[l];
        else
            UNROLL for (int l = 0; l < LANES; l++)
                if (l < count)
                    *(NAME(pixels) *)(to + (i + l) * LANES) = v[l];
    }
}

#if GROUP > 1
typedef uint32_t NAME(words) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* Taps side by side in one element.  Signed bytes are offset by 128: the instruction wants
 * unsigned ones. */
static void NAME(join)(const struct NAME(piece) *x, REAL *to)
{
    const NAME(pixels) offset = (NAME(pixels)){ 0 } + (PIXEL)(x->d->is_unsigned ? 0 : 128);

    for (int64_t t = 0; t < x->taps; t++)
        for (int64_t v = 0; v < x->vectors; v++)
            for (int64_t i = 0; i < x->p.groups; i++, to += LANES) {
                const PIXEL *from = x->pixels + v * x->step + i * LANES;
                NAME(words) all = { 0 };

                UNROLL for (int g = 0; g < GROUP; g++)
                    all |= __builtin_convertvector(
                               *(const NAME(pixels) *)(from + x->at[t * GROUP + g]) ^ offset,
                               NAME(words))
                           << (32 / GROUP * g);
                *(NAME(words) *)to = all;
            }
}
#endif

/* Row y of one of the planes that a window sees.  It may be padding. */
static void NAME(pack_row)(const struct NAME(piece) *x, int64_t plane, int64_t y, REAL *to)
{
    const struct depthwise *d = x->d;
    const int64_t input = plane / d->t, t = plane % d->t;
    const int64_t z = x->p.z * d->stride[2] - d->pad[2] +
                      (d->backward ? d->t - 1 - t : t) * d->dilate[2];
    const bool inside = y >= 0 && y < d->h && z >= 0 && z < d->depth;
    const int64_t channel = x->p.channel * d->inputs + input;
    const PIXEL *row = (const PIXEL *)d->image +
                       (inside ? row_of(d, x->p.image, channel, z, y) : 0);
    PIXEL *pixels = GROUP > 1 ? x->pixels : (PIXEL *)to;

    if (!inside)
        memset(pixels, 0, (size_t)(x->p.by_channel ? x->p.length * x->p.groups * LANES :
                                                     x->p.phases * x->p.length) *
                              sizeof *pixels);
    else if (d->nhwc)
        NAME(pack_channels)(x, row, pixels);
    else
        (x->p.turned ? NAME(pack_turned) : NAME(pack_pixels))(x, row, pixels);
#if GROUP > 1
    NAME(join)(x, to);
#endif
}

/* ---- filters --------------------------------------------------------------------------------- */

#if GROUP > 1
/* As many taps of a row as an element holds; the start undoes the offset of the image's bytes. */
static REAL *NAME(pack_taps)(const struct NAME(piece) *x, const int8_t *filter, REAL *to,
                             REAL *start)
{
    const struct depthwise *d = x->d;

    for (int64_t t = 0; t < x->taps; t++, to += LANES) {
        uint32_t all = 0;

        for (int64_t g = 0, s = t * GROUP; g < GROUP && s < d->s; g++, s++) {
            const int tap = filter[s * d->filter[4]];

            all |= ((uint32_t)tap & (GROUP == 4 ? 0xffu : 0xffffu)) << (32 / GROUP * g);
            *start -= d->is_unsigned ? 0 : 128 * tap;
        }
        *to = (REAL)all;
    }
    return to;
}
#else
static REAL *NAME(pack_taps)(const struct NAME(piece) *x, const REAL *filter, REAL *to, REAL *start)
{
    (void)start;
    for (int64_t s = 0; s < x->d->s; s++, to += LANES)
        *to = filter[s * x->d->filter[4]];
    return to;
}
#endif

/* The rows of all planes. */
static void NAME(pack_filter)(const struct NAME(piece) *x, const FILTER *filter, REAL *to,
                              REAL *start)
{
    const struct depthwise *d = x->d;

    for (int64_t plane = 0; plane < x->p.planes; plane++)
        for (int64_t r = 0; r < d->r; r++)
            to = NAME(pack_taps)(x,
                                 filter + plane / d->t * d->filter[1] +
                                     plane % d->t * d->filter[2] + r * d->filter[3],
                                 to, start);
}

#if GROUP == 1
/* Of channels [first, lanes), `apart` elements from each other: `all` that lie one after the
 * other. */
FLAT void NAME(turn_filters)(const REAL *from, int64_t apart, int64_t first, int64_t lanes,
                             int64_t all, REAL *to)
{
    for (int64_t e = 0; e < all; e += LANES) {
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++)
            v[l] = (VEC)PICKED_LOAD(from + (l < first ? first : l) * apart + e, 0,
                                    l >= first && l < lanes ? least(all - e, LANES) : 0);
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            if (e + l < all)
                STORE(to + (e + l) * LANES, v[l]);
    }
}

/* Whether an output's filters are one after the other. */
static bool NAME(follow)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;

    return d->filter[4] == 1 && d->filter[3] == d->s &&
           (x->p.planes == 1 ||
            (d->filter[2] == d->r * d->s && d->filter[1] == d->t * d->filter[2]));
}
#endif

/* Of outputs j up to j + outputs of each channel. */
static void NAME(pack_filters)(const struct NAME(piece) *x, int64_t j, int64_t outputs)
{
    const struct depthwise *d = x->d;
    const int64_t all = x->p.planes * d->r * x->taps, size = d->filter[0];
    REAL *to = x->weight, *start = x->start;

    for (int64_t i = 0; i < x->p.groups * outputs; i++, start += LANES) {
        const int64_t done = i / outputs * LANES - x->p.shift, channel = x->p.channel + done;
        const int64_t lanes = x->p.by_channel ? least(LANES, x->p.channels - done) : 1;
        const int64_t first = done < 0 ? -done : 0;
        const FILTER *from =
            (const FILTER *)d->filters + (channel * d->multiplier + j + i % outputs) * size;

        STORE(start, (VEC){ 0 });
#if GROUP == 1
        if (x->p.by_channel && NAME(follow)(x)) {
            NAME(turn_filters)(from, d->multiplier * size, first, lanes, all, to);
            to += all * LANES;
            continue;
        }
#endif
        for (int64_t l = first; l < lanes; l++)
            NAME(pack_filter)(x, from + l * d->multiplier * size, to + l, start + l);
        if (!x->p.by_channel) /* the same for all lanes */
            STORE(start, (VEC){ 0 } + *start);
        for (int64_t e = 0; e < all; e++, to += LANES)
            if (!x->p.by_channel)
                STORE(to, (VEC){ 0 } + *to);
            else
                for (int64_t l = lanes; l < LANES; l++)
                    to[l] = 0;
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Where a row of the result goes. */
struct NAME(result) {
    REAL *at;
    int64_t row, step, lane; /* from one row, vector and lane to the next */
    int64_t lanes, last; /* of a vector, and of the last */
    bool add; /* to what is there */
};

/* Lanes `step` elements apart. */
FLAT void NAME(spread)(REAL *to, int64_t step, VEC v, int64_t lanes)
{
    REAL each[LANES];

    if (step == 2) { /* of a gradient under a stride of 2 */
        EVEN_STORE(to, ZIP(v, v, 0), least(lanes, LANES / 2));
        if (lanes > LANES / 2)
            EVEN_STORE(to + LANES, ZIP(v, v, LANES / 2), lanes - LANES / 2);
        return;
    }
    STORE(each, v);
    for (int64_t l = 0; l < lanes; l++)
        to[l * step] = each[l];
}

FLAT void NAME(store)(const struct NAME(result) *to, REAL *c, VEC sum, int64_t lanes)
{
    REAL each[LANES];

    if (to->lane == 1 && lanes == LANES) {
        STORE(c, to->add ? sum + LOAD(c) : sum);
    } else if (to->lane == 1 && !to->add) {
        MASKED_STORE(c, sum, lanes);
    } else if (!to->add) {
        NAME(spread)(c, to->lane, sum, lanes);
    } else {
        STORE(each, sum);
        for (int64_t l = 0; l < lanes; l++, c += to->lane)
            *c = each[l] + *c;
    }
}

/* Vectors [v, v + n) of a row; whole: of all their lanes, beside each other, nothing added. */
FLAT void NAME(store_row)(const struct NAME(piece) *x, const struct NAME(result) *to, REAL *c,
                          const VEC *sum, int64_t v, int n, bool whole)
{
    UNROLL for (int i = 0; i < n; i++, c += to->step)
        if (whole)
            STORE(c, sum[i]);
        else
            NAME(store)(to, c, sum[i], v + i == x->vectors - 1 ? to->last : to->lanes);
}

/* A group's filters follow those of the group before it. */
struct NAME(filters) {
    const REAL *weight, *start;
    int64_t groups, weights, starts; /* the last two: elements from one group to the next */
};

FLAT void NAME(tile)(const struct NAME(piece) *x, const REAL *const *row,
                     const struct NAME(filters) *f, int64_t g, int64_t v, int n, int64_t rows,
                     int64_t taps, bool whole, const struct NAME(result) *to)
{
    const REAL *weight = f->weight + g * f->weights;
    const int64_t step = x->sum_step, first = v * step + g * LANES;
    const VEC start = LOAD(f->start + g * f->starts);
    VEC sum[TILE];

    UNROLL for (int i = 0; i < n; i++)
        sum[i] = start;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < taps; t++, weight += LANES) {
            const REAL *in = row[r] + x->sum_at[t] + first;
            const VEC w = LOAD(weight);

            UNROLL for (int i = 0; i < n; i++)
                sum[i] = MULTIPLY_ADD(LOAD(in + i * step), w, sum[i]);
        }
    NAME(store_row)(x, to, to->at + v * to->step + g * LANES, sum, v, n, whole);
}

FLAT void NAME(sum_row)(const struct NAME(piece) *x, const REAL *const *row,
                        const struct NAME(filters) *f, int64_t v, int64_t vectors, int64_t rows,
                        int64_t taps, bool whole, const struct NAME(result) *to)
{
    for (int64_t tiles = (vectors + TILE - 1) / TILE; tiles > 0; tiles--) {
        const int64_t n = (vectors + tiles - 1) / tiles;

        for (int64_t g = 0; g < f->groups; g++) {
#define CASE(n) \
    case n: NAME(tile)(x, row, f, g, v, n, rows, taps, whole, to); break;
            switch (n) {
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
            }
#undef CASE
        }
        v += n;
        vectors -= n;
    }
}

enum { NAME(taps) = (3 + GROUP - 1) / GROUP };

/* The common window in one plane, whose rows and taps several rows of the result share. */
FLAT void NAME(add_plane)(const struct NAME(piece) *x, const REAL *const *row, const REAL *weight,
                          int64_t first, int rows, int n, VEC sum[ROWS][2])
{
    const int64_t step = x->sum_step;
    VEC w[3][NAME(taps)];

    UNROLL for (int r = 0; r < 3; r++)
        UNROLL for (int t = 0; t < NAME(taps); t++)
            w[r][t] = LOAD(weight + (r * NAME(taps) + t) * LANES);
    UNROLL for (int r = 0; r < rows + 2; r++) {
        UNROLL for (int t = 0; t < NAME(taps); t++)
            UNROLL for (int i = 0; i < n; i++) {
                const VEC e = LOAD(row[r] + x->sum_at[t] + first + i * step);

                UNROLL for (int q = 0; q < rows; q++)
                    if (r - q >= 0 && r - q < 3)
                        sum[q][i] = MULTIPLY_ADD(e, w[r - q][t], sum[q][i]);
            }
        UNROLL for (int q = 0; q < rows; q++) /* row by row: else all loads are kept, and spilled */
            UNROLL for (int i = 0; i < n; i++)
                __asm__("" : REGISTER(sum[q][i]));
    }
}

/* `row` has rows + 2 of each plane. */
FLAT void NAME(block)(const struct NAME(piece) *x, const REAL *const *row,
                      const struct NAME(filters) *f, int64_t planes, int64_t g, int64_t v, int rows,
                      int n, bool whole, const struct NAME(result) *to)
{
    const REAL *weight = f->weight + g * f->weights;
    const int64_t first = v * x->sum_step + g * LANES;
    VEC sum[ROWS][2];

    UNROLL for (int q = 0; q < rows; q++)
        UNROLL for (int i = 0; i < n; i++)
            sum[q][i] = LOAD(f->start + g * f->starts);
    for (int64_t p = 0; p < planes; p++)
        NAME(add_plane)
        (x, row + p * (rows + 2), weight + p * 3 * NAME(taps) * LANES, first, rows, n, sum);
    UNROLL for (int q = 0; q < rows; q++)
        NAME(store_row)
        (x, to, to->at + q * to->row + v * to->step + g * LANES, sum[q], v, n, whole);
}

/* TILE vectors of all groups, then the next ones: what they load and store lies together. */
FLAT void NAME(blocks)(const struct NAME(piece) *x, const REAL *const *row,
                       const struct NAME(filters) *f, int64_t planes, int rows,
                       const struct NAME(result) *to)
{
    const int64_t whole = x->vectors - (to->last < LANES);

    for (int64_t first = 0; first < x->vectors; first += TILE)
        for (int64_t g = 0; g < f->groups; g++) {
            const int64_t end = least(first + TILE, whole);
            int64_t v = first;

            for (; v + 2 <= end; v += 2)
                NAME(block)(x, row, f, planes, g, v, rows, 2, true, to);
            if (v < end)
                NAME(block)(x, row, f, planes, g, v++, rows, 1, true, to);
            if (v < first + TILE && v < x->vectors)
                NAME(block)(x, row, f, planes, g, v, rows, 1, false, to);
        }
}

static void NAME(sum_rows)(const struct NAME(piece) *x, const REAL *const *row,
                           const struct NAME(filters) *f, int64_t rows,
                           const struct NAME(result) *to)
{
    switch (rows) {
    case 1: NAME(blocks)(x, row, f, 1, 1, to); break;
    case 2: NAME(blocks)(x, row, f, 1, 2, to); break;
    case 3: NAME(blocks)(x, row, f, 1, 3, to); break;
    default: NAME(blocks)(x, row, f, 1, ROWS, to); break;
    }
}

/* The common window in one plane, with constant loops. */
static void NAME(sum_3)(const struct NAME(piece) *x, const REAL *const *row,
                        const struct NAME(filters) *f, const struct NAME(result) *to)
{
    const int64_t whole = x->vectors - (to->last < LANES);

    NAME(sum_row)(x, row, f, 0, whole, 3, NAME(taps), true, to);
    if (whole < x->vectors)
        for (int64_t g = 0; g < f->groups; g++)
            NAME(tile)(x, row, f, g, whole, 1, 3, NAME(taps), false, to);
}

static void NAME(sum_any)(const struct NAME(piece) *x, const REAL *const *row,
                          const struct NAME(filters) *f, const struct NAME(result) *to)
{
    NAME(sum_row)(x, row, f, 0, x->vectors, x->p.planes * x->d->r, x->taps, false, to);
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* Where output j of channel c lies in row y. */
static REAL *NAME(output)(const struct NAME(piece) *x, int64_t c, int64_t j, int64_t y)
{
    const struct depthwise *d = x->d;

    return (REAL *)d->result + x->p.image * d->to[0] + (c * d->multiplier + j) * d->to[1] +
           x->p.z * d->to[2] + y * d->to[3] + x->p.x * d->to[4];
}

/* Of output j of the channels of a group and of those behind it, which have so many lanes. */
static struct NAME(result) NAME(result_at)(const struct NAME(piece) *x, int64_t group, int64_t j,
                                           int64_t y, int64_t lanes)
{
    const struct depthwise *d = x->d;

    if (x->p.turned)
        return (struct NAME(result)){ .at = x->out,
                                      .row = x->p.width * LANES,
                                      .step = LANES,
                                      .lane = 1,
                                      .lanes = LANES,
                                      .last = LANES };
    return (struct NAME(result)){
        .at = NAME(output)(x, x->p.channel + group * LANES, j, y),
        .row = d->to[3],
        .step = d->nhwc ? d->to[4] : LANES * d->to[4],
        .lane = d->nhwc ? d->multiplier : d->to[4],
        .lanes = d->nhwc ? lanes : LANES,
        .last = d->nhwc ? lanes : x->last,
        .add = d->add,
    };
}

/* Some rows of output j of each channel, where lanes were channels. */
static void NAME(turn_out)(const struct NAME(piece) *x, int64_t j, int64_t y, int64_t rows)
{
    const int64_t plane = x->d->multiplier * x->d->to[1], step = x->d->to[4];
    const REAL *from = x->out;

    for (int64_t q = 0; q < rows; q++)
        for (int64_t i = 0; i < x->p.width; i += LANES) {
            const int64_t count = least(LANES, x->p.width - i);
            REAL *to = NAME(output)(x, x->p.channel, j, y + q) + i * step;
            VEC v[LANES];

            if (step == 1 && count == LANES && x->p.channels == LANES) {
                UNROLL for (int l = 0; l < LANES; l++)
                    v[l] = LOAD(from + l * LANES);
                TURN(VEC, v);
                UNROLL for (int l = 0; l < LANES; l++, to += plane)
                    STORE(to, v[l]);
            } else {
                UNROLL for (int l = 0; l < LANES; l++)
                    v[l] = l < count ? LOAD(from + l * LANES) : (VEC){ 0 };
                TURN(VEC, v);
                UNROLL for (int l = 0; l < LANES; l++, to += plane)
                    if (l < x->p.channels && step == 1)
                        MASKED_STORE(to, v[l], count);
                    else if (l < x->p.channels)
                        NAME(spread)(to, step, v[l], count);
            }
            from += count * LANES;
        }
}

/* One group, where not all is common. */
static void NAME(run_group)(const struct NAME(piece) *x, const REAL *const *row,
                            const struct NAME(filters) *f, int64_t group, int64_t j, int64_t y,
                            int64_t rows)
{
    const int64_t some = x->p.channels - group * LANES, lanes = least(LANES, some), r = x->d->r;
    const int64_t seen = r + rows - 1;
    const struct NAME(filters) own = { .weight = f->weight + group * f->weights,
                                       .start = f->start + group * f->starts,
                                       .groups = 1 };
    struct NAME(result) to = NAME(result_at)(x, group, j, y, lanes);
    const REAL *at[LIMBER_SMALL_K];

    for (int64_t q = 0; q < rows; q++, to.at += to.row) {
        for (int64_t i = 0; i < x->p.planes * r; i++)
            at[i] = row[i / r * seen + (x->d->backward ? rows - 1 - q : q) + i % r] + group * LANES;
        NAME(sum_any)(x, at, &own, &to);
    }
}

/* Some rows of the result, whose window begins in this slot of the ring.  deep: it has several
 * planes. */
FLAT void NAME(run_rows)(const struct NAME(piece) *x, bool deep, int64_t j, int64_t outputs,
                         int64_t y, int64_t rows, int64_t slot)
{
    const struct depthwise *d = x->d;
    const int64_t planes = deep ? x->p.planes : 1;
    const int64_t all = planes * d->r * x->taps * LANES, seen = rows - 1 + d->r;
    const int64_t whole = d->nhwc ? x->p.channels / LANES : 1; /* groups */
    const bool plain = d->r == 3 && d->s == 3 && !d->add &&
                       (d->nhwc ? d->multiplier == 1 : d->to[4] == 1 || x->p.turned);
    const REAL *row[LIMBER_SMALL_K * ROWS]; /* as taps follow each other */

    for (int64_t r = 0; r < seen; r++, slot += d->dilate[0]) {
        slot -= slot < x->p.slots ? 0 : x->p.slots;
        for (int64_t plane = 0; plane < planes; plane++)
            row[plane * seen + (d->backward ? seen - 1 - r : r)] =
                x->ring + (plane * x->p.slots + slot) * x->p.row;
    }
    for (int64_t o = 0; o < outputs; o++) {
        struct NAME(filters) f = { .weight = x->weight + o * all,
                                   .start = x->start + o * LANES,
                                   .groups = whole,
                                   .weights = outputs * all,
                                   .starts = outputs * LANES };
        struct NAME(result) to = NAME(result_at)(x, 0, j + o, y, LANES);
        int64_t done = 0;

        if (d->backward) { /* the rows of the result, too */
            to.at += (rows - 1) * to.row;
            to.row = -to.row;
        }
        if (plain && deep && rows == ROWS)
            NAME(blocks)(x, row, &f, planes, ROWS, &to), done = whole;
        else if (plain && !deep && x->p.together > 1)
            NAME(sum_rows)(x, row, &f, rows, &to), done = whole;
        else if (plain && !deep)
            NAME(sum_3)(x, row, &f, &to), done = whole;
        for (f.groups = 1; done < x->p.groups; done++)
            NAME(run_group)(x, row, &f, done, j + o, y, rows);
        if (x->p.turned)
            NAME(turn_out)(x, j + o, y, rows);
    }
}

/* Two functions: what few planes need stays in registers. */
static __attribute__((noinline)) void NAME(run_flat)(const struct NAME(piece) *x, int64_t j,
                                                     int64_t outputs, int64_t y, int64_t rows,
                                                     int64_t slot)
{
    NAME(run_rows)(x, false, j, outputs, y, rows, slot);
}

static __attribute__((noinline)) void NAME(run_deep)(const struct NAME(piece) *x, int64_t j,
                                                     int64_t outputs, int64_t y, int64_t rows,
                                                     int64_t slot)
{
    NAME(run_rows)(x, true, j, outputs, y, rows, slot);
}

static void NAME(run_all)(const struct NAME(piece) *x, int64_t j, int64_t outputs)
{
    const struct depthwise *d = x->d;
    const int64_t seen = (d->r - 1) * d->dilate[0], end = x->p.y + x->p.height;
    int64_t next = x->p.y * d->stride[0]; /* rows of the padded image before it are packed, */
    int64_t into = 0, first = 0; /* it goes here, and the window's first row lies there */

    for (int64_t y = x->p.y, rows; y < end; y += rows) {
        rows = least(x->p.together, end - y);
        if (next < y * d->stride[0])
            next = y * d->stride[0], into = first;
        for (; next <= (y + rows - 1) * d->stride[0] + seen; next++) {
            for (int64_t plane = 0; plane < x->p.planes; plane++)
                NAME(pack_row)(x, plane, next - d->pad[0],
                               x->ring + (plane * x->p.slots + into) * x->p.row);
            into = into + 1 < x->p.slots ? into + 1 : 0;
        }
        (x->p.planes > 1 ? NAME(run_deep) : NAME(run_flat))(x, j, outputs, y, rows, first);
        first += rows * d->stride[0];
        first = first < x->p.slots ? first : first % x->p.slots;
    }
}

#if GROUP == 1 || defined(SEES_BYTES)
#include "backends/llvm/kernel/depthwise_direct.h"
#endif
#if GROUP == 1
#include "backends/llvm/kernel/depthwise_sums.h"

#include "backends/llvm/kernel/depthwise_channels.h"
#elif GROUP == 4
#include "backends/llvm/kernel/depthwise_bytes.h"
#endif
#if defined(PICK_ONE)
#include "backends/llvm/kernel/depthwise_twins.h"

#include "backends/llvm/kernel/depthwise_whole.h"
#endif

static void NAME(run)(const struct depthwise *d, const struct depthwise_plan *plan, int64_t task,
                      void *room)
{
    int64_t at[LIMBER_SMALL_K + GROUP], sum_at[LIMBER_SMALL_K];
    struct NAME(piece) x = {
        .d = d, .p = find_piece(d, plan, LANES, GROUP, task), .at = at, .sum_at = sum_at
    };
    const int64_t pixel = x.p.groups * LANES;

    x.vectors = x.p.by_channel ? x.p.width : (x.p.width + LANES - 1) / LANES;
    x.last = x.p.width - (x.vectors - 1) * LANES;
    x.taps = (d->s + GROUP - 1) / GROUP;
    for (int64_t s = 0; s < d->s + GROUP - 1; s++) {
        const int64_t tap = s < d->s ? s : d->s - 1;
        const int64_t column = (d->backward ? d->s - 1 - tap : tap) * d->dilate[1];

        at[s] = x.p.by_channel ? column * pixel :
                                 column % d->stride[1] * x.p.length + column / d->stride[1];
    }
    x.step = x.p.by_channel ? d->stride[1] * pixel : LANES;
    x.sum_step = GROUP > 1 ? pixel : x.step;
    for (int64_t t = 0; t < x.taps; t++)
        x.sum_at[t] = GROUP > 1 ? t * x.vectors * pixel : at[t];
    x.start = room;
    x.weight = x.start + x.p.groups * plan->outputs * LANES;
    x.ring = x.weight + x.p.groups * plan->outputs * x.p.planes * d->r * x.taps * LANES;
    x.out = x.ring + x.p.planes * x.p.slots * x.p.row;
    x.pixels = (PIXEL *)(x.out + (x.p.turned ? x.p.together * x.p.width * LANES : 0));
#if defined(PICK_ONE)
    if (is_whole(d)) {
        NAME(run_whole)(&x);
        return;
    }
    if (x.p.twins) {
        NAME(run_twins)(&x);
        return;
    }
#endif
#if GROUP == 1
    if (x.p.direct && (d->nhwc || x.p.narrow)) {
        (d->nhwc ? NAME(run_channels) : NAME(run_narrow))(&x);
        return;
    }
#endif
#if GROUP == 4
    if (x.p.direct && d->nhwc) {
        NAME(run_bytes)(&x);
        return;
    }
#endif
#if GROUP == 1 || defined(SEES_BYTES)
    if (x.p.direct) {
        NAME(run_direct)(&x);
        return;
    }
#endif
    for (int64_t c = 0; c < (x.p.by_channel ? 1 : x.p.channels); c++, x.p.channel++)
        for (int64_t j = 0; j < d->multiplier; j += plan->outputs) {
            const int64_t outputs = least(d->multiplier - j, plan->outputs);

            NAME(pack_filters)(&x, j, outputs);
            NAME(run_all)(&x, j, outputs);
        }
}

#if GROUP == 1
#include "backends/llvm/kernel/depthwise_gradient.h"
#endif

#undef NAME
#undef REAL
#undef PIXEL
#undef FILTER
#undef GROUP
#undef EVEN
#undef ODD
#undef NEXT
#undef NEXT_BUT_ONE
#undef LOOK_BEYOND
#undef DIRECT_WINDOWS
#undef SAME
#undef ZIP
#undef TURN
#undef TURN_HALVES
#undef PICKED_LOAD
#undef PICK_ONE
#undef PICK_TWO
#undef REAL_LANE
#undef SIGNS
#undef MULTIPLY_ADD
#undef MASKED_STORE
#undef LANES_LOAD
#undef LANES_STORE
#undef EVEN_STORE
#undef LANES
#undef VEC
#undef LOAD
#undef STORE
