/* SPDX-License-Identifier: BSD-3-Clause
 * What the engine uses of a prepared operand. */
#ifndef LIMBER_JIT_PREPARED_H
#define LIMBER_JIT_PREPARED_H

#include "jit/cache/cache.h"
#include "jit/scan/scan.h"

/* A group's mask as a scan of this depth would give it; its lines stay the operand's.  What has one
 * group is the same to all groups of a call. */
void limber_prepared_mask(const limber_prepared *o, int64_t group, struct mask *m,
                          enum scan_depth depth);
/* Its limbs as a kernel's side of the products.  *of must live as long as the keeper is used. */
struct keeping {
    struct keeper keeper;
    limber_prepared *operand;
    const unsigned char *key; /* of the kernel */
    int side;
    int64_t group;
};
const struct keeper *limber_operand_keeper(limber_prepared *o, const struct facts *f, int side,
                                           int64_t group, struct keeping *of);

#endif
