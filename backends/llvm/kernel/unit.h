/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels of simulated units: operands are rounded on load and packed with their ranges; register
 * tiles do what the description says, in narrow lanes where the ranges allow it, else in wide ones. */
#ifndef LIMBER_KERNEL_UNIT_H
#define LIMBER_KERNEL_UNIT_H

#include "backends/llvm/kernel/unit_round.h"
#include "ir/unit_num.h"

enum { NO_EXPONENT = -20000 };      /* of what takes no part in an alignment */

/* ---- loading ------------------------------------------------------------------------------- */

/* Ranges of lines, for each the largest of what was seen; bits are those of the magnitude. */
enum range { RANGE_bits, RANGE_below /* infinity's bits minus a nonzero's */, RANGE_squares,
             RANGE_count };

FLAT int32_t *range_of(const struct packed *o, int which, int64_t line)
{
    return o->range + which * o->range_lines + line;
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
    STORE(range_of(w->o, RANGE_bits, w->first), most);
    STORE(range_of(w->o, RANGE_below, w->first), least);
    STORE(range_of(w->o, RANGE_squares, w->first), squares);
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
        if (!MODEL.zeros)
            e = PICK(live, e, all_i(NO_EXPONENT));
        put_row(w, 0, w->p0 + p, (const char *)&x, 4);
        if (CFG.fused)
            put_row(w, 1, w->p0 + p, (const char *)&e, 4);
        see_values(w, x);
    }
}

/* ---- tallies ------------------------------------------------------------------------------- */

#define TALLIES(T)                                                                              \
    T(nonzero) T(mul_inexact) T(mul_underflow) T(mul_overflow) T(swamped) T(partly_swamped)     \
    T(sum_overflow) T(outer_swamped) T(outer_partly)

struct narrow_tally {
#define T(name) v16i name;
    TALLIES(T)
#undef T
};
struct wide_tally {
#define T(name) v8l name;
    TALLIES(T)
#undef T
};
typedef struct narrow_tally narrow_tally;
typedef struct wide_tally wide_tally;

