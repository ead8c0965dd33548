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
    REAL *sum, *total; /* [group][element][lane]: of the chain at hand, and of those before it */
    REAL *row; /* of dy */
};

/* Adds the products of `count` pixels. */
FLAT void NAME(meet)(const REAL *const *in, int64_t step, const REAL *dy, int64_t pixel,
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

/* Where the pixels lie that the first pixel of dy's row meets. */
static const REAL *NAME(pixel_of)(const struct NAME(gradient) *z, int64_t tap, int64_t slot)
{
    const struct NAME(piece) *x = &z->x;

    slot += tap / x->d->s * x->d->dilate[0];
    slot -= slot < x->p.slots ? 0 : x->p.slots;
    return x->ring + slot * x->p.row + x->at[tap % x->d->s];
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
    case n: NAME(meet)(in, step, dy, pixel, count, n, to); break;
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

/* Image after image; `next` and `into` as in the forward direction. */
static void NAME(meet_image)(struct NAME(gradient) *z, int64_t image)
{
    const struct depthwise *d = z->x.d;
    const int64_t seen = (d->r - 1) * d->dilate[0];
    int64_t next = 0, into = 0, first = 0;

    z->x.p.image = z->dy.p.image = image;
    for (int64_t y = 0; y < d->oh; y++) {
        if (next < y * d->stride[0])
            next = y * d->stride[0], into = first;
        for (; next <= y * d->stride[0] + seen; next++) {
            NAME(pack_row)(&z->x, next - d->pad[0], z->x.ring + into * z->x.p.row);
            into = into + 1 < z->x.p.slots ? into + 1 : 0;
        }
        NAME(pack_row)(&z->dy, y, z->row);
        NAME(meet_row)(z, (image * d->oh + y) * d->ow, first);
        first = (first + d->stride[0]) % z->x.p.slots;
    }
}

static void NAME(store_gradient)(const struct NAME(gradient) *z)
{
    const struct depthwise *d = z->x.d;
    const struct piece *p = &z->x.p;
    REAL *to = (REAL *)d->result + p->channel * d->filter[0];

    for (int64_t c = 0; c < p->channels; c++, to += d->filter[0])
        for (int64_t t = 0; t < z->taps; t++) {
            const REAL sum = z->total[(c / LANES * z->taps + t) * LANES + c % LANES];
            REAL *at = to + (z->first + t) / d->s * d->filter[1] +
                       (z->first + t) % d->s * d->filter[2];

            *at = d->add ? sum + *at : sum;
        }
}

static void NAME(run_gradient)(const struct depthwise *d, const struct depthwise_plan *plan,
                               int64_t task, void *room)
{
    const struct depthwise result = { .channels = d->channels,
                                      .h = d->oh,
                                      .w = d->ow,
                                      .stride = { 1, 1 },
                                      .nhwc = d->nhwc,
                                      .image = d->filters };
    const struct piece p = find_gradient(d, plan, LANES, task / plan->along);
    const int64_t pixel = p.groups * LANES, all = d->r * d->s, part = task % plan->along;
    int64_t at[LIMBER_SMALL_K];
    struct NAME(gradient) z = { .x = { .d = d, .p = p, .at = at, .step = d->stride[1] * pixel },
                                .dy = { .d = &result, .p = p } };

    for (int64_t s = 0; s < d->s; s++)
        at[s] = s * d->dilate[1] * pixel;
    z.first = part * all / plan->along;
    z.taps = (part + 1) * all / plan->along - z.first;
    z.sum = room;
    z.total = z.sum + z.taps * pixel;
    z.x.ring = z.total + z.taps * pixel;
    z.row = z.x.ring + p.slots * p.row;
    z.dy.p.length = d->ow;
    memset(z.sum, 0, (size_t)(z.taps * pixel) * sizeof *z.sum);
    for (int64_t image = 0; image < d->images; image++)
        NAME(meet_image)(&z, image);
    if (d->images * d->oh * d->ow % CHAIN)
        for (int64_t group = 0; group < p.groups; group++)
            NAME(end_chain)(&z, group, d->images * d->oh * d->ow < CHAIN);
    NAME(store_gradient)(&z);
}
