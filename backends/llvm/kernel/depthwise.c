/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolution without a product of matrices.  Built once for each instruction set, by the
 * compiler that makes prebuilt kernels. */
#include "backends/llvm/kernel/kernel.h"

#if !defined(__aarch64__)
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <string.h>

#define FLAT static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

enum {
    TILE = 8,       /* vectors of a row of the result that are summed at once */
    OUTPUTS = 4,    /* outputs of a channel whose filters are packed at once */
    ACROSS = 2048,  /* columns of the result that a piece has at most, NCHW */
    ALONG = 128,    /* and where lanes are channels */
#if defined(__AVX2__) && !defined(__AVX512F__)
    SHORT = 128,    /* columns of a result whose rows are short */
#else
    SHORT = 64,
#endif
    SHORTEST = 8,   /* rows that a piece has at least where threads share an image */
    GROUPS = 64,    /* vectors of channels that are packed at once */
    NEAR = 256 << 10,   /* bytes of packed rows that stay in a near cache */
    MOST_ROOM = 1 << 22,    /* bytes that a piece may pack */
    CHAIN = 256,    /* products of a sum of the scheme `native` */
    BYTES_TOGETHER = 4, /* that an instruction multiplies at once, with VNNI */
    TWINS = 4,      /* vectors of two rows of the result that are summed at once */
    LINE = 64
};
#if defined(__AVX512F__)
enum { MASKS_ARE_FREE = true };
#else
enum { MASKS_ARE_FREE = false };
#endif
/* Rows and columns of the result that share pixels where lanes are channels. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define BLOCK_ROWS 2
#define BLOCK_COLUMNS 2
#else
#define BLOCK_ROWS 4
#define BLOCK_COLUMNS 3
#endif
enum { BLOCK_ACROSS = 2 * (BLOCK_COLUMNS - 1) + 3, MOST_CHANNELS = 1 << 14, MOST_TURNED = 1024 };

#if defined(__AVX512VNNI__)
#define SEES_BYTES
enum { SEE_BYTES = true };
#else
enum { SEE_BYTES = false };
#endif
/* Rows of the result that are summed at once, where they share rows of the image. */
enum { ROWS = 4 };

