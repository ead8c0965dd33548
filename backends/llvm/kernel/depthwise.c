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
    bool turned, by_channel; /* lanes are channels; turned: and yet the layout is NCHW */
    int64_t shift; /* lanes of the first vector of channels that are not the piece's, so that others
                      are aligned */
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

/* Common windows: height, width, stride, and whether they run backwards.  Those without three taps
 * are of gradients of images under a stride of two. */
#define FORWARD_WINDOWS(F) F(3, 3, 1, 0) F(3, 3, 2, 0)
#define ALL_WINDOWS(F) \
    FORWARD_WINDOWS(F) \
    F(3, 3, 1, 1) F(2, 2, 1, 1) F(2, 1, 1, 1) F(1, 2, 1, 1) F(1, 1, 1, 1)

/* NHWC of floats, one output of one channel each. */
static bool has_lanes(const struct depthwise *d, int group)
{
    return group == 1 && d->multiplier == 1 && d->inputs == 1 && d->t == 1 &&
           d->channels <= MOST_CHANNELS;
}

/* NCHW whose rows fill less than a vector, and images so small that they are turned at once. */
static bool is_narrow(const struct depthwise *d, int64_t lanes, int group)
{
    return !d->nhwc && has_lanes(d, group) && d->depth == 1 && d->to[4] == 1 &&
           d->to[3] == d->ow && 2 * d->ow <= lanes && d->h <= MOST_TURNED && d->w <= MOST_TURNED &&
           d->h * d->w <= MOST_TURNED;
}

/* Lanes before a piece's first channel after which vectors of each pixel are aligned: where masks
 * are free, loads that cross lines of the cache are what takes time. */
static int64_t shift_of(const struct depthwise *d, int64_t lanes, int64_t channels)
{
    const int64_t line = lanes * d->size, beyond = (int64_t)((uintptr_t)d->image % (size_t)line);

    return MASKS_ARE_FREE && d->nhwc && channels > 2 * lanes && d->channels % lanes == 0 &&
                   beyond % d->size == 0 ?
               beyond / d->size :
               0;
}

/* A gradient of filters of two dimensions. */
static bool has_nine_sums(const struct depthwise *d)
{
    return d->r == 3 && d->s == 3 && d->multiplier == 1 && d->t == 1 && d->depth == 1;
}

