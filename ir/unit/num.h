/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated units, one number at a time: order along k, random numbers, rounding, loading of
 * operands. Written once for the interpreter, for kernels and for statistics; so it is both C and
 * C++, and does not use libc. */
#ifndef LIMBER_UNIT_NUM_H
#define LIMBER_UNIT_NUM_H

#include "ir/num/prim_num.h"
#include "limber/unit.h"

/* ---- the order in which products are summed ------------------------------------------------ */

/* True if the tiles of k belong to the parts of k in turn. */
PRIM int limber_unit_deals_turns(const limber_unit *u)
{
    return u->deal_turns && u->split > 1;
}

/* True if positions are indices along k. */
PRIM int limber_unit_in_order(const limber_unit *u)
{
    return u->order == LIMBER_ORDER_FORWARD && !limber_unit_deals_turns(u);
}

/* Returns the number of products that the last tile of k lacks. */
PRIM int64_t limber_unit_missing(const limber_unit *u, int64_t k)
{
    return (k + u->tile - 1) / u->tile * u->tile - k;
}

/* Returns the position at which part s begins, if tiles belong to the parts in turn.  The last tile
 * of k is the last one of its part, and may be shorter. */
PRIM int64_t limber_unit_turn_begin(const limber_unit *u, int64_t k, int64_t s)
{
    int64_t tiles = (k + u->tile - 1) / u->tile, more = tiles % u->split;
    int64_t before = s * (tiles / u->split) + (s < more ? s : more);

    return before * u->tile - (tiles && s > (tiles - 1) % u->split ? limber_unit_missing(u, k) : 0);
}

/* Returns the index along k of position p, if tiles belong to the parts in turn. */
PRIM int64_t limber_unit_index_in_turns(const limber_unit *u, int64_t k, int64_t p)
{
    int64_t tiles = (k + u->tile - 1) / u->tile, each = tiles / u->split, more = tiles % u->split;
    int64_t last = (tiles - 1) % u->split, longer = more * (each + 1) * u->tile, s;

    /* as if the last tile were whole: the first `more` parts have one tile more than the others */
    if (p >= limber_unit_turn_begin(u, k, last + 1))
        p += limber_unit_missing(u, k);
    if (p < longer) {
        s = p / ((each + 1) * u->tile);
        p -= s * (each + 1) * u->tile;
    } else {
        s = more + (p - longer) / (each * u->tile);
        p = (p - longer) % (each * u->tile);
    }
    return (p / u->tile * u->split + s) * u->tile + p % u->tile;
}

/* Returns the index along k of the product that is at position p of the unit's order. */
PRIM int64_t limber_unit_index_of_position(const limber_unit *u, int64_t k, int64_t p)
{
    int64_t from, len, q, first;

    if (limber_unit_deals_turns(u))
        return limber_unit_index_in_turns(u, k, p);
    switch (u->order) {
    case LIMBER_ORDER_REVERSE: return k - 1 - p;
    case LIMBER_ORDER_EVENODD:
    case LIMBER_ORDER_QUADS:
        from = p / u->group * u->group;
        len = k - from < u->group ? k - from : u->group;
        q = p - from;
        if (u->order == LIMBER_ORDER_EVENODD) {
            first = (len + 1) / 2;
            return from + (q < first ? 2 * q : 2 * (q - first) + 1);
        }
        first = len / 4 * 2 + (len % 4 < 2 ? len % 4 : 2);
        return from + (q < first ? q / 2 * 4 + q % 2 : (q - first) / 2 * 4 + 2 + (q - first) % 2);
    case LIMBER_ORDER_SWAPPED: return (p ^ 1) < k ? p ^ 1 : p;
    default: return p;
    }
}

enum { LIMBER_UNIT_LANES = 16 }; /* largest number of lanes of a unit */

/* The magnitude from which products count as infinite, in units that add the accumulator last. */
#define LIMBER_UNIT_TOO_LARGE 0x1p128

/* Returns the number of positions in one of the u->split parts of k, if these are runs. */
PRIM int64_t limber_unit_part(const limber_unit *u, int64_t k)
{
    int64_t step = u->tile ? u->tile : u->group ? u->group : u->block;
    int64_t part = (k + u->split - 1) / u->split;

    part = (part + step - 1) / step * step;
    return part > 0 ? part : 1;
}

