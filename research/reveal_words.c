/* SPDX-License-Identifier: BSD-3-Clause
 * Describes a unit that sums in the order found (reveal_tree.c): a few more sums reveal its formats
 * and roundings. */
#include "ir/unit/num.h"
#include "research/reveal.h"

#include <math.h>
#include <stdio.h>

/* ---- formats and roundings of the steps of a unit -------------------------------------------- */

/* Up to four terms that are added one after another by one kind of addition of the unit (acc,
 * outer or total), so that each of these additions is rounded in the same way. */
struct level {
    int32_t term[4];
    int terms;
};

/* Returns the terms at positions 0, step, 2 step, ... below `to`. */
static struct level level_at(const struct reveal *r, const limber_unit *u, int64_t step, int64_t to)
{
    struct level l = { .terms = 0 };

    for (int64_t p = 0; p < to && l.terms < (int)COUNT(l.term); p += step)
        l.term[l.terms++] = (int32_t)limber_unit_index_of_position(u, r->sum->k, p);
    return l;
}

/* Returns terms of the first group, which the accumulator adds. */
static struct level acc_level(const struct reveal *r, const limber_unit *u)
{
    const int64_t k = r->sum->k, part = limber_reveal_part(r, u);
    const int64_t end = u->group ? limber_unit_group_end(u, 0, part < k ? part : k) : part;
    struct level l = level_at(r, u, u->lanes ? u->lanes : u->block,
                              u->lanes ? limber_unit_steps_end(u, 0, end) : end);

    return l.terms > 1 ? l : level_at(r, u, 1, end);
}

/* Returns the first terms of the groups, which the outer sum adds. */
static struct level outer_level(const struct reveal *r, const limber_unit *u)
{
    const int64_t k = r->sum->k, part = limber_reveal_part(r, u);
    struct level l = { .terms = 0 };

    for (int64_t p = 0; p < part && p < k && l.terms < (int)COUNT(l.term);
         p = limber_unit_group_end(u, p, part < k ? part : k))
        l.term[l.terms++] = (int32_t)limber_unit_index_of_position(u, k, p);
    return l;
}

/* Sets a product to value 2^unit.  If the value is not a power of two, one factor gets it. */
static void put_value(const struct reveal *r, int32_t term, double value)
{
    const int exponent = ilogb(value) + r->unit, half = exponent / 2;

    limber_reveal_power(r, term, exponent);
    if (value != ldexp(1, ilogb(value))) {
        r->a[term] = ldexp(value, half - ilogb(value));
        r->b[term] = ldexp(1, exponent - half);
    }
}

/* Asks for the sum of `count` values, put into the terms of a level, in units of 2^r->unit. less:
 * another term subtracts this number again, so that a rounding of the final result does not hide
 * bits that sums keep.  Returns false if the sum fails. */
static bool ask_sum(struct reveal *r, const struct level *l, const double *value, int count,
                    double less, double *sum)
{
    const bool cancels = less != 0 && l->terms > count;

    limber_reveal_clear(r);
    for (int i = 0; i < count; i++)
        put_value(r, l->term[i], value[i]);
    if (cancels)
        put_value(r, l->term[count], -less);
    if (!limber_reveal_ask(r, sum))
        return false;
    *sum = ldexp(*sum, -r->unit) + (cancels ? less : 0);
    return true;
}

/* A rounding to `bits` fraction bits, as tests have found it. */
struct found {
    int bits;
    limber_rounding rounding;
};

/* How a value near 1 reaches the unit: as a sum of terms, from which a further term subtracts 1
 * again so that the final rounding loses nothing (BY_SUM); as such a sum without this term
 * (BY_RESULT); or as one factor, which is multiplied by 1 (BY_FACTOR). */
enum way { BY_SUM, BY_RESULT, BY_FACTOR };

/* Asks how sign (1 + more + rest) is rounded; more is 0 or the last place.  *asked becomes false if
 * the level has too few terms.  Returns false if the sum fails. */