FLAT void add_count(int64_t *to, int64_t n)
{
    __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

/* Masks are minus one. */
FLAT void narrow_told(const struct kernel_call *c, const struct narrow_tally *t)
{
#define T(name)                                                                                 \
    add_count(&c->counts->name, -__builtin_reduce_add(TO(v8l, LOW(t->name)) +                   \
                                                      TO(v8l, HIGH(t->name))));
    TALLIES(T)
#undef T
}

FLAT void wide_told(const struct kernel_call *c, const struct wide_tally *t)
{
#define T(name) add_count(&c->counts->name, -__builtin_reduce_add(t->name));
    TALLIES(T)
#undef T
}

/* ---- wide lanes ---------------------------------------------------------------------------- */

#define F(name) wide_##name
#define V v8d
#define RAND v8w
#define MASK v8l
#define ROWS 1
#define VECS 4
struct wide_tile;
FLAT v8d wide_load_a(const struct wide_tile *t, int64_t p, int r);
FLAT v8d wide_load_b(const struct wide_tile *t, int64_t p, int v);
FLAT v8d wide_multiply(struct wide_tile *t, v8d a, v8d b, v8w h);
FLAT v8d wide_add(struct wide_tile *t, limber_step s, v8d acc, v8d x, v8w h);
FLAT v8d wide_add_product(struct wide_tile *t, v8d acc, v8d a, v8d b, v8w h);
FLAT v8d wide_outer(struct wide_tile *t, limber_step s, v8d sum, v8d x, v8w h);
FLAT void wide_fused(struct wide_tile *t, v8d acc[1][4], int64_t p, int64_t n);
#include "backends/llvm/kernel/unit_loop.h"
#undef F
#undef V
#undef RAND
#undef MASK
#undef ROWS
#undef VECS

/* A tile of wide lanes is one row: its panel's pointer stands on it. */
FLAT v8d wide_load_a(const struct wide_tile *t, int64_t p, int r)
{
    (void)r;
    return all_d(*(const float *)(const void *)(t->a + p * CFG.mr * 4));
}

FLAT v8d wide_load_b(const struct wide_tile *t, int64_t p, int v)
{
    return TO(v8d, LOAD(v8f, t->b + (p * CFG.nr + 8 * v) * 4));
}

/* The random bits of an addition; those of a product are the low half's. */
FLAT v8l wide_bits(v8w h)
{
    return TO(v8l, h >> (uint32_t)(32 - MODEL.random_bits));
}

FLAT v8l wide_finite(v8d x)
{
    return (v8l)(x - x == 0);
}

FLAT v8d wide_multiply(struct wide_tile *t, v8d a, v8d b, v8w h)
{
    v8d x = a * b, y = x;
    v8l some, beyond;

    if (MODEL.mul.format.kind)
        y = wide_round(MODEL.mul, x, wide_bits(h << 16), &beyond);
    if (!CFG.counts)
        return y;
    some = (v8l)(x != 0) & wide_finite(x);
    t->tally.nonzero += some;
    if (MODEL.mul.format.kind) {
        t->tally.mul_inexact += some & (v8l)(y != x);
        t->tally.mul_underflow += some & (v8l)(y == 0);
        t->tally.mul_overflow += some & beyond;
    }
    return y;
}

/* What an addition of x lost; told: its counts. */
FLAT v8d wide_rounded_sum(limber_step s, v8d sum, v8d x, v8w h, v8l *swamped, v8l *partly,
                          v8l *over)
{
    v8d exact = wide_sum(sum, x), y;
    v8l some, beyond;

    y = wide_round(s, exact, wide_bits(h), &beyond);
    some = (v8l)(x != 0) & wide_finite(x) & wide_finite(sum);
    *swamped = some & (v8l)(y != exact) & (v8l)(y == sum);
    *over = some & beyond & ~*swamped;
    *partly = some & (v8l)(y != exact) & ~*swamped & ~*over;
    return y;
}

FLAT v8d wide_add(struct wide_tile *t, limber_step s, v8d acc, v8d x, v8w h)
{
    v8l swamped, partly, over;
    v8d y = wide_rounded_sum(s, acc, x, h, &swamped, &partly, &over);

    if (CFG.counts) {
        t->tally.swamped += swamped;
        t->tally.partly_swamped += partly;
        t->tally.sum_overflow += over;
    }
    return y;
}

FLAT v8d wide_add_product(struct wide_tile *t, v8d acc, v8d a, v8d b, v8w h)
{
    return wide_add(t, MODEL.acc, acc, wide_multiply(t, a, b, h), h);
}

FLAT v8d wide_outer(struct wide_tile *t, limber_step s, v8d sum, v8d x, v8w h)
{
    v8l swamped, partly, over;
    v8d y = wide_rounded_sum(s, sum, x, h, &swamped, &partly, &over);

    if (CFG.counts) {
        t->tally.outer_swamped += swamped;
        t->tally.outer_partly += partly;
    }
    return y;
}

/* A term of a fused block, in units of 2^(E - frac), cut; up: 2^(frac - E) in two factors. */
FLAT v8d wide_term(struct wide_tile *t, v8d x, v8d up, v8d again, v8l counted)
{
    v8d whole = x * up * again, cut = TRUNC(whole);

    if (CFG.counts) {
        v8l swamped = (v8l)(x != 0) & (v8l)(cut == 0);

        t->tally.swamped += swamped & counted;
        t->tally.partly_swamped += (v8l)(cut != whole) & ~swamped & counted;
    }
    return cut;
}

/* Exponents of sums, as those of binary32 numbers; zeros as the description says. */
FLAT v8l wide_exponents(v8d x)
{
    v8l e = ((v8l)x >> 52 & 0x7ff) - 1023;

    e = PICK(e > -126, e, all_l(-126));
    return MODEL.zeros ? e : PICK((v8l)(x == 0), all_l(NO_EXPONENT), e);
}

/* One term: the exact sum of the products of MODEL.sub neighbours; rest gathers what is not
 * finite. */
FLAT v8d wide_products(struct wide_tile *t, int64_t p, int64_t n, int64_t q, int v, v8d *rest,
                       v8l *e)
{
    v8d sum = all_d(0);

    *e = all_l(2 * NO_EXPONENT);
    ROLL for (int64_t s = q; s < min64(n, q + MODEL.sub); s++) {
        v8d x = wide_load_a(t, p + s, 0) * wide_load_b(t, p + s, v);
        v8l finite = wide_finite(x), ea, eb;

        ea = all_l(*(const int32_t *)(const void *)(t->ea + (p + s) * CFG.mr * 4));
        eb = TO(v8l, LOAD(v8i, t->eb + ((p + s) * CFG.nr + 8 * v) * 4));
        if (CFG.counts)
            t->tally.nonzero += finite & (v8l)(x != 0);
        *rest += (v8d)((v8l)x & ~finite);
        sum += x;
        ea += eb;
        *e = PICK(ea > *e, ea, *e);
    }
    if (MODEL.sub > 1 && !MODEL.zeros)
        *e = PICK((v8l)(sum == 0), all_l(2 * NO_EXPONENT), *e);
    return sum;
}

FLAT void wide_fused(struct wide_tile *t, v8d acc[1][4], int64_t p, int64_t n)
{
    ROLL for (int v = 0; v < 4; v++) {
        v8d c = acc[0][v], rest = (v8d)((v8l)c & ~wide_finite(c)), sum, up, again, ignored;
        v8l most = wide_exponents(c), e, half, beyond, finite;

        ROLL for (int64_t q = 0; q < n; q += MODEL.sub) {
            struct wide_tile uncounted = *t;

            wide_products(&uncounted, p, n, q, v, &rest, &e);
            most = PICK(e > most, e, most);
        }
        most = PICK(most > MODEL.floor, most, all_l(MODEL.floor));
        most = PICK(most > -400, most, all_l(-400));    /* all terms are zeros */
        half = (MODEL.frac - most) >> 1;
        up = powers_of_two(half);
        again = powers_of_two(MODEL.frac - most - half);
        finite = wide_finite(rest);
        sum = wide_term(t, c, up, again, all_l(0));
        ROLL for (int64_t q = 0; q < n; q += MODEL.sub)
            sum += wide_term(t, wide_products(t, p, n, q, v, &ignored, &e), up, again, finite);
        sum = sum * powers_of_two(-half) * powers_of_two(most - MODEL.frac + half);
        sum += 0.0;
        sum = (v8d)PICK(finite, (v8l)sum, (v8l)rest);
        acc[0][v] = wide_round(MODEL.acc, sum,
                               wide_bits(wide_number(t, 0, v, 0, (uint32_t)p)), &beyond);
        if (CFG.counts)
            t->tally.sum_overflow += beyond & finite;
    }
}

/* ---- narrow lanes -------------------------------------------------------------------------- */

#define F(name) narrow_##name
#define V v16f
#define RAND v16u
#define MASK v16i
#define ROWS 4
#define VECS 2
struct narrow_tile;
FLAT v16f narrow_load_a(const struct narrow_tile *t, int64_t p, int r);
FLAT v16f narrow_load_b(const struct narrow_tile *t, int64_t p, int v);
FLAT v16f narrow_multiply(struct narrow_tile *t, v16f a, v16f b, v16u h);
FLAT v16f narrow_add(struct narrow_tile *t, limber_step s, v16f acc, v16f x, v16u h);
FLAT v16f narrow_add_product(struct narrow_tile *t, v16f acc, v16f a, v16f b, v16u h);
FLAT v16f narrow_outer(struct narrow_tile *t, limber_step s, v16f sum, v16f x, v16u h);
FLAT void narrow_fused(struct narrow_tile *t, v16f acc[4][2], int64_t p, int64_t n);
#include "backends/llvm/kernel/unit_loop.h"
#undef F
#undef V
#undef RAND
#undef MASK
#undef ROWS
#undef VECS

FLAT v16f narrow_load_a(const struct narrow_tile *t, int64_t p, int r)
{
    return all_f(*(const float *)(const void *)(t->a + (p * CFG.mr + r) * 4));
}

FLAT v16f narrow_load_b(const struct narrow_tile *t, int64_t p, int v)
{
    return LOAD(v16f, t->b + (p * CFG.nr + 16 * v) * 4);
}

FLAT v16i narrow_bits(v16u h)
{
    return (v16i)(h >> (uint32_t)(32 - MODEL.random_bits));
}

FLAT v16i narrow_finite(v16f x)
{
    return (v16i)(x - x == 0);
}

FLAT v16f narrow_multiply(struct narrow_tile *t, v16f a, v16f b, v16u h)
{
    v16f x = a * b, y;
    v16i beyond, some;

    y = narrow_round(MODEL.mul, x, narrow_bits(h << 16), CFG.clamps ? CLAMP_signed : CLAMP_low,
                     t->bounded, &beyond);
    if (CFG.counts) {
        some = (v16i)(x != 0);
        if (!t->bounded)
            some &= narrow_finite(x);
        t->tally.nonzero += some;
        t->tally.mul_inexact += some & (v16i)(y != x);
        t->tally.mul_underflow += some & (v16i)(y == 0);
        t->tally.mul_overflow += some & beyond;
    }
    return y;
}

/* One of the differences is exact, so both agree exactly when the sum is. */
FLAT void narrow_lost(const struct narrow_tile *t, v16f acc, v16f x, v16f y, v16i beyond,
                      v16i *swamped, v16i *partly, v16i *over)
{
    v16i inexact = (v16i)(y - acc != x) | (v16i)(y - x != acc), some = (v16i)(x != 0);

    if (!t->bounded)
        some &= narrow_finite(x) & narrow_finite(acc);
    *swamped = some & (v16i)(y == acc);     /* x was not zero */
    *over = some & beyond & ~*swamped;
    *partly = some & inexact & ~*swamped & ~*over;
}

FLAT v16f narrow_counted(struct narrow_tile *t, v16f acc, v16f x, v16f y, v16i beyond)
{
    v16i swamped, partly, over;

    if (CFG.counts) {
        narrow_lost(t, acc, x, y, beyond, &swamped, &partly, &over);
        t->tally.swamped += swamped;
        t->tally.partly_swamped += partly;
        t->tally.sum_overflow += over;
    }
    return y;
}

FLAT v16f narrow_add(struct narrow_tile *t, limber_step s, v16f acc, v16f x, v16u h)
{
    v16i beyond;
    v16f y = narrow_sum(s, acc, x, CFG.safe);

    y = narrow_round(s, y, narrow_bits(h), CFG.clamps ? CLAMP_signed : CLAMP_none,
                     t->bounded, &beyond);
    return narrow_counted(t, acc, x, y, beyond);
}

FLAT v16f narrow_add_product(struct narrow_tile *t, v16f acc, v16f a, v16f b, v16u h)
{
    limber_step s = MODEL.acc;
    v16f x = a * b, y = narrow_fma(s, a, b, acc);
    v16i beyond;

    y = narrow_round(s, y, narrow_bits(h), CLAMP_signed, t->bounded, &beyond);
    if (CFG.counts)
        t->tally.nonzero += (v16i)(x != 0);
    return narrow_counted(t, acc, x, y, beyond);
}

FLAT v16f narrow_outer(struct narrow_tile *t, limber_step s, v16f sum, v16f x, v16u h)
{
    v16i swamped, partly, over, beyond;
    v16f y = narrow_sum(s, sum, x, CFG.safe_outer);

    y = narrow_round(s, y, narrow_bits(h), CLAMP_signed, t->bounded, &beyond);
    if (CFG.counts) {
        narrow_lost(t, sum, x, y, beyond, &swamped, &partly, &over);
        t->tally.outer_swamped += swamped;
        t->tally.outer_partly += partly;
    }
    return y;
}

/* Blocks whose terms fit 32 bits: products are multiplied out twice, once for the largest exponent
 * and once cut to units of 2^(E - frac). */
FLAT v16i narrow_exponents(v16f x)
{
    v16i e = ((v16i)x >> 23 & 255) - 127;

    e = PICK(e > -126, e, all_i(-126));
    return MODEL.zeros ? e : PICK((v16i)(x == 0), all_i(NO_EXPONENT), e);
}

FLAT v16i narrow_term(struct narrow_tile *t, v16f x, v16f up, int counted)
{
    v16f whole = x * up;
    v16i cut = TO(v16i, whole);

    if (CFG.counts && counted) {
        v16i some = (v16i)(x != 0), swamped = some & (v16i)(cut == 0);

        t->tally.nonzero += some;
        t->tally.swamped += swamped;
        t->tally.partly_swamped += some & (v16i)(TO(v16f, cut) != whole) & ~swamped;
    }
    return cut;
}

/* sum + c units of 2^e, rounded to acc. */
FLAT v16f narrow_fused_sum(v16i sum, v16i c, v16i e, v16u h)
{
    v16i high = (sum >> 8) + (c >> 8), low = (sum & 255) + (c & 255), beyond;
    v16f x = narrow_fma(MODEL.acc, TO(v16f, high), all_f(256), TO(v16f, low));

    x *= (v16f)((e + 127) << 23);
    return narrow_round(MODEL.acc, x, narrow_bits(h), CLAMP_signed, 1, &beyond);
}

FLAT void narrow_fused(struct narrow_tile *t, v16f acc[4][2], int64_t p, int64_t n)
{
    ROLL for (int v = 0; v < 2; v++) {
        const char *ea = t->ea + p * CFG.mr * 4, *eb = t->eb + (p * CFG.nr + 16 * v) * 4;
        v16i most[4], sum[4], c[4];
        v16f up[4];

        UNROLL for (int r = 0; r < 4; r++)
            most[r] = narrow_exponents(acc[r][v]);
        ROLL for (int64_t q = 0; q < n; q++) {
            v16i e = LOAD(v16i, eb + q * CFG.nr * 4);

            UNROLL for (int r = 0; r < 4; r++) {
                v16i s = e + *(const int32_t *)(const void *)(ea + (q * CFG.mr + r) * 4);

                most[r] = PICK(s > most[r], s, most[r]);
            }
        }
        UNROLL for (int r = 0; r < 4; r++) {
            int least = MODEL.floor > MODEL.frac - 126 ? MODEL.floor : MODEL.frac - 126;

            most[r] = PICK(most[r] > least, most[r], all_i(least));
            up[r] = (v16f)((127 + MODEL.frac - most[r]) << 23);
            c[r] = narrow_term(t, acc[r][v], up[r], 0);
            sum[r] = all_i(0);
        }
        ROLL for (int64_t q = 0; q < n; q++) {
            v16f b = narrow_load_b(t, p + q, v);

            UNROLL for (int r = 0; r < 4; r++)
                sum[r] += narrow_term(t, narrow_load_a(t, p + q, r) * b, up[r], 1);
        }
        UNROLL for (int r = 0; r < 4; r++)
            acc[r][v] = narrow_fused_sum(sum[r], c[r], most[r] - MODEL.frac,
                                         narrow_number(t, r, v, 0, (uint32_t)p));
    }
}

/* ---- tiles --------------------------------------------------------------------------------- */

/* Where a tile lies: its panels and its first row and column in this part of C. */
struct unit_tile {
    const struct kernel_call *c;
    const char *a, *b, *ea, *eb;
    int64_t i, j;
    char *to;                   /* binary32, `row` bytes a row */
    int64_t row;
};

/* Random numbers of sixteen neighbours in a row. */
FLAT v16u elements_of(const struct unit_tile *u, int r, int v)
{
    v16u lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }, x;
    uint32_t row;

    if (!MODEL.seeded)
        return lane;
    row = limber_unit_row(u->c->seed, u->c->i0 + u->i + r);
    x = row + (lane + (uint32_t)(u->c->j0 + u->j + 16 * v)) * UINT32_C(0xc2b2ae35);
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
    return x ^ x >> 16;
}

