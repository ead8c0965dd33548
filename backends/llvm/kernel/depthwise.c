/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolution computed directly, not as a matrix product.  This file is built once for
 * each instruction set, by the compiler that makes prebuilt kernels. */
#include "backends/llvm/kernel/kernel.h"

#if !defined(__aarch64__)
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <string.h>

#define FLAT static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

enum {
    TILE = 8,       /* number of vectors of the result that are summed at once */
    /* largest number of columns of a piece of the result, if lanes are pixels (NCHW) */
    ACROSS = 2048,
    ALONG = 128,    /* largest number of columns of a piece, if lanes are channels */
    SHORTEST = 8,   /* smallest number of rows of a piece if several threads work on one image */
    GROUPS = 64,    /* largest number of vectors of channels that are packed at once */
    NEAR = 256 << 10,   /* largest number of bytes of packed rows, so that they fit in L2 */
    MOST_ROOM = 1 << 22,    /* largest number of bytes that a task may pack */
    CHAIN = 256,    /* number of products in one chain of the scheme `native` */
    /* largest number of vectors that are summed at once if each holds two rows of the result
     * (depthwise_twins.h) */
    TWINS = 4,
    /* bytes of a cache line */
    LINE = 64
};
#if defined(__AVX512F__)
enum { MASKS_ARE_FREE = true };
#else
enum { MASKS_ARE_FREE = false };
#endif
/* Rows and columns of a register block of the result, whose windows share pixels, if lanes are
 * channels. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define BLOCK_ROWS 2
#define BLOCK_COLUMNS 2
#else
#define BLOCK_ROWS 4
#define BLOCK_COLUMNS 3
#endif
enum { BLOCK_ACROSS = 2 * (BLOCK_COLUMNS - 1) + 3, MOST_CHANNELS = 1 << 14 };

/* Defined if an instruction multiplies four bytes by four other bytes and adds the products
 * (VNNI). */
#if defined(__AVX512VNNI__)
#define SEES_BYTES
#endif
/* number of rows of the result that are summed at once, since they read common rows of the image */
enum { ROWS = 4 };

/* The piece (rectangle) of the result that one task computes, and the layout of its packed rows. */
struct piece {
    /* image, first channel, and number of channels; groups: number of vectors of channels (1 for
     * NCHW) */
    int64_t image, channel, channels, groups;
    int64_t x, width, y, height, z; /* columns, rows and plane of the result */
    /* A packed row orders columns by their remainder modulo the stride.  There are `phases`
     * remainders with `length` elements each, or with `length` pixels if lanes are channels. */
    int64_t phases, length;
    /* number of planes of the image that a window reads, over all of its input channels */
    int64_t planes;
    int64_t slots, row; /* slots: number of packed rows per plane; row: elements in a packed row */
    bool direct; /* true if the image is read in place, without packing */
    /* by_channel: true if lanes are channels; turned: true if that is so although the image is
     * NCHW, so that packing transposes it */
    bool turned, by_channel;
    bool twins; /* true if each vector holds two rows of the result */
    /* number of unused lanes before the first channel, which align the vectors of each pixel */
    int64_t shift;
};

/* Returns the smaller number. */
static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#include "backends/llvm/kernel/depthwise_lanes.h"

