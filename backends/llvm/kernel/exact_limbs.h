/* SPDX-License-Identifier: BSD-3-Clause
 * For exact.c: operands of the scheme `accumulator`.  Panels of lines are packed as scaled doubles,
 * for double-double sums and for bins, or as fractions and exponents, for sums in windows. */
#ifndef LIMBER_KERNEL_EXACT_LIMBS_H
#define LIMBER_KERNEL_EXACT_LIMBS_H

#include "backends/llvm/kernel/bins.h"
#include "backends/llvm/kernel/kernel.h"
#include "ir/num/prim.h"

enum {
    PANEL = KERNEL_LANES,           /* number of lines (rows of A, columns of B) in a panel */
    /* number of elements along k that are examined, or listed for an exponent window, at once */
    LISTED = 256,
    /* lowest exponent, relative to the line's largest element, that double-double sums include */
    FAR = -990,
    NOTHING = -(1 << 24),           /* the exponent of zero */
    LEFT_OUT = -(1 << 25) /* value of `low` for a line of which double-double sums omit elements */
};

/* ---- loading operands ------------------------------------------------------------------------ */

/* One limb of a panel, followed by the lowest and the highest exponent of each line.  An element is
 * m 2^e with 1 <= |m| < 2, or 0; several limbs are parts of one element.  For double-double sums,
 * the only limb has v = m 2^(e - high) instead, and is also followed by a bound of each line's
 * Euclidean norm. */
struct limb {
    double *v; /* [PANEL / LANES][k][LANES]: scaled elements; NULL if m and e hold the elements */
    double *m;          /* [k][PANEL]: the fractions m */
    int32_t *e;         /* [k][PANEL]: the exponents e */
    int32_t *low, *high; /* [line of the panel]: lowest and highest exponent */
    double *norm;        /* [line of the panel]: bound of the Euclidean norm, at least 1 */
    int64_t k;
};

/* Returns limb q of a panel.  pairs: the limb holds scaled doubles. */
static struct limb limb_of(const struct kernel_call *c, bool pairs, int side, int64_t panel, int q)
{
    const struct packed *o = &c->op[side];
    char *at = o->data + panel * o->panel_bytes + q * o->limb_bytes;
    /* these arrays are at the end of the limb's memory, whatever part of k is packed */
    int32_t *low = (int32_t *)(void *)(at + o->limb_bytes - 16 * PANEL);

    return (struct limb){ .v = pairs ? (double *)(void *)at : NULL,
                          .m = (double *)(void *)at,
                          .e = (int32_t *)(void *)(at + 8 * PANEL * c->k),
                          .low = low,
                          .high = low + PANEL,
                          .norm = (double *)(void *)(low + 2 * PANEL),
                          .k = c->k };
}

/* Returns the address of element p of a line.  Element p of each next line follows, up to a
 * multiple of LANES lines. */
FLAT const double *scaled_at(const struct limb *l, int line, int64_t p)
{
    return l->v + line / LANES * LANES * l->k + p * LANES + line % LANES;
}

static const int64_t fraction_bits = ((int64_t)1 << 52) - 1, one_bits = (int64_t)1023 << 52;

/* Returns the exponent of element p of a line; NOTHING for zero. */
FLAT int32_t exponent_at(const struct limb *l, int line, int64_t p)
{
    int64_t bits;

    if (!l->v)
        return l->e[p * PANEL + line];
    memcpy(&bits, scaled_at(l, line, p), 8);
    return bits & INT64_MAX ? (int32_t)(bits >> 52 & 0x7ff) - 1023 + l->high[line] : NOTHING;
}

