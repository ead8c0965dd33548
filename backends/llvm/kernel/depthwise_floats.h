/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolutions of bytes as those of binary32, where no instruction multiplies four bytes
 * at once: at most 256 products of bytes have a sum that binary32 holds.  Blocks of channels and
 * rows become floats in a near cache, with the rows and planes that are padding, and their results
 * integers again. */

enum { BLOCK = 32 }; /* channels that lie side by side of which a block is */

typedef float floats __attribute__((vector_size(VECTOR)));
typedef float unaligned_floats __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(VECTOR)));
typedef int32_t unaligned_integers __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef int8_t signed_bytes __attribute__((vector_size(VECTOR / 4), aligned(1), may_alias));
typedef uint8_t unsigned_bytes __attribute__((vector_size(VECTOR / 4), aligned(1), may_alias));

/* is_unsigned and, where it is known, count are constants. */
FLAT void make_some(const uint8_t *from, bool is_unsigned, int64_t count, float *to)
{
    int64_t i = 0;

    for (; i + VECTOR / 4 <= count; i += VECTOR / 4) {
        const floats f =
            is_unsigned ?
                __builtin_convertvector(*(const unsigned_bytes *)(from + i), floats) :
                __builtin_convertvector(*(const signed_bytes *)(from + i), floats);

        *(unaligned_floats *)(to + i) = f;
    }
    for (; i < count; i++)
        to[i] = is_unsigned ? from[i] : (int8_t)from[i];
}

/* `runs` runs of bytes, `step` bytes apart, side by side. */
FLAT void make_runs(const uint8_t *from, bool is_unsigned, int64_t step, int64_t runs,
                    int64_t count, float *to)
{
    for (int64_t r = 0; r < runs; r++)
        make_some(from + r * step, is_unsigned, count, to + r * count);
}

static void make_floats(const uint8_t *from, bool is_unsigned, int64_t step, int64_t runs,
                        int64_t count, float *to)
{
    if (is_unsigned && count == BLOCK)
        make_runs(from, true, step, runs, BLOCK, to);
    else if (is_unsigned)
        make_runs(from, true, step, runs, count, to);
    else if (count == BLOCK)
        make_runs(from, false, step, runs, BLOCK, to);
    else
        make_runs(from, false, step, runs, count, to);
}

FLAT void make_some_integers(const float *from, int64_t count, int32_t *to)
{
    int64_t i = 0;

    for (; i + VECTOR / 4 <= count; i += VECTOR / 4)
        *(unaligned_integers *)(to + i) =
            __builtin_convertvector((floats) * (const unaligned_floats *)(from + i), integers);
    for (; i < count; i++)
        to[i] = (int32_t)from[i];
}

/* The other way round; runs of integers lie `step` apart. */
static void make_integers(const float *from, int64_t runs, int64_t count, int64_t step,
                          int32_t *to)
{
    if (count == BLOCK)
        for (int64_t r = 0; r < runs; r++)
            make_some_integers(from + r * BLOCK, BLOCK, to + r * step);
    else
        for (int64_t r = 0; r < runs; r++)
            make_some_integers(from + r * count, count, to + r * step);
}

/* So many channels and rows of a plane of the result, and all that they see, as an image of its
 * own. */
static struct depthwise block_of(const struct depthwise *d, int64_t channels, int64_t height)
{
    const int64_t outputs = channels * d->multiplier;
    struct depthwise f = *d;

    f.size = 4;
    f.images = f.od = 1;
    f.channels = channels;
    f.depth = (d->t - 1) * d->dilate[2] + 1;
    f.h = (height - 1) * d->stride[0] + (d->r - 1) * d->dilate[0] + 1;
    f.oh = height;
    f.pad[0] = f.pad[2] = 0;
    f.to[0] = f.to[2] = outputs * height * d->ow;
    f.to[1] = d->nhwc ? 1 : height * d->ow;
    f.to[4] = d->nhwc ? outputs : 1;
    f.to[3] = d->ow * f.to[4];
    return f;
}

/* Floats of the image, of filters and of the result. */
static int64_t floats_of(const struct depthwise *f, int64_t of[3])
{
    of[0] = parts(f->depth * f->h * f->w * f->channels, LINE) * LINE;
    of[1] = parts(f->channels * f->multiplier * f->filter[0], LINE) * LINE;
    of[2] = parts(f->channels * f->multiplier * f->oh * f->ow, LINE) * LINE;
    return of[0] + of[1] + of[2];
}

/* What a channel and so many rows of it take; these may be more than any memory has. */
static double bytes_of(const struct depthwise *d, double height)
{
    const double rows = (height - 1) * (double)d->stride[0] +
                        (double)(d->r - 1) * (double)d->dilate[0] + 1;
    const double planes = (double)(d->t - 1) * (double)d->dilate[2] + 1;

    return 4 * (rows * planes * (double)d->w + height * (double)(d->ow * d->multiplier));
}

