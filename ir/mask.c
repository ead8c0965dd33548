/* SPDX-License-Identifier: BSD-3-Clause
 * Masks: what a scan found of an operand.  Their classes: the numbers on which a kernel may depend,
 * rounded outwards, so that similar data share kernels. */
#include "ir/ir.h"
#include "ir/view.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Frees the mask's arrays. */
void limber_mask_clear(struct mask *m)
{
    free(m->line_emax);
    free(m->line_special);
    free(m->tile);
    free(m->block);
    memset(m, 0, sizeof *m);
}

/* Gives each line (row of A or column of B) and block of lines the exponents and the lowest bit
 * of the complete operand.  Returns false, and changes nothing, if these are unknown, differ too
 * much, or there are NaN or infinities. */
bool limber_mask_make_uniform(struct mask *m)
{
    /* in binades; if an image has a larger range of exponents, its patches (the lines of the im2col
     * matrix) usually need far fewer bits than the complete image */
    enum { WIDE = 48 };
    struct block_mask block = { .flags = TILE_zero };

    if (!m->scanned || !m->has_low || m->special || (!m->zero && m->emax - m->emin > WIDE))
        return false;
    if (!m->zero) {
        m->spread = m->emax - m->emin;
        m->width = m->emax - m->low + 1;
        block = (struct block_mask){ .emin = m->emin,
                                     .emax = m->emax,
                                     .spread = m->spread,
                                     .width = m->width,
                                     .sig = m->sig,
                                     .flags = m->negative ? TILE_negative : 0,
                                     .low = m->low };
    }
    for (int64_t i = 0; i < m->lines; i++)
        m->line_emax[i] = m->zero ? INT32_MIN : m->emax;
    for (int64_t i = 0; i < m->tile_rows; i++)
        m->block[i] = block;
    return true;
}

/* Returns the exponent of the operand's lowest set bit; INT_MIN if it is not known, INT_MAX if
 * all elements are zero. */
int limber_mask_low(const struct mask *m)
{
    int low = INT_MAX;

    if (m->scanned && m->has_low)
        return m->zero ? INT_MAX : m->low;
    if (!m->scanned || !m->tile)
        return INT_MIN;
    for (int64_t i = 0; i < m->tile_rows * m->tile_cols; i++)
        if (!(m->tile[i].flags & TILE_zero) && m->tile[i].low < low)
            low = m->tile[i].low;
    return low;
}

/* ---- masks of parts of an operand ------------------------------------------------------------ */

_Static_assert((int)LIMBER_TILE == (int)LIMBER_BLOCK, "blocks are rows of tiles");

/* Merges what the scan found in a block of lines (b) into what it found in the operand (m). */
static void combine_block(struct mask *m, const struct block_mask *b)
{
    m->special = m->special || b->flags & TILE_special;
    if (b->flags & TILE_zero)
        return;
    m->emin = m->zero || b->emin < m->emin ? b->emin : m->emin;
    m->emax = m->zero || b->emax > m->emax ? b->emax : m->emax;
    m->spread = b->spread > m->spread ? b->spread : m->spread;
    m->width = b->width > m->width ? b->width : m->width;
    m->sig = b->sig > m->sig ? b->sig : m->sig;
    m->negative = m->negative || b->flags & TILE_negative;
    m->zero = false;
}

/* Returns the number of lines of a block; the last block may have fewer than LIMBER_BLOCK. */
static int64_t block_line_count(const struct mask *m, int32_t block)
{
    int64_t left = m->lines - (int64_t)block * LIMBER_BLOCK;

    return left < LIMBER_BLOCK ? left : LIMBER_BLOCK;
}

/* Returns what the scan found in a block, merged from those of its tiles that the tile subset
 * selects. */
static struct block_mask visible_block(const struct mask *m, const struct tile_subset *x,
                                       int32_t block)
{
    struct block_mask b = { .flags = TILE_zero };
    int64_t span = ((int64_t)1 << x->shift) / LIMBER_TILE;
    int low = INT32_MAX;

    if (!x->tile)
        return m->block[block];
    for (int64_t c = 0; c < m->tile_cols; c++) {
        const struct tile_mask *t = &m->tile[block * m->tile_cols + c];
        bool first = b.flags & TILE_zero;

        if (!(x->keep >> x->tile[block * x->tiles + c / span] & 1))
            continue;
        b.flags |= t->flags & (TILE_special | TILE_negative);
        if (t->flags & TILE_zero)
            continue;
        b.emin = first || t->emin < b.emin ? t->emin : b.emin;
        b.emax = first || t->emax > b.emax ? t->emax : b.emax;
        b.sig = t->sig > b.sig ? t->sig : b.sig;
        b.flags &= (uint8_t)~TILE_zero;
        low = t->low < low ? t->low : low;
    }
    if (b.flags & TILE_zero)
        return b;
    b.spread = b.emax - b.emin;
    b.width = b.emax - low + 1;
    return b;
}