static bool ask_rounded(struct reveal *r, const struct level *l, enum way way, double more,
                        double rest, double sign, double *sum, bool *asked)
{
    const double value[] = { sign, sign * more, sign * rest };
    const double factor[] = { sign * (1 + more + rest) };
    const double two[] = { sign, sign * rest };

    *asked = true;
    if (way == BY_FACTOR)
        return ask_sum(r, l, factor, 1, 0, sum);
    if (more != 0 && l->terms < 3) {
        *asked = false;
        return true;
    }
    return ask_sum(r, l, more != 0 ? value : two, more != 0 ? 3 : 2, way == BY_SUM ? sign : 0, sum);
}

/* Finds the largest number of bits, at most `most`, such that 1 + 2^-bits is returned unchanged.
 * Returns false if a sum fails. */
static bool find_kept(struct reveal *r, const struct level *l, enum way way, int most, int *bits)
{
    int good = 0, bad = most + 1;

    while (bad - good > 1) {
        const int guess = r->bits + (good == r->bits);
        const int middle = guess > good && guess < bad ? guess : (good + bad) / 2;
        bool asked;
        double sum;

        if (!ask_rounded(r, l, way, 0, ldexp(1, -middle), 1, &sum, &asked))
            return false;
        *(sum == 1 + ldexp(1, -middle) ? &good : &bad) = middle;
    }
    *bits = good;
    return true;
}

/* Finds how results are rounded to f->bits bits, by adding 1/4, 1/2 and 3/4 of the last place to 1,
 * whose last bit is even, and to 1 + last, whose last bit is odd.  Returns false if a sum fails. */
static bool find_rounding(struct reveal *r, const struct level *l, enum way way, struct found *f)
{
    const double last = ldexp(1, -f->bits), quarter = last / 4;
    double sum = 0;
    bool asked;

    f->rounding = LIMBER_ROUND_NEAREST;
    if (r->unit - f->bits - 2 < r->bottom)
        return true;
    if (!ask_rounded(r, l, way, 0, quarter, 1, &sum, &asked))
        return false;
    if (sum > 1) {
        if (!ask_rounded(r, l, way, last, quarter, 1, &sum, &asked))
            return false;
        f->rounding = asked && sum == 1 + last ? LIMBER_ROUND_ODD : LIMBER_ROUND_UP;
        return true;
    }
    if (!ask_rounded(r, l, way, 0, 2 * quarter, 1, &sum, &asked))
        return false;
    /* rounding up and to odd are still possible: 1/4 may have been cut off before the addition */
    if (sum > 1) {
        f->rounding = LIMBER_ROUND_AWAY;
        if (!ask_rounded(r, l, way, last, 2 * quarter, 1, &sum, &asked))
            return false;
        if (asked && sum == 1 + last)
            f->rounding = LIMBER_ROUND_ODD;
        else if (!ask_rounded(r, l, way, 0, 2 * quarter, -1, &sum, &asked))
            return false;
        else if (sum == -1)
            f->rounding = LIMBER_ROUND_UP;
        return true;
    }
    if (!ask_rounded(r, l, way, last, 2 * quarter, 1, &sum, &asked))
        return false;
    if ((asked && sum > 1 + last))
        return true;
    if (!ask_rounded(r, l, way, 0, 3 * quarter, 1, &sum, &asked))
        return false;
    if (sum > 1)
        return true;
    if (!ask_rounded(r, l, way, 0, 2 * quarter, -1, &sum, &asked))
        return false;
    f->rounding = sum < -1 ? LIMBER_ROUND_DOWN : LIMBER_ROUND_ZERO;
    return true;
}

/* Returns the named format with `bits` fraction bits and the exponent range that results have; if
 * there is none, a format (1,e,bits).  top: the largest exponent that a result had. */
