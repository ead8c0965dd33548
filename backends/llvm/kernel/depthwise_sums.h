/* SPDX-License-Identifier: BSD-3-Clause
 * The gradient of a depthwise convolution's filters for the common window, as depthwise.h includes
 * it once for each format.
 *
 * Lanes are channels.  The nine sums of a vector of channels stay in registers while they meet all
 * pixels, and so do the pixels that the next window sees again.  NHWC is read where it lies; of
 * NCHW rows are turned on the way. */

/* A row of dy and the three rows of the image that it meets; distances are of bytes. */
struct NAME(met) {
    const char *row[3], *dy;
    int64_t step[3], pixel; /* from column to column; of padding: 0 */
    int64_t left, w, stride; /* left: the first column that is met */
    some_lanes some; /* that there are */
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
        const int64_t column = m->left + x * m->stride + t;

        if ((uint64_t)column < (uint64_t)m->w)
            UNROLL for (int i = 0; i < 3; i++)
                sum[3 * i + t] = MULTIPLY_ADD(
                    NAME(met_lanes)(m, m->row[i] + column * m->step[i]), g, sum[3 * i + t]);
        else
            UNROLL for (int i = 0; i < 3; i++)
                sum[3 * i + t] = MULTIPLY_ADD((VEC){ 0 }, g, sum[3 * i + t]);
    }
}

/* `count` pixels from x on, all of whose columns are. */
FLAT void NAME(meet_inside)(const struct NAME(met) *m, int64_t x, int64_t count, VEC sum[9])
{
    const int64_t column = m->left + x * m->stride;
    const char *dy = m->dy + x * m->pixel, *at[3];

    UNROLL for (int i = 0; i < 3; i++)
        at[i] = m->row[i] + column * m->step[i];
    for (; count > 0; count--, dy += m->pixel) {
        const VEC g = NAME(met_lanes)(m, dy);

        UNROLL for (int i = 0; i < 3; i++) {
            UNROLL for (int t = 0; t < 3; t++)
                sum[3 * i + t] = MULTIPLY_ADD(NAME(met_lanes)(m, at[i] + t * m->step[i]), g,
                                              sum[3 * i + t]);
            at[i] += m->stride * m->step[i];
            __asm__("" : "+r"(at[i])); /* else each of nine pixels has an address of its own */
        }
    }
}

/* Pixels [x, end) of dy's row. */
FLAT void NAME(meet_pixels)(const struct NAME(met) *m, int64_t x, int64_t end, VEC sum[9])
{
    const int64_t before = m->left < 0 ? parts(-m->left, m->stride) : 0;
    const int64_t fit = m->w - 3 - m->left;
    const int64_t behind = least(fit < 0 ? 0 : fit / m->stride + 1, end);

    while (x < end)
        if (x >= before && x < behind) {
            NAME(meet_inside)(m, x, behind - x, sum);
            x = behind;
        } else {
            NAME(meet_edge)(m, x++, sum);
        }
}

/* Ends a chain; `first`: there was none before it. */
FLAT void NAME(end_sums)(REAL *total, VEC sum[9], bool first)
{
    UNROLL for (int t = 0; t < 9; t++) {
        STORE(total + t * LANES, first ? sum[t] : LOAD(total + t * LANES) + sum[t]);
        sum[t] = (VEC){ 0 };
    }
}