/* Makes *out, the mask (exponents and bits that a scan found) of the part of an operand that a tile
 * subset selects: `count` of m's blocks, without tiles. */
void limber_mask_join(struct mask *out, const struct mask *m, const struct tile_subset *x,
                      int64_t count)
{
    *out = (struct mask){ .scanned = true, .zero = true, .length = m->length, .tile_rows = count };
    for (int64_t i = 0; i < count; i++) {
        struct block_mask b = visible_block(m, x, x->block[i]);

        combine_block(out, &b);
        out->lines += block_line_count(m, x->block[i]);
    }
}

/* Makes the mask (what a scan found) of a subset of blocks and tiles, with arrays that have an
 * entry for each line.  Returns false if memory runs out. */
bool limber_mask_subset(struct mask *out, const struct mask *m, const struct tile_subset *x,
                        int64_t count)
{
    int64_t at = 0;

    limber_mask_join(out, m, x, count);
    out->line_emax = malloc((size_t)(out->lines + 1) * sizeof *out->line_emax);
    out->line_special = calloc((size_t)out->lines + 1, 1);
    if (!out->line_emax || !out->line_special) {
        limber_mask_clear(out);
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t from = (int64_t)x->block[i] * LIMBER_BLOCK,
                lines = block_line_count(m, x->block[i]);
        struct block_mask b = visible_block(m, x, x->block[i]);

        for (int64_t l = 0; l < lines; l++, at++) {
            out->line_emax[at] = !x->tile            ? m->line_emax[from + l] :
                                 b.flags & TILE_zero ? INT32_MIN :
                                                       b.emax;
            out->line_special[at] = m->line_special[from + l];
        }
    }
    return true;
}

/* ---- classes of masks ------------------------------------------------------------------------ */

/* Returns the smallest of `steps` that is at least x; beyond the last one, x rounded up to a
 * multiple. */
static int64_t round_up_to(const int *steps, size_t n, int64_t x, int64_t multiple)
{
    for (size_t i = 0; i < n; i++)
        if (x <= steps[i])
            return steps[i];
    return (x + multiple - 1) / multiple * multiple;
}

/* The class of all numbers of bits above the last step.  It is used with coarse classes, for data
 * whose own kernel would cost more than it saves. */
enum { ANY = 1 << 16 };

/* Returns the smallest of `steps` that is at least x; ANY beyond the last one. */
static int64_t round_up_or_any(const int *steps, size_t n, int64_t x)
{
    return x > steps[n - 1] ? ANY : round_up_to(steps, n, x, 1);
}

/* Rounds the number of bits of a line (row of A or column of B) up to one of a few values, its
 * class, so that similar data share kernels.  coarse: use fewer classes, for small products.  all:
 * use also the coarse classes above 128 bits. */
static int64_t width_class(int64_t x, bool coarse, bool all)
{
    static const int steps[] = { 0, 1, 7, 8, 11, 15, 16, 22, 24, 31, 32, 40, 48, 53 };
    /* 164 bits: with all moduli, CRT can hold sums of 2^12 products of such operands */
    static const int few[] = { 0, 8, 24, 53, 80, 112, 128, 164, 165 };

    /* Without `all` there are no coarse classes above 128 bits: wider lines are rounded up to
     * ANY.  They are computed by the scheme `accumulator`, which is hardly slower there and
     * needs no kernel of its own. */
    return coarse ? round_up_or_any(few, COUNT(few) - (all ? 0 : 3), x) :
                    round_up_to(steps, COUNT(steps), x, 4);
}

/* Rounds the difference of the largest and smallest exponent of a line up to one of a few values,
 * its class.  coarse: use fewer classes: 28 is the difference that Hi/Lo limbs can represent in
 * FP16, and 99 the one that they can represent in BF16 and TF32. */
static int64_t spread_class(int64_t x, bool coarse)
{
    static const int few[] = { 0, 8, 16, 28, 64, 99, 128, 256 };

    return coarse ? round_up_or_any(few, COUNT(few), x) : (x + 3) / 4 * 4;
}

/* Rounds the significant bits of an element up to one of a few values, their class.  coarse: use
 * fewer classes, for small products. */
