/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that grows with the operands: of the context's allocator, else the system's. */
#define _GNU_SOURCE     /* madvise */
#include "jit/engine.h"

#include "ir/poison.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LINE = 64 };

void *limber_room_take(const limber_context *ctx, size_t bytes)
{
    size_t step = bytes < HUGE_PAGE ? LINE : HUGE_PAGE, all = (bytes + step - 1) / step * step;
    void *memory;

    if (all < bytes)
        return NULL;
    if (ctx->allocator.take) {
        memory = ctx->allocator.take(ctx->allocator.user, bytes, LINE);
    } else {
        memory = aligned_alloc(step, all ? all : step);
        if (memory && step == HUGE_PAGE)
            madvise(memory, all, MADV_HUGEPAGE);
    }
    if (memory)
        limber_poison(memory, bytes);
    return memory;
}

void limber_room_give(const limber_context *ctx, void *memory)
{
    if (memory && ctx->allocator.take)
        ctx->allocator.give(ctx->allocator.user, memory);
    else
        free(memory);
}
