/* SPDX-License-Identifier: BSD-3-Clause
 * Gradient of a depthwise convolution's filters. depthwise.h includes this file once for each
 * format.
 *
 * Lanes are channels.  The nine sums of a block of 3 x 3 taps ("a nine") stay in registers while
 * all pixels are added, two at a time, which share the columns that both see.  A sum runs over the
 * pixels in the order of the scheme `native`: in chains of CHAIN, which are added in order.  Larger
 * windows have several nines, smaller ones leave some sums out.  Rows of seven taps use the same
 * code, one row at a time.  NHWC is read in place; rows of NCHW, and of several filters a channel,
 * are packed first. */

/* Pixels of the image and of dy that one nine of a vector of channels reads.  Distances are in
 * bytes. */
struct NAME(met) {
    const struct depthwise *d;
    const char *image, *dy, *zeros; /* image: its first row; dy: the current row */
    int64_t pixel;                  /* from column to column */
    int64_t h;                      /* rows of the image's plane; 0: the plane is padding */
    some_lanes some;                /* lanes that are channels */
    bool common;                    /* neighbouring pixels of dy share columns of the image */
    /* The fields below describe part `nine` of the window: 3 x 3 taps, or seven in a row. */
    int64_t nine;
    int64_t up, left;    /* row and column of the image at its first tap, for pixel 0 of dy */
    int64_t begin, end;  /* pixels of dy's row for which the part's columns are no padding */
    bool first, last; /* the first or the last column that a row sees is padding */
    bool wide;        /* at most these two columns are padding */
};

/* Sums of the current chain, and the total of the chains before it. */
struct NAME(nine) {
    VEC sum[9], total[9];
};

/* Loads a vector of channels of the pixel at `at`; lanes beyond the last channel are not read where
 * masks cost nothing. */
FLAT VEC NAME(met_lanes)(const struct NAME(met) *m, const char *at)
{
    return MASKS_ARE_FREE ? (VEC)LANES_LOAD(at, m->some) : LOAD(at);
}

/* Rows and columns of taps that are summed at once, the stride, and whether neighbouring pixels
 * share columns.  All are compile-time constants. */
struct NAME(tile) {
    int rows, columns, stride;
    bool common;
};

/* Adds one pixel x, which may see padding. row: rows of the image, with columns `step` apart. */
FLAT void NAME(meet_any)(const struct NAME(met) *m, const char *const row[3],
                         const int64_t step[3], int64_t x, struct NAME(tile) of, VEC sum[9])
{
    const VEC g = NAME(met_lanes)(m, m->dy + x * m->pixel);

    UNROLL for (int t = 0; t < of.columns; t++) {
        const int64_t column = x * m->d->stride[1] + m->left + t * m->d->dilate[1];

        if ((uint64_t)column < (uint64_t)m->d->w)
            UNROLL for (int i = 0; i < of.rows; i++)
                sum[3 * i + t] = MULTIPLY_ADD(NAME(met_lanes)(m, row[i] + column * step[i]), g,
                                              sum[3 * i + t]);
        else
            UNROLL for (int i = 0; i < of.rows; i++)
                sum[3 * i + t] = MULTIPLY_ADD((VEC){ 0 }, g, sum[3 * i + t]);
    }
}

/* Moves two columns on.  The asm keeps compilers from giving each column an address register. */
FLAT const char *NAME(skip_two)(const char *at, int64_t step)
{
    at += 2 * step;
    __asm__("" : "+r"(at));
    return at;
}

/* Adds two pixels, which share loads. first, last: that column is padding. */
FLAT void NAME(meet_two)(const struct NAME(met) *m, const char *at[3], const int64_t step[3],
                         const char **dy, struct NAME(tile) of, bool first, bool last,
                         VEC sum[9])
{
    const int stride = of.stride, columns = of.columns;
    const VEC g[2] = { NAME(met_lanes)(m, *dy), NAME(met_lanes)(m, *dy + m->pixel) };

    UNROLL for (int i = 0; i < of.rows; i++) {
        const char *from = at[i];

        UNROLL for (int c = 0; c < stride + columns; c++) {
            VEC e = { 0 };

            if (c > 2 && c % 2)
                from = NAME(skip_two)(from, step[i]);
            if (!(first && c == 0) && !(last && c == stride + columns - 1))
                e = NAME(met_lanes)(m, from + (c < 3 ? c : 2 - c % 2) * step[i]);
            if (c < columns)
                sum[3 * i + c] = MULTIPLY_ADD(e, g[0], sum[3 * i + c]);
            if (c >= stride)
                sum[3 * i + c - stride] = MULTIPLY_ADD(e, g[1], sum[3 * i + c - stride]);
        }
        at[i] = columns > 3 ? NAME(skip_two)(at[i], step[i]) :
                stride == 2 ? NAME(skip_two)(from, step[i]) :
                              from;
    }
    *dy += 2 * m->pixel;
}

