/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that grows with the operands: from the context's allocator, else from malloc. */
#define _GNU_SOURCE /* madvise */
#include "jit/runtime/runtime.h"

#include "ir/poison.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LINE = 64 };

/* Allocates bytes aligned to a cache line, or to huge pages if there are enough of them, by the
 * caller's allocator if there is one.  NULL if there is no memory. */
void *limber_memory_alloc(const limber_allocator *a, size_t bytes)
{
    size_t step = bytes < HUGE_PAGE ? LINE : HUGE_PAGE, all = (bytes + step - 1) / step * step;
    void *memory;

    if (all < bytes)
        return NULL;
    if (a->alloc) {
        memory = a->alloc(a->user, bytes, LINE);
    } else {
        memory = aligned_alloc(step, all ? all : step);
        if (memory && step == HUGE_PAGE)
            madvise(memory, all, MADV_HUGEPAGE);
    }
    if (memory)
        limber_poison(memory, bytes);
    return memory;
}

/* Frees memory that limber_memory_alloc returned; NULL is allowed. */
void limber_memory_free(const limber_allocator *a, void *memory)
{
    if (memory && a->alloc)
        a->free(a->user, memory);
    else
        free(memory);
}
