/* SPDX-License-Identifier: BSD-3-Clause
 * A reference for simulated units: MPFR computes sums and products exactly until a step of the unit
 * rounds them. */
#include "unit_oracle.h"

#include "limber/research.h"

#include <math.h>
#include <mpfr.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* BITS: precision of MPFR variables, so high that sums are exact.  FAR: stands for the exponent of
 * a sum without terms. */
enum { BITS = 1024, FAR = -1000000 };

/* ---- rounding ------------------------------------------------------------------------------ */

/* What a rounding lost. */
struct lost {
    bool inexact, overflow;
};

/* Returns the largest finite number of a format. */
static double largest(limber_format f)
{
    int top = (1 << f.exp_bits) - 1; /* the largest exponent field */
    double frac = 2 - ldexp(1, -f.frac_bits);

    if (f.flags & LIMBER_FORMAT_NO_INF)
        frac = f.flags & LIMBER_FORMAT_NO_MINUS_ZERO ? frac : 2 - ldexp(2, -f.frac_bits);
    else if (!(f.flags & LIMBER_FORMAT_FINITE))
        top--;
    return ldexp(frac, top - f.bias);
}

/* Returns what a format stores for NaN or an infinity.  Formats without them store 0, the largest
 * number or NaN. */
static double not_finite(limber_format f, bool nan, bool minus)
{
    double v = nan ? NAN : INFINITY;

    if (f.flags & LIMBER_FORMAT_FINITE)
        v = nan ? 0 : largest(f);
    else if (f.flags & LIMBER_FORMAT_NO_INF)
        v = !nan && f.flags & LIMBER_FORMAT_SATURATE ? largest(f) : NAN;
    return isnan(v) || nan ? v : minus ? -v : v;
}

/* Rounds y >= 0 to an integer in the rounding mode of s. minus: y is the absolute value of a
 * negative number. r: random number of `bits` bits for stochastic rounding. */
static void to_units(mpfr_t y, const limber_step *s, bool minus, uint32_t r, int bits)
{
    mpfr_t t, d;

    mpfr_inits2(BITS, t, d, (mpfr_ptr)0);
    mpfr_trunc(t, y);
    mpfr_sub(d, y, t, MPFR_RNDN);
    switch (s->rounding) {
    case LIMBER_ROUND_NEAREST: mpfr_roundeven(y, y); break;
    case LIMBER_ROUND_AWAY: mpfr_round(y, y); break;
    case LIMBER_ROUND_UP: minus ? mpfr_trunc(y, y) : mpfr_ceil(y, y); break;
    case LIMBER_ROUND_DOWN: minus ? mpfr_ceil(y, y) : mpfr_trunc(y, y); break;
    case LIMBER_ROUND_ODD:
        if (!mpfr_zero_p(d) && mpfr_get_ui(t, MPFR_RNDZ) % 2 == 0)
            mpfr_add_ui(t, t, 1, MPFR_RNDN);
        mpfr_set(y, t, MPFR_RNDN);
        break;
    case LIMBER_ROUND_STOCHASTIC:
        mpfr_mul_2si(d, d, bits, MPFR_RNDN);
        if (mpfr_get_ui(d, MPFR_RNDZ) + r >= 1ul << bits)
            mpfr_add_ui(t, t, 1, MPFR_RNDN);
        mpfr_set(y, t, MPFR_RNDN);
        break;
    default: mpfr_set(y, t, MPFR_RNDN); break;
    }
    mpfr_clears(t, d, (mpfr_ptr)0);
}

/* True if overflow of this sign gives an infinity (or NaN), not the largest number. */
static bool overflows_to_infinity(const limber_step *s, bool minus)
{
    if (s->format.flags & (LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_FINITE))
        return false;
    return s->overflow || s->rounding == LIMBER_ROUND_NEAREST || s->rounding == LIMBER_ROUND_AWAY ||
           s->rounding == LIMBER_ROUND_STOCHASTIC || (s->rounding == LIMBER_ROUND_UP && !minus) ||
           (s->rounding == LIMBER_ROUND_DOWN && minus);
}