/* Adds the last pixel, which is left over if their number is odd. last: its last column is
 * padding. */
FLAT void NAME(meet_one)(const struct NAME(met) *m, const char *const at[3],
                         const int64_t step[3], const char *dy, struct NAME(tile) of, bool last,
                         VEC sum[9])
{
    const VEC g = NAME(met_lanes)(m, dy);

    UNROLL for (int i = 0; i < of.rows; i++)
        UNROLL for (int t = 0; t < of.columns; t++) {
            const char *from = t == of.columns - 1 && last ? m->zeros : at[i] + t * step[i];

            sum[3 * i + t] = MULTIPLY_ADD(NAME(met_lanes)(m, from), g, sum[3 * i + t]);
        }
}

/* How the pixels of a row are divided: a first pair, `twos` pairs, and one or two pixels at the
 * end. */
struct NAME(shape) {
    int64_t twos; /* negative: one by one where columns are padding */
    bool first, last, odd;
};

/* Divides pixels [x, end) of dy's row. */
static struct NAME(shape) NAME(find_shape)(const struct NAME(met) *m, int64_t x, int64_t end)
{
    struct NAME(shape) to = { .first = m->first && x == 0,
                              .last = m->last && end == m->d->ow,
                              .odd = (end - x) % 2 };

    to.twos = m->wide ? (end - x) / 2 - to.first - (to.last && !to.odd) : -1;
    return to;
}

/* Adds pixels [x, end) of dy's row to the sums: in pairs, as `shape` says, and one by one where
 * columns are padding. */
FLAT void NAME(meet_pixels)(const struct NAME(met) *m, const char *const row[3],
                            const int64_t step[3], int64_t x, int64_t end,
                            struct NAME(shape) shape, struct NAME(tile) of, VEC sum[9])
{
    const char *dy = m->dy + x * m->pixel, *at[3];

    if (shape.twos < 0)
        for (; x < least(end, m->begin); x++, dy += m->pixel)
            NAME(meet_any)(m, row, step, x, of, sum);
    UNROLL for (int i = 0; i < of.rows; i++)
        at[i] = row[i] + (x * of.stride + m->left) * step[i];
    if (shape.twos < 0) {
        for (; x + 2 <= least(end, m->end); x += 2)
            NAME(meet_two)(m, at, step, &dy, of, false, false, sum);
        for (; x < end; x++)
            NAME(meet_any)(m, row, step, x, of, sum);
        return;
    }
    if (shape.first)
        NAME(meet_two)(m, at, step, &dy, of, true, false, sum);
    for (int64_t twos = shape.twos; twos > 0; twos--)
        NAME(meet_two)(m, at, step, &dy, of, false, false, sum);
    if (shape.odd)
        NAME(meet_one)(m, at, step, dy, of, shape.last, sum);
    else if (shape.last)
        NAME(meet_two)(m, at, step, &dy, of, false, true, sum);
}

/* Ends a chain. first: it is the first one, so there is no total yet. */
FLAT void NAME(end_sums)(VEC total[9], VEC sum[9], bool first)
{
    UNROLL for (int t = 0; t < 9; t++) {
        total[t] = first ? sum[t] : total[t] + sum[t];
        sum[t] = (VEC){ 0 };
    }
}

/* Adds rows [y, end) of dy.  The first pixel is number `done` along the chains. */
FLAT void NAME(meet_rows)(struct NAME(met) *m, int64_t y, int64_t end, uint64_t done,
                          struct NAME(tile) of, struct NAME(nine) *sums)
{
    const struct depthwise *d = m->d;
    const int64_t pixel = m->pixel, width = d->ow, line = d->w * pixel, h = m->h;
    const int64_t down = of.common ? of.stride : d->stride[0];
    const int64_t below = of.common ? 1 : d->dilate[0];
    const struct NAME(shape) whole = NAME(find_shape)(m, 0, width);
    int64_t top = y * down + m->up;
    const char *at = m->image + top * line;
    VEC sum[9];

