/* SPDX-License-Identifier: BSD-3-Clause
 * Devices whose threads share memory in blocks: their tiles, and what a plan costs there. */
#ifndef LIMBER_DEVICE_COST_H
#define LIMBER_DEVICE_COST_H

#include "ir/ir.h"

/* Of a warp, of a block, and the bytes of a line in one stage. */
struct block_shape {
    int64_t mr, nr, mb, nb, bytes;
};

/* side_by_side: a stage holds all limbs. */
struct block_shape limber_block_shape(const struct node *products, const struct target *t,
                                      bool side_by_side);
/* Stages of the ring that the shared memory holds, of limbs, or of elements beside two stages of
 * limbs; fewer than 2: it does not do. */
int64_t limber_block_stages(const struct plan *p, const struct target *t, bool inside);

/* Can the multiply kernel make the limbs?  If not, why. */
bool limber_can_split_inside(const struct plan *p, const struct target *t, struct diag *d);
/* The price of a plan by the way to make limbs that is the faster at the plan's size, of those that
 * the caller allows. */
struct price limber_device_price(const struct plan *p, const struct target *t, bool *inside);

#endif