static double unsigned_zero(limber_format f, double v)
{
    return v == 0 && f.flags & LIMBER_FORMAT_NO_MINUS_ZERO ? 0 : v;
}

/* Returns x in the format and rounding of s, with its subnormals and overflow. r: random number
 * of `bits` bits; *lost: what the rounding lost. */
static double round_exact(const limber_step *s, const mpfr_t x, uint32_t r, int bits,
                          struct lost *lost)
{
    limber_format f = s->format;
    bool minus = mpfr_signbit(x);
    mpfr_t y;
    long q;
    double v;

    *lost = (struct lost){ false, false };
    if (mpfr_nan_p(x) || mpfr_inf_p(x))
        return not_finite(f, mpfr_nan_p(x), minus);
    if (mpfr_zero_p(x))
        return unsigned_zero(f, minus ? -0.0 : 0.0);
    q = mpfr_get_exp(x) - 1 - f.frac_bits;
    q = q < 1 - f.bias - f.frac_bits ? 1 - f.bias - f.frac_bits : q;
    mpfr_init2(y, BITS);
    mpfr_abs(y, x, MPFR_RNDN);
    mpfr_mul_2si(y, y, -q, MPFR_RNDN);
    to_units(y, s, minus, r, bits);
    mpfr_mul_2si(y, y, q, MPFR_RNDN);
    lost->inexact = mpfr_cmpabs(y, x) != 0;
    v = mpfr_get_d(y, MPFR_RNDN);
    if (f.flags & LIMBER_FORMAT_NO_SUBNORMAL && v < ldexp(1, 1 - f.bias)) {
        v = 0;
        lost->inexact = true;
    }
    if (v > largest(f)) {
        *lost = (struct lost){ true, true };
        v = !overflows_to_infinity(s, minus) ? largest(f) :
            f.flags & LIMBER_FORMAT_NO_INF   ? NAN :
                                               INFINITY;
    }
    mpfr_clear(y);
    return unsigned_zero(f, minus ? -v : v);
}

