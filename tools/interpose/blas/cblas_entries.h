/* SPDX-License-Identifier: BSD-3-Clause
 * What functions with CBLAS names share.  All integers are declared with 64 bits: a register or
 * stack slot holds integers of 32 bits, too, and INTEGER() then ignores the upper half. */
#ifndef LIMBER_BLAS_CBLAS_ENTRIES_H
#define LIMBER_BLAS_CBLAS_ENTRIES_H

#include "entries.h"

static inline char letter_of_op(int op)
{
    return op == 111 ? 'N' : op == 112 ? 'T' : op == 113 ? 'C' : 0;
}

static inline char letter_of_uplo(int uplo)
{
    return uplo == 121 ? 'U' : uplo == 122 ? 'L' : 0;
}

static inline char letter_of_diag(int diag)
{
    return diag == 131 ? 'N' : diag == 132 ? 'U' : 0;
}

static inline char letter_of_side(int side)
{
    return side == 141 ? 'L' : side == 142 ? 'R' : 0;
}

#define INTEGER(x) (wide ? (x) : (int32_t)(x))

/* CBLAS passes a real scalar by value and a complex one by address.  These are values of the macro
 * parameter `at`: & for a value, nothing for an address. */
#define VALUE &
#define ADDRESS

#endif