static int64_t sig_class(int64_t x, bool coarse)
{
    static const int steps[] = { 0, 8, 11, 16, 22, 24, 53, 64, 113, 128 };
    static const int few[] = { 0, 8, 24, 53, 64, 113, 128 };

    return coarse ? round_up_or_any(few, COUNT(few), x) : round_up_to(steps, COUNT(steps), x, 64);
}

/* Returns x rounded down to a multiple. x may be negative. */
static int64_t round_down_to(int64_t x, int64_t multiple)
{
    return (x >= 0 ? x : x - multiple + 1) / multiple * multiple;
}

/* Rounds the range of exponents that a scan found to a class, in *to.  Kernels get exponents as
 * arguments, so the class only tells which formats can hold the elements and their products:
 * binary16 (from 2^-2 on the low limb needs no scale), binary32 with or without room for products,
 * binary64 with room for products, or none of them.  If a scheme is named, a further class has the
 * numbers of binary32 whose BF16 or TF32 limbs need no scale. */
static void range_class(const struct mask *m, limber_format f, unsigned use, struct data_class *to)
{
    static const int range[][2] = { { -2, 14 },    { -14, 14 },   { -30, 30 },  { -60, 39 },
                                    { -110, 126 }, { -114, 126 }, { -400, 400 } };
    enum { BF16 = 4, TF32 = 5 };
    const bool limbs = use & CLASS_named && limber_format_embeds(f, LIMBER_F32);
    int64_t low = limber_format_emin(f), high = limber_format_emax(f);

    if (use & CLASS_ranges && (m->emin < -14 || m->emax > 14)) {
        low = round_down_to(m->emin, 16);
        high = -round_down_to(-(int64_t)m->emax, 16);
        for (int i = TF32; limbs && i >= BF16; i--)
            if (m->emin >= range[i][0] && m->emax <= range[i][1]) {
                low = low < range[i][0] ? range[i][0] : low;
                high = high > range[i][1] ? range[i][1] : high;
            }
    } else if (!(use & CLASS_widths) || use & CLASS_ranges) {
        for (size_t i = COUNT(range); i-- > 0;)
            if ((limbs || (i != BF16 && i != TF32)) && m->emin >= range[i][0] &&
                m->emax <= range[i][1]) {
                low = range[i][0];
                high = range[i][1];
            }
    }
    limber_class_set(to, ATTR_emin, low);
    limber_class_set(to, ATTR_emax, high);
}

/* Sets the attribute `reach` of a class: the bits of scaled integers if all lines share one scale,
 * rounded up to one of a few values.  Does not set it if the bits are many. */
static void reach_class(const struct mask *m, struct data_class *to)
{
    static const int steps[] = { 7, 8, 15, 16, 23, 24 };
    int low = limber_mask_low(m);
    int64_t reach = (int64_t)m->emax - low + 1;

    if (low != INT_MIN && !m->zero && reach <= steps[COUNT(steps) - 1])
        limber_class_set(to, ATTR_reach, round_up_to(steps, COUNT(steps), reach, 1));
}

/* Rounds the results of a scan to the class that decides on the plan. */
void limber_mask_class(const struct mask *m, limber_format f, unsigned use, struct data_class *to)
{
    bool integer = f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
    bool coarse = use & CLASS_coarse && !integer;
    bool all = use & CLASS_named || limber_format_sig(f) > 64;
    int64_t width = width_class(m->width, coarse, all), spread = spread_class(m->spread, coarse);

    *to = (struct data_class){ .has = 0 };
    if (!m->scanned)
        return;
    /* integers are not scaled, so the range of their exponents follows from their number of bits */
    if (integer || m->zero) {
        limber_class_set(to, ATTR_emin, 0);
        limber_class_set(to, ATTR_emax, m->zero ? 0 : width_class(m->emax + 1, false, false) - 1);
    } else {
        range_class(m, f, use, to);
    }
    if (use & CLASS_widths && !integer)
        spread = width;
    limber_class_set(to, ATTR_spread, m->zero ? 0 : spread);
    limber_class_set(to, ATTR_width, m->zero ? 0 : width);
    limber_class_set(to, ATTR_sig, m->zero ? 0 : sig_class(m->sig, coarse));
    limber_class_set(to, ATTR_sign, m->negative ? 0 : 1);
    limber_class_set(to, ATTR_special, m->special);
    if (use & CLASS_reach && !integer)
        reach_class(m, to);
}

/* Writes a class (rounded results of a scan) into the attributes of an arg node. */
void limber_class_write(const struct data_class *c, struct node *arg)
{
    for (int i = 0; i < DATA_ATTRS; i++)
        if (c->has >> i & 1)
            limber_node_set(arg, (enum attr)(DATA_FIRST + i), c->value[i]);
}
