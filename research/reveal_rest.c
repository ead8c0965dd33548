/* SPDX-License-Identifier: BSD-3-Clause
 * Finds properties of a unit other than its order, formats and roundings, from results of special
 * numbers: how far below the largest exponent fused blocks keep bits and which terms count for it,
 * the scales of blocks of operands, and whether it rounds stochastically. */
#include "ir/unit/num.h"
#include "research/reveal.h"

#include <math.h>

/* ---- fused blocks: how their terms are aligned ----------------------------------------------- */

/* A test whether a tiny term has changed a sum.  The sum whole + half + sign tiny, in units of
 * the sum's last place, is rounded to `kept` only if it has. */
struct tiny_test {
    double whole, half;
    int sign;
    double kept;
};

/* Returns the test for a rounding mode. */
static struct tiny_test tiny_test_of(limber_rounding rounding)
{
    switch (rounding) {
    case LIMBER_ROUND_NEAREST: return (struct tiny_test){ 2, 0.5, 1, 3 };
    case LIMBER_ROUND_AWAY: return (struct tiny_test){ 1, 0.5, -1, 1 };
    case LIMBER_ROUND_UP: return (struct tiny_test){ 1, 0, 1, 2 };
    case LIMBER_ROUND_ODD: return (struct tiny_test){ 2, 0, 1, 3 };
    default: return (struct tiny_test){ 1, 0, -1, 0 };
    }
}

/* Sets product p to a zero with the largest possible exponent: 0 times the largest power of two. */
static void put_zero(const struct reveal *r, int64_t p)
{
    r->b[p] = ldexp(1, limber_format_emax(r->sum->operand));
}

/* Returns the exponent by which fused blocks align the product of put_zero: the largest exponent of
 * a factor plus the exponent of a zero. */
static int exponent_of_zero(const struct reveal *r)
{
    return limber_format_emax(r->sum->operand) + 1 - r->sum->operand.bias;
}

/* Sets *kept to true if a product 2^e still changes the sum of a block whose other terms are at
 * the lowest bit of results. zero: true if the block also has the zero product with the largest
 * exponent.  Returns false if the sum fails. */
static bool ask_tiny(struct reveal *r, const limber_unit *u, int e, bool zero, bool *kept)
{
    const struct tiny_test t = tiny_test_of((limber_rounding)u->acc.rounding);
    const double value[] = { t.whole, t.half, 0, 0 };
    int64_t at[4];
    double sum;

    limber_reveal_clear(r);
    for (int i = 0; i < 4 && i < u->block; i++) {
        at[i] = limber_unit_index_of_position(u, r->sum->k, i);
        if (value[i] != 0)
            limber_reveal_power(r, at[i], ilogb(value[i]) + r->bottom);
    }
    limber_reveal_power(r, at[t.half != 0 ? 2 : 1], e);
    r->a[at[t.half != 0 ? 2 : 1]] *= t.sign;
    if (zero)
        put_zero(r, at[t.half != 0 ? 3 : 2]);
    if (!limber_reveal_ask(r, &sum))
        return false;
    *kept = ldexp(sum, -r->bottom) == t.kept;
    return true;
}

/* Asks for the sum of a product 2^e and the zero product with the largest exponent.  Sets *alone to
 * true if the sum is 2^e, so the zero took no part in the alignment.  Returns false if the sum
 * fails. */
static bool ask_beside_zero(struct reveal *r, const limber_unit *u, int e, bool *alone)
{
    double sum;

    limber_reveal_clear(r);
    limber_reveal_power(r, limber_unit_index_of_position(u, r->sum->k, 0), e);
    put_zero(r, limber_unit_index_of_position(u, r->sum->k, 1));
    if (!limber_reveal_ask(r, &sum))
        return false;
    *alone = sum == ldexp(1, e);
    return true;
}

/* Finds `floor` and `zeros` of a unit with fused blocks: how it aligns very small terms and
 * zeros.  False if a sum fails. */