/* Returns the position at which part s of k begins; k for a part behind the last one. */
PRIM int64_t limber_unit_part_begin(const limber_unit *u, int64_t k, int64_t s)
{
    int64_t at =
        limber_unit_deals_turns(u) ? limber_unit_turn_begin(u, k, s) : s * limber_unit_part(u, k);

    return at < k ? at : k;
}

/* The parts of k are added in the order of slots: the sum of each slot is added to the total.  A
 * slot has one part, or two, whose sums are added first.  Returns the number of slots. */
PRIM int64_t limber_unit_slots(const limber_unit *u)
{
    return u->merge_pairs ? (u->split + 1) / 2 + 1 : u->split;
}

/* Returns the first (second: 0) or the second (1) part of a slot; -1 if it has no second one. */
PRIM int64_t limber_unit_slot_part(const limber_unit *u, int64_t slot, int second)
{
    int64_t part = slot - 1 + second * ((u->split + 1) / 2);

    if (!u->merge_pairs)
        return second ? -1 : slot;
    if (slot == 0)
        return second ? -1 : u->split - 1;
    return part < u->split - 1 ? part : -1;
}

/* Returns the value with which the outermost sum starts if that is C: 0 if C is subnormal and this
 * sum flushes subnormals, else C. */
PRIM double limber_unit_start(const limber_unit *u, double c)
{
    limber_format f = u->split > 1 ? u->total.format : u->group ? u->outer.format : u->acc.format;
    uint64_t bits, least = (uint64_t)(1 - f.bias + 1023) << 52, sign = (uint64_t)1 << 63;

    __builtin_memcpy(&bits, &c, 8);
    if (f.flags & LIMBER_FORMAT_NO_SUBNORMAL && (bits & ~sign) < least)
        bits &= sign;
    __builtin_memcpy(&c, &bits, 8);
    return c;
}

/* Returns the end of the group that begins at position `from`, in a part of k that ends at `to`. */
PRIM int64_t limber_unit_group_end(const limber_unit *u, int64_t from, int64_t to)
{
    const int64_t left = to - from;
    int64_t half;

    if (left <= u->group)
        return to;
    if (!u->halve || left >= 2 * (int64_t)u->group)
        return from + u->group;
    half = u->halve == 1 ? left - left / 2 : (left / 2 + u->halve - 1) / u->halve * u->halve;
    return from + (half < u->group ? half : u->group);
}

/* Returns the position where the last complete group of u->unroll positions ends, counted from
 * `from`; with unroll = 0, returns `to`. */
PRIM int64_t limber_unit_steps_end(const limber_unit *u, int64_t from, int64_t to)
{
    return u->unroll ? from + (to - from) / u->unroll * u->unroll : to;
}

/* A pairwise sum of `width` accumulators (lanes) adds two accumulators to get accumulator i.
 * Returns the index of the first (second: 0) or second (1) of them. */
PRIM int limber_unit_lane(const limber_unit *u, int width, int i, int second)
{
    return u->join_halves ? i + second * (width / 2) : 2 * i + second;
}

/* Returns the index of the group that begins at position p.  The group before it may be shorter
 * than `group`. */
PRIM int64_t limber_unit_group_index(const limber_unit *u, int64_t p)
{
    return (p + u->group - 1) / u->group;
}

/* Returns how many additions join the lanes (partial sums) of groups and add groups to the outer
 * sum, in `length` positions along k that begin with a group. */
PRIM int64_t limber_unit_groups(const limber_unit *u, int64_t length)
{
    return u->group ? (length + u->group - 1) / u->group * (u->lanes ? u->lanes : 1) : 0;
}

/* ---- random numbers for stochastic rounding ------------------------------------------------ */

/* Mixes the bits of x in place. x: a 32-bit unsigned variable, or a vector of them. */
#define LIMBER_MIX(x) \
    ((x) ^= (x) >> 16, (x) *= 0x7feb352du, (x) ^= (x) >> 15, (x) *= 0x846ca68bu, (x) ^= (x) >> 16)
#define LIMBER_ELEMENT_STEP 0xc2b2ae35u
#define LIMBER_STREAM_STEP 0x27d4eb2fu
#define LIMBER_INDEX_STEP 0x9e3779b1u

/* Returns the hash of the seed and row i, from which limber_unit_element computes that of an
 * element. */
