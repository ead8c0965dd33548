/* SPDX-License-Identifier: BSD-3-Clause
 * Ozaki I: operands scaled by lines to integers, cut into slices short enough that every chain
 * of slice products is exact in the unit's accumulator.
 *
 *   needs   a mask (bits to keep), or the caller's slice count (fast mode)
 *   leaves  slices, one row for each pair with its share, one accumulator for each weight
 *   proof   docs/accuracy.md, "Slices (Ozaki I) and bytes"
 *   source  Ozaki, Ogita, Oishi, Rump, Numer. Algorithms 59 (2012); Mukunoki et al., ISC 2020,
 *           sections 3.1 and 3.2.  Slices here are digits of the two's complement integer, so
 *           that all but the top one are unsigned and a slice of i8 holds eight bits; in e4m3,
 *           which holds all whole numbers up to 16, they are signed digits of five bits. */
#include "passes/passes.h"
#include "passes/scheme/scheme_split.h"

#include <math.h>
#include <stdlib.h>

enum { SLICES = 64, INNER = 1024 };

/* Bits of a slice and the longest exact chain: 2 step + log2 chunk <= the accumulator's bits. */
static void slice_shape(enum unit u, int kbits, int *step, int64_t *chunk)
{
    int cap = u == UNIT_f64 ? 22 : u == UNIT_f16 ? 11 : 8;  /* f64: slices are made by binary32 */
    int inner = kbits < 10 ? kbits : 10;

    if (u == UNIT_i8) {
        *step = 8;
        *chunk = 32768;         /* 255 * 255 * 2^15 < 2^31 */
        return;
    }
    if (u == UNIT_e4m3) {
        *step = 5;
        *chunk = 65536;         /* 16 * 16 * 2^16 = 2^24 */
        return;
    }
    *chunk = kbits < 10 ? (int64_t)1 << kbits : INNER;
    *step = (limber_units[u].exact_bits - inner) / 2;
    if (*step > cap)
        *step = cap;
}

int limber_slice_step(const char *name, int kbits)
{
    const struct scheme *s = name ? limber_scheme_find(name) : NULL;
    int64_t chunk;
    int step;

    if (!s || s->split != limber_split_ozaki1)
        return 0;
    slice_shape(s->unit, kbits, &step, &chunk);
    return step;
}

/* One side's slices. bits: of its elements; step: bits from slice to slice. */
struct operand {
    int bits, slices, spread, step;
    int reach; /* slices are at most 2^reach */
    bool is_signed;
};

/* Finds how many slices an operand needs, and of what width. */
static bool size_slices(const struct plan *p, const struct node *mask, limber_format f,
                        enum unit unit, int step, struct operand *o, struct diag *d)
{
    bool digits = unit == UNIT_e4m3; /* slices are signed digits */

    o->step = step;
    o->reach = step - digits;
    o->is_signed =
        digits || !limber_node_has(mask, ATTR_sign) || limber_num(mask, ATTR_sign) == SIGN_signed;
    o->spread = limber_node_has(mask, ATTR_spread) ? (int)limber_num(mask, ATTR_spread) : 0;
    if (p->slices > 0 && p->promise == LIMBER_CONTRACT_FAST)
        o->bits = p->slices * step - o->is_signed;
    else if (!limber_need_bits(p, mask, f, &o->bits, d))
        return false;
    o->slices = (o->bits + o->is_signed + step - 1) / step;
    if (p->slices > 0 && p->slices < o->slices)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.slices = %d, but operand %s needs %d", p->slices, mask->name,
                           o->slices);
    if (p->slices > 0 && o->bits > 165 && p->promise == LIMBER_CONTRACT_FAST)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.slices = %d: slices of %d bits hold at most 165 bits, %d of "
                           "them",
                           p->slices, step, (165 + o->is_signed) / step);
    if (o->bits > 165)          /* masks' classes end there, so the exact number is not known */
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "%%%s needs more than 165 bits, at most 165 are cut", mask->name);
    if (o->slices > SLICES)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s needs %d bits, %d slices of %d",
                           mask->name, o->bits, o->slices, step);
    return true;
}

/* Adds the node that makes an operand's slices. */
static int add_slices(struct plan *p, int operand, int axis, enum unit unit,
                      const struct operand *o)
{
    struct type t = p->node[operand].type;
    int n;

    limber_format_named(unit == UNIT_i8 && !o->is_signed ? "u8" : limber_units[unit].in, &t.format);
    t.count = o->slices;
    n = limber_plan_add(p, OP_slices, NULL, operand, -1, t);
    if (n >= 0) {
        limber_node_set(&p->node[n], ATTR_axis, axis);
        limber_node_set(&p->node[n], ATTR_bits, o->bits);
        limber_node_set(&p->node[n], ATTR_step, o->step);
        limber_node_set(&p->node[n], ATTR_sign, o->is_signed ? SIGN_signed : SIGN_unsigned);
    }
    return n;
}

/* The share of a row.  Slice i of s counts 2^(step (s-1-i)) and is at most 2^reach times that; the
 * smallest operand is at least 2^(bits-1-spread). */