/* Returns x rounded by the step s. */
double oracle_round(const limber_step *s, double x, uint32_t r, int bits)
{
    struct lost lost;
    mpfr_t y;
    double v;

    mpfr_init2(y, BITS);
    mpfr_set_d(y, x, MPFR_RNDN);
    v = round_exact(s, y, r, bits, &lost);
    mpfr_clear(y);
    return v;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Returns e where x = m 2^e, 1 <= m < 2. */
static int exponent(double x)
{
    int e;

    frexp(x, &e);
    return e - 1;
}

/* Returns the exponent of x, but at least that of the smallest normal number. */
static int encoded(limber_format f, double x)
{
    int least = 1 - f.bias, e = x == 0 ? least : exponent(x);

    return e < least ? least : e;
}

/* The scale of a block of elements, the largest of which has the absolute value `most`. */
static double block_scale(const limber_unit *u, const limber_step *s, double most)
{
    static const limber_step ue4m3 = { { LIMBER_KIND_FLOAT, 4, 3,
                                         LIMBER_FORMAT_NO_INF | LIMBER_FORMAT_SATURATE, 7, 1, 0 },
                                       LIMBER_ROUND_NEAREST,
                                       0 };
    int top = exponent(largest(s->format)), e;
    struct lost lost;
    mpfr_t x;
    double v;

    if (most == 0)
        return 1;
    if (u->scale == LIMBER_SCALE_UE4M3) {
        mpfr_init2(x, BITS); /* exact enough for ties: a number at a tie has few bits */
        mpfr_set_d(x, most, MPFR_RNDN);
        mpfr_div_d(x, x, largest(s->format), MPFR_RNDN);
        v = round_exact(&ue4m3, x, 0, 0, &lost);
        mpfr_clear(x);
        return v;
    }
    e = exponent(most) - top;
    if (u->scale_rule == LIMBER_SCALE_RULE_CEIL && ldexp(most, -e) > largest(s->format))
        e++;
    if (u->scale_rule == LIMBER_SCALE_RULE_EVEN) {
        limber_step wide = { { LIMBER_KIND_FLOAT, 11, s->format.frac_bits, 0, 1023, 8, 1 },
                             LIMBER_ROUND_NEAREST,
                             0 };

        e = exponent(oracle_round(&wide, most, 0, 0)) - top;
    }
    return ldexp(1, e < -127 ? -127 : e > 127 ? 127 : e);
}

/* Rounds a line's elements to the operand's format, and scales each block by its largest element if
 * the unit has block scales.  exponent: the one by which the unit aligns products. */
void oracle_load(const limber_unit *u, int side, const double *line, int64_t k,
                 struct oracle_value *out)
{
    const limber_step *s = side ? &u->b : &u->a;
    int64_t block = u->scale ? u->scale_block : k;

    for (int64_t p = 0; p < k; p++) {
        int64_t from = p / block * block;
        double most = 0, scale = 1, v;
        struct lost lost;
        mpfr_t x;

        for (int64_t q = from; u->scale && q < k && q < from + block; q++)
            if (isfinite(line[q]))
                most = fmax(most, fabs(line[q]));
        if (u->scale)
            scale = block_scale(u, s, most);
        mpfr_init2(x, BITS);
        mpfr_set_d(x, line[p], MPFR_RNDN);
        if (scale > 0 && isfinite(line[p]))
            mpfr_div_d(x, x, scale, MPFR_RNDN);
        v = scale > 0 || !isfinite(line[p]) ? round_exact(s, x, 0, 0, &lost) : copysign(0, line[p]);
        mpfr_clear(x);
        scale = scale > 0 ? scale : 1;
        out[p].value = v * scale;
        out[p].exponent = exponent(scale) + (u->sub > 1 ? 0 : encoded(s->format, v));
    }
}

/* ---- the unit ------------------------------------------------------------------------------- */

/* An element of a simulated product: row i of a, column j of b. */
struct oracle {
    const limber_unit *u;
    const struct oracle_value *a, *b;
    int64_t k, i, j;
    limber_statistics *counts;
};

/* True if product p belongs to part s of k. */
static bool is_of_part(const struct oracle *o, int64_t p, int64_t s)
{
    const limber_unit *u = o->u;
    const int64_t whole = u->tile ? u->tile : u->group ? u->group : u->block;
    const int64_t tiles = (o->k + whole - 1) / whole, tile = p / whole;

    return s == (u->deal_turns ? tile % u->split : tile / ((tiles + u->split - 1) / u->split));
}

/* Returns the position at which part s of k begins. */
static int64_t begin_of_part(const struct oracle *o, int64_t s)
{
    int64_t n = 0;

    for (int64_t p = 0; p < o->k; p++)
        for (int64_t before = 0; before < s; before++)
            n += is_of_part(o, p, before);
    return n;
}

/* Returns the index along k of the p-th product in the order in which the unit adds. */
static int64_t place(const struct oracle *o, int64_t p)
{
    int64_t g = o->u->group, from, len, n = 0;

    if (o->u->deal_turns && o->u->split > 1)
        for (int64_t s = 0; s < o->u->split; s++)
            for (int64_t at = 0; at < o->k; at++)
                if (is_of_part(o, at, s) && n++ == p)
                    return at;
    if (o->u->order == LIMBER_ORDER_REVERSE)
        return o->k - 1 - p;
    if (o->u->order == LIMBER_ORDER_FORWARD)
        return p;
    if (o->u->order == LIMBER_ORDER_SWAPPED)
        return p % 2 ? p - 1 : p + 1 < o->k ? p + 1 : p;
    from = p / g * g;
    len = o->k - from < g ? o->k - from : g;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t q = 0; q < len; q++) {
            bool first = o->u->order == LIMBER_ORDER_EVENODD ? q % 2 == 0 : q % 4 < 2;

            if (first == (pass == 0) && n++ == p - from)
                return from + q;
        }
    abort();
}

