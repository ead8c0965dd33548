/* SPDX-License-Identifier: BSD-3-Clause
 * The gradient of a depthwise convolution's filters, as depthwise.h includes it once for each
 * format.
 *
 * Lanes are channels.  A row of dy and the rows of the image that it meets are packed pixel after
 * pixel; each element of the window has a sum of its own in a register, and all of them meet one
 * pixel of dy after another.  So a sum runs over the pixels in the order of the scheme `native`: in
 * chains of CHAIN, which are added in order. */

/* Elements of the window whose sums lie in registers together. */
enum { NAME(most) = 9 };

struct NAME(gradient) {
    struct NAME(piece) x, dy; /* how rows of both are packed */
    int64_t first, taps; /* the elements of the window that are summed */
    int64_t plane, end; /* the planes of the window that these are in */
    int64_t output; /* of each channel */
    int64_t at[LIMBER_SMALL_K], down[LIMBER_SMALL_K]; /* of an element: from its plane's slot to
                                                         what dy's first pixel meets; slots */
    REAL *sum, *total; /* [group][element][lane]: of the chain at hand, and of those before it */
    REAL *row; /* of dy */
};

/* Adds the products of `count` pixels. */
FLAT void NAME(meet_some)(const REAL *const *in, int64_t step, const REAL *dy, int64_t pixel,
                     int64_t count, int n, REAL *to)
{
    VEC sum[NAME(most)];

    UNROLL for (int t = 0; t < n; t++)
        sum[t] = LOAD(to + t * LANES);
    for (int64_t i = 0; i < count; i++) {
        const VEC g = LOAD(dy + i * pixel);

        UNROLL for (int t = 0; t < n; t++)
            sum[t] = MULTIPLY_ADD(LOAD(in[t] + i * step), g, sum[t]);
    }
    UNROLL for (int t = 0; t < n; t++)
        STORE(to + t * LANES, sum[t]);
}

static void NAME(find_taps)(struct NAME(gradient) *z)
{
    const struct depthwise *d = z->x.d;
    const struct piece *p = &z->x.p;

    for (int64_t t = 0; t < d->t; t++)
        for (int64_t r = 0; r < d->r; r++)
            for (int64_t s = 0; s < d->s; s++) {
                const int64_t tap = (t * d->r + r) * d->s + s;

                z->at[tap] = t * p->slots * p->row + s * d->dilate[1] * p->groups * LANES;
                z->down[tap] = r * d->dilate[0];
            }
}

/* Where the pixels lie that the first pixel of dy's row meets. */
static const REAL *NAME(pixel_of)(const struct NAME(gradient) *z, int64_t tap, int64_t slot)
{
    const struct piece *p = &z->x.p;

    slot += z->down[tap];
    slot -= slot < p->slots ? 0 : p->slots;
    return z->x.ring + slot * p->row + z->at[tap];
}

/* Pixels [from, from + count) of the row, of one group. */
static void NAME(meet_all)(const struct NAME(gradient) *z, int64_t group, int64_t slot,
                           int64_t from, int64_t count)
{
    const int64_t step = z->x.step, pixel = z->x.p.groups * LANES;
    const REAL *dy = z->row + from * pixel + group * LANES;

    for (int64_t t = 0, n; t < z->taps; t += n) {
        const REAL *in[NAME(most)];
        REAL *to = z->sum + (group * z->taps + t) * LANES;

        n = least(z->taps - t, NAME(most));
        for (int64_t i = 0; i < n; i++)
            in[i] = NAME(pixel_of)(z, z->first + t + i, slot) + from * step + group * LANES;
#define CASE(n) \
    case n: NAME(meet_some)(in, step, dy, pixel, count, n, to); break;
        switch (n) {
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9)
        }
#undef CASE
    }
}

static void NAME(end_chain)(const struct NAME(gradient) *z, int64_t group, bool first)
{
    REAL *sum = z->sum + group * z->taps * LANES, *total = z->total + group * z->taps * LANES;

    for (int64_t t = 0; t < z->taps; t++, sum += LANES, total += LANES) {
        STORE(total, first ? LOAD(sum) : LOAD(total) + LOAD(sum));
        STORE(sum, (VEC){ 0 });
    }
}

