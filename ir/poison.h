/* SPDX-License-Identifier: BSD-3-Clause
 * Fills new memory with a pattern in tests, so that code which reads memory before writing it gives
 * wrong results, and not, by chance, those of the previous call.  If this is off, it costs one test
 * of a flag. */
#ifndef LIMBER_POISON_H
#define LIMBER_POISON_H

#include <stdbool.h>
#include <stddef.h>

/* true: limber_poison fills memory */
extern bool limber_poisons;

void limber_poison_fill(void *memory, size_t bytes);

/* Fills memory with bytes that are NaN as floats, if limber_poisons is set, as some tests do. */
static inline void limber_poison(void *memory, size_t bytes)
{
    if (limber_poisons)
        limber_poison_fill(memory, bytes);
}

#endif
