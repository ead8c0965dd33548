/* SPDX-License-Identifier: BSD-3-Clause
 * Packs operands of simulated units: rounds elements to the unit's operand formats, and records the
 * value range of each line. */
#ifndef LIMBER_KERNEL_UNIT_LOAD_H
#define LIMBER_KERNEL_UNIT_LOAD_H

#include "backends/llvm/kernel/unit_round.h"
#include "ir/unit/num.h"

typedef int16_t v16h __attribute__((vector_size(32)));

/* Compute random numbers in lanes, equal to those of limber_unit_element and limber_unit_number. */
#define LIMBER_ELEMENT(row, j) ({                                                               \
    __typeof__((row) + (j)) x_ = (row) + (j) * LIMBER_ELEMENT_STEP;                             \
    LIMBER_MIX(x_);                                                                             \
    x_;                                                                                         \
})
#define LIMBER_NUMBER(element, stream, index) ({                                                \
    __typeof__(element) x_ = (element) + ((stream) * LIMBER_STREAM_STEP +                       \
                                          (index) * LIMBER_INDEX_STEP);                         \
    LIMBER_MIX(x_);                                                                             \
    x_;                                                                                         \
})

/* exponent of a zero, so small that it never determines the alignment of a block */
enum { NO_EXPONENT = -20000 };

/* Value ranges of a line, each a maximum over its elements or a sum.  RANGE_bits: largest bit
 * pattern of a magnitude.  RANGE_below: largest difference of infinity's bit pattern and that of a
 * nonzero magnitude.  RANGE_squares: sum of squares. */
enum range { RANGE_bits, RANGE_below , RANGE_squares };

/* Returns the address of one of the value ranges of a line. */
FLAT int32_t *range_of(const struct packed *o, int which, int64_t line)
{
    return o->range + which * o->range_lines + line;
}

/* Stores a value range for the strip's own lanes only, since other tasks write the adjacent lanes
 * at the same time. */
FLAT void put_range(const struct strip *w, int which, const char *v)
{
    if (w->side)
        __builtin_memcpy(range_of(w->o, which, w->first), v, (unsigned)(4 * lanes_of(1)));
    else
        __builtin_memcpy(range_of(w->o, which, w->first), v, (unsigned)(4 * lanes_of(0)));
}

/* Extends the value range of each of a strip's sixteen lines by one packed value of the line. */
FLAT void extend_ranges(const struct strip *w, v16f x)
{
    v16i bits = (v16i)x & INT32_MAX, below = 0x7f800000 - bits, most, least;
    v16f squares;

    below &= (v16i)(bits != 0);
    most = LOAD(v16i, range_of(w->o, RANGE_bits, w->first));
    least = LOAD(v16i, range_of(w->o, RANGE_below, w->first));
    squares = LOAD(v16f, range_of(w->o, RANGE_squares, w->first));
    most = PICK(bits > most, bits, most);
    least = PICK(below > least, below, least);
    squares = FMA(x, x, squares);
    put_range(w, RANGE_bits, (const char *)&most);
    put_range(w, RANGE_below, (const char *)&least);
    put_range(w, RANGE_squares, (const char *)&squares);
}

/* Returns the exponents of values in their format, as the alignment of a fused block uses them:
 * subnormal numbers have the format's lowest exponent. */
FLAT v16i exponents_of(limber_step s, v16f x)
{
    v16i e = ((v16i)x >> 23 & 255) - 127, least = all_i(1 - s.format.bias);

    return PICK(e > least, e, least);
}

/* Returns a mask of the lanes whose lines exist. */
FLAT v16i live_lanes(const struct strip *w)
{
    v16i lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

    return lane < (int32_t)(w->live > KERNEL_LANES ? KERNEL_LANES : w->live);
}

/* Stores sixteen values, element p of each line of the strip, as FP16 or BF16. */
FLAT void store_halves(const struct strip *w, int64_t p, v16f x)
{
#ifdef __ARM_FEATURE_BF16
    if (CONSTANT.pairs) {
        v16h upper = TO(v16h, (v16i)x >> 16);

        put_row(w, 0, p, (const char *)&upper, 2);
        return;
    }
#endif
#ifdef __AVX512F__
    v16h v = (v16h)__builtin_ia32_vcvtps2ph512_mask(x, 0, (v16h){ 0 }, (uint16_t)-1);
#else
    typedef _Float16 v16e __attribute__((vector_size(32)));
    v16h v = (v16h)TO(v16e, x);
#endif

    put_row(w, 0, p, (const char *)&v, 2);
}