FLAT v8w half_of(v16u x, int high)
{
    return high ? (v8w)HIGH(x) : (v8w)LOW(x);
}

FLAT void store_values(const struct unit_tile *u, int r, int v, v16f x)
{
    x = (v16f)PICK((v16i)(x != x), (v16i)all_f(__builtin_nanf("")), (v16i)x);
    STORE(u->to + r * u->row + v * 64, x);
}

/* The last rounding; element: of the random numbers. */
FLAT v8d wide_out(v8d x, v8w element)
{
    v8w h = element + 3 * UINT32_C(0x27d4eb2f);
    v8l beyond;

    if (!MODEL.out.format.kind)
        return x;
    h = (h ^ h >> 16) * UINT32_C(0x7feb352d);
    h = (h ^ h >> 15) * UINT32_C(0x846ca68b);
    h = h ^ h >> 16;
    return wide_round(MODEL.out, x, wide_bits(h), &beyond);
}

FLAT void narrow_work(const struct unit_tile *u, int bounded)
{
    struct narrow_tile t = { .c = u->c, .a = u->a, .b = u->b, .ea = u->ea, .eb = u->eb,
                             .bounded = bounded };
    v16f sum[4][2];

    narrow_clear(sum);
    UNROLL for (int r = 0; r < 4; r++)
        UNROLL for (int v = 0; v < 2; v++)
            t.element[r][v] = elements_of(u, r, v);
    narrow_whole(&t, sum);
    UNROLL for (int r = 0; r < 4; r++)
        UNROLL for (int v = 0; v < 2; v++) {
            v16f x = sum[r][v];

            if (MODEL.out.format.kind)
                x = JOIN(TO(v8f, wide_out(TO(v8d, LOW(x)), half_of(t.element[r][v], 0))),
                         TO(v8f, wide_out(TO(v8d, HIGH(x)), half_of(t.element[r][v], 1))));
            store_values(u, r, v, x);
        }
    if (CFG.counts)
        narrow_told(u->c, &t.tally);
}

