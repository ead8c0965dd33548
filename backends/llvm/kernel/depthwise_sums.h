/* SPDX-License-Identifier: BSD-3-Clause
 * The gradient of a depthwise convolution's filters for the common window, as depthwise.h includes
 * it once for each format.
 *
 * Lanes are channels.  The nine sums of a vector of channels stay in registers while they meet all
 * pixels, and so do the pixels that the next window sees again.  NHWC is read where it lies; of
 * NCHW rows are turned on the way. */

/* A row of dy and the three rows of the image that it meets. */
struct NAME(met) {
    const REAL *row[3], *dy, *zeros;
    int64_t step[3], pixel; /* from column to column; of padding: 0 */
    int64_t left, w; /* the first column that is met */
    some_lanes some; /* that there are */
    bool all; /* lanes */
};

/* The sums of the chain at hand, and of those before it. */
struct NAME(nine) {
    VEC sum[9], total[9];
};

/* inside: the column is one of the image's. */
FLAT VEC NAME(met_pixel)(const struct NAME(met) *m, int row, int64_t column, bool inside)
{
    const REAL *at = m->row[row] + column * m->step[row];

    if (!inside)
        at = __builtin_unpredictable((uint64_t)column < (uint64_t)m->w) ? at : m->zeros;
    return m->all && !MASKS_ARE_FREE ? LOAD(at) : (VEC)LANES_LOAD(at, m->some);
}

/* Pixel x.  e: the three columns that it meets, the first of which is in place `turn`; `keeps` of
 * them are there. */
FLAT void NAME(meet_pixel)(const struct NAME(met) *m, int64_t x, int stride, int keeps, int turn,
                           bool inside, VEC e[3][3], VEC sum[9])
{
    const REAL *dy = m->dy + x * m->pixel;
    const VEC g = m->all && !MASKS_ARE_FREE ? LOAD(dy) : (VEC)LANES_LOAD(dy, m->some);

    UNROLL for (int i = 0; i < 3; i++) {
        UNROLL for (int t = keeps; t < 3; t++)
            e[i][(turn + t) % 3] = NAME(met_pixel)(m, i, m->left + x * stride + t, inside);
        UNROLL for (int t = 0; t < 3; t++)
            sum[3 * i + t] = MULTIPLY_ADD(e[i][(turn + t) % 3], g, sum[3 * i + t]);
    }
}

/* The columns of the next pixel begin in the first place again. */
FLAT void NAME(move_columns)(int stride, int keeps, VEC e[3][3])
{
    UNROLL for (int i = 0; i < 3; i++)
        UNROLL for (int t = 0; t < keeps; t++)
            e[i][t] = e[i][t + stride];
}

/* Pixels [from, end) of dy's row.  Where many columns are inside of the image, three pixels at once
 * see them; shorter rows take longer so. */
