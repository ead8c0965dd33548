/* SPDX-License-Identifier: BSD-3-Clause
 * The gradient of a depthwise convolution's filters for the common window, as depthwise.h includes
 * it once for each format.
 *
 * Lanes are channels.  The nine sums of a vector of channels stay in registers while they meet all
 * pixels, and so do the pixels that the next window sees again.  NHWC is read where it lies; of
 * NCHW rows are turned on the way. */

/* A row of dy and the three rows of the image that it meets. */
struct NAME(met) {
    const REAL *row[3], *dy;
    int64_t step[3], pixel; /* from column to column; of padding: 0 */
    int64_t left, w, lanes; /* the first column that is met; lanes that there are */
};

/* The sums of the chain at hand, and of those before it. */
struct NAME(nine) {
    VEC sum[9], total[9];
};

FLAT VEC NAME(met_pixel)(const struct NAME(met) *m, int row, int64_t column, bool inside)
{
    const REAL *at = m->row[row] + column * m->step[row];

    if (inside)
        return LOAD(at);
    return (VEC)PICKED_LOAD(at, 0, (uint64_t)column < (uint64_t)m->w ? m->lanes : 0);
}

/* Pixels [from, end) of dy's row. */
FLAT void NAME(meet_pixels)(const struct NAME(met) *m, int64_t from, int64_t end, int stride,
                            bool inside, VEC sum[9])
{
    const int keeps = KEEPS_PIXELS ? 3 - stride : 0;
    VEC e[3][3];

    UNROLL for (int i = 0; i < 3; i++)
        UNROLL for (int t = 0; t < keeps; t++)
            e[i][t] = NAME(met_pixel)(m, i, m->left + from * stride + t, inside);
    for (int64_t x = from; x < end; x++) {
        const REAL *dy = m->dy + x * m->pixel;
        const VEC g = inside ? LOAD(dy) : (VEC)PICKED_LOAD(dy, 0, m->lanes);

        UNROLL for (int i = 0; i < 3; i++) {
            UNROLL for (int t = keeps; t < 3; t++)
                e[i][t] = NAME(met_pixel)(m, i, m->left + x * stride + t, inside);
            UNROLL for (int t = 0; t < 3; t++)
                sum[3 * i + t] = MULTIPLY_ADD(e[i][t], g, sum[3 * i + t]);
            UNROLL for (int t = 0; t < keeps; t++)
                e[i][t] = e[i][t + stride];
        }
    }
}

/* The same, where columns beside the image are apart if masks take time. */
FLAT void NAME(meet_some)(const struct NAME(met) *m, int64_t from, int64_t end, int stride,
                          VEC sum[9])
{
    const int64_t before = least(m->left < 0 ? parts(-m->left, stride) : 0, end);
    const int64_t fit = m->w - 3 - m->left, behind = fit < 0 ? 0 : least(fit / stride + 1, end);

    if (MASKS_ARE_FREE || m->lanes < LANES) {
        NAME(meet_pixels)(m, from, end, stride, false, sum);
        return;
    }
    if (from < before)
        NAME(meet_pixels)(m, from, before, stride, false, sum);
    from = from < before ? before : from;
    if (from < behind)
        NAME(meet_pixels)(m, from, behind, stride, true, sum);
    from = from < behind ? behind : from;
    if (from < end)
        NAME(meet_pixels)(m, from, end, stride, false, sum);
}

/* Ends a chain; `first`: there was none before it. */
FLAT void NAME(end_sums)(struct NAME(nine) *n, bool first)
{
    UNROLL for (int t = 0; t < 9; t++) {
        n->total[t] = first ? n->sum[t] : n->total[t] + n->sum[t];
        n->sum[t] = (VEC){ 0 };
    }
}

/* A row of dy, whose first pixel is number `done` along the chains. */
FLAT void NAME(meet_whole_row)(const struct NAME(met) *m, int64_t done, int64_t width, int stride,
                               struct NAME(nine) *n)
{
    for (int64_t from = 0, end; from < width; from = end) {
        end = from + least(width - from, CHAIN - (done + from) % CHAIN);
        NAME(meet_some)(m, from, end, stride, n->sum);
        if ((done + end) % CHAIN == 0)
            NAME(end_sums)(n, done + end == CHAIN);
    }
}

