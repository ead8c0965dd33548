/* SPDX-License-Identifier: BSD-3-Clause
 * Tests have all memory filled before it is used, so that whoever reads what nobody has written
 * gives a wrong result, and not by chance the last call's.  Off, this costs one look. */
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
