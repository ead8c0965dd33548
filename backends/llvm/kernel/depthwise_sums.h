/* SPDX-License-Identifier: BSD-3-Clause
 * The gradient of a depthwise convolution's filters for the common window, as depthwise.h includes
 * it once for each format.
 *
 * Lanes are channels.  The nine sums of a vector of channels stay in registers while they meet all
 * pixels, two at a time, which share the columns that both see.  NHWC is read where it lies; of
 * NCHW rows are turned on the way. */

/* What the sums of a vector of channels meet; distances are of bytes. */
struct NAME(met) {
    const struct depthwise *d;
    const char *image, *dy, *zeros; /* image: its first row; dy: the row at hand */
    int64_t pixel;                  /* from column to column */
    some_lanes some;                /* that there are */
    bool first, last; /* the first or the last column that a row meets is padding, */
    bool wide;        /* and more than these is not */
};

/* The sums of the chain at hand, and of those before it. */
struct NAME(nine) {
    VEC sum[9], total[9];
};

FLAT VEC NAME(met_lanes)(const struct NAME(met) *m, const char *at)
{
    return MASKS_ARE_FREE ? (VEC)LANES_LOAD(at, m->some) : LOAD(at);
}

/* Any pixel x.  row: three rows of the image, whose columns are `step` apart. */
FLAT void NAME(meet_any)(const struct NAME(met) *m, const char *const row[3],
                         const int64_t step[3], int64_t x, VEC sum[9])
{
    const VEC g = NAME(met_lanes)(m, m->dy + x * m->pixel);

    UNROLL for (int t = 0; t < 3; t++) {
        const int64_t column = x * m->d->stride[1] - m->d->pad[1] + t;

        if ((uint64_t)column < (uint64_t)m->d->w)
            UNROLL for (int i = 0; i < 3; i++)
                sum[3 * i + t] = MULTIPLY_ADD(NAME(met_lanes)(m, row[i] + column * step[i]), g,
                                              sum[3 * i + t]);
        else
            UNROLL for (int i = 0; i < 3; i++)
                sum[3 * i + t] = MULTIPLY_ADD((VEC){ 0 }, g, sum[3 * i + t]);
    }
}

/* Two columns on.  Compilers would give each column an address of its own. */
FLAT const char *NAME(skip_two)(const char *at, int64_t step)
{
    at += 2 * step;
    __asm__("" : "+r"(at));
    return at;
}

/* Two pixels, which share what they load.  first, last: that column is padding. */
FLAT void NAME(meet_two)(const struct NAME(met) *m, const char *at[3], const int64_t step[3],
                         const char **dy, int stride, bool first, bool last, VEC sum[9])
{
    const VEC g[2] = { NAME(met_lanes)(m, *dy), NAME(met_lanes)(m, *dy + m->pixel) };

    UNROLL for (int i = 0; i < 3; i++) {
        UNROLL for (int c = 0; c < stride + 3; c++) {
            VEC e = { 0 };

            if (c == 3)
                at[i] = NAME(skip_two)(at[i], step[i]);
            if (!(first && c == 0) && !(last && c == stride + 2))
                e = NAME(met_lanes)(m, at[i] + (c < 3 ? c : c - 2) * step[i]);
            if (c < 3)
                sum[3 * i + c] = MULTIPLY_ADD(e, g[0], sum[3 * i + c]);
            if (c >= stride)
                sum[3 * i + c - stride] = MULTIPLY_ADD(e, g[1], sum[3 * i + c - stride]);
        }
        if (stride == 2)
            at[i] = NAME(skip_two)(at[i], step[i]);
    }
    *dy += 2 * m->pixel;
}

