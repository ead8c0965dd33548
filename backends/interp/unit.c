/* SPDX-License-Identifier: BSD-3-Clause
 * Simulates an arithmetic unit for one dot product.  Sums are exact, and are rounded where the
 * unit's description says so. */
#include "backends/interp/unit.h"

#include <math.h>
#include <string.h>

enum { MOST = 128 };            /* largest number of products in a block of a unit */

/* One simulated dot product. */
struct machine {
    const struct model_dot *d;
    uint32_t element; /* hash of the element, from which its random numbers are derived */
};

/* ---- exact sums of terms ------------------------------------------------------------------- */

/* Adds x and y, which are finite and have at most 106 bits each.  *out: the sum's leading bits.
 * Returns 1 if nonzero bits below *out's last bit were dropped, else 0. */
static int add_finite(struct limber_num *out, struct limber_num x, struct limber_num y)
{
    limber_u128 u, v;
    int64_t top_x, top_y, gap;
    int sticky = 0;

    if (x.kind == NUM_zero || y.kind == NUM_zero) {
        bool none = x.kind == y.kind;

        *out = x.kind == NUM_zero ? y : x;
        if (none)
            out->sign = x.sign && y.sign;
        return 0;
    }
    top_x = (int64_t)x.exp + limber_sig_bits(limber_num_sig(&x));
    top_y = (int64_t)y.exp + limber_sig_bits(limber_num_sig(&y));
    if (top_x < top_y) {
        struct limber_num t = x;

        x = y;
        y = t;
    }
    /* shift x so that its top bit is bit 125, and y to the same exponent as x */
    gap = 126 - limber_sig_bits(limber_num_sig(&x));
    u = limber_num_sig(&x) << (int)gap;
    x.exp -= (int32_t)gap;
    gap = (int64_t)y.exp - x.exp;
    if (gap >= 0) {
        v = limber_num_sig(&y) << (int)gap;
    } else if (gap > -128) {
        v = limber_num_sig(&y) >> (int)-gap;
        sticky = (v << (int)-gap) != limber_num_sig(&y);
    } else {
        v = 0;
        sticky = 1;
    }
    *out = x;
    if (x.sign == y.sign) {
        u += v;
    } else if (u >= v + (unsigned)sticky) {
        u -= v + (unsigned)sticky;
    } else {
        u = v - u;
        out->sign = y.sign;
    }
    out->hi = (uint64_t)(u >> 64);
    out->lo = (uint64_t)u;
    if (!u && !sticky) {
        out->kind = NUM_zero;
        out->sign = 0;
    }
    return sticky;
}

/* Adds x and y, which may be NaN or infinite.  Returns 1 if nonzero bits below *out's last bit were
 * dropped, else 0. */
static int add_numbers(struct limber_num *out, const struct limber_num *x,
                       const struct limber_num *y)
{
    if (x->kind < NUM_inf && y->kind < NUM_inf)
        return add_finite(out, *x, *y);
    *out = x->kind >= NUM_inf ? *x : *y;
    if (x->kind == NUM_nan || y->kind == NUM_nan ||
        (x->kind == NUM_inf && y->kind == NUM_inf && x->sign != y->sign)) {
        out->kind = NUM_nan;
        out->sign = 0;
    }
    return 0;
}

/* Returns a double as a limber_num. */
static struct limber_num number_of(double v)
{
    struct limber_num x;

    limber_num_from_f64(&x, v);
    return x;
}

/* Returns the exact product at position p of the unit's order along k. */
static struct limber_num exact_product(const struct machine *m, int64_t p)
{
    const struct model_dot *d = m->d;
    int64_t at = limber_unit_index_of_position(d->u, d->k, p);
    struct limber_num x = number_of(d->a[at].value), y = number_of(d->b[at].value);
    limber_u128 sig;

    if (x.kind != NUM_finite || y.kind != NUM_finite)
        return number_of(d->a[at].value * d->b[at].value);
    sig = limber_num_sig(&x) * limber_num_sig(&y);
    return (struct limber_num){ (uint64_t)(sig >> 64), (uint64_t)sig, x.exp + y.exp,
                                x.sign != y.sign, NUM_finite };
}