static double row_share(const struct operand *a, const struct operand *b, int i, int j)
{
    int top = a->step * (a->slices - 1 - i) + a->reach + b->step * (b->slices - 1 - j) + b->reach;

    if (i + j == 0)
        return INFINITY;
    return ldexp(1, top - (a->bits - 1 - a->spread) - (b->bits - 1 - b->spread));
}

/* Fills rows.  fast: only the triangle i+j < slices; *dropped is the share of the others. */
static size_t fill_rows(const struct operand *a, const struct operand *b, bool fast,
                        struct row *out, int *accumulators, double *dropped)
{
    size_t n = 0;

    for (int w = 0; w <= a->slices + b->slices - 2; w++)
        for (int i = 0; i < a->slices; i++) {
            int j = w - i;

            if (j < 0 || j >= b->slices)
                continue;
            if (fast && w >= a->slices) {
                *dropped = nextafter(*dropped + row_share(a, b, i, j), INFINITY);
                continue;
            }
            *accumulators = w + 1;
            out[n++] = (struct row){ .a = i,
                                     .b = j,
                                     .acc = w,
                                     .weight = a->step * (a->slices - 1 - i) +
                                               b->step * (b->slices - 1 - j),
                                     .share = row_share(a, b, i, j) };
        }
    return n;
}

/* Adds both operands' slices, the product table and the combine. */
static bool finish_slices(struct plan *p, const struct stated *s, enum unit unit, int64_t chunk,
                          const struct operand *oa, const struct operand *ob, int axis_b,
                          struct diag *d)
{
    struct row *table = malloc((size_t)(oa->slices * ob->slices) * sizeof *table);
    int a, b, accumulators = 0;
    size_t n;
    bool ok;

    if (!table)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "ozaki1: out of memory");
    a = add_slices(p, s->a, axis_b == AXIS_none ? axis_b : AXIS_row, unit, oa);
    b = add_slices(p, s->b, axis_b, unit, ob);
    n = fill_rows(oa, ob, p->promise == LIMBER_CONTRACT_FAST && p->slices > 0, table, &accumulators,
                  &p->dropped);
    ok = limber_split_finish(p, s,
                             &(const struct product_table){ .a = a,
                                                            .b = b,
                                                            .unit = unit,
                                                            .chunk = chunk,
                                                            .row = table,
                                                            .rows = n,
                                                            .accumulators = accumulators,
                                                            .reconstruct = RECONSTRUCT_shift },
                             d);
    free(table);
    return ok;
}

bool limber_split_ozaki1(struct plan *p, const struct scheme *scheme, const struct target *t,
                         struct diag *d)
{
    struct operand oa, ob;
    struct stated s;
    struct node mb;
    int64_t chunk;
    int step, axis;

    if (!limber_stated(p, &s, d))
        return false;
    if (s.wraps)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result wraps, scaled operands do not");
    slice_shape(scheme->unit, p->kbits, &step, &chunk);
    axis = limber_axis_b(p, &s, &mb);
    if (p->slices > 0 && p->promise == LIMBER_CONTRACT_FAST) { /* a common scale would lose bits */
        axis = AXIS_col;
        mb = *s.mb;
    }
    if (!size_slices(p, s.ma, s.fa, scheme->unit, step, &oa, d) ||
        !size_slices(p, &mb, s.fb, scheme->unit, step, &ob, d))
        return false;
    return finish_slices(p, &s, scheme->unit, chunk, &oa, &ob, axis, d) &&
           (scheme->unit != UNIT_e4m3 || limber_split_exact_e4m3(p, t, d));
}

/* Integers are cut into the same digits, unscaled. */
bool limber_split_integer(struct plan *p, const struct scheme *scheme, const struct target *t,
                          struct diag *d)
{
    struct operand oa, ob;
    struct stated s;

    (void)t;
    if (!limber_stated(p, &s, d))
        return false;
    for (int i = 0; i < 2; i++) {
        limber_format f = i ? s.fb : s.fa;
        const struct node *mask = i ? s.mb : s.ma;
        struct operand *o = i ? &ob : &oa;

        if (f.kind != LIMBER_KIND_INT && f.kind != LIMBER_KIND_UINT)
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s is no integer", mask->name);
        o->step = o->reach = 8;
        o->is_signed = f.kind == LIMBER_KIND_INT &&
                       !(limber_node_has(mask, ATTR_sign) && limber_num(mask, ATTR_sign));
        o->bits = 8 * f.size - (f.kind == LIMBER_KIND_INT);
        if (limber_node_has(mask, ATTR_emax) && limber_num(mask, ATTR_emax) + 1 < o->bits)
            o->bits = limber_num(mask, ATTR_emax) < 0 ? 1 : (int)limber_num(mask, ATTR_emax) + 1;
        o->spread = o->bits - 1; /* unscaled: the smallest nonzero operand is 1 */
        o->slices = (o->bits + o->is_signed + 7) / 8;
    }
    return finish_slices(p, &s, scheme->unit, 32768, &oa, &ob, AXIS_none, d);
}
