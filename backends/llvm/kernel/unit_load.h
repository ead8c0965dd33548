/* SPDX-License-Identifier: BSD-3-Clause
 * Operands of simulated units: rounded on load, packed with the ranges of their lines. */
#ifndef LIMBER_KERNEL_UNIT_LOAD_H
#define LIMBER_KERNEL_UNIT_LOAD_H

#include "backends/llvm/kernel/unit_round.h"
#include "ir/unit_num.h"

typedef int16_t v16h __attribute__((vector_size(32)));

enum { NO_EXPONENT = -20000 };      /* of what takes no part in an alignment */

/* Ranges of lines, for each the largest of what was seen; bits are those of the magnitude. */
enum range { RANGE_bits, RANGE_below /* infinity's bits minus a nonzero's */, RANGE_squares,
             RANGE_count };

FLAT int32_t *range_of(const struct packed *o, int which, int64_t line)
{
    return o->range + which * o->range_lines + line;
}

/* Lanes that are this strip's own; others write theirs at the same time. */
FLAT void put_range(const struct strip *w, int which, const char *v)
{
    if (w->side)
        __builtin_memcpy(range_of(w->o, which, w->first), v, (unsigned)(4 * lanes_of(1)));
    else
        __builtin_memcpy(range_of(w->o, which, w->first), v, (unsigned)(4 * lanes_of(0)));
}

FLAT void see_values(const struct strip *w, v16f x)
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

/* The exponents of encodings, as the alignment of a fused block reads them. */
FLAT v16i exponents_of(limber_step s, v16f x)
{
    v16i e = ((v16i)x >> 23 & 255) - 127, least = all_i(1 - s.format.bias);

    e = PICK(e > least, e, least);
    return MODEL.zeros ? e : PICK((v16i)(x == 0), all_i(NO_EXPONENT), e);
}

FLAT v16i live_lanes(const struct strip *w)
{
    v16i lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

    return lane < (int32_t)(w->live > KERNEL_LANES ? KERNEL_LANES : w->live);
}

/* Values of binary16, as such; the instruction is AVX-512's own. */
FLAT void put_halves(const struct strip *w, int64_t p, v16f x)
{
    v16h v = (v16h)__builtin_ia32_vcvtps2ph512_mask(x, 0, (v16h){ 0 }, (uint16_t)-1);

    put_row(w, 0, p, (const char *)&v, 2);
}

/* The row at a position of the unit's order. */
FLAT const char *row_at(const struct strip *w, const char *from, int64_t stride, int p, char *room)
{
    if (!MODEL.order || MODEL.scale)
        return from + p * stride;
    w->c->cold->rows(w->c, w->side, (int64_t[]){ w->first, w->live,
                                                 limber_unit_at(&MODEL, w->c->k, w->p0 + p), 1 },
                     room);
    return room;
}

FLAT void prepare_unit(const struct strip *w, const char *from, int64_t stride)
{
    limber_step s = w->side ? MODEL.b : MODEL.a;
    v16i live = live_lanes(w);

    ROLL for (int p = 0; p < w->len; p++) {
        char room[KERNEL_BLOCK * KERNEL_LANES * 8] __attribute__((aligned(64)));
        const char *at = row_at(w, from, stride, p, room);
        v16f x;
        v16i e;

        if (MODEL.scale) {      /* pairs of a value and its exponent, made by the library */
            v16i a = LOAD(v16i, at), b = LOAD(v16i, at + 64);

            x = (v16f)__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                              26, 28, 30);
            e = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                        29, 31);
            if (!MODEL.zeros)
                e = PICK((v16i)(x == 0), all_i(NO_EXPONENT), e);
        } else {
            v8d low[3], high[3];
            v8l beyond;

            load_eight(w, at, w->scale_low, low);
            load_eight(w, at + 8 * w->as->f.size, w->scale_high, high);
            if (w->as->rounds) {
                low[0] = wide_round(s, low[0], all_l(0), &beyond);
                high[0] = wide_round(s, high[0], all_l(0), &beyond);
            }
            x = JOIN(TO(v8f, low[0]), TO(v8f, high[0]));
            e = exponents_of(s, x);
        }
        x = (v16f)((v16i)x & live);
        if (HOW == HOW_half) {
            put_halves(w, w->p0 + p, x);
            continue;
        }
        if (!MODEL.zeros)
            e = PICK(live, e, all_i(NO_EXPONENT));
        put_row(w, 0, w->p0 + p, (const char *)&x, 4);
        if (CFG.fused)
            put_row(w, 1, w->p0 + p, (const char *)&e, 4);
        see_values(w, x);
    }
}

#endif