/* Returns a random number of the unit; `stream` and `index` tell for which rounding it is. */
static uint32_t random_number(const struct oracle *o, uint32_t stream, int64_t index)
{
    return limber_unit_random(o->u->seed, o->i, o->j, stream, (uint32_t)index);
}

/* Adds a + b exactly.  A zero sum is +0 unless both are -0. */
static void exact_sum(mpfr_t x, double a, const mpfr_t b)
{
    mpfr_add_d(x, b, a, MPFR_RNDN);
    if (mpfr_zero_p(x))
        mpfr_setsign(x, x, signbit(a) && mpfr_signbit(b), MPFR_RNDN);
}

/* Returns sum + x, computed exactly, in the format and rounding of s, with the random number r.
 * lost: what the rounding lost. */
static double add_rounded(const struct oracle *o, const limber_step *s, double sum, double x,
                          uint32_t r, struct lost *lost)
{
    mpfr_t y;
    double v;

    mpfr_init2(y, BITS);
    mpfr_set_d(y, x, MPFR_RNDN);
    exact_sum(y, sum, y);
    v = round_exact(s, y, r >> (32 - o->u->random_bits), o->u->random_bits, lost);
    mpfr_clear(y);
    return v;
}

/* Returns sum + x with the accumulator's rounding, and counts what the rounding lost. */
static double count_add(const struct oracle *o, double sum, double x, uint32_t r)
{
    struct lost lost;
    double v = add_rounded(o, &o->u->acc, sum, x, r, &lost);

    if (x != 0 && isfinite(x) && isfinite(sum)) {
        if (v == sum)
            o->counts->swamped++;
        else if (lost.overflow)
            o->counts->sum_overflow++;
        else if (lost.inexact)
            o->counts->partly_swamped++;
    }
    return v;
}

/* Returns the p-th product, rounded to the unit's product format if it has one (`mul`). */
static double round_product(const struct oracle *o, int64_t p, uint32_t r)
{
    int64_t at = place(o, p);
    double x = o->a[at].value * o->b[at].value, v; /* exact: at most 48 bits */
    struct lost lost;
    mpfr_t y;

    if (!o->u->mul.format.kind)
        return x;
    mpfr_init2(y, BITS);
    mpfr_set_d(y, x, MPFR_RNDN);
    v = round_exact(&o->u->mul, y, (r & 0xffff) >> (16 - o->u->random_bits), o->u->random_bits,
                    &lost);
    mpfr_clear(y);
    if (x != 0 && isfinite(x)) {
        o->counts->mul_inexact += lost.inexact;
        o->counts->mul_overflow += lost.overflow;
        o->counts->mul_underflow += v == 0;
    }
    return v;
}

/* Returns the sum of `width` products from position p on, added in a balanced tree. */
static double sum_tree(const struct oracle *o, int64_t p, int64_t width, int64_t end)
{
    if (width == 1)
        return p < end ? round_product(o, p, 0) : 0;
    double left = sum_tree(o, p, width / 2, end),
           right = sum_tree(o, p + width / 2, width / 2, end);

    return count_add(o, left, right, 0);
}

/* Adds x, truncated to a multiple of 2^unit, to an exact sum.  If `counted`, counts terms that lose
 * bits. */
static void add_truncated(mpfr_t sum, const mpfr_t x, int unit, bool counted,
                          limber_statistics *counts)
{
    mpfr_t t;

    mpfr_init2(t, BITS);
    mpfr_mul_2si(t, x, -unit, MPFR_RNDN);
    mpfr_trunc(t, t);
    mpfr_mul_2si(t, t, unit, MPFR_RNDN);
    if (counted && !mpfr_zero_p(x)) {
        counts->swamped += mpfr_zero_p(t);
        counts->partly_swamped += !mpfr_zero_p(t) && mpfr_cmp(t, x) != 0;
    }
    mpfr_add(sum, sum, t, MPFR_RNDN);
    mpfr_clear(t);
}

