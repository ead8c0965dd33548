/* SPDX-License-Identifier: BSD-3-Clause
 * Ozaki I: scales each line (row of A, column of B) to integers, and cuts these into slices so
 * short that each chain of slice products is exact in the unit's accumulator.
 *
 *   needs   a mask (bits to keep), or the caller's number of slices (contract `fast`)
 *   leaves  slices, one row with its share for each pair of slices, one accumulator per weight
 *   proof   docs/accuracy.md, "Slices (Ozaki I) and bytes"
 *   source  Ozaki, Ogita, Oishi, Rump, Numer. Algorithms 59 (2012); Mukunoki et al., ISC 2020,
 *           sections 3.1 and 3.2.
 *
 * Slices are signed digits (sign=balanced) of integers that are rounded to nearest.  In i8 they are
 * digits of the two's complement integer, all but the top one unsigned, unless products of slices
 * are left out (contract `fast`): unsigned digits hold one bit more, but what is left out of a sum
 * would have one sign. */
#include "passes/passes.h"
#include "passes/scheme/scheme_split.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { SLICES = 64 };

/* Chooses the bits of a slice (*step) and the longest exact chain (*chunk).  In floats, whose
 * digits are at most 2^(step-1), 2 (step - 1) + log2 chunk <= the accumulator's bits.  fast: the
 * number of slices is given or estimated, so that shorter chains of longer slices need fewer
 * products. */
static void slice_shape(enum unit u, int kbits, bool fast, int *step, int64_t *chunk)
{
    /* for f64, binary32 arithmetic makes the slices */
    int cap = u == UNIT_f64 ? 22 : u == UNIT_f16 ? 12 : 9;
    int inner = kbits < 10 ? kbits : 10;

    if (fast && u == UNIT_f16 && kbits == 8)
        inner = 6; /* for k from 17 to 256 */

    if (u == UNIT_i8) {
        *step = 8;
        *chunk = 32768; /* 255 * 255 * 2^15 < 2^31 */
        return;
    }
    if (u == UNIT_f16d) {
        *step = 12;
        *chunk = (int64_t)1 << 31; /* 2^11 * 2^11 * 2^31 = 2^53 */
        return;
    }
    if (u == UNIT_e4m3) {
        *step = 5;
        *chunk = 65536; /* 16 * 16 * 2^16 = 2^24 */
        return;
    }
    *chunk = (int64_t)1 << inner;
    *step = (limber_units[u].exact_bits - inner) / 2 + 1;
    if (*step > cap)
        *step = cap;
}

/* Returns the bits of a slice of the named Ozaki I scheme for k <= 2^kbits under the contract
 * `fast`, where the caller gives the number of slices or the library estimates it.  0 if there is
 * no such scheme. */
int limber_slice_step(const char *name, int kbits)
{
    const struct scheme *s = name ? limber_scheme_find(name) : NULL;
    int64_t chunk;
    int step;

    if (!s || s->split != limber_split_ozaki1)
        return 0;
    slice_shape(s->unit, kbits, true, &step, &chunk);
    return step;
}

/* Returns how many bits of balanced slices (signed digits) scaled integers cannot use: one for
 * the sign; on unit i8 one more, since a carry must not make the top slice 128. */
static int balanced_spare(enum unit u)
{
    return u == UNIT_i8 ? 2 : 1;
}

/* Returns how many bits of balanced slices (signed digits) scaled integers cannot use: one for the
 * sign, one more in bytes. */
int limber_slice_spare(const char *name)
{
    const struct scheme *s = name ? limber_scheme_find(name) : NULL;

    return s ? balanced_spare(s->unit) : 1;
}

/* How an operand is cut: number of bits of its scaled integers, number of slices, spread of
 * exponents, and bits from one slice to the next (step). */
struct operand {
    int bits, slices, spread, step;
    int reach; /* the absolute value of a slice is at most 2^reach */
    int sign; /* SIGN_signed, SIGN_unsigned or SIGN_balanced */
    int spare; /* bits of the slices that scaled integers cannot use, for signs and carries */
};

/* Sets whether slices are signed, unsigned or balanced (all signed digits), and how many of
 * their bits that takes. */