/* ---- products added one by one, each rounded ------------------------------------------------- */

/* Returns x rounded to the format of s, which describes one rounding addition of the unit.
 * sticky: 1 if nonzero bits below the last bit of x were dropped.  random: a number whose upper
 * bits are used.  *loss: set to flags of enum limber_num_loss. */
static double round_to_step(const struct machine *m, const limber_step *s,
                            const struct limber_num *x, int sticky, uint32_t random, int *loss)
{
    struct limber_num out;

    limber_step_round(&out, s, x, sticky, random >> (32 - m->d->u->random_bits),
                      m->d->u->random_bits, loss);
    return limber_num_value(&out);
}

/* Returns sum + x in the format and rounding of s. random: number for stochastic rounding.
 * *loss: set to flags of enum limber_num_loss. */
static double accumulate(const struct machine *m, const limber_step *s, double sum,
                         const struct limber_num *x, uint32_t random, int *loss)
{
    struct limber_num a = number_of(sum), out;
    int sticky = add_numbers(&out, &a, x);

    return round_to_step(m, s, &out, sticky, random, loss);
}

/* True if a sum did not change although a nonzero term was added to it. */
static bool is_swamped(double before, double after, bool inexact)
{
    return inexact && after == before && isfinite(before);
}

/* Returns the product at position p, rounded to the unit's product format if it has one.  Counts
 * bits lost by this rounding.  random: number for stochastic rounding. */
static struct limber_num rounded_product(const struct machine *m, int64_t p, uint32_t random)
{
    struct unit_counts *c = m->d->counts;
    struct limber_num x = exact_product(m, p);
    double v;
    int loss;

    if (!m->d->u->mul.format.kind)
        return x;
    v = round_to_step(m, &m->d->u->mul, &x, 0, random << 16, &loss);
    if (x.kind == NUM_finite) {
        c->mul_inexact += loss & NUM_inexact ? 1 : 0;
        c->mul_underflow += v == 0;
        c->mul_overflow += loss & NUM_overflow ? 1 : 0;
    }
    return number_of(v);
}

/* Updates the event counters after x was added to a sum: all of x lost, some bits of x lost, or
 * overflow. */
static void count_sum(const struct machine *m, double before, double x, double after, int loss)
{
    struct unit_counts *c = m->d->counts;

    if (x == 0 || !isfinite(x) || !isfinite(before))
        return;
    if (is_swamped(before, after, loss & NUM_inexact))
        c->swamped++;
    else if (loss & NUM_overflow)
        c->sum_overflow++;
    else
        c->partly_swamped += loss & NUM_inexact ? 1 : 0;
}

/* Returns acc plus product p, with the unit's roundings. */
static double add_one_product(const struct machine *m, double acc, int64_t p)
{
    uint32_t h = limber_unit_number(m->element, 0, (uint32_t)p);
    struct limber_num x = rounded_product(m, p, h);
    int loss;
    double after = accumulate(m, &m->d->u->acc, acc, &x, h, &loss);

    count_sum(m, acc, limber_num_value(&x), after, loss);
    return after;
}

/* ---- blocks of terms, added by a tree or aligned --------------------------------------------- */

/* Returns acc plus the n products from p on.  The products are first summed as a balanced tree of
 * rounded additions. */
static double add_tree(const struct machine *m, double acc, int64_t p, int64_t n)
{
    const limber_unit *u = m->d->u;
    double v[MOST] = { 0 }, after;
    struct limber_num x;
    int loss;

    for (int64_t q = 0; q < n; q++) {
        x = rounded_product(m, p + q, 0);
        v[q] = limber_num_value(&x);
    }
    for (int width = u->block; width > 1; width /= 2)
        for (int q = 0; q < width / 2; q++) {
            x = number_of(v[2 * q + 1]);
            after = accumulate(m, &u->acc, v[2 * q], &x, 0, &loss);
            count_sum(m, v[2 * q], v[2 * q + 1], after, loss);
            v[q] = after;
        }
    x = number_of(v[0]);
    after = accumulate(m, &u->acc, acc, &x, 0, &loss);
    count_sum(m, acc, v[0], after, loss);
    return after;
}