/* Rounds x down to a multiple of 2^unit. */
static void floor_to(mpfr_t x, int unit)
{
    mpfr_mul_2si(x, x, -unit, MPFR_RNDN);
    mpfr_floor(x, x);
    mpfr_mul_2si(x, x, unit, MPFR_RNDN);
}

/* Sums term[first], term[first + step], ..., each truncated `frac` bits below the largest exponent
 * of these terms.  Returns that exponent, or FAR if there is no term. */
static int sum_apart(const struct oracle *o, mpfr_t sum, mpfr_t *term, const int *e, int terms,
                     int first, int step)
{
    int most = FAR;

    mpfr_set_zero(sum, 1);
    for (int t = first; t < terms; t += step)
        if ((o->u->zeros || !mpfr_zero_p(term[t])) && e[t] > most)
            most = e[t];
    for (int t = first; t < terms && most != FAR; t += step)
        add_truncated(sum, term[t], most - o->u->frac, true, o->counts);
    return most;
}

/* Sums the accumulator, term[0], and products, term[1] and following, as AMD CDNA3 does: first the
 * products, then adds the accumulator. */
static void sum_late(const struct oracle *o, mpfr_t sum, mpfr_t *term, const int *e, int terms)
{
    const limber_unit *u = o->u;
    int most = sum_apart(o, sum, term, e, terms, 1, u->halves ? 2 : 1), odd;
    mpfr_t other;

    mpfr_init2(other, BITS);
    if (u->halves) {
        odd = sum_apart(o, other, term, e, terms, 2, 2);
        most = odd > most ? odd : most;
        if (most != FAR) {
            floor_to(sum, most - u->frac);
            floor_to(other, most - u->frac);
        }
        mpfr_add(sum, sum, other, MPFR_RNDN);
    }
    most = e[0] > most ? e[0] : most;
    floor_to(sum, most - u->late);
    if (!u->reach || e[0] >= most - u->reach) {
        mpfr_set(other, term[0], MPFR_RNDN);
        floor_to(other, most - u->frac);
        mpfr_add(sum, sum, other, MPFR_RNDN);
    }
    mpfr_clear(other);
}

/* Returns the accumulator plus n products from position p on, in one fused sum: all terms are
 * aligned to the largest exponent, truncated, added exactly and rounded once. */
static double add_fused(const struct oracle *o, double acc, int64_t p, int64_t n)
{
    const limber_unit *u = o->u;
    mpfr_t term[129], sum;
    int e[129], terms = 1, most = FAR;
    struct lost lost = { false, false };
    double rest = isfinite(acc) ? 0 : acc, v = 0;

    mpfr_init2(sum, BITS);
    mpfr_set_zero(sum, 1);
    mpfr_init2(term[0], BITS);
    mpfr_set_d(term[0], isfinite(acc) ? acc : 0, MPFR_RNDN);
    e[0] = acc == 0 || exponent(acc) < -126 ? -126 : exponent(acc);
    for (int64_t q = 0; q < n; q += u->sub, terms++) {
        mpfr_init2(term[terms], BITS);
        mpfr_set_zero(term[terms], 1);
        for (int64_t s = q; s < n && s < q + u->sub; s++) {
            int64_t at = place(o, p + s);
            double x = o->a[at].value * o->b[at].value;

            e[terms] = o->a[at].exponent + o->b[at].exponent;
            if (u->late && fabs(x) >= 0x1p128)
                x = x < 0 ? -INFINITY : INFINITY;
            if (isfinite(x))
                mpfr_add_d(term[terms], term[terms], x, MPFR_RNDN);
            else
                rest += x;
        }
    }
    for (int t = 0; t < terms; t++)
        if ((u->zeros || !mpfr_zero_p(term[t])) && e[t] > most)
            most = e[t];
    if (!isfinite(rest)) {
        v = not_finite(u->acc.format, isnan(rest), rest < 0);
    } else if (most != FAR) {
        most = most < u->floor ? u->floor : most;
        if (u->late)
            sum_late(o, sum, term, e, terms);
        for (int t = 0; t < terms && !u->late; t++)
            add_truncated(sum, term[t], most - u->frac, t > 0, o->counts);
        if (mpfr_zero_p(sum))
            mpfr_set_zero(sum, 1);
        v = round_exact(&u->acc, sum, random_number(o, 0, p) >> (32 - u->random_bits),
                        u->random_bits, &lost);
        o->counts->sum_overflow += lost.overflow;
    }
    for (int t = 0; t < terms; t++)
        mpfr_clear(term[t]);
    mpfr_clear(sum);
    return v;
}

