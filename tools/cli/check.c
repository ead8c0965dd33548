/* SPDX-License-Identifier: BSD-3-Clause
 * Computes the exact product by MPFR.  Elements are decoded here, without code of the library. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* EXACT_BITS, WIDE_BITS: bits that hold any sum of products exactly; WIDE_BITS if an operand is in
 * binary128. SAMPLES: elements that are checked at random. */
enum { EXACT_BITS = 4800, WIDE_BITS = 70000, SAMPLES = 2000 };

/* Sets x to the binary128 number at p, exactly. */
static void decode_f128(mpfr_t x, const unsigned char *p)
{
    uint64_t low, high;
    int e;

    memcpy(&low, p, 8);
    memcpy(&high, p + 8, 8);
    e = (int)(high >> 48 & 0x7fff);
    mpfr_set_uj(x, (high & 0xffffffffffff) | (e ? (uintmax_t)1 << 48 : 0), MPFR_RNDN);
    mpfr_mul_2ui(x, x, 32, MPFR_RNDN);
    mpfr_add_ui(x, x, low >> 32, MPFR_RNDN);
    mpfr_mul_2ui(x, x, 32, MPFR_RNDN);
    mpfr_add_ui(x, x, low & 0xffffffff, MPFR_RNDN);
    mpfr_mul_2si(x, x, (e ? e : 1) - 16383 - 112, MPFR_RNDN);
    if (e == 0x7fff) {
        if ((high & 0xffffffffffff) || low)
            mpfr_set_nan(x);
        else
            mpfr_set_inf(x, 1);
    }
    if (high >> 63)
        mpfr_neg(x, x, MPFR_RNDN);
}

/* Decodes the bit pattern of a one- or two-byte float. */
static double decode_small_float(limber_format f, unsigned code)
{
    int top = (1 << f.exp_bits) - 1, e = (int)(code >> f.frac_bits) & top;
    int m = (int)(code & ((1u << f.frac_bits) - 1));
    bool no_inf = f.flags & LIMBER_FORMAT_NO_INF;
    double x;

    if (f.flags & LIMBER_FORMAT_NO_MINUS_ZERO)
        x = code == 1u << (f.exp_bits + f.frac_bits) ?
                NAN :
                ldexp(m + (e ? 1 << f.frac_bits : 0), (e ? e : 1) - f.bias - f.frac_bits);
    else if (e == top && !(f.flags & LIMBER_FORMAT_FINITE) &&
             (no_inf ? m == (1 << f.frac_bits) - 1 : true))
        x = m ? NAN : INFINITY;
    else
        x = ldexp(m + (e ? 1 << f.frac_bits : 0), (e ? e : 1) - f.bias - f.frac_bits);
    return code >> (f.exp_bits + f.frac_bits) & 1 ? -x : x;
}

/* Decodes a posit's bit pattern bit by bit, as the standard defines it. */
static double decode_posit(limber_format f, uint64_t code)
{
    int bits = 8 * f.size, at = bits - 2, run = 0, k, e = 0, negative = code >> (bits - 1) & 1;
    double x = 1, unit = 0.5;
    uint64_t first;

    if (!(code & ~(UINT64_C(1) << (bits - 1))))
        return negative ? NAN : 0;
    if (negative)
        code = 0 - code;
    first = code >> at & 1;
    for (; at >= 0 && (code >> at & 1) == first; at--)
        run++;
    k = first ? run - 1 : -run;
    at--;
    for (int i = 0; i < f.exp_bits; i++, at--)
        e = 2 * e + (at >= 0 && code >> at & 1);
    for (; at >= 0; at--, unit /= 2)
        x += code >> at & 1 ? unit : 0;
    x = ldexp(x, k * (1 << f.exp_bits) + e);
    return negative ? -x : x;
}