/* Names for each format, and the macros of depthwise_lanes.h for each element size. */
#define PASTE_NOW(a, b) a##b
#define PASTE(a, b) PASTE_NOW(a, b)
#define NAME(x) PASTE(FORMAT, _##x)
#define LANES_OF PASTE(LANES_OF_, BYTES)
#define EVEN PASTE(EVEN_, LANES_OF)
#define ODD PASTE(ODD_, LANES_OF)
#define NEXT PASTE(NEXT_, LANES_OF)
#define ZIP PASTE(ZIP_, LANES_OF)
#define SAME PASTE(SAME_, LANES_OF)
#define TURN_HALVES PASTE(TURN_HALVES_, BYTES)
#define PICKED_LOAD PASTE(PICKED_LOAD_, PIXEL_BYTES)
#define MASKED_STORE PASTE(MASKED_STORE_, BYTES)
#define LANES_LOAD PASTE(LANES_LOAD_, BYTES)
#define LANES_STORE PASTE(LANES_STORE_, BYTES)
#define EVEN_STORE PASTE(EVEN_STORE_, BYTES)
#if defined(__AVX512F__)
#define LOOK_BEYOND PASTE(look_beyond_, BYTES)
#define NEXT_ONE PASTE(NEXT_ONE_, BYTES)
#define NEXT_BUT_ONE PASTE(NEXT_BUT_ONE_, BYTES)
#define PICK_ONE PASTE(PICK_, BYTES)
#define PICK_TWO PASTE(PICK_OF_TWO_, BYTES)
#define SIGNS PASTE(SIGNS_, BYTES)
#endif
#define PIXELS_LOAD PASTE(LANES_LOAD_, PIXEL_BYTES)
#define MULTIPLY_ADD NAME(multiply_add)
#define LANES NAME(lanes)
#define VEC NAME(vec)
#define LOAD(p) ((VEC) * (const NAME(unaligned) *)(p))
#define STORE(p, v) (*(NAME(unaligned) *)(p) = (v))
#define DIRECT_WINDOWS PASTE(WINDOWS_, PIXEL_BYTES)
/* Transposes LANES vectors of LANES lanes.  Each round interleaves the two halves of the vectors (a
 * perfect shuffle).  On CPUs where few instructions move data between 128-bit lanes, TURN_HALVES
 * first moves elements within these 128-bit lanes. */
#define TURN(type, v) \
    do { \
        if (sizeof(type) == HALVED) { \
            TURN_HALVES(type, v); \
            break; \
        } \
        UNROLL for (int n = 1; n < LANES; n *= 2) { \
            type dealt[LANES]; \
\
            UNROLL for (int i = 0; i < LANES / 2; i++) { \
                dealt[2 * i] = ZIP(v[i], v[i + LANES / 2], 0); \
                dealt[2 * i + 1] = ZIP(v[i], v[i + LANES / 2], LANES / 2); \
            } \
            UNROLL for (int i = 0; i < LANES; i++) \
                v[i] = dealt[i]; \
        } \
    } while (0)

/* Windows for which images are read in place: height, width, stride, and 1 if flipped.  Windows
 * with fewer than three taps in a direction occur in image gradients under a stride of two. */
#define FORWARD_WINDOWS(F) F(3, 3, 1, 0) F(3, 3, 2, 0)
#define ALL_WINDOWS(F) \
    FORWARD_WINDOWS(F) \
    F(3, 3, 1, 1) F(2, 2, 1, 1) F(2, 1, 1, 1) F(1, 2, 1, 1) F(1, 1, 1, 1)
/* window sizes with specialised code for images of 8-bit integers */
#define WINDOWS_1 FORWARD_WINDOWS
#define WINDOWS_4 ALL_WINDOWS
#define WINDOWS_8 ALL_WINDOWS

/* True if the convolution has two dimensions, so a single plane. */
static bool is_flat(const struct depthwise *d)
{
    return d->t == 1 && d->depth == 1 && d->od == 1 && d->pad[2] == 0;
}

/* True if each channel has one input and one output, and lanes can be channels. */
static bool has_lanes(const struct depthwise *d)
{
    return d->multiplier == 1 && d->inputs == 1 && d->channels <= MOST_CHANNELS;
}

/* True for NCHW images if a vector can hold two rows of the result, and another vector all columns
 * that both rows read. */
static bool has_twins(const struct depthwise *d, int64_t lanes)
{
    return MASKS_ARE_FREE && !d->nhwc && d->size > 1 && has_lanes(d) && is_flat(d) && d->r == 3 &&
           d->s == 3 && d->to[4] == 1 && d->to[3] == d->ow && 2 * d->ow <= lanes &&
           d->w * (d->stride[0] == 1 ? 2 : 1) <= lanes;
}

/* Returns the number of unused lanes before a piece's first channel that align the vectors of each
 * pixel to cache lines.  Where masks are free, loads that cross cache lines are the bottleneck. */
static int64_t shift_of(const struct depthwise *d, int64_t lanes, int64_t channels)
{
    const int64_t line = lanes * d->size, beyond = (int64_t)((uintptr_t)d->image % (size_t)line);

    return MASKS_ARE_FREE && d->nhwc && d->size > 1 && channels > 2 * lanes &&
                   d->channels % lanes == 0 && beyond % d->size == 0 ?
               beyond / d->size :
               0;
}

/* True for the gradient of a complete image, all stride phases of it, under a stride of two (struct
 * depthwise describes a single phase with stride one). */
static bool is_whole(const struct depthwise *d)
{
    return d->backward && d->stride[1] == 2;
}

