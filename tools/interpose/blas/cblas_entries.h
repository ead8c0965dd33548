/* SPDX-License-Identifier: BSD-3-Clause
 * What CBLAS's names have in common.  Integers are taken and passed on as 64 bits.  A register or a
 * stack slot holds either width; of a 32-bit integer the upper half is not read. */
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

/* A scalar of a real type is passed as a value, one of a complex type by its address.  `at` is &
 * where it is a value. */
#define VALUE &
#define ADDRESS

#endif