FLAT void NAME(meet_pixels)(const struct NAME(met) *m, int64_t from, int64_t end, int stride,
                            VEC sum[9])
{
    const int keeps = KEEPS_PIXELS ? 3 - stride : 0;
    const int64_t before = least(m->left < 0 ? parts(-m->left, stride) : 0, end);
    const int64_t fit = m->w - 3 - m->left, behind = fit < 0 ? 0 : least(fit / stride + 1, end);
    int64_t x = from;
    VEC e[3][3];

    UNROLL for (int i = 0; i < 3; i++)
        UNROLL for (int t = 0; t < keeps; t++)
            e[i][t] = NAME(met_pixel)(m, i, m->left + from * stride + t, false);
    if (stride == 1 && behind - before >= LONG) {
        for (; x < before; x++) {
            NAME(meet_pixel)(m, x, stride, keeps, 0, false, e, sum);
            NAME(move_columns)(stride, keeps, e);
        }
        for (; x + 3 <= behind; x += 3)
            UNROLL for (int u = 0; u < 3; u++)
                NAME(meet_pixel)(m, x + u, stride, keeps, u * stride % 3, true, e, sum);
    }
    for (; x < end; x++) {
        NAME(meet_pixel)(m, x, stride, keeps, 0, false, e, sum);
        NAME(move_columns)(stride, keeps, e);
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
FLAT void NAME(meet_whole_row)(const struct NAME(met) *m, int64_t done, int64_t width, int stride,
                               VEC sum[9], REAL *total)
{
    for (int64_t from = 0, end; from < width; from = end) {
        end = from + least(width - from, CHAIN - (done + from) % CHAIN);
        NAME(meet_pixels)(m, from, end, stride, sum);
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

/* NHWC: rows [y, end) of an image's dy, for channels from `channel` on. */
FLAT void NAME(sum_beside)(const struct depthwise *d, int64_t image, int64_t channel, int64_t first,
                           int64_t lanes, int64_t y, int64_t end, int stride, const REAL *zeros,
                           struct NAME(nine) *sums)
{
    const int64_t line = d->w * d->channels;
    const REAL *from = (const REAL *)d->image + image * d->h * line + channel;
    int64_t done = (image * d->oh + y) * d->ow;
    struct NAME(met) m = { .zeros = zeros,
                           .dy = (const REAL *)d->filters + done * d->channels + channel,
                           .pixel = d->channels,
                           .left = -d->pad[1],
                           .w = d->w,
                           .some = lanes_between(first, lanes),
                           .all = lanes == LANES };
    VEC sum[9];

    UNROLL for (int t = 0; t < 9; t++)
        sum[t] = sums->sum[t];
    for (; y < end; y++, done += d->ow, m.dy += d->ow * d->channels) {
        UNROLL for (int i = 0; i < 3; i++) {
            const int64_t at = y * stride - d->pad[0] + i;
            const bool inside = at >= 0 && at < d->h;

            m.row[i] = inside ? from + at * line : zeros;
            m.step[i] = inside ? d->channels : 0;
        }
        NAME(meet_whole_row)(&m, done, d->ow, stride, sum, (REAL *)sums->total);
    }
    UNROLL for (int t = 0; t < 9; t++)
        sums->sum[t] = sum[t];
}

/* As many rows at once as stay in a near cache: each vector of channels reads all lines of them,
 * but not all of a line's neighbours. */
FLAT void NAME(sum_all_beside)(const struct depthwise *d, const struct piece *p, int stride,
                               const REAL *zeros, struct NAME(nine) *sums)
{
    const int64_t bytes = (stride * d->w + d->ow) * p->channels * (int64_t)sizeof(REAL);
    const int64_t rows = bytes < NEAR ? NEAR / bytes : 1, pixels = d->images * d->oh * d->ow;

    memset(sums, 0, (size_t)p->groups * sizeof *sums);
    for (int64_t image = 0; image < d->images; image++)
        for (int64_t y = 0; y < d->oh; y += rows)
            for (int64_t g = 0; g < p->groups; g++) {
                const int64_t channel = g * LANES - p->shift;

                NAME(sum_beside)(d, image, p->channel + channel, channel < 0 ? -channel : 0,
                                 least(LANES, p->channels - channel), y, least(d->oh, y + rows),
                                 stride, zeros, &sums[g]);
            }
    for (int64_t g = 0; g < p->groups; g++) {
        const int64_t channel = g * LANES - p->shift;

        if (pixels % CHAIN)
            NAME(end_sums)((REAL *)sums[g].total, sums[g].sum, pixels < CHAIN);
        NAME(store_sums)(d, p->channel + channel, channel < 0 ? -channel : 0,
                         least(LANES, p->channels - channel), sums[g].total);
    }
}

/* Some pixels of LANES channels, `plane` elements apart, become pixels of channels. */
static __attribute__((noinline)) void NAME(turn_pixels)(const REAL *from, int64_t plane,
                                                        int64_t count, REAL *to)
{
    for (int64_t i = 0; i < count; i += LANES, to += LANES * LANES) {
        const int64_t some = count - i;
        const REAL *at = from + i;
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++, at += plane) {
            v[l] = some >= LANES ? LOAD(at) : (VEC)PICKED_LOAD(at, 0, some);
            __asm__("" : "+r"(at)); /* else sixteen addresses are kept in memory */
        }
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            STORE(to + l * LANES, v[l]);
    }
}

/* The same of fewer channels. */
static __attribute__((noinline)) void NAME(turn_few)(const REAL *from, int64_t plane,
                                                     int64_t count, int64_t channels, REAL *to)
{
    for (int64_t i = 0; i < count; i++, to += LANES) {
        STORE(to, (VEC){ 0 });
        for (int64_t c = 0; c < channels; c++)
            to[c] = from[c * plane + i];
    }
}

FLAT void NAME(turn)(const REAL *from, int64_t plane, int64_t count, int64_t channels, REAL *to)
{
    if (channels == LANES)
        NAME(turn_pixels)(from, plane, count, to);
    else
        NAME(turn_few)(from, plane, count, channels, to);
}

/* NCHW: of `rows` rows of dy at once, what they meet is turned before. */
FLAT void NAME(sum_turned)(const struct depthwise *d, const struct piece *p, int64_t rows,
                           int stride, REAL *zeros)
{
    const int64_t plane = d->h * d->w, area = d->oh * d->ow, line = d->w * LANES;
    REAL *const dy = zeros + LANES;
    REAL *const image = dy + parts(rows * d->ow, LANES) * LANES * LANES;
    struct NAME(met) m = { .zeros = zeros,
                           .pixel = LANES,
                           .left = -d->pad[1],
                           .w = d->w,
                           .some = lanes_between(0, LANES),
                           .all = true };
    VEC sum[9] = { 0 }, total[9];
    int64_t done = 0;

    for (int64_t i = 0; i < d->images; i++) {
        const int64_t channel = i * d->channels + p->channel;

        for (int64_t first = 0; first < d->oh; first += rows) {
            const int64_t end = least(first + rows, d->oh), top = first * stride - d->pad[0];
            const int64_t last = least((end - 1) * stride - d->pad[0] + 3, d->h);
            const int64_t begin = least(top < 0 ? 0 : top, d->h);

            if (begin < last)
                NAME(turn)((const REAL *)d->image + channel * plane + begin * d->w, plane,
                           (last - begin) * d->w, p->channels, image);
            NAME(turn)((const REAL *)d->filters + channel * area + first * d->ow, area,
                       (end - first) * d->ow, p->channels, dy);
            m.dy = dy;
            for (int64_t y = first; y < end; y++, done += d->ow, m.dy += d->ow * LANES) {
                UNROLL for (int k = 0; k < 3; k++) {
                    const int64_t at = y * stride - d->pad[0] + k;
                    const bool inside = at >= 0 && at < d->h;

                    m.row[k] = inside ? image + (at - begin) * line : zeros;
                    m.step[k] = inside ? LANES : 0;
                }
                NAME(meet_whole_row)(&m, done, d->ow, stride, sum, (REAL *)total);
            }
        }
    }
    if (done % CHAIN)
        NAME(end_sums)((REAL *)total, sum, done < CHAIN);
    NAME(store_sums)(d, p->channel, 0, p->channels, total);
}

FLAT void NAME(sum_piece)(const struct depthwise *d, const struct piece *p, int stride, REAL *room)
{
    STORE(room, (VEC){ 0 });
    if (!d->nhwc)
        NAME(sum_turned)(d, p, turned_rows(d), stride, room);
    else
        NAME(sum_all_beside)(d, p, stride, room, (struct NAME(nine) *)(room + LANES));
}

static __attribute__((noinline)) void NAME(sum_common)(const struct depthwise *d,
                                                       const struct depthwise_plan *plan,
                                                       int64_t task, void *room)
{
    const struct piece p = find_gradient(d, plan, LANES, task);

    if (d->stride[0] == 1)
        NAME(sum_piece)(d, &p, 1, room);
    else
        NAME(sum_piece)(d, &p, 2, room);
}