/* Whether the image is read where it lies. */
static bool is_direct(const struct depthwise *d, int group)
{
    bool common = false;

#define WINDOW(height, width, step, back) \
    common |= d->r == (height) && d->s == (width) && d->stride[0] == (step) && \
              d->stride[1] == (step) && d->backward == (back) && \
              (d->nhwc || d->gradient || d->to[4] == ((back) && ((height) < 3 || (width) < 3) ? 2 : 1));
    ALL_WINDOWS(WINDOW)
#undef WINDOW
    return common && !d->add && (!d->gradient || has_nine_sums(d)) && (!d->nhwc || has_lanes(d, group)) && (d->r == 1 || d->dilate[0] == 1) &&
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

/* Sizes of what a piece packs, which are those of the largest. */
static void shape_piece(const struct depthwise *d, int64_t lanes, int group, struct piece *p)
{
    const int64_t window = (d->s - 1) * d->dilate[1], stride = d->stride[1];
    const int64_t vectors = parts(p->width, lanes);

    p->direct = is_direct(d, group);
    p->narrow = p->direct && !d->gradient && is_narrow(d, lanes, group);
    p->turned = d->gradient ? !d->nhwc : !p->direct && turns(d, lanes);
    p->by_channel = d->nhwc || p->turned;
    p->phases = p->by_channel ? 1 : least(window + 1, stride);
    p->length = p->by_channel ? (p->width - 1) * stride + window + 1 :
                                (vectors + parts(window / stride, lanes)) * lanes;
    p->row = p->narrow ?
                 (BLOCK_ACROSS + parts(d->h * d->w, lanes) * lanes + d->oh * d->ow + lanes) * lanes :
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
                                  int64_t lanes, int64_t block)
{
    const int64_t each = plan->groups * lanes, channel = block * each;
    struct piece p = { .channel = channel,
                       .channels = least(each, d->channels - channel),
                       .width = d->ow,
                       .height = d->oh };

    if (is_direct(d, 1))
        p.shift = shift_of(d, lanes, p.channels);
    p.groups = parts(p.shift + p.channels, lanes);
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
/* All lanes are x. */
#define SAME_2(x) { x, x }
#define SAME_4(x) { x, x, x, x }
#define SAME_8(x) { x, x, x, x, x, x, x, x }
#define SAME_16(x) { x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }
#define ODD_2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define ODD_4(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ODD_8(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define ODD_16(a, b) \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
/* Lanes from the second on, and the first one of b. */
#define NEXT_2(a, b) __builtin_shufflevector(a, b, 1, 2)
#define NEXT_4(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4)
#define NEXT_8(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8)
#define NEXT_16(a, b) \
    __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
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
enum { VECTOR = 64, HALVED = 64, KEEPS_PIXELS = true };
/* Quarters of four registers: the first of each to `to`, and so on. */
#define TURN_QUARTERS(lanes, type, f, to, apart) \
    do { \
        const type low[] = { HALF_##lanes((f)[0], (f)[1], 0), HALF_##lanes((f)[2], (f)[3], 0) }; \
        const type high[] = { HALF_##lanes((f)[0], (f)[1], lanes / 2), \
                              HALF_##lanes((f)[2], (f)[3], lanes / 2) }; \
\
        (to)[0] = QUARTER_##lanes(low[0], low[1], 0); \
        (to)[apart] = QUARTER_##lanes(low[0], low[1], lanes / 4); \
        (to)[2 * (apart)] = QUARTER_##lanes(high[0], high[1], 0); \
        (to)[3 * (apart)] = QUARTER_##lanes(high[0], high[1], lanes / 4); \
    } while (0)
/* Halves of two registers, and every other quarter. */
#define HALF_8(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 2, (n) + 3, (n) + 8, (n) + 9, (n) + 10, \
                            (n) + 11)
#define HALF_16(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 2, (n) + 3, (n) + 4, (n) + 5, (n) + 6, \
                            (n) + 7, (n) + 16, (n) + 17, (n) + 18, (n) + 19, (n) + 20, (n) + 21, \
                            (n) + 22, (n) + 23)
#define QUARTER_8(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 4, (n) + 5, (n) + 8, (n) + 9, (n) + 12, \
                            (n) + 13)
#define QUARTER_16(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 2, (n) + 3, (n) + 8, (n) + 9, (n) + 10, \
                            (n) + 11, (n) + 16, (n) + 17, (n) + 18, (n) + 19, (n) + 24, (n) + 25, \
                            (n) + 26, (n) + 27)
/* Lanes n and on of each quarter of two registers, in turn; and two at once. */
#define MIX_8(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 8, (n) + 2, (n) + 10, (n) + 4, (n) + 12, (n) + 6, \
                            (n) + 14)
#define MIX_16(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 16, (n) + 1, (n) + 17, (n) + 4, (n) + 20, (n) + 5, \
                            (n) + 21, (n) + 8, (n) + 24, (n) + 9, (n) + 25, (n) + 12, (n) + 28, \
                            (n) + 13, (n) + 29)
#define MIX_TWO(a, b, n) \
    __builtin_shufflevector(a, b, (n), (n) + 1, (n) + 16, (n) + 17, (n) + 4, (n) + 5, (n) + 20, \
                            (n) + 21, (n) + 8, (n) + 9, (n) + 24, (n) + 25, (n) + 12, (n) + 13, \
                            (n) + 28, (n) + 29)
/* Sixteen rows of sixteen lanes: four by four within quarters, then these. */
#define TURN_HALVES_4(type, v) \
    do { \
        type four[4][4]; \
\
        UNROLL for (int i = 0; i < 4; i++) { \
            const type one[] = { MIX_16((v)[4 * i], (v)[4 * i + 1], 0), \
                                 MIX_16((v)[4 * i], (v)[4 * i + 1], 2) }; \
            const type two[] = { MIX_16((v)[4 * i + 2], (v)[4 * i + 3], 0), \
                                 MIX_16((v)[4 * i + 2], (v)[4 * i + 3], 2) }; \
\
            UNROLL for (int n = 0; n < 2; n++) { \
                four[2 * n][i] = MIX_TWO(one[n], two[n], 0); \
                four[2 * n + 1][i] = MIX_TWO(one[n], two[n], 2); \
            } \
        } \
        UNROLL for (int j = 0; j < 4; j++) \
            TURN_QUARTERS(16, type, four[j], &(v)[j], 4); \
    } while (0)