/* Channels from `channel` on. */
static void NAME(store_sums)(const struct depthwise *d, int64_t channel, int64_t lanes,
                             const VEC total[9])
{
    REAL *to = (REAL *)d->result + channel * d->filter[0];

    for (int e = 0; e < 9; e += LANES) {
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++)
            v[l] = e + l < 9 ? total[e + l] : (VEC){ 0 };
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            if (l < lanes)
                MASKED_STORE(to + l * 9 + e, v[l], least(9 - e, LANES));
    }
}

/* NHWC. */
FLAT void NAME(sum_beside)(const struct depthwise *d, const struct piece *p, int stride,
                           const REAL *zeros)
{
    const int64_t line = d->w * d->channels, channel = p->channel;
    const REAL *dy = (const REAL *)d->filters + channel;
    struct NAME(met) m = {
        .pixel = d->channels, .left = -d->pad[1], .w = d->w, .lanes = p->channels
    };
    struct NAME(nine) n = { 0 };
    int64_t done = 0;

    for (int64_t image = 0; image < d->images; image++) {
        const REAL *from = (const REAL *)d->image + image * d->h * line + channel;

        for (int64_t y = 0; y < d->oh; y++, done += d->ow) {
            UNROLL for (int i = 0; i < 3; i++) {
                const int64_t at = y * stride - d->pad[0] + i;
                const bool inside = at >= 0 && at < d->h;

                m.row[i] = inside ? from + at * line : zeros;
                m.step[i] = inside ? d->channels : 0;
            }
            m.dy = dy + done * d->channels;
            NAME(meet_whole_row)(&m, done, d->ow, stride, &n);
        }
    }
    if (done % CHAIN)
        NAME(end_sums)(&n, done < CHAIN);
    NAME(store_sums)(d, channel, p->channels, n.total);
}

/* A row of w pixels of some channels, `plane` elements apart, becomes pixels of channels. */
FLAT void NAME(turn_row)(const REAL *row, int64_t plane, int64_t w, int64_t channels, REAL *to)
{
    int64_t i = 0;

    for (; i < w; i += LANES) {
        const int64_t count = least(w - i, LANES);
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++)
            v[l] = (VEC)PICKED_LOAD(row + l * plane + i, 0, l < channels ? count : 0);
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            STORE(to + (i + l) * LANES, v[l]);
    }
}

/* NCHW: rows are turned, those of the image into a ring of four. */
FLAT void NAME(sum_turned)(const struct depthwise *d, const struct piece *p, int stride,
                           REAL *zeros)
{
    const int64_t line = parts(d->w, LANES) * LANES * LANES, plane = d->h * d->w;
    const int64_t area = d->oh * d->ow;
    REAL *const row = zeros + LANES, *ring = row + parts(d->ow, LANES) * LANES * LANES;
    struct NAME(met) m = {
        .dy = row, .pixel = LANES, .left = -d->pad[1], .w = d->w, .lanes = LANES
    };
    struct NAME(nine) n = { 0 };
    int64_t done = 0;

    for (int64_t i = 0; i < d->images; i++) {
        const int64_t first = i * d->channels + p->channel;
        const REAL *image = (const REAL *)d->image + first * plane;
        const REAL *dy = (const REAL *)d->filters + first * area;
        int64_t next = 0;

        for (int64_t y = 0; y < d->oh; y++, done += d->ow) {
            const int64_t top = y * stride - d->pad[0];

            next = next < top ? top : next;
            for (; next < d->h && next < top + 3; next++)
                NAME(turn_row)(image + next * d->w, plane, d->w, p->channels,
                               ring + next % 4 * line);
            NAME(turn_row)(dy + y * d->ow, area, d->ow, p->channels, row);
            UNROLL for (int k = 0; k < 3; k++) {
                const bool inside = top + k >= 0 && top + k < d->h;

                m.row[k] = inside ? ring + (top + k) % 4 * line : zeros;
                m.step[k] = inside ? LANES : 0;
            }
            NAME(meet_whole_row)(&m, done, d->ow, stride, &n);
        }
    }
    if (done % CHAIN)
        NAME(end_sums)(&n, done < CHAIN);
    NAME(store_sums)(d, p->channel, p->channels, n.total);
}

FLAT void NAME(sum_piece)(const struct depthwise *d, const struct piece *p, int stride, REAL *room)
{
    STORE(room, (VEC){ 0 });
    if (!d->nhwc)
        NAME(sum_turned)(d, p, stride, room);
    else
        NAME(sum_beside)(d, p, stride, room);
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