/* Returns the exponents of element p of LANES lines, from line `first` on. */
FLAT vi exponents_at(const struct limb *l, int first, int64_t p)
{
    vl bits;
    vi e, zero;

    if (!l->v)
        return LOAD(vi, &l->e[p * PANEL + first]);
    bits = LOAD(vl, scaled_at(l, first, p));
    e = __builtin_convertvector(bits >> 52 & 0x7ff, vi) - 1023 + LOAD(vi, &l->high[first]);
    zero = __builtin_convertvector((vl)((bits & INT64_MAX) == 0), vi);
    return (e & ~zero) | (NOTHING & zero);
}

/* Returns the fraction m of element p of a line, with 1 <= |m| < 2, or 0. */
FLAT double fraction_at(const struct limb *l, int line, int64_t p)
{
    int64_t bits;
    double m;

    if (!l->v)
        return l->m[p * PANEL + line];
    memcpy(&bits, scaled_at(l, line, p), 8);
    if (bits & INT64_MAX)
        bits = (bits & (fraction_bits | INT64_MIN)) | one_bits;
    memcpy(&m, &bits, 8);
    return m;
}

/* Returns element p of LANES lines, from line `first` on, as signed significands in [1, 2); 0 stays
 * 0. */
FLAT vd fractions_at(const struct limb *l, int first, int64_t p)
{
    vl bits;

    if (!l->v)
        return LOAD(vd, &l->m[p * PANEL + first]);
    bits = LOAD(vl, scaled_at(l, first, p));
    return (vd)((bits & (fraction_bits | INT64_MIN)) | (one_bits & (vl)((bits & INT64_MAX) != 0)));
}

/* Stores x as fraction and exponent of element p of a line, and extends the line's range of
 * exponents. */
FLAT void store_element(const struct limb *l, int64_t p, int line, double x)
{
    int64_t at = p * PANEL + line, bits, field;
    int32_t e = NOTHING;

    if (x != 0 && x - x == 0) {
        e = 0;
        if (fabs(x) < 0x1p-1022) {
            x *= 0x1p64;
            e = -64;
        }
        memcpy(&bits, &x, 8);
        field = bits >> 52 & 0x7ff;
        e += (int32_t)field - 1023;
        bits = (bits & ~((int64_t)0x7ff << 52)) | (int64_t)1023 << 52;
        memcpy(&x, &bits, 8);
        if (e < l->low[line])
            l->low[line] = e;
        if (e > l->high[line])
            l->high[line] = e;
    } else {
        x = 0;
    }
    l->m[at] = x;
    l->e[at] = e;
}

/* Stores (-1)^sign * chunk * 2^exp, which may be below the range of FP64, as element p of a
 * line. */
static void store_wide_element(const struct limb *l, int64_t p, int line, uint64_t chunk, int exp,
                               int sign)
{
    store_element(l, p, line, sign ? -(double)chunk : (double)chunk);
    if (chunk) {
        l->e[p * PANEL + line] += exp;
        if (l->e[p * PANEL + line] < l->low[line])
            l->low[line] = l->e[p * PANEL + line];
    }
}

/* Stores an element of any format as one to three limbs of at most 53 bits.  at: address of the
 * element, or NULL for zero. */
static void put_any(const struct limb *l, int limbs, int64_t p, int line, limber_format f,
                    const char *at)
{
    struct limber_num x[2] = { { .kind = NUM_zero }, { .kind = NUM_zero } };
    int n = at ? limber_parts(x, f, at) : 1;

    for (int i = 0; i < n; i++)
        if (x[i].kind != NUM_finite)
            x[i].hi = x[i].lo = 0;
    if (n == 2 || limbs == 1) {
        for (int i = 0; i < limbs; i++)
            store_wide_element(&l[i], p, line, x[i].lo, x[i].exp, x[i].sign);
        return;
    }
    store_wide_element(&l[limbs - 1], p, line, x[0].lo & UINT32_MAX, x[0].exp, x[0].sign);
    store_wide_element(&l[limbs - 2], p, line, x[0].lo >> 32, x[0].exp + 32, x[0].sign);
    if (limbs == 3)
        store_wide_element(&l[0], p, line, x[0].hi, x[0].exp + 64, x[0].sign);
}

