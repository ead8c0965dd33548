/* SPDX-License-Identifier: BSD-3-Clause
 * Where the matrices of a batch lie; read by the library and by kernels. */
#ifndef LIMBER_SPREAD_H
#define LIMBER_SPREAD_H

#include "ir/view.h"

/* Where the matrices of a batch are: at constant distances of `step` bytes, or at listed
 * addresses. */
struct spread {
    int64_t step;
    const void *const *address; /* [matrix]; NULL if `step` holds */
};

/* Returns the address of matrix g. data: address of the first matrix, used if there is no list. */
PRIM const void *limber_spread_at(const void *data, const struct spread *x, int64_t g)
{
    const void *p = x->address ? LIMBER_READ(const void *, x->address + g) :
                    data       ? (const char *)data + g * x->step :
                                 data;

#ifdef LIMBER_DEVICE_H
    of_memory(p);
#endif
    return p;
}

#endif