/* A term of a fused block. */
struct term {
    double value; /* the product, exact */
    int exponent; /* sum of the factors' exponents, which may differ from the product's exponent */
};

/* Returns a term as an integer in units of 2^unit, truncated toward zero. */
static __int128 aligned_integer(double value, int unit)
{
    struct limber_num x = number_of(value);
    limber_u128 v = limber_num_sig(&x);
    int64_t shift = (int64_t)x.exp - unit;

    if (x.kind != NUM_finite || shift < -127)
        return 0;
    v = shift >= 0 ? v << (int)shift : v >> (int)-shift;
    return x.sign ? -(__int128)v : (__int128)v;
}

/* Counts those of the terms t[1] to t[n - 1] that lose some or all of their bits when they are
 * truncated to multiples of 2^unit. */
static void count_terms(const struct machine *m, const struct term *t, int n, int unit)
{
    for (int q = 1; q < n; q++) {
        double kept = ldexp((double)aligned_integer(t[q].value, unit), unit);

        if (t[q].value != 0 && kept == 0)
            m->d->counts->swamped++;
        else
            m->d->counts->partly_swamped += kept != t[q].value;
    }
}

/* ---- blocks to which acc is added after the products ----------------------------------------- */

/* Converts v from units of 2^unit to units of 2^to, rounded down. */
static __int128 shift_down(__int128 v, int64_t unit, int64_t to)
{
    if (unit >= to)
        return v * ((__int128)1 << (int)(unit - to)); /* v may be negative */
    return to - unit < 127 ? v >> (int)(to - unit) : v < 0 ? -1 : 0;
}

/* A sum of aligned terms, in units of 2^(exponent - frac), where frac belongs to the unit. */
struct late_sum {
    __int128 sum;
    int exponent; /* INT32_MIN if there are no terms */
};

/* Returns the sum of the products t[first], t[first + step] and so on, aligned to the largest
 * exponent among them.  Counts bits lost by the alignment. */
static struct late_sum aligned_sum(const struct machine *m, const struct term *t, int n, int first,
                                   int step)
{
    const limber_unit *u = m->d->u;
    struct late_sum s = { 0, INT32_MIN };

    for (int q = first; q < n; q += step)
        if ((t[q].value != 0 || u->zeros) && t[q].exponent > s.exponent)
            s.exponent = t[q].exponent;
    for (int q = first; q < n && s.exponent != INT32_MIN; q += step)
        s.sum += aligned_integer(t[q].value, s.exponent - u->frac);
    for (int q = first; q < n && s.exponent != INT32_MIN; q += step)
        count_terms(m, &t[q - 1], 2, s.exponent - u->frac);
    return s;
}

/* Returns the rounded sum of acc (t[0]) and a block of products.  Products are aligned to each
 * other and summed first; then their sum and acc are aligned and summed. */
static double sum_late(const struct machine *m, const struct term *t, int n, uint32_t random)
{
    const limber_unit *u = m->d->u;
    struct late_sum s = aligned_sum(m, t, n, 1, u->halves ? 2 : 1), other;
    struct limber_num x = { .kind = NUM_zero };
    int most, loss;
    double v;

    if (u->halves) {
        other = aligned_sum(m, t, n, 2, 2);
        most = s.exponent > other.exponent ? s.exponent : other.exponent;
        s.sum = shift_down(s.sum, s.exponent, most) + shift_down(other.sum, other.exponent, most);
        s.exponent = most;
    }
    most = s.exponent > t[0].exponent ? s.exponent : t[0].exponent;
    s.sum = shift_down(s.sum, (int64_t)s.exponent - u->frac, (int64_t)most - u->late);
    if (!u->reach || t[0].exponent >= most - u->reach) {
        struct limber_num c = number_of(t[0].value);
        __int128 whole = c.kind == NUM_finite ? (__int128)limber_num_sig(&c) : 0;

        whole = shift_down(c.sign ? -whole : whole, c.exp, (int64_t)most - u->frac);
        s.sum += whole * ((__int128)1 << (u->late - u->frac));
    }
    if (s.sum != 0) {
        limber_u128 size = s.sum < 0 ? (limber_u128)-s.sum : (limber_u128)s.sum;

        x = (struct limber_num){ (uint64_t)(size >> 64), (uint64_t)size, most - u->late, s.sum < 0,
                                 NUM_finite };
    }
    v = round_to_step(m, &u->acc, &x, 0, random, &loss);
    m->d->counts->sum_overflow += loss & NUM_overflow ? 1 : 0;
    return v;
}