/* ---- packing for scaled pairs ---------------------------------------------------------------- */

/* Pixels of one plane of the image that a line reads: `rows` by `columns` pixels from (y, x) on,
 * with distances of `down` rows and `across` columns.  Pixels outside of the image are zero.
 * plane: NULL if all of it is padding. */
struct pixels_seen {
    const char *plane;
    int64_t y, down, rows, x, across, columns;
};

/* Copies the pixels that a line reads in one plane.  Returns the address just past the copy.  size:
 * 8 or 4 for FP64 or FP32, else 0. */
FLAT double *copy_pixels(const struct kernel_call *c, const struct patch *w, limber_format f,
                         int size, const struct pixels_seen *s, double *to)
{
    for (int64_t i = 0, y = s->y; i < s->rows; i++, y += s->down) {
        const bool inside = s->plane && y >= 0 && y < w->h;
        const char *row = inside ? s->plane + y * w->row * f.size : NULL;

        for (int64_t j = 0, x = s->x; j < s->columns; j++, x += s->across, to += LANES) {
            const char *at = row && x >= 0 && x < w->w ? row + x * w->col * f.size : NULL;

            *to = !at ? 0 : size ? double_at(at, size) : c->cold->value(f, at);
        }
    }
    return to;
}

/* Copies one line of a convolution's operand: a window or, if transposed, one element of all
 * windows.  Needs no division per element.  size: 8 or 4 for FP64 or FP32, else 0. */
FLAT void copy_window(const struct kernel_call *c, const struct view *v, int64_t line,
                      limber_format f, int size, double *to)
{
    const struct patch *w = v->patch;
    const int64_t taps = w->transposed ? w->oh * w->ow : w->r * w->s, outer = c->k / taps;
    const int64_t high = w->transposed ? w->r : w->oh, wide = w->transposed ? w->s : w->ow;
    const int64_t of = line / wide, a = of % high, b = line % wide;
    const int64_t group = of / high; /* channel if transposed, else image */
    struct pixels_seen s = { .y = a * w->stride[0] - w->pad[0],
                             .down = w->dilate[0],
                             .rows = w->r,
                             .x = b * w->stride[1] - w->pad[1],
                             .across = w->dilate[1],
                             .columns = w->s };

    if (w->transposed)
        s = (struct pixels_seen){ .y = a * w->dilate[0] - w->pad[0],
                                  .down = w->stride[0],
                                  .rows = w->oh,
                                  .x = b * w->dilate[1] - w->pad[1],
                                  .across = w->stride[1],
                                  .columns = w->ow };
    for (int64_t i = 0; i < outer; i++) {
        const int64_t begin = w->transposed ? limber_patch_begin(w, i, group) :
                                              limber_patch_begin(w, group, i);

        s.plane = begin < 0 ? NULL : (const char *)v->data + (w->origin + begin) * f.size;
        to = copy_pixels(c, w, f, size, &s, to);
    }
}

/* Copies `live` lines of a convolution's operand, from line `first` on, to [k][LANES]. */
static void copy_windows(const struct kernel_call *c, const struct view *v, int64_t first,
                         int64_t live, limber_format f, double *to)
{
    const int size = limber_format_is_binary(f) ? f.size : 0;

    for (int64_t l = 0; l < live; l++)
        if (size == 8)
            copy_window(c, v, first + l, f, 8, to + l);
        else if (size == 4)
            copy_window(c, v, first + l, f, 4, to + l);
        else
            copy_window(c, v, first + l, f, 0, to + l);
}

/* Copies the `live` lines that exist from line0 on, as doubles, to the array [k][LANES] at `to`.
 * The lanes of lines that do not exist become zero. */
