/* SPDX-License-Identifier: BSD-3-Clause
 * What the engine uses of a prepared operand. */
#ifndef LIMBER_JIT_PREPARED_H
#define LIMBER_JIT_PREPARED_H

#include "jit/cache/cache.h"
#include "jit/scan/scan.h"

/* The mask of a place (limber_kept_place) as a scan of this depth would give it; its lines stay the
 * operand's.  What has one place is the same to all groups of a call. */
void limber_prepared_mask(const limber_prepared *o, int64_t place, struct mask *m,
                          enum scan_depth depth);
/* Its limbs as a kernel's side of the products.  *of must live as long as the keeper is used. */
struct keeping {
    struct keeper keeper;
    limber_prepared *operand;
    const unsigned char *key; /* of the kernel */
    int side;
    int64_t place;
};
const struct keeper *limber_operand_keeper(limber_prepared *o, const struct facts *f, int side,
                                           int64_t place, struct keeping *of);

/* An operand of floats that hold bytes, as these bytes, a prepared operand too; 1 of them is
 * 2^exponent. */
enum narrow_state {
    NARROW_none, /* bytes do not hold it, or not within its bound of memory */
    NARROW_there, /* *bytes is set */
    NARROW_elsewhere, /* another thread makes it */
    NARROW_to_make /* this call makes it, and then says so */
};
enum narrow_state limber_prepared_narrow(limber_prepared *o, int *exponent,
                                         limber_prepared **bytes);
/* Elements of all of it in memory that the operand is to free, with these strides; NULL: they could
 * not be made.  Answers the operand that they are; NULL: the memory stays the caller's. */
limber_prepared *limber_prepared_made_narrow(limber_prepared *o, void *memory, int64_t line,
                                             int64_t p);
/* Its elements. */
const void *limber_prepared_data(const limber_prepared *o);

#endif
