/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of a launch share: parts of C, and planes of a convolution's image. */
#ifndef LIMBER_LLVM_PART_H
#define LIMBER_LLVM_PART_H

#include "backends/llvm/llvm.h"
#include "backends/llvm/loaded.h"

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t round_up(int64_t x, int64_t step)
{
    return ceil_div(x, step) * step;
}

/* Rounds an address up to a cache line. */
static inline char *limber_aligned(char *memory)
{
    return (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
}

/* True if the call's workspace holds `bytes`; then *to = bytes.  In double: padding and dilation
 * may exceed any memory. */
static inline bool limber_workspace_holds(const struct call *c, double bytes, int64_t *to)
{
    bool holds = bytes <= (double)c->workspace_limit && bytes < 0x1p62;

    *to = holds ? (int64_t)bytes : 0;
    return holds;
}

/* Takes the next bytes of a launch's memory, in whole cache lines. */
static inline char *limber_take_memory(char **memory, int64_t bytes)
{
    char *at = *memory;

    *memory += round_up(bytes, 64);
    return at;
}

static inline bool is_scaled(const struct side *s)
{
    return s->limb_kind != LIMB_KIND_whole && s->limb_kind < LIMB_KIND_unit && s->axis != AXIS_none;
}

/* Variants of a prepared operand (struct keeper).  Panels have numbers from 0 (parts.c); the others
 * are: */
enum {
    KEPT_strips = -1, /* unpacked.c: strips of B */
    KEPT_rows = -2, /* unpacked.c: gathered rows of A */
    KEPT_windows = -3 /* bytes.c: packed filters */
};

/* Order of A's elements along k: [channel / group][tap][channel % group]; the last group is padded
 * with zeros.  A matrix has one tap and a group of one. */
struct filters {
    int64_t taps, k; /* k: padding included */
    int group;
    bool turned; /* elements lie in another order and are transposed */
};

/* All that one part of C needs, in one allocation. */
struct part {
    const struct kernel *k;
    struct kernel_call call;
    struct planes planes;
    bool copies; /* planes hold elements of the image unchanged */
    struct filters filters;
    char *turned; /* each worker's buffer for transposed lines; NULL: none are transposed */
    /* offset in a worker's scratch of a buffer for a block of C; 0: C is written directly */
    int64_t stage;
    int64_t scratch; /* bytes of scratch: for each worker or, if `keeps`, for each block */
    bool keeps; /* scratch keeps a block's sums from one part of k to the next */
    char *scratches;
    const struct finisher *finish; /* epilogue of each block of C, or NULL */
};

/* ---- filters.c ------------------------------------------------------------------------------- */

/* True if A's elements can be transposed into the order above. */
bool limber_can_transpose_filters(const struct call *c);
/* Order of a call's filters. planes: the image is packed as planes. */
struct filters limber_filter_order(const struct kernel_config *f, const struct call *c,
                                   bool planes);
/* Bytes of a worker's buffer for transposed lines. */
int64_t limber_transposed_bytes(const struct kernel_config *f, const struct filters *x);
/* Address of a filter's first element; `size` is bytes an element. */
const char *limber_line_at(const struct view *v, int64_t line, int size);
/* Transposes that filter into the order of k.  `to` has room for 64 more bytes. */
void limber_transpose_filter(const struct filters *x, const struct view *v, int64_t k, int size,
                             int64_t line, char *to);
/* Transposes the lines of a task; returns the call that packs them. */
struct kernel_call limber_transposed_call(const struct part *p, int64_t task, char *memory);

/* ---- planes.c -------------------------------------------------------------------------------- */

/* True if the image is packed as planes.  It is not if each window has its own scale, or if k has
 * several chains of sums. */
bool limber_has_planes(const struct kernel_config *f, const struct call *c);
/* Channels in a word of a plane; 1: each channel has a plane of its own. */
int limber_planes_group(const struct kernel_config *f, const struct call *c);
/* Bytes of the planes that n columns of the result see. */
int64_t limber_planes_bytes(const struct kernel_config *f, const struct call *c, int64_t n);
/* Bytes of a worker's panel, which is gathered from planes; k: of the whole product. */
int64_t limber_planes_room(const struct kernel_config *f, int64_t k);
/* Sets up the planes that the columns of a part see; the tasks of side 1 pack them.  Returns the
 * first free byte of memory. */
char *limber_planes_begin(const struct kernel_config *f, struct part *p, int busy, char *memory);
/* Runs one of these tasks, if p->copies. */
void limber_planes_task(const struct part *p, int64_t task);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Takes workspace: the call's own, else the allocator's, else the process's. */
bool limber_workspace_take(const struct call *c, size_t bytes, struct launch_memory *r,
                           struct diag *d);
/* Uses the launch's memory or, if given->memory is NULL, takes workspace. */
bool limber_workspace_reach(const struct call *c, const struct launch_memory *given, size_t bytes,
                            struct launch_memory *r, struct diag *d);
void limber_workspace_give(const struct call *c, const struct launch_memory *r);
/* Count loaded kernels: without any, the process keeps no workspace. */
void limber_workspace_begin(void);
void limber_workspace_end(void);

/* ---- parts.c --------------------------------------------------------------------------------- */

/* State for all parts of a launch: prepared sides, with all their lines and all of k. */
struct whole {
    const struct call *planes; /* call whose B is packed as planes; NULL: as panels */
    bool stages; /* blocks of C are computed in a buffer */
    struct filters filters;
    struct kept *kept[2]; /* prepared limbs; NULL: each part packs its own */
    struct packed side[2];
    int64_t p; /* first element of this part along k */
    bool last; /* this is the last part of k */
};

/* How a launch divides C and k. */
struct extent {
    int64_t m, n, k; /* elements of a part */
    /* loop order: parts of C outside, parts of k inside, and scratch keeps the sums.  Otherwise C
     * holds the sums, or k is not divided */
    bool sums;
};

/* Bytes of a side's panels. */
int64_t limber_side_bytes(const struct kernel_config *c, int side, int64_t lines, int64_t k);
/* Copies the call; its views have the fewest dimensions possible. */
struct call limber_straightened(const struct call *c);
/* True if register tiles may be stored to C, or to a block's buffer: each element is one chain
 * along k. */
bool limber_stores(const struct kernel_config *f, const struct call *c);
/* Fills the structure; no side is prepared yet. */
struct whole limber_whole_of(const struct kernel_config *f, const struct call *c);
/* The first extent that fits the workspace limit, else the smallest. */
struct extent limber_extent_of(const struct kernel_config *f, const struct call *c,
                               const struct kernel_call *call, const struct whole *w);
int64_t limber_extent_bytes(const struct kernel_config *f, const struct call *c,
                            const struct whole *w, const struct extent *x);
/* Computes all of C. Takes all memory before it stores anything. */
bool limber_parts_run(struct kernel *k, struct call *c, struct kernel_call call,
                      const struct launch_memory *given, struct diag *d);

#endif