/* Returns acc plus the products at positions [from, to), added block by block. */
static double add_chain(const struct oracle *o, double acc, int64_t from, int64_t to)
{
    const limber_unit *u = o->u;

    for (int64_t p = from; p < to; p += u->block) {
        int64_t end = p + u->block < to ? p + u->block : to;

        if (u->tree)
            acc = count_add(o, acc, sum_tree(o, p, u->block, end), 0);
        else if (u->block > 1)
            acc = add_fused(o, acc, p, end - p);
        else
            acc = count_add(o, acc, round_product(o, p, random_number(o, 0, p)),
                            random_number(o, 0, p));
    }
    return acc;
}

/* Returns the outer sum plus x, rounded as the unit does, and counts additions in which x was lost
 * as a whole or in part. */
static double add_outer(const struct oracle *o, const limber_step *s, double sum, double x,
                        uint32_t stream, int64_t index)
{
    struct lost lost;
    double v = add_rounded(o, s, sum, x, random_number(o, stream, index), &lost);

    o->counts->outer_sums++;
    if (x != 0 && isfinite(x) && isfinite(sum)) {
        o->counts->outer_swamped += v == sum;
        o->counts->outer_partly += v != sum && lost.inexact && !lost.overflow;
    }
    return v;
}

/* Returns sum plus the products at positions from, from + step, ..., below `to`, added one by
 * one. */
static double sum_strided(const struct oracle *o, double sum, int64_t from, int64_t to,
                          int64_t step)
{
    for (int64_t p = from; p < to; p += step)
        sum =
            count_add(o, sum, round_product(o, p, random_number(o, 0, p)), random_number(o, 0, p));
    return sum;
}

/* Sums `width` lanes in a tree: lanes `first`, first + step, and so on.  node: number of this node
 * of the tree, for random bits.  A single lane adds its own products. */
static double sum_lanes(const struct oracle *o, int64_t from, int64_t to, int first, int step,
                        int width, int node, int64_t index)
{
    const int64_t left = o->u->unroll ? (to - from) % o->u->unroll : 0;
    const bool halves = o->u->join_halves;
    double x, y;

    if (width == 1) {
        x = sum_strided(o, 0, from + first, to - left, o->u->lanes);
        return first == 0 && !o->u->rest_after ? sum_strided(o, x, to - left, to, 1) : x;
    }
    x = sum_lanes(o, from, to, first, halves ? 2 * step : 1, width / 2, 2 * node, index);
    y = sum_lanes(o, from, to, first + (halves ? step : width / 2), halves ? 2 * step : 1,
                  width / 2, 2 * node + 1, index);
    /* The children of node n are 2n and 2n + 1, counted from the root.  If the unit joins
     * halves, the index of a node in its level is that of its first lane. */
    return add_outer(o, &o->u->acc, x, y, 4,
                     index * 16 + (halves ? o->u->lanes / width + first : node));
}