/* The last pixel of some. */
FLAT void NAME(meet_one)(const struct NAME(met) *m, const char *const at[3],
                         const int64_t step[3], const char *dy, bool last, VEC sum[9])
{
    const VEC g = NAME(met_lanes)(m, dy);

    UNROLL for (int i = 0; i < 3; i++)
        UNROLL for (int t = 0; t < 3; t++) {
            const char *from = t == 2 && last ? m->zeros : at[i] + t * step[i];

            sum[3 * i + t] = MULTIPLY_ADD(NAME(met_lanes)(m, from), g, sum[3 * i + t]);
        }
}

/* How pixels of a row are met: the first two, `twos` times two, two or one that end the row. */
struct NAME(shape) {
    int64_t twos; /* negative: one by one */
    bool first, last, odd;
};

static struct NAME(shape) NAME(find_shape)(const struct NAME(met) *m, int64_t x, int64_t end)
{
    struct NAME(shape) to = { .first = m->first && x == 0,
                              .last = m->last && end == m->d->ow,
                              .odd = (end - x) % 2 };

    to.twos = m->wide ? (end - x) / 2 - to.first - (to.last && !to.odd) : -1;
    return to;
}

/* Pixels [x, end) of dy's row. */
FLAT void NAME(meet_pixels)(const struct NAME(met) *m, const char *const row[3],
                            const int64_t step[3], int64_t x, int64_t end,
                            struct NAME(shape) shape, int stride, VEC sum[9])
{
    const char *dy = m->dy + x * m->pixel, *at[3];

    if (shape.twos < 0) {
        for (; x < end; x++)
            NAME(meet_any)(m, row, step, x, sum);
        return;
    }
    UNROLL for (int i = 0; i < 3; i++)
        at[i] = row[i] + (x * stride - m->d->pad[1]) * step[i];
    if (shape.first)
        NAME(meet_two)(m, at, step, &dy, stride, true, false, sum);
    for (int64_t twos = shape.twos; twos > 0; twos--)
        NAME(meet_two)(m, at, step, &dy, stride, false, false, sum);
    if (shape.odd)
        NAME(meet_one)(m, at, step, dy, shape.last, sum);
    else if (shape.last)
        NAME(meet_two)(m, at, step, &dy, stride, false, true, sum);
}

/* Ends a chain; `first`: there was none before it. */
FLAT void NAME(end_sums)(VEC total[9], VEC sum[9], bool first)
{
    UNROLL for (int t = 0; t < 9; t++) {
        total[t] = first ? sum[t] : total[t] + sum[t];
        sum[t] = (VEC){ 0 };
    }
}

/* Rows [y, end) of dy, whose first pixel is number `done` along the chains. */
FLAT void NAME(meet_rows)(struct NAME(met) *m, int64_t y, int64_t end, uint64_t done, int stride,
                          struct NAME(nine) *sums)
{
    const struct depthwise *d = m->d;
    const int64_t pixel = m->pixel, width = d->ow, line = d->w * pixel, h = d->h;
    const struct NAME(shape) whole = NAME(find_shape)(m, 0, width);
    int64_t top = y * stride - d->pad[0];
    const char *at = m->image + top * line;
    VEC sum[9];

    UNROLL for (int t = 0; t < 9; t++)
        sum[t] = sums->sum[t];
    for (; y < end; y++, top += stride, at += stride * line, m->dy += width * pixel) {
        const char *row[3];
        int64_t step[3];

        UNROLL for (int i = 0; i < 3; i++) {
            const bool inside = (uint64_t)(top + i) < (uint64_t)h;

            row[i] = __builtin_unpredictable(inside) ? at + i * line : m->zeros;
            step[i] = __builtin_unpredictable(inside) ? pixel : 0;
        }
        for (int64_t from = 0, to; from < width; from = to) {
            struct NAME(shape) shape = whole;

            to = from + (int64_t)(CHAIN - done % CHAIN);
            to = to < width ? to : width;
            if (to - from < width)
                shape = NAME(find_shape)(m, from, to);
            NAME(meet_pixels)(m, row, step, from, to, shape, stride, sum);
            done += (uint64_t)(to - from);
            if (done % CHAIN == 0)
                NAME(end_sums)(sums->total, sum, done == CHAIN);
        }
    }
    UNROLL for (int t = 0; t < 9; t++)
        sums->sum[t] = sum[t];
}