/* True if depthwise_whole.h can compute an image gradient under a stride of two: all stride phases
 * at once. */
static bool can_compute_whole(const struct depthwise *d)
{
    return MASKS_ARE_FREE && !d->nhwc && d->r == 3 && d->s == 3 && d->stride[0] == 2 &&
           d->dilate[0] == 1 && d->dilate[1] == 1 && d->inputs == 1 && is_flat(d) && !d->add;
}

/* Returns the distance in columns of the image between neighbouring taps of a row. */
static int64_t across_of(const struct depthwise *d)
{
    return d->s > 1 ? d->dilate[1] : 1;
}

/* True if the image is read in place, not packed. */
static bool is_direct(const struct depthwise *d)
{
    const bool apart = d->nhwc && d->stride[0] == 1 && has_lanes(d) &&
                       across_of(d) <= MOST_CHANNELS / d->channels;
    bool common = false;

#define WINDOW(height, width, step, back) \
    common |= d->r == (height) && d->s == (width) && d->stride[0] == (step) && \
              d->stride[1] == (step) && d->backward == (back) && \
              (d->nhwc || \
               d->to[4] == ((back) && ((height) < 3 || (width) < 3) ? 2 : 1));
    ALL_WINDOWS(WINDOW)
#undef WINDOW
    if (is_whole(d))
        return true;
    return common && !d->add && (!d->nhwc || has_lanes(d)) &&
           (apart || ((d->r == 1 || d->dilate[0] == 1) && across_of(d) == 1));
}

/* True for an NCHW image if lanes are channels; packing then transposes the image, and storing
 * transposes the result.  False if vectors of channels would leave many more lanes empty than
 * vectors of pixels, or if the packed rows (`length` pixels) for one row of the result are too
 * large. */
static bool should_transpose(const struct depthwise *d, int64_t lanes, int64_t length)
{
    const double rows = (double)(d->inputs * d->t) * ((double)(d->r - 1) * d->dilate[0] + 1);

    return !d->nhwc && d->pad[1] >= 0 && rows * (double)length * VECTOR <= NEAR &&
           4 * d->channels * ceil_div(d->ow, lanes) >= 3 * d->ow * ceil_div(d->channels, lanes);
}

#if defined(SEES_BYTES)
/* True if the instruction that multiplies four bytes is used.  Adjacent taps of a packed row must
 * have a constant distance. */
static bool uses_four_bytes(const struct depthwise *d)
{
    return is_direct(d) || (d->s > 1 && (d->nhwc || d->stride[1] == 1));
}
#endif

/* Sets the layout and the buffer sizes of a piece with the given largest width and height. */
static void shape_piece(const struct depthwise *d, int64_t lanes, struct piece *p)
{
    const int64_t window = (d->s - 1) * d->dilate[1], stride = d->stride[1];
    const int64_t vectors = ceil_div(p->width, lanes), whole = d->pad[1] + d->w;
    int64_t seen = (p->width - 1) * stride + window + 1;

    p->direct = is_direct(d);
    p->twins = p->direct && has_twins(d, lanes);
    if (!d->nhwc && seen < whole)
        seen = whole;
    p->turned = !p->direct && p->width == d->ow && should_transpose(d, lanes, seen);
    p->by_channel = d->nhwc || p->turned;
    p->phases = p->by_channel ? 1 : least(window + 1, stride);
    p->length = p->by_channel ? seen : (vectors + ceil_div(window / stride, lanes)) * lanes;
    p->row = p->direct && d->nhwc ? (BLOCK_ACROSS - 1) * d->channels * across_of(d) + lanes :
             p->direct            ? ceil_div(d->w, lanes) * lanes :
             p->by_channel        ? p->length * p->groups * lanes :
                                    p->phases * p->length;
    p->planes = d->inputs * d->t;
    p->slots = p->direct ? 1 : (p->height - 1) * d->stride[0] + (d->r - 1) * d->dilate[0] + 1;
}

/* Returns the piece of the result that a task computes. */
static struct piece find_piece(const struct depthwise *d, const struct depthwise_plan *plan,
                               int64_t lanes, int64_t task)
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

    if (is_direct(d))
        p.shift = shift_of(d, lanes, p.channels);
    p.groups = d->nhwc ? ceil_div(p.shift + p.channels, lanes) : 1;
    shape_piece(d, lanes, &p);
    return p;
}