static void copy_lines(const struct kernel_call *c, int side, int64_t line0, int64_t live,
                       double *to)
{
    const struct view *v = &c->op[side].view;
    const limber_format f = c->config->side[side].f;
    const int64_t first = c->op[side].line0 + line0, step = v->p * f.size;
    bool strided = limber_view_strided(v) && !(v->tile_subset && v->tile_subset->tile) && c->k > 0;
    bool plain = strided && limber_format_is_binary(f), wide = plain && f.size == 8;

    if (live < LANES)
        memset(to, 0, (size_t)c->k * sizeof(vd));
    if (wide && !v->tile_subset && v->line == 1 && live == LANES) {
        const char *at = limber_view_at(v, first, 0, 8);

        for (int64_t p = 0; p < c->k; p++)
            memcpy(to + p * LANES, at + p * step, sizeof(vd));
        return;
    }
    if (v->patch && !v->patch->depth && !v->patch->divide[0] && !v->tile_subset) {
        copy_windows(c, v, first, live, f, to);
        return;
    }
    for (int64_t l = 0; l < live; l++) {
        const char *at = strided ? limber_view_at(v, first + l, 0, f.size) : NULL;

        if (wide) /* constant sizes, so that the compiler specialises the loops */
            for (int64_t p = 0; p < c->k; p++)
                to[p * LANES + l] = double_at(at + p * step, 8);
        else if (plain)
            for (int64_t p = 0; p < c->k; p++)
                to[p * LANES + l] = double_at(at + p * step, 4);
        else
            for (int64_t p = 0; p < c->k; p++) {
                const char *here = limber_view_at(v, first + l, p, f.size);

                to[p * LANES + l] = here ? c->cold->value(f, here) : 0;
            }
    }
}

/* Returns the exponent of a number whose magnitude is `most`; NOTHING / 2 for zero. */
static int32_t exponent_of(double most)
{
    return most > 0 ? ilogb(most) : NOTHING / 2;
}

/* Sets high[] to the exponent of the largest finite element of each of LANES packed lines. */
static void find_largest_exponents(const double *v, int64_t k, int32_t *high)
{
    const int64_t infinite = (int64_t)0x7ff << 52;
    vl most = { 0 };

    for (int64_t p = 0; p < k; p++) {
        vl x = LOAD(vl, v + p * LANES) & INT64_MAX, more = (x > most) & (x < infinite);

        most = (x & more) | (most & ~more);
    }
    for (int l = 0; l < LANES; l++) {
        double x;
        int64_t bits = most[l];

        memcpy(&x, &bits, 8);
        high[l] = exponent_of(x);
    }
}

/* Sets high[] to the largest exponents of a panel's lines over all of k, if only a part of k is
 * packed at a time. */
static void find_high_of_all_k(const struct kernel_call *c, int side, int64_t panel, int32_t *high)
{
    const struct packed *o = &c->op[side];
    const struct view *v = &c->whole[side];
    const limber_format f = c->config->side[side].f;
    const int64_t lines = o->lines - panel * PANEL, live = lines < PANEL ? lines : PANEL;
    const int size = limber_format_is_binary(f) ? f.size : 0;
    double most[PANEL] = { 0 };

    for (int64_t p0 = 0; p0 < c->view_k; p0 += LISTED)
        for (int64_t l = 0; l < live; l++) {
            const char *at = limber_view_at(v, o->line0 + panel * PANEL + l, p0, f.size);
            const int64_t left = c->view_k - p0, count = left < LISTED ? left : LISTED;

            for (int64_t p = 0; p < count; p++, at += v->p * f.size) {
                double x = fabs(size ? double_at(at, size) : c->cold->value(f, at));

                most[l] = x > most[l] && x - x == 0 ? x : most[l];
            }
        }
    for (int l = 0; l < PANEL; l++)
        high[l] = exponent_of(most[l]);
}