/* Two functions: each has the registers of its loops. */
static __attribute__((noinline)) void NAME(meet_near)(struct NAME(met) *m, int64_t y, int64_t end,
                                                      int64_t done, struct NAME(nine) *sums)
{
    NAME(meet_rows)(m, y, end, (uint64_t)done, 1, sums);
}

static __attribute__((noinline)) void NAME(meet_apart)(struct NAME(met) *m, int64_t y, int64_t end,
                                                       int64_t done, struct NAME(nine) *sums)
{
    NAME(meet_rows)(m, y, end, (uint64_t)done, 2, sums);
}

static void NAME(meet)(struct NAME(met) *m, int64_t y, int64_t end, int64_t done,
                       struct NAME(nine) *sums)
{
    (m->d->stride[1] == 1 ? NAME(meet_near) : NAME(meet_apart))(m, y, end, done, sums);
}

static struct NAME(met) NAME(find_met)(const struct depthwise *d, const REAL *zeros, int64_t pixel)
{
    const int64_t beyond = (d->ow - 1) * d->stride[1] - d->pad[1] + 3 - d->w;

    return (struct NAME(met)){ .d = d,
                               .zeros = (const char *)zeros,
                               .pixel = pixel * (int64_t)sizeof(REAL),
                               .some = lanes_between(0, LANES),
                               .first = d->pad[1] == 1,
                               .last = beyond == 1,
                               .wide = d->pad[1] <= 1 && beyond <= 1 };
}

/* Of channels from `channel` on, those in lanes [first, lanes). */
static void NAME(store_sums)(const struct depthwise *d, int64_t channel, int64_t first,
                             int64_t lanes, const VEC total[9])
{
    REAL *to = (REAL *)d->result + channel * d->filter[0];

    for (int e = 0; e < 9; e += LANES) {
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++)
            v[l] = e + l < 9 ? total[e + l] : (VEC){ 0 };
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            if (l >= first && l < lanes)
                MASKED_STORE(to + l * 9 + e, v[l], least(9 - e, LANES));
    }
}

/* Vector g of a piece's channels: its first channel, and its lanes [first, lanes) that are the
 * piece's and no other vector's.  Where masks are not free, all lanes are channels. */
struct NAME(group) {
    int64_t channel, first, lanes;
};

static struct NAME(group) NAME(find_group)(const struct piece *p, int64_t g)
{
    const int64_t channel = g * LANES - p->shift, beyond = channel + LANES - p->channels;

    if (MASKS_ARE_FREE)
        return (struct NAME(group)){ p->channel + channel, channel < 0 ? -channel : 0,
                                     beyond < 0 ? LANES : LANES - beyond };
    return beyond > 0 ? (struct NAME(group)){ p->channel + channel - beyond, beyond, LANES } :
                        (struct NAME(group)){ p->channel + channel, 0, LANES };
}

/* NHWC: as many rows at once as stay in a near cache.  Each vector of channels reads all lines of
 * them, but not all of a line's neighbours. */
FLAT void NAME(sum_beside)(const struct depthwise *d, const struct piece *p, const REAL *zeros,
                           struct NAME(nine) *sums)
{
    const int64_t area = d->oh * d->ow, image = d->h * d->w * d->channels;
    const int64_t bytes = (d->stride[0] * d->w + d->ow) * p->channels * (int64_t)sizeof(REAL);
    const int64_t rows = bytes < NEAR ? NEAR / bytes : 1;
    struct NAME(met) m = NAME(find_met)(d, zeros, d->channels);