static void set_sign(struct operand *o, enum unit unit, bool balanced, bool is_signed)
{
    o->sign = balanced ? SIGN_balanced : is_signed ? SIGN_signed : SIGN_unsigned;
    o->reach = o->step - balanced;
    o->spare = balanced ? balanced_spare(unit) : is_signed;
}

/* Returns how many of `given` slices are needed: if they are balanced, no more than hold the bits
 * that the scan found. */
static int slices_of(const struct node *mask, int given, const struct operand *o)
{
    int64_t all = given;

    if (limber_node_has(mask, ATTR_width) && o->sign == SIGN_balanced)
        all = (limber_attr_number(mask, ATTR_width) + o->spare + o->step - 1) / o->step;
    return all < given ? (int)all : given;
}

/* Finds how many slices an operand needs, and their size.  False, with a reason, if they are too
 * many or unknown. */
static bool size_slices(const struct plan *p, const struct node *mask, limber_format f,
                        enum unit unit, int step, struct operand *o, struct diag *d)
{
    int given = p->promise == LIMBER_CONTRACT_FAST ? p->slices : 0;

    o->step = step;
    set_sign(o, unit, unit != UNIT_i8 || given > 1,
             !limber_node_has(mask, ATTR_sign) ||
                 limber_attr_number(mask, ATTR_sign) == SIGN_signed);
    o->spread = limber_node_has(mask, ATTR_spread) ? (int)limber_attr_number(mask, ATTR_spread) : 0;
    if (given > 0)
        o->bits = slices_of(mask, given, o) * step - o->spare;
    else if (!limber_need_bits(p, mask, f, &o->bits, d))
        return false;
    o->slices = (o->bits + o->spare + step - 1) / step;
    if (p->slices > 0 && p->slices < o->slices)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.slices = %d, but operand %s needs %d", p->slices, mask->name,
                           o->slices);
    if (given > 0 && o->bits > 165)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.slices = %d: slices of %d bits hold at most 165 bits, %d of "
                           "them",
                           given, step, (165 + o->spare) / step);
    /* the scan's number of bits is rounded up to a class, and no class is larger */
    if (o->bits > 165)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "%%%s needs more than 165 bits, at most 165 are cut", mask->name);
    if (o->slices > SLICES)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s needs %d bits, %d slices of %d",
                           mask->name, o->bits, o->slices, step);
    return true;
}

/* Adds the node that makes an operand's slices.  Returns the node's index, negative if memory runs
 * out. */
static int add_slices(struct plan *p, int operand, int axis, enum unit unit,
                      const struct operand *o)
{
    struct type t = p->node[operand].type;
    int n;

    limber_format_named(unit == UNIT_i8 && o->sign == SIGN_unsigned ? "u8" : limber_units[unit].in,
                        &t.format);
    t.count = o->slices;
    n = limber_plan_add(p, OP_slices, NULL, operand, -1, t);
    if (n >= 0) {
        limber_node_set(&p->node[n], ATTR_axis, axis);
        limber_node_set(&p->node[n], ATTR_bits, o->bits);
        limber_node_set(&p->node[n], ATTR_step, o->step);
        limber_node_set(&p->node[n], ATTR_sign, o->sign);
    }
    return n;
}

/* Returns the error, relative to |A||B|, of dropping the product of slices i and j.  Slice i of
 * s slices has the weight 2^(step (s-1-i)), and its value is at most 2^reach.  The largest
 * element of a line is at least 2^(bits-1), and the smallest at least 2^(bits-1-spread).  Returns
 * infinity for the product of the highest slices, which must not be dropped. */
static double row_share(const struct operand *a, const struct operand *b, int i, int j)
{
    int top = a->step * (a->slices - 1 - i) + a->reach + b->step * (b->slices - 1 - j) + b->reach;

    if (i + j == 0)
        return INFINITY;
    return ldexp(1, top - (a->bits - 1 - a->spread) - (b->bits - 1 - b->spread));
}

/* Fills the product table's rows and returns their number.  Only rows with i + j < most are kept,
 * and the shares of the others are added to *dropped. */
