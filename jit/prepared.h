/* SPDX-License-Identifier: BSD-3-Clause
 * What the engine does with a prepared operand. */
#ifndef LIMBER_JIT_PREPARED_H
#define LIMBER_JIT_PREPARED_H

#include "jit/cache/cache.h"
#include "jit/scan/scan.h"

/* Copies to *m the mask (exponents and bits that a scan found) of the operand's part `place`, as a
 * scan of this depth would make it.  The prepared operand still owns the arrays of *m.  If there is
 * only one part, its mask is used for all groups of a call. */
void limber_prepared_mask(const limber_prepared *o, int64_t place, struct mask *m,
                          enum scan_depth depth);
/* Lets one kernel use the limbs that the operand keeps.  The kernel reads the operand as A (side
 * 0) or B (side 1).  *of must live as long as the keeper is used. */
struct keeping {
    struct keeper keeper;
    limber_prepared *operand;
    const unsigned char *key; /* key of the kernel */
    int side;
    int64_t place;
};
const struct keeper *limber_prepared_keeper(limber_prepared *o, const struct facts *f, int side,
                                            int64_t place, struct keeping *of);
/* Returns the callbacks by which a kernel uses the limbs that o keeps; NULL if o is NULL. */
static inline const struct keeper *limber_operand_keeper(limber_prepared *o, const struct facts *f,
                                                         int side, int64_t place,
                                                         struct keeping *of)
{
    return o ? limber_prepared_keeper(o, f, side, place, of) : NULL;
}

/* Whether a prepared operand of floats has a second prepared operand that holds the same values
 * as 8-bit integers times 2^exponent. */
enum int8_state {
    /* the values are not 8-bit integers times a power of two, or the copy would exceed the
     * operand's limit of memory */
    INT8_none,
    INT8_there, /* the copy exists; limber_prepared_int8 has stored its address in *bytes */
    INT8_elsewhere, /* another thread is making the copy */
    INT8_to_make /* this call must make the copy, and then call limber_prepared_set_bytes */
};
enum int8_state limber_prepared_int8(limber_prepared *o, int *exponent, limber_prepared **bytes);
/* Gives the operand the copy of its elements as 8-bit integers, with these strides, in memory that
 * the operand frees from now on. memory is NULL if the copy could not be made.  Returns the operand
 * that holds the copy.  NULL on failure; the caller then frees the memory. */
limber_prepared *limber_prepared_set_bytes(limber_prepared *o, void *memory, int64_t line,
                                           int64_t p);
/* Returns the address of the operand's elements. */
const void *limber_prepared_data(const limber_prepared *o);

#endif