    memset(sums, 0, (size_t)p->groups * sizeof *sums);
    for (int64_t i = 0; i < d->images; i++)
        for (int64_t y = 0; y < d->oh; y += rows)
            for (int64_t g = 0; g < p->groups; g++) {
                const struct NAME(group) group = NAME(find_group)(p, g);
                const int64_t done = i * area + y * d->ow;

                m.image = (const char *)((const REAL *)d->image + i * image + group.channel);
                m.dy = (const char *)((const REAL *)d->filters + done * d->channels +
                                      group.channel);
                m.some = lanes_between(group.first, group.lanes);
                NAME(meet)(&m, y, least(d->oh, y + rows), done, &sums[g]);
            }
    for (int64_t g = 0; g < p->groups; g++) {
        const struct NAME(group) group = NAME(find_group)(p, g);

        if (d->images * area % CHAIN)
            NAME(end_sums)(sums[g].total, sums[g].sum, d->images * area < CHAIN);
        NAME(store_sums)(d, group.channel, group.first, group.lanes, sums[g].total);
    }
}

/* Some pixels of at most LANES channels, `plane` elements apart, become pixels of channels. */
static __attribute__((noinline)) void NAME(turn)(const REAL *from, int64_t plane, int64_t count,
                                                 int64_t channels, REAL *to)
{
    for (int64_t i = 0; i < count; i += LANES, to += LANES * LANES) {
        const int64_t some = count - i;
        const REAL *at = from + i;
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++) {
            v[l] = some >= LANES ? LOAD(at) : (VEC)PICKED_LOAD(at, 0, some);
            at += l + 1 < channels ? plane : 0; /* the last one again */
            __asm__("" : "+r"(at)); /* else sixteen addresses are kept in memory */
        }
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            STORE(to + l * LANES, v[l]);
    }
}

/* NCHW: of `rows` rows of dy at once, what they meet is turned before. */
FLAT void NAME(sum_turned)(const struct depthwise *d, const struct piece *p, int64_t rows,
                           REAL *zeros)
{
    const int64_t plane = d->h * d->w, area = d->oh * d->ow;
    REAL *const dy = zeros + LANES;
    REAL *const image = dy + parts(rows * d->ow, LANES) * LANES * LANES;
    struct NAME(met) m = NAME(find_met)(d, zeros, LANES);
    struct NAME(nine) sums = { 0 };

    for (int64_t i = 0; i < d->images; i++) {
        const int64_t channel = i * d->channels + p->channel;

        for (int64_t first = 0; first < d->oh; first += rows) {
            const int64_t end = least(first + rows, d->oh), top = first * d->stride[0] - d->pad[0];
            const int64_t last = least((end - 1) * d->stride[0] - d->pad[0] + 3, d->h);
            const int64_t begin = least(top < 0 ? 0 : top, d->h);

            if (begin < last)
                NAME(turn)((const REAL *)d->image + channel * plane + begin * d->w, plane,
                           (last - begin) * d->w, p->channels, image);
            NAME(turn)((const REAL *)d->filters + channel * area + first * d->ow, area,
                       (end - first) * d->ow, p->channels, dy);
            m.dy = (const char *)dy;
            m.image = (const char *)(image - begin * d->w * LANES);
            NAME(meet)(&m, first, end, i * area + first * d->ow, &sums);
        }
    }
    if (d->images * area % CHAIN)
        NAME(end_sums)(sums.total, sums.sum, d->images * area < CHAIN);
    NAME(store_sums)(d, p->channel, 0, p->channels, sums.total);
}

static __attribute__((noinline)) void NAME(sum_common)(const struct depthwise *d,
                                                       const struct depthwise_plan *plan,
                                                       int64_t task, REAL *room)
{
    const struct piece p = find_gradient(d, plan, true, LANES, task);

    STORE(room, (VEC){ 0 });
    if (d->nhwc)
        NAME(sum_beside)(d, &p, room, (struct NAME(nine) *)(room + LANES));
    else
        NAME(sum_turned)(d, &p, turned_rows(d), room);
}