/* A row of dy whose first pixel is number `done` along the chains. */
static void NAME(meet_row)(const struct NAME(gradient) *z, int64_t done, int64_t slot)
{
    const int64_t width = z->dy.p.length;

    for (int64_t group = 0; group < z->x.p.groups; group++)
        for (int64_t from = 0, count; from < width; from += count) {
            count = least(width - from, CHAIN - (done + from) % CHAIN);
            NAME(meet_all)(z, group, slot, from, count);
            if ((done + from + count) % CHAIN == 0)
                NAME(end_chain)(z, group, done + from + count == CHAIN);
        }
}

/* Plane after plane of all images; `next` and `into` as in the forward direction. */
static void NAME(meet_plane)(struct NAME(gradient) *z, int64_t plane)
{
    const struct depthwise *d = z->x.d;
    const int64_t seen = (d->r - 1) * d->dilate[0];
    int64_t next = 0, into = 0, first = 0;

    z->x.p.image = z->dy.p.image = plane / d->od;
    z->x.p.z = z->dy.p.z = plane % d->od;
    for (int64_t y = 0; y < d->oh; y++) {
        if (next < y * d->stride[0])
            next = y * d->stride[0], into = first;
        for (; next <= y * d->stride[0] + seen; next++) {
            for (int64_t t = z->plane; t < z->end; t++)
                NAME(pack_row)(&z->x, t, next - d->pad[0],
                               z->x.ring + (t * z->x.p.slots + into) * z->x.p.row);
            into = into + 1 < z->x.p.slots ? into + 1 : 0;
        }
        NAME(pack_row)(&z->dy, z->output, y, z->row);
        NAME(meet_row)(z, (plane * d->oh + y) * d->ow, first);
        first = (first + d->stride[0]) % z->x.p.slots;
    }
}

static void NAME(store_gradient)(const struct NAME(gradient) *z)
{
    const struct depthwise *d = z->x.d;
    const struct piece *p = &z->x.p;
    REAL *to = (REAL *)d->result + (p->channel * d->multiplier + z->output) * d->filter[0];

    for (int64_t c = 0; c < p->channels; c++, to += d->multiplier * d->filter[0])
        for (int64_t t = 0; t < z->taps; t++) {
            const REAL sum = z->total[(c / LANES * z->taps + t) * LANES + c % LANES];
            const int64_t row = (z->first + t) / d->s;
            REAL *at = to + row / d->r * d->filter[2] + row % d->r * d->filter[3] +
                       (z->first + t) % d->s * d->filter[4];

            *at = d->add ? sum + *at : sum;
        }
}

static void NAME(sum_gradient)(const struct depthwise *d, const struct depthwise_plan *plan,
                               int64_t task, void *room)
{
    const struct depthwise result = { .channels = d->channels,
                                      .inputs = d->multiplier,
                                      .depth = d->od,
                                      .h = d->oh,
                                      .w = d->ow,
                                      .t = 1,
                                      .stride = { 1, 1, 1 },
                                      .nhwc = d->nhwc,
                                      .image = d->filters };
    const int64_t block = task / plan->along, part = task % plan->along;
    const struct piece p = find_gradient(d, plan, false, LANES, block / d->multiplier);
    const int64_t pixel = p.groups * LANES, all = d->t * d->r * d->s;
    struct NAME(gradient) z = { .x = { .d = d, .p = p, .step = d->stride[1] * pixel },
                                .dy = { .d = &result, .p = p },
                                .output = block % d->multiplier };

    NAME(find_taps)(&z);
    z.first = part * all / plan->along;
    z.taps = (part + 1) * all / plan->along - z.first;
    z.plane = z.first / (d->r * d->s);
    z.end = parts(z.first + z.taps, d->r * d->s);
    z.sum = room;
    z.total = z.sum + z.taps * pixel;
    z.x.ring = z.total + z.taps * pixel;
    z.row = z.x.ring + p.planes * p.slots * p.row;
    z.dy.p.length = d->ow;
    memset(z.sum, 0, (size_t)(z.taps * pixel) * sizeof *z.sum);
    for (int64_t plane = 0; plane < d->images * d->od; plane++)
        NAME(meet_plane)(&z, plane);
    if (d->images * d->od * d->oh * d->ow % CHAIN)
        for (int64_t group = 0; group < p.groups; group++)
            NAME(end_chain)(&z, group, d->images * d->od * d->oh * d->ow < CHAIN);
    NAME(store_gradient)(&z);
}

static void NAME(run_gradient)(const struct depthwise *d, const struct depthwise_plan *plan,
                               int64_t task, void *room)
{
    if (is_direct(d, GROUP))
        NAME(sum_common)(d, plan, task, room);
    else
        NAME(sum_gradient)(d, plan, task, room);
}
