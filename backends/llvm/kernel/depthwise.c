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
    LINE = 64
};
/* Rows of the result that are summed at once, where they share rows of the image. */
enum { ROWS = 4 };

struct piece {
    int64_t image, channel, channels, groups; /* groups: vectors of channels (NHWC) */
    int64_t x, width, y, height, z; /* of the result; z: its plane */
    int64_t phases, length; /* a packed row: of each remainder of columns by the stride so many
                               elements; NHWC: so many pixels */
    int64_t planes; /* of the image that a window sees, those of its inputs too */
    int64_t slots, row; /* packed rows of each plane, and elements of each */
    bool turned, by_channel; /* lanes are channels; turned: and yet the layout is NCHW */
    int64_t together; /* rows of the result that are summed at once */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool shares_rows(const struct depthwise *d)
{
    return d->r == 3 && d->s == 3 && d->stride[0] == 1 && d->dilate[0] == 1;
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

/* Sizes of what a piece packs, which are those of the largest. */
static void shape_piece(const struct depthwise *d, int64_t lanes, int group, struct piece *p)
{
    const int64_t window = (d->s - 1) * d->dilate[1], stride = d->stride[1];
    const int64_t vectors = parts(p->width, lanes);

    p->turned = d->gradient ? !d->nhwc : turns(d, lanes);
    p->by_channel = d->nhwc || p->turned;
    p->phases = p->by_channel ? 1 : least(window + 1, stride);
    p->length = p->by_channel ? (p->width - 1) * stride + window + 1 :
                                (vectors + parts(window / stride, lanes)) * lanes;
    p->row = group > 1 ?
                 parts(d->s, group) * (p->by_channel ? p->width : vectors) * p->groups * lanes :
             p->by_channel ? p->length * p->groups * lanes :
                             p->phases * p->length;
    p->together = shares_rows(d) && !d->gradient ? ROWS : 1;
    p->planes = d->inputs * d->t;
    p->slots = (p->together - 1) * d->stride[0] + (d->r - 1) * d->dilate[0] + 1;
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

    p.groups = d->nhwc ? parts(p.channels, lanes) : 1;
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
                                  int64_t lanes, int64_t block)
{
    const int64_t each = plan->groups * lanes, channel = block * each;
    struct piece p = { .channel = channel,
                       .channels = least(each, d->channels - channel),
                       .width = d->ow,
                       .height = d->oh };

    p.groups = parts(p.channels, lanes);
    shape_piece(d, lanes, 1, &p);
    return p;
}

#define ZIP_4(a, b, i) __builtin_shufflevector(a, b, (i), 4 + (i), 1 + (i), 5 + (i))
#define ZIP_8(a, b, i) \
    __builtin_shufflevector(a, b, (i), 8 + (i), 1 + (i), 9 + (i), 2 + (i), 10 + (i), 3 + (i), \
                            11 + (i))
#define ZIP_16(a, b, i) \
    __builtin_shufflevector(a, b, (i), 16 + (i), 1 + (i), 17 + (i), 2 + (i), 18 + (i), 3 + (i), \
                            19 + (i), 4 + (i), 20 + (i), 5 + (i), 21 + (i), 6 + (i), 22 + (i), \
                            7 + (i), 23 + (i))
#define ZIP_2(a, b, i) __builtin_shufflevector(a, b, (i), 2 + (i))
#define EVEN_2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define EVEN_4(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define EVEN_8(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define EVEN_16(a, b) \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)

/* Lanes 0, step, 2 step, ...: so many of them. */
#define STORE_LANES(c, v, lanes, most, step) \
    do { \
        UNROLL for (int lane = 0; lane < (most); lane++) \
            if (lane < (lanes)) \
                (c)[(step) * lane] = (v)[(step) * lane]; \
    } while (0)

#if defined(__AVX512F__)
enum { VECTOR = 64, HALVED = 0 };
#define TURN_HALVES_4(type, v)
#define TURN_HALVES_8(type, v)
#define REGISTER "+v"
#define BETWEEN(from, end) ((1u << (end)) - (1u << (from)))
#define PICKED_LOAD_1(p, from, end) _mm_maskz_loadu_epi8((__mmask16)BETWEEN(from, end), p)
#define PICKED_LOAD_4(p, from, end) _mm512_maskz_loadu_epi32((__mmask16)BETWEEN(from, end), p)
#define PICKED_LOAD_8(p, from, end) _mm512_maskz_loadu_epi64((__mmask8)BETWEEN(from, end), p)
#define EVEN_4BYTES EVEN_16
#define EVEN_8BYTES EVEN_8
#define ZIP_4BYTES ZIP_16
#define ZIP_8BYTES ZIP_8
#define MASKED_STORE_4(c, v, lanes) \
    _mm512_mask_storeu_epi32(c, (__mmask16)((1u << (lanes)) - 1), (__m512i)(v))
#define MASKED_STORE_8(c, v, lanes) \
    _mm512_mask_storeu_epi64(c, (__mmask8)((1u << (lanes)) - 1), (__m512i)(v))
/* Lanes 0, 2, ...: so many of them. */
#define EVEN_STORE_4(c, v, lanes) \
    _mm512_mask_storeu_epi32(c, (__mmask16)(0x5555 & ((1u << 2 * (lanes)) - 1)), (__m512i)(v))
#define EVEN_STORE_8(c, v, lanes) \
    _mm512_mask_storeu_epi64(c, (__mmask8)(0x55 & ((1u << 2 * (lanes)) - 1)), (__m512i)(v))
#elif defined(__aarch64__)
enum { VECTOR = 16, HALVED = 0 };
#define TURN_HALVES_4(type, v)
#define TURN_HALVES_8(type, v)
#define REGISTER "+w"
typedef float lanes4 __attribute__((vector_size(16)));
typedef double lanes2 __attribute__((vector_size(16)));
#define PICK_LANES(type, p, from, end, most) ({ \
    type picked = { 0 }; \
    UNROLL for (int lane = 0; lane < (most); lane++) \
        if (lane >= (from) && lane < (end)) \
            picked[lane] = (p)[lane]; \
    picked; \
})
#define PICKED_LOAD_4(p, from, end) PICK_LANES(lanes4, p, from, end, 4)
#define PICKED_LOAD_8(p, from, end) PICK_LANES(lanes2, p, from, end, 2)
#define EVEN_4BYTES EVEN_4
#define EVEN_8BYTES EVEN_2
#define ZIP_4BYTES ZIP_4
#define ZIP_8BYTES ZIP_2
#define MASKED_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 4, 1)
#define MASKED_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 2, 1)
#define EVEN_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 2, 2)
#define EVEN_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 1, 2)
#else
enum { VECTOR = 32, HALVED = 32 };
/* Eight rows of eight lanes: pairs of rows, fours, then halves. */
#define TURN_HALVES_4(type, v) \
    do { \
        type pair[8], four[8]; \
\
        UNROLL for (int i = 0; i < 8; i += 2) { \
            pair[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13); \
            pair[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15); \
        } \
        UNROLL for (int i = 0; i < 8; i += 4) \
            UNROLL for (int n = 0; n < 2; n++) { \
                four[i + 2 * n] = __builtin_shufflevector(pair[i + n], pair[i + n + 2], 0, 1, 8, \
                                                          9, 4, 5, 12, 13); \
                four[i + 2 * n + 1] = __builtin_shufflevector(pair[i + n], pair[i + n + 2], 2, 3, \
                                                              10, 11, 6, 7, 14, 15); \
            } \
        UNROLL for (int i = 0; i < 4; i++) { \
            v[i] = __builtin_shufflevector(four[i], four[i + 4], 0, 1, 2, 3, 8, 9, 10, 11); \
            v[i + 4] = __builtin_shufflevector(four[i], four[i + 4], 4, 5, 6, 7, 12, 13, 14, 15); \
        } \
    } while (0)
