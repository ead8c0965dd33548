/* SPDX-License-Identifier: BSD-3-Clause
 * The gradient of a depthwise convolution's filters for the common window, as depthwise.h includes
 * it once for each format.
 *
 * Lanes are channels.  The nine sums of a vector of channels stay in registers while they meet all
 * pixels, and so do the pixels that the next window sees again.  NHWC is read where it lies; of
 * NCHW rows are turned on the way. */

/* What the sums of a vector of channels meet; distances are of bytes. */
struct NAME(met) {
    const struct depthwise *d;
    const char *image, *dy, *zeros; /* image: its first row; dy: the row at hand */
    const char *row[3];             /* of the image, which dy's row meets */
    int64_t step[3];                /* from column to column; of padding: 0 */
    int64_t pixel;                  /* the same of the tensors */
    some_lanes some;                /* that there are */
};

/* The sums of the chain at hand, and of those before it. */
struct NAME(nine) {
    VEC sum[9], total[9];
};

FLAT VEC NAME(met_lanes)(const struct NAME(met) *m, const char *at)
{
    return MASKS_ARE_FREE ? (VEC)LANES_LOAD(at, m->some) : LOAD(at);
}

/* Pixel x, some of whose columns are not the image's. */
FLAT void NAME(meet_edge)(const struct NAME(met) *m, int64_t x, VEC sum[9])
{
    const VEC g = NAME(met_lanes)(m, m->dy + x * m->pixel);

    UNROLL for (int t = 0; t < 3; t++) {
        const int64_t column = x * m->d->stride[1] - m->d->pad[1] + t;

        if ((uint64_t)column < (uint64_t)m->d->w)
            UNROLL for (int i = 0; i < 3; i++)
                sum[3 * i + t] = MULTIPLY_ADD(
                    NAME(met_lanes)(m, m->row[i] + column * m->step[i]), g, sum[3 * i + t]);
        else
            UNROLL for (int i = 0; i < 3; i++)
                sum[3 * i + t] = MULTIPLY_ADD((VEC){ 0 }, g, sum[3 * i + t]);
    }
}

/* Pixels by twos from x on, which share what they load.  first, last: the first or the last column of
 * two pixels is padding. */
FLAT void NAME(meet_twos)(const struct NAME(met) *m, int64_t x, int64_t twos, int stride,
                          bool first, bool last, VEC sum[9])
{
    const int64_t column = x * stride - m->d->pad[1];
    const char *dy = m->dy + x * m->pixel, *at[3];

    UNROLL for (int i = 0; i < 3; i++)
        at[i] = m->row[i] + column * m->step[i];
    do {
        const VEC g[2] = { NAME(met_lanes)(m, dy), NAME(met_lanes)(m, dy + m->pixel) };

        UNROLL for (int i = 0; i < 3; i++) {
            UNROLL for (int c = 0; c < stride + 3; c++) {
                const VEC e = (first && c == 0) || (last && c == stride + 2) ?
                                  (VEC){ 0 } :
                                  NAME(met_lanes)(m, at[i] + c * m->step[i]);

                if (c < 3)
                    sum[3 * i + c] = MULTIPLY_ADD(e, g[0], sum[3 * i + c]);
                if (c >= stride)
                    sum[3 * i + c - stride] = MULTIPLY_ADD(e, g[1], sum[3 * i + c - stride]);
            }
            at[i] += 2 * stride * m->step[i];
            __asm__("" : "+r"(at[i])); /* else each pixel has an address of its own */
        }
        dy += 2 * m->pixel;
    } while (--twos > 0);
}

/* Pixels [x, end) of dy's row. */
FLAT void NAME(meet_pixels)(const struct NAME(met) *m, int64_t x, int64_t end, int stride,
                            VEC sum[9])
{
    while (x < end) {
        const int64_t first = x * stride - m->d->pad[1], beyond = first + stride + 3 - m->d->w;
        int64_t twos = 1;

        if (x + 1 == end || first < -1 || beyond > 1 || (first < 0 && beyond > 0)) {
            NAME(meet_edge)(m, x++, sum);
            continue;
        }
        if (first < 0) {
            NAME(meet_twos)(m, x, 1, stride, true, false, sum);
        } else if (beyond > 0) {
            NAME(meet_twos)(m, x, 1, stride, false, true, sum);
        } else {
            twos = least((end - x) / 2, -beyond / (2 * stride) + 1);
            NAME(meet_twos)(m, x, twos, stride, false, false, sum);
        }
        x += 2 * twos;
    }
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
static __attribute__((noinline)) void NAME(meet_rows)(struct NAME(met) *m, int64_t y, int64_t end,
                                                      int64_t done, struct NAME(nine) *sums)
{
    const struct depthwise *d = m->d;
    VEC sum[9];

    UNROLL for (int t = 0; t < 9; t++)
        sum[t] = sums->sum[t];
    for (; y < end; y++, m->dy += d->ow * m->pixel) {
        UNROLL for (int i = 0; i < 3; i++) {
            const int64_t at = y * d->stride[0] - d->pad[0] + i;
            const bool inside = at >= 0 && at < d->h;

            m->row[i] = inside ? m->image + at * d->w * m->pixel : m->zeros;
            m->step[i] = inside ? m->pixel : 0;
        }
        for (int64_t from = 0, to; from < d->ow; from = to) {
            to = from + least(d->ow - from, CHAIN - done % CHAIN);
            if (d->stride[1] == 1)
                NAME(meet_pixels)(m, from, to, 1, sum);
            else
                NAME(meet_pixels)(m, from, to, 2, sum);
            done += to - from;
            if (done % CHAIN == 0)
                NAME(end_sums)(sums->total, sum, done == CHAIN);
        }
    }
    UNROLL for (int t = 0; t < 9; t++)
        sums->sum[t] = sum[t];
}

static struct NAME(met) NAME(meet)(const struct depthwise *d, const REAL *zeros, int64_t pixel)
{
    return (struct NAME(met)){ .d = d,
                               .zeros = (const char *)zeros,
                               .pixel = pixel * (int64_t)sizeof(REAL),
                               .some = lanes_between(0, LANES) };
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
    struct NAME(met) m = NAME(meet)(d, zeros, d->channels);

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
                NAME(meet_rows)(&m, y, least(d->oh, y + rows), done, &sums[g]);
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
    struct NAME(met) m = NAME(meet)(d, zeros, LANES);
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
            NAME(meet_rows)(&m, first, end, i * area + first * d->ow, &sums);
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
    const struct piece p = find_gradient(d, plan, LANES, task);

    STORE(room, (VEC){ 0 });
    if (d->nhwc)
        NAME(sum_beside)(d, &p, room, (struct NAME(nine) *)(room + LANES));
    else
        NAME(sum_turned)(d, &p, turned_rows(d), room);
}