struct piece {
    int64_t image, channel, channels, groups; /* groups: vectors of channels (NHWC) */
    int64_t x, width, y, height, z; /* of the result; z: its plane */
    int64_t phases, length; /* a packed row: of each remainder of columns by the stride so many
                               elements; NHWC: so many pixels */
    int64_t planes; /* of the image that a window sees, those of its inputs too */
    int64_t slots, row; /* packed rows of each plane, and elements of each */
    bool direct, narrow; /* the image is read where it lies, or turned as a whole */
    bool twins; /* vectors are two rows of the result */
    bool turned, by_channel; /* lanes are channels; turned: and yet the layout is NCHW */
    int64_t shift; /* lanes of the first vector of channels that are not the piece's, so that others
                      are aligned */
    int64_t together; /* rows of the result that are summed at once */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#include "backends/llvm/kernel/depthwise_lanes.h"

static bool shares_rows(const struct depthwise *d)
{
    return d->r == 3 && d->s == 3 && d->stride[0] == 1 && d->dilate[0] == 1;
}

/* Common windows: height, width, stride, and whether they run backwards.  Those without three taps
 * are of gradients of images under a stride of two. */
#define FORWARD_WINDOWS(F) F(3, 3, 1, 0) F(3, 3, 2, 0)
#define ALL_WINDOWS(F) \
    FORWARD_WINDOWS(F) \
    F(3, 3, 1, 1) F(2, 2, 1, 1) F(2, 1, 1, 1) F(1, 2, 1, 1) F(1, 1, 1, 1)

/* Two dimensions: planes beside the only one are never seen. */
static bool is_flat(const struct depthwise *d)
{
    return d->t == 1 && d->depth == 1 && d->od == 1 && d->pad[2] == 0;
}

/* One output of one channel each. */
static bool has_lanes(const struct depthwise *d)
{
    return d->multiplier == 1 && d->inputs == 1 && d->t == 1 &&
           d->channels <= MOST_CHANNELS;
}

/* NCHW whose rows fill less than a vector, and images so small that they are turned at once. */
static bool is_narrow(const struct depthwise *d, int64_t lanes, int group)
{
    return !d->nhwc && group == 1 && has_lanes(d) && is_flat(d) && d->to[4] == 1 &&
           d->to[3] == d->ow && 2 * d->ow <= lanes && d->h <= MOST_TURNED &&
           d->w <= MOST_TURNED && d->h * d->w <= MOST_TURNED;
}

/* NCHW whose rows of the result are halves of a vector, and which sees so few columns that a vector
 * has the rows that it needs. */
static bool has_twins(const struct depthwise *d, int64_t lanes, int group)
{
    return MASKS_ARE_FREE && is_narrow(d, lanes, group) && d->r == 3 && d->s == 3 &&
           d->w * (d->stride[0] == 1 ? 2 : 1) <= lanes;
}

/* Lanes before a piece's first channel after which vectors of each pixel are aligned: where masks
 * are free, loads that cross lines of the cache are what takes time. */
static int64_t shift_of(const struct depthwise *d, int64_t lanes, int64_t channels)
{
    const int64_t line = lanes * d->size, beyond = (int64_t)((uintptr_t)d->image % (size_t)line);

    return MASKS_ARE_FREE && d->nhwc && d->size > 1 && channels > 2 * lanes &&
                   d->channels % lanes == 0 && beyond % d->size == 0 ?
               beyond / d->size :
               0;
}

/* A gradient of filters of two dimensions, of whole vectors of channels where those lie beside each
 * other and masks are not free. */
static bool has_nine_sums(const struct depthwise *d)
{
    return d->r == 3 && d->s == 3 && d->multiplier == 1 && is_flat(d) &&
           (!d->nhwc || MASKS_ARE_FREE || d->channels * d->size >= VECTOR);
}

/* A gradient of images under strides of two, all phases at once. */
static bool is_whole(const struct depthwise *d)
{
    return d->backward && d->stride[1] == 2;
}

static bool has_whole(const struct depthwise *d)
{
    return MASKS_ARE_FREE && !d->nhwc && d->r == 3 && d->s == 3 && d->stride[0] == 2 &&
           d->dilate[0] == 1 && d->dilate[1] == 1 && d->inputs == 1 && is_flat(d) && !d->add;
}

/* Whether the image is read where it lies. */
static bool is_direct(const struct depthwise *d, int group)
{
    bool common = false;

#define WINDOW(height, width, step, back) \
    common |= d->r == (height) && d->s == (width) && d->stride[0] == (step) && \
              d->stride[1] == (step) && d->backward == (back) && \
              (d->nhwc || d->gradient || \
               d->to[4] == ((back) && ((height) < 3 || (width) < 3) ? 2 : 1));
    ALL_WINDOWS(WINDOW)
#undef WINDOW
    if (is_whole(d))
        return true;
    return common && !d->add && (!d->gradient || has_nine_sums(d)) &&
           (!d->nhwc || has_lanes(d)) && (d->r == 1 || d->dilate[0] == 1) &&
           (d->s == 1 || d->dilate[1] == 1) && (group == 1 || SEE_BYTES);
}

/* NCHW whose channels become lanes on the way in and out: rows are so short, or so much of them is
 * skipped, that vectors of pixels would be mostly overhead. */
static bool turns(const struct depthwise *d, int64_t lanes)
{
    return !d->nhwc && !d->add && d->stride[1] <= 2 && 2 * d->channels >= lanes &&
           (d->ow <= SHORT || d->stride[1] == 2);
}

static int64_t parts(int64_t all, int64_t most)
{
    return (all + most - 1) / most;
}

/* What is kept of a narrow image: zeros, the image and the result, in whole vectors. */
static int64_t narrow_pixels(const struct depthwise *d, int64_t lanes)
{
    return BLOCK_ACROSS + (parts(d->h * d->w, lanes) + parts(d->oh * d->ow, lanes) + 1) * lanes;
}

/* Sizes of what a piece packs, which are those of the largest. */
static void shape_piece(const struct depthwise *d, int64_t lanes, int group, struct piece *p)
{
    const int64_t window = (d->s - 1) * d->dilate[1], stride = d->stride[1];
    const int64_t vectors = parts(p->width, lanes);

    p->direct = is_direct(d, group);
    p->twins = p->direct && !d->gradient && has_twins(d, lanes, group);
    p->narrow = p->direct && !d->gradient && !p->twins && is_narrow(d, lanes, group);
    p->turned = d->gradient ? !d->nhwc : !p->direct && turns(d, lanes);
    p->by_channel = d->nhwc || p->turned;
    p->phases = p->by_channel ? 1 : least(window + 1, stride);
    p->length = p->by_channel ? (p->width - 1) * stride + window + 1 :
                                (vectors + parts(window / stride, lanes)) * lanes;
    p->row = p->narrow            ? narrow_pixels(d, lanes) * lanes :
             p->direct && d->nhwc ? (BLOCK_ACROSS - 1) * d->channels + lanes :
             p->direct            ? parts(d->w, lanes) * lanes :
             group > 1 ?
                 parts(d->s, group) * (p->by_channel ? p->width : vectors) * p->groups * lanes :
             p->by_channel ? p->length * p->groups * lanes :
                             p->phases * p->length;
    p->together = p->direct || (shares_rows(d) && !d->gradient) ? ROWS : 1;
    p->planes = d->inputs * d->t;
    p->slots = p->direct ? 1 : (p->together - 1) * d->stride[0] + (d->r - 1) * d->dilate[0] + 1;
}

static struct piece find_piece(const struct depthwise *d, const struct depthwise_plan *plan,
                               int64_t lanes, int group, int64_t task)
{
    const int64_t x = task % plan->across * plan->width, rows = task / plan->across;
    const int64_t y = rows % plan->along * plan->height, block = rows / plan->along;
    const int64_t each = (d->nhwc ? plan->groups : 1) * lanes;
    const int64_t channel = block % plan->blocks * each;
    struct piece p = { .image = block / plan->blocks / d->od,
                       .z = block / plan->blocks % d->od,
                       .channel = channel,
                       .channels = least(each, d->channels - channel),
                       .x = x,
                       .width = least(plan->width, d->ow - x),
                       .y = y,
                       .height = least(plan->height, d->oh - y) };

    if (is_direct(d, group))
        p.shift = shift_of(d, lanes, p.channels);
    p.groups = d->nhwc ? parts(p.shift + p.channels, lanes) : 1;
    shape_piece(d, lanes, group, &p);
    return p;
}

/* Where row y lies in plane z of a channel. */
static int64_t row_of(const struct depthwise *d, int64_t image, int64_t channel, int64_t z,
                      int64_t y)
{
    const int64_t all = d->channels * d->inputs;

    return d->nhwc ? ((image * d->depth + z) * d->h + y) * d->w * all + channel :
                     (((image * all + channel) * d->depth + z) * d->h + y) * d->w;
}

/* Some channels: of the gradient, for which each piece sees all pixels. */
static struct piece find_gradient(const struct depthwise *d, const struct depthwise_plan *plan,
                                  bool direct, int64_t lanes, int64_t block)
{
    const int64_t each = plan->groups * lanes, channel = block * each;
    struct piece p = { .channel = channel,
                       .channels = least(each, d->channels - channel),
                       .width = d->ow,
                       .height = d->oh };

    if (direct)
        p.shift = shift_of(d, lanes, p.channels);
    p.groups = parts(p.shift + p.channels, lanes);
    if (!direct)
        shape_piece(d, lanes, 1, &p);
    return p;
}

/* Rows of dy that are turned at once with those of the image that they meet. */
static int64_t turned_rows(const struct depthwise *d)
{
    const int64_t row = (d->ow + d->stride[0] * d->w) * VECTOR, rows = NEAR / row;

    return least(rows < 1 ? 1 : rows, d->oh);
}

#define NAME(x) f64_##x
#define REAL double
#define PIXEL double
#define FILTER double
#define PICKED_LOAD PICKED_LOAD_8
#define EVEN EVEN_8BYTES
#define SAME SAME_8BYTES
#define ODD ODD_8BYTES
#define NEXT NEXT_8BYTES
#define DIRECT_WINDOWS ALL_WINDOWS
#if defined(LOOK_BEYOND_8)
#define LOOK_BEYOND LOOK_BEYOND_8
#define NEXT_BUT_ONE NEXT_BUT_ONE_8BYTES
#define PICK_ONE PICK_8
#define PICK_TWO PICK_OF_TWO_8
#define REAL_LANE int64_t
#define SIGNS(v) _mm512_movepi64_mask((__m512i)(v))
#endif
#define ZIP ZIP_8BYTES
#define TURN_HALVES TURN_HALVES_8
#define GROUP 1
#define MULTIPLY_ADD(x, w, sum) __builtin_elementwise_fma(x, w, sum)
#define MASKED_STORE MASKED_STORE_8
#define LANES_LOAD LANES_LOAD_8
#define LANES_STORE LANES_STORE_8
#define EVEN_STORE EVEN_STORE_8
#include "backends/llvm/kernel/depthwise.h"

#define NAME(x) f32_##x
#define REAL float
#define PIXEL float
#define FILTER float
#define PICKED_LOAD PICKED_LOAD_4
#define EVEN EVEN_4BYTES
#define SAME SAME_4BYTES
#define ODD ODD_4BYTES
#define NEXT NEXT_4BYTES
#define DIRECT_WINDOWS ALL_WINDOWS
#if defined(LOOK_BEYOND_4)
#define LOOK_BEYOND LOOK_BEYOND_4
#define NEXT_BUT_ONE NEXT_BUT_ONE_4BYTES
#define PICK_ONE PICK_4
#define PICK_TWO PICK_OF_TWO_4
#define REAL_LANE int32_t
#define SIGNS(v) _mm512_movepi32_mask((__m512i)(v))
#endif
#define ZIP ZIP_4BYTES
#define TURN_HALVES TURN_HALVES_4
#define GROUP 1
#define MULTIPLY_ADD(x, w, sum) __builtin_elementwise_fma(x, w, sum)
#define MASKED_STORE MASKED_STORE_4
#define LANES_LOAD LANES_LOAD_4
#define LANES_STORE LANES_STORE_4
#define EVEN_STORE EVEN_STORE_4
#include "backends/llvm/kernel/depthwise.h"

#if defined(SEES_BYTES)
#define NAME(x) i8_##x
#define REAL int32_t
#define PIXEL uint8_t
#define FILTER int8_t
#if defined(PICKED_LOAD_1)
#define PICKED_LOAD PICKED_LOAD_1
#endif
#define EVEN EVEN_4BYTES
#define SAME SAME_4BYTES
#define DIRECT_WINDOWS FORWARD_WINDOWS
#define ZIP ZIP_4BYTES
#define TURN_HALVES TURN_HALVES_4
#define MASKED_STORE MASKED_STORE_4
#define LANES_LOAD LANES_LOAD_4
#define LANES_STORE LANES_STORE_4
#define EVEN_STORE EVEN_STORE_4
#define GROUP 4
#define MULTIPLY_ADD(x, w, sum) \
    ((VEC)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
#include "backends/llvm/kernel/depthwise.h"
#endif

/* As many neighbouring channels as stay in the nearest cache, if they lie beside each other. */
static void choose_groups(const struct depthwise *d, struct depthwise_plan *plan, int64_t lanes,
                          int64_t elements, int size)
{
    const int64_t most = NEAR / (elements * size);

    plan->groups =
        d->nhwc ? least(parts(d->channels, lanes), most < 1 ? 1 : least(most, GROUPS)) : 1;
    plan->blocks = parts(d->channels, plan->groups * lanes);
}

/* Chains run through all pixels, so only channels and elements of the window are shared out. */
static bool cut_gradient(const struct depthwise *d, int workers, struct depthwise_plan *plan)
{
    const int64_t lanes = VECTOR / d->size, window = d->t * d->r * d->s;
    struct piece p = { .groups = 1, .width = d->ow };
    int64_t elements;

    *plan = (struct depthwise_plan){ .along = 1 };
    shape_piece(d, lanes, 1, &p);
    if (p.slots > MOST_ROOM || p.row > MOST_ROOM || d->ow > MOST_ROOM)
        return false;
    if (p.direct) {
        plan->groups = d->nhwc ? least(GROUPS, parts(parts(d->channels, lanes), workers)) : 1;
        plan->tasks = plan->blocks = parts(d->channels, plan->groups * lanes);
        elements = 18 * (plan->groups + 1); /* one more where vectors are aligned */
        if (!d->nhwc) {
            const int64_t rows = turned_rows(d);

            elements = (parts(rows * d->ow, lanes) +
                        parts(((rows - 1) * d->stride[0] + 3) * d->w, lanes)) * lanes;
        }
        plan->room = (size_t)((1 + elements) * VECTOR);
        return plan->room <= MOST_ROOM;
    }
    elements = p.planes * p.slots * p.row + (d->ow + 2 * window) * lanes;
    choose_groups(d, plan, lanes, elements, d->size);
    if (plan->blocks < workers && workers > 1) {
        plan->groups = 1;
        plan->blocks = parts(d->channels, lanes);
        plan->along = least(parts(workers, plan->blocks * d->multiplier), d->t * d->r);
    }
    plan->tasks = plan->blocks * d->multiplier * plan->along;
    plan->room = (size_t)(plan->groups * elements * d->size);
    plan->room = (plan->room + LINE) / LINE * LINE;
    return plan->room <= MOST_ROOM;
}

/* Of floats, and of bytes where an instruction sums them. */
static bool cut(const struct depthwise *d, int workers, struct depthwise_plan *plan)
{
    const int size = d->size == 1 ? 4 : d->size, group = d->size == 1 ? BYTES_TOGETHER : 1;
    const int64_t lanes = VECTOR / size, enough = workers > 1 ? 4 * (int64_t)workers : 1;
    struct piece p = { .groups = 1 };
    int64_t tasks;

    if (d->gradient)
        return cut_gradient(d, workers, plan);
    if (is_whole(d) && !has_whole(d))
        return false;
    *plan = (struct depthwise_plan){ .groups = 1, .outputs = least(d->multiplier, OUTPUTS) };
    plan->across = parts(d->ow, d->nhwc || (turns(d, lanes) && !is_direct(d, group)) ? ALONG :
                                                                                       ACROSS);
    plan->width = parts(d->ow, plan->across);
    plan->across = parts(d->ow, plan->width);
    p.width = plan->width;
    shape_piece(d, lanes, group, &p);
    if (p.slots > MOST_ROOM || p.row > MOST_ROOM || p.phases * p.length > MOST_ROOM)
        return false;
    choose_groups(d, plan, lanes, p.direct ? 1 : p.planes * p.slots * p.row, size);
    p.groups = plan->groups;
    shape_piece(d, lanes, group, &p);
    tasks = d->images * d->od * plan->blocks * plan->across;
    plan->height = parts(d->oh, least(parts(enough, tasks), parts(d->oh, SHORTEST)));
    plan->along = parts(d->oh, plan->height);
    plan->tasks = tasks * plan->along;
    plan->room = (size_t)((plan->groups + p.direct) * plan->outputs *
                              (1 + p.planes * d->r * parts(d->s, group)) * lanes +
                          p.planes * p.slots * p.row + p.phases * p.length * plan->groups * lanes +
                          (p.turned ? p.together * p.width * lanes : 0)) *
                 (size_t)size;
    plan->room = (plan->room + LINE) / LINE * LINE;
    return plan->room <= MOST_ROOM;
}

#if !defined(SEES_BYTES)
#include "backends/llvm/kernel/depthwise_floats.h"
#endif

/* How a convolution is cut into pieces; false: it needs too much room. */
bool limber_depthwise_cut(const struct depthwise *d, int workers, struct depthwise_plan *plan)
{
#if !defined(SEES_BYTES)
    if (d->size == 1)
        return cut_bytes(d, workers, plan);
#endif
    return cut(d, workers, plan);
}

void limber_depthwise_piece(const struct depthwise *d, const struct depthwise_plan *plan,
                          int64_t task, void *room)
{
    if (d->gradient && d->size == 8)
        f64_run_gradient(d, plan, task, room);
    else if (d->gradient)
        f32_run_gradient(d, plan, task, room);
    else if (d->size == 8)
        f64_run(d, plan, task, room);
    else if (d->size == 4)
        f32_run(d, plan, task, room);
    else
        i8_run(d, plan, task, room);
}

#include "backends/llvm/kernel/depthwise_wide.h"