/* Four rows of four lanes. */
#define TURN_HALVES_8(type, v) \
    do { \
        type pair[4]; \
\
        UNROLL for (int i = 0; i < 4; i += 2) { \
            pair[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 4, 2, 6); \
            pair[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 1, 5, 3, 7); \
        } \
        UNROLL for (int i = 0; i < 2; i++) { \
            v[i] = __builtin_shufflevector(pair[i], pair[i + 2], 0, 1, 4, 5); \
            v[i + 2] = __builtin_shufflevector(pair[i], pair[i + 2], 2, 3, 6, 7); \
        } \
    } while (0)
#define REGISTER "+x"
/* Lanes of `which`, the numbers of lanes, from `from` on and before `end`. */
#define BETWEEN(bits, which, from, end) \
    _mm256_andnot_si256(_mm256_cmpgt_epi##bits(SPREAD_##bits(from), which), \
                        _mm256_cmpgt_epi##bits(SPREAD_##bits(end), which))
#define SPREAD_32(i) _mm256_set1_epi32((int)(i))
#define SPREAD_64(i) _mm256_set1_epi64x(i)
#define PICKED_LOAD_4(p, from, end) \
    _mm256_maskload_epi32((const int *)(p), \
                          BETWEEN(32, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), from, end))
#define PICKED_LOAD_8(p, from, end) \
    _mm256_maskload_epi64((const long long *)(p), \
                          BETWEEN(64, _mm256_setr_epi64x(0, 1, 2, 3), from, end))