static limber_format format_of(const struct reveal *r, int bits, int top)
{
    static const char *const names[] = { "f64", "f32", "tf32", "bf16", "f16", "e4m3", "e5m2" };
    const limber_format result = r->sum->result;
    /* results overflow at smaller numbers than their format does */
    const bool ends = top < r->high;
    limber_format f = { 0 };
    char name[24];
    int exp_bits = 2;

    if (!ends && bits == result.frac_bits)
        return result;
    for (size_t i = 0; i < COUNT(names); i++)
        if (limber_format_named(names[i], &f) == LIMBER_STATUS_OK && f.frac_bits == bits &&
            (ends ? limber_format_emax(f) == top : f.exp_bits == result.exp_bits))
            return f;
    while (exp_bits < 8 && (1 << (exp_bits - 1)) - 1 < top)
        exp_bits++;
    snprintf(name, sizeof name, "(1,%d,%d)", ends ? exp_bits : result.exp_bits, bits);
    if (limber_format_named(name, &f) != LIMBER_STATUS_OK)
        f.kind = LIMBER_KIND_NONE;
    return f;
}

/* Finds what an overflow becomes, by adding two of the largest powers of two.  Returns false if a
 * sum fails. */
static bool find_overflow(struct reveal *r, const struct level *l, limber_step *s)
{
    const bool nearest = s->rounding == LIMBER_ROUND_NEAREST || s->rounding == LIMBER_ROUND_AWAY;
    double sum;

    if (r->top < limber_format_emax(s->format) || l->terms < 2)
        return true;
    limber_reveal_clear(r);
    limber_reveal_power(r, l->term[0], r->top);
    limber_reveal_power(r, l->term[1], r->top);
    if (!limber_reveal_ask(r, &sum))
        return false;
    if (isinf(sum) && !nearest && s->rounding != LIMBER_ROUND_UP)
        s->overflow = LIMBER_OVERFLOW_INFINITY;
    if (isfinite(sum) && (nearest || s->rounding == LIMBER_ROUND_UP))
        s->format.flags |= LIMBER_FORMAT_SATURATE;
    return true;
}

/* Returns true if no subnormal number of f is returned, although operands and results could hold
 * one. */
static bool is_flushed(const struct reveal *r, limber_format f)
{
    return f.kind && r->low < 1 - f.bias && r->bottom == 1 - f.bias;
}

/* Finds whether sums of a level may exceed the largest result (*wider): then 2^top + 2^top - 2^top
 * is exact.  Returns false if the sum fails. */
static bool find_wider(struct reveal *r, const struct level *l, bool *wider)
{
    double sum;

    *wider = false;
    if (l->terms < 3 || r->top == r->high)
        return true;
    limber_reveal_clear(r);
    for (int i = 0; i < 3; i++)
        limber_reveal_power(r, l->term[i], r->top);
    r->a[l->term[2]] *= -1;
    if (!limber_reveal_ask(r, &sum))
        return false;
    *wider = sum == ldexp(1, r->top);
    return true;
}

/* Finds format and rounding of a level's additions.  Returns false if a sum fails. */
static bool find_step(struct reveal *r, const struct level *l, limber_step *s)
{
    const int span = r->unit - r->bottom;
    struct found f = { 0, LIMBER_ROUND_NEAREST };
    double sum;
    bool wider;

    if (l->terms < 2)
        return true;
    if (!find_kept(r, l, BY_SUM, span < 52 ? span : 52, &f.bits) ||
        !find_rounding(r, l, BY_SUM, &f) || !find_wider(r, l, &wider))
        return false;
    *s = (limber_step){ format_of(r, f.bits, wider ? r->high : r->top), (uint8_t)f.rounding, 0 };
    /* the additions or the products flush subnormals: find out which */
    if (is_flushed(r, s->format)) {
        const double value[] = { 1.5, -1 };

        limber_reveal_clear(r);
        for (int i = 0; i < 2; i++) {
            limber_reveal_power(r, l->term[i], r->bottom);
            r->a[l->term[i]] *= value[i];
        }
        if (!limber_reveal_ask(r, &sum))
            return false;
        if (sum == 0)
            s->format.flags |= LIMBER_FORMAT_NO_SUBNORMAL;
    }
    return find_overflow(r, l, s);
}

