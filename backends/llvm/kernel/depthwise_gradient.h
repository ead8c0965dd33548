/* SPDX-License-Identifier: BSD-3-Clause
 * Gradient of a depthwise convolution's filters.  depthwise.h includes this file once for each
 * format.
 *
 * Lanes are channels.  The taps of a window are divided into blocks of 3 x 3, each called a "nine".
 * The nine sums of a block stay in registers while all pixels are added, two at a time; both pixels
 * share the columns that both windows read.  A sum runs through the pixels in the order of the
 * scheme `native`: in chains of CHAIN products, which are added in order.
 *
 * Larger windows have several nines; smaller ones do not store all nine sums.  Rows of seven taps
 * use the same code, as a "nine" of one row.  NHWC tensors are read in place.  NCHW tensors, and
 * tensors with several filters for a channel, are packed first. */

/* Pixels of the image and of dy that one block of taps (a "nine") reads, for one vector of
 * channels.  Distances are in bytes. */
struct NAME(input) {
    const struct depthwise *d;
    /* image: the first row of the image's plane; dy: the current row of dy; zeros: a vector of
     * zeros */
    const char *image, *dy, *zeros;
    int64_t pixel;                  /* distance between neighbouring columns */
    int64_t h; /* number of rows of a plane of the image; 0 if the plane is padding */
    some_lanes some;                /* the lanes that are channels */
    bool common; /* true if windows of neighbouring pixels of dy share columns of the image */
    /* The fields below describe block number `nine` of the window: 3 x 3 taps, or seven taps of a
     * row. */
    int64_t nine;
    /* row and column of the image that the block's first tap reads for pixel 0 of dy */
    int64_t up, left;
    /* [begin, end): the pixels of a row of dy for which no column that the block reads is
     * padding */
    int64_t begin, end;
    /* first, last: true if the first (or last) column that the block reads in a row is padding;
     * wide: true if no other column that it reads is padding */
    bool first, last;
    bool wide;
};

/* The sums of one block of taps (a "nine"): of the current chain, and the totals of earlier
 * chains. */
struct NAME(nine) {
    VEC sum[9], total[9];
};

/* Loads a vector of channels of the pixel at address `at`.  Where masks cost nothing, only the
 * lanes of `some` are read. */
FLAT VEC NAME(load_channels)(const struct NAME(input) *m, const char *at)
{
    return MASKS_ARE_FREE ? (VEC)LANES_LOAD(at, m->some) : LOAD(at);
}

/* Number of rows and columns of a block of taps, the stride, and whether windows of neighbouring
 * pixels share columns.  All are compile-time constants. */
struct NAME(tile) {
    int rows, columns, stride;
    bool common;
};

/* Adds the products of pixel x of dy to the sums; any of its columns may be padding.  row: rows of
 * the image.  step: distance in bytes between their columns, 0 for a row of zeros. */
FLAT void NAME(add_any_pixel)(const struct NAME(input) *m, const char *const row[3],
                              const int64_t step[3], int64_t x, struct NAME(tile) of, VEC sum[9])
{
    const VEC g = NAME(load_channels)(m, m->dy + x * m->pixel);

    UNROLL for (int t = 0; t < of.columns; t++) {
        const int64_t column = x * m->d->stride[1] + m->left + t * m->d->dilate[1];

        if ((uint64_t)column < (uint64_t)m->d->w)
            UNROLL for (int i = 0; i < of.rows; i++)
                sum[3 * i + t] = MULTIPLY_ADD(NAME(load_channels)(m, row[i] + column * step[i]), g,
                                              sum[3 * i + t]);
        else
            UNROLL for (int i = 0; i < of.rows; i++)
                sum[3 * i + t] = MULTIPLY_ADD((VEC){ 0 }, g, sum[3 * i + t]);
    }
}

/* Returns the address two columns further.  The asm keeps compilers from using an address register
 * for each column. */
FLAT const char *NAME(skip_two)(const char *at, int64_t step)
{
    at += 2 * step;
    __asm__("" : "+r"(at));
    return at;
}

/* Adds the products of two pixels of dy, whose windows share loads, to the sums.  first, last: the
 * first or the last column is padding. */