PRIM uint32_t limber_unit_row_hash(uint64_t seed, int64_t i)
{
    uint32_t high = (uint32_t)(seed >> 32) + 0x9e3779b9u, x;

    LIMBER_MIX(high);
    x = (uint32_t)seed ^ high ^ (uint32_t)i * 0x85ebca6bu;
    LIMBER_MIX(x);
    return x;
}

/* Returns the hash of element j of a row, from which all random numbers of the element are
 * derived. */
PRIM uint32_t limber_unit_element(uint32_t row, int64_t j)
{
    uint32_t x = row + (uint32_t)j * LIMBER_ELEMENT_STEP;

    LIMBER_MIX(x);
    return x;
}

/* Returns random number `index` of one of the element's streams. */
PRIM uint32_t limber_unit_number(uint32_t element, uint32_t stream, uint32_t index)
{
    uint32_t x = element + (stream * LIMBER_STREAM_STEP + index * LIMBER_INDEX_STEP);

    LIMBER_MIX(x);
    return x;
}

/* ---- rounding to a step's format ----------------------------------------------------------- */

/* Rounds x to the format and by the rounding mode of s, which describes one rounding of a unit.
 * sticky: as in limber_num_encode. r: a random number of `bits` bits, for stochastic rounding.
 * *loss: flags of enum limber_num_loss. */
