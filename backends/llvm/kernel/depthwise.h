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
    const int64_t *at;          /* and where they lie */
    int64_t step;               /* from one vector's elements to the next one's */
    int64_t vectors, last;      /* of a row of the result; lanes of the last, or of all (NHWC) */
    int64_t length;             /* of a packed row */
    REAL *weight, *start, *ring; /* [output of a channel][tap][lane], [output][lane], [row][...] */
    PIXEL *pixels;              /* a row whose taps are not yet together; floats: none */
};

/* ---- packing --------------------------------------------------------------------------------- */

typedef PIXEL NAME(pixels) __attribute__((vector_size(LANES * sizeof(PIXEL)), aligned(1)));

#if GROUP > 1
/* Signed bytes are offset: the instruction wants unsigned ones. */
#define PADDING (PIXEL)(d->is_unsigned ? 0 : 128)
#else
#define PADDING (PIXEL)0
#endif

/* Pixels first, first + step ... of a row of w; those outside are padding. */
FLAT void NAME(pick)(PIXEL *to, const PIXEL *row, int64_t first, int64_t step, int64_t count,
                     int64_t w, PIXEL padding)
{
    int64_t i = 0, end = first < w ? (w - 1 - first) / step + 1 : 0;

    end = end < count ? end : count;
    for (; i < count && first + i * step < 0; i++)
        to[i] = padding;
    VECTORISE for (int64_t j = i; j < end; j++)
        to[j] = row[first + j * step] OFFSET(padding);
    for (i = end > i ? end : i; i < count; i++)
        to[i] = padding;
}

/* A row of one channel: of each remainder of columns modulo the stride, neighbours together. */
static void NAME(pack_pixels)(const struct NAME(piece) *x, const PIXEL *row, PIXEL *to)
{
    const struct depthwise *d = x->d;
    const int64_t stride = d->stride[1], first = x->p.x * stride - d->pad[1];
    const int64_t length = x->p.length;

    for (int64_t f = 0; f < x->p.phases; f++, to += length) {
        if (stride == 1)
            NAME(pick)(to, row, first + f, 1, length, d->w, PADDING);
        else if (stride == 2)
            NAME(pick)(to, row, first + f, 2, length, d->w, PADDING);
        else
            NAME(pick)(to, row, first + f, stride, length, d->w, PADDING);
    }
}

/* A row of some channels, pixel after pixel. */
static void NAME(pack_channels)(const struct NAME(piece) *x, const PIXEL *row, PIXEL *to)
{
    const struct depthwise *d = x->d;
    const PIXEL padding = PADDING;
    const int64_t first = x->p.x * d->stride[1] - d->pad[1];

    for (int64_t i = 0; i < x->p.length; i++, to += LANES) {
        const PIXEL *from = row + (first + i) * d->channels;
        const bool inside = first + i >= 0 && first + i < d->w;

        if (inside && x->p.lanes == LANES)
            *(NAME(pixels) *)to = *(const NAME(pixels) *)from OFFSET(padding);
        else
            for (int64_t l = 0; l < LANES; l++)
                to[l] = inside && l < x->p.lanes ? from[l] OFFSET(padding) : padding;
    }
}

#if GROUP > 1
typedef uint32_t NAME(words) __attribute__((vector_size(LANES * 4), aligned(4)));

/* Taps side by side in one element. */
static void NAME(join)(const struct NAME(piece) *x, REAL *to)
{
    for (int64_t t = 0; t < x->taps; t++)
        for (int64_t v = 0; v < x->vectors; v++, to += LANES) {
            const int64_t *at = x->at + t * GROUP;
            NAME(words) all = { 0 };

            UNROLL for (int g = 0; g < GROUP; g++)
                all |= __builtin_convertvector(
                           *(const NAME(pixels) *)(x->pixels + at[g] + v * x->step),
                           NAME(words))
                       << (32 / GROUP * g);
            *(NAME(words) *)to = all;
        }
}
#endif

/* Row y of the image, which may be padding. */
static void NAME(pack_row)(const struct NAME(piece) *x, int64_t y, REAL *to)
{
    const struct depthwise *d = x->d;
    const PIXEL *image = (const PIXEL *)d->image;
#if GROUP > 1
    PIXEL *pixels = x->pixels;
#else
    PIXEL *pixels = to;
#endif

    if (y < 0 || y >= d->h)
        for (int64_t i = 0; i < x->length; i++)
            pixels[i] = PADDING;
    else if (d->nhwc)
        NAME(pack_channels)
        (x, image + (x->p.image * d->h + y) * d->w * d->channels + x->p.channel, pixels);
    else
        NAME(pack_pixels)
        (x, image + ((x->p.image * d->channels + x->p.channel) * d->h + y) * d->w, pixels);
#if GROUP > 1
    NAME(join)(x, to);
#endif
}

