/* SPDX-License-Identifier: BSD-3-Clause
 * Depthwise convolution without a product of matrices.  Built once for each instruction set, by the
 * compiler that makes prebuilt kernels. */
#include "backends/llvm/kernel/kernel.h"

#include <immintrin.h>
#include <stdbool.h>

#define FLAT static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#define VECTORISE _Pragma("clang loop vectorize(enable)")

/* Vectors of the result that are summed at once; outputs of a channel whose filters are packed at
 * once; columns of the result that a piece has at most; bytes that a piece may pack. */
enum { TILE = 8, OUTPUTS = 4, ACROSS = 2048, ALONG = 128, MOST_ROOM = 1 << 22 };
enum { LINE = 64 };

struct piece {
    int64_t image, channel, lanes; /* lanes: channels of it */
    int64_t x, width, y, height; /* of the result */
    int64_t phases, length; /* a packed row: of each remainder of columns by the stride so many
                               elements; NHWC: so many pixels */
    int64_t slots, row; /* packed rows, and elements of each */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t parts(int64_t all, int64_t most)
{
    return (all + most - 1) / most;
}

/* Sizes of what a piece packs, which are those of the largest. */
static void shape_piece(const struct depthwise *d, int64_t lanes, int group, struct piece *p)
{
    const int64_t window = (d->s - 1) * d->dilate[1], stride = d->stride[1];
    const int64_t vectors = parts(p->width, lanes);

    p->phases = d->nhwc ? 1 : least(window + 1, stride);
    p->length = d->nhwc ? (p->width - 1) * stride + window + 1 : vectors * lanes + window / stride;
    p->slots = (d->r - 1) * d->dilate[0] + 1;
    p->row = group > 1 ? parts(d->s, group) * (d->nhwc ? p->width * lanes : vectors * lanes) :
             d->nhwc   ? p->length * lanes :
                         p->phases * p->length;
}

static struct piece find_piece(const struct depthwise *d, const struct depthwise_plan *plan,
                               int64_t lanes, int group, int64_t task)
{
    const int64_t x = task % plan->across * plan->width, rows = task / plan->across;
    const int64_t y = rows % plan->along * plan->height, block = rows / plan->along;
    const int64_t channel = block % plan->blocks * (d->nhwc ? lanes : 1);
    struct piece p = { .image = block / plan->blocks,
                       .channel = channel,
                       .lanes = d->nhwc ? least(lanes, d->channels - channel) : lanes,
                       .x = x,
                       .width = least(plan->width, d->ow - x),
                       .y = y,
                       .height = least(plan->height, d->oh - y) };

    shape_piece(d, lanes, group, &p);
    return p;
}

#if defined(__AVX512F__)
enum { VECTOR = 64 };
#define MASKED_STORE_4(c, v, lanes) \
    _mm512_mask_storeu_epi32(c, (__mmask16)((1u << (lanes)) - 1), (__m512i)(v))
#define MASKED_STORE_8(c, v, lanes) \
    _mm512_mask_storeu_epi64(c, (__mmask8)((1u << (lanes)) - 1), (__m512i)(v))
#else
enum { VECTOR = 32 };
#define MASKED_STORE_4(c, v, lanes) \
    _mm256_maskstore_epi32((int *)(c), \
                           _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(lanes)), \
                                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)), \
                           (__m256i)(v))
#define MASKED_STORE_8(c, v, lanes) \
    _mm256_maskstore_epi64( \
        (long long *)(c), \
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes), _mm256_setr_epi64x(0, 1, 2, 3)), (__m256i)(v))
#endif

#define NAME(x) f64_##x
#define REAL double
#define PIXEL double
#define GROUP 1
#define MULTIPLY_ADD(x, w, sum) __builtin_elementwise_fma(x, w, sum)
#define MASKED_STORE MASKED_STORE_8
#define OFFSET(padding)
#include "backends/llvm/kernel/depthwise.h"

#define NAME(x) f32_##x
#define REAL float
#define PIXEL float
#define GROUP 1
#define MULTIPLY_ADD(x, w, sum) __builtin_elementwise_fma(x, w, sum)
#define MASKED_STORE MASKED_STORE_4
#define OFFSET(padding)
#include "backends/llvm/kernel/depthwise.h"

#define NAME(x) i8_##x
#define REAL int32_t
#define PIXEL uint8_t
#define MASKED_STORE MASKED_STORE_4
#define OFFSET(padding) ^ (padding)
#if defined(__AVX512VNNI__)
#define GROUP 4
#define MULTIPLY_ADD(x, w, sum) \
    ((VEC)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
#elif defined(__AVX512F__)
#define GROUP 2
#define MULTIPLY_ADD(x, w, sum) ((sum) + (VEC)_mm512_madd_epi16((__m512i)(x), (__m512i)(w)))
#else
#define GROUP 2
#define MULTIPLY_ADD(x, w, sum) ((sum) + (VEC)_mm256_madd_epi16((__m256i)(x), (__m256i)(w)))
#endif
enum { BYTES_TOGETHER = GROUP };
#include "backends/llvm/kernel/depthwise.h"

/* How a convolution is cut into pieces; false: it needs too much room. */
bool limber_depthwise_plan(const struct depthwise *d, int workers, struct depthwise_plan *plan)
{
    const int size = d->size == 1 ? 4 : d->size, group = d->size == 1 ? BYTES_TOGETHER : 1;
    const int64_t lanes = VECTOR / size, enough = workers > 1 ? 4 * (int64_t)workers : 1;
    struct piece p;
    int64_t tasks, bands;

    *plan = (struct depthwise_plan){ .outputs = least(d->multiplier, OUTPUTS) };
    plan->across = parts(d->ow, d->nhwc ? ALONG : ACROSS);
    plan->width = parts(d->ow, plan->across);
    plan->across = parts(d->ow, plan->width);
    plan->blocks = d->nhwc ? parts(d->channels, lanes) : d->channels;
    tasks = d->images * plan->blocks * plan->across;
    bands = least(parts(enough, tasks), parts(d->oh, 8));
    plan->height = parts(d->oh, bands);
    plan->along = parts(d->oh, plan->height);
    plan->tasks = tasks * plan->along;
    p.width = plan->width;
    shape_piece(d, lanes, group, &p);
    if (p.slots > MOST_ROOM || p.row > MOST_ROOM || p.slots * p.row > MOST_ROOM ||
        p.phases * p.length > MOST_ROOM)
        return false;
    plan->room = (size_t)(plan->outputs * (1 + d->r * parts(d->s, group)) * lanes + p.slots * p.row +
                          p.phases * p.length * (d->nhwc ? lanes : 1)) *
                 (size_t)size;
    plan->room = (plan->room + LINE) / LINE * LINE;
    return plan->room <= MOST_ROOM;
}

void limber_depthwise_run(const struct depthwise *d, const struct depthwise_plan *plan,
                          int64_t task, void *room)
{
    if (d->size == 8)
        f64_run(d, plan, task, room);
    else if (d->size == 4)
        f32_run(d, plan, task, room);
    else
        i8_run(d, plan, task, room);
}
