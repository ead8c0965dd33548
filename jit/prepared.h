/* SPDX-License-Identifier: BSD-3-Clause
 * What the engine uses of a prepared operand. */
#ifndef LIMBER_JIT_PREPARED_H
#define LIMBER_JIT_PREPARED_H

#include "jit/cache/cache.h"
#include "jit/scan/scan.h"

/* The mask as a scan of this depth would give it; its lines stay the operand's. */
void limber_prepared_mask(const limber_prepared *o, struct mask *m, enum scan_depth depth);
/* Its limbs as a kernel's side of the products.  *of must live as long as the keeper is used. */
struct keeping {
    struct keeper keeper;
    limber_prepared *operand;
    const unsigned char *key;       /* of the kernel */
    int side;
};
const struct keeper *limber_operand_keeper(limber_prepared *o, const struct facts *f, int side,
                                           struct keeping *of);

#endif