/* ---- filters --------------------------------------------------------------------------------- */

/* What element e of a filter gives: as many taps of a row as an element holds. */
static REAL NAME(weight_of)(const struct depthwise *d, int64_t output, int64_t e, int64_t taps,
                            REAL *start)
{
#if GROUP > 1
    const int8_t *row = (const int8_t *)d->filters + (output * d->r + e / taps) * d->s;
    uint32_t all = 0;

    for (int64_t g = 0, s = e % taps * GROUP; g < GROUP && s < d->s; g++, s++) {
        all |= ((uint32_t)row[s] & (uint32_t)(GROUP == 4 ? 0xff : 0xffff)) << (32 / GROUP * g);
        *start -= d->is_unsigned ? 0 : 128 * row[s];
    }
    return (REAL)all;
#else
    (void)taps, (void)start;
    return ((const REAL *)d->filters)[output * d->r * d->s + e];
#endif
}

/* Of outputs j up to j + outputs of each channel. */
static void NAME(pack_filters)(const struct NAME(piece) *x, int64_t j, int64_t outputs)
{
    const struct depthwise *d = x->d;
    const int64_t all = d->r * x->taps;
    REAL *to = x->weight;

    for (int64_t o = 0; o < outputs; o++) {
        REAL *start = x->start + o * LANES;

        for (int64_t l = 0; l < LANES; l++)
            start[l] = 0;
        for (int64_t e = 0; e < all; e++, to += LANES)
            for (int64_t l = 0; l < LANES; l++) {
                const int64_t channel = x->p.channel + (d->nhwc ? l : 0);

                if (!d->nhwc && l > 0) {
                    to[l] = to[0];
                    start[l] = start[0];
                } else if (l < x->p.lanes || !d->nhwc) {
                    to[l] = NAME(weight_of)(d, channel * d->multiplier + j + o, e, x->taps,
                                            &start[l]);
                } else {
                    to[l] = 0;
                }
            }
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Where a vector of the result goes. */
struct NAME(result) {
    REAL *at;
    int64_t step, lane; /* from one vector to the next, from one lane to the next */
    int64_t last; /* lanes of the last vector, */
    bool all; /* or of all */
    bool add; /* the result is added */
};

FLAT void NAME(store)(const struct NAME(result) *to, REAL *c, VEC sum, int64_t lanes)
{
    REAL each[LANES];

    if (to->lane == 1 && lanes == LANES) {
        STORE(c, to->add ? sum + LOAD(c) : sum);
    } else if (to->lane == 1 && !to->add) {
        MASKED_STORE(c, sum, lanes);
    } else {
        STORE(each, sum);
        for (int64_t l = 0; l < lanes; l++, c += to->lane)
            *c = to->add ? each[l] + *c : each[l];
    }
}

FLAT void NAME(tile)(const struct NAME(piece) *x, const REAL *const *row, const REAL *weight,
                     VEC start, int64_t v, int n, int64_t rows, int64_t taps,
                     const struct NAME(result) *to)
{
    const int64_t step = GROUP > 1 ? LANES : x->step;
    VEC sum[TILE];

    UNROLL for (int i = 0; i < n; i++)
        sum[i] = start;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < taps; t++, weight += LANES) {
            const REAL *in = row[r] + (GROUP > 1 ? t * x->vectors * LANES : x->at[t]) + v * step;
            const VEC w = LOAD(weight);

            UNROLL for (int i = 0; i < n; i++)
                sum[i] = MULTIPLY_ADD(LOAD(in + i * step), w, sum[i]);
        }
    UNROLL for (int i = 0; i < n; i++) {
        bool whole = !to->all && v + i < x->vectors - 1;

        NAME(store)(to, to->at + (v + i) * to->step, sum[i], whole ? LANES : to->last);
    }
}

FLAT void NAME(sum_row)(const struct NAME(piece) *x, const REAL *const *row, const REAL *weight,
                        VEC start, int64_t rows, int64_t taps, const struct NAME(result) *to)
{
    int64_t v = 0;

    for (; v + TILE <= x->vectors; v += TILE)
        NAME(tile)(x, row, weight, start, v, TILE, rows, taps, to);
    for (; v + 2 <= x->vectors; v += 2)
        NAME(tile)(x, row, weight, start, v, 2, rows, taps, to);
    if (v < x->vectors)
        NAME(tile)(x, row, weight, start, v, 1, rows, taps, to);
}

/* Common windows with constant loops. */
static void NAME(sum_3)(const struct NAME(piece) *x, const REAL *const *row, const REAL *weight,
                        VEC start, const struct NAME(result) *to)
{
    NAME(sum_row)(x, row, weight, start, 3, (3 + GROUP - 1) / GROUP, to);
}

static void NAME(sum_any)(const struct NAME(piece) *x, const REAL *const *row, const REAL *weight,
                          VEC start, const struct NAME(result) *to)
{
    NAME(sum_row)(x, row, weight, start, x->d->r, x->taps, to);
}

/* ---- a piece --------------------------------------------------------------------------------- */

static struct NAME(result) NAME(result_at)(const struct NAME(piece) *x, int64_t output, int64_t y)
{
    const struct depthwise *d = x->d;
    const int64_t outputs = d->channels * d->multiplier;
    const int64_t row = d->nhwc ? x->p.image * d->oh + y :
                                  (x->p.image * outputs + output) * d->oh + y;

    return (struct NAME(result)){
        .at = (REAL *)d->result +
              (d->nhwc ? (row * d->ow + x->p.x) * outputs + output : row * d->ow + x->p.x),
        .step = d->nhwc ? outputs : LANES,
        .lane = d->nhwc ? d->multiplier : 1,
        .last = x->last,
        .all = d->nhwc,
        .add = d->add,
    };
}

/* Rows of the result, of the outputs whose filters are packed. */
static void NAME(run_rows)(const struct NAME(piece) *x, int64_t j, int64_t outputs)
{
    const struct depthwise *d = x->d;
    const int64_t all = d->r * x->taps, seen = (d->r - 1) * d->dilate[0];
    int64_t next = x->p.y * d->stride[0]; /* rows of the padded image before it are packed */

    for (int64_t y = x->p.y; y < x->p.y + x->p.height; y++) {
        const int64_t top = y * d->stride[0];
        const REAL *row[LIMBER_SMALL_K];

        for (next = next > top ? next : top; next <= top + seen; next++)
            NAME(pack_row)(x, next - d->pad[0], x->ring + next % x->p.slots * x->p.row);
        for (int64_t r = 0; r < d->r; r++)
            row[r] = x->ring + (top + r * d->dilate[0]) % x->p.slots * x->p.row;
        for (int64_t o = 0; o < outputs; o++) {
            const struct NAME(result) to =
                NAME(result_at)(x, x->p.channel * d->multiplier + j + o, y);
            const REAL *weight = x->weight + o * all * LANES;
            const VEC start = LOAD(x->start + o * LANES);

            if (d->r == 3 && d->s == 3)
                NAME(sum_3)(x, row, weight, start, &to);
            else
                NAME(sum_any)(x, row, weight, start, &to);
        }
    }
}

static void NAME(run)(const struct depthwise *d, const struct depthwise_plan *plan, int64_t task,
                      void *room)
{
    int64_t at[LIMBER_SMALL_K + GROUP];
    struct NAME(piece) x = { .d = d, .p = find_piece(d, plan, LANES, GROUP, task), .at = at };
    const int64_t step = d->nhwc ? LANES * d->stride[1] : LANES;

    x.vectors = d->nhwc ? x.p.width : (x.p.width + LANES - 1) / LANES;
    x.last = d->nhwc ? x.p.lanes : x.p.width - (x.vectors - 1) * LANES;
    x.length = d->nhwc ? x.p.length * LANES : x.p.phases * x.p.length;
    for (int64_t s = 0; s < d->s + GROUP - 1; s++) {
        int64_t column = (s < d->s ? s : d->s - 1) * d->dilate[1];

        at[s] = d->nhwc ? column * LANES :
                          column % d->stride[1] * x.p.length + column / d->stride[1];
    }
    x.taps = (d->s + GROUP - 1) / GROUP;
    x.step = step;
    x.start = room;
    x.weight = x.start + plan->outputs * LANES;
    x.ring = x.weight + plan->outputs * d->r * x.taps * LANES;
    x.pixels = (PIXEL *)(x.ring + x.p.slots * x.p.row);
    for (int64_t j = 0; j < d->multiplier; j += plan->outputs) {
        const int64_t left = d->multiplier - j;
        const int64_t outputs = left < plan->outputs ? left : plan->outputs;

        NAME(pack_filters)(&x, j, outputs);
        NAME(run_rows)(&x, j, outputs);
    }
}

#undef NAME
#undef REAL
#undef PIXEL
#undef GROUP
#undef MULTIPLY_ADD
#undef MASKED_STORE
#undef OFFSET
#undef PADDING
#undef LANES
#undef VEC
#undef LOAD
#undef STORE