/* Sets x to the element at p, exactly. */
static void decode(mpfr_t x, limber_format f, const void *p)
{
    double d = 0, part[2];
    float s;
    int64_t v = 0;

    if (f.kind == LIMBER_KIND_DD) {
        memcpy(part, p, 16);
        mpfr_set_d(x, part[0], MPFR_RNDN);
        if (isfinite(part[0]))
            mpfr_add_d(x, x, part[1], MPFR_RNDN);
    } else if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT) {
        memcpy(&v, p, f.size);
        if (f.kind == LIMBER_KIND_INT && f.size < 8)
            v = (int64_t)((uint64_t)v << (64 - 8 * f.size)) >> (64 - 8 * f.size);
        mpfr_set_sj(x, v, MPFR_RNDN);
    } else if (f.kind == LIMBER_KIND_POSIT) {
        memcpy(&v, p, f.size);
        mpfr_set_d(x, decode_posit(f, (uint64_t)v), MPFR_RNDN);
    } else if (f.kind == LIMBER_KIND_SHORT) {
        int half = 1 << f.frac_bits;

        v = *(const unsigned char *)p & (2 * half - 1);
        mpfr_set_sj(x, v < half ? v : v - 2 * half, MPFR_RNDN);
    } else if (f.kind == LIMBER_KIND_POWER) {
        int e = *(const unsigned char *)p;

        mpfr_set_d(x, e == 255 ? NAN : ldexp(1, e - f.bias), MPFR_RNDN);
    } else if (f.size == 16) {
        decode_f128(x, p);
    } else if (f.size == 8) {
        memcpy(&d, p, 8);
        mpfr_set_d(x, d, MPFR_RNDN);
    } else if (f.size == 4) {
        memcpy(&s, p, 4);
        mpfr_set_flt(x, s, MPFR_RNDN);
    } else {
        memcpy(&v, p, f.size);
        mpfr_set_d(x, decode_small_float(f, (unsigned)v), MPFR_RNDN);
    }
}

/* Returns the exponent of the unit in the last place of x in format f. */
static double ulp_exponent(limber_format f, const mpfr_t x)
{
    int bits = f.kind == LIMBER_KIND_DD ? 107 : f.frac_bits + 1;
    int least = f.kind == LIMBER_KIND_DD ? -1074 : 1 - f.bias - f.frac_bits;
    mpfr_exp_t e;

    if (f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT || f.kind == LIMBER_KIND_SHORT)
        return 0;
    /* each bit of the regime leaves one bit less for the fraction */
    if (f.kind == LIMBER_KIND_POSIT && !mpfr_zero_p(x)) {
        int regime = (int)floor(ldexp((double)mpfr_get_exp(x) - 1, -f.exp_bits));

        return (double)(mpfr_get_exp(x) - bits + (regime < 0 ? -regime - 1 : regime));
    }
    e = mpfr_zero_p(x) ? least : mpfr_get_exp(x) - bits;
    return (double)(e < least ? least : e);
}

/* Temporary numbers while a result is compared, and the largest errors so far. */
struct comparison {
    mpfr_t sum, scale, x, y, z;
    struct verdict v;
};

/* Makes numbers with enough bits for exact sums in the operands' formats.  wide: binary128. */
static void open_comparison(struct comparison *w, bool wide)
{
    mpfr_prec_t bits = wide ? WIDE_BITS : EXACT_BITS;

    mpfr_inits2(bits, w->sum, w->scale, w->z, (mpfr_ptr)NULL);
    mpfr_inits2(2400, w->x, w->y, (mpfr_ptr)NULL);
    memset(&w->v, 0, sizeof w->v);
}

static void close_comparison(struct comparison *w)
{
    mpfr_clears(w->sum, w->scale, w->x, w->y, w->z, (mpfr_ptr)NULL);
}

static void clear_sum(struct comparison *w)
{
    mpfr_set_zero(w->sum, 1);
    mpfr_set_zero(w->scale, 1);
}

/* Adds x y to `sum`, and |x y| to `scale`. */
static void add_product(struct comparison *w)
{
    mpfr_mul(w->z, w->x, w->y, MPFR_RNDN);
    mpfr_add(w->sum, w->sum, w->z, MPFR_RNDN);
    mpfr_abs(w->z, w->z, MPFR_RNDN);
    mpfr_add(w->scale, w->scale, w->z, MPFR_RNDN);
}

