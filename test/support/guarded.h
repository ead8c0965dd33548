/* SPDX-License-Identifier: BSD-3-Clause
 * Memory between inaccessible pages: an access beyond its ends crashes. */
#ifndef LIMBER_TEST_GUARDED_H
#define LIMBER_TEST_GUARDED_H

#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

/* Memory between inaccessible pages. */
struct guarded {
    /* map: the mapping with its inaccessible pages, of `all` bytes; data: the memory to use */
    char *map, *data;
    size_t all;
};

/* Allocates `bytes` that end at an inaccessible page (at_end), or begin just after one. */
static inline struct guarded guarded(size_t bytes, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page + page;
    struct guarded g = { .all = inside + 2 * page };

    g.map = mmap(NULL, g.all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + page, inside, PROT_READ | PROT_WRITE), 0);
    g.data = at_end ? g.map + page + inside - bytes : g.map + page;
    return g;
}

static inline void leave_guarded(struct guarded g)
{
    munmap(g.map, g.all);
}

#endif