/* Asks for factor[0] factor[1] - lead.  Sets *left to true if the difference is `rest`: then the
 * product kept its low bits.  Returns false if the sum fails. */
static bool ask_remainder(struct reveal *r, const struct level *l, double lead,
                          const double factor[2], double rest, bool *left)
{
    const int half = r->unit / 2;
    double sum;

    limber_reveal_clear(r);
    put_value(r, l->term[0], -lead);
    r->a[l->term[1]] = ldexp(factor[0], half);
    r->b[l->term[1]] = ldexp(factor[1], r->unit - half);
    if (!limber_reveal_ask(r, &sum))
        return false;
    *left = ldexp(sum, -r->unit) == rest;
    return true;
}

/* Finds whether bit 2^-bits of a number near 1 is kept (*kept): in a factor or, beyond the
 * operand's bits, in a product of two factors.  Returns false if a sum fails. */
static bool ask_bit(struct reveal *r, const struct level *l, int bits, int operand, bool *kept)
{
    const int i = bits <= operand ? bits : (bits + 1) / 2, j = bits - i;
    const double x = 1 + ldexp(1, -i), y = j ? 1 + ldexp(1, -j) : 1, last = ldexp(1, -bits);

    /* only the last bit is left in the result, so its rounding cannot change this bit */
    return ask_remainder(r, l, x * y - last, (double[2]){ x, y }, last, kept);
}

/* Finds by bisection the last fraction bit, at most `most`, that operands or products keep.
 * operand: fraction bits of an operand.  Returns false if a sum fails. */
static bool find_bit(struct reveal *r, const struct level *l, int most, int operand, int *bits)
{
    const int span = r->unit - r->bottom;
    int good = 0, bad = (most < span ? most : span) + 1;

    while (bad - good > 1) {
        const int middle = good ? (good + bad) / 2 : bad - 1;
        bool kept;

        if (!ask_bit(r, l, middle, operand, &kept))
            return false;
        *(kept ? &good : &bad) = middle;
        if (!kept && !good && bad > 2) { /* not all bits are kept: continue from the middle */
            if (!ask_bit(r, l, bad / 2, operand, &kept))
                return false;
            *(kept ? &good : &bad) = bad / 2;
        }
    }
    *bits = good;
    return true;
}

/* Finds whether the unit rounds operands to fewer bits than their format has, and whether it
 * flushes their subnormals.  Returns false if a sum fails. */
static bool find_operand(struct reveal *r, const struct level *l, limber_unit *u)
{
    const limber_format given = r->sum->operand;
    const int most = limber_format_emax(given);
    struct found f = { given.frac_bits, LIMBER_ROUND_NEAREST };
    limber_step *s = &u->a;
    bool kept = true;
    double sum;
    int least;

    *s = (limber_step){ given, LIMBER_ROUND_NEAREST, 0 };
    if (!find_bit(r, l, given.frac_bits, given.frac_bits, &f.bits))
        return false;
    if (f.bits < given.frac_bits && f.bits < u->acc.format.frac_bits &&
        r->unit - f.bits > r->bottom) {
        const double x = 1 + ldexp(1, -f.bits);

        /* `kept` becomes true if products keep more bits than the factor did, so that the factor
         * itself was rounded */
        if (2 * f.bits <= u->acc.format.frac_bits &&
            !ask_remainder(r, l, 1 + ldexp(2, -f.bits), (double[2]){ x, x }, ldexp(1, -2 * f.bits),
                           &kept))
            return false;
        if (kept) {
            bool wide = true;

            if (most > 20) {
                limber_reveal_clear(r);
                r->a[l->term[0]] = 0x1p20;
                r->b[l->term[0]] = 0x1p-20;
                if (!limber_reveal_ask(r, &sum))
                    return false;
                wide = sum == 1;
            }
            s->format = format_of(r, f.bits, wide ? r->high : 15);
            if (given.frac_bits >= f.bits + 2 && !find_rounding(r, l, BY_FACTOR, &f))
                return false;
            s->rounding = (uint8_t)f.rounding;
        }
    }
    least = limber_format_emin(s->format);
    if (least < 1 - s->format.bias && least + most >= r->bottom) {
        limber_reveal_clear(r);
        r->a[l->term[0]] = ldexp(1, least);
        r->b[l->term[0]] = ldexp(1, most < -least ? most : -least);
        if (!limber_reveal_ask(r, &sum))
            return false;
        if (sum == 0)
            s->format.flags |= LIMBER_FORMAT_NO_SUBNORMAL;
    }
    u->b = u->a;
    return true;
}