/* Eight rows of eight lanes. */
#define TURN_HALVES_8(type, v) \
    do { \
        type two[2][4]; \
\
        UNROLL for (int i = 0; i < 4; i++) { \
            two[0][i] = MIX_8((v)[2 * i], (v)[2 * i + 1], 0); \
            two[1][i] = MIX_8((v)[2 * i], (v)[2 * i + 1], 1); \
        } \
        UNROLL for (int j = 0; j < 2; j++) \
            TURN_QUARTERS(8, type, two[j], &(v)[j], 2); \
    } while (0)
#define REGISTER "+v"
#define BETWEEN(from, end) ((1u << (end)) - (1u << (from)))
#define PICKED_LOAD_1(p, from, end) _mm_maskz_loadu_epi8((__mmask16)BETWEEN(from, end), p)
#define PICKED_LOAD_4(p, from, end) _mm512_maskz_loadu_epi32((__mmask16)BETWEEN(from, end), p)
#define PICKED_LOAD_8(p, from, end) _mm512_maskz_loadu_epi64((__mmask8)BETWEEN(from, end), p)
#define EVEN_4BYTES EVEN_16
#define EVEN_8BYTES EVEN_8
#define ODD_4BYTES ODD_16
#define ODD_8BYTES ODD_8
#define SAME_4BYTES SAME_16
#define SAME_8BYTES SAME_8
#define NEXT_4BYTES NEXT_16
#define NEXT_8BYTES NEXT_8
/* Lanes from n on, and the first ones of b.  Compilers take permutations of two registers, which
 * overwrite one of them. */
#define ALIGN(type, size, n, a, b) ({ \
    type aligned; \
    __asm__("valign" size " $" #n ", %1, %2, %0" : "=v"(aligned) : "v"(a), "v"(b)); \
    aligned; \
})
/* Two elements of a row of w, from `first` on, in the first lanes. */
#define LOOK_BEYOND_4(row, first, w) \
    (f32_vec)_mm512_zextps128_ps512(_mm_maskz_loadu_ps((__mmask8)FIRST_TWO(first, w), (row) + (first)))
#define LOOK_BEYOND_8(row, first, w) \
    (f64_vec)_mm512_zextpd128_pd512(_mm_maskz_loadu_pd((__mmask8)FIRST_TWO(first, w), (row) + (first)))
FLAT uint32_t FIRST_TWO(int64_t first, int64_t w)
{
    const int64_t from = least(first < 0 ? -first : 0, 2);
    const int64_t end = least(first < w ? w - first : 0, 2);

    return (1u << end) - (1u << from);
}
#define ZIP_4BYTES ZIP_16
#define ZIP_8BYTES ZIP_8
#define MASKED_STORE_4(c, v, lanes) \
    _mm512_mask_storeu_epi32(c, (__mmask16)((1u << (lanes)) - 1), (__m512i)(v))
#define MASKED_STORE_8(c, v, lanes) \
    _mm512_mask_storeu_epi64(c, (__mmask8)((1u << (lanes)) - 1), (__m512i)(v))
/* Some lanes, as loads and stores name them. */
typedef uint32_t some_lanes;
FLAT some_lanes lanes_between(int64_t from, int64_t end)
{
    return BETWEEN(from, end);
}
#define LANES_LOAD_4(p, some) _mm512_maskz_loadu_epi32((__mmask16)(some), p)
#define LANES_LOAD_8(p, some) _mm512_maskz_loadu_epi64((__mmask8)(some), p)
#define LANES_STORE_4(p, v, some) _mm512_mask_storeu_epi32(p, (__mmask16)(some), (__m512i)(v))
#define LANES_STORE_8(p, v, some) _mm512_mask_storeu_epi64(p, (__mmask8)(some), (__m512i)(v))
/* Lanes 0, 2, ...: so many of them. */
#define EVEN_STORE_4(c, v, lanes) \
    _mm512_mask_storeu_epi32(c, (__mmask16)(0x5555 & ((1u << 2 * (lanes)) - 1)), (__m512i)(v))
#define EVEN_STORE_8(c, v, lanes) \
    _mm512_mask_storeu_epi64(c, (__mmask8)(0x55 & ((1u << 2 * (lanes)) - 1)), (__m512i)(v))