/* Divides LANES lines by the powers of two of their largest exponents, and sets their lowest
 * exponents and bounds of their norms.  Elements too far below the largest are omitted; NaN and
 * infinities become zero.  If all elements are small, they are first scaled up, so that subnormal
 * elements have an exponent field. */
static void scale_lines(double *v, int64_t k, int32_t *low, const int32_t *high, double *norm)
{
    enum { SMALL = -32, ENLARGE = 200 };
    const int64_t infinite = (int64_t)0x7ff << 52;
    vl shift = { 0 }, least = { 0 }, out = { 0 };
    vd enlarge = all_of(1), squares = { 0 };

    least += infinite;
    for (int l = 0; l < LANES; l++) {
        const bool some = high[l] > NOTHING / 2;

        if (high[l] <= SMALL)
            enlarge[l] = ldexp(1, ENLARGE);
        shift[l] = some ? high[l] + (high[l] <= SMALL ? ENLARGE : 0) : 0;
    }
    for (int64_t p = 0; p < k; p++) {
        vl given = LOAD(vl, v + p * LANES) & INT64_MAX, bits, field, keep, less;
        vl number = (given != 0) & (given < infinite);

        bits = (vl)(LOAD(vd, v + p * LANES) * enlarge);
        field = bits >> 52 & 0x7ff;
        keep = number & (field != 0) & (field - 1023 - shift > FAR);
        out |= number & ~keep;
        less = keep & (field < least);
        least = (field & less) | (least & ~less);
        bits = (bits - (shift << 52)) & keep;
        memcpy(v + p * LANES, &bits, sizeof bits);
        squares += (vd)bits * (vd)bits;
    }
    /* covers the rounding errors of this sum and of the norms */
    squares *= 1 + (double)(k + 8) * 0x1p-51;
    for (int l = 0; l < LANES; l++) {
        norm[l] = squares[l] > 1 ? sqrt(squares[l]) : 1;
        low[l] = -NOTHING;
        if (out[l])
            low[l] = LEFT_OUT;
        else if (least[l] < infinite)
            low[l] = (int32_t)(least[l] - 1023 - shift[l]) + high[l];
    }
}

/* Packs a panel for double-double sums: lines (rows of A, columns of B) of doubles, scaled by
 * their largest exponents. */
static void pack_scaled(const struct kernel_call *c, int side, int64_t panel)
{
    struct limb l = limb_of(c, true, side, panel, 0);

    if (!c->adds && c->more)
        find_high_of_all_k(c, side, panel, l.high);
    for (int line = 0; line < PANEL; line += LANES) {
        double *v = l.v + line * c->k;
        int64_t left = c->op[side].lines - panel * PANEL - line;

        copy_lines(c, side, panel * PANEL + line, left < LANES ? left : LANES, v);
        if (!c->adds && !c->more)
            find_largest_exponents(v, c->k, l.high + line);
        scale_lines(v, c->k, l.low + line, l.high + line, l.norm + line);
    }
}

/* ---- packing for windows --------------------------------------------------------------------- */

/* Packs a panel for exact sums in exponent windows: for each element its limbs, each a fraction
 * and an exponent. */
static void pack(const struct kernel_call *c, int side, int64_t panel)
{
    const struct packed *o = &c->op[side];
    const struct side *s = &c->config->side[side];
    int64_t lines = o->lines - panel * PANEL;
    struct limb l[3];

    for (int q = 0; q < s->limbs; q++) {
        l[q] = limb_of(c, false, side, panel, q);
        for (int i = 0; i < PANEL; i++) {
            l[q].low[i] = -NOTHING;
            l[q].high[i] = NOTHING / 2;
        }
    }
    for (int line = 0; line < PANEL; line++)
        for (int64_t p = 0; p < c->k; p++)
            put_any(l, s->limbs, p, line, s->f,
                    line < lines ? limber_view_at(&o->view, o->line0 + panel * PANEL + line, p,
                                                  s->f.size) :
                                   NULL);
}

#endif