PRIM void limber_step_round(struct limber_num *out, const limber_step *s,
                            const struct limber_num *x, int sticky, uint32_t r, int bits, int *loss)
{
    limber_format f = s->format;
    limber_rounding mode = (limber_rounding)s->rounding;
    struct limber_num y = *x;
    int infinite = s->overflow;
    limber_u128 code;

    if (mode == LIMBER_ROUND_STOCHASTIC) {
        int64_t lead = (int64_t)x->exp + limber_sig_bits(limber_num_sig(x)) - 1;
        int64_t tiny = (int64_t)1 - f.bias - f.frac_bits, q = lead - f.frac_bits;
        int64_t shift;
        int inexact;

        mode = LIMBER_ROUND_ZERO;
        infinite = 1;
        if (x->kind == NUM_finite) {
            q = q > tiny ? q : tiny;
            shift = q - bits - x->exp; /* shift to units of the lowest random bit */
            if (shift > 0 || sticky) {
                y.lo = (uint64_t)limber_num_shift(limber_num_sig(x), shift, sticky, 0,
                                                  LIMBER_ROUND_ZERO, &inexact);
            } else {
                y.lo = x->lo << -shift;
            }
            y.lo = (y.lo + r) >> bits;
            y.hi = 0;
            y.exp = (int32_t)q;
            y.kind = y.lo ? NUM_finite : NUM_zero;
        }
        *loss = limber_num_pack(&code, f.exp_bits, f.frac_bits, f.bias, f.flags, &y, 0, mode);
        /* the result is inexact if x itself is no number of the format */
        if (x->kind == NUM_finite) {
            limber_u128 cut;
            int lost = limber_num_pack(&cut, f.exp_bits, f.frac_bits, f.bias, f.flags, x, sticky,
                                       LIMBER_ROUND_ZERO);

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

/* Returns a number of at most 53 bits as a double, which is exact. */
PRIM double limber_num_value(const struct limber_num *x)
{
    limber_u128 code;
    uint64_t bits;
    double v;

    limber_num_pack(&code, 11, 52, 1023, 0, x, 0, LIMBER_ROUND_NEAREST);
    bits = (uint64_t)code;
    __builtin_memcpy(&v, &bits, 8);
    return v;
}

/* Returns x in the format and rounding of s.  r: a random number of `bits` bits, for stochastic
 * rounding.  *loss: flags of enum limber_num_loss. */
PRIM double limber_step_value(const limber_step *s, double x, uint32_t r, int bits, int *loss)
{
    struct limber_num in, out;

    limber_num_from_f64(&in, x);
    limber_step_round(&out, s, &in, 0, r, bits, loss);
    return limber_num_value(&out);
}

/* Returns the exponent of x in format f.  For subnormals and 0, the exponent of the smallest normal
 * number. */
PRIM int limber_unit_exponent(limber_format f, double x)
{
    int least = 1 - f.bias, e;
    uint64_t bits;

    __builtin_memcpy(&bits, &x, 8);
    e = (int)(bits >> 52 & 0x7ff) - 1023;
    return e < least ? least : e;
}

/* ---- loading elements into the unit -------------------------------------------------------- */

/* Returns the exponent of a format's largest number. */
PRIM int limber_unit_top(limber_format f)
{
    return (1 << f.exp_bits) - 1 - f.bias -
           !(f.flags & LIMBER_FORMAT_FINITE || (f.flags & LIMBER_FORMAT_NO_INF && f.frac_bits));
}

/* Returns the largest number of a format. */
PRIM double limber_unit_largest(limber_format f)
{
    int nan = f.flags & LIMBER_FORMAT_NO_INF && !(f.flags & LIMBER_FORMAT_NO_MINUS_ZERO);
    uint64_t ones = ((uint64_t)1 << f.frac_bits) - (nan ? 2 : 1);
    uint64_t bits = (uint64_t)(limber_unit_top(f) + 1023) << 52 | ones << (52 - f.frac_bits);
    double v;

    __builtin_memcpy(&v, &bits, 8);
    return v;
}

/* Returns x / y rounded to odd.  If the result is rounded again, this gives the same as rounding
 * the quotient once.  Exact if y is a power of two. */
PRIM double limber_odd_quotient(double x, double y)
{
    double q = x / y, rest = q - q == 0 ? __builtin_fma(-q, y, x) : 0;
    uint64_t bits;

    if (rest == 0)
        return q;
    __builtin_memcpy(&bits, &q, 8);
    if ((rest < 0) != (x < 0))
        bits--;
    bits |= 1;
    __builtin_memcpy(&q, &bits, 8);
    return q;
}

/* Returns the scale of a block of operands, whose elements s rounds. most: the largest magnitude
 * in the block, finite and not 0.  It may be a subnormal double, since these are far below the
 * smallest scale. */
PRIM double limber_unit_scale(const limber_unit *u, const limber_step *s, double most)
{
    const limber_step ue4m3 = { { LIMBER_KIND_FLOAT, 4, 3,
                                  LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_SATURATE, 7, 1, 0 },
                                LIMBER_ROUND_NEAREST,
                                0 };
    limber_format f = s->format;
    double largest = limber_unit_largest(f), v;
    int top = limber_unit_top(f), below = 52 - f.frac_bits, e, loss;
    uint64_t bits, fraction = ((uint64_t)1 << 52) - 1;

    if (u->scale == LIMBER_SCALE_UE4M3)
        return limber_step_value(&ue4m3, limber_odd_quotient(most, largest), 0, 0, &loss);
    __builtin_memcpy(&bits, &most, 8);
    if (u->scale_rule == LIMBER_SCALE_RULE_EVEN) /* rounds `most`; a carry goes into the exponent */
        bits += ((uint64_t)1 << below >> 1) - 1 + (bits >> below & 1);
    e = (int)(bits >> 52) - 1023 - top;
    if (u->scale_rule == LIMBER_SCALE_RULE_CEIL) {
        bits = (bits & fraction) | (uint64_t)(top + 1023) << 52;
        __builtin_memcpy(&v, &bits, 8);
        e += v > largest;
    }
    e = e < -127 ? -127 : e > 127 ? 127 : e;
    bits = (uint64_t)(e + 1023) << 52;
    __builtin_memcpy(&v, &bits, 8);
    return v;
}

/* An operand's element as the unit reads it. */
struct loaded {
    double value; /* the rounded element times its scale, exact as a double */
    int32_t exponent; /* exponent of the value, for the alignment of fused blocks */
};

/* Loads one element: rounds x / scale to the format of s, and multiplies the result by scale.
 * alone: the exponent for alignment is the scale's, not the scale's plus the element's. */
PRIM void limber_unit_load_one(const limber_step *s, double x, double scale, int alone,
                               struct loaded *out)
{
    int scaled = scale > 0, loss; /* a scale of 0 leaves zeros, NaN and infinities */
    double one = scaled ? scale : 1, v = x * 0;
    uint64_t bits;

    if (scaled || x - x != 0)
        v = limber_step_value(s, limber_odd_quotient(x, one), 0, 0, &loss);
    __builtin_memcpy(&bits, &one, 8);
    out->exponent = (int32_t)(bits >> 52) - 1023;
    if (!alone)
        out->exponent += limber_unit_exponent(s->format, v);
    out->value = v * one;
}

/* load.c: loads k elements of a row of A (side 0) or column of B (side 1), which are given as
 * doubles, in the order of k. */
void limber_unit_load(const limber_unit *u, int side, const double *line, int64_t k,
                      struct loaded *out);

#endif