    UNROLL for (int t = 0; t < 9; t++)
        sum[t] = sums->sum[t];
    for (; y < end; y++, top += down, at += down * line, m->dy += width * pixel) {
        const char *row[3];
        int64_t step[3];

        UNROLL for (int i = 0; i < of.rows; i++) {
            const bool inside = (uint64_t)(top + i * below) < (uint64_t)h;

            row[i] = __builtin_unpredictable(inside) ? at + i * below * line : m->zeros;
            step[i] = __builtin_unpredictable(inside) ? pixel : 0;
        }
        for (int64_t from = 0, to; from < width; from = to) {
            struct NAME(shape) shape = whole;

            to = from + (int64_t)(CHAIN - done % CHAIN);
            to = to < width ? to : width;
            if (to - from < width)
                shape = NAME(find_shape)(m, from, to);
            NAME(meet_pixels)(m, row, step, from, to, shape, of, sum);
            done += (uint64_t)(to - from);
            if (done % CHAIN == 0)
                NAME(end_sums)(sums->total, sum, done == CHAIN);
        }
    }
    UNROLL for (int t = 0; t < 9; t++)
        sums->sum[t] = sum[t];
}

/* Separate functions, for register allocation.  Two pixels share columns if the stride is one or
 * two, without dilation. */
#define MEET(of, rows, columns, stride, common) \
    static __attribute__((noinline)) void NAME(meet_##of)( \
        struct NAME(met) *m, int64_t y, int64_t end, int64_t done, struct NAME(nine) *sums) \
    { \
        NAME(meet_rows)(m, y, end, (uint64_t)done, \
                        (struct NAME(tile)){ rows, columns, stride, common }, sums); \
    }
MEET(near, 3, 3, 1, true) MEET(apart, 3, 3, 2, true) MEET(other, 3, 3, 1, false)
MEET(seven, 1, 7, 1, true)
#undef MEET

/* Adds rows [y, end) of dy to the sums of the window's current nine, by the code for its geometry.
 */
FLAT void NAME(meet)(struct NAME(met) *m, int64_t y, int64_t end, int64_t done,
                     struct NAME(nine) *sums)
{
    (has_sevens(m->d)     ? NAME(meet_seven) :
     !m->common           ? NAME(meet_other) :
     m->d->stride[1] == 1 ? NAME(meet_near) :
                            NAME(meet_apart))(m, y, end, done, sums);
}

/* Sets up nine number `of` of a window's plane. */
static void NAME(find_nine)(struct NAME(met) *m, int64_t of)
{
    const struct depthwise *d = m->d;
    const int64_t rows = has_sevens(d) ? 1 : 3, columns = has_sevens(d) ? 7 : 3;
    const int64_t across = parts(d->s, columns), stride = d->stride[1];
    int64_t beyond, inside;

    m->nine = of;
    m->up = of / across * rows * d->dilate[0] - d->pad[0];
    m->left = of % across * columns * d->dilate[1] - d->pad[1];
    beyond = (d->ow - 1) * stride + m->left + columns - d->w;
    inside = d->w + 1 - columns - m->left;
    m->first = m->left == -1;
    m->last = beyond == 1;
    m->wide = m->common && m->left >= -1 && beyond <= 1;
    m->begin = m->left < 0 ? parts(-m->left, stride) : 0;
    m->end = m->common && inside > 0 ? parts(inside, stride) : 0;
}

/* Vector g of a piece's channels: its first channel, and lanes [first, lanes), which belong to no
 * other vector.  Without free masks the last vector overlaps the one before, so that all lanes are
 * channels. */
struct NAME(group) {
    int64_t channel, first, lanes;
};

/* Vector g of a piece. */
static struct NAME(group) NAME(find_group)(const struct piece *p, int64_t g)
{
    const int64_t channel = g * LANES - p->shift, beyond = channel + LANES - p->channels;

    if (MASKS_ARE_FREE)
        return (struct NAME(group)){ p->channel + channel, channel < 0 ? -channel : 0,
                                     beyond < 0 ? LANES : LANES - beyond };
    return beyond > 0 ? (struct NAME(group)){ p->channel + channel - beyond, beyond, LANES } :
                        (struct NAME(group)){ p->channel + channel, 0, LANES };
}

