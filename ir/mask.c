/* SPDX-License-Identifier: BSD-3-Clause
 * What a scan found, and its class: the numbers that a kernel may depend on, rounded outwards so
 * that like data share kernels. */
#include "ir/ir.h"
#include "ir/view.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void limber_mask_clear(struct mask *m)
{
    free(m->line_emax);
    free(m->line_special);
    free(m->tile);
    free(m->block);
    memset(m, 0, sizeof *m);
}

bool limber_mask_level(struct mask *m)
{
    enum { WIDE = 48 }; /* binades */
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

/* ---- joining masks, and masks of parts ------------------------------------------------------- */

_Static_assert((int)LIMBER_TILE == (int)LIMBER_BLOCK, "blocks are rows of tiles");

/* Joins a block into the mask. */
static void take(struct mask *m, const struct block_mask *b)
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

/* Lines of a block; the last one may have fewer. */
static int64_t lines_of(const struct mask *m, int32_t block)
{
    int64_t left = m->lines - (int64_t)block * LIMBER_BLOCK;

    return left < LIMBER_BLOCK ? left : LIMBER_BLOCK;
}

/* The joined mask of a block's tiles that are shown. */
static struct block_mask shown(const struct mask *m, const struct tile_subset *x, int32_t block)
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

void limber_mask_join(struct mask *out, const struct mask *m, const struct tile_subset *x,
                      int64_t count)
{
    *out = (struct mask){ .scanned = true, .zero = true, .length = m->length, .tile_rows = count };
    for (int64_t i = 0; i < count; i++) {
        struct block_mask b = shown(m, x, x->block[i]);

        take(out, &b);
        out->lines += lines_of(m, x->block[i]);
    }
}

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
        int64_t from = (int64_t)x->block[i] * LIMBER_BLOCK, lines = lines_of(m, x->block[i]);
        struct block_mask b = shown(m, x, x->block[i]);

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

/* The smallest step that is at least x; beyond the last step, x rounded up to a multiple. */
static int64_t up_to(const int *steps, size_t n, int64_t x, int64_t multiple)
{
    for (size_t i = 0; i < n; i++)
        if (x <= steps[i])
            return steps[i];
    return (x + multiple - 1) / multiple * multiple;
}

/* Coarse classes, for data whose own kernel would cost more than it saves.  All widths beyond those
 * of scaled integers are the class ANY. */
enum { ANY = 1 << 16 };

/* The smallest step that is at least x; ANY beyond the last step. */
static int64_t one_of(const int *steps, size_t n, int64_t x)
{
    return x > steps[n - 1] ? ANY : up_to(steps, n, x, 1);
}

/* Rounds a line's bits up to a class. coarse: few classes, for small products. all: x is the
 * largest width of all lines together. */
static int64_t width_class(int64_t x, bool coarse, bool all)
{
    static const int steps[] = { 0, 1, 7, 8, 11, 15, 16, 22, 24, 31, 32, 40, 48, 53 };
    /* 164: all moduli hold 2^12 products of two such operands */
    static const int few[] = { 0, 8, 24, 53, 80, 112, 128, 164, 165 };

    /* A single line has no coarse classes above 128 bits: wider lines are the class ANY. They go to
     * the scheme `accumulator`, which is hardly slower there and needs no kernel. */
    return coarse ? one_of(few, COUNT(few) - (all ? 0 : 3), x) : up_to(steps, COUNT(steps), x, 4);
}

/* Rounds a line's spread of exponents (binades) up to a class, so that plans are shared.  Of the
 * coarse classes, 28 is what Hi/Lo limbs hold in FP16 and 99 what they hold in BF16 and TF32. */
static int64_t spread_class(int64_t x, bool coarse)
{
    static const int few[] = { 0, 8, 16, 28, 64, 99, 128, 256 };

    return coarse ? one_of(few, COUNT(few), x) : (x + 3) / 4 * 4;
}

/* The class of an element's significant bits. coarse: few classes, for small products. */
static int64_t sig_class(int64_t x, bool coarse)
{
    static const int steps[] = { 0, 8, 11, 16, 22, 24, 53, 64, 113, 128 };
    static const int few[] = { 0, 8, 24, 53, 64, 113, 128 };

    return coarse ? one_of(few, COUNT(few), x) : up_to(steps, COUNT(steps), x, 64);
}

static int64_t down_to(int64_t x, int64_t multiple)
{
    return (x >= 0 ? x : x - multiple + 1) / multiple * multiple;
}

/* Exponents are arguments of a kernel.  The class of ranges only says which units hold the elements
 * and their products: binary16 (from 2^-2 on its lo limb needs no scale), binary32 with and without
 * room for products, binary64 with room for products, anything. */
static void range_class(const struct mask *m, limber_format f, unsigned use, struct node *arg)
{
    static const int range[][2] = {
        { -2, 14 }, { -14, 14 }, { -30, 30 }, { -60, 39 }, { -400, 400 }
    };
    int64_t low = limber_format_emin(f), high = limber_format_emax(f);

    if (use & CLASS_ranges && (m->emin < -14 || m->emax > 14)) {
        low = down_to(m->emin, 16);
        high = -down_to(-(int64_t)m->emax, 16);
    } else if (!(use & CLASS_widths) || use & CLASS_ranges) {
        for (size_t i = COUNT(range); i-- > 0;)
            if (m->emin >= range[i][0] && m->emax <= range[i][1]) {
                low = range[i][0];
                high = range[i][1];
            }
    }
    limber_node_set(arg, ATTR_emin, low);
    limber_node_set(arg, ATTR_emax, high);
}

/* Bits of scaled integers if all lines share one scale; set only if they are few. */
static void reach_class(const struct mask *m, struct node *arg)
{
    static const int steps[] = { 7, 8, 15, 16, 23, 24 };
    int low = limber_mask_low(m);
    int64_t reach = (int64_t)m->emax - low + 1;

    if (low != INT_MIN && !m->zero && reach <= steps[COUNT(steps) - 1])
        limber_node_set(arg, ATTR_reach, up_to(steps, COUNT(steps), reach, 1));
}

void limber_mask_class(const struct mask *m, limber_format f, unsigned use, struct node *arg)
{
    bool integer = f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
    bool coarse = use & CLASS_coarse && !integer;
    bool all = use & CLASS_named || limber_format_sig(f) > 64;
    int64_t width = width_class(m->width, coarse, all), spread = spread_class(m->spread, coarse);

    if (!m->scanned)
        return;
    if (integer || m->zero) { /* integers are not scaled */
        limber_node_set(arg, ATTR_emin, 0);
        limber_node_set(arg, ATTR_emax, m->zero ? 0 : width_class(m->emax + 1, false, false) - 1);
    } else {
        range_class(m, f, use, arg);
    }
    if (use & CLASS_widths && !integer)
        spread = width;
    limber_node_set(arg, ATTR_spread, m->zero ? 0 : spread);
    limber_node_set(arg, ATTR_width, m->zero ? 0 : width);
    limber_node_set(arg, ATTR_sig, m->zero ? 0 : sig_class(m->sig, coarse));
    limber_node_set(arg, ATTR_sign, m->negative ? 0 : 1);
    limber_node_set(arg, ATTR_special, m->special);
    if (use & CLASS_reach && !integer)
        reach_class(m, arg);
}
