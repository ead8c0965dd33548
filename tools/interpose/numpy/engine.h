/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIMBER_NUMPY_ENGINE_H
#define LIMBER_NUMPY_ENGINE_H

#include "product.h"

#include <limber/limber.h>

/* Returns the context that all loops use, made at the first call; NULL if it could not be made. */
limber_context *limber_numpy_context(void);

/* Computes a product of integers modulo 2^bits.  False if Limber has no kernel for it; C is then
 * unchanged. */
bool limber_numpy_engine(const struct loop_product *x);

#endif