/* Returns the plane of the image that plane `plane` of the window (counted over all input channels)
 * reads for plane z of the result.  It may lie in padding. */
static int64_t plane_of(const struct depthwise *d, int64_t z, int64_t plane)
{
    const int64_t t = plane % d->t;

    return z * d->stride[2] - d->pad[2] + (d->backward ? d->t - 1 - t : t) * d->dilate[2];
}

/* Returns the offset in the image, in elements, of row y in plane z of a channel. */
static int64_t row_of(const struct depthwise *d, int64_t image, int64_t channel, int64_t z,
                      int64_t y)
{
    const int64_t all = d->channels * d->inputs;

    return d->nhwc ? ((image * d->depth + z) * d->h + y) * d->w * all + channel :
                     (((image * all + channel) * d->depth + z) * d->h + y) * d->w;
}

/* True if the filter gradient can load a column of the image once for the windows of neighbouring
 * pixels: strides are equal, at most two, and there is no dilation. */
static bool shares_columns(const struct depthwise *d)
{
    return d->stride[0] == d->stride[1] && d->stride[1] <= 2 && d->dilate[0] == 1 &&
           d->dilate[1] == 1;
}

/* True if the filter gradient sums rows of seven taps at once. */
static bool has_sevens(const struct depthwise *d)
{
    return shares_columns(d) && d->stride[1] == 1 && d->s == 7;
}

/* Returns the number of blocks of taps into which a plane of a window is divided for its
 * gradient: rows of seven taps, or 3 x 3 taps. */
static int64_t nines_of(const struct depthwise *d)
{
    return has_sevens(d) ? d->r : ceil_div(d->r, 3) * ceil_div(d->s, 3);
}

/* True if the filter gradient reads its tensors in place: NHWC, with full vectors of channels or
 * with masked loads. */
static bool is_beside(const struct depthwise *d)
{
    return d->nhwc && d->multiplier == 1 &&
           (MASKS_ARE_FREE || d->channels * d->size >= VECTOR);
}

/* Returns the piece of a task of the filter gradient: a range of channels, over all pixels. */
static struct piece find_gradient(const struct depthwise *d, const struct depthwise_plan *plan,
                                  int64_t lanes, int64_t block)
{
    const int64_t each = plan->groups * lanes, channel = block * each;
    struct piece p = { .channel = channel, .channels = least(each, d->channels - channel) };

    if (is_beside(d))
        p.shift = shift_of(d, lanes, p.channels);
    p.groups = ceil_div(p.shift + p.channels, lanes);
    return p;
}

#define FORMAT f64
#define REAL double
#define PIXEL double
#define FILTER double
#define RESULT double
#define BYTES 8
#define PIXEL_BYTES 8
#define GROUP 1
#include "backends/llvm/kernel/depthwise.h"

#define FORMAT f32
#define REAL float
#define PIXEL float
#define FILTER float
#define RESULT float
#define BYTES 4
#define PIXEL_BYTES 4
#define GROUP 1
#include "backends/llvm/kernel/depthwise.h"

/* Instance for images and filters of 8-bit integers, which are converted to floats before they are
 * multiplied. */
#define FORMAT bytes
#define REAL float
#define PIXEL uint8_t
#define FILTER int8_t
#define RESULT int32_t
#define BYTES 4
#define PIXEL_BYTES 1
#define GROUP 1
#include "backends/llvm/kernel/depthwise.h"

#if defined(SEES_BYTES)
#define FORMAT i8
#define REAL int32_t
#define PIXEL uint8_t
#define FILTER int8_t
#define RESULT int32_t
#define BYTES 4
#define PIXEL_BYTES 1
#define GROUP 4
#include "backends/llvm/kernel/depthwise.h"
#endif

/* Divides a filter gradient into tasks.  One chain runs through all pixels, so only channels and
 * taps can be divided.  The rows of dy that are summed at once fit in L2 together with the rows of
 * the image.  Returns false if a task needs too much memory. */