/* A block stays in a near cache; threads share out what there is. */
static bool cut_bytes(const struct depthwise *d, int workers, struct depthwise_plan *plan)
{
    const int64_t enough = workers > 1 ? 4 * (int64_t)workers : 1;
    int64_t channels = d->nhwc ? least(d->channels, BLOCK) : 1, tasks, along, shared;

    *plan = (struct depthwise_plan){ .height = d->oh };
    while (plan->height > 1 && (double)channels * bytes_of(d, (double)plan->height) > NEAR)
        plan->height = (plan->height + 1) / 2;
    if ((double)channels * bytes_of(d, (double)plan->height) > MOST_ROOM)
        return false;
    if (!d->nhwc && plan->height == d->oh)
        channels = least(d->channels, (int64_t)(NEAR / bytes_of(d, (double)d->oh)));
    channels = channels < 1 ? 1 : channels;
    plan->blocks = parts(d->channels, channels);
    while (d->images * d->od * plan->blocks < enough && channels > VECTOR / 4) {
        channels = parts(channels, 2);
        plan->blocks = parts(d->channels, channels);
    }
    plan->groups = channels;
    tasks = d->images * d->od * plan->blocks;
    along = parts(d->oh, plan->height);
    shared = least(parts(enough, tasks), parts(d->oh, SHORTEST));
    plan->height = parts(d->oh, along > shared ? along : shared);
    plan->along = parts(d->oh, plan->height);
    plan->tasks = tasks * plan->along;
    for (int i = 0; i < 4; i++) { /* the last block, and the last rows, may take other ways */
        const int64_t last = d->channels - (plan->blocks - 1) * channels;
        const struct depthwise f =
            block_of(d, i & 1 ? last : channels,
                     i & 2 ? d->oh - (plan->along - 1) * plan->height : plan->height);
        struct depthwise_plan of;
        int64_t floats[3];
        size_t room;

        if (!cut(&f, 1, &of))
            return false;
        room = (size_t)floats_of(&f, floats) * 4 + of.room;
        plan->room = room > plan->room ? room : plan->room;
    }
    return plan->room <= MOST_ROOM;
}

/* Rows [y, y + rows) of a plane of some channels (NCHW: of one); zeros beside the image. */
static void fill_plane(const struct depthwise *d, int64_t image, int64_t channel, int64_t channels,
                       int64_t z, int64_t y, int64_t rows, float *to)
{
    const int64_t row = d->nhwc ? channels * d->w : d->w;
    const int64_t begin = z < 0 || z >= d->depth ? rows : least(y < 0 ? -y : 0, rows);
    const int64_t below = least(y < d->h ? d->h - y : 0, rows), end = below < begin ? begin : below;
    const uint8_t *from;

    memset(to, 0, (size_t)(begin * row) * sizeof *to);
    memset(to + end * row, 0, (size_t)((rows - end) * row) * sizeof *to);
    if (begin == end)
        return;
    from = (const uint8_t *)d->image + row_of(d, image, channel, z, y + begin);
    to += begin * row;
    if (!d->nhwc || channels == d->channels)
        make_floats(from, d->is_unsigned, 0, 1, (end - begin) * row, to);
    else
        make_floats(from, d->is_unsigned, d->channels, (end - begin) * d->w, channels, to);
}

static void i8_run(const struct depthwise *d, const struct depthwise_plan *plan, int64_t task,
                   float *room)
{
    const int64_t y = task % plan->along * plan->height, rest = task / plan->along;
    const int64_t channel = rest % plan->blocks * plan->groups, plane = rest / plan->blocks;
    const int64_t channels = least(plan->groups, d->channels - channel);
    const int64_t height = least(plan->height, d->oh - y), image = plane / d->od;
    const int64_t top = y * d->stride[0] - d->pad[0];
    const int64_t front = plane % d->od * d->stride[2] - d->pad[2];
    const int64_t outputs = channels * d->multiplier, taps = d->filter[0];
    struct depthwise f = block_of(d, channels, height);
    struct depthwise_plan of;
    float *to = room;
    int64_t count[3];
    int32_t *result = (int32_t *)d->result + image * d->to[0] + plane % d->od * d->to[2] +
                      channel * d->multiplier * d->to[1] + y * d->to[3];

    (void)floats_of(&f, count);
    f.image = room;
    f.filters = room + count[0];
    f.result = room + count[0] + count[1];
    for (int64_t c = 0; c < (d->nhwc ? 1 : channels); c++)
        for (int64_t z = 0; z < f.depth; z++, to += f.h * f.w * (d->nhwc ? channels : 1))
            fill_plane(d, image, channel + c, d->nhwc ? channels : 1, front + z, top, f.h, to);
    make_floats((const uint8_t *)d->filters + channel * d->multiplier * taps, false, 0, 1,
                outputs * taps, (float *)f.filters);
    (void)cut(&f, 1, &of);
    for (int64_t i = 0; i < of.tasks; i++)
        f32_run(&f, &of, i, room + count[0] + count[1] + count[2]);
    if (!d->nhwc)
        make_integers(f.result, outputs, height * d->ow, d->to[1], result);
    else if (outputs == d->to[4])
        make_integers(f.result, 1, height * d->ow * outputs, 0, result);
    else
        make_integers(f.result, height * d->ow, outputs, d->to[4], result);
}