/* sum = alpha sum + beta before, and `scale` becomes the sum of the terms' absolute values. */
static void add_scalars(struct comparison *w, limber_format f, const void *alpha, const void *beta,
                        const void *before)
{
    limber_format fs =
        f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_SHORT ? format_of("i64") : f;

    if (alpha) {
        decode(w->x, fs, alpha);
        mpfr_mul(w->sum, w->sum, w->x, MPFR_RNDN);
        mpfr_abs(w->x, w->x, MPFR_RNDN);
        mpfr_mul(w->scale, w->scale, w->x, MPFR_RNDN);
    }
    if (beta) {
        decode(w->x, fs, beta);
        decode(w->y, f, before);
        if (!mpfr_zero_p(w->x))
            add_product(w);
    }
}

/* Compares an element with the exact sum, and updates the largest errors. */
static void compare_element(struct comparison *w, limber_format f, const void *got)
{
    double e;

    decode(w->x, f, got);
    if (!mpfr_number_p(w->sum) || !mpfr_number_p(w->x)) {
        bool same = mpfr_nan_p(w->sum) ? mpfr_nan_p(w->x) != 0 : mpfr_equal_p(w->sum, w->x) != 0;

        if (!same)
            w->v.ulp = w->v.relative = INFINITY;
        return;
    }
    mpfr_sub(w->z, w->x, w->sum, MPFR_RNDN);
    if (mpfr_zero_p(w->z))
        return;
    mpfr_abs(w->z, w->z, MPFR_RNDN);
    mpfr_div(w->y, w->z, w->scale, MPFR_RNDU);
    e = mpfr_get_d(w->y, MPFR_RNDU);
    w->v.relative = e > w->v.relative ? e : w->v.relative;
    mpfr_mul_2si(w->z, w->z, -(long)ulp_exponent(f, w->sum), MPFR_RNDU);
    e = mpfr_get_d(w->z, MPFR_RNDU);
    w->v.ulp = e > w->v.ulp ? e : w->v.ulp;
}

/* Returns the index of the i-th element to check: of all elements, or of SAMPLES of them at
 * nearly even distances. */
static int64_t sample_index(int64_t i, int64_t picks, int64_t elements)
{
    if (picks == elements)
        return i;
    return (int64_t)(((unsigned __int128)i * elements +
                      (uint64_t)i * 2654435761u % 97 * (uint64_t)(elements / picks) / 97) /
                     picks) %
           elements;
}

/* Shows progress on a terminal. */
static void show_progress(int64_t i, int64_t n)
{
    if (isatty(2) && (i + 1 == n || i % 64 == 0))
        fprintf(stderr, "\rchecking %" PRId64 "/%" PRId64 "%s", i + 1, n,
                i + 1 == n ? "\r\033[K" : "");
}

static bool is_wide(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == 16;
}

struct verdict check_gemm(int64_t m, int64_t n, int64_t k, limber_format fa, const void *a,
                          limber_format fb, const void *b, limber_format fc, const void *c)
{
    struct cli_product p = {
        .a = { .data = (void *)(uintptr_t)a, .format = fa, .rank = 2, .dim = { m, k } },
        .b = { .data = (void *)(uintptr_t)b, .format = fb, .rank = 2, .dim = { k, n } },
        .c = { .data = (void *)(uintptr_t)c, .format = fc, .rank = 2, .dim = { m, n } }
    };

    return check_product(&p, NULL);
}

/* Sums the exact value of element `at` of a real product, or of a complex one its real (part 0) or
 * imaginary part (1). */