/* Finds whether subnormal products are flushed to zero before they are added.  Returns false if a
 * sum fails. */
static bool find_mul_flush(struct reveal *r, const struct level *l, limber_unit *u)
{
    const limber_step step = u->mul.format.kind ? u->mul : u->acc;
    double sum;

    if (!is_flushed(r, step.format))
        return true;
    limber_reveal_clear(r);
    limber_reveal_power(r, l->term[0], r->bottom);
    limber_reveal_power(r, l->term[1], r->bottom - 1);
    if (!limber_reveal_ask(r, &sum))
        return false;
    if (sum == ldexp(1, r->bottom)) {
        u->mul = step;
        u->mul.format.flags |= LIMBER_FORMAT_NO_SUBNORMAL;
    }
    return true;
}

/* Finds whether products are rounded before they are added, and to which format.  Returns false if
 * a sum fails. */
static bool find_mul(struct reveal *r, const struct level *l, limber_unit *u)
{
    const int operand = u->a.format.frac_bits, acc = u->acc.format.frac_bits;
    const int most = 2 * operand < acc ? 2 * operand : acc, half = acc / 2 + 1;
    const double x = 1 + ldexp(1, -half);
    struct found f = { 0, LIMBER_ROUND_NEAREST };
    bool fused = false;

    if (!find_bit(r, l, most, operand, &f.bits))
        return false;
    if (f.bits < most && r->unit - most >= r->bottom) {
        if (r->sum->operand.frac_bits >= f.bits + 2 && !find_rounding(r, l, BY_FACTOR, &f))
            return false;
        u->mul = (limber_step){ format_of(r, f.bits, r->top), (uint8_t)f.rounding, 0 };
        return find_mul_flush(r, l, u);
    }
    if (2 * operand <= acc || r->unit - 2 * half < r->bottom)
        return find_mul_flush(r, l, u); /* products are exact, but subnormal ones may be flushed */
    if (!ask_remainder(r, l, 1 + ldexp(2, -half), (double[2]){ x, x }, ldexp(1, -2 * half), &fused))
        return false;
    if (fused)
        return find_mul_flush(r, l, u);
    u->mul = u->acc;
    u->mul.format.flags &= (uint8_t)~LIMBER_FORMAT_NO_SUBNORMAL;
    return find_mul_flush(r, l, u);
}

/* Finds `frac`, the number of bits below the largest exponent that a fused block keeps: adds two
 * cancelling terms to a small third one, at a growing distance, until the sum loses the small term.
 * Returns false if a sum fails. */