bool limber_reveal_alignment(struct reveal *r, limber_unit *u)
{
    const int low = 2 * limber_format_emin(r->sum->operand),
              grid = limber_format_emin(u->acc.format);
    const struct tiny_test t = tiny_test_of((limber_rounding)u->acc.rounding);
    const int terms = t.half != 0 ? 4 : 3, largest = r->bottom + ilogb(t.whole);
    const int cut = exponent_of_zero(r) - u->frac - 1;
    /* the exponent of ordinary zeros: of acc at the start, and of products 0 x 0 */
    const int zeros = 2 * (1 - r->sum->operand.bias) > -126 ? 2 * (1 - r->sum->operand.bias) : -126;
    const bool ends = u->out.format.kind || u->group || u->split > 1 ||
                      u->acc.format.flags & LIMBER_FORMAT_NO_SUBNORMAL;
    int least = largest - u->frac > low ? largest - u->frac : low;
    bool kept = true, zeroed = true;

    if (u->block > r->sum->k)
        return true;
    if (cut >= r->bottom) {
        if (!ask_beside_zero(r, u, cut, &zeroed))
            return false;
        u->zeros = !zeroed;
    }
    if (u->late || ends || u->block < terms)
        return true;
    /* smaller terms are cut off, although sums could hold them */
    if (r->bottom > (grid > low ? grid : low)) {
        u->floor = r->bottom + u->frac;
    } else if (grid > low && least < grid - 1) {
        if (!ask_tiny(r, u, least, false, &kept))
            return false;
        for (; !kept && least < grid - 1; least++)
            if (!ask_tiny(r, u, least + 1, false, &kept))
                return false;
        if (least > low && least + u->frac > largest)
            u->floor = least + u->frac;
        if (kept && least < exponent_of_zero(r) - u->frac && !ask_tiny(r, u, least, true, &zeroed))
            return false;
        u->zeros |= !zeroed;
    }
    if (u->zeros && u->floor <= zeros)
        u->floor = LIMBER_NO_FLOOR;
    return true;
}

/* ---- scales of blocks of operands ------------------------------------------------------------ */

/* Sets product p to a b, and asks for the sum.  Returns false if the sum fails. */
static bool ask_two(struct reveal *r, int64_t p, double a, double b, double *sum)
{
    r->a[p] = a;
    r->b[p] = b;
    return limber_reveal_ask(r, sum);
}

/* Finds how many elements share a scale: elements in the block of a very large one vanish.  Returns
 * false if a sum fails. */
static bool find_scale_block(struct reveal *r, limber_unit *u)
{
    const limber_format f = u->a.format;
    const int far = limber_format_emax(f) - limber_format_emin(f) + 4;
    double sum;

    for (u->scale_block = 1; u->scale_block < r->sum->k; u->scale_block++) {
        limber_reveal_clear(r);
        r->a[0] = 1;
        if (!ask_two(r, u->scale_block, ldexp(1, -far), ldexp(1, far), &sum))
            return false;
        if (sum == 1)
            return true;
    }
    /* all k elements share a scale: assumes blocks of 32, or of the next power of two */
    for (u->scale_block = 32; u->scale_block < r->sum->k; u->scale_block *= 2)
        ;
    return true;
}

/* Finds the rule for scales, and whether elements saturate: compares the results for numbers near
 * the end of a binade with those of every combination.  Returns false if a sum fails. */
static bool find_scale_rule(struct reveal *r, limber_unit *u, bool *found)
{
    const double number[] = { 1.0625, 1.53125, 1.6, 1.7, 1.75, 1.8, 1.875, 1.9, 1.9375, 1.99 };
    const int least = limber_format_emin(u->a.format) - limber_format_emax(u->a.format);
    const int beside = u->scale_block > 1 ? 1 : 0; /* index of a small number with the same scale */
    double sum[COUNT(number)], small[COUNT(number)] = { 0 };

    for (size_t i = 0; i < COUNT(number); i++) {
        limber_reveal_clear(r);
        if (!ask_two(r, 0, number[i], 1, &sum[i]))
            return false;
        r->b[0] = 0;
        if (beside && !ask_two(r, 1, ldexp(1, least), ldexp(1, -least), &small[i]))
            return false;
    }
    *found = false;
    for (int way = 0; way < 6 && !*found; way++) {
        bool same = true;

        u->scale_rule = (enum limber_scale_rule)(way % 3);
        if (way == 3)
            u->a.format.flags |= LIMBER_FORMAT_SATURATE;
        for (size_t i = 0; i < COUNT(number); i++) {
            const double scale = limber_unit_scale(u, &u->a, number[i]);
            struct loaded x, y;

            limber_unit_load_one(&u->a, number[i], scale, 0, &x);
            limber_unit_load_one(&u->a, ldexp(1, least), scale, 0, &y);
            same = same && (x.value == sum[i] || (isnan(x.value) && isnan(sum[i]))) &&
                   (!beside || !isfinite(sum[i]) || ldexp(y.value, -least) == small[i]);
        }
        *found = same;
    }
    u->b = u->a;
    return true;
}