#define EVEN_4BYTES EVEN_8
#define EVEN_8BYTES EVEN_4
#define ZIP_4BYTES ZIP_8
#define ZIP_8BYTES ZIP_4
/* The first lanes of four bytes, by halves: stores under masks take as long as a dozen others on
 * AMD's CPUs. */
FLAT void store_some(void *c, __m256i v, int64_t lanes)
{
    char *to = c;
    __m128i part = _mm256_castsi256_si128(v);

    if (lanes >= 8) {
        _mm256_storeu_si256((__m256i *)c, v);
        return;
    }
    if (lanes & 4) {
        _mm_storeu_si128((__m128i *)to, part);
        part = _mm256_extracti128_si256(v, 1);
        to += 16;
    }
    if (lanes & 2) {
        _mm_storel_epi64((__m128i *)to, part);
        part = _mm_unpackhi_epi64(part, part);
        to += 8;
    }
    if (lanes & 1)
        _mm_storeu_si32(to, part);
}

#define MASKED_STORE_4(c, v, lanes) store_some(c, (__m256i)(v), lanes)
#define MASKED_STORE_8(c, v, lanes) store_some(c, (__m256i)(v), 2 * (lanes))
#define EVEN_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 4, 2)
#define EVEN_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 2, 2)
#endif

#define NAME(x) f64_##x
#define REAL double
#define PIXEL double
#define FILTER double
#define PICKED_LOAD PICKED_LOAD_8
#define EVEN EVEN_8BYTES
#define ZIP ZIP_8BYTES
#define TURN_HALVES TURN_HALVES_8
#define GROUP 1
#define MULTIPLY_ADD(x, w, sum) __builtin_elementwise_fma(x, w, sum)
#define MASKED_STORE MASKED_STORE_8
#define EVEN_STORE EVEN_STORE_8
#include "backends/llvm/kernel/depthwise.h"

#define NAME(x) f32_##x
#define REAL float
#define PIXEL float
#define FILTER float
#define PICKED_LOAD PICKED_LOAD_4
#define EVEN EVEN_4BYTES
#define ZIP ZIP_4BYTES
#define TURN_HALVES TURN_HALVES_4
#define GROUP 1
#define MULTIPLY_ADD(x, w, sum) __builtin_elementwise_fma(x, w, sum)
#define MASKED_STORE MASKED_STORE_4
#define EVEN_STORE EVEN_STORE_4
#include "backends/llvm/kernel/depthwise.h"

#if !defined(__AVX512F__)
#if defined(__aarch64__)
typedef uint32_t word_of_bytes;
#else
typedef uint64_t word_of_bytes;
#endif
/* Bytes from `first` on of a row of w, as many as an integer holds, and zeros for those that the
 * row does not have.  No load leaves the row. */
