/* SPDX-License-Identifier: BSD-3-Clause
 * The engine's view of a prepared operand. */
#ifndef LIMBER_JIT_PREPARED_H
#define LIMBER_JIT_PREPARED_H

#include "jit/cache/cache.h"
#include "jit/scan/scan.h"

/* Sets *m to the mask of a place (limber_kept_place) as a scan of this depth would.  Its arrays
 * stay the operand's.  An operand with one place serves all groups of a call. */
void limber_prepared_mask(const limber_prepared *o, int64_t place, struct mask *m,
                          enum scan_depth depth);
/* A keeper of its limbs for one side of a kernel.  *of must live as long as the keeper is used. */
struct keeping {
    struct keeper keeper;
    limber_prepared *operand;
    const unsigned char *key; /* the kernel's */
    int side;
    int64_t place;
};
const struct keeper *limber_operand_keeper(limber_prepared *o, const struct facts *f, int side,
                                           int64_t place, struct keeping *of);

/* A prepared operand of floats that are bytes times 2^exponent, as a second prepared operand of
 * bytes. */
enum narrow_state {
    NARROW_none, /* its values are no such bytes, or exceed its limit of memory */
    NARROW_there, /* *bytes is set */
    NARROW_elsewhere, /* another thread is making it */
    NARROW_to_make /* this call must make it, then call limber_prepared_made_narrow */
};
enum narrow_state limber_prepared_narrow(limber_prepared *o, int *exponent,
                                         limber_prepared **bytes);
/* Gives the operand its elements as bytes, in memory that it frees from now on, with these strides;
 * NULL: they could not be made.  Returns the operand of bytes, or NULL: the memory stays the
 * caller's. */
limber_prepared *limber_prepared_made_narrow(limber_prepared *o, void *memory, int64_t line,
                                             int64_t p);
/* The address of its elements. */
const void *limber_prepared_data(const limber_prepared *o);

#endif