/* Finds by probes whether operands have block scales, and by which rule; stores both in *u.
 * Returns false if the tested unit cannot compute a sum. */
bool limber_reveal_scale(struct reveal *r, limber_unit *u)
{
    const limber_format f = r->sum->operand;
    struct diag ignored = { 0 };
    limber_unit scaled = *u;
    bool found;
    double sum;

    if (f.size > 1) /* only formats of one byte have block scales */
        return true;
    limber_reveal_clear(r);
    if (!ask_two(r, 0, 0x1p50, 0x1p-50, &sum))
        return false;
    scaled.scale = LIMBER_SCALE_E8M0;
    scaled.a = scaled.b = (limber_step){ f, LIMBER_ROUND_NEAREST, 0 };
    scaled.scale_block = 1;
    if (sum != 1 || !limber_unit_verify(&scaled, &ignored))
        return true;
    if (!find_scale_block(r, &scaled) || !find_scale_rule(r, &scaled, &found))
        return false;
    if (found) /* otherwise operands just have more range than their format */
        *u = scaled;
    return true;
}

/* ---- rounding at random: which bits decide --------------------------------------------------- */

/* Asks for one product with many significant bits, at several positions.  Sets *varies to true if
 * the results differ. */
static bool ask_varying(struct reveal *r, bool *varies)
{
    const int bits = r->sum->operand.frac_bits;
    const double third = floor(ldexp(4, bits) / 3) / ldexp(1, bits);
    double first = 0, sum;

    for (int64_t p = 0; p < r->sum->k && p < 48 && !*varies; p++) {
        limber_reveal_clear(r);
        if (!ask_two(r, p, bits > 2 ? 1.25 : 1.5, third, &sum))
            return false;
        first = p ? first : sum;
        *varies = sum != first;
    }
    return true;
}

/* Finds the smallest number n such that 1 plus n sixteenths of its last place is rounded up.
 * *sixteenths becomes n, 16 if there is no such n, or 0 if a result is neither 1 nor the next
 * number.  Returns false if a sum fails. */
static bool find_threshold(struct reveal *r, int64_t p, int *sixteenths)
{
    const double last = ldexp(1, -r->bits);

    for (*sixteenths = 1; *sixteenths < 16; ++*sixteenths) {
        const int exponent = r->unit - r->bits - 4, half = exponent / 2;
        double sum;

        limber_reveal_clear(r);
        limber_reveal_power(r, 0, r->unit);
        if (!ask_two(r, p, ldexp(*sixteenths, half), ldexp(1, exponent - half), &sum))
            return false;
        sum = ldexp(sum, -r->unit);
        if (sum == 1)
            continue;
        *sixteenths = sum == 1 + last ? *sixteenths : 0;
        break;
    }
    return true;
}

/* Detects stochastic rounding.  A deterministic rounding has one of the thresholds in `fixed`,
 * which are in sixteenths of the last place: the first one, one half or the next one, or a power of
 * two at which a block cuts off terms.  Returns false if a sum fails. */
bool limber_reveal_random(struct reveal *r, bool *random)
{
    static const int fixed =
        1 << 0 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 16;

    *random = false;
    if (!ask_varying(r, random))
        return false;
    if (r->unit - r->bits - 4 < r->bottom || r->sum->operand.frac_bits < 3)
        return true;
    for (int64_t p = 1; p < r->sum->k && p <= 12 && !*random; p++) {
        int sixteenths;

        if (!find_threshold(r, p, &sixteenths))
            return false;
        *random = !(fixed >> sixteenths & 1);
    }
    return true;
}
