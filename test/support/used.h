/* SPDX-License-Identifier: BSD-3-Clause
 * An allocator whose memory is filled with a pattern, as memory in a long-lived program holds old
 * data.  Fresh pages are zero, which would hide reads of uninitialised memory. */
#ifndef LIMBER_TEST_USED_H
#define LIMBER_TEST_USED_H

#include "limber/limber.h"

#include <stdlib.h>
#include <string.h>

/* Allocates memory filled with a pattern, as if it had been used before. */
static inline void *used_alloc(void *user, size_t bytes, size_t alignment)
{
    const size_t whole = (bytes + alignment) / alignment * alignment;
    void *memory = aligned_alloc(alignment, whole);

    (void)user;
    if (memory)
        memset(memory, 0x5a, whole);
    return memory;
}

static inline void used_free(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static inline limber_allocator used_memory(void)
{
    return (limber_allocator){ used_alloc, used_free, NULL };
}

#endif