/* Returns the outer sum plus the products at positions [from, to), added group by group. */
static double add_part(const struct oracle *o, double sum, int64_t from, int64_t to)
{
    const limber_unit *u = o->u;
    int64_t index = from / (u->group ? u->group : 1), end;
    double x;

    if (!u->group)
        return add_chain(o, sum, from, to);
    for (int64_t p = from; p < to; p = end, index++) {
        const int64_t left = to - p, half = left / 2;

        end = p + u->group < to ? p + u->group : to;
        if (u->halve && left > u->group && left < 2 * (int64_t)u->group)
            for (end = p + half + (u->halve == 1 ? left % 2 : 0); (end - p) % u->halve; end++)
                ;
        if (u->lanes) {
            x = sum_lanes(o, p, end, 0, 1, u->lanes, 1, index);
            if (u->rest_after)
                x = sum_strided(o, x, end - (end - p) % u->unroll, end, 1);
        } else {
            x = add_chain(o, 0, p, end);
        }
        sum = add_outer(o, &u->outer, sum, x, 1, index);
    }
    return sum;
}

/* Returns `sum` plus the sums of all parts of k, which are first computed one after another. */
static double add_parts(const struct oracle *o, double sum)
{
    const int64_t n = o->u->split, half = (n + 1) / 2;
    double part[16];
    bool there[16];

    if (n > (int64_t)(sizeof part / sizeof *part))
        abort();
    for (int64_t s = 0; s < n; s++) {
        const int64_t from = begin_of_part(o, s), to = begin_of_part(o, s + 1);

        there[s] = from < to;
        part[s] = there[s] ? add_part(o, 0, from, to) : 0;
    }
    if (!o->u->merge_pairs) {
        for (int64_t s = 0; s < n; s++)
            sum = there[s] ? add_outer(o, &o->u->total, sum, part[s], 2, s) : sum;
        return sum;
    }
    for (int64_t s = half; s < n - 1; s++)
        if (there[s])
            part[s - half] = add_outer(o, &o->u->total, part[s - half], part[s], 2, s);
    if (there[n - 1])
        sum = add_outer(o, &o->u->total, sum, part[n - 1], 2, n - 1);
    for (int64_t s = 0; s < half; s++)
        sum = there[s] ? add_outer(o, &o->u->total, sum, part[s], 2, s) : sum;
    return sum;
}

/* Loads lines of a matrix. */
struct oracle_value *oracle_load_lines(const limber_unit *u, int side, const double *x,
                                       int64_t lines, int64_t k, int64_t next, int64_t step)
{
    struct oracle_value *v = calloc((size_t)(lines * k) + 1, sizeof *v);
    double *line = calloc((size_t)k + 1, sizeof *line);

    for (int64_t i = 0; i < lines; i++) {
        for (int64_t p = 0; p < k; p++)
            line[p] = x[i * next + p * step];
        oracle_load(u, side, line, k, v + i * k);
    }
    free(line);
    return v;
}

/* Compares values. */
bool oracle_equal(double got, double want)
{
    return (isnan(got) && isnan(want)) || (got == want && signbit(got) == signbit(want));
}

/* Returns an element of the simulated unit's result, by exact sums in MPFR and the description's
 * roundings: parts of k, groups, blocks. */
double oracle_dot(const limber_unit *u, const struct oracle_value *a, const struct oracle_value *b,
                  int64_t k, double start, int64_t i, int64_t j, limber_statistics *counts)
{
    const struct oracle o = { u, a, b, k, i, j, counts };
    limber_format sums = u->split > 1 ? u->total.format :
                         u->group     ? u->outer.format :
                                        u->acc.format;
    bool flushed = sums.flags & LIMBER_FORMAT_NO_SUBNORMAL && fabs(start) < ldexp(1, 1 - sums.bias);
    double sum = flushed ? copysign(0, start) : start;

    sum = u->split == 1 ? add_part(&o, sum, 0, k) : add_parts(&o, sum);
    for (int64_t p = 0; p < k; p++)
        counts->nonzero +=
            a[p].value != 0 && b[p].value != 0 && isfinite(a[p].value) && isfinite(b[p].value);
    if (u->out.format.kind)
        sum = oracle_round(&u->out, sum, random_number(&o, 3, 0) >> (32 - u->random_bits),
                           u->random_bits);
    return sum;
}