SLOW void narrow_bounded(const struct unit_tile *u)
{
    narrow_work(u, 1);
}

SLOW void narrow_free(const struct unit_tile *u)
{
    narrow_work(u, 0);
}

SLOW void wide_work(const struct unit_tile *u, int r)
{
    struct wide_tile t = { .c = u->c, .a = u->a + 4 * r, .b = u->b, .ea = u->ea + 4 * r,
                           .eb = u->eb };
    v8d sum[1][4];

    UNROLL for (int v = 0; v < 4; v++)
        t.element[0][v] = half_of(elements_of(u, r, v / 2), v % 2);
    wide_clear(sum);
    if (MODEL.start_c)
        UNROLL for (int v = 0; v < 4; v++)
            sum[0][v] = TO(v8d, LOAD(v8f, u->to + r * u->row + v * 32));
    wide_whole(&t, sum);
    UNROLL for (int v = 0; v < 4; v++)
        sum[0][v] = wide_out(sum[0][v], t.element[0][v]);
    UNROLL for (int v = 0; v < 2; v++)
        store_values(u, r, v, JOIN(TO(v8f, sum[0][2 * v]), TO(v8f, sum[0][2 * v + 1])));
    if (CFG.counts)
        wide_told(u->c, &t.tally);
}

/* ---- which lanes a tile may use -------------------------------------------------------------- */