/* A row of dy, whose first pixel is number `done` along the chains. */
FLAT void NAME(meet_whole_row)(const struct NAME(met) *m, int64_t done, int64_t width,
                               VEC sum[9], REAL *total)
{
    for (int64_t from = 0, end; from < width; from = end) {
        end = from + least(width - from, CHAIN - (done + from) % CHAIN);
        NAME(meet_pixels)(m, from, end, sum);
        if ((done + end) % CHAIN == 0)
            NAME(end_sums)(total, sum, done + end == CHAIN);
    }
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

/* What row y of dy meets: rows `line` bytes apart, of which `image` is the first that is there. */
FLAT void NAME(find_rows)(const struct depthwise *d, int64_t y, const char *image, int64_t line,
                          int64_t step, const REAL *zeros, struct NAME(met) *m)
{
    UNROLL for (int i = 0; i < 3; i++) {
        const int64_t at = y * d->stride[0] - d->pad[0] + i;
        const bool inside = at >= 0 && at < d->h;

        m->row[i] = inside ? image + at * line : (const char *)zeros;
        m->step[i] = inside ? step : 0;
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

/* NHWC: rows [y, end) of an image's dy, for the channels of a vector. */
FLAT void NAME(sum_beside)(const struct depthwise *d, int64_t image, struct NAME(group) group,
                           int64_t y, int64_t end, const REAL *zeros, struct NAME(nine) *sums)
{
    const int64_t pixel = d->channels * (int64_t)sizeof(REAL), line = d->w * pixel;
    const char *from = (const char *)((const REAL *)d->image + group.channel) +
                       image * d->h * line;
    int64_t done = (image * d->oh + y) * d->ow;
    struct NAME(met) m = { .dy = (const char *)((const REAL *)d->filters + group.channel) +
                                 done * pixel,
                           .pixel = pixel,
                           .left = -d->pad[1],
                           .w = d->w,
                           .stride = d->stride[1],
                           .some = lanes_between(group.first, group.lanes) };
    VEC sum[9];

    UNROLL for (int t = 0; t < 9; t++)
        sum[t] = sums->sum[t];
    for (; y < end; y++, done += d->ow, m.dy += d->ow * pixel) {
        NAME(find_rows)(d, y, from, line, pixel, zeros, &m);
        NAME(meet_whole_row)(&m, done, d->ow, sum, (REAL *)sums->total);
    }
    UNROLL for (int t = 0; t < 9; t++)
        sums->sum[t] = sum[t];
}

/* As many rows at once as stay in a near cache: each vector of channels reads all lines of them,
 * but not all of a line's neighbours. */
FLAT void NAME(sum_all_beside)(const struct depthwise *d, const struct piece *p,
                               const REAL *zeros, struct NAME(nine) *sums)
{
    const int64_t bytes =
        (d->stride[0] * d->w + d->ow) * p->channels * (int64_t)sizeof(REAL);
    const int64_t rows = bytes < NEAR ? NEAR / bytes : 1, pixels = d->images * d->oh * d->ow;

    memset(sums, 0, (size_t)p->groups * sizeof *sums);
    for (int64_t image = 0; image < d->images; image++)
        for (int64_t y = 0; y < d->oh; y += rows)
            for (int64_t g = 0; g < p->groups; g++)
                NAME(sum_beside)(d, image, NAME(find_group)(p, g), y, least(d->oh, y + rows),
                                 zeros, &sums[g]);
    for (int64_t g = 0; g < p->groups; g++) {
        const struct NAME(group) group = NAME(find_group)(p, g);

        if (pixels % CHAIN)
            NAME(end_sums)((REAL *)sums[g].total, sums[g].sum, pixels < CHAIN);
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
    const int64_t pixel = LANES * sizeof(REAL), line = d->w * pixel;
    REAL *const dy = zeros + LANES;
    REAL *const image = dy + parts(rows * d->ow, LANES) * LANES * LANES;
    struct NAME(met) m = { .pixel = pixel,
                           .left = -d->pad[1],
                           .w = d->w,
                           .stride = d->stride[1],
                           .some = lanes_between(0, LANES) };
    VEC sum[9] = { 0 }, total[9];
    int64_t done = 0;

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
            for (int64_t y = first; y < end; y++, done += d->ow, m.dy += d->ow * pixel) {
                NAME(find_rows)(d, y, (const char *)image - begin * line, line, pixel, zeros, &m);
                NAME(meet_whole_row)(&m, done, d->ow, sum, (REAL *)total);
            }
        }
    }
    if (done % CHAIN)
        NAME(end_sums)((REAL *)total, sum, done < CHAIN);
    NAME(store_sums)(d, p->channel, 0, p->channels, total);
}

static __attribute__((noinline)) void NAME(sum_common)(const struct depthwise *d,
                                                       const struct depthwise_plan *plan,
                                                       int64_t task, REAL *room)
{
    const struct piece p = find_gradient(d, plan, LANES, task);

    STORE(room, (VEC){ 0 });
    if (d->nhwc)
        NAME(sum_all_beside)(d, &p, room, (struct NAME(nine) *)(room + LANES));
    else
        NAME(sum_turned)(d, &p, turned_rows(d), room);
}