FLAT void NAME(add_two_pixels)(const struct NAME(input) *m, const char *at[3],
                               const int64_t step[3], const char **dy, struct NAME(tile) of,
                               bool first, bool last, VEC sum[9])
{
    const int stride = of.stride, columns = of.columns;
    const VEC g[2] = { NAME(load_channels)(m, *dy), NAME(load_channels)(m, *dy + m->pixel) };

    UNROLL for (int i = 0; i < of.rows; i++) {
        const char *from = at[i];

        UNROLL for (int c = 0; c < stride + columns; c++) {
            VEC e = { 0 };

            if (c > 2 && c % 2)
                from = NAME(skip_two)(from, step[i]);
            if (!(first && c == 0) && !(last && c == stride + columns - 1))
                e = NAME(load_channels)(m, from + (c < 3 ? c : 2 - c % 2) * step[i]);
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

/* Adds the products of the last pixel of a row, if the number of pixels is odd.  last: its last
 * column is padding. */
FLAT void NAME(add_one_pixel)(const struct NAME(input) *m, const char *const at[3],
                         const int64_t step[3], const char *dy, struct NAME(tile) of, bool last,
                              VEC sum[9])
{
    const VEC g = NAME(load_channels)(m, dy);

    UNROLL for (int i = 0; i < of.rows; i++)
        UNROLL for (int t = 0; t < of.columns; t++) {
            const char *from = t == of.columns - 1 && last ? m->zeros : at[i] + t * step[i];

            sum[3 * i + t] = MULTIPLY_ADD(NAME(load_channels)(m, from), g, sum[3 * i + t]);
        }
}

/* Division of a row's pixels into pairs: a first pair whose first column is padding (if `first`),
 * then `twos` pairs, and at the end one pixel (if `odd`) or a pair whose last column is padding (if
 * `last`). */
struct NAME(shape) {
    /* number of pairs; if negative, pixels whose columns are padding are added one by one */
    int64_t twos;
    bool first, last, odd;
};

/* Returns the division into pairs of pixels [x, end) of a row of dy. */
static struct NAME(shape) NAME(find_shape)(const struct NAME(input) *m, int64_t x, int64_t end)
{
    struct NAME(shape) to = { .first = m->first && x == 0,
                              .last = m->last && end == m->d->ow,
                              .odd = (end - x) % 2 };

    to.twos = m->wide ? (end - x) / 2 - to.first - (to.last && !to.odd) : -1;
    return to;
}

/* Adds to sum[], one sum per tap, the products of pixels [x, end) of a row of dy and the image's
 * pixels.  Two pixels of dy are added at a time where `shape` says so.  row: address of each row of
 * the image.  step: bytes from column to column, 0 for a row of zeros. */
FLAT void NAME(add_pixels)(const struct NAME(input) *m, const char *const row[3],
                           const int64_t step[3], int64_t x, int64_t end,
                           struct NAME(shape) shape, struct NAME(tile) of, VEC sum[9])
{
    const char *dy = m->dy + x * m->pixel, *at[3];

    if (shape.twos < 0)
        for (; x < least(end, m->begin); x++, dy += m->pixel)
            NAME(add_any_pixel)(m, row, step, x, of, sum);
    UNROLL for (int i = 0; i < of.rows; i++)
        at[i] = row[i] + (x * of.stride + m->left) * step[i];
    if (shape.twos < 0) {
        for (; x + 2 <= least(end, m->end); x += 2)
            NAME(add_two_pixels)(m, at, step, &dy, of, false, false, sum);
        for (; x < end; x++)
            NAME(add_any_pixel)(m, row, step, x, of, sum);
        return;
    }
    if (shape.first)
        NAME(add_two_pixels)(m, at, step, &dy, of, true, false, sum);
    for (int64_t twos = shape.twos; twos > 0; twos--)
        NAME(add_two_pixels)(m, at, step, &dy, of, false, false, sum);
    if (shape.odd)
        NAME(add_one_pixel)(m, at, step, dy, of, shape.last, sum);
    else if (shape.last)
        NAME(add_two_pixels)(m, at, step, &dy, of, false, true, sum);
}

/* Adds the sums of a chain to the totals, and sets the sums to zero.  first: there is no total
 * yet. */
FLAT void NAME(end_sums)(VEC total[9], VEC sum[9], bool first)
{
    UNROLL for (int t = 0; t < 9; t++) {
        total[t] = first ? sum[t] : total[t] + sum[t];
        sum[t] = (VEC){ 0 };
    }
}

/* Adds to *sums, the sums of one block of taps, the products of rows [y, end) of dy and the image.
 * After every CHAIN pixels, the chain's sums are added to the totals.  done: number of pixels that
 * were added before. */
FLAT void NAME(add_dy_rows)(struct NAME(input) *m, int64_t y, int64_t end, uint64_t done,
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
            NAME(add_pixels)(m, row, step, from, to, shape, of, sum);
            done += (uint64_t)(to - from);
            if (done % CHAIN == 0)
                NAME(end_sums)(sums->total, sum, done == CHAIN);
        }
    }
    UNROLL for (int t = 0; t < 9; t++)
        sums->sum[t] = sum[t];
}

/* Separate functions, so that each has its own register allocation.  Windows of two neighbouring
 * pixels share columns under strides of one and two without dilation. */
#define ADD_ROWS(of, rows, columns, stride, common) \
    static __attribute__((noinline)) void NAME(add_rows_##of)( \
        struct NAME(input) *m, int64_t y, int64_t end, int64_t done, struct NAME(nine) *sums) \
    { \
        NAME(add_dy_rows)(m, y, end, (uint64_t)done, \
                        (struct NAME(tile)){ rows, columns, stride, common }, sums); \
    }
ADD_ROWS(near, 3, 3, 1, true) ADD_ROWS(apart, 3, 3, 2, true) ADD_ROWS(other, 3, 3, 1, false)
ADD_ROWS(seven, 1, 7, 1, true)
#undef ADD_ROWS

/* Adds the products of rows [y, end) of dy to the sums of the current block of taps, by the code
 * for its geometry. */
FLAT void NAME(add_rows)(struct NAME(input) *m, int64_t y, int64_t end, int64_t done,
                         struct NAME(nine) *sums)
{
    (has_sevens(m->d)     ? NAME(add_rows_seven) :
     !m->common           ? NAME(add_rows_other) :
     m->d->stride[1] == 1 ? NAME(add_rows_near) :
                            NAME(add_rows_apart))(m, y, end, done, sums);
}

/* Sets the fields of *m that describe block of taps number `of` of a plane of the window: the
 * image's first pixel that it reads, and where it reads padding. */
static void NAME(set_up_nine)(struct NAME(input) *m, int64_t of)
{
    const struct depthwise *d = m->d;
    const int64_t rows = has_sevens(d) ? 1 : 3, columns = has_sevens(d) ? 7 : 3;
    const int64_t across = ceil_div(d->s, columns), stride = d->stride[1];
    int64_t beyond, inside;

    m->nine = of;
    m->up = of / across * rows * d->dilate[0] - d->pad[0];
    m->left = of % across * columns * d->dilate[1] - d->pad[1];
    beyond = (d->ow - 1) * stride + m->left + columns - d->w;
    inside = d->w + 1 - columns - m->left;
    m->first = m->left == -1;
    m->last = beyond == 1;
    m->wide = m->common && m->left >= -1 && beyond <= 1;
    m->begin = m->left < 0 ? ceil_div(-m->left, stride) : 0;
    m->end = m->common && inside > 0 ? ceil_div(inside, stride) : 0;
}

/* A vector of channels: its first channel, and the lanes [first, lanes) that belong to no other
 * vector.  Where masks are not free, the last vector overlaps the previous one, so that all of its
 * lanes are channels. */
struct NAME(group) {
    int64_t channel, first, lanes;
};

/* Returns the first channel and the lanes of the g-th vector of channels of a piece. */
static struct NAME(group) NAME(find_group)(const struct piece *p, int64_t g)
{
    const int64_t channel = g * LANES - p->shift, beyond = channel + LANES - p->channels;

    if (MASKS_ARE_FREE)
        return (struct NAME(group)){ p->channel + channel, channel < 0 ? -channel : 0,
                                     beyond < 0 ? LANES : LANES - beyond };
    return beyond > 0 ? (struct NAME(group)){ p->channel + channel - beyond, beyond, LANES } :
                        (struct NAME(group)){ p->channel + channel, 0, LANES };
}

/* Transposes `count` pixels of at most LANES channels, which are `plane` elements apart, so that
 * lanes become channels. */
static __attribute__((noinline)) void NAME(turn)(const REAL *from, int64_t plane, int64_t count,
                                                 int64_t channels, REAL *to)
{
    for (int64_t i = 0; i < count; i += LANES, to += LANES * LANES) {
        const int64_t some = count - i;
        const REAL *at = from + i;
        VEC v[LANES];

        UNROLL for (int l = 0; l < LANES; l++) {
            v[l] = some >= LANES ? LOAD(at) : (VEC)PICKED_LOAD(at, 0, some);
            /* for channels that do not exist, the last one is repeated */
            at += l + 1 < channels ? plane : 0;
            __asm__("" : "+r"(at)); /* keeps the compiler from spilling sixteen addresses */
        }
        TURN(VEC, v);
        UNROLL for (int l = 0; l < LANES; l++)
            STORE(to + l * LANES, v[l]);
    }
}

/* Gathers `count` pixels of `channels` channels, so that lanes become channels; further lanes
 * repeat the last one.  apart, pixel: distances between channels and between pixels, in
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

/* The state of a task.  It computes output j of the channels of p, in plane t of their windows,
 * and there the blocks of taps [first, end). */
struct NAME(gradient) {
    struct piece p;
    int64_t j, t, first, end;
    struct NAME(nine) *nines; /* [vector of channels][block of taps]: sums of the block's taps */
    REAL *room; /* memory for packed rows */
};

/* Adds the products of rows [y, end) of a plane of dy to all blocks of taps of the task, for
 * vector g of channels. */
FLAT void NAME(add_rows_to_nines)(const struct NAME(gradient) *x, struct NAME(input) *m, int64_t g,
                                  int64_t y, int64_t end, int64_t done)
{
    const char *const dy = m->dy;

    for (int64_t of = x->first; of < x->end; of++, m->dy = dy) {
        if (m->nine != of)
            NAME(set_up_nine)(m, of);
        NAME(add_rows)(m, y, end, done, &x->nines[g * (x->end - x->first) + of - x->first]);
    }
}

/* Adds the products of rows [y, end) of NHWC tensors, which are read in place, one vector of
 * channels after the other. */
static void NAME(add_rows_in_place)(const struct NAME(gradient) *x, struct NAME(input) *m,
                                    const REAL *image, const REAL *dy, int64_t y, int64_t end,
                                    int64_t done)
{
    for (int64_t g = 0; g < x->p.groups; g++) {
        const struct NAME(group) group = NAME(find_group)(&x->p, g);

        m->image = (const char *)(image + group.channel);
        m->dy = (const char *)(dy + done * m->d->channels + group.channel);
        m->some = lanes_between(group.first, group.lanes);
        NAME(add_rows_to_nines)(x, m, g, y, end, done);
    }
}

/* Packs rows [y, end) of dy and the rows of the image that their windows read, then adds their
 * products.  image: first element of the image's plane. */
static void NAME(add_packed_rows)(const struct NAME(gradient) *x, struct NAME(input) *m,
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
    REAL *const to = x->room + ceil_div((end - y) * d->ow, LANES) * LANES * LANES;

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
    NAME(add_rows_to_nines)(x, m, 0, y, end, done);
}

/* Stores the sums of block of taps number `of` of a window, for a vector of channels.  With
 * d->add, adds them to the result instead. */
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
    r = of / ceil_div(d->s, columns) * (has_sevens(d) ? 1 : 3);
    s = of % ceil_div(d->s, columns) * columns;
    to += r * d->filter[3] + s * d->filter[4];
    for (int64_t e = 0; e < (has_sevens(d) ? 7 : 9); e++)
        for (int64_t l = group.first;
             r + e / columns < d->r && s + e % columns < d->s && l < group.lanes; l++) {
            REAL *at = to + l * apart + e / columns * d->filter[3] + e % columns * d->filter[4];

            *at = d->add ? total[e][l] + *at : total[e][l];
        }
}

/* Runs one task of the filter gradient.  A task has plan->groups vectors of channels, one of
 * their `multiplier` outputs and one plane of the windows.  It computes an equal share,
 * 1/plan->along, of that plane's blocks of taps, over the products of all images' pixels. */
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
    struct NAME(input) m = { .d = d,
                             .nine = -1,
                             .common = shares_columns(d),
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
            (packed ? NAME(add_packed_rows) : NAME(add_rows_in_place))(
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
