/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units, one number at a time: rounding, loading, order, random numbers.  Written once for
 * the interpreter, for what kernels leave to the library, and for statistics. */
#ifndef LIMBER_UNIT_NUM_H
#define LIMBER_UNIT_NUM_H

#include "ir/ir.h"
#include "ir/prim_num.h"

/* ---- order --------------------------------------------------------------------------------- */

/* The index along k of position p. */
PRIM int64_t limber_unit_at(const limber_unit *u, int64_t k, int64_t p)
{
    int64_t from, len, q, first;

    switch (u->order) {
    case LIMBER_REVERSE:
        return k - 1 - p;
    case LIMBER_EVENODD:
    case LIMBER_QUADS:
        from = p / u->group * u->group;
        len = k - from < u->group ? k - from : u->group;
        q = p - from;
        if (u->order == LIMBER_EVENODD) {
            first = (len + 1) / 2;
            return from + (q < first ? 2 * q : 2 * (q - first) + 1);
        }
        first = len / 4 * 2 + (len % 4 < 2 ? len % 4 : 2);
        return from + (q < first ? q / 2 * 4 + q % 2 : (q - first) / 2 * 4 + 2 + (q - first) % 2);
    default:
        return p;
    }
}

/* Positions of one part of k. */
PRIM int64_t limber_unit_part(const limber_unit *u, int64_t k)
{
    int64_t step = u->group ? u->group : u->block, part = (k + u->split - 1) / u->split;

    part = (part + step - 1) / step * step;
    return part > 0 ? part : 1;
}

/* ---- random numbers ------------------------------------------------------------------------ */

/* Of 32-bit numbers or vectors of them. */
#define LIMBER_MIX(number) ({                                                                   \
    __typeof__(number) x_ = (number);                                                           \
    x_ = (x_ ^ x_ >> 16) * UINT32_C(0x7feb352d);                                                \
    x_ = (x_ ^ x_ >> 15) * UINT32_C(0x846ca68b);                                                \
    x_ ^ x_ >> 16;                                                                              \
})
#define LIMBER_NUMBER(element, stream, index)                                                   \
    LIMBER_MIX((element) + ((stream) * UINT32_C(0x27d4eb2f) + (index) * UINT32_C(0x9e3779b1)))
#define LIMBER_ELEMENT(row, j) LIMBER_MIX((row) + (j) * UINT32_C(0xc2b2ae35))

/* What all numbers of row i, and then of element (i,j), have in common. */
PRIM uint32_t limber_unit_row(uint64_t seed, int64_t i)
{
    uint32_t high = LIMBER_MIX((uint32_t)(seed >> 32) + UINT32_C(0x9e3779b9));

    return LIMBER_MIX((uint32_t)seed ^ high ^ (uint32_t)i * UINT32_C(0x85ebca6b));
}

PRIM uint32_t limber_unit_element(uint32_t row, int64_t j)
{
    return LIMBER_ELEMENT(row, (uint32_t)j);
}

PRIM uint32_t limber_unit_number(uint32_t element, uint32_t stream, uint32_t index)
{
    return LIMBER_NUMBER(element, stream, index);
}

/* ---- rounding ------------------------------------------------------------------------------ */

/* x + (sticky ? a positive amount below one unit of lo) rounded to a step's format; r: `bits` random
 * bits.  *loss: as limber_num_encode. */
PRIM void limber_step_round(struct limber_num *out, const limber_step *s,
                            const struct limber_num *x, int sticky, uint32_t r, int bits,
                            int *loss)
{
    limber_format f = s->format;
    limber_rounding mode = (limber_rounding)s->rounding;
    struct limber_num y = *x;
    int infinite = s->overflow;
    limber_u128 code;

    if (mode == LIMBER_RS) {
        int64_t lead = (int64_t)x->exp + limber_sig_bits(limber_num_sig(x)) - 1;
        int64_t tiny = (int64_t)1 - f.bias - f.frac_bits, q = lead - f.frac_bits;
        int64_t shift;
        int inexact;

        mode = LIMBER_RZ;
        infinite = 1;
        if (x->kind == NUM_finite) {
            q = q > tiny ? q : tiny;
            shift = q - bits - x->exp;      /* down to units of the random bits */
            if (shift > 0 || sticky) {
                y.lo = (uint64_t)limber_num_shift(limber_num_sig(x), shift, sticky, 0, LIMBER_RZ,
                                                  &inexact);
            } else {
                y.lo = x->lo << -shift;
            }
            y.lo = (y.lo + r) >> bits;
            y.hi = 0;
            y.exp = (int32_t)q;
            y.kind = y.lo ? NUM_finite : NUM_zero;
        }
        *loss = limber_num_pack(&code, f.exp_bits, f.frac_bits, f.bias, f.flags, &y, 0, mode);
        /* inexact when the value itself was not representable */
        if (x->kind == NUM_finite) {
            limber_u128 cut;
            int lost = limber_num_pack(&cut, f.exp_bits, f.frac_bits, f.bias, f.flags, x, sticky,
                                       LIMBER_RZ);

            *loss |= lost & NUM_inexact;
        }
    } else {
        *loss = limber_num_pack(&code, f.exp_bits, f.frac_bits, f.bias, f.flags, x, sticky, mode);
    }
    limber_num_unpack(out, f.exp_bits, f.frac_bits, f.bias, f.flags, code);
    if (*loss & NUM_overflow && infinite &&
        !(f.flags & (LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_FINITE))) {
        out->kind = f.flags & LIMBER_FORMAT_NO_INF ? NUM_nan : NUM_inf;
        out->sign = x->sign;
    }
    if (out->kind == NUM_nan)
        out->sign = 0;
}

/* The double that a number of at most 53 bits is. */
PRIM double limber_num_value(const struct limber_num *x)
{
    limber_u128 code;
    uint64_t bits;
    double v;

    limber_num_pack(&code, 11, 52, 1023, 0, x, 0, LIMBER_RN);
    bits = (uint64_t)code;
    __builtin_memcpy(&v, &bits, 8);
    return v;
}

/* A finite double rounded to a step's format. */
PRIM double limber_step_value(const limber_step *s, double x, uint32_t r, int bits, int *loss)
{
    struct limber_num in, out;

    limber_num_from_f64(&in, x);
    limber_step_round(&out, s, &in, 0, r, bits, loss);
    return limber_num_value(&out);
}

/* The exponent that an encoding in f has: a subnormal that of the smallest normal number. */
PRIM int limber_unit_exponent(limber_format f, double x)
{
    int least = 1 - f.bias, e;
    uint64_t bits;

    __builtin_memcpy(&bits, &x, 8);
    e = (int)(bits >> 52 & 0x7ff) - 1023;
    return e < least ? least : e;
}

/* ---- loading: unit_load.c ------------------------------------------------------------------ */

/* An operand element as the unit sees it. */
struct loaded {
    float value;            /* scaled, exact */
    int32_t exponent;       /* for the alignment of fused blocks */
};

/* Loads one line of k elements that are given as doubles and that are in the order of k. */
void limber_unit_load(const limber_unit *u, int side, const double *line, int64_t k,
                      struct loaded *out);

#endif