#elif defined(__aarch64__)
enum { VECTOR = 16, HALVED = 0, KEEPS_PIXELS = true };
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
#define ODD_4BYTES ODD_4
#define ODD_8BYTES ODD_2
#define SAME_4BYTES SAME_4
#define SAME_8BYTES SAME_2
#define NEXT_4BYTES NEXT_4
#define NEXT_8BYTES NEXT_2
#define ZIP_4BYTES ZIP_4
#define ZIP_8BYTES ZIP_2
#define MASKED_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 4, 1)
#define MASKED_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 2, 1)
#define EVEN_STORE_4(c, v, lanes) STORE_LANES(c, v, lanes, 2, 2)
#define EVEN_STORE_8(c, v, lanes) STORE_LANES(c, v, lanes, 1, 2)
#else
enum { VECTOR = 32, HALVED = 32, KEEPS_PIXELS = false };
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
#define ODD_4BYTES ODD_8
#define ODD_8BYTES ODD_4
#define SAME_4BYTES SAME_8
#define SAME_8BYTES SAME_4
#define NEXT_4BYTES NEXT_8
#define NEXT_8BYTES NEXT_4
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

/* Rows of dy that are turned at once with those of the image that they meet. */
static int64_t turned_rows(const struct depthwise *d)
{
    const int64_t row = (d->ow + d->stride[0] * d->w) * VECTOR, rows = NEAR / row;

    return least(rows < 1 ? 1 : rows, d->oh);
}

#if !defined(LANES_LOAD_4)
/* So many: the first is among them, since vectors need no alignment. */
typedef int64_t some_lanes;
FLAT some_lanes lanes_between(int64_t from, int64_t end)
{
    (void)from;
    return end;
}
#define LANES_LOAD_4(p, some) PICKED_LOAD_4(p, 0, some)
#define LANES_LOAD_8(p, some) PICKED_LOAD_8(p, 0, some)
#define LANES_STORE_4(p, v, some) MASKED_STORE_4(p, v, some)
#define LANES_STORE_8(p, v, some) MASKED_STORE_8(p, v, some)
#endif

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
#undef NEXT
#define NEXT(a, b) ALIGN(f64_vec, "q", 1, a, b)
#define NEXT_BUT_ONE(a, b) ALIGN(f64_vec, "q", 2, a, b)
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
#undef NEXT
#define NEXT(a, b) ALIGN(f32_vec, "d", 1, a, b)
#define NEXT_BUT_ONE(a, b) ALIGN(f32_vec, "d", 2, a, b)
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

#if defined(SEES_BYTES)
/* Four neighbouring bytes in each lane: of a row of w from `first` on, at every or every other
 * byte. */
FLAT __m512i see_bytes(const uint8_t *row, int64_t first, int64_t w, int stride, int offset)
{
    const __m512i offsets = _mm512_set1_epi8((char)offset);
    const int64_t from = least(first < 0 ? -first : 0, 64);
    const int64_t end = least(first < w ? w - first : 0, 64);
    const __mmask64 inside = _bzhi_u64(-1, (unsigned)end) & ~_bzhi_u64(-1, (unsigned)from);

    if (stride == 1) {
        const __m256i low = _mm256_maskz_loadu_epi8((__mmask32)inside, row + first);
        const __m512i spread = _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4),
            _mm512_castsi256_si512(_mm256_xor_si256(low, _mm512_castsi512_si256(offsets))));

        return _mm512_shuffle_epi8(spread, _mm512_set4_epi32(0x06050403, 0x05040302, 0x04030201,
                                                             0x03020100));
    }
    return _mm512_permutexvar_epi16(
        _mm512_set_epi16(16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8, 7, 7, 6,
                         6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0),
        _mm512_xor_si512(offsets, _mm512_maskz_loadu_epi8(inside, row + first)));
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
#define SAME SAME_4BYTES
#define DIRECT_WINDOWS FORWARD_WINDOWS
#define ZIP ZIP_4BYTES
#define TURN_HALVES TURN_HALVES_4
#define MASKED_STORE MASKED_STORE_4
#define LANES_LOAD LANES_LOAD_4
#define LANES_STORE LANES_STORE_4
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
    plan->across = parts(d->ow, d->nhwc || (turns(d, lanes) && !is_direct(d, group)) ? ALONG : ACROSS);
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