static void sum_gemm_element(struct comparison *w, const struct cli_product *p, int64_t at,
                             int part)
{
    int64_t n = p->c.dim[1], i = at / n, j = at % n;
    int64_t k = p->a.dim[!p->turns.trans_a], lda = p->a.dim[1], ldb = p->b.dim[1];

    for (int64_t q = 0; q < k; q++) {
        const char *a =
            (char *)p->a.data + (p->turns.trans_a ? q * lda + i : i * lda + q) * array_step(&p->a);
        const char *b =
            (char *)p->b.data + (p->turns.trans_b ? j * ldb + q : q * ldb + j) * array_step(&p->b);

        for (int of_a = 0; of_a <= p->a.pairs; of_a++) {
            /* the product of two imaginary parts is subtracted, since i i = -1 */
            int of_b = part ^ of_a;
            bool minus = (of_a && of_b) ^ (of_a && p->turns.conj_a) ^ (of_b && p->turns.conj_b);

            decode(w->x, p->a.format, a + of_a * p->a.format.size);
            decode(w->y, p->b.format, b + of_b * p->b.format.size);
            if (minus)
                mpfr_neg(w->x, w->x, MPFR_RNDN);
            add_product(w);
        }
    }
}

/* Address of the element (image, channel, depth, row, column) = v of a tensor. */
static char *tensor_at(const struct cli_product *p, const struct array *a,
                       const int64_t v[MOST_AXES])
{
    int64_t d[MOST_AXES], at, pixel;

    product_axes(p, a, d);
    pixel = (v[2] * d[3] + v[3]) * d[4] + v[4];
    at = p->conv.layout == LIMBER_LAYOUT_NCHW ? (v[0] * d[1] + v[1]) * d[2] * d[3] * d[4] + pixel :
                                                (v[0] * d[2] * d[3] * d[4] + pixel) * d[1] + v[1];
    return (char *)a->data + at * a->format.size;
}

/* Reads strides, dilations and leading pads for (depth, rows, columns).  In two dimensions the
 * depth has stride 1, dilation 1 and no pad. */
static void read_steps(const limber_conv *s, int64_t stride[3], int64_t dilate[3], int64_t pad[3])
{
    memcpy(stride, (int64_t[]){ s->t ? s->depth_stride : 1, s->stride[0], s->stride[1] },
           3 * sizeof *stride);
    memcpy(dilate, (int64_t[]){ s->t ? s->depth_dilate : 1, s->dilate[0], s->dilate[1] },
           3 * sizeof *dilate);
    memcpy(pad, (int64_t[]){ s->depth_pad[0], s->pad[0], s->pad[2] }, 3 * sizeof *pad);
}

/* Adds one product of a convolution.  Element `filter` = (filter, channel of its group, depth, row,
 * column) of the window and element `result` of the output determine the pixel of the image.  The
 * factors are the elements of the two tensors that are operands. */
static void add_term(struct comparison *w, const struct cli_product *p,
                     const int64_t filter[MOST_AXES], const int64_t result[MOST_AXES])
{
    const limber_conv *s = &p->conv;
    int64_t stride[3], dilate[3], pad[3], x[MOST_AXES];
    const int64_t size[3] = { s->t ? s->d : 1, s->h, s->w };

    read_steps(s, stride, dilate, pad);
    x[0] = result[0];
    x[1] = filter[0] / (s->o / s->groups) * (s->c / s->groups) + filter[1];
    for (int i = 0; i < 3; i++) {
        x[2 + i] = result[2 + i] * stride[i] + filter[2 + i] * dilate[i] - pad[i];
        if (x[2 + i] < 0 || x[2 + i] >= size[i])
            return;
    }
    decode(w->x, p->a.format,
           tensor_at(p, &p->a, p->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ? result : x));
    decode(w->y, p->b.format,
           tensor_at(p, &p->b,
                     p->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? result : filter));
    add_product(w);
}

/* Computes the multi-index v of the i-th element of a tensor with sizes d. */
static void unfold(int64_t i, const int64_t d[MOST_AXES], int64_t v[MOST_AXES])
{
    for (int axis = MOST_AXES; axis-- > 0; i /= d[axis])
        v[axis] = i % d[axis];
}

/* Sums element v of the output over all elements of the window. */
static void sum_forward_element(struct comparison *w, const struct cli_product *p,
                                const int64_t v[MOST_AXES])
{
    int64_t d[MOST_AXES], filter[MOST_AXES];

    product_axes(p, &p->b, d);
    d[0] = 1;
    for (int64_t q = 0; q < d[1] * d[2] * d[3] * d[4]; q++) {
        unfold(q, d, filter);
        filter[0] = v[1];
        add_term(w, p, filter, v);
    }
}