/* Returns the rounded sum of a fused block, of which t[0] is acc.  All terms are aligned to the
 * largest exponent, truncated and added exactly; the sum is rounded once. */
static double sum_fused(const struct machine *m, const struct term *t, int n, uint32_t random)
{
    const limber_unit *u = m->d->u;
    struct limber_num x = { .kind = NUM_zero };
    int most = INT32_MIN, loss;
    __int128 sum = 0;
    double v;

    for (int q = 0; q < n; q++)
        if ((t[q].value != 0 || u->zeros) && t[q].exponent > most)
            most = t[q].exponent;
    if (most == INT32_MIN)
        return 0;
    most = most < u->floor ? u->floor : most;
    for (int q = 0; q < n; q++)
        sum += aligned_integer(t[q].value, most - u->frac);
    count_terms(m, t, n, most - u->frac);
    if (sum != 0) {
        limber_u128 size = sum < 0 ? (limber_u128)-sum : (limber_u128)sum;

        x = (struct limber_num){ (uint64_t)(size >> 64), (uint64_t)size, most - u->frac, sum < 0,
                                 NUM_finite };
    }
    v = round_to_step(m, &u->acc, &x, 0, random, &loss);
    m->d->counts->sum_overflow += loss & NUM_overflow ? 1 : 0;
    return v;
}

/* Returns acc plus n products from p on, added as one fused block. */
static double add_fused(const struct machine *m, double acc, int64_t p, int64_t n)
{
    const struct model_dot *d = m->d;
    const limber_unit *u = d->u;
    struct term t[MOST + 1];
    int terms = 1;
    double rest = 0; /* the sum of NaN and infinite terms; 0 if there are none */

    t[0] = (struct term){ acc, limber_unit_exponent(LIMBER_F32, acc) };
    rest += isfinite(acc) ? 0 : acc;
    for (int64_t q = 0; q < n; q += u->sub) {
        t[terms] = (struct term){ 0, INT32_MIN };
        for (int64_t s = q; s < n && s < q + u->sub; s++) {
            int64_t at = limber_unit_index_of_position(u, d->k, p + s);
            double x = (double)d->a[at].value * (double)d->b[at].value;

            if (u->late && fabs(x) >= LIMBER_UNIT_TOO_LARGE)
                x = copysign(INFINITY, x);
            rest += isfinite(x) ? 0 : x;
            /* exact: formats of units with sub > 1 have few bits and a small range of exponents */
            t[terms].value += x;
            t[terms].exponent = d->a[at].exponent + d->b[at].exponent;
        }
        terms++;
    }
    if (!isfinite(rest)) {
        struct limber_num x = number_of(rest);
        int loss;

        return round_to_step(m, &u->acc, &x, 0, 0, &loss);
    }
    return (u->late ? sum_late : sum_fused)(m, t, terms,
                                            limber_unit_number(m->element, 0, (uint32_t)p));
}

/* ---- groups of products, and parts of k ------------------------------------------------ */

/* Returns acc plus the products [from, to), added block by block: as trees, as fused sums, or one
 * by one. */
static double sum_chain(const struct machine *m, double acc, int64_t from, int64_t to)
{
    const limber_unit *u = m->d->u;

    for (int64_t p = from; p < to; p += u->block) {
        int64_t n = to - p < u->block ? to - p : u->block;

        acc = u->tree      ? add_tree(m, acc, p, n) :
              u->block > 1 ? add_fused(m, acc, p, n) :
                             add_one_product(m, acc, p);
    }
    return acc;
}

/* Returns `sum`, an outer sum, plus the partial sum `part` (of a group or a section of k), in the
 * format and rounding of s. stream, index: select the random number. */