static size_t fill_rows(const struct operand *a, const struct operand *b, int most, struct row *out,
                        int *accumulators, double *dropped)
{
    size_t n = 0;

    for (int w = 0; w <= a->slices + b->slices - 2; w++)
        for (int i = 0; i < a->slices; i++) {
            int j = w - i;

            if (j < 0 || j >= b->slices)
                continue;
            if (w >= most) {
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

/* Adds both operands' slices, the product table and the combine node to the plan. */
static bool finish_slices(struct plan *p, const struct stated_gemm *s, enum unit unit,
                          int64_t chunk, const struct operand *oa, const struct operand *ob,
                          int axis_b, struct diag *d)
{
    struct row *table = malloc((size_t)(oa->slices * ob->slices) * sizeof *table);
    int a, b, accumulators = 0;
    size_t n;
    bool ok;

    if (!table)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "ozaki1: out of memory");
    a = add_slices(p, s->a, axis_b == AXIS_none ? axis_b : AXIS_row, unit, oa);
    b = add_slices(p, s->b, axis_b, unit, ob);
    n = fill_rows(oa, ob, p->promise == LIMBER_CONTRACT_FAST && p->slices > 0 ? p->slices : INT_MAX,
                  table, &accumulators, &p->dropped);
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

/* Scheme Ozaki I: splits each operand into slices whose products the unit sums without rounding. */
bool limber_split_ozaki1(struct plan *p, const struct scheme *scheme, const struct target *t,
                         struct diag *d)
{
    struct operand oa, ob;
    struct stated_gemm s;
    struct node mb;
    int64_t chunk;
    int step, axis;

    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    if (scheme->unit == UNIT_f16d && limber_is_device(t))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%s sums no FP16 products in FP64",
                           t->backend);
    if (s.wraps)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "the result wraps, scaled operands do not");
    slice_shape(scheme->unit, p->kbits, p->slices > 0 && p->promise == LIMBER_CONTRACT_FAST, &step,
                &chunk);
    axis = limber_axis_b(p, &s, &mb);
    /* one scale for all lines would lose bits */
    if (p->slices > 0 && p->promise == LIMBER_CONTRACT_FAST) {
        axis = AXIS_col;
        mb = *s.mb;
    }
    if (!size_slices(p, s.ma, s.fa, scheme->unit, step, &oa, d) ||
        !size_slices(p, &mb, s.fb, scheme->unit, step, &ob, d))
        return false;
    return finish_slices(p, &s, scheme->unit, chunk, &oa, &ob, axis, d) &&
           (scheme->unit != UNIT_e4m3 || limber_split_exact_e4m3(p, t, d));
}

/* Scheme `integer`: integers are cut into the digits of Ozaki I, without scaling. */
bool limber_split_integer(struct plan *p, const struct scheme *scheme, const struct target *t,
                          struct diag *d)
{
    struct operand oa, ob;
    struct stated_gemm s;

    (void)t;
    if (!limber_find_stated_gemm(p, &s, d))
        return false;
    for (int i = 0; i < 2; i++) {
        limber_format f = i ? s.fb : s.fa;
        const struct node *mask = i ? s.mb : s.ma;
        struct operand *o = i ? &ob : &oa;

        if (f.kind != LIMBER_KIND_INT && f.kind != LIMBER_KIND_UINT)
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "%%%s is no integer", mask->name);
        o->step = 8;
        set_sign(o, scheme->unit, false,
                 f.kind == LIMBER_KIND_INT &&
                     !(limber_node_has(mask, ATTR_sign) && limber_attr_number(mask, ATTR_sign)));
        o->bits = 8 * f.size - (f.kind == LIMBER_KIND_INT);
        if (limber_node_has(mask, ATTR_emax) && limber_attr_number(mask, ATTR_emax) + 1 < o->bits)
            o->bits = limber_attr_number(mask, ATTR_emax) < 0 ?
                          1 :
                          (int)limber_attr_number(mask, ATTR_emax) + 1;
        o->spread = o->bits - 1; /* without scaling the smallest nonzero operand is 1 */
        o->slices = (o->bits + o->spare + 7) / 8;
    }
    return finish_slices(p, &s, scheme->unit, 32768, &oa, &ob, AXIS_none, d);
}