/* Transposes `count` pixels of at most LANES channels, which are `plane` elements apart. */
static __attribute__((noinline)) void NAME(turn)(const REAL *from, int64_t plane, int64_t count,
                                                 int64_t channels, REAL *to)
{
    for (int64_t i = 0; i < count; i += LANES, to += LANES * LANES) {
        const int64_t some = count - i;
        const REAL *at = from + i;
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++) {
            v[l] = some >= LANES ? LOAD(at) : (VEC)PICKED_LOAD(at, 0, some);
            at += l + 1 < channels ? plane : 0; /* the last channel is repeated */
            __asm__("" : "+r"(at)); /* else sixteen addresses are spilled */
        }
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            STORE(to + l * LANES, v[l]);
    }
}

/* Gathers `count` pixels of LANES channels, with these distances of channels and pixels in
 * elements. */
static void NAME(gather)(const REAL *from, int64_t apart, int64_t pixel, int64_t count,
                         int64_t channels, REAL *to)
{
    if (pixel == 1) {
        NAME(turn)(from, apart, count, channels, to);
        return;
    }
    for (int64_t i = 0; i < count; i++, from += pixel, to += LANES)
        for (int64_t l = 0; l < LANES; l++)
            to[l] = from[least(l, channels - 1) * apart];
}

/* A task: output j of the channels of p, plane t of their windows, of its nines those in
 * [first, end). */
struct NAME(gradient) {
    struct piece p;
    int64_t j, t, first, end;
    struct NAME(nine) *nines; /* sums [vector of channels][nine] */
    REAL *room; /* memory for packed rows */
};

/* Adds rows [y, end) of a plane of dy to all nines of the task. */
FLAT void NAME(meet_nines)(const struct NAME(gradient) *x, struct NAME(met) *m, int64_t g,
                           int64_t y, int64_t end, int64_t done)
{
    const char *const dy = m->dy;

    for (int64_t of = x->first; of < x->end; of++, m->dy = dy) {
        if (m->nine != of)
            NAME(find_nine)(m, of);
        NAME(meet)(m, y, end, done, &x->nines[g * (x->end - x->first) + of - x->first]);
    }
}

/* Accumulates the gradient of filters from rows of image and dy that are read in place (NHWC), one
 * vector of channels after the other. */
static void NAME(meet_beside)(const struct NAME(gradient) *x, struct NAME(met) *m,
                              const REAL *image, const REAL *dy, int64_t y, int64_t end,
                              int64_t done)
{
    for (int64_t g = 0; g < x->p.groups; g++) {
        const struct NAME(group) group = NAME(find_group)(&x->p, g);

        m->image = (const char *)(image + group.channel);
        m->dy = (const char *)(dy + done * m->d->channels + group.channel);
        m->some = lanes_between(group.first, group.lanes);
        NAME(meet_nines)(x, m, g, y, end, done);
    }
}

/* Packs the rows of image and dy, then adds them. image: first element of the channels' plane. */
static void NAME(meet_packed)(const struct NAME(gradient) *x, struct NAME(met) *m,
                              const REAL *image, const REAL *dy, int64_t y, int64_t end,
                              int64_t done)
{
    const struct depthwise *d = m->d;
    const int64_t area = d->oh * d->ow, plane = done / area;
    const int64_t outputs = d->channels * d->multiplier;
    const int64_t output = x->p.channel * d->multiplier + x->j;
    const int64_t pixel = d->nhwc ? d->channels : 1, top = y * d->stride[0] - d->pad[0];
    const int64_t last = (end - 1) * d->stride[0] - d->pad[0] + (d->r - 1) * d->dilate[0] + 1;
    const int64_t begin = least(top < 0 ? 0 : top, m->h), rows = least(last, m->h) - begin;
    REAL *const to = x->room + parts((end - y) * d->ow, LANES) * LANES * LANES;

    if (rows > 0)
        NAME(gather)(image + x->p.channel * (d->nhwc ? 1 : d->depth * d->h * d->w) +
                         begin * d->w * pixel,
                     d->nhwc ? 1 : d->depth * d->h * d->w, pixel, rows * d->w, x->p.channels, to);
    if (d->nhwc)
        dy += done * outputs + output;
    else
        dy += ((plane / d->od * outputs + output) * d->od + plane % d->od) * area + y * d->ow;
    NAME(gather)(dy, d->multiplier * (d->nhwc ? 1 : d->od * area), d->nhwc ? outputs : 1,
                 (end - y) * d->ow, x->p.channels, x->room);
    m->dy = (const char *)x->room;
    m->image = (const char *)(to - begin * d->w * LANES);
    NAME(meet_nines)(x, m, 0, y, end, done);
}