/* Returns the row of the operand for position p in the order in which the unit sums along k. */
FLAT const char *row_at(const struct strip *w, const char *from, int64_t stride, int p, char *room)
{
    int64_t index;

    if (limber_unit_in_order(&MODEL))
        return from + p * stride;
    index = limber_unit_index_of_position(&MODEL, w->c->k, w->p0 + p);
    w->c->cold->rows(w->c, w->side, (int64_t[]){ w->first, w->live, index, 1 }, room);
    return room;
}

/* ---- operands whose blocks have scales ------------------------------------------------------- */

/* The scales of sixteen lines for one block along k; 1 for a block of zeros. */
struct scales {
    int64_t block;              /* number of the current block; -1 if there is none yet */
    v8d scale[2];
};

/* Sets most[] to the largest finite magnitude of each line in a block. */
FLAT void largest_in_block(const struct strip *w, int64_t block, v8d most[2])
{
    char room[KERNEL_BLOCK * KERNEL_LANES * 16] __attribute__((aligned(64)));
    int64_t end = min64((block + 1) * MODEL.scale_block, w->c->k);

    most[0] = most[1] = all_d(0);
    ROLL for (int64_t q = block * MODEL.scale_block; q < end; q += KERNEL_BLOCK) {
        int64_t len = min64(KERNEL_BLOCK, end - q);

        w->c->cold->rows(w->c, w->side, (int64_t[]){ w->first, w->live, q, len }, room);
        ROLL for (int64_t p = 0; p < len; p++)
            UNROLL for (int h = 0; h < 2; h++) {
                v8d x[3], size;

                load_eight(w, room + (p * KERNEL_LANES + 8 * h) * w->as->f.size, all_l(0), x);
                size = (v8d)((v8l)finite(x[0]) & INT64_MAX);
                most[h] = (v8d)PICK((v8l)(size > most[h]), (v8l)size, (v8l)most[h]);
            }
    }
}

/* Returns x / y rounded to odd, so that a later rounding gives the correctly rounded quotient. */
FLAT v8d odd_quotient(v8d x, v8d y)
{
    v8d q = x / y, rest = FMA(-q, y, x);
    v8l some = (v8l)(rest > 0) | (v8l)(rest < 0), back = ((v8l)rest ^ (v8l)x) >> 63;

    return (v8d)PICK(some, ((v8l)q + back) | 1, (v8l)q);
}

/* Returns the exponent of each lane, as its bit pattern has it. */
FLAT v8l exponent_of(v8d x)
{
    return ((v8l)x >> 52 & 0x7ff) - 1023;
}

/* Returns the scales of blocks whose largest magnitudes are `most`, by the unit's rule. */
FLAT v8d scale_of_largest(limber_step s, v8d most)
{
    static const limber_step ue4m3 = {
        { LIMBER_KIND_FLOAT, 4, 3, LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_SATURATE, 7, 1, 0 },
        LIMBER_ROUND_NEAREST, 0
    };
    limber_format f = s.format;
    v8l none = (v8l)(most == 0), e, ignored;
    double top = largest_of(f);
    v8d scale;

    if (MODEL.scale == LIMBER_SCALE_UE4M3) {
        scale = wide_round(ue4m3, odd_quotient(most, all_d(top)), all_l(0), &ignored);
    } else {
        v8l bits = (v8l)most, unit = all_l((int64_t)1 << (52 - f.frac_bits));

        if (MODEL.scale_rule == LIMBER_SCALE_RULE_EVEN)
            bits += (unit >> 1) - 1 + (bits >> (52 - f.frac_bits) & 1);
        e = exponent_of((v8d)bits) - exponent_of(all_d(top));
        if (MODEL.scale_rule == LIMBER_SCALE_RULE_CEIL) {
            v8l least = PICK(e > -900, e, all_l(-900));

            e -= (v8l)(most * powers_of_two(-least) > all_d(top));
        }
        e = PICK(e > -127, e, all_l(-127));
        e = PICK(e < 127, e, all_l(127));
        scale = powers_of_two(e);
    }
    return (v8d)PICK(none, (v8l)all_d(1), (v8l)scale);
}