static bool cut_gradient(const struct depthwise *d, int workers, struct depthwise_plan *plan)
{
    const int64_t lanes = VECTOR / d->size, nines = nines_of(d);
    const int64_t window = (d->r - 1) * d->dilate[0] + 1, all = ceil_div(d->channels, lanes);
    int64_t elements, rows, row;

    *plan = (struct depthwise_plan){ .groups = 1, .along = 1 };
    if (is_beside(d))
        plan->groups = least(GROUPS / least(nines, GROUPS), ceil_div(all, workers));
    plan->blocks = ceil_div(d->channels, plan->groups * lanes);
    plan->tasks = plan->blocks * d->multiplier * d->t;
    if (workers > 1)
        plan->along = least(ceil_div(workers, plan->tasks), nines);
    plan->tasks *= plan->along;
    if (d->ow > MOST_ROOM || d->w > MOST_ROOM || window > MOST_ROOM)
        return false;
    row = (d->ow + d->stride[0] * d->w) *
          (is_beside(d) ? least(plan->groups * lanes, d->channels) * d->size : VECTOR);
    rows = least(NEAR / row, d->oh);
    plan->height = rows < 1 ? 1 : rows;
    /* one more vector of channels, since channels may be shifted to align vectors */
    elements = 1 + 18 * nines * (plan->groups + 1);
    if (!is_beside(d))
        elements += (ceil_div(plan->height * d->ow, lanes) +
                     ceil_div(least(d->h, (plan->height - 1) * d->stride[0] + window) * d->w,
                              lanes)) *
                    lanes;
    plan->room = (size_t)(elements * VECTOR);
    return plan->room <= MOST_ROOM;
}

/* Divides a convolution into pieces, one per task.  Returns false if a task needs too much
 * memory. */
bool FOR_ISA(limber_depthwise_cut)(const struct depthwise *d, int workers,
                                   struct depthwise_plan *plan)
{
    const int size = d->size == 1 ? 4 : d->size; /* bytes of an accumulator */
    const int64_t lanes = VECTOR / size, enough = workers > 1 ? 4 * (int64_t)workers : 1;
    struct piece p = { .groups = 1, .height = d->oh };
    double rows; /* number of packed rows that fit in L2 */
    /* joined: distance in elements between taps whose bytes are packed into one element */
    int64_t tasks, joined, most = GROUPS;

    if (d->gradient)
        return cut_gradient(d, workers, plan);
    if (is_whole(d) && !can_compute_whole(d))
        return false;
    *plan = (struct depthwise_plan){ .groups = 1, .height = d->oh };
    plan->across = ceil_div(d->ow, d->nhwc ? ALONG : ACROSS);
    p.width = plan->width = ceil_div(d->ow, plan->across);
    plan->across = ceil_div(d->ow, plan->width);
    shape_piece(d, lanes, &p);
    if (p.row > MOST_ROOM || p.phases * p.length > MOST_ROOM)
        return false;
    rows = (double)NEAR / (double)(p.planes * p.row * size);
    if (!p.direct && rows < GROUPS * (double)p.slots)
        most = rows < (double)p.slots ? 1 : (int64_t)(rows / (double)p.slots);
    plan->groups = d->nhwc ? least(ceil_div(d->channels, lanes), most) : 1;
    plan->blocks = ceil_div(d->channels, plan->groups * lanes);
    tasks = d->images * d->od * plan->blocks * plan->across;
    plan->height = ceil_div(d->oh, least(ceil_div(enough, tasks), ceil_div(d->oh, SHORTEST)));
    do {
        p.groups = plan->groups;
        p.height = plan->height;
        shape_piece(d, lanes, &p);
    } while (!p.direct && (double)p.slots * plan->groups > rows && plan->height > 1 &&
             (plan->height = ceil_div(plan->height, 2)));
    plan->along = ceil_div(d->oh, plan->height);
    plan->tasks = tasks * plan->along;
    if (p.slots > MOST_ROOM)
        return false;
    joined = p.by_channel ? plan->groups * lanes : 1;
    plan->room = (size_t)((plan->groups + p.direct) * (1 + p.planes * d->r * d->s) * lanes +
                          p.planes * p.slots * p.row +
                          (d->size == 1 && !p.direct ? 3 * (across_of(d) * joined + lanes) : 0)) *
                 (size_t)size;
    plan->room = (plan->room + LINE) / LINE * LINE;
    return plan->room <= MOST_ROOM;
}

/* Runs one task, by the code for the tensors' format. */
void FOR_ISA(limber_depthwise_piece)(const struct depthwise *d, const struct depthwise_plan *plan,
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
#if defined(SEES_BYTES)
    else if (uses_four_bytes(d))
        i8_run(d, plan, task, room);
#endif
    else
        bytes_run(d, plan, task, room);
}

#include "backends/llvm/kernel/depthwise_wide.h"