struct extremes { float most, least, norm; };    /* of magnitudes; least of nonzeros; 2-norm squared */

FLAT struct extremes extremes_of(const struct packed *o, int64_t line, int lines)
{
    int32_t bits = 0, below = 0;
    struct extremes x = { 0, 0, 0 };

    ROLL for (int i = 0; i < lines; i++) {
        int32_t b = range_of(o, RANGE_bits, line + i)[0], l = range_of(o, RANGE_below, line + i)[0];
        float s = *(const float *)(const void *)range_of(o, RANGE_squares, line + i);

        bits = b > bits ? b : bits;
        below = l > below ? l : below;
        x.norm = s > x.norm || s != s ? s : x.norm;
    }
    below = 0x7f800000 - below;
    __builtin_memcpy(&x.most, &bits, 4);
    __builtin_memcpy(&x.least, &below, 4);
    return x;
}

enum lanes { LANES_wide, LANES_free, LANES_bounded };

/* Products and sums stay where binary32 is exact, and without overflow of the unit's own formats.
 * |p| <= 2 |a b| + quantum; to nearest or cut |acc| <= 2 (sum of |p|), since acc itself is no farther
 * from acc + p than p; else every rounding may add one unit in the last place. */
FLAT enum lanes lanes_for(const struct kernel_call *c, const struct extremes *a,
                          const struct extremes *b)
{
    double most = (double)a->most * b->most, least = (double)a->least * b->least, sum, growth;

    if (!CFG.narrow || !(most <= 0x1p80) || (most > 0 && least < 0x1p-100))
        return LANES_wide;
    sum = 2 * __builtin_sqrt((double)a->norm) * __builtin_sqrt((double)b->norm) * 1.001 +
          (double)c->k * CFG.quantum;
    growth = (double)c->k * CFG.growth;
    if (growth < 200 && most <= CFG.most_product &&
        sum * power_of_two((int)growth + (growth > 0)) <= CFG.most_sum)
        return LANES_bounded;
    return CFG.frees ? LANES_free : LANES_wide;
}

