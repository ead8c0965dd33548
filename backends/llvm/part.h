/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of a launch share: a part of C, and planes of a convolution's image. */
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

/* The first line of cache that begins at `memory` or behind it. */
static inline char *limber_aligned(char *memory)
{
    return (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
}

/* Whether the call's workspace holds so many bytes, which padding and dilation may make more than
 * any memory has; then *to is their number. */
static inline bool limber_workspace_holds(const struct call *c, double bytes, int64_t *to)
{
    bool holds = bytes <= (double)c->workspace_limit && bytes < 0x1p62;

    *to = holds ? (int64_t)bytes : 0;
    return holds;
}

/* The next bytes of a launch's memory, in whole lines of cache. */
static inline char *limber_take(char **memory, int64_t bytes)
{
    char *at = *memory;

    *memory += round_up(bytes, 64);
    return at;
}

static inline bool is_scaled(const struct side *s)
{
    return s->limb_kind != LIMB_KIND_whole && s->limb_kind < LIMB_KIND_unit && s->axis != AXIS_none;
}

/* What is kept of an operand that is prepared (struct keeper): panels, which have more words than
 * one (parts.c), or one of these. */
enum {
    KEPT_strips = -1, /* unpacked.c: of B, */
    KEPT_rows = -2, /* of A, gathered */
    KEPT_windows = -3 /* bytes.c: filters */
};

/* The order in which k takes the elements of A: [channel / group][tap][channel % group], where the
 * last group may have zeros.  Of matrices there is one tap, and a group of one. */
struct filters {
    int64_t taps, k; /* k: with these zeros */
    int group;
    bool turned; /* they lie otherwise */
};

/* Everything one part of C needs, in one allocation. */
struct part {
    const struct kernel *k;
    struct kernel_call call;
    struct planes planes;
    bool copies; /* planes have elements of the image as they are */
    struct filters filters;
    char *turned; /* where workers turn them; NULL: they lie in their order */
    int64_t stage; /* where in a worker's scratch a block of C is computed; 0: in C */
    int64_t scratch; /* bytes of a worker, or */
    bool keeps; /* of a block: it keeps sums from one part of k to the next */
    char *scratches;
    const struct finisher *finish; /* NULL, or what is done to each block of C */
};

/* ---- filters.c ------------------------------------------------------------------------------- */

/* A's elements can be turned. */
bool limber_can_turn(const struct call *c);
/* planes: the image is packed as planes. */
struct filters limber_filters(const struct kernel_config *f, const struct call *c, bool planes);
/* Of a worker. */
int64_t limber_turned_bytes(const struct kernel_config *f, const struct filters *x);
/* Where line `line` of filters begins, of `size` bytes an element. */
const char *limber_line_at(const struct view *v, int64_t line, int size);
/* That line in the order of k.  `to` has 64 bytes more. */
void limber_turn_line(const struct filters *x, const struct view *v, int64_t k, int size,
                      int64_t line, char *to);
/* A task that packs A, with its lines turned. */
struct kernel_call limber_turned_call(const struct part *p, int64_t task, char *memory);

/* ---- planes.c -------------------------------------------------------------------------------- */

/* Is the image packed as planes?  Not where each window has its own scale, or chains of sums begin
 * anew. */
bool limber_has_planes(const struct kernel_config *f, const struct call *c);
/* Channels that lie side by side in planes, a word of them; 1: planes are of a channel each. */
int limber_planes_group(const struct kernel_config *f, const struct call *c);
/* Of the planes that n columns of the result see. */
int64_t limber_planes_bytes(const struct kernel_config *f, const struct call *c, int64_t n);
/* Where a panel of them is gathered, of a worker; k: of all products. */
int64_t limber_planes_room(const struct kernel_config *f, int64_t k);
/* Planes of what the columns of a part see, ready to be packed by the tasks of side 1; returns
 * where memory is free. */
char *limber_planes_begin(const struct kernel_config *f, struct part *p, int busy, char *memory);
/* One of these tasks, where p->copies. */
void limber_planes_task(const struct part *p, int64_t task);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Workspace: the call's own, else the allocator's, else the process's. */
bool limber_workspace_take(const struct call *c, size_t bytes, struct launch_memory *r,
                           struct diag *d);
/* Uses the memory that was given to the launch or, where given->memory is NULL, takes its own. */
bool limber_workspace_reach(const struct call *c, const struct launch_memory *given, size_t bytes,
                            struct launch_memory *r, struct diag *d);
void limber_workspace_give(const struct call *c, const struct launch_memory *r);
/* A kernel is loaded, or unloaded: without kernels the process keeps no workspace. */
void limber_workspace_begin(void);
void limber_workspace_end(void);

/* ---- parts.c --------------------------------------------------------------------------------- */

/* Sides whose limbs outlive the call, all of their lines and of k. */
struct whole {
    const struct call *planes; /* B's limbs are planes, of this call; NULL: panels */
    bool stages; /* blocks of C are computed in a buffer */
    struct filters filters;
    struct kept *kept[2]; /* NULL: limbs are made part by part */
    struct packed side[2];
    int64_t p; /* where a part begins along k */
    bool last; /* it is the last one */
};

/* How a launch goes through C and k. */
struct extent {
    int64_t m, n, k; /* rows and columns of a part of C; elements along k */
    bool sums; /* for each part of C along k: scratch keeps the sums.  Else C has them, or k is
                  whole */
};

/* Bytes of a side's panels. */
int64_t limber_side_bytes(const struct kernel_config *c, int side, int64_t lines, int64_t k);
/* The call with its operands' views straightened. */
struct call limber_straightened(const struct call *c);
/* Register tiles may be stored to C, or to the buffer of a block: chains end with k. */
bool limber_stores(const struct kernel_config *f, const struct call *c);
/* No limbs are kept yet. */
struct whole limber_whole_of(const struct kernel_config *f, const struct call *c);
/* The first extent that fits the bound of the workspace, else the smallest. */
struct extent limber_extent_of(const struct kernel_config *f, const struct call *c,
                               const struct kernel_call *call, const struct whole *w);
int64_t limber_extent_bytes(const struct kernel_config *f, const struct call *c,
                            const struct whole *w, const struct extent *x);
/* All of C, part by part.  All memory is taken before anything is stored. */
bool limber_parts_run(struct kernel *k, struct call *c, struct kernel_call call,
                      const struct launch_memory *given, struct diag *d);

#endif