static bool find_alignment(struct reveal *r, limber_unit *u)
{
    const int64_t k = r->sum->k;
    const int least = r->bottom > r->top - 41 ? r->bottom : r->top - 41, most = r->top - least;
    const int64_t at[] = { 0, u->block > 2 ? 1 : u->block, u->block > 2 ? 2 : u->block + 1 };
    int32_t term[3];

    for (int i = 0; i < 3; i++) {
        if (at[i] >= k)
            return true;
        term[i] = (int32_t)limber_unit_index_of_position(u, k, at[i]);
    }
    for (u->frac = 1; u->frac < most && u->frac < 40; u->frac++) {
        double sum;

        limber_reveal_clear(r);
        limber_reveal_power(r, term[0], least);
        limber_reveal_power(r, term[1], least + u->frac + 1);
        limber_reveal_power(r, term[2], least + u->frac + 1);
        r->a[term[2]] *= -1;
        if (!limber_reveal_ask(r, &sum))
            return false;
        if (sum != ldexp(1, least))
            break;
    }
    return true;
}

/* Finds whether sums keep more bits than the alignment of a block (`frac`): adds 2^j ones and one
 * last bit in the last block, since the alignment of a later block would cut the sum again.
 * Returns false if a sum fails. */
static bool find_more_bits(struct reveal *r, limber_unit *u)
{
    const int64_t k = r->sum->k, part = limber_reveal_part(r, u) < k ? limber_reveal_part(r, u) : k;
    const int64_t end = u->group ? limber_unit_group_end(u, 0, part) : part;
    const int64_t start = (end - 1) / u->block * u->block;
    const int most = r->sum->result.frac_bits;
    bool kept = true;
    int more = 0;

    if (u->acc.format.frac_bits != u->frac || u->frac >= most || r->unit - u->frac < r->bottom)
        return true;
    while (kept && (2 << more) < end - start && u->frac + more < most) {
        const int ones = 2 << more;
        double sum;

        limber_reveal_clear(r);
        for (int i = 0; i <= ones; i++)
            limber_reveal_power(r, limber_unit_index_of_position(u, k, start + i),
                                i < ones ? r->unit : r->unit - u->frac);
        if (!limber_reveal_ask(r, &sum))
            return false;
        kept = ldexp(sum, -r->unit) == ones + ldexp(1, -u->frac);
        more += kept;
    }
    if (more)
        u->acc.format = format_of(r, kept ? most : u->frac + more, r->top);
    return u->acc.format.kind;
}

/* Asks for value[0] in the first block, whose sum becomes acc, plus value[1] and value[2] in the
 * next block.  Each value is a power of two or 0, and is multiplied by 2^base.  Returns false if
 * the sum fails. */
static bool ask_next(struct reveal *r, const limber_unit *u, int base, const double value[3],
                     double *sum)
{
    limber_reveal_clear(r);
    for (int i = 0; i < 3; i++) {
        const int64_t at = limber_unit_index_of_position(u, r->sum->k, i ? u->block + i - 1 : 0);

        if (value[i] == 0)
            continue;
        limber_reveal_power(r, at, ilogb(value[i]) + base);
        r->a[at] *= value[i] < 0 ? -1 : 1;
    }
    if (!limber_reveal_ask(r, sum))
        return false;
    *sum = ldexp(*sum, -base);
    return true;
}

/* Finds whether acc is added after the products of a block (`late`): tests how far below acc a term
 * may be and still change the rounded sum.  If acc is aligned with the products, terms lose the
 * bits that are more than `frac` below it; if acc is added late, they keep more.  The tested sums
 * are half-way between two numbers of acc's format, plus a tiny positive term.  Returns false if a
 * sum fails. */
