/* SPDX-License-Identifier: BSD-3-Clause
 * Fills new memory with a pattern in tests, so that reading what nobody has written gives a wrong
 * result, not by chance the last call's.  Off, this costs one test of a flag. */
#ifndef LIMBER_POISON_H
#define LIMBER_POISON_H

#include <stdbool.h>
#include <stddef.h>

extern bool limber_poisons;

void limber_poison_fill(void *memory, size_t bytes);

static inline void limber_poison(void *memory, size_t bytes)
{
    if (limber_poisons)
        limber_poison_fill(memory, bytes);
}

#endif