/* Sums element v of the image's gradient, over the filters of its group and those elements of the
 * window that read the pixel. */
static void sum_data_element(struct comparison *w, const struct cli_product *p,
                             const int64_t v[MOST_AXES])
{
    const limber_conv *s = &p->conv;
    int64_t filters = s->o / s->groups, channels = s->c / s->groups, y[MOST_AXES], d[MOST_AXES];
    int64_t stride[3], dilate[3], pad[3];

    read_steps(s, stride, dilate, pad);
    product_axes(p, &p->a, y);
    product_axes(p, &p->b, d);
    d[0] = filters;
    d[1] = 1;
    for (int64_t q = 0; q < filters * d[2] * d[3] * d[4]; q++) {
        int64_t filter[MOST_AXES], result[MOST_AXES];
        bool meets = true;

        unfold(q, d, filter);
        filter[0] += v[1] / channels * filters;
        filter[1] = v[1] % channels;
        result[0] = v[0];
        result[1] = filter[0];
        for (int i = 0; i < 3; i++) {
            int64_t at = v[2 + i] + pad[i] - filter[2 + i] * dilate[i];

            result[2 + i] = at / stride[i];
            meets = meets && at >= 0 && at % stride[i] == 0 && result[2 + i] < y[2 + i];
        }
        if (meets)
            add_term(w, p, filter, result);
    }
}

/* Sums element v of the filters' gradient over all pixels of the output. */
static void sum_filter_element(struct comparison *w, const struct cli_product *p,
                               const int64_t v[MOST_AXES])
{
    int64_t d[MOST_AXES], result[MOST_AXES];

    product_axes(p, &p->b, d);
    d[1] = 1;
    for (int64_t q = 0; q < d[0] * d[2] * d[3] * d[4]; q++) {
        unfold(q, d, result);
        result[1] = v[0];
        add_term(w, p, v, result);
    }
}

/* Sums element `at` of a convolution's result. */
static void sum_conv_element(struct comparison *w, const struct cli_product *p, int64_t at)
{
    int64_t d[MOST_AXES], v[MOST_AXES], channel = 0;

    product_axes(p, &p->c, d);
    if (p->conv.layout != LIMBER_LAYOUT_NCHW) {
        channel = at % d[1];
        at /= d[1];
        d[1] = 1;
    }
    unfold(at, d, v);
    v[1] += channel;
    switch (p->operation) {
    case LIMBER_OPERATION_CONV_BACKWARD_DATA: sum_data_element(w, p, v); break;
    case LIMBER_OPERATION_CONV_BACKWARD_FILTER: sum_filter_element(w, p, v); break;
    default: sum_forward_element(w, p, v); break;
    }
}

/* Compares all elements of a result, or a sample of a large one, with exact sums by MPFR.  Returns
 * the largest errors. */
struct verdict check_product(const struct cli_product *p, const void *before)
{
    int64_t elements = array_size(&p->c), picks = elements;
    struct comparison w;

    open_comparison(&w, is_wide(p->a.format) || is_wide(p->b.format) || is_wide(p->c.format));
    if (picks > 2 * SAMPLES)
        picks = SAMPLES;
    w.v.elements = elements;
    for (int64_t i = 0; i < picks; i++) {
        int64_t at = sample_index(i, picks, elements);

        show_progress(i, picks);
        for (int part = 0; part <= p->c.pairs; part++) {
            int64_t offset = at * array_step(&p->c) + part * p->c.format.size;

            clear_sum(&w);
            if (p->is_conv)
                sum_conv_element(&w, p, at);
            else
                sum_gemm_element(&w, p, at, part);
            add_scalars(&w, p->c.format, product_alpha(p), product_beta(p),
                        before ? (const char *)before + offset : NULL);
            compare_element(&w, p->c.format, (const char *)p->c.data + offset);
        }
        w.v.checked++;
    }
    close_comparison(&w);
    return w.v;
}