static bool find_late(struct reveal *r, limber_unit *u)
{
    const int tie = u->acc.format.frac_bits + 1, least = u->frac > tie ? u->frac : tie;
    const int span = r->unit - r->bottom, above = r->top - u->frac - 3;
    const int low = r->bottom > r->top - 60 ? r->bottom : r->top - 60;
    const double far = ldexp(1, u->frac + 3);
    double sum;
    int bits;

    if (u->acc.rounding != LIMBER_ROUND_NEAREST || r->sum->k < u->block + 2 ||
        (u->group && u->group < u->block + 2) || span < least + 2)
        return true;
    for (bits = least; bits < 40 && bits + 1 <= span; bits++) {
        if (!ask_next(r, u, r->unit, (double[3]){ 1, ldexp(1, -tie), ldexp(1, -bits - 1) }, &sum))
            return false;
        if (sum == 1)
            break;
    }
    if (bits == least)
        return true;
    u->late = bits;
    if (!ask_next(r, u, above < r->unit ? above : r->unit, (double[3]){ 0, far, -1 }, &sum))
        return false;
    u->halves = sum != far;
    for (int e = u->frac + 1; low + e <= r->top; e++) {
        if (!ask_next(r, u, low, (double[3]){ -1, ldexp(1, e), 0 }, &sum))
            return false;
        if (sum == ldexp(1, e)) {
            u->reach = e - 1;
            break;
        }
    }
    return true;
}

/* Finds whether the final result is rounded to fewer bits than sums keep.  Returns false if a sum
 * fails. */
static bool find_final_rounding(struct reveal *r, const struct level *l, limber_unit *u)
{
    const int sums = u->total.format.kind ? u->total.format.frac_bits :
                     u->outer.format.kind ? u->outer.format.frac_bits :
                                            u->acc.format.frac_bits;
    const int least = sums < u->acc.format.frac_bits ? sums : u->acc.format.frac_bits;
    struct found f = { 0, LIMBER_ROUND_NEAREST };

    if (l->terms < 3 || r->unit - least < r->bottom)
        return true;
    if (!find_kept(r, l, BY_RESULT, least, &f.bits))
        return false;
    if (f.bits == least)
        return true;
    if (!find_rounding(r, l, BY_RESULT, &f))
        return false;
    u->out = (limber_step){ format_of(r, f.bits, r->top), (uint8_t)f.rounding, 0 };
    return true;
}

/* Finds format and rounding of every operation of the unit, and its other properties.  Returns
 * false if a sum fails or a format is not found. */
static bool find_steps(struct reveal *r, limber_unit *u)
{
    const int64_t k = r->sum->k;
    const struct level acc = acc_level(r, u), next = level_at(r, u, 1, k < 2 ? k : 2);
    const struct level outer = outer_level(r, u);
    const struct level total = level_at(r, u, limber_unit_part(u, k), k);
    /* in a tree, neighbouring products are added to each other first */
    const struct level *products = u->tree ? &next : &acc;

    return find_step(r, &acc, &u->acc) && u->acc.format.kind &&
           (!u->group || (u->outer = u->acc, find_step(r, &outer, &u->outer))) &&
           (u->split == 1 ||
            (u->total = u->group ? u->outer : u->acc, find_step(r, &total, &u->total))) &&
           find_operand(r, products, u) &&
           (u->block > 1 && !u->tree ?
                find_alignment(r, u) && find_more_bits(r, u) && find_late(r, u) :
                find_mul(r, products, u)) &&
           find_final_rounding(r, &acc, u) &&
           (u->block == 1 || u->tree || limber_reveal_alignment(r, u)) && limber_reveal_scale(r, u);
}

/* Writes the description of a unit that adds in the order found, or nothing if there is none.
 * False after an error. */
bool limber_reveal_words(struct reveal *r, struct text *words)
{
    const limber_step any = { LIMBER_F32, LIMBER_ROUND_NEAREST, 0 };
    struct diag ignored = { 0 };
    bool random;
    limber_unit u;

    if (!limber_unit_read("in=bf16 acc=f32", &u, &ignored))
        return limber_fail(r->d, LIMBER_STATUS_INTERNAL, "%s", ignored.text);
    if (!limber_reveal_unit(r, &any, &u))
        return false;
    if (!u.block)
        return true;
    if (!find_steps(r, &u) || !limber_reveal_random(r, &random))
        return r->d->status == LIMBER_STATUS_OK;
    /* results cannot tell which random numbers a stochastic rounding uses */
    if (!random && limber_unit_verify(&u, &ignored))
        limber_unit_print(&u, words);
    return true;
}
