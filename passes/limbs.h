/* SPDX-License-Identifier: BSD-3-Clause
 * What the limbs of a finished plan represent of their operands, and what its product table leaves
 * out of their product.  Both are computed from the plan's nodes and masks alone, not from numbers
 * that the plan states (`dropped`, `share`).
 *
 *   proof   docs/accuracy.md, sections 3 to 5 and 8 */
#ifndef LIMBER_LIMBS_H
#define LIMBER_LIMBS_H

#include "ir/ir.h"

/* ---- limbs.c: the limbs of one operand, which the node of index `limbs` makes ---------------- */

/* Returns true if lines or all elements are multiplied by powers of two before they are split. */
bool limber_limbs_are_scaled(const struct node *limbs);
/* Returns true if all elements are zero, as the attributes of the operand's node say. mask: that
 * node. */
bool limber_is_zero_operand(const struct node *mask);
/* Returns log2 of the weight of limb i: the value that a 1 in this limb stands for, relative to
 * a 1 of the scaled element. */
int limber_limb_weight(const struct node *limbs, int i);
/* Returns log2 of the largest value of limb i, times its weight, relative to a nonzero element. */
int64_t limber_limb_reach(const struct plan *p, int limbs, int i);
/* Finds the exponents of scaled elements: 2^low <= |x| < 2^top for each that is not zero. */
void limber_limb_range(const struct plan *p, int limbs, int64_t *low, int64_t *top);
/* Returns the bits that scaled integers need to hold every element exactly; INT64_MAX if the
 * operand was not scanned. */
int64_t limber_limb_width(const struct plan *p, int limbs);
/* Returns the error that limbs make in one element, relative to the element; infinity if it is
 * unknown. */
double limber_limb_error(const struct plan *p, int limbs);
/* Checks that the limbs of A (side 0) or B (side 1) represent the operand up to the error that
 * limber_limb_error returns.  Returns false, with an error, if they cannot. */
bool limber_limbs_check(const struct plan *p, int side, struct diag *d);

/* ---- table.c --------------------------------------------------------------------------------- */

/* Returns true if the product of limbs a and b changes no result: scans show that one of them is
 * zero, or all bits of the product are above those of an integer that wraps. */
bool limber_row_is_free(const struct plan *p, const struct node *table, int a, int b, int weight);
/* Returns true if cutting this operand (side 0: A, 1: B) to fewer bits changes no result, because
 * the combine node's attribute `uncertain` covers the cut: elements whose rounding it leaves
 * uncertain are recomputed exactly. */
bool limber_covers_cut(const struct plan *p, int side);
/* Returns log2 of the largest sum that one element along k adds to an accumulator of slices, which
 * has 64 bits; 0 for other limbs. */
double limber_total_bits(const struct plan *p);
/* Checks that the plan's product table and combine node give the product of the operands that
 * its limbs represent, except for missing rows, whose error plan.dropped includes. */
bool limber_table_check(const struct plan *p, struct diag *d);

#endif