FLAT word_of_bytes some_bytes(const uint8_t *row, int64_t first, int64_t w)
{
    enum { LENGTH = sizeof(word_of_bytes) };
    const int64_t beyond = first + LENGTH - w;
    word_of_bytes word = 0;

    if (first >= w || first <= -LENGTH)
        return 0;
    if (w >= LENGTH) {          /* one side at most is beyond */
        memcpy(&word, first < 0 ? row : row + w - LENGTH, LENGTH);
        return first < 0 ? word << 8 * -first : word >> 8 * beyond;
    }
    for (int64_t i = first < 0 ? -first : 0; i < LENGTH && first + i < w; i++)
        word |= (word_of_bytes)row[first + i] << 8 * i;
    return word;
}
#endif

#define NAME(x) i8_##x
#define REAL int32_t
#define PIXEL uint8_t
#define FILTER int8_t
#if defined(PICKED_LOAD_1)
#define PICKED_LOAD PICKED_LOAD_1
#endif
#define EVEN EVEN_4BYTES
#define ZIP ZIP_4BYTES
#define TURN_HALVES TURN_HALVES_4
#define MASKED_STORE MASKED_STORE_4
#define EVEN_STORE EVEN_STORE_4
#if defined(__AVX512VNNI__)
#define GROUP 4
#define MULTIPLY_ADD(x, w, sum) \
    ((VEC)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
#elif defined(__AVX512F__)
#define GROUP 2
#define MULTIPLY_ADD(x, w, sum) ((sum) + (VEC)_mm512_madd_epi16((__m512i)(x), (__m512i)(w)))
#elif defined(__aarch64__)
#define GROUP 2
#define LOWER(x) ((VEC)(x) << 16 >> 16)
#define MULTIPLY_ADD(x, w, sum) \
    ((sum) + LOWER(x) * LOWER(w) + ((VEC)(x) >> 16) * ((VEC)(w) >> 16))
#else
#define GROUP 2
#define MULTIPLY_ADD(x, w, sum) ((sum) + (VEC)_mm256_madd_epi16((__m256i)(x), (__m256i)(w)))
#endif
enum { BYTES_TOGETHER = GROUP };
#include "backends/llvm/kernel/depthwise.h"

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

/* How a convolution is cut into pieces; false: it needs too much room. */
bool limber_depthwise_cut(const struct depthwise *d, int workers, struct depthwise_plan *plan)
{
    const int size = d->size == 1 ? 4 : d->size, group = d->size == 1 ? BYTES_TOGETHER : 1;
    const int64_t lanes = VECTOR / size, enough = workers > 1 ? 4 * (int64_t)workers : 1;
    struct piece p = { .groups = 1 };
    int64_t tasks;

    if (d->gradient)
        return cut_gradient(d, workers, plan);
    *plan = (struct depthwise_plan){ .groups = 1, .outputs = least(d->multiplier, OUTPUTS) };
    plan->across = parts(d->ow, d->nhwc || turns(d, lanes) ? ALONG : ACROSS);
    plan->width = parts(d->ow, plan->across);
    plan->across = parts(d->ow, plan->width);
    p.width = plan->width;
    shape_piece(d, lanes, group, &p);
    if (p.slots > MOST_ROOM || p.row > MOST_ROOM || p.phases * p.length > MOST_ROOM)
        return false;
    choose_groups(d, plan, lanes, p.planes * p.slots * p.row, size);
    p.groups = plan->groups;
    shape_piece(d, lanes, group, &p);
    tasks = d->images * d->od * plan->blocks * plan->across;
    plan->height = parts(d->oh, least(parts(enough, tasks), parts(d->oh, SHORTEST)));
    plan->along = parts(d->oh, plan->height);
    plan->tasks = tasks * plan->along;
    plan->room = (size_t)(plan->groups * plan->outputs *
                              (1 + p.planes * d->r * parts(d->s, group)) * lanes +
                          p.planes * p.slots * p.row + p.phases * p.length * plan->groups * lanes +
                          (p.turned ? p.together * p.width * lanes : 0)) *
                 (size_t)size;
    plan->room = (plan->room + LINE) / LINE * LINE;
    return plan->room <= MOST_ROOM;
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