/* Divides eight elements of a scaled block by the scale, and rounds them to the operand's format.
 * *e: set to their exponents.  Returns the rounded elements times the scale. */
FLAT v8d scaled_value(limber_step s, v8d x, v8d scale, v8l *e)
{
    v8l usable = (v8l)(scale > 0), least = all_l(1 - s.format.bias), ignored;
    v8d one = (v8d)PICK(usable, (v8l)scale, (v8l)all_d(1)), v;

    v = wide_round(s, odd_quotient(x, one), all_l(0), &ignored);
    /* with a scale of zero, finite elements become zeros with their signs */
    v = (v8d)PICK(usable | ~(v8l)(x - x == 0), (v8l)v, (v8l)x & INT64_MIN);
    *e = exponent_of(v);
    *e = PICK(*e > least, *e, least);
    *e = MODEL.sub > 1 ? exponent_of(one) : *e + exponent_of(one);
    return v * one;
}

/* Rounds elements low, high of row p under the scales of their block, and returns the results.
 * *e: set to their exponents or, if each term of a sum adds neighbouring products, to the
 * exponents of the scales alone. */
FLAT v16f load_scaled(const struct strip *w, struct scales *scales, int p, v8d low, v8d high,
                      v16i *e)
{
    limber_step s = w->side ? MODEL.b : MODEL.a;
    int64_t block = limber_unit_index_of_position(&MODEL, w->c->k, w->p0 + p) / MODEL.scale_block;
    v8l exponent[2];

    if (block != scales->block) {
        scales->block = block;
        largest_in_block(w, block, scales->scale);
        UNROLL for (int h = 0; h < 2; h++)
            scales->scale[h] = scale_of_largest(s, scales->scale[h]);
    }
    low = scaled_value(s, low, scales->scale[0], &exponent[0]);
    high = scaled_value(s, high, scales->scale[1], &exponent[1]);
    *e = JOIN(TO(v8i, exponent[0]), TO(v8i, exponent[1]));
    return JOIN(TO(v8f, low), TO(v8f, high));
}

/* Returns sixteen values rounded to the operand's format.  *e: set to their exponents, for fused
 * blocks. */
FLAT v16f load_rounded(const struct strip *w, v8d low, v8d high, v16i *e)
{
    limber_step s = w->side ? MODEL.b : MODEL.a;
    v8l beyond;
    v16f x;

    if (w->as->rounds) {
        low = wide_round(s, low, all_l(0), &beyond);
        high = wide_round(s, high, all_l(0), &beyond);
    }
    x = JOIN(TO(v8f, low), TO(v8f, high));
    *e = MODEL.sub > 1 ? all_i(0) : exponents_of(s, x);
    return x;
}

/* Rounds the elements of sixteen lines (a strip), in one block of k, to the simulated unit's
 * operand format, and packs them.  If the unit adds aligned products (fused blocks), also packs
 * their exponents. */
FLAT void pack_unit(const struct strip *w, const char *from, int64_t stride)
{
    v16i live = live_lanes(w);
    struct scales scales = { .block = -1 };

    ROLL for (int p = 0; p < w->len; p++) {
        char room[KERNEL_BLOCK * KERNEL_LANES * 8] __attribute__((aligned(64)));
        const char *at = row_at(w, from, stride, p, room);
        v8d low[3], high[3];
        v16f x;
        v16i e;

        load_eight(w, at, w->scale_low, low);
        load_eight(w, at + 8 * w->as->f.size, w->scale_high, high);
        x = MODEL.scale ? load_scaled(w, &scales, p, low[0], high[0], &e) :
            load_rounded(w, low[0], high[0], &e);
        x = (v16f)((v16i)x & live);
        if (LIMB_KIND == LIMB_KIND_half) {
            store_halves(w, w->p0 + p, x);
            continue;
        }
        /* Zeros must not raise a block's largest exponent, so they get a very small one.  But with
         * sub > 1, a term is a sum of products with a common exponent, so zeros keep theirs. */
        if (!MODEL.zeros && MODEL.sub == 1)
            e = PICK((v16i)(x == 0), all_i(NO_EXPONENT), e);
        put_row(w, 0, w->p0 + p, (const char *)&x, 4);
        if (CONSTANT.fused)
            put_row(w, 1, w->p0 + p, (const char *)&e, 4);
        extend_ranges(w, x);
    }
}

#endif