/* ---- a block of C ---------------------------------------------------------------------------- */

FLAT void unit_block(const struct kernel_call *c, const struct block *b, char *scratch)
{
    const struct packed *oa = &c->op[0], *ob = &c->op[1];

    if (MODEL.start_c)
        ROLL for (int64_t i = 0; i < b->panels_a * CFG.mr; i++)
            ROLL for (int64_t j = 0; j < b->panels_b * CFG.nr; j++)
                *(float *)(void *)(scratch + i * total_row() + j * 4) =
                    i >= b->rows || j >= b->cols ? 0 :
                    (float)c->cold->value(CFG.c, place(c, b->i0 + i, b->j0 + j));
    for (int64_t j = 0; j < b->panels_b; j++) {
        struct extremes xb = extremes_of(ob, (b->panel_b + j) * CFG.nr, CFG.nr);

        for (int64_t i = 0; i < b->panels_a; i++) {
            struct extremes xa = extremes_of(oa, (b->panel_a + i) * CFG.mr, CFG.mr);
            struct unit_tile u = {
                .c = c, .a = oa->data + (b->panel_a + i) * oa->panel_bytes,
                .b = ob->data + (b->panel_b + j) * ob->panel_bytes,
                .i = b->i0 + i * CFG.mr, .j = b->j0 + j * CFG.nr, .row = total_row(),
                .to = scratch + i * CFG.mr * total_row() + j * CFG.nr * 4,
            };

            u.ea = u.a + oa->limb_bytes;
            u.eb = u.b + ob->limb_bytes;
            switch (lanes_for(c, &xa, &xb)) {
            case LANES_bounded: narrow_bounded(&u); break;
            case LANES_free: narrow_free(&u); break;
            default:
                ROLL for (int r = 0; r < CFG.mr; r++)
                    wide_work(&u, r);
            }
        }
    }
}

#endif