/* Stores the sums of nine number `of` of a window, for the channels of a group; with d->add, adds
 * them to the result. */
static void NAME(store_nine)(const struct NAME(gradient) *x, const struct depthwise *d,
                             struct NAME(group) group, int64_t of, const VEC total[9])
{
    const int64_t apart = d->multiplier * d->filter[0];
    REAL *to = (REAL *)d->result + (group.channel * d->multiplier + x->j) * d->filter[0] +
               x->t * d->filter[2];
    const int64_t columns = has_sevens(d) ? 7 : 3;
    int64_t r, s;

    if (d->r == 3 && d->s == 3 && !d->add) {
        for (int e = 0; e < 9; e += LANES) {
            VEC v[LANES];

            UNROLL for (int l = 0; l < LANES; l++)
                v[l] = e + l < 9 ? total[e + l] : (VEC){ 0 };
            TURN(VEC, v);
            UNROLL for (int l = 0; l < LANES; l++)
                if (l >= group.first && l < group.lanes)
                    MASKED_STORE(to + l * apart + e, v[l], least(9 - e, LANES));
        }
        return;
    }
    r = of / parts(d->s, columns) * (has_sevens(d) ? 1 : 3);
    s = of % parts(d->s, columns) * columns;
    to += r * d->filter[3] + s * d->filter[4];
    for (int64_t e = 0; e < (has_sevens(d) ? 7 : 9); e++)
        for (int64_t l = group.first;
             r + e / columns < d->r && s + e % columns < d->s && l < group.lanes; l++) {
            REAL *at = to + l * apart + e / columns * d->filter[3] + e % columns * d->filter[4];

            *at = d->add ? total[e][l] + *at : total[e][l];
        }
}

/* Runs one task of the filter gradient.  A window's taps are divided into nines: blocks of 3 x 3
 * taps or rows of seven (nines_of).  A task has plan->groups vectors of channels, one of their
 * `multiplier` outputs, one plane of the windows, and an equal share, 1 / plan->along, of that
 * plane's nines, which it sums over the pixels of all images. */
static void NAME(run_gradient)(const struct depthwise *d, const struct depthwise_plan *plan,
                               int64_t task, void *room)
{
    const int64_t nines = nines_of(d), part = task % plan->along;
    const int64_t window = task / plan->along, block = window / d->t / d->multiplier;
    const int64_t area = d->oh * d->ow, all = d->images * d->od * area;
    const bool packed = !is_beside(d);
    struct NAME(gradient) x = { .p = find_gradient(d, plan, LANES, block),
                                .j = window / d->t % d->multiplier,
                                .t = window % d->t,
                                .first = part * nines / plan->along,
                                .end = (part + 1) * nines / plan->along,
                                .nines = (void *)((REAL *)room + LANES) };
    const int64_t each = x.end - x.first, count = x.p.groups * each;
    struct NAME(met) m = { .d = d,
                           .nine = -1,
                           .common = is_common(d),
                           .zeros = room,
                           .pixel = (packed ? LANES : d->channels) * (int64_t)sizeof(REAL),
                           .some = lanes_between(0, LANES) };

    STORE((REAL *)room, (VEC){ 0 });
    memset(x.nines, 0, (size_t)count * sizeof *x.nines);
    x.room = (REAL *)(x.nines + count);
    for (int64_t plane = 0; plane < d->images * d->od; plane++) {
        const int64_t z = plane_of(d, plane % d->od, x.t);
        const bool inside = z >= 0 && z < d->depth;
        const REAL *image = (const REAL *)d->image +
                            row_of(d, plane / d->od, 0, inside ? z : 0, 0);

        m.h = inside ? d->h : 0;
        for (int64_t y = 0; y < d->oh; y += plan->height)
            (packed ? NAME(meet_packed) : NAME(meet_beside))(
                &x, &m, image, d->filters, y, least(d->oh, y + plan->height),
                plane * area + y * d->ow);
    }
    for (int64_t g = 0; g < x.p.groups; g++) {
        const struct NAME(group) group =
            packed ? (struct NAME(group)){ x.p.channel, 0, x.p.channels } :
                     NAME(find_group)(&x.p, g);

        for (int64_t of = x.first; of < x.end; of++) {
            struct NAME(nine) *nine = &x.nines[g * each + of - x.first];

            if (all % CHAIN)
                NAME(end_sums)(nine->total, nine->sum, all < CHAIN);
            NAME(store_nine)(&x, d, group, of, nine->total);
        }
    }
}