static double add_outer(const struct machine *m, const limber_step *s, double sum, double part,
                        uint32_t stream, int64_t index)
{
    struct unit_counts *c = m->d->counts;
    struct limber_num x = number_of(part);
    int loss;
    double after =
        accumulate(m, s, sum, &x, limber_unit_number(m->element, stream, (uint32_t)index), &loss);

    c->outer_sums++;
    if (part != 0 && isfinite(part) && isfinite(sum)) {
        if (is_swamped(sum, after, loss & NUM_inexact))
            c->outer_swamped++;
        else
            c->outer_partly += loss & NUM_inexact && !(loss & NUM_overflow) ? 1 : 0;
    }
    return after;
}

/* Returns the sum of a group's products: several accumulators (lanes) sum interleaved products, and
 * are then added as a tree. */
static double sum_lanes(const struct machine *m, int64_t from, int64_t to)
{
    const limber_unit *u = m->d->u;
    const int64_t whole = limber_unit_steps_end(u, from, to);
    double acc[LIMBER_UNIT_LANES] = { 0 };
    int64_t p;

    for (p = from; p < to; p++) {
        double *lane = &acc[p < whole ? (p - from) % u->lanes : 0];

        if (p == whole && u->rest_after)
            break;
        *lane = add_one_product(m, *lane, p);
    }
    for (int width = u->lanes; width > 1; width /= 2)
        for (int i = 0; i < width / 2; i++)
            acc[i] =
                add_outer(m, &u->acc, acc[limber_unit_lane(u, width, i, 0)],
                          acc[limber_unit_lane(u, width, i, 1)], 4,
                          limber_unit_group_index(u, from) * LIMBER_UNIT_LANES + width / 2 + i);
    for (; p < to; p++)
        acc[0] = add_one_product(m, acc[0], p);
    return acc[0];
}

/* Returns `start` plus the products [from, to) of a section of k, group by group or as one
 * chain. */
static double sum_part(const struct machine *m, double start, int64_t from, int64_t to)
{
    const limber_unit *u = m->d->u;

    if (!u->group)
        return sum_chain(m, start, from, to);
    for (int64_t p = from, end; p < to; p = end) {
        end = limber_unit_group_end(u, p, to);
        start = add_outer(m, &u->outer, start,
                          u->lanes ? sum_lanes(m, p, end) : sum_chain(m, 0, p, end), 1,
                          limber_unit_group_index(u, p));
    }
    return start;
}

/* True if a part of k has products; *from, *to: its positions.  Part -1 has none. */
static bool has_products(const struct machine *m, int64_t part, int64_t *from, int64_t *to)
{
    const struct model_dot *d = m->d;

    if (part < 0)
        return false;
    *from = limber_unit_part_begin(d->u, d->k, part);
    *to = limber_unit_part_begin(d->u, d->k, part + 1);
    return *from < *to;
}

/* Returns `sum` plus the sums of the parts of k, in the order in which the unit adds these. */
static double sum_parts(const struct machine *m, double sum)
{
    const limber_unit *u = m->d->u;

    for (int64_t slot = 0; slot < limber_unit_slots(u); slot++) {
        const int64_t first = limber_unit_slot_part(u, slot, 0);
        const int64_t second = limber_unit_slot_part(u, slot, 1);
        int64_t from, to;
        double part;

        if (!has_products(m, first, &from, &to))
            continue; /* the second part is behind the first, and has none, either */
        part = sum_part(m, 0, from, to);
        if (has_products(m, second, &from, &to))
            part = add_outer(m, &u->total, part, sum_part(m, 0, from, to), 2, second);
        sum = add_outer(m, &u->total, sum, part, 2, first);
    }
    return sum;
}

/* Returns the dot product: all of k at once, or in parts whose sums are added. */
double limber_interp_dot(const struct model_dot *d)
{
    const limber_unit *u = d->u;
    struct machine m = { d, limber_unit_element(limber_unit_row_hash(d->seed, d->i), d->j) };
    double sum = d->start;
    int loss;

    if (u->split == 1)
        sum = sum_part(&m, sum, 0, d->k);
    else
        sum = sum_parts(&m, sum);
    if (u->out.format.kind) {
        struct limber_num x = number_of(sum);

        sum = round_to_step(&m, &u->out, &x, 0, limber_unit_number(m.element, 3, 0), &loss);
    }
    return sum;
}
