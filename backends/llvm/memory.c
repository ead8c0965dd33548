/* SPDX-License-Identifier: BSD-3-Clause
 * Workspace of launches. */
#include "backends/llvm/part.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A workspace that is kept for the next call of any kernel, since fresh memory costs one page fault
 * per page.  At most one unused workspace is kept, and only while a kernel is loaded. */
struct spare {
    size_t size;
    char memory[];
};
enum {
    /* a workspace of at most this many bytes is always kept */
    SPARE_MOST = 256 << 20,
    /* a larger workspace is kept if it has at most this many bytes per worker */
    SPARE_EACH = 16 << 20,
    HUGE_PAGE = 2 << 20
};

/* the unused workspace that is kept, or NULL */
static _Atomic(struct spare *) spare_kept;
/* number of loaded kernels */
static atomic_size_t kernels;

/* Returns the kept workspace if it is large enough.  Otherwise frees it and allocates a new one, in
 * huge pages if it is large.  Returns NULL if memory is short. */
static struct spare *take_spare(size_t size)
{
    struct spare *s = atomic_exchange(&spare_kept, NULL);
    size_t all = (sizeof *s + size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

    if (s && s->size >= size)
        return s;
    free(s);
    if (size < HUGE_PAGE) {
        s = malloc(sizeof *s + size);
    } else if ((s = aligned_alloc(HUGE_PAGE, all))) {
        madvise(s, all, MADV_HUGEPAGE);
        size = all - sizeof *s;
    }
    if (s)
        s->size = size;
    return s;
}

/* Keeps a workspace in place of the one kept so far, if its size is within the limits; else frees
 * it. */
static void return_spare(struct spare *s, int workers)
{
    struct spare *old = NULL;

    if (s->size <= SPARE_MOST || s->size <= (size_t)workers * SPARE_EACH)
        old = atomic_exchange(&spare_kept, s);
    else
        old = s;
    free(old);
}

/* Gets workspace for a call: the workspace of the caller's queue if it has one, else memory from
 * the caller's allocator if there is one, else a buffer that the process keeps.  Returns false with
 * an error if memory is short. */
bool limber_workspace_take(const struct call *c, size_t bytes, struct launch_memory *r,
                           struct diag *d)
{
    struct spare *spare;

    *r = (struct launch_memory){ .bytes = bytes };
    if (c->queue && c->queue->workspace) {
        if (bytes > c->queue->bytes)
            return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                               "a workspace of %zu bytes is needed, and "
                               "queue.workspace has %zu",
                               bytes, c->queue->bytes);
        r->memory = c->queue->workspace;
    } else if (c->allocator) {
        r->memory = r->own = c->allocator->alloc(c->allocator->user, bytes, 64);
    } else if ((r->own = spare = take_spare(bytes))) {
        r->memory = spare->memory;
    }
    return r->memory || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "workspace of %zu bytes", bytes);
}

/* Uses the launch's memory or, if given->memory is NULL, gets workspace from limber_workspace_take.
 */
bool limber_workspace_use_given(const struct call *c, const struct launch_memory *given,
                                size_t bytes, struct launch_memory *r, struct diag *d)
{
    if (!given->memory)
        return limber_workspace_take(c, bytes, r, d);
    *r = *given;
    return bytes <= given->bytes ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                       "a launch needs %zu bytes, and %zu were taken for it", bytes, given->bytes);
}

/* Gives back the workspace that limber_workspace_take provided. */
void limber_workspace_give(const struct call *c, const struct launch_memory *r)
{
    if (r->own && c->allocator)
        c->allocator->free(c->allocator->user, r->own);
    else if (r->own)
        return_spare(r->own, c->runner->workers);
}

/* Counts a kernel that was loaded. */
void limber_workspace_begin(void)
{
    atomic_fetch_add(&kernels, 1);
}

/* Uncounts a kernel that was unloaded. */
void limber_workspace_end(void)
{
    if (atomic_fetch_sub(&kernels, 1) == 1)
        free(atomic_exchange(&spare_kept, NULL));
}
