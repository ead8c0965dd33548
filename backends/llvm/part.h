/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the files of a launch share: parts (submatrices) of C, and the planes of a
 * convolution's image. */
#ifndef LIMBER_LLVM_PART_H
#define LIMBER_LLVM_PART_H

#include "backends/llvm/llvm.h"
#include "backends/llvm/loaded.h"

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t round_up(int64_t x, int64_t step)
{
    return ceil_div(x, step) * step;
}

/* Rounds an address up to a multiple of 64 bytes, a cache line. */
static inline char *limber_aligned(char *memory)
{
    return (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
}

/* True if the call's workspace limit allows `bytes`.  Sets *to to `bytes`, or to 0 if it does not.
 * `bytes` is a double because padding and dilation may exceed any memory. */
static inline bool limber_workspace_holds(const struct call *c, double bytes, int64_t *to)
{
    bool holds = bytes <= (double)c->workspace_limit && bytes < 0x1p62;

    *to = holds ? (int64_t)bytes : 0;
    return holds;
}

/* Reserves `bytes`, rounded up to a multiple of 64, at *memory and advances *memory.  Returns the
 * address of the reserved bytes. */
static inline char *limber_take_memory(char **memory, int64_t bytes)
{
    char *at = *memory;

    *memory += round_up(bytes, 64);
    return at;
}

/* True if the plan multiplies each line (row or column) of this operand by a power of two. */
static inline bool is_scaled(const struct side *s)
{
    return s->limb_kind != LIMB_KIND_whole && s->limb_kind < LIMB_KIND_unit && s->axis != AXIS_none;
}

/* Numbers of the layouts in which a prepared operand may be packed (struct keeper).  Layouts of
 * panels (parts.c) have the numbers 0 and above; the other layouts have these numbers. */
enum {
    KEPT_strips = -1, /* packed strips of columns of B, for unpacked.c */
    KEPT_rows = -2, /* rows of A gathered in a buffer, for unpacked.c */
    KEPT_windows = -3 /* packed filters, for bytes.c */
};

/* The order in which A's elements are packed along k: [channel / group][tap][channel % group].  The
 * last group is filled up with zeros.  A matrix has one tap and a group of one. */
struct filters {
    /* taps: number of taps of a filter; k: number of elements along k, including those zeros */
    int64_t taps, k;
    int group; /* number of channels in a group */
    /* true if elements lie in memory in another order, so that packing transposes them */
    bool turned;
};

/* State and memory of one part (submatrix) of C, in one allocation. */
struct part {
    const struct kernel *k;
    struct kernel_call call;
    struct planes planes;
    bool copies; /* true if planes hold unchanged elements of the image, not limbs */
    struct filters filters;
    /* a buffer for transposed lines for each worker; NULL if no lines are transposed */
    char *turned;
    /* offset of the buffer for a block of C in a worker's scratch memory; 0 if C is written
     * directly */
    int64_t stage;
    /* bytes of scratch memory per worker or, if `keeps`, per block of C */
    int64_t scratch;
    bool keeps; /* true if scratch memory keeps a block's sums from one part of k to the next */
    char *scratches;
    const struct finisher *finish; /* applies the epilogue to blocks of C; NULL if there is none */
};

/* ---- filters.c ------------------------------------------------------------------------------- */

/* True if A's elements can be transposed into the order of struct filters. */
bool limber_can_transpose_filters(const struct call *c);
/* Returns the order of a call's filters along k.  planes: the image is packed as planes. */
struct filters limber_filter_order(const struct kernel_config *f, const struct call *c,
                                   bool planes);
/* Returns the bytes of a worker's buffer for the transposed lines of one task. */
int64_t limber_transposed_bytes(const struct kernel_config *f, const struct filters *x);
/* Returns the address of the first element of a filter (row of A).  size: bytes per element. */
const char *limber_filter_address(const struct view *v, int64_t line, int size);
/* Transposes one filter into the order of struct filters.  `to` must have room for 64 extra
 * bytes. */
void limber_transpose_filter(const struct filters *x, const struct view *v, int64_t k, int size,
                             int64_t line, char *to);
/* Transposes into `memory` the lines that a task packs.  Returns the call that packs them from
 * there. */
struct kernel_call limber_transposed_call(const struct part *p, int64_t task, char *memory);

/* ---- planes.c -------------------------------------------------------------------------------- */

/* True if the image is packed as planes.  It is not if each window has a scale of its own, or if a
 * sum along k has several chains. */
bool limber_has_planes(const struct kernel_config *f, const struct call *c);
/* Returns the number of channels in a word of a plane; 1 if each channel has a plane of its own. */
int limber_planes_group(const struct kernel_config *f, const struct call *c);
/* Returns the bytes of the planes that n columns of the result read. */
int64_t limber_planes_bytes(const struct kernel_config *f, const struct call *c, int64_t n);
/* Returns the bytes of a worker's panel that is gathered from planes.  k: that of the full
 * product. */
int64_t limber_gathered_panel_bytes(const struct kernel_config *f, int64_t k);
/* Sets up the planes that the columns of a part read, which the packing tasks of operand B fill.
 * Returns the first free byte of memory.  busy: number of workers that can run at once. */
char *limber_planes_begin(const struct kernel_config *f, struct part *p, int busy, char *memory);
/* Runs one of the tasks that fill planes if p->copies is set. */
void limber_planes_task(const struct part *p, int64_t task);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Gets workspace from the memory that the call gives, else from its allocator, else from a buffer
 * that the process keeps. */
bool limber_workspace_take(const struct call *c, size_t bytes, struct launch_memory *r,
                           struct diag *d);
/* Uses the launch's memory or, if given->memory is NULL, gets workspace from
 * limber_workspace_take. */
bool limber_workspace_use_given(const struct call *c, const struct launch_memory *given,
                                size_t bytes, struct launch_memory *r, struct diag *d);
/* Returns workspace that limber_workspace_take provided. */
void limber_workspace_give(const struct call *c, const struct launch_memory *r);
/* Counts a kernel that was loaded. */
void limber_workspace_begin(void);
/* Uncounts a kernel that was unloaded.  After the last one, frees the workspace that the process
 * keeps. */
void limber_workspace_end(void);

/* ---- parts.c --------------------------------------------------------------------------------- */

/* State that all parts of a launch share: prepared operands, complete in lines and in k. */
struct launch_operands {
    const struct call *planes; /* call whose B is packed as planes; NULL if B is packed as panels */
    bool stages; /* true if blocks of C are computed in a buffer and then copied to C */
    struct filters filters;
    struct kept_limbs
        *kept[2]; /* kept limbs of a prepared operand; NULL if each part packs its own */
    struct packed side[2];
    int64_t p; /* first element along k of the current part of k */
    bool last; /* true if the current part of k is the last one */
};

/* Sizes of the parts into which a launch divides C and k. */
struct part_size {
    int64_t m, n, k; /* rows, columns and elements along k of a part */
    /* true: the outer loop is over parts of C and the inner loop over parts of k, and scratch
     * memory keeps the sums.  false: C holds the sums from one part of k to the next, or k is not
     * divided. */
    bool sums;
};

/* The way (code path) of a launch and, for WAY_packed, its division among threads and blocks.
 * call.layout keeps them for later launches that differ only in addresses, scalars, masks (results
 * of scans) and data. */
struct kept_layout {
    enum way_id way;
    bool stores; /* as in struct kernel_call */
    struct launch_operands operands; /* as at the beginning of a launch, with no side prepared */
    struct part_size part;
    int64_t bytes; /* bytes of workspace that the launch needs */
    int64_t mb, nb; /* a block's rows and columns in the first part */
};
/* Returns the way and the division that an earlier launch has kept for this one; NULL if there are
 * none. */
static inline const struct kept_layout *limber_layout_kept(const struct call *c)
{
    return c->layout && !c->launch_memory && !c->dry ?
               __atomic_load_n(c->layout, __ATOMIC_ACQUIRE) :
               NULL;
}
/* Keeps *x for later launches, unless nothing may be kept, something is kept already, or memory
 * runs out. */
void limber_layout_keep(const struct call *c, const struct kept_layout *x);

/* Returns the bytes of one operand's panels.  side: 0 for A, 1 for B. */
int64_t limber_side_bytes(const struct kernel_config *c, int side, int64_t lines, int64_t k);
/* Returns a copy of the call whose views have the fewest possible dimensions. */
struct call limber_straightened(const struct call *c);
/* True if register tiles may be stored to C or to a block's buffer directly, since each element is
 * one chain of sums along k. */
bool limber_can_store_tiles(const struct kernel_config *f, const struct call *c);
/* Returns the initial state of a launch, with no operand prepared. */
struct launch_operands limber_init_launch_operands(const struct kernel_config *f,
                                                   const struct call *c);
/* Returns the size of the parts into which C and k are divided: the first of a sequence of ever
 * smaller sizes whose workspace fits the limit; if none fits, the smallest. */
struct part_size limber_extent_of(const struct kernel_config *f, const struct call *c,
                                  const struct kernel_call *call, const struct launch_operands *w);
/* Returns the workspace in bytes of a launch with this division. */
int64_t limber_extent_bytes(const struct kernel_config *f, const struct call *c,
                            const struct launch_operands *w, const struct part_size *x);
/* Computes all of C.  Allocates all memory before it stores anything, so that a failure leaves C
 * unchanged.  kept: how an earlier launch was divided, or NULL. */
bool limber_parts_run(struct kernel *k, struct call *c, struct kernel_call call,
                      const struct launch_memory *given, const struct kept_layout *kept,
                      struct diag *d);

#endif
